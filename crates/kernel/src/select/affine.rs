//! The waking CPU or the previous one (`wake_affine`).
//!
//! Worked example (6.12, both CPUs of capacity 1024, percentage 117): CPU 0 wakes a task of load 500
//! that last ran on CPU 1, no sync, neither CPU idle. Loads are 700 and 1800. Here it would be
//! (700 + 500) · 100 = 120000, there (1800 − 500) · 108 = 140400: the waking CPU.

use super::WakeAffine;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::Mark;

/// Names the outcome of the comparison of loads.
fn by_weight(this_is_lighter: bool) -> Mark {
    if this_is_lighter {
        Mark::AffineWeightThis
    } else {
        Mark::AffineWeightPrev
    }
}

impl Kernel {
    /// Chooses between the waking CPU and `prev`; `row` is the lowest domain that has both.
    pub(super) fn wake_affine(
        &mut self,
        row: u32,
        task: TaskId,
        this: Cpu,
        prev: Cpu,
        sync: bool,
    ) -> (Cpu, Mark) {
        let (affine, rule) = match self.rules.placement.wake_affine {
            WakeAffine::EffectiveLoad => (
                self.wake_affine_effective(row, task, this, prev, sync),
                Mark::AffineEffective,
            ),
            WakeAffine::NodeLoad => (
                self.domains.share_cache(this, prev)
                    || self.wake_affine_nodes(row, task, this, prev, sync),
                Mark::AffineNodes,
            ),
            WakeAffine::IdleThenWeight => {
                let by_idle = if self.rules.features.wa_idle {
                    self.wake_affine_idle(this, prev, sync)
                } else {
                    None
                };
                match by_idle {
                    Some((cpu, rule)) => (cpu == this, rule),
                    None if self.rules.features.wa_weight => {
                        let rule = self.wake_affine_weight(row, task, this, prev, sync);
                        (rule != Mark::AffineWeightPrev, rule)
                    }
                    None => (false, Mark::AffineOff),
                }
            }
        };
        (if affine { this } else { prev }, rule)
    }

    /// `wake_affine_idle`: a CPU by idleness, `None` when undecided.
    pub(super) fn wake_affine_idle(&self, this: Cpu, prev: Cpu, sync: bool) -> Option<(Cpu, Mark)> {
        let rules = &self.rules.placement;
        if self.available_idle_cpu(this) {
            if !rules.wa_idle_needs_cache {
                return Some((this, Mark::AffineThisIdle));
            }
            // An idle waking CPU means an interrupt; only a shared cache makes that a reason to move,
            // and not when the previous CPU is idle too.
            if self.domains.share_cache(this, prev) {
                return Some(if self.available_idle_cpu(prev) {
                    (prev, Mark::AffineBothIdle)
                } else {
                    (this, Mark::AffineThisIdle)
                });
            }
        }
        if sync && self.runs_only_waker(this) {
            return Some((this, Mark::AffineSync));
        }
        let prev_idle = rules.wa_idle_prefers_prev && self.available_idle_cpu(prev);
        prev_idle.then_some((prev, Mark::AffinePrevIdle))
    }

    fn runs_only_waker(&self, cpu: Cpu) -> bool {
        let mut nr_running = self.rqs[cpu.index()].nr_running;
        if self.rules.placement.wa_idle_ignores_delayed {
            let cfs_rq = &self.cfs_rqs[cpu.index()];
            nr_running -= cfs_rq.h_nr_queued - cfs_rq.h_nr_runnable;
        }
        nr_running == 1
    }

    /// `wake_affine_weight`: whether the waking CPU would have the lighter load.
    fn wake_affine_weight(
        &mut self,
        row: u32,
        task: TaskId,
        this: Cpu,
        prev: Cpu,
        sync: bool,
    ) -> Mark {
        let mut load_here = self.wake_load(this) as i64;
        if sync {
            let waker_load = self.task_h_load(self.rqs[this.index()].curr) as i64;
            if waker_load > load_here {
                return Mark::AffineWakerHeavy;
            }
            load_here -= waker_load;
        }
        let task_load = self.task_h_load(task) as i64;
        let bias = self.rules.features.wa_bias;
        let pct = i64::from(self.domains.domain(row).imbalance_pct);
        let capacity = |cpu: Cpu| self.capacity_of(cpu) as i64;
        let mut here = load_here + task_load;
        let mut there = self.wake_load(prev) as i64 - task_load;
        if bias {
            here *= 100;
            there *= 100 + (pct - 100) / 2;
        }
        here *= capacity(prev);
        there *= capacity(this);
        if !self.rules.placement.wa_weight_keeps_equal {
            return by_weight(here <= there);
        }
        // A waker that sleeps soon may have the wakee on top when loads are equal.
        by_weight(here < there + i64::from(sync))
    }

    /// Load compared at wakeups: queued load before 5.5, `load_avg` from then on.
    fn wake_load(&self, cpu: Cpu) -> u64 {
        match self.rules.balance.busiest_group {
            crate::balance::BusiestGroup::AverageLoad => self.weighted_cpuload(cpu),
            crate::balance::BusiestGroup::GroupTypes => self.cpu_load(cpu),
        }
    }

    /// 4.13: the same comparison between the nodes of the two CPUs (`numa_wake_affine`).
    fn wake_affine_nodes(
        &mut self,
        row: u32,
        task: TaskId,
        this: Cpu,
        prev: Cpu,
        sync: bool,
    ) -> bool {
        let (mut load_here, capacity_here) = self.node_load(this);
        let (load_there, capacity_there) = self.node_load(prev);
        if sync {
            load_here -= self.task_h_load(self.rqs[this.index()].curr) as i64;
        }
        if load_here <= 0 {
            return true;
        }
        let task_load = self.task_h_load(task) as i64;
        let pct = i64::from(self.domains.domain(row).imbalance_pct);
        let here = 100 * capacity_there * (load_here + task_load);
        let there = (100 + (pct - 100) / 2) * capacity_here * (load_there - task_load);
        here <= there
    }

    fn node_load(&self, cpu: Cpu) -> (i64, i64) {
        let node = self.domains.node_of[cpu.index()] as usize;
        let cpus = self.domains.nodes[node].iter();
        cpus.fold((0, 0), |(load, capacity), cpu| {
            (
                load + self.weighted_cpuload(cpu) as i64,
                capacity + self.capacity_of(cpu) as i64,
            )
        })
    }

    /// Up to 4.12: compares what the two CPUs would weigh, the shares of the groups recomputed.
    fn wake_affine_effective(
        &self,
        row: u32,
        task: TaskId,
        this: Cpu,
        prev: Cpu,
        sync: bool,
    ) -> bool {
        let weight = |task: TaskId| {
            let se = self.tasks[task.index()].se;
            self.entities[se.index()].avg.load_avg as i64
        };
        let mut load_here = self.weighted_cpuload(this) as i64;
        let mut load_there = self.weighted_cpuload(prev) as i64;
        if sync {
            let waker = self.rqs[this.index()].curr;
            let leaving = weight(waker);
            load_here += self.effective_load(waker, this, -leaving, -leaving);
            load_there += self.effective_load(waker, prev, 0, -leaving);
        }
        let pct = i64::from(self.domains.domain(row).imbalance_pct);
        let mut here = 100 * self.capacity_of(prev) as i64;
        let mut there = (100 + (pct - 100) / 2) * self.capacity_of(this) as i64;
        if load_here > 0 {
            let coming = weight(task);
            here *= load_here + self.effective_load(task, this, coming, coming);
            there *= load_there + self.effective_load(task, prev, 0, coming);
        }
        here <= there
    }

    /// Change of a CPU's load when `load` joins the task's group there and the group as a whole gets
    /// `whole` heavier (`effective_load`).
    fn effective_load(&self, task: TaskId, cpu: Cpu, mut load: i64, mut whole: i64) -> i64 {
        let mut group = self.tasks[task.index()].group;
        while let Some(parent) = self.groups[group.index()].parent {
            let cfs_rq = &self.cfs_rqs[self.cfs_rq_of(group, cpu).index()];
            let queue_load = cfs_rq.avg.load_avg as i64;
            let total = whole + self.groups[group.index()].load_avg as i64
                - cfs_rq.tg_load_avg_contrib as i64
                + queue_load;
            let part = queue_load + load;
            let shares = (self.groups[group.index()].shares >> 10) as i64;
            let weight = if total > 0 && part < total {
                part * shares / total
            } else {
                shares
            };
            let entity_load = cfs_rq
                .se
                .map_or(0, |se| self.entities[se.index()].avg.load_avg as i64);
            load = weight.max(2) - entity_load;
            whole = 0;
            group = parent;
        }
        load
    }
}
