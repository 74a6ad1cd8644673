//! The deadline class: SCHED_DEADLINE.
//!
//! A task reserves a runtime in each period, to be had by a deadline. Of the tasks that wait the
//! one with the earliest deadline runs, before every real-time and fair task; one that has used its
//! runtime up waits for its next period. That is a constant bandwidth server (CBS) for each task,
//! so that none takes more than it reserved.
//!
//! Worked example: 10 ms in every 100, deadline and period the same. A hog that becomes such a task
//! at t = 0 has its deadline at 100 ms. It runs from 0 to 10 ms, is throttled, and its timer
//! replenishes it at 100 ms: deadline 200 ms, it runs from 100 to 110. At 1000 Hz the tick finds
//! out, so it runs until the tick that finds nothing left, and what it took too much is missing in
//! the next period. If it sleeps at 4 ms and wakes at 50 ms, 6 ms in 50 are more than a tenth: it
//! gets 10 ms and the deadline 150 ms. Had it woken at 20 ms, 6 ms in 80 fit, and it would have
//! kept both.
//!
//! | room | rules |
//! |---|---|
//! | `budget` | runtime and deadlines: replenishment, the wakeup rules, throttling, timers |
//! | `bandwidth` | what is reserved: admission, active utilisation, reclaiming (GRUB) |
//! | `queue` | order by deadline: enqueue, dequeue, pick, tick, yield |
//! | `place` | which CPU a waking task goes to (`cpudl`) |
//! | `push` | pushing tasks to and pulling them from other CPUs |
//! | `change` | becoming such a task, changing the reservation, leaving |
//!
//! The class is known from 6.1 on. Isolated CPUs are one root domain, all others another one. The
//! fair server of a CPU is one more entity in the order of deadlines.

mod bandwidth;
mod budget;
pub mod change;
mod place;
mod push;
mod queue;

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns, TaskId};
use crate::pelt::SchedAvg;
use crate::rules::Rules;
use crate::topology::Topology;
pub(crate) use bandwidth::until_zero_lag;
use place::Latest;

/// Bandwidths are numbers of 20 bits behind the point (`BW_SHIFT`).
const BW_SHIFT: u32 = 20;
/// `1 / Umax` has 8 (`RATIO_SHIFT`).
const RATIO_SHIFT: u32 = 8;
/// Bits that comparisons of runtimes leave out (`DL_SCALE`): they are exact to about 1 us.
const DL_SCALE: u32 = 10;

/// Reservation of a task (`sched_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reservation {
    /// Runtime in each period (`sched_runtime`).
    pub runtime_ns: Ns,
    /// By when after the begin of a period it is to be had (`sched_deadline`).
    pub deadline_ns: Ns,
    /// Period (`sched_period`).
    pub period_ns: Ns,
    /// It also takes what others have reserved and do not use (`SCHED_FLAG_RECLAIM`).
    pub reclaims: bool,
}

/// State of a task in the deadline class (`struct sched_dl_entity`).
#[derive(Clone, Copy, Debug, Default)]
pub struct DlEntity {
    /// The reservation; all 0 once its last effect is over.
    pub(crate) reserved: Reservation,
    /// Runtime left in this period.
    pub runtime_ns: i64,
    /// Its deadline, on the clock of its run queue.
    pub deadline_ns: Ns,
    /// Reserved runtime by period (`dl_bw`).
    pub bw: u64,
    /// The same by deadline (`dl_density`).
    density: u64,
    /// Waits for a new period (`dl_throttled`).
    pub(crate) throttled: bool,
    /// It gave the rest of its period up (`dl_yielded`).
    yielded: bool,
    /// Asleep before its 0-lag time: its utilisation counts as active (`dl_non_contending`).
    non_contending: bool,
    /// In the order of deadlines of its CPU (`on_dl_rq`).
    queued: bool,
    /// Its timers are set (`dl_timer`, `inactive_timer`).
    timer_set: bool,
    inactive_timer_set: bool,
    /// Where they were set the last time.
    timer_cpu: Option<Cpu>,
    inactive_timer_cpu: Option<Cpu>,
    /// The task is gone and its row waits for the timer.
    reaped: bool,
}

impl DlEntity {
    /// Deadline and period are the same (`dl_is_implicit`).
    fn is_implicit(&self) -> bool {
        self.reserved.deadline_ns == self.reserved.period_ns
    }

    /// Whether its deadline has passed. 0 = it never had one, which is long ago on any machine.
    fn is_late(&self, clock: Ns) -> bool {
        self.deadline_ns == 0 || before(self.deadline_ns, clock)
    }

    /// When the next period begins (`dl_next_period`).
    fn next_period_ns(&self) -> Ns {
        self.deadline_ns
            .wrapping_sub(self.reserved.deadline_ns)
            .wrapping_add(self.reserved.period_ns)
    }
}

/// Entry in the order of deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Queued {
    deadline_ns: Ns,
    /// `None` = the fair server of the CPU.
    task: Option<TaskId>,
}

/// The class on one CPU (`struct dl_rq`).
#[derive(Clone, Debug, Default)]
pub struct DlRq {
    /// By deadline, equal ones in the order of arrival; the running one is among them.
    queue: Vec<Queued>,
    /// Tasks that wait and may run elsewhere, by deadline.
    pushable: Vec<TaskId>,
    /// Queued tasks that may run elsewhere (up to 6.6).
    nr_migratory: u32,
    /// Earliest deadline here, 0 = none (`earliest_dl.curr`).
    earliest_ns: Ns,
    /// Earliest deadline of a pushable task (`earliest_dl.next`).
    earliest_pushable_ns: Ns,
    /// Bandwidth of tasks that are not inactive.
    pub running_bw: u64,
    /// Bandwidth of all tasks of this CPU.
    pub this_bw: u64,
    /// This CPU's part of the bandwidth that is not reserved (`extra_bw`).
    pub extra_bw: u64,
    /// Load tracking of the class.
    pub avg: SchedAvg,
    /// Push and pull that wait for the end of the current operation, before those of the real-time
    /// class.
    callbacks_first: bool,
}

/// The class on the whole machine.
#[derive(Clone, Debug, Default)]
pub struct Deadlines {
    /// By task, as far as there have been any.
    entities: Vec<DlEntity>,
    /// By CPU.
    pub rqs: Vec<DlRq>,
    /// Some task has been of this class.
    pub(crate) used: bool,
    /// CPUs with tasks that others could run (`dlo_mask`).
    overloaded: CpuSet,
    /// CPUs of each root domain by their earliest deadlines (`cpudl`).
    latest: [Latest; 2],
    /// Reserved by tasks and fair servers of each root domain (`dl_bw.total_bw`).
    total_bw: [u64; 2],
    /// Bandwidth of a CPU that may be reserved; `None` = all (`dl_bw.bw`).
    limit_bw: Option<u64>,
    /// The same where a share has to be named (`max_bw`), and its inverse (`bw_ratio`).
    max_bw: u64,
    bw_ratio: u64,
}

/// Part of a period in 20 bits behind the point (`to_ratio`).
pub(crate) const fn to_ratio(period_ns: Ns, runtime_ns: Ns) -> u64 {
    match (runtime_ns << BW_SHIFT).checked_div(period_ns) {
        Some(ratio) => ratio,
        None => 0,
    }
}

/// Whether `a` comes before `b` (`dl_time_before`).
const fn before(a: Ns, b: Ns) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

impl Deadlines {
    /// State in which only the fair servers have reserved bandwidth.
    pub(crate) fn new(topology: &Topology, rules: &Rules) -> Self {
        let (cpus, spans) = (topology.cpus(), topology.root_spans());
        let mut all = Self {
            rqs: vec![DlRq::default(); cpus],
            latest: spans.map(|span| Latest::new(cpus, span)),
            ..Self::default()
        };
        all.set_limit(rules);
        let server_bw = rules.fair_server_bw();
        for cpu in 0..cpus {
            let together = topology.root_span(Cpu::from(cpu)).len();
            let part = server_bw / together as u64;
            // A limit below the servers' share makes it wrap, as in the kernel's u64.
            let reserved = part * together as u64;
            all.rqs[cpu].extra_bw = all.max_bw.wrapping_sub(reserved);
            all.rqs[cpu].this_bw = server_bw;
        }
        all.total_bw = spans.map(|span| server_bw * span.len() as u64);
        all
    }

    /// How many of a CPU's runnable tasks are of this class.
    pub(crate) fn counted(&self, rules: &Rules, cpu: Cpu) -> u32 {
        let queue = &self.rqs[cpu.index()].queue;
        let counts = |queued: &&Queued| queued.task.is_some() || rules.fair_server_counts;
        queue.iter().filter(counts).count() as u32
    }

    fn entity(&mut self, task: TaskId) -> &mut DlEntity {
        if task.index() >= self.entities.len() {
            self.entities.resize(task.index() + 1, DlEntity::default());
        }
        &mut self.entities[task.index()]
    }

    /// State of a task in the deadline class.
    pub fn of(&self, task: TaskId) -> DlEntity {
        let row = self.entities.get(task.index());
        row.copied().unwrap_or_default()
    }

    /// A dead task's row may be used again; `false` = not before its timer has fired.
    pub(crate) fn reap(&mut self, task: TaskId) -> bool {
        let Some(entity) = self.entities.get_mut(task.index()) else {
            return true;
        };
        entity.reaped = entity.timer_set || entity.inactive_timer_set;
        if !entity.reaped {
            *entity = DlEntity::default();
        }
        !entity.reaped
    }

    /// The rows of this CPU.
    fn rq(&mut self, cpu: Cpu) -> &mut DlRq {
        &mut self.rqs[cpu.index()]
    }
}
