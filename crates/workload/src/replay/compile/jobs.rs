//! How a job says that it has ended, and how long it took.
//!
//! Two words of memory: how many of its threads have not ended, and when its first thread began.
//! Each thread counts itself off at its exit, and the one that finds none left records the time
//! since the begin.
//!
//! A thread of a job that is alone counts the messages it has taken, and that count says which
//! activation is next. So do threads of which a service makes one for each connection: each has one
//! thing to do, and where it waits for a lock the thread that releases the lock wakes it, whatever
//! message that is. By its messages it could end before it has released a lock that another thread
//! waits for.
//!
//! Worked example: a shell begins at 10 ms and two programs end at 40 and 55 ms, the shell at
//! 56 ms. The count is 3, 2, 1, 0, and the shell records 46 ms.

use super::super::Replay;
use super::super::model::{Activation, ActivationId, Step, Trigger};
use super::super::threads::{Origin, ThreadId};
use super::services::NEXT;
use super::units::{Unit, under_way};
use super::{MESSAGE, SEND, SINCE};
use schedcast_kernel::GroupId;
use schedcast_sim::workload::{JobSpec, MetricId, WordId};
use schedcast_sim::{Compare, ProgramBuilder, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// A thread that makes fewer others, which end, may have made workers that serve many connections.
const MADE_MIN: usize = 20;

/// Words of a job.
struct JobWords {
    /// Threads that have not ended.
    left: WordId,
    /// When it began.
    began: WordId,
    time: MetricId,
}

/// Where the jobs of a replay stand.
pub(super) struct Jobs {
    words: Vec<JobWords>,
    of_thread: BTreeMap<ThreadId, usize>,
    /// The activations with which jobs begin.
    first: BTreeMap<ActivationId, usize>,
    /// Threads that do their activations in the recorded order.
    in_order: BTreeSet<ThreadId>,
}

impl Jobs {
    pub(super) fn new(replay: &Replay, groups: &[GroupId], workload: &mut Workload) -> Self {
        let mut all = Self {
            words: Vec::new(),
            of_thread: BTreeMap::new(),
            first: BTreeMap::new(),
            in_order: BTreeSet::new(),
        };
        for job in &replay.jobs {
            let row = all.words.len();
            let time = workload.add_metric(&format!("{}/time", job.subject));
            workload.jobs.push(JobSpec {
                metric: time,
                group: groups[job.group.index()],
                begins_ns: job.begins_ns,
            });
            all.words.push(JobWords {
                left: workload.add_word(job.threads.len() as u64),
                began: workload.add_word(job.begins_ns),
                time,
            });
            all.in_order
                .extend(job.threads.iter().filter(|_| job.is_alone));
            all.of_thread
                .extend(job.threads.iter().map(|id| (*id, row)));
            let own = job.threads.iter().filter_map(|id| {
                let first = replay.activations_of(*id).first()?;
                let id = replay.threads[id.index()].activations.start;
                Some((first.woken_ns, ActivationId(id)))
            });
            let first = own.min_by_key(|(woken_ns, _)| *woken_ns);
            all.first
                .extend(first.filter(|_| job.is_whole).map(|(_, id)| (id, row)));
        }
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
        all.in_order.extend(many.flatten());
        all
    }

    /// Whether the messages of a unit begin its activations one after the other.
    fn are_in_order(&self, unit: &Unit) -> bool {
        matches!(unit.threads[..], [thread] if self.in_order.contains(&thread))
    }

    /// Emits which activation the first message begins.
    pub(super) fn number(&self, b: &mut ProgramBuilder, replay: &Replay, unit: &Unit) {
        if self.are_in_order(unit) {
            b.set(
                NEXT,
                u64::from(under_way(replay, unit.threads[0]).is_some()),
            );
        }
    }

    /// Emits that the message begins the next activation.
    pub(super) fn renumber(&self, b: &mut ProgramBuilder, replay: &Replay, unit: &Unit) {
        if self.are_in_order(unit) {
            let activations = unit.activations(replay).count() as u64;
            b.unless(MESSAGE, Compare::GreaterOrEqual, activations, |b| {
                b.set(MESSAGE, NEXT);
                b.add(NEXT, 1);
            });
        }
    }

    /// Emits that a job begins, if it begins with this activation.
    pub(super) fn begins(&self, b: &mut ProgramBuilder, id: ActivationId, activation: &Activation) {
        let Some(row) = self.first.get(&id) else {
            return;
        };
        let [now, ..] = SEND;
        let began = self.words[*row].began;
        match activation.trigger {
            Trigger::Start | Trigger::Fork => {
                b.now(now);
                b.word_store(began, now);
            }
            _ => b.word_store(began, SINCE),
        }
    }

    /// Emits that a thread ends, before it does.
    pub(super) fn ends(&self, b: &mut ProgramBuilder, thread: ThreadId) {
        let Some(row) = self.of_thread.get(&thread) else {
            return;
        };
        let JobWords { left, began, time } = self.words[*row];
        let [count, ..] = SEND;
        b.word_load(left, count);
        b.subtract(count, 1);
        b.word_store(left, count);
        b.unless(count, Compare::NotEqual, 0, |b| {
            b.word_load(began, count);
            b.record_since(time, count);
        });
    }
}
