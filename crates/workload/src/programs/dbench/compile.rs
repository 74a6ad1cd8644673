//! Main and the clients.

use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::{DistributionId, MetricId};
use schedcast_sim::{Distribution, ProgramBuilder};

use super::Options;
use super::load::PIECES;
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;
use crate::programs::storage::{Storage, reply_queues};
use crate::registers::registers;

registers! { 0;
    CLIENT CHILD WARM END NOW PIECE ADDRESS OPERATIONS BYTES WORK SINCE LEFT GROWN
}

/// Share of the pattern by which each client begins later, so that not all flush together; clients
/// of the tool drift apart while they create their files.
const STAGGER: u64 = 7;

struct Metrics {
    bytes: MetricId,
    operations: MetricId,
    flush: MetricId,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let storage = Storage::mount(compiler, self.file_system)?;
        let client = self.client(compiler, &storage)?;
        let client = compiler.fork("", client, true);
        let mut b = ProgramBuilder::new("dbench");
        b.now(WARM);
        b.add(WARM, self.warmup_ns);
        b.sum(END, WARM, self.time_ns);
        b.repeat(LEFT, self.clients, |b| {
            b.fork(client, CHILD);
            b.add(CLIENT, 1);
        });
        b.join_all();
        compiler.finish(b)
    }

    fn client(
        &self,
        compiler: &mut Compiler,
        storage: &Storage,
    ) -> Result<schedcast_sim::workload::ProgramId, CommandError> {
        let metrics = Metrics {
            bytes: compiler.metric("bytes"),
            operations: compiler.metric("operations"),
            flush: compiler.metric("flush_latency"),
        };
        let queues = reply_queues(compiler, self.clients);
        let operation_ns = compiler.start.prices.dbench_operation_ns;
        let price = compiler.workload.add_distribution(Distribution::uniform(
            operation_ns * 9 / 10,
            operation_ns * 11 / 10,
        ));
        let count = PIECES.len() as u64;
        let operations = compiler.words(count);
        let bytes = compiler.words(count);
        let grown = compiler.words(count);
        for (row, piece) in PIECES.iter().enumerate() {
            compiler.workload.words[operations as usize + row] = piece.operations;
            compiler.workload.words[bytes as usize + row] = piece.bytes;
            compiler.workload.words[grown as usize + row] = u64::from(piece.grown);
        }
        let mut b = ProgramBuilder::new("dbench-client");
        storage.begin(&mut b, queues, CLIENT);
        b.set(PIECE, CLIENT);
        b.arithmetic(Arithmetic::Multiply, PIECE, STAGGER);
        b.arithmetic(Arithmetic::Remainder, PIECE, count);
        b.forever(|b, end| {
            for (column, into) in [(operations, OPERATIONS), (bytes, BYTES), (grown, GROWN)] {
                b.sum(ADDRESS, PIECE, column);
                b.word_load(ADDRESS, into);
            }
            self.piece(b, storage, &metrics, price);
            b.jump_if(NOW, Compare::GreaterOrEqual, END, end);
            b.add(PIECE, 1);
            b.arithmetic(Arithmetic::Remainder, PIECE, count);
        });
        b.exit();
        compiler.program(b)
    }

    /// Computes and flushes one piece; what ends outside the measured part is not counted.
    fn piece(
        &self,
        b: &mut ProgramBuilder,
        storage: &Storage,
        metrics: &Metrics,
        price: DistributionId,
    ) {
        b.set(WORK, price);
        b.arithmetic(Arithmetic::Multiply, WORK, OPERATIONS);
        b.work(WORK);
        b.now(SINCE);
        storage.fsync(b, GROWN);
        b.record_since(metrics.flush, SINCE);
        b.now(NOW);
        let uncounted = b.label();
        b.jump_if(NOW, Compare::Less, WARM, uncounted);
        b.jump_if(NOW, Compare::GreaterOrEqual, END, uncounted);
        b.count(metrics.bytes, BYTES);
        b.count(metrics.operations, OPERATIONS);
        b.bind(uncounted);
    }
}
