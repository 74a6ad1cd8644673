//! Errors: the mistake, its place, and what to type instead.
//!
//! Every mistake in a file or on the command line becomes a [`Diagnostic`]: a sentence, the
//! [`Place`] it is about and, where one is near, the name that was probably meant. For the file
//! `exp.toml` with `"cpu.maxx" = "max"` in line 2 the diagnostic prints as
//!
//! ```text
//! error: unknown key `cpu.maxx`
//!   --> exp.toml:2:1
//!   |
//! 2 | "cpu.maxx" = "max"
//!   | ^^^^^^^^^^
//! hint: the nearest valid name is `cpu.max`
//! ```
//!
//! Text in a file may be megabytes long or made to fool a terminal, so a complaint quotes only the
//! neighbourhood of its place, escaped, and cuts a message that is too long to read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::harmless::{one_line, shortened};

/// Longest message or hint that is shown, characters.
const LONGEST_MESSAGE: usize = 2000;
/// Most characters of a quoted line before its marked part, in it, and behind it.
const QUOTED: (usize, usize, usize) = (80, 80, 40);

/// A text that settings were read from: a file, or one command-line argument.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// File name as the user gave it, or the flag, such as `--set`.
    pub name: String,
    /// The whole text, for quoting the offending line.
    pub text: String,
    /// Whether it is an argument, and no file.
    is_of_command_line: bool,
}

impl Source {
    /// A source ready to be shared by the places in it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Arc<Source> {
        Source::shared(name, text, false)
    }

    /// The same of the argument of a flag, or of the command behind `--`.
    pub fn of_command_line(name: impl Into<String>, text: impl Into<String>) -> Arc<Source> {
        Source::shared(name, text, true)
    }

    fn shared(
        name: impl Into<String>,
        text: impl Into<String>,
        is_of_command_line: bool,
    ) -> Arc<Source> {
        Arc::new(Source {
            name: name.into(),
            text: text.into(),
            is_of_command_line,
        })
    }
}

/// A range of bytes in a [`Source`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where the text came from.
    pub source: Arc<Source>,
    /// Byte range in [`Source::text`].
    pub span: Range<usize>,
}

impl Place {
    /// The place `span` of `source`.
    pub fn new(source: &Arc<Source>, span: Range<usize>) -> Place {
        Place {
            source: Arc::clone(source),
            span,
        }
    }

    /// The first `char` boundary at or before `offset`.
    fn boundary(&self, offset: usize) -> usize {
        let text = &self.source.text;
        let mut at = offset.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    /// Line and column, both from 1, the column in characters.
    pub(crate) fn line_column(&self) -> (usize, usize) {
        let start = self.boundary(self.span.start);
        let before = &self.source.text[..start];
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (line, before[line_start..].chars().count() + 1)
    }

    /// The text of the line that the place starts in, without its newline.
    fn line_text(&self) -> &str {
        let text = &self.source.text;
        let start = self.boundary(self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..]
            .find('\n')
            .map_or(text.len(), |length| start + length);
        text[line_start..line_end].trim_end_matches('\r')
    }

    /// The line that the place starts in, as it is shown: what stands before the place, the
    /// characters of the place in this line, and what follows.
    fn quoted(&self) -> [String; 3] {
        let text = &self.source.text;
        let start = self.boundary(self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = line_start + self.line_text().len();
        let start = start.min(line_end);
        let end = self.boundary(self.span.end).clamp(start, line_end);
        // A tab stays a tab, so that the carets stand below their text.
        let shown = |text: &str| {
            let parts: Vec<String> = text.split('\t').map(one_line).collect();
            parts.join("\t")
        };
        let first = |text: &str, longest: usize| match text.char_indices().nth(longest) {
            Some((end, _)) => format!("{}…", shown(&text[..end])),
            None => shown(text),
        };
        let before = &text[line_start..start];
        let from = before.char_indices().rev().nth(QUOTED.0 - 1);
        let before = match from.filter(|(at, _)| *at > 0) {
            Some((at, _)) => format!("…{}", shown(&before[at..])),
            None => shown(before),
        };
        let spanned = first(&text[start..end], QUOTED.1);
        [before, spanned, first(&text[end..line_end], QUOTED.2)]
    }
}

/// Prints `file:line:column`.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(formatter, "{}:{line}:{column}", one_line(&self.source.name))
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it was written.
    pub place: Place,
}

impl<T> Located<T> {
    /// A value at this place.
    pub fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }
}

/// One complaint, with its place if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Description of the mistake, one sentence without a full stop.
    pub message: String,
    /// Place of the mistake, if it has one.
    pub place: Option<Place>,
    /// Remedy, if one is known.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A complaint about `place`.
    pub(crate) fn at(place: &Place, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            message: message.into(),
            place: Some(place.clone()),
            hint: None,
        }
    }

    /// A complaint that no place can be given for.
    pub(crate) fn general(message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            message: message.into(),
            place: None,
            hint: None,
        }
    }

    /// Whether the mistake stands on the command line.
    fn is_of_command_line(&self) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|place| place.source.is_of_command_line)
    }

    /// The same complaint with advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// The several-line form for a terminal, ending in a newline: message, place, the offending
    /// line with carets, hint.
    pub(crate) fn render(&self) -> String {
        let mut text = format!("error: {}\n", shortened(&self.message, LONGEST_MESSAGE));
        if let Some(place) = &self.place {
            let (line, _) = place.line_column();
            let gutter = " ".repeat(line.to_string().len());
            let [before, spanned, after] = place.quoted();
            let indent: String = before
                .chars()
                .map(|character| if character == '\t' { '\t' } else { ' ' })
                .collect();
            let carets = "^".repeat(spanned.chars().count().max(1));
            text += &format!("{gutter} --> {place}\n{gutter} |\n");
            text += &format!("{line} | {before}{spanned}{after}\n");
            text += &format!("{gutter} | {indent}{carets}\n");
        }
        if let Some(hint) = &self.hint {
            text += &format!("hint: {}\n", shortened(hint, LONGEST_MESSAGE));
        }
        text
    }
}

/// The one-line form: `file:line:column: message`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(formatter, "{place}: ")?;
        }
        formatter.write_str(&shortened(&self.message, LONGEST_MESSAGE))?;
        match &self.hint {
            Some(hint) => write!(formatter, " ({})", shortened(hint, LONGEST_MESSAGE)),
            None => Ok(()),
        }
    }
}

/// Every error this crate returns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The command line asks for something that cannot be: exit code 2.
    #[error("{0}")]
    Usage(Box<Diagnostic>),
    /// A file, a setting or a recording is wrong: exit code 3, or 2 in the value of a flag.
    #[error("{0}")]
    Input(Box<Diagnostic>),
    /// A file could not be read or written: exit code 3.
    #[error("cannot {action} {path}: {reason}")]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file, as the user gave it.
        path: String,
        /// The operating system's reason.
        reason: String,
        /// Remedy, if one is known.
        hint: Option<String>,
    },
}

impl Error {
    /// The exit code of a command that ends with this error (0 is fine, 1 is a failed check): 2 for
    /// a mistake on the command line, also in the value of a flag, 3 for one in a file.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Input(diagnostic) if diagnostic.is_of_command_line() => 2,
            Error::Input(_) | Error::File { .. } => 3,
        }
    }

    /// The several-line form for a terminal, ending in a newline.
    pub fn render(&self) -> String {
        match self {
            Error::Usage(diagnostic) | Error::Input(diagnostic) => diagnostic.render(),
            Error::File { hint, .. } => {
                let hint = hint.as_ref().map(|hint| format!("hint: {hint}\n"));
                format!("error: {self}\n{}", hint.unwrap_or_default())
            }
        }
    }

    /// A usage error without a place.
    pub fn usage(message: impl Into<String>) -> Error {
        Error::Usage(Box::new(Diagnostic::general(message)))
    }

    /// An input error that no place can be given for.
    pub fn general(message: impl Into<String>) -> Error {
        Error::Input(Box::new(Diagnostic::general(message)))
    }

    /// An input error at `place`.
    pub fn input(place: &Place, message: impl Into<String>) -> Error {
        Error::Input(Box::new(Diagnostic::at(place, message)))
    }

    /// The same error with advice.
    pub fn hint(self, advice: impl Into<String>) -> Error {
        match self {
            Error::Usage(diagnostic) => Error::Usage(Box::new(diagnostic.hint(advice))),
            Error::Input(diagnostic) => Error::Input(Box::new(diagnostic.hint(advice))),
            Error::File {
                action,
                path,
                reason,
                hint: _,
            } => Error::File {
                action,
                path,
                reason,
                hint: Some(advice.into()),
            },
        }
    }

    /// The same error with what it happened in before its message (no effect on
    /// [`Error::File`]).
    pub fn within(mut self, what: &str) -> Error {
        if let Error::Usage(diagnostic) | Error::Input(diagnostic) = &mut self {
            diagnostic.message = format!("{what}: {}", diagnostic.message);
        }
        self
    }

    /// The same complaint about something at `place`: an input error (no effect on
    /// [`Error::File`]).
    pub fn at(self, place: &Place) -> Error {
        match self {
            Error::Usage(diagnostic) | Error::Input(diagnostic) => {
                let place = Some(place.clone());
                Error::Input(Box::new(Diagnostic {
                    place,
                    ..*diagnostic
                }))
            }
            file @ Error::File { .. } => file,
        }
    }

    /// A failed read or write of `path`.
    pub fn file(action: &'static str, path: impl fmt::Display, error: &std::io::Error) -> Error {
        Error::File {
            action,
            path: path.to_string(),
            reason: error.to_string(),
            hint: None,
        }
    }
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The hint for a name that is not in `valid`: the nearest one, or all of them if none is near.
pub fn hint_for(word: &str, valid: &[&str]) -> String {
    match crate::names::nearest(word, valid.iter().copied()) {
        Some(name) => format!("the nearest valid name is `{name}`"),
        None if valid.is_empty() => "no name is valid here".to_string(),
        None => {
            format!("valid names are {}", crate::names::listed(valid))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let source = Source::new("a.toml", "é = 1\nzwei = 2\n");
        for (span, expected, why) in [
            (0..2, "a.toml:1:1", "the start"),
            (3..4, "a.toml:1:3", "é is one character of two bytes"),
            (7..11, "a.toml:2:1", "the second line"),
            (1..1, "a.toml:1:1", "inside é counts as its start"),
            (99..100, "a.toml:3:1", "past the end is the end"),
        ] {
            assert_eq!(Place::new(&source, span).to_string(), expected, "{why}");
        }
    }

    #[test]
    fn the_carets_stand_below_the_span() {
        let source = Source::new("a.toml", "x = 1\n\tkey = \"värde\" # note\n");
        let start = source.text.find('"').unwrap();
        let end = source.text.rfind('"').unwrap() + 1;
        let diagnostic =
            Diagnostic::at(&Place::new(&source, start..end), "not a number").hint("write 5");
        assert_eq!(
            diagnostic.render(),
            "error: not a number\n  --> a.toml:2:8\n  |\n2 | \tkey = \"värde\" # note\n  | \t      ^^^^^^^\nhint: write 5\n"
        );
        assert_eq!(diagnostic.to_string(), "a.toml:2:8: not a number (write 5)");
    }

    #[test]
    fn a_span_over_several_lines_is_marked_in_its_first() {
        let source = Source::new("a.toml", "a = [\n1,\n]\n");
        let diagnostic = Diagnostic::at(&Place::new(&source, 4..10), "no");
        assert!(diagnostic.render().ends_with("1 | a = [\n  |     ^\n"));
    }

    #[test]
    fn a_line_of_megabytes_is_quoted_around_its_place() {
        let source = Source::new("a\u{1b}.toml", "x".repeat(20_000_000));
        let place = Place::new(&source, 10_000_000..20_000_000);
        let text = Diagnostic::at(&place, "y".repeat(1_000_000)).render();
        let lines: Vec<&str> = text.lines().collect();
        let message = format!("error: {}… (1000000 characters)", "y".repeat(2000));
        assert_eq!(lines[0], message);
        assert_eq!(lines[1], "  --> a\\u001b.toml:1:10000001");
        assert_eq!(lines[3], format!("1 | …{}…", "x".repeat(160)));
        assert_eq!(
            lines[4],
            format!("  | {}{}", " ".repeat(81), "^".repeat(81))
        );
    }

    #[test]
    fn quoted_escapes_are_shown_and_the_carets_keep_their_place() {
        let source = Source::new("a.toml", "a\u{1b}[2J = \t\u{202e}b # \u{7}\n");
        let start = source.text.find('\u{202e}').unwrap();
        let place = Place::new(&source, start..start + 4);
        let text = Diagnostic::at(&place, "no").render();
        let quoted = "1 | a\\u001b[2J = \t\\u202eb # \\u0007";
        let carets = format!("  | {}\t^^^^^^^", " ".repeat(13));
        assert!(text.ends_with(&format!("{quoted}\n{carets}\n")), "{text}");
    }

    #[test]
    fn exit_codes_tell_usage_from_input() {
        let place = Place::new(&Source::new("a", "b"), 0..1);
        assert_eq!(Error::usage("no").exit_code(), 2);
        assert_eq!(Error::input(&place, "no").exit_code(), 3);
        let flag = Place::new(&Source::of_command_line("--set", "b"), 0..1);
        assert_eq!(Error::input(&flag, "no").exit_code(), 2);
        let io = std::io::Error::from(std::io::ErrorKind::NotFound);
        let file = Error::file("read", "x.toml", &io);
        assert_eq!(file.exit_code(), 3);
        assert_eq!(
            file.render(),
            "error: cannot read x.toml: entity not found\n"
        );
    }

    #[test]
    fn without_a_near_name_the_hint_lists_all() {
        assert_eq!(
            hint_for("hzz", &["version", "hz"]),
            "the nearest valid name is `hz`"
        );
        assert_eq!(
            hint_for("colour", &["version", "hz"]),
            "valid names are `version`, `hz`"
        );
    }
}
