//! Whether clients keep a schedule (*open loop*) or think and ask again (*closed loop*).
//!
//! A connection of a closed loop sends its next request a think time after its last reply. So the
//! more requests are under way, the fewer clients can send one: of n connections of which k wait, n
//! − k think, and requests come in proportion to n − k. An open loop sends at one rate whatever k
//! is. Both are renewal processes with gamma distributed intervals (shape 1 is a Poisson process, a
//! large shape a fixed pace): the open loop's intervals are measured in time, the closed loop's in
//! the sum of the times that connections are free. The recording has a likelihood under each. A
//! closed loop is believed if it makes the recording at least [`ODDS`] times as likely, and if
//! hardly any request is due before the last reply on its connection. Clients that events of
//! sockets show to ask at once when they are answered need no odds ([`asked`](super::asked)).
//!
//! Where a service is hardly ever late the pace is the same, and the connections tell
//! ([`users`](super::users)).
//!
//! Both take the client's log, or events of sockets, which name the connection of each request.
//! Only a log shows when a request was due. A schedule with a bound on its connections sends
//! nothing while all are busy, just as a closed loop does. So with events of sockets pace alone
//! does not decide: a service in Java under a limit, asked by a schedule over 16 connections, has
//! odds of e^839 for a closed loop by pace.
//!
//! Wakeups also hide what becomes due while the client is awake, which it is when replies come. In
//! the bench (`docs/validity/services-bench.md`), five of 16 recordings of open loops have odds
//! between 4000 and 10¹⁰ for a closed loop from wakeups, and a closed loop has 23. So there an open
//! loop is assumed. If the user asks for a closed one, the likeliest number of connections is
//! taken, and a request follows the oldest reply that no request has followed yet.
//!
//! # Worked example
//!
//! Two connections. A limit keeps both waiting from 10 to 90 ms of every 100. An open loop would
//! have sent in that time as often as in the other. In ten periods of two requests each no request
//! comes in 0.8 s, and all 20 come in 0.2 s: odds of 5²⁰ to 1 for the closed loop, if both are
//! Poisson processes.

use super::{Asked, users};
use std::collections::BTreeMap;

/// How clients of services decide when to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientLoop {
    /// As the recording shows it.
    #[default]
    AsRecorded,
    /// By a schedule, even while earlier replies are missing.
    Open,
    /// A think time after the last reply.
    Closed,
    /// By a schedule each, but not before the last reply.
    Bounded,
}

impl ClientLoop {
    /// Every way that can be set, with its name.
    pub const NAMED: [(&str, ClientLoop); 3] = [
        ("open", ClientLoop::Open),
        ("closed", ClientLoop::Closed),
        ("bounded", ClientLoop::Bounded),
    ];
}

/// Odds that are called strong evidence (Kass and Raftery, Bayes Factors, 1995: 20 to 150).
const ODDS: f64 = 20.0;
/// Numbers of connections up to this many times the most requests under way at once are tried.
const CONNECTIONS_TIMES: usize = 16;
/// At most one in this many requests of a closed loop is due before the last reply.
pub(super) const EARLY_OF: usize = 100;
/// Rounding of a log.
const ROUNDING_NS: i64 = 1_000;

/// From one due time to the next.
struct Interval {
    length_ns: f64,
    /// Time that waiting clients spent in it, together.
    waiting_ns: f64,
    /// Requests under way at its end.
    under_way: usize,
}

/// Lets requests follow the replies before them if clients form a closed loop. Returns the number
/// of connections. `connections` are those of the log (`by_log`) or of events of sockets; without
/// them they are told from the rate.
pub(super) fn chain(
    asked: &mut [Asked],
    connections: Option<&[u32]>,
    by_log: bool,
    wanted: ClientLoop,
) -> Option<u32> {
    let is_other = matches!(wanted, ClientLoop::Open | ClientLoop::Bounded);
    if is_other || (connections.is_none() && wanted == ClientLoop::AsRecorded) {
        return None;
    }
    let intervals = intervals(asked);
    let (number, odds) = match connections {
        Some(names) => {
            let mut distinct = names.to_vec();
            distinct.sort_unstable();
            distinct.dedup();
            (distinct.len(), odds(&intervals, distinct.len()))
        }
        None => likeliest(&intervals),
    };
    let after = match connections {
        Some(names) => by_connection(names),
        None => by_oldest_reply(asked, number),
    };
    let follows = |(position, before): (usize, &Option<usize>)| {
        before.map(|before| asked[position].due_ns + ROUNDING_NS < asked[before].replied_ns as i64)
    };
    let early = after
        .iter()
        .enumerate()
        .filter_map(follows)
        .filter(|early| *early)
        .count();
    let by_users = || connections.and_then(|names| users::odds(asked, names, &after));
    let likely = ODDS.ln();
    let is_closed = wanted != ClientLoop::Closed
        && early * EARLY_OF <= asked.len()
        && odds.is_some_and(|by_pace| {
            by_log && by_pace >= likely
                || by_users().is_some_and(|odds| odds.min(odds + by_pace) >= likely)
        });
    if wanted != ClientLoop::Closed && !is_closed {
        return None;
    }
    for (one, before) in asked.iter_mut().zip(after) {
        one.after = before;
    }
    Some(number as u32)
}

/// The request before on the same connection. Requests are in the order of sending.
pub(super) fn by_connection(names: &[u32]) -> Vec<Option<usize>> {
    let mut last = BTreeMap::new();
    names
        .iter()
        .zip(0..)
        .map(|(name, position)| last.insert(*name, position))
        .collect()
}

/// A request whose connection is not known follows the oldest reply that no request has followed
/// yet.
fn by_oldest_reply(asked: &[Asked], connections: usize) -> Vec<Option<usize>> {
    let mut replied: Vec<usize> = (0..asked.len()).collect();
    replied.sort_by_key(|position| asked[*position].replied_ns);
    (0..asked.len())
        .map(|position| position.checked_sub(connections).map(|turn| replied[turn]))
        .collect()
}

/// The intervals between due times.
fn intervals(asked: &[Asked]) -> Vec<Interval> {
    // At equal times a reply comes first.
    let mut changes: Vec<(i64, bool)> = Vec::with_capacity(2 * asked.len());
    for one in asked {
        changes.push((one.due_ns, true));
        changes.push(((one.replied_ns as i64).max(one.due_ns + 1), false));
    }
    changes.sort_unstable();
    let mut intervals = Vec::with_capacity(asked.len());
    let mut under_way: usize = 0;
    let (mut due_ns, mut waiting_ns, mut before_ns) = (None, 0.0, 0);
    for (at_ns, is_due) in changes {
        waiting_ns += under_way as f64 * (at_ns - before_ns) as f64;
        before_ns = at_ns;
        if !is_due {
            under_way -= 1;
            continue;
        }
        if let Some(due_ns) = due_ns.replace(at_ns) {
            intervals.push(Interval {
                length_ns: (at_ns - due_ns) as f64,
                waiting_ns,
                under_way,
            });
        }
        waiting_ns = 0.0;
        under_way += 1;
    }
    intervals
}

/// Logarithm of how much likelier a closed loop of so many connections makes the intervals than an
/// open loop; none if more requests were under way.
fn odds(intervals: &[Interval], connections: usize) -> Option<f64> {
    let [mut open, mut closed] = [Gamma::default(); 2];
    let mut speeds = 0.0;
    for one in intervals {
        let free = connections
            .checked_sub(one.under_way)
            .filter(|free| *free > 0)? as f64;
        speeds += free.ln();
        open.add(one.length_ns);
        closed.add(connections as f64 * one.length_ns - one.waiting_ns);
    }
    let odds = closed.log_likelihood() + speeds - open.log_likelihood();
    odds.is_finite().then_some(odds)
}

/// The likeliest number of connections, and its odds.
fn likeliest(intervals: &[Interval]) -> (usize, Option<f64>) {
    let most = 1 + intervals.iter().map(|one| one.under_way).max().unwrap_or(0);
    let next = |number: &usize| Some((number + 1).max(number + number / 8));
    let tried = std::iter::successors(Some(most), next)
        .take_while(|number| *number <= most * CONNECTIONS_TIMES)
        .map(|number| (number, odds(intervals, number)));
    let known = tried.max_by(|one, other| {
        let odds = |of: &(usize, Option<f64>)| of.1.unwrap_or(f64::NEG_INFINITY);
        odds(one).total_cmp(&odds(other))
    });
    known.unwrap_or((most, None))
}

/// Sums that a gamma distribution is fitted to.
#[derive(Clone, Copy, Default)]
struct Gamma {
    count: f64,
    sum: f64,
    logs: f64,
}

impl Gamma {
    /// Adds a time in ns.
    fn add(&mut self, value: f64) {
        let value = value.max(ROUNDING_NS as f64);
        self.count += 1.0;
        self.sum += value;
        self.logs += value.ln();
    }

    /// Of the likeliest gamma distribution. Its shape is Minka's approximation (Estimating a Gamma
    /// distribution, 2002), which is within 1.5 % of the exact one.
    fn log_likelihood(&self) -> f64 {
        let mean = self.sum / self.count;
        let spread = (mean.ln() - self.logs / self.count).max(1e-9);
        let shape =
            (3.0 - spread + ((spread - 3.0).powi(2) + 24.0 * spread).sqrt()) / (12.0 * spread);
        let each = shape * (shape / mean).ln() - log_gamma(shape) - shape;
        self.count * each + (shape - 1.0) * self.logs
    }
}

/// ln Γ(x) for x > 0: Stirling's series behind 8, and Γ(x) = Γ(x + 1) / x before it.
fn log_gamma(mut x: f64) -> f64 {
    let mut less = 0.0;
    while x < 8.0 {
        less += x.ln();
        x += 1.0;
    }
    let half_log_of_two_pi = 0.5 * std::f64::consts::TAU.ln();
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + half_log_of_two_pi + series - less
}

#[cfg(test)]
mod tests {
    use super::super::asked::arrival;
    use super::*;
    use schedcast_sim::random;

    const MS: i64 = 1_000_000;

    /// In each of ten periods of 100 ms two requests, of connections 0 and 1, that wait until
    /// 90 ms.
    fn held_back() -> (Vec<Asked>, Vec<u32>) {
        let requests = (0..20).map(|number| {
            let (period, connection) = (number / 2, number % 2);
            let sent_ns = (period * 100 * MS + 5 * MS * (connection + 1)) as u64;
            Asked {
                replied_ns: (period * 100 * MS + 90 * MS) as u64,
                ..arrival(sent_ns, sent_ns)
            }
        });
        (
            requests.collect(),
            (0..20).map(|number| number % 2).collect(),
        )
    }

    #[test]
    fn clients_that_send_nothing_while_they_wait_are_a_closed_loop() {
        let (mut asked, connections) = held_back();
        let names = Some(&connections[..]);
        assert_eq!(
            chain(&mut asked, names, true, ClientLoop::AsRecorded),
            Some(2)
        );
        let after: Vec<Option<usize>> = asked.iter().map(|one| one.after).collect();
        let before = |position: usize| position.checked_sub(2);
        assert_eq!(after, (0..20).map(before).collect::<Vec<_>>());
        // Wakeups alone do not name connections; two make it likeliest.
        let (mut unnamed, _) = held_back();
        assert_eq!(
            chain(&mut unnamed, None, false, ClientLoop::AsRecorded),
            None
        );
        assert_eq!(
            chain(&mut unnamed, None, false, ClientLoop::Closed),
            Some(2)
        );
        assert_eq!(unnamed, asked);
        // Without the times at which a schedule had them, they may have been held back.
        let (mut sent, _) = held_back();
        let by_sockets = chain(&mut sent, names, false, ClientLoop::AsRecorded);
        assert_eq!(by_sockets, None);
    }

    /// Requests of four connections in turn, answered after 1 ms or, every fifth, 30 ms.
    fn scheduled(intervals_us: impl Iterator<Item = u64>) -> (Vec<Asked>, Vec<u32>) {
        let mut at_ns = 0;
        let asked: Vec<Asked> = (0..)
            .zip(intervals_us)
            .map(|(number, us)| {
                at_ns += us as i64 * 1_000;
                let latency_ms = if number % 5 == 0 { 30 } else { 1 };
                Asked {
                    replied_ns: (at_ns + latency_ms * MS) as u64,
                    ..arrival(at_ns as u64, at_ns as u64)
                }
            })
            .collect();
        let names = (0..asked.len() as u32).map(|number| number % 4);
        (asked, names.collect())
    }

    #[test]
    fn clients_that_keep_a_schedule_are_an_open_loop() {
        let mut state = random::stream(1, 2, 3);
        let drawn: Vec<u64> = (0..400)
            .map(|_| 10_000 + (-12_000.0 * (1.0 - random::uniform(&mut state)).ln()) as u64)
            .collect();
        let paced = std::iter::repeat_n(20_000, 400);
        for (mut asked, names) in [scheduled(drawn.into_iter()), scheduled(paced)] {
            assert_eq!(
                chain(&mut asked, Some(&names), true, ClientLoop::AsRecorded),
                None
            );
            assert_eq!(chain(&mut asked, None, false, ClientLoop::AsRecorded), None);
            assert!(asked.iter().all(|one| one.after.is_none()));
            assert_eq!(
                chain(&mut asked, Some(&names), true, ClientLoop::Closed),
                Some(4)
            );
        }
    }

    #[test]
    fn a_request_due_before_the_reply_before_is_of_a_schedule() {
        let (mut asked, mut connections) = held_back();
        // Both requests of a period on one connection, so that one is due while the other waits.
        connections.fill(0);
        connections[0] = 1;
        let names = Some(&connections[..]);
        assert_eq!(chain(&mut asked, names, true, ClientLoop::AsRecorded), None);
    }

    #[test]
    fn gamma_functions_have_their_known_values() {
        assert!((log_gamma(0.5) - 0.5 * std::f64::consts::PI.ln()).abs() < 1e-9);
        assert!((log_gamma(11.0) - 3_628_800f64.ln()).abs() < 1e-9);
        // An exponential distribution of mean 2 s has shape 1: its likelihood is −n · (1 + ln 2e9).
        let mut gamma = Gamma::default();
        for number in 0..10_000 {
            gamma.add(-2e9 * (1.0 - (f64::from(number) + 0.5) / 10_000.0).ln());
        }
        let each = gamma.log_likelihood() / 10_000.0;
        assert!((each + 1.0 + 2e9f64.ln()).abs() < 1e-3, "{each}");
    }

    #[test]
    fn time_passes_for_the_clients_that_are_free() {
        let (asked, _) = held_back();
        let intervals = intervals(&asked);
        assert_eq!(intervals.len(), 19);
        // From 5 to 10 ms one of two waits, from 10 to 90 both, and from 90 to 105 none.
        let of = |one: &Interval| (one.length_ns, one.waiting_ns, one.under_way);
        assert_eq!(of(&intervals[0]), (5e6, 5e6, 1));
        assert_eq!(of(&intervals[1]), (95e6, 160e6, 0));
        assert_eq!(odds(&intervals, 1), None);
    }
}
