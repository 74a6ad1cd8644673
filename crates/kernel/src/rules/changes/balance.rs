//! Changes of load balancing.

use super::changes;
use crate::balance::{BusiestGroup, LoadGate, NumaAllowance};

changes! {
    "nohz-counts-every-llc" release (4, 9): (on balance.nohz_counts_every_llc),
        "Busy CPUs are counted in every cache, even where no domain lies above it.";
    "sibling-needs-two-more" release (4, 12): (on balance.prefer_sibling_compares),
        "A sibling group is worth pulling from when it has two tasks more than the local one.";
    "prefer-sibling-llc" release (4, 15): (on balance.prefer_sibling_in_llc),
        "Tasks are spread over the caches of a node.";
    "idle-forces-balance" release (4, 15): (on balance.idle_forces_balance),
        "An idle CPU of an underused group pulls from a group without capacity whatever the loads.";
    "node-domain" release (4, 17): (on balance.node_level),
        "A level of balancing for whole nodes lies below those between nodes.";
    "nohz-blocked" "a4064fb614f8" (4, 17): (on balance.nohz_blocked),
        "The blocked load of idle CPUs is tracked and aged by others.";
    "blocked-load-apart" release (4, 17): (off balance.rebalance_updates_blocked),
        "A balance pass does not age blocked load itself.";
    "no-redo-without-imbalance" release (4, 20): (off balance.redoes_without_imbalance),
        "An imbalance of 0 counts as balance instead of as pinned tasks.";
    "lb-bias-off" release (4, 20): (off features.lb_bias),
        "Loads of the past no longer bias balancing (LB_BIAS off).";
    "newidle-keeps-interval" "3f130a37c442" (5, 0): (on balance.newidle_keeps_interval),
        "Failures of newly idle balance do not lengthen the intervals of periodic balance.";
    "smt-gain-gone" release (5, 1): (balance.smt_gain: 1178 => 0),
        "A thread counts as a CPU instead of as a part of its core.";
    "voluntary-active-balance" "46a745d90585" (5, 1): (on balance.voluntary_active_balance),
        "Active balance for asymmetry or capacity does not lengthen intervals.";
    "nohz-kicks-any-idle" release (5, 2) also [(4, 19, 47), (5, 0, 20), (5, 1, 6)]: (off balance.nohz_kicks_first_only),
        "The first idle tickless CPU is kicked, not the first tickless one if it is idle.";
    "imbalance-flag-stays" "f6cad8df6b30" (5, 4): (on balance.imbalance_flag_stays_when_pinned),
        "The imbalance flag of a group stays while all tasks are pinned.";
    "reclaim-distance-32" "a55c7454a8c8" (5, 4): (on balance.machine_reclaim_distance),
        "Nodes of AMD machines at distance 32 take fork, exec and affine wakeups.";
    "balance-rework" "0b0695f2b34a" (5, 5): (balance.busiest_group: BusiestGroup::AverageLoad => BusiestGroup::GroupTypes),
        "Load balance compares groups by type, and moves load, utilisation or tasks accordingly.";
    "load-gate-failures" release (5, 5) until (5, 10): (balance.load_gate: LoadGate::Half => LoadGate::HalfUntilFailures),
        "After some failures to move any, tasks of any load are moved.";
    "numa-two-tasks" "b396f52326de" (5, 6) until (5, 11):
        (balance.numa_allowance: NumaAllowance::None => NumaAllowance::TwoTasks),
        "An imbalance between nodes is left while the busiest runs at most two tasks.";
    "sched-idle-not-busy" "323af6deaf70" (5, 6): (on balance.sched_idle_is_not_busy),
        "CPUs with nothing but SCHED_IDLE tasks balance as often as idle ones.";
    "classify-by-runnable" "070f5e860ee2" (5, 7): (on balance.classifies_by_runnable),
        "Waiting counts when groups are classified.";
    "load-at-least-one" "01cfcde9c26d" (5, 8) also [(4, 19, 134), (5, 4, 53), (5, 7, 10)]: (on balance.load_at_least_one),
        "Tasks without load count as 1, so that not all of them move at once.";
    "nohz-kick-by-call" "90b5363acd47" (5, 8): (on balance.nohz_kick_by_call),
        "An idle CPU is kicked to balance by a function call, not by a reschedule interrupt.";
    "nohz-kick-sets-next" release (5, 9): (on balance.nohz_kick_sets_next),
        "Only full kicks set the time of the next one, to the next jiffy.";
    "imbalance-117" "2208cdaa56c9" (5, 10): (balance.imbalance_pct: 125 => 117),
        "An imbalance of 17 % counts, instead of 25 %.";
    "busy-factor-16" "6e7499135db7" (5, 10): (balance.busy_factor: 32 => 16),
        "Busy CPUs balance 16 times as rarely as idle ones, instead of 32 times.";
    "busy-interval-shift" "e4d32e4d5444" (5, 10): (on balance.busy_interval_minus_one),
        "Busy intervals are a jiffy shorter, so that domains do not balance at once.";
    "load-gate-relaxed" "5a7f55590467" (5, 10):
        (balance.load_gate: LoadGate::HalfUntilFailures => LoadGate::HalvedPerFailure),
        "A task may be twice as heavy as the imbalance after each failure to move any.";
    "spread-in-llc" release (5, 10): (on balance.spreads_in_llc),
        "Utilisation is moved between caches only; within one, tasks are spread evenly.";
    "asym-capacity" release (5, 10): (on balance.unequal_capacities),
        "Tasks that are too large for their CPU are pulled to a larger one (in the kernel since 4.20).";
    "numa-quarter" "7d2b5dd0bcc4" (5, 11) until (5, 18):
        (balance.numa_allowance: NumaAllowance::TwoTasks => NumaAllowance::Quarter),
        "An imbalance between nodes is left while less than a quarter of the busiest node's CPUs run tasks.";
    "skip-idle-queues" release (5, 12): (on balance.skips_idle_queues),
        "Queues without fair tasks are no source, however much blocked load they have.";
    "active-balance-for-tasks" "e9b9734b7465" (5, 12): (on balance.active_balance_for_tasks),
        "Active balance for repeated failures needs an imbalance of tasks.";
    "pinned-until-proven" release (5, 12): (on balance.pinned_until_proven),
        "A queue is thought all pinned before a task was looked at.";
    "nohz-newidle-late" "c6f886546cb8" (5, 12) also [(5, 10, 231)]: (on balance.nohz_newidle_late),
        "A CPU that goes idle ages the blocked load of idle CPUs right before it idles.";
    "nohz-wraps" "7a82e5f52a35" (5, 12) also [(5, 10, 231)]: (on balance.nohz_wraps),
        "The CPU that balances for idle ones serves itself last, in turn.";
    "kthreads-not-pinned" "2f5f4cce496e" (5, 13) also [(5, 4, 119), (5, 10, 36), (5, 11, 21), (5, 12, 4)]:
        (on balance.ignores_per_cpu_kthreads),
        "Per-CPU kernel threads do not count as pinned tasks.";
    "active-balance-hot" "23fb06d9602d" (5, 13): (on balance.active_balance_ignores_heat),
        "Active balance moves the running task whatever its cache heat.";
    "capacity-greater" "4aed8aa41524" (5, 13): (on balance.compares_cpu_capacity),
        "A CPU must be 5 % larger to pull a misfit task, whatever the rest of its group.";
    "asym-per-domain" "c744dc4ab58d" (5, 14): (on balance.asym_per_domain),
        "Each domain finds out for itself which capacities it has.";
    "newidle-skips-pending" "e5e678e4fea2" (5, 14): (on balance.newidle_skips_pending),
        "A CPU about to idle does not balance while a wakeup is on its way to it.";
    "cluster-domain" "66558b730f25" (5, 16): (on balance.cluster_level),
        "CPUs that share an L2 cache are a level of balancing.";
    "newidle-next-first" "8ea9183db4ad" (5, 16): (on balance.newidle_next_balance_first),
        "When a domain is due is asked before newly idle balance may shorten its interval.";
    "newidle-by-cost" "c5b0a7eefc70" (5, 16): (off balance.newidle_needs_migration_cost),
        "Whether balancing before idling pays is judged by its cost, not by the migration cost.";
    "newidle-blocked-cost" "9d783c8dd112" (5, 16): (on balance.newidle_cost_with_blocked),
        "The update of blocked load counts as cost of balancing before idling.";
    "newidle-cost-waits" "e60b56e46b38" (5, 16): (on balance.newidle_cost_waits),
        "The cost of balancing before idling decays after a second without a new maximum.";
    "nohz-next-kick" "efd984c481ab" (5, 16): (on balance.nohz_next_kick),
        "CPUs that enter tickless idle ask for a new time of balancing.";
    "numa-per-llc" "e496132ebedd" (5, 18) until (6, 0):
        (balance.numa_allowance: NumaAllowance::Quarter => NumaAllowance::PerLlc),
        "An imbalance between nodes is left up to a number of tasks that depends on their caches.";
    "newidle-bails-out" "792b9f65a568" (6, 0): (on balance.newidle_bails_out),
        "Balancing before idling ends as soon as a task arrives.";
    "reduced-capacity-misfit" release (6, 0): (on balance.reduced_capacity_is_misfit),
        "Idle CPUs take the only task of a CPU whose capacity is reduced.";
    "numa-before-halving" "cb29a5c19d2d" (6, 0):
        (balance.numa_allowance: NumaAllowance::PerLlc => NumaAllowance::PerLlcBeforeHalving),
        "The allowed imbalance between nodes is applied before the imbalance is halved, and at fork.";
    "pinned-past-limit" release (6, 1) until (6, 10)
        and [(6, 1, 100), (6, 6, 41), (6, 9, 10)]:
        (on balance.looks_past_limit_when_pinned),
        "More tasks than the limit are looked at while all seen were pinned (reverted in stable kernels).";
    "local-above-average" "91dcf1e8068e" (6, 3) also [(5, 10, 178), (6, 1, 25)]: (on balance.local_above_average_gives_up),
        "A fully busy local group at or above the domain's average takes nothing.";
    "misfit-despite-energy" "e5ed0550c04c" (6, 3) also [(6, 1, 47)]: (on energy.misfit_moves),
        "Misfit tasks are pulled although tasks are placed by energy.";
    "sibling-of-busiest" release (6, 5): (on balance.prefer_sibling_of_busiest),
        "Whether tasks are spread over siblings is a property of the busiest group.";
    "util-counts-waiting" release (6, 5): (on balance.util_counts_waiting),
        "The source of utilisation is the CPU with the most of it, waiting counted like running.";
    "preferred-cpus" release (6, 6): (on balance.preferred_cpus),
        "Tasks are packed on the CPUs that the platform prefers (in the kernel since 4.10, with whole idle cores since 6.5).";
    "smt-balance" "fee1759e4f04" (6, 6): (on balance.smt_aware),
        "Tasks on sibling threads are pulled apart while other cores idle.";
    "two-balancers" release (6, 6) until (6, 7) and [(6, 6, 4)]: (on balance.two_may_balance),
        "The first CPU of a group balances beside an idle one of a busy core (mended in 6.6.4).";
    "cluster-flag" release (6, 8): (on balance.cluster_flag),
        "The level of CPUs that share an L2 cache is marked as such.";
    "util-gate-relaxes" release (6, 8) also [(5, 10, 228), (6, 1, 103)]: (on balance.util_gate_relaxes),
        "A task's utilisation is compared with the imbalance halved once per failure.";
    "misfit-tie" "7f1a7229718d" (6, 9): (off balance.equal_misfits_replace),
        "Of groups with equal misfit tasks the first is the busiest, not the last.";
    "misfit-affinity" "22d5607400c6" (6, 10): (on balance.misfit_needs_larger_cpu),
        "A task is no misfit on the largest CPU that it may use.";
    "misfit-kicks" "fa427e8e53d8" (6, 10): (on balance.misfit_always_kicks),
        "A misfit task has idle CPUs balance wherever it runs.";
    "misfit-no-failure" "58eeb2d79b54" (6, 10): (on balance.misfit_is_no_failure),
        "A misfit task that cannot be moved lengthens no balance interval.";
    "nohz-kick-despite-resched" release (6, 13)
        also [(5, 10, 231), (5, 15, 174), (6, 1, 120), (6, 6, 66), (6, 12, 5)]: (off balance.nohz_kick_gives_way),
        "A kick to balance works on a CPU that is asked to reschedule, too.";
    "count-runnable-only" release (6, 14): (on balance.counts_runnable_only),
        "Counts of tasks leave out those whose dequeue is delayed.";
    "delayed-stay" "61b82dfb6b7e" (6, 14): (on balance.delayed_move_for_load_only),
        "Sleeping tasks that still are queued move for load only.";
    "ineligible-stay" "873199d27bb2" (6, 14): (on balance.ineligible_stay),
        "Tasks that would not be eligible at the destination stay at the first try.";
    "overloaded-if-overutilized" "d3d663faa1d4" (7, 1): (on energy.overloaded_if_overutilized),
        "Where tasks are placed by energy, a group is overloaded only if one of its CPUs is overutilized.";
    "newidle-leaves-clock" release (7, 1): (on balance.newidle_leaves_clock),
        "Newly idle balance leaves the clock of its CPU where the switch left it.";
    "newidle-bump" "155213a2aed4" (6, 17) also [(6, 1, 149), (6, 6, 103), (6, 12, 43), (6, 15, 11), (6, 16, 2)]
        until (6, 19) and [(6, 1, 160), (6, 6, 120), (6, 12, 64), (6, 18, 3)]: (on balance.newidle_failure_costs),
        "Each failure to find a task before idling makes trying look dearer (reverted in 6.18.3).";
    "newidle-needs-domain" "e78e70dbf603" (6, 19) also [(6, 18, 5), (6, 12, 65), (6, 6, 120), (6, 1, 160)]:
        (on balance.newidle_needs_domain),
        "A CPU without a domain to balance in leaves its blocked load alone when it goes idle.";
    "ni-random" "33cf66d88306" (6, 19) also [(6, 18, 5), (6, 12, 65), (6, 6, 120), (6, 1, 160)]: (on features.ni_random),
        "Balancing before idling runs in proportion to its success (NI_RANDOM).";
    "asym-idle-cores" release (7, 2): (on balance.asym_looks_at_cores),
        "Where capacities are unequal, tasks go to whole idle cores first.";
    "misfit-wants-idle-core" "bf6aa722198d" (7, 2) also [(6, 12, 111)]: (on balance.misfit_wants_idle_core),
        "Where cores have several threads, a CPU pulls a misfit task only if its whole core idles.";
    "weight-of-span" "8e8e23dea43e" (7, 1) also [(6, 18, 33), (7, 0, 10)]: (off balance.weight_counts_isolated),
        "Intervals of a domain and busy CPUs of its cache count its own CPUs, without isolated ones of the level.";
    "isolated-cache-apart" release (7, 2): (off balance.isolated_share_first_cache),
        "CPUs of isolcpus count as of one cache of their own, not as of that of CPU 0.";
    "asym-scan-limit" release (7, 2): (on balance.asym_scan_is_limited),
        "SIS_UTIL limits the search for a CPU with the capacity, too.";
    "larger-never-help" "50b101f6e586" (7, 2) also [(6, 12, 110)]: (on balance.larger_groups_never_help),
        "Groups of larger CPUs without waiting tasks are no source for a smaller CPU.";
    "cache-aware" "c99b8593b060" (7, 2): (on cache.aware),
        "The threads of a process are drawn to one last level cache (CONFIG_SCHED_CACHE).";
    "preferred-before-llc" release (7, 3): (on cache.yields_to_priority),
        "A CPU that the platform prefers comes before the cache that a process prefers.";
    "llc-running-fits" release (7, 3) also [(7, 2, 10)]: (on cache.running_must_fit),
        "The running task stays in its cache if it would be too large for the other CPU.";
    "misfit-if-helpful" release (7, 3): (on balance.misfit_counts_if_helpful),
        "A misfit task counts only when the CPU that balances is larger.";
    "asym-spread" release (7, 3): (on balance.spreads_over_capacities),
        "Tasks are spread over groups of unequal capacity, too.";
    "equal-clusters" release (7, 3): (on balance.pulls_between_equal_clusters),
        "The only task of a CPU may go to another cluster of the same capacity.";
    "nohz-kicks-idle-core" release (7, 3): (on balance.nohz_kicks_idle_core),
        "A CPU of a core that is all idle is kicked to balance for idle CPUs, if there is one.";
    "ni-rate" "9fe89f022c05" (7, 1): (on features.ni_rate),
        "Balancing before idling runs the more often the rarer it is (NI_RATE).";
}
