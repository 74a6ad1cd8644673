//! How late a sleeper wakes.
//!
//! A sleeper asks for an absolute time every period and reads the clock when it is back. With the
//! default timer slack the timer may fire up to 50 µs late by design; with a slack of 1 ns what
//! remains is the timer, leaving idle, the wakeup and the switch. Beside a `SCHED_IDLE` spinner the
//! CPU never idles, so leaving idle drops out too.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::spin_idly;
use crate::sys;

/// How the sleeper is set up.
#[derive(Debug, Clone, Copy)]
pub struct Lateness {
    /// The CPU it is pinned to.
    pub cpu: usize,
    /// Time between two wakes, ns.
    pub period_ns: u64,
    /// Number of wakes.
    pub wakes: usize,
    /// Timer slack, ns.
    pub slack_ns: u64,
    /// Whether a `SCHED_IDLE` spinner keeps the CPU out of idle.
    pub never_idle: bool,
}

/// Lateness of each wake, ns.
pub fn wake_lateness(setup: Lateness) -> io::Result<Vec<f64>> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let spinner = setup
            .never_idle
            .then(|| scope.spawn(|| spin_idly(setup.cpu, &over)));
        let sleeper = scope.spawn(|| {
            sys::pin_thread(&[setup.cpu])?;
            sys::set_timer_slack_ns(setup.slack_ns)?;
            Ok(sleep_and_look(setup.period_ns, setup.wakes))
        });
        let samples = sleeper.join().expect("the sleeper does not panic");
        over.store(true, Ordering::Relaxed);
        if let Some(spinner) = spinner {
            spinner.join().expect("the spinner does not panic")?;
        }
        samples
    })
}

fn sleep_and_look(period_ns: u64, wakes: usize) -> Vec<f64> {
    let mut due_ns = sys::monotonic_ns() + period_ns;
    let mut samples = Vec::with_capacity(wakes);
    for _ in 0..wakes {
        sys::sleep_until_ns(due_ns);
        samples.push((sys::monotonic_ns() - due_ns) as f64);
        due_ns += period_ns;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_wakes_early() {
        for never_idle in [false, true] {
            let samples = wake_lateness(Lateness {
                cpu: 0,
                period_ns: 200_000,
                wakes: 5,
                slack_ns: 1,
                never_idle,
            });
            assert_eq!(samples.unwrap().len(), 5);
        }
    }
}
