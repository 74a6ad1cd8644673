//! Which CPU a waking, starting or executing task goes to.
//!
//! | room | rules |
//! |---|---|
//! | `wakee` | who wakes whom: `record_wakee`, `wake_wide` |
//! | `affine` | the waking or the previous CPU: `wake_affine` |
//! | `sibling` | an idle CPU near it: `select_idle_sibling` |
//! | `scan` | the search through the last level cache |
//! | `capacity` | an idle CPU that is large enough, where capacities are unequal |
//! | `claims` | idle CPUs that were chosen and do not show it yet |
//! | `energy` | the CPU that costs least energy, where the machine has an energy model |
//! | `idlest` | the idlest CPU of the machine, for fork and exec |
//! | `pack` | the waker's CPU while it has room, on one provider's kernel |
//!
//! Worked example (6.18, 8 CPUs, one LLC): a pipe writer on CPU 2 wakes the reader, which last ran
//! on CPU 5, and announces that it will sleep. Neither wakes many tasks, so the wakeup is affine;
//! CPU 2 runs only the writer, so CPU 2 is the target. It is not idle, but CPU 5 is, shares the
//! cache and still has the reader's data: CPU 5.

mod affine;
mod capacity;
mod claims;
mod energy;
mod idlest;
mod pack;
mod rules;
mod scan;
mod sibling;
#[cfg(test)]
pub(crate) mod tests;
mod wakee;

use crate::balance::Why;
use crate::explain::{Decision, Placement};
use crate::ids::{Cpu, TaskId};
use crate::kernel::{Kernel, WakeFlags};
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::hooks::Waking;
use crate::task::Policy;

pub(crate) use claims::Claims;
pub(crate) use rules::{IdleScan, IdlestGroup, PlacementRules, SchedIdleCpus, WakeAffine};
#[cfg(test)]
pub(crate) use wakee::wake_wide;

/// Why a CPU is sought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeKind {
    /// A sleeper wakes.
    Wakeup,
    /// A new task starts.
    Fork,
    /// A task executes a new program.
    Exec,
}

impl Kernel {
    /// `select_task_rq_fair`: the fast path near the waking or previous CPU for wakeups, the slow
    /// path through the machine for fork and exec. The CPU returned may be forbidden by affinity
    /// when that changed while the task slept.
    pub(crate) fn select_task_rq_fair<P: Platform>(
        &mut self,
        p: &mut P,
        waker_cpu: Cpu,
        task: TaskId,
        kind: WakeKind,
        flags: WakeFlags,
    ) -> Cpu {
        let prev_cpu = self.tasks[task].cpu;
        if P::EXPLAIN {
            self.domains.why = Why::default();
        }
        self.domains.places_idle_policy = self.tasks[task].policy == Policy::Idle;
        let packs = self.rules.placement.vcpu_pack
            && self.tasks[task].affinity.contains(waker_cpu)
            && self.vcpu_pack_room(waker_cpu, task);
        let cpu = match kind {
            _ if packs => {
                self.because::<P>(Mark::VcpuPackRoom);
                waker_cpu
            }
            WakeKind::Wakeup => self.select_near(p, waker_cpu, prev_cpu, task, flags),
            _ => self.select_idlest(p, waker_cpu, prev_cpu, task, kind),
        };
        if P::EXPLAIN {
            let why = &mut self.domains.why;
            let decision = Decision::Place(Placement {
                task,
                kind,
                waker: self.rqs[waker_cpu].curr,
                waker_cpu,
                sync: flags.sync,
                prev_cpu,
                target: why.target.0,
                target_rule: why.target.1,
                cpu,
                rule: why.rule,
                near_first: why.near_first,
                examined: why.examined,
                scan_limit: why.scan_limit,
                energies: std::mem::take(&mut why.energies),
                idle: self.domains.idle,
            });
            p.explain(waker_cpu, decision);
        }
        cpu
    }

    /// Wakeups: near the waking or the previous CPU.
    fn select_near<P: Platform>(
        &mut self,
        p: &mut P,
        waker_cpu: Cpu,
        prev: Cpu,
        task: TaskId,
        flags: WakeFlags,
    ) -> Cpu {
        let waker = self.rqs[waker_cpu].curr;
        self.record_wakee(p, waker, task);
        if self.goes_by_energy()
            && let Some(cpu) = self.find_energy_efficient_cpu(p, waker_cpu, prev, task)
        {
            return cpu;
        }
        let wide = self.wakes_wide(waker_cpu, waker, task);
        if wide {
            reached(Mark::WakeWide);
        }
        let affine = !wide
            && !self.rules.placement.vcpu_pack
            && self.tasks[task].affinity.contains(waker_cpu);
        let mut target = prev;
        let mut rule = if waker_cpu == prev {
            Mark::WakerIsPrev
        } else {
            Mark::NotAffine
        };
        if affine && waker_cpu != prev {
            let common = self.domains.rows(waker_cpu).find(|&row| {
                let domain = self.domains.domain(row);
                domain.flags.wake_affine && domain.span.contains(prev)
            });
            if let Some(row) = common {
                let exits = self.tasks[waker].exiting;
                let wake = Waking {
                    task,
                    waker_cpu,
                    prev,
                    sync: flags.sync && !(exits && self.rules.placement.exit_is_not_sync),
                };
                self.note_jiffy(p);
                (target, rule) = self.wake_affine(row, wake);
            }
        }
        reached(rule);
        if P::EXPLAIN {
            self.domains.why.target = (target, rule);
        }
        let chosen = self.select_idle_sibling(p, waker_cpu, task, prev, target, flags.context);
        if affine && self.rules.recent_used_cpu && self.rules.placement.recent_used_cpu_of_waker {
            self.tasks[waker].recent_used_cpu = waker_cpu;
        }
        chosen
    }

    /// Fork and exec: from the highest domain that balances them downwards.
    #[inline(never)]
    fn select_idlest<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        prev: Cpu,
        task: TaskId,
        kind: WakeKind,
    ) -> Cpu {
        self.note_jiffy(p);
        let mut highest = None;
        for row in self.domains.rows(cpu) {
            if !self.balances(row, kind) {
                break;
            }
            highest = Some(row);
        }
        self.because::<P>(match (kind, highest) {
            (_, None) => Mark::NoForkDomain,
            (WakeKind::Exec, _) => Mark::ExecIdlest,
            _ => Mark::ForkIdlest,
        });
        match highest {
            Some(row) => self.find_idlest_cpu(p, row, task, cpu, prev, kind),
            None => prev,
        }
    }

    /// Whether a domain balances at fork or exec.
    #[inline]
    pub(super) fn balances(&self, row: u32, kind: WakeKind) -> bool {
        let flags = &self.domains.domain(row).flags;
        match kind {
            WakeKind::Wakeup => false,
            WakeKind::Fork => flags.balance_fork,
            WakeKind::Exec => flags.balance_exec,
        }
    }

    /// An allowed CPU for a task whose chosen CPU is not: of the same node if possible
    /// (`select_fallback_rq`).
    #[cold]
    #[inline(never)]
    pub(crate) fn select_fallback_rq(&self, task: TaskId) -> Cpu {
        let record = &self.tasks[task];
        let node = self.domains.node_of[record.cpu.index()] as usize;
        let near = self.domains.nodes[node].and(&record.affinity).lowest();
        near.or_else(|| record.affinity.lowest())
            .unwrap_or(record.cpu)
    }
}
