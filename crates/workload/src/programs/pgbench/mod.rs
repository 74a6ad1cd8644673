//! `pgbench`: clients that execute one built-in script on PostgreSQL, some of them on each thread.
//!
//! ```text
//! thread    for each of its clients: connect · begin the first transaction
//!           loop: poll the sockets of all its clients · receive · send the client's next statement
//! backend   one for each client (see the postgres module)
//! ```
//!
//! A client sends a statement and waits for its reply, so a transaction of `select-only` is one
//! round trip and one of `tpcb-like` seven. Worked example: `-c 4 -j 2` has four backends, and each
//! of the two threads polls two sockets. With 60 µs of a backend and 25 µs of a thread for a round
//! trip, and two CPUs, at most 2 / 85 µs = 23,500 transactions of `-S` a second.
//!
//! With `-R` a thread draws the time of its next transaction from a Poisson process, whichever of
//! its clients is free takes it, and latencies count from the drawn time.

mod compile;
mod report;
#[cfg(test)]
mod tests;

use super::command::{CommandError, Given, Tool, Words, compiled};
use super::model::Length;
use super::postgres::{Row, Script, Settings};
use super::prices::Prices;

const CLIENTS_MAX: u64 = 4096;
const SCALE_MAX: u64 = 10_000;
const SECOND_NS: u64 = 1_000_000_000;
const TELLERS_A_BRANCH: u64 = 10;

/// `pgbench` of PostgreSQL 15.
pub(crate) static TOOL: Tool = Tool {
    words: &["pgbench"],
    name: "pgbench",
    about: "clients of a PostgreSQL server, with a backend process each",
    operands: "[DBNAME]",
    compile: compiled!(Options),
};

schedcast_base::named! {
    /// A built-in script.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Builtin {
        /// Three updates, a select and an insert in a transaction.
        TpcbLike = "tpcb-like",
        /// Without the updates that clients contend for.
        SimpleUpdate = "simple-update",
        /// One select.
        SelectOnly = "select-only",
    }
}

impl Builtin {
    /// As pgbench calls it in its report.
    fn title(self) -> &'static str {
        match self {
            Builtin::TpcbLike => "<builtin: TPC-B (sort of)>",
            Builtin::SimpleUpdate => "<builtin: simple update>",
            Builtin::SelectOnly => "<builtin: select only>",
        }
    }

    fn statements(self) -> usize {
        match self {
            Builtin::TpcbLike => 7,
            Builtin::SimpleUpdate => 5,
            Builtin::SelectOnly => 1,
        }
    }

    /// CPU time of the backend for one transaction, ns.
    fn work_ns(self, prices: &Prices) -> u64 {
        match self {
            Builtin::TpcbLike => prices.pgbench_tpcb_ns,
            Builtin::SimpleUpdate => prices.pgbench_simple_update_ns,
            Builtin::SelectOnly => prices.pgbench_select_ns,
        }
    }
}

schedcast_base::named! {
    /// How statements are sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Protocol {
        /// As text, parsed each time.
        Simple = "simple",
        /// Parsed, bound and executed one after the other.
        Extended = "extended",
        /// Parsed once.
        Prepared = "prepared",
    }
}

impl Protocol {
    /// CPU time of the backend, in thousandths of that with [`Protocol::Simple`].
    fn permille(self, prices: &Prices) -> u64 {
        match self {
            Protocol::Simple => 1000,
            Protocol::Extended => prices.pgbench_extended_permille,
            Protocol::Prepared => prices.pgbench_prepared_permille,
        }
    }
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Connections.
    pub clients: u64,
    /// Threads of pgbench.
    pub threads: u64,
    /// When a client stops.
    pub length: Length,
    /// Transaction script.
    pub builtin: Builtin,
    /// How statements are sent.
    pub protocol: Protocol,
    /// Transactions a second, if they come at random times.
    pub rate: Option<u64>,
    /// Branches.
    pub scale: u64,
    /// The server.
    pub server: Settings,
    progress: bool,
    vacuum: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad numbers, unknown scripts and protocols, flags that exclude each other.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        let clients = words.whole("client", 1..=CLIENTS_MAX, 1)?;
        let threads = words.whole("jobs", 1..=CLIENTS_MAX, 1)?;
        if words.operands.len() > 1 {
            let (text, word) = &words.operands[1];
            let message = format!("`{text}`: one name of a data base is enough");
            return Err(CommandError::new(TOOL.name, *word, message));
        }
        Ok(Self {
            clients,
            // A thread needs a client.
            threads: threads.min(clients),
            length: read_length(words)?,
            builtin: read_builtin(words)?,
            protocol: read_protocol(words)?,
            rate: words
                .last("rate")
                .map(|given| given.whole(1..=10_000_000))
                .transpose()?,
            scale: words.whole("scale", 1..=SCALE_MAX, 1)?,
            server: Settings::read(words)?,
            progress: words.has("progress"),
            vacuum: !words.has("no-vacuum"),
        })
    }

    /// Script of the server for one transaction.
    fn script(&self, prices: &Prices) -> Script {
        let permille = self.protocol.permille(prices);
        let work_ns = self.builtin.work_ns(prices).saturating_mul(permille) / 1000;
        let script = Script::even(prices, work_ns, self.builtin.statements());
        match self.builtin {
            Builtin::SelectOnly => script,
            Builtin::SimpleUpdate => script.committing(),
            Builtin::TpcbLike => {
                let tellers = Row {
                    table: "tellers",
                    rows: self.scale * TELLERS_A_BRANCH,
                };
                let branches = Row {
                    table: "branches",
                    rows: self.scale,
                };
                script
                    .updating(3, tellers)
                    .updating(4, branches)
                    .committing()
            }
        }
    }
}

fn read_length(words: &Words) -> Result<Length, CommandError> {
    match (words.last("time"), words.last("transactions")) {
        (Some(_), Some(given)) => Err(given.error("give either `-t` or `-T`, not both")),
        (Some(given), None) => {
            let seconds = given.whole(1..=365 * 24 * 3600)?;
            Ok(Length::Time(seconds * SECOND_NS))
        }
        (None, Some(given)) => Ok(Length::Transactions(given.whole(1..=1 << 40)?)),
        (None, None) => Ok(Length::Transactions(10)),
    }
}

fn read_builtin(words: &Words) -> Result<Builtin, CommandError> {
    let mut scripts = Vec::new();
    for given in &words.given {
        match given.flag.key().as_str() {
            "skip-some-updates" => scripts.push((Builtin::SimpleUpdate, given)),
            "select-only" => scripts.push((Builtin::SelectOnly, given)),
            "builtin" => scripts.push((builtin(given)?, given)),
            _ => {}
        }
    }
    match scripts.as_slice() {
        [] => Ok(Builtin::TpcbLike),
        [(one, _)] => Ok(*one),
        [_, (_, given), ..] => Err(given.error("one script at a time, a mix is not modelled")),
    }
}

fn builtin(given: &Given) -> Result<Builtin, CommandError> {
    let text = given.text();
    if text.contains('@') {
        return Err(given.error("one script at a time, weights are not modelled"));
    }
    let begins = |one: &Builtin| !text.is_empty() && one.name().starts_with(text);
    let mut fitting = Builtin::ALL.into_iter().filter(begins);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(given.unknown("script", &Builtin::ALL.map(Builtin::name))),
    }
}

fn read_protocol(words: &Words) -> Result<Protocol, CommandError> {
    let Some(given) = words.last("protocol") else {
        return Ok(Protocol::Simple);
    };
    Protocol::named(given.text())
        .ok_or_else(|| given.unknown("protocol", &Protocol::ALL.map(Protocol::name)))
}
