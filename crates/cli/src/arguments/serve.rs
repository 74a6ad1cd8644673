//! Flags of `schedcast serve`.

use std::path::PathBuf;

use clap::Args;

use crate::arguments::Effort;
use crate::columns::ColumnArguments;

/// `schedcast serve`
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Experiment file (TOML), or folder of a recording
    #[arg(value_name = "EXP|RECORDING")]
    pub subject: PathBuf,
    /// Settings and further variants
    #[command(flatten)]
    pub columns: ColumnArguments,
    /// Group that the controls limit [default: the one that is limited]
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// How much to run
    #[command(flatten)]
    pub effort: Effort,
    /// Port on 127.0.0.1; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 7160)]
    pub port: u16,
}
