//! The table against the rest of the crate.

use std::path::Path;

use super::*;
use crate::rules::{FEATURES, NEWEST};

/// Whether a kernel has a change for another reason: a second row makes the same change, in other
/// releases.
fn is_made_by_another_row(change: &Change, rules: &Rules) -> bool {
    let others = all().filter(|other| other.holds_in(rules.version));
    let mut without = others.map(|other| {
        let mut without = rules.clone();
        other.apply(&mut without, false);
        without
    });
    without.any(|without| !change.is_in(&without))
}

#[test]
fn every_change_is_in_the_kernels_its_row_names() {
    for change in all() {
        let ends = [change.since, change.until].into_iter().flatten();
        let stable = ends.flat_map(|end| end.backports);
        let stable = stable.flat_map(|&(major, minor, level)| {
            [level - 1, level].map(|level| Version::stable(major, minor, level))
        });
        for version in Version::releases().chain(stable) {
            let rules = Rules::of(version, 8, 250);
            // Some changes belong to one fair class and ended or began with it.
            if change.needs.is_some_and(|class| class != rules.fair) {
                continue;
            }
            let (named, is_in) = (change.holds_in(version), change.is_in(&rules));
            let other = is_in && !named && is_made_by_another_row(change, &rules);
            assert!(named == is_in || other, "{} in {version}", change.name);
        }
    }
}

#[test]
fn every_row_changes_the_rules_of_the_first_release_that_has_it() {
    for change in all() {
        let first = change.since.map_or(NEWEST, |since| since.release);
        let before = Rules::of(first, 8, 250);
        let mut rules = before.clone();
        change.apply(&mut rules, !change.is_in(&before));
        assert_ne!(rules, before, "{}", change.name);
    }
}

#[test]
fn names_are_unique_and_sentences_end() {
    let mut names: Vec<&str> = all().map(|change| change.name).collect();
    let rows = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows);
    assert!(all().all(|change| change.description.ends_with('.')));
}

/// The names of the public fields of `of`, a struct in `text`.
fn fields<'a>(text: &'a str, of: &str) -> Vec<&'a str> {
    let (_, body) = text.split_once(&format!("pub struct {of} {{")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let lines = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub "));
    lines
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect()
}

/// The texts of the source files in `folder`, but for this table, where fields are written only.
fn sources(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("rules/changes") {
            sources(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

fn is_read(field: &str, text: &str) -> bool {
    let name = format!(".{field}");
    text.match_indices(&name).any(|(at, _)| {
        let behind = &text[at + name.len()..];
        let ends = !behind.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
        ends && !behind.trim_start().starts_with("= ")
    })
}

#[test]
fn every_rule_is_read_by_a_decision() {
    let rules = include_str!("../mod.rs");
    let mut names = fields(rules, "Rules");
    names.extend(fields(
        include_str!("../../balance/rules.rs"),
        "BalanceRules",
    ));
    names.extend(fields(
        include_str!("../../select/rules.rs"),
        "PlacementRules",
    ));
    names.extend(fields(
        include_str!("../../cpufreq/rules.rs"),
        "FrequencyRules",
    ));
    names.extend(fields(include_str!("../../cpuidle/rules.rs"), "IdleRules"));
    assert!(names.len() > 150);
    let modelled = FEATURES.iter().filter(|feature| feature.modelled.is_some());
    let diagnostic = ["WARN_DOUBLE_CLOCK", "LATENCY_WARN"];
    let modelled = modelled.filter(|feature| !diagnostic.contains(&feature.name));
    let features: Vec<String> = modelled
        .map(|feature| feature.name.to_lowercase())
        .collect();
    names.extend(features.iter().map(String::as_str));
    let mut texts = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    sources(&source.join("src"), &mut texts);
    sources(&source.join("../sim/src"), &mut texts);
    let unread: Vec<&str> = names
        .into_iter()
        .filter(|name| !texts.iter().any(|text| is_read(name, text)))
        .collect();
    assert!(unread.is_empty(), "no decision reads {unread:?}");
}
