//! Decaying what sleeping tasks left behind (`sched_balance_update_blocked_averages`).
//!
//! Worked example: a task with `util_avg` 512 slept 64 ms ago on a CPU that is idle since. Nothing
//! on that CPU updates its averages; this pass does, and finds 128 left. It also tells cpufreq,
//! which may ask for a lower clock.

use crate::fair::load::{LoadUpdate, update_cfs_rq_load_avg};
use crate::ids::{CfsRqId, Cpu};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::pelt::Inputs;
use crate::platform::Platform;

impl Kernel {
    /// Brings the averages of all queues of a CPU up to date, children first, and notes whether
    /// anything is left to decay.
    pub(crate) fn update_blocked_averages<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.balancing_reads_clock(p, cpu);
        self.update_blocked_to_clock(p, cpu);
    }

    /// Brings the clock of a CPU up to date unless it is switching and skips that.
    pub(super) fn balancing_reads_clock<P: Platform>(&mut self, p: &P, cpu: Cpu) {
        if !self.rqs[cpu].switch_skips_clock {
            self.update_rq_clock(p, cpu);
        }
    }

    /// The same up to where the clock of the CPU stands
    /// (`__sched_balance_update_blocked_averages`).
    pub(super) fn update_blocked_to_clock<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        reached(Mark::BlockedDecay);
        self.rqs[cpu].last_blocked_load_update_tick = self.jiffies(p.now(self.here));
        let (mut blocked, mut decayed) = self.update_blocked_others(cpu);
        let mut place = 0;
        while let Some(&q) = self.rqs[cpu].leaf_cfs_rqs.get(place) {
            decayed |= self.update_blocked_queue(p, q);
            let avg = &self.cfs_rqs[q].avg;
            blocked |= avg.load_avg > 0 || avg.util_avg > 0;
            if self.cfs_rq_is_decayed(q) {
                self.list_del_leaf_cfs_rq(q);
            } else {
                place += 1;
            }
        }
        if !blocked {
            self.rqs[cpu].has_blocked_load = false;
        }
        if decayed {
            self.cpufreq_update_util(p, cpu, false);
        }
    }

    /// Load tracking of the real-time class and of interrupts. Returns whether anything is left of
    /// it and whether it moved.
    fn update_blocked_others(&mut self, cpu: Cpu) -> (bool, bool) {
        let now = self.rq_clock_pelt(cpu);
        let running = self.tasks[self.rqs[cpu].curr].policy.is_rt();
        let avg = &mut self.rqs[cpu].rt.avg;
        let mut decayed = avg.update(now, Inputs::of_class(running), 1);
        let mut blocked = avg.util_avg > 0;
        if self.dl.used {
            decayed |= self.update_dl_rq_load_avg(cpu, self.runs_deadline_task(cpu));
            blocked |= self.dl.rqs[cpu.index()].avg.util_avg > 0;
        }
        decayed |= self.update_irq_load_avg(cpu, 0);
        let interrupted = self.rqs[cpu].avg_irq.util_avg > 0;
        (blocked || interrupted, decayed)
    }

    /// Returns whether the averages of the CPU's root queue moved.
    fn update_blocked_queue<P: Platform>(&mut self, p: &mut P, q: CfsRqId) -> bool {
        let now = self.cfs_rq_clock_pelt(q);
        let decayed = update_cfs_rq_load_avg(&mut self.cfs_rqs[q], now);
        if decayed {
            self.update_tg_load_avg(p, q);
            if self.cfs_rqs[q].nr_queued == 0 {
                self.update_idle_cfs_rq_clock_pelt(q);
            }
        }
        let cfs_rq = &self.cfs_rqs[q];
        let Some(se) = cfs_rq.se else {
            return decayed;
        };
        let entity = &self.entities[se];
        // A group entity with nothing left and nothing to carry up needs no update
        // (`skip_blocked_update`).
        if entity.avg.load_avg > 0 || entity.avg.util_avg > 0 || cfs_rq.propagate {
            let parent = entity.cfs_rq;
            self.update_load_avg(p, parent, se, LoadUpdate::UpdateTg);
        }
        false
    }
}
