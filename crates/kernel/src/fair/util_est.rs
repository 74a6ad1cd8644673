//! Estimated utilisation: what a task is likely to need when it wakes (4.17 on).
//!
//! PELT forgets a task that sleeps; the estimate remembers. Worked example (6.8 on): estimate 400,
//! the task blocks with util_avg 320. The estimate is 80 too high and moves a quarter: 380.

use crate::ids::TaskId;
use crate::kernel::Kernel;
use crate::model::{Mark, reached};

/// Changes below 1 % of 1024 are not worth a write.
const MARGIN: u32 = 1024 / 100;

impl Kernel {
    #[inline(always)]
    pub(crate) fn task_util_est(&self, task: TaskId) -> u64 {
        let task = &self.tasks[task];
        u64::from(task.util_est.max(task.util_est_ewma))
    }

    /// `util_est_enqueue`.
    #[inline]
    pub(crate) fn util_est_enqueue(&mut self, task: TaskId) {
        if self.rules.features.util_est {
            let cpu = self.tasks[task].cpu;
            self.cfs_rqs[cpu].util_est_enqueued += self.task_util_est(task);
        }
    }

    /// `util_est_dequeue`.
    #[inline]
    pub(crate) fn util_est_dequeue(&mut self, task: TaskId) {
        if self.rules.features.util_est {
            let cpu = self.tasks[task].cpu;
            let estimate = self.task_util_est(task);
            let sum = &mut self.cfs_rqs[cpu].util_est_enqueued;
            *sum = sum.saturating_sub(estimate);
        }
    }

    /// `util_est_update`, when a task goes to sleep.
    #[inline]
    pub(crate) fn util_est_update(&mut self, task: TaskId) {
        if !self.rules.features.util_est {
            return;
        }
        let cpu = self.tasks[task].cpu;
        let highest = match self.rules.util_est_within_capacity {
            true => self.rqs[cpu].cpu_capacity_orig as u32,
            false => u32::MAX,
        };
        let entity = &mut self.entities[self.tasks[task].se];
        if !entity.util_avg_changed {
            reached(Mark::UtilEstUnchanged);
            return;
        }
        let (util, runnable) = (entity.avg.util_avg as u32, entity.avg.runnable_avg as u32);
        let record = &mut self.tasks[task];
        let taken = if self.rules.util_est_single_value {
            estimate(&mut record.util_est, util, runnable, highest)
        } else {
            let (last, average) = (&mut record.util_est, &mut record.util_est_ewma);
            let fast_up = self.rules.features.util_est_fastup;
            estimate_two_values(last, average, util, highest, fast_up)
        };
        if taken {
            reached(Mark::UtilEstSleep);
            entity.util_avg_changed = false;
        }
    }
}

/// An average moved a quarter of the way to a sample below it.
fn quarter_down(average: u32, sample: u32) -> u32 {
    (4 * average - (average - sample)) / 4
}

/// 6.8 on: up at once, down by a quarter; `highest` is the most a sample below the average may be.
/// Returns whether the sample counts as taken.
fn estimate(average: &mut u32, util: u32, runnable: u32, highest: u32) -> bool {
    if *average <= util {
        *average = util;
        return true;
    }
    if *average - util < MARGIN {
        reached(Mark::UtilEstSmall);
        return true;
    }
    if util > highest {
        // More than the CPU has: another task's time was counted.
        return false;
    }
    // A task that had to wait would have used more.
    if util + MARGIN >= runnable {
        reached(Mark::UtilEstDecay);
        *average = quarter_down(*average, util);
    }
    true
}

/// Up to 6.7: the last value and its moving average.
fn estimate_two_values(
    last: &mut u32,
    average: &mut u32,
    util: u32,
    highest: u32,
    fast_up: bool,
) -> bool {
    if fast_up && *average < util {
        reached(Mark::UtilEstFastUp);
        (*last, *average) = (util, util);
        return true;
    }
    if average.abs_diff(util) < MARGIN {
        // Not worth a write, unless the last value is off by more.
        let moved = last.abs_diff(util) >= MARGIN;
        if moved {
            *last = util;
        }
        return moved;
    }
    if util > highest {
        return false;
    }
    *last = util;
    *average = if *average < util {
        (3 * *average + util) / 4
    } else {
        quarter_down(*average, util)
    };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut average = 400;
        assert!(estimate(&mut average, 320, 325, 1024));
        assert_eq!(average, 380);
    }

    #[test]
    fn one_value_follows_up_at_once_and_down_slowly() {
        let mut average = 100;
        assert!(estimate(&mut average, 500, 500, 1024) && average == 500);
        let mut take = |util, runnable, capacity| {
            let taken = estimate(&mut average, util, runnable, capacity);
            (taken, average)
        };
        // Within 1 %.
        assert_eq!(take(491, 491, 1024), (true, 500));
        // 500 − 11/4, rounded down.
        assert_eq!(take(489, 489, 1024), (true, 497));
        // It had to wait.
        assert_eq!(take(100, 111, 1024), (true, 497));
        // Above capacity.
        assert_eq!(take(400, 400, 300), (false, 497));
        // 497 − 97/4, whatever the capacity.
        assert_eq!(take(400, 400, u32::MAX), (true, 472));
    }

    #[test]
    fn from_6_16_on_the_capacity_does_not_keep_an_estimate_up() {
        let within = |version: &str| {
            crate::rules::Rules::of(version.parse().unwrap(), 1, 250).util_est_within_capacity
        };
        assert!(within("6.12.117") && within("6.15"));
        assert!(!within("6.16") && !within("6.18"));
    }

    #[test]
    fn two_values_keep_the_last_one() {
        let (mut last, mut average) = (300, 300);
        let mut take = |util, fast_up| {
            let taken = estimate_two_values(&mut last, &mut average, util, 1024, fast_up);
            (taken, last, average)
        };
        assert_eq!(take(500, true), (true, 500, 500));
        assert_eq!(take(300, true), (true, 300, 450));
        // Only the last value is off.
        assert_eq!(take(445, true), (true, 445, 450));
        assert_eq!(take(446, true), (false, 445, 450));
        // As the average, and near.
        assert_eq!(take(450, true), (false, 445, 450));
        // No fast way up before 5.5.
        assert_eq!(take(550, false), (true, 550, 475));
    }

    #[test]
    fn a_last_value_off_by_one_per_cent_is_written() {
        for (before, written) in [(441, false), (440, true)] {
            let (mut last, mut average) = (before, 450);
            let taken = estimate_two_values(&mut last, &mut average, 450, 1024, true);
            assert_eq!((taken, last == 450), (written, written), "{before}");
        }
    }
}
