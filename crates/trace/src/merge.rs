//! The pages of several CPUs, merged into one row of events by time.
//!
//! Each CPU writes a buffer of its own. Of the next event of every CPU the earliest comes first,
//! and of equal ones that of the lowest CPU: the order in which the kernel and trace-cmd print
//! them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::binary::{Damage, Store, unpack_zstd};
use crate::error::ReadError;
use crate::event::Event;
use crate::event_format::{Decoder, Record};
use crate::names::CommTable;
use crate::ring_buffer::{Missed, PageLayout, PageReader};
use crate::source::{Counts, EventSource, Item};

/// Where the pages of one CPU lie.
#[derive(Clone, Debug)]
pub(crate) enum Pages {
    /// One behind the other.
    Plain { offset: u64, end: u64 },
    /// In chunks that are compressed with zstd, this many more from `offset` on.
    Zstd { offset: u64, chunks_left: u32 },
}

/// Pages that one CPU wrote.
#[derive(Debug)]
pub(crate) struct CpuPages {
    pub(crate) cpu: u32,
    pub(crate) file: PathBuf,
    pub(crate) store: Arc<Store>,
    pub(crate) layout: PageLayout,
    pub(crate) page_bytes: u64,
    pub(crate) pages: Pages,
}

/// One CPU's pages while they are read.
struct Stream {
    source: CpuPages,
    /// A page, or the pages of an unpacked chunk; and where in it the current page starts and ends.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Place of the buffer in the file.
    buffer_offset: u64,
    reader: Option<PageReader>,
    missed: Missed,
    /// The event that comes next, with what was lost before it.
    next: Option<(Event, Option<String>, Missed)>,
}

impl Stream {
    fn new(source: CpuPages) -> Stream {
        Stream {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            buffer_offset: 0,
            reader: None,
            missed: Missed::Nothing,
            next: None,
        }
    }

    /// Finds the next event; false at the end of this CPU.
    fn advance(&mut self, decoder: &Decoder, comms: &mut CommTable) -> Result<bool, Damage> {
        loop {
            let page = &self.buffer[self.start..self.end];
            let found = match &mut self.reader {
                Some(reader) => reader.next(page)?,
                None => None,
            };
            let Some(found) = found else {
                if !self.open_page()? {
                    return Ok(false);
                }
                continue;
            };
            let record = Record {
                time_ns: found.time_ns,
                cpu: self.source.cpu,
                bytes: &page[found.start..found.start + found.length],
            };
            let offset = self.page_offset() + found.start as u64;
            let (event, other) = decoder
                .decode(&record, comms)
                .map_err(|message| Damage::malformed(offset, message))?;
            let missed = std::mem::replace(&mut self.missed, Missed::Nothing);
            self.next = Some((event, other, missed));
            return Ok(true);
        }
    }

    fn page_offset(&self) -> u64 {
        match self.source.pages {
            Pages::Plain { .. } => self.buffer_offset,
            // Unpacked bytes have no place of their own in the file: the chunk's is the nearest.
            Pages::Zstd { .. } => self.buffer_offset + self.start as u64,
        }
    }

    /// Steps to the next page; false if there is none.
    fn open_page(&mut self) -> Result<bool, Damage> {
        if self.end == self.buffer.len() {
            self.end = 0;
            if !self.fill()? {
                return Ok(false);
            }
        }
        self.start = self.end;
        self.end += self.source.page_bytes as usize;
        let page = &self.buffer[self.start..self.end];
        let reader = PageReader::open(&self.source.layout, page, self.page_offset())?;
        self.missed = add(self.missed, reader.missed);
        self.reader = Some(reader);
        Ok(true)
    }

    /// Reads the next page or chunk of pages.
    fn fill(&mut self) -> Result<bool, Damage> {
        let page_bytes = self.source.page_bytes;
        match &mut self.source.pages {
            Pages::Plain { offset, end } => {
                if offset >= end {
                    return Ok(false);
                }
                self.buffer_offset = *offset;
                *offset += page_bytes;
                self.source.store.read_into(
                    self.buffer_offset,
                    page_bytes,
                    &mut self.buffer,
                    "a page",
                )?;
            }
            Pages::Zstd {
                offset,
                chunks_left,
            } => {
                if *chunks_left == 0 {
                    return Ok(false);
                }
                *chunks_left -= 1;
                self.buffer_offset = *offset;
                let endian = self.source.layout.endian;
                let sizes = self.source.store.read(*offset, 8, "a chunk's sizes")?;
                let (packed, unpacked) =
                    (endian.unsigned(&sizes[..4]), endian.unsigned(&sizes[4..]));
                let bytes = self.source.store.read(*offset + 8, packed, "a chunk")?;
                if unpacked == 0 || unpacked % page_bytes != 0 {
                    let message = format!(
                        "expected a chunk of whole pages of {page_bytes} bytes, found {unpacked} bytes"
                    );
                    return Err(Damage::malformed(*offset, message));
                }
                self.buffer = unpack_zstd(&bytes, unpacked, *offset + 8)?;
                *offset += 8 + packed;
            }
        }
        Ok(true)
    }
}

/// Adds up what is missing before an event: pages without events may lie between.
fn add(one: Missed, other: Missed) -> Missed {
    match (one, other) {
        (Missed::Nothing, missed) | (missed, Missed::Nothing) => missed,
        (Missed::Events(one), Missed::Events(other)) => {
            Missed::Events(one.zip(other).map(|(one, other)| one.saturating_add(other)))
        }
    }
}

/// Reads the pages of all CPUs, event by event.
pub(crate) struct MergedReader {
    decoder: Decoder,
    streams: Vec<Stream>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream whose event was announced by the gap before it.
    announced: Option<usize>,
    comms: CommTable,
    counts: Counts,
    previous_ns: Option<u64>,
    started: bool,
    ended: bool,
    /// Added to every time.
    shift_ns: i64,
}

impl MergedReader {
    /// Reads `sources`; `counts` holds what is known from elsewhere.
    pub(crate) fn new(
        decoder: Decoder,
        sources: Vec<CpuPages>,
        counts: Counts,
        shift_ns: i64,
    ) -> MergedReader {
        MergedReader {
            decoder,
            streams: sources.into_iter().map(Stream::new).collect(),
            order: BinaryHeap::new(),
            announced: None,
            comms: CommTable::new(),
            counts,
            previous_ns: None,
            started: false,
            ended: false,
            shift_ns,
        }
    }

    fn advance(&mut self, index: usize) -> Result<(), ReadError> {
        let stream = &mut self.streams[index];
        match stream.advance(&self.decoder, &mut self.comms) {
            Ok(true) => {
                if let Some((event, ..)) = &mut stream.next {
                    event.time_ns = event.time_ns.wrapping_add_signed(self.shift_ns);
                    self.order.push(Reverse((event.time_ns, index)));
                }
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(damage) => Err(damage.in_file(&stream.source.file)),
        }
    }

    fn step(&mut self) -> Result<Option<Item>, ReadError> {
        if !self.started {
            self.started = true;
            for index in 0..self.streams.len() {
                self.advance(index)?;
            }
        }
        let index = match self.announced.take() {
            Some(index) => index,
            None => match self.order.pop() {
                Some(Reverse((_, index))) => index,
                None => return Ok(None),
            },
        };
        let stream = &mut self.streams[index];
        if let Some((_, _, missed)) = &mut stream.next
            && let Missed::Events(events) = *missed
        {
            *missed = Missed::Nothing;
            self.announced = Some(index);
            let cpu = stream.source.cpu;
            return Ok(Some(self.counts.lose(cpu, events, 0, self.previous_ns)));
        }
        let Some((event, other, _)) = stream.next.take() else {
            return Ok(None);
        };
        self.advance(index)?;
        if let Some(name) = other {
            self.counts.see_other(name.as_bytes(), 0);
        }
        self.counts.see(&event, 0, self.previous_ns);
        self.previous_ns = Some(event.time_ns);
        Ok(Some(Item::Event(event)))
    }
}

impl EventSource for MergedReader {
    fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let item = self.step();
        self.ended = !matches!(item, Ok(Some(_)));
        item
    }

    fn comms(&self) -> &CommTable {
        &self.comms
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn finish(self: Box<Self>) -> (CommTable, Counts) {
        (self.comms, self.counts)
    }
}
