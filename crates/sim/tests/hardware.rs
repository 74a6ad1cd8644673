//! Speed, clocks, idle states and power under running tasks. Times are computed by hand.

mod common;

use common::{MS, Mark, US, marks, task, world};
use schedcast_kernel::Cpu;
use schedcast_sim::{Machine, Reg, Workload, World};

fn preset_text() -> String {
    let mut presets = schedcast_sim::machine::PRESETS.iter();
    let preset = presets.find(|(name, _)| *name == "generic-8").unwrap();
    preset.1.to_owned()
}

/// `generic-8` with other topology, no prices, and further parts.
fn machine(topology: [usize; 4], parts: &str) -> Machine {
    let [sockets, llcs, cores, threads] = topology;
    let mut text = String::new();
    for line in preset_text().lines() {
        let (key, rest) = line.split_once('=').unwrap_or((line, ""));
        let line = match key.trim() {
            "sockets" => format!("sockets = {sockets}"),
            "llcs_per_socket" => format!("llcs_per_socket = {llcs}"),
            "cores_per_llc" => format!("cores_per_llc = {cores}"),
            "threads_per_core" => format!("threads_per_core = {threads}"),
            key if key.ends_with("_ns") && !rest.is_empty() => format!("{key} = 0"),
            _ => line.to_owned(),
        };
        text += &line;
        text.push('\n');
    }
    Machine::parse("test", &(text + parts)).unwrap()
}

fn us(world: &World) -> Vec<(u64, u16)> {
    marks(world)
        .into_iter()
        .map(|(time, channel)| (time / US, channel))
        .collect()
}

const SMT2: &str = "[smt]\nthread_speed_1000ths = [1000, 600]\n";

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
    let mut world = world((6, 18), machine([1, 1, 1, 2], SMT2), workload);
    world.run_until(50 * MS).unwrap();
    // 4 ms alone; then both at 0.6: 3 ms of work take 5 ms, to 9 ms, in which the other does 3 of
    // its remaining 6 ms; the last 3 ms alone again.
    assert_eq!(us(&world), [(9_000, 1), (12_000, 0)]);
}

#[test]
fn cpus_of_other_cores_do_not_matter() {
    let mut workload = Workload::default();
    for cpu in 0..2 {
        task(&mut workload, "t", cpu, |b| {
            b.work(10 * MS);
            b.mark(cpu as u16);
        });
    }
    // Four CPUs, two cores: 0 and 2 share one, 1 and 3 the other.
    let mut world = world((6, 18), machine([1, 1, 2, 2], SMT2), workload);
    world.run_until(50 * MS).unwrap();
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
    let mut world = world((6, 18), machine([1, 2, 4, 1], SHARED), workload);
    world.run_until(50 * MS).unwrap();
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

const IDLE: &str = r#"
[idle]
governor = "menu"
[[idle.state]]
name = "POLL"
exit_latency_ns = 0
target_residency_ns = 0
wakes_by = "polling"
core_percent_of_active = 50
[[idle.state]]
name = "C1"
exit_latency_ns = 2_000
target_residency_ns = 2_000
wakes_by = "monitor"
core_mw = 1500
[[idle.state]]
name = "C6"
exit_latency_ns = 100_000
target_residency_ns = 300_000
wakes_by = "monitor"
core_mw = 200
uncore_mw = 1000
"#;

const POWER: &str = r#"
[power]
active = [{ mhz = 1000, core_mw = 2000 }, { mhz = 3000, core_mw = 8000 }]
further_thread_percent = 0
uncore_mw = 3000
interval_ns = 10_000_000
"#;

fn frequency(rest: &str) -> String {
    format!(
        "[frequency]\nnominal_mhz = 2000\nmin_mhz = 1000\nbase_mhz = 2000\nturbo_mhz = 3000\n\
         step_mhz = 100\ntransition_ns = 10_000\nannounced_latency_ns = 10_000\n\
         sleeping_cpus_vote = false\npolicy_per_domain = false\naperf_mperf = true\n{rest}"
    )
}

#[test]
fn the_exit_latency_of_the_chosen_state_delays_a_wakeup() {
    let mut workload = Workload::default();
    task(&mut workload, "sleeper", 0, |b| {
        for _ in 0..3 {
            b.sleep(20 * MS);
            b.mark(0);
        }
    });
    let mut world = world((6, 18), machine([1, 1, 1, 1], IDLE), workload);
    world.run_until(100 * MS).unwrap();
    // 20 ms are long: C6, 100 us late each time, at the start too.
    assert_eq!(us(&world), [(20_200, 0), (40_300, 0), (60_400, 0)]);
    let report = world.hardware_report().unwrap();
    assert_eq!(report.idle_states, ["POLL", "C1", "C6"]);
    // Leaving it counts as awake: 400 us of 100 ms.
    assert!((report.cpus[0].mean.busy - 0.004).abs() < 1e-9);
    assert!((report.cpus[0].mean.residency[2] - 0.996).abs() < 1e-9);
}

#[test]
fn a_zero_latency_limit_keeps_all_cpus_polling_with_their_ticks() {
    for (version, ticks) in [((6, 1), true), ((4, 16), false)] {
        let mut workload = Workload::default();
        task(&mut workload, "cyclictest", 0, |b| {
            for _ in 0..3 {
                b.sleep(20 * MS);
                b.mark(0);
            }
            b.work(200 * MS);
        });
        workload.tasks[0].latency_limit_ns = Some(0);
        let mut world = world(version, machine([1, 1, 2, 1], IDLE), workload);
        world.run_until(50 * MS).unwrap();
        // From 4.17 on the governor keeps the tick while polling.
        assert_eq!(world.kernel().rqs[0].tick_running, ticks);
        world.run_until(100 * MS).unwrap();
        // Only the first wakeup, before the task could ask, finds a sleeping CPU.
        assert_eq!(us(&world), [(20_100, 0), (40_100, 0), (60_100, 0)]);
        let report = world.hardware_report().unwrap();
        assert!(
            report.cpus.iter().all(|cpu| cpu.mean.busy > 0.998),
            "{report:?}"
        );
    }
}

#[test]
fn a_task_that_lets_go_of_its_latency_limit_lets_cpus_sleep_again() {
    let mut workload = Workload::default();
    task(&mut workload, "holder", 0, |b| {
        b.work(10 * MS);
    });
    workload.tasks[0].latency_limit_ns = Some(0);
    let mut world = world((6, 1), machine([1, 1, 2, 1], IDLE), workload);
    world.run_until(100 * MS).unwrap();
    let report = world.hardware_report().unwrap();
    assert!(
        (0.09..0.12).contains(&report.cpus[1].mean.busy),
        "{report:?}"
    );
}

#[test]
fn work_follows_the_clock_that_the_governor_asks_for() {
    let mut workload = Workload::default();
    task(&mut workload, "hog", 0, |b| {
        b.work(30 * MS);
        b.mark(0);
    });
    for (governor, end_us) in [("performance", 20_000), ("powersave", 60_000)] {
        let part = frequency(&format!(
            "domain = \"core\"\ndriver = \"acpi-cpufreq\"\ngovernor = \"{governor}\"\n"
        ));
        let mut world = world((6, 18), machine([1, 1, 1, 1], &part), workload.clone());
        world.run_until(100 * MS).unwrap();
        assert_eq!(us(&world), [(end_us, 0)]);
    }
}

#[test]
fn the_pid_climbs_a_step_every_third_tick() {
    let mut workload = Workload::default();
    task(&mut workload, "hog", 0, |b| {
        b.work(1000 * MS);
    });
    let part =
        frequency("domain = \"package\"\ndriver = \"intel_pstate\"\ngovernor = \"powersave\"\n");
    let mut world = world((4, 5), machine([1, 1, 2, 1], &part), workload);
    // Samples at 4, 16, 28, … ms; the first only starts the count. At 16 ms 1100 MHz.
    world.run_until(100 * MS).unwrap();
    assert_eq!(world.kernel().requested_pstate(Cpu(0)), Some(18));
    world.run_until(300 * MS).unwrap();
    assert_eq!(world.kernel().requested_pstate(Cpu(0)), Some(30));
    // Everything shares the clock of the CPU that asks for most.
    let report = world.hardware_report().unwrap();
    assert!((2000.0..3000.0).contains(&report.busy_mhz.unwrap()));
}

#[test]
fn turbo_limits_follow_the_number_of_awake_cores() {
    let mut workload = Workload::default();
    task(&mut workload, "long", 0, |b| {
        b.work(30 * MS);
        b.mark(0);
    });
    task(&mut workload, "short", 1, |b| {
        b.sleep(8 * MS);
        b.work(10 * MS);
        b.mark(1);
    });
    let part = frequency(
        "domain = \"core\"\ndriver = \"acpi-cpufreq\"\ngovernor = \"performance\"\n\
         turbo_limits_mhz = [3000, 2500]\n",
    );
    let mut world = world((6, 18), machine([1, 1, 2, 1], &part), workload);
    world.run_until(100 * MS).unwrap();
    // 8 ms at 1.5 = 12; from 8 to 16 ms both at 1.25: 10 each; the last 8 at 1.5: 5.33 ms.
    assert_eq!(us(&world), [(16_000, 1), (21_333, 0)]);
}

#[test]
fn hwp_keeps_the_clock_low_where_work_wanders_and_high_where_it_stays() {
    let hop = |cpus: u32| {
        let mut workload = Workload::default();
        for cpu in 0..cpus {
            task(&mut workload, "part", cpu, |b| {
                b.sleep(u64::from(cpu) * MS + 1);
                let top = b.here();
                b.work(MS);
                b.sleep(u64::from(cpus) * MS);
                b.jump(top);
            });
        }
        let part = frequency(
            "domain = \"core\"\ndriver = \"intel_pstate\"\ngovernor = \"powersave\"\n\
             [frequency.hwp]\npreference = 128\ndynamic_boost = false\ninterval_ns = 1_000_000\n\
             response_ns = 10_000_000\nfull_clock_busy_percent = 60\n",
        );
        let mut world = world((6, 18), machine([1, 1, 8, 1], &part), workload);
        world.run_until(1000 * MS).unwrap();
        world.hardware_report().unwrap().busy_mhz.unwrap()
    };
    // About half busy on one CPU; a fifth on each of eight.
    let (stays, wanders) = (hop(1), hop(8));
    assert!(stays > 2300.0 && wanders < 1700.0, "{stays} {wanders}");
}

#[test]
fn energy_of_a_known_schedule_is_exact() {
    let mut world = one_cpu_that_sleeps_and_works(10 * MS, 15 * MS);
    world.run_until(100 * MS).unwrap();
    let report = world.hardware_report().unwrap();
    // The core leaves C6 at 0, sleeps from 0.1 to 10.1 ms, leaves C6 again, works 10 ms at 3 GHz
    // (8 W). C6 takes 0.2 W; the rest of the package 3 W while the core is awake, 1 W otherwise. In
    // mJ:
    let awake = 0.1 + 0.1 + 10.0;
    let cores = 8.0 * awake + 0.2 * (100.0 - awake);
    let rest = 3.0 * awake + 1.0 * (100.0 - awake);
    let package = report.package.unwrap();
    let of_cores = report.cores.unwrap();
    assert!((package.mean * 100.0 / (cores + rest) - 1.0).abs() < 1e-9);
    assert!((of_cores.mean * 100.0 / cores - 1.0).abs() < 1e-9);
    // In the interval from 10 to 20 ms the core slept for 0.1 ms.
    let most = (11.0 * 9.9 + 1.2 * 0.1) / 10.0;
    assert!((package.max - most).abs() < 1e-9);
    // Intervals of 10 ms; the core is awake for 0.1, 9.9 and 0.2 ms of the first three, always at
    // 3 GHz.
    let close = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    let cpu = &report.cpus[0];
    assert!(close(cpu.max.busy, 0.99) && close(cpu.mean.busy, 0.102));
    assert!(close(cpu.max.busy_mhz, 3000.0));
    assert!(close(cpu.max.residency[2], 1.0) && close(cpu.mean.residency[2], 0.898));
    assert_eq!(report.max, cpu.max);
}

/// One CPU at its highest clock, and a task that first sleeps, then works.
fn one_cpu_that_sleeps_and_works(sleep_ns: u64, work_ns: u64) -> World {
    let mut workload = Workload::default();
    task(&mut workload, "hog", 0, |b| {
        b.sleep(sleep_ns);
        b.work(work_ns);
    });
    let part =
        frequency("domain = \"core\"\ndriver = \"acpi-cpufreq\"\ngovernor = \"performance\"\n");
    let parts = format!("{part}{IDLE}{POWER}");
    world((6, 18), machine([1, 1, 1, 1], &parts), workload)
}

#[test]
fn maxima_of_columns_are_those_of_whole_intervals() {
    let mut world = one_cpu_that_sleeps_and_works(10 * MS, 15 * MS);
    world.run_until(9 * MS).unwrap();
    let report = world.hardware_report().unwrap();
    assert_eq!(
        report.cpus[0].mean, report.cpus[0].max,
        "no interval is over"
    );
    world.run_until(15 * MS).unwrap();
    world.reset_statistics();
    // From here on awake until 20.2 ms: 5.2 of the 10 ms to 25 ms, nothing of the 8 ms since.
    world.run_until(33 * MS).unwrap();
    let report = world.hardware_report().unwrap();
    let close = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    let cpu = &report.cpus[0];
    assert!(close(cpu.max.busy, 0.52) && close(cpu.mean.busy, 5.2 / 18.0));
    assert!(close(cpu.max.busy_mhz, 3000.0));
    assert!(close(cpu.max.residency[2], 0.48) && close(cpu.mean.residency[2], 12.8 / 18.0));
    assert_eq!(report.max, cpu.max);
}

#[test]
fn statistics_can_begin_later() {
    let mut world = one_cpu_that_sleeps_and_works(50 * MS, 100 * MS);
    world.run_until(60 * MS).unwrap();
    world.reset_statistics();
    world.run_until(80 * MS).unwrap();
    let report = world.hardware_report().unwrap();
    assert!((report.cpus[0].mean.busy - 1.0).abs() < 1e-9);
    assert!((report.busy_mhz.unwrap() - 3000.0).abs() < 1e-6);
    assert!((report.package.unwrap().mean - 11.0).abs() < 1e-9);
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
        let mut world = world((6, 18), machine([2, 2, 2, 1], MIGRATION), workload);
        world.run_until(100 * MS).unwrap();
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
    let mut world = world((6, 18), machine, workload);
    world.run_until(100 * MS).unwrap();
    let marks = us(&world);
    // 20 system calls of 3 µs, cold or not; the refill is lost by the work behind them.
    assert_eq!(marks[1].0 - marks[0].0, 60);
    assert_eq!(marks[2].0 - marks[1].0, 1_100);
}

#[test]
fn runs_with_all_parts_are_deterministic_and_copies_go_the_same_way() {
    let mut workload = Workload::default();
    for cpu in 0..4 {
        task(&mut workload, "t", cpu, |b| {
            let top = b.here();
            b.work(MS + u64::from(cpu) * 100 * US);
            b.sleep(2 * MS);
            b.jump(top);
        });
    }
    let part =
        frequency("domain = \"core\"\ndriver = \"acpi-cpufreq\"\ngovernor = \"schedutil\"\n");
    let parts = format!("{SMT2}{part}{IDLE}{POWER}");
    let build = || world((6, 18), machine([1, 1, 2, 2], &parts), workload.clone());
    let (mut first, mut second) = (build(), build());
    first.run_until(200 * MS).unwrap();
    let mut copy = first.clone();
    first.run_until(400 * MS).unwrap();
    copy.run_until(400 * MS).unwrap();
    second.run_until(400 * MS).unwrap();
    assert_eq!(first.event_hash(), copy.event_hash());
    assert_eq!(first.event_hash(), second.event_hash());
    assert_eq!(first.hardware_report(), copy.hardware_report());
}

fn lines(transfer_ns: u64) -> String {
    format!(
        "[lines]\nsame_core_transfer_ns = {transfer_ns}\nsame_llc_transfer_ns = {transfer_ns}\n\
         other_llc_transfer_ns = {transfer_ns}\nother_node_transfer_ns = {transfer_ns}\n\
         read_service_percent = 100\ntg_load_avg = true\nrq_lock = false\nllc_idle_hints = false\n"
    )
}

/// `tasks` tasks of one group, each of which moves between two CPUs of its own as often as it can,
/// for 200 ms.
fn contended(tasks: usize, parts: &str) -> World {
    use schedcast_sim::workload::{AttributesSpec, GroupSpec, MetricId};
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec::new("/g", schedcast_kernel::GroupId::ROOT));
    for row in 0..tasks as u32 {
        let place = |workload: &mut Workload, cpu| {
            workload.add_attributes(AttributesSpec {
                affinity: Some(schedcast_kernel::cpuset::CpuSet::of(Cpu(cpu))),
                ..AttributesSpec::default()
            })
        };
        let there = place(&mut workload, 2 * row + 1);
        let back = place(&mut workload, 2 * row);
        task(&mut workload, "t", 2 * row, |b| {
            let top = b.here();
            b.work(5 * US);
            b.set_attributes(there);
            b.work(5 * US);
            b.set_attributes(back);
            b.count(MetricId(0), 1);
            b.jump(top);
        });
        workload.tasks[row as usize].group = group;
    }
    workload.add_metric("rounds");
    let mut world = world((6, 5), machine([1, 1, 2 * tasks, 1], parts), workload);
    world.run_until(50 * MS).unwrap();
    world.reset_statistics();
    world.run_until(250 * MS).unwrap();
    world
}

#[test]
fn a_saturated_line_serves_one_cpu_after_the_other() {
    use schedcast_kernel::platform::Access;
    use schedcast_sim::hardware::LineKind;
    let transfer_ns = 2_000;
    let measure = |cpus| {
        let world = contended(cpus, &lines(transfer_ns));
        let of = |access| world.line_statistics(LineKind::TgLoadAvg, access).unwrap();
        let (reads, writes) = (of(Access::Read), of(Access::Write));
        let transfers = reads.transfers + writes.transfers;
        let per_s = transfers as f64 * 5.0;
        let wait_ns = (reads.waited_ns + writes.waited_ns) as f64 / transfers as f64;
        (per_s, wait_ns, world.probes().metrics[0].count as f64 * 5.0)
    };
    let (one, eight, sixteen) = (measure(1), measure(8), measure(16));
    // 2 us a transfer: 500,000 per second is all there is.
    for saturated in [eight, sixteen] {
        assert!(
            (495_000.0..=500_000.0).contains(&saturated.0),
            "{saturated:?}"
        );
    }
    assert!(one.0 < 300_000.0, "{one:?}");
    // Twice the CPUs get no more done; each waits for all others: 7 and 15 transfers, less what it
    // does meanwhile.
    assert!(
        (sixteen.2 / eight.2 - 1.0).abs() < 0.1,
        "{eight:?} {sixteen:?}"
    );
    let longer = sixteen.1 - eight.1;
    assert!(
        (longer / (8.0 * transfer_ns as f64) - 1.0).abs() < 0.1,
        "{longer}"
    );
    let free = contended(16, "");
    assert!(free.probes().metrics[0].count as f64 * 5.0 > 4.0 * sixteen.2);
}

#[test]
fn waiting_for_lines_is_overhead_and_time_is_conserved() {
    let world = contended(8, &lines(2_000));
    let mut all = 0;
    for cpu in 0..16 {
        let time = world.cpu_time(Cpu(cpu));
        all += time.user_ns + time.overhead_ns + time.idle_ns;
    }
    // To the cursors: CPUs in the middle of an operation may be ahead or behind by one.
    let expected = 16 * 200 * MS;
    assert!(all.abs_diff(expected) < 16 * 100 * US, "{all} {expected}");
    let time = world.cpu_time(Cpu(3));
    assert!(time.overhead_ns > 10 * time.user_ns, "{time:?}");
}

#[test]
fn contention_is_deterministic_and_copies_in_mid_operation_go_the_same_way() {
    let run = || contended(8, &lines(700));
    let (mut first, second) = (run(), run());
    assert_eq!(first.event_hash(), second.event_hash());
    for step in 1..50 {
        let mut copy = first.clone();
        let until = 250 * MS + step * 333;
        copy.run_until(until + 10_000).unwrap();
        first.run_until(until).unwrap();
        let mut again = first.clone();
        again.run_until(until + 10_000).unwrap();
        assert_eq!(copy.event_hash(), again.event_hash());
    }
}

/// 100 wakeups of a task that preempts its waker, on one CPU.
fn preempting_wakeups(machine: Machine) -> [u64; 2] {
    let mut workload = Workload::default();
    let semaphore = workload.add_semaphore(0);
    let idle = workload.add_attributes(schedcast_sim::workload::AttributesSpec {
        policy: Some((schedcast_kernel::task::Policy::Idle, 0)),
        ..Default::default()
    });
    task(&mut workload, "waker", 0, |b| {
        b.set_attributes(idle);
        b.sleep(MS);
        b.set(Reg(0), 100);
        let top = b.here();
        b.work(1000);
        b.sem_post(semaphore);
        b.loop_back(Reg(0), top);
    });
    task(&mut workload, "wakee", 0, |b| {
        b.set(Reg(0), 100);
        let top = b.here();
        b.sem_wait(semaphore);
        b.loop_back(Reg(0), top);
    });
    let mut world = world((6, 18), machine, workload);
    world.run_until(20 * MS).unwrap();
    ["waker", "wakee"].map(|name| world.probes().of(name).unwrap().charged_ns)
}

#[test]
fn what_comes_after_the_clock_is_charged_to_the_wakee() {
    use schedcast_kernel::platform::Op;
    let mut machine = machine([1, 1, 1, 1], "");
    let mut price = |op: Op, ns| machine.cost_ns[op as usize] = ns;
    price(Op::Syscall, 100);
    price(Op::Wakeup, 10);
    price(Op::WakeupEnd, 200);
    price(Op::Block, 5);
    // All of a call is paid before the clock is read. The waker: a call, one that sleeps, the end
    // of its wakeup, and 100 times its work, a call and a wakeup until the clock. The wakee: 100
    // sleeps and the ends of 100 wakeups.
    let [waker, wakee] = preempting_wakeups(machine.clone());
    assert_eq!(waker, 100 + 105 + 200 + 100 * (1000 + 100 + 10));
    assert_eq!(wakee, 100 * (105 + 200));
    // With a way out of a call of its own the sums stay: each side pays its own calls, from their
    // begin to their end.
    machine.syscall_exit_ns = 60;
    assert_eq!(preempting_wakeups(machine), [waker, wakee]);
}

/// Leaves after a thousandth of the stay.
const DEEPER_AND_DEEPER: &str = r#"
[idle]
governor = "menu"
[[idle.state]]
name = "POLL"
exit_latency_ns = 0
target_residency_ns = 0
wakes_by = "polling"
[[idle.state]]
name = "halt"
exit_latency_ns = 1_000
target_residency_ns = 1_000
exit_after_stay_ns = [[0, 0], [100_000_000, 100_000]]
wakes_by = "interrupt"
"#;

#[test]
fn a_stay_that_was_looked_at_takes_as_long_to_leave() {
    let woken = |look_ns: &[u64]| {
        let mut workload = Workload::default();
        task(&mut workload, "t", 0, |b| {
            b.sleep(30 * MS);
            b.mark(0);
        });
        let mut world = world((6, 18), machine([1, 1, 1, 1], DEEPER_AND_DEEPER), workload);
        for &at_ns in look_ns {
            world.run_until(at_ns).unwrap();
            let time = world.cpu_time(Cpu(0));
            assert_eq!(time.idle_ns, at_ns, "all of it is counted");
        }
        world.run_until(100 * MS).unwrap();
        us(&world)
    };
    // 30 ms asleep, so 30 us to leave; from the looks on it would be 10 and 1 us.
    assert_eq!(woken(&[]), [(30_030, 0)]);
    assert_eq!(woken(&[20 * MS]), [(30_030, 0)]);
    assert_eq!(woken(&[20 * MS, 29 * MS]), [(30_030, 0)]);
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
    let mut workload = Workload::default();
    for cpu in 0..2 {
        task(&mut workload, "t", cpu, |b| {
            b.work(10 * MS);
            b.mark(cpu as u16);
        });
    }
    let mut world = world((6, 12), machine, workload);
    world.run_until(100 * MS).unwrap();
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

#[test]
fn isolated_cpus_take_nothing_that_is_not_sent_there() {
    let isolated = "isolated = \"2-3\"\n";
    let text = preset_text().replace("[topology]\n", &format!("[topology]\n{isolated}"));
    let machine = Machine::parse("m", &text).unwrap().free_of_charge();
    let mut workload = Workload::default();
    let hog = common::program(&mut workload, |b| {
        b.work(100 * MS);
        b.mark(1);
    });
    for number in 0..8 {
        let name = format!("t{number}");
        workload.add_task(schedcast_sim::workload::TaskSpec::new(name, hog));
    }
    task(&mut workload, "sent", 2, |b| {
        b.work(50 * MS);
        b.mark(0);
    });
    let mut world = world((6, 18), machine, workload);
    world.run_until(200 * MS).unwrap();
    // The one that was sent to CPU 2 has it alone. Eight others share six CPUs: 800 ms of work take
    // 133 ms at least, where seven CPUs would do it in 121.
    let ends = us(&world);
    assert_eq!(ends[0], (50_000, 0));
    assert!(ends.len() == 9 && ends[8].0 >= 133_333, "{ends:?}");
}

#[test]
fn a_list_of_isolated_cpus_leaves_one() {
    let error = |list: &str| {
        let text = preset_text().replace(
            "[topology]\n",
            &format!("[topology]\nisolated = \"{list}\"\n"),
        );
        Machine::parse("m", &text).unwrap_err().message
    };
    assert_eq!(
        error("0-7"),
        "topology.isolated is \"0-7\": which leaves no CPU for everything else"
    );
    assert!(
        error("8").starts_with("topology.isolated is \"8\": "),
        "{}",
        error("8")
    );
}
