//! A question as the Python half asks it: the words of the command line under their names.

use std::path::PathBuf;

use pyo3::prelude::*;
use schedcast_lab::error::Result;
use schedcast_lab::question::{Columns, Question, Setting, Subject};
use schedcast_lab::simulator::Simulator;

/// One question. Exactly one of `path`, `text`, `command` and `recording` is given.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    /// An experiment file.
    path: Option<PathBuf>,
    /// The text of an experiment, what to call it, and the directory its paths count from.
    text: Option<(String, String, PathBuf)>,
    /// A command line in words.
    command: Option<Vec<String>>,
    /// The folder of a recording.
    recording: Option<PathBuf>,
    /// Only this variant of an experiment.
    only: Option<String>,
    /// Exactly one variant must be left.
    single: bool,
    /// `--cgroup`
    cgroup: Option<String>,
    /// `--set` before the first `--variant`.
    settings: Vec<String>,
    /// `--variant NAME` with the `--set`s behind it.
    variants: Vec<(String, Vec<String>)>,
    /// `--seeds`
    seeds: Option<u32>,
    /// `--duration`
    duration: Option<String>,
    /// `--measured`
    measured: bool,
}

impl Asked {
    /// Whether an experiment of several variants is to be refused.
    pub(crate) fn single(&self) -> bool {
        self.single
    }

    /// The question for the laboratory. What is read of a recording stays in `simulator`, whose
    /// runs need not read it again.
    pub(crate) fn question(self, simulator: &Simulator) -> Result<Question> {
        let only = self.only;
        let subject = if let Some(folder) = self.recording {
            Subject::Recording(simulator.open(&folder)?)
        } else if let Some(path) = self.path {
            Subject::File { path, only }
        } else if let Some((name, text, directory)) = self.text {
            Subject::Text {
                name,
                text,
                directory,
                only,
            }
        } else {
            Subject::Command(self.command.unwrap_or_default())
        };
        let set = |settings: Vec<String>| settings.into_iter().map(Setting::Set).collect();
        let variants = self.variants.into_iter();
        Ok(Question {
            subject,
            cgroup: self.cgroup,
            columns: Columns {
                leading: set(self.settings),
                variants: variants.map(|(name, all)| (name, set(all))).collect(),
            },
            seeds: self.seeds,
            duration: self.duration,
            measured: self.measured,
        })
    }
}
