//! Transcripts: reading them, running their commands, comparing what is printed.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::pages::{read, root};

/// One command of a transcript and the lines below it.
pub(crate) struct Shown {
    pub command: String,
    pub lines: Vec<String>,
    /// Lines of the page that `lines` are.
    pub range: std::ops::Range<usize>,
    /// Whether it is for the superuser of a live machine.
    pub live: bool,
}

/// The command behind a prompt, and whether it is root's.
fn prompt(line: &str) -> Option<(&str, bool)> {
    let user = line.strip_prefix("$ ").map(|command| (command, false));
    user.or_else(|| line.strip_prefix("# ").map(|command| (command, true)))
}

pub(crate) fn transcripts(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        let continued = found
            .last_mut()
            .filter(|shown| shown.command.ends_with('\\'));
        if let Some(shown) = continued {
            shown.command.pop();
            shown.command += line.trim_start();
            shown.range = index + 1..index + 1;
        } else if let Some((command, live)) = prompt(line) {
            found.push(Shown {
                command: command.to_string(),
                lines: Vec::new(),
                range: index + 1..index + 1,
                live,
            });
        } else if let Some(shown) = found.last_mut() {
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

/// Output of a command in `directory`. Behind `; echo $?` any exit code is fine, and is printed;
/// else it must be 0.
pub(crate) fn output(command: &str, directory: &Path) -> String {
    let (asked, with_code) = match command.strip_suffix("; echo $?") {
        Some(asked) => (asked, true),
        None => (command, false),
    };
    let words = words(asked);
    let program = match words[0].as_str() {
        "cat" => return read(&root().join(&words[1])),
        "ls" => return names(&directory.join(&words[1])),
        "schedcast" if words[1] == "serve" => return first_line(&words[1..], directory),
        "schedcast" => env!("CARGO_BIN_EXE_schedcast"),
        "mkdir" | "rmdir" => &words[0],
        other => panic!("a transcript runs `{other}`"),
    };
    // In the order of a terminal, notes on standard error where they fall.
    let mut child = Command::new("sh");
    child.args(["-c", "exec \"$0\" \"$@\" 2>&1", program]);
    let done = child.args(&words[1..]).current_dir(directory).output();
    let done = done.unwrap();
    let printed = String::from_utf8(done.stdout).unwrap();
    if with_code {
        return format!("{printed}{}\n", done.status.code().unwrap());
    }
    assert!(done.status.success(), "{command}\n{printed}");
    printed
}

/// Output of `ls`.
fn names(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let line = |name: OsString| name.into_string().unwrap() + "\n";
    names.into_iter().map(line).collect()
}

/// A server prints one line and stays; it is ended then. It takes any port here and says its usual
/// one.
fn first_line(words: &[String], directory: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedcast"));
    let command = command
        .args(words)
        .args(["--port", "0"])
        .current_dir(directory);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    child.kill().unwrap();
    child.wait().unwrap();
    read.unwrap();
    let (address, rest) = line.split_once(" (").unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.trim_end_matches('/').parse().unwrap();
    assert_ne!(port, 0);
    format!("{host}:7160/ ({rest}")
}

/// A word that is a number, without what surrounds it.
fn number(word: &str) -> Option<f64> {
    word.trim_matches(['(', ')', '+', '%', ',', ':', '*', '≤', '≥', '/', 's', ';'])
        .parse()
        .ok()
}

/// How far numbers may be off.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Numbers {
    /// By a quarter.
    Near,
    /// By anything: they are of the machine the test runs on.
    Any,
}

pub(crate) fn alike(shown: &str, printed: &str, numbers: Numbers) -> bool {
    let (shown, printed): (Vec<&str>, Vec<&str>) = (
        shown.split_whitespace().collect(),
        printed.split_whitespace().collect(),
    );
    let spread = |word: &str| word.starts_with(['±', '≤', '≥']);
    let same = |shown: &str, printed: &str| match (number(shown), number(printed)) {
        (Some(_), Some(_)) if numbers == Numbers::Any => true,
        (Some(left), Some(right)) => {
            (left - right).abs() <= 0.25 * left.abs().max(right.abs()) + 1.0
        }
        _ => shown == printed || (spread(shown) && spread(printed)),
    };
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(one, two)| same(one, two))
}

/// The printed line for each shown one; the shown line that has none. What follows a `…` begins
/// where the lines up to the next one begin as the printed ones do.
pub(crate) fn matched(shown: &[String], printed: &str) -> Result<Vec<String>, String> {
    let first = |line: &str| line.split_whitespace().next().map(str::to_string);
    let printed: Vec<&str> = printed.trim_end().lines().collect();
    let mut at = 0;
    let mut found = Vec::new();
    for (index, block) in shown.split(|line| line == "…").enumerate() {
        let here = |from: usize| {
            let there = printed.get(from..from + block.len());
            there.is_some_and(|there| block.iter().zip(there).all(|(a, b)| first(a) == first(b)))
        };
        if index > 0 {
            found.push("…".to_string());
            at = (at..printed.len())
                .find(|from| here(*from))
                .ok_or_else(|| block.first().cloned().unwrap_or_default())?;
        }
        let there = printed.get(at..at + block.len());
        let there = there.ok_or_else(|| block[printed.len() - at].clone())?;
        found.extend(there.iter().map(|line| line.to_string()));
        at += block.len();
    }
    match printed.get(at) {
        Some(rest) if shown.last().is_some_and(|line| line != "…") => {
            Err(format!("(end, but printed is: {rest})"))
        }
        _ => Ok(found),
    }
}

#[test]
fn lines_are_alike_within_a_quarter() {
    let near = |shown: &str, printed: &str| alike(shown, printed, Numbers::Near);
    assert!(near(
        "a/p99 (ms)  142.8 ±26.0  *",
        "a/p99 (ms)   120.0 ±1.0   *"
    ));
    assert!(!near("a/p99 (ms)  142.8 ±26.0", "a/p99 (ms)   45.2 ±26.0"));
    assert!(!near("a/p99 (ms)  142.8 ±26.0", "a/p99 (us)  142.8 ±26.0"));
    assert!(!near("a  10.0 ±1", "a  10.0 ±1 *"));
    assert!(near("Amean  5 * -37.79%*", "Amean  6 * -40.00%*"));
    assert!(alike("1.1 s, 20 events", "9.0 s, 777 events", Numbers::Any));
    assert!(!alike("1.1 s, 20 events", "9.0 s, 777 lost", Numbers::Any));
    let shown = ["one 1", "…", "three 3"].map(str::to_string);
    assert_eq!(
        matched(&shown, "one 1\ntwo 2\nthree 4\n").unwrap()[2],
        "three 4"
    );
    assert!(matched(&shown, "one 1\ntwo 2\n").is_err());
    assert!(matched(&shown, "one 1\ntwo 2\nthree 3\nfour\n").is_err());
}

#[test]
fn prompts_continue_behind_a_backslash() {
    let page = "```console\n$ schedcast a \\\n    b\nc\n# rmdir d\n```\n$ no\n";
    let found = transcripts(page);
    let commands: Vec<(&str, bool)> = found
        .iter()
        .map(|shown| (shown.command.as_str(), shown.live))
        .collect();
    assert_eq!(commands, [("schedcast a b", false), ("rmdir d", true)]);
    assert_eq!(
        (found[0].range.clone(), &found[0].lines[..]),
        (3..4, &["c".to_string()][..])
    );
}
