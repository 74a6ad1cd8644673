//! Rules in which drawn worlds differed from the kernel's own C (docs/validation/oracle.md), each
//! with a number worked out by hand.

use super::deadline::reserve;
use super::world::*;
use crate::dl::Reservation;

const CPU: Cpu = Cpu(0);
const OTHER: Cpu = Cpu(1);
const BOTH: [Cpu; 2] = [CPU, OTHER];

fn wake_unsettled(world: &mut World, cpu: Cpu, task: TaskId) {
    let flags = WakeFlags::new(false, Context::HardIrq);
    world.kernel.wake(&mut world.bench, cpu, task, flags);
}

/// Entity of a group on a CPU.
fn group_entity(world: &World, group: GroupId, cpu: Cpu) -> EntityId {
    let q = world.kernel.cfs_rq_of(group, cpu);
    world.kernel.cfs_rqs[q].se.unwrap()
}

fn start_in(world: &mut World, group: GroupId, cpu: Cpu, policy: Policy, slice_ns: u64) -> TaskId {
    world.start(TaskAttributes {
        policy,
        group,
        custom_slice_ns: (slice_ns > 0).then_some(slice_ns),
        ..TaskAttributes::on(cpu)
    })
}

/// A deadline task on CPU 1 with 10 ms in every 100.
fn deadline_task(world: &mut World, runtime_ns: u64, cpu: Cpu) -> TaskId {
    let task = world.spawn(cpu);
    let asked = Reservation {
        runtime_ns,
        ..reserve(0, 100, 100)
    };
    world.call(cpu, |kernel, bench| {
        kernel
            .set_deadline_nocheck(bench, cpu, task, asked)
            .unwrap();
    });
    task
}

#[test]
fn a_queue_without_tasks_is_unthrottled_without_a_reschedule_up_to_5_12() {
    // A sleeper has left load behind in the group. Another task has used up 1 ms of 10 at the tick
    // at 1 ms, is moved to the root while its CPU idles, and nobody asks. From 5.13 on the period
    // does: the load has not decayed, so that the queue is unthrottled to the end.
    for (version, waits) in releases([("5.10 5.12", true), ("5.13 6.1", false)]) {
        let mut world = World::new(version, 1);
        world.checked = false;
        let group = world.limited(GroupId::ROOT, 1_000, 10_000, 0);
        world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance(300 * US);
        world.block(CPU);
        let task = world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance_to(5 * MS);
        assert!(world.idle(CPU), "{version}");
        world.set_group(CPU, task, GroupId::ROOT);
        assert!(world.idle(CPU), "{version}");
        world.advance_to(25 * MS);
        assert_eq!(world.idle(CPU), waits, "{version}");
    }
}

#[test]
fn a_new_task_joins_its_queue_before_it_is_enqueued_up_to_6_0() {
    // The pool of the group is empty, so that the enqueue throttles its queue on CPU 1 at once.
    // Half of an idle CPU's 1024 have reached the root before that, or not.
    for (version, util) in [("5.10", 512), ("6.0", 512), ("6.1", 0), ("6.12", 0)] {
        let mut world = World::new(version, 2);
        let group = world.limited(GroupId::ROOT, 1_000, 100_000, 0);
        world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance_to(5 * MS);
        assert!(world.idle(CPU), "{version}");
        world.spawn_in(group, OTHER, Policy::Normal, 0);
        assert!(world.idle(OTHER), "{version}");
        assert_eq!(world.kernel.cfs_rqs[1].avg.util_avg, util, "{version}");
    }
}

#[test]
fn a_group_that_was_unthrottled_returns_to_the_base_slice() {
    // The group comes to CPU 1's queue by being unthrottled at 100 ms. A second task that asks for
    // 1 ms shortens its request to that, but does not make it the group's own.
    let mut world = World::new("6.12", 2);
    let group = world.limited(GroupId::ROOT, 1_000, 100_000, 0);
    world.spawn_in(group, CPU, Policy::Normal, 0);
    world.advance_to(5 * MS);
    start_in(&mut world, group, OTHER, Policy::Normal, 10 * MS);
    let se = group_entity(&world, group, OTHER);
    assert!(!world.kernel.entities[se].on_rq);
    world.advance_to(100 * MS + 100 * US);
    assert!(world.kernel.entities[se].on_rq);
    start_in(&mut world, group, OTHER, Policy::Normal, MS);
    let entity = &world.kernel.entities[se];
    assert_eq!((entity.slice, entity.custom_slice), (MS, false));
    // One that the group is put back with makes it its own.
    world.advance_to(150 * MS);
    let mut world = World::new("6.12", 1);
    let group = world.group(GroupId::ROOT);
    start_in(&mut world, group, CPU, Policy::Normal, MS);
    let se = group_entity(&world, group, CPU);
    let entity = &world.kernel.entities[se];
    assert_eq!((entity.slice, entity.custom_slice), (MS, true));
}

#[test]
fn an_idle_task_beside_a_group_of_idle_tasks_has_the_short_slice() {
    // The group is not idle, although its only task is. On two CPUs the least slice of SCHED_IDLE
    // tasks among others is 0.75 ms from 6.1 on, that of all others 1.5 ms.
    let mut world = World::new("6.1", 2);
    let group = world.group(GroupId::ROOT);
    let task = start_in(&mut world, GroupId::ROOT, CPU, Policy::Idle, 0);
    start_in(&mut world, group, CPU, Policy::Idle, 0);
    let (kernel, se) = (&world.kernel, world.kernel.tasks[task].se);
    assert_eq!(kernel.rules.min_granularity_ns, 1_500 * US);
    assert_eq!(kernel.sched_slice(CfsRqId(0), se), 750 * US);
    // Beside another SCHED_IDLE task it is half of the period of 12 ms.
    let mut world = World::new("6.1", 2);
    let task = start_in(&mut world, GroupId::ROOT, CPU, Policy::Idle, 0);
    start_in(&mut world, GroupId::ROOT, CPU, Policy::Idle, 0);
    let se = world.kernel.tasks[task].se;
    let slice = world.kernel.sched_slice(CfsRqId(0), se);
    assert!(slice.abs_diff(6 * MS) < 10, "{slice}");
}

#[test]
fn a_lead_of_exactly_a_slice_is_none_yet() {
    // Two equal tasks under CFS: 1.5 ms have passed, which is the least, and less than the slice of
    // 6 ms. The running one gives way when it is ahead by more than that.
    for (lead_ns, gives_way) in [(6 * MS, false), (6 * MS + 1, true)] {
        let mut world = World::new("6.1", 2);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        let runs = world.current(CPU);
        let waits = if runs == a { b } else { a };
        let se = world.kernel.tasks[runs].se;
        let first = world.entity(waits).vruntime;
        let slice = world.kernel.sched_slice(CfsRqId(0), se);
        let entity = &mut world.kernel.entities[se];
        entity.vruntime = first + lead_ns - 6 * MS + slice;
        entity.sum_exec_runtime = entity.prev_sum_exec_runtime + 1_500 * US;
        world.kernel.rqs[0].need_resched = false;
        let bench = &mut world.bench;
        world.kernel.check_preempt_tick(bench, CfsRqId(0), se);
        assert_eq!(world.kernel.rqs[0].need_resched, gives_way);
    }
}

#[test]
fn the_first_ineligible_vruntime_may_be_the_origin_itself() {
    // V of the others lies 1/1024 ns before the origin: floor is -1, and one more is 0.
    let mut world = World::new("7.3", 1);
    let cfs_rq = &mut world.kernel.cfs_rqs[0];
    (cfs_rq.min_vruntime, cfs_rq.avg_load, cfs_rq.avg_vruntime) = (5_000, 1024, -1);
    assert_eq!(world.kernel.ineligible_vruntime(CfsRqId(0)), 5_000);
}

#[test]
fn from_7_1_on_timers_stay_where_the_tick_runs() {
    // CPU 0 idles and CPU 1 does not. A timer of CPU 0 moves there, unless its tick still runs.
    for (version, tick_runs, target) in [
        ("7.0", true, OTHER),
        ("7.1", true, CPU),
        ("7.1", false, OTHER),
        ("7.3", true, CPU),
    ] {
        let mut world = World::new(version, 2);
        world.spawn(OTHER);
        world.advance_to(5 * MS);
        world.kernel.here = CPU;
        world.kernel.rqs[0].tick_running = tick_runs;
        world.kernel.rqs[0].need_resched = false;
        // CPU 1's next timer fires before this one.
        world.bench.high_resolution_timer = Some(6 * MS);
        let arm = |world: &mut World, last| {
            let bench = &mut world.bench;
            world
                .kernel
                .arm_unpinned(bench, Timer::RtPeriod, 7 * MS, last)
        };
        assert_eq!(arm(&mut world, Some(CPU)), Some(target), "{version}");
        assert_eq!(arm(&mut world, Some(OTHER)), Some(OTHER), "{version}");
    }
}

#[test]
fn real_time_tasks_are_sent_to_cpus_with_deadline_tasks_up_to_5_10() {
    // CPU 0 has a task of priority 50, CPU 1 a deadline task, of which real-time priorities know
    // nothing: it counts as the lower one.
    for (version, cpu) in [("5.10", OTHER), ("5.11", CPU), ("6.12", CPU)] {
        let mut world = World::new(version, 2);
        deadline_task(&mut world, 50 * MS, OTHER);
        world.spawn_fifo(CPU, 50, CpuSet::of(CPU));
        let task = world.spawn_fifo(CPU, 10, BOTH.into_iter().collect());
        assert_eq!(world.kernel.tasks[task].cpu, cpu, "{version}");
    }
}

#[test]
fn a_child_of_a_real_time_task_begins_at_0_up_to_6_5() {
    // The queue of the parent's group, where no fair task ever ran, stands at -2^20 ns; without a
    // debit the child is placed at the later one of that and 0, and is 2^20 ns ahead of its queue.
    let mut world = World::with("6.5", 1, |rules| rules.features.start_debit = false);
    let group = world.group(GroupId::ROOT);
    world.start(TaskAttributes {
        policy: Policy::Fifo,
        rt_priority: 10,
        group,
        ..TaskAttributes::on(CPU)
    });
    let origin = world.kernel.cfs_rqs[0].min_vruntime;
    let child = world.spawn(CPU);
    let ahead = world.entity(child).vruntime.wrapping_sub(origin);
    assert_eq!(ahead, 1 << 20);
}

#[test]
fn a_budget_that_is_over_ends_at_a_pick_up_to_6_11() {
    // 1.1 ms of budget: 0.1 are left at the tick at 6 ms, and none at 6.2 ms, when the CPU is asked
    // to choose anew. From 6.12 on the next tick finds that.
    for (version, ends) in releases([("6.6 6.11", true), ("6.12 7.3", false)]) {
        let mut world = World::new(version, 1);
        world.advance_to(5 * MS);
        deadline_task(&mut world, 1_100 * US, CPU);
        world.advance_to(6 * MS + 200 * US);
        assert!(!world.idle(CPU), "{version}");
        world.call(CPU, |kernel, bench| kernel.resched_curr(bench, CPU));
        assert_eq!(world.idle(CPU), ends, "{version}");
    }
}

#[test]
fn a_request_to_push_leaves_the_clock_alone() {
    // The tick at 10 ms read the clock last; nobody is there to be pushed at 10.2 ms.
    let mut world = World::new("6.12", 2);
    world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
    world.advance_to(10 * MS + 200 * US);
    world.kernel.here = CPU;
    world.kernel.rqs[0].rt.push_asked = true;
    world.kernel.rto_push(&mut world.bench, CPU);
    assert!(!world.kernel.rqs[0].rt.push_asked);
    assert_eq!(world.kernel.rqs[0].clock, 10 * MS);
}

#[cfg(debug_assertions)]
#[test]
fn a_fair_task_that_leaves_no_other_has_balance_look_from_6_12_to_6_18() {
    use crate::model::{Mark, take_reached};
    // A real-time task waits when the only fair task blocks.
    for (version, looks) in releases([("6.11 6.19", false), ("6.12 6.18", true)]) {
        let mut world = World::new(version, 2);
        let rt = world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
        world.block(CPU);
        world.spawn(CPU);
        world.advance_to(100 * MS + 700 * US);
        wake_unsettled(&mut world, CPU, rt);
        take_reached();
        world.block(CPU);
        let reached = take_reached();
        let balances = [Mark::NewidleBalance, Mark::NewidleNotWorthwhile];
        let looked = balances.iter().any(|mark| reached.contains(mark));
        assert_eq!(looked, looks, "{version}");
        assert_eq!(world.current(CPU), rt, "{version}");
    }
}

#[test]
fn the_wakeup_of_a_pinned_real_time_task_pushes_no_other() {
    // A task of priority 10 waits on CPU 0 and may run on CPU 1 since now. One of 20 that may not
    // wakes behind the running one of 30, and nobody moves; one that may sends both on their way.
    for (affinity, place) in [(CpuSet::of(CPU), CPU), (BOTH.into_iter().collect(), OTHER)] {
        let mut world = World::new("6.12", 2);
        let sleeper = world.spawn_fifo(CPU, 20, CpuSet::of(CPU));
        world.block(CPU);
        world.spawn_fifo(CPU, 30, CpuSet::of(CPU));
        let waits = world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
        for (task, affinity) in [(waits, BOTH.into_iter().collect()), (sleeper, affinity)] {
            world.set_affinity(CPU, task, affinity);
        }
        assert_eq!(world.kernel.tasks[waits].cpu, CPU);
        // As if it had slept on CPU 0 and found no better one.
        world.kernel.tasks[sleeper].cpu = CPU;
        world.kernel.rqs[0].need_resched = false;
        world.wake(CPU, sleeper);
        let other = world.kernel.tasks[sleeper].cpu;
        assert_eq!(other, place);
        if place == CPU {
            assert_eq!(world.kernel.tasks[waits].cpu, CPU);
        }
    }
}

#[test]
fn a_running_task_that_gets_a_higher_class_asks_anew_from_7_3_on() {
    for (version, asks) in [("6.12", false), ("7.2", false), ("7.3", true)] {
        let mut world = World::new(version, 1);
        let task = world.spawn(CPU);
        world.advance_to(5 * MS);
        let bench = &mut world.bench;
        world
            .kernel
            .set_policy(bench, CPU, task, Policy::Fifo, 0, 10);
        assert_eq!(world.kernel.rqs[0].need_resched, asks, "{version}");
    }
}

#[test]
fn a_deadline_task_that_becomes_a_real_time_one_gives_way_from_7_1_on() {
    // Another deadline task waits behind the one that runs.
    for (version, gives_way) in [("6.18", false), ("7.1", true), ("7.3", true)] {
        let mut world = World::new(version, 1);
        let first = deadline_task(&mut world, 10 * MS, CPU);
        let second = deadline_task(&mut world, 10 * MS, CPU);
        let runs = world.current(CPU);
        let waits = if runs == first { second } else { first };
        world.set_policy(CPU, runs, Policy::Fifo, 0, 10);
        let expected = if gives_way { waits } else { runs };
        assert_eq!(world.current(CPU), expected, "{version}");
    }
}

#[test]
fn a_cpu_whose_wakeup_is_under_way_is_not_idle() {
    let mut world = World::new("6.1", 2);
    let task = world.spawn(OTHER);
    world.block(OTHER);
    world.advance_to(5 * MS);
    assert!(world.kernel.idle_cpu(OTHER));
    wake_unsettled(&mut world, CPU, task);
    assert!(world.kernel.rqs[1].ttwu_pending && !world.kernel.idle_cpu(OTHER));
}
