//! Answers that can be worked out by hand, on the rules of 6.18. The live kernel's answers to the
//! same questions are in `docs/validation/known-answers-6.18.md`.

mod common;

use common::*;
use schedcast_kernel::GroupId;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_sim::workload::{GroupSpec, TaskSpec};
use schedcast_sim::{Reg, Workload, World};

const PERIOD_MS: u64 = 100;
const TICK_NS: u64 = 4 * MS;

fn limited(quota_ms: u64, burst_ms: u64) -> GroupSpec {
    GroupSpec {
        limit: BandwidthLimit::of_ms(quota_ms, PERIOD_MS, burst_ms),
        period_phase_ns: Some(0),
        ..GroupSpec::new("/limited", GroupId::ROOT)
    }
}

/// Responses of a job that needs 30 ms of CPU once a second, under 13 ms of every 100, when it
/// arrives `phase_ms` after an expiry of the period timer.
fn job_responses(phase_ms: u64, burst_ms: u64) -> Vec<u64> {
    let mut workload = Workload::default();
    let group = workload.add_group(limited(13, burst_ms));
    let (due, response) = (Reg(0), workload.add_metric("job/response"));
    let program = program(&mut workload, |b| {
        // Two seconds for the first refills, so that a burst buffer is full.
        b.set(due, 2000 * MS + phase_ms * MS);
        let top = b.here();
        b.sleep_until(due);
        b.work(30 * MS);
        b.record_since(response, due);
        b.add(due, 1000 * MS);
        b.jump(top);
    });
    workload.add_task(TaskSpec {
        group,
        ..pinned("job", program, 0)
    });
    let world = free_world(2, workload).ran_until(12_000 * MS);
    let values = &world.probes().metric("job/response").unwrap().values;
    assert_eq!(values.count(), 10, "one response a second");
    vec![values.min().unwrap(), values.max().unwrap()]
}

/// Jobs end by hand at `end_ms` after the expiry before they came, less the overrun: charging
/// happens at ticks only, so what runs beyond a grant until the next tick, less than a tick for
/// each of two grants, is work done early.
fn ends_as_by_hand(last_phase_ms: u64, burst_ms: u64, end_ms: u64) {
    for phase_ms in (1..=last_phase_ms).step_by(2) {
        for response in job_responses(phase_ms, burst_ms) {
            let by_hand = (end_ms - phase_ms) * MS;
            assert!(
                response <= by_hand + MS / 10 && response + 2 * TICK_NS > by_hand,
                "phase {phase_ms} ms: {} us, by hand {} us less the overrun",
                response / US,
                by_hand / US
            );
        }
    }
}

/// Three periods pay 13 + 13 + 4 ms: it ends 4 ms into the third refill.
#[test]
fn a_30_ms_job_under_13_of_100_ms_answers_in_204_ms_less_its_phase() {
    ends_as_by_hand(87, 0, 204);
}

/// A full burst buffer adds 13 ms to the first grant: 26 + 4 ms, one period earlier.
#[test]
fn a_burst_of_13_ms_saves_it_a_period() {
    ends_as_by_hand(74, 13, 104);
}

/// The burst's file is written after the quota's and each write refills, so 13 + 13 ms are there at
/// once; with the quota's alone 13. (A group that was given 15 ms and a burst of 15 used 30 in its
/// first period for real.)
#[test]
fn a_group_begins_with_its_burst() {
    for (burst_ms, expected_ms) in [(0, 13), (5, 18), (13, 26)] {
        let mut workload = Workload::default();
        workload.add_group(limited(13, burst_ms));
        let world = free_world(2, workload);
        let bandwidth = &world.kernel().groups[1].bandwidth;
        assert_eq!(bandwidth.runtime_ns, expected_ms * MS);
    }
}

fn hog(workload: &mut Workload, name: &str, cpu: u32, group: GroupId, nice: i32) {
    let program = program(workload, |b| {
        let top = b.here();
        b.work(1000 * MS);
        b.jump(top);
    });
    workload.add_task(TaskSpec {
        group,
        nice,
        ..pinned(name, program, cpu)
    });
}

fn run_share(world: &World, name: &str, of: &str) -> f64 {
    let run_ns = |name: &str| world.probes().of(name).unwrap().run_ns as f64;
    run_ns(name) / (run_ns(name) + run_ns(of))
}

/// Weights 100 and 300 on one CPU: a quarter and three quarters.
#[test]
fn groups_share_a_cpu_by_weight() {
    let mut workload = Workload::default();
    for (name, shares) in [("light", 1024), ("heavy", 3072)] {
        let group = workload.add_group(GroupSpec {
            shares,
            ..GroupSpec::new(format!("/{name}"), GroupId::ROOT)
        });
        hog(&mut workload, name, 0, group, 0);
    }
    let world = free_world(2, workload).ran_until(60_000 * MS);
    let share = run_share(&world, "light", "heavy");
    assert!((share - 0.25).abs() <= 0.005, "{share}");
}

/// Weights 1024 and 335.
#[test]
fn nice_5_gets_335_parts_against_1024() {
    let mut workload = Workload::default();
    hog(&mut workload, "nice 0", 0, GroupId::ROOT, 0);
    hog(&mut workload, "nice 5", 0, GroupId::ROOT, 5);
    let world = free_world(1, workload).ran_until(60_000 * MS);
    let share = run_share(&world, "nice 5", "nice 0");
    assert!((share - 335.0 / 1359.0).abs() <= 0.005, "{share}");
}

/// Two hogs use 50 ms up in 25; both CPUs are then throttled for the remaining 75.
#[test]
fn two_hogs_with_half_a_cpu_are_throttled_150_ms_of_every_period() {
    let mut workload = Workload::default();
    let group = workload.add_group(limited(50, 0));
    hog(&mut workload, "hog", 0, group, 0);
    hog(&mut workload, "hog", 1, group, 0);
    let world = free_world(2, workload).ran_until(30_000 * MS);
    let stat = world.kernel().groups[group].bandwidth.stat;
    assert!(stat.nr_periods >= 299, "{stat:?}");
    assert!(stat.nr_throttled + 1 >= stat.nr_periods, "{stat:?}");
    let per_period_ms = stat.throttled_time_ns as f64 / 1e6 / stat.nr_throttled as f64;
    assert!((per_period_ms - 150.0).abs() <= 1.5, "{per_period_ms}");
    // An overrun of a period is paid back: in the long run exactly the quota is used.
    let usage_ms = world.kernel().group_usage_ns(group) as f64 / 1e6;
    assert!((usage_ms - 300.0 * 50.0).abs() <= 60.0, "{usage_ms}");
}
