//! Where answers go.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use schedcast_base::fresh;
use schedcast_lab::answer::Answer;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::units::quote_word;
use schedcast_present::tables::{self, Layout, export};

use crate::arguments::{Format, Output};
use crate::written;

/// The layout of a table.
///
/// # Errors
/// `tool`, which is no table: it prints one run. Ratios of another layout than mmtests'.
pub(crate) fn layout(output: &Output) -> Result<Layout> {
    if output.print_ratio && output.format != Format::Mmtests {
        return Err(Error::usage("`--print-ratio` is a table of mmtests")
            .hint("add `--format mmtests`, or leave it out"));
    }
    match output.format {
        // JSON takes the place of the table.
        Format::Table | Format::Json => Ok(Layout::Text),
        Format::Markdown => Ok(Layout::Markdown),
        Format::Mmtests if output.print_ratio => Ok(Layout::MmtestsRatios),
        Format::Mmtests => Ok(Layout::Mmtests),
        Format::Lkp => Ok(Layout::Lkp),
        Format::Tool => Err(
            Error::usage("`--format tool` prints one run, without --json")
                .hint("use it with `schedcast run`, and --variant if there are several"),
        ),
    }
}

/// Refuses files that cannot be written later, before anything is simulated for them: folders,
/// files in folders that do not exist or take no files.
///
/// # Errors
/// The first such file.
pub(crate) fn refuse_unwritable<'a>(
    files: impl IntoIterator<Item = Option<&'a PathBuf>>,
) -> Result<()> {
    for file in files.into_iter().flatten() {
        if file == Path::new("-") {
            continue;
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        let problem = if file.is_dir() {
            "it is a folder".to_string()
        } else if folder != Path::new("") && !folder.is_dir() {
            format!("there is no folder {}", folder.display())
        } else {
            fresh::check(file).map_err(|error| Error::file("write", file.display(), &error))?;
            continue;
        };
        let problem = std::io::Error::other(problem);
        return Err(Error::file("write", file.display(), &problem));
    }
    Ok(())
}

/// Refuses a file where a folder is to be filled later.
///
/// # Errors
/// `folder` is a file.
pub(crate) fn refuse_no_folder(folder: Option<&Path>) -> Result<()> {
    match folder.filter(|folder| folder.exists() && !folder.is_dir()) {
        None => Ok(()),
        Some(file) => {
            let problem = std::io::Error::other("it is a file");
            Err(Error::file("write into", file.display(), &problem))
        }
    }
}

/// Prints the table, and writes the JSON where it was asked for. With `--json -` standard output is
/// the JSON alone.
pub(crate) fn print(answer: &Answer, output: &Output, out: &mut impl Write) -> Result<()> {
    let layout = layout(output)?;
    let json = || answer.comparison.to_json();
    let text = match output.format {
        Format::Json => json(),
        _ => tables::table(answer, layout),
    };
    give(&text, || Ok(json()), output.json.as_deref(), out)?;
    match &output.export {
        Some(folder) => export::write(&answer.comparison, folder).map(drop),
        None => Ok(()),
    }
}

/// Prints a text, and makes and writes its JSON where that was asked for. With `-` standard output
/// is the JSON alone.
pub(crate) fn give(
    text: &str,
    json: impl FnOnce() -> Result<String>,
    file: Option<&Path>,
    out: &mut impl Write,
) -> Result<()> {
    match file {
        Some(path) if path == Path::new("-") => written(out.write_all(json()?.as_bytes())),
        Some(path) => {
            // First what was waited for: the file may not be written, say on a full disk.
            written(out.write_all(text.as_bytes()))?;
            fresh::save(path, json()?)
        }
        None => written(out.write_all(text.as_bytes())),
    }
}

/// Writes a text into a file, or with `-` to standard output.
pub(crate) fn save(path: &Path, text: &str, out: &mut impl Write) -> Result<()> {
    match path == Path::new("-") {
        true => written(out.write_all(text.as_bytes()).and_then(|()| out.flush())),
        false => fresh::save(path, text),
    }
}

/// The words of the command line, quoted for a shell.
pub(crate) fn reproduce(words: &[OsString]) -> Vec<String> {
    let arguments = words.iter().skip(1);
    let quoted = arguments.map(|word| quote_word(&word.to_string_lossy()));
    std::iter::once("schedcast".to_string())
        .chain(quoted)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_printed_before_a_file_that_cannot_be_written() {
        let mut printed = Vec::new();
        let nowhere = Path::new("/nowhere/d/j.json");
        let error = give("table\n", || Ok(String::new()), Some(nowhere), &mut printed);
        assert!(error.unwrap_err().to_string().contains("/nowhere/d/j.json"));
        assert_eq!(printed, b"table\n");
    }
}
