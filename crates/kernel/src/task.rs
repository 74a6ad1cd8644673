//! Tasks: what the scheduler knows of a thread.

use crate::cache::TaskCache;
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, EntityId, GroupId, Ns, TaskId};
use crate::uclamp::{Clamps, TaskClamp};

/// Scheduling policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Policy {
    /// SCHED_NORMAL (SCHED_OTHER).
    #[default]
    Normal,
    /// SCHED_BATCH: never preempts on wakeup.
    Batch,
    /// SCHED_IDLE: weight 3, preempted by anything.
    Idle,
    /// SCHED_FIFO with `rt_priority`.
    Fifo,
    /// SCHED_RR with `rt_priority`.
    RoundRobin,
    /// SCHED_DEADLINE: a task becomes one by [`crate::Kernel::set_deadline`].
    Deadline,
    /// The stop class: migration threads only.
    Stop,
}

impl Policy {
    /// Whether the fair class runs it.
    #[inline(always)]
    pub const fn is_fair(self) -> bool {
        matches!(self, Policy::Normal | Policy::Batch | Policy::Idle)
    }

    /// Order of the classes: stop 4, deadline 3, real-time 2, fair 1.
    #[inline(always)]
    pub const fn rank(self) -> u8 {
        match self {
            Policy::Normal | Policy::Batch | Policy::Idle => 1,
            Policy::Fifo | Policy::RoundRobin => 2,
            Policy::Deadline => 3,
            Policy::Stop => 4,
        }
    }

    /// Whether the real-time class runs it.
    #[inline(always)]
    pub const fn is_rt(self) -> bool {
        matches!(self, Policy::Fifo | Policy::RoundRobin)
    }
}

/// Attributes of a new task.
#[derive(Clone, Debug, Default)]
pub struct TaskAttributes {
    /// Policy.
    pub policy: Policy,
    /// −20..=19; of use to NORMAL and BATCH.
    pub nice: i32,
    /// 1..=99; of use to FIFO and RR.
    pub rt_priority: u8,
    /// CPUs it may run on.
    pub affinity: CpuSet,
    /// Task group.
    pub group: GroupId,
    /// Address space: threads of one process share the number. `None` for kernel threads.
    pub address_space: Option<u32>,
    /// EEVDF request size in ns, when set by `sched_setattr`.
    pub custom_slice_ns: Option<Ns>,
    /// CPU it starts from (the parent's, for placement at fork).
    pub cpu: Cpu,
}

/// Life of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Created, not yet started.
    New,
    /// On a run queue or running, or about to be.
    Running,
    /// Asleep.
    Blocked,
    /// Between the wakeup and the enqueue (on a remote wake list).
    Waking,
    /// Gone.
    Dead,
}

/// A thread.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its fair entity (also kept while another class runs it).
    pub se: EntityId,
    /// Task group.
    pub group: GroupId,
    /// CPU whose run queue it is, or was last, on.
    pub cpu: Cpu,
    /// CPU that forked it, to which its timers belong until they are first set
    /// (`init_dl_entity`).
    pub(crate) forked_on: Cpu,
    /// Life.
    pub state: TaskState,
    /// Whether its class has it queued (delayed dequeue included).
    pub on_rq: bool,
    /// Handed to a remote wake list after its CPU changed.
    pub(crate) wake_migrated: bool,
    /// Taken off one run queue to be put on another (`TASK_ON_RQ_MIGRATING`).
    pub(crate) migrating: bool,
    /// Whether a CPU is executing it.
    pub on_cpu: bool,
    /// Policy.
    pub policy: Policy,
    /// Nice value.
    pub nice: i32,
    /// Real-time priority, 1..=99.
    pub rt_priority: u8,
    /// Remaining SCHED_RR quantum in ticks.
    pub rr_ticks: u32,
    /// The real-time class has it queued.
    pub(crate) rt_on_rq: bool,
    /// CPUs it may run on.
    pub affinity: CpuSet,
    /// Number of CPUs it may run on.
    pub nr_cpus_allowed: u32,
    /// Where the migration thread is to move it because its affinity changed.
    pub(crate) migration_pending: Option<Cpu>,
    /// Address space; `None` for kernel threads.
    pub address_space: Option<u32>,
    /// `recent_used_cpu` (4.16).
    pub recent_used_cpu: Cpu,
    /// `wakee_flips`: how often this waker changed its wakee, halved each second.
    pub wakee_flips: u32,
    /// Time of the last halving of `wakee_flips`, ns.
    pub(crate) wakee_flip_decay_ns: Ns,
    /// Last task it woke.
    pub(crate) last_wakee: Option<TaskId>,
    /// Waiting for I/O (counts in `nr_iowait` of its CPU).
    pub in_iowait: bool,
    /// Parked by task throttling (6.18): in the limbo list of its queue.
    pub throttled: bool,
    /// Has throttle work to do at its return to user mode (6.18).
    pub(crate) throttle_work: bool,
    /// Exiting: never throttled, wakes no task synchronously.
    pub(crate) exiting: bool,
    /// Utilisation when it slept last (`enqueued`); from 6.8 the only estimate.
    pub(crate) util_est: u32,
    /// Moving average of that (`ewma`, 4.17–6.7).
    pub(crate) util_est_ewma: u32,
    /// Which last level cache it prefers (7.2).
    pub cache: TaskCache,
    /// Utilisation clamps that it asks for; `None` = what its policy has without asking.
    pub clamps_asked: Clamps<Option<u32>>,
    /// The part of them that its group leaves, as counted on its run queue.
    pub(crate) clamps: Clamps<TaskClamp>,
}

impl Task {
    /// Kernel threads have no address space of their own and are never throttled.
    #[inline(always)]
    pub(crate) const fn is_kernel_thread(&self) -> bool {
        self.address_space.is_none()
    }
}
