//! An experiment run for real: its groups made, its programs started together, everything recorded meanwhile.
//!
//! ```text
//! groups made, settings written ──► recorder on ──► programs go together … all ended ──► recorder off ──► groups gone
//! ```
//!
//! The groups get names of their own, so that an experiment's `/pg` never touches a group that is in use: it becomes
//! `/schedcast-4711-pg`, and `/pg/worker` becomes `/schedcast-4711-pg/worker`. Worked example: two programs of 4 s
//! with 2000 scheduling events a second leave a recording of 8000 events and two rows of counters.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cgroup::CpuCgroup;
use crate::error::{HostError, Result};
use crate::record::{Report, Request, has_begun, record};
use crate::run::{CommandSpec, Output, RunReport, run_placed};
use crate::stat::CpuTimes;

/// A group and what is written to its files, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSetup {
    /// Its path in the experiment; parents stand before their children.
    pub path: String,
    /// File names of either cgroup version and their values.
    pub files: Vec<(String, String)>,
}

/// A program and where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSetup {
    /// Command and arguments.
    pub words: Vec<String>,
    /// Path of its group in the experiment; `/` is the root group.
    pub cgroup: String,
}

/// What one real run is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The groups.
    pub groups: Vec<GroupSetup>,
    /// The programs, started together.
    pub programs: Vec<ProgramSetup>,
    /// Programs that have not ended by then are killed.
    pub timeout: Duration,
    /// Counters are those between these two times; without them, from the first program's start to the last one's end.
    pub window: Option<(Duration, Duration)>,
}

/// What one real run gave.
#[derive(Debug)]
pub struct Real {
    /// Commands in the order of the programs; counters of the groups that programs started in.
    pub run: RunReport,
    /// Counters of every group of the setup, in its order.
    pub groups: Vec<crate::CpuStat>,
    /// Share of the machine's time that programs of others took, 0 to 1; the recorder is one of them.
    pub others_ratio: f64,
    /// What the recorder says of itself, where there was one.
    pub recorded: Option<Report>,
}

/// How long the recorder may take to begin.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// Settling time between the recorder's start and the programs'.
const SETTLE: Duration = Duration::from_millis(150);

/// Runs `setup` once; the recording goes to `folder`, a new one. Without a folder nothing is recorded.
///
/// # Errors
/// Missing rights, a setting the kernel refuses, a program that does not start.
pub fn run_once(setup: &Setup, folder: Option<&Path>) -> Result<Real> {
    let groups = make(&setup.groups)?;
    let root = CpuCgroup::open("/")?;
    let group_of = |path: &str| match setup.groups.iter().position(|group| group.path == path) {
        Some(index) => &groups[index],
        None => &root,
    };
    let specs: Vec<CommandSpec> = setup.programs.iter().map(spec).collect();
    let placed: Vec<(&CpuCgroup, &CommandSpec)> = setup
        .programs
        .iter()
        .zip(&specs)
        .map(|(program, spec)| (group_of(&program.cgroup), spec))
        .collect();
    let measure = || measure(&groups, &placed, setup);
    let ((run, stats, others_ratio), recorded) = match folder {
        None => (measure()?, None),
        Some(folder) => {
            let (measured, report) = recorded(folder, measure)?;
            (measured, Some(report))
        }
    };
    for group in groups.into_iter().rev() {
        group.close()?;
    }
    Ok(Real {
        run,
        groups: stats,
        others_ratio,
        recorded,
    })
}

/// What the programs did, what the groups counted, and what others took of the machine.
type Counted = (RunReport, Vec<crate::CpuStat>, f64);

fn measure(
    groups: &[CpuCgroup],
    placed: &[(&CpuCgroup, &CommandSpec)],
    setup: &Setup,
) -> Result<Counted> {
    let before = counters(groups)?;
    let times = CpuTimes::read()?;
    let (run, in_window) = std::thread::scope(|scope| {
        let begin = Instant::now();
        let watcher = setup.window.map(|(from, to)| {
            scope.spawn(move || -> Result<_> {
                let at = |time| {
                    std::thread::sleep((begin + time).saturating_duration_since(Instant::now()));
                    counters(groups)
                };
                Ok((at(from)?, at(to)?))
            })
        });
        let run = run_placed(placed, setup.timeout);
        let watched = watcher.map(|watcher| {
            watcher
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok((run?, watched.transpose()?))
    })?;
    let others_ratio = others_ratio(&times, &CpuTimes::read()?, &run);
    let (before, after) = match in_window {
        Some(both) => both,
        None => (before, counters(groups)?),
    };
    let pairs = after.iter().zip(&before);
    let stats = pairs.map(|(after, before)| after.since(before)).collect();
    Ok((run, stats, others_ratio))
}

/// What `measure` returns while a recorder writes to `folder`, and what that says of itself.
fn recorded(folder: &Path, measure: impl FnOnce() -> Result<Counted>) -> Result<(Counted, Report)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let request = Request {
            folder: folder.to_owned(),
            ..Request::default()
        };
        let recorder = scope.spawn({
            let stop = &stop;
            move || record(&request, stop)
        });
        let outcome = begun(folder, || recorder.is_finished()).and_then(|()| measure());
        stop.store(true, Ordering::Relaxed);
        let report = recorder
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // Why the recorder did not begin says more than that it did not.
        match (outcome, report) {
            (_, Err(error)) | (Err(error), _) => Err(error),
            (Ok(counted), Ok(report)) => Ok((counted, report)),
        }
    })
}

/// What of the machine's time was busy and not spent by the commands of `run`.
fn others_ratio(before: &CpuTimes, after: &CpuTimes, run: &RunReport) -> f64 {
    const TICK_NS: u64 = 10_000_000;
    let own_ns: u64 = run.commands.iter().map(|command| command.cpu_ns()).sum();
    let busy = after.busy_ticks.saturating_sub(before.busy_ticks);
    let total = after.total_ticks.saturating_sub(before.total_ticks).max(1);
    busy.saturating_sub(own_ns / TICK_NS) as f64 / total as f64
}

fn spec(program: &ProgramSetup) -> CommandSpec {
    let mut words = program.words.iter();
    CommandSpec::new(words.next().map_or("", String::as_str))
        .args(words)
        .output(Output::Capture)
}

fn counters(groups: &[CpuCgroup]) -> Result<Vec<crate::CpuStat>> {
    groups.iter().map(CpuCgroup::stat).collect()
}

/// Waits until the recorder writes.
fn begun(folder: &Path, gave_up: impl Fn() -> bool) -> Result<()> {
    let deadline = Instant::now() + BEGIN_LIMIT;
    while !has_begun(folder) {
        if gave_up() || Instant::now() > deadline {
            return Err(HostError::Unavailable {
                what: "recording",
                why: "the recorder did not begin".to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(SETTLE);
    Ok(())
}

/// Makes the groups under names of their own and writes their settings.
fn make(setups: &[GroupSetup]) -> Result<Vec<CpuCgroup>> {
    let mut made: Vec<CpuCgroup> = Vec::new();
    for setup in setups {
        let (parent, name) = setup.path.rsplit_once('/').unwrap_or(("", &setup.path));
        let group = match setups.iter().position(|other| other.path == parent) {
            Some(index) if index < made.len() => made[index].create_child(name)?,
            _ => CpuCgroup::create("/", &format!("schedcast-{}-{name}", std::process::id()))?,
        };
        group.allow_real_time()?;
        for (file, value) in &setup.files {
            group.apply(file, value)?;
        }
        made.push(group);
    }
    Ok(made)
}
