//! The same program on the same number of CPUs, simulated.

use std::path::Path;

use schedcast_lab::question::{Columns, Question, Subject};
use schedcast_lab::simulate::Simulate as _;
use schedcast_lab::simulator::Simulator;

use crate::{MESSAGES_A_LOOP, Outcome, Report, Reported, Seen};

/// Runs one, to its end.
pub fn run(report: &Report, kernel: &Reported) -> Outcome<Seen> {
    let question = Question {
        subject: Subject::Text {
            name: "robot".to_owned(),
            text: experiment(report, kernel),
            directory: Path::new(env!("CARGO_MANIFEST_DIR")).to_owned(),
            only: None,
        },
        cgroup: None,
        columns: Columns::default(),
        seeds: Some(1),
        duration: None,
        measured: false,
    };
    let experiment = question.experiment()?;
    let outcome = Simulator::new().run(&experiment.scenarios[0], 0)?;
    let metric = |name: &str| {
        let value = outcome.metrics.get(name).copied();
        value.ok_or_else(|| format!("a run of `{}` without {name}", report.what))
    };
    let messages = (MESSAGES_A_LOOP * report.groups * report.loops) as f64;
    Ok(Seen {
        messages_per_s: messages / metric("bench/time")?,
        switches: Some(metric("machine/context_switches")? / messages),
        migrations: Some(metric("machine/migrations")? / messages),
    })
}

/// Experiment that a user would write for the report.
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
