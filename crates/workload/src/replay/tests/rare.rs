//! Work of threads that run seldom.

use super::*;
use crate::replay::{Adjust, Piece};
use schedcast_trace::ThreadTimes;

const MS: u64 = 1_000_000;

/// A server with 80 requests in 800 ms, each 1 ms long; a helper in every tenth of them; a
/// housekeeper that runs 100 µs every 50 ms; a compiler that runs once, for 6 ms. Another compiler
/// is there and does not run.
fn recorded(age_ms: u64) -> (Recording, Replay) {
    let names = [
        (1, "server"),
        (2, "helper"),
        (3, "housekeeper"),
        (4, "compiler"),
    ];
    let mut mini = Mini::new(&names);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[1, 2, 3, 4, 5]);
    let mut run = |at: u64, pid: i32, length: u64| {
        mini.hands_over([at, at + 1], 0, 0, HARD, pid);
        mini.switch(at + 1 + length, 0, pid, "S", 0);
    };
    for number in 0..80 {
        let at = number * 10_000;
        run(at, 1, 1_000);
        if number % 10 == 5 {
            run(at + 7_000, 2, 500);
        }
        if number % 5 == 2 {
            run(at + 8_000, 3, 100);
        }
        if number == 30 {
            run(at + 2_000, 4, 4_900);
        }
    }
    // The server's average is more than what it uses here; it serves, and does not count.
    for (pid, comm, cpu_ms) in [
        (1, "server", 3_000),
        (2, "helper", 10),
        (3, "housekeeper", 30),
        (4, "compiler", 100),
        (5, "optimizer", 60),
    ] {
        let times = ThreadTimes {
            comm: comm.to_owned(),
            cpu_ns: cpu_ms * MS,
            age_ns: age_ms * MS,
        };
        mini.meta.thread_times.insert(pid, times);
    }
    let recording = mini.recording(800_000);
    let replay = infer(&recording, &InferOptions::default()).unwrap();
    (recording, replay)
}

#[test]
fn what_seldom_runs_may_come_up_to_all_it_ever_used_or_twenty_times_its_average() {
    let rare = |age_ms: u64| {
        let (recording, replay) = recorded(age_ms);
        replay.rare(&recording, GroupIndex(1), "server").unwrap()
    };
    let young = rare(20_000);
    let named: Vec<&str> = young.threads.iter().map(String::as_str).collect();
    assert_eq!(named, ["compiler", "optimizer"]);
    assert_eq!(young.used_ns, 160 * MS);
    assert_eq!(young.shown_ns, 4_900_000);
    // 6.4 ms in 0.8 s on average, and 20 times that; all of it is more.
    assert_eq!(young.piece_ns, 128 * MS - 4_900_000);
    assert_eq!(rare(10_000).piece_ns, 160 * MS - 4_900_000);
}

#[test]
fn no_rare_work_is_known_without_a_recorder_that_read_it() {
    let (mut recording, replay) = recorded(20_000);
    recording.meta.thread_times.clear();
    assert_eq!(replay.rare(&recording, GroupIndex(1), "server"), None);
}

#[test]
fn a_piece_runs_in_the_group_at_its_time() {
    let (_, mut replay) = recorded(20_000);
    let piece = Piece {
        group: "/svc".to_owned(),
        at_ns: 300 * MS,
        work_ns: 100 * MS,
    };
    let adjust = Adjust {
        piece: Some(piece),
        ..Adjust::default()
    };
    adjust.apply(&mut replay).unwrap();
    let [thread] = replay.threads_named("(rare work)").unwrap()[..] else {
        panic!("one thread does it");
    };
    assert_eq!(replay.threads[thread.index()].group, GroupIndex(1));
    let [activation] = replay.activations_of(thread) else {
        panic!("in one activation");
    };
    assert_eq!(activation.woken_ns, 300 * MS);
    assert_eq!(
        replay.steps_of(activation),
        [Step::Run { work_ns: 100 * MS }]
    );
}
