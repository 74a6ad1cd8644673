//! What differs between the idle loops and governors of kernel releases.

use super::IdleState;
use crate::ids::Ns;
use crate::rules::Version;

/// When `menu` prefers a physical state to polling although the prediction is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum MenuPolling {
    /// 4.5: unless a timer is at most 5 µs away.
    TimerWithin5us,
    /// 4.6–4.19: unless a timer is within 20 µs or the state's residency, or latency is limited to
    /// its exit latency.
    TimerWithin20us,
    /// 4.20–6.5: if its exit latency is allowed and its residency is before the next timer.
    BeforeTimer,
    /// 6.6–6.17: also only if its residency is below 15 µs.
    ShortResidency,
    /// 6.18 (and 6.12.117): also only if its exit latency is within the prediction.
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
    /// sixteenth of a tick.
    NextState,
}

/// `CPUIDLE_POLL_MIN`.
const POLL_MIN_NS: Ns = 10_000;

impl PollLimit {
    /// The limit for these states.
    pub fn limit_ns(self, states: &[IdleState], tick_period_ns: Ns) -> Option<Ns> {
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

/// Idle rules of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleRules {
    /// The governor decides whether the tick stops (4.17); before, the tick was stopped first.
    pub governor_stops_tick: bool,
    /// How long POLL polls.
    pub poll_limit: PollLimit,
    /// `menu` and polling.
    pub menu_polling: MenuPolling,
    /// `menu` learns apart, and allows less latency, while tasks wait for I/O (up to 6.11).
    pub menu_iowait: bool,
    /// `menu` looks at the timers only when the typical interval does not settle it (6.6).
    pub menu_typical_first: bool,
    /// `menu` ignores a typical interval none of whose samples is below the timer estimate
    /// (4.20–6.5).
    pub menu_typical_below_timer: bool,
    /// `menu` discards outliers on both ends, not only long ones (6.15).
    pub menu_outliers_both_ends: bool,
    /// `menu` falls back to the longest sample left when no interval is typical (6.15, 6.16).
    pub menu_longest_sample: bool,
    /// `teo` looks at the timers last (6.6).
    pub teo_timer_last: bool,
    /// `teo` also counts how many of the nine last wakeups came early (up to 6.11).
    pub teo_recent: bool,
}

impl IdleRules {
    /// The rules of a release.
    pub fn of(version: Version) -> Self {
        let since = |major, minor| version.since(major, minor);
        Self {
            governor_stops_tick: since(4, 17),
            poll_limit: match () {
                () if since(4, 20) => PollLimit::NextState,
                () if since(4, 17) => PollLimit::SixteenthOfTick,
                () => PollLimit::None,
            },
            menu_polling: match () {
                () if version.has(6, 18, &[(6, 12, 117)]) => MenuPolling::ShortResidencyAndExit,
                () if since(6, 6) => MenuPolling::ShortResidency,
                () if since(4, 20) => MenuPolling::BeforeTimer,
                () if since(4, 6) => MenuPolling::TimerWithin20us,
                () => MenuPolling::TimerWithin5us,
            },
            menu_iowait: !since(6, 12),
            menu_typical_first: since(6, 6),
            menu_typical_below_timer: since(4, 20) && !since(6, 6),
            menu_outliers_both_ends: since(6, 15),
            menu_longest_sample: since(6, 15) && !since(6, 17),
            teo_timer_last: since(6, 6),
            teo_recent: !since(6, 12),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_states::{IVB, SKX};
    use super::*;

    #[test]
    fn polling_stops_where_the_next_state_pays_off() {
        let tick = 4_000_000;
        let limit = |minor| IdleRules::of(minor).poll_limit.limit_ns(&IVB, tick);
        assert_eq!(limit(Version::new(4, 16)), None);
        assert_eq!(limit(Version::new(4, 17)), Some(250_000));
        assert_eq!(limit(Version::new(5, 10)), Some(80_000)); // C1E; C1's 1 us is too short to count
        let ms = 1_000_000;
        assert_eq!(PollLimit::NextState.limit_ns(&SKX, ms), Some(20_000));
        assert_eq!(PollLimit::NextState.limit_ns(&SKX[..2], ms), Some(62_500));
    }
}
