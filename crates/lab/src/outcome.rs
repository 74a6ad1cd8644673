//! Outcome of one run of one variant.

use std::collections::{BTreeMap, BTreeSet};

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

/// FNV-1a over bytes: order matters, platforms agree, and any one changed byte changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv(pub u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Takes in further bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    }

    /// The hash of `bytes` alone.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut hash = Fnv::default();
        hash.add(bytes);
        hash.0
    }
}

impl std::fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
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
