//! `go-server` and `java-server`: servers whose runtime chooses how many threads run, and collects
//! garbage.
//!
//! They are no tools one can install, but what Go and HotSpot make of a server, with its
//! numbers on the command line: requests a second, CPU time and allocation of a request, and what a
//! collection costs, as `GODEBUG=gctrace=1` and `-Xlog:gc` print it.
//!
//! Worked example: a request of `--alloc 1500` KB fills the 34 MB between two collections of a live
//! heap of 36 MB once in 23 requests; a collection of 14 ms then adds 0.6 ms to each.
//!
//! [`go`] and [`java`] have the threads and their rules.

mod go;
mod java;
mod load;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use schedcast_base::names::suggestion;
use schedcast_kernel::GroupId;
use schedcast_sim::program::{Amount, Arithmetic, Compare};
use schedcast_sim::workload::{DistributionId, GroupSpec, QueueId, WordId};
use schedcast_sim::{ProgramBuilder, Reg};

use super::command::{CommandError, Tool, Words as Line, whole};
use super::model::Model;
use super::postgres::queues;
use super::results::{MetricMap, Results};
use super::start::Compiler;
use load::{Load, MESSAGE_BYTES, Metrics};

pub(crate) use go::TOOL as GO;
pub(crate) use java::TOOL as JAVA;

const PROCESSORS_MAX: u64 = 1024;
const MEGABYTE: u64 = 1 << 20;
const KILOBYTE: u64 = 1 << 10;

/// Longest CPU time of a request between two looks at whether the runtime wants the thread to stop,
/// ns. Go sends a signal and HotSpot polls at every backward jump, which both takes microseconds.
const POLL_NS: u64 = 50_000;

/// Environment variables that each tool reads.
const VARIABLES: [(&str, &[&str]); 2] = [
    ("go-server", &["GOMAXPROCS", "GOGC"]),
    ("java-server", &["JAVA_TOOL_OPTIONS"]),
];

/// Refuses variables that a tool does not read.
pub(super) fn refuse_environment(
    tool: &Tool,
    environment: &BTreeMap<String, String>,
) -> Result<(), CommandError> {
    let own = VARIABLES.iter().find(|(name, _)| *name == tool.name);
    let known = own.map_or([].as_slice(), |(_, names)| names);
    for name in environment.keys() {
        if known.is_empty() {
            let message = format!("no environment variable changes it, and `{name}` is set");
            return Err(CommandError::new(tool.name, 1, message));
        }
        if !known.contains(&name.as_str()) {
            let hint = suggestion(name, known);
            let message = format!("unknown environment variable `{name}`; {hint}");
            return Err(CommandError::new(tool.name, 1, message));
        }
    }
    Ok(())
}

/// Number of a setting: a flag, or an environment variable, which may not both be there.
fn flag_or_variable(
    words: &Line,
    flag: &str,
    variable: (&str, Option<&str>),
    range: RangeInclusive<u64>,
    default: u64,
) -> Result<u64, CommandError> {
    let (name, value) = variable;
    let Some(text) = value else {
        return words.whole(flag, range, default);
    };
    if let Some(given) = words.last(flag) {
        return Err(given.error(format!("`{name}` of the environment says another number")));
    }
    whole(text, &range)
        .map_err(|what| words.error(format!("`{name}` needs {what}, found `{text}`")))
}

/// CPUs that the limits of a group and of those above it leave, in thousandths; `None` = unlimited.
fn limit_permille(group: GroupId, groups: &[GroupSpec]) -> Option<u64> {
    let mut lowest = None;
    let mut group = group;
    while group != GroupId::ROOT {
        let spec = &groups[group.index() - 1];
        if let Some(quota_ns) = spec.limit.quota_ns {
            let permille = quota_ns * 1000 / spec.limit.period_ns.max(1);
            lowest = Some(lowest.map_or(permille, |lowest: u64| lowest.min(permille)));
        }
        group = spec.parent;
    }
    lowest
}

/// CPUs that a process of this compiler may use, whatever its limits.
fn cpus(compiler: &Compiler) -> u64 {
    let start = compiler.start;
    let all = start.cpus as u64;
    let allowed = |set: schedcast_kernel::cpuset::CpuSet| set.iter().count() as u64;
    start
        .affinity
        .map_or(all, |set| allowed(set).min(all))
        .max(1)
}

/// The load of a server and its processors, of which the end of a run tells.
#[derive(Debug)]
struct Served {
    load: Load,
    processors: u64,
}

impl Model for Served {
    fn length_ns(&self) -> Option<u64> {
        Some(self.load.duration_ns)
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        self.load.metrics(results, map);
    }

    fn report(&self, results: &Results) -> String {
        self.load.report(results, self.processors)
    }
}

/// Adds the queue of requests that arrive, and their clients.
fn network(load: &Load, compiler: &mut Compiler) -> QueueId {
    // Queue 0 belongs to nobody, so that its number can mean something else.
    queues(compiler, 1);
    let network = queues(compiler, 1);
    load.add(compiler, network);
    network
}

/// State that the threads of both runtimes share, and prices of a request.
struct Shared {
    words: Words,
    metrics: Metrics,
    work: DistributionId,
    network: QueueId,
    receive_ns: u64,
    send_ns: u64,
    poll_ns: u64,
}

impl Shared {
    fn new(load: &Load, compiler: &mut Compiler, network: QueueId) -> Self {
        let prices = compiler.start.prices;
        Self {
            words: Words::new(compiler),
            metrics: Metrics::new(compiler),
            work: load.demand(compiler),
            network,
            receive_ns: prices.tcp_receive(MESSAGE_BYTES),
            send_ns: prices.tcp_send(MESSAGE_BYTES),
            poll_ns: prices.poll_ns,
        }
    }
}

/// Does a piece of the `rest` of a request, until the runtime may want the thread to stop.
fn work_piece(b: &mut ProgramBuilder, rest: Reg, piece: Reg) {
    b.set(piece, POLL_NS);
    b.arithmetic(Arithmetic::Min, piece, rest);
    b.work(piece);
    b.subtract(rest, piece);
}

/// Makes the time of a `piece` the bytes that it allocated, and adds them to `allocated`, which was
/// `before`.
fn allocate(b: &mut ProgramBuilder, load: &Load, allocated: WordId, piece: Reg, before: Reg) {
    b.arithmetic(Arithmetic::Multiply, piece, load.alloc_bytes);
    b.arithmetic(Arithmetic::Divide, piece, load.work_ns);
    b.word_fetch_add(allocated, piece, before);
}

/// Shared words of a runtime, with what threads do to them without a system call.
struct Words {
    /// Not 0 while the world is to stop.
    stopping: WordId,
    /// Threads that run code which must stop for that.
    busy: WordId,
    /// Requests that were answered.
    answered: WordId,
    /// Not 0 when threads shall end.
    ending: WordId,
}

impl Words {
    fn new(compiler: &mut Compiler) -> Self {
        let mut word = || compiler.workload.add_word(0);
        Self {
            stopping: word(),
            busy: word(),
            answered: word(),
            ending: word(),
        }
    }

    /// Counts a thread out, and wakes who waits for the last but `others`.
    fn leave(&self, b: &mut ProgramBuilder, r: &Scratch, others: u64) {
        let done = b.label();
        b.word_fetch_add(self.busy, r.minus_one, r.a);
        b.jump_if(r.a, Compare::NotEqual, others + 1, done);
        b.word_load(self.stopping, r.a);
        b.jump_if(r.a, Compare::Equal, 0, done);
        b.word_wake(self.busy, 1);
        b.bind(done);
    }

    /// Stops here while the world is stopped.
    fn poll(&self, b: &mut ProgramBuilder, r: &Scratch, others: u64) {
        let (top, go_on) = (b.here(), b.label());
        b.word_load(self.stopping, r.a);
        b.jump_if(r.a, Compare::Equal, 0, go_on);
        self.leave(b, r, others);
        b.word_wait(self.stopping, 1);
        b.word_fetch_add(self.busy, 1, r.a);
        b.jump(top);
        b.bind(go_on);
    }

    /// Waits until all threads but `others` have stopped.
    fn stop(&self, b: &mut ProgramBuilder, r: &Scratch, others: u64) {
        b.word_store(self.stopping, 1);
        let (top, stopped) = (b.here(), b.label());
        b.word_load(self.busy, r.a);
        b.jump_if(r.a, Compare::LessOrEqual, others, stopped);
        b.word_wait(self.busy, r.a);
        b.jump(top);
        b.bind(stopped);
    }

    /// Lets all go on.
    fn start(&self, b: &mut ProgramBuilder) {
        b.word_store(self.stopping, 0);
        b.word_wake(self.stopping, PROCESSORS_MAX);
    }
}

/// Registers for values that live for a moment, and -1.
struct Scratch {
    a: Reg,
    minus_one: Reg,
}

impl Scratch {
    /// Makes -1, which no operand can hold.
    fn set(&self, b: &mut ProgramBuilder) {
        b.set(self.minus_one, Amount::FIXED_MAX);
        b.arithmetic(Arithmetic::Multiply, self.minus_one, 4);
        b.add(self.minus_one, 3);
    }
}
