//! The command line of a benchmark: one table of flags per tool in `flags.txt`, one reader for all.
//!
//! The table is the only place that knows a flag. The reader, the defaults, the help and
//! `schedcast list programs` come from it. Every flag says what it does to scheduling
//! ([`Effect`]): changes it, changes only what is printed, does nothing to it (and why), or cannot
//! be forecast (and why), in which case it is refused like an unknown one.
//!
//! Words are read as `getopt_long` reads them: `-t3`, `-t 3`, `--threads=3`, `--threads 3`,
//! `--thr 3` if no other long name begins so, `-qm` for two flags without a value, `--` ends the
//! flags. Of a flag given twice the last one counts.
//!
//! Worked example: in `schbench -m 1 --rutime 20` the words are numbered from 1, the tool's name
//! being the first, so the refusal says `word 4`.
//!
//! ```text
//! schbench, word 4: unknown flag `--rutime`; nearest valid name: `--runtime`
//! ```

mod flags;
mod given;
mod list;
mod parse;

pub(crate) use given::whole;
pub use given::{Given, Words};
pub(in crate::programs) use given::{POLICIES, cpus, policy_of};
pub use list::{describe, list};

use std::sync::Arc;

use thiserror::Error;

use super::model::Model;
use super::start::Compiler;

/// Whether and how a flag takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// It stands alone.
    None,
    /// It needs one; the name stands for it in help.
    Required(&'static str),
    /// It takes the next word if that looks like a value.
    Optional(&'static str),
}

/// Effect of a flag on scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes what the tasks do.
    Scheduling,
    /// Changes only what is printed.
    Output,
    /// Changes nothing that the scheduler sees, for this reason.
    Nothing(&'static str),
    /// Cannot be forecast, for this reason: refused.
    Refused(&'static str),
}

/// A flag of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// `-x`.
    pub short: Option<char>,
    /// `--xyz`, without the dashes.
    pub long: Option<&'static str>,
    /// Its value.
    pub value: Value,
    /// Value that holds without the flag, for help; empty if there is none.
    pub default: &'static str,
    /// One line.
    pub help: &'static str,
    /// Effect on scheduling.
    pub effect: Effect,
}

impl Flag {
    /// The name the reader matches on: the long one, else the short one.
    pub fn key(&self) -> String {
        match (self.long, self.short) {
            (Some(long), _) => long.to_owned(),
            (None, Some(short)) => short.to_string(),
            (None, None) => String::new(),
        }
    }
}

/// How a tool compiles whose options are read from its words alone, or with the number of CPUs.
macro_rules! compiled {
    ($options:ident $(, $cpus:ident)?) => {
        |words, compiler| {
            let options = $options::read(words $(, compiler.start.$cpus)?)?;
            options.compile(compiler)?;
            Ok(std::sync::Arc::new(options))
        }
    };
}
pub(super) use compiled;

/// A tool whose command lines are understood.
#[derive(Debug)]
pub struct Tool {
    /// The words that name it: `schbench`, or `perf bench sched pipe`.
    pub words: &'static [&'static str],
    /// Its name in metrics and lists.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Operands behind the flags, for help; empty if there may be none.
    pub operands: &'static str,
    /// Reads a command line and adds what it runs.
    pub(super) compile: Compile,
}

/// How a tool compiles its command line.
pub(super) type Compile = fn(&Words, &mut Compiler) -> Result<Arc<dyn Model>, CommandError>;

/// Why a command line cannot be forecast.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{tool}, word {word}: {message}")]
pub struct CommandError {
    /// Name of the tool.
    pub tool: String,
    /// Number of the word in the command line, from 1; the tool's own name is word 1.
    pub word: usize,
    /// Mistake, what was expected, and the nearest valid name.
    pub message: String,
}

impl CommandError {
    /// An error at a word.
    pub fn new(tool: &str, word: usize, message: impl Into<String>) -> Self {
        Self {
            tool: tool.to_owned(),
            word,
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests;
