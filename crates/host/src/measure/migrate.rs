//! Cost of a migration to the task: its data is read once more from a farther cache.
//!
//! A thread reads a working set until it is hot, moves, and reads it again. The refill is how much
//! longer the first pass after the move takes than a hot one. Worked example: 256 KiB that take
//! 8 µs hot and 20 µs after the move: the refill is 12 µs, and meanwhile the thread goes at 8/20 of
//! its speed.

use std::io;
use std::thread;

use super::check_cpus;
use crate::sys;

/// Words of a cache line.
const LINE_WORDS: usize = 8;

/// A move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Refill {
    /// A pass over the data before it, ns.
    pub hot_ns: f64,
    /// Extra time of the first pass after the move, ns; 0 where noise makes it negative.
    pub refill_ns: f64,
}

/// Cost of each of `moves` moves between two CPUs to a thread with `kib` of data.
pub(crate) fn migration_refills(
    cpus: (usize, usize),
    kib: usize,
    moves: usize,
) -> io::Result<Vec<Refill>> {
    check_cpus(&[cpus.0, cpus.1])?;
    let mover = thread::spawn(move || {
        let mut data = vec![1u64; kib * 1024 / 8];
        let mut samples = Vec::with_capacity(moves);
        for step in 0..moves {
            let (from, to) = if step % 2 == 0 {
                cpus
            } else {
                (cpus.1, cpus.0)
            };
            sys::pin_thread(&[from])?;
            // Written, so that the other CPU has to fetch it from here.
            for _ in 0..4 {
                touch(&mut data);
            }
            let hot_ns = timed(&mut data).min(timed(&mut data));
            sys::pin_thread(&[to])?;
            let cold_ns = timed(&mut data);
            samples.push(Refill {
                hot_ns: hot_ns as f64,
                refill_ns: cold_ns.saturating_sub(hot_ns) as f64,
            });
        }
        Ok(samples)
    });
    mover.join().expect("the moving thread does not panic")
}

fn timed(data: &mut [u64]) -> u64 {
    let start_ns = sys::monotonic_ns();
    touch(data);
    sys::monotonic_ns() - start_ns
}

/// Reads and writes every line once.
fn touch(data: &mut [u64]) {
    for word in data.iter_mut().step_by(LINE_WORDS) {
        *word = std::hint::black_box(word.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_move_gives_a_sample() {
        // The same CPU twice: nothing is lost but noise.
        let samples = migration_refills((0, 0), 64, 6).unwrap();
        assert_eq!(samples.len(), 6);
        assert!(
            samples
                .iter()
                .all(|one| one.hot_ns > 0.0 && one.refill_ns >= 0.0)
        );
    }
}
