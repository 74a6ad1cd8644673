//! The threads of a recording: names, priorities, where they start, and their parents.
//!
//! A pid names one thread at a time. After the thread's exit (or when a fork returns its pid) the
//! same pid is a new thread. Pid 0 is the idle task of every CPU and is not a thread here.

use schedcast_kernel::task::Policy;
use schedcast_trace::{CommId, CommTable, Event, EventKind, Exec, Pid, PrevState, Task};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Index into [`super::Replay::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// As a table index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How a thread came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It existed when the recording started.
    Before,
    /// This thread forked it.
    Fork(ThreadId),
    /// A fork whose parent the recording does not know.
    UnknownFork,
}

/// Facts known of a thread before its actions are examined.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub pid: Pid,
    pub origin: Origin,
    /// Names and how often an event gave each, in order of appearance.
    names: Vec<(CommId, u32)>,
    /// Kernel priority, the first one seen.
    pub prio: Option<i32>,
    /// CPU it was on when first seen.
    pub first_cpu: Option<u32>,
    /// CPUs it was seen running on: lowest and highest.
    pub cpus: Option<(u32, u32)>,
    /// It slept in a state only kernel threads use.
    kernel_state: bool,
    /// When it first called `exec`, on the trace's clock.
    pub execs_at_ns: Option<u64>,
}

/// Spreads pids over a table. What is inferred never depends on the order in it.
#[derive(Clone, Copy, Debug, Default)]
struct PidHasher(u64);

impl Hasher for PidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_i32(&mut self, pid: i32) {
        self.write_u64(u64::from(pid.cast_unsigned()));
    }

    fn write_u64(&mut self, value: u64) {
        // The finaliser of SplitMix64 begins so; a table takes its upper and its lower bits.
        self.0 = (self.0 ^ value).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 ^= self.0 >> 31;
    }
}

/// All threads of a recording and the pids that name them now.
#[derive(Debug, Default)]
pub(super) struct Threads {
    pub identities: Vec<Identity>,
    by_pid: HashMap<Pid, ThreadId, BuildHasherDefault<PidHasher>>,
    /// Pids whose thread has left for good; the next event about them is a new thread.
    gone: Vec<Pid>,
}

impl Threads {
    /// The thread that `pid` names now; `None` for the idle task and for pids never seen.
    pub(super) fn current(&self, pid: Pid) -> Option<ThreadId> {
        self.by_pid.get(&pid).copied()
    }

    /// Takes the next event, before anything else looks at it.
    pub(super) fn see(&mut self, event: &Event) {
        for pid in self.gone.drain(..) {
            self.by_pid.remove(&pid);
        }
        if event.task > 0 {
            let thread = self.of(event.task, Origin::Before);
            self.on_cpu(thread, event.cpu);
        }
        match event.kind {
            EventKind::Switch(switch) => {
                let (prev, prev_state) = (switch.prev, switch.prev_state);
                if let Some(thread) = self.seen(prev) {
                    self.on_cpu(thread, event.cpu);
                    let kernel = matches!(prev_state, PrevState::Idle | PrevState::Parked);
                    self.identities[thread.index()].kernel_state |= kernel;
                    if prev_state.is_exit() {
                        self.gone.push(prev.pid);
                    }
                }
                if let Some(thread) = self.seen(switch.next) {
                    self.on_cpu(thread, event.cpu);
                }
            }
            EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
                self.seen_on(woken.task, woken.target_cpu);
            }
            EventKind::Migrate(moves) => self.seen_on(moves.task, moves.orig_cpu),
            EventKind::Fork(fork) => {
                let parent = self.named(fork.parent_pid, fork.parent_comm, None);
                let origin = parent.map_or(Origin::UnknownFork, Origin::Fork);
                if fork.child_pid > 0 {
                    self.by_pid.remove(&fork.child_pid);
                    self.of(fork.child_pid, origin);
                    self.named(fork.child_pid, fork.child_comm, None);
                }
            }
            EventKind::Exec(Exec { pid, old_pid, .. }) => {
                // Exec by a thread that does not lead its process: it takes over the leader's pid.
                if pid != old_pid
                    && let Some(thread) = self.by_pid.remove(&old_pid)
                {
                    self.by_pid.insert(pid, thread);
                }
                if let Some(thread) = self.by_pid.get(&pid) {
                    let execs_at_ns = &mut self.identities[thread.index()].execs_at_ns;
                    execs_at_ns.get_or_insert(event.time_ns);
                }
            }
            EventKind::Exit(task) => {
                self.seen(task);
            }
            EventKind::Runtime(charge) => {
                self.named(charge.pid, charge.comm, None);
            }
            EventKind::Socket { .. } | EventKind::Other => {}
        }
    }

    fn of(&mut self, pid: Pid, origin: Origin) -> ThreadId {
        let next = ThreadId(u32::try_from(self.identities.len()).unwrap_or(u32::MAX));
        let thread = *self.by_pid.entry(pid).or_insert(next);
        if thread == next {
            self.identities.push(Identity {
                pid,
                origin,
                names: Vec::new(),
                prio: None,
                first_cpu: None,
                cpus: None,
                kernel_state: false,
                execs_at_ns: None,
            });
        }
        thread
    }

    fn seen(&mut self, task: Task) -> Option<ThreadId> {
        self.named(task.pid, task.comm, Some(task.prio))
    }

    fn seen_on(&mut self, task: Task, cpu: u32) {
        if let Some(thread) = self.seen(task) {
            self.first_on(thread, cpu);
        }
    }

    fn named(&mut self, pid: Pid, comm: CommId, prio: Option<i32>) -> Option<ThreadId> {
        if pid <= 0 {
            return None;
        }
        let thread = self.of(pid, Origin::Before);
        let identity = &mut self.identities[thread.index()];
        match identity.names.iter_mut().find(|(name, _)| *name == comm) {
            Some((_, count)) => *count += 1,
            None => identity.names.push((comm, 1)),
        }
        identity.prio = identity.prio.or(prio);
        Some(thread)
    }

    fn first_on(&mut self, thread: ThreadId, cpu: u32) {
        let identity = &mut self.identities[thread.index()];
        identity.first_cpu = identity.first_cpu.or(Some(cpu));
    }

    fn on_cpu(&mut self, thread: ThreadId, cpu: u32) {
        self.first_on(thread, cpu);
        let identity = &mut self.identities[thread.index()];
        let (low, high) = identity.cpus.unwrap_or((cpu, cpu));
        identity.cpus = Some((low.min(cpu), high.max(cpu)));
    }
}

impl Identity {
    /// The name most events gave it; of two equally frequent ones the later.
    pub(super) fn name(&self, comms: &CommTable) -> String {
        let most = self.names.iter().max_by_key(|(_, count)| *count);
        match most {
            Some((comm, _)) => comms.display(*comm).into_owned(),
            None => format!("pid-{}", self.pid),
        }
    }

    /// Whether it is a thread of the kernel itself.
    ///
    /// A trace does not say so. It is one if it slept in state `I` or `P`, which only kernel
    /// threads do, or if it bears a name that the kernel gives.
    pub(super) fn is_kernel(&self, name: &str) -> bool {
        self.kernel_state || KERNEL_NAMES.iter().any(|kernel| name.starts_with(kernel))
    }

    /// The CPU it is bound to, for kernel threads that exist once per CPU: `kworker/1:0`,
    /// `ksoftirqd/0`. (`kworker/u8:0` is not bound.)
    pub(super) fn bound_cpu(&self, name: &str) -> Option<u32> {
        let cpu = per_cpu_number(name)?;
        // A worker that served another CPU was rebound: then its name proves nothing.
        (self.cpus.is_none_or(|seen| seen == (cpu, cpu)) && self.is_kernel(name)).then_some(cpu)
    }

    /// Policy, nice value and real-time priority that the kernel priority stands for.
    ///
    /// 100..=139 is nice −20..=19, 0..=98 is real-time 99..=1. Whether a real-time thread is FIFO
    /// or round robin is not in the trace: FIFO is assumed. Deadline threads (−1) become FIFO 99.
    pub(super) fn scheduling(&self) -> (Policy, i32, u8) {
        match self.prio.unwrap_or(120) {
            prio @ 100..=139 => (Policy::Normal, prio - 120, 0),
            prio @ 0..=98 => (Policy::Fifo, 0, (99 - prio) as u8),
            prio if prio < 0 => (Policy::Fifo, 0, 99),
            _ => (Policy::Normal, 0, 0),
        }
    }
}

/// Prefixes of the names of kernel threads that may never be seen asleep.
const KERNEL_NAMES: [&str; 12] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcuop/",
    "rcuog/",
    "cpuhp/",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "irq/",
    "jbd2/",
];

/// The CPU in the name of a per-CPU kernel thread.
fn per_cpu_number(name: &str) -> Option<u32> {
    let (kind, rest) = name.split_once('/')?;
    if !matches!(
        kind,
        "kworker" | "ksoftirqd" | "migration" | "cpuhp" | "rcuc"
    ) {
        return None;
    }
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_of_a_bound_kernel_thread() {
        assert_eq!(per_cpu_number("kworker/1:0"), Some(1));
        assert_eq!(per_cpu_number("kworker/12:1H"), Some(12));
        assert_eq!(per_cpu_number("kworker/u8:0"), None);
        assert_eq!(per_cpu_number("ksoftirqd/3"), Some(3));
        assert_eq!(per_cpu_number("irq/9-acpi"), None);
        assert_eq!(per_cpu_number("nginx"), None);
    }
}
