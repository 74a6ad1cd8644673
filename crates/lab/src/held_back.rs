//! How long clients wait at least for threads that a limit holds back, when no requests are known.
//!
//! The latency of activations is that of threads. All messages that come while a limit holds a
//! thread back are one activation, so that its percentiles hardly show them. Clients that may ask
//! at any time see more: the share of the time in which a thread is held back is the share of them
//! that wait.
//!
//! A thread that was held back for `held` in `stretches` stretches of a run was so, with more than
//! `wait` to go, for `held − stretches · wait` of the run at least. Where that is more than one
//! percent of the run, more than one in a hundred clients wait longer than `wait`. A stretch is
//! taken for each throttled period of the group and of those above it. If a period holds a thread
//! back twice, the wait is shorter than this.
//!
//! Worked example: a broker is held back for 473 ms of 8 s, in 16.8 periods. For 80 ms of the 8 s,
//! one percent, it has more than (473 − 80) / 16.8 = 23.4 ms to go: the p99 of its clients is at
//! least that, where the p99 of its activations is 2.2 ms.

use crate::metrics::{self, Metric};
use crate::recording::Latency;

/// Threads that clients ask at any time.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedAtAnyTime {
    /// How many threads have the name.
    threads: f64,
    /// Metric of the time that they are held back, together, in seconds.
    held_back: String,
    /// Metrics of the periods in which a limit may hold them back: their group's and those of the
    /// groups above it.
    stretches: Vec<String>,
}

impl AskedAtAnyTime {
    /// So many threads of this name in `group`.
    pub fn new(name: &str, threads: usize, group: &str) -> Self {
        Self {
            threads: threads.max(1) as f64,
            held_back: format!("{name}/wait.throttled"),
            stretches: with_ancestors(group)
                .map(|path| format!("{}{path}/nr_throttled", metrics::CGROUP))
                .collect(),
        }
    }

    /// The least value of `metric`, a percentile of their activations, that clients see in a run of
    /// `length_ns`, in µs; 0 for other metrics. `value` gives the run's values.
    pub fn least_us(
        &self,
        metric: &Metric<'_>,
        length_ns: u64,
        value: impl Fn(&str) -> Option<f64>,
    ) -> f64 {
        let needed = metric.values_needed();
        let is_one = metric.family.name == Latency::ACTIVATION && needed > 0.0;
        let stretches: f64 = self.stretches.iter().filter_map(|name| value(name)).sum();
        let held_s = value(&self.held_back).filter(|_| is_one && stretches > 0.0);
        let Some(held_s) = held_s else {
            return 0.0;
        };
        let each_s = held_s / self.threads;
        let allowed_s = length_ns as f64 / 1e9 / needed;
        ((each_s - allowed_s) / stretches * 1e6).max(0.0)
    }
}

/// A path and those of the groups above it, the root excluded.
fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').skip(1).map(|(end, _)| end);
    ends.chain([path.len()]).map(|end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least_us(threads: usize, held_s: f64, stretches: f64, name: &str) -> f64 {
        let asked = AskedAtAnyTime::new("broker", threads, "/a/b");
        let metric = metrics::parse(name).unwrap();
        asked.least_us(&metric, 8_000_000_000, |name| match name {
            "broker/wait.throttled" => Some(held_s),
            "cgroup:/a/nr_throttled" => Some(stretches - 1.0),
            "cgroup:/a/b/nr_throttled" => Some(1.0),
            _ => None,
        })
    }

    #[test]
    fn the_time_that_threads_are_held_back_is_what_clients_wait_for() {
        let p99 = "broker/activation_latency.p99";
        assert!((least_us(1, 0.473, 16.8, p99) - 23_393.0).abs() < 1.0);
        assert_eq!(
            least_us(1, 0.079, 16.8, p99),
            0.0,
            "less than a percent of the time"
        );
        assert!((least_us(2, 0.473, 16.8, p99) - 9_315.0).abs() < 1.0);
        // Five percent are 400 ms of 8 s.
        let p95 = "broker/activation_latency.p95";
        assert!((least_us(1, 0.473, 16.8, p95) - 4_345.0).abs() < 1.0);
        assert_eq!(least_us(1, 0.473, 16.8, "broker/request_latency.p99"), 0.0);
        assert_eq!(
            least_us(1, 0.473, 16.8, "broker/activation_latency.avg"),
            0.0
        );
    }
}
