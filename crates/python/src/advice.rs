//! `advise`: the smallest limit that keeps promises.

use pyo3::prelude::*;
use schedcast_lab::advise::{Demands, advise as search};
use schedcast_lab::tables;

use crate::asked::Asked;
use crate::error::raised;
use crate::running;

/// Searches for limits; returns the JSON and the table of the command.
///
/// `progress(ended, 0)`: how many runs a search needs is not known before.
#[pyfunction]
#[pyo3(signature = (asked, slos, max_neighbour=None, workers=None, progress=None))]
pub fn advise(
    py: Python<'_>,
    asked: Asked,
    slos: Vec<String>,
    max_neighbour: Option<String>,
    workers: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(String, String)> {
    let question = raised(asked.question())?;
    let demands = Demands {
        slos,
        max_neighbour,
    };
    let advice = running::run(py, 0, progress, workers, |simulator| {
        search(&question, &demands, simulator, &|| simulator.ran())
    })?;
    Ok((advice.to_json(), tables::advice::render(&advice)))
}
