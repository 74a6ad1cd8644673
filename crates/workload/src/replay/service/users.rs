//! Clients that use their own connection each, and think between a reply and their next request.
//!
//! Where a service is hardly ever late, a closed loop sends at the same pace as a schedule, and
//! [`closed`](super::closed) cannot tell them by the pace. The connections can:
//!
//! * A program with a *pool* of connections takes the connection that has been free for longest (in
//!   turn), or the one it used last (a stack). Clients that think are independent of each other:
//!   the next request is equally likely on any free connection. So if the free connections are
//!   ordered by how long they have been free, the mean place of the one that sends is the middle.
//! * A client with a *schedule of its own* sometimes has its next request due before the last
//!   reply, and sends it at once when it has that. A client that thinks has nothing to send then.
//!   The number of requests that a schedule would have due early follows from the number that come
//!   soon after a reply, as both have the same chance for each µs.
//!
//! # Worked example
//!
//! Twelve connections send 3,800 requests in 8 s, each answered after 0.5 ms. 190 of them follow
//! the reply before by 0.1 to 1.4 ms, so that one in 26,000 would be due in each µs. Schedules
//! would have 3,800 × 600 / 26,000 = 88 requests due before the reply or within 0.1 ms of it, and
//! clients that think 15 within 0.1 ms. There are 12, which is e^(73 − 12 × ln(88 / 15)) = e^52
//! times as likely if the clients think.

use super::Asked;
use std::collections::BTreeMap;

/// A client whose next request is due already sends it within this time of the reply, ns.
pub(super) const FOLLOWS_WITHIN_NS: i64 = 100_000;
/// The chance of a request for each µs is taken from one in this many requests: those that follow a
/// reply soonest.
const SOON_OF: usize = 20;
/// Fewer requests than this do not show that chance.
const SOON_MIN: usize = 20;
/// Mean places, from 0 (the connection used last) to 1 (the one free for longest), of clients that
/// are independent of each other. A pool that is used in turn has 1, q such pools have ½ + 1/(2q),
/// and stacks have 0.
const PLACES: std::ops::RangeInclusive<f64> = 0.42..=0.58;
/// If each µs has the same chance, the median of the n shortest gaps behind a reply is half as long
/// as the longest of them, with a standard deviation of about ½/√n of that. If it is longer by more
/// than this many standard deviations, the chance grows with the gap and cannot be used.
const DEVIATIONS: f64 = 3.0;
/// At most this many requests, evenly over the recording, give the mean place: the mean of as many
/// is within 0.02 of the true one in all but one case of a million.
const PLACED_MAX: usize = 5_000;

/// A request and the reply before it on the same connection.
struct AfterReply {
    /// From the reply to when the request was due, ns; negative before the reply.
    gap_ns: i64,
    /// How long the reply had taken, ns.
    latency_ns: i64,
}

impl AfterReply {
    fn between(before: &Asked, next: &Asked) -> Self {
        let replied_ns = before.replied_ns as i64;
        Self {
            gap_ns: next.due_ns - replied_ns,
            latency_ns: replied_ns - before.due_ns,
        }
    }
}

/// Logarithm of the odds of clients that think against clients with schedules of their own; none if
/// a pool may have sent the requests, or if there are too few. `connections` are those of `asked`,
/// which is in the order of sending, and `before` is the previous request on the same connection.
pub(super) fn odds(asked: &[Asked], connections: &[u32], before: &[Option<usize>]) -> Option<f64> {
    if !PLACES.contains(&mean_place(asked, connections)?) {
        return None;
    }
    let after_replies: Vec<AfterReply> = asked
        .iter()
        .zip(before)
        .filter_map(|(one, before)| Some(AfterReply::between(&asked[(*before)?], one)))
        .collect();
    let mut gaps_ns: Vec<i64> = after_replies.iter().map(|one| one.gap_ns).collect();
    gaps_ns.sort_unstable();
    let at_once = gaps_ns.partition_point(|gap_ns| *gap_ns <= FOLLOWS_WITHIN_NS);
    let soon = (after_replies.len() / SOON_OF).max(SOON_MIN);
    let last_ns = (gaps_ns.get(at_once + soon - 1)? - FOLLOWS_WITHIN_NS) as f64;
    let middle_ns = (gaps_ns[at_once + soon / 2] - FOLLOWS_WITHIN_NS) as f64;
    if middle_ns > last_ns * (0.5 + DEVIATIONS * 0.5 / (soon as f64).sqrt()) {
        return None;
    }
    let chance_per_ns = soon as f64 / (after_replies.len() as f64 * last_ns.max(1.0));
    let due_within = |ns: i64| 1.0 - (-chance_per_ns * ns as f64).exp();
    let by_schedule: f64 = after_replies
        .iter()
        .map(|one| due_within(one.latency_ns + FOLLOWS_WITHIN_NS))
        .sum();
    let by_thinking = after_replies.len() as f64 * due_within(FOLLOWS_WITHIN_NS);
    Some(by_schedule - by_thinking - at_once as f64 * (by_schedule / by_thinking).ln())
}

/// The mean place of the connection that sends among those that are free and have been used, from
/// 0, the one used last, to 1, the one free for longest.
fn mean_place(asked: &[Asked], connections: &[u32]) -> Option<f64> {
    let last: BTreeMap<u32, usize> = connections.iter().copied().zip(0..).collect();
    let mut replied: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut sum, mut count) = (0.0, 0usize);
    // Odd, so that of two connections that alternate both are sampled.
    let step = asked.len().div_ceil(PLACED_MAX) | 1;
    for (number, (one, connection)) in asked.iter().zip(connections).enumerate() {
        let is_free = |since_ns: &&u64| **since_ns as i64 <= one.sent_ns;
        if number % step == 0
            && let Some(since_ns) = replied.get(connection).filter(is_free)
        {
            let free = || replied.values().filter(is_free);
            let others = free().count() - 1;
            if others > 0 {
                let later = free().filter(|other_ns| *other_ns > since_ns).count();
                sum += later as f64 / others as f64;
                count += 1;
            }
        }
        // A connection that sends no more may be closed.
        match last[connection] == number {
            true => replied.remove(connection),
            false => replied.insert(*connection, one.replied_ns),
        };
    }
    (count >= SOON_MIN * SOON_OF).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    use super::super::asked::arrival;
    use super::super::closed::by_connection;
    use super::*;
    use schedcast_sim::random;

    const US: i64 = 1_000;
    const LATENCY_NS: i64 = 500 * US;
    const CONNECTIONS: usize = 12;

    fn asked(sent_ns: i64) -> Asked {
        Asked {
            replied_ns: (sent_ns + LATENCY_NS) as u64,
            ..arrival(sent_ns as u64, sent_ns as u64)
        }
    }

    fn odds_of(asked: &[Asked], connections: &[u32]) -> Option<f64> {
        odds(asked, connections, &by_connection(connections))
    }

    /// Exponential times of a mean, ns.
    fn drawn(mean_ns: f64) -> impl FnMut() -> i64 {
        let mut state = random::stream(3, 2, 1);
        move || (-mean_ns * (1.0 - random::uniform(&mut state)).ln()) as i64
    }

    /// 3,600 requests of clients with a connection each, whose next one is so long after the due
    /// time of the last one, and no sooner than its reply, or after its reply.
    fn of_clients(mut next: impl FnMut() -> i64, thinks: bool) -> Option<f64> {
        let mut all: Vec<(Asked, u32)> = Vec::new();
        for connection in 0..CONNECTIONS as u32 {
            let (mut due_ns, mut free_ns) = (next(), 0);
            for _ in 0..300 {
                let one = asked(due_ns.max(free_ns));
                free_ns = one.replied_ns as i64 + 20 * US;
                due_ns = match thinks {
                    true => one.replied_ns as i64 + next(),
                    false => due_ns + next(),
                };
                all.push((one, connection));
            }
        }
        all.sort_by_key(|(one, _)| one.sent_ns);
        let (asked, connections): (Vec<Asked>, Vec<u32>) = all.into_iter().unzip();
        odds_of(&asked, &connections)
    }

    #[test]
    fn clients_that_think_are_told_from_schedules_of_their_own() {
        let likely = (20f64).ln();
        assert!(of_clients(drawn(25e6), true).unwrap() > likely);
        assert!(of_clients(drawn(25e6), false).unwrap() < -likely);
        // Short intervals are rare: the sum of two exponential times, then 40 ms and a little.
        let sums = || {
            let mut half = drawn(12.5e6);
            move || half() + half()
        };
        for thinks in [true, false] {
            let odds = of_clients(sums(), thinks);
            assert!(odds.is_none_or(|odds| odds < likely), "{odds:?}");
        }
        let even = |mean_ns: i64| {
            let mut jitter = drawn(2e6);
            move || mean_ns + jitter()
        };
        let of_pace = of_clients(even(40_000 * US), false);
        assert!(
            of_pace.is_none_or(|odds| odds.abs() < likely),
            "{of_pace:?}"
        );
    }

    #[test]
    fn a_pool_of_connections_is_no_client_that_thinks() {
        let mut next = drawn(2e6);
        let mut at_ns = 0;
        let mut sent: Vec<Asked> = Vec::new();
        for _ in 0..3600 {
            at_ns += next();
            sent.push(asked(at_ns));
        }
        let in_turn: Vec<u32> = (0..3600)
            .map(|number| number % CONNECTIONS as u32)
            .collect();
        assert_eq!(odds_of(&sent, &in_turn), None);
        // Four pools of three, each with a schedule of its own.
        let mut next = drawn(8e6);
        let mut pools: Vec<(Asked, u32)> = Vec::new();
        for pool in 0..4 {
            let mut at_ns = 0;
            for number in 0..900 {
                at_ns += next();
                pools.push((asked(at_ns), 3 * pool + number % 3));
            }
        }
        pools.sort_by_key(|(one, _)| one.sent_ns);
        let (several, of_pools): (Vec<Asked>, Vec<u32>) = pools.into_iter().unzip();
        assert_eq!(odds_of(&several, &of_pools), None);
        // A stack: the free connection that was used last.
        let mut free_ns = [0; CONNECTIONS];
        let stacked: Vec<u32> = sent
            .iter()
            .map(|one| {
                let is_free = |at: &usize| free_ns[*at] <= one.sent_ns;
                let last = (0..CONNECTIONS)
                    .filter(is_free)
                    .max_by_key(|at| free_ns[*at]);
                let taken = last.unwrap_or(0);
                free_ns[taken] = one.replied_ns as i64;
                taken as u32
            })
            .collect();
        assert_eq!(odds_of(&sent, &stacked), None);
    }
}
