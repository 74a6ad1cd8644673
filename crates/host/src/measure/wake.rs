//! Waking a task on another, idle CPU, seen from both sides.
//!
//! ```text
//!   waker    stamp a ─ FUTEX_WAKE ─ stamp b                 waker's cost   b − a
//!   wakee                     idle … IPI, idle exit, switch ─ stamp c       latency  c − a
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;

use super::{check_cpus, spin_idly};
use crate::sys;

/// One remote wakeup, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RemoteWake {
    /// Time the waker spent in the call.
    pub waker_ns: f64,
    /// From the call's begin to the wakee running in user mode.
    pub latency_ns: f64,
}

const OVER: u32 = u32::MAX;

/// Wakes a thread on `cpus.1` from one on `cpus.0`, `wakes` times, `rest_ns` after it went to
/// sleep. Its CPU idles in between, unless `never_idle` puts a `SCHED_IDLE` spinner there: then the
/// wakee preempts it, and what the idle state costs drops out.
pub(crate) fn remote_wakes(
    cpus: (usize, usize),
    wakes: u32,
    rest_ns: u64,
    never_idle: bool,
) -> io::Result<Vec<RemoteWake>> {
    check_cpus(&[cpus.0, cpus.1])?;
    let word = AtomicU32::new(0);
    let woken_ns = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let spinner = never_idle.then(|| scope.spawn(|| spin_idly(cpus.1, &over)));
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
                while sys::monotonic_ns() - from_ns < rest_ns {}
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
        over.store(true, Ordering::Relaxed);
        if let Some(spinner) = spinner {
            spinner.join().expect("the spinner does not panic")?;
        }
        wakee.join().expect("the wakee does not panic")?;
        samples
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_are_counted_where_somebody_slept() {
        let samples = remote_wakes((0, 0), 3, 100_000, false).unwrap();
        assert!(samples.len() <= 3);
        assert!(remote_wakes((0, 5_000), 3, 0, false).is_err());
        let cpus = thread::available_parallelism().map_or(1, |n| n.get());
        if cpus < 2 {
            eprintln!("skipped: one CPU");
            return;
        }
        for never_idle in [false, true] {
            let samples = remote_wakes((0, 1), 20, 300_000, never_idle).unwrap();
            assert!(!samples.is_empty());
            assert!(
                samples
                    .iter()
                    .all(|s| s.latency_ns > 0.0 && s.waker_ns > 0.0)
            );
        }
    }
}
