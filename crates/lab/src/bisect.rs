//! Which of the changes between two kernels makes the difference.
//!
//! Two variants that differ in nothing but their kernels are the ends of a way whose steps are the
//! rows of the table of changes ([`path::between`]). The way is walked release by release; a
//! release that moves the metric is halved until single changes are left, or changes that only
//! together move it. Every point on the way is run with the same seeds as the ends.
//!
//! Worked example: from 6.5 to 6.8 lie 30 changes in three releases. The points 6.5, 6.6, 6.7 and
//! 6.8 are run first. If only 6.6 moves the metric, its 20 changes are halved: 10, 5, 3, 2, 1. That
//! is some ten points instead of thirty.

use std::collections::BTreeMap;

use schedcast_kernel::rules::changes::path;
use schedcast_kernel::rules::{Rules, Version};
use serde::Serialize;

use crate::answer::{Answer, ToCome};
use crate::comparison::{Change, Comparison, Summary, Variant};
use crate::error::{Error, Result, hint_for};
use crate::experiment::{Experiment, Scenario};
use crate::metrics::{self, Metric};
use crate::outcome::{Outcome, combine_hashes};
use crate::outside::{self, Outside};
use crate::question::Question;
use crate::recording::Latency;
use crate::simulate::{Simulate, run_all};
use crate::trust::{self, Misses};

mod link;

use link::link;
pub use link::{FirstRelease, Link};

/// Result of a bisection: the changes that make the difference between two kernels.
#[derive(Clone, Debug, Serialize)]
pub struct Bisection {
    /// The metric that was followed.
    pub metric: String,
    /// Unit of the means.
    pub unit: String,
    /// Kernel at the beginning of the way.
    pub from: String,
    /// Kernel at its end.
    pub to: String,
    /// Mean of the metric at the beginning and at the end.
    pub means: [f64; 2],
    /// The whole change from the beginning to the end.
    pub change: Change,
    /// Whether every event is the same at both ends: the two kernels decide alike.
    pub same_events: bool,
    /// Whether the way leads from a newer kernel to an older one.
    #[serde(skip)]
    pub backwards: bool,
    /// Changes of the kernel between them.
    pub changes: usize,
    /// Points of the way that were run, both ends included.
    pub points: usize,
    /// Seeds of each point.
    #[serde(skip)]
    pub seeds: u32,
    /// Parts of the way that move the metric beyond what seeds make, in the order of the way.
    pub parts: Vec<Part>,
    /// Where there are none though the ends differ: the release that moves the mean most in the
    /// direction of the whole change, which so few seeds cannot tell from chance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsure: Option<Part>,
    /// Figures of the recording that its simulation misses, where the metric, or another of the
    /// same threads and unit, is among them.
    #[serde(skip)]
    pub misfit: Option<String>,
    /// Those of the two that are the first release of a series which has changed since.
    #[serde(skip)]
    pub first_releases: Vec<FirstRelease>,
    /// Known differences of the two kernels besides, which are not modelled.
    pub outside: Vec<Outside>,
}

/// A part of the way that moves the metric and cannot be divided further.
#[derive(Clone, Debug, Serialize)]
pub struct Part {
    /// Its changes: one, or several that only together move the metric; none where it is what the
    /// variants' kernels differ in beside the table, such as the tick's frequency.
    pub changes: Vec<Link>,
    /// Mean of the metric before and behind it.
    pub means: [f64; 2],
    /// Its effect.
    pub change: Change,
}

/// A point of the way: the kernel behind so many changes.
pub(crate) struct Point {
    pub(crate) scenario: Scenario,
    /// The change that leads to it; none for the beginning and for what lies beside the table.
    pub(crate) link: Option<Link>,
    release: Option<Version>,
}

/// Adds to `answer` which changes make the differences between the last `pairs` + 1 columns of
/// `question`, each to the next, in runs like those that the columns show. `metric` is as for
/// [`bisect`].
///
/// # Errors
/// As for [`bisect`].
pub fn add(
    answer: &mut Answer,
    (question, experiment): (&Question, &Experiment),
    (metric, pairs): (Option<&str>, usize),
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<()> {
    let to_come = ToCome::of(question, experiment)?;
    let experiment = to_come.as_ref().map_or(experiment, |one| &one.experiment);
    let about = answer.context.about.as_ref();
    let followed = (metric, about.map(|about| about.members.as_slice()));
    let seeds = answer.comparison.seeds;
    let columns = (experiment.scenarios.as_slice(), pairs);
    let mut found = chain(columns, seeds, followed, simulator, finished)?;
    let misses = Misses::of(&answer.context.fit);
    for one in &mut found {
        one.misfit = trust::poor_fit(&answer.context.fit).filter(|_| misses.are_of(&one.metric));
    }
    answer.comparison.bisection = found.pop();
    answer.comparison.earlier_bisections = found;
    Ok(())
}

/// Changes that make the differences between the last `pairs` + 1 of `scenarios`, each to the next;
/// the rest is as for [`bisect`].
///
/// # Errors
/// As for [`bisect`].
pub(crate) fn chain(
    (scenarios, pairs): (&[Scenario], usize),
    seeds: u32,
    followed: (Option<&str>, Option<&[String]>),
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Vec<Bisection>> {
    let ends = scenarios.len().saturating_sub(pairs) + 1..=scenarios.len();
    ends.map(|end| bisect(&scenarios[..end], seeds, followed, simulator, finished))
        .collect()
}

/// Finds the changes that make the difference between the last two of `scenarios`, each run with
/// `seeds` seeds. `metric` is what is followed; left out, the headline metric of the `subjects` (of
/// all programs without them) whose change is surest and largest. `finished` is called after each
/// run.
///
/// # Errors
/// Scenarios that differ in more than their kernels, an unknown metric, a run that fails.
pub(crate) fn bisect(
    scenarios: &[Scenario],
    seeds: u32,
    (metric, subjects): (Option<&str>, Option<&[String]>),
    simulator: &impl Simulate,
    finished: &(impl Fn() + Sync),
) -> Result<Bisection> {
    let [.., from, to] = scenarios else {
        return Err(Error::usage("--bisect needs two variants")
            .hint("name two kernels: --kernel 6.1 --kernel 6.12"));
    };
    if !differ_in_kernels_only(from, to) {
        let message = format!(
            "`{}` and `{}` differ in more than the kernel",
            from.name, to.name
        );
        return Err(Error::usage(message)
            .hint("--bisect looks for what makes the difference among changes of the kernel"));
    }
    let way = Way {
        points: points(from, to),
        outcomes: BTreeMap::new(),
        metric: String::new(),
        seeds,
        unsure: Vec::new(),
    };
    way.walk((metric, subjects), simulator, finished)
}

/// Whether two scenarios are the ends of a way.
pub(crate) fn differ_in_kernels_only(from: &Scenario, to: &Scenario) -> bool {
    let alike = Scenario {
        name: from.name.clone(),
        kernel: from.kernel.clone(),
        ..to.clone()
    };
    alike == *from
}

/// The points from one scenario to the other. From a newer kernel to an older one the way is the
/// same, walked backwards.
pub(crate) fn points(from: &Scenario, to: &Scenario) -> Vec<Point> {
    let backwards = to.kernel.version < from.kernel.version;
    let (older, newer) = if backwards { (to, from) } else { (from, to) };
    let steps = path::between(&older.kernel.rules, &newer.kernel.rules);
    let with = |rules: &Rules, name: &str| {
        let mut scenario = older.clone();
        scenario.kernel.rules = rules.clone();
        scenario.name = name.to_string();
        scenario
    };
    let mut points = vec![Point {
        scenario: older.clone(),
        link: None,
        release: None,
    }];
    points.extend(steps.iter().map(|step| Point {
        scenario: with(&step.rules, step.change.name),
        link: Some(link(step, (from, to), backwards)),
        release: step.release,
    }));
    // The kernel at the end of the way, unless the last step is that already.
    let mut last = steps
        .last()
        .map_or(&older.kernel.rules, |step| &step.rules)
        .clone();
    last.version = newer.kernel.rules.version;
    if last == newer.kernel.rules && points.len() > 1 {
        points.pop().into_iter().for_each(|point| {
            points.push(Point {
                scenario: newer.clone(),
                ..point
            });
        });
    } else {
        points.push(Point {
            scenario: newer.clone(),
            link: None,
            release: Some(newer.kernel.version),
        });
    }
    if backwards {
        reverse(&mut points);
    }
    points
}

/// Turns the way round: what led to a point now leads away from it.
fn reverse(points: &mut [Point]) {
    points.reverse();
    let mut carried = (None, None);
    for point in points {
        let leading = (point.link.take(), point.release.take());
        (point.link, point.release) = std::mem::replace(&mut carried, leading);
    }
}

struct Way {
    points: Vec<Point>,
    outcomes: BTreeMap<usize, Vec<Outcome>>,
    metric: String,
    seeds: u32,
    /// Parts between releases whose effect seeds may make.
    unsure: Vec<Part>,
}

impl Way {
    fn walk(
        mut self,
        (metric, subjects): (Option<&str>, Option<&[String]>),
        simulator: &impl Simulate,
        finished: &(impl Fn() + Sync),
    ) -> Result<Bisection> {
        let run = |way: &mut Way, places: &[usize]| way.run(places, simulator, finished);
        let last = self.points.len() - 1;
        run(&mut self, &[0, last])?;
        let ends = self.compared(0, last)?;
        self.metric = followed(&ends, metric, subjects)?;
        // Releases first: of two changes that cancel each other, both are seen if they came apart.
        let mut borders: Vec<usize> = (1..last)
            .filter(|&place| self.points[place].release != self.points[place + 1].release)
            .collect();
        borders.insert(0, 0);
        borders.push(last);
        run(&mut self, &borders)?;
        let mut parts = Vec::new();
        for pair in borders.windows(2) {
            self.divide(pair[0], pair[1], &mut parts, &mut |way, place| {
                run(way, &[place])
            })?;
        }
        let summary = self.summary(&ends)?;
        let whole = self.change(&ends)?;
        let unsure = std::mem::take(&mut self.unsure).into_iter();
        let unsure = largest_towards(&whole, unsure);
        Ok(Bisection {
            unsure: unsure.filter(|_| whole.significant && parts.is_empty()),
            unit: summary.unit.clone(),
            from: self.points[0].scenario.kernel.shown(),
            to: self.points[last].scenario.kernel.shown(),
            means: [self.mean(&ends, 0), self.mean(&ends, 1)],
            change: whole,
            backwards: self.points[last].scenario.kernel.version
                < self.points[0].scenario.kernel.version,
            same_events: ends.variants[0].event_hash == ends.variants[1].event_hash,
            changes: self
                .points
                .iter()
                .filter(|point| point.link.is_some())
                .count(),
            points: self.outcomes.len(),
            seeds: self.seeds,
            misfit: None,
            first_releases: [0, last]
                .into_iter()
                .filter_map(|place| FirstRelease::of(self.points[place].scenario.kernel.version))
                .collect(),
            outside: outside::between(
                self.points[0].scenario.kernel.version,
                self.points[last].scenario.kernel.version,
                &subjects_of(&ends),
            ),
            metric: self.metric,
            parts,
        })
    }

    /// Runs the points that have not been run yet.
    fn run(
        &mut self,
        places: &[usize],
        simulator: &impl Simulate,
        finished: &(impl Fn() + Sync),
    ) -> Result<()> {
        let mut missing = places.to_vec();
        missing.retain(|place| !self.outcomes.contains_key(place));
        missing.dedup();
        let scenarios: Vec<Scenario> = missing
            .iter()
            .map(|&place| self.points[place].scenario.clone())
            .collect();
        let outcomes = run_all(simulator, &scenarios, self.seeds, finished)?;
        self.outcomes.extend(missing.into_iter().zip(outcomes));
        Ok(())
    }

    fn compared(&self, from: usize, to: usize) -> Result<Comparison> {
        let pair = [from, to];
        let scenarios = pair.map(|place| self.points[place].scenario.clone());
        let outcomes = pair.map(|place| self.outcomes[&place].clone());
        Comparison::new("", &scenarios, &outcomes)
    }

    fn summary<'a>(&self, pair: &'a Comparison) -> Result<&'a Summary> {
        let found = pair.variants[1].get(&self.metric);
        found.ok_or_else(|| {
            let variant = &pair.variants[1].name;
            Error::usage(format!("`{variant}` has no `{}` to follow", self.metric))
        })
    }

    fn mean(&self, pair: &Comparison, variant: usize) -> f64 {
        let summary = pair.variants[variant].get(&self.metric);
        summary.map_or(f64::NAN, |summary| summary.mean)
    }

    fn change(&self, pair: &Comparison) -> Result<Change> {
        let change = self.summary(pair)?.vs_baseline.clone();
        change.ok_or_else(|| {
            let variant = &pair.variants[0].name;
            Error::usage(format!("`{variant}` has no `{}` to follow", self.metric))
        })
    }

    fn part(&self, from: usize, to: usize, pair: &Comparison, change: Change) -> Part {
        let links = self.points[from + 1..=to].iter();
        Part {
            changes: links.filter_map(|point| point.link.clone()).collect(),
            means: [self.mean(pair, 0), self.mean(pair, 1)],
            change,
        }
    }

    /// Adds the smallest parts between two points that have been run and that move the metric.
    /// Returns whether there are any.
    fn divide(
        &mut self,
        from: usize,
        to: usize,
        parts: &mut Vec<Part>,
        run: &mut impl FnMut(&mut Way, usize) -> Result<()>,
    ) -> Result<bool> {
        let same = combine_hashes(&self.outcomes[&from]) == combine_hashes(&self.outcomes[&to]);
        if from == to || same {
            return Ok(false);
        }
        let pair = self.compared(from, to)?;
        let change = self.change(&pair)?;
        if !change.significant {
            self.unsure.push(self.part(from, to, &pair, change));
            return Ok(false);
        }
        if to - from > 1 {
            let middle = from.midpoint(to);
            run(self, middle)?;
            let first = self.divide(from, middle, parts, run)?;
            let second = self.divide(middle, to, parts, run)?;
            if first || second {
                return Ok(true);
            }
        }
        parts.push(self.part(from, to, &pair, change));
        Ok(true)
    }
}

/// Seeds that a comparison takes unless it is told otherwise: with fewer, these are asked for.
const SEEDS_THAT_TELL: u32 = 10;

/// How far a change is from none, whichever way it goes; larger than all others from zero.
fn size(change: &Change) -> f64 {
    change.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs())
}

/// Whether a change makes the metric larger; from zero it does.
fn rises(change: &Change) -> bool {
    change.ratio.is_none_or(|ratio| ratio > 1.0)
}

/// The part with the largest effect in the direction of the `whole` change.
fn largest_towards(whole: &Change, parts: impl Iterator<Item = Part>) -> Option<Part> {
    parts
        .filter(|part| size(&part.change) > 0.0 && rises(&part.change) == rises(whole))
        .max_by(|one, other| size(&one.change).total_cmp(&size(&other.change)))
}

/// Durations that a percentile or an average needs: of fewer, a percentile is the largest or close
/// to it.
fn fewest(suffix: &str) -> f64 {
    let percent = suffix.strip_prefix('p').and_then(|of| of.parse().ok());
    percent.map_or(10.0, |percent: f64| (100.0 / (100.0 - percent)).max(10.0))
}

/// Subjects of the metrics: programs and their threads, groups, the machine.
fn subjects_of(ends: &Comparison) -> Vec<&str> {
    let names = ends.metric_names().into_iter();
    let mut subjects: Vec<&str> = names
        .filter_map(|name| Some(metrics::parse(name)?.subject))
        .collect();
    subjects.dedup();
    subjects
}

/// The metric to follow.
fn followed(
    ends: &Comparison,
    metric: Option<&str>,
    subjects: Option<&[String]>,
) -> Result<String> {
    if let Some(metric) = metric {
        let names = ends.metric_names();
        return match names.contains(&metric) {
            true => Ok(metric.to_string()),
            false => Err(Error::usage(format!("no variant has a metric `{metric}`"))
                .hint(hint_for(metric, &names))),
        };
    }
    let measured = &ends.variants[1].metrics;
    let is_asked = |metric: &Metric<'_>| {
        metric.headline()
            && metric.family.subject == metrics::Subject::Program
            && subjects.is_none_or(|all| all.iter().any(|one| one == metric.subject))
    };
    // Where what clients see is known, that is what is to be explained.
    let of_clients = |metric: &Metric<'_>| metric.name.starts_with(Latency::REQUEST);
    let all = measured.iter().filter_map(|(name, _)| metrics::parse(name));
    let clients = all.filter(is_asked).any(|metric| of_clients(&metric));
    let candidates = measured.iter().filter_map(|(name, summary)| {
        let metric = metrics::parse(name)?;
        let of_subject = is_asked(&metric) && (!clients || of_clients(&metric));
        let change = summary.vs_baseline.as_ref().filter(|_| of_subject)?;
        let is_few = |variant: &Variant| {
            let count = variant.get(&metric.beside(metrics::COUNT));
            count.is_some_and(|count| count.mean < fewest(metric.suffix))
        };
        let enough = !ends.variants.iter().any(is_few);
        let size = Some(size(change)).filter(|size| size.is_finite());
        let size = size.unwrap_or(0.0);
        Some(((enough, change.significant), size, name))
    });
    let best = candidates.max_by(|(sure, size, _), (other_sure, other_size, _)| {
        sure.cmp(other_sure).then(size.total_cmp(other_size))
    });
    match best {
        Some((_, _, name)) => Ok(name.clone()),
        None => Err(Error::usage("there is no metric of a program to follow")
            .hint("name one: --bisect=machine/busy_ratio")),
    }
}

/// A change in percent with its interval: `−8.1 % (−9.0 to −7.2)`.
fn percent(change: &Change) -> String {
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0).replace('-', "\u{2212}");
    match (change.ratio, change.ci95.get()) {
        (Some(ratio), Some([low, high])) => {
            format!(
                "{} % ({} to {})",
                percent(ratio),
                percent(low),
                percent(high)
            )
        }
        (Some(ratio), None) => format!("{} %", percent(ratio)),
        (None, _) => "from zero".to_string(),
    }
}

/// Why a change without a star has none though its interval excludes no change.
fn in_spite_of_interval(change: &Change) -> &'static str {
    match change.ci95.get() {
        Some([low, high]) if low > 1.0 || high < 1.0 => {
            ", though its 95 % interval excludes no change: a star takes a 99 % interval that does, \
             and a change that is not tiny"
        }
        _ => "",
    }
}

impl Bisection {
    /// The answer as lines of text, to stand behind the table of the two variants.
    pub fn text(&self) -> String {
        let (from, to, metric) = (&self.from, &self.to, &self.metric);
        let between = match self.changes {
            1 => "1 change".to_string(),
            count => format!("{count} changes"),
        };
        let mut text = format!("\nfrom {from} to {to} lie {between} of the kernel; ");
        if self.same_events {
            text += "they decide alike here, event by event.\n";
        } else if self.seeds < 2 {
            text += &format!(
                "{metric} {}: one seed shows no noise to hold that against\n{}",
                percent(&self.change),
                self.more_seeds()
            );
        } else if !self.change.significant && self.parts.is_empty() {
            text += &format!(
                "{metric} {}: within the noise of the seeds{}\n",
                percent(&self.change),
                in_spite_of_interval(&self.change)
            );
        } else {
            text += &self.causes();
        }
        if let Some(figures) = self.misfit.as_ref().filter(|_| !self.same_events) {
            text += &format!(
                "the intervals are those of seeds alone: the simulation of the recorded settings misses the recording \
                 ({figures}), so that none of these sizes is certain\n"
            );
        }
        for one in &self.first_releases {
            text += &one.text();
        }
        text + &self.what_is_outside()
    }

    /// The hint at a number of seeds that may tell more.
    fn more_seeds(&self) -> String {
        let seeds = self.seeds.saturating_mul(2).max(SEEDS_THAT_TELL);
        format!("hint: give more seeds: --seeds {seeds}\n")
    }

    /// The release that a part of the way is, seen from the kernel where the way begins.
    fn origin(&self, part: &Part) -> String {
        let mut links = part.changes.iter().rev();
        let Some((link, release)) = links.find_map(|link| Some((link, link.release.as_ref()?)))
        else {
            return "what lies beside the table of changes".to_owned();
        };
        match &link.carried_by {
            Some(kernel) => format!("changes of {release} that {kernel} has and the other lacks"),
            None if self.backwards => format!("what {release} changed and {} lacks", self.to),
            None => release.clone(),
        }
    }

    /// The changes that move the metric.
    fn causes(&self) -> String {
        let mut text = format!("{} {}\n", self.metric, percent(&self.change));
        if let Some(most) = &self.unsure {
            let share = match size(&most.change) * 2.0 > size(&self.change) {
                true => "most",
                false => "the largest part",
            };
            text += &format!(
                "too few seeds to say which of them moves it: {share} of it comes with {}, {}\n\
                 {}",
                self.origin(most),
                percent(&most.change),
                self.more_seeds()
            );
            return text + &format!("{} kernels were run\n", self.points);
        }
        if self.parts.is_empty() {
            text += "no single one of them moves it beyond the noise of the seeds\n";
        }
        for part in &self.parts {
            text += &format!("  {}\n", percent(&part.change));
            for link in &part.changes {
                text += &link.text("    ");
            }
            match part.changes.len() {
                0 => text += "    what the two kernels were given beside the table of changes\n",
                1 => {}
                _ => text += "    these move it together; none of them does alone\n",
            }
        }
        let rest = self
            .parts
            .iter()
            .map(|part| part.changes.len())
            .sum::<usize>();
        text + &format!(
            "the other {} do not move it beyond the noise of the seeds; {} kernels were run\n",
            self.changes - rest,
            self.points
        )
    }

    /// Text about the other differences of the two kernels.
    fn what_is_outside(&self) -> String {
        let mut text =
            "What the code of a release costs beyond the prices given is not modelled".to_owned();
        text += if self.outside.is_empty() {
            ".\n"
        } else {
            "; published:\n"
        };
        for one in &self.outside {
            text += &format!(
                "  {}  {}\n      {} ({})\n",
                one.release, one.what, one.size, one.source
            );
        }
        text
    }
}

#[cfg(test)]
mod tests;
