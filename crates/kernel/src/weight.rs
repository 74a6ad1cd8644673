//! Load weights and the fixed-point division by them.
//!
//! Nice 0 weighs 1024 and one nice step changes the weight by a factor of about 1.25. On 64-bit
//! kernels `load.weight` carries ten more fraction bits ("scaled"), so nice 0 is 2^20.
//!
//! Virtual time is real time divided by weight. The kernel never divides: it multiplies by a 32-bit
//! inverse. Worked example: 1,000,000 ns at nice 5 (weight 335, inverse 12,820,798):
//! `1024 · 12,820,798 = 13,128,497,152`, which needs 34 bits, so two are dropped (3,282,124,288)
//! and the final shift becomes 30: `1,000,000 · 3,282,124,288 >> 30 = 3,056,716` ns of virtual
//! time.

/// Fraction bits of a scaled weight (`SCHED_FIXEDPOINT_SHIFT`).
pub(crate) const WEIGHT_SHIFT: u32 = 10;
/// Scaled weight of nice 0 (`NICE_0_LOAD`).
pub(crate) const NICE_0_LOAD: u64 = 1 << 20;
/// Unscaled weight of a SCHED_IDLE task or group (`WEIGHT_IDLEPRIO`).
pub const WEIGHT_IDLE: u64 = 3;

const INVERSE_SHIFT: u32 = 32;
const INVERSE_MAX: u64 = u32::MAX as u64;

/// Unscaled weight of nice −20 (first) to 19 (last), `sched_prio_to_weight`.
const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// Nice levels whose row of `sched_prio_to_wmult` is rounded down, where all others are rounded to
/// nearest.
const ROUNDED_DOWN: [i32; 4] = [13, 14, 16, 17];

/// A weight with its cached inverse (`struct load_weight`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadWeight {
    /// Scaled weight; [`LoadWeight::add`] and [`LoadWeight::sub`] change it.
    pub weight: u64,
    /// The same without its fraction bits, which is asked for far more often than weights change.
    unscaled: u64,
    /// ⌊(2^32 − 1) / unscaled weight⌋, or the rounded table value for nice levels; 0 = not
    /// computed.
    inverse: u32,
}

impl LoadWeight {
    /// From a scaled weight. The kernel computes the inverse when it is first needed; a group's
    /// entity needs it many times between two changes of its weight.
    pub(crate) const fn from_scaled(weight: u64) -> Self {
        let unscaled = scale_load_down(weight);
        Self::with_inverse(weight, unscaled, inverse_of(unscaled))
    }

    const fn with_inverse(weight: u64, unscaled: u64, inverse: u64) -> Self {
        Self {
            weight,
            unscaled,
            inverse: inverse as u32,
        }
    }

    /// Of a SCHED_NORMAL or SCHED_BATCH task.
    ///
    /// # Panics
    /// When `nice` is outside −20..=19.
    pub(crate) fn from_nice(nice: i32) -> Self {
        let unscaled = u64::from(NICE_TO_WEIGHT[(nice + 20) as usize]);
        // The kernel's table holds 2^32 / weight rounded to nearest, unlike computed inverses; four
        // rows are rounded down.
        let rounding = if ROUNDED_DOWN.contains(&nice) {
            0
        } else {
            unscaled / 2
        };
        let inverse = ((1u64 << INVERSE_SHIFT) + rounding) / unscaled;
        Self::with_inverse(unscaled << WEIGHT_SHIFT, unscaled, inverse)
    }

    /// Of a SCHED_IDLE task.
    pub(crate) fn idle_policy() -> Self {
        let inverse = (1u64 << INVERSE_SHIFT) / WEIGHT_IDLE;
        Self::with_inverse(WEIGHT_IDLE << WEIGHT_SHIFT, WEIGHT_IDLE, inverse)
    }

    /// Adds a child's weight (`update_load_add`).
    #[inline]
    pub(crate) fn add(&mut self, weight: u64) {
        self.weight += weight;
        self.unscaled = scale_load_down(self.weight);
        self.inverse = 0;
    }

    /// Removes a child's weight (`update_load_sub`).
    #[inline]
    pub(crate) fn sub(&mut self, weight: u64) {
        self.weight -= weight;
        self.unscaled = scale_load_down(self.weight);
        self.inverse = 0;
    }

    /// Unscaled weight, `scale_load_down`: at least 2 unless zero.
    #[inline(always)]
    pub(crate) const fn unscaled(&self) -> u64 {
        self.unscaled
    }

    #[inline]
    fn inverse(&self) -> u64 {
        if self.inverse != 0 {
            return u64::from(self.inverse);
        }
        inverse_of(self.unscaled())
    }
}

/// The weight of an entity in virtual time, with what a division by it needs.
///
/// Worked example, weight 335 (nice 5): up to 7.0 it is 335 in sums of virtual time, and real time
/// is multiplied with the inverse, as above. From 7.1 it is 343,040 in sums, fraction bits
/// included, and 1,000,000 ns become 1,000,000 · 1,048,576 / 343,040 = 3,056,716 ns by a division.
/// The two ways differ for weights whose fraction bits are not zero: those of groups, 768.5 for
/// instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct VirtualWeight {
    /// Scaled weight.
    pub(crate) weight: u64,
    /// Weight in sums of virtual time: without its fraction bits up to 7.0, with them later.
    in_sums: u64,
    /// Multiplier that turns real time into virtual time …
    factor: u32,
    /// … and by how much it is shifted then; [`DIVIDES`] = it is divided instead.
    shift: u32,
}

/// Stands for a plain division by the weight.
const DIVIDES: u32 = u32::MAX;

impl VirtualWeight {
    /// Of a weight. `divides` = real time is divided by all of the weight, `full_sums` = all of it
    /// counts in sums (both 7.1).
    pub(crate) const fn new(load: &LoadWeight, divides: bool, full_sums: bool) -> Self {
        let in_sums = if full_sums {
            load.weight
        } else {
            load.unscaled
        };
        let (factor, shift) = if divides {
            (0, DIVIDES)
        } else {
            factor_and_shift(NICE_0_LOAD, load.inverse as u64)
        };
        Self {
            weight: load.weight,
            in_sums,
            factor: factor as u32,
            shift,
        }
    }

    /// Of a scaled weight that counts in full for everything (7.1).
    pub(crate) const fn full(weight: u64) -> Self {
        Self {
            weight,
            in_sums: weight,
            factor: 0,
            shift: DIVIDES,
        }
    }

    /// The weight in sums of virtual time (`avg_vruntime_weight`).
    #[inline(always)]
    pub(crate) const fn in_sums(&self) -> i64 {
        self.in_sums as i64
    }
}

/// `__update_inv_weight`.
const fn inverse_of(unscaled: u64) -> u64 {
    match unscaled {
        0 => INVERSE_MAX,
        weight if weight >= INVERSE_MAX => 1,
        weight => INVERSE_MAX / weight,
    }
}

/// Drops the fraction bits of a scaled weight; never below 2 unless the weight is zero.
#[inline(always)]
pub(crate) const fn scale_load_down(weight: u64) -> u64 {
    // Nearly every weight is larger, so that is asked first.
    let unscaled = weight >> WEIGHT_SHIFT;
    if unscaled >= 2 {
        unscaled
    } else if weight > 0 {
        2
    } else {
        0
    }
}

/// Number of significant bits (`fls`).
#[inline(always)]
const fn bits(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// `weight · inverse` with no more than 32 bits, and the shift that is left to divide by 2^32.
#[inline(always)]
const fn factor_and_shift(weight: u64, inverse: u64) -> (u64, u32) {
    let mut factor = scale_load_down(weight);
    let excess = bits(factor >> 32);
    let shift = INVERSE_SHIFT - excess;
    factor >>= excess;
    factor *= inverse;
    let excess = bits(factor >> 32);
    (factor >> excess, shift.wrapping_sub(excess))
}

/// `delta · weight / lw` in the kernel's fixed point (`__calc_delta`); `weight` is scaled.
#[inline]
pub(crate) fn calc_delta(delta: u64, weight: u64, lw: &LoadWeight) -> u64 {
    let (factor, shift) = factor_and_shift(weight, lw.inverse());
    ((u128::from(delta) * u128::from(factor)) >> shift) as u64
}

/// Virtual time that `delta` of real time is worth to an entity (`calc_delta_fair`).
#[inline(always)]
pub(crate) fn calc_delta_fair(delta: u64, weight: &VirtualWeight) -> u64 {
    if weight.weight == NICE_0_LOAD {
        return delta;
    }
    if weight.shift == DIVIDES {
        return delta.wrapping_mul(NICE_0_LOAD) / weight.weight;
    }
    debug_assert_ne!(weight.factor, 0, "a sum of weights: {weight:?}");
    // A shift of less than a word takes two instructions instead of five.
    let shift = weight.shift % u64::BITS;
    ((u128::from(delta) * u128::from(weight.factor)) >> shift) as u64
}

/// Unscaled weight of a nice level.
pub fn nice_weight(nice: i32) -> u64 {
    u64::from(NICE_TO_WEIGHT[(nice + 20) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_inverse(load: &LoadWeight) -> VirtualWeight {
        VirtualWeight::new(load, false, false)
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let nice5 = LoadWeight::from_nice(5);
        assert_eq!(nice5.inverse(), 12_820_798);
        assert_eq!(calc_delta_fair(1_000_000, &by_inverse(&nice5)), 3_056_716);
    }

    #[test]
    fn nice_zero_keeps_time() {
        assert_eq!(
            calc_delta_fair(123_456_789, &by_inverse(&LoadWeight::from_nice(0))),
            123_456_789
        );
    }

    #[test]
    fn inverses_of_the_nice_table_match_the_published_ones() {
        // sched_prio_to_wmult: a few entries, both ends included.
        for (nice, inverse) in [
            (-20, 48388),
            (-10, 449_829),
            (0, 4_194_304),
            (10, 39_045_157),
            (12, 61_356_676),
            (13, 76_695_844),
            (14, 95_443_717),
            (16, 148_102_320),
            (17, 186_737_708),
            (19, 286_331_153),
        ] {
            let found = LoadWeight::from_nice(nice).inverse();
            assert_eq!(found, inverse, "nice {nice}");
        }
        assert_eq!(LoadWeight::idle_policy().inverse(), 1_431_655_765);
    }

    #[test]
    fn computed_inverse_is_floor_of_all_ones() {
        assert_eq!(
            LoadWeight::from_scaled(3 << WEIGHT_SHIFT).inverse(),
            u64::from(u32::MAX) / 3
        );
        assert_eq!(LoadWeight::from_scaled(0).inverse(), u64::from(u32::MAX));
    }

    #[test]
    fn heavy_queues_do_not_overflow() {
        let heavy = LoadWeight::from_scaled(300 * NICE_0_LOAD);
        let slice = calc_delta(24_000_000, NICE_0_LOAD, &heavy);
        assert!((79_990..=80_000).contains(&slice), "{slice}");
    }

    #[test]
    fn what_is_worked_out_beforehand_is_what_would_be_worked_out() {
        let loads = (-20..20).map(LoadWeight::from_nice);
        let shares = (2..5000).map(|shares| LoadWeight::from_scaled(shares << 7));
        for load in loads.chain(shares).chain([LoadWeight::idle_policy()]) {
            for delta in [0, 1, 999, 3_000_000, u64::from(u32::MAX), 1 << 32, 1 << 40] {
                let expected = match load.weight {
                    NICE_0_LOAD => delta,
                    _ => calc_delta(delta, NICE_0_LOAD, &load),
                };
                assert_eq!(
                    calc_delta_fair(delta, &by_inverse(&load)),
                    expected,
                    "{delta} {load:?}"
                );
            }
        }
    }

    #[test]
    fn from_7_1_on_all_of_the_weight_counts() {
        // 768.5 · 1024 = 786,944: 10 ms · 2^20 / 786,944 = 13,324,658 ns, and by the inverse of 768
        // alone 13,333,332.
        let group = LoadWeight::from_scaled(786_944);
        let full = VirtualWeight::new(&group, true, true);
        assert_eq!(calc_delta_fair(10_000_000, &full), 13_324_658);
        assert_eq!(full.in_sums(), 786_944);
        let rounded = by_inverse(&group);
        assert_eq!(calc_delta_fair(10_000_000, &rounded), 13_333_332);
        assert_eq!(rounded.in_sums(), 768);
    }

    #[test]
    fn small_weights_never_scale_to_one() {
        assert_eq!(scale_load_down(0), 0);
        assert_eq!(scale_load_down(1), 2);
        assert_eq!(scale_load_down(3 << WEIGHT_SHIFT), 3);
    }
}
