//! The last idle periods of a CPU, as `menu` looks for a typical one among them.
//!
//! Worked example: 100, 104, 98, 100, 101, 5000, 99, 102 µs. The shortest and the longest lie far
//! apart, so they are not alike. Without the longest the sum is 704 and the mean 100; 98 and 104
//! lie close together, so the rest is alike. In between the variance is asked, 24 / 7 = 3 µs² here.
//! The sum is kept while periods come and go.

/// Periods that are remembered.
pub(super) const INTERVALS: usize = 8;

/// The last idle periods, µs.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    pub(crate) by_age: [u32; INTERVALS],
    /// Place of the oldest.
    oldest: usize,
    /// The same in order, so that outliers are at the ends.
    ascending: [u32; INTERVALS],
    sum: u64,
}

impl Intervals {
    /// The oldest makes room for a new one.
    pub(super) fn note(&mut self, us: u32) {
        let gone = std::mem::replace(&mut self.by_age[self.oldest], us);
        self.oldest = (self.oldest + 1) % INTERVALS;
        self.sum = self.sum + u64::from(us) - u64::from(gone);
        // Lengths come as chance has it, and a processor that guesses wrong where a new one belongs
        // loses more than looking at all eight takes: the one that is gone and those behind it move
        // down, then the new one goes between.
        let before = self.ascending;
        let mut below = 0;
        for (row, place) in self.ascending.iter_mut().enumerate() {
            let above = if row + 1 == INTERVALS {
                u32::MAX
            } else if before[row] < gone {
                before[row]
            } else {
                before[row + 1]
            };
            *place = us.max(below).min(above);
            below = above;
        }
    }

    pub(super) fn samples(&self) -> Samples<'_> {
        Samples {
            ascending: &self.ascending,
            sum: self.sum,
        }
    }
}

/// ⌈2⁶³ / n⌉: times a sum of so many periods of 32 bits and without the last 63 bits, that is their
/// mean, for what rounding up adds is far less than an eighth.
const MEAN_FACTOR: [u64; INTERVALS + 1] = {
    let mut factors = [0; INTERVALS + 1];
    let mut count = 1;
    while count <= INTERVALS {
        factors[count] = (1u64 << 63).div_ceil(count as u64);
        count += 1;
    }
    factors
};

/// Samples that remain after outliers are left out, in µs.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    ascending: &'a [u32],
    sum: u64,
}

impl Samples<'_> {
    pub(super) fn count(self) -> u64 {
        self.ascending.len() as u64
    }

    pub(super) fn least(self) -> u32 {
        self.ascending.first().copied().unwrap_or(0)
    }

    pub(super) fn most(self) -> u32 {
        self.ascending.last().copied().unwrap_or(0)
    }

    /// Leaves out the smallest, or else the largest, and those like it. Which of them is a matter
    /// of chance and therefore no jump, while equal ones are rare.
    #[inline(always)]
    pub(crate) fn leave_out(&mut self, smallest: bool) {
        let extreme = if smallest { self.least() } else { self.most() };
        while !self.ascending.is_empty() {
            let next = if smallest { self.least() } else { self.most() };
            if next != extreme {
                break;
            }
            self.sum -= u64::from(extreme);
            let from = usize::from(smallest);
            let to = self.ascending.len() - usize::from(!smallest);
            self.ascending = &self.ascending[from..to];
        }
    }

    pub(super) fn mean(self) -> u64 {
        let factor = MEAN_FACTOR[self.ascending.len()];
        ((u128::from(self.sum) * u128::from(factor)) >> 63) as u64
    }

    /// Asked where extremes do not tell.
    #[inline(never)]
    fn variance(self, mean: u64, mean_square: bool) -> u64 {
        let from = if mean_square { 0 } else { mean };
        let squares = self.ascending.iter().map(|&us| {
            let distance = u128::from(u64::from(us).abs_diff(from));
            distance * distance
        });
        let (sum, count) = (squares.sum::<u128>(), self.count().max(1));
        // Nearly always 64 bits, which a processor divides faster.
        let square = match u64::try_from(sum) {
            Ok(sum) => u128::from(sum / count),
            Err(_) => sum / u128::from(count),
        };
        let variance = square - u128::from(mean - from).pow(2);
        u64::try_from(variance).unwrap_or(u64::MAX)
    }

    /// A standard deviation of at most 20 µs, or a sixth of the mean with enough samples. With
    /// `mean_square` the variance is the mean square less the square of the mean, and that is
    /// rounded down.
    ///
    /// Worked example: 1000 and four times 1001 µs. The mean is 1000.8, rounded down 1000. The
    /// squares of the distances are 4 / 5 = 0; the mean square is 1,001,600, and 1600 more than the
    /// square of 1000: not alike, for five samples are too few for the sixth.
    #[inline(always)]
    pub(crate) fn are_alike(self, mean: u64, mean_square: bool) -> bool {
        let enough = self.count() * 4 >= INTERVALS as u64 * 3;
        // A sample between the extremes is no further from the mean than they are from each other:
        // the variance is at most 100, seen from a rounded mean 101, and the mean square adds less
        // than twice the mean.
        let close = self.distance() <= 20 && (!mean_square || mean < 150);
        close || (!self.are_far_apart(mean, enough) && self.vary_little(mean, enough, mean_square))
    }

    #[inline(always)]
    fn distance(self) -> u64 {
        u64::from(self.most() - self.least())
    }

    /// Two samples at a distance of r alone make squares of r² / 2 around any mean, and there are
    /// eight at most. So r of more than 80 µs means a variance of more than 400 µs², and r of ¾ of
    /// the mean one of more than a 36th of its square. That of the mean square is no less.
    #[inline(always)]
    fn are_far_apart(self, mean: u64, enough: bool) -> bool {
        let distance = self.distance();
        distance > 80 && (!enough || 4 * distance >= 3 * mean)
    }

    fn vary_little(self, mean: u64, enough: bool, mean_square: bool) -> bool {
        let variance = self.variance(mean, mean_square);
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
            assert_eq!(intervals.sum, sum);
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
        assert!(!samples.are_alike(713, false));
        samples.leave_out(false);
        assert_eq!((samples.sum, samples.mean()), (704, 100));
        assert_eq!(samples.variance(100, false), 3);
        assert!(samples.are_alike(100, false));
        // The mean is 100.57: squares are 70,826 / 7 = 10,118 on average, 118 more than that
        // of 100.
        assert_eq!(samples.variance(100, true), 118);
        assert!(samples.are_alike(100, true));
    }

    #[test]
    fn the_square_of_a_rounded_mean_makes_few_samples_differ() {
        let mut intervals = Intervals::default();
        for us in [9000, 1001, 1001, 9000, 1000, 1001, 9000, 1001] {
            intervals.note(us);
        }
        let mut samples = intervals.samples();
        samples.leave_out(false);
        assert_eq!((samples.count(), samples.mean()), (5, 1000));
        assert_eq!(samples.variance(1000, false), 0);
        assert_eq!(samples.variance(1000, true), 1600);
        assert!(samples.are_alike(1000, false));
        assert!(!samples.are_alike(1000, true));
    }

    proptest::proptest! {
        #[test]
        fn means_are_rounded_down_and_extremes_tell_what_squares_would(
            lengths in proptest::collection::vec(proptest::prelude::any::<u32>(), INTERVALS),
            shift in 0..32u32,
            base in 0..1000u32,
        ) {
            let mut intervals = Intervals::default();
            for us in lengths {
                intervals.note((us >> shift).saturating_add(base));
            }
            let mut samples = intervals.samples();
            while samples.count() > 0 {
                let mean = samples.mean();
                proptest::prop_assert_eq!(mean, samples.sum / samples.count());
                for enough in [false, true] {
                    if samples.are_far_apart(mean, enough) {
                        proptest::prop_assert!(!samples.vary_little(mean, enough, false));
                        proptest::prop_assert!(!samples.vary_little(mean, enough, true));
                    }
                    if samples.distance() <= 20 {
                        proptest::prop_assert!(samples.vary_little(mean, enough, false));
                        proptest::prop_assert!(mean >= 150 || samples.vary_little(mean, enough, true));
                    }
                }
                let smallest = samples.count() % 2 == 0;
                samples.leave_out(smallest);
            }
        }
    }
}
