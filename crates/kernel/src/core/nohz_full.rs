//! CPUs that have no tick while they run one task (`nohz_full=`, `CONFIG_NO_HZ_FULL`).
//!
//! Such a CPU stops its tick where an interrupt ends and nothing needs it
//! (`tick_nohz_full_update_tick`), and starts it when a second task comes (`TICK_DEP_BIT_SCHED`):
//! another CPU that queues one there sends it an interrupt (`tick_nohz_full_kick_cpu`). CPU 0 keeps
//! the time for all of them, so it never stops its own tick, and once a second it does for a CPU
//! without one what the tick would have done (`sched_tick_remote`). Rules of 4.17 and later.
//!
//! Worked example with HZ=1000: CPU 1 leaves idle for a task at 0.3 ms, and its tick stays stopped.
//! At 7.2 ms CPU 0 wakes a second task there: the interrupt starts the tick, which comes from 8 ms
//! on and shares the CPU out. One of the two sleeps at 9.5 ms; the tick at 10 ms finds the other
//! alone and is the last.

use crate::cpuset::CpuSet;
use crate::ids::{Cpu, EntityId, Ns, TaskId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::{Ipi, Op, Platform, Timer};
use crate::task::Policy;

/// CPU that keeps the time of all (`tick_do_timer_cpu`).
const TIMEKEEPER: Cpu = Cpu(0);
const SECOND_NS: Ns = 1_000_000_000;

impl Kernel {
    /// Whether what a CPU runs can do without its tick (`sched_can_stop_tick`).
    fn sched_can_stop_tick(&self, cpu: Cpu) -> bool {
        let rq = &self.rqs[cpu];
        if rq.dl_nr_running > 0 {
            return false;
        }
        if rq.rt.nr_running > 0 {
            let queued = rq.rt.queues.iter().flatten();
            let takes_turns = |task: &&TaskId| self.tasks[task].policy == Policy::RoundRobin;
            return queued.filter(takes_turns).count() < 2;
        }
        let queued = match self.rules.idle.top_level_keeps_tick {
            true => self.cfs_rqs[cpu].nr_queued,
            false => rq.nr_running,
        };
        queued < 2 && !(self.rules.idle.limits_keep_tick && self.runs_limited_task(cpu))
    }

    /// The only task of a CPU has a limit (`cfs_task_bw_constrained`).
    fn runs_limited_task(&self, cpu: Cpu) -> bool {
        let rq = &self.rqs[cpu];
        let task = &self.tasks[rq.curr];
        if rq.nr_running != 1 || !task.policy.is_fair() || !task.on_rq {
            return false;
        }
        let parent = |se: &EntityId| self.entities[se].parent;
        std::iter::successors(Some(task.se), parent).any(|se| {
            let q = self.entities[se].cfs_rq;
            self.cfs_rqs[q].runtime_enabled
        })
    }

    /// A CPU leaves the kernel: its tick starts or, where an interrupt ends, stops. The CPUs that
    /// need theirs from now on hear of it.
    #[cold]
    #[inline(never)]
    pub(crate) fn update_full_tick<P: Platform>(&mut self, p: &mut P, cpu: Cpu) {
        for other in std::mem::replace(&mut self.nohz.full_kicks, CpuSet::EMPTY).iter() {
            p.spend(cpu, Op::IpiSend, 1);
            p.send_ipi(cpu, other, Ipi::Call, false);
        }
        if !self.rqs[TIMEKEEPER].tick_running {
            // It idled when the machine started.
            self.rqs[TIMEKEEPER].tick_running = true;
            let next = self.next_tick(p.now(cpu));
            p.arm(TIMEKEEPER, Timer::Tick(TIMEKEEPER), next);
        }
        let rq = &mut self.rqs[cpu];
        let interrupt_ends = std::mem::take(&mut rq.in_interrupt);
        if rq.curr_is_idle() || !self.topology.nohz_full.contains(cpu) {
            return;
        }
        let runs = rq.tick_running;
        match self.sched_can_stop_tick(cpu) {
            false if !runs => self.start_tick(p, cpu),
            true if runs && interrupt_ends => {
                reached(Mark::FullTickStopped);
                self.rqs[cpu].tick_running = false;
                p.cancel(cpu, Timer::Tick(cpu));
                p.spend(cpu, Op::TickReprogram, 1);
            }
            _ => {}
        }
    }

    /// A task was queued on a CPU (`sched_update_tick_dependency`): if it runs without a tick and
    /// the task came from another CPU, it will be told.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_tick_dependency(&mut self, cpu: Cpu) {
        let rq = &self.rqs[cpu];
        let without = self.topology.nohz_full.contains(cpu) && !rq.tick_running;
        if without && cpu != self.here && !rq.curr_is_idle() && !self.sched_can_stop_tick(cpu) {
            self.nohz.full_kicks.insert(cpu);
        }
    }

    /// Whether a CPU keeps its tick while it idles, because CPUs without ticks rely on its time
    /// (`can_stop_idle_tick`).
    #[inline]
    pub(crate) fn keeps_time(&self, cpu: Cpu) -> bool {
        self.nohz.has_full && cpu == TIMEKEEPER
    }

    /// Whether a CPU that leaves idle has no need of a tick (`tick_nohz_idle_update_tick`).
    #[inline]
    pub(crate) fn leaves_idle_without_tick(&self, cpu: Cpu) -> bool {
        self.nohz.has_full && self.topology.nohz_full.contains(cpu) && self.sched_can_stop_tick(cpu)
    }

    /// Once a second the timekeeper's tick does what the ticks that are stopped would have done
    /// (`sched_tick_remote`).
    #[cold]
    #[inline(never)]
    pub(crate) fn tick_remote<P: Platform>(&mut self, p: &mut P, here: Cpu) {
        let second = self.rqs[here].clock / SECOND_NS;
        if here != TIMEKEEPER || second == self.nohz.remote_second {
            return;
        }
        self.nohz.remote_second = second;
        for row in 0..self.rqs.len() {
            let cpu = Cpu::from(row);
            let rq = &self.rqs[cpu];
            if !self.topology.nohz_full.contains(cpu) || rq.tick_running || rq.curr_is_idle() {
                continue;
            }
            reached(Mark::RemoteTick);
            p.spend(here, Op::TickLevel, 1);
            self.update_rq_clock(p, cpu);
            self.task_tick(p, cpu);
        }
    }
}
