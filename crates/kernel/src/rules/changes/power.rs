//! Changes of idle states and frequencies.

use super::changes;
use crate::cpufreq::{IowaitBoost, RateLimit};
use crate::cpuidle::{MenuPolling, PollLimit};

changes! {
    "cpufreq-hooks" "34e2c555f3e1" (4, 6): (on frequency.scheduler_hooks),
        "Samples of the frequency governors are taken when the scheduler calls, not by a timer.";
    "pid-idle-1-percent" release (4, 6): (on frequency.pid_idle_below_1_percent),
        "intel_pstate's PID takes a CPU that was awake for less than 1 % of a sample as idle.";
    "menu-poll-20us" "0c313cb20732" (4, 6) until (4, 20):
        (idle.menu_polling: MenuPolling::TimerWithin5us => MenuPolling::TimerWithin20us),
        "menu does not poll unless a timer is within 20 µs or the first state's residency.";
    "iowait-flag" "8c34ab1910f9" (4, 9): (on frequency.iowait_flag),
        "The scheduler tells frequency governors when a task wakes from I/O.";
    "iowait-boost" "21ca6d2c52f8" (4, 9) until (4, 13): (frequency.iowait_boost: IowaitBoost::None => IowaitBoost::AtOnce),
        "schedutil goes to the highest frequency when a task wakes from I/O.";
    "schedutil-holds" "b7eaf1aab9f8" (4, 12): (on frequency.hold_while_busy),
        "schedutil holds the frequency of a CPU that was not idle since its last decision.";
    "iowait-doubling" "a5a0809bc58e" (4, 13): (frequency.iowait_boost: IowaitBoost::AtOnce => IowaitBoost::Doubling),
        "The boost for I/O starts at an eighth and doubles with each further wakeup.";
    "deadline-bandwidth-least" "9c0b4bb7f630" (6, 8): (on frequency.deadline_bandwidth_is_least),
        "What deadline tasks reserved is the least that schedutil asks for, not added to the utilisation.";
    "pstate-pid-gone" "9d0ef7af1f2d" (4, 14): (off frequency.pid),
        "intel_pstate has no PID controller any more.";
    "governor-stops-tick" "45f1ff59e27c" (4, 17): (on idle.governor_stops_tick),
        "The idle governor decides whether the tick stops.";
    "nohz-full" "d84b31313ef8" (4, 17): (on idle.nohz_full),
        "CPUs of nohz_full run a single task without a tick (in the kernel since 3.10, with one a second).";
    "poll-limit" "a37b969a61c1" (4, 17) until (4, 20): (idle.poll_limit: PollLimit::None => PollLimit::SixteenthOfTick),
        "An idle CPU polls for at most a sixteenth of a tick.";
    "poll-until-next-state" "259231a04561" (4, 20): (idle.poll_limit: PollLimit::SixteenthOfTick => PollLimit::NextState),
        "An idle CPU polls until the next state would have paid off.";
    "menu-poll-before-timer" release (4, 20) until (6, 18) and [(6, 6, 117), (6, 12, 58), (6, 17, 8)]:
        (idle.menu_polling: MenuPolling::TimerWithin20us => MenuPolling::BeforeTimer),
        "menu takes a state instead of polling if its residency is before the next timer.";
    "menu-typical-below-timer" release (4, 20) until (6, 6): (on idle.menu_typical_below_timer),
        "menu ignores a typical interval none of whose samples is below the timer estimate.";
    "x86-invariance" "1567c3e3467c" (5, 7): (on frequency.x86_invariance),
        "x86 CPUs with APERF and MPERF count utilisation by the frequency they ran at.";
    "margin-in-utilisation" "8f1b971b4750" (5, 14): (off frequency.margin_in_frequency),
        "The quarter to spare is added to the utilisation, not to the frequency.";
    "runnable-boost" "7d0583cf9ec7" (6, 5): (on frequency.runnable_boost),
        "schedutil counts runnable time too.";
    "menu-typical-first" "5484e31bbbff" (6, 6): (on idle.menu_typical_first),
        "menu looks at the timers only when the typical interval does not settle it.";
    "limits-keep-tick" "88c56cfeaec4" (6, 6): (on idle.limits_keep_tick),
        "A CPU of nohz_full keeps its tick for a single task that has a limit, which is kept in time.";
    "teo-timer-last" "6da8f9ba5a87" (6, 6): (on idle.teo_timer_last),
        "teo looks at the timers last.";
    "teo-no-near-timer" release (6, 6) until (6, 19) and [(6, 6, 120), (6, 12, 64), (6, 18, 3)]: (on idle.teo_ignores_near_timer),
        "With the tick stopped a near timer brings teo to no state that needs less than a tick.";
    "margin-on-current" "e37617c8e53a" (6, 8): (on frequency.margin_on_current),
        "Without frequency invariance schedutil refers to 1.25 times the current frequency.";
    "rate-limit-2ms" release (6, 9) until (6, 10):
        (frequency.rate_limit: RateLimit::ThousandLatencies => RateLimit::ThousandLatenciesUpTo2Ms),
        "The default rate limit of frequency changes is at most 2 ms.";
    "haltpoll-stops" release (6, 9): (on idle.haltpoll_stops_below_start),
        "haltpoll stops to poll when its limit falls below where it starts to grow.";
    "rate-limit-latency" release (6, 10):
        (frequency.rate_limit: RateLimit::ThousandLatenciesUpTo2Ms => RateLimit::OneAndAHalfLatencies),
        "The default rate limit of frequency changes is one and a half transition latencies.";
    "tick-by-top-level" release (6, 12) until (6, 13) and [(6, 12, 7)]: (on idle.top_level_keeps_tick),
        "A CPU of nohz_full stops its tick although several tasks of one group run there.";
    "menu-no-iowait" "38f83090f515" (6, 12): (off idle.menu_iowait),
        "menu learns the same whether tasks wait for I/O or not.";
    "teo-no-recent" "449914398083" (6, 12): (off idle.teo_recent),
        "teo does not count how many of the last wakeups came early.";
    "teo-short-idles" release (6, 14): (on idle.teo_short_idles),
        "teo looks at the timers unless most idle periods were shorter than 15 µs.";
    "menu-outliers" release (6, 15): (on idle.menu_outliers_both_ends),
        "menu discards outliers on both ends, not only long ones.";
    "menu-mean-square" release (6, 15): (on idle.menu_mean_square),
        "menu computes the variance from the mean square.";
    "menu-longest-sample" release (6, 15) also [(6, 1, 141), (6, 12, 31), (6, 14, 9)]
        until (6, 18) and [(6, 1, 158), (6, 12, 56), (6, 17, 6)]: (on idle.menu_longest_sample),
        "menu falls back to the longest sample left when no interval is typical.";
    "menu-latency-first" release (6, 17) also [(6, 6, 103), (6, 12, 44), (6, 16, 4)]: (on idle.menu_latency_first),
        "menu looks at a state's exit latency before its residency.";
    "menu-poll-exit" release (6, 18) also [(6, 6, 117), (6, 12, 58), (6, 17, 8)]
        until (6, 19) and [(6, 6, 120), (6, 12, 64), (6, 18, 3)]:
        (idle.menu_polling: MenuPolling::BeforeTimer => MenuPolling::ExitWithinPrediction),
        "menu polls when the first state's exit latency is beyond the prediction.";
    "menu-poll-15us" release (6, 19) also [(6, 6, 120), (6, 12, 64), (6, 18, 3)]:
        (idle.menu_polling: MenuPolling::ExitWithinPrediction => MenuPolling::ShortResidencyAndExit),
        "menu takes a state instead of polling only if its residency is below 15 µs.";
    "menu-timers-when-stopped" release (7, 0) also [(6, 12, 75), (6, 18, 14)]: (on idle.menu_timers_when_stopped),
        "menu looks at the timers in any case when the tick is stopped already.";
    "tick-stops-after-tick" "f4c31b07b136" (7, 0) also [(5, 10, 253), (6, 1, 167), (6, 6, 130), (6, 12, 78), (6, 18, 20)]:
        (on idle.tick_stops_after_tick),
        "Without an idle driver the tick stops only when the idle loop was woken by one.";
    "pstate-holdoff" posted never: (pstate_holdoff_samples: 3 => 12),
        "intel_pstate's PID holds the P-state for 12 sample periods of idleness instead of 3.";
}
