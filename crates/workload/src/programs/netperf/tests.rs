use super::super::Prices;
use super::super::tests::{ended, rules, run, run_under};

/// One pair on one CPU: every transaction is the same known sum of prices.
#[test]
fn netperf_transactions_take_their_prices() {
    // Without delayed dequeue: every sleeper leaves its queue.
    let ran = run_under(rules(6, 5, 1), "netperf -t UDP_RR -l -1000 -T 0,0", 1, 5);
    assert_eq!(ran.live_tasks(), 0);
    let rate = ran.metric("netperf/transactions_per_s");
    let prices = Prices::default();
    let own = 2 * (prices.udp_send(1) + prices.udp_receive(1) + prices.netperf_round_ns);
    // Twice: two system calls, a wakeup with an enqueue and a dequeue, a switch.
    let kernel = 2 * (2 * 200 + 500 + 200 + 200 + 1300);
    let expected = 1e9 / (own + kernel) as f64;
    assert!((rate / expected - 1.0).abs() < 0.03, "{rate} {expected}");
}

#[test]
fn netperf_pairs_are_alike_and_counted_one_by_one() {
    let rate = |line: &str, cpus| run(line, cpus, 5).metric("netperf/transactions_per_s");
    let one = rate("netperf -t UDP_RR -l 1", 8);
    let four = rate("netperf -t UDP_RR -l 1 --pairs 4", 16);
    assert!((four / one - 1.0).abs() < 0.05, "{one} {four}");
    // TCP costs more than UDP, and longer messages more than short ones.
    let tcp = rate("netperf -t TCP_RR -l 1", 8);
    let long = rate("netperf -t UDP_RR -l 1 -- -r 60000,60000", 8);
    assert!(tcp < one && long < one, "{one} {tcp} {long}");
}

#[test]
fn netperf_streams_lose_only_what_udp_has_no_room_for() {
    let ran = run("netperf -t UDP_STREAM -l 1 -T 0,0 -- -m 1024", 1, 5);
    assert!(ran.metric("netperf/datagrams_lost") > 0.0);
    let ran = ended("netperf -t TCP_STREAM -l 1", 2, 5);
    assert!(ran.metric("netperf/throughput") > 1000.0);
    let metrics = ran.running.metrics(ran.probes(), ran.now());
    assert!(!metrics.contains_key("netperf/datagrams_lost"));
}

#[test]
fn netperf_maerts_is_a_stream_from_the_server_to_the_client() {
    // One CPU each, so neither direction finds the other in its way: the same bytes but for the
    // last window.
    let throughput = |line: &str| ended(line, 2, 5).metric("netperf/throughput");
    let (stream, maerts) = (
        throughput("netperf -t TCP_STREAM -l 1 -T 0,1"),
        throughput("netperf -t TCP_MAERTS -l 1 -T 0,1"),
    );
    assert!((maerts / stream - 1.0).abs() < 0.05, "{stream} {maerts}");
}
