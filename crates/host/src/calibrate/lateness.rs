//! How late the handler of the tick begins, from the tracer.
//!
//! `hrtimer_expire_entry` of the tick prints the clock at the handler's begin, and ticks are due at
//! multiples of their period: `now=26164944036795` at 250 Hz is 36.795 µs late.

use schedcast_base::quantile::nearest_rank;

use crate::error::Result;
use crate::measure::{Gap, Spread, spin_gaps_on};
use crate::tracefs::TraceInstance;

/// The tick's handler by its names, old and new.
const HANDLERS: [&str; 2] = ["function=tick_nohz_handler", "function=tick_sched_timer"];
/// Steps of probability of the quantiles.
const STEPS: u32 = 20;
/// Fewer ticks say nothing about their tails.
const FEWEST: usize = 200;

/// How late ticks were.
#[derive(Debug, Clone, PartialEq)]
pub struct TimerLateness {
    /// Quantiles at equal steps of probability from 0 to 1; the last is the 99 % quantile, because
    /// the longest is a matter of chance.
    pub quantiles_ns: Vec<u64>,
    /// How often a tick is as late as the one before, percent, if it is that or independent: the
    /// correlation of their ranks, four ticks apart, to the power of a quarter.
    pub kept_percent: u32,
    /// Order statistics of all ticks.
    pub spread: Spread,
}

/// Spins on CPUs and returns their gaps.
pub(super) fn spin(cpus: &[usize], for_ns: u64) -> Result<Vec<Vec<Gap>>> {
    spin_gaps_on(cpus, for_ns, 500).map_err(|error| super::on_cpu("spinning on", cpus[0], error))
}

/// Traces the ticks of CPUs that are kept busy; `None` when there were too few.
pub(super) fn measure(cpus: &[usize], for_ns: u64, tick_ns: u64) -> Result<Option<TimerLateness>> {
    let name = format!("schedcast-calibrate-{}", std::process::id());
    let trace = TraceInstance::create(&name, 4096, &["timer/hrtimer_expire_entry"])?;
    trace.start()?;
    spin(cpus, for_ns)?;
    trace.stop()?;
    let text = trace.text()?;
    drop(trace);
    Ok(lateness(&ticks(&text, tick_ns)))
}

/// Lateness of every tick, by CPU, in order of time.
fn ticks(text: &str, tick_ns: u64) -> Vec<Vec<u64>> {
    let mut by_cpu: Vec<Vec<u64>> = Vec::new();
    for line in text.lines() {
        if !HANDLERS.iter().any(|handler| line.contains(handler)) {
            continue;
        }
        let cpu = line
            .split(['[', ']'])
            .nth(1)
            .and_then(|cpu| cpu.parse().ok());
        let now = line.split("now=").nth(1).map(str::trim_end);
        let now: Option<u64> = now.and_then(|now| now.parse().ok());
        let (Some(cpu), Some(now)) = (cpu, now) else {
            continue;
        };
        let cpu: usize = cpu;
        if by_cpu.len() <= cpu {
            by_cpu.resize(cpu + 1, Vec::new());
        }
        by_cpu[cpu].push(now % tick_ns);
    }
    by_cpu
}

fn lateness(by_cpu: &[Vec<u64>]) -> Option<TimerLateness> {
    let mut all: Vec<u64> = by_cpu.concat();
    if all.len() < FEWEST {
        return None;
    }
    all.sort_unstable();
    let at = |per_million: u32| nearest_rank(&all, per_million);
    let steps = (0..STEPS).map(|step| step * (1_000_000 / STEPS));
    let quantiles_ns: Vec<u64> = steps.chain([990_000]).filter_map(at).collect();
    let samples: Vec<f64> = all.iter().map(|ns| *ns as f64).collect();
    let long = by_cpu.iter().filter(|late| late.len() >= FEWEST / 2);
    let correlations: Vec<f64> = long.map(|late| rank_correlation(late, 4)).collect();
    let mean = correlations.iter().sum::<f64>() / correlations.len().max(1) as f64;
    Some(TimerLateness {
        quantiles_ns,
        kept_percent: (mean.max(0.0).sqrt().sqrt() * 100.0).round() as u32,
        spread: Spread::of(&samples)?,
    })
}

/// Correlation of the ranks of values with those `lag` places later.
fn rank_correlation(values: &[u64], lag: usize) -> f64 {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|row| values[*row]);
    let mut ranks = vec![0.0; values.len()];
    for (rank, row) in order.into_iter().enumerate() {
        ranks[row] = rank as f64;
    }
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let product = |a: &f64, b: &f64| (a - middle) * (b - middle);
    let pairs = ranks.iter().zip(&ranks[lag..]);
    let together: f64 = pairs.map(|(a, b)| product(a, b)).sum();
    let whole: f64 = ranks.iter().map(|a| product(a, a)).sum();
    let share = (values.len() - lag) as f64 / values.len() as f64;
    together / (whole * share).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_from_the_tracers_text() {
        let text = "\
# header
   sh-4077 [001] d.h.. 26164.944038: hrtimer_expire_entry: hrtimer=0000 function=tick_nohz_handler now=26164944037030
   sh-4077 [000] d.h.. 26164.948015: hrtimer_expire_entry: hrtimer=0000 function=hrtimer_wakeup now=26164948013564
   sh-4077 [000] d.h.. 26164.952009: hrtimer_expire_entry: hrtimer=0000 function=tick_sched_timer now=26164952009272
";
        assert_eq!(ticks(text, 4_000_000), [vec![9272], vec![37_030]]);
    }

    #[test]
    fn quantiles_and_persistence() {
        // 1000 ticks that are 1, 2, … 1000 ns late: each like the one before.
        let late = lateness(&[(1..=1000).collect()]).unwrap();
        assert_eq!(late.quantiles_ns.len(), 21);
        assert_eq!(late.quantiles_ns[..3], [1, 50, 100]);
        assert_eq!(late.quantiles_ns[20], 990);
        assert!(late.kept_percent >= 98, "{}", late.kept_percent);
        // Early and late in turn: four ticks apart they are alike, so still kept …
        let turns: Vec<u64> = (0..1000).map(|n| n % 4 * 1000).collect();
        assert!(lateness(&[turns]).unwrap().kept_percent > 95);
        // … and without order they are not.
        let mixed: Vec<u64> = (0..1000u64).map(|n| n * 7919 % 1009).collect();
        assert!(lateness(&[mixed]).unwrap().kept_percent < 70);
        assert_eq!(lateness(&[vec![5; 10]]), None);
    }
}
