//! Clients whose timers count whole milliseconds.
//!
//! A client that keeps a schedule sleeps until its next request is due. Many do so in `epoll_wait`
//! or `poll`, which take a number of whole milliseconds: such a client sends up to 1 ms after the
//! request was due, and its latency counts from then. The trace shows when it woke. It also shows
//! how long the client had slept before: whole milliseconds, and the [`SLACK_NS`] by which the
//! kernel is late. Sleeps until the times of a schedule have any length, so that only one in five
//! lies in a window of 200 µs of each millisecond. Where four in five do, the timers are coarse.
//!
//! When a request was due within its last millisecond is not known. All times are equally likely,
//! so each request is given one of them by a draw: percentiles of many requests come out right, a
//! single latency may be off by 1 ms either way. Nothing was due while a timer was late: what fell
//! due before that had ended an earlier sleep.
//!
//! * **Rounding down.** Programs in Go wake early and sleep for one more millisecond. A request
//!   that falls due in that one is sent late; a request that is sent after a longer sleep fell due
//!   in the slack at its end. So if most sleeps before a request take 1 ms, only those precede late
//!   requests.
//! * **Rounding up.** In other programs (libuv, Python's asyncio, Java's selectors) sleeps have any
//!   number of milliseconds, and all precede late requests.
//! * **Other wakeups.** A client that something else wakes within its last millisecond sends what
//!   has become due, at any time of this shorter sleep.
//! * **A pace of whole milliseconds.** If most sleeps have one number of milliseconds other than 1,
//!   no request is late.
//!
//! # Worked example
//!
//! A client in Go goes to sleep at 10.00 ms, 5.40 before its next request is due. It sleeps for 5
//! ms, wakes at 15.06, sleeps again, wakes at 16.12 and sends. The request is 0.72 ms late. The
//! last sleep had 1.06 ms, of which 0.06 are the timer's delay. Due later than 16.00 ms, the client
//! would have slept for 6 ms at first: the request was due at any time from 15.06 to 16.00.

use super::asked::most;
use schedcast_sim::random;
use std::collections::BTreeMap;

/// Unit of the timeouts of `epoll_wait` and `poll`.
const UNIT_NS: u64 = 1_000_000;
/// A thread arms its timer at most this long before it is switched away, ns: a few µs on the
/// virtual machine, with room for slower ones.
const BEFORE_NS: u64 = 20_000;
/// Delay on top of a timeout: 50 µs of timer slack (`init_task.timer_slack_ns`) and the way out of
/// idle and the interrupt, which took 10 to 70 µs on the virtual machine; half as much again for
/// slower ones.
const SLACK_NS: u64 = 180_000;
/// Fewer sleeps than this do not show how a client counts.
const SLEEPS_MIN: usize = 20;

/// How a client counts the milliseconds of its sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coarse {
    /// Down, and sleeps once more.
    Down,
    Up,
}

/// Number of milliseconds of a sleep; `None` if it is not a sleep of whole milliseconds.
fn whole(slept_ns: u64) -> Option<u64> {
    let number = (slept_ns + BEFORE_NS) / UNIT_NS;
    let over_ns = (slept_ns + BEFORE_NS) % UNIT_NS;
    (number > 0 && over_ns <= BEFORE_NS + SLACK_NS).then_some(number)
}

/// Whether a sleep takes no longer than a single millisecond, however it ends.
pub(super) fn is_last(slept_ns: u64) -> bool {
    slept_ns <= UNIT_NS + SLACK_NS
}

impl Coarse {
    /// From the sleeps before timers that made a client send. Shorter ones than a millisecond tell
    /// nothing.
    pub(super) fn of(slept_ns: impl Iterator<Item = u64>) -> Option<Self> {
        let long = slept_ns.filter(|slept_ns| slept_ns + BEFORE_NS >= UNIT_NS);
        let numbers: Vec<Option<u64>> = long.map(whole).collect();
        let known: Vec<u64> = numbers.iter().copied().flatten().collect();
        if numbers.len() < SLEEPS_MIN || !most(known.len(), numbers.len()) {
            return None;
        }
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for number in &known {
            *counts.entry(*number).or_default() += 1;
        }
        let commonest = counts.into_iter().max_by_key(|(_, count)| *count)?;
        match commonest {
            (number, count) if count * 2 > known.len() => (number == 1).then_some(Self::Down),
            _ => Some(Self::Up),
        }
    }

    /// How long before it woke a client's request was due, by a draw; `number` is the request's.
    /// The client had slept for so long.
    pub(super) fn late_ns(self, slept_ns: u64, number: u64) -> u64 {
        let (least_ns, most_ns) = match (whole(slept_ns), self) {
            // The sleep of whole milliseconds before this one was late, too.
            (Some(1), Self::Down) => (2 * slept_ns.saturating_sub(UNIT_NS), slept_ns),
            (None, _) if is_last(slept_ns) => (0, slept_ns),
            (Some(many), Self::Up) => {
                let last_ns = slept_ns.saturating_sub((many - 1) * UNIT_NS);
                (last_ns.saturating_sub(UNIT_NS), last_ns)
            }
            _ => return 0,
        };
        let mut stream = random::stream(0, random::name_hash("whole milliseconds"), number);
        let wide = u128::from(random::draw(&mut stream)) * u128::from(most_ns - least_ns);
        least_ns + (wide >> u64::BITS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slept_us: &[u64], times: usize) -> Option<Coarse> {
        let all = slept_us.repeat(times);
        Coarse::of(all.into_iter().map(|us| us * 1000))
    }

    #[test]
    fn sleeps_of_whole_milliseconds_tell_how_a_client_rounds() {
        assert_eq!(of(&[1_060, 1_080, 3_060], 10), Some(Coarse::Down));
        assert_eq!(of(&[1_060, 2_070, 3_060, 5_100], 10), Some(Coarse::Up));
        assert_eq!(of(&[10_060], 30), None, "a pace without fractions");
        assert_eq!(of(&[1_060, 1_080, 3_060], 6), None, "too few");
        assert_eq!(of(&[1_060, 2_460, 3_860, 5_260], 10), None, "any length");
        // Short sleeps tell nothing, either way.
        assert_eq!(of(&[1_060, 80, 85, 90], 20), Some(Coarse::Down));
    }

    #[test]
    fn a_request_was_due_at_any_time_of_its_last_millisecond() {
        let late = |coarse: Coarse, slept_ns: u64| {
            let mut all: Vec<u64> = (0..1000).map(|it| coarse.late_ns(slept_ns, it)).collect();
            all.sort_unstable();
            [0, 499, 999].map(|at| all[at] / 10_000)
        };
        // From the delays of two timers, or of one, to 1.06 ms.
        for (coarse, delays, middle) in [(Coarse::Down, 12, 59), (Coarse::Up, 6, 56)] {
            let [least, median, most] = late(coarse, 1_060_000);
            assert!((delays..delays + 2).contains(&least), "{coarse:?} {least}");
            assert!(median.abs_diff(middle) < 5, "{coarse:?} {median}");
            assert!((104..106).contains(&most), "{coarse:?} {most}");
        }
        assert_eq!(late(Coarse::Down, 3_060_000), [0; 3]);
        assert_eq!(late(Coarse::Up, 3_060_000), late(Coarse::Up, 1_060_000));
        assert_eq!(late(Coarse::Up, 3_400_000), [0; 3]);
        let [_, median, most] = late(Coarse::Down, 400_000);
        assert!(
            (17..23).contains(&median) && most == 39,
            "woken before its time"
        );
    }
}
