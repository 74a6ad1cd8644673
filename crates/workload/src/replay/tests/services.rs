//! Messages over sockets, and requests of event loops.

use super::*;
use crate::replay::service::Served;
use schedcast_base::assert_in;
use schedcast_sim::World;
use schedcast_trace::Request;

/// One request to an event loop with nothing else to do: due at `at`, 100 µs of work, read 20 µs
/// later.
pub(super) fn single(mini: &mut Mini, at: u64) {
    mini.sends(at);
    mini.hands_over([at + 120, at + 130], 0, 2, SOFT, 1);
    mini.switch(at + 140, 0, 1, "S", 0);
}

/// Three requests, due at `at`, 1 and 2 ms later, that are served 90 ms later in one activation.
fn pile(mini: &mut Mini, at: u64) {
    mini.sends(at);
    mini.switch(at + 50, 0, 2, "R", 0); // throttled
    for due in [at + 1_000, at + 2_000] {
        mini.hands_over([due, due + 2], 0, 0, HARD, 1);
        mini.switch(due + 12, 0, 1, "S", 0); // sent, and nobody to wake
    }
    mini.switch(at + 90_000, 0, 0, "R", 2);
    for (replied, state) in [(at + 90_070, "R"), (at + 90_300, "R"), (at + 90_500, "S")] {
        mini.waking(replied, 0, 2, SOFT, 1);
        mini.switch(replied + 5, 0, 2, state, 1);
        let next = if state == "R" { 2 } else { 0 };
        mini.switch(replied + 15, 0, 1, "S", next);
    }
}

/// An event loop in `/svc` with `singles` requests, 5 ms apart, and then five piles.
pub(super) fn event_loop(singles: u64) -> (Mini, u64) {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for number in 0..singles {
        single(&mut mini, 5_000 * number);
    }
    let piles = 5_000 * singles;
    for number in 0..5 {
        pile(&mut mini, piles + 100_000 * number);
    }
    (mini, piles)
}

/// Replay of a client that keeps a schedule and sends no request while a pile waits.
pub(super) fn scheduled(mini: Mini, end_us: u64) -> Replay {
    infer(&mini.recording(end_us), &open()).unwrap()
}

pub(super) fn open() -> InferOptions {
    InferOptions {
        client_loop: ClientLoop::Open,
        ..InferOptions::default()
    }
}

/// A log beside a recording: requests that are due, sent and answered at `rows`, in µs since its
/// start, on the connections in turn.
pub(super) fn put_log(recording: &mut Recording, connections: u32, rows: &[[u64; 3]]) {
    let start_us = recording.meta.start_ns.unwrap() / 1000;
    let request = |(number, row): (u32, &[u64; 3])| Request {
        client: number % connections,
        scheduled_us: start_us + row[0],
        sent_us: start_us + row[1],
        replied_us: start_us + row[2],
    };
    recording.requests = Some((0..).zip(rows).map(request).collect());
}

/// Steps of a pile that is told apart: work of so many µs for each of the requests from `first` on,
/// of which the later ones are waited for.
pub(super) fn apart(first: u32, works: [u64; 3]) -> Vec<Step> {
    let [one, two, three] = [0, 1, 2].map(|next| RequestId(first + next));
    vec![
        run(works[0]),
        Step::Reply(one),
        Step::Await(two),
        run(works[1]),
        Step::Reply(two),
        Step::Await(three),
        run(works[2]),
        Step::Reply(three),
    ]
}

/// Steps of a pile's activation, and the request of its first reply.
pub(super) fn of_pile(replay: &Replay, singles: usize) -> (Vec<Step>, RequestId) {
    let (trigger, _, steps) = of(replay, "server").swap_remove(singles);
    assert!(trigger.is_softirq());
    let first = steps.iter().find_map(|step| match step {
        Step::Reply(request) => Some(*request),
        _ => None,
    });
    let steps = steps
        .into_iter()
        .filter(|step| !matches!(step, Step::Wake(_)));
    (steps.collect(), first.expect("a reply"))
}

#[test]
fn a_softirq_is_a_message_of_the_thread_it_follows() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    for number in 0..30 {
        single(&mut mini, 5_000 * number);
    }
    let replay = inferred(mini, 200_000);
    let client = replay.threads_named("client").unwrap()[0];
    let triggers = of(&replay, "server");
    assert!(
        triggers
            .iter()
            .all(|(trigger, ..)| *trigger == Trigger::Thread(client))
    );
}

#[test]
fn a_softirq_that_hits_anybody_comes_from_outside() {
    let mut mini = Mini::new(&[(1, "busy"), (2, "server")]);
    // A packet each millisecond, whichever task runs: every other millisecond none does.
    for number in 0..60 {
        let at = 2_000 * number;
        mini.hands_over([at, at], 0, 0, HARD, 1);
        mini.waking(at + 500, 0, 1, SOFT, 2);
        mini.switch(at + 510, 0, 1, "R", 2);
        mini.switch(at + 520, 0, 2, "S", 1);
        mini.switch(at + 1_000, 0, 1, "S", 0);
        mini.hands_over([at + 1_500, at + 1_510], 0, 0, SOFT, 2);
        mini.switch(at + 1_520, 0, 2, "S", 0);
    }
    let replay = inferred(mini, 120_000);
    assert!(
        of(&replay, "server")
            .iter()
            .all(|(trigger, ..)| trigger.is_softirq())
    );
}

#[test]
fn what_piled_up_is_told_apart_by_the_trace() {
    let (mini, piles) = event_loop(25);
    let replay = scheduled(mini, piles + 500_000);
    assert_conserved(&replay);
    assert_eq!(replay.services.len(), 1);
    assert_eq!(replay.services[0].subject, "server");
    assert_eq!(replay.requests.len(), 25 + 3 * 5);
    let (steps, RequestId(first)) = of_pile(&replay, 25);
    let second = RequestId(first + 1);
    let mut expected = apart(first, [100, 220, 190]);
    expected.push(run(5));
    assert_eq!(steps, expected);
    let second = replay.requests[second.index()];
    assert_eq!(second.due_ns, (piles as i64 + 1_000) * 1_000);
    assert_eq!(second.arrives_ns, (piles + 1_012) * 1_000);
}

/// As `single`, but the thread that the timer wakes lets another one send.
fn sent_by_another(mini: &mut Mini, at: u64) {
    mini.hands_over([at, at + 2], 0, 0, HARD, 1);
    mini.hands_over([at + 5, at + 8], 0, 1, TASK, 4);
    mini.hands_over([at + 16, at + 20], 0, 4, SOFT, 2);
    mini.hands_over([at + 120, at + 130], 0, 2, SOFT, 1);
    mini.switch(at + 140, 0, 1, "S", 0);
}

#[test]
fn timers_of_a_client_that_send_nothing_are_no_requests() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "client"), (4, "client")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for at in (0..60).map(|number| 5_000 * number) {
        match at % 10_000 {
            0 => single(&mut mini, at),
            _ => sent_by_another(&mut mini, at),
        }
        // One thread looks after the others, and one wakes too early.
        (1..6).for_each(|number| mini.wakes_for_nothing(at + 600 * number, 3));
        mini.wakes_for_nothing(at + 4_500, 1);
    }
    let replay = scheduled(mini, 300_000);
    assert_eq!(replay.requests.len(), 60);
    for (number, served) in (0..).zip(&replay.requests) {
        let due_ns = 5_000_000 * number;
        assert_eq!((served.due_ns, served.latency_ns), (due_ns, 140_000));
    }
}

/// A client in Go: it sleeps for whole milliseconds and then for one more. Its requests are due
/// 300, 310, … 890 µs after it woke the first time.
#[test]
fn what_a_client_of_whole_milliseconds_sends_was_due_before() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (4, "client")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    let mut dues_us: Vec<i64> = Vec::new();
    let mut at = 0;
    for number in 0..60 {
        mini.wakes_for_nothing(at, 1);
        dues_us.push(at as i64 + 300 + 10 * number);
        match number % 2 {
            0 => single(&mut mini, at + 1_066),
            _ => sent_by_another(&mut mini, at + 1_066),
        }
        at += 1_066 + 140 + 3_060;
    }
    let replay = scheduled(mini, 300_000);
    assert!(replay.services[0].coarse_timers);
    let median = |mut values: Vec<i64>| {
        values.sort_unstable();
        values[values.len() / 2]
    };
    let latencies = replay
        .requests
        .iter()
        .map(|one| one.latency_ns as i64 / 1_000);
    let real = dues_us
        .iter()
        .zip(0..)
        .map(|(due, number)| 4_266 * number + 1_206 - due);
    let (told, real) = (median(latencies.collect()), median(real.collect()));
    assert_eq!((replay.requests.len(), real), (60, 616));
    assert!(told.abs_diff(real) < 40, "{told} µs");
    // Nothing else moves.
    for (number, served) in (0..).zip(&replay.requests) {
        let way_us = [10, 16][number as usize % 2];
        assert_eq!(served.arrives_ns, (4_266 * number + 1_066 + way_us) * 1_000);
    }
}

/// In every fifth period two requests were due, sent one after the other. The second message finds
/// the service awake; each has its reply.
#[test]
fn a_client_of_whole_milliseconds_sends_what_fell_due_together() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (4, "client")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for number in 0..60 {
        let at = 1_066 + number * (1_066 + 250 + 3_060);
        mini.wakes_for_nothing(at - 1_066, 1);
        if number % 5 > 0 {
            sent_by_another(&mut mini, at);
            continue;
        }
        mini.sends(at);
        for replied in [at + 120, at + 230] {
            mini.waking(replied, 0, 2, SOFT, 1);
            let state = if replied == at + 120 { "R" } else { "S" };
            mini.switch(replied + 5, 0, 2, state, 1);
            let next = if state == "R" { 2 } else { 0 };
            mini.switch(replied + 15, 0, 1, "S", next);
        }
    }
    let replay = scheduled(mini, 300_000);
    assert_eq!(replay.requests.len(), 60 + 12);
    let shared = replay
        .requests
        .windows(2)
        .filter(|pair| pair[0].arrives_ns == pair[1].arrives_ns);
    for pair in shared.clone() {
        assert_ne!(pair[0].due_ns, pair[1].due_ns);
        let [one, other] = [0, 1].map(|at| pair[at].due_ns + pair[at].latency_ns as i64);
        assert_eq!(other - one, 110_000);
    }
    assert_eq!(shared.count(), 12);
}

/// The reply wakes a client whose timer would have done so within a millisecond.
#[test]
fn what_such_a_client_sends_when_it_is_woken_otherwise_was_due_since_it_slept() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (4, "client")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    let mut sent_us = Vec::new();
    for number in 0..150 {
        let at = 1_066 + number * (1_066 + 270 + 3_060);
        mini.wakes_for_nothing(at - 1_066, 1);
        if number % 3 > 0 {
            sent_by_another(&mut mini, at);
            continue;
        }
        mini.sends(at);
        mini.hands_over([at + 120, at + 130], 0, 2, SOFT, 1);
        mini.hands_over([at + 140, at + 150], 0, 1, SOFT, 2);
        mini.hands_over([at + 250, at + 260], 0, 2, SOFT, 1);
        mini.switch(at + 270, 0, 1, "S", 0);
        sent_us.push(at as i64 + 140);
    }
    let replay = scheduled(mini, 700_000);
    let sent_at = |us: &i64| {
        let mut all = replay.requests.iter();
        all.find(|one| one.arrives_ns as i64 == us * 1_000)
    };
    let found = sent_us.iter().filter_map(|us| Some((us, sent_at(us)?)));
    let late_us: Vec<i64> = found.map(|(us, one)| us - one.due_ns / 1_000).collect();
    assert_eq!(late_us.len(), 50);
    assert!(
        late_us.iter().all(|us| (0..=101).contains(us)),
        "{late_us:?}"
    );
    assert_in!(late_us.iter().sum::<i64>() / 50, 30..70, "{late_us:?}");
}

/// A reply wakes the client after 120 µs, but a neighbour has its CPU until 300. By then the next
/// request is due, and the service is still awake.
#[test]
fn what_fell_due_while_its_client_waited_for_a_cpu_is_a_request() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (9, "neighbour")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for at in (0..70).map(|number| 5_000 * number) {
        if at % 35_000 > 0 {
            single(&mut mini, at);
            continue;
        }
        mini.sends(at);
        mini.hands_over([at + 49, at + 50], 1, 0, HARD, 9);
        mini.waking(at + 120, 0, 2, SOFT, 1);
        mini.switch(at + 300, 1, 9, "S", 1);
        mini.switch(at + 310, 1, 1, "S", 0);
        mini.hands_over([at + 420, at + 430], 0, 2, SOFT, 1);
        mini.switch(at + 440, 0, 1, "S", 0);
    }
    let replay = scheduled(mini, 350_000);
    assert_eq!(replay.requests.len(), 70 + 10);
    let late = replay
        .requests
        .iter()
        .filter(|one| one.due_ns % 5_000_000 > 0);
    let since_us = |one: &Served| one.due_ns % 5_000_000 / 1_000;
    let dues_us: Vec<i64> = late.clone().map(since_us).collect();
    assert_eq!(dues_us.len(), 10);
    assert!(
        dues_us.iter().all(|us| (120..300).contains(us)),
        "{dues_us:?}"
    );
    assert_in!(dues_us.iter().sum::<i64>() / 10, 160..260, "{dues_us:?}");
    for one in late {
        assert_eq!(one.arrives_ns % 5_000_000, 300_000);
        assert_eq!(one.due_ns % 5_000_000 + one.latency_ns as i64, 440_000);
    }
}

/// The service answers in two pieces, and the client reads each at once, on another CPU.
#[test]
fn a_reply_in_pieces_is_one_and_comes_with_the_last() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for at in (0..60).map(|number| 5_000 * number) {
        mini.sends(at);
        if at % 10_000 > 0 {
            mini.waking(at + 105, 0, 2, SOFT, 1);
            mini.switch(at + 107, 1, 0, "R", 1);
            mini.switch(at + 117, 1, 1, "S", 0);
        }
        mini.hands_over([at + 120, at + 130], 0, 2, SOFT, 1);
        mini.switch(at + 140, 0, 1, "S", 0);
    }
    let replay = scheduled(mini, 300_000);
    let latencies: Vec<u64> = replay.requests.iter().map(|one| one.latency_ns).collect();
    assert_eq!(latencies, [140_000; 60]);
}

#[test]
fn a_client_has_a_reply_when_it_has_read_it() {
    let (mini, piles) = event_loop(25);
    let replay = scheduled(mini, piles + 500_000);
    // The reply wakes the client after 120 µs, which runs from 130 to 140.
    let first = replay.requests[0];
    assert_eq!((first.read_ns, first.latency_ns), (20_000, 140_000));
    // Woken at 90.070 ms, it runs from 90.075 to 90.085.
    let of_pile = replay.requests[25];
    assert_eq!((of_pile.read_ns, of_pile.latency_ns), (15_000, 90_085_000));
}

#[test]
fn a_client_waits_for_a_cpu_before_it_reads() {
    let (mut mini, piles) = event_loop(25);
    let at = piles + 500_000;
    mini.sends(at);
    mini.waking(at + 110, 0, 2, HARD, 3);
    mini.waking(at + 120, 0, 2, SOFT, 1);
    mini.switch(at + 130, 0, 2, "S", 3);
    mini.switch(at + 3_130, 0, 3, "S", 1);
    mini.switch(at + 3_140, 0, 1, "S", 0);
    let replay = scheduled(mini, at + 5_000);
    let last = replay.requests[25 + 3 * 5];
    assert_eq!((last.read_ns, last.latency_ns), (3_020_000, 3_140_000));
}

#[test]
fn the_log_says_when_requests_were_due() {
    let (mini, piles) = event_loop(25);
    let mut recording = mini.recording(piles + 500_000);
    let mut rows: Vec<[u64; 3]> = (0..25)
        .map(|n| 5_000 * n)
        .map(|at| [at, at + 8, at + 135])
        .collect();
    for at in (0..5).map(|number| piles + 100_000 * number) {
        // The third was due before its connection was free, and its client was late by itself.
        let late = [at - 6_000, at + 2_008, at + 90_510];
        rows.extend([
            [at, at + 8, at + 90_080],
            [at + 1_000, at + 1_008, at + 90_310],
            late,
        ]);
    }
    put_log(&mut recording, 3, &rows);
    let replay = infer(&recording, &open()).unwrap();
    assert_eq!(replay.requests.len(), rows.len());
    let (_, first) = of_pile(&replay, 25);
    let third = replay.requests[first.index() + 2];
    assert_eq!(third.due_ns, (piles as i64 - 6_000) * 1_000);
    let busy_us = 6_000 - 5_000 + 135;
    assert_eq!(
        third.arrives_ns,
        (piles + 2_008 - busy_us) * 1_000,
        "earlier by how long its connection was busy, no more"
    );
    assert_eq!(third.latency_ns, 96_510_000);
    assert_eq!(third.read_ns, 10_000);
    let figures = replay.measured().threads;
    let server = figures.iter().find(|one| one.name == "server").unwrap();
    assert_eq!(server.request_latency.max_ns, 96_510_000);
}

#[test]
fn what_waits_for_its_arrival_does_not_keep_its_thread() {
    let (mini, piles) = event_loop(25);
    let mut replay = scheduled(mini, piles + 500_000);
    let (_, RequestId(first)) = of_pile(&replay, 25);
    // The second request of the first pile comes after the second pile.
    replay.requests[first as usize + 1].arrives_ns = (piles + 105_000) * 1_000;
    let world = played(&replay);
    let latency = world.probes().metric("server/request_latency").unwrap();
    assert_eq!(latency.values.count(), 25 + 3 * 5);
    // That request and the third, which follows it; all others are answered at once.
    assert!(latency.values.max().unwrap() > 100_000_000);
    let of_38 = latency.values.quantile(937_500).unwrap();
    assert!(of_38 < 1_000_000, "{of_38} ns");
}

#[test]
fn a_client_that_waits_for_answers_keeps_no_schedule() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    mini.hands_over([0, 2], 0, 0, HARD, 1);
    for number in 0..60 {
        let at = 1_000 * number;
        mini.hands_over([at + 10, at + 20], 0, 1, SOFT, 2);
        // Every other answer comes in two parts.
        if number % 2 == 0 {
            mini.waking(at + 400, 0, 2, SOFT, 1);
            mini.switch(at + 410, 0, 2, "R", 1);
            mini.switch(at + 420, 0, 1, "S", 2);
        }
        mini.hands_over([at + 900, at + 910], 0, 2, SOFT, 1);
    }
    mini.switch(60_000, 0, 1, "S", 0);
    // Idle time in which no softirq wakes a task.
    let replay = inferred(mini, 161_000);
    assert!(replay.services.is_empty());
    let client = replay.threads_named("client").unwrap()[0];
    let server = of(&replay, "server");
    assert!(
        server
            .iter()
            .all(|(trigger, ..)| *trigger == Trigger::Thread(client))
    );
}

/// Runs a replay on one free CPU, without the limit of `/svc`.
pub(super) fn played(replay: &Replay) -> World {
    played_under(replay, None)
}

/// Runs a replay on one free CPU with this quota of `/svc`.
pub(super) fn played_under(replay: &Replay, quota_ns: Option<u64>) -> World {
    played_until(replay, quota_ns, replay.duration_ns)
}

/// The same until this time.
pub(super) fn played_until(replay: &Replay, quota_ns: Option<u64>, end_ns: u64) -> World {
    let (mut workload, compiled) = compiled(replay);
    let group = compiled.groups[replay.group("/svc").unwrap().index()];
    workload.groups[group.index() - 1].limit.quota_ns = quota_ns;
    let mut world = on_a_free_cpu(workload);
    world.run_until(end_ns).unwrap();
    world
}

#[test]
fn threads_of_a_service_do_not_wait_for_each_other_for_ever() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "one"), (4, "other")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 4]);
    for number in 0..25 {
        single(&mut mini, 5_000 * number);
    }
    for number in 0..5 {
        pile(&mut mini, 125_000 + 100_000 * number);
    }
    // In either round `waits` sleeps until `posts`, which a timer wakes 100 µs later, lets it go.
    for (at, waits, posts) in [(630_000, 4, 3), (640_000, 3, 4)] {
        mini.hands_over([at, at], 0, 0, HARD, waits);
        mini.switch(at + 30, 0, waits, "D", 0);
        mini.hands_over([at + 100, at + 100], 0, 0, HARD, posts);
        mini.hands_over([at + 120, at + 140], 0, posts, TASK, waits);
        mini.switch(at + 200, 0, waits, "S", 0);
    }
    let mut replay = inferred(mini, 700_000);
    assert_conserved(&replay);
    assert_eq!(replay.services.len(), 1);
    // The waiting half of the second round comes first: each thread waits for what the other does
    // next.
    let one = replay.threads_named("one").unwrap()[0];
    let late = replay.threads[one.index()].activations.start as usize + 1;
    replay.activations[late].trigger = hard(629_000, 0);
    let (workload, _) = compiled(&replay);
    assert_eq!(workload.check(1), Ok(()));
    let world = played(&replay);
    for name in ["one", "other"] {
        let executed_ns = world.probes().of(name).unwrap().all_charged_ns();
        assert_eq!(executed_ns, 90_000 + 40_000, "{name}");
    }
}

#[test]
fn a_request_that_is_not_answered_counts_with_its_age() {
    let (mini, piles) = event_loop(25);
    let mut replay = scheduled(mini, piles + 500_000);
    let (_, RequestId(first)) = of_pile(&replay, 25);
    // The second request of the last pile, due at 401 ms of 500, never comes; the third is behind
    // it.
    replay.requests[first as usize + 13].arrives_ns = u64::MAX / 1_000_000;
    let world = played(&replay);
    let latency = world.probes().metric("server/request_latency").unwrap();
    assert_eq!(latency.values.count(), 25 + 3 * 5 - 2);
    let unfinished = world.unfinished().metrics;
    let ages: Vec<&Vec<u64>> = unfinished
        .values()
        .filter(|ages| !ages.is_empty())
        .collect();
    assert_eq!(ages, [&vec![99_000_000, 98_000_000]]);
}

/// Three requests to a server that takes the CPU from its client: it answers while the client is
/// runnable, which no waking shows. A timer leads to the first only, and the third is sent before
/// the reply to the second is read.
fn unseen_replies(mini: &mut Mini, at: u64) {
    mini.hands_over([at, at + 2], 0, 0, HARD, 1);
    for sent in [at + 10, at + 50, at + 66] {
        mini.waking(sent, 0, 1, SOFT, 2);
        mini.switch(sent + 2, 0, 1, "R", 2);
        mini.switch(sent + 12, 0, 2, "S", 1);
    }
    mini.switch(at + 100, 0, 1, "S", 0);
}

#[test]
fn a_client_that_stays_awake_has_replies_that_nothing_shows() {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[], &[2]);
    for number in 0..60 {
        match number % 5 {
            0 => unseen_replies(&mut mini, 5_000 * number),
            _ => single(&mut mini, 5_000 * number),
        }
    }
    let replay = infer(&mini.recording(300_000), &open()).unwrap();
    assert_eq!(replay.requests.len(), 48 + 3 * 12);
    // The client works 10 µs for a reply, and sends what is due before.
    let of_burst = [7, 8, 9].map(|number: usize| {
        let served = replay.requests[number];
        let read_ns = served.due_ns + served.latency_ns as i64;
        [served.due_ns, read_ns].map(|at_ns| at_ns / 1000 - 25_000)
    });
    assert_eq!(of_burst.map(|[_, read_us]| read_us), [32, 88, 88]);
    assert_eq!(of_burst[0][0], 0);
    assert!((10..=50).contains(&of_burst[1][0]) && (50..=66).contains(&of_burst[2][0]));
}
