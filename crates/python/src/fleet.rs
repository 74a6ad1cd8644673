//! `fleet`: the limits of every container in a dump of counters.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedcast_advise::counters::Dump;
use schedcast_advise::fleet::{self, Fleet, Question};
use schedcast_lab::error::Error;

use crate::columns::{Column, Table};
use crate::error::raised;

/// Answers for all limited containers of Prometheus range answers: the bytes that the command
/// writes as JSON, the table that it prints, and its columns.
#[pyfunction]
#[pyo3(signature = (ranges, throttled_below, budget=None, cpus=None))]
pub(crate) fn fleet_of(
    py: Python<'_>,
    ranges: Vec<PathBuf>,
    throttled_below: f64,
    budget: Option<f64>,
    cpus: Option<u32>,
) -> PyResult<(String, String, Table)> {
    let wrong = match (throttled_below, budget, cpus) {
        (share, ..) if !(0.0..=1.0).contains(&share) => Some("throttled_below must be from 0 to 1"),
        (_, Some(cpus), _) if !(cpus > 0.0 && cpus.is_finite()) => {
            Some("budget must be a number of CPUs above 0")
        }
        (_, _, Some(cpus)) if !(1..=4096).contains(&cpus) => Some("cpus must be from 1 to 4096"),
        _ => None,
    };
    raised(wrong.map_or(Ok(()), |why| Err(Error::usage(why))))?;
    let dump = raised(Dump::open(&ranges, cpus))?;
    let question = Question {
        throttled_below,
        budget_cpus: budget,
    };
    let fleet = py.detach(|| Fleet::new(&dump, question));
    let source: Vec<String> = ranges
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let text = fleet.text(&source.join(" "), None);
    let columns = fleet.columns().into_iter();
    let table = columns
        .map(|(name, column)| (name, arrow(column)))
        .collect();
    Ok((fleet.json(), text, Table::new::<&str>(table)))
}

fn arrow(column: fleet::Column) -> Column {
    match column {
        fleet::Column::Texts(texts) => Column::text(texts.into_iter()),
        fleet::Column::Numbers(numbers) => Column::float(numbers.into_iter()),
        fleet::Column::Counts(counts) => {
            let whole = |count: u64| i64::try_from(count).ok();
            Column::integer(counts.into_iter().map(|count| count.and_then(whole)))
        }
    }
}
