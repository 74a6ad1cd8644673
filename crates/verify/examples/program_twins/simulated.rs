//! The same command in simulation.

use std::path::Path;

use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::group::BandwidthLimit;
use schedcast_kernel::{Cpu, GroupId};
use schedcast_sim::workload::GroupSpec;
use schedcast_sim::{Machine, Workload, World};
use schedcast_trace::Recording;
use schedcast_workload::programs::{Running, Start, compile, split};
use schedcast_workload::replay::{Costs, InferOptions, Replay, infer};

use crate::cases::{Case, Value};
use crate::measured_kernel;
use crate::{Measured, Outcome};

/// Number of seeds: results of hackbench depend on the seed as much as real ones on the run;
/// medians of five scatter by a tenth.
pub(crate) const SEEDS: u64 = 15;
const STEP_NS: u64 = 20_000_000;
const LIMIT_NS: u64 = 60_000_000_000;

/// Simulates a case under several seeds.
pub(crate) fn run(case: &Case, ground: &Ground) -> Outcome<Measured> {
    let mut simulated = Measured {
        case: case.name.to_owned(),
        date: String::new(),
        kernel: measured_kernel::VERSION.to_string(),
        values: Vec::new(),
        switches: Vec::new(),
        cpu_s: Vec::new(),
        wakeups: Vec::new(),
        steal: 0.0,
    };
    for seed in 0..SEEDS {
        let (running, world) = once(case, ground, seed)?;
        record(&mut simulated, case, &running, &world);
    }
    Ok(simulated)
}

/// Machine, kernel and background that everything is simulated on.
#[derive(Clone)]
pub(crate) struct Ground {
    pub machine: Machine,
    name: String,
    /// Background activity of the machine, and the name of its recording.
    background: Option<(Replay, String)>,
}

impl Ground {
    /// A machine file or a preset, and the folder of a recording if there is one.
    pub(crate) fn read(machine: &str, background: &[&str]) -> Outcome<Ground> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let description = match std::fs::read_to_string(machine) {
            Ok(text) => Machine::parse(machine, &text)?,
            Err(_) => Machine::preset(machine)?,
        };
        let background = match background.first() {
            Some(folder) => {
                let options = InferOptions {
                    costs: Costs::new(description.cost_ns, measured_kernel::HZ),
                    ..InferOptions::default()
                };
                let recording = Recording::open(Path::new(folder))?;
                Some((infer(&recording, &options)?, name(folder)))
            }
            None => None,
        };
        Ok(Ground {
            machine: description,
            name: name(machine),
            background,
        })
    }

    /// `machine` and background, as pages say it.
    pub(crate) fn title(&self) -> String {
        let background = self.background.as_ref();
        let background = background.map(|(_, name)| format!(", background `{name}`"));
        format!("`{}`{}", self.name, background.unwrap_or_default())
    }
}

/// A workload run until its tasks have ended or it is `until_ns`, its log kept.
pub(crate) fn world(
    ground: &Ground,
    mut workload: Workload,
    seed: u64,
    until_ns: u64,
) -> Outcome<World> {
    let machine = ground.machine.clone();
    let cpus = machine.topology.cpus();
    if let Some((replay, _)) = &ground.background {
        replay.add_background(&mut workload, cpus)?;
    }
    let rules = measured_kernel::rules(cpus);
    let mut world = World::new(machine, rules, workload, seed)?;
    world.probes_mut().log = Some(Vec::new());
    while world.now() < until_ns && (world.live_tasks() > 0 || world.now() < STEP_NS) {
        let until = until_ns.min(world.now() + STEP_NS);
        world.run_until(until)?;
    }
    Ok(world)
}

fn once(case: &Case, ground: &Ground, seed: u64) -> Outcome<(Running, World)> {
    let machine = &ground.machine;
    let cpus = machine.topology.cpus();
    let words = split(case.command);
    let name = schedcast_workload::programs::tool(&words)?.name;
    let mut workload = Workload::default();
    let mut group = GroupSpec::new("/program-twins", GroupId::ROOT);
    if let Some(limit) = case.limit {
        group.limit = limit_of(limit)?;
    }
    let mut start = Start::new(name, cpus);
    start.group = workload.add_group(group);
    let affinity: CpuSet = case.cpus.iter().map(|cpu| Cpu(*cpu as u32)).collect();
    start.affinity = Some(affinity);
    start.prices = start.prices.on_machine(&machine.program_cost)?;
    // Not at the very moment at which the machine starts its ticks, and between two of them.
    start.start_ns = 10_000_000 + seed * 777_777 % (1_000_000_000 / u64::from(measured_kernel::HZ));
    let running = compile(&words, &start, &mut workload)?;
    let world = world(ground, workload, seed, LIMIT_NS)?;
    Ok((running, world))
}

/// Reads `QUOTA PERIOD` in microseconds.
pub(crate) fn limit_of(text: &str) -> Outcome<BandwidthLimit> {
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [quota_us, period_us] = numbers[..] else {
        return Err(format!("`{text}` is no quota and period").into());
    };
    Ok(BandwidthLimit {
        quota_ns: Some(quota_us * 1000),
        period_ns: period_us * 1000,
        ..BandwidthLimit::UNLIMITED
    })
}

fn record(simulated: &mut Measured, case: &Case, running: &Running, world: &World) {
    let metrics = running.metrics(world.probes(), world.now());
    let metric = |name: &str| {
        let full = format!("{}/{name}", running.name);
        metrics.get(&full).copied().unwrap_or(f64::NAN)
    };
    simulated.values.push(match case.value {
        Value::SecondsAfter(_) | Value::Wall => metric("time"),
        Value::Load => metric("cpu_time") / metric("time"),
        Value::Latency => metric("latency.avg"),
    });
    let own: Vec<_> = running
        .statistics
        .iter()
        .filter_map(|name| world.probes().of(name))
        .collect();
    let sum = |of: fn(&schedcast_sim::probe::NameStatistics) -> u64| {
        own.iter().map(|row| of(row)).sum::<u64>() as f64
    };
    simulated.switches.push(sum(|row| row.switches));
    simulated.wakeups.push(sum(|row| row.wakeups));
    simulated.cpu_s.push(sum(|row| row.charged_ns) / 1e9);
}
