//! Differences between two real runs of the same workload, drawn from the seed.
//!
//! A simulation that always begins at the same moment of the tick, with the same prices to the
//! nanosecond, answers for one phase only. Where a tick, a period and a time slice fall together,
//! that phase decides the whole answer, and a price that is one nanosecond higher gives another
//! one. No real run is so exact, so each seed draws:
//!
//! * **the time since the boot.** Ticks fall on multiples of their distance since the boot
//!   (`tick_init_jiffy_update` aligns them, commit 13bb06f8dd42, in all stable kernels since 2023).
//!   Before 6.4 the periods of all groups end at multiples of the period since the boot too, so
//!   that a tick and the end of a period fall together there. From 6.4 on (`timer_interleave`) the
//!   kernel draws where the periods of a group end, and so does the simulator.
//! * **starts of programs**, each later by up to the price of a fork: several programs are started
//!   one after the other.
//! * **prices**, each by a factor of its own with a standard deviation of [`PRICE_SPREAD`].
//! * **the clocks of timer interrupts**, [`TIMER_OFFSET_NS`]: two CPUs never take their ticks in
//!   the same nanosecond.
//!
//! Recorded wakeups and periods stay as recorded.
//!
//! Draws belong to names. Two variants under one seed have the same time since the boot, and a
//! program that both of them have starts at the same moment in both, with the same prices, so that
//! they are compared pair by pair.
//!
//! # Worked example
//!
//! Kernel 6.1 at 250 Hz, a group with a period of 100 ms, seed 0. The draw says that the run begins
//! 2 ms and 17 whole ticks after the end of a period, so the first tick comes after 2 ms and the
//! first period ends after 100 − 17 · 4 − 2 = 30 ms, at a tick.

use schedcast_kernel::Ns;
use schedcast_kernel::rules::Rules;
use schedcast_sim::random;
use schedcast_sim::{Distribution, Machine, Workload};

/// Standard deviation of the factor between a price and its nominal value.
///
/// `schedcast calibrate` prints the 10 % and the 90 % quantile of the repeats behind each price. In
/// `docs/validation/calibration-6.18-machine.toml` they are 972 and 1013 ns for a switch of 989,
/// 114 and 120 for a system call of 119, 264 and 285 for a wakeup of 275, 230 and 251 for a block
/// of 241: half of each distance is 2.1, 2.5, 3.8 and 4.4 % of the price. Of a normal distribution
/// that is 1.28 standard deviations, which are 2.5 % on average.
const PRICE_SPREAD: f64 = 0.025;

/// Up to so much later than programmed the timer interrupts of a CPU come, the same in all of a
/// run, ns. Chosen: it decides nothing but who is first of CPUs whose timers are due at the same
/// nanosecond. Machines that say how late their interrupts are (`timer_interrupt`) draw that too.
const TIMER_OFFSET_NS: Ns = 100;

/// The fractional part of the golden ratio as a fraction of 2⁶⁴: its multiples fill an interval
/// evenly, whatever their number.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whole ticks that the time since the boot is drawn from: an hour of them, at 1000 Hz.
const TICKS: u64 = 3_600_000;

/// The draws of one seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    /// `None` = everything is nominal and begins at time 0.
    seed: Option<u64>,
}

impl Chance {
    /// The draws of `seed`.
    pub(super) fn of(seed: u64) -> Chance {
        Chance { seed: Some(seed) }
    }

    /// Nothing is drawn.
    pub(super) const NONE: Chance = Chance { seed: None };

    /// Whether anything is drawn.
    pub(crate) fn is_drawn(self) -> bool {
        self.seed.is_some()
    }

    /// A number that is equally likely anywhere in 0..2⁶⁴.
    fn draw(self, name: &str, purpose: u64) -> Option<u64> {
        let mut stream = random::stream(self.seed?, random::name_hash(name), purpose);
        Some(random::draw(&mut stream))
    }

    /// How long after its time a program starts, ns.
    pub(super) fn start_ns(self, program: &str, fork_ns: Ns) -> Ns {
        let draw = self.draw(program, purpose::START);
        draw.map_or(0, |draw| part(draw, fork_ns))
    }

    /// When something happens for the first time that happens after `gaps`, ns.
    pub(super) fn first_ns(self, name: &str, gaps: &Distribution) -> Ns {
        let draw = self.draw(name, purpose::FIRST);
        draw.map_or(0, |draw| gaps.quantile(draw))
    }

    /// Time from the boot to the run, ns.
    fn since_boot_ns(self, tick_ns: Ns) -> Option<Ns> {
        let ticks = self.draw("ticks", purpose::BOOT)? % TICKS;
        // Half an interval from the start, or seed 0 would begin with a tick.
        let into = (1_u64 << 63).wrapping_add(self.seed?.wrapping_mul(GOLDEN));
        Some(ticks * tick_ns + part(into, tick_ns))
    }

    /// Moves ticks, and where periods end in kernels that do not draw that themselves.
    pub(crate) fn move_phases(self, rules: &mut Rules, workload: &mut Workload) {
        let Some(boot_ns) = self.since_boot_ns(rules.tick_ns) else {
            return;
        };
        rules.tick_phase_ns = until_next(boot_ns, rules.tick_ns);
        if rules.timer_interleave {
            return;
        }
        for group in &mut workload.groups {
            let period_ns = group.limit.period_ns;
            if group.period_phase_ns.is_none() && period_ns > 0 {
                group.period_phase_ns = Some(until_next(boot_ns, period_ns));
            }
        }
    }

    /// Multiplies the prices.
    pub(crate) fn change_prices(self, machine: &mut Machine) {
        for (row, price_ns) in machine.cost_ns.iter_mut().enumerate() {
            *price_ns = self.priced(*price_ns, row as u64);
        }
        let latencies = [
            &mut machine.ipi_delivery_ns,
            &mut machine.idle_exit_ns,
            &mut machine.polling_wakeup_ns,
            &mut machine.ipi_stall_ns,
            &mut machine.ipi_to_idle_ns,
        ];
        for (row, latency_ns) in (1000..).zip(latencies) {
            *latency_ns = self.priced(*latency_ns, row);
        }
        if self.seed.is_some() && machine.timer_interrupt.is_none() {
            machine.timer_offset_ns = TIMER_OFFSET_NS;
        }
    }

    fn priced(self, price_ns: Ns, row: u64) -> Ns {
        let Some(seed) = self.seed else {
            return price_ns;
        };
        let mut stream = random::stream(seed, row, purpose::PRICE);
        // Twelve uniform numbers less 6 are about normal, with a standard deviation of 1 and never
        // beyond 6.
        let uniform = |_| random::draw(&mut stream) as f64 / 2f64.powi(64);
        let normal = (0..12).map(uniform).sum::<f64>() - 6.0;
        (price_ns as f64 * (1.0 + PRICE_SPREAD * normal)).round() as Ns
    }
}

/// Purposes of draws: numbers that no other purpose of the simulator has.
mod purpose {
    pub(super) const BOOT: u64 = 0x626f_6f74;
    pub(super) const START: u64 = 0x7374_6172;
    pub(super) const PRICE: u64 = 0x7072_6963;
    pub(super) const FIRST: u64 = 0x6669_7273;
}

/// The part of `whole` that `draw` is of 2⁶⁴.
fn part(draw: u64, whole: Ns) -> Ns {
    ((u128::from(draw) * u128::from(whole)) >> 64) as Ns
}

/// From `since_ns` to the next multiple of `step_ns`; 0 where it is one.
fn until_next(since_ns: Ns, step_ns: Ns) -> Ns {
    (step_ns - since_ns % step_ns) % step_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_kernel::GroupId;
    use schedcast_kernel::rules::Version;
    use schedcast_sim::workload::GroupSpec;

    const MS: Ns = 1_000_000;

    const V6_1: Version = Version::new(6, 1);
    const V6_12: Version = Version::new(6, 12);

    fn phases(version: Version, seed: u64) -> (Ns, Vec<Option<Ns>>) {
        let mut rules = Rules::of(version, 8, 250);
        let mut workload = Workload::default();
        for period_ns in [100 * MS, 30 * MS] {
            let mut group = GroupSpec::new(format!("/{period_ns}"), GroupId::ROOT);
            group.limit.period_ns = period_ns;
            workload.add_group(group);
        }
        Chance::of(seed).move_phases(&mut rules, &mut workload);
        let groups = workload.groups.iter();
        let groups = groups.map(|group| group.period_phase_ns).collect();
        (rules.tick_phase_ns, groups)
    }

    #[test]
    fn ticks_begin_anywhere_and_seeds_fill_the_interval() {
        let mut ticks: Vec<Ns> = (0..40).map(|seed| phases(V6_12, seed).0).collect();
        assert_eq!(ticks[0], 2 * MS, "half a tick");
        ticks.sort_unstable();
        let gaps = ticks.windows(2).map(|pair| pair[1] - pair[0]);
        // 100 us on average.
        assert!(gaps.max().unwrap() < 200_000, "{ticks:?}");
        assert_eq!(phases(V6_12, 0).1, [None, None], "the kernel's own draw");
    }

    #[test]
    fn before_6_4_periods_end_at_ticks() {
        for seed in 0..20 {
            let (tick_ns, groups) = phases(V6_1, seed);
            let first_ns = groups[0].unwrap();
            assert!(first_ns < 100 * MS);
            assert_eq!(first_ns % (4 * MS), tick_ns, "100 ms are 25 ticks");
            // Both are multiples of their period since the boot: 300 ms later they would be back in
            // step.
            let boot_ns = Chance::of(seed).since_boot_ns(4 * MS).unwrap();
            assert_eq!((boot_ns + groups[1].unwrap()) % (30 * MS), 0);
        }
    }

    #[test]
    fn prices_vary_by_the_spread_of_calibrations() {
        let factors: Vec<f64> = (0..1000)
            .map(|seed| Chance::of(seed).priced(1_000_000, 3) as f64 / 1e6)
            .collect();
        let mean = factors.iter().sum::<f64>() / 1000.0;
        let variance = factors.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / 999.0;
        assert!((mean - 1.0).abs() < 0.003, "{mean}");
        assert!((variance.sqrt() - PRICE_SPREAD).abs() < 0.002, "{variance}");
        assert_eq!(Chance::NONE.priced(500, 3), 500);
        // One nanosecond more stays one more, so that variants are compared under the same draws.
        let higher = (0..100).map(|seed| Chance::of(seed).priced(501, 3));
        let lower = (0..100).map(|seed| Chance::of(seed).priced(500, 3));
        assert!(higher.zip(lower).all(|(more, less)| more - less <= 2));
    }

    #[test]
    fn programs_start_within_a_fork_and_by_their_name() {
        let start = |name: &str, seed| Chance::of(seed).start_ns(name, 50_000);
        assert!((0..100).all(|seed| start("hackbench", seed) < 50_000));
        assert_ne!(start("hackbench", 1), start("schbench", 1));
        assert_ne!(start("hackbench", 1), start("hackbench", 2));
        assert_eq!(Chance::NONE.start_ns("hackbench", 50_000), 0);
    }
}
