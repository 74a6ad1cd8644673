//! Commands that start another command: `taskset`, `chrt`, `nice`, `numactl` and `timeout`.
//!
//! Each changes one attribute of the process it starts, and all children inherit it. Several may
//! stand in a row, as in a shell.
//!
//! Worked example: `taskset -c 2,3 chrt -f 10 timeout 5 cyclictest -t 2` starts `cyclictest` on CPUs
//! 2 and 3 as SCHED_FIFO with priority 10, and ends it after 5 seconds. The words of the started
//! program are numbered as typed, so its `-t` is word 9 of an error message.

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;

use super::command::{CommandError, Effect, Flag, Given, Tool, Words, whole};
use super::start::Start;

/// What the prefixes of a command line set, and where the program itself begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// CPUs that the program may use; `None` = all.
    pub affinity: Option<CpuSet>,
    /// Policy and real-time priority; `None` = as the shell has it.
    pub policy: Option<(Policy, u8)>,
    /// Nice value; nested `nice` commands add up.
    pub nice: i32,
    /// Time from its start after which `timeout` ends the program.
    pub timeout_ns: Option<u64>,
    /// Number of words that the prefixes take.
    pub words: usize,
}

impl Prefixes {
    /// How the program is started, given how its prefixes are started.
    ///
    /// # Errors
    /// A policy or nice value for `rt-app`, whose threads take theirs from its file.
    pub(super) fn started(&self, shell: &Start, tool: &Tool) -> Result<Start, CommandError> {
        if tool.name == "rt-app" && (self.policy.is_some() || self.nice != 0) {
            let message =
                "sets policy and nice value of its threads by its file, not by `chrt` or `nice`";
            return Err(CommandError::new(tool.name, self.words + 1, message));
        }
        let mut start = shell.clone();
        start.affinity = self.affinity.or(start.affinity);
        start.policy = self.policy.unwrap_or(start.policy);
        start.nice = (start.nice + self.nice).clamp(-20, 19);
        Ok(start)
    }
}

/// A command that starts another one.
struct Prefix {
    tool: Tool,
    /// Whether a word stands between the flags and the started command.
    operand: bool,
    apply: fn(&Words, &mut Prefixes, usize) -> Result<(), CommandError>,
}

const NEEDS_PROGRAM: &str = "needs a program behind it, such as `hackbench -g 2`";
const PID: Effect = Effect::Refused("it changes a process that exists already");
const MEMORY: Effect = Effect::Nothing("the distance of memory has no cost in the model");

const fn policy_flag(short: char, long: &'static str, help: &'static str) -> Flag {
    Flag::new(short, long, "").switch().says(help)
}

const fn tool(words: &'static [&'static str], about: &'static str, flags: &'static [Flag]) -> Tool {
    Tool {
        words,
        name: words[0],
        about,
        operands: "COMMAND",
        flags,
        compile: |words, _| Err(words.error(NEEDS_PROGRAM)),
    }
}

static PREFIXES: [Prefix; 5] = [
    Prefix {
        tool: tool(
            &["taskset"],
            "CPUs the program may use: a mask, or a list behind `-c`",
            &[
                Flag::new('c', "cpu-list", "")
                    .switch()
                    .says("the CPUs are a list such as `0-3,8`"),
                Flag::new('p', "pid", "").switch().effect(PID),
                Flag::new('a', "all-tasks", "").switch().effect(PID),
            ],
        ),
        operand: true,
        apply: taskset,
    },
    Prefix {
        tool: tool(
            &["chrt"],
            "policy and priority; SCHED_RR without a flag",
            &[
                policy_flag('f', "fifo", "SCHED_FIFO"),
                policy_flag('r', "rr", "SCHED_RR"),
                policy_flag('o', "other", "SCHED_OTHER"),
                policy_flag('b', "batch", "SCHED_BATCH"),
                policy_flag('i', "idle", "SCHED_IDLE"),
                Flag::new('d', "deadline", "")
                    .switch()
                    .effect(Effect::Refused("SCHED_DEADLINE is not modelled")),
                Flag::new('R', "reset-on-fork", "")
                    .switch()
                    .effect(Effect::Refused("children inherit the policy in the model")),
                Flag::new('p', "pid", "").switch().effect(PID),
                Flag::new('a', "all-tasks", "").switch().effect(PID),
                Flag::new('v', "verbose", "")
                    .switch()
                    .effect(Effect::Output),
            ],
        ),
        operand: true,
        apply: chrt,
    },
    Prefix {
        tool: tool(
            &["nice"],
            "nice value, 10 without a flag",
            &[Flag::new('n', "adjustment", "N").says("added to the nice value, -20 to 19")],
        ),
        operand: false,
        apply: nice,
    },
    Prefix {
        tool: tool(
            &["numactl"],
            "CPUs the program may use",
            &[
                Flag::new('C', "physcpubind", "CPUS").says("the CPUs, a list such as `0-3,8`"),
                Flag::new('N', "cpunodebind", "NODES").effect(Effect::Refused(
                    "nodes are numbered by the machine; give the CPUs with `-C`",
                )),
                Flag::new('m', "membind", "NODES").effect(MEMORY),
                Flag::new('i', "interleave", "NODES").effect(MEMORY),
                Flag::new('l', "localalloc", "").switch().effect(MEMORY),
            ],
        ),
        operand: false,
        apply: numactl,
    },
    Prefix {
        tool: tool(
            &["timeout"],
            "ends the program after a time",
            &[
                Flag::new('s', "signal", "SIGNAL")
                    .effect(Effect::Nothing("every signal ends the program at once")),
                Flag::new('k', "kill-after", "TIME")
                    .effect(Effect::Nothing("the first signal ends the program already")),
                Flag::long("preserve-status", "")
                    .switch()
                    .effect(Effect::Output),
                Flag::long("foreground", "").switch().effect(Effect::Output),
            ],
        ),
        operand: true,
        apply: timeout,
    },
];

/// The prefixes that are understood, one line each, for `schedcast list programs`.
pub fn list() -> String {
    let line = |prefix: &Prefix| format!("{:<24}{}\n", prefix.tool.name, prefix.tool.about);
    PREFIXES.iter().map(line).collect()
}

/// Splits a command line into the number of words its prefixes take and the program behind them.
///
/// # Errors
/// Flags and operands that a prefix does not have, and commands such as `systemd-run` whose work
/// other flags of schedcast do, with what to type instead.
pub(super) fn skip(words: &[String]) -> Result<usize, CommandError> {
    each(words, |_, _| Ok(()))
}

/// Reads the prefixes of a command line for a machine of `cpus` CPUs.
///
/// # Errors
/// As [`skip`], and values outside their range.
pub fn read(words: &[String], cpus: usize) -> Result<Prefixes, CommandError> {
    let mut prefixes = Prefixes::default();
    prefixes.words = each(words, |prefix, words| {
        (prefix.apply)(words, &mut prefixes, cpus)
    })?;
    Ok(prefixes)
}

fn each(
    words: &[String],
    mut take: impl FnMut(&Prefix, &Words) -> Result<(), CommandError>,
) -> Result<usize, CommandError> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let name = word.rsplit('/').next().unwrap_or(word);
        if name == "systemd-run" {
            return Err(systemd_run(words, at));
        }
        let Some(prefix) = PREFIXES.iter().find(|prefix| prefix.tool.name == name) else {
            break;
        };
        let operands = usize::from(prefix.operand);
        let (read, next) = prefix.tool.parse_leading(words, at + 1, operands)?;
        if next == words.len() {
            return Err(CommandError::new(name, at + 1, NEEDS_PROGRAM));
        }
        take(prefix, &read)?;
        at = next;
    }
    Ok(at)
}

/// The word between the flags and the started command, called `name` in messages.
fn operand(words: &Words, name: &str) -> Given {
    words.operand_named(0, name)
}

fn taskset(words: &Words, prefixes: &mut Prefixes, cpus: usize) -> Result<(), CommandError> {
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

fn numactl(words: &Words, prefixes: &mut Prefixes, cpus: usize) -> Result<(), CommandError> {
    if let Some(list) = words.last("physcpubind") {
        prefixes.affinity = Some(list.cpu_list(cpus)?);
    }
    Ok(())
}

fn chrt(words: &Words, prefixes: &mut Prefixes, _: usize) -> Result<(), CommandError> {
    let policies = [
        ("fifo", Policy::Fifo),
        ("rr", Policy::RoundRobin),
        ("other", Policy::Normal),
        ("batch", Policy::Batch),
        ("idle", Policy::Idle),
    ];
    let given = policies.iter().rfind(|(key, _)| words.has(key));
    let policy = given.map_or(Policy::RoundRobin, |(_, policy)| *policy);
    let range = if policy.is_rt() { 1..=99 } else { 0..=0 };
    let priority = operand(words, "PRIORITY").whole(range)?;
    prefixes.policy = Some((policy, priority as u8));
    Ok(())
}

fn nice(words: &Words, prefixes: &mut Prefixes, _: usize) -> Result<(), CommandError> {
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

fn timeout(words: &Words, prefixes: &mut Prefixes, _: usize) -> Result<(), CommandError> {
    let length_ns = operand(words, "DURATION").duration_ns(1_000_000_000)?;
    // A duration of 0 switches the timeout off.
    if length_ns > 0 {
        let earlier = prefixes.timeout_ns.unwrap_or(length_ns);
        prefixes.timeout_ns = Some(earlier.min(length_ns));
    }
    Ok(())
}

/// `systemd-run` starts its command in a group of its own, which schedcast has flags for.
fn systemd_run(words: &[String], at: usize) -> CommandError {
    let property = |key: &str| {
        let found = words.iter().find_map(|word| word.split_once(key));
        found.map(|(_, value)| value.trim_end_matches('%').to_owned())
    };
    let max = match property("CPUQuota=").and_then(|percent| percent.parse::<u64>().ok()) {
        Some(percent) => format!("{} 100000", percent * 1000),
        None => "50000 100000".to_owned(),
    };
    let message = format!(
        "gives its command a group of its own; say so by --cgroup /unit --set 'cpu.max={max}' \
         and leave `systemd-run` out"
    );
    CommandError::new("systemd-run", at + 1, message)
}

/// Names of the prefixes, for a hint when the first word of a command is unknown.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PREFIXES.iter().map(|prefix| prefix.tool.name)
}

#[cfg(test)]
#[path = "prefix_tests.rs"]
mod tests;
