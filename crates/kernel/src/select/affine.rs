//! The waking CPU or the previous one (`wake_affine`).
//!
//! Worked example (6.12, both CPUs of capacity 1024, percentage 117): CPU 0 wakes a task of load
//! 500 that last ran on CPU 1, no sync, neither CPU idle. Loads are 700 and 1800. Here it would be
//! (700 + 500) · 100 = 120000, there (1800 − 500) · 108 = 140400: the waking CPU.

use super::WakeAffine;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::Mark;
use crate::rules::hooks::Waking;

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
    pub(super) fn wake_affine(&mut self, row: u32, wake: Waking) -> (Cpu, Mark) {
        let (this, prev) = (wake.waker_cpu, wake.prev);
        if let Some(to_waker) = self.rules.own.wake_affine(self, || wake) {
            return (if to_waker { this } else { prev }, Mark::OwnAffine);
        }
        let (affine, rule) = match self.rules.placement.wake_affine {
            WakeAffine::EffectiveLoad => {
                (self.wake_affine_effective(row, wake), Mark::AffineEffective)
            }
            WakeAffine::NodeLoad => (
                self.domains.share_cache(this, prev) || self.wake_affine_nodes(row, wake),
                Mark::AffineNodes,
            ),
            WakeAffine::IdleThenWeight => {
                let by_idle = if self.rules.features.wa_idle {
                    self.wake_affine_idle(this, prev, wake.sync)
                } else {
                    None
                };
                match by_idle {
                    Some((cpu, rule)) => (cpu == this, rule),
                    None if self.rules.features.wa_weight => {
                        let rule = self.wake_affine_weight(row, wake);
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
            // An idle waking CPU means an interrupt; only a shared cache makes that a reason to
            // move, and not when the previous CPU is idle too.
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
        let nr_running = match self.rules.placement.wa_idle_ignores_delayed {
            true => self.nr_undelayed(cpu),
            false => self.rqs[cpu].nr_running,
        };
        nr_running == 1
    }

    /// Tasks on a CPU but those that sleep and whose dequeue is delayed.
    pub(super) fn nr_undelayed(&self, cpu: Cpu) -> u32 {
        let cfs_rq = &self.cfs_rqs[cpu];
        self.rqs[cpu].nr_running - (cfs_rq.h_nr_queued - cfs_rq.h_nr_runnable)
    }

    /// `wake_affine_weight`: whether the waking CPU would have the lighter load.
    fn wake_affine_weight(&mut self, row: u32, wake: Waking) -> Mark {
        let (this, prev) = (wake.waker_cpu, wake.prev);
        let mut load_here = self.wake_load(this) as i64;
        if wake.sync {
            let waker_load = self.task_h_load(self.rqs[this].curr) as i64;
            if waker_load > load_here {
                return Mark::AffineWakerHeavy;
            }
            load_here -= waker_load;
        }
        let task_load = self.task_h_load(wake.task) as i64;
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
        by_weight(here < there + i64::from(wake.sync))
    }

    /// Load compared at wakeups: queued load before 5.5, `load_avg` from then on.
    fn wake_load(&self, cpu: Cpu) -> u64 {
        match self.rules.balance.busiest_group {
            crate::balance::BusiestGroup::AverageLoad => self.weighted_cpuload(cpu),
            crate::balance::BusiestGroup::GroupTypes => self.cpu_load(cpu),
        }
    }

    /// 4.13: the same comparison between the nodes of the two CPUs (`numa_wake_affine`).
    fn wake_affine_nodes(&mut self, row: u32, wake: Waking) -> bool {
        let (this, prev) = (wake.waker_cpu, wake.prev);
        let (mut load_here, capacity_here) = self.node_load(this);
        let (load_there, capacity_there) = self.node_load(prev);
        if wake.sync {
            load_here -= self.task_h_load(self.rqs[this].curr) as i64;
        }
        if load_here <= 0 {
            return true;
        }
        let task_load = self.task_h_load(wake.task) as i64;
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
    fn wake_affine_effective(&self, row: u32, wake: Waking) -> bool {
        let (this, prev) = (wake.waker_cpu, wake.prev);
        let weight = |task: TaskId| {
            let se = self.tasks[task].se;
            self.entities[se].avg.load_avg as i64
        };
        let mut load_here = self.weighted_cpuload(this) as i64;
        let mut load_there = self.weighted_cpuload(prev) as i64;
        if wake.sync {
            let waker = self.rqs[this].curr;
            let leaving = weight(waker);
            load_here += self.effective_load(waker, this, -leaving, -leaving);
            load_there += self.effective_load(waker, prev, 0, -leaving);
        }
        let pct = i64::from(self.domains.domain(row).imbalance_pct);
        let mut here = 100 * self.capacity_of(prev) as i64;
        let mut there = (100 + (pct - 100) / 2) * self.capacity_of(this) as i64;
        if load_here > 0 {
            let coming = weight(wake.task);
            here *= load_here + self.effective_load(wake.task, this, coming, coming);
            there *= load_there + self.effective_load(wake.task, prev, 0, coming);
        }
        here <= there
    }

    /// Change of a CPU's load when `load` joins the task's group there and the group as a whole
    /// gets `whole` heavier (`effective_load`).
    fn effective_load(&self, task: TaskId, cpu: Cpu, mut load: i64, mut whole: i64) -> i64 {
        let mut group = self.tasks[task].group;
        while let Some(parent) = self.groups[group].parent {
            let cfs_rq = &self.cfs_rqs[self.cfs_rq_of(group, cpu)];
            let queue_load = cfs_rq.avg.load_avg as i64;
            let total = whole + self.groups[group].load_avg as i64
                - cfs_rq.tg_load_avg_contrib as i64
                + queue_load;
            let part = queue_load + load;
            let shares = (self.groups[group].shares >> 10) as i64;
            let weight = if total > 0 && part < total {
                part * shares / total
            } else {
                shares
            };
            let entity_load = cfs_rq
                .se
                .map_or(0, |se| self.entities[se].avg.load_avg as i64);
            load = weight.max(2) - entity_load;
            whole = 0;
            group = parent;
        }
        load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Policy;
    use crate::tests::world::World;

    fn from_0_to_1(task: TaskId, sync: bool) -> Waking {
        Waking {
            task,
            waker_cpu: Cpu(0),
            prev: Cpu(1),
            sync,
        }
    }

    /// 4.12, two CPUs and a group with 400 of its load of 1000 on CPU 0 and 600 on CPU 1. Its
    /// entities weigh their part of 1024 shares there, 409 and 614. A task of the group runs on
    /// each CPU; the CPUs' loads are 700 and 1000. Gives them, the one on CPU 0 with a load of 300,
    /// and a third of 500.
    fn group_on_two_cpus() -> (World, [TaskId; 3]) {
        group_beside_a_load_of(700)
    }

    /// The same with another load of CPU 0.
    fn group_beside_a_load_of(load_here: u64) -> (World, [TaskId; 3]) {
        let mut world = World::new("4.12", 2);
        world.checked = false;
        let group = world.group(crate::ids::GroupId::ROOT);
        let tasks = [0, 1, 1].map(|cpu| world.spawn_in(group, Cpu(cpu), Policy::Normal, 0));
        // The other tasks there are tasks of the root group.
        let others = [0, 1].map(|cpu| world.spawn(Cpu(cpu)));
        let kernel = &mut world.kernel;
        kernel.groups[group].load_avg = 1000;
        let loads = [(0, 400, 409, load_here), (1, 600, 614, 1000)];
        for (cpu, load, entity_load, cpu_load) in loads {
            let q = kernel.cfs_rq_of(group, Cpu::from(cpu));
            let queue = &mut kernel.cfs_rqs[q];
            queue.avg.load_avg = load;
            queue.tg_load_avg_contrib = load;
            let se = queue.se.unwrap();
            kernel.entities[se].avg.load_avg = entity_load;
            let se = kernel.tasks[others[cpu]].se;
            kernel.entities[se].avg.load_avg = cpu_load - entity_load;
        }
        for (task, load) in [(tasks[0], 300), (tasks[2], 500)] {
            let se = world.kernel.tasks[task].se;
            world.kernel.entities[se].avg.load_avg = load;
        }
        (world, tasks)
    }

    #[test]
    fn a_group_that_grows_on_one_cpu_weighs_less_on_the_other() {
        let (world, [waker, _, task]) = group_on_two_cpus();
        let kernel = &world.kernel;
        // With 500 more on CPU 0 the group has 1500. CPU 0: 900 · 1024 / 1500 = 614, 205 more than
        // 409; CPU 1: 600 · 1024 / 1500 = 409, 205 less than 614.
        assert_eq!(kernel.effective_load(task, Cpu(0), 500, 500), 205);
        assert_eq!(kernel.effective_load(task, Cpu(1), 0, 500), -205);
        // With 300 less on CPU 0 it has 700: 100 · 1024 / 700 = 146 and 600 · 1024 / 700 = 877.
        assert_eq!(kernel.effective_load(waker, Cpu(0), -300, -300), -263);
        assert_eq!(kernel.effective_load(waker, Cpu(1), 0, -300), 263);
    }

    #[test]
    fn both_ends_of_a_wakeup_are_weighed_with_their_groups() {
        let (mut world, [waker, _, task]) = group_on_two_cpus();
        let row = world.kernel.domains.rows(Cpu(0)).next().unwrap();
        world.kernel.rqs[0].curr = waker;
        let kernel = &world.kernel;
        assert_eq!(
            [0, 1].map(|cpu| kernel.weighted_cpuload(Cpu(cpu))),
            [700, 1000]
        );
        let here = |sync| kernel.wake_affine_effective(row, from_0_to_1(task, sync));
        // 100 · (700 + 205) = 90500 > 108 · (1000 − 205) = 85860: it stays.
        assert!(!here(false));
        // The waker leaves: 100 · (700 − 263 + 205) = 64200 ≤ 108 · (1000 + 263 − 205) = 114264.
        assert!(here(true));
    }

    #[test]
    fn a_wakeup_in_sync_weighs_both_ends_to_the_last_unit() {
        // 108 · (1000 + 263 − 205) = 114264: 100 · (L − 263 + 205) is less up to L = 1200.
        for (load_here, affine) in [(1200, true), (1201, false)] {
            let (mut world, [waker, _, task]) = group_beside_a_load_of(load_here);
            let row = world.kernel.domains.rows(Cpu(0)).next().unwrap();
            world.kernel.rqs[0].curr = waker;
            let found = world
                .kernel
                .wake_affine_effective(row, from_0_to_1(task, true));
            assert_eq!(found, affine, "{load_here}");
        }
    }

    /// Above the group that a task joins there is one whose total does not change: its queue on CPU
    /// 0 has 512 of 1024 and its entity weighs half of 1024 shares. Below, the entity of 100 gets
    /// 200 of 400: as if 100 joined, 612 of 1024.
    #[test]
    fn above_the_group_that_a_task_joins_only_the_queue_grows() {
        let mut world = World::new("4.12", 2);
        world.checked = false;
        let outer = world.group(crate::ids::GroupId::ROOT);
        let inner = world.group(outer);
        let task = world.spawn_in(inner, Cpu(0), Policy::Normal, 0);
        let kernel = &mut world.kernel;
        for (group, queue_load, total, entity_load, shares) in
            [(inner, 100, 300, 100, 400), (outer, 512, 1024, 512, 1024)]
        {
            kernel.groups[group].shares = shares << 10;
            kernel.groups[group].load_avg = total;
            let q = kernel.cfs_rq_of(group, Cpu(0));
            let queue = &mut kernel.cfs_rqs[q];
            (queue.avg.load_avg, queue.tg_load_avg_contrib) = (queue_load, queue_load);
            let se = queue.se.unwrap();
            kernel.entities[se].avg.load_avg = entity_load;
        }
        // (100 + 100) · 400 / (300 + 100) − 100 = 100, then 612 · 1024 / 1024 − 512 = 100.
        assert_eq!(world.kernel.effective_load(task, Cpu(0), 100, 100), 100);
    }

    /// 4.13, two nodes of one CPU, whose distance is worth 25 %: 100 · (here + 50) is compared with
    /// 112 · (there − 50).
    #[test]
    fn nodes_are_compared_with_half_of_what_their_distance_is_worth() {
        for (load_here, load_there, affine) in [
            (62, 150, true),
            (63, 150, false),
            // Where nothing runs the task is welcome, however little there is to leave.
            (0, 10, true),
            (1, 10, false),
        ] {
            let topology = crate::topology::Topology::regular(2, 1, 1, 1);
            let mut world = World::on(topology, "4.13", |_| {});
            world.checked = false;
            let task = world.spawn(Cpu(1));
            world.block(Cpu(1));
            let busy = [0, 1].map(|cpu| world.spawn(Cpu(cpu)));
            let row = world.kernel.domains.rows(Cpu(0)).last().unwrap();
            assert_eq!(world.kernel.domains.domain(row).imbalance_pct, 125);
            // 51 · 1000 / 1001, rounded down, is a load of 50.
            world.kernel.cfs_rqs[1].avg.load_avg = 1000;
            for (task, load) in [(task, 51), (busy[0], load_here), (busy[1], load_there)] {
                let se = world.kernel.tasks[task].se;
                world.kernel.entities[se].avg.load_avg = load;
            }
            let kernel = &mut world.kernel;
            let found = kernel.wake_affine_nodes(row, from_0_to_1(task, false));
            assert_eq!(found, affine, "{load_here} {load_there}");
        }
    }
}
