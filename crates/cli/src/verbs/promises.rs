//! `advise` and `check`: what a recorded service promises.

use std::cell::Cell;

use indicatif::ProgressBar;
use schedcast_advise::{
    Conclusion, Demands, Step, advise as ask_for_advice, gate, judge, refuse_slips,
};
use schedcast_lab::error::Result;
use schedcast_lab::simulate::Simulate;
use schedcast_present::tables;

use super::{progress, question_about, recording, say_newer_kernels, say_oddities};
use crate::arguments::Effort;
use crate::arguments::live::{AdviseArguments, CheckArguments};
use crate::columns::ColumnArguments;
use crate::{Call, output};

/// Exit code of a promise that is not kept.
const BROKEN: u8 = 1;
/// Exit code of promises that are kept on average or in some runs, and not for certain.
const NOT_CERTAIN: u8 = 4;

/// `schedcast advise`
pub(crate) fn advise<S: Simulate>(arguments: &AdviseArguments, call: &mut Call<S>) -> Result<u8> {
    output::refuse_unwritable([arguments.json.as_ref()])?;
    refuse_few_asked(&arguments.effort)?;
    let subject = recording(&arguments.recording, call.simulator)?;
    let columns = arguments.clients.of_all(&ColumnArguments::default())?;
    let question = question_about(subject, &columns, &arguments.target, &arguments.effort)?;
    refuse_slips(&question, &arguments.slo)?;
    say_oddities(&question, &mut call.err)?;
    say_newer_kernels(&question.experiment()?.scenarios);
    let demands = Demands {
        slos: arguments.slo.clone(),
        max_neighbour: arguments.max_neighbour.clone(),
        force: arguments.force,
    };
    let progress = progress(0, call.cli.quiet);
    // A step that found what it looked for early leaves the rest of its runs to the next one's
    // begin.
    let ends_at = Cell::new(0);
    let step = |step: Step| {
        if step.total > 0 {
            progress.set_length(step.total);
        }
        progress.set_position(ends_at.get());
        ends_at.set(ends_at.get() + step.runs);
        progress.set_message(step.name);
    };
    let finished = || progress.inc(1);
    let advised = ask_for_advice(&question, &demands, call.simulator, (&step, &finished));
    progress.finish_and_clear();
    let mut advice = advised?;
    advice.context.reproduce = output::reproduce(call.words);
    advice.context.style = call.cli.style;
    let table = tables::advice::render(&advice);
    output::give(
        &table,
        || Ok(advice.to_json()),
        arguments.json.as_deref(),
        &mut call.out,
    )?;
    Ok(match advice.conclusion {
        Conclusion::Recommended => 0,
        Conclusion::NotCertain => NOT_CERTAIN,
        Conclusion::TooDear | Conclusion::OnlyWithoutLimit | Conclusion::NotKept => BROKEN,
    })
}

/// `schedcast check`
pub(crate) fn check<S: Simulate>(arguments: &CheckArguments, call: &mut Call<S>) -> Result<u8> {
    output::refuse_unwritable([arguments.json.as_ref()])?;
    refuse_few_asked(&arguments.effort)?;
    let subject = recording(&arguments.recording, call.simulator)?;
    let columns = arguments.clients.of_all(&arguments.columns)?;
    let question = question_about(subject, &columns, &arguments.target, &arguments.effort)?;
    refuse_slips(&question, &arguments.slo)?;
    say_oddities(&question, &mut call.err)?;
    say_newer_kernels(&question.experiment()?.scenarios);
    let progress = counter(call.cli.quiet);
    let finished = || progress.inc(1);
    let checked = gate::check(&question, &arguments.slo, call.simulator, &finished);
    progress.finish_and_clear();
    let mut gate = checked?;
    gate.context.reproduce = output::reproduce(call.words);
    gate.context.style = call.cli.style;
    let table = tables::advice::render_gate(&gate);
    output::give(
        &table,
        || Ok(gate.to_json()),
        arguments.json.as_deref(),
        &mut call.out,
    )?;
    Ok(if gate.passes() { 0 } else { BROKEN })
}

/// Refuses `--seeds 1` before the recording is read.
fn refuse_few_asked(effort: &Effort) -> Result<()> {
    let seeds = effort.seeds.map(|seeds| seeds as usize);
    seeds.map_or(Ok(()), judge::refuse_few)
}

/// A count of runs on standard error, if that is a terminal: how many a search needs is not known
/// before.
fn counter(quiet: bool) -> ProgressBar {
    match quiet {
        true => ProgressBar::hidden(),
        false => ProgressBar::new_spinner().with_message("simulating"),
    }
}
