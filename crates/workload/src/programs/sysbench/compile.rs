//! Main and the threads.

use schedcast_sim::ProgramBuilder;
use schedcast_sim::program::Compare;
use schedcast_sim::workload::{MetricId, ProgramId, QueueId, WordId};

use super::oltp::Oltp;
use super::{Options, Test, division_steps};
use crate::programs::command::CommandError;
use crate::programs::postgres::{Script, Server, barrier, queues, spread};
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0;
    /// A thread's number, and the queue of its replies.
    THREAD REPLIES END NOW BEGIN VALUE ADDRESS STEP EVENTS START CHILD LEFT
    /// Time spent in events.
    BUSY
}

/// Word and metrics that all threads share.
struct Shared {
    /// Events that were begun.
    begun: WordId,
    latency: MetricId,
    run: MetricId,
    /// One value a thread: its events, and its time in them.
    thread_events: MetricId,
    thread_time: MetricId,
}

/// Code of a thread.
struct Body {
    event_ns: u64,
    server: Option<(Server, Script)>,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let replies = queues(compiler, self.threads);
        let body = match &self.test {
            Test::Cpu(max) => Body {
                event_ns: cpu_event_ns(compiler, *max),
                server: None,
            },
            Test::Oltp(oltp) => self.oltp(compiler, oltp, replies)?,
        };
        let thread = self.thread(compiler, &body)?;
        let thread = compiler.fork("", thread, false);
        let mut b = ProgramBuilder::new("sysbench-main");
        b.set(REPLIES, u64::from(replies.0));
        b.repeat(LEFT, self.threads, |b| {
            b.fork(thread, CHILD);
            b.add(THREAD, 1);
            b.add(REPLIES, 1);
        });
        b.join_all();
        compiler.finish(b)
    }

    fn oltp(
        &self,
        compiler: &mut Compiler,
        oltp: &Oltp,
        replies: QueueId,
    ) -> Result<Body, CommandError> {
        let prices = compiler.start.prices;
        let script = oltp.script(&prices);
        let replies: Vec<QueueId> = (0..self.threads as u32)
            .map(|thread| QueueId(replies.0 + thread))
            .collect();
        let server = Server::add(compiler, &oltp.server, &script, &replies)?;
        Ok(Body {
            event_ns: 0,
            server: Some((server, script)),
        })
    }

    fn thread(&self, compiler: &mut Compiler, body: &Body) -> Result<ProgramId, CommandError> {
        let shared = Shared {
            begun: compiler.workload.add_word(0),
            latency: compiler.metric("latency"),
            run: compiler.metric("run"),
            thread_events: compiler.metric("thread_events"),
            thread_time: compiler.metric("thread_time"),
        };
        let started = barrier(compiler, self.threads);
        let mut b = ProgramBuilder::new("sysbench");
        if let Some((server, _)) = &body.server {
            server.connect(&mut b, THREAD, REPLIES, VALUE);
        }
        b.barrier(started);
        b.now(START);
        b.sum(END, START, self.time_ns.unwrap_or(0));
        b.forever(|b, end| {
            b.now(BEGIN);
            if self.time_ns.is_some() {
                b.jump_if(BEGIN, Compare::GreaterOrEqual, END, end);
            }
            if let Some(events) = self.events {
                b.word_fetch_add(shared.begun, 1, VALUE);
                b.jump_if(VALUE, Compare::GreaterOrEqual, events, end);
            }
            body.event(compiler, b);
            b.record_since(shared.latency, BEGIN);
            b.now(NOW);
            b.subtract(NOW, BEGIN);
            b.add(BUSY, NOW);
            b.add(EVENTS, 1);
        });
        if let Some((server, _)) = &body.server {
            server.close(&mut b, THREAD, VALUE, ADDRESS);
        }
        b.record_since(shared.run, START);
        b.record(shared.thread_events, EVENTS);
        b.record(shared.thread_time, BUSY);
        b.exit();
        compiler.program(b)
    }
}

impl Body {
    /// One event.
    fn event(&self, compiler: &mut Compiler, b: &mut ProgramBuilder) {
        let Some((server, script)) = &self.server else {
            b.work(self.event_ns);
            return;
        };
        let prices = compiler.start.prices;
        let work = spread(compiler, prices.sysbench_statement_ns);
        b.set(STEP, 0);
        let top = b.here();
        b.work(work);
        b.set(VALUE, STEP);
        server.send(b, prices.unix_send(0), THREAD, VALUE, ADDRESS);
        server.reply(b, &prices, REPLIES, VALUE);
        b.add(STEP, 1);
        b.jump_if(STEP, Compare::Less, script.statements.len() as u64, top);
    }
}

fn cpu_event_ns(compiler: &Compiler, max: u64) -> u64 {
    let step_ps = compiler.start.prices.sysbench_division_ps;
    (division_steps(max).saturating_mul(step_ps) / 1000).max(1)
}
