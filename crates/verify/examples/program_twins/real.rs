//! The real tool in a real cgroup.

use std::time::Duration;

use schedcast_base::date::today;
use schedcast_base::disturbed::STEAL_MAX;
use schedcast_host::{
    CommandReport, CommandSpec, CpuCgroup, Ending, KernelInfo, Output, RunReport, run_in,
    tracefs::TraceInstance,
};

use crate::cases::{Case, Value};
use crate::{Measured, Outcome};

const REPEATS: usize = 7;
const COUNTED: usize = 3;
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Runs a case, first for its times, then with its wakeups counted.
pub(crate) fn run(case: &Case) -> Outcome<Measured> {
    let mut measured = Measured {
        case: case.name.to_owned(),
        date: today(),
        kernel: KernelInfo::read()?.release,
        values: Vec::new(),
        switches: Vec::new(),
        cpu_s: Vec::new(),
        wakeups: Vec::new(),
        steal: 0.0,
    };
    for _ in 0..REPEATS {
        let report = once(case)?;
        if report.steal_ratio > STEAL_MAX {
            eprintln!(
                "  dropped a run with {:.1} % steal",
                report.steal_ratio * 100.0
            );
            continue;
        }
        let command = &report.commands[0];
        measured.steal = measured.steal.max(report.steal_ratio);
        measured.values.push(value(case, command)?);
        let usage = command.usage;
        let switches = usage.voluntary_switches + usage.involuntary_switches;
        measured.switches.push(switches as f64);
        measured.cpu_s.push(command.cpu_ns() as f64 / 1e9);
    }
    for _ in 0..COUNTED {
        measured.wakeups.push(counted(case)? as f64);
    }
    Ok(measured)
}

fn once(case: &Case) -> Outcome<RunReport> {
    let group = CpuCgroup::create("/", "program-twins")?;
    group.allow_real_time(1)?;
    if let Some(limit) = case.limit {
        group.apply("cpu.max", limit)?;
    }
    let mut words = case.command.split_whitespace();
    let spec = CommandSpec::new(words.next().unwrap_or_default())
        .args(words)
        .cpus(case.cpus)
        .output(Output::Capture);
    let report = run_in(&group, &[spec], TIME_LIMIT)?;
    group.close()?;
    match report.commands[0].ending {
        Ending::Exited(0) => Ok(report),
        ending => Err(format!("{} ended with {ending:?}", case.command).into()),
    }
}

/// Wakeups of the tool's threads in one run.
fn counted(case: &Case) -> Outcome<u64> {
    let filter = format!("comm ~ \"{}\"", case.threads);
    let trace = TraceInstance::counting("program-twins", "sched_waking", &filter)?;
    once(case)?;
    Ok(trace.counted()?)
}

fn value(case: &Case, command: &CommandReport) -> Outcome<f64> {
    let text = String::from_utf8_lossy(&command.stdout);
    let missing = |what: &str| format!("no {what} in the output of {}: {text}", case.command);
    match case.value {
        Value::Wall => Ok(command.wall_ns as f64 / 1e9),
        Value::Load => Ok(command.cpu_ns() as f64 / command.wall_ns as f64),
        Value::SecondsAfter(word) => {
            let number = numbers_after(&text, word).first().copied();
            Ok(number.ok_or_else(|| missing(word))?)
        }
        Value::Latency => {
            let latencies = numbers_after(&text, "Avg:");
            if latencies.is_empty() {
                return Err(missing("Avg:").into());
            }
            Ok(latencies.iter().sum::<f64>() / latencies.len() as f64)
        }
    }
}

/// Numbers behind each `word`.
pub(crate) fn numbers_after(text: &str, word: &str) -> Vec<f64> {
    text.match_indices(word)
        .filter_map(|(at, _)| text[at + word.len()..].split_whitespace().next())
        .filter_map(|number| number.parse().ok())
        .collect()
}
