//! `wake_affine`: the decision table of idleness, and the comparison of weights.

use super::{PLAIN, SYNC, busy, sleeper, wakeup};
use crate::tests::world::*;

const THIS: Cpu = Cpu(0);
/// Shares the cache with CPU 0.
const NEAR: Cpu = Cpu(1);
/// Does not.
const FAR: Cpu = Cpu(4);

fn two_caches(version: &str) -> World {
    World::on(Topology::regular(1, 2, 4, 1), version, |_| {})
}

/// Decisions of `wake_affine_idle` for (prev, sync): T = this CPU, P = previous, - = undecided.
fn decide(world: &World, prev: Cpu, sync: bool) -> char {
    match world.kernel.wake_affine_idle(THIS, prev, sync) {
        Some((cpu, _)) if cpu == THIS => 'T',
        Some(_) => 'P',
        None => '-',
    }
}

#[test]
fn idleness_decides_by_version() {
    // Columns: this CPU idle and
    //   near prev idle | near prev busy | far prev idle | far prev busy,
    // this CPU runs the waker only and
    //   prev idle | prev busy | prev idle, sync | prev busy, sync,
    // this CPU runs the waker and another task and
    //   prev idle, sync | prev busy, sync.
    for (version, expected) in [
        // No condition about the cache: an idle waking CPU always wins.
        ("4.14", "TTTT --TT --"),
        ("4.15", "TTTT --TT --"),
        // Only with a shared cache, and then an idle previous CPU comes first.
        ("4.16", "PT-- --TT --"),
        ("5.10", "PT-- --TT --"),
        // An idle previous CPU settles it in the end.
        ("5.11", "PTP- P-TT P-"),
        ("6.12", "PTP- P-TT P-"),
        ("6.18", "PTP- P-TT P-"),
    ] {
        let mut found = String::new();
        for prev in [NEAR, FAR] {
            let mut world = two_caches(version);
            found.push(decide(&world, prev, false));
            busy(&mut world, [prev.0]);
            found.push(decide(&world, prev, false));
        }
        for (runs_here, syncs) in [(1, &[false, true][..]), (2, &[true][..])] {
            found.push(' ');
            for &sync in syncs {
                let mut world = two_caches(version);
                busy(&mut world, [THIS.0; 2].into_iter().take(runs_here));
                found.push(decide(&world, FAR, sync));
                busy(&mut world, [FAR.0]);
                found.push(decide(&world, FAR, sync));
            }
        }
        assert_eq!(found, expected, "{version}");
    }
}

#[test]
fn a_task_whose_dequeue_is_delayed_runs_beside_the_waker_only_up_to_6_15() {
    for (version, expected) in releases([
        ("6.12.7 6.12.36 6.13 6.15.2", '-'),
        ("6.12.37 6.15.3 6.16", 'T'),
    ]) {
        let mut world = two_caches(version);
        // Two tasks start together; the one that ran its first ms is 0.5 ms ahead of the average
        // when it sleeps, so it stays queued.
        busy(&mut world, [THIS.0; 2]);
        world.advance(MS);
        world.block(THIS);
        let cfs_rq = &world.kernel.cfs_rqs[0];
        assert_eq!((cfs_rq.h_nr_queued, cfs_rq.h_nr_runnable), (2, 1));
        busy(&mut world, [FAR.0]);
        assert_eq!(decide(&world, FAR, true), expected, "{version}");
    }
}

/// CPUs 0 and 1 run one task each; the queues have these loads, the wakee the last one.
fn weights(
    version: &str,
    loads: [u64; 3],
    waker_load: u64,
    change: fn(&mut Rules),
) -> (World, TaskId) {
    let mut world = World::with(version, 2, |rules| {
        rules.features.sis_util = false;
        change(rules);
    });
    let task = sleeper(&mut world, 1);
    busy(&mut world, [0, 1]);
    let kernel = &mut world.kernel;
    kernel.cfs_rqs[0].avg.load_avg = loads[0];
    kernel.cfs_rqs[1].avg.load_avg = loads[1];
    // Queued load, which versions before 5.5 look at.
    for (cpu, load) in [(0, loads[0]), (1, loads[1])] {
        let se = kernel.tasks[kernel.rqs[cpu].curr].se;
        kernel.entities[se].avg.load_avg = load;
    }
    if waker_load > 0 {
        let waker = kernel.tasks[kernel.rqs[0].curr].se;
        kernel.entities[waker].avg.load_avg = waker_load;
    }
    let se = kernel.tasks[task].se;
    kernel.entities[se].avg.load_avg = loads[2];
    (world, task)
}

#[test]
fn the_lighter_cpu_gets_the_wakee() {
    // Percentage of the LLC: 117, so the previous CPU's load counts 100 + 17/2 = 108 parts in 100.
    // The wakee's load is its part of the queue, 500 · 1800 / 1801, one less than set.
    for (loads, expected) in [
        // (700 + 499) · 100 = 119900 < (1800 − 499) · 108 = 140508.
        ([700, 1800, 500], 0),
        // (700 + 499) · 100 = 119900 > (1600 − 499) · 108 = 118908.
        ([700, 1600, 500], 1),
        // (45 + 9) · 100 = 5400 = (59 − 9) · 108: equal loads stay.
        ([45, 59, 10], 1),
    ] {
        for version in ["4.17", "5.4", "6.12", "6.18"] {
            let (mut world, task) = weights(version, loads, 0, |_| {});
            let found = wakeup(&mut world, 0, task, PLAIN).0;
            assert_eq!(found, expected, "{version} {loads:?}");
        }
    }
}

#[test]
fn equal_weights_move_up_to_4_16_and_later_in_sync_only() {
    // 602 + 199 = 1000 − 199 without WA_BIAS. In sync the waker's load leaves: give it none.
    for (version, (plain, sync)) in releases([("4.14 4.16", (0, 0)), ("4.17 5.10 6.18", (1, 0))]) {
        for (flags, expected) in [(PLAIN, plain), (SYNC, sync)] {
            let unbiased = |rules: &mut Rules| {
                rules.features.wa_bias = false;
                rules.features.wa_idle = false;
            };
            let (mut world, task) = weights(version, [602, 1000, 200], 0, unbiased);
            if flags.sync {
                let kernel = &mut world.kernel;
                let idle_waker = kernel.rqs[0].curr;
                // The queue keeps its load, the waker has none of it.
                busy(&mut world, [0]);
                let kernel = &mut world.kernel;
                let waker = kernel.tasks[idle_waker].se;
                let other = kernel.cfs_rqs[0].timeline.nodes()[0].entity;
                kernel.entities[waker].avg.load_avg = 0;
                kernel.entities[other].avg.load_avg = 602;
                kernel.cfs_rqs[0].avg.load_avg = 602;
            }
            let found = wakeup(&mut world, 0, task, flags).0;
            assert_eq!(found, expected, "{version} sync {}", flags.sync);
        }
    }
}

#[test]
fn a_waker_about_to_sleep_takes_its_load_with_it() {
    // Here 900 of which 799 are the waker's: (101 + 499) · 100 = 60000 < (1100 − 499) ·
    // 108 = 64908. Not in sync: (900 + 499) · 100 = 139900 > 64908.
    for (flags, expected) in [(SYNC, 0), (PLAIN, 1)] {
        let no_idle = |rules: &mut Rules| rules.features.wa_idle = false;
        let (mut world, task) = weights("6.12", [900, 1100, 500], 800, no_idle);
        assert_eq!(wakeup(&mut world, 0, task, flags).0, expected);
    }
}

#[test]
fn before_4_14_effective_loads_and_nodes_decide() {
    // ≤ 4.12 in the root group: plain weights. 100 · 1024 · (700 + 500) ≤ 108 · 1024 · 1300 (the
    // wakee left its old CPU when it fell asleep, so nothing is subtracted there).
    for (loads, expected) in [([700, 1300, 500], 0), ([700, 1100, 500], 1)] {
        let (mut world, task) = weights("4.12", loads, 0, |_| {});
        assert_eq!(wakeup(&mut world, 0, task, PLAIN).0, expected, "{loads:?}");
    }
    // 4.13: a shared cache is enough.
    let (mut world, task) = weights("4.13", [7000, 100, 500], 0, |_| {});
    assert_eq!(wakeup(&mut world, 0, task, PLAIN).0, 0);
    // Without one the nodes are compared: 4 CPUs each, loads 1000 and 3000, pct 125 → 112:
    // 100 · (1000 + 500) ≤ 112 · (3000 − 500), and not 100 · (3000 + 500) ≤ 112 · (1000 − 500).
    for (here, there, expected) in [(1000, 3000, 0), (3000, 1000, 4)] {
        let mut world = World::on(Topology::regular(2, 1, 4, 1), "4.13", |_| {});
        let task = sleeper(&mut world, FAR.0);
        busy(&mut world, 0..8);
        for cpu in 0..8 {
            let se = world.kernel.tasks[world.current(Cpu(cpu))].se;
            let load = if cpu < 4 { here } else { there } / 4;
            world.kernel.entities[se].avg.load_avg = load;
        }
        let se = world.kernel.tasks[task].se;
        world.kernel.entities[se].avg.load_avg = 500;
        assert_eq!(wakeup(&mut world, 0, task, PLAIN).0, expected);
    }
}

#[test]
fn a_waker_heavier_than_its_cpu_takes_the_wakee_in_sync() {
    // Load here 700, the waker's part of it 800 · 700 / 701 = 798: once it sleeps, less than
    // nothing is left. Not in sync (700 + 499) · 100 is more than (1000 − 499) · 108.
    for (flags, expected) in [(SYNC, 0), (PLAIN, 1)] {
        let (mut world, task) = weights("6.12", [700, 1000, 500], 800, |rules| {
            rules.features.wa_idle = false;
        });
        assert_eq!(wakeup(&mut world, 0, task, flags).0, expected);
    }
}

#[test]
fn without_wa_features_the_previous_cpu_stays() {
    let (mut world, task) = weights("6.12", [100, 9000, 500], 0, |rules| {
        (rules.features.wa_idle, rules.features.wa_weight) = (false, false);
    });
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 1);
}

#[test]
fn a_parent_woken_by_an_exit_is_not_woken_in_sync_from_4_17() {
    // The child on CPU 0 ends and wakes its parent, which slept on CPU 1, where a hog runs now. In
    // sync the child counts as gone; otherwise its load of 1000 and the parent's compare with the
    // hog's 1000: the previous CPU.
    for (version, expected) in [("4.16", 0), ("4.17", 1), ("6.12", 1)] {
        let (mut world, task) = weights(version, [1000, 1000, 100], 0, |_| {});
        let child = world.kernel.rqs[0].curr;
        world.kernel.tasks[child].exiting = true;
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
    }
}
