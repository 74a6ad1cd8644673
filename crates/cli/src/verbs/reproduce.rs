//! `schedcast reproduce`

use std::io::Write;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schedcast_base::fresh;
use schedcast_lab::error::{Error, Result};
use schedcast_verify::studies::{self, Bench, Report};

use crate::arguments::Cli;
use crate::arguments::reproduce::{ReproduceArguments, ReproduceFormat};
use crate::output;

/// Predicts the studies and prints them beside what was published.
pub(crate) fn reproduce(
    arguments: &ReproduceArguments,
    cli: &Cli,
    out: &mut impl Write,
) -> Result<Conclusion> {
    let chosen = studies::named(&arguments.studies)?;
    output::refuse_unwritable([arguments.json.as_ref()])?;
    let folders = [&arguments.pictures, &arguments.report];
    for folder in folders.into_iter().flatten() {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::file("create", folder.display(), &error))?;
    }
    let progress = counter(cli.quiet);
    let finished = || progress.inc(1);
    let bench = Bench::new(arguments.quick, &finished);
    let mut reports = Vec::new();
    for study in chosen {
        progress.set_message(study.name);
        reports.push(studies::reproduce(study, &bench)?);
    }
    progress.finish_and_clear();
    if let Some(folder) = &arguments.pictures {
        for report in &reports {
            let path = folder.join(format!("{}.svg", report.name));
            fresh::save(&path, report.picture())?;
        }
    }
    let report = Report::new(arguments.quick, reports);
    if let Some(folder) = &arguments.report {
        write_pages(&report, folder)?;
    }
    print(&report, arguments, out)?;
    Ok(match report.passed() {
        true => Conclusion::Passed,
        false => Conclusion::Missed,
    })
}

/// A page of each study and one that lists them.
fn write_pages(report: &Report, folder: &Path) -> Result<()> {
    let write = |name: String, text: String| fresh::save(&folder.join(name), text);
    for study in &report.studies {
        write(format!("{}.html", study.name), study.page())?;
    }
    write("index.html".to_owned(), report.index_page())
}

/// Whether everything that was judged passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// All bands met, or nothing judged.
    Passed,
    /// A band was missed.
    Missed,
}

fn print(report: &Report, arguments: &ReproduceArguments, out: &mut impl Write) -> Result<()> {
    let json = || {
        let json = report.to_json();
        json.map_err(|error| Error::usage(error.to_string()))
    };
    let text = match arguments.format {
        ReproduceFormat::Table => report.to_text(),
        ReproduceFormat::Markdown => report.to_markdown(),
    };
    output::give(&text, json, arguments.json.as_deref(), out)
}

/// Runs on standard error, if that is a terminal; how many there will be is not known before.
fn counter(quiet: bool) -> ProgressBar {
    let target = match quiet {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    };
    let bar = ProgressBar::with_draw_target(None, target);
    match ProgressStyle::with_template("{spinner} {msg}: {pos} runs, {elapsed}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
