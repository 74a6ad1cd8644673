//! The fields of an event in the kernel's own words (`TP_printk`).

use std::io::{self, Write};

use crate::event::{EventKind, Wakeup};
use crate::names::{CommId, CommTable};

/// Appends everything behind the event's name and colon; nothing for events that are not decoded.
pub(super) fn put(out: &mut Vec<u8>, kind: &EventKind, comms: &CommTable) -> io::Result<()> {
    match *kind {
        EventKind::Switch {
            prev_pid,
            prev_comm,
            prev_prio,
            prev_state,
            next_pid,
            next_comm,
            next_prio,
        } => {
            name(out, "prev_comm", prev_comm, comms);
            write!(
                out,
                " prev_pid={prev_pid} prev_prio={prev_prio} prev_state={prev_state} ==> "
            )?;
            name(out, "next_comm", next_comm, comms);
            write!(out, " next_pid={next_pid} next_prio={next_prio}")
        }
        EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
            wakeup(out, &woken, comms)
        }
        EventKind::Migrate {
            pid,
            comm,
            prio,
            orig_cpu,
            dest_cpu,
        } => {
            name(out, "comm", comm, comms);
            write!(
                out,
                " pid={pid} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}"
            )
        }
        EventKind::Fork {
            parent_pid,
            parent_comm,
            child_pid,
            child_comm,
        } => {
            name(out, "comm", parent_comm, comms);
            write!(out, " pid={parent_pid} ")?;
            name(out, "child_comm", child_comm, comms);
            write!(out, " child_pid={child_pid}")
        }
        EventKind::Exec {
            pid,
            old_pid,
            filename,
        } => {
            name(out, "filename", filename, comms);
            write!(out, " pid={pid} old_pid={old_pid}")
        }
        EventKind::Exit { pid, comm, prio } => {
            name(out, "comm", comm, comms);
            write!(out, " pid={pid} prio={prio}")
        }
        EventKind::Runtime {
            pid,
            comm,
            runtime_ns,
        } => {
            name(out, "comm", comm, comms);
            write!(out, " pid={pid} runtime={runtime_ns} [ns]")
        }
        EventKind::Socket { .. } | EventKind::Other => Ok(()),
    }
}

fn wakeup(out: &mut Vec<u8>, woken: &Wakeup, comms: &CommTable) -> io::Result<()> {
    name(out, "comm", woken.comm, comms);
    write!(
        out,
        " pid={} prio={} target_cpu={:03}",
        woken.pid, woken.prio, woken.target_cpu
    )
}

/// Names are bytes, whatever they are.
fn name(out: &mut Vec<u8>, key: &str, comm: CommId, comms: &CommTable) {
    out.extend_from_slice(key.as_bytes());
    out.push(b'=');
    out.extend_from_slice(comms.get(comm).unwrap_or(b"<...>"));
}
