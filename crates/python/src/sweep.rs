//! `sweep`: the points of a grid.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedcast_lab::experiment::document::{Kind, Value};
use schedcast_lab::experiment::sweep::short;
use schedcast_lab::sweep::{Brief, Part, Results, Row, Sweep, SweepOptions, build_of};

use crate::asked::Asked;
use crate::columns::{Column, Table};
use crate::error::raised;
use crate::running::{self, Stoppable};

/// Runs every point of a question's grid.
///
/// With `folder` finished points are durable and an interrupted sweep resumes; `module` is the file
/// of this module, which tells one build from another. `part` is `K/N`, and `merged` are folders of
/// sweeps whose finished points count.
#[pyfunction]
#[pyo3(signature = (asked, module, folder=None, workers=None, progress=None, part=None, merged=Vec::new()))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn sweep(
    py: Python<'_>,
    asked: Asked,
    module: PathBuf,
    folder: Option<PathBuf>,
    workers: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    part: Option<&str>,
    merged: Vec<PathBuf>,
) -> PyResult<SweepResults> {
    let part = part.map(Part::parse).transpose();
    let part = raised(part.map_err(schedcast_lab::error::Error::usage))?;
    let simulator = Stoppable::default();
    let question = raised(asked.question(&simulator.simulator))?;
    let experiment = raised(question.experiment())?;
    let options = SweepOptions {
        build: raised(build_of(&module))?,
        workers,
        folder: folder.clone(),
        part,
        merged,
    };
    let sweep = raised(Sweep::open(&experiment, options))?;
    let missing = sweep.points() - sweep.finished();
    let runs = missing as u64 * u64::from(experiment.seeds);
    let results = running::run(py, &simulator, runs, progress, workers, |simulator| {
        sweep.run(simulator, &|| simulator.ran())
    })?;
    if let Some(folder) = folder {
        raised(results.save(&folder))?;
    }
    Ok(SweepResults { results })
}

/// The results of a sweep.
#[pyclass(frozen, module = "schedcast._native")]
pub(crate) struct SweepResults {
    results: Results,
}

#[pymethods]
impl SweepResults {
    /// The bytes of `results.json`.
    fn to_json(&self) -> String {
        self.results.to_json()
    }

    /// The bytes of `results.csv`.
    fn to_csv(&self) -> String {
        self.results.to_csv()
    }

    /// A table of the given metrics (the usual ones by default) as text.
    #[pyo3(signature = (metrics=None))]
    fn table(&self, metrics: Option<Vec<String>>) -> String {
        let metrics = metrics.unwrap_or_else(|| self.results.headline());
        self.results.table(&metrics)
    }

    /// The columns of `results.csv` as Arrow columns.
    fn points(&self) -> Table {
        let rows = &self.results.rows;
        let variant = Column::text(rows.iter().map(|row| row.cell.variant.clone()));
        let mut columns = vec![("variant".to_string(), variant)];
        for (index, key) in self.results.axes.iter().enumerate() {
            columns.push((key.clone(), axis(rows, index)));
        }
        for metric in &self.results.metrics {
            let number = |of: &dyn Fn(&Brief) -> Option<f64>| {
                Column::float(rows.iter().map(|row| row.get(metric).and_then(of)))
            };
            columns.push((metric.clone(), number(&|brief| Some(brief.mean))));
            for (end, name) in ["low", "high"].into_iter().enumerate() {
                let column = number(&|brief| brief.ci95.map(|ci| ci[end]));
                columns.push((format!("{metric} ci95 {name}"), column));
            }
        }
        Table::new(columns)
    }
}

/// The values of one axis in the narrowest type that holds all of them.
fn axis(rows: &[Row], index: usize) -> Column {
    let values: Vec<&Value> = rows.iter().map(|row| &row.cell.values[index]).collect();
    let kinds = || values.iter().map(|value| &value.kind);
    let integer = |kind: &Kind| match kind {
        Kind::Integer(number) => Some(*number),
        _ => None,
    };
    let float = |kind: &Kind| match kind {
        Kind::Float(number) => Some(*number),
        kind => integer(kind).map(|number| number as f64),
    };
    let boolean = |kind: &Kind| match kind {
        Kind::Boolean(value) => Some(*value),
        _ => None,
    };
    if kinds().all(|kind| integer(kind).is_some()) {
        Column::integer(kinds().map(integer))
    } else if kinds().all(|kind| float(kind).is_some()) {
        Column::float(kinds().map(float))
    } else if kinds().all(|kind| boolean(kind).is_some()) {
        Column::boolean(kinds().map(boolean))
    } else {
        Column::text(values.into_iter().map(short))
    }
}
