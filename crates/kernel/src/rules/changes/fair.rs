//! Changes of the fair class: picking, placement on the queue, weights and load averages.

use super::changes;
use crate::rules::{CgroupMode, FairClass, IdlePeltSync, Protection, Reweight, SumChange};

/// Switches between CFS and EEVDF: the features that end and begin with the change of the fair
/// class.
fn set_eevdf(rules: &mut crate::rules::Rules, on: bool) {
    rules.fair = if on { FairClass::Eevdf } else { FairClass::Cfs };
    let features = &mut rules.features;
    for of_cfs in [
        &mut features.gentle_fair_sleepers,
        &mut features.start_debit,
        &mut features.last_buddy,
        &mut features.alt_period,
        &mut features.base_slice,
        &mut rules.slice_capped_by_latency,
    ] {
        *of_cfs = !on;
    }
    for of_eevdf in [
        &mut features.place_lag,
        &mut features.place_deadline_initial,
        &mut features.run_to_parity,
    ] {
        *of_eevdf = on;
    }
    if !on {
        for later in [
            &mut features.place_rel_deadline,
            &mut features.preempt_short,
            &mut features.delay_dequeue,
            &mut features.delay_zero,
            &mut features.pick_buddy,
        ] {
            *later = false;
        }
        rules.flat_pick = false;
    }
}

/// All sums but the one that `removed-util-floor` is about.
fn set_sums_floor(rules: &mut crate::rules::Rules, on: bool) {
    let sums = &mut rules.queue_sums;
    for sum in [
        &mut sums.dequeued_load,
        &mut sums.detached,
        &mut sums.removed,
        &mut sums.group_load,
        &mut sums.group,
    ] {
        *sum = if on {
            SumChange::Floor
        } else {
            SumChange::Follow
        };
    }
}

changes! {
    "shares-from-load-avg" "3d4b60d3e3dd" (4, 15): (on shares_from_load_avg),
        "Group shares follow the larger of weight and load average of each CPU's queue.";
    "util-est" "7f65ea42eb00" (4, 17): (on features.util_est),
        "A task's utilisation at its last sleep is remembered (UTIL_EST).";
    "pelt-clock-before-put" "23127296889f" (5, 1) until (5, 4):
        (idle_pelt_sync: IdlePeltSync::FairOnly => IdlePeltSync::BeforePut),
        "The load-tracking clock of a CPU that goes idle catches up, whichever task ran last.";
    "util-est-fastup" "b8c96361402a" (5, 5) until (6, 8): (on features.util_est_fastup),
        "The estimate of utilisation follows increases at once (UTIL_EST_FASTUP).";
    "alt-period" "0c2de3f054a5" (5, 13) also [(5, 10, 36)] until (6, 6) for Cfs: (on features.alt_period),
        "The period depends on all tasks of the CPU, not on those of the queue (ALT_PERIOD).";
    "slice-floor" "0c2de3f054a5" (5, 13) also [(5, 10, 36)] until (6, 6) for Cfs: (on features.base_slice),
        "No slice is shorter than the minimum granularity (BASE_SLICE, a switch beside ALT_PERIOD).";
    "group-load-sum-follows" "7c7ad626d9a0" (5, 13) also [(5, 10, 44)]:
        (queue_sums.group_load: SumChange::Subtract => SumChange::Follow, ..),
        "The sum of load becomes what its average stands for when a group's load changes.";
    "detached-sums-follow" "fcf6631f3736" (5, 13) also [(5, 10, 46)]:
        (queue_sums.detached: SumChange::Subtract => SumChange::Follow, ..),
        "The sums of utilisation and runnable time follow their averages when a task is detached.";
    "unthrottled-leaf" "a7b359fc6a37" (5, 13): (on unthrottled_leaf_decays),
        "An unthrottled queue is a leaf again if anything is left of its averages, even without tasks.";
    "leaf-until-children" "fdaba61ef8a2" (5, 14): (on leaf_until_children),
        "A queue stays on the leaf list as long as one below it does.";
    "removed-sums-follow" "1c35b07e6d39" (5, 14) also [(5, 10, 51)]:
        (queue_sums.removed: SumChange::Subtract => SumChange::Follow, ..)
        (queue_sums.removed_util: SumChange::Subtract => SumChange::Follow, ..),
        "The sums follow their averages when sleepers have left for another CPU.";
    "dequeued-load-sum-follows" "ceb6ba45dc80" (5, 14):
        (queue_sums.dequeued_load: SumChange::Subtract => SumChange::Follow, ..),
        "The sum of load follows its average when an entity is dequeued.";
    "buddies-end-when-set" "21f56ffe4482" (5, 14) for Cfs: (off pick_clears_buddies),
        "Hints at an entity end when a CPU switches to it, not when it is picked again.";
    "idle-granularity" "51ce83ed523b" (5, 16) for Cfs: (
            has |rules| rules.idle_min_granularity_ns == 750_000,
            set |rules, on| rules.idle_min_granularity_ns =
                if on { 750_000 } else { 750_000 * rules.scaling_factor }
        ),
        "The minimum granularity of SCHED_IDLE tasks does not grow with the number of CPUs.";
    "idle-sleeper-credit" "2cae3948edd4" (5, 16) for Cfs: (on idle_sleeper_credit_is_granularity),
        "SCHED_IDLE sleepers get half the minimum granularity as credit instead of half the latency.";
    "removed-util-floor" "98b0d890220d" (5, 17) also [(5, 10, 96), (5, 16, 5)]:
        (queue_sums.removed_util: SumChange::Follow => SumChange::Floor),
        "What sleepers take away is subtracted from the sum of utilisation, down to what its average stands for.";
    "sums-floor" "2d02fa8cc21a" (5, 17): (
            has |rules| rules.queue_sums.removed == SumChange::Floor,
            set set_sums_floor
        ),
        "What leaves a queue is subtracted from all its sums, down to what their averages stand for.";
    "runnable-sum-wraps" "95246d1ec80b" (5, 17)
        until (7, 3) and [(6, 1, 188), (6, 12, 110), (7, 2, 6)]: (on queue_sums.group_runnable_wraps),
        "The sum of runnable time that a group hands on wraps at 32 bits (mended by 4f166adb5cb0).";
    "no-throttled-leaves" "51bf903b64bd" (6, 0): (off throttled_leaves),
        "Throttled queues are off the leaf list, whoever wakes in them.";
    "migrated-sleeper-lag" "e2f3e35f1f5a" (6, 0): (on migrated_sleepers_age),
        "A task that leaves an idle CPU is aged for the time its load-tracking clock stood still.";
    "detach-in-dequeue" "e1f078f50478" (6, 1): (on dequeue_detaches),
        "A task that is moved takes its averages away before its old group is weighed anew.";
    "deferred-attach" "7e2edaf61814" (6, 1): (off fork_attaches),
        "A new task's averages join its queue when it is enqueued, not before.";
    "tick-slice-cap" "79ba1e607d68" (6, 3) until (6, 6) for Cfs: (on slice_capped_by_latency),
        "The tick lets no task run longer than the targeted latency.";
    "long-sleeper-reset" "829c1651e9c4" (6, 3) also [(5, 10, 177), (6, 1, 22)] for Cfs: (on long_sleeper_reset),
        "The vruntime of a task that slept for hours is not taken for one far ahead.";
    "eevdf" "147f3efaa241" (6, 6): (has |rules| rules.fair == FairClass::Eevdf, set set_eevdf),
        "The fair class picks the earliest eligible virtual deadline instead of the smallest vruntime.";
    "tg-load-ratelimit" "1528c661c24b" (6, 7): (
            has |rules| rules.tg_load_avg_interval_ns > 0,
            set |rules, on| rules.tg_load_avg_interval_ns = if on { 1_000_000 } else { 0 }
        ),
        "A CPU writes a group's load average at most once a millisecond.";
    "reweight-vruntime" "eab03c23c2a1" (6, 7) also [(6, 6, 30)] for Eevdf:
        (reweight: Reweight::KeepVruntime => Reweight::ScaleLag, ..),
        "A new weight rescales an entity's lag, not only its deadline.";
    "util-est-single" "11137d384996" (6, 8): (on util_est_single_value),
        "Utilisation is estimated by one value, and not taken from tasks that had to wait.";
    "reweight-on-change" release (6, 9): (on reweight_only_on_change),
        "Group entities are reweighted only when their weight changed.";
    "initial-util" "72bffbf57c52" (6, 10): (on initial_util_unscaled),
        "New tasks start with the utilisation of their share instead of half of what is left.";
    "idle-policy-reweights" "d32960528702" (6, 11) also [(6, 1, 103)]: (on idle_policy_reweights),
        "The load average of a task follows its weight when its policy becomes SCHED_IDLE.";
    "fork-charges-nobody" "d2929762cc3f" (6, 12): (off fork_charges_parent),
        "A fork neither charges the forking task nor reads the clock of its CPU.";
    "idle-among-siblings" "faa42d29419d" (6, 12): (off idle_policy_gives_way),
        "Whether SCHED_IDLE gives way is judged among siblings, not among tasks.";
    "util-est-before-dequeue" release (6, 12) until (7, 2) and [(7, 1, 8)]: (on util_est_before_dequeue),
        "The estimate of a task that goes to sleep is taken before what it ran last is counted.";
    "first-request-halved" release (6, 12) for Eevdf: (on first_request_halved),
        "PLACE_DEADLINE_INITIAL halves the first request of new tasks, which were placed twice before.";
    "place-rel-deadline" "82e9d0456e06" (6, 12) for Eevdf: (on features.place_rel_deadline),
        "Migrated and changed tasks keep the rest of their request (PLACE_REL_DEADLINE).";
    "delay-dequeue" "152e11f6df29" (6, 12) for Eevdf: (on features.delay_dequeue),
        "A task that sleeps with negative lag stays queued until it is eligible (DELAY_DEQUEUE).";
    "delay-zero" "54a58a787791" (6, 12) for Eevdf: (on features.delay_zero),
        "Positive lag gained by a delayed dequeue is dropped (DELAY_ZERO).";
    "custom-slices" "857b158dc5e8" (6, 12) for Eevdf: (on custom_slices),
        "sched_setattr sets the length of requests, and groups ask for the shortest among theirs.";
    "preempt-short" "85e511df3cec" (6, 12) for Eevdf: (on features.preempt_short),
        "A woken task with a shorter request may end the running one's protection (PREEMPT_SHORT).";
    "runnable-without-delayed" "76f2f783294d" (6, 13) also [(6, 12, 7)] for Eevdf: (off delayed_count_as_runnable),
        "Queues do not count tasks whose dequeue is delayed as runnable.";
    "reweight-place" "6d71a9c61604" (6, 13) until (7, 1) and [(6, 18, 45)] for Eevdf:
        (reweight: Reweight::ScaleLag => Reweight::PlaceAgain),
        "A reweighted entity is placed anew, so that V does not drift.";
    "empty-group-keeps-weight" "66951e4860d3" (6, 13) also [(6, 12, 11)]: (on skip_empty_group_reweight),
        "A group whose queue is empty keeps its weight.";
    "pick-buddy" "2a77e4be12cb" (6, 14) also [(6, 12, 13)] for Eevdf: (on picks_any_buddy) (on features.pick_buddy),
        "Picks honour buddies set by sleeping siblings and yield_to too.";
    "base-slice-700us" "2ae891b82695" (6, 15) also [(6, 12, 31), (6, 14, 9)] for Eevdf: (
            has |rules| rules.normalized_base_slice_ns == 700_000,
            set |rules, on| rules.set_normalized_base_slice(if on { 700_000 } else { 750_000 })
        ),
        "The base slice is 0.70 ms per CPU step instead of 0.75.";
    "idle-loses-protection" "f553741ac8c0" (6, 15) also [(6, 12, 23)] for Eevdf: (on idle_preemption_cancels_protection),
        "A non-idle entity that preempts an idle one ends its protection.";
    "delayed-estimate-once" release (6, 18): (off delayed_estimate_leaves_twice),
        "The estimate of a delayed sleeper that changes its class leaves its queue once, not twice.";
    "util-est-above-capacity" release (6, 16): (off util_est_within_capacity),
        "Utilisation above the CPU's capacity is a sample for the estimate to come down to.";
    "vprot" "052c3d87c82e" (6, 17) for Eevdf: (protection: Protection::UntilDeadline => Protection::Vprot),
        "Protection from preemption ends with the shortest slice queued.";
    "idle-pelt-before-put" release (6, 18) also [(6, 12, 55), (6, 17, 5)]
        until (6, 19) and [(5, 4, 301), (5, 10, 246), (5, 15, 196), (6, 1, 158), (6, 6, 114), (6, 12, 68), (6, 18, 8)]:
        (idle_pelt_sync: IdlePeltSync::FairOnly => IdlePeltSync::BeforePut),
        "The load-tracking clock catches up before the last task is put, whatever its class.";
    "idle-pelt-after-put" release (6, 19)
        also [(5, 4, 301), (5, 10, 246), (5, 15, 196), (6, 1, 158), (6, 6, 114), (6, 12, 68), (6, 18, 8)]:
        (idle_pelt_sync: IdlePeltSync::FairOnly => IdlePeltSync::AfterPut),
        "The load-tracking clock catches up when the idle task is set, after the last task is put.";
    "yield-forfeit" "79104becf42b" (6, 19) also [(6, 6, 120), (6, 12, 63), (6, 17, 13), (6, 18, 2)] for Eevdf:
        (on yield_forfeits),
        "A task that yields gives up the rest of its request.";
    "leaf-until-told" release (6, 19) also [(6, 6, 120), (6, 12, 63), (6, 17, 13), (6, 18, 2)]: (on leaf_until_group_knows),
        "A queue stays on the leaf list until its group has heard that nothing is left of its load.";
    "fork-no-preempt" "e837456fdca8" (6, 19) also [(6, 18, 33)] for Eevdf: (on forks_do_not_preempt),
        "A forked task preempts its parent by a shorter request only (in one commit with the next row).";
    "buddies-at-wakeup" "e837456fdca8" (6, 19) also [(6, 18, 33)] for Eevdf: (on wakeups_heed_buddies),
        "A wakeup does not preempt where the pick would take a buddy, and otherwise shortens protection.";
    "origin-follows-order" "79f3f9bedd14" (6, 19) also [(6, 12, 64), (6, 18, 3)]
        until (7, 0) and [(6, 12, 78), (6, 18, 17)] for Eevdf: (on origin_follows_order),
        "The origin of virtual time follows the average whenever an entity enters or leaves the order.";
    "zero-vruntime" "b3d99f43c72b" (7, 0) also [(6, 12, 78), (6, 18, 17)] for Eevdf: (on origin_follows_average),
        "The origin of virtual time follows the average, which keeps sums small.";
    "lag-limit" "6e3c0a4e1ad1" (7, 0) also [(6, 18, 17)] for Eevdf: (on lag_limit_by_longest),
        "Lag is bounded by the longest request queued and a tick.";
    "vprot-at-pick" "bcd74b2ffdd0" (7, 0) also [(6, 18, 17)] for Eevdf: (on protection_at_pick_only),
        "Protection is set at picks only, not when the running task is changed.";
    "reweight-vprot" "ff38424030f9" (7, 0) also [(6, 18, 45)] for Eevdf: (on reweight_scales_protection),
        "A new weight rescales what is left of the running entity's protection.";
    "reweight-rescale" "101f3498b4bd" (7, 1) also [(6, 18, 45)] for Eevdf: (reweight: Reweight::PlaceAgain => Reweight::Rescale),
        "A new weight rescales lag and deadline without placing anew, off the queue too.";
    "full-weight-division" "db4551e2ba34" (7, 1): (on divides_by_full_weight),
        "Real time is divided by all of a weight instead of multiplied with the inverse of its whole part.";
    "full-weight-sums" "4823725d9d1d" (7, 1) for Eevdf: (on full_weight_in_sums),
        "Weights count with their fraction bits in the average of virtual time.";
    "delayed-lag" "059258b0d424" (7, 1) for Eevdf: (on delayed_lag_never_falls),
        "The lag of a sleeping task that still is queued never falls.";
    "requeue-charges" release (7, 2) for Eevdf: (on requeue_charges_running),
        "The running task is charged before a sleeper that is still queued is placed again.";
    "tg-load-queue-clock" release (7, 2): (on tg_load_avg_by_queue_clock),
        "The millisecond between two writes of a group's load average is one of the queue's clock.";
    "slices-follow-rotations" "51b0e68cfa0a" (7, 3) also [(7, 2, 7)] for Eevdf: (off rotations_lose_slices),
        "The shortest and longest request of a queue go along where its tree is rotated.";
    "cgroup-concur" "fb1050ac8e40" (7, 3): (cgroup_mode: CgroupMode::Smp => CgroupMode::Concur),
        "A group weighs its shares for each of its tasks, up to the number of its CPUs (cgroup_mode concur).";
    "flat-pick" "85570f10a4c6" (7, 3) for Eevdf: (on flat_pick),
        "All tasks of a CPU are in one order, each with its part of the CPU over all levels of groups.";
    "short-slices" "8f97b627ff1c" (7, 3) for Eevdf: (on protects_until_ineligible),
        "Shorter requests end protection where the running task is no longer eligible.";
    "changed-class-preempts" release (7, 3) also [(7, 2, 13)]: (on changed_class_preempts),
        "A task of another class may preempt as after a wakeup; one that runs and gets a higher one asks anew.";
    "lag-inflated-in-parts" release (7, 3) for Eevdf: (on lag_inflated_in_parts),
        "The lag that a task is placed with grows by its part of the weights; the product of all overflows less.";
    "load-sums-in-full" "089d84203ad4" (7, 0): (on queue_sums.in_full),
        "A sum of load and what its average stands for are compared in 64 bits, after additions too.";
    "detach-before-reweight" "637b0682821b" (6, 19): (on class_change_detaches_first),
        "A task that becomes a real-time one leaves the load of its nice value behind if it had another.";
    "move-may-preempt" release (7, 1): (on moved_task_preempts),
        "A waiting task that comes to another group may preempt, as after a wakeup.";
    "short-passes-buddies" "78cde54ea5f0" (7, 1) for Eevdf: (on short_requests_pass_buddies),
        "Buddies do not stand in the way of a wakeup with a shorter request, and end where it preempts.";
    "wakeup-asks-pick" "ac8e69e69363" (7, 1) also [(6, 18, 33), (7, 0, 10)] for Eevdf: (on wakeup_asks_pick),
        "A wakeup for which the pick would take a sleeper that is still queued takes it off and asks anew.";
}
