//! `sysbench`: threads that compute primes, or that are clients of a PostgreSQL server.
//!
//! ```text
//! main      start the threads · wait
//! cpu       loop: find all primes up to --cpu-max-prime
//! oltp_*    connect · loop: for each statement of the transaction: send · poll · receive
//! backend   one for each thread (see the postgres module)
//! ```
//!
//! An event of `cpu` is trial division: of every number from 3 up by 2, 3, … up to its root or its
//! smallest divisor. [`division_steps`] counts the divisions, so only one of them needs a price.
//! Worked example: up to 10,000 they are 117,527 (each prime up to its root, each other number up
//! to its smallest divisor); at 1.7 ns each an event takes 0.2 ms.
//!
//! A transaction of `oltp_read_write` is 20 round trips: BEGIN, 10 point selects, 4 range selects,
//! 2 updates, DELETE, INSERT, COMMIT.

mod compile;
mod oltp;
mod report;
#[cfg(test)]
mod tests;

use super::command::{CommandError, Tool, Words, compiled};
use oltp::Oltp;
use schedcast_base::names::suggestion;

const THREADS_MAX: u64 = 4096;
const SECOND_NS: u64 = 1_000_000_000;
/// Trial division up to here takes the model a second to count.
const PRIME_MAX: u64 = 1_000_000;

/// `sysbench` 1.0.
pub(crate) static TOOL: Tool = Tool {
    words: &["sysbench"],
    name: "sysbench",
    about: "threads that compute primes, or clients of a PostgreSQL server",
    operands: "TEST run",
    compile: compiled!(Options),
};

/// Test that the threads run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// All primes up to this number.
    Cpu(u64),
    /// Transactions of a server.
    Oltp(Oltp),
}

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Test that the threads run.
    pub test: Test,
    /// How many.
    pub threads: u64,
    /// Events of all of them, if they are limited.
    pub events: Option<u64>,
    /// Length, if it is limited.
    pub time_ns: Option<u64>,
    percentile: u64,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Unknown tests, bad numbers, flags of another test, a run without an end.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        let (name, word) = read_test(words)?;
        let test = match name {
            "cpu" => Test::Cpu(words.whole("cpu-max-prime", 3..=PRIME_MAX, 10_000)?),
            name => Test::Oltp(Oltp::read(words, name)?),
        };
        for given in &words.given {
            let key = given.flag.key();
            let of = given.flag.help.split_once(": ").map(|(of, _)| of);
            let fits = match (&test, of) {
                (Test::Cpu(_), Some("oltp")) => false,
                (Test::Cpu(_), _) => !is_of_a_server(&key),
                (Test::Oltp(_), of) => of != Some("cpu"),
            };
            if !fits {
                return Err(given.error(format!("flag `--{key}` is not one of `{name}`")));
            }
        }
        let events = words.whole("events", 0..=1 << 40, 0)?;
        let time_s = words.whole("time", 0..=365 * 24 * 3600, 10)?;
        if events == 0 && time_s == 0 {
            let message = "without `--events` and `--time` it never ends";
            return Err(CommandError::new(TOOL.name, word, message));
        }
        Ok(Self {
            test,
            threads: words.whole("threads", 1..=THREADS_MAX, 1)?,
            events: (events > 0).then_some(events),
            time_ns: (time_s > 0).then_some(time_s * SECOND_NS),
            percentile: words.whole("percentile", 1..=100, 95)?,
        })
    }
}

fn is_of_a_server(key: &str) -> bool {
    let own = [
        "server-cgroup",
        "filesystem",
        "synchronous-commit",
        "auto-inc",
    ];
    own.contains(&key) || key.starts_with("pgsql-") || key.starts_with("db-")
}

/// `TEST run`: the name of the test, and its word.
fn read_test(words: &Words) -> Result<(&'static str, usize), CommandError> {
    let error = |word, message: String| CommandError::new(TOOL.name, word, message);
    let mut names = vec!["cpu"];
    names.extend(oltp::NAMES);
    let Some((text, word)) = words.operands.first() else {
        let hint = suggestion("", &names);
        return Err(words.error(format!("needs a test and `run` behind its flags; {hint}")));
    };
    // The scripts may be given by their path.
    let base = text.rsplit('/').next().unwrap_or(text);
    let base = base.strip_suffix(".lua").unwrap_or(base);
    let Some(name) = names.iter().find(|name| **name == base) else {
        let hint = suggestion(base, &names);
        return Err(error(*word, format!("unknown test `{text}`; {hint}")));
    };
    match words.operands.get(1) {
        Some((command, _)) if command == "run" => {}
        Some((command, at)) => {
            let message = format!("`{command}`: only `run` is forecast");
            return Err(error(*at, message));
        }
        None => return Err(error(*word, format!("needs `run` behind `{text}`"))),
    }
    match words.operands.get(2) {
        Some((text, at)) => Err(error(
            *at,
            format!("`{text}`: nothing is expected behind `run`"),
        )),
        None => Ok((name, *word)),
    }
}

/// Divisions that finding all primes up to `max` takes.
pub(crate) fn division_steps(max: u64) -> u64 {
    (3..=max)
        .map(|number| {
            let divisor = (2..)
                .take_while(|divisor| divisor * divisor <= number)
                .find(|divisor| number.is_multiple_of(*divisor));
            // The loop counts up to the divisor, or to the last number not above the root.
            divisor.unwrap_or_else(|| number.isqrt()).saturating_sub(1)
        })
        .sum()
}
