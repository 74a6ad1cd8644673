//! Reserved bandwidth, and the part of it that is in use.
//!
//! A reservation is admitted while all of them together are at most 95 % of the machine
//! (`sched_rt_runtime_us` of `sched_rt_period_us`), of which the fair servers have 5 % a CPU from
//! 6.12 on. Worked example: 4 CPUs, 6.12: 3.8 CPUs may be reserved and 0.2 are, so 36 tasks of
//! 10 ms in 100 are admitted and the 37th is refused.
//!
//! A task that sleeps still counts as active until its 0-lag time, when its runtime left would be
//! in proportion: one with 6 ms of 10 left and its deadline in 96 ms, period 100, does for another
//! 36 ms. What is inactive or was never reserved goes to those who reclaim: their runtime is used
//! up more slowly, at best by the part that they reserved.

use super::change::{Refused, RefusedFor};
use super::{BW_SHIFT, Deadlines, RATIO_SHIFT, Reservation, to_ratio};
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Platform, Timer};
use crate::rules::Rules;
use crate::task::{Policy, TaskState};

/// 1 in 20 bits behind the point.
const BW_UNIT: u64 = 1 << BW_SHIFT;

/// How long it is until the runtime left is in proportion to the time before the deadline; negative
/// if it never was.
pub(crate) fn until_zero_lag(
    (left_ns, deadline_ns): (i64, Ns),
    (runtime_ns, period_ns): (Ns, Ns),
    now: Ns,
) -> i64 {
    let share = left_ns.wrapping_mul(period_ns as i64) / runtime_ns as i64;
    (deadline_ns as i64)
        .wrapping_sub(share)
        .wrapping_sub(now as i64)
}

impl Rules {
    /// Bandwidth that the fair server of a CPU reserves.
    pub(crate) fn fair_server_bw(&self) -> u64 {
        if self.fair_server {
            to_ratio(self.fair_server_period_ns, self.fair_server_runtime_ns)
        } else {
            0
        }
    }
}

impl Deadlines {
    /// `sched_dl_do_global`.
    pub(crate) fn set_limit(&mut self, rules: &Rules) {
        let (period, runtime) = (rules.rt_period_ns, rules.rt_runtime_ns);
        self.limit_bw = runtime.map(|runtime| to_ratio(period, runtime));
        self.max_bw = self.limit_bw.unwrap_or(BW_UNIT);
        self.bw_ratio = match runtime {
            Some(runtime) => to_ratio(runtime, period) >> (BW_SHIFT - RATIO_SHIFT),
            None => 1 << RATIO_SHIFT,
        };
    }
}

impl Kernel {
    /// More is reserved in the root domain of a CPU, or less (`__dl_add`, `__dl_sub`).
    fn dl_reserve(&mut self, cpu: Cpu, bw: i64) {
        let span = self.topology.root_span(cpu);
        let total = &mut self.dl.total_bw[self.topology.root_domain(cpu)];
        *total = total.wrapping_add_signed(bw);
        let part = bw / span.len() as i64;
        for cpu in span.iter() {
            let rq = self.dl.rq(cpu);
            rq.extra_bw = rq.extra_bw.wrapping_add_signed(-part);
        }
    }

    /// A task that may run on no CPU of its root domain any more gives its reservation there back,
    /// as the kernel does that expects another one to be made by whoever moves it
    /// (`set_cpus_allowed_dl`).
    pub(crate) fn dl_leaves_domain(&mut self, task: TaskId, allowed: &CpuSet) {
        let cpu = self.tasks[task].cpu;
        if !self.topology.root_span(cpu).intersects(allowed) {
            self.dl_reserve(cpu, -(self.dl.of(task).bw as i64));
        }
    }

    /// `cap_scale(dl_b->bw, dl_bw_capacity)`: what may be reserved of the root domain of a CPU;
    /// `None` = anything.
    fn dl_capacity(&self, cpu: Cpu) -> Option<u64> {
        let span = self.topology.root_span(cpu);
        let capacity: u64 = span.iter().map(|cpu| self.rqs[cpu].cpu_capacity_orig).sum();
        Some((self.dl.limit_bw? * capacity) >> 10)
    }

    /// Admits a reservation in place of the one that a task has, or refuses it
    /// (`sched_dl_overflow`).
    pub(super) fn dl_admit<P: Platform>(
        &mut self,
        p: &mut P,
        task: TaskId,
        asked: &Reservation,
    ) -> Result<(), Refused> {
        let new_bw = to_ratio(asked.period_ns, asked.runtime_ns);
        let is_deadline = self.tasks[task].policy == Policy::Deadline;
        let entity = self.dl.of(task);
        if is_deadline && entity.bw == new_bw {
            return Ok(());
        }
        let old_bw = if is_deadline { entity.bw } else { 0 };
        let cpu = self.tasks[task].cpu;
        // A task that came from another root domain may have nothing reserved in this one: the sum
        // wraps, as the kernel's does.
        let reserved = self.dl.total_bw[self.topology.root_domain(cpu)];
        let others_bw = reserved.wrapping_sub(old_bw);
        let total = others_bw.wrapping_add(new_bw);
        if let Some(capacity) = self.dl_capacity(cpu).filter(|&capacity| capacity < total) {
            reached(Mark::DlRefused);
            return Err(Refused {
                asked: *asked,
                why: RefusedFor::Bandwidth {
                    capacity_bw: capacity,
                    others_bw,
                },
            });
        }
        if is_deadline || entity.inactive_timer_set {
            self.dl_reserve(cpu, -(entity.bw as i64));
        }
        self.dl_reserve(cpu, new_bw as i64);
        if is_deadline && !self.tasks[task].on_rq {
            self.dl_change_utilization(p, task, new_bw);
        }
        Ok(())
    }

    /// A sleeping task changes its reservation (`dl_rq_change_utilization`).
    fn dl_change_utilization<P: Platform>(&mut self, p: &mut P, task: TaskId, new_bw: u64) {
        let (cpu, bw) = (self.tasks[task].cpu, self.dl.of(task).bw);
        if self.dl.of(task).non_contending {
            self.sub_running_bw(p, cpu, bw);
            self.dl_contends_again(p, task);
        }
        let rq = self.dl.rq(cpu);
        rq.this_bw = rq.this_bw - bw + new_bw;
    }

    /// It is not asleep before its 0-lag time any more, whatever else it is.
    pub(super) fn dl_contends_again<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let entity = self.dl.entity(task);
        entity.non_contending = false;
        if std::mem::take(&mut entity.inactive_timer_set) {
            p.cancel(self.here, Timer::Inactive(task));
        }
    }

    pub(crate) fn add_running_bw<P: Platform>(&mut self, p: &mut P, cpu: Cpu, bw: u64) {
        self.dl.rq(cpu).running_bw += bw;
        self.cpufreq_update_util(p, cpu, false);
    }

    pub(crate) fn sub_running_bw<P: Platform>(&mut self, p: &mut P, cpu: Cpu, bw: u64) {
        let rq = self.dl.rq(cpu);
        rq.running_bw = rq.running_bw.saturating_sub(bw);
        self.cpufreq_update_util(p, cpu, false);
    }

    /// Nothing is left of a reservation (`__dl_clear_params`).
    fn dl_forget(&mut self, task: TaskId) {
        let entity = self.dl.entity(task);
        let bw = entity.bw as i64;
        entity.reserved = Default::default();
        (entity.bw, entity.density) = (0, 0);
        (entity.throttled, entity.yielded, entity.non_contending) = (false, false, false);
        self.dl_reserve(self.tasks[task].cpu, -bw);
    }

    /// A task sleeps, ends or leaves the class: at its 0-lag time its utilisation is no longer
    /// active (`task_non_contending`).
    pub(super) fn dl_stops_contending<P: Platform>(&mut self, p: &mut P, task: TaskId) {
        let record = &self.tasks[task];
        let (cpu, dead) = (record.cpu, record.state == TaskState::Dead);
        let is_deadline = record.policy == Policy::Deadline;
        let entity = self.dl.of(task);
        if entity.reserved.runtime_ns == 0 {
            return;
        }
        let Reservation {
            runtime_ns,
            period_ns,
            ..
        } = entity.reserved;
        let left = (entity.runtime_ns, entity.deadline_ns);
        let zero_lag_ns = until_zero_lag(left, (runtime_ns, period_ns), self.rqs[cpu].clock);
        if zero_lag_ns < 0 || entity.inactive_timer_set {
            if is_deadline {
                self.sub_running_bw(p, cpu, entity.bw);
            }
            if is_deadline && dead {
                self.dl.rq(cpu).this_bw -= entity.bw;
            }
            if !is_deadline || dead {
                self.dl_forget(task);
            }
            return;
        }
        reached(Mark::DlZeroLag);
        let entity = self.dl.entity(task);
        (entity.non_contending, entity.inactive_timer_set) = (true, true);
        let at = p.now(self.here) + zero_lag_ns as Ns;
        let last = self.dl.of(task).inactive_timer_cpu;
        let last = last.unwrap_or(self.tasks[task].forked_on);
        let on = self.arm_unpinned(p, Timer::Inactive(task), at, Some(last));
        self.dl.entity(task).inactive_timer_cpu = on;
    }

    /// A sleeper wakes, on a CPU that it may be new on (`task_contending`).
    pub(super) fn dl_contends<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        migrated: bool,
    ) {
        let bw = self.dl.of(task).bw;
        if migrated {
            self.dl.rq(cpu).this_bw += bw;
        }
        if self.dl.of(task).non_contending {
            self.dl_contends_again(p, task);
        } else {
            self.add_running_bw(p, cpu, bw);
        }
    }

    /// The 0-lag time of a task has come (`inactive_task_timer`), on `cpu`.
    #[cold]
    #[inline(never)]
    pub fn dl_inactive_timer<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        self.here = cpu;
        let entity = self.dl.entity(task);
        entity.inactive_timer_set = false;
        let reaped = entity.reaped;
        let record = &self.tasks[task];
        let (of, dead) = (record.cpu, record.state == TaskState::Dead);
        let leaves = dead || record.policy != Policy::Deadline;
        self.update_rq_clock(p, of);
        let entity = self.dl.of(task);
        if entity.non_contending && (dead || !leaves) {
            self.sub_running_bw(p, of, entity.bw);
            self.dl.entity(task).non_contending = false;
            if dead {
                self.dl.rq(of).this_bw -= entity.bw;
            }
        }
        if leaves {
            self.dl_forget(task);
        }
        if reaped {
            self.task_reap(task);
        }
    }

    /// Runtime that running for `delta` takes (`dl_scaled_delta_exec`).
    pub(super) fn dl_scaled(&self, cpu: Cpu, task: TaskId, delta: Ns) -> i64 {
        let (rq, dl) = (&self.rqs[cpu], &self.dl.rqs[cpu.index()]);
        let entity = self.dl.of(task);
        if !entity.reserved.reclaims {
            let at_frequency = (delta * rq.freq_scale) >> 10;
            return ((at_frequency * rq.cpu_capacity_orig) >> 10) as i64;
        }
        reached(Mark::DlReclaims);
        let unused = dl
            .this_bw
            .wrapping_sub(dl.running_bw)
            .wrapping_add(dl.extra_bw);
        let rate = if self.rules.grub_of_max_bw {
            let most = self.dl.max_bw;
            let rate = if unused > most.wrapping_sub(entity.bw) {
                entity.bw
            } else {
                most - unused
            };
            (rate * self.dl.bw_ratio) >> RATIO_SHIFT
        } else {
            let least = (entity.bw * self.dl.bw_ratio) >> RATIO_SHIFT;
            if unused > BW_UNIT - least {
                least
            } else {
                BW_UNIT - unused
            }
        };
        ((delta * rate) >> BW_SHIFT) as i64
    }

    /// Sets a timer on the executing CPU, or if that idles on one near it that does not, if that is
    /// not to fire before (`get_nohz_timer_target`, `hrtimer_suitable_target`). From 7.1 on a timer
    /// that was set here the last time stays while the tick runs or a reschedule is due
    /// (`hrtimer_prefer_local`). Returns where it is set, which is `last` the next time.
    pub(crate) fn arm_unpinned<P: Platform>(
        &self,
        p: &mut P,
        timer: Timer,
        at: Ns,
        last: Option<Cpu>,
    ) -> Option<Cpu> {
        let here = self.here;
        let rq = &self.rqs[here];
        let stays = self.rules.timers_stay_local
            && last.is_none_or(|last| last == here)
            && (rq.tick_running || rq.need_resched);
        let mut target = here;
        if !stays && self.idle_cpu(here) {
            let rows = self.domains.rows(here);
            let mut near = rows.flat_map(|row| self.domains.domain(row).span.iter());
            let busy = near.find(|&cpu| cpu != here && !self.idle_cpu(cpu));
            target = busy.filter(|&cpu| at >= p.next_expiry(cpu)).unwrap_or(here);
        }
        p.arm(target, timer, at);
        Some(target)
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::deadline::{reserve, set};
    use crate::tests::world::*;

    #[test]
    fn a_task_gives_its_reservation_back_only_if_it_leaves_its_root_domain() {
        // A tenth is 2^20 / 10 = 104,857. CPUs 2 and 3 are isolated.
        let topology = Topology {
            isolated: [Cpu(2), Cpu(3)].into_iter().collect(),
            ..Topology::regular(1, 1, 4, 1)
        };
        for (cpus, left) in [([1, 2], 104_857), ([2, 3], 0)] {
            let mut world = World::on(topology.clone(), "6.1", |_| {});
            let task = world.spawn_anywhere(Cpu(0));
            set(&mut world, task, reserve(10, 100, 100)).unwrap();
            let before = world.kernel.dl.total_bw;
            assert_eq!(before, [104_857, 0]);
            let allowed = cpus.map(Cpu).into_iter().collect();
            world.kernel.dl_leaves_domain(task, &allowed);
            assert_eq!(world.kernel.dl.total_bw, [left, 0]);
        }
    }
}
