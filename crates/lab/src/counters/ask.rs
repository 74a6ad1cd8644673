//! The limits a command line asks about.

use schedcast_kernel::bandwidth::{MAX_PERIOD_NS, MIN_PERIOD_NS};

use super::Limit;
use crate::error::{Error, Result, hint_for};
use crate::question::{Columns, Setting};

const KEYS: [&str; 2] = ["cpu.max", "cpu.max.burst"];
/// What the kernel accepts, in µs.
const QUOTA_US_MIN: u64 = MIN_PERIOD_NS / 1000;
const PERIOD_US: std::ops::RangeInclusive<u64> = MIN_PERIOD_NS / 1000..=MAX_PERIOD_NS / 1000;

/// Limits by name: the settings before the first variant are one, unless there are variants only.
///
/// # Errors
/// Unknown keys, values that no kernel accepts, or nothing to ask about.
pub fn limits(recorded: Limit, columns: &Columns) -> Result<Vec<(String, Limit)>> {
    let mut limits = Vec::new();
    let mut base = recorded;
    apply(&mut base, &columns.leading)?;
    if !columns.leading.is_empty() {
        let name: Vec<String> = columns.leading.iter().map(shown).collect();
        limits.push((name.join(", "), base));
    }
    for (name, settings) in &columns.variants {
        let mut limit = base;
        apply(&mut limit, settings)?;
        limits.push((name.clone(), limit));
    }
    if limits.is_empty() {
        return Err(Error::usage("nothing is asked about")
            .hint("name a limit, such as --set cpu.max='60000 100000'"));
    }
    Ok(limits)
}

/// A limit as typed, `cpu.max=…` and `cpu.max.burst=…`, over none; `None` if nothing was typed.
///
/// # Errors
/// As [`limits`].
pub fn settings(typed: &[String]) -> Result<Option<Limit>> {
    if typed.is_empty() {
        return Ok(None);
    }
    let mut limit = super::NO_LIMIT;
    let typed: Vec<Setting> = typed.iter().cloned().map(Setting::Set).collect();
    apply(&mut limit, &typed)?;
    Ok(Some(limit))
}

fn shown(setting: &Setting) -> String {
    match setting {
        Setting::Set(text) => text.clone(),
        Setting::Flag { flag, argument, .. } => format!("{flag} {argument}"),
    }
}

fn apply(limit: &mut Limit, settings: &[Setting]) -> Result<()> {
    for setting in settings {
        let text = match setting {
            Setting::Set(text) => text,
            Setting::Flag { flag, .. } => {
                return Err(Error::usage(format!(
                    "`{flag}` changes nothing that counters tell about"
                ))
                .hint("`schedcast what-if` simulates kernels and machines, from events"));
            }
        };
        let (key, value) = text.split_once('=').ok_or_else(|| {
            Error::usage(format!("expected KEY=VALUE behind --set, found `{text}`"))
        })?;
        let (key, value) = (key.trim(), value.trim());
        match key {
            "cpu.max" => cpu_max(limit, value)?,
            "cpu.max.burst" => limit.burst_ns = microseconds(key, value)? * 1000,
            _ => {
                return Err(
                    Error::usage(format!("`{key}` is no limit that counters tell about"))
                        .hint(hint_for(key, &KEYS)),
                );
            }
        }
    }
    if limit
        .quota_ns
        .is_some_and(|quota_ns| limit.burst_ns > quota_ns)
    {
        return Err(Error::usage(
            "a burst above the quota is refused by the kernel",
        ));
    }
    Ok(())
}

/// `60000 100000`, `60000`, `max`
fn cpu_max(limit: &mut Limit, value: &str) -> Result<()> {
    let mut words = value.split_whitespace();
    let quota = words.next().unwrap_or_default();
    if let Some(period) = words.next() {
        let period_us = microseconds("cpu.max", period)?;
        if !PERIOD_US.contains(&period_us) {
            return Err(Error::usage(format!(
                "expected a period of 1000 to 1000000 us, found {period_us}"
            )));
        }
        limit.period_ns = period_us * 1000;
    }
    if words.next().is_some() {
        return Err(Error::usage(format!(
            "expected `QUOTA PERIOD` in cpu.max, found `{value}`"
        )));
    }
    limit.quota_ns = match quota {
        "max" => None,
        quota => {
            let quota_us = microseconds("cpu.max", quota)?;
            if quota_us < QUOTA_US_MIN {
                return Err(Error::usage(format!(
                    "expected a quota of at least 1000 us, found {quota_us}"
                )));
            }
            Some(quota_us * 1000)
        }
    };
    Ok(())
}

fn microseconds(key: &str, text: &str) -> Result<u64> {
    /// More than the kernel's own bound of about 200 days.
    const US_MAX: u64 = 1 << 44;
    let number = text.parse().ok().filter(|us| *us <= US_MAX);
    number.ok_or_else(|| Error::usage(format!("expected microseconds in {key}, found `{text}`")))
}
