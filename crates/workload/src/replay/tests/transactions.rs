//! Transactions of several requests that are one row of the client's log.

use super::exchanges::{answer, ask};
use super::services::{open, played, put_log};
use super::*;
use std::collections::BTreeSet;

/// Transactions of two requests, 1 ms and 0.3 ms of work. The first of two comes with a timer; the
/// next one falls due during the second request and is sent with the handling of its answer.
fn transactions() -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/limited", &[], &[2]);
    let mut log = Vec::new();
    for at in (0..15).map(|number| 1_000 + 10_000 * number) {
        ask(&mut mini, at);
        mini.switch(at + 80, 0, 1, "S", 2);
        let mut asked = at + 80;
        for work in [1_000, 300, 1_000] {
            mini.hands_over([asked + work, asked + work + 10], 0, 2, TASK, 1);
            mini.hands_over([asked + work + 20, asked + work + 30], 0, 1, TASK, 2);
            asked += work + 30;
        }
        answer(&mut mini, asked, 300);
        let second = at + 80 + 1_000 + 30 + 300;
        log.push([at, at + 60, second + 10]);
        log.push([at + 1_200, second + 20, asked + 310]);
    }
    let mut recording = mini.recording(160_000);
    put_log(&mut recording, 1, &log);
    infer(&recording, &InferOptions::default()).unwrap()
}

#[test]
fn a_row_of_the_log_may_be_a_transaction_of_two_requests() {
    let replay = transactions();
    let [exchange] = &replay.exchanges[..] else {
        panic!("one exchange: {:?}", replay.exchanges);
    };
    assert_eq!(exchange.requests.len(), 60);
    for parts in exchange.requests.chunks(2) {
        assert_eq!([parts[0].goes_on, parts[1].goes_on], [true, false]);
        assert_eq!(parts[0].due_ns, parts[1].due_ns);
        assert_eq!(parts[0].latency_ns, None);
        assert_eq!(parts[1].not_before_ns, None, "it follows the first part");
    }
    let latencies = exchange.requests.iter().filter_map(|one| one.latency_ns);
    assert_eq!(latencies.collect::<BTreeSet<u64>>().len(), 2);
    let figures = replay.measured();
    let server = figures.threads.iter().find(|one| one.name == "server");
    assert_eq!(server.unwrap().request_latency.count, 30);
}

/// A transaction of two statements of 0.5 ms on one of two connections: its client sends the second
/// one when it has the answer to the first, after the server was held back for `held` µs.
fn transaction(mini: &mut Mini, at: u64, held: u64) -> [u64; 3] {
    mini.sends(at);
    if held > 0 {
        mini.switch(at + 50, 0, 2, "R", 0);
        mini.switch(at + 50 + held, 0, 0, "R", 2);
    }
    let answered = at + 520 + held;
    mini.hands_over([answered, answered + 10], 0, 2, SOFT, 1);
    mini.hands_over([answered + 20, answered + 30], 0, 1, SOFT, 2);
    mini.hands_over([answered + 530, answered + 540], 0, 2, SOFT, 1);
    mini.switch(answered + 550, 0, 1, "S", 0);
    [at, at + 5, answered + 545]
}

#[test]
fn the_second_statement_of_a_transaction_follows_the_answer_to_the_first() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    let mut log = Vec::new();
    for number in 0..25 {
        let held = if number % 5 == 4 { 60_000 } else { 0 };
        log.push(transaction(&mut mini, 100_000 * number, held));
    }
    let mut recording = mini.recording(2_500_000);
    put_log(&mut recording, 2, &log);
    let replay = infer(&recording, &open()).unwrap();
    assert_eq!(replay.requests.len(), 25);
    let server = replay.threads_named("server").unwrap()[0];
    let client = replay.threads_named("client").unwrap()[0];
    for pair in replay.activations_of(server).chunks(2) {
        assert!(
            matches!(pair[0].trigger, Trigger::Outside { .. }),
            "{pair:?}"
        );
        assert_eq!(pair[1].trigger, Trigger::Thread(client));
    }
    let world = played(&replay);
    let latency = world.probes().metric("server/request_latency").unwrap();
    let slowest_ns = latency.values.max().unwrap();
    assert!((1_000_000..1_300_000).contains(&slowest_ns), "{slowest_ns}");
}
