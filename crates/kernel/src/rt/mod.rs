//! The real-time class: SCHED_FIFO and SCHED_RR.
//!
//! Per CPU one list per priority; the first task of the most urgent list runs until it blocks,
//! yields, is preempted by a more urgent one (and then stays first in its list), or, with SCHED_RR,
//! has used up 100 ms. Worked example: on one CPU a FIFO task of priority 50 is preempted by one of
//! priority 60 and a third one of priority 50 wakes meanwhile. When the 60 blocks, the preempted
//! task goes on: preemption does not send it to the end of its list, yielding does.
//!
//! | room | rules |
//! |---|---|
//! | `queue` | lists, enqueue, dequeue, pick, tick |
//! | `place` | which CPU a waking task goes to (`cpupri`) |
//! | `push` | pushing tasks to and pulling them from other CPUs |
//! | `throttle` | 95 % for real-time tasks, per CPU (up to 6.11) |
//! | `fair_server` | 5 % for the fair class under real-time load (from 6.12) |
//!
//! Groups do not matter here: real-time group scheduling (CONFIG_RT_GROUP_SCHED) is not modelled,
//! real-time tasks of all groups share the lists and the throttling of their CPU.

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns, TaskId};
use crate::pelt::SchedAvg;

pub(crate) mod fair_server;
pub(crate) mod place;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod throttle;

pub use fair_server::FairServer;

/// Kernel priority that stands for "no real-time task": less urgent than every one (0..=98).
pub(crate) const NO_RT_PRIO: i32 = 99;
/// Priority of idle tasks (`MAX_PRIO`).
pub(crate) const MAX_PRIO: i32 = 140;

/// Pushes and pulls of the real-time and of the deadline class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Callbacks(u8);

impl Callbacks {
    pub(crate) const RT_PUSH: Self = Self(1 << 0);
    pub(crate) const RT_PULL: Self = Self(1 << 1);
    pub(crate) const DL_PUSH: Self = Self(1 << 2);
    pub(crate) const DL_PULL: Self = Self(1 << 3);

    #[inline(always)]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Queues of the real-time class on one CPU (`struct rt_rq`).
#[derive(Clone, Debug, Default)]
pub struct RtRq {
    /// Tasks per kernel priority (0 = rt_priority 99), first to run first, the running one
    /// included. Empty until the first real-time task arrives.
    pub(crate) queues: Vec<Vec<TaskId>>,
    /// Priorities whose list is not empty, one bit each.
    pub(crate) bitmap: u128,
    /// Queued tasks.
    pub nr_running: u32,
    /// How many of them `rq.nr_running` counts: none while throttled.
    pub(crate) counted: u32,
    /// Queued tasks that may run on other CPUs too.
    pub(crate) nr_migratory: u32,
    /// Those of them that do not run, most urgent first (`pushable_tasks`).
    pub(crate) pushable: Vec<TaskId>,
    /// Another CPU asked this one to push (`rto_push_work`).
    pub(crate) push_asked: bool,
    /// Work that waits for the end of the current operation (`balance_callback`).
    pub(crate) callbacks: Callbacks,
    /// The CPU took its place for deadline tasks, and its real-time priority has not changed since
    /// (`CPUPRI_HIGHER`).
    pub(crate) behind_deadlines: bool,
    /// Time the class ran in the current throttling period (≤ 6.11).
    pub(crate) rt_time_ns: Ns,
    /// Runtime of this CPU per period, borrowed and lent time included; `None` = unlimited.
    pub(crate) rt_runtime_ns: Option<Ns>,
    /// Out of real-time runtime (≤ 6.11).
    pub(crate) throttled: bool,
    /// Load tracking of the class.
    pub avg: SchedAvg,
}

impl RtRq {
    /// No task, a full runtime.
    pub(crate) fn new(rt_runtime_ns: Option<Ns>) -> Self {
        Self {
            rt_runtime_ns,
            ..Self::default()
        }
    }

    /// Kernel priority of the most urgent queued task, [`NO_RT_PRIO`] when there is none
    /// (`highest_prio.curr`). A task that is saved keeps its place in the list meanwhile, and
    /// counts only while others are queued.
    #[inline]
    pub(crate) fn highest_prio(&self) -> i32 {
        if self.nr_running == 0 {
            NO_RT_PRIO
        } else {
            self.bitmap.trailing_zeros() as i32
        }
    }
}

/// A round of requests to push real-time tasks (`struct root_domain`).
#[derive(Clone, Debug, Default)]
pub(crate) struct PushRound {
    /// CPU that was asked to push last; `None` = no round is under way (`rto_cpu`).
    pub(crate) rto_cpu: Option<Cpu>,
    /// Requests so far, and requests the current round knows of.
    pub(crate) rto_loop_next: u64,
    pub(crate) rto_loop: u64,
}

/// Real-time state of the whole machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct RtDomain {
    /// CPUs with more real-time tasks than they can run (`rto_mask`).
    pub(crate) overloaded: CpuSet,
    /// By root domain.
    pub(crate) rounds: [PushRound; 2],
    /// The throttling timer is armed (`rt_period_active`).
    pub(crate) period_active: bool,
    /// Its next expiry.
    pub(crate) period_expires_ns: Ns,
}
