//! Where answers go.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use schedcast_lab::answer::{Answer, Layout};
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::units::quote_word;

use crate::arguments::{Format, Output};
use crate::written;

/// Prints the table, and writes the JSON where it was asked for. With `--json -` standard output is
/// the JSON alone.
pub fn print(answer: &Answer, output: &Output, out: &mut impl Write) -> Result<()> {
    let layout = match output.format {
        Format::Table => Layout::Text,
        Format::Markdown => Layout::Markdown,
        Format::Mmtests => Layout::Mmtests,
        Format::Lkp => Layout::Lkp,
    };
    match output.json.as_deref() {
        Some(path) if path == Path::new("-") => {
            return written(out.write_all(answer.comparison.to_json().as_bytes()));
        }
        Some(path) => std::fs::write(path, answer.comparison.to_json())
            .map_err(|error| Error::file("write", path.display(), &error))?,
        None => {}
    }
    written(out.write_all(answer.table(layout).as_bytes()))
}

/// The command line, quoted for a shell.
pub fn reproduce(words: &[OsString]) -> String {
    let words = words
        .iter()
        .skip(1)
        .map(|word| quote_word(&word.to_string_lossy()));
    std::iter::once("schedcast".to_string())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}
