//! Division by a number that hardly ever changes, without dividing.
//!
//! A 64-bit division takes as long as ten other instructions. Multiplying by ⌊(2⁶⁴ − 1) / d⌋ and
//! keeping the upper half gives the quotient or one less; the remainder tells which. Worked example
//! in decimal with three digits and d = 4: the inverse is ⌊999 / 4⌋ = 249. 7 · 249 = 1743, upper
//! part 1; the remainder 7 − 4 is below 4, so 7 / 4 = 1. 8 · 249 = 1992, upper part 1; the
//! remainder 8 − 4 is not, so 8 / 4 = 2.

/// A divisor with its inverse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divisor {
    value: u64,
    inverse: u64,
}

impl Divisor {
    /// To divide by `value`.
    ///
    /// # Panics
    /// When `value` is 0.
    pub const fn new(value: u64) -> Self {
        Self {
            value,
            inverse: u64::MAX / value,
        }
    }

    /// `number` divided by it, rounded down.
    #[inline(always)]
    pub const fn quotient(&self, number: u64) -> u64 {
        let least = ((number as u128 * self.inverse as u128) >> 64) as u64;
        let rest = number - least * self.value;
        least + (rest >= self.value) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ends_of_the_range() {
        for value in [1, 2, 3, 4_000_000, 1 << 32, u64::MAX - 1, u64::MAX] {
            for number in [0, 1, value - 1, value, value.saturating_add(1), u64::MAX] {
                let found = Divisor::new(value).quotient(number);
                assert_eq!(found, number / value, "{number} / {value}");
            }
        }
    }

    proptest! {
        #[test]
        fn is_division(number in any::<u64>(), value in 1..u64::MAX, shift in 0..63u32) {
            let value = (value >> shift).max(1);
            prop_assert_eq!(Divisor::new(value).quotient(number), number / value);
            let multiple = number / value * value;
            prop_assert_eq!(Divisor::new(value).quotient(multiple), multiple / value);
        }
    }
}
