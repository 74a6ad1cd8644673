use super::super::tests::{Ran, compiled, rules, started, with_group};
use super::super::{Prices, Start, split};
use super::{Options, TOOL};
use schedcast_base::assert_in;

const SECOND: u64 = 1_000_000_000;

/// Runs a command on `cpus` CPUs to its end, with a group `/server` limited to `quota` of a CPU.
fn run(line: &str, cpus: usize, quota_ns: Option<u64>) -> Ran {
    let (workload, _) = with_group("/server", quota_ns);
    let start = Start::new("pgbench", cpus);
    started(line, &start, workload, rules(6, 18, cpus)).until(10)
}

#[test]
fn a_select_is_one_round_trip_and_two_wakeups() {
    let ran = run("pgbench -S -t 2000", 2, None);
    assert_eq!(ran.live_tasks(), 0);
    let count = ran.metric("pgbench/latency.count");
    assert_eq!(count, 2000.0);
    for name in ["pgbench", "pgbench-server"] {
        let each = ran.wakeups(name) / count;
        assert!((each - 1.0).abs() < 0.02, "{name}: {each}");
    }
    // Only one of the two runs at a time, so the latency is what both compute and what their
    // switching costs.
    let mean = ran.metric("pgbench/latency.avg");
    let tps = ran.metric("pgbench/tps");
    assert!((mean * tps / 1e6 - 1.0).abs() < 0.05, "{mean} {tps}");
}

#[test]
fn a_backends_first_statement_takes_longer() {
    let ran = run("pgbench -S -t 200", 2, None);
    let at = |metric_name: &str| ran.metric(metric_name);
    // 420 µs, a tenth more or less; the others vary by a few.
    let longer_us = at("pgbench/latency.max") - at("pgbench/latency.p50");
    assert!((370.0..470.0).contains(&longer_us), "{longer_us}");
    // Each of four backends has a first one, and no statement after it is like that: p95 of 800 is
    // not.
    let ran = run("pgbench -S -c 4 -j 4 -t 200", 8, None);
    let at = |metric_name: &str| ran.metric(metric_name);
    assert!(at("pgbench/latency.p95") < 2.0 * at("pgbench/latency.p50"));
}

#[test]
fn a_transaction_is_seven_round_trips_and_a_flush() {
    let ran = run("pgbench -t 300", 2, None);
    let count = ran.metric("pgbench/latency.count");
    let client = ran.wakeups("pgbench") / count;
    assert!((client - 7.0).abs() < 0.1, "{client}");
    // The flush sleeps twice on top.
    let server = ran.wakeups("pgbench-server") / count;
    assert!((server - 9.0).abs() < 0.1, "{server}");
    let ran = run("pgbench -t 300 --filesystem tmpfs", 2, None);
    let server = ran.wakeups("pgbench-server") / 300.0;
    assert!((server - 7.0).abs() < 0.1, "{server}");
}

#[test]
fn transactions_of_one_branch_go_one_after_the_other() {
    let tps = |line: &str| {
        let ran = run(line, 8, None);
        assert_eq!(ran.live_tasks(), 0, "{line}");
        ran.metric("pgbench/tps")
    };
    let one_branch = tps("pgbench -c 8 -j 8 -t 200");
    let many = tps("pgbench -c 8 -j 8 -t 200 -s 100");
    assert!(many > 1.5 * one_branch, "{many} {one_branch}");
    // Without the updates they contend for, the branches do not matter.
    let simple = tps("pgbench -N -c 8 -j 8 -t 200");
    let same = tps("pgbench -N -c 8 -j 8 -t 200 -s 100");
    assert_eq!(simple, same);
}

#[test]
fn a_row_that_others_hold_costs_the_server_more_than_a_sleep() {
    // Four clients on one CPU: with one branch each transaction waits about twice.
    let server_us = |scale: u64| {
        let ran = run(&format!("pgbench -c 4 -j 4 -t 200 -s {scale}"), 1, None);
        let row = ran.probes().of("pgbench-server").unwrap();
        row.charged_ns as f64 / 800_000.0
    };
    let more_us = server_us(1) - server_us(1000);
    let work_us = Prices::default().postgres_lock_wait_ns as f64 / 1000.0;
    assert_in!(more_us, 1.5 * work_us..4.0 * work_us);
}

#[test]
fn commits_that_come_during_a_flush_share_the_next() {
    let flushes = |clients: u64| {
        let line = format!("pgbench -N -c {clients} -j {clients} -t 100");
        let ran = run(&line, 8, None);
        // Wakeups besides those by the clients: of the disk, and of those who waited.
        ran.wakeups("pgbench-server") / (clients * 100) as f64 - 5.0
    };
    assert!((flushes(1) - 2.0).abs() < 0.1);
    assert!(flushes(8) < 1.9, "{}", flushes(8));
}

#[test]
fn a_rate_is_kept_and_latency_counts_from_the_schedule() {
    let ran = run("pgbench -S -c 4 -j 2 -T 4 -R 1000", 4, None);
    let tps = ran.metric("pgbench/tps");
    assert!((tps / 1000.0 - 1.0).abs() < 0.05, "{tps}");
    let free = ran.metric("pgbench/latency.p50");
    // Half a CPU for what needs more: the queue grows and with it the latency.
    let line = "pgbench -S -c 4 -j 2 -T 2 -R 60000 --server-cgroup /server";
    let ran = run(line, 4, Some(50_000_000));
    let late = ran.metric("pgbench/latency.p50");
    assert!(late > 100.0 * free, "{late} {free}");
    let lag = ran.metric("pgbench/lag.p50");
    assert!(lag > 0.9 * late && lag <= late, "{lag} {late}");
}

#[test]
fn the_servers_group_is_limited_alone() {
    let used = |quota_ns| {
        let line = "pgbench -S -c 4 -j 1 -T 2 --server-cgroup /server";
        let ran = run(line, 2, quota_ns);
        let server = ran.probes().of("pgbench-server").unwrap();
        server.run_ns as f64 / 2e9
    };
    let limited = used(Some(30_000_000));
    assert!((limited - 0.3).abs() < 0.03, "{limited}");
    assert!(used(None) > 0.6);
}

#[test]
fn clients_are_dealt_out_as_evenly_as_it_goes() {
    let line = "pgbench -c 7 -j 3 -T 1";
    let (running, _) = compiled(line, 4);
    let options = Options::read(&TOOL.parse(&split(line)).unwrap()).unwrap();
    let threads: Vec<u64> = (0..7).map(|client| options.thread_of(client)).collect();
    assert_eq!(threads, [0, 0, 0, 1, 1, 2, 2]);
    assert_eq!(running.end_ns, Some(SECOND));
}

#[test]
fn the_summary_is_that_of_the_tool() {
    let ran = run("pgbench -c 2 -t 50 -n", 2, None);
    let text = ran.report();
    for line in [
        "transaction type: <builtin: TPC-B (sort of)>",
        "scaling factor: 1",
        "query mode: simple",
        "number of clients: 2",
        "number of threads: 1",
        "number of transactions per client: 50",
        "number of transactions actually processed: 100/100",
        "number of failed transactions: 0 (0.000%)",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(text.contains("(without initial connection time)"));
    assert!(!text.contains("vacuum"));
    let tps = text.split("tps = ").nth(1).unwrap().split(' ').next();
    let tps: f64 = tps.unwrap().parse().unwrap();
    let own = ran.metric("pgbench/tps");
    assert!((tps - own).abs() < 0.001);
}

#[test]
fn what_is_wrong_is_named() {
    compiled("pgbench -b tpcb", 2);
}
