//! The load of dbench's packaged `client.txt`, as far as the scheduler notices it.
//!
//! Between two flushes a client only computes, so a piece of the load is the number of operations
//! up to a flush and the bytes they read and write. The file's 458,344 operations repeat a pattern
//! of 43 such pieces: 3555 operations, 19.1 MB. Ten of the 43 flushed files have grown since their
//! last flush, which costs XFS a worker more. Counted from the file that Debian's dbench 4.0
//! installs.

use std::sync::LazyLock;

use schedcast_base::rows;

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

/// The pattern.
pub(crate) static PIECES: LazyLock<Vec<Piece>> = LazyLock::new(|| {
    let piece = |line: &str| {
        let mut cells = line.split(' ');
        Some(Piece {
            operations: cells.next()?.parse().ok()?,
            bytes: cells.next()?.parse().ok()?,
            grown: cells.next().is_some(),
        })
    };
    let lines = rows::lines(include_str!("load.txt"));
    lines.map(|line| piece(line).expect("a row")).collect()
});

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
