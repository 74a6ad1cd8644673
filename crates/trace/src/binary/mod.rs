//! Ground for the binary formats: bytes with a byte order, files read at offsets, and errors that
//! know their offset.

mod store;

pub(crate) use self::store::{Store, ZstdFrames, unpack_zstd, unpack_zstd_stream};

use std::path::Path;

use crate::error::{ErrorKind, ReadError};

/// Something wrong at a byte of the input, before it is known which file that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) kind: ErrorKind,
    pub(crate) offset: u64,
    pub(crate) message: String,
}

impl Damage {
    pub(crate) fn malformed(offset: u64, message: impl Into<String>) -> Damage {
        Damage {
            kind: ErrorKind::Malformed,
            offset,
            message: message.into(),
        }
    }

    pub(crate) fn unsupported(offset: u64, message: impl Into<String>) -> Damage {
        Damage {
            kind: ErrorKind::Unsupported,
            ..Damage::malformed(offset, message)
        }
    }

    pub(crate) fn truncated(offset: u64, expected: &str) -> Damage {
        Damage {
            kind: ErrorKind::Truncated,
            ..Damage::malformed(offset, format!("the file is cut off: expected {expected}"))
        }
    }

    pub(crate) fn in_file(self, file: &Path) -> ReadError {
        ReadError::new(self.kind, file, self.message).at_offset(self.offset)
    }
}

/// Byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    /// The unsigned number in up to eight bytes.
    #[inline]
    pub(crate) fn unsigned(self, bytes: &[u8]) -> u64 {
        // Nearly all have four bytes or eight, which are one load.
        if let Ok(bytes) = bytes.try_into() {
            return u64::from(match self {
                Endian::Big => u32::from_be_bytes(bytes),
                Endian::Little => u32::from_le_bytes(bytes),
            });
        }
        if let Ok(bytes) = bytes.try_into() {
            return match self {
                Endian::Big => u64::from_be_bytes(bytes),
                Endian::Little => u64::from_le_bytes(bytes),
            };
        }
        let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        match self {
            Endian::Big => bytes.iter().fold(0, join),
            Endian::Little => bytes.iter().rev().fold(0, join),
        }
    }

    /// The number in up to eight bytes, with the sign of its highest bit.
    #[inline]
    pub(crate) fn signed(self, bytes: &[u8]) -> i64 {
        let unused_bits = 64 - 8 * bytes.len().clamp(1, 8) as u32;
        (self.unsigned(bytes) << unused_bits) as i64 >> unused_bits
    }
}

/// Reads a slice from front to back; offsets in errors count from the start of the file.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
    base: u64,
    endian: Endian,
}

impl<'a> Bytes<'a> {
    /// `base` is the place of the slice in its file.
    pub(crate) fn new(data: &'a [u8], base: u64, endian: Endian) -> Bytes<'a> {
        Bytes {
            data,
            at: 0,
            base,
            endian,
        }
    }

    pub(crate) fn endian(&self) -> Endian {
        self.endian
    }

    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.data[self.at..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.data.len()
    }

    pub(crate) fn take(&mut self, length: u64, expected: &str) -> Result<&'a [u8], Damage> {
        let rest = self.rest();
        match usize::try_from(length) {
            Ok(length) if length <= rest.len() => {
                self.at += length;
                Ok(&rest[..length])
            }
            _ => Err(Damage::truncated(
                self.offset(),
                &format!("{expected} of {length} bytes, found {} bytes", rest.len()),
            )),
        }
    }

    fn number(&mut self, length: u64, expected: &str) -> Result<u64, Damage> {
        let endian = self.endian;
        self.take(length, expected)
            .map(|bytes| endian.unsigned(bytes))
    }

    pub(crate) fn u8(&mut self, expected: &str) -> Result<u8, Damage> {
        self.number(1, expected).map(|value| value as u8)
    }

    pub(crate) fn u16(&mut self, expected: &str) -> Result<u16, Damage> {
        self.number(2, expected).map(|value| value as u16)
    }

    pub(crate) fn u32(&mut self, expected: &str) -> Result<u32, Damage> {
        self.number(4, expected).map(|value| value as u32)
    }

    pub(crate) fn u64(&mut self, expected: &str) -> Result<u64, Damage> {
        self.number(8, expected)
    }

    /// A text that ends with a zero, which is stepped over.
    pub(crate) fn text(&mut self, expected: &str) -> Result<&'a [u8], Damage> {
        match memchr::memchr(0, self.rest()) {
            Some(length) => {
                let text = &self.rest()[..length];
                self.at += length + 1;
                Ok(text)
            }
            None => Err(Damage::truncated(
                self.offset(),
                &format!("{expected}, closed by a zero byte"),
            )),
        }
    }

    pub(crate) fn expect(&mut self, literal: &[u8]) -> Result<(), Damage> {
        let offset = self.offset();
        let shown = format!("`{}`", literal.escape_ascii());
        let found = self.take(literal.len() as u64, &shown)?;
        if found == literal {
            return Ok(());
        }
        Err(Damage::malformed(
            offset,
            format!("expected {shown}, found `{}`", found.escape_ascii()),
        ))
    }
}

/// A text field of fixed size: everything before the first zero.
pub(crate) fn before_zero(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_both_byte_orders() {
        assert_eq!(Endian::Little.unsigned(&[1, 2]), 0x0201);
        assert_eq!(Endian::Big.unsigned(&[1, 2]), 0x0102);
        let eight = [1, 2, 3, 4, 5, 6, 7, 8];
        for (size, big, little) in [
            (3, 0x01_0203, 0x03_0201),
            (4, 0x0102_0304, 0x0403_0201),
            (8, 0x0102_0304_0506_0708, 0x0807_0605_0403_0201),
        ] {
            assert_eq!(Endian::Big.unsigned(&eight[..size]), big);
            assert_eq!(Endian::Little.unsigned(&eight[..size]), little);
        }
        assert_eq!(Endian::Little.signed(&[0xfe, 0xff]), -2);
        assert_eq!(Endian::Big.signed(&[0xff, 0xff, 0xff, 0xfe]), -2);
        assert_eq!(Endian::Little.signed(&[255; 8]), -1);
        assert_eq!(Endian::Little.signed(&[]), 0);
    }

    #[test]
    fn errors_count_from_the_start_of_the_file() {
        let mut bytes = Bytes::new(b"ab\0cd", 100, Endian::Little);
        assert_eq!(bytes.text("a name").unwrap(), b"ab");
        let error = bytes.u32("a size").unwrap_err();
        assert_eq!((error.kind, error.offset), (ErrorKind::Truncated, 103));
        let error = bytes.expect(b"xy").unwrap_err();
        assert_eq!(error.message, "expected `xy`, found `cd`");
    }
}
