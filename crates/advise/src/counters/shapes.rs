//! The family of demand shapes: jobs of some size that come singly or in bunches, for some number
//! of workers.
//!
//! Arrivals are independent (times drawn evenly over the window, which is a Poisson process of a
//! known number of arrivals), or regular, as those of timers and of very many small requests are. A
//! tail makes one job in ten ten times as large as the others.

use schedcast_sim::random::SplitMix;

use super::queue::Job;

/// One shape of demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) mean_work_ns: u64,
    pub(super) has_tail: bool,
    /// Bunches come at equal distances, not independently of each other.
    pub(super) is_regular: bool,
    /// Jobs that come at once.
    pub(super) bunch: u64,
    pub(super) workers: usize,
}

const MS: u64 = 1_000_000;
const MEAN_WORK_NS: [u64; 8] = [
    MS,
    3 * MS,
    8 * MS,
    20 * MS,
    50 * MS,
    120 * MS,
    300 * MS,
    800 * MS,
];
const BUNCHES: [u64; 3] = [1, 4, 16];
/// Work that comes at once, of which a period of 100 ms sees ten or more, and fewer than two.
const LITTLE_NS: u64 = 8 * MS;
const MUCH_NS: u64 = 50 * MS;
const TAIL_ONE_IN: u64 = 10;
const TAIL_FACTOR: u64 = 10;

/// With and without a tail, and independent or regular: large and small jobs at equal distances are
/// neither.
const KINDS: [(bool, bool); 3] = [(false, false), (true, false), (false, true)];
/// Workers more than these make no other demand.
const WORKERS_MAX: usize = 64;

/// All shapes for a machine of this many CPUs.
pub(super) fn family(cpus: usize) -> Vec<Shape> {
    let most = cpus.clamp(1, WORKERS_MAX);
    let mut workers: Vec<usize> = std::iter::successors(Some(1), |last| Some(last * 4))
        .take_while(|workers| *workers < most)
        .collect();
    workers.push(most);
    let mut shapes = Vec::new();
    for mean_work_ns in MEAN_WORK_NS {
        for (has_tail, is_regular) in KINDS {
            for bunch in BUNCHES {
                for &workers in &workers {
                    shapes.push(Shape {
                        mean_work_ns,
                        has_tail,
                        is_regular,
                        bunch,
                        workers,
                    });
                }
            }
        }
    }
    shapes
}

/// A stream of random numbers, the same on every machine.
pub(super) struct Stream(pub(super) SplitMix);

impl Stream {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next()) * u128::from(bound)) >> 64) as u64
    }
}

impl Shape {
    /// How many demands of this shape are drawn: of few large jobs each draw is another demand, of
    /// many small ones all are alike.
    pub(super) fn draws(&self) -> u64 {
        let together_ns = self.mean_work_ns * self.bunch;
        if together_ns <= LITTLE_NS {
            1
        } else if together_ns <= MUCH_NS {
            3
        } else {
            6
        }
    }

    /// Jobs of `demand_ns` CPU time together, over a window.
    pub(super) fn jobs(&self, demand_ns: u64, window_ns: u64, random: &mut Stream) -> Vec<Job> {
        // With a tail the mean is (9 × 1 + 1 × 10) / 10 = 1.9 times the small size.
        let small_ns = if self.has_tail {
            self.mean_work_ns * TAIL_ONE_IN / (TAIL_ONE_IN - 1 + TAIL_FACTOR)
        } else {
            self.mean_work_ns
        };
        let bunches = (demand_ns / self.mean_work_ns / self.bunch).max(1);
        let distance_ns = window_ns / bunches;
        let first_ns = random.below(distance_ns);
        let time = |index: u64| match self.is_regular {
            true => first_ns + index * distance_ns,
            false => random.below(window_ns),
        };
        let mut times: Vec<u64> = (0..bunches).map(time).collect();
        times.sort_unstable();
        let mut jobs = Vec::with_capacity((bunches * self.bunch) as usize);
        for at_ns in times {
            for _ in 0..self.bunch {
                let is_large = self.has_tail && random.below(TAIL_ONE_IN) == 0;
                // Half to one and a half times the size, so that periods do not beat with it.
                let size_ns = small_ns * if is_large { TAIL_FACTOR } else { 1 };
                let work_ns = size_ns / 2 + random.below(size_ns.max(1)) + 1;
                jobs.push(Job { at_ns, work_ns });
            }
        }
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_what_was_asked_for() {
        for shape in family(8) {
            let window_ns = 1000 * 1000 * MS;
            let jobs = shape.jobs(window_ns / 2, window_ns, &mut Stream(SplitMix(1)));
            let demand: u64 = jobs.iter().map(|job| job.work_ns).sum();
            let share = demand as f64 / window_ns as f64;
            assert!((0.35..0.65).contains(&share), "{shape:?}: {share}");
            assert!(jobs.is_sorted_by_key(|job| job.at_ns));
        }
    }

    #[test]
    fn a_family_has_independent_heavy_tailed_and_regular_arrivals() {
        let kinds = |shape: &Shape| (shape.has_tail, shape.is_regular);
        let mut found: Vec<_> = family(1).iter().map(kinds).collect();
        found.sort_unstable();
        let of_each = MEAN_WORK_NS.len() * BUNCHES.len();
        let wanted = [(false, false), (false, true), (true, false)].map(|kind| [kind; 24]);
        assert_eq!(of_each, 24);
        assert_eq!(found, wanted.concat());
    }
}
