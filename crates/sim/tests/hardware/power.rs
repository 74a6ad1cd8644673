//! Clocks, idle states and power.

use schedcast_base::assert_in;
use schedcast_kernel::Cpu;
use schedcast_sim::{Workload, World};

use super::common::{MS, Mark, Ran, task, world};
use super::{machine, us};

pub(crate) const IDLE: &str = r#"
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

pub(crate) const POWER: &str = r#"
[power]
active = [{ mhz = 1000, core_mw = 2000 }, { mhz = 3000, core_mw = 8000 }]
further_thread_percent = 0
uncore_mw = 3000
interval_ns = 10_000_000
"#;

pub(crate) fn frequency(rest: &str) -> String {
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
    let mut world = world((6, 18), machine([1, 1, 1, 1], IDLE), workload).ran_until(100 * MS);
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
        let mut world = world(version, machine([1, 1, 2, 1], IDLE), workload).ran_until(50 * MS);
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
    let mut world = world((6, 1), machine([1, 1, 2, 1], IDLE), workload).ran_until(100 * MS);
    let report = world.hardware_report().unwrap();
    assert_in!(report.cpus[1].mean.busy, 0.09..0.12, "{report:?}");
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
        let world =
            world((6, 18), machine([1, 1, 1, 1], &part), workload.clone()).ran_until(100 * MS);
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
    let world = world((6, 18), machine([1, 1, 2, 1], &part), workload).ran_until(100 * MS);
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
        let mut world = world((6, 18), machine([1, 1, 8, 1], &part), workload).ran_until(1000 * MS);
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
