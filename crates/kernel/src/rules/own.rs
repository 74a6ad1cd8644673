//! Rules of your own, as named patches. This is the one file to edit.
//!
//! A patch of your own is a function that changes a decision, and a row in [`OWN`] that names it.
//! The name then works like that of any other patch: `patches = ["waker-sibling"]` in an
//! experiment, `schedcast list patches`, and variants with and without it side by side.
//!
//! Worked example, `waker-sibling` below: CPU 2 (threads 2 and 6 are one core) wakes a task that
//! last ran on busy CPU 5. Stock 6.12 may look through the whole cache; with the patch idle CPU 6
//! is taken at once, because the data just written is in the core's own cache.
//!
//! Where no hook of [`Hooks`] exists, put the change where the rule is, under
//! `if own!(self.rules, "my-patch")`, and leave [`Hooks::NONE`] in its row.

pub(crate) use super::hooks::{Hooks, OwnPatch};
pub use super::hooks::{Own, Placement, Row};
use crate::ids::Cpu;
use crate::kernel::Kernel;

/// Every patch of your own.
pub static OWN: &[OwnPatch] = &[
    OwnPatch {
        name: "waker-sibling",
        description: "A woken task goes to an idle thread of its waker's core, if there is one.",
        hooks: Hooks {
            select_idle_sibling: Some(waker_sibling),
            ..Hooks::NONE
        },
    },
    #[cfg(test)]
    super::hooks::tests::EVERYWHERE,
];

/// Before anything else in `select_idle_sibling`: an idle thread of the waker's core.
fn waker_sibling(kernel: &Kernel, at: &Placement) -> Option<Cpu> {
    let affinity = &kernel.tasks[at.task].affinity;
    let threads = kernel.domains.cpus[at.waker_cpu].smt.and(affinity);
    threads
        .iter()
        .find(|&cpu| cpu != at.waker_cpu && kernel.available_idle_cpu(cpu))
}
