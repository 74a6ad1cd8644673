//! `timer-interleave`: period timers that no longer expire all at once (Linux 6.4).
//!
//! Two groups may each use half of the machine's time: 1600 ms of CPU time in 100 ms with 32
//! threads, so 50 ms of every 100. When both periods begin at once, 64 threads run in the first
//! half of each period, eight on every core, and nothing runs in the second half. When one begins
//! 50 ms later, four threads run on every core all the time, and each is 1/0.69 times as fast.
//!
//! Worked example: alone, a group takes T1 = 27.6 s, both aligned T2 = 40.15 s, so L = 1 − T1/T2 =
//! 0.3126. At an offset of 25 ms the groups share half of their run time, and take T1 / (1 − L/2) =
//! 27.6 / 0.8437 = 32.7 s. Over uniform offsets the mean is T1·(−ln(1 − L)/L) = 33.1 s.

use schedcast_base::quantile::percentile;
use schedcast_kernel::{Cpu, Ns};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_sim::World;

use super::bench::uniform_draws;
use super::published::{Kernel, Question};
use super::{Calibration, Given, Prediction};

mod power;
mod run;
mod schbench;

use run::{Draw, Job, duration_s, mean, with_starts};

/// The price the fit begins with: stress-ng's methods ten times slower than on the host they were
/// measured on.
const FIRST_PERMILLE: u64 = 10_000;
/// Rounds of a fit; each leaves an error of below a hundredth of the one before.
const ROUNDS: usize = 3;

/// The four variants with fitted constants.
pub(super) struct Variants {
    one_base: Scenario,
    one_patched: Scenario,
    two_base: Scenario,
    two_patched: Scenario,
}

/// Predicts the study.
pub(super) fn predict(given: &mut Given) -> Result<()> {
    let [one_base, one_patched, two_base, two_patched] = given.variants("")?;
    let mut variants = Variants {
        one_base,
        one_patched,
        two_base,
        two_patched,
    };
    power::fit(&mut variants, given)?;
    let times = fit_speeds(&mut variants, given)?;
    let (jobs, patched) = published_table(&variants, given)?;
    overlaps(&variants, times, &jobs, &patched, given)?;
    let patched_s = mean(&patched, |draw| draw.time_s);
    free_predictions(&variants, times, patched_s, given)?;
    schbench::answer(&variants, given)
}

impl Variants {
    fn all(&mut self) -> [&mut Scenario; 4] {
        [
            &mut self.one_base,
            &mut self.one_patched,
            &mut self.two_base,
            &mut self.two_patched,
        ]
    }

    /// Sets what a stress-ng operation costs, in thousandths of its price.
    fn set_permille(&mut self, permille: u64) {
        for scenario in self.all() {
            for program in &mut scenario.programs {
                program.prices.stress_ng_permille = permille;
            }
        }
    }

    /// Sets how fast each thread is with eight on a core; from five on the speeds lie between the
    /// preset's, shifted in proportion.
    fn set_speed_of_8(&mut self, speed: u32) {
        for scenario in self.all() {
            let Some(smt) = &mut scenario.machine.machine.smt else {
                continue;
            };
            let speeds = &mut smt.thread_speed_1000ths;
            let shift = i64::from(speed) - speeds.last().map_or(0, |&last| i64::from(last));
            for (threads, value) in speeds.iter_mut().enumerate().skip(4) {
                let shifted = i64::from(*value) + shift * (threads as i64 - 3) / 4;
                *value = shifted.clamp(1, 1000) as u32;
            }
        }
    }
}

/// Published mean time of one or two groups without the patch.
fn base_time(known: &Calibration, groups: &str) -> Result<f64> {
    known.mean("the speed", |asked| {
        asked.metric == "time" && asked.point.starts_with(groups) && asked.kernel == Kernel::Base
    })
}

/// Fits the price of an operation to the 1CG rows and the speed of eight threads to the 2CG rows.
/// Returns our T1 and T2 in seconds.
fn fit_speeds(variants: &mut Variants, given: &mut Given) -> Result<(f64, f64)> {
    let (known, bench, prediction) = given.parts();
    let (t1, t2) = (base_time(known, "1CG")?, base_time(known, "2CG")?);
    let starts = uniform_draws(bench.pick(8, 2), 100_000_000, 3);
    let time = |scenario: &Scenario| -> Result<f64> {
        let draws = run::draws(&with_starts(scenario, &starts), bench)?;
        Ok(mean(&draws, |draw| draw.time_s))
    };
    let mut permille = FIRST_PERMILLE;
    variants.set_permille(permille);
    for _ in 0..bench.pick(ROUNDS, 1) {
        permille = (permille as f64 * t1 / time(&variants.one_base)?).round() as u64;
        variants.set_permille(permille);
    }
    let smt = variants.one_base.machine.machine.smt.as_ref();
    let mut speed = smt
        .and_then(|smt| smt.thread_speed_1000ths.last().copied())
        .ok_or_else(|| Error::general("the machine has no SMT speeds"))?;
    for _ in 0..bench.pick(ROUNDS, 1) {
        speed = (f64::from(speed) * time(&variants.two_base)? / t2).round() as u32;
        variants.set_speed_of_8(speed);
    }
    let ours = (time(&variants.one_base)?, time(&variants.two_base)?);
    let price = permille as f64;
    prediction.constant("price of stress-ng", price, "‰", "time of 1CG, base");
    let speed = f64::from(speed);
    prediction.constant("speed of 8 threads", speed, "‰", "time of 2CG, base");
    Ok(ours)
}

/// Everything of the first published table; returns the runs of two groups with the patch.
fn published_table(variants: &Variants, given: &mut Given) -> Result<(Vec<Job>, Vec<Draw>)> {
    let (known, bench, prediction) = given.parts();
    let few = bench.pick(20, 4);
    let starts = uniform_draws(few, 100_000_000, 4);
    let one_base = run::draws(&with_starts(&variants.one_base, &starts), bench)?;
    let one_patched = run::draws(&with_starts(&variants.one_patched, &starts), bench)?;
    let two_base = run::draws(&with_starts(&variants.two_base, &starts), bench)?;
    let starts = uniform_draws(bench.pick(400, 12), 100_000_000, 5);
    let jobs = with_starts(&variants.two_patched, &starts);
    let two_patched = run::draws(&jobs, bench)?;
    for question in known.of_table("stress-ng") {
        let draws = match (question.point.starts_with("1CG"), question.kernel) {
            (true, Kernel::Base) => &one_base,
            (true, Kernel::Patched) => &one_patched,
            (false, Kernel::Base) => &two_base,
            (false, Kernel::Patched) => &two_patched,
        };
        answer(question, draws, prediction);
    }
    let time = |draws: &[Draw]| mean(draws, |draw| draw.time_s);
    prediction.figure("one_group_ratio", time(&one_patched) / time(&one_base));
    let times: Vec<f64> = two_patched.iter().map(|draw| draw.time_s).collect();
    prediction.figure("two_groups_mean", time(&two_patched));
    for (name, percent) in [("min", 0.0), ("p5", 5.0), ("p95", 95.0), ("max", 100.0)] {
        let value = percentile(&times[..], percent).unwrap_or(f64::NAN);
        prediction.figure(&format!("two_groups_{name}"), value);
    }
    prediction.figure("power_mean", mean(&two_patched, |draw| draw.watts));
    prediction.figure("power_time_correlation", run::correlation(&two_patched));
    Ok((jobs, two_patched))
}

fn answer(question: &Question, draws: &[Draw], prediction: &mut Prediction) {
    let of = |draw: &Draw| match question.metric.as_str() {
        "time" => draw.time_s,
        _ => draw.watts,
    };
    let values: Vec<f64> = draws.iter().map(of).collect();
    let deviation = schedcast_lab::statistics::standard_deviation(&values);
    prediction.answer(question, mean(draws, of), Some(deviation));
}

/// How much of their run time both groups run at once, and what follows from that alone.
fn overlaps(
    variants: &Variants,
    (t1, t2): (f64, f64),
    jobs: &[Job],
    patched: &[Draw],
    given: &mut Given,
) -> Result<()> {
    let (_, bench, prediction) = given.parts();
    let loss = 1.0 - t1 / t2;
    let base = run::overlap(&(variants.two_base.clone(), 0), bench)?;
    prediction.figure("overlap_base", 100.0 * base.share);
    let (mut shares, mut errors): (Vec<f64>, f64) = (Vec::new(), 0.0);
    for (job, draw) in jobs.iter().zip(patched).take(bench.pick(60, 6)) {
        let seen = run::overlap(job, bench)?;
        let expected_s = t1 / (1.0 - loss * seen.share);
        errors += (draw.time_s / expected_s - 1.0).abs();
        shares.push(seen.share);
    }
    let count = shares.len().max(1) as f64;
    let average = shares.iter().sum::<f64>() / count;
    prediction.figure("overlap_patched", 100.0 * average);
    prediction.figure("overlap_formula_error", 100.0 * errors / count);
    let executing = "CPUs that execute the group's threads";
    prediction.axes("ms of the run, from 2 s on", executing);
    for (row, name) in ["group a, base", "group b, base"].iter().enumerate() {
        prediction.series(name, base.lines[row].clone());
    }
    let seen = run::overlap(&jobs[jobs.len() / 3], bench)?;
    // The patched kernel's lines stand above the others.
    for (row, name) in ["a, patched (+70)", "b, patched (+70)"].iter().enumerate() {
        let raised = seen.lines[row].iter().map(|&(x, y)| (x, y + 70.0));
        prediction.series(name, raised.collect());
    }
    Ok(())
}

/// Free predictions: other duties, other periods, a third group, none of which is published.
fn free_predictions(
    variants: &Variants,
    (_, t2): (f64, f64),
    patched_s: f64,
    given: &mut Given,
) -> Result<()> {
    let (_, bench, prediction) = given.parts();
    let count = bench.pick(60, 4);
    let starts = uniform_draws(count, 100_000_000, 6);
    let time = |scenario: &Scenario, change: &dyn Fn(&mut Scenario)| -> Result<Vec<Draw>> {
        let mut scenario = scenario.clone();
        change(&mut scenario);
        run::draws(&with_starts(&scenario, &starts), bench)
    };
    let gain_at = |quota_us: u64| -> Result<f64> {
        let change = |scenario: &mut Scenario| run::set_limits(scenario, &[(quota_us, 100_000); 2]);
        let base = duration_s(&time(&variants.two_base, &change)?);
        let patched = duration_s(&time(&variants.two_patched, &change)?);
        Ok(100.0 * (base / patched - 1.0))
    };
    let gain_16 = 100.0 * (t2 / patched_s - 1.0);
    prediction.figure("gain_24_less_16", gain_at(2_400_000)? - gain_16);
    prediction.figure("gain_32", gain_at(3_200_000)?);
    let periods = |scenario: &mut Scenario| {
        run::set_limits(scenario, &[(1_552_000, 97_000), (1_648_000, 103_000)]);
    };
    let draws = time(&variants.two_base, &periods)?;
    let times = || draws.iter().map(|draw| draw.time_s);
    prediction.figure("periods_min", times().fold(f64::INFINITY, f64::min));
    prediction.figure("periods_max", times().fold(0.0, f64::max));
    let three = |scenario: &mut Scenario| run::add_third(scenario);
    let base = duration_s(&time(&variants.two_base, &three)?);
    let patched = duration_s(&time(&variants.two_patched, &three)?);
    prediction.figure("three_groups_ratio", patched / base);
    Ok(())
}

/// CPUs that execute threads of each of the first two groups.
fn executing(world: &World) -> [usize; 2] {
    let kernel = world.kernel();
    let mut counts = [0; 2];
    for cpu in (0..kernel.cpus()).map(Cpu::from) {
        let task = kernel.current(cpu);
        let group = kernel.tasks[task.index()].group.index();
        if !kernel.is_idle_task(task) && (1..=2).contains(&group) {
            counts[group - 1] += 1;
        }
    }
    counts
}

/// When overlap is looked at: late enough that all threads have their places.
const LOOK_FROM_NS: Ns = 2_000_000_000;
