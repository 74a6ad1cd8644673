//! Keeping the earliest deadlines of the machine running: push and pull.
//!
//! Worked example: CPU 0 runs a task with its deadline at 20 ms, and one with 30 ms waits there.
//! CPU 1's task, 25 ms, goes to sleep; CPU 1 has nothing else, so it pulls the 30 over. Had it been
//! woken while CPU 1 was free, it would have been pushed.

use super::before;
use crate::fair::EnqueueFlags;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::{Arrival, Kernel};
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rt::Callbacks;

impl Kernel {
    /// `enqueue_pushable_dl_task`.
    pub(super) fn enqueue_pushable_dl(&mut self, cpu: Cpu, task: TaskId) {
        let deadline = |task: TaskId| self.dl.of(task).deadline_ns;
        let own = deadline(task);
        let pushable = &self.dl.rqs[cpu.index()].pushable;
        if pushable.contains(&task) {
            return;
        }
        let place = pushable.partition_point(|&other| !before(own, deadline(other)));
        let rq = self.dl.rq(cpu);
        rq.pushable.insert(place, task);
        if place == 0 {
            rq.earliest_pushable_ns = own;
        }
        self.update_dl_overload(cpu);
    }

    /// `dequeue_pushable_dl_task`.
    pub(super) fn dequeue_pushable_dl(&mut self, cpu: Cpu, task: TaskId) {
        let pushable = &mut self.dl.rqs[cpu.index()].pushable;
        let Some(place) = pushable.iter().position(|&other| other == task) else {
            return;
        };
        pushable.remove(place);
        if place == 0
            && let Some(&first) = pushable.first()
        {
            self.dl.rqs[cpu.index()].earliest_pushable_ns = self.dl.of(first).deadline_ns;
        }
        self.update_dl_overload(cpu);
    }

    /// Whether others could run tasks of this CPU: one waits and may go; up to 6.6, two are queued
    /// of which one may.
    fn dl_overloaded(&self, cpu: Cpu) -> bool {
        let rq = &self.dl.rqs[cpu.index()];
        if self.rules.dl_overload_by_pushable {
            !rq.pushable.is_empty()
        } else {
            rq.nr_migratory > 0 && rq.queue.len() > 1
        }
    }

    fn update_dl_overload(&mut self, cpu: Cpu) {
        if self.dl_overloaded(cpu) {
            self.dl.overloaded.insert(cpu);
        } else {
            self.dl.overloaded.remove(cpu);
        }
    }

    /// A task that may move is queued, or leaves (`inc_dl_migration`, `dec_dl_migration`).
    pub(super) fn count_dl_migratory(&mut self, cpu: Cpu, task: TaskId, comes: bool) {
        if self.tasks[task].nr_cpus_allowed > 1 {
            let rq = self.dl.rq(cpu);
            rq.nr_migratory = if comes {
                rq.nr_migratory + 1
            } else {
                rq.nr_migratory - 1
            };
        }
        self.update_dl_overload(cpu);
    }

    fn dl_queue(&mut self, cpu: Cpu, callback: Callbacks) {
        let rt = &mut self.rqs[cpu].rt;
        // What was asked for last comes first.
        self.dl.rqs[cpu.index()].callbacks_first = !rt.callbacks.is_empty();
        rt.callbacks.add(callback);
    }

    /// `deadline_queue_push_tasks`.
    pub(super) fn dl_queue_push(&mut self, cpu: Cpu) {
        if !self.dl.rqs[cpu.index()].pushable.is_empty() {
            self.dl_queue(cpu, Callbacks::DL_PUSH);
        }
    }

    /// `deadline_queue_pull_task`.
    pub(super) fn dl_queue_pull(&mut self, cpu: Cpu) {
        self.dl_queue(cpu, Callbacks::DL_PULL);
    }

    /// Whether the callbacks of this class come before those of the real-time class.
    pub(crate) fn dl_callbacks_first(&self, cpu: Cpu) -> bool {
        self.dl.rqs[cpu.index()].callbacks_first
    }

    /// Push and pull that waited for the end of an operation.
    #[cold]
    #[inline(never)]
    pub(crate) fn dl_callbacks<P: Platform>(&mut self, p: &mut P, cpu: Cpu, asked: Callbacks) {
        if asked.has(Callbacks::DL_PULL) {
            self.pull_dl_task(p, cpu);
        }
        if asked.has(Callbacks::DL_PUSH) {
            while self.push_one_dl_task(p, cpu) {}
        }
    }

    /// A woken task that cannot run here at once looks for another CPU (`task_woken_dl`).
    #[cold]
    #[inline(never)]
    pub(crate) fn task_woken_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let curr = self.rqs[cpu].curr;
        let needs_push = !self.tasks[task].on_cpu
            && !self.rqs[cpu].need_resched
            && self.tasks[task].nr_cpus_allowed > 1
            && self.runs_deadline_task(cpu)
            && (self.tasks[curr].nr_cpus_allowed < 2
                || !before(self.dl.of(task).deadline_ns, self.dl.of(curr).deadline_ns));
        if needs_push {
            while self.push_one_dl_task(p, cpu) {}
        }
    }

    /// Sends the earliest waiting task to a CPU that would run it (`push_dl_task`). Returns whether
    /// one was sent.
    pub(crate) fn push_one_dl_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> bool {
        if !self.dl_overloaded(cpu) {
            return false;
        }
        let skips_running = self.rules.dl_pushes_waiting_only;
        let mut pushable = self.dl.rqs[cpu.index()].pushable.iter();
        let Some(&task) = pushable.find(|task| !skips_running || !self.tasks[task].on_cpu) else {
            return false;
        };
        let curr = self.rqs[cpu].curr;
        let preempts = self.runs_deadline_task(cpu)
            && before(self.dl.of(task).deadline_ns, self.dl.of(curr).deadline_ns)
            && self.tasks[curr].nr_cpus_allowed > 1;
        if preempts {
            self.resched_curr(p, cpu);
            return false;
        }
        let target = self
            .find_later_rq(task)
            .filter(|&target| target != cpu && self.dl_would_lead(task, target));
        let Some(target) = target else { return false };
        reached(Mark::DlPush);
        self.move_locked(p, cpu, task, target);
        self.resched_curr(p, target);
        true
    }

    /// A CPU is about to run something less urgent than before (`balance_dl`). Returns whether it
    /// has something of this class, or its migration thread, to run.
    pub(crate) fn balance_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, prev: TaskId) -> bool {
        if self.runs_deadline_task(cpu) && !self.dl.of(prev).queued {
            self.pull_dl_task(p, cpu);
        }
        self.rqs[cpu].dl_nr_running > 0 || self.pick_task_stop(cpu).is_some()
    }

    /// Takes tasks from overloaded CPUs that would run here at once (`pull_dl_task`).
    #[cold]
    #[inline(never)]
    fn pull_dl_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let mut earliest: Ns = i64::MAX as Ns;
        let mut pulled = false;
        let overloaded = self.dl.overloaded.and(&self.topology.root_span(cpu));
        for source in overloaded.iter().filter(|&source| source != cpu) {
            let (own, theirs) = (&self.dl.rqs[cpu.index()], &self.dl.rqs[source.index()]);
            let no_use = self.rqs[cpu].dl_nr_running > 0
                && before(own.earliest_ns, theirs.earliest_pushable_ns);
            if no_use || theirs.queue.len() <= 1 {
                continue;
            }
            let mut pushable = theirs.pushable.iter().copied();
            let fits = |task: &TaskId| {
                let record = &self.tasks[task];
                !record.on_cpu && record.affinity.contains(cpu)
            };
            let Some(task) = pushable.find(fits) else {
                continue;
            };
            let deadline_ns = self.dl.of(task).deadline_ns;
            if !before(deadline_ns, earliest) || !self.dl_would_lead(task, cpu) {
                continue;
            }
            // One that is earlier than what runs over there is about to be picked there.
            let runs = self.rqs[source].curr;
            if before(deadline_ns, self.dl.of(runs).deadline_ns) {
                continue;
            }
            reached(Mark::DlPull);
            self.move_locked(p, source, task, cpu);
            earliest = deadline_ns;
            pulled = true;
        }
        if pulled {
            self.resched_curr(p, cpu);
        }
    }

    /// Moves a waiting task between two queues whose locks are held (`move_queued_task_locked`).
    pub(crate) fn move_locked<P: Platform>(&mut self, p: &mut P, from: Cpu, task: TaskId, to: Cpu) {
        self.update_rq_clock(p, from);
        self.deactivate_task(p, from, task);
        self.set_task_cpu(p, task, to);
        self.update_rq_clock(p, to);
        self.activate_task(p, to, task, EnqueueFlags::NONE);
        self.tasks[task].migrating = false;
        if self.rules.moved_locked_preempts {
            self.wakeup_preempt(p, to, task, Arrival::Other);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::Cpu;
    use crate::tests::deadline::{reserve, set};
    use crate::tests::world::World;

    #[test]
    fn a_task_that_is_due_before_the_running_one_is_not_pushed() {
        // Both may run on either CPU. The running one is due at 100 ms, the waiting one at 1 ns.
        let mut world = World::new("6.12", 2);
        let tasks = [world.spawn_anywhere(Cpu(0)), world.spawn_anywhere(Cpu(0))];
        for task in tasks {
            set(&mut world, task, reserve(10, 100, 100)).expect("a tenth of a CPU");
        }
        let kernel = &mut world.kernel;
        let [running, waiting] = tasks;
        let cpu = kernel.tasks[running].cpu;
        kernel.dl.entity(waiting).deadline_ns = 1;
        kernel.dl.rq(cpu).pushable = vec![waiting];
        kernel.here = cpu;
        assert!(!kernel.push_one_dl_task(&mut world.bench, cpu));
        assert!(kernel.rqs[cpu].need_resched);
    }
}
