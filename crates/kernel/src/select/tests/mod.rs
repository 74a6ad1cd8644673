//! Placement, worked out by hand.

mod affine;
mod capacity;
mod idlest;
mod pack;
mod scan;
mod sibling;
mod wakee;

use super::WakeKind;
use crate::tests::world::*;

/// A task that sleeps since it ran on `cpu`, allowed everywhere.
pub(crate) fn sleeper(world: &mut World, cpu: u32) -> TaskId {
    let task = world.spawn(Cpu(cpu));
    let found = world.current(Cpu(cpu));
    assert_eq!(found, task, "sleepers come before busy tasks");
    world.block(Cpu(cpu));
    allow(world, task, CpuSet::first(world.kernel.cpus()));
    task
}

/// Sets an affinity without moving a task.
pub(crate) fn allow(world: &mut World, task: TaskId, affinity: CpuSet) {
    let record = &mut world.kernel.tasks[task];
    record.affinity = affinity;
    record.nr_cpus_allowed = affinity.len() as u32;
}

/// One hog on each of these CPUs.
pub(crate) fn busy(world: &mut World, cpus: impl IntoIterator<Item = u32>) {
    for cpu in cpus {
        world.spawn(Cpu(cpu));
    }
}

/// A SCHED_IDLE hog.
fn busy_with_idle_policy(world: &mut World, cpu: u32) {
    world.spawn_in(GroupId::ROOT, Cpu(cpu), Policy::Idle, 0);
}

/// A kernel thread that may run on its CPU only, and runs.
fn busy_with_kernel_thread(world: &mut World, cpu: u32) -> TaskId {
    world.start(TaskAttributes {
        address_space: None,
        ..TaskAttributes::on(Cpu(cpu))
    })
}

/// Where a wakeup of `task` by `waker_cpu` goes, and how many CPUs a scan looked at.
pub(crate) fn wakeup(
    world: &mut World,
    waker_cpu: u32,
    task: TaskId,
    flags: WakeFlags,
) -> (u32, u32) {
    world.bench.spent.clear();
    world.kernel.here = Cpu(waker_cpu);
    let cpu = world.kernel.select_task_rq_fair(
        &mut world.bench,
        Cpu(waker_cpu),
        task,
        WakeKind::Wakeup,
        flags,
    );
    let looks = world.bench.spent.iter();
    let looks = looks.filter(|(_, op, _)| *op == Op::SelectScanCpu);
    (cpu.0, looks.map(|(.., count)| count).sum())
}

/// Not in sync, from a task.
const PLAIN: WakeFlags = WakeFlags::new(false, Context::Task);
/// From a task that will sleep.
pub(crate) const SYNC: WakeFlags = WakeFlags::new(true, Context::Task);
