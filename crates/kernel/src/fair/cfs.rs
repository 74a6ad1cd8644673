//! The completely fair scheduler: slices, sleeper credit, buddies and preemption (up to 6.5).
//!
//! The smallest vruntime runs. Worked example with 8 CPUs (latency 24 ms, granularity 3 ms): two
//! nice-0 hogs have slices of 24 · ½ = 12 ms. A third task that wakes is placed half a latency,
//! 12 ms, before `min_vruntime` and preempts a hog whose vruntime is more than the wakeup
//! granularity, 4 ms, ahead of it.

use crate::cfs_rq::before;
use crate::ids::{CfsRqId, EntityId, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::hooks::Queued;
use crate::task::Policy;
use crate::weight::{calc_delta, calc_delta_fair};

use super::EnqueueFlags;

/// Sleeps longer than this (about 104 days) may overflow the comparison of vruntimes.
const LONG_SLEEP_NS: Ns = (1 << 63) / 1024;

/// Outcome of `wakeup_preempt_entity`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lead {
    /// The wakee is not ahead.
    Behind,
    /// Ahead by less than the granularity.
    Close,
    /// Ahead by more than the granularity.
    Clear,
}

impl Kernel {
    /// Never moves back, follows the smallest vruntime (`update_min_vruntime`).
    #[inline(never)]
    pub(crate) fn update_min_vruntime(&mut self, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let curr = cfs_rq
            .curr
            .map(|se| &self.entities[se])
            .filter(|se| se.on_rq);
        let first = cfs_rq.timeline.first().map(|node| node.vruntime);
        let vruntime = match (curr.map(|se| se.vruntime), first) {
            (Some(a), Some(b)) => {
                if before(a, b) {
                    a
                } else {
                    b
                }
            }
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => return,
        };
        if before(cfs_rq.min_vruntime, vruntime) {
            cfs_rq.min_vruntime = vruntime;
        }
    }

    /// Whether the entity is a SCHED_IDLE task or a `cpu.idle` group (`se_is_idle`).
    pub(crate) fn se_is_idle(&self, se: EntityId) -> bool {
        let entity = &self.entities[se];
        match entity.owner {
            crate::entity::Owner::Task(task) => self.tasks[task].policy == Policy::Idle,
            crate::entity::Owner::Group(group, _) => self.groups[group].idle,
        }
    }

    /// Period over which every runnable task should run once (`__sched_period`).
    fn sched_period(&self, nr_running: u64) -> Ns {
        let nr_latency = self
            .rules
            .latency_ns
            .div_ceil(self.rules.min_granularity_ns);
        if nr_running > nr_latency {
            reached(Mark::PeriodStretched);
            nr_running * self.rules.min_granularity_ns
        } else {
            self.rules.latency_ns
        }
    }

    /// Wall-clock slice of an entity (`sched_slice`).
    pub(crate) fn sched_slice(&self, q: CfsRqId, se: EntityId) -> Ns {
        let asked = || Queued {
            queue: q,
            entity: se,
        };
        if let Some(slice) = self.rules.own.slice(self, asked) {
            return slice;
        }
        let cfs_rq = &self.cfs_rqs[q];
        let queued = self.entities[se].on_rq;
        let nr_running = if self.rules.features.alt_period {
            self.cfs_rqs[cfs_rq.cpu].h_nr_queued
        } else {
            cfs_rq.nr_queued
        };
        let mut slice = self.sched_period(u64::from(nr_running) + u64::from(!queued));
        let mut level = Some(se);
        while let Some(se) = level {
            let entity = &self.entities[se];
            let mut load = self.cfs_rqs[entity.cfs_rq].load;
            if !entity.on_rq {
                load.add(entity.load.weight);
            }
            slice = calc_delta(slice, entity.load.weight, &load);
            level = entity.parent;
        }
        if self.rules.features.base_slice {
            reached(Mark::BaseSliceFloor);
            let least = if self.se_is_idle(se) && !self.sched_idle_cfs_rq(q) {
                self.rules.idle_min_granularity_ns
            } else {
                self.rules.min_granularity_ns
            };
            slice = slice.max(least);
        }
        slice
    }

    /// Whether a queue holds only SCHED_IDLE tasks and idle groups (`sched_idle_cfs_rq`). A group
    /// that is none counts as another, even if all of its tasks are SCHED_IDLE.
    fn sched_idle_cfs_rq(&self, q: CfsRqId) -> bool {
        let cfs_rq = &self.cfs_rqs[q];
        let waiting = cfs_rq.timeline.nodes().iter().map(|node| node.entity);
        let running = cfs_rq.curr.filter(|se| self.entities[se].on_rq);
        cfs_rq.nr_queued > 0 && waiting.chain(running).all(|se| self.se_is_idle(se))
    }

    /// Where a waking or new entity starts (`place_entity` of CFS).
    #[inline(never)]
    pub(crate) fn place_entity_cfs(&mut self, q: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        let mut vruntime = self.cfs_rqs[q].min_vruntime;
        let asked = || Queued {
            queue: q,
            entity: se,
        };
        if let Some(lead) = self.rules.own.place_entity(self, asked) {
            self.entities[se].vruntime = vruntime.wrapping_sub(lead as u64);
            return;
        }
        if flags.has(EnqueueFlags::INITIAL) {
            if self.rules.features.start_debit {
                reached(Mark::StartDebit);
                let slice = self.sched_slice(q, se);
                vruntime = vruntime.wrapping_add(calc_delta_fair(slice, &self.entities[se].h_load));
            }
        } else {
            reached(Mark::SleeperCredit);
            let mut credit = if self.se_is_idle(se) && self.rules.idle_sleeper_credit_is_granularity
            {
                self.rules.min_granularity_ns
            } else {
                self.rules.latency_ns
            };
            if self.rules.features.gentle_fair_sleepers {
                credit /= 2;
            }
            vruntime = vruntime.wrapping_sub(credit);
        }
        let cpu = self.cfs_rqs[q].cpu;
        let clock_task = self.rqs[cpu].clock_task;
        let entity = &mut self.entities[se];
        let slept_long = self.rules.long_sleeper_reset
            && entity.exec_start != 0
            && clock_task.saturating_sub(entity.exec_start) > LONG_SLEEP_NS;
        if slept_long || before(entity.vruntime, vruntime) {
            entity.vruntime = vruntime;
        } else {
            reached(Mark::NeverMovedBack);
        }
    }

    /// Smallest vruntime, unless a buddy is nearly as small (`pick_next_entity` of CFS).
    #[inline(never)]
    pub(crate) fn pick_next_entity_cfs(&self, q: CfsRqId) -> Option<EntityId> {
        if let Some(own) = self.own_pick(q, true) {
            return Some(own);
        }
        let cfs_rq = &self.cfs_rqs[q];
        let curr = cfs_rq.curr.filter(|se| self.entities[se].on_rq);
        let first = cfs_rq.timeline.first().map(|node| node.entity);
        let left = match (first, curr) {
            (Some(first), Some(curr)) if self.vruntime_before(curr, first) => curr,
            (Some(first), _) => first,
            (None, curr) => curr?,
        };
        reached(Mark::SmallestVruntime);
        let mut pick = left;
        if cfs_rq.skip == Some(left)
            && let Some(second) = self.second_entity(q, left, curr)
            && self.lead(second, left) != Lead::Clear
        {
            reached(Mark::SkipBuddy);
            pick = second;
        }
        for buddy in [cfs_rq.next, cfs_rq.last].into_iter().flatten() {
            if self.lead(buddy, left) != Lead::Clear {
                reached(Mark::BuddyPicked);
                return Some(buddy);
            }
        }
        Some(pick)
    }

    fn second_entity(
        &self,
        q: CfsRqId,
        left: EntityId,
        curr: Option<EntityId>,
    ) -> Option<EntityId> {
        let nodes = self.cfs_rqs[q].timeline.nodes();
        if Some(left) == curr {
            return nodes.first().map(|node| node.entity);
        }
        let second = nodes.get(1).map(|node| node.entity);
        match (second, curr) {
            (Some(second), Some(curr)) if self.vruntime_before(curr, second) => Some(curr),
            (Some(second), _) => Some(second),
            (None, curr) => curr,
        }
    }

    #[inline]
    fn vruntime_before(&self, a: EntityId, b: EntityId) -> bool {
        before(self.entities[a].vruntime, self.entities[b].vruntime)
    }

    /// By how much `se` is ahead of `curr` (`wakeup_preempt_entity`).
    fn lead(&self, curr: EntityId, se: EntityId) -> Lead {
        let entity = &self.entities[se];
        let lead = self.entities[curr].vruntime.wrapping_sub(entity.vruntime) as i64;
        if lead <= 0 {
            return Lead::Behind;
        }
        let granularity = calc_delta_fair(self.rules.wakeup_granularity_ns, &entity.h_load) as i64;
        if lead > granularity {
            Lead::Clear
        } else {
            Lead::Close
        }
    }

    /// Whether a wakee gets the CPU at once (`check_preempt_wakeup`, after the class rules).
    pub(crate) fn wakee_leads_clearly(&self, curr: EntityId, wakee: EntityId) -> bool {
        self.lead(curr, wakee) == Lead::Clear
    }

    /// End of slice at the tick (`check_preempt_tick`).
    #[inline(never)]
    pub(crate) fn check_preempt_tick<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        curr: EntityId,
    ) {
        let cpu = self.cfs_rqs[q].cpu;
        let mut ideal = self.sched_slice(q, curr);
        if self.rules.slice_capped_by_latency {
            ideal = ideal.min(self.rules.latency_ns);
        }
        let entity = &self.entities[curr];
        let ran = entity.sum_exec_runtime - entity.prev_sum_exec_runtime;
        if ran > ideal {
            reached(Mark::SliceUsedUp);
            self.resched_curr(p, cpu);
            // Or a buddy would get the CPU although another entity is due.
            self.clear_buddies(q, curr);
            return;
        }
        if ran < self.rules.min_granularity_ns {
            reached(Mark::SliceTooShort);
            return;
        }
        let Some(first) = self.cfs_rqs[q].timeline.first() else {
            return;
        };
        let lead = self.entities[curr].vruntime.wrapping_sub(first.vruntime) as i64;
        if lead > ideal as i64 {
            reached(Mark::SliceLead);
            self.resched_curr(p, cpu);
        }
    }
}
