//! The load of dbench's packaged `client.txt`, as far as the scheduler notices it.
//!
//! Between two flushes a client only computes, so a piece of the load is the number of operations up
//! to a flush and the bytes they read and write. The file's 458,344 operations repeat a pattern of 43
//! such pieces: 3555 operations, 19.1 MB. Counted from the file that Debian's dbench 4.0 installs.

/// Operations before a flush, and bytes they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Operations, the flush included.
    pub operations: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

const fn piece(operations: u64, bytes: u64) -> Piece {
    Piece { operations, bytes }
}

/// A write of a page and its flush.
const PAGE: Piece = piece(2, 4096);
/// The same with one operation more.
const OPENED_PAGE: Piece = piece(3, 4096);

/// The pattern.
pub static PIECES: [Piece; 43] = [
    piece(897, 4_895_677),
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
    piece(71, 180_899),
    OPENED_PAGE,
    piece(37, 103_507),
    OPENED_PAGE,
    piece(63, 130_325),
    OPENED_PAGE,
    piece(495, 4_137_751),
    piece(150, 127_523),
    PAGE,
    piece(250, 197_157),
    PAGE,
    PAGE,
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
