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
        EventKind::Switch(switch) => {
            task(out, "prev_", switch.prev)?;
            write!(out, " prev_state={} ==> ", switch.prev_state)?;
            task(out, "next_", switch.next)
        }
        EventKind::Waking(woken) | EventKind::Wakeup(woken) | EventKind::WakeupNew(woken) => {
            task(out, "", woken.task)?;
            write!(out, " target_cpu={:03}", woken.target_cpu)
        }
        EventKind::Migrate(moves) => {
            let (from, to) = (moves.orig_cpu, moves.dest_cpu);
            task(out, "", moves.task)?;
            write!(out, " orig_cpu={from} dest_cpu={to}")
        }
        EventKind::Fork(fork) => {
            name(out, "", "comm", fork.parent_comm, comms);
            write!(out, " pid={} ", fork.parent_pid)?;
            name(out, "child_", "comm", fork.child_comm, comms);
            write!(out, " child_pid={}", fork.child_pid)
        }
        EventKind::Exec(exec) => {
            name(out, "", "filename", exec.filename, comms);
            write!(out, " pid={} old_pid={}", exec.pid, exec.old_pid)
        }
        EventKind::Exit(exits) => task(out, "", exits),
        EventKind::Runtime(charge) => {
            name(out, "", "comm", charge.comm, comms);
            write!(
                out,
                " pid={} runtime={} [ns]",
                charge.pid, charge.runtime_ns
            )
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
