//! How a sample is laid out: `sample_type` of its attribute says which parts it has, in a fixed
//! order.

use crate::binary::{Bytes, Damage, Endian};
use crate::event::Pid;

/// Bits of `sample_type`, and of `read_format` where a sample has counters.
mod bit {
    pub(super) const IP: u64 = 1 << 0;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;

    pub(super) const READ_ENABLED: u64 = 1 << 0;
    pub(super) const READ_RUNNING: u64 = 1 << 1;
    pub(super) const READ_ID: u64 = 1 << 2;
    pub(super) const READ_GROUP: u64 = 1 << 3;
    pub(super) const READ_LOST: u64 = 1 << 4;
}

/// Position of `sample_id_all` among the flags of an attribute.
const SAMPLE_ID_ALL: u32 = 18;
const TYPE_TRACEPOINT: u32 = 2;

/// The layout of one attribute's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    sample_type: u64,
    read_format: u64,
    is_tracepoint: bool,
    sample_id_all: bool,
}

/// Fields of a sample; `raw` are the kernel's own bytes, which only tracepoints have.
pub(super) struct Sample<'a> {
    pub(super) time_ns: u64,
    pub(super) cpu: u32,
    pub(super) task: Pid,
    pub(super) raw: Option<&'a [u8]>,
}

/// Fields at the end of other records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) time_ns: u64,
    pub(super) cpu: u32,
}

impl Layout {
    /// Reads a `perf_event_attr`.
    pub(super) fn of_attribute(mut bytes: Bytes) -> Result<Layout, Damage> {
        let offset = bytes.offset();
        let endian = bytes.endian();
        let kind = bytes.u32("the type of an attribute")?;
        bytes.u32("the size of an attribute")?;
        bytes.u64("the number of an event")?;
        bytes.u64("a sampling period")?;
        let sample_type = bytes.u64("a sample type")?;
        let read_format = bytes.u64("a format of counters")?;
        let flags = bytes.u64("the flags of an attribute")?;
        let position = match endian {
            Endian::Little => SAMPLE_ID_ALL,
            // Bit fields are counted from the other end.
            Endian::Big => 63 - SAMPLE_ID_ALL,
        };
        let layout = Layout {
            sample_type,
            read_format,
            is_tracepoint: kind == TYPE_TRACEPOINT,
            sample_id_all: flags >> position & 1 == 1,
        };
        if layout.is_tracepoint {
            let needed = [(bit::TIME, "time"), (bit::CPU, "CPU"), (bit::RAW, "data")];
            if let Some((_, what)) = needed.iter().find(|(bit, _)| !layout.has(*bit)) {
                let message = format!(
                    "tracepoints were sampled without their {what}; record with `perf sched record`, or with `perf record -R -T --sample-cpu`"
                );
                return Err(Damage::unsupported(offset, message));
            }
        }
        Ok(layout)
    }

    fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    pub(super) fn begins_with_identifier(&self) -> bool {
        self.has(bit::IDENTIFIER)
    }

    /// Takes a sample apart.
    pub(super) fn sample<'a>(&self, mut bytes: Bytes<'a>) -> Result<Sample<'a>, Damage> {
        let mut sample = Sample {
            time_ns: 0,
            cpu: 0,
            task: -1,
            raw: None,
        };
        for part in [bit::IDENTIFIER, bit::IP] {
            self.skip_word(part, &mut bytes)?;
        }
        if self.has(bit::TID) {
            bytes.u32("the process of a sample")?;
            sample.task = bytes.u32("the task of a sample")? as Pid;
        }
        if self.has(bit::TIME) {
            sample.time_ns = bytes.u64("the time of a sample")?;
        }
        for part in [bit::ADDR, bit::ID, bit::STREAM_ID] {
            self.skip_word(part, &mut bytes)?;
        }
        if self.has(bit::CPU) {
            sample.cpu = cpu(&mut bytes)?;
        }
        self.skip_word(bit::PERIOD, &mut bytes)?;
        if !self.is_tracepoint {
            return Ok(sample);
        }
        if self.has(bit::READ) {
            self.skip_counters(&mut bytes)?;
        }
        if self.has(bit::CALLCHAIN) {
            let length = bytes.u64("the length of a call chain")?;
            bytes.take(length.saturating_mul(8), "a call chain")?;
        }
        let length = u64::from(bytes.u32("the length of a sample's data")?);
        sample.raw = Some(bytes.take(length, "a sample's data")?);
        Ok(sample)
    }

    fn skip_word(&self, part: u64, bytes: &mut Bytes) -> Result<(), Damage> {
        if self.has(part) {
            bytes.u64("a part of a sample")?;
        }
        Ok(())
    }

    /// Steps over the values of counters (`read_format`).
    fn skip_counters(&self, bytes: &mut Bytes) -> Result<(), Damage> {
        let times = (self.read_format & bit::READ_ENABLED != 0) as u64
            + (self.read_format & bit::READ_RUNNING != 0) as u64;
        let each = 1
            + (self.read_format & bit::READ_ID != 0) as u64
            + (self.read_format & bit::READ_LOST != 0) as u64;
        let counters = if self.read_format & bit::READ_GROUP != 0 {
            bytes.u64("a number of counters")?
        } else {
            1
        };
        let words = counters.saturating_mul(each).saturating_add(times);
        bytes
            .take(words.saturating_mul(8), "the values of counters")
            .map(|_| ())
    }

    /// Reads the end of a record that is no sample: its parts stand in a fixed order before its
    /// last byte.
    pub(super) fn trailer(&self, bytes: Bytes) -> Result<Trailer, Damage> {
        let mut trailer = Trailer::default();
        if !self.sample_id_all {
            return Ok(trailer);
        }
        let parts = [
            bit::TID,
            bit::TIME,
            bit::ID,
            bit::STREAM_ID,
            bit::CPU,
            bit::IDENTIFIER,
        ];
        let length = 8 * parts.iter().filter(|part| self.has(**part)).count();
        let mut bytes = bytes;
        let before = bytes.rest().len().saturating_sub(length);
        bytes.take(before as u64, "a record")?;
        for part in parts {
            match part {
                _ if !self.has(part) => {}
                bit::TIME => trailer.time_ns = bytes.u64("the time of a record")?,
                bit::CPU => trailer.cpu = cpu(&mut bytes)?,
                _ => {
                    bytes.u64("the end of a record")?;
                }
            }
        }
        Ok(trailer)
    }
}

/// A number of a CPU and four bytes that mean nothing.
fn cpu(bytes: &mut Bytes) -> Result<u32, Damage> {
    const CPU_MAX: u32 = 65_535;
    let offset = bytes.offset();
    let cpu = bytes.u32("the CPU of a sample")?;
    bytes.u32("the CPU of a sample")?;
    if cpu > CPU_MAX {
        let message = format!("expected the number of a CPU up to {CPU_MAX}, found {cpu}");
        return Err(Damage::malformed(offset, message));
    }
    Ok(cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(sample_type: u64, read_format: u64) -> Layout {
        Layout {
            sample_type,
            read_format,
            is_tracepoint: true,
            sample_id_all: true,
        }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn every_part_before_the_data_is_stepped_over() {
        let everything = bit::IP
            | bit::TID
            | bit::TIME
            | bit::ADDR
            | bit::READ
            | bit::CALLCHAIN
            | bit::ID
            | bit::CPU
            | bit::PERIOD
            | bit::STREAM_ID
            | bit::RAW
            | bit::IDENTIFIER;
        let group = bit::READ_GROUP | bit::READ_ENABLED | bit::READ_ID;
        let mut bytes = words(&[
            1, // identifier
            2, // instruction
            7 << 32 | 6,
            1234, // time
            3,    // address
            4,    // identifier
            5,    // stream
            11,   // CPU
            1,    // period
            2,
            99,
            50,
            1,
            60,
            2, // two counters, enabled, and each a value and its identifier
            2,
            8,
            9, // two callers
        ]);
        bytes.extend_from_slice(&[3, 0, 0, 0, b'a', b'b', b'c', 0]);
        let sample = layout(everything, group)
            .sample(Bytes::new(&bytes, 0, Endian::Little))
            .unwrap();
        assert_eq!((sample.time_ns, sample.cpu, sample.task), (1234, 11, 7));
        assert_eq!(sample.raw, Some(&b"abc"[..]));
    }

    #[test]
    fn a_trailer_is_read_from_the_end() {
        let parts = bit::TID | bit::TIME | bit::CPU | bit::IDENTIFIER;
        let bytes = words(&[77, 7 << 32, 1234, 3, 5]);
        let trailer = layout(parts, 0).trailer(Bytes::new(&bytes, 0, Endian::Little));
        let expected = Trailer {
            time_ns: 1234,
            cpu: 3,
        };
        assert_eq!(trailer, Ok(expected));
    }

    #[test]
    fn samples_without_what_a_replay_needs_are_refused() {
        let mut bytes = vec![0; 64];
        bytes[0] = 2;
        let refused = |sample_type: u64| {
            let mut bytes = bytes.clone();
            bytes[24..32].copy_from_slice(&sample_type.to_le_bytes());
            Layout::of_attribute(Bytes::new(&bytes, 0, Endian::Little)).map_err(|d| d.message)
        };
        assert!(refused(bit::CPU | bit::RAW).unwrap_err().contains("time"));
        assert!(refused(bit::TIME | bit::RAW).unwrap_err().contains("CPU"));
        assert!(refused(bit::TIME | bit::CPU).unwrap_err().contains("data"));
        assert!(refused(bit::TIME | bit::CPU | bit::RAW).is_ok());
    }
}
