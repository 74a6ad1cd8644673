//! `select_idle_sibling`: candidates before the scan.

use super::{
    PLAIN, SYNC, allow, busy, busy_with_idle_policy, busy_with_kernel_thread, sleeper, wakeup,
};
use crate::tests::world::*;

/// No scan limits.
fn unlimited(topology: Topology, version: &str) -> World {
    World::on(topology, version, |rules| {
        rules.features.sis_util = false;
        rules.features.sis_prop = false;
        rules.features.sis_avg_cpu = false;
    })
}

#[test]
fn target_then_previous_cpu_then_a_scan() {
    for version in ["4.5", "4.15", "5.10", "6.1", "6.18"] {
        let sleeping_on_3 = |busy_cpus: &[u32]| {
            let mut world = unlimited(Topology::flat(4), version);
            let task = sleeper(&mut world, 3);
            busy(&mut world, busy_cpus.iter().copied());
            (world, task)
        };
        // The waker's CPU becomes the target in sync; it is busy with the waker, CPU 3 is idle.
        let (mut world, task) = sleeping_on_3(&[0]);
        assert_eq!(wakeup(&mut world, 0, task, SYNC), (3, 0), "{version}");
        // CPU 3 is busy too: an idle CPU of the cache.
        let (mut world, task) = sleeping_on_3(&[0, 1, 3]);
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 2, "{version}");
        // No CPU is idle: the target.
        let (mut world, task) = sleeping_on_3(&[0, 1, 2, 3]);
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 0, "{version}");
    }
}

#[test]
fn a_previous_cpu_of_another_cache_does_not_count() {
    for version in ["4.15", "5.10", "6.1", "6.18"] {
        let mut world = unlimited(Topology::regular(1, 2, 2, 1), version);
        // Caches {0,1} and {2,3}. In sync CPU 0 is the target; idle CPU 2 is not near it.
        let task = sleeper(&mut world, 2);
        busy(&mut world, [0]);
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 1, "{version}");
    }
}

/// A task that last ran on CPU 3 and before that on CPU 5; CPU 1 is to be the target.
fn recent(version: &str, busy_cpus: &[u32]) -> (World, TaskId) {
    let mut world = unlimited(Topology::regular(1, 2, 8, 1), version);
    let task = sleeper(&mut world, 3);
    busy(&mut world, busy_cpus.iter().copied());
    world.kernel.tasks[task].recent_used_cpu = Cpu(5);
    (world, task)
}

/// Answer and what is remembered.
fn ask(world: &mut World, task: TaskId, prev: u32, target: u32) -> (Option<u32>, u32) {
    let found = world.kernel.recent_used_cpu(task, Cpu(prev), Cpu(target));
    let kept = world.kernel.tasks[task].recent_used_cpu;
    (found.map(|cpu| cpu.0), kept.0)
}

#[test]
fn the_recent_cpu_is_remembered_by_version() {
    // Columns: hit | busy | forbidden (CPUs 0–4 allowed) | previous CPU forbidden (4–7 allowed).
    let versions = [
        ("4.15", [(None, 5); 4]),
        // Kept unless hit.
        ("4.16", [(Some(5), 3), (None, 5), (None, 5), (Some(5), 3)]),
        ("5.14", [(Some(5), 3), (None, 5), (None, 5), (Some(5), 3)]),
        // Always the previous CPU, whose affinity is tested by mistake.
        ("5.15", [(Some(5), 3), (None, 3), (Some(5), 3), (None, 3)]),
        ("6.1", [(Some(5), 3), (None, 3), (Some(5), 3), (None, 3)]),
        ("6.4", [(Some(5), 3), (None, 3), (Some(5), 3), (None, 3)]),
        // Right again.
        ("6.1.42", [(Some(5), 3), (None, 3), (None, 3), (Some(5), 3)]),
        ("6.5", [(Some(5), 3), (None, 3), (None, 3), (Some(5), 3)]),
        ("6.18", [(Some(5), 3), (None, 3), (None, 3), (Some(5), 3)]),
    ];
    for (version, expected) in versions {
        let low = CpuSet::first(5);
        let high: CpuSet = (4..8).map(Cpu).collect();
        let cases = [
            (&[0, 1][..], None),
            (&[0, 1, 5], None),
            (&[0, 1], Some(low)),
            (&[0, 1], Some(high)),
        ];
        let found = cases.map(|(busy_cpus, affinity)| {
            let (mut world, task) = recent(version, busy_cpus);
            if let Some(affinity) = affinity {
                allow(&mut world, task, affinity);
            }
            ask(&mut world, task, 3, 1)
        });
        assert_eq!(found, expected, "{version}");
    }
}

#[test]
fn the_recent_cpu_must_be_another_one_near_the_target() {
    for version in ["4.16", "5.13", "6.18"] {
        let answer = |prev, target| {
            let (mut world, task) = recent(version, &[0, 1]);
            ask(&mut world, task, prev, target).0
        };
        assert_eq!(answer(3, 1), Some(5), "{version}");
        assert_eq!(answer(5, 1), None, "{version}: the previous CPU");
        assert_eq!(answer(3, 5), None, "{version}: the target");
        assert_eq!(answer(3, 9), None, "{version}: another cache");
    }
}

#[test]
fn wakers_remember_their_cpu_from_4_16_to_5_14() {
    for (version, expected) in [("4.15", 7), ("4.16", 0), ("5.14", 0), ("5.15", 7)] {
        let (mut world, task) = recent(version, &[0, 3]);
        let waker = world.current(Cpu(0));
        world.kernel.tasks[waker].recent_used_cpu = Cpu(7);
        wakeup(&mut world, 0, task, PLAIN);
        let kept = world.kernel.tasks[waker].recent_used_cpu;
        assert_eq!(kept.0, expected, "{version}");
    }
}

#[test]
fn a_hit_ends_the_search() {
    for (version, expected) in [("4.15", 2), ("4.16", 5), ("5.12", 5), ("6.18", 5)] {
        // Target CPU 1 and previous CPU 3 are busy, CPUs 2, 4 and 5 idle.
        let (mut world, task) = recent(version, &[0, 1, 3]);
        assert_eq!(wakeup(&mut world, 1, task, SYNC).0, expected, "{version}");
    }
}

#[test]
fn kernel_threads_of_one_cpu_stack_their_wakee_from_5_6() {
    let from = |context| WakeFlags::new(false, context);
    // Interrupts do not sleep; whom they hit is not the waker (5.17 and stable).
    for (version, (by_task, by_interrupt)) in
        releases([("5.5", (2, 2)), ("5.6 5.16", (1, 1)), ("5.17 6.18", (1, 2))])
    {
        for (context, expected) in [(Context::Task, by_task), (Context::HardIrq, by_interrupt)] {
            let mut world = unlimited(Topology::flat(4), version);
            let task = sleeper(&mut world, 1);
            busy_with_kernel_thread(&mut world, 1);
            assert_eq!(
                wakeup(&mut world, 1, task, from(context)).0,
                expected,
                "{version} {context:?}"
            );
        }
        // Not from another CPU, not beside a second task, not by a thread that may go elsewhere.
        let mut world = unlimited(Topology::flat(4), version);
        let task = sleeper(&mut world, 1);
        busy_with_kernel_thread(&mut world, 0);
        busy(&mut world, [1]);
        assert_eq!(wakeup(&mut world, 0, task, PLAIN).0, 2, "{version}");
        let mut world = unlimited(Topology::flat(4), version);
        let task = sleeper(&mut world, 1);
        busy_with_kernel_thread(&mut world, 1);
        busy(&mut world, [1]);
        assert_eq!(wakeup(&mut world, 1, task, PLAIN).0, 2, "{version}");
        let mut world = unlimited(Topology::flat(4), version);
        let task = sleeper(&mut world, 1);
        let thread = busy_with_kernel_thread(&mut world, 1);
        allow(&mut world, thread, CpuSet::first(2));
        assert_eq!(wakeup(&mut world, 1, task, PLAIN).0, 2, "{version}");
    }
}

#[test]
fn cpus_with_idle_policy_tasks_only_are_idle_candidates_from_5_4() {
    for (version, previous, scan_with_idle, scan_without) in [
        ("5.3", 2, 2, 0),
        // The first candidates count as idle; scans remember them, but forget them when they reach
        // their end …
        ("5.4", 3, 2, 0),
        ("5.6", 3, 2, 0),
        // … or like any other idle CPU.
        ("5.7", 3, 1, 1),
        ("6.1", 3, 1, 1),
        ("6.18", 3, 1, 1),
    ] {
        // CPU 0 wakes in sync; the previous CPU 3 runs a SCHED_IDLE task.
        let mut world = unlimited(Topology::flat(4), version);
        let task = sleeper(&mut world, 3);
        busy(&mut world, [0, 1]);
        busy_with_idle_policy(&mut world, 3);
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, previous, "{version}");
        // Target and previous CPU are busy, CPU 1 runs a SCHED_IDLE task, CPU 2 is idle or busy.
        let mut world = unlimited(Topology::flat(4), version);
        let task = sleeper(&mut world, 3);
        busy(&mut world, [0, 3]);
        busy_with_idle_policy(&mut world, 1);
        let found = wakeup(&mut world, 0, task, SYNC).0;
        assert_eq!(found, scan_with_idle, "{version}");
        busy(&mut world, [2]);
        let found = wakeup(&mut world, 0, task, SYNC).0;
        assert_eq!(found, scan_without, "{version}");
    }
}

#[test]
fn a_scan_that_gives_up_takes_the_idle_policy_cpu_it_met_from_5_4() {
    // CPU 0 never idles, so a scan of 6 CPUs looks at three: 0, 1 with a SCHED_IDLE task, 2. CPU 3
    // is idle.
    for (version, expected) in [("5.3", 0), ("5.4", 1), ("5.6", 1), ("5.7", 1)] {
        let mut world = World::new(version, 6);
        let task = sleeper(&mut world, 5);
        busy(&mut world, [0, 2, 5]);
        busy_with_idle_policy(&mut world, 1);
        world.kernel.rqs[0].avg_idle = 0;
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
    }
}

#[test]
fn from_7_1_on_an_idle_policy_task_does_not_take_a_sched_idle_cpu() {
    // CPU 0, the target, runs a SCHED_IDLE hog, CPU 1 is idle: a SCHED_IDLE wakee stays up to 7.0
    // and moves from 7.1 on.
    for (version, policy, goes_to) in [
        ("7.0", Policy::Idle, 0),
        ("7.1", Policy::Idle, 1),
        ("7.1", Policy::Normal, 0),
    ] {
        let mut world = World::new(version, 4);
        let wakee = sleeper(&mut world, 0);
        busy_with_idle_policy(&mut world, 0);
        busy(&mut world, [2, 3]);
        world.kernel.tasks[wakee].policy = policy;
        assert_eq!(wakeup(&mut world, 0, wakee, PLAIN).0, goes_to, "{version}");
    }
}
