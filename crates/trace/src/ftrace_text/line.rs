//! One line, taken apart: header, event name, fields; and the lines that are no events.

use super::cursor::{Cursor, Malformed};
use super::flags::Layout;
use super::header::{self, Header};
use super::payload::{self, Fields, PLUGIN_COLUMN};
use super::script;
use crate::event::EventKind;
use crate::names::{COMM_BYTES_MAX, CommTable};
use crate::tracepoint::Tracepoint;

/// An event line.
pub(super) struct EventLine<'a> {
    pub(super) header: Header,
    pub(super) body: Body<'a>,
    /// True for a line of `perf script`.
    pub(super) is_script: bool,
}

pub(super) enum Body<'a> {
    Decoded {
        fields: Fields<'a>,
        has_extra_fields: bool,
    },
    /// Any other event, by name.
    Other(&'a [u8]),
    /// `perf script` says in place of an event that so many are missing.
    Lost(u64),
}

/// A line that could not be taken apart.
pub(super) struct BadLine {
    pub(super) malformed: Malformed,
    /// True if the header was fine and the fields were not.
    pub(super) has_header: bool,
    /// True for a line of a stack trace, ` => schedule`.
    pub(super) is_stack: bool,
}

/// Properties of the lines below, as the comments above the events tell them.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    pub(super) layout: Layout,
    /// A tracer other than `nop` writes lines of its own form between the events.
    tracer_writes: bool,
    /// The first event was a line of `perf script`, so the others will be.
    pub(super) is_script: bool,
}

impl Dialect {
    /// Learns from one comment line.
    pub(super) fn learn(&mut self, comment: &[u8]) {
        if let Some(tracer) = comment.strip_prefix(b"# tracer: ") {
            self.tracer_writes = tracer.trim_ascii() != b"nop";
        }
        self.layout.learn(comment);
    }
}

/// Takes an event line apart.
pub(super) fn event<'a>(line: &'a [u8], dialect: &Dialect) -> Result<EventLine<'a>, BadLine> {
    if dialect.is_script
        && let Some(outcome) = script_event(line, dialect)
    {
        return outcome;
    }
    let header = match header::parse(line, &dialect.layout) {
        Ok(header) => header,
        Err(malformed) => {
            let of_script = if dialect.is_script {
                None
            } else {
                script_event(line, dialect)
            };
            return of_script.unwrap_or_else(|| Err(header_bad(line, dialect, malformed)));
        }
    };
    let text = &line[header.event_start..];
    match event_name(text, dialect.tracer_writes) {
        Some(name) => body(line, header, name),
        None => Err(nameless(header.event_start)),
    }
}

/// The same for a line of `perf script`; `None` if it is none.
fn script_event<'a>(line: &'a [u8], dialect: &Dialect) -> Option<Result<EventLine<'a>, BadLine>> {
    let header = match script::parse(line)? {
        Ok(header) => header,
        Err(malformed) => return Some(Err(header_bad(line, dialect, malformed))),
    };
    let text = &line[header.event_start..];
    Some(match (script::lost(text), script::event_name(text)) {
        (Some(events), _) => Ok(EventLine {
            header,
            body: Body::Lost(events),
            is_script: true,
        }),
        (None, Some(name)) => body(line, header, name).map(|event| EventLine {
            is_script: true,
            ..event
        }),
        (None, None) => Err(nameless(header.event_start)),
    })
}

/// A task's name may start like a stack line, so only what is no event can be one.
fn header_bad(line: &[u8], dialect: &Dialect, malformed: Malformed) -> BadLine {
    let is_stack = line.starts_with(b" ") && line.trim_ascii_start().starts_with(b"=> ");
    BadLine {
        malformed,
        has_header: false,
        is_stack: is_stack || dialect.is_script && script::is_caller(line),
    }
}

fn fields_bad(malformed: Malformed) -> BadLine {
    BadLine {
        malformed,
        has_header: true,
        is_stack: false,
    }
}

fn nameless(offset: usize) -> BadLine {
    fields_bad(Malformed::new(offset, "the event's name and a colon"))
}

/// Reads the fields behind the name, which ends `name_end` bytes behind the header.
fn body<'a>(
    line: &'a [u8],
    header: Header,
    (name, name_end): (&'a [u8], usize),
) -> Result<EventLine<'a>, BadLine> {
    let name_start = header.event_start;
    let Some(known) = Tracepoint::from_name(name) else {
        return Ok(EventLine {
            header,
            body: Body::Other(name),
            is_script: false,
        });
    };
    // Spaces may belong to a name in the spellings of plugins, but not before the column they pad
    // to.
    let column = (name_start + PLUGIN_COLUMN).clamp(name_start + name_end, line.len());
    let mut cursor = Cursor::new(&line[..column], name_start + name_end);
    cursor.spaces();
    let (fields, has_extra_fields) = payload::parse(known, line, cursor.at).map_err(fields_bad)?;
    Ok(EventLine {
        header,
        body: Body::Decoded {
            fields,
            has_extra_fields,
        },
        is_script: false,
    })
}

/// The event's name and where the colon behind it ends.
///
/// Nameless are the lines of tracers (`schedule <-worker_thread`) and `<stack trace>`.
fn event_name(text: &[u8], tracer_writes: bool) -> Option<(&[u8], usize)> {
    let length = text
        .iter()
        .take_while(|byte| byte.is_ascii_graphic() && **byte != b':')
        .count();
    if length > 0 && text.get(length) == Some(&b':') {
        return Some((&text[..length], length + 1));
    }
    if text.starts_with(b"<")
        && let Some(close) = memchr::memchr(b'>', text)
    {
        return Some((&text[..=close], close + 1));
    }
    let is_function = memchr::memmem::find(text, b" <-").is_some();
    (is_function || tracer_writes).then_some((b"(tracer)", 0))
}

/// True if `joined`, several lines in one slice, really is one event whose task's name holds
/// newlines.
///
/// The parts of a name are short. A bad line followed by a good one joins to a "name" that is too
/// long, because the good line's own task column is padded to at least eight characters, sixteen
/// without the latency format.
pub(super) fn is_plausible_join(joined: &[u8], line: &EventLine) -> bool {
    let comm = &joined[..line.header.comm_end];
    let pad = if line.header.time_is_relative {
        8
    } else {
        COMM_BYTES_MAX + 1
    };
    let in_task_column = memchr::memchr(b'\n', comm).is_none_or(|newline| {
        comm.len() - newline <= pad
            && newline <= 64
            && memchr::memchr(0, &comm[..newline]).is_none()
    });
    let short = |name: &[u8]| name.len() <= COMM_BYTES_MAX;
    in_task_column
        && match &line.body {
            Body::Other(_) | Body::Lost(_) => true,
            Body::Decoded {
                fields: Fields::Exec(_),
                ..
            } => true,
            Body::Decoded { fields, .. } => {
                let mut fits = true;
                fields.map(|name| fits &= short(name));
                fits
            }
        }
}

/// The event of these fields; names move into the table.
pub(super) fn kind(fields: Fields, comms: &mut CommTable) -> EventKind {
    fields.map(|name| comms.intern(payload::plain_name(name, &mut [0; 16])))
}

/// Content of a line that is not an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Remark {
    /// Nothing that matters: a comment, an empty line, trace-cmd's version.
    Nothing,
    /// `entries-in-buffer/entries-written: 276/884   #P:2`
    Entries {
        in_buffer: Option<u64>,
        written: Option<u64>,
        cpus: Option<u32>,
    },
    /// `cpus=2`
    Cpus(u32),
    /// `##### CPU 0 buffer started ####`
    BufferStarted(u32),
    /// `CPU:1 [LOST 431 EVENTS]`
    Lost { cpu: u32, events: Option<u64> },
}

/// Beginnings of the lines that `trace-cmd report -w` writes below the events.
const SUMMARY: [&[u8]; 4] = [
    b"Average wakeup latency: ",
    b"Maximum Latency: ",
    b"Minimum Latency: ",
    b"RT task timings:",
];

/// Reads a line that is not an event; `None` if it may be one.
pub(super) fn remark(line: &[u8]) -> Result<Option<Remark>, Malformed> {
    Ok(Some(match line.first() {
        None => Remark::Nothing,
        Some(b'#') => comment(line),
        Some(b'C') if line.starts_with(b"CPU:") => lost(line)?,
        Some(b'C') if line.starts_with(b"CPU ") && line.ends_with(b" is empty") => Remark::Nothing,
        Some(b'c') if line.starts_with(b"cpus=") => Remark::Cpus(Cursor::new(line, 5).cpu()?),
        Some(b'v') if line.starts_with(b"version = ") => Remark::Nothing,
        Some(b'A' | b'M' | b'R') if SUMMARY.iter().any(|start| line.starts_with(start)) => {
            Remark::Nothing
        }
        Some(_) if line.trim_ascii().is_empty() => Remark::Nothing,
        Some(_) if line.ends_with(b"]") => match gap_of_instance(line) {
            Some(gap) => lost(gap)?,
            None => return Ok(None),
        },
        Some(_) => return Ok(None),
    }))
}

fn comment(line: &[u8]) -> Remark {
    let mut cursor = Cursor::new(line, 0);
    if cursor.take(b"##### CPU ")
        && let Ok(cpu) = cursor.cpu()
        && cursor.rest().starts_with(b" buffer started")
    {
        return Remark::BufferStarted(cpu);
    }
    let after =
        |key: &[u8]| memchr::memmem::find(line, key).map(|at| Cursor::new(line, at + key.len()));
    let mut entries = match after(b"entries-in-buffer/entries-written: ") {
        Some(entries) => entries,
        // The latency format's own way to say it: `latency: 0 us, #1397/1397, CPU#0 | (… #P:2)`.
        None if line.starts_with(b"# latency: ") => match after(b" us, #") {
            Some(entries) => entries,
            None => return Remark::Nothing,
        },
        None => return Remark::Nothing,
    };
    let in_buffer = entries.digits("a number").ok();
    let written = if entries.take(b"/") {
        entries.digits("a number").ok()
    } else {
        None
    };
    let cpus = after(b"#P:").and_then(|mut cursor| cursor.cpu().ok());
    Remark::Entries {
        in_buffer,
        written,
        cpus,
    }
}

/// A report of a trace instance puts its name in front: `pg: CPU:1 [431 EVENTS DROPPED]`.
fn gap_of_instance(line: &[u8]) -> Option<&[u8]> {
    let gap_end = line.ends_with(b" EVENTS DROPPED]") || line.ends_with(b"[EVENTS DROPPED]");
    let colon = memchr::memchr(b':', line).filter(|_| gap_end)?;
    let gap = line[colon + 1..].strip_prefix(b" ")?;
    let is_name = colon > 0 && !line[..colon].contains(&b' ');
    (is_name && gap.starts_with(b"CPU:")).then_some(gap)
}

/// The kernel writes `[LOST 431 EVENTS]`, trace-cmd `[431 EVENTS DROPPED]`; both leave the number
/// out if it is unknown.
fn lost(line: &[u8]) -> Result<Remark, Malformed> {
    let expected = "`[LOST n EVENTS]` or `[n EVENTS DROPPED]`";
    let mut cursor = Cursor::new(line, b"CPU:".len());
    let cpu = cursor.cpu()?;
    let start = cursor;
    cursor.expect(b" [", expected)?;
    let by_kernel = cursor.take(b"LOST ");
    let mut events = None;
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        events = Some(cursor.digits(expected)?);
        cursor.spaces();
    }
    let closing: &[u8] = if by_kernel {
        b"EVENTS]"
    } else {
        b"EVENTS DROPPED]"
    };
    if cursor.rest().trim_ascii_end() != closing {
        return start.fail(expected);
    }
    Ok(Remark::Lost { cpu, events })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<Remark> {
        remark(line.as_bytes()).unwrap_or_else(|e| panic!("{line}: {e:?}"))
    }

    #[test]
    fn gaps_in_four_spellings() {
        for (line, events) in [
            ("CPU:1 [LOST 431 EVENTS]", Some(431)),
            ("CPU:1 [LOST EVENTS]", None),
            ("CPU:1 [431 EVENTS DROPPED]", Some(431)),
            ("CPU:1 [EVENTS DROPPED]", None),
        ] {
            assert_eq!(said(line), Some(Remark::Lost { cpu: 1, events }), "{line}");
        }
        let texts = "CPU:1 [LOST|CPU:x [LOST 1 EVENTS]|CPU:1|CPU:1 [LOST 4 EVENTS DROPPED]";
        for line in texts.split('|') {
            assert!(remark(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn gaps_of_an_instance() {
        let gap = Remark::Lost {
            cpu: 1,
            events: Some(824),
        };
        assert_eq!(said("pg: CPU:1 [824 EVENTS DROPPED]"), Some(gap));
        for line in [
            "pg: CPU 1 [824 EVENTS DROPPED]",
            "pg:    <...>-618     1d..2. 1.000000000: m: CPU:1 [3 EVENTS DROPPED]",
            ": CPU:1 [824 EVENTS DROPPED]",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }

    #[test]
    fn headers_of_both_formats_tell_entries_and_cpus() {
        let entries = |line| match said(line) {
            Some(Remark::Entries {
                in_buffer,
                written,
                cpus,
            }) => (in_buffer, written, cpus),
            other => panic!("{line}: {other:?}"),
        };
        let line = "# entries-in-buffer/entries-written: 276/884   #P:2";
        assert_eq!(entries(line), (Some(276), Some(884), Some(2)));
        let line =
            "# latency: 0 us, #1397/1398, CPU#0 | (M:PREEMPT(none) VP:0, KP:0, SP:0 HP:0 #P:2)";
        assert_eq!(entries(line), (Some(1397), Some(1398), Some(2)));
    }

    #[test]
    fn lines_that_are_not_events() {
        let started = said("##### CPU 12 buffer started ####");
        assert_eq!(started, Some(Remark::BufferStarted(12)));
        assert_eq!(said("cpus=224"), Some(Remark::Cpus(224)));
        for line in "|   |# tracer: nop|#|version = 6|CPU 3 is empty".split('|') {
            assert_eq!(said(line), Some(Remark::Nothing), "{line}");
        }
        let texts = "  a-1 [000] .... 1.000000: e: x| => schedule|hello|CPU 3 is on fire|version 6";
        for line in texts.split('|') {
            assert_eq!(said(line), None, "{line}");
        }
    }

    #[test]
    fn names_of_events() {
        let name = |text: &'static str| event_name(text.as_bytes(), false);
        assert_eq!(name("sched_switch: a"), Some((&b"sched_switch"[..], 13)));
        assert_eq!(
            name("tracing_mark_write: a: b"),
            Some((&b"tracing_mark_write"[..], 19))
        );
        assert_eq!(name("<stack trace>"), Some((&b"<stack trace>"[..], 13)));
        assert_eq!(name("schedule <-foo"), Some((&b"(tracer)"[..], 0)));
        for text in ["", ": x", "sched_swi", "#1 inner/outer(us): 11/12"] {
            assert_eq!(name(text), None, "{text}");
            let found = event_name(text.as_bytes(), true);
            assert_eq!(found, Some((&b"(tracer)"[..], 0)), "{text}");
        }
    }

    #[test]
    fn tracers_other_than_nop_write_lines_of_their_own() {
        let mut dialect = Dialect::default();
        let line = b"  a-1 [000] d... 1.000000: #1 inner/outer(us): 11/12";
        assert!(event(line, &dialect).is_err());
        dialect.learn(b"# tracer: hwlat");
        let of_tracer = event(line, &dialect).ok().unwrap();
        assert!(matches!(of_tracer.body, Body::Other(b"(tracer)")));
        dialect.learn(b"# tracer: nop");
        assert!(event(line, &dialect).is_err());
    }
}
