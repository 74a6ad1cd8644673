//! Tables whose rows are named by the dense numbers of [`crate::ids`].
//!
//! One dispatch looks up some 250 rows, so asking each time whether the row exists was a seventh of
//! all instructions. A [`Table`] therefore trusts its numbers in optimised builds. That is sound
//! only because numbers are never computed from input: every one was handed out when its row was
//! added, tables of a running world never shrink, and whatever comes from outside (workloads,
//! machines, topologies) is checked once before a world is built. Builds with debug assertions,
//! those of all tests among them, check every access.
//!
//! Worked example: a machine with 8 CPUs and 2 groups has 16 fair queues;
//! `cfs_rq_of(group 1, CPU 3)` is row 1 · 8 + 3 = 11, which exists as soon as `group_create`
//! returned group 1.

use std::ops::{Deref, DerefMut, Index, IndexMut, Range, RangeFrom};

/// Rows that are only ever added, found by number without asking whether the row exists.
#[derive(Clone, Debug)]
pub struct Table<T> {
    rows: Vec<T>,
}

impl<T> Table<T> {
    /// No rows.
    pub const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds a row behind the others.
    pub fn push(&mut self, row: T) {
        self.rows.push(row);
    }

    /// Adds copies of `row` until there are `count` rows; never takes any away.
    pub fn grow(&mut self, count: usize, row: T)
    where
        T: Clone,
    {
        if count > self.rows.len() {
            self.rows.resize(count, row);
        }
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<Vec<T>> for Table<T> {
    fn from(rows: Vec<T>) -> Self {
        Self { rows }
    }
}

impl<T> FromIterator<T> for Table<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        Self {
            rows: rows.into_iter().collect(),
        }
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.rows
    }
}

impl<T> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.rows
    }
}

impl<'a, T> IntoIterator for &'a Table<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut Table<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter_mut()
    }
}

/// A number that names a row.
pub trait Row: Copy {
    /// The row.
    fn row(self) -> usize;
}

impl Row for usize {
    #[inline(always)]
    fn row(self) -> usize {
        self
    }
}

impl<R: Row> Row for &R {
    #[inline(always)]
    fn row(self) -> usize {
        (*self).row()
    }
}

impl<T, R: Row> Index<R> for Table<T> {
    type Output = T;

    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot loop; see the module docs")]
    fn index(&self, row: R) -> &T {
        let row = row.row();
        debug_assert!(row < self.rows.len(), "no row {row}");
        // SAFETY: rows are named by numbers that were handed out when the row was added, and stay.
        unsafe { self.rows.get_unchecked(row) }
    }
}

impl<T, R: Row> IndexMut<R> for Table<T> {
    #[inline(always)]
    #[expect(unsafe_code, reason = "the hot loop; see the module docs")]
    fn index_mut(&mut self, row: R) -> &mut T {
        let row = row.row();
        debug_assert!(row < self.rows.len(), "no row {row}");
        // SAFETY: as above.
        unsafe { self.rows.get_unchecked_mut(row) }
    }
}

impl<T> Index<Range<usize>> for Table<T> {
    type Output = [T];

    #[inline]
    fn index(&self, rows: Range<usize>) -> &[T] {
        &self.rows[rows]
    }
}

impl<T> IndexMut<Range<usize>> for Table<T> {
    #[inline]
    fn index_mut(&mut self, rows: Range<usize>) -> &mut [T] {
        &mut self.rows[rows]
    }
}

impl<T> Index<RangeFrom<usize>> for Table<T> {
    type Output = [T];

    #[inline]
    fn index(&self, rows: RangeFrom<usize>) -> &[T] {
        &self.rows[rows]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_and_never_taken_away() {
        let mut table: Table<u32> = vec![5, 6].into();
        table.push(7);
        table.grow(5, 9);
        table.grow(2, 0);
        assert_eq!(table[0..5], [5, 6, 7, 9, 9]);
        table[1] += 1;
        assert_eq!((table[1], table.len()), (7, 5));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no row 3")]
    fn tests_check_every_access() {
        let table: Table<u32> = vec![5, 6, 7].into();
        let _ = table[3];
    }
}
