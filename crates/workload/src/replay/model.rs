//! Model of a replay: threads, activations, steps, and the trigger of each activation.

use super::groups::GroupIndex;
use super::service::{Follows, RequestId};
use super::threads::{Origin, ThreadId};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::task::Policy;
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::Pid;
use std::ops::Range;

/// Index into [`super::Replay::activations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActivationId(pub u32);

impl ActivationId {
    /// As a table index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A wait inside an activation that another thread ends; index into a table of semaphores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandoverId(pub u32);

/// A thread of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its id while it lived.
    pub pid: Pid,
    /// Its name (the one most events give it).
    pub name: String,
    /// Subject of its figures: the name, as far as it tells threads apart; see `subject`.
    pub subject: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Thread of the kernel itself: never throttled, no address space.
    pub kernel: bool,
    /// Left out of the replay: the simulated kernel does by itself what this thread did.
    pub left_out: bool,
    /// Policy.
    pub policy: Policy,
    /// −20..=19.
    pub nice: i32,
    /// 1..=99 for real-time threads.
    pub rt_priority: u8,
    /// CPU it was on when it was first seen.
    pub first_cpu: u32,
    /// CPUs that it may run on; `None` for all. The recorder says so, and the names of kernel
    /// threads that exist once per CPU do.
    pub cpus: Option<CpuSet>,
    /// Its group.
    pub group: GroupIndex,
    /// Its activations, in order of time.
    pub activations: Range<u32>,
    /// CPU time the recording shows, ns.
    pub executed_ns: u64,
}

/// Trigger of an activation. Times are ns since the start of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Trigger {
    /// It was under way when the recording started.
    #[default]
    Start,
    /// The thread was forked.
    Fork,
    /// Another thread woke it: it is woken when that thread gets there.
    Thread(ThreadId),
    /// As [`Trigger::Thread`], but the thread was awake, so that no wakeup shows it; see
    /// `unseen`.
    ThreadUnseen(ThreadId),
    /// A timer, a device or a softirq woke it: the activation keeps its recorded time.
    Outside {
        /// When.
        at_ns: u64,
        /// CPU that took the interrupt.
        cpu: u32,
        /// Kind of the interrupt. A timer of the thread itself expires where the thread sleeps.
        context: ArrivalContext,
    },
}

impl Trigger {
    /// An interrupt at this time, ns since the start of the recording.
    pub(super) fn outside(at_ns: u64, cpu: u32, context: ArrivalContext) -> Self {
        Trigger::Outside {
            at_ns,
            cpu,
            context,
        }
    }

    /// The thread that began it.
    pub(super) fn thread(self) -> Option<ThreadId> {
        match self {
            Trigger::Thread(by) => Some(by),
            _ => None,
        }
    }

    /// Whether a softirq began it.
    pub(super) fn is_softirq(self) -> bool {
        matches!(self, Trigger::Outside { context, .. } if context == ArrivalContext::SoftIrq)
    }

    /// Whether a timer or a device began it, and no softirq.
    pub(super) fn is_hard_interrupt(self) -> bool {
        matches!(self, Trigger::Outside { context, .. } if context != ArrivalContext::SoftIrq)
    }
}

/// One thing a thread does in an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Uses CPU time.
    Run {
        /// How much, ns, without the costs the simulator adds itself.
        work_ns: u64,
    },
    /// The hypervisor takes the CPU away: time passes, and no task is charged for it.
    Stolen {
        /// How long, ns.
        stolen_ns: u64,
    },
    /// Begins an activation of another thread (or, rarely, the next one of its own).
    Wake(ActivationId),
    /// Ends another thread's wait.
    Post(HandoverId),
    /// Waits (uninterruptibly) for another thread's [`Step::Post`].
    Wait(HandoverId),
    /// Waits (uninterruptibly) for a device.
    Io {
        /// How long the device took.
        delay_ns: u64,
    },
    /// Waits for the arrival of a request, unless it is there.
    Await(RequestId),
    /// Ends a request: its client is sent the reply.
    Reply(RequestId),
    /// Begins this activation of its own thread after the sleep before that.
    Later(ActivationId),
    /// Forks this thread.
    Fork(ThreadId),
    /// Ends.
    Exit,
}

/// From a wakeup to the next sleep: the handling of one message.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Activation {
    /// Whose.
    pub thread: ThreadId,
    /// Why it began.
    pub trigger: Trigger,
    /// When it was woken, ns since the start of the recording.
    pub woken_ns: u64,
    /// When it first ran; `None` if no run of it is visible.
    pub first_run_ns: Option<u64>,
    /// When it went to sleep, or turned to the next message; `None` if that is not visible.
    pub end_ns: Option<u64>,
    /// When it last woke the thread that began it: its reply.
    pub replied_ns: Option<u64>,
    /// Whether it ended asleep (rather than with the next message).
    pub slept: bool,
    /// CPU time the recording shows for it, ns.
    pub executed_ns: u64,
    /// Part of it that the simulator's own costs replace, or that was not charged, ns.
    pub removed_ns: u64,
    /// CPU time given to it without being visible (its runs are missing in the trace), ns.
    pub assumed_ns: u64,
    /// CPU time for being woken, which it spends only if its message does not wait in a pile, ns.
    pub woken_for_ns: u64,
    /// A wakeup began it, so that this time was recorded for it, and is a part of what is removed.
    pub was_woken: bool,
    /// CPU time that the kernel charged before the switch in, ns.
    pub charged_before_ns: u64,
    /// How often it was switched in.
    pub switches: u32,
    /// Traced interrupts that arrived while it ran.
    pub interrupts: u32,
    /// Its steps, in [`super::Replay::steps`].
    pub steps: Range<u32>,
    /// Of what comes from outside: when it comes, where that is no fixed time.
    pub follows: Option<Follows>,
    /// Of what comes from outside in the middle of a request: how long the thread slept before, ns;
    /// it begins so long after an earlier activation of its thread has ended.
    pub slept_before_ns: Option<u64>,
}

impl Activation {
    /// When it was woken, or, in the middle of a request, when its thread fell asleep before.
    pub(super) fn since_ns(&self) -> u64 {
        let slept_ns = self.slept_before_ns.unwrap_or(0);
        self.woken_ns.saturating_sub(slept_ns)
    }

    /// An activation without any work or step yet.
    pub(super) fn new(thread: ThreadId, trigger: Trigger, woken_ns: u64) -> Self {
        Self {
            thread,
            trigger,
            woken_ns,
            ..Self::default()
        }
    }

    /// Whether it began in the recording, and is no part that was cut off from another one.
    pub(super) fn is_whole(&self) -> bool {
        self.switches > 0 && self.trigger != Trigger::Start
    }

    /// Whether it lasts to a time of a log, which is rounded to microseconds.
    pub(super) fn lasts_to_logged(&self, at_ns: u64) -> bool {
        self.end_ns.is_none_or(|end_ns| end_ns + 1_000 >= at_ns)
    }

    /// Wakeup to sleep, ns, where both are visible. `previous_end_ns` is the end of the thread's
    /// activation before: a message that was there already then counts from that end.
    pub(crate) fn latency_ns(&self, previous_end_ns: u64) -> Option<u64> {
        match self.trigger {
            Trigger::Start => None,
            _ => Some(
                self.end_ns?
                    .saturating_sub(self.woken_ns.max(previous_end_ns)),
            ),
        }
    }

    /// Wakeup to reply, ns, for activations that another thread began and that woke it again.
    pub fn reply_latency_ns(&self) -> Option<u64> {
        match self.trigger {
            Trigger::Thread(_) | Trigger::ThreadUnseen(_) => {
                Some(self.replied_ns?.saturating_sub(self.woken_ns))
            }
            _ => None,
        }
    }

    /// Wakeup to first run, ns, where both are visible.
    pub(crate) fn wakeup_latency_ns(&self) -> Option<u64> {
        match self.trigger {
            Trigger::Start | Trigger::ThreadUnseen(_) => None,
            _ => Some(self.first_run_ns?.saturating_sub(self.woken_ns)),
        }
    }
}
