//! `dbench`: clients that replay what a file server does for one user, on a local file system.
//!
//! Each client executes the load file again and again: 82.5 operations on average that only compute
//! (page cache and directories), then one `Flush`, which is an `fsync`. The [`load`] is that of the
//! packaged `client.txt`, whose flushes come in a fixed pattern of 43.
//!
//! ```text
//! main     fork the clients · wait
//! client   loop over the 43 pieces: operations of the piece · fsync (see the storage module)
//! ```
//!
//! Worked example: at 5.5 µs an operation the longest piece, 897 operations, computes 4.9 ms and
//! moves 4.9 MB; then come five flushes with 2 or 3 operations and 4 KB each, which are nearly all
//! waiting.

mod compile;
pub mod load;
mod report;
#[cfg(test)]
mod tests;

use super::command::{CommandError, Tool, Words, compiled};
use super::results::Results;
use super::storage::FileSystem;

const CLIENTS_MAX: u64 = 4096;
const TIME_S: u64 = 600;
const SECOND_NS: u64 = 1_000_000_000;

/// `dbench` 4.
pub(crate) static TOOL: Tool = Tool {
    words: &["dbench"],
    name: "dbench",
    about: "clients that replay a file server's load on a local file system",
    operands: "CLIENTS",
    compile: compiled!(Options),
};

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Clients.
    pub clients: u64,
    /// Length of the measured part.
    pub time_ns: u64,
    /// Warm-up before the measured time, ns.
    pub warmup_ns: u64,
    /// File system of the files.
    pub file_system: FileSystem,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// A missing or bad number of clients, bad times, an unknown file system.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        let [(clients, word)] = words.operands.as_slice() else {
            return Err(words.error("needs one number of clients behind its flags"));
        };
        let clients = super::command::whole(clients, &(1..=CLIENTS_MAX)).map_err(|what| {
            let message = format!("the number of clients must be {what}, found `{clients}`");
            CommandError::new(TOOL.name, *word, message)
        })?;
        let time_ns = words.whole("timelimit", 1..=86_400, TIME_S)? * SECOND_NS;
        Ok(Self {
            clients,
            time_ns,
            warmup_ns: match words.last("warmup") {
                Some(given) => given.whole(0..=86_400)? * SECOND_NS,
                None => time_ns / 5,
            },
            file_system: FileSystem::read(words.last("filesystem"))?,
        })
    }

    /// From its start to its end.
    pub(crate) fn runtime_ns(&self) -> u64 {
        self.warmup_ns + self.time_ns
    }

    /// MB/s over the measured part, with the tool's MB of a million bytes.
    fn throughput(&self, results: &Results) -> f64 {
        let elapsed_ns = results.now_ns.saturating_sub(results.start_ns);
        let measured_ns = elapsed_ns
            .saturating_sub(self.warmup_ns)
            .clamp(1, self.time_ns);
        results.count("bytes") as f64 / 1e6 / (measured_ns as f64 / 1e9)
    }
}
