//! Clocks of the CPUs: who shares one, who asks for what, the P-states between a lowest and a
//! highest multiple of a step, or a table of frequencies with the power that a CPU draws at each.
//!
//! Worked example: a clock of CPUs 0–3 has `mhz = [500, 1000]` and `cpu_uw = [50000, 200000]`. Work
//! is meant at 1000 MHz, the highest of its table, and takes twice as long at 500; the kernel's
//! energy model has a CPU of it draw 50 mW there and 200 mW at 1000.

use super::check;
use schedcast_base::cpu_list::{CpuList, Stride};
use schedcast_kernel::Ns;
use serde::Deserialize;

/// CPUs that share a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ClockDomain {
    /// The threads of a core.
    Core,
    /// The cores of a cluster.
    Cluster,
    /// All of a package.
    Package,
    /// The CPUs of each `table`.
    Table,
}

/// CPUs that share a clock with a table of frequencies.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClockTable {
    /// The CPUs, as the kernel writes lists: `"0-3"`. They have one capacity, which is that at the
    /// highest frequency.
    pub cpus: String,
    /// Frequencies, slow to fast.
    pub mhz: Vec<u32>,
    /// Power of one executing CPU at each of them: the kernel's energy model. Where all tables have
    /// it, capacities are unequal, cores have one thread and the governor is schedutil, tasks are
    /// placed by energy, from 5.10 on.
    #[serde(default)]
    pub cpu_uw: Vec<u64>,
}

/// Kernel driver that asks for frequencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// intel_pstate in active mode: governors powersave and performance.
    #[serde(rename = "intel_pstate")]
    IntelPstate,
    /// intel_pstate in passive mode.
    #[serde(rename = "intel_cpufreq")]
    IntelCpufreq,
    /// acpi-cpufreq.
    AcpiCpufreq,
    /// powernv-cpufreq.
    PowernvCpufreq,
    /// cpufreq-dt, which has a `table` for each clock.
    CpufreqDt,
}

/// Governor of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Governor {
    /// The highest frequency.
    Performance,
    /// The lowest; of intel_pstate, by load.
    Powersave,
    /// By the scheduler's utilisation.
    Schedutil,
    /// By load, sampled.
    Ondemand,
    /// Fixed at `userspace_mhz`.
    Userspace,
}

/// Hardware that manages P-states itself.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Hwp {
    /// Energy performance preference, 0 = performance … 128 = balanced … 255 = power.
    pub preference: u8,
    /// The kernel raises the minimum on I/O wakeups.
    pub dynamic_boost: bool,
    /// How often the hardware looks.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub interval_ns: Ns,
    /// Time constant with which the clock follows.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub response_ns: Ns,
    /// Busy share of a CPU up to which preference 128 leaves the lowest clock.
    #[serde(default)]
    pub lowest_clock_busy_percent: u32,
    /// Busy share of a CPU from which on preference 128 wants the full clock.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub full_clock_busy_percent: u32,
}

/// Clocks of the CPUs and who asks for what.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Frequency {
    /// Clock at which prices and work are meant. It, `min_mhz`, `base_mhz`, `turbo_mhz` and
    /// `step_mhz` are required without `table` and refused with it; there the nominal clock is the
    /// highest of each table.
    #[serde(default)]
    pub nominal_mhz: u32,
    /// Lowest P-state.
    #[serde(default)]
    pub min_mhz: u32,
    /// Highest guaranteed P-state, also of the time stamp counter.
    #[serde(default)]
    pub base_mhz: u32,
    /// Highest P-state.
    #[serde(default)]
    pub turbo_mhz: u32,
    /// Distance of P-states.
    #[serde(default)]
    pub step_mhz: u32,
    /// Highest clock with 1, 2, … awake cores in the package; the last holds for more. Empty = the
    /// highest P-state.
    #[serde(default)]
    pub turbo_limits_mhz: Vec<u32>,
    /// CPUs that share a clock; the highest request among them wins.
    pub domain: ClockDomain,
    /// Requests of sleeping CPUs count too.
    pub sleeping_cpus_vote: bool,
    /// From a request to the new clock.
    pub transition_ns: Ns,
    /// Transition latency the driver announces; 0 = unknown.
    pub announced_latency_ns: Ns,
    /// Time between decisions the driver wants.
    pub transition_delay_ns: Option<Ns>,
    /// CPUs of a clock domain are one cpufreq policy; otherwise each CPU is one.
    pub policy_per_domain: bool,
    /// The CPUs count cycles (APERF, MPERF).
    pub aperf_mperf: bool,
    /// Driver.
    pub driver: Driver,
    /// Governor.
    pub governor: Governor,
    /// Clock for the governor `userspace`.
    pub userspace_mhz: Option<u32>,
    /// Present when intel_pstate uses HWP.
    pub hwp: Option<Hwp>,
    /// Clocks with tables of frequencies, for `domain = "table"`: each CPU is in one, and the
    /// tables are in the order of their first CPUs.
    #[serde(default)]
    pub table: Vec<ClockTable>,
}

impl Frequency {
    /// Row of the table of a CPU.
    pub(crate) fn table_of(&self, cpu: usize) -> usize {
        let has = |table: &ClockTable| {
            table
                .members()
                .is_ok_and(|cpus| cpus.contains(&(cpu as u32)))
        };
        self.table.iter().position(has).unwrap_or(0)
    }

    /// `capacity` is that of each CPU.
    pub(in crate::machine) fn check(&self, capacity: &[u32]) -> Result<(), String> {
        if self.domain != ClockDomain::Table && self.driver != Driver::CpufreqDt {
            check(self.table.is_empty(), || {
                "frequency.table needs frequency.domain = \"table\"".to_owned()
            })?;
            return self.check_grid();
        }
        check(
            self.domain == ClockDomain::Table && self.driver == Driver::CpufreqDt,
            || {
                "frequency.domain = \"table\" and frequency.driver = \"cpufreq-dt\" need each other"
                    .to_owned()
            },
        )?;
        let grid = [
            ("nominal_mhz", self.nominal_mhz),
            ("min_mhz", self.min_mhz),
            ("base_mhz", self.base_mhz),
            ("turbo_mhz", self.turbo_mhz),
            ("step_mhz", self.step_mhz),
        ];
        if let Some((key, _)) = grid.iter().find(|(_, mhz)| *mhz != 0) {
            return Err(format!(
                "frequency.{key} and frequency.table exclude each other"
            ));
        }
        let governor = matches!(
            self.governor,
            Governor::Schedutil | Governor::Performance | Governor::Powersave
        );
        check(governor, || {
            "frequency.governor must be schedutil, performance or powersave with frequency.table"
                .to_owned()
        })?;
        check(self.hwp.is_none(), || {
            "frequency.hwp and frequency.table exclude each other".to_owned()
        })?;
        check(
            self.policy_per_domain && !self.aperf_mperf && self.turbo_limits_mhz.is_empty(),
            || {
                "frequency.table needs policy_per_domain = true, aperf_mperf = false and no \
                 turbo_limits_mhz"
                    .to_owned()
            },
        )?;
        self.check_tables(capacity)
    }

    fn check_tables(&self, capacity: &[u32]) -> Result<(), String> {
        let mut firsts = Vec::new();
        let mut seen = vec![false; capacity.len()];
        for (row, table) in self.table.iter().enumerate() {
            let name = format!("frequency.table {row}");
            let cpus = table
                .members()
                .map_err(|why| format!("{name}: cpus: {why}"))?;
            for &cpu in &cpus {
                let known = seen
                    .get_mut(cpu as usize)
                    .ok_or_else(|| format!("{name}: CPU {cpu} of {} CPUs", capacity.len()))?;
                check(!std::mem::replace(known, true), || {
                    format!("{name}: CPU {cpu} is in two tables")
                })?;
            }
            let of = |cpu: &u32| capacity[*cpu as usize];
            check(cpus.iter().all(|cpu| of(cpu) == of(&cpus[0])), || {
                format!("{name}: its CPUs must have one capacity")
            })?;
            firsts.push(cpus[0]);
            let ascends = table.mhz.is_sorted_by(|a, b| a < b);
            check(
                ascends && table.mhz.first().is_some_and(|&mhz| mhz > 0),
                || format!("{name}: mhz must have ascending numbers above 0"),
            )?;
            let powers = &table.cpu_uw;
            check(powers.is_empty() || powers.len() == table.mhz.len(), || {
                format!(
                    "{name}: cpu_uw has {} numbers, expected one for each of the {} mhz",
                    powers.len(),
                    table.mhz.len()
                )
            })?;
            check(powers.iter().all(|&uw| uw > 0), || {
                format!("{name}: cpu_uw must be above 0")
            })?;
        }
        check(firsts.is_sorted(), || {
            "frequency.table: the tables must be in the order of their first CPUs".to_owned()
        })?;
        match seen.iter().position(|seen| !seen) {
            Some(_) if self.table.is_empty() => {
                Err("frequency.domain = \"table\" needs [[frequency.table]]".to_owned())
            }
            Some(cpu) => Err(format!("frequency.table: CPU {cpu} is in none")),
            None => Ok(()),
        }
    }

    fn check_grid(&self) -> Result<(), String> {
        let clocks = [self.min_mhz, self.base_mhz, self.turbo_mhz];
        check(
            self.step_mhz > 0 && self.nominal_mhz > 0 && self.min_mhz > 0,
            || "frequency.step_mhz, nominal_mhz and min_mhz must be above 0".to_owned(),
        )?;
        check(clocks.is_sorted(), || {
            "frequency.min_mhz, base_mhz and turbo_mhz must ascend".to_owned()
        })?;
        let on_grid = |mhz: &u32| mhz.is_multiple_of(self.step_mhz);
        check(clocks.iter().all(on_grid), || {
            format!(
                "frequency.min_mhz, base_mhz and turbo_mhz must be multiples of step_mhz = {}",
                self.step_mhz
            )
        })?;
        check(self.turbo_limits_mhz.iter().all(|&mhz| mhz > 0), || {
            "frequency.turbo_limits_mhz must be above 0".to_owned()
        })?;
        self.check_governor()
    }

    fn check_governor(&self) -> Result<(), String> {
        let active = self.driver == Driver::IntelPstate;
        let intel = matches!(self.governor, Governor::Performance | Governor::Powersave);
        check(!active || intel, || {
            "frequency.driver intel_pstate has the governors performance and powersave only; \
             its passive mode intel_cpufreq has the others"
                .to_owned()
        })?;
        check(self.hwp.is_none() || active, || {
            "frequency.hwp needs frequency.driver = \"intel_pstate\"".to_owned()
        })?;
        let userspace = self.governor == Governor::Userspace;
        check(!userspace || self.userspace_mhz.is_some(), || {
            "frequency.governor userspace needs frequency.userspace_mhz".to_owned()
        })?;
        let Some(hwp) = &self.hwp else { return Ok(()) };
        check(
            hwp.lowest_clock_busy_percent < hwp.full_clock_busy_percent,
            || {
                "frequency.hwp.lowest_clock_busy_percent must be below full_clock_busy_percent"
                    .to_owned()
            },
        )?;
        check(
            hwp.interval_ns > 0 && hwp.full_clock_busy_percent > 0 && hwp.response_ns > 0,
            || {
                "frequency.hwp.interval_ns, response_ns and full_clock_busy_percent must be above 0"
                    .to_owned()
            },
        )
    }
}

impl ClockTable {
    /// Its CPUs, ascending.
    fn members(&self) -> Result<Vec<u32>, String> {
        let most = schedcast_kernel::cpuset::MAX_CPUS as u32;
        let list = CpuList::parse(&self.cpus, most, Stride::UsedOfGroup)?;
        check(!list.cpus().is_empty(), || "no CPU".to_owned())?;
        Ok(list.cpus().to_vec())
    }
}
