//! Which registers and objects an instruction names: one walk for all checks.

use super::{Amount, AmountKind, Instruction, ObjectId, Ref, RefKind, Reg};

/// Something an instruction names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    /// A register.
    Register(u16),
    /// An object: its kind and its number.
    Object(&'static str, u32),
}

trait Named {
    fn operand(self) -> Option<Operand>;
}

impl Named for Reg {
    fn operand(self) -> Option<Operand> {
        Some(Operand::Register(u16::from(self.0)))
    }
}

impl Named for Amount {
    fn operand(self) -> Option<Operand> {
        match self.kind() {
            AmountKind::Fixed(_) => None,
            AmountKind::Reg(reg) => reg.operand(),
            AmountKind::Draw { distribution, .. } => object(distribution),
        }
    }
}

impl<K: ObjectId> Named for Ref<K> {
    fn operand(self) -> Option<Operand> {
        match self.kind() {
            RefKind::Number(number) => Some(Operand::Object(K::WORD, number)),
            RefKind::Reg(reg) => reg.operand(),
        }
    }
}

fn object<K: ObjectId>(id: K) -> Option<Operand> {
    Some(Operand::Object(K::WORD, id.number()))
}

/// Calls `visit` with everything `instruction` names. Jump targets and tables are not among it: the
/// builder resolves them.
pub(crate) fn for_each_operand(instruction: &Instruction, visit: &mut impl FnMut(Operand)) {
    if let Instruction::Submit { device, .. } = *instruction {
        object(device).into_iter().for_each(&mut *visit);
    }
    operands(instruction).into_iter().flatten().for_each(visit);
}

fn operands(instruction: &Instruction) -> [Option<Operand>; 3] {
    use Instruction as I;
    match *instruction {
        I::Work(amount)
        | I::Spin { amount, .. }
        | I::KernelWork(amount)
        | I::Stolen(amount)
        | I::Sleep(amount)
        | I::Io(amount) => [amount.operand(), None, None],
        I::Submit {
            device: _,
            queue,
            value,
            service,
        } => [queue.operand(), value.operand(), service.operand()],
        I::SleepUntil(reg) | I::Join(reg) | I::Now(reg) | I::CpuTime(reg) | I::GetCpu(reg) => {
            [reg.operand(), None, None]
        }
        I::SemPost(semaphore) | I::SemWait(semaphore) => [semaphore.operand(), None, None],
        I::Send {
            queue,
            bytes,
            value,
            sync: _,
        } => [queue.operand(), bytes.operand(), value.operand()],
        I::Recv {
            queue,
            value,
            timeout,
            iowait: _,
        } => [queue.operand(), value.operand(), timeout.operand()],
        I::TryRecv { queue, value, .. } => [queue.operand(), value.operand(), None],
        I::WordLoad { word, into } => [word.operand(), into.operand(), None],
        I::WordStore { word, value } => [word.operand(), value.operand(), None],
        I::WordFetchAdd { word, value, old } => [word.operand(), value.operand(), old.operand()],
        I::WordCount(word) => [word.operand(), None, None],
        I::WordWait { word, expected } => [word.operand(), expected.operand(), None],
        I::WordWake { word, count } => [word.operand(), count.operand(), None],
        I::Lock(mutex) | I::Unlock(mutex) => [mutex.operand(), None, None],
        I::ConditionWait { condition, mutex } => [condition.operand(), mutex.operand(), None],
        I::Signal(condition) | I::Broadcast(condition) => [condition.operand(), None, None],
        I::Barrier(barrier) => [barrier.operand(), None, None],
        I::Fork { fork, child } => [object(fork), child.operand(), None],
        I::SetAttributes(attributes) => [object(attributes), None, None],
        I::Set { reg, value } => [reg.operand(), value.operand(), None],
        I::Arithmetic { reg, operand, .. } | I::JumpIf { reg, operand, .. } => {
            [reg.operand(), operand.operand(), None]
        }
        I::Loop { reg, .. } | I::JumpIndexed { reg, .. } => [reg.operand(), None, None],
        I::RecordSince { metric, since } => [object(metric), since.operand(), None],
        I::Record { metric, value } => [object(metric), value.operand(), None],
        I::Count { metric, amount } => [object(metric), amount.operand(), None],
        I::Serve(patient) | I::Answer(patient) => [object(patient), None, None],
        I::Log { first, count, .. } => {
            let last = (u16::from(first.0) + u16::from(count)).saturating_sub(1);
            [Some(Operand::Register(last)), None, None]
        }
        I::JoinAll | I::Exit | I::Yield | I::Jump(_) => [None; 3],
    }
}
