//! Reader of raw pages: a folder with what `per_cpu/cpuN/trace_pipe_raw` gave, and the formats
//! beside it.
//!
//! The cheapest way to record is to copy the kernel's pages as they are. The folder looks like
//! tracefs itself, or flatter:
//!
//! ```text
//! events/header_page  events/sched/sched_switch/format …     (`formats/` will do, and `header_page` at the top)
//! per_cpu/cpu0/trace_pipe_raw, or cpu0.raw
//! per_cpu/cpu0/stats, trace_clock                            (if there: overwritten events, and the clock)
//! ```
//!
//! Nothing in it names a byte order. It is told by the first page: with a page of 4096 bytes the
//! size word `00 10 00 00` is 4096 or 1 048 576, and only one of them fits.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::binary::{Endian, Store};
use crate::clock::{TraceClock, check_stats};
use crate::error::{ErrorKind, ReadError};
use crate::event_format::{Decoder, EventFormat};
use crate::merge::{CpuPages, MergedReader, Pages};
use crate::ring_buffer::PageLayout;
use crate::source::{Counts, EventSource};

const HEADER_PAGE: &str = "header_page";
/// Folders that may hold the formats.
const FORMAT_FOLDERS: [&str; 2] = ["events", "formats"];

/// True if the folder holds raw pages.
pub(crate) fn is_folder(folder: &Path) -> bool {
    header_page(folder).is_some()
}

fn header_page(folder: &Path) -> Option<PathBuf> {
    let nested = FORMAT_FOLDERS.map(|formats| folder.join(formats).join(HEADER_PAGE));
    nested
        .into_iter()
        .chain([folder.join(HEADER_PAGE)])
        .find(|path| path.is_file())
}

/// Opens a folder of raw pages.
pub(crate) fn open(folder: &Path) -> Result<Box<dyn EventSource>, ReadError> {
    let Some(header) = header_page(folder) else {
        let message = "expected a folder with `recording.json`, or with raw pages and their layout, `events/header_page`";
        return Err(ReadError::new(ErrorKind::Unsupported, folder, message));
    };
    let clock = clock(folder)?;
    let text = read(&header)?;
    let malformed = |message| ReadError::new(ErrorKind::Malformed, &header, message);
    let layout = PageLayout::parse(&text, Endian::Little).map_err(malformed)?;
    let cpus = cpus(folder)?;
    if cpus.is_empty() {
        let message =
            "expected pages in `per_cpu/cpu0/trace_pipe_raw` or `cpu0.raw`, found neither";
        return Err(ReadError::new(ErrorKind::Malformed, folder, message));
    }
    let layout = layout.with_endian(endian(&cpus, &layout)?);
    let decoder = decoder(folder, layout.endian)?;
    let page_bytes = layout.page_bytes() as u64;
    let sources = cpus
        .into_iter()
        .map(|(cpu, file)| {
            let io = |error: std::io::Error| ReadError::io(&file, &error);
            let store = Store::of_file(File::open(&file).map_err(io)?).map_err(io)?;
            let end = store.len();
            Ok(CpuPages {
                cpu,
                file,
                store: Arc::new(store),
                layout,
                page_bytes,
                pages: Pages::Plain { offset: 0, end },
            })
        })
        .collect::<Result<Vec<_>, ReadError>>()?;
    let counts = Counts {
        overwritten: overwritten(folder, &sources)?,
        clock,
        ..Counts::default()
    };
    Ok(Box::new(MergedReader::new(decoder, sources, counts, 0)))
}

fn read(file: &Path) -> Result<Vec<u8>, ReadError> {
    fs::read(file).map_err(|error| ReadError::io(file, &error))
}

/// The clock in brackets, if the folder says.
fn clock(folder: &Path) -> Result<Option<TraceClock>, ReadError> {
    let file = folder.join("trace_clock");
    let text = fs::read_to_string(&file).unwrap_or_default();
    TraceClock::chosen(&text)
        .map_err(|message| ReadError::new(ErrorKind::Unsupported, &file, message))
}

/// The files with pages, by CPU.
fn cpus(folder: &Path) -> Result<Vec<(u32, PathBuf)>, ReadError> {
    let per_cpu = folder.join("per_cpu");
    let mut cpus = Vec::new();
    if per_cpu.is_dir() {
        for entry in entries(&per_cpu)? {
            let file = entry.join("trace_pipe_raw");
            if let Some(cpu) = cpu_of(&entry, "")
                && file.is_file()
            {
                cpus.push((cpu, file));
            }
        }
    } else {
        for entry in entries(folder)? {
            if let Some(cpu) = cpu_of(&entry, ".raw") {
                cpus.push((cpu, entry));
            }
        }
    }
    cpus.sort();
    Ok(cpus)
}

/// The number in `cpu12` followed by `suffix`.
fn cpu_of(path: &Path, suffix: &str) -> Option<u32> {
    const CPU_MAX: u32 = 65_535;
    let name = path.file_name()?.to_str()?;
    let number = name.strip_prefix("cpu")?.strip_suffix(suffix)?;
    number.parse().ok().filter(|cpu| *cpu <= CPU_MAX)
}

/// Paths in a folder, sorted by name, so that nothing depends on the order of the file system.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let io = |error: std::io::Error| ReadError::io(folder, &error);
    let mut paths = fs::read_dir(folder)
        .map_err(io)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(io)?;
    paths.sort();
    Ok(paths)
}

/// The byte order in which the first page's size fits into a page.
fn endian(cpus: &[(u32, PathBuf)], layout: &PageLayout) -> Result<Endian, ReadError> {
    for (_, file) in cpus {
        let io = |error: std::io::Error| ReadError::io(file, &error);
        let store = Store::of_file(File::open(file).map_err(io)?).map_err(io)?;
        if store.len() == 0 {
            continue;
        }
        let page = store
            .read(0, layout.page_bytes() as u64, "a page")
            .map_err(|damage| damage.in_file(file))?;
        let fits = |endian: &Endian| layout.with_endian(*endian).fits(&page);
        return [Endian::Little, Endian::Big]
            .into_iter()
            .find(fits)
            .ok_or_else(|| {
                let message =
                    "expected a page of the ring buffer, found a size that fits in no byte order";
                ReadError::new(ErrorKind::Malformed, file, message).at_offset(8)
            });
    }
    Ok(Endian::Little)
}

fn decoder(folder: &Path, endian: Endian) -> Result<Decoder, ReadError> {
    let mut decoder = Decoder::new(endian);
    for formats in FORMAT_FOLDERS.map(|formats| folder.join(formats)) {
        if !formats.is_dir() {
            continue;
        }
        for system in entries(&formats)?.into_iter().filter(|path| path.is_dir()) {
            for event in entries(&system)?.into_iter().filter(|path| path.is_dir()) {
                let file = event.join("format");
                if file.is_file() {
                    EventFormat::parse(&read(&file)?)
                        .and_then(|format| decoder.add(format))
                        .map_err(|message| ReadError::new(ErrorKind::Malformed, &file, message))?;
                }
            }
        }
    }
    if decoder.knows_nothing() {
        let message =
            "expected the formats of scheduling events, `events/sched/sched_switch/format`";
        return Err(ReadError::new(ErrorKind::Malformed, folder, message));
    }
    Ok(decoder)
}

/// Events that the kernel overwrote, where `stats` was copied too.
fn overwritten(folder: &Path, sources: &[CpuPages]) -> Result<u64, ReadError> {
    let mut all: u64 = 0;
    for source in sources {
        let file = folder.join(format!("per_cpu/cpu{}/stats", source.cpu));
        let text = fs::read_to_string(&file).unwrap_or_default();
        check_stats(&text)
            .map_err(|message| ReadError::new(ErrorKind::Unsupported, &file, message))?;
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix("overrun:"));
        let number = line.and_then(|line| line.trim().parse().ok());
        all = all.saturating_add(number.unwrap_or(0));
    }
    Ok(all)
}
