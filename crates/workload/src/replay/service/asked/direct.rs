//! Services in which the thread that a message wakes answers the message itself.
//!
//! A thread for each connection or an event loop does so; a pool behind an acceptor or a proxy does
//! not. Where four in five messages that come alone are answered in the activation that they begin,
//! each message is a request. Its reply is the first reply of its activation that is not another
//! message's. A client that is awake from its message to the end of that activation is not woken:
//! it reads the reply when it runs next. There is no such reply if another thread than a client
//! wakes the thread next: it had not finished. Threads of Python wait for the interpreter's lock in
//! this way.
//!
//! # Worked example
//!
//! A client asks a `memcached` with four workers 8000 times a second. A timer wakes it at 0 µs; it
//! sends at 9 µs. A worker of its own CPU takes the CPU from it at 12 µs, answers and sleeps at
//! 23 µs, while the client stays runnable, so that no waking shows the reply. The client usually
//! works 6 µs for a reply, so it has this one at 29 µs. It sends another at 31 µs, due while it was
//! awake. Of 63,900 requests, timers alone led to 35,400.

use super::super::super::activity::Draft;
use super::super::super::threads::ThreadId;
use super::super::super::timeline::median;
use super::super::{Asked, Border, MESSAGES_MIN};
use super::busy::{clients_awake, last_end_ns, reading};
use super::{Due, Prompted, most};
use std::collections::{BTreeMap, BTreeSet};

/// Replies by the activation of their message.
pub(super) struct Direct<'a> {
    border: &'a Border<'a>,
    drafts: &'a [Draft],
    /// Replies of each draft, in order.
    of_draft: BTreeMap<usize, Vec<usize>>,
    /// Drafts after which their thread waits for a client, or never runs again.
    done: BTreeSet<usize>,
    clients_awake: Vec<(u64, u64)>,
    /// Messages, and when the activations end that they begin.
    messages: Vec<(u64, u64)>,
    /// CPU time of a client for a reply in the median, ns.
    reading_ns: u64,
}

impl<'a> Direct<'a> {
    /// `None` for other services.
    pub(super) fn of(
        border: &'a Border<'a>,
        drafts: &'a [Draft],
        prompted: &Prompted,
        spans: &[(u64, u64)],
    ) -> Option<Self> {
        let replies: BTreeSet<usize> = border.replies.iter().copied().collect();
        let mut of_draft: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, draft) in drafts.iter().enumerate() {
            for (_, waking) in draft.wakes() {
                if replies.contains(&waking) {
                    of_draft.entry(index).or_default().push(waking);
                }
            }
        }
        let read = |reply: &usize| reading(border, drafts, *reply).map(|(_, work_ns)| work_ns);
        let mut work_ns: Vec<u64> = border.replies.iter().filter_map(read).collect();
        let entries: BTreeSet<usize> = border.entries.iter().map(|(draft, _)| *draft).collect();
        let mut next: BTreeMap<ThreadId, usize> = BTreeMap::new();
        let mut done = BTreeSet::new();
        let mut in_order: Vec<usize> = (0..drafts.len()).collect();
        in_order.sort_by_key(|draft| std::cmp::Reverse(drafts[*draft].activation.woken_ns));
        for draft in in_order {
            let after = next.insert(drafts[draft].activation.thread, draft);
            if after.is_none_or(|after| entries.contains(&after)) {
                done.insert(draft);
            }
        }
        let mut found = Self {
            border,
            drafts,
            of_draft,
            done,
            clients_awake: clients_awake(border, drafts),
            messages: Vec::new(),
            reading_ns: median(&mut work_ns)?,
        };
        let first = prompted.prompts.iter().filter_map(|one| one.message);
        let other = prompted.extra.iter().chain(&prompted.later);
        let mut messages: Vec<(u64, usize)> = first
            .chain(other.map(|one| one.message))
            .map(|message| (border.time_ns(message), message))
            .collect();
        messages.sort_unstable();
        let (mut single, mut all) = (0, 0);
        for &(from_ns, to_ns) in spans {
            let begin = messages.partition_point(|(sent_ns, _)| *sent_ns < from_ns);
            let end = messages.partition_point(|(sent_ns, _)| *sent_ns <= to_ns);
            let [(sent_ns, message)] = messages[begin..end] else {
                continue;
            };
            if found.is_awake(sent_ns, to_ns) {
                continue;
            }
            all += 1;
            let draft = border.begun_by(message);
            let own = draft.and_then(|draft| found.of_draft.get(&draft));
            single += usize::from(own.is_some_and(|own| own.len() == 1));
        }
        let ends_ns = |&(sent_ns, message): &(u64, usize)| {
            let begun = border.begun_by(message);
            let end_ns = begun.and_then(|draft| drafts[draft].activation.end_ns);
            (sent_ns, end_ns.unwrap_or(sent_ns))
        };
        found.messages = messages.iter().map(ends_ns).collect();
        (all >= MESSAGES_MIN && most(single, all)).then_some(found)
    }

    /// Whether a client was awake all the time.
    fn is_awake(&self, from_ns: u64, to_ns: u64) -> bool {
        last_end_ns(&self.clients_awake, from_ns).is_some_and(|end_ns| to_ns < end_ns)
    }

    /// The time at which a client that is awake has read a reply that was sent by `at_ns`. It first
    /// sends all that is due: a message that follows sooner than a reply takes to be read comes
    /// before the reading.
    fn read_ns(&self, at_ns: u64) -> u64 {
        let mut free_ns = at_ns;
        let next = self
            .messages
            .partition_point(|(sent_ns, _)| *sent_ns < at_ns);
        for (sent_ns, end_ns) in &self.messages[next..] {
            if *sent_ns >= free_ns + self.reading_ns {
                break;
            }
            free_ns = free_ns.max(*end_ns);
        }
        free_ns + self.reading_ns
    }

    /// Takes the requests that are answered in the activations that their messages begin, with
    /// their replies, out of those of a period.
    pub(super) fn pair(
        &self,
        requests: &mut Vec<Due>,
        replies: &mut Vec<(usize, u64)>,
        asked: &mut Vec<Asked>,
    ) {
        let mut open: BTreeSet<usize> = replies.iter().map(|(reply, _)| *reply).collect();
        requests.retain(|one| {
            let Some(draft) = one
                .message
                .and_then(|message| self.border.begun_by(message))
            else {
                return true;
            };
            let sent_ns = one.asked.sent_ns.max(0) as u64;
            let own = self.of_draft.get(&draft).into_iter().flatten();
            let reply = own.copied().find(|reply| open.remove(reply));
            let replied_ns = match reply {
                Some(reply) => {
                    let read = reading(self.border, self.drafts, reply);
                    read.map_or(self.border.time_ns(reply), |(at_ns, work_ns)| {
                        at_ns + work_ns
                    })
                }
                None => match self.drafts[draft].activation.end_ns {
                    Some(end_ns)
                        if self.done.contains(&draft) && self.is_awake(sent_ns, end_ns) =>
                    {
                        self.read_ns(end_ns)
                    }
                    _ => return true,
                },
            };
            asked.push(Asked {
                replied_ns,
                reply,
                ..one.asked
            });
            false
        });
        replies.retain(|(reply, _)| open.contains(reply));
    }
}
