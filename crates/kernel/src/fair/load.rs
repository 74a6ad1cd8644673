//! Load averages of entities and queues: ageing, attaching, detaching, propagation.
//!
//! A queue's averages are the sum of what is attached to it, running, runnable or asleep. A task
//! that leaves for another CPU is subtracted; what a child queue gains or loses is carried to its
//! parent one level per update.
//!
//! Worked example: a queue with divider 47742 holds one task with `load_avg` 1024 and `load_sum`
//! 47742. Attaching a second, waking with `load_avg` 512: its `load_sum` becomes
//! 512 · 47742 / 1024 = 23871, the queue's `load_avg` 1536 and `load_sum`
//! 1024 · 47742 + 1024 · 23871.

use crate::Ns;
use crate::cfs_rq::CfsRq;
use crate::entity::Entity;
use crate::ids::{CfsRqId, Cpu, EntityId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::pelt::{Inputs, MIN_DIVIDER};
use crate::platform::Platform;
use crate::rules::SumChange;
use crate::table::Table;

/// Actions of [`Kernel::update_load_avg`] besides ageing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoadUpdate {
    /// Nothing.
    Age,
    /// Update `tg->load_avg` when the averages moved (`UPDATE_TG`).
    UpdateTg,
    /// And attach the entity if it just arrived (`DO_ATTACH`).
    Attach,
    /// And detach the entity (`DO_DETACH`).
    Detach,
}

#[inline(always)]
fn sub_positive(value: &mut u64, amount: u64) {
    *value = value.saturating_sub(amount);
}

#[inline(always)]
fn add_positive(value: &mut u64, delta: i64) {
    *value = value.saturating_add_signed(delta);
}

/// The larger of a sum and what its average stands for, or rounding would make loads vanish. Up to
/// 6.19 the kernel compares in 32 bits, so the sum of a queue that weighs more than 88 nice-0 tasks
/// wraps; `in_full` = it does not (7.0).
#[inline(always)]
fn floored(sum: u64, average: u64, in_full: bool) -> u64 {
    let floor = average.wrapping_mul(u64::from(MIN_DIVIDER));
    match in_full {
        true => sum.max(floor),
        false => u64::from((sum as u32).max(floor as u32)),
    }
}

/// A sum of `average` after a part of it was subtracted or exchanged.
#[inline(always)]
fn settled(change: SumChange, sum: u64, average: u64, divider: u32, in_full: bool) -> u64 {
    match change {
        SumChange::Floor => floored(sum, average, in_full),
        SumChange::Follow => average * u64::from(divider),
        SumChange::Subtract => sum,
    }
}

#[inline(always)]
fn settle_load_sum(cfs_rq: &mut CfsRq, change: SumChange) {
    let CfsRq { avg, sums, .. } = cfs_rq;
    avg.load_sum = settled(
        change,
        avg.load_sum,
        avg.load_avg,
        avg.divider(),
        sums.in_full,
    );
}

/// Sums of utilisation are smaller than 32 bits.
#[inline(always)]
fn settle_util_sum(cfs_rq: &mut CfsRq, change: SumChange) {
    let CfsRq { avg, .. } = cfs_rq;
    let sum = u64::from(avg.util_sum);
    avg.util_sum = settled(change, sum, avg.util_avg, avg.divider(), false) as u32;
}

#[inline(always)]
fn settle_runnable_sum(cfs_rq: &mut CfsRq, change: SumChange) {
    let CfsRq { avg, sums, .. } = cfs_rq;
    avg.runnable_sum = settled(
        change,
        avg.runnable_sum,
        avg.runnable_avg,
        avg.divider(),
        sums.in_full,
    );
}

/// `enqueue_load_avg`.
#[inline(always)]
pub(crate) fn enqueue_load_avg(cfs_rq: &mut CfsRq, se: &Entity) {
    cfs_rq.avg.load_avg += se.avg.load_avg;
    cfs_rq.avg.load_sum += se.load.unscaled() * se.avg.load_sum;
    if cfs_rq.sums.in_full {
        settle_load_sum(cfs_rq, SumChange::Floor);
    }
}

/// `dequeue_load_avg`.
#[inline(always)]
pub(crate) fn dequeue_load_avg(cfs_rq: &mut CfsRq, se: &Entity) {
    sub_positive(&mut cfs_rq.avg.load_avg, se.avg.load_avg);
    sub_positive(
        &mut cfs_rq.avg.load_sum,
        se.load.unscaled() * se.avg.load_sum,
    );
    settle_load_sum(cfs_rq, cfs_rq.sums.dequeued_load);
}

/// `add_tg_cfs_propagate`.
#[inline]
fn add_tg_cfs_propagate(cfs_rq: &mut CfsRq, runnable_sum: i64) {
    cfs_rq.propagate = true;
    cfs_rq.prop_runnable_sum += runnable_sum;
}

/// Inputs of `__update_load_avg_cfs_rq`.
#[inline(always)]
fn cfs_rq_inputs(cfs_rq: &CfsRq) -> Inputs {
    Inputs {
        load: cfs_rq.load.unscaled(),
        runnable: u64::from(cfs_rq.h_nr_runnable),
        running: cfs_rq.h_curr.is_some(),
    }
}

/// `update_cfs_rq_load_avg`: subtracts what left, ages the rest. Returns whether averages moved.
#[inline(always)]
pub(crate) fn update_cfs_rq_load_avg(cfs_rq: &mut CfsRq, now: u64) -> bool {
    let left = cfs_rq.removed.nr > 0;
    if left {
        subtract_removed(cfs_rq);
    }
    cfs_rq.avg.update(now, cfs_rq_inputs(cfs_rq), 1) || left
}

#[inline(never)]
fn subtract_removed(cfs_rq: &mut CfsRq) {
    let removed = std::mem::take(&mut cfs_rq.removed);
    let divider = u64::from(cfs_rq.avg.divider());
    sub_positive(&mut cfs_rq.avg.load_avg, removed.load_avg);
    sub_positive(&mut cfs_rq.avg.load_sum, removed.load_avg * divider);
    settle_load_sum(cfs_rq, cfs_rq.sums.removed);
    sub_positive(&mut cfs_rq.avg.util_avg, removed.util_avg);
    let util_sum = u64::from(cfs_rq.avg.util_sum).saturating_sub(removed.util_avg * divider);
    cfs_rq.avg.util_sum = util_sum as u32;
    settle_util_sum(cfs_rq, cfs_rq.sums.removed_util);
    sub_positive(&mut cfs_rq.avg.runnable_avg, removed.runnable_avg);
    sub_positive(&mut cfs_rq.avg.runnable_sum, removed.runnable_avg * divider);
    settle_runnable_sum(cfs_rq, cfs_rq.sums.removed);
    // The runnable average is the load without weights, so it tells how much running time went.
    add_tg_cfs_propagate(cfs_rq, -((removed.runnable_avg * divider) as i64) >> 10);
}

/// Inputs of an entity that sleeps.
const ASLEEP: Inputs = Inputs {
    load: 0,
    runnable: 0,
    running: false,
};

/// Inputs of `__update_load_avg_se`.
#[inline(always)]
fn entity_inputs(se: &Entity, is_curr: bool) -> Inputs {
    Inputs {
        load: u64::from(se.on_rq),
        runnable: match se.sched_delayed {
            true => 0,
            false => se.runnable_weight,
        },
        running: is_curr,
    }
}

/// `__update_load_avg_se`.
#[inline(always)]
pub(crate) fn age_entity(se: &mut Entity, now: u64, is_curr: bool) {
    let inputs = entity_inputs(se, is_curr);
    if se.avg.update(now, inputs, se.load.unscaled()) {
        se.util_avg_changed = true;
    }
}

/// `__update_load_avg_blocked_se`: ages an entity that sleeps. Its estimate is not taken again for
/// that: `util_est_update` wants an average that moved while the task was queued.
#[inline(always)]
pub(crate) fn age_blocked_entity(se: &mut Entity, now: u64) {
    se.avg.update(now, ASLEEP, se.load.unscaled());
}

/// Ages an entity and its queue, both within their periods.
#[inline(always)]
fn age_within_period(cfs_rq: &mut CfsRq, se: &mut Entity, is_curr: bool, now: u64) {
    se.avg.update_within_period(now, entity_inputs(se, is_curr));
    cfs_rq.avg.update_within_period(now, cfs_rq_inputs(cfs_rq));
}

/// `attach_entity_load_avg`: rebuilds the entity's sums with the queue's divider and adds them.
fn attach_entity_load_avg(cfs_rq: &mut CfsRq, se: &mut Entity) {
    let divider = u64::from(cfs_rq.avg.divider());
    se.avg.last_update_time = cfs_rq.avg.last_update_time;
    se.avg.period_left_ns = cfs_rq.avg.period_left_ns;
    se.avg.util_sum = (se.avg.util_avg * divider) as u32;
    se.avg.runnable_sum = se.avg.runnable_avg * divider;
    let load_sum = se.avg.load_avg * divider;
    let weight = se.load.unscaled();
    se.avg.load_sum = if weight < load_sum {
        load_sum / weight
    } else {
        1
    };
    enqueue_load_avg(cfs_rq, se);
    cfs_rq.avg.util_avg += se.avg.util_avg;
    cfs_rq.avg.util_sum += se.avg.util_sum;
    cfs_rq.avg.runnable_avg += se.avg.runnable_avg;
    cfs_rq.avg.runnable_sum += se.avg.runnable_sum;
    add_tg_cfs_propagate(cfs_rq, se.avg.load_sum as i64);
}

/// `detach_entity_load_avg`.
fn detach_entity_load_avg(cfs_rq: &mut CfsRq, se: &Entity) {
    dequeue_load_avg(cfs_rq, se);
    sub_positive(&mut cfs_rq.avg.util_avg, se.avg.util_avg);
    cfs_rq.avg.util_sum = cfs_rq.avg.util_sum.saturating_sub(se.avg.util_sum);
    settle_util_sum(cfs_rq, cfs_rq.sums.detached);
    sub_positive(&mut cfs_rq.avg.runnable_avg, se.avg.runnable_avg);
    sub_positive(&mut cfs_rq.avg.runnable_sum, se.avg.runnable_sum);
    settle_runnable_sum(cfs_rq, cfs_rq.sums.detached);
    add_tg_cfs_propagate(cfs_rq, -(se.avg.load_sum as i64));
}

/// `update_tg_cfs_util`.
fn propagate_util(cfs_rq: &mut CfsRq, se: &mut Entity, child_util_avg: u64) {
    let delta_avg = child_util_avg as i64 - se.avg.util_avg as i64;
    if delta_avg == 0 {
        return;
    }
    let new_sum = child_util_avg * u64::from(cfs_rq.avg.divider());
    let delta_sum = new_sum as i64 - i64::from(se.avg.util_sum);
    se.avg.util_avg = child_util_avg;
    se.avg.util_sum = new_sum as u32;
    add_positive(&mut cfs_rq.avg.util_avg, delta_avg);
    let mut sum = u64::from(cfs_rq.avg.util_sum);
    add_positive(&mut sum, delta_sum);
    cfs_rq.avg.util_sum = sum as u32;
    settle_util_sum(cfs_rq, cfs_rq.sums.group);
}

/// `update_tg_cfs_runnable`.
fn propagate_runnable(cfs_rq: &mut CfsRq, se: &mut Entity, child_runnable_avg: u64) {
    let delta_avg = child_runnable_avg as i64 - se.avg.runnable_avg as i64;
    if delta_avg == 0 {
        return;
    }
    let mut new_sum = child_runnable_avg * u64::from(cfs_rq.avg.divider());
    if cfs_rq.sums.group_runnable_wraps {
        new_sum = u64::from(new_sum as u32);
    }
    let delta_sum = new_sum as i64 - se.avg.runnable_sum as i64;
    se.avg.runnable_avg = child_runnable_avg;
    se.avg.runnable_sum = new_sum;
    add_positive(&mut cfs_rq.avg.runnable_avg, delta_avg);
    add_positive(&mut cfs_rq.avg.runnable_sum, delta_sum);
    settle_runnable_sum(cfs_rq, cfs_rq.sums.group);
}

/// `update_tg_cfs_load`: estimates how the group entity's running time changed with its queue.
fn propagate_load(cfs_rq: &mut CfsRq, se: &mut Entity, child: &mut CfsRq) {
    let mut runnable_sum = std::mem::take(&mut child.prop_runnable_sum);
    if runnable_sum == 0 {
        return;
    }
    let divider = i64::from(cfs_rq.avg.divider());
    if runnable_sum >= 0 {
        runnable_sum = (runnable_sum + se.avg.load_sum as i64).min(divider);
    } else {
        // The load sum below is an upper bound of the time for which the entity was runnable.
        let load_sum = match child.load.unscaled() {
            0 => 0,
            weight => child.avg.load_sum / weight,
        };
        runnable_sum = se.avg.load_sum.min(load_sum) as i64;
    }
    // It cannot have been runnable for less time than it was running.
    let runnable_sum = runnable_sum.max(i64::from(se.avg.util_sum >> 10)) as u64;
    let weight = se.load.unscaled();
    let load_sum = weight * runnable_sum;
    let load_avg = load_sum / divider as u64;
    let delta_avg = load_avg as i64 - se.avg.load_avg as i64;
    if delta_avg == 0 && cfs_rq.sums.group_load == SumChange::Floor {
        return;
    }
    let delta_sum = load_sum as i64 - (weight * se.avg.load_sum) as i64;
    se.avg.load_sum = runnable_sum;
    se.avg.load_avg = load_avg;
    add_positive(&mut cfs_rq.avg.load_avg, delta_avg);
    add_positive(&mut cfs_rq.avg.load_sum, delta_sum);
    settle_load_sum(cfs_rq, cfs_rq.sums.group_load);
}

/// Two different rows of the queue table, mutably.
pub(crate) fn two_queues(queues: &mut [CfsRq], a: CfsRqId, b: CfsRqId) -> (&mut CfsRq, &mut CfsRq) {
    let [a, b] = queues
        .get_disjoint_mut([a.index(), b.index()])
        .expect("a queue and its parent are different rows");
    (a, b)
}

impl Kernel {
    /// PELT clock of a queue: the CPU's, without the time its clock was stopped by throttling
    /// (`cfs_rq_clock_pelt`).
    #[inline]
    pub(crate) fn cfs_rq_clock_pelt(&self, q: CfsRqId) -> u64 {
        let cfs_rq = &self.cfs_rqs[q];
        let clock = if cfs_rq.pelt_clock_throttled {
            cfs_rq.throttled_clock_pelt_ns
        } else {
            self.rq_clock_pelt(cfs_rq.cpu)
        };
        clock.wrapping_sub(cfs_rq.throttled_clock_pelt_time_ns)
    }

    /// An empty queue keeps how far its clock is behind, for those who sleep on it and leave while
    /// its CPU idles (`update_idle_cfs_rq_clock_pelt`, 6.0): what it stands still later they have
    /// slept through.
    #[inline(always)]
    pub(crate) fn update_idle_cfs_rq_clock_pelt(&mut self, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.throttled_pelt_idle_ns = match cfs_rq.pelt_clock_throttled {
            true => Ns::MAX,
            false => cfs_rq.throttled_clock_pelt_time_ns,
        };
    }

    /// `rq_clock_pelt`.
    #[inline(always)]
    pub(crate) fn rq_clock_pelt(&self, cpu: Cpu) -> u64 {
        let rq = &self.rqs[cpu];
        rq.clock_pelt.wrapping_sub(rq.lost_idle_time_ns)
    }

    /// Ages an entity and its queue, propagates, attaches or detaches (`update_load_avg`).
    #[inline(always)]
    pub(crate) fn update_load_avg<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        update: LoadUpdate,
    ) {
        let now = self.cfs_rq_clock_pelt(q);
        let cfs_rq = &self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        let propagates = |queues: &Table<CfsRq>, se: &Entity| match se.my_q() {
            Some(child) => queues[child.index()].propagate,
            None => false,
        };
        // Most calls find that no average moves: nothing came or left, and no period is over.
        // Clocks start more than a period after 0, so that the first one of an entity to be
        // attached is.
        if entity.avg.stays_within_period(now)
            && cfs_rq.avg.stays_within_period(now)
            && cfs_rq.removed.nr == 0
            && update != LoadUpdate::Detach
            && !propagates(&self.cfs_rqs, entity)
        {
            debug_assert_ne!(entity.avg.last_update_time, 0);
            let is_curr = cfs_rq.h_curr == Some(se);
            age_within_period(&mut self.cfs_rqs[q], entity, is_curr, now);
        } else {
            self.move_load_avg(p, q, se, update, now);
        }
    }

    /// [`Kernel::update_load_avg`] where averages move.
    #[inline(never)]
    fn move_load_avg<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        update: LoadUpdate,
        now: u64,
    ) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        if entity.avg.last_update_time != 0 {
            age_entity(entity, now, cfs_rq.h_curr == Some(se));
        }
        // An entity that just arrived has never been updated.
        let moves = update == LoadUpdate::Detach
            || update == LoadUpdate::Attach && entity.avg.last_update_time == 0;
        let decayed = update_cfs_rq_load_avg(cfs_rq, now);
        if self.propagate_entity_load_avg(se) || decayed || moves {
            self.load_avg_changed(p, q, se, update);
        }
    }

    /// The averages of a queue moved, or what is attached to it changes now.
    #[inline(always)]
    fn load_avg_changed<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        update: LoadUpdate,
    ) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        match update {
            LoadUpdate::Attach if entity.avg.last_update_time == 0 => {
                reached(Mark::AttachLoad);
                attach_entity_load_avg(cfs_rq, entity);
                self.cfs_rq_util_change(p, q);
                self.update_tg_load_avg(p, q);
            }
            LoadUpdate::Detach => {
                reached(Mark::DetachLoad);
                detach_entity_load_avg(cfs_rq, entity);
                self.cfs_rq_util_change(p, q);
                self.update_tg_load_avg(p, q);
            }
            LoadUpdate::Age => self.cfs_rq_util_change(p, q),
            LoadUpdate::UpdateTg | LoadUpdate::Attach => {
                self.cfs_rq_util_change(p, q);
                self.update_tg_load_avg(p, q);
            }
        }
    }

    /// The utilisation of a CPU's root queue may have changed (`cfs_rq_util_change`).
    #[inline(always)]
    fn cfs_rq_util_change<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        if cfs_rq.se.is_none() {
            let cpu = cfs_rq.cpu;
            self.cpufreq_update_util(p, cpu, false);
        }
    }

    /// Carries a child queue's change to the group entity and its queue
    /// (`propagate_entity_load_avg`).
    #[inline(always)]
    pub(crate) fn propagate_entity_load_avg(&mut self, se: EntityId) -> bool {
        match self.entities[se].my_q() {
            Some(child) if self.cfs_rqs[child].propagate => {
                self.propagate_from(se, child);
                true
            }
            _ => false,
        }
    }

    #[inline(never)]
    fn propagate_from(&mut self, se: EntityId, child: CfsRqId) {
        let entity = &mut self.entities[se];
        let (cfs_rq, child) = two_queues(&mut self.cfs_rqs, entity.cfs_rq, child);
        reached(Mark::PropagateLoad);
        child.propagate = false;
        add_tg_cfs_propagate(cfs_rq, child.prop_runnable_sum);
        propagate_util(cfs_rq, entity, child.avg.util_avg);
        propagate_runnable(cfs_rq, entity, child.avg.runnable_avg);
        propagate_load(cfs_rq, entity, child);
    }

    /// Ages a sleeping entity to its queue's last update (`sync_entity_load_avg`).
    pub(crate) fn sync_entity_load_avg(&mut self, se: EntityId) {
        let entity = &mut self.entities[se];
        let now = self.cfs_rqs[entity.cfs_rq].avg.last_update_time;
        age_blocked_entity(entity, now);
    }

    /// A sleeping task leaves for another CPU: its averages wait in the old queue's removed record
    /// (`remove_entity_load_avg`).
    pub(crate) fn remove_entity_load_avg(&mut self, se: EntityId) {
        let entity = &mut self.entities[se];
        let cfs_rq = &mut self.cfs_rqs[entity.cfs_rq];
        // Aged to the queue's last update only: the queue ages the record from there.
        age_blocked_entity(entity, cfs_rq.avg.last_update_time);
        reached(Mark::RemovedLoad);
        cfs_rq.removed.nr += 1;
        cfs_rq.removed.util_avg += entity.avg.util_avg;
        cfs_rq.removed.load_avg += entity.avg.load_avg;
        cfs_rq.removed.runnable_avg += entity.avg.runnable_avg;
    }

    /// A task that leaves an idle CPU with a stopped clock is aged for the time that clock missed
    /// up to `wall_clock` (`migrate_se_pelt_lag`, 6.0). No queue's clock will do for that: the
    /// waking CPU's may be a tick old, or as old as its idleness.
    pub(crate) fn migrate_se_pelt_lag(&mut self, se: EntityId, wall_clock: Ns) {
        let q = self.entities[se].cfs_rq;
        let cfs_rq = &self.cfs_rqs[q];
        let rq = &self.rqs[cfs_rq.cpu];
        if !self.rules.migrated_sleepers_age || !rq.curr_is_idle() {
            return;
        }
        if cfs_rq.throttled_pelt_idle_ns == Ns::MAX {
            return;
        }
        reached(Mark::MigratedSleeperLag);
        let idle_from = rq
            .clock_pelt_idle
            .wrapping_sub(cfs_rq.throttled_pelt_idle_ns);
        let last_update = cfs_rq.avg.last_update_time;
        let now = if idle_from < last_update {
            last_update
        } else {
            idle_from + wall_clock.saturating_sub(rq.clock_idle)
        };
        age_blocked_entity(&mut self.entities[se], now);
    }

    /// A search or a pass begins that asks for [`Kernel::task_h_load`].
    #[inline]
    pub(crate) fn note_jiffy<P: Platform>(&mut self, p: &P) {
        self.jiffy = self.jiffies(p.now(self.here));
    }

    /// Weighted share of a task in its CPU's root load (`task_h_load`).
    pub(crate) fn task_h_load(&mut self, task: crate::ids::TaskId) -> u64 {
        let se = self.tasks[task].se;
        let entity = &self.entities[se];
        let (q, load_avg) = (entity.cfs_rq, entity.avg.load_avg);
        reached(Mark::HierarchicalLoad);
        let h_load = self.cfs_rq_h_load(q);
        load_avg * h_load / (self.cfs_rqs[q].avg.load_avg + 1)
    }

    /// Hierarchical load of a queue, cached per jiffy (`update_cfs_rq_h_load`).
    fn cfs_rq_h_load(&mut self, q: CfsRqId) -> u64 {
        let (cfs_rq, jiffy) = (&self.cfs_rqs[q], self.jiffy);
        if cfs_rq.h_load_jiffy == jiffy {
            return cfs_rq.h_load;
        }
        let h_load = match cfs_rq.se {
            None => cfs_rq.avg.load_avg,
            Some(se) => {
                let parent = self.entities[se].cfs_rq;
                let share = self.entities[se].avg.load_avg;
                self.cfs_rq_h_load(parent) * share / (self.cfs_rqs[parent].avg.load_avg + 1)
            }
        };
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.h_load = h_load;
        cfs_rq.h_load_jiffy = jiffy;
        h_load
    }

    /// Load of a CPU's root fair queue (`cpu_load`).
    #[inline]
    pub(crate) fn cpu_load(&self, cpu: Cpu) -> u64 {
        self.cfs_rqs[cpu].avg.load_avg
    }

    /// Runnable average of a CPU's root fair queue (`cpu_runnable`).
    #[inline]
    pub(crate) fn cpu_runnable(&self, cpu: Cpu) -> u64 {
        self.cfs_rqs[cpu].avg.runnable_avg
    }

    /// Utilisation of a CPU by the fair class, estimates included, capped by its capacity
    /// (`cpu_util_cfs`).
    #[inline]
    pub(crate) fn cpu_util(&self, cpu: Cpu) -> u64 {
        self.cpu_util_with(cpu, 0, 0)
    }

    /// The same, or how much runs and waits there if that is more (`cpu_util_cfs_boost`, 6.5).
    #[inline]
    pub(crate) fn cpu_util_boost(&self, cpu: Cpu) -> u64 {
        let boosted = self.cpu_util(cpu).max(self.cpu_runnable(cpu));
        boosted.min(self.rqs[cpu].cpu_capacity_orig)
    }

    /// The same with another task's utilisation and estimate on top.
    #[inline]
    pub(crate) fn cpu_util_with(&self, cpu: Cpu, task_util: u64, task_estimate: u64) -> u64 {
        let cfs_rq = &self.cfs_rqs[cpu];
        let mut util = cfs_rq.avg.util_avg + task_util;
        if self.rules.features.util_est {
            util = util.max(cfs_rq.util_est_enqueued + task_estimate);
        }
        util.min(self.rqs[cpu].cpu_capacity_orig)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::Owner;
    use crate::ids::{GroupId, TaskId};
    use crate::pelt::LOAD_AVG_MAX;
    use crate::tests::world::{MS, World, releases};
    use crate::weight::LoadWeight;

    #[test]
    fn an_attached_entity_gets_the_sums_that_fit_the_queues_period() {
        // The queue is 1000 units of 1024 ns before the end of a period: its divider is 47742 −
        // 1000 = 46742. The entity's own period is another; only its averages count.
        let mut queue = CfsRq::new(GroupId::ROOT, Cpu(0), None);
        queue.avg.period_left_ns = 1000 << 10;
        queue.avg.last_update_time = 5 * MS;
        let owner = Owner::Task(TaskId(9));
        let weight = LoadWeight::from_nice(-1); // 1277
        let mut entity = Entity::new(owner, CfsRqId(0), None, weight, 3 * MS);
        (
            entity.avg.load_avg,
            entity.avg.runnable_avg,
            entity.avg.util_avg,
        ) = (600, 300, 200);
        attach_entity_load_avg(&mut queue, &mut entity);
        assert_eq!(queue.avg.divider(), LOAD_AVG_MAX - 1000);
        assert_eq!(
            (entity.avg.last_update_time, entity.avg.period_left_ns),
            (5 * MS, 1000 << 10)
        );
        assert_eq!(entity.avg.util_sum, 9_348_400); // 200 · 46742
        assert_eq!(entity.avg.runnable_sum, 14_022_600); // 300 · 46742
        assert_eq!(entity.avg.load_sum, 21_961); // 600 · 46742 / 1277
        let avg = &queue.avg;
        assert_eq!(
            (avg.load_avg, avg.runnable_avg, avg.util_avg),
            (600, 300, 200)
        );
        assert_eq!((avg.util_sum, avg.runnable_sum), (9_348_400, 14_022_600));
        assert_eq!(avg.load_sum, 1277 * 21_961);
    }

    #[test]
    fn a_large_sum_of_load_keeps_its_upper_bits_from_7_0_on() {
        // 2^32 + 10^9 is more than 88 tasks of nice 0 come to. Nothing is taken away, but what is
        // left is compared with the 46718 that an average of 1 stands for: in 32 bits the 2^32 are
        // lost.
        for (version, sum) in [("6.19", 1_000_000_000), ("7.0", 5_294_967_296)] {
            let world = World::new(version, 1);
            let mut queue = world.kernel.cfs_rqs[0].clone();
            (queue.avg.load_avg, queue.avg.load_sum) = (1, (1 << 32) + 1_000_000_000);
            let owner = Owner::Task(TaskId(9));
            let entity = Entity::new(owner, CfsRqId(0), None, LoadWeight::from_nice(0), 3 * MS);
            dequeue_load_avg(&mut queue, &entity);
            assert_eq!(queue.avg.load_sum, sum, "{version}");
        }
    }

    #[test]
    fn the_runnable_sum_of_100_waiting_tasks_wraps_up_to_7_2_5() {
        // 100 · 1024 · 47742 = 4,888,780,800, which is 593,813,504 more than 2^32.
        for (version, sum) in releases([
            ("5.16 6.12.110 7.2.6 7.3", 4_888_780_800),
            ("5.17 6.12.109 7.2.5", 593_813_504),
        ]) {
            let world = World::new(version, 1);
            let mut queue = world.kernel.cfs_rqs[0].clone();
            queue.avg.period_left_ns = 0;
            let owner = Owner::Task(TaskId(9));
            let weight = LoadWeight::from_nice(0);
            let mut group = Entity::new(owner, CfsRqId(0), None, weight, 3 * MS);
            (group.avg.runnable_avg, group.avg.runnable_sum) = (0, 0);
            propagate_runnable(&mut queue, &mut group, 100 * 1024);
            assert_eq!(group.avg.runnable_sum, sum, "{version}");
        }
    }

    #[test]
    fn a_tasks_load_is_its_part_of_the_queue_with_one_added() {
        // The queue's load 3, of which the task has 12 (averages need not fit): 12 · 3 /
        // (3 + 1) = 9.
        let mut world = World::new("6.12", 1);
        world.checked = false;
        let task = world.spawn(Cpu(0));
        world.advance(2 * MS);
        let se = world.kernel.tasks[task].se;
        world.kernel.entities[se].avg.load_avg = 12;
        world.kernel.cfs_rqs[0].avg.load_avg = 3;
        world.kernel.cfs_rqs[0].h_load_jiffy = u64::MAX;
        assert_eq!(world.kernel.task_h_load(task), 9);
    }
}
