//! `schedcast fleet`.

use std::path::PathBuf;

use clap::Args;

/// Examples below the flags.
pub const HELP: &str = "\
schedcast fleet range.json
schedcast fleet range.json --throttled-below 1% --budget 8 --csv fleet.csv --rules rules.yaml
RANGE.json are answers of Prometheus' query_range: docs/commands/fleet.md has the query.";

/// `schedcast fleet`
#[derive(Debug, Args)]
pub struct FleetArguments {
    /// Answers of Prometheus' query_range to the counters of containers, in order of time
    #[arg(value_name = "RANGE.json", required = true)]
    pub ranges: Vec<PathBuf>,
    /// Share of its periods in which a container may be throttled, such as 1%
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub throttled_below: f64,
    /// CPUs of limits to give away where they save most throttled time
    #[arg(long, value_name = "CPUS", value_parser = budget)]
    pub budget: Option<f64>,
    /// CPUs of every machine [default: machine_cpu_cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub cpus: Option<u32>,
    /// Print all containers, not only the first twenty
    #[arg(long)]
    pub all: bool,
    /// Write the answer as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a line for each container to FILE
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write alerting rules for Prometheus to FILE
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Write a dashboard for Grafana to FILE
    #[arg(long, value_name = "FILE")]
    pub dashboard: Option<PathBuf>,
}

fn share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse::<f64>(),
    };
    let share = number.ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("expected a share such as 5% or 0.05, found `{text}`"))
}

fn budget(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let cpus = number.filter(|cpus| *cpus > 0.0 && cpus.is_finite());
    cpus.ok_or_else(|| format!("expected a number of CPUs such as 8 or 0.5, found `{text}`"))
}
