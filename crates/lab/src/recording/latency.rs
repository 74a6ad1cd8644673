//! Names of latencies: of whose, from when to when.

use crate::metrics;

/// A latency of the threads that do a service's work, or how long a job takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Name of the threads.
    pub threads: String,
    /// [`Latency::REQUEST`], [`Latency::REPLY`], [`Latency::ACTIVATION`] or [`Latency::JOB`].
    pub name: &'static str,
}

impl Latency {
    /// From when a request is due to its answer.
    pub const REQUEST: &'static str = "request_latency";
    /// From a message to the reply.
    pub const REPLY: &'static str = "reply_latency";
    /// From a thread's wakeup to its next block.
    pub const ACTIVATION: &'static str = "activation_latency";

    /// From a job's first start to its last exit: one value.
    pub const JOB: &'static str = metrics::TIME;

    /// The latency `name` of `threads`.
    pub fn new(threads: &str, name: &'static str) -> Latency {
        let threads = threads.to_string();
        Latency { threads, name }
    }

    /// The full name of a value of it: `postgres/request_latency.p99` for `p99`. All percentiles of
    /// a job are its only value.
    pub fn metric(&self, suffix: &str) -> String {
        if self.is_job() && suffix.starts_with('p') {
            return format!("{}/{}", self.threads, self.name);
        }
        format!("{}/{}.{suffix}", self.threads, self.name)
    }

    /// Whether it is the time of a job.
    pub fn is_job(&self) -> bool {
        self.name == Latency::JOB
    }

    /// Whether it is what clients see, or whoever waits for a job.
    pub(crate) fn is_seen_by_clients(&self) -> bool {
        self.name != Latency::ACTIVATION
    }

    /// Unit that the latency times, in the plural.
    pub fn counted(&self) -> &'static str {
        match self.name {
            Latency::REQUEST => "requests",
            Latency::REPLY => "replies",
            Latency::JOB => "jobs",
            _ => "activations",
        }
    }
}
