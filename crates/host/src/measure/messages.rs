//! Cost of a byte through a pipe or a pair of stream sockets, by the sharing of the end and the
//! number of waiters.
//!
//! The calls are made by processes of one thread: threads share their descriptors and pay for that
//! with every call. Worked example: 500 rounds of 16 writes and 16 reads of one pipe took 3.5 ms,
//! so 437 ns for a byte and back, of which the two bare system calls are 254; in rounds of one
//! byte, where each write finds the pipe empty, it was 518.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::check_cpus;
use crate::sys;

/// Channel that carries the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Pipes.
    Pipe,
    /// Pairs of `AF_UNIX` stream sockets.
    Unix,
}

/// Mean of a call in one round, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MessageTimes {
    /// Time of a write, ns.
    pub write_ns: f64,
    /// Time of a read, ns.
    pub read_ns: f64,
}

/// Distribution of writing and reading among processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One process does both.
    Alone,
    /// One writes, one on another CPU reads.
    OneWay,
    /// Both write into all channels, the second half of the way ahead of the first, who reads.
    Contended,
}

/// How many channels, and how many bytes wait in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Pipes or pairs of sockets.
    pub channels: usize,
    /// Bytes in each, one message each; what a channel holds is the limit.
    pub depth: usize,
}

type Ends = (OwnedFd, OwnedFd);
/// Orders to a worker and its answers, one byte and eight.
type Lines = ((PipeReader, PipeWriter), (PipeReader, PipeWriter));

const WRITE: u8 = b'w';
const READ: u8 = b'r';
const END: u8 = b'e';

/// A write and a read of a byte together in a process of one thread on `cpu`, ns: rounds of `depth`
/// writes to one channel, and as many reads. Each sample is the mean over 4000 bytes.
///
/// # Errors
/// When the CPU cannot be used, and when the channel does not hold so many.
pub(crate) fn messages_alone(
    cpu: usize,
    carrier: Carrier,
    depth: usize,
    batches: usize,
) -> io::Result<Vec<f64>> {
    const BYTES: usize = 4000;
    check_cpus(&[cpu])?;
    let channel = open(carrier)?;
    let (mut answers, answer) = io::pipe()?;
    let rounds = BYTES.div_ceil(depth.max(1));
    let child = sys::fork_child(|| {
        let timed = || -> io::Result<()> {
            sys::pin_thread(&[cpu])?;
            for _ in 0..batches {
                let start_ns = sys::monotonic_ns();
                for _ in 0..rounds {
                    for _ in 0..depth {
                        sys::write_byte(channel.0.as_fd())?;
                    }
                    for _ in 0..depth {
                        sys::read_byte(channel.1.as_fd())?;
                    }
                }
                let batch_ns = sys::monotonic_ns() - start_ns;
                (&answer).write_all(&batch_ns.to_ne_bytes())?;
            }
            Ok(())
        };
        i32::from(timed().is_err())
    })?;
    drop(answer);
    let mut samples = Vec::with_capacity(batches);
    let mut batch_ns = [0; 8];
    while samples.len() < batches && answers.read_exact(&mut batch_ns).is_ok() {
        samples.push(u64::from_ne_bytes(batch_ns) as f64 / (rounds * depth) as f64);
    }
    finished(child)?;
    // The first one finds cold caches.
    samples.drain(..samples.len().min(1));
    Ok(samples)
}

/// Rounds in which all channels are filled and emptied, by processes on one or two CPUs. Each
/// sample is one round.
///
/// # Errors
/// When a CPU cannot be used.
pub(crate) fn messages(
    (first, second): (usize, usize),
    carrier: Carrier,
    load: Load,
    sharing: Sharing,
    rounds: usize,
) -> io::Result<Vec<MessageTimes>> {
    check_cpus(&[first, second])?;
    let channels: Vec<Ends> = (0..load.channels)
        .map(|_| open(carrier))
        .collect::<io::Result<_>>()?;
    let mut lines: [Lines; 2] = [(io::pipe()?, io::pipe()?), (io::pipe()?, io::pipe()?)];
    let depth = match sharing {
        Sharing::Contended => load.depth / 2,
        Sharing::Alone | Sharing::OneWay => load.depth,
    };
    let mut children = Vec::with_capacity(2);
    let read_depth = match sharing {
        Sharing::Contended => 2 * depth,
        Sharing::Alone | Sharing::OneWay => depth,
    };
    for (row, cpu) in [first, second].into_iter().enumerate() {
        let worker = Worker {
            channels: &channels,
            write_depth: depth,
            read_depth,
            ahead: row * load.channels / 2,
        };
        let lines = &lines[row];
        children.push(sys::fork_child(|| {
            i32::from(worker.obey(cpu, lines).is_err())
        })?);
    }
    let samples = order(&mut lines, sharing, rounds);
    for (orders, _) in &mut lines {
        orders.1.write_all(&[END])?;
    }
    children.into_iter().try_for_each(finished)?;
    samples
}

/// Tells the two workers what to do, round by round.
fn order(lines: &mut [Lines; 2], sharing: Sharing, rounds: usize) -> io::Result<Vec<MessageTimes>> {
    let (writers, reader) = match sharing {
        Sharing::Alone => (&[0][..], 0),
        Sharing::OneWay => (&[0][..], 1),
        Sharing::Contended => (&[0, 1][..], 0),
    };
    let mut phase = |workers: &[usize], order: u8| -> io::Result<f64> {
        for row in workers {
            lines[*row].0.1.write_all(&[order])?;
        }
        let mut sum = 0.0;
        for row in workers {
            let mut call_ns = [0; 8];
            lines[*row].1.0.read_exact(&mut call_ns)?;
            sum += f64::from_ne_bytes(call_ns);
            if sum.is_nan() {
                return Err(io::Error::other("a process could not write or read"));
            }
        }
        Ok(sum / workers.len() as f64)
    };
    let mut samples = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let write_ns = phase(writers, WRITE)?;
        let read_ns = phase(&[reader], READ)?;
        if round > 0 {
            samples.push(MessageTimes { write_ns, read_ns });
        }
    }
    Ok(samples)
}

/// One of the two processes.
struct Worker<'a> {
    channels: &'a [Ends],
    write_depth: usize,
    read_depth: usize,
    /// Channel that it begins with.
    ahead: usize,
}

impl Worker<'_> {
    fn obey(&self, cpu: usize, ((orders, _), (_, answers)): &Lines) -> io::Result<()> {
        sys::pin_thread(&[cpu])?;
        loop {
            let mut order = [0];
            let (mut orders, mut answers) = (orders, answers);
            orders.read_exact(&mut order)?;
            let start_ns = sys::monotonic_ns();
            let calls = match order[0] {
                WRITE => self.write(),
                READ => self.read(),
                _ => return Ok(()),
            };
            let phase_ns = sys::monotonic_ns() - start_ns;
            // The process that waits for the answer is told of a failure too.
            let call_ns = calls.map_or(f64::NAN, |calls| phase_ns as f64 / calls.max(1) as f64);
            answers.write_all(&call_ns.to_ne_bytes())?;
        }
    }

    /// A byte to each channel in turn, as a sender with many receivers does it.
    fn write(&self) -> io::Result<usize> {
        let (before, from) = self.channels.split_at(self.ahead);
        for _ in 0..self.write_depth {
            for channel in from.iter().chain(before) {
                sys::write_byte(channel.0.as_fd())?;
            }
        }
        Ok(self.write_depth * self.channels.len())
    }

    /// All bytes of a channel, then those of the next, as its receiver does it.
    fn read(&self) -> io::Result<usize> {
        for channel in self.channels {
            for _ in 0..self.read_depth {
                sys::read_byte(channel.1.as_fd())?;
            }
        }
        Ok(self.read_depth * self.channels.len())
    }
}

/// The end to write to and the end to read from.
fn open(carrier: Carrier) -> io::Result<Ends> {
    Ok(match carrier {
        Carrier::Pipe => {
            let (reader, writer) = io::pipe()?;
            (writer.into(), reader.into())
        }
        Carrier::Unix => {
            let (writer, reader) = UnixStream::pair()?;
            (writer.into(), reader.into())
        }
    })
}

fn finished(child: i32) -> io::Result<()> {
    match sys::reap(child)?.0 {
        sys::Ending::Exited(0) => Ok(()),
        _ => Err(io::Error::other(
            "a process that was to write or read failed",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_gives_its_rounds() {
        for carrier in [Carrier::Pipe, Carrier::Unix] {
            let alone = messages_alone(0, carrier, 16, 5).unwrap();
            assert_eq!(alone.len(), 4);
            assert!(alone.iter().all(|ns| *ns > 0.0));
            for sharing in [Sharing::Alone, Sharing::OneWay, Sharing::Contended] {
                let load = Load {
                    channels: 3,
                    depth: 20,
                };
                let times = messages((0, 0), carrier, load, sharing, 4).unwrap();
                assert_eq!(times.len(), 4, "{carrier:?} {sharing:?}");
                assert!(
                    times
                        .iter()
                        .all(|one| one.write_ns > 0.0 && one.read_ns > 0.0)
                );
            }
        }
        assert!(messages_alone(5_000, Carrier::Pipe, 1, 1).is_err());
    }
}
