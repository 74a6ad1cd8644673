//! The command line of a benchmark: one table of flags per tool, one reader for all of them.
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

mod given;
mod list;
mod parse;

pub(in crate::programs) use given::cpus;
pub(crate) use given::whole;
pub use given::{Given, Words};
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
    /// A flag with both names that changes scheduling. It takes a value of this name in help, and
    /// stands alone if that is empty.
    pub const fn new(short: char, long: &'static str, value: &'static str) -> Self {
        Self {
            short: Some(short),
            long: Some(long),
            value: match value.is_empty() {
                true => Value::None,
                false => Value::Required(value),
            },
            default: "",
            help: "",
            effect: Effect::Scheduling,
        }
    }

    /// Without a long name.
    pub(crate) const fn short(short: char, value: &'static str) -> Self {
        let mut flag = Self::new(short, "", value);
        flag.long = None;
        flag
    }

    /// Without a short name.
    pub(crate) const fn long(long: &'static str, value: &'static str) -> Self {
        let mut flag = Self::new(' ', long, value);
        flag.short = None;
        flag
    }

    /// With a value that may be left out.
    pub(crate) const fn optional(mut self) -> Self {
        if let Value::Required(name) = self.value {
            self.value = Value::Optional(name);
        }
        self
    }

    /// Sets the value that holds without the flag.
    pub const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    /// Its line of help.
    pub(crate) const fn says(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Its effect.
    pub const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// The name the reader matches on: the long one, else the short one.
    pub fn key(&self) -> String {
        match (self.long, self.short) {
            (Some(long), _) => long.to_owned(),
            (None, Some(short)) => short.to_string(),
            (None, None) => String::new(),
        }
    }
}

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
    /// Its flags.
    pub flags: &'static [Flag],
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
