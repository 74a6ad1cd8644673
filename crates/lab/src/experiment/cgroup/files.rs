//! What each cgroup file accepts, and the errno it answers with otherwise.

use schedcast_kernel::bandwidth::{MAX_PERIOD_NS, MAX_RUNTIME_US, MIN_PERIOD_NS};
use schedcast_kernel::weight::{MAX_SHARES, MIN_SHARES};

use super::super::document::{Kind, Value};
use super::Weight;
use crate::error::{Error, Result};

/// Least quota and period, and largest period, in microseconds (`tg_set_cfs_bandwidth`).
const LIMIT_MIN_US: u64 = MIN_PERIOD_NS / 1_000;
const PERIOD_MAX_US: u64 = MAX_PERIOD_NS / 1_000;
/// Largest quota, and largest quota plus burst, in microseconds (`max_cfs_runtime`).
pub const RUNTIME_MAX_US: u64 = MAX_RUNTIME_US;

/// The error a write to the file would return.
pub fn refused(value: &Value, errno: &str, why: &str) -> Error {
    Error::input(&value.place, format!("{errno}: {why}"))
}

/// What would be written to the file.
pub fn file_text(value: &Value) -> Result<String> {
    match &value.kind {
        Kind::Text(text) | Kind::Bare(text) => Ok(text.trim().to_string()),
        Kind::Integer(number) => Ok(number.to_string()),
        _ => Err(value.expected("what is written to the file, a number or a string")),
    }
}

/// An unsigned file value: `kstrtoull`, so ERANGE beyond 64 bits and EINVAL for the rest.
pub fn read_unsigned(value: &Value) -> Result<u64> {
    parse_unsigned(&file_text(value)?).map_err(|(errno, why)| refused(value, errno, &why))
}

fn parse_unsigned(text: &str) -> std::result::Result<u64, (&'static str, String)> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err((
            "EINVAL",
            format!("`{text}` is not a number of microseconds"),
        ));
    }
    text.parse()
        .map_err(|_| ("ERANGE", format!("{text} does not fit 64 bits")))
}

pub fn check_period(value: &Value, period_us: u64) -> Result<()> {
    if (LIMIT_MIN_US..=PERIOD_MAX_US).contains(&period_us) {
        return Ok(());
    }
    let why = format!(
        "a period of {period_us} us is outside the kernel's {LIMIT_MIN_US} to {PERIOD_MAX_US} us"
    );
    Err(refused(value, "EINVAL", &why))
}

fn check_quota(value: &Value, quota_us: u64) -> Result<()> {
    if quota_us < LIMIT_MIN_US {
        let why = format!("a quota of {quota_us} us is below the kernel's {LIMIT_MIN_US} us");
        return Err(refused(value, "EINVAL", &why));
    }
    if quota_us > RUNTIME_MAX_US {
        let why = format!("a quota of {quota_us} us is above the kernel's {RUNTIME_MAX_US} us");
        return Err(refused(value, "EINVAL", &why));
    }
    Ok(())
}

/// `cpu.max`: `QUOTA [PERIOD]` with QUOTA a number or `max`; quota and, if given, period.
pub fn read_cpu_max(value: &Value) -> Result<(Option<u64>, Option<u64>)> {
    let text = file_text(value)?;
    let mut words = text.split_ascii_whitespace();
    let Some(quota) = words.next() else {
        return Err(refused(value, "EINVAL", "cpu.max is empty")
            .hint("write \"QUOTA PERIOD\" in microseconds or \"max\""));
    };
    let period = words.next();
    if let Some(extra) = words.next() {
        // The kernel would silently ignore it; whoever wrote it meant something.
        return Err(Error::input(
            &value.place,
            format!("`{extra}` after the period of cpu.max"),
        )
        .hint("cpu.max is \"QUOTA PERIOD\" in microseconds"));
    }
    let wrong = |(errno, why): (&'static str, String)| {
        refused(value, errno, &why).hint("cpu.max is \"QUOTA PERIOD\" in microseconds, or \"max\"")
    };
    let quota_us = match quota {
        "max" => None,
        number => Some(parse_unsigned(number).map_err(wrong)?),
    };
    if let Some(quota_us) = quota_us {
        check_quota(value, quota_us)?;
    }
    let period_us = period.map(parse_unsigned).transpose().map_err(wrong)?;
    if let Some(period_us) = period_us {
        check_period(value, period_us)?;
    }
    Ok((quota_us, period_us))
}

/// `cpu.cfs_quota_us`: signed, any negative number is no limit.
pub fn read_quota_v1(value: &Value) -> Result<Option<u64>> {
    let text = file_text(value)?;
    if let Some(magnitude) = text.strip_prefix('-') {
        parse_unsigned(magnitude).map_err(|(errno, why)| refused(value, errno, &why))?;
        return Ok(None);
    }
    let quota_us = read_unsigned(value)?;
    if i64::try_from(quota_us).is_err() {
        return Err(refused(
            value,
            "ERANGE",
            &format!("{quota_us} does not fit 63 bits"),
        ));
    }
    check_quota(value, quota_us)?;
    Ok(Some(quota_us))
}

pub fn read_weight(name: &str, value: &Value) -> Result<Weight> {
    let text = file_text(value)?;
    let number: i64 = text.parse().map_err(|_| {
        refused(
            value,
            "EINVAL",
            &format!("`{text}` is not a number for {name}"),
        )
    })?;
    let out_of = |least: i64, most: i64| {
        refused(
            value,
            "ERANGE",
            &format!("{name} is {least} to {most}, not {number}"),
        )
    };
    match name {
        "cpu.shares" => {
            let shares = u64::try_from(number).map_err(|_| {
                refused(
                    value,
                    "EINVAL",
                    &format!("cpu.shares cannot be negative: {number}"),
                )
            })?;
            Ok(Weight::Shares(shares.clamp(MIN_SHARES, MAX_SHARES)))
        }
        "cpu.weight" if (1..=10_000).contains(&number) => Ok(Weight::Weight(number.unsigned_abs())),
        "cpu.weight" => Err(out_of(1, 10_000)),
        _ => match i8::try_from(number) {
            Ok(nice) if (-20..=19).contains(&nice) => Ok(Weight::Nice(nice)),
            _ => Err(out_of(-20, 19)),
        },
    }
}
