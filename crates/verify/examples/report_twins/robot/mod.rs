//! hackbench on machines with 128 and 224 CPUs: what the kernel test robot reported, and what is
//! forecast.
//!
//! Worked example: a report has a throughput of 423,258 KiB/s. The robot counts 100 bytes for each
//! of 40 tasks of a group and each loop, in which 400 messages go: 423,258 · 1024 / 100 · 10 = 43.3
//! million messages a second. With 1,706,905 switches in that second, 0.039 of them are for a
//! message.

mod page;

use rayon::prelude::*;
use serde::Deserialize;

use crate::{Outcome, run};

/// Messages of a loop, all pairs of the 20 senders and 20 receivers of a group.
const MESSAGES_A_LOOP: u64 = 400;
/// Messages of a loop as the robot counts them: one for each task.
const COUNTED_A_LOOP: u64 = 40;
/// Their size.
const MESSAGE_BYTES: u64 = 100;

/// All reports of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reports {
    report: Vec<Report>,
}

/// One program on one machine.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Report {
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
pub(crate) struct Reported {
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
pub(crate) struct Seen {
    /// Of all groups.
    pub messages_per_s: f64,
    /// Context switches for each message.
    pub switches: Option<f64>,
    /// Changes of CPU for each message.
    pub migrations: Option<f64>,
}

impl Reported {
    /// In the units of a simulation.
    pub(crate) fn seen(&self) -> Seen {
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

/// Simulates every report of a file; the page.
pub(crate) fn page(file: &str) -> Outcome<String> {
    let reports: Reports = toml::from_str(file)?;
    let pairs: Vec<(&Report, &Reported)> = reports
        .report
        .iter()
        .flat_map(|report| report.kernel.iter().map(move |kernel| (report, kernel)))
        .collect();
    let forecast = pairs
        .par_iter()
        .map(|(report, kernel)| forecast(report, kernel))
        .collect::<Outcome<Vec<Seen>>>()?;
    let rows: Vec<_> = pairs.into_iter().zip(forecast).collect();
    Ok(page::render(&rows))
}

/// Runs one, to its end.
fn forecast(report: &Report, kernel: &Reported) -> Outcome<Seen> {
    let seen = run::every_seed(&report.what, experiment(report, kernel), 1)?;
    let metric = |name: &str| {
        let value = seen.outcomes[0][0].metrics.get(name).copied();
        value.ok_or_else(|| format!("a run of `{}` without {name}", report.what))
    };
    let messages = (MESSAGES_A_LOOP * report.groups * report.loops) as f64;
    Ok(Seen {
        messages_per_s: messages / metric("bench/time")?,
        switches: Some(metric("machine/context_switches")? / messages),
        migrations: Some(metric("machine/migrations")? / messages),
    })
}

/// Experiment as a user would write it.
fn experiment(report: &Report, kernel: &Reported) -> String {
    let slice = kernel.base_slice_ns.map_or(String::new(), |slice_ns| {
        format!("base_slice_ns = {slice_ns}\n")
    });
    format!(
        "[machine]\npreset = \"{}\"\n\
         [kernel]\nversion = \"{}\"\nhz = 1000\npreempt_dynamic = false\nirq_time_accounting = true\n{slice}\
         [[program]]\nname = \"bench\"\nrun = \"hackbench {} -l {}\"\n",
        report.machine, kernel.version, report.hackbench, report.loops
    )
}
