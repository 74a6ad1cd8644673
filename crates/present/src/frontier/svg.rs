//! The frontier as a picture: an SVG that needs nothing around it.

use super::plot::{Range, number, value};
use super::{Drawn, Line, Point, Value};
use crate::svg::{begin, escape, line, polyline, text};
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

/// The axes of a picture of one measure.
struct Plane {
    x: Range,
    y: Range,
    measure: usize,
}

impl Plane {
    fn across(&self, cpus: f64) -> f64 {
        LEFT + self.x.share(cpus).clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT)
    }

    fn up(&self, value: f64) -> f64 {
        LATENCY[1] - self.y.share(value).clamp(0.0, 1.0) * (LATENCY[1] - LATENCY[0])
    }

    /// Where a number of a point's value stands, if it has one and a limit.
    fn place(&self, point: &Point, of: impl Fn(&Value) -> f64) -> Option<[f64; 2]> {
        let cpus = point.limit.cpus()?;
        Some([self.across(cpus), self.up(of(&value(point, self.measure)?))])
    }

    /// The grid and its numbers, those of the measure divided.
    fn grid(&self, svg: &mut String, divisor: f64) {
        for mark in self.y.marks() {
            let at = self.up(mark);
            line(svg, [LEFT, at, WIDTH - RIGHT, at]);
            let words = number(mark / divisor);
            text(svg, [LEFT - 6.0, at + 4.0], "end", &words);
        }
        let mut free = 0.0;
        for mark in self.x.marks() {
            let at = self.across(mark);
            line(svg, [at, LATENCY[1], at, LATENCY[0]]);
            if at >= free {
                text(svg, [at, PRICE[1] + 18.0], "middle", &number(mark));
                free = at + 34.0;
            }
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(svg, [middle, HEIGHT - 8.0], "middle", "limit, CPUs");
    }

    /// The area between the ends of the intervals.
    fn band(&self, svg: &mut String, points: &[Point], colour: &str) {
        let end = |side: usize| {
            points
                .iter()
                .filter_map(move |point| self.place(point, |one| one.interval[side]))
        };
        let low: Vec<[f64; 2]> = end(0).collect();
        let outline = end(1).chain(low.into_iter().rev());
        let outline: Vec<String> = outline.map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        *svg += &format!(
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.13\"/>\n",
            outline.join(" ")
        );
    }
}

impl Drawn<'_> {
    /// The picture of one measure.
    pub(crate) fn svg(&self, measure: usize) -> String {
        let shown = &self.measures[measure];
        let Some((x, y)) = self.ranges_with_bands(measure) else {
            return String::new();
        };
        let plane = Plane { x, y, measure };
        let means = self
            .points()
            .filter_map(|point| Some(value(point, measure)?.mean));
        let metric = metrics::parse(&shown.metric);
        let scale = metric.map(|metric| scale_for(&metric, means.fold(0.0, f64::max)));
        let (divisor, unit) = scale.map_or((1.0, ""), |scale| (scale.divisor, scale.unit));
        let title = format!("{} of {} by its limit", shown.name, self.target);
        let mut svg = begin([WIDTH, HEIGHT], LEFT, &title);
        let upright = format!("↑ {} {unit}", shown.name);
        text(&mut svg, [LEFT, 40.0], "start", upright.trim_end());
        plane.grid(&mut svg, divisor);
        for (one, colour) in self.coloured() {
            plane.band(&mut svg, &one.points, colour);
        }
        let mut ends: Vec<(f64, String, &str)> = Vec::new();
        for (one, colour) in self.coloured() {
            let places = one.points.iter();
            let places: Vec<_> = places
                .filter_map(|one| plane.place(one, |one| one.mean))
                .collect();
            path(&mut svg, &places, colour);
            ends.extend(places.last().map(|[_, y]| (*y, one.name(), colour)));
        }
        if let Some(value) = value(&self.unlimited, measure) {
            ends.push((plane.up(value.mean), "no limit".to_string(), "#555555"));
            dashed(&mut svg, plane.up(value.mean), "#555555");
        }
        if let Some(promised) = shown.promised {
            dashed(&mut svg, plane.up(promised), "#b3261e");
            let words = format!("promised {} {unit}", number(promised / divisor));
            ends.push((plane.up(promised), words, "#b3261e"));
        }
        names(&mut svg, ends);
        self.measured_ranges(&mut svg, &plane);
        let recorded = self.points().find(|point| point.limit == self.recorded);
        if let Some([at, high]) = recorded.and_then(|point| plane.place(point, |one| one.mean)) {
            svg += &format!(
                "<circle cx=\"{at:.1}\" cy=\"{high:.1}\" r=\"6\" fill=\"none\" stroke=\"black\" stroke-width=\"2\"/>\n"
            );
            text(&mut svg, [at + 10.0, high - 8.0], "start", "recorded limit");
        }
        self.prices(&mut svg, &plane);
        svg + "</svg>\n"
    }

    /// The lines, one for each burst, with their colours.
    fn coloured(&self) -> impl Iterator<Item = (&Line, &'static str)> {
        self.lines.iter().zip(COLOURS.into_iter().cycle())
    }

    /// Median and range of what was measured.
    fn measured_ranges(&self, svg: &mut String, plane: &Plane) {
        for point in &self.measured {
            let (Some(cpus), Some(seen)) = (point.limit.cpus(), point.values[plane.measure]) else {
                continue;
            };
            let row = self
                .lines
                .iter()
                .position(|one| one.burst_us == point.limit.burst_us);
            let colour = row.map_or("#555555", |row| COLOURS[row % COLOURS.len()]);
            let (at, [median, least, most]) =
                (plane.across(cpus), seen.map(|value| plane.up(value)));
            *svg += &format!(
                "<path d=\"M{at:.1} {least:.1}V{most:.1}\" stroke=\"{colour}\"/>\n\
                 <rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"white\" stroke=\"{colour}\" stroke-width=\"2\"/>\n",
                at - 4.0,
                median - 4.0
            );
        }
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

    /// Below the latency: how much worse the neighbour that loses most becomes.
    fn prices(&self, svg: &mut String, plane: &Plane) {
        let all = || self.points().filter_map(|point| point.price.as_ref());
        if all().next().is_none() {
            let words = "no neighbour used enough CPU time to pay";
            return text(svg, [LEFT, PRICE[0] + 20.0], "start", words);
        }
        let most = all().map(|price| price.growth.abs()).fold(0.05, f64::max);
        let middle = f64::midpoint(PRICE[0], PRICE[1]);
        let up = |growth: f64| middle - (growth / most).clamp(-1.0, 1.0) * (middle - PRICE[0]);
        let words = "↑ what the neighbour that loses most pays, %";
        text(svg, [LEFT, PRICE[0] - 10.0], "start", words);
        for growth in [-most, 0.0, most] {
            line(svg, [LEFT, up(growth), WIDTH - RIGHT, up(growth)]);
            let words = format!("{:+.0}", growth * 100.0);
            text(svg, [LEFT - 6.0, up(growth) + 4.0], "end", &words);
        }
        for (one, colour) in self.coloured() {
            let places = one.points.iter().filter_map(|point| {
                let growth = point.price.as_ref()?.growth;
                Some([plane.across(point.limit.cpus()?), up(growth)])
            });
            path(svg, &places.collect::<Vec<_>>(), colour);
        }
    }
}

fn path(svg: &mut String, places: &[[f64; 2]], colour: &str) {
    polyline(svg, places, colour, 2.0);
    for [x, y] in places {
        *svg += &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n");
    }
}

fn dashed(svg: &mut String, at: f64, colour: &str) {
    *svg += &format!(
        "<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"{colour}\" stroke-dasharray=\"6 4\"/>\n",
        WIDTH - RIGHT
    );
}

/// Names at the ends of lines, moved apart where they would be printed over each other.
fn names(svg: &mut String, mut ends: Vec<(f64, String, &str)>) {
    ends.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = 0.0;
    for (at, name, colour) in ends {
        let at = f64::max(at, free);
        free = at + APART;
        *svg += &format!(
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>\n",
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
    use schedcast_base::assert_contains;

    #[test]
    fn a_picture_has_a_line_and_a_band_for_each_burst() {
        let svg = Drawn(&two_lines()).svg(0);
        assert_eq!(svg.matches("<polygon").count(), 2);
        for words in "no burst|burst 25 ms|no limit|promised 40 ms|recorded limit".split('|') {
            assert_contains(&svg, &format!(">{words}"));
        }
        // Names of lines never stand over each other.
        let names = svg.lines().filter(|line| line.contains("fill=\"#"));
        let places = names.filter_map(|line| {
            let rest = line.strip_prefix("<text x=\"618\" y=\"")?;
            rest.split('"').next()?.parse::<f64>().ok()
        });
        let mut places: Vec<f64> = places.collect();
        assert_eq!(places.len(), 4);
        places.sort_by(f64::total_cmp);
        let mut pairs = places.windows(2);
        assert!(pairs.all(|two| two[1] - two[0] >= 13.9), "{places:?}");
    }
}
