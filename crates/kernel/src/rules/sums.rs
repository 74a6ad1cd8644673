//! How the sums behind a queue's load averages change when something leaves the queue.
//!
//! Worked example: a queue with `util_avg` 300 and `util_sum` 14,330,000 loses a task with 100 and
//! 4,774,200. Up to 5.12 the sum becomes 9,555,800. From 5.13 on it becomes 200 · 47,742 =
//! 9,548,400 for a divider of 47,742. From 5.17 on it is 9,555,800 again, and no less than 200 ·
//! 46,718.

/// The change of a sum when a part of its average leaves a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) enum SumChange {
    /// The part is subtracted, though rounding made the average and its sum drift apart.
    Subtract,
    /// The sum becomes what the average stands for, which forgets what it had besides.
    Follow,
    /// The part is subtracted, but the sum stays at what the average stands for at least.
    Floor,
}

/// How the sums of a queue's averages follow what leaves it, case by case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct QueueSums {
    /// Load of an entity that is dequeued or gets another weight.
    pub(crate) dequeued_load: SumChange,
    /// Utilisation and runnable time of an entity that is detached.
    pub(crate) detached: SumChange,
    /// Load and runnable time of sleepers that left for another CPU.
    pub(crate) removed: SumChange,
    /// Utilisation of these.
    pub(crate) removed_util: SumChange,
    /// Load that a group's queue hands to the one above.
    pub(crate) group_load: SumChange,
    /// Utilisation and runnable time that it hands on.
    pub(crate) group: SumChange,
    /// The sum of runnable time that a group hands on has 32 bits (5.17 to 7.2): it wraps where
    /// some 90 tasks wait or more.
    pub(crate) group_runnable_wraps: bool,
    /// The floor is compared in 64 bits (7.0), before in 32, and after additions too.
    pub(crate) in_full: bool,
}

impl Default for QueueSums {
    /// Up to 5.12.
    fn default() -> Self {
        Self {
            dequeued_load: SumChange::Subtract,
            detached: SumChange::Subtract,
            removed: SumChange::Subtract,
            removed_util: SumChange::Subtract,
            group_load: SumChange::Subtract,
            group: SumChange::Follow,
            group_runnable_wraps: false,
            in_full: false,
        }
    }
}
