//! `stress-ng --cpu N`: processes that compute and never wait.
//!
//! The parent forks N workers and waits for them in the order of their start. A worker sleeps once
//! for no time at all, then calls its method again and again until it has done its share of
//! `--cpu-ops` or its time is up. With `--cpu-load P` it computes for a slice and then sleeps 100/P
//! − 1 times as long as the slice ran, less what the last sleep was too long. A slice is measured
//! by the CPU clock of the worker: being preempted or throttled makes it neither shorter nor its
//! rest longer.
//!
//! Worked example: `--cpu 32 --cpu-ops 50000` gives each worker 1563 operations. At 0.555 ms each
//! that is 0.87 s of CPU, or 3.5 s where four workers share a CPU. With `--cpu-load 40` 64 calls
//! take 32 ms of CPU and are followed by 48 ms of sleep. Under `cpu.max` 30/100 ms they take 102 ms
//! where they meet a throttled period, and the sleep is still 48 ms.

mod compile;
pub(crate) mod methods;
mod report;
#[cfg(test)]
mod tests;

use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;

use super::command::{CommandError, POLICIES, Tool, Words, compiled};
use methods::{METHODS, Method};

const WORKERS_MAX: u64 = 4096;
/// Without `--timeout`: a day.
const TIMEOUT_NS: u64 = 86_400_000_000_000;
/// Calls in a slice without `--cpu-load-slice`.
const SLICE_CALLS: u64 = 64;

/// `stress-ng` with its CPU workers.
pub(crate) static TOOL: Tool = Tool {
    words: &["stress-ng"],
    name: "stress-ng",
    about: "processes that compute and never wait, or for a share of the time",
    operands: "",
    compile: compiled!(Options, cpus),
};

/// How long a worker computes before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slice {
    /// A number of calls.
    Calls(u64),
    /// A time, ns.
    Time(u64),
    /// Drawn anew each time, 0 to 0.5 s.
    Random,
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Workers.
    pub workers: u64,
    /// Per cent of the time that each computes.
    pub load: u64,
    /// How long it computes before it sleeps, below 100 %.
    pub slice: Slice,
    /// One method, or all in turn.
    pub method: Option<&'static Method>,
    /// Operations of all workers together.
    pub operations: Option<u64>,
    /// End.
    pub timeout_ns: u64,
    timeout_given: bool,
    taskset: Option<CpuSet>,
    policy: Option<(Policy, u8)>,
    metrics: bool,
    metrics_wide: bool,
    quiet: bool,
    brief: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad values, unknown methods and policies, and a command without `--cpu`.
    pub(crate) fn read(words: &Words, cpus: usize) -> Result<Self, CommandError> {
        if !words.has("cpu") {
            return Err(words.error("needs `--cpu N`: only its CPU workers can be forecast"));
        }
        let timeout = words.last("timeout");
        let timeout_ns = match timeout {
            Some(given) => given.duration_ns(1_000_000_000)?,
            None => TIMEOUT_NS,
        };
        let operations = words.whole("cpu-ops", 0..=1 << 40, 0)?;
        Ok(Self {
            workers: match words.whole("cpu", 0..=WORKERS_MAX, 0)? {
                0 => cpus as u64,
                workers => workers,
            },
            load: words.whole("cpu-load", 0..=100, 100)?,
            slice: read_slice(words)?,
            method: read_method(words)?,
            operations: (operations > 0).then_some(operations),
            // 0 is no limit.
            timeout_ns: if timeout_ns == 0 {
                TIMEOUT_NS
            } else {
                timeout_ns
            },
            timeout_given: timeout.is_some() && timeout_ns > 0,
            taskset: words.cpu_list("taskset", cpus)?,
            policy: read_policy(words)?,
            metrics: words.has("metrics") || words.has("metrics-brief"),
            metrics_wide: words.has("metrics"),
            quiet: words.has("quiet"),
            brief: words.has("log-brief"),
        })
    }

    /// Operations of one worker, in millionths: the whole divided, rounded up.
    fn share_millionths(&self) -> Option<u64> {
        let share = self.operations?.div_ceil(self.workers);
        Some(share.saturating_mul(1_000_000))
    }
}

fn read_slice(words: &Words) -> Result<Slice, CommandError> {
    let Some(given) = words.last("cpu-load-slice") else {
        return Ok(Slice::Calls(SLICE_CALLS));
    };
    let text = given.text();
    let (digits, calls) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let number = super::command::whole(digits, &(0..=5000)).map_err(|_| {
        given.error(format!(
            "flag `{}` needs a whole number from -5000 to 5000, found `{text}`",
            given.typed
        ))
    })?;
    Ok(match (number, calls) {
        (0, _) => Slice::Random,
        (calls, true) => Slice::Calls(calls),
        (milliseconds, false) => Slice::Time(milliseconds * 1_000_000),
    })
}

fn read_method(words: &Words) -> Result<Option<&'static Method>, CommandError> {
    let Some(given) = words.last("cpu-method") else {
        return Ok(None);
    };
    let text = given.text();
    if text == "all" {
        return Ok(None);
    }
    if let Some(method) = METHODS.iter().find(|method| method.name == text) {
        return Ok(Some(method));
    }
    let mut names = vec!["all"];
    names.extend(METHODS.iter().map(|method| method.name));
    Err(given.unknown("method", &names))
}

fn read_policy(words: &Words) -> Result<Option<(Policy, u8)>, CommandError> {
    let given = words.last("sched");
    let policy = given.map(|given| given.one_of("policy", &POLICIES));
    match (policy.transpose()?, words.last("sched-prio")) {
        (Some(policy), _) if policy.is_rt() => {
            // Without a priority stress-ng takes the middle of the range.
            let priority = words.whole("sched-prio", 1..=99, 50)?;
            Ok(Some((policy, priority as u8)))
        }
        (_, Some(priority)) => Err(priority.error("`--sched-prio` needs `--sched fifo` or `rr`")),
        (policy, None) => Ok(policy.map(|policy| (policy, 0))),
    }
}
