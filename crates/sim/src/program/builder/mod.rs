//! Makes programs: one method per instruction, labels for jumps, checks at the end.

use super::operands::{Operand, for_each_operand};
use super::{
    Amount, AmountKind, Arithmetic, Compare, Instruction, Named, Program, REGISTERS_MAX, Ref, Reg,
};
use crate::workload::{
    AttributesId, BarrierId, ConditionId, DeviceId, DistributionId, ForkId, MetricId, MutexId,
    PatientId, QueueId, SemaphoreId, WordId,
};
use thiserror::Error;

/// A place in a program that jumps may name before it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

/// Mistake in a program.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ProgramError {
    /// A label was used but never bound.
    #[error("program {program}: label {label} is used but never bound")]
    UnboundLabel {
        /// Program.
        program: String,
        /// Number of the label, in order of creation.
        label: u32,
    },
    /// A label was bound twice.
    #[error("program {program}: label {label} is bound twice")]
    BoundTwice {
        /// Program.
        program: String,
        /// Number of the label.
        label: u32,
    },
    /// A label of another builder.
    #[error("program {program}: label {label} is not one of its labels")]
    UnknownLabel {
        /// Program.
        program: String,
        /// Number of the label.
        label: u32,
    },
    /// A register number is out of range.
    #[error("program {program}: register {register} is out of range, there are {REGISTERS_MAX}")]
    Register {
        /// Program.
        program: String,
        /// The register.
        register: u8,
    },
}

/// Builds one program.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    name: String,
    instructions: Vec<Instruction>,
    /// Place of each label, once bound.
    labels: Vec<Option<u32>>,
    tables: Vec<Vec<Label>>,
    /// Distributions in order of first use; the position is the random stream.
    streams: Vec<DistributionId>,
    error: Option<ProgramError>,
}

impl ProgramBuilder {
    /// An empty program.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// A new label, to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds a label to the next instruction.
    pub fn bind(&mut self, label: Label) {
        let here = self.instructions.len() as u32;
        let program = self.name.clone();
        let error = match self.labels.get_mut(label.0 as usize) {
            Some(place @ None) => {
                *place = Some(here);
                return;
            }
            Some(Some(_)) => ProgramError::BoundTwice {
                program,
                label: label.0,
            },
            None => ProgramError::UnknownLabel {
                program,
                label: label.0,
            },
        };
        self.error.get_or_insert(error);
    }

    /// A new label bound to the next instruction.
    pub fn here(&mut self) -> Label {
        let label = self.label();
        self.bind(label);
        label
    }

    /// Number of instructions so far.
    pub fn len(&self) -> usize {
        self.instructions.len()
    }

    /// Whether there are no instructions yet.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    fn push(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    /// Gives draws the stream of their distribution, one per distribution and program.
    fn amount(&mut self, amount: impl Into<Amount>) -> Amount {
        let amount = amount.into();
        let AmountKind::Draw { distribution, .. } = amount.kind() else {
            return amount;
        };
        let known = self.streams.iter().position(|&used| used == distribution);
        let stream = known.unwrap_or_else(|| {
            self.streams.push(distribution);
            self.streams.len() - 1
        });
        Amount::draw_from(distribution, stream as u16)
    }

    /// [`Instruction::Work`].
    pub fn work(&mut self, amount: impl Into<Amount>) {
        let amount = self.amount(amount);
        self.push(Instruction::Work(amount));
    }

    /// [`Instruction::Spin`]; `quantum_ns` of 0 counts as 1.
    pub fn spin(&mut self, amount: impl Into<Amount>, quantum_ns: u32) {
        let amount = self.amount(amount);
        self.push(Instruction::Spin {
            amount,
            quantum_ns: quantum_ns.max(1),
        });
    }

    /// [`Instruction::KernelWork`].
    pub fn kernel_work(&mut self, amount: impl Into<Amount>) {
        let amount = self.amount(amount);
        self.push(Instruction::KernelWork(amount));
    }

    /// [`Instruction::Stolen`].
    pub fn stolen(&mut self, amount: impl Into<Amount>) {
        let amount = self.amount(amount);
        self.push(Instruction::Stolen(amount));
    }

    /// [`Instruction::Sleep`].
    pub fn sleep(&mut self, amount: impl Into<Amount>) {
        let amount = self.amount(amount);
        self.push(Instruction::Sleep(amount));
    }

    /// [`Instruction::SleepUntil`].
    pub fn sleep_until(&mut self, time: Reg) {
        self.push(Instruction::SleepUntil(time));
    }

    /// [`Instruction::Io`].
    pub fn io(&mut self, amount: impl Into<Amount>) {
        let amount = self.amount(amount);
        self.push(Instruction::Io(amount));
    }

    /// [`Instruction::Submit`].
    pub fn submit(
        &mut self,
        device: DeviceId,
        service: impl Into<Amount>,
        queue: impl Into<Ref<QueueId>>,
        value: Reg,
    ) {
        let service = self.amount(service);
        self.push(Instruction::Submit {
            device,
            queue: queue.into(),
            value,
            service,
        });
    }

    /// [`Instruction::SemPost`].
    pub fn sem_post(&mut self, semaphore: impl Into<Ref<SemaphoreId>>) {
        self.push(Instruction::SemPost(semaphore.into()));
    }

    /// [`Instruction::SemWait`].
    pub fn sem_wait(&mut self, semaphore: impl Into<Ref<SemaphoreId>>) {
        self.push(Instruction::SemWait(semaphore.into()));
    }

    /// [`Instruction::Send`].
    pub fn send(
        &mut self,
        queue: impl Into<Ref<QueueId>>,
        bytes: impl Into<Amount>,
        value: Reg,
        sync: bool,
    ) {
        let bytes = self.amount(bytes);
        self.push(Instruction::Send {
            queue: queue.into(),
            bytes,
            value,
            sync,
        });
    }

    /// [`Instruction::Recv`] without a time limit.
    pub fn recv(&mut self, queue: impl Into<Ref<QueueId>>, value: Reg) {
        self.recv_timeout(queue, value, Amount::FOREVER);
    }

    /// [`Instruction::Recv`].
    pub fn recv_timeout(
        &mut self,
        queue: impl Into<Ref<QueueId>>,
        value: Reg,
        timeout: impl Into<Amount>,
    ) {
        let timeout = self.amount(timeout);
        self.push(Instruction::Recv {
            queue: queue.into(),
            value,
            timeout,
            iowait: false,
        });
    }

    /// [`Instruction::Recv`] without a limit, waiting for I/O.
    pub fn recv_io(&mut self, queue: impl Into<Ref<QueueId>>, value: Reg) {
        self.push(Instruction::Recv {
            queue: queue.into(),
            value,
            timeout: Amount::FOREVER,
            iowait: true,
        });
    }

    /// [`Instruction::TryRecv`].
    pub fn try_recv(&mut self, queue: impl Into<Ref<QueueId>>, value: Reg, empty: Label) {
        self.push(Instruction::TryRecv {
            queue: queue.into(),
            value,
            empty: empty.0,
        });
    }

    /// [`Instruction::WordLoad`].
    pub fn word_load(&mut self, word: impl Into<Ref<WordId>>, into: Reg) {
        self.push(Instruction::WordLoad {
            word: word.into(),
            into,
        });
    }

    /// [`Instruction::WordStore`].
    pub fn word_store(&mut self, word: impl Into<Ref<WordId>>, value: impl Into<Amount>) {
        let value = self.amount(value);
        self.push(Instruction::WordStore {
            word: word.into(),
            value,
        });
    }

    /// [`Instruction::WordFetchAdd`].
    pub fn word_fetch_add(
        &mut self,
        word: impl Into<Ref<WordId>>,
        value: impl Into<Amount>,
        old: Reg,
    ) {
        let value = self.amount(value);
        self.push(Instruction::WordFetchAdd {
            word: word.into(),
            value,
            old,
        });
    }

    /// [`Instruction::WordCount`].
    pub fn word_count(&mut self, word: impl Into<Ref<WordId>>) {
        self.push(Instruction::WordCount(word.into()));
    }

    /// [`Instruction::WordWait`].
    pub fn word_wait(&mut self, word: impl Into<Ref<WordId>>, expected: impl Into<Amount>) {
        let expected = self.amount(expected);
        self.push(Instruction::WordWait {
            word: word.into(),
            expected,
        });
    }

    /// [`Instruction::WordWake`].
    pub fn word_wake(&mut self, word: impl Into<Ref<WordId>>, count: impl Into<Amount>) {
        let count = self.amount(count);
        self.push(Instruction::WordWake {
            word: word.into(),
            count,
        });
    }

    /// [`Instruction::Lock`].
    pub fn lock(&mut self, mutex: impl Into<Ref<MutexId>>) {
        self.push(Instruction::Lock(mutex.into()));
    }

    /// [`Instruction::Unlock`].
    pub fn unlock(&mut self, mutex: impl Into<Ref<MutexId>>) {
        self.push(Instruction::Unlock(mutex.into()));
    }

    /// [`Instruction::ConditionWait`].
    pub fn condition_wait(
        &mut self,
        condition: impl Into<Ref<ConditionId>>,
        mutex: impl Into<Ref<MutexId>>,
    ) {
        self.push(Instruction::ConditionWait {
            condition: condition.into(),
            mutex: mutex.into(),
        });
    }

    /// [`Instruction::Signal`].
    pub fn signal(&mut self, condition: impl Into<Ref<ConditionId>>) {
        self.push(Instruction::Signal(condition.into()));
    }

    /// [`Instruction::Broadcast`].
    pub fn broadcast(&mut self, condition: impl Into<Ref<ConditionId>>) {
        self.push(Instruction::Broadcast(condition.into()));
    }

    /// [`Instruction::Barrier`].
    pub fn barrier(&mut self, barrier: impl Into<Ref<BarrierId>>) {
        self.push(Instruction::Barrier(barrier.into()));
    }

    /// [`Instruction::Fork`].
    pub fn fork(&mut self, fork: ForkId, child: Reg) {
        self.push(Instruction::Fork { fork, child });
    }

    /// [`Instruction::Join`].
    pub fn join(&mut self, child: Reg) {
        self.push(Instruction::Join(child));
    }

    /// [`Instruction::JoinAll`].
    pub fn join_all(&mut self) {
        self.push(Instruction::JoinAll);
    }

    /// [`Instruction::Exit`].
    pub fn exit(&mut self) {
        self.push(Instruction::Exit);
    }

    /// [`Instruction::Yield`].
    pub fn yield_now(&mut self) {
        self.push(Instruction::Yield);
    }

    /// [`Instruction::SetAttributes`].
    pub fn set_attributes(&mut self, attributes: AttributesId) {
        self.push(Instruction::SetAttributes(attributes));
    }

    /// [`Instruction::Set`].
    pub fn set(&mut self, reg: Reg, value: impl Into<Amount>) {
        let value = self.amount(value);
        self.push(Instruction::Set { reg, value });
    }

    /// [`Instruction::Arithmetic`].
    pub fn arithmetic(&mut self, op: Arithmetic, reg: Reg, operand: impl Into<Amount>) {
        let operand = self.amount(operand);
        self.push(Instruction::Arithmetic { op, reg, operand });
    }

    /// Adds to a register (wrapping).
    pub fn add(&mut self, reg: Reg, operand: impl Into<Amount>) {
        self.arithmetic(Arithmetic::Add, reg, operand);
    }

    /// Subtracts from a register, not below 0.
    pub fn subtract(&mut self, reg: Reg, operand: impl Into<Amount>) {
        self.arithmetic(Arithmetic::SubtractToZero, reg, operand);
    }

    /// `reg` = `one` + `other`, which is read after `reg` is set.
    pub fn sum(&mut self, reg: Reg, one: impl Into<Amount>, other: impl Into<Amount>) {
        self.set(reg, one);
        self.add(reg, other);
    }

    /// `reg` = `one` − `other`, 0 at the least; `other` is read after `reg` is set.
    pub fn difference(&mut self, reg: Reg, one: impl Into<Amount>, other: impl Into<Amount>) {
        self.set(reg, one);
        self.subtract(reg, other);
    }

    /// [`Instruction::Now`].
    pub fn now(&mut self, reg: Reg) {
        self.push(Instruction::Now(reg));
    }

    /// [`Instruction::CpuTime`].
    pub fn cpu_time(&mut self, reg: Reg) {
        self.push(Instruction::CpuTime(reg));
    }

    /// [`Instruction::GetCpu`].
    pub fn get_cpu(&mut self, reg: Reg) {
        self.push(Instruction::GetCpu(reg));
    }

    /// [`Instruction::Jump`].
    pub fn jump(&mut self, target: Label) {
        self.push(Instruction::Jump(target.0));
    }

    /// [`Instruction::JumpIf`].
    pub fn jump_if(
        &mut self,
        reg: Reg,
        compare: Compare,
        operand: impl Into<Amount>,
        target: Label,
    ) {
        let operand = self.amount(operand);
        self.push(Instruction::JumpIf {
            compare,
            reg,
            operand,
            target: target.0,
        });
    }

    /// [`Instruction::Loop`].
    pub fn loop_back(&mut self, counter: Reg, target: Label) {
        self.push(Instruction::Loop {
            reg: counter,
            target: target.0,
        });
    }

    /// Executes `body` so many times, at least once, counting `counter` down.
    pub fn repeat(
        &mut self,
        counter: Reg,
        times: impl Into<Amount>,
        body: impl FnOnce(&mut ProgramBuilder),
    ) {
        self.set(counter, times);
        let top = self.here();
        body(self);
        self.loop_back(counter, top);
    }

    /// `body` over and over, until it jumps to the label that it gets: what comes next.
    pub fn forever(&mut self, body: impl FnOnce(&mut ProgramBuilder, Label)) {
        let (top, end) = (self.here(), self.label());
        body(self, end);
        self.jump(top);
        self.bind(end);
    }

    /// `body`, unless the register compares so.
    pub fn unless(
        &mut self,
        reg: Reg,
        compare: Compare,
        operand: impl Into<Amount>,
        body: impl FnOnce(&mut ProgramBuilder),
    ) {
        let over = self.label();
        self.jump_if(reg, compare, operand, over);
        body(self);
        self.bind(over);
    }

    /// [`Instruction::JumpIndexed`].
    pub fn jump_indexed(&mut self, index: Reg, targets: &[Label]) {
        self.tables.push(targets.to_vec());
        self.push(Instruction::JumpIndexed {
            reg: index,
            table: self.tables.len() as u32 - 1,
        });
    }

    /// [`Instruction::RecordSince`].
    pub fn record_since(&mut self, metric: MetricId, since: Reg) {
        self.push(Instruction::RecordSince { metric, since });
    }

    /// [`Instruction::Record`].
    pub fn record(&mut self, metric: MetricId, value: impl Into<Amount>) {
        let value = self.amount(value);
        self.push(Instruction::Record { metric, value });
    }

    /// [`Instruction::Serve`].
    pub fn serve(&mut self, patient: PatientId) {
        self.push(Instruction::Serve(patient));
    }

    /// [`Instruction::Answer`].
    pub fn answer(&mut self, patient: PatientId) {
        self.push(Instruction::Answer(patient));
    }

    /// [`Instruction::Count`].
    pub fn count(&mut self, metric: MetricId, amount: impl Into<Amount>) {
        let amount = self.amount(amount);
        self.push(Instruction::Count { metric, amount });
    }

    /// [`Instruction::Log`].
    pub fn log(&mut self, channel: u16, first: Reg, count: u8) {
        self.push(Instruction::Log {
            channel,
            first,
            count,
        });
    }

    /// The finished program, jumps resolved. An explicit [`Instruction::Exit`] is not needed.
    ///
    /// # Errors
    /// A label that is used but not bound, bound twice or of another builder; a register above
    /// [`REGISTERS_MAX`].
    pub fn finish(mut self) -> Result<Program, ProgramError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut instructions = std::mem::take(&mut self.instructions);
        for instruction in &mut instructions {
            if let Some(target) = jump_target(instruction) {
                *target = self.resolve(*target)?;
            }
        }
        let tables = self
            .tables
            .iter()
            .map(|table| table.iter().map(|label| self.resolve(label.0)).collect())
            .collect::<Result<_, _>>()?;
        let (registers, objects) = self.named(&instructions)?;
        Ok(Program {
            name: self.name,
            instructions: instructions.into(),
            tables,
            registers,
            streams: self.streams.len() as u16,
            objects,
        })
    }

    fn resolve(&self, label: u32) -> Result<u32, ProgramError> {
        match self.labels.get(label as usize) {
            Some(Some(place)) => Ok(*place),
            Some(None) => Err(ProgramError::UnboundLabel {
                program: self.name.clone(),
                label,
            }),
            None => Err(ProgramError::UnknownLabel {
                program: self.name.clone(),
                label,
            }),
        }
    }

    /// The number of registers, and the highest object of each kind.
    fn named(&self, instructions: &[Instruction]) -> Result<(u8, Vec<Named>), ProgramError> {
        let mut registers = 0;
        let mut objects: Vec<Named> = Vec::new();
        for (row, instruction) in instructions.iter().enumerate() {
            for_each_operand(instruction, &mut |operand| match operand {
                Operand::Register(register) => registers = registers.max(register + 1),
                Operand::Object(kind, number) => {
                    let named = Named {
                        kind,
                        highest: number,
                        at: row,
                    };
                    match objects.iter_mut().find(|known| known.kind == kind) {
                        Some(known) if known.highest < number => *known = named,
                        Some(_) => {}
                        None => objects.push(named),
                    }
                }
            });
        }
        if registers > REGISTERS_MAX as u16 {
            return Err(ProgramError::Register {
                program: self.name.clone(),
                register: (registers - 1).min(255) as u8,
            });
        }
        Ok((registers as u8, objects))
    }
}

/// The single jump target of an instruction.
fn jump_target(instruction: &mut Instruction) -> Option<&mut u32> {
    match instruction {
        Instruction::Jump(target)
        | Instruction::JumpIf { target, .. }
        | Instruction::Loop { target, .. }
        | Instruction::TryRecv { empty: target, .. } => Some(target),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
