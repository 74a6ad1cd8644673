//! Advice never starves a service: properties of what `advise` and `check` say about small drawn
//! recordings.
//!
//! A drawn recording is a client with one connection that asks a server every few milliseconds. The
//! server has a CPU and a cgroup of its own, so what it needs is known: the sum of the work that
//! was drawn.

use std::fmt::Write as _;
use std::path::Path;

use schedcast_advise::gate::{self, Gate};
use schedcast_advise::{Advice, Demands, advise};
use schedcast_lab::question::{Columns, Question, Setting, Subject};
use schedcast_lab::recording::Recorded;
use schedcast_lab::simulator::Simulator;
use schedcast_sim::random::SplitMix;

/// Recordings that are drawn for each property.
const DRAWS: u64 = 3;
const SEEDS: u32 = 3;
const PERIOD_US: u64 = 100_000;
/// Requests of a recording.
const REQUESTS: u64 = 150;
/// The latency that everything is faster than.
const LONG: &str = "p50<5s";

/// Drawn requests: gap before each, and its work, µs.
fn drawn(seed: u64) -> Vec<(u64, u64)> {
    let mut draw = SplitMix(seed);
    let mean_us = 4_000 + draw.below(6_000);
    let request = |_| {
        let work_us = mean_us / 2 + draw.below(mean_us);
        (work_us + 1_000 + draw.below(2 * mean_us), work_us)
    };
    (0..REQUESTS).map(request).collect()
}

/// CPUs' worth of time that the server needs.
fn demand(requests: &[(u64, u64)]) -> f64 {
    let sum = |of: fn(&(u64, u64)) -> u64| requests.iter().map(of).sum::<u64>() as f64;
    sum(|one| one.1) / sum(|one| one.0)
}

/// One line of the trace and its time.
fn line(
    lines: &mut Vec<(u64, String)>,
    at_us: u64,
    cpu: u32,
    task: &str,
    flags: &str,
    event: &str,
) {
    let (seconds, micros) = (100 + at_us / 1_000_000, at_us % 1_000_000);
    let text = format!("{task:>16} [{cpu:03}] {flags} {seconds}.{micros:06}: {event}");
    lines.push((at_us, text));
}

fn switch(lines: &mut Vec<(u64, String)>, at_us: u64, cpu: u32, prev: &str, next: &str) {
    let parts = |task: &str| {
        let (name, pid) = task.rsplit_once('-').unwrap();
        let name = if pid == "0" {
            format!("swapper/{cpu}")
        } else {
            name.to_string()
        };
        (name, pid.to_string())
    };
    let ((prev_name, prev_pid), (next_name, next_pid)) = (parts(prev), parts(next));
    let state = if prev_pid == "0" { "R" } else { "S" };
    let event = format!(
        "sched_switch: prev_comm={prev_name} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> \
         next_comm={next_name} next_pid={next_pid} next_prio=120"
    );
    line(lines, at_us, cpu, prev, "d..2.", &event);
}

/// Writes a recording of `requests` under this quota of [`PERIOD_US`], of which it shows no
/// throttling.
fn record(folder: &Path, requests: &[(u64, u64)], quota_us: u64) {
    let (idle, client, server) = ("<idle>-0", "client-100", "server-200");
    let mut lines = Vec::new();
    let mut now_us = 1_000;
    let wake = |name: &str, pid: u32, cpu: u32| {
        format!("sched_waking: comm={name} pid={pid} prio=120 target_cpu={cpu:03}")
    };
    for (gap_us, work_us) in requests {
        let at_us = now_us;
        line(&mut lines, at_us, 0, idle, "d.h3.", &wake("client", 100, 0));
        switch(&mut lines, at_us + 5, 0, idle, client);
        line(
            &mut lines,
            at_us + 25,
            0,
            client,
            "d..5.",
            &wake("server", 200, 1),
        );
        switch(&mut lines, at_us + 30, 0, client, idle);
        switch(&mut lines, at_us + 31, 1, idle, server);
        let end_us = at_us + 31 + work_us;
        line(
            &mut lines,
            end_us,
            1,
            server,
            "d..5.",
            &wake("client", 100, 0),
        );
        switch(&mut lines, end_us + 5, 1, server, idle);
        switch(&mut lines, end_us + 6, 0, idle, client);
        switch(&mut lines, end_us + 16, 0, client, idle);
        now_us += gap_us;
    }
    lines.sort_by_key(|(at_us, _)| *at_us);
    let mut trace = "# tracer: nop\n#\n".to_string();
    for (_, text) in lines {
        writeln!(trace, "{text}").unwrap();
    }
    std::fs::write(folder.join("trace.txt"), trace).unwrap();
    let used_ns: u64 = requests.iter().map(|one| one.1 * 1000).sum();
    let state = |periods: u64, used_ns: u64| {
        serde_json::json!({
            "/": {"cpu.shares": "1024", "tasks": [100]},
            "/svc": {
                "cpu.shares": "1024",
                "cpu.cfs_quota_us": quota_us.to_string(),
                "cpu.cfs_period_us": PERIOD_US.to_string(),
                "cpu.stat": format!("nr_periods {periods}\nnr_throttled 0\nthrottled_time 0"),
                "cpuacct.usage": used_ns.to_string(),
                "tasks": [200],
            },
        })
    };
    let periods = now_us / PERIOD_US;
    let groups = serde_json::json!({"before": state(0, 0), "after": state(periods, used_ns)});
    std::fs::write(folder.join("cgroups.json"), groups.to_string()).unwrap();
    let meta = serde_json::json!({
        "title": "drawn", "kernel": "6.18", "hz": 250, "preempt": "none", "autogroup": false, "cpus": 2,
        "smt": 1, "sockets": 1, "llc": [[0, 1]], "virtual": false, "cgroup_version": 1,
        "trace": "trace.txt", "trace_format": "ftrace-text", "trace_clock": "mono", "lost_events": 0,
        "start_s": 100.0, "end_s": 100.0 + now_us as f64 / 1e6,
    });
    std::fs::write(folder.join("recording.json"), meta.to_string()).unwrap();
}

fn question(folder: &Path, columns: Columns) -> Question {
    Question {
        cgroup: Some("/svc".to_string()),
        columns,
        seeds: Some(SEEDS),
        ..Question::of(Subject::Recording(Recorded::open(folder).unwrap()))
    }
}

/// Advice for a recording of `requests` under a quota.
fn advised(requests: &[(u64, u64)], quota_us: u64, slo: &str) -> Advice {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), requests, quota_us);
    let demands = Demands {
        slos: vec![slo.to_string()],
        max_neighbour: None,
        force: true,
    };
    let question = question(folder.path(), Columns::default());
    advise(
        &question,
        &demands,
        &Simulator::new().drawing(),
        (&|_| {}, &|| {}),
    )
    .unwrap()
}

/// Promises under columns of settings.
fn judged(requests: &[(u64, u64)], slo: &str, columns: &[String]) -> Gate {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), requests, PERIOD_US);
    let set = |setting: &&str| Setting::Set((*setting).to_string());
    let column = |column: &String| {
        let settings: Vec<&str> = column.split('+').collect();
        (column.clone(), settings.iter().map(set).collect())
    };
    let columns = Columns {
        leading: Vec::new(),
        variants: columns.iter().map(column).collect(),
    };
    let question = question(folder.path(), columns);
    let simulator = Simulator::new().drawing();
    gate::check(&question, &[slo.to_string()], &simulator, &|| {}).unwrap()
}

#[test]
fn what_is_advised_finishes_what_was_recorded_whatever_is_promised() {
    for seed in 0..DRAWS {
        let requests = drawn(seed);
        for slo in [LONG, "p99<60ms"] {
            let advice = advised(&requests, PERIOD_US, slo);
            assert_eq!(advice.counted, "requests", "draw {seed}");
            let best = advice
                .recommendation()
                .unwrap_or_else(|| panic!("draw {seed}, {slo}"));
            let cpus = best.limit.cpus().unwrap();
            assert!(cpus >= demand(&requests), "draw {seed}, {slo}: {best:?}");
            assert!(
                best.finished >= 0.98 * REQUESTS as f64,
                "draw {seed}, {slo}: {best:?}"
            );
            assert!(
                cpus < 1.0,
                "draw {seed}, {slo}: nothing was saved, {best:?}"
            );
        }
    }
}

#[test]
fn more_quota_or_burst_never_makes_the_verdict_worse() {
    for seed in 0..DRAWS {
        let requests = drawn(seed);
        let demand_us = (demand(&requests) * PERIOD_US as f64) as u64;
        let quotas = [50, 80, 105, 130, 160, 200].map(|percent| demand_us * percent / 100);
        let mut columns: Vec<String> = quotas
            .iter()
            .map(|us| format!("cpu.max={us} {PERIOD_US}"))
            .collect();
        let last = quotas[2];
        let bursts = [4, 2, 1].map(|part| last / part);
        columns.extend(bursts.map(|us| format!("cpu.max={last} {PERIOD_US}+cpu.max.burst={us}")));
        let gate = judged(&requests, "p99<150ms", &columns);
        let row = |rows: &[usize]| {
            let kept: Vec<bool> = rows
                .iter()
                .map(|&row| {
                    let one = &gate.judged[row];
                    // Within noise: what counts is the mean, not the reach of three seeds.
                    let mean = one.forecasts[0].mean.unwrap();
                    one.falls_behind.is_none() && !one.forecasts[0].at_least && mean < 150e3
                })
                .collect();
            assert!(kept.is_sorted(), "draw {seed}: {kept:?} {:?}", gate.judged);
            kept
        };
        let kept = row(&[0, 1, 2, 3, 4, 5]);
        assert!(!kept[0] && kept[5], "draw {seed}: {kept:?}");
        row(&[2, 6, 7, 8]);
    }
}

#[test]
fn a_limit_that_was_recorded_half_as_large_again_is_lowered() {
    for seed in 0..DRAWS {
        let requests = drawn(seed);
        let needed = advised(&requests, PERIOD_US, "p95<100ms");
        let needed = needed.recommendation().unwrap().limit;
        let loose_us = needed.quota_us.unwrap() * 3 / 2;
        let advice = advised(&requests, loose_us, "p95<100ms");
        let best = advice.recommendation().unwrap().limit;
        assert!(
            best.grants() < advice.options[0].limit.grants(),
            "draw {seed}: {best:?}"
        );
    }
}

#[test]
fn a_starving_server_is_judged_by_what_waits() {
    let requests = drawn(1);
    let starving_us = (demand(&requests) * PERIOD_US as f64) as u64 / 4;
    let gate = judged(
        &requests,
        LONG,
        &[format!("cpu.max={starving_us} {PERIOD_US}")],
    );
    let starved = &gate.judged[0];
    assert!(
        !gate.passes() && starved.falls_behind.is_some(),
        "{starved:?}"
    );
    let summary = gate.comparison.variants[1].get("server/request_latency.p99");
    let summary = summary.unwrap();
    assert!(summary.at_least, "{summary:?}");
}
