//! Clients with a schedule each, and one request at a time under way.
//!
//! Clients such as `hey -q`, pollers, and loops around a ticker ask at regular times, each on a
//! connection of its own, and not before they have the last reply. Where replies come late they
//! send late, so that no more requests wait than there are clients. Many of them skip all but one
//! of the requests that were due meanwhile; the replay sends all. A program with one schedule and
//! as many connections as it needs, such as `vegeta` or a proxy in front of the service, sends on
//! time whatever waits: there the whole stream is regular, or no part of it is.
//!
//! Events of sockets show the clients as *lanes*: the requests of one connection, or, where each
//! request has a new one, those that follow each other's replies. Clients keep schedules if most
//! intervals of the lanes are about as long as the median of their lane, and most intervals between
//! any two successive requests are not about as long as their mean. Intervals that a reply ends do
//! not count: a client that asks again within 100 µs, or a tenth of the interval, keeps no schedule
//! that shows; if each of its requests takes as long, its intervals are alike, too.
//!
//! The more connections one schedule uses in turn, the more alike are the intervals of each: 31 %
//! of them are for a Poisson process over 16 connections, 58 % over 64. So the share has to be
//! nearer to all of them than to that of as many sums of intervals drawn from those of all
//! requests.
//!
//! # Worked example
//!
//! Eight clients ask every 50 ms, all at once. Each lane has intervals of 50 ms; all requests
//! together have seven of 20 µs and one of almost 50 ms, and none is near the mean, 6.25 ms. A
//! limit keeps the eight waiting until 60 ms: each lane sends its next request then, 10 ms late,
//! and eight wait. By the schedule alone sixteen would.

use super::closed::{self, EARLY_OF};
use super::users::FOLLOWS_WITHIN_NS;
use super::{Asked, ClientLoop, MESSAGES_MIN};
use schedcast_sim::random;
use std::collections::BTreeMap;

/// Intervals are alike if they differ by no more than one part in this many.
const ALIKE_OF: i64 = 10;
/// Percentage of intervals that is most of them.
const MOST_PERCENT: usize = 60;
/// Sums that are drawn: their share of alike ones is known to two percent.
const SUMS: usize = 1_000;

/// Lets requests follow the replies before them in their lane if clients keep schedules with one
/// request at a time. Returns how many lanes there are.
pub(super) fn chain(
    asked: &mut [Asked],
    lanes: Option<&[u32]>,
    wanted: ClientLoop,
    by_log: bool,
) -> Option<u32> {
    let lanes = lanes?;
    let after = closed::by_connection(lanes);
    let number = after.iter().filter(|before| before.is_none()).count();
    let is_bounded = match wanted {
        // The latencies of a log may count from the schedule.
        ClientLoop::AsRecorded => number > 1 && !by_log && have_schedules(asked, lanes, &after),
        ClientLoop::Bounded => true,
        ClientLoop::Open | ClientLoop::Closed => false,
    };
    if !is_bounded {
        return None;
    }
    for (one, before) in asked.iter_mut().zip(after) {
        one.after = before;
        one.keeps_schedule = true;
    }
    Some(number as u32)
}

fn have_schedules(asked: &[Asked], lanes: &[u32], after: &[Option<usize>]) -> bool {
    let had_ns = |position: usize| {
        let before = after[position]?;
        Some(asked[position].sent_ns - asked[before].replied_ns as i64)
    };
    let early = (0..asked.len()).filter(|one| had_ns(*one).is_some_and(|ns| ns < 0));
    if early.count() * EARLY_OF > asked.len() {
        return false;
    }
    // What follows a reply at once is as regular as the replies are.
    let is_free = |position: usize| {
        let interval_ns =
            after[position].map(|before| asked[position].sent_ns - asked[before].sent_ns);
        had_ns(position)
            .zip(interval_ns)
            .is_none_or(|(ns, of_ns)| ns > FOLLOWS_WITHIN_NS.max(of_ns / ALIKE_OF))
    };
    let mut of_lane: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for (position, before) in after.iter().enumerate() {
        let Some(before) = before.filter(|before| is_free(*before) && is_free(position)) else {
            continue;
        };
        let intervals = of_lane.entry(lanes[position]).or_default();
        intervals.push(asked[position].sent_ns - asked[before].sent_ns);
    }
    let known: usize = of_lane.values().map(Vec::len).sum();
    let regular = of_lane.values_mut().map(|intervals| {
        intervals.sort_unstable();
        alike(intervals, intervals[intervals.len() / 2])
    });
    let regular: usize = regular.sum();
    let together: Vec<i64> = asked
        .windows(2)
        .map(|pair| pair[1].sent_ns - pair[0].sent_ns)
        .collect();
    let mean_ns = together.iter().sum::<i64>() / (together.len() as i64).max(1);
    known >= MESSAGES_MIN
        && regular * 100 >= known * MOST_PERCENT
        && alike(&together, mean_ns) * 100 < together.len() * MOST_PERCENT
        && regular * 2 * SUMS >= known * (SUMS + of_sums(&together, of_lane.len()))
}

/// How many of [`SUMS`] intervals would be alike if a connection were used after every `lanes`
/// requests of one schedule, whose intervals are drawn from these.
fn of_sums(intervals_ns: &[i64], lanes: usize) -> usize {
    let mut stream = random::stream(0, random::name_hash("in turn"), lanes as u64);
    let mut drawn = || {
        let at = (u128::from(random::draw(&mut stream)) * intervals_ns.len() as u128) >> 64;
        intervals_ns.get(at as usize).copied().unwrap_or(0)
    };
    let mut sums: Vec<i64> = (0..SUMS)
        .map(|_| (0..lanes).map(|_| drawn()).sum())
        .collect();
    sums.sort_unstable();
    alike(&sums, sums[SUMS / 2])
}

/// How many of the intervals are about as long as one.
fn alike(intervals_ns: &[i64], one_ns: i64) -> usize {
    let is_alike = |ns: &&i64| (*ns - one_ns).abs() * ALIKE_OF <= one_ns;
    intervals_ns.iter().filter(is_alike).count()
}

#[cfg(test)]
mod tests {
    use super::super::asked::arrival;
    use super::*;

    /// Forty requests at the times of `at_us`, each answered after 1 ms, on the connections that it
    /// names.
    fn found(at_us: impl Fn(u64) -> (u64, u32)) -> Option<u32> {
        let mut all: Vec<(u64, u32)> = (0..40).map(at_us).collect();
        all.sort_unstable();
        let one = |(us, _): &(u64, u32)| Asked {
            replied_ns: (us + 1_000) * 1_000,
            ..arrival(us * 1_000, us * 1_000)
        };
        let mut asked: Vec<Asked> = all.iter().map(one).collect();
        let lanes: Vec<u32> = all.iter().map(|(_, lane)| *lane).collect();
        chain(&mut asked, Some(&lanes), ClientLoop::AsRecorded, false)
    }

    #[test]
    fn clients_with_the_same_tick_have_one_request_at_a_time() {
        let ticks = |number: u64| {
            (
                50_000 * (number / 4) + 20 * (number % 4),
                (number % 4) as u32,
            )
        };
        assert_eq!(found(ticks), Some(4));
    }

    #[test]
    fn one_schedule_over_several_connections_is_not_bounded() {
        let in_turn = |number: u64| (12_500 * number, (number % 4) as u32);
        assert_eq!(found(in_turn), None);
        let on_the_first = |number: u64| (12_500 * number, u32::from(number == 20));
        assert_eq!(found(on_the_first), None);
    }

    #[test]
    fn one_poisson_schedule_over_many_connections_in_turn_is_not_bounded() {
        let mut stream = random::stream(7, 0, 0);
        let mut at_us = 0.0;
        let times: Vec<u64> = (0..2_000)
            .map(|_| {
                at_us -= 10_000.0 * (1.0 - random::uniform(&mut stream)).ln();
                at_us as u64
            })
            .collect();
        let one = |number: usize| Asked {
            replied_ns: (times[number] + 1_000) * 1_000,
            ..arrival(times[number] * 1_000, times[number] * 1_000)
        };
        let mut asked: Vec<Asked> = (0..times.len()).map(one).collect();
        let lanes: Vec<u32> = (0..times.len() as u32).map(|number| number % 80).collect();
        let told = chain(&mut asked, Some(&lanes), ClientLoop::AsRecorded, false);
        assert_eq!(told, None);
    }

    #[test]
    fn what_follows_each_reply_at_once_is_not_bounded() {
        // Two connections; each reply comes after 1 ms, and the next request so long after it.
        let after = |reply_us: u64| {
            move |number: u64| {
                (
                    (number / 2) * (1_000 + reply_us) + 300 * (number % 2),
                    (number % 2) as u32,
                )
            }
        };
        assert_eq!(found(after(110)), None);
        assert_eq!(found(after(1_000)), Some(2));
    }

    #[test]
    fn clients_that_ask_at_any_time_are_not_bounded() {
        let drawn = |number: u64| (number * number * 977 % 400_000, (number % 4) as u32);
        assert_eq!(found(drawn), None);
    }
}
