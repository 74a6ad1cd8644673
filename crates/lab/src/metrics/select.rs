//! Rows that were asked for by name.
//!
//! A name may have `*` for any characters and `?` for one. Worked example: `web/*` is every metric
//! of the program `web`, `*/nr_throttled` the throttled periods of all groups, and
//! `machine/busy_ratio` that one row. The star in the name of a pool, such as `worker-*`, is
//! matched by itself.

use std::collections::BTreeSet;

use schedcast_base::names::nearest;

use super::{
    FAMILIES, Suffix, refuse_unknown, refuse_unknown_subject, short_names, subjects_of,
    told_in_words,
};
use crate::error::{Error, Result, hint_for};
use crate::experiment::Scenario;
use crate::simulator::Simulator;

/// Names and patterns of metrics, as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(Vec<String>);

impl Selection {
    /// The metrics that `patterns` name; a count may also have the name of its row in a table.
    ///
    /// # Errors
    /// A name without wildcards that no run can report, with the nearest one.
    pub fn new(patterns: &[String]) -> Result<Selection> {
        let of_row = |pattern: &String| match pattern.rsplit_once('/') {
            Some((subject, words)) => told_in_words(words).map(|name| format!("{subject}/{name}")),
            None => None,
        };
        let patterns = patterns.iter();
        let patterns: Vec<String> = patterns
            .map(|pattern| of_row(pattern).unwrap_or_else(|| pattern.clone()))
            .collect();
        for pattern in patterns.iter().filter(|pattern| !is_glob(pattern)) {
            refuse_unknown(pattern)?;
        }
        Ok(Selection(patterns))
    }

    /// Whether nothing was asked for by name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The metric that was asked for, where it is one by its whole name.
    pub fn only(&self) -> Option<&str> {
        match &self.0[..] {
            [one] if !is_glob(one) => Some(one),
            _ => None,
        }
    }

    /// Whether `metric` was asked for.
    pub fn has(&self, metric: &str) -> bool {
        self.0.iter().any(|pattern| is_match(pattern, metric))
    }

    /// Refuses programs and groups that no scenario has, before anything runs.
    ///
    /// # Errors
    /// The first such name, with the nearest one; or a scenario cannot be built.
    pub fn refuse_unknown_subjects(
        &self,
        scenarios: &[Scenario],
        simulator: &Simulator,
    ) -> Result<()> {
        for pattern in &self.0 {
            match pattern.rsplit_once('/') {
                _ if !is_glob(pattern) => refuse_unknown_subject(pattern, scenarios, simulator)?,
                Some((subject, name)) if is_metric_name(name) => {
                    refuse_unmatched(pattern, subject, scenarios, simulator)?;
                }
                // The part behind the last slash belongs to a subject: `cgroup:/web*`.
                _ => refuse_without_subject(pattern, scenarios, simulator)?,
            }
        }
        Ok(())
    }

    /// Refuses a pattern that matches none of the metrics that were reported. That is known behind
    /// the last run: what has a value under one seed may have none under another.
    ///
    /// # Errors
    /// The first such pattern, with the nearest metric.
    pub fn refuse_misses(&self, reported: &[&str]) -> Result<()> {
        let is_miss = |pattern: &&String| !reported.iter().any(|name| is_match(pattern, name));
        let Some(miss) = self.0.iter().find(is_miss) else {
            return Ok(());
        };
        let error = Error::usage(format!("no run reported a metric `{miss}`"));
        Err(match nearest_to(miss, reported) {
            Some(near) => error.hint(format!("the nearest is `{near}`")),
            None => error.hint("-v shows all that were reported"),
        })
    }
}

/// The reported metric that `pattern` is nearest to: of the subjects that it means one whose name
/// ends alike, as that of `*/latency.p99` and `web/request_latency.p99` do, or one that is spelled
/// nearly alike.
fn nearest_to<'a>(pattern: &str, reported: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.replace(['*', '?'], "");
    let near_as_a_whole = || nearest(&plain(pattern), reported.iter().copied());
    let Some((subject, name)) = pattern.rsplit_once('/') else {
        return near_as_a_whole();
    };
    let named = |full: &&'a str| Some((full.rsplit_once('/')?, *full));
    let meant = reported.iter().filter_map(named);
    let meant = meant.filter(|((one, _), _)| is_match(subject, one));
    let meant: Vec<(&str, &str)> = meant.map(|((_, name), full)| (name, full)).collect();
    let name = plain(name);
    let near = match meant.iter().find(|(one, _)| one.ends_with(&name)) {
        Some((one, _)) => Some(*one),
        None => nearest(&name, meant.iter().map(|(one, _)| *one)),
    };
    let full = meant.iter().find(|(one, _)| Some(*one) == near);
    full.map(|(_, full)| *full).or_else(near_as_a_whole)
}

/// Refuses a pattern whose `subject` no scenario has. What stands behind its last slash may be the
/// name of a group all the same: the `p*` of `cgroup:/p*` begins a metric and `/pg`.
fn refuse_unmatched(
    pattern: &str,
    subject: &str,
    scenarios: &[Scenario],
    simulator: &Simulator,
) -> Result<()> {
    let subjects = all_subjects(scenarios, simulator)?;
    let is_meant = |one: &String| is_match(subject, one) || is_match(pattern, one);
    if subjects.iter().any(is_meant) {
        return Ok(());
    }
    let names: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let message = format!("nothing here has the name `{subject}` of `{pattern}`");
    Err(Error::usage(message).hint(hint_for(subject, &names)))
}

/// Refuses a pattern of which no beginning is a subject that some scenario has.
fn refuse_without_subject(
    pattern: &str,
    scenarios: &[Scenario],
    simulator: &Simulator,
) -> Result<()> {
    let subjects = all_subjects(scenarios, simulator)?;
    let ends = pattern.char_indices().map(|(at, one)| at + one.len_utf8());
    let mut beginnings = ends.map(|end| &pattern[..end]);
    if beginnings.any(|begin| subjects.iter().any(|one| is_match(begin, one))) {
        return Ok(());
    }
    let names: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let message = format!("no metric here has a name like `{pattern}`");
    let plain = pattern.replace(['*', '?'], "");
    Err(Error::usage(message).hint(hint_for(&plain, &names)))
}

/// Every subject that a scenario reports on, the machine among them.
fn all_subjects(scenarios: &[Scenario], simulator: &Simulator) -> Result<BTreeSet<String>> {
    let mut subjects = subjects_of(scenarios, simulator)?;
    subjects.insert("machine".to_string());
    Ok(subjects)
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Whether `pattern` can be the part of a metric's name behind its subject.
fn is_metric_name(pattern: &str) -> bool {
    let named = FAMILIES.iter().filter(|one| one.suffix == Suffix::Named);
    let mut named = named.map(|family| format!("{}.", family.name));
    short_names().iter().any(|name| is_match(pattern, name))
        || named.any(|begin| pattern.starts_with(&begin))
        || FAMILIES.iter().any(|one| pattern.starts_with(one.name))
}

/// Whether all of `text` is what `pattern` says.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last star stands, and how much of the text it has taken.
    let mut star: Option<(usize, usize)> = None;
    while place < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else {
                    return false;
                };
                star = Some((star_at, taken + 1));
                (at, place) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment;
    use schedcast_base::assert_contains;

    fn selection(patterns: &[&str]) -> Selection {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_string()).collect();
        Selection::new(&patterns).unwrap()
    }

    #[test]
    fn a_star_is_any_characters_and_a_question_mark_one() {
        for (pattern, text, expected) in [
            ("web/*", "web/wait.throttled", true),
            ("web/*", "webb/wait.throttled", false),
            ("*/nr_throttled", "cgroup:/a/b/nr_throttled", true),
            ("*latency*p99", "a/request_latency.p99", true),
            ("*latency*p99", "a/request_latency.p99.9", false),
            ("a/tp?", "a/tps", true),
            ("a/tp?", "a/tp", false),
            ("worker-*/tps", "worker-*/tps", true),
            ("", "", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-d", false),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_miss_names_the_nearest() {
        let reported = ["web/activation_latency.p99", "machine/busy_ratio"];
        selection(&["web/*"]).refuse_misses(&reported).unwrap();
        let error =
            selection(&["machine/*", "wed/activation_latency.p9*"]).refuse_misses(&reported);
        let text = error.unwrap_err().render();
        assert!(text.contains("`wed/activation_latency.p9*`"), "{text}");
        assert_contains(&text, "nearest is `web/activation_latency.p99`");
        for (pattern, near) in [
            ("*/latency.p99", "web/activation_latency.p99"),
            ("web/latency.p99*", "web/activation_latency.p99"),
            ("mach*/bussy_ratio", "machine/busy_ratio"),
        ] {
            let error = selection(&[pattern]).refuse_misses(&reported).unwrap_err();
            assert_contains(error.render(), format!("nearest is `{near}`").as_str());
        }
    }

    #[test]
    fn the_name_of_a_row_is_that_of_its_metric() {
        let asked = selection(&["web/requests finished", "*/activations finished"]);
        assert!(asked.has("web/request_latency.count"));
        assert!(asked.has("cache/activation_latency.count"));
        assert_contains(
            refuse_unknown("requests finished").unwrap_err().render(),
            "NAME/request_latency.count",
        );
    }

    #[test]
    fn a_name_that_no_run_reports_is_refused_before_anything_runs() {
        let error = Selection::new(&["web/request_latncy.p99".to_string()]).unwrap_err();
        assert!(error.render().contains("`request_latency.p99`"));
    }

    #[test]
    fn a_pattern_may_end_in_the_name_of_a_group() {
        let text = "[machine]\npreset = \"generic-8\"\n\
            [cgroup.\"/pg\"]\n[[program]]\nrun = \"stress-ng --cpu 1 -t 1\"\ncgroup = \"/pg\"\n";
        let experiment = experiment::read_text("a.toml", text.to_string()).unwrap();
        let scenarios = &experiment.scenarios;
        let asked =
            |pattern| selection(&[pattern]).refuse_unknown_subjects(scenarios, &Simulator::new());
        for pattern in ["cgroup:/p*", "cgroup:/p*/nr_throttled", "*/p*", "cgroup:/*"] {
            asked(pattern).unwrap();
        }
        assert_contains(asked("cgroup:/q*").unwrap_err().render(), "cgroup:/pg");
    }

    #[test]
    fn what_stands_behind_the_last_slash_may_belong_to_a_group() {
        assert!(is_metric_name("*") && is_metric_name("*.p99") && is_metric_name("nr_*"));
        assert!(is_metric_name("request_latency.p9?") && is_metric_name("cstate.*"));
        assert!(!is_metric_name("web*"));
    }
}
