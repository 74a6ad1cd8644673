//! Facts that every crate needs and that stand in one place: it uses no other crate of this
//! workspace.
//!
//! | module | fact |
//! |---|---|
//! | [`limits`] | what the kernel takes as a CPU limit, and the error number of what it refuses |
//! | [`cpu_list`] | a set of CPUs as the kernel and `taskset` write it |
//! | [`cpu_max`] | a limit as people and the kernel write it |
//! | [`cpu_stat`] | the counters of a group, whichever version of cgroups printed them |
//! | [`disturbed`] | what neighbours may take of a machine in a measurement that counts |
//! | [`quantile`] | the one definition of a quantile |
//! | [`rows`] | rows of a text that is built in |
//! | [`date`] | today's date |
//! | [`named!`] | enumerations whose variants stand with their names |
//! | [`names`] | the valid name that was most likely meant |
//! | [`groups`] | cgroups as operators name them |
//! | [`error`] | an error with its place in a file or on the command line |
//! | [`harmless`] | text from files, shown so that a terminal obeys none of it |
//! | [`columns`] | text set in columns and lines |
//! | [`expect`] | assertions of every crate's tests |
//! | [`fresh`], [`whole`] | files that are written whole or not at all, and read whole |
//!
//! Worked example: `cpu.max = "50% 20000"` in an experiment is read by [`cpu_max::CpuMax::parse`]
//! as 10 000 µs in 20 000 µs, checked by [`limits::validate`], and the same text given to
//! `schedcast apply` is read and checked by the same two functions.

pub mod columns;
pub mod cpu_list;
pub mod cpu_max;
pub mod cpu_stat;
pub mod date;
pub mod disturbed;
pub mod error;
pub mod expect;
pub mod fresh;
pub mod groups;
pub mod harmless;
pub mod limits;
pub mod named;
pub mod names;
pub mod quantile;
pub mod rows;
pub mod whole;

pub use expect::{assert_contains, assert_ends, assert_starts};
