//! Further cases in which the kernel's own C differed from the rules: what balancing remembers, and
//! what a pick finds that looks for tasks elsewhere (docs/validation/oracle.md).

use super::world::*;
use crate::rq::StopWork;

const CPU: Cpu = Cpu(0);

#[test]
fn the_migration_thread_of_another_cache_waits_for_its_cpu_up_to_6_12_38() {
    // Caches {0, 1} and {2, 3}. CPU 2 runs a task that CPU 0 wants.
    for (version, counts) in releases([("5.10 6.1 6.12.38 6.15", false), ("6.12.39 6.16", true)]) {
        let mut world = World::on(Topology::regular(1, 2, 2, 1), version, |_| {});
        let task = world.spawn(Cpu(2));
        world.kernel.here = CPU;
        let work = StopWork::Migrate(task, CPU);
        world.kernel.stop_one_cpu(&mut world.bench, Cpu(2), work);
        let rq = &world.kernel.rqs[2];
        let expected = if counts { (2, false) } else { (1, true) };
        assert_eq!((rq.nr_running, rq.ttwu_pending), expected, "{version}");
    }
}

#[test]
fn a_real_time_task_that_leaves_two_others_makes_the_machine_overloaded() {
    // All tasks of the class leave and those that stay come back: the count goes from one, a fair
    // task, to two.
    for version in ["5.10", "6.1", "7.3"] {
        for fair in [false, true] {
            let mut world = World::new(version, 1);
            if fair {
                world.spawn(CPU);
            }
            world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
            world.spawn_fifo(CPU, 10, CpuSet::of(CPU));
            world.kernel.domains.overloaded = false;
            world.block(CPU);
            assert_eq!(world.kernel.domains.overloaded, fair, "{version}");
        }
    }
}

#[test]
fn a_task_whose_queue_a_pick_throttled_is_not_charged_for_its_last_time() {
    // The running task was charged at the tick at 10 ms last. At 10.2 ms nothing counts as running
    // any more, and balance queues a task: the server takes 0.2 ms for idle time.
    for (version, lost) in [("6.12", true), ("6.18", true), ("7.1", false)] {
        let mut world = World::new(version, 1);
        let task = world.spawn(CPU);
        world.advance_to(10 * MS + 200 * US);
        world.kernel.update_rq_clock(&world.bench, CPU);
        let charged = world.entity(task).sum_exec_runtime;
        let rq = &mut world.kernel.rqs[0];
        rq.nr_running = 0;
        let (clock, budget) = (rq.clock_task, rq.fair_server.runtime_ns);
        world.kernel.first_fair_task_queued(&mut world.bench, CPU);
        let entity = world.entity(task);
        assert_eq!(entity.sum_exec_runtime, charged, "{version}");
        assert_eq!(entity.exec_start == clock, lost, "{version}");
        let taken = budget - world.kernel.rqs[0].fair_server.runtime_ns;
        assert_eq!(taken == 200_000, lost, "{version}");
    }
}

#[test]
fn a_group_that_becomes_idle_stays_the_buddy_it_is() {
    // A and B are in a group. A sleeps, so that the group is the buddy of the root queue. Then it
    // becomes an idle one, and C wakes: the group is asked to give way and picked once more.
    for version in ["7.1", "7.2"] {
        let mut world = World::with(version, 1, |rules| rules.features.delay_dequeue = false);
        let group = world.group(GroupId::ROOT);
        let c = world.spawn(CPU);
        world.block(CPU);
        let a = world.spawn_in(group, CPU, Policy::Normal, 0);
        let b = world.spawn_in(group, CPU, Policy::Normal, 0);
        assert_eq!(world.current(CPU), a, "{version}");
        world.advance(MS / 4);
        world.block(CPU);
        assert_eq!(world.current(CPU), b, "{version}");
        world.set_idle(CPU, group, true);
        world.wake(CPU, c);
        assert_eq!(world.current(CPU), b, "{version}");
    }
}

#[test]
fn an_idle_cpu_whose_server_does_not_count_looks_for_tasks_elsewhere() {
    // A sleeps with debt, is still queued, and is moved to CPU 1, whose fair server waits: all that
    // is found there. Up to 6.16 the server counts, is asked, and stops.
    for (version, stays) in [("6.12", false), ("6.17", true), ("6.18", true)] {
        let mut world = World::with(version, 2, |rules| rules.features.ni_random = false);
        let (a, _b) = (world.spawn(CPU), world.spawn(CPU));
        world.advance(500 * US);
        world.block(CPU);
        assert!(world.entity(a).sched_delayed, "{version}");
        world.call(Cpu(1), |kernel, bench| {
            kernel.tasks[a].affinity = CpuSet::first(2);
            kernel.move_queued_task(bench, a, Cpu(1));
            if kernel.rqs[1].dl_nr_running == 0 {
                kernel.dl_put_on(Cpu(1), None, 1000 * MS);
            }
            kernel.rqs[1].idle_stamp = 0;
            kernel.rqs[1].need_resched = true;
        });
        let rq = &world.kernel.rqs[1];
        assert!(!world.entity(a).on_rq, "{version}");
        let found = (rq.dl_nr_running > 0, rq.idle_stamp > 0);
        assert_eq!(found, (stays, stays), "{version}");
    }
}
