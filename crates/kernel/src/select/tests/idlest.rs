//! The slow path of fork and exec.

use super::{allow, busy, busy_with_idle_policy, sleeper};
use crate::balance::{GroupStats, GroupType};
use crate::select::WakeKind;
use crate::select::idlest::{Own, clearly_less_loaded, is_idler};
use crate::tests::world::*;

fn cpu_of(world: &World, task: TaskId) -> u32 {
    world.kernel.tasks[task].cpu.0
}

/// CPUs of tasks started one after another from CPU 0.
fn forks(topology: Topology, version: &str, tasks: usize) -> Vec<u32> {
    let mut world = World::on(topology, version, |_| {});
    (0..tasks)
        .map(|_| {
            let task = world.spawn_anywhere(Cpu(0));
            cpu_of(&world, task)
        })
        .collect()
}

#[test]
fn forks_spread_over_idle_cpus() {
    for version in [
        "4.5", "4.9", "4.10", "4.15", "4.19", "5.4", "5.5", "5.10", "6.1", "6.12", "6.18",
    ] {
        let mut cpus = forks(Topology::flat(4), version, 4);
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3], "{version}");
        // Two LLCs: still one each.
        let mut cpus = forks(Topology::regular(1, 2, 2, 1), version, 4);
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3], "{version}");
    }
}

#[test]
fn forks_take_cores_before_threads() {
    for version in ["5.5", "5.10", "6.1", "6.12", "6.18"] {
        // Threads n and n + 4: groups of the LLC are cores, the one with more idle threads wins.
        let mut cpus = forks(Topology::regular(1, 1, 4, 2), version, 4);
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3], "{version}");
    }
}

#[test]
fn forks_stay_in_their_node_as_long_as_the_version_allows() {
    // Two nodes of 16 CPUs with one LLC each: imb_numa_nr = 16 / 8 = 2. Nine forks from node 0.
    for (version, on_node_0) in [
        // While a local CPU is idle.
        ("5.5", 9),
        ("5.10", 9),
        // While fewer than a quarter of both nodes' 32 CPUs run tasks: 8.
        ("5.11", 8),
        ("5.17", 8),
        // Four, a quarter of the node, then by idle CPUs: 12 against 16, 15, 14 and 13, then 12
        // (stays).
        ("5.18", 5),
        // Two, then by idle CPUs: 14 against 16 and 15, 14 against 14 (stays), and so on in turn:
        // node 0 gets the 1st 2nd 5th 7th 9th.
        ("6.0", 5),
        ("6.18", 5),
    ] {
        let cpus = forks(Topology::regular(2, 1, 16, 1), version, 9);
        let local = cpus.iter().filter(|cpu| **cpu < 16).count();
        assert_eq!(local, on_node_0, "{version}: {cpus:?}");
    }
}

#[test]
fn the_allowance_at_fork_is_at_most_the_allowed_cpus_from_6_0() {
    // Only CPU 0 of node 0 is allowed; imb_numa_nr is 4, from 6.0 on 2. The first task runs there.
    // The second: with the plain limit 1 running < 2 stays and shares CPU 0; with the limit of 1
    // CPU it goes.
    for (version, expected) in [("5.18", 0), ("5.19", 0), ("6.0", 16), ("6.12", 16)] {
        let mut world = World::on(Topology::regular(2, 1, 16, 1), version, |_| {});
        busy(&mut world, [0]);
        let task = sleeper(&mut world, 1);
        let affinity: CpuSet = std::iter::once(0).chain(16..32).map(Cpu).collect();
        allow(&mut world, task, affinity);
        world.kernel.set_task_cpu(&mut world.bench, task, Cpu(0));
        let found = place(&mut world, 0, task, WakeKind::Fork);
        assert_eq!(found, expected, "{version}");
    }
}

fn place(world: &mut World, cpu: u32, task: TaskId, kind: WakeKind) -> u32 {
    let flags = WakeFlags::new(false, Context::Task);
    world.kernel.here = Cpu(cpu);
    let chosen = world
        .kernel
        .select_task_rq_fair(&mut world.bench, Cpu(cpu), task, kind, flags);
    chosen.0
}

#[test]
fn nodes_too_far_apart_take_no_forks() {
    let far = |distance| {
        let mut topology = Topology::regular(2, 1, 2, 1);
        topology.reclaim_distance = 32;
        topology.distances = vec![vec![10, distance], vec![distance, 10]];
        topology
    };
    // Node 0 runs two tasks, node 1 none. Up to 5.3 the limit is 30, whatever the machine asks for.
    for (version, distance, expected) in [
        ("4.15", 31, [0, 1]),
        ("4.15", 30, [2, 3]),
        ("6.12", 33, [0, 1]),
        ("6.12", 32, [2, 3]),
    ] {
        let mut world = World::on(far(distance), version, |_| {});
        busy(&mut world, [0, 1]);
        world.advance(5 * MS);
        let task = world.spawn_anywhere(Cpu(0));
        assert!(
            expected.contains(&cpu_of(&world, task)),
            "{version}, distance {distance}"
        );
    }
}

#[test]
fn inside_a_group_the_cpu_that_wakes_soonest_wins() {
    // LLCs {0–3} and {4–7}, two CPUs of the first are busy. In the second all are idle.
    for version in ["5.5", "5.10", "6.1", "6.18"] {
        let two_caches = || {
            let mut world = World::on(Topology::regular(1, 2, 4, 1), version, |_| {});
            busy(&mut world, [0, 1]);
            world.advance(5 * MS);
            world
        };
        // CPU 6 is in the shallowest state.
        let mut world = two_caches();
        for (cpu, latency_ns) in [(4, 100_000), (5, 50_000), (6, 2_000), (7, 50_000)] {
            world.kernel.note_idle_latency(Cpu(cpu), Some(latency_ns));
        }
        let task = world.spawn_anywhere(Cpu(0));
        assert_eq!(cpu_of(&world, task), 6, "{version}");
        // Same state: CPU 5 went idle last.
        let mut world = two_caches();
        for cpu in [4, 7, 5] {
            busy(&mut world, [cpu]);
            world.advance(MS);
            world.exit(Cpu(cpu));
        }
        for cpu in 4..8 {
            world.kernel.note_idle_latency(Cpu(cpu), Some(1_000));
        }
        let task = world.spawn_anywhere(Cpu(0));
        assert_eq!(cpu_of(&world, task), 5, "{version}");
    }
}

#[test]
fn cpus_with_idle_policy_tasks_are_taken_at_once_from_5_7_and_last_before() {
    // LLCs {0–3} and {4–7}; the first is full, in the second CPU 4 runs a SCHED_IDLE task.
    for (version, expected) in [("5.5", 5), ("5.6", 5), ("5.7", 4), ("6.12", 4)] {
        let mut world = World::on(Topology::regular(1, 2, 4, 1), version, |_| {});
        busy(&mut world, 0..4);
        busy_with_idle_policy(&mut world, 4);
        world.advance(5 * MS);
        for cpu in 5..8 {
            let latency_ns = if cpu == 5 { 1_000 } else { 9_000 };
            world.kernel.note_idle_latency(Cpu(cpu), Some(latency_ns));
        }
        let row = world.kernel.domains.of(Cpu(4))[0].parent.unwrap();
        let group = world.kernel.domains.group_row(row, 0);
        let task = sleeper(&mut world, 7);
        let found = world
            .kernel
            .find_idlest_group_cpu(&mut world.bench, group, task, Cpu(0));
        assert_eq!(found.0, expected, "{version}");
    }
}

#[test]
fn exec_leaves_the_task_itself_out() {
    // The task alone on its CPU executes: to itself the CPU is idle, so it stays.
    for version in ["5.5", "5.10", "6.1", "6.12", "6.18"] {
        let mut world = World::on(Topology::flat(4), version, |_| {});
        let task = world.spawn_anywhere(Cpu(1));
        let here = cpu_of(&world, task);
        world.advance(50 * MS);
        let found = place(&mut world, here, task, WakeKind::Exec);
        assert_eq!(found, here, "{version}");
        // Beside another task it goes to an idle CPU.
        busy(&mut world, [here]);
        assert_ne!(
            place(&mut world, here, task, WakeKind::Exec),
            here,
            "{version}"
        );
    }
}

fn group(group_type: GroupType, idle_cpus: u32, util: u64, avg_load: u64) -> GroupStats {
    GroupStats {
        group_type,
        idle_cpus,
        util,
        avg_load,
        ..GroupStats::default()
    }
}

#[test]
fn the_idlest_group_by_type_then_by_its_measure() {
    let spare = |idle_cpus, util| group(GroupType::HasSpare, idle_cpus, util, 0);
    let loaded = |group_type, avg_load| group(group_type, 0, 0, avg_load);
    let (full, over) = (GroupType::FullyBusy, GroupType::Overloaded);
    for (new, old, idler) in [
        // A lower type is idler, whatever the numbers.
        (spare(0, 9000), loaded(full, 1), true),
        (loaded(over, 1), loaded(full, 9000), false),
        // More idle CPUs, then less utilisation, and not for nothing.
        (spare(3, 900), spare(2, 100), true),
        (spare(2, 100), spare(2, 101), true),
        (spare(2, 100), spare(2, 100), false),
        // Less load.
        (loaded(full, 1023), loaded(full, 1024), true),
        (loaded(over, 1024), loaded(over, 1024), false),
        // Marked by affinity: the first one found.
        (
            loaded(GroupType::Imbalanced, 1),
            loaded(GroupType::Imbalanced, 9),
            false,
        ),
    ] {
        assert_eq!(is_idler(&new, Some(&old)), idler, "{new:?} {old:?}");
    }
    // The first group found only has to be better than nothing.
    assert!(is_idler(&loaded(over, 5000), None));
}

#[test]
fn a_task_goes_to_less_loaded_groups_only() {
    let loaded = |avg_load| group(GroupType::Overloaded, 0, 0, avg_load);
    // Percentage 117: the difference that counts between nodes is 1024 · 17 / 100 = 174.
    for (local, idlest, pct, numa, goes) in [
        (1200, 1000, 117, false, true),
        // 100 · 1170 = 117 · 1000: not more than the percentage.
        (1170, 1000, 117, false, false),
        (1171, 1000, 117, false, true),
        (1171, 1000, 117, true, false),
        (1174, 1000, 117, true, false),
        (1175, 1000, 117, true, true),
        // Small loads differ by more than 17 % at once, but not by 174.
        (100, 50, 117, false, true),
        (100, 50, 117, true, false),
        (100, 300, 117, false, false),
        // Percentage 125.
        (1250, 1000, 125, false, false),
        (1251, 1000, 125, false, true),
    ] {
        assert_eq!(
            clearly_less_loaded(&loaded(local), &loaded(idlest), pct, numa),
            goes,
            "{local} {idlest} {pct} {numa}"
        );
    }
}

#[test]
fn forks_leave_a_node_for_clearly_less_load_only_from_4_17() {
    // Four CPUs a node. Queued load of 1000 on CPU 0: 1000 · 1024 / 4096 = 250 a capacity here, 0
    // there. The 256 that count for a node (1024 · 25 %) keep the task here from 4.17 on.
    for (version, node) in [("4.16", 1), ("4.17", 0), ("5.4", 0)] {
        let mut world = World::on(Topology::regular(2, 1, 4, 1), version, |_| {});
        busy(&mut world, [0]);
        let curr = world.kernel.rqs[0].curr;
        let se = world.kernel.tasks[curr].se;
        world.kernel.entities[se].avg.load_avg = 1000;
        let task = world.kernel.task_create(TaskAttributes {
            affinity: CpuSet::first(8),
            ..TaskAttributes::on(Cpu(0))
        });
        let cpu = place(&mut world, 0, task, WakeKind::Fork);
        assert_eq!(cpu / 4, node, "{version}: CPU {cpu}");
    }
}

#[test]
fn the_own_share_leaves_a_cpus_utilisation_and_its_capacity_bounds_the_rest() {
    let mut world = World::with("6.1", 1, |rules| rules.features.util_est = false);
    let task = world.spawn(Cpu(0));
    // (utilisation of the CPU, the task's share, what others use on a CPU of capacity 1024)
    for (util, share, expected) in [(500, 300, 200), (300, 500, 0), (1500, 100, 1024)] {
        world.kernel.cfs_rqs[0].avg.util_avg = util;
        let own = Own {
            util: share,
            ..Own::default()
        };
        let others = world.kernel.cpu_util_without(Cpu(0), task, &own);
        assert_eq!(others, expected);
    }
}

#[test]
fn the_estimate_of_a_queued_task_is_left_out_of_its_cpus() {
    let mut world = World::with("6.1", 1, |rules| rules.features.util_est = true);
    let task = world.spawn(Cpu(0));
    world.kernel.tasks[task].util_est = 200;
    world.kernel.tasks[task].util_est_ewma = 200;
    world.kernel.cfs_rqs[0].avg.util_avg = 0;
    world.kernel.cfs_rqs[0].util_est_enqueued = 600;
    // 600 hold the task's own 200 only while it is queued.
    for (queued, expected) in [(1, 400), (0, 600)] {
        let own = Own {
            queued,
            ..Own::default()
        };
        let others = world.kernel.cpu_util_without(Cpu(0), task, &own);
        assert_eq!(others, expected);
    }
}

/// Sets the load of what each CPU runs (the queue's average last), and where a fork from CPU 0
/// goes.
fn fork_by_load(version: &str, loads: &[(u64, u64)]) -> u32 {
    let mut world = World::on(Topology::flat(loads.len()), version, |_| {});
    busy(&mut world, 0..loads.len() as u32);
    for (cpu, (runnable, average)) in loads.iter().enumerate() {
        let curr = world.kernel.rqs[cpu].curr;
        let se = world.kernel.tasks[curr].se;
        world.kernel.entities[se].avg.load_avg = *runnable;
        world.kernel.cfs_rqs[cpu].avg.load_avg = *average;
    }
    let task = world.kernel.task_create(TaskAttributes {
        affinity: CpuSet::first(loads.len()),
        ..TaskAttributes::on(Cpu(0))
    });
    place(&mut world, 0, task, WakeKind::Fork)
}

#[test]
fn up_to_4_9_a_fork_leaves_for_eight_per_cent_less_load() {
    // Half of the domain's 17 %: 100 · 1080 = 108 · 1000.
    assert_eq!(fork_by_load("4.9", &[(1079, 0), (1000, 0)]), 0);
    assert_eq!(fork_by_load("4.9", &[(1080, 0), (1000, 0)]), 1);
}

#[test]
fn from_4_10_to_5_4_a_fork_stays_for_small_differences() {
    // The domain's 17 %: averages differ by 8, runnable loads by 1024 · 17 / 100 = 174.
    for (loads, cpu) in [
        // 100 · 1079 < 108 · 1000.
        (&[(0, 1079), (0, 1000)][..], 0),
        (&[(0, 1080), (0, 1000)], 1),
        // Whatever the averages say, not to a CPU with more than 174 more.
        (&[(0, 2000), (174, 100)], 1),
        (&[(0, 2000), (175, 100)], 0),
        (&[(1000, 2000), (1174, 100)], 1),
        // Of two others the second one counts only if its average is less by 8 %.
        (&[(0, 5000), (0, 1080), (0, 1000)], 1),
        (&[(0, 5000), (0, 1081), (0, 1000)], 2),
    ] {
        assert_eq!(fork_by_load("5.4", loads), cpu, "{loads:?}");
    }
}

/// The task's utilisation is 200. CPU 0 has nothing to spare, and CPU 1 as much as half of the task
/// needs, or a bit more; by load the task would stay.
#[test]
fn up_to_5_4_an_executed_program_goes_where_more_than_half_of_it_fits() {
    for (used, cpu) in [(924, 0), (923, 1)] {
        let mut world = World::on(Topology::flat(2), "5.4", |_| {});
        world.kernel.rules.features.util_est = false;
        busy(&mut world, [1]);
        let task = world.spawn(Cpu(0));
        allow(&mut world, task, CpuSet::first(2));
        let se = world.kernel.tasks[task].se;
        world.kernel.entities[se].avg.util_avg = 200;
        for (cpu, util, load) in [(0, 1224, 100), (1, used, 1000)] {
            let avg = &mut world.kernel.cfs_rqs[cpu].avg;
            (avg.util_avg, avg.load_avg) = (util, load);
        }
        assert_eq!(place(&mut world, 0, task, WakeKind::Exec), cpu, "{used}");
    }
}

#[test]
fn in_5_18_as_many_tasks_as_a_quarter_of_a_node_stay() {
    // Two nodes of 16 CPUs: the fifth goes by idle CPUs, 12 here and 16 there.
    let cpus = forks(Topology::regular(2, 1, 16, 1), "5.18", 5);
    let local = cpus.iter().filter(|cpu| **cpu < 16).count();
    assert_eq!(local, 4, "{cpus:?}");
}

#[test]
fn groups_that_affinity_made_uneven_are_left_by_no_fork() {
    for (uneven, leaves) in [(true, false), (false, true)] {
        let mut world = World::on(Topology::regular(1, 2, 2, 1), "6.12", |_| {});
        busy(&mut world, [0]);
        for row in world.kernel.domains.capacities.iter_mut() {
            row.imbalance |= uneven;
        }
        let task = world.spawn_anywhere(Cpu(0));
        assert_eq!(cpu_of(&world, task) >= 2, leaves, "{uneven}");
    }
}

#[test]
fn the_first_cpu_with_idle_policy_tasks_is_the_last_resort_up_to_5_6() {
    let mut world = World::on(Topology::regular(1, 2, 4, 1), "5.6", |_| {});
    let task = sleeper(&mut world, 7);
    busy(&mut world, [0, 1, 2, 3, 7]);
    for cpu in 4..7 {
        busy_with_idle_policy(&mut world, cpu);
    }
    let row = world.kernel.domains.of(Cpu(4))[0].parent.unwrap();
    let group = world.kernel.domains.group_row(row, 0);
    let kernel = &mut world.kernel;
    let found = kernel.find_idlest_group_cpu(&mut world.bench, group, task, Cpu(0));
    assert_eq!(found, Cpu(4));
}
