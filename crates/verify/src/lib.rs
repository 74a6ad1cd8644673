//! Forecasts held against what was measured: published studies, live runs, figures of a machine.
//!
//! ```text
//! studies/NAME/published.csv ─► studies  ┐
//! real runs of an experiment ─► validate ├─► lab ─► verdicts and pages
//! results of benchmarks      ─► fit      ┘
//! ```
//!
//! The examples of this crate simulate reports of others and drawn worlds.

pub mod fit;
pub mod real;
pub mod studies;
pub mod swarm;
pub mod validate;
