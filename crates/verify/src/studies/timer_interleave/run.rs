//! Runs of the study and what is taken from each.

use schedcast_kernel::Ns;
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;

use super::{LOOK_FROM_NS, executing};
use crate::studies::Bench;
use crate::validate::tick_phase_ns;

/// A run to be made: scenario and seed.
pub(super) type Job = (Scenario, u64);

/// One run.
pub(super) struct Draw {
    /// Mean time of the groups' commands, s.
    pub time_s: f64,
    /// Mean power of the socket until the last command ended, W.
    pub watts: f64,
}

/// A scenario with its programs started at each of the times, and the seed of each. The ticks begin
/// anywhere too: before 6.4 their phase is that of the moment at which the first clock event device
/// was set up.
pub(super) fn with_starts(scenario: &Scenario, starts: &[Ns]) -> Vec<Job> {
    let at = |(seed, &start_ns): (usize, &Ns)| {
        let mut scenario = scenario.clone();
        let rules = &mut scenario.kernel.rules;
        rules.tick_phase_ns = tick_phase_ns(seed as u64, rules.tick_ns);
        for program in &mut scenario.programs {
            program.start_ns += start_ns;
        }
        (scenario, seed as u64)
    };
    starts.iter().enumerate().map(at).collect()
}

/// Runs all jobs to their ends.
pub(super) fn draws(jobs: &[Job], bench: &Bench) -> Result<Vec<Draw>> {
    let measured = bench.measure(jobs, |world| {
        let report = world.hardware_report();
        let watts = report.and_then(|report| report.package);
        watts.map_or(f64::NAN, |watts| watts.mean)
    })?;
    let runs = jobs.iter().zip(measured);
    Ok(runs
        .map(|((scenario, _), (outcome, watts))| {
            let times = scenario.programs.iter();
            let times = times.filter_map(|one| outcome.metrics.get(&format!("{}/time", one.name)));
            Draw {
                time_s: times.sum::<f64>() / scenario.programs.len().max(1) as f64,
                watts,
            }
        })
        .collect())
}

/// The mean of something over draws.
pub(super) fn mean(draws: &[Draw], of: impl Fn(&Draw) -> f64) -> f64 {
    draws.iter().map(of).sum::<f64>() / draws.len().max(1) as f64
}

/// The mean time of draws, s.
pub(super) fn duration_s(draws: &[Draw]) -> f64 {
    mean(draws, |draw| draw.time_s)
}

/// Pearson's correlation of power and time.
pub(super) fn correlation(draws: &[Draw]) -> f64 {
    let (time, watts) = (duration_s(draws), mean(draws, |draw| draw.watts));
    let sum = |of: &dyn Fn(&Draw) -> f64| draws.iter().map(of).sum::<f64>();
    let both = sum(&|draw| (draw.time_s - time) * (draw.watts - watts));
    let times = sum(&|draw| (draw.time_s - time) * (draw.time_s - time));
    let powers = sum(&|draw| (draw.watts - watts) * (draw.watts - watts));
    both / (times * powers).sqrt()
}

/// Observations of two groups over two seconds.
pub(super) struct Overlap {
    /// Share of their run time that both run.
    pub share: f64,
    /// CPUs of each group over the first 300 ms.
    pub lines: [Vec<(f64, f64)>; 2],
}

/// Looks at every millisecond of two seconds of a run.
pub(super) fn overlap((scenario, seed): &Job, bench: &Bench) -> Result<Overlap> {
    const STEP_NS: Ns = 1_000_000;
    const STEPS: u64 = 2000;
    let mut world = bench.world(scenario, *seed)?;
    let (mut both, mut all) = (0, 0);
    let mut lines = [Vec::new(), Vec::new()];
    for step in 0..STEPS {
        // Between two ticks, so that what happens at one is over.
        let now = LOOK_FROM_NS + step * STEP_NS + STEP_NS / 2;
        world
            .run_until(now)
            .map_err(schedcast_lab::simulator::bad_input)?;
        let counts = executing(&world);
        both += counts[0].min(counts[1]);
        all += counts[0] + counts[1];
        if step < 300 {
            for (line, count) in lines.iter_mut().zip(counts) {
                line.push((step as f64, count as f64));
            }
        }
    }
    Ok(Overlap {
        share: 2.0 * both as f64 / all.max(1) as f64,
        lines,
    })
}

/// Sets quota and period, µs, of the groups in the order of their paths.
pub(super) fn set_limits(scenario: &mut Scenario, limits: &[(u64, u64)]) {
    for (group, &(quota_us, period_us)) in scenario.cgroups.values_mut().zip(limits) {
        group.limits.quota_us = Some(quota_us);
        group.limits.period_us = period_us;
    }
}

/// Adds a third group like the second.
pub(super) fn add_third(scenario: &mut Scenario) {
    if let Some(group) = scenario.cgroups.get("/b").cloned() {
        scenario.cgroups.insert("/c".to_string(), group);
    }
    if let Some(mut program) = scenario.programs.last().cloned() {
        program.name = "c".to_string();
        program.cgroup = "/c".to_string();
        program.start_ns *= 2;
        scenario.programs.push(program);
    }
}
