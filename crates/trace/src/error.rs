//! One error type for everything that can be wrong with a recording.
//!
//! An error says which file, and where it is known which line and byte column (both from 1), what
//! was expected and what stood there instead:
//!
//! ```text
//! trace.txt:14:87: expected ` pid=` after the task's name, found `ptd=15 prio=120 target_cpu=001`
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use schedcast_base::names::nearest;

/// Kind of the error, for callers that treat some kinds differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The operating system refused (missing file, permission, device).
    Io,
    /// The file ends in the middle of something.
    Truncated,
    /// The content does not follow the format.
    Malformed,
    /// A key, event state, value or column that this version does not know.
    Unknown,
    /// A known format or setting that cannot be used here; the message says what to do instead.
    Unsupported,
}

/// Why a recording could not be read, and where.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ReadError {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// The file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// The byte column, counted from 1.
    pub column: Option<u64>,
    /// The place in a binary file, in bytes from 0.
    pub offset: Option<u64>,
    /// Expected and found text, without the place.
    pub message: String,
}

impl ReadError {
    /// An error about `file` as a whole.
    pub fn new(kind: ErrorKind, file: &Path, message: impl Into<String>) -> ReadError {
        ReadError {
            kind,
            file: file.to_owned(),
            line: None,
            column: None,
            offset: None,
            message: message.into(),
        }
    }

    /// The operating system's own words about `file`.
    pub(crate) fn io(file: &Path, error: &std::io::Error) -> ReadError {
        ReadError::new(ErrorKind::Io, file, error.to_string())
    }

    /// The same error with its line, counted from 1.
    pub(crate) fn at_line(mut self, line: u64) -> ReadError {
        self.line = Some(line);
        self
    }

    /// The same error with its byte column, counted from 1.
    pub(crate) fn at_column(mut self, column: u64) -> ReadError {
        self.column = Some(column);
        self
    }

    /// The same error with its place in a binary file, in bytes from 0.
    pub(crate) fn at_offset(mut self, offset: u64) -> ReadError {
        self.offset = Some(offset);
        self
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
            if let Some(column) = self.column {
                write!(f, ":{column}")?;
            }
        }
        if let Some(offset) = self.offset {
            write!(f, ": at byte {offset}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The words an error uses about an unknown `what`: the nearest name, or the whole list.
pub(crate) fn unknown_name(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{name}`; did you mean `{near}`?"),
        None => format!("unknown {what} `{name}`; known: {}", known.join(", ")),
    }
}

/// Bytes as they can stand in a message: printable, quoted, at most 48 of them.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 48;
    if bytes.is_empty() {
        return "the end of the line".to_owned();
    }
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let dots = if shown.len() < bytes.len() { "…" } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_comes_first() {
        let error = ReadError::new(
            ErrorKind::Malformed,
            Path::new("a/trace.txt"),
            "expected a number",
        );
        assert_eq!(error.to_string(), "a/trace.txt: expected a number");
        let error = error.at_line(14);
        assert_eq!(error.to_string(), "a/trace.txt:14: expected a number");
        assert_eq!(
            ReadError::new(ErrorKind::Truncated, Path::new("a.dat"), "cut off")
                .at_offset(16)
                .to_string(),
            "a.dat: at byte 16: cut off"
        );
        assert_eq!(
            error.at_column(87).to_string(),
            "a/trace.txt:14:87: expected a number"
        );
    }

    #[test]
    fn only_near_names_are_offered() {
        let known = ["kernel", "events", "cpus", "hz"];
        assert_eq!(
            unknown_name("key", "evnts", &known),
            "unknown key `evnts`; did you mean `events`?"
        );
        assert_eq!(
            unknown_name("key", "colour", &known),
            "unknown key `colour`; known: kernel, events, cpus, hz"
        );
    }

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt(b""), "the end of the line");
        assert_eq!(excerpt(b"a\x00b"), "`a\\x00b`");
        assert_eq!(excerpt(&[b'x'; 100]), format!("`{}…`", "x".repeat(48)));
    }
}
