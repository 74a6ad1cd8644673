//! Events that are traced, logged and hashed.
//!
//! The hash tells two runs apart: it is fed with time, CPU and subject of every switch, wakeup,
//! migration and throttling, in order. Worked example: a run in which task 7 wakes on CPU 1 instead
//! of CPU 0 at 5,200 ns differs from there on in every digit, and so does one in which it wakes
//! 1 ns later.

use schedcast_kernel::platform::Observation;
use schedcast_kernel::{Cpu, Ns, TaskId};

/// One entry of the event trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// When.
    pub time: Ns,
    /// CPU it happened on.
    pub cpu: Cpu,
    /// Kind of the event.
    pub event: TraceKind,
}

/// Kinds of events in the event trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceKind {
    /// Something the kernel did.
    Kernel(Observation),
    /// A wakeup begins (`sched_waking`).
    Waking {
        /// Woken task.
        task: TaskId,
        /// Task that wakes it; `None` for an interrupt.
        waker: Option<TaskId>,
    },
    /// A task began to exist.
    Start {
        /// The task.
        task: TaskId,
    },
    /// The clock of the CPU changes, where clocks are modelled.
    Frequency {
        /// To this many MHz.
        mhz: u32,
    },
    /// The CPU enters an idle state, where idle states are modelled; the next switch ends it.
    Idle {
        /// Row of the machine's idle states.
        state: usize,
    },
}

/// A row handed on by [`crate::Instruction::Log`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRow {
    /// When.
    pub time: Ns,
    /// By whom.
    pub task: TaskId,
    /// Kind of row.
    pub channel: u16,
    /// Registers.
    pub values: Vec<u64>,
}

/// A hash over events and their order: equal runs have equal hashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHash(u64);

impl EventHash {
    pub(crate) const START: EventHash = EventHash(0x5851_f42d_4c95_7f2d);

    /// The hash as it is printed: 16 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", crate::random::mix(self.0))
    }

    #[inline(always)]
    fn add(&mut self, word: u64) {
        // Multiplication spreads bits upwards, the rotation brings them back down.
        self.0 = (self.0 ^ word)
            .wrapping_mul(0x9fb2_1c65_1e98_df25)
            .rotate_left(29);
    }

    #[inline(always)]
    pub(crate) fn event(&mut self, time: Ns, cpu: Cpu, kind: u64, a: u32, b: u32) {
        self.add(time ^ u64::from(cpu.0) << 52);
        self.add(kind << 60 ^ u64::from(a) << 30 ^ u64::from(b));
    }
}
