//! Flags for what is looked at.

use std::path::PathBuf;

use clap::Args;

/// Pictures of the first seed of every variant.
#[derive(Clone, Debug, Args)]
pub(crate) struct Pictures {
    /// Write what happened in the first run of every variant as one Perfetto trace
    #[arg(long, value_name = "FILE", value_parser = file)]
    pub trace: Option<PathBuf>,
    /// Write the answer as one HTML page that needs nothing else
    #[arg(long, value_name = "FILE", value_parser = file)]
    pub report: Option<PathBuf>,
}

/// The name of a file. Standard output has the table.
fn file(name: &str) -> Result<PathBuf, &'static str> {
    match name {
        "-" => Err("standard output has the table: name a file"),
        name => Ok(PathBuf::from(name)),
    }
}
