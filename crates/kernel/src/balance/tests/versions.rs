//! Changes from version to version, by answers computed by hand.

use crate::balance::averages::is_out_of_balance_by_load;
use crate::balance::busiest::{Candidate, DomainStats, is_busier};
use crate::balance::{CpuIdle, Domains, Env, GroupStats, GroupType, Migration};
use crate::tests::world::*;

/// A pass of CPU 0 over its highest domain, and the row of the other group there.
pub(crate) fn highest(world: &World, idle: CpuIdle) -> (Env, u32) {
    let domains = &world.kernel.domains;
    let row = domains.rows(Cpu(0)).last().unwrap();
    let span = domains.domain(row).span;
    let env = Env::new(row, Cpu(0), idle, span, CpuSet::of(Cpu(0)));
    (env, domains.group_row(row, 1))
}

/// Two LLCs of two CPUs; `(load, util, runnable, tasks)` of CPUs 2 and 3.
fn two_llcs(version: &str, cpus: [(u64, u64, u64, u32); 2]) -> World {
    let mut world = World::on(Topology::regular(1, 2, 2, 1), version, |_| {});
    for (cpu, (load, util, runnable, tasks)) in (2..).zip(cpus) {
        let cfs_rq = &mut world.kernel.cfs_rqs[cpu];
        cfs_rq.avg.load_avg = load;
        cfs_rq.avg.util_avg = util;
        cfs_rq.avg.runnable_avg = runnable;
        cfs_rq.h_nr_queued = tasks;
        cfs_rq.h_nr_runnable = tasks;
        world.kernel.rqs[cpu].nr_running = tasks;
    }
    world
}

#[test]
fn a_newly_idle_cpu_of_a_preemptible_kernel_takes_one_task() {
    // CPU 0 has six hogs, CPU 1 becomes idle: (6 − 0) / 2 = 3 tasks are too many there.
    for (config_preemption, taken) in [(false, 3), (true, 1)] {
        let mut world = World::with("6.12", 2, |rules| {
            rules.config_preemption = config_preemption;
        });
        for _ in 0..6 {
            world.spawn(Cpu(0));
        }
        world.spawn(Cpu(1));
        world.advance(100 * MS);
        for record in &mut world.kernel.tasks {
            if record.cpu == Cpu(0) && record.policy.is_fair() {
                record.affinity = CpuSet::first(2);
                record.nr_cpus_allowed = 2;
            }
        }
        world.block(Cpu(1));
        assert_eq!(world.kernel.rqs[1].nr_running, taken);
    }
}

#[test]
fn waiting_counts_in_the_search_for_utilisation_from_6_5() {
    // CPU 2 is used to 600, and to 1000 with those who wait; CPU 3 to 700, no task waits for long.
    for (version, expected) in [("6.4", 3), ("6.5", 2), ("6.18", 2)] {
        let world = two_llcs(version, [(900, 600, 1000, 2), (900, 700, 700, 2)]);
        let (mut env, group) = highest(&world, CpuIdle::Idle);
        env.migration = Migration::Util;
        let found = world.kernel.find_src_rq(&env, group);
        assert_eq!(found, Some(Cpu(expected)), "{version}");
    }
}

#[test]
fn a_queue_without_tasks_is_no_source_from_5_12() {
    // CPU 2 idles with more blocked load than CPU 3 has with its two tasks.
    for (version, expected) in [("5.5", 2), ("5.11", 2), ("5.12", 3), ("6.12", 3)] {
        let world = two_llcs(version, [(900, 0, 0, 0), (800, 700, 700, 2)]);
        let (mut env, group) = highest(&world, CpuIdle::Idle);
        env.migration = Migration::Load;
        env.imbalance = 100;
        let found = world.kernel.find_src_rq(&env, group);
        assert_eq!(found, Some(Cpu(expected)), "{version}");
    }
}

#[test]
fn waiting_makes_a_group_overloaded_from_5_7() {
    // Three tasks on two CPUs of 1024 use 1000, but 3000 run or wait: 2048 · 125 = 256000 < 300000.
    for (version, expected) in releases([
        ("5.5 5.6", GroupType::HasSpare),
        ("5.7 6.12", GroupType::Overloaded),
    ]) {
        let mut world = two_llcs(version, [(900, 500, 1500, 2), (900, 500, 1500, 1)]);
        let (mut env, group) = highest(&world, CpuIdle::Idle);
        let kernel = &mut world.kernel;
        let stats = kernel.update_sg_lb_stats(&mut world.bench, &mut env, group, false, &mut false);
        assert_eq!(stats.group_type, expected, "{version}");
    }
}

#[test]
fn within_a_cache_tasks_are_counted_from_5_10() {
    // An idle CPU used to 100 and one with five tasks: 1024 − 100 of utilisation, or (5 − 0) / 2
    // tasks.
    for (version, (migration, amount)) in releases([
        ("5.5 5.9", (Migration::Util, 924)),
        ("5.10 6.12", (Migration::Task, 2)),
    ]) {
        let world = World::new(version, 2);
        let (env, group) = highest(&world, CpuIdle::Idle);
        let of = |group, group_type, util, nr_running| Candidate {
            group,
            stats: GroupStats {
                group_type,
                util,
                nr_running,
                h_nr_running: nr_running,
                capacity: 1024,
                weight: 1,
                ..GroupStats::default()
            },
        };
        let local = world.kernel.domains.group_row(env.domain, 0);
        let busiest = of(group, GroupType::Overloaded, 1000, 5);
        let mut stats = DomainStats {
            local: of(local, GroupType::HasSpare, 100, 0),
            busiest: Some(busiest),
            total_capacity: 2048,
            ..DomainStats::default()
        };
        let imbalance = world.kernel.calculate_imbalance(&env, &mut stats, &busiest);
        assert_eq!(imbalance, (amount, migration), "{version}");
    }
}

#[test]
fn idle_cpus_are_subtracted_without_a_sign() {
    // One idle CPU here and three of an overloaded group: 2^32 - 2, halved.
    for version in ["5.10", "6.1", "6.12", "7.3"] {
        let world = World::new(version, 2);
        let (env, group) = highest(&world, CpuIdle::Idle);
        let of = |group, group_type, idle_cpus| Candidate {
            group,
            stats: GroupStats {
                group_type,
                idle_cpus,
                nr_running: 5,
                h_nr_running: 5,
                capacity: 4096,
                weight: 4,
                ..GroupStats::default()
            },
        };
        let busiest = of(group, GroupType::Overloaded, 3);
        let local = world.kernel.domains.group_row(env.domain, 0);
        let mut stats = DomainStats {
            local: of(local, GroupType::HasSpare, 1),
            busiest: Some(busiest),
            total_capacity: 8192,
            ..DomainStats::default()
        };
        let imbalance = world.kernel.calculate_imbalance(&env, &mut stats, &busiest);
        assert_eq!(imbalance.0, 0x7fff_ffff, "{version}");
    }
}

#[test]
fn siblings_of_the_busiest_group_decide_from_6_5_on() {
    let rule = |version: &str| {
        Rules::of_one_cpu(version.parse().unwrap())
            .balance
            .prefer_sibling_of_busiest
    };
    assert!(!rule("6.4") && rule("6.5"));
}

#[test]
fn of_equal_misfit_groups_the_last_was_the_busiest_up_to_6_8() {
    for (version, replaces) in releases([("5.10 6.8", true), ("6.9 7.3", false)]) {
        let world = World::new(version, 2);
        let misfit = |misfit_load| GroupStats {
            group_type: GroupType::MisfitTask,
            misfit_load,
            ..GroupStats::default()
        };
        let (_, group) = highest(&world, CpuIdle::Idle);
        let flags = &world.kernel.domains.groups[group as usize].flags;
        let busier = |new, old| {
            let rules = &world.kernel.rules.balance;
            is_busier(&misfit(new), flags, &misfit(old), flags, rules)
        };
        assert_eq!(busier(300, 300), replaces, "{version}");
        assert!(busier(301, 300) && !busier(299, 300), "{version}");
    }
}

#[test]
fn a_node_with_one_cache_may_have_a_quarter_more_before_6_0_and_an_eighth_later() {
    for (version, allowed) in [("5.18", 4), ("5.19", 4), ("6.0", 2), ("6.18", 2)] {
        let rules = Rules::of(version.parse().unwrap(), 32, 250);
        let domains = Domains::new(&Topology::regular(2, 1, 16, 1), &rules);
        let highest = domains.of(Cpu(0)).last().unwrap();
        assert_eq!(highest.imb_numa_nr, allowed, "{version}");
    }
}

#[test]
fn siblings_compare_their_tasks_from_4_12() {
    // Cores {0, 2} with one hog and {1, 3} with two. Idle CPU 0 pulls the second before 4.12,
    // whereupon CPU 1 or 3 would pull it back.
    for (version, pulls) in releases([("4.5 4.11", true), ("4.12 4.14", false)]) {
        let mut world = World::on(Topology::regular(1, 1, 2, 2), version, |_| {});
        for cpu in [1, 2, 3] {
            world.spawn(Cpu(cpu));
        }
        world.advance(100 * MS);
        let (mut env, _) = highest(&world, CpuIdle::Idle);
        let kernel = &mut world.kernel;
        let group = kernel.find_busiest_group_by_load(&mut world.bench, &mut env, 100);
        assert_eq!(group.is_some(), pulls, "{version}");
    }
}

#[test]
fn idle_cpus_pull_from_lighter_groups_without_capacity_from_4_15() {
    let rule = |version: &str| {
        Rules::of_one_cpu(version.parse().unwrap())
            .balance
            .idle_forces_balance
    };
    assert!(!rule("4.14") && rule("4.15"));
    // One heavy task here, two light ones that do not fit on the CPU there.
    let local = GroupStats {
        avg_load: 2000,
        nr_running: 1,
        weight: 2,
        ..GroupStats::default()
    };
    let busiest = GroupStats {
        avg_load: 1000,
        nr_running: 2,
        weight: 1,
        no_capacity: true,
        group_type: GroupType::Overloaded,
        ..GroupStats::default()
    };
    let stats = DomainStats {
        local: Candidate::new(0, local),
        total_capacity: 1,
        avg_load: 1500,
        ..DomainStats::default()
    };
    for forces in [false, true] {
        let pulls = is_out_of_balance_by_load(CpuIdle::Idle, forces, &stats, &busiest, 117);
        assert_eq!(pulls, forces);
    }
}

#[test]
fn an_imbalance_of_nothing_is_balance_from_4_20() {
    // CPU 0 has two hogs, CPU 1 one, whose group is marked for pinned tasks. Moving one of loads
    // 1024 would leave 1024 of the 2048 that are served now: nothing is to be moved.
    for (version, goes_on) in releases([("4.5 4.19", true), ("4.20 5.4", false)]) {
        let mut world = World::new(version, 2);
        for cpu in [0, 0, 1] {
            world.spawn(Cpu(cpu));
        }
        world.advance(500 * MS);
        let (mut env, group) = highest(&world, CpuIdle::NotIdle);
        let kernel = &mut world.kernel;
        let row = kernel.domains.groups[group as usize].capacity;
        kernel.domains.capacities[row as usize].imbalance = true;
        let found = kernel.find_busiest_group_by_load(&mut world.bench, &mut env, 500);
        assert_eq!(env.imbalance, 0, "{version}");
        assert_eq!(found.is_some(), goes_on, "{version}");
    }
}
