//! The events of the kernel that are recorded and decoded: their names, their fields, and how a
//! record becomes an [`EventKind`], whatever format it was read from.
//!
//! Worked example. A record of `sched_waking` has the fields `comm`, `pid`, `prio` and
//! `target_cpu`, from 0 to 3. A reader answers for field 1 with 8679, however it packs numbers, and
//! [`Tracepoint::read`] makes that the thread id of [`EventKind::Waking`].

use crate::event::{EventKind, Exec, Fork, Migrate, Pid, PrevState, Runtime, Switch, Task, Wakeup};
use crate::names::CommId;

schedcast_base::named! {
    /// The events that are recorded and decoded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tracepoint {
        /// `sched_switch`
        Switch = "sched_switch",
        /// `sched_waking`
        Waking = "sched_waking",
        /// `sched_wakeup`
        Wakeup = "sched_wakeup",
        /// `sched_wakeup_new`
        WakeupNew = "sched_wakeup_new",
        /// `sched_migrate_task`
        Migrate = "sched_migrate_task",
        /// `sched_process_fork`
        Fork = "sched_process_fork",
        /// `sched_process_exec`
        Exec = "sched_process_exec",
        /// `sched_process_exit`
        Exit = "sched_process_exit",
        /// `sched_stat_runtime`
        Runtime = "sched_stat_runtime",
    }
}

impl Tracepoint {
    pub(crate) fn from_name(name: &[u8]) -> Option<Tracepoint> {
        let mut all = Tracepoint::ALL.into_iter();
        all.find(|known| known.name().as_bytes() == name)
    }

    /// The fields that a record of the event must have, each with its number in Perfetto's schema.
    pub(crate) fn fields(self) -> &'static [(&'static str, usize)] {
        match self {
            Tracepoint::Switch => &[
                ("prev_comm", 1),
                ("prev_pid", 2),
                ("prev_prio", 3),
                ("prev_state", 4),
                ("next_comm", 5),
                ("next_pid", 6),
                ("next_prio", 7),
            ],
            Tracepoint::Waking | Tracepoint::Wakeup | Tracepoint::WakeupNew => {
                &[("comm", 1), ("pid", 2), ("prio", 3), ("target_cpu", 5)]
            }
            Tracepoint::Migrate => &[
                ("comm", 1),
                ("pid", 2),
                ("prio", 3),
                ("orig_cpu", 4),
                ("dest_cpu", 5),
            ],
            Tracepoint::Fork => &[
                ("parent_comm", 1),
                ("parent_pid", 2),
                ("child_comm", 3),
                ("child_pid", 4),
            ],
            Tracepoint::Exec => &[("filename", 1), ("pid", 2), ("old_pid", 3)],
            Tracepoint::Exit => &[("comm", 1), ("pid", 2), ("prio", 4)],
            Tracepoint::Runtime => &[("comm", 1), ("pid", 2), ("runtime", 3)],
        }
    }

    /// The event of a record.
    pub(crate) fn read<R: Record>(self, record: &mut R) -> Result<EventKind, R::Error> {
        let task = |record: &mut R, first: usize| {
            Ok(Task {
                comm: record.comm(first)?,
                pid: record.pid(first + 1)?,
                prio: record.number(first + 2)? as i32,
            })
        };
        Ok(match self {
            Tracepoint::Switch => EventKind::Switch(Switch {
                prev: task(record, 0)?,
                prev_state: record.state(3)?,
                next: task(record, 4)?,
            }),
            Tracepoint::Waking | Tracepoint::Wakeup | Tracepoint::WakeupNew => {
                self.woken(task(record, 0)?, record.cpu(3)?)
            }
            Tracepoint::Migrate => EventKind::Migrate(Migrate {
                task: task(record, 0)?,
                orig_cpu: record.cpu(3)?,
                dest_cpu: record.cpu(4)?,
            }),
            Tracepoint::Fork => EventKind::Fork(Fork {
                parent_comm: record.comm(0)?,
                parent_pid: record.pid(1)?,
                child_comm: record.comm(2)?,
                child_pid: record.pid(3)?,
            }),
            Tracepoint::Exec => EventKind::Exec(Exec {
                filename: record.comm(0)?,
                pid: record.pid(1)?,
                old_pid: record.pid(2)?,
            }),
            Tracepoint::Exit => EventKind::Exit(task(record, 0)?),
            Tracepoint::Runtime => EventKind::Runtime(Runtime {
                comm: record.comm(0)?,
                pid: record.pid(1)?,
                runtime_ns: u32::try_from(record.number(2)?).unwrap_or(u32::MAX),
            }),
        })
    }

    /// A wakeup of this kind.
    pub(crate) fn woken<N>(self, task: Task<N>, target_cpu: u32) -> EventKind<N> {
        let wakeup = Wakeup { task, target_cpu };
        match self {
            Tracepoint::Waking => EventKind::Waking(wakeup),
            Tracepoint::WakeupNew => EventKind::WakeupNew(wakeup),
            _ => EventKind::Wakeup(wakeup),
        }
    }
}

/// A record of an event, field by field in the order of [`Tracepoint::fields`], from 0.
pub(crate) trait Record {
    type Error;
    fn comm(&mut self, field: usize) -> Result<CommId, Self::Error>;
    fn number(&self, field: usize) -> Result<i64, Self::Error>;
    fn pid(&self, field: usize) -> Result<Pid, Self::Error>;
    fn cpu(&self, field: usize) -> Result<u32, Self::Error>;
    fn state(&self, field: usize) -> Result<PrevState, Self::Error>;
}
