//! Levels: the earliest time at which a part of the service's work can begin, whatever the limit.
//!
//! # Worked example
//!
//! A request arrives at 10 ms and begins an activation of a proxy, which asks its backend. The
//! level of the proxy's part, of the message and of the backend's activation is 10 ms, by that
//! request. A part of the proxy that was executed at 90 ms had been held back by the limit.

use super::super::activity::{Draft, DraftStep};
use super::super::threads::ThreadId;
use super::{RequestId, Served};
use std::collections::BTreeMap;

/// Earliest time of something under any limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level {
    pub(super) at_ns: u64,
    /// The request, by its place in the list of those asked, whose arrival leads to it.
    pub(super) asked: Option<usize>,
}

impl Level {
    /// A level that no known request leads to.
    pub(super) fn at(at_ns: u64) -> Self {
        Self { at_ns, asked: None }
    }
}

/// Levels of the drafts that were woken earlier.
#[derive(Default)]
pub(super) struct Levels {
    /// By draft: the request whose message began it.
    pub(super) of_entry: BTreeMap<usize, usize>,
    /// By waking.
    pub(super) of_waking: BTreeMap<usize, Level>,
    /// By draft: its end.
    pub(super) of_end: BTreeMap<usize, Level>,
    /// By draft that begins so long after another one of its thread: that one.
    pub(super) tied: BTreeMap<usize, usize>,
    /// By child: when its parent forks it.
    pub(super) of_fork: BTreeMap<ThreadId, Level>,
    /// Requests that are replied to when another thread has done the work.
    pub(super) handed: Vec<RequestId>,
}

/// By draft that begins so long after an earlier one of its thread: that one.
pub(super) fn tied(drafts: &[Draft]) -> BTreeMap<usize, usize> {
    let all = drafts.iter().enumerate().flat_map(|(index, draft)| {
        draft.deeds.iter().filter_map(move |(_, step)| match step {
            DraftStep::Later(to) => Some((*to, index)),
            _ => None,
        })
    });
    all.collect()
}

impl Levels {
    /// Notes what a draft passes on. `changes` are the levels of its parts, each with where it
    /// begins.
    pub(super) fn pass_on(&mut self, index: usize, draft: &Draft, changes: &[(u64, Level)]) {
        for (into_ns, waking) in draft.wakes() {
            let reached = changes.partition_point(|(from_ns, _)| *from_ns <= into_ns);
            self.of_waking.insert(waking, changes[reached.max(1) - 1].1);
        }
        let last = changes.last().map_or(Level::at(0), |(_, level)| *level);
        self.of_end.insert(index, last);
    }
}

/// Where a draft waits for the arrival of requests.
pub(super) struct Gates {
    /// That of the part under way.
    pub(super) level: Level,
    /// The levels of the parts so far, each with where it begins.
    pub(super) changes: Vec<(u64, Level)>,
    pub(super) steps: Vec<(u64, DraftStep)>,
}

impl Gates {
    pub(super) fn of(level: Level) -> Self {
        Self {
            level,
            changes: vec![(0, level)],
            steps: Vec::new(),
        }
    }

    /// Whether a request may arrive after the part under way could begin.
    pub(super) fn is_later(&self, request: &Served) -> bool {
        request.arrives_ns > self.level.at_ns || request.follows.is_some()
    }

    /// Whatever lies behind `gate_ns` waits for the request at place `asked`.
    pub(super) fn wait(&mut self, gate_ns: u64, id: RequestId, request: &Served, asked: usize) {
        self.level = Level {
            at_ns: self.level.at_ns.max(request.arrives_ns),
            asked: Some(asked),
        };
        self.changes.push((gate_ns, self.level));
        self.steps.push((gate_ns, DraftStep::Awaits(id)));
    }
}
