//! Services that several kinds of clients ask.

use super::closed_loops::{at_socket, with_work};
use super::services::played;
use super::*;
use schedcast_trace::AtSocket;

/// Pids of the threads.
const LD: i32 = 1;
const AB: i32 = 2;
const SERVER: i32 = 3;

/// Both ends of a connection, the client's first.
const KEPT: [u64; 2] = [0xa0, 0xb0];
const RENEWED: [u64; 2] = [0xa1, 0xb1];

/// On one CPU, `ld` asks by a timer every 5 ms, over a connection that it keeps, and `ab` connects
/// again when it has been answered. `ab` asks first in each 5 ms and is answered after 200 µs, and
/// `ld` after 600; then 21 requests of `ab` take 150 µs each.
fn ab_beside_ld() -> Replay {
    let mut mini = Mini::new(&[(LD, "ld"), (AB, "ab"), (SERVER, "server")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[SERVER]);
    mini.switch(0, 0, 0, "R", AB);
    for at in (0..30).map(|turn| 5_000 * turn) {
        let sends = |mini: &mut Mini, us: u64, by: i32, [ours, theirs]: [u64; 2], wakes: bool| {
            at_socket(mini, us, by, AtSocket::Arrived, theirs);
            if wakes {
                mini.waking(us + 1, 0, by, SOFT, SERVER);
            }
            at_socket(mini, us + 2, by, AtSocket::Sent, ours);
        };
        let answers = |mini: &mut Mini, us: u64, [ours, theirs]: [u64; 2], to: i32| {
            at_socket(mini, us, SERVER, AtSocket::Arrived, ours);
            mini.waking(us + 1, 0, SERVER, SOFT, to);
            at_socket(mini, us + 2, SERVER, AtSocket::Sent, theirs);
        };
        let reads = |mini: &mut Mini, us: u64| {
            at_socket(mini, us, AB, AtSocket::Received, RENEWED[0]);
            at_socket(mini, us + 5, AB, AtSocket::Closes, RENEWED[0]);
        };
        mini.waking(at + 2, 0, AB, HARD, LD);
        at_socket(&mut mini, at + 4, AB, AtSocket::Connects, RENEWED[0]);
        sends(&mut mini, at + 10, AB, RENEWED, true);
        mini.switch(at + 15, 0, AB, "S", LD);
        sends(&mut mini, at + 20, LD, KEPT, false);
        mini.switch(at + 30, 0, LD, "S", SERVER);
        at_socket(&mut mini, at + 40, SERVER, AtSocket::Received, RENEWED[1]);
        answers(&mut mini, at + 200, RENEWED, AB);
        at_socket(&mut mini, at + 210, SERVER, AtSocket::Received, KEPT[1]);
        answers(&mut mini, at + 600, KEPT, LD);
        mini.switch(at + 610, 0, SERVER, "S", AB);
        reads(&mut mini, at + 615);
        mini.switch(at + 621, 0, AB, "R", LD);
        at_socket(&mut mini, at + 625, LD, AtSocket::Received, KEPT[0]);
        mini.switch(at + 630, 0, LD, "S", AB);
        for at in (0..21).map(|turn| at + 640 + 200 * turn) {
            at_socket(&mut mini, at, AB, AtSocket::Connects, RENEWED[0]);
            sends(&mut mini, at + 10, AB, RENEWED, true);
            mini.switch(at + 15, 0, AB, "S", SERVER);
            at_socket(&mut mini, at + 25, SERVER, AtSocket::Received, RENEWED[1]);
            answers(&mut mini, at + 150, RENEWED, AB);
            mini.switch(at + 160, 0, SERVER, "S", AB);
            reads(&mut mini, at + 170);
        }
    }
    infer(&mini.recording(150_000), &InferOptions::default()).unwrap()
}

#[test]
fn each_kind_of_clients_asks_in_its_own_way() {
    let replay = ab_beside_ld();
    let kinds = replay.services[0].kinds.iter();
    let kinds: Vec<(&str, Bound, Dialogue)> = kinds
        .map(|kind| (kind.subject.as_str(), kind.bound, kind.dialogue))
        .collect();
    assert_eq!(
        kinds,
        [
            (
                "server from ab",
                Bound::Connections(1),
                Dialogue::Connection
            ),
            ("server from ld", Bound::None, Dialogue::None),
        ]
    );
    let figures = replay.measured();
    let of = |name: &str| figures.threads.iter().find(|one| one.name == name).unwrap();
    let [all, ab, ld] = ["server", "server from ab", "server from ld"].map(of);
    assert_eq!(
        (ab.request_latency.count, ld.request_latency.count),
        (660, 30)
    );
    assert_eq!(all.request_latency.count, 690);
    assert_eq!(ld.request_latency.p50_ns, 623_000);
}

/// `ab` asks less often of a server that is slower, and `ld` asks at its times: it waits for the
/// request of `ab` that is under way, and for none that came before its own in the recording.
#[test]
fn a_schedule_does_not_wait_for_a_closed_loop() {
    for (permille, mean_us) in [(1_000, 450..700), (4_000, 1_800..2_600)] {
        let world = played(&with_work(ab_beside_ld(), permille));
        let latency = |name: &str| {
            let metric = format!("{name}/request_latency");
            world.probes().metric(&metric).unwrap().values.clone()
        };
        let [all, ab, ld] = ["server", "server from ab", "server from ld"].map(latency);
        assert_eq!(all.count(), ab.count() + ld.count());
        assert_eq!(ld.count(), 30, "{permille}");
        assert_eq!(ab.count() < 400, permille == 4_000, "{}", ab.count());
        let found_us = ld.mean().unwrap() as u64 / 1_000;
        assert!(mean_us.contains(&found_us), "{permille}: {found_us} us");
    }
}

#[test]
fn a_client_that_gives_up_is_counted_for_its_kind_too() {
    let mut replay = ab_beside_ld();
    let adjust = Adjust {
        patience: Some(Patience {
            timeout_ns: 10_000_000,
            retries: 0,
        }),
        ..Adjust::default()
    };
    adjust.apply(&mut replay).unwrap();
    let world = played(&replay);
    let count = |name: &str| {
        let metric = format!("{name}/request_latency");
        world.probes().metric(&metric).unwrap().values.count()
    };
    assert_eq!(count("server from ld"), 30);
    assert_eq!(count("server"), count("server from ab") + 30);
}
