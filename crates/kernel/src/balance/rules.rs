//! Load-balancing rules of a kernel.

use super::knobs::{DomainKnobs, LEVELS};
use crate::rules::{Rules, Version};

/// Quantity that the balancer compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BusiestGroup {
    /// Up to 5.4: average loads, with `fix_small_imbalance`.
    AverageLoad,
    /// From 5.5: group types, each with its own measure.
    GroupTypes,
}

/// How much imbalance between NUMA nodes is allowed (`adjust_numa_imbalance`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum NumaAllowance {
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
pub enum LoadGate {
    /// Up to 5.4: half the task's load must fit the imbalance.
    Half,
    /// 5.5–5.9: the same until balancing failed more than `cache_nice_tries` times.
    HalfUntilFailures,
    /// From 5.10: the load, halved once per failure, must fit.
    HalvedPerFailure,
}

/// Balancing rules of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BalanceRules {
    /// `imbalance_pct` of domains that share neither core nor cache (125; 117 from 5.10).
    pub imbalance_pct: u32,
    /// How much longer balance intervals of busy CPUs are (32; 16 from 5.10).
    pub busy_factor: u32,
    /// Numbers of domains that were set, a row for each level.
    pub knobs: [DomainKnobs; LEVELS],
    /// Busy intervals are one jiffy shorter, so that levels do not coincide (5.10).
    pub busy_interval_minus_one: bool,
    /// CPUs with SCHED_IDLE tasks only use idle intervals (5.6).
    pub sched_idle_is_not_busy: bool,
    /// Domains that share a cache have SD_PREFER_SIBLING (4.15).
    pub prefer_sibling_in_llc: bool,
    /// A level for whole nodes below the NUMA levels (4.17).
    pub node_level: bool,
    /// A level for CPUs that share an L2 cache (5.16).
    pub cluster_level: bool,
    /// That level carries SD_CLUSTER (6.8).
    pub cluster_flag: bool,
    /// A machine may raise the distance up to which nodes take fork, exec and affine wakeups (5.4).
    pub machine_reclaim_distance: bool,
    /// Capacity of a core whose threads share it evenly; 0 = a thread counts as a CPU (1178, i.e.
    /// 15 % gain, up to 5.0).
    pub smt_gain: u32,
    /// Quantity that is compared (5.5).
    pub busiest_group: BusiestGroup,
    /// SMT groups with two tasks are pulled apart (`group_smt_balance`), groups are compared by
    /// tasks per core, and an idle CPU of an idle core balances first (6.6).
    pub smt_aware: bool,
    /// CPUs that the platform prefers are known (SD_ASYM_PACKING; here from 6.6 on, as in 6.12).
    pub preferred_cpus: bool,
    /// `prefer_sibling` is a property of the busiest group, not of the local child (6.5).
    pub prefer_sibling_of_busiest: bool,
    /// Idle CPUs take the only task of a CPU whose capacity is reduced (6.0).
    pub reduced_capacity_is_misfit: bool,
    /// CPUs of unequal capacity are known: domains have SD_ASYM_CPUCAPACITY, misfit tasks are
    /// looked for and pulled (4.20; here from 5.10 on, the oldest tree that was read).
    pub unequal_capacities: bool,
    /// A capacity counts as greater by more than 5 % and is that of the CPU that pulls, not of its
    /// group (5.13).
    pub compares_cpu_capacity: bool,
    /// Each domain finds out for itself which capacities it has (5.14); before, a level that shows
    /// every CPU a largest one was marked for all, with those above it.
    pub asym_per_domain: bool,
    /// A task is no misfit on the largest CPU that it may use (6.10).
    pub misfit_needs_larger_cpu: bool,
    /// A misfit task asks idle CPUs for help wherever it is (6.10); before, on CPUs below the
    /// machine's largest only.
    pub misfit_always_kicks: bool,
    /// A misfit task that stays counts as no failure and lengthens no interval (6.10).
    pub misfit_is_no_failure: bool,
    /// Where cores have several threads, misfit tasks and wakeups want whole cores (7.2).
    pub asym_looks_at_cores: bool,
    /// SIS_UTIL limits the search for a CPU with the capacity, too (7.2).
    pub asym_scan_is_limited: bool,
    /// A group of larger CPUs without waiting tasks is no source, of whatever type others are
    /// (7.2); before, only next to one of its own type.
    pub larger_groups_never_help: bool,
    /// Misfit tasks count only for CPUs that are larger (7.3).
    pub misfit_counts_if_helpful: bool,
    /// Tasks are spread over groups of unequal capacity like over others (7.3).
    pub spreads_over_capacities: bool,
    /// The only task of a CPU may go to a CPU of another cluster with the same capacity, and from a
    /// busy core (7.3).
    pub pulls_between_equal_clusters: bool,
    /// A fully busy local group at or above the domain's average takes nothing (6.3); before, the
    /// difference wrapped around.
    pub local_above_average_gives_up: bool,
    /// Queues without fair tasks are no source, however much blocked load they have (5.12).
    pub skips_idle_queues: bool,
    /// The source of utilisation is the CPU with the most of it, waiting counted like running
    /// (6.5).
    pub util_counts_waiting: bool,
    /// Utilisation is moved between caches only; within one, tasks are spread evenly (5.10).
    pub spreads_in_llc: bool,
    /// Waiting counts when groups are classified (5.7), before only their utilisation.
    pub classifies_by_runnable: bool,
    /// `prefer_sibling`: a group with two tasks more than the local one is worth pulling from
    /// (4.12); before, any with two tasks.
    pub prefer_sibling_compares: bool,
    /// An idle CPU of an underused group pulls from a group without capacity whatever the loads, in
    /// tickless and periodic balance too (4.15); before, when newly idle only.
    pub idle_forces_balance: bool,
    /// An imbalance of 0 is not taken for balance: nothing moves from the busiest CPU, which
    /// therefore counts as pinned, and the search goes on without it (up to 4.19).
    pub redoes_without_imbalance: bool,
    /// The first CPU of a group balances beside an idle one of a busy core (6.6–6.6.3).
    pub two_may_balance: bool,
    /// Of groups whose largest misfit tasks weigh the same, the last one is the busiest (up to
    /// 6.8), or the first.
    pub equal_misfits_replace: bool,
    /// Per-CPU kernel threads do not count as pinned tasks (5.13 and stable).
    pub ignores_per_cpu_kthreads: bool,
    /// Imbalance allowed between nodes (5.6, 5.11, 5.18, 6.0).
    pub numa_allowance: NumaAllowance,
    /// Newly idle balance stops when a task or wakeup has arrived (6.0).
    pub newidle_bails_out: bool,
    /// Which task loads fit (5.5, 5.10).
    pub load_gate: LoadGate,
    /// Tasks without load count as 1 (5.8 and stable).
    pub load_at_least_one: bool,
    /// Utilisation gates are relaxed with failures too (6.8).
    pub util_gate_relaxes: bool,
    /// More than `nr_migrate` tasks are looked at while all seen were pinned (6.1–6.9, reverted in
    /// stable).
    pub looks_past_limit_when_pinned: bool,
    /// A kick to balance for idle CPUs goes to one whose whole core is idle, if there is one (7.3).
    pub nohz_kicks_idle_core: bool,
    /// Counts leave out tasks whose dequeue is delayed (6.14).
    pub counts_runnable_only: bool,
    /// Delayed tasks move only for load (6.14).
    pub delayed_move_for_load_only: bool,
    /// Tasks that would not be eligible at the destination stay at the first try (6.14).
    pub ineligible_stay: bool,
    /// Active balance for repeated failures needs an imbalance of tasks, and does not lengthen the
    /// interval (5.12).
    pub active_balance_for_tasks: bool,
    /// Active balance moves the running task whatever its cache heat (5.13); before, it counted as
    /// one failure more than the heat is respected for.
    pub active_balance_ignores_heat: bool,
    /// Asymmetric or capacity reasons for active balance do not lengthen the interval (5.1).
    pub voluntary_active_balance: bool,
    /// The imbalance flag of a group stays while all tasks are pinned (5.4).
    pub imbalance_flag_stays_when_pinned: bool,
    /// Newly idle balance does not lengthen intervals (5.0).
    pub newidle_keeps_interval: bool,
    /// A queue is thought all pinned before a single task was looked at (5.12).
    pub pinned_until_proven: bool,
    /// Newly idle balance is skipped when the CPU idles less than `migration_cost` on average (up
    /// to 5.15), else when it idles less than the first domain's cost.
    pub newidle_needs_migration_cost: bool,
    /// When a domain is due is asked before newly idle balance may shorten its interval (5.16).
    pub newidle_next_balance_first: bool,
    /// A CPU without a domain leaves out what precedes newly idle balance, too (6.19).
    pub newidle_needs_domain: bool,
    /// The update of blocked load counts as cost of newly idle balance (5.16).
    pub newidle_cost_with_blocked: bool,
    /// The decay of newly idle costs waits for a second without a new maximum (5.16).
    pub newidle_cost_waits: bool,
    /// Newly idle balance that found nothing counts as half as expensive again as ever before, up
    /// to the migration cost (6.17–6.18.2 and stable series of that time; reverted).
    pub newidle_failure_costs: bool,
    /// Newly idle balance is skipped while a wakeup is pending (5.14).
    pub newidle_skips_pending: bool,
    /// Newly idle balance leaves the clock of its CPU where the switch left it (7.1), before it
    /// brought it up to date even where the switch was asked not to.
    pub newidle_leaves_clock: bool,
    /// Idle CPUs' blocked load is tracked and updated by others (4.17).
    pub nohz_blocked: bool,
    /// A CPU that goes idle updates that load itself, right before (5.12); before, newly idle
    /// balance did.
    pub nohz_newidle_late: bool,
    /// The idle balancer serves itself last, in turn (5.12); before, it served itself apart.
    pub nohz_wraps: bool,
    /// CPUs that enter tickless idle ask for a new `next_balance` (5.16).
    pub nohz_next_kick: bool,
    /// A kick sets `next_balance` to the next jiffy, and only full kicks do (5.9); before, every
    /// kick added one.
    pub nohz_kick_sets_next: bool,
    /// Kicks are function calls, which a polling idle CPU takes without interrupt (5.8); before,
    /// they were reschedule interrupts.
    pub nohz_kick_by_call: bool,
    /// A kick does nothing on a CPU that is asked to reschedule (up to 6.12 and stable kernels of
    /// December 2024); from 5.8 on a kick itself asks polling CPUs for that.
    pub nohz_kick_gives_way: bool,
    /// Of the tickless CPUs only the first is kicked, if it is idle (up to 5.1); later, the first
    /// that is.
    pub nohz_kicks_first_only: bool,
    /// Busy CPUs are counted per LLC even when nothing lies above it (4.9).
    pub nohz_counts_every_llc: bool,
    /// Each balance pass updates blocked load itself (up to 4.16).
    pub rebalance_updates_blocked: bool,
}

impl BalanceRules {
    /// The rules of `version`.
    pub fn of(version: Version) -> Self {
        Rules::of(version, 1, 250).balance
    }

    /// The rules of 4.5. Later differences are in the table of changes.
    pub(crate) fn oldest() -> Self {
        Self {
            imbalance_pct: 125,
            busy_factor: 32,
            knobs: [DomainKnobs::default(); LEVELS],
            busy_interval_minus_one: false,
            sched_idle_is_not_busy: false,
            prefer_sibling_in_llc: false,
            node_level: false,
            cluster_level: false,
            cluster_flag: false,
            machine_reclaim_distance: false,
            smt_gain: 1178,
            busiest_group: BusiestGroup::AverageLoad,
            smt_aware: false,
            preferred_cpus: false,
            prefer_sibling_of_busiest: false,
            reduced_capacity_is_misfit: false,
            unequal_capacities: false,
            compares_cpu_capacity: false,
            asym_per_domain: false,
            misfit_needs_larger_cpu: false,
            misfit_always_kicks: false,
            misfit_is_no_failure: false,
            asym_looks_at_cores: false,
            asym_scan_is_limited: false,
            larger_groups_never_help: false,
            misfit_counts_if_helpful: false,
            spreads_over_capacities: false,
            pulls_between_equal_clusters: false,
            local_above_average_gives_up: false,
            numa_allowance: NumaAllowance::None,
            skips_idle_queues: false,
            util_counts_waiting: false,
            spreads_in_llc: false,
            nohz_kicks_idle_core: false,
            classifies_by_runnable: false,
            prefer_sibling_compares: false,
            idle_forces_balance: false,
            redoes_without_imbalance: true,
            two_may_balance: false,
            equal_misfits_replace: true,
            ignores_per_cpu_kthreads: false,
            newidle_bails_out: false,
            load_gate: LoadGate::Half,
            load_at_least_one: false,
            util_gate_relaxes: false,
            looks_past_limit_when_pinned: false,
            counts_runnable_only: false,
            delayed_move_for_load_only: false,
            ineligible_stay: false,
            active_balance_for_tasks: false,
            active_balance_ignores_heat: false,
            voluntary_active_balance: false,
            imbalance_flag_stays_when_pinned: false,
            newidle_keeps_interval: false,
            pinned_until_proven: false,
            newidle_needs_migration_cost: true,
            newidle_next_balance_first: false,
            newidle_needs_domain: false,
            newidle_cost_with_blocked: false,
            newidle_cost_waits: false,
            newidle_failure_costs: false,
            newidle_skips_pending: false,
            newidle_leaves_clock: false,
            nohz_blocked: false,
            nohz_newidle_late: false,
            nohz_wraps: false,
            nohz_next_kick: false,
            nohz_kick_sets_next: false,
            nohz_kick_by_call: false,
            nohz_kick_gives_way: true,
            nohz_kicks_first_only: true,
            nohz_counts_every_llc: false,
            rebalance_updates_blocked: true,
        }
    }
}
