//! The lines below the table: what its marks mean, the verdict, and how to apply a change.

use super::super::{Context, Style, advice, width, wrap_to};
use super::{Body, FEW, RowKind, TableRow, UNKNOWN, fitting, separated, words};
use schedcast_lab::comparison::{Comparison, Tier, Variant};
use schedcast_lab::context::source_of;
use schedcast_lab::metrics::{self, Better};

/// Legend of the marks that occur.
pub(in crate::tables) fn notes(comparison: &Comparison, table: &Body, style: &Style) -> String {
    let rows = &table.rows;
    let wrap = |text: &str| wrap_to(style.columns, "", &words(text), 2);
    let cells = || rows.iter().flat_map(|row| &row.row.cells);
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
    if cells().any(|cell| cell.spread.starts_with('≤')) {
        notes.push("≤ the upper end of an interval that reaches down to 0".to_string());
    }
    if cells().any(|cell| cell.spread.starts_with('≥')) {
        notes.push("≥ the lower end of an interval that reaches up to 100 %".to_string());
    }
    let values = || rows.iter().filter(|row| row.kind == RowKind::Values);
    let spreads = || values().flat_map(|row| &row.row.cells);
    if spreads().any(|cell| cell.spread.contains("..")) {
        notes.push("a..b least and most of all seeds, where phases decide".to_string());
    }
    if spreads().any(|cell| cell.spread.contains('–')) {
        notes.push(
            "a–b 95 % interval of one run, widened by the misfit of the simulated recording"
                .to_string(),
        );
    }
    if spreads().any(|cell| cell.spread == UNKNOWN) {
        notes.push(format!(
            "{UNKNOWN}: the misfit widens the interval to more than 100 times the value"
        ));
    }
    if cells().any(|cell| cell.star) {
        let baseline = &comparison.baseline;
        notes.push(format!("* differs from \"{baseline}\" (99 %, paired)"));
    }
    if cells().any(|cell| cell.value.starts_with('≥')) {
        notes.push(
            "≥ at least: the percentile includes what had not finished at the end".to_string(),
        );
    }
    if rows.iter().any(|row| row.row.label.ends_with(FEW)) {
        notes.push(
            "† of too few values (p99 needs 100, p95 20): a single one decides it".to_string(),
        );
    }
    let is_shown = |inferred: bool| {
        let of = |row: &TableRow| row.row.label.trim() == source_of(inferred);
        rows.iter()
            .any(|row| row.kind == RowKind::Recorded && of(row))
    };
    if is_shown(false) {
        notes.push("recorded: what the recording itself shows".to_string());
    }
    if is_shown(true) {
        notes.push(
            "inferred: requests as the trace shows them, because there is no log of them"
                .to_string(),
        );
    }
    if rows.iter().any(|row| row.kind == RowKind::Measured) {
        notes.push("measured: median and range of the real repeats".to_string());
    }
    let floor = chaos_floor(comparison, rows);
    let marks = (!notes.is_empty()).then(|| separated(&notes, ";").join(" "));
    let alike = alike(comparison);
    let told = table.hidden.iter().chain(&marks).chain(&floor);
    told.chain(&alike).map(|note| wrap(note)).collect()
}

/// A sentence on each set of columns whose runs are the same, event by event. A bisection says that
/// itself. Real runs have no events, and never the same figures.
fn alike(comparison: &Comparison) -> Vec<String> {
    if comparison.bisection.is_some() {
        return Vec::new();
    }
    fn samples(variant: &Variant) -> impl Iterator<Item = (&String, &Vec<Option<f64>>)> {
        let metrics = variant.metrics.iter();
        metrics.map(|(name, summary)| (name, &summary.samples))
    }
    let is_same = |one: &Variant, other: &Variant| {
        one.event_hash == other.event_hash && samples(one).eq(samples(other))
    };
    let mut sets: Vec<Vec<&Variant>> = Vec::new();
    for variant in &comparison.variants {
        match sets.iter_mut().find(|set| is_same(set[0], variant)) {
            Some(set) => set.push(variant),
            None => sets.push(vec![variant]),
        }
    }
    let sentence = |set: &Vec<&Variant>| {
        let names = set.iter().map(|variant| format!("\"{}\"", variant.name));
        let names: Vec<String> = names.collect();
        let (last, others) = names.split_last()?;
        let others = (!others.is_empty()).then(|| others.join(", "))?;
        Some(format!(
            "{others} and {last} decide alike here, event by event"
        ))
    };
    sets.iter().filter_map(sentence).collect()
}

/// Rows whose chaos floor is told.
const FLOORS: usize = 3;

/// Chaos floor of the first rows: the difference of the baseline from itself under other draws.
fn chaos_floor(comparison: &Comparison, rows: &[TableRow]) -> Option<String> {
    if comparison.variants.len() < 2 {
        return None;
    }
    let baseline = comparison.variants.first()?;
    let values = rows.iter().filter(|row| row.kind == RowKind::Values);
    let told = values.filter_map(|row| {
        let name = row.metric.as_str();
        let summary = baseline.get(name)?;
        let floor = summary.chaos_floor.filter(|floor| *floor > 0.0)?;
        if summary.better == Better::None || name.starts_with("machine/") {
            return None;
        }
        Some(format!("{:.1} % ({})", 100.0 * floor, row.short))
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

/// Sentences of the verdict, wrapped to the width of the terminal. Names of metrics are as short as
/// in the table.
pub(in crate::tables) fn verdict(sentences: &[String], context: &Context) -> String {
    let columns = context.style.columns;
    let short = |word: String| match metrics::parse(&word) {
        Some(metric) => fitting(&metric, 0, context),
        None => word,
    };
    let sentences = sentences
        .iter()
        .map(|one| words(one).into_iter().map(short));
    sentences
        .map(|one| wrap_to(columns, "", &one.collect::<Vec<_>>(), 5))
        .collect()
}

/// The lines below the table: how to apply what it recommends.
pub(in crate::tables) fn applied(context: &Context) -> String {
    let mut text = String::new();
    for (name, commands) in &context.apply {
        let line = format!("apply:     {}    # {name}", commands.join("; "));
        text += &match width(&line) <= context.style.columns {
            true => line + "\n",
            false => format!("apply:     # {name}\n           {}\n", commands.join("; ")),
        };
    }
    let cheapest = context
        .patches
        .iter()
        .find(|(name, _)| Some(name) == context.cheapest.as_ref());
    if let (Some((name, patches)), Some(about)) = (cheapest, &context.about) {
        text += &format!(
            "\n“{name}” for every tool: {}",
            advice::block(&about.path, patches, context.style.columns)
        );
    }
    text
}
