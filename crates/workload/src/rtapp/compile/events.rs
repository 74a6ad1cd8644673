//! Instructions of one event.

use schedcast_sim::program::{Arithmetic, Compare};

use super::super::ast::{Action, Event, MemoryAccess, TimerMode, TimerUse};
use super::super::error::Fault;
use super::Compiler;
use super::thread::{
    BEGIN, Body, CHILD, CHILD_INDEX, FIRST, MINUS_ONE, NOW, PERF, RUN, SCRATCH, SHARED_TIMER,
    SLACK, WAKEUP_LATENCY,
};

/// Work between two looks at the clock during a `runtime`.
const RUNTIME_PIECE_US: u32 = 32;

/// Children that rt-app starts of one task before it gives up on what it takes for a fork bomb.
const FORKS_MAX: u64 = 1024;

impl<'a> Compiler<'a> {
    pub(super) fn event(&mut self, body: &mut Body<'a>, event: &'a Event) -> Result<(), Fault> {
        let builder = &mut body.builder;
        match &event.action {
            Action::Lock(name) => builder.lock(self.mutex(name)),
            Action::Unlock(name) => builder.unlock(self.mutex(name)),
            Action::Wait(wait) => {
                builder.condition_wait(self.condition(&wait.condition), self.mutex(&wait.mutex));
            }
            Action::Signal(name) => builder.signal(self.condition(name)),
            Action::Broadcast(name) => builder.broadcast(self.condition(name)),
            Action::Sync(sync) => {
                builder.signal(self.condition(&sync.condition));
                builder.condition_wait(self.condition(&sync.condition), self.mutex(&sync.mutex));
            }
            Action::Sleep(microseconds) => builder.sleep(u64::from(*microseconds) * 1000),
            Action::Runtime(microseconds) => self.runtime(body, *microseconds),
            Action::Run(microseconds) => self.run(body, *microseconds),
            Action::Timer(timer) => self.timer(body, timer),
            Action::Suspend(name) => {
                let mutex = self.mutex(name);
                builder.lock(mutex);
                builder.condition_wait(self.condition(name), mutex);
                builder.unlock(mutex);
            }
            Action::Resume(name) => {
                let mutex = self.mutex(name);
                builder.lock(mutex);
                builder.broadcast(self.condition(name));
                builder.unlock(mutex);
            }
            Action::MemoryRun(run) => {
                let byte_ps = match run.access {
                    MemoryAccess::Read | MemoryAccess::Write => self.options.prices.memory_byte_ps,
                    // Refused before: its cost is the cache's.
                    MemoryAccess::Chase { .. } => 0,
                };
                work(body, u64::from(run.count) * byte_ps / 1000);
            }
            Action::Memory(bytes) => {
                work(
                    body,
                    u64::from(*bytes) * self.options.prices.memset_byte_ps / 1000,
                );
            }
            Action::InputOutputRun(bytes) => {
                let writes = bytes.div_ceil(self.file.global.mem_buffer_bytes);
                work(body, u64::from(writes) * self.options.prices.write_ns);
            }
            Action::Yield => builder.yield_now(),
            Action::Barrier(name) => self.barrier_event(body, name),
            Action::Fork(name) => self.fork_event(body, name),
            Action::SemaphorePost(name) => builder.sem_post(self.semaphore(name)),
            Action::SemaphoreWait(name) => builder.sem_wait(self.semaphore(name)),
        }
        Ok(())
    }

    fn run(&mut self, body: &mut Body<'a>, microseconds: u32) {
        body.builder.now(BEGIN);
        work(body, self.run_ns(microseconds));
        body.builder
            .add(PERF, u64::from(microseconds) / self.calibrated_ns());
        add_run_time(body);
    }

    /// Works in small pieces until the wall clock says that it is enough, at least one piece.
    fn runtime(&mut self, body: &mut Body<'a>, microseconds: u32) {
        let piece_ns = self.run_ns(RUNTIME_PIECE_US).max(1);
        body.builder.now(BEGIN);
        let top = body.builder.here();
        body.builder.work(piece_ns);
        body.builder
            .add(PERF, u64::from(RUNTIME_PIECE_US) / self.calibrated_ns());
        body.builder.now(NOW);
        body.builder.set(SCRATCH, NOW);
        body.builder.subtract(SCRATCH, BEGIN);
        body.builder
            .jump_if(SCRATCH, Compare::Less, u64::from(microseconds) * 1000, top);
        add_run_time(body);
    }

    /// Moves the timer one period on and sleeps until then. If that has passed already there is
    /// no sleep, and a relative timer starts over from now.
    fn timer(&mut self, body: &mut Body<'a>, timer: &'a TimerUse) {
        let mode = self.file.timer_mode(body.task, timer);
        let word = (!timer.unique).then(|| self.shared_timer(&timer.timer));
        let next = match word {
            None => body.unique_timer(timer),
            Some(_) => SHARED_TIMER,
        };
        let builder = &mut body.builder;
        if let Some(word) = word {
            // The first user of a shared timer starts it, at its own beginning.
            builder.word_load(word, next);
            let started = builder.label();
            builder.jump_if(next, Compare::NotEqual, 0, started);
            builder.set(next, FIRST);
            builder.bind(started);
        }
        builder.add(next, u64::from(timer.period_us) * 1000);
        if let Some(word) = word {
            builder.word_store(word, next);
        }
        builder.now(NOW);
        // slack = next − now, which may be negative
        builder.set(SCRATCH, NOW);
        builder.arithmetic(Arithmetic::Multiply, SCRATCH, MINUS_ONE);
        builder.add(SCRATCH, next);
        if self.file.global.cumulative_slack {
            builder.add(SLACK, SCRATCH);
        } else {
            builder.set(SLACK, SCRATCH);
        }
        let late = builder.label();
        let done = builder.label();
        builder.jump_if(NOW, Compare::GreaterOrEqual, next, late);
        builder.sleep_until(next);
        builder.now(NOW);
        builder.subtract(NOW, next);
        builder.add(WAKEUP_LATENCY, NOW);
        builder.jump(done);
        builder.bind(late);
        if mode == TimerMode::Relative {
            builder.set(next, NOW);
            if let Some(word) = word {
                builder.word_store(word, next);
            }
        }
        // rt-app forgets the latencies of earlier timers of the round here.
        builder.set(WAKEUP_LATENCY, 0);
        builder.bind(done);
    }

    /// rt-app's own barrier. A thread that comes back before all have left finds the count low and
    /// goes through, as it does there.
    fn barrier_event(&mut self, body: &mut Body<'a>, name: &'a str) {
        let barrier = self.barrier(name);
        let builder = &mut body.builder;
        let wait = builder.label();
        let leave = builder.label();
        builder.lock(barrier.mutex);
        builder.word_load(barrier.missing, SCRATCH);
        builder.jump_if(SCRATCH, Compare::NotEqual, 0, wait);
        builder.broadcast(barrier.condition);
        builder.jump(leave);
        builder.bind(wait);
        builder.word_fetch_add(barrier.missing, MINUS_ONE, SCRATCH);
        builder.condition_wait(barrier.condition, barrier.mutex);
        builder.word_fetch_add(barrier.missing, 1, SCRATCH);
        builder.bind(leave);
        builder.unlock(barrier.mutex);
    }

    /// Starts a child. rt-app ends as a whole at its limit; here the thread that hits it ends, and
    /// the metric says so.
    fn fork_event(&mut self, body: &mut Body<'a>, name: &str) {
        let target = self.file.tasks.iter().position(|task| task.name == name);
        // That the task exists was checked when the file was read.
        let target = target.unwrap_or_default();
        let fork = self.fork(target, body.cpus);
        let count = self.fork_count(target);
        let limit_hits = self.workload.add_metric("rt-app/fork_limit_reached");
        let builder = &mut body.builder;
        let allowed = builder.label();
        builder.word_fetch_add(count, 1, SCRATCH);
        builder.jump_if(SCRATCH, Compare::Less, FORKS_MAX, allowed);
        builder.count(limit_hits, 1);
        builder.exit();
        builder.bind(allowed);
        builder.word_fetch_add(self.thread_count, 1, CHILD_INDEX);
        builder.fork(fork, CHILD);
    }
}

/// Adds what has passed since `BEGIN` to the time spent in run events.
fn add_run_time(body: &mut Body<'_>) {
    body.builder.now(NOW);
    body.builder.subtract(NOW, BEGIN);
    body.builder.add(RUN, NOW);
}

fn work(body: &mut Body<'_>, nanoseconds: u64) {
    if nanoseconds > 0 {
        body.builder.work(nanoseconds);
    }
}
