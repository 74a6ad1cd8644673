//! The CPU to pull from (`sched_balance_find_src_rq`, `find_busiest_queue`), and how many CPUs a
//! wakeup should look at (`update_idle_cpu_scan`).

use super::{BusiestGroup, CpuIdle, Env, Migration};
use crate::capacity::capacity_greater;
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Access, Line, Platform};

/// SIS_UTIL: CPUs of an LLC worth looking at when their utilisation sums to `util`. Falls with the
/// square of the utilisation and reaches 0 at 1024 · 100 / pct per CPU.
///
/// Worked example: 16 CPUs at 50 %, percentage 117: x = 512, the square 512² · 117² / (10000
/// · 1024) is 350, so 1024 − 350 = 674 of 1024 parts of 16 CPUs remain: 10.
pub(crate) const fn nr_idle_scan(util: u64, llc_weight: u32, imbalance_pct: u32) -> u32 {
    let x = util / llc_weight as u64;
    let pct = imbalance_pct as u64;
    let busy = x * x * pct * pct / (10_000 * 1024);
    let rest = 1024u64.saturating_sub(busy);
    (rest * llc_weight as u64 / 1024) as u32
}

impl Kernel {
    /// The busiest CPU of a group, by what is to be moved.
    pub(crate) fn find_src_rq(&self, env: &Env, group: u32) -> Option<Cpu> {
        let pct = self.domains.domain(env.domain).imbalance_pct;
        let old = self.rules.balance.busiest_group == BusiestGroup::AverageLoad;
        let mut busiest = None;
        let (mut busiest_load, mut busiest_capacity) = (0, 1);
        let (mut busiest_util, mut busiest_nr, mut busiest_pref) = (0, 0, 0);
        let rules = &self.rules.balance;
        let cpus = self.domains.groups[group as usize].span.and(&env.cpus);
        for cpu in cpus.iter() {
            let nr_running = self.h_nr_running(cpu);
            if nr_running == 0 && rules.skips_idle_queues {
                continue;
            }
            if nr_running == 1 && self.only_task_is_no_help(env, cpu) {
                continue;
            }
            match env.migration {
                Migration::Misfit => {
                    let load = self.rqs[cpu].misfit_task_load;
                    if load > busiest_load {
                        busiest_load = load;
                        busiest = Some(cpu);
                    }
                }
                Migration::Load => {
                    let (load, alone) = if old {
                        (self.weighted_cpuload(cpu), self.rqs[cpu].nr_running == 1)
                    } else {
                        (self.cpu_load(cpu), nr_running == 1)
                    };
                    let too_much = i64::try_from(load).is_ok_and(|load| load > env.imbalance);
                    if alone && too_much && !self.check_cpu_capacity(cpu, pct) {
                        continue;
                    }
                    let capacity = self.capacity_of(cpu);
                    if load * busiest_capacity > busiest_load * capacity {
                        (busiest_load, busiest_capacity) = (load, capacity);
                        busiest = Some(cpu);
                    }
                }
                Migration::Util => {
                    let util = if rules.util_counts_waiting {
                        self.cpu_util_boost(cpu)
                    } else {
                        self.cpu_util(cpu)
                    };
                    if nr_running > 1 && util > busiest_util {
                        busiest_util = util;
                        busiest = Some(cpu);
                    }
                }
                Migration::Task => {
                    if nr_running > busiest_nr {
                        busiest_nr = nr_running;
                        busiest = Some(cpu);
                    }
                }
                Migration::LlcTask => {
                    let dst_llc = self.cache.llc_of[env.dst];
                    let prefer = self.cache.count(cpu, dst_llc);
                    if prefer > busiest_pref {
                        busiest_pref = prefer;
                        busiest = Some(cpu);
                    }
                }
            }
        }
        busiest
    }

    /// Whether pulling the only task of a CPU would bring it to one that is less preferred, or not
    /// larger where capacities are unequal.
    fn only_task_is_no_help(&self, env: &Env, cpu: Cpu) -> bool {
        let rules = &self.rules.balance;
        if self.is_preferred_in(env.domain, cpu, env.dst) {
            return true;
        }
        if !self.domains.domain(env.domain).flags.asym_cpucapacity {
            return false;
        }
        let (here, there) = (self.capacity_of(env.dst), self.capacity_of(cpu));
        if !rules.compares_cpu_capacity {
            return here < there;
        }
        let excused = rules.pulls_between_equal_clusters
            && ((self.domains.smt_active && !self.domains.is_core_idle(cpu))
                || (self.domains.cluster_active
                    && self.capacity_orig_of(env.dst) == self.capacity_orig_of(cpu)));
        !excused && !capacity_greater(here, there)
    }

    /// Tells wakeups how far to scan; newly idle balance is too frequent to write a shared line.
    pub(crate) fn update_idle_cpu_scan<P: Platform>(&mut self, p: &mut P, env: &Env, util: u64) {
        if !self.rules.features.sis_util || env.idle == CpuIdle::NewlyIdle {
            return;
        }
        let view = &self.domains.cpus[env.dst];
        let domain = self.domains.domain(env.domain);
        let shared = match Some(env.domain) == view.asym {
            true if self.rules.balance.asym_scan_is_limited => view.balance_shared,
            _ => view.shared.filter(|_| domain.span_weight == view.llc_size),
        };
        let Some(shared) = shared else {
            return;
        };
        let scan = nr_idle_scan(util, domain.span_weight, domain.imbalance_pct);
        let shared = &mut self.domains.shared[shared as usize];
        if scan != shared.nr_idle_scan {
            reached(Mark::NrIdleScan);
            shared.nr_idle_scan = scan;
            p.touch(self.here, Line::LlcIdleHints(shared.id), Access::Write);
        }
    }
}
