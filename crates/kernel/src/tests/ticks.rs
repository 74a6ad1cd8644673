//! Ticks of idle CPUs that have no cpuidle driver. HZ is 1000.

use super::world::World;
use crate::ids::{Cpu, Ns};

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
