//! Rates and latencies, and wrk's own table.

use schedcast_sim::histogram::Histogram;

use super::Options;
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results, deviation};

impl Options {
    fn measured_s(&self, results: &Results) -> f64 {
        let planned_s = self.duration_ns as f64 / 1e9;
        // Without what came before statistics count.
        let since_ns = results.probes.since.saturating_sub(results.start_ns);
        (planned_s.min(results.elapsed_s()) - since_ns as f64 / 1e9).max(0.0)
    }

    fn rate(&self, results: &Results) -> Option<f64> {
        let count = results.values("latency")?.count();
        let measured_s = self.measured_s(results);
        (measured_s > 0.0).then(|| count as f64 / measured_s)
    }

    /// Latencies with those that wrk adds (`stats_correct`): while one request was late, its
    /// connection sent none, so each that would have come meanwhile is counted with what it would
    /// have waited.
    fn corrected(&self, results: &Results) -> Histogram {
        let Some(values) = results.values("latency") else {
            return Histogram::default();
        };
        let mut corrected = values.clone();
        let rounds = values.count() / self.connections;
        if rounds == 0 {
            return corrected;
        }
        let expected_ns = (self.measured_s(results) * 1e9) as u64 / rounds;
        if expected_ns == 0 {
            return corrected;
        }
        for (low, high, count) in values.iter() {
            let mut waited = (low + (high - low) / 2).saturating_sub(expected_ns);
            while waited > expected_ns {
                for _ in 0..count {
                    corrected.record(waited);
                }
                waited -= expected_ns;
            }
        }
        corrected
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        Some(self.duration_ns)
    }

    fn statistics(&self, name: &str) -> Vec<String> {
        vec![name.to_owned(), format!("{name}-server")]
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(map, "requests_per_s", self.rate(results));
        let requests = results.values("latency").map(Histogram::count);
        results.put(map, "requests", requests.map(|count| count as f64));
        results.put_times(map, "latency", &self.corrected(results));
    }

    fn report(&self, results: &Results) -> String {
        let none = Histogram::default();
        let latency = &self.corrected(results);
        let samples = results.values("samples").unwrap_or(&none);
        let measured_s = self.measured_s(results);
        let count = results.values("latency").map_or(0, Histogram::count);
        let read = count as f64 * 850.0;
        let rate = self.rate(results).unwrap_or(0.0);
        let mut text = format!(
            "Running {:.0}s test @ {}\n  {} threads and {} connections\n  \
             Thread Stats   Avg      Stdev     Max   +/- Stdev\n",
            self.duration_ns as f64 / 1e9,
            self.url,
            self.threads,
            self.connections
        );
        text += &statistics("Latency", latency, |ns| time(ns / 1e3));
        // A sample is the requests of a tenth of a second.
        text += &statistics("Req/Sec", samples, |count| metric(count * 10.0));
        if self.distribution {
            text += "  Latency Distribution\n";
            for percent in [50, 75, 90, 99] {
                let value = latency.quantile(percent * 10_000).unwrap_or(0) as f64;
                text += &format!("{percent:>7}% {:>10}\n", time(value / 1e3));
            }
        }
        text + &format!(
            "  {count} requests in {measured_s:.2}s, {} read\nRequests/sec: {rate:>9.2}\nTransfer/sec: {:>10}\n",
            binary(read),
            binary(read / measured_s.max(1e-9))
        )
    }
}

/// One row: mean, deviation, largest, and the share of values within one deviation of the mean.
fn statistics(name: &str, values: &Histogram, show: impl Fn(f64) -> String) -> String {
    let mean = values.mean().unwrap_or(0.0);
    let deviation = deviation(values);
    let within: u64 = values
        .iter()
        .filter(|(low, high, _)| {
            let middle = (*low as f64 + *high as f64) / 2.0;
            (middle - mean).abs() <= deviation
        })
        .map(|(_, _, count)| count)
        .sum();
    let share = 100.0 * within as f64 / values.count().max(1) as f64;
    format!(
        "    {name:<8}{:>10}{:>10}{:>10}{share:>8.2}%\n",
        show(mean),
        show(deviation),
        show(values.max().unwrap_or(0) as f64)
    )
}

/// A number with the largest unit that leaves at least one before the point.
fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut at = 0;
    while value >= base && at + 1 < units.len() {
        value /= base;
        at += 1;
    }
    format!("{value:.2}{}", units[at])
}

/// Microseconds.
fn time(us: f64) -> String {
    scaled(us, 1000.0, &["us", "ms", "s"])
}

fn metric(count: f64) -> String {
    scaled(count, 1000.0, &["", "k", "M"])
}

fn binary(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KB", "MB", "GB"])
}
