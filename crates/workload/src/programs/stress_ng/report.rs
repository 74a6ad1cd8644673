//! stress-ng's own lines.

use super::Options;
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results};

impl Options {
    /// The forecast has no process numbers, so every line says 1.
    fn line(&self, kind: &str, message: &str) -> String {
        if self.brief {
            return format!("{message}\n");
        }
        format!("stress-ng: {kind:<6} [1] {message}\n")
    }

    fn table(&self, results: &Results, seconds: f64, workers: u64) -> String {
        let operations = results.count("operations") / 1_000_000;
        let cpu_s = results.cpu_s();
        let rate = |time_s: f64| {
            if time_s > 0.0 {
                operations as f64 / time_s
            } else {
                0.0
            }
        };
        let mut heads = [
            "stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s",
            "                          (secs)    (secs)    (secs)   (real time) (usr+sys time)",
        ]
        .map(str::to_owned);
        let mut row = format!(
            "{:<13} {operations:>9} {seconds:>9.2} {cpu_s:>9.2} {:>9.2} {:>12.2} {:>14.2}",
            "cpu",
            0.0,
            rate(seconds),
            rate(cpu_s)
        );
        if self.metrics_wide {
            heads[0] += " CPU used per       RSS Max";
            heads[1] += " instance (%)          (KB)";
            let used = match seconds > 0.0 {
                true => 100.0 * cpu_s / seconds / workers.max(1) as f64,
                false => 0.0,
            };
            row += &format!(" {used:>12.2} {:>13}", 0);
        }
        let [first, second] = heads;
        [first, second, row]
            .iter()
            .map(|line| self.line("metrc:", line))
            .collect()
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        Some(self.timeout_ns)
    }

    fn endless_without(&self) -> Option<&'static str> {
        // A day, as the tool takes it, is longer than any simulation.
        (!self.timeout_given && self.operations.is_none()).then_some("-t 20s or --cpu-ops 1000")
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(map, "time", results.seconds("time"));
        let operations = results.count("operations") as f64 / 1e6;
        results.put(map, "operations", Some(operations));
    }

    fn report(&self, results: &Results) -> String {
        if self.quiet {
            return String::new();
        }
        let workers = self.workers;
        let seconds = results.time_s();
        let timeout_s = self.timeout_ns / 1_000_000_000;
        let long = long_time(timeout_s as f64);
        let setting = match self.timeout_given {
            true => format!("setting to a {timeout_s} second{long} run per stressor"),
            false => format!("defaulting to a {timeout_s} second{long} run per stressor"),
        };
        let mut text = self.line("info:", &setting);
        text += &self.line("info:", &format!("dispatching hogs: {workers} cpu"));
        if self.metrics {
            text += &self.table(results, seconds, workers);
        }
        let end = format!(
            "successful run completed in {seconds:.2}s{}",
            long_time(seconds)
        );
        text + &self.line("info:", &end)
    }
}

/// " (1 hour, 2 mins, 3.00 secs)" from a minute on.
fn long_time(seconds: f64) -> String {
    if seconds < 60.0 {
        return String::new();
    }
    let whole = seconds as u64;
    let mut parts = Vec::new();
    let units = [
        (86_400, "day", u64::MAX),
        (3600, "hour", 24),
        (60, "min", 60),
    ];
    for (unit_s, name, wrap) in units {
        let count = whole / unit_s % wrap;
        if count > 0 {
            let plural = if count == 1 { "" } else { "s" };
            parts.push(format!("{count} {name}{plural}"));
        }
    }
    let rest = seconds - (whole / 60 * 60) as f64;
    format!(" ({}, {rest:.2} secs)", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_said_in_words() {
        assert_eq!(long_time(59.9), "");
        assert_eq!(long_time(86_400.0), " (1 day, 0.00 secs)");
        assert_eq!(long_time(100.25), " (1 min, 40.25 secs)");
        assert_eq!(long_time(7325.0), " (2 hours, 2 mins, 5.00 secs)");
    }
}
