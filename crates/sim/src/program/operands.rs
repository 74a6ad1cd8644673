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
    fn visit(self, visit: &mut impl FnMut(Operand));
}

impl Named for Reg {
    #[inline]
    fn visit(self, visit: &mut impl FnMut(Operand)) {
        visit(Operand::Register(u16::from(self.0)));
    }
}

impl Named for Amount {
    #[inline]
    fn visit(self, visit: &mut impl FnMut(Operand)) {
        match self.kind() {
            AmountKind::Fixed(_) => {}
            AmountKind::Reg(reg) => reg.visit(visit),
            AmountKind::Draw { distribution, .. } => object(distribution, visit),
        }
    }
}

impl<K: ObjectId> Named for Ref<K> {
    #[inline]
    fn visit(self, visit: &mut impl FnMut(Operand)) {
        match self.kind() {
            RefKind::Number(number) => visit(Operand::Object(K::WORD, number)),
            RefKind::Reg(reg) => reg.visit(visit),
        }
    }
}

impl<A: Named, B: Named> Named for (A, B) {
    #[inline]
    fn visit(self, visit: &mut impl FnMut(Operand)) {
        self.0.visit(visit);
        self.1.visit(visit);
    }
}

#[inline]
fn object<K: ObjectId>(id: K, visit: &mut impl FnMut(Operand)) {
    visit(Operand::Object(K::WORD, id.number()));
}

/// Calls `visit` with everything `instruction` names. Jump targets and tables are not among it: the
/// builder resolves them.
#[inline]
pub(crate) fn for_each_operand(instruction: &Instruction, visit: &mut impl FnMut(Operand)) {
    use Instruction as I;
    match *instruction {
        I::Work(amount)
        | I::Spin { amount, .. }
        | I::KernelWork(amount)
        | I::Stolen(amount)
        | I::Sleep(amount)
        | I::Io(amount) => amount.visit(visit),
        I::Submit {
            device,
            queue,
            value,
            service,
        } => {
            object(device, visit);
            (queue, (value, service)).visit(visit);
        }
        I::SleepUntil(reg) | I::Join(reg) | I::Now(reg) | I::CpuTime(reg) | I::GetCpu(reg) => {
            reg.visit(visit);
        }
        I::SemPost(semaphore) | I::SemWait(semaphore) => semaphore.visit(visit),
        I::Send {
            queue,
            bytes,
            value,
            sync: _,
        } => (queue, (bytes, value)).visit(visit),
        I::Recv {
            queue,
            value,
            timeout,
            iowait: _,
        } => (queue, (value, timeout)).visit(visit),
        I::TryRecv { queue, value, .. } => (queue, value).visit(visit),
        I::WordLoad { word, into } => (word, into).visit(visit),
        I::WordStore { word, value } => (word, value).visit(visit),
        I::WordFetchAdd { word, value, old } => (word, (value, old)).visit(visit),
        I::WordCount(word) => word.visit(visit),
        I::WordWait { word, expected } => (word, expected).visit(visit),
        I::WordWake { word, count } => (word, count).visit(visit),
        I::Lock(mutex) | I::Unlock(mutex) => mutex.visit(visit),
        I::ConditionWait { condition, mutex } => (condition, mutex).visit(visit),
        I::Signal(condition) | I::Broadcast(condition) => condition.visit(visit),
        I::Barrier(barrier) => barrier.visit(visit),
        I::Fork { fork, child } => {
            object(fork, visit);
            child.visit(visit);
        }
        I::SetAttributes(attributes) => object(attributes, visit),
        I::Set { reg, value } => (reg, value).visit(visit),
        I::Arithmetic { reg, operand, .. } | I::JumpIf { reg, operand, .. } => {
            (reg, operand).visit(visit);
        }
        I::Loop { reg, .. } | I::JumpIndexed { reg, .. } => reg.visit(visit),
        I::RecordSince { metric, since } => {
            object(metric, visit);
            since.visit(visit);
        }
        I::Record { metric, value } => {
            object(metric, visit);
            value.visit(visit);
        }
        I::Count { metric, amount } => {
            object(metric, visit);
            amount.visit(visit);
        }
        I::Serve(patient) | I::Answer(patient) => object(patient, visit),
        I::Log { first, count, .. } => {
            let last = (u16::from(first.0) + u16::from(count)).saturating_sub(1);
            visit(Operand::Register(last));
        }
        I::JoinAll | I::Exit | I::Yield | I::Jump(_) => {}
    }
}
