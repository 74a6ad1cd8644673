//! The compact form of switches and wakeups, in which a bundle has columns instead of messages.
//!
//! Times are steps from the row before, names are indices into a table, and a switch says nothing
//! about the task that leaves: it is the one that came with the switch before on that CPU. So the
//! first switch of a CPU, and the first one after a gap, have a task of number -1 that leaves, and
//! a task that ran another program (`exec`) since it came leaves under the name it came with. A
//! wakeup is written by the task that is current at its time.
//!
//! Worked example. Times `1000, 500`, next tasks `7, 0`, states `0, 1`, and a wakeup at 1200: at
//! 1000 an unknown task makes way for 7, at 1200 task 7 wakes another, at 1500 task 7 leaves in
//! state `S` and the idle task comes.

use std::collections::BTreeMap;

use super::read::{damage, prev_state};
use super::wire::{Fields, packed};
use crate::binary::Damage;
use crate::event::{Context, Event, EventKind, Pid, Switch, Task, Wakeup};
use crate::event_format::context_of_flags;
use crate::names::{CommId, CommTable};

/// Columns by field number.
mod column {
    pub(super) const SWITCH_TIMESTAMP: usize = 1;
    pub(super) const SWITCH_PREV_STATE: usize = 2;
    /// Pid, name and priority of the task that comes.
    pub(super) const SWITCH_NEXT: [usize; 3] = [3, 6, 4];
    pub(super) const INTERN_TABLE: usize = 5;
    pub(super) const WAKING_TIMESTAMP: usize = 7;
    pub(super) const WAKING_TARGET_CPU: usize = 9;
    /// Pid, name and priority of the task that is woken.
    pub(super) const WAKING_TASK: [usize; 3] = [8, 11, 10];
    pub(super) const WAKING_FLAGS: usize = 12;
    pub(super) const COUNT: usize = 13;
}

const CPU_MAX: u64 = 65_535;
/// Name of a task that nothing names, as the kernel spells it.
const UNKNOWN_COMM: &[u8] = b"<...>";

/// Current task of each CPU, from bundle to bundle.
#[derive(Debug, Default)]
pub(super) struct Compact {
    current: BTreeMap<u32, Task>,
}

/// The columns of one bundle.
struct Columns {
    base: u64,
    numbers: [Vec<u64>; column::COUNT],
    names: Vec<CommId>,
}

impl Compact {
    /// After a gap the running task is unknown.
    pub(super) fn forget(&mut self, cpu: u32) {
        self.current.remove(&cpu);
    }

    /// Reads the columns of one bundle into events by time.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        base: u64,
        cpu: u32,
        comms: &mut CommTable,
    ) -> Result<Vec<Event>, Damage> {
        let columns = Columns::read(bytes, base, comms)?;
        let switches = columns.times(column::SWITCH_TIMESTAMP);
        let wakings = columns.times(column::WAKING_TIMESTAMP);
        let mut events = Vec::with_capacity(switches.len() + wakings.len());
        let mut next_waking = 0;
        let unknown = Task {
            pid: -1,
            comm: comms.intern(UNKNOWN_COMM),
            prio: 0,
        };
        for (row, time_ns) in switches.iter().enumerate() {
            while let Some(at) = wakings.get(next_waking).filter(|at| *at < time_ns) {
                let task = self.current.get(&cpu).map_or(-1, |task| task.pid);
                events.push(columns.waking(next_waking, (*at, cpu, task))?);
                next_waking += 1;
            }
            let prev = self.current.get(&cpu).copied().unwrap_or(unknown);
            let next = columns.task(column::SWITCH_NEXT, row)?;
            events.push(Event {
                time_ns: *time_ns,
                cpu,
                task: prev.pid,
                context: Context::UNKNOWN,
                kind: EventKind::Switch(Switch {
                    prev,
                    prev_state: prev_state(columns.value(column::SWITCH_PREV_STATE, row)?, base)?,
                    next,
                }),
            });
            self.current.insert(cpu, next);
        }
        for (row, at) in wakings.iter().enumerate().skip(next_waking) {
            let task = self.current.get(&cpu).map_or(-1, |task| task.pid);
            events.push(columns.waking(row, (*at, cpu, task))?);
        }
        Ok(events)
    }
}

impl Columns {
    fn read(bytes: &[u8], base: u64, comms: &mut CommTable) -> Result<Columns, Damage> {
        let mut columns = Columns {
            base,
            numbers: std::array::from_fn(|_| Vec::new()),
            names: Vec::new(),
        };
        for field in Fields::new(bytes) {
            let field = field.map_err(|error| damage(error, base))?;
            let Some(numbers) = columns.numbers.get_mut(field.number as usize) else {
                continue;
            };
            match field.value.bytes() {
                Some(text) if field.number as usize == column::INTERN_TABLE => {
                    columns.names.push(comms.intern(text));
                }
                Some(list) => {
                    let offset = base + field.offset as u64;
                    numbers.extend(packed(list).map_err(|error| damage(error, offset))?);
                }
                // A list may be written unpacked as well.
                None => numbers.extend(field.value.integer()),
            }
        }
        Ok(columns)
    }

    /// A column of times, added up from its steps.
    fn times(&self, column: usize) -> Vec<u64> {
        let mut time_ns = 0u64;
        let steps = self.numbers[column].iter();
        steps
            .map(|step| {
                time_ns = time_ns.wrapping_add(*step);
                time_ns
            })
            .collect()
    }

    fn value(&self, column: usize, row: usize) -> Result<u64, Damage> {
        self.numbers[column].get(row).copied().ok_or_else(|| {
            let (count, name) = (self.numbers[column].len(), column);
            let message = format!(
                "expected a value for row {row} in column {name} of the compact form, found {count}"
            );
            Damage::malformed(self.base, message)
        })
    }

    fn name(&self, column: usize, row: usize) -> Result<CommId, Damage> {
        let index = self.value(column, row)?;
        let name = usize::try_from(index)
            .ok()
            .and_then(|index| self.names.get(index));
        name.copied().ok_or_else(|| {
            let count = self.names.len();
            let message = format!("expected one of {count} names, found number {index}");
            Damage::malformed(self.base, message)
        })
    }

    /// The task of a row that these columns tell.
    fn task(&self, [pid, comm, prio]: [usize; 3], row: usize) -> Result<Task, Damage> {
        Ok(Task {
            pid: self.value(pid, row)? as Pid,
            comm: self.name(comm, row)?,
            prio: self.value(prio, row)? as i32,
        })
    }

    fn waking(&self, row: usize, (time_ns, cpu, task): (u64, u32, Pid)) -> Result<Event, Damage> {
        let target_cpu = self.value(column::WAKING_TARGET_CPU, row)?;
        if target_cpu > CPU_MAX {
            let message =
                format!("expected the number of a CPU up to {CPU_MAX}, found {target_cpu}");
            return Err(Damage::malformed(self.base, message));
        }
        // Older traces have no flags.
        let flags = self.numbers[column::WAKING_FLAGS].get(row);
        Ok(Event {
            time_ns,
            cpu,
            task,
            context: flags.map_or(Context::UNKNOWN, |flags| context_of_flags(*flags as u8)),
            kind: EventKind::Waking(Wakeup {
                task: self.task(column::WAKING_TASK, row)?,
                target_cpu: target_cpu as u32,
            }),
        })
    }
}
