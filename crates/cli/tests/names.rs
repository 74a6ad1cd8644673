//! Groups by their names on the running kernel: a node of kind, made of cgroups and processes of
//! equal names. Skips, saying why, where the host cannot do it.

mod command;

use std::path::Path;
use std::process::{Child, Command};

use command::{answer, schedcast, text};
use schedcast_base::assert_contains;
use schedcast_host::{CpuCgroup, testing};
use serde_json::Value;

/// A container with a limit and a thread that computes in it; its pod is told by the name of its
/// host.
struct Container {
    groups: Vec<CpuCgroup>,
    child: Child,
    id: String,
}

impl Container {
    fn new(kubepods: &CpuCgroup, pod: &str, quota_us: u32) -> Container {
        let number = std::process::id();
        let uid = format!("{pod}-uid-{number}");
        let id = format!("{quota_us:0>8x}{number:0>56x}");
        let pod_group = kubepods.create_child(&format!("pod{uid}")).unwrap();
        let group = pod_group.create_child(&id).unwrap();
        group
            .apply("cpu.max", &format!("{quota_us} 100000"))
            .unwrap();
        let join = format!("echo $$ > {}/cgroup.procs", group.dir().display());
        let child = Command::new("sh")
            .args(["-c", &format!("{join}; while :; do :; done")])
            .env("HOSTNAME", pod)
            .spawn()
            .unwrap();
        Container {
            groups: vec![group, pod_group],
            child,
            id,
        }
    }

    fn short(&self) -> &str {
        &self.id[..12]
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for group in self.groups.drain(..) {
            let _ = group.close();
        }
    }
}

#[test]
fn on_a_node_of_equal_names_top_record_and_advise_take_the_right_container() {
    if !testing::has_groups() {
        return;
    }
    let number = std::process::id();
    let node = CpuCgroup::create("/", &format!("kubepods-test-{number}")).unwrap();
    let burstable = node.create_child("burstable").unwrap();
    let (narrow_pod, wide_pod) = (format!("checkout-a{number}"), format!("checkout-b{number}"));
    let narrow = Container::new(&burstable, &narrow_pod, 10_000);
    let wide = Container::new(&burstable, &wide_pod, 30_000);

    let shown = answer("top --json - --interval 0.5", &[]);
    let table: Value = serde_json::from_str(&shown).unwrap();
    for (container, pod, quota_us) in [(&narrow, &narrow_pod, 10_000), (&wide, &wide_pod, 30_000)] {
        let label = format!("{pod}/{}", container.short());
        let mut rows = table["groups"].as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == label.as_str());
        let row = row.unwrap_or_else(|| panic!("no {label} in {table:#}"));
        assert_eq!(row["quota_us"], quota_us);
        assert_eq!(row["command"], "sh");
        // A busy machine may give the group less than its quota, so that nothing is throttled.
        assert!(row["nr_periods"].as_u64().unwrap() > 0, "{row:#}");
    }

    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let at = recording.to_str().unwrap();
    let recorded = schedcast(&["record", "-o", at, "--pod", &wide_pod, "--seconds", "1"]);
    if text(&recorded.stderr).contains("tracing") {
        eprintln!("skipped: {}", text(&recorded.stderr));
        return;
    }
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let next = format!("next: schedcast what-if {at} --pod {wide_pod}\n");
    let said = text(&recorded.stdout);
    assert!(said.ends_with(&next), "{said}");
    let kept = kept(&recording);
    assert_eq!(kept["title"], wide_pod.as_str());
    // The neighbour is there with its name, and the group that was named is known.
    let described = kept["names"].as_object().unwrap();
    let is_named = |pod: &str| described.values().any(|names| names["pod"] == pod);
    assert!(is_named(&wide_pod) && is_named(&narrow_pod));
    let asked = kept["cgroup"].as_str().unwrap();
    assert_eq!(described[asked]["pod"], wide_pod.as_str());

    let advise = |words: &[&str]| {
        let line = format!("advise {at} --slo nr_throttled<=2 --seeds 2 --duration 300ms --force");
        schedcast(&[&line.split(' ').collect::<Vec<_>>()[..], words].concat())
    };
    for words in [["--container", wide.short()], ["--cgroup", &wide.id]] {
        let advised = advise(&words);
        let (said, complaints) = (text(&advised.stdout), text(&advised.stderr));
        assert!(matches!(advised.status.code(), Some(0 | 1)), "{complaints}");
        assert_contains(&said, &format!("target {wide_pod}/{}", wide.short()));
    }
    // Its neighbour is in the recording, too.
    let other = advise(&["--container", narrow.short()]);
    let said = text(&other.stdout);
    assert_contains(&said, &format!("target {narrow_pod}/{}", narrow.short()));
    let both = advise(&["--container", wide.short(), "--pod", &wide_pod]);
    assert_eq!(both.status.code(), Some(2));
}

fn kept(recording: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(recording.join("recording.json")).unwrap()).unwrap()
}
