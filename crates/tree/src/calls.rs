//! Calls that CPUs are made to execute, and messages of the scheduler meanwhile: the words of
//! `host.h`.

use schedcast_kernel::platform::Op;
use std::ffi::{c_int, c_ulong};

/// Where a CPU sits; equal numbers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Place {
    /// Core.
    pub core: c_int,
    /// Cluster of cores.
    pub cluster: c_int,
    /// Last level cache.
    pub llc: c_int,
    /// Package.
    pub package: c_int,
    /// Memory node, counted from 0.
    pub node: c_int,
}

/// A state of a performance domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PerfState {
    /// Its domain.
    pub domain: c_int,
    /// Frequency.
    pub khz: c_ulong,
    /// Power of an executing CPU.
    pub uw: c_ulong,
}

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// One for each CPU.
    pub places: Vec<Place>,
    /// One for each CPU, 1024 = the fastest.
    pub capacities: Vec<c_ulong>,
    /// Distances between nodes, row by row; 10 = local.
    pub distances: Vec<c_int>,
    /// Nodes farther apart take no fork, exec or affine wakeups.
    pub reclaim_distance: c_int,
    /// Priority of each CPU for the platform; empty = none is preferred.
    pub priorities: Vec<c_int>,
    /// Performance domain of each CPU; empty = there is no energy model.
    pub perf_domains: Vec<c_int>,
    /// States of the domains, by domain, then slow to fast.
    pub perf_states: Vec<PerfState>,
    /// Bits of the CPUs that are out of balancing.
    pub isolated: c_ulong,
    /// Seed of random numbers.
    pub seed: u64,
}

/// Bytes of the name of a task (`TASK_COMM_LEN`).
pub(crate) const COMM: usize = 16;

/// The first bytes of a name as a `comm`.
pub(crate) fn comm(name: &str) -> [u8; COMM] {
    let mut comm = [0; COMM];
    let length = name.len().min(COMM - 1);
    comm[..length].copy_from_slice(&name.as_bytes()[..length]);
    comm
}

/// A task to be made.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct NewTask {
    /// Group.
    pub group: c_int,
    /// 1 = a kernel thread.
    pub kthread: c_int,
    /// Number of the policy (`SCHED_NORMAL` is 0).
    pub policy: c_int,
    /// Nice value.
    pub nice: c_int,
    /// Real-time priority.
    pub priority: c_int,
    /// Slice asked for, 0 = none.
    pub slice_ns: u64,
    /// CPUs that it may run on.
    pub cpus: c_ulong,
    /// CPU that it is made on.
    pub cpu: c_int,
    /// When.
    pub now: u64,
    /// Task whose habit of waking others it takes over; −1 = none.
    pub parent: c_int,
    /// 1 = it has slept since long ago, and is never started.
    pub asleep: c_int,
    /// Process whose thread it is, if it is no kernel thread.
    pub process: u32,
    /// Least utilisation that it asks for; −1 = none.
    pub util_min: c_int,
    /// Most utilisation that it asks for; −1 = none.
    pub util_max: c_int,
    /// Its `comm`, with a 0 at the end.
    pub name: [u8; COMM],
}

/// Call that a CPU is made to execute (`enum sc_call`), with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Call {
    /// Only the way out.
    Nothing,
    /// An interrupt begins whose handlers follow.
    IrqEnter,
    /// The tick's interrupt.
    Tick,
    /// The clock event device's interrupt.
    Timer,
    /// The interrupt that asks for a reschedule.
    Resched,
    /// The interrupt for functions called by other CPUs.
    Function,
    /// The interrupt for work that could not be done where it was found.
    IrqWork,
    /// A device's interrupt, which wakes a task: task, 1 = in sync.
    IrqWake,
    /// The current task wakes another: task, 1 = in sync.
    Wake,
    /// It sleeps.
    Block,
    /// It yields.
    Yield,
    /// It ends.
    Exit,
    /// It executes another program.
    Exec,
    /// It reads its own CPU time, which is the result.
    CpuTime,
    /// It starts a task that was made: task.
    Start,
    /// Nice value: task, value.
    Nice,
    /// Policy: task, policy, nice, priority, slice or runtime, deadline, period, 1 = reclaims; 0 or
    /// an error.
    Policy,
    /// CPUs: task, bits.
    Affinity,
    /// Another group: task, group.
    Move,
    /// A new group: parent.
    GroupNew,
    /// A group without tasks and groups leaves its parent: group.
    GroupRelease,
    /// A released group goes, after a grace period: group.
    GroupFree,
    /// Weight: group, shares.
    GroupWeight,
    /// `cpu.idle`: group, 1 = on.
    GroupIdle,
    /// Limit: group, period, quota (−1 = none), burst, in ns.
    GroupLimit,
    /// First expiry of the period timer: group, time.
    GroupPhase,
    /// Clamps of utilisation: task, least and most; −1 = without a wish, −2 = as it is. 0 or an
    /// error.
    Clamps,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`: group, least and most.
    GroupClamps,
}

/// Event that the scheduler schedules for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An interrupt for a CPU: [`Call::Resched`], [`Call::Function`] or [`Call::IrqWork`].
    Interrupt(usize, Call),
    /// The tick of a CPU was stopped or is back.
    Tick(usize, bool),
    /// A CPU changed from one task to another, and how it left the first.
    Switch(usize, c_int, c_int, Left),
    /// A task was put on the queue of a CPU.
    Woken(c_int, usize),
    /// A task changed from one CPU to another.
    Migrated(c_int, usize, usize),
    /// A CPU was chosen for a task that wakes or starts: the previous one, and that.
    Placed(c_int, usize, usize),
    /// A group's queue on a CPU is throttled, or no longer.
    Throttled(c_int, usize, bool),
}

/// In which state a CPU leaves a task (`enum sc_left`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It could go on.
    Runnable,
    /// It sleeps.
    Asleep,
    /// It has ended.
    Dead,
    /// Its group has no runtime left.
    Throttled,
}

/// Message or question of the scheduler while it executes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Event that it schedules.
    Event(Event),
    /// When the clock event device of a CPU is to fire; [`u64::MAX`] = never. `true`: for the timer
    /// of a slice.
    Timer(usize, u64, bool),
    /// It asks for a number drawn by chance.
    Random(Chance),
    /// It does something that takes time, so often.
    Spend(Op, u32),
    /// Something happens to the lock of the queue of a CPU, or is asked about a task there.
    Lock(Lock, usize, c_int),
}

/// Operation on the lock of a queue (`enum sc_lock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// It is taken, when it is free.
    Take,
    /// It is given up.
    GiveUp,
    /// It is taken again; no CPU is waited for.
    Retake,
    /// Whether the CPU is still switching away from the task: 1 or 0.
    IsLeaving,
    /// The CPU that executes waits until it has.
    Await,
}

/// Purpose of a random number (`enum sc_random`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chance {
    /// First expiry of a period timer, below the period.
    Period,
    /// Whether a CPU that falls idle balances.
    Dice,
    /// Anything else.
    Other,
}

/// Listener of a call. Its answer is the number that was asked for, else the time when the CPU goes
/// on, 0 = at once.
pub(crate) type Hear<'a> = dyn FnMut(Told) -> u64 + 'a;
