//! A replay as programs, tasks, groups and arrivals for the simulator.
//!
//! Every thread gets an inbox and one program:
//!
//! ```text
//!          (what was under way at the start, or what a forked thread does first)
//!   wait:  r0 = oldest message of my inbox        sleeps while there is none
//!          jump to handler r0
//!   h0:    work 70 µs                             the activation of message 0
//!          send message 17 to the inbox of postgres
//!          work 27 µs
//!          record the latency
//!          jump wait
//!   h1:    …
//! ```
//!
//! Messages are handled in the order in which they *arrive in the simulation*, which need not be the
//! recorded one; each brings the handler of the activation it began. A message that finds the thread
//! busy waits in the inbox, like a request in a socket. Messages of interrupts are arrivals with
//! their recorded time, CPU and context.

use super::Replay;
use super::groups::GroupIndex;
use super::model::{Activation, ActivationId, Step, Trigger};
use super::threads::ThreadId;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, ForkId, ForkSpec, GroupSpec, MetricId,
    ProgramId, QueueId, QueueSpec, SemaphoreId, TaskSpec,
};
use schedcast_sim::{ProgramBuilder, ProgramError, Reg, Workload};

/// What the user decides about the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// Whether wakeups of user threads by user threads carry the sync hint (`WF_SYNC`), as those of
    /// sockets and pipes do and those of futexes do not. A trace does not tell.
    pub sync_wakeups: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self { sync_wakeups: true }
    }
}

/// Where things of the replay stand in the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Group of the simulator for each group of the replay.
    pub groups: Vec<GroupId>,
    /// Inbox of each thread that has a task.
    pub inboxes: Vec<Option<QueueId>>,
    /// How long to simulate.
    pub duration_ns: Ns,
}

/// Message that was received.
const MESSAGE: Reg = Reg(0);
/// Message to send.
const SENT: Reg = Reg(1);
/// Handle of a forked child.
const CHILD: Reg = Reg(2);
/// Time of the arrival that is handled.
const SINCE: Reg = Reg(3);
/// Size of a message; inboxes are unbounded, so it says nothing.
const MESSAGE_BYTES: u64 = 1;

impl Replay {
    /// Adds groups, programs, tasks and arrivals to a workload. Time 0 of the simulation is the
    /// start of the recording.
    ///
    /// The latency of each activation whose begin and end the recording shows goes to the metric
    /// `NAME/activation_latency`; if it was begun by a thread and wakes that thread again, the time
    /// until the last such wakeup goes to `NAME/reply_latency`.
    ///
    /// # Errors
    /// If a program breaks a limit of the simulator.
    pub fn compile(
        &self,
        workload: &mut Workload,
        options: CompileOptions,
    ) -> Result<Compiled, ProgramError> {
        let groups = self.add_groups(workload);
        let compiler = Compiler::new(self, options, workload);
        for (id, thread) in (0u32..).map(ThreadId).zip(&self.threads) {
            if compiler.inboxes[id.index()].is_none() {
                continue;
            }
            let program = compiler.program(id)?;
            compiler.workload.add_program(program);
            if compiler.forks[id.index()].is_none() {
                let task = compiler.task(id, groups[thread.group.index()]);
                compiler.workload.add_task(task);
            }
        }
        let arrivals = compiler.arrivals();
        let inboxes = compiler.inboxes;
        workload.add_arrivals(ArrivalSource::List(arrivals));
        Ok(Compiled {
            groups,
            inboxes,
            duration_ns: self.duration_ns,
        })
    }

    /// When the period timer of a group expires, in 0..`period_ns` from the start of the recording.
    /// The recording must show it; for another period than the recorded one the timer goes on from
    /// a recorded expiry, as the kernel does it.
    pub fn period_phase_ns(&self, group: GroupIndex, period_ns: Ns) -> Option<Ns> {
        let phase = self.groups[group.index()].phase?;
        phase.offset_ns.checked_rem(period_ns)
    }

    fn add_groups(&self, workload: &mut Workload) -> Vec<GroupId> {
        let mut ids = Vec::with_capacity(self.groups.len());
        for (index, group) in (0u32..).map(GroupIndex).zip(&self.groups) {
            let Some(parent) = group.parent else {
                ids.push(GroupId::ROOT);
                continue;
            };
            let mut spec = GroupSpec::new(group.path.clone(), ids[parent.index()]);
            spec.shares = group.shares;
            spec.idle = group.idle;
            spec.limit = group.limit;
            spec.period_phase_ns = self.period_phase_ns(index, group.limit.period_ns);
            ids.push(workload.add_group(spec));
        }
        ids
    }
}

struct Compiler<'a> {
    replay: &'a Replay,
    options: CompileOptions,
    workload: &'a mut Workload,
    inboxes: Vec<Option<QueueId>>,
    programs: Vec<ProgramId>,
    /// For threads that are forked by a step.
    forks: Vec<Option<ForkId>>,
    /// Activation and reply latency.
    metrics: Vec<(MetricId, MetricId)>,
    handovers: Vec<SemaphoreId>,
}

impl<'a> Compiler<'a> {
    /// Gives every thread that does something its inbox and the place of its program.
    fn new(replay: &'a Replay, options: CompileOptions, workload: &'a mut Workload) -> Self {
        let mut forked = vec![false; replay.threads.len()];
        for step in &replay.steps {
            if let Step::Fork(child) = step {
                forked[child.index()] = true;
            }
        }
        let handovers = (0..replay.handovers)
            .map(|_| workload.add_semaphore(0))
            .collect();
        let mut compiler = Self {
            replay,
            options,
            workload,
            inboxes: Vec::new(),
            programs: Vec::new(),
            forks: Vec::new(),
            metrics: Vec::new(),
            handovers,
        };
        // Forks name programs that are made later: they are numbered in advance.
        let mut program = ProgramId(compiler.workload.programs.len() as u32);
        for (thread, forked) in replay.threads.iter().zip(forked) {
            let active = forked || !thread.activations.is_empty();
            let workload = &mut *compiler.workload;
            let metrics = (
                workload.add_metric(&format!("{}/activation_latency", thread.name)),
                workload.add_metric(&format!("{}/reply_latency", thread.name)),
            );
            let inbox = active.then(|| workload.add_queue(QueueSpec::UNBOUNDED));
            let fork = forked.then(|| {
                workload.add_fork(ForkSpec {
                    name: thread.name.clone(),
                    program,
                    process: true,
                })
            });
            compiler.metrics.push(metrics);
            compiler.inboxes.push(inbox);
            compiler.programs.push(program);
            program.0 += u32::from(active);
            compiler.forks.push(fork);
        }
        compiler
    }

    /// Number of an activation among those of its thread: the message that begins it.
    fn message(&self, id: ActivationId) -> u64 {
        let thread = self.replay.activations[id.index()].thread;
        u64::from(id.0 - self.replay.threads[thread.index()].activations.start)
    }

    fn program(&self, id: ThreadId) -> Result<schedcast_sim::Program, ProgramError> {
        let thread = &self.replay.threads[id.index()];
        let mut b = ProgramBuilder::new(format!("{}-{}", thread.name, thread.pid));
        let wait = b.label();
        let first = self.replay.activations_of(id).first();
        let mut ids = thread.activations.clone().map(ActivationId);
        let under_way =
            first.is_some_and(|first| matches!(first.trigger, Trigger::Start | Trigger::Fork));
        if under_way && let Some(first) = ids.next() {
            self.handler(&mut b, first);
        }
        b.bind(wait);
        if let Some(inbox) = self.inboxes[id.index()] {
            b.recv(inbox, MESSAGE);
        }
        let handlers: Vec<_> = thread.activations.clone().map(|_| b.label()).collect();
        b.jump_indexed(MESSAGE, &handlers);
        b.jump(wait);
        // The one that was under way is no message, but numbers are easier kept.
        for (handler, activation) in handlers.iter().zip(thread.activations.clone()) {
            b.bind(*handler);
            self.handler(&mut b, ActivationId(activation));
            b.jump(wait);
        }
        b.finish()
    }

    fn handler(&self, b: &mut ProgramBuilder, id: ActivationId) {
        let activation = &self.replay.activations[id.index()];
        let steps = self.replay.steps_of(activation);
        let reply = steps
            .iter()
            .rposition(|step| self.is_reply(activation, step));
        for (position, step) in steps.iter().enumerate() {
            self.step(b, activation, *step);
            if reply == Some(position) {
                let (_, metric) = self.metrics[activation.thread.index()];
                b.request_end(metric, u64::from(id.0));
            }
        }
        if activation.end_ns.is_none() {
            return;
        }
        let (metric, _) = self.metrics[activation.thread.index()];
        match activation.trigger {
            Trigger::Thread(_) | Trigger::ThreadUnseen(_) => {
                b.request_end(metric, u64::from(id.0));
            }
            Trigger::Outside { at_ns, .. } => {
                b.set(SINCE, at_ns);
                b.record_since(metric, SINCE);
            }
            Trigger::Start | Trigger::Fork => {}
        }
    }

    /// Whether a step wakes the thread that began the activation.
    fn is_reply(&self, activation: &Activation, step: &Step) -> bool {
        match (activation.trigger, step) {
            (Trigger::Thread(by) | Trigger::ThreadUnseen(by), Step::Wake(target)) => {
                self.replay.activations[target.index()].thread == by
            }
            _ => false,
        }
    }

    fn step(&self, b: &mut ProgramBuilder, activation: &Activation, step: Step) {
        match step {
            Step::Run { work_ns } => b.work(work_ns),
            Step::Wake(target) => {
                let wakee = self.replay.activations[target.index()].thread;
                let Some(inbox) = self.inboxes[wakee.index()] else {
                    return;
                };
                let (activation_latency, reply_latency) = self.metrics[wakee.index()];
                b.request_begin(activation_latency, u64::from(target.0));
                b.request_begin(reply_latency, u64::from(target.0));
                b.set(SENT, self.message(target));
                let kernel = |id: ThreadId| self.replay.threads[id.index()].kernel;
                let sync =
                    self.options.sync_wakeups && !kernel(activation.thread) && !kernel(wakee);
                b.send(inbox, MESSAGE_BYTES, SENT, sync);
            }
            Step::Post(handover) => b.sem_post(self.handovers[handover.0 as usize]),
            Step::Wait(handover) => b.sem_wait(self.handovers[handover.0 as usize]),
            Step::Io { delay_ns } => b.io(delay_ns),
            Step::Fork(child) => {
                if let Some(fork) = self.forks[child.index()] {
                    b.fork(fork, CHILD);
                }
            }
            Step::Exit => b.exit(),
        }
    }

    fn task(&self, id: ThreadId, group: GroupId) -> TaskSpec {
        let thread = &self.replay.threads[id.index()];
        let mut task = TaskSpec::new(thread.name.clone(), self.programs[id.index()]);
        task.policy = thread.policy;
        task.nice = thread.nice;
        task.rt_priority = thread.rt_priority;
        task.affinity = thread.bound_cpu.map(|cpu| CpuSet::of(Cpu(cpu)));
        task.group = group;
        // Which threads share an address space is not in a trace: each is given its own.
        task.address_space = (!thread.kernel).then_some(id.0);
        task.start_cpu = Some(Cpu(thread.bound_cpu.unwrap_or(thread.first_cpu)));
        task
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (id, activation) in (0u32..).map(ActivationId).zip(&self.replay.activations) {
            let Trigger::Outside { at_ns, cpu, soft } = activation.trigger else {
                continue;
            };
            let Some(queue) = self.inboxes[activation.thread.index()] else {
                continue;
            };
            arrivals.push(Arrival {
                at_ns,
                cpu: Cpu(cpu),
                context: if soft {
                    ArrivalContext::SoftIrq
                } else {
                    ArrivalContext::HardIrq
                },
                sync: false,
                action: ArrivalAction::Send {
                    queue,
                    bytes: MESSAGE_BYTES,
                    value: self.message(id),
                },
            });
        }
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        arrivals
    }
}
