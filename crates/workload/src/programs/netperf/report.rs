//! Rates, and netperf's own table.

use super::{Options, Test};
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results};

impl Options {
    /// Transactions or bytes a second of one pair, on average: what all pairs got done by the time
    /// they took together.
    fn per_second(&self, results: &Results, counter: &str) -> Option<f64> {
        let metric = results.metric(counter)?;
        let measured = results.metric("run")?;
        let finished = measured.values.count();
        let time_s = if finished == self.pairs {
            measured.values.mean()? * finished as f64 / 1e9
        } else {
            // Cut short: from the first that began, or from when statistics count.
            let (first, _) = metric.span?;
            let begin = first.max(results.probes.since);
            results.now_ns.saturating_sub(begin) as f64 * self.pairs as f64 / 1e9
        };
        (time_s > 0.0).then(|| metric.count as f64 / time_s)
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        self.length.duration_ns()
    }

    fn statistics(&self, name: &str) -> Vec<String> {
        vec![name.to_owned(), format!("{name}-server")]
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        if self.test.is_stream() {
            let bytes = self.per_second(results, "bytes");
            results.put(map, "throughput", bytes.map(|bytes| bytes / 1e6));
            if self.test == Test::UdpStream {
                let lost = results.count("lost");
                results.put(map, "datagrams_lost", Some(lost as f64));
            }
        } else {
            let rate = self.per_second(results, "transactions");
            results.put(map, "transactions_per_s", rate);
        }
    }

    /// Text that one of the netperfs would have printed, with the mean of all.
    fn report(&self, results: &Results) -> String {
        let elapsed_s = self
            .length
            .duration_ns()
            .map_or_else(|| results.elapsed_s(), |time_ns| time_ns as f64 / 1e9);
        let name = self.test.name();
        let mut text = String::new();
        if self.test.is_stream() {
            let megabits = self.per_second(results, "bytes").unwrap_or(0.0) * 8.0 / 1e6;
            if self.headers {
                text += &format!("{name} TEST to localhost () port 0 AF_INET\n");
                text += "Message  Elapsed\nSize     Time     Throughput\n";
                text += "bytes    secs.    10^6bits/sec\n\n";
            }
            text + &format!("{:<8} {elapsed_s:<8.2} {megabits:.2}\n", self.request_bytes)
        } else {
            let rate = self.per_second(results, "transactions").unwrap_or(0.0);
            if self.headers {
                text += &format!("{name} TEST to localhost () port 0 AF_INET\n");
                text += "Request  Resp.    Elapsed  Trans.\nSize     Size     Time     Rate\n";
                text += "bytes    bytes    secs.    per sec\n\n";
            }
            let (request, response) = (self.request_bytes, self.response_bytes);
            text + &format!("{request:<8} {response:<8} {elapsed_s:<8.2} {rate:.2}\n")
        }
    }
}
