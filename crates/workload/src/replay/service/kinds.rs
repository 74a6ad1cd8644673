//! Kinds of clients: programs that ask the same service each in their own way.
//!
//! A health check beside the load, or reports beside orders: one connects anew for each request and
//! the other does not, one keeps a schedule and the other asks again when it has been answered. So
//! what belongs to a request, and when clients ask, is found for each kind by itself, and so are
//! its latencies. Threads are of one kind if their names are the same, so that ten pods of one
//! client are one, or if they use the same connection: a Go client's threads take turns. Programs
//! of one name are told apart only where their requests have different numbers of messages, as
//! those of two `pgbench` do, or connections of their own.
//!
//! # Worked example
//!
//! `ld` sends 385 requests over 16 connections by a schedule, and `ab` connects 8299 times, for one
//! request each. The kinds are `ab` and `ld`. Taken together, most requests would have connections
//! of their own, and all that is said on one of the 16 would be one request of seconds.

use super::super::model::Thread;
use super::super::sockets::Exchanged;
use super::super::subject;
use super::super::threads::ThreadId;
use super::{Asked, MESSAGES_MIN};
use std::collections::{BTreeMap, BTreeSet};

/// Clients of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clients {
    /// Their name.
    pub name: String,
    pub threads: BTreeSet<ThreadId>,
    /// Positions of their exchanges.
    pub exchanges: Vec<usize>,
}

/// The kinds of `clients`, the one with the most exchanges first. Those with few exchanges make no
/// kind of their own and count for the first.
pub(super) fn of(
    exchanged: &[Exchanged],
    threads: &[Thread],
    clients: &BTreeSet<ThreadId>,
) -> Vec<Clients> {
    let name = |thread: ThreadId| subject::split(&threads[thread.index()].subject).0;
    let mut kinds: Vec<Clients> = together(exchanged, |one| name(one.client))
        .into_iter()
        .map(|(names, exchanges)| Clients {
            name: most_frequent(exchanges.iter().map(|one| name(exchanged[*one].client))),
            threads: clients
                .iter()
                .copied()
                .filter(|one| names.contains(name(*one)))
                .collect(),
            exchanges,
        })
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.exchanges.len()));
    let few = kinds
        .iter()
        .position(|kind| kind.exchanges.len() < MESSAGES_MIN);
    let few = kinds.split_off(few.unwrap_or(kinds.len()).max(1).min(kinds.len()));
    let known = kinds.iter().flat_map(|kind| &kind.threads);
    let known: BTreeSet<ThreadId> = known.copied().collect();
    if let Some(first) = kinds.first_mut() {
        first
            .exchanges
            .extend(few.into_iter().flat_map(|kind| kind.exchanges));
        first.exchanges.sort_unstable();
        first.threads.extend(clients.difference(&known));
    }
    kinds
}

/// The programs of one kind: threads that use the same connections.
pub(super) fn programs(exchanged: &[Exchanged]) -> Vec<(BTreeSet<ThreadId>, Vec<usize>)> {
    together(exchanged, |one| one.client)
}

/// Exchanges by what asks; two of them are one where they use the same connection.
fn together<K: Ord + Copy>(
    exchanged: &[Exchanged],
    key: impl Fn(&Exchanged) -> K,
) -> Vec<(BTreeSet<K>, Vec<usize>)> {
    let mut sets: Vec<(BTreeSet<K>, Vec<usize>)> = Vec::new();
    let mut set_of: BTreeMap<K, usize> = BTreeMap::new();
    let mut user_of: BTreeMap<(u32, u64), K> = BTreeMap::new();
    for (position, one) in exchanged.iter().enumerate() {
        let key = key(one);
        let own = *set_of.entry(key).or_insert_with(|| {
            sets.push((BTreeSet::from([key]), Vec::new()));
            sets.len() - 1
        });
        sets[own].1.push(position);
        let opened_ns = one.lifetime.map_or(0, |made| made.opened_ns);
        let user = *user_of.entry((one.connection, opened_ns)).or_insert(key);
        let other = set_of[&user];
        if other != own {
            let (keys, positions) = std::mem::take(&mut sets[own]);
            keys.iter()
                .for_each(|key| *set_of.get_mut(key).expect("it has a set") = other);
            sets[other].0.extend(keys);
            sets[other].1.extend(positions);
        }
    }
    sets.retain(|(_, positions)| !positions.is_empty());
    sets.iter_mut()
        .for_each(|(_, positions)| positions.sort_unstable());
    sets
}

pub(super) fn most_frequent<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or(String::new(), |(name, _)| name.to_owned())
}

/// The requests of all kinds in order of sending; each has the number of its kind.
pub(super) fn in_order(kinds: Vec<Vec<Asked>>) -> Vec<Asked> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (kind, asked) in kinds.iter().enumerate() {
        all.extend((0..asked.len()).map(|position| (kind, position)));
    }
    all.sort_by_key(|(kind, position)| kinds[*kind][*position].sent_ns);
    let mut place: Vec<Vec<usize>> = kinds.iter().map(|asked| vec![0; asked.len()]).collect();
    for (now, (kind, position)) in all.iter().enumerate() {
        place[*kind][*position] = now;
    }
    let moved = |(kind, position): &(usize, usize)| {
        let one = kinds[*kind][*position];
        let now = |before: Option<usize>| before.map(|before| place[*kind][before]);
        Asked {
            kind: *kind as u32,
            after: now(one.after),
            first: now(one.first),
            ..one
        }
    };
    all.iter().map(moved).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::sockets::Answer;
    use super::super::asked::arrival;
    use super::*;

    /// One exchange of `client` on `connection`.
    fn exchange(client: u32, connection: u32) -> Exchanged {
        let client = ThreadId(client);
        let server = ThreadId(9);
        Exchanged {
            client,
            connection,
            lifetime: None,
            begun_ns: 0,
            sent_ns: 0,
            replied_ns: 1,
            free_ns: 0,
            freed_ns: 1,
            taken: (0, server),
            answer: Answer {
                at_ns: 1,
                by: server,
            },
            is_read: true,
        }
    }

    #[test]
    fn threads_that_share_a_connection_are_one_program() {
        let exchanged = [(1, 1), (2, 2), (3, 3), (1, 3), (4, 4)].map(|(by, on)| exchange(by, on));
        let threads = |of: &[u32]| of.iter().map(|one| ThreadId(*one)).collect::<BTreeSet<_>>();
        let mut programs = programs(&exchanged);
        programs.sort();
        assert_eq!(
            programs,
            [
                (threads(&[1, 3]), vec![0, 2, 3]),
                (threads(&[2]), vec![1]),
                (threads(&[4]), vec![4]),
            ]
        );
    }

    #[test]
    fn requests_of_all_kinds_keep_what_they_follow() {
        let at = |sent_ns, after, first| Asked {
            after,
            first,
            ..arrival(sent_ns, sent_ns)
        };
        let closed = vec![
            at(10, None, None),
            at(30, Some(0), None),
            at(50, Some(1), None),
        ];
        let parts = vec![at(20, None, None), at(40, Some(0), Some(0))];
        let all = in_order(vec![closed, parts]);
        let told = all
            .iter()
            .map(|one| (one.sent_ns, one.kind, one.after, one.first));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (10, 0, None, None),
                (20, 1, None, None),
                (30, 0, Some(0), None),
                (40, 1, Some(1), Some(1)),
                (50, 0, Some(2), None),
            ]
        );
    }
}
