//! Throttling and unthrottling.
//!
//! Up to 6.17 a throttled queue's group entity leaves the parent queue, and all its tasks with it.
//! From 6.18 the queue is only marked; each of its tasks parks itself on the queue's limbo list at
//! its return to user mode, so that no task is stopped while it holds a kernel lock.
//!
//! Worked example (6.18): a hog's queue runs out of runtime at the tick at 28 ms. The tick asks for
//! a reschedule; the pick finds the queue out of runtime, marks it throttled, picks the hog again
//! and gives it throttle work; on its way back to user mode the hog is dequeued and parked. Two
//! passes through `schedule()`, no instruction of the program in between.

use crate::cache::CacheWork;
use crate::explain::{Decision, Throttling};
use crate::fair::queue::{Change, Counts};
use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::ids::{CfsRqId, GroupId, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Observation, Op, Platform};
use crate::rules::ThrottleModel;

impl Kernel {
    /// Throttles a queue unless a last nanosecond is granted (`throttle_cfs_rq`). Returns whether
    /// it is throttled now.
    pub(crate) fn throttle_cfs_rq<P: Platform>(&mut self, p: &mut P, q: CfsRqId) -> bool {
        let group = self.cfs_rqs[q].group;
        // From 7.2 on the one that runs asks here for the runtime to go on with.
        let running = self.cfs_rqs[q]
            .h_curr
            .is_some_and(|se| self.entities[se].on_rq)
            && self.rules.throttles_when_charged;
        if self.rules.throttle_asks_again {
            let target_ns = match running {
                true => self.rules.bandwidth_slice_ns as i64,
                false => 1,
            };
            if self.assign_cfs_rq_runtime(p, q, target_ns) {
                reached(Mark::ThrottleAsksAgain);
                return false;
            }
        } else {
            self.start_cfs_bandwidth(p, group);
        }
        let head_first = self.rules.throttled_first_in_line
            || (!self.rules.throttle_asks_again && self.groups[group].bandwidth.distribute_running);
        let list = &mut self.groups[group].bandwidth.throttled;
        if head_first {
            list.insert(0, q);
        } else {
            list.push(q);
        }
        let cpu = self.cfs_rqs[q].cpu;
        reached(Mark::RuntimeUsedUp);
        if P::EXPLAIN {
            let bandwidth = &self.groups[group].bandwidth;
            let decision = Decision::Throttle(Throttling {
                group,
                limit: bandwidth.limit,
                rule: Mark::RuntimeUsedUp,
                tasks: self.cfs_rqs[q].h_nr_queued,
                runtime_remaining_ns: self.cfs_rqs[q].runtime_remaining_ns,
                pool_ns: bandwidth.runtime_ns,
                refill_at_ns: bandwidth.expires_ns,
            });
            p.explain(cpu, decision);
        }
        self.tg_throttle_down(q);
        if self.rules.throttle_model == ThrottleModel::Queue {
            reached(Mark::ThrottleDequeuesGroup);
            self.dequeue_throttled_group(p, q);
            let cfs_rq = &mut self.cfs_rqs[q];
            if !self.rules.throttled_clock_only_when_queued || cfs_rq.nr_queued > 0 {
                cfs_rq.throttled_clock_ns = self.rqs[cpu].clock;
            }
        }
        self.cfs_rqs[q].throttled = true;
        p.observe(cpu, Observation::Throttle { group, cpu });
        if running {
            reached(Mark::ThrottledWhenCharged);
            let curr = self.rqs[cpu].curr;
            self.task_throttle_setup_work(p, curr);
        }
        true
    }

    /// `tg_throttle_down` over the queues of the group and of all groups below it, parents first.
    fn tg_throttle_down(&mut self, q: CfsRqId) {
        self.throttle_down_one(q);
        let (group, cpu) = (self.cfs_rqs[q].group, self.cfs_rqs[q].cpu);
        for child in 0..self.groups[group].children.len() {
            let child = self.groups[group].children[child];
            reached(Mark::HierarchyThrottled);
            self.tg_throttle_down(self.cfs_rq_of(child, cpu));
        }
    }

    fn throttle_down_one(&mut self, q: CfsRqId) {
        let first = self.cfs_rqs[q].throttle_count == 0;
        if first {
            match self.rules.throttle_model {
                ThrottleModel::Task => {
                    if self.cfs_rqs[q].nr_queued == 0 {
                        self.list_del_leaf_cfs_rq(q);
                        self.stop_pelt_clock(q);
                    }
                }
                ThrottleModel::Queue => {
                    let cfs_rq = &self.cfs_rqs[q];
                    let clock = self.rq_clock_pelt(cfs_rq.cpu);
                    let wall = self.rqs[cfs_rq.cpu].clock;
                    self.list_del_leaf_cfs_rq(q);
                    let cfs_rq = &mut self.cfs_rqs[q];
                    reached(Mark::ThrottleFreezesPelt);
                    cfs_rq.throttled_clock_pelt_ns = clock;
                    cfs_rq.pelt_clock_throttled = true;
                    if cfs_rq.nr_queued > 0 {
                        cfs_rq.throttled_clock_self_ns = wall;
                    }
                }
            }
        }
        self.cfs_rqs[q].throttle_count += 1;
    }

    /// Takes a throttled queue's group entity off its parents (≤ 6.17).
    fn dequeue_throttled_group<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        let cpu = cfs_rq.cpu;
        let mut counts = self.counts_of_queue(q);
        let queued = counts.queued;
        let mut level = cfs_rq.se;
        let flags = DequeueFlags::SLEEP | DequeueFlags::SPECIAL;
        while let Some(se) = level {
            let entity = &self.entities[se];
            if !entity.on_rq {
                return;
            }
            let parent = entity.cfs_rq;
            let delayed = entity.sched_delayed;
            p.spend(self.here, Op::DequeueLevel, 1);
            self.dequeue_entity(p, parent, se, flags.with(DequeueFlags::DELAYED, delayed));
            self.sub_counts(parent, &mut counts);
            if self.stops_at_throttled(parent) {
                return;
            }
            level = self.entities[se].parent;
            if self.cfs_rqs[parent].load.weight > 0 {
                break;
            }
        }
        if !self.refresh_levels(p, level, 0, Change::Throttle, &mut counts) {
            self.sub_nr_running(cpu, queued);
            self.fair_tasks_left(p, cpu);
        }
    }

    /// Counts that a queue's tasks add one level up.
    fn counts_of_queue(&self, q: CfsRqId) -> Counts {
        let cfs_rq = &self.cfs_rqs[q];
        Counts {
            queued: cfs_rq.h_nr_queued,
            runnable: cfs_rq.h_nr_runnable,
            idle: if self.groups[cfs_rq.group].idle {
                cfs_rq.h_nr_queued
            } else {
                cfs_rq.h_nr_idle
            },
        }
    }

    /// Lets a queue run again (`unthrottle_cfs_rq`).
    pub(crate) fn unthrottle_cfs_rq<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        self.unthrottle_one(p, q, true);
    }

    /// The same as one of several: the queue's clock is read before the first of them only
    /// (`rq_clock_start_loop_update`).
    pub(crate) fn unthrottle_one<P: Platform>(&mut self, p: &mut P, q: CfsRqId, reads: bool) {
        let cfs_rq = &self.cfs_rqs[q];
        let (group, cpu) = (cfs_rq.group, cfs_rq.cpu);
        let task_model = self.rules.throttle_model == ThrottleModel::Task;
        if self.rules.throttles_when_charged {
            if reads {
                self.update_rq_clock(p, cpu);
            }
            self.update_curr(p, q);
        }
        let cfs_rq = &self.cfs_rqs[q];
        if task_model && cfs_rq.runtime_enabled && cfs_rq.runtime_remaining_ns <= 0 {
            reached(Mark::UnthrottleTooEarly);
            // Others used up what it was given; its first enqueue would throttle it again.
            return;
        }
        p.spend(self.here, Op::Unthrottle, 1);
        reached(Mark::Unthrottled);
        self.cfs_rqs[q].throttled = false;
        if reads {
            self.update_rq_clock(p, cpu);
        }
        let clock = self.rqs[cpu].clock;
        let cfs_rq = &mut self.cfs_rqs[q];
        let bandwidth = &mut self.groups[group].bandwidth;
        if cfs_rq.throttled_clock_ns != 0 {
            bandwidth.stat.throttled_time_ns += clock - cfs_rq.throttled_clock_ns;
            cfs_rq.throttled_clock_ns = 0;
        }
        bandwidth.throttled.retain(|&other| other != q);
        p.observe(cpu, Observation::Unthrottle { group, cpu });
        self.tg_unthrottle_up(p, q);
        if self.cfs_rqs[q].load.weight == 0 {
            if !self.readd_leaf_ancestors(q) {
                return;
            }
        } else if !task_model {
            self.enqueue_unthrottled_group(p, q);
        }
        // Up to 7.2 a group that waits for its delayed dequeue counts, although nobody is in it.
        let root = &self.cfs_rqs[cpu];
        let waiting = match self.rules.flat_pick {
            true => root.h_nr_queued,
            false => root.nr_queued,
        };
        if self.rqs[cpu].curr_is_idle() && waiting > 0 {
            self.resched_curr(p, cpu);
        }
    }

    /// `tg_unthrottle_up` over the queues of the group and of all groups below it, children first,
    /// of several the one that was created last (`list_add_rcu` in `sched_online_group`).
    fn tg_unthrottle_up<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let (group, cpu) = (self.cfs_rqs[q].group, self.cfs_rqs[q].cpu);
        for child in (0..self.groups[group].children.len()).rev() {
            let child = self.groups[group].children[child];
            self.tg_unthrottle_up(p, self.cfs_rq_of(child, cpu));
        }
        self.unthrottle_up_one(p, q);
    }

    fn unthrottle_up_one<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        if self.rules.throttles_when_charged {
            self.update_curr(p, q);
        }
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.throttle_count -= 1;
        if cfs_rq.throttle_count > 0 {
            return;
        }
        let cpu = cfs_rq.cpu;
        let clock = self.rqs[cpu].clock;
        if cfs_rq.throttled_clock_self_ns != 0 {
            cfs_rq.throttled_self_time_ns += clock - cfs_rq.throttled_clock_self_ns;
            cfs_rq.throttled_clock_self_ns = 0;
        }
        match self.rules.throttle_model {
            ThrottleModel::Queue => {
                let pelt = self.rq_clock_pelt(cpu);
                let cfs_rq = &mut self.cfs_rqs[q];
                // Lost idle time may set the clock back before 6.0; the difference wraps.
                let stopped = pelt.wrapping_sub(cfs_rq.throttled_clock_pelt_ns);
                let total = &mut cfs_rq.throttled_clock_pelt_time_ns;
                *total = total.wrapping_add(stopped);
                cfs_rq.pelt_clock_throttled = false;
            }
            ThrottleModel::Task => {
                self.restart_pelt_clock(q);
                let mut parked = std::mem::take(&mut self.cfs_rqs[q].limbo);
                // A queue above may run out of runtime meanwhile, and then the others stay (7.2).
                let may_stop = self.rules.throttles_when_charged;
                while !(may_stop && self.cfs_rqs[q].throttle_count > 0)
                    && let Some(task) = parked.pop()
                {
                    self.tasks[task].throttled = false;
                    let flags = EnqueueFlags::WAKEUP;
                    self.enqueue_task_fair(p, cpu, task, flags);
                }
                let limbo = &mut self.cfs_rqs[q].limbo;
                limbo.append(&mut parked);
                if limbo.is_empty() {
                    *limbo = parked;
                }
            }
        }
        let is_leaf = match self.rules.unthrottled_leaf_decays {
            true => !self.cfs_rq_is_decayed(q),
            false => self.cfs_rqs[q].nr_queued > 0,
        };
        if is_leaf {
            self.list_add_leaf_cfs_rq(q);
        }
    }

    /// A queue with nothing to run, but something that decays, belongs on the leaf list, and so do
    /// the queues above it. `false` for one that has nothing, which ends its unthrottling: the CPU
    /// is not asked to look for tasks, even if others came while it idled.
    fn readd_leaf_ancestors(&mut self, q: CfsRqId) -> bool {
        let decays = self.rules.unthrottled_leaf_decays && self.cfs_rqs[q].on_leaf_list;
        if decays && let Some(parent) = self.parent_queue(q) {
            self.add_leaf_branch(parent);
        }
        decays
    }

    /// Puts an unthrottled queue's group entity back, as a wakeup (≤ 6.17).
    fn enqueue_unthrottled_group<P: Platform>(&mut self, p: &mut P, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        let cpu = cfs_rq.cpu;
        let mut counts = self.counts_of_queue(q);
        let queued = counts.queued;
        let mut level = self.cfs_rqs[q].se;
        let was_empty = self.cfs_rqs[cpu].h_nr_queued == 0;
        while let Some(se) = level {
            let entity = &self.entities[se];
            let parent = entity.cfs_rq;
            if entity.sched_delayed {
                // Its delayed dequeue takes place first.
                let flags = DequeueFlags::SLEEP | DequeueFlags::DELAYED;
                self.dequeue_entity(p, parent, se, flags);
            } else if entity.on_rq {
                break;
            }
            p.spend(self.here, Op::EnqueueLevel, 1);
            let flags = EnqueueFlags::WAKEUP;
            self.enqueue_entity(p, parent, se, flags);
            self.add_counts(parent, &mut counts);
            if self.stops_at_throttled(parent) {
                self.end_at_throttled(parent);
                return;
            }
            level = self.entities[se].parent;
        }
        if !self.refresh_levels(p, level, 0, Change::Unthrottle, &mut counts) {
            if was_empty && self.cfs_rqs[cpu].h_nr_queued > 0 {
                self.fair_server_start(p, cpu);
            }
            self.add_nr_running(cpu, queued);
        }
    }

    /// Gives a picked task throttle work (`task_throttle_setup_work`): kernel threads and exiting
    /// tasks never return to user mode. One that another CPU executes is kicked to do it
    /// (`kick_process`).
    #[cold]
    #[inline(never)]
    pub(crate) fn task_throttle_setup_work<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let record = &mut self.tasks[task];
        if record.throttle_work || record.is_kernel_thread() || record.exiting {
            return;
        }
        record.throttle_work = true;
        if record.cache.work == CacheWork::Newest {
            record.cache.work = CacheWork::BehindThrottle;
        }
        let cpu = record.cpu;
        if cpu != self.here && self.rqs[cpu].curr == task {
            p.spend(self.here, Op::IpiSend, 1);
            p.send_ipi(self.here, cpu, crate::platform::Ipi::Resched, false);
        }
    }

    /// Parks the current task if its queue still is in a throttled hierarchy
    /// (`throttle_cfs_rq_work`). Returns whether it was parked.
    #[cold]
    #[inline(never)]
    pub(crate) fn throttle_current_task<P: Platform>(&mut self, p: &mut P, task: TaskId) -> bool {
        let record = &mut self.tasks[task];
        record.throttle_work = false;
        if !record.policy.is_fair() {
            return false;
        }
        let cpu = record.cpu;
        let q = self.entities[record.se].cfs_rq;
        if self.cfs_rqs[q].throttle_count == 0 {
            return false;
        }
        self.update_rq_clock(p, cpu);
        let flags = DequeueFlags::SLEEP | DequeueFlags::THROTTLE;
        // Parked or not, its utilisation clamps count.
        self.dequeue_task_fair(p, task, flags);
        reached(Mark::ThrottleParksTask);
        self.cfs_rqs[q].limbo.push(task);
        self.tasks[task].throttled = true;
        self.resched_curr(p, cpu);
        true
    }

    /// A parked task is put on a throttled queue: straight to its limbo list
    /// (`enqueue_throttled_task`). `false` when it has to be enqueued normally.
    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue_throttled_task(&mut self, task: TaskId) -> bool {
        let record = &self.tasks[task];
        let q = self.entities[record.se].cfs_rq;
        let running = self.rqs[record.cpu].curr == task;
        if self.cfs_rqs[q].throttle_count > 0 && !running {
            reached(Mark::ThrottledEnqueueParks);
            self.cfs_rqs[q].limbo.push(task);
            return true;
        }
        self.tasks[task].throttled = false;
        false
    }

    /// A parked task changes its group, CPU or class (`dequeue_throttled_task`).
    #[cold]
    #[inline(never)]
    pub(crate) fn dequeue_throttled_task<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        flags: DequeueFlags,
    ) {
        let se = self.tasks[task].se;
        let q = self.entities[se].cfs_rq;
        self.cfs_rqs[q].limbo.retain(|&other| other != task);
        if flags.has(DequeueFlags::SLEEP) {
            self.tasks[task].throttled = false;
        } else if self.tasks[task].migrating {
            // An empty throttled queue is not updated, so the levels above have to hear of it now.
            self.detach_task_cfs_rq(p, task);
        }
    }

    /// Throttled time runs from the moment a task really left (`record_throttle_clock`, 6.18).
    pub(crate) fn record_throttle_clock(&mut self, q: CfsRqId) {
        let cfs_rq = &mut self.cfs_rqs[q];
        let clock = self.rqs[cfs_rq.cpu].clock;
        if cfs_rq.throttled && cfs_rq.throttled_clock_ns == 0 {
            cfs_rq.throttled_clock_ns = clock;
        }
        if cfs_rq.throttled_clock_self_ns == 0 {
            cfs_rq.throttled_clock_self_ns = clock;
        }
    }

    /// 6.6–6.17: a throttled queue that was empty starts to count when a task arrives.
    pub(crate) fn start_throttled_clock_when_queued(&mut self, q: CfsRqId) {
        if self.cfs_rqs[q].throttle_count > 0 {
            self.record_throttle_clock(q);
        }
    }

    /// An empty throttled queue's averages stand still (6.18).
    pub(crate) fn stop_pelt_clock(&mut self, q: CfsRqId) {
        let clock = self.rq_clock_pelt(self.cfs_rqs[q].cpu);
        let cfs_rq = &mut self.cfs_rqs[q];
        cfs_rq.throttled_clock_pelt_ns = clock;
        cfs_rq.pelt_clock_throttled = true;
    }

    /// Undoes [`Kernel::stop_pelt_clock`].
    pub(crate) fn restart_pelt_clock(&mut self, q: CfsRqId) {
        let cfs_rq = &self.cfs_rqs[q];
        if cfs_rq.pelt_clock_throttled {
            let clock = self.rq_clock_pelt(cfs_rq.cpu);
            let cfs_rq = &mut self.cfs_rqs[q];
            cfs_rq.throttled_clock_pelt_time_ns += clock - cfs_rq.throttled_clock_pelt_ns;
            cfs_rq.pelt_clock_throttled = false;
        }
    }

    /// Whether balance must not move tasks of `group` between two CPUs (`throttled_lb_pair`).
    pub(crate) fn throttled_lb_pair(
        &self,
        group: GroupId,
        src: crate::ids::Cpu,
        dst: crate::ids::Cpu,
    ) -> bool {
        let throttled = |cpu| self.cfs_rqs[self.cfs_rq_of(group, cpu)].throttle_count > 0;
        match self.rules.throttle_model {
            ThrottleModel::Queue => throttled(src) || throttled(dst),
            ThrottleModel::Task => throttled(dst),
        }
    }
}
