//! The flat pick (7.3): one order for all tasks of a CPU, whatever their groups.
//!
//! Groups still have queues, weights and load averages on each CPU, but no entity is picked from
//! them. A task competes in the CPU's root queue with the weight that its part of the CPU over all
//! levels comes to: the product of its weight and, level by level, the weight of its group's entity
//! over the sum of weights on the queue below. That weight is worked out when the task is enqueued,
//! when it begins to run, and at each tick while it runs.
//!
//! Worked example: group A has the weight 1024 on this CPU and runs a task of nice 0 and group A/B
//! with weight 512; in B are two tasks of nice 0. The task in A weighs 1024 · 1024 / (1024 + 512) =
//! 682, each one in B 1024 · 512 / 1536 · 1024 / 2048 = 170. A task in the root group weighs
//! its 1024.

use super::group_weight::rescale;
use super::load::{LoadUpdate, dequeue_load_avg, enqueue_load_avg};
use super::queue::Counts;
use super::{DequeueFlags, EnqueueFlags};
use crate::entity::Owner;
use crate::explain::Decision;
use crate::ids::{CfsRqId, Cpu, EntityId, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform};
use crate::task::Policy;
use crate::weight::{LoadWeight, NICE_0_LOAD};
use schedcast_base::limits::SHARES_MIN;

impl Kernel {
    /// One level of a task's weight over all levels, from the task upwards and beginning with that
    /// of nice 0 (`__calc_prop_weight`).
    #[inline(always)]
    fn prop_weight(&self, se: EntityId, weight: u64) -> u64 {
        let entity = &self.entities[se];
        let of = match entity.parent {
            Some(_) => self.cfs_rqs[entity.cfs_rq].load.weight,
            None => NICE_0_LOAD,
        };
        (weight * entity.load.weight / of).max(SHARES_MIN)
    }

    /// A task's weight over all levels, as they are now.
    #[cfg(test)]
    pub(crate) fn flat_weight(&self, task: TaskId) -> u64 {
        let mut weight = NICE_0_LOAD;
        let mut level = Some(self.tasks[task].se);
        while let Some(se) = level {
            weight = self.prop_weight(se, weight);
            level = self.entities[se].parent;
        }
        weight
    }

    /// Gives an entity a new weight on its queue (`reweight_entity`).
    pub(super) fn reweight_load(&mut self, q: CfsRqId, se: EntityId, load: LoadWeight) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let entity = &mut self.entities[se];
        if entity.load.weight == load.weight {
            return;
        }
        if entity.on_rq {
            cfs_rq.load.sub(entity.load.weight);
        }
        dequeue_load_avg(cfs_rq, entity);
        entity.load = load;
        entity.avg.load_avg =
            entity.load.unscaled() * entity.avg.load_sum / u64::from(entity.avg.divider());
        enqueue_load_avg(cfs_rq, entity);
        if entity.on_rq {
            cfs_rq.load.add(load.weight);
        }
    }

    /// Gives a task a new weight in virtual time: its lag, request and protection keep their length
    /// in real time (`reweight_eevdf`). `on_rq` = it is in the order, or runs.
    pub(super) fn reweight_eevdf(&mut self, root: CfsRqId, se: EntityId, weight: u64, on_rq: bool) {
        let old = self.entities[se].h_load.weight;
        if old == weight {
            return;
        }
        reached(Mark::FlatWeight);
        let is_curr = self.cfs_rqs[root].curr == Some(se);
        let mut average = 0;
        let mut protected_for = None;
        if on_rq {
            average = self.avg_vruntime_as_origin(root);
            let lag = self.entity_lag(root, se, average);
            if is_curr && self.protect_slice(se) {
                let left = self.entities[se].vprot.wrapping_sub(average) as i64;
                protected_for = Some(rescale(left, old, weight));
            }
            if !is_curr {
                self.timeline_remove(root, se);
            }
            let entity = &mut self.entities[se];
            entity.vlag = lag;
            entity.deadline = entity.deadline.wrapping_sub(average);
            entity.rel_deadline = true;
        }
        let h_load = self.rules.virtual_weight_of(weight);
        let entity = &mut self.entities[se];
        entity.vlag = rescale(entity.vlag, old, weight);
        if entity.rel_deadline {
            entity.deadline = rescale(entity.deadline as i64, old, weight) as u64;
        }
        entity.h_load = h_load;
        if !on_rq {
            return;
        }
        if let Some(left) = protected_for {
            entity.vprot = average.wrapping_add(left as u64);
        }
        entity.deadline = entity.deadline.wrapping_add(average);
        entity.rel_deadline = false;
        entity.vruntime = average.wrapping_sub(entity.vlag as u64);
        if !is_curr {
            self.timeline_insert(root, se);
        }
    }

    /// The second half of `update_curr`: `curr` of one level ran for `delta`. Virtual time passes
    /// for tasks only.
    #[inline(never)]
    pub(super) fn charge_flat<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        cpu: Cpu,
        curr: EntityId,
        delta: Ns,
    ) {
        self.account_cfs_rq_runtime(p, q, delta);
        let Owner::Task(task) = self.entities[curr].owner else {
            return;
        };
        let group = self.tasks[task].group;
        self.groups[group].usage_ns += delta;
        let root = CfsRqId(cpu.0);
        let entity = &mut self.entities[curr];
        let virtual_time = crate::weight::calc_delta_fair(delta, &entity.h_load);
        entity.vruntime = entity.vruntime.wrapping_add(virtual_time);
        let expired = self.update_deadline(root, curr);
        if self.fair_server_update(cpu, delta) {
            self.fair_server_spent(p, cpu);
        }
        if self.cfs_rqs[root].h_nr_queued == 1 {
            return;
        }
        if expired || !self.protect_slice(curr) {
            reached(Mark::RequestOver);
            self.resched_curr_lazy(p, cpu);
            self.clear_buddies(root, curr);
        }
    }

    /// Charges the running task up to now, without the levels above it (`update_curr_eevdf`).
    #[inline]
    fn update_curr_eevdf<P: Platform>(&mut self, p: &mut P, root: CfsRqId) {
        if let Some(curr) = self.cfs_rqs[root].curr {
            self.update_curr(p, self.entities[curr].cfs_rq);
        }
    }

    /// Charges the running fair task of a CPU and all levels above it (`update_curr_fair`).
    pub(crate) fn update_curr_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let curr = self.rqs[cpu].curr;
        let mut level = Some(self.tasks[curr].se);
        while let Some(se) = level {
            let entity = &self.entities[se];
            level = entity.parent;
            self.update_curr(p, entity.cfs_rq);
        }
    }

    /// The rest of `enqueue_task_fair`.
    pub(super) fn enqueue_task_flat<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: EnqueueFlags,
    ) {
        let root = CfsRqId(cpu.0);
        let se = self.tasks[task].se;
        let was_empty = self.cfs_rqs[root].h_nr_queued == 0;
        self.update_curr_eevdf(p, root);
        if flags.has(EnqueueFlags::DELAYED) {
            self.requeue_delayed_entity(p, se);
            return;
        }
        if self.tasks[task].in_iowait && self.rules.frequency.iowait_flag {
            self.cpufreq_update_util(p, cpu, true);
        }
        let is_curr = self.cfs_rqs[root].curr == Some(se);
        if is_curr {
            self.place_entity(root, se, flags);
        }
        if self.entities[se].on_rq && self.entities[se].sched_delayed {
            self.requeue_delayed_entity(p, se);
        }
        let weight = self.enqueue_hierarchy(p, task, flags);
        if !is_curr {
            self.reweight_eevdf(root, se, weight, false);
            self.place_entity(root, se, flags);
            self.timeline_insert(root, se);
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

    /// Enqueues a task and the groups above it; returns its weight over all levels
    /// (`enqueue_hierarchy`).
    fn enqueue_hierarchy<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        mut flags: EnqueueFlags,
    ) -> u64 {
        let first = self.tasks[task].se;
        let delayed = self.entities[first].sched_delayed;
        let mut counts = Counts {
            queued: 1,
            runnable: u32::from(!delayed || flags.has(EnqueueFlags::WAKEUP)),
            idle: u32::from(self.tasks[task].policy == Policy::Idle),
        };
        let mut weight = NICE_0_LOAD;
        let mut level = Some(first);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            self.update_curr(p, q);
            if self.entities[se].on_rq {
                self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
                self.se_update_runnable(se);
                self.update_cfs_group(p, se);
            } else {
                p.spend(self.here, Op::EnqueueLevel, 1);
                self.enqueue_level(p, q, se, flags);
            }
            self.add_counts(q, &mut counts);
            weight = self.prop_weight(se, weight);
            flags = EnqueueFlags::WAKEUP;
            level = self.entities[se].parent;
        }
        weight
    }

    /// `enqueue_entity`: what is left of it without virtual time.
    fn enqueue_level<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        flags: EnqueueFlags,
    ) {
        self.update_load_avg(p, q, se, LoadUpdate::Attach);
        self.se_update_runnable(se);
        self.update_cfs_group(p, se);
        self.account_enqueued(q, se, flags);
        if self.cfs_rqs[q].nr_queued == 1 {
            self.first_entity_queued(p, q);
        }
    }

    /// Takes a task off; `false` when it is delayed instead (`__dequeue_task`).
    pub(super) fn dequeue_task_flat<P: Platform>(
        &mut self,
        p: &mut P,
        se: EntityId,
        flags: DequeueFlags,
    ) -> bool {
        let Some(task) = self.entities[se].task() else {
            return true;
        };
        let cpu = self.cfs_rqs[self.entities[se].cfs_rq].cpu;
        let root = CfsRqId(cpu.0);
        let only_idle_before = self.rqs[cpu].noted_sched_idle;
        self.clear_buddies(root, se);
        self.update_curr_eevdf(p, root);
        self.update_entity_lag(root, se);
        let never_delays = DequeueFlags::DELAYED | DequeueFlags::SPECIAL | DequeueFlags::THROTTLE;
        let may_delay = flags.has(DequeueFlags::SLEEP) && !flags.has(never_delays);
        if self.rules.features.delay_dequeue && may_delay && !self.entity_eligible(root, se) {
            let q = self.entities[se].cfs_rq;
            self.update_load_avg(p, q, se, LoadUpdate::Age);
            reached(Mark::DelayDequeue);
            self.set_delayed(se);
            return false;
        }
        self.dequeue_hierarchy(p, se, flags);
        if self.cfs_rqs[root].curr != Some(se) {
            self.timeline_remove(root, se);
        }
        let entity = &mut self.entities[se];
        if self.rules.features.place_rel_deadline && !flags.has(DequeueFlags::SLEEP) {
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
            entity.rel_deadline = true;
        }
        self.sub_nr_running(cpu, 1);
        self.fair_tasks_left(p, cpu);
        if !only_idle_before && self.rqs[cpu].noted_sched_idle {
            let jiffy = self.jiffies(self.rqs[cpu].clock);
            self.rqs[cpu].next_balance = jiffy;
        }
        if flags.has(DequeueFlags::DELAYED) {
            // Only now: the groups above have been told of one runnable task too few, until they
            // are asked again.
            self.finish_delayed_dequeue_entity(se);
            self.block_task(cpu, task);
        }
        true
    }

    /// Takes a task and every group that becomes empty off their queues (`dequeue_hierarchy`).
    fn dequeue_hierarchy<P: Platform>(&mut self, p: &mut P, first: EntityId, entry: DequeueFlags) {
        let mut counts = self.counts_of(first, entry);
        let mut flags = entry;
        let mut leaves = true;
        let mut level = Some(first);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            self.update_curr(p, q);
            if leaves {
                p.spend(self.here, Op::DequeueLevel, 1);
                self.dequeue_level(p, q, se, flags);
                // The parent stays if it has others.
                leaves = self.cfs_rqs[q].load.weight == 0;
            } else {
                self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
                self.se_update_runnable(se);
                self.update_cfs_group(p, se);
            }
            self.sub_counts(q, &mut counts);
            if entry.has(DequeueFlags::THROTTLE) && self.cfs_rqs[q].throttle_count > 0 {
                self.record_throttle_clock(q);
            }
            flags = flags
                .with(DequeueFlags::SLEEP, true)
                .with(DequeueFlags::DELAYED, false)
                .with(DequeueFlags::SPECIAL, false);
            level = self.entities[se].parent;
        }
    }

    /// `dequeue_entity`.
    fn dequeue_level<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
        flags: DequeueFlags,
    ) {
        let stays = flags.has(DequeueFlags::SLEEP | DequeueFlags::DELAYED);
        let update = match stays || !self.entity_is_leaving(se) {
            true => LoadUpdate::UpdateTg,
            false => LoadUpdate::Detach,
        };
        self.update_load_avg(p, q, se, update);
        self.se_update_runnable(se);
        let entity = &mut self.entities[se];
        let cfs_rq = &mut self.cfs_rqs[q];
        entity.on_rq = false;
        cfs_rq.load.sub(entity.load.weight);
        cfs_rq.nr_queued -= 1;
        if let Some(task) = entity.task() {
            let tasks = &mut self.rqs[cfs_rq.cpu].cfs_tasks;
            if let Some(place) = tasks.iter().rposition(|&other| other == task) {
                tasks.remove(place);
            }
            self.account_llc_dequeue(task);
        }
        self.return_cfs_rq_runtime(p, q);
        self.update_cfs_group(p, se);
        if self.cfs_rqs[q].nr_queued == 0 {
            self.update_idle_cfs_rq_clock_pelt(q);
            self.last_entity_left(q);
        }
    }

    /// Next task of a CPU (`pick_task_fair`).
    pub(super) fn pick_task_flat<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Option<TaskId> {
        let root = CfsRqId(cpu.0);
        while self.cfs_rqs[root].h_nr_queued > 0 {
            let curr = self.cfs_rqs[root].curr;
            if curr.is_some_and(|se| self.entities[se].on_rq) {
                self.update_curr_eevdf(p, root);
            }
            // A delayed task that would have been picked was taken off instead.
            let Some(se) = self.pick_next_entity(p, root, true) else {
                continue;
            };
            reached(Mark::FlatPick);
            let task = self.entities[se].task()?;
            if P::EXPLAIN {
                let levels = vec![self.describe_level(root, se, self.pick_rule(root, se))];
                p.explain(cpu, Decision::Pick { task, levels });
            }
            return Some(task);
        }
        None
    }

    /// The running task and the levels that it does not share with `next` are put
    /// (`put_prev_task_fair`).
    pub(super) fn put_prev_task_flat<P: Platform>(
        &mut self,
        p: &mut P,
        prev: TaskId,
        next: Option<TaskId>,
    ) {
        let first = self.tasks[prev].se;
        let root = self.order_of(first);
        let mut nse = next.map(|next| self.tasks[next].se);
        let mut level = Some(first);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            if nse.is_none() || self.cfs_rqs[q].h_curr.is_some() {
                self.put_level(p, q, se);
            }
            if let Some(other) = nse {
                if self.entities[other].cfs_rq == q {
                    break;
                }
                let (depth, own) = (self.depth(other), self.depth(se));
                if depth >= own {
                    nse = self.entities[other].parent;
                }
                if depth > own {
                    continue;
                }
            }
            level = self.entities[se].parent;
        }
        self.cfs_rqs[root].curr = None;
        if self.entities[first].on_rq {
            self.timeline_insert(root, first);
        }
    }

    /// `put_prev_entity`.
    fn put_level<P: Platform>(&mut self, p: &mut P, q: CfsRqId, se: EntityId) {
        if self.entities[se].on_rq {
            self.update_curr(p, q);
            self.update_load_avg(p, q, se, LoadUpdate::Age);
        }
        self.cfs_rqs[q].h_curr = None;
    }

    /// A task begins to run, with all levels that are not set already (`set_next_task_fair`).
    pub(super) fn set_next_task_flat<P: Platform>(&mut self, p: &mut P, task: TaskId, first: bool) {
        let se = self.tasks[task].se;
        let root = self.order_of(se);
        let on_rq = self.entities[se].on_rq;
        self.clear_buddies(root, se);
        if on_rq {
            self.timeline_remove(root, se);
        }
        let mut throttled = false;
        let mut weight = NICE_0_LOAD;
        let mut level = Some(se);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            if !first || self.cfs_rqs[q].h_curr.is_none() {
                self.set_level(p, q, se);
            }
            throttled |= self.account_cfs_rq_runtime(p, q, 0);
            if on_rq {
                weight = self.prop_weight(se, weight);
            }
            level = self.entities[se].parent;
        }
        if throttled {
            self.task_throttle_setup_work(p, task);
        }
        self.cfs_rqs[root].curr = Some(se);
        if on_rq {
            self.reweight_eevdf(root, se, weight, true);
            if first {
                self.set_protect_slice(root, se);
            }
        }
    }

    /// `set_next_entity`.
    fn set_level<P: Platform>(&mut self, p: &mut P, q: CfsRqId, se: EntityId) {
        if self.entities[se].on_rq {
            self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.h_curr = Some(se);
        let entity = &mut self.entities[se];
        entity.exec_start = self.rqs[cfs_rq.cpu].clock_task;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
    }

    /// Tick of the running task, level by level (`task_tick_fair`).
    pub(super) fn task_tick_flat<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let first = self.tasks[task].se;
        if !self.entities[first].on_rq {
            return;
        }
        let mut weight = NICE_0_LOAD;
        let mut level = Some(first);
        while let Some(se) = level {
            let q = self.entities[se].cfs_rq;
            p.spend(self.here, Op::TickLevel, 1);
            self.update_curr(p, q);
            self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
            self.update_cfs_group(p, se);
            weight = self.prop_weight(se, weight);
            level = self.entities[se].parent;
        }
        self.reweight_eevdf(self.order_of(first), first, weight, true);
    }
}
