//! The deadline class: budgets, wakeup rules, order, admission, push and pull. Ticks come every
//! millisecond.

use super::world::*;
use crate::dl::Reservation;
use crate::dl::change::{Refused, RefusedFor};
use schedcast_base::assert_contains;

const CPU: Cpu = Cpu(0);

/// So many milliseconds by so many in every so many.
pub(crate) fn reserve(runtime: Ns, deadline: Ns, period: Ns) -> Reservation {
    Reservation {
        runtime_ns: runtime * MS,
        deadline_ns: deadline * MS,
        period_ns: period * MS,
        reclaims: false,
    }
}

pub(crate) fn set(world: &mut World, task: TaskId, asked: Reservation) -> Result<(), Refused> {
    let mut result = Ok(());
    let cpu = world.kernel.tasks[task].cpu;
    world.call(cpu, |kernel, bench| {
        result = kernel.set_deadline(bench, cpu, task, asked);
    });
    result
}

/// A deadline task from 5 ms on, with a fair hog behind it.
fn beside_a_hog(version: &str, asked: Reservation) -> (World, TaskId, TaskId) {
    let mut world = World::new(version, 1);
    let task = world.spawn(CPU);
    let hog = world.spawn(CPU);
    world.advance_to(5 * MS);
    set(&mut world, task, asked).unwrap();
    (world, task, hog)
}

/// Switches from 5 ms on, in ms.
fn switches(world: &World, cpu: Cpu) -> Vec<(Ns, TaskId)> {
    let all = world.switches(cpu).into_iter();
    all.filter(|(at, _)| *at >= 5 * MS)
        .map(|(at, task)| (at / MS, task.unwrap_or(TaskId(cpu.0))))
        .collect()
}

#[test]
fn a_hog_of_10_ms_in_100_is_throttled_at_its_end_and_comes_back_with_its_period() {
    for version in ["6.1", "6.12", "6.18", "7.3"] {
        let (mut world, task, hog) = beside_a_hog(version, reserve(10, 100, 100));
        world.advance_to(210 * MS);
        let mut seen = switches(&world, CPU);
        // Who runs at 5 ms depends on the fair class.
        seen.retain(|&(at, _)| at > 5);
        // The tick at 15 ms finds all 10 ms used; the next period begins at the deadline, 105 ms.
        let expected = [(15, hog), (105, task), (115, hog), (205, task)];
        assert_eq!(seen, expected, "{version}");
    }
}

#[test]
fn a_woken_task_keeps_6_ms_for_80_but_not_for_50() {
    let (mut world, task, _) = beside_a_hog("6.12", reserve(10, 100, 100));
    world.advance_to(9 * MS);
    world.block(CPU);
    world.advance_to(25 * MS);
    world.wake(CPU, task);
    let kept = world.kernel.dl.of(task);
    // 4 of 10 ms were used; 6/80 is less than 10/100.
    assert_eq!((kept.runtime_ns, kept.deadline_ns), (6_000_000, 105 * MS));
    world.block(CPU);
    world.advance_to(55 * MS);
    world.wake(CPU, task);
    let renewed = world.kernel.dl.of(task);
    assert_eq!(
        (renewed.runtime_ns, renewed.deadline_ns),
        (10_000_000, 155 * MS)
    );
}

#[test]
fn a_deadline_before_the_periods_end_leaves_what_fits_and_then_waits_for_the_period() {
    let (mut world, task, hog) = beside_a_hog("6.12", reserve(10, 50, 100));
    world.advance_to(9 * MS);
    world.block(CPU);
    world.advance_to(35 * MS);
    world.wake(CPU, task);
    let revised = world.kernel.dl.of(task);
    // 10 · 2^20 / 50 = 209715; 209715 · 20,000,000 / 2^20 = 3,999,996.2 ns in the 20 ms to the
    // deadline at 55.
    assert_eq!(
        (revised.runtime_ns, revised.deadline_ns),
        (3_999_996, 55 * MS)
    );
    world.block(CPU);
    world.advance_to(60 * MS);
    world.wake(CPU, task);
    assert!(world.kernel.dl.of(task).throttled);
    assert_eq!(world.current(CPU), hog);
    world.advance_to(105 * MS);
    let replenished = world.kernel.dl.of(task);
    assert_eq!(world.current(CPU), task);
    assert_eq!(
        (replenished.runtime_ns, replenished.deadline_ns),
        (10_000_000, 155 * MS)
    );
}

#[test]
fn who_yields_gives_the_rest_of_the_period_up() {
    let (mut world, task, hog) = beside_a_hog("6.12", reserve(10, 100, 100));
    world.advance_to(7 * MS);
    assert_eq!(world.current(CPU), task);
    world.yield_current(CPU);
    assert_eq!(world.current(CPU), hog);
    world.advance_to(105 * MS);
    assert_eq!(world.current(CPU), task);
    assert_eq!(world.kernel.dl.of(task).runtime_ns, 10_000_000);
}

#[test]
fn the_earliest_deadline_runs_before_every_real_time_task() {
    let mut world = World::new("6.12", 1);
    let fifo = world.spawn_fifo(CPU, 99, CpuSet::of(CPU));
    let late = world.spawn(CPU);
    let early = world.spawn(CPU);
    world.advance_to(5 * MS);
    assert_eq!(world.current(CPU), fifo);
    set(&mut world, late, reserve(3, 40, 40)).unwrap();
    assert_eq!(world.current(CPU), late);
    world.advance_to(6 * MS);
    // 6 + 20 ms come before 5 + 40.
    set(&mut world, early, reserve(2, 20, 20)).unwrap();
    world.advance_to(30 * MS);
    let expected = [
        (5, late),
        (6, early),
        (8, late),
        (10, fifo),
        (26, early),
        (28, fifo),
    ];
    assert_eq!(switches(&world, CPU), expected);
}

#[test]
fn ninety_five_percent_of_four_cpus_may_be_reserved_fair_servers_included() {
    // Up to 6.11 there are no fair servers; in 7.3 all of a CPU may be reserved: 3.8, 3.6 and 3.8
    // CPUs.
    for (version, admitted) in [("6.1", 38), ("6.12", 36), ("7.3", 38)] {
        let mut world = World::new(version, 4);
        world.advance_to(5 * MS);
        let tenth = reserve(10, 100, 100);
        for number in 0..admitted {
            let task = world.spawn_anywhere(CPU);
            assert_eq!(set(&mut world, task, tenth), Ok(()), "{version} {number}");
        }
        let task = world.spawn_anywhere(CPU);
        let refused = set(&mut world, task, tenth).unwrap_err();
        assert!(
            matches!(refused.why, RefusedFor::Bandwidth { .. }),
            "{version}"
        );
        let expected = "3.600 are, and this is 0.100";
        assert_eq!(refused.to_string().contains(expected), version == "6.12.0");
    }
}

#[test]
fn a_tenth_is_free_again_at_the_0_lag_time_of_a_task_that_ended() {
    let mut world = World::new("6.1", 1);
    let (ends, other) = (world.spawn(CPU), world.spawn(CPU));
    world.advance_to(5 * MS);
    set(&mut world, ends, reserve(90, 100, 100)).unwrap();
    // 90 · 2^20 / 100.
    assert_eq!(world.kernel.dl.rqs[0].running_bw, 943_718);
    world.advance_to(50 * MS);
    assert_eq!(world.current(CPU), ends);
    world.exit(CPU);
    // 45 ms are left of 90, so its 0-lag time is 50 ms before its deadline at 105.
    let tenth = reserve(10, 100, 100);
    assert!(set(&mut world, other, tenth).is_err());
    world.advance_to(54 * MS);
    assert!(set(&mut world, other, tenth).is_err());
    world.advance_to(56 * MS);
    assert_eq!(world.kernel.dl.rqs[0].running_bw, 0);
    assert_eq!(set(&mut world, other, tenth), Ok(()));
}

#[test]
fn reservations_must_fit_the_kernels_bounds_and_tasks_must_not_be_pinned() {
    let mut world = World::new("6.12", 2);
    world.advance_to(5 * MS);
    let task = world.spawn_anywhere(CPU);
    for (asked, what) in [
        (reserve(20, 10, 100), "runtime > deadline"),
        (reserve(10, 200, 100), "deadline > period"),
        (reserve(10, 5000, 5000), "period > 4.19 s"),
    ] {
        let refused = set(&mut world, task, asked).unwrap_err();
        assert_eq!(refused.why, RefusedFor::Parameters, "{what}");
    }
    let pinned = world.spawn(CPU);
    let refused = set(&mut world, pinned, reserve(1, 10, 10)).unwrap_err();
    assert_eq!(refused.why, RefusedFor::Affinity);
    assert!(World::new("6.12", 1).kernel.rules.version >= crate::dl::change::OLDEST);
    let mut old = World::new("5.15", 1);
    let task = old.spawn(CPU);
    let refused = set(&mut old, task, reserve(1, 10, 10)).unwrap_err();
    assert_contains(refused, "modelled from 6.1 on, this is 5.15");
}

#[test]
fn who_reclaims_uses_up_157614_ns_in_a_millisecond_alone_with_a_tenth() {
    let asked = Reservation {
        reclaims: true,
        ..reserve(10, 100, 100)
    };
    let (mut world, _, hog) = beside_a_hog("6.12", asked);
    world.advance_to(100 * MS);
    let mut seen = switches(&world, CPU);
    seen.retain(|&(at, _)| at > 5);
    // Of 996147 nobody has 996147 − 52428 (the fair server) − 104857 = 838862, so it takes 157285 ·
    // 269 / 256 = 165271 of 2^20. 63 ticks use 9,929,682 ns up, the 64th the rest: 69 ms.
    assert_eq!(seen, [(69, hog)]);
}

#[test]
fn the_earliest_two_of_three_run_on_two_cpus() {
    for version in ["6.1", "6.12", "7.3"] {
        let mut world = World::new(version, 2);
        let tasks: Vec<TaskId> = (0..3).map(|_| world.spawn_anywhere(CPU)).collect();
        world.advance_to(5 * MS);
        // Deadlines at 25, 35 and 45 ms; all of them run for 4 ms.
        for (task, period) in tasks.iter().zip([20, 30, 40]) {
            set(&mut world, *task, reserve(4, period, period)).unwrap();
        }
        let running = |world: &World| {
            let mut two = [world.current(Cpu(0)), world.current(Cpu(1))];
            two.sort();
            two.to_vec()
        };
        world.advance_to(7 * MS);
        assert_eq!(running(&world), tasks[..2], "{version}");
        // The CPU that is free first pulls the third.
        world.advance_to(10 * MS);
        assert!(running(&world).contains(&tasks[2]), "{version}");
        let blocked = world.kernel.tasks[tasks[2]].cpu;
        world.block(blocked);
        // Woken where the second one runs again it goes to the other CPU.
        world.advance_to(26 * MS);
        let first = world.kernel.tasks[tasks[0]].cpu;
        assert_eq!(world.current(first), tasks[0], "{version}");
        world.kernel.tasks[tasks[2]].cpu = first;
        world.wake(first, tasks[2]);
        assert!(running(&world).contains(&tasks[2]), "{version}");
    }
}

#[test]
fn a_cpu_whose_deadline_task_sleeps_takes_the_one_that_waits_elsewhere() {
    for version in ["6.1", "6.12", "7.3"] {
        let mut world = World::new(version, 2);
        let tasks: Vec<TaskId> = (0..3).map(|_| world.spawn_anywhere(CPU)).collect();
        world.advance_to(5 * MS);
        for (task, period) in tasks.iter().zip([20, 21, 40]) {
            set(&mut world, *task, reserve(8, period, period)).unwrap();
        }
        // Deadlines at 25, 26 and 45 ms: the third waits.
        let waits = world.kernel.tasks[tasks[2]].cpu;
        let other = Cpu(1 - waits.0);
        assert!(tasks[..2].contains(&world.current(other)), "{version}");
        world.advance_to(6 * MS);
        world.block(other);
        assert_eq!(world.current(other), tasks[2], "{version}");
    }
}

#[test]
fn a_task_that_becomes_a_deadline_one_has_given_up_nothing() {
    let mut world = World::new("6.12", 1);
    let task = world.spawn(CPU);
    set(&mut world, task, reserve(10, 100, 100)).unwrap();
    world.advance(2 * MS);
    assert!(!world.kernel.dl.of(task).throttled && world.current(CPU) == task);
}

/// Four CPUs, the last two of which are isolated.
fn two_isolated(version: &str) -> World {
    let mut topology = Topology::regular(1, 1, 4, 1);
    topology.isolated = [Cpu(2), Cpu(3)].into_iter().collect();
    World::on(topology, version, |_| ())
}

#[test]
fn what_isolated_cpus_reserve_is_counted_apart() {
    // Two CPUs of each domain: 1.9 may be reserved, so two tasks of 0.9 and no third one.
    let mut world = two_isolated("6.1");
    for cpu in [CPU, Cpu(2)] {
        let answers = [(); 3].map(|()| {
            let task = world.start(TaskAttributes {
                affinity: CpuSet::first(4),
                ..TaskAttributes::on(cpu)
            });
            let on = world.kernel.tasks[task].cpu;
            assert_eq!(
                on.0 < 2,
                cpu == CPU,
                "it starts in the domain of its parent"
            );
            set(&mut world, task, reserve(90, 100, 100)).is_ok()
        });
        assert_eq!(answers, [true, true, false], "{cpu:?}");
    }
}

#[test]
fn real_time_tasks_stay_with_isolated_cpus_or_with_the_others() {
    for (cpu, other) in [(CPU, Cpu(1)), (Cpu(2), Cpu(3))] {
        let mut world = two_isolated("6.12");
        world.spawn_fifo(cpu, 60, CpuSet::of(cpu));
        let moves = world.spawn_fifo(cpu, 50, CpuSet::first(4));
        assert_eq!(world.current(other), moves, "the other CPU of its domain");
        let waits = world.spawn_fifo(cpu, 40, CpuSet::first(4));
        let place = world.kernel.tasks[waits].cpu;
        assert!(
            [cpu, other].contains(&place),
            "the idle ones are of the other domain"
        );
        assert_ne!(world.current(place), waits);
    }
}
