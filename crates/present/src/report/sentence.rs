//! The answer in one sentence.
//!
//! Of several variants the sentence is about the one that changes the most telling metric most for
//! the better (or least for the worse). Worked example: p99 212 ms in the baseline and 71 ms with a
//! burst of 100 ms, significantly:
//!
//! ```text
//! With “burst 100 ms”, schbench/request_latency.p99 falls from 212.4 to 71.0 ms (÷3.0).
//! ```

use crate::tables::text::spread;
use crate::tables::{Context, change_text, full_name, rows, scale_for, shown_metrics};
use schedcast_lab::comparison::{Comparison, Summary, Variant};
use schedcast_lab::metrics::{Better, Metric};

/// Which metric people ask about first.
const TELLING: [&str; 11] = [
    "request_latency.p99",
    "activation_latency.p99",
    "latency.p99",
    "wakeup_latency.p99",
    "time",
    "rps",
    "tps",
    "events_per_s",
    "requests_per_s",
    "transactions_per_s",
    "throughput",
];

/// One sentence that answers the question; empty when nothing was measured.
pub(super) fn answer(comparison: &Comparison, context: &Context) -> String {
    let Some(baseline) = comparison.variants.first() else {
        return String::new();
    };
    let shown = telling(comparison, context);
    let place = |metric: &Metric<'_>| TELLING.iter().position(|name| *name == metric.name);
    let candidates = shown.iter().filter(|metric| {
        metric.better() != Better::None && baseline.get(&full_name(metric)).is_some()
    });
    let Some(metric) = candidates.min_by_key(|metric| place(metric).unwrap_or(TELLING.len()))
    else {
        return String::new();
    };
    let name = full_name(metric);
    let Some(before) = baseline.get(&name) else {
        return String::new();
    };
    let others = &comparison.variants[1..];
    if others.is_empty() {
        return format!("{name} is {}.", value(metric, before));
    }
    let changes = others
        .iter()
        .filter_map(|variant| Some((variant, variant.get(&name)?)));
    let gain = |summary: &Summary| match metric.better() {
        Better::Higher => summary.mean,
        _ => -summary.mean,
    };
    let best = changes.max_by(|left, right| gain(left.1).total_cmp(&gain(right.1)));
    let Some((variant, after)) = best else {
        return format!(
            "{name} is {} in “{}”.",
            value(metric, before),
            baseline.name
        );
    };
    let significant = |summary: &Summary| {
        let change = summary.vs_baseline.as_ref();
        change.is_some_and(|change| change.significant)
    };
    if !significant(after) {
        return format!(
            "No variant changes {name} for sure: it is {} in “{}” and {} in “{}”.",
            value(metric, before),
            baseline.name,
            value(metric, after),
            variant.name
        );
    }
    let among = match others.len() {
        1 => String::new(),
        _ => format!(", the best of {} variants,", comparison.variants.len()),
    };
    format!(
        "With “{}”{among}{} {name} {}{}.",
        variant.name,
        if among.is_empty() { "," } else { "" },
        change(metric, before, after),
        side(comparison, context, baseline, variant),
    )
}

/// Metrics that the sentence may be about: those of the first section that has any with a better
/// direction; it is the target's if it has one.
fn telling<'a>(comparison: &'a Comparison, context: &Context) -> Vec<Metric<'a>> {
    let mut sections = rows::rows(comparison, context).sections.into_iter();
    let is_telling = |metric: &Metric<'_>| metric.better() != Better::None;
    let told = sections.find(|section| section.metrics.iter().any(is_telling));
    told.map_or(Vec::new(), |section| section.metrics)
}

fn value(metric: &Metric<'_>, summary: &Summary) -> String {
    let scale = scale_for(metric, summary.mean.abs());
    let spread = match (spread(summary, &scale), summary.misfit) {
        (spread, _) if spread.is_empty() => spread,
        (spread, true) => format!(" ({spread})"),
        (spread, false) => format!(" {spread}"),
    };
    let mean = scale.bound(summary.mean, summary.at_least);
    format!("{mean}{spread}{}", scale.behind())
}

fn change(metric: &Metric<'_>, before: &Summary, after: &Summary) -> String {
    let scale = match before.mean == 0.0 {
        true => scale_for(metric, after.mean.abs()),
        false => scale_for(metric, before.mean.abs()),
    };
    let verb = match after.mean < before.mean {
        true => "falls",
        false => "rises",
    };
    let percent = match before.mean == 0.0 {
        true => String::new(),
        false => format!(" ({})", change_text(after.mean / before.mean)),
    };
    let [from, to] = [before, after].map(|one| scale.bound(one.mean, one.at_least));
    format!("{verb} from {from} to {to}{}{percent}", scale.behind())
}

/// Sentence part on the change of throttling, where a group is limited.
fn side(
    comparison: &Comparison,
    context: &Context,
    baseline: &Variant,
    variant: &Variant,
) -> String {
    let shown = shown_metrics(comparison, context);
    let throttled = shown.iter().find(|metric| {
        let mean = |variant: &Variant| variant.get(&full_name(metric)).map(|one| one.mean);
        metric.name == "nr_throttled" && mean(baseline).is_some_and(|mean| mean > 0.0)
    });
    let Some(metric) = throttled else {
        return String::new();
    };
    let name = full_name(metric);
    let (Some(before), Some(after)) = (baseline.get(&name), variant.get(&name)) else {
        return String::new();
    };
    let scale = scale_for(metric, before.mean.max(after.mean));
    format!(
        "; throttled periods go from {} to {}",
        scale.number(before.mean),
        scale.number(after.mean)
    )
}
