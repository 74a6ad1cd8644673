//! How requests of services wait for their arrival and end.
//!
//! An activation that waits for an arrival must not keep its thread from what comes meanwhile: where
//! it waits it is cut, at a *gate*. A thread that reaches a gate after the arrival goes on. Before it,
//! it leaves word and takes the next message. The arrival is a message of its own, and goes on behind
//! the gate if somebody left word there.
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
use super::super::model::Step;
use super::super::service::{RequestId, Served};
use super::super::threads::ThreadId;
use super::SEND;
use schedcast_sim::program::Label;
use schedcast_sim::workload::{MetricId, WordId};
use schedcast_sim::{Compare, ProgramBuilder, Workload};
use std::collections::BTreeMap;

/// A thread has not come to the gate, or has passed it.
const PASSED: u64 = 0;
/// The activation goes on when the request arrives.
const WAITING: u64 = 1;

/// A place in an activation that is not passed before a request has arrived.
pub(super) struct Gate {
    pub at_ns: u64,
    word: WordId,
}

/// Where the figures of services go, and the gates.
pub(super) struct Services {
    /// Per service: from when a request is due to when its client has the reply.
    latency: Vec<MetricId>,
    /// By thread, in the order of its steps.
    gates: BTreeMap<ThreadId, Vec<Gate>>,
}

impl Services {
    pub(super) fn new(replay: &Replay, workload: &mut Workload) -> Self {
        let services = replay.services.iter();
        let latency = services
            .map(|one| workload.add_metric(&format!("{}/request_latency", one.subject)))
            .collect();
        let mut gates: BTreeMap<ThreadId, Vec<Gate>> = BTreeMap::new();
        for activation in &replay.activations {
            for step in replay.steps_of(activation) {
                if let Step::Await(request) = step {
                    gates.entry(activation.thread).or_default().push(Gate {
                        at_ns: replay.requests[request.index()].arrives_ns,
                        word: workload.add_word(PASSED),
                    });
                }
            }
        }
        Self { latency, gates }
    }

    /// The gates of a thread, in the order of its steps.
    pub(super) fn gates_of(&self, thread: ThreadId) -> &[Gate] {
        self.gates.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// The reply is sent, and read after as long as in the recording.
    pub(super) fn reply(&self, b: &mut ProgramBuilder, requests: &[Served], request: RequestId) {
        let [latency, ..] = SEND;
        let served = &requests[request.index()];
        let metric = self.latency[served.service as usize];
        let due_ns = served.due_ns.saturating_sub_unsigned(served.read_ns);
        b.now(latency);
        match u64::try_from(due_ns) {
            Ok(since_ns) => b.subtract(latency, since_ns),
            Err(_) => b.add(latency, due_ns.unsigned_abs()),
        }
        b.record(metric, latency);
    }
}

impl Gate {
    /// Goes on if the request is there, else leaves word and takes the next message. `arrival` becomes
    /// where the message of the arrival is handled.
    pub(super) fn pass(&self, b: &mut ProgramBuilder, arrival: Label, wait: Label) {
        let [value, ..] = SEND;
        let behind = b.label();
        b.now(value);
        b.jump_if(value, Compare::GreaterOrEqual, self.at_ns, behind);
        b.word_store(self.word, WAITING);
        b.jump(wait);
        b.bind(arrival);
        b.word_load(self.word, value);
        b.jump_if(value, Compare::NotEqual, WAITING, wait);
        b.bind(behind);
        b.word_store(self.word, PASSED);
    }
}
