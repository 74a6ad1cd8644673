//! The same in simulation.

use schedcast_kernel::Cpu;
use schedcast_kernel::cpuset::CpuSet;
use schedcast_sim::workload::{QueueId, QueueSpec, TaskSpec};
use schedcast_sim::{Machine, ProgramBuilder, Reg, Workload, World};
use schedcast_workload::programs::messaging::channel::Channel;
use schedcast_workload::programs::{Prices, Start, compile, split};

use crate::measured_kernel;
use crate::{Case, Outcome};

const SEEDS: u64 = 7;
const TRIPS: u64 = 4000;
/// Not at the very moment at which the machine starts its ticks.
const START_NS: u64 = 10_777_777;
const LIMIT_NS: u64 = 30_000_000_000;

/// One value for each seed.
pub(crate) fn run(case: Case, machine: &str) -> Outcome<Vec<f64>> {
    let machine = Machine::parse("calibrated", machine)?;
    (0..SEEDS)
        .map(|seed| match case {
            Case::PingPong(a, b) => ping_pong([a, b], machine.clone(), seed),
            Case::Hackbench(arguments) => hackbench(arguments, machine.clone(), seed),
        })
        .collect()
}

fn ping_pong(cpus: [u32; 2], machine: Machine, seed: u64) -> Outcome<f64> {
    let prices = Prices::with(&machine.program_cost)?;
    let mut workload = Workload::default();
    let [forth, back] = [(); 2].map(|()| {
        workload.add_queue(QueueSpec {
            costs: Channel::Pipe.costs(&prices),
            ..QueueSpec::UNBOUNDED
        })
    });
    let descriptor_ns = prices.descriptor(true);
    let mut add = |name: &str, cpu, first: bool| -> Outcome<()> {
        let mut b = ProgramBuilder::new(name);
        b.set(Reg(0), TRIPS);
        let top = b.here();
        let write = |b: &mut ProgramBuilder, pipe: QueueId| {
            b.kernel_work(prices.pipe_write(1) + descriptor_ns);
            b.send(pipe, 1, Reg(1), true);
        };
        let read = |b: &mut ProgramBuilder, pipe: QueueId| {
            b.recv(pipe, Reg(1));
            b.kernel_work(prices.pipe_read(1) + descriptor_ns);
        };
        if first {
            write(&mut b, forth);
            read(&mut b, back);
        } else {
            read(&mut b, forth);
            write(&mut b, back);
        }
        b.loop_back(Reg(0), top);
        let program = workload.add_program(b.finish()?);
        workload.add_task(TaskSpec {
            affinity: Some(CpuSet::of(Cpu(cpu))),
            start_ns: START_NS + seed * 777_777,
            address_space: Some(0),
            ..TaskSpec::new(name, program)
        });
        Ok(())
    };
    add("there", cpus[1], false)?;
    add("here", cpus[0], true)?;
    let (_, elapsed_ns) = finished(machine, workload, seed)?;
    Ok(elapsed_ns as f64 / TRIPS as f64)
}

fn hackbench(arguments: &str, machine: Machine, seed: u64) -> Outcome<f64> {
    let mut start = Start::new("hackbench", machine.topology.cpus());
    start.start_ns = START_NS + seed * 777_777;
    start.prices = Prices::with(&machine.program_cost)?;
    let mut workload = Workload::default();
    let words = split(&format!("hackbench {arguments}"));
    let running = compile(&words, &start, &mut workload)?;
    let (world, _) = finished(machine, workload, seed)?;
    let metrics = running.metrics(world.probes(), world.now());
    let time = metrics.get("hackbench/time").copied();
    Ok(time.ok_or("hackbench without its time")?)
}

/// The world when all tasks have ended, and how long after their start that was, to 10 µs.
fn finished(machine: Machine, workload: Workload, seed: u64) -> Outcome<(World, u64)> {
    const STEP_NS: u64 = 10_000;
    const BEGUN_NS: u64 = 1_000_000;
    let started_ns = START_NS + seed * 777_777;
    let rules = measured_kernel::rules(machine.topology.cpus());
    let mut world = World::new(machine, rules, workload, seed)?;
    // A CPU that idles takes a while to start the first task.
    world.run_until(started_ns + BEGUN_NS)?;
    while world.live_tasks() > 0 && world.now() < LIMIT_NS {
        let until = world.now() + STEP_NS;
        world.run_until(until)?;
    }
    let elapsed_ns = world.now() - started_ns;
    Ok((world, elapsed_ns))
}
