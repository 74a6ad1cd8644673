//! Which CPU a waking or starting task goes to.

use crate::ids::{Cpu, TaskId};
use crate::kernel::{Kernel, WakeFlags};
use crate::platform::Platform;

/// Why a CPU is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeKind {
    /// A sleeper wakes.
    Wakeup,
    /// A new task starts.
    Fork,
    /// A task executes a new program.
    Exec,
}

impl Kernel {
    /// The previous CPU if idle, else any idle CPU, else the previous one.
    pub(crate) fn select_task_rq_fair<P: Platform>(
        &mut self,
        _p: &mut P,
        _waker_cpu: Cpu,
        task: TaskId,
        _kind: WakeKind,
        _flags: WakeFlags,
    ) -> Cpu {
        let record = &self.tasks[task.index()];
        if self.idle_cpu(record.cpu) {
            return record.cpu;
        }
        record
            .affinity
            .iter()
            .find(|&cpu| self.idle_cpu(cpu))
            .unwrap_or(record.cpu)
    }
}
