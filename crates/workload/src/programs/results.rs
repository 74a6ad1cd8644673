//! Reading a run's results: what every program needs to make metrics and tool output of them.

use std::collections::BTreeMap;

use schedcast_sim::histogram::Histogram;
use schedcast_sim::probe::{Metric, NameStatistics, Probes};

use super::start::metric_name;

/// Values by metric name (`NAME/request_latency.p99`), in the units of `schedcast list metrics`.
pub(crate) type MetricMap = BTreeMap<String, f64>;

/// Percentiles that a distribution of latencies is reported at, in millionths.
pub const PERCENTILES: [(&str, u32); 8] = [
    ("p20", 200_000),
    ("p50", 500_000),
    ("p75", 750_000),
    ("p90", 900_000),
    ("p95", 950_000),
    ("p99", 990_000),
    ("p99.5", 995_000),
    ("p99.9", 999_000),
];

/// Measurements of a run for one program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Results<'a> {
    /// Everything the run measured.
    pub probes: &'a Probes,
    /// Virtual time at the end of the run.
    pub now_ns: u64,
    /// Time at which the program was started.
    pub start_ns: u64,
    pub(super) name: &'a str,
    pub(super) statistics: &'a [String],
}

impl<'a> Results<'a> {
    /// A metric the program recorded into.
    pub(super) fn metric(&self, metric: &str) -> Option<&'a Metric> {
        self.probes.metric(&metric_name(self.name, metric))
    }

    /// Its values, if there are any.
    pub(super) fn values(&self, metric: &str) -> Option<&'a Histogram> {
        self.metric(metric)
            .map(|metric| &metric.values)
            .filter(|values| values.count() > 0)
    }

    /// A recorded time in seconds: the largest, as programs record it once.
    pub(super) fn seconds(&self, metric: &str) -> Option<f64> {
        let longest_ns = self.values(metric)?.max()?;
        Some(longest_ns as f64 / 1e9)
    }

    /// Seconds from the moment at which all `threads` were ready to the end of the last one.
    pub(super) fn measured_s(&self, threads: u64) -> f64 {
        let ended = self.metric("run").map(|run| run.values.count());
        if ended == Some(threads)
            && let Some(seconds) = self.seconds("run")
        {
            return seconds;
        }
        // Cut short: from the first latency that was recorded, or from when statistics count.
        let span = self.metric("latency").and_then(|latency| latency.span);
        let first = span.map_or(self.now_ns, |(first, _)| first.max(self.probes.since));
        self.now_ns.saturating_sub(first) as f64 / 1e9
    }

    /// The time that the program took, up to now if it has not ended.
    pub(super) fn time_s(&self) -> f64 {
        self.seconds("time").unwrap_or_else(|| self.elapsed_s())
    }

    /// How many requests a second were answered while the load, of this length, was measured.
    pub(super) fn answered_per_s(&self, duration_ns: u64) -> Option<f64> {
        let latency = self.metric("latency")?;
        let begin_ns = self.start_ns.max(self.probes.since);
        let end_ns = self.now_ns.min(self.start_ns + duration_ns);
        let measured_s = end_ns.checked_sub(begin_ns)? as f64 / 1e9;
        (measured_s > 0.0).then(|| latency.values.count() as f64 / measured_s)
    }

    /// A counter.
    pub(super) fn count(&self, metric: &str) -> u64 {
        self.metric(metric).map_or(0, |metric| metric.count)
    }

    /// Seconds since the start of the program.
    pub(super) fn elapsed_s(&self) -> f64 {
        self.now_ns.saturating_sub(self.start_ns) as f64 / 1e9
    }

    /// Adds a distribution of times in nanoseconds as one of microseconds.
    pub(super) fn put_latency(&self, map: &mut MetricMap, metric: &str) {
        if let Some(values) = self.values(metric) {
            self.put_times(map, metric, values);
        }
    }

    /// The same of times that are not those a metric recorded.
    pub(super) fn put_times(&self, map: &mut MetricMap, metric: &str, values: &Histogram) {
        let mut put = |suffix: &str, value: f64| {
            map.insert(
                format!("{}.{suffix}", metric_name(self.name, metric)),
                value,
            );
        };
        for (suffix, millionths) in PERCENTILES {
            if let Some(value) = values.quantile(millionths) {
                put(suffix, value as f64 / 1e3);
            }
        }
        let times = [("min", values.min()), ("max", values.max())];
        for (suffix, value) in times {
            put(suffix, value.unwrap_or(0) as f64 / 1e3);
        }
        put("avg", values.mean().unwrap_or(0.0) / 1e3);
        put("count", values.count() as f64);
    }

    /// Sum over all tasks of the program, in seconds.
    fn sum_s(&self, of: fn(&NameStatistics) -> u64) -> f64 {
        let own = self
            .statistics
            .iter()
            .filter_map(|name| self.probes.of(name));
        own.map(of).sum::<u64>() as f64 / 1e9
    }

    /// CPU time of all its tasks.
    pub(super) fn cpu_s(&self) -> f64 {
        self.sum_s(|row| row.run_ns)
    }

    /// Adds the metrics of every program: CPU time, executed and charged, and waiting of all its
    /// tasks.
    pub(super) fn put_shared(&self, map: &mut MetricMap) {
        let throttled = self.sum_s(|row| row.wait_throttled_ns);
        let contention = self.sum_s(|row| row.wait_contention_ns);
        let charged = self.sum_s(NameStatistics::all_charged_ns);
        self.put(map, "cpu_time", Some(self.cpu_s()));
        self.put(map, "charged_time", Some(charged));
        self.put(map, "wait.contention", Some(contention));
        self.put(map, "wait.throttled", Some(throttled));
    }

    /// Adds a single value.
    pub(super) fn put(&self, map: &mut MetricMap, metric: &str, value: Option<f64>) {
        if let Some(value) = value {
            map.insert(metric_name(self.name, metric), value);
        }
    }
}

/// Deviation of the values from their mean.
pub(super) fn deviation(values: &Histogram) -> f64 {
    let Some(mean) = values.mean() else {
        return 0.0;
    };
    let squares = values.iter().map(|(low, high, count)| {
        let distance = (low as f64 + high as f64) / 2.0 - mean;
        distance * distance * count as f64
    });
    (squares.sum::<f64>() / values.count() as f64).sqrt()
}

/// A quantile in whole microseconds, as tools that count microseconds print it.
pub(super) fn quantile_us(values: &Histogram, millionths: u32) -> u64 {
    (values.quantile(millionths).unwrap_or(0) + 500) / 1000
}
