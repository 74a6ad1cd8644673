//! The two programs: parent and worker.

use schedcast_sim::program::{Arithmetic, Compare, Label};
use schedcast_sim::workload::{AttributesSpec, MetricId, ProgramId};
use schedcast_sim::{Distribution, ProgramBuilder};

use super::methods::{METHODS, Method};
use super::{Options, Slice};
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    LEFT CHILD BEGIN
    /// Operations done, in millionths.
    DONE
    /// When the worker has to end.
    END NOW
    /// Next method of `all`.
    METHOD
    /// CPU time at the begin of the slice, and at which a timed one ends.
    SLICE_BEGIN SLICE_END
    /// Excess of the last sleep over its length.
    BIAS DELAY WAKE
    /// CPU time of the worker.
    RAN
    /// Semaphore of the worker that is started, or waited for; a worker's own.
    EXITED
}

/// Calls of a short method are put together up to this, which no task notices.
const BATCH_NS: u64 = 1_000_000;
/// Largest random slice: half a second.
const RANDOM_SLICE_NS: u64 = 500_000_000;

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let first = compiler.workload.semaphores.len() as u64;
        for _ in 0..self.workers {
            compiler.workload.add_semaphore(0);
        }
        let worker = self.worker(compiler)?;
        let worker = compiler.fork("", worker, true);
        let time = compiler.metric("time");
        let mut b = ProgramBuilder::new("stress-ng");
        b.now(BEGIN);
        b.set(EXITED, first);
        b.repeat(LEFT, self.workers, |b| {
            b.fork(worker, CHILD);
            b.add(EXITED, 1);
        });
        // `waitpid` for one worker after the other: an exit that is not the awaited one wakes no
        // task, as SIGCHLD is ignored.
        b.set(EXITED, first);
        b.repeat(LEFT, self.workers, |b| {
            b.sem_wait(EXITED);
            b.add(EXITED, 1);
        });
        b.join_all();
        b.record_since(time, BEGIN);
        compiler.finish(b)
    }

    fn worker(&self, compiler: &mut Compiler) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("stress-ng-cpu");
        if self.policy.is_some() || self.taskset.is_some() {
            let attributes = compiler.workload.add_attributes(AttributesSpec {
                policy: self.policy,
                affinity: self.taskset,
                ..AttributesSpec::default()
            });
            b.set_attributes(attributes);
        }
        b.now(END);
        b.add(END, self.timeout_ns);
        // `clock_nanosleep` of no length, before the first call: until the next timer interrupt
        // within the slack.
        b.sleep(0);
        let mut worker = Worker {
            permille: compiler.start.prices.stress_ng_permille,
            operations: compiler.metric("operations"),
            share: self.share_millionths(),
            end: b.label(),
            method: self.method,
            builder: b,
        };
        match self.load {
            0 => worker.builder.sleep_until(END),
            100 => worker.full_load(),
            load => self.partial_load(compiler, &mut worker, load),
        }
        let Worker {
            mut builder, end, ..
        } = worker;
        builder.bind(end);
        builder.sem_post(EXITED);
        builder.exit();
        compiler.program(builder)
    }

    /// Slices of work with sleeps between them. A slice ends early with the alarm, not with the
    /// share of operations: that is looked at between rests only.
    fn partial_load(&self, compiler: &mut Compiler, worker: &mut Worker, load: u64) {
        let random = compiler
            .workload
            .add_distribution(Distribution::uniform(0, RANDOM_SLICE_NS - 1));
        let top = worker.builder.here();
        worker.builder.cpu_time(SLICE_BEGIN);
        match self.slice {
            Slice::Calls(calls) => worker.slice_of_calls(calls),
            Slice::Time(slice_ns) => {
                worker.builder.set(SLICE_END, slice_ns);
                worker.slice_of_time();
            }
            Slice::Random => {
                worker.builder.set(SLICE_END, random);
                worker.slice_of_time();
            }
        }
        worker.rest(load);
        worker.check();
        worker.builder.jump(top);
    }
}

struct Worker {
    builder: ProgramBuilder,
    permille: u64,
    operations: MetricId,
    share: Option<u64>,
    end: Label,
    method: Option<&'static Method>,
}

impl Worker {
    fn call_ns(&self, method: &Method) -> u64 {
        (method.call_ns.saturating_mul(self.permille) / 1000).max(1)
    }

    /// So many calls of one method as one piece of work.
    fn calls(&mut self, method: &Method, calls: u64) {
        let work_ns = self.call_ns(method).saturating_mul(calls);
        let millionths = method.call_millionths().saturating_mul(calls);
        self.builder.work(work_ns);
        self.builder.add(DONE, millionths);
        self.builder.count(self.operations, millionths);
    }

    /// Ends the worker when its share or its time is used up.
    fn check(&mut self) {
        if let Some(share) = self.share {
            self.builder
                .jump_if(DONE, Compare::GreaterOrEqual, share, self.end);
        }
        self.builder.now(NOW);
        self.builder
            .jump_if(NOW, Compare::GreaterOrEqual, END, self.end);
    }

    /// The next call: of the one method, or of the one whose turn it is.
    fn next_call(&mut self) {
        match self.method {
            Some(method) => self.calls(method, 1),
            None => {
                let methods: Vec<Label> = METHODS.iter().map(|_| self.builder.label()).collect();
                let called = self.builder.label();
                self.builder.jump_indexed(METHOD, &methods);
                for (label, method) in methods.iter().zip(METHODS.iter()) {
                    self.builder.bind(*label);
                    self.calls(method, 1);
                    self.builder.jump(called);
                }
                self.builder.bind(called);
                self.builder.add(METHOD, 1);
                self.builder
                    .arithmetic(Arithmetic::Remainder, METHOD, METHODS.len() as u64);
            }
        }
    }

    /// Calls until the share or the time is used up.
    fn full_load(&mut self) {
        let Some(method) = self.method else {
            let top = self.builder.here();
            self.next_call();
            self.check();
            self.builder.jump(top);
            return;
        };
        let batch = (BATCH_NS / self.call_ns(method)).max(1);
        // Whole batches while the share lasts, then single calls.
        if batch > 1 {
            let single = self.builder.label();
            let top = self.builder.here();
            if let Some(share) = self.share {
                let whole = share.saturating_sub(method.call_millionths() * batch);
                self.builder.jump_if(DONE, Compare::Greater, whole, single);
            }
            self.calls(method, batch);
            self.check();
            self.builder.jump(top);
            self.builder.bind(single);
        }
        let top = self.builder.here();
        self.calls(method, 1);
        self.check();
        self.builder.jump(top);
    }

    /// Ends the slice when the worker's time is up.
    fn check_alarm(&mut self, over: Label) {
        self.builder.now(NOW);
        self.builder
            .jump_if(NOW, Compare::GreaterOrEqual, END, over);
    }

    fn slice_of_calls(&mut self, calls: u64) {
        let over = self.builder.label();
        self.builder.set(LEFT, calls);
        let top = self.builder.here();
        self.next_call();
        self.check_alarm(over);
        self.builder.loop_back(LEFT, top);
        self.builder.bind(over);
    }

    /// Calls until [`SLICE_END`] of CPU time is used since the begin of the slice.
    fn slice_of_time(&mut self) {
        let over = self.builder.label();
        self.builder.add(SLICE_END, SLICE_BEGIN);
        let top = self.builder.here();
        self.next_call();
        self.check_alarm(over);
        self.builder.cpu_time(RAN);
        self.builder.jump_if(RAN, Compare::Less, SLICE_END, top);
        self.builder.bind(over);
    }

    /// Sleeps (100 − load) / load of the CPU time of the slice, less the bias; the alarm ends the
    /// sleep. Where less than the bias is due, there is no sleep and the bias is forgotten.
    fn rest(&mut self, load: u64) {
        let b = &mut self.builder;
        let (no_rest, whole, until_end, rested) = (b.label(), b.label(), b.label(), b.label());
        b.cpu_time(DELAY);
        b.subtract(DELAY, SLICE_BEGIN);
        b.arithmetic(Arithmetic::Multiply, DELAY, 100 - load);
        b.arithmetic(Arithmetic::Divide, DELAY, load);
        b.jump_if(DELAY, Compare::Less, BIAS, no_rest);
        b.subtract(DELAY, BIAS);
        b.now(NOW);
        // An alarm that came in the slice ends no sleep any more.
        b.jump_if(NOW, Compare::GreaterOrEqual, END, whole);
        b.sum(WAKE, NOW, DELAY);
        b.jump_if(WAKE, Compare::GreaterOrEqual, END, until_end);
        b.bind(whole);
        // The timeout has whole microseconds.
        b.set(WAKE, DELAY);
        b.arithmetic(Arithmetic::Divide, WAKE, 1000);
        b.arithmetic(Arithmetic::Multiply, WAKE, 1000);
        b.sleep(WAKE);
        b.now(BIAS);
        b.subtract(BIAS, NOW);
        b.subtract(BIAS, DELAY);
        b.jump(rested);
        b.bind(until_end);
        b.sleep_until(END);
        b.jump(self.end);
        b.bind(no_rest);
        b.set(BIAS, 0);
        b.bind(rested);
    }
}
