//! `perf bench sched pipe`: two tasks hand a token of four bytes to and fro through two pipes.
//!
//! ```text
//! first    loop: write pipe 1 · read pipe 2
//! second   loop: read pipe 1 · write pipe 2
//! ```
//!
//! Worked example: `-l 1000` is 1000 round trips, that is 2000 messages and, as exactly one of the
//! two can run, up to 2000 wakeups. The first task of the process form is the process itself; with
//! `-T` two threads are made and the process only waits for them.

use schedcast_sim::ProgramBuilder;
use schedcast_sim::workload::{ProgramId, QueueId};

use super::command::{CommandError, Tool, Words, compiled};
use super::messaging::channel::Channel;
use super::model::Model;
use super::results::{MetricMap, Results};
use super::start::Compiler;
use crate::registers::registers;

const TOKEN_BYTES: u64 = 4;

registers! { 0; LEFT CHILD VALUE BEGIN }

/// `perf bench sched pipe`.
pub(crate) static TOOL: Tool = Tool {
    words: &["perf", "bench", "sched", "pipe"],
    name: "perf-bench-pipe",
    about: "two tasks that hand a token to and fro through two pipes",
    operands: "",
    compile: compiled!(Options),
};

/// Its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Round trips.
    pub loops: u64,
    /// Threads instead of processes.
    pub threads: bool,
}

impl Options {
    /// Reads a command line.
    ///
    /// # Errors
    /// Bad numbers.
    pub(crate) fn read(words: &Words) -> Result<Self, CommandError> {
        Ok(Self {
            loops: words.whole("loop", 1..=1_000_000_000, 1_000_000)?,
            threads: words.has("threaded"),
        })
    }

    pub(super) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let [forth, back] = [(); 2].map(|()| {
            compiler
                .workload
                .add_queue(Channel::Pipe.queue(compiler.start, TOKEN_BYTES))
        });
        let mut b = ProgramBuilder::new("pipe-second");
        self.rounds(&mut b, compiler, |round| {
            round.read(forth);
            round.write(back);
        });
        let second = compiler.program(b)?;
        let second = compiler.fork("", second, !self.threads);
        let mut b = ProgramBuilder::new("pipe-main");
        let time = compiler.metric("time");
        b.work(compiler.start.prices.perf_start_ns);
        b.now(BEGIN);
        b.fork(second, CHILD);
        if self.threads {
            let first = self.first(compiler, forth, back)?;
            let first = compiler.fork("", first, false);
            b.fork(first, CHILD);
        } else {
            self.rounds(&mut b, compiler, |round| {
                round.write(forth);
                round.read(back);
            });
        }
        b.join_all();
        b.record_since(time, BEGIN);
        compiler.finish(b)
    }

    fn first(
        &self,
        compiler: &mut Compiler,
        forth: QueueId,
        back: QueueId,
    ) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("pipe-first");
        self.rounds(&mut b, compiler, |round| {
            round.write(forth);
            round.read(back);
        });
        compiler.program(b)
    }

    fn rounds(&self, b: &mut ProgramBuilder, compiler: &Compiler, body: impl FnOnce(&mut Round)) {
        b.repeat(LEFT, self.loops, |b| {
            let prices = &compiler.start.prices;
            let descriptor_ns = prices.descriptor(self.threads);
            body(&mut Round {
                write_ns: prices.pipe_write(TOKEN_BYTES) + descriptor_ns,
                read_ns: prices.pipe_read(TOKEN_BYTES) + descriptor_ns,
                builder: b,
            });
        });
    }
}

impl Model for Options {
    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(map, "time", results.seconds("time"));
    }

    /// Text that perf prints.
    fn report(&self, results: &Results) -> String {
        let seconds = results.time_s();
        let kind = if self.threads { "threads" } else { "processes" };
        let loops = self.loops as f64;
        format!(
            "# Running 'sched/pipe' benchmark:\n\
             # Executed {} pipe operations between two {kind}\n\n     \
             Total time: {seconds:.3} [sec]\n\n {:>14.6} usecs/op\n {:>14} ops/sec\n",
            self.loops,
            seconds * 1e6 / loops,
            (loops / seconds) as u64
        )
    }
}

/// One round of a task.
struct Round<'a> {
    builder: &'a mut ProgramBuilder,
    write_ns: u64,
    read_ns: u64,
}

impl Round<'_> {
    fn write(&mut self, pipe: QueueId) {
        self.builder.kernel_work(self.write_ns);
        self.builder.send(pipe, TOKEN_BYTES, VALUE, true);
    }

    fn read(&mut self, pipe: QueueId) {
        self.builder.recv(pipe, VALUE);
        self.builder.kernel_work(self.read_ns);
    }
}
