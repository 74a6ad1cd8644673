//! One function a verb: arguments to question, question to answer, answer to output.

pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod reproduce;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schedcast_base::harmless::HarmlessWriter;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::kernel::names::note_of_level;
use schedcast_lab::experiment::{Experiment, Scenario};
use schedcast_lab::metrics::{Selection, refuse_unknown, refuse_unknown_subject};
use schedcast_lab::question::{Question, Subject, refuse_several};
use schedcast_lab::recording::Recorded;
use schedcast_lab::resimulated::note_of_longer;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::{answer, bisect, determinism, host_machine};
use schedcast_present::lists::Listing;
use schedcast_verify::real::guest;

use crate::arguments::target::Target;
use crate::arguments::{
    CompareArguments, Effort, Format, ListArguments, Output, RunArguments, UpgradeArguments,
    WhatIfArguments, Where, help_of,
};
use crate::columns::{ColumnArguments, kernel_column};
use crate::{Call, output, written};

mod calibrate;
mod help_files;
mod here;
mod host;
pub(crate) mod live;
pub(crate) mod mcp;
mod on_host;
mod pictures;
pub(crate) mod promises;
mod serve;
mod sweep;
mod target;
pub(crate) mod tree;
mod validate;
pub(crate) mod views;

pub(crate) use self::help_files::help_files;
pub(crate) use self::serve::serve;
pub(crate) use self::sweep::sweep;

/// `schedcast compare`
pub(crate) fn compare<S: Simulate>(arguments: &CompareArguments, call: &mut Call<S>) -> Result<()> {
    let subject = match &arguments.experiment {
        Some(path) => Subject::file(path),
        None => Subject::Command(arguments.command.clone()),
    };
    let cgroup = arguments.cgroup.clone();
    let question = question(subject, &arguments.columns, cgroup, &arguments.effort);
    ask(
        &question,
        arguments.bisect.wanted(),
        &arguments.output,
        call,
    )
}

/// `schedcast run`
pub(crate) fn run<S: Simulate>(arguments: &RunArguments, call: &mut Call<S>) -> Result<()> {
    refuse_twice(&arguments.on)?;
    let mut columns = arguments.columns.clone();
    let subject = match &arguments.experiment {
        None => {
            let opened = columns.0.variants.iter().map(|(name, _)| name.as_str());
            let opened: Vec<&str> = opened.collect();
            if opened.len() > 1 {
                let opened = opened.join(" and ");
                let error = Error::usage(format!("`run` runs one of these: {opened}"));
                return Err(error.hint("`schedcast compare` takes several"));
            }
            Subject::Command(arguments.command.clone())
        }
        Some(path) => {
            // `--variant` names the one to run; all settings are for it.
            let mut variants = std::mem::take(&mut columns.0.variants).into_iter();
            let chosen = variants.next();
            if variants.next().is_some() {
                return Err(Error::usage("`run` runs one variant")
                    .hint("`schedcast compare` takes several"));
            }
            let only = chosen.map(|(name, settings)| {
                columns.0.leading.extend(settings);
                name
            });
            let path = path.clone();
            Subject::File { path, only }
        }
    };
    let machines = on_host::machines(arguments)?;
    columns.0.leading.extend(on_host::settings(&machines)?);
    if arguments.guest {
        columns.0.leading.extend(guest::guest_settings());
    }
    let cgroup = arguments.cgroup.clone();
    let question = question(subject, &columns, cgroup, &arguments.effort);
    let experiment = question.experiment()?;
    refuse_several(&experiment)?;
    if arguments.guest {
        return on_host::serve(&experiment, &mut call.out);
    }
    if !machines.is_empty() {
        return on_host::run((&question, experiment), &machines, arguments, call);
    }
    if arguments.check_determinism {
        return check_determinism(&experiment, call.simulator, &mut call.out);
    }
    if arguments.output.format == Format::Tool && arguments.output.json.is_none() {
        if arguments.output.writes_files() {
            let error = Error::usage("`--format tool` prints one run and keeps no samples");
            return Err(error.hint("leave it out to write --export, --trace or --report"));
        }
        let text = call.simulator.tool_output(&experiment.scenarios[0], 0)?;
        if let Some(simulator) = call.simulator.simulator() {
            let all = arguments.output.verbose;
            say(&simulator.printed_by_trees(all), &mut std::io::stderr());
        }
        return written(call.out.write_all(text.as_bytes()));
    }
    ask(&question, None, &arguments.output, call)
}

/// Runs each seed in several ways, which have to come to the same.
fn check_determinism(
    experiment: &Experiment,
    simulator: &impl Simulate,
    out: &mut impl Write,
) -> Result<()> {
    let simulator = simulator
        .simulator()
        .ok_or_else(|| Error::usage("--check-determinism is for simulations"))?;
    let scenario = &experiment.scenarios[0];
    for seed in 0..experiment.seeds {
        let seed = u64::from(seed);
        match determinism::check(simulator, scenario, seed)? {
            Ok(hash) => written(writeln!(
                out,
                "seed {seed}: all runs have the events {hash:016x}"
            ))?,
            Err(difference) => return Err(Error::general(format!("seed {seed}: {difference}"))),
        }
    }
    Ok(())
}

/// A place named twice would run once and be shown as two columns.
fn refuse_twice(on: &[Where]) -> Result<()> {
    match (1..on.len()).find(|&place| on[..place].contains(&on[place])) {
        None => Ok(()),
        Some(place) => Err(Error::usage(format!("--on has `{}` twice", on[place]))
            .hint("each is a column of its own, such as host,sim")),
    }
}

/// `schedcast what-if`
pub(crate) fn what_if<S: Simulate>(arguments: &WhatIfArguments, call: &mut Call<S>) -> Result<()> {
    let path = &arguments.recording;
    let subject = match path.extension().is_some_and(|end| end == "toml") {
        true if arguments.measured => {
            return Err(
                Error::usage("--measured needs a recording with measured.json")
                    .hint("a profile keeps no measured figures"),
            );
        }
        true => Subject::Profile(path.clone()),
        false => recording(path, call.simulator)?,
    };
    let columns = arguments.clients.of_all(&arguments.columns)?;
    let mut question = question_about(subject, &columns, &arguments.target, &arguments.effort)?;
    question.measured = arguments.measured;
    say_oddities(&question, &mut call.err)?;
    ask(
        &question,
        arguments.bisect.wanted(),
        &arguments.output,
        call,
    )
}

/// `schedcast upgrade`: columns of a what-if that differ in their kernels, and what makes the
/// difference between each and the next.
pub(crate) fn upgrade<S: Simulate>(arguments: &UpgradeArguments, call: &mut Call<S>) -> Result<()> {
    let subject = recording(&arguments.recording, call.simulator)?;
    let mut columns = ColumnArguments::default();
    let from = arguments.from.iter().map(|version| ("--from", version));
    let to = arguments.to.iter().map(|version| ("--to", version));
    let kernels = from
        .chain(to)
        .map(|(flag, version)| kernel_column(flag, version));
    columns.0.variants.extend(kernels);
    let question = question_about(subject, &columns, &arguments.target, &arguments.effort)?;
    say_oddities(&question, &mut call.err)?;
    let bisect = (arguments.follow.as_deref(), arguments.to.len());
    ask(&question, Some(bisect), &arguments.output, call)
}

/// A recording as the subject of a question to `simulator`.
fn recording(path: &Path, simulator: &impl Simulate) -> Result<Subject> {
    let recorded = match simulator.simulator() {
        Some(simulator) => simulator.open(path),
        None => Recorded::open(path),
    };
    Ok(Subject::Recording(recorded?))
}

/// Notes about the recording that a question is about, and on a longer time than it has, go to
/// standard error, once the question is one: notes would hide a slip in it.
fn say_oddities(question: &Question, err: &mut impl Write) -> Result<()> {
    question.experiment()?;
    if let Subject::Recording(recorded) = &question.subject {
        say(&recorded.notes, err);
        let duration = question.duration.as_deref();
        let longer = duration.and_then(|duration| note_of_longer(duration, recorded.length_ns));
        say(longer.as_slice(), err);
    }
    Ok(())
}

/// Notes are no part of the answer.
fn say(notes: &[String], err: &mut impl Write) {
    let mut err = HarmlessWriter::new(err);
    for note in notes {
        // Nothing can be done about a closed standard error.
        let _ = writeln!(err, "note: {note}");
    }
}

/// A release or a patch level that is not known yet is simulated all the same, which a reader must
/// know.
fn say_newer_kernels(scenarios: &[Scenario]) {
    let newer = scenarios.iter().filter_map(|one| {
        let (named, rules) = (one.kernel.stands_for?, one.kernel.version);
        Some(format!(
            "warning: kernel {named} is newer than the newest known; it is simulated with the rules of {rules}"
        ))
    });
    for line in newer.collect::<BTreeSet<String>>() {
        // Nothing can be done about a closed standard error.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    let by_rules = scenarios.iter().filter(|one| one.kernel.tree.is_none());
    let levels: BTreeSet<String> = by_rules
        .filter_map(|one| note_of_level(one.kernel.version))
        .collect();
    say(
        &levels.into_iter().collect::<Vec<_>>(),
        &mut std::io::stderr(),
    );
}

/// Prints notes on kernels newer than the rules, on prices of another machine, and on recordings
/// that run beside the programs of scenarios.
fn say_backgrounds(scenarios: &[Scenario], simulator: &impl Simulate) -> Result<()> {
    say_newer_kernels(scenarios);
    let mut prices: Vec<String> = scenarios
        .iter()
        .filter_map(|one| host_machine::note(&one.machine))
        .collect();
    prices.dedup();
    say(&prices, &mut std::io::stderr());
    if let Some(simulator) = simulator.simulator() {
        tree::build_all(scenarios, simulator)?;
        let notes = simulator.background_notes(scenarios)?;
        say(&notes, &mut std::io::stderr());
    }
    Ok(())
}

/// Prints notes on the files of programs, and on settings that have no effect in these scenarios.
/// The first point of a sweep does not tell that of all of them.
fn say_without_effect(scenarios: &[Scenario], simulator: &impl Simulate) -> Result<()> {
    if let Some(simulator) = simulator.simulator() {
        let notes: Vec<String> = simulator.notes_of_files(scenarios)?.into_iter().collect();
        say(&notes, &mut std::io::stderr());
        let note = simulator.without_effect(scenarios)?;
        say(note.as_slice(), &mut std::io::stderr());
    }
    Ok(())
}

/// An experiment in which nothing is started is a mistake more often than a question.
fn say_empty(scenarios: &[Scenario]) {
    let idle = |one: &&Scenario| one.programs.is_empty() && one.machine.background.is_none();
    for Scenario { name, .. } in scenarios.iter().filter(idle) {
        let note = format!("`{name}` starts no program; add [[program]] run = \"…\"");
        say(&[note], &mut std::io::stderr());
    }
}

fn question(
    subject: Subject,
    columns: &ColumnArguments,
    cgroup: Option<String>,
    effort: &Effort,
) -> Question {
    Question {
        subject,
        cgroup,
        columns: columns.0.clone(),
        seeds: effort.seeds,
        duration: effort.length.time(),
        measured: false,
    }
}

/// Question about `subject` and the group that `target` names in it.
///
/// # Errors
/// A group that the subject does not have, or a name that several have.
fn question_about(
    subject: Subject,
    columns: &ColumnArguments,
    target: &Target,
    effort: &Effort,
) -> Result<Question> {
    let cgroup = target::in_subject(target, &subject)?;
    Ok(question(subject, columns, cgroup, effort))
}

fn ask<S: Simulate>(
    question: &Question,
    bisect: Option<(Option<&str>, usize)>,
    output: &Output,
    call: &mut Call<S>,
) -> Result<()> {
    let (cli, simulator) = (call.cli, call.simulator);
    output::layout(output)?;
    output::refuse_unwritable(output.files())?;
    output::refuse_no_folder(output.export.as_deref())?;
    let selection = Selection::new(&output.metrics)?;
    let experiment = question.experiment()?;
    let followed = bisect.and_then(|(followed, _)| followed);
    followed.map_or(Ok(()), refuse_unknown)?;
    if let Some(simulator) = simulator.simulator() {
        let scenarios = &experiment.scenarios;
        selection.refuse_unknown_subjects(scenarios, simulator)?;
        if let Some(followed) = followed {
            refuse_unknown_subject(followed, scenarios, simulator)?;
        }
    }
    let pictures = &output.pictures;
    if pictures.trace.is_some() || pictures.report.is_some() || bisect.is_some() {
        schedcast_lab::simulator::tree::refuse_all(&experiment.scenarios)?;
    }
    say(&question.columns.notes(), &mut std::io::stderr());
    say_backgrounds(&experiment.scenarios, simulator)?;
    say_without_effect(&experiment.scenarios, simulator)?;
    say_empty(&experiment.scenarios);
    let progress = progress(answer::runs(question, &experiment)?, cli.quiet);
    let asked = (question, &experiment);
    let gathered = pictures::answer(asked, simulator, &output.pictures, &progress);
    progress.finish_and_clear();
    if let Some(simulator) = simulator.simulator() {
        let printed = simulator.printed_by_trees(output.verbose);
        say(&printed, &mut std::io::stderr());
    }
    let mut gathered = gathered?;
    let answered = gathered.answer_mut();
    if let Some((followed, pairs)) = bisect {
        let (asked, followed) = ((question, &experiment), followed.or(selection.only()));
        bisect::add(answered, asked, (followed, pairs), simulator, &|| {})?;
    }
    answered.context.reproduce = output::reproduce(call.words);
    answered.context.verbose = output.verbose;
    answered.context.style = cli.style;
    selection.refuse_misses(&answered.comparison.metric_names())?;
    answered.context.selection = selection;
    output::print(answered, output, &mut call.out)?;
    pictures::write(gathered, &experiment, simulator, &output.pictures)
}

/// A bar on standard error, if that is a terminal.
fn progress(runs: u64, quiet: bool) -> ProgressBar {
    let target = if quiet {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let bar = ProgressBar::with_draw_target(Some(runs), target);
    match ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left  {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// `schedcast list`
pub(crate) fn list(arguments: &ListArguments, out: &mut impl Write) -> Result<()> {
    let text = match arguments.what {
        Some(what) => what.text(),
        None => {
            let line = |one: Listing| format!("{:<10}{}\n", one.name(), help_of(one));
            let lines = Listing::ALL.map(line).concat();
            format!("schedcast list WHAT, of these:\n{lines}")
        }
    };
    written(out.write_all(text.as_bytes()))
}
