//! `hackbench` and `perf bench sched messaging`: groups of senders that each write to every
//! receiver of their group.
//!
//! ```text
//! main      fork 2·fds tasks a group · read "ready" from each · write "go" · wait for all to exit
//! receiver  write "ready" · wait for "go" · read fds·loops messages from its own socket or pipe
//! sender    write "ready" · wait for "go" · loops times: one message to each of the fds receivers
//! ```
//!
//! Worked example, the defaults of hackbench: 10 groups of 20 senders and 20 receivers are 400
//! tasks; each sender writes 100 × 20 messages, so 20 × 2000 × 10 = 400 000 messages of 100 bytes
//! go through. The time counts from "go" to the last exit.
//!
//! Whom a message wakes, and when a sender blocks, is decided by the channel; see [`mod@channel`].

pub mod channel;
mod compile;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::command::{CommandError, Tool, Words};
use super::model::Model;
use super::results::{MetricMap, Results};
use channel::Channel;

const FDS_PER_GROUP: u64 = 20;
const BYTES: u64 = 100;
const LOOPS: u64 = 100;
/// More tasks than this no kernel starts with its default limits.
const TASKS_MAX: u64 = 32_768;

/// `hackbench` of rt-tests 2.
pub(crate) static HACKBENCH: Tool = Tool {
    words: &["hackbench"],
    name: "hackbench",
    about: "groups of processes that send messages to each other through sockets or pipes",
    operands: "[GROUPS [process|thread [LOOPS]]]",
    compile: |words, compiler| {
        let options = Options::read(words, &HACKBENCH)?;
        options.compile(compiler)?;
        Ok(Arc::new(options))
    },
};

/// `perf bench sched messaging`.
pub(crate) static PERF_MESSAGING: Tool = Tool {
    words: &["perf", "bench", "sched", "messaging"],
    name: "perf-bench-messaging",
    about: "the same as hackbench, from perf",
    operands: "",
    compile: |words, compiler| {
        let options = Options::read(words, &PERF_MESSAGING)?;
        options.compile(compiler)?;
        Ok(Arc::new(options))
    },
};

/// A command line of either tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Groups.
    pub groups: u64,
    /// Senders, and receivers, in each.
    pub fds: u64,
    /// Messages from each sender to each receiver.
    pub loops: u64,
    /// Bytes in a message.
    pub bytes: u64,
    /// Channel of the messages.
    pub channel: Channel,
    /// Threads instead of processes.
    pub threads: bool,
    /// Main thread under `SCHED_FIFO`.
    pub main_fifo: bool,
    /// `perf bench` rather than hackbench.
    pub perf: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad numbers, and more tasks than a kernel starts.
    pub(crate) fn read(words: &Words, tool: &'static Tool) -> Result<Self, CommandError> {
        let perf = tool.name == PERF_MESSAGING.name;
        let many = 1..=1_000_000;
        let (groups, loops, threads) = if perf {
            ("group", "nr_loops", "thread")
        } else {
            ("groups", "loops", "threads")
        };
        let mut options = Self {
            groups: words.whole(groups, 1..=TASKS_MAX, 10)?,
            fds: words.whole("fds", 1..=TASKS_MAX, FDS_PER_GROUP)?,
            loops: words.whole(loops, many.clone(), LOOPS)?,
            bytes: words.whole("datasize", 1..=1 << 20, BYTES)?,
            channel: if words.has("pipe") {
                Channel::Pipe
            } else {
                Channel::Socket
            },
            threads: words.has(threads),
            main_fifo: words.has("fifo"),
            perf,
        };
        if let Some(last) = words
            .given
            .iter()
            .rfind(|given| ["threads", "process"].contains(&given.flag.key().as_str()))
        {
            options.threads = last.flag.key() == "threads";
        }
        options.read_operands(words)?;
        let tasks = options.tasks();
        if tasks > TASKS_MAX {
            let message = format!("{tasks} tasks; Linux holds {TASKS_MAX} unless told otherwise");
            return Err(words.error(message));
        }
        Ok(options)
    }

    /// The old way without flags: `hackbench 10 thread 100`.
    fn read_operands(&mut self, words: &Words) -> Result<(), CommandError> {
        let tool = HACKBENCH.name;
        for (place, (text, word)) in words.operands.iter().enumerate() {
            let number = |what: &str| {
                super::command::whole(text, &(1..=1_000_000)).map_err(|expected| {
                    CommandError::new(
                        tool,
                        *word,
                        format!("{what} needs {expected}, found `{text}`"),
                    )
                })
            };
            match (place, text.as_str()) {
                (0, _) => self.groups = number("GROUPS")?,
                (1, "process") => self.threads = false,
                (1, "thread") => self.threads = true,
                (1, _) => {
                    let message = format!("expected `process` or `thread`, found `{text}`");
                    return Err(CommandError::new(tool, *word, message));
                }
                (2, _) => self.loops = number("LOOPS")?,
                _ => {
                    let message = format!("`{text}` is one word too many");
                    return Err(CommandError::new(tool, *word, message));
                }
            }
        }
        Ok(())
    }

    /// Senders and receivers together.
    pub(crate) fn tasks(&self) -> u64 {
        self.groups.saturating_mul(2).saturating_mul(self.fds)
    }
}

impl Model for Options {
    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(map, "time", results.seconds("time"));
    }

    /// Text that the tool prints.
    fn report(&self, results: &Results) -> String {
        let seconds = results.time_s();
        if !self.perf {
            let mode = if self.threads { "threaded" } else { "process" };
            return format!(
                "Running in {mode} mode with {} groups using {} file descriptors each (== {} tasks)\n\
                 Each sender will pass {} messages of {} bytes\nTime: {seconds:.3}\n",
                self.groups,
                2 * self.fds,
                self.tasks(),
                self.loops,
                self.bytes
            );
        }
        let kind = if self.threads { "threads" } else { "processes" };
        format!(
            "# Running 'sched/messaging' benchmark:\n\
             # {} sender and receiver {kind} per group\n\
             # {} groups == {} {kind} run\n\n     Total time: {seconds:.3} [sec]\n",
            self.fds,
            self.groups,
            self.tasks()
        )
    }
}
