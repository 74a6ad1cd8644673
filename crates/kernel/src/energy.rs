//! The energy model of a machine: what a performance domain costs at a utilisation
//! (`em_cpu_energy`), whether placement goes by it (`sched_is_eas_possible`), and when it gives up
//! because a CPU is overutilized (`overutilized`).
//!
//! A performance domain is the CPUs of one frequency policy with its table of frequencies and of
//! the power that one executing CPU draws at each. Energy is compared as a cost: the power per unit
//! of performance, times the utilisation.
//!
//! Worked example (6.12): CPUs 0–3 of capacity 446 with states of 500 MHz at 50 mW and 1000 MHz at
//! 200 mW. Their performance is 223 and 446, their cost 10 · 50,000 / 223 = 2242 and 10 · 200,000 /
//! 446 = 4484. The most used CPU has a utilisation of 160, with the margin 200: the first state
//! will do. All four are used to 300 together: the domain costs 2242 · 300 = 672,600.

use crate::cpufreq::schedutil::Wanted;
use crate::cpufreq::{FrequencyDriver, FrequencyGovernor, OperatingPoint};
use crate::cpuset::CpuSet;
use crate::ids::Cpu;
use crate::kernel::Kernel;
use crate::rules::{Rules, rules};
use crate::topology::Topology;
use crate::uclamp::{self, Fit};

/// Most that performance domains times CPUs and states may be up to 6.6 (`EM_MAX_COMPLEXITY`).
const MOST_COMPLEX: usize = 2048;
const CAPACITY: u64 = 1024;

rules! {
    /// Rules of placement by energy of one kernel.
    pub struct EnergyRules of ();

    /// The kernel knows energy models (5.0; here from 5.10 on, the oldest tree that was read).
    pub(crate) known: bool = false,
    /// The administrator has not switched it off (`sched_energy_aware`).
    pub aware: bool = true,
    /// A CPU must save 6 % of all energy over the previous one (up to 5.19).
    pub(crate) margin: bool = true,
    /// Domains without a candidate do not count as energy that is saved from (5.14).
    pub(crate) base_of_candidates: bool = false,
    /// States that cost more than a faster one are passed over (5.16).
    pub(crate) skips_inefficient: bool = false,
    /// The task's own utilisation counts beside that of its CPU, and not in it, as what the CPU is
    /// busy for (5.13).
    pub(crate) task_time_apart: bool = false,
    /// Power is known in µW (6.0), before in mW.
    pub(crate) microwatts: bool = false,
    /// The task is busy for as long wherever it goes (6.0); before, its time followed from the
    /// utilisation of each CPU.
    pub(crate) one_task_time: bool = false,
    /// Misfit tasks are pulled although no CPU is overutilized (6.3).
    pub(crate) misfit_moves: bool = false,
    /// Models may have any number of domains, CPUs and states (6.7).
    pub(crate) any_complexity: bool = false,
    /// States are chosen by performance, not by frequency (6.9).
    pub(crate) by_performance: bool = false,
    /// A group is overloaded only with an overutilized CPU (7.1).
    pub(crate) overloaded_if_overutilized: bool = false,
    /// The time that the task waited goes with it, like the time that it ran (7.2
    /// and stable).
    pub(crate) task_runnable_moves: bool = false,
}

/// A state of a performance domain (`struct em_perf_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    khz: u64,
    performance: u64,
    cost: u64,
    inefficient: bool,
}

/// CPUs that share a frequency, and its states, slow to fast (`struct em_perf_domain`).
#[derive(Clone, Debug)]
pub(crate) struct PerfDomain {
    pub(crate) cpus: CpuSet,
    states: Vec<State>,
    /// Capacity of each of its CPUs at the highest frequency.
    pub(crate) capacity: u64,
    /// Some of its CPUs are balanced: `isolcpus` leaves its CPUs in no performance domain.
    pub(crate) is_balanced: bool,
}

/// Why placement does not go by energy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Off {
    /// The kernel knows of no energy, or not yet.
    #[error(
        "placement by energy is simulated from 5.10 on, and not without the rule `energy-aware`"
    )]
    Unknown,
    /// The administrator switched it off.
    #[error("`sched_energy_aware` is 0")]
    SwitchedOff,
    /// All CPUs have one capacity.
    #[error("to the scheduler all CPUs that are balanced have the same capacity")]
    EqualCapacities,
    /// Cores have several threads.
    #[error("cores have several threads")]
    Threads,
    /// The frequency is not the scheduler's.
    #[error("the frequency governor is not schedutil")]
    NotSchedutil,
    /// There is no power for each state of each policy.
    #[error("not every clock has a power for each of its frequencies")]
    NoPower,
    /// The model is too large.
    #[error("there are too many clocks, CPUs and frequencies for a kernel before 6.7")]
    TooComplex,
}

/// The energy model of a machine and what follows from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Energy {
    /// One for each frequency policy with a table, in their order; without states where that has no
    /// power.
    pub(crate) domains: Vec<PerfDomain>,
    /// Placement goes by energy (`sched_energy_enabled`).
    pub(crate) on: bool,
    /// A CPU is overutilized (`rd->overutilized`).
    pub(crate) overutilized: bool,
}

impl PerfDomain {
    fn new(cpus: CpuSet, capacity: u64, table: &[OperatingPoint], rules: &EnergyRules) -> Self {
        let most_khz = table.last().map_or(1, |point| point.khz);
        let mut states: Vec<State> = table
            .iter()
            .map(|&OperatingPoint { khz, uw }| {
                let uw = if rules.microwatts {
                    uw
                } else {
                    uw / 1000 * 1000
                };
                let performance = capacity * khz / most_khz;
                let cost = match rules.by_performance {
                    true => 10 * uw / performance.max(1),
                    false => most_khz * uw / khz,
                };
                State {
                    khz,
                    performance,
                    cost,
                    inefficient: false,
                }
            })
            .collect();
        let mut cheapest = u64::MAX;
        for state in states.iter_mut().rev() {
            state.inefficient = state.cost >= cheapest;
            cheapest = cheapest.min(state.cost);
        }
        Self {
            cpus,
            states,
            capacity,
            is_balanced: true,
        }
    }

    /// Cost of the domain while its most used CPU asks for `most` and all are used to `busy`
    /// together (`em_cpu_energy`). Comparable with that of other domains.
    pub(crate) fn energy(&self, most: Wanted, busy: u64, rules: &Rules) -> u64 {
        let Some(fastest) = self.states.last() else {
            return 0;
        };
        let performance = most.with_margin().min(self.capacity);
        let khz = most.khz(fastest.khz, self.capacity, &rules.frequency);
        let khz = khz.min(fastest.khz);
        let rules = &rules.energy;
        let will_do = |state: &&State| {
            let fast_enough = match rules.by_performance {
                true => state.performance >= performance,
                false => state.khz >= khz,
            };
            fast_enough && !(state.inefficient && rules.skips_inefficient)
        };
        let state = self.states.iter().find(will_do).unwrap_or(fastest);
        match rules.by_performance {
            true => state.cost * busy,
            false => state.cost * busy / self.capacity,
        }
    }
}

impl Energy {
    /// The row of a policy's table that gives what is wanted of a CPU of some capacity
    /// (`get_next_freq`, `CPUFREQ_RELATION_LE`).
    pub(crate) fn wanted_state(
        &self,
        policy: usize,
        table: &[OperatingPoint],
        (wanted, capacity): (Wanted, u64),
        rules: &Rules,
    ) -> u32 {
        let fastest = table.len().saturating_sub(1);
        let most_khz = table.last().map_or(0, |point| point.khz);
        let khz = wanted.khz(most_khz, capacity, &rules.frequency);
        let states = self
            .domains
            .get(policy)
            .map_or(&[][..], |domain| &domain.states);
        let passed_over = |row: usize| {
            let state = states.get(row);
            rules.energy.skips_inefficient && state.is_some_and(|state| state.inefficient)
        };
        let will_do = |&row: &usize| table[row].khz >= khz && !passed_over(row);
        (0..table.len()).find(will_do).unwrap_or(fastest) as u32
    }
}

/// Whether placement goes by energy on a machine, by its driver; the reason where it does not.
///
/// # Errors
/// The first condition that does not hold.
pub fn is_possible(
    rules: &Rules,
    topology: &Topology,
    driver: Option<&FrequencyDriver>,
) -> Result<(), Off> {
    let capacity = |row: usize| topology.capacities.get(row).copied().unwrap_or(1024);
    let cpus = topology.cpus();
    let balanced = topology.housekeeping();
    let mut balanced = balanced.iter().map(|cpu| capacity(cpu.index()));
    let first = balanced.next();
    let are_equal = balanced.all(|other| Some(other) == first);
    let shares_core = |row: usize| topology.siblings(Cpu::from(row)).len() > 1;
    let tables = driver.map_or(&[][..], |driver| &driver.tables);
    let policies =
        |driver: &FrequencyDriver| driver.policy_of.iter().max().map_or(0, |most| most + 1);
    let states: usize = tables.iter().map(Vec::len).sum();
    // Less than the unit of the kernel is nothing to it.
    let least_uw = if rules.energy.microwatts { 1 } else { 1000 };
    match driver {
        _ if !rules.energy.known => Err(Off::Unknown),
        _ if !rules.energy.aware => Err(Off::SwitchedOff),
        _ if !rules.balance.unequal_capacities || are_equal => Err(Off::EqualCapacities),
        _ if (0..cpus).any(shares_core) => Err(Off::Threads),
        Some(driver) if driver.governor != FrequencyGovernor::Schedutil => Err(Off::NotSchedutil),
        None => Err(Off::NotSchedutil),
        Some(driver)
            if tables.len() != policies(driver) as usize
                || tables.iter().flatten().any(|point| point.uw < least_uw) =>
        {
            Err(Off::NoPower)
        }
        Some(_)
            if !rules.energy.any_complexity && tables.len() * (states + cpus) > MOST_COMPLEX =>
        {
            Err(Off::TooComplex)
        }
        Some(_) => Ok(()),
    }
}

impl Kernel {
    /// Builds the performance domains of the machine, if placement is to go by energy
    /// (`build_perf_domains`).
    pub(crate) fn build_perf_domains(&mut self) {
        let driver = self.cpufreq.driver();
        let on = is_possible(&self.rules, &self.topology, driver).is_ok();
        let balanced = self.topology.housekeeping();
        let domain = |(driver, policy): (&FrequencyDriver, usize)| {
            let of_policy = |&row: &usize| driver.policy_of[row] as usize == policy;
            let cpus: CpuSet = (0..self.cpus()).filter(of_policy).map(Cpu::from).collect();
            let capacity = cpus.lowest().map_or(0, |cpu| self.capacity_orig_of(cpu));
            let table = &driver.tables[policy];
            let has_power = table.iter().all(|point| point.uw > 0);
            let table = if has_power { &table[..] } else { &[] };
            PerfDomain {
                is_balanced: !cpus.and(&balanced).is_empty(),
                ..PerfDomain::new(cpus, capacity, table, &self.rules.energy)
            }
        };
        let domains = driver.map_or_else(Vec::new, |driver| {
            let policies = 0..driver.tables.len();
            policies.map(|policy| domain((driver, policy))).collect()
        });
        self.energy = Energy {
            domains,
            on,
            overutilized: self.energy.overutilized && on,
        };
    }

    /// Whether the fair tasks of a CPU need more than it has (`cpu_overutilized`).
    #[inline]
    pub(crate) fn cpu_overutilized(&self, cpu: Cpu) -> bool {
        let clamps = self
            .clamps_of_cpu(cpu)
            .unwrap_or(uclamp::NONE.map(u64::from));
        self.energy.on && self.util_fits_cpu(self.cpu_util(cpu), clamps, cpu) == Fit::No
    }

    /// Notes that a CPU is overutilized (`check_update_overutilized_status`). An isolated one is in
    /// a root domain of its own.
    #[inline(always)]
    pub(crate) fn check_update_overutilized_status(&mut self, cpu: Cpu) {
        if self.energy.on && !self.energy.overutilized {
            let is_balanced = !self.topology.isolated.contains(cpu);
            self.energy.overutilized = is_balanced && self.cpu_overutilized(cpu);
        }
    }

    /// Whether tasks stay where energy put them: no CPU is overutilized.
    #[inline(always)]
    pub(crate) fn goes_by_energy(&self) -> bool {
        self.energy.on && !self.energy.overutilized
    }
}

/// Scale of a frequency for load tracking (`arch_set_freq_scale`).
pub(crate) fn frequency_scale(khz: u64, most_khz: u64) -> u64 {
    khz * CAPACITY / most_khz.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(version: &str) -> Rules {
        let choice = crate::rules::KernelChoice::released(version.parse().unwrap(), 4);
        Rules::resolve(&choice).unwrap()
    }

    fn domain(table: &[(u64, u64)], rules: &Rules) -> PerfDomain {
        let point = |&(khz, uw): &(u64, u64)| OperatingPoint { khz, uw };
        let table: Vec<OperatingPoint> = table.iter().map(point).collect();
        PerfDomain::new(CpuSet::first(4), 446, &table, &rules.energy)
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let rules = rules("6.12");
        let little = domain(&[(500_000, 50_000), (1_000_000, 200_000)], &rules);
        assert_eq!(little.energy(Wanted::of(200, true), 300, &rules), 672_600);
        // 223 is the most that the first state does.
        assert_eq!(
            little.energy(Wanted::of(223, true), 300, &rules),
            2242 * 300
        );
        assert_eq!(
            little.energy(Wanted::of(224, true), 300, &rules),
            4484 * 300
        );
        // More than all of it is asked for.
        assert_eq!(
            little.energy(Wanted::of(900, true), 300, &rules),
            4484 * 300
        );
    }

    #[test]
    fn up_to_6_8_the_cost_is_that_of_the_highest_frequency() {
        // 1,000,000 kHz · 50,000 µW / 500,000 kHz = 100,000; · 300 / 446 = 67,264.
        let rules = rules("6.8");
        let little = domain(&[(500_000, 50_000), (1_000_000, 200_000)], &rules);
        assert_eq!(little.energy(Wanted::of(200, true), 300, &rules), 67_264);
        // 1,000,000 · 224 / 446 = 502,242 kHz.
        assert_eq!(
            little.energy(Wanted::of(224, true), 300, &rules),
            200_000 * 300 / 446
        );
    }

    #[test]
    fn power_is_known_in_milliwatts_up_to_5_19() {
        for (version, uw) in [("5.19", 50_000), ("6.0", 50_999)] {
            let rules = rules(version);
            let little = domain(&[(500_000, 50_999), (1_000_000, 200_000)], &rules);
            let found = little.energy(Wanted::of(200, true), 446, &rules);
            assert_eq!(found, 2 * uw, "{version}");
        }
    }

    #[test]
    fn up_to_5_13_the_margin_is_in_the_frequency() {
        // 1,250,000 kHz · 179 / 446 = 501,681 kHz; 1,000,000 · (179 + 44) / 446 = 500,000.
        let asked = Wanted::of(179, false);
        for (version, uw) in [("5.13", 200_000), ("5.14", 100_000)] {
            let rules = rules(version);
            let little = domain(&[(500_000, 50_000), (1_000_000, 200_000)], &rules);
            assert_eq!(little.energy(asked, 446, &rules), uw, "{version}");
        }
    }

    #[test]
    fn a_state_that_costs_more_than_a_faster_one_is_passed_over_from_5_16() {
        // Per 1000 MHz: 200, 150 and 160 mW.
        for (version, uw) in [("5.15", 200_000), ("5.16", 150_000)] {
            let rules = rules(version);
            let table = [(500_000, 100_000), (800_000, 120_000), (1_000_000, 160_000)];
            let little = domain(&table, &rules);
            let found = little.energy(Wanted::of(100, true), 446, &rules);
            assert_eq!(found, uw, "{version}");
        }
    }
}
