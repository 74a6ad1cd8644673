//! The frontier as CSV and JSON.

use super::{Frontier, Point};
use schedcast_lab::sweep::csv_line;

impl Frontier {
    /// One row a limit: the limit, of each measure mean and both ends of the interval, what
    /// throttling and neighbours show.
    pub fn csv(&self) -> String {
        let mut header = ["quota_us", "period_us", "burst_us", "cpus"]
            .map(str::to_owned)
            .to_vec();
        for measure in &self.measures {
            let ends = ["", ".low", ".high", ".at_least"];
            header.extend(ends.map(|end| format!("{}{end}", measure.metric)));
        }
        header.extend(
            [
                "periods_throttled",
                "falls_behind",
                "neighbour",
                "neighbour_growth",
                "neighbour_growth_at_most",
            ]
            .map(str::to_owned),
        );
        let mut csv = csv_line(&header);
        for point in self.points() {
            csv += &row(point);
        }
        csv
    }

    /// As indented JSON, ending in a newline.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

fn row(point: &Point) -> String {
    let limit = point.limit;
    let quota = limit
        .quota_us
        .map_or("max".to_string(), |us| us.to_string());
    let cpus = limit.cpus().map_or(String::new(), |cpus| cpus.to_string());
    let mut row = vec![
        quota,
        limit.period_us.to_string(),
        limit.burst_us.to_string(),
        cpus,
    ];
    for value in &point.values {
        row.extend(value.as_ref().map_or_else(Default::default, |one| {
            let [low, high] = one.interval;
            [
                one.mean.to_string(),
                low.to_string(),
                high.to_string(),
                one.at_least.to_string(),
            ]
        }));
    }
    row.push(point.periods_throttled.to_string());
    row.push(point.falls_behind.is_some().to_string());
    row.extend(point.price.as_ref().map_or_else(Default::default, |price| {
        [
            price.threads.clone(),
            price.growth.to_string(),
            price.growth_at_most.to_string(),
        ]
    }));
    csv_line(&row)
}
