//! One balance pass: who pulls, from where, how much (`struct lb_env`).

use crate::cpuset::CpuSet;
use crate::ids::Cpu;
use crate::model::Mark;

/// Why a CPU balances (`enum cpu_idle_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum CpuIdle {
    /// It is busy.
    #[default]
    NotIdle,
    /// It is idle.
    Idle,
    /// It is about to go idle.
    NewlyIdle,
}

/// Quantity to even out, and so the unit of the imbalance (`enum migration_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Migration {
    /// Load.
    #[default]
    Load,
    /// Utilisation.
    Util,
    /// Number of tasks.
    Task,
    /// A task that is too large for its CPU (5.5).
    Misfit,
    /// A task that prefers the cache of the destination (7.2).
    LlcTask,
}

impl Migration {
    /// The rule that chose it.
    pub(crate) const fn mark(self) -> Mark {
        match self {
            Migration::Load => Mark::MoveLoad,
            Migration::Util => Mark::MoveUtil,
            Migration::Task => Mark::MoveTasks,
            Migration::Misfit => Mark::MoveMisfit,
            Migration::LlcTask => Mark::MoveToLlc,
        }
    }
}

/// State of one pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env {
    /// Domain being balanced.
    pub(crate) domain: u32,
    /// CPU that gets tasks.
    pub(crate) dst: Cpu,
    /// CPU that loses tasks.
    pub(crate) src: Cpu,
    /// Occasion of the pass.
    pub(crate) idle: CpuIdle,
    /// CPUs taken into account.
    pub(crate) cpus: CpuSet,
    /// CPUs of the local group that may get tasks instead.
    pub(crate) dst_group: CpuSet,
    /// How much is to be moved.
    pub(crate) imbalance: i64,
    /// In which unit.
    pub(crate) migration: Migration,
    /// Tasks looked at.
    pub(crate) looked: u32,
    /// Tasks to look at before a pause.
    pub(crate) pause: u32,
    /// Most tasks to look at.
    pub(crate) limit: u32,
    /// Every task seen was pinned (LBF_ALL_PINNED).
    pub(crate) all_pinned: bool,
    /// A task was pinned (LBF_SOME_PINNED).
    pub(crate) some_pinned: bool,
    /// A pinned task could go to this CPU of the local group (LBF_DST_PINNED).
    pub(crate) other_dst: Option<Cpu>,
    /// The pass paused (LBF_NEED_BREAK).
    pub(crate) paused: bool,
    /// Active balance (LBF_ACTIVE_LB).
    pub(crate) active: bool,
    /// The same, for a task that prefers the destination's cache (LBF_ACTIVE_LB_LLC).
    pub(crate) active_llc: bool,
    /// A task stayed for the sake of its cache (LBF_LLC_PINNED).
    pub(crate) llc_pinned: bool,
    /// Blocked load of idle CPUs is updated on the way (4.17–5.11), and some is left.
    pub(crate) nohz_stats: bool,
    pub(crate) nohz_again: bool,
}

/// Tasks moved between two pauses (`SCHED_NR_MIGRATE_BREAK`).
pub(crate) const MIGRATE_PAUSE: u32 = 32;

impl Env {
    /// A pass for `dst` over a domain with this span.
    pub(crate) fn new(
        domain: u32,
        dst: Cpu,
        idle: CpuIdle,
        cpus: CpuSet,
        dst_group: CpuSet,
    ) -> Self {
        Self {
            domain,
            dst,
            src: dst,
            idle,
            cpus,
            dst_group,
            pause: MIGRATE_PAUSE,
            ..Self::default()
        }
    }
}
