//! `schbench` as it has been since April 2023: workers that compute matrices under a lock of their
//! CPU.
//!
//! ```text
//! worker            wait for the message thread · sleep s µs · lock this CPU's lock · n matrix
//!                   products · unlock
//! message thread    wake all that wait · wait for the first arrival
//! main              every second: look at the clock, sum up, sleep
//!
//! with -R           message thread: at the begin of each second all its requests, round and round,
//!                   as fast as it can; a worker with more than 128 waiting is passed over
//! ```
//!
//! The lock is not waited for asleep: a worker that finds it taken tries again and again, so one
//! preempted holder makes all others on its CPU spin.
//!
//! Worked example, the defaults: a footprint of 256 KiB is three matrices of 104 × 104 numbers, a
//! product is 104³ = 1 124 864 steps, and five products at 0.8 ns a step take 4.5 ms.

mod compile;
mod main_thread;
mod report;
#[cfg(test)]
mod tests;

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;

use super::command::{CommandError, Tool, Words, compiled};
use super::results::Results;
use super::schbench_classic::{PIPE_BYTES_MAX, RUNTIME_S_MAX, THREADS_MAX, refuse_threads};

/// schbench of the second generation.
pub(crate) static TOOL: Tool = Tool {
    words: &["schbench"],
    name: "schbench",
    about: "message threads and workers that compute under a lock of their CPU (2023 and later)",
    operands: "",
    compile: compiled!(Options, cpus),
};

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Message threads.
    pub groups: u64,
    /// Workers of each.
    pub workers: u64,
    workers_given: bool,
    /// Seconds; 0 = endless.
    pub runtime_s: u64,
    /// Rows of a matrix.
    pub matrix: u64,
    /// Products in a request.
    pub operations: u64,
    /// Sleep in a request.
    pub sleep_us: u64,
    /// Requests a second of each message thread; 0 = none.
    pub rate: u64,
    /// Bytes of the pipe test; 0 = none.
    pub pipe_bytes: u64,
    /// Under the lock of the CPU.
    pub locking: bool,
    /// Without the sleep in the request's time.
    pub calibrate: bool,
    warmup_s: u64,
    zero_s: u64,
    message_cpus: Option<Vec<Cpu>>,
    worker_cpus: Option<CpuSet>,
}

impl Options {
    /// Reads a command line for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// Bad numbers and CPUs.
    pub(crate) fn read(words: &Words, cpus: usize) -> Result<Self, CommandError> {
        let groups = words.whole("message-threads", 1..=THREADS_MAX, 1)?;
        let runtime_s = words.whole("runtime", 0..=RUNTIME_S_MAX, 30)?;
        let pipe_bytes = words.whole("pipe", 0..=1 << 40, 0)?.min(PIPE_BYTES_MAX);
        let warmup_s = words.whole("warmuptime", 0..=RUNTIME_S_MAX, 0)?;
        let zero_s = words.whole("zerotime", 0..=RUNTIME_S_MAX, 0)?;
        let footprint_kb = words.whole("cache_footprint", 1..=1 << 24, 256)?;
        let calibrate = words.has("calibrate");
        let workers = words.whole("threads", 0..=THREADS_MAX, 0)?;
        let (message_cpus, worker_cpus) = read_pins(words, cpus, groups)?;
        let rate = words.whole("rps", 0..=1_000_000_000, 0)? / groups;
        let options = Self {
            groups,
            workers: match workers {
                0 => (cpus as u64).div_ceil(groups),
                workers => workers,
            },
            workers_given: workers > 0,
            runtime_s,
            matrix: (footprint_kb * 1024 / 3 / 8).isqrt(),
            operations: words.whole("operations", 0..=1_000_000_000, 5)?,
            sleep_us: words.whole("sleep_usec", 0..=3_600_000_000, 100)?,
            rate,
            pipe_bytes,
            locking: !calibrate && !words.has("no-locking"),
            calibrate,
            warmup_s: if runtime_s < 30 || rate > 0 || pipe_bytes > 0 {
                0
            } else {
                warmup_s
            },
            zero_s,
            message_cpus,
            worker_cpus,
        };
        refuse_threads(words, options.groups * (options.workers + 1))?;
        if runtime_s == 0 && zero_s > 0 {
            return Err(words.error("`-z` needs a run time: what it keeps depends on the end"));
        }
        Ok(options)
    }

    /// CPU time of the matrix products of a request.
    pub(crate) fn request_ns(&self, matrix_step_ps: u64) -> u64 {
        let steps = u128::from(self.matrix).pow(3) * u128::from(self.operations);
        let time_ns = steps * u128::from(matrix_step_ps) / 1000;
        u64::try_from(time_ns).unwrap_or(u64::MAX)
    }

    /// How often results are forgotten in the run. Main looks once a second and a little later each
    /// time, so after k rounds a little more than k seconds have passed.
    fn forgotten(&self) -> u64 {
        let warm = u64::from(self.warmup_s > 0 && self.warmup_s <= self.runtime_s);
        let counted_s = self.runtime_s - self.warmup_s * warm;
        warm + counted_s.checked_div(self.zero_s).unwrap_or(0)
    }

    /// Requests over the run time, as schbench reckons.
    fn rps(&self, results: &Results) -> f64 {
        let elapsed_s = results.elapsed_s();
        let seconds = match self.runtime_s {
            0 => elapsed_s,
            runtime_s => elapsed_s.min(runtime_s as f64),
        };
        if seconds > 0.0 {
            results.count("requests") as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Suffixes of the names of message threads and workers, behind the program's name.
const MESSAGE: &str = "-msg";
const WORKER: &str = "-worker";

type Pins = (Option<Vec<Cpu>>, Option<CpuSet>);

/// `auto` gives each message thread a CPU of its own, from 0 on, and the workers the others.
fn read_pins(words: &Words, cpus: usize, groups: u64) -> Result<Pins, CommandError> {
    let auto = ["message-cpus", "worker-cpus"]
        .into_iter()
        .filter_map(|key| words.last(key))
        .find(|given| given.text() == "auto");
    if let Some(given) = auto {
        if groups as usize >= cpus {
            let message = format!(
                "`auto` leaves no CPU for the workers: {groups} message threads, {cpus} CPUs"
            );
            return Err(given.error(message));
        }
        let message = (0..groups as u32).map(Cpu).collect();
        let worker = (groups as u32..cpus as u32).map(Cpu).collect();
        return Ok((Some(message), Some(worker)));
    }
    let message = words.cpu_list("message-cpus", cpus)?;
    let worker = words.cpu_list("worker-cpus", cpus)?;
    Ok((message.map(|set| set.iter().collect()), worker))
}
