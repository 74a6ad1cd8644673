//! The kinds of behaviour that a rule can choose among.

/// Which algorithm the fair class uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FairClass {
    /// Up to 6.5: smallest vruntime first, buddies, sleeper credit.
    Cfs,
    /// From 6.6: earliest eligible virtual deadline first.
    Eevdf,
}

/// How a queued entity's virtual times change with its weight (EEVDF).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) enum Reweight {
    /// 6.6: vruntime kept, relative deadline scaled.
    KeepVruntime,
    /// 6.7–6.12, and 6.6.30 at the latest: lag and relative deadline scaled around V.
    ScaleLag,
    /// 6.13–6.18: lag scaled, then placed again.
    PlaceAgain,
    /// 6.18.45 and 7.1: as `ScaleLag`, and the relative deadline of who is off the queue is scaled,
    /// too (`rescale_entity`).
    Rescale,
}

/// When the average idle time of a CPU follows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) enum IdleAverage {
    /// Up to 6.19: at wakeups that end an idle period whose start was noted.
    Wakeups,
    /// 7.0 to 7.2.6: whenever the CPU leaves idle. Where no start was noted, because a wakeup was
    /// on its way before balancing, all time since boot counts as idle.
    EveryEnd,
    /// From 7.2.7 on: whenever the CPU leaves an idle period whose start was noted.
    EndsWithStart,
}

/// Budget of a fair server that starts before its deadline with more than fits until then
/// (`update_dl_entity`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) enum ServerOverflow {
    /// Up to 6.19: a new period.
    NewPeriod,
    /// 7.0 to 7.1.7: what fits, and it is queued at once.
    Revised,
    /// From 7.1.8 on: that if it ran in this period, a new period otherwise.
    RevisedIfRunning,
}

/// How long a picked entity is protected from preemption by `RUN_TO_PARITY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Protection {
    /// Up to 6.16: until its deadline changes.
    UntilDeadline,
    /// From 6.17: until `vprot`, bounded by the shortest queued slice.
    Vprot,
}

/// When the PELT clock of a CPU that runs out of work jumps to its task clock
/// (`update_idle_rq_clock_pelt`). On a CPU at full speed the two are one; on a slow one what the
/// class that ran last counts afterwards is counted as if the CPU were fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum IdlePeltSync {
    /// 5.4 on: with the fair class's pick, which is not asked like that when a real-time task ran
    /// last. Up to 5.0 every period was scaled as it was counted, which comes to the same.
    FairOnly,
    /// 5.1 to 5.3, and from 6.18: the task that ran last, and before that is put.
    BeforePut,
    /// 6.18.8 and other stable series: when the idle task is set, after that.
    AfterPut,
}

/// How much the entities of a group weigh together (`sched/cgroup_mode`, 7.3). Each CPU's entity
/// gets the part of it that corresponds to the load that the group has there, except with
/// [`CgroupMode::Up`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum CgroupMode {
    /// Its shares on every CPU.
    Up,
    /// Its shares (up to 7.2).
    Smp,
    /// Its shares for each of its tasks that run or wait, up to the number of its CPUs (7.3).
    Concur,
    /// Its shares for each of its CPUs, but on none more than nice −20.
    Max,
    /// Its shares for each of its tasks.
    Tasks,
}

/// Fate of the tasks of a throttled queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum ThrottleModel {
    /// Up to 6.17: the group entity is dequeued.
    Queue,
    /// From 6.18: each task leaves at its return to user mode.
    Task,
}

/// When and where tasks can be preempted in kernel mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Preemption {
    /// PREEMPT_NONE.
    None,
    /// PREEMPT_VOLUNTARY.
    Voluntary,
    /// PREEMPT.
    Full,
    /// PREEMPT_LAZY (6.13).
    Lazy,
}
