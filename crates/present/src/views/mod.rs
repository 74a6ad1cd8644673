//! Views of a trace in the shapes of `perf sched`: every stay on a CPU, delays by task, who runs
//! where.
//!
//! They work on events alone, so on any trace that can be read, recorded or simulated. Times are
//! those of the trace.
//!
//! The *scheduling delay* of a stay is the time from the moment the task could have run (it was
//! woken, or was put off the CPU while it still wanted it) to the moment it ran. Where the trace
//! has `sched_waking` the delay counts from there, otherwise from `sched_wakeup`.
//!
//! Worked example. Task 9 sleeps at 1.0 ms, is woken at 5.0 ms, comes to the CPU at 5.2 ms and
//! leaves it at 7.0 ms: wait 4.2 ms (off the CPU), delay 0.2 ms, run 1.8 ms.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;

pub use schedcast_trace::write::WriteFormat as Format;
use schedcast_trace::{CommId, Event, EventKind, Pid, Recording, Switch};

use schedcast_lab::error::{Error, Result, hint_for};
use schedcast_lab::simulator::bad_recording;

mod convert;
mod latency;
mod map;
mod timehist;

pub use self::convert::convert;
pub use self::latency::{Sort, latency};
pub use self::map::map;
pub use self::timehist::{Columns, Parts, timehist};

/// Opens a recording or a bare trace, and says what is odd about it.
///
/// # Errors
/// If it cannot be read.
pub fn open(path: &Path) -> Result<(Recording, Vec<String>)> {
    let recording = Recording::open(path).map_err(|error| bad_recording(path, error))?;
    let notes = recording.notes();
    Ok((recording, notes))
}

/// Selection of a trace to show.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these CPUs; empty for all.
    pub cpus: BTreeSet<u32>,
    /// Only tasks of this name.
    pub task: Option<String>,
    /// Only these tasks; empty for all.
    pub tids: BTreeSet<Pid>,
    /// Only what happens between these times, in ns on the trace's clock.
    pub between_ns: (Option<u64>, Option<u64>),
}

impl Selection {
    fn has_cpu(&self, cpu: u32) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }

    fn has_task(&self, pid: Pid, name: &str) -> bool {
        (self.tids.is_empty() || self.tids.contains(&pid))
            && self.task.as_deref().is_none_or(|task| task == name)
    }

    fn has_time(&self, time_ns: u64) -> bool {
        let (from, to) = self.between_ns;
        from.is_none_or(|from| time_ns >= from) && to.is_none_or(|to| time_ns <= to)
    }
}

/// Milliseconds with three decimals, cut off like perf does.
fn milliseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

/// Seconds with six decimals, cut off.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

/// The name of a task for people. Any thread may call itself anything, so what moves a terminal's
/// cursor is a question mark.
fn name(recording: &Recording, comm: CommId) -> String {
    let name = recording.comms.display(comm);
    name.replace(char::is_control, "?")
}

/// Parts of the selection that the trace does not have, a sentence each.
///
/// # Errors
/// A selection of which the trace has nothing, as the view would be empty: a task's name, all CPUs
/// or all tasks of a list.
pub fn absent(recording: &Recording, selection: &Selection) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut names = BTreeSet::new();
    let mut tids = BTreeSet::new();
    for event in &recording.events {
        if let EventKind::Switch(Switch { prev, next, .. }) = event.kind {
            names.extend([prev.comm, next.comm]);
            tids.extend([prev.pid, next.pid]);
        }
    }
    let names: BTreeSet<String> = names.iter().map(|comm| name(recording, *comm)).collect();
    if let Some(task) = selection
        .task
        .as_ref()
        .filter(|task| !names.contains(*task))
    {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let message = format!("no task of the trace is called `{task}`");
        return Err(Error::usage(message).hint(hint_for(task, &names)));
    }
    let unknown = selection.tids.difference(&tids);
    notes.extend(unless_all(
        unknown.map(|tid| format!("the trace has no task {tid}")),
        selection.tids.len(),
        "`latency --pids` lists its tasks",
    )?);
    let cpus = recording.cpus();
    let seen: BTreeSet<u32> = (0..cpus).chain(recording.counts.cpus_seen()).collect();
    let unknown = selection.cpus.difference(&seen);
    let last = cpus.saturating_sub(1);
    notes.extend(unless_all(
        unknown.map(|cpu| format!("the trace has no CPU {cpu}, but 0 to {last}")),
        selection.cpus.len(),
        "leave out --cpu for all of them",
    )?);
    let (start_ns, end_ns) = recording.span_ns();
    let (from, to) = selection.between_ns;
    if from.is_some_and(|from| from > end_ns) || to.is_some_and(|to| to < start_ns) {
        let (start, end) = (seconds(start_ns), seconds(end_ns));
        notes.push(format!("the trace is from {start} to {end} s"));
    }
    Ok(notes)
}

/// Notes on what of a list of `asked` names the trace does not have.
///
/// # Errors
/// Refuses a list of which it has nothing.
fn unless_all(
    unknown: impl Iterator<Item = String>,
    asked: usize,
    hint: &str,
) -> Result<Vec<String>> {
    let unknown: Vec<String> = unknown.collect();
    match unknown.first() {
        Some(first) if unknown.len() == asked => Err(Error::usage(first).hint(hint)),
        _ => Ok(unknown),
    }
}

/// The task that came last to a CPU, and when.
type Present = (Pid, u64);

/// Notes a switch, and gives when the task that leaves came to the CPU. `None` where a switch is
/// missing: in a trace that leaves some out, and after a gap.
fn came(
    present: &mut BTreeMap<u32, Present>,
    (cpu, time_ns): (u32, u64),
    prev_pid: Pid,
    next_pid: Pid,
) -> Option<u64> {
    let (pid, came_ns) = present.insert(cpu, (next_pid, time_ns))?;
    (pid == prev_pid).then_some(came_ns)
}

/// The wakeup that delays count from in this trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wakeups {
    Waking,
    Wakeup,
}

impl Wakeups {
    fn of(recording: &Recording) -> Wakeups {
        let is_waking = |event: &Event| matches!(event.kind, EventKind::Waking(_));
        if recording.events.iter().any(is_waking) {
            Wakeups::Waking
        } else {
            Wakeups::Wakeup
        }
    }

    /// The task that this event makes ready to run, and its name.
    fn woken(self, kind: &EventKind) -> Option<(Pid, CommId)> {
        match (self, kind) {
            (Wakeups::Waking, EventKind::Waking(woken))
            | (Wakeups::Wakeup, EventKind::Wakeup(woken))
            | (_, EventKind::WakeupNew(woken)) => Some((woken.task.pid, woken.task.comm)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
