//! The fields of an event in the kernel's own words (`TP_printk`).

use std::io::{self, Write};

use crate::event::{EventKind, Task};
use crate::names::{CommId, CommTable};

/// Appends everything behind the event's name and colon; nothing for events that are not decoded.
pub(super) fn put(out: &mut Vec<u8>, kind: &EventKind, comms: &CommTable) -> io::Result<()> {
    let task = |out: &mut Vec<u8>, of: &str, task: Task| {
        name(out, of, "comm", task.comm, comms);
        write!(out, " {of}pid={} {of}prio={}", task.pid, task.prio)
    };
    match *kind {
        EventKind::Switch {
            prev,
            prev_state,
            next,
        } => {
            task(out, "prev_", prev)?;
            write!(out, " prev_state={prev_state} ==> ")?;
            task(out, "next_", next)
        }
        EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
            task(out, "", woken.task)?;
            write!(out, " target_cpu={:03}", woken.target_cpu)
        }
        EventKind::Migrate {
            task: moved,
            orig_cpu,
            dest_cpu,
        } => {
            task(out, "", moved)?;
            write!(out, " orig_cpu={orig_cpu} dest_cpu={dest_cpu}")
        }
        EventKind::Fork {
            parent_pid,
            parent_comm,
            child_pid,
            child_comm,
        } => {
            name(out, "", "comm", parent_comm, comms);
            write!(out, " pid={parent_pid} ")?;
            name(out, "child_", "comm", child_comm, comms);
            write!(out, " child_pid={child_pid}")
        }
        EventKind::Exec {
            pid,
            old_pid,
            filename,
        } => {
            name(out, "", "filename", filename, comms);
            write!(out, " pid={pid} old_pid={old_pid}")
        }
        EventKind::Exit(exits) => task(out, "", exits),
        EventKind::Runtime {
            pid,
            comm,
            runtime_ns,
        } => {
            name(out, "", "comm", comm, comms);
            write!(out, " pid={pid} runtime={runtime_ns} [ns]")
        }
        EventKind::Socket { .. } | EventKind::Other => Ok(()),
    }
}

/// Names are bytes, whatever they are.
fn name(out: &mut Vec<u8>, of: &str, key: &str, comm: CommId, comms: &CommTable) {
    out.extend_from_slice(of.as_bytes());
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(comms.get(comm).unwrap_or(b"<...>"));
}
