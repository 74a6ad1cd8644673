//! Limits on the running kernel and in simulation: the same groups, the same tasks, the same
//! counters.
//!
//! ```text
//! bandwidth_twins measure FILE [CASE…]     real runs, alone on the machine; replaces their lines in FILE
//! bandwidth_twins report FILE MACHINE PAGE   simulates every case on MACHINE (a preset or a file), writes PAGE
//! ```
//!
//! A repeat starts the tasks in a new group, whose period timer starts at a random offset, lets
//! half a second pass, and reads `cpu.stat` and the tasks' CPU time twice, 4 s apart. Worked
//! example: two hogs on two CPUs under 50 ms of every 100 ms show 40 periods, all throttled, 6 s of
//! throttled time (75 ms a period on each CPU), and one second of CPU time each.
//!
//! The duration of rt-app's loop drifts on a virtual machine. So each repeat is simulated with the
//! work that its own activations were seen to take; the counters are compared, not the work.

mod cases;
#[path = "../../../host/examples/shared/command.rs"]
mod command;
#[path = "../rt_app_twins/measured_kernel.rs"]
mod measured_kernel;
mod page;
// Which repeats were disturbed is judged as for the other measurements.
#[allow(dead_code)]
#[path = "../../../host/examples/known_answers/quiet.rs"]
mod quiet;
mod real;
mod simulated;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// From the start of the tasks to the first reading of the counters.
const FROM_MS: u64 = 500;
/// Between the two readings.
const WINDOW_MS: u64 = 4_000;

/// Growth of a case's counters in the window of one repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Repeat {
    /// `nr_periods`.
    pub periods: f64,
    /// `nr_throttled`.
    pub throttled: f64,
    /// `throttled_time`, ms.
    pub throttled_ms: f64,
    /// `nr_bursts`.
    pub bursts: f64,
    /// `burst_time`, ms.
    pub burst_ms: f64,
    /// CPU time of each task, ms.
    pub cpu_ms: Vec<f64>,
    /// Activations of each task, as its log shows them; those that began or ended outside count in
    /// part. 0 for hogs, nothing in simulations, where the work of an activation is given.
    #[serde(default)]
    pub activations: Vec<f64>,
}

/// Measurements of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Name of the case.
    pub case: String,
    /// When, as `date` says.
    pub date: String,
    /// The kernel it ran on.
    pub kernel: String,
    /// Repeats that were dropped because something else ran.
    pub disturbed: usize,
    /// The others.
    pub repeats: Vec<Repeat>,
}

fn main() -> ExitCode {
    command::run("bandwidth_twins", |words| match words {
        ["hog", rest @ ..] => schedcast_host::hog::main(rest).map_err(Into::into),
        ["measure", file, cases @ ..] => measure(Path::new(file), cases),
        ["report", file, machine, page] => report(Path::new(file), machine, Path::new(page)),
        _ => Err("expected `measure FILE [CASE…]` or `report FILE MACHINE PAGE`".into()),
    })
}

fn load(file: &Path) -> Outcome<Vec<Measured>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
}

fn measure(file: &Path, names: &[&str]) -> Outcome<()> {
    if let Some(name) = names
        .iter()
        .find(|name| !cases::CASES.iter().any(|case| case.name == **name))
    {
        let known: Vec<&str> = cases::CASES.iter().map(|case| case.name).collect();
        return Err(format!("no case `{name}`; there are {}", known.join(", ")).into());
    }
    let own_group = real::join_heavy_group()?;
    let mut all = load(file)?;
    for case in cases::CASES
        .iter()
        .filter(|case| names.is_empty() || names.contains(&case.name))
    {
        eprintln!("{}", case.name);
        let measured = real::run(case)?;
        all.retain(|old| old.case != case.name);
        all.push(measured);
        std::fs::write(file, serde_json::to_string(&all)?)?;
    }
    own_group.close()?;
    Ok(())
}

fn report(file: &Path, machine: &str, page: &Path) -> Outcome<()> {
    let measured = load(file)?;
    let mut rows = Vec::new();
    for case in &cases::CASES {
        let Some(real) = measured.iter().find(|row| row.case == case.name) else {
            eprintln!("{}: not measured", case.name);
            continue;
        };
        rows.push((
            case,
            real.clone(),
            simulated::run(case, &real.repeats, machine)?,
        ));
    }
    std::fs::write(page, page::render(&rows, machine))?;
    Ok(())
}
