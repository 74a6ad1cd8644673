//! Runtime and deadline of a task: when it gets new ones, when it is throttled.
//!
//! Worked example of the three rules, 10 ms in every 100 with the deadline after 50: a task that
//! wakes with 6 ms left, 20 ms before its deadline, may keep neither (6/20 > 10/50), and as its
//! deadline is shorter than its period it gets what fits: 20 · 0.2 = 4 ms (the revised rule). With
//! deadline and period alike it would get 10 ms and a new deadline. And one that wakes after its
//! deadline but before its period is over is throttled until then.

use super::{BW_SHIFT, DL_SCALE, before};
use crate::fair::EnqueueFlags;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Platform, Timer};
use crate::task::Policy;

impl Kernel {
    /// A new period begins now (`replenish_dl_new_period`).
    pub(super) fn dl_new_period(&mut self, cpu: Cpu, task: TaskId) {
        let clock = self.rqs[cpu].clock;
        let entity = self.dl.entity(task);
        entity.deadline_ns = clock + entity.reserved.deadline_ns;
        entity.runtime_ns = entity.reserved.runtime_ns as i64;
    }

    /// Runtime for as many periods as were overrun (`replenish_dl_entity`).
    pub(super) fn dl_replenish(&mut self, cpu: Cpu, task: TaskId) {
        reached(Mark::DlReplenished);
        let clock = self.rqs[cpu].clock;
        let entity = self.dl.entity(task);
        let reserved = entity.reserved;
        if reserved.deadline_ns == 0 {
            return;
        }
        if entity.yielded && entity.runtime_ns > 0 {
            entity.runtime_ns = 0;
        }
        while entity.runtime_ns <= 0 {
            entity.deadline_ns += reserved.period_ns;
            entity.runtime_ns += reserved.runtime_ns as i64;
        }
        (entity.yielded, entity.throttled) = (false, false);
        if before(entity.deadline_ns, clock) {
            self.dl_new_period(cpu, task);
        }
    }

    /// Whether what is left, until the deadline, is more than the reserved rate
    /// (`dl_entity_overflow`).
    fn dl_overflows(&self, cpu: Cpu, task: TaskId) -> bool {
        let entity = self.dl.of(task);
        let reserved = entity.reserved;
        let time_left = entity.deadline_ns.wrapping_sub(self.rqs[cpu].clock);
        let left =
            (reserved.deadline_ns >> DL_SCALE).wrapping_mul((entity.runtime_ns >> DL_SCALE) as u64);
        let right = (time_left >> DL_SCALE).wrapping_mul(reserved.runtime_ns >> DL_SCALE);
        before(right, left)
    }

    /// Decides which deadline and runtime a woken task keeps (`update_dl_entity`).
    pub(super) fn dl_wakes(&mut self, cpu: Cpu, task: TaskId) {
        let clock = self.rqs[cpu].clock;
        let entity = self.dl.of(task);
        let late = entity.is_late(clock);
        if !late && !self.dl_overflows(cpu, task) {
            reached(Mark::DlKeepsDeadline);
            return;
        }
        if late || entity.is_implicit() {
            reached(Mark::DlNewDeadline);
            return self.dl_new_period(cpu, task);
        }
        reached(Mark::DlRevised);
        let laxity = entity.deadline_ns - clock;
        self.dl.entity(task).runtime_ns = ((entity.density * laxity) >> BW_SHIFT) as i64;
    }

    /// A task whose deadline comes before the end of its period, and that is queued in between,
    /// waits for that (`dl_check_constrained_dl`).
    pub(super) fn dl_check_constrained<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let clock = self.rqs[cpu].clock;
        let entity = self.dl.of(task);
        let had_one = entity.deadline_ns != 0;
        if !had_one || !entity.is_late(clock) || !before(clock, entity.next_period_ns()) {
            return;
        }
        if !self.dl_start_timer(p, cpu, task) {
            return;
        }
        reached(Mark::DlConstrained);
        let entity = self.dl.entity(task);
        entity.throttled = true;
        entity.runtime_ns = entity.runtime_ns.min(0);
    }

    /// Sets the timer for the next period; `false` when that has begun (`start_dl_timer`).
    pub(super) fn dl_start_timer<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
    ) -> bool {
        let entity = self.dl.of(task);
        let now = p.now(self.here);
        let late = now.wrapping_sub(self.rqs[cpu].clock);
        let at = entity.next_period_ns().wrapping_add(late);
        // Less than a microsecond late is not late.
        if (at.wrapping_sub(now) as i64) <= -1000 {
            return false;
        }
        if !entity.timer_set {
            self.dl.entity(task).timer_set = true;
            let last = entity.timer_cpu.unwrap_or(self.tasks[task].forked_on);
            let on = self.arm_unpinned(p, Timer::Deadline(task), at, Some(last));
            self.dl.entity(task).timer_cpu = on;
        }
        true
    }

    /// The running task of the class is charged (`update_curr_dl`).
    pub(crate) fn update_curr_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        let curr = self.rqs[cpu].curr;
        if self.tasks[curr].policy != Policy::Deadline || !self.dl.of(curr).queued {
            return;
        }
        let delta = self.update_curr_common(cpu);
        if delta > 0 {
            let scaled = self.dl_scaled(cpu, curr, delta);
            self.dl.entity(curr).runtime_ns -= scaled;
        }
        let entity = self.dl.of(curr);
        if entity.yielded || (delta > 0 && entity.runtime_ns <= 0) {
            self.dl_throttle(p, cpu, curr);
        }
        if delta > 0 {
            self.charge_rt_time_for_dl(p, cpu, delta);
        }
    }

    fn dl_throttle<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        reached(Mark::DlThrottled);
        self.dl.entity(task).throttled = true;
        self.dl_take_off(cpu, Some(task));
        self.dequeue_pushable_dl(cpu, task);
        if !self.dl_start_timer(p, cpu, task) {
            self.enqueue_task_dl(p, cpu, task, EnqueueFlags::NONE, true);
        }
        if self.dl.rqs[cpu.index()]
            .queue
            .first()
            .is_none_or(|first| first.task != Some(task))
        {
            self.resched_curr(p, cpu);
        }
    }

    /// The next period of a throttled task begins (`dl_task_timer`), on `cpu`.
    #[cold]
    #[inline(never)]
    pub fn dl_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.here = cpu;
        let entity = self.dl.entity(task);
        entity.timer_set = false;
        let (reaped, throttled) = (entity.reaped, entity.throttled);
        if reaped {
            return self.task_reap(task);
        }
        let record = &self.tasks[task];
        if record.policy != Policy::Deadline || !throttled {
            return;
        }
        let (of, queued) = (record.cpu, record.on_rq);
        self.update_rq_clock(p, of);
        if !queued {
            return self.dl_replenish(of, task);
        }
        self.enqueue_task_dl(p, of, task, EnqueueFlags::NONE, true);
        if self.runs_deadline_task(of) {
            self.wakeup_preempt_dl(p, of, task);
        } else {
            self.resched_curr(p, of);
        }
        self.push_one_dl_task(p, of);
    }

    /// Where real-time throttling is per CPU, deadline tasks use its time, too (up to 6.11).
    fn charge_rt_time_for_dl<P: Platform>(&mut self, _: &mut P, cpu: Cpu, delta: Ns) {
        if !self.rt_bandwidth_enabled() {
            return;
        }
        let active = self.rt_domain.period_active;
        let rt = &mut self.rqs[cpu].rt;
        if active
            || rt
                .rt_runtime_ns
                .is_none_or(|runtime| rt.rt_time_ns < runtime)
        {
            rt.rt_time_ns += delta;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::Cpu;
    use crate::tests::deadline::{reserve, set};
    use crate::tests::world::World;

    #[test]
    fn the_first_timer_of_a_task_belongs_to_the_cpu_that_forked_it() {
        // CPU 0 idles while its tick runs. From 7.1 on a timer that belongs to it stays there;
        // another one goes to CPU 1, which is busy.
        for (forked_on, target) in [(Cpu(0), Cpu(0)), (Cpu(1), Cpu(1))] {
            let mut world = World::new("7.3", 2);
            let task = world.spawn(Cpu(1));
            world.call(Cpu(1), |kernel, bench| {
                let tenth = reserve(10, 100, 100);
                let set = kernel.set_deadline_nocheck(bench, Cpu(1), task, tenth);
                set.expect("a tenth of a CPU");
            });
            world.bench.high_resolution_timer = Some(0);
            let kernel = &mut world.kernel;
            kernel.tasks[task].forked_on = forked_on;
            kernel.here = Cpu(0);
            (kernel.rqs[0].tick_running, kernel.rqs[0].need_resched) = (true, false);
            assert!(kernel.dl_start_timer(&mut world.bench, Cpu(1), task));
            kernel.dl_stops_contending(&mut world.bench, task);
            let entity = kernel.dl.of(task);
            let set_on = [entity.timer_cpu, entity.inactive_timer_cpu];
            assert_eq!(set_on, [Some(target); 2]);
        }
    }

    #[test]
    fn a_charge_of_no_time_throttles_only_a_task_that_yielded() {
        for yields in [false, true] {
            let mut world = World::new("6.12", 1);
            let task = world.spawn(Cpu(0));
            set(&mut world, task, reserve(10, 100, 100)).expect("a tenth of a CPU");
            let kernel = &mut world.kernel;
            kernel.update_rq_clock(&world.bench, Cpu(0));
            kernel.update_curr_dl(&mut world.bench, Cpu(0));
            let entity = kernel.dl.entity(task);
            (entity.runtime_ns, entity.yielded) = (0, yields);
            kernel.update_curr_dl(&mut world.bench, Cpu(0));
            assert_eq!(kernel.dl.of(task).throttled, yields);
        }
    }
}
