//! One repeat after the other.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use schedcast_base::disturbed::STEAL_MAX;
use schedcast_host::server::{Client, Place, Servers};
use schedcast_host::tracefs::TraceInstance;
use schedcast_host::{CommandReport, CommandSpec, Ending, Output, RunReport, run_placed};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::program::{Action, Program};
use schedcast_lab::outcome::{MetricMap, Outcome};
use schedcast_workload::programs::{self, prefix, printed};

use super::tree::Tree;
use super::{cpu_times, tools};

/// Without a duration the programs have to end by themselves within this.
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// A program as it is started here.
struct Started<'a> {
    program: &'a Program,
    /// Without `systemd-run`, whose group is made here.
    words: Vec<String>,
    /// Its tool, empty for a program that the simulation does not know.
    tool: &'static str,
    spec: CommandSpec,
    /// The server that it needs, and the CPUs that this may use.
    client: Option<(Client, Option<Vec<usize>>)>,
}

impl Started<'_> {
    /// Where the server is to run, if it needs one.
    fn place<'a>(&'a self, tree: &'a Tree) -> Option<Place<'a>> {
        let (client, cpus) = self.client.as_ref()?;
        let path = client.server_cgroup(&self.program.cgroup);
        Some((client, tree.group(path), cpus.as_deref()))
    }
}

/// Runs the variant `repeats` times; what happens on the way is said on `err`.
pub(super) fn repeats(
    scenario: &Scenario,
    repeats: u32,
    err: &mut impl Write,
) -> Result<Vec<Outcome>> {
    refuse_what_only_simulates(scenario)?;
    let folder = tempfile::tempdir().map_err(|error| Error::file("create", "a folder", &error))?;
    let started = scenario
        .programs
        .iter()
        .map(|program| start(scenario, program, folder.path()))
        .collect::<Result<Vec<_>>>()?;
    let mut outcomes = Vec::new();
    let mut disturbed = 0;
    while outcomes.len() < repeats as usize {
        let (report, metrics) = once(scenario, &started)?;
        if report.steal_ratio > STEAL_MAX && disturbed < repeats {
            disturbed += 1;
            let percent = report.steal_ratio * 100.0;
            note(
                err,
                &format!("the hypervisor took {percent:.1} % of a repeat; once more"),
            );
            continue;
        }
        outcomes.push(Outcome {
            event_hash: 0,
            metrics,
            ..Outcome::default()
        });
    }
    match wakeups(scenario, &started) {
        Ok(counted) => outcomes[0].metrics.extend(counted),
        Err(error) => note(
            err,
            &format!("wakeups were not counted: {}", error.render().trim()),
        ),
    }
    Ok(outcomes)
}

/// Says something beside the results.
pub(super) fn note(err: &mut impl Write, text: &str) {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(err, "note: {text}");
}

fn refuse_what_only_simulates(scenario: &Scenario) -> Result<()> {
    let what = if scenario.programs.is_empty() {
        "an experiment without programs"
    } else if !scenario.changes.is_empty() {
        "changes while programs run ([[at]])"
    } else if scenario.warmup_ns > 0 {
        "a warm-up"
    } else if scenario.programs.iter().any(|one| one.start_ns > 0) {
        "a program that starts later than the others"
    } else {
        return Ok(());
    };
    Err(Error::general(format!("{what} can only be simulated")).hint("leave out --on host"))
}

fn start<'a>(scenario: &Scenario, program: &'a Program, folder: &Path) -> Result<Started<'a>> {
    let words = match &program.action.value {
        Action::Run(words) => prefix::within_unit(words, scenario.machine.cpus()),
        Action::Replay(..) | Action::Profile(_) => {
            let place = &program.action.place;
            let message = "recordings and profiles can only be simulated";
            return Err(Error::input(place, message));
        }
    };
    let [name, arguments @ ..] = &words[..] else {
        return Err(Error::input(
            &program.action.place,
            "a command without words",
        ));
    };
    tools::find(name)?;
    let client = Client::prepare(&words)?;
    let (name, arguments) = match client.as_ref().map(Client::words) {
        Some([name, arguments @ ..]) => (name, arguments),
        _ => (name, arguments),
    };
    let tool = programs::tool(&words).map_or("", |tool| tool.name);
    let mut spec = match tool {
        // Its logs go where it runs, and it says on standard error what others say on standard
        // output.
        "rt-app" => {
            let whole = |word: &String| match std::fs::canonicalize(word) {
                Ok(path) => path.display().to_string(),
                Err(_) => word.clone(),
            };
            let shell = CommandSpec::new("sh").args(["-c", "cd \"$0\" && exec \"$@\" 2>&1"]);
            shell
                .arg(folder)
                .arg(name)
                .args(arguments.iter().map(whole))
        }
        "schbench" | "schbench-classic" => CommandSpec::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&1", name])
            .args(arguments),
        _ => CommandSpec::new(name).args(arguments),
    };
    spec = spec.output(Output::Capture);
    if let Some(cpus) = cpus(scenario, &program.cgroup) {
        spec = spec.cpus(&cpus);
    }
    let client = client.map(|client| {
        let cpus = cpus(scenario, client.server_cgroup(&program.cgroup));
        (client, cpus)
    });
    Ok(Started {
        program,
        words,
        tool,
        spec,
        client,
    })
}

/// CPUs of the nearest group that says which.
fn cpus(scenario: &Scenario, path: &str) -> Option<Vec<usize>> {
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

fn once(scenario: &Scenario, started: &[Started]) -> Result<(RunReport, MetricMap)> {
    let mut tree = Tree::create(scenario)?;
    let places = started.iter().map(|one| one.place(&tree));
    let servers = Servers::start(places)?;
    tree.begin()?;
    let placed: Vec<_> = started
        .iter()
        .map(|one| (tree.group(&one.program.cgroup), &one.spec))
        .collect();
    let limit = scenario.duration_ns.map_or(LONGEST, Duration::from_nanos);
    let report = run_placed(&placed, limit)?;
    let mut metrics = tree.metrics()?;
    let used = servers.used();
    drop(servers);
    tree.close()?;
    if report.timed_out && scenario.duration_ns.is_none() {
        let seconds = LONGEST.as_secs();
        return Err(
            Error::general(format!("a program still ran after {seconds} s"))
                .hint("--duration 20s ends it after that"),
        );
    }
    for ((one, command), served) in started.iter().zip(&report.commands).zip(used) {
        if !report.timed_out && command.ending != Ending::Exited(0) {
            return Err(failed(command));
        }
        metrics.extend(of_command(one, command, served));
    }
    Ok((report, metrics))
}

fn failed(command: &CommandReport) -> Error {
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

fn of_command(one: &Started, command: &CommandReport, served: Option<Duration>) -> MetricMap {
    let name = &one.program.name;
    let usage = command.usage;
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    let mut metrics = MetricMap::from([
        (format!("{name}/time"), command.wall_ns as f64 / 1e9),
        (format!("{name}/switches"), switches as f64),
    ]);
    metrics.extend(cpu_times(name, command, served));
    let text = String::from_utf8_lossy(&command.stdout);
    metrics.extend(printed::metrics(one.tool, &one.words, name, &text));
    metrics
}

/// Wakeups of each program's threads, in a run of its own.
fn wakeups(scenario: &Scenario, started: &[Started]) -> Result<MetricMap> {
    let mut metrics = MetricMap::new();
    let instance = format!("schedcast-{}", std::process::id());
    let own = |one: &Started| {
        let threads = tools::threads(one.tool, &one.words[0]);
        (one.program.name.clone(), threads)
    };
    let of_server = |one: &Started| {
        let (client, _) = one.client.as_ref()?;
        let name = format!("{}-server", one.program.name);
        Some((name, tools::threads("", client.server_name())))
    };
    let counted = started.iter().map(own);
    for (name, threads) in counted.chain(started.iter().filter_map(of_server)) {
        let filter = format!("comm ~ \"{threads}\"");
        let trace = TraceInstance::counting(&instance, "sched_waking", &filter);
        let trace = trace?;
        once(scenario, started)?;
        let count = trace.counted()?;
        metrics.insert(format!("{name}/wakeups"), count as f64);
    }
    Ok(metrics)
}
