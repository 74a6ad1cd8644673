//! Reader of ftrace text: the kernel's `trace` file and the output of `trace-cmd report`.
//!
//! A line such as
//!
//! ```text
//!         postgres-8687    [000] d..3.  5371.836444: sched_waking: comm=pgbench pid=8679 prio=120 target_cpu=000
//! ```
//!
//! is read in three steps: the header (task 8687 on CPU 0, at 5 371 836 444 000 ns), its flags
//! (interrupts off, task context), and the fields (the running task wakes 8679, which last ran on
//! CPU 0). Other lines are comments, gaps (`CPU:1 [LOST 431 EVENTS]`) or stack traces.
//!
//! Text of `perf script` is read as well: the same events, with the header in another order.
//!
//! Facts that the text does not contain stay unknown: without flags the context is
//! [`Context::UNKNOWN`](crate::Context::UNKNOWN), and trace-cmd's default spelling prints `R` for
//! `R+`.

mod cursor;
mod flags;
mod header;
mod line;
mod lines;
mod payload;
mod script;

use std::io::Read;
use std::path::{Path, PathBuf};

use self::cursor::Malformed;
use self::flags::Layout;
use self::line::{BadLine, Body, Dialect, EventLine, Remark};
use self::lines::{LINE_BYTES_MAX, Lines, Peek};
use crate::error::{ErrorKind, ReadError, excerpt};
use crate::event::{Event, EventKind};
use crate::names::{COMM_BYTES_MAX, CommTable};
use crate::source::{BufferStart, Counts, EventSource, Item};

/// Free text behind an event may go on for this many lines.
const CONTINUATION_LINES_MAX: u32 = 64;

/// Reads ftrace text from any stream, item by item, in constant memory.
pub struct FtraceTextReader<R> {
    lines: Lines<R>,
    decoder: Decoder,
    ended: bool,
}

/// All state but the stream, so that a line can be borrowed from the one while the other changes.
struct Decoder {
    file: PathBuf,
    dialect: Dialect,
    comms: CommTable,
    counts: Counts,
    previous_ns: Option<u64>,
    /// Lines that may still belong to the free text of the event before.
    continuation_left: u32,
}

impl<R: Read> FtraceTextReader<R> {
    /// Reads from `input`; `file` is only for messages.
    pub fn new(file: &Path, input: R) -> FtraceTextReader<R> {
        let decoder = Decoder {
            file: file.to_owned(),
            dialect: Dialect::default(),
            comms: CommTable::new(),
            counts: Counts::default(),
            previous_ns: None,
            continuation_left: 0,
        };
        FtraceTextReader {
            lines: Lines::new(input),
            decoder,
            ended: false,
        }
    }

    fn step(&mut self) -> Result<Option<Item>, ReadError> {
        while let Some(length) = self.next_line()? {
            let line = &self.lines.ahead()[..length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let outcome = match self.decoder.remark(line)? {
                Some(outcome) => outcome,
                None => match line::event(line, &self.decoder.dialect) {
                    Ok(event) => Outcome::Item(self.decoder.take(&event)),
                    Err(bad) => match self.joined(&bad)? {
                        Some(item) => return Ok(Some(item)),
                        None => self.decoder.text(&self.lines.ahead()[..length], &bad)?,
                    },
                },
            };
            self.lines.advance(length + 1);
            if let Outcome::Item(item) = outcome {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// The length of the next line, which is counted; `None` at the end.
    fn next_line(&mut self) -> Result<Option<usize>, ReadError> {
        let peek = self
            .lines
            .peek(1)
            .map_err(|error| self.decoder.stream_error(&error))?;
        match peek {
            Peek::Lines(length) => {
                self.decoder.counts.lines += 1;
                Ok(Some(length))
            }
            Peek::End => Ok(None),
            Peek::Cut => {
                let rest = self.lines.ahead();
                let message = format!(
                    "the file is cut off inside this line: no newline behind {}",
                    tail(rest)
                );
                Err(self
                    .decoder
                    .error_on_next_line(ErrorKind::Truncated, message, rest.len()))
            }
            Peek::TooLong => {
                let start = excerpt(&self.lines.ahead()[..64]);
                let message = format!(
                    "expected text, found a line of more than {LINE_BYTES_MAX} bytes: {start}"
                );
                Err(self
                    .decoder
                    .error_on_next_line(ErrorKind::Malformed, message, 0))
            }
        }
    }

    /// Tries to read the bad line together with the lines after it: a task's name may hold
    /// newlines.
    fn joined(&mut self, bad: &BadLine) -> Result<Option<Item>, ReadError> {
        if bad.is_stack {
            return Ok(None);
        }
        for count in 2..=COMM_BYTES_MAX + 1 {
            let peek = self
                .lines
                .peek(count)
                .map_err(|error| self.decoder.stream_error(&error))?;
            let Peek::Lines(length) = peek else { break };
            let joined = &self.lines.ahead()[..length];
            if bad.has_header && starts_new_event(joined, &self.decoder.dialect.layout) {
                break;
            }
            if let Ok(event) = line::event(joined, &self.decoder.dialect)
                && line::is_plausible_join(joined, &event)
            {
                let item = self.decoder.take(&event);
                self.decoder.counts.lines += count as u64 - 1;
                self.decoder.counts.continuation_lines += count as u64 - 1;
                self.lines.advance(length + 1);
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

/// True if the last of these lines is an event by itself, so that it cannot be the rest of the one
/// before.
fn starts_new_event(joined: &[u8], layout: &Layout) -> bool {
    let last = memchr::memrchr(b'\n', joined).map_or(0, |newline| newline + 1);
    header::parse(&joined[last..], layout).is_ok()
}

/// The end of a cut line, for a message.
fn tail(line: &[u8]) -> String {
    excerpt(&line[line.len().saturating_sub(40)..])
}

impl<R: Read> EventSource for FtraceTextReader<R> {
    fn next_item(&mut self) -> Result<Option<Item>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let item = self.step();
        self.ended = !matches!(item, Ok(Some(_)));
        item
    }

    fn comms(&self) -> &CommTable {
        &self.decoder.comms
    }

    fn counts(&self) -> &Counts {
        &self.decoder.counts
    }

    fn finish(self: Box<Self>) -> (CommTable, Counts) {
        (self.decoder.comms, self.decoder.counts)
    }
}

/// Outcome of a line.
enum Outcome {
    Item(Item),
    Skip,
}

impl Decoder {
    /// Accounts a line that is no event; `None` if it may be one.
    fn remark(&mut self, line: &[u8]) -> Result<Option<Outcome>, ReadError> {
        let Some(remark) =
            line::remark(line).map_err(|malformed| self.malformed(line, malformed))?
        else {
            return Ok(None);
        };
        let after_ns = self.previous_ns;
        let number = self.counts.lines;
        match remark {
            Remark::Nothing => self.dialect.learn(line),
            Remark::Cpus(cpus) => self.counts.cpus_declared = Some(cpus),
            Remark::Entries {
                in_buffer,
                written,
                cpus,
            } => {
                self.counts.cpus_declared = cpus.or(self.counts.cpus_declared);
                let overwritten = written.unwrap_or(0).saturating_sub(in_buffer.unwrap_or(0));
                // Every per-CPU file repeats the totals of the whole buffer, so headers are not
                // added up.
                self.counts.overwritten = self.counts.overwritten.max(overwritten);
            }
            Remark::BufferStarted(cpu) => {
                self.counts.buffer_starts.push(BufferStart {
                    cpu,
                    after_ns,
                    line: number,
                });
            }
            Remark::Lost { cpu, events } => {
                let gap = self.counts.lose(cpu, events, number, after_ns);
                return Ok(Some(Outcome::Item(gap)));
            }
        }
        Ok(Some(Outcome::Skip))
    }

    /// Turns a line into an item, and accounts it.
    fn take(&mut self, line: &EventLine) -> Item {
        let number = self.counts.lines;
        let header = &line.header;
        self.continuation_left = 0;
        self.dialect.is_script |= line.is_script;
        let kind = match &line.body {
            Body::Lost(events) => {
                let events = Some(*events);
                return self
                    .counts
                    .lose(header.cpu, events, number, self.previous_ns);
            }
            Body::Decoded {
                fields,
                has_extra_fields,
            } => {
                self.counts.with_extra_fields += u64::from(*has_extra_fields);
                line::kind(*fields, &mut self.comms)
            }
            Body::Other(name) => {
                self.counts.see_other(name, number);
                self.continuation_left = CONTINUATION_LINES_MAX;
                EventKind::Other
            }
        };
        let (time_ns, cpu, context) = (header.time_ns, header.cpu, header.context);
        let task = match kind {
            // perf knows no number of a task that is dead, but a switch is always written by the
            // task that leaves.
            EventKind::Switch(switch) if header.task == -1 => switch.prev.pid,
            _ => header.task,
        };
        let event = Event {
            time_ns,
            cpu,
            task,
            context,
            kind,
        };
        self.counts.time_is_relative |= header.time_is_relative;
        self.counts.see(&event, number, self.previous_ns);
        self.previous_ns = Some(time_ns);
        Item::Event(event)
    }

    /// A line that is no event may belong to a stack trace or to the text of a marker; otherwise it
    /// is an error.
    fn text(&mut self, line: &[u8], bad: &BadLine) -> Result<Outcome, ReadError> {
        if bad.is_stack {
            self.counts.continuation_lines += 1;
            return Ok(Outcome::Skip);
        }
        let is_text = line
            .iter()
            .all(|byte| *byte >= b' ' || *byte == b'\t' || *byte == b'\r');
        let may_go_on = self.continuation_left > 0 && !bad.has_header;
        if !may_go_on || !is_text || std::str::from_utf8(line).is_err() {
            return Err(self.malformed(line, bad.malformed));
        }
        self.continuation_left -= 1;
        self.counts.continuation_lines += 1;
        Ok(Outcome::Skip)
    }

    fn malformed(&self, line: &[u8], malformed: Malformed) -> ReadError {
        let found = excerpt(&line[malformed.offset.min(line.len())..]);
        let message = format!("expected {}, found {found}", malformed.expected);
        ReadError::new(ErrorKind::Malformed, &self.file, message)
            .at_line(self.counts.lines)
            .at_column(malformed.offset as u64 + 1)
    }

    /// An error on the line behind the last counted one, `offset` bytes into it.
    fn error_on_next_line(&self, kind: ErrorKind, message: String, offset: usize) -> ReadError {
        ReadError::new(kind, &self.file, message)
            .at_line(self.counts.lines + 1)
            .at_column(offset as u64 + 1)
    }

    fn stream_error(&self, error: &std::io::Error) -> ReadError {
        use std::io::ErrorKind as Io;
        let (kind, message) = match error.kind() {
            Io::UnexpectedEof => (
                ErrorKind::Truncated,
                "the compressed file is cut off; its text ends in this line".to_owned(),
            ),
            Io::InvalidData | Io::InvalidInput => (
                ErrorKind::Malformed,
                format!("the compressed file is damaged ({error}); its text ends in this line"),
            ),
            _ => (ErrorKind::Io, error.to_string()),
        };
        ReadError::new(kind, &self.file, message).at_line(self.counts.lines + 1)
    }
}
