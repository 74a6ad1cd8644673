//! Logs of requests beside a trace that tells less.

use super::services::{open, put_log};
use super::*;

/// On a busy machine a server preempts its client, which waits for the CPU when it is answered: no
/// reply wakes it. The log is the server's all the same, whoever else runs in its group.
#[test]
fn a_log_stays_with_the_threads_that_answer_it() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "sleep")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2, 3]);
    let mut rows = Vec::new();
    for number in 0..40 {
        let at = 5_000 * number;
        mini.waking(at, 0, 0, HARD, 1);
        mini.switch(at + 2, 0, 0, "R", 1);
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
