//! Placement by energy, by answers worked out on paper.
//!
//! CPUs 0–3 of capacity 446 have one clock, CPUs 4–7 of 1024 another. Costs per unit of
//! utilisation (6.9 on): little 10 · 50,000 / 223 = 2242 at 500 MHz and 10 · 200,000 / 446 = 4484
//! at 1000; big 10 · 400,000 / 512 = 7812 at 1000 MHz and 10 · 2,000,000 / 1024 = 19,531 at 2000.

use crate::balance::tests::capacity::big_little;
use crate::balance::tests::versions::highest;
use crate::balance::{CpuIdle, Env};
use crate::cpufreq::schedutil::Wanted;
use crate::cpufreq::{FrequencyDriver, FrequencyGovernor, OperatingPoint};
use crate::energy::{self, Off};
use crate::model::{Mark, take_reached};
use crate::select::WakeKind;
use crate::tests::world::*;
use crate::uclamp::{Clamps, Wish};

fn driver(governor: FrequencyGovernor) -> FrequencyDriver {
    let point = |khz, uw| OperatingPoint { khz, uw };
    FrequencyDriver {
        governor,
        policy_of: vec![0, 0, 0, 0, 1, 1, 1, 1],
        tables: vec![
            vec![point(500_000, 50_000), point(1_000_000, 200_000)],
            vec![point(1_000_000, 400_000), point(2_000_000, 2_000_000)],
        ],
        ..FrequencyDriver::default()
    }
}

fn world_with(version: &str, change: impl FnOnce(&mut Rules)) -> World {
    let mut world = World::on(big_little(), version, change);
    let driver = driver(FrequencyGovernor::Schedutil);
    world
        .kernel
        .register_frequency_driver(&mut world.bench, driver);
    world
}

/// A sleeping task of some utilisation whose last CPU is `cpu`, which has it in its average.
fn sleeper(world: &mut World, cpu: Cpu, util: u64) -> TaskId {
    let task = world.spawn(cpu);
    world.block(cpu);
    let record = &mut world.kernel.tasks[task];
    (record.affinity, record.nr_cpus_allowed) = (CpuSet::first(8), 8);
    (record.util_est, record.util_est_ewma) = (0, 0);
    let se = record.se;
    world.kernel.entities[se].avg.util_avg = util;
    world.kernel.entities[se].avg.runnable_avg = util;
    uses(world, cpu, util);
    task
}

/// Sets the averages of a CPU.
fn uses(world: &mut World, cpu: Cpu, util: u64) {
    let avg = &mut world.kernel.cfs_rqs[cpu].avg;
    (avg.util_avg, avg.runnable_avg) = (util, util);
}

/// The CPU that a wakeup from CPU 0 chooses, and the rules it came by.
fn woken(world: &mut World, task: TaskId) -> (u32, Vec<Mark>) {
    let flags = WakeFlags::new(false, Context::HardIrq);
    take_reached();
    let kernel = &mut world.kernel;
    let cpu = kernel.select_task_rq_fair(&mut world.bench, Cpu(0), task, WakeKind::Wakeup, flags);
    (cpu.0, take_reached())
}

#[test]
fn a_small_task_goes_from_a_big_cpu_to_a_little_one() {
    // 200 with the margin is 250: little at 1000 MHz, 200 · 4484 = 896,800; big at 1000 MHz,
    // 200 · 7812 = 1,562,400.
    for version in ["5.10", "5.14", "6.0", "6.12", "6.18", "7.3"] {
        let mut world = world_with(version, |_| {});
        let task = sleeper(&mut world, Cpu(4), 200);
        let (cpu, by) = woken(&mut world, task);
        assert_eq!(cpu, 0, "{version}");
        assert!(by.contains(&Mark::EnergyLess), "{version}");
    }
}

#[test]
fn a_kernel_that_is_told_not_to_places_as_without_a_model() {
    for (version, change) in [("5.9", None), ("6.12", Some("sched_energy_aware"))] {
        let mut world = world_with(version, |rules| rules.energy.aware = change.is_none());
        let task = sleeper(&mut world, Cpu(4), 200);
        let (_, by) = woken(&mut world, task);
        assert!(!by.contains(&Mark::EnergyLess), "{version}");
        assert!(by.contains(&Mark::TargetIdle) || by.contains(&Mark::CapacityFits));
    }
}

#[test]
fn a_task_that_fits_on_no_little_cpu_stays_on_its_big_one() {
    // 356 · 1280 is less than 446 · 1024, 357 · 1280 is not. On a little CPU 356 with the margin
    // is 445: 356 · 4484 = 1,596,304; on a big one at 1000 MHz 356 · 7812 = 2,781,072.
    for (util, expected, why) in [(356, 0, Mark::EnergyLess), (357, 4, Mark::EnergyPrev)] {
        let mut world = world_with("6.12", |_| {});
        let task = sleeper(&mut world, Cpu(4), util);
        let (cpu, by) = woken(&mut world, task);
        assert_eq!(cpu, expected, "{util}");
        assert!(by.contains(&why), "{util}");
    }
}

#[test]
fn what_raises_the_clock_of_all_little_cpus_is_worth_a_big_one() {
    // CPUs 0–3 use 170 each, which 500 MHz hold (212 of 223): 680 · 2242 = 1,524,560. With 20 more
    // on one of them (237) all of them run at 1000 MHz: 700 · 4484 = 3,138,800, so the price is
    // 1,614,240. On an idle big CPU it is 20 · 7812 = 156,240.
    let mut world = world_with("6.12", |_| {});
    for cpu in 0..4 {
        uses(&mut world, Cpu(cpu), 170);
    }
    let task = sleeper(&mut world, Cpu(5), 20);
    assert_eq!(woken(&mut world, task).0, 5);
    // At 150 each the clock stays: 170 with the margin is 212, and 20 · 2242 = 44,840 is less.
    for cpu in 0..4 {
        uses(&mut world, Cpu(cpu), 150);
    }
    assert_eq!(woken(&mut world, task).0, 0);
}

#[test]
fn up_to_5_19_the_task_moves_for_6_percent_of_all_energy_only() {
    // Costs of 5.19: little 1,000,000 · 50,000 / 500,000 = 100,000 per 446 at 500 MHz, big
    // 2,000,000 · 400,000 / 1,000,000 = 800,000 per 1024 at 1000 MHz. CPUs 5–7 use 300 each: 900 ·
    // 800,000 / 1024 = 703,125. The task of 20 on CPU 4 costs 920 · 800,000 / 1024 − 703,125 =
    // 15,625; on a little CPU 20 · 100,000 / 446 = 4484. It saves 11,141, less than
    // (15,625 + 703,125) / 16 = 44,921.
    for (version, expected) in releases([("5.10 5.14 5.19", 4), ("6.0 6.8", 0)]) {
        let mut world = world_with(version, |_| {});
        for cpu in 5..8 {
            uses(&mut world, Cpu(cpu), 300);
        }
        let task = sleeper(&mut world, Cpu(4), 20);
        assert_eq!(woken(&mut world, task).0, expected, "{version}");
    }
}

#[test]
fn a_domain_without_a_candidate_counts_for_the_margin_up_to_5_13() {
    // CPUs 0–3 use 360 each and have no room: 1440 · 200,000 / 446 = 645,739. CPU 4 uses 420, 20 of
    // which are the task's. 400 need 1000 MHz and 420 need 2000, here of 950 mW: the task costs 420
    // · 950,000 / 1024 − 400 · 800,000 / 1024 = 389,648 − 312,500 = 77,148 on CPU 4 and 15,625 on
    // CPU 5. It saves 61,523, more than (77,148 + 312,500) / 16 = 24,353 and less than with the
    // little CPUs, 64,711.
    for (version, expected) in [("5.13", 4), ("5.14", 5)] {
        let mut world = World::on(big_little(), version, |_| {});
        let mut driver = driver(FrequencyGovernor::Schedutil);
        driver.tables[1][1].uw = 950_000;
        world
            .kernel
            .register_frequency_driver(&mut world.bench, driver);
        for cpu in 0..4 {
            uses(&mut world, Cpu(cpu), 360);
        }
        let task = sleeper(&mut world, Cpu(4), 20);
        uses(&mut world, Cpu(4), 420);
        assert_eq!(woken(&mut world, task).0, expected, "{version}");
    }
}

#[test]
fn among_the_others_the_one_with_most_to_spare_is_the_candidate() {
    let mut world = world_with("6.12", |_| {});
    for (cpu, util) in [(0, 60), (1, 40), (2, 50), (3, 70)] {
        uses(&mut world, Cpu(cpu), util);
    }
    let task = sleeper(&mut world, Cpu(4), 20);
    assert_eq!(woken(&mut world, task).0, 1);
    // The previous CPU costs the same, and no other has more to spare.
    let mut world = world_with("6.12", |_| {});
    let task = sleeper(&mut world, Cpu(2), 20);
    let (cpu, by) = woken(&mut world, task);
    assert_eq!((cpu, by.contains(&Mark::EnergyPrev)), (2, true));
}

#[test]
fn a_task_without_utilisation_stays_where_it_was() {
    let mut world = world_with("6.12", |_| {});
    let task = sleeper(&mut world, Cpu(6), 0);
    let (cpu, by) = woken(&mut world, task);
    assert_eq!((cpu, by.contains(&Mark::EnergyNoUtil)), (6, true));
}

#[test]
fn a_least_utilisation_above_a_little_cpu_pushes_to_a_big_one() {
    for (min, expected) in [(446, 0), (447, 4)] {
        let mut world = world_with("6.12", |rules| rules.uclamp = true);
        let task = sleeper(&mut world, Cpu(0), 50);
        world.call(Cpu(0), |kernel, bench| {
            let wish = Clamps::new(Wish::Set(min), Wish::Keep);
            kernel.set_clamps(bench, Cpu(0), task, wish).unwrap();
        });
        assert_eq!(woken(&mut world, task).0, expected, "{min}");
    }
}

#[test]
fn an_overutilized_cpu_ends_placement_by_energy_until_balancing_finds_none() {
    let mut world = world_with("6.12", |_| {});
    let hog = world.spawn(Cpu(4));
    let task = sleeper(&mut world, Cpu(5), 50);
    // 819 · 1280 is less than 1024 · 1024, 820 · 1280 is not; a tick finds out.
    uses(&mut world, Cpu(4), 819);
    world.kernel.check_update_overutilized_status(Cpu(4));
    assert!(!world.kernel.energy.overutilized);
    assert_eq!(woken(&mut world, task).0, 0);
    uses(&mut world, Cpu(4), 820);
    world.kernel.task_tick_fair(&mut world.bench, hog);
    assert!(world.kernel.energy.overutilized);
    let (_, by) = woken(&mut world, task);
    assert!(!by.contains(&Mark::EnergyCompared));
    // The highest domain tells when it is over.
    uses(&mut world, Cpu(4), 100);
    let (mut env, _) = highest(&world, CpuIdle::Idle);
    world
        .kernel
        .update_sd_lb_stats(&mut world.bench, &mut env, 0);
    assert!(!world.kernel.energy.overutilized);
    assert_eq!(woken(&mut world, task).0, 0);
}

#[test]
fn a_new_task_makes_no_cpu_overutilized_and_one_that_wakes_does() {
    let mut world = world_with("6.12", |_| {});
    uses(&mut world, Cpu(0), 400);
    world.spawn(Cpu(0));
    assert!(!world.kernel.energy.overutilized);
    let mut world = world_with("6.12", |_| {});
    let task = sleeper(&mut world, Cpu(0), 300);
    world.kernel.tasks[task].affinity = CpuSet::of(Cpu(0));
    world.kernel.tasks[task].nr_cpus_allowed = 1;
    uses(&mut world, Cpu(0), 400);
    world.wake(Cpu(0), task);
    assert!(world.kernel.energy.overutilized);
}

#[test]
fn nothing_is_balanced_while_no_cpu_is_overutilized_but_misfits_from_6_3() {
    for (version, (moves, misfit_moves)) in releases([
        ("5.10 6.1", (false, false)),
        ("6.1.47 6.12 7.3", (false, true)),
    ]) {
        for misfit in [false, true] {
            // Three tasks on CPU 0, CPU 4 idles.
            let mut world = world_with(version, |_| {});
            for _ in 0..3 {
                world.spawn(Cpu(0));
            }
            uses(&mut world, Cpu(0), 50);
            world.kernel.rqs[0].misfit_task_load = u64::from(misfit) * 1024;
            let kernel = &mut world.kernel;
            let row = kernel.domains.rows(Cpu(4)).last().unwrap();
            let span = kernel.domains.domain(row).span;
            let mut env = Env::new(row, Cpu(4), CpuIdle::Idle, span, CpuSet::of(Cpu(4)));
            take_reached();
            let found = kernel.find_src_group(&mut world.bench, &mut env, 0);
            let expected = if misfit { misfit_moves } else { moves };
            assert_eq!(found.is_some(), expected, "{version} {misfit}");
            let stays = take_reached().contains(&Mark::EnergyStays);
            assert_eq!(stays, !expected, "{version} {misfit}");
        }
    }
}

#[test]
fn from_5_13_on_the_task_is_busy_beside_its_cpu() {
    // CPU 5 is used to 300, the task to 50 and by its estimate to 200. It asks for 350, so that
    // 1000 MHz will do, at 2,000,000 · 400,000 / 1,000,000 = 800,000 a unit.
    for (version, busy) in [("5.12", 300 + 50), ("5.13", 300 + 200)] {
        let mut world = world_with(version, |_| {});
        let task = sleeper(&mut world, Cpu(4), 50);
        world.kernel.tasks[task].util_est = 200;
        uses(&mut world, Cpu(5), 300);
        let energy = world.kernel.compute_energy(1, task, Cpu(4), Some(Cpu(5)));
        assert_eq!(energy, 800_000 * busy / 1024, "{version}");
    }
}

#[test]
fn an_isolated_cpu_overutilizes_only_itself() {
    for (isolated, expected) in [(None, true), (Some(Cpu(7)), false)] {
        let mut machine = big_little();
        machine.isolated = isolated.into_iter().collect();
        let mut world = World::on(machine, "6.12", |_| {});
        let driver = driver(FrequencyGovernor::Schedutil);
        world
            .kernel
            .register_frequency_driver(&mut world.bench, driver);
        uses(&mut world, Cpu(7), 1024);
        world.kernel.check_update_overutilized_status(Cpu(7));
        assert_eq!(world.kernel.energy.overutilized, expected, "{isolated:?}");
    }
}

#[test]
fn a_clock_without_power_beside_one_with_it_passes_over_nothing() {
    let mut driver = driver(FrequencyGovernor::Schedutil);
    let khz = [200_000, 400_000, 600_000, 800_000, 1_000_000];
    driver.tables[0] = khz.map(|khz| OperatingPoint { khz, uw: 0 }).to_vec();
    let table = driver.tables[0].clone();
    let mut world = World::on(big_little(), "6.12", |_| {});
    world
        .kernel
        .register_frequency_driver(&mut world.bench, driver);
    let kernel = &world.kernel;
    for (util, row) in [(90, 1), (446, 4)] {
        let wanted = (Wanted::of(util, true), 446);
        let found = kernel.energy.wanted_state(0, &table, wanted, &kernel.rules);
        assert_eq!(found, row, "{util}");
    }
}

#[test]
fn conditions_of_the_kernel_are_named_in_their_order() {
    let rules = |version: &str| {
        let choice = crate::rules::KernelChoice::released(version.parse().unwrap(), 8);
        Rules::resolve(&choice).unwrap()
    };
    let schedutil = driver(FrequencyGovernor::Schedutil);
    let off = |version: &str, topology: &Topology, driver: &FrequencyDriver| {
        energy::is_possible(&rules(version), topology, Some(driver)).err()
    };
    let machine = big_little();
    assert_eq!(off("6.12", &machine, &schedutil), None);
    assert_eq!(off("5.9", &machine, &schedutil), Some(Off::Unknown));
    assert_eq!(
        off("6.12", &Topology::flat(8), &schedutil),
        Some(Off::EqualCapacities)
    );
    let mut isolated = machine.clone();
    isolated.isolated = (4..8).map(Cpu).collect();
    assert_eq!(
        off("6.12", &isolated, &schedutil),
        Some(Off::EqualCapacities)
    );
    let mut unaware = rules("6.12");
    unaware.balance.unequal_capacities = false;
    assert_eq!(
        energy::is_possible(&unaware, &machine, Some(&schedutil)),
        Err(Off::EqualCapacities)
    );
    let threads = Topology {
        capacities: machine.capacities.clone(),
        ..Topology::regular(1, 1, 4, 2)
    };
    assert_eq!(off("6.12", &threads, &schedutil), Some(Off::Threads));
    let performance = driver(FrequencyGovernor::Performance);
    assert_eq!(off("6.12", &machine, &performance), Some(Off::NotSchedutil));
    let mut powerless = schedutil.clone();
    powerless.tables[1][0].uw = 0;
    assert_eq!(off("6.12", &machine, &powerless), Some(Off::NoPower));
    powerless.tables[1][0].uw = 999;
    assert_eq!(off("5.19", &machine, &powerless), Some(Off::NoPower));
    assert_eq!(off("6.0", &machine, &powerless), None);
    // 2 · (1016 + 8) is the most.
    let mut large = schedutil;
    large.tables[0] = vec![large.tables[0][0]; 1014];
    assert_eq!(off("6.6", &machine, &large), None);
    let another = large.tables[1][0];
    large.tables[0].push(another);
    assert_eq!(off("6.6", &machine, &large), Some(Off::TooComplex));
    assert_eq!(off("6.7", &machine, &large), None);
}

#[test]
fn schedutil_asks_for_the_first_row_of_the_table_that_is_fast_enough() {
    let mut world = world_with("6.12", |_| {});
    // At the first frequency load tracking counts half.
    assert_eq!(world.kernel.rqs[0].freq_scale, 512);
    assert_eq!(world.kernel.rqs[4].freq_scale, 512);
    world.spawn(Cpu(0));
    world.advance(200 * MS);
    assert_eq!(world.kernel.requested_pstate(Cpu(0)), Some(1));
    assert_eq!(world.kernel.requested_pstate(Cpu(3)), Some(1));
    assert_eq!(world.kernel.requested_pstate(Cpu(4)), Some(0));
    assert_eq!(world.kernel.rqs[3].freq_scale, 1024);
}
