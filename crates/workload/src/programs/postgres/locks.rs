//! Locks of rows that several transactions update, and what waiting for one costs.
//!
//! A transaction that finds a row updated by an open one takes the row's **turn** first
//! (`heap_acquire_tuplock`) and then waits for the **transaction's end**, so one waits for the
//! transaction and all others for the turn; a transaction that comes when the row is free just
//! takes it.
//!
//! A wait is more than a sleep: the lock goes through the lock table of the server, the task that
//! releases it sends the sleeper a signal, and the sleeper looks for the row as it is by then
//! (`EvalPlanQual`). That is `postgres_lock_wait_ns` for each.
//!
//! Worked example: A, B and C update the same row. A finds it free. B takes the turn and sleeps
//! until A has committed, C sleeps until B has the row, then until B has committed. A pays for no
//! wait, B for one, C for two: 0, 11 and 22 µs.

use schedcast_sim::program::Compare;
use schedcast_sim::workload::DistributionId;
use schedcast_sim::{ProgramBuilder, Reg};

use super::{HELD, NO_LOCK, ROW, Row, SEEN, Script, TAKEN, TURN, VALUE, scaled, spread};
use crate::programs::start::Compiler;

/// How many have the turn or wait for it, with the one that looks.
const TURNS: Reg = Reg(14);

/// Rows that several transactions update.
pub(super) struct Locks {
    kinds: Vec<Kind>,
    /// Cost of a wait besides sleeping and waking.
    wait: DistributionId,
}

/// One kind of row.
struct Kind {
    row: Row,
    /// Mutexes of the rows, followed by those of their turns.
    mutexes: u64,
    /// Words: 1 while a row is updated by an open transaction; behind them those that count who
    /// wants the turn.
    taken: u64,
}

impl Locks {
    pub(super) fn add(compiler: &mut Compiler, script: &Script) -> Self {
        let mut kinds: Vec<Kind> = Vec::new();
        for row in script.statements.iter().filter_map(|one| one.updates) {
            let mutexes = u64::from(compiler.workload.mutexes);
            for _ in 0..2 * row.rows {
                compiler.workload.add_mutex();
            }
            let taken = compiler.words(2 * row.rows);
            kinds.push(Kind {
                row,
                mutexes,
                taken,
            });
        }
        let prices = compiler.start.prices;
        let wait = spread(compiler, scaled(&prices, prices.postgres_lock_wait_ns));
        Self { kinds, wait }
    }

    /// `heap_update` of row [`ROW`].
    pub(super) fn take(&self, b: &mut ProgramBuilder, row: Row) {
        let Some(slot) = self.kinds.iter().position(|kind| kind.row == row) else {
            return;
        };
        let kind = &self.kinds[slot];
        let (free, end) = (b.label(), b.label());
        b.sum(TAKEN, ROW, kind.taken);
        b.add(ROW, kind.mutexes);
        b.word_load(TAKEN, SEEN);
        b.jump_if(SEEN, Compare::Equal, 0, free);
        self.wait(b, row);
        b.jump(end);
        b.bind(free);
        b.lock(ROW);
        b.word_store(TAKEN, 1);
        b.bind(end);
        b.set(HELD[slot], ROW);
    }

    /// Waits for the turn at mutex [`ROW`], unless it is free, and for the end of the transaction
    /// that has the row.
    fn wait(&self, b: &mut ProgramBuilder, row: Row) {
        b.sum(VALUE, TAKEN, row.rows);
        b.word_load(VALUE, TURNS);
        b.add(TURNS, 1);
        b.word_store(VALUE, TURNS);
        b.sum(TURN, ROW, row.rows);
        b.lock(TURN);
        b.unless(TURNS, Compare::Equal, 1, |b| {
            b.work(self.wait);
        });
        b.lock(ROW);
        b.word_store(TAKEN, 1);
        b.word_load(VALUE, TURNS);
        b.subtract(TURNS, 1);
        b.word_store(VALUE, TURNS);
        b.unlock(TURN);
        b.work(self.wait);
    }

    /// End of a transaction.
    pub(super) fn release(&self, b: &mut ProgramBuilder) {
        for (kind, held) in self.kinds.iter().zip(HELD) {
            b.unless(held, Compare::Equal, NO_LOCK, |b| {
                b.difference(TAKEN, held, kind.mutexes);
                b.add(TAKEN, kind.taken);
                b.word_store(TAKEN, 0);
                b.unlock(held);
                b.set(held, NO_LOCK);
            });
        }
    }
}
