//! The rules against the C of every tree at hand, in worlds that are drawn: each seed decides which
//! machine and which kinds of steps there are. `SCHEDCAST_DRAWN=500` tries 500 seeds of each tree.
//!
//! Histories that part today stand in `drawn/VERSION.txt`, a seed, a step and a member a line.
//! `make renew` writes the file anew. `lockstep OBJECT VERSION world s SEED 300` shrinks one.

mod built;

use built::object;
use schedcast_kernel::rules::Version;
use schedcast_tree::lockstep::{Kinds, SHAPES, draw, draw_world, full_config, run};
use std::collections::BTreeMap;

const STEPS: usize = 300;

/// Seeds of each tree unless `SCHEDCAST_DRAWN` says how many: seconds.
const SEEDS: u64 = 300;

/// Where histories part today: step and member by seed.
fn open_ones(text: &str) -> BTreeMap<u64, (usize, String)> {
    let line = |line: &str| {
        let (seed, rest) = line.split_once(' ')?;
        let (step, member) = rest.split_once(' ')?;
        Some((seed.parse().ok()?, (step.parse().ok()?, member.to_string())))
    };
    text.lines().filter_map(line).collect()
}

/// Seeds of each tree at another tick than 1000 Hz.
const SEEDS_AT_HZ: u64 = 100;

/// Histories at a tick that a distribution has: none parts.
fn drawn_worlds_are_equal_at(version: &str, hz: u32) {
    let release: Version = version.parse().unwrap();
    let mut config = full_config(release);
    config.set(&format!("HZ_{hz}"), "y");
    let Some(object) = object(version, config) else {
        return;
    };
    for seed in 1..=SEEDS_AT_HZ {
        let (shape, kinds) = draw_world(seed, release);
        let outcome = run(&object, version, &draw(seed, shape, kinds, STEPS)).unwrap();
        assert_eq!(
            outcome.parted, None,
            "seed {seed}, {hz} Hz, {shape}, {kinds:?}"
        );
    }
}

fn drawn_worlds_are_equal(version: &str) {
    let release: Version = version.parse().unwrap();
    let Some(object) = object(version, full_config(release)) else {
        return;
    };
    let seeds = std::env::var("SCHEDCAST_DRAWN").map_or(SEEDS, |count| count.parse().unwrap());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drawn");
    let file = folder.join(format!("{version}.txt"));
    let writes = std::env::var_os("RENEW").is_some();
    let open = open_ones(&std::fs::read_to_string(&file).unwrap_or_default());
    let (mut text, mut steps) = (String::new(), 0);
    for seed in 1..=seeds {
        let (shape, kinds) = draw_world(seed, release);
        let outcome = run(&object, version, &draw(seed, shape, kinds, STEPS)).unwrap();
        steps += outcome.equal;
        let parted = outcome.parted.map(|(step, found)| (step, found[0].clone()));
        let place = parted
            .as_ref()
            .map(|(step, first)| (*step, first.member.clone()));
        if let Some((step, member)) = &place {
            text += &format!("{seed} {step} {member}\n");
        }
        assert!(
            writes || place.as_ref() == open.get(&seed),
            "seed {seed}, {shape}, {kinds:?}: parts at {parted:?}, and {:?} in {}",
            open.get(&seed),
            file.display()
        );
    }
    if writes {
        std::fs::write(&file, text).unwrap();
    }
    eprintln!("{version}: {seeds} histories, {steps} steps equal");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_5_10() {
    drawn_worlds_are_equal("5.10.223");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_6_1() {
    drawn_worlds_are_equal("6.1.176");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_6_12() {
    drawn_worlds_are_equal("6.12.107");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_6_18() {
    drawn_worlds_are_equal("6.18.15");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_7_1() {
    drawn_worlds_are_equal("7.1.13");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_7_2() {
    drawn_worlds_are_equal("7.2.12");
}

#[test]
fn drawn_worlds_are_as_by_the_c_of_7_3() {
    drawn_worlds_are_equal("7.3.4");
}

#[test]
fn drawn_worlds_of_100_hz_are_as_by_the_c_of_5_10() {
    drawn_worlds_are_equal_at("5.10.223", 100);
}

#[test]
fn drawn_worlds_of_250_hz_are_as_by_the_c_of_6_12() {
    drawn_worlds_are_equal_at("6.12.107", 250);
}

#[test]
fn drawn_worlds_of_300_hz_are_as_by_the_c_of_7_1() {
    drawn_worlds_are_equal_at("7.1.13", 300);
}

#[test]
fn drawn_worlds_of_250_hz_are_as_by_the_c_of_7_3() {
    drawn_worlds_are_equal_at("7.3.4", 250);
}

#[test]
fn drawn_worlds_of_100_hz_are_as_by_the_c_of_6_18() {
    drawn_worlds_are_equal_at("6.18.15", 100);
}

/// Tree, row of the table of machines, seed: arrivals behind one of another class, and what a CPU
/// pulls behind a deadline task that blocked.
const OF_THE_NEXT_CLASS: [(&str, usize, u64); 3] =
    [("7.1.13", 2, 258), ("7.1.13", 3, 238), ("7.3.4", 5, 265)];

#[test]
fn arrivals_are_held_against_the_class_that_is_chosen_next() {
    known_ones_are_equal(&OF_THE_NEXT_CLASS, "glxrcefvuq");
}

/// Deadline tasks beside three isolated CPUs: the 0-lag time of a fair server (6.18.15), a pick
/// that throttles the last group of a CPU (6.12.107), a timer that another CPU cancels (1186).
const BESIDE_ISOLATED: [(&str, usize, u64); 7] = [
    ("6.12.107", 14, 1047),
    ("6.18.15", 14, 1021),
    ("6.18.15", 14, 1033),
    ("6.18.15", 14, 1095),
    ("6.18.15", 14, 1100),
    ("6.18.15", 14, 1105),
    ("7.1.13", 14, 1186),
];

#[test]
fn deadline_tasks_beside_isolated_cpus_are_as_by_the_c() {
    known_ones_are_equal(&BESIDE_ISOLATED, "glrecxfq");
}

#[test]
fn first_timers_of_deadline_tasks_are_set_as_by_the_c() {
    // An idle CPU charges a deadline task of another one, whose timer it never set before.
    known_ones_are_equal(&[("7.3.4", 8, 5157)], "glrecbxfquv");
}

#[test]
fn a_fair_server_that_ran_begins_a_period_as_by_the_c_of_6_18_15() {
    known_ones_are_equal(&[("6.18.15", 4, 200_115)], "glrecbxfquv");
}

#[test]
fn hints_at_a_group_that_runs_without_a_pick_are_as_by_the_c() {
    // A deadline task becomes a fair one while it runs, in a group whose task had yielded.
    known_ones_are_equal(&[("5.10.223", 3, 5054)], "glrecbxfqv");
}

/// Histories that parted once.
fn known_ones_are_equal(known: &[(&str, usize, u64)], letters: &str) {
    for &(version, row, seed) in known {
        let Some(object) = object(version, full_config(version.parse().unwrap())) else {
            continue;
        };
        let history = draw(seed, SHAPES[row], Kinds::of(letters), 500);
        let outcome = run(&object, version, &history).unwrap();
        assert_eq!(
            outcome.parted, None,
            "{version}, machine {row}, seed {seed}"
        );
    }
}
