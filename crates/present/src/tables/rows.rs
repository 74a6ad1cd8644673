//! Which rows a table has, and in what order.
//!
//! An experiment shows the usual metrics of everything in it. A recording of a busy node has dozens
//! of names, and the question is about one group, so its table has sections:
//!
//! | section | rows |
//! |---|---|
//! | the target | its threads with the most activations, its groups, the groups above that throttle it, and those that a column changes |
//! | neighbours that changed | the CPU time of threads whose group a column changes; then one row for each other: the metric that changed most, the largest change first |
//! | machine | the whole machine |
//!
//! Everything else is hidden behind `-v`, and one line says how much that is. Worked example: a
//! node with `/web` as the target and 16 names, of which `nginx` becomes 40 % slower and no other
//! changes, has the rows of `web`, one row of `nginx`, one of the machine, and "hidden: 14 other
//! neighbours".

use std::collections::BTreeSet;

use schedcast_workload::replay::subject::is_recorder;

use schedcast_lab::context::About;

use super::{Context, full_name};
use schedcast_lab::comparison::Comparison;
use schedcast_lab::metrics::{self, Better, CGROUP, Metric};

/// Names of the target whose rows are shown: one that serves, and those that it works with.
const MEMBERS_MAX: usize = 4;
/// Neighbours that are shown: more are a list, not an answer.
const NEIGHBOURS_MAX: usize = 5;

/// Rows under one heading.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// Heading above the rows; an experiment's only section has none.
    pub(crate) heading: Option<String>,
    /// The rows.
    pub(crate) metrics: Vec<Metric<'a>>,
}

/// The rows of a table.
#[derive(Debug, Default)]
pub(crate) struct Rows<'a> {
    /// In the order they are printed.
    pub(crate) sections: Vec<Section<'a>>,
    /// Says how much more `-v` would show.
    pub(crate) hidden: Option<String>,
}

/// Metrics of threads that a table about a recording shows: a request from its schedule to its
/// answer where clients are known, a thread's wakeup to its next block, which they wait for, time
/// lost to throttling, which the limit is to blame for, and how long a job took.
const RECORDING_METRICS: [&str; 9] = [
    metrics::TIME,
    "request_latency.count",
    "request_latency.p50",
    "request_latency.p95",
    "request_latency.p99",
    "activation_latency.p50",
    "activation_latency.p95",
    "activation_latency.p99",
    "wait.throttled",
];

/// How many activations finished: shown where no request is known.
const ACTIVATIONS: &str = "activation_latency.count";
/// CPU time of threads: what those of a limited group lose.
const CPU_TIME: &str = "cpu_time";

/// Which part of the table a metric belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Target,
    Neighbour,
    Machine,
}

fn part_of(about: &About, metric: &Metric<'_>) -> Part {
    let path = metric.subject.strip_prefix(CGROUP);
    match (metric.family.subject, path) {
        (metrics::Subject::Machine, _) => Part::Machine,
        (_, Some(path)) if about.contains(path) || about.is_within(path) => Part::Target,
        (_, Some(path)) if about.changes(path) => Part::Target,
        (_, None) if about.member(metric.subject).is_some() => Part::Target,
        _ => Part::Neighbour,
    }
}

/// Whether a table about a recording shows this metric of something it shows.
fn is_usual(comparison: &Comparison, metric: &Metric<'_>) -> bool {
    let has = |name: &str| {
        comparison
            .variants
            .iter()
            .any(|one| one.get(name).is_some())
    };
    match metric.family.subject {
        metrics::Subject::Program if metric.name == ACTIVATIONS => {
            !has(&format!("{}/request_latency.count", metric.subject))
        }
        metrics::Subject::Program => RECORDING_METRICS.contains(&metric.name),
        _ => metric.headline(),
    }
}

/// Whether this is a metric of bandwidth of an autogroup: the kernel gives sessions one of these
/// groups each, and they can have no limit.
fn can_have_no_limit(metric: &Metric<'_>) -> bool {
    let path = metric.subject.strip_prefix(CGROUP);
    path.is_some_and(|path| path.starts_with("/autogroup/")) && metric.name != "usage_usec"
}

/// The rows of a table, by section.
pub(crate) fn rows<'a>(comparison: &'a Comparison, context: &Context) -> Rows<'a> {
    let names = comparison.metric_names().into_iter();
    let all: Vec<Metric<'a>> = names.filter_map(metrics::parse).collect();
    let Some(about) = &context.about else {
        let is_shown = |metric: &Metric<'a>| match context.selection.is_empty() {
            true => context.verbose || metric.headline(),
            false => context.selection.has(&full_name(metric)),
        };
        let metrics = all.into_iter().filter(is_shown).collect();
        let heading = None;
        return Rows {
            sections: vec![Section { heading, metrics }],
            hidden: None,
        };
    };
    let everything = context.verbose || !context.selection.is_empty();
    let chosen = |metric: &&Metric<'a>| {
        context.selection.is_empty()
            || context.selection.has(&full_name(metric)) && !can_have_no_limit(metric)
    };
    let of = |part: Part| {
        let metrics = all.iter().filter(chosen).copied();
        metrics.filter(move |metric| part_of(about, metric) == part)
    };
    let mut target: Vec<Metric<'a>> = of(Part::Target).collect();
    // Threads by their activity, then groups from the target outwards and inwards.
    target.sort_by_key(|metric| match metric.subject.strip_prefix(CGROUP) {
        None => (0, about.member(metric.subject).unwrap_or(usize::MAX)),
        Some(path) => (1 + usize::from(path != about.path), path.len()),
    });
    let mut hidden = Hidden::default();
    let neighbours: Vec<Metric<'a>> = match everything {
        true => of(Part::Neighbour).collect(),
        false => {
            let shown = |metric: &Metric<'a>| {
                is_shown_of_target(about, comparison, metric)
                    || context.told.as_ref() == Some(&full_name(metric))
            };
            hidden.members = left_out(comparison, &target, &shown);
            target.retain(shown);
            let neighbours: Vec<Metric<'a>> = of(Part::Neighbour).collect();
            let changed = changed(about, comparison, &neighbours);
            let mut left_out = subjects(comparison, neighbours.iter());
            left_out.retain(|subject| !changed.iter().any(|metric| metric.subject == *subject));
            hidden.neighbours = left_out.len();
            changed
        }
    };
    let machine = of(Part::Machine).filter(|metric| everything || metric.headline());
    let heading = match everything {
        true => "neighbours",
        false => "neighbours that changed",
    };
    let sections = [
        (about.name.as_str(), target),
        (heading, neighbours),
        ("machine", machine.collect()),
    ];
    let sections = sections
        .into_iter()
        .filter(|(_, metrics)| !metrics.is_empty());
    Rows {
        sections: sections
            .map(|(heading, metrics)| Section {
                heading: Some(heading.to_string()),
                metrics,
            })
            .collect(),
        hidden: hidden.told(),
    }
}

/// Every metric that a table shows, in order.
pub(crate) fn shown_metrics<'a>(comparison: &'a Comparison, context: &Context) -> Vec<Metric<'a>> {
    let sections = rows(comparison, context).sections.into_iter();
    sections.flat_map(|section| section.metrics).collect()
}

/// The verdict, if the table shows the row that it names.
pub(crate) fn verdict<'a>(comparison: &Comparison, context: &'a Context) -> &'a [String] {
    let is_told = |metric: &Metric<'_>| context.told.as_ref() == Some(&full_name(metric));
    match context.told.is_none() || shown_metrics(comparison, context).iter().any(is_told) {
        true => &context.verdict,
        false => &[],
    }
}

/// Names that are counted in the line below the table.
#[derive(Default)]
struct Hidden {
    members: usize,
    neighbours: usize,
}

impl Hidden {
    fn told(&self) -> Option<String> {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let members = (self.members > 0).then(|| {
            format!(
                "{} other name{} of the target",
                self.members,
                plural(self.members)
            )
        });
        let neighbours = (self.neighbours > 0).then(|| {
            format!(
                "{} other neighbour{}",
                self.neighbours,
                plural(self.neighbours)
            )
        });
        let told: Vec<String> = members.into_iter().chain(neighbours).collect();
        (!told.is_empty()).then(|| {
            let told = told.join(" and ");
            format!("hidden: {told}; -v shows all rows, --metric 'NAME/*' those of one name")
        })
    }
}

fn subjects<'m, 'a: 'm>(
    comparison: &Comparison,
    metrics: impl Iterator<Item = &'m Metric<'a>>,
) -> BTreeSet<&'a str> {
    let is_told =
        |metric: &&Metric<'a>| is_usual(comparison, metric) && !is_recorder(metric.subject);
    let told = metrics.filter(is_told);
    told.map(|metric| metric.subject).collect()
}

/// How many names have usual metrics, and none that is shown.
fn left_out<'a>(
    comparison: &Comparison,
    metrics: &[Metric<'a>],
    shown: &impl Fn(&Metric<'a>) -> bool,
) -> usize {
    let programs = || {
        metrics
            .iter()
            .filter(|metric| !metric.subject.starts_with(CGROUP))
    };
    let all = subjects(comparison, programs());
    let kept = subjects(comparison, programs().filter(|metric| shown(metric)));
    all.difference(&kept).count()
}

/// Whether a row of the target is shown: of its most active names, of its own group, of groups that
/// a column changes, and of other groups on its path if they throttle.
fn is_shown_of_target(about: &About, comparison: &Comparison, metric: &Metric<'_>) -> bool {
    let shown = match metric.subject.strip_prefix(CGROUP) {
        None => about
            .member(metric.subject)
            .is_some_and(|place| place < MEMBERS_MAX || metric.name == metrics::TIME),
        Some(path) => {
            path == about.path || about.changes(path) || throttles(comparison, metric.subject)
        }
    };
    shown && is_usual(comparison, metric)
}

fn throttles(comparison: &Comparison, subject: &str) -> bool {
    let name = format!("{subject}/nr_throttled");
    let mut means = comparison.variants.iter().filter_map(|one| one.get(&name));
    means.any(|summary| summary.mean > 0.0)
}

/// Of each neighbour that changes for sure the metric that changes most; the largest change first.
/// In front are threads of groups that a column changes, with their CPU time.
fn changed<'a>(
    about: &About,
    comparison: &Comparison,
    neighbours: &[Metric<'a>],
) -> Vec<Metric<'a>> {
    let is_of_changed = |metric: &Metric<'_>| {
        about
            .changed_threads
            .iter()
            .any(|name| name == metric.subject)
    };
    let told = neighbours
        .iter()
        .filter(|metric| match is_of_changed(metric) {
            true => metric.name == CPU_TIME,
            false => {
                is_usual(comparison, metric)
                    && metric.better() != Better::None
                    && !is_recorder(metric.subject)
            }
        });
    let mut changes: Vec<(bool, f64, Metric<'a>)> = told
        .filter_map(|metric| {
            let is_of_changed = is_of_changed(metric);
            Some((is_of_changed, change_of(comparison, metric)?, *metric))
        })
        .collect();
    // A stable sort, so that equal changes keep the table's order.
    changes.sort_by(|left, right| right.0.cmp(&left.0).then(right.1.total_cmp(&left.1)));
    let mut seen = BTreeSet::new();
    changes.retain(|(_, _, metric)| seen.insert(metric.subject));
    changes.truncate(NEIGHBOURS_MAX);
    changes.into_iter().map(|(_, _, metric)| metric).collect()
}

/// How much `metric` changes at most, as the logarithm of a factor; `None` where no change is sure,
/// or the percentile of too few values.
fn change_of(comparison: &Comparison, metric: &Metric<'_>) -> Option<f64> {
    let name = full_name(metric);
    let baseline = comparison.variants.first()?;
    let count = baseline.get(&metric.beside(metrics::COUNT));
    if count.is_some_and(|count| count.mean < metric.values_needed()) {
        return None;
    }
    let changes = comparison.variants.iter().filter_map(|variant| {
        let change = variant.get(&name)?.vs_baseline.as_ref()?;
        let ratio = change.ratio.filter(|_| change.significant)?;
        Some(ratio.max(1e-9).ln().abs())
    });
    changes.reduce(f64::max)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use schedcast_lab::metrics::Selection;
    use schedcast_lab::samples::compared;

    /// A node of the target `/web` with the names `web`, `log` and `cache`, and ten neighbours, of
    /// which two change.
    pub(in super::super) fn node() -> Comparison {
        let mut rows: Vec<(String, [f64; 4], [f64; 4])> = Vec::new();
        let steady = |base: f64| [base, base * 1.01, base * 0.99, base * 1.005];
        let mut put = |name: &str, before: f64, after: f64| {
            rows.push((name.to_string(), steady(before), steady(after)));
        };
        for (name, p99) in [
            ("web", 80.0),
            ("cache", 20.0),
            ("log", 10.0),
            ("cron", 8.0),
            ("idle", 5.0),
        ] {
            put(
                &format!("{name}/activation_latency.p99"),
                p99 * 1e3,
                p99 * 5e2,
            );
            put(&format!("{name}/wait.throttled"), 1.0, 0.2);
            put(&format!("{name}/switches"), 100.0, 100.0);
        }
        for neighbour in 0..8 {
            put(&format!("n{neighbour}/activation_latency.p99"), 3e3, 3e3);
            put(&format!("n{neighbour}/activation_latency.count"), 1e3, 1e3);
        }
        put("nginx/activation_latency.p50", 1e3, 1.1e3);
        put("nginx/activation_latency.p99", 4e3, 6e3);
        put("batch/activation_latency.p99", 4e3, 4e4);
        put("rare/activation_latency.p99", 4e3, 4e5);
        put("rare/activation_latency.count", 12.0, 12.0);
        put("perf/activation_latency.p99", 4e3, 4e6);
        put("cgroup:/web/nr_throttled", 90.0, 10.0);
        put("cgroup:/web/sub/nr_throttled", 0.0, 0.0);
        put("cgroup:/other/nr_throttled", 10.0, 10.0);
        put("machine/busy_ratio", 0.4, 0.5);
        compared(&rows)
    }

    pub(in super::super) fn about_web() -> Context {
        let members = ["web", "cache", "log", "cron", "idle"];
        Context {
            about: Some(About {
                path: "/web".to_string(),
                name: "/web".to_string(),
                members: members.map(str::to_string).to_vec(),
                ..About::default()
            }),
            ..Context::default()
        }
    }

    fn printed(context: &Context) -> Vec<(String, Vec<String>)> {
        let comparison = node();
        let sections = rows(&comparison, context).sections.into_iter();
        sections
            .map(|section| {
                let names = section.metrics.iter().map(full_name);
                (section.heading.unwrap_or_default(), names.collect())
            })
            .collect()
    }

    /// Sessions of the autogroup have no limit, and used CPU time all the same.
    #[test]
    fn autogroups_have_no_rows_of_bandwidth() {
        let told = |name: &str| !can_have_no_limit(&metrics::parse(name).unwrap());
        assert!(!told("cgroup:/autogroup/12/nr_throttled"));
        assert!(told("cgroup:/autogroup/12/usage_usec"));
        assert!(told("cgroup:/web/nr_throttled") && told("machine/busy_ratio"));
    }

    /// `/other` is throttled as often under every column.
    #[test]
    fn groups_that_a_column_changes_are_shown_with_the_target() {
        let shown = |context: &Context| {
            let [(_, target), ..] = &printed(context)[..] else {
                panic!("no section");
            };
            target.contains(&"cgroup:/other/nr_throttled".to_string())
        };
        let mut context = about_web();
        assert!(!shown(&context));
        let about = context.about.as_mut().unwrap();
        about.changed.push("/other".to_string());
        assert!(shown(&context));
    }

    #[test]
    fn the_target_comes_first_and_neighbours_follow_by_their_change() {
        let expected = [
            (
                "/web",
                vec![
                    "web/activation_latency.p99",
                    "web/wait.throttled",
                    "cache/activation_latency.p99",
                    "cache/wait.throttled",
                    "log/activation_latency.p99",
                    "log/wait.throttled",
                    "cron/activation_latency.p99",
                    "cron/wait.throttled",
                    "cgroup:/web/nr_throttled",
                ],
            ),
            (
                "neighbours that changed",
                vec![
                    "batch/activation_latency.p99",
                    "nginx/activation_latency.p99",
                ],
            ),
            ("machine", vec!["machine/busy_ratio"]),
        ];
        let expected = expected.map(|(heading, names)| {
            let names = names.into_iter().map(str::to_string).collect();
            (heading.to_string(), names)
        });
        assert_eq!(printed(&about_web()), expected);
    }

    /// `n5` gets half its CPU time, and none of its usual metrics changes.
    #[test]
    fn threads_whose_group_a_column_changes_come_first_with_their_cpu_time() {
        let other = [4e3, 4.01e3, 3.99e3, 4e3];
        let halved = other.map(|value| value / 2.0);
        let mut rows = vec![("n5/cpu_time".to_string(), other, halved)];
        let slower = other.map(|value| 10.0 * value);
        rows.push(("batch/activation_latency.p99".to_string(), other, slower));
        let comparison = compared(&rows);
        let mut context = about_web();
        let about = context.about.as_mut().unwrap();
        about.changed_threads.push("n5".to_string());
        let sections = super::rows(&comparison, &context).sections;
        let names: Vec<String> = sections[0].metrics.iter().map(full_name).collect();
        assert_eq!(names, ["n5/cpu_time", "batch/activation_latency.p99"]);
    }

    #[test]
    fn the_verdict_names_only_rows_that_are_shown() {
        let comparison = node();
        let telling = |told: &str, selection: Selection| Context {
            told: Some(told.to_string()),
            verdict: vec![format!("now: {told} is 3.")],
            selection,
            ..about_web()
        };
        // A row that is not usual is shown because it is told.
        let replies = telling("web/switches", Selection::default());
        assert_eq!(verdict(&comparison, &replies), replies.verdict);
        assert!(printed(&replies)[0].1.contains(&"web/switches".to_string()));
        let select = |pattern: &str| Selection::new(&[pattern.to_string()]).unwrap();
        let told = "web/activation_latency.p99";
        let shown = telling(told, select("web/*"));
        assert_eq!(verdict(&comparison, &shown), shown.verdict);
        let none: [String; 0] = [];
        assert_eq!(
            verdict(&comparison, &telling(told, select("cache/*"))),
            none
        );
    }

    #[test]
    fn one_line_counts_what_is_hidden() {
        let comparison = node();
        let hidden = rows(&comparison, &about_web()).hidden.unwrap();
        // Eight that do not change, the one with too few values, and the other group; the recorder
        // is none.
        let expected = "hidden: 1 other name of the target and 10 other neighbours; ";
        assert!(hidden.starts_with(expected), "{hidden}");
    }

    #[test]
    fn verbose_shows_every_metric_with_the_target_first() {
        let context = Context {
            verbose: true,
            ..about_web()
        };
        let all = printed(&context);
        let headings: Vec<&str> = all.iter().map(|(heading, _)| heading.as_str()).collect();
        assert_eq!(headings, ["/web", "neighbours", "machine"]);
        let count: usize = all.iter().map(|(_, names)| names.len()).sum();
        assert_eq!(count, node().metric_names().len());
        assert!(rows(&node(), &context).hidden.is_none());
    }

    #[test]
    fn named_rows_are_all_that_is_shown() {
        let context = Context {
            selection: Selection::new(&["n3/*".to_string(), "web/switches".to_string()]).unwrap(),
            ..about_web()
        };
        let names: Vec<String> = printed(&context)
            .into_iter()
            .flat_map(|(_, names)| names)
            .collect();
        let expected = [
            "web/switches",
            "n3/activation_latency.p99",
            "n3/activation_latency.count",
        ];
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        assert_eq!(sorted(names), sorted(expected.map(str::to_string).to_vec()));
    }
}
