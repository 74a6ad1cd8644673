//! Preferred CPUs (SD_ASYM_PACKING): tasks are pulled to the CPUs that the platform prefers.
//!
//! On x86 the firmware says how fast each core can become (Turbo Boost Max, hybrid processors);
//! that is its priority (ITMT), and all threads of a core have the same. Balancing packs tasks on
//! the CPUs of the highest priority, but between cores it follows priorities only where a whole
//! core is idle: a busy thread costs its sibling more than a slower core does.
//!
//! Worked example (CPUs 0 and 1 are threads of a core of priority 40, CPU 2 is a core of 30): a
//! task runs on CPU 2. When CPU 0 balances, its core is idle and 40 > 30: it pulls the running task
//! by active balance. While CPU 1 is busy it leaves the task alone. With a task on both CPU 0 and
//! CPU 1, CPU 2 helps though its priority is lower.

use super::build::Stack;
use super::stats::GroupStats;
use super::{CpuIdle, Env, Level};
use crate::cpuset::CpuSet;
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::rules::Rules;
use crate::topology::Topology;

/// Marks the domains whose CPUs are preferred one to another: clusters, caches and packages, not
/// the threads of a core (`x86_sched_itmt_flags`).
pub(super) fn mark(stacks: &mut [Stack], topology: &Topology, rules: &Rules) {
    if topology.priorities.is_empty() || !rules.balance.preferred_cpus {
        return;
    }
    for proto in stacks.iter_mut().flatten() {
        proto.flags.asym_packing =
            matches!(proto.level, Level::Cluster | Level::Cache | Level::Package);
    }
}

/// Most preferred of some CPUs, the first of equals.
pub(super) fn most_preferred(cpus: &CpuSet, topology: &Topology) -> Cpu {
    let priority = |cpu: Cpu| topology.priorities.get(cpu.index()).copied().unwrap_or(0);
    let first = cpus.lowest().unwrap_or(Cpu(0));
    cpus.iter().fold(first, |best, cpu| {
        if priority(cpu) > priority(best) {
            cpu
        } else {
            best
        }
    })
}

impl Kernel {
    /// `sched_asym_prefer`.
    pub(super) fn is_preferred(&self, cpu: Cpu, other: Cpu) -> bool {
        let priorities = &self.topology.priorities;
        priorities[cpu.index()] > priorities[other.index()]
    }

    /// Whether a CPU's priority counts in a domain (`sched_use_asym_prio`).
    fn priority_counts(&self, row: u32, cpu: Cpu) -> bool {
        let flags = &self.domains.domain(row).flags;
        flags.asym_packing
            && (!self.domains.smt_active
                || flags.share_cpucapacity
                || self.domains.is_core_idle(cpu))
    }

    /// Whether a CPU may take from another because it is preferred (`sched_asym`).
    pub(super) fn is_preferred_in(&self, row: u32, cpu: Cpu, other: Cpu) -> bool {
        self.priority_counts(row, cpu) && self.is_preferred(cpu, other)
    }

    /// The same of a group: that none of its CPUs is preferred to the one that balances, and of a
    /// core that no two threads are busy (`sched_group_asym`).
    #[inline]
    pub(super) fn is_preferred_to_group(&self, env: &Env, group: u32, stats: &GroupStats) -> bool {
        let packs = self.domains.domain(env.domain).flags.asym_packing;
        if !packs || env.idle == CpuIdle::NotIdle || stats.h_nr_running == 0 {
            return false;
        }
        let group = &self.domains.groups[group as usize];
        let two_busy = group.flags.share_cpucapacity && stats.weight - stats.idle_cpus != 1;
        !two_busy && self.is_preferred_in(env.domain, env.dst, group.prefer_cpu)
    }

    /// Whether the running task is to be moved: to a preferred CPU, or away from a core that runs
    /// several (`asym_active_balance`).
    pub(super) fn active_balance_for_priority(&self, env: &Env) -> bool {
        env.idle != CpuIdle::NotIdle
            && self.priority_counts(env.domain, env.dst)
            && (self.is_preferred(env.dst, env.src) || !self.priority_counts(env.domain, env.src))
    }

    /// Whether a tickless CPU is preferred to a busy one.
    pub(super) fn preferred_cpu_idles(&self, row: u32, cpu: Cpu) -> bool {
        let idle = self.domains.domain(row).span.and(&self.nohz.idle_cpus);
        idle.iter()
            .any(|other| self.is_preferred_in(row, other, cpu))
    }
}
