//! Sweeps: every point of a grid under every seed, on all CPUs, one row of results a point.
//!
//! ```text
//! Experiment ──► points still to do ──► workers ──► writer: journal, fsync ──► Results ──► CSV, JSON
//!      ▲                                   │ a point whose last seed has ended
//!      └── journal of an earlier, interrupted sweep
//! ```
//!
//! Workers take runs in the order of points and seeds, so with 2 workers and 10 seeds at most two
//! points are begun and unfinished at any moment: that is all a `kill -9` can cost. Rows are put in
//! their places by point, so the results are the same bytes whatever the number of workers, and
//! whether the sweep was interrupted or not. Worked example: a grid of 4 quotas × 3 bursts × 10
//! seeds is 12 points and 120 runs; killed after run 57 it has 5 points on disk, and its next start
//! runs 70.
//!
//! Several machines share a sweep by parts: part 2 of 5 has points 1, 6 and 11 of these twelve, in
//! a folder of its own. [`SweepOptions::merged`] takes what such folders finished; what none of
//! them has is run as after an interruption.

mod fingerprint;
mod journal;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

pub use self::results::csv_line;
pub use self::results::{Brief, Results, Row};
use crate::comparison::Comparison;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::outcome::Outcome;
use crate::simulate::{Simulate, not_started};
use schedcast_sim::random::Fnv;

use self::fingerprint::Fingerprints;
use self::journal::{Found, Journal};

/// Name of the journal in the folder of a sweep.
pub(crate) const JOURNAL: &str = "journal";

/// How to sweep.
#[derive(Clone, Debug, Default)]
pub struct SweepOptions {
    /// Folder of journal and results; without one nothing survives the process.
    pub folder: Option<PathBuf>,
    /// Threads; `None` is one for each CPU.
    pub workers: Option<usize>,
    /// Identity of the program: differs from that of any program that would compute something else.
    pub build: String,
    /// The part of the grid to run; `None` is all of it.
    pub part: Option<Part>,
    /// Folders of other sweeps, whose finished points count as finished here.
    pub merged: Vec<PathBuf>,
}

/// Every `of`-th point of a grid, beginning with point `number` - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

impl Part {
    /// Reads `2/5`.
    ///
    /// # Errors
    /// A text of another form, a part beyond the last.
    pub fn parse(text: &str) -> std::result::Result<Part, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then_some(Part { number, of })
        });
        numbers.ok_or_else(|| {
            format!("`{text}` is no part: expected K/N with K from 1 to N, such as 2/5")
        })
    }

    /// The name of its folder below that of the sweep.
    pub fn folder(self) -> String {
        format!("part-{}-of-{}", self.number, self.of)
    }

    fn has(self, point: usize) -> bool {
        point % self.of == self.number - 1
    }
}

/// Identity of the program in the file `program`: a hash of its bytes.
///
/// # Errors
/// A file that cannot be read.
pub fn build_of(program: &Path) -> Result<String> {
    let bytes =
        std::fs::read(program).map_err(|error| Error::file("read", program.display(), &error))?;
    Ok(format!("{:016x}", Fnv::of(&bytes)))
}

/// A sweep that is about to run.
pub struct Sweep<'a> {
    experiment: &'a Experiment,
    options: SweepOptions,
    /// The points of this part, by their places in the grid.
    fingerprints: BTreeMap<usize, u64>,
    journal: Option<Journal>,
    found: Found,
    /// Folders whose journals have lines that were not as they had been written, and how many.
    damaged: Vec<(PathBuf, usize)>,
}

impl<'a> Sweep<'a> {
    /// Opens the folder, and finds what an earlier sweep finished in it.
    ///
    /// # Errors
    /// An experiment without a grid, a folder that cannot be used or that another sweep is using, a
    /// merged one whose points are all of another sweep.
    pub fn open(experiment: &'a Experiment, options: SweepOptions) -> Result<Sweep<'a>> {
        if experiment.axes.is_empty() {
            return Err(Error::usage("the experiment has no [sweep]")
                .hint("for example [sweep] and \"kernel.hz\" = [250, 1000]"));
        }
        let mut of = Fingerprints::new(&options.build, experiment.seeds);
        let is_ours = |point: usize| options.part.is_none_or(|part| part.has(point));
        let ours = experiment.scenarios.iter().enumerate();
        let fingerprints = ours
            .filter(|(point, _)| is_ours(*point))
            .map(|(point, scenario)| Ok((point, of.of(scenario)?)))
            .collect::<Result<BTreeMap<usize, u64>>>()?;
        let (mut journal, mut found) = match &options.folder {
            None => (None, Found::default()),
            Some(folder) => {
                std::fs::create_dir_all(folder)
                    .map_err(|error| Error::file("create", folder.display(), &error))?;
                let (journal, found) = Journal::open(&folder.join(JOURNAL))?;
                (Some(journal), found)
            }
        };
        let own = options.folder.iter().cloned();
        let mut damaged: Vec<(PathBuf, usize)> =
            own.map(|folder| (folder, found.damaged)).collect();
        let wanted: BTreeSet<u64> = fingerprints.values().copied().collect();
        found.points.retain(|point, _| wanted.contains(point));
        for folder in &options.merged {
            let mut other = journal::read(&folder.join(JOURNAL))?;
            damaged.push((folder.clone(), other.damaged));
            if options.part.is_none() {
                refuse_foreign(folder, &other.points, &wanted, experiment.seeds)?;
            }
            let is_new = |point: &u64| wanted.contains(point) && !found.points.contains_key(point);
            other.points.retain(|point, _| is_new(point));
            if let Some(journal) = &mut journal {
                let lines = other.points.iter();
                let lines = lines.flat_map(|(point, runs)| journal::line(*point, runs));
                journal.add(&lines.collect::<Vec<u8>>())?;
            }
            found.points.extend(other.points);
        }
        Ok(Sweep {
            experiment,
            options,
            fingerprints,
            journal,
            found,
            damaged,
        })
    }

    /// Number of points to run, finished ones among them: those of the grid, or of its part.
    pub fn points(&self) -> usize {
        self.fingerprints.len()
    }

    /// Points that an earlier sweep, or a merged one, finished.
    pub fn finished(&self) -> usize {
        let known = |point: &&u64| self.found.points.contains_key(point);
        self.fingerprints.values().filter(known).count()
    }

    /// Folders whose journals have lines that were not as they had been written, and how many;
    /// their points run again.
    pub fn damaged(&self) -> impl Iterator<Item = (&Path, usize)> {
        let all = self.damaged.iter();
        all.filter(|(_, lines)| *lines > 0)
            .map(|(folder, lines)| (folder.as_path(), *lines))
    }

    /// Runs what is still to do. `ran` is called after each run, from any thread.
    ///
    /// # Errors
    /// The error of the first run, by point and then by seed, that has one; a failed write. Points
    /// finished before stay in the journal.
    pub fn run(mut self, simulator: &impl Simulate, ran: &(impl Fn() + Sync)) -> Result<Results> {
        let pool = pool(self.options.workers)?;
        let mut known = Vec::new();
        let mut pending = Vec::new();
        for (&point, fingerprint) in &self.fingerprints {
            match self.found.points.get(fingerprint) {
                Some(runs) => known.push((point, runs)),
                None => pending.push(point),
            }
        }
        let row_of =
            |(point, runs): (usize, &Vec<Outcome>)| Ok((point, row(self.experiment, point, runs)?));
        let rows = pool.install(|| known.into_par_iter().map(row_of).collect::<Result<_>>());
        let mut rows: BTreeMap<usize, Row> = rows?;
        self.found = Found::default();
        let journal = self.journal.take();
        let work = Work {
            experiment: self.experiment,
            fingerprints: &self.fingerprints,
            pending: &pending,
            next: AtomicUsize::new(0),
            begun: Mutex::default(),
            failure: Mutex::default(),
        };
        let (sender, receiver) = channel();
        let written = std::thread::scope(|scope| -> Result<_> {
            let writer = std::thread::Builder::new()
                .spawn_scoped(scope, || write(receiver, journal, &work))
                .map_err(not_started)?;
            pool.broadcast(|_| work.until_done(simulator, ran, sender.clone()));
            drop(sender);
            Ok(writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        if let Some((_, error)) = work
            .failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            return Err(error);
        }
        rows.extend(written);
        Ok(Results::new(self.experiment, rows.into_values().collect()))
    }
}

/// Refuses to merge a `folder` with finished `points` of which this sweep wants none: all of it
/// would run anew.
fn refuse_foreign(
    folder: &Path,
    points: &BTreeMap<u64, Vec<Outcome>>,
    wanted: &BTreeSet<u64>,
    seeds: u32,
) -> Result<()> {
    let Some(runs) = points.values().next() else {
        return Ok(());
    };
    if points.keys().any(|point| wanted.contains(point)) {
        return Ok(());
    }
    let (folder, theirs) = (folder.display(), runs.len());
    if theirs == seeds as usize {
        let hint = "merge with the file, the build and the flags that ran the parts; \
                    what changed since has to run anew";
        return Err(Error::usage(format!(
            "`{folder}` has no point of this sweep: its experiment, or the build of schedcast, is another"
        ))
        .hint(hint));
    }
    Err(
        Error::usage(format!("`{folder}` was run with other seeds than {seeds}"))
            .hint(format!("merge with those of its points: --seeds {theirs}")),
    )
}

fn pool(workers: Option<usize>) -> Result<rayon::ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(workers.unwrap_or(0));
    builder.build().map_err(not_started)
}

/// A finished point on its way to the journal.
struct Finished {
    point: usize,
    line: Vec<u8>,
    row: Row,
}

/// State that workers share.
struct Work<'a> {
    experiment: &'a Experiment,
    fingerprints: &'a BTreeMap<usize, u64>,
    /// Points to run, in order.
    pending: &'a [usize],
    /// The next run: index in `pending` times seeds plus seed.
    next: AtomicUsize,
    /// Runs of points that are not finished, by point; one place for each seed.
    begun: Mutex<BTreeMap<usize, Vec<Option<Outcome>>>>,
    /// The first failure by run, and its error.
    failure: Mutex<Option<(usize, Error)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Work<'_> {
    /// Takes runs until there are none left or one has failed.
    fn until_done(
        &self,
        simulator: &impl Simulate,
        ran: &(impl Fn() + Sync),
        finished: Sender<Finished>,
    ) {
        let seeds = self.experiment.seeds as usize;
        loop {
            // Every run before a failed one has been taken already and ends, so which failure is
            // the first does not depend on the threads.
            let run = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&point) = self.pending.get(run / seeds) else {
                return;
            };
            if lock(&self.failure).is_some() {
                return;
            }
            let seed = run % seeds;
            let outcome = simulator.run(&self.experiment.scenarios[point], seed as u64);
            ran();
            let done = outcome.and_then(|outcome| self.place(point, seed, outcome));
            match done {
                Ok(None) => {}
                // The writer is gone only if it failed, which the next turn sees.
                Ok(Some(whole)) => drop(finished.send(whole)),
                Err(error) => self.fail(run, error),
            }
        }
    }

    fn fail(&self, run: usize, error: Error) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| run < *first) {
            *failure = Some((run, error));
        }
    }

    /// Puts a run in its place; the point, if that was its last.
    fn place(&self, point: usize, seed: usize, outcome: Outcome) -> Result<Option<Finished>> {
        let runs = {
            let mut begun = lock(&self.begun);
            let places = begun
                .entry(point)
                .or_insert_with(|| vec![None; self.experiment.seeds as usize]);
            places[seed] = Some(outcome);
            if places.iter().any(Option::is_none) {
                return Ok(None);
            }
            begun.remove(&point).unwrap_or_default()
        };
        let runs: Vec<Outcome> = runs.into_iter().flatten().collect();
        Ok(Some(Finished {
            point,
            line: journal::line(self.fingerprints[&point], &runs),
            row: row(self.experiment, point, &runs)?,
        }))
    }
}

/// Writes finished points until no worker is left: all that came in meanwhile share one sync.
fn write(
    finished: Receiver<Finished>,
    mut journal: Option<Journal>,
    work: &Work<'_>,
) -> BTreeMap<usize, Row> {
    let mut rows = BTreeMap::new();
    while let Ok(first) = finished.recv() {
        let mut lines = Vec::new();
        for one in std::iter::once(first).chain(finished.try_iter()) {
            lines.extend(one.line);
            rows.insert(one.point, one.row);
        }
        if let Some(journal) = &mut journal
            && let Err(error) = journal.add(&lines)
        {
            work.fail(usize::MAX, error);
            return rows;
        }
    }
    rows
}

/// The row of a point from its runs.
fn row(experiment: &Experiment, point: usize, runs: &[Outcome]) -> Result<Row> {
    let scenario = std::slice::from_ref(&experiment.scenarios[point]);
    let mut comparison = Comparison::new("", scenario, &[runs.to_vec()])?;
    let variant = comparison.variants.remove(0);
    let brief = |(name, summary): (String, crate::comparison::Summary)| {
        let brief = Brief {
            mean: summary.mean,
            at_least: summary.at_least,
            ci95: summary.ci95.get(),
        };
        (name, brief)
    };
    Ok(Row {
        cell: experiment.cells[point].clone(),
        event_hash: variant.event_hash,
        metrics: variant.metrics.into_iter().map(brief).collect(),
    })
}

#[cfg(test)]
mod tests;
