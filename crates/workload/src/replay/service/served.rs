//! Services, their requests, and what follows a reply.

use super::super::groups::GroupIndex;
use super::super::subject;
use super::super::threads::ThreadId;
use super::{Rounds, Told};

/// Index into [`super::super::Replay::requests`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// As a table index.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group that serves clients outside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The group.
    pub group: GroupIndex,
    /// Subject of the threads that reply; its figures are the service's.
    pub subject: String,
    /// Threads that send the requests.
    pub clients: Vec<ThreadId>,
    /// Kinds of clients, if there are several.
    pub kinds: Vec<Kind>,
    /// Bound of the requests that are under way at once.
    pub bound: Bound,
    /// The messages that are one request.
    pub dialogue: Dialogue,
    /// The clients' timers count whole milliseconds: the due times of requests within the last
    /// millisecond are drawn.
    pub coarse_timers: bool,
    /// Its event loop, if that answers in [rounds](super::rounds).
    pub rounds: Option<Rounds>,
}

/// Clients of one kind: see [`super::kinds`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Subject of the figures of their requests: `node from ab`.
    pub subject: String,
    /// Their name: `ab`.
    pub name: String,
    /// Bound of their requests that are under way at once.
    pub bound: Bound,
    /// The messages that are one request.
    pub dialogue: Dialogue,
}

/// The messages of a client and their replies that are one request to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialogue {
    /// One message and its reply.
    #[default]
    None,
    /// All messages of a connection, which clients make anew for each request.
    Connection,
    /// Most often this many, one after the other, on a connection that is kept: a transaction.
    Messages(u32),
}

/// Bound of the requests of a service that are under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// None: clients ask by their schedule, even while earlier replies are missing.
    None,
    /// The number of connections of a closed loop.
    Connections(u32),
    /// The number of clients that keep a schedule and have one request at a time under way each.
    Clients(u32),
}

impl Bound {
    /// Bound of all clients together. One kind without a bound has as many requests under way as
    /// become due.
    pub(super) fn of_all(kinds: &[Bound]) -> Bound {
        let add = |all: Bound, one: &Bound| match (all, one) {
            (Bound::Connections(all), Bound::Connections(one)) => Bound::Connections(all + one),
            (Bound::Clients(all), Bound::Clients(one) | Bound::Connections(one))
            | (Bound::Connections(all), Bound::Clients(one)) => Bound::Clients(all + one),
            (Bound::None, _) | (_, Bound::None) => Bound::None,
        };
        let [first, others @ ..] = kinds else {
            return Bound::None;
        };
        others.iter().fold(*first, add)
    }
}

impl Kind {
    /// Whether as many of their requests are under way as become due.
    pub fn is_unbound(&self) -> bool {
        self.bound == Bound::None
    }

    /// The kinds of clients of a service, if there are several.
    pub(super) fn of(told: &[Told], bounds: &[Bound]) -> Vec<Self> {
        let kinds = told.iter().zip(bounds).map(|(one, bound)| Self {
            subject: subject::of_clients(&one.server, &one.client),
            name: one.client.clone(),
            bound: *bound,
            dialogue: one.dialogue,
        });
        if told.len() > 1 {
            kinds.collect()
        } else {
            Vec::new()
        }
    }
}

/// The time of something that follows the reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows {
    /// The request.
    pub request: RequestId,
    /// How long after its reply.
    pub after_ns: u64,
    /// Not earlier than this, if its client keeps a schedule; else 0.
    pub not_before_ns: u64,
}

impl Follows {
    /// The same, this much later.
    pub(super) fn moved(self, by_ns: i64) -> Self {
        let moved = |ns: u64| ns.saturating_add_signed(by_ns);
        Self {
            after_ns: moved(self.after_ns),
            not_before_ns: match self.not_before_ns {
                0 => 0,
                ns => moved(ns),
            },
            ..self
        }
    }
}

/// One request of a service, or one message of it and its reply. Times are ns since the start of
/// the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its service, an index into [`super::super::Replay::services`].
    pub service: u32,
    /// Kind of its client, an index into [`Service::kinds`] if that has any.
    pub kind: u32,
    /// When it was to be sent; negative before the recording.
    pub due_ns: i64,
    /// When it reaches the service.
    pub arrives_ns: u64,
    /// From its reply to when its client has it.
    pub read_ns: u64,
    /// From when the request was due to when its client had the reply, in the recording.
    pub latency_ns: u64,
    /// In a closed loop, and for clients with one request at a time: when it is due.
    pub follows: Option<Follows>,
    /// Whether another thread does the work, and the replying thread waits for it.
    pub is_handed: bool,
    /// The first message of the request that it is a later message of. It is due when that was.
    pub first: Option<RequestId>,
    /// Another message of the same request follows its reply.
    pub goes_on: bool,
    /// Its reply comes at least so long after its arrival, whatever the limit: the thread that
    /// replies waits for later requests first, as it answered these first in the recording.
    pub behind_ns: u64,
}
