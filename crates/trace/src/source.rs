//! Interface of every reader, whatever its format.
//!
//! A reader is an [`EventSource`]: it hands out [`Item`]s until the end, keeps a [`CommTable`], and
//! counts what it could not hand out. Nothing is dropped in silence: an event of an unknown name
//! comes as [`EventKind::Other`] and is counted by name, a gap in the recording comes as
//! [`Item::Lost`], and a clock that steps back is counted with its largest step. The caller decides
//! how to treat any of these.
//!
//! [`EventKind::Other`]: crate::EventKind::Other

use std::collections::BTreeMap;

use crate::clock::TraceClock;
use crate::error::ReadError;
use crate::event::{Event, EventKind, Pid, Switch};
use crate::names::CommTable;

/// More CPUs than any kernel is built for; events of higher ones are refused by every reader.
pub(crate) const MOST_CPUS: u32 = 65_536;

/// The number of every CPU's idle task.
const IDLE_TASK: Pid = 0;

/// One thing a recording says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Event),
    /// Events are missing here.
    Lost(LostEvents),
}

/// A gap: the recorder could not keep up, and says so between two events of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEvents {
    /// The CPU whose events are missing.
    pub cpu: u32,
    /// How many, where the recorder knows.
    pub events: Option<u64>,
    /// Time of the last event before the gap, of any CPU; `None` at the start of the trace.
    pub after_ns: Option<u64>,
    /// Line in the file, from 1 (0 in binary formats).
    pub line: u64,
}

/// A CPU whose buffer begins here: what it did earlier was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferStart {
    /// The CPU.
    pub cpu: u32,
    /// Time of the last event before the marker, of any CPU.
    pub after_ns: Option<u64>,
    /// Line in the file, from 1.
    pub line: u64,
}

/// How often an undecoded event name occurs, and where first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherEvent {
    /// Occurrences.
    pub count: u64,
    /// Line of the first one, from 1.
    pub first_line: u64,
}

/// Steps back of the clock between two events that follow each other in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backwards {
    /// Number of steps.
    pub count: u64,
    /// The largest one, in ns.
    pub largest_ns: u64,
    /// Line of the first one, from 1.
    pub first_line: u64,
}

/// Switches to and from the idle task of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleSwitches {
    /// Into idle.
    pub into: u64,
    /// Out of idle.
    pub out_of: u64,
}

impl IdleSwitches {
    /// A CPU that went idle twice left idle in between, and no event says so.
    fn are_hidden(self) -> bool {
        self.into > 1 && self.out_of == 0
    }
}

/// Everything a reader noticed besides the events themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of text, comments included (0 in binary formats).
    pub lines: u64,
    /// Events, decoded or not.
    pub events: u64,
    /// Events that are not decoded, by name.
    pub other: BTreeMap<String, OtherEvent>,
    /// Gaps, in file order.
    pub lost: Vec<LostEvents>,
    /// Events that the ring buffer overwrote before the trace was read.
    pub overwritten: u64,
    /// CPUs whose buffer starts later than the first one's.
    pub buffer_starts: Vec<BufferStart>,
    /// Steps back of the clock.
    pub backwards: Backwards,
    /// Events without flag columns, whose context is unknown.
    pub without_context: u64,
    /// Decoded events that end in fields which this version does not know.
    pub with_extra_fields: u64,
    /// Lines that belong to the event before: stack traces, markers of several lines, names with a
    /// newline.
    pub continuation_lines: u64,
    /// The clock, where the trace says; trace-cmd does not say that of an instance.
    pub clock: Option<TraceClock>,
    /// CPUs of the machine, where the trace says.
    pub cpus_declared: Option<u32>,
    /// Number of events per CPU; its length is the highest CPU seen plus one.
    pub events_per_cpu: Vec<u64>,
    /// Switches of the idle task, by CPU.
    pub idle_per_cpu: Vec<IdleSwitches>,
    /// Earliest and latest event time, in ns.
    pub span_ns: Option<(u64, u64)>,
    /// True if times count from the first event instead of the clock's zero (the `latency-format`
    /// trace option).
    pub time_is_relative: bool,
}

impl Counts {
    /// Lost events where their number is known; `None` if any gap is of unknown size.
    pub fn lost_events(&self) -> Option<u64> {
        self.lost.iter().map(|gap| gap.events).sum()
    }

    /// The CPUs that wrote at least one event.
    pub fn cpus_seen(&self) -> impl Iterator<Item = u32> + '_ {
        (0u32..)
            .zip(&self.events_per_cpu)
            .filter(|(_, events)| **events > 0)
            .map(|(cpu, _)| cpu)
    }

    /// CPUs of which the trace has no switch out of the idle task, although they went idle more
    /// than once.
    ///
    /// Some virtual machines write none by tracefs: one that was copied while the CPU idled, for
    /// example. BPF shows them there.
    pub fn cpus_that_hide_idle(&self) -> impl Iterator<Item = u32> + '_ {
        let all = (0u32..).zip(&self.idle_per_cpu);
        all.filter(|(_, idle)| idle.are_hidden())
            .map(|(cpu, _)| cpu)
    }

    /// The note about CPUs that hide it, if there are such.
    pub(crate) fn note_of_hidden_idle(&self) -> Option<String> {
        let cpus: Vec<String> = self
            .cpus_that_hide_idle()
            .map(|cpu| cpu.to_string())
            .collect();
        let name = match cpus.as_slice() {
            [] => return None,
            [_] => "CPU",
            _ => "CPUs",
        };
        Some(format!(
            "the trace has no switches out of idle on {name} {}: when tasks began to run there is inferred, \
             and waiting times there are less certain; `record --by bpf` has them, but no events of sockets",
            cpus.join(", ")
        ))
    }

    /// Notes that a reader needs before trusting an answer, one sentence each; empty if nothing is
    /// odd.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(first) = self.lost.first() {
            let gaps = self.lost.len();
            let events = self
                .lost_events()
                .map_or("an unknown number of".to_owned(), |n| n.to_string());
            let place = first_at(first.line);
            notes.push(format!("{events} events were lost in {gaps} gaps{place}"));
        }
        if self.overwritten > 0 {
            notes.push(format!(
                "{} events were overwritten before the trace was read",
                self.overwritten
            ));
        }
        for start in &self.buffer_starts {
            let (cpu, line) = (start.cpu, start.line);
            notes.push(format!(
                "what CPU {cpu} did before line {line} was overwritten"
            ));
        }
        if self.backwards.count > 0 {
            notes.push(format!(
                "the clock steps back {} times{}, by at most {} ns",
                self.backwards.count,
                first_at(self.backwards.first_line),
                self.backwards.largest_ns
            ));
        }
        for (name, other) in &self.other {
            let (count, place) = (other.count, first_at(other.first_line));
            notes.push(format!("{count} events `{name}` are not decoded{place}"));
        }
        if self.without_context > 0 {
            let without = self.without_context;
            notes.push(format!(
                "{without} events have no flags: interrupts cannot be told from tasks"
            ));
        }
        if self.with_extra_fields > 0 {
            let extra = self.with_extra_fields;
            notes.push(format!(
                "{extra} events end in fields this version does not know"
            ));
        }
        notes.extend(self.note_of_hidden_idle());
        if self.time_is_relative {
            notes.push("times count from the first event, not from the clock's zero".to_owned());
        }
        notes
    }

    /// Accounts an event that is about to be handed out.
    pub(crate) fn see(&mut self, event: &Event, line: u64, previous_ns: Option<u64>) {
        self.events += 1;
        if !event.context.is_known() {
            self.without_context += 1;
        }
        let cpu = event.cpu as usize;
        if self.events_per_cpu.len() <= cpu {
            self.events_per_cpu.resize(cpu + 1, 0);
        }
        self.events_per_cpu[cpu] += 1;
        if let EventKind::Switch(Switch { prev, next, .. }) = event.kind
            && (prev.pid == IDLE_TASK || next.pid == IDLE_TASK)
        {
            if self.idle_per_cpu.len() <= cpu {
                self.idle_per_cpu.resize(cpu + 1, IdleSwitches::default());
            }
            let idle = &mut self.idle_per_cpu[cpu];
            idle.into += u64::from(next.pid == IDLE_TASK);
            idle.out_of += u64::from(prev.pid == IDLE_TASK);
        }
        let now = event.time_ns;
        let (first, last) = self.span_ns.unwrap_or((now, now));
        self.span_ns = Some((first.min(now), last.max(now)));
        if let Some(step) = previous_ns
            .and_then(|previous| previous.checked_sub(now))
            .filter(|step| *step > 0)
        {
            if self.backwards.count == 0 {
                self.backwards.first_line = line;
            }
            self.backwards.count += 1;
            self.backwards.largest_ns = self.backwards.largest_ns.max(step);
        }
    }

    /// Accounts a gap that is about to be handed out.
    pub(crate) fn lose(
        &mut self,
        cpu: u32,
        events: Option<u64>,
        line: u64,
        after_ns: Option<u64>,
    ) -> Item {
        let gap = LostEvents {
            cpu,
            events,
            after_ns,
            line,
        };
        self.lost.push(gap);
        Item::Lost(gap)
    }

    /// Accounts an event whose name is not decoded.
    pub(crate) fn see_other(&mut self, name: &[u8], line: u64) {
        // Looked up first: the name is only copied when it is new.
        let name = String::from_utf8_lossy(name);
        match self.other.get_mut(name.as_ref()) {
            Some(other) => other.count += 1,
            None => {
                self.other.insert(
                    name.into_owned(),
                    OtherEvent {
                        count: 1,
                        first_line: line,
                    },
                );
            }
        }
    }
}

/// Where something is first seen, as part of a sentence; binary formats have no lines.
fn first_at(line: u64) -> String {
    match line {
        0 => String::new(),
        line => format!(", the first at line {line}"),
    }
}

/// A reader of one trace.
pub trait EventSource {
    /// The next item in file order, `None` at the end.
    ///
    /// # Errors
    /// Where the input cannot be read or does not follow its format. After an error the source
    /// gives only `None`.
    fn next_item(&mut self) -> Result<Option<Item>, ReadError>;

    /// The names seen so far.
    fn comms(&self) -> &CommTable;

    /// Counts so far.
    fn counts(&self) -> &Counts;

    /// Ends the reading and gives what was collected.
    fn finish(self: Box<Self>) -> (CommTable, Counts);
}
