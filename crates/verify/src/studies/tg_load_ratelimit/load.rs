//! Loads, and observations of their runs.

use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;
use schedcast_sim::World;

use crate::studies::Bench;
use crate::studies::bench::{running, seeded};

/// The group that everything runs in.
const GROUP: &str = "/docker/bench";

/// A warm-up from this length on is long enough for a busy machine.
const SETTLED_NS: u64 = 100_000_000;
/// Warm-up of a machine with idle CPUs.
const SLOW_START_NS: u64 = 300_000_000;
/// The same where every task sleeps for long between two wakeups.
const SLOWEST_START_NS: u64 = 2_000_000_000;

/// hackbench: senders and receivers of a group, and what a message has without `-s`.
const TASKS_OF_A_GROUP: u64 = 40;
const MESSAGE_BYTES: u64 = 100;

/// A workload of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// netperf: its test, and how many pairs.
    Netperf(&'static str, u64),
    /// Requests and responses over TCP with so much work, ns, on either side.
    Requests(u64, u64),
    /// hackbench: groups and loops.
    Hackbench(u64, u64),
}

impl Load {
    pub(crate) fn udp_rr(pairs: u64) -> Load {
        Load::Netperf("UDP_RR", pairs)
    }

    pub(crate) fn tcp_stream(pairs: u64) -> Load {
        Load::Netperf("TCP_STREAM", pairs)
    }

    /// The scenario with this workload. On CPUs that are mostly idle it takes 300 ms until their
    /// governors have seen short sleeps only, and more where requests take longer. With UDP_RR the
    /// number of CPUs a wakeup looks at (`nr_idle_scan`) takes as long to follow: it is 0 first,
    /// for new tasks count as busy. That is left to the warm-up.
    pub(super) fn on(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = self.command(scenario);
        let cpus = scenario.machine.cpus() as u64;
        if let Load::Netperf(_, pairs) | Load::Requests(pairs, _) = *self
            && (2 * pairs <= cpus || matches!(self, Load::Netperf("UDP_RR", _)))
            && scenario.warmup_ns >= SETTLED_NS
        {
            let window_ns = scenario.duration_ns.map(|end| end - scenario.warmup_ns);
            let slowest = matches!(self, Load::Requests(..)) && 4 * pairs <= cpus;
            let warmup_ns = if slowest {
                SLOWEST_START_NS
            } else {
                SLOW_START_NS
            };
            scenario.warmup_ns = warmup_ns;
            scenario.duration_ns = window_ns.map(|window_ns| warmup_ns + window_ns);
        }
        scenario
    }

    fn command(&self, scenario: &Scenario) -> Scenario {
        match *self {
            Load::Netperf(test, pairs) => running(
                scenario,
                &format!("netperf -t {test} -l 60 --pairs {pairs}"),
            ),
            Load::Requests(pairs, work_ns) => {
                let command = format!("netperf -t TCP_RR -l 60 --pairs {pairs}");
                let mut scenario = running(scenario, &command);
                for program in &mut scenario.programs {
                    program.prices.netperf_round_ns = work_ns;
                }
                scenario
            }
            Load::Hackbench(groups, loops) => {
                let mut scenario = running(scenario, &format!("hackbench -g {groups} -l {loops}"));
                scenario.duration_ns = None;
                scenario.warmup_ns = 0;
                scenario
            }
        }
    }

    /// Rate a second, of one pair; for hackbench KiB as lkp-tests counts them: a message for each
    /// task and loop, though each of the 20 senders of a group sends 20.
    fn rate(&self, outcome: &Outcome, world: &mut World, seconds: f64) -> f64 {
        let count =
            |name: &str| world.probes().metric(name).map_or(0, |metric| metric.count) as f64;
        match *self {
            Load::Netperf("TCP_STREAM", pairs) => {
                // 10^6 bits a second, as the tool prints it.
                count("bench/bytes") * 8e-6 / pairs as f64 / seconds
            }
            Load::Netperf(_, pairs) | Load::Requests(pairs, _) => {
                count("bench/transactions") / pairs as f64 / seconds
            }
            Load::Hackbench(groups, loops) => {
                let counted = groups * TASKS_OF_A_GROUP * loops * MESSAGE_BYTES;
                counted as f64 / 1024.0 / outcome.value("bench/time")
            }
        }
    }
}

/// Observations of a run, or the mean of several.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub rate: f64,
    pub wakeups_per_s: f64,
    pub migrations_per_wakeup: f64,
    /// To the counter of the group, all CPUs.
    pub writes_per_s: f64,
    /// Share of CPU time for reading the line, waiting included.
    pub read_share: f64,
    /// The same for writing it.
    pub write_share: f64,
}

/// Runs every scenario under its load with some seeds; means over them, harmonic for rates.
pub(super) fn see(jobs: &[(Scenario, Load)], seeds: u64, bench: &Bench) -> Result<Vec<Seen>> {
    let runs = seeded(jobs.iter().map(|(scenario, _)| scenario), 0..seeds);
    let all = bench.measure_each(&runs, |row, outcome, world| {
        let (scenario, load) = &jobs[row / seeds as usize];
        let window_ns = scenario.duration_ns.map(|end| end - scenario.warmup_ns);
        let seconds = window_ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
        one(load, outcome, world, seconds)
    })?;
    Ok(all.chunks(seeds as usize).map(mean).collect())
}

fn one(load: &Load, outcome: &Outcome, world: &mut World, seconds: f64) -> Seen {
    let wakeups = outcome.value("machine/wakeups");
    let writes = outcome.value(&format!("cgroup:{GROUP}/load_avg_writes"));
    let line = |access: &str| outcome.value(&format!("machine/overhead.line.tg_load_avg.{access}"));
    Seen {
        rate: load.rate(outcome, world, seconds),
        wakeups_per_s: wakeups / seconds,
        migrations_per_wakeup: outcome.value("machine/migrations") / wakeups,
        writes_per_s: writes / seconds,
        read_share: line("read"),
        write_share: line("write"),
    }
}

fn mean(runs: &[Seen]) -> Seen {
    let count = runs.len() as f64;
    let of = |value: fn(&Seen) -> f64| runs.iter().map(value).sum::<f64>() / count;
    let inverse = runs.iter().map(|run| 1.0 / run.rate).sum::<f64>();
    Seen {
        rate: count / inverse,
        wakeups_per_s: of(|run| run.wakeups_per_s),
        migrations_per_wakeup: of(|run| run.migrations_per_wakeup),
        writes_per_s: of(|run| run.writes_per_s),
        read_share: of(|run| run.read_share),
        write_share: of(|run| run.write_share),
    }
}
