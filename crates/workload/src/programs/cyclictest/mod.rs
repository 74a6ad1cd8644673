//! `cyclictest`: threads that sleep until a time and look how late they wake.
//!
//! ```text
//! main      fork the threads · every 10 ms: print, see whether one has ended · 50 ms later: the end
//! thread    loop: clock_nanosleep until next · latency = now − next · next += interval
//! ```
//!
//! A thread that has missed whole intervals leaves them out. Real-time threads have no timer slack,
//! others the usual 50 µs. Like the tool from version 2.3 on, thread n stays on CPU n (round and
//! round) unless `-a` says otherwise. The tool holds `/dev/cpu_dma_latency` at 0, which keeps CPUs
//! out of idle states that take time to leave.
//!
//! Worked example, `-t 2 -p 80 -i 1000 -l 200`: thread 0 every 1000 µs on CPU 0, thread 1 every
//! 1500 µs on CPU 1; after 200 ms thread 0 has its 200 loops, main sees it at its next look, and
//! thread 1 ends with some 140.

mod compile;
mod report;
#[cfg(test)]
mod tests;

use schedcast_kernel::Cpu;
use schedcast_kernel::task::Policy;

use super::command::{CommandError, Tool, Words, compiled, policy_of};

const THREADS_MAX: u64 = 4096;
const INTERVAL_US: u64 = 1000;
const DISTANCE_US: u64 = 500;
/// Longest interval: an hour.
const INTERVAL_US_MAX: u64 = 3_600_000_000;

/// `cyclictest` of rt-tests 2.
pub(crate) static TOOL: Tool = Tool {
    words: &["cyclictest"],
    name: "cyclictest",
    about: "threads that sleep until a time and measure how late they wake",
    operands: "",
    compile: compiled!(Options, cpus),
};

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Threads.
    pub threads: u64,
    /// Policy of the threads, and priority of the first.
    pub policy: (Policy, u8),
    priority_spread: bool,
    /// Interval of the first thread.
    pub interval_us: u64,
    /// Increment of the interval from thread to thread, µs.
    pub distance_us: u64,
    /// Loops after which the first to have them ends all; 0 = endless.
    pub loops: u64,
    /// End.
    pub duration_ns: Option<u64>,
    /// CPUs of the threads, in the order in which threads get them.
    pub cpus: Vec<Cpu>,
    main_cpus: Option<schedcast_kernel::cpuset::CpuSet>,
    relative: bool,
    quiet: bool,
    /// Limit of the wakeup latency of idle CPUs, µs (`/dev/cpu_dma_latency`).
    pub idle_latency_limit_us: Option<u32>,
    histogram_us: Option<u64>,
    histogram_of_all: bool,
    nanoseconds: bool,
}

impl Options {
    /// Reads a command line for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// Bad numbers, CPUs and policies.
    pub(crate) fn read(words: &Words, cpus: usize) -> Result<Self, CommandError> {
        // `-S` and `-t` both say how many; the later one counts.
        let number = words
            .given
            .iter()
            .rfind(|given| ["smp", "threads"].contains(&given.flag.key().as_str()));
        let threads = match number {
            Some(given) if given.value.is_some() => given.whole(1..=THREADS_MAX)?,
            Some(_) => cpus as u64,
            None => 1,
        };
        let affinity = words
            .last("affinity")
            .filter(|given| given.value.is_some())
            .map(|given| given.cpu_list(cpus))
            .transpose()?;
        let histogram = words.last("histofall").or(words.last("histogram"));
        let left_alone = words.has("default-system") || words.has("laptop");
        let limit_us = words.whole("latency", 0..=2_000_000_000, 0)?;
        let zero_is_none = |length: u64| (length > 0).then_some(length);
        Ok(Self {
            threads,
            policy: read_policy(words, threads)?,
            priority_spread: words.has("priospread"),
            interval_us: words.whole("interval", 1..=INTERVAL_US_MAX, INTERVAL_US)?,
            distance_us: words.whole("distance", 0..=INTERVAL_US_MAX, DISTANCE_US)?,
            loops: words.whole("loops", 0..=1 << 40, 0)?,
            duration_ns: match words.last("duration") {
                Some(given) => zero_is_none(given.duration_ns(1_000_000_000)?),
                None => None,
            },
            cpus: match affinity {
                Some(set) => set.iter().collect(),
                None => (0..cpus as u32).map(Cpu).collect(),
            },
            main_cpus: words.cpu_list("mainaffinity", cpus)?,
            relative: words.has("relative"),
            quiet: words.has("quiet"),
            idle_latency_limit_us: (!left_alone).then_some(limit_us as u32),
            histogram_us: match histogram {
                Some(given) => Some(given.whole(1..=1_000_000)?),
                None => None,
            },
            histogram_of_all: words.has("histofall"),
            nanoseconds: words.has("nsecs"),
        })
    }

    /// Interval of a thread. With a histogram all threads have the same one: `if (!histogram)
    /// interval += distance` in `main` of rt-tests.
    pub(crate) fn interval_us_of(&self, thread: u64) -> u64 {
        let distance_us = match self.histogram_us {
            Some(_) => 0,
            None => self.distance_us,
        };
        self.interval_us + thread * distance_us
    }

    /// Priority of a thread; 0 unless it is a real-time one.
    pub(crate) fn priority_of(&self, thread: u64) -> u8 {
        let first = u64::from(self.policy.1);
        if !self.policy.0.is_rt() {
            return 0;
        }
        let spread = if self.priority_spread { thread } else { 0 };
        first.saturating_sub(spread).max(1) as u8
    }
}

/// `-p` alone means FIFO; a real-time policy alone gets a priority one above the number of threads.
fn read_policy(words: &Words, threads: u64) -> Result<(Policy, u8), CommandError> {
    let priority = words.whole("priority", 0..=99, 0)? as u8;
    let Some(given) = words.last("policy") else {
        return Ok(match priority {
            0 => (Policy::Normal, 0),
            _ => (Policy::Fifo, priority),
        });
    };
    let policy = match given.text().to_lowercase().as_str() {
        "normal" => Policy::Normal,
        text => policy_of(text).ok_or_else(|| {
            given.unknown(
                "policy",
                &["other", "normal", "batch", "idle", "fifo", "rr"],
            )
        })?,
    };
    if policy.is_rt() {
        let default = (threads + 1).min(99) as u8;
        return Ok((policy, if priority == 0 { default } else { priority }));
    }
    if priority > 0 {
        let message = format!(
            "policy `{}` has no priority, but `-p` gives one",
            given.text()
        );
        return Err(given.error(message));
    }
    Ok((policy, 0))
}

/// Metric of one thread. The sign keeps it apart from what users see.
fn thread_metric(metric: &str, thread: u64) -> String {
    format!("{metric}#{thread}")
}
