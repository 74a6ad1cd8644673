//! ext4 with ordered data: `fsync` waits for the data, then for a commit of the journal.
//!
//! One thread, `jbd2`, commits: it waits for the journal's blocks, then for the commit record, and
//! wakes every task whose change the commit holds. Commits are numbered. Worked example: task A
//! asks for commit 7 and wakes jbd2. While 7 is written B and C come; their changes are in 8. Both
//! ask for 8, jbd2 writes it once, and one wakeup of all wakes both.

use schedcast_sim::program::Compare;
use schedcast_sim::workload::{QueueId, WordId};
use schedcast_sim::{ProgramBuilder, Reg};

use super::workers::{ALL, ITEM, TARGET, VALUE, journal_thread, queues, wait_for_commit};
use super::{Disk, reg};
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;

/// A mounted ext4.
pub(super) struct Ext4 {
    disk: Disk,
    /// Wakes the journal thread.
    requests: QueueId,
    /// Commit that changes go to now.
    running: WordId,
    /// Highest commit that was asked for.
    requested: WordId,
    /// Highest commit that is on disk.
    committed: WordId,
}

impl Ext4 {
    pub(super) fn mount(compiler: &mut Compiler) -> Result<Self, CommandError> {
        let disk = Disk::add(compiler, "disk");
        let ext4 = Self {
            disk,
            requests: queues(compiler, 1),
            running: compiler.workload.add_word(1),
            requested: compiler.workload.add_word(0),
            committed: compiler.workload.add_word(0),
        };
        let own = queues(compiler, 1);
        let commit_ns = compiler.start.prices.jbd2_commit_ns;
        let mut b = ProgramBuilder::new("jbd2");
        let top = b.here();
        b.recv(ext4.requests, VALUE);
        ext4.commit(&mut b, own, commit_ns);
        b.jump(top);
        let program = compiler.program(b)?;
        journal_thread(compiler, "jbd2", program);
        Ok(ext4)
    }

    /// `jbd2_journal_commit_transaction`.
    fn commit(&self, b: &mut ProgramBuilder, own: QueueId, commit_ns: u64) {
        const COMMIT: Reg = ITEM;
        b.word_load(self.running, COMMIT);
        b.sum(TARGET, COMMIT, 1);
        b.word_store(self.running, TARGET);
        // Blocks of the journal, then the record that makes them count.
        b.work(commit_ns);
        for _ in 0..2 {
            self.disk.write(b, own, COMMIT);
            b.recv_io(own, VALUE);
        }
        b.word_store(self.committed, COMMIT);
        b.word_wake(self.committed, ALL);
    }

    pub(super) fn fsync(&self, b: &mut ProgramBuilder) {
        self.disk.write(b, reg::REPLY, reg::REPLY);
        b.recv_io(reg::REPLY, reg::SEEN);
        b.word_load(self.running, reg::COMMIT);
        b.word_load(self.requested, reg::SEEN);
        b.unless(reg::SEEN, Compare::GreaterOrEqual, reg::COMMIT, |b| {
            b.word_store(self.requested, reg::COMMIT);
            b.send(self.requests, 1, reg::COMMIT, false);
        });
        wait_for_commit(b, self.committed);
    }
}
