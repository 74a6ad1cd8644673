//! Requests that events of sockets show.

use super::super::super::activity::{Draft, Source};
use super::super::super::sockets::{Exchanged, Sides};
use super::super::super::threads::ThreadId;
use super::super::{Asked, Border, MESSAGES_MIN, Told, placed};
use super::{AT_ONCE_NS, Prompted, arrival, most};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Clients ask at once when they have been answered if all but one in so many requests show it,
/// and no more timers than that wake them.
const AT_ONCE_OF: usize = 20;

/// The requests that [events of sockets](super::super::super::sockets) show, in order of sending,
/// and the connection of each, if they explain four in five messages that wake the group.
///
/// A request is due when it is sent, as load generators count, or, if it is the first that a timer
/// led to, when that expires. What only the client knows of its schedule, no event shows. `hey -q`
/// has a timer for each connection, all at the same time, and sends one request after the other:
/// they are due 50 µs apart.
pub(in super::super) fn from_sockets(border: &Border<'_>, drafts: &[Draft]) -> Option<Told> {
    let sides = Sides {
        clients: &border.clients,
        inside: &border.inside,
    };
    let mut exchanged = border.evidence.messages.exchanged(&sides);
    let sent_ns: Vec<i64> = exchanged.iter().map(|one| one.sent_ns as i64).collect();
    let is_told = |waking: usize| placed::same(&sent_ns, border.time_ns(waking) as i64).is_some();
    let entries = border.entries.iter();
    let told = entries.filter(|(_, waking)| is_told(*waking)).count();
    if exchanged.len() < MESSAGES_MIN || !most(told, border.entries.len()) {
        return None;
    }
    let prompted = Prompted::of(border, drafts);
    let own = border.of_clients(drafts).into_iter();
    let own: BTreeMap<(ThreadId, u64), usize> = own
        .map(|draft| {
            let activation = &drafts[draft].activation;
            ((activation.thread, activation.woken_ns), draft)
        })
        .collect();
    // Timers that led to a message already.
    let mut sent_by: BTreeSet<usize> = BTreeSet::new();
    // When the client of each request woke that sends it, and what timer led to that.
    let awake = exchanged.iter().map(|one| {
        let begun = own.range((one.client, 0)..=(one.client, one.sent_ns));
        let (key, draft) = begun.last()?;
        let is_inside = |waking: usize| match border.evidence.wakings[waking].source {
            Source::Thread(by) => border.inside[by.index()],
            _ => false,
        };
        Some(Awake {
            woken_ns: key.1,
            by_group: border.waking_of(*draft).is_some_and(is_inside),
            timer: prompted.of_draft.get(draft),
        })
    });
    let awake: Vec<Option<Awake<'_>>> = awake.collect();
    let has_no_timers = prompted.prompts.len() * AT_ONCE_OF <= exchanged.len();
    let mut ask_at_once = has_no_timers && is_at_once(&exchanged, &awake, false);
    if has_no_timers && !ask_at_once {
        let in_turn = in_turn(&exchanged);
        ask_at_once = is_at_once(&in_turn, &awake, true);
        if ask_at_once {
            exchanged = in_turn;
        }
    }
    let asked = exchanged.iter().zip(&awake).map(|(one, awake)| {
        let timer = awake.as_ref().and_then(|awake| awake.timer);
        let first = timer.filter(|timer| sent_by.insert(**timer));
        let expires_ns = first.map(|timer| prompted.prompts[*timer].due_ns);
        let due_ns = expires_ns.map_or(one.sent_ns, |ns| ns.min(one.sent_ns));
        Asked {
            replied_ns: one.replied_ns,
            answer: Some(one.answer),
            busy_ns: one.free_ns.min(one.sent_ns).saturating_sub(due_ns),
            ..arrival(one.sent_ns, due_ns)
        }
    });
    let connections = exchanged.iter().map(|one| one.connection).collect();
    Some(Told {
        asked: asked.collect(),
        connections: Some(connections),
        ask_at_once,
        by_log: false,
    })
}

/// How the client of a request came to be awake.
struct Awake<'a> {
    woken_ns: u64,
    /// A thread of the group woke it.
    by_group: bool,
    /// The timer that led to it.
    timer: Option<&'a usize>,
}

/// Whether clients ask as soon as they have been answered. `may_sleep`: what they wait for before
/// they ask again, such as the end of the connection, may come later than the reply, and the group
/// wakes them for it.
fn is_at_once(exchanged: &[Exchanged], awake: &[Option<Awake<'_>>], may_sleep: bool) -> bool {
    let at_once = exchanged.iter().zip(awake).filter(|(one, awake)| {
        let Some(awake) = awake else { return false };
        let can_ask_ns = one.free_ns.max(awake.woken_ns);
        let is_prompt = one.sent_ns.saturating_sub(can_ask_ns) <= AT_ONCE_NS;
        let is_answered = (1..=one.sent_ns).contains(&one.free_ns);
        let has_slept = awake.woken_ns > one.free_ns;
        let is_by_reply = !has_slept || may_sleep && awake.by_group;
        is_prompt && is_answered && awake.timer.is_none() && is_by_reply
    });
    at_once.count() * AT_ONCE_OF >= exchanged.len() * (AT_ONCE_OF - 1)
}

/// The same exchanges, where each follows the earliest reply of its client that no other follows,
/// as if it came on the connection of that one. A program that makes a new connection for each
/// request, such as `ab` without `-k`, has as many at a time as it asks at once.
fn in_turn(exchanged: &[Exchanged]) -> Vec<Exchanged> {
    let mut replies: Vec<usize> = (0..exchanged.len()).collect();
    replies.sort_by_key(|index| exchanged[*index].replied_ns);
    let mut replies = replies.into_iter().peekable();
    // By client: replies that none has followed yet.
    let mut free: BTreeMap<ThreadId, VecDeque<usize>> = BTreeMap::new();
    let mut all: Vec<Exchanged> = Vec::with_capacity(exchanged.len());
    let mut connections = 0..;
    for one in exchanged {
        while let Some(reply) = replies.next_if(|reply| exchanged[*reply].replied_ns < one.sent_ns)
        {
            free.entry(exchanged[reply].client)
                .or_default()
                .push_back(reply);
        }
        let before = free.get_mut(&one.client).and_then(VecDeque::pop_front);
        let new = || connections.next().unwrap_or(u32::MAX);
        all.push(Exchanged {
            connection: before.map_or_else(new, |before| all[before].connection),
            free_ns: before.map_or(0, |before| exchanged[before].replied_ns),
            ..*one
        });
    }
    all
}
