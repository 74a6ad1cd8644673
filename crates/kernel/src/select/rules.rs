//! Placement rules of a kernel.

use crate::rules::rules;

/// Status of a CPU that runs nothing but SCHED_IDLE tasks in a search for a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum SchedIdleCpus {
    /// Up to 5.3: as busy.
    Busy,
    /// 5.4–5.6: as good as idle for the target, the previous and the recent CPU; in scans it is
    /// remembered and taken when no idle CPU is found.
    LastResort,
    /// From 5.7: as idle.
    Idle,
}

/// How `wake_affine` chooses between the waking and the previous CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum WakeAffine {
    /// Up to 4.12: weights of the two CPUs with `effective_load`.
    EffectiveLoad,
    /// 4.13: the waking CPU when they share a cache, else weights of the two nodes.
    NodeLoad,
    /// From 4.14: `wake_affine_idle`, then `wake_affine_weight`.
    IdleThenWeight,
}

/// How `select_idle_sibling` searches the last level cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum IdleScan {
    /// Up to 4.8: for a fully idle scheduling group, largest groups first, without limit.
    IdleGroups,
    /// 4.9–5.11: an idle core, then an idle CPU, then an idle sibling of the target.
    ThreePasses,
    /// From 5.12: one pass that looks either for a core or for a CPU.
    OnePass,
}

/// How `find_idlest_group` compares groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum IdlestGroup {
    /// Up to 4.9: average load, the local one scaled by the imbalance percentage.
    LoadRatio,
    /// 4.10–5.4: spare capacity (not at fork), then runnable load, then average load.
    SpareCapacity,
    /// From 5.5: group types, as the load balancer has them.
    GroupTypes,
}

rules! {
    /// Placement rules of one kernel.
    pub(crate) struct PlacementRules of ();

    /// Status of CPUs with nothing but SCHED_IDLE tasks (5.4, 5.7).
    pub(crate) sched_idle_cpus: SchedIdleCpus = SchedIdleCpus::Busy,
    /// They are no such thing for a task that is SCHED_IDLE itself (7.1).
    pub(crate) sched_idle_cpus_for_others: bool = false,
    /// Which `wake_affine` (4.13, 4.14).
    pub(crate) wake_affine: WakeAffine = WakeAffine::EffectiveLoad,
    /// `wake_affine_idle`: an idle waking CPU is taken only when it shares the cache with the
    /// previous one, which is preferred when it is idle too (4.16).
    pub(crate) wa_idle_needs_cache: bool = false,
    /// `wake_affine_idle`: an idle previous CPU settles the matter (5.11).
    pub(crate) wa_idle_prefers_prev: bool = false,
    /// `wake_affine_idle`: tasks whose dequeue is delayed do not count as running beside a waker
    /// that is about to sleep (6.16 and the stable series since June 2025).
    pub(crate) wa_idle_ignores_delayed: bool = false,
    /// The wakeup of a parent by a task that exits is not taken for sync (4.17).
    pub(crate) exit_is_not_sync: bool = false,
    /// `wake_affine_weight`: equal weights keep the previous CPU, except in sync wakeups (4.17).
    pub(crate) wa_weight_keeps_equal: bool = false,
    /// How the LLC is searched (4.9, 5.12).
    pub(crate) idle_scan: IdleScan = IdleScan::IdleGroups,
    /// A short average idle time stops the scan (4.9–4.10; later the feature SIS_AVG_CPU).
    pub(crate) scan_needs_idle_time: bool = false,
    /// SIS_PROP uses an idle average that ages while the CPU is busy (5.14).
    pub(crate) sis_prop_ages: bool = false,
    /// Scans start behind the target, which was tested already (5.15).
    pub(crate) scan_starts_after_target: bool = false,
    /// CPUs forbidden by affinity use up the scan limit (up to 5.5).
    pub(crate) scan_counts_forbidden: bool = true,
    /// An idle SMT sibling of the previous CPU is tried before a scan without idle cores (5.13).
    pub(crate) scan_smt_of_prev: bool = false,
    /// The cluster of the target is searched first (6.8).
    pub(crate) cluster_scan: bool = false,
    /// A per-CPU kernel thread may keep its wakee on its own CPU (5.6).
    pub(crate) per_cpu_kthread_stacks: bool = false,
    /// … but not from an interrupt that hit it (5.17).
    pub(crate) per_cpu_kthread_in_task_only: bool = false,
    /// The waker's `recent_used_cpu` becomes its CPU at affine wakeups, the wakee's changes at a
    /// hit only (4.16–5.14). From 5.15 the wakee's becomes its previous CPU at every such search.
    pub(crate) recent_used_cpu_of_waker: bool = false,
    /// Affinity is tested for the CPU just stored instead of the candidate (5.15–6.4 but
    /// for later stable kernels).
    pub(crate) recent_used_cpu_tests_prev: bool = false,
    /// Which `find_idlest_group` (4.10, 5.5).
    pub(crate) idlest_group: IdlestGroup = IdlestGroup::LoadRatio,
    /// The NUMA imbalance allowed at fork is at most the number of allowed local CPUs (6.0).
    pub(crate) idlest_numa_within_affinity: bool = false,
    /// `find_idlest_group` by spare capacity leaves a node only for one with clearly less load
    /// (4.17).
    pub(crate) idlest_prefers_node: bool = false,
    /// `find_idlest_group` looks at allowed CPUs only (5.17).
    pub(crate) idlest_allowed_only: bool = false,
    /// Wakees go to the waker's CPU while it has room, and only then (never published).
    pub(crate) vcpu_pack: bool = false,
}
