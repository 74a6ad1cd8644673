//! One experiment of a table, simulated under every seed.

use rayon::prelude::*;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome as Run;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulate::Simulate as _;
use schedcast_lab::simulator::Simulator;

use crate::Outcome;

/// The runs of a report, a column at a time, and their outcomes by column and seed.
pub(crate) struct Seen {
    /// The columns.
    pub scenarios: Vec<Scenario>,
    /// Their runs.
    pub outcomes: Vec<Vec<Run>>,
}

/// Runs every column of the experiment in `text` under the seeds 0 to `seeds` − 1. Paths in it
/// count from the folder in which the program is started.
pub(crate) fn every_seed(name: &str, text: String, seeds: u32) -> Outcome<Seen> {
    let question = Question {
        seeds: Some(seeds),
        ..Question::of(Subject::text(name, text, "."))
    };
    let scenarios = question.experiment()?.scenarios;
    let simulator = Simulator::new();
    let runs = |scenario: &Scenario| {
        let seeds = 0..u64::from(seeds);
        let run = |seed| simulator.run(scenario, seed);
        seeds.into_par_iter().map(run).collect::<Result<_, _>>()
    };
    let outcomes = scenarios.par_iter().map(runs).collect::<Result<_, _>>()?;
    Ok(Seen {
        scenarios,
        outcomes,
    })
}
