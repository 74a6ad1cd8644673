//! Fit of three constants: the price of kernel work on each machine, the cost of a read of the
//! line, the cost of a move.
//!
//! Worked example: UDP_RR on SPR makes 56 · 2 · 104,954 = 11.8 million messages a second with pairs
//! on a quarter of the CPUs, 12.4 million on half of them, and with the change 12.1 million on
//! three quarters: not more, however many take part. Every datagram adds to the same generator of
//! IP identifications, and 12.4 million transfers of that line a second are 81 ns for each, 73 % of
//! the 110 that a transfer takes in the mean. ICL is not at that limit: with a quarter of the CPUs
//! a message takes 4.4 µs there, which says what kernel work costs. With that, the row of 75 % says
//! what the reads of the counter take and what a migration costs.

use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_sim::machine::parts::WakesBy;

use super::load::{Load, Seen, see};
use super::{Machine, SHARES};
use crate::studies::published::Kernel;
use crate::studies::{Bench, Calibration, Given, Prediction, nearest};

/// Time an MWAIT state without power gating really takes to leave; tables of the driver have the
/// worst case.
const SHALLOW_EXIT_NS: u64 = 500;
/// States with a longer table entry than this are gated.
const SHALLOW_TABLE_NS: u64 = 10_000;

/// The constants of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MachineConstants {
    /// Prices of the preset's kernel work and of the programs' system calls.
    pub price_percent: u64,
    /// Part of a transfer for which a read of a shared line keeps it from others.
    pub read_percent: u32,
    /// The same for a write, and for the first read after one.
    pub write_percent: u32,
    /// From a wakeup's choice of an idle CPU until other wakeups see it taken.
    pub mark_ns: u64,
    /// Work done with cold caches after a move within the last level cache.
    pub refill_ns: u64,
}

impl MachineConstants {
    /// The scenario on a machine with these constants.
    pub(super) fn apply(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        let part = |price: &mut u64| *price = (*price * self.price_percent / 100).max(1);
        let machine = &mut scenario.machine.machine;
        machine.cost_ns.iter_mut().for_each(part);
        machine.wakeup_mark_ns = self.mark_ns;
        if let Some(idle) = &mut machine.idle {
            let shallow = idle.state.iter_mut().filter(|state| {
                state.wakes_by == WakesBy::Monitor && state.exit_latency_ns < SHALLOW_TABLE_NS
            });
            shallow.for_each(|state| state.hardware_exit_ns = Some(SHALLOW_EXIT_NS));
        }
        if let Some(lines) = &mut machine.lines {
            lines.read_service_percent = self.read_percent;
            lines.write_service_percent = self.write_percent;
        }
        if let Some(migration) = &mut machine.migration {
            migration.same_llc_refill_ns = self.refill_ns;
        }
        for program in &mut scenario.programs {
            let prices = &mut program.prices;
            let calls = [
                &mut prices.udp_send_ns,
                &mut prices.udp_receive_ns,
                &mut prices.tcp_send_ns,
                &mut prices.tcp_receive_ns,
                &mut prices.tcp_acknowledge_ns,
                &mut prices.netperf_round_ns,
                &mut prices.unix_send_ns,
                &mut prices.unix_receive_ns,
                &mut prices.poll_ns,
            ];
            calls.into_iter().for_each(part);
        }
        scenario
    }
}

/// Target of a run of the unpatched or patched kernel.
struct Target {
    share: u64,
    kernel: Kernel,
    rate: f64,
}

fn target(machine: &Machine, share: u64, kernel: Kernel, known: &Calibration) -> Result<Target> {
    let table = format!("netperf/udp_rr on {}", machine.name);
    let point = format!("{share}%");
    let rate = known.mean("netperf", |asked| {
        asked.table == table && asked.point == point && asked.kernel == kernel
    })?;
    Ok(Target {
        share,
        kernel,
        rate,
    })
}

/// The candidate with the smallest sum of log-errors.
fn best(
    machine: &Machine,
    candidates: &[MachineConstants],
    targets: &[Target],
    bench: &Bench,
) -> Result<MachineConstants> {
    if let [only] = candidates {
        return Ok(*only);
    }
    let jobs = candidates.iter().flat_map(|fit| {
        targets.iter().map(|target| {
            let load = Load::udp_rr(machine.pairs(target.share));
            let column = usize::from(target.kernel == Kernel::Patched);
            (load.on(&fit.apply(&machine.pair[column])), load)
        })
    });
    let jobs: Vec<(Scenario, Load)> = jobs.collect();
    let seen = see(&jobs, 1, bench)?;
    let misses = seen.chunks(targets.len()).map(|runs| {
        let miss = |(seen, target): (&Seen, &Target)| (seen.rate / target.rate).ln().abs();
        runs.iter().zip(targets).map(miss).sum::<f64>()
    });
    nearest(candidates, misses)
}

/// Constants of a quick run, which are the results of the full fit.
const QUICK: MachineConstants = MachineConstants {
    price_percent: 60,
    read_percent: 25,
    write_percent: 75,
    mark_ns: 2000,
    refill_ns: 1000,
};

/// Both machines with the constants that were fitted to them.
pub(super) fn fit(spr: Machine, icl: Machine, given: &mut Given) -> Result<[Machine; 2]> {
    let (known, bench, prediction) = given.parts();
    let prices = |fit: MachineConstants| {
        [55, 60, 65].map(|price_percent| MachineConstants {
            price_percent,
            ..fit
        })
    };
    let writes = [65, 75, 85].map(|write_percent| MachineConstants {
        write_percent,
        ..QUICK
    });
    let tried: Vec<MachineConstants> = writes.into_iter().flat_map(prices).collect();
    let on_spr = fit_low(&spr, &tried, known, bench)?;
    let on_icl = fit_low(&icl, &prices(on_spr), known, bench)?;
    let line = [10, 25].into_iter().flat_map(|read_percent| {
        [1500, 2000, 2500].map(|mark_ns| MachineConstants {
            read_percent,
            mark_ns,
            ..on_spr
        })
    });
    let line: Vec<MachineConstants> = line.collect();
    let targets = [
        target(&spr, 75, Kernel::Base, known)?,
        target(&spr, 75, Kernel::Patched, known)?,
        target(&spr, 100, Kernel::Base, known)?,
    ];
    let on_spr = best(&spr, bench.pick(&line[..], &[QUICK]), &targets, bench)?;
    let on_icl = MachineConstants {
        price_percent: on_icl.price_percent,
        ..on_spr
    };
    say(prediction, &on_spr, &on_icl);
    Ok([spr.with(&on_spr), icl.with(&on_icl)])
}

/// The candidate that is nearest to the unpatched rows of 25 and 50 %.
fn fit_low(
    machine: &Machine,
    candidates: &[MachineConstants],
    known: &Calibration,
    bench: &Bench,
) -> Result<MachineConstants> {
    let shares = SHARES[..2].iter();
    let targets: Result<Vec<Target>> = shares
        .map(|&share| target(machine, share, Kernel::Base, known))
        .collect();
    best(machine, bench.pick(candidates, &[QUICK]), &targets?, bench)
}

fn say(prediction: &mut Prediction, on_spr: &MachineConstants, on_icl: &MachineConstants) {
    let from = "UDP_RR with 25 and 50 %, base";
    let percent = |fit: &MachineConstants| fit.price_percent as f64;
    prediction.constant("price_percent on SPR", percent(on_spr), "%", from);
    prediction.constant("price_percent on ICL", percent(on_icl), "%", from);
    let from = "UDP_RR on SPR with 25 and 50 %, base";
    let write = f64::from(on_spr.write_percent);
    prediction.constant("write_service_percent", write, "%", from);
    let from = "UDP_RR on SPR with 75 %, base and patched, and 100 %, base";
    let read = f64::from(on_spr.read_percent);
    prediction.constant("read_service_percent", read, "%", from);
    let mark = on_spr.mark_ns as f64;
    prediction.constant("wakeup_mark_ns", mark, "ns", from);
}
