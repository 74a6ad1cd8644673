//! The idlest CPU for a task that starts or executes a program (`sched_balance_find_dst_cpu`,
//! `find_idlest_cpu`).
//!
//! Worked example (two nodes of 16 CPUs, kernel 6.12): CPU 0 forks while it is the only busy CPU.
//! At the NUMA level the local node has 15 idle CPUs and the other 16; a difference of 1 with 2
//! tasks, not more than `imb_numa_nr`, stays local. Inside the node each CPU is a group: the local
//! one has no idle CPU, the others have one each, so the first of them is chosen.

use super::{IdlestGroup, SchedIdleCpus, WakeKind};
use crate::balance::{GroupStats, GroupType, NumaAllowance, adjust_numa_imbalance};
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;

/// The searching task's own share of a CPU's statistics, to be left out.
#[derive(Clone, Copy, Default)]
pub(super) struct Own {
    pub(super) load: u64,
    pub(super) util: u64,
    pub(super) runnable: u64,
    pub(super) queued: u32,
}

impl Kernel {
    /// Walks from domain `row` down to a single CPU.
    pub(super) fn find_idlest_cpu<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        task: TaskId,
        cpu: Cpu,
        prev: Cpu,
        kind: WakeKind,
    ) -> Cpu {
        let affinity = self.tasks[task].affinity;
        if !self.domains.domain(row).span.intersects(&affinity) {
            return prev;
        }
        if kind != WakeKind::Fork {
            self.sync_entity_load_avg(self.tasks[task].se);
        }
        let mut cpu = cpu;
        let mut new_cpu = cpu;
        let mut level = Some(row);
        while let Some(row) = level {
            let child = self.domains.domain(row).child;
            level = child;
            if !self.balances(row, kind) {
                continue;
            }
            reached(match self.rules.placement.idlest_group {
                IdlestGroup::GroupTypes => Mark::IdlestByType,
                IdlestGroup::SpareCapacity => Mark::IdlestBySpare,
                IdlestGroup::LoadRatio => Mark::IdlestByLoad,
            });
            let group = match self.rules.placement.idlest_group {
                IdlestGroup::GroupTypes => self.find_idlest_group(p, row, task, cpu),
                IdlestGroup::SpareCapacity => {
                    self.find_idlest_group_by_spare(p, row, task, cpu, kind)
                }
                IdlestGroup::LoadRatio => self.find_idlest_group_by_load(p, row, task, cpu),
            };
            let Some(group) = group else { continue };
            new_cpu = self.find_idlest_group_cpu(p, group, task, cpu);
            if new_cpu != cpu {
                cpu = new_cpu;
                level = self.highest_below(cpu, self.domains.domain(row).span_weight, kind);
            }
        }
        new_cpu
    }

    /// Highest domain of a CPU that is smaller than `weight` and balances.
    fn highest_below(&self, cpu: Cpu, weight: u32, kind: WakeKind) -> Option<u32> {
        let rows = self.domains.rows(cpu);
        rows.take_while(|&row| self.domains.domain(row).span_weight < weight)
            .filter(|&row| self.balances(row, kind))
            .last()
    }

    /// The CPU of a group that runs the task soonest: idle with the shallowest state, then most
    /// recently idle, then least loaded.
    pub(super) fn find_idlest_group_cpu<P: Platform>(
        &mut self,
        p: &mut P,
        group: u32,
        task: TaskId,
        this: Cpu,
    ) -> Cpu {
        let span = self.domains.groups[group as usize].span;
        if span.len() == 1 {
            return span.lowest().unwrap_or(this);
        }
        let sched_idle_cpus = self.sched_idle_cpus();
        let (mut shallowest, mut resort) = (None, None);
        let (mut min_latency_ns, mut latest_stamp) = (u64::MAX, 0);
        let (mut least_loaded, mut min_load) = (this, u64::MAX);
        let allowed = span.and(&self.tasks[task].affinity);
        self.look(p, allowed.len() as u32);
        for cpu in allowed.iter() {
            let only_sched_idle = self.sched_idle_cpu(cpu);
            if only_sched_idle && sched_idle_cpus == SchedIdleCpus::Idle {
                return cpu;
            }
            if self.available_idle_cpu(cpu) {
                let latency_ns = self.domains.cpus[cpu].idle_exit_latency_ns;
                let stamp = self.rqs[cpu].idle_stamp;
                let shallower = latency_ns.is_some_and(|latency| latency < min_latency_ns);
                let as_shallow = latency_ns.is_none_or(|latency| latency == min_latency_ns);
                // The kernel passes an idle CPU without a stamp: a task was woken there whose queue
                // is throttled. One that has not run since the world began is idle for longest.
                // At time 0 of a world a stamp cannot be told from none.
                let rq = &self.rqs[cpu];
                let idle = self.tasks[rq.idle].se;
                let never_ran = rq.clock == 0 || self.entities[idle].exec_start as i64 <= 0;
                let later = stamp > latest_stamp || (never_ran && shallowest.is_none());
                if shallower || (as_shallow && later) {
                    min_latency_ns = latency_ns.unwrap_or(min_latency_ns);
                    latest_stamp = stamp;
                    shallowest = Some(cpu);
                }
            } else if shallowest.is_none() && resort.is_none() {
                if only_sched_idle && sched_idle_cpus == SchedIdleCpus::LastResort {
                    resort = Some(cpu);
                    continue;
                }
                let load = self.load_for_idlest(cpu);
                if load < min_load {
                    (least_loaded, min_load) = (cpu, load);
                }
            }
        }
        reached(match shallowest.or(resort) {
            Some(_) => Mark::IdlestIdleCpu,
            None => Mark::IdlestLeastLoaded,
        });
        shallowest.or(resort).unwrap_or(least_loaded)
    }

    fn load_for_idlest(&self, cpu: Cpu) -> u64 {
        match self.rules.placement.idlest_group {
            IdlestGroup::GroupTypes => self.cpu_load(cpu),
            _ => self.weighted_cpuload(cpu),
        }
    }

    /// Task's own contribution to a CPU (`cpu_load_without` and its like).
    fn own_share(&mut self, cpu: Cpu, task: TaskId) -> Own {
        let record = &self.tasks[task];
        let (home, se, queued) = (record.cpu, record.se, record.on_rq);
        let avg = self.entities[se].avg;
        if cpu != home || avg.last_update_time == 0 {
            return Own::default();
        }
        Own {
            load: self.task_h_load(task),
            util: avg.util_avg,
            runnable: avg.runnable_avg,
            queued: u32::from(queued),
        }
    }

    /// Utilisation of a CPU without a share of it (`cpu_util_without`).
    pub(super) fn cpu_util_without(&self, cpu: Cpu, task: TaskId, own: &Own) -> u64 {
        let cfs_rq = &self.cfs_rqs[cpu];
        let mut util = cfs_rq.avg.util_avg.saturating_sub(own.util);
        if self.rules.features.util_est {
            let own_estimate = if own.queued > 0 {
                self.task_util_est(task)
            } else {
                0
            };
            util = util.max(cfs_rq.util_est_enqueued.saturating_sub(own_estimate));
        }
        util.min(self.domains.cpus[cpu].capacity_orig)
    }

    /// `update_sg_wakeup_stats`.
    fn wakeup_stats<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        group: u32,
        task: TaskId,
    ) -> GroupStats {
        let domain = self.domains.domain(row);
        let (pct, asym) = (domain.imbalance_pct, domain.flags.asym_cpucapacity);
        let sg = &self.domains.groups[group as usize];
        let (weight, capacity_row) = (sg.weight, sg.capacity as usize);
        let cpus: CpuSet = if self.rules.placement.idlest_allowed_only {
            sg.span.and(&self.tasks[task].affinity)
        } else {
            sg.span
        };
        self.look(p, cpus.len() as u32);
        let mut stats = GroupStats {
            weight,
            // Until a CPU is found on which the task fits.
            misfit_load: u64::from(asym),
            // Nobody asks whether a CPU is overutilized here.
            never_overloaded: self.energy.on && self.rules.energy.overloaded_if_overutilized,
            ..GroupStats::default()
        };
        for cpu in cpus.iter() {
            if asym && self.task_fits_cpu(task, cpu) {
                stats.misfit_load = 0;
            }
            let own = self.own_share(cpu, task);
            stats.load += self.cpu_load(cpu).saturating_sub(own.load);
            stats.util += self.cpu_util_without(cpu, task, &own);
            if self.rules.balance.classifies_by_runnable {
                stats.runnable += self.cpu_runnable(cpu).saturating_sub(own.runnable);
            }
            stats.h_nr_running += self.h_nr_running(cpu) - own.queued;
            let rq = &self.rqs[cpu];
            let nr_running = rq.nr_running - own.queued;
            stats.nr_running += nr_running;
            let runs_only_it = rq.curr_is_idle() || rq.curr == task;
            if nr_running == 0 && runs_only_it && !rq.ttwu_pending {
                stats.idle_cpus += 1;
            }
        }
        let shared = &self.domains.capacities[capacity_row];
        stats.capacity = shared.capacity;
        stats.max_capacity = shared.max_capacity;
        stats.group_type = stats.classify(pct, shared.imbalance, false, false, false);
        if matches!(
            stats.group_type,
            GroupType::FullyBusy | GroupType::Overloaded
        ) {
            stats.avg_load = stats.load_per_capacity();
        }
        stats
    }

    /// The idlest group from 5.5 on, `None` when the local one is as good
    /// (`sched_balance_find_dst_group`).
    fn find_idlest_group<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        task: TaskId,
        this: Cpu,
    ) -> Option<u32> {
        let domain = self.domains.domain(row);
        let (nr_groups, pct) = (domain.nr_groups, domain.imbalance_pct);
        let mut local = None;
        let mut idlest: Option<(u32, GroupStats)> = None;
        for n in 0..nr_groups {
            let group = self.domains.group_row(row, n);
            let span = &self.domains.groups[group as usize].span;
            if !span.intersects(&self.tasks[task].affinity) {
                continue;
            }
            let is_local = span.contains(this);
            let stats = self.wakeup_stats(p, row, group, task);
            if is_local {
                local = Some((group, stats));
            } else if is_idler(&stats, idlest.as_ref().map(|(_, stats)| stats)) {
                idlest = Some((group, stats));
            }
        }
        let (group, idlest) = idlest?;
        let Some((local_group, local)) = local else {
            return Some(group);
        };
        if local.group_type != idlest.group_type {
            return (local.group_type > idlest.group_type).then_some(group);
        }
        let better = match local.group_type {
            GroupType::Overloaded | GroupType::FullyBusy => {
                clearly_less_loaded(&local, &idlest, pct, self.domains.domain(row).flags.numa)
            }
            GroupType::MisfitTask => local.max_capacity < idlest.max_capacity,
            GroupType::HasSpare => {
                let stays = self.domains.domain(row).flags.numa
                    && self.fork_stays_in_node(row, task, local_group, &local, &idlest);
                if stays {
                    reached(Mark::IdlestNumaStays);
                }
                !stays && local.idle_cpus < idlest.idle_cpus
            }
            _ => false,
        };
        better.then_some(group)
    }

    /// Small imbalances between nodes are worth the locality.
    fn fork_stays_in_node(
        &self,
        row: u32,
        task: TaskId,
        local_group: u32,
        local: &GroupStats,
        idlest: &GroupStats,
    ) -> bool {
        let domain = self.domains.domain(row);
        let allowance = self.rules.balance.numa_allowance;
        let span = &self.domains.groups[local_group as usize].span;
        let allowed = span.and(&self.tasks[task].affinity).len() as u32;
        let limit = if self.rules.placement.idlest_numa_within_affinity {
            domain.imb_numa_nr.min(allowed)
        } else {
            domain.imb_numa_nr
        };
        match allowance {
            NumaAllowance::None | NumaAllowance::TwoTasks => local.idle_cpus > 0,
            NumaAllowance::Quarter => local.nr_running < domain.span_weight >> 2,
            NumaAllowance::PerLlc => local.nr_running < limit,
            NumaAllowance::PerLlcBeforeHalving => {
                let difference = i64::from(local.idle_cpus.abs_diff(idlest.idle_cpus));
                let running = local.nr_running + 1;
                adjust_numa_imbalance(allowance, difference, running, local.weight, limit) == 0
            }
        }
    }

    /// 4.10–5.4: the group with the most spare capacity, at fork and otherwise the least runnable,
    /// then the least average load.
    fn find_idlest_group_by_spare<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        task: TaskId,
        this: Cpu,
        kind: WakeKind,
    ) -> Option<u32> {
        let domain = self.domains.domain(row);
        let nr_groups = domain.nr_groups;
        let numa = domain.flags.numa && self.rules.placement.idlest_prefers_node;
        let pct = u64::from(domain.imbalance_pct);
        let scale = 100 + (pct - 100) / 2;
        let imbalance = 1024 * (pct - 100) / 100;
        let mut local = Spare {
            runnable: u64::MAX,
            average: u64::MAX,
            spare: 0,
        };
        let (mut idlest, mut min) = (None, local);
        let (mut most_spare, mut most_spare_group) = (0, None);
        for n in 0..nr_groups {
            let group = self.domains.group_row(row, n);
            let span = self.domains.groups[group as usize].span;
            if !span.intersects(&self.tasks[task].affinity) {
                continue;
            }
            let found = self.spare_stats(p, group, task);
            if span.contains(this) {
                local = found;
                continue;
            }
            if min.runnable > found.runnable.saturating_add(imbalance) {
                (min, idlest) = (found, Some(group));
            } else if found.runnable < min.runnable.saturating_add(imbalance)
                && 100 * u128::from(min.average) > u128::from(scale * found.average)
            {
                min.average = found.average;
                idlest = Some(group);
            }
            if most_spare < found.spare {
                (most_spare, most_spare_group) = (found.spare, Some(group));
            }
        }
        if kind != WakeKind::Fork {
            let se = self.tasks[task].se;
            let half_util = self.entities[se].avg.util_avg / 2;
            if local.spare > half_util && scale * local.spare > 100 * most_spare {
                return None;
            }
            if most_spare > half_util {
                return most_spare_group;
            }
        }
        let group = idlest?;
        let stays = (numa && min.runnable.saturating_add(imbalance) >= local.runnable)
            || min.runnable > local.runnable.saturating_add(imbalance)
            || (local.runnable < min.runnable.saturating_add(imbalance)
                && 100 * u128::from(local.average) < u128::from(scale * min.average));
        (!stays).then_some(group)
    }

    fn spare_stats<P: Platform>(&mut self, p: &mut P, group: u32, task: TaskId) -> Spare {
        let sg = &self.domains.groups[group as usize];
        let (span, capacity_row) = (sg.span, sg.capacity as usize);
        self.look(p, span.len() as u32);
        let mut found = Spare::default();
        for cpu in span.iter() {
            found.runnable += self.weighted_cpuload(cpu);
            found.average += self.cpu_load(cpu);
            let own = self.own_share(cpu, task);
            let util = self.cpu_util_without(cpu, task, &own);
            found.spare = found.spare.max(self.capacity_of(cpu).saturating_sub(util));
        }
        let capacity = self.domains.capacities[capacity_row].capacity;
        found.runnable = found.runnable * 1024 / capacity;
        found.average = found.average * 1024 / capacity;
        found
    }

    /// Up to 4.9: the group with the least load, if it is clearly less than the local one's.
    fn find_idlest_group_by_load<P: Platform>(
        &mut self,
        p: &mut P,
        row: u32,
        task: TaskId,
        this: Cpu,
    ) -> Option<u32> {
        let domain = self.domains.domain(row);
        let nr_groups = domain.nr_groups;
        let scale = u64::from(100 + (domain.imbalance_pct - 100) / 2);
        let (mut local_load, mut min_load) = (0, u64::MAX);
        let mut idlest = None;
        for n in 0..nr_groups {
            let group = self.domains.group_row(row, n);
            let sg = &self.domains.groups[group as usize];
            let (span, capacity_row) = (sg.span, sg.capacity as usize);
            if !span.intersects(&self.tasks[task].affinity) {
                continue;
            }
            self.look(p, span.len() as u32);
            let load: u64 = span.iter().map(|cpu| self.weighted_cpuload(cpu)).sum();
            let load = load * 1024 / self.domains.capacities[capacity_row].capacity;
            if span.contains(this) {
                local_load = load;
            } else if load < min_load {
                (min_load, idlest) = (load, Some(group));
            }
        }
        let group = idlest?;
        (100 * local_load >= scale * min_load).then_some(group)
    }
}

/// Measures of a group before 5.5.
#[derive(Clone, Copy, Default)]
struct Spare {
    runnable: u64,
    average: u64,
    spare: u64,
}

/// Whether `new` is idler than the idlest so far (`update_pick_idlest`).
pub(super) fn is_idler(new: &GroupStats, old: Option<&GroupStats>) -> bool {
    let nothing = GroupStats {
        group_type: GroupType::Overloaded,
        avg_load: u64::from(u32::MAX),
        ..GroupStats::default()
    };
    let old = old.unwrap_or(&nothing);
    if new.group_type != old.group_type {
        return new.group_type < old.group_type;
    }
    match new.group_type {
        GroupType::Overloaded | GroupType::FullyBusy => new.avg_load < old.avg_load,
        GroupType::MisfitTask => new.max_capacity > old.max_capacity,
        GroupType::HasSpare => {
            new.idle_cpus > old.idle_cpus || (new.idle_cpus == old.idle_cpus && new.util < old.util)
        }
        _ => false,
    }
}

/// Whether a group is so much less loaded than the local one that a task should start there.
pub(super) fn clearly_less_loaded(
    local: &GroupStats,
    idlest: &GroupStats,
    imbalance_pct: u32,
    numa: bool,
) -> bool {
    let pct = u64::from(imbalance_pct);
    let imbalance = 1024 * (pct - 100) / 100;
    if numa && idlest.avg_load + imbalance >= local.avg_load {
        return false;
    }
    idlest.avg_load < local.avg_load + imbalance && 100 * local.avg_load > pct * idlest.avg_load
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::{MS, World};
    use crate::topology::Topology;

    #[test]
    fn an_idle_cpu_without_a_stamp_is_passed_once_it_has_run() {
        // Caches {0, 1} and {2, 3}; CPU 0 forks. A wakeup to a throttled queue takes the stamp.
        for (ran, found) in [(false, Cpu(2)), (true, Cpu(0))] {
            let mut world = World::on(Topology::regular(1, 2, 2, 1), "6.12", |_| {});
            let task = world.spawn_anywhere(Cpu(0));
            for cpu in [Cpu(2), Cpu(3)] {
                if ran {
                    world.spawn(cpu);
                    world.advance(MS);
                    world.block(cpu);
                    assert!(world.kernel.rqs[cpu].idle_stamp > 0);
                }
                world.kernel.rqs[cpu].idle_stamp = 0;
            }
            let row = world.kernel.domains.rows(Cpu(0)).last().unwrap();
            let group = world.kernel.domains.group_row(row, 1);
            let kernel = &mut world.kernel;
            let cpu = kernel.find_idlest_group_cpu(&mut world.bench, group, task, Cpu(0));
            assert_eq!(cpu, found, "{ran}");
        }
    }
}
