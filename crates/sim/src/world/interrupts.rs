//! Events that reach CPUs from outside their tasks: timers, devices, new tasks, changed limits.

use super::engine::{Flow, Run};
use super::error::RunError;
use super::outside::{Outside, class};
use super::tasks::{Message, NO_TASK, Name, Resume};
use super::{Core, World};
use crate::random;
use crate::timers::TimerId;
use crate::wheel::{Key, Slot};
use crate::workload::{
    ARRIVAL_TIME, Arrival, ArrivalAction, ArrivalContext, ArrivalSource, GroupSetting,
    TIMER_SLACK_NS, TaskSpec,
};
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::platform::Op;
use schedcast_kernel::task::TaskAttributes;
use schedcast_kernel::{Context as WakeContext, Cpu, GroupId, Ns, Platform, TaskId};
use std::collections::VecDeque;

/// How often the timer interrupt looks again for timers that expired meanwhile.
const RETRIES: usize = 3;

/// Event that comes for a CPU from outside.
#[derive(Clone, Copy, Debug)]
pub(super) enum Caller {
    /// The task in this row of the workload starts.
    Start(u32),
    /// A device interrupts.
    Arrival(Arrival),
}

impl Caller {
    fn class(self) -> u8 {
        match self {
            Caller::Start(_) => class::START,
            Caller::Arrival(_) => class::ARRIVAL,
        }
    }
}

/// Queue of callers until a CPU is out of its idle state or through with an operation, in order of
/// arrival. Those of other CPUs do not wait for them.
///
/// Worked example: tasks start on CPU 0 at 0 and on CPU 1 at 5 us, and both CPUs take 18 us to
/// leave their idle states. The first begins at 18 us, the second at 23 us, and not at 36.
#[derive(Clone, Debug)]
pub(super) struct Callers {
    slot: Slot,
    waiting: VecDeque<Caller>,
}

impl Callers {
    pub(super) fn new(slot: Slot) -> Self {
        let waiting = VecDeque::new();
        Self { slot, waiting }
    }
}

impl<const EXPLAIN: bool> Outside<EXPLAIN> {
    /// The hardware's signal takes a while to become an interrupt, in which the CPU executes
    /// nothing. `true` when the handler comes later; the event is armed for then.
    #[inline]
    fn timer_is_late(&mut self, cpu: Cpu, slot: Slot) -> bool {
        let Some(part) = &self.machine.timer_interrupt else {
            return false;
        };
        let state = &mut self.cpus[cpu];
        // The hardware is not programmed meanwhile: the flag tells that it is on its way already.
        if std::mem::replace(&mut state.in_timer_interrupt, true) {
            return false;
        }
        let late_ns = self.timer_lateness[cpu.index()].next_ns(part);
        state.cursor += late_ns;
        state.started = state.cursor;
        state.time.overhead_ns += late_ns;
        self.probes.machine.overhead_ns[Op::TimerInterrupt as usize] += late_ns;
        let key = Key::new(state.cursor, class::DEVICE_TIMER);
        self.wheel.arm(slot, key);
        true
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// `hrtimer_interrupt`: runs what has expired, in order of hard expiry, as far as soft expiries
    /// allow; the tick is one of the timers.
    pub(super) fn timer_interrupt(&mut self, cpu: Cpu, slot: Slot) -> Run<()> {
        if !self.enter(cpu, slot, class::DEVICE_TIMER) || self.out.timer_is_late(cpu, slot) {
            return Ok(());
        }
        let mut entered = self.out.now;
        self.kernel.irq_enter(&self.out, cpu);
        self.out.spend(cpu, Op::TimerInterrupt, 1);
        let state = &mut self.out.cpus[cpu];
        state.in_timer_interrupt = true;
        state.stale_at = Ns::MAX;
        let mut next = Ns::MAX;
        for _ in 0..RETRIES {
            while self.run_next_timer(cpu, entered) {}
            entered = self.out.clock(cpu);
            next = self.out.next_expiry(cpu);
            if next > entered {
                break;
            }
        }
        let state = &mut self.out.cpus[cpu];
        state.in_timer_interrupt = false;
        state.leaves_timer_interrupt = true;
        self.out.program_device_for(cpu, next);
        self.out.write_deadline(cpu);
        self.run(cpu, Flow::Entered)
    }

    /// Runs the first timer of `cpu` if it has expired at `now`.
    fn run_next_timer(&mut self, cpu: Cpu, now: Ns) -> bool {
        let state = &self.out.cpus[cpu];
        let (tick_at, tick_order) = (state.tick_at, state.tick_order);
        if let Some(armed) = self.out.timers.first(cpu)
            && self
                .out
                .timers
                .runs_before_tick(&armed, tick_at, tick_order)
        {
            if armed.soft > now {
                return false;
            }
            self.out.timers.take_first(cpu);
            self.run_timer(cpu, armed.timer);
            return true;
        }
        if tick_at > now {
            return false;
        }
        self.out.cpus[cpu].tick_at = Ns::MAX;
        self.kernel.tick(&mut self.out, cpu);
        true
    }

    fn run_timer(&mut self, cpu: Cpu, timer: TimerId) {
        let groups = self.out.shared.workload.groups.len() as u32 + 1;
        if timer.0 < 2 * groups {
            return self.run_group_timer(cpu, timer);
        }
        let number = timer.0 - 2 * groups;
        let cpus = self.kernel.tables().cpus() as u32;
        let Some(number) = number.checked_sub(cpus) else {
            let of = Cpu(number);
            return self
                .kernel
                .fair_server_inactive_timer(&mut self.out, cpu, of);
        };
        let task = TaskId(number >> self.out.timer_shift);
        let of_task = number & ((1 << self.out.timer_shift) - 1);
        if of_task > 0 {
            self.run_deadline_timer(cpu, task, of_task == 2);
        } else if self.kernel.tables().is_idle_task(task) {
            let of = Cpu(task.0);
            self.kernel.fair_server_timer(&mut self.out, cpu, of);
        } else if (task.index()) < 2 * self.kernel.tables().cpus() {
            self.kernel.hrtick_timer(&mut self.out, cpu);
        } else {
            self.task_timer_expires(cpu, task);
        }
    }

    #[cold]
    #[inline(never)]
    fn run_deadline_timer(&mut self, cpu: Cpu, task: TaskId, inactive: bool) {
        if inactive {
            self.kernel.dl_inactive_timer(&mut self.out, cpu, task);
        } else {
            self.kernel.dl_timer(&mut self.out, cpu, task);
        }
    }

    #[inline(never)]
    fn run_group_timer(&mut self, cpu: Cpu, timer: TimerId) {
        let group = GroupId(timer.0 / 2);
        if timer == super::platform::RT_PERIOD {
            self.kernel.rt_period_timer(&mut self.out, cpu);
        } else if timer.0.is_multiple_of(2) {
            self.kernel.period_timer(&mut self.out, cpu, group);
        } else {
            self.kernel.slack_timer(&mut self.out, cpu, group);
        }
    }

    /// A sleep or a timed wait is over.
    fn task_timer_expires(&mut self, cpu: Cpu, task: TaskId) {
        let context = &mut self.out.tasks.contexts[task];
        context.timed_out = context.resume == Resume::Retry;
        self.out.tasks.waiting.remove(task);
        self.wake(cpu, task, false, WakeContext::HardIrq);
    }

    /// A device interrupts a CPU.
    pub(super) fn device_interrupt(&mut self, cpu: Cpu) {
        self.kernel.irq_enter(&self.out, cpu);
        self.out.spend(cpu, Op::DeviceInterrupt, 1);
    }

    /// A device completes a task's I/O on the CPU that submitted it.
    pub(super) fn io_done(&mut self, slot: Slot, task: TaskId) -> Run<()> {
        let cpu = self.kernel.tables().tasks[task].cpu;
        if !self.enter(cpu, slot, class::ARRIVAL) {
            return Ok(());
        }
        self.device_interrupt(cpu);
        self.wake(cpu, task, false, WakeContext::HardIrq);
        self.run(cpu, Flow::Entered)
    }

    /// The next event of an arrival source.
    pub(super) fn arrive(&mut self, slot: Slot, row: usize) -> Run<()> {
        let Some(arrival) = self.next_arrival(row) else {
            return Ok(());
        };
        self.take_arrival(row);
        if let Some(next) = self.next_arrival(row) {
            self.out
                .wheel
                .arm(slot, Key::new(next.at_ns, class::ARRIVAL));
        }
        self.arrives(arrival)
    }

    /// Something comes from outside.
    pub(super) fn arrives(&mut self, mut arrival: Arrival) -> Run<()> {
        if let (ArrivalContext::OwnTimer, ArrivalAction::Send { queue, .. }) =
            (arrival.context, arrival.action)
        {
            let sleeps_on = self.receiver_cpu(queue.0 as usize);
            arrival.cpu = sleeps_on.unwrap_or(arrival.cpu);
        }
        self.call(arrival.cpu, Caller::Arrival(arrival))
    }

    /// Calls a CPU that may not be ready, behind the callers that wait for it.
    fn call(&mut self, cpu: Cpu, caller: Caller) -> Run<()> {
        let callers = &self.out.callers[cpu.index()];
        let (slot, is_first) = (callers.slot, callers.waiting.is_empty());
        if !is_first || !self.enter(cpu, slot, caller.class()) {
            self.out.callers[cpu.index()].waiting.push_back(caller);
            return Ok(());
        }
        self.answer(cpu, caller)
    }

    /// The first of those who wait for a CPU tries again.
    pub(super) fn take_caller(&mut self, cpu: Cpu, slot: Slot) -> Run<()> {
        let Some(&caller) = self.out.callers[cpu.index()].waiting.front() else {
            return Ok(());
        };
        if !self.enter(cpu, slot, caller.class()) {
            return Ok(());
        }
        let out = &mut self.out;
        let waiting = &mut out.callers[cpu.index()].waiting;
        waiting.pop_front();
        if let Some(next) = waiting.front() {
            out.wheel.arm(slot, Key::new(out.now, next.class()));
        }
        self.answer(cpu, caller)
    }

    fn answer(&mut self, cpu: Cpu, caller: Caller) -> Run<()> {
        match caller {
            Caller::Start(row) => self.start(cpu, row),
            Caller::Arrival(arrival) => self.interrupted_by(arrival),
        }
        self.run(cpu, Flow::Entered)
    }

    fn interrupted_by(&mut self, arrival: Arrival) {
        self.device_interrupt(arrival.cpu);
        let context = match arrival.context {
            ArrivalContext::HardIrq | ArrivalContext::OwnTimer => WakeContext::HardIrq,
            ArrivalContext::SoftIrq => WakeContext::SoftIrq,
        };
        match arrival.action {
            ArrivalAction::Send {
                queue,
                bytes,
                value,
            } => {
                let overhead = self.workload().queues[queue.0 as usize].overhead_bytes;
                let room = bytes.saturating_add(overhead);
                let value = match value {
                    ARRIVAL_TIME => arrival.at_ns,
                    value => value,
                };
                let cpu = arrival.cpu;
                let message = Message { value, room, cpu };
                self.deliver(
                    arrival.cpu,
                    queue.0 as usize,
                    message,
                    arrival.sync,
                    context,
                );
            }
            ArrivalAction::SemPost(semaphore) => {
                let row = semaphore.0 as usize;
                self.out.tasks.semaphores[row] += 1;
                let queue = self.out.tasks.semaphore_queue(row);
                if let Some(task) = self.out.tasks.waiting.pop(queue) {
                    self.wake(arrival.cpu, task, arrival.sync, context);
                }
            }
        }
    }

    /// The arrival that is due next.
    pub(super) fn next_arrival(&self, row: usize) -> Option<Arrival> {
        let state = &self.out.arrivals[row];
        match &self.workload().arrivals[row].source {
            ArrivalSource::List(list) => list.get(state.next).copied(),
            ArrivalSource::Stream { first, .. } => Some(Arrival {
                at_ns: state.at_ns,
                ..*first
            }),
            ArrivalSource::Rounds { arrivals, .. } => {
                let arrival = *arrivals.get(state.next)?;
                Some(Arrival {
                    at_ns: arrival.at_ns.wrapping_add(state.at_ns),
                    ..arrival
                })
            }
        }
    }

    fn take_arrival(&mut self, row: usize) {
        let shared = std::sync::Arc::clone(&self.out.shared);
        let state = &mut self.out.arrivals[row];
        match &shared.workload.arrivals[row].source {
            ArrivalSource::List(_) => state.next += 1,
            ArrivalSource::Rounds { arrivals, round_ns } => {
                state.next += 1;
                state.begin_round(arrivals.len(), *round_ns);
            }
            ArrivalSource::Stream { interval, .. } => {
                let distribution = &shared.workload.distributions[interval.0 as usize];
                let interval_ns = distribution.quantile(random::draw(&mut state.stream));
                // A source without distance would stop time.
                state.at_ns = state.at_ns.saturating_add(interval_ns.max(1));
            }
        }
    }

    /// The next task of the workload comes to life.
    pub(super) fn start_next(&mut self, slot: Slot) -> Run<()> {
        let shared = std::sync::Arc::clone(&self.out.shared);
        let Some(&row) = shared.starts.get(self.out.next_start) else {
            return Ok(());
        };
        self.out.next_start += 1;
        if let Some(&next) = shared.starts.get(self.out.next_start) {
            let at_ns = shared.workload.tasks[next as usize].start_ns;
            self.out.wheel.arm(slot, Key::new(at_ns, class::START));
        }
        let (_, cpu) = self.begins_on(&shared.workload.tasks[row as usize]);
        self.call(cpu, Caller::Start(row))
    }

    /// CPUs that a task of the workload may use, and on which of them it begins.
    pub(super) fn begins_on(&self, spec: &TaskSpec) -> (CpuSet, Cpu) {
        let everywhere = || self.out.machine.topology.housekeeping();
        let affinity = spec.affinity.unwrap_or_else(everywhere);
        let cpu = spec.start_cpu.or(affinity.lowest()).unwrap_or(Cpu(0));
        (affinity, cpu)
    }

    fn start(&mut self, cpu: Cpu, row: u32) {
        let shared = std::sync::Arc::clone(&self.out.shared);
        let spec = &shared.workload.tasks[row as usize];
        let (affinity, _) = self.begins_on(spec);
        let task = self.create_from_spec(spec, row, affinity, cpu);
        self.out.to_start -= usize::from(spec.address_space.is_some());
        if spec.latency_limit_ns.is_some() {
            let limit_ns = spec.latency_limit_ns;
            self.kernel
                .set_latency_limit(&mut self.out, cpu, task, limit_ns);
        }
        self.kernel.wake_up_new_task(&mut self.out, cpu, task);
    }

    pub(super) fn create_from_spec(
        &mut self,
        spec: &TaskSpec,
        row: u32,
        affinity: CpuSet,
        cpu: Cpu,
    ) -> TaskId {
        let attributes = TaskAttributes {
            policy: spec.policy,
            nice: spec.nice,
            rt_priority: spec.rt_priority,
            affinity,
            group: spec.group,
            address_space: spec.address_space,
            custom_slice_ns: spec.custom_slice_ns,
            cpu,
        };
        let statistics = spec.statistics.as_deref().unwrap_or(&spec.name);
        let name = Name::Spec(row);
        let entity = self.out.shared.task_entities[row as usize];
        let task = self.create_task(attributes, spec.program.0, name, statistics, entity);
        self.ask_clamps(task, spec.clamps);
        let context = &mut self.out.tasks.contexts[task];
        context.slack_ns = spec.timer_slack_ns.unwrap_or(TIMER_SLACK_NS);
        context.parent = NO_TASK;
        self.out.tasks.registers_mut(task).fill(0);
        for &(reg, value) in &spec.registers {
            self.out.tasks.set_register(task, reg.0, value);
        }
        task
    }

    /// The next timed change of a group.
    pub(super) fn change_next(&mut self, slot: Slot) -> Run<()> {
        let shared = std::sync::Arc::clone(&self.out.shared);
        let changes = &shared.workload.changes;
        let Some(change) = changes.get(self.out.next_change) else {
            return Ok(());
        };
        // The file is written on the first CPU.
        let cpu = Cpu(0);
        if !self.enter(cpu, slot, class::CHANGE) {
            return Ok(());
        }
        self.out.next_change += 1;
        if let Some(next) = changes.get(self.out.next_change) {
            self.out
                .wheel
                .arm(slot, Key::new(next.at_ns, class::CHANGE));
        }
        self.set_group(cpu, change.group, change.setting)
            .map_err(|error| RunError::Change {
                path: self.out.group_path(change.group).to_owned(),
                at_ns: change.at_ns,
                error,
            })?;
        self.run(cpu, Flow::Entered)
    }

    pub(super) fn set_group(
        &mut self,
        cpu: Cpu,
        group: GroupId,
        setting: GroupSetting,
    ) -> Result<(), schedcast_base::limits::LimitError> {
        let (kernel, out) = (&mut self.kernel, &mut self.out);
        match setting {
            GroupSetting::Limit(limit) => {
                let hierarchy = out.shared.workload.hierarchy;
                return kernel.group_set_bandwidth(out, cpu, group, limit, hierarchy);
            }
            GroupSetting::Shares(shares) => kernel.group_set_shares(out, cpu, group, shares),
            GroupSetting::Idle(idle) => kernel.group_set_idle(out, cpu, group, idle),
            GroupSetting::Clamps(clamps) => kernel.group_set_clamps(out, cpu, group, clamps),
        }
        Ok(())
    }
}
