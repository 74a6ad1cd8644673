//! The timer that ends requests exactly (HRTICK, on by default on x86 from 7.1).
//!
//! Without it a request ends at the first tick after its last nanosecond. With it a timer is set
//! whenever a fair task begins to run while others wait, for the time at which its vruntime reaches
//! its deadline, and also when the first one to wait arrives. The task that runs when the timer
//! fires is rescheduled, firmly and not lazily.
//!
//! Worked example: 250 Hz, 8 CPUs, two tasks of nice 0. The request is 2.8 ms. Without the timer
//! they change at ticks, every 4 ms; with it every 2.8 ms. A task of nice 5 (weight 335) that is
//! 3 ms of virtual time before its deadline has 3 · 335 / 1024 = 0.98 ms left.

use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Ipi, Op, Platform, Timer};
use crate::task::Policy;
use crate::weight::NICE_0_LOAD;

/// All of a CPU in averages of utilisation.
const MAX_UTIL: u64 = 1024;
/// Shortest time the timer is set for.
const MIN_DELAY_NS: Ns = 10_000;
/// A timer that is set already is moved only by more than this.
const REARM_DISTANCE_NS: Ns = 5_000;

/// The timer of one CPU (`rq->hrtick_timer` and its like).
#[derive(Clone, Copy, Debug, Default)]
pub struct Hrtick {
    /// When it is due; `None` = it is not set.
    due_ns: Option<Ns>,
    /// A switch is under way, at whose end the timer is set (`hrtick_sched`).
    in_schedule: bool,
    /// Delay that the timer is set for then, ns.
    delay_ns: Option<Ns>,
    /// The time asked for last, whether or not the timer is set for it (`hrtick_time`).
    time_ns: Ns,
    /// Another CPU asks by an interrupt that it be set for that time (`hrtick_csd`).
    asked: bool,
}

impl Kernel {
    /// A switch begins (`hrtick_schedule_enter`).
    #[inline(always)]
    pub(crate) fn hrtick_schedule_enter(&mut self, cpu: Cpu) {
        self.rqs[cpu].hrtick.in_schedule = self.rules.features.hrtick;
    }

    /// … and ends: the timer is set for who runs now, an idle CPU has none
    /// (`hrtick_schedule_exit`).
    #[inline(always)]
    pub(crate) fn hrtick_schedule_exit<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if !self.rqs[cpu].hrtick.in_schedule {
            return;
        }
        let rq = &mut self.rqs[cpu];
        rq.hrtick.in_schedule = false;
        if let Some(delay_ns) = rq.hrtick.delay_ns.take() {
            rq.hrtick.time_ns = p.now(cpu) + delay_ns;
            self.arm_hrtick(p, cpu);
        } else if rq.curr_is_idle() && rq.hrtick.due_ns.take().is_some() {
            p.cancel(cpu, Timer::Hrtick(cpu));
        }
    }

    /// A fair task that runs, or will, is to be stopped at its virtual deadline if others wait
    /// (`hrtick_start_fair`).
    #[inline]
    pub(crate) fn hrtick_start_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        if !self.rules.features.hrtick || self.cfs_rqs[cpu].h_nr_queued <= 1 {
            return;
        }
        let rq = &self.rqs[cpu];
        let entity = &self.entities[self.tasks[task].se];
        let left = entity.deadline.wrapping_sub(entity.vruntime);
        if (left as i64) < 0 {
            if rq.curr == task {
                self.resched_curr(p, cpu);
            }
            return;
        }
        let delay_ns = entity.h_load.weight.wrapping_mul(left) / NICE_0_LOAD;
        // Interrupts take their part meanwhile.
        let interrupts = rq.avg_irq.util_avg;
        let scale = match interrupts {
            1..MAX_UTIL => MAX_UTIL * MAX_UTIL / (MAX_UTIL - interrupts),
            _ => MAX_UTIL,
        };
        self.hrtick_start(p, cpu, scale * delay_ns / MAX_UTIL);
    }

    /// `hrtick_start`.
    pub(crate) fn hrtick_start<P: Platform>(&mut self, p: &mut P, cpu: Cpu, delay_ns: Ns) {
        let delay_ns = delay_ns.max(MIN_DELAY_NS);
        let rq = &mut self.rqs[cpu];
        if rq.hrtick.in_schedule {
            rq.hrtick.delay_ns = Some(delay_ns);
            return;
        }
        rq.hrtick.time_ns = p.now(self.here) + delay_ns;
        if cpu == self.here {
            self.arm_hrtick(p, cpu);
        } else if rq.hrtick.needs_rearm() {
            let first = self.is_first_call(cpu, true);
            let asked = &mut self.rqs[cpu].hrtick.asked;
            if std::mem::replace(asked, true) || !first {
                return;
            }
            p.spend(self.here, Op::IpiSend, 1);
            p.send_ipi(self.here, cpu, Ipi::Call, false);
        }
    }

    /// An interrupt asks a CPU to set its timer (`__hrtick_start`).
    #[inline]
    pub(crate) fn hrtick_asked<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if std::mem::take(&mut self.rqs[cpu].hrtick.asked) {
            self.arm_hrtick(p, cpu);
        }
    }

    /// `hrtick_cond_restart`.
    fn arm_hrtick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let hrtick = &mut self.rqs[cpu].hrtick;
        if hrtick.needs_rearm() {
            reached(Mark::HrtickArmed);
            hrtick.due_ns = Some(hrtick.time_ns);
            p.arm(cpu, Timer::Hrtick(cpu), hrtick.time_ns);
        }
    }

    /// A fair task was put on a CPU: with it the first one may wait (`hrtick_update`).
    #[inline(always)]
    pub(crate) fn hrtick_update<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if !self.rules.features.hrtick {
            return;
        }
        let rq = &self.rqs[cpu];
        let fair = !rq.curr_is_idle() && self.tasks[rq.curr].policy.is_fair();
        if fair && rq.hrtick.due_ns.is_none() {
            self.hrtick_start_fair(p, cpu, self.rqs[cpu].curr);
        }
    }

    /// The timer fires (`hrtick`).
    pub fn hrtick_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        self.rqs[cpu].hrtick.due_ns = None;
        reached(Mark::HrtickFires);
        self.update_rq_clock(p, cpu);
        let curr = self.rqs[cpu].curr;
        let policy = self.tasks[curr].policy;
        if policy.is_fair() && !self.is_idle_task(curr) {
            self.entity_ticks(p, curr);
            // It was set for the end of the request, so there is nothing to check.
            self.resched_curr(p, cpu);
        } else if policy.is_rt() {
            self.task_tick_rt(p, cpu, curr);
        } else if policy == Policy::Deadline {
            self.task_tick_dl(p, cpu, curr, true);
        }
    }
}

impl Hrtick {
    /// `hrtick_needs_rearm`.
    fn needs_rearm(&self) -> bool {
        self.due_ns
            .is_none_or(|due_ns| due_ns.abs_diff(self.time_ns) > REARM_DISTANCE_NS)
    }

    /// Whether another CPU has asked for the timer to be set.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked
    }
}
