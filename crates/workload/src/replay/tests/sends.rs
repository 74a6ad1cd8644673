//! Which softirqs are messages of the thread they interrupt.

use super::super::sends::Woken;
use super::*;
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;

/// The senders to `server`, from wakings under user subjects (`None`: idle, or threads of the
/// kernel), CPU time of subjects in ms, and the time of the machine in ms.
fn senders<'a>(
    wakings: &[(Option<&'a str>, u64)],
    executed_ms: &[(&str, u64)],
    machine_ms: u64,
) -> Vec<&'a str> {
    let mut woken = Woken::default();
    for (under, count) in wakings {
        for _ in 0..*count {
            woken.add(*under);
        }
    }
    let of_ms = |ms: u64| ms * SECOND_NS / 1000;
    let executed_ns: BTreeMap<&str, u64> = executed_ms
        .iter()
        .map(|(subject, ms)| (*subject, of_ms(*ms)))
        .collect();
    let found = woken.senders("server", &executed_ns, of_ms(machine_ms));
    found.into_iter().collect()
}

#[test]
fn a_client_at_whose_time_alone_wakings_come_sends_them() {
    let executed = [("client", 200), ("server", 5_000)];
    let found = senders(&[(Some("client"), 4741)], &executed, 40_000);
    assert_eq!(found, ["client"]);
}

#[test]
fn interrupts_that_hit_three_subjects_alike_are_no_messages_for_want_of_idle_time() {
    let executed = [("a", 10_000), ("b", 5_000), ("c", 4_000), ("server", 900)];
    let wakings = [(Some("a"), 200), (Some("b"), 100), (Some("c"), 80)];
    assert!(senders(&wakings, &executed, 20_000).is_empty());
}

#[test]
fn a_short_baseline_proves_nothing() {
    // 30 wakings in 10 s: 0.3 are due in the 0.1 s in which anything else is current.
    let executed = [("busy", 10_000), ("server", 9_900)];
    let wakings = [(Some("busy"), 30)];
    assert!(senders(&wakings, &executed, 20_000).is_empty());
    // In 2 s there are six.
    assert_eq!(senders(&wakings, &executed, 21_900), ["busy"]);
}

#[test]
fn two_senders_do_not_hide_each_other() {
    // The proxy's baseline of 4 s has 1010 wakings, too many beside its 500 in 1 s, until the
    // client's are left out.
    let executed = [("client", 1_000), ("proxy", 1_000), ("server", 5_000)];
    let wakings = [(Some("client"), 1_000), (Some("proxy"), 500), (None, 10)];
    assert_eq!(senders(&wakings, &executed, 10_000), ["client", "proxy"]);
}

#[test]
fn a_sender_of_little_time_is_found_beside_one_of_much() {
    // They send at almost the same rate: only without the second is the first's rate unusual.
    let executed = [("short", 100), ("long", 10_000), ("server", 1_000)];
    let wakings = [(Some("short"), 101), (Some("long"), 10_000)];
    assert_eq!(senders(&wakings, &executed, 12_100), ["long", "short"]);
}

#[test]
fn packets_from_outside_do_not_hide_a_sender() {
    let executed = [("client", 200), ("busy", 10_000), ("server", 5_000)];
    let wakings = [(Some("client"), 2_000), (Some("busy"), 500), (None, 1_200)];
    assert_eq!(senders(&wakings, &executed, 40_000), ["client"]);
}

#[test]
fn a_machine_without_idle_time_is_hit_by_interrupts() {
    let mut mini = Mini::new(&[(1, "a"), (2, "server"), (3, "b"), (4, "c")]);
    mini.switch(0, 0, 0, "R", 1);
    for number in 0..90 {
        let at = 1_000 * number;
        let [current, next] = [number, number + 1].map(|at| [1, 3, 4][at as usize % 3]);
        mini.waking(at + 500, 0, current, SOFT, 2);
        mini.switch(at + 510, 0, current, "R", 2);
        mini.switch(at + 520, 0, 2, "S", current);
        mini.switch(at + 900, 0, current, "R", next);
    }
    let replay = inferred(mini, 90_010);
    let server = of(&replay, "server");
    assert_eq!(server.len(), 90);
    assert!(server.iter().all(|(trigger, ..)| trigger.is_softirq()));
}
