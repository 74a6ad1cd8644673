//! Named patches: single mechanisms that can be added to a kernel or taken away from it.
//!
//! Worked example: kernel 5.13 with the patch `burst` is 5.13 in every other respect, but groups may
//! carry unused quota over; 6.1 with `-burst` is 6.1 without that. A patch that would change nothing
//! (`burst` on 6.1) is refused, because it would compare a kernel with itself.

use crate::balance::{BusiestGroup, LoadGate};
use crate::select::{IdleScan, IdlestGroup};

use super::{FairClass, Protection, Reweight, Rules, ThrottleModel, Version};

/// Where a mechanism comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Abbreviated id of the commit that brought it.
    Commit(&'static str),
    /// Posted to the mailing list, never merged.
    Posted,
    /// Never published: found by experiment on a kernel that has it.
    Unpublished,
}

/// A mechanism that one change brought.
#[derive(Debug)]
pub struct Patch {
    /// Name in experiment files.
    pub name: &'static str,
    /// Where it comes from.
    pub origin: Origin,
    /// Release that brought it; `None` = never merged.
    pub since: Option<Version>,
    /// Last release that has it; `None` = it still is there.
    pub until: Option<Version>,
    /// Stable series that got it too: series and first patch level.
    pub backports: &'static [(u16, u16, u16)],
    /// The fair class it changes; `None` = either.
    pub needs: Option<FairClass>,
    /// What it does, in a line.
    pub description: &'static str,
    has: fn(&Rules) -> bool,
    set: fn(&mut Rules, bool),
}

impl Patch {
    /// The patch called `name`.
    pub fn named(name: &str) -> Option<&'static Patch> {
        PATCHES.iter().find(|patch| patch.name == name)
    }

    /// Whether a kernel has the mechanism.
    pub fn is_in(&self, rules: &Rules) -> bool {
        (self.has)(rules)
    }

    /// Adds the mechanism or takes it away.
    pub fn apply(&self, rules: &mut Rules, on: bool) {
        (self.set)(rules, on);
    }
}

macro_rules! patches {
    ($($name:literal $commit:tt $since:tt $(..= $until:tt)? $(also $backports:tt)? $(for $class:ident)?
        : $has:expr, $set:expr, $description:literal;)*) => {
        /// Every named patch, oldest first; those never merged come last.
        pub static PATCHES: &[Patch] = &[$(Patch {
            name: $name,
            origin: patches!(@origin $commit),
            since: patches!(@since $since),
            until: patches!(@until $($until)?),
            backports: patches!(@backports $($backports)?),
            needs: patches!(@needs $($class)?),
            description: $description,
            has: $has,
            set: $set,
        },)*];
    };
    (@origin posted) => { Origin::Posted };
    (@origin unpublished) => { Origin::Unpublished };
    (@origin $commit:literal) => { Origin::Commit($commit) };
    (@since never) => { None };
    (@since ($major:literal, $minor:literal)) => { Some(Version::new($major, $minor)) };
    (@until) => { None };
    (@until ($major:literal, $minor:literal)) => { Some(Version::new($major, $minor)) };
    (@backports) => { &[] };
    (@backports $backports:tt) => { &$backports };
    (@needs) => { None };
    (@needs $class:ident) => { Some(FairClass::$class) };
}

/// Rules are picked up by plain fields, so most patches are one assignment.
fn choose<T>(on: bool, with: T, without: T) -> T {
    if on { with } else { without }
}

patches! {
    "shares-from-load-avg" "3d4b60d3e3dd" (4, 15): |rules| rules.shares_from_load_avg,
        |rules, on| rules.shares_from_load_avg = on,
        "Group shares follow the larger of weight and load average of each CPU's queue.";
    "recent-used-cpu" "32e839dda3ba" (4, 16): |rules| rules.recent_used_cpu,
        |rules, on| rules.recent_used_cpu = on,
        "Wakeups try the CPU the task used before its last one, when that is idle.";
    "wake-affine-cache" "7332dec055f2" (4, 16): |rules| rules.placement.wa_idle_needs_cache,
        |rules, on| rules.placement.wa_idle_needs_cache = on,
        "An idle waking CPU attracts the task only if it shares the cache with the task's last CPU.";
    "wake-affine-equal" "082f764a2f3f" (4, 17): |rules| rules.placement.wa_weight_keeps_equal,
        |rules, on| rules.placement.wa_weight_keeps_equal = on,
        "Of two equally loaded CPUs the task's last one is taken.";
    "slice-expiry" "512ac999d275" (4, 18) ..= (5, 3): |rules| rules.slice_expiry,
        |rules, on| (rules.slice_expiry, rules.returns_need_same_refill) = (on, on),
        "Runtime a CPU did not use expires with its period (taken out again by de53fd7aedb1).";
    "slack-timer-stays" "66567fcbaeca" (5, 3): |rules| !rules.slack_timer_is_pushed,
        |rules, on| rules.slack_timer_is_pushed = !on,
        "The slack timer is no longer pushed away by every return of runtime.";
    "balance-rework" "0b0695f2b34a" (5, 5):
        |rules| rules.balance.busiest_group == BusiestGroup::GroupTypes,
        |rules, on| rules.balance.busiest_group =
            choose(on, BusiestGroup::GroupTypes, BusiestGroup::AverageLoad),
        "Load balance compares groups by type, and moves load, utilisation or tasks accordingly.";
    "idlest-rework" "57abff067a08" (5, 5):
        |rules| rules.placement.idlest_group == IdlestGroup::GroupTypes,
        |rules, on| rules.placement.idlest_group =
            choose(on, IdlestGroup::GroupTypes, IdlestGroup::SpareCapacity),
        "Forked and executed tasks are placed by the same group types.";
    "kthread-stacking" "52262ee567ad" (5, 6): |rules| rules.placement.per_cpu_kthread_stacks,
        |rules, on| rules.placement.per_cpu_kthread_stacks = on,
        "A per-CPU kernel thread keeps the task it wakes on its CPU.";
    "affinity-distribute" "46a87b3851f0" (5, 7): |rules| rules.affinity_distributes,
        |rules, on| rules.affinity_distributes = on,
        "Tasks whose affinity changes are spread over the new set.";
    "throttle-asks-again" "e98fa02c4f2e" (5, 8): |rules| rules.throttle_asks_again,
        |rules, on| rules.throttle_asks_again = on,
        "A queue about to be throttled asks the pool once more.";
    "imbalance-117" "2208cdaa56c9" (5, 10): |rules| rules.balance.imbalance_pct == 117,
        |rules, on| rules.balance.imbalance_pct = choose(on, 117, 125),
        "An imbalance of 17 % counts, instead of 25 %.";
    "busy-factor-16" "6e7499135db7" (5, 10): |rules| rules.balance.busy_factor == 16,
        |rules, on| rules.balance.busy_factor = choose(on, 16, 32),
        "Busy CPUs balance 16 times as rarely as idle ones, instead of 32 times.";
    "busy-interval-shift" "e4d32e4d5444" (5, 10): |rules| rules.balance.busy_interval_minus_one,
        |rules, on| rules.balance.busy_interval_minus_one = on,
        "Busy intervals are a jiffy shorter, so that domains do not balance at once.";
    "load-gate-relaxed" "5a7f55590467" (5, 10):
        |rules| rules.balance.load_gate == LoadGate::HalvedPerFailure,
        |rules, on| rules.balance.load_gate =
            choose(on, LoadGate::HalvedPerFailure, LoadGate::HalfUntilFailures),
        "A task may be twice as heavy as the imbalance after each failure to move any.";
    "wake-affine-idle-prev" "d8fcb81f1acf" (5, 11): |rules| rules.placement.wa_idle_prefers_prev,
        |rules, on| rules.placement.wa_idle_prefers_prev = on,
        "An idle last CPU settles an affine wakeup.";
    "rt-distribute" "14e292f8d453" (5, 11): |rules| rules.rt_distributes,
        |rules, on| rules.rt_distributes = on,
        "Real-time tasks pushed away are spread over equally good CPUs.";
    "one-scan" "9fe1f127b913" (5, 12): |rules| rules.placement.idle_scan == IdleScan::OnePass,
        |rules, on| rules.placement.idle_scan =
            choose(on, IdleScan::OnePass, IdleScan::ThreePasses),
        "One pass over the cache's CPUs looks for an idle core or an idle CPU, instead of three.";
    "smt-of-prev" "c722f35b513f" (5, 13) also [(5, 12, 3)]: |rules| rules.placement.scan_smt_of_prev,
        |rules, on| rules.placement.scan_smt_of_prev = on,
        "Without an idle core, an idle sibling of the task's last CPU is tried first.";
    "recent-cpu-of-wakee" "89aafd67f28c" (5, 15): |rules| rules.recent_used_cpu && !rules.placement.recent_used_cpu_of_waker,
        |rules, on| rules.placement.recent_used_cpu_of_waker = !on,
        "The CPU remembered as recently used is the woken task's last one, not the waker's.";
    "burst" "f4183717b370" (5, 14): |rules| rules.burst, |rules, on| rules.burst = on,
        "Quota a group did not use may be carried over, up to cpu.max.burst.";
    "newidle-skips-pending" "e5e678e4fea2" (5, 14): |rules| rules.balance.newidle_skips_pending,
        |rules, on| rules.balance.newidle_skips_pending = on,
        "A CPU about to idle does not balance while a wakeup is on its way to it.";
    "age-average-idle" "94aafc3ee31d" (5, 14): |rules| rules.placement.sis_prop_ages,
        |rules, on| rules.placement.sis_prop_ages = on,
        "The average idle time that limits scans ages while the CPU is busy.";
    "burst-statistics" "bcb1704a1ed2" (5, 16): |rules| rules.burst_statistics,
        |rules, on| rules.burst_statistics = on,
        "cpu.stat counts bursts (nr_bursts, burst_usec).";
    "cluster-domain" "66558b730f25" (5, 16): |rules| rules.balance.cluster_level,
        |rules, on| rules.balance.cluster_level = on,
        "CPUs that share an L2 cache are a level of balancing.";
    "kthread-stacking-task" "8b4e74ccb582" (5, 17)
        also [(5, 10, 94), (5, 15, 17), (5, 16, 3)]:
        |rules| rules.placement.per_cpu_kthread_in_task_only,
        |rules, on| rules.placement.per_cpu_kthread_in_task_only = on,
        "Interrupts that hit a per-CPU kernel thread do not keep the woken task there.";
    "newidle-bails-out" "792b9f65a568" (6, 0): |rules| rules.balance.newidle_bails_out,
        |rules, on| rules.balance.newidle_bails_out = on,
        "Balancing before idling ends as soon as a task arrives.";
    "tick-slice-cap" "79ba1e607d68" (6, 3) for Cfs: |rules| rules.slice_capped_by_latency,
        |rules, on| rules.slice_capped_by_latency = on,
        "The tick lets no task run longer than the targeted latency.";
    "async-unthrottle" "8ad075c2eb1f" (6, 3): |rules| rules.async_unthrottle,
        |rules, on| rules.async_unthrottle = on,
        "Throttled queues are released by their own CPUs instead of the timer's.";
    "timer-interleave" "41abdba93747" (6, 4): |rules| rules.timer_interleave,
        |rules, on| rules.timer_interleave = on,
        "Bandwidth period timers start at a random offset instead of all together.";
    "empty-throttle-clock" "79462e8c879a" (6, 6): |rules| rules.throttled_clock_only_when_queued,
        |rules, on| rules.throttled_clock_only_when_queued = on,
        "Throttled time of queues without tasks is not counted.";
    "smt-balance" "fee1759e4f04" (6, 6): |rules| rules.balance.smt_aware,
        |rules, on| rules.balance.smt_aware = on,
        "Tasks on sibling threads are pulled apart while other cores idle.";
    "tg-load-ratelimit" "1528c661c24b" (6, 7): |rules| rules.tg_load_avg_interval_ns > 0,
        |rules, on| rules.tg_load_avg_interval_ns = choose(on, 1_000_000, 0),
        "A CPU writes a group's load average at most once a millisecond.";
    "rt-pushable-overload" "612f769edd06" (6, 7): |rules| rules.rt_overload_by_pushable,
        |rules, on| rules.rt_overload_by_pushable = on,
        "Only waiting real-time tasks that may move make a CPU overloaded.";
    "reweight-vruntime" "eab03c23c2a1" (6, 7) also [(6, 6, 30)] for Eevdf:
        |rules| rules.reweight != Reweight::KeepVruntime,
        |rules, on| rules.reweight = choose(on, Reweight::ScaleLag, Reweight::KeepVruntime),
        "A new weight rescales an entity's lag, not only its deadline.";
    "util-est-single" "11137d384996" (6, 8): |rules| rules.util_est_single_value,
        |rules, on| rules.util_est_single_value = on,
        "Utilisation is estimated by one value, and not taken from tasks that had to wait.";
    "cluster-scan" "8881e1639f1f" (6, 8): |rules| rules.placement.cluster_scan,
        |rules, on| rules.placement.cluster_scan = on,
        "Wakeups look among the CPUs that share the L2 cache before the others.";
    "initial-util" "72bffbf57c52" (6, 10): |rules| rules.initial_util_unscaled,
        |rules, on| rules.initial_util_unscaled = on,
        "New tasks start with the utilisation of their share instead of half of what is left.";
    "idle-among-siblings" "faa42d29419d" (6, 12): |rules| !rules.idle_policy_gives_way,
        |rules, on| rules.idle_policy_gives_way = !on,
        "Whether SCHED_IDLE gives way is judged among siblings, not among tasks.";
    "fair-server" "557a6bfc662c" (6, 12): |rules| rules.fair_server,
        |rules, on| (rules.fair_server, rules.rt_throttling) = (on, !on),
        "Fair tasks have 50 ms a second under real-time load, instead of real-time throttling.";
    "reweight-place" "6d71a9c61604" (6, 13) for Eevdf:
        |rules| rules.reweight == Reweight::PlaceAgain,
        |rules, on| rules.reweight = choose(on, Reweight::PlaceAgain, Reweight::ScaleLag),
        "A reweighted entity is placed anew, so that V does not drift.";
    "pick-buddy" "2a77e4be12cb" (6, 14) also [(6, 12, 117)] for Eevdf: |rules| rules.picks_any_buddy,
        |rules, on| (rules.picks_any_buddy, rules.features.pick_buddy) = (on, on),
        "Picks honour buddies set by sleeping siblings and yield_to too.";
    "delayed-stay" "61b82dfb6b7e" (6, 14): |rules| rules.balance.delayed_move_for_load_only,
        |rules, on| rules.balance.delayed_move_for_load_only = on,
        "Sleeping tasks that still are queued move for load only.";
    "base-slice-700us" "2ae891b82695" (6, 15) also [(6, 12, 31), (6, 14, 9)] for Eevdf:
        |rules| rules.normalized_base_slice_ns == 700_000,
        |rules, on| rules.set_normalized_base_slice(choose(on, 700_000, 750_000)),
        "The base slice is 0.70 ms per CPU step instead of 0.75.";
    "wake-sync-delayed" "aa3ee4f0b754" (6, 16) also [(6, 12, 37), (6, 15, 3)] for Eevdf:
        |rules| rules.placement.wa_idle_ignores_delayed,
        |rules, on| rules.placement.wa_idle_ignores_delayed = on,
        "Sleeping tasks that still are queued do not keep a woken task away from its waker's CPU.";
    "newidle-bump" "155213a2aed4" (6, 17) ..= (6, 18)
        also [(6, 1, 149), (6, 6, 103), (6, 12, 43), (6, 15, 11), (6, 16, 2)]:
        |rules| rules.balance.newidle_failure_costs,
        |rules, on| rules.balance.newidle_failure_costs = on,
        "Each failure to find a task before idling makes trying look dearer (reverted in 6.18.3).";
    "vprot" "052c3d87c82e" (6, 17) for Eevdf: |rules| rules.protection == Protection::Vprot,
        |rules, on| rules.protection = choose(on, Protection::Vprot, Protection::UntilDeadline),
        "Protection from preemption ends with the shortest slice queued.";
    "task-throttle" "e1fad12dcb66" (6, 18): |rules| rules.throttle_model == ThrottleModel::Task,
        |rules, on| rules.throttle_model = choose(on, ThrottleModel::Task, ThrottleModel::Queue),
        "Tasks are throttled at their return to user mode instead of queues at once.";
    "yield-forfeit" "79104becf42b" (6, 19) also [(6, 6, 120), (6, 12, 63), (6, 17, 13), (6, 18, 2)]
        for Eevdf: |rules| rules.yield_forfeits, |rules, on| rules.yield_forfeits = on,
        "A task that yields gives up the rest of its request.";
    "lag-limit" "6e3c0a4e1ad1" (7, 0) also [(6, 18, 17)] for Eevdf: |rules| rules.lag_limit_by_longest,
        |rules, on| rules.lag_limit_by_longest = on,
        "Lag is bounded by the longest request queued and a tick.";
    "reweight-vprot" "ff38424030f9" (7, 0) also [(6, 18, 45)] for Eevdf:
        |rules| rules.reweight_scales_protection,
        |rules, on| rules.reweight_scales_protection = on,
        "A new weight rescales what is left of the running entity's protection.";
    "vprot-at-pick" "bcd74b2ffdd0" (7, 0) also [(6, 18, 17)] for Eevdf:
        |rules| rules.protection_at_pick_only, |rules, on| rules.protection_at_pick_only = on,
        "Protection is set at picks only, not when the running task is changed.";
    "pstate-holdoff" posted never: |rules| rules.pstate_holdoff_samples == 12,
        |rules, on| rules.pstate_holdoff_samples = choose(on, 12, 3),
        "intel_pstate's PID holds the P-state for 12 sample periods of idleness instead of 3.";
    "vcpu-pack" unpublished never: |rules| rules.placement.vcpu_pack,
        |rules, on| rules.placement.vcpu_pack = on,
        "Wakees go to the waker's CPU while it has room, and only then: a provider's `sched_vcpu_pack=15`.";
}
