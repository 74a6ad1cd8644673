//! Tables: pure functions from a [`Comparison`](schedcast_lab::comparison::Comparison) to text.
//!
//! | layout | for | change is shown as |
//! |---|---|---|
//! | [`text`] | people, tickets | values beside one another, `*` where the paired interval excludes zero |
//! | [`markdown`] | the same in Markdown | the same |
//! | [`mmtests`] | mails beside mmtests reports | percentage, **positive is better** |
//! | [`ratios`] | the same, over all operations | new/base, geometric means |
//! | [`lkp`] | mails beside lkp reports | **raw** percentage of the mean, `%change` |
//!
//! [`export`] writes the samples as mmtests and lkp keep theirs.
//!
//! No table is wider than 100 columns, or than the terminal that it is for: variants that do not
//! fit continue in a further block.

pub mod advice;
pub mod export;
pub mod lkp;
pub mod markdown;
pub mod mmtests;
pub mod paint;
pub mod ratios;
pub mod rows;
pub mod text;

pub(crate) use schedcast_base::columns::{
    WIDTH, pad_left, pad_right, shorten, width, wrap, wrap_to,
};
use schedcast_lab::answer::Answer;
use schedcast_lab::comparison::Summary;
pub(crate) use schedcast_lab::context::{Context, Style};
use schedcast_lab::metrics::Metric;
pub(crate) use schedcast_lab::metrics::scale::{Scale, full_name, names_unit, scale_for};

pub(crate) use self::rows::shown_metrics;

schedcast_base::named! {
    /// A layout of the table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Layout {
        /// For people.
        Text = "table",
        /// For people, in Markdown.
        Markdown = "markdown",
        /// As mmtests prints comparisons.
        Mmtests = "mmtests",
        /// Ratios to the baseline, as mmtests prints them.
        MmtestsRatios = "mmtests-ratios",
        /// As lkp-tests prints comparisons.
        Lkp = "lkp",
    }
}

/// The table of an answer.
pub fn table(answer: &Answer, layout: Layout) -> String {
    let (comparison, context) = (&answer.comparison, &answer.context);
    let table = match layout {
        Layout::Text => text::render(comparison, context),
        Layout::Markdown => markdown::render(comparison, context),
        Layout::Mmtests => mmtests::render(comparison, context),
        Layout::MmtestsRatios => ratios::render(comparison, context),
        Layout::Lkp => lkp::render(comparison, context),
    };
    if !matches!(layout, Layout::Text | Layout::Markdown) {
        return table;
    }
    let earlier = comparison.earlier_bisections.iter();
    let all = earlier.chain(&comparison.bisection);
    all.fold(table, |text, bisection| text + &bisection.text())
}

/// The scale of a row: microseconds become milliseconds or seconds where the number would be long,
/// ratios become per cent. The first column's value decides, since that is the one a reader knows;
/// where it is zero, the largest. For metrics named in microseconds the smallest nonzero value
/// decides: a larger unit is used only where every value is long.
pub(crate) fn scale_of(metric: &Metric<'_>, summaries: &[Option<&Summary>]) -> Scale {
    let mut means = summaries.iter().flatten().map(|summary| summary.mean.abs());
    if names_unit(metric) {
        let least = means.filter(|mean| *mean > 0.0).reduce(f64::min);
        return scale_for(metric, least.unwrap_or(0.0));
    }
    let first = means.next().unwrap_or(0.0);
    match first > 0.0 {
        true => scale_for(metric, first),
        false => scale_for(metric, means.fold(0.0, f64::max)),
    }
}

/// A ratio as people say it: `+12.3 %`, or as a factor from two on, `×1240`, and down to a half,
/// `÷3.1`.
pub(crate) fn change_text(ratio: f64) -> String {
    let factor = |sign: &str, factor: f64| {
        let digits = usize::from(factor < 100.0);
        format!("{sign}{factor:.digits$}")
    };
    let percent = 100.0 * (ratio - 1.0);
    match ratio {
        _ if ratio >= 2.0 => factor("×", ratio),
        _ if ratio > 0.0 && ratio <= 0.5 => factor("÷", 1.0 / ratio),
        _ if percent < 0.0 => format!("−{:.1} %", -percent),
        _ => format!("+{percent:.1} %"),
    }
}

/// The line with the command that gives a table again; where it is longer than a table is wide,
/// several lines that paste as one command:
///
/// ```text
/// reproduce: schedcast compare exp.toml --cgroup /test \
///            --set 'cpu.max=50000 100000'
/// ```
fn reproduce(context: &Context) -> String {
    const LABEL: &str = "reproduce:";
    const CONTINUED: &str = " \\";
    let columns = context.style.columns;
    if context.reproduce.is_empty() {
        return String::new();
    }
    // A flag and its value stay together.
    let is_flag = |word: &String| word.starts_with('-');
    let parts = context
        .reproduce
        .chunk_by(|left, right| is_flag(left) && !is_flag(right));
    let mut lines: Vec<String> = Vec::new();
    for part in parts.map(|part| part.join(" ")) {
        match lines.last_mut() {
            None => lines.push(format!("{LABEL} {part}")),
            Some(line) if width(line) + 1 + width(&part) + width(CONTINUED) <= columns => {
                *line = format!("{line} {part}");
            }
            Some(line) => {
                *line += CONTINUED;
                lines.push(format!("{} {part}", " ".repeat(LABEL.len())));
            }
        }
    }
    lines.join("\n") + "\n"
}

/// Splits columns of the given widths into blocks that fit beside `label_width` into a line of
/// `most`; every block has at least one column.
fn blocks(most: usize, label_width: usize, widths: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut blocks = Vec::new();
    let mut start = 0;
    let mut used = label_width;
    for (index, column) in widths.iter().enumerate() {
        if index > start && used + column > most {
            blocks.push(start..index);
            start = index;
            used = label_width;
        }
        used += column;
    }
    if start < widths.len() {
        blocks.push(start..widths.len());
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_told_as_people_say_them() {
        for (ratio, told) in [
            (1.123, "+12.3 %"),
            (0.95, "−5.0 %"),
            (1240.4, "×1240"),
            (0.32, "÷3.1"),
        ] {
            assert_eq!(change_text(ratio), told);
        }
    }

    #[test]
    fn microseconds_of_a_file_become_milliseconds_where_all_of_a_row_are_long() {
        let scale = |values: [f64; 2]| {
            let [one, other] = values.map(|value| [value; 4]);
            let rows = [("cgroup:/a/throttled_usec".to_string(), one, other)];
            let compared = schedcast_lab::samples::compared(&rows);
            let (name, _) = &compared.variants[0].metrics[0];
            let summaries: Vec<Option<&Summary>> = compared
                .variants
                .iter()
                .map(|variant| variant.get(name))
                .collect();
            let metric = schedcast_lab::metrics::parse(name).unwrap();
            let scale = scale_of(&metric, &summaries);
            values.map(|value| scale.number(value) + &scale.behind())
        };
        assert_eq!(scale([970_846.0, 125_388.0]), ["970.8 ms", "125.4 ms"]);
        assert_eq!(scale([970_846.0, 0.0]), ["970.8 ms", "0.0 ms"]);
        assert_eq!(scale([970_846.0, 388.0]), ["970846 us", "388 us"]);
    }

    #[test]
    fn blocks_fill_lines_and_never_stay_empty() {
        assert_eq!(blocks(100, 40, &[30, 30, 30]), [0..2, 2..3]);
        assert_eq!(blocks(100, 40, &[60, 60]), [0..1, 1..2]);
        assert_eq!(
            blocks(100, 40, &[200]),
            vec![0..1; 1],
            "too wide, but never dropped"
        );
        assert!(blocks(100, 40, &[]).is_empty());
    }
}
