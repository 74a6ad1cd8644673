//! Two tasks hand a byte back and forth through two pipes. On one CPU a round trip is two wakeups,
//! two switches and the system calls around them; on two CPUs it is two remote wakeups of a CPU
//! that has just gone idle.
//!
//! ```text
//!   one CPU:   A write → wake B ─ read blocks → switch to B ─ read, write → wake A ─ blocks → switch to A
//!              └────────────────────────── one round trip ────────────────────────────────────┘
//! ```

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::thread;

use super::check_cpus;
use crate::sys;

/// Kind of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partner {
    /// A thread: the switch keeps the address space.
    Thread,
    /// A process: the switch changes it.
    Process,
}

/// Round trips between a task pinned to `cpus.0` and one pinned to `cpus.1`; each sample is the
/// mean of `per_batch` round trips, ns.
pub(crate) fn round_trips(
    partner: Partner,
    cpus: (usize, usize),
    batches: usize,
    per_batch: usize,
) -> io::Result<Vec<f64>> {
    check_cpus(&[cpus.0, cpus.1])?;
    match partner {
        Partner::Thread => pipe_threads(cpus, batches, per_batch),
        Partner::Process => pipe_processes(cpus, batches, per_batch),
    }
}

/// Answers each byte until the other side closes.
fn answer(input: &mut PipeReader, output: &mut PipeWriter) -> io::Result<()> {
    let mut byte = [0u8; 1];
    while input.read(&mut byte)? == 1 {
        output.write_all(&byte)?;
    }
    Ok(())
}

/// Times batches of round trips after one batch to warm up.
fn pipe_trips(
    mut output: PipeWriter,
    mut input: PipeReader,
    batches: usize,
    per_batch: usize,
) -> io::Result<Vec<f64>> {
    let mut byte = [7u8; 1];
    let mut samples = Vec::with_capacity(batches);
    for batch in 0..=batches {
        let start_ns = sys::monotonic_ns();
        for _ in 0..per_batch {
            output.write_all(&byte)?;
            input.read_exact(&mut byte)?;
        }
        let batch_ns = sys::monotonic_ns() - start_ns;
        if batch > 0 {
            samples.push(batch_ns as f64 / per_batch as f64);
        }
    }
    Ok(samples)
}

fn pipe_threads(cpus: (usize, usize), batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    let (mut there_out, there_in) = io::pipe()?;
    let (back_out, mut back_in) = io::pipe()?;
    thread::scope(|scope| {
        let partner = scope.spawn(move || {
            sys::pin_thread(&[cpus.1])?;
            answer(&mut there_out, &mut back_in)
        });
        let timed = scope.spawn(move || {
            sys::pin_thread(&[cpus.0])?;
            pipe_trips(there_in, back_out, batches, per_batch)
        });
        let samples = timed.join().expect("the timing thread does not panic");
        partner
            .join()
            .expect("the answering thread does not panic")?;
        samples
    })
}

fn pipe_processes(cpus: (usize, usize), batches: usize, per_batch: usize) -> io::Result<Vec<f64>> {
    let (mut there_out, there_in) = io::pipe()?;
    let (back_out, mut back_in) = io::pipe()?;
    // The child closes its copy of the writing end first, or it would never see the end of the
    // input.
    let mut there_in = Some(there_in);
    let pid = sys::fork_child(|| {
        there_in = None;
        let served = sys::pin_thread(&[cpus.1]).and_then(|()| answer(&mut there_out, &mut back_in));
        i32::from(served.is_err())
    })?;
    drop((there_out, back_in));
    let output = there_in.take().expect("only the child lets go of it");
    let timed = thread::spawn(move || {
        sys::pin_thread(&[cpus.0])?;
        pipe_trips(output, back_out, batches, per_batch)
    });
    let samples = timed.join().expect("the timing thread does not panic");
    sys::reap(pid)?;
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_its_round_trips() {
        for partner in [Partner::Thread, Partner::Process] {
            let samples = round_trips(partner, (0, 0), 3, 4).unwrap();
            assert_eq!(samples.len(), 3, "{partner:?}");
            assert!(samples.iter().all(|ns| *ns > 0.0));
        }
        assert!(round_trips(Partner::Thread, (0, 5_000), 1, 1).is_err());
    }
}
