//! Tables of answers over versions, clock rates and sizes, worked out by hand.

use super::world::*;
use crate::balance::nr_idle_scan;

const CPU: Cpu = Cpu(0);

#[test]
fn cpus_worth_a_look_by_utilisation() {
    // y = 1024 − x² · 117² / 10,240,000 with x = 1024 · percent, of 1024 parts of the CPUs. At 50 %
    // x is 512, y = 674: 10 of 16, 21 of 32, 42 of 64, 73 of 112. From 1024 · 100 / 117 = 875 on
    // nothing is left.
    let percents = [0, 10, 20, 30, 40, 50, 60, 70, 80, 85, 86];
    for (cpus, expected) in [
        (16, [16, 15, 15, 14, 12, 10, 8, 5, 2, 0, 0]),
        (32, [32, 31, 30, 28, 25, 21, 16, 10, 4, 0, 0]),
        (64, [64, 63, 60, 56, 50, 42, 32, 21, 8, 0, 0]),
        (112, [112, 110, 105, 98, 87, 73, 56, 37, 14, 1, 0]),
    ] {
        let looks = percents.map(|percent| {
            let util = 1024 * percent / 100 * u64::from(cpus);
            nr_idle_scan(util, cpus, 117)
        });
        assert_eq!(looks, expected, "{cpus} CPUs");
    }
    // Beyond all bounds it stays 0.
    assert_eq!(nr_idle_scan(16 * 4096, 16, 117), 0);
}

#[test]
fn two_hogs_share_by_weight_whatever_the_scheduler() {
    // Of 20 s the nice 0 task gets 1024 / (1024 + weight of the other).
    for version in [
        "4.5", "4.15", "5.4", "5.10", "5.14", "6.1", "6.5", "6.6", "6.8", "6.12", "6.15", "6.18",
    ] {
        for (nice, weight) in [
            (-10, 9548),
            (-1, 1277),
            (1, 820),
            (5, 335),
            (10, 110),
            (19, 15),
        ] {
            let mut world = World::at_hz(version, 8, 1000);
            let hog = world.spawn(CPU);
            let other = world.spawn_in(GroupId::ROOT, CPU, Policy::Normal, nice);
            world.checked = false;
            world.advance_to(20_000 * MS);
            let expected = 20_000 * MS * 1024 / (1024 + weight);
            // A turn of the heavier one, or two of 4 ms.
            let turn = 24 * MS * 1024.max(weight) / (1024 + weight);
            let got = world.runtime(hog);
            assert!(
                got.abs_diff(expected) <= turn.max(8 * MS),
                "{version}, nice {nice}: {got} of {expected}"
            );
            assert_eq!(got + world.runtime(other), 20_000 * MS);
        }
    }
}

#[test]
fn turns_of_eevdf_by_clock_and_cpus() {
    // Base slices of 0.75 · (1, 2, 2, 3, 3, 4, 4) ms for 1, 2, 3, 4, 7, 8, 16 CPUs, and 0.7 from
    // 6.15 on: a turn ends at the first tick at or after it. At 300 Hz ticks are 3.33 ms.
    for (version, (hz, turns_us)) in releases([
        (
            "6.6 6.14 6.15 6.18",
            (1000, [1000, 2000, 2000, 3000, 3000, 3000, 3000]),
        ),
        ("6.6 6.18", (300, [3333; 7])),
        ("6.6 6.12 6.18", (250, [4000; 7])),
        ("6.18", (100, [10_000; 7])),
    ]) {
        for (cpus, turn_us) in [1, 2, 3, 4, 7, 8, 16].into_iter().zip(turns_us) {
            let mut world = World::at_hz(version, cpus, hz);
            let _hogs = [world.spawn(CPU), world.spawn(CPU)];
            world.advance_to(200 * MS);
            // The first requests are half as long.
            let switches = world.switches(CPU);
            let turns: Vec<Ns> = switches[3..]
                .windows(2)
                .take(6)
                .map(|pair| (pair[1].0 - pair[0].0) / 1000)
                .collect();
            assert_eq!(turns, [turn_us; 6], "{version}, {cpus} CPUs, {hz} Hz");
        }
    }
}

#[test]
fn a_slice_of_6_14_that_the_tick_just_misses_takes_a_tick_more() {
    // Ticks every 0.999 ms: 2.997 ms are not the 3.0 of 8 CPUs, but more than the 2.8 of 6.15.
    for (version, turn_us) in [("6.14", 3996), ("6.15", 2997), ("6.18", 2997)] {
        let mut world = World::with(version, 8, |rules| rules.tick_ns = 999_000);
        let _hogs = [world.spawn(CPU), world.spawn(CPU)];
        world.advance_to(100 * MS);
        let switches = world.switches(CPU);
        let turn = switches[5].0 - switches[4].0;
        assert_eq!(turn / 1000, turn_us, "{version}");
    }
}

#[test]
fn credit_of_a_sleeper_by_version() {
    // After a second of sleep beside a hog with 8 CPUs: half a latency of 24 ms up to 6.5, nothing
    // from 6.6 on (what lag is left of the moment it slept is at most a request).
    for (version, cfs) in releases([("4.5 4.15 5.10 6.5", true), ("6.6 6.8 6.12 6.18", false)]) {
        let mut world = World::at_hz(version, 8, 1000);
        let hog = world.spawn(CPU);
        let sleeper = world.spawn(CPU);
        while world.current(CPU) != sleeper {
            world.advance(MS);
        }
        world.block(CPU);
        world.advance(1000 * MS);
        world.wake(CPU, sleeper);
        let vruntime = |task: TaskId| world.entity(task).vruntime;
        let credit = vruntime(hog).wrapping_sub(vruntime(sleeper)) as i64;
        if cfs {
            assert_eq!(credit, 12 * MS as i64, "{version}");
        } else {
            assert!(credit <= 3 * MS as i64, "{version}: {credit}");
        }
    }
}

#[test]
fn three_levels_of_limits_hold_together_and_are_released_together() {
    // /a 60, /a/b 40, /a/b/c 80 of 100 ms: the task runs 40 in each period, throttled by b alone; c
    // waits with it and counts nothing of its own.
    for version in ["4.15", "5.4", "5.14", "6.1", "6.6", "6.12", "6.18"] {
        let mut world = World::new(version, 1);
        let a = world.group(GroupId::ROOT);
        let b = world.group(a);
        let c = world.group(b);
        for (group, quota_ms) in [(a, 60), (b, 40), (c, 80)] {
            world.limit(group, quota_ms * 1000, 100_000, 0);
        }
        let task = world.spawn_in(c, CPU, Policy::Normal, 0);
        world.advance_to(990 * MS);
        assert_in!(world.runtime(task), 398 * MS..=402 * MS, "{version}");
        let throttled = [a, b, c].map(|group| {
            let stat = world.kernel.groups[group].bandwidth.stat;
            stat.nr_throttled
        });
        assert_eq!(throttled, [0, 9, 0], "{version}");
        let q = world.kernel.cfs_rq_of(c, CPU);
        assert_eq!(world.kernel.cfs_rqs[q].throttle_count, 1, "{version}");
    }
}
