//! Transactions of the `oltp_*` tests.

use crate::programs::Prices;
use crate::programs::command::{CommandError, Words};
use crate::programs::postgres::{Script, Settings, Statement, replies_of, scaled};

/// The tests.
pub(super) const NAMES: [&str; 8] = [
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_point_select",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
];

/// Rows of a range in the prices.
const PRICED_RANGE: u64 = 100;
const STATEMENTS_MAX: u64 = 4096;

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Begin,
    PointSelect,
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    Insert,
    Commit,
}

impl Kind {
    fn work_ns(self, prices: &Prices, range: u64) -> u64 {
        let ranged = |whole_ns: u64| {
            let one_ns = prices.sysbench_point_select_ns;
            one_ns + whole_ns.saturating_sub(one_ns).saturating_mul(range) / PRICED_RANGE
        };
        let work_ns = match self {
            Kind::Begin | Kind::Commit => prices.sysbench_begin_ns,
            Kind::PointSelect => prices.sysbench_point_select_ns,
            Kind::SimpleRange => ranged(prices.sysbench_simple_range_ns),
            Kind::SumRange => ranged(prices.sysbench_sum_range_ns),
            Kind::OrderRange => ranged(prices.sysbench_order_range_ns),
            Kind::DistinctRange => ranged(prices.sysbench_distinct_range_ns),
            Kind::UpdateIndex => prices.sysbench_update_index_ns,
            Kind::UpdateNonIndex => prices.sysbench_update_non_index_ns,
            Kind::Delete => prices.sysbench_delete_ns,
            Kind::Insert => prices.sysbench_insert_ns,
        };
        scaled(prices, work_ns)
    }

    /// A row of a reply has a text of 120 characters, and 11 bytes around it.
    fn replies(self, range: u64) -> u64 {
        match self {
            Kind::SimpleRange | Kind::OrderRange | Kind::DistinctRange => replies_of(range * 131),
            _ => 1,
        }
    }

    fn writes(self) -> bool {
        matches!(
            self,
            Kind::UpdateIndex | Kind::UpdateNonIndex | Kind::Delete | Kind::Insert
        )
    }

    fn reads(self) -> bool {
        !self.writes() && !matches!(self, Kind::Begin | Kind::Commit)
    }
}

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Oltp {
    /// The server.
    pub server: Settings,
    statements: Vec<Kind>,
    range: u64,
}

impl Oltp {
    /// Reads the flags of test `name`.
    ///
    /// # Errors
    /// Bad numbers, another driver.
    pub(crate) fn read(words: &Words, name: &str) -> Result<Self, CommandError> {
        if let Some(given) = words.last("db-driver")
            && given.text() != "pgsql"
        {
            let text = given.text();
            return Err(given.error(format!("only `pgsql` is modelled, found `{text}`")));
        }
        let statements = statements(words, name)?;
        if statements.is_empty() {
            return Err(words.error("no statement is left"));
        }
        Ok(Self {
            server: Settings::read(words)?,
            statements,
            range: words.whole("range-size", 1..=100_000, PRICED_RANGE)?,
        })
    }

    /// Script of the server for a transaction.
    pub(super) fn script(&self, prices: &Prices) -> Script {
        let in_transaction = self.statements.first() == Some(&Kind::Begin);
        let writes = self.statements.iter().any(|kind| kind.writes());
        let statement = |kind: &Kind| Statement {
            work_ns: kind.work_ns(prices, self.range),
            replies: kind.replies(self.range),
            updates: None,
            commits: match in_transaction {
                true => *kind == Kind::Commit && writes,
                false => kind.writes(),
            },
        };
        Script {
            statements: self.statements.iter().map(statement).collect(),
        }
    }

    /// Queries of a transaction: that read, that write, others.
    pub(super) fn queries(&self) -> [u64; 3] {
        let of = |test: &dyn Fn(&Kind) -> bool| {
            self.statements.iter().filter(|kind| test(kind)).count() as u64
        };
        let reads = of(&|kind| kind.reads());
        let writes = of(&|kind| kind.writes());
        [reads, writes, self.statements.len() as u64 - reads - writes]
    }
}

/// The statements of one transaction.
fn statements(words: &Words, name: &str) -> Result<Vec<Kind>, CommandError> {
    match name {
        "oltp_point_select" => return Ok(vec![Kind::PointSelect]),
        "oltp_update_index" => return Ok(vec![Kind::UpdateIndex]),
        "oltp_update_non_index" => return Ok(vec![Kind::UpdateNonIndex]),
        "oltp_insert" => return Ok(vec![Kind::Insert]),
        "oltp_delete" => return Ok(vec![Kind::Delete]),
        _ => {}
    }
    let mut list = Vec::new();
    let mut add = |flag: &str, default: u64, kinds: &[Kind]| -> Result<(), CommandError> {
        for _ in 0..words.whole(flag, 0..=STATEMENTS_MAX, default)? {
            list.extend_from_slice(kinds);
        }
        Ok(())
    };
    if name != "oltp_write_only" {
        add("point-selects", 10, &[Kind::PointSelect])?;
        if switch(words, "range-selects", true)? {
            add("simple-ranges", 1, &[Kind::SimpleRange])?;
            add("sum-ranges", 1, &[Kind::SumRange])?;
            add("order-ranges", 1, &[Kind::OrderRange])?;
            add("distinct-ranges", 1, &[Kind::DistinctRange])?;
        }
    }
    if name != "oltp_read_only" {
        add("index-updates", 1, &[Kind::UpdateIndex])?;
        add("non-index-updates", 1, &[Kind::UpdateNonIndex])?;
        add("delete-inserts", 1, &[Kind::Delete, Kind::Insert])?;
    }
    if !switch(words, "skip-trx", false)? {
        list.insert(0, Kind::Begin);
        list.push(Kind::Commit);
    }
    Ok(list)
}

/// `on` or `off`; a flag without a value is on.
fn switch(words: &Words, flag: &str, default: bool) -> Result<bool, CommandError> {
    let Some(given) = words.last(flag) else {
        return Ok(default);
    };
    match given.text() {
        "" | "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(given.unknown("value", &["on", "off"])),
    }
}
