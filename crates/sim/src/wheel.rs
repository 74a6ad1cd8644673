//! The event queue: a hierarchical wheel over exact nanoseconds with one fixed slot per source.
//!
//! A source of events (the timer device of CPU 3, the end of what CPU 3 runs, …) has at most one
//! event under way, so it owns one *slot* that is armed, moved or disarmed in O(1). Events leave in
//! the total order (time, class, order of arming): the class says what goes first at equal times.
//!
//! # How it works
//!
//! Time and class form one key, `time · 8 + class`, read as eleven 6-bit digits. An armed slot
//! hangs in the list of (level, digit): the highest digit in which its key differs from the last
//! key that left, and the value of that digit. Worked example with decimal digits: the last key
//! was 4217. Key 4219 hangs at level 0, digit 9; key 4252 at level 1, digit 5; key 4300 at level 2,
//! digit 3. All keys ahead share their higher digits with 4217 and are larger, so whatever hangs at
//! a lower level is earlier, and within a level the smallest digit is the earliest. When 4252
//! leaves, the others of its list now share the digit 5 with the new last key and move to lower
//! levels; lists are short, so most events are never moved at all.
//!
//! Lists are appended to and moved in order, so equal keys leave in the order of arming.

use schedcast_kernel::Ns;
use schedcast_kernel::table::Table;

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 11;
const LISTS: usize = LEVELS * DIGITS;
const CLASS_BITS: u32 = 3;
const NOWHERE: u16 = u16::MAX;

/// Latest time an event can have, 73 years in nanoseconds.
pub(crate) const TIME_MAX: Ns = (1 << (64 - CLASS_BITS)) - 1;

/// A slot of the wheel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Slot(pub u32);

/// Time and class of an event; orders as events leave.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key(u64);

impl Key {
    /// After every event: what [`Wheel::peek`] returns when there is none.
    pub(crate) const NEVER: Key = Key(u64::MAX);

    /// Key of an event; times beyond [`TIME_MAX`] count as that.
    #[inline(always)]
    pub(crate) const fn new(time: Ns, class: u8) -> Self {
        let time = if time > TIME_MAX { TIME_MAX } else { time };
        Self(time << CLASS_BITS | (class as u64 & ((1 << CLASS_BITS) - 1)))
    }

    /// When.
    #[inline(always)]
    pub(crate) const fn time(self) -> Ns {
        self.0 >> CLASS_BITS
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    previous: u32,
}

/// The event queue.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    /// Circular lists: rows `0..LISTS` are the ends of the lists, slot n is row `LISTS + n`.
    links: Table<Link>,
    keys: Table<u64>,
    /// List each slot hangs in.
    places: Table<u16>,
    /// Which digits of a level have a non-empty list.
    occupied: [u64; LEVELS],
    /// Which levels have one.
    levels: u32,
    /// Key of the last event that left; places are relative to it.
    last: u64,
    /// The present: that key, or one that was [passed](Wheel::pass) since.
    present: u64,
    /// Smallest armed key and the slot that leaves with it, or [`NOTHING`], or [`UNKNOWN`].
    earliest: (u64, u32),
}

/// Key and slot of an empty queue.
const NOTHING: (u64, u32) = (Key::NEVER.0, u32::MAX);
/// The earliest of a queue has to be looked for: no key is smaller, no slot has that number.
const UNKNOWN: (u64, u32) = (0, u32::MAX - 1);

impl Wheel {
    /// A wheel at time 0 with `slots` slots, none armed.
    pub(crate) fn new(slots: usize) -> Self {
        let links = (0..LISTS as u32)
            .map(|row| Link {
                next: row,
                previous: row,
            })
            .collect();
        let mut wheel = Self {
            links,
            keys: Table::new(),
            places: Table::new(),
            occupied: [0; LEVELS],
            levels: 0,
            last: 0,
            present: 0,
            earliest: NOTHING,
        };
        for _ in 0..slots {
            wheel.add_slot();
        }
        wheel
    }

    /// One more slot, not armed.
    pub(crate) fn add_slot(&mut self) -> Slot {
        let slot = self.keys.len() as u32;
        self.keys.push(0);
        self.places.push(NOWHERE);
        self.links.push(Link {
            next: 0,
            previous: 0,
        });
        Slot(slot)
    }

    /// Arms or moves a slot. A time that has passed counts as the present.
    #[inline(always)]
    pub(crate) fn arm(&mut self, slot: Slot, key: Key) {
        self.disarm(slot);
        let key = key.0.max(self.present);
        self.keys[slot.0 as usize] = key;
        self.hang(slot.0, key);
        if key < self.earliest.0 {
            self.earliest = (key, slot.0);
        }
    }

    /// Disarms a slot; no effect when it is not armed.
    #[inline(always)]
    pub(crate) fn disarm(&mut self, slot: Slot) {
        let row = slot.0 as usize;
        if self.places[row] == NOWHERE {
            return;
        }
        if self.earliest.1 == slot.0 {
            self.earliest = UNKNOWN;
        }
        self.unhang(slot.0);
    }

    /// Key of a slot, if it is armed.
    #[inline]
    pub(crate) fn armed(&self, slot: Slot) -> Option<Key> {
        let row = slot.0 as usize;
        (self.places[row] != NOWHERE).then_some(Key(self.keys[row]))
    }

    /// Key of the next event, [`Key::NEVER`] when there is none.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Key {
        Key(self.find_earliest().0)
    }

    #[inline(always)]
    fn find_earliest(&mut self) -> (u64, u32) {
        if self.earliest.1 != UNKNOWN.1 {
            return self.earliest;
        }
        self.earliest = match self.first_list() {
            None => NOTHING,
            Some(list) => {
                let slot = self.smallest(list);
                (self.keys[slot as usize], slot)
            }
        };
        self.earliest
    }

    /// The next event, if it is not after `limit`.
    #[inline]
    pub(crate) fn pop(&mut self, limit: Ns) -> Option<(Key, Slot)> {
        let (key, slot) = self.find_earliest();
        if Key(key).time() > limit || slot == NOTHING.1 {
            return None;
        }
        let list = usize::from(self.places[slot as usize]);
        self.unhang(slot);
        self.last = key;
        self.present = key;
        self.earliest = UNKNOWN;
        let others_hang_there = self.links[list].next >= LISTS as u32;
        if list >= DIGITS && others_hang_there {
            self.spread(list);
        }
        Some((Key(key), Slot(slot)))
    }

    /// The present is `key` from now on, which is before the next event: as if an event had left
    /// with it.
    #[inline(always)]
    pub(crate) fn pass(&mut self, key: Key) {
        self.present = key.0;
    }

    /// The list with the smallest keys.
    #[inline(always)]
    fn first_list(&self) -> Option<usize> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        Some(level * DIGITS + self.occupied[level].trailing_zeros() as usize)
    }

    /// First slot with the smallest key of a non-empty list.
    #[inline(always)]
    fn smallest(&self, list: usize) -> u32 {
        let mut best = self.links[list].next - LISTS as u32;
        // At level 0 a list holds one key only.
        if list < DIGITS {
            return best;
        }
        let mut row = self.links[LISTS + best as usize].next;
        while row >= LISTS as u32 {
            let slot = row - LISTS as u32;
            if self.keys[slot as usize] < self.keys[best as usize] {
                best = slot;
            }
            row = self.links[row as usize].next;
        }
        best
    }

    /// Moves what is left of a list, which is not empty, to where it belongs now.
    #[inline(never)]
    fn spread(&mut self, list: usize) {
        let mut row = self.links[list].next;
        self.links[list] = Link {
            next: list as u32,
            previous: list as u32,
        };
        self.mark_empty(list, true);
        while row >= LISTS as u32 {
            let next = self.links[row as usize].next;
            let slot = row - LISTS as u32;
            self.hang(slot, self.keys[slot as usize]);
            row = next;
        }
    }

    #[inline(always)]
    fn hang(&mut self, slot: u32, key: u64) {
        let difference = key ^ self.last;
        let level = (63 - (difference | 1).leading_zeros()) / DIGIT_BITS;
        let digit = (key >> (level * DIGIT_BITS)) as usize % DIGITS;
        let list = level as usize * DIGITS + digit;
        let row = slot + LISTS as u32;
        let tail = self.links[list].previous;
        self.links[row as usize] = Link {
            next: list as u32,
            previous: tail,
        };
        self.links[tail as usize].next = row;
        self.links[list].previous = row;
        self.places[slot as usize] = list as u16;
        self.occupied[level as usize] |= 1 << digit;
        self.levels |= 1 << level;
    }

    #[inline(always)]
    fn unhang(&mut self, slot: u32) {
        let Link { next, previous } = self.links[slot as usize + LISTS];
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        let list = usize::from(self.places[slot as usize]);
        self.places[slot as usize] = NOWHERE;
        let emptied = (next == previous) & (next as usize == list);
        self.mark_empty(list, emptied);
    }

    /// A list may be empty now. Whether it is, and its level with it, is a matter of chance: no
    /// jumps.
    #[inline(always)]
    fn mark_empty(&mut self, list: usize, emptied: bool) {
        let level = list / DIGITS;
        let left = self.occupied[level] & !(u64::from(emptied) << (list % DIGITS));
        self.occupied[level] = left;
        self.levels &= !(u32::from(left == 0) << level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn equal_times_leave_by_class_then_by_order_of_arming() {
        let mut wheel = Wheel::new(4);
        for (slot, class) in [(0, 5), (1, 2), (2, 5), (3, 0)] {
            wheel.arm(Slot(slot), Key::new(1_000_000, class));
        }
        wheel.arm(Slot(0), Key::new(1_000_000, 5)); // moved: now behind slot 2
        let order: Vec<u32> = std::iter::from_fn(|| wheel.pop(Ns::MAX))
            .map(|(key, slot)| {
                assert_eq!(key.time(), 1_000_000);
                slot.0
            })
            .collect();
        assert_eq!(order, [3, 1, 2, 0]);
    }

    #[test]
    fn nothing_leaves_after_the_limit() {
        let mut wheel = Wheel::new(1);
        wheel.arm(Slot(0), Key::new(500, 0));
        assert_eq!(wheel.pop(499), None);
        assert_eq!(wheel.peek(), Key::new(500, 0));
        assert_eq!(wheel.pop(500), Some((Key::new(500, 0), Slot(0))));
        assert_eq!(wheel.peek(), Key::NEVER);
    }

    #[test]
    fn the_past_counts_as_the_present() {
        let mut wheel = Wheel::new(2);
        wheel.arm(Slot(0), Key::new(1000, 3));
        wheel.pop(Ns::MAX);
        wheel.arm(Slot(1), Key::new(1001, 0));
        wheel.arm(Slot(0), Key::new(10, 0));
        assert_eq!(wheel.pop(Ns::MAX), Some((Key::new(1000, 3), Slot(0))));
    }

    #[test]
    fn what_was_passed_is_the_present_too() {
        let mut wheel = Wheel::new(3);
        wheel.arm(Slot(0), Key::new(1000, 3));
        wheel.arm(Slot(1), Key::new(5000, 0));
        wheel.pop(Ns::MAX);
        wheel.pass(Key::new(4000, 5));
        // As after an event at 4000: nothing leaves before it.
        wheel.arm(Slot(2), Key::new(2000, 0));
        assert_eq!(wheel.pop(Ns::MAX), Some((Key::new(4000, 5), Slot(2))));
        assert_eq!(wheel.pop(Ns::MAX), Some((Key::new(5000, 0), Slot(1))));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm { slot: u32, ahead: Ns, class: u8 },
        Disarm(u32),
        Pop { ahead: Ns },
        Copy,
    }

    const SLOTS: u32 = 24;

    fn step() -> impl Strategy<Value = Step> {
        // Distances over all levels, and many ties.
        let ahead = prop_oneof![
            0..4u64,
            (0..50u64, 0..34u32).prop_map(|(mantissa, shift)| mantissa << shift)
        ];
        prop_oneof![
            4 => (0..SLOTS, ahead.clone(), 0..6u8).prop_map(|(slot, ahead, class)| Step::Arm { slot, ahead, class }),
            1 => (0..SLOTS).prop_map(Step::Disarm),
            4 => ahead.prop_map(|ahead| Step::Pop { ahead }),
            1 => Just(Step::Copy),
        ]
    }

    /// The same queue as an ordered map.
    #[derive(Default)]
    struct Model {
        events: BTreeMap<(Key, u64), u32>,
        armed: [Option<(Key, u64)>; SLOTS as usize],
        sequence: u64,
        last: u64,
    }

    impl Model {
        fn arm(&mut self, slot: u32, key: Key) {
            self.disarm(slot);
            let entry = (Key(key.0.max(self.last)), self.sequence);
            self.sequence += 1;
            self.events.insert(entry, slot);
            self.armed[slot as usize] = Some(entry);
        }

        fn disarm(&mut self, slot: u32) {
            if let Some(entry) = self.armed[slot as usize].take() {
                self.events.remove(&entry);
            }
        }

        fn pop(&mut self, limit: Ns) -> Option<(Key, Slot)> {
            let (&(key, _), &slot) = self.events.first_key_value()?;
            if key.time() > limit {
                return None;
            }
            self.disarm(slot);
            self.last = key.0;
            Some((key, Slot(slot)))
        }
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_map(steps in prop::collection::vec(step(), 1..400)) {
            let mut wheel = Wheel::new(SLOTS as usize);
            let mut model = Model::default();
            for step in steps {
                let now = Key(model.last).time();
                match step {
                    Step::Arm { slot, ahead, class } => {
                        let key = Key::new(now + ahead, class);
                        wheel.arm(Slot(slot), key);
                        model.arm(slot, key);
                    }
                    Step::Disarm(slot) => {
                        wheel.disarm(Slot(slot));
                        model.disarm(slot);
                    }
                    Step::Pop { ahead } => {
                        let limit = now + ahead;
                        prop_assert_eq!(wheel.pop(limit), model.pop(limit));
                    }
                    Step::Copy => wheel = wheel.clone(),
                }
                let first = model.events.first_key_value().map_or(Key::NEVER, |(&(key, _), _)| key);
                prop_assert_eq!(wheel.peek(), first);
                for slot in 0..SLOTS {
                    let key = model.armed[slot as usize].map(|(key, _)| key);
                    prop_assert_eq!(wheel.armed(Slot(slot)), key);
                }
            }
            while let Some(event) = model.pop(Ns::MAX) {
                prop_assert_eq!(wheel.pop(Ns::MAX), Some(event));
            }
            prop_assert_eq!(wheel.pop(Ns::MAX), None);
        }
    }
}
