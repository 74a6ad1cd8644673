//! The tick as a spinning task feels it.
//!
//! A loop that does nothing but read the clock notices every interruption as a gap between two
//! readings. Ticks are the gaps that return on a fixed grid; everything else (device interrupts,
//! stolen time) is not. With HZ=250 the grid is 4 ms, and a CPU whose gaps end at 4 002 µs, 8
//! 002 µs, 9 140 µs, 12 003 µs has the phase 2 µs, three ticks and one stranger.

use std::io;
use std::thread;

use schedcast_base::quantile::{MEDIAN, nearest_rank};

use crate::sys;

/// One interruption of a spinning task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// When the task was back, `CLOCK_MONOTONIC` ns.
    pub end_ns: u64,
    /// How long it was away, ns (with one reading of the clock).
    pub length_ns: u64,
}

/// Spins on the calling thread for `duration_ns` and returns every gap of at least `threshold_ns`.
fn spin_gaps(duration_ns: u64, threshold_ns: u64) -> Vec<Gap> {
    let mut gaps = Vec::with_capacity(1 << 16);
    let start_ns = sys::monotonic_ns();
    let mut last_ns = start_ns;
    while last_ns - start_ns < duration_ns {
        let now_ns = sys::monotonic_ns();
        let length_ns = now_ns - last_ns;
        if length_ns >= threshold_ns {
            gaps.push(Gap {
                end_ns: now_ns,
                length_ns,
            });
        }
        last_ns = now_ns;
    }
    gaps
}

/// Spins on several CPUs at the same time; one list of gaps for each CPU, in the order given.
pub(crate) fn spin_gaps_on(
    cpus: &[usize],
    duration_ns: u64,
    threshold_ns: u64,
) -> io::Result<Vec<Vec<Gap>>> {
    thread::scope(|scope| {
        let spinners: Vec<_> = cpus
            .iter()
            .map(|cpu| {
                scope.spawn(move || {
                    sys::pin_thread(&[*cpu])?;
                    Ok(spin_gaps(duration_ns, threshold_ns))
                })
            })
            .collect();
        spinners
            .into_iter()
            .map(|spinner| spinner.join().expect("the spinner does not panic"))
            .collect()
    })
}

/// The grid of ticks found among gaps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TickFit {
    /// Where in the tick period the gaps begin, ns: median of the ticks.
    pub phase_ns: u64,
    /// Lengths of the ticks, ns.
    pub lengths_ns: Vec<f64>,
    /// Grid points in the time observed.
    pub expected: usize,
}

/// Bins in which the phase is looked for.
const BIN_NS: u64 = 20_000;

/// Finds the grid of period `tick_ns` on which most gaps begin; `None` without gaps.
pub(crate) fn fit_ticks(gaps: &[Gap], tick_ns: u64) -> Option<TickFit> {
    let begin = |gap: &Gap| gap.end_ns - gap.length_ns;
    let bins = tick_ns.div_ceil(BIN_NS) as usize;
    let mut counts = vec![0usize; bins];
    for gap in gaps {
        counts[(begin(gap) % tick_ns / BIN_NS) as usize] += 1;
    }
    let best = (0..bins).max_by_key(|bin| (counts[*bin], bins - bin))?;
    let center_ns = best as u64 * BIN_NS + BIN_NS / 2;
    // Distance from the bin's centre around the circle, as a signed number.
    let offset_ns = |gap: &Gap| {
        let shifted = (begin(gap) % tick_ns + tick_ns + tick_ns / 2 - center_ns) % tick_ns;
        shifted as i64 - (tick_ns / 2) as i64
    };
    let on_grid = |gap: &&Gap| offset_ns(gap).unsigned_abs() <= 2 * BIN_NS;
    let ticks: Vec<&Gap> = gaps.iter().filter(on_grid).collect();
    let mut offsets: Vec<i64> = ticks.iter().map(|gap| offset_ns(gap)).collect();
    offsets.sort_unstable();
    let middle = nearest_rank(&offsets, MEDIAN)?;
    let (first, last) = (begin(ticks[0]), begin(ticks[ticks.len() - 1]));
    Some(TickFit {
        phase_ns: (center_ns as i64 + middle).rem_euclid(tick_ns as i64) as u64,
        lengths_ns: ticks.iter().map(|gap| gap.length_ns as f64).collect(),
        expected: ((last - first + tick_ns / 2) / tick_ns) as usize + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(begin_us: u64, length_us: u64) -> Gap {
        Gap {
            end_ns: (begin_us + length_us) * 1_000,
            length_ns: length_us * 1_000,
        }
    }

    #[test]
    fn the_modules_example() {
        let gaps = [gap(4_000, 2), gap(8_000, 2), gap(9_130, 10), gap(12_001, 2)];
        let fit = fit_ticks(&gaps, 4_000_000).unwrap();
        assert_eq!(fit.phase_ns, 0);
        assert_eq!(fit.lengths_ns, [2_000.0; 3]);
        assert_eq!(fit.expected, 3);
        assert_eq!(fit_ticks(&[], 4_000_000), None);
    }

    #[test]
    fn a_phase_around_zero_is_one_grid() {
        let gaps = [gap(3_999, 2), gap(8_001, 2), gap(11_998, 2), gap(16_002, 2)];
        let fit = fit_ticks(&gaps, 4_000_000).unwrap();
        assert_eq!(fit.lengths_ns.len(), 4);
        assert!(
            fit.phase_ns <= 2_000 || fit.phase_ns >= 3_998_000,
            "{}",
            fit.phase_ns
        );
    }

    #[test]
    fn spinning_sees_time_pass() {
        let gaps = spin_gaps_on(&[0], 3_000_000, 0).unwrap();
        assert!(!gaps[0].is_empty());
        assert!(
            gaps[0]
                .windows(2)
                .all(|pair| pair[0].end_ns <= pair[1].end_ns)
        );
    }
}
