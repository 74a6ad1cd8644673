//! Flags of `schedcast validate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Below the help.
pub(super) const HELP: &str = "\
schedcast validate exp.toml
schedcast validate validation/*.toml --results host.json --page host.md
Every variant is run for real, in real cgroups with the real programs, one run after the other, and
in simulation. Root only; leave the machine alone meanwhile.";

/// Where the real runs happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// This machine and its kernel.
    Host,
}

/// `schedcast validate`
#[derive(Debug, Args)]
pub struct ValidateArguments {
    /// Experiment files (TOML)
    #[arg(value_name = "EXP.toml", required = true)]
    pub experiments: Vec<PathBuf>,
    /// Where the real runs happen
    #[arg(long, value_enum, default_value_t = Place::Host)]
    pub on: Place,
    /// Real runs of each variant
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Simulations of each variant [default: what the file says, or 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub seeds: Option<u32>,
    /// Keep the results in FILE; scenarios that are in it already are replaced
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Write the page of all results to FILE
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}
