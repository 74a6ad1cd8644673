//! Which CPU a waking real-time task goes to.
//!
//! It stays where it was unless a task that cannot make room runs there: an equally or more urgent
//! real-time task, or a pinned one. Then the least urgent CPUs it may use are looked up (`cpupri`).
//! Worked example: CPUs 0..3 run priorities 60, none, 40, none. A task of priority 50 that last ran
//! on CPU 0 finds the least urgent set {1, 3}; if it is woken on CPU 3 that one is taken, else the
//! nearest.

use super::NO_RT_PRIO;
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::select::WakeKind;

impl Kernel {
    /// The CPUs among those allowed that run the least urgent work, if that is less urgent than the
    /// task (`cpupri_find`).
    pub(crate) fn cpupri_find(&self, task: TaskId) -> Option<CpuSet> {
        self.cpupri_find_among(task, |_| true)
    }

    /// The same among those that are large enough for the task; all of them, if none is
    /// (`cpupri_find_fitness`).
    fn cpupri_find_fitness(&self, task: TaskId) -> Option<CpuSet> {
        if self.domains.asym_active && self.rules.uclamp {
            let fits = |cpu| self.rt_task_fits_capacity(task, cpu);
            let found = self.cpupri_find_among(task, fits);
            if found.is_some() {
                reached(Mark::RtCapacity);
                return found;
            }
        }
        self.cpupri_find(task)
    }

    fn cpupri_find_among(
        &self,
        task: TaskId,
        mut among: impl FnMut(Cpu) -> bool,
    ) -> Option<CpuSet> {
        let prio = self.prio(task);
        let mut least_urgent = prio;
        let mut lowest = CpuSet::EMPTY;
        let record = &self.tasks[task];
        let allowed = self.topology.root_span(record.cpu).and(&record.affinity);
        for cpu in allowed.iter() {
            let rq = &self.rqs[cpu];
            if rq.rt.behind_deadlines || !among(cpu) {
                continue;
            }
            let highest = rq.rt.highest_prio();
            if highest > least_urgent {
                least_urgent = highest;
                lowest = CpuSet::EMPTY;
            }
            if highest == least_urgent && highest > prio {
                lowest.insert(cpu);
            }
            debug_assert!(highest <= NO_RT_PRIO);
        }
        (!lowest.is_empty()).then_some(lowest)
    }

    /// `select_task_rq_rt`: only wakeup and fork look for a CPU.
    #[cold]
    #[inline(never)]
    pub(crate) fn select_task_rq_rt(&mut self, task: TaskId, kind: WakeKind) -> Cpu {
        let record = &self.tasks[task];
        let cpu = record.cpu;
        if kind == WakeKind::Exec {
            return cpu;
        }
        let curr = self.rqs[cpu].curr;
        let curr_prio = self.curr_prio(cpu);
        let makes_room = curr_prio >= NO_RT_PRIO
            || (self.rules.rt_is_not_deadline && self.runs_deadline_task(cpu))
            || (self.tasks[curr].nr_cpus_allowed > 1 && curr_prio > self.prio(task));
        if makes_room && self.rt_task_fits_capacity(task, cpu) {
            return cpu;
        }
        reached(Mark::RtPlace);
        let target = self.find_lowest_rq(task);
        match target {
            // It was only to find a larger one.
            Some(target) if makes_room && !self.rt_task_fits_capacity(task, target) => cpu,
            Some(target) if self.prio(task) < self.rqs[target].rt.highest_prio() => target,
            _ => cpu,
        }
    }

    /// The best of the least urgent CPUs: the task's own, the executing one, one near the task's
    /// (`find_lowest_rq`).
    pub(crate) fn find_lowest_rq(&mut self, task: TaskId) -> Option<Cpu> {
        let record = &self.tasks[task];
        if record.nr_cpus_allowed == 1 {
            return None;
        }
        let cpu = record.cpu;
        let lowest = self.cpupri_find_fitness(task)?;
        Some(self.nearest_of(cpu, &lowest))
    }

    /// Of equally good CPUs the one given, the executing one, one near the one given.
    pub(crate) fn nearest_of(&mut self, cpu: Cpu, good: &CpuSet) -> Cpu {
        let here = self.here;
        if good.contains(cpu) {
            return cpu;
        }
        let here_will_do = good.contains(here);
        for row in self.domains.rows(cpu) {
            let domain = self.domains.domain(row);
            if !domain.flags.wake_affine {
                continue;
            }
            if here_will_do && domain.span.contains(here) {
                return here;
            }
            let near = good.and(&domain.span);
            if !near.is_empty() {
                return self.any_lowest(&near);
            }
        }
        if here_will_do {
            here
        } else {
            self.any_lowest(good)
        }
    }

    /// The first CPU; in turn from 5.11 (`cpumask_any_and_distribute`).
    fn any_lowest(&mut self, cpus: &CpuSet) -> Cpu {
        if self.rules.rt_distributes {
            self.any_and_distribute(self.here, cpus)
        } else {
            cpus.lowest().unwrap_or(self.here)
        }
    }
}
