//! Setting quota, period and burst: what the kernel refuses, and in which order it looks.
//!
//! Worked example: burst is 40 ms and quota is to be lowered from 50 to 30 ms. At that moment burst
//! would exceed quota, so the write fails with EINVAL; burst has to be lowered first.

use schedcast_base::limits::{self, CpuLimits, LimitError};

use crate::group::BandwidthLimit;
use crate::ids::{Cpu, GroupId};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::ThrottleModel;

/// Which cgroup version's hierarchy rule applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hierarchy {
    /// A child must not have a larger ratio than its parent.
    V1,
    /// Never refused; the parent simply is the tighter limit.
    #[default]
    V2,
}

/// The limit in the units of its files; `burst_exists` says whether the kernel has the file for
/// burst.
fn in_us(limit: &BandwidthLimit, burst_exists: bool) -> CpuLimits {
    let limits = CpuLimits::from(*limit);
    CpuLimits {
        burst_us: limits.burst_us * u64::from(burst_exists),
        ..limits
    }
}

/// Checks 2 to 5 of `tg_set_cfs_bandwidth`, in the kernel's order.
fn validate(limit: &BandwidthLimit, burst_exists: bool) -> Result<(), LimitError> {
    limits::validate(&in_us(limit, burst_exists))
}

/// Quota over period in 20-bit fixed point (`to_ratio`); `None` = no limit.
fn quota_ratio(limit: &BandwidthLimit) -> Option<u64> {
    in_us(limit, false).ratio()
}

impl Kernel {
    /// Sets a group's limit (`tg_set_cfs_bandwidth`), executed on `cpu`.
    ///
    /// # Errors
    /// The kernel's own checks, in its order; nothing is changed then.
    pub fn group_set_bandwidth<P: Platform>(
        &mut self,
        p: &mut P,
        cpu: Cpu,
        group: GroupId,
        limit: BandwidthLimit,
        hierarchy: Hierarchy,
    ) -> Result<(), LimitError> {
        if group == GroupId::ROOT {
            return Err(LimitError::RootGroup);
        }
        validate(&limit, self.rules.burst).inspect_err(|_| reached(Mark::LimitRefused))?;
        self.check_hierarchy(group, &limit, hierarchy)
            .inspect_err(|_| reached(Mark::LimitAboveParent))?;
        reached(Mark::LimitChanged);
        self.here = cpu;
        self.groups[group].bandwidth.limit = limit;
        self.refill(group, p.now(cpu));
        if limit.quota_ns.is_some() {
            self.start_cfs_bandwidth(p, group);
        }
        let initial = if self.rules.throttle_model == ThrottleModel::Task {
            1
        } else {
            0
        };
        for cpu in (0..self.cpus()).map(Cpu::from) {
            let q = self.cfs_rq_of(group, cpu);
            let cfs_rq = &mut self.cfs_rqs[q];
            cfs_rq.runtime_enabled = limit.quota_ns.is_some();
            cfs_rq.runtime_remaining_ns = initial;
            if cfs_rq.throttled {
                self.unthrottle_cfs_rq(p, q);
            }
        }
        Ok(())
    }

    /// `__cfs_schedulable` for one changed group.
    fn check_hierarchy(
        &mut self,
        group: GroupId,
        limit: &BandwidthLimit,
        hierarchy: Hierarchy,
    ) -> Result<(), LimitError> {
        let parent = self.groups[group].parent;
        let inherited = parent.and_then(|parent| self.effective_ratio(parent));
        let own = quota_ratio(limit);
        if hierarchy == Hierarchy::V1 {
            if let (Some(ratio), Some(ceiling)) = (own, inherited)
                && ratio > ceiling
            {
                return Err(LimitError::AboveParent { ratio, ceiling });
            }
            let effective = own.or(inherited);
            let floor = self.largest_ratio_below(group);
            if let Some(ratio) = effective
                && floor > ratio
            {
                return Err(LimitError::BelowChild { ratio, floor });
            }
        }
        self.groups[group].bandwidth.hierarchical_quota = match (own, inherited) {
            (Some(own), Some(inherited)) => Some(own.min(inherited)),
            (own, inherited) => own.or(inherited),
        };
        Ok(())
    }

    fn effective_ratio(&self, group: GroupId) -> Option<u64> {
        let mut level = Some(group);
        let mut effective: Option<u64> = None;
        while let Some(group) = level {
            let group = &self.groups[group];
            if let Some(ratio) = quota_ratio(&group.bandwidth.limit) {
                effective = Some(effective.map_or(ratio, |other| other.min(ratio)));
            }
            level = group.parent;
        }
        effective
    }

    fn largest_ratio_below(&self, group: GroupId) -> u64 {
        self.groups[group]
            .children
            .iter()
            .map(|&child| {
                let own = quota_ratio(&self.groups[child].bandwidth.limit);
                own.unwrap_or_else(|| self.largest_ratio_below(child))
            })
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(quota_us: u64, period_us: u64, burst_us: u64) -> BandwidthLimit {
        CpuLimits::new(quota_us, period_us, burst_us).into()
    }

    #[test]
    fn nanoseconds_are_checked_as_the_microseconds_of_the_files() {
        assert_eq!(validate(&limit(1000, 1000, 0), true), Ok(()));
        assert_eq!(
            validate(&limit(999, 1000, 0), true),
            Err(LimitError::QuotaTooSmall(999))
        );
        let burst = limit(5000, 10_000, 5001);
        let above = LimitError::BurstAboveQuota {
            burst_us: 5001,
            quota_us: 5000,
        };
        assert_eq!(validate(&burst, true), Err(above));
        assert_eq!(validate(&burst, false), Ok(()), "before burst existed");
        let unlimited = BandwidthLimit {
            quota_ns: None,
            period_ns: 1_000_000,
            burst_ns: u64::MAX,
        };
        assert_eq!(validate(&unlimited, true), Ok(()));
    }

    #[test]
    fn ratio_has_20_bits() {
        assert_eq!(quota_ratio(&limit(50_000, 100_000, 0)), Some(1 << 19));
        assert_eq!(quota_ratio(&limit(100_000, 200_000, 0)), Some(1 << 19));
        assert!(quota_ratio(&limit(100_001, 200_000, 0)) > Some(1 << 19));
    }

    #[test]
    fn a_kernel_without_bursts_takes_the_largest_quota_whole() {
        let largest = limit(limits::QUOTA_MAX_US, 1_000_000, 1);
        assert_eq!(validate(&largest, false), Ok(()));
        let sum = LimitError::BurstSumTooLarge {
            burst_us: 1,
            quota_us: limits::QUOTA_MAX_US,
        };
        assert_eq!(validate(&largest, true), Err(sum));
    }
}
