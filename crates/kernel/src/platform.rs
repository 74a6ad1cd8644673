//! The one contract between what Linux decides and the world it decides in.
//!
//! The kernel crate is a pure state machine. Whenever it needs the time, spends some, arms a timer
//! or interrupts another CPU, it says so through [`Platform`]; the simulator is the first
//! implementation. `Kernel` methods are generic over it, so the calls inline.
//!
//! # Time inside an operation
//!
//! An operation (a wakeup, a tick, a switch) changes scheduler state at once, at the moment it
//! starts, and takes time afterwards. [`Platform::spend`] moves the *cursor* of the executing CPU
//! forward; whatever the operation sets off later in its course takes effect at the cursor. Worked
//! example: at t = 1000 ns CPU 0 wakes a task for idle CPU 1. `spend(Cpu(0), Op::Wakeup, 1)` with a
//! price of 700 ns moves the cursor of CPU 0 to 1700; `send_ipi(Cpu(0), Cpu(1), …)` leaves at 1700
//! and arrives, with 1000 ns of delivery, at 2700. A timer of CPU 0 that expires at 1200 waits
//! until the cursor, 1700.
//!
//! # Contended lines
//!
//! [`Platform::touch`] asks for a cache line that several CPUs write. A platform that models
//! contention grants lines in time order over all CPUs and makes the CPU burn the time it waits; a
//! platform that does not model it returns at once.

use crate::cpufreq::{Counters, HwpRequest};
use crate::ids::{Cpu, GroupId, Ns, TaskId};

schedcast_base::named! {
    /// Every kernel operation that costs time. The machine prices them in nanoseconds, a report can
    /// therefore say where the time went. Names are those of machine files and of the metrics
    /// `machine/overhead.*`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    #[repr(u8)]
    pub enum Op {
        /// `context_switch` between tasks of different address spaces.
        ContextSwitch = "context_switch",
        /// `context_switch` between threads of one process, or to and from the idle task.
        ContextSwitchThread = "context_switch_thread",
        /// `try_to_wake_up` until the clock of the run queue is read, without placement scan.
        Wakeup = "wakeup",
        /// The rest of a wakeup after that, without the enqueue: on the CPU that enqueues.
        WakeupEnd = "wakeup_end",
        /// Path of a call that sleeps until `__schedule` reads the clock of the run queue.
        Block = "block",
        /// One CPU examined by a placement scan (`select_idle_cpu`, `select_idle_core`).
        SelectScanCpu = "select_scan_cpu",
        /// Enqueue at one level of the group hierarchy.
        EnqueueLevel = "enqueue_level",
        /// Dequeue at one level of the group hierarchy.
        DequeueLevel = "dequeue_level",
        /// `update_cfs_group` at one level.
        UpdateCfsGroup = "update_cfs_group",
        /// Timer tick, without the per-level part.
        Tick = "tick",
        /// Tick work at one level of the hierarchy.
        TickLevel = "tick_level",
        /// Sending an interprocessor interrupt, on the sender; and on who waits for the lock of a
        /// queue held meanwhile.
        IpiSend = "ipi_send",
        /// Handling an interprocessor interrupt, on the receiver.
        IpiReceive = "ipi_receive",
        /// Interrupt entry and exit of a timer (hrtimer) interrupt. Charged by the platform: one
        /// interrupt may run several timers.
        TimerInterrupt = "timer_interrupt",
        /// Interrupt entry and exit of a device interrupt.
        DeviceInterrupt = "device_interrupt",
        /// A system call's entry and exit.
        Syscall = "syscall",
        /// Load balance of one domain, per CPU looked at.
        BalanceCpu = "balance_cpu",
        /// Moving one task between run queues in load balance.
        BalanceMoveTask = "balance_move_task",
        /// Period timer handler, without distribution.
        BandwidthPeriodTimer = "bandwidth_period_timer",
        /// Unthrottling one queue.
        Unthrottle = "unthrottle",
        /// `fork`.
        Fork = "fork",
        /// `exit`.
        Exit = "exit",
        /// Programming the clock event device when the tick is stopped or restarted.
        TickReprogram = "tick_reprogram",
    }
}

impl Op {
    /// Number of operations, for price tables indexed by `op as usize`.
    pub const COUNT: usize = Op::ALL.len();
}

/// A cache line that several CPUs write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Line {
    /// `tg->load_avg` of a group.
    GroupLoadAvg(GroupId),
    /// The run queue lock of a CPU.
    RqLock(Cpu),
    /// The idle hints (`has_idle_cores`, `nr_idle_scan`) of the LLC that starts at this CPU.
    LlcIdleHints(Cpu),
    /// A word outside of the scheduler that tasks add to, by the number that the outside gave it.
    Word(u32),
}

/// How a line is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Access {
    /// Needs the line shared.
    Read,
    /// Needs the line exclusive (an atomic read-modify-write counts as this).
    Write,
}

/// Timers the kernel itself keeps. Each exists once, so arming again moves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Timer {
    /// The scheduler tick of a CPU.
    Tick(Cpu),
    /// `cfs_b->period_timer` of a group.
    BandwidthPeriod(GroupId),
    /// `cfs_b->slack_timer` of a group.
    BandwidthSlack(GroupId),
    /// Period of real-time throttling (≤ 6.11): [`crate::Kernel::rt_period_timer`].
    RtPeriod,
    /// Zero laxity or new period of a CPU's fair server (6.12):
    /// [`crate::Kernel::fair_server_timer`].
    FairServer(Cpu),
    /// 0-lag time of a CPU's fair server: [`crate::Kernel::fair_server_inactive_timer`].
    FairServerInactive(Cpu),
    /// Next period of a deadline task: [`crate::Kernel::dl_timer`].
    Deadline(TaskId),
    /// 0-lag time of a deadline task: [`crate::Kernel::dl_inactive_timer`].
    Inactive(TaskId),
    /// End of the running fair task's request (7.1): [`crate::Kernel::hrtick_timer`].
    Hrtick(Cpu),
}

/// Why a CPU is interrupted by another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Ipi {
    /// `smp_send_reschedule`: look at the need-resched flag.
    Resched,
    /// Function call: pending wakeups, asynchronous unthrottling or a nohz balance kick.
    Call,
}

/// Where the kernel draws a random number (and nowhere else).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Draw {
    /// Initial offset of a group's period timer, `init_cfs_bandwidth` (6.4).
    BandwidthPhase(GroupId),
    /// Dice of `sched_balance_newidle` with `NI_RANDOM` (6.19 and backports).
    NewidleDice(Cpu),
}

/// State a task is left in by `schedule()`, as printed by `sched_switch`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PrevState {
    /// Still runnable: preempted, yielded, or throttled at return to user.
    Runnable,
    /// Blocked (interruptible or not).
    Blocked,
    /// Left the run queue because its group is throttled (6.18).
    Throttled,
    /// Gone.
    Dead,
}

/// Decision or event that an observer may record; never fed back into decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observation {
    /// `cpu` switches from one task to another (idle tasks included).
    Switch {
        /// Task that leaves.
        prev: TaskId,
        /// State it leaves in.
        state: PrevState,
        /// Task that runs now.
        next: TaskId,
    },
    /// A task became runnable and was enqueued.
    Wakeup {
        /// The task.
        task: TaskId,
        /// Where it was enqueued.
        cpu: Cpu,
    },
    /// A CPU was chosen for a task that wakes or starts. Kernel trees tell it; of the rules,
    /// [`Platform::explain`] tells it with its reasons.
    Place {
        /// The task.
        task: TaskId,
        /// Task that runs where it is woken.
        waker: TaskId,
        /// CPU it ran on last.
        prev: Cpu,
        /// Chosen CPU.
        cpu: Cpu,
    },
    /// A task's CPU changes.
    Migrate {
        /// The task.
        task: TaskId,
        /// Old CPU.
        from: Cpu,
        /// New CPU.
        to: Cpu,
    },
    /// A queue ran out of runtime.
    Throttle {
        /// Its group.
        group: GroupId,
        /// Its CPU.
        cpu: Cpu,
    },
    /// A throttled queue may run again.
    Unthrottle {
        /// Its group.
        group: GroupId,
        /// Its CPU.
        cpu: Cpu,
    },
    /// One expiry of a group's period timer.
    Period {
        /// The group.
        group: GroupId,
        /// Pool before the refill: what the period left unused.
        pool_before_ns: i64,
        /// Pool after it, before any of it is handed out; the same where the timer stopped instead.
        pool_after_ns: i64,
        /// Periods elapsed.
        overrun: u64,
        /// Whether a queue was throttled.
        throttled: bool,
    },
}

/// The world as the kernel sees it. All times in nanoseconds.
pub trait Platform {
    /// `true` when decisions are to be reported to [`Platform::explain`]; a constant, so that the
    /// reporting code vanishes when it is off.
    const EXPLAIN: bool = false;

    /// The clock at the cursor of `cpu` (`sched_clock_cpu`). Never behind the event being handled.
    fn now(&self, cpu: Cpu) -> Ns;

    /// Charges `count` times the price of `op` to `cpu` and moves its cursor.
    fn spend(&mut self, cpu: Cpu, op: Op, count: u32);

    /// `cpu` spins for a lock that another one gives up at `until`; nothing where operations take
    /// no time.
    fn spin_until(&mut self, _cpu: Cpu, _until: Ns) {}

    /// Asks for a cache line on behalf of `cpu`.
    fn touch(&mut self, cpu: Cpu, line: Line, access: Access);

    /// Arms (or moves) a timer. It fires on `cpu`, not before `at`.
    fn arm(&mut self, cpu: Cpu, timer: Timer, at: Ns);

    /// `cpu` disarms a timer; no effect when it is not armed.
    fn cancel(&mut self, cpu: Cpu, timer: Timer);

    /// Interrupts `to`; leaves at the cursor of `from`. `polling` means that the idle loop of `to`
    /// watches its flag word, so that the store alone wakes it.
    fn send_ipi(&mut self, from: Cpu, to: Cpu, ipi: Ipi, polling: bool);

    /// A uniformly random number, from a stream of its own per place of drawing.
    fn random(&mut self, draw: Draw) -> u64;

    /// Expiry of the next timer that would interrupt `cpu`, its tick not counted
    /// (`tick_nohz_next_event`). `Ns::MAX` when there is none.
    fn next_timer(&self, cpu: Cpu) -> Ns;

    /// When the clock event device of `cpu` fires, its tick counted
    /// (`hrtimer_cpu_base.expires_next`).
    fn next_expiry(&self, cpu: Cpu) -> Ns {
        self.next_timer(cpu)
    }

    /// `cpu` enters an idle state (a row of the states it was registered with) at its cursor, and
    /// leaves it by itself after `poll_limit_ns`.
    fn enter_idle(&mut self, _cpu: Cpu, _state: usize, _poll_limit_ns: Option<Ns>) {}

    /// The cycle counters of `cpu`.
    fn counters(&mut self, _cpu: Cpu) -> Counters {
        Counters::default()
    }

    /// Asks for a P-state on behalf of `cpu`; what other CPUs of its clock domain ask for counts
    /// too.
    fn request_pstate(&mut self, _cpu: Cpu, _pstate: u32) {}

    /// Tells hardware that manages its own P-states what it may choose for `cpu`.
    fn request_performance(&mut self, _cpu: Cpu, _request: HwpRequest) {}

    /// Tells observers.
    fn observe(&mut self, cpu: Cpu, observation: Observation);

    /// Reports a decision with the state that led to it. Called only when
    /// [`Platform::EXPLAIN`] is set.
    fn explain(&mut self, _cpu: Cpu, _decision: crate::explain::Decision) {}
}
