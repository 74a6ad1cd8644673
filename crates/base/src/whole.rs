//! Files that are read as a whole, unless they go on for longer than any such file does.
//!
//! An experiment, an rt-app file, a list of requests or an answer of Prometheus is small; a device
//! or a pipe without an end, given by mistake, is refused once [`MOST_BYTES`] of it are read,
//! instead of taking all memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::Error;

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
pub fn text(path: &Path) -> crate::error::Result<String> {
    read_text(path).map_err(|error| Error::file("read", path.display(), &error))
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
