//! Promises that no run can be held against are refused before anything is simulated.

mod command;

use std::time::{Duration, Instant};

use command::{schedcast, text};
use schedcast_base::assert_contains;

/// So many seeds would take hours.
const SEEDS: &str = "100000";
const RECORDING: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/postgres-quota"
);

/// Standard error of a command about a recording that must end with this code.
fn refused(code: i32, verb: &str, recording: &str, words: &[&str]) -> String {
    let begin = Instant::now();
    let output = schedcast(&[&[verb, recording], words].concat());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(begin.elapsed() < Duration::from_secs(60));
    told
}

#[test]
fn a_slip_in_a_promise_is_told_at_once() {
    for (promise, wrong, near) in [
        ("postgrez/p99<80ms", "program `postgrez`", "`postgres`"),
        ("activation_latency.p98<80ms", "latency.p98", "`p90`"),
        ("cgroup:/pgg/nr_throttled<3", "cgroup `/pgg`", "`/pg`"),
    ] {
        for verb in ["check", "advise"] {
            let words = ["--slo", promise, "--seeds", SEEDS];
            let told = refused(2, verb, RECORDING, &words);
            assert_contains(&told, [wrong, near, "--> --slo:1:1"]);
        }
    }
}

/// So are metrics to show and to follow.
#[test]
fn a_metric_that_nothing_here_has_is_told_at_once() {
    for (verb, words, said, near) in [
        (
            "what-if",
            ["--metric", "postgrs*"],
            "like `postgrs*`",
            "`postgres`",
        ),
        (
            "what-if",
            ["--metric", "nosuch*"],
            "like `nosuch*`",
            "valid names are",
        ),
        (
            "what-if",
            ["--kernel=6.12", "--bisect=postgrs/cpu_time"],
            "program `postgrs`",
            "`postgres`",
        ),
        (
            "upgrade",
            ["--to=6.12", "--follow=postgrs/cpu_time"],
            "program `postgrs`",
            "`postgres`",
        ),
    ] {
        let words = [&words[..], &["--seeds", SEEDS]].concat();
        assert_contains(refused(2, verb, RECORDING, &words), [said, near]);
    }
}

/// The recording has two notes, which would stand in front of the slip.
#[test]
fn notes_on_a_recording_do_not_hide_a_slip() {
    for (verb, words, said) in [
        ("check", ["--slo", "p99<80"], "has no unit"),
        ("what-if", ["--set", "CPUQuota=60%"], "cpu.max=60%"),
        (
            "what-if",
            ["--set", "memory.max=1G"],
            "no part in scheduling",
        ),
    ] {
        let told = refused(2, verb, RECORDING, &words);
        assert!(told.contains(said) && !told.contains("note:"), "{told}");
    }
}

/// 113.3 ms is the p95 that the recording shows; 200 ms is the next round number.
#[test]
fn without_a_promise_one_that_fits_the_recording_is_named() {
    for verb in ["check", "advise"] {
        for promise in [&[][..], &["--slo"], &["--slo="]] {
            let told = refused(2, verb, RECORDING, promise);
            let such_as = "such as --slo 'p95<200ms'";
            assert_contains(
                &told,
                ["error: nothing is promised", such_as, "p95 113.303 ms"],
            );
        }
    }
}

/// A gate on a name that was typed wrongly would be green for ever.
#[test]
fn a_group_without_threads_keeps_no_promise() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["recording.json", "trace.txt.gz", "requests.csv"] {
        let from = std::path::Path::new(RECORDING).join(file);
        std::fs::copy(from, folder.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(format!("{RECORDING}/cgroups.json")).unwrap();
    let mut groups: serde_json::Value = serde_json::from_str(&text).unwrap();
    for side in ["before", "after"] {
        let mut empty = groups[side]["/pg"].clone();
        empty["tasks"] = serde_json::json!([]);
        groups[side]["/empty"] = empty;
    }
    std::fs::write(folder.path().join("cgroups.json"), groups.to_string()).unwrap();
    for promise in ["throttled_ratio<5%", "p95<80ms"] {
        for verb in ["check", "advise"] {
            let words = ["--cgroup", "/empty", "--slo", promise, "--seeds", SEEDS];
            let told = refused(3, verb, folder.path().to_str().unwrap(), &words);
            assert_contains(&told, "no thread of `/empty` ran");
        }
    }
}
