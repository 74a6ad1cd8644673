//! Becoming a deadline task, changing the reservation, leaving the class.
//!
//! Worked example: a task of 10 ms in 100 becomes a fair one with 4 ms left and its deadline 60 ms
//! away. It is fair at once, and its tenth of a CPU is reserved until its 0-lag time, 20 ms from
//! now. If it comes back before the deadline, it finds its 4 ms.

use super::{Reservation, before, to_ratio};
use crate::cpuset::CpuSet;
use crate::ids::{Cpu, Ns, TaskId};
use crate::kernel::Kernel;
use crate::platform::{Platform, Timer};
use crate::rules::Version;
use crate::task::Policy;
use std::fmt;

/// Periods that are accepted (`sched_deadline_period_min_us`, `sched_deadline_period_max_us`).
const PERIODS_NS: std::ops::RangeInclusive<Ns> = 100_000..=(1 << 22) * 1000;
/// Shortest runtime.
const SHORTEST_RUNTIME_NS: Ns = 1 << super::DL_SCALE;
/// The oldest release whose rules of this class are known.
pub const OLDEST: Version = Version::new(6, 1);

/// A reservation that the kernel does not accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The refused reservation.
    pub(crate) asked: Reservation,
    /// Why it was refused.
    pub(crate) why: RefusedFor,
}

/// Why a reservation is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusedFor {
    /// The class of this release is not known here.
    Release(Version),
    /// Runtime, deadline and period do not fit each other or the kernel's bounds (EINVAL).
    Parameters,
    /// More than may be reserved (EBUSY): all that may, and what others have, in 2^20ths of a CPU.
    Bandwidth {
        /// Bandwidth of all CPUs that may be reserved.
        capacity_bw: u64,
        /// Bandwidth that other tasks have reserved, fair servers included.
        others_bw: u64,
    },
    /// The task may not run on every CPU (EPERM, or EBUSY when the affinity of such a task is
    /// changed).
    Affinity,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reservation {
            runtime_ns,
            deadline_ns,
            period_ns,
            ..
        } = self.asked;
        let us = |ns: Ns| ns as f64 / 1e3;
        let cpus = |bw: u64| bw as f64 / f64::from(1 << super::BW_SHIFT);
        write!(f, "SCHED_DEADLINE with a runtime of {} us", us(runtime_ns))?;
        write!(f, ", a deadline of {} us", us(deadline_ns))?;
        write!(f, " and a period of {} us is refused: ", us(period_ns))?;
        match self.why {
            RefusedFor::Release(version) => {
                write!(
                    f,
                    "the class is modelled from {OLDEST} on, this is {version}"
                )
            }
            RefusedFor::Parameters => write!(
                f,
                "expected {} us <= runtime <= deadline <= period, and a period from {} to {} us",
                us(SHORTEST_RUNTIME_NS),
                us(*PERIODS_NS.start()),
                us(*PERIODS_NS.end())
            ),
            RefusedFor::Bandwidth {
                capacity_bw,
                others_bw,
            } => write!(
                f,
                "{:.3} CPUs may be reserved (kernel.sched_rt_runtime_us), {:.3} are, and this is {:.3}",
                cpus(capacity_bw),
                cpus(others_bw),
                cpus(to_ratio(period_ns, runtime_ns))
            ),
            RefusedFor::Affinity => write!(
                f,
                "such a task must be allowed on every CPU unless kernel.sched_rt_runtime_us is -1"
            ),
        }
    }
}

impl std::error::Error for Refused {}

impl Reservation {
    /// Whether runtime, deadline and period fit each other and the kernel's bounds
    /// (`__checkparam_dl`).
    pub fn is_valid(&self) -> bool {
        SHORTEST_RUNTIME_NS <= self.runtime_ns
            && self.runtime_ns <= self.deadline_ns
            && self.deadline_ns <= self.period_ns
            && PERIODS_NS.contains(&self.period_ns)
    }
}

impl Kernel {
    /// Makes a task a deadline task, or gives one another reservation (`sched_setattr`), from
    /// `cpu`.
    ///
    /// # Errors
    /// When the kernel refuses that.
    pub fn set_deadline<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        asked: Reservation,
    ) -> Result<(), Refused> {
        let refused = |why| Err(Refused { asked, why });
        let version = self.rules.version;
        if version < OLDEST {
            return refused(RefusedFor::Release(version));
        }
        if !asked.is_valid() {
            return refused(RefusedFor::Parameters);
        }
        let unchanged =
            self.tasks[task].policy == Policy::Deadline && self.dl.of(task).reserved == asked;
        if !unchanged && !self.dl_may_be_pinned(task, &self.tasks[task].affinity) {
            return refused(RefusedFor::Affinity);
        }
        self.set_deadline_nocheck(p, cpu, task, asked)
    }

    /// The same from within the kernel, whatever the task's affinity (`sched_setattr_nocheck`).
    ///
    /// # Errors
    /// When the reservation does not fit.
    pub fn set_deadline_nocheck<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        asked: Reservation,
    ) -> Result<(), Refused> {
        self.here = cpu;
        self.dl.used = true;
        self.update_rq_clock(p, self.tasks[task].cpu);
        let is_deadline = self.tasks[task].policy == Policy::Deadline;
        if is_deadline && self.dl.of(task).reserved == asked {
            return Ok(());
        }
        self.dl_admit(p, task, &asked)?;
        self.change_class(p, task, Policy::Deadline, None, 0, Some(asked));
        Ok(())
    }

    /// Whether a deadline task may have an affinity: that of its whole root domain
    /// (`dl_task_check_affinity`).
    fn dl_may_be_pinned(&self, task: TaskId, allowed: &CpuSet) -> bool {
        let span = self.topology.root_span(self.tasks[task].cpu);
        self.dl.limit_bw.is_none() || span.is_subset(allowed)
    }

    /// Whether a task may get another affinity.
    ///
    /// # Errors
    /// When it is a deadline task and the kernel refuses that.
    pub fn check_affinity(&self, task: TaskId, allowed: &CpuSet) -> Result<(), Refused> {
        let is_deadline = self.tasks[task].policy == Policy::Deadline;
        if is_deadline && !self.dl_may_be_pinned(task, allowed) {
            return Err(Refused {
                asked: self.dl.of(task).reserved,
                why: RefusedFor::Affinity,
            });
        }
        Ok(())
    }

    /// The static part of a reservation (`__setparam_dl`).
    pub(crate) fn dl_set_parameters(&mut self, task: TaskId, asked: Reservation) {
        let entity = self.dl.entity(task);
        entity.reserved = asked;
        entity.bw = to_ratio(asked.period_ns, asked.runtime_ns);
        entity.density = to_ratio(asked.deadline_ns, asked.runtime_ns);
    }

    /// `switched_from_dl`.
    pub(crate) fn switched_from_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let queued = self.tasks[task].on_rq;
        if queued {
            self.dl_stops_contending(p, task);
        } else {
            let entity = self.dl.of(task);
            if entity.non_contending {
                self.sub_running_bw(p, cpu, entity.bw);
            }
            self.dl.rq(cpu).this_bw -= entity.bw;
        }
        self.dl.entity(task).non_contending = false;
        if queued && self.rqs[cpu].dl_nr_running == 0 {
            self.dl_queue_pull(cpu);
        }
    }

    /// `switched_to_dl`.
    pub(crate) fn switched_to_dl<P: Platform>(&mut self, p: &mut P, cpu: Cpu, task: TaskId) {
        let entity = self.dl.entity(task);
        if std::mem::take(&mut entity.inactive_timer_set) {
            p.cancel(self.here, Timer::Inactive(task));
        }
        if !self.tasks[task].on_rq {
            let bw = self.dl.of(task).bw;
            self.dl.rq(cpu).this_bw += bw;
            return;
        }
        if self.rqs[cpu].curr == task {
            self.update_dl_rq_load_avg(cpu, false);
            return;
        }
        if self.tasks[task].nr_cpus_allowed > 1 && self.dl.overloaded.contains(cpu) {
            self.dl_queue_push(cpu);
        }
        if self.runs_deadline_task(cpu) {
            self.wakeup_preempt_dl(p, cpu, task);
        } else {
            self.resched_curr(p, cpu);
        }
    }

    /// Another reservation of a deadline task, whose deadline was `old_ns` (`prio_changed_dl`).
    pub(crate) fn prio_changed_dl<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        task: TaskId,
        old_ns: Ns,
    ) {
        if !self.tasks[task].on_rq {
            return;
        }
        let own = self.dl.of(task).deadline_ns;
        let pulls = if self.rules.dl_change_compares {
            if own == old_ns {
                return;
            }
            before(old_ns, own)
        } else {
            !self.dl.overloaded.contains(cpu)
        };
        if pulls {
            self.dl_queue_pull(cpu);
        }
        let curr = self.rqs[cpu].curr;
        let resched = if curr == task || !self.rules.dl_change_asks_running {
            before(self.dl.rqs[cpu.index()].earliest_ns, own)
        } else {
            !self.runs_deadline_task(cpu) || before(own, self.dl.of(curr).deadline_ns)
        };
        if resched {
            self.resched_curr(p, cpu);
        }
    }
}
