//! Runs that a served page has made already.
//!
//! A move of a control changes one column, and the other stays as it was; an answer that is refined
//! with more seeds has its first seeds already. A run is decided by its scenario and its seed, so
//! it can be kept and told again.
//!
//! Worked example: a page about a recording simulates with 3 seeds. The first move needs 6 runs of
//! each column (without drift and with it), 3 of the recorded limit as it was recorded, and a
//! picture of each column. The second move finds 9 of these runs and one picture here, and makes 6
//! and one.

use std::sync::{Arc, Mutex, PoisonError};

use schedcast_kernel::Ns;

use super::gather::Distributions;
use super::scene::Scene;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;

/// Metrics of all runs that are kept, about 100 bytes each.
const MOST_METRICS: usize = 1_000_000;
/// Pictures that are kept, at most half a megabyte each.
const MOST_SCENES: usize = 16;

/// Memory of recent simulations. It may be asked from several threads.
#[derive(Debug, Default)]
pub struct Memory {
    runs: Mutex<Vec<Run>>,
    scenes: Mutex<Vec<Picture>>,
}

/// One run, and what was measured in it.
#[derive(Debug)]
struct Run {
    scenario: Scenario,
    seed: u64,
    measured: Arc<(Outcome, Distributions)>,
}

#[derive(Debug)]
struct Picture {
    scenario: Scenario,
    from_ns: Ns,
    target: Option<String>,
    variants: usize,
    scene: Scene,
}

impl Memory {
    /// The run of `scenario` under `seed`, made by `run` where it is not known.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn run(
        &self,
        scenario: &Scenario,
        seed: u64,
        run: impl FnOnce() -> Result<(Outcome, Distributions)>,
    ) -> Result<Arc<(Outcome, Distributions)>> {
        let known = |one: &Run| one.seed == seed && one.scenario == *scenario;
        if let Some(one) = touched(&mut self.runs.lock().unwrap_or_else(recover), known) {
            return Ok(Arc::clone(&one.measured));
        }
        let measured = Arc::new(run()?);
        let mut runs = self.runs.lock().unwrap_or_else(recover);
        runs.push(Run {
            scenario: scenario.clone(),
            seed,
            measured: Arc::clone(&measured),
        });
        let mut metrics: usize = runs.iter().map(|one| one.measured.0.metrics.len()).sum();
        while metrics > MOST_METRICS {
            metrics -= runs.remove(0).measured.0.metrics.len();
        }
        Ok(measured)
    }

    /// The picture of `scenario` from `from_ns` on, about the target, one of `variants`: drawn by
    /// `draw` where it is not known.
    ///
    /// # Errors
    /// Those of `draw`.
    pub(crate) fn scene(
        &self,
        (scenario, from_ns, target, variants): (&Scenario, Ns, Option<&str>, usize),
        draw: impl FnOnce() -> Result<Scene>,
    ) -> Result<Scene> {
        let known = |one: &Picture| {
            let same = (one.from_ns, one.variants) == (from_ns, variants);
            same && one.target.as_deref() == target && one.scenario == *scenario
        };
        if let Some(one) = touched(&mut self.scenes.lock().unwrap_or_else(recover), known) {
            return Ok(one.scene.clone());
        }
        let scene = draw()?;
        let mut scenes = self.scenes.lock().unwrap_or_else(recover);
        scenes.push(Picture {
            scenario: scenario.clone(),
            from_ns,
            target: target.map(str::to_string),
            variants,
            scene: scene.clone(),
        });
        if scenes.len() > MOST_SCENES {
            scenes.remove(0);
        }
        Ok(scene)
    }
}

/// A thread that panicked leaves whole rows: each is pushed when it is complete.
fn recover<T>(error: PoisonError<T>) -> T {
    error.into_inner()
}

/// The row that is `known`, which becomes the latest; the oldest is the first to be forgotten.
fn touched<T>(rows: &mut Vec<T>, known: impl Fn(&T) -> bool) -> Option<&T> {
    let place = rows.iter().position(known)?;
    let row = rows.remove(place);
    rows.push(row);
    rows.last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_lab::experiment;

    fn scenarios() -> Vec<Scenario> {
        let text = "[[variant]]\nname = \"six\"\nkernel.version = \"6.1\"\n\
                    [[variant]]\nname = \"five\"\nkernel.version = \"5.10\"\n\
                    [[program]]\nrun = \"hackbench -l 1\"\n";
        let read = experiment::read_text("memory.toml", text);
        read.unwrap().scenarios
    }

    fn outcome(metrics: usize) -> (Outcome, Distributions) {
        let metrics = (0..metrics).map(|row| (format!("one/{row}"), row as f64));
        let outcome = Outcome {
            metrics: metrics.collect(),
            ..Outcome::default()
        };
        (outcome, Distributions::new())
    }

    #[test]
    fn a_run_is_made_once_for_each_scenario_and_seed() {
        let memory = Memory::default();
        let scenarios = scenarios();
        let mut made = Vec::new();
        for (row, seed) in [(0, 0), (0, 1), (1, 0), (0, 0), (1, 0)] {
            let run = || {
                made.push((row, seed));
                Ok(outcome(row + 1))
            };
            let told = memory.run(&scenarios[row], seed, run).unwrap();
            assert_eq!(told.0.metrics.len(), row + 1);
        }
        assert_eq!(made, [(0, 0), (0, 1), (1, 0)]);
    }

    #[test]
    fn what_was_not_asked_for_longest_is_forgotten_first() {
        let memory = Memory::default();
        let scenario = &scenarios()[0];
        let half = MOST_METRICS / 2;
        let ask = |seed: u64| {
            let mut made = false;
            let run = || {
                made = true;
                Ok(outcome(half))
            };
            memory.run(scenario, seed, run).unwrap();
            made
        };
        assert!(ask(0));
        assert!(ask(1));
        assert!(!ask(0), "two halves fit");
        assert!(ask(2));
        assert!(!ask(0), "it was asked for after the other");
        assert!(ask(1), "the other had to go");
    }
}
