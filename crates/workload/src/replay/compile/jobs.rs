//! Records the end of a job and the time that it took.
//!
//! A job has two words of memory: the number of its threads that have not ended, and when its first
//! thread began. Each thread decrements the number at its exit. The one that brings it to 0 records
//! the time since the beginning.
//!
//! # Worked example
//!
//! A shell begins at 10 ms and two programs end at 40 and 55 ms, the shell at
//! 56 ms. The count is 3, 2, 1, 0, and the shell records 46 ms.

use super::super::Replay;
use super::super::model::{Activation, ActivationId, Trigger};
use super::super::threads::ThreadId;
use super::{SEND, SINCE};
use schedcast_kernel::GroupId;
use schedcast_sim::workload::{JobSpec, MetricId, WordId};
use schedcast_sim::{Compare, ProgramBuilder, Workload};
use std::collections::BTreeMap;

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
}

impl Jobs {
    pub(super) fn new(replay: &Replay, groups: &[GroupId], workload: &mut Workload) -> Self {
        let mut all = Self {
            words: Vec::new(),
            of_thread: BTreeMap::new(),
            first: BTreeMap::new(),
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
        all
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
