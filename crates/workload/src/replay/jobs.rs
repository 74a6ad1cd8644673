//! Jobs: groups whose threads all end, such as a build, a conversion or a script.
//!
//! A group's threads are a *job* if the recording shows the exit of each of them, if none of them
//! is left when the recording ends, and if they serve no requests. The time of a job, which a limit
//! changes, lasts from the start of its first thread to the exit of its last one. The job has the
//! name of its first thread.
//!
//! A job that does not talk with threads of other groups ([`MESSAGES_MIN`] messages) is *alone*: it
//! works on nothing but its own progress, and two rules hold for it.
//!
//! * Where a timer or a device ends a sleep, the sleep takes as long as recorded, from when the
//!   thread gets there in the simulation. A script that works for a minute and calls `sleep 1`,
//!   under a limit that doubles this minute, sleeps from the second minute on.
//! * A thread does its activations in the recorded order, the next one for each message, whichever
//!   it is. `make -j4` starts its fifth compiler when the first of four ends, whichever that is,
//!   and links when the last one has ended. If each message began the activation that it began in
//!   the recording, a compiler that ends sooner than recorded would have the program linked before
//!   all are there.
//!
//! A job *began* in the recording where its first thread was forked there, or called `exec` there
//! before it first slept, as a command of `schedcast record` does. Else its time counts from the
//! beginning of the recording.

use super::activity::{Draft, DraftStep, Source, Waking};
use super::blocked::tie_to;
use super::groups::{Group, GroupIndex};
use super::model::{Thread, Trigger};
use super::threads::{Origin, ThreadId};
use schedcast_trace::{CgroupTree, Pid, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer messages than this from user threads of other groups do not make the job depend on them:
/// they are its start, a signal, or a terminal that reads its output.
const MESSAGES_MIN: usize = 20;

/// The threads of a group, all of which end in the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Their group.
    pub group: GroupIndex,
    /// Subject of the first of them.
    pub subject: String,
    /// The threads, in order of appearance.
    pub threads: Vec<ThreadId>,
    /// When the first of them began; 0 where the recording does not show it.
    pub begins_ns: u64,
    /// Whether the recording shows that.
    pub is_whole: bool,
    /// When the last of them ended.
    pub ends_ns: u64,
    /// Whether it works on nothing but its own progress.
    pub is_alone: bool,
}

/// Facts known of all drafts.
pub(super) struct Facts<'a> {
    pub threads: &'a [Thread],
    pub groups: &'a [Group],
    pub wakings: &'a [Waking],
    /// By thread: when it first called `exec`.
    pub execs_ns: &'a [Option<u64>],
    pub recording: &'a Recording,
}

/// Finds the jobs, and lets their sleeps begin when they get there. Drafts of a thread stand side
/// by side, in order. `is_served` are threads that requests make work.
pub(super) fn find(
    facts: &Facts<'_>,
    is_served: impl Fn(ThreadId) -> bool,
    drafts: &mut [Draft],
) -> Vec<Job> {
    let mut members: BTreeMap<GroupIndex, Vec<ThreadId>> = BTreeMap::new();
    for (id, thread) in (0u32..).map(ThreadId).zip(facts.threads) {
        let group = &facts.groups[thread.group.index()];
        if thread.group != GroupIndex::ROOT && !group.autogroup {
            members.entry(thread.group).or_default().push(id);
        }
    }
    let mut of_thread: Vec<Vec<usize>> = vec![Vec::new(); facts.threads.len()];
    for (place, draft) in drafts.iter().enumerate() {
        of_thread[draft.activation.thread.index()].push(place);
    }
    let mut jobs = Vec::new();
    for (group, threads) in members {
        let serves = threads.iter().any(|id| is_served(*id));
        if serves || !facts.is_empty_at_the_end(group, &threads) {
            continue;
        }
        let lives = threads
            .iter()
            .map(|id| life(&of_thread[id.index()], drafts));
        let Some(lives) = lives.collect::<Option<Vec<Life>>>() else {
            continue;
        };
        let first = (0..threads.len()).min_by_key(|place| lives[*place].begins_ns);
        let Some(first) = first else { continue };
        let began = |(id, life): (&ThreadId, &Life)| {
            let execs_ns = facts.execs_ns[id.index()];
            facts.threads[id.index()].origin != Origin::Before
                || execs_ns.is_some_and(|execs_ns| execs_ns <= life.sleeps_ns)
        };
        let is_whole = threads.iter().zip(&lives).all(began);
        jobs.push(Job {
            is_alone: !facts.converses(group),
            group,
            subject: facts.threads[threads[first].index()].subject.clone(),
            begins_ns: if is_whole { lives[first].begins_ns } else { 0 },
            is_whole,
            ends_ns: lives.iter().map(|life| life.ends_ns).max().unwrap_or(0),
            threads,
        });
    }
    for job in jobs.iter().filter(|job| job.is_alone) {
        for id in &job.threads {
            for pair in of_thread[id.index()].windows(2) {
                if pair[1] == pair[0] + 1 && is_later(&drafts[pair[0]], &drafts[pair[1]]) {
                    tie_to(drafts, pair[0], pair[1]);
                }
            }
        }
    }
    jobs
}

/// A thread from its first wakeup to its exit, ns since the start.
struct Life {
    begins_ns: u64,
    /// End of the first activation.
    sleeps_ns: u64,
    ends_ns: u64,
}

/// The life of the thread with drafts at these `places`; `None` if it does not end.
fn life(places: &[usize], drafts: &[Draft]) -> Option<Life> {
    let first = &drafts[*places.first()?].activation;
    let last = &drafts[*places.last()?];
    let ends = last.deeds.iter().any(|(_, step)| *step == DraftStep::Exit);
    ends.then_some(Life {
        begins_ns: first.woken_ns,
        sleeps_ns: first.end_ns.unwrap_or(0),
        ends_ns: last.activation.end_ns?,
    })
}

/// Whether something outside ended the sleep between two drafts of a thread.
fn is_later(before: &Draft, draft: &Draft) -> bool {
    let woken_ns = draft.activation.woken_ns;
    before.activation.slept
        && before
            .activation
            .end_ns
            .is_some_and(|end_ns| end_ns <= woken_ns)
        && draft.activation.slept_before_ns.is_none()
        && draft.activation.follows.is_none()
        && matches!(draft.activation.trigger, Trigger::Outside { .. })
}

impl Facts<'_> {
    /// Whether no thread is left in a group, and none is listed there that shows no event.
    fn is_empty_at_the_end(&self, group: GroupIndex, threads: &[ThreadId]) -> bool {
        let listed = |tree: &Option<CgroupTree>| -> Option<BTreeSet<Pid>> {
            let path = self.groups[group.index()].path.as_str();
            let tree = tree.as_ref()?;
            let own = tree.iter().filter(|(other, _)| *other == path);
            Some(own.flat_map(|(_, one)| one.tasks.iter().copied()).collect())
        };
        match listed(&self.recording.cgroups_after) {
            Some(left) => left.is_empty(),
            None => {
                let seen = threads.iter().map(|id| self.threads[id.index()].pid);
                let seen: BTreeSet<Pid> = seen.collect();
                let before = listed(&self.recording.cgroups_before);
                before.unwrap_or_default().is_subset(&seen)
            }
        }
    }

    /// Whether user threads of other groups make a group work again and again.
    fn converses(&self, group: GroupIndex) -> bool {
        let from_outside = |waking: &&Waking| match waking.source {
            Source::Thread(by) => {
                let by = &self.threads[by.index()];
                let wakee = &self.threads[waking.wakee.index()];
                wakee.group == group && by.group != group && !by.kernel
            }
            Source::Outside { .. } => false,
        };
        self.wakings.iter().filter(from_outside).count() >= MESSAGES_MIN
    }
}
