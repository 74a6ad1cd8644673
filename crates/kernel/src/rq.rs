//! The run queue of a CPU (`struct rq`).

use crate::model::{Mark, reached};
use std::collections::VecDeque;

pub use crate::core::hrtick::Hrtick;
use crate::cpuset::CpuSet;
use crate::ids::{CfsRqId, Cpu, Ns, TaskId};
use crate::pelt::SchedAvg;
pub use crate::rt::FairServer;
pub(crate) use crate::rt::RtRq;
use crate::rules::Rules;
use crate::uclamp::RqClamps;

/// Task and PELT clocks at time 0: a machine that was just switched on never shows 0, which marks
/// entities that are to be attached.
const TASK_CLOCK_AT_START_NS: Ns = 1 << 20;

/// Work for a migration thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopWork {
    /// Move a task of this CPU to another one, if it still is here.
    Migrate(TaskId, Cpu),
    /// Push a task to the CPU noted in `push_cpu` (active balance).
    ActiveBalance,
    /// The same, for a task that prefers the cache there (7.2).
    ActiveBalanceLlc,
    /// Move a task away from a CPU its affinity excludes; `migration_pending` says where to.
    Affinity(TaskId),
}

/// Run queue of one CPU.
#[derive(Clone, Debug, Default)]
pub struct Rq {
    /// This CPU.
    pub cpu: Cpu,
    /// Wall clock as of the last update, ns.
    pub clock: Ns,
    /// Clock without interrupt and steal time.
    pub clock_task: Ns,
    /// Time of interrupts and of the hypervisor that `clock_task` has not been told of yet
    /// (`prev_irq_time`, `prev_steal_time_rq` seen from the other side).
    pub(crate) nontask_ns: Ns,
    /// Part of it that the hypervisor took.
    pub(crate) stolen_ns: Ns,
    /// Since when the CPU is in an interrupt, where that is counted (`irq_start_time`).
    pub(crate) irq_start_ns: Option<Ns>,
    /// Load tracking of such time.
    pub avg_irq: SchedAvg,
    /// PELT clock: scaled by capacity and frequency while busy.
    pub clock_pelt: Ns,
    /// Idle time that a fully used CPU did not have; subtracted from the PELT clock.
    pub lost_idle_time_ns: Ns,
    /// PELT clock when the clocks of the idle CPU were updated last.
    pub(crate) clock_pelt_idle: Ns,
    /// Wall clock then.
    pub(crate) clock_idle: Ns,

    /// Tasks of all classes, delayed ones included.
    pub nr_running: u32,
    /// Task the CPU executes.
    pub curr: TaskId,
    /// Idle task.
    pub(crate) idle: TaskId,
    /// Rank of the class that the CPU is about to choose, where arrivals are held against that
    /// (`next_class`, 7.0): of the running task, unless one of a higher class has come since or a
    /// search for tasks has made it the fair one.
    pub next_rank: u8,
    /// Works queued for the migration thread, in order.
    pub(crate) stop_works: VecDeque<StopWork>,
    /// CPU chosen last for a task whose affinity changed (`distribute_cpu_mask_prev`).
    pub(crate) distribute_cpu_prev: Cpu,
    /// Real-time class.
    pub rt: RtRq,
    /// Deadline tasks in their order, the fair server included (`dl.dl_nr_running`).
    pub dl_nr_running: u32,
    /// Reservation for the fair class under real-time load (6.12).
    pub(crate) fair_server: FairServer,
    /// `TIF_NEED_RESCHED` of the current task.
    pub(crate) need_resched: bool,
    /// `TIF_NEED_RESCHED_LAZY` (6.13).
    pub(crate) need_resched_lazy: bool,
    /// The next `schedule()` does not read the clock: a wakeup that preempts has just done so
    /// (`RQCF_REQ_SKIP`).
    pub(crate) skip_clock_update: bool,
    /// The switch at hand leaves the clock where such a wakeup has put it, balancing on its way
    /// included (`RQCF_ACT_SKIP`, up to 6.6).
    pub(crate) switch_skips_clock: bool,
    /// The pick at hand has put the task that ran last already.
    pub(crate) put_before_pick: bool,
    /// Since when this queue's lock is held, if it is: a CPU that looks for tasks elsewhere lets go
    /// of it before its switch.
    pub(crate) lock_held_from_ns: Ns,
    /// Until when it is held: by its own CPU, to switch, or by another, to wake a task here and to
    /// send the interrupt that asks for a reschedule.
    pub(crate) lock_held_until_ns: Ns,
    /// Task that had the CPU before the last switch.
    pub switched_from: TaskId,
    /// When that switch is over; until then the previous task is not quite off it (`on_cpu`).
    pub switched_at_ns: Ns,

    /// The timer that ends requests (7.1).
    pub(crate) hrtick: Hrtick,
    /// Wakeups handed over by other CPUs.
    pub(crate) wake_list: Vec<TaskId>,
    /// `ttwu_pending`: the CPU does not count as idle.
    pub ttwu_pending: bool,
    /// The sets of idle CPUs have this one.
    pub(crate) noted_idle: bool,
    /// The set of CPUs that run nothing but idle-policy tasks has this one.
    pub(crate) noted_sched_idle: bool,
    /// Throttled queues of this CPU to be unthrottled by it (6.3).
    pub(crate) unthrottle_list: Vec<CfsRqId>,
    /// A nohz balance kick is pending for this CPU.
    pub(crate) nohz_kick: bool,
    /// The balance softirq is raised.
    pub(crate) balance_softirq: bool,
    /// The idle loop watches its flag word, no interrupt is needed to wake it.
    pub(crate) polling: bool,

    /// When the CPU went idle, 0 = it did not.
    pub idle_stamp: Ns,
    /// Average idle duration.
    pub avg_idle: Ns,
    /// ½ of `avg_idle`'s cap.
    pub max_idle_balance_cost_ns: Ns,
    /// SIS_PROP: aged idle average (5.14–6.6).
    pub(crate) wake_avg_idle: Ns,
    /// SIS_PROP: last jiffy of ageing.
    pub(crate) wake_stamp_jiffy: u64,
    /// Next periodic balance, jiffies.
    pub next_balance: u64,
    /// Tasks in I/O wait that last ran here.
    pub nr_iowait: u32,
    /// Misfit load of this CPU.
    pub misfit_task_load: u64,
    /// Leaf queues, children before parents.
    pub(crate) leaf_cfs_rqs: Vec<CfsRqId>,
    /// The last queue that was listed before its parent is (`tmp_alone_branch`); `None` when the
    /// branches of all are whole.
    pub(crate) leaf_branch: Option<CfsRqId>,
    /// Queued fair tasks, the most recently picked last: the kernel's `cfs_tasks` list reversed, so
    /// that balance takes its candidates from the front.
    pub(crate) cfs_tasks: Vec<TaskId>,
    /// Runnable fair tasks queued here that prefer the cache of this CPU (7.2).
    pub nr_pref_llc_running: u32,
    /// Capacity of this CPU.
    pub(crate) cpu_capacity_orig: u64,
    /// Capacity left for the fair class.
    pub cpu_capacity: u64,
    /// Frequency scale for the PELT clock, 1024 = full speed.
    pub(crate) freq_scale: u64,

    /// The tick runs.
    pub tick_running: bool,
    /// An interrupt is under way, after which the tick of a CPU of `nohz_full` may stop.
    pub(crate) in_interrupt: bool,
    /// Idle time so far, waiting for I/O not counted.
    pub(crate) idle_time_ns: Ns,
    /// Since when the idle loop sleeps; `None` while the CPU executes anything.
    pub(crate) idle_entry_ns: Option<Ns>,
    /// How often the idle loop stopped the tick or found it stopped.
    pub(crate) idle_calls: u64,
    /// A tick came since the idle loop last went round, on a CPU without a cpuidle driver
    /// (`got_idle_tick`).
    pub(crate) got_idle_tick: bool,
    /// In the nohz mask (`nohz_tick_stopped`).
    pub nohz_tick_stopped: bool,
    /// Blocked load may have to be decayed by others.
    pub has_blocked_load: bool,
    /// Time to look at blocked load again, jiffies.
    pub last_blocked_load_update_tick: u64,
    /// Utilisation clamps of its runnable tasks.
    pub clamps: RqClamps,
    /// An active balance is under way.
    pub active_balance: bool,
    /// Where it pushes a task to.
    pub(crate) push_cpu: Cpu,
}

impl Rq {
    /// Run queue of `cpu`, idle since time 0. `idle` is its idle task.
    pub(crate) fn new(cpu: Cpu, idle: TaskId, capacity: u64, rules: &Rules) -> Self {
        let migration_cost_ns = rules.migration_cost_ns;
        Self {
            cpu,
            clock_task: TASK_CLOCK_AT_START_NS,
            clock_pelt: TASK_CLOCK_AT_START_NS,
            curr: idle,
            idle,
            rt: RtRq::new(rules.rt_runtime_ns),
            switched_from: idle,
            noted_idle: true,
            avg_idle: 2 * migration_cost_ns,
            max_idle_balance_cost_ns: migration_cost_ns,
            wake_avg_idle: 2 * migration_cost_ns,
            cpu_capacity_orig: capacity,
            cpu_capacity: capacity,
            freq_scale: 1024,
            idle_entry_ns: Some(0),
            push_cpu: cpu,
            ..Self::default()
        }
    }

    /// Advances the PELT clock by `delta` of task clock (`update_rq_clock_pelt`): slower on a slow
    /// CPU, and caught up while idle.
    #[inline(always)]
    pub(crate) fn update_clock_pelt(&mut self, delta: Ns) {
        if self.curr_is_idle() {
            reached(Mark::PeltClockIdle);
            self.sync_clock_pelt();
            return;
        }
        reached(Mark::PeltClockScaled);
        let at_capacity = (delta * self.cpu_capacity_orig) >> 10;
        self.clock_pelt += (at_capacity * self.freq_scale) >> 10;
    }

    /// The PELT clock of an idle CPU is its task clock. A task that leaves the CPU while it sleeps
    /// reads its position from here (`_update_idle_rq_clock_pelt`).
    #[inline(always)]
    pub(crate) fn sync_clock_pelt(&mut self) {
        self.clock_pelt = self.clock_task;
        self.clock_idle = self.clock;
        self.clock_pelt_idle = self.clock_pelt - self.lost_idle_time_ns;
    }

    /// Whether the CPU executes its idle task.
    #[inline(always)]
    pub(crate) fn curr_is_idle(&self) -> bool {
        self.curr == self.idle
    }
}

/// Idle bookkeeping shared by all CPUs (`nohz`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Nohz {
    /// CPUs whose tick is stopped.
    pub(crate) idle_cpus: CpuSet,
    /// Some idle CPU has blocked load.
    pub(crate) has_blocked: bool,
    /// Next update of blocked load, jiffies.
    pub(crate) next_blocked: u64,
    /// Next tickless balance, jiffies.
    pub(crate) next_balance: u64,
    /// Some CPU has no tick while it runs one task.
    pub(crate) has_full: bool,
    /// Such CPUs that are to be told that they need their tick.
    pub(crate) full_kicks: CpuSet,
    /// Second of the last tick that was done for all of them.
    pub(crate) remote_second: u64,
}
