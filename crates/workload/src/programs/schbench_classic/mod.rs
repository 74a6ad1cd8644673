//! `schbench-classic`: schbench as it was from 2016 to early 2023, before it computed matrices.
//!
//! ```text
//! worker            spin c µs of wall time · put itself on the list · wake the message thread · wait
//! message thread    wake all on the list · wait for the first arrival · sleep s + 0…s/4 µs
//!
//! with -R           message thread: sleep · hand one request each to 2t/3 workers, round and round
//!                   worker: spin c µs for each request · wait
//! ```
//!
//! The spin looks at the clock until c µs have gone by, so time in which the thread is preempted or
//! throttled counts. The latency of a request is its whole time less c.
//!
//! Worked example, `-m 1 -t 3 -R 10 -c 80000`: 2·3/3 = 2 requests at a time, so 10 a second are 5
//! rounds, and the message thread sleeps 1 s / 5 = 200 ms. A worker whose group is throttled for
//! 30 ms in the middle of its 80 ms notices nothing; one that waits 30 ms before it begins has a
//! latency of 30 ms.

mod compile;
#[cfg(test)]
mod tests;

use super::command::{CommandError, Tool, Words, compiled};
use super::model::Model;
use super::results::{MetricMap, Results, quantile_us};

/// schbench of the first generation.
pub(crate) static TOOL: Tool = Tool {
    words: &["schbench-classic"],
    name: "schbench-classic",
    about: "schbench of 2016 to early 2023: message threads and workers that spin",
    operands: "",
    compile: compiled!(Options),
};

/// Most bytes that `-p` takes.
pub(super) const PIPE_BYTES_MAX: u64 = 1 << 20;
/// Longest run: a year.
pub(super) const RUNTIME_S_MAX: u64 = 31_536_000;
pub(super) const THREADS_MAX: u64 = 32_768;
/// Longest sleep or spin: an hour.
const MICROSECONDS_MAX: u64 = 3_600_000_000;

/// Refuses more threads than Linux holds.
pub(super) fn refuse_threads(words: &Words, threads: u64) -> Result<(), CommandError> {
    match threads > THREADS_MAX {
        true => Err(words.error(format!(
            "{threads} threads; Linux holds {THREADS_MAX} unless told otherwise"
        ))),
        false => Ok(()),
    }
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Message threads.
    pub groups: u64,
    /// Workers of each.
    pub workers: u64,
    /// Seconds.
    pub runtime_s: u64,
    /// Sleep of the message thread.
    pub sleep_us: u64,
    /// Spin of a worker.
    pub cpu_us: u64,
    /// Requests a second of each message thread; 0 = none.
    pub rate: u64,
    /// Bytes of the pipe test; 0 = none.
    pub pipe_bytes: u64,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad numbers, and what makes schbench divide by zero.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        let pipe_bytes = words.whole("pipe", 0..=1 << 40, 0)?.min(PIPE_BYTES_MAX);
        let default_us = if words.has("pipe") { 0 } else { 30_000 };
        let groups = words.whole("message-threads", 1..=THREADS_MAX, 2)?;
        let options = Self {
            groups,
            workers: words.whole("threads", 1..=THREADS_MAX, 16)?,
            runtime_s: words.whole("runtime", 1..=RUNTIME_S_MAX, 30)?,
            sleep_us: words.whole("sleeptime", 0..=MICROSECONDS_MAX, default_us)?,
            cpu_us: words.whole("cputime", 0..=MICROSECONDS_MAX, default_us)?,
            rate: words.whole("rps", 0..=1_000_000_000, 0)? / groups,
            pipe_bytes,
        };
        refuse_threads(words, options.groups * (options.workers + 1))?;
        if options.rate > 0 && options.batch() == 0 {
            let message =
                "`-R` needs `-t 2` or more: two thirds of the workers get a request at a time";
            return Err(words.error(message));
        }
        if options.rate == 0 && options.pipe_bytes == 0 && (1..4).contains(&options.sleep_us) {
            let message = "`-s` needs 0, or 4 or more: schbench divides by a quarter of it";
            return Err(words.error(message));
        }
        if options.rate == 0
            && options.pipe_bytes == 0
            && options.cpu_us == 0
            && options.sleep_us == 0
        {
            let message = "`-c 0 -s 0` measures nothing but wakeups as fast as they go; use `-p`";
            return Err(words.error(message));
        }
        Ok(options)
    }

    /// Requests handed out at a time.
    pub(crate) fn batch(&self) -> u64 {
        self.workers * 2 / 3
    }

    /// Sleep between two batches.
    pub(crate) fn batch_sleep_us(&self) -> u64 {
        1_000_000 / self.rate.div_ceil(self.batch().max(1)).max(1)
    }

    /// Length of the run.
    pub(crate) fn runtime_ns(&self) -> u64 {
        self.runtime_s * 1_000_000_000
    }

    fn latency(&self) -> &'static str {
        if self.rate > 0 {
            "request_latency"
        } else {
            "wakeup_latency"
        }
    }

    /// Loops a second of all workers: each worker's own loops over its own time.
    fn rps(&self, results: &Results) -> f64 {
        let workers_s = results.values("worker_time").and_then(|times| times.mean());
        let seconds = workers_s.map_or_else(|| results.elapsed_s(), |ns| ns / 1e9);
        if seconds > 0.0 {
            results.count("requests") as f64 / seconds
        } else {
            0.0
        }
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        Some(self.runtime_ns())
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put_latency(map, self.latency());
        results.put(map, "rps", Some(self.rps(results)));
    }

    /// Text that schbench printed.
    fn report(&self, results: &Results) -> String {
        const ROWS: [(&str, u32); 7] = [
            ("50.0000", 500_000),
            ("75.0000", 750_000),
            ("90.0000", 900_000),
            ("95.0000", 950_000),
            ("*99.0000", 990_000),
            ("99.5000", 995_000),
            ("99.9000", 999_000),
        ];
        let values = results.values(self.latency());
        let at = |millionths| values.map_or(0, |values| quantile_us(values, millionths));
        let mut text = String::from("Latency percentiles (usec)\n");
        for (name, millionths) in ROWS {
            text += &format!("\t{name}th: {}\n", at(millionths));
        }
        let max_us = values.and_then(|values| values.max()).unwrap_or(0) / 1000;
        // Its smallest value began at 0 and so never changed.
        text += &format!("\tmin=0, max={max_us}\n");
        let rps = self.rps(results);
        if self.pipe_bytes > 0 {
            let each = if self.rate > 0 {
                rps
            } else {
                rps / (self.groups * self.workers) as f64
            };
            text += &transfer(each, each * self.pipe_bytes as f64);
        }
        if self.rate > 0 {
            let (p95, p99) = (at(950_000), at(990_000));
            let share = |us: u64| us as f64 / self.cpu_us as f64 * 100.0;
            text += &format!(
                "rps: {rps:.2} p95 (usec) {p95} p99 (usec) {p99} p95/cputime {:.2}% p99/cputime {:.2}%\n",
                share(p95),
                share(p99)
            );
        }
        text
    }
}

/// `avg worker transfer: 1234.00 ops/sec 4.82MB/s`
pub(super) fn transfer(operations_per_s: f64, bytes_per_s: f64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (bytes_per_s, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!(
        "avg worker transfer: {operations_per_s:.2} ops/sec {size:.2}{}/s\n",
        UNITS[unit]
    )
}
