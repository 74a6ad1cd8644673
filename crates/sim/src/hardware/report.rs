//! What the hardware did, in the words of turbostat.

use super::Hardware;
use schedcast_kernel::Ns;

/// One CPU since statistics count.
#[derive(Clone, PartialEq, Debug)]
pub struct CpuReport {
    /// Share of time awake (Busy%), polling included.
    pub busy: f64,
    /// Mean clock while awake, MHz (Bzy_MHz); 0 when it never was.
    pub busy_mhz: f64,
    /// Share of time in each idle state, as entered by the hardware (CPU%c…).
    pub residency: Vec<f64>,
}

/// Power in watts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Watts {
    /// Over the whole time.
    pub mean: f64,
    /// Of the interval with the most.
    pub max: f64,
}

/// The machine since statistics count.
#[derive(Clone, PartialEq, Debug)]
pub struct HardwareReport {
    /// Per CPU.
    pub cpus: Vec<CpuReport>,
    /// Names of the idle states, shallow to deep; empty when they are not modelled.
    pub idle_states: Vec<String>,
    /// Mean clock of all CPUs while awake, MHz; `None` when clocks are not modelled.
    pub busy_mhz: Option<f64>,
    /// All packages (PkgWatt); `None` when power is not modelled.
    pub package: Option<Watts>,
    /// Their cores (CorWatt).
    pub cores: Option<Watts>,
}

/// Counters at the time statistics began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    at_ns: Ns,
    threads: Vec<(Ns, u64, Vec<Ns>)>,
}

impl Hardware {
    /// Statistics count from now on.
    pub fn reset(&mut self, now: Ns) -> Baseline {
        self.settle(now);
        if let Some(meter) = &mut self.meter {
            meter.reset(now);
        }
        Baseline {
            at_ns: now,
            threads: self
                .threads
                .iter()
                .map(|thread| (thread.awake_ns, thread.cycles, thread.residency_ns.clone()))
                .collect(),
        }
    }

    /// What happened between `baseline` and `now`, up to which everything is settled.
    pub fn report(&self, baseline: &Baseline, names: &[String], now: Ns) -> HardwareReport {
        let elapsed = (now - baseline.at_ns).max(1) as f64;
        let nothing = (0, 0, Vec::new());
        let mut all = (0, 0);
        let cpus = self.threads.iter().enumerate().map(|(row, thread)| {
            let (awake, cycles, residency) = baseline.threads.get(row).unwrap_or(&nothing);
            let awake_ns = thread.awake_ns - awake;
            let mhz_ns = thread.cycles.wrapping_sub(*cycles);
            all = (all.0 + awake_ns, all.1 + mhz_ns);
            let states = thread.residency_ns.iter().enumerate().map(|(state, ns)| {
                (ns - residency.get(state).copied().unwrap_or(0)) as f64 / elapsed
            });
            CpuReport {
                busy: awake_ns as f64 / elapsed,
                busy_mhz: mhz_ns as f64 / awake_ns.max(1) as f64,
                residency: states.collect(),
            }
        });
        let cpus = cpus.collect();
        let watts = self.meter.as_ref().map(|meter| meter.watts(now));
        let pick = |row: usize| {
            watts.map(|(mean, max)| Watts {
                mean: mean[row],
                max: max[row],
            })
        };
        HardwareReport {
            cpus,
            idle_states: names.to_vec(),
            busy_mhz: self
                .clocks
                .as_ref()
                .map(|_| all.1 as f64 / all.0.max(1) as f64),
            package: pick(0),
            cores: pick(1),
        }
    }
}
