//! The three programs: main, message thread, worker.

use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::{ForkId, MetricId, ProgramId};
use schedcast_sim::{Distribution, ProgramBuilder, Reg};

use super::Options;
use crate::programs::command::CommandError;
use crate::programs::futex::reg::*;
use crate::programs::futex::{Layout, microseconds_since, stop_to, wait};
use crate::programs::start::Compiler;

/// When the worker began.
const WORKER_BEGIN: Reg = Reg(OWN);
/// Number of the next worker to get a request, from 0.
const TURN: Reg = Reg(OWN + 1);

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let pipe_ns = self.pipe_bytes * compiler.start.prices.memset_byte_ps / 1000;
        let layout = Layout::new(compiler, self.groups, self.workers, pipe_ns);
        let worker = self.worker(compiler, &layout)?;
        let worker = compiler.fork("", worker, false);
        let group = self.message_thread(compiler, &layout, worker)?;
        let group = compiler.fork("", group, false);
        let mut b = ProgramBuilder::new("schbench-main");
        layout.fork_groups(&mut b, group);
        b.sleep(self.runtime_ns());
        layout.stop(&mut b);
        compiler.finish(b)
    }

    fn message_thread(
        &self,
        compiler: &mut Compiler,
        layout: &Layout,
        worker: ForkId,
    ) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("schbench-message");
        layout.group_addresses(&mut b);
        layout.fork_workers(&mut b, worker);
        if self.rate > 0 {
            self.hand_out_requests(&mut b, layout);
        } else {
            self.answer_messages(&mut b, compiler, layout);
        }
        layout.post_workers(&mut b);
        b.join_all();
        compiler.program(b)
    }

    fn hand_out_requests(&self, b: &mut ProgramBuilder, layout: &Layout) {
        let (top, end) = (b.here(), b.label());
        b.sleep(self.batch_sleep_us() * 1000);
        b.now(NOW);
        b.repeat(LEFT, self.batch(), |b| {
            b.set(AT, TURN);
            b.arithmetic(Arithmetic::Remainder, AT, self.workers);
            b.add(AT, FIRST);
            b.add(TURN, 1);
            b.now(REQUEST);
            layout.give_request(b);
        });
        stop_to(b, layout.stopping, end);
        b.jump(top);
        b.bind(end);
        layout.post_workers(b);
    }

    fn answer_messages(&self, b: &mut ProgramBuilder, compiler: &mut Compiler, layout: &Layout) {
        b.forever(|b, end| {
            b.word_store(GROUP_WORD, 0);
            layout.wake_list(b);
            stop_to(b, layout.stopping, end);
            wait(b, GROUP_WORD);
            if self.pipe_bytes == 0 && self.sleep_us > 0 {
                let jitter_us = compiler
                    .workload
                    .add_distribution(Distribution::uniform(0, self.sleep_us / 4 - 1));
                b.sum(LENGTH, jitter_us, self.sleep_us);
                b.arithmetic(Arithmetic::Multiply, LENGTH, 1000);
                b.sleep(LENGTH);
            }
        });
        layout.wake_list(b);
    }

    fn worker(&self, compiler: &mut Compiler, layout: &Layout) -> Result<ProgramId, CommandError> {
        let latency = compiler.metric(self.latency());
        let requests = compiler.metric("requests");
        let time = compiler.metric("worker_time");
        let clock_ns = compiler.start.prices.clock_read_ns;
        let mut b = ProgramBuilder::new("schbench-worker");
        layout.worker_addresses(&mut b);
        b.now(WORKER_BEGIN);
        let (top, end) = (b.here(), b.label());
        stop_to(&mut b, layout.stopping, end);
        if self.rate > 0 {
            b.forever(|b, none| {
                b.jump_if(TAKEN, Compare::GreaterOrEqual, SEEN, none);
                b.try_recv(QUEUE, REQUEST, none);
                b.add(TAKEN, 1);
                self.spin(b, clock_ns);
                self.record_request(b, latency);
                b.count(requests, 1);
            });
            layout.message_and_wait(&mut b, true, top);
        } else {
            self.spin(&mut b, clock_ns);
            b.count(requests, 1);
            layout.message_and_wait(&mut b, false, top);
            b.word_load(WAKE_TIME, REQUEST);
            microseconds_since(&mut b, REQUEST, DELTA);
            b.jump_if(DELTA, Compare::Equal, 0, top);
            b.arithmetic(Arithmetic::Multiply, DELTA, 1000);
            b.record(latency, DELTA);
        }
        b.jump(top);
        b.bind(end);
        b.record_since(time, WORKER_BEGIN);
        b.exit();
        compiler.program(b)
    }

    /// Spins until more than c whole microseconds lie between two looks at the clock: c + 1 µs
    /// less what had passed of the first one.
    fn spin(&self, b: &mut ProgramBuilder, clock_ns: u64) {
        if self.cpu_us == 0 {
            return;
        }
        b.now(BEGIN);
        b.arithmetic(Arithmetic::Remainder, BEGIN, 1000);
        b.difference(LENGTH, (self.cpu_us + 1) * 1000, BEGIN);
        b.spin(LENGTH, clock_ns as u32);
    }

    /// The time of the request less the spin, but at least 1 µs.
    fn record_request(&self, b: &mut ProgramBuilder, latency: MetricId) {
        microseconds_since(b, REQUEST, DELTA);
        b.subtract(DELTA, self.cpu_us);
        b.arithmetic(Arithmetic::Max, DELTA, 1);
        b.arithmetic(Arithmetic::Multiply, DELTA, 1000);
        b.record(latency, DELTA);
    }
}
