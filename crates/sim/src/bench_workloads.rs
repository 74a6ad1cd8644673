//! The workloads speed is measured with.
//!
//! | name | CPUs | tasks |
//! |---|---|---|
//! | W1 | 10 | 100 |
//! | W2 | 64 | 640 |
//! | W3 | 128 | 1,280 |
//!
//! Each task needs 0.33 ms of CPU every 5 ms on a grid of its own random offset: 66 % load and
//! 20,000 activations per simulated second on W1.

use crate::machine::{Machine, MachineError};
use crate::program::ProgramBuilder;
use crate::workload::{GroupSpec, TaskSpec, Workload};
use crate::{Distribution, ProgramError, Reg};
use schedcast_kernel::GroupId;
use schedcast_kernel::topology::Topology;

/// Period of each task.
pub const PERIOD_NS: u64 = 5_000_000;
/// CPU time of each activation.
pub const RUN_NS: u64 = 330_000;

/// `tasks` periodic tasks, `group_levels` cgroup levels deep.
///
/// # Errors
/// Never for these programs; the builder's error is passed on.
pub fn periodic(tasks: usize, group_levels: usize) -> Result<Workload, ProgramError> {
    let mut workload = Workload::default();
    let mut group = GroupId::ROOT;
    let mut path = String::new();
    for level in 0..group_levels {
        path += &format!("/level{level}");
        group = workload.add_group(GroupSpec::new(path.clone(), group));
    }
    let offset = workload.add_distribution(Distribution::uniform(0, PERIOD_NS - 1));
    let (next, random) = (Reg(0), Reg(1));
    let mut b = ProgramBuilder::new("periodic");
    b.now(next);
    b.set(random, offset);
    b.add(next, random);
    let top = b.here();
    b.sleep_until(next);
    b.work(RUN_NS);
    b.add(next, PERIOD_NS);
    b.jump(top);
    let program = workload.add_program(b.finish()?);
    for row in 0..tasks {
        workload.add_task(TaskSpec {
            statistics: Some("periodic".to_owned()),
            group,
            ..TaskSpec::new(format!("periodic-{row}"), program)
        });
    }
    Ok(workload)
}

/// `generic-8` with `cpus` CPUs on one last level cache.
///
/// # Errors
/// Never for this preset; the reader's error is passed on.
pub fn machine(cpus: usize) -> Result<Machine, MachineError> {
    Ok(Machine::preset("generic-8")?.with_topology(Topology::flat(cpus)))
}
