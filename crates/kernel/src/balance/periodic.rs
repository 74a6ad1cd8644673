//! Balancing by the clock (`sched_balance_trigger`, `sched_balance_softirq`,
//! `sched_balance_domains`).
//!
//! Worked example, HZ=250, 8 CPUs in one LLC: the domain's interval is 8 ms, 2 jiffies, while the
//! CPU is idle, and 16 times that less one jiffy, 31 jiffies or 124 ms, while it is busy.

use super::{CpuIdle, Domain};
use crate::ids::{Cpu, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;

impl Kernel {
    /// At each tick: is a balance due, does an idle CPU have to be kicked
    /// (`sched_balance_trigger`).
    pub(crate) fn sched_balance_trigger<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let jiffy = self.jiffies(p.now(cpu));
        self.domains.cpus[cpu].idle_balance = self.available_idle_cpu(cpu);
        if self.rules.features.lb_bias {
            if self.rqs[cpu].nohz_tick_stopped {
                let load = self.weighted_cpuload(cpu);
                self.cpu_load_update_nohz(cpu, jiffy, load);
            } else {
                self.cpu_load_update_tick(cpu, jiffy);
            }
        }
        if self.domains.cpus[cpu].count == 0 {
            return;
        }
        let rq = &mut self.rqs[cpu];
        if jiffy >= rq.next_balance {
            rq.balance_softirq = true;
        }
        self.nohz_balancer_kick(p, cpu, jiffy);
    }

    /// SCHED_SOFTIRQ: first for the idle CPUs, when kicked, else for this one
    /// (`sched_balance_softirq`).
    pub(crate) fn sched_balance_softirq<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let idle = if self.domains.cpus[cpu].idle_balance {
            CpuIdle::Idle
        } else {
            CpuIdle::NotIdle
        };
        let served = self.nohz_idle_balance(p, cpu, idle);
        if served && self.rules.balance.nohz_blocked {
            return;
        }
        if !self.rules.balance.rebalance_updates_blocked {
            self.update_blocked_averages(p, cpu);
        }
        self.sched_balance_domains(p, cpu, idle);
    }

    /// Jiffies between two balances of a domain (`get_sd_balance_interval`).
    #[inline(always)]
    pub(crate) fn balance_interval(&self, domain: &Domain, busy: bool) -> u64 {
        let mut msecs = u64::from(domain.balance_interval);
        if busy {
            msecs *= u64::from(domain.busy_factor);
        }
        let mut interval = self.msecs_to_jiffies(msecs);
        if busy && self.rules.balance.busy_interval_minus_one {
            // So that levels do not fall due together again and again.
            interval = interval.saturating_sub(1);
        }
        interval.clamp(1, self.domains.max_interval_jiffies)
    }

    /// Balances each domain that is due, bottom-up (`sched_balance_domains`).
    pub(crate) fn sched_balance_domains<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        mut idle: CpuIdle,
    ) {
        if self.rules.balance.rebalance_updates_blocked {
            self.update_blocked_averages(p, cpu);
        }
        let mut busy = self.is_busy_for_balance(cpu, idle);
        let jiffy = self.jiffies(p.now(self.here));
        let mut next_balance = jiffy + 60 * u64::from(self.rules.hz);
        let mut keep_going = true;
        let (mut decayed, mut max_cost) = (false, 0);
        for row in self.domains.rows(cpu) {
            let decayed_here = self.decay_newidle_cost(row, jiffy);
            decayed = decayed_here || (decayed && !self.rules.balance.newidle_cost_waits);
            max_cost += self.domains.domain(row).max_newidle_lb_cost_ns;
            if !keep_going {
                if decayed {
                    continue;
                }
                break;
            }
            let mut interval = self.balance_interval(self.domains.domain(row), busy);
            let serialize = self.domains.domain(row).flags.serialize;
            // Another CPU is in the middle of a balance over such a domain.
            let excluded = serialize && p.now(self.here) < self.domains.serialized_until_ns;
            if !excluded && jiffy >= self.domains.domain(row).last_balance + interval {
                reached(Mark::PeriodicBalance);
                if self.sched_balance_rq(p, cpu, row, idle, &mut keep_going) > 0 {
                    // Tasks may have gone to another CPU of the group.
                    let now_idle = self.available_idle_cpu(cpu);
                    idle = if now_idle {
                        CpuIdle::Idle
                    } else {
                        CpuIdle::NotIdle
                    };
                    busy = self.is_busy_for_balance(cpu, idle);
                }
                self.domains.domain_mut(row).last_balance = jiffy;
                interval = self.balance_interval(self.domains.domain(row), busy);
                if serialize {
                    self.domains.serialized_until_ns = p.now(self.here);
                }
            }
            next_balance = next_balance.min(self.domains.domain(row).last_balance + interval);
        }
        self.finish_balance_domains(cpu, idle, next_balance, decayed.then_some(max_cost));
    }

    fn finish_balance_domains(
        &mut self,
        cpu: Cpu,
        idle: CpuIdle,
        next_balance: u64,
        decayed_cost_ns: Option<Ns>,
    ) {
        let rq = &mut self.rqs[cpu];
        if let Some(cost_ns) = decayed_cost_ns {
            rq.max_idle_balance_cost_ns = cost_ns.max(self.rules.migration_cost_ns);
        }
        if self.domains.cpus[cpu].count == 0 {
            return;
        }
        rq.next_balance = next_balance;
        if !self.rules.balance.nohz_wraps && idle == CpuIdle::Idle {
            self.nohz.next_balance = self.nohz.next_balance.min(next_balance);
        }
    }

    fn is_busy_for_balance(&self, cpu: Cpu, idle: CpuIdle) -> bool {
        idle != CpuIdle::Idle
            && !(self.rules.balance.sched_idle_is_not_busy && self.sched_idle_cpu(cpu))
    }

    /// Lets the largest cost of newly idle balance fade by 1 % a second. Returns whether it did.
    fn decay_newidle_cost(&mut self, row: u32, jiffy: u64) -> bool {
        let waits = self.rules.balance.newidle_cost_waits;
        let second = u64::from(self.rules.hz);
        let domain = self.domains.domain_mut(row);
        let due = domain.cost_decay_jiffy + if waits { second } else { 0 };
        if jiffy <= due {
            return false;
        }
        domain.max_newidle_lb_cost_ns = domain.max_newidle_lb_cost_ns * 253 / 256;
        domain.cost_decay_jiffy = jiffy + if waits { 0 } else { second };
        true
    }
}
