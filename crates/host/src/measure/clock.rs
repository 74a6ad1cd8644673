//! Where in a call the clock of the run queue is read, which decides who is charged for the rest.
//!
//! A task under `SCHED_IDLE` wakes a normal one on its CPU and is preempted by it: the waker is
//! charged until `try_to_wake_up` reads the clock, the woken task from there on, although the
//! waker's call goes on. When that one sleeps, it is charged until `__schedule` reads the clock,
//! the waker from there on.
//!
//! ```text
//!   waker   now, own CPU time │ wake call ─ clock 1 …                                 … rest of the call │ CPU time of the wakee
//!   wakee                                      … rest of its call │ CPU time of the waker … own, now │ sleep ─ clock 2 …
//! ```
//!
//! A task's CPU time beside `CLOCK_MONOTONIC`, read while it runs, is a line of slope 1; its CPU
//! time as the *other* task reads it stands still where the clock was read last. Worked example: at
//! 1000 ns the waker has 400 ns of CPU time and calls at
//! 1050. The wakee, back at 3000, sees that the waker has 780: the clock was read at 1380, 330
//!       after the call's begin and 1620 before the wakee's way back was over.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::check_cpus;
use crate::sys;

/// One wakeup that preempts and the sleep after it, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClockPoints {
    /// From the waker's call to the clock.
    pub wake_ns: f64,
    /// From there to the wakee in user mode.
    pub wakee_ns: f64,
    /// From the call in which the wakee sleeps to the clock.
    pub block_ns: f64,
    /// From there to the waker in user mode.
    pub waker_ns: f64,
}

/// Times within a system call that reads the clock, each beside a reading in user mode: from the
/// call to the clock, and from the clock to the way back, ns.
pub(crate) fn call_halves(cpu: usize, calls: usize) -> io::Result<Vec<(f64, f64)>> {
    check_cpus(&[cpu])?;
    let timed = thread::spawn(move || {
        sys::pin_thread(&[cpu])?;
        let half = |_| {
            let before = sys::monotonic_ns();
            let inside = sys::monotonic_call_ns();
            let after = sys::monotonic_ns();
            let less = |a: u64, b: u64| a.saturating_sub(b) as f64;
            (less(inside, before), less(after, inside))
        };
        Ok((0..calls).map(half).collect())
    });
    timed.join().expect("the timing thread does not panic")
}

/// When a task had how much CPU time, by a call in which the clock is read after so many
/// thousandths of it.
fn line(entry_permille: u64) -> i64 {
    let before = sys::monotonic_ns();
    let charged_ns = sys::thread_cpu_ns();
    let after = sys::monotonic_ns();
    let inside = before + (after - before) * entry_permille / 1000;
    inside as i64 - charged_ns as i64
}

/// Clock readings of one side in a round.
#[derive(Clone, Copy, Default)]
struct Side {
    /// Clock less own CPU time, before the call.
    line_ns: i64,
    call_ns: u64,
    back_ns: u64,
    /// CPU time of the other one, seen after the call.
    other_ns: u64,
}

const ASLEEP: u32 = 0;
const CALLED: u32 = 1;

struct Shared {
    word: AtomicU32,
    waker: AtomicI32,
    wakee: AtomicI32,
    ready: Barrier,
    failed: AtomicBool,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            word: AtomicU32::new(ASLEEP),
            waker: AtomicI32::new(0),
            wakee: AtomicI32::new(0),
            ready: Barrier::new(2),
            failed: AtomicBool::new(false),
        }
    }

    /// Announces this side's thread and the result of its preparation, and waits for the other
    /// side. Returns the other side's thread, or `None` if it has failed: its error is the one to
    /// report.
    fn meet(
        &self,
        prepared: io::Result<()>,
        own: &AtomicI32,
        other: &AtomicI32,
    ) -> io::Result<Option<i32>> {
        own.store(sys::thread_number(), Ordering::Release);
        self.failed.fetch_or(prepared.is_err(), Ordering::AcqRel);
        self.ready.wait();
        prepared?;
        let failed = self.failed.load(Ordering::Acquire);
        Ok((!failed).then(|| other.load(Ordering::Acquire)))
    }
}

/// `rounds` wakeups by futex on one CPU; `entry_permille` is how far into a call that reads the
/// clock it does so, see [`call_halves`].
pub(crate) fn clock_points(
    cpu: usize,
    rounds: usize,
    entry_permille: u64,
) -> io::Result<Vec<ClockPoints>> {
    check_cpus(&[cpu])?;
    let shared = Shared::new();
    let (wakers, wakees) = thread::scope(|scope| {
        let wakee = scope.spawn(|| wakee(cpu, rounds, entry_permille, &shared));
        let waker = scope.spawn(|| waker(cpu, rounds, entry_permille, &shared));
        (
            waker.join().expect("the waking thread does not panic"),
            wakee.join().expect("the woken thread does not panic"),
        )
    });
    let (wakers, wakees) = (wakers?, wakees?);
    // A round's wakeup ends the wakee's sleep of that round; its next sleep gives the CPU back to
    // the waker.
    let points = |round: usize| {
        let (waker, woken, sleeper) = (wakers[round], wakees[round], wakees[round + 1]);
        let first = waker.line_ns + woken.other_ns as i64;
        let second = sleeper.line_ns + waker.other_ns as i64;
        ClockPoints {
            wake_ns: (first - waker.call_ns as i64) as f64,
            wakee_ns: (woken.back_ns as i64 - first) as f64,
            block_ns: (second - sleeper.call_ns as i64) as f64,
            waker_ns: (waker.back_ns as i64 - second) as f64,
        }
    };
    Ok((rounds / 10..rounds - 1).map(points).collect())
}

fn waker(cpu: usize, rounds: usize, entry_permille: u64, shared: &Shared) -> io::Result<Vec<Side>> {
    let prepared = sys::pin_thread(&[cpu]).and_then(|()| sys::set_policy_idle());
    let Some(wakee) = shared.meet(prepared, &shared.waker, &shared.wakee)? else {
        return Ok(Vec::new());
    };
    // The first wakeup shall find the other one asleep, as all others do.
    thread::sleep(Duration::from_millis(5));
    let round = |_| {
        // Beside other tasks the one that was called may not have run yet: two calls would be one
        // to it, and it would wait for the last one for ever.
        while shared.word.load(Ordering::Acquire) == CALLED {
            thread::sleep(Duration::from_micros(100));
        }
        let mut side = Side {
            line_ns: line(entry_permille),
            call_ns: sys::monotonic_ns(),
            ..Side::default()
        };
        shared.word.store(CALLED, Ordering::Release);
        sys::futex_wake(&shared.word);
        side.back_ns = sys::monotonic_ns();
        side.other_ns = sys::cpu_ns_of_thread(wakee);
        side
    };
    Ok((0..rounds).map(round).collect())
}

fn wakee(cpu: usize, rounds: usize, entry_permille: u64, shared: &Shared) -> io::Result<Vec<Side>> {
    let prepared = sys::pin_thread(&[cpu]);
    let Some(waker) = shared.meet(prepared, &shared.wakee, &shared.waker)? else {
        return Ok(Vec::new());
    };
    let round = |_| {
        let mut side = Side {
            line_ns: line(entry_permille),
            call_ns: sys::monotonic_ns(),
            ..Side::default()
        };
        while shared.word.load(Ordering::Acquire) == ASLEEP {
            sys::futex_wait(&shared.word, ASLEEP);
        }
        side.back_ns = sys::monotonic_ns();
        shared.word.store(ASLEEP, Ordering::Release);
        side.other_ns = sys::cpu_ns_of_thread(waker);
        side
    };
    Ok((0..rounds).map(round).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Spread;

    #[test]
    fn a_side_that_cannot_start_lets_the_other_one_go() {
        let shared = Shared::new();
        let (one, other) = thread::scope(|scope| {
            let denied = || {
                shared.meet(
                    Err(io::Error::other("denied")),
                    &shared.waker,
                    &shared.wakee,
                )
            };
            let one = scope.spawn(denied);
            let other = shared.meet(Ok(()), &shared.wakee, &shared.waker);
            (one.join().unwrap(), other)
        });
        assert_eq!(one.unwrap_err().to_string(), "denied");
        assert_eq!(other.unwrap(), None);
    }

    #[test]
    fn the_clock_is_read_within_the_call() {
        let points = clock_points(0, 400, 400).unwrap();
        assert_eq!(points.len(), 359);
        let median = |pick: fn(&ClockPoints) -> f64| {
            let column: Vec<f64> = points.iter().map(pick).collect();
            Spread::of(&column).unwrap().median
        };
        // Each part is a part: none is negative in the middle of its distribution.
        assert!(median(|one| one.wake_ns) > 0.0);
        assert!(median(|one| one.wakee_ns) > 0.0);
        assert!(median(|one| one.block_ns) > 0.0);
        assert!(median(|one| one.waker_ns) > 0.0);
        assert!(clock_points(5_000, 1, 400).is_err());
    }

    #[test]
    fn a_call_has_two_halves() {
        let halves = call_halves(0, 100).unwrap();
        assert_eq!(halves.len(), 100);
        assert!(halves.iter().any(|(entry, _)| *entry > 0.0));
        assert!(halves.iter().any(|(_, exit)| *exit > 0.0));
    }
}
