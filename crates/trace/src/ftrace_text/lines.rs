//! Lines of a stream, found in place in one buffer.
//!
//! Nothing is copied per line: the reader looks at a slice of the buffer and then steps over it.
//! Usually the slice is one line; when a task's name holds a newline, the next few are looked at
//! together.

use std::io::{ErrorKind, Read};

/// No line may be longer. A trace entry has at most one memory page.
pub(super) const LINE_BYTES_MAX: usize = 256 * 1024;

/// Input at the current place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peek {
    /// The wished number of lines; this many bytes without the last newline.
    Lines(usize),
    /// The input ended behind a newline (or fewer lines are left than were wished).
    End,
    /// The input ended inside a line.
    Cut,
    /// No newline within [`LINE_BYTES_MAX`].
    TooLong,
}

pub(super) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    input_ended: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Lines<R> {
        let buffer = vec![0; LINE_BYTES_MAX].into_boxed_slice();
        Lines {
            input,
            buffer,
            start: 0,
            end: 0,
            input_ended: false,
        }
    }

    /// Buffered bytes from the current place on.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Steps over `bytes`.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Looks for the next `count` lines, reading as far as needed.
    pub(super) fn peek(&mut self, count: usize) -> std::io::Result<Peek> {
        let mut found = 0;
        let mut scanned = 0;
        loop {
            while let Some(newline) = memchr::memchr(b'\n', &self.ahead()[scanned..]) {
                found += 1;
                if found == count {
                    return Ok(Peek::Lines(scanned + newline));
                }
                scanned += newline + 1;
            }
            scanned = self.end - self.start;
            if self.input_ended {
                return Ok(if self.start == self.end || found > 0 {
                    Peek::End
                } else {
                    Peek::Cut
                });
            }
            if !self.fill()? {
                return Ok(if found > 0 { Peek::End } else { Peek::TooLong });
            }
        }
    }

    /// Reads more behind what is buffered; false if the buffer is full.
    fn fill(&mut self) -> std::io::Result<bool> {
        if self.end == self.buffer.len() {
            if self.start == 0 {
                return Ok(false);
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.input_ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte a call, the worst a stream can do.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    fn all(lines: &mut Lines<Drip>) -> (Vec<String>, Peek) {
        let mut found = Vec::new();
        loop {
            match lines.peek(1).unwrap() {
                Peek::Lines(length) => {
                    found.push(String::from_utf8(lines.ahead()[..length].to_vec()).unwrap());
                    lines.advance(length + 1);
                }
                end => return (found, end),
            }
        }
    }

    #[test]
    fn lines_come_whole_and_the_end_is_told_from_a_cut() {
        assert_eq!(all(&mut Lines::new(Drip(b""))), (vec![], Peek::End));
        assert_eq!(all(&mut Lines::new(Drip(b"a\n\nbc\n"))).0, ["a", "", "bc"]);
        assert_eq!(
            all(&mut Lines::new(Drip(b"a\nb"))),
            (vec!["a".to_owned()], Peek::Cut)
        );
    }

    #[test]
    fn several_lines_at_once() {
        let mut lines = Lines::new(Drip(b"a\nbb\nc\n"));
        assert_eq!(lines.peek(2).unwrap(), Peek::Lines(4));
        assert_eq!(lines.peek(3).unwrap(), Peek::Lines(6));
        assert_eq!(lines.peek(4).unwrap(), Peek::End);
        assert_eq!(lines.peek(1).unwrap(), Peek::Lines(1));
    }

    #[test]
    fn a_line_without_end_is_refused_not_stored() {
        let text = vec![b'x'; LINE_BYTES_MAX + 1];
        assert_eq!(Lines::new(&text[..]).peek(1).unwrap(), Peek::TooLong);
        let mut text = vec![b'x'; LINE_BYTES_MAX - 1];
        text.extend_from_slice(b"\nyy\n");
        let mut lines = Lines::new(&text[..]);
        assert_eq!(lines.peek(1).unwrap(), Peek::Lines(LINE_BYTES_MAX - 1));
        let found = lines.peek(2).unwrap();
        assert_eq!(found, Peek::End, "two such lines do not fit");
        lines.advance(LINE_BYTES_MAX);
        assert_eq!(lines.peek(1).unwrap(), Peek::Lines(2));
    }
}
