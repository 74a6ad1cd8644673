//! Housekeeping of the kernel itself on every CPU, for a machine without a recording.
//!
//! On a machine on which nothing but the workload ever runs, ticks, time slices and the intervals
//! of load balancing stay in step for the whole run, and of three threads on two CPUs the same one
//! waits each time. Real CPUs are interrupted now and then by their own kernel threads. [`add`]
//! puts one such thread on every CPU: it wakes at random times, works for some µs, and sleeps.
//!
//! How often and how long is taken from `recordings/dev-vm-idle`, 30.15 s of two idle CPUs:
//! `kworker`s, `rcu_preempt` and `kcompactd` ran 199 times there, 152 times on one CPU and 47 times
//! on the other. Agents, monitors and DAMON, which that machine has and others need not have, are
//! not in it: a machine that is known better gets a recording of its own as background.
//!
//! # Worked example
//!
//! 199 runs in 2 · 30.15 s are one in 303 ms on each CPU. A benchmark of 2 s on eight CPUs meets
//! about 8 · 2 / 0.303 = 53 of them, half of them shorter than 15 µs. All of it is counted as
//! `background`, as a recorded background is.

use schedcast_kernel::cpuset::CpuSet;
use schedcast_kernel::{Cpu, Ns};
use schedcast_sim::workload::{
    Arrival, ArrivalAction, ArrivalContext, ArrivalSource, QueueSpec, TaskSpec,
};
use schedcast_sim::{Distribution, ProgramBuilder, ProgramError, Reg, Workload};

use crate::replay::background::NAME;

/// Mean time between two wakeups on a CPU, ns: `recordings/dev-vm-idle`, see the module.
const MEAN_GAP_NS: Ns = 303_000_000;

/// How long the thread works, ns, each value as likely as the others: twenty quantiles of the 199
/// runs in that recording, in equal steps from 2.5 to 97.5 %. Their mean is 134 µs; that of all 199
/// runs is 165 µs, because the longest took 4.8 ms.
const WORK_NS: [Ns; 20] = [
    4_400, 7_100, 7_700, 8_900, 9_800, 10_700, 11_500, 12_000, 13_700, 15_000, 16_000, 18_200,
    21_900, 29_000, 38_500, 52_100, 74_200, 215_700, 655_500, 1_462_700,
];

/// When the threads wake: at random times that do not depend on each other.
pub const GAPS: Distribution = Distribution::Exponential { mean: MEAN_GAP_NS };

/// Number of the message that was received.
const MESSAGE: Reg = Reg(0);

/// Adds a thread to each of `cpus` CPUs, which wakes for the first time `first_ns` after the start.
///
/// # Errors
/// If a program breaks a limit of the simulator.
pub fn add(
    workload: &mut Workload,
    cpus: usize,
    first_ns: impl Fn(&str) -> Ns,
) -> Result<(), ProgramError> {
    let gaps = workload.add_distribution(GAPS);
    let work = workload.add_distribution(Distribution::Empirical(WORK_NS.to_vec()));
    for cpu in (0..cpus).map(Cpu::from) {
        let name = format!("{NAME}/{}", cpu.0);
        let inbox = workload.add_queue(QueueSpec::UNBOUNDED);
        let mut b = ProgramBuilder::new(name.clone());
        let wait = b.label();
        b.bind(wait);
        b.recv(inbox, MESSAGE);
        b.work(work);
        b.jump(wait);
        let program = workload.add_program(b.finish()?);
        let mut task = TaskSpec::new(name.clone(), program);
        task.statistics = Some(NAME.to_owned());
        task.address_space = None;
        task.affinity = Some(CpuSet::of(cpu));
        task.start_cpu = Some(cpu);
        task.asleep_in = Some(inbox);
        workload.add_task(task);
        let first = Arrival {
            at_ns: first_ns(&name),
            cpu,
            // A timer of the kernel or its soft interrupt wakes them.
            context: ArrivalContext::SoftIrq,
            sync: false,
            action: ArrivalAction::Send {
                queue: inbox,
                bytes: 1,
                value: 0,
            },
        };
        let interval = gaps;
        workload.add_arrivals(name, ArrivalSource::Stream { first, interval });
    }
    Ok(())
}
