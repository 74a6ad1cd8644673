//! Places of replies in the work of threads.
//!
//! A reply that woke its client is a waking, and its place in the work of the thread that replied
//! is known. Other replies reached a client that was awake, often because of the reply before. Such
//! a reply is placed as long before the client has it as visible replies are in the median. It was
//! sent by a thread that also sends visible replies, and that ran at that time or was the last to
//! run. Where clients are on other machines no reply is visible. The way back then is the median
//! time from when the replying thread stopped to when the client had the reply.

use super::super::activity::{Begun, Draft, Source};
use super::super::sockets::WAKES_NS;
use super::super::threads::ThreadId;
use super::super::timeline::median;
use super::Asked;
use super::forked::Child;
use super::placed::Placing;
use std::collections::{BTreeMap, BTreeSet};

/// A reply whose client takes longer than this to read it, ns, was misplaced.
const READ_MAX_NS: u64 = 1_000_000;
/// Threads of a subject that sends less than this percentage of the visible replies send no others.
const REPLIER_PERCENT: usize = 5;

/// A reply in the work of a draft.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reply {
    pub draft: usize,
    pub into_ns: u64,
    pub at_ns: u64,
    pub thread: ThreadId,
    /// When the client that it wakes runs.
    ran_ns: u64,
    pub asked: usize,
}

impl Reply {
    /// From when it is sent to when its client has it. A client that is woken waits for a CPU
    /// first, and does so in the replay: its neighbours are there.
    pub(super) fn read_ns(&self, replied_ns: u64) -> u64 {
        let ran_ns = self.ran_ns.min(replied_ns).max(self.at_ns);
        ran_ns - self.at_ns + replied_ns.saturating_sub(ran_ns).min(READ_MAX_NS)
    }
}

impl Placing<'_> {
    /// The replies to requests that are known to be answered.
    pub(super) fn replies(&self, asked: &[Asked], drafts: &[Draft]) -> Vec<Reply> {
        let mut visible: BTreeMap<usize, (usize, u64)> = BTreeMap::new();
        for (index, draft) in drafts.iter().enumerate() {
            if !self.border.inside[draft.activation.thread.index()] {
                continue;
            }
            visible.extend(
                draft
                    .wakes()
                    .map(|(into_ns, waking)| (waking, (index, into_ns))),
            );
        }
        let children: BTreeMap<usize, &Child> = self
            .children()
            .iter()
            .filter_map(|child| Some((child.asked?, child)))
            .collect();
        let mut taken = self.visible(asked, drafts);
        for (position, child) in &children {
            taken.remove(position);
            taken.extend(child.reply.map(|reply| (*position, reply)));
        }
        let mut read_ns: Vec<u64> = taken
            .iter()
            .map(|(asked_at, waking)| {
                asked[*asked_at]
                    .replied_ns
                    .saturating_sub(self.border.time_ns(*waking))
            })
            .collect();
        let repliers = self.repliers();
        if self.border.is_remote {
            read_ns = self.ways_back(asked, &repliers);
        }
        let read_ns = median(&mut read_ns).unwrap_or(0);
        let mut replies = Vec::new();
        for (position, one) in asked.iter().enumerate() {
            let seen = taken.get(&position).and_then(|waking| {
                let (draft, into_ns) = *visible.get(waking)?;
                Some((draft, into_ns, self.border.time_ns(*waking)))
            });
            let ran_ns = taken
                .get(&position)
                .and_then(|waking| match self.border.begun[*waking] {
                    Begun::Draft(draft) => drafts[draft].activation.first_run_ns,
                    _ => None,
                });
            let known = || {
                let answer = one.answer?;
                let (draft, into_ns) = self.clock.place(answer.by, answer.at_ns)?;
                Some((draft, into_ns, answer.at_ns))
            };
            let placed = seen.or_else(known).or_else(|| {
                let sent_ns = one.sent_ns.max(0) as u64;
                let at_ns = one.replied_ns.saturating_sub(read_ns).max(sent_ns);
                match children.get(&position) {
                    Some(child) => self.running(&[(child.thread, 1)], at_ns),
                    None => self.running(&repliers, at_ns),
                }
            });
            replies.extend(placed.map(|(draft, into_ns, at_ns)| Reply {
                draft,
                into_ns,
                at_ns,
                thread: drafts[draft].activation.thread,
                ran_ns: ran_ns.unwrap_or(at_ns),
                asked: position,
            }));
        }
        replies
    }

    /// For each reply to another machine that came after its thread had stopped: how long after.
    fn ways_back(&self, asked: &[Asked], repliers: &[(ThreadId, usize)]) -> Vec<u64> {
        let back = |one: &Asked| {
            let threads = repliers.iter().map(|(thread, _)| *thread);
            let ended_ns = self.clock.last_end_of_any_ns(threads, one.replied_ns)?;
            one.replied_ns.checked_sub(ended_ns)
        };
        asked.iter().filter_map(back).collect()
    }

    /// Requests whose reply is a waking: the first ones that a client has of those it was woken
    /// for.
    fn visible(&self, asked: &[Asked], drafts: &[Draft]) -> BTreeMap<usize, usize> {
        let own = self.border.of_clients(drafts);
        let mut began = BTreeMap::new();
        for reply in &self.border.replies {
            if let Begun::Draft(draft) = self.border.begun[*reply] {
                began.insert(draft, *reply);
            }
        }
        let mut in_order: Vec<usize> = (0..asked.len()).collect();
        in_order.sort_by_key(|position| asked[*position].replied_ns);
        let mut taken = self.awaking(asked);
        let mut woke: BTreeSet<usize> = taken.values().copied().collect();
        for position in in_order {
            let one = &asked[position];
            if let Some(reply) = one.reply {
                taken.insert(position, reply);
                continue;
            }
            if taken.contains_key(&position) {
                continue;
            }
            let woken = |draft: &usize| drafts[*draft].activation.woken_ns <= one.replied_ns;
            let Some(draft) = own.partition_point(woken).checked_sub(1).map(|at| own[at]) else {
                continue;
            };
            let Some(&reply) = began.get(&draft) else {
                continue;
            };
            let answered_ns = one.answer.map_or(one.sent_ns, |answer| answer.at_ns as i64);
            let is_later = self.border.time_ns(reply) as i64 >= answered_ns;
            if is_later && woke.insert(reply) {
                taken.insert(position, reply);
            }
        }
        taken
    }

    /// Requests whose reply is a waking by events of sockets: it wakes the client when its data
    /// has come.
    fn awaking(&self, asked: &[Asked]) -> BTreeMap<usize, usize> {
        let known = asked.iter().enumerate().filter_map(|(position, one)| {
            let answer = one.answer?;
            Some(((answer.by, answer.at_ns), position))
        });
        let answers: BTreeMap<(ThreadId, u64), usize> = known.collect();
        let mut taken = BTreeMap::new();
        for reply in &self.border.replies {
            let Source::Thread(by) = self.border.evidence.wakings[*reply].source else {
                continue;
            };
            let at_ns = self.border.time_ns(*reply);
            let before = answers.range((by, at_ns.saturating_sub(WAKES_NS))..=(by, at_ns));
            if let Some((_, position)) = before.last() {
                taken.entry(*position).or_insert(*reply);
            }
        }
        taken
    }

    /// Threads that send replies, with the number of those that are visible.
    fn repliers(&self) -> Vec<(ThreadId, usize)> {
        let counts = self.border.repliers();
        let threads = self.border.evidence.threads;
        let mut of_subject: BTreeMap<&str, usize> = BTreeMap::new();
        for (thread, count) in &counts {
            *of_subject
                .entry(&threads[thread.index()].subject)
                .or_default() += count;
        }
        let all: usize = counts.values().sum();
        let enough = |thread: &ThreadId| {
            let subject = threads[thread.index()].subject.as_str();
            of_subject[subject] * 100 >= all * REPLIER_PERCENT
        };
        counts
            .into_iter()
            .filter(|(thread, _)| enough(thread))
            .collect()
    }

    /// The replier that ran at `at_ns`, or did last: its draft, how much of that it had executed,
    /// and when.
    fn running(&self, repliers: &[(ThreadId, usize)], at_ns: u64) -> Option<(usize, u64, u64)> {
        let last = repliers.iter().filter_map(|(thread, count)| {
            let end_ns = self.clock.last_run_end_ns(*thread, at_ns)?;
            Some((end_ns.min(at_ns), *count, *thread))
        });
        let (at_ns, _, thread) = last.max()?;
        let (draft, into_ns) = self.clock.place(thread, at_ns)?;
        Some((draft, into_ns, at_ns))
    }
}
