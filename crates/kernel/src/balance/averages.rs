//! The busiest group and the imbalance as they were up to 5.4: by average load
//! (`find_busiest_group`, `calculate_imbalance`, `fix_small_imbalance`).
//!
//! Worked example: two single-CPU groups of capacity 1024, one nice-0 task here and three there.
//! The loads per capacity are 1024 and 3072, the average of the domain is 2048, so min(3072 − 2048,
//! 2048 − 1024) = 1024 is to be moved: one task.

use super::busiest::{Candidate, DomainStats};
use super::stats::{GroupStats, GroupType};
use super::{CpuIdle, Env, Migration};
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform};

impl GroupStats {
    /// `group_is_overloaded` of these versions, which look at utilisation only.
    fn is_overloaded_by_util(&self, pct: u64) -> bool {
        self.nr_running > self.weight && self.capacity * 100 < self.util * pct
    }

    /// `group_has_capacity` of these versions.
    fn has_capacity_by_util(&self, pct: u64) -> bool {
        self.nr_running < self.weight || self.capacity * 100 > self.util * pct
    }

    /// `group_classify` of these versions; the lowest type stands for `group_other`.
    fn classify_by_capacity(&self, imbalanced: bool) -> GroupType {
        match () {
            () if self.no_capacity => GroupType::Overloaded,
            () if imbalanced => GroupType::Imbalanced,
            () => GroupType::HasSpare,
        }
    }
}

/// The throughput argument of `fix_small_imbalance`: whether moving one average task from the
/// busiest group raises the sum of what the groups' capacities can serve, or evens loads out.
/// Returns the load to move.
pub(crate) fn fix_small_imbalance(local: &GroupStats, busiest: &GroupStats) -> u64 {
    let per_task = busiest.load_per_task;
    let imbalance_number = if local.nr_running > 0 && per_task > local.load_per_task {
        1
    } else {
        2
    };
    let scaled = per_task * 1024 / busiest.capacity;
    if busiest.avg_load + scaled >= local.avg_load + scaled * imbalance_number {
        return per_task;
    }
    let now = busiest.capacity * per_task.min(busiest.avg_load)
        + local.capacity * local.load_per_task.min(local.avg_load);
    let mut moved = 0;
    if busiest.avg_load > scaled {
        moved += busiest.capacity * per_task.min(busiest.avg_load - scaled);
    }
    let added = (busiest.avg_load * busiest.capacity).min(per_task * 1024) / local.capacity;
    moved += local.capacity * local.load_per_task.min(local.avg_load + added);
    if moved / 1024 > now / 1024 {
        per_task
    } else {
        0
    }
}

impl Kernel {
    /// `update_sg_lb_stats` up to 5.4.
    fn update_sg_averages<P: Platform>(
        &mut self,
        p: &mut P,
        env: &mut Env,
        group: u32,
        local: bool,
        overloaded: &mut bool,
    ) -> GroupStats {
        let sg = &self.domains.groups[group as usize];
        let (weight, capacity_row) = (sg.weight, sg.capacity as usize);
        let cpus = sg.span.and(&env.cpus);
        let domain = self.domains.domain(env.domain);
        let index = match env.idle {
            CpuIdle::NotIdle => domain.load_index.0,
            CpuIdle::NewlyIdle => 0,
            CpuIdle::Idle => domain.load_index.1,
        };
        let pct = u64::from(domain.imbalance_pct);
        let mut stats = GroupStats {
            weight,
            ..GroupStats::default()
        };
        p.spend(self.here, Op::BalanceCpu, cpus.len() as u32);
        for cpu in cpus.iter() {
            if env.nohz_stats {
                self.update_nohz_stats_for_newidle(p, env, cpu);
            }
            stats.load += self.biased_load(cpu, index, local);
            stats.util += self.cpu_util_old(cpu);
            stats.nr_running += self.h_nr_running(cpu);
            stats.weighted_load += self.weighted_cpuload(cpu);
            let nr_running = self.rqs[cpu].nr_running;
            *overloaded |= nr_running > 1;
            if nr_running == 0 && self.domains.idle.contains(cpu) {
                stats.idle_cpus += 1;
            }
        }
        let shared = &self.domains.capacities[capacity_row];
        stats.capacity = shared.capacity;
        stats.avg_load = stats.load_per_capacity();
        if stats.nr_running > 0 {
            stats.load_per_task = stats.weighted_load / u64::from(stats.nr_running);
        }
        stats.no_capacity = stats.is_overloaded_by_util(pct);
        stats.group_type = stats.classify_by_capacity(shared.imbalance);
        stats.h_nr_running = stats.nr_running;
        stats
    }

    /// Utilisation capped by the capacity an SMT thread had in these versions.
    fn cpu_util_old(&self, cpu: Cpu) -> u64 {
        self.cpu_util(cpu).min(self.domains.cpus[cpu].capacity_orig)
    }

    /// `update_sd_lb_stats` up to 5.4.
    fn update_sd_averages<P: Platform>(
        &mut self,
        p: &mut P,
        env: &mut Env,
        jiffy: u64,
    ) -> DomainStats {
        let rules = &self.rules.balance;
        env.nohz_stats =
            rules.nohz_blocked && env.idle == CpuIdle::NewlyIdle && self.nohz.has_blocked;
        let compares = rules.prefer_sibling_compares;
        let prefer_sibling = self.child_prefers_sibling(env.domain);
        let domain = self.domains.domain(env.domain);
        let (nr_groups, pct) = (domain.nr_groups, u64::from(domain.imbalance_pct));
        let mut overloaded = false;
        let mut stats = DomainStats {
            local: Candidate::new(self.domains.group_row(env.domain, 0), GroupStats::default()),
            prefer_sibling,
            ..DomainStats::default()
        };
        for n in 0..nr_groups {
            let group = self.domains.group_row(env.domain, n);
            let is_local = self.domains.groups[group as usize].span.contains(env.dst);
            if is_local {
                self.refresh_group_capacity(env, group, jiffy);
            }
            let mut found = self.update_sg_averages(p, env, group, is_local, &mut overloaded);
            stats.total_load += found.load;
            stats.total_capacity += found.capacity;
            if is_local {
                stats.local = Candidate::new(group, found);
                continue;
            }
            // Siblings prefer even shares: a group with two tasks more than the local one (before
            // 4.12, with two tasks), which has room, counts as full.
            let local = &stats.local.stats;
            let own = if compares { local.nr_running } else { 0 };
            if prefer_sibling && local.has_capacity_by_util(pct) && found.nr_running > own + 1 {
                found.no_capacity = true;
                found.group_type = GroupType::Overloaded;
            }
            let busier = match stats.busiest {
                Some(old) if found.group_type == old.stats.group_type => {
                    found.avg_load > old.stats.avg_load
                }
                Some(old) => found.group_type > old.stats.group_type,
                None => found.group_type > GroupType::HasSpare || found.avg_load > 0,
            };
            if busier {
                stats.busiest = Some(Candidate::new(group, found));
            }
        }
        self.nohz_stats_done(env, jiffy);
        if self.domains.domain(env.domain).parent.is_none() {
            self.domains.overloaded = overloaded;
        }
        stats
    }

    /// `find_busiest_group` up to 5.4.
    pub(crate) fn find_busiest_group_by_load<P: Platform>(
        &mut self,
        p: &mut P,
        env: &mut Env,
        jiffy: u64,
    ) -> Option<u32> {
        let mut stats = self.update_sd_averages(p, env, jiffy);
        let busiest = stats
            .busiest
            .filter(|busiest| busiest.stats.nr_running > 0)?;
        reached(Mark::BusierByLoad);
        self.note_groups::<P>(&stats.local, &busiest);
        stats.avg_load = stats.total_load * 1024 / stats.total_capacity;
        let pct = u64::from(self.domains.domain(env.domain).imbalance_pct);
        let forces = match env.idle {
            CpuIdle::NotIdle => false,
            CpuIdle::Idle => self.rules.balance.idle_forces_balance,
            CpuIdle::NewlyIdle => true,
        };
        if !is_out_of_balance_by_load(env.idle, forces, &stats, &busiest.stats, pct) {
            return None;
        }
        if stats.local.stats.nr_running == 0 {
            let nr_running = u64::from(self.h_nr_running(env.dst));
            stats.local.stats.load_per_task = self
                .weighted_cpuload(env.dst)
                .checked_div(nr_running)
                .unwrap_or(0);
        }
        env.imbalance = imbalance_by_load(&stats, &busiest.stats) as i64;
        env.migration = Migration::Load;
        let goes_on = env.imbalance != 0 || self.rules.balance.redoes_without_imbalance;
        goes_on.then_some(busiest.group)
    }
}

pub(crate) fn is_out_of_balance_by_load(
    idle: CpuIdle,
    forces: bool,
    stats: &DomainStats,
    busiest: &GroupStats,
    pct: u64,
) -> bool {
    let local = &stats.local.stats;
    if busiest.group_type == GroupType::Imbalanced {
        return true;
    }
    if forces && local.has_capacity_by_util(pct) && busiest.no_capacity {
        return true;
    }
    if local.avg_load >= busiest.avg_load || local.avg_load >= stats.avg_load {
        return false;
    }
    if idle == CpuIdle::Idle {
        busiest.group_type == GroupType::Overloaded || local.idle_cpus > busiest.idle_cpus + 1
    } else {
        100 * busiest.avg_load > pct * local.avg_load
    }
}

/// `calculate_imbalance` up to 5.4: a load.
pub(crate) fn imbalance_by_load(stats: &DomainStats, busiest: &GroupStats) -> u64 {
    let local = &stats.local.stats;
    let mut busiest = *busiest;
    if busiest.group_type == GroupType::Imbalanced {
        busiest.load_per_task = busiest.load_per_task.min(stats.avg_load);
    }
    if busiest.avg_load <= stats.avg_load || local.avg_load >= stats.avg_load {
        return fix_small_imbalance(local, &busiest);
    }
    // When no group has an idle CPU, do not create one.
    let mut above_capacity = u64::MAX;
    if busiest.group_type == GroupType::Overloaded && local.group_type == GroupType::Overloaded {
        let wanted = u64::from(busiest.nr_running) * 1024;
        if wanted > busiest.capacity {
            above_capacity = (wanted - busiest.capacity) * 1024 / busiest.capacity;
        }
    }
    let pull = (busiest.avg_load - stats.avg_load).min(above_capacity);
    let room = (stats.avg_load - local.avg_load) * local.capacity;
    let imbalance = (pull * busiest.capacity).min(room) / 1024;
    if imbalance < busiest.load_per_task {
        // Too little for one task: see whether moving one anyway pays; if not, what was found
        // stays.
        let small = fix_small_imbalance(local, &busiest);
        return if small > 0 { small } else { imbalance };
    }
    imbalance
}
