//! Flags of `schedcast reproduce`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `schedcast reproduce`
#[derive(Debug, Args)]
pub(crate) struct ReproduceArguments {
    /// Studies; all of them if none is named
    #[arg(value_name = "STUDY")]
    pub studies: Vec<String>,
    /// Run few seeds: numbers within minutes, but no verdict
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a picture of each study, NAME.svg, to DIR, which is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub pictures: Option<PathBuf>,
    /// Write a page of each study, NAME.html, and index.html to DIR, which is made if it is not
    /// there
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Layout of the output
    #[arg(long, value_enum, default_value_t = ReproduceFormat::Table)]
    pub format: ReproduceFormat,
}

/// Layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReproduceFormat {
    /// The published tables beside ours, then the verdicts
    Table,
    /// The verdicts of all studies as a page in Markdown
    Markdown,
}
