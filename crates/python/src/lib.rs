//! `schedcast._native`: the laboratory for the Python package `schedcast`.
//!
//! Nothing is decided here. The pure part of the package (`python/schedcast`) turns what a Python
//! user writes into the words of the command line — the text of an experiment file, settings as
//! behind `--set` — and this module asks the laboratory the same question as the command does, so
//! that both give the same bytes:
//!
//! ```text
//! Experiment, dict, settings ──► Asked ──► Question ──► Answer ──► JSON, tables for people, Arrow
//!        (Python)               (asked)          (lab)                    (answer, sweep, columns)
//! ```
//!
//! Simulations run in a thread of their own without the interpreter's lock; the calling thread
//! looks for signals and reports progress meanwhile ([`running`]).

use pyo3::prelude::*;

mod advice;
mod answer;
mod arrow;
mod asked;
mod columns;
mod error;
mod fleet;
mod running;
mod sweep;

/// The native half of the package `schedcast`; use the package.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    error::add_to(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<answer::Answer>()?;
    module.add_class::<sweep::SweepResults>()?;
    module.add_class::<columns::Table>()?;
    module.add_function(wrap_pyfunction!(advice::advise, module)?)?;
    module.add_function(wrap_pyfunction!(advice::judge, module)?)?;
    module.add_function(wrap_pyfunction!(answer::ask, module)?)?;
    module.add_function(wrap_pyfunction!(answer::check, module)?)?;
    module.add_function(wrap_pyfunction!(answer::list_names, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_of, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::sweep, module)?)?;
    Ok(())
}
