//! The platform of the rules in a history: nothing takes time, and everything is noted.

use crate::callbacks::draw;
use schedcast_kernel::explain::Decision;
use schedcast_kernel::platform::{Access, Draw, Ipi, Line, Observation, Op, Platform, Timer};
use schedcast_kernel::{Cpu, Ns};
use std::collections::VecDeque;

/// The platform of the rules: a clock, timers, interrupts under way. Nothing takes time.
#[derive(Debug, Default)]
pub(super) struct Bench {
    pub now: Ns,
    pub(super) seed: u64,
    pub(super) draws: [u64; 2],
    pub(super) timers: Vec<(Timer, Cpu, Ns)>,
    pub(super) interrupted: VecDeque<Cpu>,
    /// Trail of both sides, kept from the first request for it on.
    pub(super) trail: Option<Vec<String>>,
}

impl Bench {
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trail) = &mut self.trail {
            trail.push(format!("{now} {}", what()));
        }
    }
}

impl Platform for Bench {
    const EXPLAIN: bool = true;
    fn explain(&mut self, cpu: Cpu, decision: Decision) {
        self.note(|| format!("rules: CPU {} {decision:?}", cpu.0));
    }
    fn now(&self, _: Cpu) -> Ns {
        self.now
    }
    fn spend(&mut self, _: Cpu, _: Op, _: u32) {}
    fn touch(&mut self, _: Cpu, _: Line, _: Access) {}
    fn arm(&mut self, cpu: Cpu, timer: Timer, at: Ns) {
        self.cancel(timer);
        self.timers.push((timer, cpu, at));
        if !matches!(timer, Timer::Tick(_)) {
            self.note(|| format!("rules: CPU {} fires {timer:?} at {at}", cpu.0));
        }
    }
    fn cancel(&mut self, timer: Timer) {
        self.timers.retain(|(other, ..)| *other != timer);
    }
    fn send_ipi(&mut self, from: Cpu, to: Cpu, kind: Ipi, _: bool) {
        self.note(|| format!("rules: CPU {} sends {kind:?} to CPU {}", from.0, to.0));
        if !self.interrupted.contains(&to) {
            self.interrupted.push_back(to);
        }
    }
    fn random(&mut self, kind: Draw) -> u64 {
        let kind = match kind {
            Draw::BandwidthPhase(_) => 0,
            Draw::NewidleDice(_) => 1,
        };
        self.draws[kind] += 1;
        u64::from(draw(self.seed, kind as u64, self.draws[kind]))
    }
    fn next_timer(&self, _: Cpu) -> Ns {
        Ns::MAX
    }
    /// Ticks are none of the device's on either side.
    fn next_expiry(&self, cpu: Cpu) -> Ns {
        let of_cpu =
            |(timer, on, _): &&(Timer, Cpu, Ns)| *on == cpu && !matches!(timer, Timer::Tick(_));
        let mut timers = self.timers.iter().filter(of_cpu).map(|(.., at)| *at);
        let first = timers.next().unwrap_or(Ns::MAX);
        timers.fold(first, Ns::min)
    }
    fn observe(&mut self, cpu: Cpu, observation: Observation) {
        self.note(|| format!("rules: CPU {} {observation:?}", cpu.0));
    }
}
