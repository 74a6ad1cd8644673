//! The rules against the C of trees that are at hand: a few seconds. `make oracle` does the same
//! for long.

mod built;

use built::object;
use schedcast_base::assert_contains;
use schedcast_tree::lockstep::{
    Action, BIG_LITTLE, Class, History, Kinds, PREFERRED, SHAPES, Shape, Step, THREE_CLUSTERS,
    draw, full_config, run,
};
use schedcast_tree::{Builder, config::Config};
use std::path::PathBuf;

/// The object that drawn histories run on, too.
fn full_object(version: &str) -> Option<PathBuf> {
    object(version, full_config(version.parse().unwrap()))
}

fn is_equal(version: &str, shape: Shape, kinds: Kinds) {
    let Some(object) = full_object(version) else {
        return;
    };
    for seed in 1..=4 {
        let outcome = run(&object, version, &draw(seed, shape, kinds, 300)).unwrap();
        let world = format!("{version}, {shape}, {kinds:?}, seed {seed}");
        assert_eq!(outcome.parted, None, "{world}");
        assert!(outcome.equal > 60, "{world}");
    }
}

const TWO_CPUS: Shape = Shape::of(1, 1, 2, 1);
const TWO_CACHES: Shape = Shape::of(1, 2, 4, 1);

#[test]
fn drawn_histories_are_as_by_the_c_up_to_6_12() {
    let four_cpus = Shape::of(1, 1, 2, 2);
    is_equal("5.10.223", Shape::ONE_CPU, Kinds::LIMITED);
    is_equal("5.10.223", TWO_CACHES, Kinds::TASKS);
    is_equal("6.12.107", Shape::ONE_CPU, Kinds::LIMITED);
    is_equal("6.12.107", TWO_CPUS, Kinds::TASKS);
    is_equal("6.12.107", four_cpus, Kinds::ALL);
    is_equal("6.12.107", BIG_LITTLE, Kinds::TASKS);
}

#[test]
fn drawn_histories_are_as_by_the_c_of_6_18() {
    is_equal("6.18.15", Shape::ONE_CPU, Kinds::LIMITED);
    is_equal("6.18.15", TWO_CPUS, Kinds::TASKS);
    is_equal("6.18.15", TWO_CACHES, Kinds::LIMITED);
    is_equal("6.18.15", BIG_LITTLE, Kinds::TASKS);
}

#[test]
fn drawn_histories_are_as_by_the_c_from_7_1_on() {
    is_equal("7.1.13", Shape::ONE_CPU, Kinds::LIMITED);
    is_equal("7.3.4", Shape::ONE_CPU, Kinds::ALL);
    is_equal("7.3.4", BIG_LITTLE, Kinds::TASKS);
}

/// Threads of up to eight processes, some of which prefer a cache and come to it.
fn processes_are_equal(version: &str) {
    use schedcast_kernel::model::{Mark, take_reached};
    take_reached();
    is_equal(version, TWO_CACHES, Kinds::TASKS);
    if full_object(version).is_some() {
        let reached = take_reached();
        for mark in [Mark::LlcPreferred, Mark::LlcForgotten, Mark::LlcStays] {
            assert!(reached.contains(&mark), "{mark:?}");
        }
    }
}

#[test]
fn processes_on_two_caches_are_as_by_the_c_of_7_2() {
    processes_are_equal("7.2.12");
}

#[test]
fn processes_on_two_caches_are_as_by_the_c_of_7_3() {
    processes_are_equal("7.3.4");
}

#[test]
fn all_kinds_on_64_cpus_are_as_by_the_c_of_7_3() {
    is_equal("7.3.4", Shape::of(2, 1, 16, 2), Kinds::ALL);
}

#[test]
fn switches_of_sched_features_turn_the_same_rules_as_in_the_c_of_6_12() {
    is_equal("6.12.107", Shape::ONE_CPU, Kinds::of("glrcf"));
}

#[test]
fn clamps_of_tasks_and_groups_count_as_by_the_c_of_6_18() {
    let shape = Shape::of(1, 1, 4, 1).with_capacities(&[512, 512, 1024, 1024]);
    is_equal("6.18.15", shape, Kinds::of("gru"));
}

#[test]
fn preferred_cpus_take_tasks_as_by_the_c_of_6_18() {
    is_equal("6.18.15", PREFERRED, Kinds::TASKS);
}

#[test]
fn tasks_are_placed_by_energy_as_by_the_c() {
    for version in ["6.12.107", "6.18.15", "7.3.4"] {
        is_equal(version, THREE_CLUSTERS, Kinds::of("uc"));
    }
}

#[test]
fn a_wrong_rule_is_found() {
    let Some(object) = full_object("6.12.107") else {
        return;
    };
    // 6.5 still has CFS: nothing that is picked by deadlines can be equal to it.
    let outcome = run(&object, "6.5", &draw(1, Shape::ONE_CPU, Kinds::TASKS, 300)).unwrap();
    let (_, differences) = outcome.parted.expect("the two part");
    assert!(!differences.is_empty());
}

/// A history of one CPU: the time before each action, in ms, and the action.
fn on_one_cpu(steps: &[(u64, Action)]) -> History {
    let step = |&(after_ms, action): &(u64, Action)| Step {
        after_ns: after_ms * 1_000_000,
        cpu: 0,
        action,
    };
    History {
        shape: Shape::ONE_CPU,
        seed: 1,
        processes: 1,
        features: Vec::new(),
        steps: steps.iter().map(step).collect(),
    }
}

const fn fork(group: usize) -> Action {
    Action::Fork(group, Class::PLAIN, 0, u64::MAX)
}

/// Group 1 gets 1 ms in 100.
const LIMIT: Action = Action::Limit(1, 100_000_000, Some(1_000_000), 0);

#[test]
fn a_task_moved_out_of_a_throttled_group_waits_on_an_idle_cpu_as_by_the_c_up_to_6_18() {
    // The task is throttled when it is moved to the root group, and it reads its CPU time 20 ms
    // later if it runs.
    let history = on_one_cpu(&[
        (1, Action::Group(0)),
        (1, LIMIT),
        (1, fork(1)),
        (30, Action::Move(0, 0)),
        (20, Action::ReadTime),
    ]);
    for (version, runs) in [
        ("5.10.223", false),
        ("6.1.176", false),
        ("6.12.107", false),
        ("6.18.15", false),
        ("7.1.13", true),
        ("7.3.4", true),
    ] {
        let Some(object) = full_object(version) else {
            continue;
        };
        let outcome = run(&object, version, &history).unwrap();
        assert_eq!(outcome.parted, None, "{version}");
        assert_eq!(outcome.equal, 4 + usize::from(runs), "{version}");
    }
}

#[test]
fn groups_are_removed_as_by_the_c() {
    use Action::{Free, Group, Move, Release, Rest};
    let histories = [
        // Its entity has load when the group goes, and up to 7.2 waits for its delayed dequeue.
        &[
            (1, Group(0)),
            (1, fork(1)),
            (1, fork(0)),
            (3, Move(0, 0)),
            (1, Release(1)),
            (1, Free(1)),
            (10, Rest),
        ][..],
        // It is throttled, and its timer fires before it goes.
        &[
            (1, Group(0)),
            (1, LIMIT),
            (1, fork(1)),
            (30, Move(0, 0)),
            (1, Release(1)),
            (100, Rest),
            (1, Free(1)),
            (200, Rest),
        ],
        // Its timer would have fired later.
        &[
            (1, Group(0)),
            (1, LIMIT),
            (1, fork(1)),
            (30, Move(0, 0)),
            (1, Release(1)),
            (1, Free(1)),
            (200, Rest),
        ],
        // The group above is throttled when it is released, and goes on without it.
        &[
            (1, Group(0)),
            (1, Group(1)),
            (1, LIMIT),
            (1, fork(1)),
            (30, Release(2)),
            (100, Rest),
            (1, Free(2)),
            (200, Rest),
        ],
    ];
    for version in [
        "5.10.223", "6.1.176", "6.12.107", "6.18.15", "7.1.13", "7.2.12", "7.3.4",
    ] {
        let Some(object) = full_object(version) else {
            continue;
        };
        for steps in histories {
            let outcome = run(&object, version, &on_one_cpu(steps)).unwrap();
            assert_eq!(outcome.parted, None, "{version}, {steps:?}");
            assert_eq!(outcome.equal, steps.len(), "{version}, {steps:?}");
        }
        is_equal(version, TWO_CPUS, Kinds::of("glxc"));
    }
}

#[test]
fn a_cpuset_moves_its_tasks_as_by_the_c() {
    use Action::{Affinity, Cpuset, Group, Move, ReadTime};
    // A task that runs reads its time: on CPU 0, then on CPU 1, each time not on the other one.
    // While its cpuset has CPU 1 only it cannot ask for CPU 0, behind its move it can.
    let steps = [
        (0, Group(0)),
        (0, fork(1)),
        (0, Cpuset(1, 1)),
        (0, ReadTime),
        (1, ReadTime),
        (0, Cpuset(1, 2)),
        (1, ReadTime),
        (0, ReadTime),
        (0, Affinity(0, 1)),
        (0, Move(0, 0)),
        (0, Affinity(0, 1)),
        (0, Cpuset(0, 2)),
    ];
    let step = |(cpu, action)| Step {
        after_ns: 1_000_000,
        cpu,
        action,
    };
    let history = History {
        shape: TWO_CPUS,
        steps: steps.map(step).to_vec(),
        ..on_one_cpu(&[])
    };
    for version in [
        "5.10.223", "6.1.176", "6.12.107", "6.18.15", "7.1.13", "7.3.4",
    ] {
        let Some(object) = full_object(version) else {
            continue;
        };
        let outcome = run(&object, version, &history).unwrap();
        assert_eq!((outcome.parted, outcome.equal), (None, 8), "{version}");
        is_equal(version, TWO_CACHES, Kinds::of("glxqc"));
    }
}

#[test]
fn a_timer_that_another_cpu_cancelled_keeps_its_place_as_by_the_c() {
    // CPU 6 frees a group whose period timer waits on CPU 1. The timer of a deadline task, which
    // idle CPU 0 sets for later, goes to CPU 1 nevertheless: its device is still programmed for the
    // timer that is gone.
    let Some(object) = full_object("6.18.15") else {
        return;
    };
    let history = draw(13, SHAPES[7], Kinds::of("glxrcefvu"), 500);
    let outcome = run(&object, "6.18.15", &history).unwrap();
    assert_eq!(outcome.parted, None);
    assert_eq!(outcome.equal, 298);
}

#[test]
fn a_hundred_waiting_tasks_of_a_group_are_as_by_the_c() {
    // From 91 on the sum of their runnable time, which the group hands on, wraps from 5.17 to 7.1.
    let mut steps = vec![(1, Action::Group(0))];
    steps.extend([(1, fork(1)); 100]);
    // One that waited outside joins them when their averages are full.
    steps.push((1, fork(0)));
    steps.extend([(5, Action::Rest); 100]);
    steps.extend([(1, Action::Move(100, 1)), (5, Action::Rest)]);
    for version in [
        "5.10.223", "6.1.176", "6.12.107", "6.18.15", "7.1.13", "7.2.12", "7.3.4",
    ] {
        let Some(object) = full_object(version) else {
            continue;
        };
        let history = on_one_cpu(&steps);
        let outcome = run(&object, version, &history).unwrap();
        assert_eq!((outcome.parted, outcome.equal), (None, 204), "{version}");
        if version == "6.12.107" {
            let mended = run(&object, "6.12.110", &history).unwrap();
            assert!(mended.parted.is_some());
        }
    }
}

#[test]
fn a_folder_without_kernel_sources_is_refused_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let error = Builder::new(folder.path(), Config::default()).unwrap_err();
    let text = error.to_string();
    assert_contains(
        &text,
        "is not a tree of kernel sources: there is no Makefile",
    );
}
