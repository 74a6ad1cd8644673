//! Costs of this machine's kernel paths: the constants that a simulation of this machine needs.
//!
//! Every function measures one thing, on CPUs the caller names, and returns raw samples in ns;
//! [`Spread`] condenses them. Nothing here subtracts, averages over kinds or decides: a wakeup's
//! cost, say, is the difference of two of these measurements, and the caller shows both.
//!
//! A sample of a short operation is the mean over a batch of it (64 round trips, 1 000 system
//! calls), so the clock's own 20–40 ns and its granularity vanish. Ticks and stolen time fall into
//! a few batches and show up in p90, not in the median.

mod clock;
mod deadline;
mod messages;
mod migrate;
mod pingpong;
mod quick;
mod ring;
mod speed;
mod stall;
mod ticks;
mod wake;

use schedcast_base::quantile::{percentile, spread};

pub(crate) use clock::{ClockPoints, call_halves, clock_points};
pub(crate) use deadline::{Arming, deadline_writes};
pub(crate) use messages::{Carrier, Load, MessageTimes, Sharing, messages, messages_alone};
pub(crate) use migrate::{Refill, migration_refills};
pub(crate) use pingpong::{Partner, round_trips};
pub(crate) use quick::{fork_exit, getppid, pipe_alone, read_clock, yield_switches};
pub(crate) use ring::ring_hops;
pub(crate) use speed::{clock_mhz, speed_beside};
pub(crate) use stall::{Stall, interrupt_stalls};
pub(crate) use ticks::{Gap, fit_ticks, spin_gaps_on};
pub(crate) use wake::{RemoteWake, remote_wakes};

/// Fails when one of the CPUs cannot be used. Tasks that wait for each other check before they
/// start: one that failed to reach its CPU would leave the other waiting for ever.
fn check_cpus(cpus: &[usize]) -> std::io::Result<()> {
    let cpus = cpus.to_vec();
    let try_all = move || {
        cpus.iter()
            .try_for_each(|cpu| crate::sys::pin_thread(&[*cpu]))
    };
    std::thread::spawn(try_all)
        .join()
        .expect("pinning does not panic")
}

/// Spins under `SCHED_IDLE` until told to stop: the CPU never idles, and any other task preempts
/// it.
fn spin_idly(cpu: usize, over: &std::sync::atomic::AtomicBool) -> std::io::Result<()> {
    crate::sys::pin_thread(&[cpu])?;
    crate::sys::set_policy_idle()?;
    while !over.load(std::sync::atomic::Ordering::Relaxed) {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Order statistics of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of samples.
    pub count: usize,
    /// Smallest sample.
    pub min: f64,
    /// A tenth of the samples is below this.
    pub p10: f64,
    /// Half of the samples is below this.
    pub median: f64,
    /// A tenth of the samples is above this.
    pub p90: f64,
    /// Largest sample.
    pub max: f64,
}

impl Spread {
    /// Condenses samples; `None` when there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let [min, median, max] = spread(samples)?;
        Some(Self {
            count: samples.len(),
            min,
            p10: percentile(samples, 10.0)?,
            median,
            p90: percentile(samples, 90.0)?,
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_zero_to_ten() {
        let samples: Vec<f64> = (0..=10).rev().map(f64::from).collect();
        let spread = Spread::of(&samples).unwrap();
        assert_eq!((spread.min, spread.max), (0.0, 10.0));
        assert_eq!((spread.p10, spread.median, spread.p90), (1.0, 5.0, 9.0));
        assert_eq!(Spread::of(&[2.0, 1.0]).unwrap().median, 1.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
