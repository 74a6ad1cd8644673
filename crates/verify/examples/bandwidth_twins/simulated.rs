//! The same tasks in a simulated group.

use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::workload::{GroupSpec, TaskSpec};
use schedcast_sim::{Machine, ProgramBuilder, Workload, World};
use schedcast_workload::programs::{Start, compile};

use crate::cases::{Case, Task, rt_app_file};
use crate::measured_kernel;
use crate::{FROM_MS, Outcome, Repeat, WINDOW_MS};

const SEEDS: u64 = 5;
const MS: u64 = 1_000_000;

/// Simulates every repeat of a case under several seeds, with the work its activations took.
pub(crate) fn run(case: &Case, repeats: &[Repeat], machine: &str) -> Outcome<Vec<Repeat>> {
    let machine = match std::fs::read_to_string(machine) {
        Ok(text) => Machine::parse(machine, &text)?,
        Err(_) => Machine::preset(machine)?,
    };
    let mut simulated = Vec::new();
    for (number, repeat) in repeats.iter().enumerate() {
        let work_us = own_work_us(case, &work_us(repeat), &machine)?;
        for seed in 0..SEEDS {
            let seed = number as u64 * SEEDS + seed;
            simulated.push(once(case, &work_us, machine.clone(), seed)?);
        }
    }
    Ok(simulated)
}

/// CPU time of an activation of each task in a repeat; 0 for hogs.
pub(crate) fn work_us(repeat: &Repeat) -> Vec<u64> {
    let work = |(n, cpu_ms): (usize, &f64)| match repeat.activations.get(n) {
        Some(&count) if count > 0.0 => (cpu_ms * 1e3 / count).round() as u64,
        _ => 0,
    };
    repeat.cpu_ms.iter().enumerate().map(work).collect()
}

/// The same less what the simulated kernel charges a task besides its own work, ticks above all:
/// the CPU time that was measured has it in it. Seen in a run that no limit stops.
fn own_work_us(case: &Case, work_us: &[u64], machine: &Machine) -> Outcome<Vec<u64>> {
    let unlimited = Case {
        quota_us: case.period_us * machine.topology.cpus() as u64,
        ..*case
    };
    let charged = once(&unlimited, work_us, machine.clone(), 0)?;
    let tasks = case.tasks.iter().zip(work_us).zip(&charged.cpu_ms);
    Ok(tasks
        .map(|((task, &work_us), cpu_ms)| match *task {
            Task::Hog(_) => work_us,
            Task::Beat { period_us, .. } => {
                let charged_us = cpu_ms * period_us as f64 / WINDOW_MS as f64;
                (work_us as f64 * (work_us as f64 / charged_us).min(1.0)).round() as u64
            }
        })
        .collect())
}

fn once(case: &Case, work_us: &[u64], machine: Machine, seed: u64) -> Outcome<Repeat> {
    let cpus = machine.topology.cpus();
    // Anywhere between two ticks.
    let start_ns = 10 * MS + seed * 777_777;
    let (workload, names) = workload(case, work_us, cpus, start_ns)?;
    let rules = measured_kernel::rules(cpus);
    let mut world = World::new(machine, rules, workload, seed)?;
    world.run_until(start_ns + FROM_MS * MS)?;
    let first = counters(&world, &names);
    world.run_until(start_ns + (FROM_MS + WINDOW_MS) * MS)?;
    let mut gained = counters(&world, &names);
    gained.periods -= first.periods;
    gained.throttled -= first.throttled;
    gained.throttled_ms -= first.throttled_ms;
    gained.bursts -= first.bursts;
    gained.burst_ms -= first.burst_ms;
    for (value, first) in gained.cpu_ms.iter_mut().zip(first.cpu_ms) {
        *value -= first;
    }
    if case.alike() {
        gained.cpu_ms.sort_by(f64::total_cmp);
    }
    Ok(gained)
}

fn counters(world: &World, names: &[String]) -> Repeat {
    let stat = world.kernel().groups[1].bandwidth.stat;
    let cpu_ns = |name: &String| world.probes().of(name).map_or(0, |row| row.run_ns);
    Repeat {
        periods: stat.nr_periods as f64,
        throttled: stat.nr_throttled as f64,
        throttled_ms: stat.throttled_time_ns as f64 / 1e6,
        bursts: stat.nr_bursts as f64,
        burst_ms: stat.burst_time_ns as f64 / 1e6,
        cpu_ms: names.iter().map(|name| cpu_ns(name) as f64 / 1e6).collect(),
        activations: Vec::new(),
    }
}

/// The group with its tasks, and the names their statistics go to.
fn workload(
    case: &Case,
    work_us: &[u64],
    cpus: usize,
    start_ns: u64,
) -> Outcome<(Workload, Vec<String>)> {
    let mut workload = Workload::default();
    let group = workload.add_group(GroupSpec {
        shares: 262_144,
        limit: BandwidthLimit {
            quota_ns: Some(case.quota_us * 1000),
            period_ns: case.period_us * 1000,
            burst_ns: case.burst_us * 1000,
        },
        ..GroupSpec::new("/twins", GroupId::ROOT)
    });
    let mut statistics = Vec::new();
    for ((name, task), &work_us) in case.names().iter().zip(case.tasks).zip(work_us) {
        match *task {
            Task::Hog(cpus) => {
                add_hog(&mut workload, name, cpus, group, start_ns)?;
                statistics.push(name.clone());
            }
            Task::Beat { period_us, cpu, .. } => {
                let folder = tempfile::tempdir()?;
                let file = folder.path().join("beat.json");
                std::fs::write(
                    &file,
                    rt_app_file(name, [work_us, period_us], cpu, 1000, folder.path()),
                )?;
                let mut start = Start::new(name.as_str(), cpus);
                (start.group, start.start_ns) = (group, start_ns);
                let words = ["rt-app".to_owned(), file.display().to_string()];
                let running = compile(&words, &start, &mut workload)?;
                let own = running.statistics.first();
                statistics.push(own.ok_or("rt-app without a thread")?.clone());
            }
        }
    }
    Ok((workload, statistics))
}

fn add_hog(
    workload: &mut Workload,
    name: &str,
    cpus: &[u32],
    group: GroupId,
    start_ns: u64,
) -> Outcome<()> {
    let mut program = ProgramBuilder::new(name);
    let top = program.here();
    program.work(1000 * MS);
    program.jump(top);
    let program = workload.add_program(program.finish()?);
    workload.add_task(TaskSpec {
        group,
        start_ns,
        affinity: Some(cpus.iter().map(|cpu| Cpu(*cpu)).collect::<CpuSet>()),
        ..TaskSpec::new(name, program)
    });
    Ok(())
}
