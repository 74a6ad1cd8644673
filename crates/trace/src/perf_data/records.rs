//! The records of the data part, read in large pieces.

use crate::binary::{Bytes, Damage, Endian, Store};

/// Type, flags and size.
pub(super) const HEAD_BYTES: u64 = 8;
/// Records have at most 64 KiB; a piece holds many.
const PIECE_BYTES: u64 = 1 << 20;
/// A record behind which bytes lie that are no records.
const AUXTRACE: u32 = 71;

/// One record.
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    /// Place in the file.
    pub(super) offset: u64,
    /// Without the head.
    pub(super) content: &'a [u8],
}

/// Steps through the data.
pub(super) struct Records {
    store: Store,
    endian: Endian,
    piece: Vec<u8>,
    piece_offset: u64,
    at: usize,
    end: u64,
}

impl Records {
    pub(super) fn new(
        store: Store,
        endian: Endian,
        offset: u64,
        size: u64,
    ) -> Result<Records, Damage> {
        let end = offset.saturating_add(size);
        if end > store.len() {
            let expected = format!("data up to byte {end}, found {} bytes", store.len());
            return Err(Damage::truncated(offset, &expected));
        }
        Ok(Records {
            store,
            endian,
            piece: Vec::new(),
            piece_offset: offset,
            at: 0,
            end,
        })
    }

    pub(super) fn endian(&self) -> Endian {
        self.endian
    }

    fn offset(&self) -> u64 {
        self.piece_offset + self.at as u64
    }

    /// The next record, `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_>>, Damage> {
        if self.offset() >= self.end {
            return Ok(None);
        }
        let (kind, size) = self.head()?;
        let offset = self.offset();
        self.have(size)?;
        let start = self.at + HEAD_BYTES as usize;
        self.at += size as usize;
        if kind == AUXTRACE {
            let content = &self.piece[start..self.at];
            let skipped = Bytes::new(content, offset + HEAD_BYTES, self.endian)
                .u64("the size of data behind a record")?;
            // The next piece begins behind what is stepped over.
            self.piece_offset = offset.saturating_add(size).saturating_add(skipped);
            self.piece.clear();
            self.at = 0;
            return Ok(Some(Record {
                kind,
                offset,
                content: &[],
            }));
        }
        Ok(Some(Record {
            kind,
            offset,
            content: &self.piece[start..self.at],
        }))
    }

    /// Type and size of the next record.
    fn head(&mut self) -> Result<(u32, u64), Damage> {
        self.have(HEAD_BYTES)?;
        let offset = self.offset();
        let mut head = Bytes::new(&self.piece[self.at..], offset, self.endian);
        let kind = head.u32("the type of a record")?;
        head.u16("the flags of a record")?;
        let size = u64::from(head.u16("the size of a record")?);
        if size < HEAD_BYTES {
            let message = format!("expected a record of at least {HEAD_BYTES} bytes, found {size}");
            return Err(Damage::malformed(offset, message));
        }
        Ok((kind, size))
    }

    /// Makes sure that the next `size` bytes are in the piece.
    fn have(&mut self, size: u64) -> Result<(), Damage> {
        if self.piece.len() as u64 >= self.at as u64 + size {
            return Ok(());
        }
        let offset = self.offset();
        let left = self.end.saturating_sub(offset);
        if left < size {
            let expected = format!("a record of {size} bytes, found {left} bytes of data");
            return Err(Damage::truncated(offset, &expected));
        }
        let length = left.min(PIECE_BYTES);
        self.store
            .read_into(offset, length, &mut self.piece, "records")?;
        self.piece_offset = offset;
        self.at = 0;
        Ok(())
    }
}
