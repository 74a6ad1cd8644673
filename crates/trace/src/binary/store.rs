//! Where the bytes of a binary trace lie: in a file that is read at offsets, or in memory if it was
//! compressed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::Damage;
use crate::error::ErrorKind;

/// No chunk of a trace unpacks to more; the limit keeps damaged sizes from filling the memory.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) enum Store {
    File { file: File, length: u64 },
    Memory(Vec<u8>),
}

impl Store {
    pub(crate) fn of_file(file: File) -> std::io::Result<Store> {
        let length = file.metadata()?.len();
        Ok(Store::File { file, length })
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Store::File { length, .. } => *length,
            Store::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Replaces the content of `buffer` by `length` bytes from `offset` on.
    pub(crate) fn read_into(
        &self,
        offset: u64,
        length: u64,
        buffer: &mut Vec<u8>,
        expected: &str,
    ) -> Result<(), Damage> {
        let is_inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.len());
        let (Ok(size), true) = (usize::try_from(length), is_inside) else {
            let available = self.len().saturating_sub(offset);
            let expected = format!("{expected} of {length} bytes, found {available} bytes");
            return Err(Damage::truncated(offset, &expected));
        };
        match self {
            Store::Memory(bytes) => {
                buffer.clear();
                buffer.extend_from_slice(&bytes[offset as usize..offset as usize + size]);
            }
            Store::File { file, .. } => {
                // All of it is read: a page that follows another needs no zeros first.
                buffer.resize(size, 0);
                file.read_exact_at(buffer, offset).map_err(|error| Damage {
                    kind: ErrorKind::Io,
                    offset,
                    message: error.to_string(),
                })?;
            }
        }
        Ok(())
    }

    pub(crate) fn read(&self, offset: u64, length: u64, expected: &str) -> Result<Vec<u8>, Damage> {
        let mut buffer = Vec::new();
        self.read_into(offset, length, &mut buffer, expected)?;
        Ok(buffer)
    }
}

/// Unpacks one zstd frame that was packed from `length` bytes.
pub(crate) fn unpack_zstd(packed: &[u8], length: u64, offset: u64) -> Result<Vec<u8>, Damage> {
    let bad = |message: String| Damage::malformed(offset, message);
    if length > UNPACKED_BYTES_MAX {
        return Err(bad(format!(
            "expected at most {UNPACKED_BYTES_MAX} bytes in a compressed part, found {length}"
        )));
    }
    let decoder = StreamingDecoder::new(packed)
        .map_err(|error| bad(format!("expected a zstd frame ({error})")))?;
    let mut unpacked = Vec::new();
    decoder
        .take(length + 1)
        .read_to_end(&mut unpacked)
        .map_err(|error| bad(format!("the zstd frame is damaged ({error})")))?;
    if unpacked.len() as u64 != length {
        let found = unpacked.len() as u64;
        let more = if found > length { "more" } else { "fewer" };
        return Err(bad(format!(
            "expected {length} bytes in a compressed part, found {more}"
        )));
    }
    Ok(unpacked)
}

/// Unpacks zstd frames of unknown length, up to `length_max` bytes.
pub(crate) fn unpack_zstd_stream(
    packed: &[u8],
    length_max: u64,
    offset: u64,
) -> Result<Vec<u8>, Damage> {
    let mut unpacked = Vec::new();
    ZstdFrames::new(packed)
        .take(length_max)
        .read_to_end(&mut unpacked)
        .map_err(|error| {
            Damage::malformed(offset, format!("the zstd frame is damaged ({error})"))
        })?;
    Ok(unpacked)
}

/// Decoded content of a file packed with zstd; parallel packers write several frames one behind the
/// other.
pub(crate) struct ZstdFrames<R: Read> {
    state: State<R>,
}

enum State<R: Read> {
    Between(BufReader<R>),
    Inside(Box<StreamingDecoder<BufReader<R>, FrameDecoder>>),
    Ended,
}

impl<R: Read> ZstdFrames<R> {
    pub(crate) fn new(input: R) -> ZstdFrames<R> {
        ZstdFrames {
            state: State::Between(BufReader::new(input)),
        }
    }
}

/// The decoder reports every damage, a cut file included, as an error of its own.
fn damaged(error: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string())
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(mut input) => {
                    if !input.fill_buf()?.is_empty() {
                        let decoder = StreamingDecoder::new(input).map_err(damaged)?;
                        self.state = State::Inside(Box::new(decoder));
                    }
                }
                State::Inside(mut decoder) => match decoder.read(buffer).map_err(damaged)? {
                    0 if !buffer.is_empty() => self.state = State::Between(decoder.into_inner()),
                    bytes => {
                        self.state = State::Inside(decoder);
                        return Ok(bytes);
                    }
                },
            }
        }
    }
}
