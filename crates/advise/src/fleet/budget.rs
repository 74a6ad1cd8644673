//! CPUs of limits, given where they save most.
//!
//! A raise has steps: a quarter, half, three quarters and all of the way to what is enough. Of each
//! is known what it costs (CPUs of limit) and what it saves at least (CPUs of throttled time: what
//! was counted, less the most that any matching demand would still count). The step that saves most
//! for a CPU is given first, until the budget is used up.
//!
//! Worked example: budget 1 CPU. The web server loses 0.8 CPUs, and half a CPU more saves 0.6 of
//! them; the indexer loses 0.3, and half a CPU saves 0.2. The web server gets its half first (1.2
//! saved for each CPU given), then the indexer (0.4).

use super::Row;
use schedcast_kernel::group::BandwidthLimit;

/// A step of a raise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) limit: BandwidthLimit,
    /// Cost of the step in CPUs, from the limit that is in force.
    pub(super) cpus: f64,
    /// Throttled time that it saves, in CPUs.
    pub(super) saved_cpus: f64,
}

/// Share of the budget for a container.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Given {
    /// Its new limit.
    pub limit: BandwidthLimit,
    /// CPUs of limit that it costs.
    pub cpus: f64,
    /// Throttled time that it saves at least, in CPUs.
    pub saved_cpus: f64,
}

/// Gives `budget_cpus` to the rows, whose steps are in the same order.
pub(super) fn give(rows: &mut [Row], steps: &[Vec<Step>], budget_cpus: f64) {
    let mut left = budget_cpus;
    loop {
        let worth = |from: Option<Given>, to: &Step| {
            let (cpus, saved) = from.map_or((0.0, 0.0), |given| (given.cpus, given.saved_cpus));
            let (more, saves) = (to.cpus - cpus, to.saved_cpus - saved);
            (more > 0.0 && more <= left && saves > 0.0).then(|| saves / more)
        };
        let all = rows.iter().zip(steps).enumerate();
        let open = all.flat_map(|(index, (row, steps))| {
            let given = row.given;
            let known = steps
                .iter()
                .filter_map(move |step| Some((worth(given, step)?, index, *step)));
            known.collect::<Vec<_>>()
        });
        // Of equals the first: the order of the rows is that of their labels.
        let best = open.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some((_, index, step)) = best else {
            return;
        };
        let before = rows[index].given.map_or(0.0, |given| given.cpus);
        left -= step.cpus - before;
        rows[index].given = Some(Given {
            limit: step.limit,
            cpus: step.cpus,
            saved_cpus: step.saved_cpus,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each quarter of a CPU saves less than the one before; a CPU buys all four, and what is left
    /// is known after each.
    #[test]
    fn what_was_given_before_is_not_paid_again() {
        let limit = |quota_ns| BandwidthLimit {
            quota_ns: Some(quota_ns),
            period_ns: 100_000_000,
            burst_ns: 0,
        };
        let saved = [0.5, 0.875, 1.125, 1.25];
        let steps: Vec<Step> = (1u64..)
            .zip(saved)
            .map(|(quarters, saved_cpus)| Step {
                limit: limit(50_000_000 + quarters * 25_000_000),
                cpus: quarters as f64 / 4.0,
                saved_cpus,
            })
            .collect();
        for (budget_cpus, quarters) in [(0.2, 0), (0.25, 1), (0.7, 2), (0.75, 3), (1.0, 4)] {
            let mut rows = [Row::limited(limit(50_000_000))];
            give(&mut rows, std::slice::from_ref(&steps), budget_cpus);
            let given = rows[0].given.map_or(0.0, |given| given.cpus);
            assert_eq!(given * 4.0, f64::from(quarters), "{budget_cpus}");
        }
    }
}
