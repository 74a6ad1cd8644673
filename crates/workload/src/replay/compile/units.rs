//! Which threads share a program, and how their messages are numbered.
//!
//! A unit is one thread, or the servers of a pool. Its messages are numbered through: the
//! activations of its first thread, those of its second, …, then the schedules of a client's
//! exchanges, the messages that open gates (see `services`), and at the end the retries (see
//! `again`).

use super::super::Replay;
use super::super::model::{ActivationId, HandoverId, Step, Trigger};
use super::super::threads::ThreadId;
use super::again::Agains;
use schedcast_sim::workload::ProgramId;
use std::collections::BTreeSet;

/// Threads that share a program.
pub(super) struct Unit {
    pub threads: Vec<ThreadId>,
    pub program: ProgramId,
    /// Number of messages.
    pub messages: u64,
    /// Number of the first of those that open gates.
    pub first_gate: u64,
    /// Number of the first of those that ask again; they are the last ones.
    pub first_again: u64,
}

/// All units.
pub(super) struct Units {
    pub all: Vec<Unit>,
    /// Unit of each thread, and the number of the thread's first activation there.
    of_thread: Vec<Option<(usize, u64)>>,
    /// Unit without threads, for those that do nothing.
    none: Unit,
}

impl Units {
    /// Puts threads together. Programs are numbered from `first_program` in the order of the units.
    /// `loose` are the waits for other threads that are gates.
    pub(super) fn new(
        replay: &Replay,
        forked: &[bool],
        loose: &BTreeSet<HandoverId>,
        agains: &Agains,
        first_program: ProgramId,
    ) -> Self {
        let mut units = Self {
            all: Vec::new(),
            of_thread: vec![None; replay.threads.len()],
            none: Unit {
                threads: Vec::new(),
                program: first_program,
                messages: 0,
                first_gate: 0,
                first_again: 0,
            },
        };
        let pools = replay.exchanges.iter().filter(|e| e.servers.len() > 1);
        for pool in pools {
            units.add(replay, &pool.servers, loose, agains, first_program);
        }
        for (id, thread) in (0u32..).map(ThreadId).zip(&replay.threads) {
            let active = forked[id.index()] || !thread.activations.is_empty();
            if active && units.of_thread[id.index()].is_none() {
                units.add(replay, &[id], loose, agains, first_program);
            }
        }
        units
    }

    fn add(
        &mut self,
        replay: &Replay,
        threads: &[ThreadId],
        loose: &BTreeSet<HandoverId>,
        agains: &Agains,
        first_program: ProgramId,
    ) {
        let mut messages = 0;
        for thread in threads {
            self.of_thread[thread.index()] = Some((self.all.len(), messages));
            messages += replay.activations_of(*thread).len() as u64;
        }
        if let [client] = threads {
            let exchanges = replay.exchanges.iter().filter(|e| e.client == *client);
            let timers = exchanges
                .flat_map(|exchange| &exchange.requests)
                .filter(|exchanged| exchanged.not_before_ns.is_some());
            messages += timers.count() as u64;
        }
        let first_gate = messages;
        let activations = threads
            .iter()
            .flat_map(|thread| replay.activations_of(*thread));
        let steps = activations.flat_map(|activation| replay.steps_of(activation));
        let is_gate = |step: &&Step| match step {
            Step::Await(_) => true,
            Step::Wait(handover) => loose.contains(handover),
            _ => false,
        };
        messages += steps.filter(is_gate).count() as u64;
        let first_again = messages;
        let parts = threads.iter().map(|thread| agains.of_thread(*thread));
        messages += parts.flatten().count() as u64;
        self.all.push(Unit {
            threads: threads.to_vec(),
            program: ProgramId(first_program.0 + self.all.len() as u32),
            messages,
            first_gate,
            first_again,
        });
    }

    /// The unit of a thread.
    pub(super) fn of(&self, thread: ThreadId) -> &Unit {
        self.of_thread[thread.index()].map_or(&self.none, |(unit, _)| &self.all[unit])
    }

    /// The number of the message that begins a part again.
    pub(super) fn number_again(&self, agains: &Agains, thread: ThreadId, part: usize) -> u64 {
        let unit = self.of(thread);
        let before = unit.threads.iter().take_while(|id| **id != thread);
        let before: usize = before.map(|id| agains.of_thread(*id).len()).sum();
        let own = agains
            .of_thread(thread)
            .partition_point(|other| *other < part);
        unit.first_again + (before + own) as u64
    }

    /// The number of the message that begins an activation.
    pub(super) fn number(&self, replay: &Replay, id: ActivationId) -> u64 {
        let thread = replay.activations[id.index()].thread;
        let (_, first) = self.of_thread[thread.index()].unwrap_or_default();
        first + u64::from(id.0 - replay.threads[thread.index()].activations.start)
    }
}

impl Unit {
    /// The activations of its threads, in the order of their numbers.
    pub(super) fn activations<'a>(
        &'a self,
        replay: &'a Replay,
    ) -> impl Iterator<Item = ActivationId> + Clone + 'a {
        self.threads
            .iter()
            .flat_map(|thread| replay.threads[thread.index()].activations.clone())
            .map(ActivationId)
    }
}

/// The activation that a thread is in when it is created.
pub(super) fn under_way(replay: &Replay, thread: ThreadId) -> Option<ActivationId> {
    let first = replay.activations_of(thread).first()?;
    let begun = matches!(first.trigger, Trigger::Start | Trigger::Fork);
    begun.then(|| ActivationId(replay.threads[thread.index()].activations.start))
}
