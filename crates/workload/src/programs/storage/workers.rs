//! Kernel workers: threads that wait for work items of one workqueue.
//!
//! The items of a bound workqueue go to the worker of the CPU that queues them, those of an unbound
//! one to any idle worker. Worked example: queue 10 is that of CPU 0; a task on CPU 3 queues its
//! item to 10 + 3 and `kworker/3`, which may run on CPU 3 only, is woken there.

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_sim::workload::{ProgramId, QueueId, TaskSpec};
use schedcast_sim::{ProgramBuilder, Reg};

use super::{INBOX, reg};
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0 => pub(super),
    /// Value of the item a worker is at.
    ITEM
    /// The worker's queue.
    INBOX_OF_WORKER
    /// For the body of a worker.
    VALUE TARGET
}

/// A workqueue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workqueue {
    first: QueueId,
    bound: bool,
}

/// Adds queues in a row; the first is returned.
pub(super) fn queues(compiler: &mut Compiler, count: u64) -> QueueId {
    let first = compiler.workload.queues.len() as u32;
    for _ in 0..count {
        compiler.workload.add_queue(INBOX);
    }
    QueueId(first)
}

/// Kind of the workers that serve a workqueue.
pub(super) struct Pool {
    /// Name of the threads, before `/CPU`.
    pub name: &'static str,
    /// One worker for each CPU, or this many for all.
    pub unbound: Option<u32>,
    /// −20 for `WQ_HIGHPRI`.
    pub nice: i32,
}

impl Workqueue {
    /// Adds a workqueue whose workers execute `body` for each item; its value is in [`ITEM`].
    pub(super) fn add(
        compiler: &mut Compiler,
        pool: &Pool,
        body: impl FnOnce(&mut ProgramBuilder),
    ) -> Result<Self, crate::programs::CommandError> {
        let mut b = ProgramBuilder::new(pool.name);
        let top = b.here();
        b.recv(INBOX_OF_WORKER, ITEM);
        body(&mut b);
        b.jump(top);
        let program = compiler.program(b)?;
        let cpus = compiler.start.cpus;
        let first = match pool.unbound {
            None => queues(compiler, cpus as u64),
            Some(_) => queues(compiler, 1),
        };
        match pool.unbound {
            None => {
                for row in 0..cpus {
                    let cpu = Cpu::from(row);
                    let name = format!("{}/{row}", pool.name);
                    let queue = u64::from(first.0) + row as u64;
                    let set = CpuSet::of(cpu);
                    thread(compiler, program, pool, name, Some(set), queue);
                }
            }
            Some(count) => {
                for row in 0..count {
                    let name = format!("{}/u:{row}", pool.name);
                    thread(compiler, program, pool, name, None, u64::from(first.0));
                }
            }
        }
        Ok(Self {
            first,
            bound: pool.unbound.is_none(),
        })
    }

    /// Leaves in [`reg::ADDRESS`] the queue that an item queued here and now goes to.
    pub(super) fn address(&self, b: &mut ProgramBuilder) {
        if self.bound {
            b.get_cpu(reg::ADDRESS);
            b.add(reg::ADDRESS, u64::from(self.first.0));
        } else {
            b.set(reg::ADDRESS, u64::from(self.first.0));
        }
    }

    /// `queue_work`: hands `value` to a worker.
    pub(super) fn queue(&self, b: &mut ProgramBuilder, value: Reg) {
        self.address(b);
        b.send(reg::ADDRESS, 1, value, false);
    }
}

fn thread(
    compiler: &mut Compiler,
    program: ProgramId,
    pool: &Pool,
    name: String,
    affinity: Option<CpuSet>,
    queue: u64,
) {
    let mut task = TaskSpec::new(name, program);
    task.statistics = Some(pool.name.to_owned());
    task.nice = pool.nice;
    task.affinity = affinity;
    task.address_space = None;
    task.registers = vec![(INBOX_OF_WORKER, queue)];
    task.start_ns = compiler.start.start_ns;
    compiler.workload.add_task(task);
}

/// A kernel thread that is no worker: the journal thread.
pub(super) fn journal_thread(compiler: &mut Compiler, name: &'static str, program: ProgramId) {
    let mut task = TaskSpec::new(name, program);
    task.address_space = None;
    task.start_ns = compiler.start.start_ns;
    compiler.workload.add_task(task);
}

/// Waits until `word` has reached [`reg::COMMIT`] (`wait_event`).
pub(super) fn wait_for_commit(
    b: &mut ProgramBuilder,
    word: impl Into<schedcast_sim::program::Ref<schedcast_sim::workload::WordId>>,
) {
    use schedcast_sim::program::Compare;
    let word = word.into();
    b.forever(|b, done| {
        b.word_load(word, reg::SEEN);
        b.jump_if(reg::SEEN, Compare::GreaterOrEqual, reg::COMMIT, done);
        b.word_wait(word, reg::SEEN);
    });
}

/// Wakes all waiters of a word.
pub(super) const ALL: u64 = u32::MAX as u64;
