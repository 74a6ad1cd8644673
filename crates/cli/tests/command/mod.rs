//! The command as a test runs it.

use std::process::{Command, Output};

/// Runs `schedcast` with `words` to its end.
pub(crate) fn schedcast(words: &[impl AsRef<str>]) -> Output {
    let words = words.iter().map(AsRef::as_ref);
    Command::new(env!("CARGO_BIN_EXE_schedcast"))
        .args(words)
        .output()
        .unwrap()
}

/// Runs a command line of words without blanks, then words with some, which must succeed; its
/// standard output.
#[allow(dead_code)]
#[track_caller]
pub(crate) fn answer(line: &str, more: &[&str]) -> String {
    let words: Vec<&str> = line.split(' ').chain(more.iter().copied()).collect();
    let done = schedcast(&words);
    assert!(done.status.success(), "{line}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// Text of the bytes that the command printed.
#[allow(dead_code)]
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
