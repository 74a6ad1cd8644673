//! How fast CPUs work: threads of a core, cores of a cache, cold caches, unequal cores.

use schedcast_kernel::Cpu;
use schedcast_sim::{Machine, Reg, Workload};

use super::common::{MS, Mark, Ran, marks, task, works_on_both, world};
use super::{machine, preset_text, us};

pub(crate) const SMT2: &str = "[smt]\nthread_speed_1000ths = [1000, 600]\n";

#[test]
fn a_sibling_that_wakes_slows_what_runs_and_work_is_conserved() {
    let mut workload = Workload::default();
    task(&mut workload, "long", 0, |b| {
        b.work(10 * MS);
        b.mark(0);
    });
    task(&mut workload, "short", 1, |b| {
        b.sleep(4 * MS);
        b.work(3 * MS);
        b.mark(1);
    });
    let world = world((6, 18), machine([1, 1, 1, 2], SMT2), workload).ran_until(50 * MS);
    // 4 ms alone; then both at 0.6: 3 ms of work take 5 ms, to 9 ms, in which the other does 3 of
    // its remaining 6 ms; the last 3 ms alone again.
    assert_eq!(us(&world), [(9_000, 1), (12_000, 0)]);
}

#[test]
fn cpus_of_other_cores_do_not_matter() {
    let workload = works_on_both();
    // Four CPUs, two cores: 0 and 2 share one, 1 and 3 the other.
    let world = world((6, 18), machine([1, 1, 2, 2], SMT2), workload).ran_until(50 * MS);
    let mut ends = us(&world);
    ends.sort_unstable();
    assert_eq!(ends, [(10_000, 0), (10_000, 1)]);
}

const SHARED: &str = "[llc]\ncore_speed_1000ths = [1000, 750, 500]\n";

/// Starts on each CPU a task that marks the end of its work.
fn one_each(works: &[(usize, u64)]) -> Workload {
    let mut workload = Workload::default();
    for (channel, &(cpu, work_ns)) in works.iter().enumerate() {
        task(&mut workload, "t", cpu as u32, |b| {
            b.work(work_ns);
            b.mark(channel as u16);
        });
    }
    workload
}

#[test]
fn cores_that_share_a_cache_slow_each_other_down() {
    // Two caches of four cores: CPUs 0 to 3 and 4 to 7.
    let workload = one_each(&[(0, 6 * MS), (1, 3 * MS), (4, 6 * MS)]);
    let world = world((6, 18), machine([1, 2, 4, 1], SHARED), workload).ran_until(50 * MS);
    // Two at 0.75: 3 ms of work take 4 ms, then the other one has 3 ms left, alone at full speed.
    assert_eq!(us(&world), [(4_000, 1), (6_000, 2), (7_000, 0)]);
}

#[test]
fn more_cores_than_the_list_has_are_as_slow_as_its_last_and_threads_count_once() {
    let four = one_each(&[(0, 3 * MS), (1, 3 * MS), (2, 3 * MS), (3, 3 * MS)]);
    let mut crowd = world((6, 18), machine([1, 1, 4, 1], SHARED), four);
    crowd.run_until(50 * MS).unwrap();
    assert!(us(&crowd).iter().all(|(time, _)| *time == 6_000));
    // One core with two threads, which the section `smt` does not slow down here.
    let two = one_each(&[(0, 3 * MS), (4, 3 * MS)]);
    let mut core = world((6, 18), machine([1, 1, 4, 2], SHARED), two);
    core.run_until(50 * MS).unwrap();
    assert!(us(&core).iter().all(|(time, _)| *time == 3_000));
}

#[test]
fn speeds_of_a_cache_are_as_many_as_it_has_cores_at_most() {
    let error = |part: &str| match Machine::parse("m", &(preset_text() + part)) {
        Ok(_) => String::new(),
        Err(error) => error.message,
    };
    assert_eq!(error("[llc]\ncore_speed_1000ths = [1000, 900]\n"), "");
    assert_eq!(
        error("[cluster]\ncore_speed_1000ths = [1000, 900]\n"),
        "cluster.core_speed_1000ths must have 1 to 1 numbers from 1 to 1000"
    );
    assert_eq!(
        error("[llc]\ncore_speed_1000ths = [1000, 0]\n"),
        "llc.core_speed_1000ths must have 1 to 8 numbers from 1 to 1000"
    );
}

#[test]
fn a_migrated_task_loses_the_refill_of_its_caches() {
    const MIGRATION: &str = "[migration]\ncold_speed_percent = 50\nsame_core_refill_ns = 0\n\
        same_llc_refill_ns = 100_000\nother_llc_refill_ns = 1_000_000\nother_node_refill_ns = 4_000_000\n";
    let moved_to = |cpu: u32| {
        let mut workload = Workload::default();
        let there = workload.add_attributes(schedcast_sim::workload::AttributesSpec {
            affinity: Some(schedcast_kernel::cpuset::CpuSet::of(Cpu(cpu))),
            ..Default::default()
        });
        task(&mut workload, "t", 0, |b| {
            b.work(10 * MS);
            b.now(Reg(0));
            b.set_attributes(there);
            b.work(10 * MS);
            b.mark(0);
        });
        // Two nodes of two caches of two cores.
        let world = world((6, 18), machine([2, 2, 2, 1], MIGRATION), workload).ran_until(100 * MS);
        us(&world)[0].0
    };
    assert_eq!(moved_to(0), 20_000);
    assert_eq!(moved_to(1), 20_100);
    assert_eq!(moved_to(2), 21_000);
    assert_eq!(moved_to(4), 24_000);
}

#[test]
fn kernel_operations_cost_the_same_while_caches_are_cold() {
    const MIGRATION: &str = "[migration]\ncold_speed_percent = 50\nsame_core_refill_ns = 0\n\
        same_llc_refill_ns = 100_000\nother_llc_refill_ns = 0\nother_node_refill_ns = 0\n";
    let mut workload = Workload::default();
    let there = workload.add_attributes(schedcast_sim::workload::AttributesSpec {
        affinity: Some(schedcast_kernel::cpuset::CpuSet::of(Cpu(1))),
        ..Default::default()
    });
    task(&mut workload, "t", 0, |b| {
        b.work(MS);
        b.set_attributes(there);
        b.mark(0);
        for _ in 0..20 {
            b.yield_now();
        }
        b.mark(1);
        b.work(MS);
        b.mark(2);
    });
    let mut machine = machine([1, 1, 2, 1], MIGRATION);
    machine.cost_ns[schedcast_kernel::platform::Op::Syscall as usize] = 3_000;
    let world = world((6, 18), machine, workload).ran_until(100 * MS);
    let marks = us(&world);
    // 20 system calls of 3 µs, cold or not; the refill is lost by the work behind them.
    assert_eq!(marks[1].0 - marks[0].0, 60);
    assert_eq!(marks[2].0 - marks[1].0, 1_100);
}

#[test]
fn speeds_that_the_scheduler_does_not_know_slow_work_and_move_no_capacity() {
    let cpus = "sockets = 1\nllcs_per_socket = 1\ncores_per_llc = 2\nthreads_per_core = 1\n";
    let preset = schedcast_sim::machine::PRESETS[0].1;
    let (before, rest) = preset.split_once("[topology]").unwrap();
    let after = &rest[rest.find("\n[").unwrap()..];
    let of =
        |more: &str| Machine::parse("test", &format!("{before}[topology]\n{cpus}{more}{after}"));
    let machine = of("speeds_1024ths = [1024, 512]\npriorities = [9, 3]\n").unwrap();
    assert_eq!([machine.speed(0), machine.speed(1)], [1024, 512]);
    assert!(machine.topology.capacities.is_empty());
    assert_eq!(machine.topology.priorities, [9, 3]);
    let workload = works_on_both();
    let world = world((6, 12), machine, workload).ran_until(100 * MS);
    let ends: Vec<u64> = marks(&world).iter().map(|(at, _)| at / MS).collect();
    assert!(ends[0] < 12 && (20..24).contains(&ends[1]), "{ends:?}");
    let refused = |more: &str| of(more).unwrap_err().to_string();
    assert!(refused("speeds_1024ths = [1024]\n").contains("must have 2 numbers from 1 to 1024"));
    assert!(refused("priorities = [0, 1]\n").contains("must have 2 numbers from 1 to 1000000"));
    assert!(
        refused("speeds_1024ths = [1024, 9]\ncapacities_1024ths = [1024, 9]\n")
            .contains("exclude each other")
    );
}
