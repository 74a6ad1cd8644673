//! The last idle periods of a CPU, as `menu` looks for a typical one among them.
//!
//! Worked example: 100, 104, 98, 100, 101, 5000, 99, 102 µs. Their mean is 713 and their spread larger; without the largest
//! the sum is 704 and the sum of squares 70,826, so the mean is 100 and the variance (70,826 − 2 · 100 · 704 + 7 · 100²) / 7 = 3.
//! Both sums are kept while periods come and go.

use crate::divide::Divisor;

/// Periods that are remembered.
pub(super) const INTERVALS: usize = 8;

/// The last idle periods, µs.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    pub by_age: [u32; INTERVALS],
    /// Place of the oldest.
    oldest: usize,
    /// The same in order, so that outliers are at the ends.
    ascending: [u32; INTERVALS],
    sum: u64,
    /// Sum of their squares modulo 2⁶⁴.
    squares: u64,
}

impl Intervals {
    /// The oldest makes room for a new one.
    pub fn note(&mut self, us: u32) {
        let gone = std::mem::replace(&mut self.by_age[self.oldest], us);
        self.oldest = (self.oldest + 1) % INTERVALS;
        self.sum = self.sum + u64::from(us) - u64::from(gone);
        self.squares = self
            .squares
            .wrapping_add(square(us))
            .wrapping_sub(square(gone));
        let ascending = &mut self.ascending;
        let found = ascending.iter().position(|&other| other == gone);
        let mut row = found.unwrap_or_default();
        while row + 1 < INTERVALS && ascending[row + 1] < us {
            ascending[row] = ascending[row + 1];
            row += 1;
        }
        while row > 0 && ascending[row - 1] > us {
            ascending[row] = ascending[row - 1];
            row -= 1;
        }
        ascending[row] = us;
    }

    pub fn samples(&self) -> Samples<'_> {
        Samples {
            ascending: &self.ascending,
            sum: self.sum,
            squares: self.squares,
        }
    }
}

/// To divide by how many are left; by 1 when none are.
const BY_COUNT: [Divisor; INTERVALS + 1] = {
    let mut divisors = [Divisor::new(1); INTERVALS + 1];
    let mut count = 1;
    while count <= INTERVALS {
        divisors[count] = Divisor::new(count as u64);
        count += 1;
    }
    divisors
};

fn square(us: u32) -> u64 {
    u64::from(us) * u64::from(us)
}

/// Values of which sums of squares fit 64 bits; only idle periods of minutes are longer.
const SMALL_US: u32 = 1 << 30;

/// What is left of the samples after leaving out outliers, in µs. The squares around the mean follow from the plain sums,
/// Σ(x − m)² = Σx² − 2mΣx + nm², so leaving a sample out costs two subtractions.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    ascending: &'a [u32],
    sum: u64,
    /// Modulo 2⁶⁴; not used when a value is not [`SMALL_US`].
    squares: u64,
}

impl Samples<'_> {
    pub fn count(self) -> u64 {
        self.ascending.len() as u64
    }

    pub fn least(self) -> u32 {
        self.ascending.first().copied().unwrap_or(0)
    }

    pub fn most(self) -> u32 {
        self.ascending.last().copied().unwrap_or(0)
    }

    fn leave_out(&mut self, us: u32) {
        self.sum -= u64::from(us);
        self.squares = self.squares.wrapping_sub(square(us));
    }

    /// Leaves out the smallest, and those like it.
    pub fn leave_out_least(&mut self) {
        let least = self.least();
        while let Some((&us, rest)) = self.ascending.split_first()
            && us == least
        {
            self.leave_out(us);
            self.ascending = rest;
        }
    }

    /// Leaves out the largest, and those like it.
    pub fn leave_out_most(&mut self) {
        let most = self.most();
        while let Some((&us, rest)) = self.ascending.split_last()
            && us == most
        {
            self.leave_out(us);
            self.ascending = rest;
        }
    }

    pub fn mean(self) -> u64 {
        BY_COUNT[self.ascending.len()].quotient(self.sum)
    }

    fn variance(self, mean: u64) -> u64 {
        let count = self.count().max(1);
        if self.most() < SMALL_US {
            let cross = (2 * mean).wrapping_mul(self.sum);
            let squares = self.squares.wrapping_sub(cross);
            let squares = squares.wrapping_add(count * mean * mean);
            return BY_COUNT[self.ascending.len()].quotient(squares);
        }
        let square = |&us: &u32| u128::from(u64::from(us).abs_diff(mean)).pow(2);
        let squares: u128 = self.ascending.iter().map(square).sum();
        u64::try_from(squares / u128::from(count)).unwrap_or(u64::MAX)
    }

    /// A spread of at most 20 µs, or a sixth of the mean with enough samples.
    pub fn are_alike(self, mean: u64) -> bool {
        let variance = self.variance(mean);
        let enough = self.count() * 4 >= INTERVALS as u64 * 3;
        // The mean of numbers of 32 bits: its square is one of 64.
        variance <= u64::MAX / 36 && ((enough && mean * mean > variance * 36) || variance <= 400)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_kept_in_both_orders() {
        let mut intervals = Intervals::default();
        let lengths = [
            5,
            3,
            9,
            9,
            1,
            0,
            7,
            u32::MAX,
            3,
            3,
            4,
            8,
            8,
            2,
            6,
            1,
            1000,
            0,
            5,
        ];
        for (row, &us) in lengths.iter().enumerate() {
            intervals.note(us);
            let mut expected: Vec<u32> = lengths[..=row].iter().rev().take(8).copied().collect();
            expected.resize(8, 0);
            expected.sort_unstable();
            assert_eq!(intervals.ascending[..], expected);
            let sum: u64 = expected.iter().map(|&us| u64::from(us)).sum();
            let squares = expected.iter().map(|&us| square(us));
            assert_eq!(intervals.sum, sum);
            assert_eq!(intervals.squares, squares.fold(0, u64::wrapping_add));
        }
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut intervals = Intervals::default();
        for us in [100, 104, 98, 100, 101, 5000, 99, 102] {
            intervals.note(us);
        }
        let mut samples = intervals.samples();
        assert_eq!(samples.mean(), 713);
        assert!(!samples.are_alike(713));
        samples.leave_out_most();
        assert_eq!((samples.sum, samples.squares), (704, 70_826));
        assert_eq!((samples.mean(), samples.variance(100)), (100, 3));
        assert!(samples.are_alike(100));
    }
}
