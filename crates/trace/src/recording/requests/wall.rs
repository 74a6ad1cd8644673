//! Times of day as logs write them, in ns since 1970.
//!
//! Worked example: `25/Nov/2025:20:01:00.130` is the 329th day of 2025 and the 20 417th since 1970
//! (from 0), 72 060.13 s into it. Where clocks are an hour ahead of UTC it is 3600 s less:
//! 1 764 097 260.130 s.

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const NS_PER_S: u64 = 1_000_000_000;

/// Seconds with a fraction of up to nine digits, in ns.
pub(super) fn seconds_ns(text: &str) -> Option<u64> {
    decimal(text, 9)
}

/// Milliseconds with a fraction, in ns.
pub(super) fn milliseconds_ns(text: &str) -> Option<u64> {
    decimal(text, 6)
}

/// A number times ten to the `digits`; what is smaller is left out.
fn decimal(text: &str, digits: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let kept = &fraction[..fraction.len().min(digits)];
    format!("{whole}{kept:0<digits$}").parse().ok()
}

/// `2025-11-25T19:01:00.130Z`, or with another `+01:00` behind.
pub(super) fn iso_ns(text: &str) -> Option<u64> {
    let (date, time) = text.split_once('T')?;
    let mut date = date.split('-').map(str::parse);
    let mut next = || date.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (time, offset_s) = match time.strip_suffix('Z') {
        Some(time) => (time, 0),
        None => {
            let (time, zone) = time.split_at_checked(time.len().checked_sub(6)?)?;
            let sign = match zone.chars().next()? {
                '+' => 1,
                '-' => -1,
                _ => return None,
            };
            let (hours, minutes) = zone[1..].split_once(':')?;
            let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
            (time, sign * (hours * 3600 + minutes * 60))
        }
    };
    at(year, month, day, time, offset_s)
}

/// `25/Nov/2025:20:01:00.130`, by clocks that are `offset_s` ahead of UTC.
pub(super) fn log_date_ns(text: &str, offset_s: i64) -> Option<u64> {
    let (date, time) = text.split_once(':')?;
    let mut date = date.split('/');
    let mut next = || date.next();
    let (day, month, year) = (next()?, next()?, next()?);
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    at(year.parse().ok()?, month, day.parse().ok()?, time, offset_s)
}

fn at(year: u64, month: u64, day: u64, time: &str, offset_s: i64) -> Option<u64> {
    let mut time = time.splitn(3, ':');
    let mut next = || time.next();
    let (hours, minutes): (u64, u64) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let within_ns = seconds_ns(next()?)?;
    let is_time = hours < 24 && minutes < 60 && within_ns < 61 * NS_PER_S;
    if !is_time || !(1970..2554).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if day == 0 || day > days_of(year, month) {
        return None;
    }
    let years: u64 = (1970..year)
        .map(|year| 365 + u64::from(is_leap(year)))
        .sum();
    let months: u64 = (1..month).map(|month| days_of(year, month)).sum();
    let seconds = (years + months + day - 1) * 86_400 + hours * 3600 + minutes * 60;
    let utc = u64::try_from(seconds as i64 - offset_s).ok()?;
    utc.checked_mul(NS_PER_S)?.checked_add(within_ns)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_counted_from_1970() {
        let worked = Some(1_764_097_260_130_000_000);
        assert_eq!(log_date_ns("25/Nov/2025:20:01:00.130", 3600), worked);
        assert_eq!(iso_ns("2025-11-25T19:01:00.130Z"), worked);
        assert_eq!(iso_ns("2025-11-25T13:31:00.13-05:30"), worked);
        assert_eq!(iso_ns("1970-01-01T00:00:00Z"), Some(0));
        // `date -u -d 2024-02-29T12:00:00 +%s`
        assert_eq!(
            iso_ns("2024-02-29T12:00:00Z"),
            Some(1_709_208_000 * NS_PER_S)
        );
        assert_eq!(seconds_ns("12.0345"), Some(12_034_500_000));
        assert_eq!(milliseconds_ns("7"), Some(7_000_000));
        assert_eq!(milliseconds_ns("0.5"), Some(500_000));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "2025-02-29T00:00:00Z",
            "2025-11-25T24:00:00Z",
            "2025-11-25",
        ] {
            assert_eq!(iso_ns(text), None, "{text}");
        }
        for text in ["", "-1", "1e9", "1.2.3", "99999999999999999999"] {
            assert_eq!(seconds_ns(text), None, "{text}");
        }
        assert_eq!(log_date_ns("25/Nov/2025:20:01", 0), None);
    }
}
