//! How requests of services wait for their arrival and end.

use super::super::Replay;
use super::super::service::{RequestId, Served};
use super::SEND;
use schedcast_sim::workload::MetricId;
use schedcast_sim::{Compare, ProgramBuilder, Workload};

/// Where the figures of services go.
pub(super) struct Services {
    /// Per service: from when a request is due to when its client has the reply.
    latency: Vec<MetricId>,
}

impl Services {
    pub(super) fn new(replay: &Replay, workload: &mut Workload) -> Self {
        let services = replay.services.iter();
        let latency = services
            .map(|one| workload.add_metric(&format!("{}/request_latency", one.subject)))
            .collect();
        Self { latency }
    }

    /// Goes on when the request has arrived: at once, if it has.
    pub(super) fn wait(&self, b: &mut ProgramBuilder, requests: &[Served], request: RequestId) {
        let [now, rest, _] = SEND;
        let arrives_ns = requests[request.index()].arrives_ns;
        let here = b.label();
        b.now(now);
        b.jump_if(now, Compare::GreaterOrEqual, arrives_ns, here);
        b.set(rest, arrives_ns);
        b.subtract(rest, now);
        b.io(rest);
        b.bind(here);
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
