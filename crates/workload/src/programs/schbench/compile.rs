//! Message thread and worker.

use schedcast_kernel::cpuset::CpuSet;
use schedcast_sim::program::{Arithmetic, Compare, Label};
use schedcast_sim::workload::{ForkId, MetricId, ProgramId, WordId};
use schedcast_sim::{ProgramBuilder, Reg};

use super::{MESSAGE, Options, WORKER as WORKER_SUFFIX};
use crate::programs::command::CommandError;
use crate::programs::futex::reg::*;
use crate::programs::futex::{Layout, microseconds_since, stop_to, wait};
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { OWN;
    /// Number of the next worker to get a request, from 0.
    TURN CPU LOCK WORK_BEGIN WORKER_BEGIN
}

/// A worker that waits for a lock looks at it this often. The real one does so every 50 ns; looking
/// less often makes it late by a microsecond at most.
const LOCK_LOOK_NS: u64 = 1000;
/// A worker with more requests than this is passed over.
const PENDING_MAX: u64 = 128;

/// State that all threads share besides [`Layout`].
pub(super) struct Shared {
    pub layout: Layout,
    /// How often results have been forgotten so far.
    pub epoch: WordId,
    /// Requests done by all workers.
    pub loops: WordId,
    /// First of the locks, one for each CPU.
    locks: u64,
    requests: MetricId,
    wakeup_latency: MetricId,
    request_latency: MetricId,
    worker_time: MetricId,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let pipe_ns = self.pipe_bytes * compiler.start.prices.memset_byte_ps / 1000;
        let cpus = compiler.start.cpus as u64;
        let shared = Shared {
            layout: Layout::new(compiler, self.groups, self.workers, pipe_ns),
            epoch: compiler.workload.add_word(0),
            loops: compiler.workload.add_word(0),
            locks: compiler.words(cpus),
            requests: compiler.metric("requests"),
            wakeup_latency: compiler.metric("wakeup_latency"),
            request_latency: compiler.metric("request_latency"),
            worker_time: compiler.metric("worker_time"),
        };
        let worker = self.worker(compiler, &shared)?;
        let worker = compiler.fork(WORKER_SUFFIX, worker, false);
        let group = self.message_thread(compiler, &shared, worker)?;
        let group = compiler.fork(MESSAGE, group, false);
        let main = self.main_thread(compiler, &shared, group)?;
        compiler.main(main, Vec::new());
        Ok(())
    }

    fn message_thread(
        &self,
        compiler: &mut Compiler,
        shared: &Shared,
        worker: ForkId,
    ) -> Result<ProgramId, CommandError> {
        let layout = &shared.layout;
        let mut b = ProgramBuilder::new("schbench-message");
        layout.group_addresses(&mut b);
        layout.fork_workers(&mut b, worker);
        self.pin_message_thread(&mut b, compiler);
        if self.rate > 0 {
            self.hand_out_requests(&mut b, layout);
        } else {
            b.forever(|b, end| {
                b.word_store(GROUP_WORD, 0);
                layout.wake_list(b);
                stop_to(b, layout.stopping, end);
                wait(b, GROUP_WORD);
            });
            layout.wake_list(&mut b);
        }
        layout.post_workers(&mut b);
        b.join_all();
        compiler.program(b)
    }

    /// Message thread n runs on the n-th of the CPUs given, round and round.
    fn pin_message_thread(&self, b: &mut ProgramBuilder, compiler: &mut Compiler) {
        let Some(cpus) = &self.message_cpus else {
            return;
        };
        let pins: Vec<Label> = cpus.iter().map(|_| b.label()).collect();
        let pinned = b.label();
        b.set(VALUE, GROUP);
        b.arithmetic(Arithmetic::Remainder, VALUE, cpus.len() as u64);
        b.jump_indexed(VALUE, &pins);
        for (label, cpu) in pins.iter().zip(cpus) {
            b.bind(*label);
            compiler.bind(b, Some(CpuSet::of(*cpu)));
            b.jump(pinned);
        }
        b.bind(pinned);
    }

    /// All requests of a second at once, then the rest of the second asleep.
    fn hand_out_requests(&self, b: &mut ProgramBuilder, layout: &Layout) {
        let (second, given, end) = (b.here(), b.label(), b.label());
        b.now(BEGIN);
        b.set(LEFT, self.rate);
        let (next, busy, following) = (b.here(), b.label(), b.label());
        stop_to(b, layout.stopping, given);
        b.now(NOW);
        b.set(AT, TURN);
        b.arithmetic(Arithmetic::Remainder, AT, self.workers);
        b.add(AT, FIRST);
        b.add(TURN, 1);
        layout.load_pending(b);
        b.jump_if(VALUE, Compare::Greater, PENDING_MAX, busy);
        layout.add_pending(b);
        b.now(REQUEST);
        layout.give_request(b);
        b.jump(following);
        b.bind(busy);
        b.sleep(100_000);
        b.bind(following);
        b.loop_back(LEFT, next);
        b.bind(given);
        b.forever(|b, rested| {
            stop_to(b, layout.stopping, end);
            microseconds_since(b, BEGIN, DELTA);
            b.jump_if(DELTA, Compare::GreaterOrEqual, 1_000_000, rested);
            b.difference(LENGTH, 1_000_000, DELTA);
            b.arithmetic(Arithmetic::Multiply, LENGTH, 1000);
            b.sleep(LENGTH);
        });
        b.jump(second);
        b.bind(end);
        layout.post_workers(b);
    }

    fn worker(&self, compiler: &mut Compiler, shared: &Shared) -> Result<ProgramId, CommandError> {
        let layout = &shared.layout;
        let work_ns = self.request_ns(compiler.start.prices.matrix_step_ps);
        let mut b = ProgramBuilder::new("schbench-worker");
        layout.worker_addresses(&mut b);
        compiler.bind(&mut b, self.worker_cpus);
        b.now(WORKER_BEGIN);
        let (top, end, taken) = (b.here(), b.label(), b.label());
        stop_to(&mut b, layout.stopping, end);
        let requests = self.rate > 0;
        layout.message_and_wait(&mut b, requests, taken);
        b.word_load(WAKE_TIME, REQUEST);
        self.record_since(&mut b, shared, REQUEST, shared.wakeup_latency);
        if requests {
            // Woken, but nothing in hand yet: look again.
            b.jump(top);
        }
        b.bind(taken);
        let (next, done) = (b.here(), b.label());
        if requests {
            b.jump_if(TAKEN, Compare::GreaterOrEqual, SEEN, done);
            b.try_recv(QUEUE, REQUEST, done);
            b.add(TAKEN, 1);
        }
        self.request(&mut b, shared, work_ns);
        b.word_fetch_add(shared.loops, 1, VALUE);
        b.count(shared.requests, 1);
        self.record_since(&mut b, shared, WORK_BEGIN, shared.request_latency);
        if requests {
            b.jump(next);
        }
        b.bind(done);
        b.jump(top);
        b.bind(end);
        b.record_since(shared.worker_time, WORKER_BEGIN);
        b.exit();
        compiler.program(b)
    }

    fn request(&self, b: &mut ProgramBuilder, shared: &Shared, work_ns: u64) {
        let sleep_ns = self.sleep_us * 1000;
        if self.calibrate && sleep_ns > 0 && self.pipe_bytes == 0 {
            b.sleep(sleep_ns);
        }
        b.now(WORK_BEGIN);
        if self.pipe_bytes > 0 {
            return;
        }
        if !self.calibrate && sleep_ns > 0 {
            b.sleep(sleep_ns);
        }
        if self.locking {
            lock_this_cpu(b, shared.locks);
        }
        b.work(work_ns);
        if self.locking {
            b.word_store(LOCK, 0);
        }
    }

    /// Records a time of at least 1 µs, unless it will be forgotten.
    fn record_since(&self, b: &mut ProgramBuilder, shared: &Shared, since: Reg, metric: MetricId) {
        let skip = b.label();
        let forgotten = self.forgotten();
        if forgotten > 0 {
            b.word_load(shared.epoch, VALUE);
            b.jump_if(VALUE, Compare::Less, forgotten, skip);
        }
        microseconds_since(b, since, DELTA);
        b.jump_if(DELTA, Compare::Equal, 0, skip);
        b.arithmetic(Arithmetic::Multiply, DELTA, 1000);
        b.record(metric, DELTA);
        b.bind(skip);
    }
}

/// Takes the lock of the CPU the worker is on, spinning while it is taken. One that was moved
/// meanwhile gives it back and begins again. [`LOCK`] is the lock then.
fn lock_this_cpu(b: &mut ProgramBuilder, locks: u64) {
    let (again, got, kept) = (b.here(), b.label(), b.label());
    b.get_cpu(CPU);
    b.sum(LOCK, CPU, locks);
    let attempt = b.here();
    b.word_load(LOCK, VALUE);
    b.jump_if(VALUE, Compare::Equal, 0, got);
    b.work(LOCK_LOOK_NS);
    b.jump(attempt);
    b.bind(got);
    b.word_store(LOCK, 1);
    b.get_cpu(VALUE);
    b.jump_if(VALUE, Compare::Equal, CPU, kept);
    b.word_store(LOCK, 0);
    b.jump(again);
    b.bind(kept);
}
