//! Clients that wait for an answer before they ask again.
//!
//! A recording shows when each request was sent under the recorded limits. Under other limits the
//! answer to the request before may not be there yet at that time, and a client with one connection
//! does not send into a connection that is busy: it sends late. Replayed without that knowledge the
//! request would be sent all the same, and its server would be credited with work that its real
//! client held back.
//!
//! An *exchange* is a pair of threads, client and server, of which the recording shows at least 20
//! requests, each but the last answered, and no request sent before the answer to the one before.
//! In the replay of an exchange a request is sent at the latest of
//!
//! * the moment when the client gets to it, as recorded;
//! * the moment when the server has answered the request before;
//! * its schedule, where the recording has one.
//!
//! # Pools
//!
//! A client with several connections often sends the next request to the server that has been free
//! longest. Under another limit a request then waits until *some* server is free, not until the
//! recorded one is. Exchanges of one client with servers of one kind (same name,
//! same group) are a *pool* if the recording agrees: taken in order of sending, at least 95 in 100
//! requests went to the server that had been free longest. The servers of a pool are taken in that
//! order in the replay, too, whatever server it was in the recording.
//!
//! # Schedules
//!
//! Some load generators send by a timetable and log it (`requests.csv`). A request that was sent
//! late in the recording, together with the handling of an answer, might come in time under another
//! limit, and a request that follows an early answer must not come before its time. With the log
//! both are known: the client gets a timer at the scheduled time of every request that was sent
//! more than 1 ms after it, or that something else than a timer or device made it send.
//!
//! The log names connections, not threads. The connection belongs to the server that is sent a
//! request within 1 ms of most of its requests (at least four in five), and whose client is awake
//! when they are answered; no two connections get the same server. A queue from which another
//! program takes jobs does not answer them itself, so a log of these jobs does not match its
//! requests. Then each row of the log is paired with the nearest request, in order.
//!
//! A row may be a transaction of several requests, as `pgbench` logs them. Its parts are the
//! requests that its connection sends from the paired request to the row's answer and that no other
//! row is paired with. Its latency ends with the answer to the last one.
//!
//! # Latency
//!
//! Latency for a client begins when the request is *due*, at its schedule or when an arrival from
//! outside asks for it, and ends when the client gets the answer. It spans threads: waiting for a
//! free server and for the client itself is part of it.
//!
//! # Worked example
//!
//! Backend 8685 was asked at 5376.026 s and answered at 5376.134 708 s, after 108 ms under a
//! throttled group. The next request of its connection was scheduled for 5376.146 723 s and sent at
//! 5376.146 868 s. If another limit lets the answer come only at 5376.2 s, that request goes to
//! another backend if one is free, otherwise it is sent then; if the answer comes at 5376.04 s, the
//! request is still sent at 5376.146 868 s. All 1170 requests of that recording went to the backend
//! that had been free longest: it is a pool.

use super::Replay;
use super::groups::GroupIndex;
use super::model::{ActivationId, Step, Trigger};
use super::threads::{Origin, ThreadId};
use schedcast_trace::Request;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer requests than this do not show how a client behaves.
const REQUESTS_MIN: usize = 20;
/// A request sent this long after its schedule was held back by something.
const LATE_NS: u64 = 1_000_000;
/// The log and the trace tell of the same request if their times differ by no more than this.
const SAME_NS: u64 = 1_000_000;
/// Of a pool, at least this many percent of the requests go to the server that was free longest.
const POOL_PERCENT: usize = 95;

/// One request of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The server's activation.
    pub request: ActivationId,
    /// The client's activation that sends it.
    pub sender: ActivationId,
    /// The client's activation that the answer begins.
    pub answer: Option<ActivationId>,
    /// Before this time, ns since the start of the recording, it must not be sent. `None` if its
    /// sender has its time from outside, or if the time is not known.
    pub not_before_ns: Option<u64>,
    /// When it was due, ns since the start of the recording (negative before it): its schedule, or
    /// the arrival from outside that made its sender send. `None` if an answer made it send: then
    /// it is due when the client gets to it.
    pub due_ns: Option<i64>,
    /// From then to the answer, in the recording: from the log where there is one.
    pub latency_ns: Option<u64>,
    /// It is part of a transaction and not the last one: no latency ends with its answer.
    pub goes_on: bool,
}

/// A client and servers that take one of its requests at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Thread that sends the requests.
    pub client: ThreadId,
    /// Threads that answer. More than one are a pool, in the order in which they are first asked.
    pub servers: Vec<ThreadId>,
    /// How many of the servers are asked: all, unless the replay was adjusted to fewer.
    pub asked: usize,
    /// The requests, in order of time.
    pub requests: Vec<Exchanged>,
}

/// Finds the exchanges of a replay whose activations have their numbers and steps.
pub(super) fn find(replay: &mut Replay, log: Option<&[Request]>) -> Vec<Exchange> {
    let senders = senders(replay);
    let mut by_pair: BTreeMap<(ThreadId, ThreadId), Vec<Exchanged>> = BTreeMap::new();
    for (id, activation) in (0u32..).map(ActivationId).zip(&replay.activations) {
        let (Trigger::Thread(client) | Trigger::ThreadUnseen(client)) = activation.trigger else {
            continue;
        };
        let Some(sender) = senders[id.index()] else {
            continue;
        };
        let answer = replay
            .steps_of(activation)
            .iter()
            .rev()
            .find_map(|step| match step {
                Step::Wake(target) if replay.activations[target.index()].thread == client => {
                    Some(*target)
                }
                _ => None,
            });
        let pair = by_pair.entry((client, activation.thread)).or_default();
        pair.push(Exchanged {
            request: id,
            sender,
            answer,
            not_before_ns: None,
            due_ns: due_ns(replay, sender),
            latency_ns: None,
            goes_on: false,
        });
    }
    let mut exchanges: Vec<Exchange> = by_pair
        .into_iter()
        .filter(|(_, requests)| requests.len() >= REQUESTS_MIN && alternates(replay, requests))
        .map(|((client, server), requests)| Exchange {
            client,
            servers: vec![server],
            asked: 1,
            requests,
        })
        .collect();
    // Threads that do nothing but answer each other alternate by themselves.
    let pairs: BTreeSet<(ThreadId, ThreadId)> = exchanges
        .iter()
        .map(|exchange| (exchange.client, exchange.servers[0]))
        .collect();
    exchanges.retain(|exchange| !pairs.contains(&(exchange.servers[0], exchange.client)));
    for exchanged in exchanges.iter_mut().flat_map(|e| &mut e.requests) {
        exchanged.latency_ns = seen_latency_ns(replay, exchanged);
    }
    if let Some(log) = log {
        schedule(replay, &mut exchanges, log);
    }
    pool(replay, exchanges)
}

/// When a request is due whose sender came from outside.
fn due_ns(replay: &Replay, sender: ActivationId) -> Option<i64> {
    let sender = &replay.activations[sender.index()];
    match sender.trigger {
        Trigger::Outside { at_ns, .. } if sender.slept_before_ns.is_none() => {
            i64::try_from(at_ns).ok()
        }
        _ => None,
    }
}

/// From when a request was due to when the client got the answer, as the trace shows it.
fn seen_latency_ns(replay: &Replay, exchanged: &Exchanged) -> Option<u64> {
    let answer = &replay.activations[exchanged.answer?.index()];
    let seen_ns = answer.first_run_ns.unwrap_or(answer.woken_ns);
    let due_ns = match exchanged.due_ns {
        Some(due_ns) => u64::try_from(due_ns).ok()?,
        None => sent_ns(replay, exchanged),
    };
    seen_ns.checked_sub(due_ns)
}

/// Makes pools of the exchanges of one client with servers of one kind.
fn pool(replay: &Replay, exchanges: Vec<Exchange>) -> Vec<Exchange> {
    type Kind<'a> = (ThreadId, &'a str, GroupIndex);
    let mut by_kind: BTreeMap<Kind<'_>, Vec<Exchange>> = BTreeMap::new();
    for exchange in exchanges {
        let server = &replay.threads[exchange.servers[0].index()];
        let kind = (exchange.client, server.name.as_str(), server.group);
        by_kind.entry(kind).or_default().push(exchange);
    }
    let mut asked: BTreeMap<ThreadId, u32> = BTreeMap::new();
    for exchange in by_kind.values().flatten() {
        *asked.entry(exchange.servers[0]).or_default() += 1;
    }
    let mut pooled = Vec::new();
    for alike in by_kind.into_values() {
        // The servers of a pool become interchangeable: each must have this client only.
        let own = alike.iter().all(|exchange| {
            let server = exchange.servers[0];
            asked[&server] == 1 && matches!(replay.threads[server.index()].origin, Origin::Before)
        });
        match own.then(|| merged(replay, &alike)).flatten() {
            Some(pool) => pooled.push(pool),
            None => pooled.extend(alike),
        }
    }
    pooled
}

/// One exchange of several, if they are a pool.
fn merged(replay: &Replay, alike: &[Exchange]) -> Option<Exchange> {
    if alike.len() < 2 {
        return None;
    }
    let mut requests: Vec<Exchanged> = alike.iter().flat_map(|e| e.requests.clone()).collect();
    requests.sort_by_key(|exchanged| (sent_ns(replay, exchanged), exchanged.request));
    let server = |exchanged: &Exchanged| replay.activations[exchanged.request.index()].thread;
    // When each server became free, in the order in which they are asked again: it must ascend.
    let mut free_ns: BTreeMap<ThreadId, u64> = BTreeMap::new();
    let mut servers = Vec::new();
    let (mut before_ns, mut seen, mut in_turn) = (0, 0, 0);
    for exchanged in &requests {
        let replied_ns = replay.activations[exchanged.request.index()].replied_ns;
        match free_ns.insert(server(exchanged), replied_ns.unwrap_or(u64::MAX)) {
            Some(free_ns) => {
                seen += 1;
                in_turn += usize::from(free_ns >= before_ns);
                before_ns = free_ns;
            }
            None => servers.push(server(exchanged)),
        }
    }
    (in_turn * 100 >= seen * POOL_PERCENT).then(|| Exchange {
        client: alike[0].client,
        asked: servers.len(),
        servers,
        requests,
    })
}

/// Per activation: the one whose step begins it.
fn senders(replay: &Replay) -> Vec<Option<ActivationId>> {
    let mut senders = vec![None; replay.activations.len()];
    for (id, activation) in (0u32..).map(ActivationId).zip(&replay.activations) {
        for step in replay.steps_of(activation) {
            if let Step::Wake(target) = step {
                senders[target.index()] = Some(id);
            }
        }
    }
    senders
}

/// Whether every request but the last is answered before the next one is sent.
fn alternates(replay: &Replay, requests: &[Exchanged]) -> bool {
    requests.windows(2).all(|pair| {
        let (this, next) = (&pair[0], &pair[1]);
        let replied_ns = replay.activations[this.request.index()].replied_ns;
        let sent_ns = replay.activations[next.request.index()].woken_ns;
        this.answer.is_some() && replied_ns.is_some_and(|replied_ns| replied_ns <= sent_ns)
    })
}

/// A row of the log, in ns since the start of the recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Logged {
    sent_ns: u64,
    scheduled_ns: i64,
    latency_ns: Option<u64>,
}

impl Logged {
    /// When its client had the answer; `None` behind the end.
    fn replied_ns(&self) -> Option<u64> {
        let latency_ns = i64::try_from(self.latency_ns?).ok()?;
        u64::try_from(self.scheduled_ns + latency_ns).ok()
    }
}

/// Gives the requests of the exchanges their schedules.
fn schedule(replay: &mut Replay, exchanges: &mut [Exchange], log: &[Request]) {
    let start_us = replay.start_ns / 1000;
    let end_us = (replay.start_ns + replay.duration_ns).div_ceil(1000);
    let mut connections: BTreeMap<u32, Vec<Logged>> = BTreeMap::new();
    for request in log {
        if (start_us..end_us).contains(&request.sent_us) {
            let logged = Logged {
                sent_ns: (request.sent_us - start_us) * 1000,
                scheduled_ns: (request.scheduled_us as i64 - start_us as i64).saturating_mul(1000),
                // An answer behind the end is seen by no replay either.
                latency_ns: (request.replied_us < end_us)
                    .then(|| (request.replied_us - request.scheduled_us).saturating_mul(1000)),
            };
            connections.entry(request.client).or_default().push(logged);
        }
    }
    let mut taken = vec![false; exchanges.len()];
    for times in connections.values_mut() {
        times.sort_unstable();
        let best = exchanges
            .iter()
            .zip(&taken)
            .enumerate()
            .filter(|(_, (_, taken))| !**taken)
            .filter(|(_, (exchange, _))| answers(replay, exchange, times))
            .map(|(index, (exchange, _))| (agreeing(replay, exchange, times), index))
            .max_by_key(|(agreeing, index)| (*agreeing, std::cmp::Reverse(*index)));
        if let Some((agreeing, index)) = best
            && agreeing * 5 >= times.len() * 4
        {
            taken[index] = true;
            pair_up(replay, &mut exchanges[index], times);
        }
    }
}

fn sent_ns(replay: &Replay, exchanged: &Exchanged) -> u64 {
    replay.activations[exchanged.request.index()].woken_ns
}

/// Logged requests that have a request of the exchange within [`SAME_NS`].
fn agreeing(replay: &Replay, exchange: &Exchange, times: &[Logged]) -> usize {
    let sent: Vec<u64> = exchange
        .requests
        .iter()
        .map(|exchanged| sent_ns(replay, exchanged))
        .collect();
    times
        .iter()
        .filter(|logged| {
            let next = sent.partition_point(|sent_ns| sent_ns + SAME_NS < logged.sent_ns);
            sent.get(next)
                .is_some_and(|sent_ns| sent_ns.abs_diff(logged.sent_ns) <= SAME_NS)
        })
        .count()
}

/// Whether the client is awake when most of the logged requests are answered.
fn answers(replay: &Replay, exchange: &Exchange, times: &[Logged]) -> bool {
    let own = replay.activations_of(exchange.client);
    let answered = times.iter().filter_map(Logged::replied_ns);
    let (awake, all) = answered.fold((0, 0), |(awake, all), replied_ns| {
        let begun = own.partition_point(|one| one.woken_ns <= replied_ns);
        let last = begun.checked_sub(1).map(|last| &own[last]);
        let is_awake = last.is_some_and(|last| last.lasts_to_logged(replied_ns));
        (awake + usize::from(is_awake), all + 1)
    });
    awake * 5 >= all * 4
}

/// Pairs requests and log. With equal numbers they are the same requests in the same order;
/// otherwise each row is given the nearest request that no earlier row has, within [`SAME_NS`].
fn pair_up(replay: &mut Replay, exchange: &mut Exchange, times: &[Logged]) {
    let sent: Vec<u64> = exchange
        .requests
        .iter()
        .map(|exchanged| sent_ns(replay, exchanged))
        .collect();
    let in_order = sent.len() == times.len();
    let mut rows: Vec<Option<Logged>> = vec![None; sent.len()];
    let mut from = 0;
    for (number, logged) in times.iter().enumerate() {
        let apart_ns = |position: &usize| sent[*position].abs_diff(logged.sent_ns);
        let position = match in_order {
            true => Some(number),
            false => (from..sent.len())
                .take_while(|position| sent[*position] <= logged.sent_ns + SAME_NS)
                .filter(|position| apart_ns(position) <= SAME_NS)
                .min_by_key(apart_ns),
        };
        if let Some(position) = position {
            rows[position] = Some(*logged);
            from = position + 1;
        }
    }
    let mut under_way: Option<Logged> = None;
    for (position, row) in rows.into_iter().enumerate() {
        if let Some(logged) = row {
            give_schedule(replay, &mut exchange.requests[position], logged);
            under_way = row;
            continue;
        }
        under_way = under_way.filter(|logged| {
            logged
                .replied_ns()
                .is_none_or(|replied_ns| sent[position] < replied_ns)
        });
        if let Some(logged) = under_way {
            let before = &mut exchange.requests[position - 1];
            before.goes_on = true;
            before.latency_ns = None;
            let part = &mut exchange.requests[position];
            part.due_ns = Some(logged.scheduled_ns);
            part.latency_ns = logged.latency_ns;
        }
    }
}

/// Uses what the log says about one request.
fn give_schedule(replay: &mut Replay, exchanged: &mut Exchanged, logged: Logged) {
    exchanged.due_ns = Some(logged.scheduled_ns);
    exchanged.latency_ns = logged.latency_ns;
    let sender = &replay.activations[exchanged.sender.index()];
    let timed = matches!(sender.trigger, Trigger::Outside { .. });
    let schedule_ns = u64::try_from(logged.scheduled_ns).unwrap_or(0);
    if !timed || logged.sent_ns.saturating_sub(schedule_ns) > LATE_NS {
        exchanged.not_before_ns = Some(schedule_ns);
    }
    let request = &mut replay.activations[exchanged.request.index()];
    let latest_ns = request
        .replied_ns
        .or(request.end_ns)
        .unwrap_or(logged.sent_ns);
    if matches!(request.trigger, Trigger::ThreadUnseen(_)) {
        request.woken_ns = logged.sent_ns.min(latest_ns);
    }
}
