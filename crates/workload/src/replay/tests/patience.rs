//! Clients that do not wait for ever for their answers.

use super::services::{event_loop, played, scheduled};
use super::*;

const SECOND: u64 = 1_000_000_000;

/// CPU time of the threads of each name, µs, and what became of the requests of the service whose
/// replies threads of the name `replying` send: finished, failed, asked again.
fn outcome(replay: &Replay, replying: &str) -> (Vec<(String, u64)>, [u64; 3]) {
    let world = played(replay);
    let probes = world.probes();
    let used = probes.names.iter().filter(|one| one.name != "client");
    let used = used.map(|one| (one.name.clone(), one.run_ns / 1_000));
    let metric = |name: &str| probes.metric(&format!("{replying}/{name}"));
    let count = |name| metric(name).map_or(0, |metric| metric.count);
    let finished = metric("request_latency").unwrap().values.count();
    let counts = [
        finished,
        count("requests_failed"),
        count("requests_retried"),
    ];
    (used.collect(), counts)
}

fn impatient(mut replay: Replay, timeout_ns: u64, retries: u32) -> Replay {
    let adjust = Adjust {
        patience: Some(Patience {
            timeout_ns,
            retries,
        }),
        ..Adjust::default()
    };
    adjust.apply(&mut replay).unwrap();
    replay
}

/// A recording of each way to serve requests, and who replies.
fn recordings() -> [(Replay, &'static str); 3] {
    let (mini, piles) = event_loop(25);
    [
        (scheduled(mini, piles + 500_000), "server"),
        (pipeline::pipeline().0, "proxy"),
        (rounds::event_loop(5), "server"),
    ]
}

#[test]
fn what_is_asked_three_times_is_done_three_times() {
    for (replay, replying) in recordings() {
        let requests = replay.requests.len() as u64;
        let (once, counts) = outcome(&replay, replying);
        assert_eq!(counts, [requests, 0, 0]);
        // None is answered within 60 µs, in all of its attempts.
        let (thrice, counts) = outcome(&impatient(replay, 20_000, 2), replying);
        assert_eq!(counts, [requests, requests, 2 * requests]);
        assert_eq!(once.len(), thrice.len());
        for ((name, once_us), (_, thrice_us)) in once.into_iter().zip(thrice) {
            // The end of an activation, behind its last reply, is for no request.
            let least = 3 * once_us - 3 * once_us / 20;
            assert!(
                (least..=3 * once_us).contains(&thrice_us),
                "{name}: {once_us} {thrice_us}"
            );
        }
    }
}

#[test]
fn a_timeout_that_no_request_reaches_changes_nothing() {
    let closed = closed_loops::replayed(ClientLoop::Closed, 20_000);
    let all = recordings().into_iter().chain([(closed, "server")]);
    for (replay, replying) in all {
        let latency = |replay: &Replay| {
            let world = played(replay);
            let metric = format!("{replying}/request_latency");
            let values = &world.probes().metric(&metric).unwrap().values;
            (values.count(), values.max(), values.mean())
        };
        let (before, patient) = (outcome(&replay, replying), latency(&replay));
        let replay = impatient(replay, 100 * SECOND, 3);
        assert_eq!(outcome(&replay, replying), before);
        assert_eq!(latency(&replay), patient);
    }
}

#[test]
fn a_closed_loop_asks_on_when_it_has_given_up() {
    // A request takes 10 ms, and 40 of them think for 4.9 ms between: two of five in time.
    let replay = closed_loops::replayed(ClientLoop::Closed, 100_000);
    let (_, [answered, ..]) = outcome(&replay, "server");
    let (_, [finished, failed, _]) = outcome(&impatient(replay, 5_000_000, 0), "server");
    assert!(finished > answered * 5 / 4, "{finished} {answered}");
    assert_eq!(failed, finished);
}

#[test]
fn a_timeout_without_requests_is_refused() {
    let mut mini = Mini::new(&[(1, "alone")]);
    mini.wakes_for_nothing(1_000, 1);
    let mut replay = inferred(mini, 10_000);
    let adjust = Adjust {
        patience: Some(Patience {
            timeout_ns: SECOND,
            retries: 0,
        }),
        ..Adjust::default()
    };
    assert_eq!(adjust.apply(&mut replay), Err(ReplayError::NoClients));
}

#[test]
fn a_child_that_is_forked_for_its_request_is_not_asked_again() {
    let mut replay = scheduled(forked::forking(), forked::PILES_AT + 1_000_000);
    let requests = replay.requests.len();
    let patience = |retries| Adjust {
        patience: Some(Patience {
            timeout_ns: SECOND,
            retries,
        }),
        ..Adjust::default()
    };
    assert_eq!(patience(0).apply(&mut replay), Ok(()));
    let refused = patience(1).apply(&mut replay);
    assert!(
        matches!(refused, Err(ReplayError::NoRetries { unknown, .. }) if unknown > requests / 2),
        "{refused:?}"
    );
}
