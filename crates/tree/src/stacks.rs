//! Stacks of the C's tasks, each above memory that must not be touched.
//!
//! ```text
//! … │ no access, 448 KiB │ stack, 64 KiB │ no access, 448 KiB │ stack, 64 KiB │
//! ```
//!
//! Worked example: a patch declares an array of 150,000 bytes. The function that writes to its
//! begin reaches 84 KB below its stack, which is a fault there instead of a change of memory of
//! something else.

use std::ffi::c_void;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Distance of two stacks.
const SLOT: usize = 512 << 10;
/// Stacks of one world: the C has 8192 tasks, and some threads for each CPU.
const MOST: usize = 10_240;
/// Stacks of all worlds of the process. Each is two mappings, and a process may have 65,530
/// (`vm.max_map_count`).
const MOST_OF_ALL: usize = 12_000;
/// How many there are.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Address space for the stacks of one world.
#[derive(Debug)]
pub(crate) struct Stacks {
    base: usize,
    used: usize,
}

impl Stacks {
    /// Address space without memory. Where there is none, there are no stacks of this kind.
    #[expect(unsafe_code, reason = "address space of the system")]
    pub(crate) fn new() -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let none = std::ptr::null_mut();
        // SAFETY: a mapping of its own, at a place that the system chooses.
        let at = unsafe { libc::mmap(none, MOST * SLOT, libc::PROT_NONE, flags, -1, 0) };
        match at == libc::MAP_FAILED {
            true => Self {
                base: 0,
                used: MOST,
            },
            false => Self {
                base: at as usize,
                used: 0,
            },
        }
    }

    /// First and last address of all, the last one excluded.
    pub(crate) fn range(&self) -> (u64, u64) {
        let size = if self.base == 0 { 0 } else { MOST * SLOT };
        (self.base as u64, (self.base + size) as u64)
    }

    /// The next stack, filled with zeros; `None` where there are enough, or the system has none any
    /// more.
    #[expect(unsafe_code, reason = "memory of the system")]
    pub(crate) fn next(&mut self, size: usize) -> Option<*mut c_void> {
        if self.used == MOST || size > SLOT / 2 {
            return None;
        }
        if ALL.fetch_add(1, Relaxed) >= MOST_OF_ALL {
            ALL.fetch_sub(1, Relaxed);
            return None;
        }
        let at = (self.base + (self.used + 1) * SLOT - size) as *mut c_void;
        // SAFETY: a part of the mapping that nothing uses yet.
        let failed = unsafe { libc::mprotect(at, size, libc::PROT_READ | libc::PROT_WRITE) } != 0;
        if failed {
            ALL.fetch_sub(1, Relaxed);
            return None;
        }
        self.used += 1;
        Some(at)
    }
}

/// End of the stack above a forbidden address in a range of stacks.
pub(crate) fn end_of_stack(range: (u64, u64), address: u64) -> Option<u64> {
    let is_inside = (range.0..range.1).contains(&address);
    is_inside.then(|| range.0 + (address - range.0) / SLOT as u64 * SLOT as u64 + SLOT as u64)
}

impl Drop for Stacks {
    #[expect(unsafe_code, reason = "address space of the system")]
    fn drop(&mut self) {
        ALL.fetch_sub(if self.base == 0 { 0 } else { self.used }, Relaxed);
        if self.base != 0 {
            // SAFETY: mapped in `new`; the world that used it is over.
            unsafe { libc::munmap(self.base as *mut c_void, MOST * SLOT) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_end_where_their_places_do() {
        let mut stacks = Stacks::new();
        let range = stacks.range();
        for place in 1..=2 {
            let at = stacks.next(4096).unwrap() as u64;
            let end = range.0 + place * SLOT as u64;
            assert_eq!(at, end - 4096);
            assert_eq!(end_of_stack(range, at - 1), Some(end));
            assert_eq!(end_of_stack(range, end - SLOT as u64), Some(end));
        }
        assert_eq!(end_of_stack(range, range.0 - 1), None);
        assert_eq!(end_of_stack(range, range.1), None);
        assert_eq!(stacks.next(SLOT), None);
    }
}
