//! Requests that pass several threads of a service, and what piles up between them.

use super::services::{open, put_log, scheduled};
use super::*;
use crate::replay::service::Served;
use schedcast_base::assert_in;

/// One request through a proxy and its backend with nothing else to do: 20, 300 and 30 µs of work.
fn single(mini: &mut Mini, at: u64) {
    single_of(mini, at, 3);
}

/// The same with another backend.
fn single_of(mini: &mut Mini, at: u64, backend: i32) {
    mini.sends(at);
    mini.hands_over([at + 38, at + 40], 0, 2, SOFT, backend);
    mini.hands_over([at + 335, at + 340], 0, backend, SOFT, 2);
    mini.hands_over([at + 365, at + 370], 0, 2, SOFT, 1);
    mini.switch(at + 380, 0, 1, "S", 0);
}

/// Four requests, 1 ms apart, that are passed on and answered together 90 ms later. They cost
/// 1.61 ms. Thread 5, where there is one, is woken by the proxy and works for 6 ms meanwhile.
fn pile(mini: &mut Mini, at: u64, compiles: bool) {
    mini.sends(at);
    mini.switch(at + 30, 0, 2, "R", 0); // throttled
    for due in [1_000, 2_000, 3_000].map(|later| at + later) {
        mini.hands_over([due, due + 2], 0, 0, HARD, 1);
        mini.switch(due + 12, 0, 1, "S", 0); // sent, and nobody to wake
    }
    mini.switch(at + 90_000, 0, 0, "R", 2);
    if compiles {
        mini.waking(at + 90_050, 0, 2, TASK, 5);
        mini.switch(at + 90_060, 1, 0, "R", 5);
    }
    mini.hands_over([at + 90_090, at + 90_100], 0, 2, SOFT, 3);
    mini.hands_over([at + 91_390, at + 91_400], 0, 3, SOFT, 2);
    for replied in [91_440, 91_500, 91_560, 91_620].map(|later| at + later) {
        mini.waking(replied, 0, 2, SOFT, 1);
        let state = if replied == at + 91_620 { "S" } else { "R" };
        mini.switch(replied + 10, 0, 2, state, 1);
        let next = if state == "R" { 2 } else { 0 };
        mini.switch(replied + 20, 0, 1, "S", next);
    }
    if compiles {
        mini.switch(at + 96_060, 1, 5, "S", 0);
    }
}

/// As [`single`], but the backend preempts the proxy, which is still awake when it has the answer.
fn preempted(mini: &mut Mini, at: u64) {
    mini.sends(at);
    mini.waking(at + 38, 0, 2, SOFT, 3);
    mini.switch(at + 40, 0, 2, "R", 3);
    mini.switch(at + 340, 0, 3, "S", 2);
    mini.hands_over([at + 365, at + 370], 0, 2, SOFT, 1);
    mini.switch(at + 380, 0, 1, "S", 0);
}

/// A second request comes 100 µs after the first, and a second backend works for it.
fn overlapping(mini: &mut Mini, at: u64) {
    mini.sends(at);
    for (at, cpu, backend) in [(at, 0, 3), (at + 100, 1, 4)] {
        if cpu == 1 {
            mini.hands_over([at, at + 2], 1, 0, HARD, 1);
            mini.hands_over([at + 10, at + 20], 1, 1, SOFT, 2);
        }
        mini.hands_over([at + 38, at + 40], cpu, 2, SOFT, backend);
    }
    for (at, cpu, backend) in [(at, 0, 3), (at + 100, 1, 4)] {
        mini.hands_over([at + 335, at + 340], cpu, backend, SOFT, 2);
        mini.hands_over([at + 365, at + 370], cpu, 2, SOFT, 1);
        mini.switch(at + 380, cpu, 1, "S", 0);
    }
}

/// 25 single requests, 5 ms apart, and five piles.
pub(super) fn pipeline() -> (Replay, u64) {
    beside_compiler(false)
}

fn beside_compiler(compiles: bool) -> (Replay, u64) {
    let names = [(1, "client"), (2, "proxy"), (3, "backend"), (5, "compiler")];
    let mut mini = Mini::new(&names);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 5]);
    for number in 0..25 {
        single(&mut mini, 5_000 * number);
    }
    for number in 0..5 {
        pile(&mut mini, 125_000 + 100_000 * number, compiles);
    }
    (scheduled(mini, 625_000), 125_000)
}

#[test]
fn what_piled_up_between_threads_comes_apart() {
    let (replay, piles) = pipeline();
    assert_eq!(replay.services.len(), 1);
    assert_eq!(replay.requests.len(), 25 + 4 * 5);
    let backend = of(&replay, "backend");
    assert_eq!(backend.len(), 25 + 4 * 5, "one activation each");
    let proxy = replay.threads_named("proxy").unwrap()[0];
    assert!(
        backend
            .iter()
            .all(|(trigger, ..)| *trigger == Trigger::Thread(proxy))
    );
    // The second request of the first pile: at its own time, all of it, dearer by what the pile
    // was.
    let asked: Vec<_> = of(&replay, "proxy")
        .into_iter()
        .filter(|(trigger, ..)| matches!(trigger, Trigger::Outside { .. }))
        .collect();
    assert_eq!(asked.len(), 25 + 4 * 5);
    let (trigger, executed_us, _) = &asked[26];
    let Trigger::Outside { at_ns, .. } = trigger else {
        panic!("from outside");
    };
    let Served { arrives_ns, .. } = replay.requests[26];
    assert!(at_ns.abs_diff(arrives_ns) <= 2_000);
    assert!(arrives_ns.abs_diff((piles + 1_010) * 1_000) <= 2_000);
    assert_eq!(*executed_us, 20 * 1_610 / 1_400);
    let answers = |(_, _, steps): &(Trigger, u64, Vec<Step>)| {
        let replies = steps.iter().filter(|step| matches!(step, Step::Reply(_)));
        replies.count()
    };
    let all: Vec<usize> = of(&replay, "proxy").iter().map(answers).collect();
    assert_eq!(all.iter().sum::<usize>(), 25 + 4 * 5);
    assert!(all.iter().all(|replies| *replies <= 1));
    let waits = |step: &Step| matches!(step, Step::Await(_));
    assert!(!replay.steps.iter().any(waits));
}

#[test]
fn what_no_request_waits_for_keeps_its_time() {
    let (replay, piles) = beside_compiler(true);
    let compiled: Vec<_> = of(&replay, "compiler").into_iter().collect();
    assert_eq!(compiled.len(), 5);
    for (number, (trigger, executed_us, steps)) in (0..).zip(&compiled) {
        let Trigger::Outside { at_ns, .. } = trigger else {
            panic!("the proxy that woke it is gone: {trigger:?}");
        };
        let woken_us = piles + 100_000 * number + 90_050;
        assert!(at_ns.abs_diff(woken_us * 1_000) <= 2_000, "{at_ns} ns");
        assert_eq!(*executed_us, 6_000);
        assert!(matches!(steps[..], [Step::Run { .. }]), "{steps:?}");
    }
    // The requests cost what they do without it.
    let executed_us = |replay: &Replay| -> Vec<u64> {
        let parts = of(replay, "proxy").into_iter().chain(of(replay, "backend"));
        parts.map(|(_, executed_us, _)| executed_us).collect()
    };
    assert_eq!(executed_us(&replay), executed_us(&pipeline().0));
}

/// 25 requests 5 ms apart, and ten in which the backend preempts the proxy.
fn singles_then_preempted(mini: &mut Mini) {
    for number in 0..25 {
        single(mini, 5_000 * number);
    }
    for number in 25..35 {
        preempted(mini, 5_000 * number);
    }
}

#[test]
fn a_reply_waits_for_its_backend_also_where_the_proxy_was_awake() {
    let mut mini = Mini::new(&[(1, "client"), (2, "proxy"), (3, "backend")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3]);
    singles_then_preempted(&mut mini);
    let replay = scheduled(mini, 175_000);
    assert_conserved(&replay);
    assert_eq!(replay.requests.len(), 35);
    let backend = replay.threads_named("backend").unwrap()[0];
    let replying = of(&replay, "proxy").into_iter().filter(|(_, _, steps)| {
        let ends = |step: &Step| matches!(step, Step::Reply(_));
        steps.iter().any(ends)
    });
    let triggers: Vec<Trigger> = replying.map(|(trigger, ..)| trigger).collect();
    assert_eq!(triggers, [Trigger::Thread(backend); 35]);
    let executed_us = |name| of(&replay, name).iter().map(|one| one.1).sum::<u64>();
    assert_eq!(executed_us("backend"), 35 * 300);
}

#[test]
fn what_comes_apart_is_done_by_threads_that_are_there() {
    let names = [(1, "client"), (2, "proxy"), (3, "backend"), (4, "backend")];
    let mut mini = Mini::new(&names);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 4]);
    singles_then_preempted(&mut mini);
    let forked = 175_000;
    mini.hands_over([forked, forked + 2], 0, 0, HARD, 3);
    mini.fork(forked + 20, 0, 3, 4);
    mini.switch(forked + 30, 0, 3, "S", 4);
    mini.switch(forked + 40, 0, 4, "S", 0);
    for number in 36..136 {
        single_of(&mut mini, 5_000 * number, 4);
    }
    mini.hands_over([680_000, 680_002], 0, 0, HARD, 4);
    mini.switch(680_020, 0, 4, "X", 0);
    for number in 137..147 {
        preempted(&mut mini, 5_000 * number);
    }
    let replay = scheduled(mini, 735_000);
    let [first, second] = replay.threads_named("backend").unwrap()[..] else {
        panic!("two backends");
    };
    let by_second: Vec<u64> = replay.activations_of(second)[1..]
        .iter()
        .map(|one| one.woken_ns / 1_000)
        .collect();
    let there = forked..680_001;
    assert_eq!(by_second.len(), 101);
    assert!(by_second.iter().all(|woken_us| there.contains(woken_us)));
    // 25 singles, the 20 in which it preempted the proxy, and the fork.
    assert_eq!(replay.activations_of(first).len(), 25 + 20 + 1);
}

#[test]
fn in_a_closed_loop_a_proxy_answers_when_its_backend_has() {
    let mut mini = Mini::new(&[(1, "client"), (2, "proxy"), (3, "backend")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3]);
    singles_then_preempted(&mut mini);
    let mut recording = mini.recording(175_000);
    let rows: Vec<[u64; 3]> = (0..35)
        .map(|number| 5_000 * number)
        .map(|at| [at, at + 8, at + 375])
        .collect();
    put_log(&mut recording, 1, &rows);
    let options = InferOptions {
        client_loop: ClientLoop::Closed,
        ..InferOptions::default()
    };
    let replay = infer(&recording, &options).unwrap();
    assert_eq!(replay.services[0].bound, Bound::Connections(1));
    let backend = replay.threads_named("backend").unwrap()[0];
    let proxy = replay.threads_named("proxy").unwrap()[0];
    let replies = |activation: &&Activation| {
        let mut steps = replay.steps_of(activation).iter();
        steps.any(|step| matches!(step, Step::Reply(_)))
    };
    let answering = replay.activations_of(proxy).iter().filter(replies);
    let triggers: Vec<Trigger> = answering.map(|activation| activation.trigger).collect();
    assert_eq!(triggers, [Trigger::Thread(backend); 35]);
}

#[test]
fn a_reply_is_of_one_request_while_the_backend_works_for_others() {
    let names = [(1, "client"), (2, "proxy"), (3, "backend"), (4, "backend")];
    let mut mini = Mini::new(&names);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 4]);
    for number in 0..50 {
        match number % 5 {
            0 => overlapping(&mut mini, 5_000 * number),
            _ => single(&mut mini, 5_000 * number),
        }
    }
    let replay = scheduled(mini, 250_000);
    let latencies: Vec<u64> = replay.requests.iter().map(|one| one.latency_ns).collect();
    assert_eq!(latencies, [380_000; 60]);
}

#[test]
fn what_comes_apart_costs_what_it_did() {
    let (replay, _) = pipeline();
    let names = ["proxy", "backend"];
    let executed_us = |name| of(&replay, name).iter().map(|one| one.1).sum::<u64>();
    let all_us: u64 = names.map(executed_us).iter().sum();
    let recorded_us = 25 * 350 + 5 * (10 + 100 + 1_300 + 200);
    assert_in!(all_us.abs_diff(recorded_us), 0..=25 + 60);
}

/// A pile is two activations of the proxy, of which a limit held the first back for 90.09 ms, and
/// one of the backend.
#[test]
fn recorded_latencies_are_those_of_the_trace_before_it_came_apart() {
    let (replay, _) = pipeline();
    let measured = replay.measured();
    let latency = |name: &str| {
        let mut threads = measured.threads.iter();
        threads
            .find(|one| one.name == name)
            .unwrap()
            .activation_latency
    };
    assert_eq!(latency("backend").count, 25 + 5);
    let proxy = latency("proxy");
    assert_eq!((proxy.count, proxy.max_ns), (50 + 2 * 5, 90_090_000));
}

/// A client sends a message to a dispatcher, which wakes a worker.
fn dispatched(mini: &mut Mini, at: u64, cpu: u32, worker: i32) {
    mini.hands_over([at, at + 2], cpu, 0, HARD, 1);
    mini.hands_over([at + 10, at + 12], cpu, 1, SOFT, 4);
    mini.hands_over([at + 18, at + 20], cpu, 4, TASK, worker);
}

/// One request to each of two workers with nothing else to do: 600 µs of work.
fn single_of_each(mini: &mut Mini, at: u64) {
    for (at, worker) in [(at, 2), (at + 1_000, 3)] {
        dispatched(mini, at, 0, worker);
        mini.hands_over([at + 615, at + 620], 0, worker, SOFT, 1);
        mini.switch(at + 630, 0, 1, "S", 0);
    }
}

/// Two workers are throttled in the middle of a request each, which came 50 ms apart. The second
/// one replies while the first one works.
fn held_workers(mini: &mut Mini, at: u64) {
    for (at, cpu, worker) in [(at, 0, 2), (at + 50_000, 1, 3)] {
        dispatched(mini, at, cpu, worker);
        mini.switch(at + 30, cpu, worker, "R", 0);
    }
    mini.switch(at + 90_000, 0, 0, "R", 2);
    mini.switch(at + 90_001, 1, 0, "R", 3);
    for (at, cpu, worker) in [(at + 90_300, 1, 3), (at + 90_600, 0, 2)] {
        mini.hands_over([at, at + 10], cpu, worker, SOFT, 1);
        mini.switch(at + 20, cpu, 1, "S", 0);
    }
}

#[test]
fn a_worker_does_not_wait_for_requests_of_another() {
    let names = [
        (1, "client"),
        (2, "worker"),
        (3, "worker"),
        (4, "dispatcher"),
    ];
    let mut mini = Mini::new(&names);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 4]);
    // Too few single requests to replace held ones by them.
    for number in 0..8 {
        single_of_each(&mut mini, 5_000 * number);
    }
    for number in 0..5 {
        held_workers(&mut mini, 40_000 + 100_000 * number);
    }
    // The log tells which reply is whose.
    let alone = (0..8).flat_map(|number| [5_000 * number, 5_000 * number + 1_000]);
    let alone = alone.map(|due| [due, due + 10, due + 630]);
    let held = (0..5).map(|number| 40_000 + 100_000 * number);
    let held = held.flat_map(|at| {
        let second = at + 50_000;
        [
            [at, at + 10, at + 90_620],
            [second, second + 10, at + 90_320],
        ]
    });
    let rows: Vec<[u64; 3]> = alone.chain(held).collect();
    let mut recording = mini.recording(540_000);
    put_log(&mut recording, 2, &rows);
    let replay = infer(&recording, &open()).unwrap();
    assert_eq!(replay.requests.len(), 26);
    let waits = |step: &Step| matches!(step, Step::Await(_));
    assert!(!replay.steps.iter().any(waits));
}
