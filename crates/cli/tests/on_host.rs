//! `run --on host`, with a stub for a benchmark, on the live host where it can be had.

use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use schedcast_base::assert_contains;
use schedcast_host::CpuCgroup;

/// Each group takes all real-time time there is, so only one can be there at a time.
static GROUP: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    GROUP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Burns some 150 ms.
const STUB: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo Time: 1";

/// Output of `schedcast`, and the path of the group that it made while it ran.
fn schedcast(words: &[&str]) -> (Output, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_schedcast"))
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = format!("/schedcast-{}", child.id());
    (child.wait_with_output().unwrap(), group)
}

/// Why groups cannot be made here, if they cannot.
fn no_groups() -> Option<String> {
    let name = format!("schedcast-test-{}", std::process::id());
    let made = CpuCgroup::create("/", &name).and_then(CpuCgroup::close);
    made.err().map(|error| error.to_string())
}

#[test]
fn a_stub_runs_in_a_limited_group_of_its_own() {
    let _alone = alone();
    if let Some(why) = no_groups() {
        eprintln!("skipped: {why}");
        return;
    }
    let limit = "cpu.max=20000 100000";
    let words = ["run", "--on", "host", "--cgroup", "/few", "--set", limit];
    let more = ["--seeds", "2", "--json", "-", "--", "sh", "-c", STUB];
    let (output, group) = schedcast(&[&words[..], &more[..]].concat());
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(output.status.code(), Some(0), "{err}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let column = &json["variants"][0];
    assert_eq!(column["name"], "host");
    let of = |metric: &str| -> Vec<f64> {
        let samples = column["metrics"][metric]["samples"].as_array();
        let samples = samples.unwrap_or_else(|| panic!("no {metric}: {out}"));
        samples.iter().filter_map(|value| value.as_f64()).collect()
    };
    for metric in ["sh/time", "sh/cpu_time"] {
        let values = of(metric);
        assert!(
            matches!(values[..], [one, other] if one.min(other) > 0.0),
            "{metric}: {out}"
        );
    }
    assert_eq!(of("sh/switches").len(), 2);
    // Whatever the speed of this host, it uses its 20 ms up long before 400,000 rounds are over.
    let throttled = of("cgroup:/few/nr_throttled");
    assert!(throttled.iter().all(|count| *count >= 1.0), "{out}");
    let throttled = of("cgroup:/few/throttled_usec");
    assert!(throttled.iter().all(|time| *time > 0.0), "{out}");
    assert!(CpuCgroup::open(&group).is_err(), "{group} was left behind");
}

#[test]
fn a_program_that_fails_is_an_error_and_leaves_nothing_behind() {
    let _alone = alone();
    if let Some(why) = no_groups() {
        eprintln!("skipped: {why}");
        return;
    }
    let words = ["run", "--on", "host", "--seeds", "1", "--", "sh", "-c"];
    let (output, group) = schedcast(&[&words[..], &["echo out of tune; exit 3"]].concat());
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert_contains(&err, ["ended with 3", "out of tune"]);
    assert!(CpuCgroup::open(&group).is_err(), "{group} was left behind");
}

fn refused(words: &[&str]) -> String {
    let (output, _) = schedcast(words);
    assert_ne!(output.status.code(), Some(0), "{words:?}");
    assert!(output.stdout.is_empty(), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn what_cannot_run_for_real_is_refused() {
    let missing = refused(&["run", "--on", "host", "--", "no-such-tool", "-x"]);
    assert_contains(&missing, "`no-such-tool` is not installed");
    let many = ["run", "--on", "host,sim", "--cpus", "511"];
    let cpus = refused(&[&many[..], &["--", "hackbench"]].concat());
    assert!(cpus.contains("511 CPUs and this host has"), "{cpus}");
    let words = ["run", "--on", "host", "--format", "tool", "--", "hackbench"];
    let tool = refused(&words);
    assert!(tool.contains("a run for real prints a table"), "{tool}");
    let where_ = refused(&["run", "--on", "hots", "--", "hackbench"]);
    assert_contains(&where_, "expected sim, host or vm:VERSION");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("exp.toml");
    let text = "[cgroup.\"/a\"]\n\"cpu.max\" = 50000\n[[program]]\nrun = \"sh\"\ncgroup = \"/a\"\n\
                [[at]]\ntime = \"1s\"\n[at.cgroup.\"/a\"]\n\"cpu.max\" = 70000\n";
    std::fs::write(&file, text).unwrap();
    let changes = refused(&["run", &file.display().to_string(), "--on", "host"]);
    assert!(changes.contains("changes while programs run"), "{changes}");
}

#[test]
fn flags_for_what_is_simulated_are_refused_where_nothing_is() {
    for (flag, value) in [
        ("--kernel", "6.12"),
        ("--machine", "dev-vm"),
        ("--hz", "250"),
    ] {
        let (output, _) = schedcast(&["run", "--on", "host", flag, value, "--", "true"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let expected = format!("error: `{flag}` changes nothing of a host\n");
        assert!(said.starts_with(&expected), "{said}");
    }
}
