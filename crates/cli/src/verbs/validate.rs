//! `schedcast validate`: the same experiment for real and in simulation.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use schedcast_host::twin::{self, GroupSetup, ProgramSetup, Real, Setup};
use schedcast_host::{Ending, KernelInfo, Topology, sys};
use schedcast_lab::error::{Diagnostic, Error, Result};
use schedcast_lab::experiment::program::Action;
use schedcast_lab::experiment::{self, Scenario, Surroundings};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulate::{Simulate, run_all};
use schedcast_lab::validate::{self, Twin};

use super::host::host_error;
use crate::arguments::validate::ValidateArguments;
use crate::written;

/// Repeats of which the hypervisor took more do not count.
const STEAL_MAX: f64 = 0.01;
/// Nor do those of which other programs took more.
const OTHERS_MAX: f64 = 0.03;
/// So many disturbed repeats are one too many.
const DISTURBED_MAX: usize = 6;
/// Real runs of a scenario without a duration end after this.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Beyond the scenario's duration.
const GRACE: Duration = Duration::from_secs(3);

/// Runs everything and prints the table.
pub fn validate(
    arguments: &ValidateArguments,
    simulator: &impl Simulate,
    out: &mut impl Write,
) -> Result<u8> {
    if !sys::is_root() {
        let error = Error::usage("real cgroups and recordings are for root");
        return Err(error.hint("run it with sudo"));
    }
    let mut twins = Vec::new();
    for path in &arguments.experiments {
        let experiment = experiment::load(path, Surroundings::default())?;
        let seeds = arguments.seeds.unwrap_or(experiment.seeds);
        let simulated = run_all(simulator, &experiment.scenarios, seeds, &|| {})?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        for (scenario, outcomes) in experiment.scenarios.iter().zip(&simulated) {
            let mut twin = real(scenario, arguments.repeats, seeds, |real| {
                validate::rows(outcomes, real)
            })?;
            twin.scenario = format!("{stem} / {}", scenario.name);
            twins.push(twin);
            // What was measured stays measured, whatever happens to the next.
            keep(arguments, &twins)?;
        }
    }
    written(out.write_all(validate::render_text(&twins).as_bytes()))?;
    Ok(0)
}

/// Writes results and page.
fn keep(arguments: &ValidateArguments, new: &[Twin]) -> Result<()> {
    let mut all = match &arguments.results {
        Some(path) => validate::read_results(path)?,
        None => Vec::new(),
    };
    validate::replace(&mut all, new.to_vec());
    if let Some(path) = &arguments.results {
        validate::write_results(path, &all)?;
    }
    match &arguments.page {
        Some(path) => std::fs::write(path, validate::render_page(&all))
            .map_err(|error| Error::file("write", path.display().to_string(), &error)),
        None => Ok(()),
    }
}

fn bad_input(message: String) -> Error {
    Error::Input(Box::new(Diagnostic::general(message)))
}

/// A folder for one recording, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let name = format!("schedcast-validate-{}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is only in the way of the next run, which says so.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The real side of one scenario.
fn real(
    scenario: &Scenario,
    repeats: u32,
    seeds: u32,
    compare: impl Fn(&[BTreeMap<String, f64>]) -> Vec<validate::Row>,
) -> Result<Twin> {
    let setup = setup(scenario)?;
    let mut samples = Vec::new();
    let (mut dropped, mut steal) = (0, 0.0f64);
    while samples.len() < repeats as usize {
        if dropped > DISTURBED_MAX {
            let message = format!("{}: this machine has other things to do", scenario.name);
            let error = Diagnostic::general(message).hint("leave it alone meanwhile");
            return Err(Error::Input(Box::new(error)));
        }
        let folder = Scratch::new();
        let real = twin::run_once(&setup, &folder.0).map_err(host_error)?;
        refuse_failed(&real)?;
        if real.run.steal_ratio > STEAL_MAX || real.others_ratio > OTHERS_MAX {
            dropped += 1;
            continue;
        }
        steal = steal.max(real.run.steal_ratio);
        let recorded = Recorded::open(&folder.0)?;
        samples.push(figures(scenario, &setup, &real, &recorded));
    }
    let kernel = KernelInfo::read().map_err(host_error)?;
    let cpus = Topology::read().map_err(host_error)?.cpus.len();
    Ok(Twin {
        scenario: scenario.name.clone(),
        date: today(),
        kernel: kernel.release,
        cpus,
        simulated: format!(
            "kernel {}, HZ {}, {seeds} seeds",
            scenario.kernel.version, scenario.kernel.hz
        ),
        repeats: [samples.len(), dropped],
        steal,
        rows: compare(&samples),
    })
}

/// The day, UTC, as 2026-11-21.
fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = since.map_or(0, |since| since.as_secs() / 86_400) as i64;
    // Days of the Gregorian calendar, counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

fn setup(scenario: &Scenario) -> Result<Setup> {
    let groups = validate::settings(scenario);
    let mut setup = Setup {
        groups: groups
            .into_iter()
            .map(|(path, files)| GroupSetup { path, files })
            .collect(),
        programs: Vec::new(),
        timeout: match scenario.duration_ns {
            Some(duration_ns) => Duration::from_nanos(duration_ns) + GRACE,
            None => TIMEOUT,
        },
    };
    for program in &scenario.programs {
        let Action::Run(words) = &program.action.value else {
            let message = "a recording cannot be run for real";
            return Err(Error::input(&program.action.place, message));
        };
        setup.programs.push(ProgramSetup {
            words: words.clone(),
            cgroup: program.cgroup.clone(),
        });
    }
    Ok(setup)
}

fn refuse_failed(real: &Real) -> Result<()> {
    for command in &real.run.commands {
        let ok = matches!(command.ending, Ending::Exited(0));
        if !ok && !real.run.timed_out {
            return Err(bad_input(format!(
                "`{}` ended with {:?}",
                command.command, command.ending
            )));
        }
    }
    Ok(())
}

/// The figures of one repeat under the names that the simulation gives them.
fn figures(
    scenario: &Scenario,
    setup: &Setup,
    real: &Real,
    recorded: &Recorded,
) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (program, command) in scenario.programs.iter().zip(&real.run.commands) {
        let name = &program.name;
        figures.insert(format!("{name}/cpu_time"), command.cpu_ns() as f64 / 1e9);
        if let Some(seconds) = printed_time(&String::from_utf8_lossy(&command.stdout)) {
            figures.insert(format!("{name}/time"), seconds);
        }
    }
    for (group, stat) in setup.groups.iter().zip(&real.groups) {
        let mut put = |metric: &str, value: f64| {
            figures.insert(format!("cgroup:{}/{metric}", group.path), value);
        };
        put("nr_periods", stat.nr_periods as f64);
        put("nr_throttled", stat.nr_throttled as f64);
        put("throttled_usec", stat.throttled_ns as f64 / 1000.0);
        let inside =
            |path: &str| path == group.path || path.starts_with(&format!("{}/", group.path));
        let programs = scenario.programs.iter().zip(&real.run.commands);
        let own = programs.filter(|(program, _)| inside(&program.cgroup));
        let usage_ns: u64 = own.map(|(_, command)| command.cpu_ns()).sum();
        put("usage_usec", usage_ns as f64 / 1000.0);
    }
    for threads in recorded.seen.figures.iter().flat_map(|seen| &seen.threads) {
        let name = plain_name(&threads.name);
        for (kind, of) in [
            ("activation_latency", &threads.activation_latency),
            ("wakeup_latency", &threads.wakeup_latency),
        ] {
            if of.count >= 20 {
                figures.insert(format!("{name}/{kind}.p50"), of.p50_ns as f64 / 1000.0);
                figures.insert(format!("{name}/{kind}.p99"), of.p99_ns as f64 / 1000.0);
            }
        }
    }
    figures
}

/// The name that an rt-app file gives a thread: rt-app itself adds `-0`, `-1`, ….
fn plain_name(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((plain, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

/// The seconds behind `Time:`, which hackbench prints.
fn printed_time(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("Time:")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_times_are_those_of_the_simulation() {
        assert_eq!(plain_name("fast-0"), "fast");
        assert_eq!(plain_name("kworker/0:1-ev"), "kworker/0:1-ev");
        assert_eq!(printed_time("Running…\nTime: 0.465\n"), Some(0.465));
        assert_eq!(printed_time("nothing"), None);
        assert_eq!(today().len(), 10);
    }
}
