//! Instructions about tasks themselves: fork, join, exit, attributes.

use super::engine::Run;
use super::error::RunError;
use super::interpret::{ENTERED, Next};
use super::tasks::Name;
use super::{Core, World};
use crate::program::Reg;
use crate::random;
use crate::workload::{AttributesId, ForkId};
use schedcast_kernel::dl::change::Refused;
use schedcast_kernel::platform::Op;
use schedcast_kernel::task::{Policy, TaskAttributes};
use schedcast_kernel::uclamp::Clamps;
use schedcast_kernel::{Context as WakeContext, Cpu, Platform, TaskId};

/// Address spaces of forked processes are numbered from here, by task row and generation.
const FORKED_ADDRESS_SPACES: u32 = 1 << 31;

impl<const EXPLAIN: bool, K: Core> World<EXPLAIN, K> {
    pub(super) fn fork(&mut self, cpu: Cpu, task: TaskId, fork: ForkId, child: Reg) -> Run<Next> {
        if self.kernel.tables().tasks[task].policy == Policy::Deadline {
            return Err(Box::new(RunError::DeadlineForks {
                task: self.task_name(task).to_owned(),
                at_ns: self.out.clock(cpu),
            }));
        }
        let shared = std::sync::Arc::clone(&self.out.shared);
        let spec = &shared.workload.forks[fork.0 as usize];
        let parent = &self.kernel.tables().tasks[task];
        let group = spec.group.unwrap_or(parent.group);
        // `cpuset_fork`: a child that starts elsewhere has the CPUs that the cpuset there leaves.
        let asked = spec.affinity.unwrap_or(parent.affinity);
        let affinity = match self.out.cpuset(group) {
            Some(cpus) if asked.and(&cpus).is_empty() => cpus,
            Some(cpus) => asked.and(&cpus),
            None => asked,
        };
        let attributes = TaskAttributes {
            policy: parent.policy,
            nice: parent.nice,
            rt_priority: parent.rt_priority,
            affinity,
            group,
            address_space: parent.address_space,
            custom_slice_ns: None,
            cpu,
        };
        self.out.spend(cpu, Op::Fork, 1);
        let name = Name::Fork(fork.0);
        let statistics = spec.statistics.as_deref().unwrap_or(&spec.name);
        let (parent, children) = &mut self.out.tasks.entities[task.index()];
        *children += 1;
        let entity = random::mix(*parent ^ shared.fork_hashes[fork.0 as usize] ^ *children);
        let new = self.create_task(attributes, spec.program.0, name, statistics, entity);
        self.kernel.inherit_wakees(task, new);
        let asked = self.kernel.tables().tasks[task].clamps_asked;
        self.ask_clamps(new, asked);
        if spec.process {
            // Unique among live tasks is enough: it only tells address spaces apart.
            self.kernel.tables_mut().tasks[new].address_space = Some(FORKED_ADDRESS_SPACES | new.0);
        }
        let tasks = &mut self.out.tasks;
        tasks.copy_registers(task, new);
        let (parent, handle) = (tasks.handle(task), tasks.handle(new));
        let slack_ns = tasks.contexts[task].slack_ns;
        let context = &mut tasks.contexts[new];
        context.parent = parent;
        context.slack_ns = slack_ns;
        tasks.contexts[task].children += 1;
        self.set(task, child, handle);
        self.kernel.wake_up_new_task(&mut self.out, cpu, new);
        Ok(ENTERED)
    }

    /// A task that has not started begins with what its parent asked for, or its specification.
    pub(super) fn ask_clamps(&mut self, task: TaskId, asked: Clamps<Option<u32>>) {
        if asked != Clamps::default() {
            self.kernel.ask_clamps(task, asked);
        }
    }

    pub(super) fn join(&mut self, cpu: Cpu, task: TaskId, child: Reg) -> Next {
        let handle = self.out.tasks.register(task, child.0);
        self.skip(task);
        let Some(child) = self.out.tasks.of_handle(handle) else {
            return Next::Instruction;
        };
        self.syscall(cpu);
        let queue = self.out.tasks.contexts[child].joiners;
        self.out.tasks.waiting.push(queue, task);
        self.kernel.block(&mut self.out, cpu);
        ENTERED
    }

    pub(super) fn join_all(&mut self, cpu: Cpu, task: TaskId) -> Next {
        self.skip(task);
        let context = &mut self.out.tasks.contexts[task];
        if context.children == 0 {
            return Next::Instruction;
        }
        context.joins_all = true;
        self.syscall(cpu);
        self.kernel.block(&mut self.out, cpu);
        ENTERED
    }

    pub(super) fn exit(&mut self, cpu: Cpu, task: TaskId) -> Next {
        let of_user_space = self.kernel.tables().tasks[task].address_space.is_some();
        let name = self.out.tasks.contexts[task].name;
        let awaited = of_user_space && !self.out.is_of_machine(name);
        let tasks = &mut self.out.tasks;
        tasks.live -= usize::from(awaited);
        let was_last = awaited && tasks.live + self.out.to_start == 0;
        let context = &mut tasks.contexts[task];
        context.generation = context.generation.wrapping_add(1);
        let (joiners, parent) = (context.joiners, context.parent);
        if was_last && self.out.ends_with_programs {
            self.out.end_ns = self.out.clock(cpu);
            self.out.limit = self.out.limit.min(self.out.end_ns);
        }
        while let Some(joiner) = self.out.tasks.waiting.pop(joiners) {
            self.wake(cpu, joiner, false, WakeContext::Task);
        }
        if let Some(parent) = self.out.tasks.of_handle(parent) {
            let context = &mut self.out.tasks.contexts[parent];
            context.children -= 1;
            if context.joins_all && context.children == 0 {
                context.joins_all = false;
                self.wake(cpu, parent, false, WakeContext::Task);
            }
        }
        self.kernel.exit(&mut self.out, cpu);
        ENTERED
    }

    pub(super) fn set_attributes(
        &mut self,
        cpu: Cpu,
        task: TaskId,
        attributes: AttributesId,
    ) -> Run<Next> {
        let shared = std::sync::Arc::clone(&self.out.shared);
        let change = &shared.workload.attributes[attributes.0 as usize];
        self.syscall(cpu);
        self.skip(task);
        if let Some(slack_ns) = change.timer_slack_ns {
            self.out.tasks.contexts[task].slack_ns = slack_ns;
        }
        let (kernel, out) = (&mut self.kernel, &mut self.out);
        let nice = change.nice.unwrap_or(kernel.tables().tasks[task].nice);
        if let Some(reservation) = change.deadline {
            let set = kernel.set_deadline(out, cpu, task, reservation);
            return match set {
                Ok(()) => Ok(ENTERED),
                Err(error) => Err(self.refused(cpu, task, error)),
            };
        }
        match change.policy {
            Some((policy, priority)) => kernel.set_policy(out, cpu, task, policy, nice, priority),
            None => kernel.set_nice(out, cpu, task, nice),
        }
        if let Some(slice_ns) = change.custom_slice_ns {
            kernel.set_custom_slice(out, cpu, task, Some(slice_ns));
        }
        if change.clamps != Clamps::default()
            && let Err(error) = kernel.set_clamps(out, cpu, task, change.clamps)
        {
            return Err(Box::new(RunError::ClampsRefused {
                task: self.task_name(task).to_owned(),
                at_ns: self.out.clock(cpu),
                error,
            }));
        }
        if let Some(group) = change.group {
            let at = out.clock(cpu);
            out.probes.change_group(at, task, group);
            kernel.set_group(out, cpu, task, group);
            // `cpuset_attach`: the CPUs of the new cpuset, and of these the task's own, if any.
            if let Some(cpus) = out.cpuset(group) {
                let both = kernel.tables().tasks[task].affinity.and(&cpus);
                let affinity = if both.is_empty() { cpus } else { both };
                kernel.set_affinity(out, cpu, task, affinity);
            }
        }
        if let Some(asked) = change.affinity {
            let group = kernel.tables().tasks[task].group;
            let affinity = match out.cpuset(group) {
                Some(cpus) => asked.and(&cpus),
                None => asked,
            };
            if affinity.is_empty() {
                return Err(Box::new(RunError::OutsideCpuset {
                    task: self.task_name(task).to_owned(),
                    at_ns: self.out.clock(cpu),
                    group: self.out.group_path(group).to_owned(),
                }));
            }
            if let Err(error) = kernel.tables().check_affinity(task, &affinity) {
                return Err(self.refused(cpu, task, error));
            }
            kernel.set_affinity(out, cpu, task, affinity);
        }
        Ok(ENTERED)
    }

    #[cold]
    fn refused(&self, cpu: Cpu, task: TaskId, error: Refused) -> Box<RunError> {
        Box::new(RunError::Refused {
            task: self.task_name(task).to_owned(),
            at_ns: self.out.clock(cpu),
            error,
        })
    }
}
