//! Services that ask threads of another group, which may be under a limit of its own.

use super::services::{open, played, played_under, put_log};
use super::*;
use schedcast_sim::World;

/// A proxy and the backend that it asks, on a connection of their own.
type Pair = [i32; 2];
const PAIRS: [Pair; 2] = [[2, 3], [4, 5]];

/// The timer of the client wakes it, and it sends to a proxy, which asks its backend 30 µs later.
fn asks(mini: &mut Mini, at: u64, [proxy, backend]: Pair) {
    mini.hands_over([at, at + 2], 0, 0, HARD, 1);
    mini.hands_over([at + 10, at + 20], 0, 1, SOFT, proxy);
    mini.hands_over([at + 40, at + 50], 0, proxy, SOFT, backend);
}

/// A backend answers at `at`, and its proxy passes the answer on to the client.
fn answers(mini: &mut Mini, at: u64, [proxy, backend]: Pair) {
    mini.hands_over([at, at + 10], 0, backend, SOFT, proxy);
    mini.hands_over([at + 30, at + 40], 0, proxy, SOFT, 1);
    mini.switch(at + 50, 0, 1, "S", 0);
}

/// Two requests reach backends that are throttled for 60 ms, and a third finds no free proxy. The
/// one that is free first takes it at once.
fn pile(mini: &mut Mini, at: u64) -> [[u64; 3]; 3] {
    let [first, second] = PAIRS;
    asks(mini, at, first);
    mini.switch(at + 60, 0, first[1], "R", 0); // throttled
    asks(mini, at + 5_000, second);
    mini.switch(at + 5_060, 0, second[1], "R", 0); // throttled
    mini.hands_over([at + 9_000, at + 9_002], 0, 0, HARD, 1);
    mini.switch(at + 9_012, 0, 1, "S", 0); // sent, and nobody to wake
    mini.switch(at + 60_000, 0, 0, "R", first[1]);
    mini.hands_over([at + 61_000, at + 61_010], 0, first[1], SOFT, first[0]);
    mini.waking(at + 61_030, 0, first[0], SOFT, 1);
    mini.switch(at + 61_035, 0, first[0], "R", 1);
    mini.switch(at + 61_045, 0, 1, "S", first[0]);
    mini.waking(at + 61_060, 0, first[0], SOFT, first[1]);
    mini.switch(at + 61_070, 0, first[0], "S", second[1]);
    answers(mini, at + 62_000, second);
    mini.switch(at + 62_060, 0, 0, "R", first[1]);
    answers(mini, at + 63_000, first);
    [
        [at, at + 8, at + 61_040],
        [at + 5_000, at + 5_008, at + 62_045],
        [at + 9_000, at + 9_008, at + 63_045],
    ]
}

const SINGLES: u64 = 50;
const PILES_AT: u64 = 5_000 * SINGLES;

/// Proxies in `/px`, and backends with a limit in `/svc`.
fn proxied() -> Replay {
    let names = [
        (1, "client"),
        (2, "proxy"),
        (3, "backend"),
        (4, "proxy"),
        (5, "backend"),
    ];
    let mut mini = Mini::new(&names);
    mini.group("/px", &[], &[2, 4]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[3, 5]);
    let mut rows: Vec<[u64; 3]> = Vec::new();
    for number in 0..SINGLES {
        let (at, pair) = (5_000 * number, PAIRS[number as usize % 2]);
        asks(&mut mini, at, pair);
        answers(&mut mini, at + 1_050, pair);
        rows.push([at, at + 8, at + 1_095]);
    }
    for number in 0..5 {
        rows.extend(pile(&mut mini, PILES_AT + 100_000 * number));
    }
    let mut recording = mini.recording(PILES_AT + 500_000);
    put_log(&mut recording, 1_000, &rows);
    infer(&recording, &open()).unwrap()
}

#[test]
fn a_proxy_waits_for_a_backend_in_another_group() {
    let replay = proxied();
    assert_conserved(&replay);
    let client = replay.threads_named("client").unwrap();
    let service = replay.services.iter().find(|one| one.subject == "proxy");
    assert_eq!(service.unwrap().clients, client);
    let backends = replay.threads_named("backend").unwrap();
    let replies = |one: &&Activation| {
        let mut steps = replay.steps_of(one).iter();
        steps.any(|step| matches!(step, Step::Reply(_)))
    };
    for one in replay.activations.iter().filter(replies) {
        assert!(matches!(one.trigger, Trigger::Thread(by) if backends.contains(&by)));
    }
    // The third request of a pile is waited for before its backend is asked.
    let mut waits = replay.steps.iter().filter_map(|step| match step {
        Step::Await(request) => Some(replay.requests[request.index()].arrives_ns / 1_000),
        _ => None,
    });
    assert_eq!(waits.next(), Some(PILES_AT + 9_008));
    assert_eq!(waits.count(), 4);
}

#[test]
fn the_clients_of_a_proxy_see_the_limit_of_its_backend() {
    let replay = proxied();
    let longest_ns = |world: &World| {
        let metric = world.probes().metric("proxy/request_latency").unwrap();
        (metric.values.count(), metric.values.max().unwrap())
    };
    let (finished, longest) = longest_ns(&played(&replay));
    assert_eq!(finished, SINGLES + 3 * 5);
    assert!(longest < 5_000_000, "{longest} ns");
    // A request takes a backend 1 ms, and 50 of them come in the first 250 ms.
    let tight = played_under(&replay, Some(5_000_000));
    assert!(longest_ns(&tight).1 > 80_000_000);
}
