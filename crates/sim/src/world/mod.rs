//! Everything a run needs, in one value that can be copied at any moment.
//!
//! A [`World`] is two halves: the [`Kernel`], which decides, and the [`Outside`] it decides in: the
//! machine, the event queue, what every task is doing, and the probes. The kernel sees the outside
//! as its [`schedcast_kernel::Platform`].
//!
//! # Worked example: one wakeup, step by step
//!
//! CPU 0 executes task A, CPU 1 idles; prices are those of `generic-8`. A's next instruction posts
//! a semaphore that B waits for. The event "end of A's work" leaves the queue at t = 1000 ns. The
//! interpreter charges the system call: the *cursor* of CPU 0 moves to 1200. It takes B off the
//! wait queue and calls [`Kernel::wake`], which picks CPU 1, charges the wakeup and the sending of
//! an interrupt (cursor 1900), and asks for an interrupt of CPU 1: it is armed for 1900 +
//! 1000 = 2900. [`Kernel::leave_kernel`] returns A, whose next instruction is due at the cursor. A
//! tick of CPU 0 that is due at 1500 finds the cursor ahead and waits until 1900. At 2900 CPU 1
//! begins to leave its idle state; at 4900 it handles the interrupt, switches, and executes B.

mod calls;
mod check;
mod core;
mod devices;
mod engine;
mod error;
mod explain;
mod futures;
mod hardware;
mod interpret;
mod interrupts;
mod lifecycle;
mod outside;
mod patience;
mod platform;
mod script;
mod setup;
mod tasks;
mod unfinished;
mod watch;

pub use core::Core;
pub use error::RunError;
pub use explain::Explained;
pub use outside::CpuTime;
pub(crate) use outside::Outside;
pub use patience::{Message as PatientMessage, PatientSpec, Then, When};
pub use unfinished::{ANSWERED, MessageSpec, NOT_DUE, RequestSpec, Unfinished};
pub use watch::Watch;

use crate::hardware::{LineKind, LineStatistics};
use crate::probe::Probes;
use crate::workload::Workload;
use schedcast_kernel::platform::Access;
use schedcast_kernel::{Cpu, GroupId, Kernel, Ns, TaskId};

/// A machine with its scheduler and everything that runs on it, at one moment.
///
/// With `EXPLAIN` it collects the decisions of the scheduler, see [`World::explaining`]; without,
/// the code that would is not there.
#[derive(Clone, Debug)]
pub struct World<const EXPLAIN: bool = false, K: Core = Kernel> {
    pub(crate) kernel: K,
    pub(crate) out: Outside<EXPLAIN>,
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// Virtual time.
    pub fn now(&self) -> Ns {
        self.out.now
    }

    /// The scheduler's state (counters of `cpu.stat` among it).
    pub fn kernel(&self) -> &Kernel {
        self.kernel.tables()
    }

    /// Lines that the kernel has printed; the rules print none.
    pub fn printed(&self) -> &[String] {
        self.kernel.printed()
    }

    /// Workload that runs.
    pub fn workload(&self) -> &Workload {
        &self.out.shared.workload
    }

    /// Statistics so far.
    pub fn probes(&self) -> &Probes {
        &self.out.probes
    }

    /// Statistics, to switch the trace or the log on and to take what they collected.
    pub fn probes_mut(&mut self) -> &mut Probes {
        &mut self.out.probes
    }

    /// Hash over all scheduling events so far, 16 hexadecimal digits.
    pub fn event_hash(&self) -> String {
        self.out.probes.event_hash.hex()
    }

    /// Time of a CPU by use since statistics count.
    pub fn cpu_time(&self, cpu: Cpu) -> CpuTime {
        self.out.cpus[cpu].time
    }

    /// Statistics of accesses to contended lines of a kind since statistics count; `None` when none
    /// are modelled.
    pub fn line_statistics(&self, kind: LineKind, access: Access) -> Option<LineStatistics> {
        let lines = self.out.lines.as_ref()?;
        Some(lines.statistics[kind as usize][access as usize])
    }

    /// Writes to `tg->load_avg` of a group before statistics counted.
    pub fn group_baseline(&self, group: GroupId) -> u64 {
        let before = self.out.load_avg_writes_before.get(group.index());
        before.copied().unwrap_or(0)
    }

    /// Share of time the CPUs were not idle since statistics count. A CPU that is on its way out of
    /// idle when the run ends has the whole way counted as idle; in a run of microseconds that is
    /// longer than the run.
    pub fn busy_ratio(&self) -> f64 {
        let idle_ns: Ns = self.out.cpus.iter().map(|cpu| cpu.time.idle_ns).sum();
        let all_ns = (self.out.now - self.out.probes.since) * self.out.cpus.len() as Ns;
        if all_ns == 0 {
            return 0.0;
        }
        (1.0 - idle_ns as f64 / all_ns as f64).max(0.0)
    }

    /// Name of a task; of the last task that used the row, for dead ones.
    pub fn task_name(&self, task: TaskId) -> &str {
        match self.out.tasks.contexts.get(task.index()) {
            Some(row) if row.name != tasks::Name::Kernel => row.name.of(self.workload()),
            _ if task.index() < self.out.cpus.len() => "swapper",
            _ => tasks::Name::Kernel.of(self.workload()),
        }
    }

    /// Whether a task is there from the begin, and no other one forks it.
    pub fn is_there_at_start(&self, task: TaskId) -> bool {
        let row = self.out.tasks.contexts.get(task.index());
        row.is_some_and(|row| matches!(row.name, tasks::Name::Spec(_)))
    }

    /// Number of live tasks of user space. Kernel threads never end and are not counted.
    pub fn live_tasks(&self) -> usize {
        self.out.tasks.live
    }

    /// Whether tasks of user space live or are still to start. Kernel threads never end and do not
    /// count.
    pub fn awaits_tasks(&self) -> bool {
        self.out.tasks.live + self.out.to_start > 0
    }

    /// Lets the run end where its last program does: no event after that is handled, however long
    /// the world is told to run, and its clock stays there. What is per time is then per time of
    /// the programs.
    pub fn end_with_programs(&mut self) {
        self.out.ends_with_programs = true;
    }

    /// Whether a run that ends with its programs has.
    pub fn is_over(&self) -> bool {
        self.out.now >= self.out.end_ns
    }

    /// Changes tunables and features of the running kernel; entities take up a new base slice when
    /// their present request ends, as after a write to debugfs.
    pub fn set_rules(&mut self, rules: schedcast_kernel::rules::Rules) {
        self.kernel.set_rules(rules);
    }

    /// Changes how fast a CPU executes, in 65536ths of nominal speed (65536 = nominal); what it
    /// executes is re-timed.
    pub fn set_speed(&mut self, cpu: Cpu, speed: u32) {
        self.out.set_speed(cpu, speed);
    }

    /// Forgets all statistics so far (a warm-up). The run itself is not changed.
    pub fn reset_statistics(&mut self) {
        self.settle();
        let now = self.out.now;
        self.out.probes.reset(now);
        let alive = engine::charges(self.kernel.tables());
        self.out.probes.forget_charges(alive);
        if let Some(lines) = &mut self.out.lines {
            lines.statistics = Default::default();
        }
        self.out.hardware_baseline = self.out.hardware.reset(now);
        let groups = self.kernel.tables().groups.iter();
        self.out.load_avg_writes_before = groups.map(|group| group.load_avg_writes).collect();
        for cpu in &mut self.out.cpus {
            cpu.time = CpuTime::default();
        }
    }
}
