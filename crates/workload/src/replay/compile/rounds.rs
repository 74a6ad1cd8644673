//! Event loops that answer in rounds.
//!
//! Such a loop (see `service::rounds`) keeps a list of the requests it has executed. Before it
//! takes a message that was sent after the round began, or one more than there are connections, or
//! goes to sleep, it answers them all:
//!
//! ```text
//!   wait:  take the oldest message                none: jump flush, then sleep for the next
//!          if it was sent after the round began: jump flush, then begin a round
//!          jump to its handler
//!   h0:    work 600 µs, put request 0 on the list
//!          jump wait
//! ```

use super::super::Replay;
use super::super::model::Step;
use super::super::service::{RequestId, Rounds};
use super::super::threads::ThreadId;
use super::{Compiler, MESSAGE, SEND, SINCE};
use crate::registers::registers;
use schedcast_sim::program::Label;
use schedcast_sim::workload::{QueueId, WordId};
use schedcast_sim::{Arithmetic, Compare, ProgramBuilder, Workload};
use std::collections::BTreeMap;

/// Word of a request that is not on the list of those that the round has executed.
const NOT_LISTED: u64 = u32::MAX as u64;

registers! { 10;
    /// The latest request that the round has executed and not answered: its place in the list plus
    /// 1, or 0 for none.
    EXECUTED
    /// When the round began.
    ROUND
    /// Requests executed in it.
    COUNT
    /// Whether a message was taken that belongs to the next round.
    TAKEN
}

/// An event loop that answers in rounds.
pub(super) struct Looping {
    at_most: u32,
    /// The requests it answers, each with a word for the one executed before it, as [`EXECUTED`].
    answers: Vec<(RequestId, WordId)>,
    /// Their places.
    places: BTreeMap<RequestId, usize>,
}

impl Looping {
    pub(super) fn new(replay: &Replay, rounds: Rounds, workload: &mut Workload) -> Self {
        let unlisted = replay.patience.map_or(0, |_| NOT_LISTED);
        let own = replay.activations_of(rounds.thread).iter();
        let answers: Vec<(RequestId, WordId)> = own
            .flat_map(|activation| replay.steps_of(activation))
            .filter_map(|step| match step {
                Step::Reply(request) => Some((*request, workload.add_word(unlisted))),
                _ => None,
            })
            .collect();
        let places = answers.iter().enumerate();
        Self {
            at_most: rounds.at_most.max(1),
            places: places.map(|(place, (id, _))| (*id, place)).collect(),
            answers,
        }
    }
}

impl Compiler<'_> {
    /// Whether a thread replies to a request at the end of its round.
    pub(super) fn is_of_round(&self, thread: ThreadId, request: RequestId) -> bool {
        let looping = self.services.looping.get(&thread);
        looping.is_some_and(|looping| looping.places.contains_key(&request))
    }

    /// A thread has finished a request: it answers, at once or at the end of its round.
    pub(super) fn executed(&self, b: &mut ProgramBuilder, thread: ThreadId, request: RequestId) {
        if let Some(patient) = self.services.patient(request) {
            b.serve(patient);
        }
        let of_round = self.services.looping.get(&thread);
        let place =
            of_round.and_then(|looping| looping.places.get(&request).map(|at| (looping, *at)));
        let Some((looping, place)) = place else {
            self.answer(b, request);
            return;
        };
        let before = looping.answers[place].1;
        let list = |b: &mut ProgramBuilder| {
            b.word_store(before, EXECUTED);
            b.set(EXECUTED, place as u64 + 1);
        };
        match self.services.patients {
            // It may have been asked twice in one round.
            Some(_) => {
                let [value, ..] = SEND;
                b.word_load(before, value);
                b.unless(value, Compare::NotEqual, NOT_LISTED, list);
            }
            None => list(b),
        }
        b.add(COUNT, 1);
    }

    /// Takes the next message of a thread that answers in rounds, from its inbox; `messages` is how
    /// many kinds of them it has. Returns whether it is such a thread.
    pub(super) fn take_in_rounds(
        &self,
        b: &mut ProgramBuilder,
        thread: ThreadId,
        inbox: QueueId,
        messages: u64,
    ) -> bool {
        let Some(looping) = self.services.looping.get(&thread) else {
            return false;
        };
        let [empty, next, flush, take] = [(); 4].map(|()| b.label());
        b.try_recv(inbox, MESSAGE, empty);
        b.set(SINCE, MESSAGE);
        b.arithmetic(Arithmetic::Divide, SINCE, messages);
        b.jump_if(SINCE, Compare::Greater, ROUND, next);
        b.jump_if(COUNT, Compare::Less, u64::from(looping.at_most), take);
        b.bind(next);
        b.set(TAKEN, 1);
        b.jump(flush);
        b.bind(empty);
        b.set(TAKEN, 0);
        b.bind(flush);
        let done = b.label();
        let replies: Vec<Label> = looping.answers.iter().map(|_| b.label()).collect();
        let table: Vec<Label> = std::iter::once(done).chain(replies.clone()).collect();
        b.jump_indexed(EXECUTED, &table);
        for (reply, (request, before)) in replies.iter().zip(&looping.answers) {
            b.bind(*reply);
            b.word_load(*before, EXECUTED);
            if self.services.patients.is_some() {
                b.word_store(*before, NOT_LISTED);
            }
            self.answer(b, *request);
            b.jump(flush);
        }
        b.bind(done);
        b.set(COUNT, 0);
        b.unless(TAKEN, Compare::Equal, 1, |b| {
            b.recv(inbox, MESSAGE);
        });
        b.now(ROUND);
        b.bind(take);
        true
    }
}
