//! Enqueue and dequeue along the group hierarchy.
//!
//! A task's entity goes on its group's queue of its CPU; if that queue was empty, the group's
//! entity goes on the parent's queue, and so on to the root. Levels that were queued already only
//! refresh their averages, weights and counters.

use super::load::LoadUpdate;
use super::{DequeueFlags, EnqueueFlags};
use crate::ids::{CfsRqId, Cpu, EntityId, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform};
use crate::rules::{FairClass, ThrottleModel};
use crate::task::Policy;

/// Why the levels above a change are refreshed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// A task came.
    Enqueue,
    /// A task left.
    Dequeue,
    /// A task was parked by throttling (6.18).
    Park,
    /// A whole group was throttled (≤ 6.17): weights and requests above stay as they are.
    Throttle,
    /// A whole group was unthrottled (≤ 6.17).
    Unthrottle,
}

/// Tasks added or removed at each level.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) queued: u32,
    pub(crate) runnable: u32,
    pub(crate) idle: u32,
}

impl Kernel {
    /// Adds to the counters of a queue; below a `cpu.idle` group all tasks count as idle further
    /// up.
    #[inline]
    pub(crate) fn add_counts(&mut self, q: CfsRqId, counts: &mut Counts) {
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.h_nr_queued += counts.queued;
        cfs_rq.h_nr_runnable += counts.runnable;
        cfs_rq.h_nr_idle += counts.idle;
        if cfs_rq.idle {
            counts.idle = counts.queued;
        }
    }

    #[inline]
    pub(crate) fn sub_counts(&mut self, q: CfsRqId, counts: &mut Counts) {
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.h_nr_queued -= counts.queued;
        cfs_rq.h_nr_runnable = match self.rules.flat_pick {
            // A delayed task that is taken off counts as one less than none for a moment.
            true => cfs_rq.h_nr_runnable.wrapping_sub(counts.runnable),
            false => cfs_rq.h_nr_runnable - counts.runnable,
        };
        cfs_rq.h_nr_idle -= counts.idle;
        if cfs_rq.idle {
            counts.idle = counts.queued;
        }
    }

    /// `se_update_runnable`.
    #[inline]
    pub(crate) fn se_update_runnable(&mut self, se: EntityId) {
        let entity = &mut self.entities[se];
        if let Some(child) = entity.my_q() {
            entity.runnable_weight = u64::from(self.cfs_rqs[child].h_nr_runnable);
        }
    }

    /// Number of runnable tasks and weight of a group's entity.
    #[inline(always)]
    fn refresh_group_entity<P: Platform>(&mut self, p: &mut P, se: EntityId) {
        if let Some(child) = self.entities[se].my_q() {
            self.se_update_runnable(se);
            self.update_group_entity(p, se, child);
        }
    }

    /// `enqueue_task_fair`.
    #[inline(always)]
    pub(crate) fn enqueue_task_fair<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: EnqueueFlags,
    ) {
        if self.tasks[task].throttled && self.enqueue_throttled_task(task) {
            return;
        }
        let se = self.tasks[task].se;
        let delayed = self.entities[se].sched_delayed;
        if !delayed || flags.has(EnqueueFlags::DELAYED) {
            self.util_est_enqueue(task);
        }
        if self.rules.flat_pick {
            return self.enqueue_task_flat(p, cpu, task, flags);
        }
        if flags.has(EnqueueFlags::DELAYED) {
            self.requeue_delayed_entity(p, se);
            return;
        }
        if self.tasks[task].in_iowait && self.rules.frequency.iowait_flag {
            self.cpufreq_update_util(p, cpu, true);
        }
        let was_empty = self.cfs_rqs[cpu].h_nr_queued == 0;
        let mut counts = Counts {
            queued: 1,
            runnable: u32::from(
                !delayed || flags.has(EnqueueFlags::WAKEUP) || self.rules.delayed_count_as_runnable,
            ),
            idle: u32::from(self.tasks[task].policy == Policy::Idle),
        };
        let (level, slice, stopped) = self.enqueue_new_levels(p, se, flags, &mut counts);
        if stopped
            || (level.is_some()
                && self.refresh_levels(p, level, slice, Change::Enqueue, &mut counts))
        {
            return;
        }
        if was_empty {
            self.first_fair_task_queued(p, cpu);
        }
        self.add_nr_running(cpu, 1);
        if flags.has(EnqueueFlags::WAKEUP) {
            self.check_update_overutilized_status(cpu);
        }
        self.hrtick_update(p, cpu);
    }

    /// The fair class of a CPU has something to run again.
    pub(crate) fn first_fair_task_queued<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.rqs[cpu].nr_running == 0 {
            self.fair_server_update_idle(cpu);
        }
        self.fair_server_start(p, cpu);
    }

    /// Enqueues entities upwards until one is queued already. Returns the level to go on with, the
    /// shortest request below it, and whether a throttled queue stopped the walk.
    #[inline(always)]
    pub(crate) fn enqueue_new_levels<P: Platform>(
        &mut self,
        p: &mut P,
        se: EntityId,
        mut flags: EnqueueFlags,
        counts: &mut Counts,
    ) -> (Option<EntityId>, Ns, bool) {
        let (mut slice, mut is_group) = (0, false);
        let mut level = Some(se);
        while let Some(se) = level {
            if self.entities[se].on_rq {
                if self.entities[se].sched_delayed {
                    self.requeue_delayed_entity(p, se);
                }
                break;
            }
            if is_group {
                self.set_group_slice(se, slice);
                // Even where all below it have the base slice.
                self.entities[se].custom_slice = self.rules.custom_slices;
            }
            is_group = true;
            let q = self.entities[se].cfs_rq;
            p.spend(self.here, Op::EnqueueLevel, 1);
            self.enqueue_entity(p, q, se, flags);
            slice = self.level_min_slice(q);
            self.add_counts(q, counts);
            if self.stops_at_throttled(q) {
                self.end_at_throttled(q);
                return (None, slice, true);
            }
            flags = EnqueueFlags::WAKEUP;
            level = self.entities[se].parent;
        }
        (level, slice, false)
    }

    /// Before 6.18 nothing above a throttled queue hears of changes below it.
    #[inline(always)]
    pub(crate) fn stops_at_throttled(&self, q: CfsRqId) -> bool {
        self.rules.throttle_model == ThrottleModel::Queue && self.cfs_rqs[q].throttled
    }

    /// Something was put on queues up to a throttled one. The branch of the leaf list that it
    /// began is joined to a listed parent, up to 5.19.
    #[inline]
    pub(crate) fn end_at_throttled(&mut self, q: CfsRqId) {
        if self.rules.throttled_leaves {
            self.add_leaf_branch(q);
        }
    }

    /// From 6.12 a group asks for the shortest request among its own (`min_slice`).
    #[inline]
    fn level_min_slice(&self, q: CfsRqId) -> Ns {
        if self.custom_slices && self.rules.custom_slices {
            self.cfs_rq_min_slice(q)
        } else {
            0
        }
    }

    /// A group that is put on its queue keeps this length for its next requests; one that stays
    /// there, and came to it by being unthrottled, returns to the base slice.
    #[inline]
    fn set_group_slice(&mut self, se: EntityId, slice: Ns) {
        if slice != 0 && slice != Ns::MAX {
            let entity = &mut self.entities[se];
            entity.slice = slice;
            reached(Mark::GroupSlice);
            let waits = entity.on_rq && self.cfs_rqs[entity.cfs_rq].curr != Some(se);
            if let Some(trees) = self.slice_trees.as_mut().filter(|_| waits) {
                trees.changed(se, &self.entities);
            }
        }
    }

    /// Refreshes the levels that stay queued. Returns whether a throttled queue stopped the walk.
    pub(crate) fn refresh_levels<P: Platform>(
        &mut self,
        p: &mut P,
        mut level: Option<EntityId>,
        mut slice: Ns,
        change: Change,
        counts: &mut Counts,
    ) -> bool {
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            let update = match change {
                Change::Throttle => LoadUpdate::Age,
                _ => LoadUpdate::UpdateTg,
            };
            self.update_load_avg(p, q, se, update);
            self.se_update_runnable(se);
            if !matches!(change, Change::Throttle | Change::Unthrottle) {
                self.update_cfs_group(p, se);
                self.set_group_slice(se, slice);
                slice = self.level_min_slice(q);
            }
            match change {
                Change::Enqueue | Change::Unthrottle => self.add_counts(q, counts),
                Change::Dequeue | Change::Park | Change::Throttle => self.sub_counts(q, counts),
            }
            if change == Change::Park && self.cfs_rqs[q].throttle_count > 0 {
                self.record_throttle_clock(q);
            }
            let adds = matches!(change, Change::Enqueue | Change::Unthrottle);
            if self.stops_at_throttled(q) {
                if adds {
                    self.end_at_throttled(q);
                }
                return true;
            }
            if adds && self.rules.throttled_leaves && self.cfs_rqs[q].throttle_count > 0 {
                self.list_add_leaf_cfs_rq(q);
            }
            level = self.entities[se].parent;
        }
        false
    }

    /// `enqueue_entity`.
    #[inline(always)]
    pub(crate) fn enqueue_entity<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        flags: EnqueueFlags,
    ) {
        let is_curr = self.cfs_rqs[q].curr == Some(se);
        let eevdf = self.rules.fair == FairClass::Eevdf;
        // CFS: an entity that did not sleep here carries a vruntime relative to the queue it left.
        let renormalise =
            !eevdf && (!flags.has(EnqueueFlags::WAKEUP) || flags.has(EnqueueFlags::MIGRATED));
        if is_curr {
            if renormalise {
                self.add_min_vruntime(q, se);
            }
            if eevdf {
                self.place_entity(q, se, flags);
            }
        }
        self.update_curr(p, q);
        if renormalise && !is_curr {
            self.add_min_vruntime(q, se);
        }
        self.update_load_avg(p, q, se, LoadUpdate::Attach);
        self.refresh_group_entity(p, se);
        // Before EEVDF only sleepers are placed.
        let places = match eevdf {
            true => !is_curr,
            false => flags.has(EnqueueFlags::WAKEUP),
        };
        if places {
            self.place_entity(q, se, flags);
        }
        self.account_enqueued(q, se, flags);
        if !is_curr {
            self.timeline_insert(q, se);
        }
        if self.cfs_rqs[q].nr_queued == 1 {
            self.first_entity_queued(p, q);
        } else if self.rules.throttled_leaves {
            self.list_add_leaf_cfs_rq(q);
        }
    }

    /// Counts an entity that comes onto a queue (`account_entity_enqueue`).
    #[inline]
    pub(super) fn account_enqueued(&mut self, q: CfsRqId, se: EntityId, flags: EnqueueFlags) {
        let entity = &mut self.entities[se];
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.load.add(entity.load.weight);
        cfs_rq.nr_queued += 1;
        if let Some(task) = entity.task() {
            self.rqs[cfs_rq.cpu].cfs_tasks.push(task);
        }
        if flags.has(EnqueueFlags::MIGRATED) {
            // A task from elsewhere is not cache hot here.
            entity.exec_start = 0;
        }
        entity.on_rq = true;
        if self.cache.active
            && let Some(task) = entity.task()
        {
            self.account_llc_enqueue(task);
        }
    }

    fn add_min_vruntime(&mut self, q: CfsRqId, se: EntityId) {
        let origin = self.cfs_rqs[q].min_vruntime;
        let entity = &mut self.entities[se];
        entity.vruntime = entity.vruntime.wrapping_add(origin);
    }

    #[inline(always)]
    pub(super) fn first_entity_queued<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        if self.rules.throttled_leaves {
            self.list_add_leaf_cfs_rq(q);
        }
        self.check_enqueue_throttle(p, q);
        if self.cfs_rqs[q].throttle_count == 0 || self.rules.throttle_model == ThrottleModel::Task {
            self.list_add_leaf_cfs_rq(q);
        }
        if self.rules.throttle_model == ThrottleModel::Task {
            self.restart_pelt_clock(q);
        } else if self.rules.throttled_clock_only_when_queued {
            self.start_throttled_clock_when_queued(q);
        }
    }

    /// `dequeue_task_fair`. `false` when the task is delayed instead.
    #[inline(always)]
    pub(crate) fn dequeue_task_fair<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        flags: DequeueFlags,
    ) -> bool {
        if self.tasks[task].throttled {
            self.dequeue_throttled_task(p, task, flags);
            return true;
        }
        let se = self.tasks[task].se;
        let again = flags.has(DequeueFlags::DELAYED) && self.rules.delayed_estimate_leaves_twice;
        if !self.entities[se].sched_delayed || again {
            self.util_est_dequeue(task);
        }
        let sleeps = flags.has(DequeueFlags::SLEEP);
        if sleeps && self.rules.util_est_before_dequeue {
            self.util_est_update(task);
        }
        let left = self.dequeue_entities(p, se, flags);
        // Not a second time when a delayed dequeue takes place.
        if sleeps && !self.rules.util_est_before_dequeue && !flags.has(DequeueFlags::DELAYED) {
            self.util_est_update(task);
        }
        left
    }

    /// Takes an entity off, and every group entity that becomes empty (`dequeue_entities`). `false`
    /// when the task itself is delayed instead.
    #[inline(always)]
    pub(crate) fn dequeue_entities<P: Platform>(
        &mut self,
        p: &mut P,
        first: EntityId,
        flags: DequeueFlags,
    ) -> bool {
        if self.rules.flat_pick {
            return self.dequeue_task_flat(p, first, flags);
        }
        let cpu = self.cfs_rqs[self.entities[first].cfs_rq].cpu;
        debug_assert_eq!(self.rqs[cpu].noted_sched_idle, self.sched_idle_rq(cpu));
        let only_idle_before = self.rqs[cpu].noted_sched_idle;
        let mut counts = self.counts_of(first, flags);
        let queued = counts.queued;
        let Some(stopped) = self.dequeue_levels(p, first, flags, &mut counts) else {
            return false;
        };
        if !stopped {
            self.sub_nr_running(cpu, queued);
            self.fair_tasks_left(p, cpu);
            if !only_idle_before && self.rqs[cpu].noted_sched_idle {
                let jiffy = self.jiffies(self.rqs[cpu].clock);
                self.rqs[cpu].next_balance = jiffy;
            }
        }
        if let Some(task) = self.entities[first]
            .task()
            .filter(|_| flags.has(DequeueFlags::DELAYED))
        {
            self.block_task(cpu, task);
        }
        true
    }

    /// Takes entities off upwards while queues become empty, then refreshes the rest. Returns
    /// whether a throttled queue stopped the walk, `None` when the task itself is delayed instead.
    #[inline(always)]
    fn dequeue_levels<P: Platform>(
        &mut self,
        p: &mut P,
        first: EntityId,
        entry: DequeueFlags,
        counts: &mut Counts,
    ) -> Option<bool> {
        let mut flags = entry;
        let mut slice = 0;
        let mut level = Some(first);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            p.spend(self.here, Op::DequeueLevel, 1);
            if !self.dequeue_entity(p, q, se, flags) {
                if se == first && counts.queued > 0 {
                    return None;
                }
                slice = self.level_min_slice(q);
                break;
            }
            self.sub_counts(q, counts);
            if entry.has(DequeueFlags::THROTTLE) && self.cfs_rqs[q].throttle_count > 0 {
                self.record_throttle_clock(q);
            }
            if self.stops_at_throttled(q) {
                return Some(true);
            }
            level = self.entities[se].parent;
            if self.cfs_rqs[q].load.weight > 0 {
                slice = self.level_min_slice(q);
                // Siblings of the sleeper are likely to share its cache and its purpose.
                if let Some(parent) = level
                    && entry.has(DequeueFlags::SLEEP)
                    && (self.rules.throttle_model == ThrottleModel::Task
                        || self.cfs_rqs[q].throttle_count == 0)
                {
                    reached(Mark::SleeperMarksGroup);
                    self.set_next_buddy(parent);
                }
                break;
            }
            flags = flags
                .with(DequeueFlags::SLEEP, true)
                .with(DequeueFlags::DELAYED, false)
                .with(DequeueFlags::SPECIAL, false);
        }
        let change = if entry.has(DequeueFlags::THROTTLE) {
            Change::Park
        } else {
            Change::Dequeue
        };
        Some(level.is_some() && self.refresh_levels(p, level, slice, change, counts))
    }

    pub(super) fn counts_of(&self, se: EntityId, flags: DequeueFlags) -> Counts {
        let entity = &self.entities[se];
        let Some(task) = entity.task() else {
            return Counts::default();
        };
        Counts {
            queued: 1,
            runnable: u32::from(
                flags.has(DequeueFlags::SLEEP | DequeueFlags::DELAYED)
                    || !entity.sched_delayed
                    || self.rules.delayed_count_as_runnable,
            ),
            idle: u32::from(self.tasks[task].policy == Policy::Idle),
        }
    }

    /// `dequeue_entity`. `false` when the entity is delayed instead.
    #[inline(always)]
    pub(crate) fn dequeue_entity<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        flags: DequeueFlags,
    ) -> bool {
        self.update_curr(p, q);
        self.clear_buddies(q, se);
        let never_delays = DequeueFlags::DELAYED | DequeueFlags::SPECIAL | DequeueFlags::THROTTLE;
        let may_delay = flags.has(DequeueFlags::SLEEP) && !flags.has(never_delays);
        // An entity alone on its queue has no lag.
        let delay = self.rules.features.delay_dequeue
            && may_delay
            && self.cfs_rqs[q].nr_queued > 1
            && !self.entity_eligible(q, se);
        let update = match () {
            () if delay => LoadUpdate::Age,
            () if flags.has(DequeueFlags::SLEEP | DequeueFlags::DELAYED)
                || !self.rules.dequeue_detaches
                || !self.entity_is_leaving(se) =>
            {
                LoadUpdate::UpdateTg
            }
            () => LoadUpdate::Detach,
        };
        self.update_load_avg(p, q, se, update);
        if delay {
            reached(Mark::DelayDequeue);
            if self.rules.delayed_lag_never_falls {
                self.update_entity_lag(q, se);
            }
            self.set_delayed(se);
            return false;
        }
        self.se_update_runnable(se);
        self.leave_queue(q, se, flags);
        self.return_cfs_rq_runtime(p, q);
        self.update_cfs_group(p, se);
        // A task that comes back at once must not let the minimum run ahead of it.
        if self.rules.fair == FairClass::Cfs
            && (!flags.has(DequeueFlags::SAVE) || flags.has(DequeueFlags::MOVED))
        {
            self.update_min_vruntime(q);
        }
        if flags.has(DequeueFlags::DELAYED) {
            self.finish_delayed_dequeue_entity(se);
        }
        if self.cfs_rqs[q].nr_queued == 0 {
            self.update_idle_cfs_rq_clock_pelt(q);
            self.last_entity_left(q);
        }
        true
    }

    /// A runnable task that is taken off to be moved to another CPU (`task_on_rq_migrating`).
    pub(super) fn entity_is_leaving(&self, se: EntityId) -> bool {
        self.entities[se]
            .task()
            .is_some_and(|task| self.tasks[task].migrating)
    }

    /// Takes an entity out of the virtual time and the counters of its queue
    /// (`account_entity_dequeue`).
    #[inline(always)]
    fn leave_queue(&mut self, q: CfsRqId, se: EntityId, flags: DequeueFlags) {
        let eevdf = self.rules.fair == FairClass::Eevdf;
        if eevdf {
            self.update_entity_lag(q, se);
        }
        if self.cfs_rqs[q].curr != Some(se) {
            self.timeline_remove(q, se);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        if !flags.has(DequeueFlags::SLEEP) {
            if !eevdf {
                entity.vruntime = entity.vruntime.wrapping_sub(cfs_rq.min_vruntime);
            } else if self.rules.features.place_rel_deadline {
                entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
                entity.rel_deadline = true;
            }
        }
        entity.on_rq = false;
        cfs_rq.load.sub(entity.load.weight);
        cfs_rq.nr_queued -= 1;
        if let Some(task) = entity.task() {
            let tasks = &mut self.rqs[cfs_rq.cpu].cfs_tasks;
            // The task that runs is the last one, so it costs nothing to look there first.
            if tasks.last() == Some(&task) {
                tasks.pop();
            } else if let Some(place) = tasks.iter().rposition(|&other| other == task) {
                tasks.remove(place);
            }
            if self.cache.active {
                self.account_llc_dequeue(task);
            }
        }
    }

    #[inline(always)]
    pub(super) fn last_entity_left(&mut self, q: CfsRqId) {
        if self.rules.throttle_model == ThrottleModel::Task && self.cfs_rqs[q].throttle_count > 0 {
            self.list_del_leaf_cfs_rq(q);
            self.stop_pelt_clock(q);
        }
    }

    /// Hints that a group entity be picked next (`set_next_buddy`).
    pub(crate) fn set_next_buddy(&mut self, se: EntityId) {
        if self.rules.flat_pick {
            let may = self.may_be_buddy(se) && !self.entities[se].sched_delayed;
            let q = self.order_of(se);
            if may {
                let cfs_rq = &mut self.cfs_rqs[q];
                (cfs_rq.next, cfs_rq.has_buddies) = (Some(se), true);
            }
            return;
        }
        self.set_buddy(se, Self::may_be_buddy, |cfs_rq| &mut cfs_rq.next);
    }

    /// `yield_task_fair`.
    pub(crate) fn yield_task_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        if self.rqs[cpu].nr_running == 1 {
            return;
        }
        let se = self.tasks[task].se;
        let q = self.order_of(se);
        self.clear_buddies(q, se);
        self.update_rq_clock(p, cpu);
        match self.rules.fair {
            FairClass::Cfs => {
                if self.tasks[task].policy != Policy::Batch {
                    self.update_curr(p, q);
                    self.rqs[cpu].skip_clock_update = true;
                }
                reached(Mark::YieldSkips);
                self.set_skip_buddy(se);
            }
            FairClass::Eevdf => {
                self.update_curr(p, self.entities[se].cfs_rq);
                self.rqs[cpu].skip_clock_update = true;
                let eligible = self.entity_eligible(q, se);
                let entity = &mut self.entities[se];
                if self.rules.yield_forfeits {
                    if !eligible {
                        return;
                    }
                    reached(Mark::YieldForfeits);
                    entity.vruntime = entity.deadline;
                }
                reached(Mark::YieldDeadline);
                let request = crate::weight::calc_delta_fair(entity.slice, &entity.h_load);
                entity.deadline = entity.deadline.wrapping_add(request);
            }
        }
    }

    fn set_skip_buddy(&mut self, se: EntityId) {
        self.set_buddy(se, |_, _| true, |cfs_rq| &mut cfs_rq.skip);
    }

    /// Whether a CPU runs nothing but idle-policy tasks (`sched_idle_rq`).
    #[inline]
    pub(crate) fn sched_idle_rq(&self, cpu: Cpu) -> bool {
        let nr_running = self.rqs[cpu].nr_running;
        nr_running > 0 && nr_running == self.cfs_rqs[cpu].h_nr_idle
    }
}
