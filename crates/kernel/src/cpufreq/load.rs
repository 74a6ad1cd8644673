//! intel_pstate from 4.14: the P-state follows the load.
//!
//! Worked example: turbo 40, base 30, a CPU that was awake for half of 10 ms at P-state 20. The
//! target is 1.25 · 40 · ½ = 25, more than the 20 it averaged, so 25 is asked for. After a sample
//! with 10 % load the target is 5, below the average of 20 by 15, of which half is kept: 12.
//!
//! The boost for I/O wakeups is that of 5.1; before, one such wakeup asked for turbo at once, and
//! each sample halved that.

use super::pid::Sample;
use super::{Counters, PStates};
use crate::ids::Ns;

const FRACTION_BITS: u32 = 8;
const EXTENDED_BITS: u32 = 14;
/// Shortest time between samples (`INTEL_PSTATE_SAMPLING_INTERVAL`).
pub const SAMPLE_NS: Ns = 10_000_000;
/// 1.0 in the fixed point of the boost.
const ONE: u32 = 1 << FRACTION_BITS;

/// Boost of a CPU on which tasks wake from I/O, in 256ths of a full load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct IowaitLoad {
    boost: u32,
    last_update_ns: Ns,
}

impl IowaitLoad {
    /// One call of the scheduler (`intel_pstate_update_util`).
    pub(crate) fn update(&mut self, now: Ns, iowait: bool, tick_ns: Ns) {
        let long_ago = now.saturating_sub(self.last_update_ns) > tick_ns;
        self.last_update_ns = now;
        if iowait {
            let doubled = self.boost * 2;
            self.boost = if long_ago || self.boost < ONE / 8 {
                ONE / 8
            } else {
                doubled.min(ONE)
            };
        } else if long_ago {
            self.boost = 0;
        } else {
            self.boost >>= 1;
        }
    }
}

/// `get_target_pstate`: the P-state to ask for.
pub(crate) fn next_pstate(pstates: &PStates, sample: &Sample, iowait: &IowaitLoad) -> u32 {
    let Counters { aperf, mperf, tsc } = sample.counted;
    let busy = ((u128::from(mperf) << FRACTION_BITS) / u128::from(tsc.max(1))) as u32;
    let busy = busy.max(iowait.boost);
    let most = pstates.turbo + (pstates.turbo >> 2);
    let mut target = ((most * busy) >> FRACTION_BITS).max(pstates.min);
    let performance = ((u128::from(aperf) << EXTENDED_BITS) / u128::from(mperf.max(1))) as u64;
    let average = ((u64::from(pstates.base) * performance) >> EXTENDED_BITS) as u32;
    if average > target {
        target += (average - target) >> 1;
    }
    target.clamp(pstates.min, pstates.turbo)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PSTATES: PStates = PStates::new(8, 30, 40, 100_000);

    fn sample(ran: u64, awake_percent: u64) -> Sample {
        Sample {
            counted: Counters::new(
                ran * awake_percent * 1000,
                30 * awake_percent * 1000,
                3_000_000,
            ),
            duration_ns: SAMPLE_NS,
        }
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let idle = IowaitLoad::default();
        assert_eq!(next_pstate(&PSTATES, &sample(20, 50), &idle), 25);
        // 50 · 25/256 = 4, raised to the minimum 8; 19 on average (20 less a rounding); half way
        // up.
        assert_eq!(
            next_pstate(&PSTATES, &sample(20, 10), &idle),
            8 + (19 - 8) / 2
        );
        assert_eq!(next_pstate(&PSTATES, &sample(30, 100), &idle), 40);
    }

    #[test]
    fn io_wakeups_double_the_boost_within_a_tick() {
        let mut iowait = IowaitLoad::default();
        let ms = 1_000_000;
        let boosts: Vec<u32> = [
            (1, true),
            (2, true),
            (3, true),
            (4, true),
            (5, true),
            (6, false),
        ]
        .into_iter()
        .map(|(at, flag)| {
            iowait.update(at * ms, flag, 4 * ms);
            iowait.boost
        })
        .collect();
        assert_eq!(boosts, [32, 64, 128, 256, 256, 128]);
        iowait.update(20 * ms, true, 4 * ms);
        assert_eq!(iowait.boost, 32);
        // An eighth of full load: 50 · 32/256 = 6, below the minimum.
        assert_eq!(next_pstate(&PSTATES, &sample(8, 1), &iowait), 8);
        iowait.update(30 * ms, false, 4 * ms);
        assert_eq!(iowait.boost, 0);
    }
}
