//! Statistics of groups, and what state a group is in (`update_sg_lb_stats`, `group_classify`).
//!
//! Worked example: a group of 4 CPUs (capacity 4096, percentage 117) with 5 tasks, utilisation 3600
//! and runnable average 4800. Five tasks on four CPUs, and 4096 · 100 < 3600 · 117 = 421200, so it
//! is overloaded. At utilisation 3000 that test fails (351000), but 4096 · 117 = 479232 < 480000 =
//! 4800 · 100 holds by a hair: still overloaded. With a runnable average of 4700 it has spare
//! capacity, although it has more tasks than CPUs: 479232 ≥ 470000 and 409600 > 351000.

use super::{CpuIdle, Env, GroupCapacity};
use crate::capacity::capacity_greater;
use crate::core::irqtime::scale_irq_capacity;
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::platform::{Op, Platform};

schedcast_base::named! {
    /// State of a group, in the order of urgency to pull from it.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
    pub(crate) enum GroupType {
        /// Could take more.
        #[default]
        HasSpare = "has spare capacity",
        /// Just full.
        FullyBusy = "fully busy",
        /// A task is on a CPU that is too small for it, or lost capacity to interrupts or real-time
        /// tasks.
        MisfitTask = "misfit task",
        /// Threads of one core run several tasks (6.6).
        SmtBalance = "several tasks on one core",
        /// The CPU that balances is preferred to its CPUs.
        AsymPacking = "on less preferred CPUs",
        /// Affinity kept the level below from balancing.
        Imbalanced = "imbalanced by affinity",
        /// Tasks prefer the cache of the CPU that balances (7.2).
        LlcBalance = "tasks prefer this cache",
        /// More tasks than it can serve.
        Overloaded = "overloaded",
    }
}

/// Statistics of a group for the balancer (`struct sg_lb_stats`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupStats {
    /// Load per capacity, where it is computed.
    pub(crate) avg_load: u64,
    /// Load.
    pub(crate) load: u64,
    /// Utilisation.
    pub(crate) util: u64,
    /// Runnable average, where it counts (5.7).
    pub(crate) runnable: u64,
    /// Capacity left for the fair class.
    pub(crate) capacity: u64,
    /// Tasks of all classes.
    pub(crate) nr_running: u32,
    /// Fair tasks.
    pub(crate) h_nr_running: u32,
    /// Idle CPUs.
    pub(crate) idle_cpus: u32,
    /// CPUs.
    pub(crate) weight: u32,
    /// State.
    pub(crate) group_type: GroupType,
    /// Load of the heaviest task on a CPU that is too small, or has reduced capacity.
    pub(crate) misfit_load: u64,
    /// Tasks that prefer the cache of the CPU that balances (7.2).
    pub(crate) nr_pref_dst_llc: u32,
    /// Capacity of the smallest CPU.
    pub(crate) min_capacity: u64,
    /// Capacity of the largest CPU.
    pub(crate) max_capacity: u64,
    /// One of its CPUs is overutilized.
    pub(crate) overutilized: bool,
    /// Nothing makes it overloaded, as none is (7.1).
    pub(crate) never_overloaded: bool,
    /// Up to 5.4: unbiased load.
    pub(crate) weighted_load: u64,
    /// Up to 5.4: that load per task.
    pub(crate) load_per_task: u64,
    /// Up to 5.4: wants to get rid of tasks.
    pub(crate) no_capacity: bool,
}

impl GroupStats {
    /// Whether more tasks than CPUs wait or use more than the capacity (`group_is_overloaded`).
    #[inline]
    pub(crate) fn is_overloaded(&self, imbalance_pct: u32) -> bool {
        let pct = u64::from(imbalance_pct);
        !self.never_overloaded
            && self.nr_running > self.weight
            && (self.capacity * 100 < self.util * pct || self.capacity * pct < self.runnable * 100)
    }

    /// Whether it could serve more tasks (`group_has_capacity`).
    #[inline]
    pub(crate) fn has_capacity(&self, imbalance_pct: u32) -> bool {
        let pct = u64::from(imbalance_pct);
        self.nr_running < self.weight
            || (self.capacity * pct >= self.runnable * 100 && self.capacity * 100 > self.util * pct)
    }

    /// `group_classify`; `imbalanced` is the flag the level below left, the others are the results
    /// of those tests.
    pub(crate) fn classify(
        &self,
        imbalance_pct: u32,
        imbalanced: bool,
        asym_packing: bool,
        smt_balance: bool,
        llc_balance: bool,
    ) -> GroupType {
        match () {
            () if self.is_overloaded(imbalance_pct) => GroupType::Overloaded,
            () if llc_balance => GroupType::LlcBalance,
            () if imbalanced => GroupType::Imbalanced,
            () if asym_packing => GroupType::AsymPacking,
            () if smt_balance => GroupType::SmtBalance,
            () if self.misfit_load > 0 => GroupType::MisfitTask,
            () if !self.has_capacity(imbalance_pct) => GroupType::FullyBusy,
            () => GroupType::HasSpare,
        }
    }

    /// Load per 1024 of capacity.
    #[inline]
    pub(crate) fn load_per_capacity(&self) -> u64 {
        self.load * 1024 / self.capacity
    }
}

/// Sum of the capacities of several groups of CPUs.
fn sum_of(parts: impl Iterator<Item = GroupCapacity>) -> GroupCapacity {
    let none = GroupCapacity {
        min_capacity: u64::MAX,
        ..GroupCapacity::default()
    };
    parts.fold(none, |sum, part| GroupCapacity {
        capacity: sum.capacity + part.capacity,
        min_capacity: sum.min_capacity.min(part.min_capacity),
        max_capacity: sum.max_capacity.max(part.max_capacity),
        ..sum
    })
}

impl Kernel {
    /// Capacity of a CPU left for the fair class (`capacity_of`).
    #[inline(always)]
    pub(crate) fn capacity_of(&self, cpu: Cpu) -> u64 {
        self.rqs[cpu].cpu_capacity
    }

    /// Whether interrupts or other classes take a noticeable part of a CPU (`check_cpu_capacity`).
    #[inline]
    pub(crate) fn check_cpu_capacity(&self, cpu: Cpu, imbalance_pct: u32) -> bool {
        self.capacity_of(cpu) * u64::from(imbalance_pct)
            < self.domains.cpus[cpu].capacity_orig * 100
    }

    /// Fair tasks of a CPU as the balancer counts them.
    #[inline(always)]
    pub(crate) fn h_nr_running(&self, cpu: Cpu) -> u32 {
        let cfs_rq = &self.cfs_rqs[cpu];
        if self.rules.balance.counts_runnable_only {
            cfs_rq.h_nr_runnable
        } else {
            cfs_rq.h_nr_queued
        }
    }

    /// Capacity that real-time and deadline tasks and interrupts leave of a CPU
    /// (`scale_rt_capacity`), at least 1.
    pub(super) fn scale_rt_capacity(&self, cpu: Cpu) -> u64 {
        let max = self.domains.cpus[cpu].capacity_orig;
        let rq = &self.rqs[cpu];
        let used = rq.rt.avg.util_avg + self.dl.rqs[cpu.index()].avg.util_avg;
        let irq = rq.avg_irq.util_avg;
        if irq >= max || used >= max {
            return 1;
        }
        scale_irq_capacity(max - used, irq, max).max(1)
    }

    /// Brings the capacity of the local group of a domain up to date (`update_group_capacity`).
    pub(crate) fn update_group_capacity(&mut self, domain: u32, cpu: Cpu, jiffy: u64) {
        let sd = self.domains.domain(domain);
        let interval = self.msecs_to_jiffies(u64::from(sd.balance_interval));
        let next_update = jiffy + interval.clamp(1, self.domains.max_interval_jiffies);
        let group = self.domains.group_row(domain, 0);
        let one = |capacity| GroupCapacity {
            capacity,
            min_capacity: capacity,
            max_capacity: capacity,
            ..GroupCapacity::default()
        };
        let found = match sd.child {
            None => {
                let capacity = self.scale_rt_capacity(cpu);
                self.rqs[cpu].cpu_capacity = capacity;
                one(capacity)
            }
            Some(child) => {
                let child = self.domains.domain(child);
                if child.flags.overlap {
                    let span = &self.domains.groups[group as usize].span;
                    sum_of(span.iter().map(|cpu| one(self.capacity_of(cpu))))
                } else {
                    let groups = self.domains.groups_of(child);
                    sum_of(groups.map(|group| self.domains.capacities[group.capacity as usize]))
                }
            }
        };
        let row = self.domains.groups[group as usize].capacity as usize;
        let shared = &mut self.domains.capacities[row];
        *shared = GroupCapacity {
            next_update,
            imbalance: shared.imbalance,
            ..found
        };
    }

    /// Milliseconds as jiffies, rounded up (`msecs_to_jiffies`).
    #[inline]
    pub(crate) fn msecs_to_jiffies(&self, msecs: u64) -> u64 {
        (msecs * u64::from(self.rules.hz)).div_ceil(1000)
    }

    /// Whether threads of one core share it between several tasks (`smt_balance`).
    #[inline]
    fn smt_balance(&self, env: &Env, group: u32, stats: &GroupStats) -> bool {
        self.rules.balance.smt_aware
            && env.idle != CpuIdle::NotIdle
            && self.domains.groups[group as usize].flags.share_cpucapacity
            && stats.h_nr_running > 1
    }

    /// `update_sg_lb_stats` from 5.5 on. Also reports whether some CPU has two tasks.
    pub(crate) fn update_sg_lb_stats<P: Platform>(
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
        let pct = self.domains.domain(env.domain).imbalance_pct;
        let shared = &self.domains.capacities[capacity_row];
        let mut stats = GroupStats {
            weight,
            capacity: shared.capacity,
            min_capacity: shared.min_capacity,
            max_capacity: shared.max_capacity,
            ..GroupStats::default()
        };
        p.spend(self.here, Op::BalanceCpu, cpus.len() as u32);
        for cpu in cpus.iter() {
            if env.nohz_stats {
                self.update_nohz_stats_for_newidle(p, env, cpu);
            }
            self.add_cpu_to_stats(env, cpu, local, pct, &mut stats, overloaded);
        }
        let cache_aware = self.cache.active && !self.domains.domain(env.domain).flags.share_llc;
        if cache_aware && !local {
            let counts = cpus.iter().map(|cpu| self.nr_pref_dst_llc(env, cpu));
            stats.nr_pref_dst_llc = counts.sum();
        }
        let smt_balance = !local && self.smt_balance(env, group, &stats);
        let asym_packing = !local && self.is_preferred_to_group(env, group, &stats);
        let llc_balance = !local
            && cache_aware
            && !(asym_packing && self.rules.cache.yields_to_priority)
            && self.llc_balance(env, group, &stats);
        let imbalanced = self.domains.capacities[capacity_row].imbalance;
        stats.never_overloaded =
            self.energy.on && self.rules.energy.overloaded_if_overutilized && !stats.overutilized;
        stats.group_type = stats.classify(pct, imbalanced, asym_packing, smt_balance, llc_balance);
        if cache_aware {
            self.record_llc_load(env, group, &stats);
        }
        if stats.group_type == GroupType::Overloaded {
            stats.avg_load = stats.load_per_capacity();
        }
        stats
    }

    #[inline(always)]
    fn add_cpu_to_stats(
        &self,
        env: &Env,
        cpu: Cpu,
        local: bool,
        pct: u32,
        stats: &mut GroupStats,
        overloaded: &mut bool,
    ) {
        let load = self.cpu_load(cpu);
        let h_nr_running = self.h_nr_running(cpu);
        let nr_running = self.rqs[cpu].nr_running;
        stats.load += load;
        stats.util += self.cpu_util(cpu);
        if self.energy.on {
            stats.overutilized |= self.cpu_overutilized(cpu);
        }
        if self.rules.balance.classifies_by_runnable {
            stats.runnable += self.cpu_runnable(cpu);
        }
        stats.h_nr_running += h_nr_running;
        stats.nr_running += nr_running;
        if nr_running > 1 {
            *overloaded = true;
        }
        if nr_running == 0 && self.domains.idle.contains(cpu) {
            stats.idle_cpus += 1;
            return;
        }
        if local {
            return;
        }
        let misfit_load = self.rqs[cpu].misfit_task_load;
        if self.domains.domain(env.domain).flags.asym_cpucapacity {
            let helps = !self.rules.balance.misfit_counts_if_helpful
                || capacity_greater(self.capacity_of(env.dst), stats.max_capacity);
            *overloaded |= misfit_load > 0;
            if helps {
                stats.misfit_load = stats.misfit_load.max(misfit_load);
            }
            return;
        }
        // The only task of a CPU that lost capacity is better off elsewhere.
        if self.rules.balance.reduced_capacity_is_misfit
            && env.idle != CpuIdle::NotIdle
            && h_nr_running == 1
            && self.check_cpu_capacity(cpu, pct)
        {
            stats.misfit_load = stats.misfit_load.max(load);
        }
    }
}
