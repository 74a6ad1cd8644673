//! Events: what a thread does, one key each.
//!
//! The kind of an event is given by how its key begins, so that one object can hold several of a
//! kind: `run`, `run0` and `running` are all `run`. The kinds are tried in the order of
//! [`KINDS`], which is why `runtime` stands before `run` and `memrun` before `mem`: `runtime2` is a
//! `runtime`, `runt` a `run`, `memory` a `mem`. A key that begins like no kind is no event.

use super::ast::{Action, Condition, Event, MemoryAccess, MemoryRun, Note, TimerMode, TimerUse};
use super::error::{Fault, Span, quoted};
use super::fields::{Fields, INTEGER_MAX, mismatch, object, whole_number};
use super::json::{Kind, Member};

/// The kinds of event in the order in which rt-app tries them.
pub const KINDS: [&str; 20] = [
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer",
    "suspend", "resume", "memrun", "mem", "iorun", "yield", "barrier", "fork", "sem_post",
    "sem_wait",
];

/// Name rt-app gives to a timer, condition or mutex that is not named.
const UNNAMED: &str = "unknown";

const TIMER_MODES: [(&str, TimerMode); 2] = [
    ("relative", TimerMode::Relative),
    ("absolute", TimerMode::Absolute),
];

/// The kind of event a key stands for, if any.
///
/// ```
/// use schedcast_workload::rtapp::event_kind;
///
/// assert_eq!(event_kind("runtime2"), Some("runtime"));
/// assert_eq!(event_kind("barrier-x"), Some("barrier"));
/// assert_eq!(event_kind("slep"), None);
/// ```
pub fn event_kind(key: &str) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| key.starts_with(kind))
}

/// Reads one event of a phase. `owner` names the phase in messages; `task` is the name of its task
/// as written, which an empty `suspend` waits for.
pub(super) fn read(
    member: &Member,
    kind: &str,
    owner: &str,
    task: &str,
    notes: &mut Vec<Note>,
) -> Result<Event, Fault> {
    let mut source = Source {
        member,
        what: describe(member, kind, owner),
        notes,
    };
    let action = match kind {
        "lock" => Action::Lock(source.name()?),
        "unlock" => Action::Unlock(source.name()?),
        "wait" => Action::Wait(source.condition()?),
        "signal" => Action::Signal(source.name()?),
        "broad" => Action::Broadcast(source.name()?),
        "sync" => Action::Sync(source.condition()?),
        "sleep" => Action::Sleep(source.number("microseconds")?),
        "runtime" => Action::Runtime(source.number("microseconds")?),
        "run" => Action::Run(source.number("microseconds")?),
        "timer" => Action::Timer(source.timer()?),
        "suspend" => Action::Suspend(source.suspend(task)?),
        "resume" => Action::Resume(source.name()?),
        "memrun" => Action::MemoryRun(source.memory_run()?),
        "mem" => Action::Memory(source.number("bytes")?),
        "iorun" => Action::InputOutputRun(source.number("bytes")?),
        "barrier" => Action::Barrier(source.name()?),
        "fork" => Action::Fork(source.name()?),
        "sem_post" => Action::SemaphorePost(source.name()?),
        "sem_wait" => Action::SemaphoreWait(source.name()?),
        // Its value is ignored, whatever it is.
        _ => Action::Yield,
    };
    Ok(Event {
        key: member.key.clone(),
        span: member.span,
        action,
    })
}

/// Names an event in a message. Says of which kind it is where the key alone would surprise.
fn describe(member: &Member, kind: &str, owner: &str) -> String {
    let key = quoted(&member.key);
    if member.key == kind {
        format!("event {key} of {owner}")
    } else {
        format!("event {key} of {owner} (a `{kind}`, as its key begins so)")
    }
}

struct Source<'a> {
    member: &'a Member,
    what: String,
    notes: &'a mut Vec<Note>,
}

impl Source<'_> {
    fn number(&self, unit: &str) -> Result<u32, Fault> {
        let number = whole_number(&self.what, &self.member.value, unit, 0..=INTEGER_MAX)?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    fn name(&self) -> Result<String, Fault> {
        match &self.member.value.kind {
            Kind::String(name) => Ok(name.clone()),
            _ => Err(mismatch(&self.what, &self.member.value, "a name")),
        }
    }

    /// The name a thread suspends on; the script `workgen` fills in the task's where none is given.
    fn suspend(&self, task: &str) -> Result<String, Fault> {
        match &self.member.value.kind {
            Kind::Absent | Kind::Null => Ok(task.to_owned()),
            Kind::String(name) if name.is_empty() => Ok(task.to_owned()),
            Kind::String(name) => Ok(name.clone()),
            _ => Err(mismatch(
                &self.what,
                &self.member.value,
                "a name or nothing",
            )),
        }
    }

    fn fields(&self, valid: &[&str]) -> Result<Fields<'_>, Fault> {
        Fields::new(&self.what, object(&self.what, &self.member.value)?, valid)
    }

    fn condition(&mut self) -> Result<Condition, Fault> {
        let fields = self.fields(&["ref", "mutex"])?;
        let condition = fields.string("ref")?.map(|text| text.value.to_owned());
        let mutex = fields.string("mutex")?.map(|text| text.value.to_owned());
        Ok(Condition {
            condition: self.or_unnamed("ref", condition),
            mutex: self.or_unnamed("mutex", mutex),
        })
    }

    fn timer(&mut self) -> Result<TimerUse, Fault> {
        let fields = self.fields(&["ref", "period", "mode"])?;
        let timer = fields.string("ref")?.map(|text| text.value.to_owned());
        let period_us = fields.unsigned("period")?.map(|period| period.value);
        let mode = fields.choice("mode", &TIMER_MODES)?.map(|mode| mode.value);
        let timer = self.or_unnamed("ref", timer);
        if period_us.is_none() {
            self.note(format!("{} has no `period`; rt-app takes 0", self.what));
        }
        let unique = timer.starts_with("unique");
        Ok(TimerUse {
            timer,
            unique,
            period_us: period_us.unwrap_or(0),
            mode,
        })
    }

    fn memory_run(&self) -> Result<MemoryRun, Fault> {
        let fields = self.fields(&["type", "size", "count", "stride", "pattern", "ref"])?;
        let kinds = [("read", "read"), ("write", "write"), ("chase", "chase")];
        let kind = required(fields.choice("type", &kinds)?, "type", self)?;
        let size_bytes = required(fields.integer("size", 1..=INTEGER_MAX)?, "size", self)?;
        let size_bytes = u32::try_from(size_bytes).unwrap_or(u32::MAX);
        let count = required(fields.unsigned("count")?, "count", self)?;
        let access = match kind {
            "chase" => self.chase(&fields, size_bytes)?,
            _ => {
                for key in ["stride", "pattern"] {
                    if let Some(span) = fields.span(key) {
                        let message = format!("{}: `{key}` is for type \"chase\" only", self.what);
                        return Err(Fault::new(span, message));
                    }
                }
                if kind == "read" {
                    MemoryAccess::Read
                } else {
                    MemoryAccess::Write
                }
            }
        };
        let shared = fields.string("ref")?.map(|text| text.value.to_owned());
        Ok(MemoryRun {
            access,
            size_bytes,
            count,
            shared,
        })
    }

    fn chase(&self, fields: &Fields<'_>, size_bytes: u32) -> Result<MemoryAccess, Fault> {
        // A stride must have room for a pointer.
        let stride = fields
            .integer("stride", 8..=INTEGER_MAX)?
            .map_or(64, |stride| stride.value);
        let stride_bytes = u32::try_from(stride).unwrap_or(u32::MAX);
        let patterns = [("random", true), ("sequential", false)];
        let random = fields
            .choice("pattern", &patterns)?
            .is_none_or(|pattern| pattern.value);
        if size_bytes / stride_bytes < 2 {
            let message = format!(
                "{}: a chase needs a size of at least two strides, found {size_bytes} and \
                 {stride_bytes} bytes",
                self.what
            );
            return Err(Fault::new(self.value_span(), message));
        }
        Ok(MemoryAccess::Chase {
            stride_bytes,
            random,
        })
    }

    fn or_unnamed(&mut self, key: &str, name: Option<String>) -> String {
        name.unwrap_or_else(|| {
            self.note(format!(
                "{} has no `{key}`; rt-app takes \"{UNNAMED}\"",
                self.what
            ));
            UNNAMED.to_owned()
        })
    }

    fn note(&mut self, message: String) {
        self.notes.push(Note::new(self.value_span(), message));
    }

    fn value_span(&self) -> Span {
        self.member.value.span
    }
}

fn required<T>(
    located: Option<super::ast::Located<T>>,
    key: &str,
    source: &Source<'_>,
) -> Result<T, Fault> {
    let message = || format!("{}: `{key}` is missing", source.what);
    located
        .map(|located| located.value)
        .ok_or_else(|| Fault::new(source.value_span(), message()))
}
