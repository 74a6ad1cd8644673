//! Latency of a recorded service under every limit that is worth considering: latency against the
//! quota, a line for each burst.
//!
//! ```text
//! recording ──► Bench (the one that `advise` searches with) ──► Frontier ──► page, plot on a terminal, SVG, CSV, JSON
//!                  quotas from what the service uses to where no limit begins
//!                × bursts of nothing, a half and the whole of the recorded quota
//! ```
//!
//! Worked example: `recordings/postgres-quota` uses 0.37 CPUs and has 50 ms in 100 ms. Below 37 ms
//! it would fall behind, so the first quota is 37 ms; at 100 ms the p99 is within a tenth of what
//! it is without a limit, so that is the last. Seven quotas, those that were really measured among
//! them, with bursts of 0, 25 and 50 ms, and no limit at all, are 22 limits.
//!
//! With a promise the last quota is the first that keeps each promised figure, or, where it is not
//! kept without a limit either, has it as without one.

mod files;

use serde::Serialize;

use crate::Case;
use crate::judge::{self, Forecast};
use crate::price::{self, Price};
use crate::search::Bench;
use crate::slo::Slo;
use schedcast_base::limits::CpuLimits;
use schedcast_lab::answer::LATENCY_FIGURES;
use schedcast_lab::comparison::Comparison;
use schedcast_lab::context::RefitFigure;
use schedcast_lab::drift::Drifting;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::{Experiment, Scenario};
use schedcast_lab::metrics;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::resimulated::{bound_ns, is_partial, refit};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::verdict;

/// Name and version of the JSON form.
pub const SCHEMA: &str = "schedcast.frontier/1";
/// Percentiles of the service's latency that are drawn, the one that is shown first last.
const PERCENTILES: [&str; 3] = ["p50", "p95", "p99"];
/// About how many limits a frontier has: seven quotas with three bursts, and those that find where
/// quotas end.
pub const LIMITS_ABOUT: u64 = 24;
/// Quotas between the first and the last, both of them included.
const QUOTAS: u32 = 6;
/// Two quotas nearer than this ratio are one point of a line.
const NEAR: f64 = 1.06;
/// A latency so near to that without a limit gets no better with more quota.
const AS_WITHOUT: f64 = 1.1;

/// The latency under a grid of limits.
#[derive(Clone, Debug, Serialize)]
pub struct Frontier {
    /// Always `schedcast.frontier/1`.
    pub schema: &'static str,
    /// The group whose limit varies.
    pub target: String,
    /// Runs of each limit.
    pub seeds: u32,
    /// CPUs' worth of time that the group used on average in the recording.
    pub used_cpus: f64,
    /// The recorded limit.
    pub recorded: CpuLimits,
    /// Measures of a point's values: the percentiles of the latency, then the other promised
    /// metrics.
    pub measures: Vec<Measure>,
    /// One for each burst, the smallest first.
    pub lines: Vec<Line>,
    /// Without any limit.
    pub unlimited: Point,
    /// Measured values under limits with the recorded period.
    pub measured: Vec<MeasuredPoint>,
}

/// Something that is drawn against the quota.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// Full name of the metric.
    pub metric: String,
    /// Name without the threads: `request_latency.p99`.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Value that the recording itself shows, where it shows one.
    pub seen: Option<f64>,
    /// Promised bound, if there is a promise.
    pub promised: Option<f64>,
    /// Whether a smaller value keeps a promise.
    pub from_above: bool,
}

/// The points with one burst.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The burst in µs, or as much of it as the quota of a point allows.
    pub burst_us: u64,
    /// By quota, the smallest first.
    pub points: Vec<Point>,
}

/// One limit.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The limit.
    #[serde(flatten)]
    pub limit: CpuLimits,
    /// One for each measure; null where a run has no such value.
    pub values: Vec<Option<Value>>,
    /// Why the service does not keep up with its requests; null where it does.
    pub falls_behind: Option<String>,
    /// The neighbour that loses most; null without neighbours.
    pub price: Option<Price>,
    /// Share of the active periods that ended throttled.
    pub periods_throttled: f64,
}

/// Forecast under one limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Value {
    /// Mean over seeds.
    pub mean: f64,
    /// The mean is a lower bound.
    pub at_least: bool,
    /// 95 % interval of one run, stretched by what the re-simulated recording missed.
    pub interval: [f64; 2],
}

/// Measurement under one limit.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredPoint {
    /// The limit.
    #[serde(flatten)]
    pub limit: CpuLimits,
    /// Median, least and most for each measure, where that was measured.
    pub values: Vec<Option<[f64; 3]>>,
}

impl Line {
    /// Name of the line: `burst 25 ms`.
    pub fn name(&self) -> String {
        match self.burst_us {
            0 => "no burst".to_string(),
            burst_us => format!("burst {} ms", burst_us as f64 / 1000.0),
        }
    }
}

impl Frontier {
    /// The measure that is drawn unless another is asked for: what is promised, else the rarest
    /// percentile.
    pub fn first_measure(&self) -> usize {
        let promised = self.measures.iter().position(|one| one.promised.is_some());
        promised.unwrap_or(PERCENTILES.len() - 1)
    }

    /// Every point, that without a limit last.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        let lines = self.lines.iter().flat_map(|line| &line.points);
        lines.chain([&self.unlimited])
    }
}

/// The frontier of a question about a recording; `None` where it is about nothing that has one: an
/// experiment, a group without threads, one seed, which has no band. `fit` is how far the
/// re-simulated recording is from the recorded run.
///
/// # Errors
/// Promises that cannot be read; what the simulation refuses.
pub fn frontier(
    question: &Question,
    experiment: &Experiment,
    (slos, fit): (&[String], &[RefitFigure]),
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Option<Frontier>> {
    let (Subject::Recording(recorded), Some(target)) = (&question.subject, question.target()?)
    else {
        return Ok(None);
    };
    let (baseline, seeds) = (&experiment.scenarios[0], experiment.seeds);
    let known = recorded.seen.latency(&target).is_some();
    if !known || seeds < 2 || !baseline.cgroups.contains_key(&target) {
        return Ok(None);
    }
    // A promise is read with its value; those of the percentiles only name them.
    let percentiles = PERCENTILES.iter().map(|name| format!("{name}<1s"));
    let named: Vec<String> = percentiles.chain(slos.iter().cloned()).collect();
    let case = Case::of(question, &named, baseline)?;
    case.refuse_unknown(baseline, seeds, simulator)?;
    let drifting = Drifting::of(recorded, &target, simulator, seeds);
    let mut bench = Bench::new(drifting, finished, baseline, &case.target, &case.promises);
    let fit = judge::with_shares(fit.to_vec(), &case.promises);
    bench.fit.clone_from(&fit);
    bench.run_ns = bound_ns(experiment, recorded);
    let limit = baseline.limits_of(&target);
    let whole = !is_partial(experiment, recorded);
    let runs = bench.runs(limit)?.clone();
    for slo in &case.promises {
        judge::refuse_unreported(slo, &runs.plain)?;
    }
    bench.need = case.need(runs.hardest(), limit, whole);
    let measured = if whole {
        measured(recorded, limit)
    } else {
        Vec::new()
    };
    let quotas = quotas(&mut bench, limit, &measured)?;
    let lines = bursts(&bench, limit, &quotas);
    let mut limits = vec![limit];
    for burst_us in &lines {
        limits.extend(quotas.iter().map(|quota_us| {
            CpuLimits::new(*quota_us, limit.period_us, (*burst_us).min(*quota_us))
        }));
    }
    limits.push(without(limit));
    let mut points = points(&mut bench, recorded, &limits)?.into_iter().skip(1);
    let mut measures: Vec<Measure> = Vec::new();
    for (row, slo) in case.promises.iter().enumerate() {
        let promised = (row >= PERCENTILES.len()).then_some(slo.limit);
        let seen = fit.iter().find(|one| one.metric == slo.metric);
        measures.push(Measure {
            metric: slo.metric.clone(),
            name: slo.metric.rsplit('/').next().unwrap_or("").to_string(),
            unit: metrics::parse(&slo.metric).map_or("", |metric| metric.unit()),
            seen: seen.map(|one| one.seen),
            promised,
            from_above: slo.bound.from_above(),
        });
    }
    let mut lines: Vec<Line> = lines
        .iter()
        .map(|burst_us| Line {
            burst_us: *burst_us,
            points: points.by_ref().take(quotas.len()).collect(),
        })
        .collect();
    lines.sort_by_key(|line| line.burst_us);
    let Some(unlimited) = points.next() else {
        return Ok(None);
    };
    let mut frontier = Frontier {
        schema: SCHEMA,
        measured: measured
            .into_iter()
            .map(|one| beside(one, &measures))
            .collect(),
        used_cpus: bench.need.as_ref().map_or(0.0, |need| need.cpus),
        recorded: limit,
        target,
        seeds,
        measures,
        lines,
        unlimited,
    };
    frontier.merge_promises();
    Ok(Some(frontier))
}

/// The frontier of a recording alone, with the misfit of its recorded limit.
///
/// # Errors
/// A recording without a group whose limit is in question, or one that cannot be drawn; else as
/// [`frontier`].
pub fn of_recording(
    question: &Question,
    experiment: &Experiment,
    slos: &[String],
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Frontier> {
    judge::refuse_few(experiment.seeds as usize)?;
    let (Subject::Recording(recorded), Some(target)) = (&question.subject, question.target()?)
    else {
        return Err(
            Error::usage("it is not clear which group's limits are in question")
                .hint("name it with --cgroup PATH"),
        );
    };
    if let Some(why) = recorded.seen.idle(&target) {
        return Err(Error::general(why));
    }
    let fit = refit(recorded, &target, experiment, simulator, finished)?;
    let found = frontier(question, experiment, (slos, &fit), simulator, finished)?;
    found.ok_or_else(|| Error::usage(format!("{target} has no threads whose latency is known")))
}

impl Frontier {
    /// A promise of a percentile that is drawn anyway belongs to that percentile.
    fn merge_promises(&mut self) {
        let mut row = PERCENTILES.len();
        while row < self.measures.len() {
            let metric = self.measures[row].metric.clone();
            let Some(first) = self.measures[..row]
                .iter()
                .position(|one| one.metric == metric)
            else {
                row += 1;
                continue;
            };
            let promise = self.measures.remove(row);
            self.measures[first].promised = promise.promised;
            self.measures[first].from_above = promise.from_above;
            let lines = self.lines.iter_mut().flat_map(|line| &mut line.points);
            for point in lines.chain([&mut self.unlimited]) {
                point.values.remove(row);
            }
            for point in &mut self.measured {
                point.values.remove(row);
            }
        }
    }
}

fn without(limit: CpuLimits) -> CpuLimits {
    CpuLimits {
        quota_us: None,
        burst_us: 0,
        ..limit
    }
}

/// Whether a forecast is as good as that without a limit, or nearly.
fn is_as_without(slo: &Slo, here: &Forecast, free: &Forecast) -> bool {
    let (Some(here), Some(free)) = (here.mean, free.mean) else {
        return false;
    };
    match slo.bound.from_above() {
        true => here <= AS_WITHOUT * free,
        false => AS_WITHOUT * here >= free,
    }
}

/// Quotas from what the service uses to where more of it does not help, evenly in their ratio, with
/// the recorded one and those that were measured.
fn quotas<S: Simulate, F: Fn() + Sync>(
    bench: &mut Bench<'_, S, F>,
    recorded: CpuLimits,
    measured: &[&schedcast_trace::Setting],
) -> Result<Vec<u64>> {
    let (step_us, steps) = bench.quotas(recorded.period_us);
    let (first, last) = (*steps.start(), (*steps.end()).max(*steps.start()));
    let slos = bench.slos;
    let is_promised = slos.len() > PERCENTILES.len();
    // The promised ones, else the rarest percentile alone.
    let told = PERCENTILES.len() - usize::from(!is_promised);
    let without_limit = bench.forecasts(without(recorded))?;
    let begin = recorded.quota_us.map_or(first, |us| us / step_us);
    let mut top = begin.clamp(first, last);
    while top < last {
        let limit = CpuLimits::new(top * step_us, recorded.period_us, 0);
        let forecasts = bench.forecasts(limit)?;
        let mut rows = slos
            .iter()
            .zip(forecasts.iter().zip(&without_limit))
            .skip(told);
        if rows.all(|(slo, (here, free))| match is_promised {
            true => here.met || !free.met && is_as_without(slo, here, free),
            false => is_as_without(slo, here, free),
        }) {
            break;
        }
        top = (2 * top).min(last);
    }
    let fixed = measured
        .iter()
        .filter_map(|one| one.limits.quota_us)
        .chain(recorded.quota_us);
    let mut quotas: Vec<u64> = fixed.collect();
    let ratio = top as f64 / first.max(1) as f64;
    for row in 0..QUOTAS {
        let share = f64::from(row) / f64::from(QUOTAS - 1);
        let quota_us = (first as f64 * ratio.powf(share)).round() as u64 * step_us;
        let is_near = |one: &u64| {
            let (one, other) = (*one as f64, quota_us as f64);
            one.max(other) / one.min(other).max(1.0) < NEAR
        };
        if !quotas.iter().any(is_near) {
            quotas.push(quota_us);
        }
    }
    quotas.sort_unstable();
    quotas.dedup();
    Ok(quotas)
}

/// Bursts of nothing, a half and the whole of the recorded quota (of the first one where no limit
/// was recorded), and the recorded one.
fn bursts<S: Simulate, F: Fn() + Sync>(
    bench: &Bench<'_, S, F>,
    recorded: CpuLimits,
    quotas: &[u64],
) -> Vec<u64> {
    let whole = recorded.quota_us.or(quotas.first().copied()).unwrap_or(0);
    let largest = bench.largest_burst(CpuLimits {
        quota_us: Some(whole),
        ..recorded
    });
    let whole = largest.map_or(0, |limit| limit.burst_us);
    let mut bursts = vec![0, whole / 2, whole, recorded.burst_us];
    bursts.sort_unstable();
    bursts.dedup();
    bursts
}

/// Points of all limits; the first is the baseline of prices.
fn points<S: Simulate, F: Fn() + Sync>(
    bench: &mut Bench<'_, S, F>,
    recorded: &Recorded,
    limits: &[CpuLimits],
) -> Result<Vec<Point>> {
    let target = bench.target;
    let members = recorded.seen.members.get(target);
    let members = members.cloned().unwrap_or_default();
    let scenario = |(row, limit): (usize, &CpuLimits)| {
        bench.baseline.with_limits(target, *limit, &row.to_string())
    };
    let scenarios: Vec<Scenario> = limits.iter().enumerate().map(scenario).collect();
    let first = bench.runs(limits[0])?.plain.clone();
    let baseline = Comparison::new("", &scenarios[..1], &[first])?;
    let length_s = recorded.length_ns as f64 / 1e9;
    let watched = price::watched(
        &baseline.variants[0],
        &members,
        &recorded.seen.brief,
        length_s,
    );
    let counters = ["nr_periods", "nr_throttled"].map(|name| format!("cgroup:{target}/{name}"));
    let mut outcomes: Vec<Vec<Outcome>> = Vec::new();
    for limit in limits {
        let mut runs = bench.runs(*limit)?.plain.clone();
        for run in &mut runs {
            run.metrics
                .retain(|name, _| watched.contains(name) || counters.contains(name));
        }
        outcomes.push(runs);
    }
    let comparison = Comparison::new("", &scenarios, &outcomes)?;
    let mut points = Vec::new();
    for (limit, variant) in limits.iter().zip(&comparison.variants) {
        let values = bench.forecasts(*limit)?.into_iter().map(|forecast| {
            Some(Value {
                mean: forecast.mean?,
                at_least: forecast.at_least,
                interval: forecast.interval?,
            })
        });
        points.push(Point {
            limit: *limit,
            values: values.collect(),
            falls_behind: bench.pace(*limit)?.1,
            price: price::highest(&comparison, variant, &watched),
            periods_throttled: verdict::periods_throttled(variant, target),
        });
    }
    Ok(points)
}

/// Settings that were really measured and differ from the recorded one in quota and burst alone.
fn measured(recorded: &Recorded, limit: CpuLimits) -> Vec<&schedcast_trace::Setting> {
    let settings = recorded.measured.iter().flat_map(|all| &all.settings);
    settings
        .filter(|one| one.limits.period_us == limit.period_us)
        .collect()
}

/// Measured value of each measure.
fn beside(setting: &schedcast_trace::Setting, measures: &[Measure]) -> MeasuredPoint {
    let value = |measure: &Measure| {
        let mut names = LATENCY_FIGURES.iter();
        // Measured values are about the service's main threads, as the percentiles are.
        let threads = measures[0].metric.strip_suffix(&measures[0].name)?;
        let (figure, ..) = names.find(|(_, latency, suffix)| {
            measure.metric == format!("{threads}{latency}.{suffix}")
        })?;
        let figure = setting.figures.get(*figure)?;
        Some([figure.median, figure.min, figure.max].map(|ms| ms * 1000.0))
    };
    MeasuredPoint {
        limit: setting.limits,
        values: measures.iter().map(value).collect(),
    }
}

#[cfg(test)]
mod tests;
