//! A position in one line of text, and what went wrong there.

/// A parse that failed: where in the line (byte offset from 0) and what should have stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) offset: usize,
    pub(super) expected: &'static str,
}

impl Malformed {
    pub(super) const fn new(offset: usize, expected: &'static str) -> Malformed {
        Malformed { offset, expected }
    }

    /// The failure that got further into the line; it is nearly always the one a person wants to
    /// read.
    pub(super) fn deeper(self, other: Malformed) -> Malformed {
        if other.offset > self.offset {
            other
        } else {
            self
        }
    }
}

/// Reads a line from left to right. Copies are cheap, so a failed attempt is undone by dropping its
/// copy.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor { text, at }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn fail<T>(&self, expected: &'static str) -> Result<T, Malformed> {
        Err(Malformed::new(self.at, expected))
    }

    /// Steps over `literal` if it stands here.
    pub(super) fn take(&mut self, literal: &[u8]) -> bool {
        let found = self.rest().starts_with(literal);
        if found {
            self.at += literal.len();
        }
        found
    }

    pub(super) fn expect(
        &mut self,
        literal: &[u8],
        expected: &'static str,
    ) -> Result<(), Malformed> {
        if self.take(literal) {
            Ok(())
        } else {
            self.fail(expected)
        }
    }

    /// Steps over spaces, and says how many there were.
    pub(super) fn spaces(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| **byte == b' ').count();
        self.at += count;
        count
    }

    /// Steps over everything up to the next space.
    pub(super) fn word(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let length = rest
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Decimal digits; at least one. At most 19, which always fits.
    pub(super) fn digits(&mut self, expected: &'static str) -> Result<u64, Malformed> {
        let start = self.at;
        let mut value = 0u64;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            if self.at - start == 19 {
                return self.fail("a shorter number");
            }
            value = value * 10 + u64::from(digit - b'0');
            self.at += 1;
        }
        if self.at == start {
            self.fail(expected)
        } else {
            Ok(value)
        }
    }

    /// A field's number: `120`, `-1`, or `0x78 (120)` as the trace option `fields` prints it.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<i64, Malformed> {
        let mut ahead = *self;
        if ahead.take(b"0x") {
            ahead.at += ahead
                .rest()
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            ahead.expect(b" (", expected)?;
            let value = ahead.number(expected)?;
            ahead.expect(b")", expected)?;
            *self = ahead;
            return Ok(value);
        }
        let start = *self;
        let negative = self.take(b"-");
        let magnitude = self
            .digits(expected)
            .map_err(|_| Malformed::new(start.at, expected))?;
        // 19 digits stay below 2^64 but not always below 2^63.
        let value = i64::try_from(magnitude)
            .map_err(|_| Malformed::new(start.at, "a number of at most 63 bits"))?;
        Ok(if negative { -value } else { value })
    }

    /// A number that must fit the target type.
    pub(super) fn fitting<T: TryFrom<i64>>(
        &mut self,
        expected: &'static str,
    ) -> Result<T, Malformed> {
        let offset = self.at;
        let value = self.number(expected)?;
        T::try_from(value).map_err(|_| Malformed { offset, expected })
    }

    /// A CPU number.
    pub(super) fn cpu(&mut self) -> Result<u32, Malformed> {
        const EXPECTED: &str = "a CPU number below 65536";
        let offset = self.at;
        let cpu: u32 = self.fitting(EXPECTED)?;
        // Tables are indexed by CPU, so a mangled number must not size them.
        if cpu < 65536 {
            Ok(cpu)
        } else {
            Err(Malformed::new(offset, EXPECTED))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Result<i64, usize> {
        let mut cursor = Cursor::new(text.as_bytes(), 0);
        let value = cursor
            .number("a number")
            .map_err(|malformed| malformed.offset)?;
        assert_eq!(cursor.at, text.len(), "all of `{text}` is read");
        Ok(value)
    }

    #[test]
    fn numbers_in_all_spellings() {
        assert_eq!(number("120"), Ok(120));
        assert_eq!(number("-1"), Ok(-1));
        assert_eq!(number("0x78 (120)"), Ok(120));
        assert_eq!(number("0xffffffff (-1)"), Ok(-1));
        assert_eq!(number("007"), Ok(7));
    }

    #[test]
    fn numbers_that_are_none() {
        for text in [
            "",
            "x",
            "-",
            "0x78",
            "0x78 120",
            "0x78 (120",
            "99999999999999999999",
        ] {
            assert!(number(text).is_err(), "{text}");
        }
        assert_eq!(number("9999999999999999999"), Err(0), "2^63 is too large");
    }

    #[test]
    fn cpu_numbers_are_bounded() {
        assert_eq!(Cursor::new(b"007", 0).cpu(), Ok(7));
        assert!(Cursor::new(b"65536", 0).cpu().is_err());
        assert!(Cursor::new(b"-1", 0).cpu().is_err());
    }
}
