//! The `main` of every example: words in, exit code out.

use std::fmt::Display;
use std::process::ExitCode;

/// Runs `work` with the words behind the program's name; what goes wrong is told under the name of
/// the example.
///
/// Worked example: `known_answers` without words prints
/// `known_answers: expected SECTION [--into FILE]; …` on standard error and ends with 1.
pub(crate) fn run<E: Display>(name: &str, work: impl FnOnce(&[&str]) -> Result<(), E>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match work(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
