//! Clients that do not wait for ever.
//!
//! A client with a timeout gives a request up when no answer has come by then, or asks once more.
//! What the service has begun for a request that was given up, or finds in a socket, it does all
//! the same: it reads the request before it learns that the connection is closed. So only what
//! comes of an answer changes. One that belongs to an earlier attempt reaches nobody.
//!
//! A message that asks again is handled like the first, and answers are told apart by their number:
//! the attempts of a request are served in the order in which they come.
//!
//! # Worked example
//!
//! A request is due at 10 ms, with a timeout of 20 ms and one retry. The service is throttled until
//! 40 ms and works 1 ms. At 30 ms the client asks again, at 50 ms it would give up. At 41 ms the
//! first answer is sent: nobody waits for it. The second comes at 42 ms, 32 ms after the request
//! was due. Had the service been throttled until 60 ms, the request would have failed after 40 ms,
//! and 2 ms of work would have been for nothing.

use super::engine::Run;
use super::outside::{Outside, Source, class};
use super::unfinished::{ANSWERED, NOT_DUE};
use super::{Core, World};
use crate::wheel::{Key, Slot};
use crate::workload::{
    Arrival, ArrivalAction, ArrivalContext, MetricId, PatientId, QueueId, Workload,
};
use schedcast_kernel::{Cpu, Ns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request whose client does not wait for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatientSpec {
    /// The request, a row of [`Workload::requests`].
    pub request: u32,
    /// How long the client waits for the answer to each attempt, ns.
    pub timeout_ns: Ns,
    /// How often it asks again.
    pub retries: u32,
    /// From when an answer is sent to when the client has it, ns.
    pub read_ns: Ns,
    /// Counts requests that were given up.
    pub failed: MetricId,
    /// Counts attempts behind the first ones.
    pub retried: MetricId,
    /// Message that asks again, and how long after the timeout it comes; none if that is not known.
    pub again: Option<(Message, Ns)>,
    /// Consequences of the answer, and of giving up; and when each comes, counted from when the
    /// answer was sent, or would have had to be.
    pub then: Vec<(Then, When)>,
}

/// So long from now, and not before that time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct When {
    /// How long, ns.
    pub after_ns: Ns,
    /// The time, ns; 0 for a client without a schedule.
    pub not_before_ns: Ns,
}

impl When {
    fn at_ns(self, now: Ns) -> Ns {
        now.saturating_add(self.after_ns).max(self.not_before_ns)
    }
}

/// A message whose value is the time when it comes, multiplied by the number of kinds, plus its
/// kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Where it goes.
    pub queue: QueueId,
    /// Number of kinds of the queue's messages.
    pub kinds: u64,
    /// Its kind.
    pub kind: u64,
    /// CPU that takes its interrupt.
    pub cpu: Cpu,
    /// How it comes.
    pub context: ArrivalContext,
}

/// Consequence of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// This request is due.
    Due(PatientId),
    /// This message comes.
    Sends(Message),
}

/// State of a request.
#[derive(Clone, Copy, Debug)]
struct Patient {
    /// How often its client has asked; none when that has given up or has the answer.
    asked: Option<u32>,
    /// How often the service has done what it asks for.
    served: u32,
}

/// Something that happens at a time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// The last moment at which an answer would have come in time.
    Expires(u32),
    AsksAgain(u32),
    /// The consequence of this number of a request.
    Follows(u32, u32),
}

/// State of all clients that do not wait for ever.
#[derive(Clone, Debug, Default)]
pub(super) struct Patience {
    patients: Vec<Patient>,
    /// Events to come, each with its place in the order of entry.
    coming: BinaryHeap<Reverse<(Ns, u64, Happens)>>,
    entered: u64,
    slot: Option<Slot>,
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    /// Clients begin to wait for what is due at a fixed time.
    pub(super) fn begin_patience(&mut self) {
        let shared = std::sync::Arc::clone(&self.shared);
        let workload: &Workload = &shared.workload;
        if workload.patients.is_empty() {
            return;
        }
        self.patience.slot = Some(self.add_source(Source::Patience));
        let fresh = Patient {
            asked: Some(1),
            served: 0,
        };
        self.patience.patients = vec![fresh; workload.patients.len()];
        for (row, spec) in (0u32..).zip(&workload.patients) {
            if let Some(due_ns) = workload.requests[spec.request as usize].due_ns {
                self.expect(row, due_ns);
            }
        }
    }

    fn happens(&mut self, at_ns: Ns, what: Happens) {
        let patience = &mut self.patience;
        patience
            .coming
            .push(Reverse((at_ns, patience.entered, what)));
        patience.entered += 1;
        self.arm_patience();
    }

    fn arm_patience(&mut self) {
        if let (Some(slot), Some(Reverse((at_ns, ..)))) =
            (self.patience.slot, self.patience.coming.peek())
        {
            let key = Key::new((*at_ns).max(self.now), class::ARRIVAL);
            if self.wheel.armed(slot) != Some(key) {
                self.wheel.arm(slot, key);
            }
        }
    }

    /// The client begins to wait for an answer to what is due at this time.
    fn expect(&mut self, row: u32, due_ns: i64) {
        let spec = &self.shared.workload.patients[row as usize];
        let wait_ns = spec.timeout_ns.saturating_sub(spec.read_ns);
        let at_ns = Ns::try_from(due_ns.saturating_add_unsigned(wait_ns)).unwrap_or(0);
        self.happens(at_ns, Happens::Expires(row));
    }

    /// When a request was due; none if it is not yet, or over.
    fn due_ns(&self, row: u32) -> Option<i64> {
        let spec = &self.shared.workload.patients[row as usize];
        let request = &self.shared.workload.requests[spec.request as usize];
        match (self.tasks.words[request.state.0 as usize], request.due_ns) {
            (ANSWERED, _) | (NOT_DUE, None) => None,
            (_, Some(due_ns)) => Some(due_ns),
            (due_ns, None) => Some(due_ns as i64),
        }
    }

    /// A request ends `now`, answered or given up.
    fn end_request(&mut self, now: Ns, row: u32, due_ns: i64) {
        let shared = std::sync::Arc::clone(&self.shared);
        let spec = &shared.workload.patients[row as usize];
        let request = &shared.workload.requests[spec.request as usize];
        self.patience.patients[row as usize].asked = None;
        self.tasks.words[request.state.0 as usize] = ANSWERED;
        let had_ns = now.saturating_add(spec.read_ns) as i64;
        // The work for it may have been run before it was due.
        let latency_ns = u64::try_from(had_ns.saturating_sub(due_ns)).unwrap_or(0);
        for metric in request.metrics() {
            self.probes.record(now, metric.0, latency_ns);
        }
        for (number, (then, when)) in (0u32..).zip(&spec.then) {
            let at_ns = when.at_ns(now);
            match *then {
                Then::Due(next) => {
                    let of = &shared.workload.patients[next.0 as usize];
                    let state = shared.workload.requests[of.request as usize].state.0 as usize;
                    if self.tasks.words[state] == NOT_DUE {
                        self.tasks.words[state] = at_ns;
                        self.expect(next.0, at_ns as i64);
                    }
                }
                Then::Sends(_) => self.happens(at_ns, Happens::Follows(row, number)),
            }
        }
    }

    /// The service has done what a request asks for.
    pub(super) fn serve(&mut self, patient: PatientId) {
        self.patience.patients[patient.0 as usize].served += 1;
    }

    /// The service answers a request.
    pub(super) fn answer(&mut self, now: Ns, patient: PatientId) {
        let Patient { asked, served } = self.patience.patients[patient.0 as usize];
        // What was asked first is answered first.
        let is_last = asked.is_some_and(|asked| served >= asked);
        if let Some(due_ns) = self.answerable_ns(patient.0).filter(|_| is_last) {
            self.end_request(now, patient.0, due_ns);
        }
    }

    /// When a request was due that is answered; the work for it may be done before it is due.
    fn answerable_ns(&self, row: u32) -> Option<i64> {
        let spec = &self.shared.workload.patients[row as usize];
        let request = &self.shared.workload.requests[spec.request as usize];
        match self.tasks.words[request.state.0 as usize] {
            ANSWERED => None,
            // Nobody has asked for it: it counts as answered at once.
            NOT_DUE if request.due_ns.is_none() => Some(i64::MAX),
            _ => self.due_ns(row),
        }
    }

    /// An answer would be late from now on.
    fn expires(&mut self, row: u32) {
        let (now, shared) = (self.now, std::sync::Arc::clone(&self.shared));
        let spec = &shared.workload.patients[row as usize];
        let Some((asked, due_ns)) = self.patience.patients[row as usize]
            .asked
            .zip(self.due_ns(row))
        else {
            return;
        };
        let again = spec.again.filter(|_| asked <= spec.retries);
        let Some((_, after_ns)) = again else {
            self.probes.count(now, spec.failed.0, 1);
            self.end_request(now, row, due_ns);
            return;
        };
        self.patience.patients[row as usize].asked = Some(asked + 1);
        self.probes.count(now, spec.retried.0, 1);
        let at_ns = now + spec.read_ns + after_ns;
        self.happens(at_ns, Happens::AsksAgain(row));
        self.happens(now.saturating_add(spec.timeout_ns), Happens::Expires(row));
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// The first of what clients do by themselves.
    pub(super) fn lose_patience(&mut self) -> Run<()> {
        let Some(Reverse((_, _, what))) = self.out.patience.coming.pop() else {
            return Ok(());
        };
        self.out.arm_patience();
        let patients = &self.out.shared.workload.patients;
        let message = match what {
            Happens::Expires(row) => {
                self.out.expires(row);
                None
            }
            Happens::AsksAgain(row) => patients[row as usize].again.map(|(message, _)| message),
            Happens::Follows(row, number) => match patients[row as usize].then[number as usize].0 {
                Then::Sends(message) => Some(message),
                Then::Due(_) => None,
            },
        };
        let Some(message) = message else {
            return Ok(());
        };
        let at_ns = self.out.now;
        self.arrives(Arrival {
            at_ns,
            cpu: message.cpu,
            context: message.context,
            sync: false,
            action: ArrivalAction::Send {
                queue: message.queue,
                bytes: 1,
                value: at_ns.saturating_mul(message.kinds) + message.kind,
            },
        })
    }
}
