//! A replay as programs, tasks, groups and arrivals for the simulator.
//!
//! Every thread gets an inbox and one program:
//!
//! ```text
//!          (what was under way at the start, or what a forked thread does first)
//!   wait:  take the oldest message of my inbox    sleeps while there is none
//!          jump to the handler of its number
//!   h0:    work 70 µs                             the activation of message 0
//!          send message 17 to the inbox of postgres
//!          work 27 µs
//!          jump wait
//!   h1:    …
//! ```
//!
//! Messages are handled in the order in which they *arrive in the simulation*, which need not be
//! the recorded one; each brings the handler of the activation it began. A message that finds the
//! thread busy waits in the inbox, like a request in a socket. Messages of interrupts are arrivals
//! with their recorded time, CPU and context.
//!
//! A message is one number: the time it is sent, multiplied by the number of activations its
//! receiver has, plus the number of the activation it begins. So the receiver knows when it was
//! sent, and can say at its reply how long the sender has waited. As a client sends its next
//! request only after the reply to the last one, that time counts from the last reply if the
//! message was sent before it.
//!
//! Clients that wait for answers send differently, see `exchanges`. The servers of a pool share one
//! program, so that each can do what the recording shows for any of them.

mod again;
mod exchanges;
mod jobs;
mod lanes;
mod order;
mod rounds;
mod services;
mod units;

use super::Replay;
use super::groups::{self, GroupIndex};
use super::model::{Activation, ActivationId, Step, Thread, Trigger};
use super::threads::{Origin, ThreadId};
use crate::registers::registers;
use again::Agains;
pub(super) use again::not_asked_again;
use exchanges::Exchanges;
use jobs::Jobs;
use lanes::Handed;
use order::InOrder;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::{Cpu, GroupId, Ns};
use schedcast_sim::program::Label;
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, ForkId, ForkSpec, GroupSpec, MetricId,
    ProgramId, QueueId, QueueSpec, SemaphoreId, TaskSpec,
};
use schedcast_sim::{
    Arithmetic, Compare, MessageSpec, ProgramBuilder, ProgramError, Ref, Reg, When, Workload,
};
use services::{Gate, Opens, Services};
use std::collections::BTreeSet;
use units::{Unit, Units, under_way};

/// User's choices about the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// Whether wakeups of user threads by user threads carry the sync hint (`WF_SYNC`), as those of
    /// sockets and pipes do and those of futexes do not. A trace does not tell.
    pub sync_wakeups: bool,
    /// CPUs of the machine. Where it has fewer than the recorded one, threads that were bound to a
    /// missing CPU or began there, and interrupts that it took, go to its number modulo these.
    pub cpus: u32,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self {
            sync_wakeups: true,
            cpus: u32::MAX,
        }
    }
}

impl CompileOptions {
    /// The CPU that stands for a recorded one.
    fn cpu(&self, recorded: u32) -> Cpu {
        Cpu(recorded % self.cpus)
    }

    /// Number of CPUs of the machine; the recorded one's, where nothing else is known.
    fn machine_cpus(&self, replay: &Replay) -> u32 {
        match self.cpus {
            u32::MAX => replay.cpus,
            cpus => cpus,
        }
    }

    /// The CPUs that stand for recorded ones.
    fn cpus_for(&self, recorded: &CpuSet) -> CpuSet {
        recorded.iter().map(|cpu| self.cpu(cpu.0)).collect()
    }
}

/// Where a thread begins that was first seen on `first` and may run on these CPUs.
pub(super) fn start_cpu(affinity: Option<CpuSet>, first: Cpu) -> Cpu {
    let nearest = affinity.filter(|cpus| !cpus.contains(first));
    nearest.and_then(|cpus| cpus.lowest()).unwrap_or(first)
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

/// The gates of a thread that are not emitted yet, each with the place where the message that opens
/// it is handled; and the place where the next message is taken.
type Gates<'b, 'a> = (&'b mut dyn Iterator<Item = (&'a Gate, Label)>, Label);

registers! { 0;
    /// Number of the message that was received.
    MESSAGE
    /// Message to send.
    SENT
    /// Handle of a forked child.
    CHILD
    /// When the message that is handled was sent.
    SINCE
    /// When the last reply was sent.
    REPLIED
}
/// For sending.
const SEND: [Reg; 3] = [Reg(5), Reg(6), Reg(7)];
/// Inbox of a task whose program serves several.
const INBOX: Reg = Reg(8);
/// Number of the activation that such a task was in at the start, plus 1.
const UNDER_WAY: Reg = Reg(9);
registers! { 24;
    /// When the thread asked for the next message.
    ASKED
    /// For how long the message had waited then; 0 if the thread slept for it.
    WAITED
}
/// A message that waited so long, ns, does not wake its thread. Shorter waits are within the error
/// of simulated times: of 15,200 recorded wakeups of HAProxy without a limit, 2,900 find it awake
/// in the simulation, by some microseconds.
const WAITS_IN_PILE_NS: u64 = 1_000_000;
/// Size of a message; without effect, as inboxes are unbounded.
const MESSAGE_BYTES: u64 = 1;

impl Replay {
    /// Adds groups, programs, tasks and arrivals to a workload. Time 0 of the simulation is the
    /// start of the recording.
    ///
    /// Where an activation was begun by a thread and wakes that thread again, the time until the
    /// last such wakeup goes to the metric `SUBJECT/reply_latency`. For servers of exchanges
    /// `SUBJECT/request_latency` is what their clients see, from when a request is due to its
    /// answer, and the same for services.
    ///
    /// # Errors
    /// If a program breaks a limit of the simulator.
    pub fn compile(
        &self,
        workload: &mut Workload,
        options: CompileOptions,
    ) -> Result<Compiled, ProgramError> {
        let groups = self.add_groups(workload, &options);
        let compiler = Compiler::new(self, options, &groups, workload);
        for unit in 0..compiler.units.all.len() {
            let program = compiler.program(unit)?;
            compiler.workload.add_program(program);
        }
        for (id, thread) in (0u32..).map(ThreadId).zip(&self.threads) {
            if compiler.inboxes[id.index()].is_some() && compiler.forks[id.index()].is_none() {
                let task = compiler.task(id, groups[thread.group.index()]);
                compiler.workload.add_task(task);
            }
        }
        let arrivals = compiler.arrivals();
        let patients = compiler.patients();
        let messages: Vec<MessageSpec> = compiler
            .units
            .all
            .iter()
            .map(|unit| compiler.messages(unit))
            .collect();
        let inboxes = compiler.inboxes;
        workload.messages.extend(messages);
        workload.patients.extend(patients);
        workload.add_arrivals("recording", ArrivalSource::List(arrivals));
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

    fn add_groups(&self, workload: &mut Workload, options: &CompileOptions) -> Vec<GroupId> {
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
            spec.cpus = groups::cpus_of(&self.groups, index).map(|cpus| options.cpus_for(&cpus));
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
    units: Units,
    /// For threads that are forked by a step.
    forks: Vec<Option<ForkId>>,
    /// Reply latency.
    metrics: Vec<MetricId>,
    handovers: Vec<SemaphoreId>,
    exchanges: Exchanges,
    services: Services,
    jobs: Jobs,
    in_order: InOrder,
    agains: Agains,
}

impl<'a> Compiler<'a> {
    /// Gives every thread that does something its inbox and the place of its program.
    fn new(
        replay: &'a Replay,
        options: CompileOptions,
        groups: &[GroupId],
        workload: &'a mut Workload,
    ) -> Self {
        let mut forked = vec![false; replay.threads.len()];
        for step in &replay.steps {
            if let Step::Fork(child) = step {
                forked[child.index()] = true;
            }
        }
        let handovers = (0..replay.handovers)
            .map(|_| workload.add_semaphore(0))
            .collect();
        let serving: BTreeSet<ThreadId> = replay
            .exchanges
            .iter()
            .flat_map(|exchange| exchange.servers.clone())
            .collect();
        let active = |id: usize| {
            let copied = serving.contains(&ThreadId(id as u32));
            forked[id] || copied || !replay.threads[id].activations.is_empty()
        };
        let inboxes: Vec<Option<QueueId>> = (0..replay.threads.len())
            .map(|id| active(id).then(|| workload.add_queue(QueueSpec::UNBOUNDED)))
            .collect();
        // Forks name programs that are made later: they are numbered in advance.
        let loose = services::loose_waits(replay);
        let first_program = ProgramId(workload.programs.len() as u32);
        let agains = Agains::of(replay);
        let units = Units::new(replay, &forked, &loose, &agains, first_program);
        let exchanges = Exchanges::new(replay, &units, &inboxes, workload);
        let in_order = InOrder::of(replay);
        let services = Services::new(replay, &loose, &in_order, workload);
        let jobs = Jobs::new(replay, groups, workload);
        let mut metrics = Vec::new();
        let mut forks = Vec::new();
        for (id, thread) in (0u32..).map(ThreadId).zip(&replay.threads) {
            metrics.push(workload.add_metric(&format!("{}/reply_latency", thread.subject)));
            forks.push(forked[id.index()].then(|| {
                let parent = match thread.origin {
                    Origin::Fork(parent) => Some(&replay.threads[parent.index()]),
                    Origin::Before | Origin::UnknownFork => None,
                };
                let is_elsewhere = parent.is_none_or(|parent| parent.group != thread.group);
                let allowed =
                    |one: &Thread| one.cpus.or(groups::cpus_of(&replay.groups, one.group));
                let is_bound_anew = parent.and_then(allowed) != allowed(thread);
                let all = || CpuSet::first(options.machine_cpus(replay) as usize);
                workload.add_fork(ForkSpec {
                    name: thread.name.clone(),
                    statistics: Some(thread.subject.clone()),
                    program: units.of(id).program,
                    process: true,
                    group: is_elsewhere.then(|| groups[thread.group.index()]),
                    affinity: is_bound_anew.then(|| match thread.cpus {
                        Some(cpus) => options.cpus_for(&cpus),
                        None => all(),
                    }),
                })
            }));
        }
        Self {
            replay,
            options,
            workload,
            inboxes,
            units,
            forks,
            metrics,
            handovers,
            exchanges,
            services,
            jobs,
            in_order,
            agains,
        }
    }

    /// Sends the message whose number is in `SENT` to a thread.
    fn send(&self, b: &mut ProgramBuilder, from: ThreadId, to: ThreadId) {
        if let Some(inbox) = self.inboxes[to.index()] {
            self.send_into(b, from, to, inbox.into());
        }
    }

    /// The same, into an inbox of a thread of the kind of `to`.
    fn send_into(&self, b: &mut ProgramBuilder, from: ThreadId, to: ThreadId, inbox: Ref<QueueId>) {
        let [time, ..] = SEND;
        b.now(time);
        b.arithmetic(Arithmetic::Multiply, time, self.units.of(to).messages);
        b.add(SENT, time);
        let kernel = |id: ThreadId| self.replay.threads[id.index()].kernel;
        let sync = self.options.sync_wakeups && !kernel(from) && !kernel(to);
        b.send(inbox, MESSAGE_BYTES, SENT, sync);
    }

    fn program(&self, unit: usize) -> Result<schedcast_sim::Program, ProgramError> {
        let unit = &self.units.all[unit];
        let first = &self.replay.threads[unit.threads[0].index()];
        let mut b = ProgramBuilder::new(format!("{}-{}", first.name, first.pid));
        let wait = b.label();
        let handlers: Vec<Label> = (0..unit.messages).map(|_| b.label()).collect();
        self.in_order.number(&mut b, self.replay, unit);
        let mut handed = Handed::new(&mut b);
        self.begin(&mut b, unit, wait, &mut handed);
        b.bind(wait);
        let begins = b.label();
        self.in_order.begin_owed(&mut b, unit, begins);
        let is_woken_for = self.is_woken_for(unit);
        if is_woken_for {
            b.now(ASKED);
        }
        match (&unit.threads[..], self.inboxes[unit.threads[0].index()]) {
            ([thread], Some(inbox)) => {
                if !self.take_in_rounds(&mut b, *thread, inbox, unit.messages) {
                    b.recv(inbox, MESSAGE);
                }
            }
            _ => b.recv(INBOX, MESSAGE),
        }
        b.set(SINCE, MESSAGE);
        b.arithmetic(Arithmetic::Divide, SINCE, unit.messages);
        if is_woken_for {
            b.set(WAITED, ASKED);
            b.arithmetic(Arithmetic::Max, WAITED, SINCE);
            b.subtract(WAITED, SINCE);
        }
        b.arithmetic(Arithmetic::Remainder, MESSAGE, unit.messages);
        self.in_order
            .renumber(&mut b, self.replay, unit, [wait, begins]);
        b.jump_indexed(MESSAGE, &handlers);
        b.jump(wait);
        // Activations under way at the start are no messages; they keep their numbers all the same.
        let ids = unit.activations(self.replay);
        let of_unit = unit.threads.iter();
        let gates = of_unit.flat_map(|thread| self.services.gates_of(*thread));
        let mut gates = gates.zip(handlers[unit.first_gate as usize..].iter().copied());
        for (handler, id) in handlers.iter().zip(ids.clone()) {
            b.bind(*handler);
            self.handler(&mut b, id, Some((&mut gates, wait)), &mut handed);
            b.jump(wait);
        }
        let timers = handlers.iter().skip(ids.clone().count());
        for (handler, timer) in timers.zip(self.exchanges.timers_of(unit.threads[0])) {
            b.bind(*handler);
            self.permit(&mut b, timer.exchange, timer.position);
            b.jump(wait);
        }
        let of_unit = unit.threads.iter();
        let parts = of_unit.flat_map(|thread| self.agains.of_thread(*thread));
        for (handler, part) in handlers[unit.first_again as usize..].iter().zip(parts) {
            b.bind(*handler);
            self.again(&mut b, *part);
            b.jump(wait);
        }
        self.replies(&mut b, &handed);
        b.finish()
    }

    /// Whether a unit spends CPU time for being woken.
    fn is_woken_for(&self, unit: &Unit) -> bool {
        let mut ids = unit.activations(self.replay);
        ids.any(|id| self.replay.activations[id.index()].woken_for_ns > 0)
    }

    /// A message begins a part of an activation, for which its thread may have been woken.
    /// `was_woken` says whether it was in the recording.
    fn wakes_up(&self, b: &mut ProgramBuilder, activation: &Activation, was_woken: bool) {
        if activation.woken_for_ns > 0 {
            let waited_ns = if was_woken { WAITS_IN_PILE_NS } else { 1 };
            b.unless(WAITED, Compare::GreaterOrEqual, waited_ns, |b| {
                b.work(activation.woken_for_ns);
            });
        }
    }

    /// Emits the instructions of a unit's threads before they wait for the first message.
    fn begin(&self, b: &mut ProgramBuilder, unit: &Unit, wait: Label, handed: &mut Handed) {
        let ids: Vec<Option<ActivationId>> = unit
            .threads
            .iter()
            .map(|id| under_way(self.replay, *id))
            .collect();
        if let [id] = ids[..] {
            if let Some(id) = id {
                self.handler(b, id, None, handed);
            }
            return;
        }
        let starts: Vec<Label> = ids.iter().map(|_| b.label()).collect();
        let table: Vec<Label> = std::iter::once(wait).chain(starts.clone()).collect();
        b.jump_indexed(UNDER_WAY, &table);
        for (start, id) in starts.iter().zip(ids) {
            b.bind(*start);
            if let Some(id) = id {
                self.handler(b, id, None, handed);
            }
            b.jump(wait);
        }
    }

    /// Emits the instructions of a thread for a message. Without gates it waits for arrivals where
    /// it is.
    fn handler(
        &self,
        b: &mut ProgramBuilder,
        id: ActivationId,
        mut gates: Option<Gates<'_, '_>>,
        handed: &mut Handed,
    ) {
        let activation = &self.replay.activations[id.index()];
        if let Some((_, wait)) = gates {
            self.hold_back(b, id, wait);
            self.wakes_up(b, activation, activation.was_woken);
        }
        self.jobs.begins(b, id, activation);
        // From here on the client may ask again, at the latest when it has handled the answer.
        let answers = self
            .exchanges
            .answered
            .get(&id)
            .map_or(&[][..], Vec::as_slice);
        for &(exchange, position) in answers {
            let words = &self.exchanges.words[exchange];
            let exchanged = &self.replay.exchanges[exchange].requests[position];
            words.record(b, position, exchanged);
            words.take_back(b, position);
        }
        let steps = self.replay.steps_of(activation);
        let reply = steps
            .iter()
            .rposition(|step| self.is_reply(activation, step));
        for (position, step) in steps.iter().enumerate() {
            match (step, &mut gates) {
                (step, Some((gates, wait))) if self.services.is_gate(step) => {
                    if let Some((gate, opening)) = gates.next() {
                        gate.pass(b, opening, *wait, |b, is_held| {
                            self.in_order.hold(b, activation.thread, is_held);
                            if !is_held {
                                self.wakes_up(b, activation, false);
                            }
                        });
                    }
                }
                (Step::Reply(request), _) => self.reply(b, activation.thread, *request, handed),
                _ => self.step(b, activation, *step),
            }
            if reply == Some(position) {
                b.arithmetic(Arithmetic::Max, SINCE, REPLIED);
                b.record_since(self.metrics[activation.thread.index()], SINCE);
                b.now(REPLIED);
            }
        }
        for &(exchange, _) in answers {
            self.send_permitted(b, exchange);
        }
    }

    /// Where the messages of a unit stand, so that those without an end can be told.
    fn messages(&self, unit: &Unit) -> MessageSpec {
        let reply = |id: ActivationId| {
            let activation = &self.replay.activations[id.index()];
            let mut steps = self.replay.steps_of(activation).iter();
            let replies = steps.any(|step| self.is_reply(activation, step));
            replies.then(|| self.metrics[activation.thread.index()])
        };
        let first = &self.replay.threads[unit.threads[0].index()];
        let inboxes = unit
            .threads
            .iter()
            .filter_map(|id| self.inboxes[id.index()]);
        MessageSpec {
            program: unit.program,
            statistics: first.subject.clone(),
            queues: inboxes.collect(),
            replies: unit.activations(self.replay).map(reply).collect(),
            kinds: unit.messages,
            registers: [MESSAGE, SINCE, REPLIED],
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
            Step::Stolen { stolen_ns } => b.stolen(stolen_ns),
            Step::Wake(target) => match self.exchanges.requested.get(&target) {
                Some(&(exchange, position)) => self.permit(b, exchange, position),
                None => {
                    b.set(SENT, self.units.number(self.replay, target));
                    let to = self.replay.activations[target.index()].thread;
                    self.send(b, activation.thread, to);
                }
            },
            Step::Post(handover) => self.post(b, activation.thread, handover),
            Step::Wait(handover) => b.sem_wait(self.handovers[handover.0 as usize]),
            Step::Io { delay_ns } => b.io(delay_ns),
            Step::Await(request) => {
                let [now, rest, _] = SEND;
                let arrives_ns = self.replay.requests[request.index()].arrives_ns;
                b.now(now);
                b.unless(now, Compare::GreaterOrEqual, arrives_ns, |b| {
                    b.difference(rest, arrives_ns, now);
                    b.io(rest);
                });
            }
            Step::Reply(request) => self.executed(b, activation.thread, request),
            Step::Later(target) => {
                let after_ns = self.replay.activations[target.index()].slept_before_ns;
                let when = When {
                    after_ns: after_ns.unwrap_or(0),
                    ..When::default()
                };
                self.begin_later(b, target, when);
            }
            Step::Fork(child) => {
                if let Some(fork) = self.forks[child.index()] {
                    b.fork(fork, CHILD);
                }
            }
            Step::Exit => {
                self.jobs.ends(b, activation.thread);
                b.exit();
            }
        }
    }

    fn task(&self, id: ThreadId, group: GroupId) -> TaskSpec {
        let thread = &self.replay.threads[id.index()];
        let unit = self.units.of(id);
        let mut task = TaskSpec::new(thread.name.clone(), unit.program);
        if unit.threads.len() > 1
            && let Some(inbox) = self.inboxes[id.index()]
        {
            let position = unit.threads.iter().position(|other| *other == id);
            let under_way = position.filter(|_| under_way(self.replay, id).is_some());
            let start = under_way.map_or(0, |position| position as u64 + 1);
            task.registers = vec![(INBOX, u64::from(inbox.0)), (UNDER_WAY, start)];
        }
        task.statistics = Some(thread.subject.clone());
        task.policy = thread.policy;
        task.nice = thread.nice;
        task.rt_priority = thread.rt_priority;
        task.affinity = thread.cpus.map(|cpus| self.options.cpus_for(&cpus));
        task.group = group;
        // A trace does not show which threads share an address space: each gets its own.
        task.address_space = (!thread.kernel).then_some(id.0);
        task.start_cpu = Some(start_cpu(task.affinity, self.options.cpu(thread.first_cpu)));
        task
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        let mut add = |to: ThreadId, number: u64, at_ns: u64, cpu: u32, context: ArrivalContext| {
            let Some(queue) = self.inboxes[to.index()] else {
                return;
            };
            let sent = at_ns.saturating_mul(self.units.of(to).messages);
            arrivals.push(Arrival {
                at_ns,
                cpu: self.options.cpu(cpu),
                context,
                sync: false,
                action: ArrivalAction::Send {
                    queue,
                    bytes: MESSAGE_BYTES,
                    value: sent.saturating_add(number),
                },
            });
        };
        for (id, activation) in (0u32..).map(ActivationId).zip(&self.replay.activations) {
            if let Trigger::Outside {
                at_ns,
                cpu,
                context,
            } = activation.trigger
                && (activation.follows.is_none() || self.services.is_scheduled(id))
                && activation.slept_before_ns.is_none()
            {
                let number = self.units.number(self.replay, id);
                add(activation.thread, number, at_ns, cpu, context);
            }
        }
        for unit in &self.units.all {
            let first = unit.activations(self.replay).count() as u64;
            let client = unit.threads[0];
            let cpu = self.replay.threads[client.index()].first_cpu;
            for (number, timer) in (first..).zip(self.exchanges.timers_of(client)) {
                add(client, number, timer.at_ns, cpu, ArrivalContext::OwnTimer);
            }
            let of_unit = unit.threads.iter();
            let gates =
                of_unit.flat_map(|id| self.services.gates_of(*id).iter().map(|one| (*id, one)));
            for (number, (id, gate)) in (unit.first_gate..).zip(gates) {
                let cpu = self.replay.threads[id.index()].first_cpu;
                if let Opens::Arrival { at_ns } = gate.opens {
                    add(id, number, at_ns, cpu, ArrivalContext::SoftIrq);
                }
            }
        }
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        arrivals
    }
}
