//! Several futures of one past: a world is copied, and each copy meets changes of its own.
//!
//! Worked example: a group gets more quota at 50 s in one run and at 55 s in another. One world
//! runs through the first 49.999 999 999 s ([`World::run_on`]), a copy of it is told its own
//! changes ([`World::replace_changes`]), and both go on as if they had been alone from the start:
//! event hashes are equal to those of two whole runs.

use std::sync::Arc;

use super::World;
use super::error::RunError;
use super::outside::{Shared, Source};
use crate::wheel::{Key, Slot};
use crate::workload::{GroupChange, Workload};
use crate::workload_check::WorkloadError;
use schedcast_kernel::Ns;

impl World {
    /// Like [`World::run_until`], but statistics stay where the last events brought them: the run
    /// is to go on, and accounts for that time when it does.
    ///
    /// # Errors
    /// A program at fault; the world stays at the time of the fault.
    pub fn run_on(&mut self, until: Ns) -> Result<(), RunError> {
        self.handle_events(until)
    }

    /// Replaces the timed changes of the workload; the first ones must be those that were already
    /// made.
    ///
    /// # Errors
    /// Changes that descend in time, groups that do not exist, values out of range. Nothing is
    /// replaced then.
    pub fn replace_changes(&mut self, changes: Vec<GroupChange>) -> Result<(), WorkloadError> {
        let out = &mut self.out;
        let workload = Workload {
            changes,
            ..(*out.shared.workload).clone()
        };
        workload.check_changes()?;
        let sources = out.cpus.len() * super::outside::per_cpu::COUNT as usize;
        let source = out.sources.iter().position(|one| *one == Source::Changes);
        let slot = Slot((sources + source.expect("every world has its changes")) as u32);
        out.wheel.disarm(slot);
        if let Some(next) = workload.changes.get(out.next_change) {
            let key = Key::new(next.at_ns, super::outside::class::CHANGE);
            out.wheel.arm(slot, key);
        }
        out.shared = Arc::new(Shared {
            workload: Arc::new(workload),
            ..(*out.shared).clone()
        });
        Ok(())
    }
}
