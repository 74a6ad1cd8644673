//! Threads that do their activations in the recorded order.
//!
//! Such a thread counts the messages it has taken, and the count selects the next activation,
//! whatever the message is. Threads of a job that is alone do so, and so do threads that a service
//! makes for each connection: such a thread has one sequence of work, in which the threads that
//! release locks wake it. If each message began its recorded activation, the thread could end
//! before it has released a lock that another thread waits for.
//!
//! A message that comes while the thread waits at a gate begins nothing yet: behind the gate lies
//! the rest of the activation before. The thread counts such messages as owed, and begins their
//! activations when it has no other one to end.
//!
//! # Worked example
//!
//! A thread is forked, waits for a lock that thread A releases, and ends when a timer wakes it. In
//! the replay the timer comes first. Its message begins the activation behind the lock, and A's
//! message begins the last one. If the thread waits at a gate for A when the timer comes, the last
//! activation is owed: A's message opens the gate, and the thread ends after what lies behind it.

use super::super::Replay;
use super::super::model::Step;
use super::super::threads::{Origin, ThreadId};
use super::MESSAGE;
use super::units::{Unit, under_way};
use crate::registers::registers;
use schedcast_sim::program::Label;
use schedcast_sim::{Compare, ProgramBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// A thread that makes fewer threads that end than this may have made workers, which serve many
/// connections each.
const MADE_MIN: usize = 20;

// Behind those of `services`.
registers! { 14;
    /// Number of the next activation.
    NEXT
    /// Messages whose activations have not begun.
    OWED
    /// 1 while an activation waits at a gate.
    HELD
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

    /// Whether a thread does its activations in the recorded order.
    pub(super) fn contains(&self, thread: ThreadId) -> bool {
        self.0.contains(&thread)
    }

    /// Whether the messages of a unit begin its activations one after the other.
    fn has(&self, unit: &Unit) -> bool {
        matches!(unit.threads[..], [thread] if self.contains(thread))
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

    /// Emits that the message begins the next activation, unless it opens a gate. While an
    /// activation is held, the thread jumps to `wait`.
    pub(super) fn renumber(
        &self,
        b: &mut ProgramBuilder,
        replay: &Replay,
        unit: &Unit,
        [wait, begins]: [Label; 2],
    ) {
        if self.has(unit) {
            let activations = unit.activations(replay).count() as u64;
            let opens_gate = b.label();
            b.jump_if(MESSAGE, Compare::GreaterOrEqual, activations, opens_gate);
            b.add(OWED, 1);
            b.jump_if(HELD, Compare::NotEqual, 0, wait);
            b.bind(begins);
            b.subtract(OWED, 1);
            b.set(MESSAGE, NEXT);
            b.add(NEXT, 1);
            b.bind(opens_gate);
        }
    }

    /// Emits that the thread jumps to `begins` instead of taking a message if it owes an
    /// activation.
    pub(super) fn begin_owed(&self, b: &mut ProgramBuilder, unit: &Unit, begins: Label) {
        if self.has(unit) {
            let takes = b.label();
            b.jump_if(HELD, Compare::NotEqual, 0, takes);
            b.jump_if(OWED, Compare::NotEqual, 0, begins);
            b.bind(takes);
        }
    }

    /// Emits that an activation of this thread begins to wait, or goes on.
    pub(super) fn hold(&self, b: &mut ProgramBuilder, thread: ThreadId, is_held: bool) {
        if self.contains(thread) {
            b.set(HELD, u64::from(is_held));
        }
    }
}
