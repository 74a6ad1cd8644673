//! Content of a page as one object: `schedcast.report/1`.

use schedcast_kernel::platform::Op;
use schedcast_sim::histogram::Histogram;
use serde::Serialize;

use super::gather::Gathered;
use super::scene::Scene;
use super::sentence;
use crate::tables::text::spread;
use crate::tables::{Context, change_text, full_name, rows, scale_for, scale_of, shown_metrics};
use schedcast_advise::frontier::Frontier;
use schedcast_lab::comparison::{Comparison, Summary};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::experiment::cgroup::CgroupSettings;
use schedcast_lab::metrics::{self, Better};

/// Version of the object.
pub(crate) const SCHEMA: &str = "schedcast.report/1";
/// Distributions and thread names on one page.
const MOST_NAMES: usize = 12;
/// Points of a distribution's curve for each factor of ten in rarity.
const POINTS_PER_DECADE: f64 = 24.0;

/// Everything on a page.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    title: String,
    schedcast: String,
    source: String,
    machine: String,
    seeds: u32,
    tier: Option<&'static str>,
    target: Option<String>,
    /// Name of the answer's subject: the heading of the page.
    subject: String,
    /// Warnings that a reader needs before the numbers.
    warnings: Vec<String>,
    /// The answer, a sentence each.
    sentences: Vec<String>,
    /// The variant of the cheapest change that helps.
    cheapest: Option<usize>,
    /// Frontier of other limits, where the answer is from a recording.
    frontier: Option<Frontier>,
    reproduce: String,
    variants: Vec<Variant>,
    table: Vec<Row>,
    fit: Vec<FitRow>,
    distributions: Vec<Distribution>,
    waits: Vec<Waits>,
    /// Shares of all CPU time, per variant.
    cpu_time: Vec<CpuTime>,
    scenes: Vec<Scene>,
}

#[derive(Debug, Serialize)]
struct Variant {
    name: String,
    kernel: String,
    hz: u32,
    cpus: usize,
    machine: String,
    event_hash: String,
    groups: Vec<GroupSettings>,
    apply: Vec<String>,
    /// The same for every tool: its name and what is typed.
    dialects: Vec<(&'static str, String)>,
}

#[derive(Debug, Serialize)]
struct GroupSettings {
    path: String,
    /// `cpu.max` as it is written.
    cpu_max: String,
    quota_us: Option<u64>,
    period_us: u64,
    burst_us: u64,
    shares: u64,
}

#[derive(Debug, Serialize)]
struct Row {
    /// Heading above the rows of a part of the table; the same in all of them.
    section: Option<String>,
    metric: String,
    subject: String,
    name: String,
    unit: String,
    better: Better,
    digits: usize,
    cells: Vec<Option<Cell>>,
}

/// Values in the unit of the row.
#[derive(Debug, Serialize)]
struct Cell {
    mean: f64,
    /// The mean is a lower bound.
    at_least: bool,
    /// The interval beside the mean, in the words of the terminal's table.
    spread: String,
    /// Value that the recording itself shows.
    recorded: Option<f64>,
    /// Change against the first variant in words: in per cent, large ones as factors.
    change: Option<String>,
    /// The ends of its 95 % interval in the same words.
    change_ci95: Option<[String; 2]>,
    /// Less than before: −1; more: 1.
    direction: i8,
    significant: bool,
    /// Median, least and most of what really happened.
    measured: Option<[f64; 3]>,
}

#[derive(Debug, Serialize)]
struct FitRow {
    metric: String,
    unit: String,
    digits: usize,
    predicted: f64,
    seen: f64,
    /// How far the first is from the second, in words.
    error: Option<String>,
}

/// One kind of latency. A curve is pairs of rarity and latency: at rarity 2 stands the p99, at 3
/// the p99.9.
#[derive(Debug, Serialize)]
struct Distribution {
    name: String,
    counts: Vec<u64>,
    /// Per variant: latencies in us, at rarities 0, 1/24, 2/24 and so on.
    curves: Vec<Option<Vec<f64>>>,
}

/// Where the time of threads of one name went, s, mean over seeds.
#[derive(Debug, Serialize)]
struct Waits {
    name: String,
    /// Per variant: running, waiting because of others, waiting because of throttling.
    seconds: Vec<Option<[f64; 3]>>,
}

#[derive(Debug, Serialize)]
struct CpuTime {
    /// Share of time that tasks execute.
    tasks: f64,
    idle: f64,
    /// Operation and share, largest first.
    overheads: Vec<(&'static str, f64)>,
}

/// Puts a page's object together.
pub fn report(gathered: Gathered, scenarios: &[Scenario]) -> Report {
    let Gathered {
        answer,
        distributions,
        scenes,
        frontier,
    } = gathered;
    let (comparison, context) = (&answer.comparison, &answer.context);
    let names = shown_names(comparison, context);
    let mut names_of_variants = comparison.variants.iter().map(|variant| &variant.name);
    Report {
        schema: SCHEMA,
        title: comparison.title.clone(),
        schedcast: comparison.schedcast.clone(),
        source: context.source.clone(),
        machine: context.machine.clone(),
        seeds: comparison.seeds,
        tier: comparison.tier.map(|tier| tier.name()),
        target: context.target.clone(),
        warnings: comparison.warnings.clone(),
        subject: subject(comparison, context),
        sentences: match context.verdict.is_empty() {
            true => vec![sentence::answer(comparison, context)],
            false => context.verdict.clone(),
        },
        cheapest: names_of_variants.position(|name| Some(name) == context.cheapest.as_ref()),
        frontier,
        reproduce: context.reproduce.join(" "),
        variants: variants(comparison, context, scenarios),
        table: table(comparison, context),
        fit: fit(context),
        distributions: curves(&distributions, &names),
        waits: waits(comparison, &names),
        cpu_time: comparison.variants.iter().map(cpu_time).collect(),
        scenes,
    }
}

fn subject(comparison: &Comparison, context: &Context) -> String {
    match &context.about {
        Some(about) if about.name != about.path => format!("{} ({})", about.name, about.path),
        Some(about) => about.path.clone(),
        None if comparison.title.is_empty() => context.source.clone(),
        None => comparison.title.clone(),
    }
}

/// Subjects a page shows, the target's first: those of the table; of an experiment all.
fn shown_names(comparison: &Comparison, context: &Context) -> Vec<String> {
    let metrics = match &context.about {
        Some(_) => shown_metrics(comparison, context),
        None => {
            let all = comparison.metric_names().into_iter();
            all.filter_map(metrics::parse).collect()
        }
    };
    let members = context.about.iter().flat_map(|about| about.members.clone());
    let mut names: Vec<String> = Vec::new();
    for name in members.chain(metrics.iter().map(|metric| metric.subject.to_string())) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn group_settings((path, settings): (&String, &CgroupSettings)) -> GroupSettings {
    let limits = settings.limits;
    GroupSettings {
        path: path.clone(),
        cpu_max: limits.cpu_max(),
        quota_us: limits.quota_us,
        period_us: limits.period_us,
        burst_us: limits.burst_us,
        shares: settings.shares(),
    }
}

fn variants(comparison: &Comparison, context: &Context, scenarios: &[Scenario]) -> Vec<Variant> {
    let variant = |(variant, scenario): (&schedcast_lab::comparison::Variant, &Scenario)| Variant {
        name: variant.name.clone(),
        kernel: scenario.kernel.shown(),
        hz: scenario.kernel.hz,
        cpus: scenario.machine.cpus(),
        machine: scenario.machine.machine.title.clone(),
        event_hash: variant.event_hash.clone(),
        groups: scenario.cgroups.iter().map(group_settings).collect(),
        apply: named(&context.apply, &variant.name)
            .cloned()
            .unwrap_or_default(),
        dialects: named(&context.patches, &variant.name)
            .map_or(Vec::new(), |patches| patches.lines().to_vec()),
    };
    let variants = comparison.variants.iter().zip(scenarios);
    variants.map(variant).collect()
}

/// Entry of a variant in a list by names.
fn named<'a, T>(all: &'a [(String, T)], variant: &str) -> Option<&'a T> {
    let found = all.iter().find(|(name, _)| name == variant);
    found.map(|(_, of)| of)
}

fn table(comparison: &Comparison, context: &Context) -> Vec<Row> {
    let row = |section: &Option<String>, metric: metrics::Metric<'_>| {
        let name = full_name(&metric);
        let variants = comparison.variants.iter();
        let summaries: Vec<_> = variants.map(|variant| variant.get(&name)).collect();
        let scale = scale_of(&metric, &summaries);
        let cell = |summary: &Option<&Summary>| {
            let summary = (*summary)?;
            let scaled = |value: f64| value / scale.divisor;
            let change = summary.vs_baseline.as_ref();
            let ratio = change.and_then(|change| change.ratio);
            let (ends, measured) = (
                change.and_then(|change| change.ci95.get()),
                &summary.measured,
            );
            Some(Cell {
                mean: scaled(summary.mean),
                at_least: summary.at_least,
                spread: spread(summary, &scale),
                recorded: summary.recorded.map(scaled),
                change: ratio.filter(|ratio| *ratio != 1.0).map(change_text),
                change_ci95: ends.map(|ends| ends.map(change_text)),
                direction: match ratio {
                    Some(ratio) if ratio < 1.0 => -1,
                    Some(ratio) if ratio > 1.0 => 1,
                    _ => 0,
                },
                significant: change.is_some_and(|change| change.significant),
                measured: measured.map(|seen| [seen.median, seen.min, seen.max].map(scaled)),
            })
        };
        Row {
            section: section.clone(),
            subject: metric.subject.to_string(),
            name: metric.shown().to_string(),
            unit: scale.unit.to_string(),
            better: metric.better(),
            digits: scale.digits,
            cells: summaries.iter().map(cell).collect(),
            metric: name,
        }
    };
    let sections = rows::rows(comparison, context).sections.into_iter();
    let of_section = |section: rows::Section<'_>| -> Vec<Row> {
        let rows = section.metrics.into_iter();
        rows.map(|metric| row(&section.heading, metric)).collect()
    };
    sections.flat_map(of_section).collect()
}

fn fit(context: &Context) -> Vec<FitRow> {
    let row = |fit: &schedcast_lab::context::RefitFigure| {
        let metric = metrics::parse(&fit.metric)?;
        let scale = scale_for(&metric, fit.predicted.abs().max(fit.seen.abs()));
        Some(FitRow {
            metric: fit.metric.clone(),
            unit: scale.unit.to_string(),
            digits: scale.digits,
            predicted: fit.predicted / scale.divisor,
            seen: fit.seen / scale.divisor,
            error: (fit.seen != 0.0).then(|| change_text(fit.predicted / fit.seen)),
        })
    };
    context.fit.iter().filter_map(row).collect()
}

fn curves(distributions: &[super::gather::Distributions], names: &[String]) -> Vec<Distribution> {
    let mut all: Vec<&String> = distributions.iter().flat_map(|one| one.keys()).collect();
    all.sort();
    all.dedup();
    let count = |name: &String| -> Vec<u64> {
        let of = |one: &super::gather::Distributions| one.get(name).map_or(0, Histogram::count);
        distributions.iter().map(of).collect()
    };
    let order = |name: &String| {
        let (subject, metric) = name.rsplit_once('/').unwrap_or((name, ""));
        let mut kinds = "request_latency activation_latency latency wakeup_latency".split(' ');
        let kind = kinds.position(|one| one == metric).unwrap_or(4);
        let place = names.iter().position(|one| one == subject);
        (kind, place)
    };
    all.retain(|name| {
        let subject = name.rsplit_once('/').map_or("", |(subject, _)| subject);
        names.iter().any(|one| one == subject) && count(name).iter().any(|count| *count >= 10)
    });
    all.sort_by_key(|name| order(name));
    all.truncate(MOST_NAMES);
    let distribution = |name: &String| {
        let curves = distributions.iter().map(|one| one.get(name).map(curve));
        Distribution {
            name: name.clone(),
            counts: count(name),
            curves: curves.collect(),
        }
    };
    all.into_iter().map(distribution).collect()
}

/// Latencies by rarity, up to the rarity of one in all, to four digits.
fn curve(values: &Histogram) -> Vec<f64> {
    let most = (values.count().max(2) as f64).log10();
    let steps = (most * POINTS_PER_DECADE).floor() as u32;
    let mut latencies = Vec::new();
    for step in 0..=steps {
        let share = 1.0 - 10f64.powf(-f64::from(step) / POINTS_PER_DECADE);
        if let Some(ns) = values.quantile((share * 1e6).round() as u32) {
            let digits = 10f64.powi(3 - (ns.max(1) as f64).log10().floor() as i32);
            latencies.push((ns as f64 * digits).round() / digits / 1e3);
        }
    }
    latencies
}

fn waits(comparison: &Comparison, names: &[String]) -> Vec<Waits> {
    let seconds = |variant: &schedcast_lab::comparison::Variant, name: &str| {
        let get = |metric: &str| Some(variant.get(&format!("{name}/{metric}"))?.mean);
        let (contention, throttled) = (get("wait.contention")?, get("wait.throttled")?);
        Some([get("cpu_time")?, contention, throttled])
    };
    let row = |name: &String| {
        let variants = comparison.variants.iter();
        let seconds: Vec<_> = variants.map(|variant| seconds(variant, name)).collect();
        seconds.iter().any(Option::is_some).then(|| Waits {
            name: name.clone(),
            seconds,
        })
    };
    let mut rows: Vec<Waits> = names.iter().filter_map(row).collect();
    rows.truncate(MOST_NAMES);
    rows
}

fn cpu_time(variant: &schedcast_lab::comparison::Variant) -> CpuTime {
    let get = |metric: &str| variant.get(metric).map_or(0.0, |summary| summary.mean);
    let share = |op: &Op| (op.name(), get(&format!("machine/overhead.{}", op.name())));
    let mut overheads: Vec<(&'static str, f64)> = Op::ALL.iter().map(share).collect();
    overheads.retain(|(_, share)| *share > 0.0);
    overheads.sort_by(|left, right| right.1.total_cmp(&left.1));
    let busy = get("machine/busy_ratio");
    let overhead: f64 = overheads.iter().map(|(_, share)| share).sum();
    CpuTime {
        tasks: (busy - overhead).max(0.0),
        idle: 1.0 - busy,
        overheads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_lab::samples::example;

    /// Half the width of 2.4 … 15.4 ms beside a mean of 7.4 would begin at 0.9.
    #[test]
    fn the_interval_of_the_page_is_that_of_the_terminal() {
        let mut comparison = example();
        for variant in &mut comparison.variants {
            for (_, summary) in &mut variant.metrics {
                summary.one_run95 = Some([summary.mean / 3.0, 2.0 * summary.mean]);
                summary.misfit = true;
            }
        }
        let rows = table(&comparison, &Context::default());
        let cells = rows.iter().flat_map(|row| row.cells.iter().flatten());
        let spreads: Vec<&str> = cells.map(|cell| cell.spread.as_str()).collect();
        assert!(!spreads.is_empty());
        let are_ranges = spreads.iter().all(|spread| spread.contains('–'));
        assert!(are_ranges, "{spreads:?}");
    }
}
