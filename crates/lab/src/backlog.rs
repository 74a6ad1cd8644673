//! The backlog of a service: requests that have come and not finished, at half the time of a run
//! and at its end.
//!
//! A service that cannot keep up has a backlog that grows from begin to end, and every percentile
//! of its latencies then says how long the run was. The rate of growth does not. Worked example:
//! of 1170 requests in 29.5 s, 106 wait at half the time and 209 at the end. By chance two counts
//! differ by 1.96 · √(106 + 209) = 35 at most, and these differ by 103: the service falls behind by
//! 103 / 14.75 s = 7.0 requests/s.

use crate::statistics::NORMAL_QUANTILE;

/// Requests that wait, means over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// At half the time.
    pub halfway: f64,
    /// At the end.
    pub end: f64,
}

impl Backlog {
    /// Whether it grows in both halves of the run by more than counts differ by chance.
    pub fn grows(&self) -> bool {
        let grows =
            |before: f64, after: f64| after - before > NORMAL_QUANTILE * (before + after).sqrt();
        grows(0.0, self.halfway) && grows(self.halfway, self.end)
    }

    /// Growth a second in the second half of a run of `run_ns`, in ns.
    pub(crate) fn growth_per_second(&self, run_ns: u64) -> f64 {
        (self.end - self.halfway) / (run_ns as f64 / 2e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_grows_in_both_halves_by_more_than_chance() {
        let grows = |halfway, end| Backlog { halfway, end }.grows();
        assert!(grows(106.0, 209.0));
        assert!(!grows(0.0, 60.0), "a burst at the end is no trend");
        assert!(!grows(60.0, 62.0));
        // 1.96² = 3.84 requests at half the time are the least that is no chance.
        assert!(!grows(3.8, 60.0) && grows(3.9, 60.0));
    }

    #[test]
    fn the_growth_is_that_of_the_second_half() {
        let backlog = Backlog {
            halfway: 106.0,
            end: 209.0,
        };
        let growth = backlog.growth_per_second(29_500_000_000);
        assert!((growth - 103.0 / 14.75).abs() < 1e-12, "{growth}");
    }
}
