//! The layout of mmtests' comparison reports: one block a program, statistics by operation.
//!
//! A percentage is an **improvement when positive**, whatever the metric: for a time it is 100 −
//! 100·new/base, for a rate 100·new/base − 100. Spread rows (Stddev, CoeffVar) improve when they
//! shrink. Seeds play the role of iterations. A star is mmtests' own, stricter one: the intervals
//! mean ± 1.96 standard deviations do not overlap; it stands on the rows of the mean only.
//!
//! Worked example: 200 against a baseline of 250 us prints as `200.00 (  20.00%)`.

use super::{Context, WIDTH, blocks, pad_left, reproduce, shown_metrics, width, wrap};
use schedcast_base::quantile::percentile;
use schedcast_lab::comparison::{Comparison, Summary, Variant};
use schedcast_lab::metrics::{Better, Metric};
use schedcast_lab::statistics::{MeanKind, mean, standard_deviation};

/// Columns of one kernel: a value of 12, a blank, and a percentage of 10 in its brackets.
pub(super) const COLUMN: usize = 23;

/// One statistic of a metric's samples.
#[derive(Clone, Copy, PartialEq)]
enum Statistic {
    Min,
    Mean,
    StandardDeviation,
    Variation,
    Max,
    BestMean,
    Percentile,
}

/// The rows of what mmtests calls Normalisedops; without the last those of its Multiops.
const NORMALISED_OPS: [Statistic; 7] = [
    Statistic::Min,
    Statistic::Mean,
    Statistic::StandardDeviation,
    Statistic::Variation,
    Statistic::Max,
    Statistic::BestMean,
    Statistic::Percentile,
];

/// The rows of a program; of those that run here, mmtests takes schbench alone as Normalisedops.
fn statistics_of(subject: &str) -> &'static [Statistic] {
    let percentile = usize::from(subject.starts_with("schbench"));
    &NORMALISED_OPS[..NORMALISED_OPS.len() - 1 + percentile]
}

impl Statistic {
    fn name(self, kind: MeanKind) -> &'static str {
        match (self, kind) {
            (Statistic::Min, _) => "Min",
            (Statistic::Mean, MeanKind::Arithmetic) => "Amean",
            (Statistic::Mean, MeanKind::Harmonic) => "Hmean",
            (Statistic::StandardDeviation, _) => "Stddev",
            (Statistic::Variation, _) => "CoeffVar",
            (Statistic::Max, _) => "Max",
            (Statistic::Percentile, _) => "Pctile-95",
            (Statistic::BestMean, MeanKind::Arithmetic) => "BAmean-95",
            (Statistic::BestMean, MeanKind::Harmonic) => "BHmean-95",
        }
    }

    fn of(self, samples: &[f64], kind: MeanKind, better: Better) -> Option<f64> {
        let smallest = || samples.iter().copied().reduce(f64::min);
        let largest = || samples.iter().copied().reduce(f64::max);
        match self {
            Statistic::Min => smallest(),
            Statistic::Max => largest(),
            Statistic::Mean => mean(kind, samples),
            Statistic::StandardDeviation => Some(standard_deviation(samples)),
            Statistic::Variation => {
                let center = mean(kind, samples)?;
                let deviation = standard_deviation(samples);
                Some(if center == 0.0 {
                    0.0
                } else {
                    100.0 * deviation / center
                })
            }
            Statistic::Percentile => percentile(samples, 95.0),
            Statistic::BestMean => {
                let mut sorted = samples.to_vec();
                sorted.sort_by(f64::total_cmp);
                if better == Better::Higher {
                    sorted.reverse();
                }
                let count = (sorted.len() * 95 / 100).max(1);
                mean(kind, sorted.get(..count)?)
            }
        }
    }

    /// Spread is always better small.
    fn better(self, metric: Better) -> Better {
        match self {
            Statistic::StandardDeviation | Statistic::Variation => Better::Lower,
            _ => metric,
        }
    }
}

/// Improvement in per cent. A metric without a preference counts as lower-is-better, as mmtests
/// takes whatever it is not told about.
pub(super) fn improvement(better: Better, base: f64, new: f64) -> f64 {
    let change = match (base == 0.0, new == 0.0) {
        (true, true) => 100.0,
        (true, false) => {
            return if better == Better::Higher {
                100.0
            } else {
                -100.0
            };
        }
        (false, _) => new * 100.0 / base,
    };
    // Adding zero turns a negative zero into a plain one.
    if better == Better::Higher {
        change - 100.0
    } else {
        100.0 - change + 0.0
    }
}

/// How far two means are apart, in units of the distance at which the intervals mean ± 1.96
/// standard deviations just touch: above 1 they do not overlap, and mmtests puts a star. `None`
/// without samples; 0 for equal means.
pub(super) fn distance(base: &[f64], new: &[f64], kind: MeanKind) -> Option<f64> {
    let gap = mean(kind, new)? - mean(kind, base)?;
    let reach = 1.96 * (standard_deviation(base) + standard_deviation(new));
    // Samples without spread that differ at all are apart as far as can be.
    Some(if gap == 0.0 { 0.0 } else { gap / reach })
}

/// Whether a mean gets a star. A single sample has no spread to be beyond.
fn has_star(base: &[f64], new: &[f64], kind: MeanKind) -> bool {
    let spreads = base.len() > 1 && new.len() > 1;
    spreads && distance(base, new, kind).is_some_and(|gap| gap.abs() > 1.0)
}

/// The whole report: a block of rows for every subject.
pub(crate) fn render(comparison: &Comparison, context: &Context) -> String {
    let note = format!(
        "positive is better; {} seeds; * where mean ± 1.96 Stddev of both do not overlap",
        comparison.seeds
    );
    report(comparison, context, &note, subject_block)
}

/// A block for every subject, a note, and how to get the report again.
pub(super) fn report(
    comparison: &Comparison,
    context: &Context,
    note: &str,
    block: impl Fn(&Comparison, &[Metric<'_>]) -> String,
) -> String {
    let metrics = shown_metrics(comparison, context);
    let mut text = String::new();
    for group in metrics.chunk_by(|left, right| left.subject == right.subject) {
        text += &block(comparison, group);
        text.push('\n');
    }
    let words: Vec<String> = note.split(' ').map(str::to_string).collect();
    text += &wrap("", &words, 0);
    text += &reproduce(context);
    text
}

/// Name of the operation in mmtests: metric and unit. Ratios are shown in per cent.
pub(super) fn operation(metric: &Metric<'_>) -> String {
    let unit = if metric.unit() == "ratio" {
        "%"
    } else {
        metric.unit()
    };
    format!("{}-{unit}", metric.name)
}

fn subject_block(comparison: &Comparison, metrics: &[Metric<'_>]) -> String {
    let subject = metrics.first().map_or("", |metric| metric.subject);
    let mut text = format!("{subject}\n");
    let name_width = metrics
        .iter()
        .map(|metric| width(&operation(metric)))
        .max()
        .unwrap_or(0);
    let statistics = || {
        statistics_of(subject)
            .iter()
            .flat_map(|statistic| metrics.iter().map(|metric| (*statistic, metric)))
    };
    let names =
        statistics().map(|(statistic, metric)| statistic.name(metric.family.mean_kind()).len());
    let statistic_width = names.max().unwrap_or(0);
    let label_width = statistic_width + 1 + name_width;
    let columns = vec![COLUMN; comparison.variants.len()];
    for block in blocks(WIDTH, label_width.min(WIDTH - COLUMN), &columns) {
        let variants = &comparison.variants[block];
        text += &heading(variants, label_width);
        for (statistic, metric) in statistics() {
            let statistic_name = statistic.name(metric.family.mean_kind());
            let mut line = format!(
                "{statistic_name:<statistic_width$} {:<name_width$}",
                operation(metric)
            );
            for variant in variants {
                line += &cell(comparison, variant, statistic, metric);
            }
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

/// Two lines: kernel versions, then variant names, as mmtests splits `5.14-vanilla`.
pub(super) fn heading(variants: &[Variant], label_width: usize) -> String {
    let mut versions = " ".repeat(label_width);
    let mut names = versions.clone();
    for variant in variants {
        versions += &pad_left(&variant.kernel.version.to_string(), COLUMN);
        names += &pad_left(&super::shorten(&variant.name, COLUMN - 1), COLUMN);
    }
    format!("{versions}\n{names}\n")
}

fn cell(
    comparison: &Comparison,
    variant: &Variant,
    statistic: Statistic,
    metric: &Metric<'_>,
) -> String {
    let name = super::full_name(metric);
    let (kind, better) = (metric.family.mean_kind(), metric.better());
    let factor = if metric.unit() == "ratio" { 100.0 } else { 1.0 };
    let samples = |variant: &Variant| -> Vec<f64> {
        let values = variant.get(&name).map(Summary::values).unwrap_or_default();
        values.into_iter().map(|value| value * factor).collect()
    };
    let own = samples(variant);
    let Some(value) = statistic.of(&own, kind, better) else {
        return " ".repeat(COLUMN);
    };
    let base_samples = comparison.variants.first().map(samples).unwrap_or_default();
    let Some(base) = statistic.of(&base_samples, kind, better) else {
        return format!("{value:12.2}{}", " ".repeat(COLUMN - 12));
    };
    let percent = improvement(statistic.better(better), base, value);
    // A change that rounds to nothing has no sign.
    let percent = if percent.abs() < 0.005 { 0.0 } else { percent };
    if statistic == Statistic::Mean && has_star(&base_samples, &own, kind) {
        return format!("{value:12.2} *{percent:7.2}%*");
    }
    format!("{value:12.2} ({percent:7.2}%)")
}

#[cfg(test)]
mod tests {
    use super::super::text::words;
    use super::*;
    use schedcast_lab::samples::example;

    #[test]
    fn positive_is_better_whatever_the_metric() {
        assert_eq!(improvement(Better::Lower, 250.0, 200.0), 20.0);
        assert_eq!(improvement(Better::Higher, 250.0, 200.0), -20.0);
        assert_eq!(improvement(Better::Lower, 0.0, 0.0), 0.0);
        assert_eq!(improvement(Better::Higher, 0.0, 0.0), 0.0);
        assert_eq!(improvement(Better::Lower, 0.0, 5.0), -100.0);
    }

    #[test]
    fn the_best_95_per_cent_leave_out_the_worst() {
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        let best = |better| Statistic::BestMean.of(&samples, MeanKind::Arithmetic, better);
        assert_eq!(best(Better::Lower), Some(10.0), "1 to 19");
        assert_eq!(best(Better::Higher), Some(11.0), "2 to 20");
    }

    #[test]
    fn a_star_needs_separate_intervals() {
        let kind = MeanKind::Arithmetic;
        let gap = |new: &[f64]| distance(&[10.0, 11.0, 12.0], new, kind).unwrap();
        // 11 ± 1.96 and 14.9 ± 1.96 touch at 12.94…12.96: 3.9 of 3.92.
        assert!((gap(&[13.9, 14.9, 15.9]) - 3.9 / 3.92).abs() < 1e-9);
        assert!(gap(&[13.93, 14.93, 15.93]) > 1.0);
        assert!(gap(&[6.0, 7.0, 8.0]) < -1.0);
        assert!(!has_star(&[5.0], &[6.0], kind) && has_star(&[5.0, 5.0], &[6.0, 6.0], kind));
        assert_eq!(distance(&[5.0], &[5.0], kind), Some(0.0));
        assert_eq!(distance(&[5.0], &[6.0], kind), Some(f64::INFINITY));
    }

    #[test]
    fn schbench_has_a_percentile_of_its_samples() {
        assert_eq!(statistics_of("hackbench").len(), 6);
        assert_eq!(statistics_of("schbench").len(), 7);
        let samples: Vec<f64> = (0..=100).map(f64::from).collect();
        let kind = MeanKind::Arithmetic;
        let found = Statistic::Percentile.of(&samples, kind, Better::Lower);
        assert_eq!(found, Some(95.0));
    }

    #[test]
    fn an_experiment() {
        let context = Context {
            reproduce: words("schedcast compare exp.toml --format mmtests"),
            ..Context::default()
        };
        let text = render(&example(), &context);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        insta::assert_snapshot!(text);
    }
}
