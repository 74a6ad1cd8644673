//! Commands that start another command: `taskset`, `chrt`, `nice`, `uclampset`, `numactl`,
//! `timeout` and `systemd-run`.
//!
//! Each changes one attribute of the process it starts, and all children inherit it. Several may
//! stand in a row, as in a shell.
//!
//! Worked example: `taskset -c 2,3 chrt -f 10 timeout 5 cyclictest -t 2` starts `cyclictest` on
//! CPUs 2 and 3 as SCHED_FIFO with priority 10, and ends it after 5 seconds. The words of the
//! started program are numbered as typed, so its `-t` is word 9 of an error message.

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;
use schedcast_kernel::uclamp::{Clamps, LARGEST};

use super::command::{CommandError, Given, Tool, Words, cpus as cpus_of, policy_of, whole};
use super::start::Start;
use super::unit::{self, Unit};

/// Facts about the machine that the prefixes need.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Number of CPUs.
    pub cpus: usize,
    /// Memory node of each CPU; empty = one for all.
    pub nodes: &'a [u32],
    /// Whether its kernel is built with utilisation clamps.
    pub has_clamps: bool,
}

/// Settings from the prefixes of a command line, and where the program itself begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// CPUs that the program may use; `None` = all.
    pub affinity: Option<CpuSet>,
    /// Policy and real-time priority; `None` = as the shell has it.
    pub policy: Option<(Policy, u8)>,
    /// Nice value; nested `nice` commands add up.
    pub nice: i32,
    /// Utilisation clamps; `None` = as without `uclampset`.
    pub clamps: Clamps<Option<u32>>,
    /// Time from its start after which `timeout` ends the program.
    pub timeout_ns: Option<u64>,
    /// The unit that `systemd-run` makes.
    pub unit: Option<Unit>,
    /// Number of words that the prefixes take.
    pub words: usize,
}

impl Prefixes {
    /// How the program is started, given how its prefixes are started.
    ///
    /// # Errors
    /// A policy or nice value for `rt-app`, whose threads take theirs from its file.
    pub(super) fn started(&self, shell: &Start, tool: &Tool) -> Result<Start, CommandError> {
        let unclamped = self.clamps == Clamps::default();
        if tool.name == "rt-app" && (self.policy.is_some() || self.nice != 0 || !unclamped) {
            let message = "sets policy, nice value and clamps of its threads by its file, not by \
                           `chrt`, `nice` or `uclampset`";
            return Err(CommandError::new(tool.name, self.words + 1, message));
        }
        let mut start = shell.clone();
        start.affinity = self.affinity.or(start.affinity);
        start.policy = self.policy.unwrap_or(start.policy);
        start.clamps = self.clamps;
        start.nice = (start.nice + self.nice).clamp(-20, 19);
        Ok(start)
    }
}

type Apply = fn(&Words, &mut Prefixes, &Machine) -> Result<(), CommandError>;

/// A command that starts another one.
struct Prefix {
    tool: Tool,
    /// Whether a word stands between the flags and the started command.
    operand: bool,
    apply: Apply,
}

const NEEDS_PROGRAM: &str = "needs a program behind it, such as `hackbench -g 2`";

static PREFIXES: [Prefix; 7] = [
    prefix(
        &[unit::NAME],
        "a group of its own, with CPUQuota=, CPUWeight=, AllowedCPUs=",
        false,
        unit::apply,
    ),
    prefix(
        &["taskset"],
        "CPUs the program may use: a mask, or a list behind `-c`",
        true,
        taskset,
    ),
    prefix(
        &["chrt"],
        "policy and priority; SCHED_RR without a flag",
        true,
        chrt,
    ),
    prefix(&["nice"], "nice value, 10 without a flag", false, nice),
    prefix(
        &["uclampset"],
        "utilisation clamps, with `kernel.uclamp`",
        false,
        uclampset,
    ),
    prefix(&["numactl"], "CPUs the program may use", false, numactl),
    prefix(&["timeout"], "ends the program after a time", true, timeout),
];

const fn prefix(
    words: &'static [&'static str],
    about: &'static str,
    operand: bool,
    apply: Apply,
) -> Prefix {
    let tool = Tool {
        words,
        name: words[0],
        about,
        operands: "COMMAND",
        compile: |words, _| Err(words.error(NEEDS_PROGRAM)),
    };
    Prefix {
        tool,
        operand,
        apply,
    }
}

/// The prefixes that are understood, one line each, for `schedcast list programs`.
pub fn list() -> String {
    let line = |prefix: &Prefix| format!("{:<24}{}\n", prefix.tool.name, prefix.tool.about);
    PREFIXES.iter().map(line).collect()
}

/// Splits a command line into the number of words its prefixes take and the program behind them.
///
/// # Errors
/// Flags and operands that a prefix does not have.
pub(super) fn skip(words: &[String]) -> Result<usize, CommandError> {
    each(words, |_, _| Ok(()))
}

/// Number of words that the prefixes take; 0 where they are mistaken, which is found when the
/// program is compiled.
pub fn length(words: &[String]) -> usize {
    skip(words).unwrap_or(0)
}

/// Reads the prefixes of a command line for a machine.
///
/// # Errors
/// As [`skip`], and values outside their range.
pub fn read(words: &[String], machine: &Machine) -> Result<Prefixes, CommandError> {
    let mut prefixes = Prefixes::default();
    prefixes.words = each(words, |prefix, words| {
        (prefix.apply)(words, &mut prefixes, machine)
    })?;
    Ok(prefixes)
}

/// The unit that a command line makes by `systemd-run`; mistakes of it are found when the program
/// is compiled.
pub fn unit(words: &[String], cpus: usize) -> Option<Unit> {
    let machine = Machine {
        cpus,
        nodes: &[],
        has_clamps: true,
    };
    let named = |word: &String| word.rsplit('/').next() == Some(unit::NAME);
    if !words.iter().any(named) {
        return None;
    }
    let mut prefixes = Prefixes::default();
    let take = |prefix: &Prefix, words: &Words| match prefix.tool.name == unit::NAME {
        true => unit::apply(words, &mut prefixes, &machine),
        false => Ok(()),
    };
    each(words, take).ok()?;
    prefixes.unit
}

/// The command line as a shell would start it in the unit's group: without `systemd-run`, whose
/// attributes of the process other prefixes set.
pub fn within_unit(words: &[String], cpus: usize) -> Vec<String> {
    let Some(at) = words
        .iter()
        .position(|word| word.rsplit('/').next() == Some(unit::NAME))
    else {
        return words.to_vec();
    };
    let machine = Machine {
        cpus,
        nodes: &[],
        has_clamps: true,
    };
    let mut set = Prefixes::default();
    let named = |prefix: &&Prefix| prefix.tool.name == unit::NAME;
    let read = PREFIXES
        .iter()
        .find(named)
        .map(|prefix| prefix.tool.parse_leading(words, at + 1, 0));
    let Some(Ok((read, next))) = read else {
        return words.to_vec();
    };
    if unit::apply(&read, &mut set, &machine).is_err() {
        return words.to_vec();
    }
    let mut line = words[..at].to_vec();
    if let Some(cpus) = set.affinity {
        let list: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        line.extend(["taskset".into(), "-c".into(), list.join(",")]);
    }
    if let Some((policy, priority)) = set.policy {
        let flag = match policy {
            Policy::Fifo => "-f",
            Policy::RoundRobin => "-r",
            Policy::Batch => "-b",
            Policy::Idle => "-i",
            _ => "-o",
        };
        line.extend(["chrt".into(), flag.into(), priority.to_string()]);
    }
    if set.nice != 0 {
        line.extend(["nice".into(), "-n".into(), set.nice.to_string()]);
    }
    line.extend_from_slice(&words[next..]);
    line
}

fn each(
    words: &[String],
    mut take: impl FnMut(&Prefix, &Words) -> Result<(), CommandError>,
) -> Result<usize, CommandError> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let name = word.rsplit('/').next().unwrap_or(word);
        if let Some(next) = behind_what_sets_nothing(name, words, at) {
            if next == words.len() {
                return Err(CommandError::new(name, at + 1, NEEDS_PROGRAM));
            }
            at = next;
            continue;
        }
        let Some(prefix) = PREFIXES.iter().find(|prefix| prefix.tool.name == name) else {
            break;
        };
        let operands = usize::from(prefix.operand);
        let spelled = (name == "nice").then(|| with_flag_of_nice(words, at + 1));
        let words_of_it = spelled.as_deref().unwrap_or(words);
        let (read, next) = prefix.tool.parse_leading(words_of_it, at + 1, operands)?;
        if next == words.len() {
            return Err(CommandError::new(name, at + 1, NEEDS_PROGRAM));
        }
        if name == unit::NAME && at > 0 && !read.has("scope") {
            let message = "starts a service, which inherits nothing from the prefixes before it; \
                           put them behind it, or give `--scope`";
            return Err(CommandError::new(name, at + 1, message));
        }
        take(prefix, &read)?;
        at = next;
    }
    Ok(at)
}

/// Where the command begins that `env` or `perf stat` starts: variables and counters mean nothing
/// to the scheduler. `None` for other words, and for flags that could mean something.
fn behind_what_sets_nothing(name: &str, words: &[String], at: usize) -> Option<usize> {
    let mut next = at + 1;
    let word = |row: usize| words.get(row).map(String::as_str);
    match name {
        "env" => {
            while word(next)
                .is_some_and(|word| word == "-i" || (!word.starts_with('-') && word.contains('=')))
            {
                next += 1;
            }
        }
        "perf" if word(next) == Some("stat") => {
            next += 1;
            loop {
                next += match word(next) {
                    Some("-d" | "-dd" | "-ddd" | "-v" | "-B") => 1,
                    Some("-e" | "--event" | "-o" | "--output") => 2,
                    Some(word) if word.starts_with("--event=") => 1,
                    Some("--") => {
                        next += 1;
                        break;
                    }
                    _ => break,
                };
            }
        }
        _ => return None,
    }
    match word(next) {
        Some(word) if word.starts_with('-') => None,
        _ => Some(next.min(words.len())),
    }
}

/// The words of `nice -5` and `nice --5` as those of `nice -n5` and `nice -n-5`.
fn with_flag_of_nice(words: &[String], at: usize) -> Vec<String> {
    let mut words = words.to_vec();
    if let Some(word) = words.get_mut(at)
        && let Some(number) = word.strip_prefix('-')
        && let digits = number.strip_prefix('-').unwrap_or(number)
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
    {
        *word = format!("-n{number}");
    }
    words
}

/// The word between the flags and the started command, called `name` in messages.
fn operand(words: &Words, name: &str) -> Given {
    words.operand_named(0, name)
}

fn taskset(words: &Words, prefixes: &mut Prefixes, machine: &Machine) -> Result<(), CommandError> {
    let cpus = machine.cpus;
    let operand = operand(words, "CPUS");
    let set = if words.has("cpu-list") {
        operand.cpu_list(cpus)?
    } else {
        let digits = operand.text().trim_start_matches("0x");
        let what = format!(
            "a hexadecimal mask of the CPUs 0 to {}",
            cpus.saturating_sub(1)
        );
        let mask = u128::from_str_radix(digits, 16).map_err(|_| operand.expected(&what))?;
        let within = cpus >= 128 || mask >> cpus == 0;
        if mask == 0 || !within {
            return Err(operand.expected(&what));
        }
        let chosen = (0..128u32).filter(|cpu| mask >> cpu & 1 == 1);
        chosen.map(Cpu).collect()
    };
    prefixes.affinity = Some(set);
    Ok(())
}

fn numactl(words: &Words, prefixes: &mut Prefixes, machine: &Machine) -> Result<(), CommandError> {
    let (cpus, nodes) = (words.last("physcpubind"), words.last("cpunodebind"));
    if let (Some(_), Some(nodes)) = (cpus, nodes) {
        return Err(nodes.error("give either CPUs (`-C`) or nodes (`-N`)"));
    }
    if let Some(list) = cpus {
        prefixes.affinity = Some(list.cpu_list(machine.cpus)?);
    }
    if let Some(given) = nodes.filter(|given| given.text() != "all") {
        let node_of = |cpu: usize| machine.nodes.get(cpu).copied().unwrap_or(0);
        let count = 1 + (0..machine.cpus).map(node_of).max().unwrap_or(0) as usize;
        let what = format!("nodes of 0 to {} such as `0,1`, or `all`", count - 1);
        let chosen = cpus_of(given.text(), count).ok_or_else(|| given.expected(&what))?;
        let within = (0..machine.cpus).filter(|&cpu| chosen.contains(Cpu(node_of(cpu))));
        let set: CpuSet = within.map(Cpu::from).collect();
        if set.is_empty() {
            return Err(given.expected(&what));
        }
        prefixes.affinity = Some(set);
    }
    Ok(())
}

fn chrt(words: &Words, prefixes: &mut Prefixes, _: &Machine) -> Result<(), CommandError> {
    let mut given = words.given.iter().rev();
    let policy = given.find_map(|given| policy_of(&given.flag.key()));
    let policy = policy.unwrap_or(Policy::RoundRobin);
    let range = if policy.is_rt() { 1..=99 } else { 0..=0 };
    let priority = operand(words, "PRIORITY").whole(range)?;
    prefixes.policy = Some((policy, priority as u8));
    Ok(())
}

fn nice(words: &Words, prefixes: &mut Prefixes, _: &Machine) -> Result<(), CommandError> {
    let added = match words.last("adjustment") {
        None => 10,
        Some(given) => {
            let digits = given.text().trim_start_matches('-');
            let size = whole(digits, &(0..=20)).map_err(|_| given.expected("-20 to 19"))?;
            let negative = digits.len() < given.text().len();
            if negative {
                -(size as i32)
            } else {
                size as i32
            }
        }
    };
    prefixes.nice = (prefixes.nice + added).clamp(-20, 19);
    Ok(())
}

fn uclampset(
    words: &Words,
    prefixes: &mut Prefixes,
    machine: &Machine,
) -> Result<(), CommandError> {
    let clamp = |flag: &str| {
        let given = words.last(flag);
        given
            .map(|given| given.whole(0..=u64::from(LARGEST)))
            .transpose()
    };
    let (min, max) = (clamp("uclamp-min")?, clamp("uclamp-max")?);
    if !machine.has_clamps {
        let message =
            "needs a kernel that is built with utilisation clamps: `uclamp = true` in [kernel]";
        return Err(words.error(message));
    }
    let earlier = prefixes.clamps;
    prefixes.clamps = Clamps::new(
        min.map(|min| min as u32).or(earlier.min),
        max.map(|max| max as u32).or(earlier.max),
    );
    let Clamps { min, max } = prefixes.clamps;
    let is_rt = prefixes.policy.is_some_and(|(policy, _)| policy.is_rt());
    let least = min.unwrap_or(if is_rt { LARGEST } else { 0 });
    if least > max.unwrap_or(LARGEST) {
        return Err(words.error("sets a least utilisation above the most (EINVAL)"));
    }
    Ok(())
}

fn timeout(words: &Words, prefixes: &mut Prefixes, _: &Machine) -> Result<(), CommandError> {
    let length_ns = fraction_ns(&operand(words, "DURATION"))?;
    // A duration of 0 switches the timeout off.
    if length_ns > 0 {
        let earlier = prefixes.timeout_ns.unwrap_or(length_ns);
        prefixes.timeout_ns = Some(earlier.min(length_ns));
    }
    Ok(())
}

/// A time of `timeout`, which may have a fraction: `2.5`, `0.5m`.
fn fraction_ns(given: &Given) -> Result<u64, CommandError> {
    let text = given.text();
    let Some((whole, rest)) = text.split_once('.') else {
        return given.duration_ns(1_000_000_000);
    };
    let digits = rest.trim_end_matches(['s', 'm', 'h', 'd']);
    let unit_s = match &rest[digits.len()..] {
        "" | "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86_400.0),
        _ => None,
    };
    let plain = [whole, digits]
        .iter()
        .all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    let number = format!("0{whole}.{digits}0").parse::<f64>().ok();
    match (unit_s, number) {
        (Some(unit_s), Some(number)) if plain && number * unit_s < 3e7 => {
            Ok((number * unit_s * 1e9).round() as u64)
        }
        _ => Err(given.expected("a time such as `20`, `2.5s`, `5m` or `1h`, of a year at most")),
    }
}

/// Names of the prefixes, for a hint when the first word of a command is unknown.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PREFIXES.iter().map(|prefix| prefix.tool.name)
}

#[cfg(test)]
#[path = "prefix_tests.rs"]
mod tests;
