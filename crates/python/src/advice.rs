//! `advise` and `judge`: the smallest limit that keeps promises, and whether given ones do.

use pyo3::prelude::*;
use schedcast_advise::{Demands, advise as search, gate};
use schedcast_present::tables;

use crate::asked::Asked;
use crate::error::raised;
use crate::running::{self, Stoppable};

/// Searches for limits; returns the JSON and the table of the command.
///
/// `progress(ended, 0)`: how many runs a search needs is not known before.
#[pyfunction]
#[pyo3(signature = (asked, slos, max_neighbour=None, force=false, workers=None, progress=None))]
pub(crate) fn advise(
    py: Python<'_>,
    asked: Asked,
    slos: Vec<String>,
    max_neighbour: Option<String>,
    force: bool,
    workers: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let simulator = Stoppable::default();
    let question = raised(asked.question(&simulator.simulator))?;
    let demands = Demands {
        slos,
        max_neighbour,
        force,
    };
    let advice = running::run(py, &simulator, 0, progress, workers, |simulator| {
        search(
            &question,
            &demands,
            simulator,
            (&|_| {}, &|| simulator.ran()),
        )
    })?;
    Ok((advice.to_json(), tables::advice::render(&advice)))
}

/// Judges every column of settings by promises, or the recorded limits if there is none; returns
/// the JSON and the table of the command `check`.
///
/// `progress(ended, runs)`.
#[pyfunction]
#[pyo3(signature = (asked, slos, workers=None, progress=None))]
pub(crate) fn judge(
    py: Python<'_>,
    asked: Asked,
    slos: Vec<String>,
    workers: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let simulator = Stoppable::default();
    let question = raised(asked.question(&simulator.simulator))?;
    let experiment = raised(question.experiment())?;
    let runs = experiment.scenarios.len() as u64 * u64::from(experiment.seeds);
    let judged = running::run(py, &simulator, runs, progress, workers, |simulator| {
        gate::check(&question, &slos, simulator, &|| simulator.ran())
    })?;
    Ok((judged.to_json(), tables::advice::render_gate(&judged)))
}
