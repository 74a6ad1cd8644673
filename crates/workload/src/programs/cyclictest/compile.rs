//! Main, and a program for each thread: attributes are the thread's own.

use schedcast_kernel::task::Policy;
use schedcast_sim::ProgramBuilder;
use schedcast_sim::program::Compare;
use schedcast_sim::workload::{AttributesSpec, ProgramId, TIMER_SLACK_NS, WordId};

use super::{Options, thread_metric};
use crate::programs::command::CommandError;
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { 0; NEXT NOW LATENCY CYCLES STOP VALUE CHILD }

/// Main looks whether a thread has ended this often.
const LOOK_NS: u64 = 10_000_000;
/// Time that it waits for the others then.
const END_NS: u64 = 50_000_000;

/// Words through which main and the threads communicate.
#[derive(Clone, Copy)]
struct Shared {
    /// A thread has done its loops.
    ended: WordId,
    /// All have to end.
    shutdown: WordId,
}

impl Options {
    pub(in crate::programs) fn compile(&self, compiler: &mut Compiler) -> Result<(), CommandError> {
        let shared = Shared {
            ended: compiler.workload.add_word(0),
            shutdown: compiler.workload.add_word(0),
        };
        let mut b = ProgramBuilder::new("cyclictest");
        compiler.bind(&mut b, self.main_cpus);
        for thread in 0..self.threads {
            let program = self.thread(compiler, shared, thread)?;
            let fork = compiler.fork("", program, false);
            b.fork(fork, CHILD);
        }
        b.forever(|b, end| {
            if !self.quiet {
                let lines = self.threads + 2;
                b.work(lines * compiler.start.prices.print_line_ns);
            }
            b.sleep(LOOK_NS);
            for word in [shared.ended, shared.shutdown] {
                b.word_load(word, VALUE);
                b.jump_if(VALUE, Compare::NotEqual, 0, end);
            }
        });
        b.word_store(shared.shutdown, 1);
        b.sleep(END_NS);
        b.join_all();
        compiler.finish(b)
    }

    fn thread(
        &self,
        compiler: &mut Compiler,
        shared: Shared,
        thread: u64,
    ) -> Result<ProgramId, CommandError> {
        let interval_ns = self.interval_us_of(thread) * 1000;
        let all = compiler.metric("latency");
        let own = compiler.metric(&thread_metric("latency", thread));
        let last = compiler.metric(&thread_metric("last", thread));
        let mut b = ProgramBuilder::new(format!("cyclictest-{thread}"));
        self.begin(&mut b, compiler, thread);
        b.now(NOW);
        b.sum(NEXT, NOW, interval_ns);
        if let Some(duration_ns) = self.duration_ns {
            b.sum(STOP, NOW, duration_ns);
        }
        let (top, end) = (b.here(), b.label());
        if self.relative {
            // The clock is looked at right before the sleep: what the round takes is not late.
            b.now(NEXT);
            b.add(NEXT, interval_ns);
            b.sleep(interval_ns);
        } else {
            b.sleep_until(NEXT);
        }
        b.now(NOW);
        b.difference(LATENCY, NOW, NEXT);
        b.record(all, LATENCY);
        b.record(own, LATENCY);
        b.work(compiler.start.prices.cyclictest_round_ns);
        b.add(CYCLES, 1);
        if self.duration_ns.is_some() {
            b.unless(NOW, Compare::Less, STOP, |b| {
                b.word_store(shared.shutdown, 1);
            });
        }
        let missed = b.here();
        b.add(NEXT, interval_ns);
        b.jump_if(NOW, Compare::Greater, NEXT, missed);
        let goes_on = b.label();
        if self.loops > 0 {
            b.jump_if(CYCLES, Compare::Less, self.loops, goes_on);
            b.word_store(shared.ended, 1);
            b.jump(end);
            b.bind(goes_on);
        }
        b.word_load(shared.shutdown, VALUE);
        b.jump_if(VALUE, Compare::Equal, 0, top);
        b.bind(end);
        b.record(last, LATENCY);
        self.end(&mut b, compiler);
        compiler.program(b)
    }

    fn begin(&self, b: &mut ProgramBuilder, compiler: &mut Compiler, thread: u64) {
        let policy = self.policy.0;
        let cpu = self.cpus[thread as usize % self.cpus.len()];
        let slack_ns = if policy.is_rt() { 0 } else { TIMER_SLACK_NS };
        let attributes = compiler.workload.add_attributes(AttributesSpec {
            policy: Some((policy, self.priority_of(thread))),
            affinity: Some([cpu].into_iter().collect()),
            timer_slack_ns: Some(slack_ns),
            ..AttributesSpec::default()
        });
        b.set_attributes(attributes);
    }

    /// Threads go back to the normal policy before they exit.
    fn end(&self, b: &mut ProgramBuilder, compiler: &mut Compiler) {
        if self.policy.0 != Policy::Normal {
            let attributes = compiler.workload.add_attributes(AttributesSpec {
                policy: Some((Policy::Normal, 0)),
                ..AttributesSpec::default()
            });
            b.set_attributes(attributes);
        }
        b.exit();
    }
}
