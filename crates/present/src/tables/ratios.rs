//! mmtests' comparison of ratios: each mean by that of the baseline, and what they come to over all
//! operations.
//!
//! A ratio is new/base, so 0.80 of a time is good and 0.80 of a rate is bad; the geometric means
//! are therefore taken apart (`Gmean Higher`: metrics that are better when higher). `D` rows speak
//! of both: by how much the means are apart, positive is better, in units of the distance at which
//! the intervals mean ± 1.96 standard deviations just touch. Beyond ±1 lies what the comparison
//! would star.
//!
//! Worked example: times 200 → 160 and 50 → 60 have the ratios 0.80 and 1.20, `Gmean Lower` is
//! √0.96 = 0.98. With standard deviations of 5 throughout the distances are +40/19.6 = 2.04 and
//! −10/19.6 = −0.51: `Dmean` 0.77.

use super::mmtests::{COLUMN, distance, heading, operation, report};
use super::{Context, WIDTH, blocks, full_name, width};
use schedcast_lab::comparison::{Comparison, Summary, Variant};
use schedcast_lab::metrics::{Better, Metric};
use schedcast_lab::statistics::mean;

/// Summaries of a variant over all operations of a program.
const SUMMARIES: [&str; 5] = ["Gmean Higher", "Gmean Lower", "Dmean", "Dmin", "Dmax"];

/// One operation of one variant against the baseline.
#[derive(Clone, Copy)]
struct Against {
    /// new/base of the means.
    ratio: f64,
    /// Positive is better.
    distance: f64,
    better: Better,
}

/// The whole report: a block of rows for every subject.
pub(crate) fn render(comparison: &Comparison, context: &Context) -> String {
    let note = format!(
        "ratios of means, new/base; D: distance of the means, beyond 1 the intervals are apart, positive is better; {} seeds",
        comparison.seeds
    );
    report(comparison, context, &note, subject_block)
}

fn subject_block(comparison: &Comparison, metrics: &[Metric<'_>]) -> String {
    let mut text = format!("{}\n", metrics.first().map_or("", |metric| metric.subject));
    let names: Vec<String> = metrics
        .iter()
        .map(|metric| format!("Ratio {}", operation(metric)))
        .collect();
    let labels = || names.iter().map(String::as_str).chain(SUMMARIES);
    let label_width = labels().map(width).max().unwrap_or(0);
    let Some(baseline) = comparison.variants.first() else {
        return text;
    };
    let columns = vec![COLUMN; comparison.variants.len()];
    for block in blocks(WIDTH, label_width.min(WIDTH - COLUMN), &columns) {
        let variants = &comparison.variants[block];
        text += &heading(variants, label_width);
        let columns: Vec<Vec<Option<f64>>> = variants
            .iter()
            .map(|variant| column(baseline, variant, metrics))
            .collect();
        for (row, label) in labels().enumerate() {
            if columns.iter().all(|column| column[row].is_none()) {
                continue;
            }
            let mut line = format!("{label:<label_width$}");
            for column in &columns {
                line += &match column[row] {
                    Some(value) => format!("{value:COLUMN$.2}"),
                    None => " ".repeat(COLUMN),
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

/// The rows of one variant: a ratio an operation, then [`SUMMARIES`].
fn column(baseline: &Variant, variant: &Variant, metrics: &[Metric<'_>]) -> Vec<Option<f64>> {
    let compared: Vec<Option<Against>> = metrics
        .iter()
        .map(|metric| against(baseline, variant, metric))
        .collect();
    let known: Vec<Against> = compared.iter().copied().flatten().collect();
    let distances = || known.iter().map(|one| one.distance);
    let ratios = compared.iter().map(|one| one.map(|one| one.ratio));
    ratios
        .chain([
            geometric_mean(&known, Better::Higher),
            geometric_mean(&known, Better::Lower),
            (!known.is_empty()).then(|| distances().sum::<f64>() / known.len() as f64),
            distances().reduce(f64::min),
            distances().reduce(f64::max),
        ])
        .collect()
}

/// `None` where either has no samples, or where the baseline is zero and a ratio means nothing.
fn against(baseline: &Variant, variant: &Variant, metric: &Metric<'_>) -> Option<Against> {
    let name = full_name(metric);
    let samples = |variant: &Variant| variant.get(&name).map(Summary::values);
    let (base, new) = (samples(baseline)?, samples(variant)?);
    let kind = metric.family.mean_kind();
    let ratio = mean(kind, &new)? / mean(kind, &base)?;
    let better = metric.better();
    let sign = if better == Better::Higher { 1.0 } else { -1.0 };
    let distance = sign * distance(&base, &new, kind)? + 0.0;
    (ratio.is_finite() && ratio > 0.0).then_some(Against {
        ratio,
        distance,
        better,
    })
}

/// Metrics without a preference count as lower-is-better, as mmtests takes whatever it is not told
/// about.
fn geometric_mean(known: &[Against], better: Better) -> Option<f64> {
    let belongs = |one: &&Against| (one.better == Better::Higher) == (better == Better::Higher);
    let logarithms: Vec<f64> = known
        .iter()
        .filter(belongs)
        .map(|one| one.ratio.ln())
        .collect();
    let sum: f64 = logarithms.iter().sum();
    (!logarithms.is_empty()).then(|| (sum / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::shown_metrics;
    use super::*;
    use schedcast_lab::samples::example;

    fn one(ratio: f64, distance: f64, better: Better) -> Against {
        Against {
            ratio,
            distance,
            better,
        }
    }

    #[test]
    fn rates_and_times_have_means_of_their_own() {
        let known = [
            one(0.8, 2.04, Better::Lower),
            one(1.2, -0.51, Better::Lower),
            one(2.0, 3.0, Better::Higher),
        ];
        let lower = geometric_mean(&known, Better::Lower).unwrap();
        assert!((lower - 0.96_f64.sqrt()).abs() < 1e-12);
        assert!((geometric_mean(&known, Better::Higher).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&known[..2], Better::Higher), None);
    }

    #[test]
    fn the_baseline_is_at_no_distance_from_itself() {
        let comparison = example();
        let metrics = shown_metrics(&comparison, &Context::default());
        let base = &comparison.variants[0];
        let rows = column(base, base, &metrics);
        let (ratios, summaries) = rows.split_at(metrics.len());
        assert!(ratios.iter().flatten().all(|ratio| *ratio == 1.0));
        assert_eq!(summaries[2..], [Some(0.0); 3]);
    }

    #[test]
    fn an_experiment() {
        let text = render(&example(), &Context::default());
        insta::assert_snapshot!(text);
    }
}
