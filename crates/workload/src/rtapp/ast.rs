//! Content of an rt-app file, typed, with the place of everything that may still be refused.
//!
//! ```text
//! File ─┬─ Global                     duration, calibration, log
//!       └─ Task "camera" × 2 ─┬─ Scheduling        policy, priority, cpus, … of the thread
//!                             └─ Phase "burst" × 10 ─┬─ Scheduling   changes at its start
//!                                                    └─ Event run 1000, Event timer 30000, …
//! ```
//!
//! Defaults are filled in where they do not depend on anything else; what a phase inherits stays
//! `None` here and is worked out by [`Task::attributes`]. Times keep rt-app's unit, the
//! microsecond, because its log columns are in microseconds too. Keys without effect on a forecast
//! are checked and not kept.

use super::error::Span;

/// A value with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// Value as written.
    pub value: T,
    /// Where it is said.
    pub span: Span,
}

impl<T> Located<T> {
    /// A value that is said here.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// A whole rt-app file.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Name of the file, for messages.
    pub name: String,
    /// The `global` object, or its defaults.
    pub global: Global,
    /// The tasks in the order of the text.
    pub tasks: Vec<Task>,
    /// Silent actions of rt-app that the writer may not expect.
    pub notes: Vec<Note>,
    /// Where the tasks are, or would be.
    pub tasks_span: Span,
}

/// Something worth telling that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub span: Span,
    /// Text of the note.
    pub message: String,
}

impl Note {
    pub(super) fn new(span: Span, message: String) -> Self {
        Self { span, message }
    }
}

/// The `global` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Length of the run in seconds; `None` is until every thread has ended.
    pub duration_s: Option<u32>,
    /// Cost of one loop of `run`.
    pub calibration: Calibration,
    /// Policy of a task that names none.
    pub default_policy: Policy,
    /// Whether mutexes inherit priority.
    pub pi_enabled: Located<bool>,
    /// Whether threads log their rounds.
    pub is_logged: bool,
    /// File that `iorun` writes to.
    pub io_device: String,
    /// Bytes of the buffer that `mem` and `iorun` use, one buffer a thread.
    pub mem_buffer_bytes: u32,
    /// Whether the slack of a phase is the sum over its timers or that of its last timer.
    pub cumulative_slack: bool,
}

/// How work in microseconds becomes loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calibration {
    /// Measure the loop on this CPU first.
    Cpu(u32),
    /// One loop takes this long on the reference CPU.
    NanosecondsPerLoop(u32),
}

schedcast_base::named! {
    /// A scheduling policy, by its kernel name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Policy {
        /// The kernel's `SCHED_NORMAL`.
        Other = "SCHED_OTHER",
        /// `SCHED_BATCH`
        Batch = "SCHED_BATCH",
        /// `SCHED_IDLE`
        Idle = "SCHED_IDLE",
        /// `SCHED_RR`
        RoundRobin = "SCHED_RR",
        /// `SCHED_FIFO`
        Fifo = "SCHED_FIFO",
        /// `SCHED_DEADLINE`
        Deadline = "SCHED_DEADLINE",
    }
}

impl Policy {
    /// Every policy behind its name, in the order messages list them.
    pub(super) fn choices() -> [(&'static str, Policy); 6] {
        Self::ALL.map(|policy| (policy.name(), policy))
    }

    /// Whether the policy is run by the fair class.
    pub(crate) fn is_fair(self) -> bool {
        matches!(self, Policy::Other | Policy::Batch | Policy::Idle)
    }

    /// Whether `priority` means a real-time priority rather than a nice value.
    pub(crate) fn is_real_time(self) -> bool {
        matches!(self, Policy::RoundRobin | Policy::Fifo)
    }
}

/// How often something is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Until the run ends.
    Forever,
    /// This many times, which may be none for a task but not for a phase.
    Times(u32),
}

/// An entry of `tasks`: what one kind of thread does.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Name, different from that of every other task: the second `"a"` of a file becomes `"a1"`.
    pub name: String,
    /// Name as written.
    pub written_name: String,
    /// Where the name is written.
    pub span: Span,
    /// Threads started at the beginning; 0 leaves the task to be forked.
    pub instances: u32,
    /// How long after the common start a thread waits, in microseconds.
    pub delay_us: u32,
    /// How often the phases are gone through.
    pub repeat: Repeat,
    /// Scheduling attributes from the start of the thread.
    pub scheduling: Scheduling,
    /// Body of the thread.
    pub body: Body,
}

/// Body of a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Phases in order, at least one.
    Phases(Vec<Phase>),
    /// The grammar of before 2014, which no longer runs anywhere: `exec`, `lock_order`, ….
    /// Holds the first such key.
    Obsolete(Located<String>),
}

impl Task {
    /// The phases, none for an obsolete body.
    pub fn phases(&self) -> &[Phase] {
        match &self.body {
            Body::Phases(phases) => phases,
            Body::Obsolete(_) => &[],
        }
    }

    /// Every event of every phase, in the order of the text.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.phases().iter().flat_map(|phase| &phase.events)
    }
}

/// A stretch of a thread's life.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Name as written; `None` if the events stand in the task itself.
    pub name: Option<String>,
    /// Place where it begins.
    pub span: Span,
    /// How often its events are gone through.
    pub repeat: Repeat,
    /// Changes of scheduling attributes when the phase begins.
    pub scheduling: Scheduling,
    /// Events in order, at least one.
    pub events: Vec<Event>,
}

/// Scheduling keys of a task or a phase. `None` is "not said here".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// `policy`
    pub policy: Option<Located<Policy>>,
    /// `priority`: a nice value or a real-time priority, as the policy in force has it.
    pub priority: Option<Located<i32>>,
    /// `dl-runtime` in microseconds; for a fair policy the length of its EEVDF slice.
    pub dl_runtime_us: Option<Located<u32>>,
    /// `dl-period` in microseconds.
    pub dl_period_us: Option<Located<u32>>,
    /// `dl-deadline` in microseconds.
    pub dl_deadline_us: Option<Located<u32>>,
    /// `util_min`, −1 … 1024.
    pub util_min: Option<Located<i32>>,
    /// `util_max`, −1 … 1024.
    pub util_max: Option<Located<i32>>,
    /// `cpus`, at least one.
    pub cpus: Option<Located<Vec<u32>>>,
    /// `nodes_membind`
    pub nodes_membind: Option<Located<Vec<u32>>>,
    /// `taskgroup`, beginning with `/`; an empty name is `None`.
    pub taskgroup: Option<Located<String>>,
}

/// One thing a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key as written, such as `run0`.
    pub key: String,
    /// Where the key is written.
    pub span: Span,
    /// Action of the event.
    pub action: Action,
}

/// Action of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Takes a mutex.
    Lock(String),
    /// Releases a mutex.
    Unlock(String),
    /// Waits on a condition.
    Wait(Condition),
    /// Wakes one thread that waits on a condition.
    Signal(String),
    /// Wakes all threads that wait on a condition.
    Broadcast(String),
    /// Wakes one thread that waits on a condition, then waits on it.
    Sync(Condition),
    /// Sleeps this many microseconds from now.
    Sleep(u32),
    /// Computes for this many microseconds of wall time.
    Runtime(u32),
    /// Does the work of this many microseconds on the reference CPU.
    Run(u32),
    /// Sleeps until the timer's next point.
    Timer(TimerUse),
    /// Waits until a thread resumes this name. The wake is lost if no thread waits.
    Suspend(String),
    /// Wakes all threads suspended on this name.
    Resume(String),
    /// Works through memory.
    MemoryRun(MemoryRun),
    /// Writes this many bytes to the thread's buffer.
    Memory(u32),
    /// Writes this many bytes to the I/O device.
    InputOutputRun(u32),
    /// Yields the CPU.
    Yield,
    /// Waits until all users of the barrier have come.
    Barrier(String),
    /// Starts a thread of this task.
    Fork(String),
    /// Adds one to a semaphore.
    SemaphorePost(String),
    /// Takes one from a semaphore, waiting for it if need be.
    SemaphoreWait(String),
}

/// A condition and the mutex that guards it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The condition's name.
    pub condition: String,
    /// The mutex's name.
    pub mutex: String,
}

/// A use of a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerUse {
    /// Name of the timer.
    pub timer: String,
    /// Whether each thread has a timer of its own under this name (names that begin with
    /// `unique`), or all threads share one.
    pub unique: bool,
    /// How far the next point is from the last, in microseconds.
    pub period_us: u32,
    /// The mode written at this use. A timer has one mode, see
    /// [`File::timer_mode`].
    pub mode: Option<TimerMode>,
}

/// Behaviour of a timer when its next point has passed before it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// Starts over from now.
    Relative,
    /// Keeps its grid and catches up.
    Absolute,
}

/// A walk through memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRun {
    /// Access at each step.
    pub access: MemoryAccess,
    /// Size of the buffer in bytes.
    pub size_bytes: u32,
    /// Steps: bytes for read and write, pointers for chase.
    pub count: u32,
    /// Name under which the buffer is shared; `None` is a buffer of the event's own.
    pub shared: Option<String>,
}

/// Access of a memory walk at each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryAccess {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Follows pointers.
    Chase {
        /// Bytes between two pointers.
        stride_bytes: u32,
        /// Whether the order defeats prefetching.
        random: bool,
    },
}
