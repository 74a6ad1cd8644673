//! How fast CPUs compute: their clock, and what threads of one core leave each other.
//!
//! Worked example: a chain of 1000 dependent additions takes 1000 cycles; in 0.4 µs that is
//! 2500 MHz. A thread that makes 100 rounds alone and 62 beside a busy sibling has the speed 620
//! thousandths.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::check_cpus;
use crate::sys;

/// Additions in one sample.
const CHAIN: u64 = 200_000;

/// Clock of a CPU that computes, MHz, once per sample.
pub(crate) fn clock_mhz(cpu: usize, samples: usize) -> io::Result<Vec<f64>> {
    check_cpus(&[cpu])?;
    let timed = thread::spawn(move || {
        sys::pin_thread(&[cpu])?;
        chain(10 * CHAIN);
        let sample = || {
            let start_ns = sys::monotonic_ns();
            std::hint::black_box(chain(CHAIN));
            let took_ns = sys::monotonic_ns() - start_ns;
            CHAIN as f64 * 1000.0 / took_ns.max(1) as f64
        };
        Ok((0..samples).map(|_| sample()).collect())
    });
    timed.join().expect("the timing thread does not panic")
}

/// Additions each of which needs the one before: one cycle each on every usual core.
fn chain(length: u64) -> u64 {
    let mut value = std::hint::black_box(1u64);
    for _ in 0..length / 8 {
        // The compiler must not see through any of them.
        for _ in 0..8 {
            value = std::hint::black_box(value.wrapping_add(3));
        }
    }
    value
}

/// Speed of the first of `cpus` while the others compute too, in thousandths of its speed alone;
/// one sample for each round of `round_ns`.
pub(crate) fn speed_beside(cpus: &[usize], rounds: usize, round_ns: u64) -> io::Result<Vec<f64>> {
    check_cpus(cpus)?;
    let Some((&first, others)) = cpus.split_first() else {
        return Ok(Vec::new());
    };
    (0..rounds)
        .map(|_| {
            let alone = work_done(first, &[], round_ns)?;
            let beside = work_done(first, others, round_ns)?;
            Ok(beside as f64 * 1000.0 / alone.max(1) as f64)
        })
        .collect()
}

/// Pieces of work a CPU does in a time while others compute.
fn work_done(cpu: usize, others: &[usize], for_ns: u64) -> io::Result<u64> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let busy: Vec<_> = others
            .iter()
            .map(|&other| {
                let over = &over;
                scope.spawn(move || -> io::Result<()> {
                    sys::pin_thread(&[other])?;
                    while !over.load(Ordering::Relaxed) {
                        std::hint::black_box(mixed(64));
                    }
                    Ok(())
                })
            })
            .collect();
        let worker = scope.spawn(move || -> io::Result<u64> {
            sys::pin_thread(&[cpu])?;
            let end_ns = sys::monotonic_ns() + for_ns;
            let mut pieces = 0;
            while sys::monotonic_ns() < end_ns {
                std::hint::black_box(mixed(64));
                pieces += 1;
            }
            Ok(pieces)
        });
        let pieces = worker.join().expect("the worker does not panic");
        over.store(true, Ordering::Relaxed);
        for thread in busy {
            thread.join().expect("the others do not panic")?;
        }
        pieces
    })
}

/// Independent multiplications and additions: what keeps a core's units busy.
fn mixed(rounds: u64) -> u64 {
    let mut lanes = [1u64, 2, 3, 4];
    for round in 0..rounds {
        for lane in &mut lanes {
            *lane = std::hint::black_box(lane.wrapping_mul(0x9e37_79b9).wrapping_add(round));
        }
    }
    lanes.iter().fold(0, |sum, lane| sum ^ lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_gives_a_sample() {
        assert_eq!(clock_mhz(0, 3).unwrap().len(), 3);
        assert!(speed_beside(&[], 3, 1000).unwrap().is_empty());
        let speeds = speed_beside(&[0], 2, 1_000_000).unwrap();
        assert!(speeds.len() == 2 && speeds.iter().all(|speed| *speed > 0.0));
    }
}
