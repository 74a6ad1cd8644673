//! The real side: every scenario run on this kernel, one repeat after the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedcast_base::disturbed::{OTHERS_MAX, STEAL_MAX};
use schedcast_host::server::Client;
use schedcast_host::tracefs::TraceInstance;
use schedcast_host::twin::{self, GroupSetup, ProgramSetup, Real, Setup};
use schedcast_host::vm::Accelerator;
use schedcast_host::{Ending, Scratch, Topology};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::{Action, Program};
use schedcast_lab::recording::Recorded;
use schedcast_verify::validate::{self, MeasuredRepeats};
use schedcast_workload::programs::{self, printed};

use super::super::on_host::{cpu_times, tools};

/// A measurement with this many disturbed repeats is refused.
const DISTURBED_MAX: usize = 6;
/// Cost of a recorded event to the task in which it happens, ns (measured:
/// `docs/commands/record.md`).
const EVENT_NS: u64 = 350;
/// Where events cost more of what the programs used, counters come from runs without a recorder.
const EVENTS_MAX: f64 = 0.005;
/// Where they cost more than this, latencies are those of another, slower program, and are not
/// compared.
const EVENTS_MOST: f64 = 0.05;
/// The buffers in which placements are counted, and room in each for half a million of them.
const INSTANCE: &str = "schedcast-placements";
const BUFFER_KB: u32 = 32_768;
/// Real runs of a scenario without a duration end after this.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A folder for one recording, gone at the end unless it is to be kept.
enum Folder {
    Kept(PathBuf),
    Scratch(Scratch),
}

impl Folder {
    /// For repeat `number` of `scenario`, below `keep` if recordings are kept.
    fn new(scenario: &Scenario, number: usize, keep: Option<&Path>) -> Result<Folder> {
        Ok(match keep {
            Some(keep) => {
                let name = format!("{}-{number}", scenario.name.replace('/', "_"));
                Folder::Kept(keep.join(name))
            }
            None => Folder::Scratch(Scratch::new("schedcast-validate-")?),
        })
    }

    fn path(&self) -> &Path {
        match self {
            Folder::Kept(path) => path,
            Folder::Scratch(scratch) => scratch.path(),
        }
    }
}

/// Runs `scenario` until there are `repeats` that count. Without samples: this machine has other
/// things to do. The recordings go to `keep`, if anywhere.
pub(super) fn measure(
    scenario: &Scenario,
    repeats: u32,
    keep: Option<&Path>,
) -> Result<MeasuredRepeats> {
    let setup = setup(scenario)?;
    let clients = twin::prepare(&setup)?;
    let mut measured = MeasuredRepeats {
        cpus: Topology::read()?.cpus.len(),
        ..MeasuredRepeats::default()
    };
    while measured.samples.len() < repeats as usize {
        if measured.dropped > DISTURBED_MAX {
            measured.samples.clear();
            break;
        }
        let number = measured.samples.len() + measured.dropped + 1;
        let folder = Folder::new(scenario, number, keep)?;
        let Some((sample, steal)) = repeat(scenario, &setup, &clients, &folder)? else {
            measured.dropped += 1;
            continue;
        };
        measured.steal = measured.steal.max(steal);
        measured.samples.push(sample);
    }
    Ok(measured)
}

/// The figures of one repeat, and what the hypervisor took of it; `None` if it does not count.
fn repeat(
    scenario: &Scenario,
    setup: &Setup,
    clients: &[Option<Client>],
    folder: &Folder,
) -> Result<Option<(BTreeMap<String, f64>, f64)>> {
    // An emulator's latencies say nothing about the kernel, and recording them would cost it dear.
    if matches!(
        Accelerator::around(),
        Some(Accelerator::Emulation | Accelerator::Threads)
    ) {
        let real = once(setup, clients, None)?;
        let Some(real) = real else {
            return Ok(None);
        };
        let mut figures = counters(scenario, setup, clients, &real);
        if Accelerator::around() == Some(Accelerator::Threads) && setup.window.is_none() {
            figures.extend(placements(scenario, setup, clients)?);
        }
        return Ok(Some((figures, real.run.steal_ratio)));
    }
    let Some(mut real) = once(setup, clients, Some(folder.path()))? else {
        return Ok(None);
    };
    let recorded = Recorded::open(folder.path())?;
    let cost = recording_cost(&real);
    let mut figures = match cost > EVENTS_MOST {
        true => BTreeMap::new(),
        false => latencies(scenario, clients, &recorded),
    };
    let mut steal = real.run.steal_ratio;
    if cost > EVENTS_MAX {
        let Some(unrecorded) = once(setup, clients, None)? else {
            return Ok(None);
        };
        real = unrecorded;
        steal = steal.max(real.run.steal_ratio);
    }
    figures.extend(counters(scenario, setup, clients, &real));
    Ok(Some((figures, steal)))
}

/// One run; `None` if the hypervisor or other programs took too much of it.
fn once(setup: &Setup, clients: &[Option<Client>], folder: Option<&Path>) -> Result<Option<Real>> {
    let real = twin::run_once(setup, clients, folder)?;
    refuse_failed(&real)?;
    // A guest has no others.
    let others = real.others_ratio > OTHERS_MAX && Accelerator::around().is_none();
    let counts = real.run.steal_ratio <= STEAL_MAX && !others;
    if !counts {
        eprintln!(
            "note: a repeat does not count: the hypervisor took {:.1} %, other programs {:.1} %",
            real.run.steal_ratio * 100.0,
            real.others_ratio * 100.0
        );
    }
    Ok(counts.then_some(real))
}

/// Wakeups and migrations of the threads of each program, in a run of its own.
fn placements(
    scenario: &Scenario,
    setup: &Setup,
    clients: &[Option<Client>],
) -> Result<BTreeMap<String, f64>> {
    const EVENTS: [(&str, &str); 2] = [
        ("sched_waking", "wakeups"),
        ("sched_migrate_task", "migrations"),
    ];
    let names = EVENTS.map(|(event, _)| format!("sched/{event}"));
    let trace = TraceInstance::create(INSTANCE, BUFFER_KB, &names.each_ref().map(String::as_str));
    let trace = trace?;
    trace.start()?;
    let ran = once(setup, clients, None)?;
    trace.stop()?;
    let mut figures = BTreeMap::new();
    if ran.is_none() || trace.lost_events()? > 0 {
        return Ok(figures);
    }
    let kept = trace.text()?;
    for (program, setup) in scenario.programs.iter().zip(&setup.programs) {
        let tool = programs::tool(&setup.words).map_or("", |tool| tool.name);
        let comm = tools::threads(tool, setup.words.first().map_or("", String::as_str));
        let comm = format!(": comm={}", comm.trim_end_matches('*'));
        for (event, counted) in EVENTS {
            let wanted = format!("{event}{comm}");
            let count = kept.lines().filter(|line| line.contains(&wanted)).count();
            figures.insert(format!("{}/{counted}", program.name), count as f64);
        }
    }
    Ok(figures)
}

/// Share of the programs' CPU time that recording took, 0 to 1. 400,000 events in a second of
/// hackbench take 0.14 s of it.
fn recording_cost(real: &Real) -> f64 {
    let events = real.recorded.as_ref().map_or(0, |report| report.events);
    let served: Duration = real.servers.iter().flatten().sum();
    let used_ns = real.run.cpu_ns() + served.as_nanos() as u64;
    (events * EVENT_NS) as f64 / used_ns.max(1) as f64
}

/// After which the programs are ended. Inside an emulator starting a program takes its time; what
/// counts there is what was done within the duration.
pub(super) fn longest(scenario: &Scenario) -> Duration {
    let duration = scenario.duration_ns.map(Duration::from_nanos);
    match (duration, Accelerator::around()) {
        (None, _) => TIMEOUT,
        (Some(duration), Some(Accelerator::Emulation)) => duration,
        (Some(duration), _) => duration + Duration::from_nanos(validate::GRACE_NS),
    }
}

/// Window that the simulation counts too, from the end of the warm-up to the end; `None` without a
/// warm-up or a duration.
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
            return Err(Error::general(format!(
                "`{}` ended with {:?}",
                command.command, command.ending
            )));
        }
    }
    Ok(())
}

/// Figures of one run from tools and counters, under the names that the simulation gives them.
fn counters(
    scenario: &Scenario,
    setup: &Setup,
    clients: &[Option<Client>],
    real: &Real,
) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for (index, (program, command)) in scenario.programs.iter().zip(&real.run.commands).enumerate()
    {
        let name = &program.name;
        // Ended programs have not told the usage of their children, and no program tells its usage
        // in a part of the time.
        if !real.run.timed_out && setup.window.is_none() {
            figures.extend(cpu_times(name, command, real.servers[index]));
        }
        let words = &setup.programs[index].words;
        let tool = programs::tool(words).map_or("", |tool| tool.name);
        let text = String::from_utf8_lossy(&command.stdout);
        figures.extend(printed::metrics(tool, words, name, &text));
    }
    for (group, stat) in setup.groups.iter().zip(&real.groups) {
        let mut put = |metric: &str, value: f64| {
            figures.insert(format!("cgroup:{}/{metric}", group.path), value);
        };
        put("nr_periods", stat.nr_periods.unwrap_or(0) as f64);
        put("nr_throttled", stat.nr_throttled.unwrap_or(0) as f64);
        put(
            "throttled_usec",
            stat.throttled_ns.unwrap_or(0) as f64 / 1000.0,
        );
        // Version 1 of cgroups counts it elsewhere.
        let of_programs = || used_in(&group.path, setup, clients, real);
        let usage_ns = match setup.window {
            None => Some(stat.usage_ns.unwrap_or_else(of_programs)),
            Some(_) => stat.usage_ns,
        };
        if let Some(usage_ns) = usage_ns {
            put("usage_usec", usage_ns as f64 / 1000.0);
        }
    }
    figures
}

/// CPU time of the programs and servers in a group and below it, ns.
fn used_in(group: &str, setup: &Setup, clients: &[Option<Client>], real: &Real) -> u64 {
    let inside = |path: &str| {
        let below = path.strip_prefix(group);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut used_ns = 0;
    for (index, program) in setup.programs.iter().enumerate() {
        if inside(&program.cgroup) {
            used_ns += real.run.commands[index].cpu_ns();
        }
        let client = clients[index].as_ref();
        let server = client.map(|client| client.server_cgroup(&program.cgroup));
        if server.is_some_and(inside) {
            used_ns += real.servers[index].map_or(0, |served| served.as_nanos() as u64);
        }
    }
    used_ns
}

/// The latencies that a recording shows, under the names that the simulation gives the threads.
fn latencies(
    scenario: &Scenario,
    clients: &[Option<Client>],
    recorded: &Recorded,
) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    let seen = recorded.seen.figures.iter();
    for threads in seen.flat_map(|seen| &seen.threads) {
        let programs = scenario.programs.iter().zip(clients);
        let mut names = programs.filter_map(|(program, client)| {
            let is_server = |client: &Client| client.server_name() == threads.name;
            match client.as_ref().is_some_and(is_server) {
                true => Some(format!("{}-server", program.name)),
                false => (tool_of(program) == threads.name).then(|| program.name.clone()),
            }
        });
        let plain = || plain_name(&threads.name).to_owned();
        let name = names.next().unwrap_or_else(plain);
        for (kind, of) in [
            ("turn_latency", &threads.turn_latency),
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

/// Name of the program's executable, which is also that of most of its threads; empty for programs
/// that are no command.
fn tool_of(program: &Program) -> &str {
    let Action::Run(words) = &program.action.value else {
        return "";
    };
    let word = words.first().map_or("", String::as_str);
    word.rsplit('/').next().unwrap_or(word)
}

/// The name that an rt-app file gives a thread: rt-app itself adds `-0`, `-1`, ….
fn plain_name(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((plain, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_simulation() {
        assert_eq!(plain_name("fast-0"), "fast");
        assert_eq!(plain_name("kworker/0:1-ev"), "kworker/0:1-ev");
    }
}
