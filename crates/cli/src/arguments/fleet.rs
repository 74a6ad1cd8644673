//! `schedcast fleet`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use schedcast_lab::experiment::units::parse_duration_ns;

use super::views::label_and_value;

/// Examples below the flags.
pub(crate) const HELP: &str = "\
schedcast fleet --prometheus http://localhost:9090 --select namespace=shop --last 1h
schedcast fleet range.json
schedcast fleet range.json --throttled-below 1% --budget 8 --csv fleet.csv --rules rules.yaml
RANGE.json are answers of Prometheus' query_range: docs/commands/fleet.md has the query.";

/// `schedcast fleet`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").args(["prometheus", "ranges"]).required(true)))]
pub(crate) struct FleetArguments {
    /// Answers of Prometheus' query_range to the counters of containers, in order of time
    #[arg(value_name = "RANGE.json")]
    pub ranges: Vec<PathBuf>,
    /// Ask this server instead of reading files, such as http://localhost:9090
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,
    /// Ask for containers with this label, such as namespace=shop
    #[arg(long, value_name = "LABEL=VALUE", conflicts_with = "ranges", value_parser = label)]
    pub select: Vec<(String, String)>,
    /// Ask for the time until now, of this length
    #[arg(long, value_name = "TIME", default_value = "1h", conflicts_with = "ranges", value_parser = seconds)]
    pub last: u64,
    /// Send this header along, such as 'Authorization: Bearer …'; @FILE reads it from a file
    #[arg(long, value_name = "NAME: VALUE", conflicts_with = "ranges", value_parser = header)]
    pub header: Vec<(String, String)>,
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
    /// Write the answer as a page for a browser to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write alerting rules for Prometheus to FILE
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Write a dashboard for Grafana to FILE
    #[arg(long, value_name = "FILE")]
    pub dashboard: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        let is_letter = |one: char| one.is_ascii_alphabetic() || one == '_';
        letters.next().is_some_and(is_letter)
            && letters.all(|one| is_letter(one) || one.is_ascii_digit())
    };
    let (name, value) = label_and_value(text)?;
    match is_name(&name) {
        true => Ok((name, value)),
        false => Err(format!("`{name}` is no name of a label")),
    }
}

fn seconds(text: &str) -> Result<u64, String> {
    match parse_duration_ns(text)? / 1_000_000_000 {
        0 => Err("expected at least a second, such as 10min or 1h".to_owned()),
        seconds => Ok(seconds),
    }
}

/// A token on a command line is seen by every process, so a file may hold it.
fn header(text: &str) -> Result<(String, String), String> {
    let line = match text.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?,
        None => text.to_owned(),
    };
    let (name, value) = line.trim_end().split_once(':').unwrap_or_default();
    let (name, value) = (name.trim(), value.trim());
    let is_token = |one: char| one.is_ascii_alphanumeric() || one == '-' || one == '_';
    if name.is_empty() || !name.chars().all(is_token) || value.chars().any(char::is_control) {
        return Err("expected one line NAME: VALUE such as Authorization: Bearer …".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
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
    let number = match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse::<f64>().map(|cpus| cpus / 1000.0),
        None => text.parse::<f64>(),
    };
    let cpus = number.ok().filter(|cpus| *cpus > 0.0 && cpus.is_finite());
    cpus.ok_or_else(|| format!("expected a number of CPUs such as 8, 0.5 or 500m, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_in_cpus_or_thousandths() {
        assert_eq!((budget("0.5"), budget("500m")), (Ok(0.5), Ok(0.5)));
        for text in ["m", "-500m", "0m", "inf", "500M"] {
            assert!(budget(text).is_err(), "{text}");
        }
    }
}
