//! Utilisation clamps, by answers worked out on paper.

use crate::balance::tests::capacity::big_little;
use crate::tests::world::*;
use crate::uclamp::{Clamps, Fit, Refused, Wish};

fn set(world: &mut World, task: TaskId, min: Wish, max: Wish) {
    world.call(Cpu(0), |kernel, bench| {
        let wish = Clamps { min, max };
        kernel.set_clamps(bench, Cpu(0), task, wish).unwrap();
    });
}

fn at_least(world: &mut World, task: TaskId, min: u32) {
    set(world, task, Wish::Set(min), Wish::Keep);
}

fn at_most(world: &mut World, task: TaskId, max: u32) {
    set(world, task, Wish::Keep, Wish::Set(max));
}

/// Least and most of a CPU.
fn of(world: &World, cpu: u32) -> (u32, u32) {
    let clamps = world.kernel.rqs[cpu as usize].clamps.of;
    (clamps.min.value, clamps.max.value)
}

fn one_cpu(version: &str) -> World {
    World::with(version, 1, |rules| rules.uclamp = true)
}

#[test]
fn worked_example_of_the_module_docs() {
    let mut world = one_cpu("6.12");
    let first = world.spawn(Cpu(0));
    let second = world.spawn(Cpu(0));
    at_least(&mut world, first, 300);
    assert_eq!(of(&world, 0), (300, 1024));
    at_least(&mut world, second, 350);
    assert_eq!(of(&world, 0), (350, 1024));
    while world.current(Cpu(0)) != second {
        world.advance(MS);
    }
    world.block(Cpu(0));
    assert!(!world.kernel.tasks[second].clamps.min.active);
    // Bucket 1 remembers 350 while the first one is in it.
    assert_eq!(of(&world, 0), (350, 1024));
    assert_eq!(world.current(Cpu(0)), first);
    world.block(Cpu(0));
    assert_eq!(of(&world, 0), (0, 1024));
}

#[test]
fn tasks_of_different_buckets_take_their_clamp_with_them() {
    let mut world = one_cpu("6.1");
    // 204 is in bucket 0, 205 in bucket 1, 820 and 1024 are in bucket 4.
    let tasks = [204, 205, 820].map(|min| {
        let task = world.spawn(Cpu(0));
        at_least(&mut world, task, min);
        task
    });
    assert_eq!(of(&world, 0).0, 820);
    let buckets = world.kernel.rqs[0].clamps.of.min.buckets;
    assert_eq!(
        buckets.map(|bucket| (bucket.tasks, bucket.value)),
        [(1, 204), (1, 205), (0, 0), (0, 0), (1, 820)]
    );
    at_least(&mut world, tasks[2], 100);
    assert_eq!(of(&world, 0).0, 205);
    // Bucket 0 has 204 and 100 now, and remembers the larger one.
    at_least(&mut world, tasks[1], 0);
    assert_eq!(of(&world, 0).0, 204);
}

#[test]
fn an_idle_cpu_keeps_the_most_of_its_last_task_until_the_next_one_comes() {
    let mut world = one_cpu("6.18");
    let capped = world.spawn(Cpu(0));
    at_most(&mut world, capped, 200);
    assert_eq!(of(&world, 0), (0, 200));
    world.block(Cpu(0));
    assert_eq!(of(&world, 0), (0, 200));
    assert!(world.kernel.rqs[0].clamps.idle);
    let free = world.spawn(Cpu(0));
    assert_eq!(of(&world, 0), (0, 1024));
    // The largest of both counts.
    world.wake(Cpu(0), capped);
    assert_eq!(of(&world, 0), (0, 1024));
    at_most(&mut world, free, 300);
    assert_eq!(of(&world, 0), (0, 300));
}

#[test]
fn a_group_bounds_what_its_tasks_ask_for_and_a_child_what_its_parent_has() {
    let mut world = one_cpu("6.12");
    let outer = world.group(GroupId::ROOT);
    let inner = world.group(outer);
    let task = world.spawn_in(inner, Cpu(0), Policy::Normal, 0);
    set(&mut world, task, Wish::Set(100), Wish::Set(900));
    let clamps = |world: &World| {
        let clamps = world.kernel.clamps_of(task);
        assert_eq!(of(world, 0), (clamps.min as u32, clamps.max as u32));
        (clamps.min, clamps.max)
    };
    assert_eq!(clamps(&world), (100, 900));
    let write = |world: &mut World, group, min, max| {
        world.call(Cpu(0), |kernel, bench| {
            kernel.group_set_clamps(bench, Cpu(0), group, Clamps { min, max });
        });
    };
    // The least of a group lifts both; its parent allows none.
    write(&mut world, inner, 500, 800);
    assert_eq!(clamps(&world), (100, 800));
    write(&mut world, outer, 1024, 600);
    assert_eq!(clamps(&world), (500, 600));
    // A least above the most is the most.
    write(&mut world, inner, 1024, 300);
    assert_eq!(clamps(&world), (300, 300));
    // In the root group nothing bounds it.
    world.set_group(Cpu(0), task, GroupId::ROOT);
    assert_eq!(clamps(&world), (100, 900));
}

#[test]
fn wishes_that_contradict_each_other_are_refused() {
    let mut world = one_cpu("6.12");
    let fair = world.spawn(Cpu(0));
    let urgent = world.spawn_fifo(Cpu(0), 10, CpuSet::of(Cpu(0)));
    let asks = |world: &World, task, min, max| {
        let wish = Clamps { min, max };
        world.kernel.check_clamps(task, wish)
    };
    let refused = |min, max| Err(Refused::Range(Clamps { min, max }));
    let set = Wish::Set;
    assert_eq!(asks(&world, fair, set(600), set(500)), refused(600, 500));
    assert_eq!(asks(&world, fair, Wish::Keep, set(1025)), refused(0, 1025));
    // A real-time task has a least of 1024 as long as it says nothing else.
    assert_eq!(
        asks(&world, urgent, Wish::Keep, set(500)),
        refused(1024, 500)
    );
    let asked = asks(&world, urgent, set(0), set(500));
    assert_eq!(
        asked,
        Ok(Clamps {
            min: Some(0),
            max: Some(500)
        })
    );
    let reset = asks(&world, urgent, Wish::Reset, set(500));
    assert_eq!(reset.map(|asked| asked.min), Ok(None));
    world.kernel.rules.uclamp = false;
    let without = asks(&world, fair, Wish::Keep, Wish::Reset);
    assert_eq!(without, Err(Refused::NotBuilt));
}

#[test]
fn a_task_whose_class_changes_has_what_that_class_has_without_asking() {
    let mut world = one_cpu("6.12");
    let task = world.spawn(Cpu(0));
    at_most(&mut world, task, 700);
    let policy = |world: &mut World, policy, priority| {
        world.set_policy(Cpu(0), task, policy, 0, priority);
        of(world, 0)
    };
    // The most was asked for and stays; 1024 as the least counts before it.
    assert_eq!(policy(&mut world, Policy::Fifo, 1), (1024, 700));
    assert_eq!(policy(&mut world, Policy::Normal, 0), (0, 700));
}

#[test]
fn what_was_queued_before_the_first_clamp_counts_from_its_next_wakeup_on() {
    let mut world = one_cpu("6.12");
    let (early, late) = (world.spawn(Cpu(0)), world.spawn(Cpu(0)));
    at_most(&mut world, late, 400);
    // Only that one is counted, though the other one has none at all.
    assert_eq!(of(&world, 0), (0, 400));
    while world.current(Cpu(0)) != early {
        world.advance(MS);
    }
    world.block(Cpu(0));
    world.wake(Cpu(0), early);
    assert_eq!(of(&world, 0), (0, 1024));
}

#[test]
fn a_clamp_says_where_utilisation_fits() {
    let mut world = World::on(big_little(), "6.12", |rules| rules.uclamp = true);
    let task = world.spawn(Cpu(4));
    let fits = |world: &World, util, min, max, cpu| {
        let clamps = Clamps { min, max };
        world.kernel.util_fits_cpu(util, clamps, Cpu(cpu))
    };
    // Before anybody uses clamps they mean nothing.
    assert_eq!(fits(&world, 100, 1024, 1024, 0), Fit::Yes);
    at_least(&mut world, task, 0);
    // 80 % of 446 are 356.8.
    assert_eq!(fits(&world, 356, 0, 1024, 0), Fit::Yes);
    assert_eq!(fits(&world, 357, 0, 1024, 0), Fit::No);
    // Capped at what the small CPU has, it fits there however large it is.
    assert_eq!(fits(&world, 900, 0, 446, 0), Fit::Yes);
    assert_eq!(fits(&world, 900, 0, 447, 0), Fit::No);
    // At least more than the small CPU has: it would fit but for that.
    assert_eq!(fits(&world, 100, 446, 1024, 0), Fit::Yes);
    assert_eq!(fits(&world, 100, 447, 1024, 0), Fit::AllButMin);
    assert_eq!(fits(&world, 100, 1024, 1024, 4), Fit::Yes);
    // The least is not above the most.
    assert_eq!(fits(&world, 100, 1024, 446, 0), Fit::Yes);
    // No cap at the capacity of the largest CPU.
    assert_eq!(fits(&world, 900, 0, 1024, 4), Fit::No);
    assert_eq!(fits(&world, 900, 0, 1000, 4), Fit::Yes);
}

/// Lets a sleeping task have run last elsewhere.
fn ran_last_on(world: &mut World, task: TaskId, cpu: Cpu) {
    let record = &mut world.kernel.tasks[task];
    record.cpu = cpu;
    let (se, group) = (record.se, record.group);
    world.kernel.set_task_rq(se, group, cpu);
}

/// A task that sleeps since it ran on CPU 0 and may run anywhere.
fn small_sleeper(world: &mut World) -> TaskId {
    let task = world.spawn(Cpu(0));
    world.block(Cpu(0));
    let record = &mut world.kernel.tasks[task];
    (record.affinity, record.nr_cpus_allowed) = (CpuSet::first(8), 8);
    let se = record.se;
    (record.util_est, record.util_est_ewma) = (0, 0);
    world.kernel.entities[se].avg.util_avg = 100;
    task
}

#[test]
fn a_boosted_task_wakes_on_a_large_cpu_and_a_capped_one_stays_on_a_small_one() {
    for version in ["6.1", "6.12", "6.18", "7.3"] {
        let mut world = World::on(big_little(), version, |rules| rules.uclamp = true);
        let task = small_sleeper(&mut world);
        world.wake(Cpu(0), task);
        assert_eq!(world.kernel.tasks[task].cpu, Cpu(0), "{version}");
        world.block(Cpu(0));
        at_least(&mut world, task, 600);
        world.wake(Cpu(0), task);
        let cpu = world.kernel.tasks[task].cpu;
        assert!(cpu >= Cpu(4), "{version}: {cpu:?}");
        world.block(cpu);
        // Large as it is, it is capped at what the small CPUs have.
        set(&mut world, task, Wish::Set(0), Wish::Set(446));
        let se = world.kernel.tasks[task].se;
        world.kernel.entities[se].avg.util_avg = 900;
        ran_last_on(&mut world, task, Cpu(1));
        world.wake(Cpu(1), task);
        assert_eq!(world.kernel.tasks[task].cpu, Cpu(1), "{version}");
    }
}

#[test]
fn a_boost_that_no_idle_cpu_has_takes_the_largest_of_those_that_fit() {
    for version in ["6.12", "7.3"] {
        let mut topology = big_little();
        topology.capacities[3] = 700;
        let mut world = World::on(topology, version, |rules| rules.uclamp = true);
        let task = small_sleeper(&mut world);
        for cpu in 4..8 {
            world.spawn(Cpu(cpu));
        }
        at_least(&mut world, task, 800);
        world.wake(Cpu(0), task);
        assert_eq!(world.kernel.tasks[task].cpu, Cpu(3), "{version}");
    }
}

#[test]
fn a_boosted_task_that_runs_on_a_small_cpu_goes_to_a_large_one() {
    let mut world = World::on(big_little(), "6.12", |rules| rules.uclamp = true);
    let task = small_sleeper(&mut world);
    world.wake(Cpu(0), task);
    world.advance(20 * MS);
    assert_eq!(world.kernel.tasks[task].cpu, Cpu(0));
    assert_eq!(world.kernel.rqs[0].misfit_task_load, 0);
    at_least(&mut world, task, 600);
    world.advance(20 * MS);
    let cpu = world.kernel.tasks[task].cpu;
    assert!(cpu >= Cpu(4), "{cpu:?}");
}

#[test]
fn a_real_time_task_asks_for_a_large_cpu_where_the_kernel_has_clamps() {
    for (uclamp, cpus) in [(true, 4..8), (false, 0..4)] {
        let mut world = World::on(big_little(), "6.12", |rules| rules.uclamp = uclamp);
        let task = world.spawn_fifo(Cpu(0), 10, CpuSet::first(8));
        let cpu = world.kernel.tasks[task].cpu;
        assert!(cpus.contains(&cpu.0), "{uclamp}: {cpu:?}");
    }
    // With all large ones taken by more urgent ones it stays where it is.
    let mut world = World::on(big_little(), "6.12", |rules| rules.uclamp = true);
    for cpu in 4..8 {
        world.spawn_fifo(Cpu(cpu), 20, CpuSet::of(Cpu(cpu)));
    }
    let task = world.spawn_fifo(Cpu(2), 10, CpuSet::first(8));
    assert_eq!(world.kernel.tasks[task].cpu, Cpu(2));
    // One that says it needs little stays, too.
    let mut world = World::on(big_little(), "6.12", |rules| rules.uclamp = true);
    let task = world.spawn_fifo(Cpu(0), 10, CpuSet::first(8));
    let cpu = world.kernel.tasks[task].cpu;
    world.block(cpu);
    at_least(&mut world, task, 200);
    ran_last_on(&mut world, task, Cpu(1));
    world.wake(Cpu(1), task);
    assert_eq!(world.kernel.tasks[task].cpu, Cpu(1));
}

#[test]
fn a_throttled_task_keeps_its_clamp_on_the_cpu_until_it_really_sleeps() {
    let mut world = one_cpu("6.18");
    let group = world.limited(GroupId::ROOT, 1_000, 100_000, 0);
    let task = world.spawn_in(group, Cpu(0), Policy::Normal, 0);
    at_least(&mut world, task, 500);
    world.advance(20 * MS);
    assert!(world.idle(Cpu(0)) && world.kernel.tasks[task].throttled);
    assert_eq!(of(&world, 0), (500, 1024));
}

#[test]
fn the_administrator_bounds_every_clamp() {
    let mut world = World::with("6.12", 1, |rules| {
        rules.uclamp = true;
        rules.clamps.most = Clamps { min: 400, max: 600 };
    });
    let task = world.spawn(Cpu(0));
    assert_eq!(of(&world, 0), (0, 600));
    at_least(&mut world, task, 500);
    assert_eq!(of(&world, 0), (400, 600));
    // A group has no more either, and what runs in it follows a new bound at once.
    let group = world.group(GroupId::ROOT);
    assert_eq!(world.kernel.groups[group].clamps.max, 600);
    let inside = world.spawn_in(group, Cpu(0), Policy::Normal, 0);
    let mut rules = world.kernel.rules.clone();
    rules.clamps.most.max = 500;
    world.kernel.set_rules(rules);
    assert_eq!(world.kernel.clamps_of(inside).max, 500);
    // The one in the root group, too, since the root group's bounds have changed.
    assert_eq!(world.kernel.clamps_of(task), Clamps { min: 400, max: 500 });
}

#[test]
fn real_time_tasks_ask_for_the_administrators_default() {
    let mut world = World::with("6.12", 1, |rules| {
        rules.uclamp = true;
        rules.clamps.rt_min = 128;
    });
    let task = world.spawn_fifo(Cpu(0), 10, CpuSet::of(Cpu(0)));
    assert_eq!(world.kernel.clamps_of(task).min, 128);
    assert_eq!(of(&world, 0), (128, 1024));
}
