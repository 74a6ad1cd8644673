//! The event loop, and what a CPU does between two events.
//!
//! Events of a CPU that is busy until its cursor wait for it. An event that finds the CPU executing
//! a task pauses its segment; after the handlers, `Kernel::leave_kernel` says who goes on, and that
//! task's segment continues at the cursor.

use super::error::RunError;
use super::outside::{Source, class, per_cpu};
use super::script::SideEffect;
use super::tasks::Name;
use super::{Core, World};
use crate::segment::Segment;
use crate::wheel::{Key, Slot};
use schedcast_kernel::platform::Op;
use schedcast_kernel::task::TaskState;
use schedcast_kernel::{Context as WakeContext, Cpu, Ns, TaskId, WakeFlags};

/// How the interpreter left a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    /// It has something to execute, or goes on at the cursor; nothing entered the scheduler.
    Segment,
    /// The scheduler was entered and has to be left.
    Entered,
    /// End of what the task executed: its next instructions are due.
    Due,
}

/// How far a CPU is on its way back from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The handlers are done; who ran before.
    Leave(Option<TaskId>),
    /// It is decided who runs: who ran before, and who does now.
    Switch(Option<TaskId>, TaskId),
}

/// Result of everything that may find a program at fault.
pub(crate) type Run<T> = Result<T, Box<RunError>>;

// Not generic, so that what runs a world is compiled in this crate alone: every further crate that
// called a generic one would add its own copy, and the hot loop would go back and forth between
// copies.
impl World {
    /// Runs until virtual time `until`, everything that happens at that time included.
    ///
    /// # Errors
    /// A program at fault; the world stays at the time of the fault.
    pub fn run_until(&mut self, until: Ns) -> Result<(), RunError> {
        self.advance(until)
    }
}

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// As `run_until` of other worlds: for a [`Core`] of another crate, whose [`Core::run`] it is.
    ///
    /// # Errors
    /// A program at fault; the world stays at the time of the fault.
    pub fn advance(&mut self, until: Ns) -> Result<(), RunError> {
        self.handle_events(until)?;
        self.settle();
        Ok(())
    }

    /// Everything that happens until `until`; accounting is left where the last events brought it.
    ///
    /// # Errors
    /// Those of [`World::advance`].
    pub fn handle_events(&mut self, until: Ns) -> Result<(), RunError> {
        self.out.limit = until.min(self.out.end_ns);
        // The end of the last program lowers it.
        while self.step(self.out.limit)? {}
        self.out.now = self.out.now.max(self.out.limit);
        Ok(())
    }

    /// Handles the next event up to `until`; `false` when there is none.
    #[inline(always)]
    pub(super) fn step(&mut self, until: Ns) -> Result<bool, RunError> {
        let Some((key, slot)) = self.out.wheel.pop(until) else {
            return Ok(false);
        };
        debug_assert!(key.time() >= self.out.now, "time goes back");
        self.out.now = key.time();
        let outcome = self.dispatch(slot);
        if let Some(fault) = self.kernel.fault() {
            // Whatever else went wrong at this event went wrong because of it.
            return Err(RunError::Kernel(fault));
        }
        outcome.map_err(|error| *error)?;
        Ok(true)
    }

    // Always, or the loop of a plain run would call it, because that of a checked run does too.
    #[inline(always)]
    fn dispatch(&mut self, slot: Slot) -> Run<()> {
        let cpu = Cpu(slot.0 / per_cpu::COUNT);
        if cpu.index() >= self.out.cpus.len() {
            let first = self.out.cpus.len() * per_cpu::COUNT as usize;
            return self.source(slot, self.out.sources[slot.0 as usize - first]);
        }
        match slot.0 % per_cpu::COUNT {
            per_cpu::SEGMENT => self.segment_ends(cpu),
            per_cpu::DEVICE => self.timer_interrupt(cpu, slot),
            _ => self.processor_interrupt(cpu, slot),
        }
    }

    #[inline(never)]
    fn source(&mut self, slot: Slot, source: Source) -> Run<()> {
        match source {
            Source::Starts => self.start_next(slot),
            Source::Changes => self.change_next(slot),
            Source::Arrivals(row) => self.arrive(slot, row as usize),
            Source::Callers(cpu) => self.take_caller(cpu, slot),
            Source::Io(task) => self.io_done(slot, task),
            Source::Completion(row) => self.request_done(slot, row as usize),
            Source::Patience => self.lose_patience(),
            Source::PollLimit(cpu) => self.poll_limit(cpu),
            Source::Transition(_) | Source::Look => {
                self.out.hardware_event(source);
                Ok(())
            }
        }
    }

    fn processor_interrupt(&mut self, cpu: Cpu, slot: Slot) -> Run<()> {
        if !self.enter(cpu, slot, class::IPI) {
            return Ok(());
        }
        // `sysvec_reschedule_ipi` is too short to be counted.
        if slot.0 % per_cpu::COUNT == per_cpu::CALL {
            self.kernel.irq_enter(&self.out, cpu);
        }
        let state = &mut self.out.cpus[cpu];
        state.poked = false;
        if state.running.is_some() && self.out.machine.ipi_stall_ns > 0 {
            let stall_ns = self.out.machine.ipi_stall_ns;
            self.out.charge(cpu, Op::IpiReceive, stall_ns, 0);
        }
        self.kernel.ipi(&mut self.out, cpu);
        self.run(cpu, Flow::Entered)
    }

    fn segment_ends(&mut self, cpu: Cpu) -> Run<()> {
        self.out.executing = cpu;
        match self.out.cpus[cpu].running {
            Some(_) => self.run(cpu, Flow::Due),
            None if self.out.script_time(cpu).is_some() => self.script_goes_on(cpu),
            None => {
                self.fall_asleep(cpu);
                Ok(())
            }
        }
    }

    /// An interrupt reaches a CPU. `false` when it has to wait: for the end of a kernel operation,
    /// or for the CPU to leave its idle state. The event is armed again then.
    pub(super) fn enter(&mut self, cpu: Cpu, slot: Slot, class: u8) -> bool {
        if let Some(at) = self.out.script_time(cpu) {
            // It is in the middle of an operation; once more after its next side effect.
            self.out.wheel.arm(slot, Key::new(at, class::PENDING));
            return false;
        }
        self.out.execute(cpu);
        loop {
            let out = &mut self.out;
            let state = &mut out.cpus[cpu];
            if state.cursor > out.now {
                let key = Key::new(state.cursor, class);
                if !out.advance_to(key) {
                    out.wheel.arm(slot, key);
                    return false;
                }
                continue;
            }
            state.cursor = out.now;
            if !state.idle {
                break;
            }
            self.leave_idle(cpu, class);
        }
        self.out.executing = cpu;
        // Its segment no longer ends by itself; without a task, it was about to fall asleep.
        self.out
            .wheel
            .disarm(<super::Outside>::slot(cpu, per_cpu::SEGMENT));
        true
    }

    /// Lets a CPU go on until it has to wait for an event.
    pub(super) fn run(&mut self, cpu: Cpu, mut flow: Flow) -> Run<()> {
        loop {
            if flow == Flow::Entered {
                let before = self.out.cpus[cpu].running;
                if !self.leave(cpu, before) {
                    return Ok(());
                }
            }
            let Some(task) = self.out.cpus[cpu].running else {
                return Ok(());
            };
            if flow != Flow::Due && !self.execute_segment(cpu, task) {
                return Ok(());
            }
            flow = self.finish_segment(cpu, task)?;
        }
    }

    /// The handlers are done. `false` when the CPU executes nothing or has to wait for its script.
    #[inline(always)]
    fn leave(&mut self, cpu: Cpu, before: Option<TaskId>) -> bool {
        if self.out.is_recording(cpu) && !self.out.play(cpu, Stage::Leave(before)) {
            return false;
        }
        let next = self.kernel.leave_kernel(&mut self.out, cpu);
        self.out.cpus[cpu].leaves_timer_interrupt = false;
        self.switch(cpu, before, next)
    }

    /// Same, when it is decided who runs.
    #[inline(always)]
    fn switch(&mut self, cpu: Cpu, before: Option<TaskId>, next: TaskId) -> bool {
        if self.out.is_recording(cpu) && !self.out.play(cpu, Stage::Switch(before, next)) {
            return false;
        }
        self.switch_to(cpu, before, next)
    }

    /// Goes on where a CPU stopped to wait for its script.
    pub(super) fn resume(&mut self, cpu: Cpu, stage: Stage) -> Run<()> {
        let executes = match stage {
            Stage::Leave(before) => self.leave(cpu, before),
            Stage::Switch(before, next) => self.switch(cpu, before, next),
        };
        if executes {
            self.run(cpu, Flow::Segment)
        } else {
            Ok(())
        }
    }

    /// The kernel is left: `next` has the CPU. `false` when that is the idle task.
    #[inline(always)]
    fn switch_to(&mut self, cpu: Cpu, before: Option<TaskId>, next: TaskId) -> bool {
        if let Some(before) = before
            && before != next
        {
            self.reap(before);
        }
        if self.kernel.tables().is_idle_task(next) {
            self.go_idle(cpu);
            return false;
        }
        if before != Some(next) && self.out.machine.migration.is_some() {
            self.out.temper(cpu, next);
            self.load_address_space(cpu, next);
        }
        self.out.cpus[cpu].running = Some(next);
        self.out.leave_call(cpu, next);
        if self.out.tasks.contexts[next].segment == Segment::None {
            self.run_ahead(next);
        }
        true
    }

    /// The running task executes its segment from the cursor on. `false` when that ends in the
    /// future.
    #[inline(always)]
    fn execute_segment(&mut self, cpu: Cpu, task: TaskId) -> bool {
        let out = &mut self.out;
        let state = &mut out.cpus[cpu];
        state.cursor = state.cursor.max(out.now);
        state.started = state.cursor;
        let started = state.started;
        let end = started + out.time_to_end(cpu, task, started);
        let key = Key::new(end, class::SEGMENT);
        let is_over = out.advance_to(key);
        if !is_over {
            out.wheel
                .arm(<super::Outside>::slot(cpu, per_cpu::SEGMENT), key);
        }
        is_over
    }

    /// The segment of the running task is over: the next instructions are due now.
    #[inline(always)]
    fn finish_segment(&mut self, cpu: Cpu, task: TaskId) -> Run<Flow> {
        if self.out.cpus[cpu].cold && !self.out.cold_segment_ends(cpu, task) {
            return Ok(Flow::Segment);
        }
        let out = &mut self.out;
        let state = &mut out.cpus[cpu];
        state.time.user_ns += out.now - state.started;
        state.started = out.now;
        state.cursor = out.now;
        out.tasks.contexts[task].segment = Segment::None;
        self.interpret(cpu, task)
    }

    /// The translations of a task that begins to execute come back, if others have taken their
    /// place.
    #[inline(always)]
    fn load_address_space(&mut self, cpu: Cpu, task: TaskId) {
        let refill_ns = self.out.machine.tlb_refill_ns;
        if refill_ns > 0
            && let Some(space) = self.kernel.tables().tasks[task].address_space
            && self.out.cpus[cpu].translations.load(space)
        {
            self.out.charge(cpu, Op::ContextSwitch, refill_ns, 0);
        }
    }

    /// Frees the row of a task that is gone.
    fn reap(&mut self, task: TaskId) {
        let record = &self.kernel.tables().tasks[task];
        if record.state == TaskState::Dead {
            let charged_ns = self.kernel.tables().entities[record.se].sum_exec_runtime;
            self.out.probes.ended(task, charged_ns);
            self.kernel.task_reap(task);
        }
    }

    /// Wakes a task from `cpu`.
    #[inline]
    pub(super) fn wake(&mut self, cpu: Cpu, task: TaskId, sync: bool, context: WakeContext) {
        let at = self.out.clock(cpu);
        if self.kernel.tables().tasks[task].state == TaskState::Blocked {
            let running = self.out.cpus[cpu].running;
            let waker = running.filter(|_| context == WakeContext::Task);
            if self.out.is_recording(cpu) {
                self.out.record(cpu, SideEffect::Waking(task, waker));
            } else {
                self.out.probes.waking(at, cpu, task, waker);
            }
        }
        let flags = WakeFlags { sync, context };
        self.kernel.wake(&mut self.out, cpu, task, flags);
    }

    /// Brings all accounting to the present, without changing what happens.
    pub(super) fn settle(&mut self) {
        let out = &mut self.out;
        let now = out.now;
        for row in 0..out.cpus.len() {
            let state = &mut out.cpus[row];
            if state.idle && state.idle_counted < now {
                state.time.idle_ns += now - state.idle_counted;
                state.idle_counted = now;
            }
            if let Some(task) = state.running {
                out.execute(Cpu::from(row));
                debug_assert!(out.tasks.contexts[task].name != Name::Kernel);
            }
        }
        out.probes.settle(now);
        self.kernel.settle();
        let alive = charges(self.kernel.tables());
        self.out.probes.charge_alive(alive);
    }
}

/// Time that each live task is charged with up to its CPU's last look at the clock, ns
/// (`task_sched_runtime`).
pub(super) fn charges(
    kernel: &schedcast_kernel::Kernel,
) -> impl Iterator<Item = (TaskId, Ns)> + '_ {
    let rows = kernel.tasks.iter().enumerate();
    let alive = rows.filter(|(_, record)| record.state != TaskState::Dead);
    alive.map(|(row, record)| {
        let charged_ns = kernel.entities[record.se].sum_exec_runtime;
        (TaskId::from(row), charged_ns)
    })
}
