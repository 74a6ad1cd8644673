use super::super::tests::{ended, run};
use schedcast_base::{assert_ends, assert_in};

#[test]
fn stress_ng_does_its_operations_and_no_more() {
    let line = "stress-ng --cpu 2 --cpu-ops 400 --cpu-method fft --metrics-brief";
    let ran = ended(line, 2, 10);
    // 200 operations of 365 µs a worker are 73 ms.
    assert_in!(ran.metric("stress-ng/operations"), 400.0..404.0);
    assert_in!(ran.metric("stress-ng/time"), 0.073..0.076);
    let report = ran.report();
    assert!(
        report.contains(
            "stress-ng: metrc: [1] cpu                 401      0.07      0.15      0.00"
        ),
        "{report}"
    );
    assert_ends(&report, "successful run completed in 0.07s\n");
}

#[test]
fn stress_ng_ends_on_time_and_keeps_its_load() {
    for (line, share) in [
        ("stress-ng --cpu 1 -t 5", 1.0),
        (
            "stress-ng --cpu 1 -t 5 --cpu-load 40 --cpu-method int64",
            0.4,
        ),
        (
            "stress-ng --cpu 1 -t 5 --cpu-load 25 --cpu-load-slice 10",
            0.25,
        ),
        (
            "stress-ng --cpu 1 -t 30 --cpu-load 50 --cpu-load-slice 0",
            0.5,
        ),
        ("stress-ng --cpu 1 -t 5 --cpu-load 0", 0.0),
    ] {
        let ran = ended(line, 2, 40);
        let time = ran.metric("stress-ng/time");
        let expected = if line.contains("30") { 30.0 } else { 5.0 };
        // A slice in which the alarm comes is followed by its whole rest: up to half a second for
        // random slices.
        let rest = if line.ends_with("slice 0") { 0.5 } else { 0.03 };
        assert_in!(time - expected, -0.001..rest, "{line}: {time}");
        let used = ran.metric("stress-ng/cpu_time") / time;
        let slack = if line.ends_with("slice 0") { 0.1 } else { 0.02 };
        assert!((used - share).abs() < slack, "{line}: {used}");
    }
}

/// Two workers at half load on one CPU take turns while both compute, and rest as long as they ran
/// themselves, not as long as their slices took. The real ones used 0.68 to 0.71 of the CPU in
/// three runs of either line.
#[test]
fn stress_ng_rests_for_the_time_it_ran_itself() {
    for line in [
        "stress-ng --cpu 2 --cpu-load 50 --taskset 0 -t 20",
        "stress-ng --cpu 2 --cpu-load 50 --cpu-load-slice 20 --taskset 0 -t 20",
    ] {
        let ran = run(line, 2, 40);
        let time = ran.metric("stress-ng/time");
        let used = ran.metric("stress-ng/cpu_time") / time;
        assert!((0.66..0.74).contains(&used), "{line}: {used}");
    }
}
