//! Threads that sleep for a fixed time between their activations.

use super::services::played_until;
use super::*;

/// Every fourth of 30 activations of 5 ms is held back for 60 ms. The sleeps take 2 ms, or until
/// the next point of a schedule of 200 ms.
fn recorded(keeps_timetable: bool) -> Replay {
    let mut mini = Mini::new(&[(1, "loader")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[1]);
    let mut at = 1_000;
    for number in 0..30 {
        mini.hands_over([at, at], 0, 0, HARD, 1);
        let mut end = at + 5_000;
        if number % 4 == 3 {
            mini.switch(at + 1_000, 0, 1, "R", 0);
            mini.switch(at + 61_000, 0, 0, "R", 1);
            end += 60_000;
        }
        mini.switch(end, 0, 1, "S", 0);
        at = match keeps_timetable {
            true => at + 200_000,
            false => end + 2_000,
        };
    }
    inferred(mini, at)
}

#[test]
fn fixed_sleeps_begin_when_the_turn_before_has_ended() {
    let replay = recorded(false);
    assert_conserved(&replay);
    let slept = replay.activations.iter().map(|one| one.slept_before_ns);
    let slept: Vec<Option<u64>> = slept.collect();
    assert_eq!(slept[0], None);
    assert!(slept[1..].iter().all(|slept| *slept == Some(2_000_000)));
    // The first activation begins at 1 ms; 30 activations of 5 ms and 29 sleeps of 2 ms are 208 ms
    // without the limit, and 628 ms with it.
    let world = played_until(&replay, None, 209_500_000);
    let executed_ns = world.probes().of("loader").unwrap().all_charged_ns();
    assert!(executed_ns.abs_diff(150_000_000) < 100_000, "{executed_ns}");
}

#[test]
fn a_timetable_keeps_its_times() {
    let slept = recorded(true).activations;
    assert!(slept.iter().all(|one| one.slept_before_ns.is_none()));
}
