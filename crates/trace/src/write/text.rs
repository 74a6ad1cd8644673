//! The two texts, which differ in the header of a line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{ItemSink, fields};
use crate::event::{Context, Event, EventKind, Level, Pid, Switch, Wakeup};
use crate::names::{CommId, CommTable};
use crate::source::{Item, LostEvents};

/// Whose text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// tracefs
    Ftrace,
    /// `perf script --ns`
    PerfScript,
}

/// Writes text, a line an item.
pub(crate) struct TextSink<W> {
    spelling: Spelling,
    out: W,
    line: Vec<u8>,
    /// Present names of tasks, by what events said of them.
    names: BTreeMap<Pid, CommId>,
    cpus: Option<u32>,
    begun: bool,
    last_ns: u64,
    left_out: u64,
}

/// perf pads the event to the longest name of those that are recorded, `sched:sched_process_fork`.
const EVENT_COLUMNS: usize = 24;

impl<W: Write> TextSink<W> {
    /// Writes into `out`.
    pub(crate) fn new(spelling: Spelling, out: W, cpus: Option<u32>) -> TextSink<W> {
        TextSink {
            spelling,
            out,
            line: Vec::new(),
            names: BTreeMap::new(),
            cpus,
            begun: false,
            last_ns: 0,
            left_out: 0,
        }
    }

    /// Writes the lines above the events; perf script has none.
    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        if self.spelling == Spelling::PerfScript {
            return Ok(());
        }
        writeln!(self.out, "# tracer: nop\n#")?;
        if let Some(cpus) = self.cpus {
            writeln!(self.out, "cpus={cpus}")?;
        }
        for line in [
            "                                _-----=> irqs-off/BH-disabled",
            "                               / _----=> need-resched",
            "                              | / _---=> hardirq/softirq",
            "                              || / _--=> preempt-depth",
            "                              ||| / _-=> migrate-disable",
            "                              |||| /     delay",
            "           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
            "              | |         |   |||||     |         |",
        ] {
            writeln!(self.out, "#{line}")?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, comms: &CommTable) -> io::Result<()> {
        let Some(name) = event.kind.name() else {
            self.left_out += 1;
            return Ok(());
        };
        self.learn_before(&event.kind);
        self.line.clear();
        let (seconds, rest_ns) = split(event.time_ns);
        let (pid, cpu) = (event.task, event.cpu);
        let comm = self.name_of(pid, comms).to_vec();
        let padding = 16usize.saturating_sub(comm.len());
        self.line.resize(padding, b' ');
        self.line.extend_from_slice(&comm);
        match self.spelling {
            Spelling::Ftrace => {
                write!(self.line, "-{pid:<7} [{cpu:03}] ")?;
                flags(&mut self.line, event.context);
                write!(self.line, " {seconds:>5}.{rest_ns:09}: {name}: ")?;
            }
            Spelling::PerfScript => {
                let event_name = format!("sched:{name}");
                write!(
                    self.line,
                    " {pid:>5} [{cpu:03}] {seconds:>5}.{rest_ns:09}: {event_name:>EVENT_COLUMNS$}: "
                )?;
            }
        }
        fields::put(&mut self.line, &event.kind, comms)?;
        self.line.push(b'\n');
        self.last_ns = event.time_ns;
        self.learn_after(&event.kind);
        self.out.write_all(&self.line)
    }

    fn name_of<'a>(&self, pid: Pid, comms: &'a CommTable) -> &'a [u8] {
        if pid == 0 {
            return b"<idle>";
        }
        let name = self.names.get(&pid).and_then(|comm| comms.get(*comm));
        name.unwrap_or(b"<...>")
    }

    /// An event names its own writer as it was before.
    fn learn_before(&mut self, kind: &EventKind) {
        let (pid, comm) = match *kind {
            EventKind::Switch(Switch { prev: task, .. }) | EventKind::Exit(task) => {
                (task.pid, task.comm)
            }
            EventKind::Fork(fork) => (fork.parent_pid, fork.parent_comm),
            _ => return,
        };
        self.names.insert(pid, comm);
    }

    fn learn_after(&mut self, kind: &EventKind) {
        let (pid, comm) = match *kind {
            EventKind::Switch(Switch { next: task, .. })
            | EventKind::Waking(Wakeup { task, .. })
            | EventKind::Wakeup(Wakeup { task, .. })
            | EventKind::WakeupNew(Wakeup { task, .. }) => (task.pid, task.comm),
            EventKind::Fork(fork) => (fork.child_pid, fork.child_comm),
            _ => return,
        };
        self.names.insert(pid, comm);
    }

    fn lost(&mut self, gap: &LostEvents) -> io::Result<()> {
        let cpu = gap.cpu;
        match (self.spelling, gap.events) {
            (Spelling::Ftrace, Some(events)) => {
                writeln!(self.out, "CPU:{cpu} [LOST {events} EVENTS]")
            }
            (Spelling::Ftrace, None) => writeln!(self.out, "CPU:{cpu} [LOST EVENTS]"),
            (Spelling::PerfScript, events) => {
                let (seconds, rest_ns) = split(gap.after_ns.unwrap_or(self.last_ns));
                // perf always knows a number; a gap of unknown size is at least one event.
                let events = events.unwrap_or(1);
                writeln!(
                    self.out,
                    "{:>16} {:>5} [{cpu:03}] {seconds:>5}.{rest_ns:09}: PERF_RECORD_LOST lost {events}",
                    "swapper", 0
                )
            }
        }
    }
}

impl<W: Write> ItemSink for TextSink<W> {
    fn item(&mut self, item: &Item, comms: &CommTable) -> io::Result<()> {
        self.begin()?;
        match item {
            Item::Event(event) => self.event(event, comms),
            Item::Lost(gap) => self.lost(gap),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}

fn split(time_ns: u64) -> (u64, u64) {
    (time_ns / 1_000_000_000, time_ns % 1_000_000_000)
}

/// Five columns; depths are not known and stay dots. Nothing for an unknown context.
fn flags(line: &mut Vec<u8>, context: Context) {
    if !context.is_known() {
        return;
    }
    let irqs = match (context.irqs_off(), context.bh_off()) {
        (true, true) => b'D',
        (true, false) => b'd',
        (false, true) => b'b',
        (false, false) => b'.',
    };
    let resched = match (context.need_resched(), context.need_resched_lazy()) {
        (true, true) => b'B',
        (true, false) => b'N',
        (false, true) => b'L',
        (false, false) => b'.',
    };
    let level = match (context.level(), context.in_softirq()) {
        (Some(Level::Nmi), _) => b'z',
        (Some(Level::HardIrq), true) => b'H',
        (Some(Level::HardIrq), false) => b'h',
        (Some(Level::SoftIrq), _) => b's',
        _ => b'.',
    };
    line.extend_from_slice(&[irqs, resched, level, b'.', b'.']);
}
