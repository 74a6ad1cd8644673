//! `requests.csv`: what the application saw, one row a request, on the trace's clock in
//! microseconds.
//!
//! ```text
//! client,scheduled_us,sent_us,replied_us
//! 0,5370327166,5370327377,5370345558
//! ```
//!
//! Client 0 was to send at 5370.327166 s, did so 211 µs late, and had its answer 18 181 µs after
//! that. Load generators may log more: further columns, such as the kind of the request, are passed
//! over.

use std::path::Path;

use super::Request;
use crate::error::{ErrorKind, ReadError, excerpt, unknown_name};

const COLUMNS: [&str; 4] = ["client", "scheduled_us", "sent_us", "replied_us"];

/// Reads the whole text of a file.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Vec<Request>, ReadError> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').zip(1u64..);
    let Some((header, _)) = lines.next() else {
        return Err(ReadError::new(
            ErrorKind::Truncated,
            path,
            "expected column names, found an empty file",
        )
        .at_line(1));
    };
    check_header(path, whole(path, header, 1)?)?;
    lines
        .map(|(line, number)| {
            let line = whole(path, line, number)?;
            row(line).map_err(|(offset, expected)| {
                let message = format!("expected {expected}, found {}", excerpt(&line[offset..]));
                let column = offset as u64 + 1;
                ReadError::new(ErrorKind::Malformed, path, message)
                    .at_line(number)
                    .at_column(column)
            })
        })
        .collect()
}

/// The line without its newline, which it must have.
fn whole<'a>(path: &Path, line: &'a [u8], number: u64) -> Result<&'a [u8], ReadError> {
    let Some(line) = line.strip_suffix(b"\n") else {
        let message = "the file is cut off inside this line: it has no newline";
        return Err(ReadError::new(ErrorKind::Truncated, path, message).at_line(number));
    };
    Ok(line.strip_suffix(b"\r").unwrap_or(line))
}

fn check_header(path: &Path, line: &[u8]) -> Result<(), ReadError> {
    let mut offset = 0;
    let mut names = line.split(|byte| *byte == b',');
    for (index, column) in COLUMNS.iter().enumerate() {
        let found = names.next().unwrap_or(b"");
        if found != column.as_bytes() {
            let text = String::from_utf8_lossy(found);
            let message = if COLUMNS.contains(&text.as_ref()) || found.is_empty() {
                format!(
                    "expected column `{column}` in place {}, found `{text}`",
                    index + 1
                )
            } else {
                unknown_name("column", &text, &COLUMNS)
            };
            let kind = ErrorKind::Unknown;
            return Err(ReadError::new(kind, path, message)
                .at_line(1)
                .at_column(offset as u64 + 1));
        }
        offset += found.len() + 1;
    }
    Ok(())
}

/// One row; the error is a byte offset and what should have stood there.
fn row(line: &[u8]) -> Result<Request, (usize, &'static str)> {
    let mut at = 0;
    let mut values = [0u64; 4];
    for (index, value) in values.iter_mut().enumerate() {
        if index > 0 {
            if line.get(at) != Some(&b',') {
                return Err((at, "a comma and a number"));
            }
            at += 1;
        }
        let digits = line[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let text = std::str::from_utf8(&line[at..at + digits]).unwrap_or("");
        *value = text.parse().map_err(|_| (at, "a number"))?;
        at += digits;
    }
    if !matches!(line.get(at), None | Some(b',')) {
        return Err((at, "a comma or the end of the line"));
    }
    let [client, scheduled_us, sent_us, replied_us] = values;
    let client = u32::try_from(client).map_err(|_| (0, "a client number"))?;
    if sent_us < scheduled_us || replied_us < sent_us {
        return Err((
            0,
            "a request that is scheduled, sent and replied in this order",
        ));
    }
    Ok(Request {
        client,
        scheduled_us,
        sent_us,
        replied_us,
    })
}

#[cfg(test)]
mod tests {
    use schedcast_base::rows;

    use super::*;

    fn read_text(text: &str) -> Result<Vec<Request>, String> {
        parse(Path::new("r.csv"), text.as_bytes()).map_err(|error| error.to_string())
    }

    const HEADER: &str = "client,scheduled_us,sent_us,replied_us\n";

    #[test]
    fn rows_in_order() {
        let requests = read_text(&format!("{HEADER}0,10,20,30\r\n7,11,11,11\n")).unwrap();
        assert_eq!(
            requests[0],
            Request {
                client: 0,
                scheduled_us: 10,
                sent_us: 20,
                replied_us: 30
            }
        );
        assert_eq!(requests[1].client, 7);
        let more = "client,scheduled_us,sent_us,replied_us,kind\n0,10,20,30,get\n";
        assert_eq!(read_text(more).unwrap(), requests[..1]);
        assert_eq!(read_text(HEADER), Ok(vec![]));
    }

    #[test]
    fn errors_name_line_and_column() {
        for (section, cases) in rows::sections(include_str!("refusals.txt")) {
            let head = if section == "whole files" { "" } else { HEADER };
            for case in cases {
                let [text, message] = rows::cells(case);
                let text = format!("{head}{}", text.replace("\\n", "\n"));
                assert_eq!(read_text(&text).unwrap_err(), message);
            }
        }
    }
}
