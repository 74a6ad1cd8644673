//! Demand of a group in each of its periods: the CPU time its threads would have used had none of
//! them ever waited.
//!
//! A thread that is woken at 10 ms and uses 40 ms of CPU time until it blocks wants the CPU from 10
//! to 50 ms, however long it really takes. One that is still awake when the run ends wants it up to
//! the end.
//!
//! Worked example: periods end at 100 and 200 ms, the limit is 30 ms of each. Work of 40 ms, wanted
//! from 80 ms on, is 20 ms in the first and 20 ms in the second period; the group was allowed both,
//! and throttled in none. Wanted at 10 ms it is 40 ms in the first and nothing in the second, and a
//! quarter of it has to wait.

use schedcast_kernel::Ns;

/// Sums of what was wanted between expiries of a period timer.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// Ends of the rows that are closed; what is before the first one is in no row.
    ends_ns: Vec<Ns>,
    /// Demand from each end to the next, and last the demand since the last end, ns.
    sums_ns: Vec<Ns>,
}

impl Demand {
    /// CPU time was wanted all the time from `from` to `to`, which is not in the future.
    pub(super) fn add(&mut self, from: Ns, to: Ns) {
        self.sums_ns.resize(self.ends_ns.len() + 1, 0);
        let first = self.ends_ns.partition_point(|end| *end <= from);
        let mut since = from;
        for row in first..self.ends_ns.len() {
            let until = self.ends_ns[row].min(to);
            self.sums_ns[row] += until.saturating_sub(since);
            since = since.max(until);
        }
        self.sums_ns[self.ends_ns.len()] += to.saturating_sub(since);
    }

    /// A row ends at `at`.
    pub(super) fn close(&mut self, at: Ns) {
        self.sums_ns.resize(self.ends_ns.len() + 1, 0);
        self.ends_ns.push(at);
        self.sums_ns.push(0);
    }

    /// Two rows become one.
    pub(super) fn halve(&mut self) {
        let Some((first, rows)) = self.ends_ns.split_first() else {
            return;
        };
        let (before, sums) = (self.sums_ns[0], &self.sums_ns[1..=rows.len()]);
        let open = self.sums_ns[rows.len() + 1];
        let ends = rows.chunks(2).map(|pair| pair[pair.len() - 1]);
        let ends_ns = std::iter::once(*first).chain(ends).collect();
        let pairs = sums.chunks(2).map(|pair| pair.iter().sum());
        self.sums_ns = std::iter::once(before).chain(pairs).chain([open]).collect();
        self.ends_ns = ends_ns;
    }

    /// The rows between the first end and the last, ns.
    pub(crate) fn rows_ns(&self) -> &[Ns] {
        match self.ends_ns.len() {
            0 => &[],
            ends => &self.sums_ns[1..ends],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example_of_the_module() {
        let wanted = |from: Ns| {
            let mut demand = Demand::default();
            demand.add(0, 5);
            for end in [0, 100, 200] {
                demand.close(end);
            }
            demand.add(from, from + 40);
            demand.rows_ns().to_vec()
        };
        assert_eq!(wanted(80), [20, 20]);
        assert_eq!(wanted(10), [40, 0]);
        assert_eq!(
            wanted(190),
            [0, 10],
            "the rest belongs to a row that is not over"
        );
    }

    #[test]
    fn pairs_of_rows_keep_their_sum() {
        let mut demand = Demand::default();
        for end in [10, 20, 30, 40, 50] {
            demand.close(end);
        }
        demand.add(0, 60);
        demand.add(25, 35);
        assert_eq!(demand.rows_ns(), [10, 15, 15, 10]);
        demand.halve();
        assert_eq!(demand.rows_ns(), [25, 25]);
        demand.close(60);
        assert_eq!(demand.rows_ns(), [25, 25, 10]);
        demand.add(45, 55);
        assert_eq!(
            demand.rows_ns(),
            [25, 30, 15],
            "half is in the second, half in the third"
        );
    }
}
