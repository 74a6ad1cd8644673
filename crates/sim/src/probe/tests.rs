use super::*;

const WORKER: TaskId = TaskId(2);
const IDLE: TaskId = TaskId(0);

/// Root, group 1 below it, group 2 below that; a worker in group 2.
fn probes() -> Probes {
    let parents = [None, Some(GroupId(0)), Some(GroupId(1))];
    let mut probes = Probes::new(2, &parents, &[]);
    let row = probes.row_of("worker");
    probes.start_task(WORKER, row, GroupId(2));
    probes
}

fn switch(probes: &mut Probes, now: Ns, prev: TaskId, state: PrevState, next: TaskId) {
    probes.observe(now, Cpu(1), Observation::Switch { prev, state, next });
}

fn wake(probes: &mut Probes, now: Ns) {
    probes.waking(now, Cpu(0), WORKER, None);
    let event = Observation::Wakeup {
        task: WORKER,
        cpu: Cpu(1),
    };
    probes.observe(now, Cpu(0), event);
}

#[test]
fn worked_example_of_the_module_docs() {
    let mut probes = probes();
    let (group, cpu) = (GroupId(1), Cpu(1));
    for (from, to) in [(2, 5), (20, 50)] {
        if from == 20 {
            wake(&mut probes, 10);
        }
        probes.observe(from, cpu, Observation::Throttle { group, cpu });
        probes.observe(to, cpu, Observation::Unthrottle { group, cpu });
    }
    switch(&mut probes, 60, IDLE, PrevState::Runnable, WORKER);
    let worker = probes.of("worker").unwrap();
    assert_eq!(
        (worker.wait_throttled_ns, worker.wait_contention_ns),
        (30, 20)
    );
    assert_eq!(worker.wakeup_latency.max(), Some(50));
}

#[test]
fn nested_throttling_counts_once() {
    let mut probes = probes();
    let cpu = Cpu(1);
    wake(&mut probes, 0);
    let outer = GroupId(1);
    let inner = GroupId(2);
    probes.observe(10, cpu, Observation::Throttle { group: inner, cpu });
    probes.observe(20, cpu, Observation::Throttle { group: outer, cpu });
    probes.observe(30, cpu, Observation::Unthrottle { group: inner, cpu });
    probes.observe(40, cpu, Observation::Unthrottle { group: outer, cpu });
    switch(&mut probes, 50, IDLE, PrevState::Runnable, WORKER);
    assert_eq!(probes.of("worker").unwrap().wait_throttled_ns, 30);
}

#[test]
fn a_wait_that_moves_reads_both_clocks() {
    let mut probes = probes();
    let group = GroupId(2);
    wake(&mut probes, 0);
    probes.observe(5, Cpu(1), Observation::Throttle { group, cpu: Cpu(1) });
    let event = Observation::Migrate {
        task: WORKER,
        from: Cpu(1),
        to: Cpu(0),
    };
    probes.observe(15, Cpu(0), event); // 10 throttled on CPU 1, whose clock runs on
    switch(&mut probes, 40, IDLE, PrevState::Runnable, WORKER);
    let worker = probes.of("worker").unwrap();
    assert_eq!(
        (worker.wait_throttled_ns, worker.wait_contention_ns),
        (10, 30)
    );
    assert_eq!(worker.migrations, 1);
}

#[test]
fn activations_and_runs() {
    let mut probes = probes();
    wake(&mut probes, 100);
    switch(&mut probes, 110, IDLE, PrevState::Runnable, WORKER);
    switch(&mut probes, 150, WORKER, PrevState::Runnable, IDLE);
    switch(&mut probes, 180, IDLE, PrevState::Runnable, WORKER);
    probes.next_activation(190, WORKER); // a message was waiting
    switch(&mut probes, 200, WORKER, PrevState::Blocked, IDLE);
    let worker = probes.of("worker").unwrap();
    assert_eq!(worker.run_ns, 40 + 20);
    assert_eq!(worker.wait_contention_ns, 10 + 30);
    assert_eq!(worker.switches, 2);
    assert_eq!(worker.wakeup_latency.count(), 1);
    let latencies: Vec<u64> = worker
        .activation_latency
        .iter()
        .map(|(low, ..)| low)
        .collect();
    assert_eq!(latencies, [10, 90]);
    let turns: Vec<u64> = worker.turn_latency().iter().map(|(low, ..)| low).collect();
    assert_eq!(turns, [100], "one sleep, whatever it did before");
    assert_eq!(probes.machine.dispatches, 2);
    assert_eq!(probes.machine.context_switches, 4);
}

fn switch_on(probes: &mut Probes, now: Ns, cpu: u32, prev: TaskId, next: TaskId) {
    let state = PrevState::Runnable;
    probes.observe(now, Cpu(cpu), Observation::Switch { prev, state, next });
}

/// 60 of 100 ns run on CPU 0, 10 wait, 30 on CPU 1, which is observed before the end of the 60.
#[test]
fn a_task_that_leaves_a_cpu_late_runs_on_the_next_and_does_not_wait() {
    for looks in [false, true] {
        let mut probes = probes();
        switch_on(&mut probes, 0, 0, IDLE, WORKER);
        if looks {
            probes.settle(50);
        }
        switch_on(&mut probes, 70, 1, TaskId(1), WORKER);
        if looks {
            probes.settle(55);
        }
        switch_on(&mut probes, 60, 0, WORKER, IDLE);
        if looks {
            probes.settle(90);
        }
        switch_on(&mut probes, 100, 1, WORKER, TaskId(1));
        switch_on(&mut probes, 130, 1, TaskId(1), WORKER);
        let worker = probes.of("worker").unwrap();
        assert_eq!(worker.run_ns, 60 + 30, "looked at: {looks}");
        assert_eq!(worker.wait_contention_ns, 10 + 30);
    }
}

#[test]
fn a_wakeup_observed_after_its_switch_begins_no_wait() {
    let mut probes = probes();
    wake(&mut probes, 0);
    switch_on(&mut probes, 5, 1, TaskId(1), WORKER);
    switch(&mut probes, 20, WORKER, PrevState::Blocked, TaskId(1));
    switch_on(&mut probes, 70, 1, TaskId(1), WORKER);
    wake(&mut probes, 60);
    switch(&mut probes, 90, WORKER, PrevState::Blocked, TaskId(1));
    // The operation of the waker goes on for 3 ns when its task runs already.
    switch_on(&mut probes, 100, 1, TaskId(1), WORKER);
    wake(&mut probes, 103);
    switch(&mut probes, 115, WORKER, PrevState::Blocked, TaskId(1));
    let worker = probes.of("worker").unwrap();
    let ran = 15 + 20 + 15;
    assert_eq!((worker.wait_contention_ns, worker.run_ns), (5 + 10, ran));
    let latencies = worker.wakeup_latency.iter().map(|(low, ..)| low);
    assert_eq!(latencies.collect::<Vec<u64>>(), [0, 5, 10]);
    let activations = worker.activation_latency.iter().map(|(low, ..)| low);
    assert_eq!(activations.collect::<Vec<u64>>(), [12, 20, 30]);
}

/// Woken at 0, it blocks at 40 and is woken again at 45, which is observed first; that activation
/// ends at 95.
#[test]
fn an_activation_that_is_over_ends_when_the_block_is_observed() {
    let mut probes = probes();
    wake(&mut probes, 0);
    switch_on(&mut probes, 5, 1, TaskId(1), WORKER);
    wake(&mut probes, 45);
    switch(&mut probes, 40, WORKER, PrevState::Blocked, TaskId(1));
    switch_on(&mut probes, 50, 1, TaskId(1), WORKER);
    switch(&mut probes, 95, WORKER, PrevState::Blocked, TaskId(1));
    let worker = probes.of("worker").unwrap();
    let activations = worker.activation_latency.iter().map(|(low, ..)| low);
    assert_eq!(activations.collect::<Vec<u64>>(), [40, 50]);
    assert_eq!((worker.wait_contention_ns, worker.run_ns), (5 + 5, 35 + 45));
}

#[test]
fn the_hash_tells_order_time_and_place_apart() {
    let run = |events: &[(Ns, u32, u32)]| {
        let mut probes = probes();
        for &(now, cpu, group) in events {
            let group = GroupId(group);
            probes.observe(
                now,
                Cpu(cpu),
                Observation::Throttle {
                    group,
                    cpu: Cpu(cpu),
                },
            );
        }
        probes.event_hash.hex()
    };
    let base = run(&[(1, 0, 1), (1, 1, 2)]);
    assert_eq!(run(&[(1, 0, 1), (1, 1, 2)]), base);
    for other in [
        run(&[(1, 1, 2), (1, 0, 1)]),
        run(&[(1, 0, 1), (2, 1, 2)]),
        run(&[(1, 0, 2), (1, 1, 2)]),
        run(&[(1, 0, 1), (1, 0, 2)]),
    ] {
        assert_ne!(other, base);
    }
}

#[test]
fn a_reset_keeps_what_is_under_way() {
    let mut probes = probes();
    wake(&mut probes, 0);
    probes.reset(30);
    switch(&mut probes, 50, IDLE, PrevState::Runnable, WORKER);
    let worker = probes.of("worker").unwrap();
    assert_eq!(worker.wait_contention_ns, 20);
    assert_eq!(probes.machine.wakeups, 0);
}
