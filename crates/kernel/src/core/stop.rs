//! The stop class: one migration thread per CPU that nothing preempts.
//!
//! A task that runs cannot be moved: another task has to take its CPU first. That is the migration
//! thread, which is woken with a piece of work, switches in over whatever runs (now only queued),
//! does the work and goes back to sleep. Worked example: the affinity of a hog on CPU 0 shrinks to
//! CPU 1. The migration thread of CPU 0 is woken, the hog is switched out, moved to CPU 1's queue
//! and an interrupt sent there; then CPU 0 switches from the migration thread to whatever is left:
//! two context switches for one move.

use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::ids::{Cpu, TaskId};
use crate::kernel::{Arrival, Kernel};
use crate::model::{Mark, reached};
use crate::platform::{Op, Platform, PrevState};
use crate::rq::StopWork;
use crate::task::{Policy, TaskState};

impl Kernel {
    /// The migration thread of a CPU.
    #[inline(always)]
    pub(crate) fn migration_thread(&self, cpu: Cpu) -> TaskId {
        TaskId::from(self.cpus() + cpu.index())
    }

    /// Gives the migration thread of a CPU something to do and wakes it (`stop_one_cpu_nowait`).
    pub(crate) fn stop_one_cpu<P: Platform>(&mut self, p: &mut P, cpu: Cpu, work: StopWork) {
        self.rqs[cpu].stop_works.push_back(work);
        let stopper = self.migration_thread(cpu);
        if self.tasks[stopper].state != TaskState::Blocked {
            return;
        }
        p.spend(self.here, Op::Wakeup, 1);
        self.tasks[stopper].state = TaskState::Waking;
        if self.still_switched_away_from(p, stopper, cpu) {
            if !self.rules.stopper_wakes_at_once && self.ttwu_queue_on_cpu(stopper, cpu) {
                return self.ttwu_queue_wakelist(p, stopper, cpu, false);
            }
            p.spin_until(self.here, self.rqs[cpu].switched_at_ns);
        }
        if !self.rules.stopper_wakes_at_once && self.ttwu_queue_cond(cpu) {
            return self.ttwu_queue_wakelist(p, stopper, cpu, false);
        }
        self.update_rq_clock(p, cpu);
        self.ttwu_do_activate(p, cpu, stopper, false, Arrival::Other);
    }

    /// `pick_task_stop`.
    #[inline]
    pub(crate) fn pick_task_stop(&self, cpu: Cpu) -> Option<TaskId> {
        let stopper = self.migration_thread(cpu);
        self.tasks[stopper].on_rq.then_some(stopper)
    }

    /// `enqueue_task_stop` and `dequeue_task_stop` only count.
    pub(crate) fn count_stop_task(&mut self, cpu: Cpu, add: bool) {
        if add {
            self.add_nr_running(cpu, 1);
        } else {
            self.sub_nr_running(cpu, 1);
        }
    }

    /// The migration thread runs: all its work, then back to sleep (`cpu_stopper_thread`).
    #[cold]
    #[inline(never)]
    pub(crate) fn cpu_stopper_thread<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        while let Some(work) = self.rqs[cpu].stop_works.pop_front() {
            reached(Mark::StopFirst);
            match work {
                StopWork::Migrate(task, target) => self.migration_cpu_stop(p, cpu, task, target),
                StopWork::Affinity(task) => self.affinity_cpu_stop(p, cpu, task),
                StopWork::ActiveBalance => self.active_load_balance(p, cpu, false),
                StopWork::ActiveBalanceLlc => self.active_load_balance(p, cpu, true),
            }
        }
        let stopper = self.migration_thread(cpu);
        self.tasks[stopper].state = TaskState::Blocked;
        self.schedule(p, cpu, PrevState::Blocked);
    }

    /// Moves a task of this CPU for `exec` (`migration_cpu_stop`).
    fn migration_cpu_stop<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId, target: Cpu) {
        let record = &self.tasks[task];
        if record.cpu == cpu && record.on_rq && record.affinity.contains(target) {
            self.move_queued_task(p, task, target);
        }
    }

    /// Moves a task whose affinity no longer allows its CPU (`migration_cpu_stop` with a pending
    /// request): after it if it went elsewhere in the meantime.
    fn affinity_cpu_stop<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        // A wakeup on its way here has to be completed first, or it would escape.
        self.sched_ttwu_pending(p, cpu);
        let record = &mut self.tasks[task];
        let Some(target) = record.migration_pending else {
            return;
        };
        if record.affinity.contains(record.cpu) {
            record.migration_pending = None;
        } else if record.cpu != cpu {
            let cpu = record.cpu;
            self.stop_one_cpu(p, cpu, StopWork::Affinity(task));
        } else {
            record.migration_pending = None;
            if record.on_rq {
                self.move_queued_task(p, task, target);
            }
        }
    }

    /// Takes a queued task off its CPU to move it (`deactivate_task` with
    /// `TASK_ON_RQ_MIGRATING`).
    pub(crate) fn deactivate_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.tasks[task].migrating = true;
        self.dequeue_task(p, cpu, task, DequeueFlags::NONE);
    }

    /// Puts a migrating task on its new CPU (`attach_task`).
    pub(crate) fn attach_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let flags = EnqueueFlags::MIGRATED;
        self.activate_task(p, cpu, task, flags);
        self.tasks[task].migrating = false;
        self.wakeup_preempt(p, cpu, task, Arrival::Other);
    }

    /// Moves a queued task that does not run (`move_queued_task`).
    pub(crate) fn move_queued_task<P: Platform>(&mut self, p: &mut P, task: TaskId, target: Cpu) {
        let cpu = self.tasks[task].cpu;
        self.update_rq_clock(p, cpu);
        self.deactivate_task(p, cpu, task);
        self.set_task_cpu(p, task, target);
        self.update_rq_clock(p, target);
        self.attach_task(p, target, task);
    }

    /// Attributes of a migration thread.
    pub(crate) fn migration_thread_attributes(cpu: Cpu) -> crate::task::TaskAttributes {
        crate::task::TaskAttributes {
            policy: Policy::Stop,
            affinity: crate::cpuset::CpuSet::of(cpu),
            cpu,
            ..crate::task::TaskAttributes::default()
        }
    }
}
