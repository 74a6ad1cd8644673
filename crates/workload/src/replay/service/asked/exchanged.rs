//! Requests that events of sockets show.

use super::super::super::activity::{Draft, Source};
use super::super::super::sockets::{Exchanged, Sides, unread};
use super::super::super::threads::ThreadId;
use super::super::super::timeline::median;
use super::super::kinds::{self, Clients};
use super::super::{Asked, Border, Dialogue, MESSAGES_MIN, Told, placed};
use super::{AT_ONCE_NS, Prompted, arrival, dialogues, most};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Clients ask as soon as they are answered if all but one in this many requests show it.
const AT_ONCE_OF: usize = 20;
/// A thread hands requests on to workers if, for at least one in this many of its requests, it
/// replied to another request between taking it and replying to it.
const BETWEEN_OF: usize = 5;
/// Timers lead such clients to a message at most once in this many requests: `wrk` has ten timers a
/// second in each thread.
const TIMER_OF: usize = 5;

/// The requests that [events of sockets](super::super::super::sockets) show, of each [kind of
/// clients](kinds) in order of sending, and the connection of each, if they explain four in five
/// messages that wake the group.
///
/// A request is due when it is sent, as load generators count, or, if it is the first one after a
/// timer of its client, when that expires. No event shows the schedule that only the client knows:
/// `hey -q` has a timer for each connection, all at the same time, and sends one request after the
/// other, so that they are due 50 µs apart here.
pub(in super::super) fn from_sockets(border: &Border<'_>, drafts: &[Draft]) -> Option<Vec<Told>> {
    let sides = Sides {
        clients: &border.clients,
        inside: &border.inside,
    };
    let (exchanged, closed) = border.evidence.messages.exchanged(&sides);
    let sent_ns: Vec<i64> = exchanged.iter().map(|one| one.sent_ns as i64).collect();
    // A listener's thread is woken for a new connection, and by none of its requests; an event loop
    // also for the end of one.
    let changed_ns = border.evidence.messages.changed_ns(&border.clients);
    let is_told = |waking: usize| {
        let woken_ns = border.time_ns(waking) as i64;
        [&sent_ns, &changed_ns]
            .iter()
            .any(|times_ns| placed::same(times_ns, woken_ns).is_some())
    };
    let entries = border.entries.iter();
    let told = entries.filter(|(_, waking)| is_told(*waking)).count();
    if exchanged.len() < MESSAGES_MIN || !most(told, border.entries.len()) {
        return None;
    }
    let own = border.of_clients(drafts).into_iter();
    let sides = Asking {
        border,
        prompted: Prompted::of(border, drafts),
        own: own
            .map(|draft| {
                let activation = &drafts[draft].activation;
                ((activation.thread, activation.woken_ns), draft)
            })
            .collect(),
        exchanged,
    };
    let kinds = kinds::of(&sides.exchanged, border.evidence.threads, &border.clients);
    let kinds = kinds.into_iter().flat_map(|kind| sides.by_dialogue(kind));
    let told = kinds.map(|(kind, dialogues)| sides.told(&kind, dialogues));
    let mut told: Vec<Told> = told.collect();
    told[0].given_up += closed;
    Some(told)
}

/// The messages that are one request, and by position the exchanges of each.
type Dialogues = (Dialogue, Vec<Vec<usize>>);

/// How the clients of a service ask.
struct Asking<'a> {
    border: &'a Border<'a>,
    prompted: Prompted,
    /// Activations of clients, by thread and wakeup.
    own: BTreeMap<(ThreadId, u64), usize>,
    exchanged: Vec<Exchanged>,
}

impl Asking<'_> {
    /// The exchanges at these positions.
    fn at(&self, positions: &[usize]) -> Vec<Exchanged> {
        positions.iter().map(|one| self.exchanged[*one]).collect()
    }

    /// When the client of a request woke that begins with it, and what timer led to that.
    fn awake_for(&self, one: &Exchanged) -> Option<Awake<'_>> {
        let begun = self.own.range((one.client, 0)..=(one.client, one.begun_ns));
        let (key, draft) = begun.last()?;
        let is_inside = |waking: usize| match self.border.evidence.wakings[waking].source {
            Source::Thread(by) => self.border.inside[by.index()],
            _ => false,
        };
        Some(Awake {
            woken_ns: key.1,
            by_group: self.border.waking_of(*draft).is_some_and(is_inside),
            timer: self.prompted.of_draft.get(draft),
        })
    }

    /// The messages that are one request: all of a connection, or those of a transaction.
    fn dialogues(&self, exchanged: &[Exchanged]) -> Option<Dialogues> {
        let awake = exchanged.iter().map(|one| self.awake_for(one));
        let awake: Vec<Option<Awake<'_>>> = awake.collect();
        // A timer leads to the first message that is sent after it.
        let mut led_by: BTreeSet<usize> = BTreeSet::new();
        let by_timer = awake.iter().map(|awake| {
            let timer = awake.as_ref().and_then(|awake| awake.timer);
            timer.is_some_and(|timer| led_by.insert(*timer))
        });
        let by_timer: Vec<bool> = by_timer.collect();
        if let Some(all) = dialogues::find(exchanged, &by_timer) {
            return Some((Dialogue::Connection, all));
        }
        let at_once_ns = at_once_ns(exchanged);
        let all = exchanged.iter().zip(awake).zip(by_timer);
        let at_once = all.map(|((one, awake), by_timer)| {
            let awake = awake.filter(|_| !by_timer);
            awake.is_some_and(|awake| awake.asks_at_once(one, at_once_ns, false))
        });
        let (number, all) = dialogues::transactions(exchanged, &at_once.collect::<Vec<bool>>())?;
        Some((Dialogue::Messages(number), all))
    }

    /// The programs of one name as kinds of their own, where the requests of some have more
    /// messages than those of others, or connections of their own; each with its dialogues.
    fn by_dialogue(&self, kind: Clients) -> Vec<(Clients, Option<Dialogues>)> {
        let exchanged = self.at(&kind.exchanges);
        let found = self.dialogues(&exchanged);
        if found.is_some() {
            return vec![(kind, found)];
        }
        let mut by_dialogue: BTreeMap<Dialogue, Clients> = BTreeMap::new();
        for (threads, positions) in kinds::programs(&exchanged) {
            let positions = positions.iter().map(|one| kind.exchanges[*one]);
            let positions: Vec<usize> = positions.collect();
            let found = self.dialogues(&self.at(&positions));
            let dialogue = found.map_or(Dialogue::None, |(dialogue, _)| dialogue);
            let alike = by_dialogue.entry(dialogue).or_default();
            alike.threads.extend(threads);
            alike.exchanges.extend(positions);
        }
        let mut all: Vec<Clients> = by_dialogue.into_values().collect();
        let enough = |one: &Clients| one.exchanges.len() >= MESSAGES_MIN;
        if all.len() < 2 || !all.iter().all(enough) {
            return vec![(kind, None)];
        }
        all.sort_by_key(|one| std::cmp::Reverse(one.exchanges.len()));
        // Threads of which no exchange shows whose they are.
        let shown: BTreeSet<ThreadId> = all.iter().flat_map(|one| &one.threads).copied().collect();
        all[0].threads.extend(kind.threads.difference(&shown));
        for one in &mut all {
            let pids = one.threads.iter();
            let pid = pids
                .map(|thread| self.border.evidence.threads[thread.index()].pid)
                .min();
            one.name = format!("{} {}", kind.name, pid.unwrap_or_default());
            one.exchanges.sort_unstable();
        }
        let with_dialogues = |one: Clients| {
            let found = self.dialogues(&self.at(&one.exchanges));
            (one, found)
        };
        all.into_iter().map(with_dialogues).collect()
    }

    /// The requests of clients of one kind with these dialogues.
    fn told(&self, kind: &Clients, found: Option<Dialogues>) -> Told {
        let (border, prompted) = (self.border, &self.prompted);
        let mut exchanged = self.at(&kind.exchanges);
        let threads = border.evidence.threads;
        let servers = exchanged.iter().map(|one| one.answer.by.index());
        let server = kinds::most_frequent(servers.map(|by| threads[by].subject.as_str()));
        // What others are answered tells of a thread, too, how it serves.
        let is_own = |position: &usize| kind.exchanges.binary_search(position).is_ok();
        let others = (0..self.exchanged.len()).filter(|position| !is_own(position));
        let others = self.at(&others.collect::<Vec<usize>>());
        let (dialogue, dialogues) = found.unzip();
        let dialogue = dialogue.unwrap_or_default();
        let renews = dialogue == Dialogue::Connection;
        let in_parts = dialogues
            .as_ref()
            .filter(|all| !dialogues::have_threads(&exchanged, all));
        let in_parts = in_parts.map(|all| {
            let handed_ns = handed_ns_of(&exchanged, &others);
            let part = |position: &usize| Asked {
                handed_ns: handed_ns[*position],
                ..asked(&exchanged[*position])
            };
            let parts = all.iter().map(|of| of.iter().map(part).collect());
            parts.collect::<Vec<Vec<Asked>>>()
        });
        if let Some(all) = &dialogues {
            let whole = all
                .iter()
                .map(|of| dialogues::whole(&exchanged, of, renews, &border.clients));
            exchanged = whole.collect();
        }
        let awake: Vec<Option<Awake<'_>>> =
            exchanged.iter().map(|one| self.awake_for(one)).collect();
        let sends = |waking: usize| match border.evidence.wakings[waking].source {
            Source::Thread(by) => kind.threads.contains(&by),
            _ => false,
        };
        let timers = prompted.prompts.iter().filter_map(|prompt| prompt.message);
        let timers = timers.filter(|message| sends(*message));
        let has_no_timers = timers.count() * TIMER_OF <= exchanged.len();
        let mut ask_at_once = has_no_timers && is_at_once(&exchanged, &awake, false);
        let numbers =
            |all: &[Exchanged]| all.iter().map(|one| one.connection).collect::<Vec<u32>>();
        // Addresses of sockets are used again, and do not show that connections are new.
        let connects = border.evidence.messages.connects(&kind.threads);
        let lanes = match renews || connects * 2 > exchanged.len() {
            // The latest reply that is free, so that one late request does not make a lane of its
            // own.
            true => numbers(&on_followed_connections(&exchanged, VecDeque::pop_back)),
            false => numbers(&exchanged),
        };
        if has_no_timers && !ask_at_once {
            let turns = on_followed_connections(&exchanged, VecDeque::pop_front);
            ask_at_once = is_at_once(&turns, &awake, true);
            if ask_at_once {
                exchanged = turns;
            }
        }
        let handed_ns = handed_ns_of(&exchanged, &others);
        let all = exchanged.iter().zip(&awake).zip(handed_ns);
        // Timers that led to a message already.
        let mut sent_by: BTreeSet<usize> = BTreeSet::new();
        let all = all.map(|((one, awake), handed_ns)| {
            let timer = awake.as_ref().and_then(|awake| awake.timer);
            let first = timer.filter(|timer| sent_by.insert(**timer));
            let expires_ns = first.map(|timer| prompted.prompts[*timer].due_ns);
            let due_ns = expires_ns.map_or(one.begun_ns, |ns| ns.min(one.begun_ns));
            Asked {
                due_ns: due_ns as i64,
                handed_ns,
                busy_ns: one.free_ns.min(one.begun_ns).saturating_sub(due_ns),
                ..asked(one)
            }
        });
        let asked = all.collect();
        // New connections do not identify clients.
        let is_known = !renews || ask_at_once;
        let connections = is_known.then(|| numbers(&exchanged));
        Told {
            client: kind.name.clone(),
            server,
            asked,
            dialogue,
            in_parts,
            connections,
            lanes: Some(lanes),
            ask_at_once,
            given_up: unread(&exchanged),
            ..Told::default()
        }
    }
}

/// An exchange as a request.
fn asked(one: &Exchanged) -> Asked {
    Asked {
        replied_ns: one.replied_ns,
        answer: Some(one.answer),
        taken: Some(one.taken),
        ..arrival(one.sent_ns, one.sent_ns)
    }
}

/// How the client of a request came to be awake.
struct Awake<'a> {
    woken_ns: u64,
    /// A thread of the group woke it.
    by_group: bool,
    /// The timer that led to it.
    timer: Option<&'a usize>,
}

impl Awake<'_> {
    /// Whether the client of a request asked as soon as it had been answered. With `may_sleep` it
    /// may sleep after the reply until the group wakes it, for the end of the connection for
    /// instance.
    fn asks_at_once(&self, one: &Exchanged, at_once_ns: u64, may_sleep: bool) -> bool {
        let can_ask_ns = one.free_ns.max(self.woken_ns);
        let is_prompt = one.begun_ns.saturating_sub(can_ask_ns) <= at_once_ns;
        let is_answered = (1..=one.begun_ns).contains(&one.free_ns);
        let has_slept = self.woken_ns > one.free_ns;
        let is_by_reply = !has_slept || may_sleep && self.by_group;
        is_prompt && is_answered && is_by_reply
    }
}

/// A client that asks within this time of a reply asks at once: 1 ms, or half of what a reply
/// takes, because the client reads and decrypts it first.
fn at_once_ns(exchanged: &[Exchanged]) -> u64 {
    let latency_ns = |one: &Exchanged| one.replied_ns.saturating_sub(one.begun_ns);
    let mut latencies_ns: Vec<u64> = exchanged.iter().map(latency_ns).collect();
    AT_ONCE_NS.max(median(&mut latencies_ns).unwrap_or(0) / 2)
}

/// Whether all clients ask at once but for one request in twenty.
fn is_at_once(exchanged: &[Exchanged], awake: &[Option<Awake<'_>>], may_sleep: bool) -> bool {
    let at_once_ns = at_once_ns(exchanged);
    let at_once = exchanged.iter().zip(awake).filter(|(one, awake)| {
        let awake = awake.as_ref().filter(|awake| awake.timer.is_none());
        awake.is_some_and(|awake| awake.asks_at_once(one, at_once_ns, may_sleep))
    });
    at_once.count() * AT_ONCE_OF >= exchanged.len() * (AT_ONCE_OF - 1)
}

/// Per request: the time since which a sleep of the replying thread means that another thread does
/// the work. `others` are requests of other clients. If another thread received the request, that
/// is at any time. If the replying thread is a loop that takes requests and replies to others
/// before it replies to them, it is from when the loop took the request: workers do it.
fn handed_ns_of(exchanged: &[Exchanged], others: &[Exchanged]) -> Vec<Option<u64>> {
    let mut replies: BTreeMap<ThreadId, Vec<u64>> = BTreeMap::new();
    for one in exchanged.iter().chain(others) {
        replies
            .entry(one.answer.by)
            .or_default()
            .push(one.answer.at_ns);
    }
    replies.values_mut().for_each(|all| all.sort_unstable());
    let between = |one: &Exchanged| {
        let all = &replies[&one.answer.by];
        let before = |ns: u64| all.partition_point(|at_ns| *at_ns < ns);
        before(one.taken.0) < before(one.answer.at_ns)
    };
    let mut counts: BTreeMap<ThreadId, (usize, usize)> = BTreeMap::new();
    for one in exchanged {
        let (some, all) = counts.entry(one.answer.by).or_default();
        *some += usize::from(between(one));
        *all += 1;
    }
    let is_loop = |thread: ThreadId| {
        let (some, all) = counts[&thread];
        some * BETWEEN_OF >= all
    };
    let since = |one: &Exchanged| match one.taken {
        (_, by) if by != one.answer.by => Some(0),
        (at_ns, by) => is_loop(by).then_some(at_ns),
    };
    exchanged.iter().map(since).collect()
}

/// The same exchanges, each on the connection of the exchange whose reply it follows: the first or
/// the last reply that no other exchange follows yet. So a program that makes a new connection for
/// each request, such as `ab` without `-k`, has as many connections as requests at a time.
fn on_followed_connections(
    exchanged: &[Exchanged],
    take: fn(&mut VecDeque<usize>) -> Option<usize>,
) -> Vec<Exchanged> {
    let mut replies: Vec<usize> = (0..exchanged.len()).collect();
    replies.sort_by_key(|index| exchanged[*index].freed_ns);
    let mut replies = replies.into_iter().peekable();
    // Replies that none has followed yet.
    let mut free: VecDeque<usize> = VecDeque::new();
    let mut all: Vec<Exchanged> = Vec::with_capacity(exchanged.len());
    let mut connections = 0..;
    for one in exchanged {
        while let Some(reply) = replies.next_if(|reply| exchanged[*reply].freed_ns < one.begun_ns) {
            free.push_back(reply);
        }
        let before = take(&mut free);
        let new = || connections.next().unwrap_or(u32::MAX);
        all.push(Exchanged {
            connection: before.map_or_else(new, |before| all[before].connection),
            free_ns: before.map_or(0, |before| exchanged[before].freed_ns),
            ..*one
        });
    }
    all
}
