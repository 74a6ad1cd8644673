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
//! | `flat` | enqueue, dequeue, pick and tick with one order for a CPU (7.3) |
//! | `preempt`, `flat_preempt` | wakeup preemption |
//! | `attach` | joining and leaving the class or a group |
//! | `load`, `group_weight` | PELT averages, shares |
//! | `slice_tree` | requests as the kernel's tree of a queue knows them (6.12 to 7.2.6) |
//! | `standing` | vruntime, lag and utilisation of a task, for those who watch |
//! | `util_est` | estimates of utilisation at wakeup |

pub(crate) mod account;
pub(crate) mod attach;
pub(crate) mod cfs;
mod delayed;
pub(crate) mod eevdf;
mod flat;
mod flat_preempt;
pub(crate) mod group_weight;
pub(crate) mod leaf;
pub(crate) mod load;
pub(crate) mod pick;
pub(crate) mod place;
pub(crate) mod preempt;
pub(crate) mod queue;
pub(crate) mod slice_tree;
pub mod standing;
pub(crate) mod util_est;

/// A set of flags, asked for one by one or several at once. `KIND` keeps those of two operations
/// apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags<const KIND: u8>(u8);

impl<const KIND: u8> Flags<KIND> {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Whether it has one of these.
    #[inline(always)]
    pub(crate) const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// The same with these, or without.
    #[inline(always)]
    pub(crate) const fn with(self, flags: Self, on: bool) -> Self {
        if on {
            Self(self.0 | flags.0)
        } else {
            Self(self.0 & !flags.0)
        }
    }
}

impl<const KIND: u8> std::ops::BitOr for Flags<KIND> {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Why and how a task is put on a run queue (`ENQUEUE_*`).
pub(crate) type EnqueueFlags = Flags<0>;

impl EnqueueFlags {
    /// It slept (or its group was throttled).
    pub const WAKEUP: Self = Self(1 << 0);
    /// It slept and wakes on another CPU.
    pub(crate) const MIGRATED: Self = Self(1 << 1);
    /// It is still queued, only delayed.
    pub(crate) const DELAYED: Self = Self(1 << 2);
    /// It is new.
    pub(crate) const INITIAL: Self = Self(1 << 3);
    /// It comes back from a change of its attributes.
    pub(crate) const RESTORE: Self = Self(1 << 4);
    /// The change moves it within its class's order.
    pub const MOVED: Self = Self(1 << 5);
    /// It goes before tasks of its priority.
    pub const HEAD: Self = Self(1 << 6);
}

/// Why and how a task leaves a run queue (`DEQUEUE_*`).
pub(crate) type DequeueFlags = Flags<1>;

impl DequeueFlags {
    /// It goes to sleep.
    pub const SLEEP: Self = Self(1 << 0);
    /// It is delayed and is now really taken off.
    pub(crate) const DELAYED: Self = Self(1 << 1);
    /// It sleeps in a state that must not be delayed.
    pub(crate) const SPECIAL: Self = Self(1 << 2);
    /// It is parked because its group is throttled (6.18).
    pub(crate) const THROTTLE: Self = Self(1 << 3);
    /// Its attributes change, it comes back at once.
    pub(crate) const SAVE: Self = Self(1 << 4);
    /// The change moves it within its class's order.
    pub const MOVED: Self = Self(1 << 5);
}
