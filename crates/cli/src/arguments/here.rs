//! Flags of the verbs that look at this host: `top` and `self`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Below the help of `top`.
pub(crate) const TOP_HELP: &str = "\
schedcast top
schedcast top --once --json - | jq '.groups[0].name'
A share is one of the periods in which a group was active. Next: schedcast record --pod NAMESPACE/POD.";

/// `schedcast top`
#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// Seconds between two readings
    #[arg(long, value_name = "N", default_value_t = 2.0, allow_negative_numbers = true,
          value_parser = interval)]
    pub interval: f64,
    /// Print one table and end, even on a terminal
    #[arg(long)]
    pub once: bool,
    /// Print a new table after every interval, even where the output is no terminal
    #[arg(long, conflicts_with = "once")]
    pub follow: bool,
    /// Show groups without a limit, too
    #[arg(long)]
    pub all: bool,
    /// Write one table as JSON to FILE, or to standard output with -; with --follow a line for each
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    match (0.05..=3600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("expected 0.05 to 3600".to_string()),
    }
}

/// `schedcast self`
#[derive(Debug, Args)]
pub(crate) struct SelfArguments {
    /// Verb of `schedcast self` to run
    #[command(subcommand)]
    pub what: SelfVerb,
}

/// Verbs of `self`.
#[derive(Debug, Subcommand)]
pub(crate) enum SelfVerb {
    /// Check which features work on this host and what each missing permission would add
    Check(SelfCheckArguments),
}

/// `schedcast self check`
#[derive(Debug, Args)]
pub(crate) struct SelfCheckArguments {
    /// Write the findings as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
