//! Bounds and counters at the rule itself, where whole histories seldom tell two values apart.
//!
//! For example, a queue with 1 ns of runtime left may run, and one with none may not. A history
//! whose ticks fall on whole milliseconds never leaves exactly 1 ns.

use super::world::{MS, World};
use crate::cpuset::CpuSet;
use crate::group::BandwidthLimit;
use crate::ids::{Cpu, GroupId};
use crate::task::Policy;

const CPU: Cpu = Cpu(0);

/// A group limited to 50 ms each 100 ms, with one running hog, at time 0.
fn limited(version: &str) -> (World, GroupId) {
    let mut world = World::new(version, 1);
    let group = world.group(GroupId::ROOT);
    world.limit(group, 50_000, 100_000, 0);
    world.spawn_in(group, CPU, Policy::Normal, 0);
    (world, group)
}

#[test]
fn a_charge_asks_for_a_reschedule_only_if_the_pool_cannot_refill_the_queue() {
    let (mut world, group) = limited("6.12");
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.call(CPU, |kernel, bench| {
        // The queue uses up its runtime, and gets a slice of 5 ms from the pool of some 45 ms.
        kernel.cfs_rqs[q.index()].runtime_remaining_ns = 1;
        kernel.account_cfs_rq_runtime(bench, q, 1);
        assert_eq!(
            kernel.cfs_rqs[q.index()].runtime_remaining_ns,
            5 * MS as i64
        );
        assert!(!kernel.rqs[0].need_resched);
        // 1 ns of debt more than the pool has: all of the pool leaves the queue 1 ns short.
        let pool_ns = 3 * MS;
        kernel.groups[group.index()].bandwidth.runtime_ns = pool_ns;
        kernel.account_cfs_rq_runtime(bench, q, 5 * MS + pool_ns + 1);
        assert_eq!(kernel.cfs_rqs[q.index()].runtime_remaining_ns, -1);
        assert!(kernel.rqs[0].need_resched);
    });
}

#[test]
fn an_empty_pool_does_not_mark_its_group_busy() {
    let (mut world, group) = limited("6.12");
    let q = world.kernel.cfs_rq_of(group, CPU);
    for (pool_ns, idle) in [(0, true), (1, false)] {
        world.call(CPU, |kernel, bench| {
            let bandwidth = &mut kernel.groups[group.index()].bandwidth;
            (bandwidth.runtime_ns, bandwidth.idle) = (pool_ns, true);
            kernel.cfs_rqs[q.index()].runtime_remaining_ns = 0;
            kernel.assign_cfs_rq_runtime(bench, q, 5 * MS as i64);
            assert_eq!(kernel.groups[group.index()].bandwidth.idle, idle);
        });
    }
}

#[test]
fn a_queue_with_1_ns_left_is_not_throttled_when_its_first_entity_comes() {
    for (left_ns, throttled) in [(1, false), (0, true)] {
        let (mut world, group) = limited("6.12");
        world.advance_to(MS);
        world.block(CPU);
        let q = world.kernel.cfs_rq_of(group, CPU);
        world.call(CPU, |kernel, bench| {
            kernel.groups[group.index()].bandwidth.runtime_ns = 0;
            kernel.cfs_rqs[q.index()].runtime_remaining_ns = left_ns;
            kernel.check_enqueue_throttle(bench, q);
            assert_eq!(kernel.cfs_rqs[q.index()].throttled, throttled);
        });
    }
}

#[test]
fn from_7_3_a_charge_that_leaves_1_ns_does_not_throttle() {
    let (mut world, group) = limited("7.3");
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.call(CPU, |kernel, bench| {
        kernel.groups[group.index()].bandwidth.runtime_ns = 0;
        kernel.cfs_rqs[q.index()].runtime_remaining_ns = 8;
        assert!(!kernel.account_cfs_rq_runtime(bench, q, 7));
        assert!(!kernel.cfs_rqs[q.index()].throttled);
    });
}

#[test]
fn a_queue_that_returns_nothing_does_not_start_the_slack_timer() {
    // A queue keeps 1 ms; with 1 ns more it has slack. The pool holds more than a slice of 5 ms.
    for (left_ns, started) in [(MS as i64, false), (MS as i64 + 1, true)] {
        let (mut world, group) = limited("6.12");
        world.advance_to(MS);
        world.block(CPU);
        let q = world.kernel.cfs_rq_of(group, CPU);
        world.call(CPU, |kernel, bench| {
            let bandwidth = &mut kernel.groups[group.index()].bandwidth;
            (bandwidth.runtime_ns, bandwidth.slack_started) = (6 * MS, false);
            bandwidth.throttled.push(q);
            kernel.cfs_rqs[q.index()].runtime_remaining_ns = left_ns;
            kernel.return_cfs_rq_runtime(bench, q);
            let bandwidth = &mut kernel.groups[group.index()].bandwidth;
            bandwidth.throttled.pop();
            assert_eq!(bandwidth.slack_started, started);
        });
    }
}

#[test]
fn a_period_that_used_1_ns_more_than_its_quota_is_a_burst() {
    let (mut world, group) = limited("6.12");
    // The pool had 50 ms and this much at its last refill, and has nothing now.
    for (more_ns, bursts) in [(0, 0), (1, 1)] {
        let bandwidth = &mut world.kernel.groups[group.index()].bandwidth;
        (bandwidth.runtime_ns, bandwidth.runtime_snap_ns) = (0, 50 * MS + more_ns);
        world.kernel.refill(group, 100 * MS);
        let stat = world.kernel.groups[group.index()].bandwidth.stat;
        assert_eq!((stat.nr_bursts, stat.burst_time_ns), (bursts, more_ns));
    }
}

#[test]
fn the_timer_of_a_lifted_limit_stops_when_it_expires() {
    let (mut world, group) = limited("6.12");
    world.advance_to(50 * MS);
    world.call(CPU, |kernel, bench| {
        let limit = BandwidthLimit::UNLIMITED;
        kernel
            .group_set_bandwidth(bench, CPU, group, limit, Default::default())
            .unwrap();
    });
    assert!(world.kernel.groups[group.index()].bandwidth.period_active);
    world.advance_to(101 * MS);
    assert!(!world.kernel.groups[group.index()].bandwidth.period_active);
}

#[test]
fn throttled_time_counts_from_the_first_task_that_left() {
    let (mut world, group) = limited("6.18");
    let q = world.kernel.cfs_rq_of(group, CPU);
    // (throttled, clock before, clock after); the CPU's clock is at 20 ms.
    for (throttled, before_ns, after_ns) in
        [(true, 0, 20 * MS), (true, 5 * MS, 5 * MS), (false, 0, 0)]
    {
        world.kernel.rqs[0].clock = 20 * MS;
        let cfs_rq = &mut world.kernel.cfs_rqs[q.index()];
        (cfs_rq.throttled, cfs_rq.throttled_clock_ns) = (throttled, before_ns);
        world.kernel.record_throttle_clock(q);
        assert_eq!(world.kernel.cfs_rqs[q.index()].throttled_clock_ns, after_ns);
    }
}

#[test]
fn only_real_time_tasks_of_more_than_one_cpu_count_as_migratory() {
    let mut world = World::new("6.1", 2);
    world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
    assert_eq!(world.kernel.rqs[0].rt.nr_migratory, 0);
    world.block(CPU);
    world.spawn_fifo(CPU, 50, CpuSet::first(2));
    assert_eq!(world.kernel.rqs[0].rt.nr_migratory, 1);
}

#[test]
fn idle_time_takes_the_fair_servers_budget_down_to_zero_and_no_further() {
    let mut world = World::new("6.12", 1);
    let idle = world.kernel.tasks[world.kernel.rqs[0].idle.index()].se;
    // (budget, idle for, budget left)
    for (budget_ns, idle_ns, left_ns) in [(9, 4, 5), (4, 4, 0), (4, 9, 0)] {
        world.kernel.rqs[0].clock_task = 100;
        world.kernel.entities[idle.index()].exec_start = 100 - idle_ns;
        world.kernel.rqs[0].fair_server.runtime_ns = budget_ns;
        world.kernel.fair_server_update_idle(CPU);
        assert_eq!(world.kernel.rqs[0].fair_server.runtime_ns, left_ns);
    }
}

#[test]
fn up_to_6_16_the_fair_servers_bandwidth_leaves_with_the_last_fair_task() {
    let mut world = World::with("6.12", 1, |rules| rules.fair_server_stops_when_empty = true);
    world.spawn(CPU);
    assert!(world.kernel.rqs[0].fair_server.active);
    // 50 ms each second, in 20-bit fixed point: 2^20 / 20, rounded down.
    assert_eq!(world.kernel.dl.rqs[0].running_bw, 52_428);
    world.advance_to(MS);
    world.block(CPU);
    assert_eq!(world.kernel.dl.rqs[0].running_bw, 0);
}
