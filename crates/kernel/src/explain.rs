//! Decisions with the state that led to them.
//!
//! A platform that sets [`crate::Platform::EXPLAIN`] is told of every pick, preemption check,
//! placement, throttling and balance; for all others the reporting code is compiled out.
//!
//! Worked example, as a person reads it: *pick on CPU 1 at 12.000 ms: `hog-2`, earliest eligible
//! deadline. V = 9.1 ms; `hog-1` v 10.2 ms lag −1.1 ms not eligible; `hog-2` v 8.0 ms lag +1.1 ms
//! deadline 10.8 ms.*

use crate::cfs_rq::before;
use crate::entity::Owner;
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, Ns, TaskId};
use crate::kernel::Kernel;
use crate::rules::FairClass;

/// One entity that could have been picked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Task or group.
    pub owner: Owner,
    /// Unscaled weight.
    pub weight: u64,
    /// Virtual runtime relative to V (EEVDF) or `min_vruntime` (CFS), ns.
    pub vruntime_ns: i64,
    /// Virtual deadline relative to the same origin (EEVDF), ns.
    pub deadline_ns: i64,
    /// Request size, ns.
    pub slice_ns: Ns,
    /// Lag is not negative (EEVDF).
    pub eligible: bool,
    /// Is the running one.
    pub running: bool,
    /// Running and protected from preemption.
    pub protected: bool,
    /// Blocked, only waiting to be taken off.
    pub delayed: bool,
}

/// One queue on the way from the root to the picked task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PickLevel {
    /// Group of the queue.
    pub group: GroupId,
    /// Why this entity.
    pub rule: &'static str,
    /// The entity that was picked.
    pub picked: Owner,
    /// All that were queued, in the queue's order, the running one first.
    pub candidates: Vec<Candidate>,
}

/// A decision of the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The fair class chose its next task.
    Pick {
        /// The task.
        task: TaskId,
        /// Queues from the root down.
        levels: Vec<PickLevel>,
    },
    /// A wakeup was checked against the running task.
    Preempt {
        /// Task that woke.
        wakee: TaskId,
        /// Task that runs.
        curr: TaskId,
        /// Whether the running task has to go.
        preempts: bool,
        /// Why.
        rule: &'static str,
    },
    /// A CPU was chosen for a waking or starting task.
    Place {
        /// The task.
        task: TaskId,
        /// CPU of the waker.
        waker_cpu: Cpu,
        /// CPU it ran on last.
        prev_cpu: Cpu,
        /// Chosen CPU.
        cpu: Cpu,
        /// Why.
        rule: &'static str,
        /// CPUs looked at on the way.
        examined: u32,
    },
    /// A queue was throttled.
    Throttle {
        /// Its group.
        group: GroupId,
        /// What it had left, ns (negative: debt).
        runtime_remaining_ns: i64,
        /// What the pool had left, ns.
        pool_ns: Ns,
        /// When the pool is refilled, ns.
        refill_at_ns: Ns,
    },
    /// Tasks were moved, or not, to even out load.
    Balance {
        /// CPU that pulls.
        dst: Cpu,
        /// CPU that gives, when one was found.
        src: Option<Cpu>,
        /// Name of the domain.
        domain: &'static str,
        /// Tasks moved.
        moved: u32,
        /// Why, or why not.
        rule: &'static str,
    },
}

impl Kernel {
    /// Describes a queue for [`Decision::Pick`].
    pub(crate) fn describe_level(
        &self,
        q: CfsRqId,
        picked: EntityId,
        rule: &'static str,
    ) -> PickLevel {
        let cfs_rq = &self.cfs_rqs[q.index()];
        let origin = match self.rules.fair {
            FairClass::Cfs => cfs_rq.min_vruntime,
            FairClass::Eevdf => self.avg_vruntime(q),
        };
        let running = cfs_rq.curr.filter(|se| self.entities[se.index()].on_rq);
        let queued = cfs_rq.timeline.nodes().iter().map(|node| node.entity);
        PickLevel {
            group: cfs_rq.group,
            rule,
            picked: self.entities[picked.index()].owner,
            candidates: running
                .into_iter()
                .chain(queued)
                .map(|se| self.candidate(q, se, origin, running == Some(se)))
                .collect(),
        }
    }

    fn candidate(&self, q: CfsRqId, se: EntityId, origin: u64, running: bool) -> Candidate {
        let entity = &self.entities[se.index()];
        let eevdf = self.rules.fair == FairClass::Eevdf;
        Candidate {
            owner: entity.owner,
            weight: entity.load.unscaled(),
            vruntime_ns: entity.vruntime.wrapping_sub(origin) as i64,
            deadline_ns: if eevdf {
                entity.deadline.wrapping_sub(origin) as i64
            } else {
                0
            },
            slice_ns: if eevdf {
                entity.slice
            } else {
                self.sched_slice(q, se)
            },
            eligible: !eevdf || self.entity_eligible(q, se),
            running,
            protected: eevdf && running && self.protect_slice(se),
            delayed: entity.sched_delayed,
        }
    }

    /// Which rule of `pick_eevdf` led to this entity.
    pub(crate) fn pick_rule(&self, q: CfsRqId, picked: EntityId) -> &'static str {
        let cfs_rq = &self.cfs_rqs[q.index()];
        if cfs_rq.nr_queued == 1 {
            return "the only entity queued";
        }
        match self.rules.fair {
            FairClass::Cfs => {
                let first = cfs_rq.timeline.first();
                let smallest = first.is_none_or(|node| {
                    !before(node.vruntime, self.entities[picked.index()].vruntime)
                });
                if smallest {
                    "smallest vruntime"
                } else {
                    "buddy within the wakeup granularity"
                }
            }
            FairClass::Eevdf if cfs_rq.next == Some(picked) => "next buddy, eligible",
            FairClass::Eevdf if cfs_rq.curr == Some(picked) && self.protect_slice(picked) => {
                "running and protected until its request is served (RUN_TO_PARITY)"
            }
            FairClass::Eevdf => "earliest eligible virtual deadline",
        }
    }
}
