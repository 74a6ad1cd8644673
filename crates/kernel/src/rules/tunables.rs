//! Numbers an administrator can set, by their names in debugfs or sysctl.
//!
//! The tunables of the fair class were sysctls with the prefix `sched_` until 5.12 and lie in
//! `/sys/kernel/debug/sched` since; both spellings mean the same. A value written is the value in
//! force, whatever the number of CPUs. Worked example: 8 CPUs, `base_slice_ns = 1400000`: requests
//! are 1.4 ms long, and the normalised slice, which later follows CPU hotplug, is 0.35 ms.

use super::{CgroupMode, DOMAIN_TUNABLES, FairClass, Rules, Version};
use crate::uclamp;

const SECOND_NS: i64 = 1_000_000_000;

/// A number an administrator can set.
#[derive(Debug)]
pub struct Tunable {
    /// Name in debugfs, or of the sysctl where it still is one.
    pub name: &'static str,
    /// Name of the sysctl.
    pub sysctl: &'static str,
    /// First release that has it.
    pub since: Version,
    /// Last release that has it; `None` = it still exists.
    pub until: Option<Version>,
    /// Smallest value.
    pub least: i64,
    /// Largest value.
    pub most: i64,
    /// Effect of the tunable, in a line.
    pub description: &'static str,
    pub(super) apply: fn(&mut Rules, i64),
}

impl Tunable {
    /// Whether a version has it.
    pub fn exists(&self, version: Version) -> bool {
        let release = Version::new(version.major, version.minor);
        release >= self.since && self.until.is_none_or(|until| release <= until)
    }

    /// The fair class that reads it, where the other does not.
    pub(super) fn class(&self) -> Option<FairClass> {
        match self {
            _ if self.until == CFS_END => Some(FairClass::Cfs),
            _ if self.since == EEVDF_BEGIN => Some(FairClass::Eevdf),
            _ => None,
        }
    }

    /// Sets the value, which is in range.
    pub(super) fn set(&self, rules: &mut Rules, value: i64) {
        (self.apply)(rules, value);
    }

    /// The tunable called `name` in debugfs or as a sysctl, `kernel.` in front or not.
    pub fn named(name: &str) -> Option<&'static Tunable> {
        let name = name.strip_prefix("kernel.").unwrap_or(name);
        Tunable::all().find(|tunable| tunable.name == name || tunable.sysctl == name)
    }

    /// Every tunable, those of domains last.
    pub fn all() -> impl Iterator<Item = &'static Tunable> {
        TUNABLES.iter().chain(DOMAIN_TUNABLES)
    }
}

pub(super) const ALWAYS: Version = super::version::OLDEST;
const CFS_END: Option<Version> = Some(Version::new(6, 5));
const EEVDF_BEGIN: Version = Version::new(6, 6);
const CACHE_AWARE: Version = Version::new(7, 2);
/// Files of debugfs that hold an unsigned number of 32 bits (`debugfs_create_u32`).
const U32_MOST: i64 = u32::MAX as i64;
/// Three times as much still is a number of 32 bits, in which the kernel multiplies.
const OVERAGGR_MOST: i64 = U32_MOST / 3;

/// Every tunable of any version that is not one of domains.
pub static TUNABLES: &[Tunable] = &[
    Tunable {
        name: "base_slice_ns",
        sysctl: "sched_base_slice_ns",
        since: EEVDF_BEGIN,
        until: None,
        least: 100_000,
        most: SECOND_NS,
        description: "Length of an EEVDF request.",
        apply: |rules, value| {
            rules.base_slice_ns = value as u64;
            rules.normalized_base_slice_ns = value as u64 / rules.scaling_factor;
        },
    },
    Tunable {
        name: "cgroup_mode",
        sysctl: "sched_cgroup_mode",
        since: Version::new(7, 3),
        until: None,
        least: 0,
        most: 4,
        description: "Weight of groups: 0 up, 1 smp, 2 concur, 3 max, 4 tasks.",
        apply: |rules, value| {
            rules.cgroup_mode = match value {
                0 => CgroupMode::Up,
                1 => CgroupMode::Smp,
                3 => CgroupMode::Max,
                4 => CgroupMode::Tasks,
                _ => CgroupMode::Concur,
            };
        },
    },
    Tunable {
        name: "latency_ns",
        sysctl: "sched_latency_ns",
        since: ALWAYS,
        until: CFS_END,
        least: 100_000,
        most: SECOND_NS,
        description: "Time in which every task of a CPU should run once.",
        apply: |rules, value| rules.latency_ns = value as u64,
    },
    Tunable {
        name: "min_granularity_ns",
        sysctl: "sched_min_granularity_ns",
        since: ALWAYS,
        until: CFS_END,
        least: 100_000,
        most: SECOND_NS,
        description: "Shortest slice.",
        apply: |rules, value| rules.min_granularity_ns = value as u64,
    },
    Tunable {
        name: "idle_min_granularity_ns",
        sysctl: "sched_idle_min_granularity_ns",
        since: Version::new(5, 16),
        until: CFS_END,
        least: 100_000,
        most: SECOND_NS,
        description: "Shortest slice of a SCHED_IDLE task beside others.",
        apply: |rules, value| rules.idle_min_granularity_ns = value as u64,
    },
    Tunable {
        name: "wakeup_granularity_ns",
        sysctl: "sched_wakeup_granularity_ns",
        since: ALWAYS,
        until: CFS_END,
        least: 0,
        most: SECOND_NS,
        description: "Lead in virtual time a woken task needs to preempt.",
        apply: |rules, value| rules.wakeup_granularity_ns = value as u64,
    },
    Tunable {
        name: "sched_child_runs_first",
        sysctl: "sched_child_runs_first",
        since: ALWAYS,
        until: CFS_END,
        least: 0,
        most: 1,
        description: "A forked task runs before its parent.",
        apply: |rules, value| rules.child_runs_first = value != 0,
    },
    Tunable {
        name: "sched_energy_aware",
        sysctl: "sched_energy_aware",
        since: Version::new(5, 10),
        until: None,
        least: 0,
        most: 1,
        description: "Tasks are placed by energy where the machine has an energy model.",
        apply: |rules, value| rules.energy.aware = value != 0,
    },
    Tunable {
        name: "migration_cost_ns",
        sysctl: "sched_migration_cost_ns",
        since: ALWAYS,
        until: None,
        least: 0,
        most: u32::MAX as i64,
        description: "A task that ran less than this ago is cache hot.",
        apply: |rules, value| rules.migration_cost_ns = value as u64,
    },
    Tunable {
        name: "nr_migrate",
        sysctl: "sched_nr_migrate",
        since: ALWAYS,
        until: None,
        least: 0,
        most: u32::MAX as i64,
        description: "Most tasks moved by one balance pass.",
        apply: |rules, value| rules.nr_migrate = value as u32,
    },
    Tunable {
        name: "tunable_scaling",
        sysctl: "sched_tunable_scaling",
        since: ALWAYS,
        until: None,
        least: 0,
        most: 2,
        description: "How slices grow with CPUs: 0 not, 1 logarithmically, 2 linearly.",
        apply: |rules, value| rules.rescale(value),
    },
    Tunable {
        name: "sched_cfs_bandwidth_slice_us",
        sysctl: "sched_cfs_bandwidth_slice_us",
        since: ALWAYS,
        until: None,
        least: 1,
        most: i32::MAX as i64,
        description: "Runtime a CPU draws from a group's pool at a time.",
        apply: |rules, value| rules.bandwidth_slice_ns = value as u64 * 1000,
    },
    Tunable {
        name: "sched_rt_period_us",
        sysctl: "sched_rt_period_us",
        since: ALWAYS,
        until: None,
        least: 1,
        most: i32::MAX as i64,
        description: "Period of real-time throttling.",
        apply: |rules, value| rules.rt_period_ns = value as u64 * 1000,
    },
    Tunable {
        name: "sched_rt_runtime_us",
        sysctl: "sched_rt_runtime_us",
        since: ALWAYS,
        until: None,
        least: -1,
        most: i32::MAX as i64,
        description: "Real-time runtime of a CPU per period, and what deadline tasks may reserve; -1 = unlimited.",
        apply: |rules, value| rules.rt_runtime_ns = u64::try_from(value).ok().map(|us| us * 1000),
    },
    Tunable {
        name: "fair_server_runtime_ns",
        sysctl: "fair_server_runtime_ns",
        since: Version::new(6, 12),
        until: None,
        least: 0,
        most: (1 << 22) * 1000,
        description: "Runtime of the fair servers in each period (debugfs: fair_server/cpu*/runtime); 0 = none.",
        apply: |rules, value| rules.fair_server_runtime_ns = value as u64,
    },
    Tunable {
        name: "fair_server_period_ns",
        sysctl: "fair_server_period_ns",
        since: Version::new(6, 12),
        until: None,
        least: 100_000,
        most: (1 << 22) * 1000,
        description: "Period of the fair servers (debugfs: fair_server/cpu*/period).",
        apply: |rules, value| rules.fair_server_period_ns = value as u64,
    },
    Tunable {
        name: "llc_balancing_enabled",
        sysctl: "llc_balancing_enabled",
        since: CACHE_AWARE,
        until: None,
        least: 0,
        most: 1,
        description: "Whether the threads of a process are drawn to one cache (debugfs: llc_balancing/enabled).",
        apply: |rules, value| rules.cache.enabled = value != 0,
    },
    Tunable {
        name: "llc_balancing_aggr_tolerance",
        sysctl: "llc_balancing_aggr_tolerance",
        since: CACHE_AWARE,
        until: None,
        least: 0,
        most: U32_MOST,
        description: "Running threads that a cache may be asked to hold, in times of its CPUs; from 100 on any number (debugfs: llc_balancing/aggr_tolerance).",
        apply: |rules, value| rules.cache.aggr_tolerance = value as u32,
    },
    Tunable {
        name: "llc_balancing_epoch_period",
        sysctl: "llc_balancing_epoch_period",
        since: CACHE_AWARE,
        until: None,
        least: 0,
        most: U32_MOST,
        description: "Jiffies after which what ran so far counts half, and a process may look again (debugfs: llc_balancing/epoch_period).",
        apply: |rules, value| rules.cache.epoch_period = value as u32,
    },
    Tunable {
        name: "llc_balancing_epoch_affinity_timeout",
        sysctl: "llc_balancing_epoch_affinity_timeout",
        since: CACHE_AWARE,
        until: None,
        least: 0,
        most: U32_MOST,
        description: "Such periods without a look after which a process prefers no cache (debugfs: llc_balancing/epoch_affinity_timeout).",
        apply: |rules, value| rules.cache.epoch_affinity_timeout = value as u32,
    },
    Tunable {
        name: "llc_balancing_overaggr_pct",
        sysctl: "llc_balancing_overaggr_pct",
        since: CACHE_AWARE,
        until: None,
        least: 0,
        most: OVERAGGR_MOST,
        description: "Utilisation up to which a preferred cache is filled, percent; half as much again without SMT (debugfs: llc_balancing/overaggr_pct).",
        apply: |rules, value| rules.cache.overaggr_pct = value as u32,
    },
    Tunable {
        name: "llc_balancing_imb_pct",
        sysctl: "llc_balancing_imb_pct",
        since: CACHE_AWARE,
        until: None,
        least: 0,
        most: OVERAGGR_MOST,
        description: "How much more utilised than the other a preferred cache may be, percent (debugfs: llc_balancing/imb_pct).",
        apply: |rules, value| rules.cache.imb_pct = value as u32,
    },
    Tunable {
        name: "sched_util_clamp_min",
        sysctl: "sched_util_clamp_min",
        since: uclamp::OLDEST,
        until: None,
        least: 0,
        most: uclamp::LARGEST as i64,
        description: "Most that the least utilisation of a task may be, of 1024; needs `uclamp`.",
        apply: |rules, value| rules.clamps.most.min = value as u32,
    },
    Tunable {
        name: "sched_util_clamp_max",
        sysctl: "sched_util_clamp_max",
        since: uclamp::OLDEST,
        until: None,
        least: 0,
        most: uclamp::LARGEST as i64,
        description: "Most utilisation that a task may have where it is looked at, of 1024; needs `uclamp`.",
        apply: |rules, value| rules.clamps.most.max = value as u32,
    },
    Tunable {
        name: "sched_util_clamp_min_rt_default",
        sysctl: "sched_util_clamp_min_rt_default",
        since: uclamp::OLDEST,
        until: None,
        least: 0,
        most: uclamp::LARGEST as i64,
        description: "Least utilisation of real-time tasks that ask for none, of 1024; needs `uclamp`.",
        apply: |rules, value| rules.clamps.rt_min = value as u32,
    },
    Tunable {
        name: "sched_rr_timeslice_ms",
        sysctl: "sched_rr_timeslice_ms",
        since: ALWAYS,
        until: None,
        least: i32::MIN as i64,
        most: i32::MAX as i64,
        description: "Slice of SCHED_RR; 0 or less = 100 ms.",
        apply: |rules, value| {
            let ms = if value <= 0 { 100 } else { value as u64 };
            // msecs_to_jiffies rounds up.
            rules.rr_timeslice_ticks = (ms * u64::from(rules.hz)).div_ceil(1000) as u32;
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_mean_the_same() {
        for name in ["latency_ns", "sched_latency_ns", "kernel.sched_latency_ns"] {
            assert_eq!(Tunable::named(name).unwrap().name, "latency_ns");
        }
        assert!(Tunable::named("latency").is_none());
    }

    #[test]
    fn names_are_unique() {
        for tunable in Tunable::all() {
            assert!(std::ptr::eq(Tunable::named(tunable.name).unwrap(), tunable));
            assert!(std::ptr::eq(
                Tunable::named(tunable.sysctl).unwrap(),
                tunable
            ));
        }
    }
}
