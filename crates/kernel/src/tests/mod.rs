//! Known answers, worked out by hand, and invariants over random and exhaustive histories.

mod bandwidth;
mod bounds;
mod cache;
mod cfs;
mod corners;
pub(crate) mod deadline;
mod drawn;
mod eevdf;
mod energy;
mod fair_bounds;
mod flat;
mod groups;
mod irqtime;
mod oracle;
mod oracle_balance;
mod pelt;
mod properties;
mod releases_7;
mod rt;
mod rt_bounds;
mod small_worlds;
mod tables;
mod ticks;
mod uclamp;
pub(crate) mod world;
