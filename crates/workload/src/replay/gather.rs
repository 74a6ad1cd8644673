//! One pass over the events, which collects threads, runs on CPUs, wakings and what threads did.

use super::activity::{Deed, DeedKind, Source, Waking};
use super::groups::{self, Group, GroupIndex, Member};
use super::model::Thread;
use super::phase;
use super::report::Report;
use super::subject;
use super::threads::{Identity, Origin, ThreadId, Threads};
use super::timeline::{self, CpuTimeline, Repairs, Run};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::ids::Cpu;
use schedcast_kernel::task::Policy;
use schedcast_sim::workload::ArrivalContext;
use schedcast_trace::{AtSocket, Event, EventKind, Level, Pid, Recording, Socket, Wakeup};
use std::collections::{BTreeMap, BTreeSet};

/// Everything the events say, by thread and by CPU.
#[derive(Clone)]
pub(super) struct Gathered {
    pub start_ns: u64,
    pub end_ns: u64,
    pub cpus: u32,
    pub threads: Vec<Thread>,
    pub groups: Vec<Group>,
    pub wakings: Vec<Waking>,
    /// Per thread, in order of events.
    pub deeds: Vec<Vec<Deed>>,
    /// In order of events.
    pub socket_uses: Vec<SocketUse>,
    pub report: Report,
    identities: Vec<Identity>,
    timelines: Vec<CpuTimeline>,
}

/// Something that happened at a socket while a thread was the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketUse {
    pub time_ns: u64,
    pub thread: ThreadId,
    pub socket: Socket,
    pub what: AtSocket,
}

impl Gathered {
    pub(super) fn of(recording: &Recording) -> Self {
        let (mut start_ns, end_ns) = recording.span_ns();
        // The activity of a CPU before its buffer begins is unknown: start when all of them are
        // known.
        for begin in &recording.counts.buffer_starts {
            start_ns = start_ns.max(begin.after_ns.unwrap_or(0));
        }
        let mut pass = Pass {
            threads: Threads::default(),
            timeline: timeline::Builder::new(start_ns),
            wakings: Vec::new(),
            deeds: Vec::new(),
            last_waking: Vec::new(),
            socket_uses: Vec::new(),
        };
        let mut report = Report::default();
        let mut last_ns = start_ns;
        for (index, event) in recording.events.iter().enumerate() {
            if event.time_ns < start_ns {
                report.events_before_start += 1;
                continue;
            }
            if event.time_ns > end_ns && recording.meta.end_ns.is_some() {
                report.events_after_end += 1;
                continue;
            }
            report.events += 1;
            last_ns = last_ns.max(event.time_ns);
            pass.see(index, event);
        }
        let identities = pass.threads.identities;
        let threads: Vec<Thread> = identities
            .iter()
            .map(|identity| thread(identity, recording))
            .collect();
        pass.deeds.resize(identities.len(), Vec::new());
        Self {
            start_ns,
            end_ns: end_ns.max(last_ns),
            cpus: recording.cpus(),
            threads,
            groups: Vec::new(),
            wakings: pass.wakings,
            deeds: pass.deeds,
            socket_uses: pass.socket_uses,
            report,
            identities,
            timelines: pass.timeline.finish(),
        }
    }

    /// Reads the groups, puts the threads into them and looks for the phases of their timers.
    pub(super) fn place(&mut self, recording: &Recording, autogroup: bool) -> Result<(), String> {
        let members: Vec<Member<'_>> = self
            .threads
            .iter()
            .map(|thread| Member {
                pid: thread.pid,
                name: &thread.name,
                origin: thread.origin,
                kernel: thread.kernel,
                policy: thread.policy,
            })
            .collect();
        let before = recording.cgroups_before.as_ref();
        let after = recording.cgroups_after.as_ref();
        let mut placement = groups::place(before, after, autogroup, &members)?;
        phase::infer(
            &self.timelines,
            &mut placement.groups,
            &placement.of_thread,
            self.start_ns,
            timeline::idle_exit_ns(&self.timelines),
            &recording.meta.period_ends,
        );
        self.report.unlisted_threads = placement.unlisted;
        self.report.moved_threads = placement.moved;
        self.report.relimited_groups = placement.relimited;
        self.report.autogroup = autogroup;
        self.groups = placement.groups;
        for (thread, group) in self.threads.iter_mut().zip(placement.of_thread) {
            thread.group = group;
        }
        bind(&mut self.threads, &self.groups, recording);
        subject::assign(&mut self.threads, &self.groups);
        Ok(())
    }

    /// By thread: when it first called `exec`, ns since the start.
    pub(super) fn execs_ns(&self) -> Vec<Option<u64>> {
        let execs = self.identities.iter().map(|one| one.execs_at_ns);
        let since = |at_ns: u64| at_ns.saturating_sub(self.start_ns);
        execs.map(|at_ns| at_ns.map(since)).collect()
    }

    /// The runs of every thread.
    pub(super) fn runs(&self) -> (Vec<Vec<Run>>, Repairs) {
        let boundary = |thread: ThreadId, from_ns| {
            let group = self.threads.get(thread.index())?.group;
            phase::boundary(&self.groups, group, self.start_ns, from_ns)
        };
        let threads = self.identities.len();
        timeline::resolve(&self.timelines, threads, self.end_ns, &boundary)
    }

    /// Reduces the events to what threads did and were, with the CPU time of their `runs`.
    pub(super) fn forget_events(&mut self, runs: &[Vec<Run>]) {
        for (thread, runs) in self.threads.iter_mut().zip(runs) {
            thread.executed_ns = runs.iter().map(Run::length_ns).sum();
        }
        self.deeds = Vec::new();
        self.socket_uses = Vec::new();
        self.identities = Vec::new();
        self.timelines = Vec::new();
    }
}

fn thread(identity: &Identity, recording: &Recording) -> Thread {
    let name = identity.name(&recording.comms);
    let kernel = identity.is_kernel(&name);
    let (policy, nice, rt_priority) = identity.scheduling();
    // The simulated kernel itself does the work of a CPU's stopper thread (moving tasks).
    let stopper = name.starts_with("migration/") && policy != Policy::Normal;
    Thread {
        pid: identity.pid,
        origin: identity.origin,
        kernel,
        left_out: stopper,
        policy,
        nice,
        rt_priority,
        first_cpu: identity.first_cpu.unwrap_or(0),
        cpus: identity.bound_cpu(&name).map(|cpu| CpuSet::of(Cpu(cpu))),
        group: GroupIndex::ROOT,
        activations: 0..0,
        executed_ns: 0,
        subject: name.clone(),
        name,
    }
}

/// Gives threads the CPUs that the recorder saw them restricted to. One that it never saw inherits
/// its parent's. The CPUs that a thread's cpuset leaves it are the cpuset's and no binding of its
/// own: with a wider one it would have more (`cpuset_attach`, `update_tasks_cpumask`).
fn bind(threads: &mut [Thread], groups: &[Group], recording: &Recording) {
    let mut by_pid: BTreeMap<Pid, CpuSet> = BTreeMap::new();
    for bound in &recording.meta.thread_cpus {
        let cpus = groups::cpu_set(&bound.cpus);
        by_pid.extend(bound.threads.iter().map(|pid| (*pid, cpus)));
    }
    let trees = [&recording.cgroups_before, &recording.cgroups_after];
    let listed = trees.into_iter().flatten().flat_map(|tree| tree.iter());
    let seen: BTreeSet<Pid> = listed.flat_map(|(_, group)| group.tasks.clone()).collect();
    for index in 0..threads.len() {
        let thread = &threads[index];
        if thread.cpus.is_some() {
            continue;
        }
        let own = by_pid.get(&thread.pid).copied();
        let inherited = match thread.origin {
            Origin::Fork(parent) if !seen.contains(&thread.pid) => threads[parent.index()].cpus,
            _ => None,
        };
        let of_cpuset = groups::cpus_of(groups, thread.group);
        threads[index].cpus = own
            .or(inherited)
            .filter(|cpus| !cpus.is_empty() && Some(*cpus) != of_cpuset);
    }
}

struct Pass {
    threads: Threads,
    timeline: timeline::Builder,
    wakings: Vec<Waking>,
    deeds: Vec<Vec<Deed>>,
    /// Per thread: its last waking, until it is on a run queue.
    last_waking: Vec<Option<usize>>,
    socket_uses: Vec<SocketUse>,
}

impl Pass {
    fn see(&mut self, index: usize, event: &Event) {
        self.threads.see(event);
        self.timeline.see(index, event, &self.threads);
        match event.kind {
            EventKind::Waking(wakeup) => self.waking(index, event, wakeup),
            EventKind::Wakeup(wakeup) | EventKind::WakeupNew(wakeup) => {
                let cpu = wakeup.target_cpu;
                self.arrived(wakeup);
                self.deed(index, event, wakeup.task.pid, DeedKind::Appears { cpu });
            }
            EventKind::Fork(fork) => {
                if let Some(child) = self.threads.current(fork.child_pid) {
                    self.deed(index, event, fork.parent_pid, DeedKind::Forks(child));
                }
            }
            EventKind::Socket { socket, what } => {
                self.socket_uses
                    .extend(self.threads.current(event.task).map(|thread| SocketUse {
                        time_ns: event.time_ns,
                        thread,
                        socket,
                        what,
                    }));
            }
            _ => {}
        }
    }

    /// A woken thread is on the run queue it was put on: tells where its waking led.
    fn arrived(&mut self, wakeup: Wakeup) {
        let thread = self.threads.current(wakeup.task.pid);
        let waking = thread.and_then(|thread| self.last_waking.get_mut(thread.index())?.take());
        if let Some(waking) = waking {
            let waking = &mut self.wakings[waking];
            waking.remote = waking.cpu != wakeup.target_cpu;
        }
    }

    fn waking(&mut self, index: usize, event: &Event, wakeup: Wakeup) {
        let Some(wakee) = self.threads.current(wakeup.task.pid) else {
            return;
        };
        // A thread that wakes itself (a signal, say) has not slept.
        if event.task == wakeup.task.pid {
            return;
        }
        let waker = self.threads.current(event.task);
        let source = source(event, wakeup, waker);
        let waking = self.wakings.len();
        self.wakings.push(Waking {
            time_ns: event.time_ns,
            cpu: event.cpu,
            wakee,
            source,
            under: waker.filter(|_| source == Source::SOFTIRQ),
            remote: false,
        });
        if self.last_waking.len() <= wakee.index() {
            self.last_waking.resize(wakee.index() + 1, None);
        }
        self.last_waking[wakee.index()] = Some(waking);
        self.deed(index, event, wakeup.task.pid, DeedKind::Woken(waking));
        match source {
            Source::Thread(_) | Source::SOFTIRQ => {
                self.deed(index, event, event.task, DeedKind::Wakes(waking));
            }
            Source::Outside { .. } => self.deed(index, event, event.task, DeedKind::Interrupted),
        }
    }

    fn deed(&mut self, index: usize, event: &Event, pid: i32, kind: DeedKind) {
        let Some(thread) = self.threads.current(pid) else {
            return;
        };
        if self.deeds.len() <= thread.index() {
            self.deeds.resize(thread.index() + 1, Vec::new());
        }
        self.deeds[thread.index()].push(Deed {
            event: index,
            time_ns: event.time_ns,
            kind,
        });
    }
}

/// Source of a waking that is written while `current` runs.
///
/// A trace without flag columns does not tell interrupts from tasks; then the running thread is
/// taken for the waker.
fn source(event: &Event, wakeup: Wakeup, current: Option<ThreadId>) -> Source {
    match (event.context.level(), current) {
        (Some(Level::Task) | None, Some(waker)) => Source::Thread(waker),
        (level, _) => Source::Outside {
            context: match level {
                Some(Level::SoftIrq) => ArrivalContext::SoftIrq,
                // `sched_waking` names the CPU where the task went to sleep. Its timers expire
                // there, and devices interrupt the CPU that gave them work, where they can.
                _ if wakeup.target_cpu == event.cpu => ArrivalContext::OwnTimer,
                _ => ArrivalContext::HardIrq,
            },
        },
    }
}
