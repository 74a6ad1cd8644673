//! The idle loop: what a CPU does between its last task and its next one.
//!
//! [`crate::Kernel::leave_kernel`] ends here when there is nothing to run: the governor chooses a
//! state, the tick stops or goes on, and the hardware is told. Whatever wakes the CPU first tells
//! [`crate::Kernel::idle_woken`]; if its handler finds nothing to run, the loop goes round again,
//! and the governor learns how the last period ended. Worked example (6.1, HZ=250, zero latency
//! allowed): POLL is entered with the tick going on; after 80 µs the polling limit is reached, the
//! governor is told, asked again, and answers POLL again.

use super::{Choice, Governor, GovernorKind, IdleState, Question, SleepLength, Wake};
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform, Timer};

/// A state that a CPU is in, or has just left.
#[derive(Clone, Copy, Debug)]
struct Stay {
    state: usize,
    decided_ns: Ns,
    entered_ns: Ns,
    /// When it was left, and whether because polling reached its limit.
    left: Option<(Ns, bool)>,
}

/// State of one CPU in the idle loop.
#[derive(Clone, Debug)]
pub(crate) struct IdleDevice {
    governor: Governor,
    stay: Option<Stay>,
    /// A tick came while idle (`got_idle_tick`).
    got_tick: bool,
}

/// The idle states of a machine and how its CPUs use them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpuidle {
    /// States, shallow to deep; fewer than two = no driver, CPUs just halt.
    pub(crate) states: Vec<IdleState>,
    devices: Vec<IdleDevice>,
    /// PM QoS requests and who made them.
    limits: Vec<(TaskId, Ns)>,
}

impl Cpuidle {
    /// A driver with these states on `cpus` CPUs. Fewer than two states leave nothing to choose.
    pub(crate) fn new(states: Vec<IdleState>, kind: GovernorKind, cpus: usize) -> Self {
        let device = IdleDevice {
            governor: Governor::new(kind),
            stay: None,
            got_tick: false,
        };
        Self {
            devices: vec![device; if states.len() < 2 { 0 } else { cpus }],
            states,
            limits: Vec::new(),
        }
    }

    /// Largest exit latency that all requests allow.
    pub(crate) fn latency_limit_ns(&self) -> Ns {
        let limits = self.limits.iter().map(|&(_, limit_ns)| limit_ns);
        limits.min().unwrap_or(Ns::MAX)
    }

    /// A CPU that runs no cpuidle driver.
    #[inline(always)]
    pub(crate) fn is_off(&self) -> bool {
        self.devices.is_empty()
    }
}

impl Kernel {
    /// Gives the machine idle states to choose from. Call it before anything runs.
    pub fn register_idle_states(&mut self, states: Vec<IdleState>, kind: GovernorKind) {
        self.cpuidle = Cpuidle::new(states, kind, self.topology.cpus());
    }

    /// Limits the exit latency of all CPUs on behalf of a task that holds `/dev/cpu_dma_latency`
    /// open (`cpu_latency_qos_update_request`); `None` gives the request back. Idle CPUs are woken
    /// to choose again.
    pub fn set_latency_limit<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        limit_ns: Option<Ns>,
    ) {
        if limit_ns.is_none() && self.cpuidle.limits.is_empty() {
            return;
        }
        self.here = cpu;
        let before = self.cpuidle.latency_limit_ns();
        self.cpuidle.limits.retain(|&(holder, _)| holder != task);
        if let Some(limit_ns) = limit_ns {
            self.cpuidle.limits.push((task, limit_ns));
        }
        if self.cpuidle.is_off() || self.cpuidle.latency_limit_ns() == before {
            return;
        }
        for other in (0..self.topology.cpus()).map(Cpu::from) {
            if other != cpu && self.rqs[other].curr_is_idle() {
                self.send_call(p, other);
            }
        }
    }

    /// Tells that a CPU left its idle state, its exit latency included, at `at`; `poll_limit` when
    /// nothing happened but polling reached its limit. Comes before the handler of whatever woke
    /// it.
    #[inline]
    pub fn idle_woken(&mut self, cpu: Cpu, at: Ns, poll_limit: bool) {
        self.count_idle_time(cpu, at);
        if self.cpuidle.is_off() {
            return;
        }
        self.rqs[cpu].polling = false;
        if let Some(stay) = &mut self.cpuidle.devices[cpu.index()].stay {
            stay.left = Some((at, poll_limit));
        }
    }

    /// `cpuidle_reflect`: the governor learns how the last stay ended, if one did.
    #[inline]
    pub(crate) fn idle_reflect(&mut self, cpu: Cpu, now: Ns) {
        if self.cpuidle.is_off() {
            return;
        }
        self.note_idle_latency(cpu, None);
        let device = &mut self.cpuidle.devices[cpu.index()];
        let by_tick = std::mem::take(&mut device.got_tick);
        let Some(stay) = device.stay.take() else {
            return;
        };
        let (left_ns, poll_limit) = stay.left.unwrap_or((now, false));
        let wake = Wake {
            state: stay.state,
            residency_ns: left_ns.saturating_sub(stay.entered_ns),
            span_ns: now.saturating_sub(stay.decided_ns),
            by_tick,
            poll_limit,
        };
        let (states, tick_ns) = (&self.cpuidle.states, self.rules.tick_ns);
        device
            .governor
            .reflect(states, &self.rules.idle, tick_ns, wake);
    }

    /// A tick came; if the CPU idles, its idle loop or the governor will want to know.
    #[inline]
    pub(crate) fn note_idle_tick(&mut self, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        if !rq.curr_is_idle() {
            return;
        }
        if self.cpuidle.is_off() {
            rq.got_idle_tick = true;
        } else {
            self.cpuidle.devices[cpu.index()].got_tick = true;
        }
    }

    /// One round of the idle loop (`cpuidle_idle_call`).
    #[inline(never)]
    pub(crate) fn cpuidle_idle_call<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let now = p.now(cpu);
        self.idle_reflect(cpu, now);
        if !self.rules.idle.governor_stops_tick {
            self.stop_idle_tick(p, cpu);
        }
        let choice = self.cpuidle_select(p, cpu, now);
        let stopped = !self.rqs[cpu].tick_running;
        if choice.stop_tick || stopped {
            self.rqs[cpu].idle_calls += 1;
            self.stop_idle_tick(p, cpu);
        }
        let state = self.cpuidle.states[choice.state];
        let entered_ns = p.now(cpu);
        let device = &mut self.cpuidle.devices[cpu.index()];
        device.stay = Some(Stay {
            state: choice.state,
            decided_ns: now,
            entered_ns,
            left: None,
        });
        self.note_idle_latency(cpu, Some(state.exit_latency_ns));
        let (states, rules) = (&self.cpuidle.states, &self.rules.idle);
        let device = &mut self.cpuidle.devices[cpu.index()];
        let limit_ns = if state.polling {
            device
                .governor
                .poll_limit(states, rules, self.rules.tick_ns)
        } else {
            None
        };
        self.rqs[cpu].polling = state.polling || state.monitor;
        p.enter_idle(cpu, choice.state, limit_ns);
    }

    fn cpuidle_select<P: Platform>(&mut self, p: &mut P, cpu: Cpu, now: Ns) -> Choice {
        let rq = &self.rqs[cpu];
        let timer_ns = p
            .next_timer(cpu)
            .saturating_sub(now)
            .min(super::FAR_AWAY_NS);
        let tick_ns = if rq.tick_running {
            timer_ns.min(self.next_tick(now) - now)
        } else {
            timer_ns
        };
        let question = Question {
            states: &self.cpuidle.states,
            latency_limit_ns: self.cpuidle.latency_limit_ns(),
            sleep: SleepLength { timer_ns, tick_ns },
            tick_stopped: !rq.tick_running,
            nr_iowait: rq.nr_iowait,
            tick_period_ns: self.rules.tick_ns,
            rules: &self.rules.idle,
        };
        self.cpuidle.devices[cpu.index()].governor.select(&question)
    }

    /// Stops the tick if it runs (`tick_nohz_stop_tick`). High resolution timers do not need it;
    /// only jiffy timers could keep it.
    pub(crate) fn stop_idle_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let keeps_time = self.keeps_time(cpu);
        let rq = &mut self.rqs[cpu];
        if !rq.tick_running || keeps_time {
            return;
        }
        reached(Mark::TickStopped);
        rq.tick_running = false;
        p.cancel(cpu, Timer::Tick(cpu));
        p.spend(cpu, Op::TickReprogram, 1);
        self.nohz_balance_enter_idle(p, cpu);
    }
}
