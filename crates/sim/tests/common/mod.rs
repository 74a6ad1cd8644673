//! Small worlds whose operations cost nothing, so that times can be computed by hand.
#![allow(dead_code)] // each test file uses its part

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_kernel::topology::Topology;
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ProgramId, QueueId, TaskSpec,
};
use schedcast_sim::{Machine, ProgramBuilder, Workload, World};

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const US: u64 = 1_000;

pub(crate) fn rules(cpus: usize) -> Rules {
    Rules::of(Version::new(6, 18), cpus as u32, 250)
}

pub(crate) fn free_machine(cpus: usize) -> Machine {
    Machine::preset("generic-8")
        .unwrap()
        .free_of_charge()
        .with_topology(Topology::flat(cpus))
}

/// A world of this release that keeps a log of marks.
pub(crate) fn world(version: (u16, u16), machine: Machine, workload: Workload) -> World {
    let cpus = machine.topology.cpus();
    let rules = Rules::of(Version::new(version.0, version.1), cpus as u32, 250);
    let mut world = World::new(machine, rules, workload, 1).unwrap();
    world.probes_mut().log = Some(Vec::new());
    world
}

pub(crate) fn program(
    workload: &mut Workload,
    build: impl FnOnce(&mut ProgramBuilder),
) -> ProgramId {
    let mut b = ProgramBuilder::new(format!("p{}", workload.programs.len()));
    build(&mut b);
    workload.add_program(b.finish().unwrap())
}

/// A task without timer slack, on this CPU only.
pub(crate) fn pinned(name: &str, program: ProgramId, cpu: u32) -> TaskSpec {
    TaskSpec {
        affinity: Some(CpuSet::of(Cpu(cpu))),
        timer_slack_ns: Some(0),
        ..TaskSpec::new(name, program)
    }
}

/// A task pinned to a CPU that executes what `build` writes.
pub(crate) fn task(
    workload: &mut Workload,
    name: &str,
    cpu: u32,
    build: impl FnOnce(&mut ProgramBuilder),
) {
    let program = program(workload, build);
    workload.add_task(pinned(name, program, cpu));
}

/// On CPUs 0 and 1 a task each that works for 10 ms and then marks with its CPU's number.
pub(crate) fn works_on_both() -> Workload {
    let mut workload = Workload::default();
    for cpu in 0..2 {
        task(&mut workload, "t", cpu, |b| {
            b.work(10 * MS);
            b.mark(cpu as u16);
        });
    }
    workload
}

/// A world where nothing but work takes time, with its log on.
pub(crate) fn free_world(cpus: usize, workload: Workload) -> World {
    seeded(free_machine(cpus), workload, 1)
}

/// A world under these tests' rules that keeps a log of marks.
pub(crate) fn seeded(machine: Machine, workload: Workload, seed: u64) -> World {
    let rules = rules(machine.topology.cpus());
    let mut world = World::new(machine, rules, workload, seed).unwrap();
    world.probes_mut().log = Some(Vec::new());
    world
}

/// A world that ran until a time.
pub(crate) trait Ran {
    fn ran_until(self, until: u64) -> Self;
}

impl Ran for World {
    fn ran_until(mut self, until: u64) -> Self {
        self.run_until(until).unwrap();
        self
    }
}

/// Log rows as (time, task name, channel, values).
pub(crate) fn rows(world: &World) -> Vec<(u64, String, u16, Vec<u64>)> {
    let log = world.probes().log.as_deref().unwrap_or(&[]);
    log.iter()
        .map(|row| {
            let name = world.task_name(row.task).to_owned();
            (row.time, name, row.channel, row.values.clone())
        })
        .collect()
}

/// (time, channel) of each log row.
pub(crate) fn marks(world: &World) -> Vec<(u64, u16)> {
    let log = world.probes().log.as_deref().unwrap_or(&[]);
    log.iter().map(|row| (row.time, row.channel)).collect()
}

/// (time in `unit_ns`, of which it is a multiple, and channel) of each log row.
pub(crate) fn marks_in(unit_ns: u64, world: &World) -> Vec<(u64, u16)> {
    let marks = marks(world).into_iter();
    marks
        .inspect(|(time, _)| assert_eq!(time % unit_ns, 0))
        .map(|(time, channel)| (time / unit_ns, channel))
        .collect()
}

/// Values of each log row of a channel.
pub(crate) fn values(world: &World, channel: u16) -> Vec<Vec<u64>> {
    let log = world.probes().log.as_deref().unwrap_or(&[]);
    log.iter()
        .filter(|row| row.channel == channel)
        .map(|row| row.values.clone())
        .collect()
}

/// Leaves a mark: a log row without values.
pub(crate) trait Mark {
    fn mark(&mut self, channel: u16);
}

impl Mark for ProgramBuilder {
    fn mark(&mut self, channel: u16) {
        self.log(channel, schedcast_sim::Reg(0), 0);
    }
}

/// A network card puts a value into a queue, on CPU 0.
pub(crate) fn comes(at_ns: u64, queue: QueueId, value: u64) -> Arrival {
    Arrival {
        at_ns,
        cpu: Cpu(0),
        context: ArrivalContext::SoftIrq,
        sync: false,
        action: ArrivalAction::Send {
            queue,
            bytes: 1,
            value,
        },
    }
}
