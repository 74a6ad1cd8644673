//! Threads that do their activations in the recorded order.
//!
//! Such a thread counts the messages it has taken, and the count selects the next activation,
//! whatever the message is. Threads of a job that is alone do so, and so do threads that a service
//! makes for each connection: such a thread has one sequence of work, in which the threads that
//! release locks wake it. If each message began its recorded activation, the thread could end
//! before it has released a lock that another thread waits for.
//!
//! # Worked example
//!
//! A thread is forked, waits for a lock that thread A releases, and ends when a timer wakes it. In
//! the replay the timer comes first. Its message begins the activation behind the lock, and A's
//! message begins the last one.

use super::super::Replay;
use super::super::model::Step;
use super::super::threads::{Origin, ThreadId};
use super::MESSAGE;
use super::units::{Unit, under_way};
use crate::registers::registers;
use schedcast_sim::{Compare, ProgramBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// A thread that makes fewer threads that end than this may have made workers, which serve many
/// connections each.
const MADE_MIN: usize = 20;

// Behind those of `services`.
registers! { 14;
    /// Number of the next activation.
    NEXT
}

/// The threads.
pub(super) struct InOrder(BTreeSet<ThreadId>);

impl InOrder {
    pub(super) fn of(replay: &Replay) -> Self {
        let alone = replay.jobs.iter().filter(|job| job.is_alone);
        let mut all: BTreeSet<ThreadId> = alone.flat_map(|job| job.threads.clone()).collect();
        let members = replay.services.iter().map(|one| replay.members(one.group));
        let members: BTreeSet<ThreadId> = members.flatten().collect();
        let mut made: BTreeMap<ThreadId, Vec<ThreadId>> = BTreeMap::new();
        for id in &members {
            let last = replay.activations_of(*id).last();
            let ends = last.is_some_and(|last| replay.steps_of(last).contains(&Step::Exit));
            if let Origin::Fork(parent) = replay.threads[id.index()].origin
                && ends
                && members.contains(&parent)
            {
                made.entry(parent).or_default().push(*id);
            }
        }
        let many = made.into_values().filter(|made| made.len() >= MADE_MIN);
        all.extend(many.flatten());
        Self(all)
    }

    /// Whether the messages of a unit begin its activations one after the other.
    fn has(&self, unit: &Unit) -> bool {
        matches!(unit.threads[..], [thread] if self.0.contains(&thread))
    }

    /// Emits which activation the first message begins.
    pub(super) fn number(&self, b: &mut ProgramBuilder, replay: &Replay, unit: &Unit) {
        if self.has(unit) {
            b.set(
                NEXT,
                u64::from(under_way(replay, unit.threads[0]).is_some()),
            );
        }
    }

    /// Emits that the message begins the next activation, unless it opens a gate.
    pub(super) fn renumber(&self, b: &mut ProgramBuilder, replay: &Replay, unit: &Unit) {
        if self.has(unit) {
            let activations = unit.activations(replay).count() as u64;
            b.unless(MESSAGE, Compare::GreaterOrEqual, activations, |b| {
                b.set(MESSAGE, NEXT);
                b.add(NEXT, 1);
            });
        }
    }
}
