use schedcast_base::assert_in;
use schedcast_kernel::rules::Version;
use schedcast_sim::events::TraceKind;

use super::super::Start;
use super::super::tests::{Ran, compiled, rules, started};
use super::load::PIECES;
use schedcast_sim::Workload;

const SECOND: u64 = 1_000_000_000;

fn world(line: &str, cpus: usize, version: (u16, u16)) -> Ran {
    let mut start = Start::new("dbench", cpus);
    start.kernel = Version::new(version.0, version.1);
    let rules = rules(version.0, version.1, cpus);
    started(line, &start, Workload::default(), rules)
}

#[test]
fn on_tmpfs_a_client_only_computes() {
    let ran = world("dbench -t 1 --warmup 0 --filesystem tmpfs 1", 2, (6, 1)).until(2);
    // 82.7 operations of 5.47 µs move 444.6 KB: 983 MB/s at 100 % of one CPU.
    let rate = ran.metric("dbench/throughput");
    assert!((rate / 983.0 - 1.0).abs() < 0.02, "{rate}");
    assert_eq!(ran.live_tasks(), 0);
}

#[test]
fn one_client_flushes_one_commit_at_a_time() {
    let ran = world("dbench -t 1 --warmup 0 1", 2, (6, 1)).until(2);
    // Three writes of 20 µs, one after the other, and what the CPUs do in between.
    let shortest = ran.metric("dbench/flush_latency.min");
    assert_in!(shortest, 3.0 * 16.0..3.0 * 24.0 + 80.0);
    let flushes = ran.metric("dbench/flush_latency.count");
    let journal = ran.probes().of("jbd2").unwrap().wakeups;
    // Each flush wakes the journal thread once, and each of its two writes does.
    assert_in!(journal as f64 - 3.0 * flushes, -3.0..=3.0);
}

#[test]
fn commits_are_grouped_when_many_clients_flush() {
    let ran = world("dbench -t 1 --warmup 0 16", 4, (6, 1)).until(2);
    let flushes = ran.metric("dbench/flush_latency.count");
    let journal = ran.probes().of("jbd2").unwrap().wakeups;
    assert!((journal as f64) < 2.0 * flushes, "{journal} {flushes}");
}

/// CPUs on which the only client was executed during a second.
fn visited(version: (u16, u16)) -> usize {
    let mut ran = world("dbench -t 1 --warmup 0 --filesystem xfs 1", 8, version);
    ran.world.probes_mut().trace = Some(Vec::new());
    let ran = ran.until(1);
    let mut cpus = [false; 8];
    let trace = ran.probes().trace.clone().unwrap_or_default();
    for event in trace.iter().filter(|event| event.time > SECOND / 10) {
        if let TraceKind::Kernel(schedcast_kernel::platform::Observation::Switch { next, .. }) =
            event.event
            && ran.task_name(next) == "dbench"
        {
            cpus[event.cpu.index()] = true;
        }
    }
    cpus.iter().filter(|&&visited| visited).count()
}

#[test]
fn a_client_on_xfs_wanders_until_linux_4_16() {
    assert_eq!(visited((4, 15)), 8);
    assert!(visited((4, 16)) <= 3);
    // A worker of one CPU leaves the woken task where it was.
    assert_eq!(visited((5, 10)), 1);
}

#[test]
fn many_clients_of_an_xfs_all_end() {
    for version in [(4, 15), (6, 1)] {
        let ran = world("dbench -t 2 --warmup 0 --filesystem xfs 64", 8, version).until(4);
        assert_eq!(ran.live_tasks(), 0, "{version:?}");
    }
}

#[test]
fn pushes_are_bound_to_their_cpu_until_5_14() {
    let workers = |minor| {
        let ran = world("dbench --filesystem xfs 1", 8, (5, minor));
        let tasks = ran.workload().tasks.iter();
        tasks
            .filter(|task| task.name.starts_with("xfs-cil/"))
            .count()
    };
    assert_eq!((workers(13), workers(14)), (8, 4));
}

#[test]
fn the_end_is_after_warmup_and_time() {
    let (running, _) = compiled("dbench -t 10 3", 4);
    assert_eq!(running.end_ns, Some(12 * SECOND));
    let (running, workload) = compiled("dbench -t 10 --warmup 1 3", 4);
    assert_eq!(running.end_ns, Some(11 * SECOND));
    assert_eq!(workload.words.len(), 3 + 3 * PIECES.len());
}
