//! The book: every page is in its table of contents, every link leads somewhere, and every transcript
//! is what the command prints.
//!
//! A transcript is a fenced block marked `console`. A line `$ schedcast …` is run and what follows is
//! compared with standard output; `$ cat FILE` shows a file of the repository to the byte. A line `…`
//! stands for any lines. Numbers may be off by a quarter, and spreads (`±`) by anything: the text
//! around them says what is large and what is small, and that must stay true when the model of a
//! detail gets better. `SCHEDCAST_WRITE_BOOK=1` writes today's numbers into the pages.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Markdown file below `directory`, relative to it, without the table of contents.
fn pages(directory: &Path) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let page = path.strip_prefix(directory).unwrap();
                pages.insert(page.to_str().unwrap().to_string());
            }
        }
    }
    pages.remove("SUMMARY.md");
    pages
}

/// Targets of `[text](target)` without addresses and places within a page.
fn links(text: &str) -> Vec<&str> {
    let parts = text.split("](").skip(1);
    let targets = parts.filter_map(|part| part.split_once(')'));
    let files = targets.map(|(target, _)| target.split('#').next().unwrap_or_default());
    files
        .filter(|target| !target.is_empty() && !target.contains(':') && !target.contains(' '))
        .collect()
}

#[test]
fn the_table_of_contents_has_every_page() {
    let docs = root().join("docs");
    let summary = read(&docs.join("SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary).into_iter().map(str::to_string).collect();
    assert_eq!(listed, pages(&docs));
}

#[test]
fn links_between_pages_lead_somewhere() {
    let docs = root().join("docs");
    for page in pages(&docs) {
        let path = docs.join(&page);
        let text = read(&path);
        let to_pages = links(&text)
            .into_iter()
            .filter(|link| link.ends_with(".md"));
        for link in to_pages {
            let target = path.parent().unwrap().join(link);
            assert!(target.exists(), "{page} links to {link}");
        }
    }
}

/// One command of a transcript and the lines below it.
struct Shown {
    command: String,
    lines: Vec<String>,
    /// Lines of the page that `lines` are.
    range: std::ops::Range<usize>,
}

fn transcripts(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            found.push(Shown {
                command: command.to_string(),
                lines: Vec::new(),
                range: index + 1..index + 1,
            });
        } else if inside && let Some(shown) = found.last_mut() {
            shown.lines.push(line.to_string());
            shown.range.end = index + 1;
        }
    }
    found
}

/// The words of a command line; single quotes keep words together.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in command.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn output(command: &str, directory: &Path) -> String {
    let words = words(command);
    match words[0].as_str() {
        "cat" => read(&root().join(&words[1])),
        "schedcast" => {
            let mut child = Command::new(env!("CARGO_BIN_EXE_schedcast"));
            let done = child.args(&words[1..]).current_dir(directory).output();
            let done = done.unwrap();
            let said = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success(), "{command}\n{said}");
            String::from_utf8(done.stdout).unwrap()
        }
        other => panic!("a transcript runs `{other}`"),
    }
}

/// A word that is a number, without what surrounds it.
fn number(word: &str) -> Option<f64> {
    word.trim_matches(['(', ')', '+', '%', ',', ':'])
        .parse()
        .ok()
}

fn alike(shown: &str, printed: &str) -> bool {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (
        shown.split_whitespace().collect(),
        printed.split_whitespace().collect(),
    );
    let same = |shown: &str, printed: &str| match (number(shown), number(printed)) {
        (Some(left), Some(right)) => {
            (left - right).abs() <= 0.25 * left.abs().max(right.abs()) + 1.0
        }
        _ => shown == printed || (shown.starts_with('±') && printed.starts_with('±')),
    };
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(one, two)| same(one, two))
}

/// The printed line for each shown one; the shown line that has none.
fn matched(shown: &[String], printed: &str) -> Result<Vec<String>, String> {
    let mut printed = printed.lines();
    let mut skipping = false;
    let mut found = Vec::new();
    for line in shown {
        if line == "…" {
            skipping = true;
            found.push(line.clone());
            continue;
        }
        let first = line.split_whitespace().next();
        let next = match skipping {
            true => printed.find(|other| other.split_whitespace().next() == first),
            false => printed.next(),
        };
        skipping = false;
        found.push(next.ok_or_else(|| line.clone())?.to_string());
    }
    match printed.find(|line| !line.is_empty()) {
        Some(rest) if !skipping => Err(format!("(end, but printed is: {rest})")),
        _ => Ok(found),
    }
}

/// A page's commands see the experiment files that lie beside it.
fn link_examples(folder: &Path, directory: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path().canonicalize().unwrap();
        let link = directory.join(path.file_name().unwrap());
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !link.exists()
        {
            std::os::unix::fs::symlink(&path, &link).unwrap();
        }
    }
}

#[test]
fn transcripts_are_what_the_command_prints() {
    let temporary = tempfile::tempdir().unwrap();
    for folder in ["examples", "recordings"] {
        let target = root().join(folder).canonicalize().unwrap();
        std::os::unix::fs::symlink(target, temporary.path().join(folder)).unwrap();
    }
    let write = std::env::var_os("SCHEDCAST_WRITE_BOOK").is_some();
    let docs = root().join("docs");
    let mut complaints = Vec::new();
    let mut commands = 0;
    for page in pages(&docs) {
        link_examples(docs.join(&page).parent().unwrap(), temporary.path());
        let text = read(&docs.join(&page));
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        for shown in transcripts(&text) {
            commands += 1;
            let printed = output(&shown.command, temporary.path());
            let exact = shown.command.starts_with("cat ");
            match matched(&shown.lines, &printed) {
                Err(line) => complaints.push(format!("{page}: {}: no {line}", shown.command)),
                Ok(today) if write => lines[shown.range].clone_from_slice(&today),
                Ok(today) => {
                    for (line, today) in shown.lines.iter().zip(&today) {
                        if line != today && (exact || !alike(line, today)) {
                            complaints
                                .push(format!("{page}: {}\n- {line}\n+ {today}", shown.command));
                        }
                    }
                }
            }
        }
        if write {
            std::fs::write(docs.join(&page), lines.join("\n") + "\n").unwrap();
        }
    }
    assert!(commands >= 10, "only {commands} commands are shown");
    let advice = "if the new lines are right and the text still holds: SCHEDCAST_WRITE_BOOK=1";
    assert!(complaints.is_empty(), "{}\n{advice}", complaints.join("\n"));
}

#[test]
fn lines_are_alike_within_a_quarter() {
    assert!(alike(
        "a/p99 (ms)  142.8 ±26.0  *",
        "a/p99 (ms)   120.0 ±1.0   *"
    ));
    assert!(!alike("a/p99 (ms)  142.8 ±26.0", "a/p99 (ms)   45.2 ±26.0"));
    assert!(!alike("a/p99 (ms)  142.8 ±26.0", "a/p99 (us)  142.8 ±26.0"));
    assert!(!alike("a  10.0 ±1", "a  10.0 ±1 *"));
    let shown = ["one 1", "…", "three 3"].map(str::to_string);
    assert_eq!(
        matched(&shown, "one 1\ntwo 2\nthree 4\n").unwrap()[2],
        "three 4"
    );
    assert!(matched(&shown, "one 1\ntwo 2\n").is_err());
    assert!(matched(&shown, "one 1\ntwo 2\nthree 3\nfour\n").is_err());
}
