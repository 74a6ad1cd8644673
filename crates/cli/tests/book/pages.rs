//! The pages of the book: what there is, what is linked, whether mdBook takes it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below `directory` with this ending, relative to it.
fn files(directory: &Path, ending: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == ending)
            {
                let file = path.strip_prefix(directory).unwrap();
                files.insert(file.to_str().unwrap().to_string());
            }
        }
    }
    files
}

/// Every page below `directory`, relative to it, without the table of contents.
pub(crate) fn pages(directory: &Path) -> BTreeSet<String> {
    let mut pages = files(directory, "md");
    pages.remove("SUMMARY.md");
    pages
}

/// The text without its fenced blocks.
fn prose(text: &str) -> String {
    let mut inside = false;
    let kept = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !fence && !inside
    });
    kept.fold(String::new(), |all, line| all + line + "\n")
}

/// Targets of `[text](target)` that are not addresses: file, which may be empty, and place in it.
fn links(text: &str) -> Vec<(&str, Option<&str>)> {
    let parts = text.split("](").skip(1);
    let targets = parts.filter_map(|part| part.split_once(')'));
    let own = targets
        .map(|(target, _)| target)
        .filter(|target| !target.contains(':') && !target.contains(' '));
    own.map(|target| match target.split_once('#') {
        Some((file, place)) => (file, Some(place)),
        None => (target, None),
    })
    .collect()
}

/// The name mdBook gives to the place of a heading.
fn place(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        other => other
            .is_alphanumeric()
            .then_some(other.to_ascii_lowercase()),
    });
    kept.collect()
}

fn places(text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| place(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn the_table_of_contents_has_every_page() {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary)
        .into_iter()
        .map(|(file, _)| file.to_string())
        .collect();
    assert_eq!(listed, pages(&docs));
}

/// Pages that a command writes open with how they were made.
#[test]
fn every_page_opens_with_its_question() {
    let docs = root().join("docs");
    for page in pages(&docs) {
        let text = read(&docs.join(&page));
        let first = text.lines().nth(2).unwrap_or_default();
        let question = first.starts_with('*') && first.ends_with("?*");
        let answers = text.contains("This page answers: ");
        let is_record = text
            .to_lowercase()
            .replace('\n', " ")
            .contains("written by `");
        let listed = page == "SUMMARY.md";
        assert!(
            question || answers || is_record || listed,
            "{page}: {first}"
        );
    }
}

/// Words that operators type into the search of the book.
#[test]
fn the_search_finds_the_words_of_operators() {
    let docs = root().join("docs");
    let texts: Vec<String> = pages(&docs)
        .iter()
        .map(|page| read(&docs.join(page)))
        .collect();
    for word in ["docker", "kubectl", "systemd", "JVM", "GOMAXPROCS"] {
        let pages = texts.iter().filter(|text| text.contains(word)).count();
        assert!(pages > 0, "no page has {word}");
    }
}

#[test]
fn links_and_pictures_lead_somewhere() {
    let docs = root().join("docs");
    let mut checked = 0;
    for page in pages(&docs) {
        let path = docs.join(&page);
        let text = read(&path);
        for (file, place) in links(&prose(&text)) {
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{page} links to {file}");
            checked += 1;
            if let Some(place) = place {
                let places = places(&read(&target));
                assert!(
                    places.contains(place),
                    "{page}: #{place} is none of {places:?}"
                );
            }
        }
    }
    assert!(checked > 30, "{checked}");
}

#[test]
fn pictures_are_shown() {
    let docs = root().join("docs");
    let all: String = pages(&docs)
        .iter()
        .map(|page| read(&docs.join(page)))
        .collect();
    for picture in files(&docs.join("pictures"), "png") {
        assert!(all.contains(&format!("pictures/{picture})")), "{picture}");
    }
}

#[test]
fn places_are_named_as_mdbook_names_them() {
    assert_eq!(place(" The order: `a_b`, 2 of 3?"), "the-order-a_b-2-of-3");
    let text = "# One\n```\n# no heading\n```\n## Two words\n";
    assert_eq!(
        places(text),
        BTreeSet::from(["one", "two-words"].map(str::to_string))
    );
}

/// Links in a page that mdBook has written.
fn written_links(html: &str) -> impl Iterator<Item = &str> {
    let parts = ["href=\"", "src=\""].map(|start| html.split(start).skip(1));
    let targets = parts.into_iter().flatten();
    targets
        .filter_map(|part| part.split('"').next())
        .filter(|target| !target.contains(':') && !target.starts_with('#'))
}

/// `cargo install mdbook`; without it this test says so and passes.
#[test]
fn mdbook_builds_it_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("mdbook");
    let command = command.arg("build").arg(root().join("docs"));
    let Ok(done) = command.arg("--dest-dir").arg(folder.path()).output() else {
        eprintln!("skipped: no mdbook on this machine");
        return;
    };
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    let pages = files(folder.path(), "html");
    assert!(pages.len() > 30, "{pages:?}");
    for page in pages.iter().filter(|page| *page != "404.html") {
        let path = folder.path().join(page);
        let html = read(&path);
        for target in written_links(&html) {
            let file = target.split(['#', '?']).next().unwrap_or_default();
            let target = path.parent().unwrap().join(file);
            let known = target.exists() || in_repository(page, file);
            assert!(known, "{page} leads to {file}");
        }
    }
}

/// Links out of the book lead to files of the repository that it is part of.
fn in_repository(page: &str, file: &str) -> bool {
    let from = root().join("docs").join(page);
    let target = from.parent().unwrap().join(file);
    file.starts_with("../") && (target.exists() || target.with_extension("md").exists())
}
