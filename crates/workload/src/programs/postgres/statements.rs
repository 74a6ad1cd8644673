//! Actions and costs of statements.

use crate::programs::Prices;

/// `PQ_SEND_BUFFER_SIZE`: a reply goes out whenever it is full.
const SEND_BUFFER: u64 = 8192;

/// A kind of row that transactions contend for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Table.
    pub table: &'static str,
    /// How many of them.
    pub rows: u64,
}

/// One statement as the server executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Computing, without what sockets, sleeping and switching cost.
    pub work_ns: u64,
    /// Messages of its reply: what is longer than the server's buffer goes in pieces.
    pub replies: u64,
    /// Contended row that it updates, up to the end of the transaction.
    pub updates: Option<Row>,
    /// Ends a transaction that has written.
    pub commits: bool,
}

/// The statements of one transaction, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// Each is sent alone, and its reply awaited.
    pub statements: Vec<Statement>,
}

impl Script {
    /// A transaction of so many statements that computes `work_ns` in all on a machine of the
    /// table's speed, in equal parts.
    pub(crate) fn even(prices: &Prices, work_ns: u64, count: usize) -> Self {
        let work_ns = scaled(prices, work_ns) / count.max(1) as u64;
        let statement = Statement {
            work_ns,
            replies: 1,
            updates: None,
            commits: false,
        };
        Self {
            statements: vec![statement; count],
        }
    }

    /// Lets statement `place` update one of these rows.
    pub(crate) fn updating(mut self, place: usize, row: Row) -> Self {
        self.statements[place].updates = Some(row);
        self
    }

    /// Lets the last statement commit what the transaction has written. A statement without a
    /// transaction around it does so too.
    pub(crate) fn committing(mut self) -> Self {
        if let Some(last) = self.statements.last_mut() {
            last.commits = true;
        }
        self
    }
}

/// Messages that a reply of so many bytes goes out in.
pub(crate) fn replies_of(bytes: u64) -> u64 {
    bytes / SEND_BUFFER + 1
}

/// A table's time on this machine.
pub(crate) fn scaled(prices: &Prices, time_ns: u64) -> u64 {
    time_ns.saturating_mul(prices.postgres_permille) / 1000
}
