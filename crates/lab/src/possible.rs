//! Bounds of intervals: values that no run of a given length on so many CPUs shows.
//!
//! An interval comes from the spread of a few seeds, or is moved apart by a misfit, and neither
//! knows what a figure means. Worked example: 98 of 200 periods were throttled with two seeds, and
//! 832 are the upper end of the interval that they give. At most 200 are possible.

use crate::experiment::Scenario;
use crate::metrics::{self, Metric, Subject};
use crate::outcome::Outcome;

/// A run as far as it bounds figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its length, ns.
    pub length_ns: u64,
    /// CPUs of its machine.
    pub cpus: usize,
}

impl Run {
    /// A run of `scenario` that takes `length_ns`.
    pub fn of(scenario: &Scenario, length_ns: u64) -> Run {
        let cpus = scenario.machine.cpus();
        Run { length_ns, cpus }
    }

    /// Most that `metric` can be, in its unit; `None` where nothing bounds it. `periods` is the
    /// most active periods of its group in one run.
    fn most(self, metric: &Metric<'_>, periods: Option<f64>) -> Option<f64> {
        let length_s = self.length_ns as f64 / 1e9;
        let of_all_cpus_s = length_s * self.cpus as f64;
        match (metric.family.subject, metric.family.name, metric.unit()) {
            (_, _, "ratio") => Some(1.0),
            (Subject::Cgroup, "nr_throttled" | "nr_bursts", _) => periods,
            (Subject::Cgroup, _, "us") => Some(of_all_cpus_s * 1e6),
            (_, "cpu_time", _) => Some(of_all_cpus_s),
            // A duration that lasts at the end counts with its age.
            (_, _, "us") => Some(length_s * 1e6),
            _ => None,
        }
    }

    /// Ends of intervals of `metric`: 0 and the most that is possible, but never narrower than what
    /// runs `shown` had.
    pub(crate) fn bounds(
        self,
        metric: &Metric<'_>,
        shown: &[f64],
        periods: Option<f64>,
    ) -> [f64; 2] {
        let least = shown.iter().copied().fold(0.0, f64::min);
        let most = self.most(metric, periods).unwrap_or(f64::INFINITY);
        [least, shown.iter().copied().fold(most, f64::max)]
    }

    /// `interval` of `metric` cut to what is possible, where `runs` were seen.
    pub fn cut_of<'a>(
        self,
        interval: [f64; 2],
        metric: &str,
        runs: impl Iterator<Item = &'a Outcome> + Clone,
    ) -> [f64; 2] {
        let Some(parsed) = metrics::parse(metric) else {
            return interval;
        };
        let values = |name: &str| -> Vec<f64> {
            let values = runs.clone().filter_map(|run| run.metrics.get(name));
            values.copied().collect()
        };
        let periods = values(&periods_of(&parsed)).into_iter().reduce(f64::max);
        cut(interval, self.bounds(&parsed, &values(metric), periods))
    }
}

/// The part of an interval that lies between two bounds, the lower one first.
pub(crate) fn cut([low, high]: [f64; 2], [least, most]: [f64; 2]) -> [f64; 2] {
    [low.max(least), high.min(most)]
}

/// The metric of the periods of the same group.
pub(crate) fn periods_of(metric: &Metric<'_>) -> String {
    format!("{}/nr_periods", metric.subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interval_reaches_beyond_what_a_run_can_show() {
        let run = Run {
            length_ns: 20_000_000_000,
            cpus: 2,
        };
        let cut_at = |metric: &str, high: f64| {
            let metric = metrics::parse(metric).unwrap();
            cut([-1.0, high], run.bounds(&metric, &[], Some(200.0)))
        };
        assert_eq!(cut_at("machine/busy_ratio", 1.6), [0.0, 1.0]);
        assert_eq!(cut_at("cgroup:/a/nr_throttled", 832.2), [0.0, 200.0]);
        assert_eq!(cut_at("a/activation_latency.p99", 23.2e6), [0.0, 20e6]);
        assert_eq!(cut_at("cgroup:/a/throttled_usec", 60e6), [0.0, 40e6]);
        assert_eq!(cut_at("a/cpu_time", 60.0), [0.0, 40.0]);
        assert_eq!(cut_at("a/activation_latency.count", 1e9), [0.0, 1e9]);
        let seen = metrics::parse("machine/busy_ratio").unwrap();
        assert_eq!(
            cut([0.5, 1.6], run.bounds(&seen, &[1.01], None)),
            [0.5, 1.01]
        );
    }
}
