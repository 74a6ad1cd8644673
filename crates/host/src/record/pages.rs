//! The kernel's own pages on their way to disk.
//!
//! Full pages of a CPU's ring buffer are moved, not copied: spliced from tracefs into a pipe and
//! from there into a file. Data in pages that are not full yet are read once, at the end. The
//! folder looks like tracefs, with the formats that tell how to read the pages:
//!
//! ```text
//! events/header_page  events/sched/sched_switch/format …  trace_clock  per_cpu/cpu0/{trace_pipe_raw,stats} …
//! ```
//!
//! Worked example: 50,000 switches and wakeups a second are 2.4 MB a second, 600 pages; moving them
//! takes the recorder twenty rounds of two system calls a CPU.

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
            let name = format!("per_cpu/cpu{cpu}/trace_pipe_raw");
            Ok(CpuPages {
                cpu,
                from: trace.raw_pipe(cpu)?,
                to: create(folder, &name)?,
                path: folder.join(name),
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

    /// Moves and reads everything that is left; tracing has stopped. Gives events and bytes on
    /// disk.
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

/// Makes the file `name` below `folder`, and the folders that it needs. A file of an earlier
/// attempt or of another user is removed; nothing is written through a link.
pub(super) fn create(folder: &Path, name: &str) -> Result<File> {
    let mut below = folder.to_owned();
    let (parents, _) = name.rsplit_once('/').unwrap_or(("", name));
    make_real_folder(&below)?;
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        below.push(part);
        make_real_folder(&below)?;
    }
    let path = folder.join(name);
    let made = fs::remove_file(&path).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    let made = made.and_then(|()| File::create_new(&path));
    made.map_err(|error| io_error("creating", &path, error))
}

/// Makes a folder; one that is there already must not be a link to another.
fn make_real_folder(path: &Path) -> Result<()> {
    let made = fs::create_dir(path).or_else(|error| {
        let there = fs::symlink_metadata(path);
        match error.kind() == io::ErrorKind::AlreadyExists && there.is_ok_and(|it| it.is_dir()) {
            true => Ok(()),
            false => Err(error),
        }
    });
    made.map_err(|error| io_error("creating the folder", path, error))
}

/// Copies a file of the instance to the same place below `folder`, and gives its text.
fn copy(trace: &TraceInstance, folder: &Path, name: &str) -> Result<String> {
    let from = trace.file(name);
    let text = read_at_once(&from).map_err(|error| io_error("reading", &from, error))?;
    let written = create(folder, name)?.write_all(text.as_bytes());
    written.map_err(|error| io_error("writing", &folder.join(name), error))?;
    Ok(text)
}

/// The text of a file of tracefs. Of some (`header_page`) a second read gives nothing, so the first
/// one has to take it all, which `read_to_string` with its small first probe does not.
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
    fn nothing_is_written_through_links_that_were_prepared() {
        let place = tempfile::tempdir().unwrap();
        let [victim, folder, other] =
            ["victim", "trace", "other"].map(|one| place.path().join(one));
        fs::write(&victim, "untouched").unwrap();
        fs::create_dir_all(folder.join("events")).unwrap();
        fs::create_dir(&other).unwrap();
        for (target, link) in [
            (&victim, "trace_clock"),
            (&other, "per_cpu"),
            (&other, "events/sched"),
        ] {
            std::os::unix::fs::symlink(target, folder.join(link)).unwrap();
        }
        fs::hard_link(&victim, folder.join("events/header_page")).unwrap();
        for name in ["trace_clock", "events/header_page"] {
            create(&folder, name).unwrap().write_all(b"new").unwrap();
            assert_eq!(fs::read(folder.join(name)).unwrap(), b"new");
        }
        for name in ["per_cpu/cpu0/stats", "events/sched/sched_switch/format"] {
            let error = create(&folder, name).unwrap_err().to_string();
            assert!(error.contains("creating the folder"), "{error}");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    }

    #[test]
    fn events_that_were_read_are_counted() {
        assert_eq!(read_events("entries: 5\nread events: 7\n"), 7);
        assert_eq!(read_events("entries: 5\n"), 0);
    }
}
