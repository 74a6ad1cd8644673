//! Whether a promise is kept, with how much confidence.
//!
//! A forecast is the mean over seeds with the 95 % interval of *one* run: what is promised must
//! hold when it is measured once, with the periods wherever they happen to fall and with work that
//! drifts as it did in the recording. The mean is that of runs without drift. Where the recording
//! shows the same figure for the recorded limit, the interval is stretched by what the
//! re-simulation of that limit missed, to both sides, for under another limit the miss may be the
//! other way. Worked example: recorded p99 160 ms, re-simulated 152 ms; a run under another limit
//! is expected within 70 … 74 ms. The simulation was 5.3 % too low, so the ends become 66.5 and
//! 77.9 ms. A promise `< 75 ms` is not kept with confidence.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::slo::Slo;
use schedcast_base::limits::CpuLimits;
use schedcast_lab::context::RefitFigure;
use schedcast_lab::drift::Runs;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::metrics;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::possible::Run;
use schedcast_lab::statistics::{MeanKind, least_upper_end, mean, prediction_interval_of_all};
use schedcast_lab::trust::Misses;

/// Forecast for one promise under one limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Full name of the metric.
    pub metric: String,
    /// Unit of the values.
    pub unit: String,
    /// Mean over seeds; absent where a run has no such value.
    pub mean: Option<f64>,
    /// The mean is a lower bound, for in some run the percentile falls among what had not finished.
    /// No promise of less is kept then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// 95 % interval of one run, stretched by the misfit of the re-simulated recording.
    pub interval: Option<[f64; 2]>,
    /// Whether the whole interval keeps the promise.
    pub met: bool,
    /// The recording itself breaks the promise, under a limit that grants at least as much: no
    /// simulation says more than that. Or the limit helps only clients that keep a schedule, and
    /// the recording does not tell whether they do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuted: bool,
}

impl Forecast {
    /// Whether the mean keeps the promise, whatever single runs do.
    pub(crate) fn is_kept_on_average(&self, slo: &Slo) -> bool {
        let unbounded = self.at_least && slo.bound.from_above();
        !self.refuted && !unbounded && self.mean.is_some_and(|mean| slo.keeps(mean))
    }

    /// Whether some run in its interval keeps the promise.
    fn may_be_kept(&self, slo: &Slo) -> bool {
        let better = usize::from(!slo.bound.from_above());
        !self.refuted && self.interval.is_some_and(|ends| slo.keeps(ends[better]))
    }

    /// The end of the interval that is worse for `slo`, in multiples of what it allows.
    pub(super) fn strain(&self, slo: &Slo) -> f64 {
        match (self.interval, slo.bound.from_above()) {
            _ if self.at_least => f64::INFINITY,
            (Some([_, high]), true) if slo.limit > 0.0 => high / slo.limit,
            (Some([low, _]), false) if low > 0.0 => slo.limit / low,
            (Some(_), _) if self.met => 0.0,
            _ => f64::INFINITY,
        }
    }
}

/// Whether the means of all promises keep them.
pub(crate) fn are_kept_on_average(slos: &[Slo], forecasts: &[Forecast]) -> bool {
    let mut pairs = slos.iter().zip(forecasts);
    pairs.all(|(slo, forecast)| forecast.is_kept_on_average(slo))
}

/// Whether some runs may keep all promises.
pub(crate) fn may_be_kept(slos: &[Slo], forecasts: &[Forecast]) -> bool {
    let mut pairs = slos.iter().zip(forecasts);
    pairs.all(|(slo, forecast)| forecast.may_be_kept(slo))
}

/// Forecasts that `runs` under the second of `limits`, each of which is such a `run`, give for all
/// promises, beside what the recording shows under the recorded limit, the first of them.
///
/// # Errors
/// Fewer than two runs.
pub(crate) fn forecasts(
    slos: &[Slo],
    runs: &Runs,
    fit: &[RefitFigure],
    run: Run,
    limits: (CpuLimits, CpuLimits),
) -> Result<Vec<Forecast>> {
    let forecasts = slos.iter().map(|slo| forecast(slo, runs, fit, run));
    let mut forecasts: Vec<Forecast> = forecasts.collect::<Result<_>>()?;
    for (forecast, slo) in forecasts.iter_mut().zip(slos) {
        if is_refuted(slo, fit, limits) {
            forecast.refuted = true;
            forecast.met = false;
        }
    }
    Ok(forecasts)
}

/// Whether what the recording shows under `recorded`, which grants at least as much as `limit`,
/// refutes any forecast that keeps `slo`. Worked example: under 60 ms a p99 of 124 ms was recorded,
/// and 58 ms are simulated with one of 99.6 ms. That is no hope of a p99 below 100 ms.
pub(crate) fn is_refuted(
    slo: &Slo,
    fit: &[RefitFigure],
    (recorded, limit): (CpuLimits, CpuLimits),
) -> bool {
    let mut seen = fit.iter().filter(|one| one.metric == slo.metric);
    recorded.covers(limit) && slo.bound.from_above() && seen.any(|one| !slo.keeps(one.seen))
}

/// Whether a forecast from `seeds` runs with drift breaks `slo` whatever the others show, once
/// these `runs` are known: its interval reaches [so far](least_upper_end) at least.
///
/// Worked example: a p95 below 100 ms is promised, and the two hardest of ten runs show 130 and 160
/// ms. The interval ends at 155 ms or more; for 155 the other eight would have to show 123 each.
pub(crate) fn is_broken_by(
    slo: &Slo,
    runs: &[Outcome],
    seeds: u32,
    fit: &[RefitFigure],
    run: Run,
) -> bool {
    let values = runs.iter().map(|one| slo.value_in(one, run.length_ns));
    let Some(values) = values.collect::<Option<Vec<f64>>>() else {
        return true;
    };
    if !slo.bound.from_above() {
        return false;
    }
    // Sums in another order end in other last digits.
    let least = least_upper_end(&values, seeds as usize) * (1.0 - 1e-9);
    let stretched = Misses::of(fit).moved_apart_by_any([least; 2], &slo.metric);
    let [_, high] = run.cut_of(stretched, &slo.metric, runs.iter());
    runs.iter().any(|run| run.at_least.contains(&slo.metric)) || !slo.keeps(high)
}

/// Adds the promised shares of throttled periods, which follow from the two numbers of the group.
pub(crate) fn with_shares(mut fit: Vec<RefitFigure>, slos: &[Slo]) -> Vec<RefitFigure> {
    let groups = slos
        .iter()
        .filter_map(|slo| slo.metric.strip_suffix("/throttled_ratio"));
    for group in groups.map(str::to_string).collect::<BTreeSet<_>>() {
        let figure = |file: &str| {
            let name = format!("{group}/{file}");
            fit.iter().find(|one| one.metric == name)
        };
        let (Some(throttled), Some(periods)) = (figure("nr_throttled"), figure("nr_periods"))
        else {
            continue;
        };
        let share = |number: f64, of: f64| if of > 0.0 { number / of } else { 0.0 };
        let drawn = |number: f64| share(number, periods.predicted);
        fit.push(RefitFigure {
            metric: format!("{group}/throttled_ratio"),
            predicted: drawn(throttled.predicted),
            seen: share(throttled.seen, periods.seen),
            inferred: false,
            chance: throttled.chance.map(|ends| ends.map(drawn)),
        });
    }
    fit
}

/// A promised figure that the re-simulated recording misses by more than this factor refuses
/// advice. A p99 may be off by as much [inside its band](schedcast_lab::trust): half of what was
/// recorded.
const MISFIT_MAX: f64 = 2.0;

/// Whether the re-simulation of the recorded limit misleads about `slo`: it keeps the promise and
/// the recording breaks it, or the other way round, or it is off by more than [`MISFIT_MAX`].
///
/// A smaller miss widens the interval that must keep the promise. Worked example: a p99 of 4.1 ms
/// was recorded and 6.8 ms simulated, 1.65 times as much. For a promise of 5 ms they disagree. For
/// one of 20 ms they do not, and another limit keeps it with a simulated interval up to 12.1 ms.
pub(crate) fn is_misjudged(slo: &Slo, fit: &[RefitFigure]) -> bool {
    let mut own = fit.iter().filter(|one| one.metric == slo.metric);
    own.any(|one| slo.keeps(one.judged()) != slo.keeps(one.seen) || one.factor() > MISFIT_MAX)
}

/// Refuses a promise about something that the runs do not report.
///
/// # Errors
/// The metric, with the nearest that is reported.
pub(crate) fn refuse_unreported(slo: &Slo, outcomes: &[Outcome]) -> Result<()> {
    let mut reported = outcomes.iter().flat_map(|outcome| outcome.metrics.keys());
    if reported.any(|name| *name == slo.metric) {
        return Ok(());
    }
    let first = outcomes.first().map(|outcome| outcome.metrics.keys());
    let names: Vec<&str> = first.into_iter().flatten().map(String::as_str).collect();
    Err(slo.unreported(&names))
}

/// Percentiles that may be promised instead of one that has too few values, the highest first.
const LOWER_PERCENTILES: [&str; 4] = ["p95", "p90", "p75", "p50"];

/// Refuses a promise about a percentile that single values decide: `outcomes` under the recorded
/// limit have fewer than it needs. Worked example: a p99 of 27 replies is the slowest of them; it
/// takes 100 before one lies above it.
///
/// # Errors
/// How many there are and how many it takes.
pub(crate) fn refuse_few_values(slo: &Slo, outcomes: &[Outcome], hint: &str) -> Result<()> {
    let Some(metric) = metrics::parse(&slo.metric) else {
        return Ok(());
    };
    let mean_of = |suffix: &str| {
        let name = metric.beside(suffix);
        let values = outcomes.iter().filter_map(|run| run.metrics.get(&name));
        let values: Vec<f64> = values.copied().collect();
        mean(MeanKind::Arithmetic, &values)
    };
    let Some(finished) = mean_of(metrics::COUNT) else {
        return Ok(());
    };
    let all = finished + mean_of(metrics::UNFINISHED).unwrap_or(0.0);
    let needed = metric.values_needed();
    if all >= needed {
        return Ok(());
    }
    let message = format!(
        "`{}` rests on {all:.0} values in this recording, so that single values decide it: it needs {needed:.0}",
        slo.metric
    );
    let longer = (needed / all.max(1.0)).ceil();
    let lower = LOWER_PERCENTILES.iter().find_map(|suffix| {
        let name = metric.beside(suffix);
        let lower = metrics::parse(&name)?;
        (lower.values_needed() <= all).then(|| format!(" or promise {suffix}"))
    });
    let lower = lower.unwrap_or_default();
    Err(slo
        .error(message)
        .hint(format!("record {longer:.0} times as long{lower}{hint}")))
}

/// Refuses fewer runs than an interval needs.
///
/// # Errors
/// One run, or none.
pub fn refuse_few(runs: usize) -> Result<()> {
    match runs {
        0 | 1 => {
            Err(Error::usage("one seed gives no confidence interval")
                .hint("--seeds takes 2 or more"))
        }
        _ => Ok(()),
    }
}

/// Forecast that `runs` give for `slo`, each of which is such a `run`.
///
/// # Errors
/// Fewer than two runs.
fn forecast(slo: &Slo, runs: &Runs, fit: &[RefitFigure], run: Run) -> Result<Forecast> {
    refuse_few(runs.plain.len())?;
    let metric = metrics::parse(&slo.metric);
    let mut forecast = Forecast {
        metric: slo.metric.clone(),
        unit: metric.map_or("", |metric| metric.unit()).to_string(),
        at_least: runs.all().any(|run| run.at_least.contains(&slo.metric)),
        ..Forecast::default()
    };
    let value = |one: &Outcome| slo.value_in(one, run.length_ns);
    let Some((mean, interval)) = expected(&slo.metric, value, runs, fit, run) else {
        return Ok(forecast);
    };
    forecast.mean = mean;
    forecast.interval = interval;
    let Some(interval) = interval else {
        return Ok(forecast);
    };
    let unbounded = forecast.at_least && slo.bound.from_above();
    forecast.met = !unbounded && slo.keeps(interval[usize::from(slo.bound.from_above())]);
    Ok(forecast)
}

/// Mean of the `value` of `metric` in runs without drift, and the interval of one run to come;
/// `None` where a run has none.
fn expected(
    metric: &str,
    value: impl Fn(&Outcome) -> Option<f64>,
    runs: &Runs,
    fit: &[RefitFigure],
    run: Run,
) -> Option<(Option<f64>, Option<[f64; 2]>)> {
    let values = |runs: &[Outcome]| -> Option<Vec<f64>> { runs.iter().map(&value).collect() };
    let (values, drifted) = values(&runs.plain).zip(values(&runs.drifted))?;
    let kind = metrics::parse(metric).map_or(MeanKind::Arithmetic, |one| one.family.mean_kind());
    let mean = mean(kind, &values);
    let interval = prediction_interval_of_all(&[values, drifted]).map(|spread| {
        let ends = [spread.low, spread.high];
        let stretched = Misses::of(fit).moved_apart_by_any(ends, metric);
        run.cut_of(stretched, metric, runs.all())
    });
    Some((mean, interval))
}

/// Share of the periods of `group` that are throttled at most in 95 of 100 `runs` to come: from the
/// interval that a promise of their number is held against.
pub(crate) fn throttled_at_most(group: &str, runs: &Runs, fit: &[RefitFigure], run: Run) -> f64 {
    let of_file = |file: &str| {
        let metric = format!("cgroup:{group}/{file}");
        expected(
            &metric,
            |run| run.metrics.get(&metric).copied(),
            runs,
            fit,
            run,
        )
    };
    let periods = of_file("nr_periods").and_then(|(mean, _)| mean);
    let throttled = of_file("nr_throttled");
    let most = throttled.and_then(|(_, interval)| interval);
    match (most, periods) {
        (Some([_, most]), Some(periods)) if periods > 0.0 => (most / periods).min(1.0),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    use crate::slo::Scope;

    const P99: &str = "a/activation_latency.p99";

    fn runs(values: &[f64]) -> Runs {
        let outcome = |value: &f64| Outcome {
            event_hash: 0,
            metrics: [(P99.to_string(), *value)].into(),
            ..Outcome::default()
        };
        Runs {
            plain: values.iter().map(outcome).collect(),
            drifted: Vec::new(),
        }
    }

    const RUN: Run = Run {
        length_ns: 30_000_000_000,
        cpus: 2,
    };

    fn forecast(slo: &Slo, runs: &Runs, fit: &[RefitFigure]) -> Result<Forecast> {
        super::forecast(slo, runs, fit, RUN)
    }

    fn slo(text: &str) -> Slo {
        let scope = Scope {
            threads: Some("a"),
            ..Scope::default()
        };
        Slo::parse(text, scope).unwrap()
    }

    #[test]
    fn a_mean_below_the_promise_is_not_enough() {
        let slo = slo("p99<75ms");
        let tight = forecast(&slo, &runs(&[72_000.0; 5]), &[]).unwrap();
        assert!(
            tight.met && tight.interval == Some([72_000.0; 2]),
            "{tight:?}"
        );
        let spread = forecast(&slo, &runs(&[60_000.0, 84_000.0, 72_000.0]), &[]).unwrap();
        assert!(spread.mean == Some(72_000.0) && !spread.met, "{spread:?}");
        let alone = forecast(&slo, &runs(&[1.0]), &[]).unwrap_err();
        assert_eq!(alone.exit_code(), 2);
        let mut starved = runs(&[60_000.0, 60_000.0]);
        starved.plain[1].metrics.clear();
        let starved = forecast(&slo, &starved, &[]).unwrap();
        assert_eq!((starved.mean, starved.met), (None, false));
    }

    /// 5 of 100 periods are throttled on average, and 9 in one run.
    #[test]
    fn throttled_periods_are_told_at_most_as_a_promise_of_them_is_judged() {
        let with = |throttled: &f64| {
            let periods = ("cgroup:/a/nr_periods".to_string(), 100.0);
            let throttled = ("cgroup:/a/nr_throttled".to_string(), *throttled);
            Outcome {
                metrics: [periods, throttled].into(),
                ..Outcome::default()
            }
        };
        let runs = Runs {
            plain: [5.0, 5.0, 4.0, 6.0].iter().map(with).collect(),
            drifted: [1.0, 9.0, 2.0, 8.0].iter().map(with).collect(),
        };
        let scope = Scope {
            cgroup: Some("/a"),
            ..Scope::default()
        };
        let promise = Slo::parse("nr_throttled<10", scope).unwrap();
        let [_, most] = forecast(&promise, &runs, &[]).unwrap().interval.unwrap();
        assert!(most > 9.0, "{most}");
        assert_eq!(throttled_at_most("/a", &runs, &[], RUN), most / 100.0);
        assert_eq!(throttled_at_most("/b", &runs, &[], RUN), 0.0);
    }

    #[test]
    fn two_hard_runs_break_a_promise_for_all_ten() {
        let broken = |promise: &str, values: &[f64]| {
            is_broken_by(&slo(promise), &runs(values).plain, 10, &[], RUN)
        };
        assert!(broken("p99<75ms", &[76_000.0, 90_000.0]));
        assert!(broken("p99<75ms", &[75_000.0, 75_100.0]));
        assert!(broken("p99<75ms", &[60_000.0, 90_000.0]), "they spread");
        assert!(!broken("p99<75ms", &[74_000.0, 74_900.0]));
        assert!(!broken("p99<75ms", &[]), "nothing was run");
        let mut unknown = runs(&[60_000.0; 2]).plain;
        unknown[0].at_least.insert(P99.to_string());
        assert!(
            is_broken_by(&slo("p99<75ms"), &unknown, 10, &[], RUN),
            "a lower bound"
        );
        unknown[1].metrics.clear();
        assert!(
            is_broken_by(&slo("p99<75ms"), &unknown, 10, &[], RUN),
            "no value"
        );
    }

    #[test]
    fn a_mean_keeps_a_promise_that_single_runs_break() {
        let slo = slo("p99<75ms");
        let kept = |values: &[f64]| {
            let forecast = forecast(&slo, &runs(values), &[]).unwrap();
            (forecast.is_kept_on_average(&slo), forecast.met)
        };
        assert_eq!(kept(&[60_000.0, 84_000.0, 72_000.0]), (true, false));
        assert_eq!(kept(&[80_000.0, 84_000.0, 72_000.0]), (false, false));
    }

    /// 27 replies have no p99, and a p95.
    #[test]
    fn a_percentile_of_too_few_values_is_refused() {
        let with = |count: f64, unfinished: f64| {
            let mut runs = runs(&[60_000.0; 3]);
            for run in &mut runs.plain {
                let mut put = |suffix: &str, value| {
                    let name = format!("a/activation_latency.{suffix}");
                    run.metrics.insert(name, value);
                };
                put("count", count);
                put("unfinished", unfinished);
            }
            runs.plain
        };
        let refused = |promise: &str, runs: &[Outcome]| {
            let told = refuse_few_values(&slo(promise), runs, "; --force");
            told.map_err(|error| error.to_string()).err()
        };
        let told = refused("p99<50ms", &with(26.0, 1.0)).unwrap();
        assert_contains(&told, ["rests on 27 values", "it needs 100"]);
        assert_contains(&told, "record 4 times as long or promise p95; --force");
        assert_eq!(refused("p95<50ms", &with(26.0, 1.0)), None);
        assert_eq!(refused("p99<50ms", &with(99.0, 1.0)), None);
        assert_eq!(
            refused("p99<50ms", &runs(&[1.0; 2]).plain),
            None,
            "the number is unknown"
        );
    }

    /// 12 and 28 s of a run of 30 s.
    #[test]
    fn no_interval_is_longer_than_the_run() {
        let wide = forecast(&slo("p99<75ms"), &runs(&[12e6, 28e6]), &[]).unwrap();
        assert_eq!(wide.interval, Some([0.0, 30e6]));
    }

    #[test]
    fn a_promised_share_of_throttled_periods_has_the_fit_of_its_numbers() {
        let fit = |file: &str, predicted, seen| {
            RefitFigure::new(format!("cgroup:/pg/{file}"), predicted, seen)
        };
        let figures = vec![
            fit("nr_throttled", 30.0, 20.0),
            fit("nr_periods", 200.0, 100.0),
        ];
        let scope = Scope {
            cgroup: Some("/pg"),
            ..Scope::default()
        };
        let promised = [Slo::parse("throttled_ratio<5%", scope).unwrap()];
        assert_eq!(
            (promised[0].metric.as_str(), promised[0].limit),
            ("cgroup:/pg/throttled_ratio", 0.05)
        );
        let all = with_shares(figures.clone(), &promised);
        assert_eq!(all[2], fit("throttled_ratio", 0.15, 0.2));
        assert_eq!(with_shares(figures, &[slo("p99<75ms")]).len(), 2);
    }

    #[test]
    fn the_mean_is_without_drift_and_the_interval_with_it() {
        let drifting = Runs {
            drifted: runs(&[60_000.0, 84_000.0]).plain,
            ..runs(&[70_000.0, 70_000.0])
        };
        let told = forecast(&slo("p99<75ms"), &drifting, &[]).unwrap();
        assert_eq!(
            told.mean,
            Some(70_000.0),
            "72 ms is the mean of runs with drift"
        );
        let [low, high] = told.interval.unwrap();
        assert!(low < 60_000.0 && high > 84_000.0 && !told.met, "{told:?}");
        let steady = forecast(&slo("p99<75ms"), &runs(&[70_000.0; 2]), &[]).unwrap();
        assert!(steady.met, "{steady:?}");
    }

    #[test]
    fn a_lower_bound_keeps_no_promise_of_less() {
        let mut starved = runs(&[1_000.0; 3]);
        starved.plain[2].at_least =
            [starved.plain[2].metrics.keys().next().unwrap().clone()].into();
        let starved = forecast(&slo("p99<75ms"), &starved, &[]).unwrap();
        assert!(starved.at_least && !starved.met, "{starved:?}");
        assert_eq!(starved.strain(&slo("p99<75ms")), f64::INFINITY);
    }

    #[test]
    fn what_the_resimulation_misses_is_allowed_for() {
        let fit = |predicted| RefitFigure::new(P99, predicted, 160_000.0);
        let slo = slo("p99<75ms");
        let outcomes = runs(&[72_000.0; 4]);
        let low = forecast(&slo, &outcomes, &[fit(150_000.0)]).unwrap();
        assert_eq!((low.interval, low.met), (Some([67_500.0, 76_800.0]), false));
        let high = forecast(&slo, &outcomes, &[fit(200_000.0)]).unwrap();
        assert_eq!(
            (high.interval, high.met),
            (Some([57_600.0, 90_000.0]), false)
        );
    }

    #[test]
    fn a_promise_is_misjudged_on_the_other_side_of_it_or_by_more_than_twice() {
        let misjudged = |promise: &str, predicted_us: f64| {
            is_misjudged(
                &slo(promise),
                &[RefitFigure::new(P99, predicted_us, 4_100.0)],
            )
        };
        assert!(!misjudged("p99<20ms", 6_784.0), "1.65 times");
        assert!(misjudged("p99<5ms", 6_784.0), "4.1 ms keeps 5 ms");
        assert!(misjudged("p99<20ms", 8_201.0) && !misjudged("p99<20ms", 8_200.0));
        assert!(misjudged("p99<20ms", 2_049.0) && !misjudged("p99<20ms", 2_050.0));
        assert!(misjudged("p99<20ms", 0.0), "nothing is simulated");
        assert!(
            !is_misjudged(&slo("p99<20ms"), &[]),
            "the recording does not show it"
        );
    }

    #[test]
    fn a_poor_fit_of_another_figure_widens_every_promise() {
        let poor = RefitFigure::new("cgroup:/pg/nr_throttled", 50.0, 100.0);
        let widened = forecast(&slo("p99<75ms"), &runs(&[72_000.0; 4]), &[poor]).unwrap();
        assert_eq!(
            (widened.interval, widened.met),
            (Some([36_000.0, 144_000.0]), false)
        );
    }

    #[test]
    fn what_is_seen_and_not_predicted_at_all_is_allowed_for_too() {
        let fit = |predicted, seen| [RefitFigure::new(P99, predicted, seen)];
        let slo = slo("p99<75ms");
        let outcomes = runs(&[72_000.0; 4]);
        let missed = forecast(&slo, &outcomes, &fit(0.0, 10_000.0)).unwrap();
        assert_eq!(
            (missed.interval, missed.met),
            (Some([62_000.0, 82_000.0]), false)
        );
        let nothing = forecast(&slo, &runs(&[0.0; 4]), &fit(5.0, 0.0)).unwrap();
        assert_eq!(nothing.interval, Some([0.0, 5.0]));
        let both = forecast(&slo, &outcomes, &fit(0.0, 0.0)).unwrap();
        assert_eq!((both.interval, both.met), (Some([72_000.0; 2]), true));
    }

    /// Recorded are 124 ms under 60 ms of quota, where 100 are promised.
    #[test]
    fn a_smaller_limit_than_one_that_broke_the_promise_is_no_hope() {
        let slos = [slo("p99<100ms")];
        let fit = [RefitFigure::new(&slos[0].metric, 105e3, 124e3)];
        let [recorded, less, more] =
            [60_000, 58_000, 62_000].map(|quota_us| CpuLimits::new(quota_us, 100_000, 0));
        let is_kept = |limit: CpuLimits, fit: &[RefitFigure]| {
            let runs = runs(&[80e3; 4]);
            let forecasts = forecasts(&slos, &runs, fit, RUN, (recorded, limit)).unwrap();
            assert_eq!(forecasts[0].met, are_kept_on_average(&slos, &forecasts));
            forecasts[0].met
        };
        assert!(!is_kept(less, &fit) && !is_kept(recorded, &fit));
        assert!(is_kept(more, &fit) && is_kept(less, &[]));
    }

    /// The worse end of the interval decides: 90 ms where 75 are promised, 20 periods where at
    /// least 30 are.
    #[test]
    fn strain_is_how_many_times_too_bad_the_worse_end_is() {
        let strain = |promise: &str, low: f64, high: f64| {
            let forecast = Forecast {
                mean: Some(low),
                interval: Some([low, high]),
                ..Forecast::default()
            };
            forecast.strain(&slo(promise))
        };
        assert_eq!(strain("p99<75ms", 60_000.0, 90_000.0), 90.0 / 75.0);
        assert_eq!(
            strain("activation_latency.count>30", 20.0, 60.0),
            30.0 / 20.0
        );
        assert_eq!(
            strain("activation_latency.count>30", 0.0, 60.0),
            f64::INFINITY
        );
    }
}
