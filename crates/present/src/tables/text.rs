//! The table for people: one row a metric, one column a variant.
//!
//! ```text
//!                                            recorded     cpu.max=60000 100000
//! postgres/activation_latency.p99 (ms)     179.8 ±3.1               71.0 ±1.2 *
//! ```
//!
//! `±` is half the 95 % interval of the mean over seeds; `*` marks a change whose paired interval
//! excludes zero, with the change beside it where there is room. `≤` stands for the upper end where
//! the lower one would be 0 or less. Where a recording knows what really happened, a line below the
//! row says so. `†` marks a percentile of fewer values than it needs, in answers from recordings.

mod below;

pub(super) use below::{applied, notes, verdict};

use std::ops::Range;

use schedcast_lab::context::{RefitFigure, source_of};

use super::paint::{Paint, painted};

use super::{
    Context, Scale, Style, blocks, change_text, full_name, pad_left, pad_right, reproduce,
    scale_for, scale_of, shorten, width, wrap_to,
};
use crate::tables::rows;
use schedcast_lab::comparison::{Comparison, Summary, Variant};
use schedcast_lab::metrics::{self, Better, CGROUP, Metric};
use schedcast_lab::trust;
use schedcast_workload::replay::subject;

/// Columns of a variant's name before it continues on a further heading line.
const NAME_COLUMNS: usize = 22;
/// Longest word of a variant's name that is shown in full.
const LONGEST_WORD: usize = 40;
/// From so many columns on a change stands beside its star.
const CHANGE_COLUMNS: usize = 120;
/// Label of the rows with what really happened.
const MEASURED: &str = "measured";
/// Mark of a percentile of too few values.
const FEW: &str = " †";
/// Longest row label that is shown in full, in per cent of a line.
const LONGEST_LABEL_PERCENT: usize = 52;

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKind {
    /// The begin of a section.
    Heading,
    /// Values of one metric.
    Values,
    /// Value that the recording itself shows of the metric above.
    Recorded,
    /// Measured value of the metric above.
    Measured,
}

/// One line of cells below the header.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) label: String,
    pub(super) cells: Vec<Cell>,
}

/// A row with what it is about.
pub(super) struct TableRow {
    pub(super) kind: RowKind,
    /// Name of the metric; empty in headings.
    metric: String,
    /// That name in the room of a label.
    short: String,
    pub(super) row: Row,
    /// How each cell is painted: for the better or for the worse.
    paints: Vec<Option<Paint>>,
}

/// The rows of a table, and what it leaves out.
pub(super) struct Body {
    pub(super) rows: Vec<TableRow>,
    hidden: Option<String>,
}

/// Content of a cell, in parts that align.
#[derive(Clone, Default)]
pub(super) struct Cell {
    pub(super) value: String,
    pub(super) spread: String,
    pub(super) star: bool,
    /// The change that the star is about, in words.
    pub(super) change: String,
}

impl Cell {
    /// A value alone.
    pub(super) fn of(value: String) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }

    /// A value with its spread.
    pub(super) fn with_spread(value: String, spread: String) -> Self {
        Self {
            value,
            spread,
            ..Self::default()
        }
    }

    /// The parts in one text, without padding.
    pub(super) fn plain(&self) -> String {
        let spread = if self.spread.is_empty() { "" } else { " " };
        let star = if self.star { " *" } else { "" };
        format!("{}{spread}{}{star}", self.value, self.spread)
    }
}

/// The whole table.
pub(crate) fn render(comparison: &Comparison, context: &Context) -> String {
    let table = contents(comparison, context);
    let mut text = header(comparison, context);
    if !text.is_empty() {
        text.push('\n');
    }
    text += &lines(comparison, &table.rows, &context.style);
    text += &notes(comparison, &table, &context.style);
    text += &applied(context);
    text += &verdict(rows::verdict(comparison, context), context);
    text + &provenance(comparison, context)
}

/// The lines above the table: what to beware of, and what was asked.
pub(super) fn header(comparison: &Comparison, context: &Context) -> String {
    let columns = context.style.columns;
    let wrap = |first: &str, pieces: &[String], indent| wrap_to(columns, first, pieces, indent);
    let mut text = String::new();
    for warning in &comparison.warnings {
        text += &wrap("warning:", &labelled(warning, context), 9);
    }
    if !comparison.title.is_empty() {
        text += &wrap("", &words(&comparison.title), 0);
    }
    let target = context.target.iter();
    text.extend(target.map(|target| wrap("target ", &words(target), 8)));
    text
}

/// The last lines: what was computed from what, how well it fits what was measured, how to get it
/// again.
pub(super) fn provenance(comparison: &Comparison, context: &Context) -> String {
    let mut parts = vec![
        format!("schedcast {}", comparison.schedcast),
        context.source.clone(),
    ];
    let kernels = comparison.variants.iter();
    let mut kernels: Vec<String> = kernels.map(|variant| variant.kernel.shown()).collect();
    kernels.dedup();
    let kernel = match kernels.as_slice() {
        [one] => format!("kernel {one}"),
        _ => format!("kernels {}", kernels.join(", ")),
    };
    parts.push(match context.machine.is_empty() {
        true => kernel,
        false => format!("{}, {kernel}", context.machine),
    });
    parts.extend(comparison.tier.map(|tier| format!("tier {}", tier.name())));
    parts.push(format!("seeds {}", comparison.seeds));
    parts.retain(|part| !part.is_empty());
    let columns = context.style.columns;
    let mut text = wrap_to(columns, "", &separated(&parts, " ·"), 0);
    if let Some(part) = &context.part {
        let label = "simulated:";
        text += &wrap_to(columns, label, &words(part), label.len() + 1);
    }
    text + &fit(context) + &reproduce(context)
}

/// Label of the line that says how the recorded run compares with its simulation.
const FIT_LABEL: &str = "fit to recording:";
/// Figures of a fit that are all shown; of more only the one that is farthest off.
const FIT_SHOWN: usize = 2;

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

/// How far the re-simulated recording is from the recorded run. Figures stay whole where a line has
/// room for them.
fn fit(context: &Context) -> String {
    let indent = FIT_LABEL.len() + 1;
    let (all, columns) = (&context.fit, context.style.columns);
    let part = |fit: &RefitFigure| -> Option<String> {
        let metric = schedcast_lab::metrics::parse(&fit.metric)?;
        let scale = scale_for(&metric, fit.predicted.abs().max(fit.seen.abs()));
        let error = match fit.seen == 0.0 {
            true => String::new(),
            false => format!(" ({})", change_text(fit.predicted / fit.seen)),
        };
        let name = match context.names.own.is_empty() {
            true => fit.shown_among(all, &metric),
            false => context.names.name(metric.subject, metric.shown()),
        };
        Some(format!(
            "{} {} re-simulated vs {}{} {}{error}",
            by_label(name, context),
            scale.small_number(fit.predicted),
            scale.small_number(fit.seen),
            scale.behind(),
            fit.source(),
        ))
    };
    // What is no measure of the fit is not told as its worst.
    let miss = |one: &RefitFigure| match trust::measures_fit(one, all) {
        true => one.miss(),
        false => f64::NEG_INFINITY,
    };
    let figures = all.iter().filter_map(|one| Some((miss(one), part(one)?)));
    let figures: Vec<(f64, String)> = figures.collect();
    let by_miss = |one: &&(f64, String), other: &&(f64, String)| one.0.total_cmp(&other.0);
    let Some((_, farthest)) = figures.iter().max_by(by_miss) else {
        return String::new();
    };
    let parts: Vec<String> = match figures.len() > FIT_SHOWN && !context.verbose {
        true => vec![
            format!("{} figures", figures.len()),
            format!("farthest off: {farthest}; -v shows all"),
        ],
        false => figures.into_iter().map(|(_, figure)| figure).collect(),
    };
    let pieces = separated(&parts, ",").into_iter().flat_map(|part| {
        match indent + width(&part) <= columns {
            true => vec![part],
            false => words(&part),
        }
    });
    wrap_to(columns, FIT_LABEL, &pieces.collect::<Vec<_>>(), indent)
}

/// The rows of the table, with headings where it has sections.
pub(super) fn contents(comparison: &Comparison, context: &Context) -> Body {
    let shown = rows::rows(comparison, context);
    let mut rows = Vec::new();
    for section in shown.sections {
        rows.extend(section.heading.map(TableRow::heading));
        for metric in &section.metrics {
            push_rows(&mut rows, comparison, context, metric);
        }
    }
    Body {
        rows,
        hidden: shown.hidden,
    }
}

/// The row of a metric, and one of what was measured where something was.
fn push_rows(
    rows: &mut Vec<TableRow>,
    comparison: &Comparison,
    context: &Context,
    metric: &Metric<'_>,
) {
    let name = full_name(metric);
    let variants = comparison.variants.iter();
    let summaries: Vec<Option<&Summary>> = variants.map(|variant| variant.get(&name)).collect();
    let scale = scale_of(metric, &summaries);
    let cells = |cell: fn(Option<&Summary>, &Scale) -> Cell| {
        let summaries = summaries.iter();
        summaries.map(|summary| cell(*summary, &scale)).collect()
    };
    let paints = summaries.iter().map(|summary| paint_of((*summary)?));
    let label = row_label(metric, &scale, context) + few(comparison, context, metric);
    let row = |kind, label, cells| TableRow {
        metric: name.clone(),
        ..TableRow::new(kind, Row { label, cells })
    };
    rows.push(TableRow {
        short: fitting(metric, 0, context),
        paints: paints.collect(),
        ..row(RowKind::Values, label, cells(value_cell))
    });
    let known = || summaries.iter().flatten();
    if let Some(recorded) = known().find(|summary| summary.recorded.is_some()) {
        let label = format!("  {}", source_of(recorded.inferred));
        rows.push(row(RowKind::Recorded, label, cells(recorded_cell)));
    }
    if known().any(|summary| summary.measured.is_some()) {
        let label = format!("  {MEASURED}");
        rows.push(row(RowKind::Measured, label, cells(measured_cell)));
    }
}

/// The mark of a percentile that fewer values in the baseline decide than it needs. Without their
/// number there is none.
fn few(comparison: &Comparison, context: &Context, metric: &Metric<'_>) -> &'static str {
    let number = |suffix: &str| {
        let baseline = comparison.variants.first()?;
        Some(baseline.get(&metric.beside(suffix))?.mean)
    };
    let all =
        number(metrics::COUNT).map(|count| count + number(metrics::UNFINISHED).unwrap_or(0.0));
    let is_few = all.is_some_and(|all| all < metric.values_needed());
    match is_few && context.about.is_some() {
        true => FEW,
        false => "",
    }
}

impl TableRow {
    fn new(kind: RowKind, row: Row) -> TableRow {
        TableRow {
            kind,
            metric: String::new(),
            short: String::new(),
            row,
            paints: Vec::new(),
        }
    }

    fn heading(label: String) -> TableRow {
        let cells = Vec::new();
        TableRow::new(RowKind::Heading, Row { label, cells })
    }

    fn plain(row: &Row) -> TableRow {
        let is_recorded = [false, true].map(source_of).contains(&row.label.trim());
        let kind = match is_recorded {
            true => RowKind::Recorded,
            false => RowKind::Values,
        };
        TableRow::new(kind, row.clone())
    }
}

/// Name and unit of a row.
fn row_label(metric: &Metric<'_>, scale: &Scale, context: &Context) -> String {
    let unit = scale.in_brackets();
    fitting(metric, width(&unit), context) + &unit
}

/// The name of a metric in the room that a label has beside `taken` columns. A name that does not
/// fit has the label of its group instead of the path, `cgroup:shop/checkout/app/nr_throttled` and
/// `ordersd@shop/checkout/app/wait.throttled`. Without a label the end of the path stays, and the
/// name of threads: `ordersd@…/checkout/wait.throttled`.
fn fitting(metric: &Metric<'_>, taken: usize, context: &Context) -> String {
    let room = room_of_a_name(context).saturating_sub(taken);
    let name = format!("{}/{}", metric.subject, metric.shown());
    if width(&name) <= room {
        return name;
    }
    let (threads, path) = match metric.subject.strip_prefix(CGROUP) {
        Some(path) => (CGROUP.to_string(), Some(path)),
        None => match subject::split(metric.subject) {
            (threads, Some(path)) => (format!("{threads}@"), Some(path)),
            (_, None) => (String::new(), None),
        },
    };
    let label = path.and_then(|path| context.labels.get(path));
    let labelled = label.map(|label| format!("{threads}{label}/{}", metric.shown()));
    if let Some(name) = labelled.filter(|name| width(name) <= room) {
        return name;
    }
    let begin = match threads.as_str() {
        CGROUP => "",
        threads => threads,
    };
    cut(begin, &by_label(name, context), room)
}

/// `name`, which begins with `begin`, in `room` columns: of a long path the last part tells most,
/// `cgroup:…/checkout/nr_throttled`.
fn cut(begin: &str, name: &str, room: usize) -> String {
    if width(name) <= room {
        return name.to_string();
    }
    let end = room.saturating_sub(width(begin) + 1);
    let left_out = width(name).saturating_sub(end);
    let kept: String = name.chars().skip(left_out).collect();
    format!("{begin}…{kept}")
}

/// Columns for a name alone.
fn room_of_a_name(context: &Context) -> usize {
    context.style.columns * LONGEST_LABEL_PERCENT / 100
}

/// A word that is too long for a row with the label of a group instead of its path.
fn by_label(word: String, context: &Context) -> String {
    if width(&word) <= room_of_a_name(context) {
        return word;
    }
    let is_end = |one: char| !(one.is_alphanumeric() || "-_.@:".contains(one));
    let of_path = |path: &str| {
        let (before, behind) = word.split_once(path)?;
        (behind.is_empty() || behind.starts_with(is_end)).then_some((before, behind))
    };
    let found = context.labels.iter().filter_map(|(path, label)| {
        let (before, behind) = of_path(path)?;
        Some((path.len(), format!("{before}{label}{behind}")))
    });
    let longest = found.max_by_key(|(length, _)| *length);
    longest.map_or(word.clone(), |(_, word)| word)
}

/// Words of `text`, those with a long path with its [label](by_label).
pub(super) fn labelled(text: &str, context: &Context) -> Vec<String> {
    let all = words(text).into_iter();
    all.map(|word| by_label(word, context)).collect()
}

/// The name of threads in the room that a row's label has beside `taken` columns.
pub(super) fn fitting_threads(threads: &str, taken: usize, context: &Context) -> String {
    let room = room_of_a_name(context).saturating_sub(taken);
    let begin = match subject::split(threads) {
        (name, Some(_)) => format!("{name}@"),
        (_, None) => String::new(),
    };
    match width(threads) <= room {
        true => threads.to_string(),
        false => {
            let threads = by_label(threads.to_string(), context);
            cut(&begin, &threads, room)
        }
    }
}

fn value_cell(summary: Option<&Summary>, scale: &Scale) -> Cell {
    let Some(summary) = summary else {
        return Cell::of("-".to_string());
    };
    let sure = summary.vs_baseline.as_ref();
    let sure = sure.filter(|change| change.significant);
    Cell {
        value: scale.bound(summary.mean, summary.at_least),
        spread: spread(summary, scale),
        star: sure.is_some(),
        change: sure
            .and_then(|change| change.ratio)
            .map_or_else(String::new, change_text),
    }
}

/// In place of an interval so wide that it says nothing.
pub(super) const UNKNOWN: &str = "unknown";
/// An interval that was moved apart by the misfit to more than so many times the mean says nothing.
const KNOWN_UP_TO: f64 = 100.0;

/// The interval beside a mean, as every table has it: `±3.2`, `≤7.5`, `≥0.4` or `3.1–7.5`. It is
/// that of one run where the answer is from a recording, and that of the mean elsewhere.
pub(crate) fn spread(summary: &Summary, scale: &Scale) -> String {
    // Half an interval around the mean may reach beyond what is possible. Of what is never negative
    // only the upper end says something where the lower one would be 0 or less; of a share in one
    // run only the lower end where the upper one would be all of it.
    let is_counted = summary.values().iter().all(|value| *value >= 0.0);
    let of_one_run = summary.one_run95.is_some();
    let half = |[low, high]: [f64; 2]| {
        let half = (high - low) / 2.0;
        let reaches_zero = low <= 0.0 || (of_one_run && half > summary.mean);
        if is_counted && reaches_zero && (high > summary.mean || low < summary.mean) {
            format!("≤{}", scale.number(high))
        } else if of_one_run && summary.unit == "ratio" && summary.mean + half > 1.0 {
            format!("≥{}", scale.number(low))
        } else {
            format!("±{}", scale.number(half))
        }
    };
    let ends = || {
        let values = summary.values();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{}..{}", scale.number(least), scale.number(most))
    };
    match (summary.misfit, summary.one_run95) {
        (true, Some([_, high])) if summary.mean > 0.0 && high > KNOWN_UP_TO * summary.mean => {
            UNKNOWN.to_string()
        }
        (true, Some([low, high])) => format!("{}–{}", scale.number(low), scale.number(high)),
        _ if summary.phases_decide() => ends(),
        _ => {
            let interval = summary.one_run95.or_else(|| summary.ci95.get());
            interval.map(half).unwrap_or_default()
        }
    }
}

/// Green for a sure change for the better, red for one for the worse.
fn paint_of(summary: &Summary) -> Option<Paint> {
    let change = summary.vs_baseline.as_ref()?;
    let rises = change.ratio.filter(|_| change.significant)? > 1.0;
    match summary.better {
        Better::None => None,
        Better::Higher if rises => Some(Paint::Good),
        Better::Lower if !rises => Some(Paint::Good),
        _ => Some(Paint::Bad),
    }
}

fn recorded_cell(summary: Option<&Summary>, scale: &Scale) -> Cell {
    let recorded = summary.and_then(|summary| summary.recorded);
    recorded.map_or(Cell::default(), |value| Cell::of(scale.number(value)))
}

fn measured_cell(summary: Option<&Summary>, scale: &Scale) -> Cell {
    let Some(measured) = summary.and_then(|summary| summary.measured) else {
        return Cell::default();
    };
    let [least, most] = [measured.min, measured.max].map(|end| scale.number(end));
    let spread = match measured.min == measured.max {
        true => String::new(),
        false => format!("{least}..{most}"),
    };
    Cell::with_spread(scale.number(measured.median), spread)
}

/// Widths of the value, the spread and the change of one column; none of the change where there is
/// no room for it.
fn part_widths(rows: &[TableRow], column: usize, style: &Style) -> [usize; 3] {
    let widest = |part: fn(&Cell) -> &str| {
        let cells = rows.iter().filter_map(|row| row.row.cells.get(column));
        cells.map(|cell| width(part(cell))).max().unwrap_or(0)
    };
    let has_room = usize::from(style.columns >= CHANGE_COLUMNS);
    let change = has_room * widest(|cell| &cell.change);
    let value = widest(|cell| &cell.value);
    [value, widest(|cell| &cell.spread), change]
}

/// Rows without headings.
pub(super) fn body(comparison: &Comparison, rows: &[Row], style: &Style) -> String {
    let rows: Vec<TableRow> = rows.iter().map(TableRow::plain).collect();
    lines(comparison, &rows, style)
}

fn lines(comparison: &Comparison, rows: &[TableRow], style: &Style) -> String {
    if rows.is_empty() {
        return "no metrics to show; -v shows all there are\n".to_string();
    }
    let labels = rows.iter().map(|row| width(&row.row.label));
    let label_width = labels.max().unwrap_or(0);
    let parts: Vec<[usize; 3]> = (0..comparison.variants.len())
        .map(|column| part_widths(rows, column, style))
        .collect();
    let headings: Vec<Vec<String>> = comparison.variants.iter().map(heading).collect();
    let columns: Vec<usize> = headings
        .iter()
        .zip(&parts)
        // Three blanks in front, then value, blank, spread, two columns for the star, and the
        // change behind a blank.
        .map(|(heading, [value, spread, change])| {
            let widest = heading.iter().map(|line| width(line)).max().unwrap_or(0);
            3 + widest.max(value + 1 + spread) + 2 + change + usize::from(*change > 0)
        })
        .collect();
    let mut text = String::new();
    let mut plain = *style;
    plain.colour = false;
    for block in blocks(style.columns, label_width, &columns) {
        if !text.is_empty() {
            text.push('\n');
        }
        let (of_block, widths) = (&headings[block.clone()], &columns[block.clone()]);
        text += &heading_lines(of_block, widths, label_width, style);
        let says_something = |row: &&TableRow| {
            let beside = matches!(row.kind, RowKind::Recorded | RowKind::Measured);
            let mut cells = row.row.cells.get(block.clone()).into_iter().flatten();
            !beside || cells.any(|cell| !cell.value.is_empty())
        };
        let line = |row: &TableRow, style: &Style| {
            body_line(row, label_width, block.clone(), (&columns, &parts), style)
        };
        for row in rows.iter().filter(says_something) {
            text += &match row.kind {
                RowKind::Heading => painted(style, &row.row.label, Paint::Bold) + "\n",
                RowKind::Recorded | RowKind::Measured => {
                    painted(style, line(row, &plain).trim_end(), Paint::Dim) + "\n"
                }
                RowKind::Values => line(row, style),
            };
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
fn heading_lines(
    headings: &[Vec<String>],
    columns: &[usize],
    label_width: usize,
    style: &Style,
) -> String {
    let height = headings.iter().map(Vec::len).max().unwrap_or(0);
    let mut text = String::new();
    for line_index in 0..height {
        let mut line = pad_right("", label_width);
        for (heading, column) in headings.iter().zip(columns) {
            let index = line_index.checked_sub(height - heading.len());
            let part = index.map_or("", |index| &heading[index]);
            line += &format!("{}  ", pad_left(part, column - 2));
        }
        text += &painted(style, line.trim_end(), Paint::Bold);
        text.push('\n');
    }
    text
}

fn body_line(
    row: &TableRow,
    label_width: usize,
    block: Range<usize>,
    (columns, parts): (&[usize], &[[usize; 3]]),
    style: &Style,
) -> String {
    let mut line = pad_right(&row.row.label, label_width);
    for column in block {
        let cell = &row.row.cells[column];
        let [_, spread_width, change_width] = parts[column];
        let spread = pad_right(&cell.spread, spread_width);
        let change = match change_width {
            0 => String::new(),
            wide => format!(" {}", pad_left(&cell.change, wide)),
        };
        let room = (columns[column] - 3).saturating_sub(width(&spread) + width(&change));
        let value = pad_left(&cell.value, room);
        match row.paints.get(column).copied().flatten() {
            Some(paint) => line += &painted(style, &format!("{value} {spread} *{change}"), paint),
            None => {
                let spread = match spread.trim().is_empty() {
                    true => spread,
                    false => painted(style, &spread, Paint::Dim),
                };
                let star = if cell.star { "*" } else { " " };
                line += &format!("{value} {spread} {star}{change}");
            }
        }
    }
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
