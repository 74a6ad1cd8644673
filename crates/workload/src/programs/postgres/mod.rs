//! A PostgreSQL server: one backend process for each connection.
//!
//! ```text
//! client      send statement ──► backend: work · [row lock] · [flush of the log] ──► reply to the client's socket
//! postmaster  connection request ──► forks the backend
//! WAL writer  every 200 ms: flushes what nobody has flushed
//! ```
//!
//! A backend waits for its client in `epoll_wait`, which passes the sync hint of the socket on
//! since 6.13. A **row lock** is that of an updated row and goes when the commit is on disk
//! (`locks`).
//!
//! A **commit** inserts its record and wants the log on disk up to it (`XLogFlush`). One backend at
//! a time writes, everything that was inserted by then; the others sleep until it is done and look
//! again.
//!
//! Backends share memory, which costs next to nothing: with each client of `pgbench -S` pinned
//! beside its backend, a select took 19.2 µs beside another such pair and 18.9 alone. A backend's
//! first statement has to fetch what each backend keeps **for itself**, descriptions of tables
//! above all (`postgres_first_statement_ns`).
//!
//! Worked example: commits 5, 6 and 7 are inserted while 4 is written. The writer of 4 wakes three
//! backends; the first of them writes 5 to 7 at once and the two others find theirs done.

mod commit;
mod locks;
mod statements;

use schedcast_kernel::GroupId;
use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::{BarrierId, DistributionId, ProgramId, QueueId, QueueSpec, TaskSpec};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};

use super::Prices;
use super::command::{CommandError, Words};
use super::start::Compiler;
use super::storage::FileSystem;
use crate::registers::registers;
use commit::Log;
use locks::Locks;
pub(super) use statements::{Row, Script, Statement, replies_of, scaled};

/// A message is a statement's number and, this many times, the row that it updates.
pub(super) const ROW_UNIT: u64 = 1 << 16;
/// Value of a piece of a reply that is not the last; the last carries the number of the connection.
const MORE: u64 = 1 << 20;
/// The statement that ends a connection.
const GOOD_BYE: u64 = ROW_UNIT - 1;

registers! { 0;
    /// Registers of a backend; the first is set by the postmaster.
    CONNECTION REQUESTS REPLIES VALUE KIND ROW TURN TAKEN
}
/// Locks the transaction holds: number of the mutex, or [`NO_LOCK`].
const HELD: [Reg; 2] = [Reg(8), Reg(9)];
const SEEN: Reg = Reg(10);
const LEFT: Reg = Reg(11);
/// 1 up to its first statement. 12 and 13 are the log's, 14 is the locks'.
const FRESH: Reg = Reg(15);
const NO_LOCK: u64 = u32::MAX as u64;

/// Settings of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Cgroup of its processes; `None` = that of the client.
    pub cgroup: Option<(String, usize)>,
    /// Under its log.
    pub file_system: FileSystem,
    /// Whether a commit waits for the disk.
    pub synchronous_commit: bool,
}

impl Settings {
    /// Reads `--server-cgroup`, `--filesystem` and `--synchronous-commit`, which say what the tools
    /// do not know of the server.
    ///
    /// # Errors
    /// Unknown names.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        let synchronous_commit =
            words.one_of("synchronous-commit", &[("on", true), ("off", false)])?;
        let cgroup = words.last("server-cgroup");
        Ok(Self {
            cgroup: cgroup.map(|given| (given.text().to_owned(), given.word)),
            file_system: FileSystem::read(words.last("filesystem"))?,
            synchronous_commit,
        })
    }
}

/// A server whose processes are in the workload.
pub(super) struct Server {
    /// Connection requests to the postmaster.
    inbox: QueueId,
    /// Requests of connection 0; the others follow.
    requests: QueueId,
    /// Words: queue that the replies of each connection go to.
    reply_queues: u64,
    /// Whether `epoll_wait` passes the sync hint on.
    epoll_sync: bool,
}

impl Server {
    /// Adds a server that serves the statements of `script` to `connections` clients. `replies`
    /// tells the queue of each one's replies.
    ///
    /// # Errors
    /// A cgroup that there is not.
    pub(super) fn add(
        compiler: &mut Compiler,
        settings: &Settings,
        script: &Script,
        replies: &[QueueId],
    ) -> Result<Self, CommandError> {
        let connections = replies.len() as u64;
        let reply_queues = compiler.words(connections);
        for (row, queue) in replies.iter().enumerate() {
            compiler.workload.words[reply_queues as usize + row] = u64::from(queue.0);
        }
        let server = Self {
            inbox: queues(compiler, 1),
            requests: queues(compiler, connections),
            reply_queues,
            epoll_sync: epoll_is_sync(compiler),
        };
        let group = compiler.group(&settings.cgroup)?;
        let log = Log::add(compiler, settings);
        let backend = server.backend(compiler, script, &log)?;
        let backend = compiler.fork("-server", backend, true);
        let writer = log.writer(compiler)?;
        let mut b = ProgramBuilder::new("postmaster");
        b.repeat(LEFT, connections, |b| {
            b.recv(server.inbox, CONNECTION);
            b.fork(backend, VALUE);
        });
        b.join_all();
        log.stop(&mut b);
        let postmaster = compiler.program(b)?;
        for program in [postmaster, writer] {
            server_process(compiler, program, group);
        }
        Ok(server)
    }

    /// Connects a client: it sends a request and waits for the greeting on `replies`.
    pub(super) fn connect(
        &self,
        b: &mut ProgramBuilder,
        connection: Reg,
        replies: Reg,
        value: Reg,
    ) {
        b.send(self.inbox, 1, connection, self.epoll_sync);
        b.recv(replies, value);
    }

    /// Sends the statement in `value` on a connection; `address` is overwritten.
    pub(super) fn send(
        &self,
        b: &mut ProgramBuilder,
        send_ns: u64,
        connection: Reg,
        value: Reg,
        address: Reg,
    ) {
        b.sum(address, connection, u64::from(self.requests.0));
        b.kernel_work(send_ns);
        b.send(address, 1, value, self.epoll_sync);
    }

    /// Waits for a whole reply on `replies`, as a client that waits for nothing else.
    pub(super) fn reply(&self, b: &mut ProgramBuilder, prices: &Prices, replies: Reg, value: Reg) {
        let top = b.here();
        b.kernel_work(prices.poll_ns);
        b.recv(replies, value);
        b.kernel_work(prices.unix_receive(0));
        b.jump_if(value, Compare::Equal, MORE, top);
    }

    /// Ends a connection.
    pub(super) fn close(&self, b: &mut ProgramBuilder, connection: Reg, value: Reg, address: Reg) {
        b.set(value, GOOD_BYE);
        self.send(b, 0, connection, value, address);
    }

    fn backend(
        &self,
        compiler: &mut Compiler,
        script: &Script,
        log: &Log,
    ) -> Result<ProgramId, CommandError> {
        let prices = compiler.start.prices;
        let locks = Locks::add(compiler, script);
        let first = spread(
            compiler,
            scaled(&prices, prices.postgres_first_statement_ns),
        );
        let work: Vec<DistributionId> = script
            .statements
            .iter()
            .map(|statement| spread(compiler, statement.work_ns / statement.replies))
            .collect();
        let mut b = ProgramBuilder::new("postgres");
        b.sum(REQUESTS, CONNECTION, u64::from(self.requests.0));
        b.sum(VALUE, CONNECTION, self.reply_queues);
        b.word_load(VALUE, REPLIES);
        for held in HELD {
            b.set(held, NO_LOCK);
        }
        b.set(FRESH, 1);
        b.work(prices.postgres_connect_ns);
        let (reply, end) = (b.label(), b.label());
        b.bind(reply);
        b.kernel_work(prices.unix_send(0));
        // Clients wait in `poll`, which always passed the hint on.
        b.send(REPLIES, 1, CONNECTION, true);
        b.kernel_work(prices.poll_ns);
        b.recv(REQUESTS, VALUE);
        b.kernel_work(prices.unix_receive(0));
        b.set(KIND, VALUE);
        b.arithmetic(Arithmetic::Remainder, KIND, ROW_UNIT);
        b.set(ROW, VALUE);
        b.arithmetic(Arithmetic::Divide, ROW, ROW_UNIT);
        b.jump_if(KIND, Compare::Equal, GOOD_BYE, end);
        b.unless(FRESH, Compare::Equal, 0, |b| {
            b.set(FRESH, 0);
            b.work(first);
        });
        let labels: Vec<_> = script.statements.iter().map(|_| b.label()).collect();
        b.jump_indexed(KIND, &labels);
        for ((statement, label), work) in script.statements.iter().zip(&labels).zip(work) {
            b.bind(*label);
            for _ in 1..statement.replies {
                b.work(work);
                b.set(VALUE, MORE);
                b.kernel_work(prices.unix_send(0));
                b.send(REPLIES, 1, VALUE, true);
            }
            b.work(work);
            if let Some(row) = statement.updates {
                locks.take(&mut b, row);
            }
            if statement.commits {
                log.commit(&mut b);
                locks.release(&mut b);
            }
            b.jump(reply);
        }
        b.bind(end);
        b.exit();
        compiler.program(b)
    }
}

/// A price that varies by a tenth to both sides.
pub(super) fn spread(compiler: &mut Compiler, price_ns: u64) -> DistributionId {
    compiler
        .workload
        .add_distribution(Distribution::uniform(price_ns * 9 / 10, price_ns * 11 / 10))
}

/// Queues in a row; the first is returned.
pub(super) fn queues(compiler: &mut Compiler, count: u64) -> QueueId {
    let first = compiler.workload.queues.len() as u32;
    for _ in 0..count {
        compiler.workload.add_queue(QueueSpec::UNBOUNDED);
    }
    QueueId(first)
}

/// Whether a waiter in `epoll_wait` is woken with the sync hint of the socket (`ep_poll_callback`).
pub(super) fn epoll_is_sync(compiler: &Compiler) -> bool {
    compiler.start.kernel.since(6, 13)
}

/// A barrier for so many tasks.
pub(super) fn barrier(compiler: &mut Compiler, tasks: u64) -> BarrierId {
    let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
    compiler.workload.add_barrier(tasks)
}

/// A process of the server that is there from the start.
pub(super) fn server_process(compiler: &mut Compiler, program: ProgramId, group: GroupId) {
    let start = compiler.start;
    let mut task = TaskSpec::new(format!("{}-server", start.name), program);
    task.group = group;
    task.start_ns = start.start_ns;
    task.address_space = Some(compiler.free_address_space());
    compiler.workload.add_task(task);
}
