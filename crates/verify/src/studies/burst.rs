//! `burst`: unused quota carried over (Linux 5.14).
//!
//! The workload posts two requests every 200 ms and each spins 80 ms of wall time: 160 ms of CPU
//! time out of the 200 ms that two periods of 100 ms allow. The result depends on where in the
//! period they come. Worked example: they come 60 ms after a refill. Two CPUs use 80 ms up to the
//! next refill, and 80 ms after it: no thread waits. They come 20 ms after one: the quota is gone
//! at 70 ms, both sleep until 100 ms, and when they wake only 80 − 80 = 0 ms of their 80 ms of wall
//! time are left: throttled, but no thread is late. They come 10 ms *before* a refill: 20 ms are
//! used by then, another 100 up to 50 ms after it, and the throttle lasts until 100 ms after it:
//! 110 ms of wall time for a spin of 80, late by 30.

use schedcast_kernel::Ns;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;
use schedcast_sim::histogram::Histogram;

use super::bench::uniform_draws;
use super::published::{Kernel, Question};
use super::{Bench, Given};

mod cpu_time;

const PERIOD_NS: Ns = 100_000_000;
/// A tail: some request waited more than this, µs.
const TAIL_US: f64 = 1000.0;
/// Phases that are tried for the printed run.
const PHASES: usize = 100;

/// Predicts the study.
pub(super) fn predict(given: &mut Given) -> Result<()> {
    let [base, burst] = given.variants("")?;
    uniform_phases(&base, &burst, given)?;
    printed_run(&base, given)?;
    let largest_us = cpu_time::largest_latency_us(&base, given.bench)?;
    given
        .prediction
        .figure("largest_latency_cpu_time", largest_us / 1000.0);
    Ok(())
}

/// The scenario with its program started so long after a refill.
fn started(scenario: &Scenario, start_ns: Ns) -> Scenario {
    let mut scenario = scenario.clone();
    for program in &mut scenario.programs {
        program.start_ns = start_ns;
    }
    scenario
}

fn at_starts(scenario: &Scenario, starts: &[Ns], bench: &Bench) -> Result<Vec<Outcome>> {
    let jobs = starts
        .iter()
        .map(|&start_ns| (started(scenario, start_ns), 0));
    bench.run(&jobs.collect::<Vec<_>>())
}

fn latency(outcome: &Outcome, suffix: &str) -> f64 {
    outcome.value(&format!("schbench-classic/request_latency.{suffix}"))
}

fn is_throttled(outcome: &Outcome) -> bool {
    outcome.value("cgroup:/test/nr_throttled") > 0.0
}

fn has_tail(outcome: &Outcome) -> bool {
    latency(outcome, "p99") > TAIL_US
}

/// Share of the runs for which something holds, in per cent.
fn percent(runs: &[Outcome], holds: impl Fn(&Outcome) -> bool) -> f64 {
    100.0 * runs.iter().filter(|run| holds(run)).count() as f64 / runs.len() as f64
}

fn largest_us(runs: &[Outcome], suffix: &str) -> f64 {
    let all = runs.iter().map(|run| latency(run, suffix));
    all.fold(0.0, f64::max)
}

/// Runs that start anywhere in the period, with and without burst.
fn uniform_phases(base: &Scenario, burst: &Scenario, given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    let starts = uniform_draws(bench.pick(1000, 100), PERIOD_NS, 1);
    let without = at_starts(base, &starts, bench)?;
    let with = at_starts(burst, &starts, bench)?;
    let throttled = percent(&without, is_throttled);
    let tail = percent(&without, has_tail);
    let throttled_burst = percent(&with, is_throttled);
    prediction.figure("runs_throttled", throttled);
    prediction.figure("runs_with_tail", tail);
    prediction.figure("throttled_without_tail", throttled - tail);
    prediction.figure("largest_latency", largest_us(&without, "max") / 1000.0);
    prediction.figure("runs_throttled_burst", throttled_burst);
    prediction.figure("largest_p99_burst", largest_us(&with, "p99") / 1000.0);
    for question in known.questions() {
        let value = match (question.metric.as_str(), question.kernel) {
            ("runs_throttled", Kernel::Base) => throttled,
            ("runs_throttled", Kernel::Patched) => throttled_burst,
            ("runs_with_long_tail", Kernel::Base) => tail,
            _ => continue,
        };
        prediction.answer(question, value / 10.0, None);
    }
    let over_phase = |runs: &[Outcome], suffix: &str| {
        let phases = starts.iter().map(|&start_ns| start_ns as f64 / 1e6);
        let points = phases.zip(runs);
        let points = points.map(|(phase, run)| (phase, latency(run, suffix) / 1000.0));
        points.collect()
    };
    let across = "start of the program after a refill, ms";
    prediction.axes(across, "request latency, ms");
    prediction.series("burst 0, largest", over_phase(&without, "max"));
    prediction.series("burst 0, p50", over_phase(&without, "p50"));
    prediction.series("burst 100 ms, largest", over_phase(&with, "max"));
    Ok(())
}

/// The printed run: its phase from its p50 and maximum, its other percentiles predicted.
fn printed_run(base: &Scenario, given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    let printed = |name: &'static str| {
        let metric = format!("request_latency.{name}");
        known.mean("the phase", |asked| asked.metric == metric)
    };
    let (p50, max) = (printed("p50")?, printed("max")?);
    let distance =
        |run: &Outcome| (latency(run, "p50") - p50).abs() + (latency(run, "max") - max).abs();
    let nearest = |starts: &[Ns]| -> Result<(Ns, Outcome)> {
        let runs = at_starts(base, starts, bench)?;
        let pairs = starts.iter().copied().zip(runs);
        let best = pairs.min_by(|left, right| distance(&left.1).total_cmp(&distance(&right.1)));
        best.ok_or_else(|| Error::general("no phase was tried"))
    };
    let coarse = (0..PHASES as Ns).map(|part| part * PERIOD_NS / PHASES as Ns);
    let (start_ns, _) = nearest(&coarse.collect::<Vec<_>>())?;
    // 2 ms around the best of them, in steps of 20 µs.
    let begin_ns = start_ns + PERIOD_NS - 1_000_000;
    let fine = (0..100).map(|step| (begin_ns + step * 20_000) % PERIOD_NS);
    let (start_ns, run) = nearest(&fine.collect::<Vec<_>>())?;
    let from = "p50 and maximum of the printed run";
    prediction.constant("start after a refill", start_ns as f64 / 1e6, "ms", from);
    // Half of the cycles lie between median and maximum.
    let cycles = latency(&run, "count") / 2.0;
    let drift_us = (latency(&run, "max") - latency(&run, "p50")) / (cycles / 2.0);
    prediction.figure("drift", drift_us);
    for question in known.questions() {
        if let Some(value) = printed_value(&run, question) {
            prediction.answer(question, value, None);
        }
    }
    Ok(())
}

/// Value of the run for a row of the printed table.
fn printed_value(run: &Outcome, question: &Question) -> Option<f64> {
    match question.metric.as_str() {
        "rps" => Some(run.value("schbench-classic/rps")),
        name => Some(latency(run, name.strip_prefix("request_latency.")?)),
    }
}

/// The largest value of a distribution in µs, 0 if it is empty.
fn largest_of(values: &Histogram) -> f64 {
    values.max().unwrap_or(0) as f64 / 1000.0
}
