//! What is fitted: the price of kernel work on each machine, what a read takes of the line, what a move costs.
//!
//! Worked example: UDP_RR with pairs on a quarter of the CPUs has no contention, and 104,954 transactions
//! a second are 4.8 µs a message. With the prices of the presets, of a virtual machine, a message takes 6.3
//! µs, of which 0.6 do not scale: 70 % of the prices. With the price fixed, the row of 75 % says by its base what the
//! line takes and by its patched column what a migration costs.

use super::load::{Load, Seen, see};
use super::{Machine, SHARES};
use crate::error::Result;
use crate::experiment::Scenario;
use crate::studies::published::{Kernel, broken};
use crate::studies::{Bench, Calibration, Prediction};
use schedcast_sim::machine::parts::WakesBy;

/// Time an MWAIT state without power gating really takes to leave; tables of the driver have the worst case.
const SHALLOW_EXIT_NS: u64 = 500;
/// States with a longer table entry than this are gated.
const SHALLOW_TABLE_NS: u64 = 10_000;

/// The constants of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Prices of the preset's kernel work and of the programs' system calls.
    pub price_percent: u64,
    /// Part of a transfer for which a read keeps the line from others.
    pub read_percent: u32,
    /// Work done with cold caches after a move within the last level cache.
    pub refill_ns: u64,
}

/// Both machines with their constants.
pub(super) struct Fitted {
    pub spr: Machine,
    pub icl: Machine,
}

impl Fit {
    /// The scenario on a machine with these constants.
    pub fn apply(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        let part = |price: &mut u64| *price = (*price * self.price_percent / 100).max(1);
        let machine = &mut scenario.machine.machine;
        machine.cost_ns.iter_mut().for_each(part);
        if let Some(idle) = &mut machine.idle {
            let shallow = idle.state.iter_mut().filter(|state| {
                state.wakes_by == WakesBy::Monitor && state.exit_latency_ns < SHALLOW_TABLE_NS
            });
            shallow.for_each(|state| state.hardware_exit_ns = Some(SHALLOW_EXIT_NS));
        }
        if let Some(lines) = &mut machine.lines {
            lines.read_service_percent = self.read_percent;
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

/// What a run of the unpatched or patched kernel should show.
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
fn best(machine: &Machine, candidates: &[Fit], targets: &[Target], bench: &Bench) -> Result<Fit> {
    if let [only] = candidates {
        return Ok(*only);
    }
    let jobs: Vec<(Scenario, Load)> = candidates
        .iter()
        .flat_map(|fit| {
            targets.iter().map(|target| {
                let load = Load::udp_rr(machine.pairs(target.share));
                let column = usize::from(target.kernel == Kernel::Patched);
                (load.on(&fit.apply(&machine.pair[column])), load)
            })
        })
        .collect();
    let seen = see(&jobs, 1, bench)?;
    let misses = seen.chunks(targets.len()).map(|runs| {
        let miss = |(seen, target): (&Seen, &Target)| (seen.rate / target.rate).ln().abs();
        runs.iter().zip(targets).map(miss).sum::<f64>()
    });
    let best = candidates
        .iter()
        .zip(misses)
        .min_by(|left, right| left.1.total_cmp(&right.1));
    let (&fit, _) = best.ok_or_else(|| broken("no constants were tried".into()))?;
    Ok(fit)
}

/// Fits both machines.
pub(super) fn fit(
    spr: Machine,
    icl: Machine,
    known: &Calibration,
    bench: &Bench,
    prediction: &mut Prediction,
) -> Result<Fitted> {
    // A quick run takes the values that the full fit finds.
    const QUICK: [Fit; 2] = [
        Fit {
            price_percent: 65,
            read_percent: 35,
            refill_ns: 3000,
        },
        Fit {
            price_percent: 75,
            read_percent: 35,
            refill_ns: 3000,
        },
    ];
    let prices = |machine: &Machine, quick: Fit| -> Result<Fit> {
        let tried = [60, 65, 70, 75, 80].map(|price_percent| Fit {
            price_percent,
            ..quick
        });
        let quick = [quick];
        let targets = SHARES[..2].iter();
        let targets: Result<Vec<Target>> = targets
            .map(|&share| target(machine, share, Kernel::Base, known))
            .collect();
        best(machine, bench.pick(&tried[..], &quick), &targets?, bench)
    };
    let on_spr = prices(&spr, QUICK[0])?;
    let on_icl = prices(&icl, QUICK[1])?;
    let line: Vec<Fit> = [25, 35, 45]
        .iter()
        .flat_map(|&read_percent| {
            [1000, 3000].map(|refill_ns| Fit {
                read_percent,
                refill_ns,
                ..on_spr
            })
        })
        .collect();
    let targets = [
        target(&spr, 75, Kernel::Base, known)?,
        target(&spr, 75, Kernel::Patched, known)?,
        target(&spr, 100, Kernel::Base, known)?,
    ];
    let on_spr = best(&spr, bench.pick(&line[..], &[on_spr]), &targets, bench)?;
    let on_icl = Fit {
        price_percent: on_icl.price_percent,
        ..on_spr
    };
    let from = "UDP_RR with 25 and 50 %, base";
    let percent = |fit: &Fit| fit.price_percent as f64;
    prediction.constant("price_percent on SPR", percent(&on_spr), "%", from);
    prediction.constant("price_percent on ICL", percent(&on_icl), "%", from);
    let from = "UDP_RR on SPR with 75 %, base and patched, and 100 %, base";
    let read = f64::from(on_spr.read_percent);
    prediction.constant("read_service_percent", read, "%", from);
    let refill = on_spr.refill_ns as f64;
    prediction.constant("same_llc_refill_ns", refill, "ns", from);
    Ok(Fitted {
        spr: spr.with(&on_spr),
        icl: icl.with(&on_icl),
    })
}
