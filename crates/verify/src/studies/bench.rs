//! Test bench that predictors run their experiments on.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::Action;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::World;

/// The simulator, and how much of it a study may use.
pub struct Bench<'a> {
    simulator: Simulator,
    quick: bool,
    runs: AtomicU64,
    finished: &'a (dyn Fn() + Sync),
}

impl<'a> Bench<'a> {
    /// A bench for a quick or a full reproduction; `finished` is called after each run.
    pub fn new(quick: bool, finished: &'a (dyn Fn() + Sync)) -> Bench<'a> {
        Bench {
            simulator: Simulator::new(),
            quick,
            runs: AtomicU64::new(0),
            finished,
        }
    }

    /// Whether numbers are wanted soon rather than verdicts.
    pub(crate) fn quick(&self) -> bool {
        self.quick
    }

    /// `full` runs, or `quick` ones.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Runs so far.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Runs every job, a scenario and its seed, on all CPUs; results in the order of the jobs.
    ///
    /// # Errors
    /// The error of the first job that has one.
    pub fn run(&self, jobs: &[(Scenario, u64)]) -> Result<Vec<Outcome>> {
        let outcomes = jobs.par_iter().map(|(scenario, seed)| {
            let outcome = self.simulator.run(scenario, *seed);
            self.count_run();
            outcome
        });
        outcomes.collect::<Vec<_>>().into_iter().collect()
    }

    /// Runs every job to its end as [`Bench::run`] does, and looks at each world when it has ended.
    ///
    /// # Errors
    /// The error of the first job that has one.
    pub fn measure<T: Send>(
        &self,
        jobs: &[(Scenario, u64)],
        look: impl Fn(&mut World) -> T + Sync,
    ) -> Result<Vec<(Outcome, T)>> {
        self.measure_each(jobs, |_, outcome, world| (outcome.clone(), look(world)))
    }

    /// As [`Bench::measure`], for looks that depend on the job: they get its number and outcome
    /// too.
    ///
    /// # Errors
    /// The error of the first job that has one.
    pub(crate) fn measure_each<T: Send>(
        &self,
        jobs: &[(Scenario, u64)],
        look: impl Fn(usize, &Outcome, &mut World) -> T + Sync,
    ) -> Result<Vec<T>> {
        let jobs = jobs.par_iter().enumerate();
        let measured = jobs.map(|(row, (scenario, seed))| {
            let mut finished = self.simulator.finish(scenario, *seed)?;
            self.count_run();
            let outcome = finished.outcome();
            Ok(look(row, &outcome, &mut finished.world))
        });
        measured.collect::<Vec<_>>().into_iter().collect()
    }

    /// A world of the scenario, at its start, for predictors that look inside.
    ///
    /// # Errors
    /// As for a run.
    pub fn world(&self, scenario: &Scenario, seed: u64) -> Result<World> {
        self.count_run();
        Ok(self.simulator.world(scenario, seed)?.0)
    }

    fn count_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        (self.finished)();
    }
}

/// Each scenario under each of the seeds, which stand beside one another.
pub(crate) fn seeded<'a>(
    scenarios: impl IntoIterator<Item = &'a Scenario>,
    seeds: Range<u64>,
) -> Vec<(Scenario, u64)> {
    let under = |one: &'a Scenario| seeds.clone().map(|seed| (one.clone(), seed));
    scenarios.into_iter().flat_map(under).collect()
}

/// Gain in per cent of the geometric mean of some ratios.
pub(crate) fn mean_gain_percent(ratios: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = ratios.map(f64::ln).collect();
    100.0 * ((logs.iter().sum::<f64>() / logs.len() as f64).exp() - 1.0)
}

/// The scenario with another command.
pub(crate) fn running(scenario: &Scenario, command: &str) -> Scenario {
    let mut scenario = scenario.clone();
    for program in &mut scenario.programs {
        let words = command.split_whitespace().map(str::to_owned).collect();
        program.action.value = Action::Run(words);
    }
    scenario
}

/// The scenario with another name of its programs, under which their metrics are.
pub(crate) fn called(mut scenario: Scenario, name: &str) -> Scenario {
    for program in &mut scenario.programs {
        program.name = name.to_owned();
    }
    scenario
}

/// Place of a number that is written so in a list of numbers.
pub(crate) fn place_of<N: ToString>(written: &str, numbers: &[N]) -> Option<usize> {
    numbers
        .iter()
        .position(|number| number.to_string() == written)
}

/// `count` values uniform in [0, `range`): one from each of `count` equal parts, so that no stretch
/// is left out. The same every time.
pub(crate) fn uniform_draws(count: usize, range: u64, seed: u64) -> Vec<u64> {
    use rand_core::{Rng, SeedableRng};
    let mut stream = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let part = |index: usize| (range as u128 * index as u128 / count as u128) as u64;
    (0..count)
        .map(|index| {
            let (begin, end) = (part(index), part(index + 1));
            begin + stream.next_u64() % (end - begin).max(1)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::uniform_draws;

    #[test]
    fn draws_cover_the_range_once_and_repeat() {
        let draws = uniform_draws(50, 100_000_000, 1);
        for (index, &draw) in draws.iter().enumerate() {
            assert_eq!(draw / 2_000_000, index as u64);
        }
        assert_eq!(draws, uniform_draws(50, 100_000_000, 1));
        assert_ne!(draws, uniform_draws(50, 100_000_000, 2));
    }
}
