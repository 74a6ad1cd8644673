//! Flags of `schedcast serve`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::target::Target;
use crate::columns::ColumnArguments;

/// `schedcast serve`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group that the controls limit [default: the one that is limited]")))]
pub(crate) struct ServeArguments {
    /// Experiment file (TOML), or folder of a recording
    #[arg(value_name = "EXP|RECORDING")]
    pub subject: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArguments,
    #[command(flatten)]
    pub target: Target,
    /// Number of runs of each variant, under the seeds 0 to N-1
    #[arg(long, value_name = "N", default_value_t = 3, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub seeds: u32,
    #[command(flatten)]
    pub length: super::Length,
    /// Port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 7160)]
    pub port: u16,
}
