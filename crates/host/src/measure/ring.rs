//! Processes of one CPU pass a token round a ring of pipes: what a switch takes by how many address
//! spaces take turns.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::thread;

use super::check_cpus;
use crate::sys;

const TOKEN: u8 = 1;
/// The token that ends every thread it passes.
const LAST: u8 = 2;

type Pipe = (PipeReader, PipeWriter);

/// One hop of the token: each sample is the mean over `laps` laps of `processes` processes pinned
/// to `cpu`, ns. All are under `SCHED_IDLE`, where a woken task does not preempt, so that a hop is
/// one wakeup, one sleep and one switch.
///
/// # Errors
/// When the CPU cannot be used, and with fewer than two processes.
pub(crate) fn ring_hops(
    cpu: usize,
    processes: usize,
    batches: usize,
    laps: usize,
) -> io::Result<Vec<f64>> {
    check_cpus(&[cpu])?;
    if processes < 2 {
        return Err(io::Error::other("a ring has at least two processes"));
    }
    let pipes: Vec<Pipe> = (0..processes)
        .map(|_| io::pipe())
        .collect::<Result<_, _>>()?;
    let member = |place: usize| i32::from(pass_on(cpu, &pipes, place).is_err());
    let children: Vec<i32> = (1..processes)
        .map(|place| sys::fork_child(|| member(place)))
        .collect::<Result<_, _>>()?;
    let samples = thread::scope(|scope| {
        let timed = scope.spawn(|| time(cpu, &pipes, batches, laps));
        timed.join().expect("the timing thread does not panic")
    });
    for child in children {
        sys::reap(child)?;
    }
    samples
}

/// Takes the token from the own pipe, puts it into the next one's.
fn hop(pipes: &[Pipe], place: usize) -> io::Result<u8> {
    let mut token = [0];
    (&pipes[place].0).read_exact(&mut token)?;
    (&pipes[(place + 1) % pipes.len()].1).write_all(&token)?;
    Ok(token[0])
}

fn pass_on(cpu: usize, pipes: &[Pipe], place: usize) -> io::Result<()> {
    sys::pin_thread(&[cpu])?;
    sys::set_policy_idle()?;
    while hop(pipes, place)? != LAST {}
    Ok(())
}

/// The first of the ring sends the token round and waits for it.
fn time(cpu: usize, pipes: &[Pipe], batches: usize, laps: usize) -> io::Result<Vec<f64>> {
    sys::pin_thread(&[cpu])?;
    sys::set_policy_idle()?;
    let round = |token: u8| {
        (&pipes[1].1).write_all(&[token])?;
        (&pipes[0].0).read_exact(&mut [0])
    };
    let mut samples = Vec::with_capacity(batches);
    for batch in 0..=batches {
        let start_ns = sys::monotonic_ns();
        for _ in 0..laps {
            round(TOKEN)?;
        }
        let batch_ns = sys::monotonic_ns() - start_ns;
        if batch > 0 {
            samples.push(batch_ns as f64 / (laps * pipes.len()) as f64);
        }
    }
    round(LAST)?;
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_round() {
        let samples = ring_hops(0, 8, 3, 5).unwrap();
        assert_eq!(samples.len(), 3);
        assert!(samples.iter().all(|ns| *ns > 0.0));
        assert!(ring_hops(0, 1, 1, 1).is_err());
    }
}
