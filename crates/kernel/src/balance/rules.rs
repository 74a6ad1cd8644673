//! Load-balancing rules of a kernel.

use super::knobs::{DomainKnobs, LEVELS};
use crate::rules::rules;

/// Quantity that the balancer compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum BusiestGroup {
    /// Up to 5.4: average loads, with `fix_small_imbalance`.
    AverageLoad,
    /// From 5.5: group types, each with its own measure.
    GroupTypes,
}

/// How much imbalance between NUMA nodes is allowed (`adjust_numa_imbalance`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum NumaAllowance {
    /// Up to 5.5: none.
    None,
    /// 5.6–5.10: everything while the busiest node runs at most two tasks.
    TwoTasks,
    /// 5.11–5.17: up to two tasks while less than a quarter of the busiest node's CPUs run tasks.
    Quarter,
    /// 5.18–5.19: up to two tasks while the local node stays within `imb_numa_nr`.
    PerLlc,
    /// From 6.0: the same, applied before the imbalance is halved, and to fork as well.
    PerLlcBeforeHalving,
}

/// Which tasks of a queue the balancer may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum LoadGate {
    /// Up to 5.4: half the task's load must fit the imbalance.
    Half,
    /// 5.5–5.9: the same until balancing failed more than `cache_nice_tries` times.
    HalfUntilFailures,
    /// From 5.10: the load, halved once per failure, must fit.
    HalvedPerFailure,
}

rules! {
    /// Balancing rules of one kernel.
    pub struct BalanceRules of ();

    /// `imbalance_pct` of domains that share neither core nor cache (125; 117 from 5.10).
    pub(crate) imbalance_pct: u32 = 125,
    /// How much longer balance intervals of busy CPUs are (32; 16 from 5.10).
    pub(crate) busy_factor: u32 = 32,
    /// Numbers of domains that were set, a row for each level.
    pub(crate) knobs: [DomainKnobs; LEVELS] = [DomainKnobs::default(); LEVELS],
    /// Busy intervals are one jiffy shorter, so that levels do not coincide (5.10).
    pub(crate) busy_interval_minus_one: bool = false,
    /// CPUs with SCHED_IDLE tasks only use idle intervals (5.6).
    pub(crate) sched_idle_is_not_busy: bool = false,
    /// Domains that share a cache have SD_PREFER_SIBLING (4.15).
    pub(crate) prefer_sibling_in_llc: bool = false,
    /// A level for whole nodes below the NUMA levels (4.17).
    pub(crate) node_level: bool = false,
    /// A level for CPUs that share an L2 cache (5.16).
    pub cluster_level: bool = false,
    /// That level carries SD_CLUSTER (6.8).
    pub(crate) cluster_flag: bool = false,
    /// A machine may raise the distance up to which nodes take fork, exec and affine wakeups (5.4).
    pub(crate) machine_reclaim_distance: bool = false,
    /// Capacity of a core whose threads share it evenly; 0 = a thread counts as a CPU (1178, i.e.
    /// 15 % gain, up to 5.0).
    pub(crate) smt_gain: u32 = 1178,
    /// Quantity that is compared (5.5).
    pub(crate) busiest_group: BusiestGroup = BusiestGroup::AverageLoad,
    /// SMT groups with two tasks are pulled apart (`group_smt_balance`), groups are compared by
    /// tasks per core, and an idle CPU of an idle core balances first (6.6).
    pub(crate) smt_aware: bool = false,
    /// CPUs that the platform prefers are known (SD_ASYM_PACKING; here from 6.6 on, as in 6.12).
    pub preferred_cpus: bool = false,
    /// `prefer_sibling` is a property of the busiest group, not of the local child (6.5).
    pub(crate) prefer_sibling_of_busiest: bool = false,
    /// Idle CPUs take the only task of a CPU whose capacity is reduced (6.0).
    pub(crate) reduced_capacity_is_misfit: bool = false,
    /// CPUs of unequal capacity are known: domains have SD_ASYM_CPUCAPACITY, misfit tasks are
    /// looked for and pulled (4.20; here from 5.10 on, the oldest tree that was read).
    pub(crate) unequal_capacities: bool = false,
    /// A capacity counts as greater by more than 5 % and is that of the CPU that pulls, not of its
    /// group (5.13).
    pub(crate) compares_cpu_capacity: bool = false,
    /// Each domain finds out for itself which capacities it has (5.14); before, a level that shows
    /// every CPU a largest one was marked for all, with those above it.
    pub(crate) asym_per_domain: bool = false,
    /// A task is no misfit on the largest CPU that it may use (6.10).
    pub(crate) misfit_needs_larger_cpu: bool = false,
    /// A misfit task asks idle CPUs for help wherever it is (6.10); before, on CPUs below the
    /// machine's largest only.
    pub(crate) misfit_always_kicks: bool = false,
    /// A misfit task that stays counts as no failure and lengthens no interval (6.10).
    pub(crate) misfit_is_no_failure: bool = false,
    /// Where cores have several threads, misfit tasks are pulled to whole cores only (7.2,
    /// 6.12.111).
    pub(crate) misfit_wants_idle_core: bool = false,
    /// Where cores have several threads, wakeups want whole cores (7.2).
    pub(crate) asym_looks_at_cores: bool = false,
    /// Intervals and busy CPUs of a domain are counted with isolated CPUs of its level (up to 7.0).
    pub(crate) weight_counts_isolated: bool = true,
    /// CPUs of `isolcpus` count as of the cache of CPU 0 (up to 7.1), or as of one of their own.
    pub(crate) isolated_share_first_cache: bool = true,
    /// SIS_UTIL limits the search for a CPU with the capacity, too (7.2).
    pub(crate) asym_scan_is_limited: bool = false,
    /// A group of larger CPUs without waiting tasks is no source, of whatever type others are (7.2,
    /// 6.12.110); before, only next to one of its own type.
    pub(crate) larger_groups_never_help: bool = false,
    /// Misfit tasks count only for CPUs that are larger (7.3).
    pub(crate) misfit_counts_if_helpful: bool = false,
    /// Tasks are spread over groups of unequal capacity like over others (7.3).
    pub(crate) spreads_over_capacities: bool = false,
    /// The only task of a CPU may go to a CPU of another cluster with the same capacity, and from a
    /// busy core (7.3).
    pub(crate) pulls_between_equal_clusters: bool = false,
    /// A fully busy local group at or above the domain's average takes nothing (6.3); before, the
    /// difference wrapped around.
    pub(crate) local_above_average_gives_up: bool = false,
    /// Queues without fair tasks are no source, however much blocked load they have (5.12).
    pub(crate) skips_idle_queues: bool = false,
    /// The source of utilisation is the CPU with the most of it, waiting counted like running
    /// (6.5).
    pub(crate) util_counts_waiting: bool = false,
    /// Utilisation is moved between caches only; within one, tasks are spread evenly (5.10).
    pub(crate) spreads_in_llc: bool = false,
    /// Waiting counts when groups are classified (5.7), before only their utilisation.
    pub(crate) classifies_by_runnable: bool = false,
    /// `prefer_sibling`: a group with two tasks more than the local one is worth pulling from
    /// (4.12); before, any with two tasks.
    pub(crate) prefer_sibling_compares: bool = false,
    /// An idle CPU of an underused group pulls from a group without capacity whatever the loads, in
    /// tickless and periodic balance too (4.15); before, when newly idle only.
    pub(crate) idle_forces_balance: bool = false,
    /// An imbalance of 0 is not taken for balance: nothing moves from the busiest CPU, which
    /// therefore counts as pinned, and the search goes on without it (up to 4.19).
    pub(crate) redoes_without_imbalance: bool = true,
    /// The first CPU of a group balances beside an idle one of a busy core (6.6–6.6.3).
    pub(crate) two_may_balance: bool = false,
    /// Of groups whose largest misfit tasks weigh the same, the last one is the busiest (up to
    /// 6.8), or the first.
    pub(crate) equal_misfits_replace: bool = true,
    /// Per-CPU kernel threads do not count as pinned tasks (5.13 and stable).
    pub(crate) ignores_per_cpu_kthreads: bool = false,
    /// Imbalance allowed between nodes (5.6, 5.11, 5.18, 6.0).
    pub(crate) numa_allowance: NumaAllowance = NumaAllowance::None,
    /// Newly idle balance stops when a task or wakeup has arrived (6.0).
    pub(crate) newidle_bails_out: bool = false,
    /// Which task loads fit (5.5, 5.10).
    pub(crate) load_gate: LoadGate = LoadGate::Half,
    /// Tasks without load count as 1 (5.8 and stable).
    pub(crate) load_at_least_one: bool = false,
    /// Utilisation gates are relaxed with failures too (6.8).
    pub(crate) util_gate_relaxes: bool = false,
    /// More than `nr_migrate` tasks are looked at while all seen were pinned (6.1–6.9, reverted in
    /// stable).
    pub(crate) looks_past_limit_when_pinned: bool = false,
    /// A kick to balance for idle CPUs goes to one whose whole core is idle, if there is one (7.3).
    pub(crate) nohz_kicks_idle_core: bool = false,
    /// Counts leave out tasks whose dequeue is delayed (6.14).
    pub(crate) counts_runnable_only: bool = false,
    /// Delayed tasks move only for load (6.14).
    pub(crate) delayed_move_for_load_only: bool = false,
    /// Tasks that would not be eligible at the destination stay at the first try (6.14).
    pub(crate) ineligible_stay: bool = false,
    /// Active balance for repeated failures needs an imbalance of tasks, and does not lengthen the
    /// interval (5.12).
    pub(crate) active_balance_for_tasks: bool = false,
    /// Active balance moves the running task whatever its cache heat (5.13); before, it counted as
    /// one failure more than the heat is respected for.
    pub(crate) active_balance_ignores_heat: bool = false,
    /// Asymmetric or capacity reasons for active balance do not lengthen the interval (5.1).
    pub(crate) voluntary_active_balance: bool = false,
    /// The imbalance flag of a group stays while all tasks are pinned (5.4).
    pub(crate) imbalance_flag_stays_when_pinned: bool = false,
    /// Newly idle balance does not lengthen intervals (5.0).
    pub(crate) newidle_keeps_interval: bool = false,
    /// A queue is thought all pinned before a single task was looked at (5.12).
    pub(crate) pinned_until_proven: bool = false,
    /// Newly idle balance is skipped when the CPU idles less than `migration_cost` on average (up
    /// to 5.15), else when it idles less than the first domain's cost.
    pub(crate) newidle_needs_migration_cost: bool = true,
    /// When a domain is due is asked before newly idle balance may shorten its interval (5.16).
    pub(crate) newidle_next_balance_first: bool = false,
    /// A CPU without a domain leaves out what precedes newly idle balance, too (6.19).
    pub(crate) newidle_needs_domain: bool = false,
    /// The update of blocked load counts as cost of newly idle balance (5.16).
    pub(crate) newidle_cost_with_blocked: bool = false,
    /// The decay of newly idle costs waits for a second without a new maximum (5.16).
    pub(crate) newidle_cost_waits: bool = false,
    /// Newly idle balance that found nothing counts as half as expensive again as ever before, up
    /// to the migration cost (6.17–6.18.2 and stable series of that time; reverted).
    pub(crate) newidle_failure_costs: bool = false,
    /// Newly idle balance is skipped while a wakeup is pending (5.14).
    pub(crate) newidle_skips_pending: bool = false,
    /// Newly idle balance leaves the clock of its CPU where the switch left it (7.1), before it
    /// brought it up to date even where the switch was asked not to.
    pub(crate) newidle_leaves_clock: bool = false,
    /// Idle CPUs' blocked load is tracked and updated by others (4.17).
    pub(crate) nohz_blocked: bool = false,
    /// A CPU that goes idle updates that load itself, right before (5.12); before, newly idle
    /// balance did.
    pub(crate) nohz_newidle_late: bool = false,
    /// The idle balancer serves itself last, in turn (5.12); before, it served itself apart.
    pub(crate) nohz_wraps: bool = false,
    /// CPUs that enter tickless idle ask for a new `next_balance` (5.16).
    pub(crate) nohz_next_kick: bool = false,
    /// A kick sets `next_balance` to the next jiffy, and only full kicks do (5.9); before, every
    /// kick added one.
    pub(crate) nohz_kick_sets_next: bool = false,
    /// Kicks are function calls, which a polling idle CPU takes without interrupt (5.8); before,
    /// they were reschedule interrupts.
    pub(crate) nohz_kick_by_call: bool = false,
    /// A kick does nothing on a CPU that is asked to reschedule (up to 6.12 and stable kernels of
    /// December 2024); from 5.8 on a kick itself asks polling CPUs for that.
    pub(crate) nohz_kick_gives_way: bool = true,
    /// Of the tickless CPUs only the first is kicked, if it is idle (up to 5.1); later, the first
    /// that is.
    pub(crate) nohz_kicks_first_only: bool = true,
    /// Busy CPUs are counted per LLC even when nothing lies above it (4.9).
    pub(crate) nohz_counts_every_llc: bool = false,
    /// Each balance pass updates blocked load itself (up to 4.16).
    pub(crate) rebalance_updates_blocked: bool = true,
}
