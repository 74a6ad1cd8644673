//! The frontier as CSV and JSON.

use std::fmt::Write;

use super::{Frontier, Point};

impl Frontier {
    /// One row a limit: the limit, of each measure mean and both ends of the interval, what
    /// throttling and neighbours show.
    pub fn csv(&self) -> String {
        let mut csv = String::from("quota_us,period_us,burst_us,cpus");
        for measure in &self.measures {
            let name = &measure.metric;
            let _ = write!(csv, ",{name},{name}.low,{name}.high,{name}.at_least");
        }
        csv +=
            ",periods_throttled,falls_behind,neighbour,neighbour_growth,neighbour_growth_at_most\n";
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
    let mut row = format!("{quota},{},{},{cpus}", limit.period_us, limit.burst_us);
    for value in &point.values {
        match value {
            None => row += ",,,,",
            Some(one) => {
                let [low, high] = one.interval;
                let _ = write!(row, ",{},{low},{high},{}", one.mean, one.at_least);
            }
        }
    }
    let _ = write!(
        row,
        ",{},{}",
        point.periods_throttled,
        point.falls_behind.is_some()
    );
    match &point.price {
        None => row += ",,,",
        Some(price) => {
            let (growth, most) = (price.growth, price.growth_at_most);
            // A thread's name may have a comma in it.
            let threads = price.threads.replace('"', "\"\"");
            let _ = write!(row, ",\"{threads}\",{growth},{most}");
        }
    }
    row + "\n"
}
