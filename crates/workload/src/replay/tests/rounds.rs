//! Event loops that answer at the end of a round.

use super::services::{played, scheduled, single};
use super::*;

/// A request of 5 ms; two more come meanwhile, are executed in 2 ms, and then both are answered.
fn rounds(mini: &mut Mini, at: u64) {
    mini.sends(at);
    for due in [at + 1_000, at + 2_000] {
        mini.waking(due, 0, 2, HARD, 1);
        mini.switch(due + 2, 0, 2, "R", 1);
        mini.switch(due + 12, 0, 1, "S", 2); // sent, and nobody to wake
    }
    for replied in [at + 5_000, at + 7_015, at + 7_037] {
        mini.waking(replied, 0, 2, SOFT, 1);
        mini.switch(replied + 2, 0, 2, "R", 1);
        mini.switch(replied + 12, 0, 1, "S", 2);
    }
    mini.switch(at + 7_054, 0, 2, "S", 0);
}

/// An event loop in `/svc` with 25 requests that come one by one, and then this often three.
pub(super) fn event_loop(times: u64) -> Replay {
    let mut mini = Mini::new(&[(1, "client"), (2, "server")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2]);
    for number in 0..25 {
        single(&mut mini, 5_000 * number);
    }
    for number in 0..times {
        rounds(&mut mini, 125_000 + 20_000 * number);
    }
    scheduled(mini, 125_000 + 20_000 * times)
}

/// The longest time to a reply, µs.
fn longest_us(replay: &Replay) -> u64 {
    let world = played(replay);
    let latency = world.probes().metric("server/request_latency").unwrap();
    assert_eq!(latency.values.count(), replay.requests.len() as u64);
    latency.values.max().unwrap() / 1000
}

#[test]
fn replies_that_are_written_together_tell_rounds() {
    let replay = event_loop(50);
    assert_conserved(&replay);
    assert_eq!(replay.requests.len(), 25 + 3 * 50);
    let thread = replay.threads_named("server").unwrap()[0];
    let told = Rounds { thread, at_most: 2 };
    assert_eq!(replay.services[0].rounds, Some(told));
    // 25 alone; the first of three works 982 + 990 + 2988 µs, the others 5 + 2000 + 2 + 10 + 2 + 5
    // in sum.
    let of_server = of(&replay, "server");
    let works_us: Vec<u64> = of_server[25..28].iter().map(|(_, us, _)| *us).collect();
    assert_eq!(works_us[0], 4_960);
    assert!(works_us[1].min(works_us[2]) > 900, "{works_us:?}");
    assert!((2_023..=2_024).contains(&(works_us[1] + works_us[2])));
    let arrive_us = |at: usize| match of_server[at].0 {
        Trigger::Outside { at_ns, .. } => at_ns / 1000 - 125_000,
        other => panic!("{other:?}"),
    };
    assert_eq!([25, 26, 27].map(arrive_us), [10, 1_012, 2_012]);
    let replies = |(_, _, steps): &(Trigger, u64, Vec<Step>)| {
        let replies = steps.iter().filter(|step| matches!(step, Step::Reply(_)));
        replies.count()
    };
    assert!(of_server.iter().all(|one| replies(one) == 1));
}

#[test]
fn few_rounds_prove_nothing() {
    // All of 16 piles of two are 8 more than chance gives, four times its deviation of 2.
    assert!(event_loop(16).services[0].rounds.is_some());
    assert_eq!(event_loop(15).services[0].rounds, None);
}

#[test]
fn a_round_is_answered_at_its_end() {
    let mut replay = event_loop(50);
    // The second of three is due at 1 ms, and its round ends after 10 + 4960 + 2024 µs; the client
    // takes tens of µs of the only CPU.
    let longest = longest_us(&replay);
    assert!((5_994..6_100).contains(&longest), "{longest} µs");
    // Were rounds no longer than one request, the third would wait longest, which is due at 2 ms.
    replay.services[0].rounds.as_mut().unwrap().at_most = 1;
    let longest = longest_us(&replay);
    assert!((4_994..5_100).contains(&longest), "{longest} µs");
}
