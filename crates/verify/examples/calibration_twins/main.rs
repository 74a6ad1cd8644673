//! How well a calibrated machine predicts what it was not calibrated with.
//!
//! ```text
//! calibration_twins measure FILE      calibrates this machine and runs the cases on it, as root, alone
//! calibration_twins report FILE PAGE  simulates the cases on the machine as calibrated, writes PAGE
//! ```
//!
//! The speed of a virtual machine drifts by the minute, so calibration and cases are measured in
//! one go, the cases in turns. Worked example: a pipe round trip of two threads on two CPUs takes
//! 47 µs for real; two system calls, two interrupts, two idle exits and two switches at the
//! calibrated prices take 43: a ratio of 0.91.

#[path = "../../../host/examples/shared/command.rs"]
mod command;
#[path = "../rt_app_twins/measured_kernel.rs"]
mod measured_kernel;
mod page;
mod simulated;

use std::error::Error;
use std::process::{Command, ExitCode};

use schedcast_base::date::today;
use schedcast_base::quantile::median;
use schedcast_host::calibrate::derive::figures;
use schedcast_host::measure::{Channel, Partner, round_trips};
use schedcast_host::{KernelInfo, Topology, calibrate};
use schedcast_lab::host_machine;
use serde::{Deserialize, Serialize};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Rounds over all cases.
const ROUNDS: usize = 7;

/// Cases of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Pipe round trips of two threads, pinned to these CPUs; ns each.
    PingPong(u32, u32),
    /// hackbench with these arguments; s.
    Hackbench(&'static str),
}

/// All cases.
pub const CASES: [Case; 6] = [
    Case::PingPong(1, 1),
    Case::PingPong(0, 1),
    Case::Hackbench("-p -g 1 -l 1000"),
    Case::Hackbench("-p -T -g 1 -l 1000"),
    Case::Hackbench("-g 1 -l 1000"),
    Case::Hackbench("-p -g 2 -l 500"),
];

/// Measurements.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Date and kernel.
    pub when: String,
    /// The machine as calibrated, TOML.
    pub machine: String,
    /// Values of each case, in the order of [`CASES`].
    pub values: Vec<Vec<f64>>,
}

fn main() -> ExitCode {
    command::run("calibration_twins", |words| match words {
        ["measure", file] => measure(file),
        ["report", file, page] => report(file, page),
        _ => Err("expected `measure FILE` or `report FILE PAGE`".into()),
    })
}

fn measure(file: &str) -> Outcome<()> {
    let when = format!("{}, Linux {}", today(), KernelInfo::read()?.release);
    let calibration = calibrate::measure(&|what| eprintln!("measuring {what}"))?;
    let figures = figures(&calibration);
    let machine = host_machine::calibrated(&Topology::read()?, &calibration, &figures, &when)?;
    let mut values = vec![Vec::new(); CASES.len()];
    for _ in 0..ROUNDS {
        for (case, values) in CASES.iter().zip(&mut values) {
            values.push(real(*case)?);
        }
    }
    let measured = Measured {
        when,
        machine,
        values,
    };
    std::fs::write(file, serde_json::to_string_pretty(&measured)?)?;
    Ok(())
}

fn real(case: Case) -> Outcome<f64> {
    match case {
        Case::PingPong(a, b) => {
            let batches = if a == b { 200 } else { 60 };
            let cpus = (a as usize, b as usize);
            let trips = round_trips(Channel::Pipe, Partner::Thread, cpus, batches, 64)?;
            median(trips).ok_or_else(|| "no round trip was measured".into())
        }
        Case::Hackbench(arguments) => {
            let mut command = Command::new("hackbench");
            let output = command.args(arguments.split_whitespace()).output()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let time = text.split("Time:").nth(1).map(str::trim);
            Ok(time.ok_or("hackbench printed no time")?.parse()?)
        }
    }
}

fn report(file: &str, page: &str) -> Outcome<()> {
    let measured: Measured = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let predicted = CASES
        .iter()
        .map(|case| simulated::run(*case, &measured.machine))
        .collect::<Outcome<Vec<_>>>()?;
    std::fs::write(page, page::render(&measured, &predicted))?;
    Ok(())
}
