//! Event formats: how the kernel describes the bytes of its own events.
//!
//! Every event has a file `format` in tracefs, which recorders copy into their files:
//!
//! ```text
//! name: sched_switch
//! ID: 372
//! format:
//!     field:int common_pid;         offset:4;   size:4;   signed:1;
//!     field:char prev_comm[16];     offset:8;   size:16;  signed:0;
//!     field:__data_loc char[] name; offset:12;  size:4;   signed:0;
//! print fmt: "prev_comm=%s …", REC->prev_comm, …
//! ```
//!
//! Offsets and sizes differ between kernels, so nothing about them is assumed:
//! [`EventFormat::parse`] reads the text, and [`Decoder`] takes records apart by it. A `__data_loc`
//! field holds, in four bytes, where the real text lies in the record (low half: offset from the
//! record's start; high half: its length); for `__rel_loc` the offset counts from the end of the
//! field itself.
//!
//! Worked example. With the format above the four bytes `14 00 05 00` at offset 12 say: five bytes
//! from offset 20 on.

mod decode;
mod states;

pub(crate) use self::decode::{Decoder, Record, context_of_flags};

use self::states::States;

/// Where a field's value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the field itself.
    Here,
    /// `__data_loc`: elsewhere, counted from the record's start.
    Absolute,
    /// `__rel_loc`: elsewhere, counted from the end of the field.
    Relative,
}

/// One field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) is_signed: bool,
    pub(crate) place: Place,
}

/// The layout of one event.
#[derive(Clone, Debug)]
pub(crate) struct EventFormat {
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) fields: Vec<Field>,
    states: Option<States>,
}

/// No record is larger than a page of the ring buffer, whatever a format says.
const RECORD_BYTES_MAX: usize = 1 << 20;

impl EventFormat {
    /// Reads the text of a `format` file. The error says what was expected.
    pub(crate) fn parse(text: &[u8]) -> Result<EventFormat, String> {
        let text = String::from_utf8_lossy(text);
        let (mut name, mut id, mut states) = (None, None, None);
        let mut fields = Vec::new();
        for line in text.lines().map(str::trim) {
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = value.trim().parse().ok();
            } else if line.starts_with("field") {
                fields.push(field(line)?);
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                states = States::parse(print);
            }
        }
        let name = name.ok_or("expected `name: …` in an event format")?;
        let id = id.ok_or_else(|| format!("expected `ID: …` in the format of event `{name}`"))?;
        Ok(EventFormat {
            name,
            id,
            fields,
            states,
        })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Reads the fields of `header_page`, which has no name and no number.
pub(crate) fn header_fields(text: &[u8]) -> Result<Vec<Field>, String> {
    String::from_utf8_lossy(text)
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("field"))
        .map(field)
        .collect()
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`
fn field(line: &str) -> Result<Field, String> {
    let bad = || format!("expected `field:TYPE NAME; offset:N; size:N;`, found `{line}`");
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts
        .next()
        .and_then(|part| part.split_once(':'))
        .ok_or_else(bad)?
        .1;
    let (mut offset, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse::<usize>().ok(),
            Some(("size", value)) => size = value.parse::<usize>().ok(),
            Some(("signed", value)) => is_signed = value != "0",
            _ => {}
        }
    }
    let place = if declaration.contains("__data_loc ") {
        Place::Absolute
    } else if declaration.contains("__rel_loc ") {
        Place::Relative
    } else {
        Place::Here
    };
    // `char prev_comm[16]`, `char[] name`, and in old kernels `char name[]`
    let name = declaration.split_whitespace().next_back().ok_or_else(bad)?;
    let name = name.split('[').next().unwrap_or(name);
    let (Some(offset), Some(size)) = (offset, size) else {
        return Err(bad());
    };
    if offset > RECORD_BYTES_MAX || size > RECORD_BYTES_MAX {
        return Err(bad());
    }
    Ok(Field {
        name: name.trim_start_matches('*').to_owned(),
        offset,
        size,
        is_signed,
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_by_hand() {
        let text = b"name: sched_process_exec\nID: 365\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
            \tfield:char comm[16];\toffset:16;\tsize:16;\n\
            \nprint fmt: \"filename=%s pid=%d\", __get_str(filename), REC->pid\n";
        let format = EventFormat::parse(text).unwrap();
        assert_eq!(
            (format.name.as_str(), format.id),
            ("sched_process_exec", 365)
        );
        assert_eq!(format.field("filename").unwrap().place, Place::Absolute);
        let pid = format.field("pid").unwrap();
        assert_eq!((pid.offset, pid.size, pid.is_signed), (12, 4, true));
        assert_eq!(format.field("comm").unwrap().size, 16);
        assert!(format.field("prio").is_none());
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |text: &str| EventFormat::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error(""), "expected `name: …` in an event format");
        assert_eq!(
            error("name: a\nID: x"),
            "expected `ID: …` in the format of event `a`"
        );
        assert!(
            error("name: a\nID: 1\nfield:int x; size:4;").contains("found `field:int x; size:4;`")
        );
        assert!(
            error("name: a\nID: 1\nfield:int x; offset:99999999999; size:4;").contains("offset:9")
        );
    }

    #[test]
    fn the_page_header() {
        let text = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        let fields = header_fields(text).unwrap();
        assert_eq!(fields[1].name, "commit");
        assert_eq!((fields[1].size, fields[2].offset), (4, 12));
    }
}
