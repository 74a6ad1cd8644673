//! `schedcast fleet`.

use std::io::Write;
use std::path::Path;

use schedcast_lab::counters::Dump;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::fleet::{Fleet, Question};
use schedcast_trace::fresh;

use crate::arguments::fleet::FleetArguments;
use crate::written;

/// Rows that are printed unless all are asked for.
const FIRST: usize = 20;

/// Runs the verb.
pub fn run(arguments: &FleetArguments, out: &mut impl Write) -> Result<()> {
    let dump = Dump::open(&arguments.ranges, arguments.cpus)?;
    let question = Question {
        throttled_below: arguments.throttled_below,
        budget_cpus: arguments.budget,
    };
    let fleet = Fleet::new(&dump, question);
    let standard = Path::new("-");
    let files = [
        (&arguments.json, Fleet::json as fn(&Fleet) -> String),
        (&arguments.csv, Fleet::csv),
        (&arguments.rules, Fleet::rules),
        (&arguments.dashboard, Fleet::dashboard),
    ];
    let mut is_printed = false;
    for (path, text) in files {
        match path.as_deref() {
            None => {}
            Some(path) if path == standard => {
                is_printed = true;
                written(out.write_all(text(&fleet).as_bytes()))?;
            }
            Some(path) => fresh::write(path, text(&fleet))
                .map_err(|error| Error::file("write", path.display(), &error))?,
        }
    }
    if is_printed {
        return Ok(());
    }
    let names: Vec<String> = arguments
        .ranges
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let most = (!arguments.all).then_some(FIRST);
    written(out.write_all(fleet.text(&names.join(" "), most).as_bytes()))
}
