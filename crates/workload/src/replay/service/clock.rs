//! Executed time and current activation of a thread at a time of the recording.

use super::super::activity::Draft;
use super::super::threads::ThreadId;
use super::Evidence;

/// Executed time by time.
pub(super) struct Clock<'a> {
    evidence: &'a Evidence<'a>,
    /// Per thread and run: what the thread had executed before it.
    before_ns: Vec<Vec<u64>>,
    /// Per thread: its drafts with what it had executed before each.
    drafts: Vec<Vec<(u64, usize)>>,
    /// Per draft: when it was woken.
    woken_ns: Vec<u64>,
}

impl<'a> Clock<'a> {
    /// The drafts of a thread must be in order and without gaps, as they are folded.
    pub(super) fn new(evidence: &'a Evidence<'a>, drafts: &[Draft]) -> Self {
        let before_ns = evidence
            .runs
            .iter()
            .map(|runs| {
                let sums = runs.iter().scan(0, |sum, run| {
                    let before = *sum;
                    *sum += run.length_ns();
                    Some(before)
                });
                sums.collect()
            })
            .collect();
        let mut of_thread: Vec<Vec<(u64, usize)>> = vec![Vec::new(); evidence.threads.len()];
        let mut executed_ns = vec![0; evidence.threads.len()];
        for (index, draft) in drafts.iter().enumerate() {
            let thread = draft.activation.thread.index();
            of_thread[thread].push((executed_ns[thread], index));
            executed_ns[thread] += draft.activation.executed_ns;
        }
        Self {
            evidence,
            before_ns,
            drafts: of_thread,
            woken_ns: drafts
                .iter()
                .map(|draft| draft.activation.woken_ns)
                .collect(),
        }
    }

    /// The last run of a thread that began by `at_ns`: its end, since the start of the recording.
    pub(super) fn last_run_end_ns(&self, thread: ThreadId, at_ns: u64) -> Option<u64> {
        let position = self.run_at(thread, at_ns)?;
        let end_ns = self.evidence.runs[thread.index()][position].end_ns;
        Some(end_ns.saturating_sub(self.evidence.start_ns))
    }

    /// The latest such end among `threads`.
    pub(super) fn last_end_of_any_ns(
        &self,
        threads: impl Iterator<Item = ThreadId>,
        at_ns: u64,
    ) -> Option<u64> {
        threads
            .filter_map(|thread| self.last_run_end_ns(thread, at_ns))
            .max()
    }

    fn run_at(&self, thread: ThreadId, at_ns: u64) -> Option<usize> {
        let at_ns = at_ns + self.evidence.start_ns;
        let runs = &self.evidence.runs[thread.index()];
        runs.partition_point(|run| run.start_ns <= at_ns)
            .checked_sub(1)
    }

    /// Time that a thread had executed by `at_ns`, ns.
    fn executed_ns(&self, thread: ThreadId, at_ns: u64) -> u64 {
        let Some(position) = self.run_at(thread, at_ns) else {
            return 0;
        };
        let run = &self.evidence.runs[thread.index()][position];
        let into_ns = (at_ns + self.evidence.start_ns).min(run.end_ns) - run.start_ns;
        self.before_ns[thread.index()][position] + into_ns
    }

    /// The draft that a thread was in at `at_ns`, and how much of it it had executed.
    pub(super) fn place(&self, thread: ThreadId, at_ns: u64) -> Option<(usize, u64)> {
        let executed_ns = self.executed_ns(thread, at_ns);
        let drafts = &self.drafts[thread.index()];
        let reached = drafts.partition_point(|(before_ns, draft)| {
            *before_ns <= executed_ns && self.woken_ns[*draft] <= at_ns
        });
        let (before_ns, draft) = drafts[reached.checked_sub(1)?];
        Some((draft, executed_ns - before_ns))
    }

    /// When the thread of a draft was woken for the one behind it, if there is one.
    pub(super) fn woken_again_ns(&self, thread: ThreadId, draft: usize) -> Option<u64> {
        let drafts = &self.drafts[thread.index()];
        let next = drafts.partition_point(|(_, other)| *other <= draft);
        drafts.get(next).map(|(_, next)| self.woken_ns[*next])
    }

    /// How much of `draft`, one of `thread`'s, was executed by `at_ns`.
    pub(super) fn executed_of_ns(&self, thread: ThreadId, draft: usize, at_ns: u64) -> u64 {
        let drafts = &self.drafts[thread.index()];
        let position = drafts.partition_point(|(_, other)| *other < draft);
        let before_ns = drafts.get(position).map_or(0, |(before_ns, _)| *before_ns);
        self.executed_ns(thread, at_ns).saturating_sub(before_ns)
    }
}
