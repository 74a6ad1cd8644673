//! CPU frequency: what the kernel asks of the hardware, and when.
//!
//! The scheduler tells cpufreq whenever the utilisation of a CPU changes (`cpufreq_update_util`);
//! the driver in charge decides whether enough time has passed, looks at its counters or at the
//! utilisation, and asks for another P-state. The effect of the request on the hardware (clock
//! domains, transition times, turbo limits) is part of the machine.
//!
//! | room | who decides |
//! |---|---|
//! | `pid` | intel_pstate up to 4.13: a PID controller over the busy fraction |
//! | `load` | intel_pstate from 4.14: proportional to the load |
//! | `hwp` | the hardware itself within limits the kernel sets |
//! | `schedutil`, `ondemand` | the governors of that name |
//! | `policy` | the state of all CPUs, and [`crate::Kernel::cpufreq_update_util`] |
//!
//! Worked example, schedutil on a CPU of 800 to 4000 MHz, utilisation 512 of 1024: the frequency
//! asked for is 1.25 · 4000 · 512 / 1024 = 2500 MHz.

pub mod hwp;
pub mod load;
pub mod ondemand;
pub mod pid;
pub mod policy;
pub mod rules;
pub mod schedutil;

use crate::ids::Ns;
pub(crate) use policy::Cpufreq;
pub(crate) use rules::{FrequencyRules, IowaitBoost, RateLimit};

/// Cycle counters of a CPU since time 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Cycles executed, at the frequency of the moment (APERF).
    pub aperf: u64,
    /// Cycles the CPU would have executed at base frequency in the time it executed (MPERF).
    pub mperf: u64,
    /// Cycles at base frequency since time 0 (TSC).
    pub tsc: u64,
}

impl Counters {
    /// Cycles executed, the same at base frequency, and those of the TSC.
    pub const fn new(aperf: u64, mperf: u64, tsc: u64) -> Self {
        Self { aperf, mperf, tsc }
    }

    /// Counts since `before`, with wrap-around.
    pub(crate) fn since(self, before: Counters) -> Counters {
        Counters::new(
            self.aperf.wrapping_sub(before.aperf),
            self.mperf.wrapping_sub(before.mperf),
            self.tsc.wrapping_sub(before.tsc),
        )
    }
}

/// Request to hardware that manages its own P-states (`MSR_HWP_REQUEST`), in P-states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HwpRequest {
    /// Lowest P-state.
    pub min: u32,
    /// Highest P-state.
    pub max: u32,
    /// Energy performance preference: 0 = performance … 255 = power.
    pub preference: u8,
}

/// P-states of a CPU: multiples of a step of frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PStates {
    /// Lowest.
    pub min: u32,
    /// Highest that is guaranteed (`max_pstate_physical`); the TSC's frequency.
    pub base: u32,
    /// Highest with turbo.
    pub turbo: u32,
    /// Frequency of P-state 1, kHz.
    pub step_khz: u32,
}

impl PStates {
    /// Lowest, guaranteed and highest with turbo, and the frequency of P-state 1, kHz.
    pub const fn new(min: u32, base: u32, turbo: u32, step_khz: u32) -> Self {
        Self {
            min,
            base,
            turbo,
            step_khz,
        }
    }

    /// The P-state that gives at least this frequency (`CPUFREQ_RELATION_L`), within the limits.
    pub(crate) fn at_least_khz(&self, khz: u64) -> u32 {
        let state = khz.div_ceil(u64::from(self.step_khz.max(1)));
        u32::try_from(state)
            .unwrap_or(u32::MAX)
            .clamp(self.min, self.turbo)
    }

    /// The P-state closest to this frequency (`CPUFREQ_RELATION_C`), within the limits.
    pub(crate) fn closest_khz(&self, khz: u64) -> u32 {
        let step = u64::from(self.step_khz.max(1));
        u32::try_from((khz + step / 2) / step)
            .unwrap_or(u32::MAX)
            .clamp(self.min, self.turbo)
    }

    /// Frequency of a P-state, kHz.
    pub(crate) fn khz(&self, state: u32) -> u64 {
        u64::from(state) * u64::from(self.step_khz)
    }
}

/// Governor that decides about frequency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FrequencyGovernor {
    /// intel_pstate, active mode, policy "powersave", without HWP: PID or load-based by version.
    IntelPstate,
    /// The same with HWP; the preference is 0 to 255.
    Hwp {
        /// Energy performance preference.
        preference: u8,
        /// Policy "performance": the minimum is the maximum.
        performance: bool,
        /// Raise the minimum on I/O wakeups (`hwp_dynamic_boost`).
        dynamic_boost: bool,
    },
    /// schedutil.
    Schedutil,
    /// ondemand.
    Ondemand,
    /// The highest P-state, always.
    #[default]
    Performance,
    /// The lowest P-state, always.
    Powersave,
    /// A fixed frequency, kHz.
    Userspace(u32),
}

/// A frequency of a clock that has a table of them (`struct cpufreq_frequency_table`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperatingPoint {
    /// The frequency, kHz.
    pub khz: u64,
    /// Power of one CPU that executes at it, µW; 0 = unknown.
    pub uw: u64,
}

/// Facts that the driver knows about the hardware.
#[derive(Clone, Debug, Default)]
pub struct FrequencyDriver {
    /// P-states.
    pub pstates: PStates,
    /// Governor in charge.
    pub governor: FrequencyGovernor,
    /// Policy of each CPU: CPUs with the same number are decided about together.
    pub policy_of: Vec<u32>,
    /// Frequencies of each policy, slow to fast, in the order of their numbers in `policy_of`,
    /// which then are 0, 1, …: a P-state is a row. Empty = P-states are those of `pstates`.
    pub tables: Vec<Vec<OperatingPoint>>,
    /// Announced transition latency, ns; 0 = unknown.
    pub transition_latency_ns: Ns,
    /// Time between two decisions that the driver wants, ns (`transition_delay_us`).
    pub transition_delay_ns: Option<Ns>,
    /// The CPUs have APERF and MPERF, so that the scheduler can be frequency invariant.
    pub aperf_mperf: bool,
}
