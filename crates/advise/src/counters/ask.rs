//! The limits a command line asks about.

use schedcast_base::cpu_max::{CpuMax, parse_burst_us};
use schedcast_base::limits::{CpuLimits, LimitError, validate, validate_quota_and_period};
use schedcast_kernel::group::BandwidthLimit;
use schedcast_lab::error::{Error, Place, Result, Source, hint_for};
use schedcast_lab::question::{Columns, Setting};

const KEYS: [&str; 2] = ["cpu.max", "cpu.max.burst"];
/// Limits by name: the settings before the first variant are one, and each variant is one.
///
/// # Errors
/// Unknown keys, values that no kernel accepts, or nothing to ask about.
pub fn limits(
    recorded: BandwidthLimit,
    columns: &Columns,
) -> Result<Vec<(String, BandwidthLimit)>> {
    let mut limits = Vec::new();
    if !columns.leading.is_empty() {
        let mut limit = recorded;
        apply(&mut limit, &columns.leading)?;
        let name: Vec<String> = columns.leading.iter().map(shown).collect();
        limits.push((name.join(", "), limit));
    }
    for (name, settings) in &columns.variants {
        let mut limit = recorded;
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
pub fn settings(typed: &[String]) -> Result<Option<BandwidthLimit>> {
    if typed.is_empty() {
        return Ok(None);
    }
    let mut limit = BandwidthLimit::default();
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

fn apply(limit: &mut BandwidthLimit, settings: &[Setting]) -> Result<()> {
    let mut wanted = CpuLimits::from(*limit);
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
        let source = Source::of_command_line("--set", text);
        let refuse = |rule: LimitError| {
            let place = Place::new(&source, key.len() + 1..text.len());
            Error::input(&place, format!("{}: {rule}", rule.errno()))
        };
        match key.trim() {
            "cpu.max" => {
                let written = CpuMax::parse(value).map_err(refuse)?;
                (wanted.quota_us, wanted.period_us) = written.over(wanted.period_us);
                validate_quota_and_period(wanted.quota_us, wanted.period_us).map_err(refuse)?;
            }
            "cpu.max.burst" => wanted.burst_us = parse_burst_us(value).map_err(refuse)?,
            key => {
                return Err(
                    Error::usage(format!("`{key}` is no limit that counters tell about"))
                        .hint(hint_for(key, &KEYS)),
                );
            }
        }
    }
    validate(&wanted).map_err(|rule| Error::usage(format!("{}: {rule}", rule.errno())))?;
    *limit = wanted.into();
    Ok(())
}
