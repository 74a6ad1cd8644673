//! Experiments: files, variants, seeds, statistics and tables.
//!
//! An experiment asks one question: what do these variants do differently? The way from question to
//! answer, with the module of each step:
//!
//! ```text
//! exp.toml, --set ──► experiment ──► Scenario per variant
//!                                        │  × seeds, on all CPUs (simulate)
//!                                        ▼
//!                                    Outcome: metrics and event hash of one run
//!                                        │  paired seed by seed (statistics, comparison)
//!                                        ▼
//!                                    Comparison ──► tables, JSON
//! ```
//!
//! Worked example: two variants and 10 seeds are 20 runs. Seed 3 of variant 1 differs from seed 3
//! of variant 0 in nothing but the settings, so the 10 differences of a metric tell what the
//! settings do; [`statistics`] says how sure that is. Nothing in here knows how anything is
//! scheduled: [`simulate::Simulate`] is all this crate asks of a simulator.

pub mod answer;
pub mod backlog;
pub mod bisect;
mod change;
pub mod clients;
pub mod comparison;
pub mod context;
pub mod determinism;
pub mod drift;
pub mod experiment;
pub mod explain;
mod failures;
pub mod held_back;
pub mod host_machine;
pub mod late;
pub mod limit;
pub mod metrics;
pub mod outcome;
pub mod outside;
pub mod patches;
pub mod possible;
pub mod profile;
pub mod question;
pub mod recording;
pub mod resimulated;
pub mod samples;
pub mod simulate;
pub mod simulator;
pub mod statistics;
pub mod sweep;
mod tree_files;
pub mod trust;
pub mod verdict;

pub use schedcast_base::error;
