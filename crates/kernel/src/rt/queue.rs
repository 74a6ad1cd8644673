//! Lists of the real-time class: enqueue, dequeue, pick, tick.

use super::{Callbacks, MAX_PRIO, NO_RT_PRIO};
use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::pelt::Inputs;
use crate::platform::{Op, Platform};
use crate::task::Policy;

impl Kernel {
    /// Priority of what a CPU executes; its idle task comes after everything.
    #[inline]
    pub(crate) fn curr_prio(&self, cpu: Cpu) -> i32 {
        let rq = &self.rqs[cpu];
        if rq.curr_is_idle() {
            MAX_PRIO
        } else {
            self.prio(rq.curr)
        }
    }

    /// `enqueue_task_rt`.
    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue_task_rt<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: EnqueueFlags,
    ) {
        p.spend(self.here, Op::EnqueueLevel, 1);
        let prio = self.prio(task) as usize;
        let rt = &mut self.rqs[cpu].rt;
        rt.behind_deadlines &= rt.highest_prio() <= prio as i32;
        if rt.queues.is_empty() {
            rt.queues.resize(NO_RT_PRIO as usize, Vec::new());
        }
        // A task that is only restored never left its place in the list.
        if flags.has(EnqueueFlags::MOVED) || !flags.has(EnqueueFlags::RESTORE) {
            let place = if flags.has(EnqueueFlags::HEAD) {
                0
            } else {
                rt.queues[prio].len()
            };
            rt.queues[prio].insert(place, task);
            rt.bitmap |= 1 << prio;
        }
        rt.nr_running += 1;
        let record = &mut self.tasks[task];
        record.rt_on_rq = true;
        if record.nr_cpus_allowed > 1 {
            rt.nr_migratory += 1;
        }
        self.count_rt_tasks(cpu);
        self.start_rt_bandwidth(p);
        if self.rqs[cpu].curr != task {
            self.enqueue_pushable_task(cpu, task);
        }
        self.update_rt_overload(cpu);
        self.cpufreq_update_util(p, cpu, false);
    }

    /// `dequeue_task_rt`.
    #[cold]
    #[inline(never)]
    pub(crate) fn dequeue_task_rt<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: DequeueFlags,
    ) {
        p.spend(self.here, Op::DequeueLevel, 1);
        self.update_curr_rt(p, cpu);
        let prio = self.prio(task) as usize;
        let rt = &mut self.rqs[cpu].rt;
        let highest_before = rt.highest_prio();
        if flags.has(DequeueFlags::MOVED) || !flags.has(DequeueFlags::SAVE) {
            rt.queues[prio].retain(|&other| other != task);
            if rt.queues[prio].is_empty() {
                rt.bitmap &= !(1 << prio);
            }
        }
        rt.nr_running -= 1;
        rt.behind_deadlines &= rt.highest_prio() == highest_before;
        let record = &mut self.tasks[task];
        record.rt_on_rq = false;
        if record.nr_cpus_allowed > 1 {
            rt.nr_migratory -= 1;
        }
        self.count_rt_tasks(cpu);
        self.dequeue_pushable_task(cpu, task);
        self.update_rt_overload(cpu);
        self.cpufreq_update_util(p, cpu, false);
    }

    /// Real-time tasks count in `rq.nr_running` unless the class is throttled (`enqueue_top_rt_rq`,
    /// `dequeue_top_rt_rq`). One of two that leaves behind it one more and a fair task makes the
    /// machine overloaded, as if a task had come.
    pub(crate) fn count_rt_tasks(&mut self, cpu: Cpu) {
        let rt = &mut self.rqs[cpu].rt;
        let counted = if rt.throttled { 0 } else { rt.nr_running };
        let before = std::mem::replace(&mut rt.counted, counted);
        if counted != before {
            // All of them leave and those that stay come back.
            self.sub_nr_running(cpu, before);
            self.add_nr_running(cpu, counted);
        }
    }

    /// To the end or the head of its priority's list (`requeue_task_rt`).
    pub(crate) fn requeue_task_rt(&mut self, cpu: Cpu, task: TaskId, head: bool) {
        let prio = self.prio(task) as usize;
        let list = &mut self.rqs[cpu].rt.queues[prio];
        let Some(place) = list.iter().position(|&other| other == task) else {
            return;
        };
        if head {
            list[..=place].rotate_right(1);
        } else {
            list[place..].rotate_left(1);
        }
    }

    /// `pick_task_rt`.
    #[inline]
    pub(crate) fn pick_task_rt(&self, cpu: Cpu) -> Option<TaskId> {
        let rt = &self.rqs[cpu].rt;
        if rt.counted == 0 {
            return None;
        }
        reached(Mark::RtPick);
        rt.queues[rt.highest_prio() as usize].first().copied()
    }

    /// Charges the running real-time task (`update_curr_rt`).
    pub(crate) fn update_curr_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &self.rqs[cpu];
        if rq.curr_is_idle() || !self.tasks[rq.curr].policy.is_rt() {
            return;
        }
        let delta = self.update_curr_common(cpu);
        if delta > 0 {
            self.charge_rt_runtime(p, cpu, delta);
        }
    }

    /// Time that the running task of a class above the fair one has had since it was asked last
    /// (`update_curr_common`).
    pub(crate) fn update_curr_common(&mut self, cpu: Cpu) -> Ns {
        let rq = &self.rqs[cpu];
        let (curr, now) = (&self.tasks[rq.curr], rq.clock_task);
        let entity = &mut self.entities[curr.se];
        let delta = now.saturating_sub(entity.exec_start);
        if delta > 0 {
            entity.exec_start = now;
            entity.sum_exec_runtime += delta;
            self.groups[curr.group].usage_ns += delta;
        }
        delta
    }

    /// Charges the running task if it is a real-time or a deadline task.
    pub(crate) fn update_curr_above_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if self.runs_deadline_task(cpu) {
            self.update_curr_dl(p, cpu);
        } else {
            self.update_curr_rt(p, cpu);
        }
    }

    /// Load tracking of the class, `running` since the last call or not
    /// (`update_rt_rq_load_avg`).
    pub(crate) fn update_rt_rq_load_avg(&mut self, cpu: Cpu, running: bool) {
        let now = self.rq_clock_pelt(cpu);
        let avg = &mut self.rqs[cpu].rt.avg;
        avg.update(now, Inputs::of_class(running), 1);
    }

    /// `put_prev_task_rt`.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_prev_task_rt<P: Platform>(&mut self, p: &mut P, prev: TaskId) {
        let cpu = self.tasks[prev].cpu;
        self.update_curr_rt(p, cpu);
        self.update_rt_rq_load_avg(cpu, true);
        // It no longer runs, so it may be pushed.
        if self.tasks[prev].rt_on_rq {
            self.enqueue_pushable_task(cpu, prev);
            self.update_rt_overload(cpu);
        }
    }

    /// `set_next_task_rt`; `first` = it was just picked, rather than changed while it ran.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_next_task_rt(&mut self, cpu: Cpu, next: TaskId, first: bool) {
        let rq = &self.rqs[cpu];
        let (clock, prev) = (rq.clock_task, rq.curr);
        let from_rt = !rq.curr_is_idle() && self.tasks[prev].policy.is_rt();
        let se = self.tasks[next].se;
        self.entities[se].exec_start = clock;
        self.dequeue_pushable_task(cpu, next);
        self.update_rt_overload(cpu);
        if !first {
            return;
        }
        if !from_rt {
            self.update_rt_rq_load_avg(cpu, false);
        }
        self.rt_queue_push_tasks(cpu);
    }

    /// `task_tick_rt`.
    #[cold]
    #[inline(never)]
    pub(crate) fn task_tick_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.update_curr_rt(p, cpu);
        self.update_rt_rq_load_avg(cpu, true);
        let prio = self.prio(task);
        let record = &mut self.tasks[task];
        if record.policy != Policy::RoundRobin {
            return;
        }
        record.rr_ticks = record.rr_ticks.saturating_sub(1);
        if record.rr_ticks > 0 {
            return;
        }
        record.rr_ticks = self.rules.rr_timeslice_ticks;
        if self.rqs[cpu].rt.queues[prio as usize].len() > 1 {
            reached(Mark::RrSlice);
            self.requeue_task_rt(cpu, task, false);
            self.resched_curr(p, cpu);
        }
    }

    /// `wakeup_preempt_rt`: both are real-time tasks of this CPU.
    #[cold]
    #[inline(never)]
    pub(crate) fn wakeup_preempt_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let (prio, curr_prio) = (self.prio(task), self.curr_prio(cpu));
        if prio < curr_prio {
            reached(Mark::RtPreempts);
            self.resched_curr(p, cpu);
        } else if prio == curr_prio && !self.rqs[cpu].need_resched {
            self.check_preempt_equal_prio(p, cpu, task);
        }
    }

    /// A task that cannot go elsewhere takes the CPU from an equal that can
    /// (`check_preempt_equal_prio`).
    fn check_preempt_equal_prio<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let curr = self.rqs[cpu].curr;
        let elsewhere = |task: TaskId| self.cpupri_find(task).is_some();
        if self.tasks[curr].nr_cpus_allowed == 1 || !elsewhere(curr) {
            return;
        }
        if self.tasks[task].nr_cpus_allowed != 1 && elsewhere(task) {
            return;
        }
        self.requeue_task_rt(cpu, task, true);
        self.resched_curr(p, cpu);
    }

    /// A task becomes a real-time one (`switched_to_rt`).
    pub(crate) fn switched_to_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        if self.rqs[cpu].curr == task {
            self.update_rt_rq_load_avg(cpu, false);
            return;
        }
        if !self.tasks[task].on_rq {
            return;
        }
        if self.tasks[task].nr_cpus_allowed > 1 && self.rt_overloaded(cpu) {
            self.rt_queue_push_tasks(cpu);
        }
        if self.prio(task) < self.curr_prio(cpu) {
            self.resched_curr(p, cpu);
        }
    }

    /// A task ceases to be a real-time one (`switched_from_rt`).
    pub(crate) fn switched_from_rt(&mut self, cpu: Cpu, task: TaskId) {
        let rt = &mut self.rqs[cpu].rt;
        if self.tasks[task].on_rq && rt.nr_running == 0 {
            rt.callbacks.add(Callbacks::RT_PULL);
        }
    }

    /// A task's real-time priority changed (`prio_changed_rt`).
    pub(crate) fn prio_changed_rt<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        old_prio: i32,
    ) {
        if !self.tasks[task].on_rq {
            return;
        }
        let prio = self.prio(task);
        if self.rqs[cpu].curr != task {
            if prio < self.curr_prio(cpu) {
                self.resched_curr(p, cpu);
            }
            return;
        }
        let rt = &mut self.rqs[cpu].rt;
        if old_prio < prio {
            rt.callbacks.add(Callbacks::RT_PULL);
        }
        if prio > rt.highest_prio() {
            self.resched_curr(p, cpu);
        }
    }
}
