//! Which tasks may change CPU, and moving them (`can_migrate_task`, `task_hot`, `detach_tasks`,
//! `attach_tasks`).
//!
//! Worked example: CPU 1 has three waiting tasks A, B, C, looked at in this order, and a load
//! imbalance of 1500 is to be moved to CPU 0. A ran 0.2 ms ago and is cache hot: it stays and will
//! be looked at last. B has a load of 1024 and goes; 476 are left. C's 1024 are more than 476 and
//! stay — until a failed attempt halves what is compared.

use super::{CpuIdle, Env, LoadGate, MIGRATE_PAUSE, Migration};
use crate::ids::{CfsRqId, Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform};
use crate::rules::hooks::Moving;
use crate::task::Policy;

impl Kernel {
    /// `can_migrate_task`.
    fn can_migrate_task(&mut self, env: &mut Env, task: TaskId) -> bool {
        let rules = &self.rules.balance;
        let record = &self.tasks[task];
        let entity = &self.entities[record.se];
        if rules.delayed_move_for_load_only
            && entity.sched_delayed
            && env.migration != Migration::Load
        {
            return false;
        }
        if self.throttled_lb_pair(record.group, env.src, env.dst) {
            reached(Mark::ThrottledStays);
            return false;
        }
        let failed = self.domains.domain(env.domain).nr_balance_failed;
        if rules.ineligible_stay && failed == 0 && self.ineligible_at(task, env.dst) {
            return false;
        }
        let record = &self.tasks[task];
        let per_cpu_kthread = record.is_kernel_thread() && record.nr_cpus_allowed == 1;
        if per_cpu_kthread && self.rules.balance.ignores_per_cpu_kthreads {
            return false;
        }
        if !record.affinity.contains(env.dst) {
            reached(Mark::Pinned);
            env.some_pinned = true;
            self.remember_other_dst(env, task);
            return false;
        }
        env.all_pinned = false;
        if self.rqs[env.src].curr == task {
            return false;
        }
        let asked = || Moving {
            task,
            from: env.src,
            to: env.dst,
        };
        if let Some(may) = self.rules.own.can_migrate(self, asked) {
            return may;
        }
        if env.active && self.rules.balance.active_balance_ignores_heat {
            return !self.prefers_elsewhere(env, task);
        }
        if self.degrades_llc(env, task) {
            env.llc_pinned |= env.migration != Migration::LlcTask;
            return false;
        }
        let stays =
            failed <= self.domains.domain(env.domain).cache_nice_tries && self.task_hot(env, task);
        if stays {
            reached(Mark::CacheHot);
        }
        !stays
    }

    /// A pinned task may still go to another CPU of the local group.
    fn remember_other_dst(&self, env: &mut Env, task: TaskId) {
        if env.idle == CpuIdle::NewlyIdle || env.other_dst.is_some() || env.active {
            return;
        }
        let affinity = &self.tasks[task].affinity;
        env.other_dst = env.dst_group.and(&env.cpus).and(affinity).lowest();
    }

    /// Whether a task that lags behind no other would lag behind no other there either
    /// (`task_is_ineligible_on_dst_cpu`).
    fn ineligible_at(&self, task: TaskId, dst: Cpu) -> bool {
        let record = &self.tasks[task];
        let there = match self.rules.flat_pick {
            true => CfsRqId(dst.0),
            false => self.cfs_rq_of(record.group, dst),
        };
        let q = self.order_of(record.se);
        self.rules.features.place_lag
            && self.nr_competing(there) > 0
            && !self.entity_eligible(q, record.se)
    }

    /// Whether a task ran so recently that its cache is worth more than the move (`task_hot`).
    pub(crate) fn task_hot(&self, env: &Env, task: TaskId) -> bool {
        let record = &self.tasks[task];
        if !record.policy.is_fair() || record.policy == Policy::Idle {
            return false;
        }
        if self.domains.domain(env.domain).flags.share_cpucapacity {
            return false;
        }
        let entity = &self.entities[record.se];
        let cfs_rq = &self.cfs_rqs[entity.cfs_rq];
        if self.rules.features.cache_hot_buddy
            && self.rqs[env.dst].nr_running > 0
            && (cfs_rq.next == Some(record.se) || cfs_rq.last == Some(record.se))
        {
            return true;
        }
        // 0 = never ran here, which is long ago on a clock that began when the machine booted.
        if entity.exec_start == 0 {
            return false;
        }
        let ran_ago = self.rqs[env.src]
            .clock_task
            .saturating_sub(entity.exec_start);
        ran_ago < self.rules.migration_cost_ns
    }

    /// Whether a task fits what is left of the imbalance; if so, what it takes of it.
    fn share_of_imbalance(&mut self, env: &Env, task: TaskId) -> Option<i64> {
        let domain = self.domains.domain(env.domain);
        let (failed, tries) = (domain.nr_balance_failed, domain.cache_nice_tries);
        match env.migration {
            Migration::Load => {
                let mut load = self.task_h_load(task);
                if self.rules.balance.load_at_least_one {
                    load = load.max(1);
                }
                let load = load as i64;
                let too_big = match self.rules.balance.load_gate {
                    LoadGate::Half => load / 2 > env.imbalance,
                    LoadGate::HalfUntilFailures => load / 2 > env.imbalance && failed <= tries,
                    LoadGate::HalvedPerFailure => shr_bound(load, failed) > env.imbalance,
                };
                if too_big {
                    reached(Mark::TaskTooLarge);
                }
                (!too_big).then_some(load)
            }
            Migration::Util => {
                let se = self.tasks[task].se;
                let util_avg = self.entities[se].avg.util_avg;
                let util = self.task_util_est(task).max(util_avg) as i64;
                let failures = if self.rules.balance.util_gate_relaxes {
                    failed
                } else {
                    0
                };
                (shr_bound(util, failures) <= env.imbalance).then_some(util)
            }
            Migration::Task | Migration::LlcTask => Some(1),
            Migration::Misfit => (!self.task_fits_cpu(task, env.src)).then_some(env.imbalance),
        }
    }

    /// Moves tasks off `env.src` into the hands of [`Kernel::attach_tasks`]; returns how many
    /// (`detach_tasks`).
    pub(crate) fn detach_tasks<P: Platform>(&mut self, p: &mut P, env: &mut Env) -> u32 {
        self.note_jiffy(p);
        let src = env.src.index();
        if self.rules.balance.pinned_until_proven && self.rqs[src].nr_running <= 1 {
            env.all_pinned = false;
            return 0;
        }
        if env.imbalance <= 0 {
            return 0;
        }
        // Latency: kernels that can be preempted stop after the first.
        let one_at_a_time = env.idle == CpuIdle::NewlyIdle && self.rules.config_preemption;
        let mut detached = 0;
        while let Some(&task) = self.rqs[src].cfs_tasks.first() {
            if env.idle != CpuIdle::NotIdle && self.rqs[src].nr_running <= 1 {
                break;
            }
            env.looked += 1;
            let past_limit = env.looked > env.limit;
            if past_limit && !(self.rules.balance.looks_past_limit_when_pinned && env.all_pinned) {
                break;
            }
            if env.looked > env.pause {
                env.pause += MIGRATE_PAUSE;
                env.paused = true;
                break;
            }
            let share = if self.can_migrate_task(env, task) {
                self.share_of_imbalance(env, task)
            } else {
                None
            };
            let Some(share) = share else {
                self.rqs[src].cfs_tasks.rotate_left(1);
                continue;
            };
            env.imbalance -= share;
            self.detach_task(p, env, task);
            self.domains.moving.push(task);
            detached += 1;
            if one_at_a_time || env.imbalance <= 0 {
                break;
            }
        }
        detached
    }

    /// `detach_task`: off the source queue, already counted as a task of the destination.
    fn detach_task<P: Platform>(&mut self, p: &mut P, env: &Env, task: TaskId) {
        reached(Mark::TaskMoved);
        p.spend(self.here, Op::BalanceMoveTask, 1);
        self.deactivate_task(p, env.src, task);
        self.set_task_cpu(p, task, env.dst);
    }

    /// `attach_tasks`: what was detached last is attached first.
    pub(crate) fn attach_tasks<P: Platform>(&mut self, p: &mut P, dst: Cpu) {
        self.balancing_reads_clock(p, dst);
        while let Some(task) = self.domains.moving.pop() {
            self.attach_task(p, dst, task);
        }
    }

    /// Moves the first task that may move (`detach_one_task`, `attach_one_task`).
    pub(crate) fn move_one_task<P: Platform>(&mut self, p: &mut P, env: &mut Env) -> bool {
        let queued = self.rqs[env.src].cfs_tasks.len();
        for place in 0..queued {
            let task = self.rqs[env.src].cfs_tasks[place];
            if self.can_migrate_task(env, task) {
                self.detach_task(p, env, task);
                self.balancing_reads_clock(p, env.dst);
                self.attach_task(p, env.dst, task);
                return true;
            }
        }
        false
    }
}

/// Value shifted right by `shift`, where a large shift leaves the highest bit.
fn shr_bound(value: i64, shift: u32) -> i64 {
    value >> shift.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuset::CpuSet;
    use crate::tests::world::World;

    #[test]
    fn per_cpu_kernel_threads_are_no_pinned_tasks_from_5_13() {
        for (version, counts) in [("5.12", true), ("5.12.4", false), ("5.13", false)] {
            let mut world = World::new(version, 2);
            let kthread = world.spawn(Cpu(1));
            world.kernel.tasks[kthread].address_space = None;
            let both = CpuSet::first(2);
            let mut env = Env::new(0, Cpu(0), CpuIdle::Idle, both, both);
            env.src = Cpu(1);
            assert!(!world.kernel.can_migrate_task(&mut env, kthread));
            assert_eq!(env.some_pinned, counts, "{version}");
        }
    }
}
