//! Messages that no wakeup shows.
//!
//! A server that has answered may be preempted or throttled before it sleeps. When it runs again,
//! the next request may already be there. The kernel then has no task to wake, the trace shows
//! nothing, and one activation contains the work of two or more requests. In a replay the second
//! request would be executed before its client sent it. So such an activation is split, where the
//! evidence allows it:
//!
//! * The thread's kind (same name, same group) must be a *server* to the kind of the thread that
//!   began the activation. Of the activations that such threads began and that ended asleep, at
//!   least 20, four in five wake that very thread exactly once (the reply), followed only by a
//!   short tail. A tail is short if it is at most eight times the median tail, which must be less
//!   than the median work before the reply.
//! * A reply that is followed by another reply ends a request. So does one that is followed by more
//!   than a short tail of work, if that is at least a quarter of the median work before a reply.
//!   Less is more likely an interrupt, or time that the hypervisor took.
//! * The client must have handled that reply before the server went on: the activation that the
//!   reply began ended before the server's next reply, or its activation.
//!
//! The work after the reply and a median tail becomes an activation of its own, which a message
//! from the client begins. The trace does not show which of the client's activations sent the
//! message. If at least four in five activations that a timer or device began send something
//! visible, it was the first one after the reply that sends nothing visible; otherwise it was the
//! one that handled the reply, of a client that was late and sent at once. The message is placed as
//! long before the end of that activation as the client's visible requests are in the median.
//!
//! Conversely, a server's activation that shows no reply answered a client that was awake. Its
//! reply is inserted a median tail before the end, as a message without work: the client's work for
//! it is in the activation that the client was in.
//!
//! # Worked example
//!
//! In a recording of PostgreSQL 1149 activations of the backends are begun by pgbench; 1102 of them
//! wake it once, after 9.6 ms in the median, and sleep 36 µs later. One executed 28.4 ms and woke
//! pgbench at 9.7, 19.1 and 28.3 ms, at times that are 100 ms apart: it was throttled after each
//! reply, and pgbench, which was late, sent the next request at once. It becomes three activations.

use super::activity::{Begun, Draft, DraftStep, Waking};
use super::groups::GroupIndex;
use super::model::{Activation, Trigger};
use super::threads::ThreadId;
use super::timeline::median;
use std::collections::BTreeMap;

/// Fewer requests than this do not make a server.
const REQUESTS_MIN: usize = 20;
/// A tail is short up to this many median tails.
const SHORT_TAILS: u64 = 8;

/// How a kind of server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    median_tail_ns: u64,
    /// From here on a tail contains a request.
    long_tail_ns: u64,
}

/// Kind of a thread: name and group.
type Kind<'a> = (&'a str, GroupIndex);
/// Servers by their own and their client's kind.
type Servers<'a> = BTreeMap<(Kind<'a>, Kind<'a>), Server>;

/// Messages that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Requests to a server that was awake.
    pub requests: u32,
    /// Replies to a client that was awake.
    pub replies: u32,
}

/// Inserts the messages that the rules of this module allow.
///
/// New activations are appended to `drafts`. `kind_of` is indexed by thread.
pub(super) fn find(
    drafts: &mut Vec<Draft>,
    wakings: &[Waking],
    begun: &[Begun],
    kind_of: &[Kind<'_>],
    start_ns: u64,
) -> Unseen {
    let servers = servers(drafts, wakings, kind_of);
    let mut by_thread: Vec<Vec<usize>> = vec![Vec::new(); kind_of.len()];
    for (index, draft) in drafts.iter().enumerate() {
        by_thread[draft.activation.thread.index()].push(index);
    }
    let prompts = Prompts::of(drafts, wakings, kind_of);
    let mut unseen = Unseen::default();
    for index in 0..drafts.len() {
        let Some(client) = client_of(&drafts[index]) else {
            continue;
        };
        let kind = kind_of[drafts[index].activation.thread.index()];
        let Some(server) = servers.get(&(kind, kind_of[client.index()])) else {
            continue;
        };
        let mut part = index;
        while let Some(cut) = cut(&drafts[part], wakings, client, *server) {
            let replied_ns = wakings[cut.reply].time_ns.saturating_sub(start_ns);
            let of_client = &by_thread[client.index()];
            let usual = prompts.get(client, kind);
            let before_ns = match cut.next_reply {
                Some(next) => Some(wakings[next].time_ns.saturating_sub(start_ns)),
                None => drafts[part].activation.end_ns,
            };
            let before_ns = before_ns.unwrap_or(u64::MAX);
            let Some(sender) = sender(drafts, of_client, begun, &cut, before_ns, usual.talkative)
            else {
                break;
            };
            let tail_ns = server.median_tail_ns;
            part = split_one(drafts, part, &cut, sender, replied_ns, tail_ns);
            place_message(&mut drafts[sender], part, usual.before_end_ns);
            unseen.requests += 1;
        }
    }
    for index in 0..drafts.len() {
        let Some(client) = client_of(&drafts[index]) else {
            continue;
        };
        let kinds = [drafts[index].activation.thread, client].map(|thread| kind_of[thread.index()]);
        if let Some(server) = servers.get(&kinds.into())
            && put_reply(drafts, index, wakings, server.median_tail_ns)
        {
            unseen.replies += 1;
        }
    }
    unseen
}

/// Inserts a reply into a server's activation that shows none. Returns whether it did.
fn put_reply(drafts: &mut Vec<Draft>, index: usize, wakings: &[Waking], tail_ns: u64) -> bool {
    let reply = drafts.len();
    let draft = &mut drafts[index];
    let (Some(client), Some(end_ns)) = (client_of(draft), draft.activation.end_ns) else {
        return false;
    };
    if replies(draft, wakings, client).next().is_some() {
        return false;
    }
    let server = draft.activation.thread;
    let replied_ns = end_ns
        .saturating_sub(tail_ns)
        .max(draft.activation.woken_ns);
    draft.activation.replied_ns = Some(replied_ns);
    place_message(draft, reply, tail_ns);
    drafts.push(Draft {
        activation: Activation::new(client, Trigger::ThreadUnseen(server), replied_ns),
        deeds: Vec::new(),
        sleeps: 0,
        approach_ns: 0,
        preempts: false,
    });
    true
}

/// The thread that began an activation.
fn client_of(draft: &Draft) -> Option<ThreadId> {
    match draft.activation.trigger {
        Trigger::Thread(client) | Trigger::ThreadUnseen(client) => Some(client),
        _ => None,
    }
}

/// Offsets and wakings of a draft's replies to `client`.
fn replies<'a>(
    draft: &'a Draft,
    wakings: &'a [Waking],
    client: ThreadId,
) -> impl DoubleEndedIterator<Item = (u64, usize)> + 'a {
    draft
        .wakes()
        .filter(move |(_, waking)| wakings[*waking].wakee == client)
}

fn servers<'a>(drafts: &[Draft], wakings: &[Waking], kind_of: &[Kind<'a>]) -> Servers<'a> {
    let mut shapes: BTreeMap<(Kind<'a>, Kind<'a>), Shape> = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| draft.activation.slept) {
        let Some(client) = client_of(draft) else {
            continue;
        };
        let kinds = [draft.activation.thread, client].map(|thread| kind_of[thread.index()]);
        let shape = shapes.entry(kinds.into()).or_default();
        shape.requests += 1;
        let mut replies = replies(draft, wakings, client);
        if let (Some((at_ns, _)), None) = (replies.next(), replies.next()) {
            shape.heads_ns.push(at_ns);
            shape
                .tails_ns
                .push(draft.activation.executed_ns.saturating_sub(at_ns));
        }
    }
    shapes
        .into_iter()
        .filter_map(|(kinds, shape)| Some((kinds, shape.server()?)))
        .collect()
}

/// Shape of the activations of one kind.
#[derive(Default)]
struct Shape {
    requests: usize,
    /// Executed before and after the reply, where there is exactly one.
    heads_ns: Vec<u64>,
    tails_ns: Vec<u64>,
}

impl Shape {
    fn server(mut self) -> Option<Server> {
        let median_tail_ns = median(&mut self.tails_ns)?;
        let short_tail_ns = median_tail_ns.max(1).saturating_mul(SHORT_TAILS);
        let short = self
            .tails_ns
            .iter()
            .filter(|tail_ns| **tail_ns <= short_tail_ns)
            .count();
        let enough = self.requests >= REQUESTS_MIN && short * 5 >= self.requests * 4;
        let median_head_ns = median(&mut self.heads_ns)?;
        (enough && short_tail_ns < median_head_ns).then_some(Server {
            median_tail_ns,
            long_tail_ns: short_tail_ns.max(median_head_ns / 4),
        })
    }
}

/// Where a draft is to be cut.
struct Cut {
    /// The reply that ends the first request.
    reply: usize,
    /// Executed time at which the next one begins.
    at_ns: u64,
    /// The next reply, by which the next request must have come.
    next_reply: Option<usize>,
}

fn cut(draft: &Draft, wakings: &[Waking], client: ThreadId, server: Server) -> Option<Cut> {
    let mut replies = replies(draft, wakings, client);
    let (reply_ns, reply) = replies.next()?;
    let next = replies.next();
    let limit_ns = next.map_or(draft.activation.executed_ns, |(next_ns, _)| next_ns);
    let goes_on = limit_ns < draft.activation.executed_ns
        || limit_ns.saturating_sub(reply_ns) > server.long_tail_ns;
    goes_on.then(|| Cut {
        reply,
        at_ns: (reply_ns + server.median_tail_ns).min(limit_ns),
        next_reply: next.map(|(_, waking)| waking),
    })
}

/// The client's activation that sent the next request.
fn sender(
    drafts: &[Draft],
    of_client: &[usize],
    begun: &[Begun],
    cut: &Cut,
    before_ns: u64,
    talkative: bool,
) -> Option<usize> {
    let Begun::Draft(handler) = begun[cut.reply] else {
        return None;
    };
    let ended = |index: &usize| {
        let activation = &drafts[*index].activation;
        activation.first_run_ns.is_some() && activation.end_ns.is_some_and(|end| end <= before_ns)
    };
    let later = &of_client[of_client.partition_point(|index| *index <= handler)..];
    let silent = later.iter().copied().take_while(ended).find(|index| {
        let Draft {
            activation, deeds, ..
        } = &drafts[*index];
        matches!(activation.trigger, Trigger::Outside { .. }) && deeds.is_empty()
    });
    silent.filter(|_| talkative).or(Some(handler).filter(ended))
}

/// Cuts `part` in two; returns the second one's index.
fn split_one(
    drafts: &mut Vec<Draft>,
    part: usize,
    cut: &Cut,
    sender: usize,
    replied_ns: u64,
    tail_ns: u64,
) -> usize {
    let first_end_ns = replied_ns + tail_ns;
    let client = drafts[sender].activation.thread;
    let woken_ns = drafts[sender].activation.end_ns;
    let first = &mut drafts[part];
    let keep = first
        .deeds
        .partition_point(|(at_ns, _)| *at_ns <= cut.at_ns);
    let deeds: Vec<(u64, DraftStep)> = first
        .deeds
        .split_off(keep)
        .into_iter()
        .map(|(at_ns, step)| (at_ns - cut.at_ns, step))
        .collect();
    let mut second = first.activation.clone();
    second.trigger = Trigger::ThreadUnseen(client);
    second.woken_ns = woken_ns.unwrap_or(first_end_ns);
    second.first_run_ns = None;
    second.slept_before_ns = None;
    let replied_again = deeds
        .iter()
        .any(|(_, step)| matches!(step, DraftStep::Wakes(_)));
    second.replied_ns = first.activation.replied_ns.filter(|_| replied_again);
    first.activation.replied_ns = Some(replied_ns);
    second.executed_ns = first.activation.executed_ns - cut.at_ns;
    // The counts do not say which half an interrupt or a switch hit: each half gets half of them.
    second.switches = first.activation.switches / 2;
    second.interrupts = first.activation.interrupts / 2;
    first.activation.switches -= second.switches;
    first.activation.interrupts -= second.interrupts;
    first.activation.executed_ns = cut.at_ns;
    first.activation.end_ns = Some(first_end_ns.min(second.end_ns.unwrap_or(u64::MAX)));
    first.activation.slept = false;
    let sleeps = std::mem::take(&mut first.sleeps);
    drafts.push(Draft {
        activation: second,
        deeds,
        sleeps,
        approach_ns: 0,
        preempts: false,
    });
    drafts.len() - 1
}

/// Puts the message for draft `target` into an activation, this far before its end.
fn place_message(sender: &mut Draft, target: usize, before_end_ns: u64) {
    let at_ns = sender.activation.executed_ns.saturating_sub(before_end_ns);
    sender.insert(at_ns, DraftStep::Sends(target));
}

/// How a client usually sends.
#[derive(Clone, Copy, Debug, Default)]
struct Prompt {
    /// Most activations that a timer or device begins send something.
    talkative: bool,
    /// Median executed time from the last visible request to the end of its activation.
    before_end_ns: u64,
}

/// How each client usually sends to each kind of server.
struct Prompts<'a>(BTreeMap<(ThreadId, Kind<'a>), Prompt>);

impl<'a> Prompts<'a> {
    fn of(drafts: &[Draft], wakings: &[Waking], kind_of: &[Kind<'a>]) -> Self {
        let mut outside: BTreeMap<ThreadId, (usize, usize)> = BTreeMap::new();
        let mut before_end_ns: BTreeMap<(ThreadId, Kind<'a>), Vec<u64>> = BTreeMap::new();
        for draft in drafts {
            let Draft {
                activation, deeds, ..
            } = draft;
            if matches!(activation.trigger, Trigger::Outside { .. }) {
                let (all, sending) = outside.entry(activation.thread).or_default();
                *all += 1;
                *sending += usize::from(!deeds.is_empty());
            }
            let mut last = BTreeMap::new();
            for (at_ns, waking) in draft.wakes() {
                last.insert(kind_of[wakings[waking].wakee.index()], at_ns);
            }
            for (kind, at_ns) in last {
                let before_ns = activation.executed_ns.saturating_sub(at_ns);
                let key = (activation.thread, kind);
                before_end_ns.entry(key).or_default().push(before_ns);
            }
        }
        let prompt = |((client, kind), mut list): ((ThreadId, Kind<'a>), Vec<u64>)| {
            let (all, sending) = outside.get(&client).copied().unwrap_or_default();
            let prompt = Prompt {
                talkative: all > 0 && sending * 5 >= all * 4,
                before_end_ns: median(&mut list).unwrap_or(0),
            };
            ((client, kind), prompt)
        };
        Self(before_end_ns.into_iter().map(prompt).collect())
    }

    fn get(&self, client: ThreadId, kind: Kind<'a>) -> Prompt {
        self.0.get(&(client, kind)).copied().unwrap_or_default()
    }
}
