//! The table for people: one row a metric, one column a variant.
//!
//! ```text
//!                                            recorded     cpu.max=60000 100000
//! postgres/activation_latency.p99 (ms)     179.8 ±3.1               71.0 ±1.2 *
//! ```
//!
//! `±` is half the 95 % interval of the mean over seeds; `*` marks a change whose paired interval
//! excludes zero. Where a recording knows what really happened, a line below the row says so.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{
    Context, Fit, Scale, blocks, full_name, pad_left, pad_right, reproduce, scale_for, scale_of,
    shorten, shown_metrics, width, wrap,
};
use crate::comparison::{Comparison, Summary, Tier, Variant};
use crate::metrics::{Better, Metric};

/// Columns of a variant's name before it continues on a further heading line.
const NAME_COLUMNS: usize = 22;
/// Longest word of a variant's name that is shown in full.
const LONGEST_WORD: usize = 40;
/// Label of the rows with what the recording shows.
pub(super) const RECORDED: &str = "recorded";
/// Label of the rows with what really happened.
const MEASURED: &str = "measured";
/// Longest row label that is shown in full.
const LONGEST_LABEL: usize = 52;

/// One line of cells below the header.
pub(super) struct Row {
    pub(super) label: String,
    pub(super) cells: Vec<Cell>,
}

/// What stands in a cell, in parts that align.
#[derive(Default)]
pub(super) struct Cell {
    pub(super) value: String,
    pub(super) spread: String,
    pub(super) star: bool,
}

impl Cell {
    /// The parts in one text, without padding.
    pub(super) fn plain(&self) -> String {
        let spread = if self.spread.is_empty() { "" } else { " " };
        let star = if self.star { " *" } else { "" };
        format!("{}{spread}{}{star}", self.value, self.spread)
    }
}

/// The whole table.
pub fn render(comparison: &Comparison, context: &Context) -> String {
    let rows = rows(comparison, context);
    let mut text = header(comparison, context);
    text.push('\n');
    text += &body(comparison, &rows);
    text += &notes(comparison, &rows);
    text + &footer(context) + &verdict(context)
}

/// The lines above the table: what was computed, how well it fits what was measured.
pub(super) fn header(comparison: &Comparison, context: &Context) -> String {
    let mut parts = vec![
        format!("schedcast {}", comparison.schedcast),
        context.source.clone(),
    ];
    let mut kernels: Vec<String> = comparison
        .variants
        .iter()
        .map(|variant| variant.kernel.shown())
        .collect();
    kernels.dedup();
    let kernel = match kernels.as_slice() {
        [one] => format!("kernel {one}"),
        _ => format!("kernels {}", kernels.join(", ")),
    };
    parts.push(
        [context.machine.clone(), kernel]
            .iter()
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(", "),
    );
    parts.extend(comparison.tier.map(|tier| format!("tier {}", tier.name())));
    parts.push(format!("seeds {}", comparison.seeds));
    parts.retain(|part| !part.is_empty());
    let mut text = String::new();
    for warning in &comparison.warnings {
        text += &wrap("warning:", &words(warning), 9);
    }
    text += &wrap("", &separated(&parts, " ·"), 0);
    if !comparison.title.is_empty() {
        text += &wrap("", &words(&comparison.title), 0);
    }
    text.extend(
        context
            .target
            .iter()
            .map(|target| wrap("target ", &words(target), 8)),
    );
    if let Some(part) = &context.part {
        text += &wrap(
            "fit to recording:",
            &words(&format!("not known, {part}")),
            18,
        );
    }
    text + &fit(&context.fit)
}

pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

/// Every part but the last with `separator` behind it.
pub(super) fn separated(parts: &[String], separator: &str) -> Vec<String> {
    let last = parts.len().saturating_sub(1);
    let part = |(index, part): (usize, &String)| match index == last {
        true => part.clone(),
        false => format!("{part}{separator}"),
    };
    parts.iter().enumerate().map(part).collect()
}

/// How far the re-simulated recording is from the recorded run.
fn fit(fit: &[Fit]) -> String {
    let part = |fit: &Fit| -> Option<String> {
        let metric = crate::metrics::parse(&fit.metric)?;
        let scale = scale_for(&metric, fit.predicted.abs().max(fit.seen.abs()));
        let unit = if scale.unit.is_empty() { "" } else { " " };
        let error = match fit.seen == 0.0 {
            true => String::new(),
            false => format!(" ({:+.1} %)", 100.0 * (fit.predicted / fit.seen - 1.0)),
        };
        Some(format!(
            "{} {} re-simulated vs {}{unit}{} recorded{error}",
            metric.shown(),
            scale.number(fit.predicted),
            scale.number(fit.seen),
            scale.unit,
        ))
    };
    let parts: Vec<String> = fit.iter().filter_map(part).collect();
    if parts.is_empty() {
        return String::new();
    }
    wrap("fit to recording:", &separated(&parts, ","), 18)
}

pub(super) fn rows(comparison: &Comparison, context: &Context) -> Vec<Row> {
    let mut rows = Vec::new();
    for metric in shown_metrics(comparison, context) {
        let name = full_name(&metric);
        let summaries: Vec<Option<&Summary>> = comparison
            .variants
            .iter()
            .map(|variant| variant.get(&name))
            .collect();
        let scale = scale_of(&metric, &summaries);
        rows.push(Row {
            label: row_label(&metric, &scale, &context.labels),
            cells: summaries
                .iter()
                .map(|summary| value_cell(*summary, &scale))
                .collect(),
        });
        if summaries
            .iter()
            .flatten()
            .any(|summary| summary.recorded.is_some())
        {
            let cell = |summary: &Option<&Summary>| {
                let recorded = summary.and_then(|summary| summary.recorded);
                recorded.map_or(Cell::default(), |value| Cell {
                    value: scale.number(value),
                    ..Cell::default()
                })
            };
            rows.push(Row {
                label: format!("  {RECORDED}"),
                cells: summaries.iter().map(cell).collect(),
            });
        }
        if summaries
            .iter()
            .flatten()
            .any(|summary| summary.measured.is_some())
        {
            let cells = summaries
                .iter()
                .map(|summary| measured_cell(*summary, &scale))
                .collect();
            rows.push(Row {
                label: format!("  {MEASURED}"),
                cells,
            });
        }
    }
    rows
}

/// A name that does not fit has the label of its group instead of the path: `cgroup:shop/checkout/app/nr_throttled`.
fn row_label(metric: &Metric<'_>, scale: &Scale, labels: &BTreeMap<String, String>) -> String {
    let unit = if scale.unit.is_empty() {
        String::new()
    } else {
        format!(" ({})", scale.unit)
    };
    let room = LONGEST_LABEL - width(&unit);
    let name = format!("{}/{}", metric.subject, metric.shown());
    if width(&name) <= room {
        return name + &unit;
    }
    let path = metric.subject.strip_prefix("cgroup:");
    let label = path.and_then(|path| labels.get(path));
    let labelled = label.map(|label| format!("cgroup:{label}/{}", metric.shown()));
    if let Some(name) = labelled.filter(|name| width(name) <= room) {
        return name + &unit;
    }
    // Of a long cgroup path the last part tells most: `cgroup:…/checkout/nr_throttled`.
    let kept: String = name.chars().skip(width(&name) - (room - 1)).collect();
    format!("…{kept}{unit}")
}

fn value_cell(summary: Option<&Summary>, scale: &Scale) -> Cell {
    let Some(summary) = summary else {
        return Cell {
            value: "-".to_string(),
            ..Cell::default()
        };
    };
    let half = |[low, high]: [f64; 2]| format!("±{}", scale.number((high - low) / 2.0));
    let ends = || {
        let values = summary.values();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{}..{}", scale.number(least), scale.number(most))
    };
    Cell {
        value: scale.bound(summary.mean, summary.at_least),
        spread: match summary.phases_decide() {
            true => ends(),
            false => summary
                .one_run95
                .or(summary.ci95)
                .map(half)
                .unwrap_or_default(),
        },
        star: summary
            .vs_baseline
            .as_ref()
            .is_some_and(|change| change.significant),
    }
}

fn measured_cell(summary: Option<&Summary>, scale: &Scale) -> Cell {
    let Some(measured) = summary.and_then(|summary| summary.measured) else {
        return Cell::default();
    };
    let range = format!(
        "{}..{}",
        scale.number(measured.min),
        scale.number(measured.max)
    );
    let spread = if measured.min == measured.max {
        String::new()
    } else {
        range
    };
    Cell {
        value: scale.number(measured.median),
        spread,
        star: false,
    }
}

/// Widths of the value and the spread part of one column.
fn part_widths(rows: &[Row], column: usize) -> (usize, usize) {
    let widest = |part: fn(&Cell) -> &str| {
        rows.iter()
            .map(|row| width(part(&row.cells[column])))
            .max()
            .unwrap_or(0)
    };
    (widest(|cell| &cell.value), widest(|cell| &cell.spread))
}

pub(super) fn body(comparison: &Comparison, rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no metrics to show; -v shows all there are\n".to_string();
    }
    let label_width = rows.iter().map(|row| width(&row.label)).max().unwrap_or(0);
    let parts: Vec<(usize, usize)> = (0..comparison.variants.len())
        .map(|column| part_widths(rows, column))
        .collect();
    let headings: Vec<Vec<String>> = comparison.variants.iter().map(heading).collect();
    let columns: Vec<usize> = headings
        .iter()
        .zip(&parts)
        // Three blanks in front, then value, blank, spread, and two columns for the star.
        .map(|(heading, (value, spread))| {
            let widest = heading.iter().map(|line| width(line)).max().unwrap_or(0);
            3 + widest.max(value + 1 + spread) + 2
        })
        .collect();
    let mut text = String::new();
    for (index, block) in blocks(label_width, &columns).into_iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        text += &heading_lines(
            &headings[block.clone()],
            &columns[block.clone()],
            label_width,
        );
        for row in rows {
            text += &body_line(row, label_width, block.clone(), &columns, &parts);
        }
    }
    text
}

/// A variant's name in lines of about [`NAME_COLUMNS`].
fn heading(variant: &Variant) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in variant.name.split_whitespace() {
        let word = shorten(word, LONGEST_WORD);
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= NAME_COLUMNS => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The headings of one block, their last lines beside one another.
fn heading_lines(headings: &[Vec<String>], columns: &[usize], label_width: usize) -> String {
    let height = headings.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line_index in 0..height {
        let mut line = pad_right("", label_width);
        for (heading, column) in headings.iter().zip(columns) {
            let missing = height - heading.len();
            let part = line_index
                .checked_sub(missing)
                .map_or("", |index| &heading[index]);
            line += &format!("{}  ", pad_left(part, column - 2));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn body_line(
    row: &Row,
    label_width: usize,
    block: Range<usize>,
    columns: &[usize],
    parts: &[(usize, usize)],
) -> String {
    let mut line = pad_right(&row.label, label_width);
    for column in block {
        let cell = &row.cells[column];
        let (_, spread_width) = parts[column];
        let spread = pad_right(&cell.spread, spread_width);
        let inner = format!("{} {spread}", cell.value);
        line += &pad_left(&inner, columns[column] - 2);
        line += if cell.star { " *" } else { "  " };
    }
    format!("{}\n", line.trim_end())
}

/// What the marks mean, for those that occur.
pub(super) fn notes(comparison: &Comparison, rows: &[Row]) -> String {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let mut notes = Vec::new();
    if cells().any(|cell| cell.spread.starts_with('±')) {
        let of = match comparison.tier {
            Some(Tier::Trace) => {
                "of one run, wherever its periods fall and however the machine drifts"
            }
            _ => "over seeds",
        };
        notes.push(format!("± half the 95 % interval {of}"));
    }
    let values = || rows.iter().filter(|row| row.label.trim() != MEASURED);
    let spreads = || values().flat_map(|row| &row.cells);
    if spreads().any(|cell| cell.spread.contains("..")) {
        notes.push("a..b least and most of all seeds, where phases decide".to_string());
    }
    if cells().any(|cell| cell.star) {
        let baseline = &comparison.baseline;
        notes.push(format!("* differs from \"{baseline}\" (99 %, paired)"));
    }
    if cells().any(|cell| cell.value.starts_with('≥')) {
        notes.push("≥ at least: falls among what had not finished at the end".to_string());
    }
    if rows.iter().any(|row| row.label.trim() == RECORDED) {
        notes.push("recorded: what the recording itself shows".to_string());
    }
    if rows.iter().any(|row| row.label.trim() == MEASURED) {
        notes.push("measured: median and range of the real repeats".to_string());
    }
    let floor = chaos_floor(comparison, rows);
    let floor = floor.map_or(String::new(), |floor| wrap("", &words(&floor), 2));
    if notes.is_empty() {
        return floor;
    }
    let pieces: Vec<String> = separated(&notes, ";")
        .iter()
        .flat_map(|note| words(note))
        .collect();
    wrap("", &pieces, 2) + &floor
}

/// Rows whose chaos floor is told.
const FLOORS: usize = 3;

/// What the baseline differs by from itself under other draws, of the first rows.
fn chaos_floor(comparison: &Comparison, rows: &[Row]) -> Option<String> {
    if comparison.variants.len() < 2 {
        return None;
    }
    let baseline = comparison.variants.first()?;
    let told = rows.iter().filter_map(|row| {
        let name = row.label.split(" (").next().unwrap_or(&row.label);
        let summary = baseline.get(name)?;
        let floor = summary.chaos_floor.filter(|floor| *floor > 0.0)?;
        if summary.better == Better::None || name.starts_with("machine/") {
            return None;
        }
        Some(format!("{:.1} % ({name})", 100.0 * floor))
    });
    // One number of a program tells more than a percentile of its latencies.
    let (percentiles, plain): (Vec<String>, Vec<String>) = told.partition(|told: &String| {
        told.rsplit('/')
            .next()
            .is_some_and(|name| name.contains('.'))
    });
    let told: Vec<String> = plain.into_iter().chain(percentiles).take(FLOORS).collect();
    (!told.is_empty()).then(|| {
        let (name, told) = (&baseline.name, told.join(", "));
        format!("chaos floor: \"{name}\" differs from itself under other seeds by up to {told}")
    })
}

/// What it comes to.
pub(super) fn verdict(context: &Context) -> String {
    let sentences = context.verdict.iter();
    sentences.map(|one| wrap("", &words(one), 5)).collect()
}

/// The lines below the table: how to get it again, how to apply what it recommends.
pub(super) fn footer(context: &Context) -> String {
    let mut text = String::new();
    text += &reproduce(context);
    for (name, commands) in &context.apply {
        let line = format!("apply:     {}    # {name}", commands.join("; "));
        text += &match width(&line) <= super::WIDTH {
            true => line + "\n",
            false => format!("apply:     # {name}\n           {}\n", commands.join("; ")),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::example;
    use crate::comparison::{Measured, Tier};

    fn context() -> Context {
        Context {
            source: "exp.toml".to_string(),
            machine: "8 CPUs".to_string(),
            reproduce: words("schedcast compare exp.toml --seeds 4"),
            ..Context::default()
        }
    }

    fn wide() -> Comparison {
        let mut comparison = example();
        for copy in 0..4 {
            let mut variant = comparison.variants[1].clone();
            variant.name = format!("a rather long variant name, number {copy}");
            comparison.variants.push(variant);
        }
        comparison
    }

    #[test]
    fn a_long_path_gives_way_to_what_its_group_is_called() {
        let path = format!(
            "/kubepods/burstable/pod3f09-6c1e-0d1b-4c57/{}",
            "8d1a".repeat(16)
        );
        let name = format!("cgroup:{path}/nr_throttled");
        let metric = crate::metrics::parse(&name).unwrap();
        let scale = scale_for(&metric, 5.0);
        let labels = BTreeMap::from([(path, "shop/checkout/app".to_string())]);
        assert_eq!(
            row_label(&metric, &scale, &labels),
            "cgroup:shop/checkout/app/nr_throttled"
        );
        assert!(row_label(&metric, &scale, &BTreeMap::new()).starts_with("…"));
    }

    #[test]
    fn an_experiment() {
        insta::assert_snapshot!(render(&example(), &context()));
    }

    #[test]
    fn a_recording_shows_its_fit_first() {
        let mut comparison = example();
        comparison.tier = Some(Tier::Trace);
        comparison.title.clear();
        let nr_throttled = Measured {
            median: 40.0,
            min: 39.0,
            max: 44.0,
        };
        let p99 = Measured {
            median: 209_000.0,
            min: 209_000.0,
            max: 209_000.0,
        };
        comparison.set_measured("no burst", "cgroup:/test/nr_throttled", nr_throttled);
        comparison.set_measured("no burst", "schbench/request_latency.p99", p99);
        let never = Measured {
            median: 0.0,
            min: 0.0,
            max: 0.0,
        };
        comparison.set_measured("burst 100 ms", "cgroup:/test/nr_throttled", never);
        let context = Context {
            source: "recording pg, 29.5 s".to_string(),
            target: Some("/test   baseline cpu.max \"50000 100000\" burst 0".to_string()),
            apply: vec![(
                "burst 100 ms".to_string(),
                vec![
                    "echo \"100000 100000\" > cpu.max".into(),
                    "echo 100000 > cpu.max.burst".into(),
                ],
            )],
            fit: vec![
                Fit {
                    metric: "cgroup:/test/nr_throttled".to_string(),
                    predicted: 41.0,
                    seen: 40.0,
                },
                Fit {
                    metric: "schbench/request_latency.p99".to_string(),
                    predicted: 212_100.0,
                    seen: 209_000.0,
                },
            ],
            ..context()
        };
        insta::assert_snapshot!(render(&comparison, &context));
    }

    #[test]
    fn many_variants_continue_in_further_blocks() {
        let text = render(&wide(), &context());
        assert!(
            text.lines().all(|line| width(line) <= super::super::WIDTH),
            "{text}"
        );
        insta::assert_snapshot!(text);
    }

    #[test]
    fn verbose_shows_every_metric_and_one_seed_has_no_interval() {
        let mut comparison = example();
        comparison.seeds = 1;
        for variant in &mut comparison.variants {
            for (_, summary) in &mut variant.metrics {
                summary.ci95 = None;
                if let Some(change) = &mut summary.vs_baseline {
                    change.significant = false;
                }
            }
        }
        comparison.variants[1].metrics.remove(0);
        insta::assert_snapshot!(render(
            &comparison,
            &Context {
                verbose: true,
                ..context()
            }
        ));
    }

    #[test]
    fn long_paths_keep_their_end() {
        let mut comparison = example();
        for variant in &mut comparison.variants {
            for (name, _) in &mut variant.metrics {
                *name = name.replace(
                    "/test",
                    "/kubepods/burstable/pod-0123456789/checkout-frontend",
                );
            }
        }
        let text = render(&comparison, &context());
        assert!(
            text.contains("…table/pod-0123456789/checkout-frontend/nr_throttled"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| width(line) <= super::super::WIDTH),
            "{text}"
        );
    }
}
