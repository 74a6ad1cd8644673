//! The kernel's own pages on their way to disk.
//!
//! Full pages of a CPU's ring buffer are moved, not copied: spliced from tracefs into a pipe and from there into a file. What
//! is left in pages that are not full yet is read once, at the end. The folder looks like tracefs, with the formats that
//! tell how to read the pages:
//!
//! ```text
//! events/header_page  events/sched/sched_switch/format …  trace_clock  per_cpu/cpu0/{trace_pipe_raw,stats} …
//! ```
//!
//! Worked example: 50,000 switches and wakeups a second are 2.4 MB a second, 600 pages; moving them takes the recorder
//! twenty rounds of two system calls a CPU.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Result, io_error};
use crate::sys;
use crate::tracefs::TraceInstance;

/// Most that a pipe holds at once by default, 16 pages.
const ROUND_BYTES: usize = 1 << 16;

/// Where one CPU's pages come from and go.
struct CpuPages {
    cpu: usize,
    from: File,
    to: File,
    path: PathBuf,
}

/// A trace while it is written.
pub(super) struct Sink {
    folder: PathBuf,
    cpus: Vec<CpuPages>,
    pipe: (PipeReader, PipeWriter),
}

/// Whether a recorder has begun to write into `folder`.
pub(super) fn has_begun(folder: &Path) -> bool {
    folder.join("trace_clock").exists()
}

impl Sink {
    /// Copies the formats of `events` into `folder` and opens a file for each CPU.
    pub(super) fn create(folder: &Path, trace: &TraceInstance, events: &[&str]) -> Result<Sink> {
        copy(trace, folder, "events/header_page")?;
        for event in events {
            copy(trace, folder, &format!("events/{event}/format"))?;
        }
        let cpus = trace.cpus()?.into_iter().map(|cpu| {
            let path = folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            make_parent(&path)?;
            Ok(CpuPages {
                cpu,
                from: trace.raw_pipe(cpu)?,
                to: File::create(&path).map_err(|error| io_error("creating", &path, error))?,
                path,
            })
        });
        let sink = Sink {
            folder: folder.to_owned(),
            cpus: cpus.collect::<Result<_>>()?,
            pipe: io::pipe().map_err(|error| io_error("making a pipe for", folder, error))?,
        };
        copy(trace, folder, "trace_clock")?;
        Ok(sink)
    }

    /// Moves every page that is full now.
    pub(super) fn drain(&mut self) -> Result<()> {
        for cpu in &mut self.cpus {
            let moved = move_full_pages(cpu, &self.pipe);
            moved.map_err(|error| io_error("moving the trace to", &cpu.path, error))?;
        }
        Ok(())
    }

    /// Moves and reads everything that is left; tracing has stopped. Gives events and bytes on disk.
    pub(super) fn finish(mut self, trace: &TraceInstance) -> Result<(u64, u64)> {
        self.drain()?;
        let (mut events, mut bytes) = (0, 0);
        for cpu in &mut self.cpus {
            let mut close = || -> io::Result<u64> {
                read_rest(&mut cpu.from, &mut cpu.to)?;
                cpu.to.sync_all()?;
                Ok(cpu.to.metadata()?.len())
            };
            bytes += close().map_err(|error| io_error("writing", &cpu.path, error))?;
            let stats = format!("per_cpu/cpu{}/stats", cpu.cpu);
            events += read_events(&copy(trace, &self.folder, &stats)?);
        }
        Ok((events, bytes))
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(|error| io_error("creating", parent, error))
}

/// Copies a file of the instance to the same place below `folder`, and gives its text.
fn copy(trace: &TraceInstance, folder: &Path, name: &str) -> Result<String> {
    let from = trace.file(name);
    let text = read_at_once(&from).map_err(|error| io_error("reading", &from, error))?;
    let path = folder.join(name);
    make_parent(&path)?;
    fs::write(&path, &text).map_err(|error| io_error("writing", &path, error))?;
    Ok(text)
}

/// The text of a file of tracefs. Of some (`header_page`) a second read gives nothing, so the first one has to take it all,
/// which `read_to_string` with its small first probe does not.
fn read_at_once(path: &Path) -> io::Result<String> {
    let (mut file, mut text) = (File::open(path)?, Vec::new());
    let mut piece = vec![0; ROUND_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            bytes => text.extend_from_slice(&piece[..bytes]),
        }
    }
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn move_full_pages(cpu: &mut CpuPages, pipe: &(PipeReader, PipeWriter)) -> io::Result<()> {
    loop {
        let mut left = match sys::splice(&cpu.from, &pipe.1, ROUND_BYTES) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        while left > 0 {
            match sys::splice(&pipe.0, &cpu.to, left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => left -= bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads page by page until nothing is left: a page that is not full is filled up by the kernel.
fn read_rest(from: &mut File, to: &mut File) -> io::Result<()> {
    let mut page = vec![0; ROUND_BYTES];
    loop {
        match from.read(&mut page) {
            Ok(0) => return Ok(()),
            Ok(bytes) => to.write_all(&page[..bytes])?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `read events` of a CPU's `stats`.
fn read_events(stats: &str) -> u64 {
    let count = |line: &str| line.strip_prefix("read events: ")?.trim().parse().ok();
    stats.lines().find_map(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_were_read_are_counted() {
        assert_eq!(read_events("entries: 5\nread events: 7\n"), 7);
        assert_eq!(read_events("entries: 5\n"), 0);
    }
}
