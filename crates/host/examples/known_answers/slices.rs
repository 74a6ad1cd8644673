//! How long a hog runs before the other gets the CPU, and how soon a sleeper beside a hog does.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use schedcast_host::hog::Activation;
use schedcast_host::{Output, run_in};

use crate::{Outcome, hog_command, new_group, page, quiet, traced};

const REPEATS: usize = 6;

pub(crate) fn hogs() -> Outcome {
    let hogs = [
        hog_command("spin")?.cpus(&[1]),
        hog_command("spin")?.cpus(&[1]),
    ];
    let mut lines = vec!["length rounded to 0.1 ms × count, per repeat".to_owned()];
    let mut interruptions = 0;
    let repeats = quiet::repeat(REPEATS, quiet::Others::DoNotMatter, || {
        let group = new_group()?;
        let (run, trace) = traced::record(|| Ok(run_in(&group, &hogs, Duration::from_secs(4))?))?;
        let pids = [run.commands[0].pid, run.commands[1].pid];
        let mut slices = Vec::new();
        for (pid, other) in [(pids[0], pids[1]), (pids[1], pids[0])] {
            slices.extend(runs_until(&trace.stays(pid), other, &mut interruptions));
        }
        lines.push(format!(
            "steal {:.2} %: {}",
            run.steal_ratio * 100.0,
            distribution(&slices)
        ));
        Ok(slices)
    })?;
    let mut body = format!(
        "Both hogs in one group, pinned to CPU 1, {} repeats of 4 s, from sched_switch. A slice ends when the other \
         hog runs; slices in which a third task ran ({interruptions} visits) are left out.{}\n\n",
        repeats.kept.len(),
        repeats.remark()
    );
    let slices = repeats.kept.concat();
    body.push_str(&page::spread_header("ms"));
    writeln!(body, "| slice | {} |", page::spread_cells(&slices, 3))?;
    body.push_str(&page::raw("distribution", &lines));
    Ok(body)
}

fn distribution(slices_ms: &[f64]) -> String {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for ms in slices_ms {
        *counts.entry((ms * 10.0).round() as u64).or_default() += 1;
    }
    let words: Vec<String> = counts
        .iter()
        .map(|(tenths, n)| format!("{:.1}×{n}", *tenths as f64 / 10.0))
        .collect();
    words.join(" ")
}

/// Lengths of the stays that `other` ended. A slice in which a third task ran is left out and
/// counted.
fn runs_until(stays: &[traced::Stay], other: i32, interruptions: &mut usize) -> Vec<f64> {
    let mut slices = Vec::new();
    let mut interrupted = false;
    for stay in stays {
        let ended = stay.next == other;
        if ended && !interrupted {
            slices.push((stay.to_ns - stay.from_ns) as f64 / 1e6);
        } else if !ended {
            *interruptions += 1;
        }
        interrupted = !ended;
    }
    slices
}

/// Wakeups of the sleeper in one repeat, µs.
struct Wakes {
    late: Vec<f64>,
    waiting: Vec<f64>,
    response: Vec<f64>,
}

pub(crate) fn sleeper() -> Outcome {
    let mut lines = vec!["lateness of every wake, µs, per repeat".to_owned()];
    let repeats = quiet::repeat(REPEATS, quiet::Others::Matter, || {
        let wakes = sleeper_beside_hog()?;
        lines.push(page::list(wakes.late.iter().copied(), 0));
        Ok(wakes)
    })?;
    let mut body = format!(
        "A task that runs 0.3 ms every 10 ms (timer slack 1 ns) beside one hog in the same group, both pinned to CPU 1. \
         Late: from the time asked for to its first instruction. Waking to running: between sched_waking and sched_switch. \
         {} repeats of 3 s.{}\n\n",
        repeats.kept.len(),
        repeats.remark()
    );
    body.push_str(&page::spread_header("µs"));
    let mut row = |what: &str, pick: fn(&Wakes) -> &Vec<f64>| {
        let all: Vec<f64> = repeats.kept.iter().flat_map(pick).copied().collect();
        writeln!(body, "| {what} | {} |", page::spread_cells(&all, 1))
    };
    row("late", |wakes| &wakes.late)?;
    row("waking to running", |wakes| &wakes.waiting)?;
    row("due to done (0.3 ms of work)", |wakes| &wakes.response)?;
    body.push_str(&page::raw("every wake", &lines));
    Ok(body)
}

fn sleeper_beside_hog() -> Result<Wakes, Box<dyn Error>> {
    let group = new_group()?;
    let commands = [
        hog_command("job --cpu-us 300 --every-ms 10 --count 300 --slack-ns 1")?
            .cpus(&[1])
            .output(Output::Capture),
        hog_command("spin --cpu-ms 3200")?.cpus(&[1]),
    ];
    let (run, trace) = traced::record(|| Ok(run_in(&group, &commands, Duration::from_secs(20))?))?;
    let text = String::from_utf8(run.commands[0].stdout.clone())?;
    let jobs: Vec<Activation> = text.lines().filter_map(Activation::parse).collect();
    let pid = run.commands[0].pid;
    let stays = trace.stays(pid);
    let waiting = trace.wakings(pid).into_iter().filter_map(|waking_ns| {
        let stay = stays.iter().find(|stay| stay.from_ns >= waking_ns)?;
        Some((stay.from_ns - waking_ns) as f64 / 1e3)
    });
    Ok(Wakes {
        late: jobs
            .iter()
            .map(|job| (job.start_ns - job.due_ns) as f64 / 1e3)
            .collect(),
        waiting: waiting.collect(),
        response: jobs
            .iter()
            .map(|job| job.response_ns() as f64 / 1e3)
            .collect(),
    })
}
