//! Differences between the idle loops and governors of kernel releases.

use super::IdleState;
use crate::ids::Ns;
use crate::rules::rules;

/// When `menu` prefers a physical state to polling although the prediction is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum MenuPolling {
    /// 4.5: unless a timer is at most 5 µs away.
    TimerWithin5us,
    /// 4.6–4.19: unless a timer is within 20 µs or the state's residency, or latency is limited to
    /// its exit latency.
    TimerWithin20us,
    /// 4.20–6.17: if its exit latency is allowed and its residency is before the next timer.
    BeforeTimer,
    /// 6.18 (and stable kernels): also only if its exit latency is within the prediction.
    ExitWithinPrediction,
    /// 6.19 (and stable kernels, 6.18.3 first): also only if its residency is below 15 µs.
    ShortResidencyAndExit,
}

/// How long the polling state polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PollLimit {
    /// Up to 4.16: until something happens.
    None,
    /// 4.17–4.19: a sixteenth of a tick.
    SixteenthOfTick,
    /// From 4.20: the residency of the next state that has at least 10 µs of it, at most a
    /// sixteenth of a tick. Up to 5.10 the next state counts whatever its residency; that the
    /// governor is then asked again every microsecond is left out.
    NextState,
}

/// `CPUIDLE_POLL_MIN`.
const POLL_MIN_NS: Ns = 10_000;

impl PollLimit {
    /// The limit for these states.
    pub(crate) fn limit_ns(self, states: &[IdleState], tick_period_ns: Ns) -> Option<Ns> {
        let most = tick_period_ns / 16;
        match self {
            PollLimit::None => None,
            PollLimit::SixteenthOfTick => Some(most),
            PollLimit::NextState => {
                let deeper = states.iter().skip(1);
                let limit = deeper
                    .map(|state| state.target_residency_ns)
                    .find(|&residency| residency >= POLL_MIN_NS);
                Some(limit.unwrap_or(most).min(most))
            }
        }
    }
}

rules! {
    /// Idle rules of one kernel.
    pub struct IdleRules of ();

    /// The governor decides whether the tick stops (4.17); before, the tick was stopped first.
    pub(crate) governor_stops_tick: bool = false,
    /// How long POLL polls.
    pub(crate) poll_limit: PollLimit = PollLimit::None,
    /// `menu` and polling.
    pub(crate) menu_polling: MenuPolling = MenuPolling::TimerWithin5us,
    /// `menu` learns apart, and allows less latency, while tasks wait for I/O (up to 6.11).
    pub(crate) menu_iowait: bool = true,
    /// `menu` looks at the timers only when the typical interval does not settle it (6.6).
    pub(crate) menu_typical_first: bool = false,
    /// `menu` ignores a typical interval none of whose samples is below the timer estimate
    /// (4.20–6.5).
    pub(crate) menu_typical_below_timer: bool = false,
    /// `menu` looks at the timers in any case when the tick is stopped already (7.0, stable
    /// kernels; before 6.6 it always does).
    pub(crate) menu_timers_when_stopped: bool = false,
    /// `menu` looks at a state's exit latency before its residency (6.17).
    pub(crate) menu_latency_first: bool = false,
    /// `menu` discards outliers on both ends, not only long ones (6.15).
    pub(crate) menu_outliers_both_ends: bool = false,
    /// `menu` takes the square of the mean, which is rounded down, from the mean square (6.15),
    /// instead of adding up the squares of the distances to it: the variance comes out larger by up
    /// to twice the mean.
    pub(crate) menu_mean_square: bool = false,
    /// `menu` falls back to the longest sample left when no interval is typical (6.15–6.17, taken
    /// back in 6.17.6).
    pub(crate) menu_longest_sample: bool = false,
    /// Without a driver the tick stops only when the idle loop was woken by one (7.0, stable
    /// kernels); before, at once.
    pub(crate) tick_stops_after_tick: bool = false,
    /// CPUs of `nohz_full` stop their tick while they run one task (4.17: without a rest of one
    /// tick a second).
    pub nohz_full: bool = false,
    /// A CPU that runs one task keeps its tick if that task has a limit (6.6).
    pub(crate) limits_keep_tick: bool = false,
    /// A CPU keeps its tick if its queue holds two entities, and not if it runs two tasks (6.12
    /// without the fix of 6.12.7).
    pub(crate) top_level_keeps_tick: bool = false,
    /// `haltpoll` stops to poll when the limit falls below where it starts to grow (6.9); before,
    /// it is halved on and on.
    pub(crate) haltpoll_stops_below_start: bool = false,
    /// `teo` looks at the timers last (6.6).
    pub(crate) teo_timer_last: bool = false,
    /// `teo` also counts how many of the nine last wakeups came early (up to 6.11).
    pub(crate) teo_recent: bool = true,
    /// With the tick stopped a near timer brings `teo` to no state that needs less than a tick (6.6
    /// to 6.18.2).
    pub(crate) teo_ignores_near_timer: bool = false,
    /// `teo` looks at the timers unless it wants a shallow state and most idle periods were shorter
    /// than 15 µs (6.14).
    pub(crate) teo_short_idles: bool = false,
}

#[cfg(test)]
mod tests {
    use super::super::test_states::{IVB, SKX};
    use super::*;
    use crate::rules::{Rules, Version};

    #[test]
    fn polling_stops_where_the_next_state_pays_off() {
        let tick = 4_000_000;
        let limit = |minor| {
            Rules::of_one_cpu(minor)
                .idle
                .poll_limit
                .limit_ns(&IVB, tick)
        };
        assert_eq!(limit(Version::new(4, 16)), None);
        assert_eq!(limit(Version::new(4, 17)), Some(250_000));
        assert_eq!(limit(Version::new(5, 10)), Some(80_000)); // C1E; C1's 1 us is too short to count
        let ms = 1_000_000;
        assert_eq!(PollLimit::NextState.limit_ns(&SKX, ms), Some(20_000));
        assert_eq!(PollLimit::NextState.limit_ns(&SKX[..2], ms), Some(62_500));
    }
}
