//! Validation: the same experiment for real and in simulation, metric by metric.
//!
//! ```text
//! scenario ──► real runs, one a repeat  ──► measured median, smallest, largest ┐
//!          └─► simulations, one a seed  ──► predicted median                   ┴► error, verdict ──► page
//! ```
//!
//! A figure passes when its error is within the target of its kind or the prediction lies between
//! the smallest and the largest repeat. Worked example: a group used 1998, 2003 and 2011 ms of CPU
//! time in three repeats and 2050 ms in simulation. The error is 2050 / 2003 − 1 = 2.3 %, within
//! the 3 % of CPU times: it passes, although 2050 lies outside the repeats. Figures that are next
//! to nothing on both sides are not judged: their errors would say nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use schedcast_base::quantile::{median, spread};
use schedcast_base::{fresh, whole};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;
use serde::{Deserialize, Serialize};

use crate::real::MeasuredRepeats;

mod page;
mod phase;

pub use page::{render_page, render_text};
pub use phase::AsReal;
pub(crate) use phase::GRACE_NS;
pub(crate) use phase::tick_phase_ns;

schedcast_base::named! {
    /// Kind of a metric, which decides how near a prediction must come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Kind {
        /// CPU time of groups and programs, times and rates that tools report.
        Usage = "CPU time and rates",
        /// Periods, throttled periods, throttled time.
        Throttling = "periods and throttling",
        /// Wakeups and changes of CPU.
        Placement = "wakeups and migrations",
        /// Median and mean latencies.
        Median = "p50 and means of latencies beyond 1 ms",
        /// 99th percentiles of latencies beyond 1 ms.
        Tail = "p99 of latencies beyond 1 ms",
    }
}

impl Kind {
    /// The kind of `metric`; `None` for metrics that are not compared.
    pub fn of(metric: &str) -> Option<Kind> {
        let (_, name) = metric.rsplit_once('/')?;
        Some(match name {
            "usage_usec" | "cpu_time" | "time" => Kind::Usage,
            "tps" | "events_per_s" | "requests_per_s" | "throughput" => Kind::Usage,
            "nr_periods" | "nr_throttled" | "throttled_usec" => Kind::Throttling,
            "wakeups" | "migrations" => Kind::Placement,
            _ if name.ends_with("latency.p50") || name.ends_with("latency.avg") => Kind::Median,
            _ if name.ends_with("latency.p99") => Kind::Tail,
            _ => return None,
        })
    }

    /// The error that is allowed.
    pub fn target(self) -> f64 {
        match self {
            Kind::Usage => 0.03,
            Kind::Throttling => 0.05,
            // One that counts differently by a few is no other placement.
            Kind::Placement => 0.20,
            Kind::Median => 0.10,
            Kind::Tail => 0.20,
        }
    }

    /// Figures of `metric` below this on both sides are next to nothing.
    fn least(self, metric: &str) -> f64 {
        match self {
            Kind::Usage if metric.ends_with("_usec") => 20_000.0,
            Kind::Usage => 0.02,
            Kind::Throttling if metric.ends_with("_usec") => 10_000.0,
            Kind::Throttling => 4.0,
            Kind::Placement => 20.0,
            Kind::Median | Kind::Tail => 1000.0,
        }
    }
}

/// One figure on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Full name of the metric.
    pub metric: String,
    /// Its kind.
    pub kind: Kind,
    /// Median over seeds.
    pub predicted: f64,
    /// Median over repeats.
    pub measured: f64,
    /// Smallest and largest repeat.
    pub repeats: [f64; 2],
}

impl Row {
    /// Predicted over measured, less 1; infinite where nothing was measured.
    pub fn error(&self) -> f64 {
        match self.measured > 0.0 {
            true => self.predicted / self.measured - 1.0,
            false => f64::INFINITY,
        }
    }

    /// Whether it is off by more than a factor of 2, and not among the repeats.
    pub(crate) fn is_far_off(&self) -> bool {
        !self.inside() && !(-0.5..=1.0).contains(&self.error())
    }

    /// Whether the prediction lies among the repeats.
    pub(crate) fn inside(&self) -> bool {
        (self.repeats[0]..=self.repeats[1]).contains(&self.predicted)
    }

    /// Whether it is as near as its kind asks, or among the repeats.
    pub(crate) fn passes(&self) -> bool {
        self.error().abs() <= self.kind.target() || self.inside()
    }
}

/// One scenario on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Twin {
    /// Experiment and variant.
    pub scenario: String,
    /// When it was measured, as `date` prints it.
    pub date: String,
    /// Kernel of the real runs.
    pub kernel: String,
    /// CPUs of the real runs.
    pub cpus: usize,
    /// Kernel and seeds of the simulation.
    pub simulated: String,
    /// Repeats that count, and those that were dropped as disturbed.
    pub repeats: [usize; 2],
    /// Largest share of a repeat that the hypervisor took.
    pub steal: f64,
    /// Rows of the comparison.
    pub rows: Vec<Row>,
}

impl Twin {
    /// Both sides of `scenario`, an experiment and a variant: measured on `date` on `kernel`,
    /// simulated with one outcome a seed.
    pub fn of(
        scenario: String,
        (date, kernel): (String, String),
        measured: &MeasuredRepeats,
        (simulated, outcomes): (&Scenario, &[Outcome]),
    ) -> Twin {
        Twin {
            scenario,
            date,
            kernel,
            cpus: measured.cpus,
            simulated: simulated_as(simulated, outcomes),
            repeats: [measured.samples.len(), measured.dropped],
            steal: measured.steal,
            rows: rows(outcomes, &measured.samples),
        }
    }

    /// The same measurement beside another simulation: of the figures that are kept, those that it
    /// still has.
    pub fn predict_again(&mut self, simulated: &Scenario, outcomes: &[Outcome]) {
        self.simulated = simulated_as(simulated, outcomes);
        self.rows.retain_mut(|row| {
            let predicted = predicted(outcomes, &row.metric);
            row.predicted = predicted.unwrap_or(row.predicted);
            predicted.is_some()
        });
    }
}

fn simulated_as(simulated: &Scenario, outcomes: &[Outcome]) -> String {
    let background = simulated.machine.background.as_ref().map(|background| {
        let name = background.value.file_name().unwrap_or_default();
        format!(", background `{}`", name.to_string_lossy())
    });
    format!(
        "kernel {}, HZ {}, {} seeds{}",
        simulated.kernel.shown(),
        simulated.kernel.hz,
        outcomes.len(),
        background.unwrap_or_default()
    )
}

/// The simulated figure that counts what `metric` counts for real: CPU time is what the kernel
/// charged.
fn simulated_name(metric: &str) -> Cow<'_, str> {
    match metric.strip_suffix("/cpu_time") {
        Some(name) => format!("{name}/charged_time").into(),
        None => metric.into(),
    }
}

/// Median over the seeds, where all have the metric.
fn predicted(outcomes: &[Outcome], metric: &str) -> Option<f64> {
    let metric = &*simulated_name(metric);
    let values = outcomes.iter().map(|one| one.metrics.get(metric).copied());
    median(values.collect::<Option<Vec<f64>>>()?)
}

/// Medians of both sides for every metric that both have and that is worth comparing.
pub fn rows(simulated: &[Outcome], real: &[BTreeMap<String, f64>]) -> Vec<Row> {
    let Some(first) = real.first() else {
        return Vec::new();
    };
    let row = |metric: &String| {
        let kind = Kind::of(metric)?;
        let predicted = predicted(simulated, metric)?;
        let repeats = real.iter().map(|one| one.get(metric).copied());
        let repeats = repeats.collect::<Option<Vec<f64>>>()?;
        let [low, measured, high] = spread(repeats)?;
        (measured.max(predicted) >= kind.least(metric)).then_some(Row {
            metric: metric.clone(),
            kind,
            predicted,
            measured,
            repeats: [low, high],
        })
    };
    let mut rows: Vec<Row> = first.keys().filter_map(row).collect();
    rows.sort_by(|a, b| (a.kind, &a.metric).cmp(&(b.kind, &b.metric)));
    rows
}

/// Median of the absolute errors of one kind over all scenarios; `None` without such rows.
pub(crate) fn median_error(twins: &[Twin], kind: Kind) -> Option<f64> {
    let rows = twins.iter().flat_map(|twin| &twin.rows);
    let errors = rows.filter(|row| row.kind == kind);
    median(errors.map(|row| row.error().abs()).collect::<Vec<f64>>())
}

/// Reads results that [`write_results`] wrote; none where there is no such file.
///
/// # Errors
/// A file that cannot be read or holds something else.
pub fn read_results(path: &Path) -> Result<Vec<Twin>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    serde_json::from_str(&whole::text(path)?).map_err(|error| {
        let shown = path.display();
        Error::general(format!("{shown}: no results of a validation: {error}"))
    })
}

/// Known reasons of figures that are far off, by scenario, from a TOML file of lines such as
/// `"bursts / two loads" = "why"`. No file, no reasons.
///
/// # Errors
/// A file that cannot be read or holds something else.
pub fn read_reasons(path: Option<&Path>) -> Result<BTreeMap<String, String>> {
    let Some(path) = path else {
        return Ok(BTreeMap::new());
    };
    toml::from_str(&whole::text(path)?).map_err(|error| {
        let shown = path.display();
        Error::general(format!(
            "{shown}: expected lines such as \"FILE / VARIANT\" = \"why\": {error}"
        ))
    })
}

/// Writes results as JSON.
///
/// # Errors
/// A file that cannot be written.
pub fn write_results(path: &Path, twins: &[Twin]) -> Result<()> {
    let json = serde_json::to_string_pretty(twins).expect("numbers are finite");
    fresh::save(path, json + "\n")
}

/// Writes `new` over the twins of the same scenarios in `all`.
pub fn replace(all: &mut Vec<Twin>, new: Vec<Twin>) {
    all.retain(|old| !new.iter().any(|one| one.scenario == old.scenario));
    all.extend(new);
    all.sort_by(|a, b| a.scenario.cmp(&b.scenario));
}

#[cfg(test)]
mod tests {
    use schedcast_lab::experiment;

    use super::*;

    fn outcome(values: &[(&str, f64)]) -> Outcome {
        Outcome {
            event_hash: 0,
            metrics: values.iter().map(|(k, v)| (k.to_string(), *v)).collect(),
            ..Outcome::default()
        }
    }

    const USAGE: &str = "cgroup:/a/usage_usec";
    const PERIODS: &str = "cgroup:/a/nr_throttled";

    fn real(usage: f64, throttled: f64) -> BTreeMap<String, f64> {
        outcome(&[(USAGE, usage), (PERIODS, throttled), ("x/operations", 1.0)]).metrics
    }

    #[test]
    fn medians_are_compared_and_judged_by_their_kind() {
        let simulated = [outcome(&[(USAGE, 2.05e6), (PERIODS, 2.0)])];
        let real = [real(2.003e6, 0.0), real(1.998e6, 1.0), real(2.011e6, 3.0)];
        let rows = rows(&simulated, &real);
        assert_eq!(rows.len(), 1, "few periods and unknown kinds are left out");
        assert_eq!(
            (rows[0].measured, rows[0].repeats),
            (2.003e6, [1.998e6, 2.011e6])
        );
        assert!((rows[0].error() - 0.02346).abs() < 1e-4);
        assert!(rows[0].passes() && !rows[0].inside());
    }

    #[test]
    fn cpu_time_is_what_the_kernel_charged() {
        let simulated = [outcome(&[("x/cpu_time", 1.0), ("x/charged_time", 2.0)])];
        let rows = rows(&simulated, &[outcome(&[("x/cpu_time", 2.1)]).metrics]);
        assert_eq!((rows[0].predicted, rows[0].measured), (2.0, 2.1));
    }

    #[test]
    fn far_off_passes_only_among_the_repeats() {
        let mut row = Row {
            metric: PERIODS.to_string(),
            kind: Kind::Throttling,
            predicted: 40.0,
            measured: 30.0,
            repeats: [28.0, 35.0],
        };
        assert!(!row.passes());
        row.repeats[1] = 40.0;
        assert!(row.passes());
        row.measured = 0.0;
        assert!(row.error().is_infinite());
    }

    #[test]
    fn a_new_prediction_keeps_what_was_measured() {
        let real = [real(2.0e6, 9.0), real(2.1e6, 9.0), real(2.2e6, 9.0)];
        let (old, mut new) = (outcome(&[(USAGE, 1e6), (PERIODS, 20.0)]), outcome(&[]));
        new.metrics.insert(USAGE.to_string(), 2.15e6);
        let text = "[[program]]\nrun = \"stress-ng --cpu 1 -t 1\"\n";
        let experiment = experiment::read_text("exp.toml", text).unwrap();
        let scenario = &experiment.scenarios[0];
        let measured = MeasuredRepeats {
            samples: real.to_vec(),
            ..MeasuredRepeats::default()
        };
        let date = ("2026-11-21".to_string(), "6.18".to_string());
        let mut twin = Twin::of("a / b".to_string(), date, &measured, (scenario, &[old]));
        assert!(twin.rows.iter().any(Row::is_far_off));
        twin.predict_again(scenario, &[new]);
        let row = &twin.rows[0];
        assert_eq!(
            twin.rows.len(),
            1,
            "the other one is not simulated any more"
        );
        assert_eq!((row.predicted, row.measured), (2.15e6, 2.1e6));
        assert!(twin.simulated.ends_with("1 seeds"), "{}", twin.simulated);
    }

    #[test]
    fn a_scenario_measured_anew_takes_its_old_place() {
        let twin = |scenario: &str, date: &str| Twin {
            scenario: scenario.to_string(),
            date: date.to_string(),
            kernel: "6.18".to_string(),
            cpus: 2,
            simulated: String::new(),
            repeats: [3, 0],
            steal: 0.0,
            rows: Vec::new(),
        };
        let mut all = vec![twin("a", "old"), twin("b", "old")];
        replace(&mut all, vec![twin("a", "new"), twin("c", "new")]);
        let names: Vec<_> = all.iter().map(|one| (&*one.scenario, &*one.date)).collect();
        assert_eq!(names, [("a", "new"), ("b", "old"), ("c", "new")]);
        assert_eq!(median_error(&all, Kind::Tail), None);
    }
}
