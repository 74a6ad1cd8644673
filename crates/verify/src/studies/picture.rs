//! Lines as SVG: axes with round numbers, a name beside each line's colour.
//!
//! Worked example: values from 0 to 22.7 get marks at 0, 5, 10, 15 and 20, the largest of 1, 2, 5
//! times a power of ten that gives at least four steps.

use schedcast_base::columns::decimals;
use schedcast_present::svg::{begin, line, polyline, text};

use super::prediction::Series;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 48.0;
/// Dark and apart from each other, also without colour vision.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#555555",
];

/// Values along one axis and their places.
struct Scale {
    low: f64,
    high: f64,
    begin: f64,
    end: f64,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Scale {
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        if high <= low {
            high = low + 1.0;
        }
        Scale {
            low,
            high,
            begin,
            end,
        }
    }

    fn place(&self, value: f64) -> f64 {
        self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)
    }

    fn marks(&self) -> Vec<f64> {
        let step = step(self.high - self.low);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|mark| mark as f64 * step).collect()
    }
}

/// The largest round step that divides `range` at least four times.
fn step(range: f64) -> f64 {
    let mut power = 1e-9;
    while power * 40.0 <= range {
        power *= 10.0;
    }
    let fits = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|&many| many * power * 4.0 <= range);
    fits.unwrap_or(1.0) * power
}

/// The picture. Empty axes where there is nothing to show.
pub(super) fn draw(title: &str, axes: &[String; 2], series: &[Series]) -> String {
    let points = || series.iter().flat_map(|line| &line.points);
    let x = Scale::new(points().map(|&(x, _)| x), LEFT, WIDTH - RIGHT);
    let y = Scale::new(points().map(|&(_, y)| y), HEIGHT - BOTTOM, TOP);
    let mut svg = begin([WIDTH, HEIGHT], LEFT, title);
    for mark in x.marks() {
        let at = x.place(mark);
        line(&mut svg, [at, HEIGHT - BOTTOM, at, TOP]);
        let below = [at, HEIGHT - BOTTOM + 16.0];
        text(&mut svg, below, "middle", &number(mark));
    }
    for mark in y.marks() {
        let at = y.place(mark);
        line(&mut svg, [LEFT, at, WIDTH - RIGHT, at]);
        text(&mut svg, [LEFT - 6.0, at + 4.0], "end", &number(mark));
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    text(&mut svg, [middle, HEIGHT - 10.0], "middle", &axes[0]);
    let upright = format!("↑ {}", axes[1]);
    text(&mut svg, [LEFT, TOP - 24.0], "start", &upright);
    let mut legend = LEFT;
    for (row, one) in series.iter().enumerate() {
        let colour = COLOURS[row % COLOURS.len()];
        let places = one
            .points
            .iter()
            .map(|&(px, py)| [x.place(px), y.place(py)]);
        polyline(&mut svg, &places.collect::<Vec<_>>(), colour, 1.6);
        svg += &format!(
            "<rect x=\"{legend}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>\n",
            TOP - 17.0
        );
        text(&mut svg, [legend + 14.0, TOP - 8.0], "start", &one.name);
        legend += 26.0 + 6.6 * one.name.chars().count() as f64;
    }
    svg + "</svg>\n"
}

fn number(value: f64) -> String {
    decimals(value, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_contains;

    #[test]
    fn marks_are_round() {
        let scale = |high: f64| Scale::new([0.0, high].into_iter(), 0.0, 1.0).marks();
        assert_eq!(scale(22.7), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(scale(100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(step(0.9), 0.2);
        assert!(!scale(0.0).is_empty());
    }

    #[test]
    fn names_are_escaped_and_lines_are_drawn() {
        let series = [Series {
            name: "a < b".into(),
            points: vec![(0.0, 0.0), (1.0, 2.0)],
        }];
        let svg = draw("t", &["x".into(), "y".into()], &series);
        assert_contains(
            &svg,
            ["a &lt; b", "<polyline points=\"64.0,332.0 744.0,56.0\""],
        );
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
