//! Scheduling entities: what a fair queue orders, a task or a whole group on one CPU.

use crate::ids::{CfsRqId, EntityId, GroupId, Ns, TaskId};
use crate::pelt::SchedAvg;
use crate::weight::{LoadWeight, VirtualWeight};

/// Task or group that an entity stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// One task.
    Task(TaskId),
    /// A group's queue on one CPU (`my_q`).
    Group(GroupId, CfsRqId),
}

/// `struct sched_entity`. Looked up more often than anything else, and by a shift where a row has a
/// round size.
#[derive(Clone, Debug)]
#[repr(align(256))]
pub struct Entity {
    /// Virtual runtime; wraps, compare by signed difference.
    pub vruntime: u64,
    /// Virtual deadline (EEVDF), or relative deadline while `rel_deadline`.
    pub deadline: u64,
    /// V − vruntime when last off the queue (EEVDF).
    pub vlag: i64,
    /// Virtual time up to which it is protected, or the deadline at its pick (`vlag` overlay in
    /// older kernels).
    pub(crate) vprot: u64,
    /// Request size, ns.
    pub slice: Ns,
    /// Weight on its queue.
    pub load: LoadWeight,
    /// Weight in virtual time: that on its queue, or from 7.3 its part of the CPU over all levels
    /// (`h_load`).
    pub(crate) h_load: VirtualWeight,
    /// `clock_task` up to which its runtime is accounted.
    pub(crate) exec_start: Ns,
    /// Total runtime, ns.
    pub sum_exec_runtime: Ns,
    /// `sum_exec_runtime` when last picked.
    pub prev_sum_exec_runtime: Ns,
    /// Load tracking.
    pub avg: SchedAvg,
    /// Number of runnable tasks below at the last `se_update_runnable`; a task stands for itself.
    pub(crate) runnable_weight: u64,
    /// Queue it is (to be) queued on.
    pub cfs_rq: CfsRqId,
    /// Group entity one level up, unless that is the root queue.
    pub(crate) parent: Option<EntityId>,
    /// Task or group.
    pub(crate) owner: Owner,
    /// Queued (running included).
    pub on_rq: bool,
    /// Blocked but still queued until eligible (6.12).
    pub sched_delayed: bool,
    /// `deadline` is relative.
    pub(crate) rel_deadline: bool,
    /// `slice` was set by the user or by a child.
    pub custom_slice: bool,
    /// `util_avg` moved since the estimate was taken last (not `UTIL_AVG_UNCHANGED`).
    pub(crate) util_avg_changed: bool,
}

impl Entity {
    /// An entity off any queue.
    pub(crate) fn new(
        owner: Owner,
        cfs_rq: CfsRqId,
        parent: Option<EntityId>,
        load: LoadWeight,
        slice: Ns,
    ) -> Self {
        let avg = SchedAvg {
            // New tasks start with full load so that balancing sees them; groups start at nothing.
            load_avg: if matches!(owner, Owner::Task(_)) {
                load.unscaled()
            } else {
                0
            },
            ..SchedAvg::default()
        };
        Self {
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            vprot: 0,
            slice,
            load,
            h_load: VirtualWeight::new(&load, false, false),
            exec_start: 0,
            sum_exec_runtime: 0,
            prev_sum_exec_runtime: 0,
            avg,
            runnable_weight: u64::from(matches!(owner, Owner::Task(_))),
            cfs_rq,
            parent,
            owner,
            on_rq: false,
            sched_delayed: false,
            rel_deadline: false,
            custom_slice: false,
            util_avg_changed: true,
        }
    }

    /// Placeholder in row 0 of the table.
    pub(crate) fn nobody() -> Self {
        Self::new(
            Owner::Task(TaskId(0)),
            CfsRqId(0),
            None,
            LoadWeight::default(),
            0,
        )
    }

    /// Queue of the group this entity stands for.
    #[inline(always)]
    pub(crate) fn my_q(&self) -> Option<CfsRqId> {
        match self.owner {
            Owner::Group(_, queue) => Some(queue),
            Owner::Task(_) => None,
        }
    }

    /// Task this entity stands for.
    #[inline(always)]
    pub fn task(&self) -> Option<TaskId> {
        match self.owner {
            Owner::Task(task) => Some(task),
            Owner::Group(..) => None,
        }
    }
}
