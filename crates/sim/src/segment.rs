//! A stretch of user code on a CPU, in a form that can be interrupted and re-timed.
//!
//! Work is counted in nanoseconds at nominal speed with 16 fraction bits; a CPU's speed is the same
//! fixed point, [`SPEED_NOMINAL`] = 65536. Worked example: 100 µs of work start at nominal speed;
//! after 40 µs an SMT sibling wakes up and the speed falls to 39322 (0.6). 60 µs are left and take
//! 100 µs now: the end moves from 100 to 140 µs. Elapsed time times speed is exact in this fixed
//! point, so no work is lost or invented however often a segment is cut; only its end is rounded up
//! to a whole nanosecond.

use schedcast_kernel::Ns;

const FRACTION_BITS: u32 = 16;
/// Speed of a CPU that executes work at nominal speed.
pub(crate) const SPEED_NOMINAL: u32 = 1 << FRACTION_BITS;
/// Most work one segment can hold, 39 hours; what never ends is cut to this.
const WORK_MAX_NS: Ns = 1 << 47;

/// Activity of a task between two instructions with an effect on others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Segment {
    /// Nothing: the next instruction is due.
    #[default]
    None,
    /// Work in kernel mode: once it has begun nothing reaches the CPU before it is over, so its
    /// length follows from the speed at which it begins.
    Kernel {
        /// Its length at nominal speed.
        ns: Ns,
    },
    /// Work, ns · 2¹⁶ left.
    Work {
        /// Work left, in ns · 2¹⁶.
        left: u64,
    },
    /// A spin on the clock.
    Spin {
        /// When it may end.
        until: Ns,
        /// Work between two looks at the clock, ns · 2¹⁶.
        quantum: u64,
        /// Work done since the last look.
        done: u64,
    },
}

impl Segment {
    /// Work of `ns` at nominal speed.
    #[inline]
    pub(crate) const fn work(ns: Ns) -> Self {
        Self::Work {
            left: fixed_point(ns),
        }
    }

    /// A spin of `wall_ns` from `now` that looks at the clock first and then after each quantum.
    #[inline]
    pub(crate) const fn spin(now: Ns, wall_ns: Ns, quantum_ns: u32) -> Self {
        let quantum = (quantum_ns as u64) << FRACTION_BITS;
        Self::Spin {
            until: now.saturating_add(wall_ns),
            quantum: if quantum == 0 { 1 } else { quantum },
            done: 0,
        }
    }

    /// Whether it is work in kernel mode.
    #[inline(always)]
    pub(crate) const fn is_in_kernel(&self) -> bool {
        matches!(self, Segment::Kernel { .. })
    }

    /// Time until it ends if it runs undisturbed from `now` at `speed`.
    #[inline(always)]
    pub(crate) fn time_to_end(&self, now: Ns, speed: u32) -> Ns {
        match *self {
            Segment::None => 0,
            Segment::Kernel { ns } => time_for(fixed_point(ns), speed),
            Segment::Work { left } => time_for(left, speed),
            Segment::Spin {
                until,
                quantum,
                done,
            } => {
                // A look right now when the last quantum is complete.
                let rest = (quantum - done) % quantum;
                let first = time_for(rest, speed);
                match until.saturating_sub(now.saturating_add(first)) {
                    0 => first,
                    ahead => {
                        let looks = ahead.saturating_mul(u64::from(speed)).div_ceil(quantum);
                        time_for(rest.saturating_add(looks.saturating_mul(quantum)), speed)
                    }
                }
            }
        }
    }

    /// Lets it run for `elapsed` ns at `speed`.
    #[inline]
    pub(crate) fn advance(&mut self, elapsed: Ns, speed: u32) {
        let executed = elapsed.saturating_mul(u64::from(speed));
        match self {
            Segment::None | Segment::Kernel { .. } => {}
            Segment::Work { left } => *left = left.saturating_sub(executed),
            Segment::Spin { quantum, done, .. } => {
                *done = ((u128::from(*done) + u128::from(executed)) % u128::from(*quantum)) as u64;
            }
        }
    }
}

/// Work of `ns` at nominal speed, ns · 2¹⁶.
#[inline(always)]
const fn fixed_point(ns: Ns) -> u64 {
    let ns = if ns > WORK_MAX_NS { WORK_MAX_NS } else { ns };
    ns << FRACTION_BITS
}

#[inline(always)]
fn time_for(work: u64, speed: u32) -> Ns {
    if speed == SPEED_NOMINAL {
        (work + u64::from(SPEED_NOMINAL - 1)) >> FRACTION_BITS
    } else {
        work.div_ceil(u64::from(speed.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut segment = Segment::work(100_000);
        assert_eq!(segment.time_to_end(0, SPEED_NOMINAL), 100_000);
        segment.advance(40_000, SPEED_NOMINAL);
        assert_eq!(segment.time_to_end(40_000, 39_322), 99_999); // 0.6 is 39321.6 in this fixed point
    }

    #[test]
    fn work_in_kernel_mode_is_all_ahead_until_it_is_over() {
        let mut kernel = Segment::Kernel { ns: 500 };
        assert!(kernel.is_in_kernel() && !Segment::work(500).is_in_kernel());
        assert_eq!(kernel.time_to_end(1000, SPEED_NOMINAL), 500);
        assert_eq!(kernel.time_to_end(1000, SPEED_NOMINAL / 2), 1000);
        kernel.advance(100, SPEED_NOMINAL);
        assert_eq!(kernel, Segment::Kernel { ns: 500 });
    }

    #[test]
    fn a_spin_ends_at_the_first_look_after_its_time() {
        let spin = Segment::spin(1000, 100, 32);
        assert_eq!(spin.time_to_end(1000, SPEED_NOMINAL), 128); // looks at 0, 32, 64, 96, 128
        let half = SPEED_NOMINAL / 2;
        assert_eq!(spin.time_to_end(1000, half), 128); // looks every 64 ns
        assert_eq!(Segment::spin(1000, 0, 32).time_to_end(1000, half), 0);
    }

    #[test]
    fn a_spin_that_was_preempted_past_its_time_ends_at_the_next_look() {
        let mut spin = Segment::spin(0, 100, 32);
        spin.advance(40, SPEED_NOMINAL);
        assert_eq!(spin.time_to_end(5000, SPEED_NOMINAL), 24);
        spin.advance(24, SPEED_NOMINAL);
        assert_eq!(spin.time_to_end(5024, SPEED_NOMINAL), 0);
    }

    #[test]
    fn endless_work_does_not_overflow() {
        assert_eq!(
            Segment::work(u64::MAX).time_to_end(0, SPEED_NOMINAL),
            WORK_MAX_NS
        );
        assert!(Segment::spin(5, u64::MAX, 1).time_to_end(5, 1) > WORK_MAX_NS);
    }

    proptest! {
        #[test]
        fn work_is_conserved_however_it_is_cut(
            work_ns in 1..1_000_000_000u64,
            cuts in prop::collection::vec((1..100_000u64, 1..=2 * SPEED_NOMINAL), 0..50),
        ) {
            let mut segment = Segment::work(work_ns);
            let mut executed = 0u128;
            let mut now = 0;
            for (pause_after, speed) in cuts {
                let step = pause_after.min(segment.time_to_end(now, speed));
                segment.advance(step, speed);
                executed += u128::from(step) * u128::from(speed);
                now += step;
            }
            let Segment::Work { left } = segment else { unreachable!() };
            let total = u128::from(work_ns) << FRACTION_BITS;
            // Exact, except that the last nanosecond may be more than what was left.
            prop_assert!(executed + u128::from(left) >= total);
            prop_assert!(executed + u128::from(left) < total + u128::from(2 * SPEED_NOMINAL));
            if left > 0 {
                prop_assert_eq!(executed + u128::from(left), total);
            }
        }

        #[test]
        fn cutting_a_spin_at_constant_speed_does_not_move_its_end(
            wall in 0..100_000u64,
            quantum in 1..1000u32,
            cuts in prop::collection::vec(1..1000u64, 0..20),
        ) {
            let mut segment = Segment::spin(0, wall, quantum);
            let end = segment.time_to_end(0, SPEED_NOMINAL);
            let mut now = 0;
            for step in cuts {
                let step = step.min(end - now);
                segment.advance(step, SPEED_NOMINAL);
                now += step;
                prop_assert_eq!(now + segment.time_to_end(now, SPEED_NOMINAL), end);
            }
        }
    }
}
