//! Tasks that join or leave the fair class or a group: their load goes with them.
//!
//! Worked example: a sleeping task with `load_avg` 300 moves from group A to group B. A's queue
//! loses 300 at once, B's gains 300, and both groups' entities hear of it on the way up. On CFS the
//! task's vruntime is placed as if it woke now and made relative to A's `min_vruntime`, so that it
//! can neither save up its sleep nor carry A's clock into B.

use super::load::LoadUpdate;
use super::{DequeueFlags, EnqueueFlags};
use crate::ids::{CfsRqId, Cpu, EntityId, TaskId};
use crate::kernel::{Arrival, Kernel};
use crate::platform::Platform;
use crate::rules::FairClass;
use crate::task::TaskState;

impl Kernel {
    /// Whether a task's vruntime is relative to no queue (`vruntime_normalized`, CFS).
    fn vruntime_normalized(&self, task: TaskId) -> bool {
        let record = &self.tasks[task];
        record.on_rq
            || self.entities[record.se].sum_exec_runtime == 0
            || (record.state == TaskState::Waking && record.wake_migrated)
    }

    /// `detach_task_cfs_rq`.
    pub(crate) fn detach_task_cfs_rq<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let se = self.tasks[task].se;
        let q = self.entities[se].cfs_rq;
        if self.rules.fair == FairClass::Cfs && !self.vruntime_normalized(task) {
            self.place_entity_cfs(q, se, EnqueueFlags::NONE);
            let origin = self.cfs_rqs[q].min_vruntime;
            let entity = &mut self.entities[se];
            entity.vruntime = entity.vruntime.wrapping_sub(origin);
        }
        // A task that is new or on its way to another CPU is attached nowhere.
        if self.entities[se].avg.last_update_time == 0 {
            return;
        }
        self.detach_entity_cfs_rq(p, q, se);
    }

    /// `detach_entity_cfs_rq`.
    pub(crate) fn detach_entity_cfs_rq<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
    ) {
        self.update_load_avg(p, q, se, LoadUpdate::Detach);
        self.propagate_entity_cfs_rq(p, q);
    }

    /// `attach_task_cfs_rq`.
    pub(crate) fn attach_task_cfs_rq<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let se = self.tasks[task].se;
        let q = self.entities[se].cfs_rq;
        self.attach_entity_cfs_rq(p, q, se);
        if self.rules.fair == FairClass::Cfs && !self.vruntime_normalized(task) {
            let origin = self.cfs_rqs[q].min_vruntime;
            let entity = &mut self.entities[se];
            entity.vruntime = entity.vruntime.wrapping_add(origin);
        }
    }

    /// `attach_entity_cfs_rq`: ages the entity (ATTACH_AGE_LOAD), adds it, tells the ancestors.
    pub(crate) fn attach_entity_cfs_rq<P: Platform>(
        &mut self,
        p: &mut P,
        q: CfsRqId,
        se: EntityId,
    ) {
        if !self.rules.features.attach_age_load {
            self.entities[se].avg.last_update_time = 0;
        }
        self.update_load_avg(p, q, se, LoadUpdate::Age);
        // Not attached yet, whatever its time stamp says.
        self.entities[se].avg.last_update_time = 0;
        self.update_load_avg(p, q, se, LoadUpdate::Attach);
        self.propagate_entity_cfs_rq(p, q);
    }

    /// Carries a change of a queue's averages up to the root (`propagate_entity_cfs_rq`).
    fn propagate_entity_cfs_rq<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        if self.rules.throttled_leaves {
            return self.propagate_past_throttled(p, q);
        }
        let mut level = Some(q);
        let mut child: Option<EntityId> = None;
        while let Some(q) = level {
            if let Some(se) = child {
                self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
            }
            let cfs_rq = &self.cfs_rqs[q];
            child = cfs_rq.se;
            let clock_stopped = cfs_rq.pelt_clock_throttled;
            if self.stops_at_throttled(q) {
                return;
            }
            if !clock_stopped {
                self.list_add_leaf_cfs_rq(q);
            }
            level = child.map(|se| self.entities[se].cfs_rq);
        }
    }

    /// The same up to 5.19: throttled queues are leaves like others, and nothing is carried
    /// further from one unless its branch of the list is still without a listed parent.
    fn propagate_past_throttled<P: Platform>(&mut self, p: &mut P, mut q: CfsRqId) {
        self.list_add_leaf_cfs_rq(q);
        while let Some(se) = self.cfs_rqs[q].se {
            q = self.entities[se].cfs_rq;
            let throttled = self.cfs_rqs[q].throttled;
            if !throttled {
                self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
            }
            if self.list_add_leaf_cfs_rq(q) && throttled {
                return;
            }
        }
    }

    /// A task becomes a fair one (`switched_to_fair`).
    pub(crate) fn switched_to_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.attach_task_cfs_rq(p, task);
        if !self.tasks[task].on_rq {
            return;
        }
        if self.rqs[cpu].curr == task {
            self.resched_curr(p, cpu);
        } else {
            self.wakeup_preempt(p, cpu, task, Arrival::Other);
        }
    }

    /// A fair task's nice value changed (`prio_changed_fair`).
    pub(crate) fn prio_changed_fair<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        old_prio: i32,
    ) {
        if !self.tasks[task].on_rq || self.nr_competing(CfsRqId(cpu.0)) == 1 {
            return;
        }
        if self.rqs[cpu].curr == task {
            if self.prio(task) > old_prio {
                self.resched_curr(p, cpu);
            }
        } else {
            self.wakeup_preempt(p, cpu, task, Arrival::Other);
        }
    }

    /// `task_change_group_fair`.
    pub(crate) fn task_change_group_fair<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let record = &self.tasks[task];
        let (se, cpu, group) = (record.se, record.cpu, record.group);
        if record.state == TaskState::New {
            self.set_task_rq(se, group, cpu);
            return;
        }
        self.detach_task_cfs_rq(p, task);
        self.entities[se].avg.last_update_time = 0;
        self.set_task_rq(se, group, cpu);
        self.attach_task_cfs_rq(p, task);
    }

    /// The delayed dequeue of a task that changes class takes place now.
    pub(crate) fn finish_delayed_dequeue<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let se = self.tasks[task].se;
        if self.entities[se].sched_delayed {
            self.dequeue_task_fair(p, task, DequeueFlags::SLEEP | DequeueFlags::DELAYED);
        }
    }

    /// The averages of a task of another class age with the queue it would be on
    /// (`set_task_rq_fair`).
    pub(crate) fn follow_queue_clock(&mut self, se: EntityId, from: CfsRqId, to: CfsRqId) {
        let aged =
            self.rules.features.attach_age_load && self.entities[se].avg.last_update_time != 0;
        if from == to || !aged {
            return;
        }
        let old_clock = self.cfs_rqs[from].avg.last_update_time;
        super::load::age_blocked_entity(&mut self.entities[se], old_clock);
        self.entities[se].avg.last_update_time = self.cfs_rqs[to].avg.last_update_time;
    }
}
