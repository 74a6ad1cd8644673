//! `schedcast convert`, `timehist`, `latency`, `map`, `profile`, `counters`.

use std::io::Write;

use schedcast_advise::counters::{self, Beyond, Known};
use schedcast_base::fresh;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::question::{Columns as Limits, Setting};
use schedcast_present::views::{self, Columns, Parts, Selection};

use super::say;
use crate::arguments::views::{
    ConvertArguments, CountersArguments, ProfileArguments, Selected, ViewVerb, label_and_value,
};
use crate::{Call, output, written};

/// Runs one of the verbs; what is odd about the trace goes to `err`.
pub(crate) fn run<S>(verb: &ViewVerb, call: &mut Call<S>) -> Result<()> {
    let (out, err) = (&mut call.out, &mut call.err);
    let (trace, selected) = match verb {
        ViewVerb::Convert(arguments) => return convert(arguments, out, err),
        ViewVerb::Counters(arguments) => return counters(arguments, out),
        ViewVerb::Profile(arguments) => return profile(arguments, out),
        ViewVerb::Timehist(arguments) => (&arguments.trace, &arguments.selected),
        ViewVerb::Latency(arguments) => (&arguments.trace, &arguments.selected),
        ViewVerb::Map(arguments) => (&arguments.trace, &arguments.selected),
    };
    let (recording, notes) = views::open(trace)?;
    say(&notes, err);
    let selection = selection(selected);
    say(&views::absent(&recording, &selection)?, err);
    let text = match verb {
        ViewVerb::Timehist(arguments) => {
            let parts = match (arguments.summary, arguments.with_summary) {
                (true, _) => Parts::Summary,
                (false, true) => Parts::Both,
                (false, false) => Parts::Rows,
            };
            let columns = Columns {
                state: arguments.state,
                next: arguments.next,
                wakeups: arguments.wakeups,
                migrations: arguments.migrations,
            };
            views::timehist(&recording, &selection, columns, parts)
        }
        ViewVerb::Latency(arguments) => {
            views::latency(&recording, &selection, arguments.sort, arguments.pids)
        }
        ViewVerb::Map(_) | ViewVerb::Convert(_) | ViewVerb::Counters(_) | ViewVerb::Profile(_) => {
            views::map(&recording, &selection)
        }
    };
    written(out.write_all(text.as_bytes()))
}

fn convert(arguments: &ConvertArguments, out: &mut impl Write, err: &mut impl Write) -> Result<()> {
    let notes = views::convert(&arguments.trace, &arguments.out, arguments.to, out)?;
    say(&notes, err);
    Ok(())
}

/// `schedcast profile`
fn profile(arguments: &ProfileArguments, out: &mut impl Write) -> Result<()> {
    let text = schedcast_lab::profile::distil(&arguments.recording)?;
    match &arguments.output {
        Some(path) => fresh::save(path, text),
        None => written(out.write_all(text.as_bytes())),
    }
}

/// `schedcast counters`
fn counters(arguments: &CountersArguments, out: &mut impl Write) -> Result<()> {
    let mut columns = arguments.columns.0.clone();
    let (known, source) = known(arguments, &mut columns)?;
    let limits = counters::limits(known.limit, &columns)?;
    let bounds = counters::bounds(&known, &limits)?;
    output::give(
        &bounds.text(&source),
        || Ok(bounds.json()),
        arguments.json.as_deref(),
        out,
    )
}

/// Known counters and the name of their source. The CPUs of a range's machine are no column.
fn known(arguments: &CountersArguments, columns: &mut Limits) -> Result<(Known, String)> {
    let path = &arguments.recording;
    if path.is_dir() {
        if !arguments.select.is_empty() || !arguments.limit.is_empty() {
            return Err(Error::usage(
                "--select and --limit are for Prometheus ranges: a recording tells its limit",
            ));
        }
        let known = Known::open(path, arguments.target.wanted().as_ref())?;
        return Ok((known, format!("recording {}", path.display())));
    }
    if arguments.target.wanted().is_some() {
        return Err(Error::usage("a Prometheus range has no cgroups")
            .hint("choose a series by its labels: --select container=NAME"));
    }
    let label = |text: &String| label_and_value(text).map_err(Error::usage);
    let beyond = Beyond {
        labels: arguments.select.iter().map(label).collect::<Result<_>>()?,
        limit: counters::settings(&arguments.limit)?,
        cpus: take_cpus(&mut columns.leading)?,
    };
    let known = Known::from_range(path, &beyond)?;
    Ok((known, format!("range {}", path.display())))
}

/// The `--cpus` among the settings.
fn take_cpus(settings: &mut Vec<Setting>) -> Result<Option<u32>> {
    let mut cpus = None;
    for setting in std::mem::take(settings) {
        match setting {
            Setting::Flag {
                flag: "--cpus",
                argument,
                ..
            } => {
                let number = argument.parse().ok();
                let number = number.filter(|cpus| (1..=4096).contains(cpus));
                let refused = || format!("expected 1 to 4096 behind --cpus, found `{argument}`");
                cpus = Some(number.ok_or_else(|| Error::usage(refused()))?);
            }
            other => settings.push(other),
        }
    }
    Ok(cpus)
}

fn selection(selected: &Selected) -> Selection {
    let time = selected.time.map_or((None, None), |span| (span.0, span.1));
    let cpus = selected.cpu.iter().flat_map(|list| list.cpus());
    Selection {
        cpus: cpus.copied().collect(),
        task: selected.task.clone(),
        tids: selected.tid.iter().copied().collect(),
        between_ns: time,
    }
}
