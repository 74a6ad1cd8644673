//! A recording as background: its threads run beside something else, as they did when the machine
//! was recorded.
//!
//! Kernel threads and background threads of user space wake every few milliseconds on any machine,
//! and each takes a CPU for some µs from the task that runs there. A recording of an otherwise idle
//! machine shows all of that, and [`Replay::add_background`] adds it to any workload: threads wake
//! when they woke in the recording, do the work they did, and wake each other as they did. Four
//! things differ from a replay:
//!
//! * the recording is repeated. A run enters it at a place that its seed draws, and when the
//!   recording is over it begins anew, so that a run of any length has background, and runs under
//!   other seeds have other background;
//! * all threads exist from the start and sleep. One that was forked while recording begins with a
//!   wakeup at that time, and one that ended sleeps until the next round;
//! * waits for another thread inside an activation take no time;
//! * the recorder is left out, with its children and the tasks that it woke.
//!
//! Everything is counted under one name, [`NAME`], so that figures of the workload exclude the
//! background.
//!
//! # Worked example
//!
//! A monitor woke 20 times a second for 30 µs in a recording of 60 s. Beside a benchmark of 2 s it
//! wakes some 40 times. Seed 0 may take the wakeups of 17.3 to 19.3 s, seed 1 those of 58.9 to 60
//! and of 0 to 0.9 s.

use std::collections::BTreeSet;

use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::program::Label;
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, GroupSpec, QueueId, QueueSpec, TaskSpec,
};
use schedcast_sim::{Program, ProgramBuilder, ProgramError, Reg, Workload};

use super::Replay;
use super::compile::start_cpu;
use super::groups::GroupIndex;
use super::model::{Activation, ActivationId, Step, Trigger};
use super::subject::is_recorder;
use super::threads::{Origin, ThreadId};

/// Name under which all threads of the background are counted.
pub const NAME: &str = "background";

/// Prefix of the paths of the background's groups. A group of a workload begins with a slash.
pub const GROUP_PREFIX: &str = "background:";

/// Address spaces of the background are numbered from here, beyond those of any workload.
const ADDRESS_SPACES: u32 = 1 << 30;

/// Number of the message that was received.
const MESSAGE: Reg = Reg(0);
/// Message to send.
const SENT: Reg = Reg(1);
/// Size of a message; without effect, as inboxes are unbounded.
const MESSAGE_BYTES: u64 = 1;

/// Background added to a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// Threads that run.
    pub threads: usize,
    /// Wakeups from outside in a round.
    pub arrivals: usize,
    /// Threads of the recorder and of the processes it started.
    pub recorders: usize,
    /// Names of threads bound to CPUs that the machine does not have. They are left out.
    pub without_cpu: Vec<String>,
}

impl Replay {
    /// Which threads make up the background of a machine with so many CPUs.
    pub fn background(&self, cpus: usize) -> Background {
        Members::of(self, cpus).background(self)
    }

    /// Puts the threads behind a workload. Activity recorded on a CPU that the machine does not
    /// have happens on that number modulo its CPUs; threads bound to such a CPU are left out.
    ///
    /// # Errors
    /// If a program breaks a limit of the simulator.
    pub fn add_background(
        &self,
        workload: &mut Workload,
        cpus: usize,
    ) -> Result<Background, ProgramError> {
        let members = Members::of(self, cpus);
        let groups = self.add_background_groups(&members, workload);
        let mut inboxes = vec![None; self.threads.len()];
        for id in members.ids() {
            inboxes[id.index()] = Some(workload.add_queue(QueueSpec::UNBOUNDED));
        }
        let adding = Adding {
            replay: self,
            members: &members,
            inboxes,
            cpus: cpus as u32,
        };
        for id in members.ids() {
            let program = workload.add_program(adding.program(id)?);
            let group = groups[self.threads[id.index()].group.index()];
            let mut task = TaskSpec::new(self.threads[id.index()].name.clone(), program);
            task.group = group;
            adding.describe(id, &mut task);
            workload.add_task(task);
        }
        let arrivals = adding.arrivals();
        let mut background = members.background(self);
        background.arrivals = arrivals.len();
        if !arrivals.is_empty() {
            let round_ns = self.duration_ns.max(1);
            workload.add_arrivals(NAME, ArrivalSource::Rounds { arrivals, round_ns });
        }
        Ok(background)
    }

    /// The groups of the members and those above them, as they were while recording.
    fn add_background_groups(&self, members: &Members, workload: &mut Workload) -> Vec<GroupId> {
        let mut needed = vec![false; self.groups.len()];
        for id in members.ids() {
            let mut group = Some(self.threads[id.index()].group);
            while let Some(index) = group {
                needed[index.index()] = true;
                group = self.groups[index.index()].parent;
            }
        }
        let mut ids = Vec::with_capacity(self.groups.len());
        for (index, group) in (0u32..).map(GroupIndex).zip(&self.groups) {
            let id = match group.parent {
                Some(parent) if needed[index.index()] => {
                    let path = format!("{GROUP_PREFIX}{}", group.path);
                    let mut spec = GroupSpec::new(path, ids[parent.index()]);
                    spec.shares = group.shares;
                    spec.idle = group.idle;
                    spec.limit = group.limit;
                    workload.add_group(spec)
                }
                _ => GroupId::ROOT,
            };
            ids.push(id);
        }
        ids
    }
}

/// Members of the background.
struct Members {
    /// By thread.
    is_member: Vec<bool>,
    recorders: BTreeSet<ThreadId>,
    without_cpu: Vec<ThreadId>,
}

impl Members {
    fn of(replay: &Replay, cpus: usize) -> Members {
        let mut members = Members {
            is_member: vec![false; replay.threads.len()],
            recorders: BTreeSet::new(),
            without_cpu: Vec::new(),
        };
        let all_cpus = CpuSet::first(cpus);
        for (id, thread) in (0u32..).map(ThreadId).zip(&replay.threads) {
            let records = is_recorder(&thread.name);
            let of_recorder = matches!(thread.origin, Origin::Fork(parent) if members.recorders.contains(&parent));
            let has_cpu = thread.cpus.is_none_or(|own| !own.and(&all_cpus).is_empty());
            if records || of_recorder {
                members.recorders.insert(id);
            } else if thread.activations.is_empty() || thread.left_out {
                continue;
            } else if has_cpu {
                members.is_member[id.index()] = true;
            } else {
                members.without_cpu.push(id);
            }
        }
        members
    }

    fn ids(&self) -> impl Iterator<Item = ThreadId> {
        let all = (0u32..).map(ThreadId).zip(&self.is_member);
        all.filter(|(_, is_member)| **is_member).map(|(id, _)| id)
    }

    fn contain(&self, id: ThreadId) -> bool {
        self.is_member[id.index()]
    }

    fn background(&self, replay: &Replay) -> Background {
        let name = |id: &ThreadId| replay.threads[id.index()].name.clone();
        Background {
            threads: self.ids().count(),
            arrivals: 0,
            recorders: self.recorders.len(),
            without_cpu: self.without_cpu.iter().map(name).collect(),
        }
    }
}

/// From members to programs, tasks and arrivals.
struct Adding<'a> {
    replay: &'a Replay,
    members: &'a Members,
    inboxes: Vec<Option<QueueId>>,
    cpus: u32,
}

impl Adding<'_> {
    /// A loop over the inbox; the number of a message is that of the activation among those of its
    /// thread.
    fn program(&self, id: ThreadId) -> Result<Program, ProgramError> {
        let thread = &self.replay.threads[id.index()];
        let mut b = ProgramBuilder::new(format!("{NAME} {}-{}", thread.name, thread.pid));
        let wait = b.label();
        let activations = self.replay.activations_of(id);
        let handlers: Vec<Label> = activations.iter().map(|_| b.label()).collect();
        b.bind(wait);
        if let Some(inbox) = self.inboxes[id.index()] {
            b.recv(inbox, MESSAGE);
        }
        b.jump_indexed(MESSAGE, &handlers);
        b.jump(wait);
        for (handler, activation) in handlers.iter().zip(activations) {
            b.bind(*handler);
            for step in self.replay.steps_of(activation) {
                self.step(&mut b, id, *step);
            }
            b.jump(wait);
        }
        b.finish()
    }

    fn step(&self, b: &mut ProgramBuilder, from: ThreadId, step: Step) {
        match step {
            Step::Run { work_ns } => b.work(work_ns),
            Step::Stolen { stolen_ns } => b.stolen(stolen_ns),
            Step::Io { delay_ns } => b.io(delay_ns),
            Step::Wake(target) => {
                let to = self.replay.activations[target.index()].thread;
                if let Some(inbox) = self.inboxes[to.index()] {
                    let kernel = |id: ThreadId| self.replay.threads[id.index()].kernel;
                    b.set(SENT, self.number(target));
                    b.send(inbox, MESSAGE_BYTES, SENT, !kernel(from) && !kernel(to));
                }
            }
            // Children are there from the start, and no thread ends or sends requests.
            Step::Post(_)
            | Step::Wait(_)
            | Step::Await(_)
            | Step::Reply(_)
            | Step::Later(_)
            | Step::Fork(_)
            | Step::Exit => {}
        }
    }

    /// The place of an activation among those of its thread.
    fn number(&self, id: ActivationId) -> u64 {
        let thread = self.replay.activations[id.index()].thread;
        u64::from(id.0 - self.replay.threads[thread.index()].activations.start)
    }

    fn describe(&self, id: ThreadId, task: &mut TaskSpec) {
        let thread = &self.replay.threads[id.index()];
        task.statistics = Some(NAME.to_owned());
        task.policy = thread.policy;
        task.nice = thread.nice;
        task.rt_priority = thread.rt_priority;
        task.affinity = thread
            .cpus
            .map(|own| own.and(&CpuSet::first(self.cpus as usize)));
        task.address_space = (!thread.kernel).then_some(ADDRESS_SPACES | id.0);
        task.start_cpu = Some(start_cpu(task.affinity, Cpu(thread.first_cpu % self.cpus)));
        task.asleep_in = self.inboxes[id.index()];
    }

    /// Everything that no other member wakes, in order of time.
    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (id, activation) in (0u32..).map(ActivationId).zip(&self.replay.activations) {
            let Some(queue) = self.inboxes[activation.thread.index()] else {
                continue;
            };
            let Some((at_ns, cpu, context)) = self.woken_from_outside(activation) else {
                continue;
            };
            arrivals.push(Arrival {
                at_ns: at_ns.min(self.replay.duration_ns.saturating_sub(1)),
                cpu: Cpu(cpu % self.cpus),
                context,
                sync: false,
                action: ArrivalAction::Send {
                    queue,
                    bytes: MESSAGE_BYTES,
                    value: self.number(id),
                },
            });
        }
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        arrivals
    }

    /// When, on which CPU and in which context; `None` for what a member wakes, and for a task that
    /// a left-out task woke.
    fn woken_from_outside(&self, activation: &Activation) -> Option<(u64, u32, ArrivalContext)> {
        let thread = &self.replay.threads[activation.thread.index()];
        match activation.trigger {
            Trigger::Outside {
                at_ns,
                cpu,
                context,
            } => Some((at_ns, cpu, context)),
            Trigger::Start | Trigger::Fork => {
                let forked_by_member = match thread.origin {
                    Origin::Fork(parent) => self.members.contain(parent),
                    Origin::Before | Origin::UnknownFork => true,
                };
                let at = (
                    activation.woken_ns,
                    thread.first_cpu,
                    ArrivalContext::HardIrq,
                );
                forked_by_member.then_some(at)
            }
            Trigger::Thread(_) | Trigger::ThreadUnseen(_) => None,
        }
    }
}
