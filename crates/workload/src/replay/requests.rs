//! Requests that sleep before they are answered: one activation, not several.
//!
//! A server that waits for a lock inside a request sleeps and is woken like one that waits for its
//! next message; the waker is the peer that releases the lock. A *peer* is a thread of the same
//! name and group. If the replay took such a wakeup for a message, it could come before the request
//! does: the server would execute what follows the lock before it waits for it. Threads that wait
//! for each other would stop the replay.
//!
//! So where a thread answers its client, everything from the client's message to the answer is one
//! activation, and the sleeps in it are waits for the peers that end them. A sleep that a device, a
//! timer or any other thread ends remains a sleep between two messages: that of a client that is
//! answered and asks again at its own time looks the same. A thread answers a client if the
//! recording shows at least [`REQUESTS_MIN`] messages and if, for [`ANSWERED_PERCENT`] percent of
//! them, it wakes the client after no other wakeups than those by peers.
//!
//! Events of sockets show which thread receives a request and answers it, whoever woke it for that.
//! Where threads of a kind do so one request at a time, the activations that peers begin between
//! the two are joined to the ones before them, too. A thread of Python that sleeps in the middle of
//! its request waits for the interpreter's lock behind the sleep, which another request's thread
//! releases.
//!
//! # Worked example
//!
//! A backend is asked at 0 ms, runs for 3 ms, sleeps until a peer wakes it at 9 ms, runs for 2 ms
//! and wakes its client. Its two activations, of 3 ms and of 2 ms, become one that lasts 11 ms,
//! with 5 ms of work and a wait.

use super::activity::{Begun, Draft, DraftStep, Waking};
use super::groups::GroupIndex;
use super::model::{Activation, HandoverId, Trigger};
use super::sockets::Reply;
use super::threads::ThreadId;
use std::collections::BTreeMap;

/// Fewer messages than this do not show whether a thread answers its client.
const REQUESTS_MIN: u32 = 20;
/// A thread that answers does so for at least this percentage of messages: one may be under way at
/// each end of the recording, or have been cancelled.
const ANSWERED_PERCENT: u32 = 95;

/// Facts known of all drafts.
pub(super) struct Facts<'a> {
    pub wakings: &'a [Waking],
    /// Name and group of each thread.
    pub kinds: &'a [(&'a str, GroupIndex)],
    /// By thread: its replies, as events of sockets show them.
    pub replies: &'a BTreeMap<ThreadId, Vec<Reply>>,
    pub start_ns: u64,
}

impl Facts<'_> {
    fn is_peer(&self, one: ThreadId, other: ThreadId) -> bool {
        one != other && self.kinds[one.index()] == self.kinds[other.index()]
    }

    /// The client that began a draft: another kind of thread.
    fn client_of(&self, draft: &Draft) -> Option<ThreadId> {
        match draft.activation.trigger {
            Trigger::Thread(by) if !self.is_peer(by, draft.activation.thread) => Some(by),
            _ => None,
        }
    }

    /// When `draft` last wakes `client`, ns since the start.
    fn reply_ns(&self, draft: &Draft, client: ThreadId) -> Option<u64> {
        let wakings = draft.wakes().map(|(_, waking)| &self.wakings[waking]);
        let last = wakings.rev().find(|waking| waking.wakee == client);
        last.map(|waking| waking.time_ns.saturating_sub(self.start_ns))
    }

    /// How many drafts from the first of `drafts` on, which `client` began, make up its request;
    /// `None` without an answer.
    fn length(&self, drafts: &[Draft], client: ThreadId) -> Option<usize> {
        let thread = drafts[0].activation.thread;
        for (place, draft) in drafts.iter().enumerate() {
            let belongs = match draft.activation.trigger {
                _ if draft.activation.thread != thread => false,
                _ if place == 0 => true,
                Trigger::Thread(by) => self.is_peer(by, thread),
                _ => false,
            };
            if !belongs {
                return None;
            }
            if self.reply_ns(draft, client).is_some() {
                return Some(place + 1);
            }
        }
        None
    }

    /// By thread: when it receives each request of a client in another group, and when it answers,
    /// in order. Threads of kinds that receive requests in the middle of others have none.
    fn one_at_a_time(&self) -> BTreeMap<ThreadId, Vec<(u64, u64)>> {
        let kind = |thread: ThreadId| self.kinds[thread.index()];
        let mut counts: BTreeMap<(&str, GroupIndex), [u32; 2]> = BTreeMap::new();
        let mut own: BTreeMap<ThreadId, Vec<(u64, u64)>> = BTreeMap::new();
        for (&thread, replies) in self.replies {
            let is_outside = |to: ThreadId| kind(to).1 != kind(thread).1;
            let mut before_ns = 0;
            for reply in replies.iter().filter(|one| one.to.is_some_and(is_outside)) {
                let [all, apart] = counts.entry(kind(thread)).or_default();
                *all += 1;
                if reply.received_ns >= before_ns {
                    *apart += 1;
                    let spans = own.entry(thread).or_default();
                    spans.push((reply.received_ns, reply.sent_ns));
                }
                before_ns = reply.sent_ns;
            }
        }
        own.retain(|thread, _| {
            let [all, apart] = counts[&kind(*thread)];
            all >= REQUESTS_MIN && 100 * apart >= ANSWERED_PERCENT * all
        });
        own
    }

    /// Whether a peer begins a draft in the middle of a request of its own thread. `own` has the
    /// requests of each thread.
    fn is_inside(&self, draft: &Draft, own: &BTreeMap<ThreadId, Vec<(u64, u64)>>) -> bool {
        let Activation {
            thread,
            trigger,
            woken_ns,
            ..
        } = draft.activation;
        let by_peer = trigger.thread().is_some_and(|by| self.is_peer(by, thread));
        let spans = own.get(&thread).filter(|_| by_peer);
        spans.is_some_and(|spans| {
            let next = spans.partition_point(|(received_ns, _)| *received_ns < woken_ns);
            next.checked_sub(1)
                .is_some_and(|last| woken_ns < spans[last].1)
        })
    }
}

/// Joins the drafts of each request into one. `begun` says what each waking began.
pub(super) fn join(
    facts: &Facts<'_>,
    drafts: Vec<Draft>,
    begun: &mut [Begun],
    handovers: &mut u32,
) -> Vec<Draft> {
    // Where a client's message is handled: its client, and how many drafts make up its request.
    let requests: Vec<(usize, ThreadId, Option<usize>)> = drafts
        .iter()
        .enumerate()
        .filter_map(|(place, draft)| {
            let client = facts.client_of(draft)?;
            Some((place, client, facts.length(&drafts[place..], client)))
        })
        .collect();
    let mut seen: BTreeMap<(ThreadId, ThreadId), [u32; 2]> = BTreeMap::new();
    for &(place, client, length) in &requests {
        let server = drafts[place].activation.thread;
        let [asked, answered] = seen.entry((server, client)).or_default();
        *asked += 1;
        *answered += u32::from(length.is_some());
    }
    let answers = |server, client| {
        let [asked, answered] = seen[&(server, client)];
        asked >= REQUESTS_MIN && 100 * answered >= ANSWERED_PERCENT * asked
    };
    let mut began = vec![None; drafts.len()];
    for (waking, what) in begun.iter().enumerate() {
        if let Begun::Draft(draft) = what {
            began[*draft] = Some(waking);
        }
    }
    // The first draft of the request that each draft belongs to.
    let mut first: Vec<usize> = (0..drafts.len()).collect();
    for &(place, client, length) in &requests {
        if let Some(length) = length
            && answers(drafts[place].activation.thread, client)
            // Without a waking that is seen there is no task to wait for.
            && began[place + 1..place + length].iter().all(Option::is_some)
        {
            first[place..place + length].fill(place);
        }
    }
    let own = facts.one_at_a_time();
    for place in 1..drafts.len() {
        let is_next = drafts[place - 1].activation.thread == drafts[place].activation.thread;
        if is_next && began[place].is_some() && facts.is_inside(&drafts[place], &own) {
            first[place] = first[place - 1];
        }
    }
    let mut joined: Vec<Draft> = Vec::with_capacity(drafts.len());
    let mut places = Vec::with_capacity(drafts.len());
    for (place, draft) in drafts.into_iter().enumerate() {
        match joined.last_mut().filter(|_| first[place] != place) {
            None => joined.push(draft),
            Some(request) => {
                let handover = HandoverId(*handovers);
                *handovers += 1;
                if let Some(waking) = began[place] {
                    begun[waking] = Begun::Handover(handover);
                }
                append(facts, request, draft, DraftStep::Wait(handover));
            }
        }
        places.push(joined.len() - 1);
    }
    for what in begun.iter_mut() {
        if let Begun::Draft(draft) = what {
            *draft = places[*draft];
        }
    }
    joined
}

fn append(facts: &Facts<'_>, request: &mut Draft, draft: Draft, wait: DraftStep) {
    if let Trigger::Thread(client) = request.activation.trigger {
        let replied_ns = facts.reply_ns(&draft, client);
        request.activation.replied_ns = replied_ns.or(request.activation.replied_ns);
    }
    let (one, other) = (&mut request.activation, &draft.activation);
    let before_ns = one.executed_ns;
    request.deeds.push((before_ns, wait));
    let deeds = draft.deeds.into_iter();
    request
        .deeds
        .extend(deeds.map(|(into_ns, step)| (before_ns + into_ns, step)));
    request.sleeps += draft.sleeps;
    one.first_run_ns = one.first_run_ns.or(other.first_run_ns);
    (one.end_ns, one.slept) = (other.end_ns, other.slept);
    one.executed_ns += other.executed_ns;
    one.removed_ns += other.removed_ns;
    one.assumed_ns += other.assumed_ns;
    one.switches += other.switches;
    one.interrupts += other.interrupts;
}
