//! Places where a rule of your own is asked before the kernel's, and patches that have such rules.
//!
//! The rules themselves are in [`super::own`]. Worked example: with a patch whose `newidle` answers
//! `Some(false)` no CPU pulls tasks when it runs out of them; with `None` the kernel decides, as
//! without the patch. Kernels without a patch of one's own pay one comparison for each place.

use super::own::OWN;
use crate::explain::GroupState;
use crate::ids::{CfsRqId, Cpu, EntityId, GroupId, Ns, TaskId};
use crate::kernel::Kernel;

/// Facts that a rule about placement gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The task that wakes.
    pub task: TaskId,
    /// CPU of its waker.
    pub waker_cpu: Cpu,
    /// CPU it ran on last.
    pub(crate) prev: Cpu,
    /// The one of these two that `wake_affine` chose.
    pub target: Cpu,
}

/// Facts that a rule about wakeup preemption gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preemption {
    /// CPU on which both are.
    pub(crate) cpu: Cpu,
    /// The task that woke.
    pub(crate) wakee: TaskId,
    /// The task that runs.
    pub(crate) curr: TaskId,
}

/// Facts that a rule about an entity of a queue gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Queued {
    /// The queue: of the CPU, or of a group on it.
    pub(crate) queue: CfsRqId,
    /// The entity.
    pub(crate) entity: EntityId,
}

/// Facts that a rule about the next entity of a queue gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Picking {
    /// The queue: of the CPU, or of a group on it.
    pub(crate) queue: CfsRqId,
    /// Whether the running entity's protection and buddies count.
    pub(crate) protect: bool,
}

/// Facts that a rule about the side of a wakeup gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waking {
    /// The task that wakes.
    pub(crate) task: TaskId,
    /// CPU of its waker.
    pub(crate) waker_cpu: Cpu,
    /// CPU it ran on last.
    pub(crate) prev: Cpu,
    /// Whether the waker is about to sleep.
    pub(crate) sync: bool,
}

/// Facts that a rule about the length of a scan gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scanning {
    /// The task that wakes.
    pub(crate) task: TaskId,
    /// CPU whose cache is looked through.
    pub(crate) target: Cpu,
    /// CPUs that the kernel would look at; `None` is all.
    pub(crate) limit: Option<u32>,
}

/// Facts that a rule about the busiest group of CPUs gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Busier {
    /// CPU that would pull.
    pub(crate) to: Cpu,
    /// The group that is compared now.
    pub(crate) group: GroupState,
    /// The busiest one so far.
    pub(crate) busiest: GroupState,
}

/// Facts that a rule about a migration gets; affinity and limits allow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    /// A task that waits on `from`.
    pub(crate) task: TaskId,
    /// CPU that it is on.
    pub(crate) from: Cpu,
    /// CPU that pulls.
    pub(crate) to: Cpu,
}

/// Facts that a rule about a group's weight gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupQueue {
    /// The group.
    pub(crate) group: GroupId,
    /// Its queue on one CPU.
    pub(crate) queue: CfsRqId,
}

macro_rules! hooks {
    ($($(#[$about:meta])* $name:ident: $facts:ty => $answer:ty,)*) => {
        /// Places where a rule of your own is asked before the kernel's; `None` from it leaves the
        /// decision to the kernel.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Hooks {
            $($(#[$about])* pub $name: Option<fn(&Kernel, &$facts) -> Option<$answer>>,)*
        }

        impl Hooks {
            /// No hook at all.
            pub(crate) const NONE: Hooks = Hooks { $($name: None,)* };
        }

        impl Own {
            $(
                $(#[$about])*
                /// The answer of the first patch that has one.
                #[inline(always)]
                pub(crate) fn $name(
                    self,
                    kernel: &Kernel,
                    facts: impl FnOnce() -> $facts,
                ) -> Option<$answer> {
                    if self.0 == 0 {
                        return None;
                    }
                    self.ask(|hooks| hooks.$name, kernel, &facts())
                }
            )*
        }
    };
}

hooks! {
    /// `select_idle_sibling`: the CPU for a woken task.
    select_idle_sibling: Placement => Cpu,
    /// `wake_affine`: whether the search begins at the waker's CPU rather than at the previous one.
    wake_affine: Waking => bool,
    /// `select_idle_cpu`, after it found that a scan is worth it: how many CPUs it looks at.
    scan_limit: Scanning => u32,
    /// `check_preempt_wakeup_fair`: whether the wakee takes the CPU.
    wakeup_preempt: Preemption => bool,
    /// `place_entity`: how far, in ns of virtual time, a new or woken entity is placed before V
    /// (CFS: before `min_vruntime`); negative is behind.
    place_entity: Queued => i64,
    /// `update_deadline` and `place_entity` (CFS: `sched_slice`): length of a request, ns, of an
    /// entity that has none of its own.
    slice: Queued => Ns,
    /// `pick_eevdf`, after buddies (CFS: `pick_next_entity`): an entity that is queued or runs in
    /// this queue.
    pick: Picking => EntityId,
    /// `calc_group_shares`: weight of a group's entity on one CPU; 1,048,576 is that of nice 0.
    group_weight: GroupQueue => u64,
    /// `update_sd_pick_busiest`: whether a group is busier than the busiest so far.
    busiest_group: Busier => bool,
    /// `can_migrate_task`: whether a task may move, its caches aside.
    can_migrate: Moving => bool,
    /// `sched_balance_newidle`: whether a CPU that runs out of tasks looks for some.
    newidle: Cpu => bool,
    /// `nohz_balancer_kick`: whether idle CPUs are to balance for this busy one.
    nohz_kick: Cpu => bool,
}

/// A patch of your own.
#[derive(Debug)]
pub struct OwnPatch {
    /// Name in experiment files.
    pub name: &'static str,
    /// Effect of the patch, in a line.
    pub description: &'static str,
    /// Where it is asked.
    pub(crate) hooks: Hooks,
}

/// Which patches of one's own a kernel has: bit i is row i.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Own(u32);

/// A row of [`OWN`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row(usize);

impl Row {
    /// The row of a patch of this name, found when the program is built.
    ///
    /// # Panics
    /// There is no such row; in a constant, as in [`own!`](crate::own), that ends the build.
    pub const fn named(name: &str) -> Row {
        let mut row = 0;
        while row < OWN.len() {
            if same(OWN[row].name, name) {
                return Row(row);
            }
            row += 1;
        }
        panic!("no row of OWN has this name")
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Whether rules have the patch of this name: `own!(self.rules, "my-patch")`. A name without a row
/// in [`OWN`] ends the build.
#[macro_export]
macro_rules! own {
    ($rules:expr, $name:literal) => {
        $rules
            .own
            .has(const { $crate::rules::own::Row::named($name) })
    };
}

impl Own {
    /// Whether the kernel has the patch of this row; see [`own!`](crate::own).
    pub fn has(self, Row(row): Row) -> bool {
        self.0 >> row & 1 == 1
    }

    /// Adds a patch or takes it away; `None` when there is no such patch, otherwise whether that
    /// changed anything.
    pub(super) fn set(&mut self, name: &str, on: bool) -> Option<bool> {
        let row = OWN.iter().position(|patch| patch.name == name)?;
        let before = self.0;
        self.0 = self.0 & !(1 << row) | u32::from(on) << row;
        Some(self.0 != before)
    }

    #[inline(never)]
    fn ask<Facts, Answer>(
        self,
        hook: impl Fn(&Hooks) -> Option<fn(&Kernel, &Facts) -> Option<Answer>>,
        kernel: &Kernel,
        facts: &Facts,
    ) -> Option<Answer> {
        let rows = OWN.iter().enumerate();
        rows.filter(|(row, _)| self.0 >> row & 1 == 1)
            .filter_map(|(_, patch)| hook(&patch.hooks))
            .find_map(|rule| rule(kernel, facts))
    }
}

#[cfg(test)]
pub(super) mod tests;
