use super::super::Start;
use super::super::tests::{Ran, compiled, ended, rules, run, started, with_group};
use schedcast_base::assert_in;
use schedcast_sim::{Machine, World};

const SECOND: u64 = 1_000_000_000;

#[test]
fn one_connection_is_a_ping_pong() {
    let ran = ended("wrk -t1 -c1 -d1 --workers 1", 2, 2);
    let rate = ran.metric("wrk/requests_per_s");
    let mean_us = ran.metric("wrk/latency.avg");
    // The time beyond the latency is the thread's work between a reply and the next request.
    assert!(
        rate * mean_us < 1.001e6 && rate * mean_us > 0.9e6,
        "{rate} {mean_us}"
    );
    let count = ran.metric("wrk/requests");
    for name in ["wrk", "wrk-server"] {
        let each = ran.wakeups(name) / count;
        assert!((each - 1.0).abs() < 0.02, "{name}: {each}");
    }
}

#[test]
fn many_connections_share_wakeups() {
    let ran = run("wrk -t1 -c32 -d1 --workers 1", 2, 2);
    let count = ran.metric("wrk/requests");
    let wakeups = ran.wakeups("wrk");
    assert!(wakeups < 0.5 * count, "{wakeups} {count}");
    // Little's law: 32 requests are always under way or about to be.
    let rate = ran.metric("wrk/requests_per_s");
    let mean_us = ran.metric("wrk/latency.avg");
    let under_way = rate * mean_us / 1e6;
    assert!(under_way < 32.0 && under_way > 24.0, "{under_way}");
}

#[test]
fn workers_divide_the_connections() {
    let rate = |workers: u64| {
        let line = format!("wrk -t2 -c32 -d1 --workers {workers}");
        let ran = run(&line, 4, 2);
        ran.metric("wrk/requests_per_s")
    };
    // One worker is the bottleneck, two, which are never idle, about twice as fast.
    let (one, two) = (rate(1), rate(2));
    assert!(two > 1.5 * one && two < 2.3 * one, "{one} {two}");
}

#[test]
fn which_worker_serves_a_connection_is_chance() {
    // Four connections and two workers: in an eighth of the runs one worker has them all, and is
    // the bottleneck.
    let topology = schedcast_kernel::topology::Topology::flat(8);
    let machine = Machine::preset("generic-8")
        .unwrap()
        .with_topology(topology);
    let rate = |seed: u64| {
        let (running, workload) = compiled("wrk -t4 -c4 -d1 --workers 2", 8);
        let world = World::new(machine.clone(), rules(6, 18, 8), workload, seed).unwrap();
        let ran = Ran { running, world }.until(2);
        ran.metric("wrk/requests_per_s")
    };
    let rates: Vec<f64> = (0..40).map(rate).collect();
    let most = rates.iter().copied().fold(0.0, f64::max);
    let together = rates.iter().filter(|rate| **rate < 0.8 * most).count();
    assert!((1..=12).contains(&together), "{rates:?}");
}

#[test]
fn latencies_count_what_a_late_reply_held_back() {
    // A server of 20 ms in 100: in each period its connection waits for about 50 ms.
    let (workload, _) = with_group("/nginx", Some(20_000_000));
    let line = "wrk -t1 -c1 -d4 --workers 1 --server-cgroup /nginx";
    let ran = started(line, &Start::new("wrk", 2), workload, rules(6, 18, 2)).until(5);
    let count = ran.metric("wrk/requests");
    let corrected = ran.metric("wrk/latency.count");
    let mean_us = ran.metric("wrk/latency.avg");
    let server = ran.probes().of("wrk-server").unwrap();
    // A stall of s in which a request would have come every e adds s/e latencies from s down to e.
    let periods = 40.0;
    let stall_us = server.wait_throttled_ns as f64 / 1e3 / periods;
    let expected_us = 4e6 / count;
    let added = stall_us / expected_us;
    assert_in!((corrected - count) / periods / added, 0.95..1.05);
    let wanted_us = added * stall_us / 2.0 / (count / periods + added);
    assert_in!(mean_us / wanted_us, 0.95..1.05);
}

#[test]
fn the_table_is_that_of_the_tool() {
    let ran = run("wrk -t2 -c4 -d1 --latency http://localhost/x", 4, 2);
    let text = ran.report();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Running 1s test @ http://localhost/x");
    assert_eq!(lines[1], "  2 threads and 4 connections");
    assert!(
        lines[3].starts_with("    Latency") && lines[3].ends_with('%'),
        "{text}"
    );
    assert!(lines[4].starts_with("    Req/Sec"), "{text}");
    assert_eq!(lines[5], "  Latency Distribution");
    let rate = text.split("Requests/sec:").nth(1).unwrap();
    let rate: f64 = rate.split_whitespace().next().unwrap().parse().unwrap();
    let own = ran.metric("wrk/requests_per_s");
    assert!((rate - own).abs() < 0.01, "{text}");
}

#[test]
fn what_is_wrong_is_named() {
    let (running, _) = compiled("wrk -d 1m", 2);
    assert_eq!(running.end_ns, Some(60 * SECOND));
}
