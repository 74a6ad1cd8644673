//! An idle CPU with the capacity that a task needs (`select_idle_capacity`, `asym_fits_cpu`).
//!
//! Worked example (capacities 446 on CPUs 0–3 and 1024 on 4–7, all idle): a task with a utilisation
//! of 400 wakes, CPU 2 is the target. It does not fit there, so the search goes 2, 3, 4 and ends at
//! CPU 4, the first on which it fits. While CPUs 4–7 are busy it goes to CPU 2, the first of the
//! largest idle ones.

use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::uclamp;

/// How well an idle CPU fits a task, best first (`enum asym_fits_state` of 7.2; before, whole cores
/// did not count).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// An idle core with the capacity, but not with the least that was asked for (`uclamp`).
    CoreAllButMin,
    /// An idle core without the capacity.
    CoreMisfit,
    /// A thread with the capacity, its core busy.
    ThreadFits,
    /// A thread with the capacity, but not with the least that was asked for.
    ThreadAllButMin,
    /// A thread without it.
    ThreadMisfit,
}

impl Kernel {
    /// Whether a wakeup may take a CPU without looking for a better one (`asym_fits_cpu`).
    #[inline]
    pub(super) fn asym_fits_cpu(&self, task: TaskId, cpu: Cpu) -> bool {
        let any_core = !self.rules.balance.asym_looks_at_cores;
        !self.domains.asym_active
            || ((any_core || self.has_whole_core(cpu)) && self.task_fits_cpu(task, cpu))
    }

    /// The first idle CPU on which the task fits, in the lowest domain that has all capacities;
    /// else the idle one with the most capacity (`select_idle_capacity`).
    pub(super) fn select_idle_capacity<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        task: TaskId,
        target: Cpu,
    ) -> Option<Cpu> {
        let has_idle_core =
            self.rules.balance.asym_looks_at_cores && self.test_idle_cores(p, target);
        let mut looks = u32::MAX;
        let limited = self.rules.balance.asym_scan_is_limited && self.rules.features.sis_util;
        if let Some(shared) = self.domains.balance_shared(target).filter(|_| limited) {
            looks = shared.nr_idle_scan;
            if looks == 0 {
                reached(Mark::SisUtilNone);
                return None;
            }
            reached(Mark::SisUtilLimit);
        }
        let span = self.domains.domain(row).span;
        let cpus = span.and(&self.tasks[task].affinity);
        let (util, clamps) = (self.util_needed(task), self.clamps_of(task));
        let (mut best, mut best_fit, mut best_capacity) = (None, Fit::ThreadMisfit, 0);
        for cpu in cpus.iter_wrap(target) {
            let whole_core = !has_idle_core || self.domains.is_core_idle(cpu);
            if !has_idle_core {
                if looks == 0 {
                    return best;
                }
                looks -= 1;
            }
            self.look(p, 1);
            if !self.is_idle_candidate(cpu) {
                continue;
            }
            let mut capacity = self.capacity_of(cpu);
            let idle_core = whole_core && has_idle_core;
            let fit = match self.util_fits_cpu(util, clamps, cpu) {
                uclamp::Fit::Yes if whole_core => {
                    self.because::<P>(Mark::CapacityFits);
                    return Some(cpu);
                }
                uclamp::Fit::Yes => Fit::ThreadFits,
                uclamp::Fit::AllButMin => {
                    capacity = self.capacity_orig_of(cpu);
                    match idle_core {
                        true => Fit::CoreAllButMin,
                        false => Fit::ThreadAllButMin,
                    }
                }
                uclamp::Fit::No if idle_core => Fit::CoreMisfit,
                uclamp::Fit::No => Fit::ThreadMisfit,
            };
            if fit < best_fit || (fit == best_fit && capacity > best_capacity) {
                (best, best_fit, best_capacity) = (Some(cpu), fit, capacity);
                self.because::<P>(Mark::CapacityLargest);
            }
        }
        if has_idle_core && best_fit > Fit::CoreMisfit {
            self.clear_idle_cores(p, target);
        }
        best
    }
}
