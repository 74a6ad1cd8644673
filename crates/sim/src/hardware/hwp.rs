//! Hardware that manages its own P-states: a first-order lag behind how busy a CPU is.
//!
//! Undocumented in reality; modelled as: every interval the hardware looks what share of the time
//! since its last look each CPU was awake, and averages that with a time constant. For the CPU of
//! the clock with the highest average it gives the full clock from a share on that grows with the
//! energy preference (0: any; 128: the one the machine names), and proportionally less below.
//! Worked example: limits 800 to 3800 MHz, full clock from 60 %, the lowest at 0 %, preference 128,
//! a CPU awake 30 % of the time: the clock tends to 800 + 3000 · ½ = 2300 MHz. With a time constant
//! of 9 ms the average is 30 % / (9 + 1) = 3 % after the first look, the clock 950 MHz.

use crate::machine::parts::{Frequency, Hwp};
use schedcast_kernel::Ns;
use schedcast_kernel::cpufreq::HwpRequest;

const FRACTION_BITS: u32 = 16;
/// A lag of this many time constants is over.
const FORGOTTEN: u64 = 20;

/// State of one clock in the hardware.
#[derive(Clone, Debug)]
pub(super) struct HwpDomain {
    cpus: Vec<HwpCpu>,
    looked_ns: Ns,
    /// Clock as a function of the share awake, within the limits of the request.
    slope: Slope,
    step_mhz: u32,
    /// The next look is armed.
    pub looking: bool,
    interval_ns: Ns,
    response_ns: Ns,
    lowest_clock_busy_percent: u64,
    full_clock_busy_percent: u64,
}

/// State of one CPU in the hardware.
#[derive(Clone, Copy, Debug)]
struct HwpCpu {
    /// Average share awake, 1024ths · 2¹⁶.
    busy: u64,
    /// Time awake at the last look.
    awake_ns: Ns,
    limits: HwpRequest,
}

/// From the lowest clock at one share of time awake to the highest at another.
#[derive(Clone, Copy, Debug, Default)]
struct Slope {
    least_mhz: u64,
    range_mhz: u64,
    /// Share that deserves more than the lowest clock, 1024ths · 2¹⁶.
    lowest: u64,
    /// How much more deserves the full clock.
    length: u64,
}

/// `amount` · `part` / `whole`, rounded down.
#[inline(always)]
fn portion(amount: u64, part: u64, whole: u64) -> u64 {
    match amount.checked_mul(part) {
        Some(product) => product / whole,
        None => (u128::from(amount) * u128::from(part) / u128::from(whole)) as u64,
    }
}

impl HwpDomain {
    pub(super) fn new(hwp: &Hwp, part: &Frequency, cpus: usize) -> Self {
        let limits = HwpRequest {
            min: part.min_mhz / part.step_mhz,
            max: part.turbo_mhz / part.step_mhz,
            preference: hwp.preference,
        };
        let cpu = HwpCpu {
            busy: 0,
            awake_ns: 0,
            limits,
        };
        let mut domain = Self {
            cpus: vec![cpu; cpus],
            looked_ns: 0,
            slope: Slope::default(),
            step_mhz: part.step_mhz,
            looking: false,
            interval_ns: hwp.interval_ns,
            response_ns: hwp.response_ns,
            lowest_clock_busy_percent: u64::from(hwp.lowest_clock_busy_percent),
            full_clock_busy_percent: u64::from(hwp.full_clock_busy_percent),
        };
        domain.slope = domain.find_slope();
        domain
    }

    pub(super) fn set_limits(&mut self, place: usize, request: HwpRequest, step_mhz: u32) {
        self.cpus[place].limits = request;
        self.step_mhz = step_mhz;
        self.slope = self.find_slope();
    }

    /// Highest limits and lowest preference of the CPUs.
    fn limit(&self) -> (u64, u64, u64) {
        let step = u64::from(self.step_mhz);
        let limits = || self.cpus.iter().map(|cpu| &cpu.limits);
        let most = |key: fn(&HwpRequest) -> u64| limits().map(key).max().unwrap_or(0);
        let preference = limits().map(|limit| u64::from(limit.preference));
        (
            most(|limit| limit.min.into()) * step,
            most(|limit| limit.max.into()) * step,
            preference.min().unwrap_or(0),
        )
    }

    fn find_slope(&self) -> Slope {
        let (least_mhz, most_mhz, preference) = self.limit();
        let share = |percent: u64| (percent * 1024 * preference / (100 * 128)) << FRACTION_BITS;
        let lowest = share(self.lowest_clock_busy_percent);
        Slope {
            least_mhz,
            range_mhz: most_mhz.saturating_sub(least_mhz),
            lowest,
            length: share(self.full_clock_busy_percent).saturating_sub(lowest),
        }
    }

    /// Clock for the average share, MHz.
    fn clock(&self) -> u32 {
        let slope = &self.slope;
        let more_mhz = if slope.length == 0 {
            slope.range_mhz
        } else {
            let busiest = self.cpus.iter().map(|cpu| cpu.busy).max().unwrap_or(0);
            let above = busiest.saturating_sub(slope.lowest).min(slope.length);
            portion(slope.range_mhz, above, slope.length)
        };
        (slope.least_mhz + more_mhz) as u32
    }

    /// Looks at the time each CPU was awake so far; returns the clock in MHz.
    #[inline(always)]
    pub(super) fn look(&mut self, awake_ns: impl Iterator<Item = Ns>, now: Ns) -> u32 {
        let elapsed = now - self.looked_ns;
        // The time that a CPU was awake before it fell asleep belongs to the first interval.
        let first = elapsed.min(self.interval_ns);
        for (cpu, awake) in self.cpus.iter_mut().zip(awake_ns) {
            let since = awake - std::mem::replace(&mut cpu.awake_ns, awake);
            if let Some(share) = (since * 1024).checked_div(first) {
                cpu.average(share.min(1024), first, self.response_ns);
            }
            if elapsed > first {
                cpu.forget(elapsed - first, self.interval_ns, self.response_ns);
            }
        }
        self.looked_ns = now;
        self.clock()
    }
}

impl HwpCpu {
    /// The CPU has slept for so long since.
    #[inline(never)]
    fn forget(&mut self, mut rest_ns: Ns, interval_ns: Ns, response_ns: Ns) {
        if rest_ns > FORGOTTEN * response_ns {
            self.busy = 0;
            return;
        }
        while rest_ns > 0 {
            let step_ns = rest_ns.min(interval_ns);
            self.average(0, step_ns, response_ns);
            rest_ns -= step_ns;
        }
    }

    /// One step of the lag: the distance shrinks by step / (time constant + step).
    #[inline(always)]
    fn average(&mut self, share: u64, step_ns: Ns, response_ns: Ns) {
        let whole = response_ns + step_ns;
        let share = share << FRACTION_BITS;
        if share >= self.busy {
            self.busy += portion(share - self.busy, step_ns, whole);
        } else {
            self.busy -= portion(self.busy - share, step_ns, whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::parts::{ClockDomain, Driver, Governor};

    const MS: Ns = 1_000_000;

    fn domain(preference: u8) -> HwpDomain {
        let hwp = Hwp {
            preference,
            dynamic_boost: false,
            interval_ns: MS,
            response_ns: 9 * MS,
            lowest_clock_busy_percent: 0,
            full_clock_busy_percent: 60,
        };
        let part = Frequency {
            nominal_mhz: 3000,
            min_mhz: 800,
            base_mhz: 3000,
            turbo_mhz: 3800,
            step_mhz: 100,
            table: Vec::new(),
            turbo_limits_mhz: Vec::new(),
            domain: ClockDomain::Core,
            sleeping_cpus_vote: false,
            transition_ns: 0,
            announced_latency_ns: 0,
            transition_delay_ns: None,
            policy_per_domain: false,
            aperf_mperf: true,
            driver: Driver::IntelPstate,
            governor: Governor::Powersave,
            userspace_mhz: None,
            hwp: Some(hwp.clone()),
        };
        HwpDomain::new(&hwp, &part, 1)
    }

    /// Clock after `looks` milliseconds of which each was busy for `percent`.
    fn after(domain: &mut HwpDomain, looks: u64, percent: u64) -> u32 {
        let mut mhz = 0;
        for _ in 0..looks {
            let awake = domain.cpus[0].awake_ns + percent * MS / 100;
            mhz = domain.look([awake].into_iter(), domain.looked_ns + MS);
        }
        mhz
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut domain = domain(128);
        // 30 % are 307 of 1024, the full share 614; everything is rounded down.
        assert_eq!(after(&mut domain, 1, 30), 949);
        assert_eq!(after(&mut domain, 200, 30), 2299);
    }

    #[test]
    fn preferences_shift_the_share_that_deserves_the_full_clock() {
        assert_eq!(after(&mut domain(0), 300, 1), 3800);
        assert_eq!(after(&mut domain(128), 300, 100), 3800);
        assert!(after(&mut domain(255), 300, 100) < 3500);
    }

    #[test]
    fn a_long_sleep_is_caught_up_with() {
        let mut stepwise = domain(128);
        after(&mut stepwise, 300, 100);
        let mut at_once = stepwise.clone();
        for _ in 0..10 {
            after(&mut stepwise, 1, 0);
        }
        let awake = at_once.cpus[0].awake_ns;
        at_once.look([awake].into_iter(), at_once.looked_ns + 10 * MS);
        assert_eq!(at_once.cpus[0].busy, stepwise.cpus[0].busy);
        let long_after = at_once.looked_ns + 1000 * MS;
        assert_eq!(at_once.look([awake].into_iter(), long_after), 800);
    }
}
