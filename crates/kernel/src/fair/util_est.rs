//! Estimated utilisation: what a task is likely to need when it wakes (4.17 on).
//!
//! PELT forgets a task that sleeps; the estimate remembers. Worked example (6.8 on): estimate 400,
//! the task blocks with util_avg 320. The estimate is 80 too high and moves a quarter: 380.

use crate::ids::TaskId;
use crate::kernel::Kernel;

/// Changes below 1 % of 1024 are not worth a write.
const MARGIN: u32 = 1024 / 100;

impl Kernel {
    pub(crate) fn task_util_est(&self, task: TaskId) -> u64 {
        let task = &self.tasks[task.index()];
        u64::from(task.util_est.max(task.util_est_ewma))
    }

    /// `util_est_enqueue`.
    #[inline]
    pub(crate) fn util_est_enqueue(&mut self, task: TaskId) {
        if self.rules.features.util_est {
            let cpu = self.tasks[task.index()].cpu;
            self.cfs_rqs[cpu.index()].util_est_enqueued += self.task_util_est(task);
        }
    }

    /// `util_est_dequeue`.
    #[inline]
    pub(crate) fn util_est_dequeue(&mut self, task: TaskId) {
        if self.rules.features.util_est {
            let cpu = self.tasks[task.index()].cpu;
            let estimate = self.task_util_est(task);
            let sum = &mut self.cfs_rqs[cpu.index()].util_est_enqueued;
            *sum = sum.saturating_sub(estimate);
        }
    }

    /// `util_est_update`, when a task goes to sleep.
    pub(crate) fn util_est_update(&mut self, task: TaskId) {
        if !self.rules.features.util_est {
            return;
        }
        let capacity = self.rqs[self.tasks[task.index()].cpu.index()].cpu_capacity_orig as u32;
        let avg = &self.entities[self.tasks[task.index()].se.index()].avg;
        let (util, runnable) = (avg.util_avg as u32, avg.runnable_avg as u32);
        let single_value = self.rules.version.since(6, 8);
        let task = &mut self.tasks[task.index()];
        if single_value {
            if task.util_est <= util {
                task.util_est = util;
            } else if task.util_est - util >= MARGIN
                && util <= capacity
                && util + MARGIN >= runnable
            {
                task.util_est -= (task.util_est - util) / 4;
            }
            return;
        }
        let last = std::mem::replace(&mut task.util_est, util);
        if task.util_est_ewma <= util {
            task.util_est_ewma = util;
            return;
        }
        let moved = (task.util_est_ewma - util).max(last.abs_diff(util));
        if moved >= MARGIN && util <= capacity {
            task.util_est_ewma -= (task.util_est_ewma - util) / 4;
        }
    }
}
