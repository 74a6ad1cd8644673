//! Requests that clients gave up, or asked again, because no answer came in time.
//!
//! They count in the percentiles with the time after which they were given up, so that a short
//! timeout makes latencies look short. No column in which more requests fail than in the first is
//! said to help, nor to cost nothing.

use crate::comparison::Variant;
use crate::experiment::Scenario;
use crate::experiment::units::format_duration_ns;
use crate::recording::Latency;
use schedcast_workload::replay::Patience;

/// Requests of one column, means over runs.
#[derive(Clone, Copy)]
struct Failures {
    /// Requests that were given up.
    failed: f64,
    /// Times that one was asked again.
    retried: f64,
}

impl Failures {
    fn of(variant: &Variant, latency: &Latency) -> Option<Self> {
        let mean = |name: &str| Some(variant.get(&format!("{}/{name}", latency.threads))?.mean);
        Some(Self {
            failed: mean("requests_failed")?,
            retried: mean("requests_retried")?,
        })
    }
}

/// Whether more requests fail in the second column.
pub(crate) fn are_more(now: &Variant, then: &Variant, latency: &Latency) -> bool {
    let failed = |variant: &Variant| Failures::of(variant, latency).map_or(0.0, |of| of.failed);
    failed(then) > failed(now)
}

/// A sentence on a column whose clients do not wait for ever.
pub(crate) fn sentence(
    variant: &Variant,
    scenario: &Scenario,
    latency: &Latency,
    run_ns: u64,
) -> Option<String> {
    let patience = scenario.adjusts().find_map(|adjust| adjust.patience)?;
    let failures = Failures::of(variant, latency)?;
    Some(in_words(&variant.name, patience, failures, run_ns))
}

fn in_words(column: &str, patience: Patience, failures: Failures, run_ns: u64) -> String {
    let run_s = run_ns as f64 / 1e9;
    let timeout = format_duration_ns(patience.timeout_ns);
    let (attempts, asked) = match patience.retries {
        0 => (String::new(), String::new()),
        retries => (
            format!(", {} times", retries + 1),
            format!(
                "; clients ask again {:.1} times/s",
                failures.retried / run_s
            ),
        ),
    };
    format!(
        "“{column}”: {:.1} requests/s fail, unanswered after {timeout}{attempts}{asked}.",
        failures.failed / run_s
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_failures_is_told_with_its_timeout() {
        let failures = Failures {
            failed: 42.0,
            retried: 140.0,
        };
        let mut patience = Patience {
            timeout_ns: 200_000_000,
            retries: 0,
        };
        assert_eq!(
            in_words("a", patience, failures, 20_000_000_000),
            "“a”: 2.1 requests/s fail, unanswered after 200ms."
        );
        patience.retries = 1;
        assert_eq!(
            in_words("a", patience, failures, 20_000_000_000),
            "“a”: 2.1 requests/s fail, unanswered after 200ms, 2 times; clients ask again 7.0 times/s."
        );
    }
}
