//! The threads of pgbench.

use schedcast_sim::program::{Arithmetic, Compare, Label};
use schedcast_sim::workload::{BarrierId, DistributionId, MetricId, ProgramId, QueueId};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};

use super::Options;
use crate::programs::command::CommandError;
use crate::programs::model::Length;
use crate::programs::postgres::{ROW_UNIT, Script, Server, barrier, queues, spread};
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    /// Registers that a thread is created with: its first client, the number of its clients, and
    /// the queue of their replies.
    FIRST CLIENTS INBOX CLIENT
    /// Clients that have not begun yet, and those that have not ended.
    STARTING ACTIVE END NOW VALUE ADDRESS STEP BEGIN ROW
    /// When the next transaction of a `-R` thread is due.
    TRIGGER
    /// Sleeping clients: how many were put to sleep, and how many of these woke up.
    SLEPT WOKEN CHILD LEFT LAG
}

/// Words in rows of one for each client.
#[derive(Clone, Copy)]
struct Clients {
    /// Next statement of the transaction.
    step: u64,
    /// When the transaction began, or was due.
    begun: u64,
    /// Transactions that are left.
    left: u64,
    /// Sleeping clients of a thread, in the order in which they are due.
    sleepers: u64,
}

struct Metrics {
    latency: MetricId,
    lag: MetricId,
    run: MetricId,
    connect: MetricId,
}

struct Thread<'a> {
    options: &'a Options,
    server: Server,
    script: Script,
    clients: Clients,
    metrics: Metrics,
    connected: BarrierId,
    started: BarrierId,
    work: DistributionId,
    interval: Option<DistributionId>,
    send_ns: u64,
    poll_ns: u64,
    receive_ns: u64,
    b: ProgramBuilder,
    begin: Label,
    send: Label,
    next: Label,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let prices = compiler.start.prices;
        let script = self.script(&prices);
        let inboxes = queues(compiler, self.threads);
        let replies: Vec<QueueId> = (0..self.clients)
            .map(|client| QueueId(inboxes.0 + self.thread_of(client) as u32))
            .collect();
        let server = Server::add(compiler, &self.server, &script, &replies)?;
        let program = self.thread(compiler, server, script)?;
        let thread = compiler.fork("", program, false);
        let mut b = ProgramBuilder::new("pgbench-main");
        // The process is the first thread of the tool; here it only waits for all of them.
        for number in (0..self.threads).rev() {
            let clients = (0..self.clients).filter(|client| self.thread_of(*client) == number);
            b.set(FIRST, clients.clone().next().unwrap_or(0));
            b.set(CLIENTS, clients.count() as u64);
            b.set(INBOX, u64::from(inboxes.0) + number);
            b.fork(thread, CHILD);
        }
        b.join_all();
        compiler.finish(b)
    }

    /// Clients are dealt out in a row, the first threads get what does not divide.
    pub(super) fn thread_of(&self, client: u64) -> u64 {
        let mut first = 0;
        for thread in 0..self.threads {
            let left = self.clients - first;
            first += left.div_ceil(self.threads - thread);
            if client < first {
                return thread;
            }
        }
        self.threads - 1
    }

    fn thread(
        &self,
        compiler: &mut Compiler,
        server: Server,
        script: Script,
    ) -> Result<ProgramId, CommandError> {
        let prices = compiler.start.prices;
        let mut b = ProgramBuilder::new("pgbench");
        let mean_ns = self.rate.map(|rate| super::SECOND_NS * self.threads / rate);
        let mut thread = Thread {
            options: self,
            server,
            script,
            clients: Clients {
                step: compiler.words(self.clients),
                begun: compiler.words(self.clients),
                left: compiler.words(self.clients),
                sleepers: compiler.words(self.clients),
            },
            metrics: Metrics {
                latency: compiler.metric("latency"),
                lag: compiler.metric("lag"),
                run: compiler.metric("run"),
                connect: compiler.metric("connect"),
            },
            connected: barrier(compiler, self.threads),
            started: barrier(compiler, self.threads),
            work: spread(compiler, prices.pgbench_statement_ns),
            interval: mean_ns.map(|mean| {
                compiler
                    .workload
                    .add_distribution(Distribution::Exponential { mean })
            }),
            send_ns: prices.unix_send(0),
            poll_ns: prices.poll_ns,
            receive_ns: prices.unix_receive(0),
            begin: b.label(),
            send: b.label(),
            next: b.label(),
            b,
        };
        thread.connect();
        thread.begin();
        thread.send(compiler);
        thread.next();
        compiler.program(thread.b)
    }
}

impl Thread<'_> {
    /// The word of a client in one of the rows.
    fn address(&mut self, row: u64) {
        self.b.sum(ADDRESS, CLIENT, row);
    }

    fn connect(&mut self) {
        let b = &mut self.b;
        b.barrier(self.started);
        b.now(BEGIN);
        b.set(CLIENT, FIRST);
        b.repeat(LEFT, CLIENTS, |b| {
            self.server.connect(b, CLIENT, INBOX, VALUE);
            if let Length::Transactions(count) = self.options.length {
                b.sum(ADDRESS, CLIENT, self.clients.left);
                b.word_store(ADDRESS, count);
            }
            b.add(CLIENT, 1);
        });
        b.record_since(self.metrics.connect, BEGIN);
        b.barrier(self.connected);
        b.now(BEGIN);
        b.sum(END, BEGIN, self.options.length.duration_ns().unwrap_or(0));
        b.set(TRIGGER, BEGIN);
        b.set(LEFT, BEGIN);
        b.set(ACTIVE, CLIENTS);
        b.set(STARTING, CLIENTS);
        b.set(CLIENT, FIRST);
    }

    /// Client [`CLIENT`] begins a transaction, sleeps until one is due, or ends.
    fn begin(&mut self) {
        let finish = self.b.label();
        let (begin, next) = (self.begin, self.next);
        self.b.bind(begin);
        self.b.now(NOW);
        match self.options.length {
            Length::Time(_) => self.b.jump_if(NOW, Compare::GreaterOrEqual, END, finish),
            Length::Transactions(_) => {
                self.address(self.clients.left);
                self.b.word_load(ADDRESS, VALUE);
                self.b.jump_if(VALUE, Compare::Equal, 0, finish);
                self.b.subtract(VALUE, 1);
                self.b.word_store(ADDRESS, VALUE);
            }
        }
        self.address(self.clients.step);
        self.b.word_store(ADDRESS, 0);
        self.address(self.clients.begun);
        if let Some(interval) = self.interval {
            self.b.add(TRIGGER, interval);
            if let Length::Time(_) = self.options.length {
                self.b
                    .jump_if(TRIGGER, Compare::GreaterOrEqual, END, finish);
            }
            self.b.word_store(ADDRESS, TRIGGER);
            self.sleeper(SLEPT);
            self.b.word_store(ADDRESS, CLIENT);
            self.b.add(SLEPT, 1);
            self.b.jump(next);
        } else {
            self.b.word_store(ADDRESS, NOW);
            let send = self.send;
            self.b.jump(send);
        }
        self.b.bind(finish);
        self.server.close(&mut self.b, CLIENT, VALUE, ADDRESS);
        self.b.subtract(ACTIVE, 1);
        self.b.jump(next);
    }

    /// Word of sleeper number `number` of the thread: a ring of as many as it has clients.
    fn sleeper(&mut self, number: Reg) {
        self.b.set(ADDRESS, number);
        self.b.arithmetic(Arithmetic::Remainder, ADDRESS, CLIENTS);
        self.b.add(ADDRESS, FIRST);
        self.b.add(ADDRESS, self.clients.sleepers);
    }

    /// Sends the next statement of [`CLIENT`].
    fn send(&mut self, compiler: &mut Compiler) {
        let send = self.send;
        self.b.bind(send);
        self.address(self.clients.step);
        self.b.word_load(ADDRESS, VALUE);
        for (place, statement) in self.script.statements.iter().enumerate() {
            let Some(row) = statement.updates else {
                continue;
            };
            let other = self.b.label();
            let rows = compiler
                .workload
                .add_distribution(Distribution::uniform(0, row.rows - 1));
            self.b
                .jump_if(VALUE, Compare::NotEqual, place as u64, other);
            self.b.set(ROW, rows);
            self.b.arithmetic(Arithmetic::Multiply, ROW, ROW_UNIT);
            self.b.sum(VALUE, place as u64, ROW);
            self.b.bind(other);
        }
        self.b.work(self.work);
        self.server
            .send(&mut self.b, self.send_ns, CLIENT, VALUE, ADDRESS);
        let next = self.next;
        self.b.jump(next);
    }

    /// Continuation of the thread when a client has to wait: begin with the next one, or poll.
    fn next(&mut self) {
        let (begin, send, next) = (self.begin, self.send, self.next);
        let (wait, end, got) = (self.b.label(), self.b.label(), self.b.label());
        self.b.bind(next);
        // Here from a client's first transaction: the others follow.
        self.b.jump_if(STARTING, Compare::Equal, 0, wait);
        self.b.subtract(STARTING, 1);
        self.b.jump_if(STARTING, Compare::Equal, 0, wait);
        self.b.difference(CLIENT, CLIENTS, STARTING);
        self.b.add(CLIENT, FIRST);
        self.b.jump(begin);
        self.b.bind(wait);
        self.b.jump_if(ACTIVE, Compare::Equal, 0, end);
        self.b.kernel_work(self.poll_ns);
        if self.interval.is_some() {
            self.wait_for_due(got);
        }
        self.b.recv(INBOX, CLIENT);
        self.b.bind(got);
        self.b.kernel_work(self.receive_ns);
        self.address(self.clients.step);
        self.b.word_fetch_add(ADDRESS, 1, STEP);
        self.b.add(STEP, 1);
        let statements = self.script.statements.len() as u64;
        self.b.jump_if(STEP, Compare::Less, statements, send);
        self.address(self.clients.begun);
        self.b.word_load(ADDRESS, BEGIN);
        self.b.record_since(self.metrics.latency, BEGIN);
        self.b.jump(begin);
        self.b.bind(end);
        self.b.record_since(self.metrics.run, LEFT);
        self.b.exit();
    }

    /// With clients asleep: sends for the first one if it is due, or waits up to then.
    fn wait_for_due(&mut self, got: Label) {
        let (send, next) = (self.send, self.next);
        let (none, due) = (self.b.label(), self.b.label());
        self.b.jump_if(WOKEN, Compare::Equal, SLEPT, none);
        self.sleeper(WOKEN);
        self.b.word_load(ADDRESS, CLIENT);
        self.address(self.clients.begun);
        self.b.word_load(ADDRESS, BEGIN);
        self.b.now(NOW);
        self.b.jump_if(BEGIN, Compare::LessOrEqual, NOW, due);
        self.b.subtract(BEGIN, NOW);
        self.b.recv_timeout(INBOX, CLIENT, BEGIN);
        // No client has a number like that of a wait that timed out.
        self.b
            .jump_if(CLIENT, Compare::Less, super::CLIENTS_MAX, got);
        self.b.jump(next);
        self.b.bind(due);
        self.b.add(WOKEN, 1);
        self.b.difference(LAG, NOW, BEGIN);
        self.b.record(self.metrics.lag, LAG);
        self.b.jump(send);
        self.b.bind(none);
    }
}
