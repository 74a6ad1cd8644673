//! intel_pstate's PID controller (Core and Xeon, up to 4.13).
//!
//! Numbers are fixed point with 8 fraction bits, every product and quotient truncated. *Busy* is
//! the frequency a CPU ran at while awake, in percent of what it had asked for; the controller
//! steers it to 97. A CPU that gets what it asks for shows 100: error −3, times the gain 51/256 is
//! −153/256, plus a half, rounded down, is −1, and the P-state rises by one, every 10 ms, up to
//! turbo.
//!
//! A sample that comes late means that the CPU slept, so busy is scaled by sample time / duration
//! when more than a hold-off of 3 sample times passed. Worked example: after a sleep of 31 ms the
//! ratio is 82/256, busy 32, the error 65, the correction 65 · 51/256 + ½ = 13: from P-state 37
//! down to 24 in one step. With a hold-off of 12 sample times nothing happens.

use super::{Counters, PStates};
use crate::ids::Ns;

const FRACTION_BITS: u32 = 8;
/// Time between samples, ns.
pub const SAMPLE_NS: Ns = 10_000_000;
const SETPOINT: i32 = 97 << FRACTION_BITS;
const P_GAIN_PERCENT: i64 = 20;

fn multiply(x: i32, y: i32) -> i32 {
    ((i64::from(x) * i64::from(y)) >> FRACTION_BITS) as i32
}

fn divide(x: i64, y: i64) -> i32 {
    ((x << FRACTION_BITS) / y) as i32
}

fn fixed(x: i64) -> i64 {
    x << FRACTION_BITS
}

/// Measurement over one sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Counts of APERF, MPERF and TSC in the sample.
    pub(crate) counted: Counters,
    /// Time since the sample before.
    pub(crate) duration_ns: Ns,
}

/// The parts of a kernel's rules that matter here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PidRules {
    /// Sample times after which a sample counts as late.
    pub(crate) holdoff_samples: u32,
    /// A CPU awake for less than 1 % of a sample counts as idle.
    pub(crate) idle_below_1_percent: bool,
}

/// `get_target_pstate_use_performance`: how busy a CPU is, in percent with 8 fraction bits.
pub(crate) fn scaled_busy(
    pstates: &PStates,
    current: u32,
    sample: &Sample,
    rules: PidRules,
) -> i32 {
    let counted = sample.counted;
    let core_percent = (u128::from(counted.aperf) * (100 << FRACTION_BITS)
        / u128::from(counted.mperf.max(1))) as i32;
    let asked = divide(fixed(i64::from(pstates.base)), fixed(i64::from(current)));
    let busy = multiply(core_percent, asked);
    let sample_us = (SAMPLE_NS / 1000) as i64;
    let duration_us = (sample.duration_ns / 1000) as i64;
    if duration_us > sample_us * i64::from(rules.holdoff_samples) {
        return multiply(busy, divide(fixed(sample_us), fixed(duration_us)));
    }
    let hardly_awake = counted.mperf.saturating_mul(100) < counted.tsc;
    if rules.idle_below_1_percent && hardly_awake {
        return 0;
    }
    busy
}

/// `pid_calc` with the gains of Core and Xeon: by how much the P-state has to fall. Integral and
/// derivative gains are 0.
pub(crate) fn correction(busy: i32) -> i32 {
    let gain = divide(fixed(P_GAIN_PERCENT), fixed(100));
    let error = SETPOINT - busy;
    if error == 0 {
        return 0;
    }
    (multiply(gain, error) + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS
}

/// The next P-state (`intel_pstate_adjust_busy_pstate`).
pub(crate) fn next_pstate(
    pstates: &PStates,
    current: u32,
    sample: &Sample,
    rules: PidRules,
) -> u32 {
    let busy = scaled_busy(pstates, current, sample, rules);
    let wanted = i64::from(current) - i64::from(correction(busy));
    wanted.clamp(i64::from(pstates.min), i64::from(pstates.turbo)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: PStates = PStates::new(16, 33, 37, 100_000);

    const VANILLA: PidRules = PidRules {
        holdoff_samples: 3,
        idle_below_1_percent: false,
    };
    const PATCHED: PidRules = PidRules {
        holdoff_samples: 12,
        ..VANILLA
    };

    /// A sample of a CPU that ran at P-state `ran` for `awake_us` of `total_us`.
    fn sample(ran: u64, awake_us: u64, total_us: u64) -> Sample {
        Sample {
            counted: Counters::new(awake_us * ran * 100, awake_us * 3300, total_us * 3300),
            duration_ns: total_us * 1000,
        }
    }

    #[test]
    fn a_busy_cpu_climbs_one_step_each_sample_to_turbo() {
        let mut current = 16;
        let climbed: Vec<u32> = (0..23)
            .map(|_| {
                let sample = sample(u64::from(current), 10_000, 10_000);
                current = next_pstate(&CLIENT, current, &sample, VANILLA);
                current
            })
            .collect();
        assert_eq!(climbed[..3], [17, 18, 19]);
        assert_eq!(climbed[20..], [37, 37, 37]);
    }

    #[test]
    fn a_cpu_given_more_than_it_asked_for_jumps() {
        // Asked for 12 of 23, ran at 23: 100 % · 23/12 = 191.2 %, error −94.2, · 51/256 = −18.8.
        let pstates = PStates::new(8, 23, 34, 100_000);
        let counted = Counters::new(23, 23, 23);
        let sample = Sample {
            counted,
            duration_ns: SAMPLE_NS,
        };
        assert_eq!(next_pstate(&pstates, 12, &sample, VANILLA), 31);
    }

    #[test]
    fn a_gap_of_31_ms_collapses_and_with_factor_12_it_does_not() {
        let late = sample(37, 2_000, 31_000);
        // aperf/mperf = 37/33 = 28703/256 %; · 33/37 (228/256) = 25563; · 82/256 = 8188;
        // 24832 − 8188 = 16644; · 51/256 = 3315; + 128 = 3443 / 256 = 13.
        assert_eq!(scaled_busy(&CLIENT, 37, &late, VANILLA), 8188);
        assert_eq!(next_pstate(&CLIENT, 37, &late, VANILLA), 24);
        assert_eq!(next_pstate(&CLIENT, 37, &late, PATCHED), 37);
        // 100 ms: 25/256 of 25563 = 2496; 22336 · 51/256 = 4449; + 128 = 17.
        let later = sample(37, 2_000, 100_000);
        assert_eq!(next_pstate(&CLIENT, 37, &later, VANILLA), 20);
        assert_eq!(next_pstate(&CLIENT, 37, &later, PATCHED), 37);
        // 121 ms are beyond twelve samples: 21/256 of 25563 = 2096; error 22736; 17.
        let latest = sample(37, 2_000, 121_000);
        assert_eq!(next_pstate(&CLIENT, 37, &latest, PATCHED), 19);
    }

    #[test]
    fn exactly_three_samples_are_not_late() {
        assert_eq!(
            next_pstate(&CLIENT, 30, &sample(30, 500, 30_000), VANILLA),
            31
        );
        assert_eq!(
            next_pstate(&CLIENT, 30, &sample(30, 500, 30_001), VANILLA),
            17
        );
    }

    #[test]
    fn a_cpu_hardly_awake_counts_as_idle_since_4_6() {
        let rules = PidRules {
            idle_below_1_percent: true,
            ..VANILLA
        };
        // 97 · 51/256 + ½ = 19.8.
        assert_eq!(next_pstate(&CLIENT, 37, &sample(37, 99, 10_000), rules), 18);
        assert_eq!(
            next_pstate(&CLIENT, 37, &sample(37, 100, 10_000), rules),
            37
        );
    }
}
