//! The highest value that each of turbostat's columns shows in any interval.
//!
//! Intervals have one length and follow each other from where statistics begin. Counts are brought
//! to the end of an interval before anything changes behind it, so a value is that of exactly its
//! interval; one that is not over yet does not count.
//!
//! Worked example: intervals of 10 ms, a CPU that is awake from 4 to 12 ms, at 3000 MHz until 9 ms
//! and at 1000 MHz since. The first interval has it awake for 6 ms (Busy% 60) with 5 · 3000 + 1 ·
//! 1000 = 16,000 MHz · ms (Bzy_MHz 2667), the second for 2 ms (20) with 2000 (1000). It is over at
//! 20 ms: the highest are 60 % and 2667 MHz, while the means are 40 % and 2250 MHz.

use super::Hardware;
use super::report::Columns;
use crate::machine::Machine;
use schedcast_kernel::Ns;

/// Length where power is not modelled, which gives it otherwise: turbostat's default.
pub(super) const TURBOSTAT_INTERVAL_NS: Ns = 5_000_000_000;

/// Counts of a CPU, or of all together.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub awake_ns: Ns,
    /// MHz · ns while awake.
    pub cycles: u64,
    /// By idle state.
    pub residency_ns: Vec<Ns>,
}

impl Counted {
    /// Counted since `earlier`, which is all zeros when it names no states.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let states = self.residency_ns.iter().enumerate();
        let residency_ns =
            states.map(|(row, ns)| ns - earlier.residency_ns.get(row).copied().unwrap_or(0));
        Self {
            awake_ns: self.awake_ns - earlier.awake_ns,
            cycles: self.cycles.wrapping_sub(earlier.cycles),
            residency_ns: residency_ns.collect(),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.awake_ns += other.awake_ns;
        self.cycles += other.cycles;
        self.residency_ns.resize(other.residency_ns.len(), 0);
        for (sum, ns) in self.residency_ns.iter_mut().zip(&other.residency_ns) {
            *sum += ns;
        }
    }

    /// As turbostat shows it, counted in `time_ns` of CPU time.
    pub(super) fn columns(&self, time_ns: Ns) -> Columns {
        let time_ns = time_ns.max(1) as f64;
        let states = self.residency_ns.iter();
        Columns {
            busy: self.awake_ns as f64 / time_ns,
            busy_mhz: self.cycles as f64 / self.awake_ns.max(1) as f64,
            residency: states.map(|&ns| ns as f64 / time_ns).collect(),
        }
    }
}

/// The interval that is being counted, and the highest values of those before.
#[derive(Clone, Debug, Default)]
pub(super) struct Intervals {
    /// When the present one is over.
    pub end_ns: Ns,
    length_ns: Ns,
    complete: u64,
    /// By CPU.
    at_begin: Vec<Counted>,
    most: Vec<Columns>,
    most_of_machine: Columns,
}

impl Intervals {
    pub(super) fn new(machine: &Machine) -> Self {
        let length_ns = machine
            .power
            .as_ref()
            .map_or(TURBOSTAT_INTERVAL_NS, |power| power.interval_ns);
        Self {
            end_ns: length_ns,
            length_ns,
            ..Self::default()
        }
    }

    /// The first one begins now, with these counts.
    pub(super) fn reset(&mut self, counted: Vec<Counted>, now: Ns) {
        self.end_ns = now + self.length_ns;
        self.complete = 0;
        self.most = vec![Columns::default(); counted.len()];
        self.most_of_machine = Columns::default();
        self.at_begin = counted;
    }

    /// The present one is over, with these counts.
    fn finish(&mut self, counted: Vec<Counted>) {
        let mut machine = Counted::default();
        for (row, (now, begin)) in counted.iter().zip(&self.at_begin).enumerate() {
            let of_cpu = now.since(begin);
            machine.add(&of_cpu);
            self.most[row].raise(&of_cpu.columns(self.length_ns));
        }
        let cpu_time_ns = self.length_ns * counted.len() as u64;
        self.most_of_machine.raise(&machine.columns(cpu_time_ns));
        self.at_begin = counted;
        self.complete += 1;
        self.end_ns += self.length_ns;
    }

    /// The highest values of a CPU; `None` before an interval is over.
    pub(super) fn of_cpu(&self, row: usize) -> Option<&Columns> {
        self.most.get(row).filter(|_| self.complete > 0)
    }

    /// The highest values of all CPUs together.
    pub(super) fn of_machine(&self) -> Option<&Columns> {
        (self.complete > 0).then_some(&self.most_of_machine)
    }
}

impl Hardware {
    /// Notes what was counted in the intervals that are over. Comes before anything is counted up
    /// to `now`.
    #[inline(always)]
    pub(super) fn close_intervals(&mut self, now: Ns) {
        if self.intervals.end_ns <= now {
            self.finish_intervals(now);
        }
    }

    #[inline(never)]
    fn finish_intervals(&mut self, now: Ns) {
        while self.intervals.end_ns <= now {
            let end = self.intervals.end_ns;
            for row in 0..self.threads.len() {
                self.account(row, end);
            }
            if let Some(meter) = &mut self.meter {
                meter.finish_interval(end);
            }
            self.intervals.finish(self.counted());
        }
    }

    /// Counts of every CPU.
    pub(super) fn counted(&self) -> Vec<Counted> {
        let threads = self.threads.iter().map(|thread| Counted {
            awake_ns: thread.awake_ns,
            cycles: thread.cycles,
            residency_ns: thread.residency_ns.clone(),
        });
        threads.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    fn counted(awake_ms: u64, mhz_ms: u64, asleep_ms: [u64; 2]) -> Counted {
        Counted {
            awake_ns: awake_ms * MS,
            cycles: mhz_ms * MS,
            residency_ns: asleep_ms.map(|ms| ms * MS).to_vec(),
        }
    }

    fn intervals() -> Intervals {
        Intervals {
            length_ns: 10 * MS,
            ..Intervals::default()
        }
    }

    #[test]
    fn worked_example_of_the_module_docs() {
        let mut intervals = intervals();
        intervals.reset(vec![counted(0, 0, [0, 0])], 0);
        intervals.finish(vec![counted(6, 16_000, [4, 0])]);
        intervals.finish(vec![counted(8, 18_000, [4, 8])]);
        let most = intervals.of_cpu(0).unwrap();
        assert_eq!((most.busy, most.busy_mhz), (0.6, 16_000.0 / 6.0));
        assert_eq!(most.residency, [0.4, 0.8]);
        let mean = counted(8, 18_000, [4, 8]).columns(20 * MS);
        assert_eq!((mean.busy, mean.busy_mhz), (0.4, 2250.0));
    }

    #[test]
    fn each_column_of_the_machine_is_highest_where_its_cpus_together_are() {
        let mut intervals = intervals();
        let begin = vec![counted(5, 5000, [5, 0]), counted(7, 7000, [0, 3])];
        intervals.reset(begin, 30 * MS);
        assert!(intervals.of_machine().is_none() && intervals.of_cpu(0).is_none());
        assert_eq!(intervals.end_ns, 40 * MS);
        // CPU 0 awake for 10 ms at 1000 MHz, CPU 1 never; then 2 ms and 4 ms at 3000 MHz.
        intervals.finish(vec![counted(15, 15_000, [5, 0]), counted(7, 7000, [0, 13])]);
        intervals.finish(vec![
            counted(17, 21_000, [13, 0]),
            counted(11, 19_000, [6, 13]),
        ]);
        let most = intervals.of_machine().unwrap();
        assert_eq!((most.busy, most.busy_mhz), (0.5, 3000.0));
        assert_eq!(most.residency, [0.7, 0.5]);
        let of_second = intervals.of_cpu(1).unwrap();
        assert_eq!((of_second.busy, of_second.busy_mhz), (0.4, 3000.0));
        assert_eq!(of_second.residency, [0.6, 1.0]);
        assert_eq!(intervals.end_ns, 60 * MS);
    }
}
