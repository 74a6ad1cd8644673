//! Reader of trace.dat, the file of trace-cmd, versions 6 and 7.
//!
//! Both begin with the bytes `17 08 44`, `tracing`, the version, byte order, size of a long and
//! size of a page. Then version 6 has everything in a fixed order: page header, event formats,
//! symbols, names, options, and where the pages of each CPU lie. Version 7 has *sections* that
//! options point to, each possibly compressed; its pages are compressed in chunks. The content of
//! both is the same, a [`Contents`], and is read the same way from there on.
//!
//! Formats come from the file, so traces of any kernel, byte order and width are read alike.

mod sections;
mod straight;

use std::path::Path;
use std::sync::Arc;

use crate::binary::{Bytes, Damage, Endian, Store};
use crate::clock::{TraceClock, check_stats};
use crate::error::{ErrorKind, ReadError};
use crate::event_format::{Decoder, EventFormat};
use crate::merge::{CpuPages, MergedReader, Pages};
use crate::ring_buffer::{PAGE_BYTES_MAX, PageLayout};
use crate::source::{Counts, EventSource};

/// The first bytes of every trace.dat.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Options have the same numbers in both versions.
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const OFFSET: u16 = 7;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const HEADER_INFO: u16 = 16;
    pub(super) const FTRACE_EVENTS: u16 = 17;
    pub(super) const EVENT_FORMATS: u16 = 18;
    pub(super) const BUFFER_TEXT: u16 = 22;
}

/// Content of a file besides its events.
struct Contents {
    endian: Endian,
    page_bytes: u64,
    layout: Option<PageLayout>,
    decoder: Decoder,
    cpus: Option<u32>,
    /// Of the machine's own buffer.
    clock: Option<TraceClock>,
    /// Whether an instance has events: trace-cmd does not tell its clock.
    has_instances: bool,
    /// Events that the kernel overwrote, over all CPUs.
    overwritten: u64,
    /// Added to every time.
    shift_ns: i64,
    buffers: Vec<CpuBuffer>,
}

/// The pages of one CPU in one trace instance.
struct CpuBuffer {
    cpu: u32,
    page_bytes: u64,
    pages: Pages,
}

/// Opens a trace.dat; `file` is for messages.
pub(crate) fn open(file: &Path, store: Store) -> Result<Box<dyn EventSource>, ReadError> {
    let store = Arc::new(store);
    let contents = contents(&store).map_err(|damage| damage.in_file(file))?;
    if contents.decoder.knows_nothing() {
        let message = "expected the formats of scheduling events, found none";
        return Err(ReadError::new(ErrorKind::Malformed, file, message));
    }
    let Some(layout) = contents.layout else {
        let message = "expected the layout of pages, `header_page`, found none";
        return Err(ReadError::new(ErrorKind::Malformed, file, message));
    };
    let sources = contents.buffers.into_iter().map(|buffer| CpuPages {
        cpu: buffer.cpu,
        file: file.to_owned(),
        store: Arc::clone(&store),
        layout,
        page_bytes: buffer.page_bytes,
        pages: buffer.pages,
    });
    let counts = Counts {
        cpus_declared: contents.cpus,
        overwritten: contents.overwritten,
        clock: contents.clock.filter(|_| !contents.has_instances),
        ..Counts::default()
    };
    Ok(Box::new(MergedReader::new(
        contents.decoder,
        sources.collect(),
        counts,
        contents.shift_ns,
    )))
}

/// The formats of events that perf.data carries in the words of this format; `base` is their place
/// in the file.
pub(crate) fn tracing_data(blob: &[u8], base: u64) -> Result<Decoder, Damage> {
    let (mut contents, _, mut bytes) = beginning(Bytes::new(blob, base, Endian::Little))?;
    contents.header_info(&mut bytes)?;
    contents.formats(&mut bytes)?;
    contents.systems(&mut bytes)?;
    Ok(contents.decoder)
}

/// Version and machine, which stand in front in both versions; and what follows them.
fn beginning(mut bytes: Bytes<'_>) -> Result<(Contents, &[u8], Bytes<'_>), Damage> {
    bytes.expect(MAGIC)?;
    let version = bytes.text("a version")?;
    let endian = match bytes.u8("a byte order")? {
        0 => Endian::Little,
        1 => Endian::Big,
        other => {
            let message = format!("expected a byte order, 0 or 1, found {other}");
            return Err(Damage::malformed(bytes.offset() - 1, message));
        }
    };
    bytes.u8("the size of a long")?;
    let mut bytes = Bytes::new(bytes.rest(), bytes.offset(), endian);
    let page_offset = bytes.offset();
    let page_bytes = page_size(u64::from(bytes.u32("the size of a page")?), page_offset)?;
    let contents = Contents {
        endian,
        page_bytes,
        layout: None,
        decoder: Decoder::new(endian),
        cpus: None,
        clock: None,
        has_instances: false,
        overwritten: 0,
        shift_ns: 0,
        buffers: Vec::new(),
    };
    Ok((contents, version, bytes))
}

/// Reads everything but the pages.
fn contents(store: &Store) -> Result<Contents, Damage> {
    const HEAD_BYTES_MAX: u64 = 256;
    let head = store.read(0, store.len().min(HEAD_BYTES_MAX), "the file's head")?;
    let (mut contents, version, bytes) = beginning(Bytes::new(&head, 0, Endian::Little))?;
    match version {
        b"6" => straight::read(store, bytes.offset(), &mut contents)?,
        b"7" => sections::read(store, bytes, &mut contents)?,
        _ => {
            let version = String::from_utf8_lossy(version);
            let message = format!(
                "expected version 6 or 7 of trace.dat, found `{version}`; `trace-cmd convert` changes it"
            );
            return Err(Damage::unsupported(MAGIC.len() as u64, message));
        }
    }
    Ok(contents)
}

fn page_size(page_bytes: u64, offset: u64) -> Result<u64, Damage> {
    if page_bytes.is_power_of_two() && (64..=PAGE_BYTES_MAX as u64).contains(&page_bytes) {
        return Ok(page_bytes);
    }
    let message = format!("expected the size of a page, a power of two, found {page_bytes}");
    Err(Damage::malformed(offset, message))
}

impl Contents {
    /// `header_page` and `header_event`.
    fn header_info(&mut self, bytes: &mut Bytes) -> Result<(), Damage> {
        bytes.expect(b"header_page\0")?;
        let offset = bytes.offset();
        let size = bytes.u64("the size of header_page")?;
        let text = bytes.take(size, "header_page")?;
        let layout = PageLayout::parse(text, self.endian);
        self.layout = Some(layout.map_err(|message| Damage::malformed(offset, message))?);
        bytes.expect(b"header_event\0")?;
        let size = bytes.u64("the size of header_event")?;
        bytes.take(size, "header_event").map(|_| ())
    }

    /// A list of formats.
    fn formats(&mut self, bytes: &mut Bytes) -> Result<(), Damage> {
        let count = bytes.u32("a number of event formats")?;
        for _ in 0..count {
            let size = bytes.u64("the size of an event format")?;
            let offset = bytes.offset();
            let text = bytes.take(size, "an event format")?;
            EventFormat::parse(text)
                .and_then(|format| self.decoder.add(format))
                .map_err(|message| Damage::malformed(offset, message))?;
        }
        Ok(())
    }

    /// Lists of formats, one a system.
    fn systems(&mut self, bytes: &mut Bytes) -> Result<(), Damage> {
        let count = bytes.u32("a number of event systems")?;
        for _ in 0..count {
            bytes.text("the name of an event system")?;
            self.formats(bytes)?;
        }
        Ok(())
    }

    /// An option that says the same in both versions; unknown ones are of no use for scheduling.
    fn option(&mut self, id: u16, mut data: Bytes) -> Result<(), Damage> {
        match id {
            option::CPUSTAT => {
                let offset = data.offset();
                let text = String::from_utf8_lossy(data.rest());
                check_stats(&text).map_err(|message| Damage::unsupported(offset, message))?;
                let lost = text
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix("overrun:"));
                let lost: u64 = lost.filter_map(|n| n.trim().parse::<u64>().ok()).sum();
                self.overwritten = self.overwritten.saturating_add(lost);
            }
            option::TRACECLOCK => {
                let offset = data.offset();
                let text = String::from_utf8_lossy(data.rest());
                let chosen = TraceClock::chosen(&text);
                self.clock = chosen.map_err(|message| Damage::unsupported(offset, message))?;
            }
            option::OFFSET => {
                let offset = data.offset();
                let text = String::from_utf8_lossy(data.text("an offset of time")?);
                let shift = text.trim().parse();
                self.shift_ns = shift.map_err(|_| {
                    let message = format!("expected an offset of time in ns, found `{text}`");
                    Damage::malformed(offset, message)
                })?;
            }
            option::CPUCOUNT => self.cpus = Some(data.u32("a number of CPUs")?),
            _ => {}
        }
        Ok(())
    }
}
