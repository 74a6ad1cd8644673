//! Rules of the Linux scheduler: the fair class, groups, bandwidth control, placement, balancing.
//!
//! A pure state machine over tables of integers. It knows no files, no workloads and no time
//! source: the world behind it is a [`platform::Platform`].

pub mod balance;
pub mod bandwidth;
pub mod cache;
pub mod capacity;
pub mod cfs_rq;
mod core;
pub mod cpufreq;
pub mod cpuidle;
pub mod cpuset;
pub mod divide;
pub mod dl;
pub mod energy;
pub mod entity;
pub mod explain;
pub mod fair;
pub mod group;
pub mod ids;
pub mod invariants;
pub mod kernel;
pub mod model;
pub mod pelt;
pub mod platform;
pub mod rq;
pub mod rt;
pub mod rules;
pub mod select;
pub mod table;
pub mod task;
pub mod topology;
pub mod uclamp;
pub mod weight;

pub use ids::{CfsRqId, Cpu, GroupId, Ns, TaskId};
pub use kernel::{Context, Kernel, WakeFlags};
pub use platform::Platform;

#[cfg(test)]
mod tests;
