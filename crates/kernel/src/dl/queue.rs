//! The order of deadlines on a CPU: enqueue, dequeue, pick, tick, yield.
//!
//! Worked example: tasks with deadlines at 30 and 20 ms wait; the second runs. Its deadline moves
//! to 60 when it is replenished, and at the next pick the first one runs. Of two with the same
//! deadline the one that came first does.

use super::place::Latest;
use super::{DlRq, Queued, before};
use crate::fair::{DequeueFlags, EnqueueFlags};
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::pelt::Inputs;
use crate::platform::{Op, Platform};
use crate::task::Policy;

impl DlRq {
    /// Deadline of the first in the order, 0 = nobody.
    fn first_ns(&self) -> Ns {
        self.queue.first().map_or(0, |first| first.deadline_ns)
    }
}

impl Kernel {
    /// Whether a CPU executes a task of this class.
    pub(crate) fn runs_deadline_task(&self, cpu: Cpu) -> bool {
        let rq = &self.rqs[cpu];
        !rq.curr_is_idle() && self.tasks[rq.curr].policy == Policy::Deadline
    }

    /// The CPUs of a CPU's root domain by their deadlines.
    fn latest_of(&mut self, cpu: Cpu) -> &mut Latest {
        &mut self.dl.latest[self.topology.root_domain(cpu)]
    }

    /// Puts a task, or the fair server, into the order (`__enqueue_dl_entity`).
    pub(crate) fn dl_put_on(&mut self, cpu: Cpu, task: Option<TaskId>, deadline_ns: Ns) {
        let rq = self.dl.rq(cpu);
        let place = rq
            .queue
            .partition_point(|other| !before(deadline_ns, other.deadline_ns));
        rq.queue.insert(place, Queued { deadline_ns, task });
        let first = rq.earliest_ns;
        if first == 0 || before(deadline_ns, first) {
            rq.earliest_ns = deadline_ns;
            self.latest_of(cpu).set(cpu, deadline_ns);
            if first == 0 {
                self.rqs[cpu].rt.behind_deadlines = self.rules.rt_avoids_deadlines;
            }
        }
        self.rqs[cpu].dl_nr_running += 1;
        if let Some(task) = task {
            self.dl.entity(task).queued = true;
            self.add_nr_running(cpu, 1);
            self.count_dl_migratory(cpu, task, true);
        } else if self.rules.fair_server_counts {
            self.add_nr_running(cpu, 1);
        }
    }

    /// Takes it out again, if it is there (`__dequeue_dl_entity`).
    pub(crate) fn dl_take_off(&mut self, cpu: Cpu, task: Option<TaskId>) {
        let rq = self.dl.rq(cpu);
        let Some(place) = rq.queue.iter().position(|queued| queued.task == task) else {
            return;
        };
        rq.queue.remove(place);
        rq.earliest_ns = rq.first_ns();
        let first = rq.earliest_ns;
        if rq.queue.is_empty() {
            rq.earliest_pushable_ns = 0;
            self.latest_of(cpu).clear(cpu);
            self.rqs[cpu].rt.behind_deadlines = false;
        } else {
            self.latest_of(cpu).set(cpu, first);
        }
        self.rqs[cpu].dl_nr_running -= 1;
        if let Some(task) = task {
            self.dl.entity(task).queued = false;
            self.sub_nr_running(cpu, 1);
            self.count_dl_migratory(cpu, task, false);
        } else if self.rules.fair_server_counts {
            self.sub_nr_running(cpu, 1);
        }
    }

    /// `enqueue_task_dl`; `replenish` = its timer has fired.
    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue_task_dl<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: EnqueueFlags,
        replenish: bool,
    ) {
        p.spend(self.here, Op::EnqueueLevel, 1);
        let entity = self.dl.of(task);
        if !entity.throttled && !entity.is_implicit() {
            self.dl_check_constrained(p, cpu, task);
        }
        if flags.has(EnqueueFlags::RESTORE) || self.tasks[task].migrating {
            self.dl.rq(cpu).this_bw += entity.bw;
            self.add_running_bw(p, cpu, entity.bw);
        }
        let woken = flags.has(EnqueueFlags::WAKEUP);
        if woken {
            self.dl_contends(p, cpu, task, flags.has(EnqueueFlags::MIGRATED));
        }
        let entity = self.dl.of(task);
        if entity.throttled && !replenish {
            return;
        }
        let renews = match self.rules.dl_moved_renews {
            true => flags.has(EnqueueFlags::MOVED),
            false => flags.has(EnqueueFlags::RESTORE),
        };
        if woken {
            self.dl_wakes(cpu, task);
        } else if replenish {
            self.dl_replenish(cpu, task);
        } else if renews && entity.is_late(self.rqs[cpu].clock) {
            self.dl_new_period(cpu, task);
        }
        let deadline_ns = self.dl.of(task).deadline_ns;
        self.dl_put_on(cpu, Some(task), deadline_ns);
        if self.rqs[cpu].curr != task && self.tasks[task].nr_cpus_allowed > 1 {
            self.enqueue_pushable_dl(cpu, task);
        }
    }

    /// `dequeue_task_dl`.
    #[cold]
    #[inline(never)]
    pub(crate) fn dequeue_task_dl<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: DequeueFlags,
    ) {
        p.spend(self.here, Op::DequeueLevel, 1);
        self.update_curr_dl(p, cpu);
        self.dl_take_off(cpu, Some(task));
        if flags.has(DequeueFlags::SAVE) || self.tasks[task].migrating {
            let bw = self.dl.of(task).bw;
            self.sub_running_bw(p, cpu, bw);
            self.dl.rq(cpu).this_bw -= bw;
        }
        if flags.has(DequeueFlags::SLEEP) {
            self.dl_stops_contending(p, task);
        }
        self.dequeue_pushable_dl(cpu, task);
    }

    /// The first in the order of deadlines, be it a task or what the fair server picks
    /// (`pick_task_dl`).
    #[inline]
    pub(crate) fn pick_task_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Option<TaskId> {
        if self.rqs[cpu].dl_nr_running == 0 {
            return None;
        }
        self.pick_earliest(p, cpu)
    }

    #[cold]
    #[inline(never)]
    fn pick_earliest<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Option<TaskId> {
        while let Some(&first) = self.dl.rqs[cpu.index()].queue.first() {
            if first.task.is_some() {
                reached(Mark::DlPick);
                return first.task;
            }
            // A server that has nothing to run stops, which takes it out of the order.
            if let Some(task) = self.fair_server_picks(p, cpu) {
                return Some(task);
            }
        }
        None
    }

    /// Load tracking of the class, `running` since the last call or not (`update_dl_rq_load_avg`).
    pub(crate) fn update_dl_rq_load_avg(&mut self, cpu: Cpu, running: bool) -> bool {
        let now = self.rq_clock_pelt(cpu);
        let avg = &mut self.dl.rqs[cpu.index()].avg;
        avg.update(now, Inputs::of_class(running), 1)
    }

    /// `put_prev_task_dl`.
    #[cold]
    #[inline(never)]
    pub(crate) fn put_prev_task_dl<P: Platform>(&mut self, p: &mut P, prev: TaskId) {
        let cpu = self.tasks[prev].cpu;
        self.update_curr_dl(p, cpu);
        self.update_dl_rq_load_avg(cpu, true);
        if self.dl.of(prev).queued && self.tasks[prev].nr_cpus_allowed > 1 {
            self.enqueue_pushable_dl(cpu, prev);
        }
    }

    /// `set_next_task_dl`; `first` = it was just picked.
    #[cold]
    #[inline(never)]
    pub(crate) fn set_next_task_dl<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        next: TaskId,
        first: bool,
    ) {
        let se = self.tasks[next].se;
        self.entities[se].exec_start = self.rqs[cpu].clock_task;
        self.dequeue_pushable_dl(cpu, next);
        if !first {
            return;
        }
        if !self.runs_deadline_task(cpu) {
            self.update_dl_rq_load_avg(cpu, false);
        }
        self.dl_queue_push(cpu);
        self.start_hrtick_dl(p, cpu, next);
    }

    /// The timer that ends requests ends runtimes, too (`start_hrtick_dl`, HRTICK_DL).
    fn start_hrtick_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        if self.rules.features.hrtick_dl {
            let left_ns = self.dl.of(task).runtime_ns;
            self.hrtick_start(p, cpu, left_ns.max(0) as Ns);
        }
    }

    /// `task_tick_dl`; `exact` = by the timer that ends runtimes.
    #[cold]
    #[inline(never)]
    pub(crate) fn task_tick_dl<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        exact: bool,
    ) {
        self.update_curr_dl(p, cpu);
        self.update_dl_rq_load_avg(cpu, true);
        let first = self.dl.rqs[cpu.index()].queue.first();
        let leads = first.is_some_and(|first| first.task == Some(task));
        if exact && leads && self.dl.of(task).runtime_ns > 0 {
            self.start_hrtick_dl(p, cpu, task);
        }
    }

    /// The rest of the period is given up: the task waits for the next one (`yield_task_dl`).
    #[cold]
    #[inline(never)]
    pub(crate) fn yield_task_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        reached(Mark::DlYields);
        self.dl.entity(task).yielded = true;
        self.update_rq_clock(p, cpu);
        self.update_curr_dl(p, cpu);
        self.rqs[cpu].skip_clock_update = true;
    }

    /// `wakeup_preempt_dl`: both are of this class.
    #[cold]
    #[inline(never)]
    pub(crate) fn wakeup_preempt_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let curr = self.rqs[cpu].curr;
        let (own, other) = (self.dl.of(task).deadline_ns, self.dl.of(curr).deadline_ns);
        if before(own, other) {
            reached(Mark::DlPreempts);
            return self.resched_curr(p, cpu);
        }
        if own != other || self.rqs[cpu].need_resched {
            return;
        }
        // A task that cannot go elsewhere takes the CPU from an equal that can
        // (`check_preempt_equal_dl`).
        let elsewhere = |task: TaskId| {
            let best = self.dl.latest[self.topology.root_domain(cpu)].first();
            self.tasks[task].affinity.contains(best.cpu)
                && before(self.dl.of(task).deadline_ns, best.deadline_ns)
        };
        let bound = |task: TaskId| self.tasks[task].nr_cpus_allowed == 1;
        if bound(curr) || !elsewhere(curr) || (!bound(task) && elsewhere(task)) {
            return;
        }
        self.resched_curr(p, cpu);
    }
}
