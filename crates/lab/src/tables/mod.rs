//! Tables: pure functions from a [`Comparison`](crate::comparison::Comparison) to text.
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
//! No table is wider than 100 columns, or than the terminal that it is for: variants that do not fit continue in a
//! further block.

pub mod advice;
pub mod export;
pub mod lkp;
pub mod markdown;
pub mod mmtests;
pub mod paint;
pub mod ratios;
pub mod rows;
pub mod text;

use std::collections::BTreeMap;

use self::paint::Paint;
pub use self::rows::About;
pub(crate) use self::rows::shown_metrics;
use crate::advise::patches::Patches;
use crate::comparison::Summary;
use crate::metrics::{Metric, Selection};

/// Columns of a table that is not shown on a terminal.
pub const WIDTH: usize = 100;

/// How a table is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Most columns of a line.
    pub columns: usize,
    /// Whether headings are bold and changes for the better green, for the worse red.
    pub colour: bool,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            columns: WIDTH,
            colour: false,
        }
    }
}

impl Style {
    /// The style for a terminal of so many columns: narrower ones break lines, and beyond the widest the eye loses its row.
    pub fn of_terminal(columns: usize, colour: bool) -> Style {
        Style {
            columns: columns.clamp(80, 200),
            colour,
        }
    }

    pub(crate) fn paint(&self, text: &str, paint: Paint) -> String {
        match self.colour {
            true => paint.mark(text),
            false => text.to_string(),
        }
    }
}

/// Text of a table around its numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// Source of the runs: an experiment file, or a recording with its length.
    pub source: String,
    /// Machine in a few words, such as `8 CPUs`.
    pub machine: String,
    /// The group a what-if is about, with its limits in the baseline, if there is one.
    pub target: Option<String>,
    /// The words of the command that gives this table again, quoted for a shell.
    pub reproduce: Vec<String>,
    /// For each variant that can be applied: its name and the shell commands.
    pub apply: Vec<(String, Vec<String>)>,
    /// The limit of each such variant in the words of every tool.
    pub patches: Vec<(String, Patches)>,
    /// Show every metric, not only the headline ones.
    pub verbose: bool,
    /// Rows that were asked for by name; none: the usual ones.
    pub selection: Selection,
    /// How the re-simulated recording compares with the recorded run.
    pub fit: Vec<Fit>,
    /// Verdict of an answer from a recording, a sentence each.
    pub verdict: Vec<String>,
    /// Name of the column of the cheapest change that helps.
    pub cheapest: Option<String>,
    /// Why there is no such comparison, where the run is only a part of the recording.
    pub part: Option<String>,
    /// Whom an answer from a recording is about; `None`: everything in an experiment.
    pub about: Option<About>,
    /// How the table is set on paper or on a terminal.
    pub style: Style,
    /// Names of the groups of a recording, by path.
    pub labels: BTreeMap<String, String>,
}

/// One figure of the recorded run and what the simulation of the same settings gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Name of the metric.
    pub metric: String,
    /// Mean over the seeds, in the metric's unit.
    pub predicted: f64,
    /// Value that the recording shows, in the metric's unit.
    pub seen: f64,
    /// Least and most of the seeds, where the recording does not show when its periods end. Each seed
    /// draws that then, and the recorded run is one of the draws.
    pub chance: Option<[f64; 2]>,
}

impl Fit {
    /// The simulated value to judge the simulation by: the mean, or where chance decides when periods
    /// end, the value in the range of the seeds that is nearest to the recorded one.
    pub fn judged(&self) -> f64 {
        match self.chance {
            Some([least, most]) => self.seen.clamp(least, most),
            None => self.predicted,
        }
    }

    /// How far the simulation is off, as a share of what the recording shows; without limit where that is 0.
    fn miss(&self) -> f64 {
        match self.predicted == self.seen {
            true => 0.0,
            false => (self.predicted / self.seen - 1.0).abs(),
        }
    }
}

pub(crate) fn full_name(metric: &Metric<'_>) -> String {
    format!("{}/{}", metric.subject, metric.name)
}

/// How the values of one row are scaled and named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Values are divided by this.
    pub divisor: f64,
    /// Unit after division; empty for plain counts.
    pub(crate) unit: &'static str,
    /// Digits behind the point.
    pub digits: usize,
}

/// Digits behind the point so that `value` has about four significant ones.
fn digits_for(value: f64) -> usize {
    match value.abs() {
        value if value >= 1000.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 || value == 0.0 => 2,
        value if value >= 0.1 => 3,
        _ => 5,
    }
}

/// The scale of a row: microseconds become milliseconds or seconds where the number would be long, ratios become per cent.
/// The first column's value decides, since that is the one a reader knows; where it is zero, the largest.
pub(crate) fn scale_of(metric: &Metric<'_>, summaries: &[Option<&Summary>]) -> Scale {
    let mut means = summaries.iter().flatten().map(|summary| summary.mean.abs());
    let first = means.next().unwrap_or(0.0);
    match first > 0.0 {
        true => scale_for(metric, first),
        false => scale_for(metric, means.fold(0.0, f64::max)),
    }
}

/// A ratio as people say it: `+12.3 %`, or as a factor from two on, `×1240`, and down to a half, `÷3.1`.
///
/// ```
/// use schedcast_lab::tables::change_text;
///
/// assert_eq!(change_text(1.123), "+12.3 %");
/// assert_eq!(change_text(0.95), "−5.0 %");
/// assert_eq!(change_text(1240.4), "×1240");
/// assert_eq!(change_text(0.32), "÷3.1");
/// ```
pub fn change_text(ratio: f64) -> String {
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

/// The scale of values up to `largest`.
pub(crate) fn scale_for(metric: &Metric<'_>, largest: f64) -> Scale {
    let named_unit = metric.name.ends_with("usec");
    let (divisor, unit) = match metric.unit() {
        "us" if named_unit => (1.0, "us"),
        "us" if largest >= 10_000_000.0 => (1_000_000.0, "s"),
        "us" if largest >= 10_000.0 => (1_000.0, "ms"),
        "ratio" => (0.01, "%"),
        "count" => (1.0, ""),
        unit => (1.0, unit),
    };
    let whole = unit.is_empty() && largest >= 100.0;
    let digits = match digits_for(largest / divisor) {
        _ if whole || named_unit => 0,
        digits if unit.is_empty() => digits.min(1),
        digits => digits,
    };
    Scale {
        divisor,
        unit,
        digits,
    }
}

impl Scale {
    /// `value`, or that it is at least so much.
    pub(crate) fn bound(&self, value: f64, at_least: bool) -> String {
        let sign = if at_least { "≥" } else { "" };
        format!("{sign}{}", self.number(value))
    }

    pub(crate) fn number(&self, value: f64) -> String {
        // Adding zero turns a negative zero into a plain one.
        format!("{:.*}", self.digits, value / self.divisor + 0.0)
    }
}

/// Characters, which is columns for everything these tables print.
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

pub(crate) fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

pub(crate) fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// `text` in at most `columns` characters, the rest replaced by `…`.
fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// Joins `pieces` with blanks, breaking lines at [`WIDTH`]; further lines start with `indent` blanks.
/// A piece longer than a line is not broken.
pub(crate) fn wrap(first: &str, pieces: &[String], indent: usize) -> String {
    wrap_to(WIDTH, first, pieces, indent)
}

/// As [`wrap`], in lines of `columns`.
pub(crate) fn wrap_to(columns: usize, first: &str, pieces: &[String], indent: usize) -> String {
    let mut text = String::new();
    let mut line = first.to_string();
    let mut fresh = true;
    for piece in pieces {
        if !fresh && width(&line) + 1 + width(piece) > columns {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(indent);
            fresh = true;
        }
        if !fresh || (!line.is_empty() && !line.ends_with(' ')) {
            line.push(' ');
        }
        line += piece;
        fresh = false;
    }
    text + line.trim_end() + "\n"
}

/// The line with the command that gives a table again; where it is longer than a table is wide, several lines that paste as
/// one command:
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

/// Splits columns of the given widths into blocks that fit beside `label_width` into a line of `most`; every block has
/// at least one column.
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

    #[test]
    fn lines_wrap_at_the_width() {
        let pieces: Vec<String> = (0..12)
            .map(|index| format!("piece-number-{index}"))
            .collect();
        let text = wrap("start:", &pieces, 7);
        assert!(text.lines().all(|line| width(line) <= WIDTH), "{text}");
        assert!(text.starts_with("start: piece-number-0 piece-number-1"));
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.lines()
                .nth(1)
                .unwrap()
                .starts_with("       piece-number-")
        );
    }

    #[test]
    fn long_names_are_shortened_visibly() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
