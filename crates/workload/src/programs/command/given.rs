//! Given arguments: flags with their values, and the typed readings of those.

use std::ops::RangeInclusive;

use schedcast_base::cpu_list::{CpuList, Stride};
use schedcast_base::names::suggestion;
use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;

use super::flags::OPERAND;
use super::{CommandError, Flag, Tool};

/// A command line that was read.
#[derive(Clone, Debug)]
pub struct Words {
    tool: &'static Tool,
    /// Flags in the order given.
    pub given: Vec<Given>,
    /// Operands behind the flags: text and number of the word.
    pub operands: Vec<(String, usize)>,
}

impl Words {
    pub(super) fn new(tool: &'static Tool) -> Self {
        Self {
            tool,
            given: Vec::new(),
            operands: Vec::new(),
        }
    }

    pub(super) fn operand(&mut self, text: &str, word: usize) -> Result<(), CommandError> {
        if self.tool.operands.is_empty() {
            let message = format!("`{text}` is no flag, and nothing else is expected");
            return Err(CommandError::new(self.tool.name, word, message));
        }
        self.operands.push((text.to_owned(), word));
        Ok(())
    }

    /// The last use of a flag, by its key.
    pub fn last(&self, key: &str) -> Option<&Given> {
        self.given
            .iter()
            .rev()
            .find(|given| given.flag.key() == key)
    }

    /// Whether a flag was given.
    pub fn has(&self, key: &str) -> bool {
        self.last(key).is_some()
    }

    /// A whole number, or what holds without the flag.
    ///
    /// # Errors
    /// As [`Given::whole`].
    pub fn whole(
        &self,
        key: &str,
        range: RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, CommandError> {
        self.last(key)
            .map_or(Ok(default), |given| given.whole(range))
    }

    /// The length of a run, or what holds without the flag; a number alone is seconds.
    ///
    /// # Errors
    /// As [`Given::length_ns`].
    pub(in crate::programs) fn length_ns(
        &self,
        key: &str,
        default_ns: u64,
    ) -> Result<u64, CommandError> {
        self.last(key)
            .map_or(Ok(default_ns), |given| given.length_ns(1_000_000_000))
    }

    /// The CPUs of a machine of `cpus` CPUs that a flag lists.
    ///
    /// # Errors
    /// As [`Given::cpu_list`].
    pub(in crate::programs) fn cpu_list(
        &self,
        key: &str,
        cpus: usize,
    ) -> Result<Option<CpuSet>, CommandError> {
        self.last(key).map(|given| given.cpu_list(cpus)).transpose()
    }

    /// The one of some things, each behind its name, that a flag names; the first without the flag.
    ///
    /// # Errors
    /// Another name.
    pub(in crate::programs) fn one_of<T: Copy>(
        &self,
        key: &str,
        things: &[(&str, T)],
    ) -> Result<T, CommandError> {
        let given = self.last(key);
        given.map_or(Ok(things[0].1), |given| given.one_of("value", things))
    }

    /// An operand, to be read like the value of a flag; `name` stands for it in messages.
    pub(in crate::programs) fn operand_named(&self, row: usize, name: &str) -> Given {
        let found = self.operands.get(row);
        Given {
            tool: self.tool,
            flag: &OPERAND,
            typed: name.to_owned(),
            value: found.map(|(text, _)| text.clone()),
            word: found.map_or(1, |(_, word)| *word),
        }
    }

    /// An error of the command as a whole, shown at its first word.
    pub fn error(&self, message: impl Into<String>) -> CommandError {
        CommandError::new(self.tool.name, 1, message)
    }
}

/// One use of a flag.
#[derive(Clone, Debug)]
pub struct Given {
    pub(super) tool: &'static Tool,
    /// The flag.
    pub flag: &'static Flag,
    /// The word as typed.
    pub typed: String,
    /// Its value.
    pub value: Option<String>,
    /// Number of its word in the command line.
    pub word: usize,
}

impl Given {
    /// An error about this use.
    pub fn error(&self, message: impl Into<String>) -> CommandError {
        CommandError::new(self.tool.name, self.word, message)
    }

    pub(in crate::programs) fn expected(&self, what: &str) -> CommandError {
        let typed = match self.typed.starts_with('-') {
            true => format!("flag `{}`", self.typed),
            false => format!("`{}`", self.typed),
        };
        match &self.value {
            Some(value) => self.error(format!("{typed} needs {what}, found `{value}`")),
            None => self.error(format!("{typed} needs {what}")),
        }
    }

    /// Refuses the value as no `what`, with the nearest of the valid names.
    pub(in crate::programs) fn unknown(&self, what: &str, valid: &[&str]) -> CommandError {
        let hint = suggestion(self.text(), valid);
        self.error(format!("unknown {what} `{}`; {hint}", self.text()))
    }

    /// The one of some things, each behind its name, that the value names.
    ///
    /// # Errors
    /// Another name, which is no `what`.
    pub(in crate::programs) fn one_of<T: Copy>(
        &self,
        what: &str,
        things: &[(&str, T)],
    ) -> Result<T, CommandError> {
        let found = things.iter().find(|(name, _)| *name == self.text());
        found.map(|(_, thing)| *thing).ok_or_else(|| {
            let names: Vec<&str> = things.iter().map(|(name, _)| *name).collect();
            self.unknown(what, &names)
        })
    }

    /// The value as text; empty without one.
    pub fn text(&self) -> &str {
        self.value.as_deref().unwrap_or("")
    }

    /// A whole number.
    ///
    /// # Errors
    /// Anything else, or one outside of `range`.
    pub fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, CommandError> {
        whole(self.text(), &range).map_err(|what| self.expected(&what))
    }

    /// A duration in nanoseconds: a whole number of `unit_ns`, or with `s`, `m`, `h` or `d` behind.
    ///
    /// # Errors
    /// Anything else, or more than a year.
    pub(crate) fn duration_ns(&self, unit_ns: u64) -> Result<u64, CommandError> {
        const SECOND: u64 = 1_000_000_000;
        const YEAR: u64 = 365 * 24 * 3600 * SECOND;
        let text = self.text();
        let (digits, unit_ns) = match text.chars().last() {
            Some('s') => (&text[..text.len() - 1], SECOND),
            Some('m') => (&text[..text.len() - 1], 60 * SECOND),
            Some('h') => (&text[..text.len() - 1], 3600 * SECOND),
            Some('d') => (&text[..text.len() - 1], 24 * 3600 * SECOND),
            _ => (text, unit_ns),
        };
        let what = "a time such as `20`, `30s`, `5m` or `1h`, of a year at most";
        let number = whole(digits, &(0..=YEAR)).map_err(|_| self.expected(what))?;
        match number.checked_mul(unit_ns) {
            Some(time_ns) if time_ns <= YEAR => Ok(time_ns),
            _ => Err(self.expected(what)),
        }
    }

    /// Same, of a run: none is over before it begins.
    ///
    /// # Errors
    /// As for [`Given::duration_ns`], and 0.
    pub(crate) fn length_ns(&self, unit_ns: u64) -> Result<u64, CommandError> {
        match self.duration_ns(unit_ns)? {
            0 => Err(self.expected("a time of more than 0, such as `20` or `30s`")),
            length_ns => Ok(length_ns),
        }
    }

    /// A list of CPUs, such as `0-3,8`, of a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// Anything else, and CPUs that the machine does not have.
    pub(crate) fn cpu_list(&self, cpus: usize) -> Result<CpuSet, CommandError> {
        let what = format!("CPUs of 0 to {} such as `0-3,8`", cpus.saturating_sub(1));
        super::cpus(self.text(), cpus).ok_or_else(|| self.expected(&what))
    }
}

/// Scheduling policies as tools call them.
pub(in crate::programs) const POLICIES: [(&str, Policy); 5] = [
    ("other", Policy::Normal),
    ("batch", Policy::Batch),
    ("idle", Policy::Idle),
    ("fifo", Policy::Fifo),
    ("rr", Policy::RoundRobin),
];

/// The policy of a name.
pub(in crate::programs) fn policy_of(name: &str) -> Option<Policy> {
    let found = POLICIES.iter().find(|(known, _)| *known == name);
    found.map(|(_, policy)| *policy)
}

/// A list such as `0-3,8` or `0-7:2`, every second one, of the numbers below `count`.
pub(in crate::programs) fn cpus(text: &str, count: usize) -> Option<CpuSet> {
    let list = CpuList::parse(text, u32::try_from(count).ok()?, Stride::Step).ok()?;
    Some(list.cpus().iter().copied().map(Cpu).collect())
}

/// Reads digits only, so that `+5`, `5x` and `0x5` are refused where the tools would guess.
pub(crate) fn whole(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let expected = || format!("a whole number from {} to {}", range.start(), range.end());
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits && range.contains(&number) => Ok(number),
        _ => Err(expected()),
    }
}
