//! `schedcast serve`: the report with controls.

use std::ffi::OsString;
use std::io::Write;
use std::sync::atomic::AtomicBool;

use schedcast_lab::error::Result;
use schedcast_lab::question::Subject;
use schedcast_lab::serve::Server;
use schedcast_lab::simulator::Simulator;

use super::{question, recording};
use crate::arguments::serve::ServeArguments;
use crate::{output, written};

/// Runs of each variant while controls move, unless the command line says another number.
const SEEDS: u32 = 3;

/// `schedcast serve`
pub fn serve(
    arguments: &ServeArguments,
    words: &[OsString],
    (out, err): (&mut impl Write, &mut impl Write),
) -> Result<()> {
    let path = &arguments.subject;
    let subject = if path.is_dir() {
        recording(path, err)?
    } else {
        Subject::File {
            path: path.clone(),
            only: None,
        }
    };
    let mut effort = arguments.effort.clone();
    let seeds = *effort.seeds.get_or_insert(SEEDS);
    let cgroup = arguments.cgroup.as_deref();
    let question = question(subject, &arguments.columns, cgroup, &effort);
    let reproduce = output::reproduce(words);
    let server = Server::new(question, Simulator::new(), arguments.port, seeds, reproduce)?;
    let line = format!("http://{}/ (Ctrl-C ends it)\n", server.address());
    written(out.write_all(line.as_bytes()).and_then(|()| out.flush()))?;
    server.serve(&AtomicBool::new(false))
}
