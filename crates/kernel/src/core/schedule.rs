//! `schedule()`: the running task gives way, the classes are asked in order, the CPU switches.
//!
//! Worked example: a task blocks on CPU 0 while another one of its group waits. Its entity leaves
//! the group's queue (or stays, delayed, if it is owed less than nothing); the pick walks from the
//! root queue to the group's, and since both tasks share all levels but the last, only the group's
//! queue changes its current entity.

use crate::cache::CacheWork;
use crate::fair::DequeueFlags;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::pelt::LOAD_AVG_MAX;
use crate::platform::{Observation, Op, Platform, PrevState};
use crate::rules::{IdleAverage, IdlePeltSync, Preemption};
use crate::task::{Policy, TaskState};

impl Kernel {
    /// Asks for a reschedule of a CPU at its next preemption point (`resched_curr`).
    ///
    /// The queue's lock is held meanwhile. Worked example, an interrupt that takes 9 us to send as
    /// in a virtual machine: the other CPU sees the request on its way out of a call 1 us later,
    /// and spins in `schedule` for the remaining 8 us, for which its current task pays.
    #[inline]
    pub(crate) fn resched_curr<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        if rq.need_resched {
            return;
        }
        rq.need_resched = true;
        if cpu != self.here {
            let polling = rq.polling && rq.curr_is_idle();
            if !polling {
                p.spend(self.here, Op::IpiSend, 1);
                self.rq_unlock(p, cpu);
            }
            p.send_ipi(self.here, cpu, crate::platform::Ipi::Resched, polling);
        }
    }

    /// The fair class's requests: honoured at return to user mode or the next tick when preemption
    /// is lazy (`resched_curr_lazy`, 6.13).
    #[inline]
    pub(crate) fn resched_curr_lazy<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let rq = &mut self.rqs[cpu];
        if self.rules.preemption == Preemption::Lazy && !rq.curr_is_idle() {
            reached(Mark::LazyResched);
            rq.need_resched_lazy = true;
            return;
        }
        self.resched_curr(p, cpu);
    }

    /// The current task of `cpu` goes to sleep. [`Kernel::leave_kernel`] has to follow.
    pub fn block<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        let task = self.rqs[cpu].curr;
        self.tasks[task].state = TaskState::Blocked;
        p.spend(cpu, Op::Block, 1);
        self.schedule(p, cpu, PrevState::Blocked);
    }

    /// A sleeping task has left its queue, at once or when its delayed dequeue took place
    /// (`__block_task`).
    pub(crate) fn block_task(&mut self, cpu: Cpu, task: TaskId) {
        let record = &mut self.tasks[task];
        record.on_rq = false;
        if record.in_iowait {
            self.rqs[cpu].nr_iowait += 1;
        }
    }

    /// The current task of `cpu` yields (`sched_yield`).
    pub fn yield_current<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        self.here = cpu;
        let task = self.rqs[cpu].curr;
        if self.tasks[task].policy.is_fair() {
            self.yield_task_fair(p, cpu, task);
        } else if self.tasks[task].policy.is_rt() {
            self.requeue_task_rt(cpu, task, false);
        } else if self.tasks[task].policy == Policy::Deadline {
            self.yield_task_dl(p, cpu, task);
        }
        self.schedule(p, cpu, PrevState::Runnable);
    }

    /// CPU time of the running task up to now. Reading it charges the task first
    /// (`task_sched_runtime`).
    pub fn task_sched_runtime<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Ns {
        self.here = cpu;
        self.update_rq_clock(p, cpu);
        let task = self.rqs[cpu].curr;
        let se = self.tasks[task].se;
        if self.tasks[task].policy.is_fair() {
            match self.rules.flat_pick {
                true => self.update_curr_fair(p, cpu),
                false => self.update_curr(p, self.entities[se].cfs_rq),
            }
        } else {
            self.update_curr_above_fair(p, cpu);
        }
        self.entities[se].sum_exec_runtime
    }

    /// On the way back to user mode or the idle loop: softirqs, pending reschedules, throttle work.
    /// Returns the task the CPU executes now, maybe its idle task.
    #[inline(always)]
    pub fn leave_kernel<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> TaskId {
        self.here = cpu;
        if self.rules.irq_time_accounting {
            self.irq_exit(p, cpu);
        }
        loop {
            let rq = &mut self.rqs[cpu];
            if rq.balance_softirq {
                rq.balance_softirq = false;
                self.irq_enter(p, cpu);
                self.sched_balance_softirq(p, cpu);
                self.irq_exit(p, cpu);
                continue;
            }
            let curr = rq.curr;
            if curr.index() == rq.idle.index() + self.topology.cpus() {
                self.cpu_stopper_thread(p, cpu);
            } else if rq.need_resched || rq.need_resched_lazy {
                let idled = rq.curr_is_idle();
                if idled && self.flush_calls(p, cpu) {
                    continue;
                }
                self.schedule(p, cpu, PrevState::Runnable);
                if idled && self.rqs[cpu].curr_is_idle() {
                    // The idle loop is left to ask, and its tick comes back with that (`do_idle`).
                    self.idle_exit(p, cpu);
                }
            } else if !self.task_work_run(p, cpu, curr) {
                break;
            }
        }
        if self.nohz.has_full {
            self.update_full_tick(p, cpu);
        }
        if self.rqs[cpu].curr_is_idle() {
            self.idle_enter(p, cpu);
        }
        self.rqs[cpu].curr
    }

    /// One piece of work of a task on its way back to user mode; `false` when it has none
    /// (`task_work_run`).
    #[inline(always)]
    fn task_work_run<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) -> bool {
        let record = &mut self.tasks[task];
        if !record.throttle_work && record.cache.work == CacheWork::None {
            return false;
        }
        if matches!(record.cache.work, CacheWork::Newest | CacheWork::Next) {
            self.task_cache_work(p, task);
        } else {
            if record.cache.work == CacheWork::BehindThrottle {
                record.cache.work = CacheWork::Next;
            }
            if self.throttle_current_task(p, task) {
                self.schedule(p, cpu, PrevState::Throttled);
            }
        }
        true
    }

    /// `__schedule`.
    pub(crate) fn schedule<P: Platform>(&mut self, p: &mut P, cpu: Cpu, state: PrevState) {
        self.rq_lock(p, cpu);
        self.hrtick_schedule_enter(cpu);
        if std::mem::take(&mut self.rqs[cpu].skip_clock_update) {
            reached(Mark::ClockUpdateSkipped);
            self.rqs[cpu].switch_skips_clock = !self.rules.clock_skip_stays;
        } else {
            self.update_rq_clock(p, cpu);
        }
        let prev = self.rqs[cpu].curr;
        if matches!(state, PrevState::Blocked | PrevState::Dead) {
            let dying = state == PrevState::Dead;
            let flags = DequeueFlags::SLEEP.with(DequeueFlags::SPECIAL, dying);
            let left = match self.tasks[prev].policy.is_fair() && !self.clamps_used {
                true => self.dequeue_task_fair(p, prev, flags),
                false => self.dequeue_task(p, cpu, prev, flags),
            };
            if left {
                self.block_task(cpu, prev);
            }
        }
        let nothing =
            self.rules.idle_reenters && self.is_idle_task(prev) && self.rqs[cpu].nr_running == 0;
        let next = if nothing {
            prev
        } else {
            self.pick_next_task(p, cpu, prev)
        };
        if self.rules.arrivals_meet_next_class {
            self.rqs[cpu].next_rank = self.rank(next);
        }
        let rq = &mut self.rqs[cpu];
        rq.need_resched = false;
        rq.need_resched_lazy = false;
        // Balance on the way may have found a task for this CPU; that reschedule is served now,
        // too. From 6.7 on its request to skip an update of the clock stays, and the next switch
        // reads a clock of the past.
        rq.skip_clock_update &= self.rules.clock_skip_stays;
        rq.switch_skips_clock = false;
        if next != prev {
            self.context_switch(p, cpu, prev, next, state);
        } else {
            self.rq_unlock(p, cpu);
        }
        self.balance_callbacks(p, cpu);
        self.hrtick_schedule_exit(p, cpu);
    }

    fn context_switch<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        prev: TaskId,
        next: TaskId,
        state: PrevState,
    ) {
        let rq = &mut self.rqs[cpu];
        rq.curr = next;
        if next == rq.idle {
            self.note_idle_state(cpu);
        }
        // The enqueue of any queued task has ended the idleness already.
        debug_assert!(next == self.rqs[cpu].idle || !self.rqs[cpu].noted_idle);
        self.tasks[prev].on_cpu = false;
        self.tasks[next].on_cpu = true;
        p.observe(cpu, Observation::Switch { prev, state, next });
        self.spend_switch(p, cpu, prev, next);
        let rq = &mut self.rqs[cpu];
        rq.switched_from = prev;
        rq.switched_at_ns = p.now(cpu);
        self.rq_unlock(p, cpu);
        if self.is_idle_task(prev) {
            // A real CPU restarts its tick before it takes the lock. Here that comes behind the
            // switch, when the lock is free again.
            let now = p.now(cpu);
            self.count_idle_time(cpu, now);
            self.idle_reflect(cpu, now);
            self.idle_exit(p, cpu);
        }
    }

    fn spend_switch<P: Platform>(&self, p: &mut P, cpu: Cpu, prev: TaskId, next: TaskId) {
        let (from, to) = (
            self.tasks[prev].address_space,
            self.tasks[next].address_space,
        );
        // Kernel threads borrow the address space of the previous task.
        let same = to.is_none() || from == to;
        p.spend(
            cpu,
            if same {
                Op::ContextSwitchThread
            } else {
                Op::ContextSwitch
            },
            1,
        );
    }

    /// Asks the classes in order (`pick_next_task`).
    fn pick_next_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu, prev: TaskId) -> TaskId {
        self.balance_rt(p, cpu, prev);
        let rq = &self.rqs[cpu];
        let fair = &self.cfs_rqs[cpu];
        // A server that does not count is not asked where all that counts is fair.
        let mut passes_server = rq.dl_nr_running > 0
            && rq.nr_running == fair.h_nr_queued
            && (prev == rq.idle || self.tasks[prev].policy.is_fair());
        let above_fair = rq.dl_nr_running > 0 && !passes_server;
        let mut has_work = above_fair || fair.nr_queued > 0;
        // With others than fair tasks to choose from, `prev_balance` asks whether there are fair
        // ones, and not whether there is a task (`balance_fair`).
        let looks_first = self.rules.balances_without_fair
            && fair.nr_queued == 0
            && rq.nr_running > 0
            && prev != rq.idle
            && self.tasks[prev].policy.is_fair();
        if looks_first {
            self.sched_balance_newidle(p, cpu);
        }
        if self.rules.puts_before_picking {
            // One whose budget is over by now is not picked again.
            self.update_curr_rt(p, cpu);
            self.update_curr_dl(p, cpu);
        }
        loop {
            if !passes_server && let Some(next) = self.pick_task_above_fair(p, cpu) {
                self.switch_above_fair(p, cpu, prev, next);
                return next;
            }
            if let Some(next) = self.pick_task_fair(p, cpu) {
                self.switch_to_fair(p, cpu, prev, next);
                return next;
            }
            if looks_first || (has_work && self.balances_before_picking(prev, above_fair)) {
                break;
            }
            let found = self.sched_balance_newidle(p, cpu);
            if found == 0 {
                break;
            }
            passes_server &= found > 0;
            has_work = true;
        }
        let idle = self.rqs[cpu].idle;
        if prev != idle {
            self.put_last_task(p, cpu, prev);
            self.entities[self.tasks[idle].se].exec_start = self.rqs[cpu].clock_task;
            self.update_idle_core(p, cpu);
        }
        idle
    }

    /// Behind a task of a higher class the kernel balanced once, before it picked, and only if
    /// nothing was queued then. So it did behind another one, if somebody `above_fair` was there
    /// who then had nothing to run: the fair server.
    fn balances_before_picking(&self, prev: TaskId, above_fair: bool) -> bool {
        let fair_or_idle = self.is_idle_task(prev) || self.tasks[prev].policy.is_fair();
        self.rules.balances_before_picking && (above_fair || !fair_or_idle)
    }

    /// The classes above the fair one: stop, deadline with the fair server, real-time.
    fn pick_task_above_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu) -> Option<TaskId> {
        self.pick_task_stop(cpu)
            .or_else(|| self.pick_task_dl(p, cpu))
            .or_else(|| self.pick_task_rt(cpu))
    }

    #[inline(never)]
    fn switch_above_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu, prev: TaskId, next: TaskId) {
        if prev != next || self.rules.puts_before_picking {
            self.put_prev_task(p, prev);
            self.set_next_task(p, cpu, next, true);
        }
    }

    fn switch_to_fair<P: Platform>(&mut self, p: &mut P, cpu: Cpu, prev: TaskId, next: TaskId) {
        if std::mem::take(&mut self.rqs[cpu].put_before_pick) {
            return self.set_next_task(p, cpu, next, true);
        }
        if prev == next {
            if self.rules.puts_before_picking {
                self.note_fair_pick(p, cpu, next);
            }
            return;
        }
        if self.is_idle_task(prev) || !self.tasks[prev].policy.is_fair() {
            self.put_prev_task(p, prev);
            self.set_next_task(p, cpu, next, true);
        } else {
            self.switch_fair_entities(p, prev, next);
            self.note_fair_pick(p, cpu, next);
        }
    }

    /// Notes a fair pick on its CPU, before 6.12 also a pick of the task that ran already.
    #[inline(always)]
    fn note_fair_pick<P: Platform>(&mut self, p: &mut P, cpu: Cpu, next: TaskId) {
        self.note_picked(cpu, next);
        self.hrtick_start_fair(p, cpu, next);
        self.update_misfit_status(cpu, Some(next));
    }

    /// `put_prev_task` of the task's class.
    #[inline(always)]
    pub(crate) fn put_prev_task<P: Platform>(&mut self, p: &mut P, prev: TaskId) {
        let policy = self.tasks[prev].policy;
        if self.is_idle_task(prev) {
            let cpu = self.tasks[prev].cpu;
            self.fair_server_update_idle(cpu);
            self.update_curr_idle(p, cpu);
            if self.rules.idle_average != IdleAverage::Wakeups {
                self.end_idle_stamp(cpu);
            }
        } else if policy.is_fair() {
            self.put_prev_task_fair(p, prev);
        } else if policy.is_rt() {
            self.put_prev_task_rt(p, prev);
        } else if policy == Policy::Deadline {
            self.put_prev_task_dl(p, prev);
        }
    }

    /// `set_next_task` of the task's class; `first` = it was just picked.
    #[inline(always)]
    pub(crate) fn set_next_task<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        next: TaskId,
        first: bool,
    ) {
        if self.tasks[next].policy.is_fair() {
            self.set_next_task_fair(p, next, first);
            self.note_picked(cpu, next);
            if first {
                self.hrtick_start_fair(p, cpu, next);
                self.update_misfit_status(cpu, Some(next));
            }
        } else if self.tasks[next].policy.is_rt() {
            self.set_next_task_rt(cpu, next, first);
        } else if self.tasks[next].policy == Policy::Deadline {
            self.set_next_task_dl(p, cpu, next, first);
        } else {
            let stopper = self.tasks[next].se;
            self.entities[stopper].exec_start = self.rqs[cpu].clock_task;
        }
    }

    /// Puts a task on its class's queue (`enqueue_task`).
    #[inline(never)]
    pub(crate) fn enqueue_task<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: crate::fair::EnqueueFlags,
    ) {
        self.clamps_before_enqueue(cpu, task, flags);
        if self.tasks[task].policy.is_fair() {
            self.enqueue_task_fair(p, cpu, task, flags);
        } else if self.tasks[task].policy.is_rt() {
            self.enqueue_task_rt(p, cpu, task, flags);
        } else if self.tasks[task].policy == Policy::Deadline {
            self.enqueue_task_dl(p, cpu, task, flags, false);
        } else {
            self.count_stop_task(cpu, true);
        }
        self.clamps_after_enqueue(cpu, task);
    }

    /// Takes a task off its class's queue (`dequeue_task`). `false` when it is delayed instead.
    #[inline(never)]
    pub(crate) fn dequeue_task<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        flags: DequeueFlags,
    ) -> bool {
        if self.clamps_used {
            self.uclamp_rq_dec(cpu, task);
        }
        if self.tasks[task].policy.is_fair() {
            return self.dequeue_task_fair(p, task, flags);
        }
        if self.tasks[task].policy.is_rt() {
            self.dequeue_task_rt(p, cpu, task, flags);
        } else if self.tasks[task].policy == Policy::Deadline {
            self.dequeue_task_dl(p, cpu, task, flags);
        } else {
            self.count_stop_task(cpu, false);
        }
        true
    }

    /// The last task of a CPU that goes idle is put, and the CPU's PELT clock catches up.
    fn put_last_task<P: Platform>(&mut self, p: &mut P, cpu: Cpu, prev: TaskId) {
        let sync = self.rules.idle_pelt_sync;
        let fair = self.tasks[prev].policy.is_fair();
        // Putting a fair task that sleeps counts nothing, but it may throttle its groups, whose
        // averages stop by this clock.
        if sync == IdlePeltSync::BeforePut || (fair && sync == IdlePeltSync::FairOnly) {
            self.update_idle_clock_pelt(cpu);
        }
        self.put_prev_task(p, prev);
        if sync == IdlePeltSync::AfterPut {
            self.update_idle_clock_pelt(cpu);
        }
    }

    /// A CPU that was never idle has no idle time to catch up with (`update_idle_rq_clock_pelt`).
    fn update_idle_clock_pelt(&mut self, cpu: Cpu) {
        let saturated = ((u64::from(LOAD_AVG_MAX) - 1024) << 10) - u64::from(LOAD_AVG_MAX);
        let util_sum = u64::from(self.cfs_rqs[cpu].avg.util_sum)
            + u64::from(self.rqs[cpu].rt.avg.util_sum)
            + u64::from(self.dl.rqs[cpu.index()].avg.util_sum);
        let rq = &mut self.rqs[cpu];
        if util_sum >= saturated {
            reached(Mark::LostIdleTime);
            rq.lost_idle_time_ns += rq.clock_task - rq.clock_pelt;
        }
        // Before 6.0 the clock follows when it is read next (5.10.223; no tree of 5.1 to 5.3 is at
        // hand, whose call of this comes before the put).
        let rules = &self.rules;
        if rules.migrated_sleepers_age || rules.idle_pelt_sync == IdlePeltSync::BeforePut {
            rq.sync_clock_pelt();
        }
    }
}
