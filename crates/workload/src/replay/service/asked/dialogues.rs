//! Requests of several messages: connections that are made for one, and transactions.
//!
//! Where a client connects for each request, TLS, SMTP and databases exchange greetings and keys
//! before the question is asked. To the client all of that is one request, from when it begins to
//! connect to the last reply. Load generators count in the same way: `hey`, `ab` and `curl` include
//! the time to connect and the handshake in their latencies. A later message of a request follows
//! the reply before it, in the replay as long after it as in the recording.
//!
//! Clients connect for each request if
//!
//! * most exchanges are of connections that the recording shows opened, with few exchanges each;
//! * the later exchanges of a connection follow replies, not timers;
//! * there are more connections than are open at once.
//!
//! A client that keeps its connections for many requests does not meet these rules, nor does one
//! that asks every second on a connection and closes it in the end.
//!
//! Clients that keep their connections have requests of several messages, too: the statements of a
//! transaction of `pgbench` follow each other, and a timer leads to the first ([`transactions`]).
//!
//! # Worked example
//!
//! A client connects at 1.00 ms, sends its hello at 1.10, is answered at 2.40, sends its key and
//! the request at 2.70, and is answered at 3.50 ms; then it says that it closes the session. The
//! two exchanges are one request of 2.50 ms, which began 0.10 ms before it was sent. In the replay
//! its second message comes 0.30 ms after the first answer, whenever that is.

use super::super::super::sockets::{Exchanged, Lifetime};
use super::super::super::threads::ThreadId;
use super::super::{Asked, MESSAGES_MIN};
use super::most;
use std::collections::{BTreeMap, BTreeSet};

/// Connections for one request have no more exchanges than this. SMTP has six.
const PARTS_MAX: usize = 8;
/// Transactions have no more messages than this. In longer ones nearly all messages follow a reply
/// at once, as those of a closed loop do.
const TRANSACTION_MAX: usize = 16;
/// A length is one of transactions if at least one in this many messages is in runs of that length.
const COMMON_OF: usize = 20;
/// There are at least this many times as many connections for one request as are open at once.
const CONNECTIONS_TIMES: usize = 2;

/// The exchanges of each request, by position, in order of their first message, if clients make a
/// new connection for each: those of a connection, or one of a connection that is kept. `by_timer`:
/// which of them timers led to.
pub(super) fn find(exchanged: &[Exchanged], by_timer: &[bool]) -> Option<Vec<Vec<usize>>> {
    let mut of_connection: BTreeMap<(u64, u32), Vec<usize>> = BTreeMap::new();
    let mut kept: Vec<usize> = Vec::new();
    for (position, one) in exchanged.iter().enumerate() {
        match one.lifetime {
            Some(lifetime) => {
                let key = (lifetime.opened_ns, one.connection);
                of_connection.entry(key).or_default().push(position);
            }
            None => kept.push(position),
        }
    }
    let lifetimes = of_connection
        .values()
        .filter_map(|of| exchanged[of[0]].lifetime);
    if open_at_once(lifetimes) * CONNECTIONS_TIMES > of_connection.len() {
        return None;
    }
    // Exchanges of connections for one request, with those that close them.
    let mut of_one = 0;
    let mut all: Vec<Vec<usize>> = Vec::new();
    for mut of in of_connection.into_values() {
        // A server answers the message that closes a session, too, but no client reads that.
        let read = of.iter().rposition(|position| exchanged[*position].is_read);
        let length = of.len();
        of.truncate(read.map_or(length, |last| last + 1));
        match of.len() <= PARTS_MAX {
            true => {
                of_one += length;
                all.push(of);
            }
            false => kept.extend(of),
        }
    }
    let later: Vec<usize> = all.iter().flat_map(|of| of[1..].to_vec()).collect();
    let by_replies = later.iter().filter(|position| !by_timer[**position]);
    if !most(of_one, exchanged.len()) || !most(by_replies.count(), later.len()) {
        return None;
    }
    all.extend(kept.into_iter().map(|position| vec![position]));
    all.sort_by_key(|of| of[0]);
    Some(all)
}

/// Transactions: how many messages they have, and the exchanges of each request, by position, where
/// clients send several messages for one on a connection, as `pgbench` sends the statements of a
/// transaction. `at_once`: which messages follow the reply before them on the connection at once.
/// Such a run of messages is a request if most messages are in runs of one length, or of a multiple
/// of it: a client that is late begins the next request at once, too.
pub(super) fn transactions(
    exchanged: &[Exchanged],
    at_once: &[bool],
) -> Option<(u32, Vec<Vec<usize>>)> {
    let mut last: BTreeMap<u32, usize> = BTreeMap::new();
    let mut all: Vec<Vec<usize>> = Vec::new();
    for (position, one) in exchanged.iter().enumerate() {
        match last.get(&one.connection) {
            Some(run) if at_once[position] => all[*run].push(position),
            _ => {
                last.insert(one.connection, all.len());
                all.push(vec![position]);
            }
        }
    }
    // The first one of a connection begins with the recording, and tells nothing.
    if all.len() - last.len() < MESSAGES_MIN {
        return None;
    }
    let mut messages: BTreeMap<usize, usize> = BTreeMap::new();
    for run in &all {
        *messages.entry(run.len()).or_default() += run.len();
    }
    let in_multiples = |length: usize| {
        let whole = messages.iter().filter(|(of, _)| *of % length == 0);
        whole.map(|(_, messages)| messages).sum::<usize>()
    };
    let common = messages
        .range(2..=TRANSACTION_MAX)
        .filter(|(_, messages)| **messages * COMMON_OF >= exchanged.len());
    let mut lengths = common.map(|(length, _)| *length);
    let usual = lengths.find(|length| most(in_multiples(*length), exchanged.len()))?;
    let parts = |run: &Vec<usize>| run.chunks(usual).map(<[usize]>::to_vec).collect::<Vec<_>>();
    let mut all: Vec<Vec<usize>> = all.iter().flat_map(parts).collect();
    all.sort_by_key(|of| of[0]);
    Some((usual as u32, all))
}

/// How many connections there were at once, at most.
fn open_at_once(lifetimes: impl Iterator<Item = Lifetime>) -> usize {
    let ends = |one: Lifetime| {
        let closed = one.closed_ns().map(|closed_ns| (closed_ns, false));
        std::iter::once((one.opened_ns, true)).chain(closed)
    };
    // At equal times one is closed first.
    let mut changes: Vec<(u64, bool)> = lifetimes.flat_map(ends).collect();
    changes.sort_unstable();
    let (mut open, mut most) = (0_usize, 0);
    for (_, opens) in changes {
        open = if opens {
            open + 1
        } else {
            open.saturating_sub(1)
        };
        most = most.max(open);
    }
    most
}

/// Whether the service has a thread of its own for most connections. That thread takes all messages
/// of its connection, so that a later message of the client follows from the reply before it and
/// needs no place of its own.
pub(super) fn have_threads(exchanged: &[Exchanged], dialogues: &[Vec<usize>]) -> bool {
    let mut answered: BTreeMap<ThreadId, usize> = BTreeMap::new();
    for of in dialogues {
        let by: BTreeSet<ThreadId> = of.iter().map(|one| exchanged[*one].answer.by).collect();
        by.into_iter()
            .for_each(|by| *answered.entry(by).or_default() += 1);
    }
    let once = answered.values().filter(|connections| **connections == 1);
    most(once.count(), answered.len()) && answered.len() * 2 > dialogues.len()
}

/// The exchanges of a request as one. One that `renews` its connection begins with that, and its
/// client may ask again when one of `clients` has closed the connection; a later close by the
/// kernel delays no request.
pub(super) fn whole(
    exchanged: &[Exchanged],
    of: &[usize],
    renews: bool,
    clients: &BTreeSet<ThreadId>,
) -> Exchanged {
    let (first, last) = (&exchanged[of[0]], &exchanged[of[of.len() - 1]]);
    // A connection that is kept among others that are renewed begins one request only.
    let made = first
        .lifetime
        .filter(|made| renews && first.free_ns < made.opened_ns);
    let closed = made.and_then(|made| made.closed);
    let closed = closed.filter(|(_, by)| clients.contains(by));
    Exchanged {
        client: made.map_or(first.client, |made| made.by),
        begun_ns: made.map_or(first.begun_ns, |made| made.opened_ns),
        freed_ns: closed.map_or(0, |(at_ns, _)| at_ns).max(last.freed_ns),
        replied_ns: last.replied_ns,
        answer: last.answer,
        is_read: last.is_read,
        ..*first
    }
}

/// All messages of requests, in order of sending. `whole` are the requests, `in_parts` the messages
/// of each. A later message follows the last reply of its request that its client had before it
/// sent it, or what the first message follows.
pub(in super::super) fn in_parts(whole: &[Asked], in_parts: Vec<Vec<Asked>>) -> Vec<Asked> {
    let numbered = in_parts.into_iter().enumerate();
    let mut all: Vec<(usize, Asked)> = numbered
        .flat_map(|(number, parts)| parts.into_iter().map(move |part| (number, part)))
        .collect();
    all.sort_by_key(|(_, part)| part.sent_ns);
    // By request: the positions of its messages.
    let mut of_whole: Vec<Vec<usize>> = vec![Vec::new(); whole.len()];
    for (position, (number, _)) in all.iter().enumerate() {
        of_whole[*number].push(position);
    }
    let replied_ns: Vec<i64> = all.iter().map(|(_, part)| part.replied_ns as i64).collect();
    let message = |(position, (number, part)): (usize, &(usize, Asked))| {
        let (one, own) = (&whole[*number], &of_whole[*number]);
        let earlier = &own[..own.partition_point(|one| *one < position)];
        let before = one
            .after
            .and_then(|before| of_whole[before].last().copied());
        let goes_on = own.last() != Some(&position);
        let had = |earlier: &&usize| replied_ns[**earlier] <= part.sent_ns;
        let part = Asked {
            keeps_schedule: one.keeps_schedule,
            goes_on,
            ..*part
        };
        match own[0] == position {
            true => Asked {
                due_ns: one.due_ns,
                busy_ns: one.busy_ns,
                after: before,
                ..part
            },
            false => Asked {
                after: earlier.iter().rev().find(had).copied().or(before),
                first: Some(own[0]),
                ..part
            },
        }
    };
    all.iter().enumerate().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::super::sockets::Answer;
    use super::*;
    use schedcast_sim::random;

    /// One exchange on `connection`, opened and sent at these times, answered 200 µs later.
    fn exchange(connection: u32, opened_us: Option<u64>, sent_us: u64) -> Exchanged {
        let thread = ThreadId(0);
        let replied_ns = (sent_us + 200) * 1000;
        Exchanged {
            client: thread,
            connection,
            lifetime: opened_us.map(|us| Lifetime {
                opened_ns: us * 1000,
                by: thread,
                closed: Some((us * 1000 + 2_000_000, thread)),
            }),
            begun_ns: sent_us * 1000,
            sent_ns: sent_us * 1000,
            replied_ns,
            free_ns: 0,
            freed_ns: replied_ns,
            taken: (sent_us * 1000 + 50, thread),
            answer: Answer {
                at_ns: replied_ns - 50,
                by: thread,
            },
            is_read: true,
        }
    }

    /// Twenty connections, one every 10 ms, each with `parts` exchanges.
    fn connections(parts: u64) -> Vec<Exchanged> {
        let part = |number: u64| move |part: u64| (number, part);
        let all = (0..20).flat_map(|number| (0..parts).map(part(number)));
        all.map(|(number, part)| {
            let opened_us = 1000 + 10_000 * number;
            // The kernel gives sockets to new connections.
            exchange(
                (number % 2) as u32,
                Some(opened_us),
                opened_us + 100 + 500 * part,
            )
        })
        .collect()
    }

    #[test]
    fn what_is_said_on_a_new_connection_is_one_request() {
        let exchanged = connections(3);
        let found = find(&exchanged, &[false; 60]).unwrap();
        assert_eq!(found.len(), 20);
        assert_eq!(found[1], [3, 4, 5]);
        let by_client = BTreeSet::from([ThreadId(0)]);
        let kept = whole(&exchanged, &found[1], false, &by_client);
        let [whole, by_kernel] =
            [by_client, BTreeSet::new()].map(|by| whole(&exchanged, &found[1], true, &by));
        assert_eq!((kept.begun_ns, kept.freed_ns), (11_100_000, 12_300_000));
        let mut later = exchanged.clone();
        later[3].free_ns = 11_050_000;
        let later = super::whole(&later, &found[1], true, &BTreeSet::new());
        assert_eq!(later.begun_ns, 11_100_000);
        assert_eq!(by_kernel.freed_ns, whole.replied_ns);
        let us = [whole.begun_ns, whole.sent_ns, whole.replied_ns].map(|ns| ns / 1000);
        assert_eq!(us, [11_000, 11_100, 12_300]);
        assert_eq!(whole.freed_ns, 13_000_000);
        assert_eq!(whole.taken, exchanged[3].taken);
        assert_eq!(whole.answer, exchanged[5].answer);
    }

    #[test]
    fn a_kept_connection_beside_new_ones_has_a_request_for_each_exchange() {
        let mut exchanged = connections(3);
        let health = |number: u64| exchange(9, None, 300_000 + 10_000 * number);
        exchanged.extend((0..10).map(health));
        let found = find(&exchanged, &[false; 70]).unwrap();
        assert_eq!(found.len(), 30);
        assert_eq!((&found[19], &found[20]), (&vec![57, 58, 59], &vec![60]));
    }

    #[test]
    fn a_pool_is_no_thread_for_each_connection() {
        let mut exchanged = connections(3);
        let found = find(&exchanged, &[false; 60]).unwrap();
        for (position, one) in exchanged.iter_mut().enumerate() {
            one.answer.by = ThreadId(position as u32 / 3);
        }
        assert!(have_threads(&exchanged, &found));
        for (position, one) in exchanged.iter_mut().enumerate() {
            one.answer.by = ThreadId(position as u32 / 3 % 12);
        }
        assert!(!have_threads(&exchanged, &found));
    }

    #[test]
    fn connections_that_are_kept_have_a_request_for_each_exchange() {
        assert_eq!(find(&connections(30), &[false; 600]), None, "many");
        let mut by_timer = [false; 60];
        by_timer
            .iter_mut()
            .step_by(3)
            .skip(1)
            .for_each(|one| *one = true);
        assert!(find(&connections(3), &by_timer).is_some(), "first ones");
        by_timer
            .iter_mut()
            .skip(1)
            .step_by(3)
            .for_each(|one| *one = true);
        assert_eq!(find(&connections(3), &by_timer), None, "later ones");
        let unseen: Vec<Exchanged> = (0..40)
            .map(|one| exchange(one % 4, None, 1000 * u64::from(one)))
            .collect();
        assert_eq!(find(&unseen, &[false; 40]), None, "opened before");
        // All at once, and open to the end.
        let mut kept = connections(8);
        for one in &mut kept {
            one.lifetime = one.lifetime.map(|lifetime| Lifetime {
                closed: None,
                ..lifetime
            });
        }
        assert_eq!(find(&kept, &[false; 160]), None, "never closed");
    }

    #[test]
    fn all_parts_of_a_request_keep_its_schedule() {
        let part = |sent_ns| super::super::arrival(sent_ns, sent_ns);
        let whole = |keeps_schedule| Asked {
            keeps_schedule,
            ..part(10)
        };
        for keeps in [false, true] {
            let all = in_parts(&[whole(keeps)], vec![vec![part(10), part(20)]]);
            let told: Vec<(bool, Option<usize>)> = all
                .iter()
                .map(|one| (one.keeps_schedule, one.first))
                .collect();
            assert_eq!(told, [(keeps, None), (keeps, Some(0))]);
        }
    }

    /// So many transactions of seven statements, ten on a connection that is kept; `late` of them
    /// begin at once when the one before is answered.
    fn statements(transactions: u64, late: u64) -> (Vec<Exchanged>, Vec<bool>) {
        let numbers = (0..transactions).flat_map(|number| (0..7).map(move |part| (number, part)));
        let is_at_once = |(number, part): (u64, u64)| part > 0 || number % 4 > 0 && number < late;
        let exchange =
            |(number, part)| exchange((number / 10) as u32, None, 10_000 * number + 500 * part);
        (
            numbers.clone().map(exchange).collect(),
            numbers.map(is_at_once).collect(),
        )
    }

    #[test]
    fn statements_that_follow_each_other_are_a_transaction() {
        let (exchanged, at_once) = statements(40, 20);
        let (length, found) = transactions(&exchanged, &at_once).unwrap();
        assert_eq!((found.len(), length), (40, 7));
        let seven: Vec<usize> = (7..14).collect();
        assert_eq!(found[1], seven, "late, but a transaction of its own");
        // Of clients that are late now and then, runs are of any length.
        let mut state = random::stream(1, 2, 3);
        let any: Vec<bool> = (0..280)
            .map(|_| random::uniform(&mut state) < 0.8)
            .collect();
        assert_eq!(transactions(&exchanged, &any), None, "any length");
        assert_eq!(transactions(&exchanged, &[false; 280]), None, "single");
    }

    #[test]
    fn most_transactions_may_be_late() {
        let (exchanged, at_once) = statements(400, 360);
        let (length, found) = transactions(&exchanged, &at_once).unwrap();
        assert_eq!((found.len(), length), (400, 7));
    }

    #[test]
    fn a_closed_loop_of_many_connections_has_no_transactions() {
        // All but the first message of each of forty connections follow replies.
        let (exchanged, _) = statements(400, 0);
        let at_once: Vec<bool> = (0..exchanged.len()).map(|one| one % 70 > 0).collect();
        assert_eq!(transactions(&exchanged, &at_once), None);
    }
}
