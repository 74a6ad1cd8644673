//! Requests of an event loop in the order of arrival.
//!
//! A loop that finds several requests when it looks takes them in the order of its list of ready
//! connections. A connection that it has served before keeps its place there, so that a request
//! may be served before others that came earlier (`ep_send_events` of the kernel puts what it has
//! told back at the end of the list, and asks it again next time). Where a limit held the loop
//! back, that order mixes requests that came 80 ms apart. Without the limit each would be served
//! when it comes, and none may wait for a later one.
//!
//! So the *parts* of a loop's work, each of which ends with a reply, are put in the order of the
//! arrivals, and a part that may come before its request waits for that. A garbage collector stops
//! the loop in the middle of a part until its helpers have done their work. Behind its last reply
//! the loop wakes them, and one of them wakes it: the next activation goes on with the part, and
//! belongs to the same stretch of work. A loop that hands requests to workers keeps its order.
//!
//! # Worked example
//!
//! A limit holds a loop back from 374 to 436 ms. Requests come at 350 and 403, and one at 436 on a
//! connection that is still in the list. The loop answers the last one first, at 441, then the
//! others, at 449 and 457. In the replay its activation works for the first, the second and the
//! third, and waits for each. Without the limit they are answered at 355, 411 and 441 ms; in the
//! recorded order, at 441, 449 and 457.

use super::super::activity::{Draft, DraftStep, Waking};
use super::super::threads::ThreadId;
use super::{RequestId, Served};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Stretches of work of event loops.
#[derive(Default)]
pub(super) struct Stretches {
    /// The drafts of each in their order, and the earliest time at which it can begin.
    all: Vec<(Vec<usize>, u64)>,
    /// By thread: the one under way.
    last: BTreeMap<ThreadId, usize>,
}

impl Stretches {
    /// The last draft of a thread's stretch under way.
    pub(super) fn last(&self, thread: ThreadId) -> Option<usize> {
        let stretch = self.last.get(&thread)?;
        self.all[*stretch].0.last().copied()
    }

    /// Adds a draft of `thread`, which no request can begin before `earliest_ns`; a helper that
    /// the thread waited for begins one that `goes_on`.
    pub(super) fn add(&mut self, draft: usize, thread: ThreadId, goes_on: bool, earliest_ns: u64) {
        match self.last.get(&thread).filter(|_| goes_on) {
            Some(stretch) => self.all[*stretch].0.push(draft),
            None => {
                self.last.insert(thread, self.all.len());
                self.all.push((vec![draft], earliest_ns));
            }
        }
    }

    /// The thread has done something that is no part of a loop's work.
    pub(super) fn end(&mut self, thread: ThreadId) {
        self.last.remove(&thread);
    }

    /// Puts the parts of each stretch in the order of the arrivals.
    pub(super) fn sort(self, drafts: &mut [Draft], requests: &[Served]) {
        for (stretch, earliest_ns) in self.all {
            sort(drafts, &stretch, requests, earliest_ns);
        }
    }
}

/// Work in one draft.
struct Piece {
    draft: usize,
    /// Its deeds, by place.
    deeds: Range<usize>,
    /// Where it lies in the work of the draft.
    work_ns: Range<u64>,
}

/// The work that ends with a reply: one piece, or several with a sleep between each two.
struct Part {
    arrives_ns: u64,
    request: RequestId,
    pieces: Vec<Piece>,
}

/// Whether the work of a draft can be divided into parts: it does nothing but to wake threads and
/// to answer requests of its own, which `may_move`.
pub(super) fn has_parts(draft: &Draft, may_move: impl Fn(RequestId) -> bool) -> bool {
    let replies = draft.deeds.iter().filter_map(|(_, step)| match step {
        DraftStep::Replies(id) => Some(*id),
        _ => None,
    });
    let own: BTreeSet<RequestId> = replies.collect();
    draft.deeds.iter().all(|(_, step)| match step {
        DraftStep::Wakes(_) => true,
        DraftStep::Replies(id) => may_move(*id),
        // Another thread may answer what it waits for.
        DraftStep::Awaits(id) => own.contains(id),
        _ => false,
    })
}

/// Whether a draft asks a backend.
pub(super) fn asks(draft: &Draft, backends: &BTreeSet<ThreadId>, wakings: &[Waking]) -> bool {
    let mut wakes = draft.wakes();
    wakes.any(|(_, waking)| backends.contains(&wakings[waking].wakee))
}

/// Whether a draft wakes a helper behind its last reply.
pub(super) fn waits_for(draft: &Draft, helper: ThreadId, wakings: &[Waking]) -> bool {
    let behind = draft.deeds.iter().rev();
    let mut behind = behind.take_while(|(_, step)| !matches!(step, DraftStep::Replies(_)));
    behind.any(|(_, step)| match step {
        DraftStep::Wakes(waking) => wakings[*waking].wakee == helper,
        _ => false,
    })
}

/// Puts the parts of a stretch of work, the drafts `of` in their order, in that of the arrivals. No
/// request can begin the first draft before `earliest_ns`.
fn sort(drafts: &mut [Draft], of: &[usize], requests: &[Served], earliest_ns: u64) {
    let (mut parts, rest) = parts(drafts, of, requests);
    if parts.is_sorted_by_key(|part| part.arrives_ns) {
        return;
    }
    parts.sort_by_key(|part| part.arrives_ns);
    // By place in `of`: the deeds, and the work so far.
    let mut sorted: Vec<(Vec<(u64, DraftStep)>, u64)> = vec![(Vec::new(), 0); of.len()];
    let places: BTreeMap<usize, usize> = of.iter().copied().zip(0..).collect();
    let (mut into, mut level_ns) = (0, earliest_ns);
    let gated = parts
        .iter()
        .map(|part| (Some((part.arrives_ns, part.request)), &part.pieces));
    for (gate, pieces) in gated.chain(std::iter::once((None, &rest))) {
        if let Some((arrives_ns, request)) = gate.filter(|(arrives_ns, _)| *arrives_ns > level_ns) {
            let (deeds, reached_ns) = &mut sorted[into];
            deeds.push((*reached_ns, DraftStep::Awaits(request)));
            level_ns = arrives_ns;
        }
        for (number, piece) in pieces.iter().enumerate() {
            if number > 0 {
                into = places[&piece.draft];
            }
            let (deeds, reached_ns) = &mut sorted[into];
            let own = drafts[piece.draft].deeds[piece.deeds.clone()].iter();
            let own = own.filter(|(_, step)| !matches!(step, DraftStep::Awaits(_)));
            let begin_ns = piece.work_ns.start;
            deeds.extend(own.map(|(into_ns, step)| (into_ns - begin_ns + *reached_ns, *step)));
            *reached_ns += piece.work_ns.end - begin_ns;
        }
    }
    for (draft, (deeds, work_ns)) in of.iter().zip(sorted) {
        drafts[*draft].deeds = deeds;
        drafts[*draft].activation.executed_ns = work_ns;
    }
}

/// The parts of a stretch of work, and the pieces behind the last reply.
fn parts(drafts: &[Draft], of: &[usize], requests: &[Served]) -> (Vec<Part>, Vec<Piece>) {
    let mut parts = Vec::new();
    let mut pieces = Vec::new();
    for draft in of {
        let Draft {
            activation, deeds, ..
        } = &drafts[*draft];
        let (mut from, mut from_ns) = (0, 0);
        let piece = |deeds: Range<usize>, work_ns: Range<u64>| Piece {
            draft: *draft,
            deeds,
            work_ns,
        };
        for (place, (into_ns, step)) in deeds.iter().enumerate() {
            let DraftStep::Replies(id) = step else {
                continue;
            };
            pieces.push(piece(from..place + 1, from_ns..*into_ns));
            parts.push(Part {
                arrives_ns: requests[id.index()].arrives_ns,
                request: *id,
                pieces: std::mem::take(&mut pieces),
            });
            (from, from_ns) = (place + 1, *into_ns);
        }
        let end_ns = activation.executed_ns.max(from_ns);
        pieces.push(piece(from..deeds.len(), from_ns..end_ns));
    }
    (parts, pieces)
}

#[cfg(test)]
mod tests {
    use super::super::super::model::{Activation, Trigger};
    use super::*;
    use DraftStep::{Awaits, Later, Replies, Wakes};

    fn draft(executed_ns: u64, deeds: &[(u64, DraftStep)]) -> Draft {
        Draft {
            activation: Activation {
                executed_ns,
                ..Activation::new(ThreadId(0), Trigger::Fork, 0)
            },
            deeds: deeds.to_vec(),
            sleeps: 0,
            approach_ns: 0,
            preempts: false,
        }
    }

    /// Requests of an open loop that arrive at these times.
    fn requests(arrive_ns: &[u64]) -> Vec<Served> {
        let one = |arrives_ns: &u64| Served {
            service: 0,
            kind: 0,
            due_ns: 0,
            arrives_ns: *arrives_ns,
            read_ns: 0,
            latency_ns: 0,
            follows: None,
            is_handed: false,
            first: None,
            goes_on: false,
            behind_ns: 0,
        };
        arrive_ns.iter().map(one).collect()
    }

    #[test]
    fn the_worked_example() {
        let [first, second, third] = [0, 1, 2].map(RequestId);
        let requests = requests(&[436, 350, 403]);
        let all = [(5, Wakes(9)), (5, Replies(first)), (13, Replies(second))];
        let last = [(13, Awaits(third)), (21, Replies(third)), (23, Wakes(8))];
        let mut drafts = [draft(24, &[all, last].concat())];
        assert!(has_parts(&drafts[0], |_| true));
        sort(&mut drafts, &[0], &requests, 350);
        let expected = [
            (8, Replies(second)),
            (8, Awaits(third)),
            (16, Replies(third)),
            (16, Awaits(first)),
            (21, Wakes(9)),
            (21, Replies(first)),
            (23, Wakes(8)),
        ];
        assert_eq!(drafts[0].deeds, expected);
        assert_eq!(drafts[0].activation.executed_ns, 24);
    }

    #[test]
    fn a_part_in_two_activations_takes_their_border_along() {
        // The first request is answered, then a collection begins in the part of the second, and
        // the other activation goes on with it and answers the third, which came first.
        let [first, second, third] = [0, 1, 2].map(RequestId);
        let requests = requests(&[10, 90, 20]);
        let mut drafts = [
            draft(12, &[(10, Replies(first)), (11, Wakes(5))]),
            draft(9, &[(3, Replies(second)), (8, Replies(third))]),
        ];
        sort(&mut drafts, &[0, 1], &requests, 10);
        let begun = [
            (10, Replies(first)),
            (10, Awaits(third)),
            (15, Replies(third)),
        ];
        let border = [(15, Awaits(second)), (16, Wakes(5))];
        assert_eq!(drafts[0].deeds, [&begun[..], &border].concat());
        assert_eq!(drafts[1].deeds, [(3, Replies(second))]);
        let works_ns = drafts.each_ref().map(|one| one.activation.executed_ns);
        assert_eq!(works_ns, [17, 4]);
    }

    #[test]
    fn what_is_in_order_and_what_sleeps_stays() {
        let requests = requests(&[10, 20]);
        let deeds = [(5, Replies(RequestId(0))), (9, Replies(RequestId(1)))];
        let mut drafts = [draft(10, &deeds)];
        sort(&mut drafts, &[0], &requests, 0);
        assert_eq!(drafts[0].deeds, deeds);
        let has_parts = |deeds| has_parts(&draft(10, deeds), |id| id != RequestId(1));
        assert!(!has_parts(&[(10, Later(3))]));
        assert!(!has_parts(&[(10, Replies(RequestId(1)))]));
        // Another thread answers it.
        assert!(!has_parts(&[(0, Awaits(RequestId(0)))]));
    }
}
