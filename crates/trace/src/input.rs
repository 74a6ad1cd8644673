//! Opening a trace file: what it is, and whether it is compressed.
//!
//! The first bytes decide, not the name: `1f 8b` is gzip whatever the file is called.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::{ErrorKind, ReadError};
use crate::ftrace_text::FtraceTextReader;
use crate::source::EventSource;

/// Opens a trace file, plain or gzipped.
///
/// # Errors
/// If the file cannot be opened, or is of a format that this crate does not read; the message says what to do about it.
pub fn open_trace(path: &Path) -> Result<Box<dyn EventSource>, ReadError> {
    let file = File::open(path).map_err(|error| ReadError::io(path, &error))?;
    let input = recognise(path, Box::new(file), true)?;
    Ok(Box::new(FtraceTextReader::new(path, input)))
}

/// First bytes of files that are not read, and what to tell their owner.
const FOREIGN: [(&[u8], &str); 6] = [
    (
        b"\x17\x08\x44tracing",
        "a trace.dat of trace-cmd; make text of it with `trace-cmd report -N -l -t`",
    ),
    (
        b"PERFILE2",
        "a perf.data file; record with trace-cmd or tracefs instead",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "compressed with zstd; decompress it first",
    ),
    (b"\xfd7zXZ\0", "compressed with xz; decompress it first"),
    (b"BZh", "compressed with bzip2; decompress it first"),
    (b"\x7fELF", "a program"),
];

/// Looks at the first bytes, unpacks gzip once, and gives a stream that still starts with them.
fn recognise(
    path: &Path,
    mut input: Box<dyn Read>,
    may_unpack: bool,
) -> Result<Box<dyn Read>, ReadError> {
    let head = head(&mut input).map_err(|error| head_error(path, &error))?;
    if head.starts_with(b"\x1f\x8b") {
        if !may_unpack {
            let message = "compressed twice; decompress it once";
            return Err(ReadError::new(ErrorKind::Unsupported, path, message));
        }
        let buffered = std::io::BufReader::with_capacity(64 * 1024, input);
        let whole = std::io::Cursor::new(head).chain(buffered);
        return recognise(path, Box::new(MultiGzDecoder::new(whole)), false);
    }
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(ReadError::new(
            ErrorKind::Unsupported,
            path,
            format!("expected ftrace text, found {what}"),
        ));
    }
    Ok(Box::new(std::io::Cursor::new(head).chain(input)))
}

/// Up to the first ten bytes.
fn head(input: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(10);
    input.take(10).read_to_end(&mut head)?;
    Ok(head)
}

fn head_error(path: &Path, error: &std::io::Error) -> ReadError {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::UnexpectedEof => {
            ReadError::new(ErrorKind::Truncated, path, "the compressed file is cut off").at_line(1)
        }
        Io::InvalidData | Io::InvalidInput => ReadError::new(
            ErrorKind::Malformed,
            path,
            format!("the compressed file is damaged ({error})"),
        )
        .at_line(1),
        _ => ReadError::io(path, error),
    }
}
