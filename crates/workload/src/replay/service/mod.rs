//! Requests of services: when clients outside a group send into it, and when they are answered.
//!
//! An event loop or a pool of threads does not serve one request an activation: what arrives while
//! it is busy, or held back by its limit, wakes no task and is served in the same activation;
//! several threads take part in one request, and requests overlap. The lengths of activations are
//! not the latencies of clients then. A *service* is a group with at least 20 messages from client
//! threads outside it and 20 back to them, whose threads are not each busy with one client's
//! request at a time (those are `exchange`s). The replay has every request of a service: when it
//! was due, when it arrived, and which thread's work ended it.
//!
//! * A client acts on its own. Threads outside that send to the group only when it has asked them
//!   are its backends: the work of the group for their answer waits for that answer.
//! * Requests are those of the client's log (`requests.csv`), else those that events of sockets
//!   show ([`super::sockets`]), else what wakeups tell: `asked`.
//! * A reply is found in the work of the thread that sent it, the end of the request: `placed`.
//! * An arrival keeps its time, whatever the limit: clients of a service send by a schedule (*open
//!   loop*). A request that was sent late because its connection was busy arrives so much earlier,
//!   where a log or a timer of its own shows when it was due. A request that was sent late because
//!   its client waited for a CPU arrives late: the threads that ran there do so in the replay.
//!   Arrivals wait outside the CPU, as in reality, and are served in the recorded order.
//! * A child that is forked for a request does its work and no other: `forked`.
//! * Work after a reply in the same activation is for the next request, and waits for its arrival
//!   without keeping the thread from other messages. So requests that were held back by a limit
//!   come apart under a looser one. `apart` does the same across threads, and `rounds` for event
//!   loops that answer at the end of a round.
//!
//! Clients on other machines are not in the trace. A network card's softirqs wake the service for
//! them, and where a log of the requests is beside the trace, it tells the rest: requests arrive
//! when they were sent, and a thread that such softirqs wake replied to them. Without a log such a
//! group is no service.
//!
//! The latency of a request lasts from when it was due until the client has read its reply. The
//! time from the reply to the end of reading is the recorded one.
//!
//! Clients that ask again when the last reply has come (*closed loop*, which `closed` recognises)
//! send earlier or later with it. A request that follows another one is due as long after the reply
//! to that as recorded: the think time is kept. The activation that it begins in the service, the
//! client's activation that sends it, and the part of an activation that waits for it begin as long
//! after that reply, too. Under a tighter limit fewer requests are sent. Under a looser one the
//! recorded requests are finished a little before the window ends.
//!
//! # Worked example
//!
//! A client's log has requests due at 10.0, 10.4 and 11.1 ms, answered at 90.6, 90.8 and 91.0: the
//! server, woken at 10.0, was throttled until 90.0. Its one activation works 0.6 ms, replies, works
//! 0.2, replies, works 0.2 and replies. It becomes: at 10.0 work 0.6 ms, reply; wait for the second
//! arrival, at 10.4, work 0.2, reply; wait for the third, at 11.1, work 0.2, reply. Without the
//! limit the answers come at 10.6, 10.8 and 11.3 ms.

mod apart;
mod aside;
mod asked;
mod bounded;
mod chain;
mod clock;
mod closed;
mod coarse;
mod forked;
mod levels;
mod placed;
mod reordered;
mod rounds;
mod served;
mod users;

use super::activity::{Begun, Draft, Source, Waking};
use super::groups::{self, GroupIndex};
use super::model::{Activation, Thread};
use super::sockets::{Answer, Messages};
use super::threads::ThreadId;
use super::timeline::Run;
use clock::Clock;
pub use closed::ClientLoop;
use forked::Forked;
pub use rounds::Rounds;
use schedcast_trace::Request;
pub use served::{Bound, Dialogue, Follows, RequestId, Served, Service};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer messages than this in either direction make no service.
const MESSAGES_MIN: usize = 20;
/// Threads that answer once in at least this percentage of their activations serve one client each.
const DEDICATED_PERCENT: usize = 80;
/// The same percentage where messages come over sockets: an event loop with little to do also
/// answers once in most of its activations.
const DEDICATED_SOCKET_PERCENT: usize = 95;

/// Evidence in which services are looked for.
pub(super) struct Evidence<'a> {
    pub threads: &'a [Thread],
    pub groups: &'a [groups::Group],
    pub runs: &'a [Vec<Run>],
    pub wakings: &'a [Waking],
    pub log: Option<&'a [Request]>,
    pub messages: &'a Messages,
    pub client_loop: ClientLoop,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// The services of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub services: Vec<Service>,
    pub requests: Vec<Served>,
    /// Their threads.
    pub members: BTreeSet<ThreadId>,
    /// Threads that send requests to them.
    pub clients: BTreeSet<ThreadId>,
    /// Whether the requests of one of them are those of the log.
    pub uses_log: bool,
    /// Requests whose clients gave up.
    pub given_up: u64,
    /// Activations of their threads and clients as recorded, before they were cut.
    pub uncut: BTreeMap<ThreadId, Vec<Activation>>,
}

/// One request by the log or the trace. Times are ns since the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    sent_ns: i64,
    due_ns: i64,
    replied_ns: u64,
    /// Time from its client's schedule to `due_ns`: [`coarse`].
    late_ns: u64,
    /// For how long after `due_ns` its connection was busy with the request before.
    busy_ns: u64,
    /// The waking that is its reply, where that is visible.
    reply: Option<usize>,
    /// Its reply, as events of sockets show it.
    answer: Option<Answer>,
    /// If the replying thread has slept since this time, another thread did the work.
    handed_ns: Option<u64>,
    /// In a closed loop, and for clients with one request at a time: position of the request whose
    /// client sends it. Of a later message of a request: position of an earlier one.
    after: Option<usize>,
    /// Of a later message of a request: position of the first.
    first: Option<usize>,
    /// Another message of the same request follows.
    goes_on: bool,
}

/// Requests by a log or by events of sockets.
struct Told {
    /// In order of sending.
    asked: Vec<Asked>,
    /// The connection of each, where it is known.
    connections: Option<Vec<u32>>,
    /// The lane of each, from sockets: its connection, or, where each request has a new one, that
    /// of the request whose reply it follows.
    lanes: Option<Vec<u32>>,
    /// Clients ask at once when they have been answered, as load generators without a rate do.
    ask_at_once: bool,
    dialogue: Dialogue,
    /// The messages of each then, if requests have several.
    in_parts: Option<Vec<Vec<Asked>>>,
    by_log: bool,
    /// Requests whose clients gave up.
    given_up: u64,
}

impl Told {
    /// The border with what is told of its requests.
    fn beside<'a>(
        border: Border<'a>,
        drafts: &[Draft],
        clock: &Clock<'_>,
    ) -> (Border<'a>, Option<Self>) {
        let logged = asked::from_log(&border, drafts, clock);
        let told = logged.or_else(|| asked::from_sockets(&border, drafts));
        (border, told)
    }
}

/// Messages across the border of a group.
struct Border<'a> {
    evidence: &'a Evidence<'a>,
    inside: Vec<bool>,
    clients: BTreeSet<ThreadId>,
    /// Threads outside that the group asks: they send to it, but never on their own.
    backends: BTreeSet<ThreadId>,
    /// Per waking: the draft it began.
    begun: &'a [Begun],
    /// Per draft: the waking that began it.
    began: BTreeMap<usize, usize>,
    /// Drafts of the group that a client began: draft and waking.
    entries: Vec<(usize, usize)>,
    /// Wakings of clients by threads of the group, in order of time.
    replies: Vec<usize>,
    /// The clients are on other machines: nothing of them is in the trace but what a network card
    /// wakes.
    is_remote: bool,
    /// No wakeup shows a reply: the clients are on other machines, or wait for a CPU when they are
    /// answered. Only a log tells the requests then, or events of sockets.
    hides_replies: bool,
}

/// Finds the services and puts their requests into the drafts.
pub(super) fn find(
    evidence: &Evidence<'_>,
    drafts: &mut Vec<Draft>,
    begun: &mut [Begun],
    handovers: &mut u32,
) -> Found {
    let mut found = Found::default();
    for (index, group) in (0u32..).map(GroupIndex).zip(evidence.groups).skip(1) {
        let direct = |thread: &Thread| thread.group == index && !thread.left_out;
        if group.autogroup || !evidence.threads.iter().any(direct) {
            continue;
        }
        let of_thread = evidence.threads.iter().map(|thread| thread.group);
        let members = groups::members_of(evidence.groups, of_thread, index);
        if members.iter().any(|member| found.members.contains(member)) {
            continue;
        }
        let clock = Clock::new(evidence, drafts);
        let beside = |border| Told::beside(border, drafts, &clock);
        let shown = Border::of(evidence, &members, drafts, begun, false).map(beside);
        let hidden = || {
            let remote = Border::of_network(evidence, &members, begun, drafts).map(beside);
            let unanswered = || Border::of(evidence, &members, drafts, begun, true).map(beside);
            let is_told = |(_, told): &(Border<'_>, Option<Told>)| told.is_some();
            remote
                .filter(is_told)
                .or_else(|| unanswered().filter(is_told))
        };
        let Some((mut border, told)) = shown.or_else(hidden) else {
            continue;
        };
        if border.is_dedicated(drafts, told.as_ref()) {
            continue;
        }
        let mut forked = Forked::of(&border, drafts);
        let mut client_loop = evidence.client_loop;
        let by_log = told.as_ref().is_some_and(|told| told.by_log);
        let dialogue = told.as_ref().map_or(Dialogue::None, |told| told.dialogue);
        let is_told = told.is_some();
        let (mut asked, in_parts, connections, lanes, coarse) = match told {
            Some(told) => {
                if told.ask_at_once && client_loop == ClientLoop::AsRecorded {
                    client_loop = ClientLoop::Closed;
                }
                found.uses_log |= by_log;
                found.given_up += told.given_up;
                if let Some(forked) = &mut forked {
                    forked.give(&border, &told.asked, true);
                }
                // A child serves all messages of its request.
                let in_parts = told.in_parts.filter(|_| forked.is_none());
                (told.asked, in_parts, told.connections, told.lanes, None)
            }
            None => match asked::from_wakeups(&border, drafts) {
                Some((mut asked, coarse)) => {
                    if let Some(forked) = &mut forked {
                        forked.give(&border, &asked, false);
                        asked = forked.answered(&border, asked);
                    }
                    (asked, None, None, None, coarse)
                }
                None => continue,
            },
        };
        let closed_loop = closed::chain(&mut asked, connections.as_deref(), by_log, client_loop);
        let bound = match closed_loop {
            None => {
                let lanes = lanes.as_deref().or(connections.as_deref());
                let clients = bounded::chain(&mut asked, lanes, client_loop, by_log);
                clients.map_or(Bound::None, Bound::Clients)
            }
            Some(connections) => Bound::Connections(connections),
        };
        if let Some(in_parts) = in_parts {
            asked = asked::in_parts(&asked, in_parts);
        }
        if is_told {
            border.leave_inner(&asked);
        }
        let service = found.services.len() as u32;
        let Some(subject) = border.subject() else {
            continue;
        };
        let placing = placed::Placing {
            border: &border,
            clock: &clock,
            forked: forked.as_ref(),
            service,
            keeps_schedule: matches!(bound, Bound::Clients(_)),
        };
        let mut uncut: BTreeMap<ThreadId, Vec<Activation>> = BTreeMap::new();
        for Draft { activation, .. } in drafts.iter() {
            let thread = activation.thread;
            if border.inside[thread.index()] || border.clients.contains(&thread) {
                // What an earlier service cut is in the map already, as it was.
                uncut.entry(thread).or_default().push(activation.clone());
            }
        }
        for (thread, activations) in uncut {
            found.uncut.entry(thread).or_insert(activations);
        }
        let first = found.requests.len();
        let put = placing.put(&asked, drafts, &mut found.requests);
        let connections: Option<BTreeSet<u32>> = connections.map(|of| of.into_iter().collect());
        let rounds = put.answering.map(|(thread, largest)| Rounds {
            thread,
            at_most: connections.map_or(largest, |all| all.len() as u32),
        });
        found.clients.extend(&border.clients);
        found.services.push(Service {
            group: index,
            subject,
            clients: border.clients.iter().copied().collect(),
            bound,
            dialogue,
            coarse_timers: coarse.is_some(),
            rounds,
        });
        let apart = apart::Apart {
            threads: evidence.threads,
            inside: &border.inside.clone(),
            backends: &border.backends.clone(),
            wakings: evidence.wakings,
            runs: evidence.runs,
            span_ns: (evidence.start_ns, evidence.end_ns),
            first: first as u32,
            aside: put.aside,
        };
        for waking in put.loosened {
            begun[waking] = Begun::Nothing;
        }
        apart.take(drafts, begun, handovers, &mut found.requests[first..]);
        found.members.extend(members);
    }
    found
}

/// Per thread: whether it is one of `members`.
fn inside(evidence: &Evidence<'_>, members: &[ThreadId]) -> Vec<bool> {
    let mut inside = vec![false; evidence.threads.len()];
    for member in members {
        inside[member.index()] = true;
    }
    inside
}

/// Numbers of messages to a group and from it, by the subject of the thread outside, since a client
/// may be a new process for each of its requests; and the threads outside. A message to a thread
/// that is awake wakes no thread, so messages to the group are counted by wakeups and by events of
/// sockets, and the larger number is taken. Messages from the group are counted by wakeups, which
/// show the replies.
fn talk<'a>(
    evidence: &'a Evidence<'_>,
    inside: &[bool],
) -> (BTreeMap<&'a str, [usize; 2]>, BTreeSet<ThreadId>) {
    let outside = |(by, to): (ThreadId, ThreadId)| match (inside[by.index()], inside[to.index()]) {
        (false, true) => Some((by, 0)),
        (true, false) => Some((to, 1)),
        _ => None,
    };
    let subject = |client: ThreadId| evidence.threads[client.index()].subject.as_str();
    let mut talking = BTreeSet::new();
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let wakes = evidence
        .wakings
        .iter()
        .filter_map(|waking| match waking.source {
            Source::Thread(by) => Some((by, waking.wakee)),
            _ => None,
        });
    for (client, direction) in wakes.filter_map(outside) {
        counts.entry(subject(client)).or_default()[direction] += 1;
        talking.insert(client);
    }
    let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
    for (client, direction) in evidence.messages.between().filter_map(outside) {
        *sent.entry(subject(client)).or_default() += 1 - direction;
        talking.insert(client);
    }
    for (subject, sent) in sent {
        let [to, _] = counts.entry(subject).or_default();
        *to = sent.max(*to);
    }
    (counts, talking)
}

/// Subjects that send at least [`MESSAGES_MIN`] messages into a group that the group did not cause.
/// A client acts on its own, by a timer or because of its own clients; a backend, such as the
/// database of a proxy, acts when it is asked.
fn acting<'a>(
    evidence: &'a Evidence<'_>,
    drafts: &[Draft],
    begun: &[Begun],
    inside: &[bool],
    talking: &BTreeSet<ThreadId>,
) -> BTreeSet<&'a str> {
    let began = began_by(begun);
    let tied = levels::tied(drafts);
    let mut made_by = vec![None; evidence.wakings.len()];
    for (index, draft) in drafts.iter().enumerate() {
        for (_, waking) in draft.wakes() {
            made_by[waking] = Some(index);
        }
    }
    // Causes come before their effects.
    let mut in_order: Vec<usize> = (0..drafts.len()).collect();
    in_order.sort_by_key(|draft| drafts[*draft].activation.woken_ns);
    let mut is_consequence = vec![false; drafts.len()];
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for index in in_order {
        let activation = &drafts[index].activation;
        let thread = activation.thread;
        let cause = match activation.slept_before_ns {
            Some(_) => tied.get(&index).copied(),
            None => began.get(&index).and_then(|waking| made_by[*waking]),
        };
        is_consequence[index] =
            inside[thread.index()] || cause.is_some_and(|cause| is_consequence[cause]);
        if is_consequence[index] || !talking.contains(&thread) {
            continue;
        }
        let enters = |(_, waking): &(u64, usize)| inside[evidence.wakings[*waking].wakee.index()];
        let subject = evidence.threads[thread.index()].subject.as_str();
        *counts.entry(subject).or_default() += drafts[index].wakes().filter(enters).count();
    }
    counts.retain(|_, count| *count >= MESSAGES_MIN);
    counts.into_keys().collect()
}

/// Subjects outside a group to which it made most of their connections. A backend that thinks for
/// 20 ms, and answers by a timer, acts on its own all the same.
fn connected_to<'a>(evidence: &'a Evidence<'_>, inside: &[bool]) -> BTreeSet<&'a str> {
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (thread, connected) in evidence.messages.connectors(inside) {
        let subject = evidence.threads[thread.index()].subject.as_str();
        counts.entry(subject).or_default()[usize::from(connected)] += 1;
    }
    counts.retain(|_, [passive, active]| passive > active);
    counts.into_keys().collect()
}

/// Per draft: the waking that began it.
fn began_by(begun: &[Begun]) -> BTreeMap<usize, usize> {
    let drafts = begun.iter().enumerate();
    let began = drafts.filter_map(|(waking, begun)| match begun {
        Begun::Draft(draft) => Some((*draft, waking)),
        _ => None,
    });
    began.collect()
}

impl<'a> Border<'a> {
    /// The border of a group with clients on the same machine. `hides_replies`: the trace shows
    /// none of their replies.
    fn of(
        evidence: &'a Evidence<'a>,
        members: &[ThreadId],
        drafts: &[Draft],
        begun: &'a [Begun],
        hides_replies: bool,
    ) -> Option<Self> {
        if hides_replies && evidence.log.is_none() && evidence.messages.is_empty() {
            return None;
        }
        let inside = inside(evidence, members);
        let subject = |id: ThreadId| evidence.threads[id.index()].subject.as_str();
        let (counts, talking) = talk(evidence, &inside);
        let is_client = |id: &ThreadId| {
            let enough = |count: &usize| *count >= MESSAGES_MIN;
            let needed = if hides_replies { 1 } else { 2 };
            let counts = &counts[subject(*id)][..needed];
            !evidence.threads[id.index()].kernel && counts.iter().all(enough)
        };
        let talking: BTreeSet<ThreadId> = talking.into_iter().filter(is_client).collect();
        let acting = acting(evidence, drafts, begun, &inside, &talking);
        let connected_to = connected_to(evidence, &inside);
        let acts = |id: &ThreadId| {
            let subject = subject(*id);
            !connected_to.contains(subject) && (acting.is_empty() || acting.contains(subject))
        };
        let (clients, backends): (BTreeSet<ThreadId>, BTreeSet<ThreadId>) =
            talking.into_iter().partition(acts);
        if clients.is_empty() {
            return None;
        }
        let (mut entries, mut replies) = (Vec::new(), Vec::new());
        for (index, waking) in evidence.wakings.iter().enumerate() {
            let Source::Thread(by) = waking.source else {
                continue;
            };
            if clients.contains(&by)
                && inside[waking.wakee.index()]
                && let Begun::Draft(draft) = begun[index]
            {
                entries.push((draft, index));
            }
            if inside[by.index()] && clients.contains(&waking.wakee) {
                replies.push(index);
            }
        }
        Some(Self {
            evidence,
            inside,
            clients,
            backends,
            begun,
            began: began_by(begun),
            entries,
            replies,
            is_remote: false,
            hides_replies,
        })
    }

    /// The border of a group with clients on other machines. Their requests come by softirqs, and
    /// only a log tells how many there were and when they were answered.
    fn of_network(
        evidence: &'a Evidence<'a>,
        members: &[ThreadId],
        begun: &'a [Begun],
        drafts: &[Draft],
    ) -> Option<Self> {
        evidence.log?;
        let inside = inside(evidence, members);
        let wakings = evidence.wakings.iter().enumerate();
        let by_softirq: BTreeMap<(ThreadId, u64), usize> = wakings
            .filter(|(_, waking)| waking.source == Source::SOFTIRQ)
            .map(|(index, waking)| {
                let since_ns = waking.time_ns.saturating_sub(evidence.start_ns);
                ((waking.wakee, since_ns), index)
            })
            .collect();
        let entry = |(index, draft): (usize, &Draft)| {
            let Activation {
                thread,
                trigger,
                woken_ns,
                ..
            } = &draft.activation;
            let by_network = trigger.is_softirq();
            let waking = by_softirq.get(&(*thread, *woken_ns))?;
            (by_network && inside[thread.index()]).then_some((index, *waking))
        };
        let entries: Vec<(usize, usize)> = drafts.iter().enumerate().filter_map(entry).collect();
        (entries.len() >= MESSAGES_MIN).then(|| Self {
            evidence,
            inside,
            clients: BTreeSet::new(),
            backends: BTreeSet::new(),
            begun,
            began: began_by(begun),
            entries,
            replies: Vec::new(),
            is_remote: true,
            hides_replies: true,
        })
    }

    /// Takes messages in the middle of requests off the entries: those that no logged request,
    /// in the order of sending, is nearest to within [`placed::SAME_NS`]. They follow what their
    /// client did before, such as the second statement of a transaction the answer to the first,
    /// and keep no time of their own.
    fn leave_inner(&mut self, asked: &[Asked]) {
        if self.is_remote {
            return;
        }
        let times_ns: Vec<i64> = self
            .entries
            .iter()
            .map(|(_, waking)| self.time_ns(*waking) as i64)
            .collect();
        let mut is_first = vec![false; times_ns.len()];
        for nearest in asked
            .iter()
            .filter_map(|one| placed::same(&times_ns, one.sent_ns))
        {
            is_first[nearest] = true;
        }
        let mut is_first = is_first.into_iter();
        self.entries.retain(|_| is_first.next() == Some(true));
    }

    /// Whether a waking is a message to the group.
    fn is_entered_by(&self, waking: usize) -> bool {
        self.inside[self.evidence.wakings[waking].wakee.index()]
    }

    /// The draft that a waking began.
    fn begun_by(&self, waking: usize) -> Option<usize> {
        match self.begun[waking] {
            Begun::Draft(draft) => Some(draft),
            _ => None,
        }
    }

    /// Time of a waking since the start of the recording.
    fn time_ns(&self, waking: usize) -> u64 {
        let waking = &self.evidence.wakings[waking];
        waking.time_ns.saturating_sub(self.evidence.start_ns)
    }

    /// Whether each thread serves one request of one client at a time, as processes of PostgreSQL
    /// do. `told`: its requests, where a log or events of sockets tell.
    fn is_dedicated(&self, drafts: &[Draft], told: Option<&Told>) -> bool {
        let renews = |told: &Told| told.dialogue == Dialogue::Connection;
        if self.hides_replies || told.is_some_and(renews) {
            return false;
        }
        let (mut all, mut single, mut sockets) = (0, 0, 0);
        let mut serving = BTreeSet::new();
        for &(draft, waking) in &self.entries {
            let waking = &self.evidence.wakings[waking];
            let Source::Thread(client) = waking.source else {
                continue;
            };
            let answers = drafts[draft]
                .wakes()
                .filter(|(_, reply)| self.evidence.wakings[*reply].wakee == client);
            all += 1;
            single += usize::from(answers.count() == 1);
            sockets += usize::from(waking.under.is_some());
            serving.insert(waking.wakee);
        }
        let connections: BTreeSet<u32> = match (self.evidence.log, told) {
            (Some(log), _) => log.iter().map(|request| request.client).collect(),
            (None, Some(told)) => told.connections.iter().flatten().copied().collect(),
            (None, None) => BTreeSet::new(),
        };
        if sockets * 2 > all && connections.len() > serving.len() {
            return false;
        }
        let needed = match sockets * 2 > all {
            true => DEDICATED_SOCKET_PERCENT,
            false => DEDICATED_PERCENT,
        };
        all > 0 && single * 100 >= all * needed
    }

    /// How many replies each thread of the group sent. Where replies wake no thread, the threads
    /// that requests wake answer them.
    fn repliers(&self) -> BTreeMap<ThreadId, usize> {
        let mut counts = BTreeMap::new();
        if self.hides_replies {
            for (_, waking) in &self.entries {
                let wakee = self.evidence.wakings[*waking].wakee;
                *counts.entry(wakee).or_default() += 1;
            }
        }
        for reply in &self.replies {
            if let Source::Thread(by) = self.evidence.wakings[*reply].source {
                *counts.entry(by).or_default() += 1;
            }
        }
        counts
    }

    /// The subject that replies most.
    fn subject(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (thread, count) in self.repliers() {
            let subject = self.evidence.threads[thread.index()].subject.as_str();
            *counts.entry(subject).or_default() += count;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
        Some(most.0.to_owned())
    }

    /// The waking that began a draft.
    fn waking_of(&self, draft: usize) -> Option<usize> {
        self.began.get(&draft).copied()
    }

    /// Drafts of the clients in order of their wakeups.
    fn of_clients(&self, drafts: &[Draft]) -> Vec<usize> {
        let mut own: Vec<usize> = (0..drafts.len())
            .filter(|draft| self.clients.contains(&drafts[*draft].activation.thread))
            .collect();
        own.sort_by_key(|draft| drafts[*draft].activation.woken_ns);
        own
    }

    /// Whether an interrupt, such as that of a timer, began a draft.
    fn is_prompt(draft: &Draft) -> bool {
        draft.activation.trigger.is_hard_interrupt()
    }
}
