//! Running every variant under every seed.
//!
//! Runs are independent, so they spread over all CPUs; results are put in their places by variant
//! and seed, so the number of threads changes nothing but the time it takes. With 3 variants and 10
//! seeds, run 17 is variant 1, seed 7, whichever thread it ran on.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::experiment::Scenario;
use crate::outcome::Outcome;
use crate::simulator::Simulator;

/// Something that can run a scenario: the simulator, or the live host.
pub trait Simulate: Sync {
    /// Runs `scenario` under `seed` and returns what it measured.
    ///
    /// # Errors
    /// Features that the scenario asks for and that cannot be had, with their place where they have
    /// one.
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome>;

    /// Runs scenarios of one [family](families) under `seed`: their outcomes, in their order.
    fn run_family(&self, family: &[&Scenario], seed: u64) -> Vec<Result<Outcome>> {
        let one = |scenario: &&Scenario| self.run(scenario, seed);
        family.iter().map(one).collect()
    }

    /// Runs `scenario` under `seed` and returns what its benchmarks would have printed, each in its
    /// tool's own format.
    ///
    /// # Errors
    /// As [`Simulate::run`]; a scenario without benchmarks.
    fn tool_output(&self, scenario: &Scenario, _seed: u64) -> Result<String> {
        let message = format!("`{}` runs no benchmark that prints", scenario.name);
        Err(crate::error::Error::usage(message))
    }

    /// The simulator behind it, whose runs can be watched; `None` where there is none.
    fn simulator(&self) -> Option<&Simulator> {
        None
    }
}

/// Runs every scenario under the seeds 0 to `seeds` − 1: one row of outcomes for each scenario.
///
/// `finished` is called after each run, from any thread and in any order.
///
/// # Errors
/// The error of the first run, by scenario and then by seed, that has one.
pub fn run_all(
    simulator: &impl Simulate,
    scenarios: &[Scenario],
    seeds: u32,
    finished: &(impl Fn() + Sync),
) -> Result<Vec<Vec<Outcome>>> {
    run_seeds(simulator, scenarios, 0..seeds, finished)
}

/// The same with these seeds.
///
/// # Errors
/// As for [`run_all`].
pub(crate) fn run_seeds(
    simulator: &impl Simulate,
    scenarios: &[Scenario],
    seeds: Range<u32>,
    finished: &(impl Fn() + Sync),
) -> Result<Vec<Vec<Outcome>>> {
    start_threads()?;
    let families = families(scenarios);
    let first = u64::from(seeds.start);
    let seeds = seeds.end.saturating_sub(seeds.start);
    // Seed by seed, as variants share what a seed has drawn.
    let run_one = |index: usize| {
        let (family, seed) = (&families[index % families.len()], index / families.len());
        let members: Vec<&Scenario> = family.iter().map(|&variant| &scenarios[variant]).collect();
        let outcomes = simulator.run_family(&members, first + seed as u64);
        members.iter().for_each(|_| finished());
        let places = family.iter().map(|variant| variant * seeds as usize + seed);
        places.zip(outcomes).collect()
    };
    let runs = (0..families.len() * seeds as usize).into_par_iter();
    let outcomes: Vec<Vec<(usize, Result<Outcome>)>> = runs.map(run_one).collect();
    let mut outcomes: Vec<(usize, Result<Outcome>)> = outcomes.into_iter().flatten().collect();
    outcomes.sort_by_key(|(place, _)| *place);
    // An early return inside the parallel part would report whichever thread failed first.
    let outcomes = outcomes.into_iter().map(|(_, outcome)| outcome);
    let outcomes: Vec<Outcome> = outcomes.collect::<Result<_>>()?;
    Ok(outcomes
        .chunks(seeds.max(1) as usize)
        .map(<[Outcome]>::to_vec)
        .collect())
}

/// Starts the threads that simulate, unless this is one of them. Left to itself rayon does so at
/// its first use, and panics where a limit of processes is reached.
///
/// # Errors
/// The system's answer.
pub fn start_threads() -> Result<()> {
    use std::error::Error as _;
    if rayon::current_thread_index().is_some() {
        return Ok(());
    }
    match rayon::ThreadPoolBuilder::new().build_global() {
        // An error without a source is that they run already.
        Err(error) if error.source().is_some() => Err(not_started(error)),
        _ => Ok(()),
    }
}

/// Threads that the system refused.
pub(crate) fn not_started(error: impl std::fmt::Display) -> Error {
    let message = format!("threads cannot be started: {error}");
    let hint = "a limit of processes may be reached: `ulimit -u`, or pids.max of the group";
    Error::general(message).hint(hint)
}

/// Scenarios that differ only in what changes while they run, by their places; all others are
/// alone.
fn families(scenarios: &[Scenario]) -> Vec<Vec<usize>> {
    let start = |scenario: &Scenario| Scenario {
        name: String::new(),
        changes: Vec::new(),
        ..scenario.clone()
    };
    let mut families: Vec<(Scenario, Vec<usize>)> = Vec::new();
    for (place, scenario) in scenarios.iter().enumerate() {
        let start = start(scenario);
        match families.iter_mut().find(|(other, _)| *other == start) {
            Some((_, members)) => members.push(place),
            None => families.push((start, vec![place])),
        }
    }
    families.into_iter().map(|(_, members)| members).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::error::Error;
    use crate::experiment;

    /// Answers with its variant's HZ and the seed; refuses the seeds it is told to.
    struct Toy {
        refused: fn(&str, u64) -> bool,
    }

    impl Simulate for Toy {
        fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
            if (self.refused)(&scenario.name, seed) {
                return Err(Error::usage(format!("{} {seed}", scenario.name)));
            }
            let event_hash = u64::from(scenario.kernel.hz) * 1000 + seed;
            Ok(Outcome {
                event_hash,
                ..Outcome::default()
            })
        }
    }

    fn scenarios() -> Vec<Scenario> {
        let text = "[[variant]]\nname = \"a\"\nkernel.hz = 100\n[[variant]]\nname = \"b\"\nkernel.hz = 250\n";
        experiment::read_text("t.toml", text).unwrap().scenarios
    }

    fn hashes(threads: usize) -> Vec<Vec<u64>> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let toy = Toy {
            refused: |_, _| false,
        };
        let rows = pool
            .install(|| run_all(&toy, &scenarios(), 3, &|| {}))
            .unwrap();
        rows.iter()
            .map(|row| row.iter().map(|outcome| outcome.event_hash).collect())
            .collect()
    }

    #[test]
    fn results_have_their_places_whatever_the_threads() {
        let expected = vec![
            vec![100_000, 100_001, 100_002],
            vec![250_000, 250_001, 250_002],
        ];
        assert_eq!(hashes(1), expected);
        assert_eq!(hashes(4), expected);
    }

    #[test]
    fn the_first_error_by_variant_and_seed_is_reported() {
        let toy = Toy {
            refused: |name, seed| name == "b" || seed == 2,
        };
        let count = AtomicU32::new(0);
        let counted = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let error = run_all(&toy, &scenarios(), 3, &counted).unwrap_err();
        assert_eq!(error.to_string(), "a 2");
        assert_eq!(count.into_inner(), 6, "every run is counted");
    }
}
