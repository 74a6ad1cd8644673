//! The rules against the C of trees that are at hand: a few seconds. `make oracle` does the same
//! for long.

mod built;

use built::object;
use schedcast_tree::lockstep::{Kinds, Shape, draw, run};
use schedcast_tree::{Builder, config::Config};

fn is_equal(version: &str, shape: Shape, kinds: Kinds) {
    let mut config = Config::default();
    if kinds.clamps {
        config.set("UCLAMP_TASK", "y");
    }
    if shape.energy {
        config.set("ENERGY_MODEL", "y");
    }
    let Some(object) = object(version, config) else {
        return;
    };
    for seed in 1..=4 {
        let outcome = run(&object, version, &draw(seed, shape, kinds, 300)).unwrap();
        assert_eq!(outcome.parted, None, "seed {seed}");
        assert!(outcome.equal > 60);
    }
}

#[test]
fn groups_with_limits_on_one_cpu_are_as_by_the_c_of_5_10() {
    is_equal("5.10.223", Shape::ONE_CPU, Kinds::LIMITED);
}

#[test]
fn tasks_on_two_caches_are_as_by_the_c_of_5_10() {
    is_equal("5.10.223", TWO_CACHES, Kinds::TASKS);
}

#[test]
fn groups_with_limits_on_one_cpu_are_as_by_the_c_of_6_12() {
    is_equal("6.12.107", Shape::ONE_CPU, Kinds::LIMITED);
}

#[test]
fn groups_with_limits_on_one_cpu_are_as_by_the_c_of_6_18() {
    is_equal("6.18.15", Shape::ONE_CPU, Kinds::LIMITED);
}

#[test]
fn groups_with_limits_on_one_cpu_are_as_by_the_c_of_7_1() {
    is_equal("7.1.13", Shape::ONE_CPU, Kinds::LIMITED);
}

#[test]
fn all_kinds_on_one_cpu_are_as_by_the_c_of_7_3() {
    is_equal("7.3.4", Shape::ONE_CPU, Kinds::ALL);
}

#[test]
fn tasks_on_two_cpus_are_as_by_the_c_of_6_12() {
    is_equal(
        "6.12.107",
        Shape {
            cores: 2,
            ..Shape::ONE_CPU
        },
        Kinds::TASKS,
    );
}

#[test]
fn tasks_on_two_cpus_are_as_by_the_c_of_6_18() {
    is_equal(
        "6.18.15",
        Shape {
            cores: 2,
            ..Shape::ONE_CPU
        },
        Kinds::TASKS,
    );
}

const FOUR_CPUS: Shape = Shape {
    cores: 2,
    smt: 2,
    ..Shape::ONE_CPU
};

#[test]
fn all_kinds_on_four_cpus_are_as_by_the_c_of_6_12() {
    is_equal("6.12.107", FOUR_CPUS, Kinds::ALL);
}

#[test]
fn groups_with_limits_on_two_caches_are_as_by_the_c_of_6_18() {
    let shape = Shape {
        llcs: 2,
        cores: 4,
        ..Shape::ONE_CPU
    };
    is_equal("6.18.15", shape, Kinds::LIMITED);
}

const TWO_CACHES: Shape = Shape {
    llcs: 2,
    cores: 4,
    ..Shape::ONE_CPU
};

/// Threads of up to eight processes, some of which prefer a cache and come to it.
fn processes_are_equal(version: &str) {
    use schedcast_kernel::model::{Mark, take_reached};
    take_reached();
    is_equal(version, TWO_CACHES, Kinds::TASKS);
    if object(version, Config::default()).is_some() {
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
    let shape = Shape {
        sockets: 2,
        cores: 16,
        smt: 2,
        ..Shape::ONE_CPU
    };
    is_equal("7.3.4", shape, Kinds::ALL);
}

#[test]
fn switches_of_sched_features_turn_the_same_rules_as_in_the_c_of_6_12() {
    let kinds = Kinds {
        features: true,
        ..Kinds::ALL
    };
    is_equal("6.12.107", Shape::ONE_CPU, kinds);
}

#[test]
fn clamps_of_tasks_and_groups_count_as_by_the_c_of_6_18() {
    let shape = Shape {
        cores: 4,
        capacities: &[512, 512, 1024, 1024],
        ..Shape::ONE_CPU
    };
    let kinds = Kinds {
        groups: true,
        real_time: true,
        clamps: true,
        ..Kinds::TASKS
    };
    is_equal("6.18.15", shape, kinds);
}

#[test]
fn preferred_cpus_take_tasks_as_by_the_c_of_6_18() {
    let shape = Shape {
        cores: 4,
        smt: 2,
        priorities: &[45, 40, 30, 30],
        ..Shape::ONE_CPU
    };
    is_equal("6.18.15", shape, Kinds::TASKS);
}

#[test]
fn a_wrong_rule_is_found() {
    let Some(object) = object("6.12.107", Config::default()) else {
        return;
    };
    // 6.5 still has CFS: nothing that is picked by deadlines can be equal to it.
    let outcome = run(&object, "6.5", &draw(1, Shape::ONE_CPU, Kinds::TASKS, 300)).unwrap();
    let (_, differences) = outcome.parted.expect("the two part");
    assert!(!differences.is_empty());
}

#[test]
fn a_folder_without_kernel_sources_is_refused_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let error = Builder::new(folder.path(), Config::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("is not a tree of kernel sources: there is no Makefile"),
        "{text}"
    );
}

/// Four CPUs of capacity 446 and four of 1024, a cache for each four.
const BIG_LITTLE: Shape = Shape {
    llcs: 2,
    cores: 4,
    capacities: &[446, 446, 446, 446, 1024, 1024, 1024, 1024],
    ..Shape::ONE_CPU
};

#[test]
fn tasks_on_cpus_of_unequal_capacity_are_as_by_the_c_of_6_12() {
    is_equal("6.12.107", BIG_LITTLE, Kinds::TASKS);
}

#[test]
fn tasks_on_cpus_of_unequal_capacity_are_as_by_the_c_of_6_18() {
    is_equal("6.18.15", BIG_LITTLE, Kinds::TASKS);
}

#[test]
fn tasks_on_cpus_of_unequal_capacity_are_as_by_the_c_of_7_3() {
    is_equal("7.3.4", BIG_LITTLE, Kinds::TASKS);
}

/// Three clusters with clocks of their own and an energy model.
const THREE_CLUSTERS: Shape = Shape {
    cores: 6,
    capacities: &[320, 320, 700, 700, 1024, 1024],
    energy: true,
    ..Shape::ONE_CPU
};

const CLAMPED: Kinds = Kinds {
    clamps: true,
    changes: true,
    ..Kinds::TASKS
};

#[test]
fn tasks_are_placed_by_energy_as_by_the_c_of_6_12() {
    is_equal("6.12.107", THREE_CLUSTERS, CLAMPED);
}

#[test]
fn tasks_are_placed_by_energy_as_by_the_c_of_6_18() {
    is_equal("6.18.15", THREE_CLUSTERS, CLAMPED);
}

#[test]
fn tasks_are_placed_by_energy_as_by_the_c_of_7_3() {
    is_equal("7.3.4", THREE_CLUSTERS, CLAMPED);
}
