//! The text layer of rt-app files: JSON as its users write it, with the place of everything.
//!
//! rt-app reads its files with json-c in the non-strict mode, usually after the script `workgen`
//! has rewritten them, so most of its files are not JSON. This reader takes what those two take
//! together:
//!
//! ```text
//! { /* a comment */            // and this kind
//!   "tasks" : {
//!     "a" : { "run" : 100, "run" : 200,    the same key twice: two events, in this order
//!             'sleep' : 010,               single quotes; a leading zero is still decimal
//!             "suspend", } } }             a key without a value; a comma before a brace
//! ```
//!
//! Members keep their order and their duplicates, and every key and value keeps its line and
//! column, because an error without its place is of no use in a file of five hundred lines. Text
//! that json-c accepts by accident is refused: text after the end of the top value, `1e` for 1.

use super::error::{Fault, Span, quoted};

/// How deep arrays and objects may nest; json-c's own limit. rt-app's grammar needs five.
pub(crate) const DEPTH_MAX: usize = 32;

/// One value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Place of the value's first character; for [`Kind::Absent`] the place of its key.
    pub span: Span,
    /// Kind of the value.
    pub kind: Kind,
}

/// The kinds of value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// `null`, in any capitals.
    Null,
    /// `true` or `false`, in any capitals.
    Bool(bool),
    /// A whole number that fits 64 bits.
    Integer(i64),
    /// Any other number, as written: `1.5`, `NaN`, `99999999999999999999`.
    Number(String),
    /// A string in single or double quotes, unescaped.
    String(String),
    /// `[ … ]`
    Array(Vec<Value>),
    /// `{ … }` in the order of the text, duplicates included.
    Object(Vec<Member>),
    /// Nothing: the key stands alone, as in `"suspend",`.
    Absent,
}

/// A key of an object with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The key, unescaped.
    pub key: String,
    /// Where the key begins.
    pub span: Span,
    /// Value that it stands for.
    pub value: Value,
}

impl Value {
    /// The kind in words, as in "expected an object, found a string".
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => String::from("null"),
            Kind::Bool(value) => value.to_string(),
            Kind::Integer(value) => value.to_string(),
            Kind::Number(text) => format!("the number {text}"),
            Kind::String(text) => format!("the string {}", quoted(text)),
            Kind::Array(_) => String::from("an array"),
            Kind::Object(_) => String::from("an object"),
            Kind::Absent => String::from("no value"),
        }
    }
}

/// Reads a whole text, which must hold exactly one value.
pub fn parse(text: &[u8]) -> Result<Value, Fault> {
    let mut reader = Reader {
        text,
        at: 0,
        span: Span { line: 1, column: 1 },
    };
    reader.skip_blanks()?;
    let value = reader.value(0)?;
    reader.skip_blanks()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.expected("the end of the file")),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    span: Span,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Steps over one byte. Columns count characters, so the bytes that only continue a UTF-8
    /// character do not count.
    fn step(&mut self) {
        let Some(byte) = self.peek() else { return };
        self.at += 1;
        if byte == b'\n' {
            self.span = Span {
                line: self.span.line.saturating_add(1),
                column: 1,
            };
        } else if !is_continuation(byte) {
            self.span.column = self.span.column.saturating_add(1);
        }
    }

    fn fault(&self, message: String) -> Fault {
        Fault::new(self.span, message)
    }

    fn expected(&self, what: &str) -> Fault {
        self.fault(format!("expected {what}, found {}", self.describe_here()))
    }

    fn describe_here(&self) -> String {
        let rest = &self.text[self.at..];
        let Some(&first) = rest.first() else {
            return String::from("the end of the file");
        };
        let length = rest[1..]
            .iter()
            .take(3)
            .take_while(|byte| is_continuation(**byte))
            .count();
        match std::str::from_utf8(&rest[..=length]) {
            Ok(character) if !character.chars().any(char::is_control) => format!("`{character}`"),
            _ => format!("byte 0x{first:02x}"),
        }
    }

    /// Skips white space and both kinds of comment.
    fn skip_blanks(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.step(),
                b'/' => self.skip_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> Result<(), Fault> {
        let begin = self.span;
        match self.text.get(self.at + 1) {
            Some(b'/') => {
                while self.peek().is_some_and(|byte| byte != b'\n') {
                    self.step();
                }
                Ok(())
            }
            Some(b'*') => {
                self.step();
                self.step();
                while !self.text[self.at..].starts_with(b"*/") {
                    if self.peek().is_none() {
                        let message = String::from("this comment is never closed by `*/`");
                        return Err(Fault::new(begin, message));
                    }
                    self.step();
                }
                self.step();
                self.step();
                Ok(())
            }
            _ => Err(self.expected("a value or a comment (`/*` or `//`)")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Fault> {
        let span = self.span;
        let kind = match self.peek() {
            Some(b'{') => Kind::Object(self.object(depth)?),
            Some(b'[') => Kind::Array(self.array(depth)?),
            Some(b'"' | b'\'') => Kind::String(self.string()?),
            Some(byte) if byte == b'-' || byte.is_ascii_alphanumeric() => self.word()?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Value { span, kind })
    }

    fn enter(&mut self, depth: usize) -> Result<(), Fault> {
        if depth >= DEPTH_MAX {
            let message = format!("values nest deeper than {DEPTH_MAX} levels");
            return Err(self.fault(message));
        }
        self.step();
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Value>, Fault> {
        self.enter(depth)?;
        let mut items = Vec::new();
        loop {
            self.skip_blanks()?;
            // A comma may come before the bracket, but not without a value before it.
            if self.peek() == Some(b']') {
                self.step();
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
            self.skip_blanks()?;
            match self.peek() {
                Some(b',') => self.step(),
                Some(b']') => {}
                _ => return Err(self.expected("`,` or `]` after a value of the array")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Vec<Member>, Fault> {
        self.enter(depth)?;
        let mut members = Vec::new();
        loop {
            self.skip_blanks()?;
            match self.peek() {
                Some(b'}') => {
                    self.step();
                    return Ok(members);
                }
                Some(b'"' | b'\'') => members.push(self.member(depth)?),
                _ => return Err(self.expected("a quoted key or `}`")),
            }
            match self.peek() {
                Some(b',') => self.step(),
                Some(b'}') => {}
                _ => {
                    let key = members
                        .last()
                        .map_or("", |member: &Member| member.key.as_str());
                    let what = format!("`,` or `}}` after the value of {}", quoted(key));
                    return Err(self.expected(&what));
                }
            }
        }
    }

    /// Reads a key and its value, up to but without the comma or brace behind them.
    fn member(&mut self, depth: usize) -> Result<Member, Fault> {
        let span = self.span;
        let key = self.string()?;
        self.skip_blanks()?;
        let value = match self.peek() {
            Some(b':') => {
                self.step();
                self.skip_blanks()?;
                self.value(depth + 1)?
            }
            Some(b',' | b'}') => Value {
                span,
                kind: Kind::Absent,
            },
            _ => {
                let what = format!("`:`, `,` or `}}` after the key {}", quoted(&key));
                return Err(self.expected(&what));
            }
        };
        self.skip_blanks()?;
        Ok(Member { key, span, value })
    }

    fn string(&mut self) -> Result<String, Fault> {
        let begin = self.span;
        let quote = self.peek();
        self.step();
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None => {
                    let message = String::from("this string is never closed");
                    return Err(Fault::new(begin, message));
                }
                byte if byte == quote => break,
                Some(b'\\') => {
                    let character = self.escape()?;
                    let mut buffer = [0; 4];
                    bytes.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
                }
                Some(byte) => {
                    bytes.push(byte);
                    self.step();
                }
            }
        }
        self.step();
        String::from_utf8(bytes).map_err(|_| {
            let message = String::from("this string is not valid UTF-8");
            Fault::new(begin, message)
        })
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let begin = self.span;
        self.step();
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.step();
                return self.unicode_escape(begin);
            }
            _ => return Err(self.expected("one of `\" \\ / b f n r t u` after `\\`")),
        };
        self.step();
        Ok(character)
    }

    /// Reads what follows `\u`. Half of a surrogate pair becomes U+FFFD, as in json-c.
    fn unicode_escape(&mut self, begin: Span) -> Result<char, Fault> {
        let first = self.four_hex_digits(begin)?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
            let (at, span) = (self.at, self.span);
            self.step();
            self.step();
            let second = self.four_hex_digits(span)?;
            if (0xdc00..0xe000).contains(&second) {
                let joined = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // Not the other half: leave it to be read as an escape of its own.
            (self.at, self.span) = (at, span);
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn four_hex_digits(&mut self, begin: Span) -> Result<u32, Fault> {
        let mut value = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                let message = String::from("expected four hexadecimal digits after `\\u`");
                return Err(Fault::new(begin, message));
            };
            value = value * 16 + digit;
            self.step();
        }
        Ok(value)
    }

    /// Reads a literal or a number: everything up to the next separator is one word.
    fn word(&mut self) -> Result<Kind, Fault> {
        let begin = self.at;
        let span = self.span;
        while self.peek().is_some_and(is_word_byte) {
            self.step();
        }
        // Only ASCII bytes are stepped over, so this cannot fail.
        let word = std::str::from_utf8(&self.text[begin..self.at]).unwrap_or_default();
        match word.to_ascii_lowercase().as_str() {
            "null" => Ok(Kind::Null),
            "true" => Ok(Kind::Bool(true)),
            "false" => Ok(Kind::Bool(false)),
            "nan" | "infinity" | "-infinity" => Ok(Kind::Number(word.to_owned())),
            _ if is_number(word) => Ok(word
                .parse()
                .map_or_else(|_| Kind::Number(word.to_owned()), Kind::Integer)),
            _ => {
                let message = format!("expected a value, found {}", quoted(word));
                Err(Fault { span, message })
            }
        }
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_')
}

/// JSON's number grammar, except that leading zeros are allowed, as in json-c.
fn is_number(word: &str) -> bool {
    let (mantissa, exponent) = match word.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (word, None),
    };
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole)
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
