//! Numbers of a domain that an administrator can set (`domains/cpu*/domain*/` in debugfs).
//!
//! Worked example: on 6.18 a cache of 8 CPUs has an imbalance of 117 %, one attempt that spares hot
//! tasks, and intervals of 8 to 16 ms, 16 times as long while its CPU is busy. With
//! `domains.MC.busy_factor = 4` the last number is 4, at this level of every CPU, and the others
//! stay.

use super::{BalanceRules, Domains, Level};
use crate::rules::Rules;
use crate::topology::Topology;

/// Rows of [`BalanceRules::knobs`].
pub(super) const LEVELS: usize = 6;

/// Names of the levels of a machine's domains, bottom-up (`domains/cpu*/domain*/name`).
pub fn level_names(topology: &Topology, rules: &Rules) -> Vec<&'static str> {
    const NAMES: [&str; LEVELS] = ["SMT", "CLS", "MC", "PKG", "NODE", "NUMA"];
    let domains = super::build::build(topology, rules).domains;
    let has = |row: usize| (0..domains.len()).any(|at| domains[at].level.row() == row);
    let rows = (0..LEVELS).filter(|&row| has(row));
    rows.map(|row| NAMES[row]).collect()
}

/// The numbers of one level; `None` is the kernel's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DomainKnobs {
    /// See [`super::Domain::imbalance_pct`].
    pub(crate) imbalance_pct: Option<u32>,
    /// See [`super::Domain::cache_nice_tries`].
    pub(crate) cache_nice_tries: Option<u32>,
    /// See [`super::Domain::busy_factor`].
    pub(crate) busy_factor: Option<u32>,
    /// See [`super::Domain::min_interval`].
    pub(crate) min_interval: Option<u32>,
    /// See [`super::Domain::max_interval`].
    pub(crate) max_interval: Option<u32>,
}

impl Level {
    /// Its row in [`BalanceRules::knobs`]; all distances between nodes share one.
    fn row(self) -> usize {
        match self {
            Level::Smt => 0,
            Level::Cluster => 1,
            Level::Cache => 2,
            Level::Package => 3,
            Level::Node => 4,
            Level::Numa(_) => 5,
        }
    }

    /// `imbalance_pct` and `cache_nice_tries` as `sd_init` sets them.
    fn defaults(self, rules: &BalanceRules) -> (u32, u32) {
        match self {
            Level::Smt => (110, 0),
            Level::Cluster | Level::Cache => (117, 1),
            Level::Package | Level::Node => (rules.imbalance_pct, 1),
            Level::Numa(_) => (rules.imbalance_pct, 2),
        }
    }
}

impl Domains {
    /// Gives every domain the numbers of these rules.
    pub(crate) fn set_knobs(&mut self, rules: &BalanceRules) {
        for row in 0..self.domains.len() {
            let domain = &mut self.domains[row];
            let knobs = &rules.knobs[domain.level.row()];
            let (imbalance_pct, tries) = domain.level.defaults(rules);
            domain.imbalance_pct = knobs.imbalance_pct.unwrap_or(imbalance_pct);
            domain.cache_nice_tries = knobs.cache_nice_tries.unwrap_or(tries);
            domain.busy_factor = knobs.busy_factor.unwrap_or(rules.busy_factor);
            domain.min_interval = knobs.min_interval.unwrap_or(domain.level_weight);
            domain.max_interval = knobs.max_interval.unwrap_or(2 * domain.level_weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{DOMAIN_TUNABLES, KernelChoice, Version};

    fn rules(tunables: &[(&str, i64)]) -> Rules {
        let choice = KernelChoice {
            tunables,
            ..KernelChoice::released(Version::new(6, 18), 16)
        };
        Rules::resolve(&choice).unwrap()
    }

    /// 16 CPUs: two sockets of one cache with 4 cores of 2 threads.
    fn machine() -> Topology {
        Topology::regular(2, 1, 4, 2)
    }

    #[test]
    fn every_level_has_a_row_of_its_own() {
        use std::collections::BTreeSet;
        let levels = [
            Level::Smt,
            Level::Cluster,
            Level::Cache,
            Level::Package,
            Level::Node,
            Level::Numa(20),
        ];
        let rows: BTreeSet<usize> = levels.into_iter().map(Level::row).collect();
        assert_eq!(rows.len(), levels.len());
    }

    #[test]
    fn a_level_of_every_cpu_gets_what_was_set() {
        let set = rules(&[
            ("domains.MC.busy_factor", 4),
            ("domains.MC.min_interval", 3),
            ("domains.NUMA.imbalance_pct", 150),
            ("domains.NUMA.cache_nice_tries", 7),
            ("domains.SMT.max_interval", 100),
        ]);
        let domains = super::super::build::build(&machine(), &set);
        for row in 0..domains.domains.len() {
            let one = &domains.domains[row];
            let numbers = (
                one.imbalance_pct,
                one.cache_nice_tries,
                one.busy_factor,
                one.min_interval,
                one.max_interval,
            );
            let expected = match one.level {
                Level::Smt => (110, 0, 16, 2, 100),
                Level::Cache => (117, 1, 4, 3, 16),
                Level::Numa(_) => (150, 7, 16, 16, 32),
                other => panic!("{other:?} adds no CPUs here"),
            };
            assert_eq!(numbers, expected, "{:?}", one.level);
        }
    }

    #[test]
    fn taken_away_the_kernels_own_numbers_come_back() {
        let mut domains =
            super::super::build::build(&machine(), &rules(&[("domains.MC.busy_factor", 4)]));
        domains.set_knobs(&rules(&[]).balance);
        assert!((0..domains.domains.len()).all(|row| domains.domains[row].busy_factor == 16));
    }

    #[test]
    fn rows_and_names_of_levels_agree() {
        assert_eq!(level_names(&machine(), &rules(&[])), ["SMT", "MC", "NUMA"]);
        for (row, name) in ["SMT", "CLS", "MC", "PKG", "NODE", "NUMA"]
            .iter()
            .enumerate()
        {
            for one in DOMAIN_TUNABLES[5 * row..].iter().take(5) {
                assert!(one.name.starts_with(&format!("domains.{name}.")));
                let set = rules(&[(one.name, 111)]);
                assert_ne!(
                    set.balance.knobs[row],
                    DomainKnobs::default(),
                    "{}",
                    one.name
                );
            }
        }
    }
}
