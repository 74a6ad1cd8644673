//! `run --on host`: the same programs for real, in cgroups of their own.
//!
//! The groups of the variant are made below a fresh group, `/schedcast-PID`, so that nothing else
//! is in them: `/test` becomes `/schedcast-2417/test`. Every repeat starts all programs together in
//! new groups. A repeat of which the hypervisor took more than 1 % is run once more. Wakeups are
//! counted in one further run, because counting them slows the program down.
//!
//! With `--on host,sim` the real runs come first, alone; then the simulation runs as often, and of
//! its metrics those are shown that were measured too. `--on vm:6.12` runs this same program with
//! `--guest` in a virtual machine; there it measures what it finds and prints the metrics of all
//! repeats as JSON.

mod real;
pub(super) mod tools;
mod tree;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use schedcast_host::vm::{Accelerator, KernelImage};
use schedcast_host::{CommandReport, KernelInfo, Topology};
use schedcast_lab::answer;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::{Experiment, Scenario};
use schedcast_lab::outcome::{MetricMap, Outcome};
use schedcast_lab::question::{Question, Setting};
use schedcast_lab::simulate::Simulate;

use super::in_vm;
use crate::arguments::{Format, RunArguments, Where};
use crate::{output, written};

/// Name of the real column.
const HOST: &str = "host";
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

/// CPU time of a program of this name, of which its server is a part, and of that server.
pub(super) fn cpu_times(
    name: &str,
    command: &CommandReport,
    served: Option<Duration>,
) -> impl Iterator<Item = (String, f64)> {
    let served_s = served.map(|served| served.as_secs_f64());
    let all_s = command.cpu_ns() as f64 / 1e9 + served_s.unwrap_or(0.0);
    let of_server = served_s.map(|seconds| (format!("{name}-server/cpu_time"), seconds));
    [(format!("{name}/cpu_time"), all_s)]
        .into_iter()
        .chain(of_server)
}

/// Inside a guest: the metrics of every repeat as JSON.
pub(super) fn serve(
    experiment: &Experiment,
    (out, err): (&mut impl Write, &mut impl Write),
) -> Result<()> {
    let measured = real::repeats(&experiment.scenarios[0], experiment.seeds, err)?;
    let metrics: Vec<_> = measured.into_iter().map(|one| one.metrics).collect();
    let text = serde_json::to_string(&metrics).expect("numbers are finite");
    written(writeln!(out, "{text}"))
}

/// The repeats of a virtual machine with the kernel `image`.
fn in_guest(
    image: &KernelImage,
    scenario: &Scenario,
    (experiment, words): (Option<&Path>, &[OsString]),
    (seeds, err): (u32, &mut impl Write),
) -> Result<Vec<Outcome>> {
    let mut words: Vec<OsString> = words.iter().skip(1).cloned().collect();
    let verb = words.iter().position(|word| word == "run");
    words.insert(verb.map_or(0, |verb| verb + 1), "--guest".into());
    let files: Vec<&Path> = experiment.into_iter().collect();
    let limit = scenario
        .duration_ns
        .map_or(real::LONGEST, Duration::from_nanos);
    let scenarios = std::slice::from_ref(scenario);
    let done = in_vm::run(
        image,
        scenarios,
        words,
        &files,
        limit * (2 * seeds + 1) * 20,
    )?;
    let metrics: Vec<MetricMap> = serde_json::from_str(done.stdout.trim()).map_err(|error| {
        Error::general(format!(
            "the guest printed something else than results: {error}"
        ))
    })?;
    if done.accelerator == Accelerator::Emulation {
        real::note(
            err,
            "the guest was emulated: latencies and speeds are the emulator's",
        );
    }
    let outcome = |metrics| Outcome {
        event_hash: 0,
        metrics,
        ..Outcome::default()
    };
    Ok(metrics.into_iter().map(outcome).collect())
}

/// The kernel of the virtual machine to run in, if one is asked for.
pub(super) fn image(arguments: &RunArguments) -> Result<Option<KernelImage>> {
    let series = arguments.on.iter().filter_map(|place| match place {
        Where::Vm(series) => Some(series),
        _ => None,
    });
    match series.collect::<Vec<_>>().as_slice() {
        _ if arguments.guest => Ok(None),
        [] => Ok(None),
        [series] => KernelImage::find(series).map(Some).map_err(Error::from),
        _ => Err(Error::usage("one virtual machine at a time")),
    }
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
    if arguments.on.iter().any(|place| *place != Where::Host) {
        return Ok(());
    }
    let columns = &question.columns;
    let added = columns.variants.iter().flat_map(|(_, settings)| settings);
    let flag = columns
        .leading
        .iter()
        .chain(added)
        .find_map(|setting| match setting {
            Setting::Flag { flag, .. } => Some(*flag),
            Setting::Set(_) => None,
        });
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
pub(super) fn run(
    (question, mut experiment, image): (&Question, Experiment, Option<&KernelImage>),
    arguments: &RunArguments,
    words: &[OsString],
    simulator: &impl Simulate,
    (out, err): (&mut impl Write, &mut impl Write),
) -> Result<()> {
    refuse_pictures(arguments)?;
    refuse_unused(question, arguments)?;
    let scenario = experiment.scenarios.remove(0);
    let cpus = Topology::read()?.cpus.len();
    let simulated = arguments.on.contains(&Where::Sim);
    if simulated && arguments.on.contains(&Where::Host) {
        refuse_other_machine(&scenario, cpus)?;
    }
    let seeds = experiment.seeds;
    let mut measured = BTreeMap::new();
    for place in arguments.on.iter().filter(|place| **place != Where::Sim) {
        let mut column = scenario.clone();
        let outcomes = match (place, image) {
            (Where::Vm(series), Some(image)) => {
                in_vm::refuse_other_kernels(image, std::slice::from_ref(&scenario))?;
                column.name = format!("vm:{series}");
                let from = (arguments.experiment.as_deref(), words);
                in_guest(image, &scenario, from, (seeds, err))?
            }
            _ => {
                column.name = HOST.to_owned();
                let info = KernelInfo::read()?;
                name_kernel(&mut column, &info.release, info.hz);
                real::repeats(&scenario, seeds, err)?
            }
        };
        measured.insert(column.name.clone(), outcomes);
        experiment.scenarios.push(column);
    }
    if simulated {
        let mut column = scenario.clone();
        column.name = SIM.to_owned();
        experiment.scenarios.push(column);
    }
    let both = Both {
        measured,
        simulator,
        all: arguments.output.verbose,
    };
    let mut answered = answer::answer(question, &experiment, &both, &|| {})?;
    let context = &mut answered.context;
    context.reproduce = output::reproduce(words);
    // The measurable figures are few enough to be shown whole.
    context.verbose = true;
    context.apply.clear();
    if !simulated {
        context.machine = match arguments.on.contains(&Where::Host) {
            true => format!("this host, {cpus} CPUs"),
            false => format!("virtual machine, {} CPUs", scenario.machine.cpus()),
        };
    }
    output::print(&answered, &arguments.output, out)
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
