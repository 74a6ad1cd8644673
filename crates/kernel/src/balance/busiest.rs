//! The busiest group of a domain and what to take from it, from 5.5 on
//! (`sched_balance_find_src_group`, `calculate_imbalance`).
//!
//! Worked example: CPU 0 is idle in an LLC of 8 CPUs, groups are single CPUs. CPU 3 runs two tasks
//! and has a utilisation of 1000: 1024 · 100 < 1000 · 117, so its group is overloaded, the local
//! one has spare capacity. CPUs of one LLC: the imbalance is a number of tasks, (2 − 0) / 2 = 1, so
//! one task moves.

use super::rules::BalanceRules;
use super::stats::{GroupStats, GroupType};
use super::{CpuIdle, DomainFlags, Env, Migration, NumaAllowance};
use crate::capacity::{capacity_greater, fits_capacity};
use crate::explain::GroupState;
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::hooks::Busier;

/// A group with its statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Candidate {
    /// Row of the group.
    pub(crate) group: u32,
    /// Its statistics.
    pub(crate) stats: GroupStats,
}

impl Candidate {
    pub(crate) fn new(group: u32, stats: GroupStats) -> Self {
        Self { group, stats }
    }
}

/// Statistics of a domain (`struct sd_lb_stats`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DomainStats {
    /// The local group.
    pub(crate) local: Candidate,
    /// The busiest other group.
    pub(crate) busiest: Option<Candidate>,
    /// Load of all groups.
    pub(crate) total_load: u64,
    /// Capacity of all groups.
    pub(crate) total_capacity: u64,
    /// Load per 1024 of capacity of all groups, where it is computed.
    pub(crate) avg_load: u64,
    /// Groups are to get tasks evenly.
    pub(crate) prefer_sibling: bool,
}

/// A balance decision: how much is to be moved, and its unit.
type Imbalance = (i64, Migration);

/// Whether `new` is busier than `old`, both with their group's flags (`update_sd_pick_busiest`).
pub(crate) fn is_busier(
    new: &GroupStats,
    new_flags: &DomainFlags,
    old: &GroupStats,
    old_flags: &DomainFlags,
    rules: &BalanceRules,
) -> bool {
    let smt_aware = rules.smt_aware;
    if new.group_type != old.group_type {
        return new.group_type > old.group_type;
    }
    let fewer_idle = || {
        new.idle_cpus < old.idle_cpus
            || (new.idle_cpus == old.idle_cpus && new.nr_running > old.nr_running)
    };
    match new.group_type {
        GroupType::Overloaded => new.avg_load > old.avg_load,
        GroupType::LlcBalance => new.nr_pref_dst_llc > old.nr_pref_dst_llc,
        // The caller compares the preferred CPUs of two groups.
        GroupType::Imbalanced | GroupType::AsymPacking => false,
        GroupType::MisfitTask => {
            new.misfit_load > old.misfit_load
                || (rules.equal_misfits_replace && new.misfit_load == old.misfit_load)
        }
        GroupType::SmtBalance if new.idle_cpus != 0 || old.idle_cpus != 0 => fewer_idle(),
        // Average loads are not computed for these types, so the first one stays, unless it is
        // no SMT core (6.6).
        GroupType::SmtBalance | GroupType::FullyBusy => smt_aware && !old_flags.share_cpucapacity,
        GroupType::HasSpare => {
            if smt_aware && new_flags.share_cpucapacity != old_flags.share_cpucapacity {
                return !(new_flags.share_cpucapacity && new.h_nr_running <= 1);
            }
            fewer_idle()
        }
    }
}

/// `adjust_numa_imbalance` and `allow_numa_imbalance`: what is left of an imbalance in tasks when
/// `running` of `weight` CPUs are busy and `limit` is `imb_numa_nr`.
pub(crate) fn adjust_numa_imbalance(
    allowance: NumaAllowance,
    imbalance: i64,
    running: u32,
    weight: u32,
    limit: u32,
) -> i64 {
    let small_is_allowed = match allowance {
        NumaAllowance::None => return imbalance,
        NumaAllowance::TwoTasks => return if running <= 2 { 0 } else { imbalance },
        NumaAllowance::Quarter => running < weight >> 2,
        NumaAllowance::PerLlc | NumaAllowance::PerLlcBeforeHalving => running <= limit,
    };
    if small_is_allowed && imbalance <= 2 {
        reached(Mark::NumaAllowed);
        0
    } else {
        imbalance
    }
}

impl Kernel {
    /// Statistics of all groups of a domain (`update_sd_lb_stats`).
    pub(crate) fn update_sd_lb_stats<P: Platform>(
        &mut self,
        p: &mut P,
        env: &mut Env,
        jiffy: u64,
    ) -> DomainStats {
        let rules = &self.rules.balance;
        env.nohz_stats = rules.nohz_blocked
            && !rules.nohz_newidle_late
            && env.idle == CpuIdle::NewlyIdle
            && self.nohz.has_blocked;
        let of_busiest = rules.prefer_sibling_of_busiest;
        let nr_groups = self.domains.domain(env.domain).nr_groups;
        let (mut overloaded, mut overutilized) = (false, false);
        let mut stats = DomainStats {
            local: Candidate::new(self.domains.group_row(env.domain, 0), GroupStats::default()),
            ..DomainStats::default()
        };
        let mut total_util = 0;
        for n in 0..nr_groups {
            let group = self.domains.group_row(env.domain, n);
            let local = self.domains.groups[group as usize].span.contains(env.dst);
            if local {
                self.refresh_group_capacity(env, group, jiffy);
            }
            let found = self.update_sg_lb_stats(p, env, group, local, &mut overloaded);
            if local {
                stats.local = Candidate::new(group, found);
            } else if found.h_nr_running > 0 && self.replaces(env, &stats, group, &found) {
                stats.busiest = Some(Candidate::new(group, found));
            }
            stats.total_load += found.load;
            stats.total_capacity += found.capacity;
            total_util += found.util;
            overutilized |= found.overutilized;
        }
        stats.prefer_sibling = match stats.busiest {
            Some(busiest) if of_busiest => {
                self.domains.groups[busiest.group as usize]
                    .flags
                    .prefer_sibling
            }
            None if of_busiest => false,
            _ => self.child_prefers_sibling(env.domain),
        };
        self.nohz_stats_done(env, jiffy);
        if self.domains.domain(env.domain).parent.is_none() {
            self.domains.overloaded = overloaded;
            self.energy.overutilized = overutilized;
        } else {
            self.energy.overutilized |= overutilized;
        }
        self.update_idle_cpu_scan(p, env, total_util);
        stats
    }

    /// Brings the local group's capacity up to date, except that newly idle balance waits for its
    /// interval.
    pub(crate) fn refresh_group_capacity(&mut self, env: &Env, group: u32, jiffy: u64) {
        let row = self.domains.groups[group as usize].capacity as usize;
        if env.idle != CpuIdle::NewlyIdle || jiffy >= self.domains.capacities[row].next_update {
            self.update_group_capacity(env.domain, env.dst, jiffy);
        }
    }

    pub(crate) fn child_prefers_sibling(&self, domain: u32) -> bool {
        let child = self.domains.domain(domain).child;
        child.is_some_and(|child| self.domains.domain(child).flags.prefer_sibling)
    }

    /// Whether a group is busier than the busiest so far, and the CPU that pulls can help it
    /// (`update_sd_pick_busiest`).
    fn replaces(&self, env: &Env, stats: &DomainStats, group: u32, found: &GroupStats) -> bool {
        let flags = |group: u32| &self.domains.groups[group as usize].flags;
        let asym = self.domains.domain(env.domain).flags.asym_cpucapacity;
        if asym && !self.can_help(env, stats, found) {
            return false;
        }
        stats.busiest.is_none_or(|old| {
            let asked = || Busier {
                to: env.dst,
                group: self.group_state(group, found),
                busiest: self.group_state(old.group, &old.stats),
            };
            if let Some(busier) = self.rules.own.busiest_group(self, asked) {
                return busier;
            }
            let both = [found.group_type, old.stats.group_type];
            if both == [GroupType::AsymPacking; 2] {
                let prefer_cpu = |group: u32| self.domains.groups[group as usize].prefer_cpu;
                return self.is_preferred(prefer_cpu(old.group), prefer_cpu(group));
            }
            let rules = &self.rules.balance;
            is_busier(found, flags(group), &old.stats, flags(old.group), rules)
        })
    }

    /// Where capacities are unequal: whether a misfit task would find a larger CPU, and any other
    /// task no smaller one.
    fn can_help(&self, env: &Env, stats: &DomainStats, found: &GroupStats) -> bool {
        let rules = &self.rules.balance;
        let (local, here) = (&stats.local.stats, self.capacity_of(env.dst));
        let (larger, smaller) = match rules.compares_cpu_capacity {
            true => (
                capacity_greater(here, found.max_capacity),
                capacity_greater(found.min_capacity, here),
            ),
            false => (
                fits_capacity(found.max_capacity, local.max_capacity),
                fits_capacity(local.min_capacity, found.min_capacity),
            ),
        };
        match found.group_type {
            GroupType::MisfitTask => {
                larger
                    && local.group_type == GroupType::HasSpare
                    && (!rules.misfit_wants_idle_core || self.has_whole_core(env.dst))
            }
            GroupType::HasSpare | GroupType::FullyBusy => {
                // Before 7.2 and 6.12.110 only where the types are equal, and the search begins
                // with one of spare capacity.
                let of_busiest = stats
                    .busiest
                    .map_or(GroupType::HasSpare, |busiest| busiest.stats.group_type);
                let asked = rules.larger_groups_never_help || found.group_type == of_busiest;
                !(asked && smaller)
            }
            _ => true,
        }
    }

    /// Difference in tasks between two groups, as far as the first has more, per core (6.6) or
    /// plain (`sibling_imbalance`).
    fn sibling_imbalance(&self, env: &Env, busiest: &Candidate, local: &Candidate) -> i64 {
        let (of_busiest, of_local) = (
            i64::from(busiest.stats.nr_running),
            i64::from(local.stats.nr_running),
        );
        if !self.rules.balance.smt_aware {
            return (of_busiest - of_local).max(0);
        }
        if env.idle == CpuIdle::NotIdle || of_busiest == 0 {
            return 0;
        }
        let cores =
            |candidate: &Candidate| i64::from(self.domains.groups[candidate.group as usize].cores);
        let (cores_busiest, cores_local) = (cores(busiest), cores(local));
        if cores_busiest == cores_local {
            return (of_busiest - of_local).max(0);
        }
        let difference = (cores_local * of_busiest - cores_busiest * of_local).max(0);
        let cores = cores_local + cores_busiest;
        let imbalance = (2 * difference + cores) / cores;
        if imbalance <= 1 && of_local == 0 && of_busiest > 1 {
            2
        } else {
            imbalance
        }
    }

    /// The busiest group and the amount to take from it, `None` when the domain is balanced.
    pub(crate) fn find_src_group<P: Platform>(
        &mut self,
        p: &mut P,
        env: &mut Env,
        jiffy: u64,
    ) -> Option<u32> {
        let mut stats = self.update_sd_lb_stats(p, env, jiffy);
        let busiest = stats.busiest?;
        reached(Mark::BusierByType);
        self.note_groups::<P>(&stats.local, &busiest);
        let misfit = busiest.stats.group_type == GroupType::MisfitTask;
        if self.goes_by_energy() && !(misfit && self.rules.energy.misfit_moves) {
            self.because::<P>(Mark::EnergyStays);
            return None;
        }
        if !self.is_out_of_balance(env, &mut stats, &busiest) {
            return None;
        }
        (env.imbalance, env.migration) = self.calculate_imbalance(env, &mut stats, &busiest);
        (env.imbalance != 0).then_some(busiest.group)
    }

    /// Keeps what is compared, if an explanation is wanted.
    pub(crate) fn note_groups<P: Platform>(&mut self, local: &Candidate, busiest: &Candidate) {
        if P::EXPLAIN {
            let state = |one: &Candidate| self.group_state(one.group, &one.stats);
            self.domains.why.groups = Some((state(local), state(busiest)));
        }
    }

    fn group_state(&self, group: u32, stats: &GroupStats) -> GroupState {
        GroupState {
            cpus: self.domains.groups[group as usize].span,
            kind: stats.group_type.name(),
            nr_running: stats.nr_running,
            idle_cpus: stats.idle_cpus,
            load: stats.load,
            util: stats.util,
            capacity: stats.capacity,
        }
    }

    /// Whether the busiest group is worth pulling from.
    pub(crate) fn is_out_of_balance(
        &self,
        env: &Env,
        stats: &mut DomainStats,
        busiest: &Candidate,
    ) -> bool {
        let (local, busy) = (&stats.local.stats, &busiest.stats);
        if matches!(
            busy.group_type,
            GroupType::MisfitTask | GroupType::AsymPacking | GroupType::Imbalanced
        ) {
            return true;
        }
        if local.group_type > busy.group_type {
            return false;
        }
        if local.group_type == GroupType::Overloaded {
            if local.avg_load >= busy.avg_load {
                return false;
            }
            stats.avg_load = stats.total_load * 1024 / stats.total_capacity;
            let pct = u64::from(self.domains.domain(env.domain).imbalance_pct);
            if local.avg_load >= stats.avg_load || 100 * busy.avg_load <= pct * local.avg_load {
                return false;
            }
        }
        if stats.prefer_sibling
            && local.group_type == GroupType::HasSpare
            && (busy.group_type == GroupType::LlcBalance
                || self.sibling_imbalance(env, busiest, &stats.local) > 1)
        {
            return true;
        }
        busy.group_type == GroupType::Overloaded || self.idle_cpu_should_pull(env, stats, busiest)
    }

    /// The busiest group is not overloaded: pulling only helps an idle CPU that is worse used.
    fn idle_cpu_should_pull(&self, env: &Env, stats: &DomainStats, busiest: &Candidate) -> bool {
        let (local, busy) = (&stats.local.stats, &busiest.stats);
        if env.idle == CpuIdle::NotIdle {
            return false;
        }
        let smt = |group: u32| self.domains.groups[group as usize].flags.share_cpucapacity;
        if busy.group_type == GroupType::SmtBalance && smt(stats.local.group) != smt(busiest.group)
        {
            return true;
        }
        let evenly_idle = busy.weight > 1 && local.idle_cpus <= busy.idle_cpus.saturating_add(1);
        !evenly_idle && busy.h_nr_running != 1
    }

    /// How much to move (`calculate_imbalance`).
    pub(crate) fn calculate_imbalance(
        &self,
        env: &Env,
        stats: &mut DomainStats,
        busiest: &Candidate,
    ) -> Imbalance {
        let tasks = |amount: i64| (amount, Migration::Task);
        match busiest.stats.group_type {
            GroupType::MisfitTask if self.domains.domain(env.domain).flags.asym_cpucapacity => {
                reached(Mark::MoveMisfit);
                return (1, Migration::Misfit);
            }
            GroupType::MisfitTask => {
                return (busiest.stats.misfit_load as i64, Migration::Load);
            }
            GroupType::AsymPacking => {
                reached(Mark::MovePreferred);
                return tasks(i64::from(busiest.stats.h_nr_running));
            }
            GroupType::SmtBalance | GroupType::Imbalanced => return tasks(1),
            GroupType::LlcBalance => {
                reached(Mark::MoveToLlc);
                return (1, Migration::LlcTask);
            }
            _ => {}
        }
        if stats.local.stats.group_type == GroupType::HasSpare {
            return self.imbalance_of_spare(env, stats, busiest);
        }
        if stats.local.stats.group_type < GroupType::Overloaded {
            // The local group will become overloaded, so the averages are needed after all.
            let local = &mut stats.local.stats;
            local.avg_load = local.load_per_capacity();
            if local.avg_load >= busiest.stats.avg_load {
                return tasks(0);
            }
            stats.avg_load = stats.total_load * 1024 / stats.total_capacity;
            if stats.local.stats.avg_load >= stats.avg_load
                && self.rules.balance.local_above_average_gives_up
            {
                return tasks(0);
            }
        }
        let (local, busy) = (&stats.local.stats, &busiest.stats);
        // Unsigned as in the kernel: a local group above the average wraps around before 6.3.
        let surplus = busy
            .avg_load
            .wrapping_sub(stats.avg_load)
            .wrapping_mul(busy.capacity);
        let room = stats
            .avg_load
            .wrapping_sub(local.avg_load)
            .wrapping_mul(local.capacity);
        ((surplus.min(room) / 1024) as i64, Migration::Load)
    }

    /// The local group has spare capacity: fill it, or even out tasks or idle CPUs.
    fn imbalance_of_spare(&self, env: &Env, stats: &DomainStats, busiest: &Candidate) -> Imbalance {
        let domain = self.domains.domain(env.domain);
        let (local, busy) = (&stats.local.stats, &busiest.stats);
        let spreads = domain.flags.share_llc && self.rules.balance.spreads_in_llc;
        if busy.group_type > GroupType::FullyBusy && !spreads {
            let amount = local.capacity.saturating_sub(local.util) as i64;
            return match amount {
                0 if env.idle != CpuIdle::NotIdle => (1, Migration::Task),
                _ => (amount, Migration::Util),
            };
        }
        let mut amount = if busy.weight == 1 || stats.prefer_sibling {
            self.sibling_imbalance(env, busiest, &stats.local)
        } else {
            // Counts without a sign are subtracted: an overloaded group that has more idle CPUs
            // than this one is taken all tasks from.
            i64::from(local.idle_cpus.wrapping_sub(busy.idle_cpus))
        };
        let allowance = self.rules.balance.numa_allowance;
        let late = allowance == NumaAllowance::PerLlcBeforeHalving;
        if !late {
            amount >>= 1;
        }
        if domain.flags.numa {
            let (running, weight) = match allowance {
                NumaAllowance::PerLlc | NumaAllowance::PerLlcBeforeHalving => {
                    (local.nr_running + 1, local.weight)
                }
                _ => (busy.nr_running, busy.weight),
            };
            amount = adjust_numa_imbalance(allowance, amount, running, weight, domain.imb_numa_nr);
        }
        if late {
            amount >>= 1;
        }
        (amount, Migration::Task)
    }
}
