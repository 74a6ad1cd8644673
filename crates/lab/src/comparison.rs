//! Variants side by side: the object behind every table and behind `--json`.
//!
//! [`Comparison::new`] takes one metric map for each variant and seed and computes means, intervals
//! and, for every variant but the first, the change against it. The JSON form is versioned:
//! `schedcast.comparison/1`. Keys keep their order, numbers are written in the shortest form that
//! reads back the same, and a value that does not exist is `null`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::bisect::Bisection;
use crate::context::RefitFigure;
use crate::error::Error;
use crate::experiment::Scenario;
use crate::experiment::kernel::KernelSettings;
use crate::experiment::program::{Action, Program};
use crate::experiment::units::quote_word;
use crate::late::{LateInterval, Source};
use crate::metrics::{self, Better, Metric};
use crate::outcome::{Outcome, combine_hashes};
use crate::possible::{self, Run};
use crate::statistics::{
    Bootstrap, Interval, chaos_floor, mean, prediction_interval_of_all, standard_deviation,
};
use crate::trust::Misses;

/// Name and version of the JSON form.
pub(crate) const SCHEMA: &str = "schedcast.comparison/1";

/// A whole comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Always `schedcast.comparison/1`.
    pub schema: String,
    /// Title of the experiment; empty if it has none.
    pub title: String,
    /// Version of the program that computed this.
    pub schedcast: String,
    /// Runs of each variant, with the seeds 0 to seeds − 1.
    pub seeds: u32,
    /// Quality of an answer that starts from a recording; absent for experiments without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// Warnings that a reader needs before the numbers, a sentence each; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Name of the variant that the others are compared with: the first.
    pub baseline: String,
    /// The variants in the order of the experiment.
    pub variants: Vec<Variant>,
    /// Which changes between the last two variants' kernels make the difference; absent if not
    /// asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bisection: Option<Bisection>,
    /// The same between the kernels before, pair by pair; absent if nobody asked about three.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier_bisections: Vec<Bisection>,
}

schedcast_base::named! {
    /// Basis of an answer from a recording.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Tier {
        /// Recorded events, replayed.
        Trace = "trace",
        /// A workload distilled from a recording.
        Profile = "profile",
        /// Counters only: the answer is a range.
        Counters = "counters",
    }
}

/// Repeats of one metric on the real machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredFigure {
    /// Median of the repeats.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// One variant.
#[derive(Clone, Debug, Serialize)]
pub struct Variant {
    /// Its name, unique in the comparison.
    pub name: String,
    /// The kernel, with the keys of the experiment file's `[kernel]`.
    pub kernel: KernelSettings,
    /// The machine.
    pub machine: ShownMachine,
    /// The programs, in the order of the experiment.
    pub programs: Vec<ShownProgram>,
    /// Virtual time that was asked for, ns; null where a run ends with its programs, or as a
    /// recording does.
    pub duration_ns: Option<u64>,
    /// Hash over all events of all seeds, 16 hexadecimal digits: equal runs have equal hashes.
    pub event_hash: String,
    /// Every metric of the variant by name: programs first, then cgroups, then the machine.
    #[serde(serialize_with = "in_order")]
    pub metrics: Vec<(String, Summary)>,
}

/// The machine of a variant, for a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownMachine {
    /// Name or path of the preset that it was made of.
    pub preset: String,
    /// Number of its CPUs.
    pub cpus: usize,
}

/// A program of a variant, for a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownProgram {
    /// Its name in metrics.
    pub name: String,
    /// Its command line, or the folder of the recording that is replayed; null for a profile.
    pub run: Option<String>,
    /// The cgroup that it starts in.
    pub cgroup: String,
}

impl ShownProgram {
    fn of(program: &Program) -> Self {
        let run = match &program.action.value {
            Action::Run(words) => {
                let words: Vec<String> = words.iter().map(|word| quote_word(word)).collect();
                Some(words.join(" "))
            }
            Action::Replay(folder, _) => Some(folder.display().to_string()),
            Action::Profile(_) => None,
        };
        ShownProgram {
            name: program.name.clone(),
            run,
            cgroup: program.cgroup.clone(),
        }
    }
}

/// One metric of one variant over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Unit of mean, interval and samples.
    pub unit: String,
    /// Which change is an improvement.
    pub better: Better,
    /// Mean over seeds: harmonic for rates, arithmetic for the rest.
    pub mean: f64,
    /// The value is a lower bound: in some run the percentile falls among what had not finished,
    /// which counts with its age.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// 95 % interval of the mean; null with fewer than two samples.
    pub ci95: LateInterval,
    /// 95 % interval of one more run, in answers from a recording; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_run95: Option<[f64; 2]>,
    /// That interval was moved apart because the recorded run, simulated, misses the recording.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub misfit: bool,
    /// Value that the recording itself shows, in the column of its settings; absent elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<f64>,
    /// That value is about requests, and inferred from wakeups: no log of them is in use.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// One value for each seed, in seed order; null where the run had none.
    pub samples: Vec<Option<f64>>,
    /// In the baseline, the largest relative change that 95 of 100 comparisons of it with itself
    /// under other draws show; absent in other variants, with one seed and where the mean is zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chaos_floor: Option<f64>,
    /// The change against the baseline; null in the baseline and where it lacks the metric.
    pub vs_baseline: Option<Change>,
    /// Value measured under these settings, where a recording knows it; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredFigure>,
}

/// A change against the baseline, seed by seed.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Mean of this variant over mean of the baseline; null if that is zero.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; null with fewer than two common seeds.
    pub ci95: LateInterval,
    /// Whether the change is beyond what seeds make: the 95 % interval of the ratio and a 99 %
    /// interval of the paired difference exclude no change, it is not tiny (below 0.5 % and a third
    /// of the chaos floor), and seeds make some difference to the metric unless it is a count.
    pub significant: bool,
}

fn in_order<S: Serializer>(
    metrics: &[(String, Summary)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(metrics.len()))?;
    for (name, summary) in metrics {
        map.serialize_entry(name, summary)?;
    }
    map.end()
}

/// The values of one metric in one variant, by seed.
type Samples = Vec<Option<f64>>;

impl Comparison {
    /// Compares scenarios by their outcomes: one row for each scenario, one outcome for each seed.
    /// The first scenario is the baseline.
    ///
    /// # Errors
    /// A metric that is not in the registry.
    pub fn new(
        title: &str,
        scenarios: &[Scenario],
        outcomes: &[Vec<Outcome>],
    ) -> Result<Comparison, Error> {
        let seeds = outcomes.first().map_or(0, Vec::len);
        let mut bootstraps = Bootstraps::default();
        let baseline = outcomes
            .first()
            .map(|runs| samples_by_metric(runs))
            .unwrap_or_default();
        let mut variants = Vec::new();
        for (index, (scenario, runs)) in scenarios.iter().zip(outcomes).enumerate() {
            let mut metrics = Vec::new();
            let samples = samples_by_metric(runs).into_iter();
            let rows = samples.map(|(name, samples)| {
                let metric = metrics::parse(name).ok_or_else(|| unknown_metric(name))?;
                Ok((metric, (metric, name, samples)))
            });
            let rows: Vec<_> = rows.collect::<Result<_, Error>>()?;
            for (metric, name, samples) in metrics::in_table_order(rows.into_iter()) {
                let below = if index == 0 { None } else { baseline.get(name) };
                let is_baseline = index == 0;
                let at_least = runs.iter().any(|run| run.at_least.contains(name));
                let summary = summarise(&metric, samples, is_baseline, below, &mut bootstraps).map(
                    |summary| Summary {
                        at_least,
                        ..summary
                    },
                );
                metrics.extend(summary.map(|summary| (name.to_owned(), summary)));
            }
            let length_ns = scenario.duration_ns.unwrap_or(u64::MAX);
            cut_intervals(&mut metrics, Run::of(scenario, length_ns));
            variants.push(Variant {
                name: scenario.name.clone(),
                kernel: scenario.kernel.clone(),
                machine: ShownMachine {
                    preset: scenario.machine.preset.clone(),
                    cpus: scenario.machine.cpus(),
                },
                programs: scenario.programs.iter().map(ShownProgram::of).collect(),
                duration_ns: scenario.duration_ns,
                event_hash: format!("{:016x}", combine_hashes(runs)),
                metrics,
            });
        }
        Ok(Comparison {
            schema: SCHEMA.to_string(),
            title: title.to_string(),
            schedcast: env!("CARGO_PKG_VERSION").to_string(),
            seeds: u32::try_from(seeds).unwrap_or(u32::MAX),
            tier: None,
            warnings: Vec::new(),
            baseline: scenarios
                .first()
                .map(|first| first.name.clone())
                .unwrap_or_default(),
            variants,
            bisection: None,
            earlier_bisections: Vec::new(),
        })
    }

    /// Adds what was really measured under the settings of `variant`. A variant or metric that this
    /// comparison does not have is passed over: nothing was predicted for it.
    pub fn set_measured(&mut self, variant: &str, metric: &str, measured: MeasuredFigure) {
        let found = self
            .variants
            .iter_mut()
            .find(|candidate| candidate.name == variant);
        let metrics = found.into_iter().flat_map(|variant| &mut variant.metrics);
        for (name, summary) in metrics {
            if name == metric {
                summary.measured = Some(measured);
            }
        }
    }

    /// Adds the interval of one more run to every value: what is measured later is one run, with
    /// its own phases and its own drift, not a mean. The interval is as wide as each of `kinds`
    /// needs, runs of the same variants in which work drifts, or rare work comes as well; without
    /// them nothing drifted. The mean stays that of runs without drift, because a little more work
    /// near a limit costs much more than a little less saves: a mean over drifted runs would say
    /// what no run is like.
    pub(crate) fn add_intervals_of_one_run(&mut self, kinds: &[Vec<Vec<Outcome>>]) {
        for (index, variant) in self.variants.iter_mut().enumerate() {
            let runs = kinds.iter().filter_map(|rows| rows.get(index));
            let kinds: Vec<_> = runs.map(|runs| samples_by_metric(runs)).collect();
            for (name, summary) in &mut variant.metrics {
                let mut samples = vec![summary.values()];
                for kind in &kinds {
                    samples.extend(
                        kind.get(name.as_str())
                            .map(|of| of.iter().flatten().copied().collect()),
                    );
                }
                summary.one_run95 = prediction_interval_of_all(&samples).map(Interval::ends);
                if let Some(change) = &mut summary.vs_baseline {
                    let tiny = |ratio: f64| (ratio - 1.0).abs() < SMALLEST_CHANGE_OF_A_SERVICE;
                    change.significant &= !change.ratio.is_some_and(tiny);
                }
            }
        }
    }

    /// Moves the intervals of one run apart by what the recorded run, simulated again, misses: see
    /// [`Misses::moved_apart`]. What is no forecast has no interval and no star.
    pub(crate) fn widen_by(&mut self, fit: &[RefitFigure]) {
        let misses = Misses::of(fit);
        let metrics = self.variants.iter_mut().flat_map(|one| &mut one.metrics);
        for (name, summary) in metrics {
            if !misses.is_forecast(name) {
                summary.one_run95 = None;
                summary.ci95 = LateInterval::none();
                if let Some(change) = &mut summary.vs_baseline {
                    change.significant = false;
                }
                continue;
            }
            summary.misfit = summary.one_run95.is_some() && misses.are_of(name);
            let interval = summary.one_run95;
            summary.one_run95 = interval.map(|ends| misses.moved_apart(ends, name));
        }
    }

    /// Cuts the intervals to what runs of `length_ns` can show.
    pub fn cut_to_possible(&mut self, scenarios: &[Scenario], length_ns: u64) {
        for (variant, scenario) in self.variants.iter_mut().zip(scenarios) {
            cut_intervals(&mut variant.metrics, Run::of(scenario, length_ns));
        }
    }

    /// Adds a figure of the recording to the baseline.
    pub(crate) fn set_recorded(&mut self, figure: &RefitFigure) {
        let baseline = self.variants.first_mut();
        let metrics = baseline.into_iter().flat_map(|one| &mut one.metrics);
        for (_, summary) in metrics.filter(|(name, _)| **name == figure.metric) {
            summary.recorded = Some(figure.seen);
            summary.inferred = figure.inferred;
        }
    }

    /// The comparison as indented JSON, ending in a newline.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("keys are strings and numbers are finite or null") + "\n"
    }

    /// Names of all metrics that any variant has, in table order.
    pub fn metric_names(&self) -> Vec<&str> {
        let all = self.variants.iter().flat_map(|variant| &variant.metrics);
        let names: BTreeSet<&str> = all.map(|(name, _)| name.as_str()).collect();
        let known = names
            .into_iter()
            .filter_map(|name| Some((metrics::parse(name)?, name)));
        metrics::in_table_order(known)
    }
}

impl Variant {
    /// The summary of `metric`.
    pub fn get(&self, metric: &str) -> Option<&Summary> {
        self.metrics
            .iter()
            .find(|(name, _)| name == metric)
            .map(|(_, summary)| summary)
    }
}

impl Summary {
    /// Whether the seeds differ so much that their mean says nothing: their standard deviation is
    /// larger than their mean, as where one phase in a hundred makes all the difference.
    pub fn phases_decide(&self) -> bool {
        let values = self.values();
        values.len() > 2 && self.mean > 0.0 && standard_deviation(&values) > self.mean
    }

    /// The samples that exist, in seed order.
    pub fn values(&self) -> Vec<f64> {
        self.samples.iter().flatten().copied().collect()
    }
}

/// Cuts the intervals of all `metrics` of a variant to what `run` can show.
fn cut_intervals(metrics: &mut [(String, Summary)], run: Run) {
    let most = |summary: &Summary| summary.values().into_iter().reduce(f64::max);
    let periods = metrics.iter().filter_map(|(name, summary)| {
        Some((
            name.ends_with("/nr_periods").then(|| name.clone())?,
            most(summary)?,
        ))
    });
    let periods: BTreeMap<String, f64> = periods.collect();
    for (name, summary) in metrics {
        let Some(metric) = metrics::parse(name) else {
            continue;
        };
        let periods = periods.get(&possible::periods_of(&metric)).copied();
        let values = summary.values();
        let bounds = run.bounds(&metric, &values, periods);
        summary.ci95.cut(bounds);
        let cut = |interval| possible::cut(interval, bounds);
        summary.one_run95 = summary.one_run95.map(cut);
    }
}

fn unknown_metric(name: &str) -> Error {
    let message = format!("a run reported `{name}`, which is not a metric");
    Error::general(message)
}

fn samples_by_metric(runs: &[Outcome]) -> BTreeMap<&str, Samples> {
    let mut samples: BTreeMap<&str, Samples> = BTreeMap::new();
    for (seed, run) in runs.iter().enumerate() {
        for (name, value) in &run.metrics {
            let row = samples
                .entry(name)
                .or_insert_with(|| vec![None; runs.len()]);
            // Not-a-number and infinity are no values, and JSON has none either.
            row[seed] = value.is_finite().then_some(*value);
        }
    }
    samples
}

/// One bootstrap for each number of seeds that occurs.
#[derive(Default)]
struct Bootstraps(BTreeMap<usize, Arc<Bootstrap>>);

impl Bootstraps {
    fn of(&mut self, count: usize) -> Arc<Bootstrap> {
        let new = || Arc::new(Bootstrap::new(count));
        Arc::clone(self.0.entry(count).or_insert_with(new))
    }
}

/// Changes below this, and below a third of the chaos floor, have no star however sure they are: a
/// price is known to 2.5 %, so one nanosecond more of it is true, and nothing to tell.
const SMALLEST_CHANGE: f64 = 0.005;

/// The same for forecasts from recordings, however sure: the same load on the same machine takes
/// some per cent more or less from one run to the next.
const SMALLEST_CHANGE_OF_A_SERVICE: f64 = 0.01;

/// Nor has a change that does not show in the four digits of a table.
const PRINTED_CHANGE: f64 = 0.0005;

/// Whether a change from `below` to `above` may be starred. Where every seed has the same time in
/// both variants, nothing was drawn, and how far the change is beyond what draws would make is
/// unknown; a count may well be the same under all draws.
fn may_be_starred(metric: &Metric<'_>, below: &[f64], above: &[f64], ratio: Option<f64>) -> bool {
    let varies = |values: &[f64]| values.windows(2).any(|pair| pair[0] != pair[1]);
    let floor = chaos_floor(below).unwrap_or(0.0);
    let tiny = ratio.is_some_and(|ratio| {
        (ratio - 1.0).abs() < SMALLEST_CHANGE.min(floor / 3.0).max(PRINTED_CHANGE)
    });
    !tiny && (metric.unit() == "count" || varies(below) || varies(above))
}

/// `None` if no seed has a value.
fn summarise(
    metric: &Metric<'_>,
    samples: Samples,
    is_baseline: bool,
    baseline: Option<&Samples>,
    bootstraps: &mut Bootstraps,
) -> Option<Summary> {
    let kind = metric.family.mean_kind();
    let values: Vec<f64> = samples.iter().flatten().copied().collect();
    let mean = mean(kind, &values)?;
    let vs_baseline = baseline.and_then(|baseline| {
        let pairs = baseline
            .iter()
            .zip(&samples)
            .filter_map(|(below, above)| below.zip(*above));
        let (below, above): (Vec<f64>, Vec<f64>) = pairs.unzip();
        if below.is_empty() {
            return None;
        }
        let bootstrap = bootstraps.of(below.len());
        let change = bootstrap.compare(kind, &below, &above);
        let may_be_starred = may_be_starred(metric, &below, &above, change.ratio);
        Some(Change {
            ratio: change.ratio,
            significant: change.significant && may_be_starred,
            ci95: match change.ratio_interval {
                Some(known) => LateInterval::known(known),
                None => LateInterval::of(Source {
                    bootstrap,
                    kind,
                    baseline: Some(below),
                    samples: above,
                }),
            },
        })
    });
    let chaos_floor = match is_baseline {
        true => chaos_floor(&values),
        false => None,
    };
    Some(Summary {
        unit: metric.unit().to_string(),
        better: metric.better(),
        mean,
        at_least: false,
        ci95: LateInterval::of(Source {
            bootstrap: bootstraps.of(values.len()),
            kind,
            baseline: None,
            samples: values,
        }),
        one_run95: None,
        misfit: false,
        recorded: None,
        inferred: false,
        chaos_floor,
        samples,
        vs_baseline,
        measured: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;
    use crate::samples::example;

    #[test]
    fn the_json_form_is_stable() {
        insta::assert_snapshot!(example().to_json());
    }

    #[test]
    fn missing_values_are_null_and_pairs_skip_them() {
        let comparison = example();
        let burst = comparison.variants[1]
            .get("schbench/request_latency.p99")
            .unwrap();
        assert_eq!(burst.samples[3], None);
        assert_eq!(burst.values().len(), 3);
        let change = burst.vs_baseline.as_ref().unwrap();
        let expected = (71_000.0 + 70_200.0 + 73_500.0) / (212_400.0 + 208_900.0 + 216_000.0);
        assert!(
            (change.ratio.unwrap() - expected).abs() < 1e-12,
            "seed 3 counts on neither side"
        );
        assert!(change.significant);
    }

    #[test]
    fn infinite_values_are_no_values() {
        let metrics = [("hackbench/time", f64::INFINITY), ("machine/wakeups", 3.0)];
        let metrics = metrics
            .map(|(name, value)| (name.to_string(), value))
            .into();
        let outcome = Outcome {
            event_hash: 1,
            metrics,
            ..Outcome::default()
        };
        let scenario = { experiment::read_text("t.toml", "").unwrap().scenarios };
        let comparison = Comparison::new("", &scenario, &[vec![outcome]]).unwrap();
        assert_eq!(comparison.metric_names(), ["machine/wakeups"]);
        let wakeups = comparison.variants[0].get("machine/wakeups").unwrap();
        assert_eq!((wakeups.mean, wakeups.ci95.get()), (3.0, None));
    }

    #[test]
    fn the_interval_of_a_mean_ends_where_what_runs_can_show_ends() {
        let run = |throttled: f64| {
            let metrics = [("nr_periods", 20.0), ("nr_throttled", throttled)];
            let metrics = metrics.map(|(name, value)| (format!("cgroup:/a/{name}"), value));
            Outcome {
                metrics: metrics.into(),
                ..Outcome::default()
            }
        };
        let scenarios = experiment::read_text("t.toml", "").unwrap().scenarios;
        let runs = vec![run(20.0), run(17.0)];
        let comparison = Comparison::new("", &scenarios, &[runs]).unwrap();
        let throttled = comparison.variants[0].get("cgroup:/a/nr_throttled");
        let [low, high] = throttled.unwrap().ci95.get().unwrap();
        assert!(low < 17.0 && high == 20.0, "{low} to {high}");
    }

    #[test]
    fn unknown_metrics_are_an_error() {
        let metrics = [("schbench/speed".to_string(), 1.0)].into();
        let scenarios = experiment::read_text("t.toml", "").unwrap().scenarios;
        let outcome = Outcome {
            event_hash: 0,
            metrics,
            ..Outcome::default()
        };
        let error = Comparison::new("", &scenarios, &[vec![outcome]]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a run reported `schbench/speed`, which is not a metric"
        );
    }

    #[test]
    fn measured_values_join_the_metric_they_belong_to() {
        let mut comparison = example();
        let measured = MeasuredFigure {
            median: 41.0,
            min: 39.0,
            max: 44.0,
        };
        comparison.set_measured("no burst", "cgroup:/test/nr_throttled", measured);
        comparison.set_measured("no burst", "cgroup:/test/nr_bursts", measured);
        comparison.set_measured("other", "cgroup:/test/nr_throttled", measured);
        let with = |variant: usize| {
            let metrics = comparison.variants[variant].metrics.iter();
            metrics
                .filter(|(_, summary)| summary.measured.is_some())
                .count()
        };
        assert_eq!((with(0), with(1)), (1, 0));
        assert!(comparison.to_json().contains("\"measured\""));
    }
}
