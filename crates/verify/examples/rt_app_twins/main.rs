//! rt-app files: the real log beside the simulated one.
//!
//! ```text
//! rt_app_twins measure[-more] FILE [CASE…]   real runs, alone on the machine: instead of or beside those in FILE
//! rt_app_twins report FILE MACHINE PAGE [BACKGROUND]   simulates every case on MACHINE (a preset or a file), beside
//!                                         the threads of the recording BACKGROUND, writes PAGE
//! rt_app_twins calibration RUNS           what a loop of rt-app takes against what its calibration said
//! ```
//!
//! Each file of `rt-app/` runs for three seconds, three times for real and under three seeds. Of
//! every thread the medians of four columns of the log are compared: `run`, `period`, `slack`,
//! `wu_lat`.
//!
//! How long a CPU takes to leave idling is measured before each real run, as `calibrate` does it
//! and without rt-app: on a virtual machine it drifts by the hour, and a wakeup latency is little
//! else. Worked example: 19 µs after 5 ms when the machine was calibrated, 55 three hours later.
//! The simulations take these in turn instead of the machine's one figure.

mod calibration;
#[path = "../../../host/examples/shared/command.rs"]
mod command;
mod ground;
mod measured_kernel;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use schedcast_base::date::today;
use schedcast_base::disturbed::STEAL_MAX;
use schedcast_base::quantile::{median, spread};
use schedcast_host::{CommandSpec, CpuCgroup, Ending, KernelInfo, Output, calibrate, run_in};
use schedcast_sim::Workload;
use schedcast_workload::programs::{Start, compile};
use serde::{Deserialize, Serialize};

use ground::Ground;

type Outcome<T> = Result<T, Box<dyn Error>>;

const REPEATS: u64 = 3;
/// Calibration takes seconds before the run.
const TIME_LIMIT: Duration = Duration::from_secs(40);
const SIMULATED_NS: u64 = 3_000_000_000;
/// Columns of the log that are compared, with their place.
const COLUMNS: [(&str, usize); 4] = [("run", 2), ("period", 3), ("slack", 7), ("wu_lat", 10)];
/// A median passes within the larger of these, µs and share; the wakeup latency within its own.
const TOLERANCE_US: f64 = 20.0;
const TOLERANCE: f64 = 0.1;
const WAKEUP_TOLERANCE_US: f64 = 30.0;

/// Medians of one run: thread, then column.
type Medians = BTreeMap<String, [f64; COLUMNS.len()]>;

/// Measurements of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    file: String,
    date: String,
    kernel: String,
    runs: Vec<Medians>,
    /// Beside each run what leaving the idle state took, `[stay_ns, exit_ns]`; none in files of
    /// before that was measured.
    #[serde(default)]
    idle_exits: Vec<Vec<[u64; 2]>>,
}

fn main() -> ExitCode {
    command::run("rt_app_twins", |words| match words {
        ["measure", file, names @ ..] => measure(Path::new(file), names, false),
        ["measure-more", file, names @ ..] => measure(Path::new(file), names, true),
        ["report", file, machine, page, background @ ..] if background.len() < 2 => {
            let ground = Ground::read(machine, background)?;
            report(Path::new(file), &ground, Path::new(page))
        }
        ["calibration", runs] => calibration::measure(runs),
        _ => Err("expected measure FILE [CASE…], measure-more FILE [CASE…], \
             report FILE MACHINE PAGE [BACKGROUND], or calibration RUNS"
            .into()),
    })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rt_app_twins/rt-app")
}

fn files() -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder())? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

fn name_of(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Runs the files for real, all or those named, and replaces their rows in `into`.
fn measure(into: &Path, names: &[&str], more: bool) -> Outcome<()> {
    let mut all: Vec<Measured> = match into.exists() {
        true => serde_json::from_str(&std::fs::read_to_string(into)?)?,
        false => Vec::new(),
    };
    for file in files()? {
        let name = name_of(&file);
        if !names.is_empty() && !names.contains(&name.as_str()) {
            continue;
        }
        eprintln!("{name}");
        let before = all.iter().find(|old| more && old.file == name);
        let mut runs = before.map_or_else(Vec::new, |old| old.runs.clone());
        let mut idle_exits = before.map_or_else(Vec::new, |old| old.idle_exits.clone());
        let enough = runs.len() + REPEATS as usize;
        while runs.len() < enough {
            let exits = calibrate::idle_exits()?;
            if let Some(medians) = run_once(&file)? {
                runs.push(medians);
                idle_exits.push(exits);
            }
        }
        all.retain(|old| old.file != name);
        all.push(Measured {
            file: name,
            date: today(),
            kernel: KernelInfo::read()?.release,
            runs,
            idle_exits,
        });
        std::fs::write(into, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

/// One real run; `None` when the hypervisor took too much of it.
fn run_once(file: &Path) -> Outcome<Option<Medians>> {
    let place = std::env::temp_dir().join(format!("rt-app-twins-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let group = CpuCgroup::create("/", "rt-app-twins")?;
    group.allow_real_time(1)?;
    let spec = CommandSpec::new("sh")
        .arg("-c")
        .arg(format!(
            "cd '{}' && exec rt-app '{}'",
            place.display(),
            file.display()
        ))
        .output(Output::Capture);
    let report = run_in(&group, &[spec], TIME_LIMIT)?;
    group.close()?;
    let ending = report.commands[0].ending;
    if ending != Ending::Exited(0) {
        return Err(format!("rt-app {} ended with {ending:?}", file.display()).into());
    }
    let mut medians = Medians::new();
    for entry in std::fs::read_dir(&place)? {
        let path = entry?.path();
        let thread = name_of(&path).trim_start_matches("rt-app-").to_owned();
        medians.extend(medians_of(&std::fs::read_to_string(&path)?).map(|row| (thread, row)));
    }
    std::fs::remove_dir_all(&place)?;
    Ok((report.steal_ratio <= STEAL_MAX).then_some(medians))
}

/// Medians of the compared columns of a log, its first round left out: that one starts cold.
fn medians_of(log: &str) -> Option<[f64; COLUMNS.len()]> {
    let rows: Vec<Vec<f64>> = log
        .lines()
        .map(|line| {
            line.split_whitespace()
                .map_while(|word| word.parse().ok())
                .collect()
        })
        .filter(|row: &Vec<f64>| row.len() > COLUMNS[3].1)
        .skip(1)
        .collect();
    let of = |column: usize| median(rows.iter().map(|row| row[column]).collect::<Vec<f64>>());
    let [run, period, slack, wakeup] = COLUMNS.map(|(_, column)| of(column));
    Some([run?, period?, slack?, wakeup?])
}

/// The ground as it was beside one of the real runs.
fn ground_beside(ground: &Ground, real: &Measured, seed: u64) -> Ground {
    let mut ground = ground.clone();
    let turns = real.idle_exits.len().max(1);
    let exits = real.idle_exits.get(seed as usize % turns);
    let state = ground
        .machine
        .idle
        .as_mut()
        .and_then(|idle| idle.state.last_mut());
    if let (Some(exits), Some(state)) = (exits.filter(|exits| !exits.is_empty()), state) {
        state.exit_after_stay_ns.clone_from(exits);
    }
    ground
}

fn simulate(file: &Path, ground: &Ground, seed: u64) -> Outcome<Medians> {
    let machine = &ground.machine;
    let mut workload = Workload::default();
    let mut start = Start::new("rt-app", machine.topology.cpus());
    start.start_ns = 10_000_000 + seed * 777_777;
    start.prices = start.prices.on_machine(&machine.program_cost)?;
    let words = ["rt-app".to_owned(), file.display().to_string()];
    let running = compile(&words, &start, &mut workload)?;
    let until = start.start_ns + SIMULATED_NS;
    let world = ground::world(ground, workload, seed, until)?;
    let report = running.report(world.probes(), world.now());
    let logs = report.split("==> rt-app-").skip(1);
    let of = |log: &str| {
        let (name, rows) = log.split_once(".log <==")?;
        Some((name.to_owned(), medians_of(rows)?))
    };
    Ok(logs.filter_map(of).collect())
}

/// Simulates every measured file and writes the page.
fn report(from: &Path, ground: &Ground, page: &Path) -> Outcome<()> {
    let measured: Vec<Measured> = serde_json::from_str(&std::fs::read_to_string(from)?)?;
    let mut tables = String::new();
    let mut passed = [0, 0];
    for file in files()? {
        let name = name_of(&file);
        let Some(real) = measured.iter().find(|row| row.file == name) else {
            continue;
        };
        let seeds: Vec<Medians> = (0..REPEATS.max(real.idle_exits.len() as u64))
            .map(|seed| simulate(&file, &ground_beside(ground, real, seed), seed))
            .collect::<Outcome<_>>()?;
        tables += &table(real, &seeds, &mut passed);
    }
    let first = measured.first().ok_or("nothing was measured")?;
    let [good, all] = passed;
    let ground = ground.title();
    let simulated_kernel = measured_kernel::title();
    let beside = match measured.iter().all(|row| row.idle_exits.is_empty()) {
        true => "",
        false => " or one for each run whose way out of idling was measured beside it",
    };
    let text = format!(
        "# rt-app files, real and simulated\n\n\
         Written by `cargo run -p schedcast-verify --example rt_app_twins -- report`. Real: {}, Linux {}, 2 CPUs, \
         rt-app 1.0 calibrated at each start; simulated: {simulated_kernel}, machine {ground}, {REPEATS} seeds{beside}. The \
         files are in `crates/verify/examples/rt_app_twins/rt-app`.\n\n\
         Medians over the rounds of a thread, µs, with (smallest – largest) of the runs, {REPEATS} in each session that was measured. A median passes within \
         ±10 %, ±20 µs or the real spread, a wakeup latency within ±30 µs or the real spread.\n\n\
         **{good} of {all} figures pass.**\n\n{tables}",
        first.date, first.kernel
    );
    Ok(std::fs::write(page, text)?)
}

fn table(real: &Measured, seeds: &[Medians], passed: &mut [usize; 2]) -> String {
    let mut text = format!(
        "## {}\n\n| thread | column | real | simulated | difference | |\n|---|---|---|---|---|---|\n",
        real.file
    );
    let threads = real.runs.first().map(|run| run.keys().cloned());
    for thread in threads.into_iter().flatten() {
        for (place, (column, _)) in COLUMNS.iter().enumerate() {
            let of = |runs: &[Medians]| -> Vec<f64> {
                runs.iter()
                    .filter_map(|run| Some(run.get(&thread)?[place]))
                    .collect()
            };
            let (a, b) = (of(&real.runs), of(seeds));
            if b.is_empty() {
                passed[1] += 1;
                text += &format!(
                    "| {thread} | {column} | {} | no rounds | | **misses** |\n",
                    show(&a)
                );
                continue;
            }
            let (Some([low, wanted, high]), Some(got)) = (spread(&a[..]), median(&b[..])) else {
                continue;
            };
            let tolerance = match *column {
                "wu_lat" => WAKEUP_TOLERANCE_US,
                _ => TOLERANCE_US.max(wanted.abs() * TOLERANCE),
            };
            let good = (low..=high).contains(&got) || (got - wanted).abs() <= tolerance;
            passed[0] += usize::from(good);
            passed[1] += 1;
            let verdict = if good { "" } else { "**misses**" };
            text += &format!(
                "| {thread} | {column} | {} | {} | {:+.0} | {verdict} |\n",
                show(&a),
                show(&b),
                got - wanted
            );
        }
    }
    text + "\n"
}

fn show(values: &[f64]) -> String {
    let [low, middle, high] = spread(values).unwrap_or([f64::NAN; 3]);
    format!("{middle:.0} ({low:.0} – {high:.0})")
}
