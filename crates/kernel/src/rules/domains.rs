//! Tunables of the domains of one level, as `domains.MC.imbalance_pct`.
//!
//! debugfs has a file for each CPU and domain (`domains/cpu3/domain1/imbalance_pct`); here one name
//! stands for a level of every CPU, under the name in the file `name` of such a domain. Worked
//! example: `domains.PKG.max_interval = 100` lets passes over a socket of 8 CPUs that find nothing
//! to move grow rarer up to 100 ms instead of 16 ms.

use super::Tunable;
use super::tunables::ALWAYS;

/// The largest value accepted; the kernel would multiply larger ones beyond its numbers.
const MOST: i64 = 1_000_000;

/// A row for each number of the level in that row of `BalanceRules::knobs`.
macro_rules! levels {
    ($($level:literal = $row:literal),* $(,)?) => {
        /// Every such tunable.
        pub static DOMAIN_TUNABLES: &[Tunable] = &[$(
            levels!($level, $row, imbalance_pct, 100, "Percentage from which a difference of loads counts."),
            levels!($level, $row, cache_nice_tries, 0, "Failed passes that still spare tasks whose caches are hot."),
            levels!($level, $row, busy_factor, 1, "How many times as rarely a busy CPU balances."),
            levels!($level, $row, min_interval, 1, "Shortest time between two passes, ms."),
            levels!($level, $row, max_interval, 1, "Longest time between two passes, ms."),
        )*];
    };
    ($level:literal, $row:literal, $knob:ident, $least:literal, $about:literal) => {
        Tunable {
            name: concat!("domains.", $level, ".", stringify!($knob)),
            sysctl: concat!("domains.", $level, ".", stringify!($knob)),
            since: ALWAYS,
            until: None,
            least: $least,
            most: MOST,
            description: $about,
            apply: |rules, value| rules.balance.knobs[$row].$knob = Some(value as u32),
        }
    };
}

levels! { "SMT" = 0, "CLS" = 1, "MC" = 2, "PKG" = 3, "NODE" = 4, "NUMA" = 5 }
