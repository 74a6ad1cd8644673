//! Sending by clients that wait for answers.
//!
//! At the recorded place of a request, or at its schedule if that is later, the client *permits*
//! the request. It sends the next permitted request whenever a server is free. Permitted, sent and
//! answered requests are counted in words of memory that only the client uses. Rows of words hold
//!
//! * *messages*: the number of the message that each request is;
//! * *inboxes*: the inbox of each server;
//! * *free*: a ring of as many places as there are servers. The k-th request goes to the server in
//!   place k mod n, the k-th answer puts its server back into place k mod n. So the server that has
//!   been free longest is next, and while fewer than n requests are under way there is a free one;
//! * *serving*: the server of each request;
//! * *due*: when each request was permitted, where nothing else says when it is due, and whether it
//!   is answered.
//!
//! # Worked example
//!
//! Two servers, A and B; the ring begins as [A, B]. Request 0 goes to A, request 1 to B. Request 2
//! is permitted while both are busy: sent 2, answered 0, 2 − 0 = 2 servers busy, it waits. B
//! answers first: place 0 becomes B, answered 1. Now request 2 goes to the server in place 2 mod
//! 2 = 0: B.

use super::super::Replay;
use super::super::exchange::Exchanged;
use super::super::model::ActivationId;
use super::super::threads::ThreadId;
use super::units::Units;
use super::{Compiler, SEND, SENT};
use schedcast_sim::workload::{MetricId, QueueId, WordId};
use schedcast_sim::{
    ANSWERED, Arithmetic, Compare, NOT_DUE, ProgramBuilder, Reg, RequestSpec, Workload,
};
use std::collections::BTreeMap;

/// Words of an exchange; rows are given by their first.
pub(super) struct ExchangeWords {
    permitted: WordId,
    sent: WordId,
    answered: WordId,
    messages: u64,
    inboxes: u64,
    free: u64,
    serving: u64,
    due: u64,
    servers: u64,
    /// From when a request is due to when the client handles the answer.
    latency: MetricId,
}

/// A timer at the schedule of a request.
pub(super) struct ScheduleTimer {
    pub exchange: usize,
    pub position: usize,
    pub at_ns: u64,
}

/// Where the requests of the exchanges stand.
pub(super) struct Exchanges {
    pub words: Vec<ExchangeWords>,
    /// Exchange and position of each request.
    pub requested: BTreeMap<ActivationId, (usize, usize)>,
    /// Exchanges and positions that an activation of the client handles the answers of.
    pub answered: BTreeMap<ActivationId, Vec<(usize, usize)>>,
    /// Timers by client.
    timers: BTreeMap<ThreadId, Vec<ScheduleTimer>>,
}

impl Exchanges {
    pub(super) fn new(
        replay: &Replay,
        units: &Units,
        inboxes: &[Option<QueueId>],
        workload: &mut Workload,
    ) -> Self {
        let mut all = Self {
            words: Vec::new(),
            requested: BTreeMap::new(),
            answered: BTreeMap::new(),
            timers: BTreeMap::new(),
        };
        for (row, exchange) in replay.exchanges.iter().enumerate() {
            for (position, exchanged) in exchange.requests.iter().enumerate() {
                all.requested.insert(exchanged.request, (row, position));
                if let Some(answer) = exchanged.answer {
                    all.answered
                        .entry(answer)
                        .or_default()
                        .push((row, position));
                }
                if let Some(at_ns) = exchanged.not_before_ns {
                    let timers = all.timers.entry(exchange.client).or_default();
                    timers.push(ScheduleTimer {
                        exchange: row,
                        position,
                        at_ns,
                    });
                }
            }
            let server = &replay.threads[exchange.servers[0].index()].subject;
            let latency = workload.add_metric(&format!("{server}/request_latency"));
            let mut add_row = |values: &mut dyn Iterator<Item = u64>| {
                let first = workload.words.len() as u64;
                for value in values {
                    workload.add_word(value);
                }
                first
            };
            let servers = exchange.asked as u64;
            let requests = exchange.requests.iter();
            let inbox = |server: &ThreadId| inboxes[server.index()].map_or(0, |id| u64::from(id.0));
            let messages = &mut requests.clone().map(|r| units.number(replay, r.request));
            all.words.push(ExchangeWords {
                messages: add_row(messages),
                inboxes: add_row(&mut exchange.servers.iter().take(exchange.asked).map(inbox)),
                free: add_row(&mut (0..servers)),
                serving: add_row(&mut requests.clone().map(|_| 0)),
                due: add_row(&mut requests.clone().map(|_| NOT_DUE)),
                servers,
                latency,
                permitted: workload.add_word(0),
                sent: workload.add_word(0),
                answered: workload.add_word(0),
            });
            let first = all.words[row].due as u32;
            let states = (first..).map(WordId).zip(requests);
            let last = states.filter(|(_, request)| !request.goes_on);
            workload
                .requests
                .extend(last.map(|(state, request)| RequestSpec {
                    metric: latency,
                    also: None,
                    due_ns: request.due_ns,
                    state,
                }));
        }
        all
    }

    pub(super) fn timers_of(&self, client: ThreadId) -> impl Iterator<Item = &ScheduleTimer> {
        self.timers.get(&client).into_iter().flatten()
    }
}

impl ExchangeWords {
    /// The server of an answered request is free again.
    pub(super) fn take_back(&self, b: &mut ProgramBuilder, position: usize) {
        let [place, server, _] = SEND;
        b.word_load(self.answered, place);
        b.sum(server, place, 1);
        b.word_store(self.answered, server);
        self.place(b, place);
        b.set(server, self.serving + position as u64);
        b.word_load(server, server);
        b.word_store(place, server);
    }

    /// The client has the answer of a request.
    pub(super) fn record(&self, b: &mut ProgramBuilder, position: usize, request: &Exchanged) {
        let [since, ..] = SEND;
        if !request.goes_on {
            self.record_latency(b, position, request.due_ns);
        }
        b.set(since, self.due + position as u64);
        b.word_store(since, ANSWERED);
    }

    fn record_latency(&self, b: &mut ProgramBuilder, position: usize, due_ns: Option<i64>) {
        let [since, ..] = SEND;
        match due_ns.map(|due_ns| (u64::try_from(due_ns), due_ns.unsigned_abs())) {
            Some((Ok(due_ns), _)) => {
                b.set(since, due_ns);
                b.record_since(self.latency, since);
            }
            Some((Err(_), before_ns)) => {
                b.now(since);
                b.add(since, before_ns);
                b.record(self.latency, since);
            }
            None => {
                b.set(since, self.due + position as u64);
                b.word_load(since, since);
                b.unless(since, Compare::Equal, NOT_DUE, |b| {
                    b.record_since(self.latency, since);
                });
            }
        }
    }

    /// Turns a count into the word of its place in the ring.
    fn place(&self, b: &mut ProgramBuilder, count: Reg) {
        b.arithmetic(Arithmetic::Remainder, count, self.servers);
        b.add(count, self.free);
    }
}

impl Compiler<'_> {
    /// Permits a request, unless it is not yet time, and sends what may be sent.
    pub(super) fn permit(&self, b: &mut ProgramBuilder, exchange: usize, position: usize) {
        let words = &self.exchanges.words[exchange];
        let [count, due, word] = SEND;
        let too_early = b.label();
        let exchanged = &self.replay.exchanges[exchange].requests[position];
        if exchanged.due_ns.is_none() {
            b.set(word, words.due + position as u64);
            b.now(due);
            b.word_store(word, due);
        }
        if let Some(not_before_ns) = exchanged.not_before_ns {
            b.now(count);
            b.jump_if(count, Compare::Less, not_before_ns, too_early);
        }
        b.word_load(words.permitted, count);
        b.arithmetic(Arithmetic::Max, count, position as u64 + 1);
        b.word_store(words.permitted, count);
        b.bind(too_early);
        self.send_permitted(b, exchange);
    }

    /// Sends permitted requests of an exchange while servers are free.
    pub(super) fn send_permitted(&self, b: &mut ProgramBuilder, exchange: usize) {
        let words = &self.exchanges.words[exchange];
        let exchange = &self.replay.exchanges[exchange];
        let [count, other, place] = SEND;
        let done = b.label();
        let next = b.here();
        b.word_load(words.sent, count);
        b.word_load(words.permitted, other);
        b.jump_if(count, Compare::GreaterOrEqual, other, done);
        b.word_load(words.answered, other);
        b.add(other, words.servers);
        b.jump_if(count, Compare::GreaterOrEqual, other, done);
        b.sum(other, count, 1);
        b.word_store(words.sent, other);

        b.set(place, count);
        words.place(b, place);
        b.word_load(place, place);
        b.sum(other, count, words.serving);
        b.word_store(other, place);
        b.add(place, words.inboxes);
        b.word_load(place, place);
        b.add(count, words.messages);
        b.word_load(count, SENT);
        self.send_into(b, exchange.client, exchange.servers[0], place.into());
        b.jump(next);
        b.bind(done);
    }
}
