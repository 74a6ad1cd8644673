//! schedutil: the frequency follows the utilisation the scheduler tracks.
//!
//! Worked example: a task starts on an idle CPU of 800 to 4000 MHz and never stops, rate limit
//! 10 ms, frequency invariant. Its utilisation is 178 of 1024 after 10 ms (a sixth): 1.25 · 4000 ·
//! 178/1024 = 869, so 900 MHz are asked for. From then on the clock the load tracking uses runs
//! slow, and it takes some 100 ms until 4000 MHz are reached.
//!
//! A task that wakes from I/O lifts the utilisation to 128, and twice that with each further such
//! wakeup within a tick; each evaluation without one halves it.

use super::rules::{FrequencyRules, IowaitBoost};
use super::{FrequencyDriver, PStates};
use crate::core::irqtime::scale_irq_capacity;
use crate::ids::Ns;
use crate::uclamp::{Clamps, clamped};

const CAPACITY: u64 = 1024;
/// `IOWAIT_BOOST_MIN`.
const BOOST_MIN: u64 = CAPACITY / 8;

/// State of one CPU in schedutil.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SugovCpu {
    boost: u64,
    boost_pending: bool,
    last_update_ns: Ns,
    /// The CPU's count of idle calls at its last decision.
    saved_idle_calls: u64,
}

/// Utilisation of a CPU as the scheduler knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utilisation {
    /// Of the fair class.
    pub(crate) fair: u64,
    /// Runnable average of the fair class.
    pub(crate) fair_runnable: u64,
    /// Estimate for the tasks that are queued.
    pub(crate) estimate: u64,
    /// Of the real-time class.
    pub(crate) rt: u64,
    /// Of interrupts and of the hypervisor, where that is counted.
    pub(crate) irq: u64,
    /// Of the deadline class.
    pub(crate) deadline: u64,
    /// Bandwidth that deadline tasks which are not inactive reserved, as part of a CPU of 1024
    /// (`cpu_bw_dl`).
    pub(crate) deadline_bandwidth: u64,
    /// A real-time task is runnable.
    pub(crate) rt_runnable: bool,
    /// Utilisation clamps of the tasks that are runnable; `None` while nobody uses any.
    pub(crate) clamps: Option<Clamps<u64>>,
    /// Capacity of the CPU.
    pub(crate) capacity: u64,
}

impl Utilisation {
    /// Of the fair class, as frequencies are chosen by it (`cpu_util_cfs_boost`).
    fn of_fair(&self, rules: &FrequencyRules) -> u64 {
        let runnable = match rules.runnable_boost {
            true => self.fair_runnable,
            false => 0,
        };
        self.fair
            .max(runnable)
            .max(self.estimate)
            .min(self.capacity)
    }

    /// Whether a real-time task asks for all, as nobody says how much it needs.
    fn is_urgent(&self) -> bool {
        self.rt_runnable && self.clamps.is_none()
    }

    /// The performance to ask for, and whether the margin is in it (`sugov_get_util`).
    fn wanted(&self, boost: u64, rules: &FrequencyRules) -> Wanted {
        self.wanted_for(self.of_fair(rules), boost, rules)
    }

    /// The same with another utilisation of the fair class.
    pub(crate) fn wanted_for(&self, fair: u64, boost: u64, rules: &FrequencyRules) -> Wanted {
        match rules.deadline_bandwidth_is_least {
            true => self.performance(fair, boost),
            false => self.utilisation(fair, boost),
        }
    }

    /// How much of the CPU is used, clamps aside, when the fair class uses so much of it
    /// (`effective_cpu_util`, up to 6.7 with `ENERGY_UTIL`).
    pub(crate) fn busy(&self, fair: u64) -> u64 {
        let tasks = fair + self.rt + self.deadline;
        match self.irq >= self.capacity || tasks >= self.capacity {
            true => self.capacity,
            false => {
                let tasks = scale_irq_capacity(tasks, self.irq, self.capacity);
                (tasks + self.irq).min(self.capacity)
            }
        }
    }

    /// Up to 6.7 clamps bound the utilisation, and the boost for I/O.
    fn utilisation(&self, fair: u64, boost: u64) -> Wanted {
        let within = |util| self.clamps.map_or(util, |clamps| clamped(util, clamps));
        let util = if self.is_urgent() || self.irq >= self.capacity {
            self.capacity
        } else {
            let tasks = within(fair + self.rt);
            match tasks + self.deadline >= self.capacity {
                true => self.capacity,
                false => {
                    let tasks = scale_irq_capacity(tasks, self.irq, self.capacity);
                    (tasks + self.irq + self.deadline_bandwidth).min(self.capacity)
                }
            }
        };
        let boost = if boost > 0 { within(boost) } else { 0 };
        Wanted {
            utilisation: util.max(boost),
            has_margin: false,
        }
    }

    /// From 6.8 on clamps and reservations bound the performance that is asked for, margin and
    /// boost included (`effective_cpu_util`, `sugov_effective_cpu_perf`).
    fn performance(&self, fair: u64, boost: u64) -> Wanted {
        let util = self.busy(fair);
        let (mut least, mut most) = (self.capacity, self.capacity);
        if self.irq < self.capacity {
            least = self.irq + self.deadline_bandwidth;
            if let Some(clamps) = self.clamps {
                least = least.max(clamps.min);
                most = most.min(clamps.max);
            }
            if self.is_urgent() {
                least = least.max(self.capacity);
            }
        }
        Wanted {
            utilisation: with_margin(util.max(boost)).min(most).max(least),
            has_margin: true,
        }
    }
}

/// Performance that a CPU asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// In units of capacity.
    pub(crate) utilisation: u64,
    /// The quarter to spare is in it (6.8).
    has_margin: bool,
}

impl Wanted {
    /// Performance with the quarter to spare.
    pub(crate) fn with_margin(self) -> u64 {
        match self.has_margin {
            true => self.utilisation,
            false => with_margin(self.utilisation),
        }
    }

    /// The frequency for it, of which a CPU of some capacity gives `most_khz` (`map_util_freq`).
    /// Up to 5.13 the quarter to spare is in the frequency, later in the utilisation, and what is
    /// less than a kHz or than a unit of capacity is lost at another place.
    pub(crate) fn khz(self, most_khz: u64, capacity: u64, rules: &FrequencyRules) -> u64 {
        let capacity = capacity.max(1);
        match rules.margin_in_frequency && !self.has_margin {
            true => with_margin(most_khz) * self.utilisation / capacity,
            false => most_khz * self.with_margin() / capacity,
        }
    }

    /// So much, with or without the quarter to spare in it.
    #[cfg(test)]
    pub(crate) fn of(utilisation: u64, has_margin: bool) -> Self {
        Self {
            utilisation,
            has_margin,
        }
    }
}

/// A quarter to spare (`map_util_perf`).
const fn with_margin(util: u64) -> u64 {
    util + (util >> 2)
}

impl SugovCpu {
    /// `sugov_iowait_boost`, at every call of the scheduler.
    pub(crate) fn note(&mut self, now: Ns, iowait: bool, rules: &FrequencyRules, tick_ns: Ns) {
        let reset = self.boost > 0 && self.reset_if_old(now, iowait, tick_ns);
        self.last_update_ns = now;
        if reset || !iowait {
            return;
        }
        match rules.iowait_boost {
            IowaitBoost::None => {}
            IowaitBoost::AtOnce => {
                self.boost = CAPACITY;
                self.boost_pending = true;
            }
            IowaitBoost::Doubling if self.boost_pending => {}
            IowaitBoost::Doubling => {
                self.boost_pending = true;
                self.boost = (self.boost * 2).clamp(BOOST_MIN, CAPACITY);
            }
        }
    }

    /// A tick without a call: start over (`sugov_iowait_reset`).
    fn reset_if_old(&mut self, now: Ns, iowait: bool, tick_ns: Ns) -> bool {
        if now.saturating_sub(self.last_update_ns) <= tick_ns {
            return false;
        }
        self.boost = if iowait { BOOST_MIN } else { 0 };
        self.boost_pending = iowait;
        true
    }

    /// `sugov_iowait_apply`: the boost in units of capacity.
    fn take_boost(&mut self, now: Ns, capacity: u64, tick_ns: Ns) -> u64 {
        if self.boost == 0 || self.reset_if_old(now, false, tick_ns) {
            return 0;
        }
        if !self.boost_pending {
            self.boost >>= 1;
            if self.boost < BOOST_MIN {
                self.boost = 0;
                return 0;
            }
        }
        self.boost_pending = false;
        self.boost * capacity / CAPACITY
    }

    /// Performance to choose a frequency for.
    pub(crate) fn wanted(
        &mut self,
        now: Ns,
        utilisation: &Utilisation,
        rules: &FrequencyRules,
        tick_ns: Ns,
    ) -> Wanted {
        let boost = self.take_boost(now, utilisation.capacity, tick_ns);
        utilisation.wanted(boost, rules)
    }

    /// Whether the CPU was not idle since the last decision (`sugov_cpu_is_busy`).
    pub(crate) fn is_busy(&mut self, idle_calls: u64) -> bool {
        std::mem::replace(&mut self.saved_idle_calls, idle_calls) == idle_calls
    }
}

/// State of one policy in schedutil.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SugovPolicy {
    last_change_ns: Option<Ns>,
    next: Option<u32>,
}

impl SugovPolicy {
    /// Whether enough time has passed since the last change (`sugov_should_update_freq`).
    pub(crate) fn may_update(
        &self,
        now: Ns,
        driver: &FrequencyDriver,
        rules: &FrequencyRules,
    ) -> bool {
        let delay_ns = driver
            .transition_delay_ns
            .unwrap_or_else(|| rules.rate_limit.delay_ns(driver.transition_latency_ns));
        self.last_change_ns
            .is_none_or(|last_ns| now.saturating_sub(last_ns) >= delay_ns)
    }

    /// The P-state to ask for, if it changes. `hold` forbids lower ones.
    pub(crate) fn decide(&mut self, now: Ns, wanted: u32, hold: bool) -> Option<u32> {
        let held = hold && self.next.is_some_and(|next| wanted < next);
        if held || self.next == Some(wanted) {
            return None;
        }
        self.next = Some(wanted);
        self.last_change_ns = Some(now);
        Some(wanted)
    }
}

/// `get_next_freq`: 1.25 · utilisation / capacity of the reference frequency.
pub(crate) fn wanted_pstate(
    pstates: &PStates,
    current: u32,
    (wanted, capacity): (Wanted, u64),
    invariant: bool,
    rules: &FrequencyRules,
) -> u32 {
    let current_khz = pstates.khz(current);
    let reference_khz = match (invariant, rules.margin_on_current) {
        (true, _) => pstates.khz(pstates.turbo),
        (false, true) => current_khz + (current_khz >> 2),
        (false, false) => current_khz,
    };
    pstates.at_least_khz(wanted.khz(reference_khz, capacity, rules))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Rules, Version};

    const PSTATES: PStates = PStates::new(8, 30, 40, 100_000);

    fn rules(major: u16, minor: u16) -> FrequencyRules {
        Rules::of_one_cpu(Version::new(major, minor)).frequency
    }

    const IDLE: Utilisation = Utilisation {
        fair: 0,
        fair_runnable: 0,
        estimate: 0,
        rt: 0,
        irq: 0,
        deadline: 0,
        deadline_bandwidth: 0,
        rt_runnable: false,
        clamps: None,
        capacity: 1024,
    };

    fn choose(fair: u64, (major, minor): (u16, u16), invariant: bool) -> u32 {
        let rules = rules(major, minor);
        let wanted = Utilisation { fair, ..IDLE }.wanted(0, &rules);
        wanted_pstate(&PSTATES, 20, (wanted, 1024), invariant, &rules)
    }

    #[test]
    fn frequency_follows_utilisation_with_a_quarter_to_spare() {
        for version in [(5, 10), (6, 1), (6, 12)] {
            let choose = |util| choose(util, version, true);
            assert_eq!(choose(0), 8);
            assert_eq!(choose(178), 9);
            assert_eq!(choose(512), 25);
            assert_eq!(choose(819), 40);
            assert_eq!(choose(1024), 40);
        }
    }

    #[test]
    fn without_invariance_the_current_frequency_is_the_reference() {
        let choose = |util, minor| choose(util, (6, minor), false);
        // 6.1: 1.25 · 2000 · 1; 6.12: 1.25 · 2000, and 1.25 · util capped at the capacity.
        assert_eq!((choose(1024, 1), choose(1024, 12)), (25, 25));
        assert_eq!((choose(512, 1), choose(512, 12)), (13, 16));
    }

    #[test]
    fn io_doubles_within_a_tick_and_halves_without() {
        let rules = rules(6, 1);
        let ms = 1_000_000;
        let mut cpu = SugovCpu::default();
        let boosts: Vec<u64> = [
            (1, true),
            (2, true),
            (3, true),
            (4, true),
            (5, false),
            (6, false),
        ]
        .into_iter()
        .map(|(at, iowait)| {
            cpu.note(at * ms, iowait, &rules, 4 * ms);
            cpu.wanted(at * ms, &IDLE, &rules, 4 * ms).utilisation
        })
        .collect();
        assert_eq!(boosts, [128, 256, 512, 1024, 512, 256]);
        cpu.note(20 * ms, true, &rules, 4 * ms);
        assert_eq!(cpu.wanted(20 * ms, &IDLE, &rules, 4 * ms).utilisation, 128);
    }

    #[test]
    fn a_busy_cpu_keeps_its_frequency_and_changes_are_spaced() {
        let driver = FrequencyDriver {
            pstates: PSTATES,
            governor: super::super::FrequencyGovernor::Schedutil,
            policy_of: vec![0],
            transition_latency_ns: 2_000,
            ..FrequencyDriver::default()
        };
        let rules = rules(6, 1);
        let mut policy = SugovPolicy::default();
        assert!(policy.may_update(0, &driver, &rules));
        assert_eq!(policy.decide(0, 30, false), Some(30));
        assert!(!policy.may_update(1_999_999, &driver, &rules));
        assert!(policy.may_update(2_000_000, &driver, &rules));
        assert_eq!(policy.decide(2_000_000, 20, true), None);
        assert_eq!(policy.decide(2_000_000, 20, false), Some(20));
        assert_eq!(policy.decide(9_000_000, 20, false), None);
    }

    #[test]
    fn runnable_time_counts_since_6_5_and_real_time_asks_for_all() {
        let wanted = |of: Utilisation, minor| of.wanted(0, &rules(6, minor)).utilisation;
        let waiting = Utilisation {
            fair: 300,
            fair_runnable: 900,
            estimate: 400,
            rt: 100,
            ..IDLE
        };
        assert_eq!(wanted(waiting, 1), 500);
        assert_eq!(wanted(waiting, 5), 1000);
        let urgent = Utilisation {
            rt_runnable: true,
            ..waiting
        };
        assert_eq!(wanted(urgent, 1), 1024);
        assert_eq!(wanted(urgent, 12), 1024);
        // 400 of the fair class and 100 of real-time tasks; up to 6.7 the 205 that are reserved are
        // added, from 6.8 on the 20 that deadline tasks use, and a quarter to spare.
        let reserved = Utilisation {
            deadline: 20,
            deadline_bandwidth: 205,
            fair_runnable: 0,
            ..waiting
        };
        assert_eq!(wanted(reserved, 1), 705);
        assert_eq!(wanted(reserved, 8), 650);
        let idle = Utilisation {
            fair: 0,
            estimate: 0,
            rt: 0,
            ..reserved
        };
        // What was reserved is the least, without anything to spare.
        assert_eq!(wanted(idle, 8), 205);
        let all_of_it = Utilisation {
            fair: 904,
            ..reserved
        };
        // 904 + 100 + 20 is all of the CPU.
        assert_eq!(wanted(all_of_it, 1), 1024);
    }

    #[test]
    fn clamps_bound_utilisation_up_to_6_7_and_performance_since() {
        let wanted = |of: Utilisation, boost, minor| of.wanted(boost, &rules(6, minor)).utilisation;
        let with = |min, max| {
            let clamps = Some(Clamps { min, max });
            Utilisation {
                fair: 400,
                clamps,
                ..IDLE
            }
        };
        // 6.1 adds a quarter to the clamp afterwards; from 6.8 on the clamp is what is asked for.
        assert_eq!(wanted(with(0, 1024), 0, 1), 400);
        assert_eq!(wanted(with(0, 1024), 0, 12), 500);
        assert_eq!(wanted(with(600, 1024), 0, 1), 600);
        assert_eq!(wanted(with(600, 1024), 0, 12), 600);
        assert_eq!(wanted(with(450, 1024), 0, 12), 500);
        assert_eq!(wanted(with(0, 200), 0, 1), 200);
        assert_eq!(wanted(with(0, 200), 0, 12), 200);
        assert_eq!(wanted(with(0, 450), 0, 12), 450);
        // The least counts more than the most.
        assert_eq!(wanted(with(700, 300), 0, 1), 700);
        assert_eq!(wanted(with(700, 300), 0, 12), 700);
        // A boost for I/O is bounded, too.
        assert_eq!(wanted(with(0, 200), 1024, 1), 200);
        assert_eq!(wanted(with(0, 200), 1024, 12), 200);
        assert_eq!(wanted(with(500, 1024), 128, 1), 500);
        // A real-time task whose clamps say how much it needs does not ask for all.
        let modest = Utilisation {
            rt_runnable: true,
            ..with(300, 1024)
        };
        assert_eq!(wanted(modest, 0, 1), 400);
        assert_eq!(wanted(modest, 0, 12), 500);
        // Up to 6.7 what deadline tasks reserved comes on top of the clamp.
        let reserved = Utilisation {
            deadline_bandwidth: 205,
            ..with(0, 200)
        };
        assert_eq!(wanted(reserved, 0, 1), 405);
        assert_eq!(wanted(reserved, 0, 12), 205);
    }
}
