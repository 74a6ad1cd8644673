//! Logs of requests beside a trace that tells less.

use super::services::{apart, of_pile, open, put_log};
use super::*;

/// On a busy machine a server preempts its client, which waits for the CPU when it is answered: no
/// reply wakes it. The log is the server's all the same, whatever else runs in its group.
#[test]
fn a_log_stays_with_the_threads_that_answer_it() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "sleep")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2, 3]);
    let mut rows = Vec::new();
    for number in 0..40 {
        let at = 5_000 * number;
        mini.hands_over([at, at + 2], 0, 0, HARD, 1);
        mini.waking(at + 10, 0, 1, SOFT, 2);
        mini.switch(at + 20, 0, 1, "R", 2);
        mini.switch(at + 120, 0, 2, "S", 1);
        mini.switch(at + 140, 0, 1, "S", 0);
        rows.push([at, at + 8, at + 130]);
        for again in 1..3 {
            mini.wakes_for_nothing(at + 1_000 * again, 3);
        }
    }
    let mut recording = mini.recording(210_000);
    put_log(&mut recording, 1, &rows);
    let replay = infer(&recording, &open()).unwrap();
    assert_eq!(replay.report.unused_log, 0);
    let figures = replay.measured();
    let mut threads = figures.threads.iter();
    let server = threads.find(|one| one.name == "server").unwrap();
    let latency = server.request_latency;
    assert_eq!((latency.count, latency.p50_ns), (40, 130_000));
}

/// The requests of [`event_loop`] from another machine, 60 µs away, with their log.
fn remote(way_back_us: u64) -> Recording {
    remote_with(way_back_us, 5)
}

/// The same with so many piles of three requests.
fn remote_with(way_back_us: u64, piles: u64) -> Recording {
    let mut mini = Mini::new(&[(2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    let mut rows: Vec<[u64; 3]> = Vec::new();
    for at in (0..25).map(|number| 5_000 * number) {
        mini.hands_over([at + 60, at + 70], 0, 0, SOFT, 2);
        mini.switch(at + 170, 0, 2, "S", 0);
        rows.push([at, at, at + 170 + way_back_us]);
    }
    for at in (0..piles).map(|number| 125_000 + 100_000 * number) {
        mini.hands_over([at + 60, at + 70], 0, 0, SOFT, 2);
        mini.switch(at + 100, 0, 2, "R", 0); // throttled
        mini.switch(at + 90_000, 0, 0, "R", 2);
        mini.switch(at + 90_500, 0, 2, "S", 0);
        for (number, replied) in (0..).zip([at + 90_070, at + 90_300, at + 90_500]) {
            let sent = at + 1_000 * number;
            rows.push([sent, sent, replied + way_back_us]);
        }
    }
    let mut recording = mini.recording(125_000 + 100_000 * piles);
    put_log(&mut recording, 4, &rows);
    recording
}

/// Its server is woken 65 times for 145 requests, and answers wake no thread.
#[test]
fn a_server_whose_answers_wake_nobody_answers_all_requests() {
    let replay = infer(&remote_with(60, 40), &InferOptions::default()).unwrap();
    assert_eq!(replay.requests.len(), 25 + 3 * 40);
    let replies = |step: &&Step| matches!(step, Step::Reply(_));
    assert_eq!(replay.steps.iter().filter(replies).count(), 25 + 3 * 40);
}

#[test]
fn a_log_shows_the_requests_of_clients_on_other_machines() {
    let recording = remote(60);
    let replay = infer(&recording, &open()).unwrap();
    assert_conserved(&replay);
    assert_eq!(replay.services.len(), 1);
    assert_eq!(replay.services[0].subject, "server");
    assert_eq!(replay.requests.len(), 25 + 3 * 5);
    let single = replay.requests[0];
    assert_eq!((single.read_ns, single.latency_ns), (60_000, 230_000));
    let (steps, RequestId(first)) = of_pile(&replay, 25);
    let second = RequestId(first + 1);
    assert_eq!(steps, apart(first, [100, 230, 200]));
    let second = replay.requests[second.index()];
    assert_eq!(second.arrives_ns, 126_000_000);
    assert_eq!(second.latency_ns, 89_360_000);
}

#[test]
fn clients_on_other_machines_need_a_log_of_this_service() {
    let mut recording = remote(60);
    recording.requests = None;
    assert!(infer(&recording, &open()).unwrap().services.is_empty());
    // Of another service: its answers come 2 ms after this one slept.
    let recording = remote(2_000);
    let replay = infer(&recording, &open()).unwrap();
    assert!(replay.services.is_empty());
    let note = |report: &Report| {
        let mut notes = report.notes().into_iter();
        notes.find(|note| note.starts_with("40 requests of the log"))
    };
    let told = note(&replay.report).unwrap();
    let reason = "of no service here do four in five of the answers fit what its threads did then";
    assert!(told.ends_with(reason), "{told}");
    let shown = Report {
        shown_requests: 82,
        ..replay.report
    };
    let told = note(&shown).unwrap();
    assert!(told.ends_with("; the 82 requests that the trace shows are replayed"));
}

#[test]
fn clients_may_be_a_new_process_for_each_request() {
    let clients: Vec<(i32, &str)> = (100..125).map(|pid| (pid, "curl")).collect();
    let mut mini = Mini::new(&[&clients[..], &[(2, "server")]].concat());
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    let mut rows = Vec::new();
    for (at, (client, _)) in (0..25).map(|number| 5_000 * number).zip(&clients) {
        mini.hands_over([at, at + 2], 0, 0, HARD, *client);
        mini.hands_over([at + 10, at + 20], 0, *client, SOFT, 2);
        mini.hands_over([at + 120, at + 130], 0, 2, SOFT, *client);
        mini.switch(at + 140, 0, *client, "X", 0);
        rows.push([at + 8, at + 8, at + 135]);
    }
    let mut recording = mini.recording(130_000);
    put_log(&mut recording, 25, &rows);
    let replay = infer(&recording, &open()).unwrap();
    assert_eq!(replay.services.len(), 1);
    assert_eq!(replay.services[0].clients.len(), 25);
    assert_eq!(replay.requests.len(), 25);
    assert_eq!(replay.requests[7].latency_ns, 127_000);
}
