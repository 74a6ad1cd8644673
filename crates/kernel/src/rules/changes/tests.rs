//! The table against the rest of the crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::*;
use crate::rules::{FEATURES, NEWEST, OLDEST, VersionError};

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

/// A commit may be two rows, and both begin in its release.
#[test]
fn rows_of_one_commit_begin_in_one_release() {
    let mut begins = BTreeMap::new();
    for change in all() {
        if let Origin::Commit(commit) = change.origin {
            let first = change.since.map(|since| since.release);
            let other = begins.entry(commit).or_insert(first);
            assert_eq!(
                *other, first,
                "{} has the commit of another row",
                change.name
            );
        }
    }
}

/// Commits of which each release has all or nothing, in two rows: two switches in
/// `sched/features`, and two effects that a search for a cause tells apart.
const TWO_EFFECTS: [&str; 2] = ["0c2de3f054a5", "e837456fdca8"];

#[test]
fn a_commit_has_two_rows_where_releases_have_a_part_of_it_or_its_row_says_so() {
    let mut lives = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for change in all() {
        if let Origin::Commit(commit) = change.origin {
            let life: Vec<bool> = Version::releases()
                .map(|version| change.holds_in(version))
                .collect();
            if lives.insert((commit, life), change.name).is_some() {
                twice.insert(commit);
            }
        }
    }
    assert_eq!(twice, TWO_EFFECTS.into());
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

/// Where a row begins or ends in the series that were read, as `6.12.31`.
fn dates(change: &Change) -> BTreeSet<String> {
    let ends = [change.since, change.until].into_iter().flatten();
    let dates = ends.flat_map(|end| end.backports);
    let read = dates.filter(|&&(major, minor, level)| {
        let date = Version::stable(major, minor, level);
        newest_read(date).is_some_and(|last| date <= last)
    });
    read.map(|(major, minor, level)| format!("{major}.{minor}.{level}"))
        .collect()
}

/// Both ways: no row has a date of which its changelog does not tell, and none lacks one.
#[test]
fn stable_releases_are_those_of_the_changelogs() {
    let list = include_str!("stable.txt");
    let head: Vec<&str> = list
        .split_whitespace()
        .take_while(|word| *word != "first")
        .collect();
    for last in READ {
        let told = format!("up to {last}");
        assert!(head.join(" ").replace(" # ", " ").contains(&told), "{told}");
    }
    let mut told: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split("  ").filter(|column| !column.is_empty());
        let (Some(releases), Some(rows), Some(_subject)) =
            (columns.next(), columns.next(), columns.next())
        else {
            panic!("{line}: three columns, two blanks between them");
        };
        for row in rows.split_whitespace().filter(|row| *row != "-") {
            let releases = releases.split_whitespace().map(str::to_owned);
            told.entry(row).or_default().extend(releases);
        }
    }
    for change in all() {
        let told = told.remove(change.name).unwrap_or_default();
        let (missing, extra): (Vec<_>, Vec<_>) = (
            told.difference(&dates(change)).cloned().collect(),
            dates(change).difference(&told).cloned().collect(),
        );
        assert!(missing.is_empty(), "{} lacks {missing:?}", change.name);
        assert!(
            extra.is_empty(),
            "{}: no changelog tells {extra:?}",
            change.name
        );
    }
    assert!(told.is_empty(), "no row is called {:?}", told.keys());
}

#[test]
fn what_a_series_changed_since_its_first_release_is_counted() {
    let version = |text: &str| text.parse::<Version>().unwrap();
    // `clock-skip-stays` is the only row that names the series 6.5.
    assert_eq!(of_its_series(version("6.5")), Some((version("6.5.13"), 1)));
    assert_eq!(of_its_series(version("6.5.1")), None, "no first release");
    assert_eq!(of_its_series(NEWEST), None);
    let row = Change::named("tick-by-top-level").unwrap();
    assert_eq!(
        row.mended_behind(version("6.12.6")),
        Some(version("6.12.7"))
    );
    assert_eq!(row.mended_behind(version("6.12.7")), None);
    assert_eq!(row.mended_behind(version("6.13")), None, "another series");
}

/// The row that the recipe of CONTRIBUTING adds for a release that was made up.
mod next_release {
    use crate::rules::changes::changes;

    changes! {
        "no-autogroup" "0123456789ab" (7, 4) also [(7, 3, 9)]: (off autogroup),
            "Tasks of a session are no group of their own any more.";
    }
}

#[test]
fn a_release_is_one_row_and_one_number() {
    let recipe = include_str!("../../../../../CONTRIBUTING.md");
    let recipe = recipe
        .split("\n## ")
        .find(|part| part.starts_with("A kernel release"));
    let words: Vec<&str> = recipe.unwrap().split_whitespace().collect();
    for step in [
        "add a row to the table of changes in `crates/kernel/src/rules`",
        "Raise `NEWEST` in `crates/kernel/src/rules/version.rs`",
    ] {
        assert!(words.join(" ").contains(step), "{step}");
    }
    // One number: the release is accepted, listed, and the nearest to every newer one.
    let [known, next] = [NEWEST, Version::new(7, 4)];
    let found = next.previous();
    assert_eq!(found, known, "this made-up release is the next one");
    let stable = Version::stable(7, 4, 1);
    assert_eq!(Version::read(next, "7.4.1"), Ok(stable));
    assert_eq!(
        Version::read(known, "7.4.1"),
        Err(VersionError::Unknown(stable))
    );
    assert_eq!(Version::modelled_until(next, "7.9").unwrap().0, next);
    let newly_listed = Version::releases_until(next).filter(|listed| *listed > known);
    assert_eq!(newly_listed.collect::<Vec<_>>(), [next]);
    // One row: the release is modelled as its predecessor but for what the row says.
    let [core, fair, bandwidth, placement, balance, power] = SUBJECTS;
    let table = [
        core,
        fair,
        bandwidth,
        placement,
        balance,
        power,
        next_release::CHANGES,
    ];
    let rules_of = |version: Version| {
        let mut rules = Rules::of(OLDEST, 8, 250);
        rules.version = version;
        make(table, &mut rules, version);
        rules
    };
    let mut expected = Rules::of(known, 8, 250);
    assert_eq!(rules_of(known), expected);
    (expected.version, expected.autogroup) = (next, false);
    assert_eq!(rules_of(next), expected);
    let is_changed = |patch| !rules_of(Version::stable(7, 3, patch)).autogroup;
    assert_eq!([8, 9].map(is_changed), [false, true]);
}

/// The names of the public fields of `of`, a struct in `text`.
fn fields<'a>(text: &'a str, of: &str) -> Vec<&'a str> {
    let (_, body) = text.split_once(&format!("struct {of} of ")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let lines = body
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub"))
        .filter_map(|line| Some(line.split_once(' ')?.1));
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
    let structures = [
        (include_str!("../mod.rs"), "Rules"),
        (include_str!("../../balance/rules.rs"), "BalanceRules"),
        (include_str!("../../select/rules.rs"), "PlacementRules"),
        (include_str!("../../cpufreq/rules.rs"), "FrequencyRules"),
        (include_str!("../../cpuidle/rules.rs"), "IdleRules"),
        (include_str!("../../energy.rs"), "EnergyRules"),
        (include_str!("../../cache.rs"), "CacheRules"),
    ];
    let names = structures.iter().flat_map(|(text, of)| fields(text, of));
    let mut names: Vec<&str> = names.collect();
    assert!(names.len() > 250);
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
