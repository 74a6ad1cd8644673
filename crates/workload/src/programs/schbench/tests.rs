use super::super::tests::{ended, run};
use schedcast_base::assert_in;

#[test]
fn schbench_computes_under_the_lock_of_its_cpu() {
    let ran = ended("schbench -m 1 -t 4 -r 3", 4, 10);
    // 104³ steps, 5 times, 0.8 ns each are 4.5 ms; with 150 µs of sleep 4.65 ms.
    assert_in!(ran.metric("schbench/request_latency.p50"), 4600.0..4800.0);
    assert_in!(ran.metric("schbench/rps"), 820.0..870.0);
    let report = ran.report();
    for part in [
        "Wakeup Latencies percentiles (usec) runtime 3 (s) (",
        "Request Latencies percentiles (usec) runtime 3 (s) (",
        "RPS percentiles (requests) runtime 3 (s) (4 total samples)",
        "\t* 99.0th: ",
        "\t* 50.0th: ",
        "average rps: ",
        "sched delay: message ",
    ] {
        assert!(report.contains(part), "{part} in {report}");
    }
}

#[test]
fn schbench_sends_its_requests_at_the_begin_of_each_second() {
    let ran = ended("schbench -m 2 -t 2 -r 4 -R 100 -n 1", 4, 10);
    assert_in!(ran.metric("schbench/requests"), 400.0..=500.0);
}

#[test]
fn schbench_forgets_its_warm_up() {
    let count = |line: &str| run(line, 2, 40).metric("schbench/request_latency.count");
    let whole = count("schbench -t 2 -r 30 -n 20");
    let warm = count("schbench -t 2 -r 30 -n 20 -w 10");
    let zeroed = count("schbench -t 2 -r 30 -n 20 -z 20");
    assert!((warm / whole - 2.0 / 3.0).abs() < 0.02, "{warm} of {whole}");
    assert_in!(zeroed / whole, 1.0 / 3.0 - 0.02..1.0 / 3.0 + 0.02);
}
