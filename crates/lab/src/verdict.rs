//! Verdict of an answer from a recording, in two sentences: the cost of the limit now, and the gain
//! and the limits of the cheapest change.
//!
//! Worked example: a service with 50 ms in 100 ms and three columns, 60 ms, 80 ms and no limit:
//!
//! ```text
//! now: 50 ms in 100 ms = 0.5 CPU = 500m: postgres/request_latency.p99 is 178.9 ms; 46.1 % of the time that its threads want
//!      to run is lost to throttling.
//! cheapest change that helps: “60 ms”, 60 ms in 100 ms = 0.6 CPU = 600m: it becomes 68.2 ms, at most 95.0 in 95 of 100
//!      runs; 9.8 % of the periods are still throttled.
//! ```
//!
//! A column whose [backlog](crate::backlog) grows has a sentence of its own between them: “40 ms”
//! falls behind by 7.0 requests/s: 106 wait at half the time, 209 at the end.
//!
//! A column without a limit says what the limit costs. It is never recommended: the neighbours pay
//! for it.

use crate::backlog::Backlog;
use crate::comparison::{Comparison, Summary, Variant};
use crate::experiment::Scenario;
use crate::limit::Limit;
use crate::metrics::scale::scale_for;
use crate::metrics::{self, Metric};
use crate::recording::Latency;

/// Subject of the sentences.
pub struct Subject<'a> {
    /// The columns, the recorded settings first.
    pub comparison: &'a Comparison,
    /// Their settings.
    pub scenarios: &'a [Scenario],
    /// The group whose limits are in question.
    pub target: &'a str,
    /// Subjects of its threads.
    pub members: &'a [String],
    /// The latency that is told.
    pub latency: &'a Latency,
    /// Length of a run, in ns.
    pub run_ns: u64,
    /// Why no column may be recommended.
    pub doubt: Option<String>,
}

/// Which value of the latency is told.
pub(crate) const TOLD: &str = "p99";

/// The sentences, a line each; none where nothing is known of the latency.
pub(crate) fn sentences(subject: &Subject<'_>) -> Vec<String> {
    let metric = subject.latency.metric(TOLD);
    let (Some(parsed), [now, others @ ..]) =
        (metrics::parse(&metric), &subject.comparison.variants[..])
    else {
        return Vec::new();
    };
    let Some(before) = now.get(&metric) else {
        return Vec::new();
    };
    let limit = |index: usize| Limit::of(&subject.scenarios[index], subject.target);
    let lost = time_lost(now, subject.members);
    let lost = format!(
        "{:.1} % of the time that its threads want to run is lost to throttling",
        100.0 * lost
    );
    let unlimited = others
        .iter()
        .enumerate()
        .filter(|_| subject.doubt.is_none())
        .find(|(index, _)| limit(index + 1).quota_us.is_none() && limit(0).quota_us.is_some())
        .and_then(|(_, variant)| variant.get(&metric));
    let without = unlimited.map_or(String::new(), |summary| {
        format!("; without a limit it would be {}", value(&parsed, summary))
    });
    let mut sentences = vec![format!(
        "now: {}: {metric} is {}{without}; {lost}.",
        limit(0).in_words(),
        value(&parsed, before)
    )];
    sentences.extend(
        subject
            .comparison
            .variants
            .iter()
            .filter_map(|variant| falls_behind(subject, variant)),
    );
    let changes = (1..=others.len()).any(|index| limit(index) != limit(0));
    if !changes {
        return sentences;
    }
    if let Some(doubt) = &subject.doubt {
        sentences.push(format!("no column is recommended: {doubt}."));
        return sentences;
    }
    if limit(0).quota_us.is_none() {
        sentences.push(harmless(subject, &parsed));
        return sentences;
    }
    let cheapest = cheapest(subject).and_then(|index| {
        let variant = &subject.comparison.variants[index];
        Some((limit(index), variant, variant.get(&metric)?))
    });
    sentences.push(match cheapest {
        Some((limit, variant, after)) => format!(
            "cheapest change that helps: “{}”, {}: it becomes {}{}; {}.",
            variant.name,
            limit.in_words(),
            value(&parsed, after),
            at_most(&parsed, after),
            still(variant, subject.target)
        ),
        None => "no column with a limit makes it shorter for certain.".to_string(),
    });
    sentences
}

/// Sentence on the smallest limit that costs nothing where there was none.
fn harmless(subject: &Subject<'_>, metric: &Metric<'_>) -> String {
    let name = subject.latency.metric(TOLD);
    let limit = |index: usize| Limit::of(&subject.scenarios[index], subject.target);
    let is_harmless = |variant: &&Variant| {
        let Some(summary) = variant.get(&name).filter(|summary| !summary.at_least) else {
            return false;
        };
        let change = summary.vs_baseline.as_ref();
        let longer = change.is_some_and(|change| {
            change.significant && change.ratio.is_none_or(|ratio| ratio > 1.0)
        });
        !longer && falls_behind(subject, variant).is_none()
    };
    let variants = subject.comparison.variants.iter().enumerate().skip(1);
    let limited = variants.filter(|(index, _)| limit(*index).quota_us.is_some());
    let kept = limited.filter(|(_, variant)| is_harmless(variant));
    let smallest = kept.min_by_key(|(index, _)| limit(*index).grants());
    match smallest.and_then(|(index, variant)| Some((index, variant, variant.get(&name)?))) {
        Some((index, variant, after)) => format!(
            "smallest limit that costs nothing for certain: “{}”, {}: it is {}{}; {}.",
            variant.name,
            limit(index).in_words(),
            value(metric, after),
            at_most(metric, after),
            still(variant, subject.target)
        ),
        None => "every column with a limit makes it longer, or falls behind.".to_string(),
    }
}

/// Sentence on a column whose backlog of requests grows.
fn falls_behind(subject: &Subject<'_>, variant: &Variant) -> Option<String> {
    let waiting = |suffix: &str| mean(variant, &subject.latency.metric(suffix));
    let backlog = Backlog {
        halfway: waiting(metrics::HALFWAY),
        end: waiting(metrics::UNFINISHED),
    };
    let what = subject.latency.counted();
    let Backlog { halfway, end } = backlog;
    backlog.grows().then(|| {
        format!(
            "“{}” falls behind by {:.1} {what}/s: {halfway:.0} wait at half the time, {end:.0} at \
             the end.",
            variant.name,
            backlog.growth_per_second(subject.run_ns)
        )
    })
}

/// Why the second column of `closed`, whose clients ask again when they have their reply, may not
/// be recommended; `None` where it makes the latency shorter than the first one all the same.
///
/// Worked example: six clients of a service in Python were taken to keep a schedule, and a burst of
/// 30 ms brought the p99 from 145 to 49 ms. They did not: measured were 142 ms with the burst too,
/// as whoever has a reply sooner asks sooner, and uses the burst up.
pub(crate) fn only_in_open_loop(closed: &Comparison, latency: &Latency) -> Option<String> {
    let metric = latency.metric(TOLD);
    let parsed = metrics::parse(&metric)?;
    let [now, then] = &closed.variants[..] else {
        return None;
    };
    let (before, after) = (now.get(&metric)?, then.get(&metric)?);
    (!helps(after)).then(|| {
        format!(
            "“{}” helps only if clients keep a schedule, which the recording does not tell; if they \
             ask again when they have their reply, it is {}, {} now \
             (`--set program.recording.client=open` or `closed` says which)",
            then.name,
            value(&parsed, after),
            value(&parsed, before)
        )
    })
}

/// Whether a latency is shorter than in the baseline for certain.
fn helps(summary: &Summary) -> bool {
    let change = summary.vs_baseline.as_ref();
    let better = change
        .and_then(|change| change.ratio)
        .is_some_and(|ratio| ratio < 1.0);
    better && !summary.at_least && change.is_some_and(|change| change.significant)
}

/// The column with the least limit that makes the latency shorter for certain.
pub fn cheapest(subject: &Subject<'_>) -> Option<usize> {
    if subject.doubt.is_some() {
        return None;
    }
    let metric = subject.latency.metric(TOLD);
    let variants = subject.comparison.variants.iter().enumerate().skip(1);
    let candidates = variants.filter_map(|(index, variant)| {
        let limit = Limit::of(subject.scenarios.get(index)?, subject.target);
        variant.get(&metric).filter(|summary| helps(summary))?;
        limit.quota_us.map(|_| (limit, index))
    });
    let cheapest = candidates.min_by_key(|(limit, _)| limit.grants());
    cheapest.map(|(_, index)| index)
}

fn value(metric: &Metric<'_>, summary: &Summary) -> String {
    let scale = scale_for(metric, summary.mean.abs());
    format!(
        "{} {}",
        scale.bound(summary.mean, summary.at_least),
        scale.unit
    )
}

/// The worse end of the interval of one run.
fn at_most(metric: &Metric<'_>, summary: &Summary) -> String {
    summary.one_run95.map_or(String::new(), |[_, high]| {
        let scale = scale_for(metric, summary.mean.abs());
        format!(", at most {} in 95 of 100 runs", scale.number(high))
    })
}

/// Sentence on the throttling that remains after a change.
fn still(variant: &Variant, target: &str) -> String {
    match periods_throttled(variant, target) {
        share if share > 0.0 => {
            format!("{:.1} % of the periods are still throttled", 100.0 * share)
        }
        _ => "no period is throttled then, and more would not help".to_string(),
    }
}

fn mean(variant: &Variant, metric: &str) -> f64 {
    variant.get(metric).map_or(0.0, |summary| summary.mean)
}

/// Share of the wish to run that throttling denied to the threads of `members`.
pub fn time_lost(variant: &Variant, members: &[String]) -> f64 {
    let sum = |metric: &str| -> f64 {
        let values = members
            .iter()
            .map(|name| mean(variant, &format!("{name}/{metric}")));
        values.sum()
    };
    let lost = sum("wait.throttled");
    let wished = lost + sum("wait.contention") + sum("cpu_time");
    if wished > 0.0 { lost / wished } else { 0.0 }
}

/// Share of the active periods of `target` that ended throttled.
pub fn periods_throttled(variant: &Variant, target: &str) -> f64 {
    let periods = mean(variant, &format!("cgroup:{target}/nr_periods"));
    let throttled = mean(variant, &format!("cgroup:{target}/nr_throttled"));
    if periods > 0.0 {
        throttled / periods
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Source;
    use crate::experiment::{self, Surroundings, document};
    use crate::outcome::Outcome;
    use crate::samples::example;

    #[test]
    fn a_column_that_helps_only_in_an_open_loop_is_not_recommended() {
        let latency = Latency::new("schbench", "request_latency");
        let mut closed = example();
        let variants = closed.variants.len();
        closed.variants.drain(2..variants);
        assert_eq!(
            only_in_open_loop(&closed, &latency),
            None,
            "it helps then, too"
        );
        let metrics = closed.variants[1].metrics.iter_mut();
        for summary in metrics.map(|(_, summary)| summary) {
            summary.vs_baseline.as_mut().unwrap().significant = false;
        }
        let told = only_in_open_loop(&closed, &latency).unwrap();
        assert!(told.contains("keep a schedule"), "{told}");
    }

    /// Nothing limited it; 30 ms make it twice as long and 60 ms do not.
    #[test]
    fn without_a_recorded_limit_the_smallest_harmless_one_is_told() {
        let text = "[cgroup.\"/a\"]\n\"cpu.max\" = \"max 100000\"\n[[variant]]\nname = \"none\"\n\
            [[variant]]\nname = \"30\"\ncgroup.\"/a\".\"cpu.max\" = 30000\n\
            [[variant]]\nname = \"60\"\ncgroup.\"/a\".\"cpu.max\" = 60000\n\
            [[variant]]\nname = \"90\"\ncgroup.\"/a\".\"cpu.max\" = 90000\n";
        let document = document::parse(&Source::new("t.toml", text)).unwrap();
        let scenarios = experiment::read(&document, &Surroundings::default());
        let scenarios = scenarios.unwrap().scenarios;
        let runs = |p99_us: f64| -> Vec<Outcome> {
            let run = |seed: u64| Outcome {
                event_hash: seed,
                metrics: [("a/request_latency.p99".to_string(), p99_us + seed as f64)].into(),
                ..Outcome::default()
            };
            (0..4).map(run).collect()
        };
        let told = |p99_us: [f64; 4]| {
            let rows = p99_us.map(runs);
            let comparison = Comparison::new("", &scenarios, &rows).unwrap();
            let latency = Latency::new("a", Latency::REQUEST);
            let subject = super::Subject {
                comparison: &comparison,
                scenarios: &scenarios,
                target: "/a",
                members: &[],
                latency: &latency,
                run_ns: 1_000_000_000,
                doubt: None,
            };
            sentences(&subject).pop().unwrap()
        };
        let text = told([1000.0, 2000.0, 1000.0, 1000.0]);
        assert!(text.contains("costs nothing for certain: “60”"), "{text}");
        let text = told([1000.0, 2000.0, 3000.0, 1500.0]);
        assert!(text.starts_with("every column"), "{text}");
    }

    #[test]
    fn limits_are_told_in_every_unit_that_people_type() {
        let limit = |quota_us, burst_us| Limit {
            quota_us,
            period_us: 100_000,
            burst_us,
        };
        let words = |quota_us, burst_us| limit(quota_us, burst_us).in_words();
        assert_eq!(words(Some(67_000), 0), "67 ms in 100 ms = 0.67 CPU = 670m");
        assert_eq!(
            words(Some(62_500), 20_000),
            "62.5 ms in 100 ms = 0.625 CPU = 625m, burst 20 ms"
        );
        assert_eq!(words(None, 0), "no limit");
    }
}
