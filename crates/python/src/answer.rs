//! `ask`: a comparison, a run or a what-if.

use pyo3::prelude::*;
use schedcast_lab::answer;
use schedcast_lab::comparison::{Summary, Variant};
use schedcast_lab::error::{Error, hint_for};
use schedcast_lab::question::refuse_several;
use schedcast_lab::simulator::Simulator;
use schedcast_present::lists::Listing;
use schedcast_present::tables::{self, Layout};

use crate::asked::Asked;
use crate::columns::{Column, Table};
use crate::error::{raise, raised};
use crate::running::{self, Stoppable};

/// Runs all variants of a question and compares them.
///
/// `progress(ended, runs)` is called in the calling thread, now and then and at the end.
#[pyfunction]
#[pyo3(signature = (asked, workers=None, progress=None))]
pub(crate) fn ask(
    py: Python<'_>,
    asked: Asked,
    workers: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Answer> {
    let single = asked.single();
    let simulator = Stoppable::default();
    let question = raised(asked.question(&simulator.simulator))?;
    let experiment = raised(question.experiment())?;
    if single {
        raised(refuse_several(&experiment))?;
    }
    let runs = experiment.scenarios.len() as u64 * u64::from(experiment.seeds);
    let answer = running::run(py, &simulator, runs, progress, workers, |simulator| {
        answer::answer(&question, &experiment, simulator, &|| simulator.ran())
    })?;
    Ok(Answer { answer })
}

/// Reads a question without running it: the names of its variants (with a grid, of its points).
#[pyfunction]
pub(crate) fn check(asked: Asked) -> PyResult<Vec<String>> {
    let question = asked.question(&Simulator::new());
    let experiment = question.and_then(|question| question.experiment());
    let experiment = raised(experiment)?;
    let scenarios = experiment.scenarios.into_iter();
    Ok(scenarios.map(|scenario| scenario.name).collect())
}

/// Text that `schedcast list WHAT` prints.
#[pyfunction]
pub(crate) fn list_names(what: &str) -> PyResult<String> {
    let valid = Listing::ALL.map(Listing::name);
    let known = Listing::named(what).map(Listing::text);
    known.ok_or_else(|| unknown("nothing is listed as", what, &valid))
}

fn unknown(message: &str, word: &str, valid: &[&str]) -> PyErr {
    raise(&Error::usage(format!("{message} `{word}`")).hint(hint_for(word, valid)))
}

/// An answered question.
#[pyclass(frozen, module = "schedcast._native")]
pub struct Answer {
    answer: answer::Answer,
}

#[pymethods]
impl Answer {
    /// The JSON of `--json`, to the byte.
    fn to_json(&self) -> String {
        self.answer.comparison.to_json()
    }

    /// The table of `--format`; `verbose` shows every metric.
    #[pyo3(signature = (layout="table", verbose=false))]
    fn table(&self, layout: &str, verbose: bool) -> PyResult<String> {
        let valid = Layout::ALL.map(Layout::name);
        let known = Layout::named(layout);
        let layout = known.ok_or_else(|| unknown("there is no layout", layout, &valid))?;
        let mut answer = self.answer.clone();
        answer.context.verbose = verbose;
        Ok(tables::table(&answer, layout))
    }

    /// One row for each variant and metric.
    fn summary(&self) -> Table {
        let rows: Vec<(&Variant, &str, &Summary)> = self.rows().collect();
        let text =
            |of: &dyn Fn(&(&Variant, &str, &Summary)) -> String| Column::text(rows.iter().map(of));
        let number = |of: &dyn Fn(&Summary) -> Option<f64>| {
            Column::float(rows.iter().map(|(_, _, summary)| of(summary)))
        };
        let change = |summary: &Summary, end: usize| {
            summary.vs_baseline.as_ref()?.ci95.get().map(|ci| ci[end])
        };
        let significant = |(_, _, summary): &(&Variant, &str, &Summary)| {
            Some(summary.vs_baseline.as_ref()?.significant)
        };
        Table::new(vec![
            ("variant", text(&|(variant, _, _)| variant.name.clone())),
            ("metric", text(&|(_, name, _)| (*name).to_string())),
            ("unit", text(&|(_, _, summary)| summary.unit.clone())),
            (
                "better",
                text(&|(_, _, summary)| summary.better.name().to_string()),
            ),
            ("mean", number(&|summary| Some(summary.mean))),
            (
                "ci95_low",
                number(&|summary| summary.ci95.get().map(|ci| ci[0])),
            ),
            (
                "ci95_high",
                number(&|summary| summary.ci95.get().map(|ci| ci[1])),
            ),
            (
                "one_run95_low",
                number(&|summary| summary.one_run95.map(|ends| ends[0])),
            ),
            (
                "one_run95_high",
                number(&|summary| summary.one_run95.map(|ends| ends[1])),
            ),
            (
                "ratio",
                number(&|summary| summary.vs_baseline.as_ref()?.ratio),
            ),
            ("ratio_ci95_low", number(&|summary| change(summary, 0))),
            ("ratio_ci95_high", number(&|summary| change(summary, 1))),
            ("significant", Column::boolean(rows.iter().map(significant))),
            (
                "at_least",
                Column::boolean(rows.iter().map(|(_, _, summary)| Some(summary.at_least))),
            ),
        ])
    }

    /// One row for each variant, metric and seed.
    fn samples(&self) -> Table {
        let rows: Vec<(&Variant, &str, i64, Option<f64>)> = self
            .rows()
            .flat_map(|(variant, name, summary)| {
                let samples = summary.samples.iter().enumerate();
                samples.map(move |(seed, value)| (variant, name, seed as i64, *value))
            })
            .collect();
        let variant = rows.iter().map(|(variant, ..)| variant.name.clone());
        let metric = rows.iter().map(|(_, name, ..)| (*name).to_string());
        Table::new(vec![
            ("variant", Column::text(variant)),
            ("metric", Column::text(metric)),
            ("seed", Column::integer(rows.iter().map(|row| Some(row.2)))),
            ("value", Column::float(rows.iter().map(|row| row.3))),
        ])
    }
}

impl Answer {
    fn rows(&self) -> impl Iterator<Item = (&Variant, &str, &Summary)> {
        self.answer.comparison.variants.iter().flat_map(|variant| {
            let metrics = variant.metrics.iter();
            metrics.map(move |(name, summary)| (variant, name.as_str(), summary))
        })
    }
}
