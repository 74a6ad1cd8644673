//! CPU time of a thread for being woken.
//!
//! A thread that is woken for a request returns from a system call, asks what there is to do,
//! answers, asks again and goes to sleep. It does all but the answer once for however many requests
//! there are. So the CPU time of a request depends on the limit: under a tighter one more of them
//! wait together.
//!
//! The recording shows it where a thread answers two to [`PILE_MAX`] requests in one activation.
//! The median of the time that each request behind the first adds is that of a request; the rest of
//! an activation with one request is the time for being woken. In the replay an activation spends
//! it unless its message has waited for 1 ms in a pile. A request that the replay takes out of a
//! pile spends it where it wakes its thread.
//!
//! Threads that wake each other for work, as Go's do, spin and look for it, and more of them do so
//! where requests wait: etcd uses 0.16 CPU without a limit and under one that throttles it in half
//! of the periods. Nothing is taken for their wakeups.
//!
//! It is not known where there are fewer than [`ACTIVATIONS_MIN`] activations of either kind, where
//! a request has several messages, and where two requests together use less than one alone, so that
//! they are others. Where requests differ so much that those behind which others wait are the long
//! ones, nothing is left for the wakeup: a Redis in which one request in ten takes 2.5 ms and the
//! others 10 µs.
//!
//! # Worked example
//!
//! haproxy uses 15.4 µs for a request that comes alone and 23.7 µs for two: 8.3 µs for a request
//! and 7.1 µs for being woken. In 1000 activations of two each it uses 23.7 ms, and for 2000
//! requests that come alone 30.8 ms.

use super::super::activity::Draft;
use super::super::model::Thread;
use super::super::threads::ThreadId;
use super::super::timeline::median;
use std::collections::BTreeMap;

/// Fewer activations than this with one request, or with several, tell nothing.
const ACTIVATIONS_MIN: usize = 20;
/// Larger piles are those of a limit: cold caches and what was held back with them count there.
const PILE_MAX: usize = 4;
/// At most one in this many activations is begun by threads of the same kind.
const PEERS_OF: usize = 20;
/// More than this, ns, is no wakeup: the other replies are to requests that other threads did the
/// work for. Erlang's schedulers, which spin before they sleep, have 0.15 ms, a pool of Ruby 7.9.
const WAKEUP_MAX_NS: u64 = 1_000_000;

/// CPU time of the activations of threads of a kind, ns.
#[derive(Default)]
struct Seen {
    /// With one request.
    single: Vec<u64>,
    /// With more, each with how many there are behind the first.
    piled: Vec<(u64, usize)>,
    /// How many threads of the kind began.
    by_peers: usize,
}

/// Marks the drafts that a wakeup began: their thread slept before them, rather than turned to the
/// next message. Drafts of a thread stand side by side, in order.
fn mark(drafts: &mut [Draft]) {
    let mut awake = None;
    for Draft { activation, .. } in drafts {
        let was_awake = awake == Some(activation.thread);
        activation.was_woken = activation.is_whole() && !was_awake;
        if activation.switches > 0 {
            awake = (!activation.slept).then_some(activation.thread);
        }
    }
}

/// CPU time of each thread for being woken, ns, where it is known; marks the drafts that a wakeup
/// began. `replying` has the draft of each reply.
pub(super) fn of_wakeups(
    threads: &[Thread],
    drafts: &mut [Draft],
    replying: impl Iterator<Item = usize>,
) -> BTreeMap<ThreadId, u64> {
    mark(drafts);
    let mut answers: BTreeMap<usize, usize> = BTreeMap::new();
    for draft in replying {
        *answers.entry(draft).or_default() += 1;
    }
    let kind_of = |thread: ThreadId| {
        let thread = &threads[thread.index()];
        (thread.subject.as_str(), thread.group)
    };
    let mut seen: BTreeMap<_, Seen> = BTreeMap::new();
    let mut members: BTreeMap<_, Vec<ThreadId>> = BTreeMap::new();
    for (index, number) in answers {
        let activation = &drafts[index].activation;
        if !activation.slept || !activation.was_woken {
            continue;
        }
        let kind = kind_of(activation.thread);
        let by = activation.trigger.thread();
        let by_peer = by.is_some_and(|by| kind_of(by) == kind);
        let Seen {
            single,
            piled,
            by_peers,
        } = seen.entry(kind).or_default();
        match number {
            1 => single.push(activation.executed_ns),
            2..=PILE_MAX => piled.push((activation.executed_ns, number - 1)),
            _ => continue,
        }
        *by_peers += usize::from(by_peer);
        members.entry(kind).or_default().push(activation.thread);
    }
    let mut found = BTreeMap::new();
    for (kind, one) in seen {
        let Seen {
            mut single, piled, ..
        } = one;
        let all = single.len() + piled.len();
        if single.len().min(piled.len()) < ACTIVATIONS_MIN || one.by_peers * PEERS_OF > all {
            continue;
        }
        let Some(alone_ns) = median(&mut single) else {
            continue;
        };
        let more = piled
            .iter()
            .map(|(executed_ns, behind)| executed_ns.saturating_sub(alone_ns) / *behind as u64);
        let mut more: Vec<u64> = more.collect();
        let woken_ns = median(&mut more).filter(|each_ns| *each_ns > 0);
        let woken_ns = woken_ns.map_or(0, |each_ns| alone_ns.saturating_sub(each_ns));
        if (1..=WAKEUP_MAX_NS).contains(&woken_ns) {
            let own = members.get(&kind).into_iter().flatten();
            found.extend(own.map(|thread| (*thread, woken_ns)));
        }
    }
    found
}
