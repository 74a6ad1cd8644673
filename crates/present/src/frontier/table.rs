//! The points of a frontier as lines of text: a row a quota, a column a burst.

use super::Drawn;
use super::plot::value;
use crate::tables::{Scale, pad_left, scale_for, wrap_to};
use schedcast_lab::metrics;

/// Columns of a quota, and of a value with its band.
const QUOTA: usize = 9;
const CELL: usize = 24;

impl Drawn<'_> {
    /// The values of one measure. `*` marks what keeps the promise.
    pub fn table(&self, measure: usize, columns: usize) -> String {
        let shown = &self.measures[measure];
        let means = self
            .points()
            .filter_map(|point| Some(value(point, measure)?.mean));
        let recorded = self
            .recorded_point()
            .and_then(|point| value(point, measure));
        let largest = recorded.map_or(means.fold(0.0, f64::max), |value| value.mean);
        let scale = metrics::parse(&shown.metric).map_or(
            Scale {
                divisor: 1.0,
                unit: "",
                digits: 1,
            },
            |metric| scale_for(&metric, largest),
        );
        let unit = scale.in_brackets();
        let promised = shown.promised.map_or(String::new(), |promised| {
            let sign = if shown.from_above { "<" } else { ">" };
            format!("; * keeps the promise of {sign} {}", scale.number(promised))
        });
        let seeds = self.seeds;
        let head = format!(
            "{}{unit} of {}: mean of {seeds} seeds, ≤ the end of the 95 % interval of one run{promised}",
            shown.metric, self.target
        );
        let words: Vec<String> = head.split(' ').map(str::to_string).collect();
        let mut text = wrap_to(columns, "", &words, 2);
        let fits = columns.saturating_sub(QUOTA) / CELL;
        for lines in self.lines.chunks(fits.max(1)) {
            text += &pad_left("quota", QUOTA);
            for line in lines {
                text += &pad_left(&line.name(), CELL);
            }
            text.push('\n');
            for row in 0..lines[0].points.len() {
                let quota_us = lines[0].points[row].limit.quota_us.unwrap_or(0);
                text += &pad_left(&format!("{} ms", quota_us as f64 / 1000.0), QUOTA);
                for line in lines {
                    text += &pad_left(&self.cell(&line.points[row], measure, &scale), CELL);
                }
                text.push('\n');
            }
        }
        text += &pad_left("no limit", QUOTA);
        text + &pad_left(&self.cell(&self.unlimited, measure, &scale), CELL) + "\n"
    }

    fn cell(&self, point: &super::Point, measure: usize, scale: &Scale) -> String {
        let Some(value) = value(point, measure) else {
            return "-".to_string();
        };
        let shown = &self.measures[measure];
        let worse = value.interval[usize::from(shown.from_above)];
        let sign = if shown.from_above { "≤" } else { "≥" };
        let star = match self.keeps(point, measure) {
            true => " *",
            false => "",
        };
        let recorded = if point.limit == self.recorded {
            "R "
        } else {
            ""
        };
        match point.falls_behind.is_some() {
            true => format!(
                "{recorded}{} falls behind",
                scale.bound(value.mean, value.at_least)
            ),
            false => format!(
                "{recorded}{} {sign}{}{star}",
                scale.bound(value.mean, value.at_least),
                scale.number(worse)
            ),
        }
    }

    /// Whether the worse end of the interval keeps what is promised of a measure.
    fn keeps(&self, point: &super::Point, measure: usize) -> bool {
        let shown = &self.measures[measure];
        let (Some(value), Some(promised)) = (value(point, measure), shown.promised) else {
            return false;
        };
        let [low, high] = value.interval;
        let kept = match shown.from_above {
            true => high < promised && !value.at_least,
            false => low > promised,
        };
        kept && point.falls_behind.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Drawn;
    use crate::frontier::tests::two_lines;

    #[test]
    fn a_table_has_a_row_for_each_quota_and_a_column_for_each_burst() {
        insta::assert_snapshot!(Drawn(&two_lines()).table(0, 80));
    }
}
