//! Stationary workloads: services described by numbers instead of events.
//!
//! A [`Service`] is a pool of threads that take requests. Where a [replay](crate::replay) does what
//! one recording shows, request by request, a service draws: when the next request comes, how much
//! CPU time it needs, whether it waits for a device. So it can be run longer than it was recorded,
//! faster, slower, and with other numbers of threads; what it loses is everything that is not in
//! its numbers, such as requests that are expensive together.
//!
//! [`Profile::distil`] makes services of a replay; [`Service::compile`] makes programs of a
//! service.
//!
//! # Worked example
//!
//! `recordings/postgres-quota`: 1170 requests in 29.5 s are 39.7 a second. The gaps between their
//! schedules have mean 25.2 ms and nearly the same standard deviation: they are `Poisson`. Eight
//! threads took them; half of the requests need less than 9.8 ms of CPU time. Twice the rate are
//! gaps of 12.6 ms.

mod compile;
mod distil;
#[cfg(test)]
mod tests;

pub use compile::Placed;
pub use distil::{Distilled, Profile};

/// Threads that take requests from one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// How many threads; the demand is split over them.
    pub threads: u32,
    /// When requests come.
    pub arrivals: Arrivals,
    /// Pieces that a request is cut into; each goes to a thread, the last answer ends it.
    pub fan_out: u32,
    /// CPU time of a piece: quantiles at equal steps of probability, ascending, in ns.
    pub work_ns: Vec<u64>,
    /// Waits for devices.
    pub io: Option<Io>,
    /// Client of the service; `None`: requests come with interrupts.
    pub client: Option<Client>,
    /// Nice value of the threads.
    pub nice: i32,
    /// Threads of the kernel: never throttled, no address space.
    pub kernel: bool,
}

/// When requests come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Whatever became of the requests before.
    Open {
        /// Mean time between two requests, ns.
        mean_gap_ns: u64,
        /// How gaps differ.
        gaps: Gaps,
    },
    /// Each client asks again after an answer and a pause.
    Closed {
        /// How many clients.
        clients: u32,
        /// Pause: quantiles at equal steps of probability, ascending, in ns.
        think_ns: Vec<u64>,
    },
}

/// How the gaps between requests differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gaps {
    /// Exponential: requests know nothing of each other.
    Poisson,
    /// All of the same length.
    Even,
    /// Quantiles at equal steps of probability, ascending, in millionths of the mean.
    Quantiles(Vec<u64>),
}

/// Waits of a request for devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// Waits a request, in millionths: 250,000 is one wait in every fourth request.
    pub per_million: u64,
    /// Length of a wait: quantiles at equal steps of probability, ascending, in ns.
    pub wait_ns: Vec<u64>,
}

/// Client of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name in metrics.
    pub name: String,
    /// CPU time it uses for a request, half of it before sending, ns.
    pub work_ns: u64,
}

const MILLION: u64 = 1_000_000;
