//! `wrk` and an nginx that serves one small file: connections that are kept open, each with one
//! request under way.
//!
//! ```text
//! wrk thread    epoll_wait · read all replies that are there · write the next request of each
//! nginx worker  epoll_wait · for each request that is there: receive · find and send the file
//! ```
//!
//! Each thread has an equal share of the connections. Which worker serves one is drawn: workers
//! that listen with `reuseport` have a socket each, and the kernel chooses by a hash of the
//! addresses with a key of its own (`reuseport_select_sock`). Worked example: of 16 connections and
//! two workers, 8 and 8 come out in a fifth of the runs, 6 and 10 or further apart in 45 %; then
//! one worker waits for requests while they queue at the other.
//!
//! `-t1 -c1` on one CPU is a ping-pong. With 10.7 µs of the thread and 11.6 µs of the worker for a
//! request, switches included, that is 44,800 requests a second.
//!
//! wrk starts the next request of a connection when the reply to the last one has come, so a server
//! that is held back gets fewer requests; the tool then adds latencies for those that could not be
//! sent.

mod compile;
mod report;
#[cfg(test)]
mod tests;

use super::command::{CommandError, Tool, Words, compiled};

const THREADS_MAX: u64 = 1024;
const CONNECTIONS_MAX: u64 = 65_536;
const WORKERS_MAX: u64 = 1024;
const SECOND_NS: u64 = 1_000_000_000;

/// `wrk` 4.
pub(crate) static TOOL: Tool = Tool {
    words: &["wrk"],
    name: "wrk",
    about: "connections to an nginx, each with one request under way",
    operands: "[URL]",
    compile: compiled!(Options, cpus),
};

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Threads of wrk.
    pub threads: u64,
    /// Connections of each of them.
    pub connections_each: u64,
    /// Length.
    pub duration_ns: u64,
    /// Worker processes of nginx.
    pub workers: u64,
    server_cgroup: Option<(String, usize)>,
    url: String,
    connections: u64,
    distribution: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad numbers, fewer connections than threads.
    pub(crate) fn read(words: &Words, cpus: usize) -> Result<Self, CommandError> {
        let threads = words.whole("threads", 1..=THREADS_MAX, 2)?;
        let connections = words.whole("connections", 1..=CONNECTIONS_MAX, 10)?;
        if connections < threads {
            let message =
                format!("{threads} threads need as many connections, found {connections}");
            let given = words.last("connections").or_else(|| words.last("threads"));
            return Err(given.map_or_else(|| words.error(&message), |given| given.error(&message)));
        }
        if let Some((text, word)) = words.operands.get(1) {
            let message = format!("`{text}`: one URL is enough");
            return Err(CommandError::new(TOOL.name, *word, message));
        }
        let url = words.operands.first();
        let cgroup = words.last("server-cgroup");
        Ok(Self {
            threads,
            // The remainder of the division is left out, as the tool does.
            connections_each: connections / threads,
            duration_ns: words.length_ns("duration", 10 * SECOND_NS)?,
            workers: words.whole("workers", 1..=WORKERS_MAX, cpus.max(1) as u64)?,
            server_cgroup: cgroup.map(|given| (given.text().to_owned(), given.word)),
            url: url.map_or("http://localhost/", |(text, _)| text).to_owned(),
            connections,
            distribution: words.has("latency"),
        })
    }
}
