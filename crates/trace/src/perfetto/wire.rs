//! The wire format of protocol buffers: tags, variable-length integers and nested messages.
//!
//! A message is a row of fields, each a tag and a value. The tag is `number × 8 + type`, and types
//! 0, 1, 2 and 5 mean a variable-length integer, eight bytes, a length with that many bytes, and
//! four bytes. An integer is written seven bits at a time, lowest first; the top bit says that more
//! follow.
//!
//! Worked example: field 1 with the value 300 is `08 ac 02`. The tag is 1 × 8 + 0 = 8, and 300 = 2
//! × 128 + 44 gives `44 | 128` = `ac`, then `02`. Field 2 with the two bytes `hi` is `12 02 68 69`.
//!
//! Writing goes into a `Vec<u8>`, reading borrows from a slice:
//!
//! ```
//! use schedcast_trace::perfetto::wire::{Fields, Value, put_bytes, put_message, put_uint};
//!
//! let mut message = Vec::new();
//! put_uint(&mut message, 1, 300);
//! put_message(&mut message, 2, |inner| put_bytes(inner, 7, b"hi"));
//! assert_eq!(message, [0x08, 0xac, 0x02, 0x12, 0x04, 0x3a, 0x02, 0x68, 0x69]);
//!
//! let fields: Vec<_> = Fields::new(&message).collect::<Result<_, _>>().unwrap();
//! assert_eq!((fields[0].number, fields[0].value), (1, Value::Varint(300)));
//! assert_eq!(fields[1].value, Value::Bytes(&[0x3a, 0x02, 0x68, 0x69]));
//! ```

/// The most bytes an integer of 64 bits takes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

const TYPE_VARINT: u64 = 0;
const TYPE_FIXED64: u64 = 1;
const TYPE_BYTES: u64 = 2;
const TYPE_FIXED32: u64 = 5;

/// Appends an integer.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: u64) {
    put_varint(out, u64::from(number) << 3 | wire_type);
}

/// Appends a field of type `uint32`, `uint64`, `bool` or an enumeration.
pub fn put_uint(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, TYPE_VARINT);
    put_varint(out, value);
}

/// Appends a field of type `int32` or `int64`: a negative number takes ten bytes.
pub(crate) fn put_int(out: &mut Vec<u8>, number: u32, value: i64) {
    put_uint(out, number, value as u64);
}

/// Appends a field of type `fixed64`.
pub(crate) fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    put_tag(out, number, TYPE_FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field of type `double`.
pub(crate) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_fixed64(out, number, value.to_bits());
}

/// Appends a field of type `bytes` or `string`.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, TYPE_BYTES);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a nested message that `fill` writes.
pub fn put_message(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number, TYPE_BYTES);
    let start = out.len();
    fill(out);
    let length = out.len() - start;
    // The length stands before what it counts: it is appended, then turned to the front.
    put_varint(out, length as u64);
    let length_bytes = out.len() - start - length;
    out[start..].rotate_right(length_bytes);
}

/// Appends a repeated integer field in its packed form.
pub fn put_packed(out: &mut Vec<u8>, number: u32, values: impl IntoIterator<Item = u64>) {
    put_message(out, number, |out| {
        for value in values {
            put_varint(out, value);
        }
    });
}

/// Bytes that are not a message, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {offset} of the message")]
pub struct WireError {
    /// Offset in the bytes that were given, from 0.
    pub offset: usize,
    /// Expected content.
    pub expected: &'static str,
}

impl WireError {
    fn new(offset: usize, expected: &'static str) -> WireError {
        WireError { offset, expected }
    }
}

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// A string, a nested message or a packed list.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

impl<'a> Value<'a> {
    /// The number of an integer field of any width; `None` for bytes.
    pub(crate) fn integer(self) -> Option<u64> {
        match self {
            Value::Varint(value) | Value::Fixed64(value) => Some(value),
            Value::Fixed32(value) => Some(u64::from(value)),
            Value::Bytes(_) => None,
        }
    }

    /// The bytes of a string, message or packed list.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number in the schema.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Where the value's own bytes begin in the message (behind tag and length).
    pub offset: usize,
}

/// The fields of a message, in the order of its bytes. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Reads the message that `bytes` holds.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, at: 0 }
    }

    /// Where the next field begins.
    pub fn offset(&self) -> usize {
        self.at
    }

    fn field(&mut self) -> Result<Field<'a>, WireError> {
        let tag_at = self.at;
        let (tag, at) = varint(self.bytes, tag_at, "a field's tag")?;
        let number = u32::try_from(tag >> 3)
            .ok()
            .filter(|number| (1..1 << 29).contains(number))
            .ok_or(WireError::new(tag_at, "a field number from 1 to 536870911"))?;
        let mut offset = at;
        let value = match tag & 7 {
            TYPE_VARINT => {
                let (value, end) = varint(self.bytes, at, "an integer")?;
                self.at = end;
                Value::Varint(value)
            }
            TYPE_FIXED64 => Value::Fixed64(u64::from_le_bytes(self.array(at)?)),
            TYPE_FIXED32 => Value::Fixed32(u32::from_le_bytes(self.array(at)?)),
            TYPE_BYTES => {
                let (length, start) = varint(self.bytes, at, "a length")?;
                offset = start;
                let end = usize::try_from(length)
                    .ok()
                    .and_then(|length| start.checked_add(length))
                    .filter(|end| *end <= self.bytes.len())
                    .ok_or(WireError::new(at, "a length within the message"))?;
                self.at = end;
                Value::Bytes(&self.bytes[start..end])
            }
            _ => {
                return Err(WireError::new(tag_at, "a tag of wire type 0, 1, 2 or 5"));
            }
        };
        Ok(Field {
            number,
            value,
            offset,
        })
    }

    /// `N` bytes at `at`, stepping behind them.
    fn array<const N: usize>(&mut self, at: usize) -> Result<[u8; N], WireError> {
        let bytes = self
            .bytes
            .get(at..at + N)
            .ok_or(WireError::new(at, "four or eight more bytes"))?;
        self.at = at + N;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

/// The integers of a packed list.
///
/// # Errors
/// If the last one is cut off, or one has more than 64 bits.
pub(crate) fn packed(bytes: &[u8]) -> Result<Vec<u64>, WireError> {
    let mut values = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (value, end) = varint(bytes, at, "an integer of a packed list")?;
        values.push(value);
        at = end;
    }
    Ok(values)
}

/// The integer that starts at `at`, and where it ends.
///
/// # Errors
/// If it is cut off, or has more than 64 bits; the error names what was `expected`.
pub(crate) fn varint(
    bytes: &[u8],
    at: usize,
    expected: &'static str,
) -> Result<(u64, usize), WireError> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().skip(at).take(VARINT_BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index + 1 == VARINT_BYTES_MAX && bits > 1 {
            break;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, at + index + 1));
        }
    }
    Err(WireError::new(at, expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(bytes: &[u8]) -> Result<Vec<Field<'_>>, WireError> {
        Fields::new(bytes).collect()
    }

    #[test]
    fn integers_by_hand() {
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(varint(bytes, 0, "x"), Ok((value, bytes.len())));
        }
        assert!(varint(&[0x80], 0, "x").is_err(), "cut off");
        assert!(varint(&[255; 10], 0, "x").is_err(), "more than 64 bits");
    }

    #[test]
    fn a_negative_number_is_written_in_64_bits() {
        let mut out = Vec::new();
        put_int(&mut out, 1, -1);
        assert_eq!(fields(&out).unwrap()[0].value, Value::Varint(u64::MAX));
    }

    #[test]
    fn a_long_nested_message_gets_a_long_length() {
        let mut out = Vec::new();
        put_message(&mut out, 3, |inner| put_bytes(inner, 1, &[b'x'; 300]));
        assert_eq!(out[..3], [0x1a, 0xaf, 2], "303 bytes");
        let outer = fields(&out).unwrap();
        assert_eq!(outer[0].offset, 3);
        let inner = fields(outer[0].value.bytes().unwrap()).unwrap();
        assert_eq!(inner[0].value, Value::Bytes(&[b'x'; 300]));
    }

    #[test]
    fn every_type_comes_back() {
        let mut out = Vec::new();
        put_double(&mut out, 1, 1.5);
        put_fixed64(&mut out, 2, 7);
        put_int(&mut out, 3, -5);
        put_packed(&mut out, 4, [1, 300]);
        out.extend_from_slice(&[5 << 3 | 5, 1, 0, 0, 0]);
        let read = fields(&out).unwrap();
        assert_eq!(read[0].value, Value::Fixed64(1.5f64.to_bits()));
        assert_eq!(read[1].value.integer(), Some(7));
        assert_eq!(read[2].value.integer(), Some(-5i64 as u64));
        assert_eq!(packed(read[3].value.bytes().unwrap()), Ok(vec![1, 300]));
        assert_eq!(read[4].value, Value::Fixed32(1));
    }

    #[test]
    fn errors_name_their_place() {
        let cases: [(&[u8], usize, &str); 5] = [
            (&[0x08], 1, "an integer"),
            (&[0x12, 5, 0], 1, "a length within the message"),
            (&[0x0b], 0, "a tag of wire type 0, 1, 2 or 5"),
            (&[0x00, 0], 0, "a field number from 1 to 536870911"),
            (&[0x09, 1, 2], 1, "four or eight more bytes"),
        ];
        for (bytes, offset, expected) in cases {
            assert_eq!(fields(bytes), Err(WireError { offset, expected }));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_fields_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(fields) = fields(&bytes) {
                prop_assert!(fields.iter().all(|field| field.offset <= bytes.len()));
            }
        }

        #[test]
        fn what_is_put_is_read(number in 1u32..1 << 29, value: u64, text in ".*") {
            let mut out = Vec::new();
            put_uint(&mut out, number, value);
            put_bytes(&mut out, number, text.as_bytes());
            let read = fields(&out).unwrap();
            prop_assert_eq!(read[0].value, Value::Varint(value));
            prop_assert_eq!(read[1].value, Value::Bytes(text.as_bytes()));
            prop_assert!(read.iter().all(|field| field.number == number));
        }
    }
}
