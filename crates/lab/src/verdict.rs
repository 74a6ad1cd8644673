//! Verdict of an answer from a recording, in two sentences: the cost of the limit now, and the gain
//! and the limits of the cheapest change.
//!
//! Worked example: a service with 50 ms in 100 ms and three columns, 60 ms, 80 ms and no limit:
//!
//! ```text
//! now: 50 ms in 100 ms = 0.5 CPU = 500m: postgres/request_latency.p99 is 178.9 ms; 46.1 % of the time that its threads want
//!      to run is lost to throttling.
//! cheapest change that helps: “60 ms”, 60 ms in 100 ms = 0.6 CPU = 600m: it becomes 68.2 ms, at most 95.0 in 95 of 100
//!      runs; 9.8 % of the periods are still throttled, at most 21.4 % in 95 of 100 runs.
//! ```
//!
//! A column whose [backlog](crate::backlog) grows has a sentence of its own between them: “40 ms”
//! falls behind by 7.0 requests/s: 106 wait at half the time, 209 at the end.
//!
//! A column that takes CPU time from another group has a sentence on what that group loses, behind
//! the recommendation: “hog50” costs /hog: 6.0 s of CPU time instead of 17.3 s; …
//!
//! A column without a limit says what the limit costs. It is never recommended: the neighbours pay
//! for it.

use std::collections::BTreeMap;

use crate::backlog::Backlog;
use crate::change;
use crate::clients::Waiting;
use crate::comparison::{Comparison, Summary, Variant};
use crate::experiment::Scenario;
use crate::failures;
use crate::held_back::AskedAtAnyTime;
use crate::metrics::scale::scale_for;
use crate::metrics::{self, Metric};
use crate::recording::Latency;
use schedcast_base::limits::CpuLimits;

mod throttling;

pub use throttling::{at_most_throttled, periods_throttled, time_lost};
use throttling::{losses, still};

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
    /// Names of groups, by path.
    pub labels: &'a BTreeMap<String, String>,
    /// Length of a run, in ns.
    pub run_ns: u64,
    /// The clients, if these ask again when they are answered.
    pub waiting: Option<Waiting>,
    /// Its threads, if nothing but their activations is known of what clients wait for.
    pub asked: Option<AskedAtAnyTime>,
    /// Why no column may be recommended.
    pub doubt: Option<String>,
    /// Figures of the recording that its simulation misses. A difference that noise hides is no
    /// proof that there is none.
    pub misfit: Option<String>,
}

impl Subject<'_> {
    /// Name of the group at `path`.
    fn named(&self, path: &str) -> String {
        self.labels
            .get(path)
            .map_or(path, String::as_str)
            .to_string()
    }

    fn limit(&self, index: usize) -> CpuLimits {
        self.scenarios[index].limits_of(self.target)
    }

    /// Whether a limit of the target or of a group above it holds in a column.
    fn is_limited(&self, index: usize) -> bool {
        self.scenarios[index].is_limited(self.target)
    }

    /// Whether a column changes a setting of any group.
    fn changes(&self, index: usize) -> bool {
        !change::changes(&self.scenarios[0], &self.scenarios[index]).is_empty()
    }

    /// Whether a column differs from the first in settings of groups only, so that nothing but
    /// these, such as more CPUs or another kernel, makes its figures.
    fn changes_groups_only(&self, index: usize) -> bool {
        let first = &self.scenarios[0];
        let alike = Scenario {
            name: first.name.clone(),
            cgroups: first.cgroups.clone(),
            ..self.scenarios[index].clone()
        };
        alike == *first
    }

    /// The least value of `metric` that clients see which ask at any time, in µs: 0 where nothing
    /// is known of that.
    fn held_back_us(&self, variant: &Variant, metric: &Metric<'_>) -> f64 {
        let value = |name: &str| variant.get(name).map(|summary| summary.mean);
        let asked = self.asked.as_ref();
        asked.map_or(0.0, |asked| asked.least_us(metric, self.run_ns, value))
    }

    /// Whether the clients of a closed loop send fewer requests in a column than in the first.
    fn slows_clients(&self, variant: &Variant) -> bool {
        let now = &self.comparison.variants[0];
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|clients| clients.are_slower(now, variant, self.latency))
    }

    /// Whether more requests fail in a column than in the first.
    fn fails_more(&self, variant: &Variant) -> bool {
        failures::are_more(&self.comparison.variants[0], variant, self.latency)
    }

    /// The changes of a column in words.
    fn in_words(&self, index: usize) -> String {
        let named = |path: &str| self.named(path);
        change::in_words(
            &self.scenarios[0],
            &self.scenarios[index],
            self.target,
            &named,
        )
    }
}

/// Which value of the latency is told: the highest percentile that single values do not decide.
const TOLD: [&str; 2] = ["p99", "p95"];

/// The value of `latency` that is told of columns whose first one is `now`; `None` where each is
/// that of [too few](Metric::values_needed).
///
/// Worked example: a shell starts two programs, waits for them, and wakes seven times for some 10
/// µs each. Nothing is said of how long they take.
pub(crate) fn told_of(now: &Variant, latency: &Latency) -> Option<String> {
    let number = |suffix: &str| Some(now.get(&latency.metric(suffix))?.mean);
    let all =
        number(metrics::COUNT).map(|count| count + number(metrics::UNFINISHED).unwrap_or(0.0));
    TOLD.iter()
        .map(|suffix| latency.metric(suffix))
        .find(|name| {
            let needed = metrics::parse(name).map_or(0.0, |metric| metric.values_needed());
            all.is_none_or(|all| all >= needed)
        })
}

/// The sentences, a line each; none where nothing is known of the latency.
pub(crate) fn sentences(subject: &Subject<'_>) -> Vec<String> {
    let [now, others @ ..] = &subject.comparison.variants[..] else {
        return Vec::new();
    };
    let lost = time_lost(now, subject.members);
    let lost = format!(
        "{:.1} % of the time that its threads want to run is lost to throttling",
        100.0 * lost
    );
    let above = subject.scenarios[0].limits_above(subject.target);
    let above = above.map_or(String::new(), |(path, limit)| {
        format!(", {} above it {}", subject.named(path), limit.in_words())
    });
    let own = match (subject.limit(0), above.is_empty()) {
        (limit, false) if limit.quota_us.is_none() => "no limit of its own".to_string(),
        (limit, _) => limit.in_words(),
    };
    let Some(metric) = told_of(now, subject.latency) else {
        let (threads, what) = (&subject.latency.threads, subject.latency.counted());
        return vec![format!(
            "now: {own}{above}: {lost}; {threads} has too few {what} to say anything of how long they take."
        )];
    };
    let (Some(parsed), Some(before)) = (metrics::parse(&metric), now.get(&metric)) else {
        return Vec::new();
    };
    let unlimited = others
        .iter()
        .enumerate()
        .filter(|_| subject.doubt.is_none() && subject.is_limited(0))
        .find(|(index, _)| !subject.is_limited(index + 1) && subject.changes_groups_only(index + 1))
        .and_then(|(_, variant)| variant.get(&metric));
    let without = unlimited.map_or(String::new(), |summary| {
        format!("; without a limit it would be {}", value(&parsed, summary))
    });
    let mut sentences = vec![format!(
        "now: {own}{above}: {metric} is {}{without}; {lost}.",
        value(&parsed, before)
    )];
    sentences.extend(
        subject
            .comparison
            .variants
            .iter()
            .filter_map(|variant| falls_behind(subject, variant)),
    );
    let columns = subject.comparison.variants.iter().zip(subject.scenarios);
    sentences.extend(columns.filter_map(|(variant, scenario)| {
        failures::sentence(variant, scenario, subject.latency, subject.run_ns)
    }));
    if let Some(clients) = &subject.waiting {
        let variants = &subject.comparison.variants;
        sentences.extend(clients.sentences(variants, subject.latency));
    }
    if !(1..=others.len()).any(|index| subject.changes(index)) {
        return sentences;
    }
    if let Some(doubt) = &subject.doubt {
        sentences.push(format!("no column is recommended: {doubt}."));
        return sentences;
    }
    let unlimited = subject.limit(0).quota_us.is_none();
    let sets_limit = |index: usize| unlimited && subject.limit(index).quota_us.is_some();
    if (1..=others.len()).any(sets_limit) {
        sentences.push(harmless(subject, &parsed, &metric));
    }
    if !(1..=others.len()).any(|index| subject.changes(index) && !sets_limit(index)) {
        return sentences;
    }
    let cheapest = cheapest(subject).and_then(|index| {
        let variant = &subject.comparison.variants[index];
        Some((index, variant, variant.get(&metric)?))
    });
    sentences.push(match cheapest {
        Some((index, variant, after)) => format!(
            "cheapest change that helps: “{}”, {}: it becomes {}{}{}{}.",
            variant.name,
            subject.in_words(index),
            value(&parsed, after),
            at_most(&parsed, after),
            hidden_in_one_run(before, after),
            still(subject, index)
        ),
        None if unlimited => "no column makes it shorter for certain.".to_string(),
        None => "no column with a limit makes it shorter for certain.".to_string(),
    });
    sentences.extend(
        cheapest
            .into_iter()
            .flat_map(|(index, ..)| losses(subject, index)),
    );
    sentences
}

/// Sentence on the smallest limit that costs nothing where there was none.
fn harmless(subject: &Subject<'_>, metric: &Metric<'_>, name: &str) -> String {
    let limit = |index: usize| subject.limit(index);
    let is_harmless = |variant: &&Variant| {
        let Some(summary) = variant.get(name).filter(|summary| !summary.at_least) else {
            return false;
        };
        let change = summary.vs_baseline.as_ref();
        let longer = change.is_some_and(|change| {
            change.significant && change.ratio.is_none_or(|ratio| ratio > 1.0)
        });
        let now = &subject.comparison.variants[0];
        let holds_clients_back = subject.held_back_us(variant, metric) > mean(now, name);
        let longer = longer || holds_clients_back;
        let serves_all = !subject.fails_more(variant) && falls_behind(subject, variant).is_none();
        !longer && !subject.slows_clients(variant) && serves_all
    };
    if let Some(misfit) = &subject.misfit {
        return format!(
            "no limit is certain to cost nothing: the simulation of the recorded settings misses the \
             recording: {misfit}."
        );
    }
    let costs = match subject.waiting {
        Some(_) => "makes it longer, or slows the clients down",
        None => "makes it longer, or falls behind",
    };
    let variants = subject.comparison.variants.iter().enumerate().skip(1);
    let limited = variants.filter(|(index, _)| limit(*index).quota_us.is_some());
    let kept = limited.filter(|(_, variant)| is_harmless(variant));
    let smallest = kept.min_by_key(|(index, _)| limit(*index).grants());
    match smallest.and_then(|(index, variant)| Some((index, variant, variant.get(name)?))) {
        Some((index, variant, after)) => format!(
            "smallest limit that costs nothing for certain: “{}”, {}: it is {}{}{}.",
            variant.name,
            limit(index).in_words(),
            value(metric, after),
            at_most(metric, after),
            still(subject, index)
        ),
        None if subject.is_limited(0) => {
            format!("every column with a limit of its own {costs}.")
        }
        None => {
            let of = subject.named(subject.target);
            format!("every column with a limit of {of} {costs}.")
        }
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
    let [now, then] = &closed.variants[..] else {
        return None;
    };
    let metric = told_of(now, latency)?;
    let parsed = metrics::parse(&metric)?;
    let (before, after) = (now.get(&metric)?, then.get(&metric)?);
    (!helps(after)).then(|| {
        format!(
            "“{}” helps only if clients keep a schedule, which the recording does not tell; if they \
             ask again when they have their reply, it is {}, {} now",
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

/// The column that makes the latency shorter for certain and grants the changed groups the least
/// CPU time more; of equals the one with the shortest latency. One in which no limit holds any more
/// is not among them.
pub fn cheapest(subject: &Subject<'_>) -> Option<usize> {
    if subject.doubt.is_some() {
        return None;
    }
    let metric = told_of(subject.comparison.variants.first()?, subject.latency)?;
    let variants = subject.comparison.variants.iter().enumerate().skip(1);
    let candidates = variants.filter_map(|(index, variant)| {
        variant.get(&metric).filter(|summary| helps(summary))?;
        let scenario = subject.scenarios.get(index)?;
        let mean = variant.get(&metric)?.mean;
        let cost = || change::cost(&subject.scenarios[0], scenario, subject.target);
        let keeps_limit = subject.is_limited(index) || !subject.is_limited(0);
        let helps = subject.changes(index) && keeps_limit && !subject.fails_more(variant);
        helps.then(|| (cost(), mean, index))
    });
    let cheaper = |one: &((i64, i64), f64, usize), other: &((i64, i64), f64, usize)| {
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    };
    let cheapest = candidates.min_by(cheaper);
    cheapest.map(|(_, _, index)| index)
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

/// Half a sentence for a change that pairs of runs show for certain, while one run may be as long
/// as the mean `before` it.
fn hidden_in_one_run(before: &Summary, after: &Summary) -> &'static str {
    match after.one_run95.is_some_and(|[_, high]| high > before.mean) {
        true => ", so that a single run may not show it",
        false => "",
    }
}

fn mean(variant: &Variant, metric: &str) -> f64 {
    variant.get(metric).map_or(0.0, |summary| summary.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;
    use crate::outcome::Outcome;
    use crate::samples::example;
    use schedcast_base::{assert_contains, assert_starts};

    static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

    impl<'a> super::Subject<'a> {
        /// Columns of a group without threads, in runs of 1 s that nothing else is known of.
        pub(super) fn of_columns(
            comparison: &'a Comparison,
            scenarios: &'a [Scenario],
            target: &'a str,
            latency: &'a Latency,
        ) -> Self {
            Self {
                comparison,
                scenarios,
                target,
                members: &[],
                latency,
                labels: &NO_LABELS,
                run_ns: 1_000_000_000,
                waiting: None,
                doubt: None,
                asked: None,
                misfit: None,
            }
        }
    }

    #[test]
    fn a_column_that_helps_only_in_an_open_loop_is_not_recommended() {
        let latency = Latency::new("schbench", "request_latency");
        let mut closed = example();
        let variants = closed.variants.len();
        closed.variants.drain(2..variants);
        let found = only_in_open_loop(&closed, &latency);
        assert_eq!(found, None, "it helps then, too");
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
        let scenarios = experiment::read_text("t.toml", text);
        let scenarios = scenarios.unwrap().scenarios;
        let latency = Latency::new("a", Latency::REQUEST);
        let runs = |(p99_us, count): (f64, f64)| -> Vec<Outcome> {
            let run = |seed: u64| Outcome {
                event_hash: seed,
                metrics: [
                    (latency.metric("min"), 100.0),
                    (latency.metric("p99"), p99_us + seed as f64),
                    (latency.metric(metrics::COUNT), count),
                ]
                .into(),
                ..Outcome::default()
            };
            (0..4).map(run).collect()
        };
        let of_counts = |rows: [(f64, f64); 4], waiting: Option<Waiting>, misfit: Option<&str>| {
            let rows = rows.map(runs);
            let comparison = Comparison::new("", &scenarios, &rows).unwrap();
            let subject = super::Subject {
                waiting,
                misfit: misfit.map(str::to_string),
                ..super::Subject::of_columns(&comparison, &scenarios, "/a", &latency)
            };
            sentences(&subject).pop().unwrap()
        };
        let told = |p99_us: [f64; 4], misfit| {
            of_counts(p99_us.map(|p99_us| (p99_us, 1_000.0)), None, misfit)
        };
        let text = told([1000.0, 2000.0, 1000.0, 1000.0], None);
        assert!(text.contains("costs nothing for certain: “60”"), "{text}");
        let text = told([1000.0, 2000.0, 3000.0, 1500.0], None);
        assert!(text.starts_with("every column"), "{text}");
        let text = told(
            [1000.0, 2000.0, 1000.0, 1000.0],
            Some("p50 11.2, 6.4 ms recorded"),
        );
        assert_starts(&text, "no limit is certain to cost nothing");
        assert_contains(&text, "11.2");
        // Clients that wait for each reply send less under 60 ms, and no reply takes longer.
        let unnumbered = Waiting {
            asking: None,
            run_ns: 1_000_000_000,
        };
        let columns = [1_000.0, 400.0, 700.0, 1_000.0].map(|count| (1_000.0, count));
        let text = of_counts(columns, Some(unnumbered), None);
        assert!(text.contains("costs nothing for certain: “90”"), "{text}");
    }

    /// 30 and 60 ms hold the threads back for 200 and 20 ms of a second, in two periods each.
    #[test]
    fn a_limit_that_holds_clients_back_costs_something_whatever_activations_show() {
        let limit = |name: &str, quota: &str| {
            format!("[[variant]]\nname = \"{name}\"\ncgroup.\"/a\".\"cpu.max\" = {quota}\n")
        };
        let text = [
            limit("none", "\"max\""),
            limit("30", "30000"),
            limit("60", "60000"),
        ];
        let scenarios = experiment::read_text("t.toml", text.concat());
        let scenarios = scenarios.unwrap().scenarios;
        let latency = Latency::new("a", Latency::ACTIVATION);
        let runs = [0.0, 0.2, 0.02].map(|held_s| {
            let run = |seed: u64| Outcome {
                event_hash: seed,
                metrics: [
                    (latency.metric("p99"), 10_000.0 + seed as f64),
                    (latency.metric(metrics::COUNT), 1_000.0),
                    ("a/wait.throttled".to_string(), held_s),
                    ("cgroup:/a/nr_throttled".to_string(), 2.0),
                ]
                .into(),
                ..Outcome::default()
            };
            (0..4).map(run).collect::<Vec<Outcome>>()
        });
        let comparison = Comparison::new("", &scenarios, &runs).unwrap();
        let subject = super::Subject {
            asked: Some(AskedAtAnyTime::new("a", 1, "/a")),
            ..super::Subject::of_columns(&comparison, &scenarios, "/a", &latency)
        };
        // At least (200 − 10) / 2 = 95 ms for one client in a hundred, and (20 − 10) / 2 = 5 ms.
        let told = sentences(&subject).pop().unwrap();
        assert!(told.contains("costs nothing for certain: “60”"), "{told}");
    }

    /// Sentences on columns of `/par/web` and its p99 in ms, the recorded one first.
    fn told_in(groups: &str, columns: &[(&str, f64)]) -> Vec<String> {
        told_with(groups, columns, &[0.0; 3])
    }

    /// The same, and how many requests fail in each column.
    fn told_with(groups: &str, columns: &[(&str, f64)], failed: &[f64]) -> Vec<String> {
        let mut text = groups.to_string();
        for (number, (files, _)) in columns.iter().enumerate() {
            text += &format!("[[variant]]\nname = \"{number}\"\n{files}\n");
        }
        let scenarios = experiment::read_text("t.toml", &text);
        let scenarios = scenarios.unwrap().scenarios;
        let runs = |((_, p99_ms), failed): (&(&str, f64), &f64)| -> Vec<Outcome> {
            let run = |seed: u64| Outcome {
                event_hash: seed,
                metrics: [
                    ("a/requests_failed".to_string(), *failed),
                    ("a/requests_retried".to_string(), 0.0),
                    (
                        "a/request_latency.p99".to_string(),
                        1000.0 * p99_ms + seed as f64,
                    ),
                    ("cgroup:/par/nr_periods".to_string(), 100.0),
                    ("cgroup:/par/nr_throttled".to_string(), 20.0),
                ]
                .into(),
                ..Outcome::default()
            };
            (0..4).map(run).collect()
        };
        let rows: Vec<_> = columns.iter().zip(failed).map(runs).collect();
        let comparison = Comparison::new("", &scenarios, &rows).unwrap();
        let latency = Latency::new("a", Latency::REQUEST);
        let subject = super::Subject::of_columns(&comparison, &scenarios, "/par/web", &latency);
        sentences(&subject)
    }

    #[test]
    fn a_column_is_not_recommended_for_requests_that_fail_early() {
        let groups = format!("{PARENT}[cgroup.\"/par/web\"]\n\"cpu.max\" = 25000\n");
        let own = "cgroup.\"/par/web\".\"cpu.max\" = 30000";
        let columns = [("", 400.0), (own, 200.0)];
        let told = |failed| told_with(&groups, &columns, &[3.0, failed]).pop().unwrap();
        assert_starts(told(3.0), "cheapest change that helps: “1”");
        assert_starts(told(4.0), "no column with a limit makes it shorter");
    }

    const PARENT: &str = "[cgroup.\"/par\"]\n\"cpu.max\" = 40000\n";

    /// The parent throttles 20 of 100 periods in every column.
    #[test]
    fn a_limit_of_the_parent_is_named_and_no_limit_means_none_on_the_way_up() {
        let groups = format!("{PARENT}[cgroup.\"/par/web\"]\n\"cpu.max\" = 25000\n");
        let parent = "cgroup.\"/par\".\"cpu.max\" = 80000";
        let own = "cgroup.\"/par/web\".\"cpu.max\" = \"max\"";
        let both = format!("{parent}\n{own}");
        let told = told_in(&groups, &[("", 400.0), (parent, 300.0), (&both, 60.0)]);
        let now = &told[0];
        assert!(now.starts_with("now: 25 ms in 100 ms = 0.25 CPU = 250m, /par above it 40 ms"));
        assert!(!now.contains("without a limit"), "{now}");
        assert!(
            told[1]
                .contains("“1”, /par with 80 ms in 100 ms = 0.8 CPU = 800m: it becomes 300.0 ms")
                && told[1].ends_with("; 20.0 % of the periods of /par are still throttled."),
            "{told:?}"
        );
        let none = "cgroup.\"/par\".\"cpu.max\" = \"max\"";
        let none = format!("{none}\n{own}");
        let told = told_in(&groups, &[("", 400.0), (&none, 50.0)]);
        assert_contains(&told[0], "; without a limit it would be 50.00 ms");
        let wider = format!("{none}\nmachine.cpus = 64");
        let told = told_in(&groups, &[("", 400.0), (&wider, 20.0), (&none, 50.0)]);
        assert_contains(&told[0], "; without a limit it would be 50.00 ms");
    }

    #[test]
    fn weights_and_limits_of_siblings_are_recommended() {
        let groups = format!("{PARENT}[cgroup.\"/par/web\"]\n[cgroup.\"/par/bat\"]\n");
        let weight = "cgroup.\"/par/web\".\"cpu.weight\" = 1000";
        let sibling = "cgroup.\"/par/bat\".\"cpu.max\" = 25000";
        let own = "cgroup.\"/par/web\".\"cpu.max\" = 20000";
        let told = told_in(&groups, &[("", 90.0), (weight, 60.0), (own, 300.0)]);
        assert_starts(&told[0], "now: no limit of its own, /par above it 40 ms");
        assert_contains(&told[1], "a limit of its own makes it longer");
        assert_contains(&told[2], "helps: “1”, cpu.weight 1000: it becomes 60.0");
        let told = told_in(&groups, &[("", 90.0), (weight, 60.0), (sibling, 30.0)]);
        assert!(
            told[1].contains("“2”, /par/bat with 25 ms in 100 ms = 0.25 CPU = 250m: it becomes"),
            "the shorter one of two that cost nothing: {told:?}"
        );
        let told = told_in(&groups, &[("", 90.0), (weight, 90.0)]);
        assert_eq!(told[1], "no column makes it shorter for certain.");
    }

    #[test]
    fn a_percentile_of_too_few_values_is_no_subject() {
        let latency = Latency::new("a", Latency::ACTIVATION);
        let told = |count: f64| {
            let metrics = [("a/activation_latency.count".to_string(), count)];
            let run = Outcome {
                metrics: metrics.into(),
                ..Outcome::default()
            };
            let text = "[[program]]\nrun = \"hackbench\"\n";
            let scenarios = experiment::read_text("t.toml", text).unwrap();
            let scenarios = scenarios.scenarios;
            let comparison = Comparison::new("", &scenarios, &[vec![run]]).unwrap();
            super::told_of(&comparison.variants[0], &latency)
        };
        let name = |suffix: &str| Some(latency.metric(suffix));
        assert_eq!((told(100.0), told(99.0)), (name("p99"), name("p95")));
        assert_eq!((told(20.0), told(7.0)), (name("p95"), None));
    }

    #[test]
    fn limits_are_told_in_every_unit_that_people_type() {
        let limit = |quota_us, burst_us| CpuLimits {
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
