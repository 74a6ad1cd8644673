//! A separate trace buffer: a tracefs *instance*, so that other tracing is not touched.
//!
//! Where no tracefs is mounted, one is opened that is mounted nowhere, so that nothing of it can be
//! left. The instance is taken away on drop, and by a watchman process if this process dies first.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::{HostError, Result, io_error, read_text};
use crate::guard::Guard;
use crate::sys;

/// Size of a buffer per CPU that only counts, KiB: an event that it cannot hold is counted as lost,
/// which is as good.
const COUNTING_KB: u32 = 16;

/// A running or stopped trace buffer.
#[derive(Debug)]
pub struct TraceInstance {
    dir: PathBuf,
    /// The tracefs that `dir` is named by, where it is mounted nowhere.
    _root: Option<OwnedFd>,
    guard: Option<Guard>,
}

impl TraceInstance {
    /// Makes a buffer of `buffer_kb` per CPU with events (`sched/sched_switch`, …) on clock `mono`.
    /// Recording starts with `start`.
    pub fn create(name: &str, buffer_kb: u32, events: &[&str]) -> Result<Self> {
        if !sys::is_root() {
            return Err(HostError::NotPermitted {
                action: "tracing through",
                path: "/sys/kernel/tracing".into(),
            });
        }
        // A container may have no tracefs, a read-only one, or no right to open one: another way
        // may be open.
        let unavailable = |doing: &str, error| {
            HostError::unavailable("tracefs", format!("{doing} failed: {error}"))
        };
        let (place, root) = match mounted_tracefs()? {
            Some(place) => (place, None),
            None => {
                let opened = sys::open_tracefs();
                let root = opened.map_err(|error| unavailable("mounting it", error))?;
                let place = format!("/proc/self/fd/{}", root.as_raw_fd()).into();
                (place, Some(root))
            }
        };
        let dir = place.join("instances").join(name);
        let made = Guard::for_trace(&dir, root.as_ref().map(|root| root.as_fd()));
        let doing = || format!("creating {}", dir.display());
        let guard = made.map_err(|error| unavailable(&doing(), error))?;
        let instance = Self {
            dir,
            _root: root,
            guard: Some(guard),
        };
        instance.set("tracing_on", "0")?;
        instance.set("trace_clock", "mono")?;
        instance.set("buffer_size_kb", &buffer_kb.to_string())?;
        for event in events {
            instance.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(instance)
    }

    /// Begins to count the events of `sched` called `event` that a filter lets through.
    pub fn counting(name: &str, event: &str, filter: &str) -> Result<Self> {
        let instance = Self::create(name, COUNTING_KB, &[&format!("sched/{event}")])?;
        instance.set(&format!("events/sched/{event}/filter"), filter)?;
        instance.start()?;
        Ok(instance)
    }

    /// Ends recording and counts its events: those that the buffer holds and those it lost.
    pub fn counted(&self) -> Result<u64> {
        self.stop()?;
        let text = self.text()?;
        let kept = text.lines().filter(|line| line.contains(": sched_"));
        Ok(self.lost_events()? + kept.count() as u64)
    }

    /// Writes one of the instance's control files, for instance an event's `filter`.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.dir.join(file);
        let write = || -> io::Result<()> {
            let mut file = fs::OpenOptions::new().write(true).open(&path)?;
            file.write_all(value.as_bytes())
        };
        write().map_err(|error| io_error("writing", &path, error))
    }

    /// Begins recording.
    pub fn start(&self) -> Result<()> {
        self.set("tracing_on", "1")
    }

    /// Ends recording; what was recorded stays readable.
    pub fn stop(&self) -> Result<()> {
        self.set("tracing_on", "0")
    }

    /// Everything recorded, as text.
    pub fn text(&self) -> Result<String> {
        read_text(&self.dir.join("trace"))
    }

    /// The pages of one CPU, each once and then gone from the buffer; reading never blocks.
    pub(crate) fn raw_pipe(&self, cpu: usize) -> Result<fs::File> {
        let path = self.file(&format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .map_err(|error| io_error("opening", &path, error))
    }

    /// One of the instance's files.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The CPUs that have a buffer, in order.
    pub fn cpus(&self) -> Result<Vec<usize>> {
        let per_cpu = self.file("per_cpu");
        let failed = |error| io_error("listing", &per_cpu, error);
        let mut cpus = Vec::new();
        for entry in fs::read_dir(&per_cpu).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("cpu"));
            cpus.extend(number.and_then(|number| number.parse::<usize>().ok()));
        }
        // A folder that is removed meanwhile ends early without an error.
        if cpus.is_empty() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Events that were overwritten or dropped, over all CPUs.
    pub fn lost_events(&self) -> Result<u64> {
        Ok(self.lost_by_cpu()?.iter().sum())
    }

    /// Events that were overwritten or dropped, by CPU.
    pub(crate) fn lost_by_cpu(&self) -> Result<Vec<u64>> {
        let mut lost = Vec::new();
        for cpu in self.cpus()? {
            lost.resize(cpu + 1, 0);
            lost[cpu] = lost_in(&read_text(&self.file(&format!("per_cpu/cpu{cpu}/stats")))?);
        }
        Ok(lost)
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        let _ = self.stop();
        if let Err(error) = fs::remove_dir(&self.dir) {
            // The watchman is not dismissed and tries again.
            eprintln!("schedcast: removing {}: {error}", self.dir.display());
            return;
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// Sum of the counters of lost events in a per-CPU `stats` file.
fn lost_in(stats: &str) -> u64 {
    stats
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(key, _)| ["overrun", "commit overrun", "dropped events"].contains(key))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum()
}

fn mounted_tracefs() -> Result<Option<PathBuf>> {
    let mounts = read_text(Path::new("/proc/self/mounts"))?;
    Ok(find_tracefs(&mounts))
}

fn find_tracefs(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let point = words.next()?;
        (words.next()? == "tracefs").then(|| point.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_tracefs_is_found() {
        let mounts = "proc /proc proc rw 0 0\nnodev /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(find_tracefs(mounts), Some("/sys/kernel/tracing".into()));
        assert_eq!(find_tracefs("tracefs /x proc rw 0 0\n"), None);
    }

    #[test]
    fn lost_events_are_added_up() {
        let stats = "entries: 5\noverrun: 2\ncommit overrun: 1\nbytes: 99\ndropped events: 4\n\
                     read events: 7\n";
        assert_eq!(lost_in(stats), 7);
    }
}
