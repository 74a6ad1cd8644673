//! Task groups (cpu cgroups and autogroups) and their bandwidth pools.

use crate::ids::{CfsRqId, Cpu, GroupId, Ns};
use crate::uclamp::Clamps;
use schedcast_base::limits::CpuLimits;

/// A CPU limit: `quota` of every `period`, plus up to `burst` of what earlier periods left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BandwidthLimit {
    /// CPU time per period; `None` = no limit.
    pub quota_ns: Option<Ns>,
    /// Length of a period.
    pub period_ns: Ns,
    /// Unused quota that may be carried over (5.14).
    pub burst_ns: Ns,
}

impl Default for BandwidthLimit {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl BandwidthLimit {
    /// A limit with a quota, in ms.
    pub const fn of_ms(quota_ms: u64, period_ms: u64, burst_ms: u64) -> Self {
        Self {
            quota_ns: Some(quota_ms * 1_000_000),
            period_ns: period_ms * 1_000_000,
            burst_ns: burst_ms * 1_000_000,
        }
    }

    /// No limit, 100 ms period: what a new group has.
    pub const UNLIMITED: BandwidthLimit = BandwidthLimit {
        quota_ns: None,
        period_ns: 100_000_000,
        burst_ns: 0,
    };
}

impl From<CpuLimits> for BandwidthLimit {
    fn from(limits: CpuLimits) -> Self {
        Self {
            quota_ns: limits.quota_us.map(|us| us.saturating_mul(1000)),
            period_ns: limits.period_us.saturating_mul(1000),
            burst_ns: limits.burst_us.saturating_mul(1000),
        }
    }
}

impl From<BandwidthLimit> for CpuLimits {
    fn from(limit: BandwidthLimit) -> Self {
        Self {
            quota_us: limit.quota_ns.map(|ns| ns / 1000),
            period_us: limit.period_ns / 1000,
            burst_us: limit.burst_ns / 1000,
        }
    }
}

/// Counters of `cpu.stat` (in nanoseconds, as v1 prints them).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BandwidthStat {
    /// Periods that elapsed while the group was active.
    pub nr_periods: u64,
    /// Periods at whose end a queue was throttled.
    pub nr_throttled: u64,
    /// Throttled time summed over CPUs.
    pub throttled_time_ns: Ns,
    /// Periods in which burst was used (5.16).
    pub nr_bursts: u64,
    /// Runtime used beyond quota (5.16).
    pub burst_time_ns: Ns,
}

/// `struct cfs_bandwidth`.
#[derive(Clone, Debug, Default)]
pub struct Bandwidth {
    /// The limit in force.
    pub limit: BandwidthLimit,
    /// Global pool.
    pub runtime_ns: Ns,
    /// Pool right after the last refill.
    pub(crate) runtime_snap_ns: Ns,
    /// Ratio in effect after the parents, 20-bit fixed point; `None` = infinite.
    pub(crate) hierarchical_quota: Option<u64>,
    /// Nothing was granted since the last period timer.
    pub idle: bool,
    /// The period timer is armed.
    pub period_active: bool,
    /// The slack timer is armed.
    pub slack_started: bool,
    /// A distribution is under way (4.19–5.7).
    pub(crate) distribute_running: bool,
    /// Next expiry of the period timer; kept while it is not armed.
    pub expires_ns: Ns,
    /// CPU on which the timer fires.
    pub(crate) timer_cpu: Cpu,
    /// ≤ 5.3: when the runtime handed out now expires.
    pub(crate) runtime_expires_ns: Ns,
    /// ≤ 5.3: number of the refill.
    pub(crate) expires_sequence: u32,
    /// Throttled queues, first to be served first.
    pub(crate) throttled: Vec<CfsRqId>,
    /// Counters.
    pub stat: BandwidthStat,
}

impl Bandwidth {
    /// Unlimited, with the period timer's first expiry at `phase_ns`.
    pub(crate) fn new(phase_ns: Ns) -> Self {
        Self {
            expires_ns: phase_ns,
            ..Self::default()
        }
    }
}

/// `struct task_group`.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Parent; `None` for the root group.
    pub(crate) parent: Option<GroupId>,
    /// Children, in order of creation.
    pub(crate) children: Vec<GroupId>,
    /// Scaled `cpu.shares`.
    pub shares: u64,
    /// `cpu.idle`.
    pub idle: bool,
    /// Σ of the queues' contributions.
    pub load_avg: u64,
    /// Σ of the queues' runnable averages, 1024 for each task that runs or waits all the time
    /// (7.3).
    pub(crate) runnable_avg: u64,
    /// CPUs that its tasks may use, as its cpuset says.
    pub(crate) nr_cpus: u32,
    /// Writes to `load_avg` so far (each needs the cache line exclusive).
    pub load_avg_writes: u64,
    /// CPU time its tasks used, children included, ns.
    pub usage_ns: Ns,
    /// `cpu.uclamp.min` and `cpu.uclamp.max` as they were written.
    pub(crate) clamps_asked: Clamps<u32>,
    /// The part of them that the groups above leave.
    pub(crate) clamps: Clamps<u32>,
    /// Bandwidth pool.
    pub bandwidth: Bandwidth,
}
