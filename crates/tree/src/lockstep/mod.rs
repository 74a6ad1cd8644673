//! The rules in Rust and a tree's own C, fed with the same events and compared after each one.
//!
//! A *history* is a machine and a list of steps, drawn from a seed in the way of swarm testing:
//! each seed decides which kinds of steps and which machine it uses at all, so that rare
//! combinations come up. A step lets some time pass, in which timers and ticks of both sides fire,
//! and then does one thing: a fork, a wakeup, a new limit.
//!
//! Worked example: step 22 of a history forks a task on CPU 1 of four. Rust places it on CPU 2, the
//! C code on CPU 3: `cpu of task 5: 2, the tree has 3`. [`shrink`] then takes steps away as long as
//! the two still part, and what is left, often five steps, is printed as a test.

mod bench;
mod compare;
mod cpusets;
mod draw;
mod groups;
mod members;
mod pair;
mod shrink;

pub use compare::Difference;
pub use draw::{
    BIG_LITTLE, Kinds, PREFERRED, SHAPES, Shape, THREE_CLUSTERS, draw, draw_world, full_config,
};
pub use pair::Pair;
pub use shrink::shrink;

use crate::WorldError;
use schedcast_kernel::dl::Reservation;
use schedcast_kernel::ids::Ns;
use schedcast_kernel::uclamp::{Clamps, Wish};
use std::path::Path;

/// Kernel number of a policy and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// 0 = normal, 1 = FIFO, 2 = RR, 3 = batch, 5 = idle; 6 = deadline is an action of its own.
    pub policy: i32,
    /// Nice value.
    pub nice: i32,
    /// Real-time priority.
    pub priority: i32,
}

impl Class {
    /// The fair class at nice 0.
    pub const PLAIN: Class = Class {
        policy: 0,
        nice: 0,
        priority: 0,
    };
}

/// One thing that happens. Tasks and groups are numbered in the order in which they were made;
/// group 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing but time.
    Rest,
    /// A task is made and started from a CPU: group, class, slice (0 = none), CPUs it may run on.
    /// One in eight is a kernel thread.
    Fork(usize, Class, u64, u64),
    /// The current task of the CPU wakes another, in sync or not.
    Wake(usize, bool),
    /// A device of the CPU wakes a task.
    IrqWake(usize),
    /// The same in an interrupt that takes so long, or until a timer of any CPU is almost due.
    LongIrq(usize, Ns),
    /// The current task sleeps.
    Block,
    /// The current task yields.
    Yield,
    /// The current task ends.
    Exit,
    /// The current task executes another program.
    Exec,
    /// The current task reads its own CPU time.
    ReadTime,
    /// A fair task asks for requests of this length.
    Slice(usize, u64),
    /// A task gets another nice value.
    Nice(usize, i32),
    /// A task gets another policy.
    Policy(usize, Class),
    /// A task becomes a deadline task, or gets another reservation.
    Deadline(usize, Reservation),
    /// A task may run on these CPUs.
    Affinity(usize, u64),
    /// A task goes to another group.
    Move(usize, usize),
    /// A group is made below another.
    Group(usize),
    /// A group that has neither tasks nor groups below it leaves its parent.
    Release(usize),
    /// A grace period later it goes.
    Free(usize),
    /// A group's cpuset gets these CPUs, and its tasks and those below with it.
    Cpuset(usize, u64),
    /// A group gets other shares.
    Shares(usize, u64),
    /// A group becomes an idle one, or no longer is.
    Idle(usize, bool),
    /// A task asks for utilisation clamps.
    Clamps(usize, Clamps<Wish>),
    /// A group gets other utilisation clamps.
    GroupClamps(usize, Clamps<u32>),
    /// A hypervisor takes the CPU for so long from now on.
    Steal(Ns),
    /// A group gets another limit: period, quota (`None` = no limit), burst.
    Limit(usize, Ns, Option<Ns>, Ns),
}

/// An action, the CPU it happens on, and the time since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time that passes first.
    pub after_ns: Ns,
    /// Where.
    pub cpu: usize,
    /// Action of the step.
    pub action: Action,
}

/// A machine and what happens on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The machine.
    pub shape: Shape,
    /// Seed of random numbers.
    pub seed: u64,
    /// Processes that its tasks are threads of.
    pub processes: u32,
    /// Switches of `sched/features` that are not as by default, as far as the kernel has them.
    pub features: Vec<(&'static str, bool)>,
    /// In order.
    pub steps: Vec<Step>,
}

/// How far two sides were equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Steps that were done and equal in everything.
    pub equal: usize,
    /// The first step after which they were not, and in what.
    pub parted: Option<(usize, Vec<Difference>)>,
    /// Steps that were done until one decided differently from the other: who runs, where, who
    /// waits, what is throttled.
    pub agreed: usize,
    /// The first step after which they did, and all that differed then.
    pub decided: Option<(usize, Vec<Difference>)>,
    /// The history was given up where interrupts of one instant do not end, on both sides.
    pub endless: bool,
}

impl Outcome {
    /// Whether the sides were equal in everything to the end.
    pub fn is_equal_to_the_end(&self) -> bool {
        self.parted.is_none() && !self.endless
    }

    /// Whether they decided alike to the end.
    pub fn decides_alike_to_the_end(&self) -> bool {
        self.decided.is_none() && !self.endless
    }
}

/// Runs a history on both sides until they decide differently. Numbers that differ before that are
/// noted once.
///
/// # Errors
/// When the tree's scheduler stops.
pub fn run(object: &Path, version: &str, history: &History) -> Result<Outcome, WorldError> {
    let mut pair = Pair::boot(object, version, history)?;
    let mut outcome = Outcome {
        equal: 0,
        parted: None,
        agreed: 0,
        decided: None,
        endless: false,
    };
    for (row, step) in history.steps.iter().enumerate() {
        if !pair.step(step)? {
            continue;
        }
        if pair.endless == [true; 2] {
            outcome.endless = true;
            break;
        }
        let differences = pair.compare();
        if differences.iter().any(Difference::is_decision) {
            outcome.decided = Some((row, differences.clone()));
        } else {
            outcome.agreed += 1;
        }
        if differences.is_empty() && outcome.parted.is_none() {
            outcome.equal += 1;
        } else if outcome.parted.is_none() {
            outcome.parted = Some((row, differences));
        }
        if outcome.decided.is_some() {
            break;
        }
    }
    Ok(outcome)
}
