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
    /// By CPU, when its clock event device fires (`expires_next`).
    pub(super) devices: Vec<Ns>,
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

    /// The first timer of a CPU; ticks are none of the device's on either side.
    fn first_timer(&self, cpu: Cpu) -> Ns {
        let of_cpu =
            |(timer, on, _): &&(Timer, Cpu, Ns)| *on == cpu && !matches!(timer, Timer::Tick(_));
        let timers = self.timers.iter().filter(of_cpu);
        timers.map(|(.., at)| *at).min().unwrap_or(Ns::MAX)
    }

    /// The device of a CPU is programmed for its first timer, as at the end of its interrupt.
    pub(super) fn program(&mut self, cpu: Cpu) {
        let first = self.first_timer(cpu);
        self.program_for(cpu, first);
    }

    fn program_for(&mut self, cpu: Cpu, at: Ns) {
        if self.devices.len() <= cpu.index() {
            self.devices.resize(cpu.index() + 1, Ns::MAX);
        }
        self.devices[cpu.index()] = at;
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
        self.cancel(cpu, timer);
        self.timers.push((timer, cpu, at));
        if !matches!(timer, Timer::Tick(_)) {
            self.program_for(cpu, at.min(self.next_expiry(cpu)));
            self.note(|| format!("rules: CPU {} fires {timer:?} at {at}", cpu.0));
        }
    }
    fn cancel(&mut self, cpu: Cpu, timer: Timer) {
        let mut timers = self.timers.iter();
        let Some(row) = timers.position(|(other, ..)| *other == timer) else {
            return;
        };
        let (_, on, at) = self.timers.remove(row);
        // The overlay does so for what the deadline class cancels (`hrtimer_try_to_cancel`).
        let of_group = matches!(timer, Timer::BandwidthPeriod(_) | Timer::BandwidthSlack(_));
        if (on == cpu || !of_group) && at == self.next_expiry(on) {
            self.program(on);
        }
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
    /// A device that fired for nothing is programmed for the first timer.
    fn next_expiry(&self, cpu: Cpu) -> Ns {
        let device = self.devices.get(cpu.index()).copied();
        let ahead = device.filter(|&at| at >= self.now);
        ahead.unwrap_or_else(|| self.first_timer(cpu))
    }
    fn observe(&mut self, cpu: Cpu, observation: Observation) {
        self.note(|| format!("rules: CPU {} {observation:?}", cpu.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_kernel::GroupId;

    #[test]
    fn a_device_stays_programmed_for_a_timer_that_another_cpu_cancelled() {
        let (cpu, other) = (Cpu(1), Cpu(0));
        let mut bench = Bench::default();
        let group = Timer::BandwidthSlack(GroupId::ROOT);
        bench.arm(cpu, group, 10);
        bench.arm(cpu, Timer::FairServer(cpu), 20);
        bench.arm(cpu, Timer::FairServer(other), 30);
        bench.cancel(other, group);
        assert_eq!(bench.next_expiry(cpu), 10);
        // What fires in vain programs it for the next one.
        bench.now = 11;
        assert_eq!(bench.next_expiry(cpu), 20);
        bench.cancel(other, Timer::FairServer(cpu));
        assert_eq!(bench.next_expiry(cpu), 30);
    }
}
