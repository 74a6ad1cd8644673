//! Flags of `schedcast sweep`.

use std::path::PathBuf;

use clap::Args;
use schedcast_lab::sweep::Part;

use super::Effort;
use super::target::Target;
use crate::columns::ColumnArguments;

pub(super) const HELP: &str = "\
The grid is the file's [sweep]: keys and the values they take. Every finished point is on disk at
once; the same command after an interruption runs only what is missing. Of a recording the grid is
quotas from what the service uses to where more does not help, each with three bursts.
Several machines: --part 1/4 … --part 4/4, then --merge EXP.sweep/part-*.";

/// `schedcast sweep`
#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// Experiment file (TOML) with a `[sweep]` section, or the folder of a recording
    #[arg(value_name = "EXP.toml|RECORDING")]
    pub subject: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArguments,
    #[command(flatten)]
    pub target: Target,
    /// A promise to draw over a recording's sweep, such as 'p99<80ms'
    #[arg(long, value_name = "PROMISE")]
    pub slo: Option<String>,
    #[command(flatten)]
    pub effort: Effort,
    /// Folder of the results [default: EXP.sweep or RECORDING.sweep]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Run every N-th point alone, beginning with the K-th, into a folder of its own in DIR
    #[arg(long, value_name = "K/N", value_parser = Part::parse)]
    pub part: Option<Part>,
    /// Take the points that sweeps in other folders finished; what is missing is run here
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub merge: Vec<PathBuf>,
    /// Number of threads that simulate [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Print only columns with this name, such as 'web/*'; may be repeated [default: the usual
    /// columns]
    #[arg(long = "metric", value_name = "NAME")]
    pub metrics: Vec<String>,
    /// Print every metric, not only the usual ones
    #[arg(short, long, display_order = 901, conflicts_with = "quiet")]
    pub verbose: bool,
}
