//! Escape sequences in place of a table's marks.
//!
//! This is the innermost writer: what comes from files has lost its own escape sequences before it
//! gets here.

use std::io::{self, Write};

use schedcast_present::tables::paint::{END, sequence};

/// A writer to a terminal, or to something that takes no colours.
#[derive(Debug)]
pub struct Painter<W> {
    inner: W,
    paints: bool,
    /// Whether paint is on the line that is being written.
    is_painted: bool,
}

impl<W: Write> Painter<W> {
    /// A writer to `inner`, which takes escape sequences if `paints`.
    pub fn new(inner: W, paints: bool) -> Self {
        Self {
            inner,
            paints,
            is_painted: false,
        }
    }
}

impl<W: Write> Write for Painter<W> {
    /// Text comes in whole characters from the writer around this one.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|_| self.paints) else {
            return self.inner.write(bytes);
        };
        let mut painted = String::with_capacity(text.len());
        for character in text.chars() {
            match sequence(character) {
                Some(sequence) => {
                    self.is_painted = character != END;
                    painted += sequence;
                }
                None => {
                    if character == '\n' && std::mem::take(&mut self.is_painted) {
                        painted += sequence(END).unwrap_or_default();
                    }
                    painted.push(character);
                }
            }
        }
        self.inner.write_all(painted.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use schedcast_base::harmless::HarmlessWriter;
    use schedcast_present::tables::paint::Paint;

    use super::*;

    fn written(text: &str, paints: bool) -> String {
        let mut bytes = Vec::new();
        let mut writer = HarmlessWriter::new(Painter::new(&mut bytes, paints));
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn marks_are_painted_and_what_files_bring_is_not() {
        let text = Paint::Bold.mark("a") + &Paint::Bad.mark("b") + "\u{1b}[2J\n";
        let expected = "\u{1b}[1ma\u{1b}[0m\u{1b}[31mb\u{1b}[0m\\u001b[2J\n";
        assert_eq!(written(&text, true), expected);
    }

    #[test]
    fn paint_ends_with_its_line() {
        let expected = "\u{1b}[32ma\u{1b}[0m\nb\n";
        assert_eq!(written("\u{f8d1}a\nb\n", true), expected);
        assert_eq!(written("a\nb\n", true), "a\nb\n");
    }
}
