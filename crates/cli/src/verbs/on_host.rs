//! `run --on host`: the same programs for real, in cgroups of their own.
//!
//! With `--on host,sim` the real runs come first, alone; then the simulation runs as often, and of
//! its metrics those are shown that were measured too. `--on vm:6.12` runs this same program with
//! `--guest` in a virtual machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use schedcast_host::Topology;
use schedcast_lab::answer;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::{Experiment, Scenario};
use schedcast_lab::outcome::Outcome;
use schedcast_lab::question::{Question, Setting};
use schedcast_lab::simulate::Simulate;
use schedcast_verify::real::guest::{self, GuestCall};
use schedcast_verify::real::{self, Purpose, RealMachine};

use crate::arguments::validate::Place;
use crate::arguments::{Format, RunArguments, Where};
use crate::{Call, output, written};

/// Name of the simulated one.
const SIM: &str = "sim";

/// Measured outcomes by column, and the simulator for the others.
struct Both<'a, S> {
    measured: BTreeMap<String, Vec<Outcome>>,
    simulator: &'a S,
    /// Every metric of the simulation, not only those that were measured too.
    all: bool,
}

impl<S: Simulate> Simulate for Both<'_, S> {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let repeat = usize::try_from(seed).unwrap_or(usize::MAX);
        let measured = self.measured.get(&scenario.name);
        match measured.and_then(|repeats| repeats.get(repeat)) {
            Some(outcome) => Ok(outcome.clone()),
            None => self.simulate(scenario, seed),
        }
    }
}

impl<S: Simulate> Both<'_, S> {
    fn simulate(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        let mut outcome = self.simulator.run(scenario, seed)?;
        if !self.all {
            let measured = |metric: &String| {
                let mut repeats = self.measured.values().flatten();
                repeats.any(|repeat| repeat.metrics.contains_key(metric))
            };
            outcome.metrics.retain(|metric, _| measured(metric));
        }
        Ok(outcome)
    }
}

/// Inside a guest: what was measured in every repeat, as JSON.
pub(super) fn serve(experiment: &Experiment, out: &mut impl Write) -> Result<()> {
    let text = real::serve(&experiment.scenarios, experiment.seeds, Purpose::Shown)?;
    written(out.write_all(text.as_bytes()))
}

/// The machines to run on for real and the names of their columns; none inside a guest.
pub(super) fn machines(arguments: &RunArguments) -> Result<Vec<(String, RealMachine)>> {
    let mut machines = Vec::new();
    for place in arguments.on.iter().filter(|_| !arguments.guest) {
        if let Where::Real(real) = place {
            machines.push((place.to_string(), real.machine()?));
        }
    }
    Ok(machines)
}

/// Settings that make a simulation one of the kernel of the virtual machine, if there is one.
pub(super) fn settings(machines: &[(String, RealMachine)]) -> Result<Vec<Setting>> {
    let images = machines.iter().filter_map(|(_, machine)| match machine {
        RealMachine::Guest(image) => Some(image),
        RealMachine::Host(_) => None,
    });
    match images.collect::<Vec<_>>().as_slice() {
        [] => Ok(Vec::new()),
        [image] => Ok(guest::settings(image)),
        _ => Err(Error::usage("one virtual machine at a time")),
    }
}

/// This command line as it measures inside a guest.
fn guest_call<'a>(arguments: &'a RunArguments, words: &[OsString]) -> GuestCall<'a> {
    let mut words: Vec<OsString> = words.iter().skip(1).cloned().collect();
    let verb = words.iter().position(|word| word == "run");
    words.insert(verb.map_or(0, |verb| verb + 1), "--guest".into());
    let files = arguments.experiment.as_deref().into_iter().collect();
    GuestCall { words, files }
}

/// The layouts that a real run has.
fn refuse_pictures(arguments: &RunArguments) -> Result<()> {
    let output = &arguments.output;
    if output.format == Format::Tool
        || output.pictures.trace.is_some()
        || output.pictures.report.is_some()
    {
        let error = Error::usage("a run for real prints a table and keeps no trace");
        return Err(error.hint("leave out --format tool, --trace and --report, or run it --on sim"));
    }
    output::layout(output).map(drop)
}

fn refuse_other_machine(scenario: &Scenario, cpus: usize) -> Result<()> {
    if scenario.machine.cpus() == cpus {
        return Ok(());
    }
    let of = scenario.machine.cpus();
    let message = format!("the simulated machine has {of} CPUs and this host has {cpus}");
    Err(Error::general(message).hint(format!("--cpus {cpus} makes them equal")))
}

/// Refuses flags for what is simulated where nothing is: the host has the kernel and the machine it
/// has.
fn refuse_unused(question: &Question, arguments: &RunArguments) -> Result<()> {
    let is_simulated = |place: &Where| *place != Where::Real(Place::Host);
    if arguments.on.iter().any(is_simulated) {
        return Ok(());
    }
    let columns = &question.columns;
    let added = columns.variants.iter().flat_map(|(_, settings)| settings);
    let flag = columns.leading.iter().chain(added).find_map(Setting::flag);
    let Some(flag) = flag else {
        return Ok(());
    };
    let hint = match flag {
        "--kernel" => "--on vm:6.12 runs another kernel, --on host,sim simulates one beside it",
        _ => "leave it out, or simulate beside the host with --on host,sim",
    };
    Err(Error::usage(format!("`{flag}` changes nothing of a host")).hint(hint))
}

/// `schedcast run` with `--on host`, `--on host,sim`, `--on vm:6.12,sim` and the like.
pub(super) fn run<S: Simulate>(
    (question, mut experiment): (&Question, Experiment),
    machines: &[(String, RealMachine)],
    arguments: &RunArguments,
    call: &mut Call<S>,
) -> Result<()> {
    refuse_pictures(arguments)?;
    refuse_unused(question, arguments)?;
    let mut scenario = experiment.scenarios.remove(0);
    let is_guest = |(_, machine): &(String, RealMachine)| matches!(machine, RealMachine::Guest(_));
    if scenario.duration_ns.is_none() && machines.iter().any(is_guest) {
        // The warm-up is that of the guest, whose tools tell of the whole run.
        scenario.warmup_ns = 0;
    }
    let cpus = Topology::read()?.cpus.len();
    let simulated = arguments.on.contains(&Where::Sim);
    let on_host = arguments.on.contains(&Where::Real(Place::Host));
    if simulated && on_host {
        refuse_other_machine(&scenario, cpus)?;
    }
    let wanted = (experiment.seeds, Purpose::Shown);
    let guest = guest_call(arguments, call.words);
    let mut measured = BTreeMap::new();
    for (name, machine) in machines {
        let scenarios = std::slice::from_ref(&scenario);
        let mut column = scenario.clone();
        column.name.clone_from(name);
        match machine {
            RealMachine::Guest(image) => guest::refuse_other_kernels(image, scenarios)?,
            RealMachine::Host(kernel) => name_kernel(&mut column, &kernel.release, kernel.hz),
        }
        machine.measure(scenarios, wanted, &guest, |_, _, repeats| {
            let outcome = |metrics| Outcome {
                metrics,
                ..Outcome::default()
            };
            let outcomes: Vec<_> = repeats.samples.into_iter().map(outcome).collect();
            measured.insert(name.clone(), outcomes);
            Ok(())
        })?;
        experiment.scenarios.push(column);
    }
    if simulated {
        let mut column = scenario.clone();
        column.name = SIM.to_owned();
        experiment.scenarios.push(column);
    }
    let both = Both {
        measured,
        simulator: call.simulator,
        all: arguments.output.verbose,
    };
    let mut answered = answer::answer(question, &experiment, &both, &|| {})?;
    let context = &mut answered.context;
    context.reproduce = output::reproduce(call.words);
    // The measurable figures are few enough to be shown whole.
    context.verbose = true;
    context.apply.clear();
    if !simulated {
        context.machine = match on_host {
            true => format!("this host, {cpus} CPUs"),
            false => format!("virtual machine, {} CPUs", scenario.machine.cpus()),
        };
    }
    output::print(&answered, &arguments.output, &mut call.out)
}

/// The real column names the kernel that ran, as far as its release is a known one.
fn name_kernel(column: &mut Scenario, release: &str, hz: Option<u32>) {
    let digits = |part: &str| {
        let end = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        part[..end].to_owned()
    };
    let release: Vec<String> = release.split('.').take(2).map(digits).collect();
    column.kernel.name_release(&release.join("."));
    column.kernel.hz = hz.unwrap_or(column.kernel.hz);
}
