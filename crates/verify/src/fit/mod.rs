//! Named machine constants from given figures: for a machine that cannot be measured from here.
//!
//! A user has results of a few benchmarks on a machine. Each of them decides one constant: the
//! value with which the simulated benchmark has the given result.
//!
//! Worked example: on that machine 20,000 round trips of `perf bench sched pipe -T` took 0.212 s on
//! one CPU. A trip is two switches, so 1 ns more for a switch between threads makes the run 40 µs
//! longer. With the 1000 ns of `generic-8` it takes 0.080 s; what is missing, 0.132 s, are 3300 ns.
//! The search knows nothing of trips: it doubles until the result is between two values (2048 ns:
//! 0.122 s; 4096 ns: 0.204 s; 8192 ns: 0.367 s), halves until it knows the nanosecond, and arrives
//! at 4306. The spread is the pair of values that the smallest and the largest repeat would give.
//!
//! Constants act on several results, so all of them are searched again until none moves by more
//! than a hundredth.

mod file;
mod preset;
#[cfg(test)]
mod tests;

use std::path::Path;

use schedcast_lab::error::{Error, Result, Source, hint_for};
use schedcast_lab::experiment::document::{self, Table};
use schedcast_lab::experiment::{self, Surroundings};
use schedcast_lab::simulate::{Simulate, run_all};

pub(crate) use self::preset::rewritten;
pub use file::Figures;
use file::Given;
pub(crate) use file::read;

/// Rounds over all constants before the search is called endless.
const ROUNDS_MAX: usize = 8;
/// A constant that moves by less has arrived.
const ARRIVED_RATIO: f64 = 0.01;
/// No kernel operation takes longer: 67 ms in the unit of most constants, ns.
const CONSTANT_MAX: u64 = 1 << 26;
/// The first guess from which the upper end of a bracket is doubled.
const FIRST_END: u64 = 64;

/// A constant that was fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedConstant {
    /// Section and key, such as `cost.context_switch_ns`.
    pub constant: String,
    /// Its value.
    pub value: u64,
    /// The same from the smallest and the largest repeat.
    pub spread: (u64, u64),
    /// The given result: its median.
    pub measured: f64,
    /// Simulated result with all constants in place.
    pub simulated: f64,
    /// Where it comes from: metric and command.
    pub source: String,
}

/// Fits every constant of `figures`.
///
/// # Errors
/// A benchmark that does not run or does not report the metric, a result that no value of its
/// constant gives, constants that chase each other.
pub fn fit(figures: &Figures, simulator: &impl Simulate) -> Result<Vec<FittedConstant>> {
    let search = Search { figures, simulator };
    let mut values: Vec<Option<u64>> = vec![None; figures.given.len()];
    for round in 0.. {
        let before = values.clone();
        for at in 0..values.len() {
            let median = figures.given[at].median();
            values[at] = Some(search.value(at, &values, median)?);
        }
        let moved = |(old, new): (&Option<u64>, &Option<u64>)| match (old, new) {
            (Some(old), Some(new)) => old.abs_diff(*new) as f64 > *new as f64 * ARRIVED_RATIO,
            _ => true,
        };
        if values.len() < 2 || !before.iter().zip(&values).any(moved) {
            break;
        }
        if round + 1 == ROUNDS_MAX {
            let text = "the constants chase each other: no values give all figures at once";
            return Err(Error::usage(text).hint("fit fewer of them, each to the figure it decides"));
        }
    }
    let fitted = |at: usize| search.fitted(at, &values);
    (0..values.len()).map(fitted).collect()
}

/// State that simulations of a search share.
struct Search<'a, S> {
    figures: &'a Figures,
    simulator: &'a S,
}

impl<S: Simulate> Search<'_, S> {
    /// The value of constant `at` with which its metric is `wanted`, the others as in `values`.
    fn value(&self, at: usize, values: &[Option<u64>], wanted: f64) -> Result<u64> {
        let given = &self.figures.given[at];
        let mut values = values.to_vec();
        let mut metric = |value: u64| {
            values[at] = Some(value);
            self.metric(given, &values)
        };
        let least = metric(0)?;
        // The ends of the bracket, with what they give.
        let mut low = (0, least);
        let mut high = (FIRST_END, metric(FIRST_END)?);
        let reached = |end: f64| least.min(end) <= wanted && wanted <= least.max(end);
        while !reached(high.1) {
            let (value, end) = high;
            // A time rises with a price, a rate falls; away from the result it can go for ever.
            let leads_away = end != least && (end > least) != (wanted > least);
            if leads_away || value >= CONSTANT_MAX {
                return Err(given.out_of_reach(wanted, least, end));
            }
            low = high;
            high = (value * 2, metric(value * 2)?);
        }
        let rises = high.1 > least;
        while high.0 - low.0 > 1 {
            let value = low.0 + (high.0 - low.0) / 2;
            let middle = (value, metric(value)?);
            let beyond = (middle.1 > wanted) == rises;
            (low, high) = if beyond {
                (low, middle)
            } else {
                (middle, high)
            };
        }
        let distance = |end: (u64, f64)| (end.1 - wanted).abs();
        let nearest = if distance(low) <= distance(high) {
            low
        } else {
            high
        };
        Ok(nearest.0)
    }

    /// Mean over seeds of the metric with these constants.
    fn metric(&self, given: &Given, values: &[Option<u64>]) -> Result<f64> {
        let mut layers: Vec<Table> = given.layers.clone();
        for (other, value) in self.figures.given.iter().zip(values) {
            if let Some(value) = value {
                let setting = format!("machine.{}={value}", other.constant);
                layers.push(document::parse_setting(
                    &Source::new("constant", setting),
                    None,
                )?);
            }
        }
        let surroundings = Surroundings {
            directory: self.figures.directory.clone(),
            settings: layers,
            ..Surroundings::default()
        };
        let experiment = experiment::read(&given.document(&self.figures.base), &surroundings)?;
        let seeds = self.figures.seeds.unwrap_or(experiment.seeds);
        let rows = run_all(self.simulator, &experiment.scenarios, seeds, &|| ())?;
        let runs = rows.first().map_or(&[][..], Vec::as_slice);
        let mut sum = 0.0;
        for run in runs {
            sum += *run.metrics.get(&given.metric).ok_or_else(|| {
                let known: Vec<&str> = run.metrics.keys().map(String::as_str).collect();
                let message = format!("`{}` does not report `{}`", given.command, given.metric);
                Error::input(&given.place, message).hint(hint_for(&given.metric, &known))
            })?;
        }
        Ok(sum / runs.len().max(1) as f64)
    }

    fn fitted(&self, at: usize, values: &[Option<u64>]) -> Result<FittedConstant> {
        let given = &self.figures.given[at];
        let value = values[at].unwrap_or_default();
        let (smallest, largest) = given.range();
        let of = |wanted: f64| match wanted == given.median() {
            true => Ok(value),
            false => self.value(at, values, wanted),
        };
        let (one, other) = (of(smallest)?, of(largest)?);
        Ok(FittedConstant {
            constant: given.constant.clone(),
            value,
            spread: (one.min(other), one.max(other)),
            measured: given.median(),
            simulated: self.metric(given, values)?,
            source: format!("{} of `{}`", given.metric, given.command),
        })
    }
}

/// Reads the figures in a file and fits their constants: what was found, and the preset with it.
///
/// # Errors
/// As [`read`] and [`fit`].
pub fn from_file(path: &Path, simulator: &impl Simulate) -> Result<(Vec<FittedConstant>, String)> {
    let figures = read(path)?;
    let fitted = fit(&figures, simulator)?;
    let text = rewritten(&figures.preset, &fitted);
    Ok((fitted, text))
}
