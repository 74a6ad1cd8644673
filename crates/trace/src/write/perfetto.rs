//! Perfetto's messages: bundles of one CPU each, plain and not compact, because only those keep
//! every field.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::ItemSink;
use crate::event::{Context, Event, EventKind, Level, Task};
use crate::names::{CommId, CommTable};
use crate::perfetto::field;
use crate::perfetto::read::number_of;
use crate::perfetto::wire::{put_bytes, put_int, put_message, put_uint};
use crate::source::Item;
use crate::tracepoint::Tracepoint;

/// A bundle is written when it has grown to this size.
const BUNDLE_BYTES: usize = 64 * 1024;

/// Writes a trace, bundle by bundle.
pub(crate) struct PerfettoSink<W> {
    out: W,
    /// Events of each CPU that are not written yet.
    bundles: BTreeMap<u32, Vec<u8>>,
    packet: Vec<u8>,
    left_out: u64,
}

impl<W: Write> PerfettoSink<W> {
    /// Writes into `out`.
    pub(crate) fn new(out: W) -> PerfettoSink<W> {
        PerfettoSink {
            out,
            bundles: BTreeMap::new(),
            packet: Vec::new(),
            left_out: 0,
        }
    }

    fn flush_cpu(&mut self, cpu: u32) -> io::Result<()> {
        let Some(events) = self.bundles.get_mut(&cpu) else {
            return Ok(());
        };
        if events.is_empty() {
            return Ok(());
        }
        self.packet.clear();
        put_message(&mut self.packet, field::trace::PACKET, |packet| {
            put_message(packet, field::packet::FTRACE_EVENTS, |bundle| {
                put_uint(bundle, field::bundle::CPU, u64::from(cpu));
                bundle.extend_from_slice(events);
            });
        });
        events.clear();
        self.out.write_all(&self.packet)
    }
}

impl<W: Write> ItemSink for PerfettoSink<W> {
    fn item(&mut self, item: &Item, comms: &CommTable) -> io::Result<()> {
        match item {
            Item::Event(event) => {
                let Some(number) = number(event) else {
                    self.left_out += 1;
                    return Ok(());
                };
                let bundle = self.bundles.entry(event.cpu).or_default();
                put_event(bundle, number, event, comms);
                if bundle.len() >= BUNDLE_BYTES {
                    self.flush_cpu(event.cpu)?;
                }
                Ok(())
            }
            Item::Lost(gap) => {
                // The mark says that events before this bundle are missing; their number has no
                // place in it.
                self.flush_cpu(gap.cpu)?;
                let bundle = self.bundles.entry(gap.cpu).or_default();
                put_uint(bundle, field::bundle::LOST_EVENTS, 1);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        let cpus: Vec<u32> = self.bundles.keys().copied().collect();
        for cpu in cpus {
            self.flush_cpu(cpu)?;
        }
        self.out.flush()
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// The field of an event that has one.
fn number(event: &Event) -> Option<u32> {
    let name = event.kind.name()?;
    number_of(Tracepoint::from_name(name.as_bytes())?)
}

fn put_event(bundle: &mut Vec<u8>, number: u32, event: &Event, comms: &CommTable) {
    put_message(bundle, field::bundle::EVENT, |message| {
        put_uint(message, field::ftrace::TIMESTAMP, event.time_ns);
        // The schema has no sign here; a task of number -1 comes back as it was.
        put_uint(message, field::ftrace::PID, u64::from(event.task as u32));
        if event.context.is_known() {
            put_uint(message, field::ftrace::COMMON_FLAGS, flags(event.context));
        }
        put_message(message, number, |fields| {
            put_fields(fields, &event.kind, comms);
        });
    });
}

fn put_fields(out: &mut Vec<u8>, kind: &EventKind, comms: &CommTable) {
    let name = |out: &mut Vec<u8>, number: u32, comm: CommId| {
        put_bytes(out, number, comms.get(comm).unwrap_or_default());
    };
    let int = |out: &mut Vec<u8>, number: u32, value: i32| put_int(out, number, i64::from(value));
    let task = |out: &mut Vec<u8>, [comm, pid, prio]: [u32; 3], task: Task| {
        name(out, comm, task.comm);
        int(out, pid, task.pid);
        int(out, prio, task.prio);
    };
    match *kind {
        EventKind::Switch(switch) => {
            task(out, [1, 2, 3], switch.prev);
            put_uint(out, 4, switch.prev_state.bits());
            task(out, [5, 6, 7], switch.next);
        }
        EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
            task(out, [1, 2, 3], woken.task);
            put_uint(out, 5, u64::from(woken.target_cpu));
        }
        EventKind::Migrate(moves) => {
            task(out, [1, 2, 3], moves.task);
            put_uint(out, 4, u64::from(moves.orig_cpu));
            put_uint(out, 5, u64::from(moves.dest_cpu));
        }
        EventKind::Fork(fork) => {
            name(out, 1, fork.parent_comm);
            int(out, 2, fork.parent_pid);
            name(out, 3, fork.child_comm);
            int(out, 4, fork.child_pid);
        }
        EventKind::Exec(exec) => {
            name(out, 1, exec.filename);
            int(out, 2, exec.pid);
            int(out, 3, exec.old_pid);
        }
        EventKind::Exit(exits) => task(out, [1, 2, 4], exits),
        // The schema has no message for them.
        EventKind::Runtime(_) | EventKind::Socket { .. } | EventKind::Other => {}
    }
}

/// The bits of `common_flags` that say this.
fn flags(context: Context) -> u64 {
    let level = match context.level() {
        Some(Level::Nmi) => 0x40,
        Some(Level::HardIrq) => 0x08,
        _ => 0,
    };
    let bits = [
        (context.irqs_off(), 0x01),
        (context.need_resched_lazy(), 0x02),
        (context.need_resched(), 0x04),
        (context.in_softirq(), 0x10),
        (context.bh_off(), 0x80),
    ];
    let set = bits.iter().filter(|(is_set, _)| *is_set);
    set.fold(level, |flags, (_, bit)| flags | bit)
}
