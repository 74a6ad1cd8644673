//! The [frontier](schedcast_advise::frontier) to look at: a plot and a table for a terminal, a
//! picture, and what a sweep of a recording leaves on disk.
//!
//! Worked example: `Drawn(&frontier).plot(0, 70)` is the first measure against the quota in 70
//! columns.

mod plot;
mod svg;
mod table;

use std::ops::Deref;
use std::path::Path;

use schedcast_advise::frontier::{Frontier, Line, Point, Value};
use schedcast_base::fresh;
use schedcast_lab::error::{Error, Result};

/// A frontier that is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Drawn<'a>(pub &'a Frontier);

impl Deref for Drawn<'_> {
    type Target = Frontier;

    fn deref(&self) -> &Frontier {
        self.0
    }
}

impl Drawn<'_> {
    /// Writes `results.csv`, `results.json` and `frontier.svg` into `folder`.
    ///
    /// # Errors
    /// A folder that cannot be made or written into.
    pub fn save(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::file("create", folder.display(), &error))?;
        let picture = self.svg(self.first_measure());
        for (name, text) in [
            ("results.csv", self.csv()),
            ("results.json", self.to_json()),
            ("frontier.svg", picture),
        ] {
            let path = folder.join(name);
            fresh::save(&path, text)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schedcast_advise::frontier::{Measure, MeasuredPoint, SCHEMA};
    use schedcast_base::limits::CpuLimits;

    use super::*;

    /// Two lines, a promise, what was recorded and what was measured.
    pub(super) fn two_lines() -> Frontier {
        let value = |mean: f64| {
            Some(Value {
                mean,
                at_least: false,
                interval: [mean * 0.8, mean * 1.3],
            })
        };
        let grant = |quota_us: Option<u64>, burst_us: u64| CpuLimits {
            quota_us,
            period_us: 100_000,
            burst_us,
        };
        let point = |quota_us: Option<u64>, burst_us: u64, mean_ms: f64| Point {
            limit: grant(quota_us, burst_us),
            values: vec![value(mean_ms * 1000.0)],
            falls_behind: None,
            price: None,
            periods_throttled: 0.1,
        };
        let line = |burst_us: u64, means_ms: [f64; 4]| Line {
            burst_us,
            points: [40_000, 50_000, 70_000, 100_000]
                .into_iter()
                .zip(means_ms)
                .map(|(quota_us, mean_ms)| point(Some(quota_us), burst_us, mean_ms))
                .collect(),
        };
        Frontier {
            schema: SCHEMA,
            target: "/pg".to_string(),
            seeds: 10,
            used_cpus: 0.4,
            recorded: grant(Some(50_000), 0),
            measures: vec![Measure {
                metric: "postgres/request_latency.p95".to_string(),
                name: "request_latency.p95".to_string(),
                unit: "us",
                seen: None,
                promised: Some(40_000.0),
                from_above: true,
            }],
            lines: vec![
                line(0, [320.0, 92.0, 24.0, 15.5]),
                line(25_000, [110.0, 27.0, 16.0, 15.2]),
            ],
            unlimited: point(None, 0, 15.2),
            measured: vec![MeasuredPoint {
                limit: grant(Some(50_000), 25_000),
                values: vec![Some([21_000.0, 20_600.0, 35_400.0])],
            }],
        }
    }
}
