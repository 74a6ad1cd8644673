//! Whether a run comes to the same end however often it is run, and whoever looks at it.
//!
//! Worked example: a scenario is run in one go, once more, and a third time in steps of random
//! length, after each of which somebody asks for the energy so far. The first two have the event
//! hash `8be0…`, the third has `17c4…`. All are run once more with their events kept: event 4,711
//! of the first is a switch on CPU 2 at 1,203,182 ns, of the third one at 1,203,190 ns. That is
//! where to look.

use schedcast_kernel::Ns;
use schedcast_sim::events::TraceEvent;
use schedcast_sim::random::SplitMix;
use schedcast_sim::{RunError, Watch, World};

use crate::error::Result;
use crate::experiment::Scenario;
use crate::outcome::Outcome;
use crate::simulator::Simulator;

schedcast_base::named! {
    /// How a run is made.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Way {
        /// From the start to the end in one go.
        Whole = "the run in one go",
        /// The same, once more.
        Again = "a second run",
        /// In steps, with everything that can be asked in between.
        LookedAt = "a run that is looked at",
    }
}

impl Way {
    /// Outcome of a scenario under a seed.
    ///
    /// # Errors
    /// As for [`Simulator::finish`].
    pub fn outcome(self, simulator: &Simulator, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut dice = SplitMix(seed);
        let run = &mut |world: &mut World, until| self.run(world, until, &mut dice);
        Ok(simulator.finish_by(scenario, seed, run)?.outcome())
    }

    /// The same with every event of it, which takes memory.
    fn events(
        self,
        simulator: &Simulator,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Vec<TraceEvent>> {
        let mut dice = SplitMix(seed);
        let run = &mut |world: &mut World, until| {
            let kept = &mut world.probes_mut().trace;
            kept.get_or_insert_default();
            self.run(world, until, &mut dice)
        };
        let mut finished = simulator.finish_by(scenario, seed, run)?;
        let kept = finished.world.probes_mut().trace.take();
        Ok(kept.unwrap_or_default())
    }

    fn run(
        self,
        world: &mut World,
        until: Ns,
        dice: &mut SplitMix,
    ) -> std::result::Result<(), RunError> {
        match self {
            Way::Whole | Way::Again => world.run_until(until),
            Way::LookedAt => run_looked_at(world, until, dice),
        }
    }
}

/// Lets a world run in steps of random length, in several ways, and asks after each for something.
fn run_looked_at(
    world: &mut World,
    until: Ns,
    dice: &mut SplitMix,
) -> std::result::Result<(), RunError> {
    let longest = 1 + until.saturating_sub(world.now()) / 4;
    while world.now() < until && !world.is_over() {
        let step_ns = 1 + dice.below(longest);
        let next = (world.now() + step_ns).min(until);
        match dice.below(4) {
            0 => world.run_on(next)?,
            // Watching takes the events, which somebody may want.
            1 if world.probes().trace.is_none() => {
                world.run_watched(next, 1 + step_ns / 3, &mut Nobody)?;
            }
            _ => world.run_until(next)?,
        }
        match dice.below(4) {
            0 => drop(world.hardware_report()),
            1 => drop(world.unfinished()),
            2 => *world = world.clone(),
            _ => drop(world.package_joules()),
        }
    }
    world.run_until(until)
}

/// Observer that sees everything and does nothing.
pub struct Nobody;

impl Watch for Nobody {
    fn events(&mut self, _world: &mut World, _events: &[TraceEvent]) {}
}

/// Where a run parts from the run in one go.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The other run.
    pub way: Way,
    /// How many events both have in common.
    pub common: usize,
    /// Next event in the run in one go and in the other; `None` = the run is over.
    pub next: [Option<TraceEvent>; 2],
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [first, other] = self.next.map(|event| match event {
            Some(TraceEvent { time, cpu, event }) => format!("{time} ns, CPU {}: {event:?}", cpu.0),
            None => "nothing more".to_string(),
        });
        let (way, common) = (self.way.name(), self.common);
        write!(
            f,
            "{way} parts after {common} events: it has {other}; {} has {first}",
            Way::Whole.name()
        )
    }
}

/// Runs a scenario in all ways: the hash of their events when all come to the same, else where the
/// first other one parts.
///
/// # Errors
/// As for [`Simulator::finish`].
pub fn check(
    simulator: &Simulator,
    scenario: &Scenario,
    seed: u64,
) -> Result<std::result::Result<u64, Difference>> {
    let hash = |way: Way| {
        way.outcome(simulator, scenario, seed)
            .map(|one| one.event_hash)
    };
    let whole = hash(Way::Whole)?;
    for way in [Way::Again, Way::LookedAt] {
        if hash(way)? != whole {
            let first = Way::Whole.events(simulator, scenario, seed)?;
            let other = way.events(simulator, scenario, seed)?;
            return Ok(Err(part(way, &first, &other)));
        }
    }
    Ok(Ok(whole))
}

fn part(way: Way, first: &[TraceEvent], other: &[TraceEvent]) -> Difference {
    let pairs = first.iter().zip(other);
    let common = pairs.take_while(|(first, other)| first == other).count();
    Difference {
        way,
        common,
        next: [first, other].map(|events| events.get(common).copied()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{self, Surroundings};
    use schedcast_kernel::{Cpu, TaskId};
    use schedcast_sim::events::TraceKind;

    #[test]
    fn the_first_event_at_which_two_runs_part_is_named() {
        let start = |time, task| TraceEvent {
            time,
            cpu: Cpu(1),
            event: TraceKind::Start { task: TaskId(task) },
        };
        let first = [start(5, 1), start(7, 2), start(9, 3)];
        let late = part(Way::LookedAt, &first, &[start(5, 1), start(8, 2)]);
        assert_eq!(late.common, 1);
        assert_eq!(
            late.to_string(),
            "a run that is looked at parts after 1 events: it has 8 ns, CPU 1: Start { task: TaskId(2) }; \
             the run in one go has 7 ns, CPU 1: Start { task: TaskId(2) }"
        );
        let short = part(Way::Again, &first, &first[..2]);
        assert_eq!(short.next, [Some(start(9, 3)), None]);
    }

    #[test]
    fn a_run_is_the_same_however_it_is_run() {
        let words = ["schbench", "-m", "1", "-t", "3", "-r", "1"].map(str::to_string);
        let document = experiment::command_document(&words, None);
        let mut read = experiment::read(&document, &Surroundings::default()).unwrap();
        read.scenarios[0].duration_ns = Some(50_000_000);
        let simulator = Simulator::new().drawing();
        let outcome = |way: Way| way.outcome(&simulator, &read.scenarios[0], 3).unwrap();
        let checked = check(&simulator, &read.scenarios[0], 3).unwrap();
        assert_eq!(checked, Ok(outcome(Way::Whole).event_hash));
        assert!(outcome(Way::Whole).metrics.len() > 10);
        assert_eq!(outcome(Way::LookedAt), outcome(Way::Whole));
    }
}
