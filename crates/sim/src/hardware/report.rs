//! Report on the hardware, in the words of turbostat.

use super::Hardware;
use super::intervals::Counted;
use schedcast_kernel::Ns;

/// Columns of one row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Columns {
    /// Share of time awake (Busy%), polling included.
    pub busy: f64,
    /// Mean clock while awake, MHz (Bzy_MHz); 0 when it never was.
    pub busy_mhz: f64,
    /// Share of time in each idle state, as entered by the hardware (CPU%c…).
    pub residency: Vec<f64>,
}

impl Columns {
    /// Each column becomes the higher of the two.
    pub(super) fn raise(&mut self, other: &Self) {
        self.busy = self.busy.max(other.busy);
        self.busy_mhz = self.busy_mhz.max(other.busy_mhz);
        self.residency.resize(other.residency.len(), 0.0);
        for (most, share) in self.residency.iter_mut().zip(&other.residency) {
            *most = most.max(*share);
        }
    }
}

/// One CPU since statistics count.
#[derive(Clone, PartialEq, Debug)]
pub struct CpuReport {
    /// Over the whole time.
    pub mean: Columns,
    /// Each of the interval with the most; of the whole time, when no interval is over.
    pub max: Columns,
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
    /// All CPUs together, each column of the interval with the most; of the whole time, when no
    /// interval is over.
    pub max: Columns,
    /// Names of the idle states, shallow to deep; empty when they are not modelled.
    pub idle_states: Vec<String>,
    /// Mean clock of all CPUs while awake, MHz; `None` when clocks are not modelled.
    pub busy_mhz: Option<f64>,
    /// All packages (PkgWatt); `None` when power is not modelled.
    pub package: Option<Watts>,
    /// Their cores (CorWatt).
    pub cores: Option<Watts>,
    /// CPUs while they execute, by the energy model in a machine's tables of clocks; `None` where
    /// there is none, or `package` says more.
    pub model: Option<Watts>,
}

/// Counters at the time statistics began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    at_ns: Ns,
    counted: Vec<Counted>,
}

impl Hardware {
    /// Statistics count from now on.
    pub(crate) fn reset(&mut self, now: Ns) -> Baseline {
        self.settle(now);
        if let Some(meter) = &mut self.meter {
            meter.reset(now);
        }
        let counted = self.counted();
        self.intervals.reset(counted.clone(), now);
        Baseline {
            at_ns: now,
            counted,
        }
    }

    /// Report on the time between `baseline` and `now`, up to which everything is settled.
    pub(crate) fn report(&self, baseline: &Baseline, names: &[String], now: Ns) -> HardwareReport {
        let elapsed = now - baseline.at_ns;
        let nothing = Counted::default();
        let mut all = Counted::default();
        let counted = self.counted();
        let cpus = counted.iter().enumerate().map(|(row, counted)| {
            let counted = counted.since(baseline.counted.get(row).unwrap_or(&nothing));
            all.add(&counted);
            let mean = counted.columns(elapsed);
            let max = self.intervals.of_cpu(row).unwrap_or(&mean).clone();
            CpuReport { mean, max }
        });
        let cpus: Vec<CpuReport> = cpus.collect();
        let mean = all.columns(elapsed * cpus.len() as u64);
        let pick = |row: usize, of_model: bool| {
            let meter = self.meter.as_ref();
            let meter = meter.filter(|meter| meter.is_model() == of_model)?;
            let (mean, max) = meter.watts(now);
            Some(Watts {
                mean: mean[row],
                max: max[row],
            })
        };
        HardwareReport {
            cpus,
            max: self.intervals.of_machine().unwrap_or(&mean).clone(),
            idle_states: names.to_vec(),
            busy_mhz: self.clocks.as_ref().map(|_| mean.busy_mhz),
            package: pick(0, false),
            cores: pick(1, false),
            model: pick(1, true),
        }
    }
}
