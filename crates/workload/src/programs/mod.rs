//! Benchmarks by their own command lines.
//!
//! [`compile()`] takes the words of a command as typed in a shell, and adds to a
//! [`schedcast_sim::Workload`] what that command would run. The [`Running`] it returns turns the
//! probes of a finished run into metrics ([`Running::metrics`]) and into the tool's own output
//! ([`Running::report`]), so that scripts that parse the tool also parse the forecast.
//!
//! ```
//! use schedcast_sim::Workload;
//! use schedcast_workload::programs::{Start, compile, split};
//!
//! let mut workload = Workload::default();
//! let command = split("hackbench -g 2 -l 50 --pipe");
//! compile(&command, &Start::new("hackbench", 8), &mut workload)?;
//! assert_eq!(workload.queues.len(), 1 + 2 * 20); // one for "ready", one a receiver
//!
//! let error = compile(&split("hackbench --lops 50"), &Start::new("h", 8), &mut workload);
//! assert_eq!(
//!     error.unwrap_err().to_string(),
//!     "hackbench, word 2: unknown flag `--lops`; nearest valid name: `--loops`"
//! );
//! # Ok::<(), schedcast_workload::programs::CommandError>(())
//! ```
//!
//! | module | commands |
//! |---|---|
//! | [`messaging`] | `hackbench`, `perf bench sched messaging` |
//! | [`pipe`] | `perf bench sched pipe` |
//! | [`schbench`] | `schbench` (2023 and later) |
//! | [`schbench_classic`] | `schbench-classic`, the schbench of 2016 to early 2023 |
//! | [`stress_ng`] | `stress-ng --cpu N` |
//! | [`cyclictest`] | `cyclictest` |
//! | [`dbench`] | `dbench CLIENTS` |
//! | [`iozone`] | `iozone` |
//! | [`netperf`] | `netperf` |
//! | [`pgbench`] | `pgbench` with a PostgreSQL server |
//! | [`service`] | `http-service` |
//! | [`wrk`] | `wrk` with an nginx |
//! | [`sysbench`] | `sysbench cpu`, `sysbench oltp_…` with a PostgreSQL server |
//! | [`runtime`] | `go-server`, `java-server` |
//! | [`rt_app`] | `rt-app FILE` |
//!
//! Commands that start another one, such as `taskset -c 0`, may stand in front: [`prefix`].
//!
//! A model does what the tool does, system call by system call, where that makes tasks sleep, wake
//! or compute; prices come from [`Prices`] and the machine. Its page in `docs/programs/` lists what
//! it leaves out.

pub mod command;
pub mod cyclictest;
pub mod dbench;
mod futex;
pub mod iozone;
pub mod messaging;
mod model;
pub mod netperf;
pub mod pgbench;
pub mod pipe;
pub mod postgres;
pub mod prefix;
mod prices;
pub mod printed;
mod results;
pub mod rt_app;
pub mod runtime;
pub mod schbench;
pub(crate) mod schbench_classic;
pub mod service;
mod start;
pub mod storage;
pub(crate) mod stress_ng;
pub mod sysbench;
mod unit;
pub mod wrk;

use std::sync::Arc;

use schedcast_sim::Workload;
use schedcast_sim::probe::Probes;

pub use command::{CommandError, Tool};
pub use prices::Prices;
pub use results::PERCENTILES;
pub(crate) use results::{MetricMap, Results};
pub use start::Start;
pub use unit::Unit;

use model::Model;
use schedcast_base::names::suggestion;
use start::Compiler;

/// All tools, in the order of lists.
pub static TOOLS: [&Tool; 17] = [
    &schbench::TOOL,
    &schbench_classic::TOOL,
    &messaging::HACKBENCH,
    &messaging::PERF_MESSAGING,
    &pipe::TOOL,
    &stress_ng::TOOL,
    &cyclictest::TOOL,
    &dbench::TOOL,
    &iozone::TOOL,
    &netperf::TOOL,
    &pgbench::TOOL,
    &sysbench::TOOL,
    &wrk::TOOL,
    &service::TOOL,
    &runtime::GO,
    &runtime::JAVA,
    &rt_app::TOOL,
];

/// A program that was added to a workload.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its name in metrics.
    pub name: String,
    /// Its tool.
    pub tool: &'static Tool,
    /// When it ends by itself at the latest if every task gets to run, as far as the command says:
    /// the run time of schbench, the timeout of stress-ng. `None` = when its work is done.
    pub end_ns: Option<u64>,
    /// Of a command that runs until it is stopped: what would end it.
    pub endless_without: Option<&'static str>,
    /// Notes on its file, such as on a lock that nothing unlocks, with places.
    pub notes: Vec<String>,
    /// When `timeout` ends it.
    pub timeout_ns: Option<u64>,
    /// Names its tasks' statistics go to.
    pub statistics: Vec<String>,
    /// Longest time that an idle CPU may take to wake up while it runs (`/dev/cpu_dma_latency`),
    /// in microseconds.
    pub idle_latency_limit_us: Option<u32>,
    start_ns: u64,
    model: Arc<dyn Model>,
}

/// Splits a command at its blanks. For text with quotes use a shell's rules instead.
pub fn split(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

/// The tool that a command line starts, behind its prefixes. A path before its name does not
/// matter.
///
/// # Errors
/// A command that no tool begins like, with the nearest one, and mistakes in prefixes.
pub fn tool(words: &[String]) -> Result<&'static Tool, CommandError> {
    let skipped = prefix::skip(words)?;
    let (prefixes, words) = words.split_at(skipped);
    if let Some(message) = no_program(prefixes, words) {
        return Err(CommandError::new("command", skipped + 1, message));
    }
    let typed = |row: usize| {
        let word = words.get(row).map_or("", String::as_str);
        // The tool may be given by its path, the words behind it are its own.
        if row == 0 {
            word.rsplit('/').next().unwrap_or(word)
        } else {
            word
        }
    };
    let named = |tool: &&&'static Tool| {
        let mut own = tool.words.iter().enumerate();
        own.all(|(row, word)| typed(row) == *word)
    };
    if let Some(tool) = TOOLS.iter().find(named) {
        return Ok(tool);
    }
    let tools = TOOLS.iter().map(|tool| tool.words.join(" "));
    let names: Vec<String> = tools.chain(prefix::names().map(str::to_owned)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let length = TOOLS
        .iter()
        .filter(|tool| tool.words[0] == typed(0))
        .map(|tool| tool.words.len())
        .max()
        .unwrap_or(1);
    let typed: Vec<&str> = (0..length.min(words.len().max(1))).map(typed).collect();
    let typed = typed.join(" ");
    let message = format!("unknown program `{typed}`; {}", suggestion(&typed, &names));
    Err(CommandError::new("command", skipped + 1, message))
}

/// Why the first word behind prefixes cannot be a program: a flag, or a line of a shell.
fn no_program(prefixes: &[String], words: &[String]) -> Option<String> {
    let first = words.first()?;
    if let Some(value) = prefixes.last().filter(|_| first.starts_with('-')) {
        return Some(format!(
            "`{first}` is no program; `{value}` before it is taken for a value of the prefix"
        ));
    }
    let name = first.rsplit('/').next().unwrap_or(first);
    // A folder may have a space in its name.
    let is_path = first.starts_with(['/', '.']) && !name.contains(char::is_whitespace);
    (!is_path && first.contains(char::is_whitespace)).then(|| {
        format!(
            "`{first}` is one word here; give one program and its flags without quotes and \
             without a shell's `>`, `|` or `&&`"
        )
    })
}

/// Adds what a command runs to a workload.
///
/// # Errors
/// Unknown programs and flags, missing and bad values, CPUs the machine does not have; always with
/// the number of the word and the nearest valid name.
pub fn compile(
    words: &[String],
    start: &Start,
    workload: &mut Workload,
) -> Result<Running, CommandError> {
    let tool = tool(words)?;
    let machine = prefix::Machine {
        cpus: start.cpus,
        nodes: &start.nodes,
        has_clamps: start.kernel_has_clamps,
    };
    let prefixes = prefix::read(words, &machine)?;
    if prefixes.unit.is_some() && start.group == schedcast_kernel::GroupId::ROOT {
        let message = "starts its command in a group of its own, which does not exist";
        return Err(CommandError::new("systemd-run", 1, message));
    }
    runtime::refuse_environment(tool, &start.environment)?;
    let read = tool.parse_from(words, prefixes.words)?;
    let start = &prefixes.started(start, tool)?;
    let tasks_before = workload.tasks.len();
    let compiler = &mut Compiler {
        tool: tool.name,
        start,
        workload,
    };
    let model = (tool.compile)(&read, compiler)?;
    let running = Running {
        name: start.name.clone(),
        tool,
        end_ns: model.length_ns().map(|length| start.start_ns + length),
        endless_without: model.endless_without(),
        notes: model.notes(),
        timeout_ns: prefixes.timeout_ns.map(|length| start.start_ns + length),
        statistics: model.statistics(&start.name),
        idle_latency_limit_us: model.idle_latency_limit_us(),
        start_ns: start.start_ns,
        model,
    };
    if let Some(limit_us) = running.idle_latency_limit_us {
        // Held open by the process until it ends.
        for task in &mut workload.tasks[tasks_before..] {
            task.latency_limit_ns = Some(u64::from(limit_us) * 1000);
        }
    }
    Ok(running)
}

impl Running {
    /// Whether a metric of the workload is this program's own: [`Running::metrics`] makes of it
    /// what users see.
    pub fn records(&self, metric: &str) -> bool {
        let own = metric
            .strip_prefix(self.name.as_str())
            .is_some_and(|rest| rest.starts_with('/'));
        own && !self.model.records_for_users()
    }

    /// The program's metrics, by their full names. `now_ns` is when the run ended.
    pub fn metrics(&self, probes: &Probes, now_ns: u64) -> MetricMap {
        let results = self.results(probes, now_ns);
        let mut map = MetricMap::new();
        self.model.metrics(&results, &mut map);
        results.put_shared(&mut map);
        map
    }

    /// Text that the tool would have printed.
    pub fn report(&self, probes: &Probes, now_ns: u64) -> String {
        self.model.report(&self.results(probes, now_ns))
    }

    fn results<'a>(&'a self, probes: &'a Probes, now_ns: u64) -> Results<'a> {
        Results {
            probes,
            now_ns,
            start_ns: self.start_ns,
            name: &self.name,
            statistics: &self.statistics,
        }
    }
}

#[cfg(test)]
mod tests;
