//! Bandwidth control by hand: throttling, burst, slack, expiry, hierarchy, the two ways to
//! unthrottle.

use super::world::*;
use crate::group::BandwidthStat;

const CPU: Cpu = Cpu(0);
const OTHER: Cpu = Cpu(1);
const ROOT: GroupId = GroupId::ROOT;
const VERSIONS: [&str; 7] = ["4.15", "5.4", "5.14", "6.1", "6.6", "6.12", "6.18"];

fn hog(world: &mut World, group: GroupId, cpu: Cpu) -> TaskId {
    world.spawn_in(group, cpu, Policy::Normal, 0)
}

fn stat(world: &World, group: GroupId) -> BandwidthStat {
    world.kernel.groups[group].bandwidth.stat
}

fn queue(world: &World, group: GroupId, cpu: Cpu) -> &crate::cfs_rq::CfsRq {
    let q = world.kernel.cfs_rq_of(group, cpu);
    &world.kernel.cfs_rqs[q]
}

/// A limited group whose first period starts now, at time 0.
fn limited(
    version: &str,
    cpus: usize,
    quota_ms: u64,
    period_ms: u64,
    burst_ms: u64,
) -> (World, GroupId) {
    let mut world = World::new(version, cpus);
    let group = world.limited(ROOT, quota_ms * 1000, period_ms * 1000, burst_ms * 1000);
    (world, group)
}

#[test]
fn two_hogs_are_throttled_150_ms_a_period() {
    // 50 ms per 100 on 2 CPUs: gone after 25 ms, so each CPU waits 75 ms.
    for version in VERSIONS {
        let (mut world, group) = limited(version, 2, 50, 100, 0);
        let hogs = [hog(&mut world, group, CPU), hog(&mut world, group, OTHER)];
        world.advance_to(5000 * MS + MS);
        let BandwidthStat {
            nr_periods,
            nr_throttled,
            throttled_time_ns,
            ..
        } = stat(&world, group);
        assert_eq!((nr_periods, nr_throttled), (50, 50), "{version}");
        assert_in!(throttled_time_ns / 50, 149 * MS..=151 * MS, "{version}");
        let total: u64 = hogs.iter().map(|task| world.runtime(*task)).sum();
        assert!(total.abs_diff(50 * 50 * MS) <= 3 * MS, "{version}: {total}");
    }
}

#[test]
fn overruns_are_repaid() {
    // At 250 Hz slices of 5 ms are overrun by up to 4 ms, in the long run nothing is.
    for version in VERSIONS {
        let mut world = World::with(version, 1, |rules| {
            rules.hz = 250;
            rules.tick_ns = 4 * MS;
        });
        let group = world.limited(ROOT, 21_000, 100_000, 0);
        let task = hog(&mut world, group, CPU);
        world.advance_to(100 * MS);
        // The tick at 24 ms finds 21 used up.
        assert_eq!(world.runtime(task), 24 * MS, "{version}");
        world.advance_to(10_000 * MS);
        assert_in!(world.runtime(task), 2096 * MS..=2104 * MS, "{version}");
    }
}

#[test]
fn the_timer_of_a_group_starts_where_its_version_puts_it() {
    // Aligned up to 6.3; from 6.4 at the drawn offset, kept by every later period.
    for (version, first) in [("5.14", 100), ("6.3", 100), ("6.4", 130), ("6.18", 130)] {
        let mut world = World::new(version, 1);
        world.bench.draws = vec![1_030 * MS];
        world.advance_to(50 * MS);
        let group = world.limited(ROOT, 10_000, 100_000, 0);
        hog(&mut world, group, CPU);
        world.advance_to(500 * MS);
        let periods: Vec<u64> = world
            .bench
            .observed
            .iter()
            .filter(|(_, _, observation)| matches!(observation, Observation::Period { .. }))
            .map(|(at, _, _)| *at / MS)
            .collect();
        assert_eq!(periods[..3], [first, first + 100, first + 200], "{version}");
    }
}

#[test]
fn an_idle_group_stops_its_timer() {
    // The period in which the task slept marks the group idle at its end, the next one stops.
    for version in VERSIONS {
        let (mut world, group) = limited(version, 1, 50, 100, 0);
        let task = hog(&mut world, group, CPU);
        world.advance_to(10 * MS);
        world.block(CPU);
        world.advance_to(1050 * MS);
        // The tasks of the first period; one more finds nothing; the third stops.
        let periods = stat(&world, group).nr_periods;
        assert!((2..=3).contains(&periods), "{version}: {periods}");
        assert!(!world.kernel.groups[group].bandwidth.period_active);
        world.wake(CPU, task);
        world.advance(2 * MS);
        // The 1 ms it had kept is gone, it drew again. The phase is kept.
        assert!(world.kernel.groups[group].bandwidth.period_active);
        world.advance_to(1100 * MS + US);
        assert_eq!(stat(&world, group).nr_periods, periods + 1, "{version}");
    }
}

#[test]
fn burst_carries_unused_quota_over() {
    // Quota 50, burst 25 ms, periods at 100 ms. 28 ms are used in the first, so the refill finds 22
    // or so and makes it 72; the next period may draw all of that.
    for (version, burst) in releases([("5.13", false), ("5.14 5.16 6.18", true)]) {
        let (mut world, group) = limited(version, 1, 50, 100, 25);
        let task = hog(&mut world, group, CPU);
        world.advance_to(28 * MS);
        world.block(CPU);
        world.advance_to(100 * MS);
        world.wake(CPU, task);
        let before = world.runtime(task);
        world.advance_to(199 * MS);
        let used = (world.runtime(task) - before) / MS;
        // Runtime returned to the pool or kept on the CPU: 22 ms in all.
        let expected = if burst { 72 } else { 51 };
        assert_in!(used, expected - 1..=expected + 1, "{version}");
        world.advance_to(300 * MS);
        let BandwidthStat {
            nr_bursts,
            burst_time_ns,
            ..
        } = stat(&world, group);
        if burst && version != "5.14" {
            assert_eq!(nr_bursts, 1, "{version}");
            // The period drew 71 of its 71 ms: 21 more than the quota.
            assert_eq!(burst_time_ns / US, 21_000, "{version}");
        } else {
            assert_eq!((nr_bursts, burst_time_ns), (0, 0), "{version}");
        }
    }
}

#[test]
fn burst_is_capped() {
    // Ten idle periods do not add up: quota + burst is the most.
    let (mut world, group) = limited("6.1", 1, 50, 100, 20);
    let task = hog(&mut world, group, CPU);
    world.advance_to(5 * MS);
    world.block(CPU);
    // The timer stops meanwhile, too.
    world.advance_to(1000 * MS + MS);
    world.wake(CPU, task);
    let before = world.runtime(task);
    world.advance_to(1100 * MS - MS);
    let used = world.runtime(task) - before;
    // One millisecond stays on the CPU when its last task sleeps.
    assert!((70 * MS..=72 * MS).contains(&used), "{used}");
}

#[test]
fn what_a_queue_does_not_use_returns_to_the_pool() {
    // A slice of 5 ms was drawn, 2 ms ran, 1 ms stays: 2 ms return.
    for version in VERSIONS {
        let (mut world, group) = limited(version, 1, 50, 100, 0);
        hog(&mut world, group, CPU);
        world.advance_to(2 * MS);
        world.block(CPU);
        let found = queue(&world, group, CPU).runtime_remaining_ns;
        assert_eq!(found, MS as i64, "{version}");
        let pool = world.kernel.groups[group].bandwidth.runtime_ns;
        // From 6.18 a limit starts with 1 ns in hand.
        assert!(pool - 47 * MS <= 1, "{version}: {pool}");
    }
}

#[test]
fn slack_returned_by_one_cpu_releases_another() {
    // 20 ms per 100 in slices of 10. Both CPUs draw one; CPU 0 uses it up at 10 ms and is
    // throttled. CPU 1 slept at 2 ms: 7 ms returned then, so CPU 0 gets those 7 first and is
    // throttled at 17. With CPU 1 sleeping at 12 ms instead (having drawn 10 and run 2 since 10 ms)
    // the 7 ms return while CPU 0 waits, but that is no more than a slice.
    let run = |slice_ms: u64| {
        let mut world = World::with("6.1", 2, |rules| {
            rules.bandwidth_slice_ns = slice_ms * MS;
        });
        let group = world.limited(ROOT, 20_000, 100_000, 0);
        let first = hog(&mut world, group, CPU);
        let second = hog(&mut world, group, OTHER);
        world.advance_to(2 * MS);
        world.block(OTHER);
        world.wake(OTHER, second);
        world.advance_to(4 * MS);
        (world, group, first, second)
    };
    // Slices of 2 ms: nothing to wait for; all 20 ms are used by 10 ms.
    let (mut world, group, first, second) = run(2);
    world.advance_to(50 * MS);
    assert_eq!(world.runtime(first) + world.runtime(second), 20 * MS);
    assert!(queue(&world, group, CPU).throttled);
    // Slices of 10 ms: CPU 0 is throttled at 10 ms while CPU 1 sleeps with 6 of its 10 unused; 5 of
    // them return, which is not more than a slice, so CPU 0 waits for the period.
    let (mut world, group, first, _) = run(10);
    world.block(OTHER);
    world.advance_to(50 * MS);
    let used = world.runtime(first);
    assert!(
        (15 * MS..=16 * MS).contains(&used),
        "{used}: its own 10 and 5 of the pool"
    );
    assert!(queue(&world, group, CPU).throttled);
}

#[test]
fn the_slack_timer_hands_out_what_returned_late() {
    // Slices of 2 ms, quota 30 per 100 ms. CPU 1 holds 12 ms through one big slice drawn before the
    // slice size was lowered; it sleeps when CPU 0 is throttled already, and 5 ms later CPU 0 goes
    // on.
    let mut world = World::with("6.1", 2, |rules| rules.bandwidth_slice_ns = 20 * MS);
    let group = world.limited(ROOT, 30_000, 100_000, 0);
    let second = hog(&mut world, group, OTHER);
    world.advance_to(MS);
    world.kernel.rules.bandwidth_slice_ns = 2 * MS;
    let first = hog(&mut world, group, CPU);
    // CPU 1 drew 20, so CPU 0 has 10.
    world.advance_to(12 * MS);
    assert!(queue(&world, group, CPU).throttled);
    assert_eq!(world.runtime(first), 10 * MS);
    assert_eq!(world.current(OTHER), second);
    let started = |world: &World| world.kernel.groups[group].bandwidth.slack_started;
    assert!(!started(&world));
    world.block(OTHER);
    // 20 − 12 − 1 = 7 ms returned.
    assert!(started(&world));
    assert_eq!(world.kernel.groups[group].bandwidth.runtime_ns, 7 * MS);
    world.advance_to(17 * MS - US);
    assert_eq!(world.runtime(first), 10 * MS);
    world.advance_to(30 * MS);
    assert_eq!(world.runtime(first), 17 * MS);
    assert!(queue(&world, group, CPU).throttled);
    // It fired, so what returns next starts it again.
    assert!(!started(&world));
    world
        .kernel
        .start_cfs_slack_bandwidth(&mut world.bench, group);
    assert!(started(&world));
}

#[test]
fn slack_is_not_handed_out_right_before_a_refill() {
    // `runtime_refresh_within`: a timer that expires in exactly 7 ms is no nearer than 7 ms. The
    // slack timer waits 5 ms and wants 2 ms more until the refill, so at 93 ms of 100 it is
    // started, and a nanosecond later not.
    let (mut world, group) = limited("6.12", 1, 50, 100, 0);
    world.kernel.groups[group].bandwidth.expires_ns = 100 * MS;
    let near = |now, within| world.kernel.refresh_is_near(group, now, within);
    assert!(!near(93 * MS, 7 * MS));
    assert!(near(93 * MS + 1, 7 * MS));
    assert!(!near(98 * MS, 2 * MS));
    for (now, is_started) in [(93 * MS, true), (93 * MS + 1, false)] {
        let (mut world, group) = limited("6.12", 2, 50, 100, 0);
        hog(&mut world, group, CPU);
        world.advance_to(now);
        let bandwidth = &mut world.kernel.groups[group].bandwidth;
        bandwidth.expires_ns = 100 * MS;
        bandwidth.slack_started = false;
        world.kernel.here = CPU;
        world
            .kernel
            .start_cfs_slack_bandwidth(&mut world.bench, group);
        let bandwidth = &world.kernel.groups[group].bandwidth;
        assert_eq!(bandwidth.slack_started, is_started, "{now}");
    }
}

#[test]
fn up_to_5_3_runtime_of_an_earlier_period_is_not_returned() {
    // A task draws 5 ms at 99 ms and sleeps at 101. Of the 3 ms that are left 2 go back to the
    // pool, which the refill at 100 ms made 50; up to 5.3 they are lost, since they were drawn
    // before it.
    for (version, pool_ms) in [("4.15", 50), ("5.3", 50), ("5.4", 52), ("6.12", 52)] {
        let (mut world, group) = limited(version, 1, 50, 100, 0);
        world.advance_to(99 * MS);
        hog(&mut world, group, CPU);
        world.advance_to(101 * MS);
        let pool = |world: &World| world.kernel.groups[group].bandwidth.runtime_ns;
        let before = pool(&world);
        world.block(CPU);
        assert_eq!(pool(&world) - before, (pool_ms - 50) * MS, "{version}");
        // Runtime drawn in the current period is returned by all of them.
        world.advance_to(150 * MS);
        hog(&mut world, group, CPU);
        world.advance(MS);
        let before = pool(&world);
        world.block(CPU);
        assert!(pool(&world) > before, "{version}");
    }
}

#[test]
fn local_runtime_expires_in_4_18_to_5_3() {
    // A task runs 0.3 ms in each period: it draws 5 ms, keeps 1. From 5.4 on (and before 4.18,
    // where clock drift always extended it) what is kept serves three periods; in between it is
    // lost at the end of each.
    for (version, expires) in releases([("4.17 5.4", false), ("4.18 5.3", true)]) {
        let (mut world, group) = limited(version, 1, 50, 100, 0);
        let task = hog(&mut world, group, CPU);
        world.advance(300 * US);
        world.block(CPU);
        let mut drawn = 0;
        for period in 1..9 {
            world.advance_to((100 * period + 50) * MS);
            world.wake(CPU, task);
            let before = queue(&world, group, CPU).runtime_remaining_ns;
            world.advance(300 * US);
            world.block(CPU);
            let after = queue(&world, group, CPU).runtime_remaining_ns;
            drawn += u32::from(after != before - 300_000);
        }
        assert_eq!(drawn > 4, expires, "{version}: {drawn} draws");
    }
}

#[test]
fn drifted_clocks_extend_local_runtime_up_to_5_3() {
    // The queue's clock is ahead of the one the refill read: its runtime seems to expire at 2 ms of
    // the period it was drawn in. The tick at 4 ms moves that by a tick, and what is left stays.
    let (mut world, group) = limited("5.3", 1, 50, 100, 0);
    hog(&mut world, group, CPU);
    world.advance(MS);
    let q = world.kernel.cfs_rq_of(group, CPU);
    world.kernel.cfs_rqs[q].runtime_expires_ns = 2 * MS;
    world.advance_to(5 * MS);
    let queue = queue(&world, group, CPU);
    assert_eq!(queue.runtime_expires_ns, 6 * MS);
    assert!(queue.runtime_remaining_ns > 0 && !queue.throttled);
}

#[test]
fn a_parents_limit_holds_for_its_children() {
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let parent = world.group(ROOT);
        let (child, sibling) = (world.group(parent), world.group(parent));
        world.limit(parent, 20_000, 100_000, 0);
        world.limit(child, 80_000, 100_000, 0);
        let (a, b) = (hog(&mut world, child, CPU), hog(&mut world, sibling, CPU));
        world.advance_to(50 * MS);
        assert!(world.idle(CPU), "{version}");
        let at = |group| queue(&world, group, CPU);
        assert!(at(parent).throttled && !at(child).throttled, "{version}");
        assert_eq!(
            (at(parent).throttle_count, at(child).throttle_count),
            (1, 1)
        );
        world.advance_to(10_000 * MS);
        let total = world.runtime(a) + world.runtime(b);
        assert!(total.abs_diff(2000 * MS) <= 4 * MS, "{version}: {total}");
        let apart = world.runtime(a).abs_diff(world.runtime(b));
        assert!(apart <= 12 * MS, "{version}: {apart}");
        assert_eq!(stat(&world, child).nr_throttled, 0, "{version}");
    }
}

#[test]
fn a_child_throttled_below_a_throttled_parent_needs_both_released() {
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let parent = world.group(ROOT);
        let child = world.group(parent);
        world.limit(parent, 20_000, 100_000, 0);
        world.limit(child, 20_000, 200_000, 0);
        let task = hog(&mut world, child, CPU);
        // Both are used up at 20 ms. The parent's timer fires at 100 ms, the child's at 200.
        world.advance_to(150 * MS);
        assert!(world.idle(CPU), "{version}");
        // From 6.18 a limit starts with 1 ns in hand, which only the tick at 21 ms finds used up.
        assert!(world.runtime(task) / MS - 20 <= 1, "{version}");
        world.advance_to(210 * MS);
        assert_eq!(world.current(CPU), task, "{version}");
        world.advance_to(4000 * MS);
        assert_in!(world.runtime(task), 398 * MS..=402 * MS, "{version}");
    }
}

#[test]
fn other_cpus_release_themselves_from_6_3_on() {
    // Both CPUs are throttled; the timer fires on CPU 0. Up to 6.2 it releases both itself.
    for (version, asynchronous) in [("6.2", false), ("6.3", true), ("6.18", true)] {
        let (mut world, group) = limited(version, 2, 20, 100, 0);
        for cpu in [CPU, OTHER] {
            hog(&mut world, group, cpu);
        }
        world.advance_to(99 * MS);
        assert!(world.idle(CPU) && world.idle(OTHER));
        world.bench.now = 100 * MS;
        let timer_cpu = world.kernel.groups[group].bandwidth.timer_cpu;
        let remote = if timer_cpu == CPU { OTHER } else { CPU };
        let World { kernel, bench, .. } = &mut world;
        kernel.period_timer(bench, timer_cpu, group);
        let q = kernel.cfs_rq_of(group, remote);
        assert_eq!(kernel.cfs_rqs[q].throttled, asynchronous, "{version}");
        let q = kernel.cfs_rq_of(group, timer_cpu);
        assert!(!kernel.cfs_rqs[q].throttled, "{version}");
        world.call(timer_cpu, |_, _| {});
        assert!(!world.idle(CPU) && !world.idle(OTHER), "{version}");
    }
}

#[test]
fn from_6_18_tasks_are_parked_at_their_return_to_user_mode() {
    let (mut world, group) = limited("6.18", 1, 20, 100, 0);
    let (a, b) = (hog(&mut world, group, CPU), hog(&mut world, group, CPU));
    world.advance_to(50 * MS);
    assert!(world.idle(CPU));
    let queue_now = queue(&world, group, CPU);
    assert!(queue_now.throttled && queue_now.limbo.len() == 2 && queue_now.nr_queued == 0);
    // A kernel thread of the group is never parked, and its debt grows.
    let mut kthread = world.clone();
    let thread = kthread.start(crate::task::TaskAttributes {
        group,
        address_space: None,
        ..crate::task::TaskAttributes::on(CPU)
    });
    kthread.advance_to(80 * MS);
    assert_eq!(kthread.current(CPU), thread);
    // The others ran until the tick at 21 ms on 20 ms and 1 ns.
    let remaining = queue(&kthread, group, CPU).runtime_remaining_ns;
    assert_eq!(remaining, -30_999_999);
    kthread.block(CPU);
    // 20 ms at 100 do not pay 31; the next 20 do.
    kthread.advance_to(190 * MS);
    assert!(kthread.idle(CPU));
    kthread.advance_to(205 * MS);
    assert!(!kthread.idle(CPU));
    // A task that is moved to another group is free at once.
    let other = hog(&mut world, ROOT, CPU);
    world.set_group(CPU, a, ROOT);
    world.advance_to(90 * MS);
    assert_eq!(queue(&world, group, CPU).limbo, [b]);
    let before = world.runtime(a) + world.runtime(b) - 21 * MS;
    assert!(before.abs_diff(world.runtime(other)) <= 2 * MS);
}

#[test]
fn a_task_moved_out_of_a_throttled_group_waits_on_an_idle_cpu_until_7_0() {
    // 1 ms in 100; nothing asks the CPU to reschedule before 7.1 (`sched_move_task`).
    for (version, runs) in releases([("5.10 6.1 6.18", false), ("7.1", true)]) {
        let mut world = World::new(version, 1);
        let group = world.limited(ROOT, 1000, 100_000, 0);
        let task = world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance_to(30 * MS);
        assert!(world.idle(CPU), "{version}");
        world.set_group(CPU, task, ROOT);
        world.advance_to(50 * MS);
        assert_eq!(!world.idle(CPU), runs, "{version}");
        world.call(CPU, |kernel, bench| kernel.resched_curr(bench, CPU));
        assert_eq!(world.current(CPU), task, "{version}");
    }
}

#[test]
fn a_parked_task_that_is_moved_takes_its_load_from_all_levels() {
    // 20 ms at full speed after a start at half of the CPU: the root queue carries that utilisation
    // for the group's entity. The group's queue is empty and throttled, it is not updated until its
    // timer.
    let (mut world, group) = limited("6.18", 2, 20, 100, 0);
    let task = hog(&mut world, group, CPU);
    world.advance_to(50 * MS);
    assert_eq!(queue(&world, group, CPU).limbo, [task]);
    let util = |world: &World| world.kernel.root_cfs_rq(CPU).avg.util_avg;
    assert!(util(&world) > 300, "{}", util(&world));
    world.set_affinity(CPU, task, crate::cpuset::CpuSet::of(OTHER));
    assert_eq!(world.kernel.tasks[task].cpu, OTHER);
    assert!(util(&world) <= 2, "{}", util(&world));
}

#[test]
fn a_released_queue_that_only_decays_brings_its_parents_back_to_the_list() {
    // As above a queue is throttled while its only task goes to sleep. Its parent's averages are
    // taken for decayed meanwhile.
    for version in ["5.15", "6.1", "6.12", "6.18"] {
        let mut world = World::new(version, 1);
        let parent = world.group(ROOT);
        let group = world.limited(parent, 19_500, 100_000, 0);
        hog(&mut world, group, CPU);
        world.advance_to(19_700 * US);
        world.block(CPU);
        assert!(queue(&world, group, CPU).throttled, "{version}");
        let listed = |world: &World| {
            [group, parent, ROOT].map(|group| queue(world, group, CPU).on_leaf_list)
        };
        for group in [parent, ROOT] {
            let q = world.kernel.cfs_rq_of(group, CPU);
            world.kernel.list_del_leaf_cfs_rq(q);
        }
        assert!(!listed(&world)[1], "{version}");
        world.call(CPU, |kernel, bench| {
            bench.now = 100 * MS;
            kernel.period_timer(bench, CPU, group);
        });
        assert_eq!(listed(&world), [true; 3], "{version}");
    }
}

#[test]
fn a_task_woken_into_a_throttled_group_waits() {
    for version in VERSIONS {
        let (mut world, group) = limited(version, 1, 20, 100, 0);
        let sleeper = hog(&mut world, group, CPU);
        world.advance_to(MS);
        world.block(CPU);
        let hungry = hog(&mut world, group, CPU);
        world.advance_to(50 * MS);
        assert!(world.idle(CPU), "{version}");
        world.wake(CPU, sleeper);
        assert!(world.idle(CPU), "{version}: neither runs");
        assert_eq!(world.runtime(sleeper), MS, "{version}");
        world.advance_to(130 * MS);
        assert!(world.runtime(sleeper) > 5 * MS && world.runtime(hungry) > 25 * MS);
    }
}

#[test]
fn throttled_time_is_not_counted_for_empty_queues() {
    // The task goes to sleep between two ticks, having overrun its last slice by 0.2 ms: the queue
    // is throttled though no task waits. Up to 6.5 the 80 ms until the timer count, later nothing
    // does.
    for (version, counted) in releases([("5.14 6.5", 80), ("6.6 6.12 6.18", 0)]) {
        let mut world = World::new(version, 1);
        let group = world.limited(ROOT, 19_500, 100_000, 0);
        hog(&mut world, group, CPU);
        world.advance_to(19_700 * US);
        world.block(CPU);
        assert!(queue(&world, group, CPU).throttled, "{version}");
        world.advance_to(101 * MS);
        let found = stat(&world, group).throttled_time_ns / MS;
        assert_eq!(found, counted, "{version}");
        assert!(!queue(&world, group, CPU).throttled, "{version}");
    }
}

#[test]
fn lifting_a_limit_releases_at_once() {
    for version in VERSIONS {
        let (mut world, group) = limited(version, 1, 20, 100, 0);
        let task = hog(&mut world, group, CPU);
        world.advance_to(50 * MS);
        assert!(world.idle(CPU));
        world.call(CPU, |kernel, bench| {
            let limit = crate::group::BandwidthLimit::UNLIMITED;
            kernel
                .group_set_bandwidth(bench, CPU, group, limit, Default::default())
                .unwrap();
        });
        assert_eq!(world.current(CPU), task, "{version}");
        world.advance_to(1000 * MS);
        assert!(world.runtime(task) / MS - 970 <= 1, "{version}");
    }
}

#[test]
fn a_queue_created_below_a_throttled_one_starts_with_its_clock_stopped() {
    // Its clock stands at the CPU's from its creation at 50 ms on. Up to 6.17 it does so until the
    // release, later until the first task comes, which goes on from there.
    for version in VERSIONS {
        let (mut world, parent) = limited(version, 1, 20, 100, 0);
        hog(&mut world, parent, CPU);
        world.advance_to(50 * MS);
        let child = world.group(parent);
        let q = world.kernel.cfs_rq_of(child, CPU);
        let created = world.kernel.rq_clock_pelt(CPU);
        assert!(created > 50 * MS, "{version}");
        assert_eq!(queue(&world, child, CPU).throttle_count, 1, "{version}");
        world.advance_to(80 * MS);
        let task = hog(&mut world, child, CPU);
        assert_eq!(world.kernel.cfs_rq_clock_pelt(q), created, "{version}");
        let attached = world.entity(task).avg.last_update_time;
        assert!(created - attached < 1024, "{version}");
    }
}

#[test]
fn groups_below_a_released_one_come_back_newest_first() {
    // From 6.18 on their tasks are queued one by one at the release, and a group's children are
    // listed newest first.
    let (mut world, parent) = limited("6.18", 1, 20, 100, 0);
    let (older, newer) = (world.group(parent), world.group(parent));
    let (a, b) = (hog(&mut world, older, CPU), hog(&mut world, newer, CPU));
    world.advance_to(99 * MS);
    assert!(world.idle(CPU));
    world.bench.now = 100 * MS;
    let World { kernel, bench, .. } = &mut world;
    kernel.period_timer(bench, CPU, parent);
    assert_eq!(kernel.rqs[0].cfs_tasks, [b, a]);
}

#[test]
fn averages_stand_still_while_throttled() {
    for version in VERSIONS {
        let (mut world, group) = limited(version, 1, 50, 1000, 0);
        hog(&mut world, group, CPU);
        world.advance_to(60 * MS);
        let util = queue(&world, group, CPU).avg.util_avg;
        world.advance_to(999 * MS);
        // Half a second would have decayed it by 2^15.
        assert_eq!(queue(&world, group, CPU).avg.util_avg, util, "{version}");
        assert!(util > 600, "{version}: {util}");
    }
}
