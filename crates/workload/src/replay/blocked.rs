//! Requests that sleep for a database, a device or a timer before they are answered.
//!
//! A thread that asks a database on another machine, or waits 4 ms for something else, sleeps in
//! the middle of its request, and an interrupt wakes it. How long such a wait takes does not depend
//! on when it begins. If the wakeup kept its recorded time instead, the second half of a request
//! could run before the first under a tighter limit, and under a looser one it would still come as
//! late as in the recording. So the second half begins as long after the end of the first as it did
//! in the recording.
//!
//! A client that thinks looks the same: a reply wakes it, it sleeps, and a timer lets it send the
//! next request. Its activations keep their times. Four things distinguish a server:
//!
//! * It is in a group, and sends its replies to threads outside that group.
//! * Of the activations in which those threads send something into the group, at least
//!   [`REQUESTS_MIN`] were not begun by the group itself. A server's clients act on their own; a
//!   client's server acts when it is asked. A client that asks again as soon as it is answered has
//!   connected to the server, or the server is the group that was recorded and has no other
//!   clients.
//! * After sleeps behind a message it replies: at least once in [`SLEEPS_MAX`] sleeps.
//! * Interrupts that begin a reply come in the middle of a request. Of the visible replies that
//!   such an interrupt began, at least [`REQUESTS_MIN`] and [`INSIDE_PERCENT`] percent followed a
//!   message without a reply in between. A thread that finds the next request waiting when it has
//!   answered takes it without a wakeup: it works at least a quarter of the median first half
//!   behind its reply before it sleeps.
//!
//! An event loop takes other requests while one sleeps. Where events of sockets show which request
//! an interrupt's activation answers first, that goes on as long after the end of the activation
//! that received the request. It has to be so for at least [`REQUESTS_MIN`] and [`INSIDE_PERCENT`]
//! percent of a server's activations that an interrupt begins and that answer such a client.
//!
//! # Worked example
//!
//! A worker is woken for a request at 0 ms, works 0.5 ms, sleeps from 0.6 to 4.6 ms, works 0.5 ms
//! and replies. It becomes: work 0.5 ms, and 4 ms later work 0.5 ms and reply. If a limit holds it
//! back for 60 ms at its first half, the reply comes 60 ms later. Meanwhile the worker takes other
//! messages, so that a pool cannot run out of threads in the replay.

use super::activity::{Draft, DraftStep, Waking};
use super::groups::{self, GroupIndex};
use super::model::{Thread, Trigger};
use super::sockets::{Messages, Reply};
use super::threads::ThreadId;
use super::timeline::median;
use schedcast_base::groups::is_within;
use schedcast_sim::workload::ArrivalContext;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer requests than this do not show what a thread does.
const REQUESTS_MIN: usize = 20;
/// At least this percentage of the replies that an interrupt began are in the middle of a request.
const INSIDE_PERCENT: usize = 80;
/// A request sleeps at most this many times. Threads of a runtime such as Go's sleep behind
/// messages that other threads answer: 47,722 sleeps were followed by 285 replies in a recording of
/// Go.
const SLEEPS_MAX: usize = 5;
/// Work behind a reply counts as the next request if it is at least one part in this many of the
/// median first half.
const NEXT_PART: u64 = 4;

/// Threads of one subject in one group.
type Kind<'a> = (&'a str, GroupIndex);

/// Facts known of all drafts.
pub(super) struct Facts<'a> {
    pub threads: &'a [Thread],
    pub groups: &'a [groups::Group],
    pub wakings: &'a [Waking],
    /// By thread: its replies, as events of sockets show them.
    pub replies: &'a BTreeMap<ThreadId, Vec<Reply>>,
    /// The group that was recorded, where the recording says.
    pub recorded: Option<&'a str>,
}

/// How a draft is a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A message begins it, it works so long, and it shows no reply.
    Asked { work_ns: u64 },
    /// It shows a reply, and works so long behind the last one.
    Replied { tail_ns: u64 },
    /// An interrupt begins it, and it shows no reply.
    Inside,
}

impl Facts<'_> {
    fn kind(&self, thread: ThreadId) -> Kind<'_> {
        let thread = &self.threads[thread.index()];
        (&thread.subject, thread.group)
    }

    /// Whether a thread is in a group that was made for it.
    fn is_grouped(&self, thread: ThreadId) -> bool {
        let thread = &self.threads[thread.index()];
        let group = &self.groups[thread.group.index()];
        thread.group != GroupIndex::ROOT && !group.autogroup && !thread.kernel
    }

    /// Whether one thread is a user thread outside the group of another.
    fn is_outside(&self, one: ThreadId, other: ThreadId) -> bool {
        let [one, other] = [one, other].map(|thread| &self.threads[thread.index()]);
        !one.kernel && one.group != other.group
    }

    /// Threads outside that a draft wakes, with the work of the draft by then.
    fn replies<'d>(&'d self, draft: &'d Draft) -> impl DoubleEndedIterator<Item = (u64, ThreadId)> {
        let thread = draft.activation.thread;
        let wakees = draft
            .wakes()
            .map(|(into_ns, waking)| (into_ns, self.wakings[waking].wakee));
        wakees.filter(move |(_, wakee)| self.is_outside(*wakee, thread))
    }

    /// The part of a request that a draft is; `None` if something else begins it.
    fn part(&self, draft: &Draft) -> Option<Part> {
        let activation = &draft.activation;
        if let Some((into_ns, _)) = self.replies(draft).next_back() {
            let tail_ns = activation.executed_ns.saturating_sub(into_ns);
            return Some(Part::Replied { tail_ns });
        }
        match activation.trigger {
            Trigger::Thread(_)
            | Trigger::Outside {
                context: ArrivalContext::SoftIrq,
                ..
            } => Some(Part::Asked {
                work_ns: activation.executed_ns,
            }),
            Trigger::Outside { .. } => Some(Part::Inside),
            _ => None,
        }
    }

    /// Subjects that are clients of a group. Their threads send into it in activations that it did
    /// not begin, or they connect to it: a client that asks again as soon as it is answered never
    /// acts on its own. If the recorded group has no such client, all that send into it are. Those
    /// to which the group connects are not, even if they fork a child for each connection.
    fn acting(&self, drafts: &[Draft], messages: &Messages) -> BTreeSet<(&str, GroupIndex)> {
        // Activations that send into a group: those that it did not begin, and all.
        let mut counts: BTreeMap<GroupIndex, BTreeMap<&str, [usize; 2]>> = BTreeMap::new();
        for draft in drafts {
            let activation = &draft.activation;
            let sender = activation.thread;
            let by = activation.trigger.thread();
            let by = by.map(|by| self.threads[by.index()].group);
            let into: BTreeSet<GroupIndex> = draft
                .wakes()
                .map(|(_, waking)| self.wakings[waking].wakee)
                .filter(|wakee| self.is_grouped(*wakee) && self.is_outside(sender, *wakee))
                .map(|wakee| self.threads[wakee.index()].group)
                .collect();
            let subject = self.threads[sender.index()].subject.as_str();
            for group in into {
                let of_group = counts.entry(group).or_default();
                let [own, all] = of_group.entry(subject).or_default();
                *own += usize::from(by != Some(group));
                *all += 1;
            }
        }
        let mut acting = BTreeSet::new();
        for (index, mut senders) in counts {
            senders.retain(|_, [_, all]| *all >= REQUESTS_MIN);
            if senders.is_empty() {
                continue;
            }
            let of_thread = self.threads.iter().map(|thread| thread.group);
            let members = groups::members_of(self.groups, of_thread, index);
            let inside = groups::inside(&members, self.threads.len());
            let [connected_to, connecting] =
                messages.contacts().by_connector(&inside, self.threads);
            senders.retain(|subject, _| !connected_to.contains(subject));
            let acts = |(subject, [own, _]): (&&str, &[usize; 2])| {
                *own >= REQUESTS_MIN || connecting.contains(subject)
            };
            let path = self.groups[index.index()].path.as_str();
            let is_recorded = self.recorded.is_some_and(|group| is_within(path, group));
            let all_are = is_recorded && !senders.iter().any(acts);
            let clients = senders.iter().filter(|one| all_are || acts(*one));
            acting.extend(clients.map(|(subject, _)| (*subject, index)));
        }
        acting
    }

    /// Kinds of servers that sleep inside requests, with the least work that is a first half.
    fn servers(
        &self,
        drafts: &[Draft],
        acting: &BTreeSet<(&str, GroupIndex)>,
    ) -> BTreeMap<Kind<'_>, u64> {
        let mut seen: BTreeMap<Kind<'_>, Seen> = BTreeMap::new();
        let mut before: Option<Part> = None;
        for (place, draft) in drafts.iter().enumerate() {
            let thread = draft.activation.thread;
            let follows = place > 0 && follows(&drafts[place - 1], draft);
            let part = self.part(draft).filter(|_| self.is_grouped(thread));
            let kind = self.kind(thread);
            let answers = self.replies(draft).any(|(_, to)| {
                let subject = self.threads[to.index()].subject.as_str();
                acting.contains(&(subject, kind.1))
            });
            if answers && follows {
                let seen = seen.entry(kind).or_default();
                match before {
                    Some(Part::Asked { work_ns }) => seen.halves_ns.push(work_ns),
                    Some(Part::Replied { tail_ns }) => seen.tails_ns.push(tail_ns),
                    _ => seen.others += 1,
                }
            }
            if follows && matches!(before, Some(Part::Asked { .. })) {
                seen.entry(kind).or_default().sleeps += 1;
            }
            before = match part {
                Some(Part::Inside) if follows => before,
                Some(Part::Inside) => None,
                part => part,
            };
        }
        let sleeping = seen
            .into_iter()
            .filter_map(|(kind, seen)| Some((kind, seen.least_ns()?)));
        sleeping.collect()
    }
}

/// Observations of a kind of threads, before replies that an interrupt began.
#[derive(Default)]
struct Seen {
    /// Work of activations that a message began, and that show no reply.
    halves_ns: Vec<u64>,
    /// Work behind replies.
    tails_ns: Vec<u64>,
    /// Something else.
    others: usize,
    /// Sleeps behind a message that is not answered yet, if an interrupt ended them.
    sleeps: usize,
}

impl Seen {
    /// The least work behind a reply that is for the next request, if interrupts begin replies in
    /// the middle of requests.
    fn least_ns(mut self) -> Option<u64> {
        let inside = self.halves_ns.len();
        let least_ns = median(&mut self.halves_ns)? / NEXT_PART;
        let next = self.tails_ns.iter().filter(|tail_ns| **tail_ns >= least_ns);
        let told = inside + next.count();
        let all = inside + self.tails_ns.len() + self.others;
        let tells = inside >= REQUESTS_MIN
            && told * 100 >= all * INSIDE_PERCENT
            && inside * SLEEPS_MAX >= self.sleeps;
        tells.then_some(least_ns)
    }
}

/// Lets each draft with which a request goes on after a sleep begin as long as recorded after the
/// one before, or after the one that received the request. Drafts of a thread stand side by side,
/// in the order of their wakeups.
pub(super) fn tie(facts: &Facts<'_>, messages: &Messages, drafts: &mut [Draft]) {
    let acting = facts.acting(drafts, messages);
    let servers = facts.servers(drafts, &acting);
    let received_in = received_in(facts, drafts, &acting);
    let mut is_open = false;
    for place in 0..drafts.len() {
        let draft = &drafts[place];
        let Some(least_ns) = servers.get(&facts.kind(draft.activation.thread)) else {
            is_open = false;
            continue;
        };
        let follows = place > 0 && follows(&drafts[place - 1], draft);
        let goes_on = follows && is_open;
        is_open = match facts.part(draft) {
            Some(Part::Asked { .. }) => true,
            Some(Part::Replied { tail_ns }) => tail_ns >= *least_ns,
            Some(Part::Inside) => goes_on,
            None => false,
        };
        if goes_on && received_in[place].is_none() {
            tie_to(drafts, place - 1, place);
        }
    }
    for (place, before) in received_in.into_iter().enumerate() {
        if let Some(before) = before {
            tie_to(drafts, before, place);
        }
    }
}

/// Per draft that an interrupt begins: the earlier draft that received the request which it answers
/// first, as events of sockets show.
fn received_in(
    facts: &Facts<'_>,
    drafts: &[Draft],
    acting: &BTreeSet<(&str, GroupIndex)>,
) -> Vec<Option<usize>> {
    let mut in_draft = vec![None; drafts.len()];
    // By kind: the first replies behind an interrupt, and those to earlier requests.
    let mut counts: BTreeMap<Kind<'_>, (usize, usize)> = BTreeMap::new();
    // Where the drafts of the thread begin.
    let mut from = 0;
    for place in 1..drafts.len() {
        let activation = &drafts[place].activation;
        let thread = activation.thread;
        if drafts[place - 1].activation.thread != thread {
            from = place;
        }
        if !follows(&drafts[place - 1], &drafts[place]) || !facts.is_grouped(thread) {
            continue;
        }
        let own = facts.replies.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = own.partition_point(|reply| reply.sent_ns < activation.woken_ns);
        let first = own.get(first);
        let is_inside = |reply: &&Reply| activation.end_ns.is_none_or(|ns| reply.sent_ns <= ns);
        let is_acting = |to: ThreadId| {
            let subject = facts.threads[to.index()].subject.as_str();
            acting.contains(&(subject, facts.kind(thread).1))
        };
        let Some(reply) = first
            .filter(is_inside)
            .filter(|reply| reply.to.is_some_and(is_acting))
        else {
            continue;
        };
        let (all, earlier) = counts.entry(facts.kind(thread)).or_default();
        *all += 1;
        if reply.received_ns < activation.woken_ns {
            *earlier += 1;
            let own = &drafts[from..place];
            let woken = own.partition_point(|one| one.activation.woken_ns <= reply.received_ns);
            in_draft[place] = woken.checked_sub(1).map(|last| from + last);
        }
    }
    counts.retain(|_, (all, earlier)| {
        *earlier >= REQUESTS_MIN && *earlier * 100 >= *all * INSIDE_PERCENT
    });
    for (draft, before) in drafts.iter().zip(&mut in_draft) {
        if !counts.contains_key(&facts.kind(draft.activation.thread)) {
            *before = None;
        }
    }
    in_draft
}

/// Whether a draft follows another of its thread and an interrupt ended the sleep between them.
pub(super) fn follows(before: &Draft, draft: &Draft) -> bool {
    let [one, other] = [before, draft].map(|draft| &draft.activation);
    let woken_ns = other.woken_ns;
    one.thread == other.thread
        && one.slept
        && one.end_ns.is_some_and(|end_ns| end_ns <= woken_ns)
        && other.trigger.is_hard_interrupt()
}

/// Lets the draft at `place` begin so long after the end of an earlier one of its thread as in the
/// recording.
pub(super) fn tie_to(drafts: &mut [Draft], before: usize, place: usize) {
    let ended_ns = drafts[before].activation.end_ns;
    let woken_ns = drafts[place].activation.woken_ns;
    // The trace may lack the end.
    let Some(slept_ns) = ended_ns.and_then(|ended_ns| woken_ns.checked_sub(ended_ns)) else {
        return;
    };
    let before = &mut drafts[before];
    let end = (before.activation.executed_ns, DraftStep::Later(place));
    before.deeds.push(end);
    drafts[place].activation.slept_before_ns = Some(slept_ns);
}
