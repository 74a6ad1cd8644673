//! rt-app files: reading them, and what they mean.
//!
//! rt-app is the workload language that kernel developers share: a JSON file of threads, each a
//! list of phases, each a list of events such as `run`, `timer`, `lock`. schedcast reads the files
//! as they are, including what makes them not quite JSON.
//!
//! ```
//! use schedcast_workload::rtapp::{Action, parse};
//!
//! let text = br#"{ "tasks": { "camera": {    /* a fifth of one CPU, thirty times a second */
//!     "loop": 90, "run": 6667, "timer": { "ref": "unique", "period": 33333 }, } } }"#;
//! let file = parse("camera.json", text)?;
//! let camera = &file.tasks[0];
//! assert_eq!(camera.phases()[0].events[0].action, Action::Run(6667));
//! assert!(file.unsupported(false).is_empty());
//!
//! let error = parse("camera.json", br#"{ "tasks": { "camera": { "rum": 6667 } } }"#).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "camera.json:1:26: unknown key \"rum\" in task \"camera\"; nearest valid name: `run`"
//! );
//! # Ok::<(), schedcast_workload::rtapp::Error>(())
//! ```
//!
//! Layers, each with its own errors: [`json`] is text with places, the grammar makes a typed
//! [`File`] of it and refuses unknown and repeated keys, [`File::unsupported`] names what loads but
//! cannot run, [`compile`](mod@compile) makes programs of the rest, whose rows [`log`] prints. The
//! grammar is that of rt-app's main line of 2026, which contains that of Debian's 1.0; where the
//! two disagree, the module that decides says so.

mod ast;
mod attributes;
mod check;
pub mod compile;
mod error;
mod events;
mod fields;
mod global;
mod grammar;
pub mod json;
pub mod log;
mod obsolete;
mod references;

use std::io;
use std::path::{Path, PathBuf};

pub use ast::{
    Action, Body, Calibration, Condition, Event, File, Global, Located, MemoryAccess, MemoryRun,
    Note, Phase, Policy, Repeat, Scheduling, Task, TimerMode, TimerUse,
};
pub use attributes::{Attributed, Attributes};
pub use check::Refusal;
pub use error::{Error, Fault, Span};
pub use events::{KINDS as EVENT_KINDS, event_kind};

/// Why a file on disk could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It could not be read.
    #[error("{}: {source}{}", path.display(), counted_from(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// It is not an rt-app file.
    #[error(transparent)]
    Parse(#[from] Error),
}

/// Where a relative path counts from, in words: an experiment file may lie elsewhere.
fn counted_from(path: &Path) -> &'static str {
    match path.is_relative() {
        true => "; paths in a command count from where schedcast is started",
        false => "",
    }
}

/// Reads rt-app text. `name` is the file's name in messages.
///
/// # Errors
///
/// The first thing that is not valid, with its place.
pub fn parse(name: &str, text: &[u8]) -> Result<File, Error> {
    let root = json::parse(text).map_err(|fault| fault.in_file(name))?;
    grammar::read(name, &root).map_err(|fault| fault.in_file(name))
}

/// Reads an rt-app file from disk.
///
/// # Errors
///
/// [`LoadError::Read`] if there is no such file, [`LoadError::Parse`] if it is not valid.
pub fn load(path: &Path) -> Result<File, LoadError> {
    let text = schedcast_base::whole::read(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(parse(&path.display().to_string(), &text)?)
}
