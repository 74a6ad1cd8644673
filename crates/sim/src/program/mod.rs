//! Programs of tasks: a small instruction set that every workload compiles to.
//!
//! A [`Program`] is a list of 16-byte [`Instruction`]s. Each task that runs it has registers of its
//! own (`u64`, times in nanoseconds of virtual time); everything tasks share (semaphores, queues,
//! locks, words of memory) is an object of the [`crate::Workload`] and is named by a number that
//! may also stand in a register, so one program serves many tasks.
//!
//! # Worked example
//!
//! A thread that needs 0.33 ms of CPU every 5 ms, on an absolute grid, and records how late each
//! round ends after its start:
//!
//! ```
//! use schedcast_sim::{Program, ProgramBuilder, Reg, Workload};
//!
//! let mut workload = Workload::default();
//! let response = workload.add_metric("job/response_time");
//! let next = Reg(0);
//! let mut b = ProgramBuilder::new("periodic");
//! let top = b.label();
//! b.now(next);                 // first activation: when the thread starts
//! b.bind(top);
//! b.work(330_000);             // 0.33 ms at nominal speed
//! b.record_since(response, next);
//! b.add(next, 5_000_000);
//! b.sleep_until(next);         // returns at once when that is long past
//! b.jump(top);
//! let program: Program = b.finish().unwrap();
//! assert_eq!(program.instructions().len(), 6);
//! ```
//!
//! # Time
//!
//! Only [`Instruction::Work`], [`Instruction::Spin`] and [`Instruction::KernelWork`] consume CPU
//! time of their own. Instructions that enter the kernel (everything that may block, wake, send or
//! change attributes) cost what the machine says a system call and the scheduler operations cost.
//! Register arithmetic and measurement are free.

mod builder;
mod distribution;
pub(crate) mod operands;

pub use builder::{Label, ProgramBuilder, ProgramError};
pub(crate) use distribution::interpolate;
pub use distribution::{Distribution, DistributionError};

use crate::workload::{
    AttributesId, BarrierId, ConditionId, DeviceId, DistributionId, ForkId, MetricId, MutexId,
    PatientId, QueueId, SemaphoreId, WordId,
};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Most registers a program may use.
pub const REGISTERS_MAX: usize = 64;
/// Value a timed wait leaves in its register when the time was up.
pub const TIMED_OUT: u64 = u64::MAX;

/// A register of the executing task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Reg(pub u8);

/// An operand in 8 bytes: a number below 2⁶², a register, or a draw from a distribution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Amount(u64);

/// An [`Amount`] taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AmountKind {
    /// This number.
    Fixed(u64),
    /// The content of a register.
    Reg(Reg),
    /// A fresh draw; `stream` is the program-local random stream it comes from.
    Draw {
        /// Distribution of the workload.
        distribution: DistributionId,
        /// Random stream of the task, numbered per program.
        stream: u16,
    },
}

impl Amount {
    const TAG_SHIFT: u32 = 62;
    const TAG_REG: u64 = 1;
    const TAG_DRAW: u64 = 2;
    /// Largest fixed number; larger ones are cut to it (146 years in nanoseconds).
    pub const FIXED_MAX: u64 = (1 << Self::TAG_SHIFT) - 1;
    /// A wait without a limit.
    pub const FOREVER: Amount = Amount(Self::FIXED_MAX);

    /// A number.
    #[inline]
    pub const fn fixed(value: u64) -> Self {
        Self(if value > Self::FIXED_MAX {
            Self::FIXED_MAX
        } else {
            value
        })
    }

    /// The content of a register at execution.
    #[inline]
    pub const fn reg(reg: Reg) -> Self {
        Self(Self::TAG_REG << Self::TAG_SHIFT | reg.0 as u64)
    }

    /// A draw at each execution. [`ProgramBuilder`] assigns the stream.
    #[inline]
    pub const fn draw(distribution: DistributionId) -> Self {
        Self::draw_from(distribution, 0)
    }

    pub(crate) const fn draw_from(distribution: DistributionId, stream: u16) -> Self {
        Self(Self::TAG_DRAW << Self::TAG_SHIFT | (stream as u64) << 32 | distribution.0 as u64)
    }

    /// Kind of the operand.
    #[inline(always)]
    pub const fn kind(self) -> AmountKind {
        match self.0 >> Self::TAG_SHIFT {
            Self::TAG_REG => AmountKind::Reg(Reg(self.0 as u8)),
            Self::TAG_DRAW => AmountKind::Draw {
                distribution: DistributionId(self.0 as u32),
                stream: (self.0 >> 32) as u16,
            },
            _ => AmountKind::Fixed(self.0),
        }
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

impl From<u64> for Amount {
    fn from(value: u64) -> Self {
        Self::fixed(value)
    }
}

impl From<Reg> for Amount {
    fn from(reg: Reg) -> Self {
        Self::reg(reg)
    }
}

impl From<DistributionId> for Amount {
    fn from(distribution: DistributionId) -> Self {
        Self::draw(distribution)
    }
}

/// Numbers of workload objects that instructions may name.
pub trait ObjectId: Copy + fmt::Debug {
    /// Word for messages, e.g. "queue".
    const WORD: &'static str;
    /// The number.
    fn number(self) -> u32;
}

/// Names a shared object: directly, or by a register that holds its number.
pub struct Ref<K>(u32, PhantomData<K>);

impl<K> Clone for Ref<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Ref<K> {}
impl<K> PartialEq for Ref<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Ref<K> {}

/// A [`Ref`] taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefKind {
    /// The object with this number.
    Number(u32),
    /// The object whose number stands in this register.
    Reg(Reg),
}

impl<K> Ref<K> {
    const BY_REGISTER: u32 = 1 << 31;

    /// Kind of the reference.
    #[inline(always)]
    pub const fn kind(self) -> RefKind {
        if self.0 & Self::BY_REGISTER == 0 {
            RefKind::Number(self.0)
        } else {
            RefKind::Reg(Reg(self.0 as u8))
        }
    }
}

impl<K> fmt::Debug for Ref<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().fmt(f)
    }
}

impl<K: ObjectId> From<K> for Ref<K> {
    fn from(id: K) -> Self {
        Self(id.number() & !Self::BY_REGISTER, PhantomData)
    }
}

impl<K: ObjectId> From<Reg> for Ref<K> {
    fn from(reg: Reg) -> Self {
        Self(Self::BY_REGISTER | u32::from(reg.0), PhantomData)
    }
}

/// Arithmetic on registers (unsigned).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// Wrapping sum.
    Add,
    /// Difference, 0 when the operand is larger.
    SubtractToZero,
    /// Wrapping product.
    Multiply,
    /// Quotient; unchanged when the operand is 0.
    Divide,
    /// Remainder; unchanged when the operand is 0.
    Remainder,
    /// Smaller of the two.
    Min,
    /// Larger of the two.
    Max,
}

/// Unsigned comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the names say it
pub enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// One step of a program. Jump targets are indices into the instruction list; programs are made
/// with [`ProgramBuilder`], which resolves labels and checks registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// Uses this much CPU time (ns at nominal speed) in user mode; a slower CPU takes longer.
    Work(Amount),
    /// Spins until this much wall time (ns) went by. The clock is looked at every `quantum_ns` of
    /// executed work, so being preempted or throttled meanwhile counts, and the end is late by up
    /// to one quantum.
    Spin {
        /// Wall time to pass.
        amount: Amount,
        /// Distance of two looks at the clock.
        quantum_ns: u32,
    },
    /// Uses CPU time in kernel mode with preemption off, e.g. copying a message. For short pieces:
    /// interrupts of this CPU wait until it ends.
    KernelWork(Amount),
    /// The hypervisor takes the CPU away for this wall time (steal): nothing runs there and no task
    /// is charged. It happens when the task gets there, so that a replay of a slow moment need not
    /// know the CPU.
    Stolen(Amount),
    /// `nanosleep`: relative, expires up to the task's timer slack later.
    Sleep(Amount),
    /// `clock_nanosleep(TIMER_ABSTIME)`: until the time in the register, plus slack. Returns at
    /// once if even that is over; a time that has passed by less than the slack is slept for like
    /// any other.
    SleepUntil(Reg),
    /// Synchronous I/O that a device interrupt on the submitting CPU completes after this time. The
    /// task counts as waiting for I/O.
    Io(Amount),
    /// Hands a request to a device and goes on. When the device is done, its interrupt puts `value`
    /// into `queue`, from where a task takes it with [`Instruction::Recv`].
    Submit {
        /// Device.
        device: DeviceId,
        /// Where its interrupt tells that it is done.
        queue: Ref<QueueId>,
        /// Value the receiver gets.
        value: Reg,
        /// Time the device works on it, ns.
        service: Amount,
    },

    /// `sem_post`: adds one and wakes the first waiter. The first task to run takes it.
    SemPost(Ref<SemaphoreId>),
    /// `sem_wait`: takes one, blocks while there is none.
    SemWait(Ref<SemaphoreId>),
    /// Sends a message; blocks while the queue has no room for `bytes`.
    Send {
        /// Queue.
        queue: Ref<QueueId>,
        /// Size.
        bytes: Amount,
        /// Register with the value the receiver gets.
        value: Reg,
        /// Wakes the receiver with the sync hint (`WF_SYNC`).
        sync: bool,
    },
    /// Receives the oldest message; blocks up to `timeout` ns while there is none. The value is
    /// [`TIMED_OUT`] when the time was up first.
    Recv {
        /// Queue.
        queue: Ref<QueueId>,
        /// Gets the value of the message.
        value: Reg,
        /// [`Amount::FOREVER`] for no limit.
        timeout: Amount,
        /// While it waits, the task counts as waiting for I/O (`io_schedule`).
        iowait: bool,
    },
    /// Receives the oldest message, or jumps when there is none.
    TryRecv {
        /// Queue.
        queue: Ref<QueueId>,
        /// Gets the value of the message.
        value: Reg,
        /// Where to go on when the queue is empty.
        empty: u32,
    },
    /// Reads a shared word.
    WordLoad {
        /// Word.
        word: Ref<WordId>,
        /// Gets its value.
        into: Reg,
    },
    /// Writes a shared word. No wakeup.
    WordStore {
        /// Word.
        word: Ref<WordId>,
        /// New value.
        value: Amount,
    },
    /// Adds to a shared word and returns the value before (wrapping).
    WordFetchAdd {
        /// Word.
        word: Ref<WordId>,
        /// Addend.
        value: Amount,
        /// Gets the old value.
        old: Reg,
    },
    /// Adds one to a shared word with an atomic instruction, and waits for its cache line where the
    /// machine has contended lines: a counter that all CPUs write while the kernel works for them.
    WordCount(Ref<WordId>),
    /// `futex(FUTEX_WAIT)`: blocks if the word still has the expected value.
    WordWait {
        /// Word.
        word: Ref<WordId>,
        /// Expected value.
        expected: Amount,
    },
    /// `futex(FUTEX_WAKE)`: wakes up to `count` waiters, first come first.
    WordWake {
        /// Word.
        word: Ref<WordId>,
        /// Most waiters to wake.
        count: Amount,
    },
    /// Takes a mutex; blocks while a task owns it. Waiters are woken first come, first served, but
    /// a task that comes by in between may take it, as with futex-based mutexes.
    Lock(Ref<MutexId>),
    /// Gives a mutex back and wakes the first waiter. Unlocking one that the task does not own does
    /// nothing.
    Unlock(Ref<MutexId>),
    /// Gives the mutex back, waits for a signal, takes the mutex again.
    ConditionWait {
        /// Condition.
        condition: Ref<ConditionId>,
        /// Mutex the task owns.
        mutex: Ref<MutexId>,
    },
    /// Wakes the first waiter. Without one the signal is lost.
    Signal(Ref<ConditionId>),
    /// Wakes all waiters.
    Broadcast(Ref<ConditionId>),
    /// Waits until as many tasks as the barrier counts have come.
    Barrier(Ref<BarrierId>),

    /// Starts a child whose registers begin as a copy of this task's.
    Fork {
        /// Task to start.
        fork: ForkId,
        /// Gets a handle for [`Instruction::Join`].
        child: Reg,
    },
    /// Waits until that child has exited.
    Join(Reg),
    /// Waits until no child of this task lives.
    JoinAll,
    /// Ends the task. The end of the program does the same.
    Exit,
    /// `sched_yield`.
    Yield,
    /// Changes scheduling attributes of this task.
    SetAttributes(AttributesId),

    /// Sets a register: to a number, to another register, or to a draw.
    Set {
        /// Register.
        reg: Reg,
        /// Value.
        value: Amount,
    },
    /// `reg = reg op operand`.
    Arithmetic {
        /// Operation.
        op: Arithmetic,
        /// Left operand and result.
        reg: Reg,
        /// Right operand.
        operand: Amount,
    },
    /// Sets a register to the clock.
    Now(Reg),
    /// Sets a register to the CPU time of this task, in ns: a system call,
    /// `clock_gettime(CLOCK_THREAD_CPUTIME_ID)`, or `CLOCK_PROCESS_CPUTIME_ID` of a process with
    /// one thread.
    CpuTime(Reg),
    /// Sets a register to the number of the executing CPU (`sched_getcpu`).
    GetCpu(Reg),
    /// Jumps.
    Jump(u32),
    /// Jumps when the comparison holds.
    JumpIf {
        /// Comparison.
        compare: Compare,
        /// Left operand.
        reg: Reg,
        /// Right operand.
        operand: Amount,
        /// Row of the instruction that follows.
        target: u32,
    },
    /// Counts the register down (not below 0) and jumps while it is not 0.
    Loop {
        /// Counter.
        reg: Reg,
        /// Row of the instruction that follows.
        target: u32,
    },
    /// Jumps to entry `reg` of a jump table; goes on with the next instruction when there is no
    /// such entry.
    JumpIndexed {
        /// Index.
        reg: Reg,
        /// Jump table of the program.
        table: u32,
    },

    /// Records `now − since` in a metric.
    RecordSince {
        /// Metric (a distribution).
        metric: MetricId,
        /// Register with the start time; a start in the future records 0.
        since: Reg,
    },
    /// Records a value in a metric.
    Record {
        /// Metric (a distribution).
        metric: MetricId,
        /// Value.
        value: Amount,
    },
    /// Adds to a metric's count without recording a value.
    Count {
        /// Metric (a counter).
        metric: MetricId,
        /// How much.
        amount: Amount,
    },
    /// Has done what a request asks for whose client does not wait for ever.
    Serve(PatientId),
    /// Answers it, if its client still waits.
    Answer(PatientId),
    /// Hands `count` registers from `first` on to the log, as one row of `channel`. Kept only while
    /// a listener is there.
    Log {
        /// Tells kinds of rows apart.
        channel: u16,
        /// First register.
        first: Reg,
        /// Number of registers.
        count: u8,
    },
}

/// A checked program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    name: String,
    instructions: Arc<[Instruction]>,
    tables: Arc<[Vec<u32>]>,
    registers: u8,
    streams: u16,
    objects: Vec<Named>,
}

/// Objects of one kind that a program names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    pub kind: &'static str,
    pub highest: u32,
    /// The first instruction that names the highest.
    pub at: usize,
}

impl Program {
    /// Name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its instructions.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Number of registers it uses.
    pub fn registers(&self) -> usize {
        usize::from(self.registers)
    }

    /// Number of random streams each of its tasks has.
    pub fn streams(&self) -> usize {
        usize::from(self.streams)
    }

    /// The objects that it names, by kind.
    pub(crate) fn objects(&self) -> &[Named] {
        &self.objects
    }

    /// Jump tables.
    pub fn tables(&self) -> &[Vec<u32>] {
        &self.tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_stay_small() {
        assert_eq!(size_of::<Instruction>(), 16);
    }

    #[test]
    fn amounts_survive_packing() {
        assert_eq!(Amount::fixed(7).kind(), AmountKind::Fixed(7));
        assert_eq!(
            Amount::fixed(u64::MAX).kind(),
            AmountKind::Fixed(Amount::FIXED_MAX)
        );
        assert_eq!(Amount::reg(Reg(63)).kind(), AmountKind::Reg(Reg(63)));
        let kind = Amount::draw_from(DistributionId(70_000), 300).kind();
        assert_eq!(
            kind,
            AmountKind::Draw {
                distribution: DistributionId(70_000),
                stream: 300
            }
        );
    }

    #[test]
    fn references_name_objects_or_registers() {
        let direct: Ref<QueueId> = QueueId(5).into();
        let indirect: Ref<QueueId> = Reg(5).into();
        assert_eq!(direct.kind(), RefKind::Number(5));
        assert_eq!(indirect.kind(), RefKind::Reg(Reg(5)));
    }
}
