//! Load tracking of tasks that sleep, move and wake, worked out by hand.

use super::world::*;
use crate::pelt::decay_load;

const HERE: Cpu = Cpu(0);
const THERE: Cpu = Cpu(1);
/// Length of a period: 1024 units of 1024 ns.
const PERIOD: Ns = 1 << 20;

/// A task that ran on CPU 0 for 20 ms and sleeps; it may run on CPU 1 only when it wakes.
fn sleeper_to_be_moved(version: &str) -> (World, TaskId) {
    let mut world = World::new(version, 2);
    let task = world.spawn(HERE);
    world.advance_to(20 * MS);
    world.block(HERE);
    world.set_affinity(HERE, task, CpuSet::of(THERE));
    (world, task)
}

#[test]
fn a_sleeper_that_moves_is_aged_for_all_its_sleep() {
    // After 32 periods half is left, whichever CPU wakes it: CPU 1 has idled since time 0 and so
    // has its clock.
    for version in ["6.0", "6.12", "6.18"] {
        let (mut world, task) = sleeper_to_be_moved(version);
        let before = world.entity(task).avg;
        world.advance(32 * PERIOD);
        world.wake(THERE, task);
        let sum = decay_load(u64::from(before.util_sum), 32);
        let expected = sum / u64::from(before.divider());
        assert_eq!(world.entity(task).avg.util_avg, expected, "{version}");
        assert!(expected.abs_diff(before.util_avg / 2) <= 1);
    }
    // Before 6.0 it arrived as it fell asleep.
    let (mut world, task) = sleeper_to_be_moved("5.19");
    let before = world.entity(task).avg.util_avg;
    world.advance(32 * PERIOD);
    world.wake(THERE, task);
    assert_eq!(world.entity(task).avg.util_avg, before);
}

#[test]
fn a_look_at_the_idle_cpu_meanwhile_changes_nothing() {
    // Blocked load is updated in the middle of the sleep: 16 periods by then, and 16 that the clock
    // missed.
    let (mut world, task) = sleeper_to_be_moved("6.18");
    let before = world.entity(task).avg;
    world.advance(16 * PERIOD);
    world.call(THERE, |kernel, bench| {
        kernel.update_blocked_averages(bench, HERE)
    });
    world.advance(16 * PERIOD);
    world.wake(THERE, task);
    let sum = decay_load(decay_load(u64::from(before.util_sum), 16), 16);
    assert_eq!(
        world.entity(task).avg.util_avg,
        sum / u64::from(before.divider())
    );
}

#[test]
fn moving_in_its_sleep_is_no_reason_to_take_the_estimate_again() {
    for version in ["6.1", "6.18"] {
        let (mut world, task) = sleeper_to_be_moved(version);
        let estimate = world.kernel.task_util_est(task);
        world.advance(32 * PERIOD);
        world.wake(THERE, task);
        // It runs for less than what is left of the period: no average of it moves while it is
        // queued.
        let left = world.kernel.cfs_rqs[CfsRqId::from(1)].avg.period_left_ns;
        assert!(left > 100 * US);
        world.advance(50 * US);
        world.block(THERE);
        assert_eq!(world.kernel.task_util_est(task), estimate, "{version}");
        // On the same CPU its average moves when it is queued, and the estimate follows by a
        // quarter.
        world.advance(32 * PERIOD);
        world.wake(THERE, task);
        world.advance(50 * US);
        world.block(THERE);
        let util = world.entity(task).avg.util_avg;
        let found = world.kernel.task_util_est(task);
        assert_eq!(found, estimate - (estimate - util).div_ceil(4), "{version}");
    }
}

#[test]
fn the_estimate_is_taken_before_or_after_the_last_run_is_counted() {
    // Without a tick on its way a task runs for 5 ms. Up to 6.11 the estimate counts them; from
    // 6.12 on it is taken before the averages are brought up to date, and what it takes is the
    // utilisation the task was born with: half of the CPU.
    for (version, counted) in releases([("4.17 6.1 6.11", true), ("6.12 6.18", false)]) {
        let mut world = World::with(version, 1, |rules| {
            rules.hz = 100;
            rules.tick_ns = 10 * MS;
        });
        world.advance_to(12 * MS);
        let task = world.spawn(HERE);
        world.advance_to(17 * MS);
        assert_eq!(world.entity(task).avg.util_avg, 512);
        world.block(HERE);
        let util = world.entity(task).avg.util_avg;
        assert!(util > 550, "{version}: {util}");
        let expected = if counted { util } else { 512 };
        assert_eq!(world.kernel.task_util_est(task), expected, "{version}");
    }
}
