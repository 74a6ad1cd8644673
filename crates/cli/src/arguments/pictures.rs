//! Flags for what is looked at.

use std::path::PathBuf;

use clap::Args;

/// Pictures of the first seed of every variant.
#[derive(Clone, Debug, Args)]
pub struct Pictures {
    /// Write what happened as a Perfetto trace; several variants get a file each beside FILE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the answer as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}
