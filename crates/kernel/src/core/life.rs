//! Starting and ending tasks, ending groups, and a group's shares.

use crate::cfs_rq::before;
use crate::fair::EnqueueFlags;
use crate::fair::load::LoadUpdate;
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, TaskId};
use crate::kernel::{Arrival, Context, Kernel, WakeFlags};
use crate::model::{Mark, reached};
use crate::pelt::SchedAvg;
use crate::platform::{Observation, Op, Platform, PrevState, Timer};
use crate::rules::FairClass;
use crate::select::WakeKind;
use crate::task::TaskState;
use crate::weight::{NICE_0_LOAD, WEIGHT_IDLE, WEIGHT_SHIFT};
use schedcast_base::limits::{SHARES_MAX, SHARES_MIN};

impl Kernel {
    /// Starts a created task from `cpu` (`wake_up_new_task`). The forking task, if any, is the one
    /// `cpu` executes.
    pub fn wake_up_new_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.here = cpu;
        reached(Mark::ForkPlaced);
        let flags = WakeFlags::new(false, Context::Task);
        let (se, group) = (self.tasks[task].se, self.tasks[task].group);
        let fair = self.tasks[task].policy.is_fair();
        self.tasks[task].recent_used_cpu = cpu;
        self.tasks[task].cpu = cpu;
        self.cache_join(task, self.jiffies(p.now(cpu)));
        self.set_task_rq(se, group, cpu);
        if fair && self.rules.fork_charges_parent {
            // `task_fork_fair`.
            self.update_rq_clock(p, cpu);
            match self.rules.fair {
                FairClass::Cfs => self.place_forked(p, cpu, task),
                // The task's placement is forgotten at its first enqueue, but the forking task is
                // charged.
                FairClass::Eevdf => self.update_curr(p, self.queue_of_running(cpu)),
            }
        }
        let target = self.select_task_rq(p, cpu, task, WakeKind::Fork, flags);
        self.tasks[task].cpu = target;
        self.set_task_rq(se, group, target);
        self.update_rq_clock(p, target);
        if fair || self.rules.fork_attaches {
            self.post_init_entity_util_avg(task);
        }
        let q = self.entities[se].cfs_rq;
        if !fair {
            // Ready to be attached should it become a fair one.
            self.entities[se].avg.last_update_time = self.cfs_rq_clock_pelt(q);
        } else if self.rules.fork_attaches {
            self.attach_entity_cfs_rq(p, q, se);
        }
        let flags = EnqueueFlags::INITIAL;
        self.tasks[task].state = TaskState::Running;
        self.activate_task(p, target, task, flags);
        p.observe(target, Observation::Wakeup { task, cpu: target });
        self.wakeup_preempt(p, target, task, Arrival::Fork);
        self.task_woken(p, target, task);
    }

    /// A task that has slept on `cpu` since long before the begin of the run: its load has decayed
    /// to nothing and the queue has forgotten it, as after a migration in its sleep.
    pub fn adopt_sleeper(&mut self, cpu: Cpu, task: TaskId) {
        let record = &mut self.tasks[task];
        record.cpu = cpu;
        record.recent_used_cpu = cpu;
        record.state = TaskState::Blocked;
        let (se, group) = (record.se, record.group);
        self.set_task_rq(se, group, cpu);
        self.cache_join(task, self.jiffies(self.rqs[cpu].clock));
        let q = self.entities[se].cfs_rq;
        let entity = &mut self.entities[se];
        entity.vruntime = self.cfs_rqs[q].min_vruntime;
        entity.avg = SchedAvg::default();
    }

    /// The queue of the task that a CPU runs (`task_cfs_rq(current)`).
    fn queue_of_running(&self, cpu: Cpu) -> CfsRqId {
        let curr = &self.tasks[self.rqs[cpu].curr];
        self.entities[curr.se].cfs_rq
    }

    /// CFS: a child starts at its parent's vruntime, one slice late, relative to the parent's queue
    /// (`task_fork_fair`).
    fn place_forked<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let se = self.tasks[task].se;
        let q = self.queue_of_running(cpu);
        // Without a fair task that runs, the queue of a group nobody ran in yet is behind that.
        self.entities[se].vruntime = 0;
        let parent = self.cfs_rqs[q].curr;
        if let Some(parent) = parent {
            self.update_curr(p, q);
            self.entities[se].vruntime = self.entities[parent].vruntime;
        }
        let flags = EnqueueFlags::INITIAL;
        self.place_entity(q, se, flags);
        if let Some(parent) = parent
            && self.rules.child_runs_first
        {
            self.let_child_run_first(p, cpu, parent, se);
        }
        let origin = self.cfs_rqs[q].min_vruntime;
        let entity = &mut self.entities[se];
        entity.vruntime = entity.vruntime.wrapping_sub(origin);
    }

    /// Parent and child trade places (`sched_child_runs_first`).
    fn let_child_run_first<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        parent: EntityId,
        child: EntityId,
    ) {
        let (earlier, later) = (
            self.entities[parent].vruntime,
            self.entities[child].vruntime,
        );
        if before(earlier, later) {
            reached(Mark::ChildFirst);
            self.entities[parent].vruntime = later;
            self.entities[child].vruntime = earlier;
            self.resched_curr(p, cpu);
        }
    }

    /// A new task is assumed to need its share of what its queue uses, at most half of what is left
    /// (`post_init_entity_util_avg`).
    fn post_init_entity_util_avg(&mut self, task: TaskId) {
        let record = &self.tasks[task];
        let capacity = self.rqs[record.cpu].cpu_capacity_orig as i64;
        let entity = &mut self.entities[record.se];
        let queue = &self.cfs_rqs[entity.cfs_rq].avg;
        let cap = (capacity - queue.util_avg as i64) / 2;
        if cap > 0 {
            reached(Mark::InitialUtil);
            let cap = cap as u64;
            entity.avg.util_avg = if queue.util_avg == 0 {
                cap
            } else {
                let weight = if self.rules.initial_util_unscaled {
                    entity.load.unscaled()
                } else {
                    entity.load.weight
                };
                (queue.util_avg * weight / (queue.load_avg + 1)).min(cap)
            };
        }
        entity.avg.runnable_avg = entity.avg.util_avg;
    }

    /// The current task of `cpu` ends. [`Kernel::leave_kernel`] has to follow, and
    /// [`Kernel::task_reap`] when no reference to it is left.
    pub fn exit<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        p.spend(cpu, Op::Exit, 1);
        let task = self.rqs[cpu].curr;
        self.set_latency_limit(p, cpu, task, None);
        let record = &mut self.tasks[task];
        record.exiting = true;
        record.state = TaskState::Dead;
        let se = record.se;
        self.cache_leave(task);
        self.schedule(p, cpu, PrevState::Dead);
        if self.tasks[task].policy.is_fair() {
            self.remove_entity_load_avg(se);
        }
    }

    /// A group without tasks and without groups below it leaves its parent
    /// (`sched_release_group`): limits above no longer reach it. [`Kernel::group_free`] follows
    /// when an RCU grace period is over.
    pub fn group_release<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId) {
        self.here = cpu;
        if !self.rules.queues_outlive_release {
            self.unregister_queues(p, group);
        }
        if let Some(parent) = self.groups[group].parent {
            let children = &mut self.groups[parent].children;
            children.retain(|&child| child != group);
        }
    }

    /// A released group goes (`sched_unregister_group`): its timers are cancelled, and what its
    /// CPUs were asked to unthrottle is done first.
    pub fn group_free<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId) {
        self.here = cpu;
        p.cancel(cpu, Timer::BandwidthPeriod(group));
        p.cancel(cpu, Timer::BandwidthSlack(group));
        for cpu in (0..self.cpus()).map(Cpu::from) {
            self.unthrottle_pending(p, cpu);
        }
        if self.rules.queues_outlive_release {
            self.unregister_queues(p, group);
        }
    }

    /// The load that a group still has is taken off the queues above, and its queues leave the leaf
    /// lists (`unregister_fair_sched_group`). Entities whose dequeue is delayed are taken off
    /// first.
    fn unregister_queues<P: Platform>(&mut self, p: &mut P, group: GroupId) {
        reached(Mark::GroupUnregistered);
        for cpu in (0..self.cpus()).map(Cpu::from) {
            let q = self.cfs_rq_of(group, cpu);
            if let Some(se) = self.cfs_rqs[q].se {
                if self.entities[se].sched_delayed {
                    self.update_rq_clock(p, cpu);
                    self.dequeue_delayed_entity(p, se);
                }
                self.remove_entity_load_avg(se);
            }
            self.list_del_leaf_cfs_rq(q);
        }
    }

    /// Sets `cpu.shares` (unscaled; clamped to 2..=262144 like the kernel does).
    pub fn group_set_shares<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        group: GroupId,
        shares: u64,
    ) {
        self.here = cpu;
        let scaled = shares.clamp(SHARES_MIN, SHARES_MAX) << WEIGHT_SHIFT;
        if group == GroupId::ROOT || self.groups[group].shares == scaled {
            return;
        }
        self.groups[group].shares = scaled;
        for cpu in (0..self.cpus()).map(Cpu::from) {
            self.update_rq_clock(p, cpu);
            let mut level = self.cfs_rqs[self.cfs_rq_of(group, cpu)].se;
            while let Some(se) = level {
                let q = self.entities[se].cfs_rq;
                self.update_load_avg(p, q, se, LoadUpdate::UpdateTg);
                self.update_cfs_group(p, se);
                level = self.entities[se].parent;
            }
        }
    }

    /// Sets `cpu.idle` (5.15): weight 3 and idle policy for the whole group; back to 1024 when
    /// unset.
    pub fn group_set_idle<P: Platform>(&mut self, p: &mut P, cpu: Cpu, group: GroupId, idle: bool) {
        self.here = cpu;
        if group == GroupId::ROOT || self.groups[group].idle == idle {
            return;
        }
        for cpu in (0..self.cpus()).map(Cpu::from) {
            self.recount_idle_tasks(group, cpu, idle);
            self.note_idle_state(cpu);
            let q = self.cfs_rq_of(group, cpu);
            self.cfs_rqs[q].idle = idle;
        }
        self.groups[group].idle = idle;
        let shares = if idle {
            reached(Mark::IdleGroupWeight);
            WEIGHT_IDLE
        } else {
            NICE_0_LOAD >> WEIGHT_SHIFT
        };
        self.group_set_shares(p, cpu, group, shares);
    }

    /// Tasks of a group count as idle above it while the group is.
    fn recount_idle_tasks(&mut self, group: GroupId, cpu: Cpu, idle: bool) {
        let q = self.cfs_rq_of(group, cpu);
        let cfs_rq = &self.cfs_rqs[q];
        let normal = cfs_rq.h_nr_queued - cfs_rq.h_nr_idle;
        let mut level = cfs_rq.se;
        while let Some(se) = level {
            let entity = &self.entities[se];
            if !entity.on_rq {
                return;
            }
            level = entity.parent;
            let above = &mut self.cfs_rqs[entity.cfs_rq];
            if idle {
                above.h_nr_idle += normal;
            } else {
                above.h_nr_idle -= normal;
            }
            if self.groups[above.group].idle {
                return;
            }
        }
    }
}
