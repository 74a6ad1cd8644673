//! An idle CPU that shares the target's last level cache (`select_idle_sibling`).
//!
//! Worked example: target CPU 2 is busy, the previous CPU 5 is busy, the task ran on CPU 7 before
//! that, and CPU 7 is idle and shares the cache: CPU 7, without a scan. That rule (4.16) keeps a
//! task that is woken in turn from two CPUs on those two.

use super::{IdleScan, SchedIdleCpus};
use crate::ids::{Cpu, TaskId};
use crate::kernel::{Context, Kernel};
use crate::model::{Mark, reached};
use crate::platform::{Access, Line, Platform};
use crate::rules::hooks::Placement;

impl Kernel {
    /// Searches from the cheapest candidate to the dearest; the target itself when nothing is idle.
    pub(super) fn select_idle_sibling<P: Platform>(
        &mut self,
        p: &mut P,
        this: Cpu,
        task: TaskId,
        prev: Cpu,
        target: Cpu,
        context: Context,
    ) -> Cpu {
        let asked = || Placement {
            task,
            waker_cpu: this,
            prev,
            target,
        };
        if let Some(cpu) = self.rules.own.select_idle_sibling(self, asked) {
            self.because::<P>(Mark::OwnRule);
            return cpu;
        }
        if self.domains.asym_active {
            self.sync_entity_load_avg(self.tasks[task].se);
        }
        if self.is_idle_candidate(target) && self.asym_fits_cpu(task, target) {
            self.because::<P>(Mark::TargetIdle);
            return target;
        }
        let clusters = self.rules.placement.cluster_scan && self.domains.cluster_active;
        let near =
            |kernel: &Self, cpu: Cpu| !clusters || kernel.domains.share_resources(cpu, target);
        let mut spare = None;
        if prev != target
            && self.domains.share_cache(prev, target)
            && self.is_idle_candidate(prev)
            && self.asym_fits_cpu(task, prev)
        {
            self.because::<P>(Mark::PrevIdle);
            if near(self, prev) {
                return prev;
            }
            spare = Some(prev);
        }
        if self.may_stack_on_waker(this, prev, context) && self.asym_fits_cpu(task, prev) {
            self.because::<P>(Mark::KthreadStacking);
            return prev;
        }
        if let Some(recent) = self.recent_used_cpu(task, prev, target) {
            if spare.is_none() {
                self.because::<P>(Mark::RecentCpuIdle);
            }
            if near(self, recent) {
                return recent;
            }
            spare = spare.or(Some(recent));
        }
        if spare.is_none() {
            self.because::<P>(Mark::NothingIdle);
        }
        if let Some(row) = self.domains.cpus[target].asym {
            return self
                .select_idle_capacity(p, row, task, target)
                .unwrap_or(target);
        }
        if self.domains.cpus[target].llc.is_none() {
            return target;
        }
        let found = match self.rules.placement.idle_scan {
            IdleScan::IdleGroups => self.scan_idle_groups(p, task, target),
            IdleScan::ThreePasses => self.scan_three_passes(p, this, task, target),
            IdleScan::OnePass => self.scan_one_pass(p, this, task, prev, target),
        };
        found.or(spare).unwrap_or(target)
    }

    /// Status of CPUs with nothing but SCHED_IDLE tasks for the task that is being placed
    /// (`choose_sched_idle_rq`).
    #[inline]
    pub(super) fn sched_idle_cpus(&self) -> SchedIdleCpus {
        match self.domains.places_idle_policy && self.rules.placement.sched_idle_cpus_for_others {
            true => SchedIdleCpus::Busy,
            false => self.rules.placement.sched_idle_cpus,
        }
    }

    /// Idle, or good as idle because only SCHED_IDLE tasks run there.
    #[inline]
    pub(super) fn is_idle_candidate(&self, cpu: Cpu) -> bool {
        self.available_idle_cpu(cpu)
            || self.domains.claims.is_unseen(cpu)
            || (self.sched_idle_cpus() != SchedIdleCpus::Busy && self.sched_idle_cpu(cpu))
    }

    /// A per-CPU kernel thread that completes work for a task of its own CPU will sleep at once:
    /// the wakeup is as good as sync, and the task stays (5.6).
    fn may_stack_on_waker(&self, this: Cpu, prev: Cpu, context: Context) -> bool {
        let rules = &self.rules.placement;
        if !rules.per_cpu_kthread_stacks || prev != this {
            return false;
        }
        let rq = &self.rqs[this];
        let waker = &self.tasks[rq.curr];
        waker.is_kernel_thread()
            && waker.nr_cpus_allowed == 1
            && (context == Context::Task || !rules.per_cpu_kthread_in_task_only)
            && rq.nr_running <= 1
    }

    /// The CPU the task used before the previous one, if idle, and its upkeep (4.16).
    pub(super) fn recent_used_cpu(&mut self, task: TaskId, prev: Cpu, target: Cpu) -> Option<Cpu> {
        if !self.rules.recent_used_cpu {
            return None;
        }
        let rules = &self.rules.placement;
        let (at_hit_only, tests_prev) = (
            rules.recent_used_cpu_of_waker,
            rules.recent_used_cpu_tests_prev,
        );
        let record = &mut self.tasks[task];
        let recent = record.recent_used_cpu;
        if !at_hit_only {
            record.recent_used_cpu = prev;
        }
        let tested = if tests_prev { prev } else { recent };
        let hit = recent != prev
            && recent != target
            && record.affinity.contains(tested)
            && self.domains.share_cache(recent, target)
            && self.is_idle_candidate(recent)
            && self.asym_fits_cpu(task, recent);
        if hit && at_hit_only {
            self.tasks[task].recent_used_cpu = prev;
        }
        hit.then_some(recent)
    }

    /// `test_idle_cores`: the hint, which lives in a line shared by the LLC.
    pub(super) fn test_idle_cores<P: Platform>(&self, p: &mut P, cpu: Cpu) -> bool {
        if !self.domains.smt_active {
            return false;
        }
        self.domains.balance_shared(cpu).is_some_and(|shared| {
            p.touch(self.here, Line::LlcIdleHints(shared.id), Access::Read);
            shared.has_idle_cores
        })
    }

    /// A search found no idle core (`set_idle_cores`).
    pub(super) fn clear_idle_cores<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if let Some(row) = self.domains.cpus[cpu].balance_shared {
            let shared = &mut self.domains.shared[row as usize];
            reached(Mark::IdleCoresCleared);
            shared.has_idle_cores = false;
            p.touch(self.here, Line::LlcIdleHints(shared.id), Access::Write);
        }
    }
}
