//! Cases in which the kernel's own C differed from the rules, computed by hand
//! (docs/validation/oracle.md).

use super::deadline::reserve;
use super::world::*;
use crate::rq::StopWork;

const CPU: Cpu = Cpu(0);

fn with_slice(world: &mut World, slice_ns: Ns) -> TaskId {
    world.start(TaskAttributes {
        custom_slice_ns: Some(slice_ns),
        ..TaskAttributes::on(CPU)
    })
}

#[test]
fn a_short_request_ends_protection_without_run_to_parity_too() {
    // Up to 6.16 protection is a mark at the deadline. A shorter request wipes it out whether picks
    // ask for it or not, and from then on the running task gives way as soon as it is not eligible.
    for parity in [true, false] {
        let mut world = World::with("6.12.107", 8, |rules| rules.features.run_to_parity = parity);
        let short = with_slice(&mut world, 100_000);
        world.block(CPU);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(100 * MS + 500 * US);
        let runs = world.current(CPU);
        assert!(runs == a || runs == b);
        let marked = |world: &World| world.entity(runs).vprot == world.entity(runs).deadline;
        assert!(marked(&world), "run_to_parity {parity}");
        world.wake(CPU, short);
        assert!(!marked(&world), "run_to_parity {parity}");
    }
}

#[test]
fn queues_counted_delayed_tasks_as_runnable_up_to_6_12_6() {
    // A runs 0.5 of its first 0.75 ms, owes 0.25 and blocks: it stays queued while B runs.
    for (version, runnable) in [("6.12.6", 2), ("6.12.7", 1), ("6.13", 1)] {
        let mut world = World::new(version, 1);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        world.block(CPU);
        assert!(world.entity(a).sched_delayed && world.current(CPU) == b);
        assert_eq!(world.kernel.cfs_rqs[0].h_nr_runnable, runnable, "{version}");
        world.wake(CPU, a);
        assert_eq!(world.kernel.cfs_rqs[0].h_nr_runnable, 2, "{version}");
        world.exit(CPU);
        let left = world.kernel.cfs_rqs[0].h_nr_runnable;
        assert_eq!(left, world.kernel.cfs_rqs[0].h_nr_queued, "{version}");
    }
}

#[test]
fn a_delayed_sleeper_leaves_its_estimate_once() {
    // A runs 20 of the 100 ms that both ask for and blocks, owing 10. 2 ms later it becomes a
    // real-time task; what its utilisation has fallen to meanwhile is no second estimate.
    for version in ["6.12", "7.1", "7.1.13", "7.2"] {
        let mut world = World::new(version, 1);
        let task = with_slice(&mut world, 100 * MS);
        with_slice(&mut world, 100 * MS);
        world.advance_to(20 * MS);
        assert_eq!(world.current(CPU), task, "{version}");
        world.block(CPU);
        let estimate = world.kernel.tasks[task].util_est;
        world.advance(2 * MS);
        assert!(world.entity(task).sched_delayed, "{version}");
        world.set_policy(CPU, task, Policy::Fifo, 0, 10);
        let util = world.entity(task).avg.util_avg;
        assert!(util + 10 < u64::from(estimate), "{version}: {util}");
        assert_eq!(world.kernel.tasks[task].util_est, estimate, "{version}");
    }
}

#[test]
fn the_wakeup_of_a_migration_thread_ends_the_idle_period_on_record() {
    // CPU 1 began to idle at 10 ms, got its task by balance, which leaves the stamp, and is asked
    // at 10.2 ms to push it away. 1 ms on average becomes 1 − (1 − 0.2) / 8 = 0.9 ms. From 7.0 on
    // the average follows when idle ends.
    for (version, average_ns, stamp) in [("6.12", 900_000, 0), ("7.0", 1_000_000, 10 * MS)] {
        let mut world = World::new(version, 2);
        let task = world.spawn(Cpu(1));
        world.advance_to(10 * MS + 200 * US);
        world.kernel.rqs[1].idle_stamp = 10 * MS;
        world.kernel.rqs[1].avg_idle = 1_000_000;
        world.kernel.here = CPU;
        let work = StopWork::Migrate(task, CPU);
        world.kernel.stop_one_cpu(&mut world.bench, Cpu(1), work);
        let rq = &world.kernel.rqs[1];
        let found = (rq.avg_idle, rq.idle_stamp);
        assert_eq!(found, (average_ns, stamp), "{version}");
    }
}

#[test]
fn a_change_that_changes_nothing_reads_the_clock_up_to_6_18() {
    // The running task was charged at the tick at 10 ms last; a call at 10.2 ms reads the clock or
    // does not. That of a policy reads it in any case.
    type Change = fn(&mut World, TaskId);
    let affinity: Change = |world, task| {
        world.set_affinity(CPU, task, CpuSet::of(CPU));
    };
    let policy: Change = |world, task| {
        world.set_policy(CPU, task, Policy::Fifo, 0, 10);
    };
    let nice: Change = |world, task| {
        world.call(CPU, |kernel, bench| kernel.set_nice(bench, CPU, task, 5));
    };
    for (change, reads) in [
        (affinity, [true, false]),
        (nice, [true, false]),
        (policy, [true; 2]),
    ] {
        for (version, reads) in ["6.18", "6.19"].into_iter().zip(reads) {
            let mut world = World::new(version, 1);
            let task = world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
            world.advance_to(10 * MS + 200 * US);
            assert_eq!(world.kernel.rqs[0].clock, 10 * MS);
            change(&mut world, task);
            let clock = 10 * MS + if reads { 200 * US } else { 0 };
            assert_eq!(world.kernel.rqs[0].clock, clock, "{version}");
        }
    }
}

#[test]
fn behind_a_real_time_task_delayed_sleepers_keep_a_cpu_from_balancing() {
    // CPU 0: A sleeps with debt and is still queued when a FIFO task comes, runs 0.1 ms and blocks.
    // CPU 1 has two tasks to give.
    for (version, balances) in [("6.12.107", false), ("6.18", false), ("6.19", true)] {
        let mut world = World::with(version, 2, |rules| rules.features.ni_random = false);
        let on = |cpu| CpuSet::of(cpu);
        let waits = [world.spawn_anywhere(Cpu(1)), world.spawn_anywhere(Cpu(1))];
        for &task in &waits {
            world.set_affinity(CPU, task, on(Cpu(1)));
        }
        world.advance(5 * MS);
        let (a, _b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        world.block(CPU);
        assert!(world.entity(a).sched_delayed, "{version}");
        let rt = world.spawn_fifo(CPU, 10, on(CPU));
        assert_eq!(world.current(CPU), rt);
        // B goes: nothing but the sleeper is left of the fair class.
        world.set_affinity(CPU, _b, on(Cpu(1)));
        world.advance(100 * US);
        for &task in &waits {
            let anywhere = CpuSet::first(2);
            world.set_affinity(CPU, task, anywhere);
        }
        world.kernel.rqs[0].idle_stamp = 0;
        world.kernel.rqs[0].avg_idle = 1_000_000;
        world.block(CPU);
        let waiting = &world.kernel.cfs_rqs[1];
        assert_eq!(waiting.nr_queued == 2, balances, "{version}");
    }
}

#[test]
fn a_request_to_skip_a_clock_update_outlives_the_pick_from_6_7_on() {
    // CPU 0 idles, is asked to reschedule and pulls a task from CPU 1, which has not run for
    // 0.6 ms, as it looks for one. That asks to skip the next update of its clock. Up to 6.6.2 the
    // switch at hand drops the request; later the task blocks 0.3 ms afterwards by the clock of its
    // begin, and nothing is charged.
    for (version, charged_ns) in [("6.6.2", 300 * US), ("6.6.3", 0), ("6.7", 0)] {
        let mut world = World::new(version, 2);
        let tasks = [world.spawn(Cpu(1)), world.spawn(Cpu(1))];
        world.advance_to(20 * MS + 600 * US);
        for &task in &tasks {
            let anywhere = CpuSet::first(2);
            world.set_affinity(Cpu(1), task, anywhere);
        }
        world.kernel.rqs[0].avg_idle = 1_000_000;
        world.kernel.rqs[0].need_resched = true;
        world.call(CPU, |_, _| {});
        let pulled = world.current(CPU);
        assert!(tasks.contains(&pulled), "{version}");
        let before = world.runtime(pulled);
        world.advance(300 * US);
        world.block(CPU);
        let charged = world.entity(pulled).sum_exec_runtime - before;
        assert_eq!(charged, charged_ns, "{version}");
    }
}

#[test]
fn a_fork_charges_the_forking_task_up_to_6_11() {
    // The parent is charged by `task_fork_fair`, in its own queue, whatever group the child is made
    // in.
    for (version, charged_us) in [("6.1", 300), ("6.6", 300), ("6.11", 300), ("6.12", 0)] {
        let mut world = World::new(version, 2);
        let (parents, childs) = (world.group(GroupId::ROOT), world.group(GroupId::ROOT));
        let parent = world.spawn_in(parents, CPU, Policy::Normal, 0);
        world.advance(300 * US);
        world.spawn_in(childs, Cpu(1), Policy::Normal, 0);
        let charged = world.entity(parent).sum_exec_runtime;
        // `spawn_in` forks from the CPU that the child may run on.
        assert_eq!(charged, 0, "{version}");
        let child = world.kernel.task_create(TaskAttributes {
            affinity: CpuSet::of(Cpu(1)),
            group: childs,
            ..TaskAttributes::on(CPU)
        });
        world.call(CPU, |kernel, bench| {
            kernel.wake_up_new_task(bench, CPU, child)
        });
        let charged = world.entity(parent).sum_exec_runtime;
        assert_eq!(charged, charged_us * US, "{version}");
    }
}

#[test]
fn the_protection_of_an_entity_that_leaves_is_overwritten_by_its_lag_up_to_6_18_44() {
    // Lag and protection share their memory.
    for (version, overwritten) in releases([("6.12 6.18", true), ("6.18.45 7.0", false)]) {
        let mut world = World::new(version, 1);
        let (a, _b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(300 * US);
        assert_eq!(world.current(CPU), a);
        let se = world.kernel.tasks[a].se;
        let queue = world.entity(a).cfs_rq;
        let before = world.entity(a).vprot;
        world.kernel.update_entity_lag(queue, se);
        let entity = world.entity(a);
        let expected = if overwritten {
            entity.vlag as u64
        } else {
            before
        };
        assert_eq!(entity.vprot, expected, "{version}");
        assert_ne!(entity.vlag as u64, before);
    }
}

#[test]
fn a_queue_forgets_its_shortest_request_up_to_7_2_6() {
    // Behind a running task A (0.7 ms), B and C (2.8 ms) are queued in the order of their
    // deadlines: the tree is rotated, B comes to the top and knows of 2.8 ms only. Protection of
    // the running task is as long as that.
    for (version, shortest_us) in releases([("6.12 7.1 7.2.6", 2800), ("7.2.7", 700)]) {
        let mut world = World::new(version, 8);
        for _ in 0..4 {
            world.spawn(CPU);
        }
        let kernel = &mut world.kernel;
        kernel.expect_custom_slices();
        let queue = kernel.cfs_rq_of(GroupId::ROOT, CPU);
        let nodes = kernel.cfs_rqs[queue].timeline.nodes().to_vec();
        let waiting: Vec<_> = nodes.iter().map(|node| node.entity).collect();
        assert_eq!(waiting.len(), 3);
        for &se in &waiting {
            kernel.timeline_remove(queue, se);
        }
        for (row, &se) in waiting.iter().enumerate() {
            let entity = &mut kernel.entities[se];
            entity.slice = if row == 0 { 700 * US } else { 2800 * US };
            entity.deadline = 10 * MS + row as u64;
            kernel.timeline_insert(queue, se);
        }
        let running = kernel.cfs_rqs[queue].curr.unwrap();
        kernel.entities[running].slice = 2800 * US;
        let found = kernel.cfs_rq_min_slice(queue);
        assert_eq!(found, shortest_us * US, "{version}");
    }
}

#[test]
fn a_group_picked_behind_a_real_time_task_asks_for_runtime_from_6_12() {
    // A FIFO task runs while the limit is set, which leaves the queue of the group with nothing.
    // When it blocks, the pick up to 6.11 comes by without a look. From 6.12 on the queue has to be
    // throttled and asks for its last nanosecond, which it gets: it runs on.
    let quota_ns = 20 * MS;
    for (version, pool_ns) in releases([("6.1 6.11", quota_ns), ("6.12", quota_ns - 1)]) {
        let mut world = World::new(version, 1);
        let group = world.group(GroupId::ROOT);
        let task = world.spawn_in(group, CPU, Policy::Normal, 0);
        world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
        world.limit(group, quota_ns / US, 100 * MS / US, 0);
        world.block(CPU);
        assert_eq!(world.current(CPU), task, "{version}");
        let pool = &world.kernel.groups[group].bandwidth;
        assert_eq!(pool.runtime_ns, pool_ns, "{version}");
    }
}

#[test]
fn a_pick_that_throttles_sets_shared_levels_anew_up_to_6_11() {
    // A and B are in two groups below a third one. B ran 10 ms, then A comes, whose group may run
    // 2 ms and is far behind: the pick comes by it and throttles it. B is next, and only the levels
    // below the third group differ. Up to 6.11 that group's entity is put and set all the same:
    // what it ran before is noted.
    for (version, anew) in [("6.1", true), ("6.11", true), ("6.12", false)] {
        let mut world = World::new(version, 1);
        let above = world.group(GroupId::ROOT);
        let (limited, other) = (world.group(above), world.group(above));
        world.limit(limited, 2 * MS / US, 100 * MS / US, 0);
        world.call(CPU, |kernel, bench| {
            kernel.group_set_shares(bench, CPU, limited, 100 * 1024);
        });
        world.spawn_in(other, CPU, Policy::Normal, 0);
        world.advance(10 * MS);
        world.spawn_in(limited, CPU, Policy::Normal, 0);
        let queue = world.kernel.cfs_rq_of(limited, CPU);
        while !world.kernel.cfs_rqs[queue].throttled {
            world.advance(MS);
            assert!(
                world.bench.now < 100 * MS,
                "{version}: throttled in its first period"
            );
        }
        let queue = world.kernel.cfs_rq_of(above, CPU);
        let entity = world.kernel.cfs_rqs[queue].se.unwrap();
        let entity = &world.kernel.entities[entity];
        assert!(entity.sum_exec_runtime >= 2 * MS);
        assert_eq!(entity.prev_sum_exec_runtime > 0, anew, "{version}");
    }
}

#[test]
fn a_task_picked_once_more_is_noted_as_picked_last_up_to_6_11() {
    // Balancing looks at what was picked last in the end. A runs, B came after it, and a pick finds
    // A once more.
    for (version, noted) in [("6.1", true), ("6.11", true), ("6.12", false)] {
        let mut world = World::new(version, 1);
        let a = world.spawn(CPU);
        let b = world.spawn_in(GroupId::ROOT, CPU, Policy::Batch, 19);
        assert_eq!(world.current(CPU), a, "{version}");
        assert_eq!(world.kernel.rqs[0].cfs_tasks, [a, b], "{version}");
        world.call(CPU, |kernel, bench| kernel.resched_curr(bench, CPU));
        assert_eq!(world.current(CPU), a, "{version}");
        let last = if noted { a } else { b };
        let tasks = &world.kernel.rqs[0].cfs_tasks;
        assert_eq!(tasks.last(), Some(&last), "{version}");
    }
}

#[test]
fn a_fork_of_a_real_time_task_leaves_the_clock_of_its_parent_alone() {
    // The tick at 10 ms read the clock last. At 10.2 ms CPU 0 starts a task for CPU 1, which up to
    // 6.11 charges a fair parent (task_fork_fair).
    for (policy, reads) in [(Policy::Fifo, false), (Policy::Normal, true)] {
        let mut world = World::new("6.1", 2);
        world.spawn(CPU);
        world.advance_to(10 * MS + 200 * US);
        let child = world.kernel.task_create(TaskAttributes {
            policy,
            rt_priority: if policy == Policy::Fifo { 10 } else { 0 },
            affinity: CpuSet::of(Cpu(1)),
            ..TaskAttributes::on(CPU)
        });
        world.call(CPU, |kernel, bench| {
            kernel.wake_up_new_task(bench, CPU, child)
        });
        let clock = 10 * MS + if reads { 200 * US } else { 0 };
        assert_eq!(world.kernel.rqs[0].clock, clock, "{policy:?}");
    }
}

#[test]
fn the_origin_follows_the_order_from_6_18_3_on() {
    // A is picked at its first vruntime and runs 0.5 ms. B is placed at V, which is A's vruntime:
    // where the origin follows the order, it comes along.
    for (version, moved) in releases([("6.18.2", 0), ("6.18.3 6.18.15 6.19", 500 * US)]) {
        let mut world = World::new(version, 1);
        let a = world.spawn(CPU);
        let picked_at = world.entity(a).vruntime;
        world.advance(500 * US);
        let b = world.kernel.task_create(TaskAttributes::on(CPU));
        world.kernel.wake_up_new_task(&mut world.bench, CPU, b);
        let origin = world.kernel.cfs_rqs[0].min_vruntime;
        assert_eq!(origin.wrapping_sub(picked_at), moved, "{version}");
    }
}

#[test]
fn a_buddy_woken_in_sync_waits_for_its_waker() {
    // B slept while A ran and is eligible as it wakes: the next buddy, which a pick would take. A
    // is about to sleep, says the wakeup in sync, and was charged just now.
    for version in ["7.1", "7.3"] {
        for sync in [false, true] {
            let mut world = World::with(version, 1, |rules| rules.features.next_buddy = true);
            let b = world.spawn(CPU);
            world.block(CPU);
            let a = world.spawn(CPU);
            world.advance_to(10 * MS + 200 * US);
            let flags = WakeFlags::new(sync, Context::Task);
            world.call(CPU, |kernel, bench| {
                kernel.wake(bench, CPU, b, flags);
            });
            let runs = if sync { a } else { b };
            assert_eq!(world.current(CPU), runs, "{version}, sync {sync}");
        }
    }
}

#[test]
fn newly_idle_balance_leaves_a_clock_of_the_past_alone_up_to_6_6_and_from_7_1_on() {
    // The tick at 10 ms read the clock last, and the switch at 10.2 ms is asked not to.
    for (version, reads) in releases([("6.1 6.6.2 7.1 7.3", false), ("6.6.3 6.7 6.18 7.0", true)]) {
        let mut world = World::new(version, 2);
        world.spawn(CPU);
        world.advance_to(10 * MS + 200 * US);
        world.kernel.domains.overloaded = true;
        let rq = &mut world.kernel.rqs[0];
        (rq.avg_idle, rq.skip_clock_update) = (MS, true);
        world.kernel.block(&mut world.bench, CPU);
        let clock = 10 * MS + if reads { 200 * US } else { 0 };
        assert_eq!(world.kernel.rqs[0].clock, clock, "{version}");
    }
}

#[test]
fn another_reservation_before_6_3_reschedules_unless_it_is_the_earliest() {
    // A runs towards 20 ms. B waits with a deadline of 60 ms, gets one of 50 ms and still waits.
    for (version, reschedules) in releases([("6.1 6.2", true), ("6.3 6.18", false)]) {
        let mut world = World::new(version, 1);
        let (a, b) = (world.spawn(CPU), world.spawn(CPU));
        for (task, period_ms) in [(a, 20), (b, 60)] {
            world.call(CPU, |kernel, bench| {
                let set = kernel.set_deadline(bench, CPU, task, reserve(5, period_ms, period_ms));
                set.expect("a third of a CPU");
            });
        }
        assert_eq!(world.current(CPU), a, "{version}");
        let set = world
            .kernel
            .set_deadline(&mut world.bench, CPU, b, reserve(5, 50, 50));
        set.expect("a tenth of a CPU");
        let asked = world.kernel.rqs[0].need_resched;
        assert_eq!(asked, reschedules, "{version}");
    }
}

#[test]
fn the_real_time_period_timer_starts_a_nanosecond_late() {
    // It is forwarded by an interval of 0, of which at least the timers' resolution is made.
    let mut world = World::new("6.1", 1);
    world.advance_to(10 * MS + 200 * US);
    world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
    assert_eq!(world.next_due(), Some(10 * MS + 200 * US + 1));
}

#[test]
fn what_a_pick_finds_removed_waits_below_up_to_6_11() {
    // A group's only task runs behind the idle task's pick. Its queue has load removed by a task
    // that woke elsewhere: up to 6.11 the level above was set before the queue noticed.
    for (version, waits) in [("6.1", true), ("6.11", true), ("6.12", false)] {
        let mut world = World::new(version, 1);
        let group = world.group(GroupId::ROOT);
        let task = world.spawn_in(group, CPU, Policy::Normal, 0);
        world.advance(20 * MS);
        world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
        let q = world.kernel.cfs_rq_of(group, CPU);
        let queue = &mut world.kernel.cfs_rqs[q];
        assert!(!queue.propagate && queue.avg.util_avg > 10, "{version}");
        (queue.removed.nr, queue.removed.util_avg) = (1, 10);
        world.advance(MS / 2);
        world.block(CPU);
        assert_eq!(world.current(CPU), task, "{version}");
        let queue = &world.kernel.cfs_rqs[q];
        assert_eq!((queue.removed.nr, queue.propagate), (0, waits), "{version}");
    }
}
