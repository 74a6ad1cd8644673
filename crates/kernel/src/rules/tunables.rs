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
    pub(crate) fn exists(&self, version: Version) -> bool {
        let release = Version::new(version.major, version.minor);
        release >= self.since && self.until.is_none_or(|until| release <= until)
    }

    /// The fair class that reads it, where the other does not.
    pub(super) fn class(&self) -> Option<FairClass> {
        match self {
            _ if self.until == Some(CFS_END) => Some(FairClass::Cfs),
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
    pub(crate) fn all() -> impl Iterator<Item = &'static Tunable> {
        TUNABLES.iter().chain(DOMAIN_TUNABLES)
    }
}

pub(super) const ALWAYS: Version = super::version::OLDEST;
const CFS_END: Version = Version::new(6, 5);
const EEVDF_BEGIN: Version = Version::new(6, 6);
const CLAMPS: Version = uclamp::OLDEST;
const CACHE_AWARE: Version = Version::new(7, 2);
/// Files of debugfs that hold an unsigned number of 32 bits (`debugfs_create_u32`).
const U32_MOST: i64 = u32::MAX as i64;
/// Three times as much still is a number of 32 bits, in which the kernel multiplies.
const OVERAGGR_MOST: i64 = U32_MOST / 3;

macro_rules! tunables {
    ($($name:literal $(or $sysctl:literal)? $(since $since:tt)? $(until $until:tt)?, $range:expr =>
        $description:literal, $apply:expr;)*) => {
        /// Every tunable of any version that is not one of domains.
        pub static TUNABLES: &[Tunable] = &[$(Tunable {
            name: $name,
            sysctl: tunables!(@sysctl $name $($sysctl)?),
            since: tunables!(@since $($since)?),
            until: tunables!(@until $($until)?),
            least: *$range.start(),
            most: *$range.end(),
            description: $description,
            apply: $apply,
        },)*];
    };
    (@sysctl $name:literal) => { $name };
    (@sysctl $name:literal $sysctl:literal) => { $sysctl };
    (@since) => { ALWAYS };
    (@since ($major:literal, $minor:literal)) => { Version::new($major, $minor) };
    (@since $since:ident) => { $since };
    (@until) => { None };
    (@until $until:ident) => { Some($until) };
}

tunables! {
    "base_slice_ns" or "sched_base_slice_ns" since EEVDF_BEGIN, (100_000..=SECOND_NS) =>
        "Length of an EEVDF request.",
        |rules, value| {
            rules.base_slice_ns = value as u64;
            rules.normalized_base_slice_ns = value as u64 / rules.scaling_factor;
        };
    "cgroup_mode" or "sched_cgroup_mode" since (7, 3), (0..=4) =>
        "Weight of groups: 0 up, 1 smp, 2 concur, 3 max, 4 tasks.",
        |rules, value| {
            rules.cgroup_mode = match value {
                0 => CgroupMode::Up,
                1 => CgroupMode::Smp,
                3 => CgroupMode::Max,
                4 => CgroupMode::Tasks,
                _ => CgroupMode::Concur,
            };
        };
    "latency_ns" or "sched_latency_ns" until CFS_END, (100_000..=SECOND_NS) =>
        "Time in which every task of a CPU should run once.",
        |rules, value| rules.latency_ns = value as u64;
    "min_granularity_ns" or "sched_min_granularity_ns" until CFS_END, (100_000..=SECOND_NS) =>
        "Shortest slice.",
        |rules, value| rules.min_granularity_ns = value as u64;
    "idle_min_granularity_ns" or "sched_idle_min_granularity_ns" since (5, 16) until CFS_END,
        (100_000..=SECOND_NS) =>
        "Shortest slice of a SCHED_IDLE task beside others.",
        |rules, value| rules.idle_min_granularity_ns = value as u64;
    "wakeup_granularity_ns" or "sched_wakeup_granularity_ns" until CFS_END, (0..=SECOND_NS) =>
        "Lead in virtual time a woken task needs to preempt.",
        |rules, value| rules.wakeup_granularity_ns = value as u64;
    "sched_child_runs_first" until CFS_END, (0..=1) =>
        "A forked task runs before its parent.",
        |rules, value| rules.child_runs_first = value != 0;
    "sched_energy_aware" since (5, 10), (0..=1) =>
        "Tasks are placed by energy where the machine has an energy model.",
        |rules, value| rules.energy.aware = value != 0;
    "migration_cost_ns" or "sched_migration_cost_ns", (0..=u32::MAX as i64) =>
        "A task that ran less than this ago is cache hot.",
        |rules, value| rules.migration_cost_ns = value as u64;
    "nr_migrate" or "sched_nr_migrate", (0..=u32::MAX as i64) =>
        "Most tasks moved by one balance pass.",
        |rules, value| rules.nr_migrate = value as u32;
    "tunable_scaling" or "sched_tunable_scaling", (0..=2) =>
        "How slices grow with CPUs: 0 not, 1 logarithmically, 2 linearly.",
        |rules, value| rules.rescale(value);
    "sched_cfs_bandwidth_slice_us", (1..=i32::MAX as i64) =>
        "Runtime a CPU draws from a group's pool at a time.",
        |rules, value| rules.bandwidth_slice_ns = value as u64 * 1000;
    "sched_rt_period_us", (1..=i32::MAX as i64) =>
        "Period of real-time throttling.",
        |rules, value| rules.rt_period_ns = value as u64 * 1000;
    "sched_rt_runtime_us", (-1..=i32::MAX as i64) =>
        "Real-time runtime of a CPU per period, and what deadline tasks may reserve; -1 = unlimited.",
        |rules, value| rules.rt_runtime_ns = u64::try_from(value).ok().map(|us| us * 1000);
    "fair_server_runtime_ns" since (6, 12), (0..=(1 << 22) * 1000) =>
        "Runtime of the fair servers in each period (debugfs: fair_server/cpu*/runtime); 0 = none.",
        |rules, value| rules.fair_server_runtime_ns = value as u64;
    "fair_server_period_ns" since (6, 12), (100_000..=(1 << 22) * 1000) =>
        "Period of the fair servers (debugfs: fair_server/cpu*/period).",
        |rules, value| rules.fair_server_period_ns = value as u64;
    "llc_balancing_enabled" since CACHE_AWARE, (0..=1) =>
        "Whether the threads of a process are drawn to one cache (debugfs: llc_balancing/enabled).",
        |rules, value| rules.cache.enabled = value != 0;
    "llc_balancing_aggr_tolerance" since CACHE_AWARE, (0..=U32_MOST) =>
        "Running threads that a cache may be asked to hold, in times of its CPUs; from 100 on any number (debugfs: llc_balancing/aggr_tolerance).",
        |rules, value| rules.cache.aggr_tolerance = value as u32;
    "llc_balancing_epoch_period" since CACHE_AWARE, (0..=U32_MOST) =>
        "Jiffies after which what ran so far counts half, and a process may look again (debugfs: llc_balancing/epoch_period).",
        |rules, value| rules.cache.epoch_period = value as u32;
    "llc_balancing_epoch_affinity_timeout" since CACHE_AWARE, (0..=U32_MOST) =>
        "Such periods without a look after which a process prefers no cache (debugfs: llc_balancing/epoch_affinity_timeout).",
        |rules, value| rules.cache.epoch_affinity_timeout = value as u32;
    "llc_balancing_overaggr_pct" since CACHE_AWARE, (0..=OVERAGGR_MOST) =>
        "Utilisation up to which a preferred cache is filled, percent; half as much again without SMT (debugfs: llc_balancing/overaggr_pct).",
        |rules, value| rules.cache.overaggr_pct = value as u32;
    "llc_balancing_imb_pct" since CACHE_AWARE, (0..=OVERAGGR_MOST) =>
        "How much more utilised than the other a preferred cache may be, percent (debugfs: llc_balancing/imb_pct).",
        |rules, value| rules.cache.imb_pct = value as u32;
    "sched_util_clamp_min" since CLAMPS, (0..=uclamp::LARGEST as i64) =>
        "Most that the least utilisation of a task may be, of 1024; needs `uclamp`.",
        |rules, value| rules.clamps.most.min = value as u32;
    "sched_util_clamp_max" since CLAMPS, (0..=uclamp::LARGEST as i64) =>
        "Most utilisation that a task may have where it is looked at, of 1024; needs `uclamp`.",
        |rules, value| rules.clamps.most.max = value as u32;
    "sched_util_clamp_min_rt_default" since CLAMPS, (0..=uclamp::LARGEST as i64) =>
        "Least utilisation of real-time tasks that ask for none, of 1024; needs `uclamp`.",
        |rules, value| rules.clamps.rt_min = value as u32;
    "sched_rr_timeslice_ms", (i32::MIN as i64..=i32::MAX as i64) =>
        "Slice of SCHED_RR; 0 or less = 100 ms.",
        |rules, value| {
            let ms = if value <= 0 { 100 } else { value as u64 };
            // msecs_to_jiffies rounds up.
            rules.rr_timeslice_ticks = (ms * u64::from(rules.hz)).div_ceil(1000) as u32;
        };
}

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
