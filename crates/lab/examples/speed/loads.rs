//! Loads to run, each in a process of its own so that its memory can be told apart.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use flate2::read::GzDecoder;
use schedcast_kernel::rules::{Rules, Version};
use schedcast_kernel::topology::Topology;
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;
use schedcast_lab::sweep::{Sweep, SweepOptions};
use schedcast_sim::{Machine, World, bench_workloads};
use schedcast_trace::{EventSource, FtraceTextReader};

use crate::{Measured, Outcome};

const SECOND_NS: u64 = 1_000_000_000;
/// Text that is read, at least.
const TEXT_BYTES: usize = 16 << 20;

schedcast_base::named! {
    /// Unit of the count.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub enum Unit {
        Dispatches = "dispatches",
        Wakeups = "wakeups",
        /// Whole runs of a variant.
        Variants = "variants",
        /// Runs of a sweep.
        Runs = "runs",
        /// Bytes of text.
        Bytes = "bytes",
    }
}

/// One line of the table.
pub struct Load {
    pub name: &'static str,
    pub text: &'static str,
    pub unit: Unit,
    run: fn() -> Outcome<Measured>,
}

const fn load(
    name: &'static str,
    text: &'static str,
    unit: Unit,
    run: fn() -> Outcome<Measured>,
) -> Load {
    Load {
        name,
        text,
        unit,
        run,
    }
}

/// All lines.
pub(crate) static LOADS: [Load; 16] = [
    load(
        "w1",
        "W1: 10 CPUs, 100 tasks, one cgroup level",
        Unit::Dispatches,
        || periodic(10, 1, None, 100),
    ),
    load(
        "w1-levels",
        "W1, two cgroup levels",
        Unit::Dispatches,
        || periodic(10, 2, None, 100),
    ),
    load(
        "w1-depth",
        "W1, four cgroup levels",
        Unit::Dispatches,
        || periodic(10, 4, None, 100),
    ),
    load(
        "w1-machine-1",
        "W1, clocks, idle states and power of `hwp-desktop-8`",
        Unit::Dispatches,
        || periodic(10, 1, Some("hwp-desktop-8"), 100),
    ),
    load(
        "w1-machine",
        "W1, two levels, clocks, idle states and power of `hwp-desktop-8`",
        Unit::Dispatches,
        || periodic(10, 2, Some("hwp-desktop-8"), 100),
    ),
    load("w2", "W2: 64 CPUs, 640 tasks", Unit::Dispatches, || {
        periodic(64, 1, None, 20)
    }),
    load("w3", "W3: 128 CPUs, 1,280 tasks", Unit::Dispatches, || {
        periodic(128, 1, None, 10)
    }),
    load("cpus-8", "8 CPUs, 80 tasks", Unit::Dispatches, || {
        periodic(8, 1, None, 100)
    }),
    load(
        "cpus-512",
        "512 CPUs, 5,120 tasks",
        Unit::Dispatches,
        || periodic(512, 1, None, 3),
    ),
    load(
        "w1-long",
        "W1 for six times as long",
        Unit::Dispatches,
        || periodic(10, 1, None, 600),
    ),
    load(
        "udp-rr",
        "`netperf -t UDP_RR`, 224 pairs on `spr-2x56x2`",
        Unit::Wakeups,
        || experiment(include_str!("udp-rr.toml"), 50_000_000, 250_000_000),
    ),
    load(
        "hackbench",
        "`hackbench -g 16` on `icl-2x32x2`",
        Unit::Wakeups,
        || experiment(include_str!("hackbench.toml"), 50_000_000, 250_000_000),
    ),
    load(
        "postgres",
        "what-if of a 30 s recording, seven variants, reading included",
        Unit::Variants,
        what_if,
    ),
    load(
        "sweep-1",
        "`sweep examples/burst-grid.toml`, 180 runs, one worker",
        Unit::Runs,
        || sweep(1),
    ),
    load("sweep-2", "the same, two workers", Unit::Runs, || sweep(2)),
    load(
        "text",
        "reading 16 MiB of a trace as tracefs prints it",
        Unit::Bytes,
        text,
    ),
];

/// Runs a line here and now.
pub(crate) fn run(name: &str) -> Outcome<Measured> {
    match LOADS.iter().find(|load| load.name == name) {
        Some(load) => (load.run)(),
        None => Err(format!("no load {name:?}").into()),
    }
}

fn periodic(cpus: usize, levels: usize, preset: Option<&str>, seconds: u64) -> Outcome<Measured> {
    let machine = match preset {
        None => bench_workloads::machine(cpus)?,
        Some(preset) => Machine::preset(preset)?.with_topology(Topology::flat(cpus)),
    };
    let rules = Rules::of(Version::new(6, 18), cpus as u32, 250);
    let workload = bench_workloads::periodic(cpus * 10, levels)?;
    let mut world = World::new(machine, rules, workload, 1)?;
    world.run_until(SECOND_NS)?;
    let before = world.probes().machine.dispatches;
    let begin = Instant::now();
    world.run_until((1 + seconds) * SECOND_NS)?;
    Ok(Measured::since(
        begin,
        world.probes().machine.dispatches - before,
    ))
}

fn question(subject: Subject, measured: bool) -> Question {
    Question {
        seeds: Some(1),
        measured,
        ..Question::of(subject)
    }
}

/// `warm_ns` of virtual time that do not count, then `counted_ns` that do.
fn experiment(text: &str, warm_ns: u64, counted_ns: u64) -> Outcome<Measured> {
    let subject = Subject::text("bench", text, env!("CARGO_MANIFEST_DIR"));
    let experiment = question(subject, false).experiment()?;
    let (mut world, _, _) = Simulator::new().world(&experiment.scenarios[0], 1)?;
    world.run_until(warm_ns)?;
    let before = world.probes().machine.wakeups;
    let begin = Instant::now();
    world.run_until(warm_ns + counted_ns)?;
    Ok(Measured::since(
        begin,
        world.probes().machine.wakeups - before,
    ))
}

/// Everything `what-if RECORDING --measured` does for one seed, on one CPU.
fn what_if() -> Outcome<Measured> {
    let begin = Instant::now();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota");
    let subject = Subject::Recording(Recorded::open(&folder)?);
    let experiment = question(subject, true).experiment()?;
    let simulator = Simulator::new();
    for variant in &experiment.scenarios {
        simulator.finish(variant, 1)?.outcome();
    }
    Ok(Measured::since(begin, experiment.scenarios.len() as u64))
}

/// A grid of nine points under twenty seeds, with its journal on disk.
fn sweep(workers: usize) -> Outcome<Measured> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/burst-grid.toml");
    let subject = Subject::File {
        path: file,
        only: None,
    };
    let mut question = question(subject, false);
    question.seeds = None;
    let experiment = question.experiment()?;
    let folder = tempfile::tempdir()?;
    let options = SweepOptions {
        folder: Some(folder.path().to_owned()),
        workers: Some(workers),
        build: "speed".to_owned(),
        ..SweepOptions::default()
    };
    let begin = Instant::now();
    Sweep::open(&experiment, options)?.run(&Simulator::new(), &|| {})?;
    Ok(Measured::since(
        begin,
        (experiment.scenarios.len() * experiment.seeds as usize) as u64,
    ))
}

/// The trace of a recording, over and over.
fn text() -> Outcome<Measured> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings/postgres-quota/trace.txt.gz");
    let mut once = Vec::new();
    GzDecoder::new(File::open(&file)?).read_to_end(&mut once)?;
    let text = once.repeat(TEXT_BYTES.div_ceil(once.len()));
    let begin = Instant::now();
    let mut reader = FtraceTextReader::new(&file, &text[..]);
    while reader.next_item()?.is_some() {}
    Ok(Measured::since(begin, text.len() as u64))
}
