//! Worlds that tell what their scheduler decided.
//!
//! Worked example: two tasks on one CPU. `run_to_decisions(10 ms)` returns after the event at which
//! the second task woke, with one [`Decision::Place`] (where it goes) and one [`Decision::Preempt`]
//! (whether it takes the CPU); the world still is at that moment, so its queues can be looked at.

use std::sync::Arc;

use schedcast_kernel::explain::Decision;
use schedcast_kernel::rules::Rules;
use schedcast_kernel::{Cpu, Kernel, Ns};

use super::{RunError, World};
use crate::machine::Machine;
use crate::workload::Workload;
use crate::workload_check::WorkloadError;

/// A decision, and where and when it was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// When, on the clock of the CPU that made it.
    pub time_ns: Ns,
    /// CPU it is about.
    pub cpu: Cpu,
    /// Decision, and the reason for it.
    pub decision: Decision,
}

impl World<true> {
    /// A world like that of [`World::new`], event for event, which keeps every decision until
    /// [`World::run_to_decisions`] hands it over.
    ///
    /// # Errors
    /// Those of [`World::new`].
    pub fn explaining(
        machine: Machine,
        rules: Rules,
        workload: impl Into<Arc<Workload>>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        let kernel = Kernel::new(machine.topology.clone(), rules);
        Self::build(machine, kernel, workload.into(), seed)
    }

    /// Runs like [`World::run_until`] of other worlds.
    ///
    /// # Errors
    /// Those of that.
    pub fn run_until(&mut self, until: Ns) -> Result<(), RunError> {
        self.advance(until)
    }

    /// Runs until an event has led to decisions, at most until virtual time `until`; returns them
    /// in order. None means that `until` is reached.
    ///
    /// # Errors
    /// Those of [`World::run_until`].
    pub fn run_to_decisions(&mut self, until: Ns) -> Result<Vec<Explained>, RunError> {
        self.out.limit = until.min(self.out.end_ns);
        while self.out.decisions.is_empty() {
            if !self.step(self.out.limit)? {
                self.out.now = self.out.now.max(self.out.limit);
                break;
            }
        }
        Ok(std::mem::take(&mut self.out.decisions))
    }
}
