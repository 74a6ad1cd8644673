//! Waking a task: choosing its CPU, queueing it there or handing it over, preempting.
//!
//! Worked example (6.18): CPU 0 wakes a task that last ran on idle CPU 1. Placement returns CPU 1;
//! since that CPU has nothing queued, the wakeup is put on its wake list and an interrupt sent. CPU
//! 1 enqueues the task itself when the interrupt arrives, and switches from idle to it.

use crate::fair::EnqueueFlags;
use crate::ids::{Cpu, TaskId};
use crate::kernel::{Arrival, Kernel, WakeFlags};
use crate::model::{Mark, reached};
use crate::platform::{Access, Line, Observation, Op, Platform};
use crate::rules::{FairClass, IdleAverage};
use crate::select::WakeKind;
use crate::task::{Policy, TaskState};

impl Kernel {
    /// Wakes a task from `cpu` (`try_to_wake_up`). Returns `false` when it was not asleep.
    pub fn wake<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: WakeFlags,
    ) -> bool {
        self.here = cpu;
        if self.tasks[task].state != TaskState::Blocked {
            return false;
        }
        p.spend(cpu, Op::Wakeup, 1);
        let last_cpu = self.tasks[task].cpu;
        if self.tasks[task].on_rq {
            self.wake_still_queued(p, last_cpu, task, flags);
            return true;
        }
        if self.tasks[task].in_iowait {
            self.rqs[last_cpu].nr_iowait -= 1;
        }
        self.tasks[task].state = TaskState::Waking;
        if self.still_switched_away_from(p, task, last_cpu) {
            if self.ttwu_queue_on_cpu(task, last_cpu) {
                self.ttwu_queue_wakelist(p, task, last_cpu, false);
                return true;
            }
            p.spin_until(cpu, self.rqs[last_cpu].switched_at_ns);
        }
        if self.domains.claims.take_time() {
            self.domains.claims.begin(p.now(cpu));
        }
        let target = self.select_task_rq(p, cpu, task, WakeKind::Wakeup, flags);
        if self.domains.claims.take_time() {
            let claimed = Some(target).filter(|&target| target != cpu && self.idle_cpu(target));
            self.domains.claims.end(claimed, p.now(cpu));
        }
        let migrated = target != last_cpu;
        if migrated {
            self.set_task_cpu(p, task, target);
        }
        if self.ttwu_queue_cond(target) {
            self.ttwu_queue_wakelist(p, task, target, migrated);
        } else {
            reached(Mark::WakeLocal);
            self.rq_lock(p, target);
            self.update_rq_clock(p, target);
            let selected = self.tasks[task].nr_cpus_allowed > 1;
            self.ttwu_do_activate(p, target, task, migrated, arrival(flags, selected));
            self.rq_unlock(p, target);
            p.spend(cpu, Op::WakeupEnd, 1);
        }
        true
    }

    /// Whether the CPU that a task slept on is still in the switch away from it (`on_cpu`). Its
    /// waker hands the wakeup to that CPU, or waits until the switch is over and only then chooses
    /// a CPU.
    #[inline(always)]
    pub fn still_switched_away_from<P: Platform>(
        &self,
        p: &P,
        task: TaskId,
        last_cpu: Cpu,
    ) -> bool {
        let rq = &self.rqs[last_cpu];
        last_cpu != self.here && rq.switched_from == task && p.now(self.here) < rq.switched_at_ns
    }

    /// Whether such a wakeup is handed to that CPU and no other is sought (`WF_ON_CPU`, 5.8): it is
    /// about to be idle, has at most one task (before 6.0 and 5.15.61), or shares no cache with the
    /// waker.
    pub(super) fn ttwu_queue_on_cpu(&self, task: TaskId, last_cpu: Cpu) -> bool {
        let allowed = self.tasks[task].affinity.contains(last_cpu);
        let few = !self.rules.idle_cpu_wakes_itself && self.rqs[last_cpu].nr_running <= 1;
        allowed
            && self.rules.switching_cpu_takes_wakeup
            && ((self.rules.features.ttwu_queue && few) || self.ttwu_queue_cond(last_cpu))
    }

    /// Hands a wakeup over to the target CPU (`ttwu_queue_wakelist`).
    pub(super) fn ttwu_queue_wakelist<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        target: Cpu,
        migrated: bool,
    ) {
        reached(Mark::WakeRemoteQueue);
        let first = self.is_first_call(target, self.rqs[target].wake_list.is_empty());
        let rq = &mut self.rqs[target];
        rq.ttwu_pending = true;
        rq.wake_list.push(task);
        self.tasks[task].wake_migrated = migrated;
        self.note_idle_state(target);
        if first {
            self.send_call(p, target);
        }
    }

    /// Woken before its delayed dequeue took place (`ttwu_runnable`): it stays on its CPU.
    fn wake_still_queued<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: WakeFlags,
    ) {
        reached(Mark::WakeQueued);
        self.rq_lock(p, cpu);
        self.update_rq_clock(p, cpu);
        self.tasks[task].state = TaskState::Running;
        let se = self.tasks[task].se;
        if self.entities[se].sched_delayed {
            self.enqueue_task(p, cpu, task, EnqueueFlags::DELAYED);
        }
        p.observe(cpu, Observation::Wakeup { task, cpu });
        if !self.tasks[task].on_cpu {
            self.wakeup_preempt(p, cpu, task, arrival(flags, false));
        }
        self.rq_unlock(p, cpu);
        p.spend(self.here, Op::WakeupEnd, 1);
    }

    /// Waits for the lock of a queue: its CPU is on its way through `__schedule`, or another one
    /// wakes a task there.
    ///
    /// Worked example: CPU 1 begins a switch of 1.2 µs at 0 and CPU 0 wakes a task there at 0.3 µs.
    /// It spins for 0.9 µs, reads the clock at 1.2, and whom it finds running is the task that CPU
    /// 1 has just switched to.
    #[inline(always)]
    pub fn rq_lock<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        p.touch(self.here, Line::RqLock(cpu), Access::Write);
        let rq = &self.rqs[cpu];
        if p.now(self.here) < rq.lock_held_from_ns {
            return;
        }
        p.spin_until(self.here, rq.lock_held_until_ns);
        self.rqs[cpu].lock_held_from_ns = p.now(self.here);
    }

    /// The lock is taken again after it was given up on the way through `__schedule`: a CPU that
    /// wanted it earlier has it first.
    pub fn rq_relock<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.rqs[cpu].lock_held_from_ns = p.now(self.here);
    }

    /// Gives the lock of a queue up: others get it from now on.
    #[inline(always)]
    pub fn rq_unlock<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        rq.lock_held_until_ns = rq.lock_held_until_ns.max(p.now(self.here));
    }

    /// Whether the wakeup is handed to the target CPU instead of done here
    /// (`ttwu_queue_cond`).
    pub(super) fn ttwu_queue_cond(&self, target: Cpu) -> bool {
        if !self.rules.features.ttwu_queue {
            return false;
        }
        if !self.cpus_share_cache(self.here, target) {
            return true;
        }
        let idle_target = self.rules.idle_cpu_wakes_itself
            && target != self.here
            && self.rqs[target].nr_running == 0;
        if idle_target {
            reached(Mark::WakeListIdle);
        }
        idle_target
    }

    /// Enqueues a woken task and lets it preempt (`ttwu_do_activate`).
    #[inline(always)]
    pub(crate) fn ttwu_do_activate<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        migrated: bool,
        arrival: Arrival,
    ) {
        let flags = EnqueueFlags::WAKEUP.with(EnqueueFlags::MIGRATED, migrated);
        if self.tasks[task].policy.is_fair() && !self.clamps_used {
            self.enqueue_task_fair(p, cpu, task, flags);
            self.tasks[task].on_rq = true;
        } else {
            self.activate_task(p, cpu, task, flags);
        }
        self.tasks[task].state = TaskState::Running;
        p.observe(cpu, Observation::Wakeup { task, cpu });
        self.wakeup_preempt(p, cpu, task, arrival);
        self.task_woken(p, cpu, task);
        if self.rules.idle_average == IdleAverage::Wakeups {
            self.end_idle_stamp(cpu);
        }
    }

    /// A task was put on a queue where it may have to wait: it looks for another CPU
    /// (`task_woken`).
    #[inline(always)]
    pub(crate) fn task_woken<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let policy = self.tasks[task].policy;
        if policy.is_rt() {
            self.task_woken_rt(p, cpu, task);
        } else if policy == Policy::Deadline {
            self.task_woken_dl(p, cpu, task);
        }
    }

    /// `activate_task`.
    pub(crate) fn activate_task<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: EnqueueFlags,
    ) {
        self.enqueue_task(p, cpu, task, flags);
        self.tasks[task].on_rq = true;
    }

    /// A CPU's idle period ends: the average follows by an eighth (`update_rq_avg_idle`).
    #[inline(always)]
    pub(crate) fn end_idle_stamp(&mut self, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        if rq.idle_stamp == 0 && self.rules.idle_average != IdleAverage::EveryEnd {
            return;
        }
        let idle_ns = rq.clock - rq.idle_stamp;
        reached(Mark::AvgIdle);
        update_avg(&mut rq.avg_idle, idle_ns);
        rq.avg_idle = rq.avg_idle.min(2 * rq.max_idle_balance_cost_ns);
        rq.idle_stamp = 0;
        if self.rules.placement.sis_prop_ages {
            rq.wake_stamp_jiffy = self.tick.quotient(rq.clock);
            rq.wake_avg_idle = rq.avg_idle / 2;
        }
    }

    /// Whether a woken task takes the CPU from the running one (`wakeup_preempt`).
    #[inline(always)]
    pub(crate) fn wakeup_preempt<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        arrival: Arrival,
    ) {
        let curr = self.rqs[cpu].curr;
        let (curr_rank, rank) = (self.rank(curr), self.tasks[task].policy.rank());
        let next_rank = match self.rules.arrivals_meet_next_class {
            true => self.rqs[cpu].next_rank,
            false => curr_rank,
        };
        if rank > next_rank {
            self.resched_curr(p, cpu);
            self.rqs[cpu].next_rank = rank;
        } else if rank == next_rank && (rank == curr_rank || !self.rules.preempts_own_class_only) {
            if self.tasks[task].policy.is_fair() {
                self.check_preempt_wakeup_fair(p, cpu, task, arrival);
            } else if rank == Policy::Deadline.rank() {
                self.wakeup_preempt_dl(p, cpu, task);
            } else {
                self.wakeup_preempt_rt(p, cpu, task);
            }
        }
        // The switch that follows need not read the clock once more (`rq_clock_skip_update`).
        let curr_queued = curr_rank == 0 || self.tasks[curr].on_rq;
        let rq = &mut self.rqs[cpu];
        rq.skip_clock_update |= rq.need_resched && curr_queued;
    }

    /// Chooses the CPU of a waking or starting task (`select_task_rq`).
    #[inline(always)]
    pub(crate) fn select_task_rq<P: Platform>(
        &mut self,
        p: &mut P,
        waker_cpu: Cpu,
        task: TaskId,
        kind: WakeKind,
        flags: WakeFlags,
    ) -> Cpu {
        let record = &self.tasks[task];
        if record.nr_cpus_allowed == 1 {
            return record.affinity.lowest().unwrap_or(record.cpu);
        }
        let cpu = if record.policy.is_fair() {
            self.select_task_rq_fair(p, waker_cpu, task, kind, flags)
        } else if record.policy == Policy::Deadline {
            self.select_task_rq_dl(task, kind)
        } else {
            self.select_task_rq_rt(task, kind)
        };
        if self.tasks[task].affinity.contains(cpu) {
            cpu
        } else {
            reached(Mark::CpuFallback);
            self.select_fallback_rq(task)
        }
    }

    /// Moves a task that is on no queue to another CPU (`set_task_cpu`).
    pub(crate) fn set_task_cpu<P: Platform>(&mut self, p: &mut P, task: TaskId, new_cpu: Cpu) {
        let record = &self.tasks[task];
        let (from, se, group) = (record.cpu, record.se, record.group);
        if from == new_cpu {
            return;
        }
        if record.policy.is_fair() {
            self.migrate_task_rq_fair(p, task);
        } else if record.policy == Policy::Deadline && record.state == TaskState::Waking {
            self.migrate_task_rq_dl(p, task);
        }
        self.tasks[task].cpu = new_cpu;
        self.set_task_rq(se, group, new_cpu);
        p.observe(
            self.here,
            Observation::Migrate {
                task,
                from,
                to: new_cpu,
            },
        );
    }

    /// Points a task's entity at its group's queue on a CPU (`set_task_rq`).
    pub(crate) fn set_task_rq(
        &mut self,
        se: crate::ids::EntityId,
        group: crate::ids::GroupId,
        cpu: Cpu,
    ) {
        let q = self.cfs_rq_of(group, cpu);
        let parent = self.cfs_rqs[q].se;
        self.follow_queue_clock(se, self.entities[se].cfs_rq, q);
        let entity = &mut self.entities[se];
        entity.cfs_rq = q;
        entity.parent = parent;
    }

    /// `migrate_task_rq_fair`.
    fn migrate_task_rq_fair<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let record = &self.tasks[task];
        let (se, waking, migrating) = (
            record.se,
            record.state == TaskState::Waking,
            record.migrating,
        );
        let q = self.entities[se].cfs_rq;
        if self.rules.fair == FairClass::Cfs && waking {
            // A sleeper's vruntime travels relative to the queue it slept on.
            let origin = self.cfs_rqs[q].min_vruntime;
            let entity = &mut self.entities[se];
            entity.vruntime = entity.vruntime.wrapping_sub(origin);
        }
        if migrating {
            if !self.rules.dequeue_detaches {
                self.detach_entity_cfs_rq(p, q, se);
            }
        } else if self.entities[se].avg.last_update_time != 0 {
            self.remove_entity_load_avg(se);
            self.migrate_se_pelt_lag(se, p.now(self.here));
        }
        self.entities[se].avg.last_update_time = 0;
    }

    /// An interrupt from another CPU arrives: function calls, pending wakeups, reschedule.
    pub fn ipi<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        p.spend(cpu, Op::IpiReceive, 1);
        self.serve_calls(p, cpu);
    }

    /// A CPU that leaves its idle loop takes what other CPUs handed over before it chooses a task
    /// (`flush_smp_call_function_queue` in `do_idle`); their interrupt finds nothing then. Returns
    /// whether there was something.
    #[inline]
    pub(crate) fn flush_calls<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> bool {
        if !self.rules.calls_share_a_queue {
            let flushes = !self.rqs[cpu].wake_list.is_empty();
            self.sched_ttwu_pending(p, cpu);
            return flushes;
        }
        let flushes = self.has_calls(cpu);
        if flushes {
            reached(Mark::CallsFlushed);
            self.serve_calls(p, cpu);
        }
        flushes
    }

    /// Whether a call needs an interrupt, being the first that waits on its CPU; `alone` if it is
    /// the first of its kind.
    #[inline]
    pub(crate) fn is_first_call(&self, cpu: Cpu, alone: bool) -> bool {
        match self.rules.calls_share_a_queue {
            true => !self.has_calls(cpu),
            false => alone,
        }
    }

    /// Whether another CPU has asked this one for something and it has not been done
    /// (`call_single_queue`).
    #[inline]
    fn has_calls(&self, cpu: Cpu) -> bool {
        let rq = &self.rqs[cpu];
        !rq.wake_list.is_empty()
            || rq.nohz_kick
            || !rq.unthrottle_list.is_empty()
            || rq.rt.push_asked
            || rq.hrtick.is_asked()
    }

    fn serve_calls<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.unthrottle_pending(p, cpu);
        self.sched_ttwu_pending(p, cpu);
        self.rto_push(p, cpu);
        self.nohz_kick_arrives(cpu);
        self.hrtick_asked(p, cpu);
    }

    /// Enqueues what other CPUs handed over (`sched_ttwu_pending`).
    pub(crate) fn sched_ttwu_pending<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.rqs[cpu].wake_list.is_empty() {
            return;
        }
        self.rq_lock(p, cpu);
        self.update_rq_clock(p, cpu);
        let mut tasks = std::mem::take(&mut self.rqs[cpu].wake_list);
        for &task in &tasks {
            let migrated = self.tasks[task].wake_migrated;
            self.ttwu_do_activate(p, cpu, task, migrated, Arrival::Other);
            p.spend(cpu, Op::WakeupEnd, 1);
        }
        self.rq_unlock(p, cpu);
        tasks.clear();
        let rq = &mut self.rqs[cpu];
        rq.wake_list = tasks;
        rq.ttwu_pending = false;
        self.note_idle_state(cpu);
    }

    /// Whether a CPU runs its idle task with nothing queued or pending (`idle_cpu`).
    #[inline]
    pub(crate) fn idle_cpu(&self, cpu: Cpu) -> bool {
        let rq = &self.rqs[cpu];
        rq.curr_is_idle() && rq.nr_running == 0 && !rq.ttwu_pending
    }

    /// Same, and the (virtual) CPU can really run (`available_idle_cpu`).
    #[inline]
    pub(crate) fn available_idle_cpu(&self, cpu: Cpu) -> bool {
        self.idle_cpu(cpu)
    }

    /// Whether a CPU runs only idle-policy tasks (`sched_idle_cpu`).
    #[inline]
    pub(crate) fn sched_idle_cpu(&self, cpu: Cpu) -> bool {
        self.sched_idle_rq(cpu)
    }

    /// Whether two CPUs share their last level cache (`cpus_share_cache`).
    #[inline]
    pub(crate) fn cpus_share_cache(&self, a: Cpu, b: Cpu) -> bool {
        self.domains.share_cache(a, b)
    }
}

/// A wakeup as preemption sees it.
fn arrival(flags: WakeFlags, selected: bool) -> Arrival {
    match flags.sync {
        true => Arrival::Sync { selected },
        false => Arrival::Other,
    }
}

/// Moves an average an eighth of the way to a sample (`update_avg`).
#[inline]
pub(crate) fn update_avg(average: &mut u64, sample: u64) {
    let difference = sample as i64 - *average as i64;
    *average = (*average as i64 + difference / 8) as u64;
}
