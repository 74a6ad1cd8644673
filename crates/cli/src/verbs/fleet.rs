//! `schedcast fleet`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schedcast_advise::counters::Dump;
use schedcast_advise::fleet::{Fleet, Question, Server};
use schedcast_lab::error::Result;
use schedcast_present::fleet_page;

use crate::arguments::fleet::FleetArguments;
use crate::{output, written};

/// Rows that are printed unless all are asked for.
const FIRST: usize = 20;

/// One of the forms of an answer.
type Text<'a> = &'a dyn Fn(&Fleet) -> String;

/// Runs the verb.
pub(crate) fn run(arguments: &FleetArguments, out: &mut impl Write) -> Result<()> {
    let (dump, source) = dump(arguments)?;
    let question = Question {
        throttled_below: arguments.throttled_below,
        budget_cpus: arguments.budget,
    };
    let fleet = Fleet::new(&dump, question);
    let page = |fleet: &Fleet| fleet_page::page(fleet, &source);
    let files: [(&Option<PathBuf>, Text<'_>); 5] = [
        (&arguments.json, &Fleet::json),
        (&arguments.csv, &Fleet::csv),
        (&arguments.html, &page),
        (&arguments.rules, &Fleet::rules),
        (&arguments.dashboard, &Fleet::dashboard),
    ];
    for (path, text) in files {
        if let Some(path) = path {
            output::save(path, &text(&fleet), out)?;
        }
    }
    let standard = Some(Path::new("-"));
    if files.iter().any(|(path, _)| path.as_deref() == standard) {
        return Ok(());
    }
    let most = (!arguments.all).then_some(FIRST);
    written(out.write_all(fleet.text(&source, most).as_bytes()))
}

/// The counters, and what they were read from.
fn dump(arguments: &FleetArguments) -> Result<(Dump, String)> {
    let Some(url) = &arguments.prometheus else {
        let names = arguments.ranges.iter();
        let names: Vec<String> = names.map(|path| path.display().to_string()).collect();
        let dump = Dump::open(&arguments.ranges, arguments.cpus)?;
        return Ok((dump, names.join(" ")));
    };
    let server = Server {
        url: url.clone(),
        labels: arguments.select.clone(),
        last_s: arguments.last,
        headers: arguments.header.clone(),
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let answers = server.ask(now.map_or(0, |now| now.as_secs()))?;
    let dump = Dump::read(url, &answers, arguments.cpus)?;
    Ok((dump, format!("{url}, the last {} s", arguments.last)))
}
