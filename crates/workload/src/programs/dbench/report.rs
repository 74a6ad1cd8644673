//! dbench's last lines.

use super::Options;
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results};

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        Some(self.runtime_ns())
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put(map, "throughput", Some(self.throughput(results)));
        results.put(map, "operations", Some(results.count("operations") as f64));
        results.put_latency(map, "flush_latency");
    }

    fn report(&self, results: &Results) -> String {
        let ms = |ns: f64| ns / 1e6;
        let flush = results.values("flush_latency");
        let count = flush.map_or(0, |values| values.count());
        let average = flush.and_then(|values| values.mean()).unwrap_or(0.0);
        let max = flush.and_then(|values| values.max()).unwrap_or(0) as f64;
        format!(
            " Operation      Count    AvgLat    MaxLat\n \
             ----------------------------------------\n \
             {:<10} {count:>9} {:>9.3} {:>9.3}\n\n\
             Throughput {} MB/sec  {} clients  {} procs  max_latency={:.3} ms\n",
            "Flush",
            ms(average),
            ms(max),
            significant(self.throughput(results)),
            self.clients,
            self.clients,
            ms(max)
        )
    }
}

/// Six significant digits, as C's `%g` prints them.
fn significant(value: f64) -> String {
    let digits = match value {
        value if value >= 100_000.0 => 0,
        value if value >= 10_000.0 => 1,
        value if value >= 1000.0 => 2,
        value if value >= 100.0 => 3,
        value if value >= 10.0 => 4,
        _ => 5,
    };
    schedcast_base::columns::decimals(value, digits)
}
