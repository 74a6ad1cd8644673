//! A set of CPUs of fixed size, copied by value (`cpumask`).

use crate::ids::Cpu;

/// Most CPUs a simulated machine may have.
pub const MAX_CPUS: usize = 512;
const WORDS: usize = MAX_CPUS / 64;

/// Set of CPUs, at most [`MAX_CPUS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSet {
    words: [u64; WORDS],
}

impl CpuSet {
    /// The empty set.
    pub const EMPTY: CpuSet = CpuSet { words: [0; WORDS] };

    /// CPUs `0..count`.
    pub fn first(count: usize) -> Self {
        (0..count).map(Cpu::from).collect()
    }

    /// Only `cpu`.
    pub fn of(cpu: Cpu) -> Self {
        let mut set = Self::EMPTY;
        set.insert(cpu);
        set
    }

    /// Adds a CPU.
    #[inline]
    pub fn insert(&mut self, cpu: Cpu) {
        debug_assert!(cpu.index() < MAX_CPUS);
        self.words[cpu.index() / 64 % WORDS] |= 1 << (cpu.index() % 64);
    }

    /// Removes a CPU.
    #[inline]
    pub(crate) fn remove(&mut self, cpu: Cpu) {
        self.words[cpu.index() / 64 % WORDS] &= !(1 << (cpu.index() % 64));
    }

    /// Whether `cpu` is in the set.
    #[inline]
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.words[cpu.index() / 64 % WORDS] >> (cpu.index() % 64) & 1 == 1
    }

    /// Number of CPUs.
    #[inline]
    pub fn len(&self) -> usize {
        // Counting costs more than asking first, and most words of most sets are empty.
        let used = self.words.iter().filter(|&&word| word != 0);
        used.map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is no CPU.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// CPUs in both sets.
    #[inline]
    pub fn and(&self, other: &Self) -> Self {
        let mut words = self.words;
        words
            .iter_mut()
            .zip(other.words)
            .for_each(|(word, mask)| *word &= mask);
        Self { words }
    }

    /// CPUs in this set and not in the other.
    #[inline]
    pub(crate) fn and_not(&self, other: &Self) -> Self {
        let mut words = self.words;
        words
            .iter_mut()
            .zip(other.words)
            .for_each(|(word, mask)| *word &= !mask);
        Self { words }
    }

    /// CPUs in either set.
    #[inline]
    pub fn or(&self, other: &Self) -> Self {
        let mut words = self.words;
        words
            .iter_mut()
            .zip(other.words)
            .for_each(|(word, mask)| *word |= mask);
        Self { words }
    }

    /// First CPU from `start` on, wrapping round.
    #[inline]
    pub(crate) fn first_wrap(&self, start: usize) -> Option<Cpu> {
        let row = start / 64;
        if row < WORDS {
            let head = self.words[row] & (u64::MAX << (start % 64));
            if head != 0 {
                return Some(Cpu::from(row * 64 + head.trailing_zeros() as usize));
            }
        }
        let rows = (row + 1..WORDS).chain(0..WORDS.min(row + 1));
        rows.into_iter()
            .find(|&row| self.words[row] != 0)
            .map(|row| Cpu::from(row * 64 + self.words[row].trailing_zeros() as usize))
    }

    /// Number of CPUs below `limit`.
    #[inline]
    pub(crate) fn count_below(&self, limit: usize) -> usize {
        let row = (limit / 64).min(WORDS);
        let whole: u32 = self.words[..row].iter().map(|word| word.count_ones()).sum();
        let part = match self.words.get(row) {
            Some(word) => (word & !(u64::MAX << (limit % 64))).count_ones(),
            None => 0,
        };
        (whole + part) as usize
    }

    /// Place of `cpu` (1 = first) in the order of [`CpuSet::iter_wrap`] from `start`; `cpu` must be
    /// in the set.
    #[inline]
    pub(crate) fn place_wrap(&self, start: usize, cpu: Cpu) -> usize {
        let upto = self.count_below(cpu.index() + 1);
        let skipped = self.count_below(start);
        if cpu.index() >= start {
            upto - skipped
        } else {
            self.len() - skipped + upto
        }
    }

    /// Whether the sets share a CPU.
    #[inline]
    pub(crate) fn intersects(&self, other: &Self) -> bool {
        self.words
            .iter()
            .zip(other.words)
            .any(|(word, mask)| word & mask != 0)
    }

    /// Whether every CPU of this set is in the other.
    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.and_not(other).is_empty()
    }

    /// CPUs in ascending order.
    #[inline]
    pub fn iter(&self) -> CpuIter<'_> {
        CpuIter {
            words: &self.words,
            row: 0,
            rest: self.words[0],
        }
    }

    /// CPUs from `start` on, in ascending order.
    #[inline]
    fn iter_from(&self, start: Cpu) -> CpuIter<'_> {
        let row = start.index() / 64;
        let ahead = u64::MAX << (start.index() % 64);
        CpuIter {
            words: &self.words,
            row,
            rest: self.words.get(row).map_or(0, |word| word & ahead),
        }
    }

    /// CPUs from `start` on, wrapping round (`for_each_cpu_wrap`).
    #[inline]
    pub(crate) fn iter_wrap(&self, start: Cpu) -> impl Iterator<Item = Cpu> + '_ {
        self.iter_from(start)
            .chain(self.iter().take_while(move |&cpu| cpu < start))
    }

    /// Lowest CPU.
    #[inline]
    pub fn lowest(&self) -> Option<Cpu> {
        self.iter().next()
    }
}

/// CPUs of a set in ascending order.
#[derive(Clone, Debug)]
pub struct CpuIter<'a> {
    words: &'a [u64; WORDS],
    row: usize,
    /// CPUs of this row that are still to come.
    rest: u64,
}

impl Iterator for CpuIter<'_> {
    type Item = Cpu;

    #[inline]
    fn next(&mut self) -> Option<Cpu> {
        while self.rest == 0 {
            self.row += 1;
            self.rest = *self.words.get(self.row)?;
        }
        let bit = self.rest.trailing_zeros() as usize;
        self.rest &= self.rest - 1;
        Some(Cpu::from(self.row * 64 + bit))
    }
}

impl FromIterator<Cpu> for CpuSet {
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        let mut set = Self::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_from_the_start_cpu() {
        let set: CpuSet = [1, 63, 64, 200].into_iter().map(Cpu).collect();
        let order: Vec<u32> = set.iter_wrap(Cpu(64)).map(|cpu| cpu.0).collect();
        assert_eq!(order, [64, 200, 1, 63]);
        assert_eq!(set.len(), 4);
        assert_eq!(set.lowest(), Some(Cpu(1)));
    }

    #[test]
    fn place_and_first_agree_with_the_wrapping_order() {
        let set: CpuSet = [0, 1, 63, 64, 130, 511].into_iter().map(Cpu).collect();
        for start in [0usize, 1, 2, 63, 64, 65, 131, 511, 512] {
            let order: Vec<Cpu> = set.iter_wrap(Cpu::from(start)).collect();
            let found = set.first_wrap(start);
            assert_eq!(found, order.first().copied(), "from {start}");
            for (place, &cpu) in order.iter().enumerate() {
                assert_eq!(set.place_wrap(start, cpu), place + 1, "from {start}");
            }
        }
        assert_eq!(CpuSet::EMPTY.first_wrap(3), None);
        assert_eq!(set.count_below(64), 3);
    }

    #[test]
    fn set_algebra() {
        let low = CpuSet::first(4);
        let mut high = CpuSet::first(8).and_not(&low);
        assert!(!low.intersects(&high) && low.is_subset(&CpuSet::first(8)));
        high.remove(Cpu(4));
        assert!(!high.contains(Cpu(4)) && high.contains(Cpu(5)));
        assert!(low.and(&high).is_empty());
    }
}
