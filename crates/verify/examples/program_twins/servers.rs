//! Clients and servers: the real ones beside the simulated.
//!
//! The server runs in a group of its own, which may be limited, and is started anew for each case;
//! tables are made once for all cases of a run, in a folder that is removed at its end. A case is
//! run five times for its rates and times and twice with the wakeups of client and server and the
//! switches of the server counted; switches of the client are those of `getrusage`. A run beside
//! which other processes took a tenth of a CPU is made again.

mod cases;
mod real;

use std::collections::BTreeMap;
use std::path::Path;

use schedcast_base::date::today;
use schedcast_kernel::GroupId;
use schedcast_sim::Workload;
use schedcast_sim::workload::GroupSpec;
use schedcast_workload::programs::{Start, compile, split, tool};
use serde::{Deserialize, Serialize};

use crate::page::{COUNT_TOLERANCE, VALUE_TOLERANCE, heading, row};
use crate::simulated::Ground;
use crate::{Outcome, measured_kernel, simulated};
use cases::{CASES, Case};

const SEEDS: u64 = 40;
const LIMIT_NS: u64 = 60_000_000_000;

/// Quantities with the tolerance they pass in.
const QUANTITIES: [(&str, f64); 7] = [
    ("rate, 1/s", VALUE_TOLERANCE),
    ("mean latency, ms", VALUE_TOLERANCE),
    ("client's CPU time, µs", VALUE_TOLERANCE),
    ("server's CPU time, µs", VALUE_TOLERANCE),
    ("client's switches", COUNT_TOLERANCE),
    ("server's switches", COUNT_TOLERANCE),
    ("wakeups", COUNT_TOLERANCE),
];

/// Values of the repeats by quantity. All but the first two are those of one transaction.
type Values = BTreeMap<String, Vec<f64>>;

/// Measurements of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    case: String,
    date: String,
    kernel: String,
    values: Values,
}

fn push(values: &mut Values, quantity: usize, value: f64) {
    let name = QUANTITIES[quantity].0.to_owned();
    values.entry(name).or_default().push(value);
}

/// Runs the cases for real, all or those named, and replaces their rows in `file`.
pub(crate) fn measure(file: &Path, names: &[&str]) -> Outcome<()> {
    let mut all: Vec<Measured> = match file.exists() {
        true => serde_json::from_str(&std::fs::read_to_string(file)?)?,
        false => Vec::new(),
    };
    if let Some(name) = names
        .iter()
        .find(|name| !CASES.iter().any(|case| case.name == **name))
    {
        return Err(format!("no case {name:?}").into());
    }
    for case in CASES
        .iter()
        .filter(|case| names.is_empty() || names.contains(&case.name))
    {
        eprintln!("{}: {}", case.name, case.command);
        let measured = Measured {
            case: case.name.to_owned(),
            date: today(),
            kernel: schedcast_host::KernelInfo::read()?.release,
            values: real::run(case)?,
        };
        all.retain(|old| old.case != case.name);
        all.push(measured);
        std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

fn simulate(case: &Case, ground: &Ground) -> Outcome<Values> {
    let machine = &ground.machine;
    let mut values = Values::new();
    for seed in 0..SEEDS {
        let command = match case.is_served() {
            true => format!("{} --server-cgroup /server", case.command),
            false => case.command.to_owned(),
        };
        let words = split(&command);
        let name = tool(&words)?.name;
        let mut workload = Workload::default();
        let mut client = GroupSpec::new("/client", GroupId::ROOT);
        let mut server = GroupSpec::new("/server", GroupId::ROOT);
        let limited = match case.is_served() {
            true => &mut server,
            false => &mut client,
        };
        if let Some(limit) = case.limit {
            limited.limit = simulated::limit_of(limit)?;
        }
        let mut start = Start::new(name, machine.topology.cpus());
        start.group = workload.add_group(client);
        workload.add_group(server);
        start.affinity = Some(case.cpu_set());
        start.kernel = measured_kernel::VERSION;
        start.prices = start.prices.on_machine(&machine.program_cost)?;
        // Anywhere between the tenth and the twentieth millisecond, over some ticks.
        start.start_ns = 10_000_000 + seed * 777_777 % 10_000_000;
        let running = compile(&words, &start, &mut workload)?;
        // The server is no child of its client, which alone is on these CPUs by `start`: both
        // really ran there.
        for task in &mut workload.tasks {
            task.affinity = Some(case.cpu_set());
        }
        let world = simulated::world(ground, workload, seed, LIMIT_NS)?;
        let metrics = running.metrics(world.probes(), world.now());
        let metric = |metric: &str| {
            let value = metrics.get(&format!("{name}/{metric}"));
            value.copied().unwrap_or(f64::NAN)
        };
        let count = match metrics.get(&format!("{name}/requests")) {
            Some(requests) => *requests,
            None => metric("latency.count"),
        };
        push(&mut values, 0, metric(case.rate));
        push(&mut values, 1, metric("latency.avg") / 1000.0);
        let mut wakeups = 0;
        for (place, statistics) in [name.to_owned(), format!("{name}-server")]
            .iter()
            .enumerate()
        {
            let Some(row) = world.probes().of(statistics) else {
                continue;
            };
            push(&mut values, 2 + place, row.charged_ns as f64 / 1e3 / count);
            push(&mut values, 4 + place, row.switches as f64 / count);
            wakeups += row.wakeups;
        }
        push(&mut values, 6, wakeups as f64 / count);
    }
    Ok(values)
}

/// Simulates every measured case and writes the page.
pub(crate) fn report(file: &Path, ground: &Ground, page: &Path) -> Outcome<()> {
    let measured: Vec<Measured> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let mut tables = String::new();
    let mut passed = [0, 0];
    for case in &CASES {
        let Some(real) = measured.iter().find(|row| row.case == case.name) else {
            continue;
        };
        eprintln!("{}: {}", case.name, case.command);
        tables += &table(case, &real.values, &simulate(case, ground)?, &mut passed);
    }
    let first = measured.first().ok_or("nothing was measured")?;
    let [good, all] = passed;
    let ground = ground.title();
    let simulated_kernel = measured_kernel::title();
    let text = format!(
        "# Clients and servers, real and simulated\n\n\
         Written by `cargo run -p schedcast-verify --example program_twins -- server-report`. Real: {}, Linux {}, 2 CPUs, \
         PostgreSQL 15, sysbench 1.0.20, nginx 1.22, wrk 4.1; simulated: {simulated_kernel}, machine {ground}, {SEEDS} \
         seeds. A limit is that of the server's group, or of the tool's where there is no server.\n\n\
         Medians with (smallest – largest) of the repeats; times, switches and wakeups are those of one transaction, \
         event or request, wakeups those of client and server together. A rate, latency or time passes within ±20 % or \
         the real spread, a count within ±10 % or the real spread.\n\n\
         **{good} of {all} figures pass.**\n\n{tables}",
        first.date, first.kernel
    );
    Ok(std::fs::write(page, text)?)
}

fn table(case: &Case, real: &Values, simulated: &Values, passed: &mut [usize; 2]) -> String {
    let mut text = heading(case.name, case.command, case.cpus, case.limit);
    for (name, tolerance) in QUANTITIES {
        if let (Some(real), Some(simulated)) = (real.get(name), simulated.get(name)) {
            text += &row(real, simulated, name, tolerance, passed).unwrap_or_default();
        }
    }
    text + "\n"
}
