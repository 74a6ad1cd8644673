//! Clients that wait for an answer before they ask again, run in the simulator.

use super::*;
use schedcast_trace::{Recording, Request};

const REQUESTS: u64 = 25;
/// Time between two requests.
const PERIOD_US: u64 = 5_000;

/// A client asks its server every 5 ms for 1 ms of work. The answer to the last but one request
/// comes after 8 ms, because the server was throttled; the last request, scheduled 5 ms after it,
/// was therefore sent 3 ms late, with the handling of that answer.
fn recording() -> (Recording, u64) {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/limited", &[("cpu.max", "1000 10000")], &[2]);
    let mut log = Vec::new();
    let mut at = 1_000; // both sleep before it begins
    for _ in 0..REQUESTS {
        ask(&mut mini, at);
        mini.switch(at + 80, 0, 1, "S", 2);
        answer(&mut mini, at + 80, 1_000);
        log.push((at + 10, at + 60, at + 1_090));
        at += PERIOD_US;
    }
    ask(&mut mini, at);
    mini.switch(at + 80, 0, 1, "S", 2);
    mini.switch(at + 500, 0, 2, "R", 0);
    mini.switch(at + 7_500, 0, 0, "R", 2);
    mini.hands_over([at + 8_080, at + 8_090], 0, 2, TASK, 1);
    mini.hands_over([at + 8_110, at + 8_120], 0, 1, TASK, 2);
    answer(&mut mini, at + 8_120, 1_000);
    log.push((at + 10, at + 60, at + 8_090));
    log.push((at + PERIOD_US, at + 8_110, at + 9_130));
    let mut recording = mini.recording(at + 20_000);
    recording.requests = Some(
        log.into_iter()
            .map(|(scheduled, sent, replied)| Request {
                client: 7,
                scheduled_us: 1_000_000_000 + scheduled,
                sent_us: 1_000_000_000 + sent,
                replied_us: 1_000_000_000 + replied,
            })
            .collect(),
    );
    (recording, at)
}

pub(super) fn ask(mini: &mut Mini, at: u64) {
    mini.hands_over([at, at], 0, 0, HARD, 1);
    mini.waking(at + 60, 0, 1, TASK, 2);
}

pub(super) fn answer(mini: &mut Mini, at: u64, work: u64) {
    mini.hands_over([at + work, at + work + 10], 0, 2, TASK, 1);
    mini.switch(at + work + 30, 0, 1, "S", 0);
}

/// How many answers the server of a replay gives when nothing but work costs time, and when it
/// gives the last one in µs, under `quota_us` of every 10 ms.
fn answers(replay: &Replay, quota_us: Option<u64>) -> (u64, u64) {
    let (mut workload, compiled) = compiled(replay);
    let group = compiled.groups[replay.group("/limited").unwrap().index()];
    let limited = &mut workload.groups[group.index() - 1];
    limited.limit.quota_ns = quota_us.map(|us| us * 1000);
    limited.period_phase_ns = Some(0);
    let mut world = on_a_free_cpu(workload);
    world
        .run_until(compiled.duration_ns + 1_000_000_000)
        .unwrap();
    let replies = world.probes().metric("server/reply_latency").unwrap();
    let (_, last_ns) = replies.span.unwrap();
    (replies.values.count(), last_ns / 1000)
}

/// Client and server share a CPU, so either may wait for the few µs the other has to do.
fn assert_soon_after(time: u64, expected: u64) {
    assert!((expected..expected + 200).contains(&time), "{time}");
}

#[test]
fn an_exchange_is_found_with_its_log() {
    let (recording, at) = recording();
    let replay = infer(&recording, &InferOptions::default()).unwrap();
    let [exchange] = &replay.exchanges[..] else {
        panic!("one exchange: {:?}", replay.exchanges);
    };
    assert_eq!(replay.threads[exchange.client.index()].name, "client");
    assert_eq!(replay.threads[exchange.servers[0].index()].name, "server");
    assert_eq!(exchange.requests.len() as u64, REQUESTS + 2);
    let bounds: Vec<Option<u64>> = exchange.requests.iter().map(|r| r.not_before_ns).collect();
    let (last, others) = bounds.split_last().unwrap();
    assert_eq!(*last, Some((at + PERIOD_US) * 1000));
    assert!(others.iter().all(Option::is_none), "{others:?}");
}

#[test]
fn without_a_limit_the_late_request_comes_at_its_schedule() {
    let (recording, at) = recording();
    let replay = infer(&recording, &InferOptions::default()).unwrap();
    let (count, last) = answers(&replay, None);
    assert_eq!(count, REQUESTS + 2);
    assert_soon_after(last, at + PERIOD_US + 1_000);
}

#[test]
fn without_the_log_it_follows_the_answer() {
    let (mut recording, at) = recording();
    recording.requests = None;
    let replay = infer(&recording, &InferOptions::default()).unwrap();
    let (count, last) = answers(&replay, None);
    assert_eq!(count, REQUESTS + 2);
    // Answered 1000 µs after it was asked; the client asks again after 20 µs, and 1000 µs later the
    // server answers again.
    assert_soon_after(last, at + 60 + 1_000 + 20 + 1_000);
}

#[test]
fn under_a_tighter_limit_each_request_waits_for_the_answer() {
    let (recording, at) = recording();
    let replay = infer(&recording, &InferOptions::default()).unwrap();
    let (count, last) = answers(&replay, Some(1_000));
    assert_eq!(count, REQUESTS + 2, "late, but all of them");
    // A request needs 1.01 ms and the group gets 1 ms in 10: one answer a period.
    assert!(last > 2 * at, "{last}");
}

#[test]
fn a_log_of_other_requests_is_not_believed() {
    let (mut recording, _) = recording();
    for request in recording.requests.iter_mut().flatten() {
        request.sent_us += 2_500;
    }
    let replay = infer(&recording, &InferOptions::default()).unwrap();
    let known = replay.exchanges[0]
        .requests
        .iter()
        .filter(|r| r.not_before_ns.is_some())
        .count();
    assert_eq!(known, 0);
}

#[test]
fn threads_that_only_answer_each_other_are_no_exchange() {
    let mut mini = Mini::new(&[(1, "ping"), (2, "pong")]);
    mini.hands_over([0, 0], 0, 0, HARD, 1);
    for turn in 0..60 {
        let at = 10 + turn * 20;
        mini.hands_over([at, at + 1], 0, 1, TASK, 2);
        mini.hands_over([at + 10, at + 11], 0, 2, TASK, 1);
    }
    let replay = inferred(mini, 2_000);
    assert_eq!(replay.exchanges, []);
}

/// A client that asks two servers, 60 requests 2 ms apart of 1 ms each. `choose` says which server
/// gets the n-th request; both have answered long before they are asked again.
fn two_servers(choose: impl Fn(u64) -> i32) -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "server")]);
    mini.group("/limited", &[("cpu.max", "1000 10000")], &[2, 3]);
    for n in 0..60 {
        let (at, server) = (1_000 + n * 2_000, choose(n));
        mini.hands_over([at, at], 0, 0, HARD, 1);
        mini.hands_over([at + 60, at + 80], 0, 1, TASK, server);
        mini.hands_over([at + 1_080, at + 1_090], 0, server, TASK, 1);
        mini.switch(at + 1_110, 0, 1, "S", 0);
    }
    inferred(mini, 125_000)
}

#[test]
fn servers_that_are_asked_in_turn_are_a_pool() {
    let replay = two_servers(|n| 2 + (n % 2) as i32);
    let [pool] = &replay.exchanges[..] else {
        panic!("one pool: {:?}", replay.exchanges);
    };
    assert_eq!(pool.servers, [ThreadId(1), ThreadId(2)]);
    assert_eq!(pool.requests.len(), 60);
    let (workload, _) = compiled(&replay);
    assert_eq!(workload.check(1), Ok(()));
    assert_eq!(workload.tasks[1].program, workload.tasks[2].program);
    assert_ne!(workload.tasks[0].program, workload.tasks[1].program);
    for quota_us in [None, Some(1_000), Some(5_000)] {
        let (count, _) = answers(&replay, quota_us);
        assert_eq!(count, 60, "quota {quota_us:?}");
    }
}

#[test]
fn servers_that_are_asked_by_another_rule_are_no_pool() {
    // Three in a row for each: the one that was free longest is passed over most of the time.
    let replay = two_servers(|n| 2 + (n / 3 % 2) as i32);
    let servers: Vec<usize> = replay.exchanges.iter().map(|e| e.servers.len()).collect();
    assert_eq!(servers, [1, 1]);
    let (count, _) = answers(&replay, Some(1_000));
    assert_eq!(count, 60);
}

#[test]
fn a_pool_sends_to_the_server_that_is_free() {
    // Of a pool of two, each request costs 1.01 ms. With 2.2 ms of quota in 10 ms two requests are
    // answered in a period; the client's third request finds both servers busy and waits for the
    // first to answer, so that about one is answered every 5 ms.
    let replay = two_servers(|n| 2 + (n % 2) as i32);
    let (count, last) = answers(&replay, Some(2_200));
    assert_eq!(count, 60);
    let expected = 60 * 1_010 * 10_000 / 2_200;
    assert!(last.abs_diff(expected) < 15_000, "{last} {expected}");
}
