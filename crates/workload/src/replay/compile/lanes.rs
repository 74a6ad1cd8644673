//! Replies of threads that reply when other threads have done the work.
//!
//! A client that waits for its reply before it asks again has a *lane*: its requests, one after the
//! other. An event loop that hands requests to workers, and replies when they are done, handles
//! them under another limit in another order than recorded. It replies to the request of the lane
//! that is under way, not to the recorded one. So a lane never has two requests under way, and none
//! waits for a reply that went to another request.
//!
//! ```text
//!   h7:      work 100 µs                              the loop, woken by a worker
//!            LANE := 3, RETURN := 0, jump replies     it replied to a request of lane 3 here
//!   back0:   jump wait
//!   replies: jump to lane LANE
//!   lane3:   jump to the request of word 3            how many of it are answered
//!   request: reply, the client asks again             word 3 := its place + 1
//!            jump to back RETURN
//! ```

use super::super::model::Step;
use super::super::service::RequestId;
use super::super::{Replay, threads::ThreadId};
use super::{Compiler, SEND};
use crate::registers::registers;
use schedcast_sim::program::Label;
use schedcast_sim::workload::WordId;
use schedcast_sim::{ProgramBuilder, Workload};
use std::collections::{BTreeMap, BTreeSet};

registers! { 20;
    /// Lane of the request that is replied to.
    LANE
    /// Where the program goes on then.
    RETURN
}

/// Most replies in lanes of all programs, where each program has those of all requests: at 450
/// bytes each they take 90 MB. With more, every thread replies to the recorded requests.
const REPLIES_MAX: usize = 200_000;

/// The lanes in which threads reply when others have done the work.
#[derive(Default)]
pub(super) struct Lanes {
    /// By request: its lane, and its place in that.
    of: BTreeMap<RequestId, (usize, usize)>,
    all: Vec<Lane>,
}

struct Lane {
    requests: Vec<RequestId>,
    /// How many of them are answered.
    answered: WordId,
}

impl Lanes {
    pub(super) fn of(replay: &Replay, workload: &mut Workload) -> Self {
        let mut lanes = Self::default();
        let replying: BTreeSet<ThreadId> = replay
            .activations
            .iter()
            .filter(|one| {
                let mut steps = replay.steps_of(one).iter();
                steps.any(|step| matches!(step, Step::Reply(_)))
            })
            .map(|one| one.thread)
            .collect();
        if replying.len() * replay.requests.len() > REPLIES_MAX {
            return lanes;
        }
        let served = |id: RequestId| &replay.requests[id.index()];
        let follower: BTreeMap<RequestId, RequestId> = (0u32..)
            .map(RequestId)
            .zip(&replay.requests)
            .filter_map(|(id, one)| Some((one.follows?.request, id)))
            .collect();
        let ids = (0..replay.requests.len() as u32).map(RequestId);
        for first in ids.filter(|id| served(*id).follows.is_none()) {
            let next = |id: &RequestId| follower.get(id).copied();
            let requests: Vec<RequestId> = std::iter::successors(Some(first), next).collect();
            if !requests.iter().any(|id| served(*id).is_handed) {
                continue;
            }
            for (place, id) in requests.iter().enumerate() {
                lanes.of.insert(*id, (lanes.all.len(), place));
            }
            let answered = workload.add_word(0);
            lanes.all.push(Lane { requests, answered });
        }
        lanes
    }

    /// A request is answered.
    pub(super) fn advance(&self, b: &mut ProgramBuilder, request: RequestId) {
        if let Some((lane, place)) = self.of.get(&request) {
            b.word_store(self.all[*lane].answered, *place as u64 + 1);
        }
    }
}

/// The replies of one program in such lanes.
pub(super) struct Handed {
    replies: Label,
    back: Vec<Label>,
    /// Lanes that are replied in.
    lanes: BTreeSet<usize>,
}

impl Handed {
    pub(super) fn new(b: &mut ProgramBuilder) -> Self {
        Self {
            replies: b.label(),
            back: Vec::new(),
            lanes: BTreeSet::new(),
        }
    }
}

impl Compiler<'_> {
    /// Emits a reply.
    pub(super) fn reply(
        &self,
        b: &mut ProgramBuilder,
        thread: ThreadId,
        request: RequestId,
        handed: &mut Handed,
    ) {
        let lane = self.services.lanes.of.get(&request);
        let Some((lane, _)) = lane.filter(|_| !self.is_of_round(thread, request)) else {
            self.executed(b, thread, request);
            return;
        };
        handed.lanes.insert(*lane);
        let back = b.label();
        b.set(LANE, *lane as u64);
        b.set(RETURN, handed.back.len() as u64);
        b.jump(handed.replies);
        b.bind(back);
        handed.back.push(back);
    }

    /// Emits where the replies of a program go.
    pub(super) fn replies(&self, b: &mut ProgramBuilder, handed: &Handed) {
        b.bind(handed.replies);
        if handed.back.is_empty() {
            return;
        }
        let [answered, ..] = SEND;
        let back = b.label();
        let all = &self.services.lanes.all;
        let label = |lane: usize| match handed.lanes.contains(&lane) {
            true => b.label(),
            false => back,
        };
        let lanes: Vec<Label> = (0..all.len()).map(label).collect();
        b.jump_indexed(LANE, &lanes);
        for number in &handed.lanes {
            let (label, lane) = (&lanes[*number], &all[*number]);
            let requests: Vec<Label> = lane.requests.iter().map(|_| b.label()).collect();
            b.bind(*label);
            b.word_load(lane.answered, answered);
            b.jump_indexed(answered, &requests);
            b.jump(back);
            for (label, request) in requests.iter().zip(&lane.requests) {
                b.bind(*label);
                if let Some(patient) = self.services.patient(*request) {
                    b.serve(patient);
                }
                self.answer(b, *request);
                b.jump(back);
            }
        }
        b.bind(back);
        b.jump_indexed(RETURN, &handed.back);
    }
}
