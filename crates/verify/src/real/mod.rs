//! Scenarios run for real: on this host, or under another kernel in a virtual machine.
//!
//! ```text
//! scenario ─► groups, commands, servers ─► one run after the other ─► figures of each repeat
//!                    on vm:6.12: this same program in the guest ─► the same figures as JSON
//! ```
//!
//! Figures have the names that the simulation gives them, so that both can stand in one table.
//! Worked example: `hackbench` in `/test` runs in `/schedcast-2417/test`, and a repeat of it has
//! `hackbench/time` and `cgroup:/test/nr_throttled`.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use schedcast_base::disturbed::{OTHERS_MAX, STEAL_MAX};
use schedcast_host::real::{GroupSetup, ProgramSetup, RealRun, RealSetup};
use schedcast_host::server::Client;
use schedcast_host::tracefs::TraceInstance;
use schedcast_host::vm::{Accelerator, KernelImage};
use schedcast_host::{CommandReport, CommandSpec, Ending, KernelInfo, Scratch, Topology};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::{Action, Program};
use schedcast_lab::outcome::MetricMap;
use schedcast_lab::recording::Recorded;
use schedcast_workload::programs::{self, prefix};
use serde::{Deserialize, Serialize};

use crate::validate::GRACE_NS;

mod figures;
pub mod guest;
mod tools;

use guest::GuestCall;

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
/// Without a duration the programs have to end by themselves within this.
const LONGEST: Duration = Duration::from_secs(600);
/// A kernel still has things to do after it has booted: 6.12 a quarter of a second of CPU time.
const SETTLE: Duration = Duration::from_secs(3);

/// Purpose of the repeats of a scenario.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// They are shown. The groups stand below a new one, so that nothing else is in them. As many
    /// repeats as are wanted may be made once more because the hypervisor disturbed them. Wakeups
    /// are counted in one further run, because counting them slows the programs down.
    Shown,
    /// They are held against a forecast. The groups stand beside those of the host, disturbed
    /// repeats do not count, and latencies come from recordings, which are kept in a folder or
    /// nowhere.
    Judged(Option<&'a Path>),
}

/// Results of the repeats of one scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRepeats {
    /// CPUs of the machine.
    pub cpus: usize,
    /// Repeats that were dropped as disturbed.
    pub dropped: usize,
    /// Largest share of a repeat that the hypervisor took.
    pub steal: f64,
    /// The figures of each repeat under the names that the simulation gives them.
    pub samples: Vec<MetricMap>,
}

/// Where scenarios are run for real.
#[derive(Debug)]
pub enum RealMachine {
    /// On this host, of this kernel.
    Host(KernelInfo),
    /// In a virtual machine with this kernel.
    Guest(KernelImage),
}

impl RealMachine {
    /// Runs one scenario after the other, each so many times; `each` gets the place of a scenario,
    /// the kernel, and what was measured. A guest measures what `call` makes it find.
    ///
    /// # Errors
    /// A scenario that can only be simulated, a program that is not installed or fails, missing
    /// rights, and those of `each`.
    pub fn measure(
        &self,
        scenarios: &[Scenario],
        (repeats, purpose): (u32, Purpose<'_>),
        call: &GuestCall<'_>,
        mut each: impl FnMut(usize, &str, MeasuredRepeats) -> Result<()>,
    ) -> Result<()> {
        match self {
            RealMachine::Host(kernel) => {
                for (index, scenario) in scenarios.iter().enumerate() {
                    let measured = measure(scenario, repeats, purpose)?;
                    each(index, &kernel.release, measured)?;
                }
            }
            RealMachine::Guest(image) => {
                let (kernel, all) = guest::measure(image, scenarios, (repeats, purpose), call)?;
                for (index, measured) in all.into_iter().enumerate() {
                    each(index, &kernel, measured)?;
                }
            }
        }
        Ok(())
    }
}

/// Inside a guest: a line of JSON for each scenario, with its repeats.
///
/// # Errors
/// As for [`RealMachine::measure`].
pub fn serve(scenarios: &[Scenario], repeats: u32, purpose: Purpose<'_>) -> Result<String> {
    std::thread::sleep(SETTLE);
    let mut lines = String::new();
    for scenario in scenarios {
        let measured = measure(scenario, repeats, purpose)?;
        lines += &serde_json::to_string(&measured).expect("numbers are finite");
        lines += "\n";
    }
    Ok(lines)
}

/// Says something beside the results.
fn note(text: impl std::fmt::Display) {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(std::io::stderr(), "note: {text}");
}

/// Whether the guest around this process is emulated: its latencies say nothing about the kernel,
/// recording them would cost it dear, and when programs end is a matter of its speed.
fn is_emulated() -> bool {
    Accelerator::around() == Some(Accelerator::Emulation)
}

/// Runs `scenario` until there are `repeats` that count. Without samples: this machine has other
/// things to do, or is an emulator that says nothing about it.
fn measure(scenario: &Scenario, repeats: u32, purpose: Purpose<'_>) -> Result<MeasuredRepeats> {
    let is_judged = matches!(purpose, Purpose::Judged(_));
    if is_judged && scenario.duration_ns.is_none() && is_emulated() {
        return Ok(MeasuredRepeats::default());
    }
    let prepared = Prepared::new(scenario, purpose)?;
    let mut measured = MeasuredRepeats {
        cpus: Topology::read()?.cpus.len(),
        ..MeasuredRepeats::default()
    };
    while measured.samples.len() < repeats as usize {
        if is_judged && measured.dropped > DISTURBED_MAX {
            measured.samples.clear();
            break;
        }
        let must_count = !is_judged && measured.dropped >= repeats as usize;
        let number = measured.samples.len() + measured.dropped + 1;
        match prepared.repeat(number, must_count)? {
            Some((sample, steal)) => {
                measured.steal = measured.steal.max(steal);
                measured.samples.push(sample);
            }
            None => measured.dropped += 1,
        }
    }
    if let (Purpose::Shown, Some(first)) = (purpose, measured.samples.first_mut()) {
        // Servers do not tell their switches, programs do.
        let events = [("sched_waking", "wakeups"), ("sched_switch", "switches")];
        match prepared.counted(&events, first) {
            Ok(counted) => {
                for (metric, count) in counted {
                    first.entry(metric).or_insert(count);
                }
            }
            Err(error) => {
                let why = error.render();
                note(format_args!(
                    "wakeups and switches were not counted: {}",
                    why.trim()
                ));
            }
        }
    }
    Ok(measured)
}

/// After which the programs are ended. Inside an emulator starting a program takes its time; what
/// counts there is what was done within the duration.
fn limit(scenario: &Scenario, purpose: Purpose<'_>) -> Duration {
    let grace_ns = match purpose {
        Purpose::Judged(_) if !is_emulated() => GRACE_NS,
        _ => 0,
    };
    let duration = scenario.duration_ns;
    duration.map_or(LONGEST, |ns| Duration::from_nanos(ns + grace_ns))
}

/// Window that the simulation counts too, from the end of the warm-up to the end; `None` without a
/// warm-up or a duration.
fn window(scenario: &Scenario) -> Option<(Duration, Duration)> {
    let from = Duration::from_nanos(scenario.warmup_ns);
    let to = Duration::from_nanos(scenario.duration_ns?);
    (!from.is_zero()).then_some((from, to))
}

fn refuse_what_only_simulates(scenario: &Scenario, purpose: Purpose<'_>) -> Result<()> {
    let what = if scenario.programs.is_empty() {
        "an experiment without programs"
    } else if !scenario.changes.is_empty() {
        "changes while programs run ([[at]])"
    } else if scenario.warmup_ns > 0 && matches!(purpose, Purpose::Shown) && !is_emulated() {
        "a warm-up"
    } else if scenario.programs.iter().any(|one| one.start_ns > 0) {
        "a program that starts later than the others"
    } else {
        return Ok(());
    };
    let error = Error::general(format!("{what} can only be simulated"));
    Err(match purpose {
        Purpose::Shown => error.hint("leave out --on host"),
        Purpose::Judged(_) => error,
    })
}

/// The command line of a program without `systemd-run`, whose group is made here.
fn words_of(program: &Program, cpus: usize) -> Result<Vec<String>> {
    match &program.action.value {
        Action::Run(words) => Ok(prefix::within_unit(words, cpus)),
        Action::Replay(..) | Action::Profile(_) => {
            let message = "recordings and profiles can only be simulated";
            Err(Error::input(&program.action.place, message))
        }
    }
}

/// CPUs of the nearest group that says which.
fn cpus_of(scenario: &Scenario, path: &str) -> Option<Vec<usize>> {
    let mut path = path;
    while !path.is_empty() {
        let settings = scenario.cgroups.get(path);
        if let Some(cpus) = settings.and_then(|settings| settings.cpus.as_ref()) {
            return Some(cpus.cpus().iter().map(|&cpu| cpu as usize).collect());
        }
        path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    None
}

/// A program as it is started here.
struct Command<'a> {
    program: &'a Program,
    words: Vec<String>,
    /// Its tool, empty for a program that the simulation does not know.
    tool: &'static str,
}

impl<'a> Command<'a> {
    /// The program, which may write files of its own to `folder`, and how it is started.
    fn new(
        scenario: &Scenario,
        program: &'a Program,
        folder: &Path,
    ) -> Result<(Command<'a>, ProgramSetup)> {
        let words = words_of(program, scenario.machine.cpus())?;
        let Some(name) = words.first() else {
            let message = "a command without words";
            return Err(Error::input(&program.action.place, message));
        };
        tools::find(name)?;
        let client = Client::prepare(&words)?;
        let typed = client.as_ref().map_or(&words[..], Client::words);
        let tool = programs::tool(&words).map_or("", |tool| tool.name);
        let spec = match tool {
            // Its logs go where it runs, and it says on standard error what others say on standard
            // output.
            "rt-app" => {
                let whole = |word: &String| match std::fs::canonicalize(word) {
                    Ok(path) => path.display().to_string(),
                    Err(_) => word.clone(),
                };
                let shell = CommandSpec::new("sh").args(["-c", "cd \"$0\" && exec \"$@\" 2>&1"]);
                let shell = shell.arg(folder).arg(name);
                shell.args(typed[1..].iter().map(whole))
            }
            "schbench" | "schbench-classic" => CommandSpec::new("sh")
                .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
                .args(typed),
            _ => CommandSpec::new(&typed[0]).args(&typed[1..]),
        };
        let mut setup = ProgramSetup {
            command: spec,
            cgroup: program.cgroup.clone(),
            server: client.map(|client| (client, None)),
        };
        if let Some(cpus) = cpus_of(scenario, &program.cgroup) {
            setup.command = setup.command.cpus(&cpus);
        }
        let of_server = setup
            .server_cgroup()
            .and_then(|path| cpus_of(scenario, path));
        if let Some((_, cpus)) = &mut setup.server {
            *cpus = of_server;
        }
        let command = Command {
            program,
            words,
            tool,
        };
        Ok((command, setup))
    }
}

/// A scenario whose programs, servers and groups are known, ready to be run.
struct Prepared<'a> {
    scenario: &'a Scenario,
    purpose: Purpose<'a>,
    commands: Vec<Command<'a>>,
    setup: RealSetup,
    /// For logs of programs and for recordings that are not kept.
    scratch: Scratch,
}

impl<'a> Prepared<'a> {
    fn new(scenario: &'a Scenario, purpose: Purpose<'a>) -> Result<Prepared<'a>> {
        refuse_what_only_simulates(scenario, purpose)?;
        let scratch = Scratch::new("schedcast-")?;
        let programs = scenario.programs.iter();
        let programs: Vec<_> = programs
            .map(|program| Command::new(scenario, program, scratch.path()))
            .collect::<Result<_>>()?;
        let (commands, programs) = programs.into_iter().unzip();
        let groups = scenario.cgroups.iter();
        let setup = RealSetup {
            has_own_root: matches!(purpose, Purpose::Shown),
            groups: groups
                .map(|(path, group)| GroupSetup {
                    path: path.clone(),
                    files: figures::files(group),
                })
                .collect(),
            programs,
            timeout: limit(scenario, purpose),
            window: window(scenario),
        };
        Ok(Prepared {
            scenario,
            purpose,
            commands,
            setup,
            scratch,
        })
    }

    /// The figures of one repeat, and what the hypervisor took of it; `None` if it does not count.
    fn repeat(&self, number: usize, must_count: bool) -> Result<Option<(MetricMap, f64)>> {
        let is_slow = Accelerator::around().is_some_and(|guest| guest != Accelerator::Kvm);
        if let (Purpose::Judged(kept), false) = (self.purpose, is_slow) {
            return self.recorded(number, kept);
        }
        let real = self.once(None)?;
        if !must_count && !self.is_undisturbed(&real) {
            return Ok(None);
        }
        let mut figures = self.counters(&real);
        // An emulator's latencies say nothing about the kernel, but where threads are placed does.
        if matches!(self.purpose, Purpose::Judged(_))
            && !is_emulated()
            && self.setup.window.is_none()
        {
            let events = [
                ("sched_waking", "wakeups"),
                ("sched_migrate_task", "migrations"),
            ];
            let counted = self.counted(&events, &figures)?;
            figures.extend(counted);
        }
        Ok(Some((figures, real.report.steal_ratio)))
    }

    /// The same with latencies from a recording, which stays in the folder `kept`, if in any.
    fn recorded(&self, number: usize, kept: Option<&Path>) -> Result<Option<(MetricMap, f64)>> {
        let name = format!("{}-{number}", self.scenario.name.replace('/', "_"));
        let folder = kept.unwrap_or(self.scratch.path()).join(name);
        let mut real = self.once(Some(&folder))?;
        if !self.is_undisturbed(&real) {
            return Ok(None);
        }
        let recorded = Recorded::open(&folder)?;
        if kept.is_none() {
            // It goes with the other files at the latest.
            let _ = std::fs::remove_dir_all(&folder);
        }
        let cost = recording_cost(&real);
        let mut figures = match cost > EVENTS_MOST {
            true => MetricMap::new(),
            false => self.latencies(&recorded),
        };
        let mut steal = real.report.steal_ratio;
        if cost > EVENTS_MAX {
            real = self.once(None)?;
            if !self.is_undisturbed(&real) {
                return Ok(None);
            }
            steal = steal.max(real.report.steal_ratio);
        }
        figures.extend(self.counters(&real));
        Ok(Some((figures, steal)))
    }

    /// One run; the recording goes to `folder`, if there is one.
    fn once(&self, folder: Option<&Path>) -> Result<RealRun> {
        let real = self.setup.run(folder)?;
        let mut commands = real.report.commands.iter();
        let failed = |command: &&CommandReport| command.ending != Ending::Exited(0);
        match (real.report.timed_out, self.scenario.duration_ns) {
            (true, Some(_)) => Ok(real),
            (true, None) => {
                let seconds = LONGEST.as_secs();
                let error = Error::general(format!("a program still ran after {seconds} s"));
                Err(error.hint("--duration 20s, or [run] duration = \"20s\", ends it after that"))
            }
            (false, _) => match commands.find(failed) {
                Some(command) => Err(ended_badly(command)),
                None => Ok(real),
            },
        }
    }

    /// Whether the hypervisor and, where that matters, other programs took little enough of a run.
    fn is_undisturbed(&self, real: &RealRun) -> bool {
        let (steal, others) = (real.report.steal_ratio, real.others_ratio);
        // A guest has no others.
        let others_matter =
            matches!(self.purpose, Purpose::Judged(_)) && Accelerator::around().is_none();
        let counts = steal <= STEAL_MAX && !(others_matter && others > OTHERS_MAX);
        if !counts {
            note(format_args!(
                "a repeat does not count: the hypervisor took {:.1} %, other programs {:.1} %",
                steal * 100.0,
                others * 100.0
            ));
        }
        counts
    }

    /// Events of the threads of each program and of its server, under the metrics beside them, in a
    /// run of its own; nothing where that was disturbed and is to be judged. Where a program counts
    /// its transactions the events are those of as many as in `repeat`. Programs whose threads have
    /// the same names cannot be told apart, and are left out.
    fn counted(&self, events: &[(&str, &str)], repeat: &MetricMap) -> Result<MetricMap> {
        let mut traces = Vec::new();
        let (told, alike) = tools::told_apart(self.threads().collect());
        if !alike.is_empty() {
            note(format_args!(
                "events of {} are not counted: their threads have the same names",
                alike.join(", ")
            ));
        }
        for (name, threads) in told {
            for (event, metric) in events {
                let field = match *event {
                    "sched_switch" => "prev_comm",
                    _ => "comm",
                };
                let filter = format!("{field} ~ \"{threads}\"");
                let instance = format!("schedcast-{}-{}", std::process::id(), traces.len());
                let trace = TraceInstance::counting(&instance, event, &filter)?;
                traces.push((format!("{name}/{metric}"), trace));
            }
        }
        let real = self.once(None)?;
        if matches!(self.purpose, Purpose::Judged(_)) && !self.is_undisturbed(&real) {
            return Ok(MetricMap::new());
        }
        let figures = self.counters(&real);
        let counted = traces.into_iter().map(|(metric, trace)| {
            let count = trace.counted()? as f64;
            let share = as_many(&metric, repeat, &figures).unwrap_or(1.0);
            Ok((metric, count * share))
        });
        counted.collect()
    }

    /// Names of all programs and of their servers, with patterns of the names of their threads.
    fn threads(&self) -> impl Iterator<Item = (String, String)> {
        let own = self.commands.iter().map(|command| {
            let program = prefix::length(&command.words).min(command.words.len() - 1);
            let threads = tools::threads(command.tool, &command.words[program]);
            (command.program.name.clone(), threads)
        });
        let servers = self.commands.iter().zip(&self.setup.programs);
        let servers = servers.filter_map(|(command, setup)| {
            let (client, _) = setup.server.as_ref()?;
            let name = format!("{}-server", command.program.name);
            Some((name, tools::threads("", client.server_name())))
        });
        own.chain(servers)
    }
}

/// Transactions of `metric`'s program in one run, divided by those in another; `None` where it does
/// not count any.
fn as_many(metric: &str, one: &MetricMap, other: &MetricMap) -> Option<f64> {
    let (program, _) = metric.rsplit_once('/')?;
    let program = program.strip_suffix("-server").unwrap_or(program);
    ["latency.count", "requests"].iter().find_map(|work| {
        let work = format!("{program}/{work}");
        let (one, other) = (one.get(&work)?, other.get(&work)?);
        (*other > 0.0).then(|| one / other)
    })
}

/// Share of the programs' CPU time that recording took, 0 to 1. 400,000 events in a second of
/// hackbench take 0.14 s of it.
fn recording_cost(real: &RealRun) -> f64 {
    let events = real.recorded.as_ref().map_or(0, |report| report.events);
    let served: Duration = real.servers.iter().flatten().sum();
    let used_ns = real.report.cpu_ns() + served.as_nanos() as u64;
    (events * EVENT_NS) as f64 / used_ns.max(1) as f64
}

fn ended_badly(command: &CommandReport) -> Error {
    let how = match command.ending {
        Ending::Exited(code) => format!("ended with {code}"),
        Ending::Killed(signal) => format!("was ended by signal {signal}"),
    };
    let printed = String::from_utf8_lossy(&command.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let error = Error::general(format!("`{}` {how}", command.command));
    match last {
        "" => error,
        last => error.hint(format!("the last it said: {last}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_another_run_are_those_of_as_many_transactions() {
        let run = |count: f64| MetricMap::from([("db/latency.count".to_owned(), count)]);
        for metric in ["db/wakeups", "db-server/switches"] {
            assert_eq!(as_many(metric, &run(200.0), &run(100.0)), Some(2.0));
        }
        assert_eq!(as_many("hackbench/wakeups", &run(2.0), &run(1.0)), None);
        assert_eq!(as_many("db/wakeups", &run(2.0), &run(0.0)), None);
    }
}
