//! Setting quota, period and burst: what the kernel refuses, and in which order it looks.
//!
//! Worked example: burst is 40 ms and quota is to be lowered from 50 to 30 ms. At that moment burst
//! would exceed quota, so the write fails with EINVAL; burst has to be lowered first.

use super::{MAX_PERIOD_NS, MAX_RUNTIME_US, MIN_PERIOD_NS};
use crate::group::BandwidthLimit;
use crate::ids::{Cpu, GroupId, Ns};
use crate::kernel::Kernel;
use crate::model::{Mark, reached};
use crate::platform::Platform;
use crate::rules::ThrottleModel;

/// Which check refused a limit. The kernel answers EINVAL to every one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitError {
    /// The root group cannot be limited.
    Root,
    /// Quota below 1 ms.
    QuotaTooSmall,
    /// Period below 1 ms.
    PeriodTooSmall,
    /// Period above 1 s.
    PeriodTooLong,
    /// Quota above 2^44 − 1 µs.
    QuotaTooLarge,
    /// Burst above quota, or burst + quota above 2^44 − 1 µs.
    BurstTooLarge,
    /// cgroup v1: the ratio exceeds the nearest limited ancestor's, or falls below a child's.
    Hierarchy,
}

impl std::fmt::Display for LimitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LimitError::Root => "the root group cannot be limited (EINVAL)",
            LimitError::QuotaTooSmall => "quota is below 1000 us (EINVAL)",
            LimitError::PeriodTooSmall => "period is below 1000 us (EINVAL)",
            LimitError::PeriodTooLong => "period is above 1000000 us (EINVAL)",
            LimitError::QuotaTooLarge => "quota is above 17592186044415 us (EINVAL)",
            LimitError::BurstTooLarge => {
                "burst is above quota, or quota + burst above 17592186044415 us (EINVAL)"
            }
            LimitError::Hierarchy => {
                "quota/period is above the parent's or below a child's (cgroup v1, EINVAL)"
            }
        })
    }
}

impl std::error::Error for LimitError {}

/// Which cgroup version's hierarchy rule applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hierarchy {
    /// A child must not have a larger ratio than its parent.
    V1,
    /// Never refused; the parent simply is the tighter limit.
    #[default]
    V2,
}

/// Checks 2 to 5 of `tg_set_cfs_bandwidth`, in the kernel's order.
pub fn validate(limit: &BandwidthLimit, burst_exists: bool) -> Result<(), LimitError> {
    let max_ns: Ns = MAX_RUNTIME_US * 1000;
    if limit.quota_ns.is_some_and(|quota| quota < MIN_PERIOD_NS) {
        return Err(LimitError::QuotaTooSmall);
    }
    if limit.period_ns < MIN_PERIOD_NS {
        return Err(LimitError::PeriodTooSmall);
    }
    if limit.period_ns > MAX_PERIOD_NS {
        return Err(LimitError::PeriodTooLong);
    }
    let Some(quota_ns) = limit.quota_ns else {
        return Ok(());
    };
    if quota_ns > max_ns {
        return Err(LimitError::QuotaTooLarge);
    }
    if burst_exists
        && (limit.burst_ns > quota_ns || limit.burst_ns.saturating_add(quota_ns) > max_ns)
    {
        return Err(LimitError::BurstTooLarge);
    }
    Ok(())
}

/// Quota over period in 20-bit fixed point (`to_ratio`); `None` = no limit.
pub fn quota_ratio(limit: &BandwidthLimit) -> Option<u64> {
    limit
        .quota_ns
        .map(|quota_ns| ((quota_ns / 1000) << 20) / (limit.period_ns / 1000))
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
            return Err(LimitError::Root);
        }
        validate(&limit, self.rules.burst).inspect_err(|_| reached(Mark::LimitRefused))?;
        self.check_hierarchy(group, &limit, hierarchy)
            .inspect_err(|_| reached(Mark::LimitAboveParent))?;
        reached(Mark::LimitChanged);
        self.here = cpu;
        self.groups[group.index()].bandwidth.limit = limit;
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
            let cfs_rq = &mut self.cfs_rqs[q.index()];
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
        let parent = self.groups[group.index()].parent;
        let inherited = parent.and_then(|parent| self.effective_ratio(parent));
        let own = quota_ratio(limit);
        if hierarchy == Hierarchy::V1 {
            if let (Some(own), Some(inherited)) = (own, inherited)
                && own > inherited
            {
                return Err(LimitError::Hierarchy);
            }
            let effective = own.or(inherited);
            if let Some(effective) = effective
                && self.largest_ratio_below(group) > effective
            {
                return Err(LimitError::Hierarchy);
            }
        }
        self.groups[group.index()].bandwidth.hierarchical_quota = match (own, inherited) {
            (Some(own), Some(inherited)) => Some(own.min(inherited)),
            (own, inherited) => own.or(inherited),
        };
        Ok(())
    }

    fn effective_ratio(&self, group: GroupId) -> Option<u64> {
        let mut level = Some(group);
        let mut effective: Option<u64> = None;
        while let Some(group) = level {
            let group = &self.groups[group.index()];
            if let Some(ratio) = quota_ratio(&group.bandwidth.limit) {
                effective = Some(effective.map_or(ratio, |other| other.min(ratio)));
            }
            level = group.parent;
        }
        effective
    }

    fn largest_ratio_below(&self, group: GroupId) -> u64 {
        self.groups[group.index()]
            .children
            .iter()
            .map(|&child| {
                let own = quota_ratio(&self.groups[child.index()].bandwidth.limit);
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
        BandwidthLimit {
            quota_ns: Some(quota_us * 1000),
            period_ns: period_us * 1000,
            burst_ns: burst_us * 1000,
        }
    }

    #[test]
    fn bounds_of_the_kernel() {
        let max = MAX_RUNTIME_US;
        assert_eq!(validate(&limit(1000, 1000, 0), true), Ok(()));
        assert_eq!(
            validate(&limit(999, 1000, 0), true),
            Err(LimitError::QuotaTooSmall)
        );
        assert_eq!(
            validate(&limit(1000, 999, 0), true),
            Err(LimitError::PeriodTooSmall)
        );
        assert_eq!(
            validate(&limit(1000, 1_000_001, 0), true),
            Err(LimitError::PeriodTooLong)
        );
        assert_eq!(validate(&limit(max, 1000, 0), true), Ok(()));
        assert_eq!(
            validate(&limit(max + 1, 1000, 0), true),
            Err(LimitError::QuotaTooLarge)
        );
        assert_eq!(
            validate(&limit(max, 1000, 1), true),
            Err(LimitError::BurstTooLarge)
        );
        assert_eq!(
            validate(&limit(5000, 10_000, 5001), true),
            Err(LimitError::BurstTooLarge)
        );
        assert_eq!(validate(&limit(5000, 10_000, 5001), false), Ok(()));
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
}
