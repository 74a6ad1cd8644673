//! `schedcast validate`: the same experiment for real and in simulation.
//!
//! On this host the real side is measured here. Under another kernel this same program is run in a
//! virtual machine with `--guest`: it measures what it finds there and prints a line of JSON for
//! each variant.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use schedcast_base::date::today;
use schedcast_base::fresh;
use schedcast_host::sys;
use schedcast_lab::error::{Error, Result, Source};
use schedcast_lab::experiment::{self, Experiment, Scenario, Surroundings, document};
use schedcast_lab::simulate::{Simulate, run_all};
use schedcast_verify::real::guest::{self, GuestCall};
use schedcast_verify::real::{self, Purpose, RealMachine};
use schedcast_verify::validate::{self, AsReal, Twin};

use crate::arguments::validate::{Place, ValidateArguments};
use crate::{output, written};

/// The experiment at `path` as it is simulated: a guest's kernel replaces the one that the file
/// names.
fn simulated(path: &Path, machine: &RealMachine, background: Option<&str>) -> Result<Experiment> {
    let mut surroundings = Surroundings::default();
    if let RealMachine::Guest(image) = machine {
        surroundings.settings = guest::layers(image);
        let as_released =
            document::parse_setting(&Source::of_command_line("--on", "kernel.patches=[]"), None)?;
        surroundings.settings.push(as_released);
    }
    let key = ["machine", "background"];
    let layer = background.map(|folder| document::flag_setting("--background", key, folder));
    surroundings.settings.extend(layer);
    let experiment = experiment::load(path, surroundings)?;
    if let RealMachine::Guest(image) = machine {
        guest::refuse_other_kernels(image, &experiment.scenarios)?;
    }
    Ok(experiment)
}

/// Inside the guest: measures every variant and prints a line of JSON for each.
fn serve(arguments: &ValidateArguments, out: &mut impl Write) -> Result<u8> {
    let surroundings = Surroundings {
        settings: guest::guest_layers(),
        ..Surroundings::default()
    };
    for path in &arguments.experiments {
        let mut experiment = experiment::load(path, surroundings.clone())?;
        select(&mut experiment, &arguments.variants);
        let text = real::serve(
            &experiment.scenarios,
            arguments.repeats,
            Purpose::Judged(None),
        )?;
        written(out.write_all(text.as_bytes()))?;
    }
    Ok(0)
}

/// The experiment at `path` as it is measured inside a guest.
fn guest_call<'a>(path: &'a Path, arguments: &ValidateArguments) -> GuestCall<'a> {
    let mut words: Vec<OsString> = ["validate", "--guest", "--repeats"]
        .map(OsString::from)
        .to_vec();
    words.push(arguments.repeats.to_string().into());
    for variant in &arguments.variants {
        words.extend(["--variant".into(), variant.into()]);
    }
    words.push(path.into());
    GuestCall {
        words,
        files: vec![path],
    }
}

/// Name of a variant of a file in results: `limits / half a CPU`.
fn title(path: &Path, scenario: &Scenario) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    format!("{stem} / {}", scenario.name)
}

/// Leaves the variants that were asked for; all, if none were.
fn select(experiment: &mut Experiment, variants: &[String]) {
    let wanted = |scenario: &Scenario| variants.is_empty() || variants.contains(&scenario.name);
    experiment.scenarios.retain(wanted);
}

/// All experiments with the variants that were asked for, and where they stand.
fn load<'a>(
    arguments: &'a ValidateArguments,
    machine: &RealMachine,
) -> Result<Vec<(&'a Path, Experiment)>> {
    let mut all = Vec::new();
    for path in &arguments.experiments {
        let experiment = simulated(path, machine, arguments.background.as_deref())?;
        all.push((path.as_path(), experiment));
    }
    let scenarios = all.iter().flat_map(|(_, experiment)| &experiment.scenarios);
    let names: Vec<&str> = scenarios.map(|one| one.name.as_str()).collect();
    let is_known = |name: &&String| names.contains(&name.as_str());
    if let Some(name) = arguments.variants.iter().find(|name| !is_known(name)) {
        let error = Error::usage(format!("no variant is named `{name}`"));
        return Err(match schedcast_base::names::nearest(name, names) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        });
    }
    for (path, experiment) in &mut all {
        select(experiment, &arguments.variants);
        refuse_empty(path, experiment)?;
    }
    Ok(all)
}

/// Nothing can be compared of a variant that starts nothing.
fn refuse_empty(path: &Path, experiment: &Experiment) -> Result<()> {
    let mut scenarios = experiment.scenarios.iter();
    match scenarios.find(|one| one.programs.is_empty()) {
        None => Ok(()),
        Some(one) => {
            let message = format!("{}: `{}` starts no program", path.display(), one.name);
            Err(Error::general(message).hint("add [[program]] run = \"…\""))
        }
    }
}

/// Refuses a recording of the host as background of a guest.
fn refuse_foreign_background(arguments: &ValidateArguments) -> Result<()> {
    match (&arguments.background, &arguments.on) {
        (Some(_), Place::Vm(_)) => {
            let error = Error::usage("--background is a recording of the host, not of a guest");
            Err(error.hint("validate it with --on host"))
        }
        _ => Ok(()),
    }
}

fn refuse_users() -> Result<()> {
    if sys::is_root() {
        return Ok(());
    }
    let error = Error::usage("real cgroups and recordings are for root");
    Err(error.hint("run it with sudo"))
}

/// Runs everything and prints the table.
pub(super) fn validate(
    arguments: &ValidateArguments,
    simulator: &impl Simulate,
    out: &mut impl Write,
) -> Result<u8> {
    if arguments.guest {
        return serve(arguments, out);
    }
    refuse_foreign_background(arguments)?;
    output::refuse_unwritable([arguments.results.as_ref(), arguments.page.as_ref()])?;
    let simulator = &AsReal(simulator);
    let machine = arguments.on.machine()?;
    let experiments = load(arguments, &machine)?;
    if let Some(path) = &arguments.measured {
        let twins = predict_again((arguments, path), &experiments, simulator)?;
        written(out.write_all(validate::render_text(&twins).as_bytes()))?;
        return Ok(0);
    }
    if matches!(machine, RealMachine::Host(_)) {
        refuse_users()?;
    }
    let mut twins = Vec::new();
    let mut disturbed = Vec::new();
    for (path, experiment) in &experiments {
        let seeds = arguments.seeds.unwrap_or(experiment.seeds);
        let scenarios = &experiment.scenarios;
        let simulated = run_all(simulator, scenarios, seeds, &|| {})?;
        let purpose = Purpose::Judged(arguments.recordings.as_deref());
        let wanted = (arguments.repeats, purpose);
        let call = guest_call(path, arguments);
        machine.measure(scenarios, wanted, &call, |index, kernel, measured| {
            let name = title(path, &scenarios[index]);
            if measured.samples.is_empty() {
                disturbed.extend((measured.dropped > 0).then_some(name));
                return Ok(());
            }
            let measured_on = (today(), kernel.to_owned());
            let simulated = (&scenarios[index], simulated[index].as_slice());
            twins.push(Twin::of(name, measured_on, &measured, simulated));
            // Finished measurements are kept, whatever happens to the next.
            keep(arguments, &twins)
        })?;
    }
    written(out.write_all(validate::render_text(&twins).as_bytes()))?;
    match disturbed.is_empty() {
        true => Ok(0),
        false => {
            let message = format!(
                "this machine has other things to do; not measured: {}",
                disturbed.join(", ")
            );
            Err(Error::general(message).hint("leave it alone meanwhile"))
        }
    }
}

/// Simulates every variant that `path` has measured figures of, beside those.
fn predict_again(
    (arguments, path): (&ValidateArguments, &Path),
    experiments: &[(&Path, Experiment)],
    simulator: &impl Simulate,
) -> Result<Vec<Twin>> {
    if !path.exists() {
        let error = std::io::Error::other("there is no such file");
        return Err(Error::file("read", path.display(), &error));
    }
    let measured = validate::read_results(path)?;
    let mut twins = Vec::new();
    for (path, experiment) in experiments {
        let seeds = arguments.seeds.unwrap_or(experiment.seeds);
        for scenario in &experiment.scenarios {
            let name = title(path, scenario);
            let found = measured.iter().find(|twin| twin.scenario == name);
            let Some(mut twin) = found.cloned() else {
                continue;
            };
            let one = std::slice::from_ref(scenario);
            let outcomes = run_all(simulator, one, seeds, &|| {})?;
            twin.predict_again(scenario, &outcomes[0]);
            twins.push(twin);
        }
    }
    if twins.is_empty() {
        let message = format!("{}: nothing of these experiments is in it", path.display());
        return Err(Error::general(message));
    }
    keep(arguments, &twins)?;
    Ok(twins)
}

/// Writes results and page.
fn keep(arguments: &ValidateArguments, new: &[Twin]) -> Result<()> {
    let earlier = arguments.results.as_ref().or(arguments.measured.as_ref());
    let mut all = match earlier {
        Some(path) => validate::read_results(path)?,
        None => Vec::new(),
    };
    validate::replace(&mut all, new.to_vec());
    if let Some(path) = &arguments.results {
        validate::write_results(path, &all)?;
    }
    let reasons = validate::read_reasons(arguments.reasons.as_deref())?;
    match &arguments.page {
        Some(path) => fresh::save(path, validate::render_page(&all, &reasons)),
        None => Ok(()),
    }
}
