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
//! Where no hook exists, put the change where the rule is, under
//! `if self.rules.own.has("my-patch")`, and leave [`Hooks::NONE`] in its row.

use crate::ids::{Cpu, TaskId};
use crate::kernel::Kernel;

/// Every patch of your own.
pub static OWN: &[OwnPatch] = &[OwnPatch {
    name: "waker-sibling",
    description: "A woken task goes to an idle thread of its waker's core, if there is one.",
    hooks: Hooks {
        select_idle_sibling: Some(waker_sibling),
        ..Hooks::NONE
    },
}];

/// Before anything else in `select_idle_sibling`: an idle thread of the waker's core.
fn waker_sibling(kernel: &Kernel, at: &Placement) -> Option<Cpu> {
    let affinity = &kernel.tasks[at.task.index()].affinity;
    let threads = kernel.domains.cpus[at.waker_cpu.index()].smt.and(affinity);
    threads
        .iter()
        .find(|&cpu| cpu != at.waker_cpu && kernel.available_idle_cpu(cpu))
}

/// Facts that a rule about placement gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The task that wakes.
    pub task: TaskId,
    /// CPU of its waker.
    pub waker_cpu: Cpu,
    /// CPU it ran on last.
    pub prev: Cpu,
    /// The one of these two that `wake_affine` chose.
    pub target: Cpu,
}

/// Facts that a rule about wakeup preemption gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preemption {
    /// CPU on which both are.
    pub cpu: Cpu,
    /// The task that woke.
    pub wakee: TaskId,
    /// The task that runs.
    pub curr: TaskId,
}

/// Places where a rule of your own is asked before the kernel's; `None` from it leaves the decision
/// to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// `select_idle_sibling`: the CPU for a woken task.
    pub select_idle_sibling: Option<fn(&Kernel, &Placement) -> Option<Cpu>>,
    /// `check_preempt_wakeup_fair`: whether the wakee takes the CPU.
    pub wakeup_preempt: Option<fn(&Kernel, &Preemption) -> Option<bool>>,
}

impl Hooks {
    /// No hook at all.
    pub const NONE: Hooks = Hooks {
        select_idle_sibling: None,
        wakeup_preempt: None,
    };
}

/// A patch of your own.
#[derive(Debug)]
pub struct OwnPatch {
    /// Name in experiment files.
    pub name: &'static str,
    /// Effect of the patch, in a line.
    pub description: &'static str,
    /// Where it is asked.
    pub hooks: Hooks,
}

/// Which of [`OWN`] a kernel has: bit i is row i.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Own(u32);

impl Own {
    /// Whether the kernel has the patch of this name.
    pub fn has(self, name: &str) -> bool {
        Self::row(name).is_some_and(|row| self.0 >> row & 1 == 1)
    }

    /// Adds a patch or takes it away; `None` when there is no such patch, otherwise whether that
    /// changed anything.
    pub(super) fn set(&mut self, name: &str, on: bool) -> Option<bool> {
        let row = Self::row(name)?;
        let before = self.0;
        self.0 = self.0 & !(1 << row) | u32::from(on) << row;
        Some(self.0 != before)
    }

    fn row(name: &str) -> Option<usize> {
        OWN.iter().position(|patch| patch.name == name)
    }

    fn hooks(self) -> impl Iterator<Item = &'static Hooks> {
        let rows = OWN.iter().enumerate();
        rows.filter(move |(row, _)| self.0 >> row & 1 == 1)
            .map(|(_, patch)| &patch.hooks)
    }

    /// Placement by the first patch whose rule decides it; `None` if no patch does.
    #[inline]
    pub(crate) fn place(self, kernel: &Kernel, asked: impl FnOnce() -> Placement) -> Option<Cpu> {
        if self.0 == 0 {
            return None;
        }
        let at = &asked();
        self.hooks()
            .filter_map(|hooks| hooks.select_idle_sibling)
            .find_map(|rule| rule(kernel, at))
    }

    /// Wakeup preemption by the first patch whose rule decides it; `None` if no patch does.
    #[inline]
    pub(crate) fn preempts(
        self,
        kernel: &Kernel,
        asked: impl FnOnce() -> Preemption,
    ) -> Option<bool> {
        if self.0 == 0 {
            return None;
        }
        let at = &asked();
        self.hooks()
            .filter_map(|hooks| hooks.wakeup_preempt)
            .find_map(|rule| rule(kernel, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{KernelChoice, Rules, Version, changes};

    fn resolve(patches: &[&str]) -> Result<Rules, String> {
        let choice = KernelChoice {
            patches,
            ..KernelChoice::released(Version::new(6, 12), 8)
        };
        Rules::resolve(&choice).map_err(|error| error.to_string())
    }

    #[test]
    fn names_are_new_and_fit_the_bits() {
        assert!(OWN.len() <= 32);
        for (row, patch) in OWN.iter().enumerate() {
            assert_eq!(
                Own::row(patch.name),
                Some(row),
                "{} is there twice",
                patch.name
            );
            assert!(changes::all().all(|stock| stock.name != patch.name));
        }
    }

    #[test]
    fn they_are_added_by_name() {
        assert!(
            resolve(&["waker-sibling"])
                .unwrap()
                .own
                .has("waker-sibling")
        );
        assert!(!resolve(&[]).unwrap().own.has("waker-sibling"));
        assert_eq!(
            resolve(&["-waker-sibling"]).unwrap_err(),
            "kernel 6.12 has no `waker-sibling` to take away"
        );
        assert_eq!(
            resolve(&["waker-siblings"]).unwrap_err(),
            "unknown patch `waker-siblings` (the nearest valid name is `waker-sibling`)"
        );
    }
}
