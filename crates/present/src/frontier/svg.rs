//! The frontier as a picture: an SVG that needs nothing around it.

use std::fmt::Write;

use super::plot::{Range, number, value};
use super::{Drawn, Point};
use crate::svg::{begin, escape, line, text};
use crate::tables::scale_for;
use schedcast_lab::metrics;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 64.0;
/// Room for the names of the lines at their ends.
const RIGHT: f64 = 150.0;
/// The upper and the lower edge of the latency, and of what the neighbours pay.
const LATENCY: [f64; 2] = [56.0, 336.0];
const PRICE: [f64; 2] = [392.0, 464.0];
const HEIGHT: f64 = 510.0;
/// Least distance of two names, so that none is printed over another.
const APART: f64 = 14.0;
/// Dark and apart from each other, also without colour vision.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#008060", "#5b4b9e"];

impl Drawn<'_> {
    /// The picture of one measure.
    pub(crate) fn svg(&self, measure: usize) -> String {
        let shown = &self.measures[measure];
        let Some((x, y)) = self.ranges_with_bands(measure) else {
            return String::new();
        };
        let across = |cpus: f64| LEFT + x.share(cpus).clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT);
        let up =
            |value: f64| LATENCY[1] - y.share(value).clamp(0.0, 1.0) * (LATENCY[1] - LATENCY[0]);
        let largest = self
            .points()
            .filter_map(|point| Some(value(point, measure)?.mean));
        let scale = metrics::parse(&shown.metric)
            .map(|metric| scale_for(&metric, largest.fold(0.0, f64::max)));
        let (divisor, unit) = scale.map_or((1.0, ""), |scale| (scale.divisor, scale.unit));
        let title = format!("{} of {} by its limit", shown.name, self.target);
        let mut svg = begin([WIDTH, HEIGHT], LEFT, &title);
        text(
            &mut svg,
            LEFT,
            40.0,
            "start",
            format!("↑ {} {unit}", shown.name).trim_end(),
        );
        for mark in y.marks() {
            line(&mut svg, [LEFT, up(mark), WIDTH - RIGHT, up(mark)]);
            text(
                &mut svg,
                LEFT - 6.0,
                up(mark) + 4.0,
                "end",
                &number(mark / divisor),
            );
        }
        let mut free = 0.0;
        for mark in x.marks() {
            line(
                &mut svg,
                [across(mark), LATENCY[1], across(mark), LATENCY[0]],
            );
            if across(mark) >= free {
                text(
                    &mut svg,
                    across(mark),
                    PRICE[1] + 18.0,
                    "middle",
                    &number(mark),
                );
                free = across(mark) + 34.0;
            }
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(&mut svg, middle, HEIGHT - 8.0, "middle", "limit, CPUs");
        for (index, one) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            band(&mut svg, &one.points, measure, colour, &across, &up);
        }
        let mut ends: Vec<(f64, String, &str)> = Vec::new();
        for (index, one) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places = one.points.iter().filter_map(|point| {
                Some((across(point.limit.cpus()?), up(value(point, measure)?.mean)))
            });
            let places: Vec<(f64, f64)> = places.collect();
            path(&mut svg, &places, colour);
            ends.extend(places.last().map(|(_, y)| (*y, one.name(), colour)));
        }
        if let Some(value) = value(&self.unlimited, measure) {
            ends.push((up(value.mean), "no limit".to_string(), "#555555"));
            dashed(&mut svg, up(value.mean), "#555555");
        }
        if let Some(promised) = shown.promised {
            dashed(&mut svg, up(promised), "#b3261e");
            ends.push((
                up(promised),
                format!("promised {} {unit}", number(promised / divisor)),
                "#b3261e",
            ));
        }
        names(&mut svg, ends);
        for point in &self.measured {
            if let (Some(cpus), Some([median, least, most])) =
                (point.limit.cpus(), point.values[measure])
            {
                let colour = self.colour_of(point.limit.burst_us);
                let (at, median) = (across(cpus), up(median));
                let _ = writeln!(
                    svg,
                    "<path d=\"M{at:.1} {:.1}V{:.1}\" stroke=\"{colour}\"/>\n\
                     <rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"white\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                    up(least),
                    up(most),
                    at - 4.0,
                    median - 4.0
                );
            }
        }
        if let (Some(cpus), Some(value)) = (
            self.recorded.cpus(),
            self.points()
                .find(|point| point.limit == self.recorded)
                .and_then(|point| value(point, measure)),
        ) {
            let (at, high) = (across(cpus), up(value.mean));
            let _ = writeln!(
                svg,
                "<circle cx=\"{at:.1}\" cy=\"{high:.1}\" r=\"6\" fill=\"none\" stroke=\"black\" stroke-width=\"2\"/>"
            );
            text(&mut svg, at + 10.0, high - 8.0, "start", "recorded limit");
        }
        self.prices(&mut svg, &across);
        svg + "</svg>\n"
    }

    /// As the plot's, with room for the bands.
    fn ranges_with_bands(&self, measure: usize) -> Option<(Range, Range)> {
        let (x, _) = self.ranges(measure)?;
        let ends = self.points().filter_map(|point| value(point, measure));
        let ends = ends.flat_map(|one| [one.mean, one.interval[0], one.interval[1]]);
        let measured = self.measured.iter().filter_map(|one| one.values[measure]);
        let promised = self.measures[measure].promised;
        let y = Range::of(ends.chain(measured.flatten()).chain(promised))?;
        Some((x, y))
    }

    fn colour_of(&self, burst_us: u64) -> &'static str {
        let row = self.lines.iter().position(|one| one.burst_us == burst_us);
        row.map_or("#555555", |row| COLOURS[row % COLOURS.len()])
    }

    /// Below the latency: how much worse the neighbour that loses most becomes.
    fn prices(&self, svg: &mut String, across: &impl Fn(f64) -> f64) {
        let all = || self.points().filter_map(|point| point.price.as_ref());
        if all().next().is_none() {
            text(
                svg,
                LEFT,
                PRICE[0] + 20.0,
                "start",
                "no neighbour used enough CPU time to pay",
            );
            return;
        }
        let most = all().map(|price| price.growth.abs()).fold(0.05, f64::max);
        let middle = f64::midpoint(PRICE[0], PRICE[1]);
        let up = |growth: f64| middle - (growth / most).clamp(-1.0, 1.0) * (middle - PRICE[0]);
        text(
            svg,
            LEFT,
            PRICE[0] - 10.0,
            "start",
            "↑ what the neighbour that loses most pays, %",
        );
        for growth in [-most, 0.0, most] {
            line(svg, [LEFT, up(growth), WIDTH - RIGHT, up(growth)]);
            let words = format!("{:+.0}", growth * 100.0);
            text(svg, LEFT - 6.0, up(growth) + 4.0, "end", &words);
        }
        for (index, one) in self.lines.iter().enumerate() {
            let places = one.points.iter().filter_map(|point| {
                Some((
                    across(point.limit.cpus()?),
                    up(point.price.as_ref()?.growth),
                ))
            });
            let places: Vec<(f64, f64)> = places.collect();
            path(svg, &places, COLOURS[index % COLOURS.len()]);
        }
    }
}

fn path(svg: &mut String, places: &[(f64, f64)], colour: &str) {
    let points: Vec<String> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        points.join(" ")
    );
    for (x, y) in places {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
        );
    }
}

fn dashed(svg: &mut String, at: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"{colour}\" stroke-dasharray=\"6 4\"/>",
        WIDTH - RIGHT
    );
}

/// The area between the ends of the intervals.
fn band(
    svg: &mut String,
    points: &[Point],
    measure: usize,
    colour: &str,
    across: &impl Fn(f64) -> f64,
    up: &impl Fn(f64) -> f64,
) {
    let end = |side: usize| {
        points.iter().filter_map(move |point| {
            let value = value(point, measure)?;
            Some(format!(
                "{:.1},{:.1}",
                across(point.limit.cpus()?),
                up(value.interval[side])
            ))
        })
    };
    let mut outline: Vec<String> = end(1).collect();
    let low: Vec<String> = end(0).collect();
    outline.extend(low.into_iter().rev());
    let _ = writeln!(
        svg,
        "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.13\"/>",
        outline.join(" ")
    );
}

/// Names at the ends of lines, moved apart where they would be printed over each other.
fn names(svg: &mut String, mut ends: Vec<(f64, String, &str)>) {
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = 0.0;
    for (at, name, colour) in ends {
        let at = f64::max(at, free);
        free = at + APART;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>",
            WIDTH - RIGHT + 8.0,
            at + 4.0,
            escape(&name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::Drawn;
    use crate::frontier::tests::two_lines;

    #[test]
    fn a_picture_has_a_line_and_a_band_for_each_burst() {
        let svg = Drawn(&two_lines()).svg(0);
        assert_eq!(svg.matches("<polygon").count(), 2);
        for words in [
            "no burst",
            "burst 25 ms",
            "no limit",
            "promised 40 ms",
            "recorded limit",
        ] {
            assert!(svg.contains(&format!(">{words}")), "{words}: {svg}");
        }
        // Names of lines never stand over each other.
        let places = svg
            .lines()
            .filter(|line| line.contains("fill=\"#"))
            .filter_map(|line| {
                let rest = line.strip_prefix("<text x=\"618\" y=\"")?;
                rest.split('"').next()?.parse::<f64>().ok()
            });
        let mut places: Vec<f64> = places.collect();
        assert_eq!(places.len(), 4);
        places.sort_by(f64::total_cmp);
        assert!(
            places.windows(2).all(|two| two[1] - two[0] >= 13.9),
            "{places:?}"
        );
    }
}
