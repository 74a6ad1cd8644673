//! Places in a file, and errors that name them.

use std::fmt;

/// A place in a file: line and column, both counted from 1. A column is one character, and a tab
/// is one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

/// Mistake in a file with its place, printed as `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{span}: {message}")]
pub struct Error {
    /// Name of the file, as given to the reader.
    pub file: String,
    /// Where.
    pub span: Span,
    /// Mistake, what was expected and, for an unknown name, the nearest valid one.
    pub message: String,
}

/// An [`Error`] that does not know the name of its file yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub span: Span,
    /// Description of the mistake.
    pub message: String,
}

impl Fault {
    pub(super) fn new(span: Span, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
        }
    }

    pub(super) fn in_file(self, file: &str) -> Error {
        Error {
            file: file.to_owned(),
            span: self.span,
            message: self.message,
        }
    }
}

/// Longest piece of the user's text that a message repeats.
const QUOTED_CHARACTERS_MAX: usize = 40;

/// The user's text between quotes, on one line and not too long.
pub(super) fn quoted(text: &str) -> String {
    let mut shown = String::from("\"");
    let mut characters = text.chars();
    for character in characters.by_ref().take(QUOTED_CHARACTERS_MAX) {
        match character {
            '\'' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    if characters.next().is_some() {
        shown.push('…');
    }
    shown.push('"');
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_file_line_and_column() {
        let fault = Fault::new(
            Span {
                line: 3,
                column: 14,
            },
            "expected a value",
        );
        assert_eq!(
            fault.in_file("w.json").to_string(),
            "w.json:3:14: expected a value"
        );
    }

    #[test]
    fn quoted_text_stays_short_and_on_one_line() {
        assert_eq!(quoted("it's\na \"b\""), r#""it's\na \"b\"""#);
        assert_eq!(quoted(&"x".repeat(41)), format!("\"{}…\"", "x".repeat(40)));
    }
}
