//! A recording: a trace and what is known beside it.
//!
//! A folder holds `recording.json` ([`Meta`]), the trace it names, `cgroups.json` ([`CgroupTree`]
//! before and after), and where known a log of requests ([`Request`]) and `measured.json`
//! ([`MeasuredSettings`]). A bare trace file can be opened as well; then all that is `None`, which
//! means unknown.
//!
//! Worked example: `recordings/postgres-quota` opens to 17 976 events on 2 CPUs between
//! 5371.782886 s and 5401.282998 s, a group `/pg` with 50 000 µs in 100 000 µs before and after,
//! 1258 requests, and seven measured settings.

mod cgroups;
mod measured;
mod meta;
mod requests;
mod snapshots;

use std::path::{Path, PathBuf};

pub use self::cgroups::{Cgroup, CgroupTree, Weight};
pub use self::measured::{Figure, MeasuredSettings, Setting};
pub use self::meta::{BoundThreads, Meta, PeriodEnd, Preempt, ThreadTimes, TraceFormat};
pub use self::requests::Request;
pub use self::snapshots::Snapshots;
pub use crate::clock::TraceClock;

use crate::error::{ErrorKind, ReadError};
use crate::event::{Event, EventKind, SocketEvent};
use crate::input::open_trace;
use crate::json;
use crate::names::CommTable;
use crate::raw_pages;
use crate::source::{Counts, EventSource, Item, MOST_CPUS};

/// A recording in memory.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The trace file.
    pub trace: PathBuf,
    /// Machine, kernel and trace, as far as known.
    pub meta: Meta,
    /// The cgroups when recording began; `None` if not recorded.
    pub cgroups_before: Option<CgroupTree>,
    /// The cgroups when recording ended; `None` if not recorded.
    pub cgroups_after: Option<CgroupTree>,
    /// Requests that the application logged; `None` if not recorded.
    pub requests: Option<Vec<Request>>,
    /// Measurements under other settings; `None` if not measured.
    pub measured: Option<MeasuredSettings>,
    /// All decoded events by time. Events of equal time are in the order of the file.
    pub events: Vec<Event>,
    /// The names that events refer to.
    pub comms: CommTable,
    /// Observations of the reader: gaps, undecoded events, steps of the clock.
    pub counts: Counts,
}

impl Recording {
    /// Opens a folder, the `recording.json` in it, or a bare trace file.
    ///
    /// # Errors
    /// If anything in it cannot be read or does not follow its format, or if the trace has no
    /// events. Lost events and steps of the clock are no errors: they are in [`Recording::counts`].
    pub fn open(path: &Path) -> Result<Recording, ReadError> {
        if path.is_dir() && (path.join("recording.json").exists() || !raw_pages::is_folder(path)) {
            return Recording::open_folder(path);
        }
        if path
            .file_name()
            .is_some_and(|name| name == "recording.json")
        {
            return Recording::open_folder(path.parent().unwrap_or(Path::new(".")));
        }
        let trace = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        Recording::with_trace(
            path.to_owned(),
            Meta {
                trace,
                ..Meta::default()
            },
        )
    }

    fn open_folder(folder: &Path) -> Result<Recording, ReadError> {
        let meta_path = folder.join("recording.json");
        let is_there = meta_path.try_exists();
        // Without the right to look into the folder nothing is known of what is in it.
        let is_there = is_there.map_err(|error| ReadError::io(&meta_path, &error))?;
        if folder.is_dir() && !is_there {
            let message = "expected the folder of a recording, found no recording.json in it";
            return Err(ReadError::new(ErrorKind::Io, folder, message));
        }
        let meta: Meta = json::read(&meta_path)?;
        if let Some(message) = meta.contradiction() {
            return Err(ReadError::new(ErrorKind::Malformed, &meta_path, message));
        }
        let trace = folder.join(trace_name(&meta, &meta_path)?);
        // A log that was put beside a recording counts without being named in it.
        let named = meta.requests.as_ref().map(|name| folder.join(name));
        let beside = || {
            requests::NAMES
                .iter()
                .find_map(|name| existing(folder, name))
        };
        let requests = named
            .or_else(beside)
            .map(|path| requests::read(&path, &meta))
            .transpose()?;
        let (cgroups_before, cgroups_after) = match existing(folder, "cgroups.json") {
            Some(path) => {
                let file: cgroups::CgroupsFile = json::read(&path)?;
                (Some(file.before), file.after)
            }
            None => (None, None),
        };
        let measured = existing(folder, "measured.json")
            .map(|path| json::read(&path))
            .transpose()?;
        let recording = Recording::with_trace(trace, meta)?;
        recording.refuse_other_clock(&meta_path)?;
        Ok(Recording {
            cgroups_before,
            cgroups_after,
            requests,
            measured,
            ..recording
        })
    }

    /// Start, end and requests are times of the trace's clock.
    fn refuse_other_clock(&self, meta_path: &Path) -> Result<(), ReadError> {
        match (self.meta.trace_clock, self.counts.clock) {
            (Some(told), Some(found)) if told != found => {
                let message = format!(
                    "expected the clock of the trace as `trace_clock`, `{}`, found `{}`",
                    found.name(),
                    told.name()
                );
                Err(ReadError::new(ErrorKind::Malformed, meta_path, message))
            }
            _ => Ok(()),
        }
    }

    fn with_trace(trace: PathBuf, meta: Meta) -> Result<Recording, ReadError> {
        let mut source = open_trace(&trace)?;
        let mut events = collect(source.as_mut())?;
        let (comms, counts) = source.finish();
        if counts.events == 0 {
            return Err(ReadError::new(
                ErrorKind::Malformed,
                &trace,
                "expected at least one event, found none",
            ));
        }
        if counts.backwards.count > 0 {
            // A stable sort undoes what concatenating per-CPU files does, and keeps ties in file
            // order.
            events.sort_by_key(|event| event.time_ns);
        }
        Ok(Recording {
            trace,
            meta,
            cgroups_before: None,
            cgroups_after: None,
            requests: None,
            measured: None,
            events,
            comms,
            counts,
        })
    }

    /// Number of CPUs: as recorded, else as the trace's header says, else the highest CPU seen plus
    /// one.
    pub fn cpus(&self) -> u32 {
        let seen = u32::try_from(self.counts.events_per_cpu.len()).unwrap_or(u32::MAX);
        // A header that was damaged may say anything.
        let declared = self.counts.cpus_declared.filter(|cpus| *cpus <= MOST_CPUS);
        self.meta.cpus.or(declared).unwrap_or(seen)
    }

    /// Start and end in ns: as recorded, else the first and last event.
    pub fn span_ns(&self) -> (u64, u64) {
        let (first, last) = self.counts.span_ns.unwrap_or((0, 0));
        (
            self.meta.start_ns.unwrap_or(first),
            self.meta.end_ns.unwrap_or(last),
        )
    }

    /// The number of events in `recording.json` where it is not that of the trace.
    fn other_number_told(&self) -> Option<u64> {
        let Counts { events, lines, .. } = self.counts;
        // Some recorders count lines instead, comments included; that is the same trace.
        let is_other = |told: &u64| *told != events && *told != lines;
        self.meta.events.filter(is_other)
    }

    /// The number of events that the recorder counted, where the trace has fewer: it was cut, or
    /// the file of a CPU is missing.
    /// Only of the pages of tracefs, of which `record` counts what a reader finds.
    pub fn counted_before_a_cut(&self) -> Option<u64> {
        let Counts {
            events,
            overwritten,
            ..
        } = self.counts;
        let is_of_record = self.meta.trace_format == Some(TraceFormat::TracefsRaw);
        let told = self.other_number_told().filter(|_| is_of_record)?;
        (told > events + overwritten).then_some(told)
    }

    /// Whether it was recorded by BPF or perf, or on a kernel before 6.3: no event of a socket was
    /// asked for. `record` keeps the format of each event that it asks for.
    fn lacks_sockets(&self) -> bool {
        let were_asked_for = match self.meta.trace_format {
            Some(TraceFormat::TracefsRaw) => {
                let format = format!("events/{}/format", SocketEvent::DataReady.place());
                self.trace.join(format).is_file()
            }
            Some(TraceFormat::PerfData) => false,
            _ => return false,
        };
        let is_of_socket = |event: &Event| matches!(event.kind, EventKind::Socket { .. });
        !were_asked_for && !self.events.iter().any(is_of_socket)
    }

    /// Notes that a reader needs before trusting an answer, one sentence each; empty if nothing is
    /// odd.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.counts.notes();
        if self.counts.backwards.count > 0 {
            notes.push("events were put in order of time".to_owned());
        }
        if let Some(lost) = self.meta.lost_events.filter(|lost| *lost > 0) {
            notes.push(format!("`recording.json` tells of {lost} lost events"));
        }
        let read = self.counts.events;
        if let Some(told) = self.other_number_told() {
            notes.push(format!(
                "`recording.json` tells of {told} events, the trace has {read}"
            ));
        }
        if self.lacks_sockets() {
            notes.push(
                "the trace has no events of sockets: requests that wake nobody, because their server is still awake, are \
                 not seen; `record --by tracefs` keeps them (Linux 6.3 and later)"
                    .to_owned(),
            );
        }
        let cpus = self.cpus();
        if let Some(cpu) = self.counts.cpus_seen().find(|cpu| *cpu >= cpus) {
            notes.push(format!(
                "CPU {cpu} has events, but the machine is said to have {cpus} CPUs"
            ));
        }
        let before = self.cgroups_before.iter().flat_map(CgroupTree::iter);
        for (path, group) in before {
            let end = self.cgroups_after.as_ref().and_then(|tree| tree.get(path));
            let stats = (group.stat(), end.map(Cgroup::stat));
            if let (Ok(Some(before)), Some(Ok(Some(after)))) = stats
                && after.began_anew(&before)
            {
                notes.push(format!(
                    "the counters of `{path}` fell: the group began anew while recorded, and only what it counted since is known"
                ));
            }
        }
        notes
    }
}

/// The trace of what [`Recording::open`] takes: that file or folder itself, or the one that
/// `recording.json` names.
///
/// # Errors
/// If there is a `recording.json` that cannot be read or names no trace.
pub fn trace_of(path: &Path) -> Result<PathBuf, ReadError> {
    let meta_path = if path.is_dir() {
        path.join("recording.json")
    } else if path
        .file_name()
        .is_some_and(|name| name == "recording.json")
    {
        path.to_owned()
    } else {
        return Ok(path.to_owned());
    };
    if !meta_path.exists() {
        return Ok(path.to_owned());
    }
    let meta: Meta = json::read(&meta_path)?;
    let trace = trace_name(&meta, &meta_path)?;
    Ok(meta_path.with_file_name(trace))
}

/// How many events are looked at for CPUs that hide their idle task. A CPU that does not go idle
/// twice in so many is too busy for it to matter.
const LOOKED_AT: u64 = 200_000;

/// The note about CPUs that a trace never shows to leave idle, from as much of it as is needed:
/// elsewhere [`Recording::notes`] has it.
///
/// # Errors
/// If the trace cannot be read.
pub fn note_of_hidden_idle(trace: &Path) -> Result<Option<String>, ReadError> {
    let mut source = open_trace(trace)?;
    while source.counts().events < LOOKED_AT && source.next_item()?.is_some() {}
    Ok(source.counts().note_of_hidden_idle())
}

fn trace_name<'a>(meta: &'a Meta, meta_path: &Path) -> Result<&'a str, ReadError> {
    meta.trace.as_deref().ok_or_else(|| {
        let message = "expected the key `trace`, the name of the trace file; of counters alone `schedcast counters` is asked";
        ReadError::new(ErrorKind::Malformed, meta_path, message)
    })
}

/// Reads a source to its end and keeps the decoded events.
fn collect(source: &mut dyn EventSource) -> Result<Vec<Event>, ReadError> {
    let mut events = Vec::new();
    while let Some(item) = source.next_item()? {
        if let Item::Event(event) = item
            && event.kind != EventKind::Other
        {
            events.push(event);
        }
    }
    Ok(events)
}

fn existing(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    path.exists().then_some(path)
}
