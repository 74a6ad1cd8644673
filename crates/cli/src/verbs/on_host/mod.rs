//! `run --on host`: the same programs for real, in cgroups of their own.
//!
//! The groups of the variant are made below a fresh group, `/schedcast-PID`, so that nothing else is in
//! them: `/test` becomes `/schedcast-2417/test`. Every repeat starts all programs together in new
//! groups. A repeat of which the hypervisor took more than 1 % is run once more. Wakeups are counted in one
//! further run, because counting them slows the program down.
//!
//! With `--on host,sim` the real runs come first, alone; then the simulation runs as often, and of its
//! metrics those are shown that were measured too.

mod real;
mod tools;
mod tree;

use std::ffi::OsString;
use std::io::Write;

use schedcast_host::{HostError, KernelInfo, Topology};
use schedcast_lab::answer;
use schedcast_lab::error::{Diagnostic, Error, Result};
use schedcast_lab::experiment::{Experiment, Scenario};
use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::Question;
use schedcast_lab::simulate::Simulate;

use crate::arguments::{Cli, Format, RunArguments, Where};
use crate::output;

/// Name of the real column.
const HOST: &str = "host";
/// Name of the simulated one.
const SIM: &str = "sim";

/// What was measured, then what is simulated.
struct Both<'a, S> {
    measured: Vec<Outcome>,
    simulator: &'a S,
    /// Every metric of the simulation, not only those that were measured too.
    all: bool,
}

impl<S: Simulate> Simulate for Both<'_, S> {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let repeat = usize::try_from(seed).ok();
        match repeat.and_then(|repeat| self.measured.get(repeat)) {
            Some(outcome) if scenario.name == HOST => Ok(outcome.clone()),
            _ => self.simulate(scenario, seed),
        }
    }
}

impl<S: Simulate> Both<'_, S> {
    fn simulate(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut outcome = self.simulator.run(scenario, seed)?;
        if !self.all {
            let measured = |metric: &String| {
                let mut repeats = self.measured.iter();
                repeats.any(|repeat| repeat.metrics.contains_key(metric))
            };
            outcome.metrics.retain(|metric, _| measured(metric));
        }
        Ok(outcome)
    }
}

fn host_error(error: HostError) -> Error {
    refused(error.to_string())
}

fn refused(message: impl Into<String>) -> Error {
    Error::Input(Box::new(Diagnostic::general(message)))
}

/// `schedcast run --on host` and `--on host,sim`.
pub fn run(
    (question, mut experiment): (&Question, Experiment),
    arguments: &RunArguments,
    cli: &Cli,
    words: &[OsString],
    simulator: &impl Simulate,
    (out, err): (&mut impl Write, &mut impl Write),
) -> Result<()> {
    let simulated = arguments.on.contains(&Where::Sim);
    let output = &arguments.output;
    if output.format == Format::Tool
        || output.pictures.trace.is_some()
        || output.pictures.report.is_some()
    {
        let error = Error::usage("--on host prints a table and keeps no trace");
        return Err(error.hint("leave out --format tool, --trace and --report, or run it --on sim"));
    }
    output::layout(output)?;
    let scenario = experiment.scenarios.remove(0);
    let cpus = Topology::read().map_err(host_error)?.cpus.len();
    if simulated && scenario.machine.cpus() != cpus {
        let of = scenario.machine.cpus();
        let message = format!("the simulated machine has {of} CPUs and this host has {cpus}");
        return Err(refused(message).hint(format!("--cpus {cpus} makes them equal")));
    }
    let measured = real::repeats(&scenario, experiment.seeds, err)?;
    for place in [Where::Host, Where::Sim] {
        if !arguments.on.contains(&place) {
            continue;
        }
        let mut column = scenario.clone();
        column.name = SIM.to_owned();
        if place == Where::Host {
            column.name = HOST.to_owned();
            name_kernel(&mut column)?;
        }
        experiment.scenarios.push(column);
    }
    let both = Both {
        measured,
        simulator,
        all: cli.verbose,
    };
    let mut answered = answer::answer(question, &experiment, &both, &|| {})?;
    let context = &mut answered.context;
    context.reproduce = output::reproduce(words);
    // What can be measured is little enough to be shown whole.
    context.verbose = true;
    context.apply.clear();
    if !simulated {
        context.machine = format!("this host, {cpus} CPUs");
    }
    output::print(&answered, output, out)
}

/// The real column names the kernel that runs here, as far as its release is a known one.
fn name_kernel(column: &mut Scenario) -> Result<()> {
    let info = KernelInfo::read().map_err(host_error)?;
    let digits = |part: &str| {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        part[..end].to_owned()
    };
    let release: Vec<String> = info.release.split('.').take(2).map(digits).collect();
    if let Ok(version) = release.join(".").parse() {
        column.kernel.version = version;
    }
    column.kernel.hz = info.hz.unwrap_or(column.kernel.hz);
    Ok(())
}
