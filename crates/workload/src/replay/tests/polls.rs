//! Threads that look again and again until another one has come.

use super::*;

/// Five times a worker wakes a thread that looks 30 times, once a millisecond, until a second
/// worker has stopped, and then works 200 µs and wakes the first one. If `throttles`, the second
/// worker does not run meanwhile; else it sleeps, and stops nobody.
fn recorded(throttles: bool) -> Replay {
    let mut mini = Mini::new(&[(2, "worker"), (3, "stopper"), (4, "held")]);
    mini.group("/svc", &[("cpu.max", "50000 100000")], &[2, 3, 4]);
    for number in 0..5 {
        let at = 100_000 * number;
        if throttles {
            mini.hands_over([at, at + 2], 1, 0, HARD, 4);
            mini.switch(at + 500, 1, 4, "R", 0);
        }
        mini.hands_over([at + 10, at + 12], 0, 0, HARD, 2);
        mini.hands_over([at + 20, at + 22], 0, 2, TASK, 3);
        mini.switch(at + 40, 0, 3, "S", 0);
        for look in 1..30 {
            mini.wakes_for_nothing(at + 1_000 * look, 3);
        }
        if throttles {
            mini.switch(at + 29_200, 1, 0, "R", 4);
            mini.switch(at + 29_300, 1, 4, "S", 0);
        }
        mini.hands_over([at + 30_000, at + 30_002], 0, 0, HARD, 3);
        mini.hands_over([at + 30_150, at + 30_202], 0, 3, TASK, 2);
        mini.switch(at + 30_300, 0, 2, "S", 0);
    }
    inferred(mini, 500_000)
}

#[test]
fn what_ends_a_wait_for_a_throttled_thread_begins_when_that_has_come() {
    let replay = recorded(true);
    assert_conserved(&replay);
    let held = replay.threads_named("held").unwrap()[0];
    let acting: Vec<Trigger> = of(&replay, "stopper")
        .into_iter()
        .filter(|(_, _, steps)| steps.iter().any(|step| matches!(step, Step::Wake(_))))
        .map(|(trigger, ..)| trigger)
        .collect();
    assert_eq!(acting, vec![Trigger::ThreadUnseen(held); 5]);
}

#[test]
fn what_ends_another_wait_keeps_its_time() {
    let replay = recorded(false);
    let seen = |(trigger, ..): &(Trigger, u64, Vec<Step>)| {
        matches!(trigger, Trigger::Outside { .. } | Trigger::Thread(_))
    };
    assert!(of(&replay, "stopper").iter().all(seen));
}
