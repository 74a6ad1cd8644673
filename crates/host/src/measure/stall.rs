//! How long a task stands still when another CPU interrupts the one it runs on.
//!
//! `membarrier` interrupts every other CPU that runs a thread of the caller's process, and does
//! nothing else there. A spinning thread sees each such interrupt as a gap between two readings of
//! the clock; ticks and the rest are in a stretch of the same length without calls too. Worked
//! example: 200 calls in 20 ms take 2200 µs from the spinner, the same 20 ms without calls take
//! 460: the difference is 8.7 µs a call, of which a handler of 1 µs is a part.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::check_cpus;
use crate::sys;

/// Shorter gaps are readings of the clock.
const GAP_NS: u64 = 500;

/// Loss of a spinning task in a stretch with interrupts, and in one of the same length without, ns
/// for each of the interrupts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stall {
    /// Loss with interrupts.
    pub called_ns: f64,
    /// Loss without.
    pub quiet_ns: f64,
}

/// Time lost between two readings of the clock, ns; 0 for gaps of at most `GAP_NS`.
const fn lost_between(last_ns: u64, now_ns: u64) -> u64 {
    match now_ns.saturating_sub(last_ns) {
        short if short <= GAP_NS => 0,
        long => long,
    }
}

/// Interrupts a thread that spins on `cpus.1` from one on `cpus.0`: a sample is `per_batch`
/// interrupts, one each `every_ns`, and then as much time without. `None`: this kernel has no
/// expedited `membarrier`.
pub(crate) fn interrupt_stalls(
    cpus: (usize, usize),
    batches: usize,
    per_batch: u32,
    every_ns: u64,
) -> io::Result<Option<Vec<Stall>>> {
    check_cpus(&[cpus.0, cpus.1])?;
    if sys::register_membarrier().is_err() {
        return Ok(None);
    }
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let lost_ns = AtomicU64::new(0);
    thread::scope(|scope| {
        let spinner = scope.spawn(|| {
            let pinned = sys::pin_thread(&[cpus.1]);
            ready.store(true, Ordering::Release);
            pinned.map(|()| spin(&lost_ns, &over))
        });
        let caller = scope.spawn(|| {
            sys::pin_thread(&[cpus.0])?;
            while !ready.load(Ordering::Acquire) {
                thread::yield_now();
            }
            let stretch = |called| lost_in_stretch(&lost_ns, per_batch, every_ns, called);
            let sample = |_| {
                Ok(Stall {
                    called_ns: stretch(true)?,
                    quiet_ns: stretch(false)?,
                })
            };
            (0..batches).map(sample).collect::<io::Result<Vec<_>>>()
        });
        let samples = caller.join().expect("the calling thread does not panic");
        over.store(true, Ordering::Relaxed);
        spinner.join().expect("the spinner does not panic")?;
        samples.map(Some)
    })
}

/// Sums up what the calling thread loses until told to stop.
fn spin(lost_ns: &AtomicU64, over: &AtomicBool) {
    let (mut sum_ns, mut last_ns) = (0, sys::monotonic_ns());
    while !over.load(Ordering::Relaxed) {
        let now_ns = sys::monotonic_ns();
        let gap_ns = lost_between(last_ns, now_ns);
        // A store for each turn would only move the cache line between the CPUs.
        if gap_ns > 0 {
            sum_ns += gap_ns;
            lost_ns.store(sum_ns, Ordering::Relaxed);
        }
        last_ns = now_ns;
    }
}

/// Loss of the spinner for each of `calls` steps of `every_ns`, each interrupted once if `called`,
/// ns.
fn lost_in_stretch(
    lost_ns: &AtomicU64,
    calls: u32,
    every_ns: u64,
    called: bool,
) -> io::Result<f64> {
    let before_ns = lost_ns.load(Ordering::Relaxed);
    let begin_ns = sys::monotonic_ns();
    for call in 1..=u64::from(calls) {
        if called {
            sys::membarrier()?;
        }
        // From the stretch's begin: with calls it is no longer than without, and has as many ticks.
        while sys::monotonic_ns() - begin_ns < call * every_ns {}
    }
    let lost_ns = lost_ns.load(Ordering::Relaxed) - before_ns;
    Ok(lost_ns as f64 / f64::from(calls.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_the_clock_are_no_gaps() {
        assert_eq!(lost_between(1_000, 1_040), 0);
        assert_eq!(lost_between(1_000, 1_500), 0);
        assert_eq!(lost_between(1_000, 10_700), 9_700);
        assert_eq!(lost_between(1_000, 990), 0);
    }

    #[test]
    fn every_batch_gives_a_sample() {
        assert!(interrupt_stalls((0, 5_000), 1, 1, 0).is_err());
        let cpus = thread::available_parallelism().map_or(1, |n| n.get());
        if cpus < 2 {
            eprintln!("skipped: one CPU");
            return;
        }
        let Some(stalls) = interrupt_stalls((0, 1), 3, 40, 100_000).unwrap() else {
            eprintln!("skipped: no membarrier");
            return;
        };
        assert_eq!(stalls.len(), 3);
        // Forty interrupts and a tick or more: some of it lasts longer than a reading of the clock.
        assert!(stalls.iter().any(|stall| stall.called_ns > 0.0));
        assert!(stalls.iter().all(|stall| stall.quiet_ns >= 0.0));
    }
}
