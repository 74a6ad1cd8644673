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

/// Mistake in a program: a label or a register.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("program {program}: {problem}")]
pub struct ProgramError {
    program: String,
    problem: String,
}

/// Said of a label of another builder.
const NOT_ITS_LABEL: &str = "is not one of its labels";

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
        let problem = match self.labels.get_mut(label.0 as usize) {
            Some(place @ None) => {
                *place = Some(here);
                return;
            }
            Some(Some(_)) => "is bound twice",
            None => NOT_ITS_LABEL,
        };
        let error = self.of_label(label.0, problem);
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

    /// [`Instruction::Spin`]; `quantum_ns` of 0 counts as 1.
    pub fn spin(&mut self, amount: impl Into<Amount>, quantum_ns: u32) {
        let amount = self.amount(amount);
        self.push(Instruction::Spin {
            amount,
            quantum_ns: quantum_ns.max(1),
        });
    }

    /// [`Instruction::Recv`] without a time limit.
    pub fn recv(&mut self, queue: impl Into<Ref<QueueId>>, value: Reg) {
        self.recv_timeout(queue, value, Amount::FOREVER);
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
            Some(None) => Err(self.of_label(label, "is used but never bound")),
            None => Err(self.of_label(label, NOT_ITS_LABEL)),
        }
    }

    fn of_label(&self, label: u32, problem: &str) -> ProgramError {
        self.error(format!("label {label} {problem}"))
    }

    fn error(&self, problem: String) -> ProgramError {
        let program = self.name.clone();
        ProgramError { program, problem }
    }

    /// The number of registers, and the highest object of each kind.
    fn named(&self, instructions: &[Instruction]) -> Result<(u8, Vec<Named>), ProgramError> {
        let mut registers = 0;
        let mut objects: Vec<Named> = Vec::new();
        for (at, instruction) in instructions.iter().enumerate() {
            for_each_operand(instruction, &mut |operand| match operand {
                Operand::Register(register) => registers = registers.max(register + 1),
                Operand::Object(kind, highest) => {
                    let named = Named { kind, highest, at };
                    match objects.iter_mut().find(|known| known.kind == kind) {
                        Some(known) if known.highest < highest => *known = named,
                        Some(_) => {}
                        None => objects.push(named),
                    }
                }
            });
        }
        if registers > REGISTERS_MAX as u16 {
            return Err(self.error(format!(
                "register {} is out of range, there are {REGISTERS_MAX}",
                (registers - 1).min(255)
            )));
        }
        Ok((registers as u8, objects))
    }
}

/// An argument of an instruction, as the instruction holds it.
trait Argument: Sized {
    fn held(self, _: &mut ProgramBuilder) -> Self {
        self
    }
}

impl Argument for Amount {
    fn held(self, builder: &mut ProgramBuilder) -> Self {
        builder.amount(self)
    }
}

impl<K> Argument for Ref<K> {}

macro_rules! held_as_they_are {
    ($($kind:ident)*) => {$(impl Argument for $kind {})*};
}

held_as_they_are! { Arithmetic AttributesId Compare DeviceId ForkId Label MetricId PatientId Reg bool }

macro_rules! instructions {
    ($(
        $(#[$more:meta])*
        $method:ident($($argument:ident: $kind:ty),*) =>
            $variant:ident $(($($field:tt)*))? $({ $($named:tt)* })?;
    )*) => {
        impl ProgramBuilder {$(
            #[doc = concat!("[`Instruction::", stringify!($variant), "`].")]
            $(#[$more])*
            pub fn $method(&mut self $(, $argument: impl Into<$kind>)*) {
                $(let $argument = <$kind as Argument>::held($argument.into(), self);)*
                self.push(Instruction::$variant $(($($field)*))? $({ $($named)* })?);
            }
        )*}
    };
}

// A method for each instruction: its arguments, and the instruction with them.
instructions! {
    work(amount: Amount) => Work(amount);
    kernel_work(amount: Amount) => KernelWork(amount);
    stolen(amount: Amount) => Stolen(amount);
    sleep(amount: Amount) => Sleep(amount);
    sleep_until(time: Reg) => SleepUntil(time);
    io(amount: Amount) => Io(amount);
    submit(device: DeviceId, service: Amount, queue: Ref<QueueId>, value: Reg) =>
        Submit { device, queue, value, service };
    sem_post(semaphore: Ref<SemaphoreId>) => SemPost(semaphore);
    sem_wait(semaphore: Ref<SemaphoreId>) => SemWait(semaphore);
    send(queue: Ref<QueueId>, bytes: Amount, value: Reg, sync: bool) =>
        Send { queue, bytes, value, sync };
    recv_timeout(queue: Ref<QueueId>, value: Reg, timeout: Amount) =>
        Recv { queue, value, timeout, iowait: false };
    /// Without a time limit, waiting for I/O.
    recv_io(queue: Ref<QueueId>, value: Reg) =>
        Recv { queue, value, timeout: Amount::FOREVER, iowait: true };
    try_recv(queue: Ref<QueueId>, value: Reg, empty: Label) =>
        TryRecv { queue, value, empty: empty.0 };
    word_load(word: Ref<WordId>, into: Reg) => WordLoad { word, into };
    word_store(word: Ref<WordId>, value: Amount) => WordStore { word, value };
    word_fetch_add(word: Ref<WordId>, value: Amount, old: Reg) => WordFetchAdd { word, value, old };
    word_count(word: Ref<WordId>) => WordCount(word);
    word_wait(word: Ref<WordId>, expected: Amount) => WordWait { word, expected };
    word_wake(word: Ref<WordId>, count: Amount) => WordWake { word, count };
    lock(mutex: Ref<MutexId>) => Lock(mutex);
    unlock(mutex: Ref<MutexId>) => Unlock(mutex);
    condition_wait(condition: Ref<ConditionId>, mutex: Ref<MutexId>) =>
        ConditionWait { condition, mutex };
    signal(condition: Ref<ConditionId>) => Signal(condition);
    broadcast(condition: Ref<ConditionId>) => Broadcast(condition);
    barrier(barrier: Ref<BarrierId>) => Barrier(barrier);
    fork(fork: ForkId, child: Reg) => Fork { fork, child };
    join(child: Reg) => Join(child);
    join_all() => JoinAll;
    exit() => Exit;
    yield_now() => Yield;
    set_attributes(attributes: AttributesId) => SetAttributes(attributes);
    set(reg: Reg, value: Amount) => Set { reg, value };
    arithmetic(op: Arithmetic, reg: Reg, operand: Amount) => Arithmetic { op, reg, operand };
    now(reg: Reg) => Now(reg);
    cpu_time(reg: Reg) => CpuTime(reg);
    get_cpu(reg: Reg) => GetCpu(reg);
    jump(target: Label) => Jump(target.0);
    jump_if(reg: Reg, compare: Compare, operand: Amount, target: Label) =>
        JumpIf { compare, reg, operand, target: target.0 };
    loop_back(counter: Reg, target: Label) => Loop { reg: counter, target: target.0 };
    record_since(metric: MetricId, since: Reg) => RecordSince { metric, since };
    record(metric: MetricId, value: Amount) => Record { metric, value };
    serve(patient: PatientId) => Serve(patient);
    answer(patient: PatientId) => Answer(patient);
    count(metric: MetricId, amount: Amount) => Count { metric, amount };
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
