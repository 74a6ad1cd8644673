//! Pages of the kernel's ring buffer, as `trace_pipe_raw` gives them and trace.dat keeps them.
//!
//! A page starts with a time stamp of 64 bits and a word that says how much of it is filled. Events
//! follow, each with a head of 32 bits: five bits of type and length, 27 bits of time since the
//! event before.
//!
//! | type | meaning |
//! |---|---|
//! | 0 | an event; its length in bytes is in the next word, which it includes |
//! | 1 … 28 | an event of that many words |
//! | 29 | padding: up to the page's end, or (time ≠ 0) a discarded event with its length in the next word |
//! | 30 | time extend: the next word are the bits of the time step above the 27 |
//! | 31 | absolute time: 59 bits of it, the five above come from the time before |
//!
//! If events were lost before a page, its word of size has bit 31 set; with bit 30 their number
//! stands behind the data.
//!
//! Worked example. A page of time 1000 with the heads `type 30, step 5, next word 1` and
//! `type 2, step 7` holds one event of eight bytes at 1000 + (1 × 2^27 + 5) + 7 = 134 218 740 ns.

use crate::binary::{Damage, Endian};
use crate::event_format::header_fields;

/// How the pages of one recording are laid out (`events/header_page`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageLayout {
    pub(crate) endian: Endian,
    /// Where the size stands, and its width: the kernel's `long`.
    commit_offset: usize,
    commit_bytes: usize,
    data_offset: usize,
    /// Room for events.
    data_bytes: usize,
}

/// The largest page of any kernel's ring buffer.
pub(crate) const PAGE_BYTES_MAX: usize = 1 << 24;

const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const SIZE_MASK: u64 = (1 << 27) - 1;

const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;
const STEP_BITS: u32 = 27;
/// Absolute times leave the highest five bits out.
const ABSOLUTE_BITS: u32 = 59;

impl PageLayout {
    /// Reads the text of `header_page`.
    pub(crate) fn parse(text: &[u8], endian: Endian) -> Result<PageLayout, String> {
        let fields = header_fields(text)?;
        let find = |name: &str| {
            let field = fields.iter().find(|field| field.name == name);
            field.ok_or_else(|| format!("expected a field `{name}` in `header_page`"))
        };
        let (commit, data) = (find("commit")?, find("data")?);
        if !matches!(commit.size, 4 | 8)
            || find("timestamp")?.offset != 0
            || commit.offset < 8
            || data.offset < commit.offset + commit.size
            || data.offset > 64
            || !(64..=PAGE_BYTES_MAX).contains(&(data.offset + data.size))
        {
            return Err("expected `header_page` to begin with a time stamp of 8 bytes, then the size in 4 or 8".to_owned());
        }
        Ok(PageLayout {
            endian,
            commit_offset: commit.offset,
            commit_bytes: commit.size,
            data_offset: data.offset,
            data_bytes: data.size,
        })
    }

    /// The same layout in the other byte order.
    pub(crate) fn with_endian(self, endian: Endian) -> PageLayout {
        PageLayout { endian, ..self }
    }

    /// Size of a page, head included.
    pub(crate) fn page_bytes(&self) -> usize {
        self.data_offset + self.data_bytes
    }

    /// True if the page's size word makes sense: the byte order is the right one.
    pub(crate) fn fits(&self, page: &[u8]) -> bool {
        PageReader::open(self, page, 0).is_ok()
    }

    /// The layout of every kernel since 2.6.32, for longs of this many bytes.
    #[cfg(test)]
    pub(crate) fn of_long(endian: Endian, commit_bytes: usize) -> PageLayout {
        PageLayout {
            endian,
            commit_offset: 8,
            commit_bytes,
            data_offset: 8 + commit_bytes,
            data_bytes: 4088 - commit_bytes,
        }
    }
}

/// Events that were lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    Nothing,
    /// Some; how many, where the page says.
    Events(Option<u64>),
}

/// Steps through one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageReader {
    endian: Endian,
    /// Place of the page in its file, for errors.
    base: u64,
    at: usize,
    end: usize,
    time_ns: u64,
    pub(crate) missed: Missed,
}

/// An event in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageEvent {
    pub(crate) time_ns: u64,
    /// Its bytes in the page.
    pub(crate) start: usize,
    pub(crate) length: usize,
}

impl PageReader {
    /// Opens `page`, which lies at byte `base` of its file.
    pub(crate) fn open(layout: &PageLayout, page: &[u8], base: u64) -> Result<PageReader, Damage> {
        if page.len() < layout.data_offset {
            let expected = format!(
                "the head of a page, {} bytes, found {}",
                layout.data_offset,
                page.len()
            );
            return Err(Damage::truncated(base, &expected));
        }
        let endian = layout.endian;
        let time_ns = endian.unsigned(&page[..8]);
        let commit_end = layout.commit_offset + layout.commit_bytes;
        // The flags are in the low 32 bits, whatever the width of the word.
        let commit = endian.unsigned(&page[layout.commit_offset..commit_end]) & 0xffff_ffff;
        let size = (commit & SIZE_MASK) as usize;
        let end = layout.data_offset + size;
        if end > page.len() {
            let offset = base + layout.commit_offset as u64;
            return Err(Damage::malformed(
                offset,
                format!(
                    "expected a page filled up to {} bytes, found {size}",
                    page.len() - layout.data_offset
                ),
            ));
        }
        let stored = || {
            page.get(end..end + layout.commit_bytes)
                .map(|bytes| endian.unsigned(bytes))
        };
        let missed = match commit & MISSED_EVENTS {
            0 => Missed::Nothing,
            _ if commit & MISSED_STORED != 0 => Missed::Events(stored()),
            _ => Missed::Events(None),
        };
        Ok(PageReader {
            endian,
            base,
            at: layout.data_offset,
            end,
            time_ns,
            missed,
        })
    }

    /// The next event of the page, `None` at its end.
    pub(crate) fn next(&mut self, page: &[u8]) -> Result<Option<PageEvent>, Damage> {
        while self.at + 4 <= self.end {
            let head_at = self.at;
            let (kind, step) = self.head(page);
            self.at += 4;
            match kind {
                TYPE_PADDING if step == 0 => break,
                TYPE_PADDING => {
                    self.time_ns = self.time_ns.wrapping_add(step);
                    let length = self.word(page)?;
                    self.skip(length, head_at)?;
                }
                TYPE_TIME_EXTEND => {
                    let high = u64::from(self.word(page)?);
                    self.time_ns = self.time_ns.wrapping_add((high << STEP_BITS) + step);
                    self.at += 4;
                }
                TYPE_TIME_STAMP => {
                    let low = (u64::from(self.word(page)?) << STEP_BITS) + step;
                    self.time_ns = absolute(low, self.time_ns);
                    self.at += 4;
                }
                _ => {
                    self.time_ns = self.time_ns.wrapping_add(step);
                    return self.event(page, kind, head_at).map(Some);
                }
            }
        }
        self.at = self.end;
        Ok(None)
    }

    fn event(&mut self, page: &[u8], kind: u32, head_at: usize) -> Result<PageEvent, Damage> {
        let (start, length, whole) = match kind {
            0 => {
                let length = self.word(page)?;
                (self.at + 4, length.saturating_sub(4), length)
            }
            words => (self.at, words * 4, words * 4),
        };
        self.skip(whole, head_at)?;
        Ok(PageEvent {
            time_ns: self.time_ns,
            start,
            length: length as usize,
        })
    }

    /// Type and time step.
    fn head(&self, page: &[u8]) -> (u32, u64) {
        let word = self.endian.unsigned(&page[self.at..self.at + 4]) as u32;
        match self.endian {
            Endian::Little => (word & 31, u64::from(word >> 5)),
            Endian::Big => (word >> STEP_BITS, u64::from(word & ((1 << STEP_BITS) - 1))),
        }
    }

    /// The word behind a head.
    fn word(&self, page: &[u8]) -> Result<u32, Damage> {
        if self.at + 4 > self.end {
            return Err(self.damage(self.at, "expected one more word before the end of the page"));
        }
        Ok(self.endian.unsigned(&page[self.at..self.at + 4]) as u32)
    }

    fn skip(&mut self, length: u32, head_at: usize) -> Result<(), Damage> {
        let end = self.at + (length as usize).next_multiple_of(4);
        if length < 4 || end > self.end {
            let message = format!(
                "expected an event within its page, found one of {length} bytes where {} are left",
                self.end - self.at
            );
            return Err(self.damage(head_at, &message));
        }
        self.at = end;
        Ok(())
    }

    fn damage(&self, at: usize, message: &str) -> Damage {
        Damage::malformed(self.base + at as u64, message)
    }
}

/// Completes an absolute time with the high bits of the time before (`rb_fix_abs_ts`).
fn absolute(low: u64, before: u64) -> u64 {
    let high = before >> ABSOLUTE_BITS << ABSOLUTE_BITS;
    let low = low & ((1 << ABSOLUTE_BITS) - 1);
    if high != 0 && (high | low) < before {
        return (high | low).wrapping_add(1 << ABSOLUTE_BITS);
    }
    high | low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of these words behind a head with time 1000; `commit` may carry flags.
    fn page(endian: Endian, long: usize, flags: u64, words: &[u32]) -> Vec<u8> {
        let put = |value: u64, bytes: usize| match endian {
            Endian::Little => value.to_le_bytes()[..bytes].to_vec(),
            Endian::Big => value.to_be_bytes()[8 - bytes..].to_vec(),
        };
        let mut page = put(1000, 8);
        page.extend(put((words.len() as u64 * 4) | flags, long));
        for word in words {
            page.extend(put(u64::from(*word), 4));
        }
        page.resize(256, 0);
        page
    }

    fn head(endian: Endian, kind: u32, step: u32) -> u32 {
        match endian {
            Endian::Little => step << 5 | kind,
            Endian::Big => kind << 27 | step,
        }
    }

    fn events(endian: Endian, long: usize, words: &[u32]) -> Result<Vec<(u64, usize)>, Damage> {
        let page = page(endian, long, 0, words);
        let mut reader = PageReader::open(&PageLayout::of_long(endian, long), &page, 0)?;
        let mut found = Vec::new();
        while let Some(event) = reader.next(&page)? {
            assert!(event.start + event.length <= page.len());
            found.push((event.time_ns, event.length));
        }
        Ok(found)
    }

    #[test]
    fn every_type_in_both_byte_orders_and_widths() {
        for (endian, long) in [
            (Endian::Little, 8),
            (Endian::Little, 4),
            (Endian::Big, 8),
            (Endian::Big, 4),
        ] {
            let head = |kind, step| head(endian, kind, step);
            let words = [
                head(2, 10),
                1,
                2,
                head(30, 5),
                1,
                head(0, 7),
                12,
                3,
                4,
                head(29, 3),
                4,
                head(31, 9),
                2,
                head(1, 0),
                5,
                head(29, 0),
                99,
                99,
            ];
            let extended = 1010 + (1 << 27) + 5 + 7;
            let stamped = (2 << 27) + 9;
            assert_eq!(
                events(endian, long, &words).unwrap(),
                [(1010, 8), (extended, 8), (stamped, 4)],
                "{endian:?} {long}"
            );
        }
    }

    #[test]
    fn absolute_times_keep_their_high_bits() {
        let high = 3 << ABSOLUTE_BITS;
        assert_eq!(absolute(5, high | 4), high | 5);
        let found = absolute(5, high | 6);
        assert_eq!(found, (4 << ABSOLUTE_BITS) | 5, "carried over");
        assert_eq!(absolute(5, 6), 5, "a clock may step back");
    }

    #[test]
    fn lost_events_are_told_in_three_ways() {
        let missed = |flags, words: &[u32]| {
            let mut page = page(Endian::Little, 8, flags, words);
            let end = 16 + words.len() * 4;
            page[end..end + 8].copy_from_slice(&431u64.to_le_bytes());
            let layout = PageLayout::of_long(Endian::Little, 8);
            PageReader::open(&layout, &page, 0).unwrap().missed
        };
        assert_eq!(missed(0, &[]), Missed::Nothing);
        assert_eq!(missed(MISSED_EVENTS, &[]), Missed::Events(None));
        assert_eq!(
            missed(MISSED_EVENTS | MISSED_STORED, &[1 << 5 | 1, 0]),
            Missed::Events(Some(431))
        );
    }

    #[test]
    fn damage_is_found_where_it_is() {
        let little = Endian::Little;
        let at = |words: &[u32]| events(little, 8, words).unwrap_err().offset;
        assert_eq!(at(&[head(little, 5, 1), 0]), 16, "longer than the page");
        assert_eq!(at(&[head(little, 0, 1)]), 20, "no length");
        let found = at(&[head(little, 0, 1), 2]);
        assert_eq!(found, 16, "shorter than its own length");
        assert_eq!(at(&[head(little, 30, 1)]), 20, "no high bits");
        let full = page(little, 8, 4096, &[]);
        let layout = PageLayout::of_long(little, 8);
        assert_eq!(PageReader::open(&layout, &full, 64).unwrap_err().offset, 72);
        assert!(PageReader::open(&layout, &full[..9], 0).is_err());
    }

    #[test]
    fn the_layout_is_read_from_the_text() {
        let text = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let layout = PageLayout::parse(text, Endian::Little).unwrap();
        assert_eq!(layout, PageLayout::of_long(Endian::Little, 8));
        assert!(
            PageLayout::parse(b"", Endian::Little)
                .unwrap_err()
                .contains("`commit`")
        );
    }
}
