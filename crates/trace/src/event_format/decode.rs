//! Records of the kernel, taken apart by their formats.

use super::{EventFormat, Field, Place, States};
use crate::binary::{Endian, before_zero};
use crate::event::{AtSocket, Context, Event, EventKind, Level, Pid, PrevState, SocketEvent};
use crate::event::{TCP_CLOSE, TCP_FIN_WAIT1, TCP_LAST_ACK, TCP_SYN_SENT};
use crate::names::{CommId, CommTable};
use crate::tracepoint::{self, Tracepoint};

/// Where a record was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u32,
    /// From the common fields on.
    pub(crate) bytes: &'a [u8],
}

/// Takes records apart by the formats it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Decoder {
    endian: Endian,
    common: Option<Common>,
    /// By the event's number.
    plans: Vec<Option<Plan>>,
}

/// The fields that all events share.
#[derive(Clone, Debug)]
struct Common {
    kind: Field,
    flags: Option<Field>,
    pid: Field,
}

/// Plan for records of one event.
#[derive(Clone, Debug)]
struct Plan {
    name: Box<[u8]>,
    /// The event and the fields it needs, in the order of [`Tracepoint::fields`].
    known: Option<(Tracepoint, Vec<Field>)>,
    states: Option<States>,
    socket: Option<SocketPlan>,
}

/// Plan for records of an event of sockets.
#[derive(Clone, Debug)]
struct SocketPlan {
    event: SocketEvent,
    socket: Field,
    /// Bytes that were moved, or an error, or the new state; nothing where data has come.
    value: Option<Field>,
    protocol: Option<Field>,
}

impl SocketPlan {
    fn of(format: &EventFormat) -> Option<SocketPlan> {
        let event = SocketEvent::named(&format.name)?;
        let (socket, value) = match event {
            SocketEvent::DataReady => ("skaddr", None),
            SocketEvent::SendLength | SocketEvent::RecvLength => ("sk", Some("ret")),
            SocketEvent::SetState => ("skaddr", Some("newstate")),
        };
        let value = match value {
            Some(field) => Some(format.field(field)?.clone()),
            None => None,
        };
        Some(SocketPlan {
            event,
            socket: format.field(socket)?.clone(),
            value,
            protocol: format.field("protocol").cloned(),
        })
    }

    /// `None` where nothing was moved, and where a state says nothing of who asks whom.
    fn kind(&self, values: Values) -> Result<Option<EventKind>, String> {
        let value = self.value.as_ref().map(|field| values.number(field));
        let what = match (self.event, value.transpose()?.unwrap_or(0)) {
            (SocketEvent::DataReady, _) => AtSocket::Arrived,
            (SocketEvent::SendLength, 1..) => AtSocket::Sent,
            (SocketEvent::RecvLength, 1..) => match &self.protocol {
                Some(field) if values.number(field)? == IPPROTO_UDP => AtSocket::ReceivedDatagram,
                _ => AtSocket::Received,
            },
            (SocketEvent::SetState, TCP_SYN_SENT) => AtSocket::Connects,
            (SocketEvent::SetState, TCP_FIN_WAIT1 | TCP_CLOSE | TCP_LAST_ACK) => AtSocket::Closes,
            _ => return Ok(None),
        };
        let socket = (values.number(&self.socket)? as u64).into();
        Ok(Some(EventKind::Socket { socket, what }))
    }
}

/// Protocol number of UDP (`include/uapi/linux/in.h`).
const IPPROTO_UDP: i64 = 17;

/// No CPU has a higher number.
const CPU_MAX: i64 = 65_535;

impl Decoder {
    pub(crate) fn new(endian: Endian) -> Decoder {
        Decoder {
            endian,
            common: None,
            plans: Vec::new(),
        }
    }

    /// Takes over one format. The error says which field it lacks.
    pub(crate) fn add(&mut self, format: EventFormat) -> Result<(), String> {
        if self.common.is_none()
            && let (Some(kind), Some(pid)) =
                (format.field("common_type"), format.field("common_pid"))
        {
            self.common = Some(Common {
                kind: kind.clone(),
                flags: format.field("common_flags").cloned(),
                pid: pid.clone(),
            });
        }
        let known = Tracepoint::from_name(format.name.as_bytes())
            .map(|known| plan(known, &format).map(|fields| (known, fields)))
            .transpose()?;
        let socket = SocketPlan::of(&format);
        let id = format.id as usize;
        if id > usize::from(u16::MAX) {
            return Err(format!(
                "expected an ID below 65536 in the format of event `{}`, found {id}",
                format.name
            ));
        }
        if self.plans.len() <= id {
            self.plans.resize(id + 1, None);
        }
        self.plans[id] = Some(Plan {
            name: format.name.into_bytes().into(),
            known,
            states: format.states,
            socket,
        });
        Ok(())
    }

    /// True if no format of a scheduling event was added.
    pub(crate) fn knows_nothing(&self) -> bool {
        !self.plans.iter().flatten().any(|plan| plan.known.is_some())
    }

    /// The event, and its name if it is one that is not decoded. The error says what is wrong with
    /// the record.
    pub(crate) fn decode(
        &self,
        record: &Record,
        comms: &mut CommTable,
    ) -> Result<(Event, Option<String>), String> {
        let common = self
            .common
            .as_ref()
            .ok_or("expected a format with the fields `common_type` and `common_pid`")?;
        let values = Values {
            endian: self.endian,
            bytes: record.bytes,
        };
        let id = values.number(&common.kind)?;
        let plan = usize::try_from(id)
            .ok()
            .and_then(|id| self.plans.get(id))
            .and_then(Option::as_ref);
        let (kind, other) = match plan {
            Some(Plan {
                known: Some((known, fields)),
                states,
                ..
            }) => {
                let states = states.as_ref();
                let mut record = KnownRecord {
                    fields,
                    states,
                    values,
                    comms,
                };
                (known.read(&mut record)?, None)
            }
            Some(plan) => {
                let socket = plan.socket.as_ref().map(|plan| plan.kind(values));
                match socket.transpose()?.flatten() {
                    Some(kind) => (kind, None),
                    None => {
                        let name = String::from_utf8_lossy(&plan.name).into_owned();
                        (EventKind::Other, Some(name))
                    }
                }
            }
            None => (EventKind::Other, Some(format!("(event {id})"))),
        };
        let flags = common.flags.as_ref().map(|field| values.number(field));
        let event = Event {
            time_ns: record.time_ns,
            cpu: record.cpu,
            task: values.pid(&common.pid)?,
            context: flags
                .transpose()?
                .map_or(Context::UNKNOWN, |flags| context_of_flags(flags as u8)),
            kind,
        };
        Ok((event, other))
    }
}

/// Picks the fields that an event needs.
fn plan(known: Tracepoint, format: &EventFormat) -> Result<Vec<Field>, String> {
    let pick = |(name, _): &(&str, usize)| {
        format.field(name).cloned().ok_or_else(|| {
            let has: Vec<&str> = format.fields.iter().map(|field| &*field.name).collect();
            let (event, has) = (&format.name, has.join(", "));
            format!("expected a field `{name}` in the format of event `{event}`, found {has}")
        })
    };
    known.fields().iter().map(pick).collect()
}

/// The bits of `common_flags` (`enum trace_flag_type`).
///
/// Kernels before 6.13 use bit 1 where an architecture cannot tell whether interrupts are off.
pub(crate) fn context_of_flags(flags: u8) -> Context {
    let mut context = Context::TASK;
    if flags & 0x01 != 0 {
        context = context.with_irqs_off();
    }
    if flags & 0x02 != 0 {
        context = context.with_need_resched_lazy();
    }
    if flags & 0x04 != 0 {
        context = context.with_need_resched();
    }
    if flags & 0x08 != 0 {
        context = context.with_level(Level::HardIrq);
    }
    if flags & 0x10 != 0 {
        context = context.with_level(Level::SoftIrq);
    }
    if flags & 0x40 != 0 {
        context = context.with_level(Level::Nmi);
    }
    if flags & 0x80 != 0 {
        context = context.with_bh_off();
    }
    context
}

/// The values of one record.
#[derive(Clone, Copy)]
struct Values<'a> {
    endian: Endian,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    #[inline]
    fn slice(self, offset: usize, size: usize, field: &Field) -> Result<&'a [u8], String> {
        let bytes = self.bytes.get(offset..offset.saturating_add(size));
        bytes.ok_or_else(|| self.is_short(offset, size, field))
    }

    #[cold]
    fn is_short(self, offset: usize, size: usize, field: &Field) -> String {
        format!(
            "field `{}` needs {size} bytes from byte {offset} of a record that has {}",
            field.name,
            self.bytes.len()
        )
    }

    #[inline]
    fn number(self, field: &Field) -> Result<i64, String> {
        let bytes = self.slice(field.offset, field.size.min(8), field)?;
        Ok(if field.is_signed {
            self.endian.signed(bytes)
        } else {
            self.endian.unsigned(bytes) as i64
        })
    }

    fn pid(self, field: &Field) -> Result<Pid, String> {
        let value = self.number(field)?;
        Pid::try_from(value)
            .map_err(|_| format!("field `{}` is no number of a task: {value}", field.name))
    }

    fn cpu(self, field: &Field) -> Result<u32, String> {
        let value = self.number(field)?;
        if (0..=CPU_MAX).contains(&value) {
            return Ok(value as u32);
        }
        Err(format!(
            "field `{}` is no number of a CPU: {value}",
            field.name
        ))
    }

    fn text(self, field: &Field) -> Result<&'a [u8], String> {
        let (offset, size) = match field.place {
            Place::Here => (field.offset, field.size),
            place => {
                let word = self.number(field)? as u32;
                let (offset, size) = (word as usize & 0xffff, word as usize >> 16);
                match place {
                    Place::Relative => (field.offset + field.size + offset, size),
                    _ => (offset, size),
                }
            }
        };
        self.slice(offset, size, field).map(before_zero)
    }
}

/// A record of an event that is known.
struct KnownRecord<'a> {
    fields: &'a [Field],
    states: Option<&'a States>,
    values: Values<'a>,
    comms: &'a mut CommTable,
}

impl tracepoint::Record for KnownRecord<'_> {
    type Error = String;

    fn comm(&mut self, field: usize) -> Result<CommId, String> {
        let text = self.values.text(&self.fields[field]);
        text.map(|text| self.comms.intern(text))
    }

    fn number(&self, field: usize) -> Result<i64, String> {
        self.values.number(&self.fields[field])
    }

    fn pid(&self, field: usize) -> Result<Pid, String> {
        self.values.pid(&self.fields[field])
    }

    fn cpu(&self, field: usize) -> Result<u32, String> {
        self.values.cpu(&self.fields[field])
    }

    fn state(&self, field: usize) -> Result<PrevState, String> {
        let bits = self.number(field)? as u64;
        match self.states {
            Some(states) => states.decode(bits),
            None => PrevState::from_bits(bits),
        }
        .ok_or_else(|| format!("field `prev_state` has bits of no known state: {bits:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    fn decoder(endian: Endian, formats: &[&str]) -> Decoder {
        let mut decoder = Decoder::new(endian);
        for format in formats {
            let format = format.replace("COMMON", COMMON);
            decoder
                .add(EventFormat::parse(format.as_bytes()).unwrap())
                .unwrap();
        }
        decoder
    }

    const EXEC: &str = "name: sched_process_exec\nID: 258\nCOMMON\
        field:__data_loc char[] filename; offset:8; size:4; signed:0;\n\
        field:pid_t pid; offset:12; size:4; signed:1;\nfield:pid_t old_pid; offset:16; size:4; signed:1;";
    const EXEC_RELATIVE: &str = "name: sched_process_exec\nID: 258\nCOMMON\
        field:__rel_loc char[] filename; offset:8; size:4; signed:0;\n\
        field:pid_t pid; offset:12; size:4; signed:1;\nfield:pid_t old_pid; offset:16; size:4; signed:1;";

    fn decode(decoder: &Decoder, bytes: &[u8]) -> Result<(Event, Option<String>, String), String> {
        let mut comms = CommTable::new();
        let record = Record {
            time_ns: 5,
            cpu: 1,
            bytes,
        };
        let (event, other) = decoder.decode(&record, &mut comms)?;
        let names: Vec<_> = comms.iter().map(|(id, _)| comms.display(id)).collect();
        Ok((event, other, names.join("|")))
    }

    #[test]
    fn dynamic_text_in_both_byte_orders_and_both_ways_of_counting() {
        let little = b"\x02\x01\x08\0\x07\0\0\0\x14\0\x03\0\x09\0\0\0\x08\0\0\0/a\0";
        let (event, other, names) = decode(&decoder(Endian::Little, &[EXEC]), little).unwrap();
        assert_eq!((event.task, other, names.as_str()), (7, None, "/a"));
        assert_eq!(event.context.level(), Some(Level::HardIrq));
        let big = b"\x01\x02\x08\0\0\0\0\x07\0\x03\0\x14\0\0\0\x09\0\0\0\x08/a\0";
        assert_eq!(
            decode(&decoder(Endian::Big, &[EXEC]), big).unwrap(),
            (event, None, "/a".to_owned())
        );
        let relative = b"\x02\x01\x08\0\x07\0\0\0\x08\0\x03\0\x09\0\0\0\x08\0\0\0/a\0";
        assert_eq!(
            decode(&decoder(Endian::Little, &[EXEC_RELATIVE]), relative).unwrap(),
            (event, None, "/a".to_owned())
        );
    }

    #[test]
    fn a_text_outside_the_record_is_an_error() {
        let outside = b"\x02\x01\x08\0\x07\0\0\0\x14\0\x09\0\x09\0\0\0\x08\0\0\0/a\0";
        let error = decode(&decoder(Endian::Little, &[EXEC]), outside).unwrap_err();
        assert_eq!(
            error,
            "field `filename` needs 9 bytes from byte 20 of a record that has 23"
        );
    }

    #[test]
    fn unknown_events_keep_their_name_or_number() {
        let other = "name: sched_stat_wait\nID: 3\nCOMMON";
        let decoder = decoder(Endian::Little, &[other]);
        assert!(decoder.knows_nothing());
        let name = |bytes: &[u8]| decode(&decoder, bytes).unwrap().1.unwrap();
        assert_eq!(name(b"\x03\0\0\0\x01\0\0\0"), "sched_stat_wait");
        assert_eq!(name(b"\x04\0\0\0\x01\0\0\0"), "(event 4)");
        assert!(decode(&decoder, b"\x04").is_err());
    }

    #[test]
    fn what_is_received_over_udp_is_a_datagram() {
        let received = "name: sock_recv_length\nID: 6\nCOMMON\
            field:void * sk; offset:8; size:8; signed:0;\n\
            field:__u16 protocol; offset:16; size:2; signed:0;\n\
            field:int ret; offset:20; size:4; signed:1;";
        let decoder = decoder(Endian::Little, &[received]);
        for (protocol, what) in [(6, AtSocket::Received), (17, AtSocket::ReceivedDatagram)] {
            let mut record = *b"\x06\0\0\0\x07\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0";
            record[16] = protocol;
            let event = decode(&decoder, &record).unwrap().0;
            let socket = 0xa.into();
            assert_eq!(event.kind, EventKind::Socket { socket, what });
        }
    }

    #[test]
    fn a_socket_connects_and_closes_where_its_new_state_says_so() {
        let states = "name: inet_sock_set_state\nID: 5\nCOMMON\
            field:const void * skaddr; offset:8; size:8; signed:0;\n\
            field:int oldstate; offset:16; size:4; signed:1;\n\
            field:int newstate; offset:20; size:4; signed:1;";
        let decoder = decoder(Endian::Little, &[states]);
        let at = |state: u8| {
            let mut record = *b"\x05\0\0\0\x07\0\0\0\x0a\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0";
            record[20] = state;
            decode(&decoder, &record).unwrap()
        };
        let kind = |what| EventKind::Socket {
            socket: 0xa.into(),
            what,
        };
        assert_eq!(at(2).0.kind, kind(AtSocket::Connects));
        assert_eq!(at(4).0.kind, kind(AtSocket::Closes));
        assert_eq!(at(7).0.kind, kind(AtSocket::Closes));
        assert_eq!(at(9).0.kind, kind(AtSocket::Closes));
        assert_eq!(at(1).1.unwrap(), "inet_sock_set_state");
    }

    #[test]
    fn a_format_without_a_needed_field_is_refused() {
        let text = "name: sched_process_exit\nID: 9\nfield:char comm[16]; offset:8; size:16;";
        let format = EventFormat::parse(text.as_bytes()).unwrap();
        let error = Decoder::new(Endian::Little).add(format).unwrap_err();
        assert_eq!(
            error,
            "expected a field `pid` in the format of event `sched_process_exit`, found comm"
        );
    }
}
