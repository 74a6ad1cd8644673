//! The write-ahead log: who writes it, and who waits for whom.

use schedcast_sim::program::Compare;
use schedcast_sim::workload::{DistributionId, ProgramId, QueueId, WordId};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};

use super::{SEEN, Settings, VALUE, queues, spread};
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;
use crate::programs::storage::FileSystem;

/// Log position that the committing process waits to have on disk.
const WANTED: Reg = Reg(12);
const TARGET: Reg = Reg(13);

/// `wal_writer_delay`.
const WRITER_PERIOD_NS: u64 = 200_000_000;

/// The log of a server.
pub(super) struct Log {
    /// Records that were inserted, and those that are on disk.
    inserted: WordId,
    flushed: WordId,
    /// 1 while a process writes (`WALWriteLock`), and how many sleep until that ends.
    writing: WordId,
    waiting: WordId,
    /// Tells the WAL writer to end.
    stop: QueueId,
    write: DistributionId,
    /// Device times of one flush, each a sleep; empty where nothing is durable.
    sleeps: Vec<DistributionId>,
    synchronous: bool,
}

impl Log {
    pub(super) fn add(compiler: &mut Compiler, settings: &Settings) -> Self {
        let prices = compiler.start.prices;
        let sleeps = match settings.file_system {
            FileSystem::Tmpfs => 0,
            FileSystem::Ext4 | FileSystem::Xfs => 2,
        };
        let device = Distribution::uniform(
            prices.storage_write_ns * 4 / 5,
            prices.storage_write_ns * 6 / 5,
        );
        let device = compiler.workload.add_distribution(device);
        Self {
            inserted: compiler.workload.add_word(0),
            flushed: compiler.workload.add_word(0),
            writing: compiler.workload.add_word(0),
            waiting: compiler.workload.add_word(0),
            stop: queues(compiler, 1),
            write: spread(compiler, prices.postgres_wal_write_ns),
            sleeps: vec![device; sleeps],
            synchronous: settings.synchronous_commit,
        }
    }

    /// `RecordTransactionCommit`.
    pub(super) fn commit(&self, b: &mut ProgramBuilder) {
        b.word_fetch_add(self.inserted, 1, WANTED);
        if self.synchronous {
            b.add(WANTED, 1);
            self.flush(b);
        }
    }

    /// `XLogFlush` up to [`WANTED`].
    fn flush(&self, b: &mut ProgramBuilder) {
        let (top, write, done) = (b.here(), b.label(), b.label());
        b.word_load(self.flushed, SEEN);
        b.jump_if(SEEN, Compare::GreaterOrEqual, WANTED, done);
        b.word_load(self.writing, SEEN);
        b.jump_if(SEEN, Compare::Equal, 0, write);
        b.word_fetch_add(self.waiting, 1, SEEN);
        b.word_wait(self.writing, 1);
        b.jump(top);
        b.bind(write);
        b.word_store(self.writing, 1);
        b.word_load(self.inserted, TARGET);
        b.work(self.write);
        for sleep in &self.sleeps {
            b.io(*sleep);
        }
        b.word_store(self.flushed, TARGET);
        b.word_store(self.writing, 0);
        // The releasing task calls the kernel only when another one sleeps.
        b.word_load(self.waiting, SEEN);
        b.jump_if(SEEN, Compare::Equal, 0, done);
        b.word_store(self.waiting, 0);
        b.word_wake(self.writing, u64::from(u32::MAX));
        b.bind(done);
    }

    /// The WAL writer process.
    pub(super) fn writer(&self, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("walwriter");
        b.forever(|b, end| {
            b.recv_timeout(self.stop, VALUE, WRITER_PERIOD_NS);
            b.jump_if(VALUE, Compare::Equal, 1, end);
            b.word_load(self.inserted, WANTED);
            self.flush(b);
        });
        b.exit();
        compiler.program(b)
    }

    /// Ends the WAL writer.
    pub(super) fn stop(&self, b: &mut ProgramBuilder) {
        b.set(VALUE, 1);
        b.send(self.stop, 1, VALUE, false);
    }
}
