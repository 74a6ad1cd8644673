//! The real client in one group and the real server in another.

use std::time::Duration;

use schedcast_base::disturbed::STEAL_MAX;
use schedcast_host::server::{self, Server};
use schedcast_host::{
    CommandSpec, CpuCgroup, Ending, Output, RunReport, run_in, tracefs::TraceInstance,
};

use super::cases::Case;
use super::{Values, push};
use crate::Outcome;
use crate::real::numbers_after;

const REPEATS: usize = 5;
const COUNTED: usize = 2;
/// A repeat counts when all other processes together took less than this part of a CPU. Kernel
/// threads that serve the case are among them.
const OTHERS_MAX: f64 = 0.1;
/// Times that are tried for each repeat that is wanted.
const TRIES: usize = 4;
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A case's client as it is started, with the server that it needs.
struct Client {
    words: Vec<String>,
    served: Option<server::Client>,
}

impl Client {
    fn of(case: &Case) -> Outcome<Self> {
        let words: Vec<String> = case.command.split(' ').map(str::to_owned).collect();
        let served = server::Client::prepare(&words)?;
        let words = served.as_ref().map_or(words, |one| one.words().to_vec());
        Ok(Self { words, served })
    }
}

/// Runs a case, first for its times, then with its wakeups and switches counted.
pub(super) fn run(case: &Case) -> Outcome<Values> {
    let client = CpuCgroup::create("/", "server-twins-client")?;
    let group = CpuCgroup::create("/", "server-twins")?;
    let command = Client::of(case)?;
    let start = |one: &server::Client| one.start(&group, Some(case.cpus));
    let server = command.served.as_ref().map(start).transpose()?;
    if let Some(limit) = case.limit {
        let limited = if case.is_served() { &group } else { &client };
        limited.apply("cpu.max", limit)?;
    }
    let mut values = Values::new();
    let side = (&command, &client);
    undisturbed(REPEATS, || timed(case, side, server.as_ref(), &mut values))?;
    undisturbed(COUNTED, || {
        counted(case, side, server.as_ref(), &mut values)
    })?;
    drop(server);
    client.close()?;
    group.close()?;
    Ok(values)
}

/// Repeats until `wanted` runs were undisturbed, up to a limit.
fn undisturbed(wanted: usize, mut run: impl FnMut() -> Outcome<bool>) -> Outcome<()> {
    let mut kept = 0;
    for _ in 0..wanted * TRIES {
        kept += usize::from(run()?);
        if kept == wanted {
            return Ok(());
        }
    }
    Err(format!("{kept} of {wanted} runs were undisturbed: others use the machine").into())
}

/// CPU time of all processes since the start of the machine, seconds: columns of `/proc/stat`
/// without idle and stolen time. Ticks sample it, so it can be less than what the kernel charged to
/// tasks that sleep and wake all the time.
fn busy_s() -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let numbers = numbers_after(&text, "cpu ");
    let at = |column: usize| numbers.get(column).copied().unwrap_or(0.0);
    Ok((at(0) + at(1) + at(2) + at(5) + at(6)) / 100.0)
}

/// A run of the client, with what client and server used.
struct Run {
    report: RunReport,
    client_s: f64,
    server_s: Option<f64>,
    is_undisturbed: bool,
}

fn watched(case: &Case, side: (&Client, &CpuCgroup), server: Option<&Server>) -> Outcome<Run> {
    let used_s = || server.map(|server| server.cpu_time().as_secs_f64());
    let (busy, before_s) = (busy_s()?, used_s());
    let report = once(case, side)?;
    // Server processes of a connection end a little after it.
    std::thread::sleep(Duration::from_millis(100));
    let busy = busy_s()? - busy;
    let server_s = used_s().zip(before_s).map(|(after, before)| after - before);
    let client_s = report.commands[0].cpu_ns() as f64 / 1e9;
    let others = (busy - client_s - server_s.unwrap_or(0.0)) / (report.wall_ns as f64 / 1e9);
    let is_undisturbed = report.steal_ratio <= STEAL_MAX && others <= OTHERS_MAX;
    if !is_undisturbed {
        eprintln!(
            "  dropped a run with {:.1} % steal and {:.0} % of a CPU for others",
            report.steal_ratio * 100.0,
            others * 100.0
        );
    }
    Ok(Run {
        report,
        client_s,
        server_s,
        is_undisturbed,
    })
}

fn once(case: &Case, (command, group): (&Client, &CpuCgroup)) -> Outcome<RunReport> {
    let words = &command.words;
    let spec = CommandSpec::new(&words[0])
        .args(&words[1..])
        .cpus(case.cpus)
        .output(Output::Capture);
    let report = run_in(group, &[spec], TIME_LIMIT)?;
    match report.commands[0].ending {
        Ending::Exited(0) => Ok(report),
        ending => Err(format!("{} ended with {ending:?}", case.command).into()),
    }
}

fn timed(
    case: &Case,
    side: (&Client, &CpuCgroup),
    server: Option<&Server>,
    values: &mut Values,
) -> Outcome<bool> {
    let run = watched(case, side, server)?;
    if !run.is_undisturbed {
        return Ok(false);
    }
    let command = &run.report.commands[0];
    let text = String::from_utf8_lossy(&command.stdout);
    let count = number(&text, case.words[1])?;
    push(values, 0, number(&text, case.words[0])?);
    push(values, 1, latency_ms(&text, case.latency)?);
    push(values, 2, run.client_s * 1e6 / count);
    if let Some(server_s) = run.server_s {
        push(values, 3, server_s * 1e6 / count);
    }
    let usage = command.usage;
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    push(values, 4, switches as f64 / count);
    Ok(true)
}

fn counted(
    case: &Case,
    side: (&Client, &CpuCgroup),
    server: Option<&Server>,
    values: &mut Values,
) -> Outcome<bool> {
    let tool = case.command.split(' ').next().unwrap_or_default();
    let served = side.0.served.as_ref();
    let names = served.map_or("no such task".to_owned(), |one| {
        format!("{}*", one.server_name())
    });
    let filter = format!("comm ~ \"{tool}*\" || comm ~ \"{names}\"");
    let wakeups = TraceInstance::counting("server-twins-w", "sched_waking", &filter)?;
    let filter = format!("prev_comm ~ \"{names}\"");
    let switches = TraceInstance::counting("server-twins-s", "sched_switch", &filter)?;
    let run = watched(case, side, server)?;
    let (wakeups, switches) = (wakeups.counted()?, switches.counted()?);
    if !run.is_undisturbed {
        return Ok(false);
    }
    let text = String::from_utf8_lossy(&run.report.commands[0].stdout);
    let count = number(&text, case.words[1])?;
    push(values, 6, wakeups as f64 / count);
    if case.is_served() {
        push(values, 5, switches as f64 / count);
    }
    Ok(true)
}

/// The first number behind a word, or before one that is marked with `<`.
fn number(text: &str, word: &str) -> Outcome<f64> {
    let number = match word.strip_prefix('<') {
        Some(word) => text
            .split_once(word)
            .and_then(|(before, _)| before.split_whitespace().last()?.parse().ok()),
        None => numbers_after(text, word).first().copied(),
    };
    Ok(number.ok_or_else(|| format!("no number at {word:?} in {text}"))?)
}

/// A latency, which may have its unit right behind it.
fn latency_ms(text: &str, word: &str) -> Outcome<f64> {
    let rest = text.split_once(word).map_or("", |(_, rest)| rest);
    let token = rest.split_whitespace().next().unwrap_or("");
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
    let of = |(unit, ms): &(&str, f64)| Some(token.strip_suffix(unit)?.parse::<f64>().ok()? * ms);
    match token.parse().ok().or_else(|| units.iter().find_map(of)) {
        Some(latency_ms) => Ok(latency_ms),
        None => Err(format!("no latency behind {word:?} in {text}").into()),
    }
}
