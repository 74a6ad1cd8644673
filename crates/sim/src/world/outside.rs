//! The half of a world that is not the scheduler.

use super::devices::Devices;
use super::explain::Explained;
use super::hardware::HardwareSlots;
use super::interrupts::Callers;
use super::patience::Patience;
use super::script::Script;
use super::tasks::Tasks;
use crate::hardware::lateness::Lateness;
use crate::hardware::lines::LineTable;
use crate::hardware::{Baseline, Hardware};
use crate::machine::Machine;
use crate::probe::Probes;
use crate::program::Instruction;
use crate::random::Stream;
use crate::timers::{Armed, TimerId, Timers};
use crate::wheel::{Key, Slot, Wheel};
use crate::workload::Workload;
use schedcast_kernel::platform::{Ipi, Op};
use schedcast_kernel::table::Table;
use schedcast_kernel::{Cpu, GroupId, Ns, TaskId};
use std::sync::Arc;

/// Classes of events at equal times: what goes first.
pub(super) mod class {
    pub(crate) const CHANGE: u8 = 0;
    pub(crate) const IPI: u8 = 1;
    pub(crate) const DEVICE_TIMER: u8 = 2;
    pub(crate) const ARRIVAL: u8 = 3;
    pub(crate) const START: u8 = 4;
    pub(crate) const SEGMENT: u8 = 5;
    /// Interrupts that wait for the next step of an operation in progress.
    pub(crate) const PENDING: u8 = 6;
}

/// Event slots every CPU has.
pub(super) mod per_cpu {
    /// End of what the CPU executes.
    pub(crate) const SEGMENT: u32 = 0;
    pub(crate) const RESCHED: u32 = 1;
    pub(crate) const CALL: u32 = 2;
    /// The timer hardware.
    pub(crate) const DEVICE: u32 = 3;
    pub(crate) const COUNT: u32 = 4;
}

/// Purpose of the event slots behind those of the CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Next task of the workload to start.
    Starts,
    /// Next timed change.
    Changes,
    /// Next arrival of a source.
    Arrivals(u32),
    /// The first of those that wait until a CPU takes them.
    Callers(Cpu),
    /// Completion of a task's I/O.
    Io(TaskId),
    /// A device is done with the request of this row.
    Completion(u32),
    /// End of a clock's transition.
    Transition(usize),
    /// Hardware that manages its P-states looks how busy CPUs are.
    Look,
    /// Clients lose their patience.
    Patience,
    /// A CPU has polled long enough.
    PollLimit(Cpu),
}

/// Use of a CPU's time. The three sum up to the time that passed (to its cursor).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    /// Executing instructions of tasks.
    pub user_ns: Ns,
    /// Executing kernel operations.
    pub overhead_ns: Ns,
    /// Idle, leaving idle states included.
    pub idle_ns: Ns,
}

/// State of a CPU as hardware.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuState {
    /// The CPU is busy with a kernel operation until then.
    pub cursor: Ns,
    /// When its tick is due, `Ns::MAX` when it is stopped.
    pub tick_at: Ns,
    /// When its tick was armed, in the order of all timers.
    pub tick_order: u32,
    /// How long after the programmed time the timer interrupts, ns.
    pub timer_offset_ns: Ns,
    /// Task it executes; `None` in the idle loop.
    pub running: Option<TaskId>,
    /// Up to when the execution of `running` is accounted.
    pub started: Ns,
    /// Since when it sleeps in its idle state; only while `idle`, and only where the hardware is
    /// modelled.
    pub idle_since: Ns,
    /// Up to when its idle time is accounted; only while `idle`.
    pub idle_counted: Ns,
    /// Since when it executes; only while not `idle`.
    pub awake_since: Ns,
    /// Speed with warm caches, [`crate::segment::SPEED_NOMINAL`] = nominal.
    pub warm_speed: u32,
    /// Speed at which the task executes: `warm_speed`, less while its caches are cold.
    pub speed: u32,
    /// Factor of prices because of `warm_speed`, in 65536ths. The caches of a task are its own: the
    /// kernel's work for it costs the same before and after they are refilled.
    pub price_scale: u64,
    /// It executes with cold caches.
    pub cold: bool,
    /// Idle state the kernel chose.
    pub idle_row: usize,
    /// How long it polls in it.
    pub poll_limit_ns: Option<Ns>,
    /// In the idle loop.
    pub idle: bool,
    /// A store to its flag word is on the way: it wakes without an interrupt.
    pub poked: bool,
    /// In the timer interrupt, or on the way there: the hardware is programmed once, at its end.
    pub in_timer_interrupt: bool,
    /// On the way out of the timer interrupt: what is moved now costs no interrupt.
    pub leaves_timer_interrupt: bool,
    /// For when the hardware is still programmed, though the lazy timer that was due then was moved
    /// or cancelled; `Ns::MAX` = for nothing.
    pub stale_at: Ns,
    /// Accounting.
    pub time: CpuTime,
    /// Address spaces it holds translations of.
    pub translations: crate::hardware::translations::Translations,
}

/// Code and tables all copies of a world share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub workload: Arc<Workload>,
    /// Instructions of all programs, each followed by an exit.
    pub code: Vec<Instruction>,
    /// Where each program begins in `code`.
    pub entries: Vec<u32>,
    /// Jump tables of all programs, as places in `code`.
    pub tables: Vec<Vec<u32>>,
    /// Rows of `workload.tasks` by start time.
    pub starts: Vec<u32>,
    /// To which entity the random draws of each row of `workload.tasks` belong.
    pub task_entities: Vec<u64>,
    /// Hash of the name of each row of `workload.forks`.
    pub fork_hashes: Vec<u64>,
}

/// Where an arrival source stands.
#[derive(Clone, Debug)]
pub(crate) struct SourceState {
    /// Next entry of a list.
    pub next: usize,
    /// Time of the next arrival of a stream; when the round under way began, which for the first
    /// one is before the run and wraps.
    pub at_ns: Ns,
    /// Random stream of the intervals.
    pub stream: Stream,
}

impl SourceState {
    /// Goes to the first of `arrivals` of the next round if those of this one are over.
    pub(super) fn begin_round(&mut self, arrivals: usize, round_ns: Ns) {
        if self.next >= arrivals {
            self.next = 0;
            self.at_ns = self.at_ns.wrapping_add(round_ns);
        }
    }
}

/// Machine, event queue, tasks, objects, probes: what the kernel sees as its platform.
#[derive(Clone, Debug)]
pub(crate) struct Outside<const EXPLAIN: bool = false> {
    /// Time of the event being handled.
    pub(crate) now: Ns,
    /// No event after this is handled.
    pub(super) limit: Ns,
    /// Tasks for whose end a run waits and that are not there yet.
    pub(super) to_start: usize,
    /// Whether the run ends with its last program.
    pub(super) ends_with_programs: bool,
    /// When it has ended so, `Ns::MAX` before.
    pub(super) end_ns: Ns,
    /// CPU that handles it.
    pub(super) executing: Cpu,
    pub(crate) machine: Machine,
    pub(crate) cpus: Table<CpuState>,
    pub(super) hardware: Hardware,
    /// Contended lines; `None` = none are.
    pub(super) lines: Option<LineTable>,
    pub(super) scripts: Table<Script>,
    pub(super) hardware_slots: HardwareSlots,
    pub(super) hardware_baseline: Baseline,
    /// `load_avg_writes` of the groups when statistics began; empty = 0.
    pub(super) load_avg_writes_before: Vec<u64>,
    pub(super) wheel: Wheel,
    pub(super) sources: Vec<Source>,
    pub(super) timers: Timers,
    /// How many timers a task has, as a power of 2.
    pub(super) timer_shift: u32,
    pub(crate) tasks: Tasks,
    pub(crate) probes: Probes,
    pub(crate) shared: Arc<Shared>,
    pub(super) seed: u64,
    pub(super) newidle_dice: Vec<Stream>,
    /// By CPU, how late its timer interrupts are.
    pub(super) timer_lateness: Vec<Lateness>,
    pub(super) arrivals: Vec<SourceState>,
    pub(super) devices: Devices,
    pub(super) patience: Patience,
    /// By CPU.
    pub(super) callers: Vec<Callers>,
    pub(super) next_start: usize,
    pub(super) next_change: usize,
    /// Instructions executed at `steps_at`.
    pub(super) steps: u64,
    pub(super) steps_at: Ns,
    /// Decisions not yet taken by the caller; none unless `EXPLAIN`.
    pub(super) decisions: Vec<Explained>,
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    #[inline(always)]
    pub(super) fn slot(cpu: Cpu, kind: u32) -> Slot {
        Slot(cpu.0 * per_cpu::COUNT + kind)
    }

    /// Whether a task is one of the machine's own threads, for whose end no run waits.
    pub(super) fn is_of_machine(&self, name: super::tasks::Name) -> bool {
        let super::tasks::Name::Spec(row) = name else {
            return false;
        };
        self.shared.workload.tasks[row as usize].asleep_in.is_some()
    }

    /// The clock of a CPU: its cursor, or the event being handled if that is later.
    #[inline(always)]
    pub(crate) fn clock(&self, cpu: Cpu) -> Ns {
        self.cpus[cpu].cursor.max(self.now)
    }

    /// Goes on to `key` at once if no other event comes before it; as if it had been armed and had
    /// left the queue.
    #[inline]
    pub(super) fn advance_to(&mut self, key: Key) -> bool {
        if key.time() > self.limit || self.wheel.peek() <= key {
            return false;
        }
        self.wheel.pass(key);
        self.now = key.time();
        true
    }

    /// Timers of groups come first, then the 0-lag times of fair servers, then timers of tasks: one
    /// each, or four where there are deadline tasks.
    #[inline(always)]
    pub(super) fn task_timer(&self, task: TaskId) -> TimerId {
        let of_servers = self.fair_server_inactive_timer(Cpu(self.cpus.len() as u32));
        TimerId(of_servers.0 + (task.0 << self.timer_shift))
    }

    /// 0-lag time of a CPU's fair server.
    #[inline(always)]
    pub(super) fn fair_server_inactive_timer(&self, cpu: Cpu) -> TimerId {
        TimerId(2 * (self.shared.workload.groups.len() as u32 + 1) + cpu.0)
    }

    /// Timers of a deadline task, behind its own: of its next period and of its 0-lag time.
    pub(super) fn deadline_timer(&self, task: TaskId, inactive: bool) -> TimerId {
        TimerId(self.task_timer(task).0 + 1 + u32::from(inactive))
    }

    /// Timer of a CPU's fair server: its idle task, whose number this is, never sleeps.
    #[inline(always)]
    pub(super) fn fair_server_timer(&self, cpu: Cpu) -> TimerId {
        self.task_timer(TaskId(cpu.0))
    }

    /// Timer that ends requests on a CPU: its migration thread, whose number this is, never sleeps
    /// either.
    #[inline(always)]
    pub(super) fn hrtick_timer(&self, cpu: Cpu) -> TimerId {
        self.task_timer(TaskId(self.cpus.len() as u32 + cpu.0))
    }

    /// Arms a timer on a CPU's base, moving it if it is armed.
    #[inline]
    pub(super) fn arm_timer(&mut self, cpu: Cpu, timer: TimerId, soft: Ns, slack: Ns) {
        self.cancel_timer(timer);
        let hard = soft.saturating_add(slack);
        self.timers.arm(cpu, Armed { hard, soft, timer });
        self.program_device(cpu);
    }

    /// Arms the timer of a task that is about to sleep; as the first of its CPU its deadline is
    /// written to the hardware (`hrtimer_reprogram`).
    pub(super) fn arm_sleep_timer(&mut self, cpu: Cpu, timer: TimerId, soft: Ns, slack: Ns) {
        let slot = <Outside>::slot(cpu, per_cpu::DEVICE);
        let before = self.wheel.armed(slot);
        self.arm_timer(cpu, timer, soft, slack);
        if self.wheel.armed(slot) != before {
            self.write_deadline(cpu);
        }
    }

    /// The CPU writes the deadline of its next timer.
    pub(super) fn write_deadline(&mut self, cpu: Cpu) {
        let price_ns = self.machine.deadline_write_ns;
        if price_ns > 0 {
            self.charge(cpu, Op::TickReprogram, price_ns, 1);
        }
    }

    /// Disarms a timer.
    #[inline]
    pub(super) fn cancel_timer(&mut self, timer: TimerId) {
        if let Some(cpu) = self.timers.cancel(timer) {
            self.program_device(cpu);
        }
    }

    /// Moves a lazy timer, or cancels it. The hardware stays programmed for when it was the first
    /// to be due: an interrupt that finds nothing to do costs less than to program it on every
    /// switch (`HRTIMER_MODE_LAZY_REARM`).
    pub(super) fn move_lazily(&mut self, cpu: Cpu, timer: TimerId, at: Option<Ns>) {
        let state = &self.cpus[cpu];
        if let Some(first) = self.timers.first(cpu)
            && first.timer == timer
            && !state.in_timer_interrupt
            && !state.leaves_timer_interrupt
            && (self.timers).runs_before_tick(&first, state.tick_at, state.tick_order)
        {
            self.cpus[cpu].stale_at = state.stale_at.min(first.hard);
        }
        match at {
            Some(at) => self.arm_timer(cpu, timer, at, 0),
            None => self.cancel_timer(timer),
        }
    }

    /// When the next timer or tick of a CPU is due, `Ns::MAX` when none is.
    #[inline(always)]
    pub(super) fn next_expiry(&self, cpu: Cpu) -> Ns {
        let first = self.timers.first(cpu).map_or(Ns::MAX, |armed| armed.hard);
        first.min(self.cpus[cpu].tick_at)
    }

    /// Programs the timer hardware of a CPU for its next timer or tick. A time for which it is
    /// programmed in vain gives way to an earlier one only.
    #[inline(always)]
    pub(super) fn program_device(&mut self, cpu: Cpu) {
        let next = self.next_expiry(cpu);
        let state = &mut self.cpus[cpu];
        if state.in_timer_interrupt {
            return;
        }
        let at = next.min(state.stale_at);
        if at == next {
            state.stale_at = Ns::MAX;
        }
        self.program_device_for(cpu, at);
    }

    /// Programs it for `at`, `Ns::MAX` = never.
    #[inline(always)]
    pub(super) fn program_device_for(&mut self, cpu: Cpu, at: Ns) {
        let slot = <Outside>::slot(cpu, per_cpu::DEVICE);
        if at == Ns::MAX {
            self.wheel.disarm(slot);
            return;
        }
        let offset_ns = self.cpus[cpu].timer_offset_ns;
        let key = Key::new(at + offset_ns, class::DEVICE_TIMER);
        if self.wheel.armed(slot) != Some(key) {
            self.wheel.arm(slot, key);
        }
    }

    pub(super) fn ipi_slot(cpu: Cpu, ipi: Ipi) -> Slot {
        let kind = match ipi {
            Ipi::Resched => per_cpu::RESCHED,
            Ipi::Call => per_cpu::CALL,
        };
        <Outside>::slot(cpu, kind)
    }

    /// Adds an event slot behind those of the CPUs.
    pub(super) fn add_source(&mut self, source: Source) -> Slot {
        self.sources.push(source);
        self.wheel.add_slot()
    }

    /// CPUs that the cpusets of a group and of those above it leave; `None` = all.
    pub(super) fn cpuset(&self, group: GroupId) -> Option<schedcast_kernel::cpuset::CpuSet> {
        self.shared.workload.groups[group.index().checked_sub(1)?].cpus
    }

    /// Path of a group.
    pub(super) fn group_path(&self, group: GroupId) -> &str {
        match group.index().checked_sub(1) {
            None => "/",
            Some(row) => &self.shared.workload.groups[row].path,
        }
    }
}
