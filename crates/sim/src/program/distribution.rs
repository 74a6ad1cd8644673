//! Distributions as integer quantile functions, the same on every machine.
//!
//! A draw takes one uniform 64-bit number u and returns the quantile at u / 2⁶⁴. Nothing here uses
//! libm, whose results differ between platforms. Worked example: `Exponential { mean: 1000 }` at
//! u = 2⁶³ (the median) gives −1000 · ln ½ = 693.

use thiserror::Error;

/// Distribution from which an amount is drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Every integer from `low` to `high`, both included.
    Uniform {
        /// Smallest value.
        low: u64,
        /// Largest value.
        high: u64,
    },
    /// Exponential, rounded down to integers.
    Exponential {
        /// Mean.
        mean: u64,
    },
    /// One of these values, each equally likely.
    Empirical(Vec<u64>),
    /// Quantiles at equal steps of probability from 0 to 1, linear in between. Ascending.
    Quantiles(Vec<u64>),
}

/// Why a distribution cannot be drawn from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DistributionError {
    /// `low` is above `high`.
    #[error("the lower end is above the upper end")]
    LowAboveHigh,
    /// No values.
    #[error("there are no values")]
    Empty,
    /// Quantiles descend.
    #[error("quantiles must not descend")]
    Descending,
}

impl Distribution {
    /// Every integer from `low` to `high`, both included.
    pub fn uniform(low: u64, high: u64) -> Self {
        Self::Uniform { low, high }
    }

    /// Whether it can be drawn from.
    pub fn check(&self) -> Result<(), DistributionError> {
        match self {
            Distribution::Uniform { low, high } if low > high => {
                Err(DistributionError::LowAboveHigh)
            }
            Distribution::Empirical(values) | Distribution::Quantiles(values)
                if values.is_empty() =>
            {
                Err(DistributionError::Empty)
            }
            Distribution::Quantiles(values) if values.windows(2).any(|pair| pair[0] > pair[1]) => {
                Err(DistributionError::Descending)
            }
            _ => Ok(()),
        }
    }

    /// The quantile at `uniform` / 2⁶⁴.
    #[inline]
    pub fn quantile(&self, uniform: u64) -> u64 {
        match self {
            Distribution::Uniform { low, high } => {
                let span = u128::from(high - low) + 1;
                low + scale(uniform, span) as u64
            }
            Distribution::Exponential { mean } => exponential(*mean, uniform),
            Distribution::Empirical(values) => {
                values[scale(uniform, values.len() as u128) as usize]
            }
            Distribution::Quantiles(values) => interpolate(values, uniform),
        }
    }
}

/// ⌊span · uniform / 2⁶⁴⌋.
#[inline]
fn scale(uniform: u64, span: u128) -> u128 {
    (u128::from(uniform) * span) >> 64
}

/// The quantile at `uniform` / 2⁶⁴ of quantiles at equal steps of probability.
pub(crate) fn interpolate(values: &[u64], uniform: u64) -> u64 {
    let steps = values.len() as u128 - 1;
    let position = u128::from(uniform) * steps;
    let row = (position >> 64) as usize;
    let Some(&next) = values.get(row + 1) else {
        return values[row];
    };
    let fraction = position as u64;
    values[row] + scale(fraction, u128::from(next - values[row])) as u64
}

/// ln 2 in 64-bit fixed point.
const LN_2: u128 = 0xb172_17f7_d1cf_79ab;

fn exponential(mean: u64, uniform: u64) -> u64 {
    // −log2((uniform + 1) / 2⁶⁴), so that the argument is never 0.
    let log2_q32 = (64u64 << 32) - log2_q32(u128::from(uniform) + 1);
    let ln_q32 = (u128::from(log2_q32) * LN_2) >> 64;
    ((ln_q32 * u128::from(mean)) >> 32) as u64
}

const LOG_BITS: u32 = 10;
const LOG_ROWS: usize = (1 << LOG_BITS) + 1;
/// log2(1 + row / 1024) in 32-bit fixed point.
static LOG_TABLE: [u64; LOG_ROWS] = log_table();

const fn log_table() -> [u64; LOG_ROWS] {
    let mut table = [0; LOG_ROWS];
    let mut row = 0;
    while row < LOG_ROWS {
        table[row] = log2_of_mantissa((1 << 62) + ((row as u64) << (62 - LOG_BITS)));
        row += 1;
    }
    table
}

/// log2 of a number in [1, 2] given with 62 fraction bits, by repeated squaring: each square
/// doubles the logarithm, and whether it passes 2 is its next bit.
const fn log2_of_mantissa(mantissa: u64) -> u64 {
    if mantissa >> 63 != 0 {
        return 1 << 32;
    }
    let mut x = mantissa as u128;
    let mut bits = 0u64;
    let mut step = 0;
    while step < 32 {
        x = (x * x) >> 62;
        bits <<= 1;
        if x >> 63 != 0 {
            x >>= 1;
            bits |= 1;
        }
        step += 1;
    }
    bits
}

/// log2 of 1..=2⁶⁴ in 32-bit fixed point.
fn log2_q32(value: u128) -> u64 {
    let exponent = 127 - value.leading_zeros();
    // Mantissa bits below the leading one, left-aligned in 64 bits.
    let fraction = ((value << (127 - exponent)) << 1 >> 64) as u64;
    let row = (fraction >> (64 - LOG_BITS)) as usize;
    let rest = fraction << LOG_BITS;
    let step = LOG_TABLE[row + 1] - LOG_TABLE[row];
    (u64::from(exponent) << 32) + LOG_TABLE[row] + scale(rest, u128::from(step)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `steps` quantiles at the centres of equal probability bins.
    fn sweep(distribution: &Distribution, steps: u64) -> Vec<u64> {
        let width = u64::MAX / steps;
        (0..steps)
            .map(|step| distribution.quantile(step * width + width / 2))
            .collect()
    }

    #[test]
    fn exponential_has_its_median_mean_and_tail() {
        let distribution = Distribution::Exponential { mean: 1_000_000 };
        assert_eq!(distribution.quantile(1 << 63), 693_147);
        // P(X > x) = exp(-x / mean): the 1 % tail starts at mean · ln 100 = 4.605170.
        assert!(distribution.quantile(u64::MAX / 100).abs_diff(4_605_170) < 5);
        let draws = sweep(&distribution, 100_000);
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!(mean.abs_diff(1_000_000) < 100, "{mean}");
        assert_eq!(distribution.quantile(u64::MAX), 0);
        assert_eq!(distribution.quantile(0), 44_361_419); // 64 · ln 2
    }

    #[test]
    fn uniform_reaches_both_ends_evenly() {
        let distribution = Distribution::Uniform { low: 10, high: 13 };
        let draws = sweep(&distribution, 4000);
        for value in 10..=13 {
            let count = draws.iter().filter(|&&draw| draw == value).count();
            assert_eq!(count, 1000);
        }
        let all = Distribution::uniform(0, u64::MAX);
        assert_eq!(all.quantile(u64::MAX), u64::MAX);
    }

    #[test]
    fn empirical_returns_only_its_values() {
        let draws = sweep(&Distribution::Empirical(vec![5, 100, 7]), 3000);
        assert_eq!(draws.iter().filter(|&&draw| draw == 100).count(), 1000);
        assert!(draws.iter().all(|draw| [5, 7, 100].contains(draw)));
    }

    #[test]
    fn quantiles_are_linear_in_between() {
        let distribution = Distribution::Quantiles(vec![0, 100, 1000]);
        assert_eq!(distribution.quantile(0), 0);
        assert_eq!(distribution.quantile(1 << 62), 50);
        assert_eq!(distribution.quantile(1 << 63), 100);
        assert_eq!(distribution.quantile(3 << 62), 550);
        assert_eq!(distribution.quantile(u64::MAX), 999);
        assert_eq!(Distribution::Quantiles(vec![7]).quantile(u64::MAX), 7);
    }

    #[test]
    fn what_cannot_be_drawn_from_is_refused() {
        let bad = [
            (
                Distribution::Uniform { low: 2, high: 1 },
                DistributionError::LowAboveHigh,
            ),
            (
                Distribution::Empirical(Vec::new()),
                DistributionError::Empty,
            ),
            (
                Distribution::Quantiles(vec![2, 1]),
                DistributionError::Descending,
            ),
        ];
        for (distribution, error) in bad {
            assert_eq!(distribution.check(), Err(error));
        }
    }
}
