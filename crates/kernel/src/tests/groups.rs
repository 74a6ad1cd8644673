//! Shares of groups by hand, and what a group's tasks count as further up.

use super::world::*;
use crate::cfs_rq::CfsRq;

const CPU: Cpu = Cpu(0);
const ROOT: GroupId = GroupId::ROOT;
const VERSIONS: [&str; 6] = ["4.15", "5.10", "6.1", "6.6", "6.12", "6.18"];

fn hog(world: &mut World, group: GroupId, cpu: Cpu) -> TaskId {
    world.spawn_in(group, cpu, Policy::Normal, 0)
}

/// Part of the time of CPU 0 a task had, in thousandths.
fn permille(world: &World, task: TaskId) -> u64 {
    world.runtime(task) * 1000 / world.bench.now
}

#[test]
fn shares_of_one_to_three() {
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let (a, b) = (world.group(ROOT), world.group(ROOT));
        world.set_shares(a, 512);
        world.set_shares(b, 1536);
        let (in_a, in_b) = (hog(&mut world, a, CPU), hog(&mut world, b, CPU));
        world.advance_to(8000 * MS);
        let (of_a, of_b) = (permille(&world, in_a), permille(&world, in_b));
        assert_in!(of_a, 247..=253, "{version}");
        assert_in!(of_b, 747..=753, "{version}");
    }
}

#[test]
fn a_group_is_one_competitor_however_many_tasks_it_has() {
    // Root: a hog and a group with three. Half for the hog, a sixth for each of the group's.
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let group = world.group(ROOT);
        let alone = hog(&mut world, ROOT, CPU);
        let members: Vec<TaskId> = (0..3).map(|_| hog(&mut world, group, CPU)).collect();
        world.advance_to(12_000 * MS);
        assert!(permille(&world, alone).abs_diff(500) <= 4, "{version}");
        for member in members {
            assert!(permille(&world, member).abs_diff(167) <= 4, "{version}");
        }
    }
}

#[test]
fn nesting_multiplies() {
    // 1/2 below the root, 1/3 of that below (shares 512 of 1536): a sixth.
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let outer = world.group(ROOT);
        let (small, large) = (world.group(outer), world.group(outer));
        world.set_shares(small, 512);
        hog(&mut world, ROOT, CPU);
        let (in_small, in_large) = (hog(&mut world, small, CPU), hog(&mut world, large, CPU));
        world.advance_to(12_000 * MS);
        assert!(permille(&world, in_small).abs_diff(167) <= 4, "{version}");
        assert!(permille(&world, in_large).abs_diff(333) <= 4, "{version}");
    }
}

#[test]
fn a_group_on_two_cpus_has_half_its_weight_on_each() {
    // One hog of the group on each CPU beside one of the root: 512 against 1024.
    for version in VERSIONS {
        let mut world = World::new(version, 2);
        let group = world.group(ROOT);
        for cpu in [Cpu(0), Cpu(1)] {
            hog(&mut world, ROOT, cpu);
        }
        let members = [Cpu(0), Cpu(1)].map(|cpu| hog(&mut world, group, cpu));
        // Averages settle within a second.
        world.advance_to(2000 * MS);
        let before = members.map(|member| world.runtime(member));
        world.advance_to(14_000 * MS);
        for (member, before) in members.into_iter().zip(before) {
            let share = (world.runtime(member) - before) * 1000 / (12_000 * MS);
            assert!(share.abs_diff(333) <= 8, "{version}: {share}");
        }
        for cpu in [Cpu(0), Cpu(1)] {
            let q = world.kernel.cfs_rq_of(group, cpu);
            let se = world.kernel.cfs_rqs[q].se.unwrap();
            let weight = world.kernel.entities[se].load.unscaled();
            assert!(weight.abs_diff(512) <= 12, "{version}: {weight}");
        }
    }
}

#[test]
fn an_idle_group_weighs_3() {
    for version in ["5.15", "6.1", "6.6", "6.12", "6.18"] {
        let mut world = World::new(version, 1);
        let group = world.group(ROOT);
        let busy = hog(&mut world, ROOT, CPU);
        let idle = hog(&mut world, group, CPU);
        world.set_idle(CPU, group, true);
        assert_eq!(world.kernel.cfs_rqs[0].h_nr_idle, 1);
        let start = world.bench.now;
        world.advance(20_000 * MS);
        let share = world.runtime(idle) * 100_000 / (world.bench.now - start);
        assert!((200..=400).contains(&share), "{version}: {share} of 100000");
        world.set_idle(CPU, group, false);
        let before = world.runtime(busy);
        world.advance(30_000 * MS);
        let share = (world.runtime(busy) - before) / (30 * MS);
        assert!(
            share < 750,
            "{version}: {share} after its return to shares of 1024"
        );
    }
}

#[test]
fn an_empty_group_entity_may_stay_delayed() {
    // 6.12: the only task of a group blocks early, so its entity is delayed; the CPU's other task
    // works off the debt, then both are taken off.
    let mut world = World::new("6.12", 1);
    let group = world.group(ROOT);
    let member = hog(&mut world, group, CPU);
    let other = hog(&mut world, ROOT, CPU);
    world.advance(500_000);
    assert_eq!(world.current(CPU), member);
    world.block(CPU);
    let q = world.kernel.cfs_rq_of(group, CPU);
    let se = world.kernel.cfs_rqs[q].se.unwrap();
    assert_eq!(world.current(CPU), other);
    // Alone on its queue the task is at V, so it leaves; its group is ahead of V and stays.
    assert!(!world.entity(member).on_rq);
    assert!(world.kernel.entities[se].sched_delayed);
    assert_eq!(world.kernel.cfs_rqs[0].nr_queued, 2);
    assert_eq!(world.kernel.cfs_rqs[0].h_nr_queued, 1);
    world.advance(2 * MS);
    assert!(!world.kernel.entities[se].on_rq);
    assert_eq!(world.kernel.cfs_rqs[0].nr_queued, 1);
}

#[test]
fn load_moves_with_a_task_between_groups_and_cpus() {
    // B's queue on CPU 0 tells its group of 1024 and is left at the same instant. From 6.7 on it
    // may not tell again for 1 ms, and CPU 0, now idle, takes it off its list meanwhile: the group
    // goes on with 1024 on CPU 0 and gets 1024 · 1024 / 2048 on CPU 1. Stable kernels from December
    // 2025 on keep the queue on the list until it has told.
    for version in VERSIONS.into_iter().chain(["6.6.119", "6.12.63", "6.18.2"]) {
        let stalls = ["6.12", "6.18"].contains(&version);
        let mut world = World::new(version, 2);
        let (a, b) = (world.group(ROOT), world.group(ROOT));
        let task = hog(&mut world, a, CPU);
        world.advance_to(500 * MS);
        let load = |world: &World, group| {
            let queues = [Cpu(0), Cpu(1)].map(|cpu| world.kernel.cfs_rq_of(group, cpu));
            queues.map(|q| world.kernel.cfs_rqs[q].avg.load_avg)
        };
        // All but the newest of its periods.
        assert!(load(&world, a)[0] >= 1000, "{version}");
        world.set_group(CPU, task, b);
        assert!(load(&world, a)[0] <= 1, "{version}: rounding");
        assert!(load(&world, b)[0] >= 1000, "{version}");
        assert!(world.kernel.groups[a].load_avg <= 1024 / 64, "{version}");
        world.set_affinity(CPU, task, CpuSet::of(Cpu(1)));
        world.advance(2 * MS);
        let of_b = load(&world, b);
        assert!(of_b[0] <= 1 && of_b[1] >= 1000, "{version}: {of_b:?}");
        let root = world.kernel.cfs_rqs[1].avg.load_avg;
        let expected = if stalls { 450..=512 } else { 900..=1024 };
        assert!(
            expected.contains(&root),
            "{version}: propagated to the root, {root}"
        );
    }
}

#[test]
fn new_shares_of_the_running_group_end_its_turn_up_to_6_18_44() {
    // Two groups with a hog each that asks for 100 ms at a time. 10.5 ms into the first one's turn
    // its group gets twice the shares: up to 6.18.44 that overwrites its protection, so that the
    // next tick, at 11 ms, finds it ahead of V and ends the turn. From 6.18.45 on 89.5 ms of real
    // time are left of it.
    for (version, ends) in [("6.17", true), ("6.18.44", true), ("6.18.45", false)] {
        let mut world = World::new(version, 1);
        let (a, b) = (world.group(ROOT), world.group(ROOT));
        let mut patient_hog = |group| {
            world.start(TaskAttributes {
                group,
                custom_slice_ns: Some(100 * MS),
                ..TaskAttributes::on(CPU)
            })
        };
        let (in_a, in_b) = (patient_hog(a), patient_hog(b));
        world.advance_to(10 * MS + MS / 2);
        assert_eq!(world.current(CPU), in_a, "{version}");
        world.set_shares(a, 2048);
        world.advance_to(11 * MS);
        let expected = if ends { in_b } else { in_a };
        assert_eq!(world.current(CPU), expected, "{version}");
    }
}

#[test]
fn what_the_first_task_of_a_group_brings_counts_once_on_every_level() {
    // A new task on an idle CPU is taken to need half of it: 512, in its group's queue and in those
    // above.
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let outer = world.group(ROOT);
        let inner = world.group(outer);
        hog(&mut world, inner, CPU);
        for group in [inner, outer, ROOT] {
            let q = world.kernel.cfs_rq_of(group, CPU);
            let avg = &world.kernel.cfs_rqs[q].avg;
            assert_eq!(avg.util_avg, 512, "{version}");
            assert!(avg.load_avg <= 1024, "{version}: {}", avg.load_avg);
        }
    }
}

fn release(world: &mut World, group: GroupId) {
    world.call(CPU, |kernel, bench| {
        kernel.group_release(bench, CPU, group);
    });
}

fn free(world: &mut World, group: GroupId) {
    world.call(CPU, |kernel, bench| kernel.group_free(bench, CPU, group));
}

fn queue(world: &World, group: GroupId, cpu: Cpu) -> &CfsRq {
    &world.kernel.cfs_rqs[world.kernel.cfs_rq_of(group, cpu)]
}

#[test]
fn a_group_takes_its_load_along_a_grace_period_later_from_5_16_on() {
    // Its only task ran from 0 to 50 ms and ended: the group's entity has all of the root queue's
    // utilisation.
    for (version, at_release) in releases([("5.10 5.15.4", true), ("5.15.5 5.16 6.12 7.3", false)])
    {
        let mut world = World::new(version, 1);
        let group = world.group(ROOT);
        hog(&mut world, group, CPU);
        world.advance_to(50 * MS);
        world.exit(CPU);
        let se = queue(&world, group, CPU).se.unwrap();
        let util = world.kernel.entities[se].avg.util_avg;
        assert!(util > 500, "{version}: {util}");
        let given_up = |world: &World| {
            let listed = queue(world, group, CPU).on_leaf_list;
            (world.kernel.cfs_rqs[0].removed.util_avg, listed)
        };
        release(&mut world, group);
        let expected = if at_release { (util, false) } else { (0, true) };
        assert_eq!(given_up(&world), expected, "{version}");
        free(&mut world, group);
        assert_eq!(given_up(&world), (util, false), "{version}");
        world.call(CPU, |kernel, bench| {
            kernel.update_blocked_averages(bench, CPU);
        });
        let left = world.kernel.cfs_rqs[0].avg.util_avg;
        assert!(left <= 1, "{version}: rounding, {left}");
    }
}

#[test]
fn a_limit_above_does_not_reach_a_released_group() {
    // 20 ms in 100, used up at 20 ms: the group below is throttled along, and released at 50 ms.
    for version in VERSIONS {
        let mut world = World::new(version, 1);
        let outer = world.group(ROOT);
        let inner = world.group(outer);
        world.limit(outer, 20_000, 100_000, 0);
        hog(&mut world, outer, CPU);
        world.advance_to(50 * MS);
        let counts =
            |world: &World| [outer, inner].map(|group| queue(world, group, CPU).throttle_count);
        assert_eq!(counts(&world), [1, 1], "{version}");
        release(&mut world, inner);
        world.advance_to(101 * MS);
        assert_eq!(counts(&world), [0, 1], "{version}");
        free(&mut world, inner);
        assert!(!queue(&world, inner, CPU).on_leaf_list, "{version}");
    }
}

#[test]
fn a_freed_group_has_no_timers() {
    for version in ["4.15", "5.10", "6.1", "6.6"] {
        let mut world = World::new(version, 1);
        let group = world.group(ROOT);
        world.limit(group, 20_000, 100_000, 0);
        hog(&mut world, group, CPU);
        world.advance_to(5 * MS);
        world.exit(CPU);
        world.advance_to(10 * MS);
        release(&mut world, group);
        assert_eq!(world.next_due(), Some(100 * MS), "{version}");
        free(&mut world, group);
        assert_eq!(world.next_due(), None, "{version}");
    }
}

#[test]
fn a_delayed_entity_of_a_group_leaves_when_the_group_is_freed() {
    // The only task of a group ends early, as above: the entity stays queued for its debt.
    for version in ["6.12", "6.18"] {
        let mut world = World::new(version, 1);
        let group = world.group(ROOT);
        let member = hog(&mut world, group, CPU);
        hog(&mut world, ROOT, CPU);
        world.advance(MS / 2);
        assert_eq!(world.current(CPU), member, "{version}");
        world.exit(CPU);
        let se = queue(&world, group, CPU).se.unwrap();
        release(&mut world, group);
        assert!(world.kernel.entities[se].sched_delayed, "{version}");
        assert_eq!(world.kernel.cfs_rqs[0].nr_queued, 2, "{version}");
        free(&mut world, group);
        assert!(!world.kernel.entities[se].on_rq, "{version}");
        assert_eq!(world.kernel.cfs_rqs[0].nr_queued, 1, "{version}");
    }
}

#[test]
fn a_group_is_freed_behind_the_unthrottling_that_its_cpus_were_asked_for() {
    // CPU 1 has used up 20 ms, its task left the group, and CPU 0 has the timer. The interrupt that
    // it sends to CPU 1 is still on its way when the group is freed (from 6.3 on).
    let mut world = World::new("6.6", 2);
    let group = world.group(ROOT);
    world.limit(group, 20_000, 100_000, 0);
    let task = hog(&mut world, group, Cpu(1));
    world.advance_to(50 * MS);
    world.set_group(CPU, task, ROOT);
    release(&mut world, group);
    world.advance_to(99 * MS);
    world.bench.now = 100 * MS;
    let q = world.kernel.cfs_rq_of(group, Cpu(1));
    let World { kernel, bench, .. } = &mut world;
    kernel.period_timer(bench, CPU, group);
    assert_eq!(kernel.rqs[1].unthrottle_list, [q]);
    assert!(kernel.cfs_rqs[q].throttled);
    kernel.group_free(bench, CPU, group);
    assert!(kernel.rqs[1].unthrottle_list.is_empty());
    let queue = &kernel.cfs_rqs[q];
    assert!(!queue.throttled && !queue.on_leaf_list);
}

#[test]
fn a_groups_request_is_renewed_in_the_length_of_its_tasks_requests() {
    // A hog beside a group, which is queued with a task of the base slice. Then a task that asks
    // for 20 ms joins, and the first one sleeps: the group asks for 20 ms from there on, and does
    // not return to the base slice when such a request is over.
    for version in ["6.12", "6.18", "7.0"] {
        let mut world = World::new(version, 1);
        let group = world.group(ROOT);
        let plain = hog(&mut world, group, CPU);
        hog(&mut world, ROOT, CPU);
        world.start(TaskAttributes {
            group,
            custom_slice_ns: Some(20 * MS),
            ..TaskAttributes::on(CPU)
        });
        while world.current(CPU) != plain {
            world.advance(MS);
        }
        world.block(CPU);
        world.advance(200 * MS);
        let q = world.kernel.cfs_rq_of(group, CPU);
        let se = world.kernel.cfs_rqs[q].se.unwrap();
        assert_eq!(world.kernel.entities[se].slice, 20 * MS, "{version}");
    }
}
