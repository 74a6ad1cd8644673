//! Watching a run: every event, handed on in pieces, so that memory does not grow with time.
//!
//! Worked example: with steps of 1 ms, a watched run of 3 ms calls [`Watch::events`] three times,
//! with what happened up to 1, 2 and 3 ms. Between two calls the world does exactly what it does
//! when nobody watches: event hashes are equal.

use super::World;
use super::error::RunError;
use crate::events::{TraceEvent, TraceKind};
use schedcast_kernel::{Ns, TaskId};

/// Observer of a run.
pub trait Watch {
    /// Events since the last call, in the order in which they were decided. Times
    /// of different CPUs may overlap by the length of a kernel operation. `world` is as it is
    /// after these events.
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
        let mut shown = match self.out.now {
            0 => self.sleepers(),
            _ => Vec::new(),
        };
        while self.out.now < until.min(self.out.end_ns) {
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

    /// The machine's own threads, which were there before the run and so before the observation.
    fn sleepers(&self) -> Vec<TraceEvent> {
        let contexts = (0..self.out.tasks.contexts.len()).map(TaskId::from);
        let of_machine = |task: &TaskId| self.out.is_of_machine(self.out.tasks.contexts[task].name);
        let start = |task: TaskId| TraceEvent {
            time: 0,
            cpu: self.kernel.tasks[task].cpu,
            event: TraceKind::Start { task },
        };
        contexts.filter(of_machine).map(start).collect()
    }
}
