//! Observations that come later than one that follows from them.
//!
//! The kernel executes an operation at once, but what it does to the outside is observed when the
//! CPU gets there, on machines with contended lines after its waits for them. Meanwhile another CPU
//! acts upon the new state, and what it does may be observed first.
//!
//! Worked example: CPU 0 preempts a task, and waits for a line. CPU 1 pulls the task and switches
//! to it at 70 ns; only then the switch away from it on CPU 0, at 60 ns, is observed. The task ran
//! on CPU 0 until 60, waited for 10 ns, and has been running on CPU 1 since 70. It does not wait.

use super::{NEVER, NOBODY, Probes};
use schedcast_kernel::platform::PrevState;
use schedcast_kernel::{Cpu, Ns, TaskId};

/// An activation whose end is observed after the wakeup that follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overtaken {
    task: TaskId,
    activated_at: Ns,
    turned_at: Ns,
}

impl Probes {
    /// When a task was switched to that runs now, as far as switches were observed.
    #[inline(always)]
    fn runs_since(&self, task: TaskId) -> Option<Ns> {
        let probe = &self.tasks[task];
        let runs = self.current[probe.runs_on].task == task;
        runs.then_some(probe.switched_to_at)
    }

    /// When a task was switched to, if that was observed before the wakeup that led to it.
    #[inline(always)]
    pub(super) fn runs_ahead(&self, task: TaskId) -> Option<Ns> {
        let overtaken = self.tasks[task].is_overtaken;
        self.runs_since(task).filter(|_| !overtaken)
    }

    /// Whether a wakeup comes after the switch that follows from it, or before the switch that it
    /// follows.
    #[inline(always)]
    pub(super) fn wakes_out_of_order(&self, task: TaskId) -> bool {
        self.tasks[task].activated_at != NEVER || self.runs_since(task).is_some()
    }

    /// Such a wakeup begins.
    #[cold]
    #[inline(never)]
    pub(super) fn wakes_late_or_early(&mut self, now: Ns, task: TaskId) {
        let runs_since = self.runs_since(task);
        let probe = &mut self.tasks[task];
        // Its block was observed, so it runs because of this wakeup.
        let ahead = runs_since.filter(|_| probe.sleeps);
        if ahead.is_none() {
            probe.is_overtaken = true;
            self.overtaken.push(Overtaken {
                task,
                activated_at: probe.activated_at,
                turned_at: probe.turned_at,
            });
        }
        (probe.activated_at, probe.turned_at, probe.woken_at) = (now, now, now);
        probe.sleeps = false;
        if let Some(since) = ahead {
            probe.woken_at = NEVER;
            let statistics = &mut self.names[probe.statistics as usize];
            let latency_ns = since.saturating_sub(now);
            statistics.wakeup_latency.record(latency_ns);
        }
    }

    /// The whole wait of a task that was observed to run first.
    #[cold]
    #[inline(never)]
    pub(super) fn waited_until(&mut self, now: Ns, since: Ns, task: TaskId) {
        let row = self.tasks[task].statistics;
        if row != NOBODY {
            self.names[row as usize].wait_contention_ns += since.saturating_sub(now);
        }
    }

    /// # Panics
    /// When a task runs and waits for a CPU at once.
    pub(crate) fn check(&self) {
        for (row, current) in self.current.iter().enumerate() {
            let task = current.task.index();
            let Some(probe) = self.tasks.get(task).filter(|one| one.statistics != NOBODY) else {
                continue;
            };
            // Its switch away from this CPU may still be to be observed.
            let leaves = probe.is_overtaken || probe.runs_on.index() != row;
            let since = probe.waiting_since;
            assert!(
                since == NEVER || leaves,
                "task {task} runs on CPU {row}, and waits since {since} ns"
            );
        }
    }

    /// A switch away from a task that has been woken or switched to since, on this CPU or another.
    #[cold]
    #[inline(never)]
    pub(super) fn leaves_late(&mut self, now: Ns, cpu: Cpu, task: TaskId, state: PrevState) {
        match state {
            PrevState::Runnable | PrevState::Throttled => {
                if self.tasks[task].runs_on == cpu {
                    self.begin_wait(now, cpu, task);
                } else if let Some(since) = self.runs_since(task) {
                    self.waited_until(now, since, task);
                }
            }
            PrevState::Blocked | PrevState::Dead => {
                let probe = &mut self.tasks[task];
                probe.is_overtaken = false;
                let statistics = &mut self.names[probe.statistics as usize];
                let place = self.overtaken.iter().position(|one| one.task == task);
                if let Some(place) = place {
                    let one = self.overtaken.swap_remove(place);
                    statistics.end_activation(now, one.activated_at, one.turned_at);
                }
            }
        }
    }
}
