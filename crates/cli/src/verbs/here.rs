//! `top` and `self check`: a look at this host.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use schedcast_host::top::{Look, Table};
use schedcast_host::{CpuHierarchy, self_check, sys};
use schedcast_lab::error::{Error, Result};

use crate::arguments::here::{SelfArguments, SelfVerb, TopArguments};
use crate::{output, written};

/// Groups in a table that is not asked to be whole.
const MOST_ROWS: usize = 30;
/// How often a wait looks whether it was asked to end.
const STOP_EVERY: Duration = Duration::from_millis(50);
/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// `schedcast top`
pub(super) fn top(arguments: &TopArguments, out: &mut impl Write) -> Result<u8> {
    output::refuse_unwritable([arguments.json.as_ref()])?;
    let hierarchy = CpuHierarchy::detect()?;
    let look = || Look::take(&hierarchy, Path::new("/")).map_err(Error::from);
    let stop = sys::stop_flag();
    let terminal = !arguments.once && arguments.json.is_none() && std::io::stdout().is_terminal();
    let follows = terminal || arguments.follow;
    let mut earlier = look()?;
    loop {
        let until = Instant::now() + Duration::from_secs_f64(arguments.interval);
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_EVERY.min(until.saturating_duration_since(Instant::now())));
        }
        if stop.load(Ordering::Relaxed) && follows {
            return Ok(0);
        }
        let now = look()?;
        let table = now.since(&earlier, hierarchy.version(), arguments.all);
        if let Some(path) = &arguments.json {
            if !follows {
                output::save(path, &format!("{:#}\n", table.json()), out)?;
                return Ok(0);
            }
            output::save(path, &format!("{}\n", table.json()), out)?;
            earlier = now;
            continue;
        }
        let most = match terminal {
            true => MOST_ROWS,
            false => usize::MAX,
        };
        if terminal {
            // Not through `out`, which shows escape sequences instead of sending them.
            written(std::io::stdout().write_all(CLEAR.as_bytes()))?;
        }
        let text = shown(&table, most);
        written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))?;
        if !follows {
            return Ok(0);
        }
        earlier = now;
    }
}

fn shown(table: &Table, most: usize) -> String {
    let next = table
        .next()
        .map_or(String::new(), |next| format!("\nnext: {next}\n"));
    table.text(most) + &next
}

/// `schedcast self`
pub(super) fn own(arguments: &SelfArguments, out: &mut impl Write) -> Result<u8> {
    let SelfVerb::Check(check) = &arguments.what;
    output::refuse_unwritable([check.json.as_ref()])?;
    let hierarchy = CpuHierarchy::detect().ok();
    let checked = self_check::check(Path::new("/"), hierarchy.as_ref());
    match &check.json {
        Some(path) => output::save(path, &format!("{:#}\n", checked.json()), out)?,
        None => {
            let version = env!("CARGO_PKG_VERSION");
            let text = format!("schedcast {version}\n\n{}", checked.text());
            written(out.write_all(text.as_bytes()))?;
        }
    }
    Ok(0)
}
