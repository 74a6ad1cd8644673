//! The frontier in the characters of a terminal.
//!
//! ```text
//! request_latency.p95 (ms)
//!  200 ┤o
//!  100 ┤  R
//!   50 ┤+    o
//!   40 ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ promised
//!   20 ┤x + x    o  o  x       o
//!      └┬──────────┬───────────┬
//!       0.4       0.6        1.0   CPU
//! o no burst   + burst 25 ms   x burst 50 ms   R as recorded, simulated   M measured
//! ```
//!
//! Both axes are logarithmic. Where points fall on one place, the recorded one is shown, else the
//! one with less burst.

use super::{Drawn, Point, Value};
use crate::tables::scale_for;
use schedcast_base::columns::decimals;
use schedcast_lab::metrics;

/// Rows of the plot.
const ROWS: usize = 12;
/// Columns that the numbers beside the axis take.
const LEFT: usize = 9;
/// Columns behind the plot for the name of the promise.
const RIGHT: usize = 10;
/// Marks of the lines, by burst.
const MARKS: [char; 4] = ['o', '+', 'x', '*'];
const RECORDED: char = 'R';
const MEASURED: char = 'M';

/// A range on a logarithmic axis.
pub(super) struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// From the least to the greatest of the positive `values`.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if high <= 0.0 {
            return None;
        }
        // One value alone stands in the middle.
        if high / low < 1.01 {
            (low, high) = (low / 1.2, high * 1.2);
        }
        Some(Range { low, high })
    }

    /// Where `value` lies: 0 at the low end, 1 at the high one.
    pub(super) fn share(&self, value: f64) -> f64 {
        (value.max(self.low / 1e6) / self.low).ln() / (self.high / self.low).ln()
    }

    /// The value at a share of the axis.
    #[cfg(test)]
    fn at(&self, share: f64) -> f64 {
        self.low * (self.high / self.low).powf(share)
    }

    /// Round values between the ends: 1, 2 and 5 times powers of ten, or more of them where these
    /// are few.
    pub(super) fn marks(&self) -> Vec<f64> {
        let coarse = self.rounded(&[1.0, 2.0, 5.0]);
        match coarse.len() {
            0..3 => self.rounded(&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]),
            _ => coarse,
        }
    }

    fn rounded(&self, mantissas: &[f64]) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let powers = (first..=last).map(|power| 10f64.powi(power));
        let all = powers.flat_map(|power| {
            mantissas
                .iter()
                .map(move |one| (one * power * 1e9).round() / 1e9)
        });
        all.filter(|mark| (self.low * 0.999..=self.high * 1.001).contains(mark))
            .collect()
    }
}

/// The value a point is drawn at, if it has one that is no lower bound.
pub(super) fn value(point: &Point, measure: usize) -> Option<Value> {
    point.values.get(measure).copied().flatten()
}

impl Drawn<'_> {
    /// The plot of one measure in lines of at most `columns` characters.
    pub fn plot(&self, measure: usize, columns: usize) -> String {
        let shown = &self.measures[measure];
        let Some((x, y)) = self.ranges(measure) else {
            return String::new();
        };
        let wide = columns.clamp(60, 120) - LEFT - RIGHT;
        let mut grid = vec![vec![' '; wide]; ROWS];
        let column = |cpus: f64| (x.share(cpus) * (wide - 1) as f64).round() as usize;
        let row = |value: f64| {
            let share = y.share(value).clamp(0.0, 1.0);
            ROWS - 1 - (share * (ROWS - 1) as f64).round() as usize
        };
        let promised = shown.promised.filter(|value| *value > 0.0).map(row);
        if let Some(row) = promised {
            grid[row].fill('┄');
        }
        let mut put = |cpus: Option<f64>, value: f64, mark: char| {
            if let Some(cpus) = cpus {
                grid[row(value)][column(cpus).min(wide - 1)] = mark;
            }
        };
        for point in &self.measured {
            if let Some([median, ..]) = point.values[measure] {
                put(point.limit.cpus(), median, MEASURED);
            }
        }
        for (index, line) in self.lines.iter().enumerate().rev() {
            for point in &line.points {
                if let Some(value) = value(point, measure) {
                    put(point.limit.cpus(), value.mean, MARKS[index % MARKS.len()]);
                }
            }
        }
        if let Some(value) = self
            .recorded_point()
            .and_then(|point| value(point, measure))
        {
            put(self.recorded.cpus(), value.mean, RECORDED);
        }
        let scale = metrics::parse(&shown.metric).map(|metric| scale_for(&metric, y.high));
        let (divisor, unit) = scale.map_or((1.0, ""), |scale| (scale.divisor, scale.unit));
        let unit = match unit {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let mut labels = vec![String::new(); ROWS];
        for mark in y.marks() {
            labels[row(mark)] = number(mark / divisor);
        }
        if let (Some(row), Some(promised)) = (promised, shown.promised) {
            labels[row] = number(promised / divisor);
        }
        let mut text = format!("{}{unit}\n", shown.name);
        for (index, cells) in grid.iter().enumerate() {
            let behind = if promised == Some(index) {
                " promised"
            } else {
                ""
            };
            let line: String = cells.iter().collect();
            let line = format!(
                "{:>width$} ┤{line}{behind}",
                labels[index],
                width = LEFT - 2
            );
            text += line.trim_end();
            text.push('\n');
        }
        text += &axis(&x, wide);
        text + &self.legend() + "\n"
    }

    pub(super) fn recorded_point(&self) -> Option<&Point> {
        self.points().find(|point| point.limit == self.recorded)
    }

    /// Which values the axes cover; `None` where there are none.
    pub(super) fn ranges(&self, measure: usize) -> Option<(Range, Range)> {
        let cpus = self.points().filter_map(|point| point.limit.cpus());
        let x = Range::of(cpus.chain([self.used_cpus]))?;
        let means = self
            .points()
            .filter_map(|point| Some(value(point, measure)?.mean));
        let measured = self
            .measured
            .iter()
            .filter_map(|one| Some(one.values[measure]?[0]));
        let promised = self.measures[measure].promised;
        let y = Range::of(means.chain(measured).chain(promised))?;
        Some((x, y))
    }

    fn legend(&self) -> String {
        let lines = self.lines.iter().enumerate();
        let name = |(index, line): (usize, &super::Line)| {
            format!("{} {}", MARKS[index % MARKS.len()], line.name())
        };
        let mut parts: Vec<String> = lines.map(name).collect();
        if self.recorded_point().is_some() {
            parts.push(format!("{RECORDED} as recorded, simulated"));
        }
        if !self.measured.is_empty() {
            parts.push(format!("{MEASURED} measured"));
        }
        parts.join("   ")
    }
}

/// The axis of quotas with its numbers.
fn axis(x: &Range, wide: usize) -> String {
    let mut line = vec!['─'; wide];
    let mut numbers = vec![' '; wide + RIGHT];
    let mut free = 0;
    for mark in x.marks() {
        let at = (x.share(mark) * (wide - 1) as f64).round() as usize;
        let text = number(mark);
        let begin = at.saturating_sub(text.len() / 2);
        if begin < free || at >= wide {
            continue;
        }
        line[at] = '┬';
        for (place, character) in numbers[begin..].iter_mut().zip(text.chars()) {
            *place = character;
        }
        free = begin + text.len() + 1;
    }
    let line: String = line.into_iter().collect();
    let numbers: String = numbers.into_iter().collect();
    let left = " ".repeat(LEFT - 1);
    format!("{left}└{line}\n{left} {} CPU\n", numbers.trim_end())
}

/// A value without digits that say nothing.
pub(super) fn number(value: f64) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 1.0 => 1,
        value if value >= 0.1 => 2,
        _ => 4,
    };
    decimals(value, digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::tests::two_lines;

    #[test]
    fn a_plot_shows_every_line_the_promise_and_what_was_recorded() {
        let plot = Drawn(&two_lines()).plot(0, 70);
        insta::assert_snapshot!(plot);
    }

    #[test]
    fn marks_of_an_axis_are_round() {
        let range = Range::of([0.4, 1.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [0.4, 0.5, 0.6, 0.8, 1.0]);
        let range = Range::of([12.0, 900.0].into_iter()).unwrap();
        assert_eq!(range.marks(), [20.0, 50.0, 100.0, 200.0, 500.0]);
        assert!((range.at(range.share(50.0)) - 50.0).abs() < 1e-9);
        assert!(Range::of([0.0].into_iter()).is_none());
    }
}
