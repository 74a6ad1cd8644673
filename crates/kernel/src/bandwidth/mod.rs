//! CFS bandwidth control: no group runs more than its quota in a period, plus what burst allows.
//!
//! A group has a global pool that a period timer refills. CPUs draw slices of 5 ms from it and
//! charge what runs against their local part. A queue whose local part is used up while the pool is
//! empty is throttled until the pool has something to give.
//!
//! Worked example: quota 50 ms per 100 ms, two hogs on two CPUs. Together they draw ten slices of
//! 5 ms and have used them up after 25 ms of wall time. Both queues are throttled until the period
//! timer fires at 100 ms: 2 · 75 = 150 ms of throttled time per period.
//!
//! | room | rules |
//! |---|---|
//! | `charge` | charging, drawing slices, returning what is unused |
//! | `throttle` | throttling and unthrottling queues (≤ 6.17) and tasks (6.18) |
//! | `timers` | period timer, refill with burst, distribution, slack timer |
//! | `limits` | setting quota, period and burst |

use schedcast_base::limits::PERIOD_MAX_US;

pub(crate) mod charge;
pub mod limits;
pub(crate) mod throttle;
pub(crate) mod timers;

/// Local runtime a queue keeps when it returns the rest (`min_cfs_rq_runtime`).
pub(crate) const MIN_LOCAL_RUNTIME_NS: i64 = 1_000_000;
/// Delay of the slack timer (`cfs_bandwidth_slack_period`).
pub(crate) const SLACK_PERIOD_NS: u64 = 5_000_000;
/// A refill this near makes redistribution pointless (`min_bandwidth_expiration`).
pub(crate) const MIN_EXPIRATION_NS: u64 = 2_000_000;
/// Longest period (`max_cfs_quota_period`).
pub(crate) const MAX_PERIOD_NS: u64 = PERIOD_MAX_US * 1_000;
