//! Means, spreads and the paired bootstrap.
//!
//! Seeds play the role of repeats, and two variants run under the same seeds, so they are compared
//! seed by seed: the bootstrap draws *seeds* with replacement, and a seed brings its value of both
//! variants. Worked example: baseline 10, 20, 30 and variant 11, 21, 31. Each variant alone varies
//! by ±10, but the difference is 1 in every seed, so its interval is [1, 1] and excludes zero: the
//! change is significant. An unpaired test would see nothing.
//!
//! The percentile interval of a bootstrap is too narrow for few seeds: it knows the spread of the
//! seeds it has as if that were the whole truth. It is therefore widened around the estimate by
//! t₀.₉₇₅(n−1)/1.96 · √(n/(n−1)), the factor by which Student's interval exceeds the normal one:
//! 1.22 for 10 seeds, 1.87 for 4. One seed has no interval and is never significant.
//!
//! A star asks for more than an interval of 95 %: a table has dozens of rows, and with one in
//! twenty of them wrong it would always show a change. So the paired difference must lie outside
//! Student's interval of 99 % too.
//!
//! The [`chaos_floor`] says which change the seeds alone make: where two runs that differ in one
//! nanosecond go different ways, a comparison sees no smaller effect than that.
//!
//! Resampling is deterministic: a fixed number of resamples from a fixed stream.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

pub use self::least::least_upper_end;

mod least;

/// How values of several seeds become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeanKind {
    /// Sum over count: for times and counts.
    Arithmetic,
    /// Count over the sum of reciprocals: for rates.
    Harmonic,
}

/// A closed range, low end first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
}

impl Interval {
    /// Both ends, the low one first.
    pub(crate) fn ends(self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Whether `value` lies inside or on an end.
    pub(crate) fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The mean of `samples`; `None` without samples. A harmonic mean with a zero in it is zero.
pub fn mean(kind: MeanKind, samples: &[f64]) -> Option<f64> {
    if samples.is_empty() {
        return None;
    }
    let count = samples.len() as f64;
    match kind {
        MeanKind::Arithmetic => Some(samples.iter().sum::<f64>() / count),
        MeanKind::Harmonic if samples.contains(&0.0) => Some(0.0),
        MeanKind::Harmonic => Some(count / samples.iter().map(|sample| 1.0 / sample).sum::<f64>()),
    }
}

/// Standard deviation of the population that `samples` came from (n − 1); zero for one sample.
pub fn standard_deviation(samples: &[f64]) -> f64 {
    let Some(center) = mean(MeanKind::Arithmetic, samples) else {
        return 0.0;
    };
    if samples.len() < 2 {
        return 0.0;
    }
    let squares: f64 = samples
        .iter()
        .map(|sample| (sample - center) * (sample - center))
        .sum();
    (squares / (samples.len() - 1) as f64).sqrt()
}

/// Resamples of every bootstrap.
const RESAMPLES: usize = 4_000;
/// Start of the resampling stream: any constant will do.
const STREAM_START: u64 = 0x7363_6865_6463_6173;
/// 97.5 % quantile of the normal distribution.
pub const NORMAL_QUANTILE: f64 = 1.959_963_985;
/// 97.5 % quantiles of Student's distribution for 1 to 30 degrees of freedom.
const STUDENT_QUANTILE: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// 95 % interval of one further run of the same kind: mean ± t·s·√(1 + 1/n). Where the interval of
/// the mean says how well the mean is known, this says where a single measurement will lie. `None`
/// for fewer than two samples.
///
/// Worked example: 70, 72 and 74 have mean 72 and s = 2; t of two degrees of freedom is 4.303, so
/// one more run lies within 72 ± 4.303 · 2 · √(4/3) = 72 ± 9.94.
pub(crate) fn prediction_interval(samples: &[f64]) -> Option<Interval> {
    if samples.len() < 2 {
        return None;
    }
    let center = mean(MeanKind::Arithmetic, samples)?;
    let count = samples.len() as f64;
    let reach = student_quantile(samples.len()) * standard_deviation(samples);
    let reach = reach * (1.0 + 1.0 / count).sqrt();
    let never_negative = samples.iter().all(|sample| *sample >= 0.0);
    let low = center - reach;
    Some(Interval {
        low: if never_negative { low.max(0.0) } else { low },
        high: center + reach,
    })
}

/// The interval of one further run that is of one of these kinds, as wide as each of them needs.
pub fn prediction_interval_of_all(kinds: &[Vec<f64>]) -> Option<Interval> {
    let intervals = kinds
        .iter()
        .filter_map(|samples| prediction_interval(samples));
    intervals.reduce(|one, other| Interval {
        low: one.low.min(other.low),
        high: one.high.max(other.high),
    })
}

/// 97.5 % quantile of Student's distribution for `count` samples.
fn student_quantile(count: usize) -> f64 {
    let freedom = (count - 1) as f64;
    match STUDENT_QUANTILE.get(count - 2) {
        Some(quantile) => *quantile,
        None => {
            // The quantile's expansion in 1/freedom, two terms.
            let z = NORMAL_QUANTILE;
            let (cube, fifth) = (z * z * z, z * z * z * z * z);
            z + (cube + z) / (4.0 * freedom)
                + (5.0 * fifth + 16.0 * cube + 3.0 * z) / (96.0 * freedom * freedom)
        }
    }
}

/// 99.5 % quantiles of Student's distribution for 1 to 30 degrees of freedom.
const STUDENT_QUANTILE_OF_STARS: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012,
    2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779,
    2.771, 2.763, 2.756, 2.750,
];
/// The same of the normal distribution.
const NORMAL_QUANTILE_OF_STARS: f64 = 2.575_829_304;

/// Whether the mean of paired differences lies outside Student's 99 % interval around zero.
fn differ_for_sure(differences: &[f64]) -> bool {
    let Some(center) = mean(MeanKind::Arithmetic, differences).filter(|_| differences.len() > 1)
    else {
        return false;
    };
    let count = differences.len();
    let row = STUDENT_QUANTILE_OF_STARS.get(count - 2);
    let quantile = row.copied().unwrap_or_else(|| {
        let (z, freedom) = (NORMAL_QUANTILE_OF_STARS, (count - 1) as f64);
        z + (z * z * z + z) / (4.0 * freedom)
    });
    center.abs() > quantile * standard_deviation(differences) / (count as f64).sqrt()
}

/// Largest change, relative to the mean, that 95 of 100 comparisons of `samples` with as many runs
/// of the same thing under other draws show: t · √(2/n) · s / |mean|. `None` for fewer than two
/// samples and around zero.
///
/// Worked example: ten runs with a mean of 100 and s = 3; t of nine degrees of freedom is 2.262, so
/// the means of two such series differ by up to 2.262 · √0.2 · 3 = 3.03, which is 3 %.
pub(crate) fn chaos_floor(samples: &[f64]) -> Option<f64> {
    let center = mean(MeanKind::Arithmetic, samples).filter(|center| *center != 0.0)?;
    if samples.len() < 2 {
        return None;
    }
    let of_means = (2.0 / samples.len() as f64).sqrt() * standard_deviation(samples);
    Some(student_quantile(samples.len()) * of_means / center.abs())
}

/// Factor that widens a percentile interval of `count` seeds.
fn small_sample_factor(count: usize) -> f64 {
    student_quantile(count) / NORMAL_QUANTILE * (count as f64 / (count - 1) as f64).sqrt()
}

/// The seeds of every resample, drawn once and used for all metrics.
#[derive(Clone, Debug)]
pub(crate) struct Bootstrap {
    count: usize,
    /// `count` rows of `RESAMPLES` seed indices: the first seed of each resample, then the second.
    draws: Vec<u32>,
}

impl Bootstrap {
    /// Draws for `count` seeds.
    pub(crate) fn new(count: usize) -> Bootstrap {
        let mut stream = Pcg64Mcg::seed_from_u64(STREAM_START);
        let draw = |_| ((u64::from(stream.next_u32()) * count as u64) >> 32) as u32;
        // Drawn resample by resample.
        let drawn: Vec<u32> = (0..RESAMPLES * count).map(draw).collect();
        let row = |place| drawn.iter().skip(place).step_by(count).copied();
        Bootstrap {
            count,
            draws: (0..count).flat_map(row).collect(),
        }
    }

    /// The mean of every resample, added up in the order of its seeds as [`Means::of_all`] does.
    fn means(&self, means: &Means<'_>) -> Vec<f64> {
        if let (true, Some(mean)) = (means.is_constant(), means.of_all()) {
            return vec![mean; RESAMPLES];
        }
        // Minus zero leaves whatever is added to it as it is.
        let mut values = vec![-0.0; RESAMPLES];
        for seeds in self.draws.chunks_exact(RESAMPLES) {
            for (sum, seed) in values.iter_mut().zip(seeds) {
                *sum += means.terms[*seed as usize];
            }
        }
        for value in &mut values {
            *value = means.of_sum(*value, self.count);
        }
        if means.zeros {
            for seeds in self.draws.chunks_exact(RESAMPLES) {
                for (value, seed) in values.iter_mut().zip(seeds) {
                    if means.samples[*seed as usize] == 0.0 {
                        *value = 0.0;
                    }
                }
            }
        }
        values
    }

    /// 95 % interval of a statistic that is `estimate` for the seeds as they are, from its values
    /// for the resamples. `None` for fewer than two seeds or where a value is not finite.
    fn interval(&self, estimate: f64, values: &[f64]) -> Option<Interval> {
        if self.count < 2 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut ranks: Vec<i64> = values.iter().map(|value| rank(*value)).collect();
        let tail = RESAMPLES / 40; // 2.5 %
        let (lower, high, _) = ranks.select_nth_unstable(RESAMPLES - 1 - tail);
        let (_, low, _) = lower.select_nth_unstable(tail);
        Some(self.widened(estimate, of_rank(*low), of_rank(*high)))
    }

    fn widened(&self, estimate: f64, low: f64, high: f64) -> Interval {
        let factor = small_sample_factor(self.count);
        Interval {
            low: estimate - (estimate - low) * factor,
            high: estimate + (high - estimate) * factor,
        }
    }

    /// Interval of a mean that is the same whatever seeds are drawn.
    fn of_constant(&self, mean: f64) -> Option<Interval> {
        (self.count >= 2 && mean.is_finite()).then(|| self.widened(mean, mean, mean))
    }

    /// 95 % interval of the mean of `samples`, one for each seed.
    pub(crate) fn of_mean(&self, kind: MeanKind, samples: &[f64]) -> Option<Interval> {
        debug_assert_eq!(samples.len(), self.count);
        let means = Means::new(kind, samples);
        let mut interval = match means.is_constant() {
            true => self.of_constant(means.of_all()?)?,
            false => self.interval(means.of_all()?, &self.means(&means))?,
        };
        // No mean of values that are never negative is negative.
        if samples.iter().all(|sample| *sample >= 0.0) {
            interval.low = interval.low.max(0.0);
        }
        Some(interval)
    }

    /// 95 % interval of the ratio of the means of `variant` and `baseline`, seed by seed. Both have
    /// one sample for each seed.
    pub(crate) fn of_ratio(
        &self,
        kind: MeanKind,
        baseline: &[f64],
        variant: &[f64],
    ) -> Option<Interval> {
        let pair = Pair::new(kind, baseline, variant);
        let estimate = pair.ratio()?;
        self.ratio_interval(&pair, estimate, &self.pairs(&pair))
    }

    /// Compares `variant` with `baseline`, seed by seed. Both have one sample for each seed.
    pub(crate) fn compare(&self, kind: MeanKind, baseline: &[f64], variant: &[f64]) -> Change {
        let pair = Pair::new(kind, baseline, variant);
        let ratio = pair.ratio();
        let Some((below, above)) = pair.means().filter(|_| pair.differs_for_sure()) else {
            return Change {
                ratio,
                ratio_interval: None,
                significant: false,
            };
        };
        let pairs = self.pairs(&pair);
        let interval = ratio.and_then(|ratio| self.ratio_interval(&pair, ratio, &pairs));
        let difference = || {
            let differences = pairs.iter().map(|(below, above)| above - below);
            self.interval(above - below, &differences.collect::<Vec<f64>>())
        };
        Change {
            ratio,
            ratio_interval: Some(interval),
            // Both must say so, or the printed interval would contradict the star.
            significant: interval.is_none_or(|interval| !interval.contains(1.0))
                && difference().is_some_and(|interval| !interval.contains(0.0)),
        }
    }

    /// Both means of every resample.
    fn pairs(&self, pair: &Pair<'_>) -> Vec<(f64, f64)> {
        let (lows, highs) = (self.means(&pair.below), self.means(&pair.above));
        lows.into_iter().zip(highs).collect()
    }

    fn ratio_interval(
        &self,
        pair: &Pair<'_>,
        estimate: f64,
        pairs: &[(f64, f64)],
    ) -> Option<Interval> {
        if pairs.iter().any(|(below, _)| *below == 0.0) {
            return None;
        }
        let ratios: Vec<f64> = pairs.iter().map(|(below, above)| above / below).collect();
        let mut interval = self.interval(estimate, &ratios)?;
        let samples = pair.below.samples.iter().chain(pair.above.samples);
        if samples.into_iter().all(|sample| *sample >= 0.0) {
            interval.low = interval.low.max(0.0);
        }
        Some(interval)
    }
}

fn ratio(below: f64, above: f64) -> Option<f64> {
    (below != 0.0).then_some(above / below)
}

/// Samples of two variants, seed by seed.
struct Pair<'a> {
    below: Means<'a>,
    above: Means<'a>,
}

impl<'a> Pair<'a> {
    fn new(kind: MeanKind, baseline: &'a [f64], variant: &'a [f64]) -> Self {
        Self {
            below: Means::new(kind, baseline),
            above: Means::new(kind, variant),
        }
    }

    fn means(&self) -> Option<(f64, f64)> {
        self.below.of_all().zip(self.above.of_all())
    }

    fn ratio(&self) -> Option<f64> {
        self.means().and_then(|(below, above)| ratio(below, above))
    }

    fn differs_for_sure(&self) -> bool {
        differ_for_sure(&self.below.differences(&self.above))
    }
}

/// Place of a value in the order of `f64::total_cmp`, which as a whole number is found faster.
fn rank(value: f64) -> i64 {
    let bits = value.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The value at that place.
fn of_rank(rank: i64) -> f64 {
    // Turned over again, the bits are as they were.
    let bits = rank ^ ((rank >> 63).cast_unsigned() >> 1).cast_signed();
    f64::from_bits(bits.cast_unsigned())
}

/// [`mean`] of resamples, in the same order of additions, without copying the samples of each.
struct Means<'a> {
    kind: MeanKind,
    samples: &'a [f64],
    /// Terms of the sum: the samples, or their reciprocals.
    terms: Vec<f64>,
    /// There are zeros among the samples of a harmonic mean.
    zeros: bool,
}

impl<'a> Means<'a> {
    fn new(kind: MeanKind, samples: &'a [f64]) -> Self {
        let harmonic = kind == MeanKind::Harmonic;
        let term = |&sample: &f64| if harmonic { 1.0 / sample } else { sample };
        Self {
            kind,
            samples,
            terms: samples.iter().map(term).collect(),
            zeros: harmonic && samples.contains(&0.0),
        }
    }

    /// Excess of `other`, seed by seed; for rates the deficit of the reciprocals, of which the mean
    /// is made. Empty where a rate is zero.
    fn differences(&self, other: &Self) -> Vec<f64> {
        let (below, above) = match self.zeros || other.zeros {
            true => (self.samples, other.samples),
            false => (&self.terms[..], &other.terms[..]),
        };
        let pairs = below.iter().zip(above);
        pairs.map(|(below, above)| above - below).collect()
    }

    /// Whether all samples are the same, and so the means of all resamples.
    fn is_constant(&self) -> bool {
        let mut pairs = self.samples.windows(2);
        pairs.all(|pair| pair[0].to_bits() == pair[1].to_bits())
    }

    /// Mean of the samples; `None` without samples.
    fn of_all(&self) -> Option<f64> {
        match (self.samples.is_empty(), self.zeros) {
            (true, _) => None,
            (_, true) => Some(0.0),
            _ => Some(self.of_sum(self.terms.iter().sum(), self.terms.len())),
        }
    }

    /// The mean of `count` samples whose terms have this sum.
    fn of_sum(&self, sum: f64, count: usize) -> f64 {
        match self.kind {
            MeanKind::Arithmetic => sum / count as f64,
            MeanKind::Harmonic => count as f64 / sum,
        }
    }
}

/// A variant against the baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// Mean of the variant over mean of the baseline; `None` where that is zero.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio, as [`Bootstrap::of_ratio`] has it; `None` where the change is
    /// not significant whatever it is, so that it is not known yet.
    pub ratio_interval: Option<Option<Interval>>,
    /// Whether the 95 % interval of the ratio and Student's 99 % interval of the paired difference
    /// exclude no change.
    pub significant: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_in;

    /// About normal, mean 0 and variance 1: twelve uniforms less six.
    fn noise(stream: &mut Pcg64Mcg) -> f64 {
        (0..12)
            .map(|_| f64::from(stream.next_u32()) / 4_294_967_296.0)
            .sum::<f64>()
            - 6.0
    }

    #[test]
    fn means_of_times_and_rates() {
        assert_eq!(mean(MeanKind::Arithmetic, &[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(MeanKind::Harmonic, &[2.0, 6.0]), Some(3.0));
        assert_eq!(mean(MeanKind::Harmonic, &[2.0, 0.0]), Some(0.0));
        assert_eq!(mean(MeanKind::Harmonic, &[]), None);
        assert_eq!(
            standard_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            (32.0_f64 / 7.0).sqrt()
        );
        assert_eq!(standard_deviation(&[2.0]), 0.0);
    }

    #[test]
    fn one_more_run_varies_more_than_a_mean() {
        let interval = prediction_interval(&[70.0, 72.0, 74.0]).unwrap();
        let reach = 4.303 * 2.0 * (4.0_f64 / 3.0).sqrt();
        assert!((interval.high - 72.0 - reach).abs() < 1e-9);
        assert!((interval.low - 72.0 + reach).abs() < 1e-9);
        // A quantity that is never negative is not predicted to be negative.
        assert_eq!(prediction_interval(&[0.0, 1.0]).unwrap().low, 0.0);
        assert_eq!(prediction_interval(&[1.0]), None);
    }

    #[test]
    fn short_cuts_of_the_bootstrap_lead_where_the_long_way_does() {
        let mut stream = Pcg64Mcg::seed_from_u64(3);
        let uneven: Vec<f64> = (0..7).map(|_| noise(&mut stream) + 1e-3).collect();
        let with_zero = [3.0, 0.0, 0.1, 7.5, 2.0];
        let constant = [0.1; 10];
        for (kind, samples) in [
            (MeanKind::Arithmetic, &uneven[..]),
            (MeanKind::Harmonic, &uneven[..]),
            (MeanKind::Arithmetic, &with_zero[..]),
            (MeanKind::Harmonic, &with_zero[..]),
            (MeanKind::Arithmetic, &constant[..]),
            (MeanKind::Harmonic, &constant[..]),
        ] {
            let bootstrap = Bootstrap::new(samples.len());
            let resample = |seeds: &[u32]| {
                let picked: Vec<f64> = seeds.iter().map(|&seed| samples[seed as usize]).collect();
                mean(kind, &picked).unwrap()
            };
            let of_resample = |number: usize| {
                let seeds = bootstrap.draws.iter().skip(number).step_by(RESAMPLES);
                resample(&seeds.copied().collect::<Vec<u32>>())
            };
            let mut means: Vec<f64> = (0..RESAMPLES).map(of_resample).collect();
            means.sort_by(f64::total_cmp);
            let (low, high) = (means[RESAMPLES / 40], means[RESAMPLES - 1 - RESAMPLES / 40]);
            let mut expected = bootstrap.widened(mean(kind, samples).unwrap(), low, high);
            if samples.iter().all(|sample| *sample >= 0.0) {
                expected.low = expected.low.max(0.0);
            }
            let interval = bootstrap.of_mean(kind, samples).unwrap();
            let bits = |interval: Interval| (interval.low.to_bits(), interval.high.to_bits());
            assert_eq!(bits(interval), bits(expected), "{kind:?} {samples:?}");
        }
    }

    #[test]
    fn pairing_sees_a_change_that_the_spread_hides() {
        let change = Bootstrap::new(3).compare(
            MeanKind::Arithmetic,
            &[10.0, 20.0, 30.0],
            &[11.0, 21.0, 31.0],
        );
        assert_eq!(change.ratio, Some(1.05));
        assert!(change.significant, "1 in every seed: {change:?}");
        let baseline: Vec<f64> = (0..10).map(|seed| 100.0 + 10.0 * f64::from(seed)).collect();
        let variant: Vec<f64> = baseline.iter().map(|value| value * 1.01).collect();
        let bootstrap = Bootstrap::new(10);
        let change = bootstrap.compare(MeanKind::Arithmetic, &baseline, &variant);
        assert!(change.significant, "{change:?}");
        let interval = change.ratio_interval.flatten().unwrap();
        assert!(
            interval.high - interval.low < 2e-12,
            "the same ratio in every seed: {interval:?}"
        );
        let alone = bootstrap.of_mean(MeanKind::Arithmetic, &baseline).unwrap();
        assert!(
            alone.contains(146.45),
            "unpaired, the means are indistinguishable: {alone:?}"
        );
    }

    #[test]
    fn equal_variants_are_never_significant() {
        let samples = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
        let change = Bootstrap::new(8).compare(MeanKind::Harmonic, &samples, &samples);
        assert_eq!(change.ratio, Some(1.0));
        let interval = Bootstrap::new(8).of_ratio(MeanKind::Harmonic, &samples, &samples);
        assert_eq!(
            interval,
            Some(Interval {
                low: 1.0,
                high: 1.0
            })
        );
        assert!(!change.significant);
    }

    #[test]
    fn a_zero_baseline_has_no_ratio_but_may_differ() {
        let change = Bootstrap::new(6).compare(
            MeanKind::Arithmetic,
            &[0.0; 6],
            &[5.0, 6.0, 5.5, 5.2, 6.1, 5.8],
        );
        assert_eq!((change.ratio, change.ratio_interval), (None, Some(None)));
        assert!(change.significant);
    }

    #[test]
    fn one_seed_proves_nothing() {
        let bootstrap = Bootstrap::new(1);
        let change = bootstrap.compare(MeanKind::Arithmetic, &[1.0], &[2.0]);
        assert_eq!(
            change,
            Change {
                ratio: Some(2.0),
                ratio_interval: None,
                significant: false
            }
        );
        assert_eq!(bootstrap.of_mean(MeanKind::Arithmetic, &[1.0]), None);
    }

    #[test]
    fn the_widening_is_students() {
        // t(9) = 2.262 against 1.960, and √(10/9).
        assert!(
            (small_sample_factor(10) - 2.262 / 1.959_963_985 * (10.0_f64 / 9.0).sqrt()).abs()
                < 1e-12
        );
        // Where the table ends, the expansion continues it: t(31) = 2.0395.
        assert!(
            (small_sample_factor(32) * 1.959_963_985 / (32.0_f64 / 31.0).sqrt() - 2.0395).abs()
                < 1e-3
        );
        assert!(small_sample_factor(2) > small_sample_factor(3));
    }

    /// Stars under no change at all are to be near 1 %, for few seeds and for many.
    #[test]
    fn false_alarms_are_near_one_percent() {
        let mut stream = Pcg64Mcg::seed_from_u64(1);
        for count in [3, 5, 10, 20] {
            let bootstrap = Bootstrap::new(count);
            let mut stars = 0;
            for _ in 0..400 {
                let baseline: Vec<f64> = (0..count).map(|_| 100.0 + noise(&mut stream)).collect();
                let variant: Vec<f64> = (0..count).map(|_| 100.0 + noise(&mut stream)).collect();
                let change = bootstrap.compare(MeanKind::Arithmetic, &baseline, &variant);
                stars += u32::from(change.significant);
            }
            assert!(stars <= 12, "{count} seeds: {stars} of 400");
        }
    }

    /// A change three times as large as what the seeds alone make has a star nearly always.
    #[test]
    fn three_chaos_floors_are_seen() {
        let mut stream = Pcg64Mcg::seed_from_u64(2);
        for count in [5, 10, 40] {
            let bootstrap = Bootstrap::new(count);
            // Of the spread itself, not of what these few samples show of it.
            let floor = student_quantile(count) * (2.0 / count as f64).sqrt();
            let mut stars = 0;
            for _ in 0..100 {
                let baseline: Vec<f64> = (0..count).map(|_| 100.0 + noise(&mut stream)).collect();
                let higher = |_| 100.0 + 3.0 * floor + noise(&mut stream);
                let variant: Vec<f64> = (0..count).map(higher).collect();
                let change = bootstrap.compare(MeanKind::Arithmetic, &baseline, &variant);
                stars += u32::from(change.significant);
            }
            assert!(stars >= 90, "{count} seeds: {stars} of 100");
        }
    }

    #[test]
    fn the_chaos_floor_is_the_spread_of_a_comparison_with_itself() {
        // s = 3 exactly: deviations of 3 · sqrt(9/10) to both sides.
        let deviation = 3.0 * (0.9_f64).sqrt();
        let samples: Vec<f64> = (0..10)
            .map(|row| 100.0 + if row % 2 == 0 { deviation } else { -deviation })
            .collect();
        let floor = chaos_floor(&samples).unwrap();
        assert_in!(floor - 2.262 * 0.2_f64.sqrt() * 0.03, -1e-9..1e-9);
        assert_eq!(chaos_floor(&[5.0]), None);
        assert_eq!(chaos_floor(&[0.0, 0.0]), None);
        assert_eq!(chaos_floor(&[5.0, 5.0]), Some(0.0));
    }

    #[test]
    fn an_interval_of_several_kinds_of_runs_covers_each() {
        let kinds = [[100.0; 2], [150.0; 2], [80.0; 2]].map(Vec::from);
        let all = prediction_interval_of_all(&kinds).unwrap();
        assert_eq!((all.low, all.high), (80.0, 150.0));
        // One run shows no spread.
        let all = prediction_interval_of_all(&[vec![100.0; 2], vec![7.0], Vec::new()]);
        assert_eq!(all.map(|all| (all.low, all.high)), Some((100.0, 100.0)));
    }

    #[test]
    fn resampling_is_the_same_every_time() {
        let samples = [1.5, 2.5, 9.0, 4.0];
        let interval = |bootstrap: Bootstrap| bootstrap.of_mean(MeanKind::Arithmetic, &samples);
        assert_eq!(interval(Bootstrap::new(4)), interval(Bootstrap::new(4)));
        let found = interval(Bootstrap::new(4)).unwrap();
        assert_eq!(
            (found.low, found.high),
            (0.03202529852799785, 10.108298196488892)
        );
    }
}
