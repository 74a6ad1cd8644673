//! `schedcast convert`, `timehist`, `latency`, `map`, `counters`.

use std::io::Write;
use std::path::Path;

use schedcast_lab::counters::{self, Known};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::views::{self, Columns, Format, Parts, Selection, Sort};

use crate::arguments::views::{
    ConvertArguments, CountersArguments, Selected, SortBy, Target, ViewVerb,
};
use crate::written;

/// Runs one of the verbs; what is odd about the trace goes to `err`.
pub fn run(verb: &ViewVerb, out: &mut impl Write, err: &mut impl Write) -> Result<()> {
    let (trace, selected) = match verb {
        ViewVerb::Convert(arguments) => return convert(arguments, out, err),
        ViewVerb::Counters(arguments) => return counters(arguments, out),
        ViewVerb::Timehist(arguments) => (&arguments.trace, &arguments.selected),
        ViewVerb::Latency(arguments) => (&arguments.trace, &arguments.selected),
        ViewVerb::Map(arguments) => (&arguments.trace, &arguments.selected),
    };
    let (recording, notes) = views::open(trace)?;
    say(&notes, err);
    let selection = selection(selected);
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
            let sort = match arguments.sort {
                SortBy::Avg => Sort::Average,
                SortBy::Max => Sort::Max,
                SortBy::Switch => Sort::Switches,
                SortBy::Runtime => Sort::Runtime,
            };
            views::latency(&recording, &selection, sort, arguments.pids)
        }
        ViewVerb::Map(_) | ViewVerb::Convert(_) | ViewVerb::Counters(_) => {
            views::map(&recording, &selection)
        }
    };
    written(out.write_all(text.as_bytes()))
}

fn convert(arguments: &ConvertArguments, out: &mut impl Write, err: &mut impl Write) -> Result<()> {
    let format = arguments.to.map(|to| match to {
        Target::FtraceText => Format::FtraceText,
        Target::PerfScript => Format::PerfScript,
        Target::Perfetto => Format::Perfetto,
    });
    let notes = views::convert(&arguments.trace, &arguments.out, format, out)?;
    say(&notes, err);
    Ok(())
}

/// `schedcast counters`
fn counters(arguments: &CountersArguments, out: &mut impl Write) -> Result<()> {
    let known = Known::open(&arguments.recording, arguments.cgroup.as_deref())?;
    let limits = counters::limits(known.limit, &arguments.columns.0)?;
    let bounds = counters::bounds(&known, &limits)?;
    match arguments.json.as_deref() {
        Some(path) if path == Path::new("-") => {
            return written(out.write_all(bounds.json().as_bytes()));
        }
        Some(path) => std::fs::write(path, bounds.json())
            .map_err(|error| Error::file("write", path.display(), &error))?,
        None => {}
    }
    let text = bounds.text(&arguments.recording.display().to_string());
    written(out.write_all(text.as_bytes()))
}

/// Notes are no part of the answer.
fn say(notes: &[String], err: &mut impl Write) {
    for note in notes {
        // Nothing can be done about a closed standard error.
        let _ = writeln!(err, "note: {note}");
    }
}

fn selection(selected: &Selected) -> Selection {
    let time = selected.time.map_or((None, None), |span| (span.0, span.1));
    Selection {
        cpus: selected
            .cpu
            .clone()
            .map_or_else(Default::default, |cpus| cpus.0),
        task: selected.task.clone(),
        tids: selected.tid.iter().copied().collect(),
        between_ns: time,
    }
}
