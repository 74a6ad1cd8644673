//! Text from files, shown so that it cannot be anything but text.
//!
//! A title, a cgroup path or the line of a file that an error quotes may contain escape sequences.
//! A terminal would obey them: they hide lines, write others over them, or set the clipboard.
//! Everything that is printed therefore goes through a [`HarmlessWriter`], which writes control
//! characters and invisible ones as JSON would, so that JSON stays JSON with the same meaning.
//! Worked example: the ten characters `a`, ESC, `[2J`, TAB, `é`, U+202E, `b`, newline become
//! `a\u001b[2J`, a tab, `é\u202eb` and a newline.

use std::io::{self, Write};

/// Whether a character may reach a terminal: not one that is obeyed, reorders its neighbours or is
/// invisible. A tab and a newline do neither.
pub fn is_harmless(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        // Marks and embeddings of right-to-left text, line and paragraph separators, joiners of
        // nothing, tags.
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}' => false,
        '\u{2060}'..='\u{206f}' | '\u{e0000}'..='\u{e007f}' => false,
        _ => !character.is_control(),
    }
}

fn push_escaped(text: &mut String, character: char) {
    let mut units = [0; 2];
    for unit in character.encode_utf16(&mut units) {
        // Writing to a string cannot fail.
        *text += &format!("\\u{unit:04x}");
    }
}

/// `text` with what is not harmless written out; newlines and tabs stay.
///
/// ```
/// use schedcast_base::harmless::harmless;
///
/// assert_eq!(harmless("a\u{1b}[2J\nb\u{202e}"), "a\\u001b[2J\nb\\u202e");
/// ```
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_harmless(character) {
            true => shown.push(character),
            false => push_escaped(&mut shown, character),
        }
    }
    shown
}

/// `text` in one line: newlines and tabs are escaped as well.
///
/// ```
/// use schedcast_base::harmless::one_line;
///
/// assert_eq!(one_line("a\u{1b}[2J\nb"), "a\\u001b[2J\\nb");
/// ```
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => line += "\\n",
            '\t' => line += "\\t",
            _ if is_harmless(character) => line.push(character),
            _ => push_escaped(&mut line, character),
        }
    }
    line
}

/// At most `longest` characters of `text` and, if there are more, how many.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
    }
}

/// A writer of text for people, which escapes what is not harmless. Bytes that are no UTF-8 become
/// U+FFFD.
#[derive(Debug)]
pub struct HarmlessWriter<W> {
    inner: W,
    /// The beginning of a character whose end has not been written yet: at most three bytes.
    begun: Vec<u8>,
}

impl<W: Write> HarmlessWriter<W> {
    /// A writer to `inner`.
    pub fn new(inner: W) -> Self {
        let begun = Vec::new();
        Self { inner, begun }
    }

    fn put(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text;
        while let Some((at, character)) = rest.char_indices().find(|(_, one)| !is_harmless(*one)) {
            self.inner.write_all(&rest.as_bytes()[..at])?;
            let mut escaped = String::new();
            push_escaped(&mut escaped, character);
            self.inner.write_all(escaped.as_bytes())?;
            rest = &rest[at + character.len_utf8()..];
        }
        self.inner.write_all(rest.as_bytes())
    }
}

impl<W: Write> Write for HarmlessWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.put(chunk.valid())?;
            let invalid = chunk.invalid();
            let is_begun = chunks.peek().is_none()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_begun {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.put("\u{fffd}")?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_and_says_how_long_it_is() {
        assert_eq!(shortened("four", 4), "four");
        assert_eq!(shortened("12345678", 4), "1234… (8 characters)");
    }

    fn written(pieces: &[&[u8]]) -> String {
        let mut writer = HarmlessWriter::new(Vec::new());
        for piece in pieces {
            writer.write_all(piece).unwrap();
        }
        String::from_utf8(writer.inner).unwrap()
    }

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let text = "a\u{1b}[2J\té\u{202e}b\n\u{9b}31m\u{7f}\r\0\u{e0041}…";
        let expected = "a\\u001b[2J\té\\u202eb\n\\u009b31m\\u007f\\u000d\\u0000\\udb40\\udc41…";
        assert_eq!(written(&[text.as_bytes()]), expected);
        // The same however it is cut into pieces.
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(written(&bytes), expected);
        assert_eq!(
            written(&[b"a\xff\xfeb\xc3", b"z"]),
            "a\u{fffd}\u{fffd}b\u{fffd}z"
        );
    }

    #[test]
    fn ordinary_text_of_any_language_stays() {
        for text in ["", "Größe 5 µs\n", "日本語\tкирилл", "│ ─ … ✓ 👍"] {
            assert_eq!(written(&[text.as_bytes()]), text);
        }
    }

    #[test]
    fn one_line_has_no_newline() {
        assert_eq!(one_line("a\r\n\tb\u{2028}"), "a\\u000d\\n\\tb\\u2028");
    }
}
