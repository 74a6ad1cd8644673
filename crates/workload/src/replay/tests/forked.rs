//! Servers that fork a child for each request.

use super::services::{played, scheduled};
use super::*;
use crate::replay::service::Served;

/// The client sends a request to the parent, which forks `child` for it. That works 100 µs and
/// replies.
fn single(mini: &mut Mini, at: u64, child: i32) {
    mini.sends(at);
    mini.fork(at + 40, 0, 2, child);
    mini.switch(at + 50, 0, 2, "S", child);
    mini.waking(at + 150, 0, child, SOFT, 1);
    mini.switch(at + 160, 0, child, "X", 1);
    mini.switch(at + 170, 0, 1, "S", 0);
}

/// A child replies at `at` and ends. Its client reads for 10 µs, and `next` runs.
fn replies(mini: &mut Mini, at: u64, child: i32, next: i32) {
    mini.waking(at, 0, child, SOFT, 1);
    mini.switch(at + 10, 0, child, "X", 1);
    mini.switch(at + 20, 0, 1, "S", next);
}

/// Three requests come while the group is throttled, and their children are forked 80 ms later. The
/// first works 54 ms. Meanwhile the others reply, and a fourth request comes and is answered.
fn pile(mini: &mut Mini, at: u64, children: [i32; 4]) {
    let [long, second, third, fourth] = children;
    mini.sends(at);
    mini.switch(at + 30, 0, 2, "R", 0); // throttled
    for due in [at + 5_000, at + 9_000] {
        mini.hands_over([due, due + 2], 0, 0, HARD, 1);
        mini.switch(due + 12, 0, 1, "S", 0); // sent, and nobody to wake
    }
    mini.switch(at + 80_000, 0, 0, "R", 2);
    for (number, child) in (0..).zip([long, second, third]) {
        mini.fork(at + 80_010 + 30 * number, 0, 2, child);
    }
    mini.switch(at + 80_100, 0, 2, "S", long);
    mini.switch(at + 84_100, 0, long, "R", second);
    replies(mini, at + 88_100, second, third);
    replies(mini, at + 92_120, third, long);
    mini.waking(at + 100_000, 0, long, HARD, 1);
    mini.switch(at + 100_000, 0, long, "R", 1);
    mini.hands_over([at + 100_010, at + 100_020], 0, 1, SOFT, 2);
    mini.fork(at + 100_040, 0, 2, fourth);
    mini.switch(at + 100_050, 0, 2, "S", fourth);
    replies(mini, at + 104_050, fourth, long);
    replies(mini, at + 146_210, long, 0);
}

pub(super) const SINGLES: u64 = 25;
pub(super) const PILES_AT: u64 = 5_000 * SINGLES;

pub(super) fn forking() -> Mini {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for number in 0..SINGLES {
        single(&mut mini, 5_000 * number, 100 + number as i32);
    }
    for number in 0..5 {
        let first = 200 + 4 * number as i32;
        let children = [0, 1, 2, 3].map(|next| first + next);
        pile(&mut mini, PILES_AT + 200_000 * number, children);
    }
    mini
}

#[test]
fn a_forked_child_answers_the_request_it_was_forked_for() {
    let replay = scheduled(forking(), PILES_AT + 1_000_000);
    assert_conserved(&replay);
    assert_eq!(replay.requests.len(), 25 + 4 * 5);
    for at in (0..5).map(|number| PILES_AT + 200_000 * number) {
        let of_pile = |one: &&Served| one.due_ns >= at as i64 * 1_000;
        let mut served: Vec<(u64, u64)> = replay
            .requests
            .iter()
            .filter(of_pile)
            .map(|one| (one.due_ns as u64 / 1_000 - at, one.latency_ns / 1_000))
            .collect();
        served.sort_unstable();
        let expected = [
            (0, 146_230),
            (5_000, 83_120),
            (9_000, 83_140),
            (100_000, 4_070),
        ];
        assert_eq!(served[..4], expected);
    }
}

#[test]
fn a_child_waits_for_no_other_request_and_its_parent_for_its_own() {
    let replay = scheduled(forking(), PILES_AT + 1_000_000);
    let parent = replay.threads_named("server").unwrap()[0];
    let of_pile = &replay.activations_of(parent)[SINGLES as usize];
    let waits = |step: &&Step| matches!(step, Step::Await(_) | Step::Fork(_));
    let shown = replay.steps_of(of_pile).iter().filter(waits);
    let arrivals_us = shown.map(|step| match step {
        Step::Await(request) => {
            let arrives_ns = replay.requests[request.index()].arrives_ns;
            arrives_ns / 1_000 - PILES_AT
        }
        _ => 0,
    });
    assert_eq!(arrivals_us.collect::<Vec<u64>>(), [0, 5_012, 0, 9_012, 0]);
    for (id, _) in (0u32..).map(ThreadId).zip(&replay.threads) {
        let steps = replay.activations_of(id).iter();
        let mut steps = steps.flat_map(|one| replay.steps_of(one));
        assert!(id == parent || !steps.any(|step| matches!(step, Step::Await(_))));
    }
    // Without a limit the long request has company for 12 ms, and the short ones share the CPU.
    let world = played(&replay);
    let metric = format!("{}/request_latency", replay.services[0].subject);
    let latency = world.probes().metric(&metric).unwrap();
    assert_eq!(latency.values.count(), 25 + 4 * 5);
    let [median, p85] = [500_000, 850_000].map(|part| latency.values.quantile(part).unwrap());
    let max = latency.values.max().unwrap();
    assert!(median < 5_000_000, "{median} ns");
    assert!(p85 < 25_000_000, "{p85} ns");
    assert!((54_000_000..68_000_000).contains(&max), "{max} ns");
}

/// Each child sleeps until a peer of its parent has worked 80 µs, replies, and sleeps until a
/// timer at 300 µs before it ends.
fn ended_by_timers() -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server"), (3, "fellow")]);
    mini.group("/svc", &[("cpu.max", "max 100000")], &[2, 3]);
    for number in 0..25 {
        let (at, child) = (5_000 * number, 100 + number as i32);
        mini.sends(at);
        mini.fork(at + 40, 0, 2, child);
        mini.switch(at + 50, 0, 2, "S", child);
        mini.hands_over([at + 60, at + 70], 0, child, TASK, 3);
        mini.hands_over([at + 150, at + 160], 0, 3, TASK, child);
        mini.hands_over([at + 190, at + 200], 0, child, SOFT, 1);
        mini.switch(at + 210, 0, 1, "S", 0);
        mini.hands_over([at + 300, at + 302], 0, 0, HARD, child);
        mini.switch(at + 320, 0, child, "X", 0);
    }
    scheduled(mini, 150_000)
}

/// How many requests of the service are answered.
fn answered(replay: &Replay) -> u64 {
    let metric = format!("{}/request_latency", replay.services[0].subject);
    let world = played(replay);
    world.probes().metric(&metric).unwrap().values.count()
}

/// When everything takes four times as long, the timer comes before the peer.
#[test]
fn a_child_does_all_it_has_to_do_before_it_ends() {
    let mut replay = ended_by_timers();
    let adjust = Adjust {
        work_permille: 4_000,
        ..Adjust::default()
    };
    adjust.apply(&mut replay).unwrap();
    assert_eq!(answered(&replay), 25);
}

/// Before a child replies, it waits at a gate for an arrival 200 µs after its timer.
#[test]
fn a_child_that_waits_at_a_gate_does_not_end_before_it_replies() {
    let mut replay = ended_by_timers();
    let replies = replay.steps.iter().enumerate();
    let replies = replies.filter_map(|(at, step)| match step {
        Step::Reply(request) => Some((at, *request)),
        _ => None,
    });
    for (at, request) in replies.collect::<Vec<_>>() {
        assert!(matches!(
            replay.steps[at - 1],
            Step::Run { .. } | Step::Wake(_)
        ));
        replay.steps[at - 1] = Step::Await(request);
        replay.requests[request.index()].arrives_ns += 500_000;
    }
    assert_eq!(answered(&replay), 25);
}
