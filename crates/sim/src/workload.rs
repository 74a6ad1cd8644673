//! Everything that runs: groups, programs, the objects they share, tasks, outside events.
//!
//! A [`Workload`] is filled by compilers of programs; several may add to the same
//! one. Objects are named by the number their `add_…` method returns.

use crate::program::{Distribution, ObjectId, Program, Reg};
use crate::world::{MessageSpec, PatientSpec, RequestSpec};
use schedcast_kernel::bandwidth::limits::Hierarchy;
use schedcast_kernel::dl::Reservation;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::task::Policy;
use schedcast_kernel::uclamp::{Clamps, Wish};
use schedcast_kernel::{Cpu, GroupId, Ns, cpuset::CpuSet};

macro_rules! object {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u32);

        impl ObjectId for $name {
            const WORD: &'static str = $word;
            fn number(self) -> u32 {
                self.0
            }
        }
    };
}

object! {
    /// A counting semaphore.
    SemaphoreId, "semaphore"
}
object! {
    /// A message queue (socket or pipe).
    QueueId, "queue"
}
object! {
    /// A shared 64-bit word of memory that can be waited on (futex).
    WordId, "word"
}
object! {
    /// A mutex.
    MutexId, "mutex"
}
object! {
    /// A condition variable.
    ConditionId, "condition"
}
object! {
    /// A barrier.
    BarrierId, "barrier"
}
object! {
    /// A custom metric.
    MetricId, "metric"
}
object! {
    /// A request whose client does not wait for ever.
    PatientId, "patient"
}
object! {
    /// A distribution.
    DistributionId, "distribution"
}
object! {
    /// A program.
    ProgramId, "program"
}
object! {
    /// A kind of child.
    ForkId, "fork"
}
object! {
    /// A set of attribute changes.
    AttributesId, "attributes"
}

/// An I/O device. The number is short so that an instruction that names it stays at 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceId(pub u16);

impl ObjectId for DeviceId {
    const WORD: &'static str = "device";
    fn number(self) -> u32 {
        u32::from(self.0)
    }
}

/// A cpu cgroup (or autogroup). Defaults are those of a new cgroup.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupSpec {
    /// Path, e.g. `/kubepods/pod1`.
    pub path: String,
    /// Parent.
    pub parent: GroupId,
    /// `cpu.shares`, 2..=262144; `cpu.weight` 100 is 1024.
    pub shares: u64,
    /// `cpu.idle`.
    pub idle: bool,
    /// `cpu.uclamp.min` and `cpu.uclamp.max`, 0..=1024; `None` = never written.
    pub clamps: Option<Clamps<u32>>,
    /// `cpu.max` and `cpu.max.burst`.
    pub limit: BandwidthLimit,
    /// Phase of the period timer, 0..period, when it is known. Otherwise the kernel's rules say.
    pub period_phase_ns: Option<Ns>,
    /// CPUs of its cpuset and of those above it (`cpuset.cpus.effective`); `None` = all.
    pub cpus: Option<CpuSet>,
}

impl GroupSpec {
    /// A group as it is when just created.
    pub fn new(path: impl Into<String>, parent: GroupId) -> Self {
        Self {
            path: path.into(),
            parent,
            shares: 1024,
            limit: BandwidthLimit::UNLIMITED,
            ..Self::default()
        }
    }
}

/// A queue of messages with a capacity in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// A sender blocks when its message would not fit; a message larger than all of it fits into
    /// the empty queue.
    pub capacity_bytes: u64,
    /// Size of each message besides its payload, bytes.
    pub overhead_bytes: u64,
    /// Blocked senders are woken when the bytes in use have fallen to this (hysteresis).
    pub wake_sender_at_bytes: u64,
    /// Whether they are woken with the sync hint.
    pub wake_sender_sync: bool,
    /// Whom of them a receive wakes.
    pub sender_wakes: SenderWakes,
    /// Extra costs of sends and receives beyond their program's prices, by where the queue and its
    /// messages have been.
    pub costs: QueueCosts,
}

/// Extra cost of a send or a receive over the same on a queue that only this CPU uses, that is not
/// empty and whose messages are in the CPU's cache.
///
/// Worked example: two CPUs send to the same socket, `send_contended_ns` 200. Each send that
/// follows one of the other CPU takes 200 more; a CPU that sends three in a row pays for the first
/// of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCosts {
    /// Of a send, when the queue was touched last by a receive on another CPU, whose cache has its
    /// lines.
    pub send_transfer_ns: Ns,
    /// Of a send, when the last send was on another CPU.
    pub send_contended_ns: Ns,
    /// Of a send into the empty queue.
    pub send_empty_ns: Ns,
    /// Of a send, when all its buffers come from further away than the cache: the part by which the
    /// waiting messages exceed [`QueueCosts::cache_bytes`] counts.
    pub send_far_ns: Ns,
    /// Of a receive, when the queue was touched last on another CPU.
    pub receive_transfer_ns: Ns,
    /// Of a receive, when only the message comes from another CPU.
    pub receive_remote_ns: Ns,
    /// Of a receive that leaves the queue empty.
    pub receive_last_ns: Ns,
    /// Of a receive, when its message comes from further away than the cache.
    pub receive_far_ns: Ns,
    /// Waiting messages of all such queues that stay in a CPU's own cache. 0: all do.
    pub cache_bytes: u64,
}

impl QueueCosts {
    /// Nothing takes longer.
    pub const NONE: QueueCosts = QueueCosts {
        send_transfer_ns: 0,
        send_contended_ns: 0,
        send_empty_ns: 0,
        send_far_ns: 0,
        receive_transfer_ns: 0,
        receive_remote_ns: 0,
        receive_last_ns: 0,
        receive_far_ns: 0,
        cache_bytes: 0,
    };

    /// The part of `far_ns` that counts while messages of so many bytes wait: of 4 MiB, a cache of
    /// 1 MiB keeps a quarter.
    pub(crate) fn far_part(&self, far_ns: Ns, waiting_bytes: u64) -> Ns {
        if waiting_bytes <= self.cache_bytes || self.cache_bytes == 0 {
            return 0;
        }
        far_ns * (waiting_bytes - self.cache_bytes) / waiting_bytes
    }
}

/// Which receives wake senders that wait for room, and whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SenderWakes {
    /// A receive that leaves no more than the mark in use wakes all of them (sockets).
    All,
    /// It wakes the first, which wakes the next when it has sent and there is still room.
    One,
    /// A pipe, whose buffers are pages: it is full while more than the mark is in use. A short
    /// message still goes into the last page then, but a sender that had to wait needs a page of
    /// its own.
    ///
    /// Worked example, 16 pages of 40 messages: 640 messages fit, and it is full from the 601st on.
    /// The sender of the 641st waits until 40 have been read; its message begins a page and the
    /// pipe is full again, so that a second sender waits for the next 40, although 39 messages of
    /// others may still join that page.
    Page(PageWakes),
}

/// Whom receives from a full pipe wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageWakes {
    /// The one that frees a page wakes all (before 5.6: waits are not exclusive).
    All,
    /// Every one that found the pipe full wakes the first sender, most of them in vain (5.6 to
    /// 6.13: `was_full` of `pipe_read`).
    OneInVain,
    /// The one that frees a page wakes the first sender (since 6.14).
    One,
}

impl QueueSpec {
    /// A queue that never blocks its senders: an inbox, an epoll set.
    pub const UNBOUNDED: QueueSpec = QueueSpec {
        capacity_bytes: u64::MAX,
        overhead_bytes: 0,
        wake_sender_at_bytes: u64::MAX,
        wake_sender_sync: false,
        sender_wakes: SenderWakes::One,
        costs: QueueCosts::NONE,
    };

    /// Whether a message that takes so much goes in where so much is in use, for a sender that has
    /// `waited` or has not.
    pub(crate) fn takes(&self, used: u64, room: u64, waited: bool) -> bool {
        match self.sender_wakes {
            SenderWakes::Page(_) if waited => used <= self.wake_sender_at_bytes,
            _ => used == 0 || used.saturating_add(room) <= self.capacity_bytes,
        }
    }

    /// How many senders a receive wakes that finds so much in use and leaves so much.
    pub(crate) fn wakes(&self, before: u64, after: u64) -> u64 {
        let mark = self.wake_sender_at_bytes;
        let (wakes, count) = match self.sender_wakes {
            SenderWakes::All => (after <= mark, u64::MAX),
            SenderWakes::One => (after <= mark, 1),
            SenderWakes::Page(PageWakes::OneInVain) => (before > mark, 1),
            SenderWakes::Page(PageWakes::One) => (before > mark && after <= mark, 1),
            SenderWakes::Page(PageWakes::All) => (before > mark && after <= mark, u64::MAX),
        };
        if wakes { count } else { 0 }
    }

    /// Whether a sender that had to wait wakes the next one when its message has made the use so
    /// much.
    pub(crate) fn passes_on(&self, used: u64) -> bool {
        match self.sender_wakes {
            SenderWakes::All | SenderWakes::Page(PageWakes::All) => false,
            SenderWakes::One => used < self.capacity_bytes,
            SenderWakes::Page(_) => used <= self.wake_sender_at_bytes,
        }
    }
}

/// A device that serves requests and interrupts a CPU when one is done.
///
/// Requests are taken in the order of their submission, each by the channel that is free first.
/// Worked example: one channel, requests of 80 µs submitted at 0 and 30 µs are done at 80 and
/// 160 µs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    /// Name, for messages.
    pub name: String,
    /// Requests it serves at the same time; 0 = any number.
    pub channels: u32,
    /// Where its interrupts come.
    pub interrupts: Interrupts,
}

impl DeviceSpec {
    /// A device that serves so many requests at the same time.
    pub fn new(name: impl Into<String>, channels: u32, interrupts: Interrupts) -> Self {
        Self {
            name: name.into(),
            channels,
            interrupts,
        }
    }
}

/// CPU that a device interrupts when a request is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// The one that submitted the request: the device has a queue for each CPU.
    Submitter,
    /// Always this one.
    Fixed(Cpu),
    /// The one where the task that waits for the answer went to sleep, as a timer of its own
    /// would. Where none waits: the one that submitted.
    Receiver,
}

/// Task that a fork starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForkSpec {
    /// Name of the child.
    pub name: String,
    /// Name its statistics go to; several children may share it. `None` = `name`.
    pub statistics: Option<String>,
    /// Its program.
    pub program: ProgramId,
    /// A process of its own (new address space) rather than a thread.
    pub process: bool,
    /// Group that it starts in (`CLONE_INTO_CGROUP`); `None` = its parent's.
    pub group: Option<GroupId>,
    /// CPUs it may run on; `None` = its parent's, and of these the ones of its group's cpuset.
    pub affinity: Option<CpuSet>,
}

impl ForkSpec {
    /// A child in its parent's group and on its parent's CPUs.
    pub fn new(name: impl Into<String>, program: ProgramId, process: bool) -> Self {
        Self {
            name: name.into(),
            statistics: None,
            program,
            process,
            group: None,
            affinity: None,
        }
    }
}

/// Changes of scheduling attributes; `None` leaves one as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AttributesSpec {
    /// Policy and real-time priority (0 for fair policies).
    pub policy: Option<(Policy, u8)>,
    /// Reservation as a deadline task; nothing else is changed then.
    pub deadline: Option<Reservation>,
    /// Nice value.
    pub nice: Option<i32>,
    /// CPUs it may run on.
    pub affinity: Option<CpuSet>,
    /// Group it moves to.
    pub group: Option<GroupId>,
    /// Timer slack.
    pub timer_slack_ns: Option<Ns>,
    /// EEVDF request size (`sched_attr.runtime`, 6.12).
    pub custom_slice_ns: Option<Ns>,
    /// Utilisation clamps (`sched_attr.util_min`, `util_max`).
    pub clamps: Clamps<Wish>,
}

/// A task that exists from `start_ns` on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskSpec {
    /// Thread name.
    pub name: String,
    /// Name its statistics go to; several tasks may share it. `None` = `name`.
    pub statistics: Option<String>,
    /// Program of the task.
    pub program: ProgramId,
    /// Initial registers; all others are 0.
    pub registers: Vec<(Reg, u64)>,
    /// Policy.
    pub policy: Policy,
    /// −20..=19.
    pub nice: i32,
    /// 1..=99 for FIFO and RR.
    pub rt_priority: u8,
    /// CPUs it may run on; `None` = all.
    pub affinity: Option<CpuSet>,
    /// Task group.
    pub group: GroupId,
    /// Threads of one process share the number; `None` = kernel thread (never throttled; a run does
    /// not wait for its end).
    pub address_space: Option<u32>,
    /// EEVDF request size set by `sched_setattr`.
    pub custom_slice_ns: Option<Ns>,
    /// Utilisation clamps set by `sched_setattr`, 0..=1024; `None` = what its policy has without.
    pub clamps: Clamps<Option<u32>>,
    /// When it is forked.
    pub start_ns: Ns,
    /// CPU it is forked on; `None` = the lowest it may run on.
    pub start_cpu: Option<Cpu>,
    /// Timer slack; `None` = 50 µs. Real-time policies have none, whatever is set here.
    pub timer_slack_ns: Option<Ns>,
    /// Exit latency of idle states it allows while it lives (`/dev/cpu_dma_latency`); `None` = any.
    pub latency_limit_ns: Option<Ns>,
    /// A thread of the machine rather than of the workload: it has slept since long before the run
    /// and waits for a message of this queue, which its program must begin by receiving. Nothing is
    /// started for it, it left no load, and a run does not wait for its end.
    pub asleep_in: Option<QueueId>,
}

/// Default timer slack of a task.
pub const TIMER_SLACK_NS: Ns = 50_000;

impl TaskSpec {
    /// A normal user task in the root group that starts at time 0.
    pub fn new(name: impl Into<String>, program: ProgramId) -> Self {
        Self {
            name: name.into(),
            program,
            group: GroupId::ROOT,
            address_space: Some(0),
            ..Self::default()
        }
    }
}

/// In which context something from outside reaches a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalContext {
    /// Device interrupt.
    HardIrq,
    /// A timer of the task that waits: a hard interrupt of the CPU where the task went to sleep,
    /// wherever that is by then. Where none waits, [`Arrival::cpu`] takes it.
    OwnTimer,
    /// Soft interrupt, e.g. network receive.
    SoftIrq,
}

/// The value of an [`ArrivalAction::Send`] that stands for the time of the arrival.
pub const ARRIVAL_TIME: u64 = u64::MAX - 1;

/// Action of an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalAction {
    /// Puts a message into a queue, full or not.
    Send {
        /// Queue.
        queue: QueueId,
        /// Size.
        bytes: u64,
        /// Value the receiver gets; [`ARRIVAL_TIME`] for when it came.
        value: u64,
    },
    /// Posts a semaphore.
    SemPost(SemaphoreId),
}

/// Something from outside: a packet, a completed request of another machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at_ns: Ns,
    /// CPU that takes the interrupt.
    pub cpu: Cpu,
    /// Context of the wakeup.
    pub context: ArrivalContext,
    /// Wakes with the sync hint.
    pub sync: bool,
    /// Action of the arrival.
    pub action: ArrivalAction,
}

/// Where arrivals come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArrivalSource {
    /// These, in ascending order of time.
    List(Vec<Arrival>),
    /// The same again and again: first at its time, then after each drawn interval.
    Stream {
        /// First arrival.
        first: Arrival,
        /// Intervals, ns.
        interval: DistributionId,
    },
    /// A list that begins anew when it is over. A run enters it at a place that its seed draws:
    /// with a round of 10 s, arrivals at 1, 4 and 9 s and a draw of 3 s, they come at 1, 6, 8, 11,
    /// 16, … s.
    Rounds {
        /// Arrivals of a round, in ascending order of time.
        arrivals: Vec<Arrival>,
        /// Length of a round, beyond the last arrival.
        round_ns: Ns,
    },
}

/// A source of outside events with its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrivalSpec {
    /// Name that its random draws belong to, so that another source moves none of them.
    pub name: String,
    /// Its events.
    pub source: ArrivalSource,
}

/// A change of a group's limits during the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupChange {
    /// When.
    pub at_ns: Ns,
    /// Group.
    pub group: GroupId,
    /// Setting that changes.
    pub setting: GroupSetting,
}

/// A setting of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupSetting {
    /// `cpu.max` and `cpu.max.burst`.
    Limit(BandwidthLimit),
    /// `cpu.shares`.
    Shares(u64),
    /// `cpu.idle`.
    Idle(bool),
    /// `cpu.uclamp.min` and `cpu.uclamp.max`.
    Clamps(Clamps<u32>),
}

/// Everything that runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Workload {
    /// Whether limits follow the rules of cgroup v1 or v2.
    pub hierarchy: Hierarchy,
    /// Groups below the root; entry i is `GroupId(i + 1)`.
    pub groups: Vec<GroupSpec>,
    /// Programs.
    pub programs: Vec<Program>,
    /// Distributions.
    pub distributions: Vec<Distribution>,
    /// Initial counts.
    pub semaphores: Vec<u64>,
    /// Queues.
    pub queues: Vec<QueueSpec>,
    /// I/O devices.
    pub devices: Vec<DeviceSpec>,
    /// Initial values.
    pub words: Vec<u64>,
    /// Number of mutexes.
    pub mutexes: u32,
    /// Number of conditions.
    pub conditions: u32,
    /// How many tasks each barrier waits for.
    pub barriers: Vec<u32>,
    /// Kinds of children.
    pub forks: Vec<ForkSpec>,
    /// Attribute changes.
    pub attributes: Vec<AttributesSpec>,
    /// Names of custom metrics.
    pub metrics: Vec<String>,
    /// Tasks.
    pub tasks: Vec<TaskSpec>,
    /// Outside events.
    pub arrivals: Vec<ArrivalSpec>,
    /// Timed changes, ascending.
    pub changes: Vec<GroupChange>,
    /// Messages that count as unfinished activations while they wait or are handled.
    pub messages: Vec<MessageSpec>,
    /// Requests that count as unfinished from when they are due to their answer.
    pub requests: Vec<RequestSpec>,
    /// Those of them whose clients do not wait for ever.
    pub patients: Vec<PatientSpec>,
    /// Jobs, which say when they have ended.
    pub jobs: Vec<JobSpec>,
}

/// A job: tasks that all end, and the metric that has its time when the last of them does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSpec {
    /// The metric.
    pub metric: MetricId,
    /// Group of its tasks.
    pub group: GroupId,
    /// When it begins, as far as that is known before the run.
    pub begins_ns: Ns,
}

fn push<T>(table: &mut Vec<T>, row: T) -> u32 {
    table.push(row);
    table.len() as u32 - 1
}

impl Workload {
    /// Adds a group.
    pub fn add_group(&mut self, group: GroupSpec) -> GroupId {
        GroupId(push(&mut self.groups, group) + 1)
    }

    /// Adds a program.
    pub fn add_program(&mut self, program: Program) -> ProgramId {
        ProgramId(push(&mut self.programs, program))
    }

    /// Adds a distribution.
    pub fn add_distribution(&mut self, distribution: Distribution) -> DistributionId {
        DistributionId(push(&mut self.distributions, distribution))
    }

    /// Adds a semaphore.
    pub fn add_semaphore(&mut self, initial: u64) -> SemaphoreId {
        SemaphoreId(push(&mut self.semaphores, initial))
    }

    /// Adds a queue.
    pub fn add_queue(&mut self, queue: QueueSpec) -> QueueId {
        QueueId(push(&mut self.queues, queue))
    }

    /// Adds an I/O device.
    pub fn add_device(&mut self, device: DeviceSpec) -> DeviceId {
        DeviceId(push(&mut self.devices, device) as u16)
    }

    /// Adds a shared word.
    pub fn add_word(&mut self, initial: u64) -> WordId {
        WordId(push(&mut self.words, initial))
    }

    /// Adds a mutex.
    pub fn add_mutex(&mut self) -> MutexId {
        self.mutexes += 1;
        MutexId(self.mutexes - 1)
    }

    /// Adds a condition.
    pub fn add_condition(&mut self) -> ConditionId {
        self.conditions += 1;
        ConditionId(self.conditions - 1)
    }

    /// Adds a barrier that `count` tasks must reach.
    pub fn add_barrier(&mut self, count: u32) -> BarrierId {
        BarrierId(push(&mut self.barriers, count))
    }

    /// Adds a kind of child.
    pub fn add_fork(&mut self, fork: ForkSpec) -> ForkId {
        ForkId(push(&mut self.forks, fork))
    }

    /// Adds attribute changes.
    pub fn add_attributes(&mut self, attributes: AttributesSpec) -> AttributesId {
        AttributesId(push(&mut self.attributes, attributes))
    }

    /// The metric of this name, added if it is new.
    pub fn add_metric(&mut self, name: &str) -> MetricId {
        let known = self.metrics.iter().position(|metric| metric == name);
        MetricId(match known {
            Some(row) => row as u32,
            None => push(&mut self.metrics, name.to_owned()),
        })
    }

    /// Adds a task.
    pub fn add_task(&mut self, task: TaskSpec) {
        self.tasks.push(task);
    }

    /// Adds outside events. `name` says whose they are: their random draws belong to it.
    pub fn add_arrivals(&mut self, name: impl Into<String>, source: ArrivalSource) {
        let name = name.into();
        self.arrivals.push(ArrivalSpec { name, source });
    }
}
