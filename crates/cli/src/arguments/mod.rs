//! Every verb and flag. The comments are the help text.

mod named;
mod pictures;
pub mod reproduce;
pub mod serve;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use schedcast_lab::context::Style;
use schedcast_lab::error::{self, Error};
use schedcast_lab::question::{CLIENTS, Setting, client_loops};

use crate::columns::ColumnArguments;
pub(crate) use crate::verbs::explain::ExplainArguments;
pub(crate) use named::{help_of, one_of};
pub(crate) use pictures::Pictures;
use schedcast_present::lists::Listing;
use target::Target;
use validate::Place;

pub mod fleet;
pub mod here;
pub mod live;
mod sweep;
pub mod target;
pub mod tree;
pub mod validate;
pub mod views;

pub(crate) use self::sweep::SweepArguments;

/// Forecast what the Linux CPU scheduler will do.
///
/// Variants of machine, kernel, cgroup limits and programs are compared in virtual time.
#[derive(Debug, Parser)]
#[command(name = "schedcast", version, max_term_width = 100)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Verb to run
    #[command(subcommand)]
    pub verb: Verb,
    /// No progress bar
    #[arg(short, long, global = true, display_order = 900)]
    pub quiet: bool,
    /// Look at the host whose root is DIR, as in `kubectl debug node`: a chroot, for root
    #[arg(long, global = true, display_order = 901, value_name = "DIR")]
    pub host_root: Option<PathBuf>,
    /// How tables are set; the terminal says, and no flag
    #[arg(skip)]
    pub style: Style,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run all variants of an experiment under the same seeds and print one table
    #[command(after_help = COLUMN_HELP)]
    Compare(CompareArguments),
    /// Run one variant, or a command without any file: schedcast run -- COMMAND…
    #[command(after_help = RUN_HELP)]
    Run(RunArguments),
    /// Replay a recording under other limits or another kernel, beside what was recorded
    #[command(after_help = WHAT_IF_HELP)]
    WhatIf(WhatIfArguments),
    /// Replay a recording on another kernel, and find the changes that make the difference
    #[command(after_help = UPGRADE_HELP)]
    Upgrade(UpgradeArguments),
    /// Run every point of an experiment's grid, a row of results for each; can be resumed
    #[command(after_help = sweep::HELP)]
    Sweep(SweepArguments),
    /// Predict published studies and print what was published beside it
    Reproduce(reproduce::ReproduceArguments),
    #[command(flatten)]
    Live(live::LiveVerb),
    /// Print single decisions with the rule and the state behind them
    #[command(after_help = EXPLAIN_HELP)]
    Explain(ExplainArguments),
    #[command(flatten)]
    View(views::ViewVerb),
    /// Find which limits of a cluster throttle, and which would suffice, from counters alone
    #[command(after_help = fleet::HELP)]
    Fleet(fleet::FleetArguments),
    /// Serve the report page with controls that simulate anew, on 127.0.0.1
    Serve(serve::ServeArguments),
    /// Compile the scheduler of a kernel tree, to check that it builds
    Tree(tree::TreeArguments),
    /// Answer agents and other programs on standard input (Model Context Protocol)
    Mcp(McpArguments),
    /// Write man pages and shell completions into a folder
    HelpFiles(HelpFilesArguments),
    /// List what can be named in experiments
    List(ListArguments),
}

const EXPLAIN_HELP: &str = "\
schedcast explain exp.toml --variant burst --kind throttle --at 2s --count 3
schedcast explain exp.toml --task worker --kind place
schedcast explain exp.toml --diff stock patched";

const COLUMN_HELP: &str = "\
Settings before the first --variant hold for all columns; each --variant adds a column with the
settings behind it. KEY is dotted as in TOML: kernel.hz=1000, cgroup.\"/test\".\"cpu.max\"=50000,
or a cgroup file of --cgroup: cpu.max='60000 100000'.";

const RUN_HELP: &str = "\
schedcast run --cgroup /test --set 'cpu.max=50000 100000' -- schbench-classic -m 1 -t 3 -r 20";

const WHAT_IF_HELP: &str = "\
The first column simulates the recorded settings. Settings before the first --variant make the
second column, and each --variant adds one:
schedcast what-if recordings/pg --set 'cpu.max=60000 100000' --variant more --set cpu.max=90000";

const UPGRADE_HELP: &str = "\
schedcast upgrade recordings/pg --to 6.18
schedcast upgrade recordings/pg --to 7.1 --to 7.3
schedcast upgrade recordings/pg --from 6.1 --to 6.12 --follow postgres/activation_latency.p99";

/// `schedcast compare`
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// Experiment file (TOML)
    #[arg(
        value_name = "EXP.toml",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArguments,
    /// Group whose cpu.* files --set changes, and in which COMMAND starts
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    #[command(flatten)]
    pub bisect: Bisect,
    #[command(flatten)]
    pub effort: Effort,
    #[command(flatten)]
    pub output: Output,
    /// Command to run in each column, as typed in a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// `schedcast run`
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Experiment file (TOML); --variant names the one to run
    #[arg(
        value_name = "EXP.toml",
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub experiment: Option<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArguments,
    /// Cgroup that COMMAND starts in, and whose cpu.* files --set changes
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<String>,
    /// Where to run: sim, host, vm:6.12 (another kernel, booted), or several
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "sim",
        value_name = "WHERE"
    )]
    pub on: Vec<Where>,
    /// Inside the virtual machine: measure here and print JSON
    #[arg(long, hide = true)]
    pub guest: bool,
    /// Run each seed twice and in steps, and name the first event at which two runs differ
    #[arg(long)]
    pub check_determinism: bool,
    #[command(flatten)]
    pub effort: Effort,
    #[command(flatten)]
    pub output: Output,
    /// Command to run, as typed in a shell
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Where a variant runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// In simulation
    Sim,
    /// For real
    Real(Place),
}

impl std::fmt::Display for Where {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Where::Sim => f.write_str("sim"),
            Where::Real(Place::Host) => f.write_str("host"),
            Where::Real(Place::Vm(series)) => write!(f, "vm:{series}"),
        }
    }
}

impl std::str::FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Where, String> {
        match text {
            "sim" => Ok(Where::Sim),
            _ => match text.parse() {
                Ok(place) => Ok(Where::Real(place)),
                Err(expected) => Err(expected.replace("host", "sim, host")),
            },
        }
    }
}

/// How the clients of a recording ask, where its trace does not show it.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    /// When clients ask: open (by a schedule), closed (when they are answered) or bounded (both)
    /// [default: as the recording shows it]
    #[arg(long, value_name = "HOW", value_parser = client_loops())]
    client: Option<String>,
}

impl Clients {
    /// `columns`, each with these clients.
    ///
    /// # Errors
    /// A setting of all columns that says the same.
    pub(crate) fn of_all(&self, columns: &ColumnArguments) -> error::Result<ColumnArguments> {
        let mut columns = columns.clone();
        let Some(client) = &self.client else {
            return Ok(columns);
        };
        if columns.0.leading.iter().any(Setting::names_clients) {
            let message = format!("--client and --set {CLIENTS} both say when clients ask");
            return Err(Error::usage(message).hint("leave one of them out"));
        }
        let clients = Setting::Set(format!("{CLIENTS}={client}"));
        columns.0.leading.push(clients);
        Ok(columns)
    }
}

/// `schedcast what-if`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group whose limits change [default: the only one that was limited]")))]
pub(crate) struct WhatIfArguments {
    /// Folder of a recording, or a profile (.toml) distilled from one
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArguments,
    #[command(flatten)]
    pub clients: Clients,
    #[command(flatten)]
    pub target: Target,
    /// Add a column for every limit in measured.json: the forecast beside what was measured
    #[arg(long)]
    pub measured: bool,
    #[command(flatten)]
    pub bisect: Bisect,
    #[command(flatten)]
    pub effort: Effort,
    #[command(flatten)]
    pub output: Output,
}

/// `schedcast upgrade`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group that the answer is about [default: the only one that was limited]")))]
pub(crate) struct UpgradeArguments {
    /// Folder of a recording
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// Kernel to upgrade from, such as 6.1 [default: the recorded one]
    #[arg(long, value_name = "V")]
    pub from: Option<String>,
    /// Kernel to upgrade to, such as 6.12; may be repeated, each compared with the one before
    #[arg(long, value_name = "V", required = true)]
    pub to: Vec<String>,
    /// Metric whose change is explained [default: what differs most in the group]
    #[arg(long, value_name = "METRIC")]
    pub follow: Option<String>,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub effort: Effort,
    #[command(flatten)]
    pub output: Output,
}

/// The flag that asks for a cause.
#[derive(Clone, Debug, Args)]
pub(crate) struct Bisect {
    /// Find which changes between the last two kernels move METRIC [default: the largest change]
    #[arg(long, value_name = "METRIC", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub bisect: Option<String>,
}

impl Bisect {
    /// The metric to follow, if one is named, and the number of pairs of columns; nothing if no
    /// bisection is wanted.
    pub(crate) fn wanted(&self) -> Option<(Option<&str>, usize)> {
        let metric = self.bisect.as_deref()?;
        Some(((!metric.is_empty()).then_some(metric), 1))
    }
}

/// Flags that say how much to run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Effort {
    /// Number of runs of each variant, under the seeds 0 to N-1 [default: 10]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub seeds: Option<u32>,
    #[command(flatten)]
    pub length: Length,
}

/// How long something lasts, in either of two words.
#[derive(Clone, Debug, Args)]
pub(crate) struct Length {
    /// Simulated time of each run, such as 20s or 500ms
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    duration: Option<String>,
    /// The same in seconds
    #[arg(long, value_name = "N", hide = true, allow_negative_numbers = true,
          value_parser = positive_seconds, conflicts_with = "duration")]
    seconds: Option<String>,
}

impl Length {
    /// A number with a unit of time, whichever word was used.
    pub(crate) fn time(&self) -> Option<String> {
        self.duration.clone().or_else(|| self.seconds.clone())
    }
}

fn positive_seconds(text: &str) -> Result<String, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number; --duration takes units".to_owned())?;
    match seconds > 0.0 && seconds <= LONGEST_S {
        true => Ok(format!("{seconds}s")),
        false => Err(format!("expected more than 0 and at most {LONGEST_S}")),
    }
}

/// Eleven days: what is longer was not meant.
pub(crate) const LONGEST_S: f64 = 1e6;

/// Flags that say where results go.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// Write the results as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Layout of the table
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Print ratios to the first variant and their means over all operations (mmtests format)
    #[arg(long)]
    pub print_ratio: bool,
    /// Write every variant's samples into DIR, as mmtests (TSV) and lkp (matrix.json) keep theirs
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Print only rows with this name, such as 'web/*'; may be repeated [default: the usual rows]
    #[arg(long = "metric", value_name = "NAME")]
    pub metrics: Vec<String>,
    /// Print every metric, not only the usual ones
    #[arg(short, long, display_order = 901, conflicts_with = "quiet")]
    pub verbose: bool,
    #[command(flatten)]
    pub pictures: Pictures,
}

impl Output {
    /// The files that are asked for; the folder of `--export` is made.
    pub(crate) fn files(&self) -> [Option<&PathBuf>; 3] {
        let pictures = &self.pictures;
        [
            self.json.as_ref(),
            pictures.trace.as_ref(),
            pictures.report.as_ref(),
        ]
    }

    /// Whether anything is written beside the table, JSON aside.
    pub(crate) fn writes_files(&self) -> bool {
        let pictures = &self.pictures;
        self.export.is_some() || pictures.trace.is_some() || pictures.report.is_some()
    }
}

/// Layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A row for each metric, a column for each variant
    Table,
    /// As mmtests prints comparisons, with positive changes as improvements
    Mmtests,
    /// As lkp-tests prints comparisons, with plain changes
    Lkp,
    /// The table in Markdown
    Markdown,
    /// The results as JSON, as --json - prints them
    Json,
    /// Figures that the benchmark program itself would print about one run
    Tool,
}

/// `schedcast list`
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// Kind of thing to list; without it, the kinds that can be listed
    #[arg(value_parser = one_of::<Listing>())]
    pub what: Option<Listing>,
}

/// `schedcast mcp`
#[derive(Debug, Args)]
pub(crate) struct McpArguments {
    /// File with requests, one a line, instead of standard input
    #[arg(value_name = "FILE")]
    pub requests: Option<PathBuf>,
}

/// `schedcast help-files`
#[derive(Debug, Args)]
pub(crate) struct HelpFilesArguments {
    /// Folder that gets man1/ and completions/
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
