//! Recordings behind something else.

use super::*;
use crate::replay::background::{Background, GROUP_PREFIX, NAME};
use schedcast_kernel::rules::{Rules, Version};
use schedcast_sim::workload::ArrivalSource;
use schedcast_sim::{Instruction, Machine, Workload, World};

/// Two background threads and a worker bound to CPU 1, beside a recorder; 10 ms.
fn machine_at_rest() -> Mini {
    let names = [
        (1, "schedcast"),
        (2, "agent"),
        (3, "helper"),
        (5, "kworker/1:0"),
        (7, "born"),
    ];
    let mut mini = Mini::new(&names);
    mini.group("/agents", &[("cpu.shares", "512")], &[2, 3, 7]);
    // The recorder wakes for 50 µs and wakes the worker.
    mini.hands_over([1_000, 1_000], 0, 0, HARD, 1);
    mini.waking(1_020, 0, 1, TASK, 5);
    mini.switch(1_050, 0, 1, "S", 0);
    mini.switch(1_030, 1, 0, "R", 5);
    mini.switch(1_060, 1, 5, "I", 0);
    // The agent works 40 µs, asks its helper, works 20 µs more; it also starts a child.
    mini.hands_over([4_000, 4_000], 0, 0, HARD, 2);
    mini.waking(4_040, 0, 2, TASK, 3);
    mini.fork(4_050, 0, 2, 7);
    mini.switch(4_060, 0, 2, "S", 3);
    mini.switch(4_100, 0, 3, "S", 7);
    mini.switch(4_130, 0, 7, "Z", 0);
    // A timer wakes the worker.
    mini.hands_over([8_000, 8_000], 1, 0, SOFT, 5);
    mini.switch(8_025, 1, 5, "I", 0);
    mini
}

fn behind_nothing(cpus: usize) -> (Workload, Background) {
    let mut workload = Workload::default();
    let machine = Machine::preset("dev-vm").unwrap();
    let options = InferOptions {
        costs: Costs::new(machine.cost_ns, 250),
        ..InferOptions::default()
    };
    let replay = infer(&machine_at_rest().recording(10_000), &options).unwrap();
    let background = replay.add_background(&mut workload, cpus).unwrap();
    assert_eq!(workload.check(cpus), Ok(()));
    (workload, background)
}

#[test]
fn threads_wait_asleep_and_are_counted_together() {
    let (workload, background) = behind_nothing(2);
    assert_eq!((background.threads, background.recorders), (4, 1));
    assert_eq!(background.without_cpu, Vec::<String>::new());
    let names: Vec<&str> = workload.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["kworker/1:0", "agent", "helper", "born"]);
    for task in &workload.tasks {
        assert_eq!(task.statistics.as_deref(), Some(NAME));
        assert!(task.asleep_in.is_some());
    }
    assert_eq!(workload.groups.len(), 1);
    assert_eq!(workload.groups[0].path, format!("{GROUP_PREFIX}/agents"));
    assert_eq!(workload.groups[0].shares, 512);
    let agent = workload.programs[1].instructions();
    assert!(matches!(agent[0], Instruction::Recv { .. }));
    let forks = |one: &Instruction| matches!(one, Instruction::Fork { .. } | Instruction::Exit);
    let all = workload.programs.iter().flat_map(|one| one.instructions());
    assert!(!all.clone().any(forks), "everybody is there and stays");
}

#[test]
fn a_round_has_what_came_from_outside_but_not_what_the_recorder_woke() {
    let (workload, background) = behind_nothing(2);
    let ArrivalSource::Rounds { arrivals, round_ns } = &workload.arrivals[0].source else {
        panic!("one source in rounds");
    };
    assert_eq!(*round_ns, 10_000_000);
    let shown: Vec<(u64, u32)> = arrivals
        .iter()
        .map(|one| (one.at_ns / 1000, one.cpu.0))
        .collect();
    // The agent by its timer, the child when it was forked, the worker by its own timer.
    assert_eq!(shown, [(4_000, 0), (4_051, 0), (8_000, 1)]);
    assert_eq!(background.arrivals, 3);
}

#[test]
fn threads_of_a_cpu_that_is_not_there_are_left_out() {
    let (workload, background) = behind_nothing(1);
    assert_eq!(background.without_cpu, ["kworker/1:0"]);
    assert_eq!(workload.tasks.len(), 3);
    let (more, background) = behind_nothing(8);
    assert_eq!((more.tasks.len(), background.without_cpu.len()), (4, 0));
}

/// Activity of the background in so many ms under a seed: wakeups, µs of CPU time, and live tasks.
fn alone(ms: u64, seed: u64) -> (u64, u64, usize) {
    let (workload, _) = behind_nothing(2);
    let machine = Machine::preset("dev-vm").unwrap();
    let rules = Rules::of(Version::new(6, 18), 2, 250);
    let mut world = World::new(machine, rules, workload, seed).unwrap();
    world.run_until(ms * 1_000_000).unwrap();
    let row = world.probes().of(NAME).unwrap();
    (row.wakeups, row.run_ns / 1000, world.live_tasks())
}

#[test]
fn it_goes_round_and_no_run_waits_for_its_end() {
    // Four wakeups a round, the helper's among them, whatever place a seed begins at.
    for seed in 0..20 {
        let (wakeups, run_us, live) = alone(1000, seed);
        assert!((399..=401).contains(&wakeups), "seed {seed}: {wakeups}");
        // 155 µs were recorded in a round, some 35 of which are the prices of kernel operations.
        assert!((11_500..15_500).contains(&run_us), "seed {seed}: {run_us}");
        assert_eq!(live, 0);
    }
    let first_ms: Vec<u64> = (0..20).map(|seed| alone(2, seed).0).collect();
    assert!(first_ms.contains(&0) && first_ms.iter().any(|&wakeups| wakeups > 0));
    assert_eq!(alone(1000, 3), alone(1000, 3));
}
