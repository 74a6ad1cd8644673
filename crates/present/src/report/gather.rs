//! Running an experiment so that a page can be made of it: the answer, distributions over all
//! seeds, one scene a variant.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use schedcast_kernel::Ns;
use schedcast_sim::histogram::Histogram;

use super::hardware::leave_out_unused_states;
use super::memory::Memory;
use super::scene::{Budget, Scene, Sketch};
use crate::watch::Follow;
use schedcast_advise::frontier::{Frontier, frontier};
use schedcast_lab::answer::{Answer, answer};
use schedcast_lab::error::Result;
use schedcast_lab::experiment::{Experiment, Scenario};
use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::Question;
use schedcast_lab::simulate::{Simulate, start_threads};
use schedcast_lab::simulator::{Finished, Simulator};

/// How much of a run is held back before it is drawn.
const STEP_NS: Ns = 1_000_000;
/// Runs of threads on CPUs that a page has room for, over all variants.
const SLICES: usize = 48_000;
/// Buckets that a page has room for, over all CPUs, groups and variants.
const BUCKETS: usize = 120_000;

/// Distributions of one variant by name.
pub(crate) type Distributions = BTreeMap<String, Histogram>;

/// An answered question, and what a page shows beside the numbers.
pub struct Gathered {
    /// The numbers.
    pub answer: Answer,
    /// Of each variant, over all seeds, in ns.
    pub distributions: Vec<Distributions>,
    /// Of each variant, its first seed.
    pub scenes: Vec<Scene>,
    /// Frontier of other limits, where the answer is from a recording.
    pub frontier: Option<Frontier>,
}

impl Gathered {
    /// Adds the frontier of a question about a recording, some hundred runs more.
    ///
    /// # Errors
    /// The first run's that fails.
    pub fn add_frontier(
        &mut self,
        question: &Question,
        experiment: &Experiment,
        simulator: &Simulator,
        finished: &(impl Fn() + Sync),
    ) -> Result<()> {
        let known: (&[String], _) = (&[], self.answer.context.fit.as_slice());
        self.frontier = frontier(question, experiment, known, simulator, finished)?;
        Ok(())
    }
}

/// Runs scenarios and keeps their distributions.
struct Keeping<'a> {
    simulator: &'a Simulator,
    memory: Option<&'a Memory>,
    names: Vec<&'a str>,
    kept: Mutex<Vec<Distributions>>,
}

impl Simulate for Keeping<'_> {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let run = || {
            let mut finished = self.simulator.finish(scenario, seed)?;
            Ok((finished.outcome(), distributions(&finished)))
        };
        let measured = match self.memory {
            Some(memory) => memory.run(scenario, seed, run)?,
            None => Arc::new(run()?),
        };
        let (outcome, distributions) = &*measured;
        if let Some(row) = self.names.iter().position(|name| *name == scenario.name) {
            // Adding up counts gives the same whatever the order of the runs.
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, values) in distributions {
                kept[row].entry(name.clone()).or_default().merge(values);
            }
        }
        Ok(outcome.clone())
    }
}

fn distributions(finished: &Finished) -> Distributions {
    let mut distributions = Distributions::new();
    let probes = finished.world.probes();
    let mut add = |name: String, values: &Histogram| {
        if values.count() > 0 {
            distributions.entry(name).or_default().merge(values);
        }
    };
    for threads in &probes.names {
        let name = &threads.name;
        add(
            format!("{name}/activation_latency"),
            &threads.activation_latency,
        );
        add(format!("{name}/wakeup_latency"), &threads.wakeup_latency);
    }
    for metric in &probes.metrics {
        if metric.name.ends_with("latency") {
            add(metric.name.clone(), &metric.values);
        }
    }
    distributions
}

/// Runs the question's experiment and gathers what a page shows. Runs that `memory` has are not
/// repeated.
///
/// # Errors
/// The first run's that fails.
pub fn gather(
    question: &Question,
    experiment: &Experiment,
    simulator: &Simulator,
    memory: Option<&Memory>,
    finished: &(impl Fn() + Sync),
) -> Result<Gathered> {
    let scenarios = &experiment.scenarios;
    let keeping = Keeping {
        simulator,
        memory,
        names: scenarios.iter().map(|one| one.name.as_str()).collect(),
        kept: Mutex::new(vec![Distributions::new(); scenarios.len()]),
    };
    let target = question.target()?;
    start_threads()?;
    let (answer, scenes) = rayon::join(
        || answer(question, experiment, &keeping, finished),
        || scenes(&keeping, scenarios, target.as_deref()),
    );
    let (answer, mut scenes) = (answer?, scenes?);
    leave_out_unused_states(&mut scenes);
    let kept = keeping.kept.into_inner();
    Ok(Gathered {
        answer,
        distributions: kept.unwrap_or_else(PoisonError::into_inner),
        scenes,
        frontier: None,
    })
}

/// The first seed of every variant. When not every run of a thread fits, all variants show the time
/// around the longest wait of the target in the first one, so that they can be compared.
fn scenes(
    keeping: &Keeping<'_>,
    scenarios: &[Scenario],
    target: Option<&str>,
) -> Result<Vec<Scene>> {
    let variants = scenarios.len();
    let one = |scenario: &Scenario, from_ns| {
        let draw = || sketch((keeping.simulator, target), scenario, variants, from_ns);
        match keeping.memory {
            Some(memory) => memory.scene((scenario, from_ns, target, variants), draw),
            None => draw(),
        }
    };
    let all = |from_ns: Ns| -> Result<Vec<Scene>> {
        let drawn = scenarios.par_iter().map(|scenario| one(scenario, from_ns));
        // The first error by variant, whichever thread failed first.
        drawn.collect::<Vec<_>>().into_iter().collect()
    };
    let first = all(0)?;
    match window(&first) {
        Some(window_ns) => all(window_ns),
        None => Ok(first),
    }
}

/// Where a window begins that shows the longest wait of the first variant; `None` if the beginning
/// will do.
fn window(scenes: &[Scene]) -> Option<Ns> {
    let lengths = scenes.iter().filter(|scene| !scene.complete);
    let shortest_ms = lengths
        .map(|scene| scene.window_ms[1] - scene.window_ms[0])
        .reduce(f64::min)?;
    let (at_ms, length_ms, _) = scenes.first()?.waits.first()?;
    if at_ms + length_ms < shortest_ms {
        return None;
    }
    let middle_ms = at_ms + length_ms / 2.0;
    let from_ms = middle_ms - shortest_ms / 2.0;
    (from_ms > 0.0).then_some((from_ms * 1e6) as Ns)
}

fn sketch(
    (simulator, target): (&Simulator, Option<&str>),
    scenario: &Scenario,
    variants: usize,
    from_ns: Ns,
) -> Result<Scene> {
    let rows = scenario.machine.cpus() + 3 * (scenario.cgroups.len() + 1);
    let budget = Budget {
        slices: SLICES / variants.max(1),
        buckets: (BUCKETS / (rows * variants.max(1))).clamp(64, 2048),
        from_ns,
        target: target.map(str::to_string),
    };
    let mut follow = Follow::new(Sketch::new(budget));
    let mut finished = simulator.watch(scenario, 0, STEP_NS, &mut follow)?;
    follow.close(finished.world.now());
    Ok(follow.picture.finish(&mut finished.world))
}
