//! Per-entity load tracking: decaying sums of how much an entity wanted, had, and weighed.
//!
//! Time is counted in units of 1024 ns ("µs") and grouped into periods of 1024 units. A unit that
//! lies n periods back counts yⁿ, with y³² = ½. Running without a break, the sum converges to
//! [`LOAD_AVG_MAX`] = 47742, and `util_avg` = 1024 · sum / divider climbs 0 → 21 after 1 ms → 504
//! after 32 ms → 1009 after 200 ms.
//!
//! Worked example: an entity that has counted 1000 units of its period runs 2048 units more. It
//! crosses (1000 + 2048) / 1024 = 2 boundaries. The old sums decay by y²; the 24 units that
//! complete the old period count decay(24, 2) = 22; one full period in between counts 47742 −
//! decay(47742, 2) − 1024 = 1001; and the 1000 units of the new, incomplete period count in full.

use crate::model::{Mark, reached};

/// Largest value a sum can reach, Σ 1024·yⁿ in the kernel's integer arithmetic.
pub(crate) const LOAD_AVG_MAX: u32 = 47742;
/// `PELT_MIN_DIVIDER`: the divider at the very start of a period.
pub(crate) const MIN_DIVIDER: u32 = LOAD_AVG_MAX - 1024;
const PERIODS_PER_HALF: u64 = 32;
const UNITS_PER_PERIOD: u64 = 1024;
/// Length of a period.
const PERIOD_NS: u64 = UNITS_PER_PERIOD << 10;

/// yⁿ for n in 0..32 as 32-bit fractions.
const DECAY_FRACTION: [u32; 32] = [
    0xffff_ffff,
    0xfa83_b2da,
    0xf525_7d14,
    0xefe4_b99a,
    0xeac0_c6e6,
    0xe5b9_06e6,
    0xe0cc_deeb,
    0xdbfb_b796,
    0xd744_fcc9,
    0xd2a8_1d91,
    0xce24_8c14,
    0xc9b9_bd85,
    0xc567_2a10,
    0xc12c_4cc9,
    0xbd08_a39e,
    0xb8fb_af46,
    0xb504_f333,
    0xb123_f581,
    0xad58_3ee9,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4302,
    0x9ef5_325f,
    0x9b8d_39b9,
    0x9837_f050,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398a,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];

/// yⁿ for some n > 0, to decay several values with.
#[derive(Clone, Copy)]
struct Decay {
    halvings: u32,
    fraction: u64,
}

impl Decay {
    #[inline(always)]
    fn over(periods: u64) -> Self {
        if periods > PERIODS_PER_HALF * 63 {
            return Self {
                halvings: 0,
                fraction: 0,
            };
        }
        Self {
            halvings: (periods / PERIODS_PER_HALF) as u32,
            fraction: u64::from(DECAY_FRACTION[(periods % PERIODS_PER_HALF) as usize]),
        }
    }

    #[inline(always)]
    fn of(self, value: u64) -> u64 {
        ((u128::from(value >> self.halvings) * u128::from(self.fraction)) >> 32) as u64
    }

    /// The same of a value that fits 32 bits, as the fraction does.
    #[inline(always)]
    fn of_short(self, value: u32) -> u32 {
        (((u64::from(value) >> self.halvings) * self.fraction) >> 32) as u32
    }
}

/// `val · yⁿ` (`decay_load`).
#[cfg(test)]
pub(crate) fn decay_load(value: u64, periods: u64) -> u64 {
    if periods == 0 {
        return value;
    }
    Decay::over(periods).of(value)
}

/// Decaying sums and averages of one entity or queue (`struct sched_avg`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedAvg {
    /// PELT clock of the last update, ns. 0 marks an entity that is to be attached.
    pub last_update_time: u64,
    /// Σ of the load input.
    pub load_sum: u64,
    /// Σ of the runnable input · 1024.
    pub runnable_sum: u64,
    /// Σ of the running input · 1024.
    pub util_sum: u32,
    /// From the last update to the end of its period, ns; the kernel counts the units since the
    /// start (`period_contrib`).
    pub(crate) period_left_ns: u64,
    /// load_sum · weight / divider.
    pub load_avg: u64,
    /// runnable_sum / divider.
    pub runnable_avg: u64,
    /// util_sum / divider, at most 1024.
    pub util_avg: u64,
}

impl Default for SchedAvg {
    fn default() -> Self {
        Self {
            last_update_time: 0,
            load_sum: 0,
            runnable_sum: 0,
            util_sum: 0,
            period_left_ns: PERIOD_NS,
            load_avg: 0,
            runnable_avg: 0,
            util_avg: 0,
        }
    }
}

/// Contributions of an update for the time since the last one.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// 0 or 1 for entities, Σ weights for queues.
    pub(crate) load: u64,
    /// 0 or 1 for tasks, number of runnable tasks for groups and queues.
    pub(crate) runnable: u64,
    /// Whether it was running.
    pub(crate) running: bool,
}

impl Inputs {
    /// Of a class or of interrupts, which are tracked as one task.
    pub(crate) const fn of_class(running: bool) -> Self {
        Self {
            load: running as u64,
            runnable: running as u64,
            running,
        }
    }
}

impl SchedAvg {
    /// Divisor of a full average at this point of the period (`get_pelt_divider`).
    #[inline(always)]
    pub(crate) const fn divider(&self) -> u32 {
        LOAD_AVG_MAX - (self.period_left_ns >> 10) as u32
    }

    /// Whether an update at `now` crosses no period boundary. A clock that went back does.
    #[inline(always)]
    pub(crate) const fn stays_within_period(&self, now: u64) -> bool {
        now.wrapping_sub(self.last_update_time) < self.period_left_ns
    }

    /// [`SchedAvg::update`] where [`SchedAvg::stays_within_period`]: averages do not move.
    #[inline(always)]
    pub(crate) fn update_within_period(&mut self, now: u64, inputs: Inputs) {
        debug_assert!(self.stays_within_period(now));
        let units = now.wrapping_sub(self.last_update_time) >> 10;
        if units > 0 {
            reached(Mark::PeltWithinPeriod);
            self.last_update_time += units << 10;
            self.period_left_ns -= units << 10;
            self.add(units as u32, inputs);
        }
    }

    /// Brings the sums to `now` (`___update_load_sum`), and the averages too when a period boundary
    /// was crossed (`___update_load_avg`). Returns whether it was. `weight` is unscaled, 1 for
    /// queues.
    #[inline(always)]
    pub(crate) fn update(&mut self, now: u64, inputs: Inputs, weight: u64) -> bool {
        if self.stays_within_period(now) {
            self.update_within_period(now, inputs);
            return false;
        }
        // The inputs go one by one, in registers.
        let Inputs {
            load,
            runnable,
            running,
        } = inputs;
        self.update_beyond_period(now, load, runnable, running, weight)
    }

    #[inline(always)]
    fn update_beyond_period(
        &mut self,
        now: u64,
        load: u64,
        runnable: u64,
        running: bool,
        weight: u64,
    ) -> bool {
        let elapsed = now.wrapping_sub(self.last_update_time);
        if (elapsed as i64) < 0 {
            self.last_update_time = self.last_update_time.wrapping_add(elapsed);
            return false;
        }
        reached(Mark::PeltPeriod);
        let units = elapsed >> 10;
        self.last_update_time += units << 10;
        let first = self.period_left_ns >> 10;
        let later = units - first;
        let rest = later % UNITS_PER_PERIOD;
        let decay = Decay::over(1 + later / UNITS_PER_PERIOD);
        self.load_sum = decay.of(self.load_sum);
        self.runnable_sum = decay.of(self.runnable_sum);
        self.util_sum = decay.of_short(self.util_sum);
        if load != 0 {
            let contribution = segments(decay, first as u32, rest as u32);
            let inputs = Inputs {
                load,
                runnable,
                running,
            };
            self.add(contribution, inputs);
        }
        self.period_left_ns = PERIOD_NS - (rest << 10);
        self.update_avg(weight);
        true
    }

    /// Adds units to the sums. An entity off the queue neither runs nor wants to, whatever stale
    /// flags say.
    #[inline(always)]
    fn add(&mut self, contribution: u32, inputs: Inputs) {
        if inputs.load == 0 {
            return;
        }
        self.load_sum += inputs.load * u64::from(contribution);
        self.runnable_sum += (inputs.runnable * u64::from(contribution)) << 10;
        if inputs.running {
            self.util_sum += contribution << 10;
        }
    }

    /// The averages of the sums as they are (`___update_load_avg`).
    #[inline(always)]
    pub(crate) fn update_avg(&mut self, weight: u64) {
        let divider = u64::from(self.divider());
        self.load_avg = weight * self.load_sum / divider;
        self.runnable_avg = self.runnable_sum / divider;
        // A division of 32 bits is quicker.
        self.util_avg = u64::from(self.util_sum / self.divider());
    }
}

/// Contribution of `first` units that complete a period, the full periods after it and `rest` units
/// of the current one; `decay` is over the first and the full ones (`__accumulate_pelt_segments`).
#[inline]
fn segments(decay: Decay, first: u32, rest: u32) -> u32 {
    let completed = decay.of(u64::from(first)) as u32;
    let full = LOAD_AVG_MAX - decay.of(u64::from(LOAD_AVG_MAX)) as u32 - 1024;
    completed + full + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::assert_in;

    const RUNNING: Inputs = Inputs {
        load: 1,
        runnable: 1,
        running: true,
    };
    const ASLEEP: Inputs = Inputs {
        load: 0,
        runnable: 0,
        running: false,
    };

    fn util_after_ms(ms: u64) -> u64 {
        let mut avg = SchedAvg::default();
        for now_ms in 1..=ms {
            avg.update(now_ms * 1_000_000, RUNNING, 1024);
        }
        avg.util_avg
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        assert_eq!(decay_load(24, 2), 22);
        assert_eq!(segments(Decay::over(2), 24, 1000), 22 + 1001 + 1000);
    }

    #[test]
    fn ramp_matches_the_kernel() {
        // Published ramp of a task that never stops, at the last boundary before each time.
        for (ms, expected) in [(32, 504), (64, 760), (128, 956), (200, 1009)] {
            let util = util_after_ms(ms);
            assert_in!(util.abs_diff(expected), 0..=12, "{ms} ms: {util}");
        }
    }

    #[test]
    fn half_life_is_32_periods() {
        let mut avg = SchedAvg {
            util_sum: 1024 * 40_000,
            ..SchedAvg::default()
        };
        avg.update(32 * (1024 << 10), ASLEEP, 1);
        assert_eq!(avg.util_sum, 1024 * 20_000 - 1); // y^0 is one part in 2^32 below 1
    }

    #[test]
    fn time_going_backwards_only_moves_the_stamp() {
        let mut avg = SchedAvg {
            last_update_time: 5_000_000,
            util_sum: 99,
            ..SchedAvg::default()
        };
        assert!(!avg.update(4_000_000, RUNNING, 1));
        assert_eq!((avg.last_update_time, avg.util_sum), (4_000_000, 99));
    }

    #[test]
    fn below_one_unit_nothing_happens() {
        let mut avg = SchedAvg::default();
        assert!(!avg.update(1023, RUNNING, 1));
        assert_eq!(avg, SchedAvg::default());
    }

    #[test]
    fn sums_stay_below_their_limit() {
        let mut avg = SchedAvg::default();
        for now in 1..100_000u64 {
            avg.update(now * 700_000, RUNNING, 1024);
        }
        avg.update_avg(1024);
        assert!(avg.util_sum <= LOAD_AVG_MAX << 10);
        assert!((1023..=1024).contains(&avg.util_avg));
        assert!((1023..=1024).contains(&avg.load_avg));
    }

    #[test]
    fn very_old_load_is_gone() {
        assert_eq!(decay_load(u64::from(u32::MAX), 2017), 0);
        assert_eq!(decay_load(1 << 40, 32), (1 << 39) - 128);
    }
}
