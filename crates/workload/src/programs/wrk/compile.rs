//! The threads of wrk and the workers of nginx.

use schedcast_kernel::GroupId;
use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::{ProgramId, QueueId};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};

use super::Options;
use crate::programs::command::CommandError;
use crate::programs::postgres::{epoll_is_sync, queues, server_process, spread};
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    /// A thread's number.
    THREAD INBOX END NOW CONNECTION ADDRESS VALUE
    /// Connections whose next request is to be written, and how many of them are.
    READY WRITTEN
    /// Requests since the last sample, and when the next one is due.
    SAMPLED SAMPLE BEGIN CHILD LEFT
}

/// Sizes of wrk's request and of nginx's answer with a file of 612 bytes.
const REQUEST_BYTES: u64 = 41;
const REPLY_BYTES: u64 = 850;
/// `RECORD_INTERVAL_MS`.
const SAMPLE_NS: u64 = 100_000_000;
/// A thread that has ended, instead of a connection.
const GOOD_BYE: u64 = u32::MAX as u64;

/// Objects that the programs share.
#[derive(Clone, Copy)]
struct Layout {
    /// Replies to thread 0; the other threads' queues follow.
    inboxes: QueueId,
    /// Requests to worker 0; the others follow.
    workers: QueueId,
    /// Words: when each connection's request was written.
    begun: u64,
    /// Words: connections whose next request is to be written.
    ready: u64,
    /// Words: queue of the worker that serves each connection.
    served_by: u64,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let all = self.threads * self.connections_each;
        let layout = Layout {
            inboxes: queues(compiler, self.threads),
            workers: queues(compiler, self.workers),
            begun: compiler.words(all),
            ready: compiler.words(all),
            served_by: compiler.words(all),
        };
        let group = compiler.group(&self.server_cgroup)?;
        self.master(compiler, layout, group)?;
        let thread = self.thread(compiler, layout)?;
        let thread = compiler.fork("", thread, false);
        let mut b = ProgramBuilder::new("wrk-main");
        b.set(INBOX, u64::from(layout.inboxes.0));
        b.repeat(LEFT, self.threads, |b| {
            b.fork(thread, CHILD);
            b.add(THREAD, 1);
            b.add(INBOX, 1);
        });
        b.join_all();
        compiler.finish(b)
    }

    /// nginx's master process, which only starts the workers.
    fn master(
        &self,
        compiler: &mut Compiler,
        layout: Layout,
        group: GroupId,
    ) -> Result<(), CommandError> {
        let worker = self.worker(compiler, layout)?;
        let worker = compiler.fork("-server", worker, true);
        let mut b = ProgramBuilder::new("nginx-master");
        b.set(INBOX, u64::from(layout.workers.0));
        b.repeat(LEFT, self.workers, |b| {
            b.fork(worker, CHILD);
            b.add(INBOX, 1);
        });
        b.join_all();
        let master = compiler.program(b)?;
        server_process(compiler, master, group);
        Ok(())
    }

    fn worker(&self, compiler: &mut Compiler, layout: Layout) -> Result<ProgramId, CommandError> {
        let prices = compiler.start.prices;
        let sync = epoll_is_sync(compiler);
        let work = spread(compiler, prices.nginx_request_ns);
        let mut b = ProgramBuilder::new("nginx");
        b.set(LEFT, self.threads);
        let (top, good_bye, end) = (b.here(), b.label(), b.label());
        b.recv(INBOX, CONNECTION);
        b.jump_if(CONNECTION, Compare::Equal, GOOD_BYE, good_bye);
        b.kernel_work(prices.tcp_receive(REQUEST_BYTES));
        b.work(work);
        b.set(ADDRESS, CONNECTION);
        b.arithmetic(Arithmetic::Divide, ADDRESS, self.connections_each);
        b.add(ADDRESS, u64::from(layout.inboxes.0));
        b.kernel_work(prices.tcp_send(REPLY_BYTES));
        b.send(ADDRESS, REPLY_BYTES, CONNECTION, sync);
        b.jump(top);
        b.bind(good_bye);
        b.loop_back(LEFT, top);
        b.bind(end);
        b.exit();
        compiler.program(b)
    }

    fn thread(&self, compiler: &mut Compiler, layout: Layout) -> Result<ProgramId, CommandError> {
        let latency = compiler.metric("latency");
        let samples = compiler.metric("samples");
        let prices = compiler.start.prices;
        let work = spread(compiler, prices.wrk_request_ns);
        let listener = compiler
            .workload
            .add_distribution(Distribution::uniform(0, self.workers - 1));
        let mut b = ProgramBuilder::new("wrk");
        b.now(END);
        b.sum(SAMPLE, END, SAMPLE_NS);
        b.add(END, self.duration_ns);
        // Every connection begins with a request.
        b.set(READY, self.connections_each);
        b.set(LEFT, self.connections_each);
        let top = b.here();
        b.subtract(LEFT, 1);
        b.set(CONNECTION, THREAD);
        b.arithmetic(Arithmetic::Multiply, CONNECTION, self.connections_each);
        b.add(CONNECTION, LEFT);
        b.sum(ADDRESS, CONNECTION, layout.ready);
        b.word_store(ADDRESS, CONNECTION);
        b.sum(ADDRESS, CONNECTION, layout.served_by);
        b.sum(VALUE, listener, u64::from(layout.workers.0));
        b.word_store(ADDRESS, VALUE);
        b.jump_if(LEFT, Compare::Greater, 0, top);
        let (rounds, end) = (b.here(), b.label());
        self.write(compiler, &mut b, layout);
        b.now(NOW);
        b.jump_if(NOW, Compare::GreaterOrEqual, END, end);
        b.unless(NOW, Compare::Less, SAMPLE, |b| {
            b.record(samples, SAMPLED);
            b.set(SAMPLED, 0);
            b.add(SAMPLE, SAMPLE_NS);
        });
        // The timer of the next sample ends the wait.
        b.difference(VALUE, SAMPLE, NOW);
        b.recv_timeout(INBOX, CONNECTION, VALUE);
        b.jump_if(CONNECTION, Compare::GreaterOrEqual, GOOD_BYE, rounds);
        let more = b.here();
        b.kernel_work(prices.tcp_receive(REPLY_BYTES));
        // The clock is looked at when the reply has been read and parsed.
        b.work(work);
        b.sum(ADDRESS, CONNECTION, layout.begun);
        b.word_load(ADDRESS, BEGIN);
        b.record_since(latency, BEGIN);
        b.add(SAMPLED, 1);
        self.ready(&mut b, layout, READY);
        b.word_store(ADDRESS, CONNECTION);
        b.add(READY, 1);
        b.try_recv(INBOX, CONNECTION, rounds);
        b.jump(more);
        b.bind(end);
        for worker in 0..self.workers {
            b.set(VALUE, GOOD_BYE);
            b.send(QueueId(layout.workers.0 + worker as u32), 1, VALUE, false);
        }
        b.exit();
        compiler.program(b)
    }

    /// Address of entry `number` of the thread's list of ready connections.
    fn ready(&self, b: &mut ProgramBuilder, layout: Layout, number: Reg) {
        b.set(ADDRESS, THREAD);
        b.arithmetic(Arithmetic::Multiply, ADDRESS, self.connections_each);
        b.add(ADDRESS, number);
        b.add(ADDRESS, layout.ready);
    }

    /// Writes the next request of each connection in the list.
    fn write(&self, compiler: &mut Compiler, b: &mut ProgramBuilder, layout: Layout) {
        let prices = compiler.start.prices;
        b.set(WRITTEN, 0);
        b.forever(|b, done| {
            b.jump_if(WRITTEN, Compare::GreaterOrEqual, READY, done);
            self.ready(b, layout, WRITTEN);
            b.word_load(ADDRESS, CONNECTION);
            b.sum(ADDRESS, CONNECTION, layout.begun);
            b.now(NOW);
            b.word_store(ADDRESS, NOW);
            b.sum(ADDRESS, CONNECTION, layout.served_by);
            b.word_load(ADDRESS, VALUE);
            b.kernel_work(prices.tcp_send(REQUEST_BYTES));
            b.send(VALUE, REQUEST_BYTES, CONNECTION, epoll_is_sync(compiler));
            b.add(WRITTEN, 1);
        });
        b.set(READY, 0);
    }
}
