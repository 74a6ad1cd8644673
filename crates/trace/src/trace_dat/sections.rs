//! Version 7: sections that options point to.

use super::{Contents, CpuBuffer, option, page_size};
use crate::binary::{Bytes, Damage, Store, unpack_zstd};
use crate::merge::Pages;

/// Number, flags, description and size.
const SECTION_HEAD_BYTES: u64 = 16;
const SECTION_OPTIONS: u16 = 0;
const FLAG_COMPRESSED: u16 = 1;

/// How parts of the file are compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Zstd,
}

/// A trace of a machine with 1000 trace instances has 1000 options; chains of sections are far
/// shorter.
const OPTION_SECTIONS_MAX: u32 = 10_000;

/// Reads on behind the page size.
pub(super) fn read(store: &Store, mut bytes: Bytes, contents: &mut Contents) -> Result<(), Damage> {
    let offset = bytes.offset();
    let compression = match bytes.text("the name of a compression")? {
        b"none" => Compression::None,
        b"zstd" => Compression::Zstd,
        other => {
            let name = other.escape_ascii();
            let message = format!(
                "compressed with `{name}`; `trace-cmd convert --compression zstd` makes it readable"
            );
            return Err(Damage::unsupported(offset, message));
        }
    };
    bytes.text("the version of a compression")?;
    let mut file = File {
        store,
        compression,
        contents,
    };
    let mut next = bytes.u64("the place of the options")?;
    for _ in 0..OPTION_SECTIONS_MAX {
        if next == 0 {
            return Ok(());
        }
        next = file.options(next)?;
    }
    let message = "expected an end of the chain of options, found a loop";
    Err(Damage::malformed(next, message))
}

struct File<'a> {
    store: &'a Store,
    compression: Compression,
    contents: &'a mut Contents,
}

impl File<'_> {
    /// Reads one section of options, and gives the place of the next.
    fn options(&mut self, offset: u64) -> Result<u64, Damage> {
        let section = self.section(offset, SECTION_OPTIONS)?;
        let mut bytes = Bytes::new(&section, offset + SECTION_HEAD_BYTES, self.contents.endian);
        loop {
            if bytes.is_empty() {
                return Ok(0);
            }
            let id = bytes.u16("an option")?;
            let size = u64::from(bytes.u32("the size of an option")?);
            let place = bytes.offset();
            let data = bytes.take(size, "an option")?;
            let mut data = Bytes::new(data, place, self.contents.endian);
            if id == option::DONE {
                return data.u64("the place of the next options");
            }
            self.option(id, data)?;
        }
    }

    fn option(&mut self, id: u16, mut data: Bytes) -> Result<(), Damage> {
        match id {
            option::HEADER_INFO | option::FTRACE_EVENTS | option::EVENT_FORMATS => {
                let place = data.u64("the place of a section")?;
                let section = self.section(place, id)?;
                let endian = self.contents.endian;
                let mut bytes = Bytes::new(&section, place + SECTION_HEAD_BYTES, endian);
                match id {
                    option::HEADER_INFO => self.contents.header_info(&mut bytes),
                    option::FTRACE_EVENTS => self.contents.formats(&mut bytes),
                    _ => self.contents.systems(&mut bytes),
                }
            }
            option::BUFFER => self.buffer(data),
            option::BUFFER_TEXT => Err(Damage::unsupported(
                data.offset(),
                "a trace.dat that holds text; use `trace-cmd report` and read its output",
            )),
            _ => self.contents.option(id, data),
        }
    }

    /// The content of the section at `offset`, unpacked.
    fn section(&self, offset: u64, id: u16) -> Result<Vec<u8>, Damage> {
        let endian = self.contents.endian;
        let head = self
            .store
            .read(offset, SECTION_HEAD_BYTES, "the head of a section")?;
        let mut bytes = Bytes::new(&head, offset, endian);
        let found = bytes.u16("a section")?;
        if found != id {
            let message = format!("expected section {id}, found section {found}");
            return Err(Damage::malformed(offset, message));
        }
        let flags = bytes.u16("the flags of a section")?;
        bytes.u32("the description of a section")?;
        let size = bytes.u64("the size of a section")?;
        let start = offset + SECTION_HEAD_BYTES;
        let content = self.store.read(start, size, "a section")?;
        if flags & FLAG_COMPRESSED == 0 {
            return Ok(content);
        }
        if self.compression == Compression::None {
            let message = "expected a plain section in a file without compression";
            return Err(Damage::malformed(offset, message));
        }
        let mut bytes = Bytes::new(&content, start, endian);
        let packed = bytes.u32("the compressed size")?;
        let unpacked = bytes.u32("the unpacked size")?;
        let packed = bytes.take(u64::from(packed), "a compressed section")?;
        unpack_zstd(packed, u64::from(unpacked), start + 8)
    }

    /// The buffers of one trace instance.
    fn buffer(&mut self, mut data: Bytes) -> Result<(), Damage> {
        let section = data.u64("the place of a buffer")?;
        let name = data.text("the name of an instance")?;
        data.text("the clock of an instance")?;
        let offset = data.offset();
        let page_bytes = u64::from(data.u32("the size of a page")?);
        let cpus = data.u32("a number of CPUs")?;
        if cpus == 0 {
            return Ok(());
        }
        let page_bytes = page_size(page_bytes, offset)?;
        let head = self
            .store
            .read(section, SECTION_HEAD_BYTES, "the head of a section")?;
        let flags = Bytes::new(&head[2..], section + 2, self.contents.endian)
            .u16("the flags of a section")?;
        for _ in 0..cpus {
            let cpu = data.u32("the number of a CPU")?;
            let offset = data.u64("the place of a CPU's pages")?;
            let size = data.u64("the size of a CPU's pages")?;
            if size == 0 {
                continue;
            }
            self.contents.has_instances |= !name.is_empty();
            let pages = if flags & FLAG_COMPRESSED == 0 {
                Pages::Plain {
                    offset,
                    end: offset.saturating_add(size),
                }
            } else {
                let count = self.store.read(offset, 4, "a number of chunks")?;
                Pages::Zstd {
                    offset: offset + 4,
                    chunks_left: self.contents.endian.unsigned(&count) as u32,
                }
            };
            self.contents.buffers.push(CpuBuffer {
                cpu,
                page_bytes,
                pages,
            });
        }
        Ok(())
    }
}
