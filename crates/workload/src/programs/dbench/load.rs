//! The load of dbench's packaged `client.txt`, as far as the scheduler notices it.
//!
//! Between two flushes a client only computes, so a piece of the load is the number of operations
//! up to a flush and the bytes they read and write. The file's 458,344 operations repeat a pattern
//! of 43 such pieces: 3555 operations, 19.1 MB. Ten of the 43 flushed files have grown since their
//! last flush, which costs XFS a worker more. Counted from the file that Debian's dbench 4.0
//! installs.

/// Operations before a flush, and bytes they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Operations, the flush included.
    pub operations: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// The flushed file has grown since its last flush.
    pub grown: bool,
}

/// A file that is written in place.
const fn piece(operations: u64, bytes: u64) -> Piece {
    Piece {
        operations,
        bytes,
        grown: false,
    }
}

/// A file that grows.
const fn growing(operations: u64, bytes: u64) -> Piece {
    Piece {
        grown: true,
        ..piece(operations, bytes)
    }
}

/// A write of a page and its flush.
const PAGE: Piece = piece(2, 4096);
/// The same with one operation more.
const OPENED_PAGE: Piece = piece(3, 4096);

/// The pattern.
pub(crate) static PIECES: [Piece; 43] = [
    growing(897, 4_895_677),
    PAGE,
    OPENED_PAGE,
    PAGE,
    PAGE,
    OPENED_PAGE,
    piece(44, 115_959),
    PAGE,
    OPENED_PAGE,
    PAGE,
    PAGE,
    OPENED_PAGE,
    piece(56, 142_371),
    PAGE,
    OPENED_PAGE,
    PAGE,
    PAGE,
    OPENED_PAGE,
    growing(71, 180_899),
    OPENED_PAGE,
    growing(37, 103_507),
    OPENED_PAGE,
    growing(63, 130_325),
    OPENED_PAGE,
    growing(495, 4_137_751),
    growing(150, 127_523),
    growing(2, 4096),
    growing(250, 197_157),
    growing(2, 4096),
    growing(2, 4096),
    piece(452, 1_512_867),
    piece(31, 67_841),
    piece(40, 136_855),
    piece(61, 618_237),
    piece(287, 3_250_368),
    piece(153, 1_517_543),
    piece(60, 35_874),
    piece(18, 15_712),
    piece(197, 749_013),
    piece(99, 1_069_569),
    piece(9, 12_288),
    piece(24, 8192),
    piece(10, 8192),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_has_the_sums_of_the_file() {
        let operations: u64 = PIECES.iter().map(|piece| piece.operations).sum();
        let bytes: u64 = PIECES.iter().map(|piece| piece.bytes).sum();
        assert_eq!((operations, bytes), (3555, 19_119_736));
        assert_eq!(PIECES.iter().filter(|piece| piece.grown).count(), 10);
    }
}
