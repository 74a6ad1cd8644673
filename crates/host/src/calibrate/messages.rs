//! Messages through pipes and sockets: alone, by how many wait, and between two CPUs.

use super::{Far, Messages, Shared, spread_of};
use crate::error::Result;
use crate::measure::{Carrier, Load, MessageTimes, Sharing, Spread, messages, messages_alone};
use std::path::Path;

/// Messages that a CPU's caches keep beside everything else.
const NEAR: Load = Load {
    channels: 1,
    depth: 200,
};
/// Messages that go through four and more megabytes of buffers.
const FAR: Load = Load {
    channels: 32,
    depth: 250,
};
/// Channels that two CPUs use, with little in them.
const SHARED: Load = Load {
    channels: 8,
    depth: 200,
};
/// Size of the kernel buffer that a byte takes of a socket's memory.
const BUFFER_BYTES: usize = 768;
const DEPTH: usize = 16;
const BATCHES: usize = 200;

pub(super) fn measure(cpu: usize, pair: Option<(usize, usize)>) -> Result<Messages> {
    let alone = |carrier, depth| {
        let samples = messages_alone(cpu, carrier, depth, BATCHES);
        spread_of("sending messages on", cpu, samples)
    };
    let shared = |carrier| pair.map(|pair| shared(carrier, pair)).transpose();
    let (pipes, sockets) = (shared(Carrier::Pipe)?, shared(Carrier::Unix)?);
    Ok(Messages {
        pipe: alone(Carrier::Pipe, DEPTH)?,
        pipe_one: alone(Carrier::Pipe, 1)?,
        unix: alone(Carrier::Unix, DEPTH)?,
        far: cache_kib(cpu).map(|kib| far(cpu, kib)).transpose()?,
        shared: pipes.zip(sockets).map(<[Shared; 2]>::from),
    })
}

fn rounds(
    carrier: Carrier,
    cpus: (usize, usize),
    load: Load,
    sharing: Sharing,
    count: usize,
) -> Result<(Spread, Spread)> {
    let action = "sending messages between";
    let times = messages(cpus, carrier, load, sharing, count)
        .map_err(|error| super::on_cpu(action, cpus.1, error))?;
    let column = |pick: fn(&MessageTimes) -> f64| {
        spread_of(action, cpus.1, Ok(times.iter().map(pick).collect()))
    };
    Ok((column(|one| one.write_ns)?, column(|one| one.read_ns)?))
}

fn far(cpu: usize, cache_kib: u64) -> Result<Far> {
    let alone = |load, count| rounds(Carrier::Unix, (cpu, cpu), load, Sharing::Alone, count);
    Ok(Far {
        near: alone(NEAR, 400)?,
        far: alone(FAR, 30)?,
        cache_kib,
        waiting_kib: (FAR.channels * FAR.depth * BUFFER_BYTES / 1024) as u64,
    })
}

fn shared(carrier: Carrier, pair: (usize, usize)) -> Result<Shared> {
    let times = |sharing| rounds(carrier, pair, SHARED, sharing, 100);
    Ok(Shared {
        alone: times(Sharing::Alone)?,
        remote_read: times(Sharing::OneWay)?.1,
        contended_write: times(Sharing::Contended)?.0,
    })
}

/// Second level cache of a CPU.
fn cache_kib(cpu: usize) -> Option<u64> {
    let caches = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let read = |index: usize, name: &str| {
        let path = Path::new(&caches).join(format!("index{index}/{name}"));
        std::fs::read_to_string(path).ok()
    };
    let second =
        (0..8).find(|index| read(*index, "level").is_some_and(|level| level.trim() == "2"));
    let size = read(second?, "size")?;
    let kib: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
    (kib > 0).then_some(kib)
}
