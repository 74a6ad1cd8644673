//! Promises that no run can be held against are refused before anything is simulated.

use std::process::Command;
use std::time::{Duration, Instant};

/// So many seeds would take hours.
const SEEDS: &str = "100000";

#[test]
fn a_slip_in_a_promise_is_told_at_once() {
    let recording = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    for (promise, wrong, near) in [
        ("postgrez/p99<80ms", "program `postgrez`", "`postgres`"),
        (
            "activation_latency.p98<80ms",
            "activation_latency.p98",
            "`p90`",
        ),
        ("cgroup:/pgg/nr_throttled<3", "cgroup `/pgg`", "`/pg`"),
    ] {
        for verb in ["check", "advise"] {
            let begin = Instant::now();
            let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
                .args([verb, recording, "--slo", promise, "--seeds", SEEDS])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{told}");
            assert!(told.contains(wrong) && told.contains(near), "{told}");
            assert!(told.contains("--> --slo:1:1"), "{told}");
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
    }
}

/// The recording has two notes, which would stand in front of the slip.
#[test]
fn notes_on_a_recording_do_not_hide_a_slip() {
    let recording = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    for (words, said) in [
        (["check", recording, "--slo", "p99<80"], "has no unit"),
        (
            ["what-if", recording, "--set", "CPUQuota=60%"],
            "cpu.max=60%",
        ),
        (
            ["what-if", recording, "--set", "memory.max=1G"],
            "no part in scheduling",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
            .args(words)
            .output();
        let told = output.unwrap().stderr;
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains(said) && !told.contains("note:"), "{told}");
    }
}

/// 113.3 ms is the p95 that the recording shows; 200 ms is the next round number.
#[test]
fn without_a_promise_one_that_fits_the_recording_is_named() {
    let recording = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    for verb in ["check", "advise"] {
        for promise in [&[][..], &["--slo"], &["--slo="]] {
            let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
                .args([verb, recording])
                .args(promise)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(told.contains("error: nothing is promised"), "{told}");
            assert!(told.contains("such as --slo 'p95<200ms'"), "{told}");
            assert!(told.contains("p95 113.303 ms"), "{told}");
        }
    }
}

/// A gate on a name that was typed wrongly would be green for ever.
#[test]
fn a_group_without_threads_keeps_no_promise() {
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../recordings/postgres-quota"
    );
    let folder = tempfile::tempdir().unwrap();
    for file in ["recording.json", "trace.txt.gz", "requests.csv"] {
        let from = std::path::Path::new(shipped).join(file);
        std::fs::copy(from, folder.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(format!("{shipped}/cgroups.json")).unwrap();
    let mut groups: serde_json::Value = serde_json::from_str(&text).unwrap();
    for side in ["before", "after"] {
        let mut empty = groups[side]["/pg"].clone();
        empty["tasks"] = serde_json::json!([]);
        groups[side]["/empty"] = empty;
    }
    std::fs::write(folder.path().join("cgroups.json"), groups.to_string()).unwrap();
    for promise in ["throttled_ratio<5%", "p95<80ms"] {
        for verb in ["check", "advise"] {
            let output = Command::new(env!("CARGO_BIN_EXE_schedcast"))
                .arg(verb)
                .arg(folder.path())
                .args(["--cgroup", "/empty", "--slo", promise, "--seeds", SEEDS])
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{told}");
            assert!(told.contains("no thread of `/empty` ran"), "{told}");
        }
    }
}
