//! Work that a recording may not show: threads of a service that run seldom, and long.
//!
//! A just-in-time compiler, a garbage collector or a compaction takes no part in most requests, but
//! then uses the quota of one period or of ten at once. In a recording of some seconds it may be
//! idle. In the next run under the same limit it works, and all requests wait until the limit has
//! let that work through. Twelve runs of a Java
//! service under 14 ms in 100 ms, 6 s each, used 10.6 to 12.4 ms in 100. Its compiler used 6 to 45
//! ms of CPU time in nine of them, with a p95 of 7 to 40 ms (once 122), and 93, 121 and 212 ms in
//! the others, with 116, 265 and 346 ms.
//!
//! The time that such threads used since they started is known where the recorder read it
//! (`thread_times`). Together they used U in all, which is E in so long a time as the recording's,
//! on average. They use more than 20 E in so long a time in at most one case of twenty (Markov's
//! inequality: a non-negative quantity exceeds k times its mean in at most one case of k). They
//! have never used more than U either. So the intervals of runs to come must allow for the smaller
//! of both, less what the recording shows, in one piece.
//!
//! A thread is rare if
//!
//! * its subject is not the one that serves the requests, and has fewer than half as many
//!   activations as there are requests: it takes no part in most of them;
//! * in the median eighth of the recording it used less than half of its average. A thread that
//!   does a little all the time is recorded as it is.
//!
//! # Worked example
//!
//! A compiler used 202 ms in the 39 s since it started, 31 ms in each 6 s, and 6 ms in the 6 s that
//! were recorded. 20 × 31 ms are more than it ever used, so 202 − 6 = 196 ms may come. After a day,
//! with 30 s in all, it is 2.1 ms in 6 s, and 42 − 6 = 36 ms may come.

use super::Replay;
use super::adjust::Piece;
use super::groups::GroupIndex;
use super::model::{Activation, Step, Thread, Trigger};
use super::service::take_part;
use super::threads::{Origin, ThreadId};
use schedcast_kernel::task::Policy;
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::{Pid, Recording, ThreadTimes};
use std::collections::{BTreeMap, BTreeSet};

/// The average is exceeded by this factor in one case of twenty at most.
const MARKOV: u64 = 20;
/// Number of parts of the recording by which threads that run all the time are recognised.
const PARTS: usize = 8;

/// CPU time of threads of one group that run seldom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rare {
    /// Their names.
    pub threads: BTreeSet<String>,
    /// Since they started, until the recording began, ns.
    pub used_ns: u64,
    /// How long ago the first of them started then, ns.
    pub age_ns: u64,
    /// In the recording, ns.
    pub shown_ns: u64,
    /// CPU time that a run as long as the recording may have besides what that shows, in one piece,
    /// ns.
    pub piece_ns: u64,
}

/// CPU time of a thread by parts of the recording.
type Parts = [u64; PARTS];

impl Replay {
    /// Rare work of `group`, whose requests `main` serves; `None` where the recorder did not read
    /// what its threads had used, or there is none.
    pub fn rare(&self, recording: &Recording, group: GroupIndex, main: &str) -> Option<Rare> {
        let tree = recording.cgroups_before.as_ref()?;
        let path = self.groups[group.index()].path.as_str();
        let below = format!("{path}/");
        let inside = tree
            .iter()
            .filter(|(one, _)| *one == path || one.starts_with(&below));
        let pids: BTreeSet<Pid> = inside
            .flat_map(|(_, group)| &group.tasks)
            .copied()
            .collect();
        let times = recording.meta.thread_times.iter();
        let own: Vec<(Pid, &ThreadTimes)> = times
            .filter(|(pid, _)| pids.contains(pid))
            .map(|(pid, times)| (*pid, times))
            .collect();
        let mut threads = BTreeMap::new();
        let mut activations: BTreeMap<&str, usize> = BTreeMap::new();
        for id in self.members(group) {
            let thread = &self.threads[id.index()];
            threads.entry(thread.pid).or_insert(id);
            *activations.entry(&thread.subject).or_default() += self.recorded_of(id).len();
        }
        let served = |one: &&super::Served| {
            let service = &self.services[one.service as usize];
            service.subject == main && service.group == group
        };
        let requests = match self.whole_requests().filter(served).count() {
            0 => activations.get(main).copied().unwrap_or(0),
            requests => requests,
        };
        let takes_part =
            |subject: &str| subject == main || take_part(activations[subject], requests.max(1));
        let mut rare = Rare {
            threads: BTreeSet::new(),
            used_ns: 0,
            age_ns: 0,
            shown_ns: 0,
            piece_ns: 0,
        };
        let mut expected_ns = 0;
        for (pid, times) in own {
            let part_ns = |length_ns: u64| {
                let share = u128::from(times.cpu_ns) * u128::from(length_ns);
                (share / u128::from(times.age_ns.max(1))) as u64
            };
            let seen = threads.get(&pid).copied();
            if let Some(id) = seen {
                let mut parts = self.parts_of(id);
                parts.sort_unstable();
                let is_steady = parts[PARTS / 2] * 2 >= part_ns(self.duration_ns / PARTS as u64);
                if takes_part(&self.threads[id.index()].subject) || is_steady {
                    continue;
                }
                rare.shown_ns += self.threads[id.index()].executed_ns;
            }
            let name = seen.map_or(&times.comm, |id| &self.threads[id.index()].name);
            rare.threads.insert(name.clone());
            rare.used_ns += times.cpu_ns;
            rare.age_ns = rare.age_ns.max(times.age_ns);
            expected_ns += part_ns(self.duration_ns);
        }
        let most_ns = rare.used_ns.min(MARKOV * expected_ns);
        rare.piece_ns = most_ns.saturating_sub(rare.shown_ns);
        (rare.piece_ns > 0).then_some(rare)
    }

    /// CPU time of a thread in each part of the recording; an activation counts where it began.
    fn parts_of(&self, thread: ThreadId) -> Parts {
        let mut parts = [0; PARTS];
        for activation in self.recorded_of(thread) {
            let part = activation.woken_ns * PARTS as u64 / self.duration_ns.max(1);
            parts[(part as usize).min(PARTS - 1)] += activation.executed_ns;
        }
        parts
    }

    /// Gives a group's threads a piece of work besides what was recorded: a thread of its own does
    /// it.
    pub(super) fn add_piece(&mut self, group: GroupIndex, piece: &Piece) {
        let last = self.threads.iter().map(|thread| thread.pid).max();
        let index = self.activations.len() as u32;
        let id = ThreadId(self.threads.len() as u32);
        let trigger = Trigger::outside(piece.at_ns, 0, ArrivalContext::HardIrq);
        let mut activation = Activation::new(id, trigger, piece.at_ns);
        let first = self.steps.len() as u32;
        // Each seed has a replay of its own: room for one more, not for as many again.
        self.steps.reserve_exact(1);
        self.activations.reserve_exact(1);
        self.steps.push(Step::Run {
            work_ns: piece.work_ns,
        });
        activation.steps = first..first + 1;
        self.activations.push(activation);
        self.threads.push(Thread {
            pid: last.map_or(1, |pid| pid.saturating_add(1)),
            name: NAME.to_owned(),
            subject: NAME.to_owned(),
            origin: Origin::Before,
            kernel: false,
            left_out: false,
            policy: Policy::Normal,
            nice: 0,
            rt_priority: 0,
            first_cpu: 0,
            cpus: None,
            group,
            activations: index..index + 1,
            executed_ns: 0,
        });
    }
}

/// Name of the thread that does a piece of rare work.
const NAME: &str = "(rare work)";
