//! Values that each cgroup file accepts, and the errno for others.

use schedcast_base::cpu_max::{CpuMax, parse_burst_us};
use schedcast_base::limits::{
    LimitError, SHARES_MAX, SHARES_MIN, WEIGHT_MAX, WEIGHT_MIN, validate_quota_and_period,
};
use schedcast_kernel::uclamp::LARGEST;

use super::super::document::{Kind, Value};
use super::Weight;
use crate::error::{Error, Result};

/// The error a write to the file would return.
pub(super) fn refused(value: &Value, errno: &str, why: &str) -> Error {
    Error::input(&value.place, format!("{errno}: {why}"))
}

/// Text that would be written to the file.
pub(crate) fn file_text(value: &Value) -> Result<String> {
    match &value.kind {
        Kind::Text(text) | Kind::Bare(text) => Ok(text.trim().to_string()),
        Kind::Integer(number) => Ok(number.to_string()),
        _ => Err(value.expected("what is written to the file, a number or a string")),
    }
}

/// An unsigned file value: `kstrtoull`, so ERANGE beyond 64 bits and EINVAL for the rest.
pub(crate) fn read_unsigned(value: &Value) -> Result<u64> {
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

/// Checks a quota and a period that stand in one group, whichever of them `value` wrote.
pub(crate) fn check_limit(value: &Value, quota_us: Option<u64>, period_us: u64) -> Result<()> {
    validate_quota_and_period(quota_us, period_us).map_err(|rule| refused_by(value, &rule))
}

fn refused_by(value: &Value, rule: &LimitError) -> Error {
    refused(value, rule.errno(), &rule.to_string())
}

/// `cpu.max` over a group whose period is `period_us`: quota and period.
pub(crate) fn read_cpu_max(value: &Value, period_us: u64) -> Result<(Option<u64>, u64)> {
    let text = match value.kind {
        // `2.0` is two CPUs and has to keep its point.
        Kind::Float(number) => format!("{number:?}"),
        _ => file_text(value)?,
    };
    let written = CpuMax::parse(&text).map_err(|rule| refused_by(value, &rule))?;
    let (quota_us, period_us) = written.over(period_us);
    check_limit(value, quota_us, period_us)?;
    Ok((quota_us, period_us))
}

/// `cpu.max.burst`: microseconds, or a time with its unit.
pub(crate) fn read_burst(value: &Value) -> Result<u64> {
    parse_burst_us(&file_text(value)?).map_err(|rule| refused_by(value, &rule))
}

/// `cpu.cfs_quota_us`: signed, any negative number is no limit.
pub(crate) fn read_quota_v1(value: &Value) -> Result<Option<u64>> {
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
    Ok(Some(quota_us))
}

/// `cpu.uclamp.min` and `cpu.uclamp.max`: percent with up to two decimals, in 1024ths of the
/// fastest CPU (`capacity_from_percent`).
pub(crate) fn read_clamp(value: &Value) -> Result<u32> {
    let text = match value.kind {
        Kind::Float(number) => format!("{number}"),
        _ => file_text(value)?,
    };
    if text == "max" {
        return Ok(LARGEST);
    }
    let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = (1..=6).contains(&whole.len()) && decimals.len() <= 8;
    if !fits || !digits(whole) || !digits(decimals) {
        let why = format!("`{text}` is not a percentage such as `20`, `12.5` or `max`");
        return Err(refused(value, "EINVAL", &why));
    }
    let number = |part: &str| part.parse::<u64>().unwrap_or(0);
    // Rounded to hundredths first, as the kernel keeps it.
    let fraction = number(&format!("{decimals:0<8}"));
    let hundredths = number(whole) * 100 + (fraction + 500_000) / 1_000_000;
    if hundredths > 10_000 {
        let why = format!("a utilisation clamp is 0 to 100 %, not {text}");
        return Err(refused(value, "ERANGE", &why));
    }
    Ok(((hundredths * u64::from(LARGEST) + 5_000) / 10_000) as u32)
}

pub(crate) fn read_weight(name: &str, value: &Value) -> Result<Weight> {
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
            Ok(Weight::Shares(shares.clamp(SHARES_MIN, SHARES_MAX)))
        }
        "cpu.weight" if (WEIGHT_MIN..=WEIGHT_MAX).contains(&number.max(0).unsigned_abs()) => {
            Ok(Weight::Weight(number.unsigned_abs()))
        }
        "cpu.weight" => Err(out_of(WEIGHT_MIN as i64, WEIGHT_MAX as i64)),
        _ => match i8::try_from(number) {
            Ok(nice) if (-20..=19).contains(&nice) => Ok(Weight::Nice(nice)),
            _ => Err(out_of(-20, 19)),
        },
    }
}
