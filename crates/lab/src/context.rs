//! Text around the numbers of a comparison: where they come from, whom they are about, what
//! they come to, and how they are set.
//!
//! Worked example: an answer about `/web` of a recording has the recording as its source, `/web` as
//! its target, the simulated against the recorded p99 as one line of the fit, and a verdict of two
//! sentences.

use std::collections::BTreeMap;

use schedcast_base::columns::WIDTH;
use schedcast_base::groups::is_within;
use schedcast_workload::replay::subject::is_of_clients;

use crate::metrics::{COUNT, Metric, Selection, group_of};
use crate::patches::Patches;

/// How a table is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Most columns of a line.
    pub columns: usize,
    /// Whether headings are bold and changes for the better green, for the worse red.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            columns: WIDTH,
            colour: false,
        }
    }
}

impl Style {
    /// The style for a terminal of so many columns: narrower ones break lines, and beyond the
    /// widest the eye loses its row.
    pub fn of_terminal(columns: usize, colour: bool) -> Style {
        Style {
            columns: columns.clamp(60, 200),
            colour,
        }
    }
}

/// Text of a table around its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Source of the runs: an experiment file, or a recording with its length.
    pub source: String,
    /// Machine in a few words, such as `8 CPUs`.
    pub machine: String,
    /// The group a what-if is about, with its limits in the baseline, if there is one.
    pub target: Option<String>,
    /// The words of the command that gives this table again, quoted for a shell.
    pub reproduce: Vec<String>,
    /// For each variant that can be applied: its name and the shell commands.
    pub apply: Vec<(String, Vec<String>)>,
    /// The limit of each such variant in the words of every tool.
    pub patches: Vec<(String, Patches)>,
    /// Show every metric, not only the headline ones.
    pub verbose: bool,
    /// Rows that were asked for by name; none: the usual ones.
    pub selection: Selection,
    /// How the re-simulated recording compares with the recorded run.
    pub fit: Vec<RefitFigure>,
    /// Verdict of an answer from a recording, a sentence each.
    pub verdict: Vec<String>,
    /// Metric that the verdict names.
    pub told: Option<String>,
    /// Name of the column of the cheapest change that helps.
    pub cheapest: Option<String>,
    /// Which part of the recording is simulated, where it is not the whole.
    pub part: Option<String>,
    /// Whom an answer from a recording is about; `None`: everything in an experiment.
    pub about: Option<About>,
    /// How metrics of an answer about promises are named.
    pub names: Names,
    /// How the table is set on paper or on a terminal.
    pub style: Style,
    /// Names of the groups of a recording, by path.
    pub labels: BTreeMap<String, String>,
}

/// How metrics are named beside each other: without their subject where that is clear.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Names {
    /// Subjects of the target itself: its group, and its main threads or its job.
    pub own: Vec<String>,
    /// Metrics that are promised.
    pub promised: Vec<String>,
}

impl Names {
    /// Those of the figures of a fit, which begins with the target and its main threads. Where it
    /// holds none of these, kinds of their clients come first.
    fn of_fit(all: &[RefitFigure]) -> Names {
        let first = |is_of_group: bool| {
            let mut metrics = all.iter().map(|one| one.metric.as_str());
            let first = metrics.find(|metric| group_of(metric).is_some() == is_of_group)?;
            let (subject, _) = first.rsplit_once('/')?;
            (!is_of_clients(subject)).then(|| subject.to_string())
        };
        let own = [false, true].into_iter().filter_map(first);
        Names {
            own: own.collect(),
            promised: Vec::new(),
        }
    }

    /// `name`, which is that of a metric of `subject`: alone where the subject is the target's own
    /// and the same of no other subject is promised.
    ///
    /// Worked example: of `nginx`, a promised `nginx/request_latency.p95` is `request_latency.p95`,
    /// and in full beside the promise of `nginx from curl/request_latency.p95`, which always is.
    pub fn name(&self, subject: &str, name: &str) -> String {
        let is_other = |metric: &String| {
            let of = metric.rsplit_once('/');
            of.is_some_and(|(other, of)| other != subject && of == name)
        };
        let is_own = self.own.iter().any(|own| own == subject);
        match is_own && !self.promised.iter().any(is_other) {
            true => name.to_string(),
            false => format!("{subject}/{name}"),
        }
    }

    /// [The name](Self::name) of a metric.
    pub fn of(&self, metric: &str) -> String {
        let split = metric.rsplit_once('/');
        split.map_or(metric.to_string(), |(subject, name)| {
            self.name(subject, name)
        })
    }
}

/// One figure of the recorded run and what the simulation of the same settings gives.
#[derive(Clone, Debug, PartialEq)]
pub struct RefitFigure {
    /// Name of the metric.
    pub metric: String,
    /// Mean over the seeds, in the metric's unit.
    pub predicted: f64,
    /// Value that the recording shows, in the metric's unit.
    pub seen: f64,
    /// That value is about requests, and inferred from wakeups: no log of them is in use.
    pub inferred: bool,
    /// Least and most of the seeds, where the recording does not show when its periods end. Each
    /// seed draws that then, and the recorded run is one of the draws.
    pub chance: Option<[f64; 2]>,
}

/// Word for the source of a recording's value: its trace and log, or what wakeups say of requests.
pub fn source_of(inferred: bool) -> &'static str {
    match inferred {
        true => "inferred",
        false => "recorded",
    }
}

impl RefitFigure {
    /// A figure that the recording shows, of periods whose ends it shows.
    pub fn new(metric: impl Into<String>, predicted: f64, seen: f64) -> Self {
        Self {
            metric: metric.into(),
            predicted,
            seen,
            inferred: false,
            chance: None,
        }
    }

    /// Whether it is about the requests of one of several kinds of clients.
    pub(crate) fn is_of_kind(&self) -> bool {
        let split = self.metric.rsplit_once('/');
        split.is_some_and(|(subject, _)| is_of_clients(subject))
    }

    /// Name of the figure among `all` of a fit: without its threads or group where these are the
    /// first of them, the target and its main threads.
    pub fn shown_among(&self, all: &[RefitFigure], metric: &Metric<'_>) -> String {
        Names::of_fit(all).name(metric.subject, metric.shown())
    }

    /// Word for the source of the recording's value.
    pub fn source(&self) -> &'static str {
        source_of(self.inferred)
    }

    /// The simulated value to judge the simulation by: the mean, or where chance decides when
    /// periods end, the value in the range of the seeds that is nearest to the recorded one.
    pub fn judged(&self) -> f64 {
        match self.chance {
            Some([least, most]) => self.seen.clamp(least, most),
            None => self.predicted,
        }
    }

    /// Makes a count of the whole recording one of this share of it. Latencies are as they were.
    pub(crate) fn take_part(&mut self, share: f64) {
        if group_of(&self.metric).is_some() || self.metric.ends_with(COUNT) {
            self.predicted *= share;
            self.seen *= share;
            self.chance = self.chance.map(|ends| ends.map(|end| end * share));
        }
    }

    /// By which factor the simulation is off, in either direction: 1 where it is right, without
    /// limit where one of both is 0, no number where both are.
    pub fn factor(&self) -> f64 {
        (self.judged() / self.seen).max(self.seen / self.judged())
    }

    /// [The factor](Self::factor), where neither the simulation nor the recording has nothing.
    pub fn ratio(&self) -> Option<f64> {
        (self.judged() > 0.0 && self.seen > 0.0).then(|| self.factor())
    }

    /// The ends of an interval, moved apart by what the simulation missed: by the ratio of seen and
    /// predicted, at least by `least`, or, where there is no ratio, by their difference.
    pub fn moved_apart(&self, interval: [f64; 2], least: f64) -> [f64; 2] {
        if let Some(ratio) = self.ratio() {
            return moved_apart_by(interval, ratio.max(least));
        }
        let [low, high] = interval;
        let missed = (self.seen - self.judged()).abs();
        [(low - missed).max(low.min(0.0)), high + missed]
    }

    /// By which factor the mean over the seeds is off, in either direction: 1 where it is right,
    /// without limit where one of both is 0. Worked example: half as much as recorded is as far off
    /// as twice as much.
    pub fn miss(&self) -> f64 {
        match self.predicted == self.seen {
            true => 1.0,
            false => (self.predicted / self.seen).max(self.seen / self.predicted),
        }
    }
}

/// The ends of an interval, moved apart by a factor.
pub(crate) fn moved_apart_by([low, high]: [f64; 2], factor: f64) -> [f64; 2] {
    [low / factor, high * factor]
}

/// Whom an answer is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Path of the group; `/` is all of the machine.
    pub path: String,
    /// Name for people.
    pub name: String,
    /// Its threads and those of the groups below it, the most active first.
    pub members: Vec<String>,
    /// Other groups that a column changes: the question is about them, too.
    pub changed: Vec<String>,
    /// Threads of those groups.
    pub changed_threads: Vec<String>,
}

impl About {
    /// Whether `path` is the group or one below it.
    pub fn contains(&self, path: &str) -> bool {
        is_within(path, &self.path)
    }

    /// Whether `path` is a group that the target is in.
    pub fn is_within(&self, path: &str) -> bool {
        is_within(&self.path, path)
    }

    /// Whether a column changes the group at `path`.
    pub fn changes(&self, path: &str) -> bool {
        self.changed.iter().any(|changed| changed == path)
    }

    /// The row of `subject` among the members.
    pub fn member(&self, subject: &str) -> Option<usize> {
        self.members.iter().position(|name| name == subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_about_two_kinds_of_clients_say_whose_they_are() {
        let names = |promised: &[&str]| {
            let names = Names {
                own: ["nginx", "cgroup:/web"].map(str::to_string).into(),
                promised: promised.iter().map(ToString::to_string).collect(),
            };
            let named: Vec<String> = promised.iter().map(|metric| names.of(metric)).collect();
            named.join(", ")
        };
        let (all, hey) = (
            "nginx/request_latency.p95",
            "nginx from hey/request_latency.p95",
        );
        let (curl, stops) = (
            "nginx from curl/request_latency.p95",
            "cgroup:/web/nr_throttled",
        );
        assert_eq!(names(&[all, stops]), "request_latency.p95, nr_throttled");
        assert_eq!(names(&[curl]), curl);
        assert_eq!(names(&[hey, curl]), format!("{hey}, {curl}"));
        assert_eq!(names(&[all, curl]), format!("{all}, {curl}"));
    }

    #[test]
    fn figures_of_a_kind_of_clients_are_not_those_of_the_main_threads() {
        let shown = |metrics: &[&str]| {
            let all = metrics.iter();
            let all: Vec<_> = all.map(|one| RefitFigure::new(*one, 1.0, 1.0)).collect();
            let shown = all.iter().map(|one| {
                let metric = crate::metrics::parse(&one.metric).unwrap();
                one.shown_among(&all, &metric)
            });
            shown.collect::<Vec<String>>().join(", ")
        };
        let (all, curl) = (
            "nginx/request_latency.p95",
            "nginx from curl/request_latency.p95",
        );
        assert_eq!(shown(&[all, curl]), format!("request_latency.p95, {curl}"));
        assert_eq!(shown(&[curl]), curl);
    }

    /// 102 of 300 periods of 30 s were throttled, and 98 are simulated; a third is asked about.
    #[test]
    fn counts_of_a_part_are_in_proportion_and_latencies_as_they_were() {
        let part = |metric: &str| {
            let mut one = RefitFigure::new(metric, 99.0, 102.0);
            one.chance = Some([96.0, 102.0]);
            one.take_part(1.0 / 3.0);
            let [least, most] = one.chance.unwrap();
            [one.predicted, one.seen, least, most].map(f64::round)
        };
        let third = [33.0, 34.0, 32.0, 34.0];
        assert_eq!(part("cgroup:/a/nr_throttled"), third);
        assert_eq!(part("a/request_latency.count"), third);
        assert_eq!(part("a/request_latency.p99"), [99.0, 102.0, 96.0, 102.0]);
    }
}
