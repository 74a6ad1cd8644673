//! Two services that run the same program beside each other: each is told and advised about by
//! itself.
//!
//! The recording is made here. `/web` has 30 ms in every 100 ms and needs 50 ms for a request every
//! 200 ms: 30 ms, then throttled until its next period begins, then 20 ms. `/batch` has 80 ms in
//! every 100 ms and uses 5. Both call themselves `python3`.

use std::fmt::Write;
use std::path::Path;

use schedcast_advise::{Advice, Demands, advise};
use schedcast_lab::question::{Question, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;

const WEB: u32 = 10;
const BATCH: u32 = 20;
const LENGTH_MS: u32 = 6_000;
/// A request of `/web` waits for 65 ms of a period that begins 5 ms before it.
const WEB_MS: f64 = 115.0;
const BATCH_MS: f64 = 5.0;

/// One line of ftrace's text, `ms` after the begin.
fn line(ms: u32, cpu: u32, who: &str, event: &str) -> String {
    let (seconds, rest) = (10 + ms / 1000, ms % 1000);
    format!("{who:>16}-0     [{cpu:03}] d..2. {seconds}.{rest:03}000: {event}\n")
}

fn switch(ms: u32, cpu: u32, from: (&str, u32, &str), to: (&str, u32)) -> String {
    let ((prev, prev_pid, state), (next, next_pid)) = (from, to);
    let event = format!(
        "sched_switch: prev_comm={prev} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> \
         next_comm={next} next_pid={next_pid} next_prio=120"
    );
    line(ms, cpu, prev, &event)
}

/// A thread runs from `begin` to `end` on `cpu`, woken at the begin if `wakes`, asleep at the end
/// if `sleeps`.
fn run(
    cpu: u32,
    pid: u32,
    [begin, end]: [u32; 2],
    wakes: bool,
    sleeps: bool,
) -> Vec<(u32, String)> {
    let idle = format!("swapper/{cpu}");
    let mut lines = Vec::new();
    if wakes {
        let event = format!("sched_wakeup: comm=python3 pid={pid} prio=120 target_cpu={cpu:03}");
        lines.push((begin, line(begin, cpu, "<idle>", &event)));
    }
    lines.push((begin, switch(begin, cpu, (&idle, 0, "R"), ("python3", pid))));
    let state = if sleeps { "S" } else { "R" };
    lines.push((end, switch(end, cpu, ("python3", pid, state), (&idle, 0))));
    lines
}

fn write_recording(folder: &Path) {
    let mut lines = Vec::new();
    for at in (0..LENGTH_MS - 200).step_by(200) {
        lines.extend(run(0, WEB, [at + 5, at + 35], true, false));
        lines.extend(run(0, WEB, [at + 100, at + 120], false, true));
    }
    for at in (0..LENGTH_MS - 200).step_by(100) {
        lines.extend(run(1, BATCH, [at + 50, at + 55], true, true));
    }
    lines.sort_by_key(|(at, _)| *at);
    let mut trace = String::from("# tracer: nop\n#\n");
    for (_, text) in &lines {
        trace.write_str(text).unwrap();
    }
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("trace.txt", &trace);
    write(
        "recording.json",
        r#"{"trace": "trace.txt", "kernel": "6.12.1", "hz": 250, "cpus": 2, "cgroup_version": 2}"#,
    );
    let group = |limit: &str, pid: u32| {
        format!(r#"{{"cpu.max": "{limit}", "cpu.weight": "100", "tasks": [{pid}]}}"#)
    };
    let (web, batch) = (group("30000 100000", WEB), group("80000 100000", BATCH));
    write(
        "cgroups.json",
        &format!(r#"{{"before": {{"/": {{"tasks": []}}, "/web": {web}, "/batch": {batch}}}}}"#),
    );
}

fn question(folder: &Path, cgroup: &str) -> Question {
    Question {
        cgroup: Some(cgroup.to_string()),
        seeds: Some(3),
        ..Question::of(Subject::Recording(Recorded::open(folder).unwrap()))
    }
}

fn is_about(value_ms: f64, expected_ms: f64, tolerance: f64) {
    let error = value_ms / expected_ms - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{value_ms} ms, not {expected_ms} ms"
    );
}

#[test]
fn each_group_has_its_own_percentiles_and_advice() {
    let folder = tempfile::tempdir().unwrap();
    write_recording(folder.path());
    let simulator = Simulator::new();

    // Recorded and simulated figures.
    let asked = question(folder.path(), "/web");
    let Subject::Recording(recorded) = &asked.subject else {
        unreachable!("the question is about a recording")
    };
    let figures = recorded.seen.figures.clone().unwrap();
    let answered = asked.answer(&simulator).unwrap();
    for (name, expected_ms) in [("python3@/web", WEB_MS), ("python3@/batch", BATCH_MS)] {
        let seen = figures.threads.iter().find(|one| one.name == name).unwrap();
        is_about(
            seen.activation_latency.p50_ns as f64 / 1e6,
            expected_ms,
            0.05,
        );
        let metric = format!("{name}/activation_latency.p50");
        let mut fit = answered.context.fit.iter();
        // The target's run is simulated again with its periods where they were; neighbours run
        // beside it in runs to come.
        let again = fit.find(|one| one.metric == metric);
        let to_come = answered.comparison.variants[0].get(&metric).unwrap().mean;
        let simulated_us = again.map_or(to_come, |fit| fit.predicted);
        is_about(simulated_us / 1e3, expected_ms, 0.15);
    }
    let about = answered.context.about.unwrap();
    assert_eq!(about.members, ["python3@/web"]);

    // One needs more than it has, the other far less.
    let advice = |cgroup: &str, promise: &str| -> Advice {
        let demands = Demands {
            slos: vec![promise.to_string()],
            ..Demands::default()
        };
        advise(
            &question(folder.path(), cgroup),
            &demands,
            &simulator,
            (&|_| {}, &|| {}),
        )
        .unwrap()
    };
    let limit_us = |advice: &Advice| {
        let told = schedcast_present::tables::advice::render(advice);
        let best = advice.recommendation().unwrap_or_else(|| panic!("{told}"));
        best.limit.quota_us.unwrap() + best.limit.burst_us
    };
    let web = limit_us(&advice("/web", "p95<80ms"));
    assert!(web > 30_000, "{web}");
    let batch = limit_us(&advice("/batch", "p95<40ms"));
    assert!((5_000..80_000).contains(&batch), "{batch}");
}
