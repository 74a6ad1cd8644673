//! Hand-written recordings with the activations, steps and programs they must give.

mod arbitrary;
mod backends;
mod background;
mod blocked;
mod bound;
mod closed_loops;
mod exchanges;
mod forked;
mod groups;
mod jobs;
mod kinds;
mod logs;
mod mini;
mod paced;
mod patience;
mod pipeline;
mod polls;
mod rare;
mod rounds;
mod rules;
mod sends;
mod servers;
mod services;
mod transactions;
mod woken;
mod worlds;

use super::*;
use mini::{HARD, Mini, SOFT, TASK};
use schedcast_kernel::rules::{Rules, Version};
use schedcast_kernel::topology::Topology;
use schedcast_sim::workload::ArrivalContext;
use schedcast_sim::{Machine, Workload, World};
use schedcast_trace::Context;

fn inferred(mini: Mini, end_us: u64) -> Replay {
    infer(&mini.recording(end_us), &InferOptions::default()).unwrap()
}

/// The workload of a replay, and where its parts are in that.
fn compiled(replay: &Replay) -> (Workload, Compiled) {
    let mut workload = Workload::default();
    let compiled = replay.compile(&mut workload, CompileOptions::default());
    (workload, compiled.unwrap())
}

/// A world of one CPU, on which nothing but work costs time.
fn on_a_free_cpu(workload: Workload) -> World {
    let machine = Machine::preset("generic-8")
        .unwrap()
        .with_topology(Topology::regular(1, 1, 1, 1))
        .free_of_charge();
    let rules = Rules::of(Version::new(6, 18), 1, 250);
    World::new(machine, rules, workload, 1).unwrap()
}

/// Trigger, executed µs and steps of every activation of a thread.
fn of(replay: &Replay, name: &str) -> Vec<(Trigger, u64, Vec<Step>)> {
    replay
        .threads_named(name)
        .unwrap()
        .into_iter()
        .flat_map(|thread| replay.activations_of(thread))
        .map(|activation| {
            let steps = replay.steps_of(activation).to_vec();
            (activation.trigger, activation.executed_ns / 1000, steps)
        })
        .collect()
}

fn run(us: u64) -> Step {
    Step::Run { work_ns: us * 1000 }
}

fn hard(us: u64, cpu: u32) -> Trigger {
    outside(us, cpu, ArrivalContext::HardIrq)
}

/// A timer of the thread itself.
fn timer(us: u64, cpu: u32) -> Trigger {
    outside(us, cpu, ArrivalContext::OwnTimer)
}

fn outside(us: u64, cpu: u32, context: ArrivalContext) -> Trigger {
    let at_ns = us * 1000;
    Trigger::outside(at_ns, cpu, context)
}

/// Each thread's activations execute the time that its runs show, and no time is lost on the way to
/// steps.
fn assert_conserved(replay: &Replay) {
    for (id, thread) in (0u32..).map(ThreadId).zip(&replay.threads) {
        let activations = replay.activations_of(id);
        let executed_ns: u64 = activations.iter().map(|a| a.executed_ns).sum();
        if thread.left_out {
            assert_eq!(executed_ns, 0, "{}", thread.name);
        } else {
            assert_eq!(executed_ns, thread.executed_ns, "{}", thread.name);
        }
    }
    for activation in &replay.activations {
        let steps = replay.steps_of(activation);
        let work_ns: u64 = steps
            .iter()
            .map(|step| match step {
                Step::Run { work_ns } => *work_ns,
                _ => 0,
            })
            .sum();
        assert_eq!(work_ns, work_of(activation));
    }
}

/// Work of an activation after the simulator's own costs were taken off, ns.
fn work_of(one: &Activation) -> u64 {
    one.executed_ns + one.charged_before_ns + one.assumed_ns - one.removed_ns
}
