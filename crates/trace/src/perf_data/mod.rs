//! Reader of perf.data, the file of `perf record` and `perf sched record`.
//!
//! The file starts with a head of 104 bytes that points to three parts: *attributes* (what was
//! sampled, and how its samples are laid out), *data* (records, one behind the other) and, behind
//! the data, *features* (what perf knows about the machine). One feature carries the formats of the
//! tracepoints, in the words of trace.dat's own head; samples carry the kernel's bytes, which are
//! taken apart by those formats.
//!
//! ```text
//! PERFILE2  head size  attribute size | attributes: place size | data: place size | … | bits of the features
//! record:   type (4)  flags (2)  size (2)  content
//! ```
//!
//! Worked example. A sample of type 9 with the layout `identifier, IP, TID, TIME, CPU, PERIOD, RAW`
//! has its time at byte 8 + 3 × 8 = 32 of the record, its CPU at 40, and the kernel's bytes from 60
//! on: a number of four bytes at 56 says how many. perf empties the buffers of all CPUs in turn and
//! marks the end of a round with a record of its own; after a round everything is there that was
//! written before the round before it.

mod records;
mod sample;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::records::{Record, Records};
use self::sample::Layout;
use crate::binary::{Bytes, Damage, Endian, Store};
use crate::error::ReadError;
use crate::event::{Context, Event, EventKind};
use crate::event_format::{self, Decoder};
use crate::ordered::{Feed, OrderedReader, Pending, Progress};
use crate::source::{Counts, EventSource};
use crate::trace_dat;

/// The first bytes of a file, in the byte order of the machine that wrote it.
pub(crate) const MAGIC: &[u8] = b"PERFILE2";
/// The same from a machine of the other byte order.
pub(crate) const MAGIC_BIG: &[u8] = b"2ELIFREP";

/// Numbers of records.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

const FEATURE_TRACING_DATA: u32 = 1;
const FEATURE_NRCPUS: u32 = 7;
const FEATURES: u32 = 256;

/// A place in the file.
#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn read(bytes: &mut Bytes, what: &str) -> Result<Section, Damage> {
        Ok(Section {
            offset: bytes.u64(what)?,
            size: bytes.u64(what)?,
        })
    }
}

/// Opens a perf.data; `file` is for messages.
pub(crate) fn open(file: &Path, store: Store) -> Result<Box<dyn EventSource>, ReadError> {
    let (reader, counts) = prepare(file, store).map_err(|damage| damage.in_file(file))?;
    Ok(Box::new(OrderedReader::new(reader, counts)))
}

const HEAD_BYTES: u64 = 104;
const PIPE_HEAD_BYTES: u64 = 16;

fn prepare(file: &Path, store: Store) -> Result<(PerfData, Counts), Damage> {
    let head = store.read(0, HEAD_BYTES.min(store.len()), "the head of a perf.data")?;
    let endian = if head.starts_with(MAGIC_BIG) {
        Endian::Big
    } else {
        Endian::Little
    };
    let mut bytes = Bytes::new(&head, 0, endian);
    bytes.take(MAGIC.len() as u64, "`PERFILE2`")?;
    if bytes.u64("the size of the head")? == PIPE_HEAD_BYTES {
        let message = "a perf.data that went through a pipe; `perf script --ns` turns it into text that is read";
        return Err(Damage::unsupported(8, message));
    }
    let attribute_bytes = bytes.u64("the size of an attribute")?;
    let attributes = Section::read(&mut bytes, "the place of the attributes")?;
    let data = Section::read(&mut bytes, "the place of the data")?;
    Section::read(&mut bytes, "the place of event types")?;
    let mut features = Vec::new();
    for _ in 0..FEATURES / 64 {
        features.push(bytes.u64("the bits of the features")?);
    }
    if data.size == 0 {
        let message = "expected data, found none: was `perf record` ended by force?";
        return Err(Damage::malformed(40, message));
    }
    let layouts = layouts(&store, endian, attributes, attribute_bytes)?;
    let features = feature_sections(&store, endian, data, &features)?;
    let Some(tracing) = features.get(&FEATURE_TRACING_DATA) else {
        let message = "expected the formats of tracepoints, found none: record with `perf sched record`, or with `perf record -e sched:…`";
        return Err(Damage::unsupported(72, message));
    };
    let blob = store.read(tracing.offset, tracing.size, "the formats of tracepoints")?;
    let decoder = trace_dat::tracing_data(&blob, tracing.offset)?;
    if decoder.knows_nothing() {
        let message = "expected the formats of scheduling events, found none";
        return Err(Damage::malformed(tracing.offset, message));
    }
    let counts = Counts {
        cpus_declared: cpus(&store, endian, features.get(&FEATURE_NRCPUS))?,
        ..Counts::default()
    };
    let reader = PerfData {
        file: file.to_owned(),
        records: Records::new(store, endian, data.offset, data.size)?,
        layouts,
        decoder,
        latest_ns: 0,
        latest_of_round_before_ns: 0,
        lost_told: 0,
        lost_counted: 0,
    };
    Ok((reader, counts))
}

/// How the samples of each attribute are laid out, by the identifiers of its events.
struct Layouts {
    /// In the order of the file; at least one.
    all: Vec<Layout>,
    /// True if all are equal, so that no identifier is needed.
    alike: bool,
    by_identifier: BTreeMap<u64, usize>,
}

impl Layouts {
    /// The layout of a sample that begins like this; `None` if nothing has its identifier.
    fn of(&self, content: &[u8], endian: Endian) -> Option<&Layout> {
        if self.alike {
            return self.all.first();
        }
        let identifier = endian.unsigned(content.get(..8)?);
        self.all.get(*self.by_identifier.get(&identifier)?)
    }
}

fn layouts(
    store: &Store,
    endian: Endian,
    section: Section,
    attribute_bytes: u64,
) -> Result<Layouts, Damage> {
    const SECTION_BYTES: u64 = 16;
    // `perf_event_attr` began with 64 bytes and has grown since.
    if !(64 + SECTION_BYTES..=4096).contains(&attribute_bytes) {
        let message =
            format!("expected the size of an attribute, 80 to 4096, found {attribute_bytes}");
        return Err(Damage::malformed(16, message));
    }
    let bytes = store.read(section.offset, section.size, "the attributes")?;
    let mut all = Vec::new();
    let mut by_identifier = BTreeMap::new();
    let mut bytes = Bytes::new(&bytes, section.offset, endian);
    while !bytes.is_empty() {
        let offset = bytes.offset();
        let attribute = bytes.take(attribute_bytes - SECTION_BYTES, "an attribute")?;
        let layout = Layout::of_attribute(Bytes::new(attribute, offset, endian))?;
        let identifiers = Section::read(&mut bytes, "the place of identifiers")?;
        let list = store.read(identifiers.offset, identifiers.size, "identifiers")?;
        for identifier in list.chunks_exact(8) {
            by_identifier.insert(endian.unsigned(identifier), all.len());
        }
        all.push(layout);
    }
    let Some(first) = all.first() else {
        let message = "expected at least one attribute, found none";
        return Err(Damage::malformed(section.offset, message));
    };
    let alike = all.iter().all(|layout| layout == first);
    if !alike && !all.iter().all(Layout::begins_with_identifier) {
        let message = "events of different layouts without identifiers; record with `perf sched record`, or the scheduling events alone";
        return Err(Damage::unsupported(section.offset, message));
    }
    Ok(Layouts {
        all,
        alike,
        by_identifier,
    })
}

/// Where the features lie: a table behind the data, one entry for each bit that is set.
fn feature_sections(
    store: &Store,
    endian: Endian,
    data: Section,
    bits: &[u64],
) -> Result<BTreeMap<u32, Section>, Damage> {
    let is_set = |feature: u32| bits[feature as usize / 64] >> (feature % 64) & 1 == 1;
    let present: Vec<u32> = (0..FEATURES).filter(|feature| is_set(*feature)).collect();
    let offset = data.offset.saturating_add(data.size);
    let table = store.read(offset, 16 * present.len() as u64, "the table of features")?;
    let mut bytes = Bytes::new(&table, offset, endian);
    present
        .into_iter()
        .map(|feature| Ok((feature, Section::read(&mut bytes, "a feature")?)))
        .collect()
}

/// The number of CPUs that the machine has, running or not.
fn cpus(store: &Store, endian: Endian, section: Option<&Section>) -> Result<Option<u32>, Damage> {
    let Some(section) = section else {
        return Ok(None);
    };
    let content = store.read(section.offset, section.size, "the number of CPUs")?;
    Bytes::new(&content, section.offset, endian)
        .u32("the number of CPUs")
        .map(Some)
}

/// Reads the data, round by round.
struct PerfData {
    file: PathBuf,
    records: Records,
    layouts: Layouts,
    decoder: Decoder,
    /// The latest time so far, and when the round before ended.
    latest_ns: u64,
    latest_of_round_before_ns: u64,
    /// Events that records between the samples tell as lost, and those that perf counts at the end:
    /// the same ones, except that nothing was written behind the last gap.
    lost_told: u64,
    lost_counted: u64,
}

impl Feed for PerfData {
    fn feed(&mut self, pending: &mut Pending) -> Result<Progress, ReadError> {
        self.round(pending)
            .map_err(|damage| damage.in_file(&self.file))
    }
}

impl PerfData {
    fn round(&mut self, pending: &mut Pending) -> Result<Progress, Damage> {
        let endian = self.records.endian();
        while let Some(record) = self.records.next()? {
            match record.kind {
                kind::SAMPLE => {
                    let latest = sample(&record, endian, &self.layouts, &self.decoder, pending)?;
                    self.latest_ns = self.latest_ns.max(latest);
                }
                kind::LOST => {
                    let events = lost(&record, endian, &self.layouts, pending)?;
                    self.lost_told = self.lost_told.saturating_add(events);
                }
                kind::LOST_SAMPLES => {
                    let offset = record.offset + records::HEAD_BYTES;
                    let events = Bytes::new(record.content, offset, endian)
                        .u64("the number of lost samples")?;
                    self.lost_counted = self.lost_counted.saturating_add(events);
                }
                kind::FINISHED_ROUND => {
                    let complete = self.latest_of_round_before_ns;
                    self.latest_of_round_before_ns = self.latest_ns;
                    return Ok(Progress::CompleteTo(complete));
                }
                kind::COMPRESSED | kind::COMPRESSED2 => {
                    let message = "compressed with zstd (`perf record -z`); record without `-z`, or let `perf script --ns` turn it into text that is read";
                    return Err(Damage::unsupported(record.offset, message));
                }
                _ => {}
            }
        }
        let untold = self.lost_counted.saturating_sub(self.lost_told);
        if untold > 0 {
            pending.lost(self.latest_ns, 0, Some(untold));
        }
        Ok(Progress::End)
    }
}

/// Takes one sample apart, and gives its time.
fn sample(
    record: &Record,
    endian: Endian,
    layouts: &Layouts,
    decoder: &Decoder,
    pending: &mut Pending,
) -> Result<u64, Damage> {
    let malformed = |message: String| Damage::malformed(record.offset, message);
    let Some(layout) = layouts.of(record.content, endian) else {
        return Err(malformed(
            "expected a sample of an event that the file describes".to_owned(),
        ));
    };
    let content = Bytes::new(record.content, record.offset + records::HEAD_BYTES, endian);
    let sample = layout.sample(content)?;
    let Some(raw) = sample.raw else {
        // A counter that was sampled besides the tracepoints.
        let event = Event {
            time_ns: sample.time_ns,
            cpu: sample.cpu,
            task: sample.task,
            context: Context::UNKNOWN,
            kind: EventKind::Other,
        };
        pending.other(event, b"(sample)");
        return Ok(sample.time_ns);
    };
    let kernel_record = event_format::Record {
        time_ns: sample.time_ns,
        cpu: sample.cpu,
        bytes: raw,
    };
    let (event, other) = decoder
        .decode(&kernel_record, &mut pending.comms)
        .map_err(malformed)?;
    match other {
        Some(name) => pending.other(event, name.as_bytes()),
        None => pending.event(event),
    }
    Ok(sample.time_ns)
}

/// A gap: its number of events, which is given back, and at its end the CPU and the time.
fn lost(
    record: &Record,
    endian: Endian,
    layouts: &Layouts,
    pending: &mut Pending,
) -> Result<u64, Damage> {
    let offset = record.offset + records::HEAD_BYTES;
    let mut bytes = Bytes::new(record.content, offset, endian);
    bytes.u64("the identifier of what was lost")?;
    let events = bytes.u64("the number of lost events")?;
    let trailer = layouts.all[0].trailer(bytes)?;
    pending.lost(trailer.time_ns, trailer.cpu, Some(events));
    Ok(events)
}
