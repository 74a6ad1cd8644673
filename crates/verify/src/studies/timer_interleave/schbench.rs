//! schbench in two groups: signs only, for its flags are not published.
//!
//! Worked example: with both groups' timers aligned, 192 threads want 64 CPUs in the first half of
//! each period and are throttled in the second, so a tenth of the wakeups waits 10 ms or more. With
//! the periods apart half as many threads compete, and the same tenth waits 3 ms.
//!
//! How many workers a messenger has is fitted to the unpatched percentiles; everything else of the
//! command line is schbench's default of 2023.

use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;

use super::Variants;
use crate::studies::bench::{running, seeded};
use crate::studies::published::{Kernel, Question};
use crate::studies::{Bench, Given, nearest};

const TABLE: &str = "schbench";
const POINT: &str = "groups=32";
/// Time of a run, s; schbench begins a second later to count.
const RUN_S: u64 = 5;

/// Both groups with schbench instead of stress-ng.
fn scenario(groups: &Scenario, workers: u64) -> Scenario {
    let command = format!("schbench-classic -m 32 -t {workers} -r {RUN_S}");
    let mut scenario = running(groups, &command);
    scenario.duration_ns = Some((RUN_S + 1) * 1_000_000_000);
    scenario
}

/// Value in a run that a question asks for: mean over both groups, us.
fn percentile(question: &Question, run: &schedcast_lab::outcome::Outcome) -> f64 {
    // latency.p50.0 of the table is wakeup_latency.p50 here.
    let wanted = question.metric.trim_start_matches("latency.");
    let wanted = wanted.strip_suffix(".0").unwrap_or(wanted);
    let of = |group: &str| run.value(&format!("{group}/wakeup_latency.{wanted}"));
    (of("a") + of("b")) / 2.0
}

/// Mean of every asked percentile over the seeds.
fn means(scenario: &Scenario, asked: &[&Question], seeds: u64, bench: &Bench) -> Result<Vec<f64>> {
    let runs = bench.run(&seeded([scenario], 0..seeds))?;
    let mean = |question: &&Question| {
        let values = runs.iter().map(|run| percentile(question, run));
        values.sum::<f64>() / runs.len() as f64
    };
    Ok(asked.iter().map(mean).collect())
}

/// Fits the number of workers and answers the rows of 32 groups.
pub(super) fn answer(variants: &Variants, given: &mut Given) -> Result<()> {
    let (known, bench, prediction) = given.parts();
    let here = |asked: &&Question| asked.table == TABLE && asked.point == POINT;
    let questions: Vec<&Question> = known.questions().iter().filter(here).collect();
    let fitted = known.known().iter().filter(|row| here(&&row.question));
    let fitted: Vec<_> = fitted.collect();
    let asked: Vec<&Question> = fitted.iter().map(|row| &row.question).collect();
    let seeds = bench.pick(10, 2);
    let (tried, mut misses) = ([1, 2, 3, 4], Vec::new());
    for workers in tried {
        let ours = means(&scenario(&variants.two_base, workers), &asked, seeds, bench)?;
        let pairs = ours.iter().zip(&fitted);
        let errors = pairs.map(|(ours, row)| (ours / row.value).ln().abs());
        misses.push(errors.sum::<f64>());
    }
    let workers = nearest(&tried, misses.into_iter())?;
    let from = "schbench with 32 groups, base";
    prediction.constant("schbench workers", workers as f64, "", from);
    let both = [
        (Kernel::Base, &variants.two_base),
        (Kernel::Patched, &variants.two_patched),
    ];
    for (kernel, groups) in both {
        let values = means(&scenario(groups, workers), &questions, seeds, bench)?;
        for (question, value) in questions.iter().zip(values) {
            if question.kernel == kernel {
                prediction.answer(question, value, None);
            }
        }
    }
    for percentile in ["p90", "p95"] {
        let metric = format!("latency.{percentile}.0");
        let of = |kernel: Kernel| {
            let mut all = questions.iter();
            let asked = all.find(|asked| asked.metric == metric && asked.kernel == kernel);
            let answer = asked.and_then(|asked| prediction.answered(asked.index));
            answer.map_or(f64::NAN, |answer| answer.value)
        };
        let fall = of(Kernel::Base) / of(Kernel::Patched);
        prediction.figure(&format!("schbench_{percentile}_fall"), fall);
    }
    Ok(())
}
