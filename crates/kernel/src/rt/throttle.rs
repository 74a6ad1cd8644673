//! Real-time throttling (up to 6.11): 950 ms of every second and no more.
//!
//! A runaway real-time task must not lock the machine. Each CPU counts the time the class ran; when
//! it exceeds the runtime, the class is set aside until the period timer takes a runtime off the
//! count. Up to 5.9 a CPU first borrows from others what they did not use (RT_RUNTIME_SHARE), so
//! that on a machine with real-time tasks on one CPU only these may run all the time. Worked
//! example, one CPU at 1000 Hz: a FIFO hog starts with the timer at t = 0, runs until the tick at
//! 951 ms finds more than 950 ms, and is set aside until the timer at 1000 ms leaves 1 ms on the
//! count; the next time it may run only 949 ms and a bit.

use crate::ids::{Cpu, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Platform, Timer};

impl Kernel {
    /// Whether the class is throttled at all.
    pub(crate) fn rt_bandwidth_enabled(&self) -> bool {
        self.rules.rt_throttling && self.rules.rt_runtime_ns.is_some()
    }

    /// A real-time task was queued: the period timer has to run (`start_rt_bandwidth`). Its first
    /// round is due at once, or, when it stopped for less than a period, where it would have been
    /// due anyway.
    pub(crate) fn start_rt_bandwidth<P: Platform>(&mut self, p: &mut P) {
        if self.rt_bandwidth_enabled() && !self.rt_domain.period_active {
            let domain = &mut self.rt_domain;
            domain.period_active = true;
            // Forwarded by an interval of 0, which is at least the timers' resolution.
            let next_ns = p.now(self.here) + 1;
            domain.period_expires_ns = domain.period_expires_ns.max(next_ns);
            p.arm(self.here, Timer::RtPeriod, domain.period_expires_ns);
        }
    }

    /// Charges the class and throttles it when it used up its runtime.
    pub(crate) fn charge_rt_runtime<P: Platform>(&mut self, p: &mut P, cpu: Cpu, delta: Ns) {
        if !self.rt_bandwidth_enabled() || self.rqs[cpu].rt.rt_runtime_ns.is_none() {
            return;
        }
        self.rqs[cpu].rt.rt_time_ns += delta;
        if self.sched_rt_runtime_exceeded(cpu) {
            self.resched_curr(p, cpu);
            self.start_rt_bandwidth(p);
        }
    }

    /// `sched_rt_runtime_exceeded`.
    fn sched_rt_runtime_exceeded(&mut self, cpu: Cpu) -> bool {
        let rt = &self.rqs[cpu].rt;
        if rt.throttled {
            return true;
        }
        if rt.rt_runtime_ns >= Some(self.rules.rt_period_ns) {
            return false;
        }
        self.balance_runtime(cpu);
        let rt = &mut self.rqs[cpu].rt;
        if Some(rt.rt_time_ns) <= rt.rt_runtime_ns {
            return false;
        }
        if self.rules.rt_runtime_ns == Some(0) {
            // Nothing was assigned, so nothing could ever be replenished.
            rt.rt_time_ns = 0;
            return false;
        }
        reached(Mark::RtThrottled);
        rt.throttled = true;
        self.count_rt_tasks(cpu);
        true
    }

    /// Borrows from each other CPU its n-th part of what that did not use, up to a whole period
    /// (`balance_runtime`, with RT_RUNTIME_SHARE).
    fn balance_runtime(&mut self, cpu: Cpu) {
        let rt = &self.rqs[cpu].rt;
        let (Some(mut runtime), period) = (rt.rt_runtime_ns, self.rules.rt_period_ns) else {
            return;
        };
        if !self.rules.features.rt_runtime_share || rt.rt_time_ns <= runtime {
            return;
        }
        let cpus = self.rqs.len() as u64;
        for other in 0..self.rqs.len() {
            let rt = &mut self.rqs[other].rt;
            let Some(theirs) = rt.rt_runtime_ns.filter(|_| other != cpu.index()) else {
                continue;
            };
            let spare = theirs.saturating_sub(rt.rt_time_ns) / cpus;
            let borrowed = spare.min(period - runtime);
            rt.rt_runtime_ns = Some(theirs - borrowed);
            runtime += borrowed;
            if runtime == period {
                break;
            }
        }
        self.rqs[cpu].rt.rt_runtime_ns = Some(runtime);
    }

    /// The period timer of the class fires (`sched_rt_period_timer`).
    #[cold]
    #[inline(never)]
    pub fn rt_period_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        let period = self.rules.rt_period_ns;
        let late = p.now(cpu) - self.rt_domain.period_expires_ns;
        let overrun = late / period + 1;
        self.rt_domain.period_expires_ns += overrun * period;
        let mut idle = true;
        for cpu in (0..self.cpus()).map(Cpu::from) {
            idle &= self.rt_period_elapsed(p, cpu, overrun);
        }
        if idle {
            self.rt_domain.period_active = false;
        } else {
            p.arm(cpu, Timer::RtPeriod, self.rt_domain.period_expires_ns);
        }
    }

    /// One CPU's part of the period timer (`do_sched_rt_period_timer`). Returns whether the class
    /// is idle there.
    fn rt_period_elapsed<P: Platform>(&mut self, p: &mut P, cpu: Cpu, overrun: u64) -> bool {
        let rt = &mut self.rqs[cpu].rt;
        if !self.rules.features.rt_runtime_share && rt.rt_runtime_ns.is_some() {
            rt.rt_runtime_ns = self.rules.rt_runtime_ns;
        }
        if rt.rt_time_ns == 0 && rt.nr_running == 0 {
            return true;
        }
        reached(Mark::RtReplenished);
        self.update_rq_clock(p, cpu);
        let mut enqueue = false;
        if self.rqs[cpu].rt.rt_time_ns > 0 {
            if self.rqs[cpu].rt.throttled {
                self.balance_runtime(cpu);
            }
            let rt = &mut self.rqs[cpu].rt;
            let runtime = rt.rt_runtime_ns.unwrap_or(Ns::MAX);
            rt.rt_time_ns = rt
                .rt_time_ns
                .saturating_sub(runtime.saturating_mul(overrun));
            if rt.throttled && rt.rt_time_ns < runtime {
                rt.throttled = false;
                enqueue = true;
                let rq = &mut self.rqs[cpu];
                if rq.rt.nr_running > 0 && rq.curr_is_idle() {
                    // A task woken while the class was throttled is not charged with the time since
                    // then.
                    rq.skip_clock_update = false;
                }
            }
        } else {
            enqueue = !self.rqs[cpu].rt.throttled;
        }
        let rt = &self.rqs[cpu].rt;
        let idle = rt.rt_time_ns == 0 && rt.nr_running == 0;
        if enqueue && rt.nr_running > 0 {
            self.count_rt_tasks(cpu);
            self.resched_curr(p, cpu);
        }
        idle
    }
}
