//! Clients that ask again when the last reply has come.

use super::services::{event_loop, played};
use super::*;
use schedcast_trace::Request;

/// Forty requests of one connection, 5 ms apart, that take 135 µs each; the piles belong to others.
fn replayed(client_loop: ClientLoop, work_permille: u64) -> Replay {
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
    let mut replay = infer(&recording, &options).unwrap();
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
    assert_eq!(replay.services[0].closed_loop, Some(1));
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
