//! The fair class: CFS up to 6.5, EEVDF from 6.6.
//!
//! | room | rules |
//! |---|---|
//! | `account` | `update_curr`: charging time run, end of a request |
//! | `queue` | enqueue and dequeue along the hierarchy |
//! | `delayed` | entities that stay queued until their debt is worked off |
//! | `place` | where an entity enters a queue |
//! | `cfs`, `eevdf` | the two orders |
//! | `pick` | `pick_task_fair`, put and set along the hierarchy, tick |
//! | `preempt` | wakeup preemption |
//! | `attach` | joining and leaving the class or a group |
//! | `load`, `group_weight` | PELT averages, shares |
//! | `standing` | vruntime, lag and utilisation of a task, for those who watch |
//! | `util_est` | estimates of utilisation at wakeup |

pub(crate) mod account;
pub(crate) mod attach;
pub(crate) mod cfs;
mod delayed;
pub(crate) mod eevdf;
pub(crate) mod group_weight;
pub(crate) mod leaf;
pub(crate) mod load;
pub(crate) mod pick;
pub(crate) mod place;
pub(crate) mod preempt;
pub(crate) mod queue;
pub mod standing;
pub(crate) mod util_est;

/// Why and how a task is put on a run queue (`ENQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EnqueueFlags {
    /// It slept (or its group was throttled).
    pub wakeup: bool,
    /// It slept and wakes on another CPU.
    pub migrated: bool,
    /// It is still queued, only delayed.
    pub delayed: bool,
    /// It is new.
    pub initial: bool,
    /// It comes back from a change of its attributes (`ENQUEUE_RESTORE`).
    pub restore: bool,
    /// The change moves it within its class's order (`ENQUEUE_MOVE`).
    pub moved: bool,
    /// It goes before tasks of its priority (`ENQUEUE_HEAD`).
    pub head: bool,
}

/// Why and how a task leaves a run queue (`DEQUEUE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DequeueFlags {
    /// It goes to sleep.
    pub sleep: bool,
    /// It is delayed and is now really taken off.
    pub delayed: bool,
    /// It sleeps in a state that must not be delayed.
    pub special: bool,
    /// It is parked because its group is throttled (6.18).
    pub throttle: bool,
    /// Its attributes change, it comes back at once (`DEQUEUE_SAVE`).
    pub save: bool,
    /// The change moves it within its class's order (`DEQUEUE_MOVE`).
    pub moved: bool,
}
