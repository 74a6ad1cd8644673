//! `record` with the rights that a container has: exactly two capabilities, a read-only root, no
//! tracefs, and what each missing thing is answered with. Nothing is left behind. Skips, saying
//! why, without root or the program unshare.
//!
//! A mount namespace of its own stands for the container. The manifest that asks for these rights
//! is `packaging/kubectl/daemonset-bpf.yaml`.

mod command;

use std::path::Path;
use std::process::{Command, Output};

use command::{answer, text};
use schedcast_base::assert_contains;
use schedcast_host::sys;
use schedcast_trace::Recording;

/// Recordings of the container: a file system of its own.
const OUT: &str = "/mnt";
/// Nothing but /mnt can be written, and /sys is that of a container: with cgroups, without tracefs.
const CONTAINER: &str = "mount --rbind /sys/fs/cgroup /srv && mount -t sysfs -o ro sysfs /sys && \
    mount --rbind /srv /sys/fs/cgroup && mount -t tmpfs tmpfs /mnt && \
    mount -o remount,bind,ro /";
const TWO: &str = ",+bpf,+perfmon";

fn is_possible() -> bool {
    let mut unshare = Command::new("unshare");
    let made = unshare.args(["--mount", "--net", "true"]).status();
    let possible = sys::is_root() && made.is_ok_and(|status| status.success());
    if !possible {
        eprintln!("skipped: not root, or no mount namespace can be made");
    }
    possible
}

/// Runs `schedcast` with the words in a container that `prepare` made, with these capabilities of
/// root's, then copies what is in /mnt to `out`.
fn contained(prepare: &str, capabilities: &str, words: &str, out: &Path) -> Output {
    let script = format!(
        "{prepare} || exit 99
        setpriv --bounding-set=-all{capabilities} --inh-caps=-all --no-new-privs {words}
        code=$?
        cp -r {OUT}/. \"$1\" 2>/dev/null
        exit $code"
    );
    // The copy needs a folder that can be written: the container's root is read-only.
    let keep = "mount --bind \"$1\" \"$1\"";
    let schedcast = env!("CARGO_BIN_EXE_schedcast");
    let script = script.replace("schedcast ", &format!("{schedcast} "));
    Command::new("unshare")
        .args(["--mount", "--net", "--propagation", "private", "sh", "-c"])
        .args([&*format!("{keep}\n{script}"), "sh"])
        .arg(out)
        .output()
        .unwrap()
}

/// The refusal, after a look that nothing is left in /mnt.
fn refused(prepare: &str, capabilities: &str, words: &str) -> String {
    let out = tempfile::tempdir().unwrap();
    let done = contained(prepare, capabilities, words, out.path());
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}{}", text(&done.stdout));
    let left = std::fs::read_dir(out.path()).unwrap().count();
    assert_eq!(left, 0, "left behind after: {said}");
    said
}

#[test]
fn two_capabilities_are_enough_to_record_in_a_read_only_root_without_tracefs() {
    if !is_possible() {
        return;
    }
    let manifest = include_str!("../../../packaging/kubectl/daemonset-bpf.yaml");
    for line in [
        "capabilities: {drop: [ALL], add: [BPF, PERFMON]}",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
    ] {
        assert!(manifest.contains(line), "the manifest asks for: {line}");
    }
    let found = answer("self check --json -", &[]);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let facilities = found["facilities"].as_array().unwrap();
    let bpf = facilities.iter().find(|one| one["what"] == "bpf").unwrap();
    if bpf["state"] != "yes" {
        eprintln!("skipped: {bpf}");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let record = "schedcast record -o /mnt/r --duration 500ms";
    let done = contained(CONTAINER, TWO, record, out.path());
    let said = text(&done.stdout) + &text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert_contains(&said, "recorded by bpf: tracefs is not available here");
    let recording = Recording::open(&out.path().join("r")).unwrap();
    assert!(recording.counts.events > 10, "{:?}", recording.counts);
}

#[test]
fn a_missing_capability_is_named() {
    if !is_possible() {
        return;
    }
    let record = "schedcast record --by bpf -o /mnt/r --duration 500ms";
    let one = refused(CONTAINER, ",+bpf", record);
    assert!(one.contains("it needs CAP_PERFMON"), "{one}");
    let none = refused(CONTAINER, "", "schedcast record -o /mnt/r --duration 500ms");
    for way in [
        "tracefs",
        "it needs CAP_BPF and CAP_PERFMON",
        "run it as root, or with",
    ] {
        assert_contains(&none, way);
    }
}

#[test]
fn a_kernel_without_types_or_locked_down_is_named_with_what_would_help() {
    if !is_possible() {
        return;
    }
    let record = "schedcast record --by bpf -o /mnt/r --duration 500ms";
    let types = format!("mount -t tmpfs tmpfs /sys/kernel/btf && {CONTAINER}");
    let mounts = "mount -t sysfs -o ro sysfs /sys && mount --rbind /srv /sys/fs/cgroup && ";
    let types = types.replace(mounts, "");
    let said = refused(&types, TWO, record);
    assert!(said.contains("CONFIG_DEBUG_INFO_BTF=y"), "{said}");
    let locked = "mount -t tmpfs tmpfs /mnt && mount -t tmpfs tmpfs /sys/kernel/security && \
        echo 'none integrity [confidentiality]' > /sys/kernel/security/lockdown";
    for way in ["bpf", "tracefs"] {
        let said = refused(locked, ",+all", &record.replace("bpf", way));
        assert_contains(&said, "lockdown=integrity at boot would allow it");
    }
}

#[test]
fn a_full_disk_and_a_read_only_folder_end_a_recording_and_nothing_is_left() {
    if !is_possible() {
        return;
    }
    // Formats of events take 40 kB; the events of half a second do not fit behind them.
    let full = "mount -t tmpfs -o size=64k tmpfs /mnt";
    for way in ["--by tracefs", "--by bpf"] {
        let words = format!("schedcast record {way} -o /mnt/r --duration 60s");
        let said = refused(full, ",+all", &words);
        assert!(said.contains("No space left on device"), "{said}");
        assert_contains(&said, "name a folder on a disk with more room");
    }
    let tiny = "mount -t tmpfs -o size=4k tmpfs /mnt";
    let words = "schedcast record --unprivileged --every 1 -o /mnt/r --duration 60s";
    let said = refused(tiny, "", words);
    assert!(said.contains("No space left on device"), "{said}");
    let words = "schedcast record -o /opt/schedcast-record --duration 500ms";
    let said = refused(CONTAINER, TWO, words);
    assert_contains(&said, ["Read-only file system", "on a mounted volume"]);
    assert!(!Path::new("/opt/schedcast-record").exists());
}
