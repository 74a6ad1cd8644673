//! Operations of one task on one CPU, timed in batches.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::sys;

/// Runs `operation` in batches on a CPU; each sample is the mean of a batch, ns.
fn batched<F>(
    cpu: usize,
    batches: usize,
    per_batch: usize,
    mut operation: F,
) -> io::Result<Vec<f64>>
where
    F: FnMut() -> io::Result<()> + Send + 'static,
{
    let timed = thread::spawn(move || {
        sys::pin_thread(&[cpu])?;
        let mut samples = Vec::with_capacity(batches);
        for batch in 0..=batches {
            let start_ns = sys::monotonic_ns();
            for _ in 0..per_batch {
                operation()?;
            }
            let batch_ns = sys::monotonic_ns() - start_ns;
            if batch > 0 {
                samples.push(batch_ns as f64 / per_batch as f64);
            }
        }
        Ok(samples)
    });
    timed.join().expect("the timing thread does not panic")
}

/// The cheapest system call.
pub(crate) fn getppid(cpu: usize, batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    batched(cpu, batches, per_batch, || {
        std::hint::black_box(sys::getppid());
        Ok(())
    })
}

/// Reading `CLOCK_MONOTONIC`, the overhead inside all other measurements.
pub(crate) fn read_clock(cpu: usize, batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    batched(cpu, batches, per_batch, || {
        std::hint::black_box(sys::monotonic_ns());
        Ok(())
    })
}

/// A byte written into a pipe and read again by the same thread: two system calls without a waiting
/// thread.
pub(crate) fn pipe_alone(cpu: usize, batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    let (mut reader, mut writer) = io::pipe()?;
    batched(cpu, batches, per_batch, move || {
        writer.write_all(&[1])?;
        reader.read_exact(&mut [0])
    })
}

/// fork, exit in the child, reap in the parent. Depends on the size of the forking process.
pub(crate) fn fork_exit(cpu: usize, batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    batched(cpu, batches, per_batch, || {
        let pid = sys::fork_child(|| 0)?;
        sys::reap(pid).map(drop)
    })
}

/// Two threads on one CPU yield to each other. Returns ns per *switch that really happened* of each
/// batch: a yield need not switch, so switches are counted by the kernel.
pub(crate) fn yield_switches(cpu: usize, batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    let over = Arc::new(AtomicBool::new(false));
    let partner = thread::spawn({
        let over = Arc::clone(&over);
        move || {
            let pinned = sys::pin_thread(&[cpu]);
            while !over.load(Ordering::Relaxed) {
                sys::yield_cpu();
            }
            pinned
        }
    });
    let timed = thread::spawn(move || {
        sys::pin_thread(&[cpu])?;
        let mut samples = Vec::with_capacity(batches);
        for batch in 0..=batches {
            let switches = || {
                let (voluntary, involuntary) = sys::thread_switches();
                voluntary + involuntary
            };
            let (start, start_ns) = (switches(), sys::monotonic_ns());
            for _ in 0..per_batch {
                sys::yield_cpu();
            }
            let batch_ns = sys::monotonic_ns() - start_ns;
            // Away from here and back: two switches for each one counted on this side.
            let happened = 2 * (switches() - start);
            if batch > 0 && happened > 0 {
                samples.push(batch_ns as f64 / happened as f64);
            }
        }
        Ok(samples)
    });
    let samples = timed.join().expect("the timing thread does not panic");
    over.store(true, Ordering::Relaxed);
    partner
        .join()
        .expect("the yielding thread does not panic")?;
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gives_the_samples_asked_for() {
        assert_eq!(getppid(0, 3, 10).unwrap().len(), 3);
        assert_eq!(read_clock(0, 3, 10).unwrap().len(), 3);
        assert_eq!(fork_exit(0, 2, 2).unwrap().len(), 2);
        assert!(
            yield_switches(0, 3, 1_000)
                .unwrap()
                .iter()
                .all(|ns| *ns > 0.0)
        );
        assert!(getppid(5_000, 1, 1).is_err());
    }
}
