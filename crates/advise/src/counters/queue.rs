//! A limited group as a queue: jobs come, as many as there are workers run, and when the period's
//! runtime is used up all wait for the next one.
//!
//! It knows no threads and no CPUs, only what the counters of `cpu.stat` count. Worked example:
//! limit 50 ms in 100 ms, one worker, a job of 80 ms at 10 ms. It runs from 10 to 60 ms, is
//! throttled for 40 ms, and runs from 100 to 130 ms: two periods, one throttled, 40 ms of throttled
//! time, 80 ms used.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use schedcast_kernel::group::BandwidthLimit;

/// A job: when it comes, and how much CPU time it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) at_ns: u64,
    pub(super) work_ns: u64,
}

/// Counters of `cpu.stat` over a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Periods of the window.
    pub nr_periods: u64,
    /// Periods in which the runtime was used up while a job wanted more.
    pub nr_throttled: u64,
    /// Time that queues were throttled, summed over CPUs, in ns.
    pub throttled_ns: u64,
    /// CPU time used, in ns.
    pub usage_ns: u64,
}

struct Queue<'a> {
    coming: &'a [Job],
    /// Work left of jobs that have come; the first `workers` run.
    waiting: VecDeque<u64>,
    workers: usize,
    now_ns: u64,
    counted: Counted,
}

/// Serves `jobs`, which are in order of time, for `window_ns`.
pub(super) fn serve(
    jobs: &[Job],
    workers: usize,
    limit: BandwidthLimit,
    window_ns: u64,
) -> Counted {
    let served = serve_within(jobs, workers, limit, window_ns, 0..=u64::MAX);
    served.unwrap_or_default()
}

/// The same, given up with `None` as soon as the number of throttled periods can no longer lie in
/// `wanted`.
pub(super) fn serve_within(
    jobs: &[Job],
    workers: usize,
    limit: BandwidthLimit,
    window_ns: u64,
    wanted: RangeInclusive<u64>,
) -> Option<Counted> {
    let mut queue = Queue {
        coming: jobs,
        waiting: VecDeque::new(),
        workers,
        now_ns: 0,
        counted: Counted::default(),
    };
    let Some(quota_ns) = limit.quota_ns else {
        queue.run(u64::MAX, window_ns);
        return Some(queue.counted);
    };
    let mut saved_ns = 0;
    while queue.now_ns < window_ns {
        let end_ns = queue.now_ns + limit.period_ns;
        let pool_ns = quota_ns + saved_ns;
        let left_ns = queue.run(pool_ns, end_ns);
        if queue.now_ns < end_ns {
            queue.counted.nr_throttled += 1;
            queue.wait(end_ns);
        }
        queue.counted.nr_periods += 1;
        saved_ns = left_ns.min(limit.burst_ns);
        let left = window_ns.saturating_sub(end_ns).div_ceil(limit.period_ns);
        let throttled = queue.counted.nr_throttled;
        if throttled > *wanted.end() || throttled + left < *wanted.start() {
            return None;
        }
    }
    Some(queue.counted)
}

impl Queue<'_> {
    fn running(&self) -> usize {
        self.waiting.len().min(self.workers)
    }

    fn take_arrivals(&mut self) {
        while let Some((job, rest)) = self.coming.split_first()
            && job.at_ns <= self.now_ns
        {
            self.waiting.push_back(job.work_ns);
            self.coming = rest;
        }
    }

    fn next_arrival_ns(&self) -> u64 {
        self.coming.first().map_or(u64::MAX, |job| job.at_ns)
    }

    /// Runs until `end_ns`, or until `pool_ns` is used up and a job wants more. Gives what is left
    /// of it.
    fn run(&mut self, mut pool_ns: u64, end_ns: u64) -> u64 {
        while self.now_ns < end_ns {
            self.take_arrivals();
            let running = self.running();
            let until_ns = self.next_arrival_ns().min(end_ns) - self.now_ns;
            if running == 0 {
                self.now_ns += until_ns;
                continue;
            }
            let share_ns = pool_ns / running as u64;
            if share_ns == 0 {
                return 0;
            }
            let shortest = self.waiting.iter().take(running).min().copied();
            let step_ns = until_ns.min(share_ns).min(shortest.unwrap_or(u64::MAX));
            for work in self.waiting.iter_mut().take(running) {
                *work -= step_ns;
            }
            // Only those that ran can be done; the backlog behind them may be long.
            for index in (0..running).rev() {
                if self.waiting[index] == 0 {
                    self.waiting.remove(index);
                }
            }
            self.now_ns += step_ns;
            pool_ns -= step_ns * running as u64;
            self.counted.usage_ns += step_ns * running as u64;
        }
        pool_ns
    }

    /// Waits until `end_ns` without running; every worker that has a job counts.
    fn wait(&mut self, end_ns: u64) {
        while self.now_ns < end_ns {
            self.take_arrivals();
            let step_ns = self.next_arrival_ns().min(end_ns) - self.now_ns;
            self.counted.throttled_ns += step_ns * self.running() as u64;
            self.now_ns += step_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn counted(
        jobs: &[(u64, u64)],
        workers: usize,
        quota: u64,
        burst: u64,
    ) -> (u64, u64, u64, u64) {
        let jobs: Vec<Job> = jobs
            .iter()
            .map(|(at, work)| Job {
                at_ns: at * MS,
                work_ns: work * MS,
            })
            .collect();
        let limit = BandwidthLimit::of_ms(quota, 100, burst);
        let counted = serve(&jobs, workers, limit, 300 * MS);
        let ms = |ns: u64| ns / MS;
        (
            counted.nr_periods,
            counted.nr_throttled,
            ms(counted.throttled_ns),
            ms(counted.usage_ns),
        )
    }

    #[test]
    fn periods_by_hand() {
        assert_eq!(counted(&[(10, 80)], 1, 50, 0), (3, 1, 40, 80));
        // Two workers use the 50 ms up at 35 ms, and wait twice 65 ms; the rest of 30 ms is done at
        // 115 ms.
        assert_eq!(counted(&[(10, 40), (10, 40)], 2, 50, 0), (3, 1, 130, 80));
        // The first period saves 30 ms, so that the second has 80 ms.
        assert_eq!(counted(&[(0, 20), (100, 80)], 1, 50, 30), (3, 0, 0, 100));
        assert_eq!(counted(&[(0, 20), (100, 80)], 1, 50, 0), (3, 1, 50, 100));
        assert_eq!(counted(&[(0, 50)], 1, 50, 0), (3, 0, 0, 50), "just enough");
    }

    /// Three periods. A hog is throttled in each, an idle group in none: more than what is wanted
    /// ends the run, as does less than what is left can make up for.
    #[test]
    fn a_run_ends_as_soon_as_its_throttled_periods_cannot_match() {
        let throttled = |work_ms: u64, wanted: RangeInclusive<u64>| {
            let jobs = [Job {
                at_ns: 0,
                work_ns: work_ms * MS,
            }];
            let limit = BandwidthLimit::of_ms(50, 100, 0);
            let counted = serve_within(&jobs, 1, limit, 300 * MS, wanted);
            counted.map(|counted| counted.nr_throttled)
        };
        assert_eq!(throttled(1000, 3..=3), Some(3));
        assert_eq!(throttled(1000, 0..=2), None);
        assert_eq!(throttled(1, 0..=0), Some(0));
        assert_eq!(throttled(1, 1..=3), None);
    }
}
