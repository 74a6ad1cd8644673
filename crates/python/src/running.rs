//! Simulating beside a Python thread that stays awake.
//!
//! The calling thread gives up the interpreter's lock, waits for at most a twentieth of a second,
//! looks whether Ctrl-C was pressed and reports progress, until the answer is there. After an
//! interrupt the runs that have begun end, the others do not begin: of 200 runs with two workers at
//! most two are waited for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::prelude::*;
use schedcast_lab::error::{Error, Result};
use schedcast_lab::experiment::Scenario;
use schedcast_lab::outcome::Outcome;
use schedcast_lab::simulate::Simulate;
use schedcast_lab::simulator::Simulator;

use crate::error::{raise, raised};

/// How long a Ctrl-C or a progress report may wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A simulator that begins no run once it is told to stop.
pub(crate) struct Stoppable {
    pub(crate) simulator: Simulator,
    stopped: AtomicBool,
    ended: AtomicU64,
}

impl Default for Stoppable {
    fn default() -> Stoppable {
        Stoppable {
            simulator: Simulator::new().drawing(),
            stopped: AtomicBool::default(),
            ended: AtomicU64::default(),
        }
    }
}

impl Stoppable {
    /// To be called at the end of each run.
    pub(crate) fn ran(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Simulate for Stoppable {
    fn run(&self, scenario: &Scenario, seed: u64) -> Result<Outcome> {
        if self.stopped.load(Ordering::Relaxed) {
            // Never seen: the interrupt itself is raised.
            return Err(Error::usage("interrupted"));
        }
        self.simulator.run(scenario, seed)
    }

    fn simulator(&self) -> Option<&Simulator> {
        Some(&self.simulator)
    }
}

/// Has `work` done by `simulator` on `workers` threads (one for each CPU by default), reporting how
/// many of `runs` have ended.
///
/// # Errors
/// Result of `work`, an interrupt, or the exception that `progress` raises.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    simulator: &Stoppable,
    runs: u64,
    progress: Option<&Bound<'_, PyAny>>,
    workers: Option<usize>,
    work: impl FnOnce(&Stoppable) -> Result<T> + Send,
) -> PyResult<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(workers.unwrap_or(0))
        .build()
        .map_err(|error| raise(&Error::usage(format!("threads cannot be started: {error}"))))?;
    let (sender, receiver) = channel();
    let mut reported = None;
    let mut report = |ended: u64| -> PyResult<()> {
        if let Some(progress) = progress
            && reported != Some(ended)
        {
            reported = Some(ended);
            progress.call1((ended, runs))?;
        }
        Ok(())
    };
    let mut receiver = Some(receiver);
    std::thread::scope(|scope| {
        let pool = &pool;
        scope.spawn(move || {
            // After an interrupt the receiver is gone.
            let _ = sender.send(pool.install(|| work(simulator)));
        });
        loop {
            let waiting = receiver.take();
            let (heard, waiting) = py.detach(move || {
                let heard = waiting
                    .as_ref()
                    .map(|channel| channel.recv_timeout(LOOK_EVERY));
                (heard, waiting)
            });
            receiver = waiting;
            let ended = simulator.ended.load(Ordering::Relaxed);
            match heard {
                Some(Ok(answer)) => {
                    let answer = raised(answer)?;
                    report(ended)?;
                    return Ok(answer);
                }
                Some(Err(RecvTimeoutError::Timeout)) => {
                    let looked = py.check_signals().and_then(|()| report(ended));
                    if let Err(interrupt) = looked {
                        simulator.stopped.store(true, Ordering::Relaxed);
                        // The runs that have begun end without the lock.
                        let rest = receiver.take();
                        py.detach(move || drop(rest.map(|channel| channel.recv())));
                        return Err(interrupt);
                    }
                }
                Some(Err(RecvTimeoutError::Disconnected)) | None => {
                    return Err(raise(&Error::usage(
                        "the simulation ended without an answer",
                    )));
                }
            }
        }
    })
}
