//! The layout of lkp-tests' `compare`: absolute values, spread where it matters, raw change.
//!
//! `%change` is 100·(new − base)/base of the means: **raw**, so a fall of a latency is negative and
//! good, the opposite of mmtests' sign. A metric that is itself a ratio changes by points instead,
//! as lkp does for names ending in `%`. `± n%` is the standard deviation over seeds in per cent of
//! the mean, printed above 2 %.
//!
//! A row stands for a change, as in lkp: its samples left those of the baseline (the smallest is
//! above the baseline's mean and the mean above the baseline's largest, or mirrored), by more than
//! 5 % (1 % for a headline metric), and neither spread is above half its mean. How many rows are
//! left out is said; verbose shows them all.
//!
//! Worked example: 250 against a baseline of 200 prints as `+25.0%`.

use super::{Context, WIDTH, full_name, reproduce, shorten, shown_metrics, width};
use schedcast_lab::comparison::{Comparison, Summary, Variant};
use schedcast_lab::metrics::Metric;
use schedcast_lab::statistics::{MeanKind, mean, standard_deviation};

const ABSOLUTE: usize = 10;
const RELATIVE: usize = 10;
const ERROR: usize = 6;
/// Columns of the baseline, and of every further variant with its change.
const FIRST: usize = ABSOLUTE + ERROR;
const FURTHER: usize = RELATIVE + 2 + ABSOLUTE + ERROR;

/// The whole report. Variants that do not fit follow in further blocks, each with the baseline.
pub(crate) fn render(comparison: &Comparison, context: &Context) -> String {
    let mut metrics = shown_metrics(comparison, context);
    let all = metrics.len();
    if !context.verbose && comparison.variants.len() > 1 {
        metrics.retain(|metric| changed(comparison, metric));
    }
    let hidden = all - metrics.len();
    let names: Vec<String> = metrics.iter().map(row_name).collect();
    let name_width = names.iter().map(|name| width(name)).max().unwrap_or(0) + 2;
    let Some((baseline, others)) = comparison.variants.split_first() else {
        return String::new();
    };
    let per_block = ((WIDTH.saturating_sub(FIRST + name_width)) / FURTHER).max(1);
    let mut text = "=".repeat(89) + "\n";
    text += &format!("variant:\n  {}\n", baseline.name);
    for variant in others {
        text += &format!("  {}\n", variant.name);
    }
    let chunks: Vec<&[Variant]> = match others.is_empty() {
        true => vec![others],
        false => others.chunks(per_block).collect(),
    };
    for chunk in chunks {
        text.push('\n');
        text += &heading(baseline, chunk);
        for (metric, row) in metrics.iter().zip(&names) {
            let name = full_name(metric);
            let ratio = metric.unit() == "ratio";
            let summaries: Vec<Option<&Summary>> = std::iter::once(baseline)
                .chain(chunk)
                .map(|variant| variant.get(&name))
                .collect();
            text += &row_line(&summaries, ratio, row);
        }
    }
    text += &format!(
        "\n%change is raw: negative is less. {} seeds; ± is the standard deviation above 2 %\n",
        comparison.seeds
    );
    if hidden > 0 {
        text +=
            &format!("{hidden} of {all} rows hidden: unchanged or noise; --verbose shows them\n");
    }
    text += &reproduce(context);
    text
}

/// Whether a row says something: of any variant against the baseline.
fn changed(comparison: &Comparison, metric: &Metric<'_>) -> bool {
    let name = full_name(metric);
    let Some((base, others)) = comparison.variants.split_first() else {
        return false;
    };
    let least_ratio = if metric.headline() { 1.01 } else { 1.05 };
    let samples = |variant: &Variant| Range::of(&variant.get(&name)?.values());
    // A value that only one side has is a change as well.
    let Some(base) = samples(base) else {
        return others.iter().any(|other| samples(other).is_some());
    };
    let mut others = others.iter().filter_map(samples);
    others.any(|other| base.left_for(&other, least_ratio))
}

/// Statistics of a metric's samples that lkp looks at.
struct Range {
    smallest: f64,
    mean: f64,
    largest: f64,
    noisy: bool,
}

impl Range {
    fn of(samples: &[f64]) -> Option<Range> {
        let mean = mean(MeanKind::Arithmetic, samples)?;
        Some(Range {
            smallest: samples.iter().copied().reduce(f64::min)?,
            mean,
            largest: samples.iter().copied().reduce(f64::max)?,
            noisy: standard_deviation(samples) > mean.abs() / 2.0,
        })
    }

    fn left_for(&self, new: &Range, least_ratio: f64) -> bool {
        let above = |low: &Range, high: &Range| {
            high.smallest > low.mean
                && high.mean > low.largest
                && high.mean > low.mean * least_ratio
        };
        !self.noisy && !new.noisy && (above(self, new) || above(new, self))
    }
}

/// lkp's names join the parts with points; a ratio is shown in per cent and says so.
fn row_name(metric: &Metric<'_>) -> String {
    let mark = if metric.unit() == "ratio" { "%" } else { "" };
    format!("{}.{}{mark}", metric.subject, metric.name)
}

fn heading(baseline: &Variant, others: &[Variant]) -> String {
    let mut names = format!("{:>FIRST$} ", shorten(&baseline.name, FIRST));
    let mut rules = format!("{} ", "-".repeat(FIRST));
    for variant in others {
        names += &format!(
            "{:>width$} ",
            shorten(&variant.name, FURTHER - 1),
            width = FURTHER - 1
        );
        rules += &format!("{} ", "-".repeat(FURTHER - 1));
    }
    let count = others.len();
    let columns = format!(
        "         %stddev{}",
        "     %change         %stddev".repeat(count)
    );
    let pointers = format!(
        "             \\  {}",
        "        |                \\  ".repeat(count)
    );
    let lines = [names, rules, columns, pointers];
    lines
        .map(|line| line.trim_end().to_string() + "\n")
        .concat()
}

fn row_line(summaries: &[Option<&Summary>], ratio: bool, name: &str) -> String {
    let factor = if ratio { 100.0 } else { 1.0 };
    let base = summaries
        .first()
        .copied()
        .flatten()
        .map(|summary| summary.mean * factor);
    let mut line = String::new();
    for (index, summary) in summaries.iter().enumerate() {
        let Some(summary) = summary else {
            let columns = if index == 0 { FIRST } else { FURTHER };
            line += &" ".repeat(columns);
            continue;
        };
        let mean = summary.mean * factor;
        if index > 0 {
            line += &change(base, mean, ratio);
        }
        line += &absolute(mean);
        line += &spread(&summary.values(), summary.mean);
    }
    format!("{line}  {name}\n")
}

/// The change column with its trailing blank: per cent, or points for what is a ratio already.
fn change(base: Option<f64>, mean: f64, points: bool) -> String {
    match base {
        Some(base) if points => format!("{:+RELATIVE$.1}  ", mean - base),
        Some(base) if base != 0.0 => {
            let percent = 100.0 * (mean - base) / base;
            match percent.abs() < 100_000.0 {
                true => format!("{percent:+RELATIVE$.1}% "),
                false => format!("{percent:+RELATIVE$.1e}% "),
            }
        }
        Some(_) if mean == 0.0 => format!("{:+RELATIVE$.1}% ", 0.0),
        // From nothing to something has no percentage.
        Some(_) => format!("{:>RELATIVE$}  ", if mean > 0.0 { "+inf" } else { "-inf" }),
        None => " ".repeat(RELATIVE + 2),
    }
}

/// A value in the digits of lkp, and in four decimals below one: a change of some per cent shows.
fn absolute(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude > 0.0 && magnitude < 0.001 => format!("{value:ABSOLUTE$.2e}"),
        magnitude if magnitude > 0.0 && magnitude < 1.0 => format!("{value:ABSOLUTE$.4}"),
        magnitude if magnitude < 1000.0 => format!("{value:ABSOLUTE$.2}"),
        magnitude if magnitude > 100_000_000.0 => format!("{value:ABSOLUTE$.3e}"),
        _ => format!("{:ABSOLUTE$}", value.trunc() as i64),
    }
}

fn spread(samples: &[f64], mean: f64) -> String {
    let percent = if mean == 0.0 {
        0.0
    } else {
        100.0 * standard_deviation(samples) / mean
    };
    match percent > 2.0 {
        true => format!(" ±{:width$}%", percent.trunc() as i64, width = ERROR - 3),
        false => " ".repeat(ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::words;
    use super::*;
    use schedcast_lab::samples::example;

    #[test]
    fn changes_are_raw() {
        assert_eq!(change(Some(200.0), 250.0, false), "     +25.0% ");
        assert_eq!(change(Some(200.0), 150.0, false), "     -25.0% ");
        assert_eq!(change(Some(11.25), 12.75, true), "      +1.5  ");
        assert_eq!(change(Some(0.0), 0.0, false), "      +0.0% ");
        assert_eq!(change(Some(0.0), 3.0, false), "      +inf  ");
        assert_eq!(change(None, 3.0, false).len(), 12);
    }

    #[test]
    fn a_change_of_a_small_value_shows_in_its_digits() {
        let [before, after] = [0.0102, 0.0115].map(absolute);
        assert_eq!([before.trim(), after.trim()], ["0.0102", "0.0115"]);
        assert_eq!(absolute(0.000_102).trim(), "1.02e-4");
        assert_eq!(
            [absolute(0.0), absolute(1.5)].map(|text| text.trim().to_owned()),
            ["0.00", "1.50"]
        );
    }

    #[test]
    fn only_what_left_the_baseline_is_a_change() {
        let left = |base: &[f64], new: &[f64], least_ratio| {
            let (base, new) = (Range::of(base).unwrap(), Range::of(new).unwrap());
            base.left_for(&new, least_ratio)
        };
        assert!(left(&[10.0, 11.0, 12.0], &[14.0, 15.0, 16.0], 1.05));
        assert!(left(&[14.0, 15.0, 16.0], &[10.0, 11.0, 12.0], 1.05));
        // The mean of 11.5 is below the largest of the baseline.
        assert!(!left(&[10.0, 11.0, 12.0], &[11.2, 11.4, 11.9], 1.01));
        // 100 to 103 is 3 %: enough for a headline metric only.
        assert!(left(&[100.0, 100.0], &[103.0, 103.0], 1.01));
        assert!(!left(&[100.0, 100.0], &[103.0, 103.0], 1.05));
        // 15 ± 14 is noise.
        assert!(!left(&[1.0, 1.0], &[5.0, 25.0], 1.05));
    }

    #[test]
    fn values_have_the_width_of_their_column() {
        assert_eq!(absolute(12.345), "     12.35");
        assert_eq!(absolute(1234.9), "      1234");
        assert_eq!(absolute(123_456_789.0), "   1.235e8");
        assert_eq!(spread(&[96.0, 104.0], 100.0), " ±  5%");
        assert_eq!(spread(&[100.0, 100.0], 100.0), "      ");
    }

    #[test]
    fn an_experiment() {
        let context = Context {
            reproduce: words("schedcast compare exp.toml --format lkp"),
            ..Context::default()
        };
        let mut comparison = example();
        let mut third = comparison.variants[1].clone();
        third.name = "a third".to_string();
        third.metrics.remove(1);
        comparison.variants.push(third);
        let text = render(&comparison, &context);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        insta::assert_snapshot!(text);
    }
}
