//! When two points are the same point: a hash over everything that decides a point's results.
//!
//! A finished point is found again by what it is, not by where it stands. A grid that grew by one
//! value therefore runs only its new points, while a point whose duration, recording or simulator
//! changed is another point. Worked example: of `hz = [250, 1000]` with 10 seeds both points are in
//! the journal; for `hz = [100, 250, 1000]` one of three runs, and for 20 seeds all three do.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::experiment::Scenario;
use crate::experiment::kernel::KernelSettings;
use crate::experiment::program::{Action, Program};
use schedcast_sim::random::Fnv;

/// Files of a kernel tree that decide the behaviour of its scheduler: its release and its C.
const TREE: [&str; 2] = ["Makefile", "kernel/sched"];

/// Computes fingerprints; reads every file that programs refer to once.
pub(super) struct Fingerprints<'a> {
    build: &'a str,
    seeds: u32,
    files: BTreeMap<PathBuf, u64>,
}

impl<'a> Fingerprints<'a> {
    /// Fingerprints of points that `build` of the program runs under `seeds` seeds.
    pub(super) fn new(build: &'a str, seeds: u32) -> Fingerprints<'a> {
        Fingerprints {
            build,
            seeds,
            files: BTreeMap::new(),
        }
    }

    /// The fingerprint of a point. Its name is no part of it, nor is the file it was written in.
    ///
    /// # Errors
    /// A recording, or a file on a command line, that cannot be read.
    pub(super) fn of(&mut self, scenario: &Scenario) -> Result<u64> {
        let mut hash = Fnv::default();
        // Taken apart by name, so that a new field cannot be forgotten here.
        let Scenario {
            name: _,
            machine,
            kernel,
            cgroup_version,
            cgroups,
            programs,
            changes,
            duration_ns,
            awaits,
            warmup_ns,
        } = scenario;
        let settings = (&self.build, self.seeds, &machine.machine);
        let KernelSettings {
            version,
            // Only said to readers.
            stands_for: _,
            hz,
            preempt,
            preempt_written: _,
            preempt_dynamic,
            irq_time_accounting,
            uclamp: _,
            autogroup,
            features,
            // They are in the rules.
            patches: _,
            tunables: _,
            tree,
            rules,
        } = kernel;
        let modes = (preempt_dynamic, irq_time_accounting);
        let ticks = (version, hz, preempt, autogroup);
        let groups = (cgroup_version, cgroups);
        // Hashing cannot fail.
        let _ = write!(hash, "{settings:?}{ticks:?}{modes:?}{rules:?}{groups:?}");
        if let Some(tree) = tree {
            // A tree has features that the rules do not have.
            for word in features {
                let _ = write!(hash, " {}", word.value);
            }
            for decides in TREE {
                hash.add(&self.contents(&tree.value.join(decides))?.to_le_bytes());
            }
        }
        let _ = write!(hash, "{duration_ns:?} {warmup_ns}");
        if let Some(group) = awaits {
            let _ = write!(hash, "awaits {group}");
        }
        let _ = write!(hash, "{}", machine.housekeeping);
        if let Some(background) = &machine.background {
            hash.add(&self.contents(&background.value)?.to_le_bytes());
        }
        for change in changes {
            let rules = change.kernel.as_ref().map(|kernel| &kernel.rules);
            let _ = write!(hash, "{} {:?} {rules:?}", change.time_ns, change.cgroups);
        }
        for program in programs {
            let Program {
                name,
                action,
                cgroup,
                start_ns,
                environment,
                prices,
            } = program;
            let _ = write!(hash, "{name} {cgroup} {start_ns} {prices:?}");
            for (name, value) in environment {
                let _ = write!(hash, "{name}={value} ");
            }
            match &action.value {
                // The same recording is the same point wherever it is.
                Action::Replay(folder, adjust) => {
                    let _ = write!(hash, "replay {adjust:?}");
                    hash.add(&self.contents(folder)?.to_le_bytes());
                }
                // Files of a command line count from the current directory, as in a shell.
                Action::Run(words) => {
                    let _ = write!(hash, "run {words:?}");
                    for word in words.iter().filter(|word| Path::new(word).is_file()) {
                        hash.add(&self.contents(Path::new(word))?.to_le_bytes());
                    }
                }
                Action::Profile(profile) => {
                    let _ = write!(hash, "profile {profile:?}");
                }
            }
        }
        Ok(hash.0)
    }

    /// Hash over a file, or over the names and contents of everything in a folder.
    fn contents(&mut self, path: &Path) -> Result<u64> {
        if let Some(&known) = self.files.get(path) {
            return Ok(known);
        }
        let unreadable = |error: std::io::Error| Error::file("read", path.display(), &error);
        let mut hash = Fnv::default();
        if path.is_dir() {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(path).map_err(unreadable)? {
                files.push(entry.map_err(unreadable)?.path());
            }
            files.sort();
            for file in &files {
                hash.add(file.file_name().unwrap_or_default().as_encoded_bytes());
                hash.add(&self.contents(file)?.to_le_bytes());
            }
        } else {
            hash.add(&std::fs::read(path).map_err(unreadable)?);
        }
        self.files.insert(path.to_path_buf(), hash.0);
        Ok(hash.0)
    }
}
