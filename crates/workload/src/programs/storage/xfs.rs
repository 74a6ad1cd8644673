//! XFS: data, then the log, with kernel workers on the way.
//!
//! 1. The task submits its data and waits for I/O. If the file has grown, the interrupt hands the
//!    completed write to the worker of its CPU, which wakes the task; otherwise it wakes the task
//!    itself.
//! 2. The task has the committed item list pushed: a worker formats the checkpoint and wakes the
//!    tasks that wait for it. Bound to the CPU before 5.14, one of four unbound workers since.
//! 3. The first task of the checkpoint submits the log buffer. Its interrupt hands it to the log
//!    worker of the CPU (high priority), which wakes all waiters of this buffer.
//!
//! Checkpoints are numbered, and a checkpoint has a log buffer to itself; there are eight buffers.

use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::WordId;
use schedcast_sim::{ProgramBuilder, Reg};

use super::workers::{ALL, ITEM, Pool, TARGET, VALUE, Workqueue, wait_for_commit};
use super::{Disk, reg};
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;

/// Log buffers (`logbufs`).
const LOG_BUFFERS: u64 = 8;
/// Pushes that run at the same time, where the workqueue is unbound.
const PUSH_WORKERS: u32 = 4;

/// A mounted XFS.
pub(super) struct Xfs {
    disk: Disk,
    log: Disk,
    /// Completed data writes.
    data_done: Workqueue,
    push: Workqueue,
    log_done: Workqueue,
    /// Checkpoint that changes go to now.
    open: WordId,
    /// Highest checkpoint that was asked to be pushed.
    wanted: WordId,
    /// Highest checkpoint that is in a log buffer.
    pushed: WordId,
    /// Last checkpoint submitted, by buffer.
    submitted: u64,
    /// Last checkpoint on disk, by buffer.
    durable: u64,
    submit_ns: u64,
}

impl Xfs {
    pub(super) fn mount(compiler: &mut Compiler) -> Result<Self, CommandError> {
        let prices = compiler.start.prices;
        let bound_push = !compiler.start.kernel.since(5, 14);
        let open = compiler.workload.add_word(1);
        let wanted = compiler.workload.add_word(0);
        let pushed = compiler.workload.add_word(0);
        let submitted = compiler.words(LOG_BUFFERS);
        let durable = compiler.words(LOG_BUFFERS);
        let bound = |name| Pool {
            name,
            unbound: None,
            nice: 0,
        };
        let data_done = Workqueue::add(compiler, &bound("xfs-data"), |b| {
            b.work(prices.xfs_data_done_ns);
            // The item is the queue on which the task waits.
            b.send(ITEM, 1, ITEM, false);
        })?;
        let pool = Pool {
            unbound: (!bound_push).then_some(PUSH_WORKERS),
            ..bound("xfs-cil")
        };
        let push = Workqueue::add(compiler, &pool, |b| {
            b.word_load(open, ITEM);
            b.sum(VALUE, ITEM, 1);
            b.word_store(open, VALUE);
            b.work(prices.xfs_push_ns);
            // Pushes on other CPUs may have overtaken this one.
            b.word_load(pushed, VALUE);
            b.arithmetic(Arithmetic::Max, VALUE, ITEM);
            b.word_store(pushed, VALUE);
            b.word_wake(pushed, ALL);
        })?;
        let pool = Pool {
            nice: -20,
            ..bound("xfs-log")
        };
        let log_done = Workqueue::add(compiler, &pool, |b| {
            b.work(prices.xfs_log_done_ns);
            b.set(TARGET, ITEM);
            b.arithmetic(Arithmetic::Remainder, TARGET, LOG_BUFFERS);
            b.add(TARGET, durable);
            b.word_load(TARGET, VALUE);
            b.arithmetic(Arithmetic::Max, VALUE, ITEM);
            b.word_store(TARGET, VALUE);
            b.word_wake(TARGET, ALL);
        })?;
        Ok(Self {
            disk: Disk::add(compiler, "disk"),
            log: Disk::add(compiler, "log"),
            data_done,
            push,
            log_done,
            open,
            wanted,
            pushed,
            submitted,
            durable,
            submit_ns: prices.xfs_log_submit_ns,
        })
    }

    pub(super) fn fsync(&self, b: &mut ProgramBuilder, grown: Reg) {
        b.set(reg::ADDRESS, reg::REPLY);
        b.unless(grown, Compare::Equal, 0, |b| {
            self.data_done.address(b);
        });
        self.disk.write(b, reg::ADDRESS, reg::REPLY);
        b.recv_io(reg::REPLY, reg::SEEN);
        self.force_push(b);
        self.force_log(b);
    }

    /// `xlog_cil_force_lsn`.
    fn force_push(&self, b: &mut ProgramBuilder) {
        let wanted = b.label();
        b.word_load(self.open, reg::COMMIT);
        b.word_load(self.wanted, reg::SEEN);
        b.jump_if(reg::SEEN, Compare::GreaterOrEqual, reg::COMMIT, wanted);
        b.word_store(self.wanted, reg::COMMIT);
        self.push.queue(b, reg::COMMIT);
        b.bind(wanted);
        wait_for_commit(b, self.pushed);
    }

    /// `xfs_log_force_lsn`.
    fn force_log(&self, b: &mut ProgramBuilder) {
        let submitted = b.label();
        b.set(reg::SLOT, reg::COMMIT);
        b.arithmetic(Arithmetic::Remainder, reg::SLOT, LOG_BUFFERS);
        b.set(reg::ADDRESS, reg::SLOT);
        b.add(reg::ADDRESS, self.submitted);
        b.word_load(reg::ADDRESS, reg::SEEN);
        b.jump_if(reg::SEEN, Compare::GreaterOrEqual, reg::COMMIT, submitted);
        b.word_store(reg::ADDRESS, reg::COMMIT);
        b.work(self.submit_ns);
        self.log_done.address(b);
        self.log.write(b, reg::ADDRESS, reg::COMMIT);
        b.bind(submitted);
        b.add(reg::SLOT, self.durable);
        wait_for_commit(b, reg::SLOT);
    }
}
