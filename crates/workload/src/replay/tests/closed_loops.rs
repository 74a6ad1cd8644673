//! Clients that ask again when the last reply has come.

use super::super::service::Served;
use super::services::{event_loop, played};
use super::*;
use schedcast_trace::{AtSocket, EventKind, Pid, Request};

/// Forty requests of one connection, 5 ms apart, that take 135 µs each; the piles belong to others.
pub(super) fn replayed(client_loop: ClientLoop, work_permille: u64) -> Replay {
    let (mini, piles) = event_loop(40);
    let mut recording = mini.recording(piles + 500_000);
    let start_us = recording.meta.start_ns.unwrap() / 1000;
    let singles = (0..40).map(|number| Request {
        client: 0,
        scheduled_us: start_us + 5_000 * number,
        sent_us: start_us + 5_000 * number + 8,
        replied_us: start_us + 5_000 * number + 135,
    });
    recording.requests = Some(singles.collect());
    let options = InferOptions {
        client_loop,
        ..InferOptions::default()
    };
    with_work(infer(&recording, &options).unwrap(), work_permille)
}

/// A replay whose threads work so much longer.
pub(super) fn with_work(mut replay: Replay, work_permille: u64) -> Replay {
    let adjust = Adjust {
        work_permille,
        ..Adjust::default()
    };
    adjust.apply(&mut replay).unwrap();
    replay
}

#[test]
fn a_slower_service_is_asked_later_and_does_not_fall_behind() {
    // 100 µs of work become 10 ms, twice the time between two requests.
    let latencies = |client_loop| {
        let world = played(&replayed(client_loop, 100_000));
        let latency = world.probes().metric("server/request_latency").unwrap();
        (latency.values.count(), latency.values.max().unwrap())
    };
    let (requests, slowest_ns) = latencies(ClientLoop::Open);
    assert_eq!(requests, 40);
    assert!(slowest_ns > 39 * 5_000_000, "{slowest_ns} ns");
    // The piles, which take 51 ms each now, are in the way of some; the next is sent later then.
    let (requests, slowest_ns) = latencies(ClientLoop::Closed);
    assert!((20..40).contains(&requests), "{requests}");
    assert!(slowest_ns < 100_000_000, "{slowest_ns} ns");
}

#[test]
fn the_time_to_think_is_kept() {
    let replay = replayed(ClientLoop::Closed, 1_000);
    assert_eq!(replay.services[0].bound, Bound::Connections(1));
    assert_eq!(replay.requests[0].follows, None);
    for (number, served) in (0..).zip(&replay.requests).skip(1) {
        let follows = served.follows.unwrap();
        assert_eq!(follows.request, RequestId(number - 1));
        // From the reply, 120 µs after the request before was due, to the due time of this one.
        assert_eq!(follows.after_ns, 4_880_000);
    }
    let server = replay.threads_named("server").unwrap()[0];
    let second = &replay.activations_of(server)[1];
    let follows = second.follows.unwrap();
    assert_eq!(
        (follows.request, follows.after_ns),
        (RequestId(0), 4_890_000)
    );
}

#[test]
fn requests_that_come_faster_leave_less_time_to_think() {
    let mut replay = replayed(ClientLoop::Closed, 1_000);
    let adjust = Adjust {
        rate_permille: 2_000,
        ..Adjust::default()
    };
    adjust.apply(&mut replay).unwrap();
    assert_eq!(replay.requests[1].follows.unwrap().after_ns, 2_440_000);
}

pub(super) fn at_socket(mini: &mut Mini, us: u64, pid: Pid, what: AtSocket, socket: u64) {
    at_socket_on(mini, us, 0, pid, what, socket);
}

fn at_socket_on(mini: &mut Mini, us: u64, cpu: u32, pid: Pid, what: AtSocket, socket: u64) {
    let socket = socket.into();
    mini.push(us, cpu, pid, TASK, EventKind::Socket { socket, what });
}

/// Two connections of a client that sends the next request on each when it has read the reply, as
/// events of sockets show it. A cycle takes 200 µs: the client sends at 5 and 17, and the server
/// answers at 100, which wakes the client, and at 170 µs. `renews`: each request has a connection
/// of its own.
fn without_a_rate(turns: u64, renews: bool) -> Recording {
    let mini = without_a_rate_in(turns, renews);
    mini.recording(200 * turns + 20)
}

fn without_a_rate_in(turns: u64, renews: bool) -> Mini {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2]);
    mini.waking(0, 0, 0, HARD, 1);
    mini.switch(2, 0, 0, "R", 1);
    for turn in 0..turns {
        let at = 200 * turn;
        // By connection: the client's end and the server's.
        let first = if renews { 0x100 * turn } else { 0 };
        let ends = [[0xa0, 0xb0], [0xa1, 0xb1]].map(|ends| ends.map(|end: u64| first + end));
        for ([ours, theirs], offset_us) in ends.into_iter().zip([0, 12]) {
            at_socket(&mut mini, at + offset_us + 3, 1, AtSocket::Received, ours);
            at_socket(&mut mini, at + offset_us + 5, 1, AtSocket::Arrived, theirs);
            if offset_us == 0 {
                mini.waking(at + 6, 0, 1, SOFT, 2);
            }
            at_socket(&mut mini, at + offset_us + 8, 1, AtSocket::Sent, ours);
        }
        mini.switch(at + 30, 0, 1, "S", 2);
        for ([ours, theirs], offset_us) in ends.into_iter().zip([0, 70]) {
            at_socket(
                &mut mini,
                at + offset_us + 35,
                2,
                AtSocket::Received,
                theirs,
            );
            at_socket(&mut mini, at + offset_us + 100, 2, AtSocket::Arrived, ours);
            if offset_us == 0 {
                mini.waking(at + 101, 0, 2, SOFT, 1);
            }
            at_socket(&mut mini, at + offset_us + 103, 2, AtSocket::Sent, theirs);
        }
        mini.switch(at + 180, 0, 2, "S", 1);
    }
    mini
}

#[test]
fn connecting_wakes_a_listener_for_no_request() {
    let mut mini = without_a_rate_in(60, false);
    // A pool of 40 connections, which are never used.
    for number in 0..40 {
        let at = 20_000 + 200 * number;
        at_socket(&mut mini, at, 1, AtSocket::Connects, 0xc0 + number);
        mini.waking(at + 5, 0, 1, SOFT, 2);
        mini.switch(at + 10, 0, 1, "S", 2);
        mini.switch(at + 60, 0, 2, "S", 1);
    }
    let replay = infer(&mini.recording(30_000), &InferOptions::default()).unwrap();
    assert_eq!(replay.services[0].bound, Bound::Connections(2));
    assert_eq!(replay.requests.len(), 2 * 60);
}

#[test]
fn clients_that_no_timer_wakes_ask_as_soon_as_they_are_answered() {
    for renews in [false, true] {
        let recording = without_a_rate(60, renews);
        let replay = infer(&recording, &InferOptions::default()).unwrap();
        assert_eq!(replay.services[0].bound, Bound::Connections(2));
        let after_ns = |served: &Served| served.follows.map(|follows| follows.after_ns);
        let all: Vec<Option<u64>> = replay.requests.iter().map(after_ns).collect();
        // From the waking at 101 µs to the next sending at 205, and from the answer at 170 to 217.
        assert_eq!(all[..2], [None, None]);
        let times = [Some(104_000), Some(47_000)];
        assert!(
            all[2..].chunks(2).all(|pair| pair == &times[..pair.len()]),
            "{all:?}"
        );
    }
}

/// The server is busy all the time, so that no request wakes it.
#[test]
fn a_server_that_never_sleeps_has_requests() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2]);
    mini.switch(1, 1, 0, "R", 2);
    for at in (0..60).map(|turn| 200 * turn + 100) {
        at_socket_on(&mut mini, at, 1, 2, AtSocket::Arrived, 0xa0);
        mini.waking(at + 1, 1, 2, SOFT, 1);
        at_socket_on(&mut mini, at + 3, 1, 2, AtSocket::Sent, 0xb0);
        mini.switch(at + 5, 0, 0, "R", 1);
        at_socket(&mut mini, at + 8, 1, AtSocket::Received, 0xa0);
        at_socket(&mut mini, at + 10, 1, AtSocket::Arrived, 0xb0);
        at_socket(&mut mini, at + 12, 1, AtSocket::Sent, 0xa0);
        mini.switch(at + 15, 0, 1, "S", 0);
        at_socket_on(&mut mini, at + 30, 1, 2, AtSocket::Received, 0xb0);
    }
    let replay = inferred(mini, 12_100);
    assert_eq!(replay.services[0].bound, Bound::Connections(1));
    // The last request has no reply.
    assert_eq!(replay.requests.len(), 59);
    assert_eq!(replay.requests[7].latency_ns, 198_000);
}

#[test]
fn a_client_without_a_rate_asks_less_often_of_a_slower_service() {
    let replay = infer(&without_a_rate(60, false), &InferOptions::default()).unwrap();
    let world = played(&with_work(replay, 4_000));
    let latency = world.probes().metric("server/request_latency").unwrap();
    // Both connections wait for the server's work of a whole cycle, 600 µs.
    assert!(
        (30..60).contains(&latency.values.count()),
        "{}",
        latency.values.count()
    );
    assert!(
        latency.values.max().unwrap() < 1_000_000,
        "{:?}",
        latency.values.max()
    );
}

/// A client as `hey -q`: a timer for each of three connections, all at the same time, each 5 ms. It
/// sends at 5, 55 and 105 µs, is answered at 200, 300 and 400, and reads that at 433, 453 and 473.
fn by_timers(client_loop: ClientLoop) -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2]);
    let ends = [[0xa0, 0xb0], [0xa1, 0xb1], [0xa2, 0xb2]];
    for at in (0..30).map(|turn| 5_000 * turn) {
        mini.waking(at, 0, 0, HARD, 1);
        mini.switch(at + 2, 0, 0, "R", 1);
        for ([ours, theirs], sent) in ends.into_iter().zip([5, 55, 105]) {
            at_socket(&mut mini, at + sent, 1, AtSocket::Arrived, theirs);
            if sent == 5 {
                mini.waking(at + 6, 0, 1, SOFT, 2);
            }
            at_socket(&mut mini, at + sent + 2, 1, AtSocket::Sent, ours);
        }
        mini.switch(at + 120, 0, 1, "S", 2);
        for ([ours, theirs], replied) in ends.into_iter().zip([200, 300, 400]) {
            at_socket(&mut mini, at + replied - 70, 2, AtSocket::Received, theirs);
            at_socket(&mut mini, at + replied, 2, AtSocket::Arrived, ours);
            if replied == 200 {
                mini.waking(at + 201, 0, 2, SOFT, 1);
            }
            at_socket(&mut mini, at + replied + 3, 2, AtSocket::Sent, theirs);
        }
        mini.switch(at + 430, 0, 2, "S", 1);
        for ([ours, _], read) in ends.into_iter().zip([433, 453, 473]) {
            at_socket(&mut mini, at + read, 1, AtSocket::Received, ours);
        }
        mini.switch(at + 480, 0, 1, "S", 0);
    }
    let options = InferOptions {
        client_loop,
        ..InferOptions::default()
    };
    infer(&mini.recording(150_000), &options).unwrap()
}

#[test]
fn requests_of_one_timer_are_due_when_they_are_sent() {
    let replay = by_timers(ClientLoop::AsRecorded);
    assert_eq!(replay.services[0].bound, Bound::Clients(3));
    // The first is due when the timer expires.
    let latency_us = |served: &Served| served.latency_ns / 1_000;
    let latencies: Vec<u64> = replay.requests.iter().map(latency_us).collect();
    assert_eq!(latencies[..3], [433, 398, 368]);
    assert_eq!((latencies.len(), &latencies[87..]), (90, &latencies[..3]));
}

#[test]
fn a_client_with_a_schedule_has_one_request_at_a_time() {
    let replay = by_timers(ClientLoop::AsRecorded);
    assert_eq!(replay.services[0].bound, Bound::Clients(3));
    // The work of a cycle, 460 µs, becomes 14 ms, almost three times the time between two cycles.
    let latencies_ms = |client_loop| {
        let world = played(&with_work(by_timers(client_loop), 30_000));
        let latency = world.probes().metric("server/request_latency").unwrap();
        (
            latency.values.count(),
            latency.values.max().unwrap() / 1_000_000,
        )
    };
    let (requests, slowest_ms) = latencies_ms(ClientLoop::AsRecorded);
    // Three wait at most, and each connection sends when it has its reply.
    assert!((25..40).contains(&requests), "{requests}");
    assert!((13..45).contains(&slowest_ms), "{slowest_ms} ms");
    let (_, slowest_ms) = latencies_ms(ClientLoop::Open);
    assert!(slowest_ms > 90, "{slowest_ms} ms");
}

#[test]
fn the_threads_of_a_service_keep_their_number() {
    let mut replay = by_timers(ClientLoop::AsRecorded);
    let adjust = Adjust {
        threads: Some(2),
        ..Adjust::default()
    };
    assert!(adjust.apply(&mut replay).is_err());
}

/// A loop that hands the requests of three connections to a worker, which takes 100 µs for each,
/// and replies when that is done. A client asks on each when it has its reply, for 60 cycles.
fn handed() -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "loop"), (3, "worker")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2, 3]);
    let ends = [[0xa0, 0xb0], [0xa1, 0xb1], [0xa2, 0xb2]];
    mini.waking(0, 0, 0, HARD, 1);
    mini.switch(2, 0, 0, "R", 1);
    for at in (0..60).map(|turn| 1_000 * turn) {
        for ([ours, theirs], us) in ends.into_iter().zip([5, 25, 45]) {
            at_socket(&mut mini, at + us, 1, AtSocket::Received, ours);
            at_socket(&mut mini, at + us + 2, 1, AtSocket::Arrived, theirs);
            if us == 5 {
                mini.waking(at + us + 3, 0, 1, SOFT, 2);
            }
            at_socket(&mut mini, at + us + 4, 1, AtSocket::Sent, ours);
        }
        mini.switch(at + 60, 0, 1, "S", 2);
        for ([_, theirs], us) in ends.into_iter().zip([65, 75, 85]) {
            at_socket(&mut mini, at + us, 2, AtSocket::Received, theirs);
            if us == 65 {
                mini.waking(at + us + 2, 0, 2, TASK, 3);
            }
        }
        mini.switch(at + 95, 0, 2, "S", 3);
        for ([ours, theirs], us) in ends.into_iter().zip([195, 335, 475]) {
            mini.waking(at + us, 0, 3, TASK, 2);
            mini.switch(at + us + 5, 0, 3, "S", 2);
            at_socket(&mut mini, at + us + 10, 2, AtSocket::Arrived, ours);
            if us == 195 {
                mini.waking(at + us + 11, 0, 2, SOFT, 1);
            }
            at_socket(&mut mini, at + us + 13, 2, AtSocket::Sent, theirs);
            if us < 475 {
                mini.waking(at + us + 15, 0, 2, TASK, 3);
                mini.switch(at + us + 20, 0, 2, "S", 3);
            }
        }
        mini.switch(at + 520, 0, 2, "S", 1);
    }
    infer(&mini.recording(60_500), &InferOptions::default()).unwrap()
}

#[test]
fn a_loop_replies_when_its_worker_is_done() {
    let replay = handed();
    assert_eq!(replay.services[0].bound, Bound::Connections(3));
    // The client reads each reply 1 ms after it has sent the request.
    for (permille, mean_us) in [(1_000, 990..1_010), (10_000, 8_500..9_500)] {
        let world = played(&with_work(handed(), permille));
        let latency = world.probes().metric("loop/request_latency").unwrap();
        let found_us = latency.values.mean().unwrap() as u64 / 1_000;
        assert!(mean_us.contains(&found_us), "{permille}: {found_us} us");
    }
}

/// A client that every 5 ms connects at 4 µs, says hello at 10 and, answered at 200, asks at 240 µs
/// and is answered at 400. The kernel gives it the same socket each time.
fn connecting_anew() -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2]);
    let [ours, theirs] = [0xa0, 0xb0];
    for at in (0..40).map(|turn| 5_000 * turn) {
        mini.waking(at, 0, 0, HARD, 1);
        mini.switch(at + 2, 0, 0, "R", 1);
        at_socket(&mut mini, at + 4, 1, AtSocket::Connects, ours);
        for (asked, replied) in [(10, 200), (240, 400)] {
            at_socket(&mut mini, at + asked, 1, AtSocket::Arrived, theirs);
            mini.waking(at + asked + 1, 0, 1, SOFT, 2);
            at_socket(&mut mini, at + asked + 3, 1, AtSocket::Sent, ours);
            mini.switch(at + asked + 5, 0, 1, "S", 2);
            at_socket(&mut mini, at + asked + 10, 2, AtSocket::Received, theirs);
            at_socket(&mut mini, at + replied, 2, AtSocket::Arrived, ours);
            mini.waking(at + replied + 1, 0, 2, SOFT, 1);
            at_socket(&mut mini, at + replied + 3, 2, AtSocket::Sent, theirs);
            mini.switch(at + replied + 10, 0, 2, "S", 1);
            at_socket(&mut mini, at + replied + 20, 1, AtSocket::Received, ours);
        }
        at_socket(&mut mini, at + 430, 1, AtSocket::Closes, ours);
        mini.switch(at + 440, 0, 1, "S", 0);
    }
    infer(&mini.recording(200_000), &InferOptions::default()).unwrap()
}

#[test]
fn all_that_is_said_on_a_new_connection_is_one_request() {
    let replay = connecting_anew();
    assert_eq!(replay.services[0].dialogue, Dialogue::Connection);
    let parts: Vec<(bool, bool)> = replay
        .requests
        .iter()
        .map(|served| (served.first.is_some(), served.goes_on))
        .collect();
    assert_eq!(parts.len(), 80);
    assert!(
        parts
            .chunks(2)
            .all(|two| two == [(false, true), (true, false)])
    );
    // From connecting, which the timer leads to, to the second reply.
    let last = &replay.requests[1];
    assert_eq!(last.latency_ns, 420_000);
    // The second message follows the first reply, 40 µs after that is sent.
    let follows = last.follows.unwrap();
    assert_eq!((follows.request.0, follows.after_ns), (0, 39_000));
    let latencies_ms = |replay: &Replay| {
        let world = played(replay);
        let latency = world.probes().metric("server/request_latency").unwrap();
        (
            latency.values.count(),
            latency.values.max().unwrap() as f64 / 1e6,
        )
    };
    let (requests, slowest_ms) = latencies_ms(&replay);
    assert_eq!(requests, 40);
    assert!((0.35..0.5).contains(&slowest_ms), "{slowest_ms}");
    // With six times the work both messages take six times as long, and the client's 40 µs stay.
    let (requests, slowest_ms) = latencies_ms(&with_work(connecting_anew(), 6_000));
    assert_eq!(requests, 40);
    assert!((1.8..2.6).contains(&slowest_ms), "{slowest_ms}");
}

/// A client without a rate that connects for each request. It says hello at 10 µs and more at 160,
/// before it is answered at 200, has a second answer at 300, asks at 340 and is answered at
/// 4400. Then it reads for 1.6 ms before it connects again.
fn saying_more_before_the_answer() -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2]);
    let [ours, theirs] = [0xa0, 0xb0];
    mini.switch(0, 0, 0, "R", 1);
    for at in (0..40).map(|turn| 6_000 * turn) {
        let says = |mini: &mut Mini, us: u64, wakes: bool| {
            at_socket(mini, us, 1, AtSocket::Arrived, theirs);
            if wakes {
                mini.waking(us + 1, 0, 1, SOFT, 2);
                mini.switch(us + 5, 1, 0, "R", 2);
            }
            at_socket(mini, us + 3, 1, AtSocket::Sent, ours);
        };
        let takes = |mini: &mut Mini, us| at_socket_on(mini, us, 1, 2, AtSocket::Received, theirs);
        let answers = |mini: &mut Mini, us: u64| {
            at_socket_on(mini, us, 1, 2, AtSocket::Arrived, ours);
            mini.waking(us + 1, 1, 2, SOFT, 1);
            at_socket_on(mini, us + 3, 1, 2, AtSocket::Sent, theirs);
            mini.switch(us + 4, 0, 0, "R", 1);
            at_socket(mini, us + 20, 1, AtSocket::Received, ours);
        };
        at_socket(&mut mini, at + 4, 1, AtSocket::Connects, ours);
        says(&mut mini, at + 10, true);
        takes(&mut mini, at + 20);
        says(&mut mini, at + 160, false);
        mini.switch(at + 170, 0, 1, "S", 0);
        answers(&mut mini, at + 200);
        takes(&mut mini, at + 210);
        mini.switch(at + 225, 0, 1, "S", 0);
        answers(&mut mini, at + 300);
        mini.switch(at + 310, 1, 2, "S", 0);
        says(&mut mini, at + 340, true);
        mini.switch(at + 345, 0, 1, "S", 0);
        takes(&mut mini, at + 350);
        answers(&mut mini, at + 4_400);
        mini.switch(at + 4_410, 1, 2, "S", 0);
        at_socket(&mut mini, at + 4_430, 1, AtSocket::Closes, ours);
    }
    infer(&mini.recording(240_000), &InferOptions::default()).unwrap()
}

#[test]
fn a_message_before_any_answer_comes_with_the_first_one() {
    let replay = saying_more_before_the_answer();
    let service = &replay.services[0];
    assert_eq!(
        (service.bound, service.dialogue),
        (Bound::Connections(1), Dialogue::Connection)
    );
    let follows = |place: usize| {
        let follows = replay.requests[place].follows.unwrap();
        (follows.request.0, follows.after_ns / 1_000)
    };
    // The second request's messages are the fourth to the sixth of all, 1.6 ms after the reply.
    let all: Vec<(u32, u64)> = (3..6).map(follows).collect();
    assert_eq!(all, [(2, 1_603), (2, 1_759), (4, 39)]);
    // Three times as slow, on one CPU with a client that reads three times as long, the client
    // comes later and later, and no request waits for a message that comes at its recorded time.
    let world = played(&with_work(replay, 3_000));
    let latency = world.probes().metric("server/request_latency").unwrap();
    let slowest_ms = latency.values.max().unwrap() as f64 / 1e6;
    assert!((13.0..19.0).contains(&slowest_ms), "{slowest_ms}");
}

#[test]
fn of_two_groups_that_answer_each_other_the_recorded_one_serves() {
    for recorded in ["/clients", "/svc"] {
        let mut mini = without_a_rate_in(50, false);
        mini.group("/clients", &[], &[1]);
        mini.meta.cgroup = Some(String::from(recorded));
        let replay = inferred(mini, 10_020);
        let services = replay.services.iter();
        let paths = services.map(|one| replay.groups[one.group.index()].path.as_str());
        assert_eq!(paths.collect::<Vec<_>>(), [recorded]);
    }
}
