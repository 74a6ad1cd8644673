//! Executes instructions of the running task until it has something to execute, or enters the
//! scheduler.
//!
//! Everything here happens at one moment. An instruction that takes time either becomes the task's
//! segment, or is charged as a kernel operation and ends this call: the next instruction is then
//! due at the CPU's cursor, as an event of its own, so that other CPUs see the effects of two
//! system calls at two times.

use super::engine::{Flow, Run};
use super::error::RunError;
use super::tasks::Awaited;
use super::{Core, World};
use crate::program::{Amount, AmountKind, Arithmetic, Compare, Instruction, Ref, RefKind, Reg};
use crate::random;
use crate::segment::Segment;
use schedcast_kernel::{Cpu, Ns, TaskId};

/// Most instructions that may be executed at one time on the whole machine.
const STEPS_MAX: u64 = 10_000_000;

/// Most instructions executed ahead of their time; a longer run of them goes on as an event.
const STEPS_AHEAD_MAX: usize = 64;

/// Continuation after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The following instruction, at the same time.
    Instruction,
    /// Leave the interpreter.
    Leave(Flow),
}

/// A system call that came back.
pub(super) const ENTERED: Next = Next::Leave(Flow::Entered);

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    /// Executes what is due of `task`, which `cpu` executes.
    #[inline(always)]
    pub(super) fn interpret(&mut self, cpu: Cpu, task: TaskId) -> Run<Flow> {
        if self.out.steps_at != self.out.now {
            self.out.steps_at = self.out.now;
            self.out.steps = 0;
        }
        loop {
            self.out.steps += 1;
            if self.out.steps > STEPS_MAX {
                return Err(self.no_progress(task));
            }
            let pc = self.out.tasks.contexts[task].pc;
            let instruction = self.out.shared.code[pc as usize];
            match self.execute(cpu, task, pc, instruction)? {
                Next::Instruction => {}
                Next::Leave(flow) => return Ok(flow),
            }
        }
    }

    /// Executes what is due at the cursor as far as no other CPU can notice, so that the event at
    /// which the task begins its next segment need not take place. The outcome is the same: what is
    /// executed here depends on the task alone.
    #[inline(always)]
    pub(super) fn run_ahead(&mut self, task: TaskId) {
        for _ in 0..STEPS_AHEAD_MAX {
            let pc = self.out.tasks.contexts[task].pc;
            let instruction = self.out.shared.code[pc as usize];
            match self.execute_alone(task, pc, instruction) {
                Some(Next::Instruction) => {}
                Some(Next::Leave(_)) => return,
                None => return,
            }
        }
    }

    /// Instructions that touch only the task itself, at whatever time; `None` for all others.
    #[inline(always)]
    fn execute_alone(&mut self, task: TaskId, pc: u32, instruction: Instruction) -> Option<Next> {
        use Instruction as I;
        let next = match instruction {
            I::Work(amount) => {
                let work = Segment::work(self.amount(task, amount));
                self.begin(task, work)
            }
            I::KernelWork(amount) => {
                let ns = self.amount(task, amount);
                self.begin(task, Segment::Kernel { ns })
            }
            I::Set { reg, value } => {
                let value = self.amount(task, value);
                self.set(task, reg, value)
            }
            I::Arithmetic { op, reg, operand } => {
                let right = self.amount(task, operand);
                let left = self.out.tasks.register(task, reg.0);
                self.set(task, reg, calculate(op, left, right))
            }
            I::Jump(target) => self.jump(task, target),
            I::JumpIf {
                compare,
                reg,
                operand,
                target,
            } => {
                let right = self.amount(task, operand);
                let left = self.out.tasks.register(task, reg.0);
                let holds = holds(compare, left, right);
                self.jump(task, if holds { target } else { pc + 1 })
            }
            I::Loop { reg, target } => {
                let left = self.out.tasks.register(task, reg.0).saturating_sub(1);
                self.out.tasks.set_register(task, reg.0, left);
                self.jump(task, if left == 0 { pc + 1 } else { target })
            }
            I::JumpIndexed { reg, table } => {
                let index = self.out.tasks.register(task, reg.0);
                let table = &self.out.shared.tables[table as usize];
                let target = usize::try_from(index)
                    .ok()
                    .and_then(|index| table.get(index));
                let target = target.copied().unwrap_or(pc + 1);
                self.jump(task, target)
            }
            _ => return None,
        };
        Some(next)
    }

    #[inline(always)]
    fn execute(&mut self, cpu: Cpu, task: TaskId, pc: u32, instruction: Instruction) -> Run<Next> {
        use Instruction as I;
        if let Some(next) = self.execute_alone(task, pc, instruction) {
            return Ok(next);
        }
        match instruction {
            I::Spin { amount, quantum_ns } => {
                let wall = self.amount(task, amount);
                let spin = Segment::spin(self.out.clock(cpu), wall, quantum_ns);
                Ok(self.begin(task, spin))
            }
            I::Now(reg) => {
                let now = self.out.clock(cpu);
                Ok(self.set(task, reg, now))
            }
            I::GetCpu(reg) => Ok(self.set(task, reg, u64::from(cpu.0))),
            _ => self.execute_call(cpu, task, instruction),
        }
    }

    /// A function of its own: as part of the loop of [`World::interpret`], the addresses of all it
    /// may need would be worked out whenever a task turns there, forty instructions for programs
    /// that do little but send messages.
    #[inline(never)]
    fn execute_call(&mut self, cpu: Cpu, task: TaskId, instruction: Instruction) -> Run<Next> {
        use Instruction as I;
        match instruction {
            I::Stolen(amount) => Ok(self.stolen(cpu, task, amount)),
            I::Sleep(amount) => Ok(self.sleep(cpu, task, amount)),
            I::SleepUntil(reg) => Ok(self.sleep_until(cpu, task, reg)),
            I::Io(amount) => Ok(self.io(cpu, task, amount)),
            I::Submit {
                device,
                queue,
                value,
                service,
            } => self.submit(cpu, task, device, queue, value, service),
            I::SemPost(semaphore) => self.sem_post(cpu, task, semaphore),
            I::SemWait(semaphore) => self.sem_wait(cpu, task, semaphore),
            I::Send {
                queue,
                bytes,
                value,
                sync,
            } => self.send(cpu, task, queue, bytes, value, sync),
            I::Recv {
                queue,
                value,
                timeout,
                iowait,
            } => self.recv(cpu, task, queue, value, timeout, iowait),
            I::TryRecv {
                queue,
                value,
                empty,
            } => self.try_recv(cpu, task, queue, value, empty),
            I::WordLoad { word, into } => {
                let row = self.resolve(task, word)?;
                let value = self.out.tasks.words[row];
                Ok(self.set(task, into, value))
            }
            I::WordStore { word, value } => {
                let row = self.resolve(task, word)?;
                self.out.tasks.words[row] = self.amount(task, value);
                Ok(self.done(task))
            }
            I::WordFetchAdd { word, value, old } => {
                let row = self.resolve(task, word)?;
                let addend = self.amount(task, value);
                let before = self.out.tasks.words[row];
                self.out.tasks.words[row] = before.wrapping_add(addend);
                Ok(self.set(task, old, before))
            }
            I::WordCount(word) => self.word_count(cpu, task, word),
            I::WordWait { word, expected } => self.word_wait(cpu, task, word, expected),
            I::WordWake { word, count } => self.word_wake(cpu, task, word, count),
            I::Lock(mutex) => self.lock(cpu, task, mutex),
            I::Unlock(mutex) => self.unlock(cpu, task, mutex),
            I::ConditionWait { condition, mutex } => {
                self.condition_wait(cpu, task, condition, mutex)
            }
            I::Signal(condition) => self.signal(cpu, task, condition, 1),
            I::Broadcast(condition) => self.signal(cpu, task, condition, usize::MAX),
            I::Barrier(barrier) => self.barrier(cpu, task, barrier),
            I::Fork { fork, child } => self.fork(cpu, task, fork, child),
            I::Join(child) => Ok(self.join(cpu, task, child)),
            I::JoinAll => Ok(self.join_all(cpu, task)),
            I::Exit => Ok(self.exit(cpu, task)),
            I::Yield => {
                self.syscall(cpu);
                self.skip(task);
                self.kernel.yield_current(&mut self.out, cpu);
                Ok(ENTERED)
            }
            I::CpuTime(reg) => {
                self.syscall(cpu);
                let ran = self.kernel.task_sched_runtime(&mut self.out, cpu);
                self.set(task, reg, ran);
                // Being charged may have used up the task's request or its group's runtime.
                Ok(ENTERED)
            }
            I::SetAttributes(attributes) => self.set_attributes(cpu, task, attributes),
            _ => self.measure(cpu, task, instruction),
        }
    }

    #[inline(never)]
    fn measure(&mut self, cpu: Cpu, task: TaskId, instruction: Instruction) -> Run<Next> {
        use Instruction as I;
        let now = self.out.clock(cpu);
        match instruction {
            I::RecordSince { metric, since } => {
                let since = self.out.tasks.register(task, since.0);
                let elapsed = now.saturating_sub(since);
                self.out.probes.record(now, metric.0, elapsed);
            }
            I::Record { metric, value } => {
                let value = self.amount(task, value);
                self.out.probes.record(now, metric.0, value);
            }
            I::Count { metric, amount } => {
                let amount = self.amount(task, amount);
                self.out.probes.count(now, metric.0, amount);
            }
            I::Serve(patient) => self.out.serve(patient),
            I::Answer(patient) => self.out.answer(now, patient),
            I::Log {
                channel,
                first,
                count,
            } => self.log(now, task, channel, first, count),
            // Everything else is handled by the callers.
            _ => unreachable!("{instruction:?} is not a measurement"),
        }
        Ok(self.done(task))
    }

    fn log(&mut self, time: Ns, task: TaskId, channel: u16, first: Reg, count: u8) {
        if let Some(log) = &mut self.out.probes.log {
            let registers = self.out.tasks.registers_mut(task);
            let first = usize::from(first.0);
            log.push(crate::events::LogRow {
                time,
                task,
                channel,
                values: registers[first..first + usize::from(count)].to_vec(),
            });
        }
    }

    /// The value of an operand.
    #[inline(always)]
    pub(super) fn amount(&mut self, task: TaskId, amount: Amount) -> u64 {
        match amount.kind() {
            AmountKind::Fixed(value) => value,
            AmountKind::Reg(reg) => self.out.tasks.register(task, reg.0),
            AmountKind::Draw {
                distribution,
                stream,
            } => {
                let uniform = random::draw(self.out.tasks.stream(task, stream));
                let distributions = &self.out.shared.workload.distributions;
                distributions[distribution.0 as usize].quantile(uniform)
            }
        }
    }

    /// Row of a referenced object.
    #[inline(always)]
    pub(super) fn resolve<O: Awaited>(&self, task: TaskId, reference: Ref<O>) -> Run<usize> {
        match reference.kind() {
            RefKind::Number(number) => Ok(number as usize),
            RefKind::Reg(reg) => {
                let number = self.out.tasks.register(task, reg.0);
                let count = O::count(&self.out.tasks, &self.out.shared.workload);
                if number < count as u64 {
                    Ok(number as usize)
                } else {
                    Err(self.bad_reference(task, reg, O::WORD, number, count))
                }
            }
        }
    }

    /// Goes on with the next instruction.
    #[inline(always)]
    pub(super) fn done(&mut self, task: TaskId) -> Next {
        self.skip(task);
        Next::Instruction
    }

    /// Moves the task to its next instruction.
    #[inline(always)]
    pub(super) fn skip(&mut self, task: TaskId) {
        self.out.tasks.contexts[task].pc += 1;
    }

    #[inline(always)]
    fn begin(&mut self, task: TaskId, segment: Segment) -> Next {
        let context = &mut self.out.tasks.contexts[task];
        context.segment = segment;
        context.pc += 1;
        Next::Leave(Flow::Segment)
    }

    #[inline(always)]
    pub(super) fn set(&mut self, task: TaskId, reg: Reg, value: u64) -> Next {
        self.out.tasks.set_register(task, reg.0, value);
        self.done(task)
    }

    #[inline(always)]
    pub(super) fn jump(&mut self, task: TaskId, target: u32) -> Next {
        self.out.tasks.contexts[task].pc = target;
        Next::Instruction
    }

    /// Program and instruction a task is at, for messages.
    fn place(&self, task: TaskId) -> (String, String, usize) {
        let context = &self.out.tasks.contexts[task];
        let program = &self.workload().programs[context.program as usize];
        let entry = self.out.shared.entries[context.program as usize];
        (
            self.task_name(task).to_owned(),
            program.name().to_owned(),
            (context.pc - entry) as usize,
        )
    }

    #[cold]
    fn no_progress(&self, task: TaskId) -> Box<RunError> {
        let (task, program, instruction) = self.place(task);
        Box::new(RunError::NoProgress {
            task,
            program,
            instruction,
            steps: self.out.steps,
            time_ns: self.out.now,
        })
    }

    #[cold]
    fn bad_reference(
        &self,
        task: TaskId,
        reg: Reg,
        kind: &'static str,
        number: u64,
        count: usize,
    ) -> Box<RunError> {
        let (task, program, instruction) = self.place(task);
        Box::new(RunError::BadReference {
            task,
            program,
            instruction,
            register: reg.0,
            kind,
            number,
            count,
        })
    }
}

#[inline(always)]
fn calculate(op: Arithmetic, left: u64, right: u64) -> u64 {
    match op {
        Arithmetic::Add => left.wrapping_add(right),
        Arithmetic::SubtractToZero => left.saturating_sub(right),
        Arithmetic::Multiply => left.wrapping_mul(right),
        Arithmetic::Divide => left.checked_div(right).unwrap_or(left),
        Arithmetic::Remainder => left.checked_rem(right).unwrap_or(left),
        Arithmetic::Min => left.min(right),
        Arithmetic::Max => left.max(right),
    }
}

#[inline(always)]
fn holds(compare: Compare, left: u64, right: u64) -> bool {
    match compare {
        Compare::Equal => left == right,
        Compare::NotEqual => left != right,
        Compare::Less => left < right,
        Compare::LessOrEqual => left <= right,
        Compare::Greater => left > right,
        Compare::GreaterOrEqual => left >= right,
    }
}
