//! Watching a run: every event, handed on in pieces, so that memory does not grow with time.
//!
//! Worked example: with steps of 1 ms, a watched run of 3 ms calls [`Watch::events`] three times, with
//! what happened up to 1, 2 and 3 ms. Between two calls the world does exactly what it does when nobody
//! watches: event hashes are equal.

use super::World;
use super::error::RunError;
use crate::events::TraceEvent;
use schedcast_kernel::Ns;

/// Someone who watches a run.
pub trait Watch {
    /// What happened since the last call, in the order in which it was decided; times of different
    /// CPUs may overlap by the length of a kernel operation. `world` is as it is after these events.
    fn events(&mut self, world: &mut World, events: &[TraceEvent]);
}

impl World {
    /// Like [`World::run_until`], showing every event to `watch` in steps of `step_ns`.
    ///
    /// # Errors
    /// A program at fault; the world stays at the time of the fault.
    pub fn run_watched(
        &mut self,
        until: Ns,
        step_ns: Ns,
        watch: &mut dyn Watch,
    ) -> Result<(), RunError> {
        let before = self.out.probes.trace.take();
        let mut shown = Vec::new();
        while self.out.now < until {
            let step_end = self.out.now.saturating_add(step_ns.max(1)).min(until);
            self.out.probes.trace = Some(std::mem::take(&mut shown));
            let result = self.handle_events(step_end);
            shown = self.out.probes.trace.take().unwrap_or_default();
            watch.events(self, &shown);
            shown.clear();
            result?;
        }
        self.out.probes.trace = before;
        self.settle();
        Ok(())
    }
}
