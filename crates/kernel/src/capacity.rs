//! CPUs of unequal capacity: which task fits on which CPU, and which one runs where it does not
//! (`util_fits_cpu`, `update_misfit_status`).
//!
//! A CPU of capacity 446 does at its full clock 446/1024 of the work that the fastest one does. A
//! task fits when its utilisation is below 80 % of what the CPU has for the fair class; one that
//! runs where it does not fit is a *misfit* task, which balancing pulls to a CPU that is at least
//! 5 % faster.
//!
//! Worked example (446 and 1024): a task with a utilisation of 356 fits on the small CPU, as 356 ·
//! 1280 = 455,680 is less than 446 · 1024 = 456,704; one with 357 does not (456,960). A CPU of 446
//! is greater than one of 423 (456,704 > 455,994) and not than one of 424 (457,072).

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::uclamp::Fit;

/// `fits_capacity`: utilisation leaves a margin of 20 %.
#[inline]
pub(crate) const fn fits_capacity(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

/// `capacity_greater`: by more than 5 %, so that noise does not move tasks.
#[inline]
pub(crate) const fn capacity_greater(one: u64, other: u64) -> bool {
    one * 1024 > other * 1078
}

impl Kernel {
    /// Utilisation that a task needs: its present one or the estimate, the larger
    /// (`task_util_est`).
    #[inline]
    pub(crate) fn util_needed(&self, task: TaskId) -> u64 {
        let se = self.tasks[task].se;
        let util = self.entities[se].avg.util_avg;
        util.max(self.task_util_est(task))
    }

    /// Whether a task fits a CPU with all that it asks for (`task_fits_cpu`).
    #[inline]
    pub(crate) fn task_fits_cpu(&self, task: TaskId, cpu: Cpu) -> bool {
        let clamps = self.clamps_of(task);
        self.util_fits_cpu(self.util_needed(task), clamps, cpu) == Fit::Yes
    }

    /// Capacity of a CPU without other classes (`arch_scale_cpu_capacity`).
    #[inline(always)]
    pub(crate) fn capacity_orig_of(&self, cpu: Cpu) -> u64 {
        self.domains.cpus[cpu].capacity_orig
    }

    /// The largest capacity among some CPUs.
    fn largest_capacity(&self, cpus: &CpuSet) -> u64 {
        let capacities = cpus.iter().map(|cpu| self.capacity_orig_of(cpu));
        capacities.max().unwrap_or(0)
    }

    /// Notes whether the task that begins or goes on to run fits its CPU (`update_misfit_status`).
    #[inline]
    pub(crate) fn update_misfit_status(&mut self, cpu: Cpu, task: Option<TaskId>) {
        if self.domains.asym_active {
            self.jiffy = self.jiffies(self.rqs[cpu].clock);
            let load = task.map_or(0, |task| self.misfit_load(cpu, task));
            self.rqs[cpu].misfit_task_load = load;
        }
    }

    /// Load of a task that could go to a CPU where it fits, at least 1; 0 = it fits, or has nowhere
    /// to go.
    fn misfit_load(&mut self, cpu: Cpu, task: TaskId) -> u64 {
        let record = &self.tasks[task];
        let on_largest = || self.capacity_orig_of(cpu) == self.largest_capacity(&record.affinity);
        if record.nr_cpus_allowed == 1
            || (self.rules.balance.misfit_needs_larger_cpu && on_largest())
            || self.task_fits_cpu(task, cpu)
        {
            return 0;
        }
        reached(Mark::Misfit);
        self.task_h_load(task).max(1)
    }

    /// Whether a CPU that runs a misfit task asks idle ones for help (`check_misfit_status`).
    pub(crate) fn check_misfit_status(&self, cpu: Cpu, imbalance_pct: u32) -> bool {
        let could_be_faster = || {
            self.capacity_orig_of(cpu) < self.largest_capacity(&CpuSet::first(self.cpus()))
                || self.check_cpu_capacity(cpu, imbalance_pct)
        };
        self.rqs[cpu].misfit_task_load > 0
            && (self.rules.balance.misfit_always_kicks || could_be_faster())
    }

    /// Whether all of a CPU's core is idle, or cores have one thread each.
    #[inline]
    pub(crate) fn has_whole_core(&self, cpu: Cpu) -> bool {
        !self.domains.smt_active || self.domains.is_core_idle(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::{capacity_greater, fits_capacity};

    #[test]
    fn worked_example_of_the_module_docs() {
        assert!(fits_capacity(356, 446) && !fits_capacity(357, 446));
        assert!(capacity_greater(446, 423) && !capacity_greater(446, 424));
    }
}
