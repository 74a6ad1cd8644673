//! Requests that sleep for a database or a timer before they are answered.

use super::closed_loops::at_socket;
use super::services::{played, scheduled};
use super::*;
use schedcast_trace::{AtSocket, Pid};

/// A request that an acceptor hands to a worker: 500 µs of work, a sleep of 4 ms, 500 µs, reply.
/// The limit holds the worker's first half back for `held` µs.
fn request(mini: &mut Mini, at: u64, held: u64) {
    mini.sends(at);
    mini.hands_over([at + 30, at + 40], 0, 2, TASK, 3);
    if held > 0 {
        mini.switch(at + 50, 0, 3, "R", 0);
        mini.switch(at + 50 + held, 0, 0, "R", 3);
    }
    let asleep = at + 540 + held;
    mini.switch(asleep, 0, 3, "S", 0);
    mini.hands_over([asleep + 4_000, asleep + 4_010], 0, 0, HARD, 3);
    mini.hands_over([asleep + 4_500, asleep + 4_510], 0, 3, SOFT, 1);
    mini.switch(asleep + 4_520, 0, 1, "S", 0);
}

/// 25 requests, 10 ms apart, and five that were held back for 60 ms.
fn recorded() -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "accept"), (3, "worker")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3]);
    for number in 0..25 {
        request(&mut mini, 10_000 * number, 0);
    }
    for number in 0..5 {
        request(&mut mini, 250_000 + 100_000 * number, 60_000);
    }
    scheduled(mini, 750_000)
}

#[test]
fn a_request_goes_on_so_long_after_its_first_half() {
    let replay = recorded();
    assert_conserved(&replay);
    assert_eq!(replay.requests.len(), 30);
    let worker = replay.threads_named("worker").unwrap()[0];
    let activations = replay.activations_of(worker);
    assert_eq!(activations.len(), 60);
    let from = replay.threads[worker.index()].activations.start;
    for (first, halves) in (from..).step_by(2).zip(activations.chunks(2)) {
        assert_eq!(halves[0].slept_before_ns, None);
        assert_eq!(halves[1].slept_before_ns, Some(4_000_000));
        let later = Step::Later(ActivationId(first + 1));
        assert_eq!(replay.steps_of(&halves[0]).last(), Some(&later));
    }
}

#[test]
fn a_request_that_was_held_back_is_answered_early_without_the_limit() {
    let world = played(&recorded());
    let latency = world.probes().metric("worker/request_latency").unwrap();
    assert_eq!(latency.values.count(), 30);
    let slowest_ns = latency.values.max().unwrap();
    assert!((5_000_000..5_200_000).contains(&slowest_ns), "{slowest_ns}");
}

#[test]
fn a_request_is_under_way_while_it_sleeps() {
    let mut mini = Mini::new(&[(1, "client"), (2, "accept"), (3, "worker"), (4, "worker")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 4]);
    for number in 0..25 {
        request(&mut mini, 10_000 * number, 0);
    }
    // The next one comes while the first sleeps, and is answered after it.
    let at = 250_000;
    for (at, worker) in [(at, 3), (at + 2_000, 4)] {
        mini.sends(at);
        mini.hands_over([at + 30, at + 40], 0, 2, TASK, worker);
        mini.switch(at + 540, 0, worker, "S", 0);
    }
    for (at, worker) in [(at + 4_540, 3), (at + 6_540, 4)] {
        mini.hands_over([at, at + 10], 0, 0, HARD, worker);
        mini.hands_over([at + 500, at + 510], 0, worker, SOFT, 1);
        mini.switch(at + 520, 0, 1, "S", 0);
    }
    let replay = scheduled(mini, 300_000);
    let latencies = replay.requests[25..].iter().map(|one| one.latency_ns);
    assert_eq!(latencies.collect::<Vec<u64>>(), [5_060_000, 5_060_000]);
}

#[test]
fn a_client_that_thinks_keeps_its_times() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/clients", &[], &[1]);
    mini.group("/svc", &[], &[2]);
    for at in (0..30).map(|number| 10_000 * number) {
        mini.hands_over([at, at + 10], 0, 0, HARD, 1);
        mini.hands_over([at + 60, at + 70], 0, 1, SOFT, 2);
        mini.hands_over([at + 570, at + 580], 0, 2, SOFT, 1);
        mini.switch(at + 680, 0, 1, "S", 0);
    }
    let replay = inferred(mini, 300_000);
    let slept = replay
        .activations
        .iter()
        .filter_map(|one| one.slept_before_ns);
    assert_eq!(slept.count(), 0);
}

/// Two requests of an event loop, 3 ms apart on two connections: for each it works 500 µs, sleeps
/// 4 ms behind that, works 500 µs and replies.
fn two_at_a_time(mini: &mut Mini, at: u64) {
    for (at, ends) in [(at, [0xa0, 0xb0]), (at + 3_000, [0xa1, 0xb1])] {
        mini.hands_over([at, at + 2], 0, 0, HARD, 1);
        at_socket(mini, at + 5, 1, AtSocket::Arrived, ends[1]);
        mini.waking(at + 6, 0, 1, SOFT, 2);
        at_socket(mini, at + 8, 1, AtSocket::Sent, ends[0]);
        mini.switch(at + 30, 0, 1, "S", 2);
        at_socket(mini, at + 35, 2, AtSocket::Received, ends[1]);
        mini.switch(at + 530, 0, 2, "S", 0);
    }
    for (at, ends) in [(at + 4_530, [0xa0, 0xb0]), (at + 7_530, [0xa1, 0xb1])] {
        mini.hands_over([at, at + 10], 0, 0, HARD, 2);
        at_socket(mini, at + 500, 2, AtSocket::Arrived, ends[0]);
        mini.waking(at + 501, 0, 2, SOFT, 1);
        at_socket(mini, at + 503, 2, AtSocket::Sent, ends[1]);
        mini.switch(at + 510, 0, 2, "S", 1);
        at_socket(mini, at + 515, 1, AtSocket::Received, ends[0]);
        mini.switch(at + 520, 0, 1, "S", 0);
    }
}

#[test]
fn a_loop_goes_on_so_long_after_it_took_the_request() {
    let mut mini = Mini::new(&[(1, "client"), (2, "loop")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for number in 0..25 {
        two_at_a_time(&mut mini, 20_000 * number);
    }
    let replay = scheduled(mini, 500_000);
    assert_conserved(&replay);
    assert_eq!(replay.requests.len(), 50);
    let thread = replay.threads_named("loop").unwrap()[0];
    let activations = replay.activations_of(thread);
    let from = replay.threads[thread.index()].activations.start;
    for (number, four) in (0..).zip(activations.chunks(4)) {
        let slept_ns: Vec<_> = four.iter().map(|one| one.slept_before_ns).collect();
        assert_eq!(slept_ns, [None, None, Some(4_000_000), Some(4_000_000)]);
        for half in [0, 1] {
            let last = replay.steps_of(&four[half as usize]).last();
            let later = Step::Later(ActivationId(from + 4 * number + half + 2));
            assert_eq!(last, Some(&later));
        }
    }
}

/// A request of a client that connects anew as soon as it is answered. The new connection wakes two
/// workers, of which the second has nothing to do; the first receives the request, works 500 µs,
/// sleeps 4 ms, works 500 µs and replies. In `held` µs of the first half it is held back.
fn connects_anew(mini: &mut Mini, at: u64, number: u64, held: u64) -> u64 {
    let [ours, theirs] = [0xa00, 0xb00].map(|first| first + number);
    let [worker, idle] = if number.is_multiple_of(2) {
        [3, 4]
    } else {
        [4, 3]
    };
    at_socket(mini, at + 1, 1, AtSocket::Connects, ours);
    mini.waking(at + 5, 0, 1, SOFT, worker);
    mini.waking(at + 9, 0, 1, SOFT, idle);
    at_socket(mini, at + 20, 1, AtSocket::Arrived, theirs);
    at_socket(mini, at + 21, 1, AtSocket::Sent, ours);
    mini.switch(at + 30, 0, 1, "S", idle);
    mini.switch(at + 32, 0, idle, "S", worker);
    at_socket(mini, at + 35, worker, AtSocket::Received, theirs);
    if held > 0 {
        mini.switch(at + 40, 0, worker, "R", 0);
        mini.switch(at + 40 + held, 0, 0, "R", worker);
    }
    let asleep = at + held + 532;
    mini.switch(asleep, 0, worker, "S", 0);
    mini.hands_over([asleep + 4_000, asleep + 4_010], 0, 0, HARD, worker);
    at_socket(mini, asleep + 4_500, worker, AtSocket::Arrived, ours);
    mini.waking(asleep + 4_501, 0, worker, SOFT, 1);
    at_socket(mini, asleep + 4_502, worker, AtSocket::Sent, theirs);
    mini.switch(asleep + 4_510, 0, worker, "S", 1);
    at_socket(mini, asleep + 4_515, 1, AtSocket::Received, ours);
    at_socket(mini, asleep + 4_518, 1, AtSocket::Closes, ours);
    asleep + 4_520
}

#[test]
fn a_client_that_asks_again_at_once_waits_for_the_sleep_of_its_request() {
    let mut mini = Mini::new(&[(1, "client"), (3, "worker"), (4, "worker")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[3, 4]);
    mini.waking(0, 0, 0, HARD, 1);
    mini.switch(2, 0, 0, "R", 1);
    let mut at = 5;
    for number in 0..60u64 {
        let held = if (number + 1).is_multiple_of(4) {
            20_000
        } else {
            0
        };
        at = connects_anew(&mut mini, at, number, held);
    }
    let replay = inferred(mini, at + 20);
    assert_eq!(replay.services[0].bound, Bound::Connections(1));
    let world = played(&replay);
    let latency = world.probes().metric("worker/request_latency").unwrap();
    assert_eq!(latency.values.count(), 60);
    let [least_ns, most_ns] = [latency.values.min(), latency.values.max()].map(Option::unwrap);
    assert!(least_ns > 4_900_000, "{least_ns}");
    assert!(most_ns < 5_200_000, "{most_ns}");
}

/// Two workers, of which the first has a CPU since `at`, receive a request each, work 500 µs for it
/// and sleep. After 4 ms a timer wakes the first one.
fn first_halves(mini: &mut Mini, at: u64, ends: [[u64; 2]; 2]) {
    at_socket(mini, at + 5, 3, AtSocket::Received, ends[0][1]);
    mini.switch(at + 500, 0, 3, "S", 4);
    at_socket(mini, at + 505, 4, AtSocket::Received, ends[1][1]);
    mini.switch(at + 1_000, 0, 4, "S", 0);
    mini.hands_over([at + 4_500, at + 4_510], 0, 0, HARD, 3);
}

/// The second worker replies, and the client reads both replies. Returns when it has done so.
fn second_reply(mini: &mut Mini, at: u64, ends: [[u64; 2]; 2]) -> u64 {
    at_socket(mini, at, 4, AtSocket::Arrived, ends[1][0]);
    at_socket(mini, at + 2, 4, AtSocket::Sent, ends[1][1]);
    mini.switch(at + 10, 0, 4, "S", 1);
    at_socket(mini, at + 15, 1, AtSocket::Received, ends[0][0]);
    at_socket(mini, at + 17, 1, AtSocket::Received, ends[1][0]);
    at + 20
}

/// Two requests of a client on two connections that were there before. Each worker works 500 µs for
/// its request and sleeps 4 ms. The second one's timer expires while the first works again, and it
/// waits for a lock that the first releases when it has replied.
fn waits_for_a_lock(mini: &mut Mini, at: u64) -> u64 {
    let ends = [[0xa0, 0xb0], [0xa1, 0xb1]];
    for ([ours, theirs], worker, sent) in [(ends[0], 3, at + 5), (ends[1], 4, at + 15)] {
        at_socket(mini, sent, 1, AtSocket::Arrived, theirs);
        mini.waking(sent + 1, 0, 1, SOFT, worker);
        at_socket(mini, sent + 2, 1, AtSocket::Sent, ours);
    }
    mini.switch(at + 30, 0, 1, "S", 3);
    first_halves(mini, at + 30, ends);
    mini.waking(at + 5_030, 0, 3, HARD, 4);
    mini.switch(at + 5_035, 0, 3, "R", 4);
    mini.switch(at + 5_045, 0, 4, "S", 3);
    at_socket(mini, at + 5_100, 3, AtSocket::Arrived, ends[0][0]);
    mini.waking(at + 5_101, 0, 3, SOFT, 1);
    at_socket(mini, at + 5_102, 3, AtSocket::Sent, ends[0][1]);
    mini.hands_over([at + 5_110, at + 5_115], 0, 3, TASK, 4);
    second_reply(mini, at + 5_515, ends)
}

/// Sixty times two requests, as `asked` records them of a client and the members of the recorded
/// group.
fn sixty_times(members: &[(Pid, &'static str)], asked: impl Fn(&mut Mini, u64) -> u64) -> Replay {
    let mut mini = Mini::new(&[&[(1, "client")], members].concat());
    let pids: Vec<Pid> = members.iter().map(|(pid, _)| *pid).collect();
    mini.group("/svc", &[("cpu.max", "50000 100000")], &pids);
    mini.meta.cgroup = Some("/svc".into());
    mini.waking(0, 0, 0, HARD, 1);
    mini.switch(2, 0, 0, "R", 1);
    let end = (0..60).fold(5, |at, _| asked(&mut mini, at));
    let replay = inferred(mini, end + 20);
    assert_conserved(&replay);
    replay
}

#[test]
fn a_request_that_waits_for_a_lock_behind_its_sleep_keeps_both() {
    let replay = sixty_times(&[(3, "worker"), (4, "worker")], waits_for_a_lock);
    let waits = |step: &&Step| matches!(step, Step::Wait(_));
    assert_eq!(replay.steps.iter().filter(waits).count(), 60);
    // The first half of the other request, 500 µs, may come before the end of one of 5.5 ms.
    assert_latencies(&replay, 4_900_000..6_100_000);
}

/// The latencies of 120 requests on two connections in a replay without a limit, in ns.
#[track_caller]
fn assert_latencies(replay: &Replay, within_ns: std::ops::Range<u64>) {
    assert_eq!(replay.services[0].bound, Bound::Connections(2));
    let world = played(replay);
    let latency = world.probes().metric("worker/request_latency").unwrap();
    assert_eq!(latency.values.count(), 120);
    for end in [latency.values.min(), latency.values.max()] {
        let end_ns = end.unwrap();
        assert!(within_ns.contains(&end_ns), "{end_ns}");
    }
}

/// Two requests of a client that wake a dispatcher once. It wakes a worker for each, which receives
/// its request, works 500 µs, sleeps 4 ms, works 500 µs and replies.
fn dispatched(mini: &mut Mini, at: u64) -> u64 {
    let ends = [[0xa0, 0xb0], [0xa1, 0xb1]];
    for ([ours, theirs], sent) in ends.into_iter().zip([at + 5, at + 15]) {
        at_socket(mini, sent, 1, AtSocket::Arrived, theirs);
        if sent == at + 5 {
            mini.waking(sent + 1, 0, 1, SOFT, 2);
        }
        at_socket(mini, sent + 2, 1, AtSocket::Sent, ours);
    }
    mini.switch(at + 30, 0, 1, "S", 2);
    mini.waking(at + 40, 0, 2, TASK, 3);
    mini.waking(at + 45, 0, 2, TASK, 4);
    mini.switch(at + 50, 0, 2, "S", 3);
    first_halves(mini, at + 50, ends);
    at_socket(mini, at + 5_040, 3, AtSocket::Arrived, ends[0][0]);
    mini.waking(at + 5_041, 0, 3, SOFT, 1);
    at_socket(mini, at + 5_042, 3, AtSocket::Sent, ends[0][1]);
    mini.waking(at + 5_050, 0, 3, HARD, 4);
    mini.switch(at + 5_060, 0, 3, "S", 4);
    second_reply(mini, at + 5_560, ends)
}

#[test]
fn the_thread_that_receives_a_request_sleeps_for_it() {
    let members = [(2, "main"), (3, "worker"), (4, "worker")];
    let replay = sixty_times(&members, dispatched);
    assert_latencies(&replay, 4_900_000..6_100_000);
}
