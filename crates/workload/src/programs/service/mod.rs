//! `http-service`: a service with a pool of threads that answers requests from outside, whether it
//! can keep up or not.
//!
//! ```text
//! network    requests at random or even times ──► interrupt ──► the listener's epoll set
//! listener   epoll_wait · receive · hand to the pool
//! worker     take a request · [under the lock: work] · work · [hand pieces to helpers, wait for all] · reply
//! helper     take a piece · work · tell the worker
//! ```
//!
//! It is no tool one can install but the shape many services have, with numbers on the command
//! line. The clients are on other machines: they cost nothing here, and they do not wait for each
//! other, so requests that are not answered pile up. Latency counts from the arrival of the packet
//! to the reply.
//!
//! Worked example: `--rate 400 --work 2000` asks for 400 × 2 ms = 0.8 CPUs. Under a limit of half a
//! CPU 150 requests a second more arrive than are answered, and after 10 s the last one waits for
//! 3 s.

mod compile;
#[cfg(test)]
mod tests;

use super::command::{CommandError, Tool, Words, compiled};
use super::model::Model;
use super::results::{MetricMap, Results};

const SECOND_NS: u64 = 1_000_000_000;
const RATE_MAX: u64 = 10_000_000;
const THREADS_MAX: u64 = 4096;
const WORK_MAX_US: u64 = 60_000_000;

/// `http-service`.
pub(crate) static TOOL: Tool = Tool {
    words: &["http-service"],
    name: "http-service",
    about: "a pool of threads that answers requests from outside (no real tool)",
    operands: "",
    compile: compiled!(Options, cpus),
};

/// How computing varies from request to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Exponential.
    Exponential,
    /// From nothing to twice the mean.
    Uniform,
    /// Always the same.
    Fixed,
}

pub(in crate::programs) const DEMANDS: [(&str, Demand); 3] = [
    ("exponential", Demand::Exponential),
    ("uniform", Demand::Uniform),
    ("fixed", Demand::Fixed),
];
pub(in crate::programs) const ARRIVALS: [(&str, bool); 2] = [("poisson", true), ("even", false)];

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Requests a second.
    pub rate: u64,
    /// At random times rather than even ones.
    pub random: bool,
    /// Length.
    pub duration_ns: u64,
    /// Workers.
    pub threads: u64,
    /// Mean computing for a request, without that under the lock.
    pub work_ns: u64,
    /// How it varies.
    pub demand: Demand,
    /// Mean computing under the lock.
    pub lock_ns: u64,
    /// Pieces of a request.
    pub fan_out: u64,
    /// Mean computing for a piece.
    pub fan_work_ns: u64,
    /// Helper threads.
    pub helpers: u64,
    /// Computing is a loop that ends by the clock on the wall.
    pub by_clock: bool,
    /// CPU that takes the packets.
    pub interrupt_cpu: u32,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad numbers, unknown names, a lock that takes longer than all of the work.
    pub(crate) fn read(words: &Words, cpus: usize) -> Result<Self, CommandError> {
        let us = |key: &str, default: u64| -> Result<u64, CommandError> {
            Ok(words.whole(key, 0..=WORK_MAX_US, default)? * 1000)
        };
        let threads = words.whole("threads", 1..=THREADS_MAX, 8)?;
        let work_ns = us("work", 1000)?;
        let lock_ns = us("lock", 0)?;
        if let Some(given) = words.last("lock")
            && lock_ns > work_ns
        {
            return Err(given.error("the lock is held for a part of `--work`, not for more"));
        }
        if let Some(given) = words.last("lock")
            && words.has("by-clock")
        {
            return Err(given.error("work under the lock counts CPU time, not `--by-clock`"));
        }
        let fan_out = words.whole("fan-out", 0..=1024, 0)?;
        for key in ["fan-work", "helpers"] {
            if let (Some(given), 0) = (words.last(key), fan_out) {
                return Err(given.error(format!("`--{key}` needs `--fan-out`")));
            }
        }
        let last_cpu = cpus.saturating_sub(1) as u64;
        Ok(Self {
            rate: words.whole("rate", 1..=RATE_MAX, 100)?,
            random: words.one_of("arrivals", &ARRIVALS)?,
            duration_ns: words.length_ns("duration", 10 * SECOND_NS)?,
            threads,
            work_ns: work_ns - lock_ns,
            demand: words.one_of("demand", &DEMANDS)?,
            lock_ns,
            fan_out,
            fan_work_ns: us("fan-work", 200)?,
            helpers: match fan_out {
                0 => 0,
                _ => words.whole("helpers", 1..=THREADS_MAX, threads)?,
            },
            by_clock: words.has("by-clock"),
            interrupt_cpu: words.whole("interrupt-cpu", 0..=last_cpu, 0)? as u32,
        })
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        Some(self.duration_ns)
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(
            map,
            "requests_per_s",
            results.answered_per_s(self.duration_ns),
        );
        results.put_latency(map, "latency");
        results.put_latency(map, "queue");
    }

    /// A summary of its own, as there is no tool to print one.
    fn report(&self, results: &Results) -> String {
        let mut text = format!(
            "requests  {:.1} a second answered (--rate {})\n",
            results.answered_per_s(self.duration_ns).unwrap_or(0.0),
            self.rate
        );
        for metric in ["latency", "queue"] {
            text += &summary(results, metric);
        }
        text
    }
}

/// A line with the mean and the percentiles of a metric; nothing if it has no values.
pub(in crate::programs) fn summary(results: &Results, metric: &str) -> String {
    let Some(values) = results.values(metric) else {
        return String::new();
    };
    let ms = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e6;
    format!(
        "{metric:<8}  mean {:.3} ms, p50 {:.3}, p95 {:.3}, p99 {:.3}, max {:.3}\n",
        values.mean().unwrap_or(0.0) / 1e6,
        ms(values.quantile(500_000)),
        ms(values.quantile(950_000)),
        ms(values.quantile(990_000)),
        ms(values.max())
    )
}
