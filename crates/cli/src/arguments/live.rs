//! Verbs about a recording's promises and about the live host.

use std::path::PathBuf;

use super::target::Target;
use super::validate::Place;
use super::{Clients, Effort, Length, one_of};
use crate::columns::ColumnArguments;
use clap::{Args, Subcommand};
use schedcast_host::record::Way;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum LiveVerb {
    /// Find the smallest limit that keeps the promises of a recorded service, and who pays
    #[command(after_help = ADVISE_HELP)]
    Advise(AdviseArguments),
    /// Check whether a recorded service keeps its promises under limits: exit code 0 or 1
    #[command(after_help = CHECK_HELP)]
    Check(CheckArguments),
    /// Show the limited groups of this host by their share of throttled periods, with names
    #[command(after_help = super::here::TOP_HELP)]
    Top(super::here::TopArguments),
    /// Record the scheduling events, the cgroups and the machine of this host
    #[command(after_help = RECORD_HELP)]
    Record(RecordArguments),
    /// Write an advice or settings to a real cgroup, verified and reversible
    #[command(after_help = APPLY_HELP)]
    Apply(ApplyArguments),
    /// Take back what `apply` wrote
    Undo(UndoArguments),
    /// Measure what this machine's switches, wakeups, ticks and interrupts cost
    #[command(after_help = CALIBRATE_HELP)]
    Calibrate(CalibrateArguments),
    /// Run experiments for real and in simulation, and print how far off the simulation is
    #[command(after_help = super::validate::HELP)]
    Validate(super::validate::ValidateArguments),
    /// Show what works on this host
    #[command(name = "self")]
    Own(super::here::SelfArguments),
}

/// Below the help of `record`.
const RECORD_HELP: &str = "\
schedcast record -o pg --unit postgresql --duration 30s
schedcast record -o shop --pod shop/checkout/app --duration 30s
schedcast record -o job --cgroup /test -- ./job --threads 4
schedcast record -o own --unprivileged --duration 30s
Ctrl-C ends a recording and keeps it. Recording needs root, or CAP_BPF and CAP_PERFMON.";

/// Below the help of `apply`.
const APPLY_HELP: &str = "\
schedcast apply advice.json
schedcast apply --cgroup /pg --set 'cpu.max=60000 100000' --set cpu.max.burst=20000
Names of both cgroup versions are understood on either. Either every file is changed or none.";

/// `schedcast record`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Describe only this group and those around it, by path or its end; COMMAND starts in it")),
          mut_arg("duration", |arg| arg.help("Longest recording, such as 30s [default: until COMMAND ends, or 30s without one]")))]
pub(crate) struct RecordArguments {
    /// Folder to record into
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub length: Length,
    /// How to record [default: the first of tracefs, bpf and perf that is open here]
    #[arg(long, value_name = "WAY", value_parser = one_of::<Way>())]
    pub by: Option<Way>,
    /// The same as --by perf
    #[arg(long, hide = true, conflicts_with = "by")]
    pub perf: bool,
    /// Sample the group's counters instead of recording events: needs no privileges, and is input
    /// for `schedcast counters`
    #[arg(long, conflicts_with_all = ["by", "perf"])]
    pub unprivileged: bool,
    /// With --unprivileged: milliseconds from one sample to the next
    #[arg(long, value_name = "MS", default_value_t = 10, requires = "unprivileged", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub every: u64,
    /// Command to run during the recording
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `schedcast apply`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("The group, by its path or the end of its path [default: that of the advice]")))]
pub(crate) struct ApplyArguments {
    /// File that `schedcast advise --json` wrote
    #[arg(value_name = "ADVICE.json", conflicts_with = "set")]
    pub advice: Option<PathBuf>,
    /// One setting in place of an advice, such as 'cpu.max=60000 100000'; may be repeated
    #[arg(long, value_name = "FILE=VALUE", requires = "target")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub target: Target,
    /// Write even where kubelet or systemd owns the settings
    #[arg(long)]
    pub force_owner: bool,
    /// Write even where the limit in force is not the one that the advice began with
    #[arg(long, conflicts_with = "set")]
    pub force_limit: bool,
    /// Only say what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Folder that keeps the previous values
    #[arg(long, value_name = "DIR", default_value = schedcast_host::apply::JOURNALS)]
    pub journal: PathBuf,
}

/// `schedcast undo`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("The group, by its path or the end of its path [default: the only one that was changed]")))]
pub(crate) struct UndoArguments {
    #[command(flatten)]
    pub target: Target,
    /// Take back even where somebody has set another value since
    #[arg(long)]
    pub force_limit: bool,
    /// Folder that keeps the previous values
    #[arg(long, value_name = "DIR", default_value = schedcast_host::apply::JOURNALS)]
    pub journal: PathBuf,
}

/// Below the help of `calibrate`.
const CALIBRATE_HELP: &str = "\
Takes about 45 seconds on an otherwise idle machine. Root only: ticks are seen through the
tracer. [machine] preset = \"host\" then has these figures.

schedcast calibrate --figures results.toml -o machine.toml simulates, so it needs neither.";

/// `schedcast calibrate`
#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// Machine description to write, - for standard output [default: where preset = "host" looks]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Machine to measure: host, or vm:6.12 for a virtual machine with that kernel and as many CPUs
    /// as this host
    #[arg(long, value_name = "WHERE", default_value = "host")]
    pub on: Place,
    /// Fit constants to the results in FILE, of another machine, instead of measuring this one
    #[arg(long, value_name = "FILE", conflicts_with = "on", requires = "output")]
    pub figures: Option<PathBuf>,
}

/// Below the help of `advise`.
const ADVISE_HELP: &str = "\
A promise is METRIC<VALUE with a unit. p50 … p99.9 are short for what the group's clients see where
the recording shows it; `schedcast list metrics` shows all other metrics:
schedcast advise recordings/pg --slo 'p99<80ms' --slo 'nr_throttled<=20' --max-neighbour +5%
Exit code 0, 1 if no limit keeps every promise, 4 if one keeps them on average only.";

/// Below the help of `check`.
const CHECK_HELP: &str = "\
Without settings the recorded limits are judged, else every column of settings:
schedcast check recordings/pg --slo 'p99<80ms' --set 'cpu.max=60000 100000'
Exit code 0 if every promise is kept, 1 if one is broken.";

/// `schedcast advise`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group whose limits may change [default: the only one that was limited]")))]
pub(crate) struct AdviseArguments {
    /// Folder of a recording
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// Promise that must be kept, such as 'p99<80ms'; may be repeated
    #[arg(long, value_name = "PROMISE", num_args = 0..=1, default_missing_value = "")]
    pub slo: Vec<String>,
    /// Reject limits that make a neighbour worse by more than this, such as +5% [default: no bound]
    #[arg(long, value_name = "GROWTH", allow_hyphen_values = true)]
    pub max_neighbour: Option<String>,
    #[command(flatten)]
    pub clients: Clients,
    /// Advise even if the simulation of the recorded limit misses the recording
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub effort: Effort,
    /// Write the advice as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `schedcast check`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group whose limits change [default: the only one that was limited]")))]
pub(crate) struct CheckArguments {
    /// Folder of a recording
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// Promise that must be kept, such as 'p99<80ms'; may be repeated
    #[arg(long, value_name = "PROMISE", num_args = 0..=1, default_missing_value = "")]
    pub slo: Vec<String>,
    #[command(flatten)]
    pub columns: ColumnArguments,
    #[command(flatten)]
    pub clients: Clients,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub effort: Effort,
    /// Write the verdict as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}
