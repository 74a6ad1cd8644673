//! `cpu-limit`: a pod that uses 0.4 CPUs under a limit of half a CPU, throttled in half of all
//! periods.
//!
//! Each request keeps four threads spinning until 20 ms have passed on the wall clock. They use up
//! 50 ms of quota in 50 / 4 = 12.5 ms. Worked example: a request that arrives 30 ms after a refill
//! is throttled at 42.5 ms and continues at 100 ms, when its 20 ms are long over: its latency is
//! 70 ms instead of 20. One that arrives at 90 ms uses 40 ms before the refill and 40 ms after it,
//! and is not throttled. Five requests a second fall into ten periods a second, and nearly every
//! request is throttled once, so nearly half of the periods are. A burst of 50 ms lets a request
//! that finds the buffer full have the 80 ms it needs.
//!
//! Nothing is fitted: the load's published numbers are the flags of the program `http-service`.

use schedcast_base::quantile::percentile;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;

use super::Given;
use super::bench::{running, uniform_draws};
use super::published::Kernel;

/// The same load from clients that do not keep a beat.
const POISSON: &str = "http-service --rate 5 --arrivals poisson --threads 4 --work 1 \
                       --demand fixed --fan-out 4 --fan-work 20000 --by-clock --duration 51s";
/// The band of the published ratio of p50s, 3.83 ± 25 %.
const RATIO_BAND: std::ops::RangeInclusive<f64> = 2.87..=4.79;

/// Predicts the study.
pub(super) fn predict(given: &mut Given) -> Result<()> {
    let [free, limited, burst] = given.variants("")?;
    let (known, bench, prediction) = given.parts();
    let free = seen(&bench.run(&in_phases(&free, 1))?);
    let phases = bench.pick(200, 8);
    let with_limit = seen(&bench.run(&in_phases(&limited, phases))?);
    let burst = seen(&bench.run(&in_phases(&burst, phases))?);
    let poisson = seen(&bench.run(&in_phases(&running(&limited, POISSON), phases))?);
    let p50_free_ms = median(&free.p50_ms);
    for question in known.questions() {
        let p50_ms = match question.kernel {
            Kernel::Base => p50_free_ms,
            Kernel::Patched => median(&with_limit.p50_ms),
        };
        prediction.answer(question, p50_ms, None);
    }
    for (name, percent) in [("p50_p5", 5.0), ("p50_p95", 95.0)] {
        prediction.figure(name, at_percent(&with_limit.p50_ms, percent));
    }
    let in_band = |p50_ms: &&f64| RATIO_BAND.contains(&(**p50_ms / p50_free_ms));
    let hits = with_limit.p50_ms.iter().filter(in_band).count();
    prediction.figure("phases_in_band", 100.0 * hits as f64 / phases as f64);
    let largest = |values: &[f64]| at_percent(values, 100.0);
    prediction.figure("throttled_share", median(&with_limit.throttled_percent));
    prediction.figure("throttled_share_burst", largest(&burst.throttled_percent));
    prediction.figure("p50_burst", largest(&burst.p50_ms));
    let of_poisson = median(&poisson.throttled_percent);
    prediction.figure("throttled_share_poisson", of_poisson);
    let across = "ms from the first request to a refill";
    prediction.axes(across, "p50 of all requests, ms");
    let phases_ns = uniform_draws(phases, PERIOD_NS, 1);
    let phases_ms: Vec<f64> = phases_ns.iter().map(|&ns| ns as f64 / 1e6).collect();
    for (name, seen) in [("500m", &with_limit), ("500m, burst 50 ms", &burst)] {
        let points = phases_ms.iter().copied().zip(seen.p50_ms.iter().copied());
        prediction.series(name, points.collect());
    }
    Ok(())
}

/// The scenario with its periods in `count` places, one in each equal part of a period.
fn in_phases(scenario: &Scenario, count: usize) -> Vec<(Scenario, u64)> {
    let at = |(seed, phase_ns): (u64, u64)| {
        let mut scenario = scenario.clone();
        for group in scenario.cgroups.values_mut() {
            group.period_phase_ns = Some(phase_ns);
        }
        (scenario, seed)
    };
    let phases_ns = uniform_draws(count, PERIOD_NS, 1);
    (0..).zip(phases_ns).map(at).collect()
}

/// The period of the limit.
const PERIOD_NS: u64 = 100_000_000;

/// Observations of the runs, in their order.
struct Seen {
    /// Median latency of the requests of a run, in ms.
    p50_ms: Vec<f64>,
    /// Throttled periods of a run per 100 periods.
    throttled_percent: Vec<f64>,
}

fn seen(runs: &[Outcome]) -> Seen {
    let p50_ms = |run: &Outcome| run.value("http-service/latency.p50") / 1000.0;
    let throttled_percent = |run: &Outcome| {
        let [throttled, periods] =
            ["nr_throttled", "nr_periods"].map(|name| run.value(&format!("cgroup:/pod/{name}")));
        100.0 * throttled / periods
    };
    Seen {
        p50_ms: runs.iter().map(p50_ms).collect(),
        throttled_percent: runs.iter().map(throttled_percent).collect(),
    }
}

/// The value below which `percent` of the values lie; NaN if there are none.
fn at_percent(values: &[f64], percent: f64) -> f64 {
    percentile(values, percent).unwrap_or(f64::NAN)
}

fn median(values: &[f64]) -> f64 {
    at_percent(values, 50.0)
}
