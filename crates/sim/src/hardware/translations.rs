//! Which address spaces a CPU holds translations of.
//!
//! On x86 a CPU tells the translations of six address spaces apart (`TLB_NR_DYN_ASIDS`). A switch
//! to one of these finds them as they were left; any other takes the slot whose turn it is, and
//! what stood there is flushed (`choose_new_asid`). Kernel threads and the idle task borrow
//! whatever is loaded.
//!
//! Worked example: processes 1 to 6 take turns and keep their slots for ever. With a seventh, each
//! finds its slot just taken by the one before: every switch is a flush.

/// `TLB_NR_DYN_ASIDS`.
const SLOTS: usize = 6;

/// The slots of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Translations {
    spaces: [Option<u32>; SLOTS],
    next: usize,
}

impl Translations {
    /// Loads an address space; `true` when its translations have to be fetched anew.
    pub(crate) fn load(&mut self, space: u32) -> bool {
        if self.spaces.contains(&Some(space)) {
            return false;
        }
        self.spaces[self.next] = Some(space);
        self.next = (self.next + 1) % SLOTS;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushes(processes: u32, laps: usize) -> usize {
        let mut cpu = Translations::default();
        let turns = (0..processes).cycle().take(processes as usize * laps);
        turns.filter(|space| cpu.load(*space)).count()
    }

    #[test]
    fn six_address_spaces_fit_and_seven_do_not() {
        assert_eq!(flushes(6, 10), 6);
        assert_eq!(flushes(7, 10), 70);
    }
}
