//! One balance pass over a domain, and active balance (`sched_balance_rq`,
//! `active_load_balance_cpu_stop`).
//!
//! Worked example: CPU 0 is idle, CPU 1 of its LLC runs one task that fills it and has one more
//! that is bound to it. Three passes find the imbalance and move nothing, since the first task runs
//! and the second may not go; the fourth finds more failures than `cache_nice_tries` + 2 and asks
//! the stopper of CPU 1 to push the running task over.

use super::{BusiestGroup, CpuIdle, Env, MIGRATE_PAUSE, Migration, Why};
use crate::cpuset::CpuSet;
use crate::explain::{Balancing, Decision};
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rq::StopWork;

/// Longest interval, ms, to which pinned tasks stretch balancing.
const MAX_PINNED_INTERVAL: u32 = 512;

/// How a pass ended.
enum End {
    /// Tasks moved, or an imbalance stays.
    Unbalanced { moved: u32 },
    /// Nothing to do.
    Balanced,
    /// Nothing could be done: all tasks are pinned.
    AllPinned,
    /// The running task may not go where active balance wanted it.
    OnePinned,
}

impl Kernel {
    /// Pulls tasks to `cpu` within a domain. Returns the number of tasks moved; clears
    /// `keep_going` when another CPU of the group is to balance this and higher domains.
    pub(crate) fn sched_balance_rq<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        domain: u32,
        idle: CpuIdle,
        keep_going: &mut bool,
    ) -> u32 {
        let sd = self.domains.domain(domain);
        let local = self.domains.group_row(domain, 0) as usize;
        let dst_group = self.domains.groups[local].balance_mask;
        let mut env = Env::new(domain, cpu, idle, sd.span, dst_group);
        if P::EXPLAIN {
            self.domains.why = Why::default();
        }
        let end = self.balance_env(p, cpu, &mut env, keep_going);
        self.settle(&env, &end);
        let End::Unbalanced { moved } = end else {
            self.explain_balance(p, cpu, &env, 0);
            return 0;
        };
        self.explain_balance(p, cpu, &env, moved);
        moved
    }

    #[inline]
    fn explain_balance<P: Platform>(&self, p: &mut P, cpu: Cpu, env: &Env, moved: u32) {
        if P::EXPLAIN {
            let decision = Decision::Balance(Balancing {
                dst: cpu,
                idle: env.idle,
                imbalance: env.imbalance,
                migration: env.migration,
                groups: self.domains.why.groups,
                src: (env.src != cpu).then_some(env.src),
                domain: self.domains.domain(env.domain).level.name(),
                moved,
                rule: self.domains.why.rule,
            });
            p.explain(self.here, decision);
        }
    }

    /// Finds out where to pull from and pulls; starts over without a CPU all of whose tasks are
    /// pinned.
    fn balance_env<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        env: &mut Env,
        keep_going: &mut bool,
    ) -> End {
        let jiffy = self.jiffies(p.now(self.here));
        let by_load = self.rules.balance.busiest_group == BusiestGroup::AverageLoad;
        self.because::<P>(Mark::NoBusierGroup);
        loop {
            if !self.should_we_balance(env) {
                self.because::<P>(Mark::NotTheBalancer);
                *keep_going = false;
                return End::Balanced;
            }
            let group = if by_load {
                self.find_busiest_group_by_load(p, env, jiffy)
            } else {
                self.find_src_group(p, env, jiffy)
            };
            let Some(src) = group.and_then(|group| self.find_src_rq(env, group)) else {
                return End::Balanced;
            };
            env.src = src;
            let mut moved = 0;
            env.all_pinned |= self.rules.balance.pinned_until_proven;
            if self.rqs[src].nr_running > 1 {
                env.all_pinned = true;
                moved = self.move_tasks(p, env);
                self.note_pinned(env);
                if env.all_pinned {
                    env.cpus.remove(src);
                    if env.cpus.is_subset(&env.dst_group) {
                        self.because::<P>(Mark::AllPinned);
                        return End::AllPinned;
                    }
                    env.looked = 0;
                    env.pause = MIGRATE_PAUSE;
                    continue;
                }
            }
            return self.conclude(p, cpu, env, moved);
        }
    }

    /// Whether this CPU is the one of its group that balances (`should_we_balance`).
    fn should_we_balance(&self, env: &Env) -> bool {
        if !env.cpus.contains(env.dst) {
            return false;
        }
        let rq = &self.rqs[env.dst];
        if env.idle == CpuIdle::NewlyIdle {
            let has_work = rq.nr_running > 0 || rq.ttwu_pending;
            return !(self.rules.balance.newidle_bails_out && has_work);
        }
        let candidates = env.dst_group.and(&env.cpus);
        let idle = candidates.and(&self.domains.idle);
        let sharing_core = self.domains.domain(env.domain).flags.share_cpucapacity;
        let mut first = idle.lowest();
        if self.rules.balance.smt_aware && !sharing_core {
            let on_idle_core = idle.iter().find(|&cpu| self.domains.is_core_idle(cpu));
            first = on_idle_core.or(first);
        }
        // No idle CPU: the first of the group (`group_balance_cpu`).
        let is_first_of_group = || env.dst_group.lowest() == Some(env.dst);
        let two_may = self.rules.balance.two_may_balance && !sharing_core;
        match first {
            None => is_first_of_group(),
            Some(cpu) if cpu == env.dst => true,
            Some(cpu) => two_may && !self.domains.is_core_idle(cpu) && is_first_of_group(),
        }
    }

    /// Detaches and attaches until the imbalance is gone or nothing more can move; pinned tasks may
    /// go to another CPU of the local group.
    fn move_tasks<P: Platform>(&mut self, p: &mut P, env: &mut Env) -> u32 {
        let nr_running = self.rqs[env.src].nr_running;
        env.limit = self.rules.nr_migrate.min(nr_running);
        let mut moved = 0;
        loop {
            self.update_rq_clock(p, env.src);
            let detached = self.detach_tasks(p, env);
            if detached > 0 {
                self.attach_tasks(p, env.dst);
                moved += detached;
            }
            if std::mem::take(&mut env.paused) && self.goes_on_after_pause(env) {
                continue;
            }
            match env.other_dst.take() {
                Some(other) if env.imbalance > 0 => {
                    env.cpus.remove(env.dst);
                    env.dst = other;
                    env.looked = 0;
                    env.pause = MIGRATE_PAUSE;
                }
                _ => return moved,
            }
        }
    }

    /// Versions that look past the limit stop when they have seen every task.
    fn goes_on_after_pause(&self, env: &Env) -> bool {
        !self.rules.balance.looks_past_limit_when_pinned
            || env.looked < self.rqs[env.src].nr_running
    }

    /// Affinity kept this domain from balancing: the group above is marked.
    fn note_pinned(&mut self, env: &Env) {
        if env.some_pinned && env.imbalance > 0 {
            self.set_group_imbalance(env.domain, true);
        }
    }

    fn set_group_imbalance(&mut self, domain: u32, imbalance: bool) {
        if let Some(parent) = self.domains.domain(domain).parent {
            let group = self.domains.group_row(parent, 0) as usize;
            let capacity = self.domains.groups[group].capacity as usize;
            self.domains.capacities[capacity].imbalance = imbalance;
        }
    }

    /// Failures, active balance, and the next interval.
    fn conclude<P: Platform>(&mut self, p: &mut P, cpu: Cpu, env: &mut Env, moved: u32) -> End {
        let mut active = false;
        if moved > 0 {
            self.because::<P>(env.migration.mark());
            self.domains.domain_mut(env.domain).nr_balance_failed = 0;
        } else {
            self.because::<P>(Mark::NothingFits);
            if env.idle != CpuIdle::NewlyIdle && !self.misfit_stays(env) && !env.llc_pinned {
                self.domains.domain_mut(env.domain).nr_balance_failed += 1;
            }
            if self.need_active_balance(env) {
                let curr = self.rqs[env.src].curr;
                if !self.tasks[curr].affinity.contains(cpu) {
                    self.because::<P>(Mark::RunningPinned);
                    env.all_pinned |= !self.rules.balance.pinned_until_proven;
                    return End::OnePinned;
                }
                env.all_pinned = false;
                active = self.start_active_balance(p, cpu, env);
                self.because::<P>(Mark::ActiveBalance);
                if !self.rules.balance.active_balance_ignores_heat {
                    let domain = self.domains.domain_mut(env.domain);
                    domain.nr_balance_failed = domain.cache_nice_tries + 1;
                }
            }
        }
        let reset = !active || self.active_balance_keeps_interval(env);
        let lengthen = !self.rules.balance.active_balance_for_tasks;
        let domain = self.domains.domain_mut(env.domain);
        if reset {
            domain.balance_interval = domain.min_interval;
        } else if lengthen && domain.balance_interval < domain.max_interval {
            domain.balance_interval *= 2;
        }
        End::Unbalanced { moved }
    }

    /// Failures and intervals of a pass that moved nothing and leaves nothing to do.
    fn settle(&mut self, env: &Env, end: &End) {
        let rules = &self.rules.balance;
        let (flag_stays, keeps) = (
            rules.imbalance_flag_stays_when_pinned,
            rules.newidle_keeps_interval,
        );
        if matches!(end, End::Unbalanced { .. }) {
            return;
        }
        if matches!(end, End::Balanced) && !(flag_stays && env.all_pinned) {
            self.set_group_imbalance(env.domain, false);
        }
        let misfit_stays = self.misfit_stays(env);
        let domain = self.domains.domain_mut(env.domain);
        if !matches!(end, End::OnePinned) {
            domain.nr_balance_failed = 0;
        }
        if (env.idle == CpuIdle::NewlyIdle && keeps) || misfit_stays {
            return;
        }
        let pinned = env.all_pinned && domain.balance_interval < MAX_PINNED_INTERVAL;
        if pinned || domain.balance_interval < domain.max_interval {
            domain.balance_interval *= 2;
        }
    }

    /// A misfit task was not moved, which says nothing about how busy the machine is (6.10).
    fn misfit_stays(&self, env: &Env) -> bool {
        env.migration == Migration::Misfit && self.rules.balance.misfit_is_no_failure
    }

    /// The only task of a CPU with reduced capacity would run better here.
    fn active_balance_for_capacity(&self, env: &Env) -> bool {
        let pct = self.domains.domain(env.domain).imbalance_pct;
        env.idle != CpuIdle::NotIdle
            && self.h_nr_running(env.src) == 1
            && self.check_cpu_capacity(env.src, pct)
            && self.capacity_of(env.src) * u64::from(pct) < self.capacity_of(env.dst) * 100
    }

    /// `need_active_balance`.
    fn need_active_balance(&self, env: &Env) -> bool {
        if self.rules.cache.yields_to_priority && self.active_balance_for_priority(env) {
            return true;
        }
        if self.active_balance_breaks_llc(env) {
            return false;
        }
        let domain = self.domains.domain(env.domain);
        let tired = domain.nr_balance_failed > domain.cache_nice_tries + 2;
        let for_tasks_only = self.rules.balance.active_balance_for_tasks;
        self.active_balance_for_priority(env)
            || (tired && (!for_tasks_only || env.migration == Migration::Task))
            || self.active_balance_for_capacity(env)
            || matches!(env.migration, Migration::Misfit | Migration::LlcTask)
    }

    fn active_balance_keeps_interval(&self, env: &Env) -> bool {
        let rules = &self.rules.balance;
        if rules.active_balance_for_tasks {
            self.need_active_balance(env)
        } else {
            let voluntary =
                env.migration == Migration::Misfit || self.active_balance_for_capacity(env);
            rules.voluntary_active_balance && voluntary
        }
    }

    /// Has the stopper of the busiest CPU push its running task to `dst`. `false` when it is at
    /// work already.
    fn start_active_balance<P: Platform>(&mut self, p: &mut P, dst: Cpu, env: &Env) -> bool {
        let src = env.src;
        let rq = &mut self.rqs[src];
        if rq.active_balance {
            return false;
        }
        rq.active_balance = true;
        rq.push_cpu = dst;
        let work = match env.migration {
            Migration::LlcTask => StopWork::ActiveBalanceLlc,
            _ => StopWork::ActiveBalance,
        };
        self.stop_one_cpu(p, src, work);
        true
    }

    /// The stopper of `src` runs: it moves the first task that may go to the destination noted
    /// (`active_load_balance_cpu_stop`), with `llc` only one that prefers the cache there
    /// (`active_load_balance_llc_cpu_stop`).
    pub(crate) fn active_load_balance<P: Platform>(&mut self, p: &mut P, src: Cpu, llc: bool) {
        let rq = &mut self.rqs[src];
        if !std::mem::take(&mut rq.active_balance) || rq.nr_running <= 1 {
            return;
        }
        reached(Mark::ActiveBalanceDone);
        let dst = rq.push_cpu;
        let rows = self.domains.rows(dst);
        let spans_both = |row: &u32| self.domains.domain(*row).span.contains(src);
        let Some(domain) = rows.into_iter().find(spans_both) else {
            return;
        };
        let mut env = Env::new(domain, dst, CpuIdle::Idle, CpuSet::EMPTY, CpuSet::EMPTY);
        env.src = src;
        env.active = true;
        env.active_llc = llc;
        self.update_rq_clock(p, src);
        if self.move_one_task(p, &mut env) {
            self.domains.domain_mut(domain).nr_balance_failed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::{World, releases};
    use crate::topology::Topology;

    #[test]
    fn beside_an_idle_thread_the_first_cpu_balanced_too_before_6_6_4() {
        // LLC of cores {0, 4} and {1, 5}: only CPU 4 idles, on a busy core.
        for (version, balancers) in releases([
            ("6.5 6.6.4 6.12", [false, true]),
            ("6.6 6.6.3", [true, true]),
        ]) {
            let mut world = World::on(Topology::regular(1, 2, 2, 2), version, |_| {});
            for cpu in [0, 1, 5] {
                world.spawn(Cpu(cpu));
            }
            let kernel = &world.kernel;
            let row = kernel.domains.rows(Cpu(0)).last().unwrap();
            let group = kernel.domains.group_row(row, 0) as usize;
            let mask = kernel.domains.groups[group].balance_mask;
            let span = kernel.domains.domain(row).span;
            let found = [0, 4].map(|cpu| {
                kernel.should_we_balance(&Env::new(row, Cpu(cpu), CpuIdle::Idle, span, mask))
            });
            assert_eq!(found, balancers, "{version}");
        }
    }
}
