//! Changes of 6.19 to 7.2 in the fair class, computed by hand.

use super::world::*;
use crate::kernel::Arrival;
use crate::weight::LoadWeight;

const CPU: Cpu = Cpu(0);
const QUEUE: CfsRqId = CfsRqId(0);

/// When the CPU changed between two hogs that start at 0.
fn changes(version: &str, hrtick: bool) -> Vec<Ns> {
    let mut world = World::with(version, 8, |rules| rules.features.hrtick = hrtick);
    let (_a, _b) = (world.spawn(CPU), world.spawn(CPU));
    world.advance_to(12 * MS);
    let switches = world.switches(CPU);
    switches
        .into_iter()
        .map(|(at, _)| at)
        .filter(|at| *at > 0)
        .collect()
}

#[test]
fn the_timer_ends_requests_where_ticks_came_late() {
    // 1000 Hz, requests of 2.8 ms, the first one 1.4 ms. With the timer A runs to 1.4, B (the same
    // deadline, but A is ahead now) to 2.8; then both have 2.8 ms more: A to 5.6, B to 8.4, A to
    // 11.2. Without it each end waits for a tick.
    assert_eq!(
        changes("7.1", true),
        [1400, 2800, 5600, 8400, 11_200].map(|at| at * US)
    );
    assert!(changes("7.1", false).iter().all(|at| at.is_multiple_of(MS)));
    assert_eq!(changes("7.1", false), changes("7.0", false));
}

#[test]
fn the_timer_is_set_by_weight_and_only_while_others_wait() {
    let mut world = World::new("7.1", 8);
    world.spawn(CPU);
    world.advance_to(10 * MS + 500 * US);
    assert_eq!(world.switches(CPU).len(), 1);
    // Alone it had a new request at each tick that found the last one used up: at 2, 5 and 8 ms, so
    // until 10.8 ms.
    world.spawn_in(GroupId::ROOT, CPU, Policy::Normal, 0);
    let due = world.next_due().unwrap();
    assert_eq!(due, 10 * MS + 800 * US);
}

#[test]
fn the_timer_that_another_cpu_asked_for_is_set_for_the_time_asked_for_last() {
    // At 10.5 ms CPU 1 asks for 10.8 ms, then for 10.7 ms; a switch of CPU 0 before that interrupt
    // arrives sets the timer for 10.9 ms, where it stays.
    let mut world = World::new("7.1", 8);
    world.spawn(CPU);
    world.advance_to(10 * MS + 500 * US);
    world.call(Cpu(1), |kernel, bench| {
        kernel.here = Cpu(1);
        kernel.hrtick_start(bench, CPU, 300 * US);
    });
    assert_eq!(world.next_due(), Some(10 * MS + 800 * US));
    world.call(Cpu(1), |kernel, bench| {
        kernel.here = Cpu(1);
        kernel.hrtick_start(bench, CPU, 200 * US);
        kernel.hrtick_schedule_enter(CPU);
        kernel.hrtick_start(bench, CPU, 400 * US);
        kernel.hrtick_schedule_exit(bench, CPU);
    });
    assert_eq!(world.next_due(), Some(10 * MS + 900 * US));
}

#[test]
fn a_fork_does_not_preempt_from_6_19_on() {
    // The parent has long used up its protection; its child is placed at V with half a request, so
    // with the earlier deadline.
    for (version, preempts) in [("6.18", true), ("6.19", false), ("7.1", false)] {
        let mut world = World::with(version, 8, |rules| rules.features.hrtick = false);
        let parent = world.spawn(CPU);
        // Its request ends at 10.8 ms, as above; the child's is 1.4 ms.
        world.advance_to(8 * MS + 500 * US);
        let child = world.spawn(CPU);
        let runs = if preempts { child } else { parent };
        assert_eq!(world.current(CPU), runs, "{version}");
    }
}

#[test]
fn the_lag_of_a_delayed_sleeper_never_falls_from_7_1_on() {
    // B ran 1 ms ahead of A: V is half way, its lag −0.5 ms. A lag remembered as −0.2 ms stays that
    // from 7.1 on.
    for (version, lag_us, changed) in [("7.0", -500, false), ("7.1", -200, true)] {
        let mut world = World::new(version, 8);
        world.checked = false;
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        let (a, b) = [a, b].map(|task| world.kernel.tasks[task].se).into();
        let queue = &mut world.kernel.cfs_rqs[QUEUE];
        assert_eq!(queue.curr, Some(a));
        // A runs, so its vruntime may be changed in place.
        let ahead = world.kernel.entities[b].vruntime;
        world.kernel.entities[a].vruntime = ahead.wrapping_add(1_000_000);
        world.kernel.entities[a].vlag = -200_000;
        world.kernel.entities[a].sched_delayed = true;
        assert_eq!(world.kernel.update_entity_lag(QUEUE, a), changed);
        assert_eq!(world.kernel.entities[a].vlag, lag_us * 1000, "{version}");
    }
}

#[test]
fn the_running_task_is_charged_before_a_delayed_sleeper_is_placed_again_from_7_2_on() {
    for (version, charged_ns) in [("7.1", 0), ("7.2", 500 * US)] {
        let mut world = World::new(version, 8);
        world.checked = false;
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        let World { kernel, bench, .. } = &mut world;
        kernel.update_rq_clock(bench, CPU);
        let sleeper = kernel.tasks[b].se;
        kernel.entities[sleeper].sched_delayed = true;
        kernel.requeue_delayed_entity(bench, sleeper);
        assert_eq!(world.entity(a).sum_exec_runtime, charged_ns, "{version}");
    }
}

#[test]
fn fractions_of_weights_count_from_7_1_on() {
    // Weights 1024 and 768.5 · 1024 / 1024 (786,944 of 2^20): V of vruntimes 0 and 10 ms is 10 ·
    // 768.5 / 1792.5 = 4.287308 ms; by whole weights 10 · 768 / 1792 = 4.285714.
    for (version, average) in [("7.0", 4_285_714), ("7.1", 4_287_308)] {
        let mut world = World::new(version, 1);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        let (a, b) = [a, b].map(|task| world.kernel.tasks[task].se).into();
        assert_eq!(world.kernel.cfs_rqs[QUEUE].curr, Some(a));
        world.kernel.timeline_remove(QUEUE, b);
        let load = world
            .kernel
            .rules
            .virtual_weight(&LoadWeight::from_scaled(786_944));
        let start = world.kernel.entities[a].vruntime;
        let entity = &mut world.kernel.entities[b];
        (entity.h_load, entity.vruntime) = (load, start.wrapping_add(10 * MS));
        world.kernel.timeline_insert(QUEUE, b);
        let v = world.kernel.avg_vruntime(QUEUE).wrapping_sub(start);
        assert_eq!(v, average, "{version}");
    }
}

#[test]
fn kernels_from_7_0_on_preempt_at_least_lazily() {
    use crate::rules::{KernelChoice, Preemption, Rules};
    for (version, asked, has) in [
        ("6.19", Preemption::Voluntary, Preemption::Voluntary),
        ("7.0", Preemption::Voluntary, Preemption::Lazy),
        ("7.0", Preemption::None, Preemption::Lazy),
        ("7.2", Preemption::Full, Preemption::Full),
    ] {
        let choice = KernelChoice {
            preemption: asked,
            ..KernelChoice::released(version.parse().unwrap(), 4)
        };
        assert_eq!(Rules::resolve(&choice).unwrap().preemption, has);
    }
}

#[test]
fn a_task_that_becomes_real_time_leaves_load_behind_from_6_19_on() {
    // A SCHED_IDLE hog weighs 3. It gets the weight of its nice value, 1024, when it becomes a
    // SCHED_FIFO task. Up to 6.18 all of it leaves the queue; from 6.19 on its 3 leave, and then
    // the change of weight adds its 1024.
    for (version, left) in [("6.18", 0), ("6.19", 1024), ("7.3", 1024)] {
        let mut world = World::new(version, 1);
        let task = world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
        world.advance_to(400 * MS);
        world.set_policy(CPU, task, Policy::Fifo, 0, 1);
        let load = world.kernel.cfs_rqs[QUEUE].avg.load_avg;
        assert!(load.abs_diff(left) <= 10, "{version}: {load}");
    }
}

#[test]
fn the_same_policy_again_takes_a_task_off_and_back_from_6_12_on() {
    // At 1.5 ms the last tick has charged 1 ms. A task that is taken off is charged up to now.
    for (version, policy, charged_us) in [
        ("6.11", Policy::Normal, 1000),
        ("6.12", Policy::Normal, 1500),
        ("6.19", Policy::Normal, 1500),
        ("7.3", Policy::Batch, 1500),
        ("7.3", Policy::Idle, 1000),
    ] {
        let mut world = World::with(version, 1, |rules| rules.features.hrtick = false);
        let task = world.spawn_in(GroupId::ROOT, CPU, policy, 0);
        world.advance_to(MS + 500 * US);
        world.set_policy(CPU, task, policy, 0, 0);
        let charged = world.entity(task).sum_exec_runtime;
        assert_eq!(charged, charged_us * US, "{version} {policy:?}");
    }
}

#[test]
fn a_task_that_is_moved_to_another_group_may_preempt_from_7_1_on() {
    // Both are in groups with cpu.idle; the one that waits comes to the root group, where it is
    // none of the idle ones.
    for (version, preempts) in [("7.0", false), ("7.1", true), ("7.3", true)] {
        let mut world = World::with(version, 1, |rules| rules.features.hrtick = false);
        let groups = [world.group(GroupId::ROOT), world.group(GroupId::ROOT)];
        let tasks = groups.map(|group| {
            world.set_idle(CPU, group, true);
            world.spawn_in(group, CPU, Policy::Normal, 0)
        });
        let [runs, waits] = tasks;
        assert_eq!(world.current(CPU), runs);
        world.advance(10 * US);
        world.set_group(CPU, waits, GroupId::ROOT);
        assert_eq!(world.current(CPU) == waits, preempts, "{version}");
    }
}

#[test]
fn an_idle_period_without_a_start_counts_as_all_time_since_boot_from_7_0_to_7_2_6() {
    // The CPU idled for 300 µs, or a wakeup that was on its way kept it from noting when it began.
    // The average was 200 µs: an eighth of the difference makes 212.5. At one second of uptime an
    // eighth of the difference is 125 ms, and the average stops at twice the dearest balancing,
    // 1 ms.
    let cases = [("6.19", 200_000), ("7.0", 1_000_000), ("7.2.6", 1_000_000)];
    for (version, unstarted_ns) in cases
        .into_iter()
        .chain([("7.2.7", 200_000), ("7.3", 200_000)])
    {
        for (start, expected_ns) in [(1000 * MS - 300 * US, 212_500), (0, unstarted_ns)] {
            let mut world = World::with(version, 2, |_| {});
            world.call(CPU, |kernel, _| {
                let rq = &mut kernel.rqs[CPU];
                (rq.clock, rq.idle_stamp, rq.avg_idle) = (1000 * MS, start, 200 * US);
                kernel.end_idle_stamp(CPU);
                let average_ns = kernel.rqs[CPU].avg_idle;
                assert_eq!(average_ns, expected_ns, "{version} {start}");
            });
        }
    }
}

/// Whether the wakeup of a task that asks for 0.1 ms preempts a group that is the next buddy, and
/// whether the group still is the buddy then.
///
/// Groups A and B are below the root. B's task was alone when it went to sleep, so it is placed at
/// V. In A the second of two tasks runs, is owed time and goes to sleep, the first runs on: the
/// root never leaves A, whose entity stays the buddy there and has run no longer than V.
fn wakes_beside_a_buddy(version: &str, change: impl FnOnce(&mut Rules)) -> [bool; 2] {
    let mut world = World::with(version, 1, change);
    let [a, b] = [(); 2].map(|()| world.group(GroupId::ROOT));
    let short = world.start(TaskAttributes {
        group: b,
        custom_slice_ns: Some(100 * US),
        ..TaskAttributes::on(CPU)
    });
    world.block(CPU);
    let [first, _] = [(); 2].map(|()| world.spawn_in(a, CPU, Policy::Normal, 0));
    while world.current(CPU) == first {
        world.advance(100 * US);
    }
    world.block(CPU);
    world.advance(100 * US);
    let of_a = world.kernel.cfs_rqs[world.kernel.cfs_rq_of(a, CPU)].se;
    let is_buddy = |world: &World| world.kernel.cfs_rqs[QUEUE].next == of_a;
    assert!(is_buddy(&world), "{version}");
    let flags = WakeFlags::new(false, Context::HardIrq);
    world.kernel.wake(&mut world.bench, CPU, short, flags);
    let rq = &world.kernel.rqs[CPU];
    [rq.need_resched || rq.need_resched_lazy, is_buddy(&world)]
}

#[test]
fn a_buddy_keeps_a_shorter_request_waiting_in_6_19_and_7_0() {
    let commit_alone = |rules: &mut Rules| rules.short_requests_pass_buddies = true;
    assert_eq!(wakes_beside_a_buddy("6.18", |_| ()), [true, true]);
    assert_eq!(wakes_beside_a_buddy("6.19", |_| ()), [false, true]);
    assert_eq!(wakes_beside_a_buddy("7.0", |_| ()), [false, true]);
    assert_eq!(wakes_beside_a_buddy("7.0.10", |_| ()), [false, true]);
    assert_eq!(wakes_beside_a_buddy("7.0", commit_alone), [true, false]);
    assert_eq!(wakes_beside_a_buddy("7.1", |_| ()), [true, false]);
}

#[test]
fn a_fair_task_that_wakes_behind_a_real_time_one_becomes_no_buddy_from_7_0_on() {
    // A runs; in one interrupt F (FIFO) wakes and then B, whose requests are shorter than A's.
    // Held against A, B would be picked and marked as the next one; held against F it is not
    // looked at.
    for (meets, is_buddy) in [(false, true), (true, false)] {
        let mut world = World::with("7.3", 1, |rules| {
            assert!(rules.arrivals_meet_next_class);
            rules.arrivals_meet_next_class = meets;
        });
        let fifo = world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
        world.block(CPU);
        let b = world.spawn(CPU);
        world.call(CPU, |kernel, p| {
            kernel.set_custom_slice(p, CPU, b, Some(100_000));
        });
        world.block(CPU);
        let a = world.spawn(CPU);
        world.advance(20 * MS);
        assert_eq!(world.current(CPU), a);
        world.checked = false;
        let flags = WakeFlags::new(false, Context::HardIrq);
        let kernel = &mut world.kernel;
        for task in [fifo, b] {
            assert!(kernel.wake(&mut world.bench, CPU, task, flags));
        }
        let se = kernel.tasks[b].se;
        assert_eq!(kernel.cfs_rqs[QUEUE].next == Some(se), is_buddy, "{meets}");
    }
}

#[test]
fn what_a_cpu_pulls_behind_a_real_time_task_is_held_against_that_in_7_0_and_7_1() {
    // A search for tasks makes the fair class the next one while a real-time task still is the
    // current one.
    for (version, is_buddy) in releases([("6.19 7.2", false), ("7.0 7.1", true)]) {
        let mut world = World::with(version, 1, |rules| rules.features.next_buddy = true);
        world.checked = false;
        let fifo = world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
        let fair = world.spawn(CPU);
        assert_eq!(world.current(CPU), fifo);
        let kernel = &mut world.kernel;
        kernel.rqs[CPU].next_rank = Policy::Normal.rank();
        kernel.wakeup_preempt(&mut world.bench, CPU, fair, Arrival::Other);
        let se = kernel.tasks[fair].se;
        assert_eq!(
            kernel.cfs_rqs[QUEUE].next == Some(se),
            is_buddy,
            "{version}"
        );
    }
}

#[test]
fn a_running_task_that_gets_a_higher_class_raises_the_next_one_up_to_7_2_12() {
    // SCHED_FIFO is 2, the fair class 1: it does not fall back with a lower one.
    for version in ["7.1", "7.2.12"] {
        let mut world = World::new(version, 1);
        let task = world.spawn(CPU);
        assert_eq!(world.kernel.rqs[CPU].next_rank, 1, "{version}");
        for (policy, priority) in [(Policy::Fifo, 50), (Policy::Normal, 0)] {
            let World { kernel, bench, .. } = &mut world;
            kernel.set_policy(bench, CPU, task, policy, 0, priority);
            assert_eq!(kernel.rqs[CPU].next_rank, 2, "{version}, {policy:?}");
        }
    }
}
