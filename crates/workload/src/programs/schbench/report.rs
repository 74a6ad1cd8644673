//! schbench's own blocks.

use schedcast_sim::histogram::Histogram;

use super::{MESSAGE, Options, WORKER};
use crate::programs::model::Model;
use crate::programs::results::{MetricMap, Results};
use crate::programs::schbench_classic::transfer;

const PERCENTILES: [(&str, u32); 5] = [
    ("20.0", 200_000),
    ("50.0", 500_000),
    ("90.0", 900_000),
    ("99.0", 990_000),
    ("99.9", 999_000),
];
const LATENCIES: [&str; 4] = ["50.0", "90.0", "99.0", "99.9"];
const RATES: [&str; 3] = ["20.0", "50.0", "90.0"];

/// Content of a block.
struct Block<'a> {
    label: &'a str,
    unit: &'a str,
    shown: &'a [&'a str],
    star: &'a str,
    /// Recorded numbers in one printed unit.
    scale: u64,
}

impl Options {
    fn transfer(&self, results: &Results) -> String {
        let workers_s = results.values("worker_time").map_or(0, Histogram::sum) as f64 / 1e9;
        let seconds = match workers_s > 0.0 {
            true => workers_s,
            false => results.elapsed_s() * (self.groups * self.workers) as f64,
        };
        let rate = match seconds > 0.0 {
            true => results.count("requests") as f64 / seconds,
            false => 0.0,
        };
        transfer(rate, rate * self.pipe_bytes as f64)
    }

    fn block(&self, results: &Results, metric: &str, block: &Block) -> String {
        let empty = Histogram::default();
        let values = results.values(metric).unwrap_or(&empty);
        let seconds = match self.runtime_s {
            0 => results.elapsed_s() as u64,
            runtime_s => runtime_s,
        };
        let mut text = format!(
            "{} percentiles ({}) runtime {seconds} (s) ({} total samples)\n",
            block.label,
            block.unit,
            values.count()
        );
        let mut before = 0;
        for (name, millionths) in PERCENTILES {
            let value = values.quantile(millionths).unwrap_or(0);
            // Samples between this percentile and the one before.
            let up_to = samples_up_to(values, value);
            let samples = up_to.saturating_sub(before);
            before = up_to;
            if block.shown.contains(&name) {
                let mark = if name == block.star { "* " } else { "  " };
                // The middle of a bucket may lie a little below the whole unit.
                let value = (value + block.scale / 2) / block.scale;
                text += &format!("\t{mark}{name}th: {value:<10} ({samples} samples)\n");
            }
        }
        let max = values.max().unwrap_or(0) / block.scale;
        let min = smallest(values).unwrap_or(0) / block.scale;
        text + &format!("\t  min={min}, max={max}\n")
    }
}

impl Model for Options {
    fn length_ns(&self) -> Option<u64> {
        (self.runtime_s > 0).then_some(self.runtime_s * 1_000_000_000)
    }

    fn endless_without(&self) -> Option<&'static str> {
        (self.runtime_s == 0).then_some("-r 20")
    }

    fn statistics(&self, name: &str) -> Vec<String> {
        ["", MESSAGE, WORKER]
            .map(|end| format!("{name}{end}"))
            .to_vec()
    }

    fn metrics(&self, results: &Results, map: &mut MetricMap) {
        results.put_latency(map, "wakeup_latency");
        results.put_latency(map, "request_latency");
        results.put(map, "rps", Some(self.rps(results)));
        results.put(map, "requests", Some(results.count("requests") as f64));
    }

    fn report(&self, results: &Results) -> String {
        let mut text = String::new();
        if !self.workers_given {
            text += &format!("setting worker threads to {}\n", self.workers);
        }
        let wakeup = Block {
            label: "Wakeup Latencies",
            unit: "usec",
            shown: if self.pipe_bytes > 0 {
                &["20.0", "50.0", "90.0", "99.0", "99.9"]
            } else {
                &LATENCIES
            },
            star: "99.0",
            scale: 1000,
        };
        text += &self.block(results, "wakeup_latency", &wakeup);
        if self.pipe_bytes > 0 {
            return text + &self.transfer(results);
        }
        let request = Block {
            label: "Request Latencies",
            shown: &LATENCIES,
            ..wakeup
        };
        text += &self.block(results, "request_latency", &request);
        let rate = Block {
            label: "RPS",
            unit: "requests",
            shown: &RATES,
            star: "50.0",
            scale: 1,
        };
        text += &self.block(results, "rps_sample", &rate);
        text += &format!("average rps: {:.2}\n", self.rps(results));
        let [message, worker] = [MESSAGE, WORKER].map(|suffix| delay_us(results, suffix));
        text + &format!("sched delay: message {message} (usec) worker {worker} (usec)\n")
    }
}

fn samples_up_to(values: &Histogram, limit: u64) -> u64 {
    let buckets = values.iter().filter(|(low, _, _)| *low <= limit);
    buckets.map(|(_, _, count)| count).sum()
}

/// The smallest value; one of 0 is forgotten by the next.
fn smallest(values: &Histogram) -> Option<u64> {
    match values.min()? {
        0 => values.iter().map(|(low, _, _)| low).find(|low| *low > 0),
        min => Some(min),
    }
}

/// Mean time on a run queue before each run, as `/proc/…/schedstat` has it, in microseconds.
fn delay_us(results: &Results, suffix: &str) -> u64 {
    let name = format!("{}{suffix}", results.name);
    let Some(row) = results.probes.of(&name) else {
        return 0;
    };
    let waited_ns = row.wait_contention_ns + row.wait_throttled_ns;
    waited_ns.checked_div(row.switches).unwrap_or(0) / 1000
}
