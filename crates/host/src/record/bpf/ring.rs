//! Records on their way out of a ring buffer of the kernel.
//!
//! A ring has records one behind the other, each with a head of 8 bytes and filled up to a multiple
//! of 8 bytes: the length in 30 bits, bit 31 while the record is being written, bit 30 if it was
//! given up (`Documentation/bpf/ringbuf.rst`). Readers stop at the first that is being written.
//!
//! Worked example. A record of 44 bytes at position 104 has its head at 104 and its data from 112
//! to 156; the next one begins at 160.

use std::io;
use std::os::fd::OwnedFd;

use super::calls::{self, MapKind, SharedRing};
use super::formats::TIME_BYTES;

const HEAD_BYTES: usize = 8;
const BUSY: u32 = 1 << 31;
const GIVEN_UP: u32 = 1 << 30;

/// State of a record, by its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// Not complete yet.
    Busy,
    /// Nothing in it; the next one begins so many bytes further.
    Nothing { step: usize },
    /// This much data behind the head.
    Record { bytes: usize, step: usize },
}

impl Head {
    fn of(word: u32) -> Head {
        let bytes = (word & !(BUSY | GIVEN_UP)) as usize;
        let step = (HEAD_BYTES + bytes).next_multiple_of(8);
        match (word & BUSY != 0, word & GIVEN_UP != 0 || bytes < TIME_BYTES) {
            (true, _) => Head::Busy,
            (_, true) => Head::Nothing { step },
            _ => Head::Record { bytes, step },
        }
    }
}

/// A record that waits to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    time_ns: u64,
    /// Where it begins, behind its time.
    position: usize,
    bytes: usize,
}

/// The ring buffer of one CPU.
#[derive(Debug)]
pub(super) struct Ring {
    shared: SharedRing,
    /// The map, for the programs.
    pub(super) file: OwnedFd,
    waiting: Vec<Waiting>,
}

impl Ring {
    /// Makes one of this size, a power of two and at least a page.
    pub(super) fn make(bytes: usize) -> io::Result<Ring> {
        let file = calls::make_map(MapKind::RingBuffer, 0, 0, bytes as u32, None)?;
        Ok(Ring {
            shared: SharedRing::map(&file, bytes)?,
            file,
            waiting: Vec::new(),
        })
    }

    /// Hands over every complete record in the order of time, with its time, and gives its room
    /// back.
    ///
    /// An interrupt may have written between the moment a record got its place and the moment it
    /// got its time. What is written like that is complete when the interrupted one is, so the
    /// order within one round is that of time.
    pub(super) fn drain(
        &mut self,
        mut see: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut position, end) = (self.shared.read(), self.shared.written());
        self.waiting.clear();
        while position < end {
            match Head::of(self.shared.head(position)) {
                Head::Busy => break,
                Head::Nothing { step } => position += step,
                Head::Record { bytes, step } => {
                    let data = self.shared.data(position + HEAD_BYTES, bytes);
                    let time = data[..TIME_BYTES].try_into();
                    self.waiting.push(Waiting {
                        time_ns: time.map_or(0, u64::from_le_bytes),
                        position: position + HEAD_BYTES + TIME_BYTES,
                        bytes: bytes - TIME_BYTES,
                    });
                    position += step;
                }
            }
        }
        self.waiting.sort_by_key(|one| one.time_ns);
        for one in &self.waiting {
            see(one.time_ns, self.shared.data(one.position, one.bytes))?;
        }
        self.shared.give_back(position);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_tell_length_and_whether_there_is_something_to_read() {
        for (head, bytes) in [(44, 44), (48, 48)] {
            assert_eq!(Head::of(head), Head::Record { bytes, step: 56 });
        }
        assert_eq!(Head::of(44 | BUSY), Head::Busy);
        assert_eq!(Head::of(44 | BUSY | GIVEN_UP), Head::Busy);
        assert_eq!(Head::of(44 | GIVEN_UP), Head::Nothing { step: 56 });
        let short = Head::of(4);
        assert_eq!(short, Head::Nothing { step: 16 }, "no room for a time");
    }
}
