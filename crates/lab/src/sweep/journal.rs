//! Finished points on disk, so that no death of the process loses more than the points in flight.
//!
//! The journal is a text file that only grows. Every line is one finished point:
//!
//! ```text
//! 9f0c51d2a4e0b713 {"point":"04c1…","runs":[{"event_hash":"8be0…","metrics":{"machine/wakeups":2418.0}}]}
//! └ checksum of the rest of the line        └ fingerprint of the point, then one run for each seed
//! ```
//!
//! A line counts once it is whole: a process killed in the middle of a write leaves a last line
//! without its end or with a checksum that does not fit, and that line is cut off when the journal
//! is opened again. Worked example: of 100 points 37 lines and a half are on disk; 37 points are
//! read, the half line is cut off and point 38 runs anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::outcome::Outcome;
use schedcast_sim::random::Fnv;

/// How often a lock that another process holds is asked for again, and after which time: 0.2 s in
/// all.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Digits of the checksum and of all other hashes.
const DIGITS: usize = 16;

/// One line, without its checksum.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    point: String,
    runs: Vec<Run>,
}

/// One run of a record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    event_hash: String,
    /// `null` is a value that is no number.
    metrics: BTreeMap<String, Option<f64>>,
    /// Metrics whose value is a lower bound.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    at_least: BTreeSet<String>,
}

/// Content of a journal when it was opened.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The runs of every finished point by its fingerprint.
    pub points: BTreeMap<u64, Vec<Outcome>>,
    /// Lines that were whole but not as they were written.
    pub damaged: usize,
}

/// A journal open for writing; no other process can open it meanwhile.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Opens or creates the journal at `path`, reads what is in it and cuts off a torn last line.
    ///
    /// # Errors
    /// A file that cannot be opened, read or written, or that another sweep holds.
    pub(super) fn open(path: &Path) -> Result<(Journal, Found)> {
        let fails = |action: &'static str| {
            let path = path.display().to_string();
            move |error: std::io::Error| Error::file(action, &path, &error)
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(fails("open"))?;
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("another sweep is writing {}", path.display());
                return Err(Error::usage(message).hint("wait for it, or choose another -o DIR"));
            }
            Err(TryLockError::Error(error)) => return Err(fails("lock")(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fails("read"))?;
        let whole = whole(&bytes);
        let found = read_lines(whole);
        let length = whole.len() as u64;
        if whole.len() < bytes.len() {
            file.set_len(length).map_err(fails("shorten"))?;
        }
        file.seek(SeekFrom::Start(length)).map_err(fails("read"))?;
        file.sync_all().map_err(fails("write"))?;
        sync_directory(path).map_err(fails("write"))?;
        let path = path.to_path_buf();
        Ok((Journal { path, file }, found))
    }

    /// Adds lines made by [`fn@line`]. When this returns they survive the death of process and
    /// kernel.
    ///
    /// # Errors
    /// A failed write.
    pub(super) fn add(&mut self, lines: &[u8]) -> Result<()> {
        let write = self.file.write_all(lines);
        write
            .and_then(|()| self.file.sync_data())
            .map_err(|error| Error::file("write", self.path.display(), &error))
    }
}

/// A journal without a torn last line.
fn whole(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|&byte| byte == b'\n');
    &bytes[..last.map_or(0, |last| last + 1)]
}

/// Reads the journal at `path`, which another sweep may be writing: a torn last line does not
/// count.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn read(path: &Path) -> Result<Found> {
    let bytes = std::fs::read(path).map_err(|error| Error::file("read", path.display(), &error))?;
    Ok(read_lines(whole(&bytes)))
}

/// Locks the journal for this process. A child that some thread has just started shares a lock
/// until its `exec` closes the file, so one that is held gets a moment to go.
fn lock(file: &File) -> std::result::Result<(), TryLockError> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            answer => return answer,
        }
    }
    file.try_lock()
}

/// Makes a new directory entry durable: the file's own sync does not.
pub(super) fn sync_directory(path: &Path) -> std::io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// The line of a finished point.
pub(super) fn line(point: u64, runs: &[Outcome]) -> Vec<u8> {
    let run = |outcome: &Outcome| Run {
        event_hash: hex(outcome.event_hash),
        metrics: outcome
            .metrics
            .iter()
            .map(|(name, &value)| (name.clone(), value.is_finite().then_some(value)))
            .collect(),
        at_least: outcome.at_least.clone(),
    };
    let record = Record {
        point: hex(point),
        runs: runs.iter().map(run).collect(),
    };
    let json = serde_json::to_string(&record).expect("strings and finite numbers");
    format!("{} {json}\n", hex(Fnv::of(json.as_bytes()))).into_bytes()
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

fn read_lines(bytes: &[u8]) -> Found {
    let mut found = Found::default();
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        match read_line(&line[..line.len() - 1]) {
            Some((point, runs)) => {
                found.points.insert(point, runs);
            }
            None => found.damaged += 1,
        }
    }
    found
}

fn read_line(line: &[u8]) -> Option<(u64, Vec<Outcome>)> {
    let line = std::str::from_utf8(line).ok()?;
    let (checksum, json) = line.split_once(' ')?;
    if checksum.len() != DIGITS || unhex(checksum)? != Fnv::of(json.as_bytes()) {
        return None;
    }
    let record: Record = serde_json::from_str(json).ok()?;
    let runs: Option<Vec<Outcome>> = record.runs.into_iter().map(outcome).collect();
    Some((unhex(&record.point)?, runs?))
}

fn outcome(run: Run) -> Option<Outcome> {
    let metrics = run.metrics.into_iter();
    Some(Outcome {
        event_hash: unhex(&run.event_hash)?,
        metrics: metrics
            .map(|(name, value)| (name, value.unwrap_or(f64::NAN)))
            .collect(),
        at_least: run.at_least,
    })
}

fn unhex(digits: &str) -> Option<u64> {
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(first: f64) -> Vec<Outcome> {
        let run = |event_hash, value| Outcome {
            event_hash,
            metrics: [("machine/wakeups".to_string(), value)].into(),
            at_least: ["machine/wakeups".to_string()].into(),
        };
        // The second value needs all 17 digits.
        vec![run(u64::MAX, first), run(7, 0.1 + 0.2)]
    }

    fn written() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (mut journal, found) = Journal::open(&path).unwrap();
        assert!(found.points.is_empty());
        journal.add(&line(1, &runs(1.5))).unwrap();
        journal.add(&line(2, &runs(2.5))).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (directory, path, bytes)
    }

    #[test]
    fn what_was_added_is_found_again_to_the_last_bit() {
        let (_directory, path, bytes) = written();
        let (_journal, found) = Journal::open(&path).unwrap();
        assert_eq!(
            found.points.into_values().collect::<Vec<_>>(),
            [runs(1.5), runs(2.5)]
        );
        assert_eq!((found.damaged, std::fs::read(&path).unwrap()), (0, bytes));
    }

    #[test]
    fn a_journal_torn_at_any_byte_loses_the_torn_line_alone() {
        let (_directory, path, bytes) = written();
        let first = line(1, &runs(1.5)).len();
        for torn in 0..bytes.len() {
            std::fs::write(&path, &bytes[..torn]).unwrap();
            let (mut journal, found) = Journal::open(&path).unwrap();
            let whole = usize::from(torn >= first);
            assert_eq!((found.points.len(), found.damaged), (whole, 0), "{torn}");
            journal.add(&line(2, &runs(2.5))).unwrap();
            drop(journal);
            let (_journal, found) = Journal::open(&path).unwrap();
            assert_eq!((found.points.len(), found.damaged), (whole + 1, 0));
        }
    }

    #[test]
    fn a_changed_byte_costs_its_own_line() {
        let (_directory, path, bytes) = written();
        let first = line(1, &runs(1.5)).len();
        for at in (0..first - 1).step_by(7) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            let (_journal, found) = Journal::open(&path).unwrap();
            assert_eq!(found.damaged, 1, "byte {at}");
            assert_eq!(found.points.into_keys().collect::<Vec<_>>(), [2]);
        }
    }

    #[test]
    fn only_one_sweep_writes_a_journal() {
        let (_directory, path, _) = written();
        let _held = Journal::open(&path).unwrap();
        let error = Journal::open(&path).err().unwrap();
        assert!(error.to_string().contains("another sweep"), "{error}");
    }

    #[test]
    fn values_that_are_no_numbers_stay_none() {
        let line = line(3, &[runs(f64::INFINITY)[0].clone()]);
        let (_, runs) = read_line(&line[..line.len() - 1]).unwrap();
        assert!(runs[0].metrics["machine/wakeups"].is_nan());
    }
}
