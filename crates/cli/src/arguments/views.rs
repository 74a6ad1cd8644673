//! Verbs that show or convert a trace.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use schedcast_base::cpu_list::{CpuList, Stride};
use schedcast_present::views::{Format, Sort};

use crate::arguments::one_of;
use crate::arguments::target::Target as GroupTarget;
use crate::columns::ColumnArguments;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum ViewVerb {
    /// Write a trace in another format
    #[command(after_help = CONVERT_HELP)]
    Convert(ConvertArguments),
    /// Print every stay of a task on a CPU, as `perf sched timehist` does
    #[command(after_help = TRACE_HELP)]
    Timehist(TimehistArguments),
    /// Print run time and delays by task, as `perf sched latency` does
    #[command(after_help = TRACE_HELP)]
    Latency(LatencyArguments),
    /// Print who runs where, switch by switch, as `perf sched map` does
    #[command(after_help = TRACE_HELP)]
    Map(MapArguments),
    /// Distil a recording into an experiment file of stationary services
    #[command(after_help = PROFILE_HELP)]
    Profile(ProfileArguments),
    /// Bound the throttling under other limits, from cpu.stat or Prometheus counters alone
    #[command(after_help = COUNTERS_HELP)]
    Counters(CountersArguments),
}

const CONVERT_HELP: &str = "\
schedcast convert perf.data trace.txt.gz
schedcast convert recordings/pg pg.pftrace
schedcast convert --to perf-script trace.dat - | less";

const TRACE_HELP: &str = "\
TRACE is a recording, or a bare trace: ftrace text, trace.dat, perf.data, text of perf script, a
folder of raw pages, Perfetto (what --trace of other verbs wrote, too).";

const PROFILE_HELP: &str = "\
schedcast profile recordings/pg -o pg.toml
schedcast what-if pg.toml --set cpu.max='60000 100000' --variant faster --set program.postgres.profile.rate=60";

/// `schedcast profile`
#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// Folder of a recording
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
    /// File to write [default: standard output]
    #[arg(short, long, alias = "out", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

const COUNTERS_HELP: &str = "\
schedcast counters recordings/pg --set cpu.max='60000 100000' --variant burst --set cpu.max.burst=50000
schedcast counters range.json --cpus 8 --select container=checkout --set cpu.max='60000 100000'
A range needs --cpus unless machine_cpu_cores is in it, and --limit unless container_spec_cpu_* are.
The answer is a range over all simulated demands that give the recorded counters; what-if, which reads
events, answers with single values.";

/// `schedcast counters`
#[derive(Debug, Args)]
#[command(mut_arg("cgroup", |arg| arg.help("Group whose counters to read [default: the only one that was limited]")),
          mut_arg("kernel", |arg| arg.hide(true)), mut_arg("tree", |arg| arg.hide(true)),
          mut_arg("hz", |arg| arg.hide(true)), mut_arg("machine", |arg| arg.hide(true)),
          mut_arg("background", |arg| arg.hide(true)))]
pub(crate) struct CountersArguments {
    /// Folder with recording.json and cgroups.json (no trace is needed), or a file with the answer
    /// of Prometheus' query_range
    #[arg(value_name = "RECORDING|RANGE.json")]
    pub recording: PathBuf,
    #[command(flatten)]
    pub columns: ColumnArguments,
    #[command(flatten)]
    pub target: GroupTarget,
    /// Read only series with this label of a Prometheus range
    #[arg(long, value_name = "LABEL=VALUE")]
    pub select: Vec<String>,
    /// Limit in force during a Prometheus range, cpu.max='50000 100000' [default:
    /// container_spec_cpu_*]
    #[arg(long, value_name = "KEY=VALUE")]
    pub limit: Vec<String>,
    /// Write the ranges as JSON to FILE, or to standard output with -
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// `schedcast convert`
#[derive(Debug, Args)]
pub(crate) struct ConvertArguments {
    /// Trace of any format, or the folder of a recording
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// File to write, - for standard output; packed with gzip if it ends in .gz
    #[arg(value_name = "OUT")]
    pub out: PathBuf,
    /// Format [default: by the name: .pftrace and .perfetto, .script, .txt]
    #[arg(long, value_parser = one_of::<Format>())]
    pub to: Option<Format>,
}

/// Selection of the events to show.
#[derive(Clone, Debug, Args)]
pub(crate) struct Selected {
    /// Only these CPUs, such as 0-3,7
    #[arg(short = 'C', long, value_name = "LIST", value_parser = cpu_list)]
    pub cpu: Option<CpuList>,
    /// Only tasks of this name
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Only the tasks of these numbers
    #[arg(short, long, value_name = "TID", value_delimiter = ',', value_parser = thread_number)]
    pub tid: Vec<i32>,
    /// Only between these times of the trace, in seconds; either may be left out
    #[arg(long, value_name = "START,STOP", value_parser = time_span)]
    pub time: Option<TimeSpan>,
}

fn thread_number(text: &str) -> Result<i32, String> {
    let problem = |_| format!("expected the numbers of threads such as 1803,8679, found `{text}`");
    text.parse().map_err(problem)
}

/// A span of time, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub Option<u64>, pub Option<u64>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    const CPUS: u32 = 65_536;
    CpuList::parse(text, CPUS, Stride::UsedOfGroup)
}

/// A label of Prometheus and its value, with or without quotes.
pub(crate) fn label_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((label, value)) => Ok((label.to_owned(), value.trim_matches('"').to_owned())),
        None => Err(format!(
            "expected LABEL=VALUE behind --select, found `{text}`"
        )),
    }
}

fn time_span(text: &str) -> Result<TimeSpan, String> {
    let (from, to) = text
        .split_once(',')
        .ok_or("expected START,STOP in seconds, either may be empty")?;
    let span = TimeSpan(seconds_as_ns(from)?, seconds_as_ns(to)?);
    match span {
        TimeSpan(Some(from), Some(to)) if to < from => Err("STOP lies before START".to_owned()),
        _ => Ok(span),
    }
}

/// `5371.782886` to the nanosecond.
fn seconds_as_ns(text: &str) -> Result<Option<u64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let bad = || format!("expected seconds such as 5371.782886, found `{text}`");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return Err(bad());
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().map_err(|_| bad())?;
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let ns = whole.checked_mul(1_000_000_000).ok_or_else(bad)?;
    Ok(Some(ns.checked_add(fraction).ok_or_else(bad)?))
}

/// `schedcast timehist`
#[derive(Debug, Args)]
pub(crate) struct TimehistArguments {
    /// Trace of any format, or the folder of a recording
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    #[command(flatten)]
    pub selected: Selected,
    /// Only the summary by task
    #[arg(short, long, conflicts_with = "with_summary")]
    pub summary: bool,
    /// The summary by task below the rows
    #[arg(short = 'S', long)]
    pub with_summary: bool,
    /// The state in which each task leaves
    #[arg(long)]
    pub state: bool,
    /// The task that comes next
    #[arg(short, long)]
    pub next: bool,
    /// Rows for wakeups
    #[arg(short, long)]
    pub wakeups: bool,
    /// Rows for migrations
    #[arg(short = 'M', long)]
    pub migrations: bool,
}

/// `schedcast latency`
#[derive(Debug, Args)]
pub(crate) struct LatencyArguments {
    /// Trace of any format, or the folder of a recording
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    #[command(flatten)]
    pub selected: Selected,
    /// Order of the rows, largest first
    #[arg(short, long, value_parser = one_of::<Sort>(), default_value = Sort::Average.name())]
    pub sort: Sort,
    /// A row for every task, not one for all tasks of a name
    #[arg(short, long)]
    pub pids: bool,
}

/// `schedcast map`
#[derive(Debug, Args)]
pub(crate) struct MapArguments {
    /// Trace of any format, or the folder of a recording
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    #[command(flatten)]
    pub selected: Selected,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_and_times() {
        assert_eq!(cpu_list("0-2,7").unwrap().cpus(), [0, 1, 2, 7]);
        for text in ["", "3-1", "a", "1,", "99999"] {
            assert!(cpu_list(text).is_err(), "{text}");
        }
        assert_eq!(time_span("1.5,"), Ok(TimeSpan(Some(1_500_000_000), None)));
        assert_eq!(time_span(",2"), Ok(TimeSpan(None, Some(2_000_000_000))));
        for text in ["1", "2,1", "x,", "1.,", "-1,2", "1.0000000001,"] {
            assert!(time_span(text).is_err(), "{text}");
        }
    }
}
