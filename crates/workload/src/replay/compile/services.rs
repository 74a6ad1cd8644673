//! How requests of services wait, for their arrival and for other threads, and how they end. Loops
//! that answer in rounds are in [`super::rounds`].
//!
//! An activation that waits must not keep its thread from other messages. Where it waits it is cut,
//! at a *gate*. A thread that reaches a gate after the arrival goes on. A thread that reaches it
//! before the arrival sets the gate to `WAITING` and takes the next message. The arrival is a
//! message of its own: if the gate is `WAITING`, the thread goes on behind it.
//!
//! A wait that another thread ends is a gate, too. The threads of a service take their messages in
//! another order than recorded. If a wait blocked its thread, two threads, each in the middle of
//! one activation, could wait for what the other does only in its next one, a deadlock that no real
//! service has. A gate lets the thread take its next message, so that there is none: everything
//! that an activation waits for was done before it in the recording.
//!
//! ```text
//!   h0:    work 600 µs, reply                     the activation up to the gate
//!          if now >= 10.4 ms: jump g0
//!          gate 0 := WAITING
//!          jump wait
//!   a0:    if gate 0 /= WAITING: jump wait        the message that comes at 10.4 ms
//!   g0:    gate 0 := PASSED
//!          work 200 µs, reply                     the rest of the activation
//!          jump wait
//! ```

use super::super::Replay;
use super::super::model::{ActivationId, HandoverId, Step, Trigger};
use super::super::service::{Follows, RequestId, Served, Service};
use super::super::threads::ThreadId;
use super::lanes::Lanes;
use super::order::InOrder;
use super::rounds::Looping;
use super::units::under_way;
use super::{Compiler, SEND, SENT};
use schedcast_sim::program::Label;
use schedcast_sim::workload::{
    ArrivalContext, DeviceId, DeviceSpec, Interrupts, MetricId, PatientId, WordId,
};
use schedcast_sim::{
    ANSWERED, Arithmetic, Compare, NOT_DUE, PatientMessage, PatientSpec, ProgramBuilder,
    RequestSpec, Then, When, Workload,
};
use std::collections::{BTreeMap, BTreeSet};

/// State of a gate to which its thread has not come yet, or which it has passed.
const PASSED: u64 = 0;
/// State of a gate at which an activation waits for the arrival, or for the other thread.
const WAITING: u64 = 1;
/// State of a gate that the other thread reached first.
const POSTED: u64 = 2;

/// Event that opens a gate.
#[derive(Clone, Copy)]
pub(super) enum Opens {
    /// The arrival of a request, at this time.
    Arrival { at_ns: u64 },
    /// Another thread.
    Post,
}

/// A place in an activation that its thread does not pass before an event.
pub(super) struct Gate {
    pub opens: Opens,
    word: WordId,
}

/// Where the gate of a handover is.
#[derive(Clone, Copy)]
struct Place {
    thread: ThreadId,
    /// Position among the gates of its thread.
    position: u64,
    word: WordId,
}

/// Consequence of a reply.
#[derive(Clone, Copy)]
enum Next {
    /// This request is due.
    Due(RequestId, When),
    /// This later message of the same request comes, and is due when that was.
    Later(RequestId),
    /// The message that begins this activation.
    Message(ActivationId, When),
}

/// When something comes that follows a reply.
fn when(follows: Follows) -> When {
    When {
        after_ns: follows.after_ns,
        not_before_ns: follows.not_before_ns,
    }
}

impl Next {
    /// Per request: what follows the reply to it.
    fn of(replay: &Replay) -> Vec<Vec<Next>> {
        let mut next: Vec<Vec<Next>> = vec![Vec::new(); replay.requests.len()];
        for (id, served) in (0u32..).map(RequestId).zip(&replay.requests) {
            if let Some(follows) = served.follows {
                let before = follows.request;
                let is_own =
                    |first| before == first || replay.requests[before.index()].first == Some(first);
                let next = &mut next[before.index()];
                next.push(match served.first {
                    Some(first) if is_own(first) => Next::Later(id),
                    // A message that follows no reply of its own request comes with the first one.
                    Some(first) => {
                        let first = replay.requests[first.index()].follows;
                        let with = first.filter(|first| first.request == before);
                        Next::Due(id, when(with.unwrap_or(follows)))
                    }
                    None => Next::Due(id, when(follows)),
                });
            }
        }
        for (id, activation) in (0u32..).map(ActivationId).zip(&replay.activations) {
            if let Some(follows) = activation.follows {
                let next = &mut next[follows.request.index()];
                next.push(Next::Message(id, when(follows)));
            }
        }
        next
    }
}

/// A device that delivers messages after a delay that its user gives: a timer of the thread that
/// waits.
fn delays(workload: &mut Workload) -> DeviceId {
    workload.add_device(DeviceSpec::new("delays", 0, Interrupts::Receiver))
}

/// Metrics of a service: from when a request is due to when its client has the reply.
struct Latencies {
    of_all: MetricId,
    /// By kind of clients, if there are several.
    of_kinds: Vec<MetricId>,
}

impl Latencies {
    fn new(service: &Service, workload: &mut Workload) -> Self {
        let mut of = |subject: &str| workload.add_metric(&format!("{subject}/request_latency"));
        Self {
            of_all: of(&service.subject),
            of_kinds: service.kinds.iter().map(|kind| of(&kind.subject)).collect(),
        }
    }

    /// That of the requests of clients of the same kind, if there are several.
    fn of_kind(&self, served: &Served) -> Option<MetricId> {
        self.of_kinds.get(served.kind as usize).copied()
    }
}

/// Where the figures of services go, and the gates.
pub(super) struct Services {
    latency: Vec<Latencies>,
    /// Per service: counts of requests that failed, and of those asked again.
    failures: Vec<[MetricId; 2]>,
    /// Per request: a word that says whether it is answered; in a closed loop, when it is due.
    states: Vec<WordId>,
    /// Per request: consequences of the reply to it in a closed loop.
    next: Vec<Vec<Next>>,
    /// Device that delays the messages of clients that think and of requests that sleep, if any do.
    delays: Option<DeviceId>,
    /// By thread, in the order of its steps.
    gates: BTreeMap<ThreadId, Vec<Gate>>,
    /// Handovers whose wait is a gate.
    posts: BTreeMap<HandoverId, Place>,
    /// By activation that a client with a schedule begins: a word that says whether the client
    /// still waits for its last reply.
    held_back: BTreeMap<ActivationId, WordId>,
    /// Lanes of threads that reply when other threads have done the work.
    pub(super) lanes: Lanes,
    /// Event loops that answer in rounds.
    pub(super) looping: BTreeMap<ThreadId, Looping>,
    /// Where clients do not wait for ever: the first request's number among those, and its row.
    pub(super) patients: Option<(u32, u32)>,
}

/// The handovers that threads of services wait for at gates. Activations under way at the start
/// have none.
pub(super) fn loose_waits(replay: &Replay) -> BTreeSet<HandoverId> {
    let members = replay.services.iter().map(|one| replay.members(one.group));
    let mut loose = BTreeSet::new();
    for thread in members.flatten() {
        let from = replay.threads[thread.index()].activations.start;
        let begun = usize::from(under_way(replay, thread).is_some_and(|first| first.0 == from));
        for activation in &replay.activations_of(thread)[begun..] {
            loose.extend(
                replay
                    .steps_of(activation)
                    .iter()
                    .filter_map(|step| match step {
                        Step::Wait(handover) => Some(*handover),
                        _ => None,
                    }),
            );
        }
    }
    loose
}

impl Services {
    pub(super) fn new(
        replay: &Replay,
        loose: &BTreeSet<HandoverId>,
        in_order: &InOrder,
        workload: &mut Workload,
    ) -> Self {
        let services = replay.services.iter();
        let latency = services.map(|one| Latencies::new(one, workload));
        let latency: Vec<Latencies> = latency.collect();
        let counts = |one: &Service| {
            ["requests_failed", "requests_retried"]
                .map(|name| workload.add_metric(&format!("{}/{name}", one.subject)))
        };
        let impatient = replay.patience.map(|_| replay.services.iter().map(counts));
        let failures = impatient.into_iter().flatten().collect();
        let first = (
            workload.patients.len() as u32,
            workload.requests.len() as u32,
        );
        let mut states = Vec::with_capacity(replay.requests.len());
        for served in &replay.requests {
            let state = workload.add_word(NOT_DUE);
            states.push(state);
            let latency = &latency[served.service as usize];
            workload.requests.push(RequestSpec {
                metric: latency.of_all,
                also: latency.of_kind(served),
                due_ns: served.follows.is_none().then_some(served.due_ns),
                state,
            });
        }
        let next = Next::of(replay);
        let is_later = |step: &Step| matches!(step, Step::Later(_));
        let any = next.iter().any(|next| !next.is_empty()) || replay.steps.iter().any(is_later);
        let delays = any.then(|| delays(workload));
        let mut gates: BTreeMap<ThreadId, Vec<Gate>> = BTreeMap::new();
        let mut posts = BTreeMap::new();
        for activation in &replay.activations {
            for step in replay.steps_of(activation) {
                let opens = match step {
                    Step::Await(request) => Opens::Arrival {
                        at_ns: replay.requests[request.index()].arrives_ns,
                    },
                    Step::Wait(handover) if loose.contains(handover) => Opens::Post,
                    _ => continue,
                };
                let word = workload.add_word(PASSED);
                let of_thread = gates.entry(activation.thread).or_default();
                if let Step::Wait(handover) = step {
                    let place = Place {
                        thread: activation.thread,
                        position: of_thread.len() as u64,
                        word,
                    };
                    posts.insert(*handover, place);
                }
                of_thread.push(Gate { opens, word });
            }
        }
        let ids = (0u32..).map(ActivationId).zip(&replay.activations);
        let scheduled = ids.filter(|(_, one)| one.follows.is_some_and(|one| one.not_before_ns > 0));
        // A thread that is in order has no activation for a message that comes too early.
        let scheduled = scheduled.filter(|(_, one)| !in_order.contains(one.thread));
        // Clients that give up wait by themselves.
        let held_back = match replay.patience {
            None => scheduled
                .map(|(id, _)| (id, workload.add_word(0)))
                .collect(),
            Some(_) => BTreeMap::new(),
        };
        // A retry does what the recording shows of its request.
        let lanes = match replay.patience {
            Some(patience) if patience.retries > 0 => Lanes::default(),
            _ => Lanes::of(replay, workload),
        };
        let rounds = replay.services.iter().filter_map(|one| one.rounds);
        let looping = rounds.map(|one| (one.thread, Looping::new(replay, one, workload)));
        Self {
            latency,
            failures,
            states,
            next,
            delays,
            gates,
            posts,
            held_back,
            lanes,
            looping: looping.collect(),
            patients: replay.patience.map(|_| first),
        }
    }

    /// The number of a request whose client does not wait for ever.
    pub(super) fn patient(&self, request: RequestId) -> Option<PatientId> {
        self.patients.map(|(first, _)| PatientId(first + request.0))
    }

    /// Whether a client with a schedule sends at its time what begins an activation, unless it
    /// waits for its last reply.
    pub(super) fn is_scheduled(&self, id: ActivationId) -> bool {
        self.held_back.contains_key(&id)
    }

    /// Whether a step waits at a gate.
    pub(super) fn is_gate(&self, step: &Step) -> bool {
        match step {
            Step::Await(_) => true,
            Step::Wait(handover) => self.posts.contains_key(handover),
            _ => false,
        }
    }

    /// The gates of a thread, in the order of its steps.
    pub(super) fn gates_of(&self, thread: ThreadId) -> &[Gate] {
        self.gates.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// The reply is sent, and read after as long as in the recording.
    pub(super) fn reply(&self, b: &mut ProgramBuilder, requests: &[Served], request: RequestId) {
        let [latency, due, _] = SEND;
        let served = &requests[request.index()];
        let metrics = &self.latency[served.service as usize];
        let state = self.states[request.index()];
        let due_ns = served.due_ns.saturating_sub_unsigned(served.read_ns);
        b.now(latency);
        match u64::try_from(due_ns) {
            _ if served.follows.is_some() => {
                b.word_load(state, due);
                b.add(latency, served.read_ns);
                // The work for it may have been run before it was due.
                b.arithmetic(Arithmetic::Max, latency, due);
                b.subtract(latency, due);
            }
            Ok(since_ns) => b.subtract(latency, since_ns),
            Err(_) => b.add(latency, due_ns.unsigned_abs()),
        }
        if !served.goes_on {
            b.record(metrics.of_all, latency);
            if let Some(of_kind) = metrics.of_kind(served) {
                b.record(of_kind, latency);
            }
        }
        b.word_store(state, ANSWERED);
    }

    /// A later message of a request is due when that was.
    fn hand_due_on(&self, b: &mut ProgramBuilder, requests: &[Served], request: RequestId) {
        let [state, due, _] = SEND;
        let served = &requests[request.index()];
        for next in &self.next[request.index()] {
            let Next::Later(later) = *next else {
                continue;
            };
            match served.follows {
                Some(_) => {
                    b.word_load(self.states[request.index()], due);
                    // The work for it may have been run before it was due.
                    b.unless(due, Compare::NotEqual, NOT_DUE, |b| b.now(due));
                }
                None => b.set(due, served.due_ns.max(0) as u64),
            }
            let word = self.states[later.index()];
            b.word_load(word, state);
            b.unless(state, Compare::NotEqual, NOT_DUE, |b| {
                b.word_store(word, due);
            });
        }
    }
}

impl Gate {
    /// Goes on if the gate is open, else sets it to `WAITING` and takes the next message. `opening`
    /// becomes the place where the message that opens the gate is handled. `hold` emits what else
    /// is to be done when the activation begins to wait, and when it goes on.
    pub(super) fn pass(
        &self,
        b: &mut ProgramBuilder,
        opening: Label,
        wait: Label,
        hold: impl Fn(&mut ProgramBuilder, bool),
    ) {
        let [value, ..] = SEND;
        let behind = b.label();
        match self.opens {
            Opens::Arrival { at_ns } => {
                b.now(value);
                b.jump_if(value, Compare::GreaterOrEqual, at_ns, behind);
            }
            Opens::Post => {
                b.word_load(self.word, value);
                b.jump_if(value, Compare::Equal, POSTED, behind);
            }
        }
        b.word_store(self.word, WAITING);
        hold(b, true);
        b.jump(wait);
        b.bind(opening);
        b.word_load(self.word, value);
        b.jump_if(value, Compare::NotEqual, WAITING, wait);
        hold(b, false);
        b.bind(behind);
        b.word_store(self.word, PASSED);
    }
}

impl Compiler<'_> {
    /// A request ends; a client that waits for it will ask again.
    pub(super) fn answer(&self, b: &mut ProgramBuilder, request: RequestId) {
        self.services.lanes.advance(b, request);
        if let Some(patient) = self.services.patient(request) {
            b.answer(patient);
            return;
        }
        let requests = &self.replay.requests;
        self.services.hand_due_on(b, requests, request);
        self.services.reply(b, requests, request);
        let [state, value, _] = SEND;
        for next in &self.services.next[request.index()] {
            match *next {
                Next::Later(_) => {}
                Next::Due(id, when) => {
                    let word = self.services.states[id.index()];
                    b.word_load(word, state);
                    b.unless(state, Compare::NotEqual, NOT_DUE, |b| {
                        b.now(value);
                        b.add(value, when.after_ns);
                        b.arithmetic(Arithmetic::Max, value, when.not_before_ns);
                        b.word_store(word, value);
                    });
                }
                Next::Message(id, when) => match self.services.held_back.get(&id) {
                    Some(word) => {
                        b.word_load(*word, state);
                        b.unless(state, Compare::NotEqual, WAITING, |b| {
                            self.begin_later(b, id, when);
                        });
                    }
                    None => self.begin_later(b, id, when),
                },
            }
        }
    }

    /// A client with a schedule that has no reply yet to its last request sends later.
    pub(super) fn hold_back(&self, b: &mut ProgramBuilder, id: ActivationId, wait: Label) {
        let activation = &self.replay.activations[id.index()];
        let (Some(word), Some(follows)) = (self.services.held_back.get(&id), activation.follows)
        else {
            return;
        };
        let [state, ..] = SEND;
        let goes_on = b.label();
        b.word_load(self.services.states[follows.request.index()], state);
        b.jump_if(state, Compare::Equal, ANSWERED, goes_on);
        b.word_store(*word, WAITING);
        b.jump(wait);
        b.bind(goes_on);
    }

    /// Begins an activation that comes from outside.
    pub(super) fn begin_later(&self, b: &mut ProgramBuilder, id: ActivationId, when: When) {
        let activation = &self.replay.activations[id.index()];
        if let Trigger::Outside { .. } = activation.trigger {
            let number = self.units.number(self.replay, id);
            self.send_later(b, activation.thread, number, when);
        }
    }

    /// Sends a message to a thread.
    pub(super) fn send_later(&self, b: &mut ProgramBuilder, to: ThreadId, number: u64, when: When) {
        let (Some(delays), Some(inbox)) = (self.services.delays, self.inboxes[to.index()]) else {
            return;
        };
        let When {
            after_ns,
            not_before_ns,
        } = when;
        let [until, now, _] = SEND;
        b.now(SENT);
        b.add(SENT, after_ns);
        if not_before_ns > 0 {
            b.arithmetic(Arithmetic::Max, SENT, not_before_ns);
            b.set(until, SENT);
            b.now(now);
            b.subtract(until, now);
        }
        b.arithmetic(Arithmetic::Multiply, SENT, self.units.of(to).messages);
        b.add(SENT, number);
        match not_before_ns {
            0 => b.submit(delays, after_ns, inbox, SENT),
            _ => b.submit(delays, until, inbox, SENT),
        }
    }

    /// The requests, if their clients do not wait for ever.
    pub(super) fn patients(&self) -> Vec<PatientSpec> {
        let (Some(patience), Some((_, row))) = (self.replay.patience, self.services.patients)
        else {
            return Vec::new();
        };
        let requests = (0u32..).map(RequestId).zip(&self.replay.requests);
        let patient = |(id, served): (RequestId, &Served)| {
            let [failed, retried] = self.services.failures[served.service as usize];
            let again = self.agains.first(id).and_then(|part| {
                let thread =
                    self.replay.activations[self.agains.parts[part].activation.index()].thread;
                let number = self.units.number_again(&self.agains, thread, part);
                let message = self.message(thread, number, ArrivalContext::SoftIrq)?;
                let way_ns = self.comes_ns(id, part) as i64 - served.due_ns;
                Some((message, u64::try_from(way_ns).unwrap_or(0)))
            });
            let next = self.services.next[id.index()].iter();
            let then = next.filter_map(|next| match *next {
                Next::Due(id, when) => Some((Then::Due(self.services.patient(id)?), when)),
                Next::Later(_) => None,
                Next::Message(id, when) => {
                    let activation = &self.replay.activations[id.index()];
                    let Trigger::Outside { .. } = activation.trigger else {
                        return None;
                    };
                    let number = self.units.number(self.replay, id);
                    let context = ArrivalContext::OwnTimer;
                    let message = self.message(activation.thread, number, context)?;
                    Some((Then::Sends(message), when))
                }
            });
            PatientSpec {
                request: row + id.0,
                timeout_ns: patience.timeout_ns,
                retries: patience.retries,
                read_ns: served.read_ns,
                failed,
                retried,
                again,
                then: then.collect(),
            }
        };
        requests.map(patient).collect()
    }

    /// A message of this number to a thread.
    fn message(
        &self,
        thread: ThreadId,
        kind: u64,
        context: ArrivalContext,
    ) -> Option<PatientMessage> {
        Some(PatientMessage {
            queue: self.inboxes[thread.index()]?,
            kinds: self.units.of(thread).messages,
            kind,
            cpu: self
                .options
                .cpu(self.replay.threads[thread.index()].first_cpu),
            context,
        })
    }

    /// A thread ends the wait of another one.
    pub(super) fn post(&self, b: &mut ProgramBuilder, from: ThreadId, handover: HandoverId) {
        let Some(place) = self.services.posts.get(&handover) else {
            b.sem_post(self.handovers[handover.0 as usize]);
            return;
        };
        let [value, ..] = SEND;
        let (first, done) = (b.label(), b.label());
        b.word_load(place.word, value);
        b.jump_if(value, Compare::NotEqual, WAITING, first);
        b.set(
            SENT,
            self.units.of(place.thread).first_gate + place.position,
        );
        self.send(b, from, place.thread);
        b.jump(done);
        b.bind(first);
        b.word_store(place.word, POSTED);
        b.bind(done);
    }
}
