//! The one reader of a CPU limit as people write it.
//!
//! | text | quota | period |
//! |---|---|---|
//! | `20000 100000`, `20ms/100ms`, `20ms 0.1s` | 20 ms | 100 ms |
//! | `20000`, `20ms` | 20 ms | as it was |
//! | `50%`, `500m`, `0.5`, `0.5 CPU` | half of the period | as it was |
//! | `50%/20ms` | 10 ms | 20 ms |
//! | `max`, `max 100000` | none | as it was, 100 ms |
//! | `-1` | none, as in `cpu.cfs_quota_us` of version 1 | as it was |
//!
//! A number without a unit is microseconds, as in the kernel's file `cpu.max`, and a number with a
//! point is CPUs, as in Kubernetes and Docker. Every text that the kernel takes means the same
//! here, with two exceptions: text behind the period is refused, not ignored, and `-1`, which the
//! kernel refuses in this file, means what it means in the file of version 1.

use crate::limits::LimitError;

/// CPU time that a group may use in a period, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// No limit.
    Unlimited,
    /// Microseconds in a period.
    TimeUs(u64),
    /// Millionths of one CPU, whatever the period is.
    ShareMillionths(u64),
}

impl Quota {
    /// Microseconds in a period of `period_us`, to the nearest one; `None` is no limit.
    pub fn of_period_us(self, period_us: u64) -> Option<u64> {
        match self {
            Quota::Unlimited => None,
            Quota::TimeUs(quota_us) => Some(quota_us),
            Quota::ShareMillionths(share) => {
                let millionths = u128::from(share) * u128::from(period_us) + 500_000;
                Some(u64::try_from(millionths / 1_000_000).unwrap_or(u64::MAX))
            }
        }
    }
}

impl From<Option<u64>> for Quota {
    /// Microseconds in a period; `None` is no limit.
    fn from(quota_us: Option<u64>) -> Quota {
        quota_us.map_or(Quota::Unlimited, Quota::TimeUs)
    }
}

/// A limit as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// The quota.
    pub quota: Quota,
    /// The period in microseconds, if one was given; without it a group keeps the period it has.
    pub period_us: Option<u64>,
}

impl CpuMax {
    /// Reads a limit. Bounds are checked by [`validate`](crate::limits::validate), once the period
    /// is known.
    ///
    /// # Errors
    /// Text that is no limit, or a number that fits no 64 bits.
    pub fn parse(text: &str) -> Result<CpuMax, LimitError> {
        let refuse = |part: &str| LimitError::NotALimit {
            part: part.to_owned(),
            found: text.trim().to_owned(),
        };
        let words: Vec<&str> = match text.split_once('/') {
            Some((quota, period)) => vec![quota.trim(), period.trim()],
            // `1.5 CPU` is one word.
            None if cpus_of(text.trim()).is_some() => vec![text.trim()],
            None => text.split_whitespace().collect(),
        };
        let (quota, period) = match words[..] {
            [quota] => (quota, None),
            [quota, period] => (quota, Some(period)),
            [_, _, extra, ..] => return Err(refuse(extra)),
            [] => return Err(refuse("")),
        };
        Ok(CpuMax {
            quota: parse_quota(quota)?.ok_or_else(|| refuse(quota))?,
            period_us: match period {
                None => None,
                Some(period) => Some(parse_time_us(period)?.ok_or_else(|| refuse(period))?),
            },
        })
    }

    /// Quota and period in microseconds of a group whose period is `period_us`.
    pub fn over(self, period_us: u64) -> (Option<u64>, u64) {
        let period_us = self.period_us.unwrap_or(period_us);
        (self.quota.of_period_us(period_us), period_us)
    }
}

/// Reads a burst: microseconds, or a time with its unit such as `20ms`.
///
/// # Errors
/// Text that is no time, or a number that fits no 64 bits.
pub fn parse_burst_us(text: &str) -> Result<u64, LimitError> {
    parse_time_us(text.trim())?.ok_or_else(|| LimitError::NotANumber {
        file: "cpu.max.burst",
        expected: "microseconds, or a time such as `20ms`",
        found: text.trim().to_owned(),
    })
}

/// The number of `1.5 CPU`.
fn cpus_of(word: &str) -> Option<&str> {
    let mut units = ["CPUs", "CPU", "cpus", "cpu"].into_iter();
    Some(units.find_map(|unit| word.strip_suffix(unit))?.trim_end())
}

fn parse_quota(word: &str) -> Result<Option<Quota>, LimitError> {
    let share =
        |number: &str, millionths: u64| Ok(scaled(number, millionths)?.map(Quota::ShareMillionths));
    if ["max", "-1"].contains(&word) {
        return Ok(Some(Quota::Unlimited));
    }
    if let Some(number) = cpus_of(word) {
        return share(number, 1_000_000);
    }
    if let Some(percent) = word.strip_suffix('%') {
        return share(percent, 10_000);
    }
    if let Some(thousandths) = word.strip_suffix('m') {
        return share(thousandths, 1_000);
    }
    match word.ends_with(|last: char| last.is_ascii_digit()) && word.contains('.') {
        true => share(word, 1_000_000),
        false => Ok(parse_time_us(word)?.map(Quota::TimeUs)),
    }
}

/// Units of time in microseconds; `s` stands last, since the others end with it.
const TIMES: [(&str, u64); 4] = [("us", 1), ("µs", 1), ("ms", 1_000), ("s", 1_000_000)];

fn parse_time_us(word: &str) -> Result<Option<u64>, LimitError> {
    let unit = TIMES.iter().find(|(unit, _)| word.ends_with(unit));
    match unit {
        Some((unit, us)) => scaled(word[..word.len() - unit.len()].trim_end(), *us),
        None if word.contains('.') => Ok(None),
        None => scaled(word, 1),
    }
}

/// A decimal number times `unit`, rounded down; `None` when it is no number.
fn scaled(number: &str, unit: u64) -> Result<Option<u64>, LimitError> {
    /// More digits behind the point are below a millionth of any unit.
    const FRACTION_DIGITS_MAX: usize = 12;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let are_digits =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return Ok(None);
    }
    let too_long = || LimitError::NumberTooLong {
        file: "cpu.max",
        found: number.to_owned(),
    };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let denominator = 10_u128.pow(fraction.len() as u32);
    let part: u128 = fraction.parse().map_err(|_| too_long())?;
    let whole: u64 = whole.parse().map_err(|_| too_long())?;
    let all = u128::from(whole) * u128::from(unit) + part * u128::from(unit) / denominator;
    u64::try_from(all).map(Some).map_err(|_| too_long())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over_100_ms(text: &str) -> (Option<u64>, u64) {
        CpuMax::parse(text).unwrap().over(100_000)
    }

    #[test]
    fn every_spelling_of_half_a_cpu_is_half_a_cpu() {
        let spellings = "50%|500m|0.5|0.5 CPU|0.5cpus / 100ms|50.0%|50000|50ms|50000us|50000 100000|\
            50ms/100ms| 50ms / 100ms |50ms 0.1s|0.05s/100000|50000 100000\n";
        for text in spellings.split('|') {
            assert_eq!(over_100_ms(text), (Some(50_000), 100_000), "{text:?}");
        }
    }

    #[test]
    fn a_share_follows_the_period_and_a_time_does_not() {
        let over_20_ms = |text: &str| CpuMax::parse(text).unwrap().over(20_000);
        assert_eq!(over_20_ms("150%"), (Some(30_000), 20_000));
        assert_eq!(over_20_ms("15ms"), (Some(15_000), 20_000));
        assert_eq!(over_20_ms("50%/10ms"), (Some(5_000), 10_000));
        assert_eq!(over_100_ms("33.3333%"), (Some(33_333), 100_000));
        assert_eq!(over_100_ms("2.0"), (Some(200_000), 100_000));
        assert_eq!(over_100_ms("2 CPUs"), (Some(200_000), 100_000));
    }

    #[test]
    fn no_limit_may_change_the_period() {
        assert_eq!(over_100_ms("max"), (None, 100_000));
        assert_eq!(over_100_ms("max 20000"), (None, 20_000));
        assert_eq!(over_100_ms("max/20ms"), (None, 20_000));
        assert_eq!(over_100_ms("-1"), (None, 100_000));
    }

    #[test]
    fn other_texts_are_refused_with_the_part_that_is_wrong() {
        for (text, wrong) in [
            ("", ""),
            ("maximum", "maximum"),
            ("-2", "-2"),
            ("50000 x", "x"),
            ("1 2 3", "3"),
            ("0x10", "0x10"),
            ("5 0%", "0%"),
            ("50ms/", ""),
            (".5", ".5"),
            ("1.", "1."),
            ("50 %", "%"),
            ("20000 0.1", "0.1"),
        ] {
            match CpuMax::parse(text) {
                Err(LimitError::NotALimit { part, .. }) => assert_eq!(part, wrong, "{text:?}"),
                other => panic!("{text:?}: {other:?}"),
            }
        }
        let long = CpuMax::parse("99999999999999999999").unwrap_err();
        assert_eq!(long.errno(), "ERANGE");
        assert_eq!(
            CpuMax::parse("99999999999999999.0").unwrap_err().errno(),
            "ERANGE"
        );
    }

    #[test]
    fn a_burst_is_a_time() {
        assert_eq!(parse_burst_us("20000"), Ok(20_000));
        assert_eq!(parse_burst_us("20ms"), Ok(20_000));
        assert_eq!(parse_burst_us("1.5ms"), Ok(1_500));
        for text in ["", "50%", "0.5", "-1", "20 30"] {
            assert!(parse_burst_us(text).is_err(), "{text:?}");
        }
    }
}
