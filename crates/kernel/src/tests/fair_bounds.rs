//! Bounds of the fair class, each at the rule itself.
//!
//! For example, a sleep of 2^53 ns may still be compared with what others ran meanwhile, and one of
//! 1 ns more may not.

use super::world::*;
use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::kernel::Arrival;

const CPU: Cpu = Cpu(0);
const ROOT: CfsRqId = CfsRqId(0);

fn entity_of(world: &World, task: TaskId) -> EntityId {
    world.kernel.tasks[task].se
}

#[test]
fn reasons_to_come_and_to_leave_are_told_apart() {
    let come = [
        EnqueueFlags::WAKEUP,
        EnqueueFlags::MIGRATED,
        EnqueueFlags::DELAYED,
        EnqueueFlags::INITIAL,
        EnqueueFlags::RESTORE,
        EnqueueFlags::MOVED,
        EnqueueFlags::HEAD,
    ];
    for (row, one) in come.iter().enumerate() {
        let found = come.map(|other| one.has(other));
        assert_eq!(found, std::array::from_fn(|other| other == row));
    }
    let leave = [
        DequeueFlags::SLEEP,
        DequeueFlags::DELAYED,
        DequeueFlags::SPECIAL,
        DequeueFlags::THROTTLE,
        DequeueFlags::SAVE,
        DequeueFlags::MOVED,
    ];
    for (row, one) in leave.iter().enumerate() {
        let found = leave.map(|other| one.has(other));
        assert_eq!(found, std::array::from_fn(|other| other == row));
    }
}

#[test]
fn who_runs_alone_is_eligible_up_to_the_origin_of_virtual_time() {
    let mut world = World::new("7.3", 1);
    world.spawn(CPU);
    world.kernel.cfs_rqs[0].min_vruntime = 500;
    assert_eq!(world.kernel.ineligible_vruntime(ROOT), 501);
}

#[test]
fn only_a_task_that_is_queued_and_no_idle_one_is_hinted_at() {
    let mut world = World::new("6.1", 1);
    let hog = world.spawn(CPU);
    let idle = world.spawn_in(GroupId::ROOT, CPU, Policy::Idle, 0);
    let sleeper = world.spawn(CPU);
    let se = entity_of(&world, sleeper);
    world.kernel.entities[se].on_rq = false;
    let found = [hog, idle, sleeper].map(|task| {
        let se = entity_of(&world, task);
        world.kernel.may_be_buddy(se)
    });
    assert_eq!(found, [true, false, false]);
}

/// A task in a group runs for 10 ms: its own charge counts for the fair server, that of its group
/// does not.
#[test]
fn what_a_group_ran_is_charged_to_the_fair_server_once() {
    let mut world = World::new("6.12", 1);
    let group = world.group(GroupId::ROOT);
    world.spawn_in(group, CPU, Policy::Normal, 0);
    world.advance_to(10 * MS);
    let server = &world.kernel.rqs[0].fair_server;
    assert_eq!(server.runtime_ns, 40 * MS as i64);
}

#[test]
fn with_next_buddy_a_woken_task_is_hinted_at() {
    // Up to 6.5 only where so many tasks wait that slices are short: 8 of 3 ms fill 24 ms.
    for (version, tasks, hinted) in [("6.1", 2, false), ("6.1", 8, true), ("6.6", 2, true)] {
        let mut world = World::with(version, 8, |rules| rules.features.next_buddy = true);
        let woken = (0..tasks).map(|_| world.spawn(CPU)).last().unwrap();
        world.kernel.cfs_rqs[0].next = None;
        let kernel = &mut world.kernel;
        kernel.wakeup_preempt(&mut world.bench, CPU, woken, Arrival::Other);
        let next = world.kernel.cfs_rqs[0].next;
        let se = entity_of(&world, woken);
        assert_eq!(next == Some(se), hinted, "{version}, {tasks}");
    }
}

/// A task far ahead of its queue wakes. It stays ahead unless its sleep was too long to compare,
/// and one that never ran has not slept.
#[test]
fn a_sleep_of_more_than_2_to_the_53_ns_is_forgotten() {
    let ahead = 1 << 40;
    for (slept_from, slept_ns, stays) in [
        (1, 1000 * MS, true),
        (1, 1 << 53, true),
        (1, (1 << 53) + 1, false),
        (0, (1 << 53) + 1, true),
    ] {
        let mut world = World::with("6.1", 1, |rules| {
            rules.long_sleeper_reset = true;
            rules.features.gentle_fair_sleepers = false;
        });
        let task = world.spawn(CPU);
        let se = entity_of(&world, task);
        let origin = world.kernel.cfs_rqs[0].min_vruntime;
        let entity = &mut world.kernel.entities[se];
        entity.vruntime = origin.wrapping_add(ahead);
        entity.exec_start = slept_from;
        world.kernel.rqs[0].clock_task = slept_from + slept_ns;
        world
            .kernel
            .place_entity_cfs(ROOT, se, EnqueueFlags::WAKEUP);
        let vruntime = world.kernel.entities[se].vruntime;
        let credit = world.kernel.rules.latency_ns;
        let expected = match stays {
            true => origin.wrapping_add(ahead),
            false => origin.wrapping_sub(credit),
        };
        assert_eq!(vruntime, expected, "{slept_from} {slept_ns}");
    }
}

/// A sleeper that changes its queue takes along how far ahead it is, up to 6.5; later its lag does
/// that.
#[test]
fn a_sleepers_vruntime_becomes_relative_only_under_cfs() {
    for (version, relative) in [("6.1", true), ("6.12", false)] {
        let mut world = World::new(version, 1);
        let task = world.spawn(CPU);
        world.advance_to(MS);
        world.block(CPU);
        let se = entity_of(&world, task);
        world.kernel.cfs_rqs[0].min_vruntime = 5000 * MS;
        let entity = &mut world.kernel.entities[se];
        entity.vruntime = 5007 * MS;
        let kernel = &mut world.kernel;
        kernel.detach_task_cfs_rq(&mut world.bench, task);
        let expected = if relative { 7 * MS } else { 5007 * MS };
        assert_eq!(world.kernel.entities[se].vruntime, expected);
    }
}

#[test]
fn up_to_6_6_writes_of_a_groups_load_are_not_timed() {
    let mut world = World::new("6.1", 1);
    let group = world.group(GroupId::ROOT);
    world.advance_to(10 * MS);
    world.spawn_in(group, CPU, Policy::Normal, 0);
    assert!(world.kernel.groups[group].load_avg_writes > 0);
    let q = world.kernel.cfs_rq_of(group, CPU);
    let queue = &world.kernel.cfs_rqs[q];
    assert_eq!(queue.last_update_tg_load_avg_ns, None);
}

#[test]
fn the_first_write_of_a_groups_load_waits_for_nothing() {
    // The clock of a machine is far above 1 ms when a group is made; that of a world begins at 0.
    for version in ["6.1", "6.12", "7.3"] {
        let mut world = World::new(version, 1);
        let group = world.group(GroupId::ROOT);
        world.spawn_in(group, CPU, Policy::Normal, 0);
        assert!(world.bench.now < MS);
        let writes = world.kernel.groups[group].load_avg_writes;
        assert_eq!(writes, 1, "{version}");
    }
}

#[test]
fn writes_of_a_groups_load_are_timed_by_the_clock_of_their_queue_from_7_2_on() {
    // The last write was at 10 ms. At 11 ms the queue's clock still stands at 10 ms, and its load
    // has doubled: a millisecond has passed, but not on that clock.
    for (version, expected) in [("7.1", true), ("7.2", false), ("7.3", false)] {
        let mut world = World::new(version, 1);
        let group = world.group(GroupId::ROOT);
        world.spawn_in(group, CPU, Policy::Normal, 0);
        let q = world.kernel.cfs_rq_of(group, CPU);
        world.advance_to(10 * MS);
        world.kernel.rqs[0].clock = 10 * MS;
        let queue = &mut world.kernel.cfs_rqs[q];
        queue.last_update_tg_load_avg_ns = Some(10 * MS);
        queue.avg.load_avg = 2 * queue.tg_load_avg_contrib;
        world.kernel.here = CPU;
        world.bench.now = 11 * MS;
        let writes = world.kernel.groups[group].load_avg_writes;
        world.kernel.update_tg_load_avg(&mut world.bench, q);
        let written = world.kernel.groups[group].load_avg_writes > writes;
        assert_eq!(written, expected, "{version}");
    }
}
