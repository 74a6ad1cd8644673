//! hackbench on machines with 128 and 224 CPUs: what the kernel test robot reported, and what is forecast.
//!
//! ```text
//! robot_twins REPORTS PAGE   simulates every report of the file, writes PAGE
//! ```
//!
//! Worked example: a report has a throughput of 423,258 KiB/s. The robot counts 100 bytes for each of 40 tasks of a group and
//! each loop, in which 400 messages go: 423,258 · 1024 / 100 · 10 = 43.3 million messages a second. With 1,706,905
//! switches in that second, 0.039 of them are for a message.

#[path = "../../../host/examples/shared/command.rs"]
mod command;
mod page;
mod simulated;

use std::error::Error;
use std::process::ExitCode;

use rayon::prelude::*;
use serde::Deserialize;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Messages of a loop, all pairs of the 20 senders and 20 receivers of a group.
const MESSAGES_A_LOOP: u64 = 400;
/// Messages of a loop as the robot counts them: one for each task.
const COUNTED_A_LOOP: u64 = 40;
/// Their size.
const MESSAGE_BYTES: u64 = 100;

/// All reports.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reports {
    report: Vec<Report>,
}

/// One program on one machine.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The load in words.
    pub what: String,
    /// Preset.
    pub machine: String,
    /// Arguments but for the loops.
    pub hackbench: String,
    /// Groups of those arguments.
    pub groups: u64,
    /// Loops that are simulated.
    pub loops: u64,
    /// Where it was published.
    pub url: String,
    /// Measured reports, one a kernel.
    pub kernel: Vec<Reported>,
}

/// Report on one kernel.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// The release whose rules are simulated.
    pub version: String,
    /// Where that has another one.
    pub base_slice_ns: Option<u64>,
    /// Commit that was measured.
    pub commit: String,
    /// As the robot counts it, see above.
    pub throughput_kib_per_s: f64,
    /// Of all CPUs, to idling and back included.
    pub switches_per_s: Option<f64>,
    /// At wakeups and by balancing.
    pub migrations_per_s: Option<f64>,
}

/// Messages a second, and what happens for each.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Of all groups.
    pub messages_per_s: f64,
    /// Context switches for each message.
    pub switches: Option<f64>,
    /// Changes of CPU for each message.
    pub migrations: Option<f64>,
}

impl Reported {
    /// In the units of a simulation.
    pub fn seen(&self) -> Seen {
        let factor = 1024.0 / MESSAGE_BYTES as f64 * (MESSAGES_A_LOOP / COUNTED_A_LOOP) as f64;
        let messages_per_s = self.throughput_kib_per_s * factor;
        let for_each = |per_s: Option<f64>| per_s.map(|count| count / messages_per_s);
        Seen {
            messages_per_s,
            switches: for_each(self.switches_per_s),
            migrations: for_each(self.migrations_per_s),
        }
    }
}

fn main() -> ExitCode {
    command::run("robot_twins", |words| match words {
        [reports, page] => write(reports, page),
        _ => Err("expected `REPORTS PAGE`".into()),
    })
}

fn write(file: &str, page: &str) -> Outcome<()> {
    let reports: Reports = toml::from_str(&std::fs::read_to_string(file)?)?;
    let pairs: Vec<(&Report, &Reported)> = reports
        .report
        .iter()
        .flat_map(|report| report.kernel.iter().map(move |kernel| (report, kernel)))
        .collect();
    let forecast = pairs
        .par_iter()
        .map(|(report, kernel)| simulated::run(report, kernel))
        .collect::<Outcome<Vec<Seen>>>()?;
    let rows: Vec<_> = pairs.into_iter().zip(forecast).collect();
    std::fs::write(page, page::render(&rows))?;
    Ok(())
}
