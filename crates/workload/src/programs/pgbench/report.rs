//! Rates and latencies, and pgbench's own summary.

use super::Options;
use crate::programs::model::{Length, Model};
use crate::programs::results::{MetricMap, Results, deviation};

impl Options {
    fn tps(&self, results: &Results) -> Option<f64> {
        let count = results.values("latency")?.count();
        let measured_s = results.measured_s(self.threads);
        (measured_s > 0.0).then(|| count as f64 / measured_s)
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
        results.put(map, "tps", self.tps(results));
        results.put_latency(map, "latency");
        if self.rate.is_some() {
            results.put_latency(map, "lag");
        }
    }

    fn report(&self, results: &Results) -> String {
        let values = results.values("latency");
        let count = values.map_or(0, |values| values.count());
        let tps = self.tps(results).unwrap_or(0.0);
        let protocol = self.protocol.name();
        let mut text = String::from("pgbench (15, forecast)\n");
        if self.vacuum {
            text += "starting vacuum...end.\n";
        }
        text += &format!(
            "transaction type: {}\nscaling factor: {}\nquery mode: {protocol}\nnumber of clients: {}\n\
             number of threads: {}\nmaximum number of tries: 1\n",
            self.builtin.title(),
            self.scale,
            self.clients,
            self.threads,
        );
        text += &match self.length {
            Length::Time(time_ns) => format!(
                "duration: {} s\nnumber of transactions actually processed: {count}\n",
                time_ns / super::SECOND_NS
            ),
            Length::Transactions(each) => format!(
                "number of transactions per client: {each}\n\
                 number of transactions actually processed: {count}/{}\n",
                each * self.clients
            ),
        };
        text += "number of failed transactions: 0 (0.000%)\n";
        let mean_ms = values.and_then(|values| values.mean()).unwrap_or(0.0) / 1e6;
        text += &format!("latency average = {mean_ms:.3} ms\n");
        if self.progress || self.rate.is_some() {
            let deviation_ms = values.map_or(0.0, deviation) / 1e6;
            text += &format!("latency stddev = {deviation_ms:.3} ms\n");
        }
        if self.rate.is_some()
            && let Some(lag) = results.values("lag")
        {
            text += &format!(
                "rate limit schedule lag: avg {:.3} (max {:.3}) ms\n",
                lag.mean().unwrap_or(0.0) / 1e6,
                lag.max().unwrap_or(0) as f64 / 1e6
            );
        }
        let connect_ms = results.seconds("connect").unwrap_or(0.0) * 1e3;
        text + &format!(
            "initial connection time = {connect_ms:.3} ms\n\
             tps = {tps:.6} (without initial connection time)\n"
        )
    }
}
