//! `schedcast sweep`

use std::path::{Path, PathBuf};

use schedcast_advise::frontier;
use schedcast_lab::clients;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::metrics::Selection;
use schedcast_lab::question::Subject;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::sweep::{Part, Results, Sweep, SweepOptions, build_of};
use schedcast_present::frontier::Drawn;

use super::{
    progress, question_about, recording, say, say_backgrounds, say_empty, say_newer_kernels,
    say_oddities,
};
use crate::arguments::SweepArguments;
use crate::{Call, output, written};

/// Longest table that is printed; longer sweeps are read from their files.
const MOST_ROWS: usize = 60;

/// `schedcast sweep`
pub(crate) fn sweep<S: Simulate>(arguments: &SweepArguments, call: &mut Call<S>) -> Result<()> {
    if arguments.subject.is_dir() {
        return sweep_recording(arguments, call);
    }
    let (cli, simulator) = (call.cli, call.simulator);
    if arguments.slo.is_some() {
        let error = Error::usage("a promise is drawn over the sweep of a recording");
        return Err(error.hint("the values of an experiment's sweep are in its table"));
    }
    // Told before hours of simulation rather than behind them.
    let selection = Selection::new(&arguments.metrics)?;
    let (subject, columns) = (Subject::file(&arguments.subject), &arguments.columns);
    let question = question_about(subject, columns, &arguments.target, &arguments.effort)?;
    let experiment = question.experiment()?;
    if let Some(simulator) = simulator.simulator() {
        selection.refuse_unknown_subjects(&experiment.scenarios, simulator)?;
    }
    let mut folder = folder(arguments);
    folder.extend(arguments.part.map(Part::folder));
    say_empty(&experiment.scenarios);
    say_backgrounds(&experiment.scenarios, simulator)?;
    let options = SweepOptions {
        folder: Some(folder.clone()),
        workers: arguments.workers.map(usize::from),
        build: build_of(Path::new("/proc/self/exe"))?,
        part: arguments.part,
        merged: arguments.merge.clone(),
    };
    let sweep = Sweep::open(&experiment, options)?;
    if !cli.quiet {
        let _ = call.err.write_all(found(&sweep, &folder).as_bytes());
    }
    let runs = (sweep.points() - sweep.finished()) as u64 * u64::from(experiment.seeds);
    let bar = progress(runs, cli.quiet);
    let results = sweep.run(simulator, &|| bar.inc(1));
    bar.finish_and_clear();
    let results = results?;
    results.save(&folder)?;
    let text = table(&results, &selection, arguments.verbose)? + &files(&results, &folder);
    written(call.out.write_all(text.as_bytes()))
}

/// The frontier of a recorded service: its latency under every limit worth a thought.
fn sweep_recording<S: Simulate>(arguments: &SweepArguments, call: &mut Call<S>) -> Result<()> {
    let (cli, columns) = (call.cli, &arguments.columns);
    if !columns.0.leading.is_empty() || !columns.0.variants.is_empty() {
        let error = Error::usage("the sweep of a recording has its own grid: quotas and bursts");
        return Err(error.hint("`schedcast what-if` takes settings and variants"));
    }
    if !arguments.metrics.is_empty() || arguments.workers.is_some() {
        let error = Error::usage("`--metric` and `--workers` are for the sweep of an experiment");
        return Err(error.hint("name what a recording's sweep draws with --slo"));
    }
    if arguments.part.is_some() || !arguments.merge.is_empty() {
        let error = Error::usage("`--part` and `--merge` are for the sweep of an experiment");
        return Err(error.hint("the sweep of a recording takes seconds; run several at once"));
    }
    let folder = folder(arguments);
    output::refuse_no_folder(Some(&folder))?;
    let subject = recording(&arguments.subject, call.simulator)?;
    let question = question_about(subject, columns, &arguments.target, &arguments.effort)?;
    let experiment = question.experiment()?;
    say_oddities(&question, &mut call.err)?;
    say_newer_kernels(&experiment.scenarios);
    let slos: Vec<String> = arguments.slo.iter().cloned().collect();
    let about = frontier::LIMITS_ABOUT * u64::from(experiment.seeds);
    let progress = progress(about, cli.quiet);
    let finished = || progress.inc(1);
    let found = frontier::of_recording(&question, &experiment, &slos, call.simulator, &finished);
    progress.finish_and_clear();
    let found = found?;
    if let Subject::Recording(recorded) = &question.subject {
        let known = recorded.seen.closed_loops.get(&found.target);
        let is_assumed = clients::are_assumed(&experiment.scenarios[0], known);
        if is_assumed && !slos.is_empty() {
            let note = "the recording does not tell whether clients keep a schedule; `*` is of those that do: `schedcast check` asks about the others";
            say(&[note.to_owned()], &mut call.err);
        }
    }
    Drawn(&found).save(&folder)?;
    let measure = found.first_measure();
    let mut text = Drawn(&found).table(measure, cli.style.columns) + "\n";
    text += &Drawn(&found).plot(measure, cli.style.columns);
    let (points, seeds, folder) = (found.points().count(), found.seeds, folder.display());
    text += &format!(
        "{points} limits × {seeds} seeds: {folder}/results.csv, {folder}/results.json, {folder}/frontier.svg\n"
    );
    written(call.out.write_all(text.as_bytes()))
}

fn folder(arguments: &SweepArguments) -> PathBuf {
    match (&arguments.output, arguments.subject.file_stem()) {
        (Some(folder), _) => folder.clone(),
        (None, stem) => {
            let mut name = stem.unwrap_or_default().to_os_string();
            name.push(".sweep");
            PathBuf::from(name)
        }
    }
}

/// Note on the progress of an earlier sweep in `folder`: finished points and damaged lines; empty
/// without any.
fn found(sweep: &Sweep<'_>, folder: &Path) -> String {
    let mut text = String::new();
    if sweep.finished() > 0 {
        let (finished, points, folder) = (sweep.finished(), sweep.points(), folder.display());
        text += &format!("resuming {folder}: {finished} of {points} points are finished\n");
    }
    for (folder, damaged) in sweep.damaged() {
        let journal = format!("{}/journal", folder.display());
        text += &match damaged {
            1 => format!("1 damaged line of {journal} does not count\n"),
            _ => format!("{damaged} damaged lines of {journal} do not count\n"),
        };
    }
    text
}

fn table(results: &Results, selection: &Selection, verbose: bool) -> Result<String> {
    let reported: Vec<&str> = results.metrics.iter().map(String::as_str).collect();
    selection.refuse_misses(&reported)?;
    if results.rows.len() > MOST_ROWS && selection.is_empty() {
        return Ok(String::new());
    }
    let metrics = match (selection.is_empty(), verbose) {
        (true, true) => results.metrics.clone(),
        (true, false) => results.headline(),
        _ => {
            let chosen = results.metrics.iter().filter(|name| selection.has(name));
            chosen.cloned().collect()
        }
    };
    Ok(results.table(&metrics) + "\n")
}

fn files(results: &Results, folder: &Path) -> String {
    let (points, seeds, folder) = (results.rows.len(), results.seeds, folder.display());
    format!("{points} points × {seeds} seeds: {folder}/results.csv, {folder}/results.json\n")
}
