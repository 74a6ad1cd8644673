//! The real-time class: SCHED_FIFO and SCHED_RR, and the stop class above it.
//!
//! Per CPU one list per priority; the first of the highest non-empty list runs until it blocks,
//! yields, or, with SCHED_RR, has used up 100 ms.

use crate::fair::EnqueueFlags;
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::platform::{Op, Platform};
use crate::select::WakeKind;
use crate::task::Policy;

/// SCHED_RR quantum, ms (`RR_TIMESLICE`).
const RR_TIMESLICE_MS: u32 = 100;

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
        _flags: EnqueueFlags,
    ) {
        p.spend(self.here, Op::EnqueueLevel, 1);
        self.tasks[task.index()].rr_ticks = self.rules.hz * RR_TIMESLICE_MS / 1000;
        self.rt_list(cpu, task).push(task);
        let rq = &mut self.rqs[cpu.index()];
        rq.rt.nr_running += 1;
        rq.nr_running += 1;
    }

    /// `dequeue_task_rt`.
    pub(crate) fn dequeue_task_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
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

    /// `pick_task_stop`.
    pub(crate) fn pick_task_stop(&self, _cpu: Cpu) -> Option<TaskId> {
        None
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
        record.rr_ticks = self.rules.hz * RR_TIMESLICE_MS / 1000;
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
