//! Groups of a history: made, changed and removed on both sides.

use super::{Action, Pair};
use crate::world::{Call, WorldError};
use schedcast_kernel::bandwidth::limits::Hierarchy;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::uclamp::Clamps;
use schedcast_kernel::{Cpu, GroupId};

/// How far the removal of a group has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    InUse,
    Released,
    Freed,
}

/// A group on both sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    numbers: (GroupId, i32),
    /// Place of its parent among the groups.
    pub(super) parent: usize,
    /// CPUs of its cpuset.
    pub(super) cpus: u64,
    stage: Stage,
}

impl Group {
    pub(super) fn new(numbers: (GroupId, i32), parent: usize) -> Self {
        let stage = Stage::InUse;
        Self {
            numbers,
            parent,
            cpus: u64::MAX,
            stage,
        }
    }
}

impl Pair {
    /// A group that was not removed.
    pub(super) fn group(&self, number: usize) -> Option<(GroupId, i32)> {
        let found = self.groups.get(number)?;
        (found.stage == Stage::InUse).then_some(found.numbers)
    }

    /// Number of a group that was not removed.
    pub(super) fn number_of(&self, rust: GroupId) -> Option<usize> {
        let mut numbers = 0..self.groups.len();
        numbers.find(|&number| self.group(number).is_some_and(|of| of.0 == rust))
    }

    /// Groups whose memory the tree still has, by number.
    pub(super) fn groups_left(&self) -> impl Iterator<Item = (usize, (GroupId, i32))> {
        let groups = self.groups.iter().enumerate();
        let left = groups.filter(|(_, group)| group.stage != Stage::Freed);
        left.map(|(number, group)| (number, group.numbers))
    }

    /// Whether a group below the root has no tasks and no groups below it: each of those keeps it
    /// until it is freed.
    fn is_unused(&self, number: usize) -> bool {
        let (group, _) = self.groups[number].numbers;
        let mut tasks = (0..self.tasks.len()).filter_map(|task| self.living(task));
        let has_child = self
            .groups_left()
            .any(|(child, _)| child > 0 && self.groups[child].parent == number);
        number > 0
            && !has_child
            && tasks.all(|(task, _)| self.rust.tasks[task.index()].group != group)
    }

    /// An action on a group, as [`Pair::step`] does them; `None` when it does not apply.
    pub(super) fn act_on_group(
        &mut self,
        cpu: usize,
        action: Action,
    ) -> Option<Result<i64, WorldError>> {
        let here = Cpu::from(cpu);
        Some(match action {
            Action::Group(parent) => {
                let (rust, tree) = self.group(parent)?;
                let rust = self.rust.group_create(&mut self.bench, rust);
                let tree = self.tree(cpu, Call::GroupNew, &[tree.into()]);
                let new = |tree| Group::new((rust, tree as i32), parent);
                tree.inspect(|&tree| self.groups.push(new(tree)))
            }
            Action::Release(group) => {
                let (rust, tree) = self.group(group).filter(|_| self.is_unused(group))?;
                self.groups[group].stage = Stage::Released;
                self.rust.group_release(&mut self.bench, here, rust);
                self.tree(cpu, Call::GroupRelease, &[tree.into()])
            }
            Action::Free(group) => {
                let released = |group: &&mut Group| group.stage == Stage::Released;
                let group = self.groups.get_mut(group).filter(released)?;
                group.stage = Stage::Freed;
                let (rust, tree) = group.numbers;
                self.rust.group_free(&mut self.bench, here, rust);
                self.tree(cpu, Call::GroupFree, &[tree.into()])
            }
            Action::Cpuset(group, bits) => {
                self.group(group).filter(|_| group > 0)?;
                self.write_cpuset(cpu, group, bits)
            }
            Action::GroupClamps(group, _)
            | Action::Shares(group, _)
            | Action::Idle(group, _)
            | Action::Limit(group, ..) => {
                let pair = self.group(group).filter(|_| group > 0)?;
                return self.change_group(cpu, pair, action);
            }
            _ => return None,
        })
    }

    /// Changes a group below the root.
    fn change_group(
        &mut self,
        cpu: usize,
        (rust, tree): (GroupId, i32),
        action: Action,
    ) -> Option<Result<i64, WorldError>> {
        let here = Cpu::from(cpu);
        let bench = &mut self.bench;
        let version = self.rust.rules.version;
        Some(match action {
            Action::GroupClamps(_, asked) => {
                self.rust.group_set_clamps(bench, here, rust, asked);
                let Clamps { min, max } = asked.map(i64::from);
                self.tree(cpu, Call::GroupClamps, &[tree.into(), min, max])
            }
            // The kernel refuses weights for idle groups.
            Action::Shares(..) if self.rust.groups[rust.index()].idle => return None,
            Action::Shares(_, shares) => {
                self.rust.group_set_shares(bench, here, rust, shares);
                self.tree(cpu, Call::GroupWeight, &[tree.into(), shares as i64])
            }
            Action::Idle(_, idle) if version.since(5, 15) => {
                self.rust.group_set_idle(bench, here, rust, idle);
                self.tree(cpu, Call::GroupIdle, &[tree.into(), idle.into()])
            }
            Action::Limit(_, period_ns, quota_ns, burst_ns) => {
                let limit = BandwidthLimit {
                    quota_ns,
                    period_ns,
                    burst_ns: match quota_ns {
                        Some(_) if self.rust.rules.burst => burst_ns,
                        _ => 0,
                    },
                };
                let set = self
                    .rust
                    .group_set_bandwidth(bench, here, rust, limit, Hierarchy::V2);
                // From 6.17 on the callers of the C refuse.
                if set.is_err() && version.since(6, 17) {
                    return None;
                }
                let quota = quota_ns.map_or(-1, |quota| quota as i64);
                let (group, burst) = (tree.into(), limit.burst_ns as i64);
                let arguments = [group, period_ns as i64, quota, burst];
                let result = self.tree(cpu, Call::GroupLimit, &arguments);
                self.both_refuse(set.is_err(), result)
            }
            _ => return None,
        })
    }
}
