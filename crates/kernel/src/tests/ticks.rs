//! Ticks of idle CPUs that have no cpuidle driver, and of CPUs of `nohz_full`. HZ is 1000.

use super::world::*;

const CPU: Cpu = Cpu(0);
const US: Ns = 1_000;

/// A task runs for 1.5 ms and sleeps until 2.5 ms, while a timer is due at 1.6 ms. Whether the tick
/// goes on right after it fell asleep, and after the tick at 2 ms; the same of a second sleep from
/// 2.6 to 3.6 ms.
fn goes_on(version: &str) -> [bool; 4] {
    let mut world = World::new(version, 1);
    let mut ticks = Vec::new();
    let task = world.spawn(CPU);
    for begin in [1500 * US, 2600 * US] {
        world.advance_to(begin);
        world.bench.high_resolution_timer = Some(begin + 100 * US);
        world.block(CPU);
        ticks.push(world.kernel.rqs[0].tick_running);
        world.advance_to(begin + 1000 * US);
        ticks.push(world.kernel.rqs[0].tick_running);
        world.wake(CPU, task);
        assert!(world.kernel.rqs[0].tick_running, "a busy CPU has its tick");
    }
    ticks.try_into().unwrap()
}

#[test]
fn the_tick_stops_at_once_however_near_a_timer_is() {
    for version in [
        "4.5", "4.17", "5.10", "6.1", "6.1.166", "6.12", "6.12.77", "6.18", "6.18.19",
    ] {
        assert_eq!(goes_on(version), [false; 4], "{version}");
    }
}

#[test]
fn late_stable_kernels_stop_it_when_a_tick_finds_the_cpu_idle() {
    for version in [
        "5.10.253", "6.1.167", "6.6.130", "6.12.78", "6.18.20", "6.18.44",
    ] {
        assert_eq!(goes_on(version), [true, false, true, false], "{version}");
    }
}

#[test]
fn an_idle_cpu_is_known_to_have_been_idle() {
    // The condition that schedutil checks before it lowers a frequency.
    let mut world = World::new("6.1", 1);
    let task = world.spawn(CPU);
    let before = world.kernel.rqs[0].idle_calls;
    world.block(CPU);
    world.wake(CPU, task);
    assert_eq!(world.kernel.rqs[0].idle_calls, before + 1);
}

/// CPU 0 keeps the time, CPU 1 needs no tick while it runs one task.
fn nohz_full(version: &str) -> World {
    let mut topology = Topology::flat(2);
    topology.nohz_full = CpuSet::of(Cpu(1));
    World::on(topology, version, |_| {})
}

fn ticks(world: &World) -> bool {
    world.kernel.rqs[1].tick_running
}

#[test]
fn worked_example_of_nohz_full() {
    for version in ["4.17", "5.10", "6.1", "6.12.30", "6.18", "7.3"] {
        let mut world = nohz_full(version);
        let second = world.spawn(Cpu(1));
        world.block(Cpu(1));
        world.advance_to(300 * US);
        let first = world.spawn(Cpu(1));
        world.advance_to(7200 * US);
        assert!(!ticks(&world), "{version}: it left idle for one task");
        assert_eq!(world.runtime(first), 6900 * US, "{version}");
        world.wake(Cpu(0), second);
        assert!(ticks(&world), "{version}: two tasks need it");
        world.advance_to(9500 * US);
        assert!(world.runtime(second) > 0, "{version}: the CPU is shared");
        world.block(Cpu(1));
        world.advance_to(9999 * US);
        assert!(ticks(&world), "{version}: no interrupt ended yet");
        world.advance_to(10 * MS);
        assert!(!ticks(&world), "{version}: one task is left");
        world.advance_to(500 * MS);
        assert!(
            world.kernel.rqs[0].tick_running,
            "{version}: CPU 0 keeps the time"
        );
    }
}

#[test]
fn a_limit_is_kept_in_time_from_6_6_on() {
    // 10 ms in 100. Before, what the task used is charged once a second, by CPU 0.
    for (version, used) in [("6.5", 990 * MS), ("6.6", 100 * MS)] {
        let mut world = nohz_full(version);
        let group = world.limited(GroupId::ROOT, 10_000, 100_000, 0);
        let task = world.spawn_in(group, Cpu(1), Policy::Normal, 0);
        world.advance_to(990 * MS);
        let ran = world.runtime(task);
        assert!(ran.abs_diff(used) <= 15 * MS, "{version}: {ran}");
        world.advance_to(1100 * MS);
        let later = world.runtime(task) - ran;
        assert!(later < 40 * MS, "{version}: {later} after it was charged");
    }
}

#[test]
fn two_tasks_that_take_turns_need_the_tick_and_others_do_not() {
    for (policy, needed) in [(Policy::RoundRobin, true), (Policy::Fifo, false)] {
        let mut world = nohz_full("6.12.30");
        for _ in 0..2 {
            world.start(TaskAttributes {
                policy,
                rt_priority: 10,
                ..TaskAttributes::on(Cpu(1))
            });
        }
        world.advance_to(20 * MS);
        assert_eq!(ticks(&world), needed, "{policy:?}");
    }
}

#[test]
fn two_tasks_of_one_group_had_no_tick_up_to_6_12_6() {
    for (version, needed) in [("6.11", true), ("6.12.6", false), ("6.12.7", true)] {
        let mut world = nohz_full(version);
        let group = world.group(GroupId::ROOT);
        for _ in 0..2 {
            world.spawn_in(group, Cpu(1), Policy::Normal, 0);
        }
        world.advance_to(20 * MS);
        assert_eq!(ticks(&world), needed, "{version}");
    }
}
