//! Keeping the most urgent real-time tasks of the machine running: push and pull.
//!
//! A CPU with more real-time tasks than it runs is overloaded and pushes the ones that wait to CPUs
//! that run something less urgent; a CPU whose own work became less urgent asks the overloaded ones
//! for theirs. Worked example: CPU 0 runs a task of priority 60 and has one of priority 50 waiting.
//! CPU 1 blocks its task of priority 70; nothing real-time is left there, so it asks: an interrupt
//! goes to CPU 0, which pushes the 50 over and reschedules CPU 1.

use super::{Callbacks, NO_RT_PRIO};
use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;

impl Kernel {
    /// `enqueue_pushable_task`: behind those of the same priority.
    pub(crate) fn enqueue_pushable_task(&mut self, cpu: Cpu, task: TaskId) {
        if self.tasks[task].nr_cpus_allowed == 1 {
            return;
        }
        self.dequeue_pushable_task(cpu, task);
        let prio = self.prio(task);
        let pushable = &self.rqs[cpu].rt.pushable;
        let place = pushable.partition_point(|&other| self.prio(other) <= prio);
        self.rqs[cpu].rt.pushable.insert(place, task);
    }

    /// `dequeue_pushable_task`.
    pub(crate) fn dequeue_pushable_task(&mut self, cpu: Cpu, task: TaskId) {
        let pushable = &mut self.rqs[cpu].rt.pushable;
        if let Some(place) = pushable.iter().position(|&other| other == task) {
            pushable.remove(place);
        }
    }

    /// Whether a CPU has real-time tasks others could run: two of which one may go; from 6.7, one
    /// that waits and may go.
    pub(crate) fn rt_overloaded(&self, cpu: Cpu) -> bool {
        let rt = &self.rqs[cpu].rt;
        if self.rules.rt_overload_by_pushable {
            !rt.pushable.is_empty()
        } else {
            rt.nr_migratory > 0 && rt.nr_running > 1
        }
    }

    /// Keeps `rto_mask` true (`update_rt_migration`).
    pub(crate) fn update_rt_overload(&mut self, cpu: Cpu) {
        if self.rt_overloaded(cpu) {
            self.rt_domain.overloaded.insert(cpu);
        } else {
            self.rt_domain.overloaded.remove(cpu);
        }
    }

    /// `rt_queue_push_tasks`.
    pub(crate) fn rt_queue_push_tasks(&mut self, cpu: Cpu) {
        let rt = &mut self.rqs[cpu].rt;
        if !rt.pushable.is_empty() {
            rt.callbacks.add(Callbacks::RT_PUSH);
        }
    }

    /// Work deferred to the end of an operation (`balance_callbacks`).
    #[inline]
    pub(crate) fn balance_callbacks<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let asked = std::mem::take(&mut self.rqs[cpu].rt.callbacks);
        if !asked.is_empty() {
            self.push_and_pull(p, cpu, asked);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_and_pull<P: Platform>(&mut self, p: &mut P, cpu: Cpu, asked: Callbacks) {
        let deadlines_first = self.dl_callbacks_first(cpu);
        if deadlines_first {
            self.dl_callbacks(p, cpu, asked);
        }
        if asked.has(Callbacks::RT_PULL) {
            self.pull_rt_task(p, cpu);
        }
        if asked.has(Callbacks::RT_PUSH) {
            self.push_rt_tasks(p, cpu);
        }
        if !deadlines_first {
            self.dl_callbacks(p, cpu, asked);
        }
    }

    /// A woken task that cannot run here at once looks for another CPU (`task_woken_rt`).
    #[cold]
    #[inline(never)]
    pub(crate) fn task_woken_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let rq = &self.rqs[cpu];
        let curr_prio = self.curr_prio(cpu);
        let needs_push = !self.tasks[task].on_cpu
            && !rq.need_resched
            && self.tasks[task].nr_cpus_allowed > 1
            && ((0..NO_RT_PRIO).contains(&curr_prio) || self.runs_deadline_task(cpu))
            && (self.tasks[rq.curr].nr_cpus_allowed < 2 || curr_prio <= self.prio(task));
        if needs_push {
            self.push_rt_tasks(p, cpu);
        }
    }

    /// `push_rt_tasks`.
    #[cold]
    #[inline(never)]
    pub(crate) fn push_rt_tasks<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        while self.push_rt_task(p, cpu) {}
    }

    /// Sends the most urgent waiting task to a CPU with less urgent work (`push_rt_task`). Returns
    /// whether one was sent.
    fn push_rt_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> bool {
        if !self.rt_overloaded(cpu) {
            return false;
        }
        let Some(&task) = self.rqs[cpu].rt.pushable.first() else {
            return false;
        };
        if self.prio(task) < self.curr_prio(cpu) {
            self.resched_curr(p, cpu);
            return false;
        }
        let target = self.find_lowest_rq(task).filter(|&target| {
            target != cpu && self.rqs[target].rt.highest_prio() > self.prio(task)
        });
        let Some(target) = target else { return false };
        reached(Mark::RtPush);
        self.move_locked(p, cpu, task, target);
        self.resched_curr(p, target);
        true
    }

    /// A CPU is about to run something less urgent than before (`balance_rt`).
    pub(crate) fn balance_rt<P: Platform>(&mut self, p: &mut P, cpu: Cpu, prev: TaskId) {
        let record = &self.tasks[prev];
        if self.is_idle_task(prev) || record.policy.is_fair() || record.rt_on_rq {
            return;
        }
        if self.dl.used && self.balance_dl(p, cpu, prev) {
            return;
        }
        if self.rqs[cpu].rt.highest_prio() > self.prio(prev) {
            self.pull_rt_task(p, cpu);
        }
    }

    /// Gets real-time tasks from overloaded CPUs (`pull_rt_task`): by asking them to push, or, with
    /// NO_RT_PUSH_IPI, by taking them.
    #[cold]
    #[inline(never)]
    fn pull_rt_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let mut others = self.rt_domain.overloaded.and(&self.topology.root_span(cpu));
        others.remove(cpu);
        if others.is_empty() {
            return;
        }
        if self.rules.features.rt_push_ipi {
            self.tell_cpu_to_push(p, cpu);
            return;
        }
        let mut pulled = false;
        for source in others.iter() {
            pulled |= self.pull_from(p, cpu, source);
        }
        if pulled {
            self.resched_curr(p, cpu);
        }
    }

    /// Takes the most urgent task that waits on `source` and may run here, if it is more urgent
    /// than what is here.
    fn pull_from<P: Platform>(&mut self, p: &mut P, cpu: Cpu, source: Cpu) -> bool {
        let allowed = |task: &&TaskId| self.tasks[task].affinity.contains(cpu);
        let pushable = &self.rqs[source].rt.pushable;
        let Some(&task) = pushable.iter().find(allowed) else {
            return false;
        };
        let prio = self.prio(task);
        // A task more urgent than what runs over there is about to be picked there.
        if prio >= self.rqs[cpu].rt.highest_prio() || prio < self.curr_prio(source) {
            return false;
        }
        reached(Mark::RtPull);
        self.move_locked(p, source, task, cpu);
        true
    }

    /// Starts a round of push requests unless one is under way (`tell_cpu_to_push`).
    fn tell_cpu_to_push<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let round = &mut self.rt_domain.rounds[self.topology.root_domain(cpu)];
        round.rto_loop_next += 1;
        if round.rto_cpu.is_none() {
            self.ask_next_to_push(p, cpu);
        }
    }

    fn ask_next_to_push<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if let Some(cpu) = self.rto_next_cpu(cpu) {
            let first = self.is_first_call(cpu, true);
            self.rqs[cpu].rt.push_asked = true;
            if first {
                self.send_call(p, cpu);
            }
        }
    }

    /// The next overloaded CPU of a round in the root domain of `cpu`; requests that came meanwhile
    /// start another round (`rto_next_cpu`).
    fn rto_next_cpu(&mut self, cpu: Cpu) -> Option<Cpu> {
        let skipped = self.rules.push_round_skips_here.then_some(self.here);
        let overloaded = self.rt_domain.overloaded.and(&self.topology.root_span(cpu));
        let round = &mut self.rt_domain.rounds[self.topology.root_domain(cpu)];
        loop {
            let previous = round.rto_cpu;
            round.rto_cpu = overloaded.iter().find(|&cpu| {
                previous.is_none_or(|previous| cpu > previous) && skipped != Some(cpu)
            });
            if round.rto_cpu.is_some() || round.rto_loop == round.rto_loop_next {
                return round.rto_cpu;
            }
            round.rto_loop = round.rto_loop_next;
        }
    }

    /// A request to push arrives (`rto_push_irq_work_func`).
    pub(crate) fn rto_push<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        if !std::mem::take(&mut self.rqs[cpu].rt.push_asked) {
            return;
        }
        self.push_rt_tasks(p, cpu);
        self.ask_next_to_push(p, cpu);
    }
}
