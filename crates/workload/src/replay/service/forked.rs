//! Servers that fork a child for each request, as CGI and `inetd` do.
//!
//! The parent accepts connections in the order in which they came and forks a child for each. So
//! the next child serves the oldest request that has no child yet, whatever order the replies come
//! in. A request that the parent accepts after a wakeup is not older than the message that woke it:
//! an older one would have kept the parent awake.
//!
//! The work of such a child is for its own request, and nothing of it waits for another one. The
//! work of the parent up to a fork is for the request of that child.
//!
//! A service forks for its requests if
//!
//! * one of its threads forks at least 20 children in it;
//! * the children send four in five of the visible replies;
//! * half of the children send a visible reply, and four in five of these take no message of a
//!   client after it.
//!
//! # Worked example
//!
//! Behind a limit a parent accepts requests that came at 0, 5 and 9 ms, and forks three children at
//! 80 ms. The first works 54 ms, the others 4 ms, and all share the CPU. The replies come in the
//! order 2, 3, 1. In the replay the parent forks the second child when the second request has come.
//! Without a limit the requests take 54, 4 and 4 ms.

use super::super::activity::{Draft, DraftStep, Source};
use super::super::threads::ThreadId;
use super::super::timeline::median;
use super::asked::most;
use super::{Asked, Border, MESSAGES_MIN};
use std::collections::BTreeMap;

/// A client that logs a request has connected within this time before or after.
const CONNECTED_NS: i64 = 1_000_000;

/// Child that serves one request.
pub(super) struct Child {
    pub thread: ThreadId,
    /// The latest time at which its request had come: when the child was forked, or when the
    /// request woke the parent.
    pub come_ns: u64,
    /// Its last message to a client, if that was visible.
    pub reply: Option<usize>,
    /// When it was last seen.
    end_ns: u64,
    /// When the client woke the parent that forks this child first.
    woke_ns: Option<u64>,
    /// Position of its request.
    pub asked: Option<usize>,
}

impl Child {
    /// Whether its request woke the parent.
    pub(super) fn is_woken_for(&self) -> bool {
        self.woke_ns.is_some()
    }
}

/// The children of a service, in the order in which they were forked.
pub(super) struct Forked {
    /// The thread that accepts the connections.
    pub parent: ThreadId,
    children: Vec<Child>,
    of_thread: BTreeMap<ThreadId, usize>,
}

impl Forked {
    /// The children that serve the requests of a service, if it forks one for each.
    pub(super) fn of(border: &Border<'_>, drafts: &[Draft]) -> Option<Self> {
        let mut replies: BTreeMap<ThreadId, Vec<usize>> = BTreeMap::new();
        for reply in &border.replies {
            if let Source::Thread(by) = border.evidence.wakings[*reply].source {
                replies.entry(by).or_default().push(*reply);
            }
        }
        let mut entered_ns: BTreeMap<ThreadId, u64> = BTreeMap::new();
        for &(draft, waking) in &border.entries {
            let last_ns = entered_ns
                .entry(drafts[draft].activation.thread)
                .or_default();
            *last_ns = (*last_ns).max(border.time_ns(waking));
        }
        let mut lives: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
        for Draft { activation, .. } in drafts {
            let end_ns = activation.end_ns.unwrap_or(activation.woken_ns);
            let life = lives.entry(activation.thread);
            let life = life.or_insert((activation.woken_ns, end_ns));
            *life = (life.0.min(activation.woken_ns), life.1.max(end_ns));
        }
        let mut of_parent: BTreeMap<ThreadId, Vec<Child>> = BTreeMap::new();
        for (index, draft) in drafts.iter().enumerate() {
            let parent = draft.activation.thread;
            let entry = border.waking_of(index).filter(|waking| {
                let by = border.evidence.wakings[*waking].source;
                matches!(by, Source::Thread(by) if border.clients.contains(&by))
            });
            let mut woke_ns = entry.map(|waking| border.time_ns(waking));
            for (_, step) in &draft.deeds {
                let DraftStep::Forks(thread) = *step else {
                    continue;
                };
                let Some(&(forked_ns, end_ns)) = lives.get(&thread) else {
                    continue;
                };
                if !border.inside[parent.index()] || !border.inside[thread.index()] {
                    continue;
                }
                let woke_ns = woke_ns.take();
                of_parent.entry(parent).or_default().push(Child {
                    thread,
                    come_ns: woke_ns.unwrap_or(forked_ns),
                    reply: replies.get(&thread).and_then(|own| own.last().copied()),
                    end_ns,
                    woke_ns,
                    asked: None,
                });
            }
        }
        let most_children = of_parent.into_iter().max_by_key(|(_, all)| all.len());
        let (parent, children) = most_children?;
        let replying = children.iter().filter(|child| child.reply.is_some());
        let (mut sent, mut all, mut once) = (0, 0, 0);
        for child in replying {
            let own = &replies[&child.thread];
            let last_ns = entered_ns.get(&child.thread).copied().unwrap_or(0);
            all += 1;
            sent += own.len();
            once += usize::from(last_ns <= border.time_ns(own[0]));
        }
        let forks = children.len() >= MESSAGES_MIN && all * 2 >= children.len();
        if !forks || !most(sent, border.replies.len()) || !most(once, all) {
            return None;
        }
        let numbered = children.iter().enumerate();
        Some(Self {
            parent,
            of_thread: numbered.map(|(at, child)| (child.thread, at)).collect(),
            children,
        })
    }

    /// The child that a thread is.
    pub(super) fn child(&self, thread: ThreadId) -> Option<&Child> {
        self.of_thread.get(&thread).map(|at| &self.children[*at])
    }

    /// The children, in the order in which they were forked.
    pub(super) fn children(&self) -> &[Child] {
        &self.children
    }

    /// Gives the requests, in order of sending, to the children. `replied` tells whether it is
    /// known when their clients had the replies.
    pub(super) fn give(&mut self, border: &Border<'_>, asked: &[Asked], replied: bool) {
        let mut next = 0;
        for child in &mut self.children {
            if let Some(woke_ns) = child.woke_ns {
                let older = |one: &Asked| one.sent_ns < woke_ns as i64 - CONNECTED_NS;
                next += asked[next..].iter().take_while(|one| older(one)).count();
            }
            let replied_ns = child
                .reply
                .map_or(child.come_ns, |reply| border.time_ns(reply));
            // The log is rounded to microseconds.
            let too_early = |one: &Asked| replied && one.replied_ns + 1_000 < replied_ns;
            next += asked[next..]
                .iter()
                .take_while(|one| too_early(one))
                .count();
            let come_ns = child.come_ns as i64;
            if asked
                .get(next)
                .is_some_and(|one| one.sent_ns <= come_ns + CONNECTED_NS)
            {
                child.asked = Some(next);
                next += 1;
            }
        }
    }

    /// The requests that the trace tells, each with the reply of its child. `asked` has the replies
    /// in order of time.
    pub(super) fn answered(&mut self, border: &Border<'_>, asked: Vec<Asked>) -> Vec<Asked> {
        let mut had_ns: BTreeMap<usize, u64> = BTreeMap::new();
        for one in &asked {
            if let Some(reply) = one.reply {
                let first_ns = had_ns.entry(reply).or_insert(one.replied_ns);
                *first_ns = one.replied_ns.min(*first_ns);
            }
        }
        let visible = self
            .children
            .iter()
            .filter_map(|child| Some((child, child.reply?)));
        let mut behind_ns: Vec<u64> = visible
            .map(|(child, reply)| child.end_ns.saturating_sub(border.time_ns(reply)))
            .collect();
        let behind_ns = median(&mut behind_ns).unwrap_or(0);
        let mut given = Vec::with_capacity(asked.len());
        for child in &mut self.children {
            let Some(position) = child.asked else {
                continue;
            };
            let replied_ns = match child.reply {
                Some(reply) => had_ns.get(&reply).copied().unwrap_or(border.time_ns(reply)),
                None => child.end_ns.saturating_sub(behind_ns).max(child.come_ns),
            };
            child.asked = Some(given.len());
            given.push(Asked {
                replied_ns,
                reply: child.reply,
                ..asked[position]
            });
        }
        given
    }
}
