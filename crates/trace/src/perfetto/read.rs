//! Reading the scheduling events of a Perfetto trace.
//!
//! Of a trace's packets only those with `ftrace_events` matter here: each is a bundle of one CPU,
//! in the order of that CPU's time, while bundles of different CPUs follow each other as they like.
//! Packets may be packed together (`compressed_packets`, deflate or zstd). Inside a bundle an event
//! is a message of its own, or one row of the compact form that [`compact`](super::compact) reads.
//!
//! Names of tasks come from the events; what Perfetto knows about processes besides is not needed.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::compact::Compact;
use super::field::{bundle, ftrace, packet, trace};
use super::wire::{Field, Fields, Value, WireError};
use crate::binary::{Damage, Store, unpack_zstd_stream};
use crate::error::ReadError;
use crate::event::{Context, Event, EventKind, Pid, PrevState};
use crate::event_format::context_of_flags;
use crate::names::{CommId, CommTable};
use crate::ordered::{Feed, OrderedReader, Pending, Progress};
use crate::source::{Counts, EventSource};
use crate::tracepoint::{Record, Tracepoint};

/// The events that are decoded, by their field in an event.
const KNOWN: [(u32, Tracepoint); 8] = [
    (4, Tracepoint::Switch),
    (17, Tracepoint::Wakeup),
    (20, Tracepoint::Waking),
    (114, Tracepoint::WakeupNew),
    (237, Tracepoint::Exec),
    (238, Tracepoint::Exit),
    (239, Tracepoint::Fork),
    (491, Tracepoint::Migrate),
];

/// Names of others that often stand beside them.
const OTHER: [(u32, &str); 12] = [
    (3, "print"),
    (11, "cpu_frequency"),
    (13, "cpu_idle"),
    (18, "sched_blocked_reason"),
    (24, "softirq_entry"),
    (25, "softirq_exit"),
    (26, "softirq_raise"),
    (36, "irq_handler_entry"),
    (37, "irq_handler_exit"),
    (240, "sched_process_free"),
    (242, "sched_process_wait"),
    (353, "sched_pi_setprio"),
];

const CPU_MAX: u64 = 65_535;

/// True if a file that begins like this can be a Perfetto trace: a packet, and not text behind an
/// empty line.
pub(crate) fn is_trace(head: &[u8]) -> bool {
    let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\n' | b'\r' | b'\t');
    head.first() == Some(&0x0a) && !head.iter().all(is_text)
}

/// Opens a trace; `file` is for messages.
pub(crate) fn open(file: &Path, store: Store) -> Result<Box<dyn EventSource>, ReadError> {
    let feed = Whole {
        file: file.to_owned(),
        store,
    };
    Ok(Box::new(OrderedReader::new(feed, Counts::default())))
}

/// Reads the file in one piece: nothing says how far out of order its packets are.
struct Whole {
    file: PathBuf,
    store: Store,
}

impl Feed for Whole {
    fn feed(&mut self, pending: &mut Pending) -> Result<Progress, ReadError> {
        let read = || {
            let bytes = self.store.read(0, self.store.len(), "a trace")?;
            let mut reader = Reader {
                pending,
                compact: Compact::default(),
                bundles: 0,
            };
            reader.packets(&bytes, 0, true)?;
            if reader.bundles == 0 {
                let message = "a Perfetto trace without events of the kernel; record with the data source `linux.ftrace`";
                return Err(Damage::unsupported(0, message));
            }
            Ok(Progress::End)
        };
        let mut read = read;
        read().map_err(|damage| damage.in_file(&self.file))
    }
}

/// The field of an event that is decoded; the schema has none for `sched_stat_runtime`.
pub(crate) fn number_of(known: Tracepoint) -> Option<u32> {
    let found = KNOWN.iter().find(|(_, candidate)| *candidate == known);
    found.map(|(number, _)| *number)
}

/// Turns an error of the encoding into one with its place in the file.
pub(super) fn damage(error: WireError, base: u64) -> Damage {
    let offset = base + error.offset as u64;
    Damage::malformed(offset, format!("expected {}", error.expected))
}

struct Reader<'a> {
    pending: &'a mut Pending,
    compact: Compact,
    bundles: u64,
}

impl Reader<'_> {
    /// Reads packets; `base` is their place in the file, or that of the packed bytes they come
    /// from.
    fn packets(&mut self, bytes: &[u8], base: u64, may_be_packed: bool) -> Result<(), Damage> {
        for field in Fields::new(bytes) {
            let field = field.map_err(|error| damage(error, base))?;
            if field.number != trace::PACKET {
                continue;
            }
            let offset = base + field.offset as u64;
            let packet = content(&field, offset)?;
            for part in Fields::new(packet) {
                let part = part.map_err(|error| damage(error, offset))?;
                let place = offset + part.offset as u64;
                match part.number {
                    packet::FTRACE_EVENTS => self.bundle(content(&part, place)?, place)?,
                    packet::COMPRESSED_PACKETS | packet::ZSTD_COMPRESSED_PACKETS => {
                        if !may_be_packed {
                            let message = "expected packets, found packets that are packed twice";
                            return Err(Damage::malformed(place, message));
                        }
                        let packed = content(&part, place)?;
                        let unpacked = unpack(part.number, packed, place)?;
                        self.packets(&unpacked, place, false)?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn bundle(&mut self, bytes: &[u8], base: u64) -> Result<(), Damage> {
        self.bundles += 1;
        let (mut cpu, mut has_lost) = (0, false);
        let (mut events, mut compact) = (Vec::new(), Vec::new());
        for field in Fields::new(bytes) {
            let field = field.map_err(|error| damage(error, base))?;
            let offset = base + field.offset as u64;
            match field.number {
                bundle::CPU => cpu = cpu_number(field.value, offset)?,
                bundle::LOST_EVENTS => has_lost = field.value.integer() == Some(1),
                bundle::EVENT => events.push((content(&field, offset)?, offset)),
                bundle::COMPACT_SCHED => compact.push((content(&field, offset)?, offset)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        for (message, offset) in events {
            found.push(event(message, offset, cpu, &mut self.pending.comms)?);
        }
        if has_lost {
            self.compact.forget(cpu);
        }
        for (message, offset) in compact {
            let rows = self
                .compact
                .read(message, offset, cpu, &mut self.pending.comms)?;
            found.extend(rows.into_iter().map(|event| (event, None)));
        }
        if has_lost {
            // The gap lies before the first event; an empty bundle has no time to tell.
            let first = found.iter().map(|(event, _)| event.time_ns).min();
            self.pending.lost(first.unwrap_or(0), cpu, None);
        }
        for (event, other) in found {
            match other {
                Some(name) => self.pending.other(event, name.as_bytes()),
                None => self.pending.event(event),
            }
        }
        Ok(())
    }
}

fn unpack(number: u32, packed: &[u8], offset: u64) -> Result<Vec<u8>, Damage> {
    /// Packets are packed in pieces below 512 KiB; the limit keeps damaged ones from filling the
    /// memory.
    const UNPACKED_BYTES_MAX: u64 = 1 << 28;
    if number == packet::ZSTD_COMPRESSED_PACKETS {
        return unpack_zstd_stream(packed, UNPACKED_BYTES_MAX, offset);
    }
    let mut unpacked = Vec::new();
    flate2::read::ZlibDecoder::new(packed)
        .take(UNPACKED_BYTES_MAX)
        .read_to_end(&mut unpacked)
        .map_err(|error| {
            Damage::malformed(offset, format!("the packed packets are damaged ({error})"))
        })?;
    Ok(unpacked)
}

/// The bytes of a nested message.
fn content<'a>(field: &Field<'a>, offset: u64) -> Result<&'a [u8], Damage> {
    field.value.bytes().ok_or_else(|| {
        let number = field.number;
        Damage::malformed(
            offset,
            format!("expected a message in field {number}, found a number"),
        )
    })
}

fn cpu_number(value: Value, offset: u64) -> Result<u32, Damage> {
    match value.integer() {
        Some(cpu) if cpu <= CPU_MAX => Ok(cpu as u32),
        _ => Err(Damage::malformed(
            offset,
            format!("expected the number of a CPU up to {CPU_MAX}"),
        )),
    }
}

/// Reads one event, with its name if it is not decoded.
fn event(
    bytes: &[u8],
    base: u64,
    cpu: u32,
    comms: &mut CommTable,
) -> Result<(Event, Option<String>), Damage> {
    let mut event = Event {
        time_ns: 0,
        cpu,
        task: 0,
        context: Context::UNKNOWN,
        kind: EventKind::Other,
    };
    let mut other = None;
    for field in Fields::new(bytes) {
        let field = field.map_err(|error| damage(error, base))?;
        let number = field.value.integer();
        match field.number {
            ftrace::TIMESTAMP => event.time_ns = number.unwrap_or(0),
            ftrace::PID => event.task = number.unwrap_or(0) as Pid,
            ftrace::COMMON_FLAGS => event.context = context_of_flags(number.unwrap_or(0) as u8),
            known_or_other => {
                let offset = base + field.offset as u64;
                let known = KNOWN.iter().find(|(number, _)| *number == known_or_other);
                match known {
                    Some((_, known)) => {
                        event.kind = known.read(&mut KnownRecord {
                            fields: known.fields(),
                            values: Values::read(content(&field, offset)?, offset)?,
                            comms,
                        })?;
                        other = None;
                    }
                    None => other = Some(name_of(known_or_other)),
                }
            }
        }
    }
    if event.kind == EventKind::Other && other.is_none() {
        other = Some("(event)".to_owned());
    }
    Ok((event, other.filter(|_| event.kind == EventKind::Other)))
}

fn name_of(number: u32) -> String {
    match OTHER.iter().find(|(known, _)| *known == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("(event {number})"),
    }
}

/// The fields 1 to 7 of an event; those that are missing are 0 or empty, as the schema says.
struct Values<'a> {
    base: u64,
    numbers: [u64; 8],
    texts: [&'a [u8]; 8],
}

impl<'a> Values<'a> {
    fn read(bytes: &'a [u8], base: u64) -> Result<Values<'a>, Damage> {
        let mut values = Values {
            base,
            numbers: [0; 8],
            texts: [b""; 8],
        };
        for field in Fields::new(bytes) {
            let field = field.map_err(|error| damage(error, base))?;
            let Some(slot) = values.numbers.get_mut(field.number as usize) else {
                continue;
            };
            match field.value {
                Value::Bytes(text) => values.texts[field.number as usize] = text,
                value => *slot = value.integer().unwrap_or(0),
            }
        }
        Ok(values)
    }
}

/// The fields of an event that is known.
struct KnownRecord<'a> {
    fields: &'static [(&'static str, usize)],
    values: Values<'a>,
    comms: &'a mut CommTable,
}

impl Record for KnownRecord<'_> {
    type Error = Damage;

    fn comm(&mut self, field: usize) -> Result<CommId, Damage> {
        Ok(self.comms.intern(self.values.texts[self.fields[field].1]))
    }

    fn number(&self, field: usize) -> Result<i64, Damage> {
        Ok(self.values.numbers[self.fields[field].1] as i64)
    }

    fn pid(&self, field: usize) -> Result<Pid, Damage> {
        Ok(self.number(field)? as Pid)
    }

    fn cpu(&self, field: usize) -> Result<u32, Damage> {
        cpu_number(Value::Varint(self.number(field)? as u64), self.values.base)
    }

    fn state(&self, field: usize) -> Result<PrevState, Damage> {
        prev_state(self.number(field)? as u64, self.values.base)
    }
}

/// The state behind the kernel's bits, as kernels since 4.14 number them.
pub(super) fn prev_state(bits: u64, offset: u64) -> Result<PrevState, Damage> {
    PrevState::from_bits(bits).ok_or_else(|| {
        let message = format!(
            "expected bits of a task state as kernels since 4.14 have them, found {bits:#x}"
        );
        Damage::malformed(offset, message)
    })
}
