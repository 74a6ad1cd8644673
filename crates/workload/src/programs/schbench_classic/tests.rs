use super::super::tests::ended;
use schedcast_base::assert_contains;

#[test]
fn classic_schbench_posts_two_requests_every_200_ms() {
    let ran = ended("schbench-classic -m 1 -t 3 -r 20 -c 80000 -R 10", 4, 25);
    // One round every 200 ms and some 57 µs: 99 begin within 20 s, and one more is posted after
    // main has said stop, before the message thread looks.
    let count = ran.metric("schbench-classic/request_latency.count");
    assert!((198.0..=200.0).contains(&count), "{count}");
    // Nothing is in the way: woken within 20 µs.
    let p99 = ran.metric("schbench-classic/request_latency.p99");
    assert!((1.0..20.0).contains(&p99), "{p99}");
    let cpu_s = ran.metric("schbench-classic/cpu_time");
    assert!((cpu_s - count * 0.08).abs() < 0.1, "{cpu_s}");
    let report = ran.report();
    assert!(report.starts_with("Latency percentiles (usec)\n\t50.0000th: "));
    assert_contains(&report, ["\t*99.0000th: ", "\tmin=0, max="]);
    assert_contains(&report, ["rps: 9.", "p95/cputime 0.0"]);
}

#[test]
fn classic_schbench_answers_messages_in_rounds() {
    let ran = ended("schbench-classic -m 2 -t 4 -r 3 -s 20000 -c 5000", 8, 10);
    // A round is 20 to 25 ms asleep and 5 ms of spinning, which the sleep of the message thread
    // covers for all but the first arrival: some 110 rounds of 8 workers.
    let count = ran.metric("schbench-classic/wakeup_latency.count");
    assert!((700.0..1100.0).contains(&count), "{count}");
    let report = ran.report();
    assert!(!report.contains("rps:"), "{report}");
}
