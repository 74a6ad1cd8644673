//! CPUs of unequal capacity, by hand-computed answers and by small worlds.

use super::versions::highest;
use crate::balance::{CpuIdle, GroupType};
use crate::tests::world::*;

/// CPUs 0–3 of capacity 446 share a cache, CPUs 4–7 of 1024 another.
pub(crate) fn big_little() -> Topology {
    Topology {
        capacities: vec![446, 446, 446, 446, 1024, 1024, 1024, 1024],
        ..Topology::regular(1, 2, 4, 1)
    }
}

/// One hog that may run anywhere on CPU 0 of four small CPUs, another on each of four large ones.
fn five_hogs(version: &str) -> (World, TaskId) {
    hogs_on(big_little(), version, [4, 5, 6, 7])
}

fn hogs_on(topology: Topology, version: &str, large: [u32; 4]) -> (World, TaskId) {
    let mut world = World::on(topology, version, |_| {});
    let hog = world.spawn(Cpu(0));
    let record = &mut world.kernel.tasks[hog];
    (record.affinity, record.nr_cpus_allowed) = (CpuSet::first(8), 8);
    for cpu in large {
        world.spawn(Cpu(cpu));
    }
    (world, hog)
}

#[test]
fn the_domain_that_has_both_capacities_is_marked() {
    for (version, marked, full, spreads) in [
        ("5.9", false, false, true),
        ("5.10", true, false, false),
        ("5.14", true, true, false),
        ("7.2", true, true, false),
        ("7.3", true, true, true),
    ] {
        let world = World::on(big_little(), version, |_| {});
        let [cache, package] = world.kernel.domains.of(Cpu(0)) else {
            panic!("a cache and a package");
        };
        assert!(!cache.flags.asym_cpucapacity, "{version}");
        let flags = &package.flags;
        let found = (flags.asym_cpucapacity, flags.asym_cpucapacity_full);
        assert_eq!(found, (marked, full), "{version}");
        assert_eq!(cache.flags.prefer_sibling, spreads, "{version}");
    }
}

#[test]
fn a_domain_without_one_of_three_capacities_has_not_all_of_them() {
    let topology = Topology {
        capacities: vec![446, 446, 446, 765, 1024, 1024, 1024, 1024],
        ..Topology::regular(1, 2, 4, 1)
    };
    let world = World::on(topology, "6.12", |_| {});
    let flags = |row: usize| world.kernel.domains.of(Cpu(0))[row].flags;
    assert!(flags(0).asym_cpucapacity && !flags(0).asym_cpucapacity_full);
    assert!(flags(1).asym_cpucapacity_full);
    assert_eq!(world.kernel.domains.cpus[0].asym, Some(1));
}

#[test]
fn a_hog_on_a_small_cpu_goes_to_a_large_one_as_soon_as_that_idles() {
    // Before 5.10 the model does not know of it: the hog stays.
    for (version, goes) in releases([("5.9", false), ("5.10 5.15 6.1 6.12 6.18 7.3", true)]) {
        let (mut world, hog) = five_hogs(version);
        world.advance(300 * MS);
        assert_eq!(world.kernel.tasks[hog].cpu, Cpu(0), "{version}");
        assert_eq!(world.kernel.rqs[0].misfit_task_load > 0, goes, "{version}");
        world.exit(Cpu(6));
        world.advance(20 * MS);
        let there = world.kernel.tasks[hog].cpu == Cpu(6);
        assert_eq!(there, goes, "{version}");
        assert_eq!(world.kernel.rqs[0].misfit_task_load, 0, "{version}");
    }
}

#[test]
fn a_thread_of_a_busy_core_pulls_a_misfit_up_to_6_12_110() {
    // Cores {0, 4} and {1, 5} of 446, {2, 6} and {3, 7} of 1024.
    for (version, goes) in releases([("6.12.110 7.1", true), ("6.12.111 7.2", false)]) {
        let topology = Topology {
            capacities: [446, 446, 1024, 1024].repeat(2),
            ..Topology::regular(1, 2, 2, 2)
        };
        let (mut world, hog) = hogs_on(topology, version, [2, 3, 6, 7]);
        world.advance(300 * MS);
        world.exit(Cpu(6));
        world.advance(20 * MS);
        let there = world.kernel.tasks[hog].cpu == Cpu(6);
        assert_eq!(there, goes, "{version}");
    }
}

#[test]
fn a_task_that_uses_less_than_80_percent_of_a_small_cpu_is_no_misfit() {
    for (util, misfit) in [(356, false), (357, true)] {
        let (mut world, hog) = five_hogs("6.12");
        let record = &mut world.kernel.tasks[hog];
        (record.util_est, record.util_est_ewma) = (0, 0);
        let se = record.se;
        world.kernel.entities[se].avg.util_avg = util;
        world.kernel.update_misfit_status(Cpu(0), Some(hog));
        assert_eq!(world.kernel.rqs[0].misfit_task_load > 0, misfit, "{util}");
    }
}

#[test]
fn a_task_bound_to_small_cpus_is_no_misfit_from_6_10() {
    for (version, misfit) in [("6.9", true), ("6.10", false)] {
        let (mut world, hog) = five_hogs(version);
        let record = &mut world.kernel.tasks[hog];
        (record.affinity, record.nr_cpus_allowed) = (CpuSet::first(4), 4);
        world.advance(300 * MS);
        let found = world.kernel.rqs[0].misfit_task_load > 0;
        assert_eq!(found, misfit, "{version}");
    }
}

#[test]
fn before_6_10_a_misfit_on_the_largest_cpu_of_the_machine_kicks_nobody() {
    for (version, kicks) in [("6.9", false), ("6.10", true)] {
        let mut world = World::on(big_little(), version, |_| {});
        world.kernel.rqs[4].misfit_task_load = 1024;
        world.kernel.rqs[0].misfit_task_load = 1024;
        let found = world.kernel.check_misfit_status(Cpu(4), 117);
        assert_eq!(found, kicks, "{version}");
        assert!(world.kernel.check_misfit_status(Cpu(0), 117), "{version}");
    }
}

#[test]
fn a_misfit_counts_for_a_small_cpu_until_7_2() {
    // CPU 0 and the group of CPUs 4–7, one of which runs a misfit task.
    for (version, expected) in [("7.2", GroupType::MisfitTask), ("7.3", GroupType::HasSpare)] {
        let mut world = World::on(big_little(), version, |_| {});
        world.spawn(Cpu(4));
        world.kernel.rqs[4].misfit_task_load = 1024;
        let (mut env, group) = highest(&world, CpuIdle::Idle);
        let mut overloaded = false;
        let stats = world.kernel.update_sg_lb_stats(
            &mut world.bench,
            &mut env,
            group,
            false,
            &mut overloaded,
        );
        assert_eq!(stats.group_type, expected, "{version}");
        assert!(overloaded, "{version}: newly idle CPUs are to look for it");
    }
}

#[test]
fn an_idle_small_cpu_leaves_the_only_task_of_a_large_one() {
    for version in ["5.10", "6.1", "6.12", "7.3"] {
        let mut world = World::on(big_little(), version, |_| {});
        world.spawn(Cpu(4));
        let (env, group) = highest(&world, CpuIdle::Idle);
        assert_eq!(world.kernel.find_src_rq(&env, group), None, "{version}");
    }
}

#[test]
fn a_cpu_has_a_capacity_of_1_left_at_least() {
    // Real-time tasks leave 1 of 1024, and interrupts a thousandth of that.
    let mut world = World::new("6.12", 2);
    let rq = &mut world.kernel.rqs[0];
    (rq.rt.avg.util_avg, rq.avg_irq.util_avg) = (1023, 1023);
    assert_eq!(world.kernel.scale_rt_capacity(Cpu(0)), 1);
}
