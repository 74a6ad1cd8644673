//! Outcome of one run of one variant.

use std::collections::{BTreeMap, BTreeSet};

use schedcast_sim::random::Fnv;

/// Values by metric name, see [`crate::metrics`].
pub type MetricMap = BTreeMap<String, f64>;

/// The result of one scenario under one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Hash over every event of the run; equal runs have equal hashes.
    pub event_hash: u64,
    /// Measured values by metric. A metric without a value (a percentile of nothing) is absent.
    pub metrics: MetricMap,
    /// Metrics whose value is a lower bound: a percentile that falls among what has not finished,
    /// counted with its age.
    pub at_least: BTreeSet<String>,
}

impl Outcome {
    /// Value of a metric; NaN where the run has none.
    pub fn value(&self, metric: &str) -> f64 {
        self.metrics.get(metric).copied().unwrap_or(f64::NAN)
    }
}

/// One hash for the runs of all seeds, in seed order.
pub fn combine_hashes(outcomes: &[Outcome]) -> u64 {
    let mut hash = Fnv::default();
    for outcome in outcomes {
        hash.add(&outcome.event_hash.to_le_bytes());
    }
    hash.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_combined_hash_depends_on_every_seed_and_their_order() {
        let runs = |hashes: [u64; 2]| {
            hashes.map(|event_hash| Outcome {
                event_hash,
                ..Outcome::default()
            })
        };
        assert_eq!(combine_hashes(&[]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(combine_hashes(&runs([1, 2])), combine_hashes(&runs([1, 2])));
        assert_ne!(combine_hashes(&runs([1, 2])), combine_hashes(&runs([2, 1])));
        assert_ne!(combine_hashes(&runs([1, 2])), combine_hashes(&runs([1, 3])));
    }
}
