//! Names of metrics that no run reports, refused before anything runs.

use std::collections::BTreeSet;

use schedcast_workload::programs::PERCENTILES;

use super::{CGROUP, FAMILIES, Subject, Suffix, parse, told_in_words};
use crate::error::{Error, Result, hint_for};
use crate::experiment::Scenario;
use crate::recording::Latency;
use crate::simulator::Simulator;

/// Every family as it is written behind its subject: `request_latency.p99`.
pub fn short_names() -> Vec<String> {
    let patterns = FAMILIES.iter().map(|family| family.pattern());
    patterns
        .filter_map(|pattern| {
            let (_, name) = pattern.rsplit_once('/')?;
            Some(name.replace("STAT", "p99"))
        })
        .collect()
}

/// Refuses a name that no run can report: of no family, or a percentile that is not kept.
///
/// # Errors
/// Names the nearest one.
pub fn refuse_unknown(metric: &str) -> Result<()> {
    let Some(known) = parse(metric) else {
        let (_, name) = metric.rsplit_once('/').unwrap_or(("", metric));
        let valid = short_names();
        return Err(refused(metric, name, valid.iter().map(String::as_str)));
    };
    let is_percentile =
        known.family.suffix == Suffix::Distribution && known.suffix.starts_with('p');
    let reported = PERCENTILES.map(|(suffix, _)| suffix);
    if is_percentile && !reported.contains(&known.suffix) {
        return Err(refused(metric, known.suffix, reported));
    }
    Ok(())
}

/// Refuses a metric of a program or group that no scenario has.
///
/// # Errors
/// Names the nearest one; or a scenario cannot be built.
pub fn refuse_unknown_subject(
    metric: &str,
    scenarios: &[Scenario],
    simulator: &Simulator,
) -> Result<()> {
    let Some(known) = parse(metric).filter(|known| known.family.subject != Subject::Machine) else {
        return Ok(());
    };
    let subjects = subjects_of(scenarios, simulator)?;
    if subjects.contains(known.subject) {
        return Ok(());
    }
    let (kind, prefix) = match known.family.subject {
        Subject::Cgroup => ("cgroup", CGROUP),
        _ => ("program", ""),
    };
    let name = &known.subject[prefix.len()..];
    let of_kind = |subject: &&String| subject.starts_with(CGROUP) != prefix.is_empty();
    let names = subjects.iter().filter(of_kind);
    let names: Vec<&str> = names.map(|subject| &subject[prefix.len()..]).collect();
    let message = format!("nothing here has the {kind} `{name}` of `{metric}`");
    Err(Error::usage(message).hint(hint_for(name, &names)))
}

/// Every program and group that a scenario reports on.
pub(super) fn subjects_of(
    scenarios: &[Scenario],
    simulator: &Simulator,
) -> Result<BTreeSet<String>> {
    let mut subjects = BTreeSet::new();
    for scenario in scenarios {
        subjects.extend(simulator.reported_subjects(scenario)?);
    }
    Ok(subjects)
}

/// The word for a latency of any kind: who types it alone means what clients wait for, and not the
/// family of the same name, which is the lateness of a timer's thread.
pub const ANY_LATENCY: &str = "latency";

fn refused<'a>(metric: &str, part: &str, valid: impl IntoIterator<Item = &'a str>) -> Error {
    let error = Error::usage(format!("there is no metric `{metric}`"));
    let near = match told_in_words(part) {
        _ if part == ANY_LATENCY => Some(format!("{}.p99", Latency::REQUEST)),
        Some(name) => Some(name.to_owned()),
        None => schedcast_base::names::nearest(part, valid).map(str::to_owned),
    };
    match near {
        Some(near) if !metric.contains('/') => error.hint(format!(
            "a subject stands before it: NAME/{near} or '*/{near}'"
        )),
        Some(near) => error.hint(format!("the nearest valid name for `{part}` is `{near}`")),
        None => error.hint("`schedcast list metrics` shows all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(metric: &str) -> String {
        refuse_unknown(metric).unwrap_err().render()
    }

    #[test]
    fn what_runs_report_is_let_through() {
        let texts = "schbench/request_latency.p99.9 schbench/request_latency.count \
            cgroup:/web/nr_throttled machine/cstate.C6 machine/overhead.tick";
        for metric in texts.split(' ') {
            refuse_unknown(metric).unwrap();
        }
    }

    #[test]
    fn the_part_that_is_wrong_is_named() {
        let text = hint("schbench/request_latncy.p99");
        assert!(text.contains("is `request_latency.p99`"), "{text}");
        let text = hint("schbench/request_latency.p9");
        assert!(text.contains("for `p9` is `p90`"), "{text}");
        let text = hint("cgroup:/web/nr_throtled");
        assert!(text.contains("is `nr_throttled`"), "{text}");
        for name in ["latency", "request_latency.p99"] {
            let text = hint(name);
            assert!(text.contains("'*/request_latency.p99'"), "{text}");
        }
        assert!(hint("rps").contains("there is no metric `rps`"));
    }
}
