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
//! * A client acts on its own, or has connected to the group. Other threads outside that send to
//!   the group only when it has asked them are its backends: the work of the group for their answer
//!   waits for that answer.
//! * Clients of several kinds, such as a health check beside the load, ask each in their own way:
//!   `kinds`.
//! * Requests are those of the client's log (`requests.csv`), else those that events of sockets
//!   show ([`super::sockets`]), else what wakeups tell: `asked`.
//! * A reply is found in the work of the thread that sent it, the end of the request: `replies`.
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
mod border;
mod bounded;
mod chain;
mod clock;
mod closed;
mod coarse;
mod forked;
mod kinds;
mod levels;
mod own;
mod placed;
mod reordered;
mod replies;
mod rounds;
mod served;
mod talks;
mod users;
mod woken;

use super::activity::{Begun, Draft, Waking};
use super::groups::{self, GroupIndex};
use super::model::{Activation, Thread};
use super::sockets::{Answer, Messages};
use super::threads::ThreadId;
use super::timeline::Run;
use border::Border;
use clock::Clock;
pub use closed::ClientLoop;
use coarse::Coarse;
use forked::Forked;
pub use rounds::Rounds;
use schedcast_base::groups::is_within;
use schedcast_trace::Request;
pub use served::{Bound, Dialogue, Follows, Kind, RequestId, Served, Service};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use talks::Talks;

/// Fewer messages than this in either direction make no service.
const MESSAGES_MIN: usize = 20;

/// Whether threads of one subject, which have so many activations, take part in most requests.
pub(super) fn take_part(activations: usize, requests: usize) -> bool {
    activations * 2 >= requests
}

/// Evidence in which services are looked for.
pub(super) struct Evidence<'a> {
    pub threads: &'a [Thread],
    pub groups: &'a [groups::Group],
    pub runs: &'a [Vec<Run>],
    pub wakings: &'a [Waking],
    pub log: Option<&'a [Request]>,
    pub messages: &'a Messages,
    pub client_loop: ClientLoop,
    /// The group that was recorded, where the recording says.
    pub recorded: Option<&'a str>,
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
    /// CPU time of threads for [being woken](woken), ns.
    pub woken_ns: BTreeMap<ThreadId, u64>,
    /// Activations of their threads and clients as recorded, before they were cut.
    pub uncut: Arc<BTreeMap<ThreadId, Vec<Activation>>>,
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
    /// When a thread of the server received it, and which, as they show it.
    taken: Option<(u64, ThreadId)>,
    /// When the thread that answers it received it, if that received no other one in between.
    taken_alone_ns: Option<u64>,
    /// If the replying thread has slept since this time, another thread did the work.
    handed_ns: Option<u64>,
    /// In a closed loop, and for clients with one request at a time: position of the request whose
    /// client sends it. Of a later message of a request: position of an earlier one.
    after: Option<usize>,
    /// Of a later message of a request: position of the first.
    first: Option<usize>,
    /// Another message of the same request follows.
    goes_on: bool,
    /// Its client has a schedule, and one request at a time under way: [`bounded`].
    keeps_schedule: bool,
    /// Number of its client's [kind](kinds).
    kind: u32,
}

/// Requests of clients of one kind.
#[derive(Default)]
struct Told {
    /// Name of these clients, where events of sockets show them.
    client: String,
    /// Subject of the threads that reply to them, then.
    server: String,
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
    /// Their timers count whole milliseconds.
    coarse: Option<Coarse>,
}

impl Told {
    /// The border with what a log or events of sockets tell of its requests, by kind of clients.
    fn beside<'a>(
        border: Border<'a>,
        drafts: &[Draft],
        clock: &Clock<'_>,
    ) -> (Border<'a>, Option<Vec<Self>>) {
        let logged = asked::from_log(&border, drafts, clock).map(|logged| vec![logged]);
        let told = logged.or_else(|| asked::from_sockets(&border, drafts));
        (border, told)
    }

    /// Lets the requests follow the replies before them if the clients wait for these.
    fn bind(&mut self, set: ClientLoop) -> Bound {
        let wanted = match self.ask_at_once && set == ClientLoop::AsRecorded {
            true => ClientLoop::Closed,
            false => set,
        };
        let connections = self.connections.as_deref();
        if let Some(connections) = closed::chain(&mut self.asked, connections, self.by_log, wanted)
        {
            return Bound::Connections(connections);
        }
        let lanes = self.lanes.as_deref().or(connections);
        let clients = bounded::chain(&mut self.asked, lanes, wanted, self.by_log);
        clients.map_or(Bound::None, Bound::Clients)
    }
}

/// Finds the services and puts their requests into the drafts.
pub(super) fn find(
    evidence: &Evidence<'_>,
    drafts: &mut Vec<Draft>,
    begun: &mut [Begun],
    handovers: &mut u32,
) -> Found {
    let mut found = Found::default();
    let talks = Talks::of(evidence);
    let mut groups: Vec<(GroupIndex, &groups::Group)> = (0u32..)
        .map(GroupIndex)
        .zip(evidence.groups)
        .skip(1)
        .collect();
    // What was recorded comes first, so that its clients are not taken for a service that it asks.
    let is_recorded = |path: &str| {
        evidence
            .recorded
            .is_some_and(|group| is_within(path, group))
    };
    groups.sort_by_key(|(_, group)| !is_recorded(&group.path));
    for (index, group) in groups {
        let direct = |thread: &Thread| thread.group == index && !thread.left_out;
        if group.autogroup || !evidence.threads.iter().any(direct) {
            continue;
        }
        let of_thread = evidence.threads.iter().map(|thread| thread.group);
        let members = groups::members_of(evidence.groups, of_thread, index);
        if members.iter().any(|member| found.members.contains(member)) {
            continue;
        }
        // What the threads of this group ask is no client of theirs.
        let asked = found.services.iter().filter(|service| {
            let clients = &service.clients;
            clients.iter().any(|client| members.contains(client))
        });
        let servers: BTreeSet<ThreadId> = asked
            .flat_map(|service| {
                let of_thread = evidence.threads.iter().map(|thread| thread.group);
                groups::members_of(evidence.groups, of_thread, service.group)
            })
            .collect();
        // Most groups serve nobody and need none.
        let clock = OnceCell::new();
        let of_drafts = || Clock::new(evidence, drafts);
        let beside = |border| Told::beside(border, drafts, clock.get_or_init(of_drafts));
        let border = |hides_replies| {
            Border::of(
                evidence,
                &talks,
                &members,
                &servers,
                drafts,
                begun,
                hides_replies,
            )
            .map(beside)
        };
        let shown = border(false);
        let hidden = || {
            let remote = Border::of_network(evidence, &members, begun, drafts).map(beside);
            let unanswered = || border(true);
            let is_told = |(_, told): &(Border<'_>, Option<Vec<Told>>)| told.is_some();
            remote
                .filter(is_told)
                .or_else(|| unanswered().filter(is_told))
        };
        let Some((mut border, told)) = shown.or_else(hidden) else {
            continue;
        };
        if border.is_dedicated(drafts, told.as_deref()) {
            continue;
        }
        let clock = clock.into_inner().unwrap_or_else(of_drafts);
        let mut forked = Forked::of(&border, drafts);
        let is_told = told.is_some();
        let mut told = match told {
            Some(told) => told,
            None => match asked::from_wakeups(&border, drafts) {
                Some(told) => vec![told],
                None => continue,
            },
        };
        if let Some(forked) = forked.as_mut().filter(|_| !is_told) {
            let asked = std::mem::take(&mut told[0].asked);
            forked.give(&border, &asked, false);
            told[0].asked = forked.answered(&border, asked);
        }
        let bounds: Vec<Bound> = told
            .iter_mut()
            .map(|one| one.bind(evidence.client_loop))
            .collect();
        let Some(subject) = border.subject() else {
            continue;
        };
        let kinds = Kind::of(&told, &bounds);
        found.uses_log |= told.iter().any(|one| one.by_log);
        found.given_up += told.iter().map(|one| one.given_up).sum::<u64>();
        let coarse_timers = told.iter().any(|one| one.coarse.is_some());
        // How many connections there are, where that is known of all clients.
        let connections: Option<Vec<usize>> = told
            .iter()
            .map(|one| {
                let names: BTreeSet<u32> = one.connections.as_ref()?.iter().copied().collect();
                Some(names.len())
            })
            .collect();
        let dialogue = told[0].dialogue;
        let of_kinds = told.into_iter().map(|one| match one.in_parts {
            // A child serves all messages of its request.
            Some(in_parts) if forked.is_none() => asked::in_parts(&one.asked, in_parts),
            _ => one.asked,
        });
        let mut asked = kinds::in_order(of_kinds.collect());
        if let Some(forked) = forked.as_mut().filter(|_| is_told) {
            forked.give(&border, &asked, true);
        }
        asked::alone(&mut asked);
        if is_told {
            border.leave_inner(&asked, drafts);
        }
        let service = found.services.len() as u32;
        let placing = placed::Placing {
            border: &border,
            clock: &clock,
            forked: forked.as_ref(),
            service,
            in_any_order: kinds
                .iter()
                .any(|kind| matches!(kind.bound, Bound::Connections(_))),
        };
        let mut uncut: BTreeMap<ThreadId, Vec<Activation>> = BTreeMap::new();
        for Draft { activation, .. } in drafts.iter() {
            let thread = activation.thread;
            if border.inside[thread.index()] || border.clients.contains(&thread) {
                // What an earlier service cut is in the map already, as it was.
                uncut.entry(thread).or_default().push(activation.clone());
            }
        }
        let all = Arc::make_mut(&mut found.uncut);
        for (thread, activations) in uncut {
            all.entry(thread).or_insert(activations);
        }
        let first = found.requests.len();
        let put = placing.put(&asked, drafts, &mut found.requests);
        found.woken_ns.extend(put.woken_ns);
        let rounds = put.answering.map(|(thread, largest)| Rounds {
            thread,
            at_most: connections.map_or(largest, |all| all.iter().sum::<usize>() as u32),
        });
        found.clients.extend(&border.clients);
        found.services.push(Service {
            group: index,
            subject,
            clients: border.clients.iter().copied().collect(),
            bound: Bound::of_all(&bounds),
            kinds,
            dialogue,
            coarse_timers,
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
