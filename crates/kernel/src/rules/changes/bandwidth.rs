//! Changes of CPU bandwidth limits.

use super::changes;
use crate::rules::ThrottleModel;

changes! {
    "slice-expiry" "512ac999d275" (4, 18) until (5, 4): (
            has |rules| rules.slice_expiry,
            set |rules, on| (rules.slice_expiry, rules.returns_need_same_refill) = (on, on)
        ),
        "Runtime a CPU did not use expires with its period (taken out again by de53fd7aedb1).";
    "throttled-last-in-line" "c06f04c70489" (4, 20): (off throttled_first_in_line),
        "A queue that is throttled goes to the end of the list that refills are handed out by.";
    "slack-timer-stays" "66567fcbaeca" (5, 3): (off slack_timer_is_pushed),
        "The slack timer is no longer pushed away by every return of runtime.";
    "returns-of-any-refill" "de53fd7aedb1" (5, 4): (off returns_need_same_refill),
        "Local runtime of an earlier refill goes back to the pool too.";
    "throttle-asks-again" "e98fa02c4f2e" (5, 8): (on throttle_asks_again),
        "A queue about to be throttled asks the pool once more.";
    // It also refills the pool before the list of throttled queues is looked at.
    "burst" "f4183717b370" (5, 14): (on burst) (on refill_first),
        "Quota a group did not use may be carried over, up to cpu.max.burst.";
    "queues-until-free" "b027789e5e50" (5, 16) also [(5, 15, 5)]: (on queues_outlive_release),
        "The queues of a removed group go when it is freed, so that no limit above puts one that is gone back on a list.";
    "burst-statistics" "bcb1704a1ed2" (5, 16): (on burst_statistics),
        "cpu.stat counts bursts (nr_bursts, burst_usec).";
    "async-unthrottle" "8ad075c2eb1f" (6, 3): (on async_unthrottle),
        "Throttled queues are released by their own CPUs instead of the timer's.";
    "unthrottle-at-one-clock" "ebb83d84e49b" (6, 5): (on unthrottles_at_one_clock),
        "A CPU that releases throttled queues reads its clock once, before the first.";
    "timer-interleave" "41abdba93747" (6, 4): (on timer_interleave),
        "Bandwidth period timers start at a random offset instead of all together.";
    "empty-throttle-clock" "79462e8c879a" (6, 6): (on throttled_clock_only_when_queued),
        "Throttled time of queues without tasks is not counted.";
    "pick-asks-for-runtime" release (6, 12): (on picks_ask_for_runtime),
        "Queues that start to run behind another class ask for runtime, or are throttled, where they are picked.";
    "task-throttle" "e1fad12dcb66" (6, 18): (throttle_model: ThrottleModel::Queue => ThrottleModel::Task),
        "Tasks are throttled at their return to user mode instead of queues at once.";
    "switch-asks-for-runtime" release (7, 2): (on switches_ask_for_runtime),
        "Queues that start to run by a switch between fair tasks ask for runtime, or are throttled.";
    "throttle-when-charged" "f666241e6bd5" (7, 2): (on throttles_when_charged),
        "A queue is throttled when it is charged, instead of when its running task is put or a task is picked.";
}
