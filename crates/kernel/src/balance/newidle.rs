//! Balancing right before a CPU goes idle (`sched_balance_newidle`).
//!
//! Worked example: a CPU idles 0.2 ms at a time on average; balancing its SMT domain once took
//! 0.05 ms and its LLC once 0.3 ms. It looks for tasks on its sibling (0.05 ≤ 0.2), but not in the
//! LLC (0.05 + 0.3 > 0.2).

use super::{CpuIdle, Domain};
use crate::ids::{Cpu, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Draw, Platform};
use crate::rules::Rules;
use crate::task::Policy;

/// The time, where the kernel has NI_RATE: `rate` of [`update_newidle_stats`].
fn rated(rules: &Rules, now_ns: Ns) -> Option<Ns> {
    rules.features.ni_rate.then_some(now_ns)
}

/// Notes the outcome of a newly idle balance, weighted by how rarely it was tried
/// (`update_newidle_stats`).
fn update_newidle_stats(domain: &mut Domain, success: u32, rate: Option<Ns>) {
    domain.newidle_call += 1;
    domain.newidle_success += success;
    if domain.newidle_call >= 1024 {
        domain.newidle_ratio = domain.newidle_success;
        if let Some(now_ns) = rate {
            // 512 or 1024 calls in 2 s, 256 a second or less, add 512 of 1024.
            let rare = now_ns.saturating_sub(domain.newidle_stamp_ns) >> 22;
            domain.newidle_stamp_ns = now_ns;
            domain.newidle_ratio = (u64::from(domain.newidle_ratio) + rare).min(1024) as u32;
        }
        domain.newidle_call /= 2;
        domain.newidle_success /= 2;
    }
}

impl Domain {
    /// Newly idle balances counted of late (`newidle_call`).
    pub fn newidle_call(&self) -> u32 {
        self.newidle_call
    }

    /// Successes per 1024 of them (`newidle_ratio`).
    pub fn newidle_ratio(&self) -> u32 {
        self.newidle_ratio
    }
}

impl Kernel {
    /// Tries to pull tasks to a CPU that has nothing left to run. Negative: tasks of a higher class
    /// arrived; 0: nothing; positive: fair tasks are there.
    pub(crate) fn sched_balance_newidle<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> i32 {
        self.update_misfit_status(cpu, None);
        if self.rules.balance.newidle_skips_pending && self.rqs[cpu].ttwu_pending {
            return 0;
        }
        let jiffy = self.jiffies(p.now(cpu));
        self.rqs[cpu].idle_stamp = self.rqs[cpu].clock;
        let mut next_balance = jiffy + u64::from(self.rules.hz);
        let mut pulled = 0;
        if !self.newidle_is_worthwhile(cpu) {
            reached(Mark::NewidleNotWorthwhile);
            if let Some(row) = self.domains.rows(cpu).next() {
                next_balance = next_balance.min(self.next_balance_of(row));
            }
            if !self.rules.balance.nohz_newidle_late {
                self.nohz_newidle_balance(p, cpu, jiffy);
            }
        } else {
            reached(Mark::NewidleBalance);
            let moved = self.newidle_domains(p, cpu, &mut next_balance);
            self.rq_relock(p, cpu);
            pulled = self.newidle_result(cpu, moved);
        }
        let rq = &mut self.rqs[cpu];
        rq.next_balance = rq.next_balance.min(next_balance);
        if pulled != 0 {
            rq.idle_stamp = 0;
        } else if self.rules.balance.nohz_newidle_late {
            self.nohz_newidle_balance(p, cpu, jiffy);
        }
        pulled
    }

    /// True if some run queue is overloaded (has two tasks) and the CPU idles long enough on
    /// average.
    fn newidle_is_worthwhile(&self, cpu: Cpu) -> bool {
        let row = self.domains.rows(cpu).next();
        if row.is_none() && self.rules.balance.newidle_needs_domain {
            return false;
        }
        if let Some(looks) = self.rules.own.newidle(self, || cpu) {
            return looks;
        }
        let needed_ns = match row {
            _ if self.rules.balance.newidle_needs_migration_cost => self.rules.migration_cost_ns,
            Some(row) => self.domains.domain(row).max_newidle_lb_cost_ns,
            None => 0,
        };
        let overloaded = match row {
            None if self.topology.isolated.contains(cpu) => self.domains.isolated_overloaded,
            _ => self.domains.overloaded,
        };
        overloaded && self.rqs[cpu].avg_idle >= needed_ns
    }

    /// When a domain is due if the CPU stays idle (`update_next_balance`).
    #[inline(always)]
    fn next_balance_of(&self, row: u32) -> u64 {
        let domain = self.domains.domain(row);
        domain.last_balance + self.balance_interval(domain, false)
    }

    #[inline(never)]
    fn newidle_domains<P: Platform>(&mut self, p: &mut P, cpu: Cpu, next_balance: &mut u64) -> u32 {
        let with_blocked = self.rules.balance.newidle_cost_with_blocked;
        let mut started_ns = p.now(cpu);
        if !self.rules.balance.newidle_leaves_clock {
            self.balancing_reads_clock(p, cpu);
        }
        self.update_blocked_to_clock(p, cpu);
        // What is pulled now is held against fair tasks, whatever has just blocked
        // (`rq_modified_begin`).
        let next_rank = &mut self.rqs[cpu].next_rank;
        *next_rank = (*next_rank).min(Policy::Normal.rank());
        let mut cost_ns = 0;
        let mut moved = 0;
        let mut keep_going = true;
        for row in self.domains.rows(cpu) {
            let domain = self.domains.domain(row);
            let too_dear = self.rqs[cpu].avg_idle < cost_ns + domain.max_newidle_lb_cost_ns;
            if too_dear || self.rules.balance.newidle_next_balance_first {
                *next_balance = (*next_balance).min(self.next_balance_of(row));
            }
            if too_dear {
                reached(Mark::NewidleTooDear);
                break;
            }
            let domain = self.domains.domain(row);
            if domain.flags.balance_newidle {
                let Some(weight) = self.newidle_dice(p, cpu, row) else {
                    continue;
                };
                if !with_blocked {
                    started_ns = p.now(cpu);
                }
                moved = self.sched_balance_rq(p, cpu, row, CpuIdle::NewlyIdle, &mut keep_going);
                let now_ns = p.now(cpu);
                cost_ns += now_ns - started_ns;
                let success = if moved > 0 { weight } else { 0 };
                let noted_ns = self.newidle_cost_of(row, now_ns - started_ns, moved > 0);
                self.note_newidle_cost(p, row, noted_ns, success);
                started_ns = now_ns;
            }
            if !self.rules.balance.newidle_next_balance_first {
                *next_balance = (*next_balance).min(self.next_balance_of(row));
            }
            let rq = &self.rqs[cpu];
            if moved > 0 || rq.nr_running > 0 || !keep_going {
                break;
            }
        }
        let rq = &mut self.rqs[cpu];
        rq.max_idle_balance_cost_ns = rq.max_idle_balance_cost_ns.max(cost_ns);
        moved
    }

    /// NI_RANDOM: newly idle balance takes place as often as it succeeds. Returns how many attempts
    /// this one stands for.
    fn newidle_dice<P: Platform>(&mut self, p: &mut P, cpu: Cpu, row: u32) -> Option<u32> {
        if !self.rules.features.ni_random {
            return Some(1);
        }
        let always = self.domains.domain(row).newidle_ratio >= 1024;
        if self.rules.features.ni_rate && always {
            return Some(1);
        }
        let dice = (p.random(Draw::NewidleDice(cpu)) % 1024) as u32;
        let domain = self.domains.domain_mut(row);
        let weight = 1 + domain.newidle_ratio;
        if dice > weight {
            update_newidle_stats(domain, 0, rated(&self.rules, p.now(cpu)));
            return None;
        }
        Some((1024 + weight / 2) / weight)
    }

    /// Cost that a balance counts as: its own, or one and a half times the largest so far if it
    /// found nothing.
    fn newidle_cost_of(&self, row: u32, cost_ns: Ns, found: bool) -> Ns {
        if found || !self.rules.balance.newidle_failure_costs {
            return cost_ns;
        }
        self.domains.domain(row).max_newidle_lb_cost_ns * 3 / 2
    }

    /// Keeps the largest cost (`update_newidle_cost`).
    fn note_newidle_cost<P: Platform>(&mut self, p: &P, row: u32, cost_ns: Ns, success: u32) {
        let jiffy = self.jiffies(p.now(self.here));
        let waits = self.rules.balance.newidle_cost_waits;
        let limit_ns = if self.rules.balance.newidle_failure_costs {
            self.rules.migration_cost_ns + 200
        } else {
            Ns::MAX
        };
        let domain = self.domains.domain_mut(row);
        if self.rules.features.ni_random && cost_ns > 0 {
            let rate = rated(&self.rules, p.now(self.here));
            update_newidle_stats(domain, success, rate);
        }
        if cost_ns > domain.max_newidle_lb_cost_ns {
            domain.max_newidle_lb_cost_ns = cost_ns.min(limit_ns);
            if waits {
                domain.cost_decay_jiffy = jiffy;
            }
        } else if waits && jiffy > domain.cost_decay_jiffy + u64::from(self.rules.hz) {
            domain.max_newidle_lb_cost_ns = domain.max_newidle_lb_cost_ns * 253 / 256;
            domain.cost_decay_jiffy = jiffy;
        }
    }

    fn newidle_result(&self, cpu: Cpu, moved: u32) -> i32 {
        let queued = self.cfs_rqs[cpu].h_nr_queued;
        if self.rqs[cpu].nr_running != queued {
            return -1;
        }
        if moved == 0 {
            i32::from(queued > 0)
        } else {
            moved as i32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{rated, update_newidle_stats};
    use crate::ids::Ns;
    use crate::tests::world::World;

    /// Estimated cost of the first domain after a success at 0.2 ms and three failures at 0.01 ms,
    /// ns.
    fn cost_after_failures(version: &str) -> Ns {
        let World {
            mut kernel, bench, ..
        } = World::new(version, 2);
        for (cost_ns, found) in [
            (200_000, true),
            (10_000, false),
            (10_000, false),
            (10_000, false),
        ] {
            let noted_ns = kernel.newidle_cost_of(0, cost_ns, found);
            kernel.note_newidle_cost(&bench, 0, noted_ns, 0);
        }
        kernel.domains.domain(0).max_newidle_lb_cost_ns
    }

    #[test]
    fn failures_cost_more_and_more_between_6_17_and_6_18_3() {
        // 0.2 ms, 0.3 ms, 0.45 ms, then 0.5 ms and a bit at most.
        for version in ["6.17", "6.18", "6.18.2", "6.12.43"] {
            assert_eq!(cost_after_failures(version), 500_200, "{version}");
        }
        for version in ["6.12.42", "6.12.64", "6.16", "6.18.3"] {
            assert_eq!(cost_after_failures(version), 200_000, "{version}");
        }
    }

    #[test]
    fn rare_newidle_balance_is_tried_more_often_from_7_1_on() {
        // The 1024th call since the start at 0 comes at 2 s, with 100 successes: 100 of 1024, and
        // from 7.1 on 2,000,000,000 >> 22 = 476 more. At 4 s, all of 1024.
        for (version, now_ns, ratio) in [
            ("7.0", 2_000_000_000, 100),
            ("7.1", 2_000_000_000, 576),
            ("7.1", 4_000_000_000, 1024),
        ] {
            let mut world = World::new(version, 2);
            let rate = rated(&world.kernel.rules, now_ns);
            let domain = world.kernel.domains.domain_mut(0);
            (domain.newidle_call, domain.newidle_success) = (1023, 99);
            update_newidle_stats(domain, 1, rate);
            assert_eq!(domain.newidle_ratio, ratio, "{version}");
        }
    }

    #[test]
    fn a_search_for_tasks_lowers_the_next_class_to_the_fair_one() {
        // Deadline is 3, fair 1, idle 0.
        for (before, after) in [(3, 1), (1, 1), (0, 0)] {
            let mut world = World::new("7.1", 2);
            world.kernel.rqs[0].next_rank = before;
            let World { kernel, bench, .. } = &mut world;
            kernel.newidle_domains(bench, crate::ids::Cpu(0), &mut u64::MAX.clone());
            assert_eq!(world.kernel.rqs[0].next_rank, after);
        }
    }
}
