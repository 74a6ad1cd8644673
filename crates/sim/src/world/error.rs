//! Errors of a run.

use schedcast_base::limits::LimitError;
use schedcast_kernel::Ns;
use schedcast_kernel::dl::change::Refused;
use schedcast_kernel::uclamp;
use thiserror::Error;

/// Why a run cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RunError {
    /// A register that names an object holds no valid number.
    #[error(
        "task {task}, program {program}, instruction {instruction}: register {register} names \
         {kind} {number}, the workload has {count}"
    )]
    BadReference {
        /// Task.
        task: String,
        /// Program.
        program: String,
        /// Index of the instruction.
        instruction: usize,
        /// Register.
        register: u8,
        /// Kind of object.
        kind: &'static str,
        /// Number in the register.
        number: u64,
        /// How many there are.
        count: usize,
    },
    /// A program executes instructions without end and without time passing.
    #[error(
        "task {task}, program {program}, instruction {instruction}: {steps} instructions at \
         {time_ns} ns without time passing; is there a loop without work or sleep?"
    )]
    NoProgress {
        /// Task.
        task: String,
        /// Program.
        program: String,
        /// Index of the instruction.
        instruction: usize,
        /// Instructions executed at this time.
        steps: u64,
        /// Time.
        time_ns: Ns,
    },
    /// The kernel refuses what a task asks for itself.
    #[error("task {task} at {at_ns} ns: {error}")]
    Refused {
        /// Task.
        task: String,
        /// When.
        at_ns: Ns,
        /// The kernel's reason.
        error: Refused,
    },
    /// No CPU that a task asks for is in the cpuset of its group (`__sched_setaffinity`).
    #[error("task {task} at {at_ns} ns: none of its CPUs is in the cpuset of {group} (EINVAL)")]
    OutsideCpuset {
        /// Task.
        task: String,
        /// When.
        at_ns: Ns,
        /// Path of its group.
        group: String,
    },
    /// The kernel refuses the utilisation clamps that a task asks for itself.
    #[error("task {task} at {at_ns} ns: {error}")]
    ClampsRefused {
        /// Task.
        task: String,
        /// When.
        at_ns: Ns,
        /// The kernel's reason.
        error: uclamp::Refused,
    },
    /// A deadline task forks, which the kernel refuses (EAGAIN).
    #[error("task {task} at {at_ns} ns: a SCHED_DEADLINE task cannot fork (EAGAIN)")]
    DeadlineForks {
        /// Task.
        task: String,
        /// When.
        at_ns: Ns,
    },
    /// Failure of the scheduler, which cannot go on.
    #[error("{0}")]
    Kernel(String),
    /// The kernel refuses a timed change.
    #[error("change of group {path} at {at_ns} ns: {error}")]
    Change {
        /// Path of the group.
        path: String,
        /// When.
        at_ns: Ns,
        /// The kernel's reason.
        error: LimitError,
    },
}
