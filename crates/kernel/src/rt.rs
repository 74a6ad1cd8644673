//! The real-time class: SCHED_FIFO and SCHED_RR.
//!
//! Per CPU one list per priority; the first of the highest non-empty list runs until it blocks,
//! yields, or, with SCHED_RR, has used up 100 ms.

use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::platform::{Op, Platform};
use crate::select::WakeKind;
use crate::task::Policy;

/// Priority of idle tasks (`MAX_PRIO`).
const MAX_PRIO: i32 = 140;

impl Kernel {
    fn rt_list(&mut self, cpu: Cpu, task: TaskId) -> &mut Vec<TaskId> {
        let rt = &mut self.rqs[cpu.index()].rt;
        if rt.queues.is_empty() {
            rt.queues.resize(100, Vec::new());
        }
        &mut rt.queues[usize::from(100 - self.tasks[task.index()].rt_priority.max(1))]
    }

    /// `enqueue_task_rt`.
    pub(crate) fn enqueue_task_rt<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: EnqueueFlags,
    ) {
        if flags.restore && !flags.moved {
            // It never left its place in the list.
            return;
        }
        p.spend(self.here, Op::EnqueueLevel, 1);
        self.tasks[task.index()].rr_ticks = self.rules.rr_timeslice_ticks;
        let list = self.rt_list(cpu, task);
        if flags.head {
            list.insert(0, task);
        } else {
            list.push(task);
        }
        let rq = &mut self.rqs[cpu.index()];
        rq.rt.nr_running += 1;
        rq.nr_running += 1;
    }

    /// `dequeue_task_rt`.
    pub(crate) fn dequeue_task_rt<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: DequeueFlags,
    ) {
        if flags.save && !flags.moved {
            return;
        }
        p.spend(self.here, Op::DequeueLevel, 1);
        self.rt_list(cpu, task).retain(|&other| other != task);
        let rq = &mut self.rqs[cpu.index()];
        rq.rt.nr_running -= 1;
        rq.nr_running -= 1;
    }

    /// To the end of its priority's list (`requeue_task_rt`).
    pub(crate) fn requeue_task_rt(&mut self, cpu: Cpu, task: TaskId) {
        let list = self.rt_list(cpu, task);
        if let Some(place) = list.iter().position(|&other| other == task) {
            list[place..].rotate_left(1);
        }
    }

    /// `pick_task_rt`.
    pub(crate) fn pick_task_rt(&self, cpu: Cpu) -> Option<TaskId> {
        let rt = &self.rqs[cpu.index()].rt;
        if rt.nr_running == 0 || rt.throttled {
            return None;
        }
        rt.queues.iter().find_map(|list| list.first().copied())
    }

    /// `put_prev_task_rt`.
    pub(crate) fn put_prev_task_rt<P: Platform>(&mut self, _p: &mut P, _prev: TaskId) {}

    /// `set_next_task_rt`.
    pub(crate) fn set_next_task_rt<P: Platform>(&mut self, _p: &mut P, cpu: Cpu, next: TaskId) {
        let clock = self.rqs[cpu.index()].clock_task;
        let se = self.tasks[next.index()].se;
        self.entities[se.index()].exec_start = clock;
    }

    /// `task_tick_rt`.
    pub(crate) fn task_tick_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let record = &mut self.tasks[task.index()];
        if record.policy != Policy::RoundRobin {
            return;
        }
        record.rr_ticks = record.rr_ticks.saturating_sub(1);
        if record.rr_ticks > 0 {
            return;
        }
        record.rr_ticks = self.rules.rr_timeslice_ticks;
        if self.rt_list(cpu, task).len() > 1 {
            self.requeue_task_rt(cpu, task);
            self.resched_curr(p, cpu);
        }
    }

    /// `wakeup_preempt_rt`.
    pub(crate) fn wakeup_preempt_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let curr = self.rqs[cpu.index()].curr;
        if self.tasks[task.index()].rt_priority > self.tasks[curr.index()].rt_priority {
            self.resched_curr(p, cpu);
        }
    }

    /// A task becomes a real-time one (`switched_to_rt`).
    pub(crate) fn switched_to_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let curr = self.rqs[cpu.index()].curr;
        if self.tasks[task.index()].on_rq && curr != task && self.prio(task) < self.curr_prio(cpu) {
            self.resched_curr(p, cpu);
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
        if !self.tasks[task.index()].on_rq {
            return;
        }
        let prio = self.prio(task);
        if self.rqs[cpu.index()].curr != task {
            if prio < self.curr_prio(cpu) {
                self.resched_curr(p, cpu);
            }
        } else if prio > old_prio && prio > self.highest_rt_prio(cpu) {
            self.resched_curr(p, cpu);
        }
    }

    /// Priority of what a CPU executes; its idle task comes after everything.
    #[inline]
    pub(crate) fn curr_prio(&self, cpu: Cpu) -> i32 {
        let rq = &self.rqs[cpu.index()];
        if rq.curr_is_idle() {
            MAX_PRIO
        } else {
            self.prio(rq.curr)
        }
    }

    /// Kernel priority of the most urgent queued real-time task, 100 when there is none.
    pub(crate) fn highest_rt_prio(&self, cpu: Cpu) -> i32 {
        let queues = &self.rqs[cpu.index()].rt.queues;
        let row = queues.iter().position(|list| !list.is_empty());
        // Row 1 holds rt_priority 99, which is kernel priority 0.
        row.map_or(100, |row| row as i32 - 1)
    }

    /// `select_task_rq_rt`.
    pub(crate) fn select_task_rq_rt<P: Platform>(
        &mut self,
        _p: &mut P,
        _waker_cpu: Cpu,
        task: TaskId,
        _kind: WakeKind,
    ) -> Cpu {
        self.tasks[task.index()].cpu
    }
}
