//! Small worlds: what balancing must achieve whatever the version.

use crate::balance::testing::{World, v};
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns};
use crate::rules::Version;
use crate::topology::Topology;

const MS: Ns = 1_000_000;

/// One version of each regime.
const VERSIONS: [Version; 14] = [
    v(4, 5),
    v(4, 9),
    v(4, 12),
    v(4, 15),
    v(4, 19),
    v(5, 4),
    v(5, 5),
    v(5, 10),
    v(5, 15),
    v(6, 1),
    v(6, 6),
    v(6, 12),
    v(6, 15),
    v(6, 18),
];

/// The bit sets searches rely on agree with the run queues.
fn check_idle_sets(world: &World) {
    let kernel = &world.kernel;
    for cpu in (0..kernel.cpus()).map(Cpu::from) {
        assert_eq!(
            kernel.domains.idle.contains(cpu),
            kernel.available_idle_cpu(cpu),
            "{cpu:?}"
        );
        assert_eq!(
            kernel.domains.sched_idle.contains(cpu),
            kernel.sched_idle_cpu(cpu),
            "{cpu:?}"
        );
        let smt = &kernel.domains.cpus[cpu.index()].smt;
        let core_idle = smt.iter().all(|cpu| kernel.available_idle_cpu(cpu));
        assert_eq!(
            kernel.domains.idle_cores.contains(cpu),
            core_idle,
            "{cpu:?}"
        );
    }
}

#[test]
fn as_many_hogs_as_cpus_get_a_cpu_each() {
    for version in VERSIONS {
        let mut world = World::new(Topology::flat(4), version, 250);
        let hogs = [0; 4].map(|_| world.hog(0));
        world.run_until(1000 * MS, check_idle_sets);
        // However they started, after half a second nobody shares a CPU any more.
        let mut cpus = hogs.map(|hog| world.cpu_of(hog));
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3], "{version:?}");
    }
}

#[test]
fn hogs_bound_to_one_cpu_spread_when_released() {
    for version in VERSIONS {
        for topology in [
            Topology::flat(4),
            Topology::regular(1, 1, 2, 2),
            Topology::regular(2, 1, 2, 1),
        ] {
            let mut world = World::new(topology, version, 250);
            let hogs = [0; 4].map(|_| world.start(0, CpuSet::of(Cpu(0)), Ns::MAX / 4, 0));
            world.run_until(100 * MS, check_idle_sets);
            for hog in hogs {
                assert_eq!(world.cpu_of(hog), 0, "{version:?}");
                world.kernel.tasks[hog.index()].affinity = CpuSet::first(4);
                world.kernel.tasks[hog.index()].nr_cpus_allowed = 4;
            }
            world.run_until(1100 * MS, check_idle_sets);
            let mut cpus = hogs.map(|hog| world.cpu_of(hog));
            cpus.sort_unstable();
            assert_eq!(cpus, [0, 1, 2, 3], "{version:?}");
        }
    }
}

#[test]
fn periodic_tasks_keep_running_and_sets_stay_true() {
    for version in VERSIONS {
        let mut world = World::new(Topology::regular(1, 2, 2, 2), version, 1000);
        let tasks: Vec<_> = (0..24)
            .map(|n| {
                world.start(
                    n % 8,
                    CpuSet::first(8),
                    (1 + u64::from(n % 5)) * MS / 2,
                    3 * MS,
                )
            })
            .collect();
        world.run_until(300 * MS, check_idle_sets);
        for task in tasks {
            assert!(world.ran_ns[&task] > 20 * MS, "{version:?}: starved");
        }
    }
}
