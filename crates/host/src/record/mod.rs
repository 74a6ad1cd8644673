//! A recording of the live machine: scheduling events, cgroups, machine and kernel in one folder.
//!
//! ```text
//! command starts, stops itself ──► cgroups before ──► trace on ──► command goes on ── … ── trace off
//!                                                        │ full pages, every 50 ms        cgroups after
//!                                                        ▼
//!                                               trace/ (pages as they are)     recording.json, cgroups.json
//! ```
//!
//! The trace buffer is an instance of its own and goes away with the recorder, whatever ends it.
//! Worked example: 10 s of a service with 600 events a second are 6000 events of about 48 bytes,
//! 290 kB. The recorder measures itself what it cost.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use schedcast_base::fresh;
use schedcast_trace::note_of_hidden_idle;
use serde_json::{Map, Value};

use crate::error::{Result, io_error, is_there};
use crate::groups::Groups;
use crate::hierarchy::CpuHierarchy;
use crate::stat::CpuTimes;
use crate::sys;
use crate::topology::{KernelInfo, Topology};

mod bpf;
mod child;
mod pages;
mod periods;
mod privileges;
mod samples;
mod tracer;
mod tree;

pub(crate) use bpf::{Rights, VMLINUX, lockdown};
use child::Child;
use periods::PeriodEnds;
pub use samples::{Sampled, sample};
use tracer::Tracer;

/// The events a replay needs.
pub(crate) const EVENTS: [&str; 8] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
];

/// Says how long a task has run that did not leave its CPU. Some guests write no switch out of the
/// idle task; only this shows when a task started that a limit had held back.
const LONG_RUN: &str = "sched/sched_stat_runtime";
/// Only charges beyond this are wanted, in ns: at most about one a tick.
const LONG_RUN_NS: i32 = 900_000;

/// Buffer of each CPU, kB: half a second of 100,000 events a second.
const BUFFER_KB: u32 = 8192;
/// The folder of the trace in a recording.
const TRACE: &str = "trace";
/// How often the buffer is emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(50);

/// Recordings that this process has begun: each has a trace buffer of its own.
static RECORDINGS: AtomicU32 = AtomicU32::new(0);

/// Request for a recording.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Folder that is made, or that holds no recording yet.
    pub folder: PathBuf,
    /// Only this group, its ancestors and what is below it are described; a command starts in it.
    pub cgroup: Option<String>,
    /// How long at most; `None` until the command ends or it is stopped.
    pub duration: Option<Duration>,
    /// Command to run meanwhile; empty for none.
    pub command: Vec<String>,
    /// How to record; `None` for the first way that is open.
    pub way: Option<Way>,
    /// The calling thread gives up, for good, the rights that it no longer needs once the trace is
    /// open. Not for a process that has something else to do afterwards.
    pub gives_up_rights: bool,
}

schedcast_base::named! {
    /// Where events come from, the first choice in front: tracefs keeps every event, also those of
    /// neighbours whose waiting time an answer tells. `--by` takes these names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Way {
        /// A trace buffer of its own in tracefs: needs root.
        Tracefs = "tracefs",
        /// BPF programs: need CAP_BPF and CAP_PERFMON; with a group, keep only events that concern
        /// it.
        Bpf = "bpf",
        /// The program perf: as far as perf_event_paranoid allows.
        Perf = "perf",
    }
}

impl Way {
    /// Reason to record this way, for the reader.
    fn merit(self) -> &'static str {
        match self {
            Way::Tracefs => "it is open here, and keeps every event",
            Way::Bpf => "it leaves out wakeups that have nothing to do with the group",
            Way::Perf => "it is open here",
        }
    }
}

/// Summary of a finished recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How it was recorded.
    pub way: Way,
    /// Reason for that way.
    pub why: String,
    /// The group went away, which ended the recording.
    pub is_group_gone: bool,
    /// From trace on to trace off.
    pub duration: Duration,
    /// Events written.
    pub events: u64,
    /// Events lost, by CPU; empty with `perf`, whose file tells when it is read.
    pub lost: Vec<u64>,
    /// Events lost on a CPU that is not known.
    pub lost_elsewhere: u64,
    /// Size of the trace on disk.
    pub trace_bytes: u64,
    /// CPU time that the recorder used, ns.
    pub own_cpu_ns: u64,
    /// Share of all CPUs' time that this was, 0 to 1.
    pub own_share: f64,
    /// Share of the machine's time that the hypervisor took.
    pub steal_ratio: f64,
    /// Exit code of the command, where there was one that ended by itself.
    pub exit_code: Option<i32>,
    /// The note of the trace's reader about CPUs that it never shows to leave idle.
    pub hidden_idle: Option<String>,
}

impl Report {
    /// Events lost on all CPUs; `None` with `perf`, where only the trace itself tells.
    fn lost_events(&self) -> Option<u64> {
        (!self.lost.is_empty()).then(|| self.lost.iter().sum::<u64>() + self.lost_elsewhere)
    }
}

/// Records until the command ends, the time is over or `stop` is set.
///
/// # Errors
/// Missing rights, an existing recording in the folder, a full disk. Tracing is off then, and the
/// trace buffer and what was written are gone.
pub fn record(request: &Request, stop: &AtomicBool) -> Result<Report> {
    child::refuse_missing(&request.command)?;
    let hierarchy = CpuHierarchy::detect()?;
    let group_dir = match &request.cgroup {
        Some(path) => Some(hierarchy.existing(path)?),
        None => None,
    };
    let description = Description::read(&hierarchy)?;
    let groups = Groups::read(&hierarchy, Path::new("/"))?;
    let is_folder_new = !is_there(&request.folder)?;
    let _own = check_new(&request.folder)?;
    let group = (&hierarchy, group_dir);
    let recorded = record_described(request, stop, group, &description, &groups);
    recorded.inspect_err(|_| remove_begun(&request.folder, is_folder_new))
}

/// Removes half a recording, which can neither be read nor go on, and may be what filled the disk.
fn remove_begun(folder: &Path, is_folder_new: bool) {
    for name in ["recording.json", "cgroups.json", tracer::PERF_DATA] {
        let _ = fs::remove_file(folder.join(name));
    }
    let _ = fs::remove_dir_all(folder.join(TRACE));
    if is_folder_new {
        // Fails where a command wrote something there.
        let _ = fs::remove_dir(folder);
    }
}

/// Records into the folder, which is there.
fn record_described(
    request: &Request,
    stop: &AtomicBool,
    (hierarchy, group_dir): (&CpuHierarchy, Option<PathBuf>),
    description: &Description,
    groups: &Groups,
) -> Result<Report> {
    let number = RECORDINGS.fetch_add(1, Ordering::Relaxed);
    let name = format!("schedcast-record-{}-{number}", std::process::id());
    // The root group has every thread.
    let filter = group_dir.as_deref().filter(|dir| *dir != hierarchy.mount());
    let (mut tracer, way, why) = Tracer::open(&request.folder, &name, request.way, filter)?;
    let folders = group_dir.as_deref().map(|dir| hierarchy.folders_of(dir));
    let mut child = Child::start_stopped(&request.command, &folders.unwrap_or_default())?;
    tracer.prepare()?;
    let before = tree::read(hierarchy, None)?;
    let thread_times = tree::thread_times(&before);
    let mut allowed_cpus = tree::allowed_cpus(&before);
    let times = CpuTimes::read()?;
    let own_before_ns = sys::own_cpu_ns();
    tracer.start()?;
    let start_ns = sys::monotonic_ns();
    if request.gives_up_rights {
        privileges::give_up(way, request)?;
    }
    if let Some(child) = &child {
        child.go_on();
    }
    let deadline = request.duration.map(|duration| Instant::now() + duration);
    let mut period_ends = PeriodEnds::of(hierarchy, &before);
    let mut exit_code = None;
    let is_group_gone = loop {
        tracer.drain()?;
        exit_code = exit_code.or(child.as_mut().and_then(Child::ended));
        let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let is_group_gone = group_dir.as_ref().is_some_and(|dir| !dir.exists());
        if exit_code.is_some() || over || is_group_gone || stop.load(Ordering::Relaxed) {
            break is_group_gone;
        }
        wait(&mut period_ends);
    };
    let end_ns = sys::monotonic_ns();
    tracer.stop()?;
    let after = tree::read(hierarchy, None)?;
    // A program binds itself soon after its start: its last word counts.
    allowed_cpus.extend(tree::allowed_cpus(&after));
    drop(child);
    let traced = tracer.finish()?;
    let own_cpu_ns = sys::own_cpu_ns() - own_before_ns;
    let duration = Duration::from_nanos(end_ns - start_ns);
    let all_ns = (end_ns - start_ns).max(1) * description.cpus() as u64;
    let report = Report {
        way,
        why,
        is_group_gone,
        duration,
        events: traced.events,
        lost: traced.lost,
        lost_elsewhere: traced.lost_elsewhere,
        trace_bytes: traced.bytes,
        own_cpu_ns,
        own_share: own_cpu_ns as f64 / all_ns as f64,
        steal_ratio: CpuTimes::read()?.steal_ratio_since(&times),
        exit_code,
        // A trace that cannot be read says so where it is asked about.
        hidden_idle: note_of_hidden_idle(&request.folder.join(traced.name)).unwrap_or_default(),
    };
    let folder = &request.folder;
    let trees = serde_json::json!({"before": before, "after": after});
    write_json(&folder.join("cgroups.json"), &trees)?;
    let (span, trace) = ((start_ns, end_ns), (traced.name, traced.format));
    let mut meta = description.meta(request, &report, span, trace);
    let bound = tree::bound_threads(&allowed_cpus, description.cpus());
    let found: [(&str, Value); 4] = [
        ("names", names_of(groups, &before).into()),
        ("period_ends", period_ends.found().into()),
        ("thread_times", thread_times.into()),
        ("thread_cpus", bound.into()),
    ];
    for (name, found) in found {
        if found != Value::Array(Vec::new()) && found != Value::Object(Map::new()) {
            meta[name] = found;
        }
    }
    if let Some(path) = &request.cgroup {
        meta["cgroup"] = path.as_str().into();
    }
    if let (Some(path), []) = (&request.cgroup, request.command.as_slice())
        && let Some(label) = groups.label(path)
    {
        meta["title"] = label.into();
    }
    // Last, because it is what makes the folder a recording.
    write_json(&folder.join("recording.json"), &meta)?;
    Ok(report)
}

/// Waits until the buffer is to be emptied again, and looks at the groups' periods meanwhile.
fn wait(period_ends: &mut PeriodEnds) {
    let begun = Instant::now();
    while let Some(rest) = DRAIN_EVERY.checked_sub(begun.elapsed()) {
        std::thread::sleep(period_ends.look(rest));
    }
}

/// Names of the described groups, by path. Those without a name are left out.
fn names_of(groups: &Groups, described: &Map<String, Value>) -> Map<String, Value> {
    let named = groups.all().iter().filter(|group| !group.names.is_empty());
    named
        .filter(|group| described.contains_key(&group.path))
        .filter_map(|group| Some((group.path.clone(), serde_json::to_value(&group.names).ok()?)))
        .collect()
}

/// Whether a recorder has begun to write into the folder of a recording.
pub fn has_begun(folder: &Path) -> bool {
    pages::has_begun(&folder.join(TRACE))
}

/// Makes the folder, or accepts one that has no recording yet, into which no other recorder writes
/// and in which no other user can prepare a file. It is this recorder's as long as what is returned
/// lasts.
fn check_new(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder).map_err(|error| io_error("creating", folder, error))?;
    let refuse = |why: String| Err(io_error("recording into", folder, io::Error::other(why)));
    let own = File::open(folder).map_err(|error| io_error("opening", folder, error))?;
    // Where a file system has no locks, two at once are the user's own business.
    if let Err(TryLockError::WouldBlock) = own.try_lock() {
        return refuse("another recorder is writing there; choose another folder".to_owned());
    }
    let known = folder.join("recording.json");
    if is_there(&known)? {
        return refuse("there is a recording already, which is not written over".to_owned());
    }
    let there = fs::metadata(folder).map_err(|error| io_error("reading", folder, error))?;
    let others_write = there.mode() & 0o002 != 0;
    if others_write {
        return refuse(format!(
            "others may write there (mode {:o}), so they could prepare links; choose a new folder",
            there.mode() & 0o7777
        ));
    }
    if !own_users().contains(&there.uid()) {
        return refuse(format!(
            "it belongs to user {}, who could prepare links in it; choose a new folder",
            there.uid()
        ));
    }
    Ok(own)
}

/// Users whose folders are this user's: itself, and the one who called sudo.
fn own_users() -> Vec<u32> {
    let mut users = vec![sys::user()];
    if sys::is_root()
        && let Ok(caller) = std::env::var("SUDO_UID")
    {
        users.extend(caller.parse::<u32>());
    }
    users
}

fn write_json(path: &Path, json: &Value) -> Result<()> {
    // An existing file is replaced, not written through: it may be a link.
    let made = fs::remove_file(path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    made.and_then(|()| fresh::write(path, format!("{json:#}\n")))
        .map_err(|error| io_error("writing", path, error))
}

/// Machine and kernel, read before anything is disturbed.
struct Description {
    topology: Topology,
    kernel: KernelInfo,
    cgroup_version: u32,
    is_virtual: bool,
}

impl Description {
    fn read(hierarchy: &CpuHierarchy) -> Result<Description> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
        Ok(Description {
            topology: Topology::read()?,
            kernel: KernelInfo::read()?,
            cgroup_version: match hierarchy.version() {
                crate::CgroupVersion::V1 => 1,
                crate::CgroupVersion::V2 => 2,
            },
            is_virtual: flags
                .is_some_and(|flags| flags.split_whitespace().any(|word| word == "hypervisor")),
        })
    }

    fn cpus(&self) -> usize {
        self.topology.cpus.len()
    }

    fn meta(
        &self,
        request: &Request,
        report: &Report,
        span: (u64, u64),
        trace: (&str, &str),
    ) -> Value {
        let what = match request.command.as_slice() {
            [] => request.cgroup.as_deref().unwrap_or("all groups").to_owned(),
            words => words.join(" "),
        };
        let mut meta = self.of_host(&what, span);
        meta["trace"] = trace.0.into();
        meta["trace_format"] = trace.1.into();
        meta["trace_clock"] = "mono".into();
        meta["events"] = report.events.into();
        meta["lost_events"] = report.lost_events().into();
        meta["steal_ratio"] = report.steal_ratio.into();
        meta
    }

    /// Facts that are independent of the recorded target: the host, and the begin and end of the
    /// recording.
    fn of_host(&self, title: &str, span: (u64, u64)) -> Value {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut meta = serde_json::json!({
            "title": title,
            "kernel": self.kernel.release,
            "hz": self.kernel.hz,
            "preempt": self.kernel.preempt,
            "autogroup": self.kernel.autogroup,
            "cpus": self.cpus(),
            "smt": self.topology.smt(),
            "sockets": self.topology.sockets(),
            "llc": self.topology.llc_groups(),
            "virtual": self.is_virtual,
            "cgroup_version": self.cgroup_version,
            "start_s": seconds(span.0),
            "end_s": seconds(span.1),
            "realtime_offset_ns": crate::sys::realtime_offset_ns(),
            "utc_offset_s": crate::sys::utc_offset_s(),
        });
        let lists = [
            ("isolated", &self.topology.isolated),
            ("nohz_full", &self.topology.nohz_full),
        ];
        for (key, cpus) in lists.into_iter().filter(|(_, cpus)| !cpus.is_empty()) {
            meta[key] = cpus.as_slice().into();
        }
        meta
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn folders_that_others_can_prepare_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("recording");
        check_new(&folder).unwrap();
        check_new(&folder).unwrap();
        let mode = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        let error = check_new(&folder).unwrap_err().to_string();
        assert_contains(&error, "others may write there (mode 777)");
        mode(0o755);
        fs::write(folder.join("recording.json"), "{}").unwrap();
        let error = check_new(&folder).unwrap_err().to_string();
        assert!(error.contains("a recording already"), "{error}");
        fs::remove_file(folder.join("recording.json")).unwrap();
        if sys::is_root() {
            std::os::unix::fs::chown(&folder, Some(12_345), None).unwrap();
            let error = check_new(&folder).unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345"), "{error}");
        }
    }

    /// The second one would remove, as its own half recording, what the first one writes.
    #[test]
    fn one_recorder_at_a_time_has_a_folder() {
        let place = tempfile::tempdir().unwrap();
        let own = check_new(place.path()).unwrap();
        let error = check_new(place.path()).unwrap_err().to_string();
        assert_contains(&error, "another recorder is writing there");
        drop(own);
        check_new(place.path()).unwrap();
    }

    #[test]
    fn the_description_is_not_written_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let [victim, path] = ["victim", "cgroups.json"].map(|name| place.path().join(name));
        fs::write(&victim, "untouched").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        write_json(&path, &serde_json::json!({"before": []})).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
