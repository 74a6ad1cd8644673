//! Choosing the next fair task, and moving the "current" marks of the hierarchy to it.

use super::eevdf::update_zero_vruntime;
use super::load::LoadUpdate;
use crate::explain::Decision;
use crate::ids::{CfsRqId, Cpu, EntityId, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform};
use crate::rules::hooks::Picking;
use crate::rules::{FairClass, ThrottleModel};

impl Kernel {
    /// Next task of a CPU's fair class, walking down from the root (`pick_task_fair`). `None` when
    /// nothing is runnable.
    #[inline(always)]
    pub(crate) fn pick_task_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Option<TaskId> {
        if self.rules.flat_pick {
            return self.pick_task_flat(p, cpu);
        }
        'again: loop {
            let mut q = CfsRqId(cpu.0);
            if self.cfs_rqs[q].nr_queued == 0 {
                return None;
            }
            let mut throttled = false;
            let mut levels = Vec::new();
            loop {
                let curr = self.cfs_rqs[q].curr;
                if curr.is_some_and(|se| self.entities[se].on_rq) {
                    self.update_curr(p, q);
                }
                let checked = curr.is_some() || self.rules.picks_ask_for_runtime;
                let out_of_runtime = checked && self.check_cfs_rq_runtime(p, q);
                if out_of_runtime && self.rules.throttle_model == ThrottleModel::Queue {
                    if !self.rules.picks_ask_for_runtime {
                        self.put_before_pick(p, cpu);
                    }
                    continue 'again;
                }
                throttled |= out_of_runtime;
                let Some(se) = self.pick_next_entity(p, q, true) else {
                    continue 'again;
                };
                if P::EXPLAIN {
                    levels.push(self.describe_level(q, se, self.pick_rule(q, se)));
                }
                let entity = &self.entities[se];
                match entity.my_q() {
                    Some(child) => q = child,
                    None => {
                        let task = entity
                            .task()
                            .expect("an entity without a queue is a task's");
                        if throttled {
                            self.task_throttle_setup_work(p, task);
                        }
                        if P::EXPLAIN {
                            p.explain(cpu, Decision::Pick { task, levels });
                        }
                        return Some(task);
                    }
                }
            }
        }
    }

    /// Up to 6.11 a pick that throttles a queue on its way puts the task that ran last on all
    /// levels before it begins anew (`simple` in `pick_next_task_fair`).
    #[cold]
    fn put_before_pick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.cfs_rqs[cpu].nr_queued > 0 {
            let prev = self.rqs[cpu].curr;
            self.put_prev_task_fair(p, prev);
            self.rqs[cpu].put_before_pick = true;
        }
    }

    /// Next entity of one queue (`pick_next_entity`); `protect` = honour protection and buddies.
    /// `None` when the choice was a delayed entity, which has been taken off: pick again from the
    /// root.
    #[inline(always)]
    pub(super) fn pick_next_entity<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        protect: bool,
    ) -> Option<EntityId> {
        if self.rules.fair == FairClass::Cfs {
            let picked = self.pick_next_entity_cfs(q)?;
            if self.rules.pick_clears_buddies {
                self.clear_buddies(q, picked);
            }
            return Some(picked);
        }
        if let Some(next) = self.eligible_buddy(q, protect) {
            return Some(next);
        }
        let se = self
            .pick_eevdf(q, protect)
            .expect("a queue that was asked has entities");
        if self.entities[se].sched_delayed {
            reached(Mark::DelayedTakenOff);
            self.dequeue_delayed_entity(p, se);
            return None;
        }
        Some(se)
    }

    /// The next buddy, where a pick takes it before it asks for deadlines.
    #[inline(always)]
    pub(super) fn eligible_buddy(&self, q: CfsRqId, protect: bool) -> Option<EntityId> {
        let next = self.cfs_rqs[q].next?;
        let counts = protect || !self.rules.short_requests_pass_buddies;
        if !counts || !self.honours_buddy() || !self.entity_eligible(q, next) {
            return None;
        }
        reached(Mark::NextBuddyEligible);
        Some(next)
    }

    /// The choice of a rule of one's own.
    ///
    /// # Panics
    /// The rule chose an entity that is not in this queue.
    #[inline(always)]
    pub(crate) fn own_pick(&self, queue: CfsRqId, protect: bool) -> Option<EntityId> {
        let se = self.rules.own.pick(self, || Picking { queue, protect })?;
        let is_there = self.entities[se].on_rq && self.order_of(se) == queue;
        assert!(
            is_there,
            "`pick` of a patch in rules/own.rs chose {se:?}, which is not in {queue:?}"
        );
        reached(Mark::OwnPick);
        Some(se)
    }

    #[inline(always)]
    fn honours_buddy(&self) -> bool {
        let features = &self.rules.features;
        match self.rules.picks_any_buddy {
            true => features.pick_buddy,
            false => features.next_buddy,
        }
    }

    /// `put_prev_entity`.
    #[inline(always)]
    pub(crate) fn put_prev_entity<P: Platform>(&mut self, p: &mut P, q: CfsRqId, se: EntityId) {
        let on_rq = self.entities[se].on_rq;
        if on_rq {
            self.update_curr(p, q);
        }
        self.check_cfs_rq_runtime(p, q);
        // Throttling the queue (up to 6.17) leaves its own entities queued.
        if on_rq {
            self.timeline_insert(q, se);
            self.update_load_avg(p, q, se, LoadUpdate::Age);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        (cfs_rq.curr, cfs_rq.h_curr) = (None, None);
    }

    /// `set_next_entity`; `first` = it was just picked, rather than changed while it ran.
    #[inline(always)]
    pub(crate) fn set_next_entity<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        first: bool,
    ) {
        // Up to 5.13 the pick does so: a task that is set anew while it runs keeps hints at it.
        if self.rules.fair == FairClass::Eevdf || !self.rules.pick_clears_buddies {
            self.clear_buddies(q, se);
        }
        if self.entities[se].on_rq {
            self.timeline_remove(q, se);
            self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
        }
        let eevdf = self.rules.fair == FairClass::Eevdf;
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        let follows_pick = !self.rules.origin_follows_average && !self.rules.origin_follows_order;
        if eevdf && entity.on_rq && follows_pick {
            update_zero_vruntime(cfs_rq, entity.vruntime);
        }
        (cfs_rq.curr, cfs_rq.h_curr) = (Some(se), Some(se));
        entity.exec_start = self.rqs[cfs_rq.cpu].clock_task;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        if eevdf && (first || !self.rules.protection_at_pick_only) {
            self.set_protect_slice(q, se);
        }
    }

    /// Moves the current marks from one fair task to another, touching only the levels that differ
    /// (second half of `pick_next_task_fair`).
    pub(crate) fn switch_fair_entities<P: Platform>(
        &mut self,
        p: &mut P,
        prev: TaskId,
        next: TaskId,
    ) {
        if self.rules.flat_pick {
            self.put_prev_task_flat(p, prev, Some(next));
            return self.set_next_task_flat(p, next, true);
        }
        let mut se = self.tasks[next].se;
        let mut pse = self.tasks[prev].se;
        let mut depth = self.depth(se);
        let mut pdepth = self.depth(pse);
        loop {
            let (q, pq) = (self.entities[se].cfs_rq, self.entities[pse].cfs_rq);
            if q == pq {
                reached(Mark::SwitchLevels);
                self.put_prev_entity(p, q, pse);
                self.switch_to_entity(p, se, next);
                return;
            }
            let (level, plevel) = (depth, pdepth);
            if level <= plevel {
                self.put_prev_entity(p, pq, pse);
                pse = self.entities[pse]
                    .parent
                    .expect("the other queue lies higher");
                pdepth -= 1;
            }
            if level >= plevel {
                self.switch_to_entity(p, se, next);
                se = self.entities[se]
                    .parent
                    .expect("the other queue lies higher");
                depth -= 1;
            }
        }
    }

    /// Sets one of the levels that a switch to `next` changes. From 7.2 on its queue must have
    /// runtime (`set_next_task_fair`).
    fn switch_to_entity<P: Platform>(&mut self, p: &mut P, se: EntityId, next: TaskId) {
        let q = self.entities[se].cfs_rq;
        self.set_next_entity(p, q, se, true);
        if self.rules.switches_ask_for_runtime && self.account_cfs_rq_runtime(p, q, 0) {
            self.task_throttle_setup_work(p, next);
        }
    }

    pub(super) fn depth(&self, se: EntityId) -> u32 {
        let mut depth = 0;
        let mut level = self.entities[se].parent;
        while let Some(se) = level {
            depth += 1;
            level = self.entities[se].parent;
        }
        depth
    }

    /// `put_prev_task_fair`.
    #[inline(always)]
    pub(crate) fn put_prev_task_fair<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        if self.rules.flat_pick {
            return self.put_prev_task_flat(p, task, None);
        }
        let mut level = Some(self.tasks[task].se);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            self.put_prev_entity(p, q, se);
            level = self.entities[se].parent;
        }
    }

    /// `set_next_task_fair`.
    pub(crate) fn set_next_task_fair<P: Platform>(&mut self, p: &mut P, task: TaskId, first: bool) {
        if self.rules.flat_pick {
            return self.set_next_task_flat(p, task, first);
        }
        let se = self.tasks[task].se;
        if first && !self.rules.picks_ask_for_runtime {
            return self.set_next_levels(p, se);
        }
        let mut level = Some(se);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            self.set_next_entity(p, q, se, first);
            // A queue that starts to run must have runtime (`account_cfs_rq_runtime(0)`).
            if self.account_cfs_rq_runtime(p, q, 0) {
                self.task_throttle_setup_work(p, task);
            }
            level = self.entities[se].parent;
        }
    }

    /// Up to 6.11 a pick sets levels on its way down, so that what a queue has to tell the levels
    /// above waits until they are updated next.
    fn set_next_levels<P: Platform>(&mut self, p: &mut P, se: EntityId) {
        if let Some(parent) = self.entities[se].parent {
            self.set_next_levels(p, parent);
        }
        self.set_next_entity(p, self.entities[se].cfs_rq, se, true);
    }

    /// A picked task goes to the end balance looks at last (`list_move(&se->group_node, …)`).
    #[inline]
    pub(crate) fn note_picked(&mut self, cpu: Cpu, task: TaskId) {
        let tasks = &mut self.rqs[cpu].cfs_tasks;
        if tasks.last() != Some(&task)
            && let Some(place) = tasks.iter().rposition(|&other| other == task)
        {
            tasks[place..].rotate_left(1);
        }
    }

    /// Tick of the fair class (`task_tick_fair`).
    pub(crate) fn task_tick_fair<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        self.entity_ticks(p, task);
        let cpu = self.tasks[task].cpu;
        self.update_misfit_status(cpu, Some(task));
        self.check_update_overutilized_status(cpu);
    }

    /// The part of a tick that the timer of a slice has, too (`entity_tick` of each level).
    pub(crate) fn entity_ticks<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        if self.rules.flat_pick {
            self.task_tick_flat(p, task);
        } else {
            self.task_tick_levels(p, task);
        }
    }

    fn task_tick_levels<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let mut level = Some(self.tasks[task].se);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            p.spend(self.here, Op::TickLevel, 1);
            self.update_curr(p, q);
            self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
            self.update_cfs_group(p, se);
            if self.rules.fair == FairClass::Cfs && self.cfs_rqs[q].nr_queued > 1 {
                self.check_preempt_tick(p, q, se);
            }
            level = self.entities[se].parent;
        }
    }
}
