//! Bold and colour, as marks in a text.
//!
//! A file can bring an escape sequence of its own, so whatever prints lets none through. A table
//! therefore marks a part of a line by characters of Unicode's private use area, and the command
//! puts the escape sequences in their place when it writes to a terminal. Text from a file that has
//! such a character can make a line bold or coloured, nothing more.

use super::Style;

/// How a part of a line is painted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// A heading.
    Bold,
    /// A change for the better: green.
    Good,
    /// A change for the worse: red.
    Bad,
    /// Text beside a value: its interval, the recorded and the measured value.
    Dim,
}

/// The mark that ends all paint.
pub const END: char = '\u{f8df}';
/// Marks and the escape sequences they stand for (ECMA-48, SGR), in the order of [`Paint`].
const MARKS: [(char, &str); 5] = [
    ('\u{f8d0}', "\u{1b}[1m"),
    ('\u{f8d1}', "\u{1b}[32m"),
    ('\u{f8d2}', "\u{1b}[31m"),
    ('\u{f8d3}', "\u{1b}[2m"),
    (END, "\u{1b}[0m"),
];

impl Paint {
    /// `text` between marks.
    ///
    /// ```
    /// use schedcast_present::tables::paint::Paint;
    ///
    /// assert_eq!(Paint::Good.mark("a"), "\u{f8d1}a\u{f8df}");
    /// ```
    pub fn mark(self, text: &str) -> String {
        let (begin, _) = MARKS[self as usize];
        format!("{begin}{text}{END}")
    }
}

/// `text` painted where the style has colour.
pub(super) fn painted(style: &Style, text: &str, paint: Paint) -> String {
    match style.colour {
        true => paint.mark(text),
        false => text.to_string(),
    }
}

/// The escape sequence that a mark stands for.
pub fn sequence(mark: char) -> Option<&'static str> {
    let found = MARKS.iter().find(|(one, _)| *one == mark);
    found.map(|(_, sequence)| *sequence)
}
