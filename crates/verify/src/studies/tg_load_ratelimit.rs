//! `tg-load-ratelimit`: a queue writes `tg->load_avg` at most once a millisecond (Linux 6.7).
//!
//! The counter of a group is one cache line. Every wakeup that changes CPUs writes it, and every
//! enqueue and dequeue reads it. Worked example on two sockets: a transfer to a CPU of the other
//! socket takes 155 ns, within the socket 65, in equal parts 110; three quarters of that keep
//! others from the line. A write and the first read after it are 165 ns, two further reads with a
//! quarter 55: no more than 4.5 million writes a second to either of two counters, whatever the
//! number of CPUs. A wakeup makes one of them, and 168 pairs of UDP_RR want 12 million.
//!
//! Fitted to the unpatched columns, and to the one row that is given for it (UDP_RR on SPR, 75 %):
//! the price of kernel work, how long writes and reads hold a line, and what a migration costs.

mod fit;
mod load;

use fit::MachineConstants;
use load::{Load, Seen, see};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;

use super::bench::place_of;
use super::{Calibration, Given, Prediction, nearest};

/// Per cent of the CPUs that have a pair.
const SHARES: [u64; 4] = [25, 50, 75, 100];
const GROUPS: [u64; 4] = [1, 4, 8, 16];
/// Length of a quick run, half of it warm-up.
const QUICK_NS: u64 = 60_000_000;

/// One of the two machines, with both kernels.
pub(super) struct Machine {
    name: &'static str,
    cpus: u64,
    pair: [Scenario; 2],
}

/// Predicts the study.
pub(super) fn predict(given: &mut Given) -> Result<()> {
    let spr = machine("SPR", "", given)?;
    let icl = machine("ICL", "machine.preset = \"icl-2x32x2\"", given)?;
    let [spr, icl] = fit::fit(spr, icl, given)?;
    given
        .prediction
        .axes("pairs, % of the CPUs", "patched / base");
    let gains = [&spr, &icl].map(|machine| answer_udp(machine, given));
    let [on_spr, on_icl] = gains;
    given
        .prediction
        .figure("spr_gain_over_icl", 100.0 * (on_spr? / on_icl? - 1.0));
    for machine in [&spr, &icl] {
        answer_tcp(machine, given)?;
        answer_hackbench(machine, given)?;
    }
    answer_postgres(&spr, given)?;
    in_the_root_group(&spr, given)
}

fn machine(name: &'static str, layer: &str, given: &Given) -> Result<Machine> {
    let mut pair: [Scenario; 2] = given.variants(layer)?;
    if given.bench.quick() {
        for scenario in &mut pair {
            scenario.warmup_ns = QUICK_NS / 2;
            scenario.duration_ns = Some(QUICK_NS);
        }
    }
    Ok(Machine {
        name,
        cpus: pair[0].machine.cpus() as u64,
        pair,
    })
}

impl Machine {
    fn with(&self, fit: &MachineConstants) -> Machine {
        Machine {
            name: self.name,
            cpus: self.cpus,
            pair: self.pair.each_ref().map(|scenario| fit.apply(scenario)),
        }
    }

    /// Netperf or its like on so many per cent of the CPUs.
    fn pairs(&self, percent: u64) -> u64 {
        self.cpus * percent / 100
    }

    /// Both kernels under every load: base and patched in turn.
    fn both(&self, loads: &[Load]) -> Vec<(Scenario, Load)> {
        let under = |load: &Load| self.pair.each_ref().map(|one| (load.on(one), *load));
        loads.iter().flat_map(under).collect()
    }
}

/// Place of a point of netperf and its like.
fn share_at(point: &str) -> Option<usize> {
    place_of(point.strip_suffix('%')?, &SHARES)
}

/// Answers UDP_RR's table; returns the geometric mean of the gains with 75 and 100 %.
fn answer_udp(machine: &Machine, given: &mut Given) -> Result<f64> {
    let (known, bench, prediction) = given.parts();
    let loads = SHARES.map(|share| Load::udp_rr(machine.pairs(share)));
    let seen = see(&machine.both(&loads), bench.pick(2, 1), bench)?;
    let rates: Vec<f64> = seen.iter().map(|seen| seen.rate).collect();
    let table = format!("netperf/udp_rr on {}", machine.name);
    prediction.answer_table((known, &table), share_at, &rates);
    let gains: Vec<f64> = rates.chunks(2).map(|pair| pair[1] / pair[0]).collect();
    let line = SHARES.iter().map(|&share| share as f64).zip(gains.clone());
    prediction.series(&format!("UDP_RR on {}", machine.name), line.collect());
    if machine.name == "SPR" {
        mechanism(&seen[6], &seen[7], known, prediction);
    }
    Ok((gains[2] * gains[3]).sqrt())
}

/// The line and the writes, all CPUs with a pair on SPR.
fn mechanism(base: &Seen, patched: &Seen, known: &Calibration, prediction: &mut Prediction) {
    let all = "netperf/udp_rr on SPR 100%";
    let questions = known.questions().iter();
    for question in questions.filter(|asked| asked.workload == all) {
        let value = match question.metric.split(' ').next() {
            Some("update_cfs_group") => 100.0 * base.read_share,
            Some("update_load_avg") => 100.0 * base.write_share,
            Some("wakeups") => 5.0 * base.wakeups_per_s,
            Some("migrations") => 5.0 * base.wakeups_per_s * base.migrations_per_wakeup,
            _ => continue,
        };
        prediction.answer(question, value, None);
    }
    let line = 100.0 * (base.read_share + base.write_share);
    prediction.figure("line_share", line);
    prediction.figure("migrations_per_wakeup", base.migrations_per_wakeup);
    prediction.figure("writes_patched", 5.0 * patched.writes_per_s);
    prediction.figure("writes_base", 5.0 * base.writes_per_s);
    let ceiling = known.questions().iter();
    for question in ceiling.filter(|asked| asked.metric.starts_with("writes to tg->load_avg")) {
        prediction.answer(question, 5.0 * patched.writes_per_s, None);
    }
}

fn answer_tcp(machine: &Machine, given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    let table = format!("netperf/tcp_stream on {}", machine.name);
    let loads = SHARES.map(|share| Load::tcp_stream(machine.pairs(share)));
    let seen = see(&machine.both(&loads), bench.pick(3, 1), bench)?;
    let rates: Vec<f64> = seen.iter().map(|seen| seen.rate).collect();
    prediction.answer_table((known, &table), share_at, &rates);
    Ok(())
}

/// hackbench's throughput, KiB a second as the kernel test robot counts it.
fn answer_hackbench(machine: &Machine, given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    let table = format!("hackbench on {}", machine.name);
    // Starting is slow compared with what one or two loops take: a tenth of a second and more is
    // left to run.
    let loops = |groups: u64| bench.pick(2500, 40) + bench.pick(12_500, 0) / groups;
    let loads = GROUPS.map(|groups| Load::Hackbench(groups, loops(groups)));
    // Few tasks on many CPUs run into each other more or less by chance.
    let (few, many) = loads.split_at(2);
    let mut seen = see(&machine.both(few), bench.pick(5, 1), bench)?;
    seen.extend(see(&machine.both(many), bench.pick(2, 1), bench)?);
    let rates: Vec<f64> = seen.iter().map(|run| run.rate).collect();
    let place = |point: &str| place_of(point.strip_prefix("group=")?, &GROUPS);
    prediction.answer_table((known, &table), place, &rates);
    Ok(())
}

/// sysbench on PostgreSQL as pairs that exchange requests and responses.
fn answer_postgres(machine: &Machine, given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    const WORKS_NS: [u64; 5] = [20_000, 30_000, 40_000, 50_000, 60_000];
    let table = "postgres_sysbench on SPR";
    let row = |table: &str, point: &str, metric: &str| {
        known.mean("postgres", |asked| {
            asked.table == table && asked.point == point && asked.metric == metric
        })
    };
    let rates = known.known().iter();
    let wakeups = rates
        .filter(|known| known.question.table == "rates" && known.question.workload == table)
        .find(|known| known.question.metric == "wakeups in 5 s")
        .ok_or_else(|| Error::general("no row of wakeups under postgres"))?;
    let wakeups_per_s = wakeups.value / 5.0;
    let per_wakeup = row(table, "100%", "throughput")? / wakeups_per_s;
    let works = bench.pick(&WORKS_NS[..], &WORKS_NS[2..3]);
    let loads = works
        .iter()
        .map(|&work_ns| Load::Requests(machine.cpus, work_ns));
    let trials = loads.map(|load| (load.on(&machine.pair[0]), load));
    let seen = see(&trials.collect::<Vec<_>>(), 1, bench)?;
    let miss = |seen: &Seen| (seen.wakeups_per_s / wakeups_per_s).ln().abs();
    let work_ns = nearest(works, seen.iter().map(miss))?;
    let from = "wakeups in 5 s, postgres_sysbench on SPR, base";
    prediction.constant("postgres_work_ns", work_ns as f64, "ns", from);
    let loads = SHARES.map(|share| Load::Requests(machine.pairs(share), work_ns));
    let seen = see(&machine.both(&loads), bench.pick(2, 1), bench)?;
    let rates = seen.iter().map(|seen| seen.wakeups_per_s * per_wakeup);
    let rates: Vec<f64> = rates.collect();
    prediction.answer_table((known, table), share_at, &rates);
    Ok(())
}

/// In the root group there is no such counter.
fn in_the_root_group(machine: &Machine, given: &mut Given) -> Result<()> {
    let (_, bench, prediction) = given.parts();
    let mut jobs = machine.both(&[Load::udp_rr(machine.pairs(75))]);
    for (scenario, _) in &mut jobs {
        for program in &mut scenario.programs {
            program.cgroup = "/".to_owned();
        }
    }
    let seen = see(&jobs, 1, bench)?;
    prediction.figure("root_gain", 100.0 * (seen[1].rate / seen[0].rate - 1.0));
    prediction.figure("root_rate", seen[0].rate);
    Ok(())
}
