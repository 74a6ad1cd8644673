//! Cpusets of a history: a write changes the masks of all tasks below, one after another.
//!
//! The scheduler knows masks of tasks only, so that both sides are told those. Worked example:
//! group 1 has tasks 3 and 5, and gets CPUs 0 and 1. Task 5 had asked for CPUs 1 to 3: from 6.2 on
//! it may run on CPU 1, before on CPUs 0 and 1 (8f9ea86fdf99). If task 3 runs on CPU 2, the writer
//! waits until the migration thread there has moved it, and goes on with task 5.

use super::Pair;
use crate::world::{Call, WorldError};
use schedcast_kernel::Cpu;

/// Result of a call whose caller would wait for another CPU (`SC_WAITS`).
const WAITS: i64 = -1_000_001;

impl Pair {
    /// CPUs that the cpusets of a group and of those above it leave (`effective_cpus`): those of
    /// the group above if none would be left.
    pub(super) fn effective_cpus(&self, group: usize) -> u64 {
        let (_, all) = self.mask(u64::MAX);
        // A shorter history may name a group that it does not make.
        let Some(of_group) = self.groups.get(group).filter(|_| group > 0) else {
            return all;
        };
        let above = self.effective_cpus(of_group.parent);
        match above & of_group.cpus {
            0 => above,
            left => left,
        }
    }

    /// The same for a task, which keeps to what it asked for from 6.2 on (`user_cpus_ptr`).
    fn left_to(&self, task: usize, group: usize) -> u64 {
        let cpus = self.effective_cpus(group);
        match self.wishes[task] & cpus {
            0 => cpus,
            both if self.rust.rules.version.since(6, 2) => both,
            _ => cpus,
        }
    }

    /// A task gets the mask that a group leaves it. The caller stays in the kernel.
    fn constrain(&mut self, cpu: usize, task: usize, group: usize) -> Result<(), WorldError> {
        let Some((rust, tree)) = self.living(task) else {
            return Ok(());
        };
        let (set, bits) = self.mask(self.left_to(task, group));
        let here = Cpu::from(cpu);
        self.rust.set_affinity(&mut self.bench, here, rust, set);
        let arguments = [tree.into(), bits as i64];
        if self.enter_tree(cpu, (Call::Affinity, true), &arguments)? == WAITS {
            self.tree(cpu, Call::Nothing, &[])?;
            self.settle(cpu)?;
        }
        Ok(())
    }

    /// `cpuset.cpus` of a group is written (`update_cpumasks_hier`).
    pub(super) fn write_cpuset(
        &mut self,
        cpu: usize,
        group: usize,
        bits: u64,
    ) -> Result<i64, WorldError> {
        self.groups[group].cpus = bits;
        let mut changed = vec![group];
        for below in group + 1..self.groups.len() {
            if changed.contains(&self.groups[below].parent) {
                changed.push(below);
            }
        }
        for group in changed {
            let Some((of_group, _)) = self.group(group) else {
                continue;
            };
            for task in 0..self.tasks.len() {
                if self.rust.tasks[self.tasks[task].0.index()].group == of_group {
                    self.constrain(cpu, task, group)?;
                }
            }
        }
        self.tree(cpu, Call::Nothing, &[])
    }

    /// A task comes from one cpuset to another before it changes its group (`cpuset_attach`).
    pub(super) fn attach_to_cpuset(
        &mut self,
        cpu: usize,
        task: usize,
        group: usize,
    ) -> Result<(), WorldError> {
        let was = self.rust.tasks[self.tasks[task].0.index()].group;
        match self.number_of(was) {
            Some(from) if self.effective_cpus(from) != self.effective_cpus(group) => {
                self.constrain(cpu, task, group)
            }
            _ => Ok(()),
        }
    }
}
