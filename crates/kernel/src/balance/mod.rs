//! Load balancing: scheduling domains, and who pulls which tasks from where.
//!
//! | room | rules |
//! |---|---|
//! | `build`, `groups` | domains and groups of a machine |
//! | `stats` | statistics and types of groups |
//! | `busiest`, `averages` | the busiest group and the imbalance, from 5.5 and before |
//! | `queue` | the busiest CPU of a group |
//! | `migrate` | which tasks may move, and moving them |
//! | `llc` | caches that tasks prefer, from 7.2 |
//! | `pass` | one balance pass over a domain, active balance |
//! | `periodic`, `newidle`, `nohz` | when passes happen |
//! | `blocked`, `cpu_load` | averages that balancing keeps up to date |
//!
//! # Domains
//!
//! Every CPU has a stack of domains, each one a set of CPUs that share something and each divided
//! into groups, the spans of the domain below. Worked example: two sockets with 2 cores × 2
//! threads. CPU 0 has SMT {0,4} with groups {0} {4}; MC {0,1,4,5} with groups {0,4} {1,5}; NUMA
//! with groups {0,1,4,5} {2,3,6,7}. The level of the package spans the same CPUs as MC, so it goes,
//! and MC takes over its SD_PREFER_SIBLING. A CPU balances a domain by pulling from the busiest
//! group into its own, the first of the list.
//!
//! # What the rest of the kernel must report
//!
//! Searches for idle CPUs are bit operations on sets kept here, so every change must be told:
//! [`Kernel::note_idle_state`] after the current task, `ttwu_pending` or, with the same tasks, the
//! number of idle-policy ones of a CPU changed;
//! `nr_running` changes through `add_nr_running` and `sub_nr_running` only.

mod asym;
mod averages;
mod blocked;
mod build;
mod busiest;
mod cpu_load;
mod env;
mod groups;
mod knobs;
mod llc;
mod migrate;
mod newidle;
mod nohz;
mod pass;
mod periodic;
mod prefer;
mod queue;
mod rules;
mod stats;
#[cfg(test)]
#[allow(dead_code)] // each test uses its part of the bench
pub(crate) mod testing;
#[cfg(test)]
pub(crate) mod tests;

use crate::cpuset::CpuSet;
use crate::explain::{EnergyOf, GroupState, Siblings};
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Access, Line, Op, Platform};
use crate::rules::Rules;
use crate::table::Table;
use crate::topology::Topology;

pub(crate) use busiest::adjust_numa_imbalance;
pub use env::{CpuIdle, Migration};
pub(crate) use env::{Env, MIGRATE_PAUSE};
pub use knobs::level_names;
pub use nohz::Tickless;
#[cfg(test)]
pub(crate) use queue::nr_idle_scan;
pub(crate) use rules::{BalanceRules, BusiestGroup, LoadGate, NumaAllowance};
pub(crate) use stats::{GroupStats, GroupType};

/// Resource that the CPUs of a domain share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Level {
    /// A core.
    #[default]
    Smt,
    /// An L2 cache (5.16).
    Cluster,
    /// The last level cache (MC on x86, CACHE on POWER).
    Cache,
    /// A node, below any NUMA level (PKG; DIE before 6.7).
    Package,
    /// A node that consists of several packages or caches (4.17).
    Node,
    /// Nodes within a distance.
    Numa(u32),
}

/// Flags of a domain (`SD_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub(crate) struct DomainFlags {
    /// SD_BALANCE_NEWIDLE.
    pub(crate) balance_newidle: bool,
    /// SD_BALANCE_EXEC.
    pub(crate) balance_exec: bool,
    /// SD_BALANCE_FORK.
    pub(crate) balance_fork: bool,
    /// SD_WAKE_AFFINE.
    pub(crate) wake_affine: bool,
    /// SD_SHARE_CPUCAPACITY: the CPUs are threads of one core.
    pub(crate) share_cpucapacity: bool,
    /// SD_CLUSTER (6.8).
    pub(crate) cluster: bool,
    /// SD_SHARE_LLC (SD_SHARE_PKG_RESOURCES before 6.9).
    pub(crate) share_llc: bool,
    /// SD_ASYM_CPUCAPACITY: its CPUs have different capacities.
    pub(crate) asym_cpucapacity: bool,
    /// SD_ASYM_CPUCAPACITY_FULL: it has every capacity that the machine has.
    pub(crate) asym_cpucapacity_full: bool,
    /// SD_ASYM_PACKING: tasks go to its preferred CPUs.
    pub(crate) asym_packing: bool,
    /// SD_SERIALIZE: one CPU of the machine at a time balances such domains.
    pub(crate) serialize: bool,
    /// SD_PREFER_SIBLING: groups of the domain above spread tasks evenly.
    pub(crate) prefer_sibling: bool,
    /// SD_OVERLAP: groups may overlap.
    pub(crate) overlap: bool,
    /// SD_NUMA.
    pub(crate) numa: bool,
}

/// A scheduling domain of one CPU (`struct sched_domain`).
#[derive(Clone, Debug, Default)]
pub struct Domain {
    /// Shared resource.
    pub(crate) level: Level,
    /// CPUs in it.
    pub(crate) span: CpuSet,
    /// Number of CPUs in it.
    pub(crate) span_weight: u32,
    /// Flags.
    pub(crate) flags: DomainFlags,
    /// Percentage from which a difference counts.
    pub(crate) imbalance_pct: u32,
    /// Failures after which cache heat is ignored.
    pub(crate) cache_nice_tries: u32,
    /// How many times as long its intervals are while the CPU is busy.
    pub(crate) busy_factor: u32,
    /// CPUs that its intervals are made of: up to 7.0 isolated ones of the level, too.
    pub(crate) level_weight: u32,
    /// Shortest balance interval, ms.
    pub(crate) min_interval: u32,
    /// Longest balance interval, ms.
    pub(crate) max_interval: u32,
    /// Tasks up to which NUMA imbalance is allowed (5.18).
    pub(crate) imb_numa_nr: u32,
    /// First row of its groups in the group lists; the local group comes first.
    pub(crate) first_group: u32,
    /// Number of its groups.
    pub(crate) nr_groups: u32,
    /// Domain above.
    pub(crate) parent: Option<u32>,
    /// Domain below.
    pub(crate) child: Option<u32>,
    /// Averages of the past that bias comparisons while busy and idle (up to 4.19).
    pub(crate) load_index: (u8, u8),

    /// Jiffy of the last periodic balance.
    pub last_balance: u64,
    /// Current balance interval, ms.
    pub balance_interval: u32,
    /// Failed periodic attempts in a row.
    pub nr_balance_failed: u32,
    /// Largest recent cost of newly idle balance.
    pub max_newidle_lb_cost_ns: Ns,
    /// Jiffy of the last change of that cost (from 5.16), or of its next decay.
    pub(crate) cost_decay_jiffy: u64,
    /// NI_RANDOM: recent calls, weighted successes among them, and their rate per 1024.
    pub(crate) newidle_call: u32,
    pub(crate) newidle_success: u32,
    pub(crate) newidle_ratio: u32,
    /// NI_RATE: when that rate was computed.
    pub(crate) newidle_stamp_ns: Ns,
    /// SIS_PROP: average cost of a scan.
    pub(crate) avg_scan_cost_ns: Ns,
}

/// A group of a domain (`struct sched_group`).
#[derive(Clone, Debug)]
pub(crate) struct SchedGroup {
    /// CPUs in it.
    pub(crate) span: CpuSet,
    /// Number of CPUs in it.
    pub(crate) weight: u32,
    /// Number of cores in it (6.6).
    pub(crate) cores: u32,
    /// CPUs that may balance for it.
    pub(crate) balance_mask: CpuSet,
    /// Its most preferred CPU (`asym_prefer_cpu`).
    pub(crate) prefer_cpu: Cpu,
    /// Flags of the domain below, whose span this is.
    pub(crate) flags: DomainFlags,
    /// Row of its capacity.
    pub(crate) capacity: u32,
}

/// Capacity of a group; groups with the same span share it (`struct sched_group_capacity`).
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupCapacity {
    /// Capacity left for the fair class, summed over the CPUs.
    pub capacity: u64,
    /// That of the smallest CPU.
    pub min_capacity: u64,
    /// That of the largest CPU.
    pub max_capacity: u64,
    /// Jiffy from which a newly idle balance updates it.
    pub(crate) next_update: u64,
    /// Affinity kept the level below from balancing.
    pub imbalance: bool,
}

/// State shared by the CPUs of a last level cache (`struct sched_domain_shared`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LlcShared {
    /// First CPU of the LLC, which names its cache line.
    pub(crate) id: Cpu,
    /// CPUs that are not in tickless idle.
    pub(crate) nr_busy_cpus: u32,
    /// Hint that some core is fully idle.
    pub(crate) has_idle_cores: bool,
    /// SIS_UTIL: CPUs worth looking at.
    pub(crate) nr_idle_scan: u32,
}

/// State of one CPU that the balancer reads often, kept in one place.
#[derive(Clone, Debug)]
pub(crate) struct CpuView {
    /// Its domains, bottom-up, as rows `first..first + count`.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// `sd_llc`: the highest domain that shares a cache.
    pub(crate) llc: Option<u32>,
    /// `sd_asym_cpucapacity`: the lowest domain that has all capacities of the machine.
    pub(crate) asym: Option<u32>,
    /// `sd_asym_packing`: the highest domain whose CPUs are preferred one to another.
    pub(crate) packing: Option<u32>,
    /// `sd_llc_size`.
    pub(crate) llc_size: u32,
    /// `sd_llc_id`: first CPU of the LLC.
    pub(crate) llc_id: Cpu,
    /// `sd_share_id`: first CPU of the cluster, or of the LLC where there is none.
    pub(crate) share_id: Cpu,
    /// Row of the shared state of the LLC.
    pub(crate) shared: Option<u32>,
    /// Row of the state that searches use (`sd_balance_shared`, 7.2): that of `asym`, or the LLC's.
    pub(crate) balance_shared: Option<u32>,
    /// Core, for counting idle siblings.
    pub(crate) core: u32,
    /// SMT siblings, itself included.
    pub(crate) smt: CpuSet,
    /// Capacity without other classes (`capacity_orig_of`).
    pub(crate) capacity_orig: u64,
    /// Not counted in `nr_busy_cpus` (`sd->nohz_idle`).
    pub(crate) nohz_idle: bool,
    /// `NOHZ_*` bits that wait for this CPU.
    pub(crate) nohz_flags: u8,
    /// Bits taken over by the softirq (`rq->nohz_idle_balance`).
    pub(crate) nohz_idle_balance: u8,
    /// The CPU was idle when the tick or kick came (`rq->idle_balance`).
    pub(crate) idle_balance: bool,
    /// Exit latency of the idle state it is in.
    pub(crate) idle_exit_latency_ns: Option<Ns>,
    /// `cpu_load[]` (up to 4.19).
    pub(crate) cpu_load: [u64; 5],
    /// Jiffy of its last update.
    pub(crate) cpu_load_jiffy: u64,
}

/// Scheduling domains of all CPUs and what balancing remembers about them.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    pub(crate) cpus: Table<CpuView>,
    pub(crate) domains: Table<Domain>,
    pub(crate) groups: Table<SchedGroup>,
    pub(crate) group_lists: Table<u32>,
    pub(crate) capacities: Table<GroupCapacity>,
    pub(crate) shared: Table<LlcShared>,
    /// CPUs of each node.
    pub(crate) nodes: Vec<CpuSet>,
    /// Node of each CPU, as a row of `nodes`.
    pub(crate) node_of: Vec<u32>,
    /// CPUs for which `available_idle_cpu` holds.
    pub(crate) idle: CpuSet,
    /// CPUs with nothing but SCHED_IDLE tasks.
    pub(crate) sched_idle: CpuSet,
    /// The task that is being placed has policy SCHED_IDLE.
    pub(crate) places_idle_policy: bool,
    /// CPUs all of whose siblings are idle, where cores have several threads.
    pub(crate) idle_cores: CpuSet,
    /// Idle CPUs that wakeups chose and have not marked yet.
    pub(crate) claims: crate::select::Claims,
    /// Idle threads and threads of each core.
    pub(crate) core_idle: Table<(u16, u16)>,
    /// Some core has several threads (`sched_smt_active`).
    pub(crate) smt_active: bool,
    /// Some CPU has a domain with SD_CLUSTER (`sched_cluster_active`).
    pub(crate) cluster_active: bool,
    /// CPUs have different capacities (`sched_asym_cpucap_active`).
    pub(crate) asym_active: bool,
    /// Some CPU has two tasks (`rd->overloaded`).
    pub(crate) overloaded: bool,
    /// The same of isolated CPUs, where nothing ever takes it back.
    pub(crate) isolated_overloaded: bool,
    /// Until when the balancer of SD_SERIALIZE domains is at work.
    pub(crate) serialized_until_ns: Ns,
    /// Idle CPUs ask for a new `nohz.next_balance` (`nohz.needs_update`, 5.16).
    pub(crate) nohz_needs_update: bool,
    /// Longest balance interval, jiffies.
    pub(crate) max_interval_jiffies: u64,
    /// Tasks between two queues; empty outside a balance pass.
    pub(crate) moving: Vec<TaskId>,
    /// Reasons of the decision being made; kept only for platforms that ask for explanations.
    pub(crate) why: Why,
}

/// Why a decision falls as it does.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    /// The rule that decided.
    pub(crate) rule: Mark,
    /// Wakeups: near which CPU an idle one is sought, and the rule that said so.
    pub(crate) target: (Cpu, Mark),
    /// The cluster that a scan looks at first.
    pub(crate) near_first: Option<CpuSet>,
    /// CPUs looked at.
    pub(crate) examined: u32,
    /// Most CPUs a scan might look at.
    pub(crate) scan_limit: Option<u32>,
    /// Wakeup preemption: what was compared.
    pub(crate) siblings: Option<Box<Siblings>>,
    /// Wakeups by energy: prices of the candidates.
    pub(crate) energies: Vec<EnergyOf>,
    /// Balance: the local and the busiest group.
    pub(crate) groups: Option<(GroupState, GroupState)>,
}

impl Default for Why {
    fn default() -> Self {
        Self {
            rule: Mark::NothingIdle,
            target: (Cpu(0), Mark::NotAffine),
            near_first: None,
            examined: 0,
            scan_limit: None,
            siblings: None,
            energies: Vec::new(),
            groups: None,
        }
    }
}

impl Level {
    /// Name in `/sys/kernel/debug/sched/domains`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Level::Smt => "SMT",
            Level::Cluster => "CLS",
            Level::Cache => "MC",
            Level::Package => "PKG",
            Level::Node => "NODE",
            Level::Numa(_) => "NUMA",
        }
    }
}

impl Domains {
    /// Domains of a machine that was idle for long: no CPU counts as busy, idle cores are known and
    /// the whole LLC is worth a scan.
    pub(crate) fn new(topology: &Topology, rules: &Rules) -> Self {
        build::build(topology, rules)
    }

    /// Rows of the domains of a CPU, bottom-up (`for_each_domain`).
    #[inline(always)]
    pub(crate) fn rows(&self, cpu: Cpu) -> std::ops::Range<u32> {
        let view = &self.cpus[cpu];
        view.first..view.first + view.count
    }

    /// Domains of a CPU, bottom-up.
    pub fn of(&self, cpu: Cpu) -> &[Domain] {
        let rows = self.rows(cpu);
        &self.domains[rows.start as usize..rows.end as usize]
    }

    /// A domain.
    #[inline(always)]
    pub(crate) fn domain(&self, row: u32) -> &Domain {
        &self.domains[row as usize]
    }

    /// Starts the count of newly idle balances with another share of successes than the half at
    /// boot.
    pub(crate) fn set_newidle_ratio(&mut self, ratio_1024ths: u32) {
        for domain in &mut self.domains {
            domain.newidle_ratio = ratio_1024ths;
            // Of the 512 calls that a domain begins with.
            domain.newidle_success = ratio_1024ths / 2;
        }
    }

    /// A domain.
    #[inline(always)]
    pub(crate) fn domain_mut(&mut self, row: u32) -> &mut Domain {
        &mut self.domains[row as usize]
    }

    /// Row of the `n`-th group of a domain; the 0th is the local one.
    #[inline(always)]
    pub(crate) fn group_row(&self, domain: u32, n: u32) -> u32 {
        self.group_lists[(self.domains[domain as usize].first_group + n) as usize]
    }

    /// Capacity of the group of a domain that its CPU is in.
    pub fn capacity_of_group(&self, domain: &Domain) -> &GroupCapacity {
        let row = self.group_lists[domain.first_group as usize] as usize;
        &self.capacities[self.groups[row].capacity as usize]
    }

    /// Groups of a domain, the local one first.
    pub(crate) fn groups_of<'a>(
        &'a self,
        domain: &Domain,
    ) -> impl Iterator<Item = &'a SchedGroup> + 'a {
        let first = domain.first_group as usize;
        self.group_lists[first..first + domain.nr_groups as usize]
            .iter()
            .map(|&row| &self.groups[row as usize])
    }

    /// Whether two CPUs share the last level cache (`cpus_share_cache`).
    #[inline(always)]
    pub(crate) fn share_cache(&self, a: Cpu, b: Cpu) -> bool {
        a == b || self.cpus[a].llc_id == self.cpus[b].llc_id
    }

    /// Whether two CPUs share a cluster, or the LLC where there are none (`cpus_share_resources`).
    #[inline(always)]
    pub(crate) fn share_resources(&self, a: Cpu, b: Cpu) -> bool {
        a == b || self.cpus[a].share_id == self.cpus[b].share_id
    }

    /// As a kernel boots: nobody has looked how many CPUs of a cache are worth a search. Worlds
    /// begin with a machine that has idled, where all are.
    pub fn forget_idle_scans(&mut self) {
        for shared in self.shared.iter_mut() {
            shared.nr_idle_scan = 0;
        }
    }

    /// State shared by the LLC of a CPU.
    pub(crate) fn llc_shared(&self, cpu: Cpu) -> Option<&LlcShared> {
        let row = self.cpus[cpu].shared?;
        Some(&self.shared[row as usize])
    }

    /// State that searches for a CPU use.
    pub(crate) fn balance_shared(&self, cpu: Cpu) -> Option<&LlcShared> {
        let row = self.cpus[cpu].balance_shared?;
        Some(&self.shared[row as usize])
    }

    /// Whether every other sibling of a CPU is idle (`is_core_idle`).
    #[inline(always)]
    pub(crate) fn is_core_idle(&self, cpu: Cpu) -> bool {
        let (idle, threads) = self.core_idle[self.cpus[cpu].core as usize];
        idle + u16::from(!self.idle.contains(cpu)) == threads
    }
}

impl Kernel {
    /// Notes the rule that decides, if an explanation is wanted.
    #[inline(always)]
    pub(crate) fn because<P: Platform>(&mut self, rule: Mark) {
        reached(rule);
        if P::EXPLAIN {
            self.domains.why.rule = rule;
        }
    }

    /// Charges a search for CPUs it looked at.
    #[inline(always)]
    pub(crate) fn look<P: Platform>(&mut self, p: &mut P, cpus: u32) {
        p.spend(self.here, Op::SelectScanCpu, cpus);
        if P::EXPLAIN {
            self.domains.why.examined += cpus;
        }
    }

    /// To be called when the current task, `ttwu_pending` or the SCHED_IDLE tasks of a CPU changed:
    /// keeps the sets of idle CPUs true.
    #[inline]
    pub(crate) fn note_idle_state(&mut self, cpu: Cpu) {
        let (idle, sched_idle) = (self.available_idle_cpu(cpu), self.sched_idle_cpu(cpu));
        let rq = &self.rqs[cpu];
        if idle != rq.noted_idle || sched_idle != rq.noted_sched_idle {
            self.change_idle_state(cpu, idle, sched_idle);
        }
    }

    #[inline(never)]
    fn change_idle_state(&mut self, cpu: Cpu, idle: bool, sched_idle: bool) {
        let rq = &mut self.rqs[cpu];
        if std::mem::replace(&mut rq.noted_idle, idle) != idle {
            self.domains.set_idle(cpu, idle);
        }
        if std::mem::replace(&mut rq.noted_sched_idle, sched_idle) != sched_idle {
            if sched_idle {
                self.domains.sched_idle.insert(cpu);
            } else {
                self.domains.sched_idle.remove(cpu);
            }
        }
    }

    /// Counts tasks that were queued (`add_nr_running`); the second one of a CPU makes the machine
    /// overloaded.
    #[inline]
    pub(crate) fn add_nr_running(&mut self, cpu: Cpu, tasks: u32) {
        let rq = &mut self.rqs[cpu];
        let before = rq.nr_running;
        rq.nr_running += tasks;
        // Isolated CPUs are in a root domain of their own.
        if before < 2 && rq.nr_running >= 2 {
            match self.topology.isolated.contains(cpu) {
                true => self.domains.isolated_overloaded = true,
                false => self.domains.overloaded = true,
            }
        }
        if self.nohz.has_full {
            self.note_tick_dependency(cpu);
        }
        self.note_idle_state(cpu);
    }

    /// Counts tasks that left (`sub_nr_running`).
    #[inline]
    pub(crate) fn sub_nr_running(&mut self, cpu: Cpu, tasks: u32) {
        self.rqs[cpu].nr_running -= tasks;
        self.note_idle_state(cpu);
    }

    /// To be called when a CPU enters an idle state or leaves it, with the state's exit latency
    /// (`idle_set_state`); fork and exec prefer CPUs that wake fast.
    #[inline]
    pub(crate) fn note_idle_latency(&mut self, cpu: Cpu, exit_latency_ns: Option<Ns>) {
        self.domains.cpus[cpu].idle_exit_latency_ns = exit_latency_ns;
    }

    /// To be called when a CPU switches to its idle task (`update_idle_core`).
    #[inline]
    pub(crate) fn update_idle_core<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if !self.domains.smt_active {
            return;
        }
        let Some(row) = self.domains.cpus[cpu].balance_shared else {
            return;
        };
        let line = Line::LlcIdleHints(self.domains.shared[row as usize].id);
        p.touch(self.here, line, Access::Read);
        if self.domains.shared[row as usize].has_idle_cores || !self.domains.is_core_idle(cpu) {
            return;
        }
        p.touch(self.here, line, Access::Write);
        self.domains.shared[row as usize].has_idle_cores = true;
    }
}

impl Domains {
    fn set_idle(&mut self, cpu: Cpu, idle: bool) {
        let view = &self.cpus[cpu];
        let (idle_threads, threads) = &mut self.core_idle[view.core as usize];
        if idle {
            self.idle.insert(cpu);
            *idle_threads += 1;
            if self.smt_active && idle_threads == threads {
                self.idle_cores = self.idle_cores.or(&view.smt);
            }
        } else {
            if self.smt_active && idle_threads == threads {
                self.idle_cores = self.idle_cores.and_not(&view.smt);
            }
            *idle_threads -= 1;
            self.idle.remove(cpu);
        }
    }
}
