//! Scheduling events, free of the format they were read from.
//!
//! One event is one line of an ftrace text, one record of a `trace.dat` or one entry of a Perfetto
//! bundle. All readers produce the same [`Event`], so nothing above this crate knows where a
//! recording came from.
//!
//! Worked example. The line
//!
//! ```text
//! postgres-8687  [000] dNh3.  5371.828068: sched_wakeup: comm=pgbench pid=8679 prio=120 target_cpu=000
//! ```
//!
//! becomes time 5 371 828 068 000 ns, CPU 0, task 8687 (it was running; it is not the one that was
//! woken), and the kind [`EventKind::Wakeup`] of task 8679. The flags `dNh3.` say: interrupts off,
//! a reschedule is pending, and the code ran in a *hard interrupt*. So postgres did not wake
//! pgbench: a timer or a device did, while postgres happened to run.

use std::fmt;

use crate::names::CommId;
use crate::tracepoint::Tracepoint;

/// A process or thread id as the kernel prints it. Some tools write -1 where they do not know it.
pub type Pid = i32;

/// Event with its time, CPU and context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time on the trace's clock, in ns (text with microseconds gives multiples of 1000).
    pub time_ns: u64,
    /// The CPU that wrote the event.
    pub cpu: u32,
    /// The task that was current on that CPU.
    pub task: Pid,
    /// Interrupt context and pending reschedule at that moment.
    pub context: Context,
    /// Kind of the event with its fields.
    pub kind: EventKind,
}

/// The events a replay needs; everything else is [`EventKind::Other`]. Names are numbers of the
/// recording's table, or `N` while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind<N = CommId> {
    /// `sched_switch`: `prev` leaves the CPU, `next` takes it.
    Switch(Switch<N>),
    /// `sched_waking`: written by the waker, before a CPU has been chosen.
    Waking(Wakeup<N>),
    /// `sched_wakeup`: the task is runnable. With a remote wakeup it is the target CPU that writes
    /// it, later.
    Wakeup(Wakeup<N>),
    /// `sched_wakeup_new`: a forked task becomes runnable for the first time.
    WakeupNew(Wakeup<N>),
    /// `sched_migrate_task`: the task's CPU changes.
    Migrate(Migrate<N>),
    /// `sched_process_fork`: a task exists from here on.
    Fork(Fork<N>),
    /// `sched_process_exec`: the task runs another program.
    Exec(Exec<N>),
    /// `sched_process_exit`: the task is about to leave for good.
    Exit(Task<N>),
    /// `sched_stat_runtime`: the kernel charged a fair task for what it ran since it was last
    /// charged.
    Runtime(Runtime<N>),
    /// Something happened at a socket.
    Socket {
        /// Which one.
        socket: Socket,
        /// Data came, was sent or was received.
        what: AtSocket,
    },
    /// An event this crate does not decode. Its name is counted in [`crate::Counts::other`].
    Other,
}

/// The fields of `sched_switch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch<N = CommId> {
    /// Task that leaves.
    pub prev: Task<N>,
    /// Why it leaves.
    pub prev_state: PrevState,
    /// Task that comes.
    pub next: Task<N>,
}

/// The fields of `sched_migrate_task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrate<N = CommId> {
    /// Task that moves.
    pub task: Task<N>,
    /// CPU it leaves.
    pub orig_cpu: u32,
    /// CPU it goes to.
    pub dest_cpu: u32,
}

/// The fields of `sched_process_fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork<N = CommId> {
    /// Task that forks.
    pub parent_pid: Pid,
    /// Its name.
    pub parent_comm: N,
    /// The new task.
    pub child_pid: Pid,
    /// The new task's name (the parent's, until it changes it).
    pub child_comm: N,
}

/// The fields of `sched_process_exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exec<N = CommId> {
    /// Thread id after the exec.
    pub pid: Pid,
    /// Thread id before it (differs when a thread that is not the group leader calls exec).
    pub old_pid: Pid,
    /// The file, as passed to the kernel; it lives in the same table as the names of tasks.
    pub filename: N,
}

/// The fields of `sched_stat_runtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime<N = CommId> {
    /// Task that ran; on which CPU is not said, a waker elsewhere may cause the charge.
    pub pid: Pid,
    /// Its name.
    pub comm: N,
    /// Time it ran, without what interrupts and the hypervisor took; longer than 4.29 s reads as
    /// that.
    pub runtime_ns: u32,
}

/// A task as an event names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task<N = CommId> {
    /// Thread id.
    pub pid: Pid,
    /// Its name.
    pub comm: N,
    /// Its kernel priority (120 is nice 0; below 100 is real-time; -1 is deadline).
    pub prio: i32,
}

/// The fields that `sched_waking`, `sched_wakeup` and `sched_wakeup_new` share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup<N = CommId> {
    /// The task that is woken.
    pub task: Task<N>,
    /// In `sched_waking` the CPU it last ran on, otherwise the CPU whose run queue it joins.
    pub target_cpu: u32,
}

impl<N> Task<N> {
    fn map<M>(self, name: &mut impl FnMut(N) -> M) -> Task<M> {
        Task {
            pid: self.pid,
            comm: name(self.comm),
            prio: self.prio,
        }
    }
}

impl<N> EventKind<N> {
    /// The same event with other names.
    pub(crate) fn map<M>(self, mut name: impl FnMut(N) -> M) -> EventKind<M> {
        let mut wakeup = |wakeup: Wakeup<N>| Wakeup {
            task: wakeup.task.map(&mut name),
            target_cpu: wakeup.target_cpu,
        };
        match self {
            EventKind::Waking(woken) => EventKind::Waking(wakeup(woken)),
            EventKind::Wakeup(woken) => EventKind::Wakeup(wakeup(woken)),
            EventKind::WakeupNew(woken) => EventKind::WakeupNew(wakeup(woken)),
            EventKind::Switch(of) => EventKind::Switch(Switch {
                prev: of.prev.map(&mut name),
                prev_state: of.prev_state,
                next: of.next.map(&mut name),
            }),
            EventKind::Migrate(of) => EventKind::Migrate(Migrate {
                task: of.task.map(&mut name),
                orig_cpu: of.orig_cpu,
                dest_cpu: of.dest_cpu,
            }),
            EventKind::Fork(of) => EventKind::Fork(Fork {
                parent_pid: of.parent_pid,
                parent_comm: name(of.parent_comm),
                child_pid: of.child_pid,
                child_comm: name(of.child_comm),
            }),
            EventKind::Exec(of) => EventKind::Exec(Exec {
                pid: of.pid,
                old_pid: of.old_pid,
                filename: name(of.filename),
            }),
            EventKind::Exit(task) => EventKind::Exit(task.map(&mut name)),
            EventKind::Runtime(of) => EventKind::Runtime(Runtime {
                pid: of.pid,
                comm: name(of.comm),
                runtime_ns: of.runtime_ns,
            }),
            EventKind::Socket { socket, what } => EventKind::Socket { socket, what },
            EventKind::Other => EventKind::Other,
        }
    }

    /// The kernel's name of the event, or `None` where no text says all of it.
    pub fn name(&self) -> Option<&'static str> {
        let known = match self {
            EventKind::Switch(_) => Tracepoint::Switch,
            EventKind::Waking(_) => Tracepoint::Waking,
            EventKind::Wakeup(_) => Tracepoint::Wakeup,
            EventKind::WakeupNew(_) => Tracepoint::WakeupNew,
            EventKind::Migrate(_) => Tracepoint::Migrate,
            EventKind::Fork(_) => Tracepoint::Fork,
            EventKind::Exec(_) => Tracepoint::Exec,
            EventKind::Exit(_) => Tracepoint::Exit,
            EventKind::Runtime(_) => Tracepoint::Runtime,
            EventKind::Socket { .. } | EventKind::Other => return None,
        };
        Some(known.name())
    }
}

schedcast_base::named! {
    /// Events of sockets, since 6.3 (40e0b0908142, 6e6eda44b939), but for the last, which is as old
    /// as 4.16 (563e0bb0dc74). Only raw records name the socket, so that texts of these events are
    /// not decoded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SocketEvent {
        /// `sk_data_ready`
        DataReady = "sk_data_ready",
        /// `sock_send_length`
        SendLength = "sock_send_length",
        /// `sock_recv_length`
        RecvLength = "sock_recv_length",
        /// `inet_sock_set_state`
        SetState = "inet_sock_set_state",
    }
}

/// States of `include/net/tcp_states.h`.
pub(crate) const TCP_ESTABLISHED: i64 = 1;
pub(crate) const TCP_SYN_SENT: i64 = 2;
pub(crate) const TCP_FIN_WAIT1: i64 = 4;
pub(crate) const TCP_CLOSE: i64 = 7;
pub(crate) const TCP_CLOSE_WAIT: i64 = 8;
pub(crate) const TCP_LAST_ACK: i64 = 9;

impl SocketEvent {
    /// Its place below `events` of tracefs.
    pub fn place(self) -> String {
        format!("sock/{}", self.name())
    }

    /// Filter of tracefs that lets records of use pass: calls that moved something, and of the
    /// states of a connection that it begins and that a thread closes it. `None` where each record
    /// is of use.
    pub fn filter(self) -> Option<String> {
        match self {
            SocketEvent::DataReady => None,
            SocketEvent::SendLength | SocketEvent::RecvLength => Some("ret > 0".to_owned()),
            SocketEvent::SetState => Some(format!(
                "newstate == {TCP_SYN_SENT} || newstate == {TCP_FIN_WAIT1} || newstate == {TCP_LAST_ACK} \
                 || (newstate == {TCP_CLOSE} && (oldstate == {TCP_ESTABLISHED} || oldstate == {TCP_CLOSE_WAIT}))"
            )),
        }
    }
}

/// Something that happens at a socket while a thread is the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtSocket {
    /// Data has come. With a sender on the same machine, its thread is the current one.
    Arrived,
    /// The current thread has sent something.
    Sent,
    /// The current thread has received something.
    Received,
    /// The current thread has received one datagram of UDP, whose sender may be any of many.
    ReceivedDatagram,
    /// The current thread begins to connect it: its new state is `TCP_SYN_SENT`.
    Connects,
    /// It is closed: its new state is `TCP_FIN_WAIT1`, `TCP_LAST_ACK` if the other end was closed
    /// before, or `TCP_CLOSE` if something was not read or the other end resets it. Its own thread
    /// is the current one but for a reset.
    Closes,
}

/// A socket by its address in the kernel, which another one may have later. In halves, for an
/// [`Event`] is to stay small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Socket(u32, u32);

impl From<u64> for Socket {
    fn from(address: u64) -> Socket {
        Socket((address >> 32) as u32, address as u32)
    }
}

schedcast_base::named! {
    /// The state in which a task leaves its CPU (`prev_state` of `sched_switch`), with the text
    /// that the kernel prints. Behind the two runnable ones stand the states of `TASK_REPORT` since
    /// 4.14, in the order of their bits.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum PrevState {
        /// Still runnable; it called `schedule()` itself, or was rescheduled on the way to user
        /// mode.
        Running = "R",
        /// Still runnable; preempted inside the kernel.
        Preempted = "R+",
        /// Sleeps, signals wake it.
        Interruptible = "S",
        /// Sleeps, signals do not wake it.
        Uninterruptible = "D",
        /// Stopped by a signal.
        Stopped = "T",
        /// Stopped by a debugger.
        Traced = "t",
        /// Dead, no process waits for it.
        Dead = "X",
        /// Dead, its parent has not reaped it.
        Zombie = "Z",
        /// Parked kernel thread.
        Parked = "P",
        /// Idle kernel thread (sleeps like `D` but does not count as load).
        Idle = "I",
    }
}

/// The bit above the reported states says "preempted" (`TASK_REPORT_MAX`).
const PREEMPTED_BIT: u64 = 1 << (PrevState::ALL.len() - 2);

impl PrevState {
    /// True if the task stays on a run queue: it did not ask to leave the CPU.
    pub fn is_runnable(self) -> bool {
        matches!(self, PrevState::Running | PrevState::Preempted)
    }

    /// True if the task will never run again.
    pub fn is_exit(self) -> bool {
        matches!(self, PrevState::Dead | PrevState::Zombie)
    }

    /// The states of the bits.
    fn reported() -> &'static [PrevState] {
        &Self::ALL[2..]
    }

    /// Decodes the kernel's own text: `S`, `R+`, `D|K`. `None` if a letter is unknown.
    ///
    /// Kernels before 4.14 join several letters with `|`: `K` (killable), `W` (waking) and `N` (no
    /// load) qualify the first one. `D|N` is what they call the idle state; `x` is their dead
    /// state.
    pub fn from_text(text: &[u8]) -> Option<PrevState> {
        if let Some(stripped) = text.strip_suffix(b"+") {
            return PrevState::from_text(stripped).map(|_| PrevState::Preempted);
        }
        if text == b"R" {
            return Some(PrevState::Running);
        }
        let mut letters = text.split(|byte| *byte == b'|');
        let mut state = PrevState::from_letter(letters.next()?)?;
        for qualifier in letters {
            match qualifier {
                b"N" if state == PrevState::Uninterruptible => state = PrevState::Idle,
                b"K" | b"W" | b"N" => {}
                _ => {
                    PrevState::from_letter(qualifier)?;
                }
            }
        }
        Some(state)
    }

    /// Decodes the text of trace-cmd's `sched_switch` plugin.
    ///
    /// That plugin names the bits by the letters of old kernels, `SDTtZXxW`. On any kernel since
    /// 4.14 its `Z` is the dead bit, `X` the zombie bit, `x` the parked bit and `W` the idle bit;
    /// and it prints `R` for `R+`.
    pub(crate) fn from_plugin_text(text: &[u8]) -> Option<PrevState> {
        match text {
            b"Z" => Some(PrevState::Dead),
            b"X" => Some(PrevState::Zombie),
            b"x" => Some(PrevState::Parked),
            b"W" => Some(PrevState::Idle),
            _ => PrevState::from_text(text),
        }
    }

    /// Decodes the number of a raw record, with the bits of kernels since 4.14. `None` if a higher
    /// bit is set.
    ///
    /// 0 is `R`, 256 is `R+`, 1 is `S`, 128 is `I`; of several bits the lowest counts.
    pub(crate) fn from_bits(bits: u64) -> Option<PrevState> {
        if bits == 0 {
            return Some(PrevState::Running);
        }
        if bits & PREEMPTED_BIT != 0 {
            return (bits < PREEMPTED_BIT << 1).then_some(PrevState::Preempted);
        }
        if bits >= PREEMPTED_BIT {
            return None;
        }
        Some(Self::reported()[bits.trailing_zeros() as usize])
    }

    /// The number of a raw record for this state, with the bits of kernels since 4.14: the other
    /// way round from [`PrevState::from_bits`].
    pub fn bits(self) -> u64 {
        match self {
            PrevState::Running => 0,
            PrevState::Preempted => PREEMPTED_BIT,
            state => {
                let position = Self::reported().iter().position(|known| *known == state);
                position.map_or(0, |bit| 1 << bit)
            }
        }
    }

    fn from_letter(text: &[u8]) -> Option<PrevState> {
        let named = |state: &&PrevState| state.name().as_bytes() == text;
        let state = Self::reported().iter().find(named).copied();
        state.or((text == b"x").then_some(PrevState::Dead))
    }
}

impl fmt::Display for PrevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which part of the kernel wrote an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// A task, in user mode's stead or on its own behalf (system call, kernel thread, exception).
    Task,
    /// A softirq being served, on the way out of an interrupt or in ksoftirqd.
    SoftIrq,
    /// A hardware interrupt.
    HardIrq,
    /// A non-maskable interrupt.
    Nmi,
}

/// Interrupt context, interrupt mask and pending reschedule of an event: ftrace's flag columns.
///
/// The default is [`Context::UNKNOWN`]: text made without flags says nothing about the context, and
/// that must not be mistaken for "task context".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Context(u8);

impl Context {
    const KNOWN: u8 = 1 << 0;
    const IRQS_OFF: u8 = 1 << 1;
    const NEED_RESCHED: u8 = 1 << 2;
    const NEED_RESCHED_LAZY: u8 = 1 << 3;
    const SOFTIRQ: u8 = 1 << 4;
    const HARDIRQ: u8 = 1 << 5;
    const NMI: u8 = 1 << 6;
    const BH_OFF: u8 = 1 << 7;

    /// The source says nothing about the context.
    pub const UNKNOWN: Context = Context(0);

    /// Known context, plain task, nothing set.
    pub const TASK: Context = Context(Context::KNOWN);

    /// This context with interrupts off.
    pub const fn with_irqs_off(self) -> Context {
        Context(self.0 | Context::KNOWN | Context::IRQS_OFF)
    }

    /// This context with softirqs (bottom halves) disabled.
    pub(crate) const fn with_bh_off(self) -> Context {
        Context(self.0 | Context::KNOWN | Context::BH_OFF)
    }

    /// This context with a reschedule pending.
    pub const fn with_need_resched(self) -> Context {
        Context(self.0 | Context::KNOWN | Context::NEED_RESCHED)
    }

    /// This context with a lazy reschedule pending (6.13 and later, or PREEMPT_RT).
    pub(crate) const fn with_need_resched_lazy(self) -> Context {
        Context(self.0 | Context::KNOWN | Context::NEED_RESCHED_LAZY)
    }

    /// This context inside one more level.
    pub const fn with_level(self, level: Level) -> Context {
        let bit = match level {
            Level::Task => 0,
            Level::SoftIrq => Context::SOFTIRQ,
            Level::HardIrq => Context::HARDIRQ,
            Level::Nmi => Context::NMI,
        };
        Context(self.0 | Context::KNOWN | bit)
    }

    /// False if the source has no flags for this event; then [`Context::level`] is `None`.
    pub const fn is_known(self) -> bool {
        self.0 & Context::KNOWN != 0
    }

    /// The innermost level: a hard interrupt that came while a softirq was served is
    /// [`Level::HardIrq`].
    pub const fn level(self) -> Option<Level> {
        if !self.is_known() {
            None
        } else if self.0 & Context::NMI != 0 {
            Some(Level::Nmi)
        } else if self.0 & Context::HARDIRQ != 0 {
            Some(Level::HardIrq)
        } else if self.0 & Context::SOFTIRQ != 0 {
            Some(Level::SoftIrq)
        } else {
            Some(Level::Task)
        }
    }

    /// True if an interrupt of any kind wrote the event; false for a task and for an unknown
    /// context.
    pub const fn in_interrupt(self) -> bool {
        self.0 & (Context::SOFTIRQ | Context::HARDIRQ | Context::NMI) != 0
    }

    /// True if a softirq was being served, whether or not a hard interrupt came on top.
    pub const fn in_softirq(self) -> bool {
        self.0 & Context::SOFTIRQ != 0
    }

    /// True if interrupts were off.
    pub const fn irqs_off(self) -> bool {
        self.0 & Context::IRQS_OFF != 0
    }

    /// True if softirqs were disabled (recent kernels say so).
    pub const fn bh_off(self) -> bool {
        self.0 & Context::BH_OFF != 0
    }

    /// True if a reschedule was pending (`TIF_NEED_RESCHED`).
    pub const fn need_resched(self) -> bool {
        self.0 & Context::NEED_RESCHED != 0
    }

    /// True if a lazy reschedule was pending (`TIF_NEED_RESCHED_LAZY`).
    pub const fn need_resched_lazy(self) -> bool {
        self.0 & Context::NEED_RESCHED_LAZY != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_fits_in_48_bytes() {
        assert!(std::mem::size_of::<Event>() <= 48);
    }

    #[test]
    fn state_text_round_trips() {
        for text in ["R", "R+", "S", "D", "T", "t", "X", "Z", "P", "I"] {
            let state = PrevState::from_text(text.as_bytes()).unwrap();
            assert_eq!(state.name(), text);
        }
    }

    #[test]
    fn states_of_old_kernels() {
        assert_eq!(
            PrevState::from_text(b"D|K"),
            Some(PrevState::Uninterruptible)
        );
        assert_eq!(PrevState::from_text(b"D|N"), Some(PrevState::Idle));
        assert_eq!(PrevState::from_text(b"x"), Some(PrevState::Dead));
        assert_eq!(PrevState::from_text(b"S|W"), Some(PrevState::Interruptible));
        assert_eq!(PrevState::from_text(b"Q"), None);
        assert_eq!(PrevState::from_text(b""), None);
        assert_eq!(PrevState::from_text(b"S|"), None);
    }

    #[test]
    fn state_bits_match_the_letters() {
        let cases = [
            (0, "R"),
            (1, "S"),
            (2, "D"),
            (4, "T"),
            (8, "t"),
            (16, "X"),
            (32, "Z"),
            (64, "P"),
            (128, "I"),
        ];
        for (bits, text) in cases {
            assert_eq!(PrevState::from_bits(bits).unwrap().name(), text);
            assert_eq!(PrevState::from_bits(bits).unwrap().bits(), bits);
        }
        assert_eq!(PrevState::from_bits(256), Some(PrevState::Preempted));
        assert_eq!(PrevState::Preempted.bits(), 256);
        assert_eq!(
            PrevState::from_bits(1024 + 2),
            None,
            "the bits of kernels before 4.14 are not guessed at"
        );
        assert_eq!(PrevState::from_bits(512 + 256), None);
    }

    #[test]
    fn runnable_and_exit_partition_the_states() {
        let runnable: Vec<_> = ["R", "R+", "S", "D", "T", "t", "X", "Z", "P", "I"]
            .into_iter()
            .filter(|text| PrevState::from_text(text.as_bytes()).unwrap().is_runnable())
            .collect();
        assert_eq!(runnable, ["R", "R+"]);
        assert!(
            PrevState::Zombie.is_exit()
                && PrevState::Dead.is_exit()
                && !PrevState::Parked.is_exit()
        );
    }

    #[test]
    fn unknown_context_is_not_task_context() {
        assert_eq!(Context::UNKNOWN.level(), None);
        assert_eq!(Context::TASK.level(), Some(Level::Task));
        assert_eq!(Context::default(), Context::UNKNOWN);
    }

    #[test]
    fn the_innermost_level_wins() {
        let both = Context::TASK
            .with_level(Level::SoftIrq)
            .with_level(Level::HardIrq);
        assert_eq!(both.level(), Some(Level::HardIrq));
        assert!(both.in_softirq() && both.in_interrupt());
        assert!(!both.irqs_off() && !both.need_resched());
    }
}
