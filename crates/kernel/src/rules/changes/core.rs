//! Changes of the main sequence, of wakeups across CPUs, and of the real-time class.

use super::changes;
use crate::rules::{IdleAverage, ServerOverflow};

changes! {
    "affinity-distribute" "46a87b3851f0" (5, 7): (on affinity_distributes),
        "Tasks whose affinity changes are spread over the new set.";
    "calls-in-one-queue" "a148866489fb" (5, 8): (on calls_share_a_queue),
        "Wakeups and other calls of a CPU wait in one queue: one interrupt is sent for all, and a CPU that leaves idle takes all.";
    "wake-while-switching" "2ebb17717550" (5, 8): (on switching_cpu_takes_wakeup),
        "A task that is still being switched away from is handed to its CPU instead of waited for.";
    "rt-runtime-share-off" "2586af1ac187" (5, 10): (off features.rt_runtime_share),
        "CPUs no longer borrow real-time runtime from others (RT_RUNTIME_SHARE off).";
    "rt-avoids-deadlines" release (5, 11): (on rt_avoids_deadlines),
        "Real-time tasks are not sent to a CPU with deadline tasks.";
    "rt-distribute" "14e292f8d453" (5, 11): (on rt_distributes),
        "Real-time tasks pushed away are spread over equally good CPUs.";
    "dynamic-preemption" "c597bfddc9e9" (5, 16): (on config_preemption),
        "The preemption model is chosen at boot on x86, so kernels are built with CONFIG_PREEMPTION.";
    "idle-cpu-wakes-itself" "f3dd3f674555" (6, 0) also [(5, 15, 61)]: (on idle_cpu_wakes_itself),
        "A CPU without tasks does its wakeups itself, whichever cache it shares.";
    "rt-pushable-overload" "612f769edd06" (6, 7): (on rt_overload_by_pushable),
        "Only waiting real-time tasks that may move make a CPU overloaded.";
    "push-round-skips-here" "94894c9c477e" (7, 0)
        also [(6, 19, 4), (6, 18, 14), (6, 12, 75), (6, 6, 128), (6, 1, 165), (5, 15, 202), (5, 10, 252)]: (on push_round_skips_here),
        "A round of requests to push real-time tasks leaves out the CPU that asks.";
    "balance-without-fair" release (6, 12) until (6, 19): (on balances_without_fair),
        "A fair task that leaves no other has those of other CPUs looked for, even if a real-time one waits.";
    "balance-before-pick" "6e2df0581f56" (5, 4) until (6, 19): (on balances_before_picking),
        "Behind a real-time task a CPU looks for tasks elsewhere before it picks, unless a fair one is queued.";
    "change-reads-clock" "d4c64207b88a" (6, 19): (off changes_read_clock_first),
        "The clock of a CPU is brought up to date by changes of a task's attributes only where something changes.";
    "no-excess-steal" "108ad0999085" (6, 14)
        also [(6, 13, 3), (6, 12, 14), (6, 6, 78), (6, 1, 129), (5, 15, 179), (5, 10, 235)]: (on drops_excess_steal),
        "Stolen time beyond what the clock of a CPU advanced is dropped instead of taken off later.";
    "clock-skip-stays" "5ebde09d9170" (6, 7) also [(6, 5, 13), (6, 6, 3)]: (on clock_skip_stays),
        "A request to skip an update of the clock that comes up during a pick is left for the next switch.";
    "fair-server" "557a6bfc662c" (6, 12): (on fair_server) (off rt_throttling),
        "Fair tasks have 50 ms a second under real-time load, instead of real-time throttling.";
    "moved-locked-preempts" release (7, 1): (on moved_locked_preempts),
        "A real-time or deadline task that is pushed or pulled may preempt, as after a wakeup.";
    "stopper-wakes-at-once" "009836b4fa52" (6, 16) also [(6, 12, 39)]: (on stopper_wakes_at_once),
        "The migration thread of another cache's CPU is queued by its waker, not by that CPU.";
    "put-when-picked" "436f3eed5c69" (6, 12): (off puts_before_picking),
        "A task that is picked once more is not put and set again, nor noted as picked last.";
    "rt-runtime-whole" release (7, 2): (rt_runtime_ns: Some(950_000_000) => Some(1_000_000_000)),
        "All of a CPU may be reserved by deadline tasks and fair servers, not 95 %.";
    "clamps-counted-late" "dfa0a574cbc4" (6, 12) until (6, 17): (on clamps_counted_late),
        "Utilisation clamps of a task count when it is queued; before and after they do first (90ca9410dab2).";
    "rt-is-not-deadline" release (6, 12): (on rt_is_not_deadline),
        "A real-time task that wakes where a deadline task runs stays there.";
    "dl-overload-by-pushable" "5fe7765997b1" (6, 7): (on dl_overload_by_pushable),
        "Only waiting deadline tasks that may move make a CPU overloaded.";
    "grub-of-max-bw" "6a9d623aad89" (6, 5): (on grub_of_max_bw),
        "Reclaiming (GRUB) is scaled by what may be reserved of a CPU.";
    "server-does-not-count" "52d15521eb75" (6, 17): (off fair_server_counts),
        "A fair server that runs is none of the runnable tasks of its CPU.";
    "dl-change-asks-running" "7ea98dfa4491" (6, 3): (on dl_change_asks_running),
        "Another reservation of a waiting task reschedules if it is earlier than that of the running one.";
    "dl-change-compares" "6455ad5346c9" (6, 19): (on dl_change_compares),
        "Another reservation pulls and reschedules only if the deadline changed.";
    "dl-moved-renews" "627cc25f8446" (6, 19): (on dl_moved_renews),
        "A deadline that has passed is renewed by changes that move the task, not by all.";
    "dl-pushes-waiting" "e0ca8991b2de" (7, 1) also [(6, 18, 33), (7, 0, 10)]: (on dl_pushes_waiting_only),
        "Pushes of deadline tasks pass over one that still runs.";
    "idle-reentry" "3dcac251b066" (6, 12): (on idle_reenters),
        "An idle CPU that is asked to reschedule for nothing looks for no tasks elsewhere.";
    "fair-server-stays" "cccb45d7c429" (6, 17) also [(6, 12, 92)]: (off fair_server_stops_when_empty),
        "The fair server stops when it finds nothing to run, not with the last fair task.";
    "late-server-renews" "421fc59cf58c" (6, 17): (on late_server_renews),
        "A fair server that uses its budget up behind its deadline begins a new period, instead of being queued anew.";
    "fair-server-waits" release (6, 19) also [(6, 12, 69), (6, 18, 9)]: (off fair_server_starts_running),
        "A fair server that ran and starts a new period waits for zero laxity again.";
    "server-keeps-deadline" "14a857056466" (7, 0) also [(6, 12, 83), (6, 18, 24), (6, 19, 14)]:
        (server_overflow: ServerOverflow::NewPeriod => ServerOverflow::Revised, ..),
        "A fair server that starts before its deadline with more budget than fits gets what fits, at once.";
    "server-that-ran-keeps-deadline" "1842bf97af10" (7, 2) also [(6, 12, 103), (6, 18, 44), (7, 1, 8)]:
        (server_overflow: ServerOverflow::Revised => ServerOverflow::RevisedIfRunning),
        "Only a fair server that ran gets what fits before its deadline; another one begins a new period.";
    "next-class" "704069649b5b" (7, 0): (on arrivals_meet_next_class),
        "An arrival is held against the class that its CPU is about to choose, not against that of the running task.";
    "preempts-own-class" release (7, 2): (on preempts_own_class_only),
        "A fair task that a CPU pulls when its real-time or deadline task blocked is not held against that one.";
    "lower-class-reschedules" release (7, 1): (on lower_class_reschedules),
        "A running task that gets a lower class has its CPU choose anew.";
    "timers-stay-local" release (7, 1): (on timers_stay_local),
        "A timer of a deadline task or fair server stays on an idle CPU whose tick runs.";
    "fair-server-idle" release (7, 1): (on fair_server_waits_out_idle),
        "Idle time uses the fair server's budget up as it passes; after a whole period of that the server stops.";
    "lazy-or-full" "7dadeaa6e851" (7, 0): (on preempts_at_least_lazily),
        "Kernels for x86 have full and lazy preemption only; what was built with none or voluntary is lazy.";
    "avg-idle-at-start" "4b603f1551a7" (7, 0): (idle_average: IdleAverage::Wakeups => IdleAverage::EveryEnd, ..),
        "The average idle time follows whenever a CPU leaves idle, not only at wakeups.";
    "avg-idle-needs-start" "c6dcd97c8be7" (7, 3) also [(7, 2, 7)]:
        (idle_average: IdleAverage::EveryEnd => IdleAverage::EndsWithStart),
        "The average idle time leaves out idle periods whose start was not noted, instead of taking all time since boot.";
    "hrtick" "96d1610e0b20" (7, 1): (on features.hrtick) (on features.hrtick_dl),
        "A timer ends requests of the fair class exactly instead of the next tick (HRTICK).";
    "rt-push-ipi-off" release (7, 2)
        also [(7, 1, 4), (6, 18, 39), (6, 12, 96), (6, 6, 145), (6, 1, 178), (5, 15, 212), (5, 10, 261)]: (off features.rt_push_ipi),
        "Without PREEMPT_RT, CPUs pull real-time tasks themselves (RT_PUSH_IPI off).";
}
