//! Names of tasks, each stored once.
//!
//! A trace repeats a handful of names millions of times, so events carry a [`CommId`] of four
//! bytes. Ids are given in the order in which names first appear, which makes them equal on every
//! machine for the same input.
//!
//! Worked example: `pgbench`, `postgres`, `pgbench` intern to 0, 1, 0; the table then holds two
//! names.

use std::borrow::Cow;

/// Index of a name in its [`CommTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommId(pub u32);

/// The longest name the kernel keeps for a task (`TASK_COMM_LEN` less the closing zero).
pub(crate) const COMM_BYTES_MAX: usize = 15;

/// Interned names: bytes as the trace has them, which need not be UTF-8.
#[derive(Clone, Debug, Default)]
pub struct CommTable {
    names: Vec<Box<[u8]>>,
    /// Open addressing, a power of two, at most half full; 0 is empty, otherwise id + 1.
    slots: Vec<u32>,
}

impl CommTable {
    /// An empty table.
    pub fn new() -> CommTable {
        CommTable::default()
    }

    /// The id of `name`, which is added if it is new.
    pub fn intern(&mut self, name: &[u8]) -> CommId {
        if self.names.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let slot = self.slot_of(name);
        if self.slots[slot] == 0 {
            self.names.push(name.into());
            // A table of 2^32 names would take more memory than any trace can fill.
            self.slots[slot] = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
        }
        CommId(self.slots[slot] - 1)
    }

    /// The id of `name` if the trace has it.
    pub fn find(&self, name: &[u8]) -> Option<CommId> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot_of(name)].checked_sub(1).map(CommId)
    }

    /// The bytes of a name. An id of another table gives an arbitrary name or none.
    pub fn get(&self, id: CommId) -> Option<&[u8]> {
        self.names.get(id.0 as usize).map(AsRef::as_ref)
    }

    /// A name for people: what is not UTF-8 is replaced, an id of another table gives `?`.
    pub fn display(&self, id: CommId) -> Cow<'_, str> {
        self.get(id)
            .map_or(Cow::Borrowed("?"), String::from_utf8_lossy)
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// True if no name was interned.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All names in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (CommId, &[u8])> {
        (0u32..)
            .map(CommId)
            .zip(self.names.iter().map(AsRef::as_ref))
    }

    /// The slot that holds `name`, or the empty one where it belongs.
    fn slot_of(&self, name: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash(name) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return slot,
                id if *self.names[id as usize - 1] == *name => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let capacity = (self.slots.len() * 2).max(64);
        self.slots = vec![0; capacity];
        for index in 0..self.names.len() {
            let slot = self.slot_of(&self.names[index]);
            self.slots[slot] = index as u32 + 1;
        }
    }
}

/// Names are short: two overlapping eight-byte words and the length tell nearly all of them apart.
fn hash(name: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let (head, tail) = if name.len() >= 8 {
        (&name[..8], &name[name.len() - 8..])
    } else {
        (name, &name[name.len()..])
    };
    let mixed = (word(head).wrapping_mul(MULTIPLIER).rotate_left(29) ^ word(tail))
        .wrapping_add(name.len() as u64)
        .wrapping_mul(MULTIPLIER);
    mixed >> 32
}

fn word(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_order_of_appearance() {
        let mut table = CommTable::new();
        assert_eq!(table.intern(b"pgbench"), CommId(0));
        assert_eq!(table.intern(b"postgres"), CommId(1));
        assert_eq!(table.intern(b"pgbench"), CommId(0));
        assert_eq!(table.len(), 2);
        assert_eq!(table.find(b"postgres"), Some(CommId(1)));
        assert_eq!(table.find(b"mysqld"), None);
        assert_eq!(table.get(CommId(2)), None);
    }

    #[test]
    fn thousands_of_names_stay_apart() {
        let mut table = CommTable::new();
        assert_eq!(table.find(b""), None);
        let names: Vec<String> = (0..5000).map(|n| format!("worker/{n}:0")).collect();
        for name in &names {
            table.intern(name.as_bytes());
        }
        for (index, name) in names.iter().enumerate() {
            assert_eq!(table.find(name.as_bytes()), Some(CommId(index as u32)));
        }
        assert_eq!(table.iter().count(), 5000);
    }

    #[test]
    fn odd_bytes_are_kept_and_shown() {
        let mut table = CommTable::new();
        let empty = table.intern(b"");
        let odd = table.intern(b"bad\xff");
        assert_eq!(table.get(empty), Some(&b""[..]));
        assert_eq!(table.get(odd), Some(&b"bad\xff"[..]));
        assert_eq!(table.display(odd), "bad\u{fffd}");
    }
}
