//! `pstate-holdoff`: intel_pstate's PID controller waits 12 instead of 3 sample times before it
//! takes a late sample for idleness (February 2016).
//!
//! The sampling timer is deferrable: it fires at a tick that finds its CPU awake. Worked example:
//! between two long pieces of its load a client of dbench flushes 23 times in a row, 1.1 ms of
//! waiting and some 20 µs of work each. No tick meets it awake for 26 ms or more. With a hold-off
//! of 30 ms the next sample is late and the P-state falls from 26 to 13 in one step; then it climbs
//! by one each 10 ms. With 120 ms nothing happens.
//!
//! Two prices are fitted to the unpatched column of dbench. iozone is not predicted.

mod iozone;

use rayon::prelude::*;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_sim::hardware::HardwareReport;

use super::bench::{called, mean_gain_percent, place_of, running};
use super::{Bench, Given, nearest};

const TABLE: &str = "dbench4";
const CLIENTS: [u32; 5] = [1, 2, 4, 8, 64];
const SECOND_NS: u64 = 1_000_000_000;
/// Time before statistics count.
const WARMUP_S: u64 = 3;

/// The fitted prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prices {
    operation_ns: u64,
    write_ns: u64,
}

/// Observations of one run.
struct Seen {
    mb_per_s: f64,
    latency_us: f64,
    hardware: HardwareReport,
}

/// Predicts the study.
pub(super) fn predict(given: &mut Given) -> Result<()> {
    let pair: [Scenario; 2] = given.variants("")?;
    let prices = fit(&pair[0], given)?;
    let pair = pair.each_ref().map(|scenario| priced(scenario, prices));
    let gain = answer_dbench(&pair, given)?;
    more_cpus(&pair, gain, given)?;
    iozone::answer(&pair, given)?;
    cyclictest(&pair, given)?;
    udp_stream(&pair, given)
}

fn priced(scenario: &Scenario, prices: Prices) -> Scenario {
    let mut scenario = scenario.clone();
    for program in &mut scenario.programs {
        program.prices.dbench_operation_ns = prices.operation_ns;
        program.prices.storage_write_ns = prices.write_ns;
    }
    scenario
}

/// Runs every scenario for so long after a warm-up, on all CPUs.
fn see(scenarios: &[Scenario], seconds: u64, bench: &Bench) -> Result<Vec<Seen>> {
    let one = |scenario: &Scenario| -> Result<Seen> {
        let wrong = schedcast_lab::simulator::bad_input;
        let mut world = bench.world(scenario, 1)?;
        world.run_until(WARMUP_S * SECOND_NS).map_err(wrong)?;
        world.reset_statistics();
        let end_ns = (WARMUP_S + seconds) * SECOND_NS;
        world.run_until(end_ns).map_err(wrong)?;
        let hardware = world.hardware_report();
        let metric = |name: &str| world.probes().metric(name);
        let bytes =
            ["dbench/bytes", "netperf/bytes"].map(|name| metric(name).map_or(0, |one| one.count));
        let latency_ns = metric("cyclictest/latency").and_then(|metric| metric.values.mean());
        Ok(Seen {
            mb_per_s: bytes.iter().sum::<u64>() as f64 / 1e6 / seconds as f64,
            latency_us: latency_ns.unwrap_or(f64::NAN) / 1e3,
            hardware: hardware.ok_or_else(|| Error::general("the machine has no clocks"))?,
        })
    };
    let runs: Vec<Result<Seen>> = scenarios.par_iter().map(one).collect();
    runs.into_iter().collect()
}

fn dbench(clients: u32) -> String {
    format!("dbench -t 600 --warmup 0 {clients}")
}

/// The prices with the smallest sum of log-errors over the unpatched rows: a grid of both.
fn fit(base: &Scenario, given: &mut Given) -> Result<Prices> {
    let (known, bench, prediction) = given.parts();
    const OPERATIONS_NS: [u64; 6] = [1500, 2250, 3000, 4000, 5000, 6000];
    const WRITES_NS: [u64; 6] = [60_000, 90_000, 120_000, 160_000, 220_000, 300_000];
    let clients = [1, 2, 4];
    let published = clients.iter().map(|clients| {
        let point = format!("mb/sec-{clients}");
        known.mean("dbench", |asked| {
            asked.table == TABLE && asked.point == point
        })
    });
    let published: Vec<f64> = published.collect::<Result<_>>()?;
    let all = OPERATIONS_NS.into_iter().flat_map(|operation_ns| {
        WRITES_NS.map(|write_ns| Prices {
            operation_ns,
            write_ns,
        })
    });
    let all: Vec<Prices> = all.collect();
    let under = |&prices| clients.map(|count| running(&priced(base, prices), &dbench(count)));
    let scenarios: Vec<Scenario> = all.iter().flat_map(under).collect();
    let seen = see(&scenarios, bench.pick(15, 5), bench)?;
    let misses = seen.chunks(clients.len()).map(|runs| {
        let miss = |(run, published): (&Seen, &f64)| (run.mb_per_s / published).ln().abs();
        runs.iter().zip(&published).map(miss).sum::<f64>()
    });
    let best = nearest(&all, misses)?;
    let from = "dbench with 1, 2 and 4 clients, unpatched";
    prediction.constant("dbench_operation_ns", best.operation_ns as f64, "ns", from);
    prediction.constant("storage_write_ns", best.write_ns as f64, "ns", from);
    Ok(best)
}

fn percent(patched: f64, base: f64) -> f64 {
    100.0 * (patched / base - 1.0)
}

/// Package power over several runs, W.
fn package_watts<'a>(runs: impl Iterator<Item = &'a Seen>) -> f64 {
    let watts = runs.map(|run| run.hardware.package.map_or(f64::NAN, |watts| watts.mean));
    let watts: Vec<f64> = watts.collect();
    watts.iter().sum::<f64>() / watts.len() as f64
}

/// Both kernels, run by run: base and patched.
fn both(pair: &[Scenario; 2], seconds: u64, bench: &Bench) -> Result<Vec<Seen>> {
    let under = |clients| pair.each_ref().map(|one| running(one, &dbench(clients)));
    let scenarios: Vec<Scenario> = CLIENTS.into_iter().flat_map(under).collect();
    see(&scenarios, seconds, bench)
}

/// Geometric mean of the gains, in per cent.
fn mean_gain(seen: &[Seen]) -> f64 {
    let pairs = seen.chunks(2);
    mean_gain_percent(pairs.map(|pair| pair[1].mb_per_s / pair[0].mb_per_s))
}

/// Answers dbench's table; returns its mean gain.
fn answer_dbench(pair: &[Scenario; 2], given: &mut Given) -> Result<f64> {
    let (known, bench, prediction) = given.parts();
    let seen = both(pair, bench.pick(60, 10), bench)?;
    let rates: Vec<f64> = seen.iter().map(|run| run.mb_per_s).collect();
    let place = |point: &str| place_of(point.strip_prefix("mb/sec-")?, &CLIENTS);
    prediction.answer_table((known, TABLE), place, &rates);
    let pairs = seen.chunks(2);
    let gains = pairs.map(|pair| percent(pair[1].mb_per_s, pair[0].mb_per_s));
    let smallest = gains.fold(f64::INFINITY, f64::min);
    let gain = mean_gain(&seen);
    prediction.figure("dbench_gain", gain);
    prediction.figure("dbench_smallest_gain", smallest);
    let watts = |column: usize| package_watts(seen.iter().skip(column).step_by(2));
    prediction.figure("dbench_package_power", percent(watts(1), watts(0)));
    let mhz = |run: &Seen| run.hardware.busy_mhz.unwrap_or(f64::NAN);
    prediction.figure("clock_gain", percent(mhz(&seen[1]), mhz(&seen[0])));
    Ok(gain)
}

/// The same on twice as many cores: other CPUs keep the shared clock up.
fn more_cpus(pair: &[Scenario; 2], gain: f64, given: &mut Given) -> Result<()> {
    let (_, bench, prediction) = given.parts();
    let places = &pair[0].machine.machine.topology;
    let threads = pair[0].machine.machine.threads_per_core();
    let cores = places.cpus() / threads;
    let wide = pair.each_ref().map(|scenario| {
        let mut scenario = scenario.clone();
        let topology = schedcast_kernel::topology::Topology::regular(1, 1, 2 * cores, threads);
        scenario.machine.machine.topology = topology;
        scenario
    });
    let seen = both(&wide, bench.pick(30, 5), bench)?;
    prediction.figure("gain_lost_with_more_cpus", gain - mean_gain(&seen));
    Ok(())
}

/// cyclictest with one thread bound to each CPU.
fn cyclictest(pair: &[Scenario; 2], given: &mut Given) -> Result<()> {
    let (_, bench, prediction) = given.parts();
    let scenarios = pair.each_ref().map(|scenario| {
        let command = "cyclictest -S -p 80 -i 1000 -q -D 600";
        called(running(scenario, command), "cyclictest")
    });
    let seen = see(&scenarios, bench.pick(30, 5), bench)?;
    let watts = |row: usize| package_watts(seen[row..=row].iter());
    prediction.figure("cyclictest_package_power", percent(watts(1), watts(0)));
    let latency = percent(seen[1].latency_us, seen[0].latency_us);
    prediction.figure("cyclictest_latency", latency);
    let cpus = &seen[0].hardware.cpus;
    let busy = cpus.iter().map(|cpu| cpu.mean.busy).sum::<f64>() / cpus.len() as f64;
    prediction.figure("cyclictest_busy", 100.0 * busy);
    Ok(())
}

/// Datagrams from one CPU to another, in every size of the table. The amounts sent and received are
/// the same up to the loss at the end, and answered alike.
fn udp_stream(pair: &[Scenario; 2], given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    const UDP: &str = "netperf-UDP_STREAM";
    const SIZES: [u64; 9] = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16_384];
    let scenarios = SIZES.iter().flat_map(|size| {
        let command = format!("netperf -t UDP_STREAM -l 600 -T 0,1 -- -m {size}");
        pair.each_ref()
            .map(|one| called(running(one, &command), "netperf"))
    });
    let scenarios: Vec<Scenario> = scenarios.collect();
    let seen = see(&scenarios, bench.pick(3, 1), bench)?;
    // The table is in 10^6 bits a second.
    let megabits: Vec<f64> = seen.iter().map(|run| 8.0 * run.mb_per_s).collect();
    let place = |point: &str| place_of(point.split_once('-')?.1, &SIZES);
    prediction.answer_table((known, UDP), place, &megabits);
    prediction.figure("udp_stream_gain", mean_gain(&seen));
    let watts = |column: usize| package_watts(seen.iter().skip(column).step_by(2));
    prediction.figure("udp_stream_package_power", percent(watts(1), watts(0)));
    Ok(())
}
