//! Small worlds: what balancing must achieve whatever the version.

use crate::balance::testing::Programs;
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns};
use crate::tests::world::releases;
use crate::topology::Topology;

const MS: Ns = 1_000_000;

/// One version of each regime.
const VERSIONS: [&str; 14] = [
    "4.5", "4.9", "4.12", "4.15", "4.19", "5.4", "5.5", "5.10", "5.15", "6.1", "6.6", "6.12",
    "6.15", "6.18",
];

#[test]
fn as_many_hogs_as_cpus_get_a_cpu_each() {
    for version in VERSIONS {
        let mut machine = Programs::on(Topology::flat(4), version);
        let hogs = [0; 4].map(|_| machine.hog(0, CpuSet::first(4)));
        machine.run_until(500 * MS);
        // However they started, after half a second no two tasks share a CPU any more.
        let mut cpus = hogs.map(|hog| machine.cpu_of(hog));
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3], "{version}");
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
            let mut machine = Programs::on(topology, version);
            let hogs = [0; 4].map(|_| machine.hog(0, CpuSet::of(Cpu(0))));
            machine.run_until(100 * MS);
            for hog in hogs {
                assert_eq!(machine.cpu_of(hog), 0, "{version}");
                let record = &mut machine.world.kernel.tasks[hog];
                record.affinity = CpuSet::first(4);
                record.nr_cpus_allowed = 4;
            }
            machine.run_until(1100 * MS);
            let mut cpus = hogs.map(|hog| machine.cpu_of(hog));
            cpus.sort_unstable();
            assert_eq!(cpus, [0, 1, 2, 3], "{version}");
        }
    }
}

#[test]
fn periodic_tasks_keep_running() {
    for version in VERSIONS {
        let mut machine = Programs::on(Topology::regular(1, 2, 2, 2), version);
        let run_ns = |n: u32| (1 + u64::from(n % 5)) * MS / 2;
        let tasks: Vec<_> = (0..24)
            .map(|n| machine.periodic(n % 8, run_ns(n), 3 * MS))
            .collect();
        machine.run_until(300 * MS);
        for task in tasks {
            assert!(
                machine.world.runtime(task) > 20 * MS,
                "{version}: {task:?} starved"
            );
        }
    }
}

/// CPUs 2 and 3 have no domain: nothing comes, and what is there stays, whatever its affinity.
#[test]
fn nothing_is_balanced_to_or_from_isolated_cpus() {
    for version in VERSIONS {
        let mut topology = Topology::flat(4);
        topology.isolated = [2, 3].map(Cpu).into_iter().collect();
        let mut machine = Programs::on(topology, version);
        let everywhere = CpuSet::first(4);
        let hogs = [0; 4].map(|_| machine.hog(0, everywhere));
        let sent = [2, 2].map(|cpu| {
            let hog = machine.hog(cpu, CpuSet::of(Cpu(cpu)));
            let record = &mut machine.world.kernel.tasks[hog];
            (record.affinity, record.nr_cpus_allowed) = (everywhere, 4);
            hog
        });
        machine.run_until(500 * MS);
        let mut cpus = hogs.map(|hog| machine.cpu_of(hog));
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 0, 1, 1], "{version}");
        assert_eq!(sent.map(|hog| machine.cpu_of(hog)), [2, 2], "{version}");
    }
}

/// Up to 7.0 a cache of four CPUs, two of them isolated, has intervals of 4 to 8 ms, and two CPUs
/// that are busy for good.
#[test]
fn isolated_cpus_count_in_intervals_and_as_busy_ones_until_7_0() {
    for (version, (weight, busy)) in releases([("5.10 6.18.32", (4, 2)), ("6.18.33 7.1", (2, 0))]) {
        let mut topology = Topology::flat(4);
        topology.isolated = [2, 3].map(Cpu).into_iter().collect();
        let machine = Programs::on(topology, version);
        let kernel = &machine.world.kernel;
        let row = kernel.domains.cpus[0].first;
        let domain = kernel.domains.domain(row);
        let intervals = (domain.min_interval, domain.max_interval);
        assert_eq!(intervals, (weight, 2 * weight), "{version}");
        assert_eq!(kernel.nr_busy_cpus(Cpu(0)), Some(busy), "{version}");
    }
}
