//! Pictures and pages that are written beside the table.

use indicatif::ProgressBar;
use schedcast_advise::frontier;
use schedcast_base::fresh;
use schedcast_lab::answer::{self, Answer};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Experiment;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;
use schedcast_present::report::{self, gather::Gathered};
use schedcast_present::watch::perfetto;

use crate::arguments::Pictures;

/// An answer, with what a page shows if one is wanted.
pub(super) enum Answered {
    Plain(Box<Answer>),
    Gathered(Box<Gathered>),
}

impl Answered {
    /// The answer.
    pub(crate) fn answer_mut(&mut self) -> &mut Answer {
        match self {
            Answered::Plain(answer) => answer,
            Answered::Gathered(gathered) => &mut gathered.answer,
        }
    }
}

fn behind(simulator: &impl Simulate) -> Result<&Simulator> {
    let simulator = simulator.simulator();
    simulator.ok_or_else(|| Error::usage("only runs of the simulator can be watched"))
}

/// Answers the question, keeping what the wanted pictures need.
pub(super) fn answer(
    (question, experiment): (&Question, &Experiment),
    simulator: &impl Simulate,
    pictures: &Pictures,
    progress: &ProgressBar,
) -> Result<Answered> {
    let finished = || progress.inc(1);
    progress.set_message("the variants");
    if pictures.report.is_none() {
        let answer = answer::answer(question, experiment, simulator, &finished)?;
        return Ok(Answered::Plain(Box::new(answer)));
    }
    let simulator = behind(simulator)?;
    let mut gathered = report::gather(question, experiment, simulator, None, &finished)?;
    progress.set_message("what other limits would do");
    if matches!(question.subject, Subject::Recording(_)) {
        progress.inc_length(frontier::LIMITS_ABOUT * u64::from(experiment.seeds));
    }
    gathered.add_frontier(question, experiment, simulator, &finished)?;
    Ok(Answered::Gathered(Box::new(gathered)))
}

/// Writes the pictures that were asked for.
pub(super) fn write(
    answered: Answered,
    experiment: &Experiment,
    simulator: &impl Simulate,
    pictures: &Pictures,
) -> Result<()> {
    if let Some(path) = &pictures.trace {
        perfetto::write_file(behind(simulator)?, &experiment.scenarios, path)?;
    }
    if let (Some(path), Answered::Gathered(gathered)) = (&pictures.report, answered) {
        let report = report::data::report(*gathered, &experiment.scenarios);
        fresh::save(path, report::page(&report, None))?;
    }
    Ok(())
}
