//! The patch `vcpu-pack`: a waker's CPU with room takes the wakee, one without is no candidate.

use super::{PLAIN, SYNC, busy, sleeper, wakeup};
use crate::select::WakeKind;
use crate::tests::world::*;

/// Two CPUs, a sleeper of CPU 1, a waker on CPU 0 whose CPU is used to so many 1024ths; `hogs` run
/// besides.
fn used(util: u64, hogs: &[u32]) -> (World, TaskId) {
    let mut world = World::with("6.18.44", 2, |rules| rules.placement.vcpu_pack = true);
    let task = sleeper(&mut world, 1);
    busy(&mut world, [0].into_iter().chain(hogs.iter().copied()));
    let se = world.kernel.tasks[task].se;
    world.kernel.entities[se].avg.util_avg = 0;
    let cfs_rq = &mut world.kernel.cfs_rqs[0];
    cfs_rq.avg.util_avg = util;
    cfs_rq.util_est_enqueued = 0;
    (world, task)
}

fn goes_to(util: u64, hogs: &[u32], flags: WakeFlags) -> u32 {
    let (mut world, task) = used(util, hogs);
    wakeup(&mut world, 0, task, flags).0
}

#[test]
fn room_ends_at_68_percent() {
    // 85 % of 1024, divided by the margin of 1.25: 696.3. Idle CPU 1 is passed over below.
    for flags in [PLAIN, SYNC] {
        assert_eq!(goes_to(100, &[], flags), 0);
        assert_eq!(goes_to(696, &[], flags), 0);
        assert_eq!(goes_to(697, &[], flags), 1);
    }
}

#[test]
fn the_wakee_has_to_fit_too() {
    let with_task = |util: u64, task_util: u64| {
        let (mut world, task) = used(util, &[]);
        let se = world.kernel.tasks[task].se;
        world.kernel.entities[se].avg.util_avg = task_util;
        wakeup(&mut world, 0, task, SYNC).0
    };
    assert_eq!(with_task(600, 96), 0);
    assert_eq!(with_task(600, 97), 1);
}

#[test]
fn nobody_may_wait_there() {
    assert_eq!(goes_to(100, &[0], SYNC), 1);
}

/// Of two tasks that start together the one that ran its first half ms stays queued when it sleeps.
#[test]
fn a_task_whose_dequeue_is_delayed_waits_for_nothing() {
    let (mut world, task) = used(100, &[0]);
    world.advance(MS / 2);
    world.block(Cpu(0));
    let cfs_rq = &world.kernel.cfs_rqs[0];
    assert_eq!((cfs_rq.h_nr_queued, cfs_rq.h_nr_runnable), (2, 1));
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 0);
}

#[test]
fn a_full_waker_leaves_the_task_beside_a_hog() {
    assert_eq!(goes_to(900, &[1], SYNC), 1);
    assert_eq!(goes_to(100, &[1], SYNC), 0);
    // The published rule takes the waker's CPU, because the waker is alone and will sleep.
    let (mut world, task) = used(900, &[1]);
    world.kernel.rules.placement.vcpu_pack = false;
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 0);
}

#[test]
fn a_child_stays_where_there_is_room() {
    let born_on = |util| {
        let (mut world, task) = used(util, &[]);
        world.kernel.tasks[task].cpu = Cpu(0);
        let World { kernel, bench, .. } = &mut world;
        kernel
            .select_task_rq_fair(bench, Cpu(0), task, WakeKind::Fork, PLAIN)
            .0
    };
    assert_eq!(born_on(300), 0);
    assert_eq!(born_on(900), 1);
}
