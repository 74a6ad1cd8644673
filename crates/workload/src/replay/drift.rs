//! How much the work of a request drifted while it was recorded.
//!
//! A shared machine is faster at one time than at another: clocks, caches and other guests change
//! over seconds. The same 190 requests of PostgreSQL took 5.4 to 7.5 ms of CPU time each in twelve
//! runs of 5 s, one after the other, with or without a limit, recorded or not, while the hypervisor
//! took nothing. A forecast for another time must allow for that.
//!
//! The requests of a group are divided into windows of equal number, whose mean CPU times are
//! compared. Requests differ among themselves too: what that contributes to the spread of the means
//! is not drift and is subtracted. Worked example: 8 windows of 50 requests take 5.0, 5.0, 5.2,
//! 5.4, 6.0, 6.2, 6.4 and 6.8 ms each in the mean, so 5.75 with a deviation of 0.69. Requests of
//! one window deviate by 1.0 ms, which moves a mean of 50 by 0.14. The rest is √(0.69² − 0.14²) =
//! 0.68 ms, a drift of 118 ‰.

use super::Replay;
use super::groups::GroupIndex;

/// Windows that a recording is cut into.
const WINDOWS: usize = 8;
/// Requests that a window needs for its mean to say something.
const LEAST: usize = 16;

impl Replay {
    /// Deviation of a request's CPU time between windows of the recording, in thousandths of its
    /// mean; requests are the activations of those threads of `group` whose figures are kept under
    /// `subject`. 0 where there are too few to tell.
    pub fn drift_permille(&self, group: GroupIndex, subject: &str) -> u64 {
        let members = self.members(group).into_iter();
        let own = members.filter(|id| self.threads[id.index()].subject == subject);
        let mut requests: Vec<(u64, u64)> = own
            .flat_map(|id| self.activations_of(id))
            .filter(|one| one.end_ns.is_some() && one.executed_ns > 0)
            .map(|one| (one.woken_ns, one.executed_ns))
            .collect();
        requests.sort_unstable();
        let work: Vec<f64> = requests.iter().map(|&(_, ns)| ns as f64).collect();
        between_windows(&work)
    }
}

/// Mean and variance of these values.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values
        .iter()
        .map(|value| (value - mean) * (value - mean))
        .sum();
    (mean, squares / (count - 1.0).max(1.0))
}

fn between_windows(work: &[f64]) -> u64 {
    let each = work.len() / WINDOWS;
    if each < LEAST {
        return 0;
    }
    let windows: Vec<(f64, f64)> = work.chunks_exact(each).take(WINDOWS).map(moments).collect();
    let means: Vec<f64> = windows.iter().map(|&(mean, _)| mean).collect();
    let (mean, between) = moments(&means);
    let within = windows.iter().map(|&(_, variance)| variance).sum::<f64>() / WINDOWS as f64;
    let drift = (between - within / each as f64).max(0.0).sqrt();
    (drift / mean * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` requests around `mean`, ms, that deviate by about 1 ms.
    fn window(mean: f64, count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(move |number| mean + [-1.0, 1.0][number % 2])
    }

    #[test]
    fn the_worked_example() {
        let means = [5.0, 5.0, 5.2, 5.4, 6.0, 6.2, 6.4, 6.8];
        let work: Vec<f64> = means
            .into_iter()
            .flat_map(|mean| window(mean, 50))
            .collect();
        assert_eq!(between_windows(&work), 118);
    }

    #[test]
    fn requests_that_differ_do_not_drift() {
        let alike: Vec<f64> = (0..8).flat_map(|_| window(5.0, 50)).collect();
        assert_eq!(between_windows(&alike), 0);
        let few: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(between_windows(&few), 0, "12 a window");
    }
}
