//! Cost of writing the deadline of a CPU's timer hardware.
//!
//! A timer that becomes the first of its CPU is written to the hardware when it is armed, and the
//! one behind it when it is disarmed again; a timer behind others is not written at all. In a
//! virtual machine such a write leaves the guest. Worked example: arming and disarming a timer that
//! is due in an hour takes 1.3 µs, one that is due in 50 µs takes 11.3: a write is 5 µs.

use std::io;
use std::thread;

use super::check_cpus;
use crate::sys;

/// Sooner than ticks and timers of others, mostly.
const NEAR_NS: u64 = 50_000;
/// Later than all of them.
const FAR_NS: u64 = 3_600_000_000_000;

/// A timer armed and disarmed again, mean of a batch, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arming {
    /// Ahead of all others: two deadlines are written.
    pub near_ns: f64,
    /// Behind the others: none is.
    pub far_ns: f64,
}

/// Arms and disarms timers on a CPU, near ones and far ones in turns.
pub(crate) fn deadline_writes(
    cpu: usize,
    batches: usize,
    per_batch: usize,
) -> io::Result<Vec<Arming>> {
    check_cpus(&[cpu])?;
    let timed = thread::spawn(move || {
        sys::pin_thread(&[cpu])?;
        let timer = sys::timer_file()?;
        let batch = |due_ns| {
            let start_ns = sys::monotonic_ns();
            for _ in 0..per_batch {
                sys::set_timer(&timer, due_ns)?;
                sys::set_timer(&timer, 0)?;
            }
            Ok::<_, io::Error>((sys::monotonic_ns() - start_ns) as f64 / per_batch as f64)
        };
        let sample = |_| {
            Ok(Arming {
                near_ns: batch(NEAR_NS)?,
                far_ns: batch(FAR_NS)?,
            })
        };
        (0..batches).map(sample).collect()
    });
    timed.join().expect("the timing thread does not panic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedcast_base::quantile::median;

    #[test]
    fn what_is_written_takes_longer_than_what_is_not() {
        let more: Vec<f64> = deadline_writes(0, 50, 50)
            .unwrap()
            .iter()
            .map(|one| one.near_ns - one.far_ns)
            .collect();
        assert_eq!(more.len(), 50);
        assert!(median(&more[..]) > Some(0.0), "{more:?}");
        assert!(deadline_writes(5_000, 1, 1).is_err());
    }
}
