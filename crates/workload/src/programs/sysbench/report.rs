//! Rates and latencies, and sysbench's own summary.

use schedcast_sim::histogram::Histogram;

use super::{Options, Test};
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results, deviation};

impl Options {
    /// Queries of an event: that read, that write, others.
    fn queries(&self) -> Option<[u64; 3]> {
        match &self.test {
            Test::Cpu(_) => None,
            Test::Oltp(oltp) => Some(oltp.queries()),
        }
    }

    fn latencies(&self, latency: &Histogram) -> String {
        let ms = |ns: f64| format!("{:>12.2}", ns / 1e6);
        let percentile = u32::try_from(self.percentile * 10_000).unwrap_or(1_000_000);
        let quantile = latency.quantile(percentile).unwrap_or(0) as f64;
        let name = format!("{}th percentile:", self.percentile);
        let rows = [
            ("min:", latency.min().unwrap_or(0) as f64),
            ("avg:", latency.mean().unwrap_or(0.0)),
            ("max:", latency.max().unwrap_or(0) as f64),
            (name.as_str(), quantile),
            ("sum:", latency.sum() as f64),
        ];
        let mut text = String::from("Latency (ms):\n");
        for (name, value) in rows {
            text += &format!("         {name:<32}{}\n", ms(value));
        }
        text + "\n"
    }

    fn fairness(&self, results: &Results) -> String {
        let of = |metric: &str, unit: f64| {
            results.values(metric).map_or((0.0, 0.0), |values| {
                let mean = values.mean().unwrap_or(0.0);
                (mean / unit, deviation(values) / unit)
            })
        };
        let (events, event_deviation) = of("thread_events", 1.0);
        let (time_s, time_deviation) = of("thread_time", 1e9);
        format!(
            "Threads fairness:\n    {:<31}{events:.4}/{event_deviation:.2}\n    {:<31}{time_s:.4}/{time_deviation:.2}\n",
            "events (avg/stddev):", "execution time (avg/stddev):"
        )
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        self.time_ns
    }

    fn statistics(&self, name: &str) -> Vec<String> {
        let mut names = vec![name.to_owned()];
        if let Test::Oltp(_) = self.test {
            names.push(format!("{name}-server"));
        }
        names
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put_latency(map, "latency");
        let events = results.values("latency").map_or(0, Histogram::count) as f64;
        let measured_s = results.measured_s(self.threads);
        if measured_s <= 0.0 {
            return;
        }
        results.put(map, "events_per_s", Some(events / measured_s));
        if let Some(queries) = self.queries() {
            let queries = queries.iter().sum::<u64>() as f64;
            results.put(map, "queries_per_s", Some(events * queries / measured_s));
        }
    }

    fn report(&self, results: &Results) -> String {
        let none = Histogram::default();
        let latency = results.values("latency").unwrap_or(&none);
        let events = latency.count();
        let measured_s = results.measured_s(self.threads);
        let per_second = |count: u64| match measured_s > 0.0 {
            true => count as f64 / measured_s,
            false => 0.0,
        };
        let mut text = format!(
            "sysbench 1.0.20 (forecast)\n\nRunning the test with following options:\n\
             Number of threads: {}\nInitializing random number generator from current time\n\n\n",
            self.threads
        );
        if let Test::Cpu(max) = &self.test {
            text += &format!("Prime numbers limit: {max}\n\n");
        }
        text += "Initializing worker threads...\n\nThreads started!\n\n";
        match self.queries() {
            None => {
                let rate = per_second(events);
                text += &format!("CPU speed:\n    events per second: {rate:>8.2}\n\n");
            }
            Some(queries) => text += &statistics(queries, events, per_second),
        }
        text += &format!(
            "General statistics:\n    {:<36} {measured_s:.4}s\n    {:<36} {events}\n\n",
            "total time:", "total number of events:"
        );
        text + &self.latencies(latency) + &self.fairness(results)
    }
}

/// The block about queries.
fn statistics(queries: [u64; 3], events: u64, per_second: impl Fn(u64) -> f64) -> String {
    let mut text = String::from("SQL statistics:\n    queries performed:\n");
    let all = queries.iter().sum::<u64>() * events;
    let rows = ["read:", "write:", "other:"].into_iter().zip(queries);
    for (name, count) in rows {
        text += &format!("        {name:<32} {}\n", count * events);
    }
    text += &format!("        {:<32} {all}\n", "total:");
    for (name, count) in [
        ("transactions:", events),
        ("queries:", all),
        ("ignored errors:", 0),
        ("reconnects:", 0),
    ] {
        let rate = per_second(count);
        text += &format!("    {name:<36} {count:<6} ({rate:.2} per sec.)\n");
    }
    text + "\n"
}
