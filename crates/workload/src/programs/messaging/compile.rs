//! The three programs: main, receiver, sender.

use schedcast_kernel::task::Policy;
use schedcast_sim::ProgramBuilder;
use schedcast_sim::program::Compare;
use schedcast_sim::workload::{AttributesSpec, ForkId, ProgramId, QueueId, QueueSpec, WordId};

use super::Options;
use crate::programs::Prices;
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    /// Register of main and of its children: the queue of a receiver, the first of a sender's
    /// group.
    QUEUE LEFT GROUPS_LEFT CHILD VALUE BEGIN LOOPS_LEFT TARGET
}

/// Queue, word and semaphore that main and its children share.
struct Shared {
    /// Children say that they are ready.
    ready: QueueId,
    /// 1 from "go" on.
    go: WordId,
    /// Exits that main has not seen yet.
    exited: schedcast_sim::workload::SemaphoreId,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let shared = Shared {
            ready: compiler.workload.add_queue(QueueSpec::UNBOUNDED),
            go: compiler.workload.add_word(0),
            exited: compiler.workload.add_semaphore(0),
        };
        let first = compiler.workload.queues.len() as u64;
        for _ in 0..self.groups * self.fds {
            let queue = self.channel.queue(compiler.start, self.bytes);
            compiler.workload.add_queue(queue);
        }
        let receiver = self.receiver(compiler, &shared)?;
        let sender = self.sender(compiler, &shared)?;
        let receiver = compiler.fork("", receiver, !self.threads);
        let sender = compiler.fork("", sender, !self.threads);
        let main = self.main(compiler, &shared, receiver, sender)?;
        compiler.main(main, vec![(QUEUE, first)]);
        Ok(())
    }

    fn main(
        &self,
        compiler: &mut Compiler,
        shared: &Shared,
        receiver: ForkId,
        sender: ForkId,
    ) -> Result<ProgramId, CommandError> {
        let time = compiler.metric("time");
        let prices = compiler.start.prices;
        let mut b = ProgramBuilder::new("messaging-main");
        if self.perf {
            b.work(prices.perf_start_ns);
        }
        b.set(GROUPS_LEFT, self.groups);
        let group = b.here();
        b.repeat(LEFT, self.fds, |b| {
            b.fork(receiver, CHILD);
            self.of_perf(b, prices.perf_fork_ns);
            b.add(QUEUE, 1);
        });
        b.subtract(QUEUE, self.fds);
        b.repeat(LEFT, self.fds, |b| {
            b.fork(sender, CHILD);
            self.of_perf(b, prices.perf_fork_ns);
        });
        b.add(QUEUE, self.fds);
        b.loop_back(GROUPS_LEFT, group);
        if self.main_fifo {
            let fifo = compiler.workload.add_attributes(AttributesSpec {
                policy: Some((Policy::Fifo, 1)),
                timer_slack_ns: Some(0),
                ..AttributesSpec::default()
            });
            b.set_attributes(fifo);
        }
        b.repeat(LEFT, self.tasks(), |b| {
            b.recv(shared.ready, VALUE);
            b.kernel_work(prices.pipe_read(1));
        });
        b.now(BEGIN);
        b.kernel_work(prices.pipe_write(1));
        b.word_store(shared.go, 1);
        b.word_wake(shared.go, schedcast_sim::Amount::FOREVER);
        if !self.threads {
            // `wait` comes back for every child, so main is woken by each that ends while it waits.
            b.repeat(LEFT, self.tasks(), |b| {
                b.sem_wait(shared.exited);
            });
        }
        b.join_all();
        b.record_since(time, BEGIN);
        compiler.program(b)
    }

    /// "I am ready", then wait for "go".
    fn ready(&self, b: &mut ProgramBuilder, compiler: &Compiler, shared: &Shared) {
        let prices = compiler.start.prices;
        b.kernel_work(prices.pipe_write(1));
        b.send(shared.ready, 1, VALUE, true);
        b.forever(|b, go| {
            b.word_load(shared.go, VALUE);
            b.jump_if(VALUE, Compare::NotEqual, 0, go);
            b.kernel_work(prices.poll_ns);
            b.word_wait(shared.go, 0);
        });
    }

    /// Adds extra work of perf's processes, which have many libraries.
    fn of_perf(&self, b: &mut ProgramBuilder, work_ns: u64) {
        if self.perf && !self.threads {
            b.work(work_ns);
        }
    }

    fn end(&self, b: &mut ProgramBuilder, prices: &Prices, shared: &Shared) {
        self.of_perf(b, prices.perf_exit_ns);
        if !self.threads {
            b.sem_post(shared.exited);
        }
        b.exit();
    }

    fn receiver(
        &self,
        compiler: &mut Compiler,
        shared: &Shared,
    ) -> Result<ProgramId, CommandError> {
        let prices = &compiler.start.prices;
        let work_ns = self.channel.receive_ns(prices, self.bytes) + prices.descriptor(self.threads);
        let mut b = ProgramBuilder::new("messaging-receiver");
        self.ready(&mut b, compiler, shared);
        b.repeat(LEFT, self.fds * self.loops, |b| {
            b.recv(QUEUE, VALUE);
            b.kernel_work(work_ns);
        });
        self.end(&mut b, &compiler.start.prices, shared);
        compiler.program(b)
    }

    fn sender(&self, compiler: &mut Compiler, shared: &Shared) -> Result<ProgramId, CommandError> {
        let prices = &compiler.start.prices;
        let work_ns = self.channel.send_ns(prices, self.bytes) + prices.descriptor(self.threads);
        let mut b = ProgramBuilder::new("messaging-sender");
        self.ready(&mut b, compiler, shared);
        b.set(LOOPS_LEFT, self.loops);
        let again = b.here();
        b.set(TARGET, QUEUE);
        b.repeat(LEFT, self.fds, |b| {
            b.kernel_work(work_ns);
            b.send(TARGET, self.bytes, VALUE, true);
            b.add(TARGET, 1);
        });
        b.loop_back(LOOPS_LEFT, again);
        self.end(&mut b, &compiler.start.prices, shared);
        compiler.program(b)
    }
}
