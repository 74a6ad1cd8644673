//! Waking a task on another, idle CPU, seen from both sides.
//!
//! ```text
//!   waker    stamp a ─ FUTEX_WAKE ─ stamp b                 waker's cost   b − a
//!   wakee                     idle … IPI, idle exit, switch ─ stamp c       latency  c − a
//! ```

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use super::check_cpus;
use crate::sys;

/// One remote wakeup, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RemoteWake {
    /// Time the waker spent in the call.
    pub waker_ns: f64,
    /// From the call's begin to the wakee running in user mode.
    pub latency_ns: f64,
}

const OVER: u32 = u32::MAX;

/// Wakes a thread on `cpus.1` from one on `cpus.0`, `wakes` times, letting the wakee's CPU be idle for
/// `idle_ns` before each.
pub fn remote_wakes(cpus: (usize, usize), wakes: u32, idle_ns: u64) -> io::Result<Vec<RemoteWake>> {
    check_cpus(&[cpus.0, cpus.1])?;
    let word = AtomicU32::new(0);
    let woken_ns = AtomicU64::new(0);
    thread::scope(|scope| {
        let wakee = scope.spawn(|| -> io::Result<()> {
            sys::pin_thread(&[cpus.1])?;
            let mut seen = 0;
            while seen != OVER {
                while word.load(Ordering::Acquire) == seen {
                    sys::futex_wait(&word, seen);
                }
                woken_ns.store(sys::monotonic_ns(), Ordering::Release);
                seen = word.load(Ordering::Acquire);
            }
            Ok(())
        });
        let waker = scope.spawn(|| -> io::Result<Vec<RemoteWake>> {
            sys::pin_thread(&[cpus.0])?;
            let mut samples = Vec::with_capacity(wakes as usize);
            for round in 1..=wakes {
                let from_ns = sys::monotonic_ns();
                while sys::monotonic_ns() - from_ns < idle_ns {}
                let before_ns = sys::monotonic_ns();
                word.store(round, Ordering::Release);
                let found = sys::futex_wake(&word);
                let after_ns = sys::monotonic_ns();
                let mut awake_ns = 0;
                while awake_ns < before_ns {
                    awake_ns = woken_ns.load(Ordering::Acquire);
                }
                // A wakee that was still on its way to sleep was not woken.
                if found == 1 {
                    samples.push(RemoteWake {
                        waker_ns: (after_ns - before_ns) as f64,
                        latency_ns: (awake_ns - before_ns) as f64,
                    });
                }
            }
            Ok(samples)
        });
        let samples = waker.join().expect("the waker does not panic");
        word.store(OVER, Ordering::Release);
        sys::futex_wake(&word);
        wakee.join().expect("the wakee does not panic")?;
        samples
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_are_counted_where_somebody_slept() {
        let samples = remote_wakes((0, 0), 3, 100_000).unwrap();
        assert!(samples.len() <= 3);
        assert!(remote_wakes((0, 5_000), 3, 0).is_err());
        let cpus = thread::available_parallelism().map_or(1, |n| n.get());
        if cpus < 2 {
            eprintln!("skipped: one CPU");
            return;
        }
        let samples = remote_wakes((0, 1), 20, 300_000).unwrap();
        assert!(!samples.is_empty());
        assert!(
            samples
                .iter()
                .all(|s| s.latency_ns > 0.0 && s.waker_ns > 0.0)
        );
    }
}
