//! Bounds and counters at the rule itself, where whole histories seldom tell two values apart.
//!
//! For example, a queue with 1 ns of runtime left may run, and one with none may not. A history
//! whose ticks fall on whole milliseconds never leaves exactly 1 ns.

use super::world::*;

const CPU: Cpu = Cpu(0);

/// A group limited to 50 ms each 100 ms, with one running hog, at time 0.
fn limited(version: &str) -> (World, GroupId) {
    let mut world = World::new(version, 1);
    let group = world.limited(GroupId::ROOT, 50_000, 100_000, 0);
    world.spawn_in(group, CPU, Policy::Normal, 0);
    (world, group)
}

/// Limits a group whose pool and queue then have no runtime; its queue.
fn without_runtime(world: &mut World, group: GroupId) -> CfsRqId {
    world.limit(group, 50_000, 100_000, 0);
    world.kernel.groups[group].bandwidth.runtime_ns = 0;
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.kernel.cfs_rqs[q].runtime_remaining_ns = 0;
    q
}

#[test]
fn a_charge_asks_for_a_reschedule_only_if_the_pool_cannot_refill_the_queue() {
    let (mut world, group) = limited("6.12");
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.call(CPU, |kernel, bench| {
        // The queue uses up its runtime, and gets a slice of 5 ms from the pool of some 45 ms.
        kernel.cfs_rqs[q].runtime_remaining_ns = 1;
        kernel.account_cfs_rq_runtime(bench, q, 1);
        assert_eq!(kernel.cfs_rqs[q].runtime_remaining_ns, 5 * MS as i64);
        assert!(!kernel.rqs[0].need_resched);
        // 1 ns of debt more than the pool has: all of the pool leaves the queue 1 ns short.
        let pool_ns = 3 * MS;
        kernel.groups[group].bandwidth.runtime_ns = pool_ns;
        kernel.account_cfs_rq_runtime(bench, q, 5 * MS + pool_ns + 1);
        assert_eq!(kernel.cfs_rqs[q].runtime_remaining_ns, -1);
        assert!(kernel.rqs[0].need_resched);
    });
}

#[test]
fn an_empty_pool_does_not_mark_its_group_busy() {
    let (mut world, group) = limited("6.12");
    let q = world.kernel.cfs_rq_of(group, CPU);
    for (pool_ns, idle) in [(0, true), (1, false)] {
        world.call(CPU, |kernel, bench| {
            let bandwidth = &mut kernel.groups[group].bandwidth;
            (bandwidth.runtime_ns, bandwidth.idle) = (pool_ns, true);
            kernel.cfs_rqs[q].runtime_remaining_ns = 0;
            kernel.assign_cfs_rq_runtime(bench, q, 5 * MS as i64);
            assert_eq!(kernel.groups[group].bandwidth.idle, idle);
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
            kernel.groups[group].bandwidth.runtime_ns = 0;
            kernel.cfs_rqs[q].runtime_remaining_ns = left_ns;
            kernel.check_enqueue_throttle(bench, q);
            assert_eq!(kernel.cfs_rqs[q].throttled, throttled);
        });
    }
}

#[test]
fn from_7_2_a_charge_that_leaves_1_ns_does_not_throttle() {
    let (mut world, group) = limited("7.2");
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.call(CPU, |kernel, bench| {
        kernel.groups[group].bandwidth.runtime_ns = 0;
        kernel.cfs_rqs[q].runtime_remaining_ns = 8;
        assert!(!kernel.account_cfs_rq_runtime(bench, q, 7));
        assert!(!kernel.cfs_rqs[q].throttled);
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
            let bandwidth = &mut kernel.groups[group].bandwidth;
            (bandwidth.runtime_ns, bandwidth.slack_started) = (6 * MS, false);
            bandwidth.throttled.push(q);
            kernel.cfs_rqs[q].runtime_remaining_ns = left_ns;
            kernel.return_cfs_rq_runtime(bench, q);
            let bandwidth = &mut kernel.groups[group].bandwidth;
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
        let bandwidth = &mut world.kernel.groups[group].bandwidth;
        (bandwidth.runtime_ns, bandwidth.runtime_snap_ns) = (0, 50 * MS + more_ns);
        world.kernel.refill(group, 100 * MS);
        let stat = world.kernel.groups[group].bandwidth.stat;
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
    assert!(world.kernel.groups[group].bandwidth.period_active);
    world.advance_to(101 * MS);
    assert!(!world.kernel.groups[group].bandwidth.period_active);
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
        let cfs_rq = &mut world.kernel.cfs_rqs[q];
        (cfs_rq.throttled, cfs_rq.throttled_clock_ns) = (throttled, before_ns);
        world.kernel.record_throttle_clock(q);
        assert_eq!(world.kernel.cfs_rqs[q].throttled_clock_ns, after_ns);
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
    let idle = world.kernel.tasks[world.kernel.rqs[0].idle].se;
    // (budget, idle for, budget left)
    for (budget_ns, idle_ns, left_ns) in [(9, 4, 5), (4, 4, 0), (4, 9, 0)] {
        world.kernel.rqs[0].clock_task = 100;
        world.kernel.entities[idle].exec_start = 100 - idle_ns;
        world.kernel.rqs[0].fair_server.runtime_ns = budget_ns;
        world.kernel.fair_server_update_idle(CPU);
        assert_eq!(world.kernel.rqs[0].fair_server.runtime_ns, left_ns);
    }
}

#[test]
fn a_fair_servers_bandwidth_is_active_until_its_0_lag_time() {
    let mut world = World::with("6.12", 1, |rules| rules.fair_server_stops_when_empty = true);
    world.spawn(CPU);
    assert!(world.kernel.rqs[0].fair_server.active);
    // 50 ms each second, in 20-bit fixed point: 2^20 / 20, rounded down.
    assert_eq!(world.kernel.dl.rqs[0].running_bw, 52_428);
    world.advance_to(MS);
    // It stops with its last task. 49 of 50 ms are left: the share of 980 ms before 1000.
    world.block(CPU);
    for (at, left) in [(20 * MS - 1, 52_428), (20 * MS, 0)] {
        world.advance_to(at);
        assert_eq!(world.kernel.dl.rqs[0].running_bw, left);
    }
}

#[test]
fn a_charge_throttles_at_once_only_from_7_2_on() {
    // The hog's queue runs out of its last nanosecond and the pool is empty. Up to 7.1 the next
    // pick throttles the queue, so it has to come; from 7.2 on the charge does, and the hog parks
    // itself on its way to user mode without a pick.
    for (version, at_once) in releases([("6.12 7.1", false), ("7.2 7.3", true)]) {
        let (mut world, group) = limited(version);
        let task = world.current(CPU);
        let q = world.kernel.cfs_rq_of(group, CPU);
        world.kernel.groups[group].bandwidth.runtime_ns = 0;
        world.kernel.cfs_rqs[q].runtime_remaining_ns = 1;
        world.kernel.here = CPU;
        let kernel = &mut world.kernel;
        let throttled = kernel.account_cfs_rq_runtime(&mut world.bench, q, 1);
        assert_eq!(throttled, at_once, "{version}");
        assert_eq!(kernel.cfs_rqs[q].throttled, at_once, "{version}");
        assert_eq!(kernel.rqs[0].need_resched, !at_once, "{version}");
        assert_eq!(kernel.tasks[task].throttle_work, at_once, "{version}");
    }
}

#[test]
fn a_switch_asks_for_runtime_on_the_levels_that_differ_from_7_2_on() {
    // A and B run in two groups below a third one, all with limits, without local runtime and with
    // empty pools. A switch from A to B puts A's entity and that of its group, and sets those of B.
    // Up to 7.1 the queues that are put are throttled, and the pick has asked on B's way. From 7.2
    // on the queues that are set ask and are throttled, and B has to park itself.
    for (version, expected) in [("7.1", [true, true, false]), ("7.2", [true, false, true])] {
        let asks = version == "7.2";
        let mut world = World::new(version, 1);
        let above = world.group(GroupId::ROOT);
        let groups = [world.group(above), world.group(above)];
        let [a, b] = groups.map(|group| world.spawn_in(group, CPU, Policy::Normal, 0));
        assert_eq!(world.current(CPU), a, "{version}");
        let queues = [above, groups[0], groups[1]].map(|group| without_runtime(&mut world, group));
        world.kernel.here = CPU;
        let kernel = &mut world.kernel;
        kernel.switch_fair_entities(&mut world.bench, a, b);
        let throttled = queues.map(|q| kernel.cfs_rqs[q].throttled);
        assert_eq!(throttled, expected, "{version}: above, A's and B's");
        assert_eq!(kernel.tasks[b].throttle_work, asks, "{version}");
    }
}

#[test]
fn a_switch_does_not_ask_on_levels_that_stay_before_all_tasks_are_in_one_order() {
    // A and B are in one group below a limited one. In 7.2 a switch between them leaves the limited
    // group's entity alone; the queue of A and B asks, which has no limit. In 7.3 all levels ask.
    for (version, asks) in [("7.2", false), ("7.3", true)] {
        let mut world = World::new(version, 1);
        let limited = world.group(GroupId::ROOT);
        let group = world.group(limited);
        let [a, b] = [0, 1].map(|_| world.spawn_in(group, CPU, Policy::Normal, 0));
        assert_eq!(world.current(CPU), a, "{version}");
        let q = without_runtime(&mut world, limited);
        world.kernel.here = CPU;
        let kernel = &mut world.kernel;
        kernel.switch_fair_entities(&mut world.bench, a, b);
        assert_eq!(kernel.cfs_rqs[q].throttled, asks, "{version}");
        assert_eq!(kernel.tasks[b].throttle_work, asks, "{version}");
    }
}

#[test]
fn a_queue_that_gets_a_last_nanosecond_is_not_throttled() {
    for (pool_ns, throttled) in [(1, false), (0, true)] {
        let (mut world, group) = limited("6.12");
        let q = world.kernel.cfs_rq_of(group, CPU);
        world.call(CPU, |kernel, bench| {
            kernel.groups[group].bandwidth.runtime_ns = pool_ns;
            kernel.cfs_rqs[q].runtime_remaining_ns = 0;
            assert_eq!(kernel.throttle_cfs_rq(bench, q), throttled);
            assert_eq!(kernel.cfs_rqs[q].throttled, throttled);
        });
    }
}

/// A group limited to 50 ms each 100 ms with a hog on each CPU, all queues of which are throttled.
fn all_throttled(version: &str, cpus: usize) -> (World, GroupId, Vec<CfsRqId>) {
    let mut world = World::new(version, cpus);
    world.checked = false;
    let group = world.limited(GroupId::ROOT, 50_000, 100_000, 0);
    let queues: Vec<CfsRqId> = (0..cpus)
        .map(|cpu| {
            world.spawn_in(group, Cpu::from(cpu), Policy::Normal, 0);
            world.kernel.cfs_rq_of(group, Cpu::from(cpu))
        })
        .collect();
    for (cpu, q) in queues.iter().enumerate() {
        world.call(Cpu::from(cpu), |kernel, bench| {
            kernel.groups[group].bandwidth.runtime_ns = 0;
            kernel.cfs_rqs[q].runtime_remaining_ns = 0;
            kernel.account_cfs_rq_runtime(bench, *q, 1);
        });
        assert!(world.kernel.cfs_rqs[q].throttled);
    }
    (world, group, queues)
}

/// Runs the slack timer with this pool, for queues that have so much left.
fn slack(
    (world, group, queues): &mut (World, GroupId, Vec<CfsRqId>),
    pool_ns: u64,
    left_ns: &[i64],
) {
    world.kernel.groups[*group].bandwidth.runtime_ns = pool_ns;
    for (q, left_ns) in queues.iter().zip(left_ns) {
        world.kernel.cfs_rqs[q].runtime_remaining_ns = *left_ns;
    }
    world.kernel.here = CPU;
    world.kernel.slack_timer(&mut world.bench, CPU, *group);
}

/// A queue that owes 6 ms needs 1 ns more to run.
#[test]
fn a_debt_paid_to_the_last_nanosecond_is_not_enough_to_run() {
    for (pool_ns, left_ns, throttled) in [(6 * MS, 0, true), (6 * MS + 1, 1, false)] {
        let mut all = all_throttled("6.1", 1);
        slack(&mut all, pool_ns, &[-6 * MS as i64]);
        let (world, _, queues) = all;
        let queue = &world.kernel.cfs_rqs[queues[0]];
        assert_eq!(
            (queue.runtime_remaining_ns, queue.throttled),
            (left_ns, throttled)
        );
    }
}

#[test]
fn the_last_nanosecond_of_the_pool_is_distributed() {
    let mut all = all_throttled("6.1", 2);
    // The first takes 6 ms, and the second needs just the 1 ns that is left.
    slack(&mut all, 6 * MS + 1, &[1 - 6 * MS as i64, 0]);
    let (world, group, queues) = all;
    assert_eq!(world.kernel.groups[group].bandwidth.runtime_ns, 0);
    for q in queues {
        assert!(!world.kernel.cfs_rqs[q].throttled);
    }
}

#[test]
fn a_queue_that_waits_for_its_own_cpu_is_not_paid_again() {
    let mut all = all_throttled("6.12", 2);
    let waits = all.2[1];
    all.0.kernel.rqs[1].unthrottle_list.push(waits);
    slack(&mut all, 20 * MS, &[0, 0]);
    let (world, group, queues) = all;
    // CPU 0's queue got 1 ns, and the one that was paid before stands on its list once.
    let left = |row: usize| world.kernel.cfs_rqs[queues[row]].runtime_remaining_ns;
    assert_eq!([left(0), left(1)], [1, 0]);
    assert_eq!(world.kernel.rqs[1].unthrottle_list, [waits]);
    let pool_ns = world.kernel.groups[group].bandwidth.runtime_ns;
    assert_eq!(pool_ns, 20 * MS - 1);
}

/// From 6.18 on a task runs on in the kernel although its queue is throttled. From 7.2 on what it
/// ran meanwhile, 1 ms here, is charged when debts are paid: the pool pays 9 + 1 ms and 1 ns.
#[test]
fn what_runs_in_a_throttled_queue_is_charged_when_debts_are_paid_from_7_2_on() {
    for (version, charged_ns) in [("6.18", 0), ("7.1", 0), ("7.2", MS), ("7.3", MS)] {
        let (mut world, group) = limited(version);
        let q = world.kernel.cfs_rq_of(group, CPU);
        let se = world.kernel.cfs_rqs[q].h_curr.unwrap();
        let queues = vec![q];
        world.kernel.groups[group].bandwidth.runtime_ns = 0;
        world.kernel.cfs_rqs[q].runtime_remaining_ns = 0;
        let kernel = &mut world.kernel;
        assert!(kernel.throttle_cfs_rq(&mut world.bench, q), "{version}");
        world.bench.now += MS;
        let ran = world.kernel.entities[se].sum_exec_runtime;
        let mut all = (world, group, queues);
        slack(&mut all, 20 * MS, &[-9 * MS as i64]);
        let (world, ..) = all;
        let entity = &world.kernel.entities[se];
        assert_eq!(entity.sum_exec_runtime - ran, charged_ns, "{version}");
        let pool_ns = world.kernel.groups[group].bandwidth.runtime_ns;
        assert_eq!(pool_ns, 20 * MS - (9 * MS + charged_ns + 1), "{version}");
    }
}

/// Each refill pays one queue, and to let that run takes a period. With two queues the handler is
/// late three times in a row, with three it is late four times, and the period doubles.
#[test]
fn a_handler_that_is_late_more_than_three_times_doubles_the_period() {
    for (cpus, period_ms) in [(2, 100), (3, 200)] {
        let (mut world, group, queues) = all_throttled("6.1", cpus);
        for q in queues {
            world.kernel.cfs_rqs[q].runtime_remaining_ns = 1 - 50 * MS as i64;
        }
        world.bench.now = world.kernel.groups[group].bandwidth.expires_ns;
        world.bench.prices = vec![(Op::Unthrottle, 100 * MS)];
        world.kernel.period_timer(&mut world.bench, CPU, group);
        let limit = world.kernel.groups[group].bandwidth.limit;
        assert_eq!(limit.period_ns, period_ms * MS, "{cpus}");
        assert_eq!(limit.quota_ns, Some(period_ms / 2 * MS));
        // Each queue was paid for once.
        assert_eq!(world.bench.now, (cpus as u64 + 1) * 100 * MS);
    }
}

#[test]
fn a_period_doubles_as_long_as_it_stays_below_the_longest_one() {
    for (period_ms, doubled_ms) in [(499, 998), (500, 500), (501, 501)] {
        let mut world = World::new("6.1", 1);
        let group = world.limited(GroupId::ROOT, 100_000, period_ms * 1000, 0);
        world.kernel.scale_period(group);
        let limit = world.kernel.groups[group].bandwidth.limit;
        assert_eq!(limit.period_ns, doubled_ms * MS);
    }
}

#[test]
fn a_limit_as_large_as_a_childs_or_a_parents_is_allowed_in_v1() {
    let mut world = World::new("6.1", 1);
    let parent = world.group(GroupId::ROOT);
    let child = world.group(parent);
    let mut set = |group, quota_ms: u64| {
        let limit = BandwidthLimit::of_ms(quota_ms, 100, 0);
        let kernel = &mut world.kernel;
        let done = kernel.group_set_bandwidth(&mut world.bench, CPU, group, limit, Hierarchy::V1);
        // A half is 2^19 of 2^20.
        let effective = world.kernel.groups[group].bandwidth.hierarchical_quota;
        (done.is_ok(), effective)
    };
    assert_eq!(set(parent, 50), (true, Some(1 << 19)));
    assert_eq!(set(child, 50), (true, Some(1 << 19)));
    assert_eq!(set(parent, 50), (true, Some(1 << 19)), "again");
    assert!(!set(parent, 49).0 && !set(child, 51).0);
    assert_eq!(set(child, 25), (true, Some(1 << 18)), "the tighter one");
}

#[test]
fn a_task_parks_while_its_queue_is_throttled_and_counts_from_then_on() {
    let (mut world, group) = limited("6.18");
    let task = world.current(CPU);
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.advance_to(MS);
    world.call(CPU, |kernel, bench| {
        assert!(!kernel.throttle_current_task(bench, task));
        kernel.groups[group].bandwidth.runtime_ns = 0;
        kernel.cfs_rqs[q].runtime_remaining_ns = 0;
        assert!(kernel.throttle_cfs_rq(bench, q));
        assert!(kernel.throttle_current_task(bench, task));
        assert_eq!(kernel.cfs_rqs[q].limbo, [task]);
    });
    // The time that the queue itself is held back begins once, with the first that left.
    for (before_ns, after_ns) in [(0, 20 * MS), (5 * MS, 5 * MS)] {
        world.kernel.rqs[0].clock = 20 * MS;
        world.kernel.cfs_rqs[q].throttled_clock_self_ns = before_ns;
        world.kernel.record_throttle_clock(q);
        let queue = &world.kernel.cfs_rqs[q];
        assert_eq!(queue.throttled_clock_self_ns, after_ns);
    }
}

#[test]
fn a_dequeue_costs_one_level_for_each_queue_that_is_left_empty() {
    for (version, levels) in [("6.1", 2), ("6.12", 2)] {
        let mut world = World::new(version, 1);
        let group = world.group(GroupId::ROOT);
        world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance_to(MS);
        world.bench.prices = vec![(Op::DequeueLevel, 100)];
        let before = world.bench.now;
        world.block(CPU);
        assert_eq!(world.bench.now - before, levels * 100, "{version}");
    }
}
