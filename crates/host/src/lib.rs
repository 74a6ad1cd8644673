//! The live Linux machine: cgroups made and limited, commands run in them, counters and topology
//! read.
//!
//! Everything that says how a *real* kernel behaves comes through here, so that a prediction can be
//! put beside it. A run under a 13 ms quota, start to finish:
//!
//! ```no_run
//! use std::time::Duration;
//! use schedcast_host::{CommandSpec, CpuCgroup, run_placed};
//!
//! let group = CpuCgroup::create("/", "trial")?;
//! group.apply("cpu.max", "13000 100000")?;
//! let hog = CommandSpec::new("sha256sum").arg("/dev/zero").cpus(&[1]);
//! let report = run_placed(&[(&group, &hog)], Duration::from_secs(1))?;
//! // One CPU, 13 of every 100 ms: about ten periods, each throttled, about 130 ms of CPU time.
//! println!("{:?} {} ns", group.stat()?, report.commands[0].cpu_ns());
//! # Ok::<(), schedcast_host::HostError>(())
//! ```
//!
//! * [`CpuCgroup`]: a group, cgroup v1 or v2, removed again whatever happens.
//! * [`groups`]: the groups of this host by unit, container, pod and process.
//! * [`testing`]: groups for tests on the running kernel.
//! * [`top`]: which limited groups are throttled, and how much.
//! * [`self_check`]: what works on this host.
//! * [`run_placed`]: commands started together, each in its group, with a time limit.
//! * [`Topology`] and [`KernelInfo`]: what machine and what kernel this is.
//! * [`tracefs`]: a trace buffer of its own.
//! * [`record`]: a recording of what runs here.
//! * [`apply`]: settings written so that they can be taken back.
//! * [`calibrate`]: the constants of a machine description, from measurements.
//! * [`measure`]: what switches, wakeups, ticks and timers cost here.
//! * [`real`]: an experiment run for real.
//! * [`server`]: a private PostgreSQL or nginx for the clients that need one.
//! * [`vm`]: a program run under another kernel.

pub mod apply;
pub mod calibrate;
mod cgroup;
mod cpufreq;
mod error;
#[cfg(test)]
mod fake;
mod files;
pub mod groups;
mod guard;
mod hierarchy;
pub mod hog;
pub mod measure;
pub mod real;
pub mod record;
mod run;
mod scratch;
pub mod self_check;
pub mod server;
mod stat;
pub mod sys;
pub mod testing;
pub mod top;
mod topology;
pub mod tracefs;
pub mod vm;

pub use cgroup::CpuCgroup;
pub use cpufreq::CpuFrequency;
pub use error::{HostError, Result};
pub use files::CpuFile;
pub use hierarchy::{CgroupVersion, CpuHierarchy};
pub use run::{CommandReport, CommandSpec, RunReport, run_placed};
pub use schedcast_base::limits::{CpuLimits, LimitError};
pub use scratch::Scratch;
pub use stat::CpuTimes;
pub use sys::{Ending, Usage};
pub use topology::{CpuInfo, IdleState, KernelInfo, Topology};
