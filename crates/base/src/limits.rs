//! The kernel's own bounds on CPU bandwidth limits, as pure functions.
//!
//! A group with quota 50 000 µs, period 100 000 µs and burst 20 000 µs may use 50 ms of CPU in
//! every 100 ms, and up to 70 ms in a period that follows idle ones. The kernel stores such a
//! triple only when all of these hold (`tg_set_cfs_bandwidth`, then `__cfs_schedulable`):
//!
//! | check                        | bound                                   | the example |
//! |------------------------------|-----------------------------------------|-------------|
//! | quota                        | 1 000 µs … 2^44 − 1 µs, or no limit     | 50 000      |
//! | period                       | 1 000 µs … 1 000 000 µs                 | 100 000     |
//! | burst, with a finite quota   | ≤ quota, and quota + burst ≤ 2^44 − 1   | 20 000      |
//! | burst, without a limit       | ≤ (2^64 − 1) / 1 000 µs                 | –           |
//! | share of a CPU, cgroup v1    | floor(quota · 2^20 / period) ≤ the parent's | 524 288 ≤ … |
//!
//! The share is 20-bit fixed point, so it is blunt: below a parent of 50 000/100 000 the kernel
//! takes 100 000/200 000 (524 288 again) but refuses 100 001/200 000 (524 293). cgroup v2 never
//! refuses for the hierarchy; there the tightest level wins at run time.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Smallest quota the kernel stores (`min_cfs_quota_period`).
pub const QUOTA_MIN_US: u64 = 1_000;
/// Largest finite quota (`max_cfs_runtime`): 44 bits, so that a 20-bit ratio of it fits 64 bits.
pub const QUOTA_MAX_US: u64 = (1 << 44) - 1;
/// Smallest period (`min_cfs_quota_period`).
pub(crate) const PERIOD_MIN_US: u64 = 1_000;
/// Largest period (`max_cfs_quota_period`).
pub const PERIOD_MAX_US: u64 = 1_000_000;
/// Periods that the kernel takes, µs.
pub const PERIOD_US: std::ops::RangeInclusive<u64> = PERIOD_MIN_US..=PERIOD_MAX_US;
/// Largest burst of a group without a quota: its nanoseconds must fit 64 bits.
pub const BURST_MAX_UNLIMITED_US: u64 = u64::MAX / 1_000;
/// Smallest value `cpu.shares` keeps; smaller ones are raised to it (`MIN_SHARES`).
pub const SHARES_MIN: u64 = 2;
/// Largest value `cpu.shares` keeps; larger ones are lowered to it (`MAX_SHARES`).
pub const SHARES_MAX: u64 = 1 << 18;
/// Smallest `cpu.weight` (`CGROUP_WEIGHT_MIN`).
pub const WEIGHT_MIN: u64 = 1;
/// Largest `cpu.weight` (`CGROUP_WEIGHT_MAX`).
pub const WEIGHT_MAX: u64 = 10_000;
/// `cpu.weight` (1..=10000) to unscaled shares: rounded weight · 1024 / 100.
pub const fn shares_from_weight(weight: u64) -> u64 {
    (weight * 1024 + 50) / 100
}

/// Unscaled shares to `cpu.weight`, as read back: rounded shares · 100 / 1024.
pub const fn weight_from_shares(shares: u64) -> u64 {
    (shares * 100 + 512) / 1024
}

/// Bits of a bandwidth ratio (`BW_SHIFT`).
pub(crate) const RATIO_SHIFT: u32 = 20;

/// The bandwidth limit of one group, in the units of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CpuLimits {
    /// CPU time a period, µs; `None` is no limit (`max` in v2, −1 in v1).
    pub quota_us: Option<u64>,
    /// Length of a period, µs.
    pub period_us: u64,
    /// How much unused quota may be kept for later periods, µs.
    pub burst_us: u64,
}

impl Default for CpuLimits {
    /// Limits of a new group: no quota, 100 ms periods, no burst.
    fn default() -> Self {
        Self {
            quota_us: None,
            period_us: 100_000,
            burst_us: 0,
        }
    }
}

impl CpuLimits {
    /// A limit with a quota, in µs.
    pub const fn new(quota_us: u64, period_us: u64, burst_us: u64) -> Self {
        Self {
            quota_us: Some(quota_us),
            period_us,
            burst_us,
        }
    }

    /// Share of one CPU in 20-bit fixed point, as `to_ratio` computes it; `None` without a limit.
    pub fn ratio(&self) -> Option<u64> {
        self.quota_us
            .map(|quota_us| bandwidth_ratio(quota_us, self.period_us))
    }

    /// CPU time and burst that it grants in a million µs: what orders limits by how generous they
    /// are.
    pub fn grants(&self) -> (u64, u64) {
        let per_second = |part_us: u64| part_us * 1_000_000 / self.period_us.max(1);
        (
            self.quota_us.map_or(u64::MAX, per_second),
            per_second(self.burst_us),
        )
    }

    /// Whether it grants at any time what `other`, of the same period, grants: it has as much quota
    /// and as much burst, or no quota at all.
    pub fn covers(&self, other: CpuLimits) -> bool {
        let as_much_quota = match (self.quota_us, other.quota_us) {
            (None, _) => return true,
            (Some(mine), Some(others)) => mine >= others,
            (Some(_), None) => false,
        };
        self.period_us == other.period_us && as_much_quota && self.burst_us >= other.burst_us
    }

    /// CPUs' worth of time that it grants at most in the long run.
    pub fn cpus(&self) -> Option<f64> {
        self.quota_us
            .map(|quota_us| quota_us as f64 / self.period_us as f64)
    }

    /// Quota and period as `cpu.max` has them: `50000 100000`.
    pub fn cpu_max(&self) -> String {
        let quota = self.quota_us.map_or("max".to_string(), |us| us.to_string());
        format!("{quota} {}", self.period_us)
    }

    /// The limit in the units that people type: `67 ms in 100 ms = 0.67 CPU = 670m`.
    pub fn in_words(&self) -> String {
        let Some(quota_us) = self.quota_us else {
            return "no limit".to_string();
        };
        let ms = |us: u64| format!("{} ms", us as f64 / 1000.0);
        let (quota, period) = (ms(quota_us), ms(self.period_us));
        let milli = (quota_us * 1000).div_ceil(self.period_us.max(1));
        let cpus = (quota_us as f64 * 1000.0 / self.period_us.max(1) as f64).round() / 1000.0;
        let burst = match self.burst_us {
            0 => String::new(),
            burst_us => format!(", burst {}", ms(burst_us)),
        };
        format!("{quota} in {period} = {cpus} CPU = {milli}m{burst}")
    }
}

impl fmt::Display for CpuLimits {
    /// As `cpu.max` has it, then the burst: `50000 100000, burst 20000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, burst {}", self.cpu_max(), self.burst_us)
    }
}

/// `to_ratio`: floor(quota · 2^20 / period). Both must already be inside their bounds.
pub fn bandwidth_ratio(quota_us: u64, period_us: u64) -> u64 {
    (quota_us << RATIO_SHIFT) / period_us
}

/// The rule that a limit breaks. `errno` tells which error number the kernel answers with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    /// The root group has all CPUs by definition.
    #[error("the root group cannot be limited")]
    RootGroup,
    /// Less than 1 ms of quota.
    #[error(
        "quota {0} us is below the kernel's minimum of {QUOTA_MIN_US} us \
         (a number without a unit is microseconds, `2.0` is two CPUs)"
    )]
    QuotaTooSmall(u64),
    /// More than 2^44 − 1 µs of quota.
    #[error("quota {0} us is above the kernel's maximum of {QUOTA_MAX_US} us")]
    QuotaTooLarge(u64),
    /// Period below 1 ms.
    #[error("period {0} us is below the kernel's minimum of {PERIOD_MIN_US} us")]
    PeriodTooSmall(u64),
    /// Period above 1 s.
    #[error("period {0} us is above the kernel's maximum of {PERIOD_MAX_US} us")]
    PeriodTooLarge(u64),
    /// Burst above the quota.
    #[error(
        "burst {burst_us} us is above the quota of {quota_us} us (when lowering both, lower the burst first)"
    )]
    BurstAboveQuota {
        /// The burst asked for.
        burst_us: u64,
        /// The quota it would stand beside.
        quota_us: u64,
    },
    /// Quota and burst together do not fit the kernel's counter.
    #[error("quota {quota_us} us and burst {burst_us} us together are above {QUOTA_MAX_US} us")]
    BurstSumTooLarge {
        /// The burst asked for.
        burst_us: u64,
        /// The quota it would stand beside.
        quota_us: u64,
    },
    /// Burst whose nanoseconds overflow 64 bits.
    #[error("burst {0} us is above the kernel's maximum of {BURST_MAX_UNLIMITED_US} us")]
    BurstTooLarge(u64),
    /// cgroup v1: a child may not have a larger share than its nearest limited ancestor.
    #[error(
        "{} CPU is above the {} CPU of the nearest limited parent", cpus(*ratio), cpus(*ceiling)
    )]
    AboveParent {
        /// The share asked for, 20-bit fixed point.
        ratio: u64,
        /// The share of the nearest limited ancestor.
        ceiling: u64,
    },
    /// cgroup v1: a parent may not be limited below one of its children.
    #[error("{} CPU is below the {} CPU that a child group has", cpus(*ratio), cpus(*floor))]
    BelowChild {
        /// The share asked for, 20-bit fixed point.
        ratio: u64,
        /// The largest share among limited descendants.
        floor: u64,
    },
    /// `cpu.weight` outside 1 … 10 000.
    #[error("weight {0} is outside {WEIGHT_MIN} to {WEIGHT_MAX}")]
    WeightOutOfRange(u64),
    /// `cpu.idle` other than 0 or 1.
    #[error("cpu.idle takes 0 or 1, not {0}")]
    IdleNotBoolean(i64),
    /// Weight or shares written to a group that `cpu.idle` has made idle.
    #[error("the group's cpu.idle is 1, which fixes its weight; write 0 to cpu.idle first")]
    WeightOfIdleGroup,
    /// Text that is no limit.
    #[error("cpu.max expects {CPU_MAX_FORMS}; `{part}` in `{found}` is neither")]
    NotALimit {
        /// The part that is wrong.
        part: String,
        /// Given text.
        found: String,
    },
    /// Text that the file does not parse.
    #[error("{file} expects {expected}, not {found:?}")]
    NotANumber {
        /// The file written to.
        file: &'static str,
        /// Forms that the setting accepts.
        expected: &'static str,
        /// Given text.
        found: String,
    },
    /// A number that does not fit the file's integer.
    #[error("{file} takes 64-bit numbers, {found:?} does not fit")]
    NumberTooLong {
        /// The file written to.
        file: &'static str,
        /// Given text.
        found: String,
    },
}

/// Forms that [`CpuMax`](crate::cpu_max::CpuMax) reads, for a refusal.
const CPU_MAX_FORMS: &str = "`max`, microseconds, a time such as `50ms` or a share of a CPU such as `50%`, `500m`, \
     `0.5` or `0.5 CPU`, then optionally a period";

/// A 20-bit share of a CPU to the nearest thousandth.
fn cpus(share: u64) -> f64 {
    (share as f64 * 1000.0 / f64::from(1 << 20)).round() / 1000.0
}

impl LimitError {
    /// Whether the text says nothing that the kernel could refuse.
    pub fn is_unreadable(&self) -> bool {
        matches!(
            self,
            Self::NotALimit { .. } | Self::NotANumber { .. } | Self::NumberTooLong { .. }
        )
    }

    /// The rule behind the name of the kernel's error number, or alone where the kernel would never
    /// see the text.
    pub fn told(&self) -> String {
        match self.is_unreadable() {
            true => self.to_string(),
            false => format!("{}: {self}", self.errno()),
        }
    }

    /// Name of the error number the kernel answers with.
    pub fn errno(&self) -> &'static str {
        match self {
            Self::WeightOutOfRange(_) | Self::NumberTooLong { .. } => "ERANGE",
            _ => "EINVAL",
        }
    }
}

/// Checks one group's limits in the kernel's order (`tg_set_cfs_bandwidth`); the hierarchy is
/// separate.
pub fn validate(limits: &CpuLimits) -> Result<(), LimitError> {
    validate_quota_and_period(limits.quota_us, limits.period_us)?;
    if limits.burst_us > BURST_MAX_UNLIMITED_US {
        return Err(LimitError::BurstTooLarge(limits.burst_us));
    }
    match limits.quota_us {
        Some(quota_us) => validate_finite(quota_us, limits.burst_us),
        None => Ok(()),
    }
}

/// Checks a quota and a period, of which the burst knows nothing yet.
pub fn validate_quota_and_period(quota_us: Option<u64>, period_us: u64) -> Result<(), LimitError> {
    match (quota_us, period_us) {
        (Some(quota_us), _) if quota_us < QUOTA_MIN_US => Err(LimitError::QuotaTooSmall(quota_us)),
        (_, ..PERIOD_MIN_US) => Err(LimitError::PeriodTooSmall(period_us)),
        (_, period_us) if period_us > PERIOD_MAX_US => Err(LimitError::PeriodTooLarge(period_us)),
        (Some(quota_us), _) if quota_us > QUOTA_MAX_US => Err(LimitError::QuotaTooLarge(quota_us)),
        _ => Ok(()),
    }
}

fn validate_finite(quota_us: u64, burst_us: u64) -> Result<(), LimitError> {
    if burst_us > quota_us {
        return Err(LimitError::BurstAboveQuota { burst_us, quota_us });
    }
    if burst_us + quota_us > QUOTA_MAX_US {
        return Err(LimitError::BurstSumTooLarge { burst_us, quota_us });
    }
    Ok(())
}

/// Bounds that the groups around a group set for it, in 20-bit shares of a CPU (cgroup v1 only).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HierarchyBounds {
    /// Share of the nearest limited ancestor.
    pub ceiling: Option<u64>,
    /// Largest share among limited descendants.
    pub floor: Option<u64>,
}

/// Checks limits against the groups around them, as cgroup v1 does (`tg_cfs_schedulable_down`).
///
/// A group without a limit of its own takes its parent's share, so it always fits above, and fits
/// below because its descendants were checked against that same ancestor.
pub fn validate_hierarchy(limits: &CpuLimits, around: HierarchyBounds) -> Result<(), LimitError> {
    let Some(ratio) = limits.ratio() else {
        return Ok(());
    };
    if let Some(ceiling) = around.ceiling
        && ratio > ceiling
    {
        return Err(LimitError::AboveParent { ratio, ceiling });
    }
    if let Some(floor) = around.floor
        && ratio < floor
    {
        return Err(LimitError::BelowChild { ratio, floor });
    }
    Ok(())
}

/// One file of a cgroup v1 bandwidth limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitWrite {
    /// `cpu.cfs_quota_us` := the value, `None` as −1.
    Quota(Option<u64>),
    /// `cpu.cfs_period_us` := the value.
    Period(u64),
    /// `cpu.cfs_burst_us` := the value.
    Burst(u64),
}

/// The order of single-file writes that leads from `current` to `target` without an intermediate
/// state that the kernel refuses. Files that already have their value are left alone.
///
/// Burst comes first when it shrinks and last when it grows, because it may at no moment exceed the
/// quota. Quota and period change one after the other, and in between the group has a share that is
/// neither the old nor the new one: from 50/100 ms to 150/300 ms, quota first passes through
/// 150/100, period first through 50/300. The first fails under a parent of 0.5 CPU, the second
/// above a child of 0.5 CPU. When neither order fits between the two, the limit is lifted for a
/// moment, which is always allowed.
pub fn plan_writes(
    current: &CpuLimits,
    target: &CpuLimits,
    around: HierarchyBounds,
) -> Vec<LimitWrite> {
    let mut plan = Vec::new();
    if target.burst_us < current.burst_us {
        plan.push(LimitWrite::Burst(target.burst_us));
    }
    plan_quota_and_period(current, target, around, &mut plan);
    if target.burst_us > current.burst_us {
        plan.push(LimitWrite::Burst(target.burst_us));
    }
    plan
}

fn plan_quota_and_period(
    current: &CpuLimits,
    target: &CpuLimits,
    around: HierarchyBounds,
    plan: &mut Vec<LimitWrite>,
) {
    let quota = LimitWrite::Quota(target.quota_us);
    let period = LimitWrite::Period(target.period_us);
    if target.period_us == current.period_us {
        if target.quota_us != current.quota_us {
            plan.push(quota);
        }
        return;
    }
    if target.quota_us == current.quota_us {
        plan.push(period);
        return;
    }
    let after_period = CpuLimits {
        period_us: target.period_us,
        ..*current
    };
    let after_quota = CpuLimits {
        quota_us: target.quota_us,
        ..*current
    };
    if validate_hierarchy(&after_period, around).is_ok() {
        plan.extend([period, quota]);
    } else if validate_hierarchy(&after_quota, around).is_ok() {
        plan.extend([quota, period]);
    } else {
        plan.extend([LimitWrite::Quota(None), period, quota]);
    }
}

/// Reads an unsigned number as the kernel's file parser does (`kstrtou64`, base 0): an optional
/// `+`, `0x` for hexadecimal, a leading 0 for octal, and at most one newline at the end.
pub fn parse_u64(file: &'static str, text: &str) -> Result<u64, LimitError> {
    let refuse = || LimitError::NotANumber {
        file,
        expected: "a non-negative number",
        found: text.to_owned(),
    };
    let body = text.strip_suffix('\n').unwrap_or(text);
    let body = body.strip_prefix('+').unwrap_or(body);
    let (digits, radix) = split_radix(body);
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return Err(refuse());
    }
    u64::from_str_radix(digits, radix).map_err(|_| LimitError::NumberTooLong {
        file,
        found: text.to_owned(),
    })
}

fn split_radix(body: &str) -> (&str, u32) {
    if let Some(hex) = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X")) {
        (hex, 16)
    } else if body.len() > 1 && body.starts_with('0') {
        (&body[1..], 8)
    } else {
        (body, 10)
    }
}

/// Reads a signed number (`kstrtos64`, base 0).
fn parse_i64(file: &'static str, text: &str) -> Result<i64, LimitError> {
    let too_long = || LimitError::NumberTooLong {
        file,
        found: text.to_owned(),
    };
    if let Some(magnitude) = text.strip_prefix('-') {
        let value = parse_u64(file, magnitude).map_err(|error| with_found(error, text))?;
        return 0i64.checked_sub_unsigned(value).ok_or_else(too_long);
    }
    i64::try_from(parse_u64(file, text)?).map_err(|_| too_long())
}

fn with_found(error: LimitError, text: &str) -> LimitError {
    match error {
        LimitError::NotANumber { file, expected, .. } => LimitError::NotANumber {
            file,
            expected,
            found: text.to_owned(),
        },
        other => other,
    }
}

/// Parses what `cpu.cfs_quota_us` takes: any negative number is no limit. Bounds are `validate`'s.
pub fn parse_cfs_quota_us(text: &str) -> Result<Option<u64>, LimitError> {
    let value = parse_i64("cpu.cfs_quota_us", text)?;
    Ok(u64::try_from(value).ok())
}

/// Parses what `cpu.idle` takes.
pub fn parse_idle(text: &str) -> Result<bool, LimitError> {
    match parse_i64("cpu.idle", text)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(LimitError::IdleNotBoolean(other)),
    }
}

/// Parses what `cpu.weight` takes.
pub fn parse_weight(text: &str) -> Result<u64, LimitError> {
    let weight = parse_u64("cpu.weight", text)?;
    if (WEIGHT_MIN..=WEIGHT_MAX).contains(&weight) {
        Ok(weight)
    } else {
        Err(LimitError::WeightOutOfRange(weight))
    }
}

/// Parses what `cpu.shares` takes; like the kernel it moves values outside 2 … 262 144 to the
/// bound.
pub fn parse_shares(text: &str) -> Result<u64, LimitError> {
    parse_u64("cpu.shares", text).map(|shares| shares.clamp(SHARES_MIN, SHARES_MAX))
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
