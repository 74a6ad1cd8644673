//! Time that the hypervisor took, taken out of the work.
//!
//! While another guest has the physical CPU, the clock of a virtual one goes on: the trace shows a
//! task that executes, and it does not. The kernel knows better (`update_rq_clock_task` takes steal
//! time off before any task is charged), so that stolen time delays a request and costs its group
//! nothing. Replayed as work it would be charged to the quota.
//!
//! A recording says how much was stolen in all (`steal_ratio`), not where. It is looked for where
//! it shows: in requests of one kind that take longer than others of that kind do. Requests are
//! taken in rows of [`ROW`], in the order in which they began; over a row their different sizes
//! average out. The excess of a row's mean over a *level* was stolen from its requests, from each
//! the same share of its time. The level is the lowest one at which the excess does not exceed the
//! stolen total, but not below the dearest row of the cheapest quarter, which is taken to be
//! undisturbed. The remainder of the total was stolen from CPUs that left idle, or from other
//! threads.
//!
//! # Worked example
//!
//! `recordings/postgres-nolimit` lost 2.7 % of 2 × 29.5 s, 1.61 s. A quarter of its rows of 32
//! requests take up to 8.9 ms a request, those of the last seconds up to 12.4 ms. Above 8.9 ms they
//! are less than a second in all, so that is the level. A request of 12 ms in a row of 12 ms on
//! average becomes 8.9 ms of work and 3.1 ms in which its CPU is away.

use super::Replay;
use super::model::{ActivationId, Step};

/// Requests in a row.
const ROW: usize = 32;
/// One row in this many, the cheapest, is taken to be undisturbed.
const UNDISTURBED_ONE_IN: usize = 4;

/// Moves stolen time out of the work of servers of exchanges. Returns how much, ns.
pub(super) fn take_out(replay: &mut Replay, steal_ratio: Option<f64>) -> u64 {
    let machine_ns = replay.duration_ns as f64 * f64::from(replay.cpus);
    let ratio = steal_ratio.filter(|ratio| (0.0..1.0).contains(ratio));
    let mut left_ns = (ratio.unwrap_or(0.0) * machine_ns) as u64;
    let mut taken = vec![0u64; replay.activations.len()];
    for exchange in &replay.exchanges {
        let mut requests: Vec<ActivationId> = exchange.requests.iter().map(|r| r.request).collect();
        let begun_ns = |id: &ActivationId| {
            let activation = &replay.activations[id.index()];
            (activation.first_run_ns.unwrap_or(activation.woken_ns), *id)
        };
        requests.sort_by_key(begun_ns);
        left_ns -= from_rows(replay, &requests, left_ns, &mut taken);
    }
    let total_ns = taken.iter().sum();
    if total_ns > 0 {
        split_steps(replay, &taken);
    }
    total_ns
}

/// Takes up to `stolen_ns` from the rows of `requests`; what each gives is written to `taken`.
fn from_rows(replay: &Replay, requests: &[ActivationId], stolen_ns: u64, taken: &mut [u64]) -> u64 {
    let work_ns = |id: &ActivationId| replay.activations[id.index()].executed_ns;
    // The mean of a last row that is not full is too uncertain.
    let rows: Vec<&[ActivationId]> = requests.chunks_exact(ROW).collect();
    let means_ns: Vec<u64> = rows
        .iter()
        .map(|row| row.iter().map(work_ns).sum::<u64>() / ROW as u64)
        .collect();
    let mut ascending_ns = means_ns.clone();
    ascending_ns.sort_unstable();
    let Some(&undisturbed_ns) = ascending_ns.get(means_ns.len() / UNDISTURBED_ONE_IN) else {
        return 0;
    };
    let level_ns = level(&means_ns, undisturbed_ns, stolen_ns / ROW as u64);
    let mut sum_ns = 0;
    for (row, mean_ns) in rows.iter().zip(&means_ns) {
        let over_ns = mean_ns.saturating_sub(level_ns);
        for id in *row {
            let part =
                u128::from(work_ns(id)) * u128::from(over_ns) / u128::from((*mean_ns).max(1));
            taken[id.index()] = part as u64;
            sum_ns += part as u64;
        }
    }
    sum_ns.min(stolen_ns)
}

/// The lowest level from `least` on that the values exceed by no more than `most` in sum.
fn level(values: &[u64], least: u64, most: u64) -> u64 {
    let mut descending = values.to_vec();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    let (mut sum, mut level) = (0u64, least);
    for (count, value) in (1u64..).zip(&descending) {
        sum += value;
        // With the largest `count` values above it: count · level = sum − most.
        level = sum.saturating_sub(most).div_ceil(count).max(least);
        let next = descending.get(count as usize).copied().unwrap_or(0);
        if level >= next {
            break;
        }
    }
    level
}

/// Cuts the runs of activations in two, with the CPU away in between.
fn split_steps(replay: &mut Replay, taken: &[u64]) {
    let mut steps = Vec::with_capacity(replay.steps.len());
    for (activation, taken_ns) in replay.activations.iter_mut().zip(taken) {
        let range = activation.steps.start as usize..activation.steps.end as usize;
        let from = steps.len() as u32;
        let own = &replay.steps[range];
        let run_ns = |step: &Step| match step {
            Step::Run { work_ns } => *work_ns,
            _ => 0,
        };
        let all_ns: u64 = own.iter().map(run_ns).sum();
        for step in own {
            match *step {
                Step::Run { work_ns } if *taken_ns > 0 && all_ns > 0 => {
                    let share = u128::from(work_ns) * u128::from(*taken_ns) / u128::from(all_ns);
                    let stolen_ns = (share as u64).min(work_ns);
                    let rest_ns = work_ns - stolen_ns;
                    let half_ns = rest_ns / 2;
                    let parts = [
                        Step::Run { work_ns: half_ns },
                        Step::Stolen { stolen_ns },
                        Step::Run {
                            work_ns: rest_ns - half_ns,
                        },
                    ];
                    let empty = |part: &Step| {
                        matches!(
                            part,
                            Step::Run { work_ns: 0 } | Step::Stolen { stolen_ns: 0 }
                        )
                    };
                    steps.extend(parts.into_iter().filter(|part| !empty(part)));
                }
                step => steps.push(step),
            }
        }
        activation.steps = from..steps.len() as u32;
    }
    replay.steps = steps;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_takes_no_more_than_there_is() {
        let rows = [10, 16, 10, 12];
        assert_eq!(level(&rows, 10, 100), 10, "all that shows");
        assert_eq!(level(&rows, 10, 0), 16, "nothing was stolen");
        assert_eq!(level(&rows, 10, 3), 13);
        // 16 and 12 above 11 are 6 in sum.
        assert_eq!(level(&rows, 10, 6), 11);
        assert_eq!(level(&rows, 10, 5), 12, "rounded up: 16 above 12 are 4");
    }
}
