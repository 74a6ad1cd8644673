//! The one definition of a quantile: nearest rank, a value that really occurred.
//!
//! The quantile of n values is the ⌈share · n⌉-th smallest, and the smallest for a share of 0: the
//! least value with at least that share of all values at or below it. Worked example: of 1, 2, 3
//! and 4 the median is the second, 2, and the 99th percentile the fourth. Shares are whole
//! millionths, because in floats 99.9 % of 1000 are a little more than 999, and the rank 1000.

/// The share of the median.
pub const MEDIAN: u32 = 500_000;

/// Place of a quantile among `count` values in ascending order: 1 is the smallest.
pub fn rank(count: u64, per_million: u32) -> u64 {
    let rank = (u128::from(count) * u128::from(per_million)).div_ceil(1_000_000);
    // Below `count` for every share up to the whole.
    u64::try_from(rank).unwrap_or(u64::MAX).max(1)
}

/// The quantile of ascending values; `None` without values.
///
/// ```
/// use schedcast_base::quantile::{MEDIAN, nearest_rank};
/// assert_eq!(nearest_rank(&[1, 2, 3, 4], MEDIAN), Some(2));
/// assert_eq!(nearest_rank(&[1, 2, 3, 4], 990_000), Some(4));
/// ```
pub fn nearest_rank<T: Copy>(sorted: &[T], per_million: u32) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    let place = rank(sorted.len() as u64, per_million) as usize - 1;
    Some(sorted[place.min(last)])
}

/// The quantile at so many per cent of values in any order; `None` without values.
pub fn percentile(values: impl Into<Vec<f64>>, percent: f64) -> Option<f64> {
    let mut sorted = values.into();
    sorted.sort_by(f64::total_cmp);
    nearest_rank(&sorted, (percent * 1e4).round() as u32)
}

/// The median of values in any order; `None` without values.
///
/// ```
/// use schedcast_base::quantile::median;
/// assert_eq!(median([4.0, 1.0, 3.0, 2.0]), Some(2.0));
/// ```
pub fn median(values: impl Into<Vec<f64>>) -> Option<f64> {
    percentile(values, 50.0)
}

/// Smallest value, median and largest value; `None` without values.
pub fn spread(values: impl Into<Vec<f64>>) -> Option<[f64; 3]> {
    let mut sorted = values.into();
    sorted.sort_by(f64::total_cmp);
    let middle = nearest_rank(&sorted, MEDIAN)?;
    Some([sorted[0], middle, sorted[sorted.len() - 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred[..], 50.0), Some(50.0));
        assert_eq!(percentile(&hundred[..], 99.0), Some(99.0));
        assert_eq!(percentile(&hundred[..], 99.9), Some(100.0));
        assert_eq!(percentile(&hundred[..], 0.0), Some(1.0));
        assert_eq!(percentile(&hundred[..], 100.0), Some(100.0));
        assert_eq!(percentile([], 50.0), None);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(percentile(thousand, 99.9), Some(999.0));
        assert_eq!(percentile(hundred, 55.0), Some(55.0));
    }
}
