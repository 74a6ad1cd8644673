//! Files that are read as a whole, unless they go on for longer than any such file does.
//!
//! An experiment, an rt-app file, a list of requests or an answer of Prometheus is small; a device
//! or a pipe without an end, given by mistake, is refused once [`MOST_BYTES`] of it are read,
//! instead of taking all memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::names::nearest;

/// Some millions of requests, or a week of counters: more than any file that is not a trace.
pub const MOST_BYTES: u64 = 256 << 20;

/// All bytes of a file.
///
/// # Errors
/// A file that cannot be read, or one of more than [`MOST_BYTES`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?)
}

/// All bytes of a file, or of an answer, that is open.
///
/// # Errors
/// As [`read`].
pub fn read_all(from: impl Read) -> io::Result<Vec<u8>> {
    read_up_to(from, MOST_BYTES)
}

/// All of a file of text.
///
/// # Errors
/// As [`read`], and a file that is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path)?).map_err(not_text)
}

/// The same; a failure names the file.
///
/// # Errors
/// As [`read_text`].
pub fn text(path: &Path) -> Result<String> {
    read_text(path).map_err(|error| Error::file("read", path.display(), &error))
}

/// The same; a failure says besides what was `expected` and which name is near.
///
/// # Errors
/// As [`read_text`].
pub fn expected_text(path: &Path, expected: &str) -> Result<String> {
    text(path).map_err(|error| error.hint(instead_of(path, expected)))
}

/// Hint at a `path` that is not what was `expected`.
pub fn instead_of(path: &Path, expected: &str) -> String {
    match beside(path) {
        Some(near) => format!("`{}` is there; {expected}", near.display()),
        None => expected.to_owned(),
    }
}

/// The file or folder beside a missing one that has the nearest name.
fn beside(path: &Path) -> Option<PathBuf> {
    /// Of a folder with more names, these are looked at.
    const MOST_NAMES: usize = 10_000;
    let name = path.file_name()?.to_str().filter(|_| !path.exists())?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let there = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let names = there.take(MOST_NAMES).flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    let near = nearest(name, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near))
}

fn read_up_to(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let mib = most >> 20;
        let message = format!("it goes on after {mib} MiB, which no such file does");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_up_to_the_bound_are_read_and_longer_ones_refused() {
        let file = &b"1234"[..];
        assert_eq!(read_up_to(file, 4).unwrap(), b"1234");
        let error = read_up_to(file, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_file_without_end_is_refused() {
        let error = read_up_to(io::repeat(0), 1 << 20).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it goes on after 1 MiB, which no such file does"
        );
    }

    #[test]
    fn what_lies_beside_a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("burst-gird.toml");
        assert_eq!(instead_of(&path, "expected a grid"), "expected a grid");
        let near = folder.path().join("burst-grid.toml");
        std::fs::write(&near, "").unwrap();
        let expected = format!("`{}` is there; expected a grid", near.display());
        assert_eq!(instead_of(&path, "expected a grid"), expected);
        let refused = expected_text(&path, "expected a grid").unwrap_err();
        assert!(refused.render().ends_with(&format!("hint: {expected}\n")));
        assert_eq!(instead_of(&near, "expected a grid"), "expected a grid");
    }

    #[test]
    fn what_is_not_text_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(
            read_text(&path).unwrap_err().to_string(),
            "it is not UTF-8 text"
        );
    }
}
