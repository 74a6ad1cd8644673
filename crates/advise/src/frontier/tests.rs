//! A frontier of a toy, and one that is drawn.

use std::path::Path;

use super::*;
use crate::slo::{Scope, Slo};
use schedcast_base::assert_in;
use schedcast_lab::recording::Latency;

/// A service whose latency falls with its quota and its burst, as do requests that finish below
/// 45 ms.
struct Toy;

impl Simulate for Toy {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let limit = scenario.limits_of("/pg");
        let granted_us = limit.quota_us.unwrap_or(1_000_000) + limit.burst_us / 2;
        let latency_us = 10_000.0 + 4e8 / granted_us as f64 + seed as f64;
        let mut metrics = std::collections::BTreeMap::new();
        for (row, percentile) in PERCENTILES.iter().enumerate() {
            let name = format!("postgres/request_latency.{percentile}");
            metrics.insert(name, latency_us * (row + 1) as f64);
        }
        metrics.insert("postgres/request_latency.count".to_string(), 1170.0);
        metrics.insert("pgbench/cpu_time".to_string(), 3.0);
        metrics.insert("cgroup:/pg/nr_periods".to_string(), 295.0);
        let throttled = 100_000_u64.saturating_sub(granted_us) as f64 / 1000.0;
        metrics.insert("cgroup:/pg/nr_throttled".to_string(), throttled);
        metrics.insert("cgroup:/pg/throttled_ratio".to_string(), throttled / 295.0);
        Ok(Outcome {
            event_hash: seed,
            metrics,
            ..Outcome::default()
        })
    }
}

fn postgres() -> Question {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    Question {
        seeds: Some(3),
        ..Question::of(Subject::Recording(Recorded::open(&folder).unwrap()))
    }
}

fn toy_runs() -> Drifting<'static, Toy> {
    Drifting {
        simulator: &Toy,
        drift_permille: 0,
        rare: None,
        length_ns: 0,
        seeds: 3,
    }
}

fn toy_frontier(slos: &[&str]) -> Result<Option<Frontier>> {
    let question = postgres();
    let experiment = question.experiment().unwrap();
    let slos: Vec<String> = slos.iter().map(ToString::to_string).collect();
    frontier(&question, &experiment, (&slos, &[]), &Toy, &|| {})
}

#[test]
fn quotas_reach_from_what_is_used_to_where_more_does_not_help() {
    let found = toy_frontier(&[]).unwrap().unwrap();
    assert_in!(found.used_cpus, 0.366..0.368);
    let bursts: Vec<u64> = found.lines.iter().map(|line| line.burst_us).collect();
    assert_eq!(bursts, [0, 25_000, 50_000]);
    let quotas = |line: &Line| -> Vec<u64> {
        let quotas = line.points.iter().filter_map(|point| point.limit.quota_us);
        quotas.collect()
    };
    let first = quotas(&found.lines[0]);
    assert!(first.is_sorted() && first.contains(&50_000), "{first:?}");
    for measured in [60_000, 80_000] {
        assert!(first.contains(&measured), "{first:?}");
    }
    // Without a limit the toy's p99 is 31.2 ms. At 200 ms it is 36.0 ms, still more than a tenth
    // above that, but the machine has no third CPU to grant.
    assert_eq!(first.last(), Some(&200_000));
    assert_eq!(quotas(&found.lines[2]), first);
    let narrow = &found.lines[2].points[0].limit;
    assert_eq!(
        Some(narrow.burst_us),
        narrow.quota_us,
        "no burst above the quota"
    );
    for line in &found.lines {
        let means: Vec<f64> = line
            .points
            .iter()
            .filter_map(|point| Some(point.values[2]?.mean))
            .collect();
        assert_eq!(means.len(), first.len());
        assert!(means.is_sorted_by(|one, next| one >= next), "{means:?}");
    }
    assert!(found.unlimited.values[2].unwrap().mean < 40_000.0);
    let price = found.unlimited.price.as_ref().unwrap();
    assert_eq!((price.threads.as_str(), price.growth), ("pgbench", 0.0));
}

#[test]
fn what_is_measured_stands_beside_what_is_simulated() {
    let found = toy_frontier(&["p95<40ms"]).unwrap().unwrap();
    assert_eq!(found.measures.len(), 3, "p95 is drawn anyway");
    assert_eq!(found.first_measure(), 1);
    assert_eq!(found.measures[1].promised, Some(40_000.0));
    let at = |quota_us: Option<u64>, burst_us: u64| {
        let mut points = found.measured.iter();
        let limit =
            |one: &&MeasuredPoint| (one.limit.quota_us, one.limit.burst_us) == (quota_us, burst_us);
        points.find(limit).unwrap().values[1].unwrap()[0]
    };
    assert!((at(Some(50_000), 25_000) - 21_020.0).abs() < 10.0);
    assert!(
        found
            .measured
            .iter()
            .all(|one| one.limit.period_us == 100_000)
    );
    let rows = found.csv();
    assert_eq!(rows.lines().count(), 1 + found.points().count());
    let width = |line: &str| line.matches(',').count();
    let mut lines = rows.lines();
    let head = width(lines.next().unwrap());
    assert!(lines.all(|line| width(line) == head), "{rows}");
}

/// A miss of it widens its band, as it does in `check`.
#[test]
fn a_promised_share_is_held_against_the_recorded_one() {
    let question = postgres();
    let experiment = question.experiment().unwrap();
    let figure = |name: &str, predicted, seen| {
        RefitFigure::new(format!("cgroup:/pg/{name}"), predicted, seen)
    };
    let fit = [
        figure("nr_throttled", 59.0, 118.0),
        figure("nr_periods", 295.0, 295.0),
    ];
    let slos = ["throttled_ratio<50%".to_string()];
    let found = frontier(&question, &experiment, (&slos, &fit), &Toy, &|| {});
    let found = found.unwrap().unwrap();
    let share = &found.measures[PERCENTILES.len()];
    assert_eq!(share.seen, Some(0.4));
}

#[test]
fn a_promise_that_nothing_reports_is_refused() {
    let error = toy_frontier(&["wakeup_latency.p99<1ms"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("wakeup_latency"), "{error}");
}

/// A service of which no need is known may have 1 ms in 100 ms, the least that a kernel takes, to
/// 200 ms, all of 2 CPUs: the quotas between are 200 to the power of 0, 1/5, 2/5, 3/5, 4/5 and 1,
/// with the recorded one.
#[test]
fn quotas_are_evenly_apart_in_their_ratio_from_one_step_on() {
    let question = postgres();
    let experiment = question.experiment().unwrap();
    let baseline = &experiment.scenarios[0];
    let named = PERCENTILES.map(|name| format!("{name}<1s"));
    let case = Case::of(&question, &named, baseline).unwrap();
    let finished = || {};
    let mut bench = Bench::new(toy_runs(), &finished, baseline, "/pg", &case.promises);
    let recorded = baseline.limits_of("/pg");
    let found = quotas(&mut bench, recorded, &[]).unwrap();
    let ms = [1, 3, 8, 24, 50, 69, 200];
    assert_eq!(found, ms.map(|ms| ms * 1000));
}

/// A p99 that the limit does not move, and a p50 that is better without one.
struct Promised;

impl Simulate for Promised {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut outcome = Toy.run(scenario, seed)?;
        let p99 = "postgres/request_latency.p99".to_string();
        outcome.metrics.insert(p99, 500_000.0);
        Ok(outcome)
    }
}

/// The toy's p50 is 18 ms under 50 ms in 100, and 10.4 ms without a limit.
#[test]
fn quotas_reach_to_where_more_does_not_help_what_is_promised() {
    let last = |slos: &[&str]| {
        let question = postgres();
        let experiment = question.experiment().unwrap();
        let slos: Vec<String> = slos.iter().map(ToString::to_string).collect();
        let found = frontier(&question, &experiment, (&slos, &[]), &Promised, &|| {});
        let found = found.unwrap().unwrap();
        let last = found.lines[0].points.last().unwrap();
        last.limit.quota_us
    };
    // 80 ms were measured.
    assert_eq!(last(&[]), Some(80_000));
    assert_eq!(last(&["p50<11ms"]), Some(200_000));
}

#[test]
fn a_kernel_without_bursts_has_one_line() {
    let question = postgres();
    let mut experiment = question.experiment().unwrap();
    experiment.scenarios[0].kernel.rules.burst = false;
    let found = frontier(&question, &experiment, (&[], &[]), &Toy, &|| {});
    let lines = found.unwrap().unwrap().lines;
    let bursts: Vec<u64> = lines.iter().map(|line| line.burst_us).collect();
    assert_eq!(bursts, [0]);
}

/// The toy's p50 is 10 ms and 400 s over what is granted in µs: 18 ms as recorded, with 50 ms. For
/// 15 ms, with some 7 µs for the seeds, 80.2 ms are needed, in any period, and for 20 ms 40.1. A
/// burst counts half.
#[test]
fn the_least_change_that_keeps_the_promise_is_recommended() {
    let advice = |promise: &str| {
        let question = postgres();
        let experiment = question.experiment().unwrap();
        let baseline = &experiment.scenarios[0];
        let case = Case::of(&question, &[promise.to_owned()], baseline).unwrap();
        let finished = || {};
        let mut bench = Bench::new(toy_runs(), &finished, baseline, "/pg", &case.promises);
        let recorded = baseline.limits_of("/pg");
        let limits = crate::look_for(&mut bench, recorded, &|_| {}).unwrap();
        crate::build(&question, &case, &mut bench, &limits, None).unwrap()
    };
    let kept = advice("p50<20ms");
    assert!(kept.options[0].suits);
    assert_eq!(kept.recommended.as_deref(), Some("quota 41ms"));
    let raised = advice("p50<15ms");
    let limits: Vec<_> = raised
        .options
        .iter()
        .map(|one| {
            (
                one.limit.quota_us,
                one.limit.period_us,
                one.limit.burst_us,
                one.suits,
            )
        })
        .collect();
    let expected = [
        (Some(50_000), 100_000, 0, false),
        (Some(81_000), 100_000, 0, true),
        (Some(50_000), 100_000, 50_000, false),
        (Some(85_000), 500_000, 0, true),
        (None, 100_000, 0, true),
    ];
    assert_eq!(limits, expected);
    assert_eq!(raised.recommended.as_deref(), Some("quota 81ms"));
}

/// The toy reports requests only, so that a promise taken for one about replies becomes one about
/// activations; a promise that names replies stays.
#[test]
fn replies_that_no_run_reports_are_activations() {
    let question = postgres();
    let experiment = question.experiment().unwrap();
    let baseline = &experiment.scenarios[0];
    let mut case = Case::of(&question, &["p95<1s".to_owned()], baseline).unwrap();
    let replies = Latency::new("postgres", Latency::REPLY);
    let scope = Scope {
        threads: Some("postgres"),
        latency: Some(Latency::REPLY),
        cgroup: None,
    };
    let promises = ["p95<1s", "reply_latency.p50<1s"].map(|text| Slo::parse(text, scope).unwrap());
    (case.latency, case.promises) = (Some(replies), promises.to_vec());
    case.settle(baseline, &Toy).unwrap();
    let metrics: Vec<&str> = case
        .promises
        .iter()
        .map(|slo| slo.metric.as_str())
        .collect();
    assert_eq!(
        metrics,
        [
            "postgres/activation_latency.p95",
            "postgres/reply_latency.p50"
        ]
    );
    assert_eq!(case.latency.unwrap().name, Latency::ACTIVATION);
    assert!(case.note.unwrap().contains("its simulation none"));
}
