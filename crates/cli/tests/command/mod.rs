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

/// Text of the bytes that the command printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
