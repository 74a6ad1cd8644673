//! A scenario, decision by decision.

use schedcast_kernel::Ns;
use schedcast_kernel::rules::Rules;
use schedcast_sim::{Explained, World};

use crate::error::Result;
use crate::experiment::Scenario;
use crate::simulator::{LOOK_EVERY_NS, Simulator, bad_input};

/// A world on its way through a scenario.
pub(super) struct Decisions {
    world: World<true>,
    /// Kernels that come into force, the next one last.
    changes: Vec<(Ns, Rules)>,
    /// `None`: until its programs end.
    end_ns: Option<Ns>,
}

impl Decisions {
    /// The world of a scenario at its start.
    ///
    /// # Errors
    /// Programs that cannot be built, limits that no kernel accepts.
    pub(super) fn start(simulator: &Simulator, scenario: &Scenario, seed: u64) -> Result<Self> {
        let (world, end_ns) = simulator.explaining_world(scenario, seed)?;
        let changes = scenario.changes.iter().rev().filter_map(|change| {
            let kernel = change.kernel.as_ref()?;
            Some((change.time_ns, kernel.rules.clone()))
        });
        Ok(Self {
            world,
            changes: changes.collect(),
            end_ns,
        })
    }

    /// The world as it is after the event of the last decisions.
    pub(super) fn world(&self) -> &World<true> {
        &self.world
    }

    /// Runs to the next event that has led to decisions; `None` at the end of the scenario.
    ///
    /// # Errors
    /// A program at fault.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Explained>>> {
        loop {
            if self.is_over() {
                return Ok(None);
            }
            let end_ns = self.end_ns.unwrap_or(self.world.now() + LOOK_EVERY_NS);
            let until = match self.changes.last() {
                Some((change_ns, _)) => end_ns.min(*change_ns),
                None => end_ns,
            };
            let event = self.world.run_to_decisions(until).map_err(bad_input)?;
            if !event.is_empty() {
                return Ok(Some(event));
            }
            if let Some((change_ns, rules)) = self.changes.pop_if(|(at_ns, _)| *at_ns <= until) {
                debug_assert_eq!(change_ns, until);
                self.world.set_rules(rules);
            }
        }
    }

    fn is_over(&self) -> bool {
        let now = self.world.now();
        match self.end_ns {
            Some(end_ns) => now >= end_ns,
            None => now > 0 && !self.world.awaits_tasks(),
        }
    }
}
