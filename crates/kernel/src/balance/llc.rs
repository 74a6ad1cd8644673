//! Load balance between last level caches (LLCs) follows the preferences of processes (7.2); see
//! [`crate::cache`] for how these arise.
//!
//! Between LLCs, a group from which tasks want to come to the cache of the CPU that balances is of
//! the type [`GroupType::LlcBalance`](super::GroupType), which only an overloaded group outdoes.
//! One such task is moved, by active balance at once if it runs. Other moves leave a task alone
//! that they would take away from its cache, which counts as no failure. Both hold until balancing
//! has failed more often than `cache_nice_tries`, and as far as utilisation lets them:
//!
//! * A cache is full at `overaggr_pct` (50 %) of its capacity, at half as much again where cores
//!   have one thread.
//! * Both caches full: preferences do not count.
//! * Towards the preferred cache: not if it would be full and more than `imb_pct` (20 %) more
//!   utilised than the one that the task leaves.
//! * Away from it: only if it stays full, and more than 20 % more utilised than the other one would
//!   be.
//!
//! Worked example: LLCs of 8 cores with two threads (capacity 16 · 1024 = 16384, full at 8192). The
//! preferred one has a utilisation of 7000, the other one 3000, of which a task that wants to go
//! over has 500. Together that makes 7500: it moves. At 7900 it would become 8400 and full, and
//! 8400 · 100 > 2500 · 120, so it stays. At 7900 against 7800 it moves, since 8400 · 100 ≤ 7300
//! · 120. Utilisations are those that periodic balance between the LLCs has seen last
//! (`sd_llc_shared->util_avg`). A machine begins idle: 0 of the whole capacity, which is not full.

use super::stats::GroupStats;
use super::{CpuIdle, Env, Migration};
use crate::cache::{CacheRules, LlcLoad};
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};

/// Judgement of a move between caches (`enum llc_mig`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LlcMove {
    /// It would break a preference that counts.
    Forbidden,
    /// It follows the preference, or leaves it for good reason.
    Wanted,
    /// Preferences do not count.
    Unrestricted,
}

impl CacheRules {
    /// Whether an LLC is not full (`fits_llc_capacity`).
    fn fits(&self, load: LlcLoad, smt_threads: u32) -> bool {
        let pct = match smt_threads {
            1 => self.overaggr_pct * 3 / 2,
            _ => self.overaggr_pct,
        };
        load.util * 100 < load.capacity * u64::from(pct)
    }

    /// Whether a task with this utilisation may move between two LLCs (`can_migrate_llc`).
    pub(crate) fn judge(
        &self,
        mut from: LlcLoad,
        mut to: LlcLoad,
        task_util: u64,
        to_preferred: bool,
        smt_threads: u32,
    ) -> LlcMove {
        from.util = from.util.saturating_sub(task_util);
        to.util += task_util;
        let greater = |one: LlcLoad, other: LlcLoad| {
            one.util * 100 > other.util * (100 + u64::from(self.imb_pct))
        };
        let (from_fits, to_fits) = (self.fits(from, smt_threads), self.fits(to, smt_threads));
        let forbidden = match to_preferred {
            _ if !from_fits && !to_fits => return LlcMove::Unrestricted,
            true => !to_fits && greater(to, from),
            false => from_fits || !greater(from, to),
        };
        match forbidden {
            true => LlcMove::Forbidden,
            false => LlcMove::Wanted,
        }
    }
}

impl Kernel {
    /// Whether a task of some utilisation may move between the LLCs of two CPUs.
    fn can_migrate_llc(&self, src: Cpu, dst: Cpu, task_util: u64, to_preferred: bool) -> LlcMove {
        let (Some(from), Some(to)) = (self.cache.load_of(src), self.cache.load_of(dst)) else {
            return LlcMove::Unrestricted;
        };
        let smt_threads = self.cache.smt_threads;
        self.rules
            .cache
            .judge(from, to, task_util, to_preferred, smt_threads)
    }

    /// Whether a task would become too large for its CPU (`task_misfits_asym_cpu`).
    fn would_misfit(&self, env: &Env, task: TaskId) -> bool {
        self.domains.domain(env.domain).flags.asym_cpucapacity
            && !self.task_fits_cpu(task, env.dst)
            && self.task_fits_cpu(task, env.src)
    }

    /// Whether the preference of a task lets it move (`can_migrate_llc_task`).
    fn can_migrate_llc_task(&mut self, env: &Env, task: TaskId) -> LlcMove {
        if self.would_misfit(env, task) {
            return LlcMove::Forbidden;
        }
        let record = &self.tasks[task];
        let (process, se) = (record.cache.process, record.se);
        let (Some(process), false) = (process, self.domains.share_cache(env.src, env.dst)) else {
            return LlcMove::Unrestricted;
        };
        if self.rules.cache.yields_to_priority
            && env.idle != CpuIdle::NotIdle
            && self.is_preferred_in(env.domain, env.dst, env.src)
        {
            return LlcMove::Unrestricted;
        }
        let Some(preferred) = self.preferred_cpu(process, env.dst) else {
            return LlcMove::Unrestricted;
        };
        let to_preferred = self.domains.share_cache(env.dst, preferred);
        if !to_preferred && !self.domains.share_cache(env.src, preferred) {
            return LlcMove::Unrestricted;
        }
        let util = self.entities[se].avg.util_avg;
        self.can_migrate_llc(env.src, env.dst, util, to_preferred)
    }

    /// A task that prefers another cache is sought, and this one does not
    /// (`migrate_llc_task_wrong_dst`).
    pub(crate) fn prefers_elsewhere(&self, env: &Env, task: TaskId) -> bool {
        self.cache.active
            && (env.migration == Migration::LlcTask || env.active_llc)
            && self.tasks[task].cache.preferred_llc != Some(self.cache.llc_of[env.dst])
    }

    /// Whether a move would take a task away from its cache (`migrate_degrades_llc`).
    pub(crate) fn degrades_llc(&mut self, env: &Env, task: TaskId) -> bool {
        let domain = self.domains.domain(env.domain);
        if !self.cache.active || domain.nr_balance_failed > domain.cache_nice_tries {
            return false;
        }
        let degrades = self.prefers_elsewhere(env, task)
            || self.can_migrate_llc_task(env, task) == LlcMove::Forbidden;
        if degrades {
            reached(Mark::LlcStays);
        }
        degrades
    }

    /// Whether active balance would take the running task away from its cache (`alb_break_llc`).
    pub(crate) fn active_balance_breaks_llc(&self, env: &Env) -> bool {
        if !self.cache.active || self.domains.share_cache(env.src, env.dst) {
            return false;
        }
        let rq = &self.rqs[env.src];
        let runnable = self.cfs_rqs[env.src].h_nr_runnable;
        if rq.nr_pref_llc_running == 0
            || rq.nr_pref_llc_running != runnable
            || env.migration == Migration::Misfit
        {
            return false;
        }
        let breaks = rq.nr_running <= 1 || {
            let curr = &self.tasks[rq.curr];
            let util = match curr.policy.is_fair() && !rq.curr_is_idle() {
                true => self.entities[curr.se].avg.util_avg,
                false => 0,
            };
            (self.rules.cache.running_must_fit && self.would_misfit(env, rq.curr))
                || self.can_migrate_llc(env.src, env.dst, util, false) == LlcMove::Forbidden
        };
        if breaks {
            reached(Mark::LlcActiveStays);
        }
        breaks
    }

    /// Whether tasks of a group of another LLC want to come here and may (`llc_balance`).
    pub(crate) fn llc_balance(&self, env: &Env, group: u32, stats: &GroupStats) -> bool {
        let domain = self.domains.domain(env.domain);
        if stats.nr_pref_dst_llc == 0
            || (domain.flags.asym_cpucapacity && stats.misfit_load > 0)
            || domain.nr_balance_failed > domain.cache_nice_tries
        {
            return false;
        }
        let first = self.domains.groups[group as usize].span.lowest();
        let judged = first.map(|first| self.can_migrate_llc(first, env.dst, 0, true));
        judged == Some(LlcMove::Wanted)
    }

    /// Keeps the load of the LLC that a group is, for the judgements to come
    /// (`record_sg_llc_stats`).
    pub(crate) fn record_llc_load(&mut self, env: &Env, group: u32, stats: &GroupStats) {
        let child = self.domains.domain(env.domain).child;
        if env.idle == CpuIdle::NewlyIdle || child != self.domains.cpus[env.dst].llc {
            return;
        }
        let Some(first) = self.domains.groups[group as usize].span.lowest() else {
            return;
        };
        if let Some(load) = &mut self.cache.loads[self.cache.llc_of[first] as usize] {
            (load.util, load.capacity) = (stats.util, stats.capacity);
        }
    }

    /// Tasks of a CPU in another LLC that prefer the one of the CPU that balances.
    pub(crate) fn nr_pref_dst_llc(&self, env: &Env, cpu: Cpu) -> u32 {
        let dst = self.cache.llc_of[env.dst];
        match self.cache.llc_of[cpu] == dst {
            true => 0,
            false => self.cache.count(cpu, dst),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuset::CpuSet;
    use crate::tests::world::{MS, World};
    use crate::topology::Topology;

    const CAPACITY: u64 = 16 * 1024;

    /// Judgement of a move between caches of 16 threads, with the numbers that are set at boot.
    fn judge(from: u64, to: u64, task_util: u64, to_preferred: bool, smt_threads: u32) -> LlcMove {
        let load = |util| LlcLoad {
            util,
            capacity: CAPACITY,
        };
        CacheRules::oldest(250).judge(load(from), load(to), task_util, to_preferred, smt_threads)
    }

    #[test]
    fn tasks_come_to_their_cache_until_it_is_full_and_busier_by_a_fifth() {
        for (from, to, judged) in [
            // 7500 of 16384 is less than half.
            (3000, 7000, LlcMove::Wanted),
            // 8400 is more, and more than 1.2 · 2500.
            (3000, 7900, LlcMove::Forbidden),
            // It is less than 1.2 · 7300.
            (7800, 7900, LlcMove::Wanted),
            // 8192 and more in both.
            (8692, 7692, LlcMove::Unrestricted),
            (8691, 7692, LlcMove::Wanted),
        ] {
            assert_eq!(judge(from, to, 500, true, 2), judged, "{from} to {to}");
        }
    }

    #[test]
    fn tasks_leave_their_cache_only_if_it_stays_full_and_busier_by_a_fifth() {
        for (from, to, judged) in [
            // 8000 left is less than half.
            (8500, 0, LlcMove::Forbidden),
            // 9000 are more than half and more than 1.2 · 7000.
            (9500, 6500, LlcMove::Wanted),
            // They are exactly 1.2 · 7500, and that is not more.
            (9500, 7000, LlcMove::Forbidden),
            (9500, 7692, LlcMove::Unrestricted),
        ] {
            assert_eq!(judge(from, to, 500, false, 2), judged, "{from} to {to}");
        }
    }

    #[test]
    fn caches_without_smt_are_filled_to_three_quarters() {
        // 12288 of 16384.
        assert_eq!(judge(3000, 11_787, 500, true, 1), LlcMove::Wanted);
        assert_eq!(judge(3000, 11_788, 500, true, 1), LlcMove::Forbidden);
        assert_eq!(judge(3000, 11_787, 500, true, 2), LlcMove::Forbidden);
    }

    #[test]
    fn a_thread_stays_in_its_cache_until_balancing_has_failed_twice() {
        // Two threads on CPU 0 and one on CPU 1, four CPUs a cache: 3072 of 4096 are full, less
        // what the waiting one has are not.
        let mut world = World::on(Topology::regular(1, 2, 4, 1), "7.2", |_| {});
        let [_, waits, _] = [0, 0, 1].map(|cpu| world.spawn(Cpu(cpu)));
        world.advance(51 * MS);
        let kernel = &mut world.kernel;
        kernel.cache.loads = [3072, 0]
            .map(|util| {
                Some(LlcLoad {
                    util,
                    capacity: 4096,
                })
            })
            .to_vec()
            .into();
        let row = kernel.domains.rows(Cpu(4)).last().unwrap();
        let all = CpuSet::first(8);
        let mut env = Env::new(row, Cpu(4), CpuIdle::Idle, all, all);
        env.src = Cpu(0);
        for (failed, stays) in [(0, true), (1, true), (2, false)] {
            kernel.domains.domain_mut(row).nr_balance_failed = failed;
            assert_eq!(kernel.degrades_llc(&env, waits), stays, "{failed}");
        }
        // One that wants to go to CPU 4 is sought, and this one does not.
        kernel.domains.domain_mut(row).nr_balance_failed = 0;
        env.migration = Migration::LlcTask;
        assert!(kernel.prefers_elsewhere(&env, waits));
        // Between CPUs of one cache nothing is to be said.
        env.migration = Migration::Load;
        env.dst = Cpu(2);
        assert!(!kernel.degrades_llc(&env, waits));
    }

    #[test]
    fn caches_that_were_never_balanced_count_as_full() {
        let never = LlcLoad::default();
        let judged = CacheRules::oldest(250).judge(never, never, 500, true, 2);
        assert_eq!(judged, LlcMove::Unrestricted);
    }
}
