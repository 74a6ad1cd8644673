//! The main thread: once a second it reckons the rate, and now and then has results forgotten.

use schedcast_sim::ProgramBuilder;
use schedcast_sim::program::{Arithmetic, Compare};
use schedcast_sim::workload::{ForkId, ProgramId};

use super::Options;
use super::compile::Shared;
use crate::programs::command::CommandError;
use crate::programs::futex::microseconds_since;
use crate::programs::futex::reg::*;
use crate::programs::start::Compiler;
use crate::registers::registers;

registers! { OWN;
    /// When the rate was reckoned last, and requests up to then.
    RATE_BEGIN LOOPS_BEFORE LOOPS
    /// When results were forgotten last.
    FORGOT_AT WARM
}

const SECOND_NS: u64 = 1_000_000_000;
const SECOND_US: u64 = 1_000_000;

impl Options {
    pub(super) fn main_thread(
        &self,
        compiler: &mut Compiler,
        shared: &Shared,
        group: ForkId,
    ) -> Result<ProgramId, CommandError> {
        let mut b = ProgramBuilder::new("schbench-main");
        shared.layout.fork_groups(&mut b, group);
        b.now(BEGIN);
        b.set(RATE_BEGIN, BEGIN);
        b.set(FORGOT_AT, BEGIN);
        b.forever(|b, end| {
            microseconds_since(b, BEGIN, LENGTH);
            let looked = b.label();
            if self.warmup_s > 0 {
                let cold = b.label();
                b.jump_if(WARM, Compare::NotEqual, 0, cold);
                b.jump_if(
                    LENGTH,
                    Compare::LessOrEqual,
                    self.warmup_s * SECOND_US,
                    cold,
                );
                b.set(WARM, 1);
                self.forget(b, shared);
                b.jump(looked);
                b.bind(cold);
            }
            if self.pipe_bytes == 0 {
                self.rate_sample(b, compiler, shared);
            }
            b.bind(looked);
            if self.zero_s > 0 {
                microseconds_since(b, FORGOT_AT, DELTA);
                b.unless(DELTA, Compare::LessOrEqual, self.zero_s * SECOND_US, |b| {
                    self.forget(b, shared);
                });
            }
            if self.runtime_s > 0 {
                let runtime_us = self.runtime_s * SECOND_US;
                b.jump_if(LENGTH, Compare::GreaterOrEqual, runtime_us, end);
            }
            b.sleep(SECOND_NS);
        });
        shared.layout.stop(&mut b);
        compiler.program(b)
    }

    fn forget(&self, b: &mut ProgramBuilder, shared: &Shared) {
        b.now(FORGOT_AT);
        b.word_fetch_add(shared.epoch, 1, VALUE);
    }

    /// Requests a second since the last round, as a whole number.
    fn rate_sample(&self, b: &mut ProgramBuilder, compiler: &mut Compiler, shared: &Shared) {
        let samples = compiler.metric("rps_sample");
        let (skip, known) = (b.label(), b.label());
        microseconds_since(b, RATE_BEGIN, DELTA);
        b.now(RATE_BEGIN);
        b.word_load(shared.loops, LOOPS);
        b.difference(ROUND, LOOPS, LOOPS_BEFORE);
        b.set(LOOPS_BEFORE, LOOPS);
        b.arithmetic(Arithmetic::Multiply, ROUND, SECOND_US);
        b.jump_if(DELTA, Compare::NotEqual, 0, known);
        // Nothing over nothing counts as nothing.
        b.set(ROUND, 0);
        b.bind(known);
        b.arithmetic(Arithmetic::Divide, ROUND, DELTA);
        if self.forgotten() > 0 {
            b.word_load(shared.epoch, VALUE);
            b.jump_if(VALUE, Compare::Less, self.forgotten(), skip);
        }
        b.record(samples, ROUND);
        b.bind(skip);
    }
}
