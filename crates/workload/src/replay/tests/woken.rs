//! CPU time for being woken, which requests that wait together spend once.

use super::closed_loops::at_socket;
use super::services::{played_until, scheduled};
use super::*;
use schedcast_trace::AtSocket;

/// A timer of the client sends requests on so many connections. The server uses `woken` µs for
/// being woken and 800 µs for each request. A peer may be woken first, and wake it.
fn answered(mini: &mut Mini, at: u64, requests: u64, (woken, by_peer): (u64, bool)) {
    let ends = (0..requests).map(|number| [0xa0 + number, 0xb0 + number]);
    let ends: Vec<[u64; 2]> = ends.collect();
    mini.hands_over([at, at + 1], 0, 0, HARD, 1);
    for (sent, [ours, theirs]) in (at + 3..).step_by(2).zip(&ends) {
        at_socket(mini, sent, 1, AtSocket::Arrived, *theirs);
        if sent == at + 3 {
            mini.waking(sent, 0, 1, SOFT, if by_peer { 3 } else { 2 });
        }
        at_socket(mini, sent + 1, 1, AtSocket::Sent, *ours);
    }
    let begins = if by_peer {
        mini.switch(at + 10, 0, 1, "S", 3);
        mini.hands_over([at + 14, at + 16], 0, 3, TASK, 2);
        at + 16
    } else {
        mini.switch(at + 10, 0, 1, "S", 2);
        at + 10
    };
    for [_, theirs] in &ends {
        at_socket(mini, begins + 1, 2, AtSocket::Received, *theirs);
    }
    for (replied, [ours, theirs]) in (begins + woken + 500..).step_by(800).zip(&ends) {
        at_socket(mini, replied, 2, AtSocket::Arrived, *ours);
        if replied == begins + woken + 500 {
            mini.waking(replied, 0, 2, SOFT, 1);
        }
        at_socket(mini, replied + 1, 2, AtSocket::Sent, *theirs);
    }
    let ends_at = begins + woken + 800 * requests;
    mini.switch(ends_at, 0, 2, "S", 1);
    for [ours, _] in &ends {
        at_socket(mini, ends_at + 1, 1, AtSocket::Received, *ours);
    }
    mini.switch(ends_at + 3, 0, 1, "S", 0);
}

/// 30 activations with one request and 30 with two, 10 ms apart.
fn recorded(woken: u64) -> Replay {
    recorded_of(woken, false)
}

fn recorded_of(woken: u64, by_peer: bool) -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3]);
    for number in 0..60 {
        answered(
            &mut mini,
            10_000 * number,
            1 + number / 30,
            (woken, by_peer),
        );
    }
    scheduled(mini, 600_000)
}

#[test]
fn what_a_request_behind_another_one_saves_is_the_time_for_being_woken() {
    let replay = recorded(700);
    assert_conserved(&replay);
    assert_eq!(replay.requests.len(), 90);
    let server = replay.threads_named("server").unwrap()[0];
    for activation in &replay.activations_of(server)[1..] {
        assert_eq!(activation.woken_for_ns, 700_000);
        assert!(activation.was_woken);
    }
}

#[test]
fn what_is_longer_than_a_wakeup_is_work() {
    let replay = recorded(1_200);
    assert!(replay.activations.iter().all(|one| one.woken_for_ns == 0));
}

#[test]
fn threads_that_wake_each_other_save_nothing() {
    let replay = recorded_of(700, true);
    assert_eq!(replay.requests.len(), 90);
    assert!(replay.activations.iter().all(|one| one.woken_for_ns == 0));
}

#[test]
fn requests_that_wait_together_spend_it_once() {
    let used_ns = |quota_ns: Option<u64>| {
        let world = played_until(&recorded(700), quota_ns, 5_000_000_000);
        let latency = world.probes().metric("server/request_latency").unwrap();
        assert_eq!(latency.values.count(), 90);
        world.probes().of("server").unwrap().run_ns
    };
    assert_eq!(used_ns(None), 30 * 1_500_000 + 30 * 2_300_000);
    // A period of 100 ms lets four or five requests through, and the others wait for the next one:
    // 90 requests in 20 periods or fewer.
    let throttled_ns = used_ns(Some(4_000_000));
    assert!(
        throttled_ns <= 90 * 800_000 + 20 * 700_000,
        "{throttled_ns}"
    );
}
