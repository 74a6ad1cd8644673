//! `recent-used-cpu`: a task may return to the CPU it used before the last (Linux 4.16).
//!
//! The client of dbench on XFS is woken by a kernel worker on its own CPU, which therefore is not
//! idle, and 4.15 sends it to the next idle one. Worked example with a client that is awake 94 % of
//! the time: over 8 CPUs that is 12 % for each, which hardware-managed P-states leave at a low
//! clock; between two CPUs it is 47 % for each, and both run at the full clock.
//!
//! Two constants are fitted to the two known rows, 1 and 2 clients of the unpatched kernel: the
//! share up to which the hardware leaves the lowest clock, and the share from which it gives the
//! full one.

use schedcast_kernel::platform::Observation;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_sim::events::TraceKind;
use schedcast_sim::machine::parts::Governor;

use super::bench::{called, place_of, running, seeded};
use super::{Bench, Given, nearest};

const TABLE: &str = "dbench XFS UMA";
const CLIENTS: [u32; 5] = [1, 2, 4, 8, 64];

/// The fitted constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shares {
    lowest_percent: u32,
    full_percent: u32,
}

/// Predicts the study.
pub(super) fn predict(given: &mut Given) -> Result<()> {
    let pair: [Scenario; 2] = given.variants("")?;
    let shares = fit(&pair[0], given)?;
    let pair = pair
        .each_ref()
        .map(|scenario| with_shares(scenario, shares));
    answer_dbench(&pair, given)?;
    other_workloads(&pair, given)?;
    for (scenario, name) in pair.iter().zip(["visited_base", "visited_patched"]) {
        given
            .prediction
            .figure(name, visited_cpus(scenario, given.bench)? as f64);
    }
    Ok(())
}

fn with_shares(scenario: &Scenario, shares: Shares) -> Scenario {
    let mut scenario = scenario.clone();
    let frequency = scenario.machine.machine.frequency.as_mut();
    if let Some(hwp) = frequency.and_then(|part| part.hwp.as_mut()) {
        hwp.lowest_clock_busy_percent = shares.lowest_percent;
        hwp.full_clock_busy_percent = shares.full_percent;
    }
    scenario
}

fn dbench(file_system: &str, clients: u32, seconds: u32) -> String {
    format!("dbench -t {seconds} --warmup 1 --filesystem {file_system} {clients}")
}

/// Harmonic mean of a rate over the seeds, for each scenario.
fn rates(scenarios: &[Scenario], metric: &str, seeds: u64, bench: &Bench) -> Result<Vec<f64>> {
    let outcomes = bench.run(&seeded(scenarios, 0..seeds))?;
    let means = outcomes.chunks(seeds as usize).map(|runs| {
        let inverse = runs.iter().map(|run| 1.0 / run.value(metric));
        runs.len() as f64 / inverse.sum::<f64>()
    });
    Ok(means.collect())
}

/// The shares that give the two known rows: a coarse grid, then every per cent around its best
/// point.
fn fit(base: &Scenario, given: &mut Given) -> Result<Shares> {
    let (known, bench, prediction) = given.parts();
    let row = |clients: u32| {
        let point = format!("clients={clients}");
        known.mean("the HWP model", |asked| asked.point == point)
    };
    let published = [row(1)?, row(2)?];
    let seconds = bench.pick(5, 3);
    let best_of = |shares: &[Shares]| -> Result<Shares> {
        let scenarios = shares.iter().flat_map(|&shares| {
            let base = with_shares(base, shares);
            [1, 2].map(|clients| running(&base, &dbench("xfs", clients, seconds)))
        });
        let scenarios: Vec<Scenario> = scenarios.collect();
        let ours = rates(&scenarios, "dbench/throughput", 1, bench)?;
        let misses = ours.chunks(2).map(|pair| {
            let miss = |row: usize| (pair[row] / published[row]).ln().abs();
            miss(0) + miss(1)
        });
        nearest(shares, misses)
    };
    let grid = |lowest: &[u32], full: &[u32]| -> Vec<Shares> {
        let pair = |&lowest_percent: &u32| {
            full.iter().map(move |&full_percent| Shares {
                lowest_percent,
                full_percent,
            })
        };
        lowest.iter().flat_map(pair).collect()
    };
    let coarse = best_of(&grid(&[5, 7, 9, 11, 13, 15], &[24, 28, 32, 36, 40, 50, 60]))?;
    let around = |at: u32, reach: u32| (at - reach..=at + reach).collect::<Vec<u32>>();
    let lowest = around(coarse.lowest_percent, 1);
    let best = best_of(&grid(&lowest, &around(coarse.full_percent, 2)))?;
    let from = "1 and 2 clients, unpatched";
    let (lowest, full) = (best.lowest_percent.into(), best.full_percent.into());
    prediction.constant("lowest_clock_busy_percent", lowest, "%", from);
    prediction.constant("full_clock_busy_percent", full, "%", from);
    Ok(best)
}

fn answer_dbench(pair: &[Scenario; 2], given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    let seeds = bench.pick(4, 1);
    let seconds = bench.pick(5, 3);
    let scenarios = CLIENTS.into_iter().flat_map(|clients| {
        let command = dbench("xfs", clients, seconds);
        pair.each_ref().map(|scenario| running(scenario, &command))
    });
    let scenarios: Vec<Scenario> = scenarios.collect();
    let rates = rates(&scenarios, "dbench/throughput", seeds, bench)?;
    let place = |point: &str| place_of(point.strip_prefix("clients=")?, &CLIENTS);
    prediction.answer_table((known, TABLE), place, &rates);
    prediction.axes("clients", "patched / base");
    let pairs = CLIENTS.iter().zip(rates.chunks(2));
    let points = pairs.map(|(&clients, pair)| (f64::from(clients).log2(), pair[1] / pair[0]));
    prediction.series("dbench on XFS, log2 of clients", points.collect());
    Ok(())
}

/// Other workloads that the change touches, and dbench with a clock that does not depend on load.
fn other_workloads(pair: &[Scenario; 2], given: &mut Given) -> Result<()> {
    let (_, bench, prediction) = given.parts();
    let seeds = bench.pick(4, 2);
    let seconds = bench.pick(5, 3);
    let fixed = pair.each_ref().map(|scenario| {
        let mut scenario = running(scenario, &dbench("xfs", 1, seconds));
        if let Some(frequency) = &mut scenario.machine.machine.frequency {
            frequency.governor = Governor::Performance;
        }
        scenario
    });
    let command = dbench("ext4", 1, seconds);
    let ext4 = pair.each_ref().map(|scenario| running(scenario, &command));
    let gain = |rates: &[f64]| 100.0 * (rates[1] / rates[0] - 1.0);
    let metric = "dbench/throughput";
    let at_fixed_clock = gain(&rates(&fixed, metric, seeds, bench)?);
    prediction.figure("gain_fixed_clock", at_fixed_clock);
    prediction.figure("ext4_gain", gain(&rates(&ext4, metric, seeds, bench)?));
    let command = "hackbench -g 1 -l 5000";
    let hackbench = pair
        .each_ref()
        .map(|one| called(running(one, command), "hackbench"));
    // Its runs draw nothing at random: one is as good as many.
    let times: Vec<f64> = rates(&hackbench, "hackbench/time", 1, bench)?;
    prediction.figure("hackbench_gain", 100.0 * (times[0] / times[1] - 1.0));
    Ok(())
}

/// CPUs on which the only client of dbench gets at least 1 % of its time slices.
fn visited_cpus(scenario: &Scenario, bench: &Bench) -> Result<usize> {
    const SECOND_NS: u64 = 1_000_000_000;
    // Until then a balancing pass may still exchange one of the pair.
    const WARM_NS: u64 = 3 * SECOND_NS;
    let scenario = running(scenario, &dbench("xfs", 1, 5));
    let mut world = bench.world(&scenario, 1)?;
    let wrong = schedcast_lab::simulator::bad_input;
    world.run_until(WARM_NS).map_err(wrong)?;
    world.probes_mut().trace = Some(Vec::new());
    world.run_until(WARM_NS + SECOND_NS).map_err(wrong)?;
    let mut dispatches = vec![0usize; scenario.machine.cpus()];
    for event in world.probes().trace.iter().flatten() {
        if let TraceKind::Kernel(Observation::Switch { next, .. }) = event.event
            && world.task_name(next) == "dbench"
        {
            dispatches[event.cpu.index()] += 1;
        }
    }
    let whole: usize = dispatches.iter().sum();
    let visited = dispatches.iter().filter(|&&count| count * 100 > whole);
    Ok(visited.count())
}
