//! Runs benchmarks for real and in simulation and writes the table of both.
//!
//! ```text
//! program_twins measure FILE [CASE…]     real runs, alone on the machine; replaces their lines in FILE
//! program_twins measure-more FILE [CASE…]  adds the repeats of another session to those in FILE
//! program_twins report FILE MACHINE PAGE [BACKGROUND]   simulates every case on MACHINE (a preset or a file), beside the
//!                                         threads of the recording BACKGROUND, writes PAGE
//! program_twins rt-app-calibration RUNS   what a loop of rt-app takes against what its calibration said
//! program_twins rt-app-measure[-more] FILE [CASE…], rt-app-report FILE MACHINE PAGE [BACKGROUND]   the same for rt-app files
//! program_twins server-measure FILE [CASE…], server-report FILE MACHINE PAGE [BACKGROUND]   the same for clients and servers
//! ```
//!
//! A case is run ten times: seven for its time, three with every wakeup of its tasks counted by a
//! trace buffer of a few pages, which counts what it drops. Runs of which the hypervisor stole more
//! than 1 % are dropped.

mod calibration;
mod cases;
#[path = "../../../host/examples/shared/command.rs"]
mod command;
mod measured_kernel;
mod page;
mod real;
mod rt_app;
mod servers;
mod simulated;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use simulated::Ground;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Figures of a case, measured or simulated.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the case.
    pub case: String,
    /// When, as `date` says.
    pub date: String,
    /// The kernel it ran on.
    pub kernel: String,
    /// Its time, rate or latency in each repeat.
    pub values: Vec<f64>,
    /// Switches away from its tasks, each repeat.
    pub switches: Vec<f64>,
    /// CPU seconds of its tasks, each repeat.
    pub cpu_s: Vec<f64>,
    /// Wakeups of its tasks, each repeat in which they were counted.
    pub wakeups: Vec<f64>,
    /// Largest share of a repeat that the hypervisor took.
    pub steal: f64,
}

impl Measured {
    /// Repeats of another session.
    fn add(&mut self, more: Measured) {
        self.date = more.date;
        self.kernel = more.kernel;
        self.values.extend(more.values);
        self.switches.extend(more.switches);
        self.cpu_s.extend(more.cpu_s);
        self.wakeups.extend(more.wakeups);
        self.steal = self.steal.max(more.steal);
    }
}

fn main() -> ExitCode {
    command::run("program_twins", |words| match words {
        ["measure", file, cases @ ..] => measure(Path::new(file), cases, false),
        ["measure-more", file, cases @ ..] => measure(Path::new(file), cases, true),
        ["report", file, machine, page, background @ ..] if background.len() < 2 => {
            Ground::read(machine, background)
                .and_then(|ground| report(Path::new(file), &ground, Path::new(page)))
        }
        ["rt-app-calibration", runs] => calibration::measure(runs),
        ["server-measure", file, cases @ ..] => servers::measure(Path::new(file), cases),
        ["server-report", file, machine, page, background @ ..] if background.len() < 2 => {
            Ground::read(machine, background)
                .and_then(|ground| servers::report(Path::new(file), &ground, Path::new(page)))
        }
        ["rt-app-measure", file, cases @ ..] => rt_app::measure(Path::new(file), cases, false),
        ["rt-app-measure-more", file, cases @ ..] => rt_app::measure(Path::new(file), cases, true),
        ["rt-app-report", file, machine, page, background @ ..] if background.len() < 2 => {
            Ground::read(machine, background)
                .and_then(|ground| rt_app::report(Path::new(file), &ground, Path::new(page)))
        }
        _ => Err("expected `measure FILE [CASE…]` or `report FILE MACHINE PAGE`".into()),
    })
}

fn load(file: &Path) -> Outcome<Vec<Measured>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
}

fn measure(file: &Path, names: &[&str], more: bool) -> Outcome<()> {
    let mut all = load(file)?;
    let known = || cases::CASES.iter().map(|case| case.name);
    if let Some(name) = names.iter().find(|name| !known().any(|one| one == **name)) {
        let known: Vec<&str> = known().collect();
        return Err(format!("no case {name:?}; there are {}", known.join(", ")).into());
    }
    for case in cases::CASES
        .iter()
        .filter(|case| names.is_empty() || names.contains(&case.name))
    {
        eprintln!("{}: {}", case.name, case.command);
        let measured = real::run(case)?;
        match all.iter_mut().find(|old| old.case == case.name) {
            Some(old) if more => old.add(measured),
            Some(old) => *old = measured,
            None => all.push(measured),
        }
        std::fs::write(file, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(())
}

fn report(file: &Path, ground: &Ground, page: &Path) -> Outcome<()> {
    let measured = load(file)?;
    let mut rows = Vec::new();
    for case in &cases::CASES {
        let Some(real) = measured.iter().find(|row| row.case == case.name) else {
            continue;
        };
        eprintln!("{}: {}", case.name, case.command);
        rows.push((case, real.clone(), simulated::run(case, ground)?));
    }
    if let Some(folder) = page.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(page, page::render(&rows, &ground.title()))?;
    Ok(())
}
