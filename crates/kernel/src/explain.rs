//! Decisions with the state that led to them.
//!
//! A platform that sets [`crate::Platform::EXPLAIN`] is told of every pick, preemption check,
//! placement, throttling and balance; for all others the reporting code is compiled out.
//!
//! Worked example, as a person reads it: *pick on CPU 1 at 12.000 ms: `hog-2`, earliest eligible
//! deadline. V = 9.1 ms; `hog-1` v 10.2 ms lag −1.1 ms not eligible; `hog-2` v 8.0 ms lag +1.1 ms
//! deadline 10.8 ms.*

use crate::balance::{CpuIdle, Migration};
use crate::cfs_rq::before;
use crate::cpuset::CpuSet;
use crate::entity::Owner;
use crate::group::BandwidthLimit;
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::Mark;
use crate::platform::Platform;
use crate::rules::FairClass;
use crate::select::WakeKind;

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
    /// Is in its queue. A running task that goes to sleep is in none while its CPU looks for
    /// others, and its slice is the one that it would have in the queue.
    pub queued: bool,
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
    /// Rule by which this entity was picked.
    pub rule: Mark,
    /// The entity that was picked.
    pub picked: Owner,
    /// All that were queued, in the queue's order, the running one first.
    pub candidates: Vec<Candidate>,
}

/// Two entities of one queue that were compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Siblings {
    /// Group of the queue.
    pub group: GroupId,
    /// The running one: the task, or the group of this queue that it runs in.
    pub curr: Candidate,
    /// The one that woke.
    pub wakee: Candidate,
    /// The one that would be picked, where that was asked; often one of the two.
    pub picked: Option<Candidate>,
}

/// A group of CPUs as load balance sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupState {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its type; up to 5.4 only `overloaded` and `has spare` mean something.
    pub kind: &'static str,
    /// Tasks of all classes.
    pub nr_running: u32,
    /// Idle CPUs.
    pub idle_cpus: u32,
    /// Load.
    pub load: u64,
    /// Utilisation.
    pub util: u64,
    /// Capacity left for the fair class.
    pub capacity: u64,
}

/// Price of a CPU for a woken task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnergyOf {
    /// The CPU.
    pub cpu: Cpu,
    /// Energy of its performance domain with the task less that without it, in the unit of the
    /// kernel's energy model, which only comparisons have.
    pub energy: u64,
}

/// A CPU that was chosen for a waking or starting task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The task.
    pub task: TaskId,
    /// Wakeup, fork or exec.
    pub kind: WakeKind,
    /// Task that was running on the waking CPU.
    pub waker: TaskId,
    /// CPU of the waker.
    pub waker_cpu: Cpu,
    /// The waker announced that it will sleep.
    pub sync: bool,
    /// CPU it ran on last.
    pub prev_cpu: Cpu,
    /// CPU near which an idle one was sought (wakeups).
    pub target: Cpu,
    /// Why near that one.
    pub target_rule: Mark,
    /// Chosen CPU.
    pub cpu: Cpu,
    /// Rule by which the CPU was chosen.
    pub rule: Mark,
    /// CPUs that the scan looked at first, because they share a cache of their own (clusters).
    pub near_first: Option<CpuSet>,
    /// CPUs looked at on the way.
    pub examined: u32,
    /// Most CPUs a scan might have looked at, if one took place and was limited.
    pub scan_limit: Option<u32>,
    /// CPUs that were idle.
    pub idle: CpuSet,
    /// Prices of the candidates where energy decides, in the order in which they were compared.
    pub energies: Vec<EnergyOf>,
}

/// A queue that was throttled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Throttling {
    /// Its group.
    pub group: GroupId,
    /// Limit of the group.
    pub limit: BandwidthLimit,
    /// Rule by which the queue was throttled.
    pub rule: Mark,
    /// Remaining runtime of the queue, ns (negative: debt).
    pub runtime_remaining_ns: i64,
    /// Remaining runtime of the pool, ns.
    pub pool_ns: Ns,
    /// When the pool is refilled, ns.
    pub refill_at_ns: Ns,
    /// Tasks on the queue and below.
    pub tasks: u32,
}

/// A pass that moved tasks, or did not, to even out load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Balancing {
    /// CPU that pulls.
    pub dst: Cpu,
    /// Whether it is idle.
    pub idle: CpuIdle,
    /// CPU that gives, when one was found.
    pub src: Option<Cpu>,
    /// Name of the domain.
    pub domain: &'static str,
    /// Tasks moved.
    pub moved: u32,
    /// Remaining imbalance, in the unit of `migration`.
    pub imbalance: i64,
    /// Load, utilisation or tasks.
    pub migration: Migration,
    /// Why, or why not.
    pub rule: Mark,
    /// The local group and the busiest other, when they were compared.
    pub groups: Option<(GroupState, GroupState)>,
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
        /// Rule that decided.
        rule: Mark,
        /// Comparison of the sibling groups, if the balancer came to that.
        siblings: Option<Box<Siblings>>,
    },
    /// A CPU was chosen for a waking or starting task.
    Place(Placement),
    /// A queue was throttled.
    Throttle(Throttling),
    /// Tasks were moved, or not, to even out load.
    Balance(Balancing),
}

impl Kernel {
    /// Describes a queue for [`Decision::Pick`].
    pub(crate) fn describe_level(&self, q: CfsRqId, picked: EntityId, rule: Mark) -> PickLevel {
        let cfs_rq = &self.cfs_rqs[q];
        let origin = self.virtual_origin(q);
        let running = cfs_rq.curr.filter(|se| self.entities[se].on_rq);
        let queued = cfs_rq.timeline.nodes().iter().map(|node| node.entity);
        PickLevel {
            group: cfs_rq.group,
            rule,
            picked: self.entities[picked].owner,
            candidates: running
                .into_iter()
                .chain(queued)
                .map(|se| self.candidate(q, se, origin, running == Some(se)))
                .collect(),
        }
    }

    fn candidate(&self, q: CfsRqId, se: EntityId, origin: u64, running: bool) -> Candidate {
        let entity = &self.entities[se];
        let eevdf = self.rules.fair == FairClass::Eevdf;
        Candidate {
            owner: entity.owner,
            weight: entity.h_load.weight >> crate::weight::WEIGHT_SHIFT,
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
            queued: entity.on_rq,
            protected: eevdf && running && self.picks_honour_protection() && self.protect_slice(se),
            delayed: entity.sched_delayed,
        }
    }

    /// Which rule of `pick_eevdf` led to this entity.
    pub(crate) fn pick_rule(&self, q: CfsRqId, picked: EntityId) -> Mark {
        let cfs_rq = &self.cfs_rqs[q];
        if self.nr_competing(q) == 1 {
            return Mark::OnlyEntity;
        }
        let protect = self.picks_honour_protection();
        if self.own_pick(q, protect) == Some(picked) {
            return Mark::OwnPick;
        }
        let first = cfs_rq.timeline.first();
        match self.rules.fair {
            FairClass::Cfs => {
                let vruntime = self.entities[picked].vruntime;
                let buddy = cfs_rq.next == Some(picked) || cfs_rq.last == Some(picked);
                match first {
                    Some(node) if before(node.vruntime, vruntime) && buddy => Mark::BuddyPicked,
                    Some(node) if before(node.vruntime, vruntime) => Mark::SkipBuddy,
                    _ => Mark::SmallestVruntime,
                }
            }
            FairClass::Eevdf if cfs_rq.next == Some(picked) => Mark::NextBuddyEligible,
            FairClass::Eevdf if cfs_rq.curr == Some(picked) => {
                if self.picks_honour_protection() && self.protect_slice(picked) {
                    Mark::ParityProtected
                } else {
                    Mark::CurrentEarlier
                }
            }
            FairClass::Eevdf => Mark::EarliestDeadline,
        }
    }

    /// Keeps the state of two entities that are compared, if an explanation is wanted.
    #[inline(always)]
    pub(crate) fn note_siblings<P: Platform>(&mut self, se: EntityId, pse: EntityId) {
        if P::EXPLAIN {
            let q = self.order_of(se);
            let origin = self.virtual_origin(q);
            self.domains.why.siblings = Some(Box::new(Siblings {
                group: self.cfs_rqs[q].group,
                curr: self.candidate(q, se, origin, true),
                wakee: self.candidate(q, pse, origin, false),
                picked: None,
            }));
        }
    }

    /// Whether the entity that would be picked from a queue is `pse`; keeps its state, if an
    /// explanation is wanted.
    #[inline(always)]
    pub(crate) fn is_picked<P: Platform>(
        &mut self,
        q: CfsRqId,
        picked: Option<EntityId>,
        pse: EntityId,
    ) -> bool {
        if P::EXPLAIN
            && let Some(se) = picked
        {
            let running = self.cfs_rqs[q].curr == Some(se);
            let candidate = self.candidate(q, se, self.virtual_origin(q), running);
            if let Some(siblings) = &mut self.domains.why.siblings {
                siblings.picked = Some(candidate);
            }
        }
        picked == Some(pse)
    }

    fn virtual_origin(&self, q: CfsRqId) -> u64 {
        match self.rules.fair {
            FairClass::Cfs => self.cfs_rqs[q].min_vruntime,
            FairClass::Eevdf => self.avg_vruntime(q),
        }
    }
}
