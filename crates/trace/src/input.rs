//! Opening a trace: what it is, and whether it is compressed.
//!
//! The first bytes decide, not the name: `1f 8b` is gzip whatever the file is called, and what
//! comes out of it is looked at again. A folder holds raw pages of tracefs.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::binary::{Store, ZstdFrames};
use crate::error::{ErrorKind, ReadError};
use crate::ftrace_text::FtraceTextReader;
use crate::perf_data;
use crate::perfetto;
use crate::raw_pages;
use crate::source::EventSource;
use crate::trace_dat;

/// Opens a trace of any format that this crate reads, plain or packed with gzip or zstd.
///
/// # Errors
/// If the file cannot be opened, or is of a format that this crate does not read; the message says
/// what to do about it.
pub fn open_trace(path: &Path) -> Result<Box<dyn EventSource>, ReadError> {
    if path.is_dir() {
        return raw_pages::open(path);
    }
    let mut file = File::open(path).map_err(|error| ReadError::io(path, &error))?;
    let head = head(&mut file).map_err(|error| head_error(path, &error))?;
    let Some(packing) = Packing::of(&head) else {
        return match Format::of(path, &head)? {
            Format::Text => {
                let whole = std::io::Cursor::new(head).chain(file);
                Ok(Box::new(FtraceTextReader::new(path, whole)))
            }
            binary => {
                let store = Store::of_file(file).map_err(|error| ReadError::io(path, &error))?;
                binary.open(path, store)
            }
        };
    };
    let buffered = std::io::BufReader::with_capacity(64 * 1024, file);
    let whole = std::io::Cursor::new(head).chain(buffered);
    match packing {
        Packing::Gzip => open_unpacked(path, MultiGzDecoder::new(whole)),
        Packing::Zstd => open_unpacked(path, ZstdFrames::new(whole)),
    }
}

/// Largest binary trace that is unpacked into memory, bytes. A packed file can be a thousand times
/// smaller than what comes out of it; a file that is unpacked already is read from disk, whatever
/// its size.
const UNPACKED_MAX_BYTES: u64 = 1 << 30;

/// Opens what comes out of a packed file.
fn open_unpacked(
    path: &Path,
    mut input: impl Read + 'static,
) -> Result<Box<dyn EventSource>, ReadError> {
    let head = head(&mut input).map_err(|error| head_error(path, &error))?;
    if Packing::of(&head).is_some() {
        let message = "compressed twice; decompress it once";
        return Err(ReadError::new(ErrorKind::Unsupported, path, message));
    }
    let format = Format::of(path, &head)?;
    let whole = std::io::Cursor::new(head).chain(input);
    if format == Format::Text {
        return Ok(Box::new(FtraceTextReader::new(path, whole)));
    }
    let bytes = unpack(path, whole, UNPACKED_MAX_BYTES)?;
    format.open(path, Store::Memory(bytes))
}

/// All bytes of `packed`, if they are not more than `most`.
fn unpack(path: &Path, packed: impl Read, most: u64) -> Result<Vec<u8>, ReadError> {
    let mut bytes = Vec::new();
    packed
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| head_error(path, &error))?;
    if bytes.len() as u64 > most {
        let message = format!(
            "unpacks to more than {most} bytes; unpack it to a file first, which is read from disk"
        );
        return Err(ReadError::new(ErrorKind::Unsupported, path, message));
    }
    Ok(bytes)
}

/// How a file is packed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn of(head: &[u8]) -> Option<Packing> {
        if head.starts_with(b"\x1f\x8b") {
            Some(Packing::Gzip)
        } else if head.starts_with(b"\x28\xb5\x2f\xfd") {
            Some(Packing::Zstd)
        } else {
            None
        }
    }
}

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    TraceDat,
    PerfData,
    Perfetto,
}

/// First bytes of files that are not read, and what to tell their owner.
const FOREIGN: [(&[u8], &str); 3] = [
    (b"\xfd7zXZ\0", "compressed with xz; decompress it first"),
    (b"BZh", "compressed with bzip2; decompress it first"),
    (b"\x7fELF", "a program"),
];

impl Format {
    /// The format of a file that begins like this.
    fn of(path: &Path, head: &[u8]) -> Result<Format, ReadError> {
        if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
            let message = format!("expected a trace, found {what}");
            return Err(ReadError::new(ErrorKind::Unsupported, path, message));
        }
        Ok(if head.starts_with(trace_dat::MAGIC) {
            Format::TraceDat
        } else if head.starts_with(perf_data::MAGIC) || head.starts_with(perf_data::MAGIC_BIG) {
            Format::PerfData
        } else if perfetto::read::is_trace(head) {
            Format::Perfetto
        } else {
            Format::Text
        })
    }

    /// Opens a file of a binary format.
    fn open(self, path: &Path, store: Store) -> Result<Box<dyn EventSource>, ReadError> {
        match self {
            Format::TraceDat => trace_dat::open(path, store),
            Format::PerfData => perf_data::open(path, store),
            Format::Perfetto => perfetto::read::open(path, store),
            Format::Text => {
                let message = "expected a binary format";
                Err(ReadError::new(ErrorKind::Unsupported, path, message))
            }
        }
    }
}

/// As much of the beginning as formats are told by.
const HEAD_BYTES: u64 = 64;

/// Up to the first [`HEAD_BYTES`].
fn head(input: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    input.take(HEAD_BYTES).read_to_end(&mut head)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_trace_may_have_so_many_bytes_and_not_one_more() {
        let unpacked = |bytes| unpack(Path::new("t"), std::io::repeat(7).take(bytes), 1000);
        assert_eq!(unpacked(1000).unwrap(), [7; 1000]);
        let message = unpacked(1001).unwrap_err().to_string();
        assert!(message.contains("more than 1000 bytes"), "{message}");
    }
}
