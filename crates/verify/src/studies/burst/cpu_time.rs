//! The counterfactual: the same requests, but each needs 80 ms of CPU time.
//!
//! Two requests at once use the quota of 100 ms in 50 ms of wall time and wait 50 ms for the next;
//! the 30 ms that each still needs come after that. So the latency is 50 ms, wherever between the
//! refills they come, up to the point where a refill helps.

use schedcast_kernel::{GroupId, Ns};
use schedcast_lab::error::Result;
use schedcast_lab::experiment::Scenario;
use schedcast_lab::simulator::bad_input;
use schedcast_sim::workload::TaskSpec;
use schedcast_sim::{ProgramBuilder, Reg, Workload, World};

use super::super::bench::uniform_draws;
use super::{Bench, PERIOD_NS, largest_of};

const REQUEST_NS: Ns = 80_000_000;
const CYCLE_NS: Ns = 200_000_000;
const RUN_NS: Ns = 2_000_000_000;
const PHASES: usize = 50;

const BEGIN: Reg = Reg(0);
const LATE: Reg = Reg(1);
const NEXT: Reg = Reg(2);

/// The largest latency of any request over many phases, µs.
pub(super) fn largest_latency_us(base: &Scenario, bench: &Bench) -> Result<f64> {
    let mut largest: f64 = 0.0;
    for start_ns in uniform_draws(PHASES, PERIOD_NS, 2) {
        let mut world = bench.world(base, 0)?;
        let groups = world.workload().groups.clone();
        let mut workload = Workload {
            groups,
            ..Workload::default()
        };
        add_workers(&mut workload, start_ns)?;
        let machine = base.machine.machine.clone();
        world = World::new(machine, base.kernel.rules.clone(), workload, 0).map_err(bad_input)?;
        world.run_until(start_ns + RUN_NS).map_err(bad_input)?;
        let late = world.probes().metric("late");
        largest = largest.max(late.map_or(0.0, |metric| largest_of(&metric.values)));
    }
    Ok(largest)
}

/// Two workers that each get a request every 200 ms.
fn add_workers(workload: &mut Workload, start_ns: Ns) -> Result<()> {
    let late = workload.add_metric("late");
    let mut b = ProgramBuilder::new("worker");
    b.now(NEXT);
    let top = b.here();
    b.add(NEXT, CYCLE_NS);
    b.sleep_until(NEXT);
    b.now(BEGIN);
    b.work(REQUEST_NS);
    b.now(LATE);
    b.subtract(LATE, BEGIN);
    b.subtract(LATE, REQUEST_NS);
    b.record(late, LATE);
    b.jump(top);
    let program = workload.add_program(b.finish().map_err(bad_input)?);
    for number in 0..2 {
        let mut task = TaskSpec::new(format!("worker-{number}"), program);
        task.group = GroupId::from(1_usize);
        task.start_ns = start_ns;
        workload.add_task(task);
    }
    Ok(())
}
