//! The real side: every scenario run on this kernel, one repeat after the other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schedcast_host::twin::{self, GroupSetup, ProgramSetup, Real, Setup};
use schedcast_host::vm::Accelerator;
use schedcast_host::{Ending, Topology};
use schedcast_lab::error::{Diagnostic, Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::Action;
use schedcast_lab::recording::Recorded;
use schedcast_lab::validate::{self, Measured};

use super::super::host::host_error;

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

/// Runs `scenario` until there are `repeats` that count.
pub fn measure(scenario: &Scenario, repeats: u32) -> Result<Measured> {
    let setup = setup(scenario)?;
    // An emulator's latencies say nothing about the kernel, and recording them would cost it dear.
    let records = Accelerator::around() != Some(Accelerator::Emulation);
    let mut measured = Measured {
        cpus: Topology::read().map_err(host_error)?.cpus.len(),
        ..Measured::default()
    };
    while measured.samples.len() < repeats as usize {
        if measured.dropped > DISTURBED_MAX {
            let message = format!("{}: this machine has other things to do", scenario.name);
            let error = Diagnostic::general(message).hint("leave it alone meanwhile");
            return Err(Error::Input(Box::new(error)));
        }
        let folder = records.then(Scratch::new);
        let folder = folder.as_ref().map(|folder| folder.0.as_path());
        let real = twin::run_once(&setup, folder).map_err(host_error)?;
        refuse_failed(&real)?;
        // A guest has no others.
        let others = real.others_ratio > OTHERS_MAX && Accelerator::around().is_none();
        if real.run.steal_ratio > STEAL_MAX || others {
            measured.dropped += 1;
            continue;
        }
        measured.steal = measured.steal.max(real.run.steal_ratio);
        let recorded = folder.map(Recorded::open).transpose()?;
        let sample = figures(scenario, &setup, &real, recorded.as_ref());
        measured.samples.push(sample);
    }
    Ok(measured)
}

/// After which the programs are ended. Inside an emulator starting a program takes its time; what counts there is what
/// was done within the duration.
pub fn longest(scenario: &Scenario) -> Duration {
    let duration = scenario.duration_ns.map(Duration::from_nanos);
    match (duration, Accelerator::around()) {
        (None, _) => TIMEOUT,
        (Some(duration), Some(Accelerator::Emulation)) => duration,
        (Some(duration), _) => duration + GRACE,
    }
}

/// What the simulation counts in too: all but the warm-up.
fn window(scenario: &Scenario) -> Option<(Duration, Duration)> {
    let from = Duration::from_nanos(scenario.warmup_ns);
    let to = Duration::from_nanos(scenario.duration_ns?);
    (!from.is_zero()).then_some((from, to))
}

fn setup(scenario: &Scenario) -> Result<Setup> {
    let groups = validate::settings(scenario);
    let mut setup = Setup {
        groups: groups
            .into_iter()
            .map(|(path, files)| GroupSetup { path, files })
            .collect(),
        programs: Vec::new(),
        timeout: longest(scenario),
        window: window(scenario),
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
            return Err(super::bad_input(format!(
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
    recorded: Option<&Recorded>,
) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (program, command) in scenario.programs.iter().zip(&real.run.commands) {
        let name = &program.name;
        // What was ended has not told what its children used, and none has told what it used in a part of the time.
        if !real.run.timed_out && setup.window.is_none() {
            figures.insert(format!("{name}/cpu_time"), command.cpu_ns() as f64 / 1e9);
        }
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
        let of_commands = own.map(|(_, command)| command.cpu_ns()).sum();
        // Version 1 of cgroups counts it elsewhere.
        let of_commands = setup.window.is_none().then_some(of_commands);
        if let Some(usage_ns) = stat.usage_ns.or(of_commands) {
            put("usage_usec", usage_ns as f64 / 1000.0);
        }
    }
    let seen = recorded.and_then(|recorded| recorded.seen.figures.as_ref());
    for threads in seen.iter().flat_map(|seen| &seen.threads) {
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
    }
}
