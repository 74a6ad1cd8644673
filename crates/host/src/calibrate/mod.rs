//! The named constants of this machine, from measurements of it.
//!
//! [`measure`] times a dozen small things, each several times; [`derive::figures`] turns them into
//! the constants of a machine description, every one with its unit in its name, its spread and what
//! it comes from. Worked example: a switch by `sched_yield` takes 1470 ns, a system call 150:
//! `cost.context_switch_thread_ns` is 1320, from 1340 to 1310 if the switch is taken at its 10 %
//! quantile and at its 90 % one.

pub mod derive;
#[cfg(test)]
pub(crate) mod example;
mod lateness;
mod messages;

use crate::error::{HostError, Result, io_error};
use crate::measure::{
    Arming, ClockPoints, Partner, Refill, RemoteWake, Spread, Stall, call_halves, clock_mhz,
    clock_points, deadline_writes, fit_ticks, fork_exit, getppid, interrupt_stalls,
    migration_refills, pipe_alone, read_clock, remote_wakes, ring_hops, round_trips, speed_beside,
    yield_switches,
};
use crate::stat::CpuTimes;
use crate::topology::{CpuInfo, KernelInfo, Topology};
pub use lateness::TimerLateness;
use std::path::Path;

/// One constant of a machine description.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Section and key, such as `cost.syscall_ns`; the unit ends the name.
    pub key: &'static str,
    /// Its value.
    pub value: u64,
    /// The same from the 10 % and the 90 % quantile of what it comes from.
    pub spread: (u64, u64),
    /// Measurement and derivation of the figure.
    pub source: &'static str,
}

/// Measured samples, in ns unless the name says otherwise. `None`: this machine does not have the
/// facility.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationRun {
    /// `getppid`.
    pub syscall: Spread,
    /// A switch by `sched_yield`, two threads on one CPU.
    pub yield_switch: Spread,
    /// Reading the clock in user mode, which is in all of these parts of calls once.
    pub clock_read: Spread,
    /// From a call that reads the clock to where it does, and from there to its end.
    pub call_halves: (Spread, Spread),
    /// Where in a futex call that wakes, or sleeps, the clock of the run queue is read.
    pub clock_points: Points,
    /// Round trip of two threads on one CPU through pipes.
    pub pipe_trip: Spread,
    /// The same between two processes.
    pub process_trip: Spread,
    /// A hop of a token that few processes of one CPU pass on, and that many do.
    pub ring_hops: (Spread, Spread),
    /// A byte written to a pipe and read again by one of several threads.
    pub pipe_alone: Spread,
    /// Messages of processes of one thread.
    pub messages: Messages,
    /// fork, exit and wait.
    pub fork_exit: Spread,
    /// Wakeup of another CPU that idles: the waker's call, and until the wakee runs.
    pub idle_wake: Option<(Spread, Spread)>,
    /// The same with the other CPU kept busy by a `SCHED_IDLE` task.
    pub busy_wake: Option<(Spread, Spread)>,
    /// Loss of a task for each interrupt from another CPU, and its loss in as much time without
    /// any.
    pub stalls: Option<(Spread, Spread)>,
    /// From the waker's call to the wakee on a CPU that idled for each of [`IDLE_RESTS_NS`].
    pub idle_exits: Vec<Spread>,
    /// A timer armed and disarmed: ahead of all others, and behind them.
    pub arming: (Spread, Spread),
    /// Time that a tick takes from a task.
    pub tick: Option<Spread>,
    /// How late the tick's handler begins.
    pub lateness: Option<TimerLateness>,
    /// Refill after a move within a core, a last level cache, a node, between nodes.
    pub refills: [Option<Spread>; 4],
    /// A pass over the same data with hot caches.
    pub hot_pass: Option<Spread>,
    /// Speed of a thread beside 1, 2, … busy siblings, thousandths.
    pub smt: Vec<Spread>,
    /// Clock of a busy CPU, MHz.
    pub clock_mhz: Spread,
    /// Part of the machine's time the hypervisor took meanwhile.
    pub steal_ratio: f64,
}

/// Times of a byte through a pipe or a pair of stream sockets, written by processes of one thread,
/// ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Messages {
    /// A write and a read, 16 writes to a pipe and then 16 reads.
    pub pipe: Spread,
    /// The same one by one: each write finds the pipe empty.
    pub pipe_one: Spread,
    /// Of sockets, 16 and 16.
    pub unix: Spread,
    /// While few of them wait, and while many do. `None`: sysfs does not tell the second level
    /// cache.
    pub far: Option<Far>,
    /// Between two CPUs: of pipes, of sockets.
    pub shared: Option<[Shared; 2]>,
}

/// Sockets with few and with many messages that wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Far {
    /// A write and a read while they fit the cache.
    pub near: (Spread, Spread),
    /// While they do not.
    pub far: (Spread, Spread),
    /// Second level cache of a CPU, KiB.
    pub cache_kib: u64,
    /// Buffers of the many, KiB.
    pub waiting_kib: u64,
}

/// Channels that two CPUs use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shared {
    /// A write and a read of a process that has them for itself.
    pub alone: (Spread, Spread),
    /// A read of what was written on the other CPU.
    pub remote_read: Spread,
    /// A write while the other CPU writes to the same channels.
    pub contended_write: Spread,
}

/// Parts of a wakeup that preempts, and of the sleep after it, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Points {
    /// From the waker's call to the clock.
    pub wake: Spread,
    /// From there to the wakee in user mode.
    pub wakee: Spread,
    /// From the wakee's call to the clock.
    pub block: Spread,
    /// From there to the waker in user mode.
    pub waker: Spread,
}

/// Data that a moved task is taken to have in its caches, KiB.
pub const WORKING_SET_KIB: usize = 256;
/// Calls, and wakeups, in which the place of the clock is looked for.
const CLOCK_ROUNDS: usize = 20_000;
/// Processes of which a CPU keeps all translations (x86: six), and of which it keeps none.
const FEW_PROCESSES: usize = 4;
const MANY_PROCESSES: usize = 16;
/// Ticks are counted for so long.
const TICKS_NS: u64 = 6_000_000_000;
/// Ticks longer than so many times the shortest tenth of them are something else.
const LONG_TICK: f64 = 8.0;
/// An idle CPU has idled for so long when the price of waking it is measured.
const REST_NS: u64 = 200_000;
/// How long a CPU has idled when its way out of idling is measured: a hypervisor polls for a halted
/// CPU at first, runs others later, and goes to sleep itself in the end. Timers that set off with
/// the CPU asleep came 60 to 66 µs late after 5 ms on one machine, 75 to 92 after 20 and 94 to 101
/// after 100 (medians): what a thread of a usual period meets is not known at 5 ms yet.
pub const IDLE_RESTS_NS: [u64; 7] = [
    20_000, 80_000, 200_000, 1_000_000, 5_000_000, 20_000_000, 80_000_000,
];

/// Measures this machine; `step` is told what comes next. Takes about 45 seconds; everything else
/// on the machine disturbs it.
///
/// # Errors
/// Without root, and when a CPU cannot be used.
pub fn measure(step: &dyn Fn(&str)) -> Result<CalibrationRun> {
    if !crate::sys::is_root() {
        return Err(HostError::NotPermitted {
            action: "calibrating through",
            path: "/sys/kernel/tracing".into(),
        });
    }
    let topology = Topology::read()?;
    let before = CpuTimes::read()?;
    let cpu = topology.cpus.last().map_or(0, |info| info.cpu);
    let pair = pair_of(&topology, |a, b| a.siblings != b.siblings)
        .or_else(|| pair_of(&topology, |_, _| true));
    step("system calls and switches");
    let spread = |samples: std::io::Result<Vec<f64>>| spread_of("measuring on", cpu, samples);
    let trip = |partner| spread(round_trips(partner, (cpu, cpu), 200, 64));
    let syscall = spread(getppid(cpu, 200, 1000))?;
    let yield_switch = spread(yield_switches(cpu, 200, 500))?;
    let clock_read = spread(read_clock(cpu, 200, 1000))?;
    let (call_halves, clock_points) = clocks(cpu)?;
    let pipe_trip = trip(Partner::Thread)?;
    let process_trip = trip(Partner::Process)?;
    let ring = |processes| spread(ring_hops(cpu, processes, 100, 20));
    let ring_hops = (ring(FEW_PROCESSES)?, ring(MANY_PROCESSES)?);
    let pipe_alone = spread(pipe_alone(cpu, 200, 500))?;
    let messages = messages::measure(cpu, pair)?;
    let fork_exit = spread(fork_exit(cpu, 20, 20))?;
    step("wakeups of other CPUs");
    let wake = |never_idle| pair.map(|pair| wakes(pair, never_idle)).transpose();
    let (idle_wake, busy_wake) = (wake(false)?, wake(true)?);
    let stalls = pair.map_or(Ok(None), stalls)?;
    let idle_exits = pair.map_or_else(|| Ok(Vec::new()), idle_exit_spreads)?;
    step("ticks");
    let arming = armings(cpu)?;
    let (tick, lateness) = ticks(&topology)?;
    step("caches and clocks");
    let (refills, hot_pass) = refills(&topology)?;
    let smt = siblings(&topology)?;
    let clock_mhz = spread(clock_mhz(cpu, 200))?;
    Ok(CalibrationRun {
        syscall,
        yield_switch,
        clock_read,
        call_halves,
        clock_points,
        pipe_trip,
        process_trip,
        ring_hops,
        pipe_alone,
        messages,
        fork_exit,
        idle_wake,
        busy_wake,
        stalls,
        idle_exits,
        arming,
        tick,
        lateness,
        refills,
        hot_pass,
        smt,
        clock_mhz,
        steal_ratio: CpuTimes::read()?.steal_ratio_since(&before),
    })
}

/// An error of something done on a CPU.
fn on_cpu(action: &'static str, cpu: usize, error: std::io::Error) -> HostError {
    io_error(action, Path::new(&format!("CPU {cpu}")), error)
}

fn spread_of(
    action: &'static str,
    cpu: usize,
    samples: std::io::Result<Vec<f64>>,
) -> Result<Spread> {
    let samples = samples.map_err(|error| on_cpu(action, cpu, error))?;
    let nothing = || std::io::Error::other("no samples");
    Spread::of(&samples).ok_or_else(|| on_cpu(action, cpu, nothing()))
}

/// The first two CPUs for which something holds.
fn pair_of(
    topology: &Topology,
    holds: impl Fn(&CpuInfo, &CpuInfo) -> bool,
) -> Option<(usize, usize)> {
    let cpus = &topology.cpus;
    let pairs = cpus
        .iter()
        .enumerate()
        .flat_map(|(row, a)| cpus[row + 1..].iter().map(move |b| (a, b)));
    pairs
        .into_iter()
        .find(|(a, b)| holds(a, b))
        .map(|(a, b)| (a.cpu, b.cpu))
}

/// Where calls read the clock: any call, and those that wake and sleep.
fn clocks(cpu: usize) -> Result<((Spread, Spread), Points)> {
    let spread = |samples: Vec<f64>| spread_of("measuring on", cpu, Ok(samples));
    let failed = |error| on_cpu("measuring on", cpu, error);
    let (entries, exits) = call_halves(cpu, CLOCK_ROUNDS)
        .map_err(failed)?
        .into_iter()
        .unzip();
    let (entry, exit) = (spread(entries)?, spread(exits)?);
    let permille = 1000.0 * entry.median / (entry.median + exit.median).max(1.0);
    let points = clock_points(cpu, CLOCK_ROUNDS, permille as u64).map_err(failed)?;
    let column = |pick: fn(&ClockPoints) -> f64| spread(points.iter().map(pick).collect());
    let points = Points {
        wake: column(|one| one.wake_ns)?,
        wakee: column(|one| one.wakee_ns)?,
        block: column(|one| one.block_ns)?,
        waker: column(|one| one.waker_ns)?,
    };
    Ok(((entry, exit), points))
}

fn wakes(pair: (usize, usize), never_idle: bool) -> Result<(Spread, Spread)> {
    let wakes = remote_wakes(pair, 2000, REST_NS, never_idle)
        .map_err(|error| on_cpu("measuring on", pair.1, error))?;
    let column = |pick: fn(&RemoteWake) -> f64| {
        spread_of("measuring on", pair.1, Ok(wakes.iter().map(pick).collect()))
    };
    Ok((
        column(|wake| wake.waker_ns)?,
        column(|wake| wake.latency_ns)?,
    ))
}

/// Time that interrupts take from a task, and time taken without them. Twenty milliseconds each
/// hold the same number of ticks at every usual HZ.
fn stalls(pair: (usize, usize)) -> Result<Option<(Spread, Spread)>> {
    let stalls = interrupt_stalls(pair, 50, 200, 100_000)
        .map_err(|error| on_cpu("measuring on", pair.1, error))?;
    let Some(stalls) = stalls else {
        return Ok(None);
    };
    let column = |pick: fn(&Stall) -> f64| {
        spread_of(
            "measuring on",
            pair.1,
            Ok(stalls.iter().map(pick).collect()),
        )
    };
    Ok(Some((
        column(|stall| stall.called_ns)?,
        column(|stall| stall.quiet_ns)?,
    )))
}

/// Rest of a wakeup's latency after the waker's call, one spread for each idle time of the other
/// CPU.
fn idle_exit_spreads(pair: (usize, usize)) -> Result<Vec<Spread>> {
    let exit = |rest_ns: u64| {
        // Two seconds of rests at the most.
        let wakes = u32::try_from(2_000_000_000 / rest_ns).map_or(800, |most| most.min(800));
        let wakes = remote_wakes(pair, wakes, rest_ns, false);
        let after = |wake: &RemoteWake| (wake.latency_ns - wake.waker_ns).max(0.0);
        let samples = wakes.map(|wakes| wakes.iter().map(after).collect());
        spread_of("measuring on", pair.1, samples)
    };
    IDLE_RESTS_NS.into_iter().map(exit).collect()
}

/// Timers ahead of all others and behind them.
fn armings(cpu: usize) -> Result<(Spread, Spread)> {
    let action = "arming timers on";
    let armings = deadline_writes(cpu, 200, 100).map_err(|error| on_cpu(action, cpu, error))?;
    let column =
        |pick: fn(&Arming) -> f64| spread_of(action, cpu, Ok(armings.iter().map(pick).collect()));
    Ok((column(|one| one.near_ns)?, column(|one| one.far_ns)?))
}

/// Ticks on the first CPUs, seen by tasks that spin, and by the tracer from inside.
fn ticks(topology: &Topology) -> Result<(Option<Spread>, Option<TimerLateness>)> {
    let hz = KernelInfo::read()?.hz.unwrap_or(250);
    let tick_ns = 1_000_000_000 / u64::from(hz);
    // More would only disturb more.
    let cpus: Vec<usize> = topology.cpus.iter().map(|info| info.cpu).take(4).collect();
    // Apart from each other: the tracer makes ticks longer.
    let gaps = lateness::spin(&cpus, TICKS_NS / 2)?;
    let lengths: Vec<f64> = gaps
        .iter()
        .filter_map(|gaps| fit_ticks(gaps, tick_ns))
        .flat_map(|fit| fit.lengths_ns)
        .collect();
    let lateness = lateness::measure(&cpus, TICKS_NS, tick_ns)?;
    Ok((Spread::of(&undisturbed(&lengths)), lateness))
}

/// Ticks in which no other task ran: a slice of another program is a thousand times longer than
/// they are.
fn undisturbed(lengths: &[f64]) -> Vec<f64> {
    let longest = Spread::of(lengths).map_or(0.0, |spread| LONG_TICK * spread.p10);
    let short = lengths.iter().filter(|length| **length <= longest);
    short.copied().collect()
}

/// Refills by distance, and a hot pass.
fn refills(topology: &Topology) -> Result<([Option<Spread>; 4], Option<Spread>)> {
    let pairs = [
        pair_of(topology, |a, b| a.siblings == b.siblings),
        pair_of(topology, |a, b| a.siblings != b.siblings && a.llc == b.llc),
        pair_of(topology, |a, b| a.llc != b.llc && a.node == b.node),
        pair_of(topology, |a, b| a.node != b.node),
    ];
    let (mut refills, mut hot_pass) = ([None; 4], None);
    for (refill, pair) in refills.iter_mut().zip(pairs) {
        let Some(pair) = pair else { continue };
        let action = "moving a thread to";
        let moves = migration_refills(pair, WORKING_SET_KIB, 400)
            .map_err(|error| on_cpu(action, pair.1, error))?;
        let column = |pick: fn(&Refill) -> f64| {
            spread_of(action, pair.1, Ok(moves.iter().map(pick).collect()))
        };
        *refill = Some(column(|one| one.refill_ns)?);
        hot_pass = Some(column(|one| one.hot_ns)?);
    }
    Ok((refills, hot_pass))
}

fn siblings(topology: &Topology) -> Result<Vec<Spread>> {
    let widest = topology.cpus.iter().max_by_key(|cpu| cpu.siblings.len());
    let Some(widest) = widest else {
        return Ok(Vec::new());
    };
    (2..=widest.siblings.len())
        .map(|threads| {
            let cpus = &widest.siblings[..threads];
            let samples = speed_beside(cpus, 15, 20_000_000);
            spread_of("computing on", cpus[0], samples)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_others_are_no_ticks() {
        let mut lengths = vec![20_000.0; 50];
        lengths.extend([4_000_000.0; 40]);
        assert_eq!(undisturbed(&lengths), [20_000.0; 50]);
        assert!(undisturbed(&[]).is_empty());
    }
}
