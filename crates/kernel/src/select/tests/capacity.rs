//! `select_idle_capacity`: an idle CPU that is large enough.

use super::{PLAIN, WakeKind, allow, busy, sleeper, wakeup};
use crate::balance::tests::capacity::big_little;
use crate::tests::world::*;

/// A task that sleeps since it ran on CPU 2, and needs this much.
fn needs(world: &mut World, util: u32) -> TaskId {
    let task = sleeper(world, 2);
    let record = &mut world.kernel.tasks[task];
    (record.util_est, record.util_est_ewma) = (util, util);
    let se = record.se;
    world.kernel.entities[se].avg.util_avg = 0;
    task
}

#[test]
fn worked_example_of_the_module_docs() {
    for version in ["5.10", "6.1", "6.12", "7.3"] {
        let mut world = World::on(big_little(), version, |_| {});
        let task = needs(&mut world, 400);
        // From CPU 2 itself: 2, 3, 4.
        assert_eq!(wakeup(&mut world, 2, task, PLAIN), (4, 3), "{version}");
        // All large CPUs are busy: 2 is the first of the largest idle ones, after a look at all.
        busy(&mut world, 4..8);
        assert_eq!(wakeup(&mut world, 2, task, PLAIN), (2, 8), "{version}");
        // 320 fits on the previous CPU at once.
        let small = needs(&mut world, 320);
        assert_eq!(wakeup(&mut world, 2, small, PLAIN), (2, 0), "{version}");
    }
}

#[test]
fn an_executed_program_goes_to_a_group_on_which_it_fits() {
    // As many idle CPUs here, without the task, as there: only what fits makes the difference.
    for (version, goes) in releases([("5.9", false), ("5.10 6.1 6.12", true)]) {
        let topology = Topology {
            capacities: vec![446, 446, 1024, 1024],
            ..Topology::regular(1, 2, 2, 1)
        };
        let mut world = World::on(topology, version, |_| {});
        let task = world.spawn(Cpu(0));
        allow(&mut world, task, CpuSet::first(4));
        let record = &mut world.kernel.tasks[task];
        (record.util_est, record.util_est_ewma) = (400, 400);
        let kernel = &mut world.kernel;
        let found =
            kernel.select_task_rq_fair(&mut world.bench, Cpu(0), task, WakeKind::Exec, PLAIN);
        assert_eq!(found >= Cpu(2), goes, "{version}");
    }
}

#[test]
fn from_7_2_on_a_whole_idle_core_comes_first() {
    // Cores {0, 4} and {1, 5} of 640, {2, 6} and {3, 7} of 1024; a hog runs on CPU 2.
    for (version, expected) in [("7.1", 6), ("7.2", 7)] {
        let topology = Topology {
            capacities: [640, 640, 1024, 1024].repeat(2),
            ..Topology::regular(1, 1, 4, 2)
        };
        let mut world = World::on(topology, version, |_| {});
        let task = sleeper(&mut world, 6);
        busy(&mut world, [2]);
        let record = &mut world.kernel.tasks[task];
        (record.util_est, record.util_est_ewma) = (700, 700);
        // It fits on CPU 6, its previous one, whose core is busy.
        assert_eq!(wakeup(&mut world, 6, task, PLAIN).0, expected, "{version}");
    }
}

#[test]
fn from_7_2_on_sis_util_limits_the_search() {
    for (version, expected) in [("7.1", (7, 6)), ("7.2", (2, 3))] {
        let mut world = World::on(big_little(), version, |_| {});
        let task = needs(&mut world, 400);
        busy(&mut world, 4..7);
        let row = world.kernel.domains.cpus[2].balance_shared.unwrap();
        world.kernel.domains.shared[row as usize].nr_idle_scan = 3;
        // CPU 2, 3 and then 4, which is busy: the largest so far is CPU 2.
        assert_eq!(wakeup(&mut world, 2, task, PLAIN), expected, "{version}");
        allow(&mut world, task, CpuSet::of(Cpu(7)));
        assert_eq!(wakeup(&mut world, 2, task, PLAIN).0, 7, "{version}");
    }
}

#[test]
fn a_cpu_that_real_time_tasks_leave_next_to_nothing_is_better_than_none() {
    let mut world = World::on(big_little(), "6.12", |_| {});
    let task = needs(&mut world, 400);
    busy(&mut world, (0..8).filter(|&cpu| cpu != 3));
    world.kernel.rqs[3].cpu_capacity = 1;
    assert_eq!(wakeup(&mut world, 2, task, PLAIN).0, 3);
}
