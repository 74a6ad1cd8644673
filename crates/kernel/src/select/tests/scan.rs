//! The search through the last level cache: order, limits, cores, what it costs.

use super::{SYNC, allow, busy, busy_with_idle_policy, sleeper, wakeup};
use crate::select::scan::sis_prop_looks;
use crate::tests::world::*;

fn unlimited(rules: &mut Rules) {
    rules.features.sis_util = false;
    rules.features.sis_prop = false;
    rules.features.sis_avg_cpu = false;
}

/// All CPUs but `idle` are busy, and the wakee last ran on CPU 0, which wakes it.
fn all_busy_but(topology: Topology, version: &str, idle: &[u32]) -> (World, TaskId) {
    let cpus = topology.cpus() as u32;
    let mut world = World::on(topology, version, unlimited);
    let task = sleeper(&mut world, 0);
    busy(&mut world, (0..cpus).filter(|cpu| !idle.contains(cpu)));
    (world, task)
}

fn set_idle_scan(world: &mut World, nr_idle_scan: u32) {
    world.kernel.rules.features.sis_util = true;
    world.kernel.domains.shared[0].nr_idle_scan = nr_idle_scan;
}

/// The task's previous CPU is the target, whichever task wakes it.
fn prev_is(world: &mut World, task: TaskId, cpu: u32) {
    world.kernel.set_task_cpu(&mut world.bench, task, Cpu(cpu));
}

#[test]
fn utilisation_limits_the_scan_from_6_0() {
    for version in ["6.0", "6.6", "6.12", "6.18"] {
        // Target 2: the order is 3 4 5 6 7 0 1. CPU 6 is the fourth.
        for (nr_idle_scan, expected) in [
            (8, (6, 4)),
            (4, (6, 4)),
            (3, (2, 3)),
            (1, (2, 1)),
            (0, (2, 0)),
        ] {
            let (mut world, task) = all_busy_but(Topology::flat(8), version, &[1, 6]);
            prev_is(&mut world, task, 2);
            set_idle_scan(&mut world, nr_idle_scan);
            let found = wakeup(&mut world, 2, task, SYNC);
            assert_eq!(found, expected, "{version}, limit {nr_idle_scan}");
        }
    }
}

#[test]
fn scans_start_behind_the_target_from_5_15_and_wrap() {
    for (version, looks_to_6, looks_to_1) in [("5.12", 5, 8), ("5.14", 5, 8), ("5.15", 4, 7)] {
        let (mut world, task) = all_busy_but(Topology::flat(8), version, &[6]);
        prev_is(&mut world, task, 2);
        assert_eq!(
            wakeup(&mut world, 2, task, SYNC),
            (6, looks_to_6),
            "{version}"
        );
        let (mut world, task) = all_busy_but(Topology::flat(8), version, &[1]);
        prev_is(&mut world, task, 2);
        assert_eq!(
            wakeup(&mut world, 2, task, SYNC),
            (1, looks_to_1),
            "{version}"
        );
    }
}

#[test]
fn forbidden_cpus_are_skipped_and_counted_up_to_5_5() {
    // Target 0, CPUs 5 and 7 idle, only 0 and 7 allowed. Looks: up to 5.5 at all eight (the
    // forbidden ones use up the limit, SIS_PROP's 3 looks end before CPU 7), later at 0 and 7.
    for (version, expected, looks) in [("5.5", 0, 3), ("5.6", 7, 2), ("5.12", 7, 2)] {
        let (mut world, task) = all_busy_but(Topology::flat(8), version, &[5, 7]);
        world.kernel.rules.features.sis_prop = true;
        world.kernel.rqs[0].avg_idle = 0;
        allow(&mut world, task, [Cpu(0), Cpu(7)].into_iter().collect());
        let found = wakeup(&mut world, 0, task, SYNC);
        assert_eq!(found, (expected, looks), "{version}");
    }
}

#[test]
fn idle_time_in_proportion_to_scan_cost_limits_the_scan() {
    // (idle, cost, LLC size): 16 · 1000 / 501 = 31, one look less.
    assert_eq!(sis_prop_looks(1000, 501, 16), 30);
    // 16 · 100 = 1600 ≤ 4 · 501: the least, 4, one look less.
    assert_eq!(sis_prop_looks(100, 501, 16), 3);
    // Exactly four times the cost is still the least; five times are 5 − 1.
    assert_eq!(sis_prop_looks(4, 16, 16), 3);
    assert_eq!(sis_prop_looks(5, 16, 16), 4);
    assert_eq!(sis_prop_looks(0, 1, 16), 3);
}

#[test]
fn the_average_cost_of_a_scan_follows_by_an_eighth() {
    let (mut world, task) = all_busy_but(Topology::flat(8), "5.10", &[6]);
    world.kernel.rules.features.sis_prop = true;
    world.bench.prices = vec![(Op::SelectScanCpu, 40)];
    world.kernel.rqs[2].avg_idle = 512_000;
    prev_is(&mut world, task, 2);
    let average = |world: &World| world.kernel.domains.of(Cpu(2))[0].avg_scan_cost_ns;
    // 5 looks of 40 ns: 200 / 8 = 25, then 25 + 175 / 8 = 46 (21 rounded down).
    assert_eq!(wakeup(&mut world, 2, task, SYNC), (6, 5));
    assert_eq!(average(&world), 25);
    wakeup(&mut world, 2, task, SYNC);
    assert_eq!(average(&world), 46);
    // Idle 1 µs on average (512000 / 512): 8 · 1000 / 47 = 170 looks are allowed; idle 20 ns: 160 /
    // 47 is 3, less than the least of 4, so 3 looks at 2 3 4.
    world.kernel.rqs[2].avg_idle = 512 * 20;
    assert_eq!(wakeup(&mut world, 2, task, SYNC), (2, 3));
    // A scan that gave up does not count.
    assert_eq!(average(&world), 46);
}

#[test]
fn idle_time_ages_while_no_wakeup_happens_from_5_14() {
    let (mut world, task) = all_busy_but(Topology::flat(8), "5.15", &[6]);
    world.kernel.rules.features.sis_prop = true;
    world.bench.prices = vec![(Op::SelectScanCpu, 100)];
    prev_is(&mut world, task, 2);
    let set = |world: &mut World, idle_ns: Ns| {
        let jiffy = world.kernel.jiffies(world.bench.now);
        world.kernel.rqs[2].wake_avg_idle = idle_ns;
        world.kernel.rqs[2].wake_stamp_jiffy = jiffy;
    };
    set(&mut world, 4000);
    // 4 looks at 3 4 5 6: 400 ns off the idle average, 400 / 8 = 50 ns average cost.
    assert_eq!(wakeup(&mut world, 2, task, SYNC), (6, 4));
    assert_eq!(world.kernel.rqs[2].wake_avg_idle, 3600);
    // Three jiffies later an eighth is left: 450. 8 · 450 / 51 = 70 looks.
    world.advance(3_000_000);
    assert_eq!(wakeup(&mut world, 2, task, SYNC), (6, 4));
    assert_eq!(world.kernel.rqs[2].wake_avg_idle, 50);
    // 8 · 25 = 200 ≤ 4 · 94 (50 + 350 / 8 = 93, and 1): 3 looks.
    world.advance(1_000_000);
    assert_eq!(wakeup(&mut world, 2, task, SYNC), (2, 3));
}

#[test]
fn up_to_4_10_and_with_sis_avg_cpu_short_idle_times_forbid_scans() {
    for (version, feature) in [("4.9", false), ("4.10", false), ("4.15", true)] {
        for (avg_idle, expected) in [(512 * 26, 6), (512 * 25 - 1, 0)] {
            let (mut world, task) = all_busy_but(Topology::flat(8), version, &[6]);
            world.kernel.rules.features.sis_avg_cpu = feature;
            let row = world.kernel.domains.cpus[0].llc.unwrap();
            world.kernel.domains.domain_mut(row).avg_scan_cost_ns = 25;
            world.kernel.rqs[0].avg_idle = avg_idle;
            assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
        }
    }
    // 4.11 and 4.12 have the test off by default, 4.13 has SIS_PROP.
    let (mut world, task) = all_busy_but(Topology::flat(8), "4.11", &[6]);
    world.kernel.rqs[0].avg_idle = 0;
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 6);
}

/// Four cores; threads n and n + 4.
fn four_cores() -> Topology {
    Topology::regular(1, 1, 4, 2)
}

#[test]
fn an_idle_core_comes_before_an_idle_thread() {
    for version in ["4.9", "4.15", "5.10", "5.12", "5.13", "6.1", "6.12", "6.18"] {
        // Idle: CPU 4, the sibling of the target, CPU 1, whose sibling is busy, and core {3,7}.
        let (mut world, task) = all_busy_but(four_cores(), version, &[4, 1, 3, 7]);
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 3, "{version}");
    }
}

#[test]
fn without_an_idle_core_the_hint_is_cleared() {
    // The first core in scan order with an idle thread wins, and a shared line is written.
    for version in ["5.12", "6.1", "6.18"] {
        let (mut world, task) = all_busy_but(four_cores(), version, &[4, 6]);
        let expected = if version == "5.12" { 4 } else { 6 };
        assert!(world.kernel.domains.shared[0].has_idle_cores);
        world.bench.touched.clear();
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
        assert!(!world.kernel.domains.shared[0].has_idle_cores);
        let line = Line::LlcIdleHints(Cpu(0));
        assert_eq!(
            world.bench.touched,
            [(line, Access::Read), (line, Access::Write)],
            "{version}"
        );
    }
    // It is set again when a CPU whose siblings are idle goes idle.
    let (mut world, _) = all_busy_but(four_cores(), "6.1", &[4]);
    world.kernel.domains.shared[0].has_idle_cores = false;
    world.block(Cpu(1));
    assert!(!world.kernel.domains.shared[0].has_idle_cores);
    world.block(Cpu(5));
    assert!(world.kernel.domains.shared[0].has_idle_cores);
}

#[test]
fn siblings_of_the_previous_cpu_come_first_from_5_13() {
    // Target 0 and previous CPU 1 are busy, CPU 5 is the sibling of CPU 1, CPUs 2 and 5 are idle,
    // no core is known to be.
    for (version, expected) in [("5.12", 2), ("5.13", 5), ("6.1", 5), ("6.18", 5)] {
        let (mut world, task) = all_busy_but(four_cores(), version, &[2, 5]);
        prev_is(&mut world, task, 1);
        world.kernel.domains.shared[0].has_idle_cores = false;
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
    }
}

#[test]
fn up_to_5_11_siblings_of_the_target_come_last() {
    // Only the sibling of the target is idle, and SIS_PROP allows three looks.
    let sixteen_cores = || Topology::regular(1, 1, 16, 2);
    for (version, expected) in [("4.15", 16), ("5.11", 16), ("5.12", 0), ("5.13", 16)] {
        let (mut world, task) = all_busy_but(sixteen_cores(), version, &[16]);
        world.kernel.rules.features.sis_prop = true;
        world.kernel.rqs[0].avg_idle = 0;
        world.kernel.domains.shared[0].has_idle_cores = false;
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
    }
}

#[test]
fn up_to_4_8_an_idle_group_is_sought() {
    // Core {1,5} is idle as a whole, CPU 4 only beside the busy target.
    let (mut world, task) = all_busy_but(four_cores(), "4.8", &[4, 1, 5]);
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 1);
    // No core is idle: a thread of the target's own core, and no other.
    let (mut world, task) = all_busy_but(four_cores(), "4.8", &[4, 1]);
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 4);
    let (mut world, task) = all_busy_but(four_cores(), "4.8", &[1, 2]);
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 0);
}

/// Eight CPUs in one LLC, in clusters of two.
fn clusters() -> Topology {
    let mut topology = Topology::flat(8);
    for (cpu, place) in topology.places.iter_mut().enumerate() {
        place.cluster = 100 + cpu as u32 / 2;
    }
    topology
}

#[test]
fn the_cluster_of_the_target_comes_first_from_6_8() {
    // Target 4; idle 5 of its cluster, and 6; behind the target 5 comes first anyway, so ask for 5
    // from target 5: 4 is the last in plain order.
    for (version, expected) in [("6.7", 6), ("6.8", 4), ("6.18", 4)] {
        let (mut world, task) = all_busy_but(clusters(), version, &[4, 6]);
        prev_is(&mut world, task, 5);
        assert_eq!(wakeup(&mut world, 5, task, SYNC).0, expected, "{version}");
    }
    // Looks in the cluster count: 4, then 6 with a limit of 2, not with 1.
    for (limit, expected) in [(3, (6, 3)), (2, (5, 2))] {
        let (mut world, task) = all_busy_but(clusters(), "6.12", &[6]);
        prev_is(&mut world, task, 5);
        set_idle_scan(&mut world, limit);
        assert_eq!(wakeup(&mut world, 5, task, SYNC), expected);
    }
}

#[test]
fn an_idle_previous_cpu_of_another_cluster_comes_after_the_scan_from_6_8() {
    // Target 0, previous CPU 5 idle in another cluster.
    for (version, idle, expected) in [
        ("6.7", &[5, 1][..], 5),
        ("6.8", &[5, 1], 1),
        ("6.8", &[5, 3], 3),
        ("6.8", &[5], 5),
        ("6.18", &[5, 1], 1),
    ] {
        let (mut world, task) = all_busy_but(clusters(), version, idle);
        prev_is(&mut world, task, 5);
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, expected, "{version}");
    }
}

#[test]
fn affinity_bounds_every_step() {
    for version in ["4.5", "4.15", "5.10", "5.13", "6.1", "6.12", "6.18"] {
        let (mut world, task) = all_busy_but(four_cores(), version, &[2, 6, 4]);
        allow(&mut world, task, CpuSet::of(Cpu(0)).or(&CpuSet::of(Cpu(3))));
        assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 0, "{version}");
    }
}

#[test]
fn a_nanosecond_of_idle_time_allows_as_many_looks_as_it_costs() {
    // A scan has cost nothing so far, which counts as 1 ns: 8 · 1 / 1 − 1 = 7 looks, or the least,
    // 3. Up to 5.13 they begin with the target, 2.
    for (avg_idle, expected) in [(512, (6, 5)), (511, (2, 3))] {
        let (mut world, task) = all_busy_but(Topology::flat(8), "5.10", &[6]);
        world.kernel.rules.features.sis_prop = true;
        world.kernel.rqs[2].avg_idle = avg_idle;
        prev_is(&mut world, task, 2);
        assert_eq!(wakeup(&mut world, 2, task, SYNC), expected);
    }
    // The nanosecond is gone after a jiffy.
    for (jiffies, expected) in [(0, (6, 4)), (1, (2, 3))] {
        let (mut world, task) = all_busy_but(Topology::flat(8), "5.15", &[6]);
        world.kernel.rules.features.sis_prop = true;
        prev_is(&mut world, task, 2);
        let jiffy = world.kernel.jiffies(world.bench.now);
        world.kernel.rqs[2].wake_stamp_jiffy = jiffy;
        world.kernel.rqs[2].wake_avg_idle = 1;
        world.bench.now += jiffies * 1_000_000;
        assert_eq!(wakeup(&mut world, 2, task, SYNC), expected);
    }
}

#[test]
fn the_last_cpu_within_the_limit_may_be_the_last_resort_in_5_6() {
    // Target 2 and three looks: 2 3 4.
    for (resort, expected) in [(4, (4, 3)), (5, (2, 3))] {
        let (mut world, task) = all_busy_but(Topology::flat(8), "5.6", &[resort]);
        busy_with_idle_policy(&mut world, resort);
        world.kernel.rules.features.sis_prop = true;
        world.kernel.rqs[2].avg_idle = 0;
        prev_is(&mut world, task, 2);
        assert_eq!(wakeup(&mut world, 2, task, SYNC), expected);
    }
}

#[test]
fn a_sibling_with_idle_policy_tasks_is_taken_for_idle_from_5_7() {
    // CPU 5 is the sibling of the previous CPU 1; CPU 2 is really idle.
    let (mut world, task) = all_busy_but(four_cores(), "6.1", &[2, 5]);
    busy_with_idle_policy(&mut world, 5);
    prev_is(&mut world, task, 1);
    world.kernel.domains.shared[0].has_idle_cores = false;
    assert_eq!(wakeup(&mut world, 0, task, SYNC).0, 5);
}
