//! Verbs about a recording's promises and about the live host.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Effort;
use crate::columns::ColumnArguments;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum LiveVerb {
    /// Find the smallest limit that keeps the promises of a recorded service, and who pays
    #[command(after_help = ADVISE_HELP)]
    Advise(AdviseArguments),
    /// Judge limits by what a recorded service promises: exit code 0 or 1
    #[command(after_help = CHECK_HELP)]
    Check(CheckArguments),
}

/// Below the help of `advise`.
const ADVISE_HELP: &str = "\
A promise is METRIC<VALUE with a unit. p50 … p99.9 are short for the activation latency of the
threads that do the group's work; `schedcast list metrics` shows all others:
schedcast advise recordings/pg --slo 'p99<80ms' --slo 'nr_throttled<=20' --max-neighbour +5%
Exit code 0, or 1 if no limit keeps every promise.";

/// Below the help of `check`.
const CHECK_HELP: &str = "\
Without settings the recorded limits are judged, else every column of settings:
schedcast check recordings/pg --slo 'p99<80ms' --set 'cpu.max=60000 100000'
Exit code 0 if every promise is kept, 1 if one is broken.";

/// `schedcast advise`
#[derive(Debug, Args)]
pub struct AdviseArguments {
    /// Folder of a recording
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// What must hold, such as 'p99<80ms'; may be repeated
    #[arg(long, value_name = "PROMISE", required = true)]
    pub slo: Vec<String>,
    /// How much worse a neighbour may become, such as +5% [default: any]
    #[arg(long, value_name = "GROWTH", allow_hyphen_values = true)]
    pub max_neighbour: Option<String>,
    /// Group whose limits may change [default: the only one that was limited]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// How much to run
    #[command(flatten)]
    pub effort: Effort,
    /// Write the advice as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `schedcast check`
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Folder of a recording
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// What must hold, such as 'p99<80ms'; may be repeated
    #[arg(long, value_name = "PROMISE", required = true)]
    pub slo: Vec<String>,
    /// Settings to judge
    #[command(flatten)]
    pub columns: ColumnArguments,
    /// Group whose limits change [default: the only one that was limited]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// How much to run
    #[command(flatten)]
    pub effort: Effort,
    /// Write the verdict as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
