//! The tick, and idle CPUs without one.
//!
//! Ticks of all CPUs lie on one grid of 1/HZ. A CPU that goes idle stops its tick, however soon a
//! high-resolution timer is due (`get_next_timer_interrupt` looks at jiffy timers only), unless its
//! idle governor wants to keep it. The tick comes back, on the grid, when the CPU leaves idle.
//! Worked example with HZ=250: a CPU leaves idle at 10.3 ms; its next tick is at 12 ms.

use crate::ids::{Cpu, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform, Timer};
use crate::task::Policy;

impl Kernel {
    /// First tick after `now` on the grid.
    #[inline]
    pub fn next_tick(&self, now: Ns) -> Ns {
        let (tick_ns, phase_ns) = (self.rules.tick_ns, self.rules.tick_phase_ns);
        self.jiffies(now + tick_ns - phase_ns) * tick_ns + phase_ns
    }

    /// The tick of a CPU (`sched_tick` in its interrupt).
    pub fn tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        p.spend(cpu, Op::Tick, 1);
        reached(Mark::TickUpdates);
        self.note_idle_tick(cpu);
        // Before the clock of load tracking moves on: the time up to this tick counts at what was
        // measured by now.
        self.arch_scale_freq_tick(p, cpu);
        self.update_rq_clock(p, cpu);
        if self.rqs[cpu].need_resched_lazy {
            // A lazy request that was not honoured within a tick becomes a firm one.
            self.resched_curr(p, cpu);
        }
        self.task_tick(p, cpu);
        self.cpufreq_tick(p, cpu);
        self.sched_balance_trigger(p, cpu);
        if self.nohz.has_full {
            self.tick_remote(p, cpu);
        }
        let next = self.next_tick(p.now(cpu));
        p.arm(cpu, Timer::Tick(cpu), next);
    }

    /// The part of a tick that is the running task's class's (`task_tick`).
    #[inline]
    pub(crate) fn task_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let curr = self.rqs[cpu].curr;
        let policy = self.tasks[curr].policy;
        if self.is_idle_task(curr) {
            self.update_curr_idle(p, cpu);
        } else if policy.is_fair() {
            self.task_tick_fair(p, curr);
            self.task_tick_cache(cpu, curr);
        } else if policy.is_rt() {
            self.task_tick_rt(p, cpu, curr);
        } else if policy == Policy::Deadline {
            self.task_tick_dl(p, cpu, curr, false);
        }
    }

    /// The idle loop decides about the tick (`tick_nohz_idle_stop_tick`).
    #[inline(always)]
    pub(crate) fn idle_enter<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.nohz_run_idle_balance(p, cpu);
        self.rqs[cpu].idle_entry_ns = Some(p.now(cpu));
        if !self.cpuidle.is_off() {
            return self.cpuidle_idle_call(p, cpu);
        }
        // No driver and no governor to ask.
        let rq = &mut self.rqs[cpu];
        let woken_by_tick = std::mem::take(&mut rq.got_idle_tick);
        if woken_by_tick || !rq.tick_running || !self.rules.idle.tick_stops_after_tick {
            rq.idle_calls += 1;
            self.stop_idle_tick(p, cpu);
        }
    }

    /// A CPU leaves idle: its tick comes back on the grid (`tick_nohz_idle_exit`).
    pub(crate) fn idle_exit<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        rq.got_idle_tick = false;
        if !rq.tick_running && !self.leaves_idle_without_tick(cpu) {
            self.start_tick(p, cpu);
        }
    }

    /// The tick comes back on the grid (`tick_nohz_restart_sched_tick`).
    pub(crate) fn start_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.rqs[cpu].tick_running = true;
        p.spend(cpu, Op::TickReprogram, 1);
        let next = self.next_tick(p.now(cpu));
        p.arm(cpu, Timer::Tick(cpu), next);
    }
}
