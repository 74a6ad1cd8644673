//! Histograms of durations: every value within 0.1 %, memory only where values fell.
//!
//! Values below 2048 have buckets of their own; above, each doubling is cut into 1024 buckets, so a
//! bucket is at most 1/1024 of its value wide. Worked example: 5,000,000 lies in the doubling that
//! begins at 2²² = 4,194,304 with buckets of 4096; its bucket is 4,997,120..5,001,216.
//!
//! Buckets are allocated in chunks of 128 when first hit: latencies of one task cluster, so a
//! histogram takes a few kilobytes instead of the quarter of a megabyte that a flat one needs, and
//! a [`crate::World`] stays cheap to copy. Memory is bounded by the range of values, not by their
//! number.

use schedcast_base::quantile::rank;

const PRECISION_BITS: u32 = 11;
const HALF: usize = 1 << (PRECISION_BITS - 1);
const CHUNK_BITS: u32 = 7;
const CHUNK: usize = 1 << CHUNK_BITS;
const BUCKETS: usize = (64 - PRECISION_BITS as usize + 2) * HALF;
const CHUNKS: usize = BUCKETS / CHUNK;
/// Chunks allocated at a time.
const GROWTH: usize = 8;
const NO_CHUNK: u16 = u16::MAX;

/// A histogram of `u64` values.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Where each chunk lies in `counts`, in chunks. Grown to the largest chunk hit so far.
    directory: Vec<u16>,
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            directory: Vec::new(),
            counts: Vec::new(),
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

#[inline(always)]
fn bucket_of(value: u64) -> usize {
    let shift = (64 - PRECISION_BITS).saturating_sub((value | 1).leading_zeros());
    shift as usize * HALF + (value >> shift) as usize
}

/// Smallest value of a bucket and the number of values in it.
fn range_of(bucket: usize) -> (u64, u64) {
    let shift = (bucket / HALF).saturating_sub(1);
    let mantissa = bucket - shift * HALF;
    ((mantissa as u64) << shift, 1 << shift)
}

impl Histogram {
    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.fill(bucket_of(value), 1);
    }

    /// Adds to the count of a bucket.
    #[inline]
    fn fill(&mut self, bucket: usize, count: u64) {
        let chunk = bucket >> CHUNK_BITS;
        let place = match self.directory.get(chunk) {
            Some(&place) if place != NO_CHUNK => usize::from(place),
            _ => self.allocate(chunk),
        };
        self.counts[(place << CHUNK_BITS) + bucket % CHUNK] += count;
    }

    #[cold]
    fn allocate(&mut self, chunk: usize) -> usize {
        if chunk >= self.directory.len() {
            self.directory.resize(chunk + 1, NO_CHUNK);
        }
        let place = self.counts.len() >> CHUNK_BITS;
        debug_assert!(place < CHUNKS && CHUNKS < usize::from(NO_CHUNK));
        self.directory[chunk] = place as u16;
        if self.counts.len() == self.counts.capacity() {
            // Doubling would leave half of a wide histogram unused.
            self.counts.reserve_exact(GROWTH * CHUNK);
        }
        self.counts.resize(self.counts.len() + CHUNK, 0);
        place
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in other.buckets() {
            self.fill(bucket, count);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Chunks that were hit, in ascending order: the first bucket and the counts of all.
    fn chunks(&self) -> impl Iterator<Item = (usize, &[u64])> + '_ {
        let all = self.directory.iter().enumerate();
        let hit = all.filter(|&(_, &place)| place != NO_CHUNK);
        hit.map(|(chunk, &place)| {
            let start = usize::from(place) << CHUNK_BITS;
            (chunk << CHUNK_BITS, &self.counts[start..start + CHUNK])
        })
    }

    /// Non-empty buckets in ascending order.
    fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.chunks().flat_map(|(first, counts)| {
            let all = counts.iter().enumerate();
            all.filter(|&(_, &count)| count > 0)
                .map(move |(row, &count)| (first + row, count))
        })
    }

    /// Non-empty buckets in ascending order: (smallest value, largest value, count).
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets().map(|(bucket, count)| {
            let (low, width) = range_of(bucket);
            (low, low + (width - 1), count)
        })
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all values, exact.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean, exact up to rounding; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Smallest value, exact.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Largest value, exact.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Value below or at which the fraction `per_million` / 10⁶ of all values lies (nearest rank,
    /// the middle of its bucket). 990,000 is the 99th percentile.
    pub fn quantile(&self, per_million: u32) -> Option<u64> {
        self.quantile_below(per_million, 0)
    }

    /// The same of all values and `larger` ones that are larger than each of them, but not known;
    /// `None` if it is one of these, or without values.
    pub fn quantile_below(&self, per_million: u32, larger: u64) -> Option<u64> {
        let rank = rank(self.count.saturating_add(larger), per_million);
        if rank > self.count {
            return None;
        }
        let mut left = rank;
        for (first, counts) in self.chunks() {
            // Whole chunks are passed by their sums.
            let inside = counts.iter().sum();
            if left > inside {
                left -= inside;
                continue;
            }
            let mut seen = 0;
            let row = counts.iter().position(|count| {
                seen += count;
                seen >= left
            });
            let (low, width) = range_of(first + row?);
            return Some((low + (width - 1) / 2).clamp(self.min, self.max));
        }
        Some(self.max)
    }

    /// Forgets all values, keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_tile_all_numbers() {
        let mut expected = 0u64;
        for bucket in 0..BUCKETS {
            let (low, width) = range_of(bucket);
            assert_eq!(low, expected, "bucket {bucket}");
            assert_eq!(bucket_of(low), bucket);
            assert_eq!(bucket_of(low + (width - 1)), bucket);
            expected = low.wrapping_add(width);
        }
        assert_eq!(expected, 0); // wrapped exactly once: all of u64 is covered
        assert_eq!(range_of(bucket_of(5_000_000)), (4_997_120, 4096));
    }

    #[test]
    fn small_numbers_are_exact() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        assert_eq!(histogram.quantile(500_000), Some(500));
        assert_eq!(histogram.quantile(990_000), Some(990));
        assert_eq!(histogram.quantile(1_000_000), Some(1000));
        assert_eq!(histogram.quantile(0), Some(1));
        assert_eq!(histogram.mean(), Some(500.5));
    }

    #[test]
    fn an_empty_histogram_has_no_statistics() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(500_000), None);
        assert_eq!((histogram.min(), histogram.max()), (None, None));
        histogram.record(7);
        histogram.clear();
        assert_eq!(histogram.mean(), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth(
            values in prop::collection::vec(
                (0..u64::from(u32::MAX), 0..32u32).prop_map(|(value, shift)| value >> shift << (shift / 2)),
                1..300,
            ),
            per_million in 0..=1_000_000u32,
            split in 0..300usize,
        ) {
            let mut histogram = Histogram::default();
            let mut other = Histogram::default();
            for (row, &value) in values.iter().enumerate() {
                if row < split { histogram.record(value) } else { other.record(value) }
            }
            histogram.merge(&other);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let rank = (values.len() as u64 * u64::from(per_million)).div_ceil(1_000_000).max(1);
            let exact = sorted[rank as usize - 1];
            let found = histogram.quantile(per_million).unwrap();
            prop_assert!(found.abs_diff(exact) <= exact / 1024, "{found} for {exact}");
            prop_assert_eq!(histogram.count(), values.len() as u64);
            prop_assert_eq!(histogram.sum(), values.iter().map(|&value| u128::from(value)).sum::<u128>());
        }
    }
}
